// What each kind of finding means, how it is computed, what to do about it, and
// when it would not be true.

#include "opprof/Report/FindingExplanation.h"
#include "opprof/Report/FindingText.h"
#include "opprof/Support/Units.h"

#include "Page.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using namespace opprof::report;

namespace {
struct Explanation {
  FindingKind kind;
  StringLiteral means, computed, remedy, untrue;
};
} // namespace

static constexpr Explanation kExplanations[] = {
    {FindingKind::WallTime,
     "Where a step's time goes: kernels, copies that no kernel hides, and idle "
     "time, with what the host did meanwhile.",
     "The union of the kernels over all streams, the copies outside of it, and "
     "the rest of the span of the steady steps; idle time is given to what "
     "the host was in: compiled code, a wait for the device, something else.",
     "Nothing by itself: it says which of the others to read. Much kernel "
     "time asks for faster kernels, much idle time for fewer or earlier "
     "launches.",
     "Where steps are not what you take them for (see steps_from in the "
     "profile), or another process shared the device."},
    {FindingKind::DeviceBusy,
     "How much of the time the device ran a kernel, and why it was idle "
     "otherwise: the host was late with the launch, or the launch was queued.",
     "Idle time, which is the cost (of several devices its mean, and each has "
     "its own), is split at the end of the launch call of the kernel after "
     "it: until then the host was late, after that the "
     "launch was queued. It is launch-bound where the device is idle for "
     "over 25 % and launches that were late, by a millisecond at most, are "
     "over half of that. The "
     "largest gaps name the kernel or copy that ended them and what the host "
     "did for most of them (enumerate(DataLoader)… is waiting for data). "
     "Beside it stand how long kernels wait from the end of their launch call "
     "to their start, and, from the profiler's estimates, occupancy and SM "
     "efficiency: blocks over SMs, at most 1, weighted by time, over wall "
     "time.",
     "Launch less (fusion, larger batches), launch earlier (no waits, data "
     "loaded ahead), or launch all at once: a CUDA graph (`mode=\"reduce-"
     "overhead\"`).",
     "Where the profiler itself slowed the host: time that it says it took is "
     "stated apart, what it does not say is not."},
    {FindingKind::SmallKernels,
     "Many kernels are so short that starting them costs as much as they do.",
     "Kernels under 10 µs, or shorter than their own launch call; the cost is "
     "the idle time between one and the next, of gaps up to 100 µs; of several "
     "devices its mean, and each has its own.",
     "Fuse them (torch.compile, a rewrite of `opprof recommend`), put "
     "optimizer steps into foreach or fused forms, or replay a CUDA graph.",
     "Where the gaps have another cause: the finding device-busy names what "
     "the host did in the largest."},
    {FindingKind::NoArithmetic,
     "Launches that only move data: copies, casts, changes of layout, gathers.",
     "The cost model gives them bytes but no FLOPs; reductions are left out. "
     "The cost is their time.",
     "Find the line that makes them: .contiguous(), .to(dtype), transposes "
     "before products, weights in another layout than the kernel takes.",
     "Where the launch map could not tell what a kernel computes, or the data "
     "has to be in that form for somebody else."},
    {FindingKind::Synchronizations,
     "The host waits for the device, and the device then waits for the host.",
     "Calls that synchronize, in the steady steps; the cost is the device's "
     "idle time during them.",
     "Take .item(), .cpu(), print and boolean tests of tensors out of the "
     "step, copy with non_blocking=True, or do it every hundredth step.",
     "Where the wait ends the step on purpose, as a benchmark does: the "
     "device was done, and the idle time is what follows."},
    {FindingKind::HostCopies,
     "Copies between host and device inside the steps.",
     "Their time, their bytes, and whether the host's memory is pageable, "
     "which "
     "blocks the host. The cost is the time in which the device runs no kernel "
     "beside them (of several devices its mean, and each has its own).",
     "Pin the memory (pin_memory=True), copy with non_blocking=True on a "
     "stream of its own, or keep the data on the device.",
     "Where another device, or the host, would have been waited for anyway."},
    {FindingKind::BiasCopies,
     "A copy puts the bias where a matrix product adds to it, because the "
     "library could not add it at the end of the product.",
     "Copies on the device that an addmm or baddbmm follows on the same "
     "stream. The cost is their time.",
     "Let the product be compiled (its epilogue adds the bias), give the bias "
     "the shape and dtype that the library fuses, or use a Linear.",
     "Where the copy is of something else that happens to come before a "
     "product."},
    {FindingKind::SerializedWork,
     "Kernels that could run at the same time run one after another.",
     "Kernels of compiled graphs that follow one another on a stream, of which "
     "none reads or writes what another one writes, by the buffers of the "
     "launch map, directly or through others. They count as a group while "
     "their blocks together are at most as many as the device has "
     "multiprocessors, so that each would run as fast beside the others. The "
     "cost is what a group takes beyond its longest kernel.",
     "Let Inductor combine them (torch._inductor.config.combo_kernels = "
     "True), make one operator of them (torch.bmm, torch._foreach), or launch "
     "them on streams of their own inside a CUDA graph.",
     "Where they wait for the same memory, or a kernel of the program runs on "
     "another stream meanwhile."},
    {FindingKind::Communication,
     "Time in collectives, and how much of it no other kernel covers.",
     "Kernels of NCCL, RCCL or another library of collectives on the busiest "
     "device; exposed is what is outside of the "
     "union of its other kernels, and the cost. Where several devices are in a "
     "recording, each has its own figures, and what it waits until the last "
     "one has begun the same collective.",
     "Overlap it (DDP's buckets, FSDP's prefetch), send less (a lower "
     "precision, larger accumulation), or even the ranks out.",
     "A rank that waits for others inside a collective looks busy in it: of "
     "recordings of one rank each, `opprof merge` tells skew from transfer."},
    {FindingKind::ColdStart,
     "The recording has warm-up steps, which take longer than steady ones.",
     "Steps in which something was compiled, or a CUDA graph recorded.",
     "Nothing, where it is the first steps; where it recurs, look for "
     "recompilations (`TORCH_LOGS=recompiles`) and dynamic shapes.",
     "Where a steady step does other work than the warm-up."},
    {FindingKind::Variation,
     "Some runs of a launch take much longer than the same launch usually.",
     "Launches of at least five runs of which some take over half as long "
     "again as the median, where that makes 1 % of kernel time. The cost is "
     "what is above the median.",
     "Look at what runs beside it: another stream, another process, a clock "
     "that is throttled; or at data whose sizes change.",
     "Where the launch does other work in those steps."},
    {FindingKind::Roofline,
     "What each launch could take on this device, and what bounds it: compute, "
     "memory, its launch, or latency.",
     "FLOPs over the ceiling of compute and bytes over that of memory, from "
     "the cost model and what was measured of the device, or else the table; "
     "counters decide the class "
     "where there are any. Without them a launch at under half of its roof is "
     "of unknown bound, unless its grid leaves the device unfilled or its call "
     "takes longer. The cost is the time above the roof.",
     "Compute-bound: lower precision, tensor cores. Memory-bound: fuse, "
     "smaller types. Latency- or launch-bound: larger or fewer launches.",
     "Where data came from a cache (a share above 100 %), the ceilings are of "
     "a datasheet, or the clock was capped."},
    {FindingKind::TensorCoresIdle,
     "Matrix products, convolutions or attention that do not use tensor cores.",
     "By the counter of the tensor pipe, under 1 % of the cycles; without "
     "counters, by kernels of a family that does not use it: of one of no "
     "known family nothing is said. Depthwise convolutions and products with "
     "a vector have no use for it. The cost is the time above what tensor "
     "cores would allow.",
     "torch.set_float32_matmul_precision(\"high\") for tf32, autocast for "
     "bf16, and sizes that are multiples of 8. Check the error: `opprof "
     "validate` does.",
     "Where the kernel uses them under a name that is not known, or fp32's "
     "precision is needed."},
    {FindingKind::SpeedOfLight,
     "How near to the peaks of compute and of memory the kernels run.",
     "Counters, weighted by time: over 80 % of a peak is near it, under half "
     "of both is far from both. The longest launches are listed with their "
     "shares, hit rates and occupancy.",
     "Near a peak: do less work. Far from both: more parallel work, fewer "
     "dependencies.",
     "Where counted launches are not typical of the rest: it says how much of "
     "the time was counted."},
    {FindingKind::MemoryTraffic,
     "Launches move more bytes through DRAM than their inputs and outputs "
     "have.",
     "The counter of DRAM bytes against the cost model's fewest bytes, over "
     "one and a half times; the cost is the excess at the memory's ceiling.",
     "Better reuse: smaller working sets, another tiling or order of axes, "
     "contiguous inputs.",
     "Where a kernel reads its data twice because the algorithm does, or the "
     "caches were flushed for counting."},
    {FindingKind::LowOccupancy,
     "Latency-bound launches have too few warps in flight to hide waiting.",
     "Counters: under half of both peaks with under half of the warps that "
     "fit. What limits them is computed from the launch and the device's "
     "sizes: the grid, registers, shared memory, the size of blocks, or a "
     "last wave that is filled in part.",
     "What limits them says it: larger grids, fewer registers or less shared "
     "memory a block, blocks of another size.",
     "Where a kernel hides latency by instruction-level parallelism, as "
     "matrix products do."},
    {FindingKind::LocalMemory,
     "Kernels keep values in local memory: spilled registers or arrays.",
     "Counters of local memory's traffic.",
     "Smaller tiles, fewer values at once, no arrays with indices that vary.",
     "Where the traffic stays in L1 and costs little: compare their time with "
     "the roof."},
    {FindingKind::BankConflicts,
     "Threads of a warp reach for the same bank of shared memory.",
     "Counters (set memory): conflicts in over 10 % of the active cycles. The "
     "cost is that share of their time.",
     "Pad or swizzle the tile in shared memory.",
     "Where another wait hides them."},
    {FindingKind::ScatteredAccess,
     "Threads of a warp reach for global memory far apart.",
     "Counters (set memory): over 16 sectors a request.",
     "Make the innermost axis contiguous, or gather through shared memory.",
     "Where the access is a gather by nature, as an embedding is."},
    {FindingKind::Stalls, "What warps wait for most.",
     "Counters (set stalls): the reason that leads, weighted by the time of "
     "the launches that it leads in.",
     "The sentence of the finding says what the reason asks for.",
     "Where enough warps are ready all the same: issue slots are full."},
    {FindingKind::Pipes, "Which of the device's pipes take most instructions.",
     "Counters (set pipes): the pipe that leads (tensor, FMA, ALU, special "
     "functions, loads and stores, FP64), weighted by the time of the "
     "launches that it leads in.",
     "Use another pipe: tensor cores for multiply-adds, approximate special "
     "functions, fewer index computations.",
     "Where the kernels wait for memory and no pipe is busy."},
    {FindingKind::Divergence,
     "Threads of a warp do different things, and wait for one another.",
     "Counters: under 24 active threads a warp, where that makes 1 % of kernel "
     "time. The cost is the share of idle threads.",
     "Branch by warp and not by thread, or sort the work.",
     "Where the grid's edge leaves threads without work: a larger input does "
     "not show it."},
    {FindingKind::Goodput,
     "How much of the device the program's arithmetic makes use of.",
     "FLOPs by the cost model over wall time, and their share of the peak of "
     "the type that most of them are of (MFU); of what share of kernel time "
     "FLOPs are known.",
     "Nothing by itself: the findings with a cost say what takes the rest. "
     "It is the figure to compare machines and batches by.",
     "Where FLOPs of much kernel time are not known, or the peak is a "
     "datasheet's."},
    {FindingKind::LayoutConversions,
     "A library turns what convolutions take and give from one layout into the "
     "other, because its kernel wants another one than the tensors have.",
     "Kernels that cuDNN and MIOpen have for that, by their names, of any "
     "program. The cost is their time.",
     "Keep model and inputs in channels-last: model.to(memory_format="
     "torch.channels_last), and the same of what it is called with.",
     "Where operators between the convolutions are slower in that layout, or "
     "are none that keep it."},
    {FindingKind::UnfusedAttention,
     "Attention ran as products and a softmax, and not as one kernel.",
     "Calls of scaled_dot_product_attention with the kernels that they "
     "launched, and what FlashAttention and memory-efficient attention refuse "
     "of their inputs: type, rank, size or alignment of heads, a mask "
     "(programs without a graph, shapes recorded). The cost is their time.",
     "Give them what they take: fp16 or bf16, four dimensions, heads of a "
     "size that is a multiple of 8, no mask or is_causal=True.",
     "Where the library was turned off on purpose, or the inputs are so small "
     "that products are faster."},
    {FindingKind::DataLoadingWaits,
     "The program waits for its data loader, and computes nothing meanwhile.",
     "The time inside `enumerate(DataLoader)` on the thread that iterates, in "
     "steady steps, where it is a tenth of them or more.",
     "Give the DataLoader workers (num_workers, persistent_workers, "
     "prefetch_factor), or do less for each sample.",
     "On a GPU, where kernels that were launched before go on meanwhile: "
     "device-busy says whether it idles."},
    {FindingKind::Recompilation,
     "A function is compiled in steady steps, again and again.",
     "The ranges that torch.compile marks round its compilations, by the line "
     "that called the compiled function.",
     "TORCH_LOGS=recompiles names the guard that failed; mark what changes "
     "with torch._dynamo.mark_dynamic, or keep it the same.",
     "Where the program was recorded for so short that every step is among its "
     "first."},
    {FindingKind::GarbageCollection,
     "Python looks for garbage among all of its objects, and the program "
     "waits.",
     "Collections of 50 µs and more in steady steps, by the line that they "
     "began at: of those that the program asks for, the line that does.",
     "Take gc.collect() out of the step. Where Python begins them itself: "
     "gc.freeze() before the loop, so that what lives for ever is not looked "
     "at again, or gc.disable() and a collection every hundredth step.",
     "Where the garbage is large tensors in cycles that would fill the "
     "memory: break the cycles."},
    {FindingKind::CheckpointWriting,
     "The program writes a checkpoint in steady steps, and waits for it.",
     "The time inside torch.save, by the line that called it.",
     "Save every thousandth step; copy the state to the host and write it in "
     "a thread; torch.distributed.checkpoint.async_save does both.",
     "Where the recording has more checkpoints than the program usually "
     "makes."},
    {FindingKind::HostCode,
     "The program's own code runs for long while no operator does.",
     "Times of 100 µs and more in which no operator ran, nor an optimizer, a "
     "data loader, a collection of garbage, a compilation or torch.save, "
     "between two lines outside of a backward pass; the median of the steady "
     "steps, where it is a tenth of them or more. On a GPU, what its kernels "
     "do not cover.",
     "Look at what lies between the two lines, and at what the second one "
     "calls: tokenizing, augmentation, logging, metrics, files, sleeping. "
     "Move it into the workers of a DataLoader, into a thread, or out of the "
     "loop.",
     "Where a library of C's computes there without PyTorch, as NumPy does: "
     "that is work, and not waiting."},
    {FindingKind::NormalizationByHand,
     "A normalization written as several operators, each a kernel that reads "
     "and writes all of its input.",
     "A mean or variance, a root and a product or quotient of two tensors, of "
     "one module's forward pass, within four lines of the program. The cost is "
     "their time, "
     "on a CPU with that of calling them, less what one operator in their "
     "place takes: as long as the middle one of them, and twice that in the "
     "backward pass. On a GPU the steps are played again without it, as for "
     "host-wait.",
     "What torch.nn.functional has for it: layer_norm or rms_norm over the "
     "last dimensions, group_norm over groups of channels, batch_norm over "
     "the batch; or torch.compile of the module. On a CPU rms_norm runs the "
     "same operators as by hand, and saves nothing.",
     "Where what is computed is none of these."},
    {FindingKind::AttentionByHand,
     "Attention written as two products with a softmax between, whose scores "
     "go through memory several times.",
     "A softmax with a product at most six operators before and after it, in "
     "one module's forward pass. The cost is what one product takes longer "
     "than the other, which has the same arithmetic, and the time of what "
     "comes between them and of its backward pass, less a product that is "
     "computed again there, and on a CPU less the softmax. On a GPU the steps "
     "are played again without it, as for host-wait.",
     "torch.nn.functional.scaled_dot_product_attention.",
     "Where the scores themselves are used, or the fused operator refuses the "
     "inputs (attention-not-fused says why)."},
    {FindingKind::PrecisionIsland,
     "Products in float32, in a program that does most of them in bfloat16 or "
     "float16.",
     "The type of a product's first input, as autocast casts it, or as the "
     "library's kernel is called. The cost is the time of forward and "
     "backward pass above what the program's other products take for as many "
     "FLOPs (without sizes, above what the rates of the device allow), with "
     "the casts on the line. On a GPU the steps are played again without it, "
     "as for host-wait.",
     "Leave autocast on there, or cast what made the input wider.",
     "Where the result needs float32: a loss, a router, positions. Smaller "
     "products than the others are slower for being small."},
    {FindingKind::GradientLoop,
     "Gradients are clipped or measured one parameter after the other.",
     "Norms outside of modules and optimizers, or sums of squares of tensors "
     "of several sizes, eight times a step or more at one line. The cost is "
     "what calling the operators of that line and those "
     "round it takes: each as much as the least of them. On a GPU the steps "
     "are played again without it, as for host-wait.",
     "torch.nn.utils.clip_grad_norm_(parameters, norm, foreach=True).",
     "Where each parameter's norm is wanted by itself: "
     "torch._foreach_norm gives all of them."},
    {FindingKind::OptimizerLoop,
     "The optimizer steps each parameter by operators of its own.",
     "Thirty operators a step or more inside `Optimizer.step`, none of them "
     "fused or foreach. The cost is their time, on a CPU with that of calling "
     "them, less what the longest of them takes of each parameter. On a GPU "
     "the steps are played again without it, as for host-wait.",
     "fused=True, or foreach=True where there is no fused form. An optimizer "
     "of the program's own can call torch._foreach_ functions on lists of "
     "parameters.",
     "Where a few large parameters take most of the time: their arithmetic "
     "stays."},
    {FindingKind::ParameterLoop,
     "A loop of the program's own changes its parameters, a running mean of "
     "them or other tensors, one after the other, or sums up a term of the "
     "loss over them.",
     "Operators that change a tensor in place (add_, mul_, lerp_, copy_, "
     "addcmul_, addcdiv_ and the like), or make another in its place (add, "
     "mul, lerp and the like, with the same sizes in each step), outside of "
     "modules, optimizers and the backward pass, eight times a step or more at "
     "one line with nothing of "
     "other lines between, on tensors of several sizes. Those within four "
     "lines count with it; lines with a product of matrices are left out, and "
     "programs without steps. In a forward pass most of the sizes have to be "
     "those of gradients, and the backward pass counts with it. The cost is an "
     "estimate of what calling them "
     "takes, each as much as the least of them, less that of one call of each "
     "kind.",
     "An optimizer of torch.optim with fused=True or foreach=True in place of "
     "a step by hand; for a running mean torch.optim.swa_utils.AveragedModel "
     "with multi_avg_fn=get_ema_multi_avg_fn(decay); or torch._foreach_mul_, "
     "_foreach_add_ and _foreach_lerp_ on lists of all of them. A term of the "
     "loss is one of torch.nn.utils.parameters_to_vector(parameters).",
     "Where a few large parameters take most of the time: their arithmetic "
     "stays, and is no part of the cost. Tensors that are no parameters "
     "(inputs "
     "of a CUDA graph that are copied one by one) look the same; the functions "
     "on lists are for them as well."},
    {FindingKind::OperatorLoop,
     "One line calls small operators over and over within a step.",
     "An operator of a forward pass that one line calls eight times a step "
     "or more in one module, where each call takes under 10 µs on a GPU or "
     "30 µs on a CPU, with those within four lines of it that are called as "
     "often, and their backward pass; where that would save 5 % of the steps "
     "or more. Loops over the model's own layers are left out (four modules "
     "or more at those lines), tensors of another size each time, a model that "
     "is called over and over (most of "
     "what runs meanwhile is of other lines), and programs without steps. The "
     "cost is an estimate: their time, with that of calling them, less what "
     "one call of each takes.",
     "One call for all: a dimension more instead of a loop over samples, heads "
     "or time (torch.stack, broadcasting, torch.vmap, nn.LSTM for a recurrence "
     "by hand). Where each needs the one before, torch.compile or a CUDA graph "
     "of the loop.",
     "Where each round needs the result of the one before, one call cannot do "
     "them; only what calling costs can be saved then."},
    {FindingKind::HostWait,
     "The program waits at a line until the device is done with what it was "
     "given, and has nothing for it afterwards.",
     "Calls that wait for the device in the steady steps, by the line whose "
     "operator made them (`item`, `nonzero`, `print` of a tensor) or that "
     "called torch.cuda.synchronize. The cost is an estimate of what the steps "
     "would be shorter by if the line did not wait: host and device are played "
     "again from the times of all calls and kernels, without it. Kernels keep "
     "their times and their order, calls what lies between them. Where that "
     "does not give the steps as they were, within 10 %, nothing is said.",
     "Leave the value on the device and read it every so many steps; "
     "non_blocking copies with an event; torch.where instead of a boolean "
     "index; no torch.cuda.synchronize in a loop.",
     "Where another line would wait in its place, as for the next batch: each "
     "cost is of one line alone."},
    {FindingKind::CollectiveWait,
     "The program waits at a line until other ranks are done with a "
     "collective, or with what is sent to it or by it.",
     "Time on the host in Work.wait, and in calls of torch.distributed that "
     "wait by themselves, as those of gloo do, where it is 20 µs or more at a "
     "time; named from a tenth of the step on. The cost is all of it, which is "
     "the most that could be saved: what is sent takes its time as well.",
     "Even out what the ranks have to do (batches of one length, a rank that "
     "loads data more slowly); send less (fewer, larger collectives, a "
     "narrower type, gradients summed over several batches); begin the "
     "collective earlier (async_op=True) and wait for it where its result is "
     "used.",
     "Where the rank has nothing to do meanwhile, and the others come to it as "
     "soon as they can. What DistributedDataParallel waits for within "
     "backward, in C++, has no line and is not in it."},
    {FindingKind::PageableCopies,
     "Copies to the device from memory of the host that the system may move: "
     "the driver copies them once more, and the program waits meanwhile.",
     "Copies whose kind says Pageable, by the line of their operator, with the "
     "waits of that operator there. The cost is an estimate of what the steps "
     "would be shorter by if they were as fast as the program's pinned copies, "
     "or 20 GB/s, and it did not wait for them: host and device are played "
     "again from their times, as for host-wait.",
     "pin_memory=True of the DataLoader, or tensor.pin_memory(), and "
     ".to(device, non_blocking=True).",
     "Where the memory is pinned in the step itself: that copies it as well. "
     "Copies to the host are waits, where the program waits for them."},
    {FindingKind::GradientSets,
     "zero_grad writes zeros, to which the backward pass adds.",
     "What `Optimizer.zero_grad` runs, and what adds gradients to it in the "
     "backward pass. The cost is their time. On a GPU the steps are played "
     "again without it, as for host-wait.",
     "zero_grad(set_to_none=True), which is the default.",
     "Where gradients are views that something else holds on to, as some "
     "reducers do."},
    {FindingKind::DenseEmbeddingGradient,
     "The gradient of an embedding is as large as its table, of which a step "
     "uses some rows.",
     "The backward operators of embeddings, where they take 5 % of a step or "
     "more, with the part of the optimizer's time that their tables are of the "
     "parameters. The cost is that time.",
     "sparse=True with an optimizer that takes sparse gradients (SparseAdam, "
     "SGD, Adagrad).",
     "Where most rows are used in every step, or the optimizer moves all of "
     "them by its momentum."},
    {FindingKind::CacheLookups,
     "Before compiled code runs, Dynamo evaluates guards, one compilation "
     "after "
     "the other, to find the one that fits, while the device has nothing to "
     "do.",
     "The ranges `TorchDynamo Cache Lookup` in the steady steps, which count "
     "once where one is in another. The cost is the idle time during them; "
     "under 1 % of the steps nothing is said.",
     "Compile one function round what is called in a step instead of several; "
     "keep sizes and flags from changing, or mark them "
     "(torch._dynamo.mark_dynamic), so that there are fewer compilations to "
     "try; where modules and globals stay as they are, leave out their guards: "
     "torch.compile(model, options={\"guard_filter_fn\": "
     "torch.compiler.skip_guard_on_all_nn_modules_unsafe}), which is wrong if "
     "they do change.",
     "Where the profiler slows the host: the range itself takes some "
     "microseconds, which count."},
    {FindingKind::MemoryGrowth,
     "More memory is held after each step than after the one before.",
     "What is allocated at one line and held at the ends of the steady steps "
     "(`opprof run --memory`): never less, and more after at least half of the "
     "steps of each half of the recording, of six or more; told where a "
     "thousand steps would take as much as the peak.",
     "Find what keeps the tensors: a list of losses or outputs, a cache "
     "without "
     "a limit, a hook. Keep numbers (item()) or detach() what is kept: a "
     "tensor "
     "with a gradient keeps all that it was computed from.",
     "Where it is meant, as in a buffer that fills up later than the recording "
     "ends."},
};

static_assert(std::size(kExplanations) == kNumFindingKinds,
              "every kind of finding is explained");

/// What differs on a CPU, where nothing is launched.
static StringRef remedyOnCPU(FindingKind kind) {
  switch (kind) {
  case FindingKind::DeviceBusy:
    return "Call less: torch.compile fuses operators and leaves out what "
           "Python "
           "and PyTorch do between them; larger batches make it matter less.";
  case FindingKind::SmallKernels:
    return "Fuse them (torch.compile), or put optimizer steps into foreach or "
           "fused forms.";
  default:
    return "";
  }
}

/// What to do where operators leave the processor idle for longer than calling
/// them takes, which are tens of microseconds each; empty where they don't.
static std::string remedyOfIdleCPU(const evidence::DeviceBusy &busy) {
  constexpr int64_t kLongNs = 200'000;
  if (!busy.gaps || busy.idleNs / static_cast<int64_t>(busy.gaps) < kLongNs)
    return "";
  return "Find what the program does between its operators, as calling them "
         "takes far less: it waits, computes without PyTorch, or other "
         "processes have the processor. record_function() round the parts of "
         "a step, or with_stack=True, shows which.";
}

/// Whether anything in the profile is of PyTorch: a program that only calls
/// CUDA has none of its operators, graphs and kernels.
static bool showsPyTorch(const Profile &profile) {
  if (hasGraph(profile) || !profile.operators.empty() ||
      !profile.calls.empty() || !profile.launches.empty() ||
      (profile.run && !profile.run->torch.empty()))
    return true;
  constexpr StringLiteral kParts[] = {"at::", "c10::", "triton_", "torch",
                                      "aten::"};
  // TensorRT's genericReformat:: is none of them.
  auto begins = [](StringRef name, StringRef part) {
    size_t at = name.find(part);
    while (at != StringRef::npos && at && isAlpha(name[at - 1]))
      at = name.find(part, at + 1);
    return at != StringRef::npos;
  };
  return llvm::any_of(profile.kernels, [&](const Activity &kernel) {
    return llvm::any_of(
        kParts, [&](StringRef part) { return begins(kernel.name, part); });
  });
}

/// Whether most kernels are replayed from a CUDA graph.
static bool replaysGraphs(const Profile &profile) {
  auto replayed = llvm::count_if(
      profile.kernels, [](const Activity &kernel) { return kernel.cudaGraph; });
  return 2 * static_cast<size_t>(replayed) > profile.kernels.size();
}

/// What is left to do where kernels are launched all at once already.
static StringRef remedyOfReplays(FindingKind kind) {
  switch (kind) {
  case FindingKind::DeviceBusy:
    return "Run fewer kernels: fuse them, or make batches larger. A CUDA graph "
           "replays them already, and the device is idle between its kernels "
           "and from one replay to the next.";
  case FindingKind::SmallKernels:
    return "Fuse them (torch.compile, a rewrite of `opprof recommend`): a CUDA "
           "graph replays them already, and each costs the device its start.";
  default:
    return "";
  }
}

/// What differs in a program that calls CUDA itself.
static StringRef remedyInCUDA(FindingKind kind) {
  switch (kind) {
  case FindingKind::DeviceBusy:
    return "Launch less (one kernel for several), launch earlier (no waits, "
           "input ready ahead), or launch all at once: capture the step in a "
           "CUDA graph (cudaStreamBeginCapture, cudaGraphLaunch).";
  case FindingKind::SmallKernels:
    return "Make one kernel of several, call batched forms of libraries, or "
           "capture the step in a CUDA graph (cudaStreamBeginCapture, "
           "cudaGraphLaunch).";
  case FindingKind::Synchronizations:
    return "Take cudaDeviceSynchronize and blocking copies out of the step: "
           "let streams wait for events (cudaStreamWaitEvent), and wait for "
           "results once, at the end.";
  case FindingKind::HostCopies:
    return "Pin the memory (cudaMallocHost), copy with cudaMemcpyAsync on a "
           "stream of its own, or keep the data on the device.";
  case FindingKind::BiasCopies:
    return "Let the product add the bias at its end (cublasLtMatmul with "
           "CUBLASLT_EPILOGUE_BIAS).";
  case FindingKind::SerializedWork:
    return "Batch them (cublasGemmStridedBatchedEx), or launch them on streams "
           "of their own.";
  case FindingKind::TensorCoresIdle:
    return "Let the library use them: CUBLAS_COMPUTE_32F_FAST_TF32, or inputs "
           "in bf16 or fp16, with sizes that are multiples of 8; of cuDNN "
           "CUDNN_TENSOR_OP_MATH. Check the error.";
  case FindingKind::LayoutConversions:
    return "Give the library tensors in the layout that its kernel takes "
           "(CUDNN_TENSOR_NHWC), activations and weights alike.";
  case FindingKind::NoArithmetic:
    return "Find what makes them: transposes and casts before products, which "
           "the library's own layouts and types may spare.";
  default:
    return "";
  }
}

/// What to do where the device waits for something that the host does, and
/// which is no launching; empty where that is not most of it.
static std::string remedyOfIdle(const evidence::DeviceBusy &busy,
                                const Profile &profile) {
  if (busy.isLaunchBound || busy.idleIn.empty() ||
      busy.idleIn.front().idleNs < busy.idleNs / 2)
    return "";
  StringRef host = busy.idleIn.front().host;
  if (host.contains("DataLoader"))
    return "Give the DataLoader workers (num_workers, persistent_workers, "
           "prefetch_factor), or do less for each sample.";
  constexpr StringLiteral kMemory[] = {"Malloc", "Free", "MemCreate", "MemMap"};
  if (llvm::any_of(kMemory, [&](StringRef part) {
        return host.split(' ').first.contains(part);
      }))
    return showsPyTorch(profile)
               ? "The driver gives out or takes back memory: record after some "
                 "steps, when PyTorch's allocator has it, and keep what it has "
                 "(expandable_segments:True, no empty_cache())."
               : "The driver gives out or takes back memory: allocate before "
                 "the steps, or from a pool (cudaMallocAsync).";
  // That is launching.
  if (host.split(' ').first.contains("Launch"))
    return "";
  return formatv("The device waits for {0}: do less there, or do it ahead, in "
                 "a thread, or on another stream, while the device has work.",
                 shortHost(host));
}

/// The rules of `opprof recommend` that answer such findings, and what the
/// search of `opprof optimize` makes itself.
static ArrayRef<StringLiteral> listRules(FindingKind kind) {
  static constexpr StringLiteral kLaunches[] = {"cuda-graph"};
  static constexpr StringLiteral kSmall[] = {"cuda-graph", "merge-gemms",
                                             "form-attention"};
  static constexpr StringLiteral kPrecision[] = {"tf32", "float16", "bfloat16",
                                                 "precision-by-region"};
  static constexpr StringLiteral kAttention[] = {"form-attention"};
  static constexpr StringLiteral kKernels[] = {
      "tf32",        "float16",        "bfloat16",        "precision-by-region",
      "merge-gemms", "form-attention", "fold-batch-norm", "freeze",
      "autotune",    "form-norm"};
  switch (kind) {
  case FindingKind::DeviceBusy:
    return kLaunches;
  case FindingKind::SmallKernels:
    return kSmall;
  case FindingKind::TensorCoresIdle:
    return kPrecision;
  case FindingKind::AttentionByHand:
    return kAttention;
  case FindingKind::Roofline:
    return kKernels;
  default:
    return {};
  }
}

/// What `opprof recommend` had for such a finding, best first, with what became
/// of it; or that it can be asked.
static std::string adviseRewrites(FindingKind kind, const Profile &profile) {
  ArrayRef<StringLiteral> rules = listRules(kind);
  if (rules.empty())
    return "";
  // Rewrites are of exported graphs, and the code alone gives none.
  if (!profile.offers && profile.stage == "post_grad")
    return " `opprof profile` with --graph, too, lets `opprof recommend` offer "
           "rewrites.";
  if (!profile.offers)
    return " `opprof recommend` has the rewrites of this graph and what each "
           "would save.";
  constexpr size_t kMost = 2;
  std::string text;
  size_t said = 0;
  for (const RewriteOffer &offer : *profile.offers) {
    if (said == kMost || !llvm::is_contained(rules, offer.name))
      continue;
    text += formatv("{0} {1} ({2})",
                    said ? ";" : " Of `opprof recommend`:", offer.title,
                    offer.file);
    // Of what a search made nothing need be predicted.
    if (offer.savesNs)
      text += formatv(" is predicted to save {0} of a step",
                      formatTime(offer.savesNs));
    if (offer.measuredNs)
      text += formatv("{0} was measured to {1} {2}{3}",
                      offer.savesNs ? ", and" : "",
                      *offer.measuredNs < 0 ? "cost" : "save",
                      formatTime(std::abs(*offer.measuredNs)),
                      offer.savesNs ? "" : " of a step");
    if (!offer.end.empty())
      text += formatv(" ({0})", offer.end);
    ++said;
  }
  return said ? text + "."
              : " `opprof recommend` has no rewrite of this graph for it.";
}

/// The deepest line that called the node and is none of a library's, or else
/// the module that it is in.
static std::string placeOf(const Node &node) {
  auto isOfLibrary = [](StringRef frame) {
    return frame.contains("site-packages/") || frame.contains("dist-packages/");
  };
  for (const std::string &frame : llvm::reverse(node.stack))
    if (!isOfLibrary(frame))
      return frame;
  if (node.source && !isOfLibrary(*node.source))
    return *node.source;
  return node.module.value_or("");
}

/// The line of the program to look at first; empty where it is not known.
static std::string findLine(const Finding &finding, const Profile &profile) {
  std::string line = std::visit(
      [](const auto &evidence) -> std::string {
        if constexpr (std::is_base_of_v<evidence::LineCost,
                                        std::decay_t<decltype(evidence)>>)
          return evidence.source;
        else
          return "";
      },
      finding.evidence);
  for (uint32_t node : finding.nodes)
    if (line.empty() && node < profile.nodes.size())
      line = placeOf(profile.nodes[node]);
  return line;
}

std::string report::adviseOn(const Finding &finding, const Profile &profile) {
  std::optional<FindingKind> kind = finding.kind();
  if (!kind)
    return "";
  // What reaches that much of its roof has nothing left that pays.
  constexpr double kNear = 80;
  if (const auto *roofline =
          std::get_if<evidence::Roofline>(&finding.evidence)) {
    if (roofline->without)
      return "";
    double reached =
        percentOf(roofline->roofNs, roofline->roofNs + roofline->aboveRoofNs);
    if (reached >= kNear)
      return formatv("Nothing: these kernels reach {0} of what the device "
                     "allows.",
                     formatPercent(reached));
  }
  const Device *device = findBusiestDevice(profile);
  std::string remedy;
  bool isCPU = device && device->kind == "cpu";
  if (const auto *busy = std::get_if<evidence::DeviceBusy>(&finding.evidence))
    remedy = isCPU ? remedyOfIdleCPU(*busy) : remedyOfIdle(*busy, profile);
  else if (const auto *copies =
               std::get_if<evidence::HostCopies>(&finding.evidence);
           copies && 2 * copies->pages > copies->copies)
    remedy = "Move them ahead and at once (cudaMemPrefetchAsync), say who uses "
             "them (cudaMemAdvise), or take memory of the device.";
  if (remedy.empty() && isCPU)
    remedy = remedyOnCPU(*kind);
  if (remedy.empty() && replaysGraphs(profile))
    remedy = remedyOfReplays(*kind);
  if (remedy.empty() && !isCPU && !showsPyTorch(profile))
    remedy = remedyInCUDA(*kind);
  if (remedy.empty())
    remedy = llvm::find_if(kExplanations, [&](const Explanation &explanation) {
               return explanation.kind == *kind;
             })->remedy;
  std::string text = remedy;
  if (std::string line = findLine(finding, profile); !line.empty())
    text += " Begin at " + line + ".";
  if (hasGraph(profile) && !profile.graph.empty())
    text += adviseRewrites(*kind, profile);
  return text;
}

/// Refuses a name that no finding has: with the one that was probably meant,
/// and all that there are, as wide as the page.
static Error refuseId(StringRef id, const TextOptions &options) {
  std::string ids;
  StringRef nearest;
  // A third of a name may be other letters.
  unsigned least = std::max<size_t>(id.size() / 3, 1) + 1;
  std::string lower = id.lower();
  for (size_t kind = 0; kind < kNumFindingKinds; ++kind) {
    StringRef other = stringify(static_cast<FindingKind>(kind));
    ids += (kind ? ", " : "") + other.str();
    bool isPart = id.size() > 3 && other.contains(lower);
    unsigned distance = isPart ? 1 : other.edit_distance(lower, true, least);
    if (distance < least) {
      least = distance;
      nearest = other;
    }
  }
  std::string text;
  raw_string_ostream os(text);
  os << "'" << id << "' is no finding\n";
  if (!nearest.empty())
    os << "  the nearest is '" << nearest << "'\n";
  constexpr unsigned kMostLines = 100;
  TextOptions plain = options;
  plain.color = false;
  Page page(os, plain);
  page.text("  ").paragraph("there are: " + ids, 2, kMostLines);
  return createStringError(StringRef(text).rtrim());
}

static void printMarkdown(raw_ostream &os) {
  os << "# What findings mean\n\nThis page is what `opprof explain` says; what "
        "holds for all of them is in [findings](../findings.md).\n";
  for (const Explanation &explanation : kExplanations)
    os << "\n## " << stringify(explanation.kind) << "\n\n"
       << explanation.means
       << "\n\n- **How it is computed**: " << explanation.computed
       << "\n- **What to do**: " << explanation.remedy
       << "\n- **When it would not be true**: " << explanation.untrue << '\n';
}

/// The leaves of the evidence, a line each, as many as a person reads.
static void printEvidence(Page &page, const json::Object &evidence) {
  constexpr size_t kMostLines = 24;
  size_t printed = 0;
  auto visit = [&](const auto &self, const std::string &name,
                   const json::Value &value) -> void {
    if (const json::Object *object = value.getAsObject()) {
      SmallVector<StringRef> keys;
      for (const auto &entry : *object)
        keys.push_back(entry.first);
      llvm::sort(keys);
      for (StringRef key : keys)
        self(self, name.empty() ? key.str() : name + "." + key.str(),
             *object->get(key));
      return;
    }
    if (const json::Array *array = value.getAsArray();
        array && llvm::any_of(*array, [](const json::Value &element) {
          return element.getAsObject() || element.getAsArray();
        })) {
      for (auto [place, element] : llvm::enumerate(*array))
        self(self, name + "[" + utostr(place) + "]", element);
      return;
    }
    if (printed++ >= kMostLines)
      return;
    std::string text;
    if (std::optional<double> number = value.getAsNumber())
      text = formatShortest(*number);
    else
      raw_string_ostream(text) << value;
    page.text("    ").paragraph(name + " = " + text, 6, 3);
  };
  visit(visit, "", json::Value(json::Object(evidence)));
  if (printed > kMostLines) {
    page.text(formatv("    and {0} more values (`opprof report --json`)",
                      printed - kMostLines)
                  .str(),
              Style::Dim);
    page.end();
  }
}

static void printOfRun(Page &page, const Finding &finding,
                       const Profile &profile) {
  page.heading("In this run",
               finding.severityNsPerStep
                   ? "costs " + formatTime(*finding.severityNsPerStep)
                   : "");
  page.text("  ").paragraph(finding.text, 2, 8);
  if (!finding.nodes.empty()) {
    constexpr size_t kNamed = 12;
    std::string names;
    for (uint32_t node : ArrayRef(finding.nodes).take_front(kNamed))
      names +=
          (names.empty() ? "" : ", ") + nameIn(profile, profile.nodes[node].id);
    if (finding.nodes.size() > kNamed)
      names += formatv(" and {0} more", finding.nodes.size() - kNamed);
    page.text("  ").paragraph("nodes: " + names, 2, 6);
  }
  page.text("  evidence:");
  page.end();
  printEvidence(page, toJSON(finding.evidence, profile));
}

Error report::explainFinding(StringRef id, const Profile *profile,
                             raw_ostream &os, const TextOptions &options) {
  if (id == "all") {
    printMarkdown(os);
    return Error::success();
  }
  std::optional<FindingKind> kind = parseFindingKind(id);
  if (!kind)
    return refuseId(id, options);
  Page page(os, options);
  const Explanation *known =
      llvm::find_if(kExplanations, [&](const Explanation &explanation) {
        return explanation.kind == *kind;
      });
  page.text(id, Style::Bold);
  page.end();
  page.text("  ").paragraph(known->means, 2, 8);
  auto printPart = [&](StringRef title, ArrayRef<std::string> texts) {
    page.heading(title, "");
    for (StringRef text : texts)
      page.text("  ").paragraph(text, 2, 10);
  };
  // What helps depends on the device and on what this program does.
  SmallVector<std::string> advice;
  if (profile)
    for (const Finding &finding : profile->findings)
      if (finding.kind() == kind)
        if (std::string text = adviseOn(finding, *profile);
            !text.empty() && !llvm::is_contained(advice, text))
          advice.push_back(std::move(text));
  if (advice.empty())
    advice.push_back(std::string(known->remedy));
  printPart("How it is computed", {std::string(known->computed)});
  printPart("What to do", advice);
  printPart("When it would not be true", {std::string(known->untrue)});
  if (!profile)
    return Error::success();
  bool any = false;
  for (const Finding &finding : profile->findings)
    if (finding.kind() == kind) {
      printOfRun(page, finding, *profile);
      any = true;
    }
  if (!any) {
    page.heading("In this run", "");
    page.text("  ").paragraph("There is no such finding.", 2, 1);
  }
  return Error::success();
}
