// --attach-profile and --strip-profile: what a profile says, on the operations
// that it says it of.

#include "opprof/Dialect/Prof/Transforms/AttachProfile.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Dialect/Prof/Transforms/Passes.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Support/InputFile.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

namespace opprof::prof {
#define GEN_PASS_DEF_ATTACHPROFILEPASS
#define GEN_PASS_DEF_STRIPPROFILEPASS
#include "opprof/Dialect/Prof/Transforms/Passes.h.inc"
} // namespace opprof::prof

using namespace mlir;
using namespace opprof;
using namespace opprof::prof;
using profile::Profile;

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

namespace {
/// Time that is added up for one operation.
class TimeSum {
public:
  void add(int64_t ns, ArrayRef<uint32_t> kernels) {
    this->ns += ns;
    llvm::append_range(this->kernels, kernels);
  }

  TimeAttr get(const Profile &profile, MLIRContext *context);

private:
  int64_t ns = 0;
  std::vector<uint32_t> kernels;
};
} // namespace

/// The steps that the profile's sums are over, or none where it has no steps.
static std::optional<int64_t> getSteps(const Profile &profile) {
  if (!profile.summary.steps || *profile.summary.steps == 0)
    return std::nullopt;
  return *profile.summary.steps;
}

TimeAttr TimeSum::get(const Profile &profile, MLIRContext *context) {
  llvm::sort(kernels);
  kernels.erase(llvm::unique(kernels), kernels.end());
  int64_t whole = 0;
  Confidence least = Confidence::High;
  for (uint32_t id : kernels) {
    whole += profile.kernels[id].durationNs;
    least = std::max(least, profile.kernels[id].confidence);
  }
  return TimeAttr::get(context, ns, kernels.size(), getSteps(profile),
                       ns == whole ? Share::whole : Share::divided,
                       std::min(least, Confidence::Low));
}

//===----------------------------------------------------------------------===//
// Evidence
//===----------------------------------------------------------------------===//

static Attribute toAttribute(const llvm::json::Value &value, Builder &builder) {
  if (std::optional<bool> flag = value.getAsBoolean())
    return builder.getBoolAttr(*flag);
  if (std::optional<int64_t> number = value.getAsInteger())
    return builder.getI64IntegerAttr(*number);
  if (std::optional<double> number = value.getAsNumber())
    return builder.getF64FloatAttr(*number);
  if (std::optional<StringRef> text = value.getAsString())
    return builder.getStringAttr(*text);
  if (const llvm::json::Array *list = value.getAsArray()) {
    SmallVector<Attribute> elements;
    for (const llvm::json::Value &element : *list)
      elements.push_back(toAttribute(element, builder));
    return builder.getArrayAttr(elements);
  }
  if (const llvm::json::Object *object = value.getAsObject()) {
    NamedAttrList entries;
    for (const auto &entry : *object)
      entries.set(StringRef(entry.first), toAttribute(entry.second, builder));
    return entries.getDictionary(builder.getContext());
  }
  return builder.getUnitAttr();
}

//===----------------------------------------------------------------------===//
// Attaching
//===----------------------------------------------------------------------===//

namespace {
class Attacher {
public:
  Attacher(ModuleOp module, const Profile &profile)
      : module(module), profile(profile), context(module.getContext()),
        builder(OpBuilder::atBlockEnd(module.getBody())), symbols(module) {}

  LogicalResult attach();

private:
  /// The node's reference; where its graph is elsewhere, an fx.external is made
  /// for it.
  SymbolRefAttr getRef(uint32_t node) { return getRef(profile.nodes[node].id); }
  SymbolRefAttr getRef(const NodeId &id) {
    return fx::NodeSymbols::getRef(
        symbols.getOrAddGraph({id.graph, id.stage, ""}), id.name);
  }
  /// Where what is said of all graphs is shown.
  Location getPlace() {
    return symbols.getGraphs().empty() ? module.getLoc()
                                       : symbols.getGraphs().front()->getLoc();
  }

  CountersAttr toCounters(const std::map<std::string, double> &values,
                          const std::map<std::string, std::string> &absent,
                          SymbolRefAttr inferredFrom);
  CountersAttr getCounters(const profile::Node &node);
  LogicalResult attachNodes();
  void attachNode(const profile::Node &node, const fx::NodePlace &place);
  void attachInstances();
  void attachClasses();

  LogicalResult attachLaunches();
  inductor::ProgramOp createProgram(StringRef compiledGraph,
                                    ArrayRef<uint32_t> launches);
  LogicalResult attachLaunch(inductor::ProgramOp program, uint32_t index,
                             unsigned &missing);

  void attachFindings();
  void attachSummary();

  ModuleOp module;
  const Profile &profile;
  MLIRContext *context;
  OpBuilder builder;
  fx::NodeSymbols symbols;
  /// What calls and the nodes of outlined graphs add up to.
  llvm::MapVector<Operation *, TimeSum> sums;
  /// For each outermost call, what its nodes have for themselves.
  llvm::MapVector<Operation *, std::map<unsigned, NamedAttrList>> instances;
};
} // namespace

CountersAttr
Attacher::toCounters(const std::map<std::string, double> &values,
                     const std::map<std::string, std::string> &absent,
                     SymbolRefAttr inferredFrom) {
  if (values.empty() && absent.empty())
    return {};
  NamedAttrList numbers, reasons;
  for (const auto &[name, value] : values)
    numbers.set(name, builder.getF64FloatAttr(value));
  for (const auto &[name, reason] : absent)
    reasons.set(name, builder.getStringAttr(reason));
  return CountersAttr::get(
      context, numbers.getDictionary(context), inferredFrom,
      reasons.empty() ? DictionaryAttr() : reasons.getDictionary(context));
}

CountersAttr Attacher::getCounters(const profile::Node &node) {
  SymbolRefAttr inferredFrom;
  // A launch that computes no known node has no symbol.
  if (node.inferredFrom && node.inferredFrom->launch.empty())
    inferredFrom = getRef(node.inferredFrom->node);
  return toCounters(node.metrics, node.metricsAbsent, inferredFrom);
}

void Attacher::attachNode(const profile::Node &node,
                          const fx::NodePlace &place) {
  NamedAttrList attributes;
  if (!node.kernels.empty()) {
    TimeSum time;
    time.add(node.kernelTimeNs, node.kernels);
    attributes.set(ProfDialect::kTimeAttr, time.get(profile, context));
  }
  if (CountersAttr counters = getCounters(node))
    attributes.set(ProfDialect::kCountersAttr, counters);
  if (place.calls.empty()) {
    for (NamedAttribute attribute : attributes)
      place.node->setDiscardableAttr(attribute.getName(), attribute.getValue());
    return;
  }
  if (!node.kernels.empty()) {
    sums[place.node].add(node.kernelTimeNs, node.kernels);
    for (Operation *call : place.calls)
      sums[call].add(node.kernelTimeNs, node.kernels);
  }
  // The class has the counters of the node that was counted.
  if (Attribute counters = attributes.get(ProfDialect::kCountersAttr))
    if (!node.inferredFrom)
      place.node->setDiscardableAttr(ProfDialect::kCountersAttr, counters);
  instances[place.calls.back()][place.index] = std::move(attributes);
}

void Attacher::attachInstances() {
  // What each node of an instance has for itself comes back with it when the
  // call is inlined.
  for (auto &[call, attributes] : instances) {
    auto existing = call->getAttrOfType<ArrayAttr>(fx::kInstanceAttributesAttr);
    SmallVector<Attribute> all;
    for (const fx::NodePlace &place : symbols.getPlaces(call->getParentOp())) {
      if (place.calls.empty() || place.calls.back() != call)
        continue;
      NamedAttrList own;
      if (existing && place.index < existing.size())
        own = cast<DictionaryAttr>(existing[place.index]);
      if (auto it = attributes.find(place.index); it != attributes.end())
        for (NamedAttribute attribute : it->second)
          own.set(attribute.getName(), attribute.getValue());
      if (all.size() <= place.index)
        all.resize(place.index + 1, builder.getDictionaryAttr({}));
      all[place.index] = own.getDictionary(context);
    }
    call->setDiscardableAttr(fx::kInstanceAttributesAttr,
                             builder.getArrayAttr(all));
  }
  for (auto &[op, sum] : sums)
    op->setDiscardableAttr(ProfDialect::kTimeAttr, sum.get(profile, context));
}

void Attacher::attachClasses() {
  NodeIdMap<const profile::Node *> byId;
  for (const profile::Node &node : profile.nodes)
    byId[node.id] = &node;
  for (auto repeated : module.getOps<ClassOp>())
    for (auto instance : repeated.getBody().getOps<InstanceOp>()) {
      TimeSum sum;
      bool isTimed = false;
      for (auto ref : instance.getNodes().getAsRange<SymbolRefAttr>()) {
        auto node = byId.find(symbols.getId(ref));
        if (node == byId.end() || node->second->kernels.empty())
          continue;
        sum.add(node->second->kernelTimeNs, node->second->kernels);
        isTimed = true;
      }
      if (isTimed)
        instance->setDiscardableAttr(ProfDialect::kTimeAttr,
                                     sum.get(profile, context));
    }
}

/// "1 node" or "3 nodes".
static std::string count(size_t number, StringRef noun) {
  return (Twine(number) + " " + noun + (number == 1 ? "" : "s")).str();
}

LogicalResult Attacher::attachNodes() {
  size_t found = 0, missing = 0;
  const profile::Node *firstMissing = nullptr;
  for (const profile::Node &node : profile.nodes) {
    if (const fx::NodePlace *place = symbols.lookup(node.id)) {
      ++found;
      attachNode(node, *place);
    } else if (!missing++) {
      firstMissing = &node;
    }
  }
  if (!missing) {
    attachInstances();
    return success();
  }
  if (found) {
    emitWarning(getPlace()) << "the profile names " << count(missing, "node")
                            << " that the module does not have; the first is "
                            << toString(firstMissing->id);
    attachInstances();
    return success();
  }
  std::string held;
  for (Operation *graph : symbols.getGraphs()) {
    NodeId id = fx::getGraphId(graph);
    held += (held.empty() ? "" : ", ") + id.graph + "@" + id.stage;
  }
  return emitError(getPlace())
         << "the profile is of another graph: of its " << count(missing, "node")
         << " (" << toString(firstMissing->id) << (missing == 1 ? "" : ", …")
         << ") the module has none; it holds "
         << (held.empty() ? "no graph" : held)
         << ". Attach a profile to the graph that was profiled";
}

inductor::ProgramOp Attacher::createProgram(StringRef compiledGraph,
                                            ArrayRef<uint32_t> launches) {
  // A graph that ran node by node launches its own operators.
  bool isEager = compiledGraph == profile.graph &&
                 llvm::all_of(launches, [&](uint32_t place) {
                   auto kind = profile.launches[place].kind;
                   return kind == launch::LaunchKind::Fallback ||
                          kind == launch::LaunchKind::Subgraph ||
                          kind == launch::LaunchKind::View;
                 });
  Operation *graph = symbols.getOrAddGraph(
      {compiledGraph.str(), isEager ? profile.stage : "post_grad", ""});
  auto program = inductor::ProgramOp::create(
      builder, builder.getUnknownLoc(),
      FlatSymbolRefAttr::get(SymbolTable::getSymbolName(graph)),
      /*understood=*/IntegerAttr(), /*total=*/IntegerAttr(),
      inductor::AlignmentInfoAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&program.getBody());
  auto text = [&](StringRef value) {
    return value.empty() ? StringAttr() : builder.getStringAttr(value);
  };
  auto number = [&](std::optional<uint64_t> value) {
    return value ? builder.getI64IntegerAttr(*value) : IntegerAttr();
  };
  for (uint32_t place : launches) {
    const profile::LaunchRecord &launch = profile.launches[place];
    SmallVector<Attribute> nodes;
    for (uint32_t node : launch.nodes)
      nodes.push_back(inductor::NodeAttr::get(
          context, getRef(node), ArrayAttr(), StringAttr(), false, false, false,
          ArrayAttr(), DenseI64ArrayAttr(), StringAttr(), IntegerAttr(),
          StringAttr(), StringAttr()));
    inductor::LaunchOp::create(
        builder, FileLineColLoc::get(context, launch.file, launch.line, 0),
        builder.getI64IntegerAttr(launch.index),
        builder.getStringAttr(launch.kernel),
        inductor::LaunchKindAttr::get(
            context, launch.kind.value_or(launch::LaunchKind::Extern)),
        inductor::LaunchCategoryAttr::get(
            context, launch.category.value_or(launch::LaunchCategory::Extern)),
        /*hash=*/StringAttr(), /*function=*/StringAttr(),
        /*call_lines=*/DenseI64ArrayAttr(), builder.getArrayAttr({}),
        builder.getArrayAttr({}), builder.getArrayAttr(nodes),
        /*listed=*/ArrayAttr(), /*handle=*/IntegerAttr(), number(launch.flops),
        text(launch.dtype), number(launch.bytesRead),
        number(launch.bytesWritten), UnitAttr(), UnitAttr());
  }
  return program;
}

LogicalResult Attacher::attachLaunches() {
  // The kernels of each launch.
  std::vector<std::vector<uint32_t>> kernels(profile.launches.size());
  for (const profile::Activity &kernel : profile.kernels)
    if (kernel.launch)
      kernels[*kernel.launch].push_back(kernel.id);
  llvm::MapVector<StringRef, std::vector<uint32_t>> byGraph;
  for (auto [place, launch] : llvm::enumerate(profile.launches))
    byGraph[launch.compiledGraph].push_back(place);
  llvm::StringMap<inductor::ProgramOp> programs;
  for (auto program : module.getOps<inductor::ProgramOp>())
    programs[symbols.getId(program.getGraphAttr()).graph] = program;

  size_t missing = 0;
  const profile::LaunchRecord *firstMissing = nullptr;
  for (auto &[name, launches] : byGraph) {
    llvm::sort(launches, [&](uint32_t a, uint32_t b) {
      return profile.launches[a].index < profile.launches[b].index;
    });
    inductor::ProgramOp &program = programs[name];
    if (!program)
      program = createProgram(name, launches);
    llvm::DenseMap<uint64_t, inductor::LaunchOp> byIndex;
    for (auto launch : program.getBody().getOps<inductor::LaunchOp>())
      byIndex[launch.getIndex()] = launch;
    for (uint32_t place : launches) {
      const profile::LaunchRecord &record = profile.launches[place];
      inductor::LaunchOp launch = byIndex.lookup(record.index);
      if (!launch) {
        if (!missing++)
          firstMissing = &record;
        continue;
      }
      if (launch.getKernel() != record.kernel)
        return launch.emitOpError()
               << "calls " << launch.getKernel()
               << ", but in the profile launch " << record.index << " of "
               << name << " calls " << record.kernel
               << ": the profile is of another compilation";
      if (kernels[place].empty())
        continue;
      TimeSum time;
      time.add(record.kernelTimeNs, kernels[place]);
      launch->setDiscardableAttr(ProfDialect::kTimeAttr,
                                 time.get(profile, context));
      // Kernels of one launch that do the same work share their counters.
      std::optional<uint32_t> row = profile.kernels[kernels[place][0]].counters;
      if (row && llvm::all_of(kernels[place], [&](uint32_t kernel) {
            return profile.kernels[kernel].counters == row;
          }))
        if (CountersAttr counters =
                toCounters(profile.counters[*row].values,
                           profile.counters[*row].absent, SymbolRefAttr()))
          launch->setDiscardableAttr(ProfDialect::kCountersAttr, counters);
    }
  }
  if (missing)
    emitWarning(getPlace())
        << "the profile names " << count(missing, "launch")
        << " that the module's programs do not have; the "
           "first is "
        << firstMissing->index << " of " << firstMissing->compiledGraph;
  return success();
}

void Attacher::attachFindings() {
  for (const profile::Finding &finding : profile.findings) {
    SmallVector<Attribute> nodes;
    for (uint32_t node : finding.nodes)
      nodes.push_back(getRef(node));
    NamedAttrList evidence;
    for (const auto &entry : toJSON(finding.evidence, profile))
      evidence.set(StringRef(entry.first), toAttribute(entry.second, builder));
    FindingOp::create(
        builder, builder.getUnknownLoc(), builder.getStringAttr(finding.id()),
        finding.severityNsPerStep
            ? builder.getI64IntegerAttr(*finding.severityNsPerStep)
            : IntegerAttr(),
        builder.getArrayAttr(nodes), evidence.getDictionary(context));
  }
}

void Attacher::attachSummary() {
  const profile::Summary &summary = profile.summary;
  StringAttr device;
  if (!profile.kernels.empty())
    for (const Device &candidate : profile.devices)
      if (candidate.id == profile.kernels.front().device &&
          !candidate.name.empty())
        device = builder.getStringAttr(candidate.name);
  module->setDiscardableAttr(ProfDialect::kSummaryAttr,
                             SummaryAttr::get(context, summary.kernels,
                                              summary.kernelTimeNs,
                                              getSteps(profile), summary.wallNs,
                                              summary.busyNs, device));
}

LogicalResult Attacher::attach() {
  if (failed(attachNodes()) || failed(attachLaunches()))
    return failure();
  attachClasses();
  attachFindings();
  attachSummary();
  return success();
}

llvm::DenseSet<Operation *> opprof::prof::getOperations(ModuleOp module) {
  llvm::DenseSet<Operation *> operations;
  for (Operation &op : module.getOps())
    operations.insert(&op);
  return operations;
}

void opprof::prof::markAttached(ModuleOp module,
                                const llvm::DenseSet<Operation *> &before) {
  auto unit = UnitAttr::get(module.getContext());
  for (Operation &op : module.getOps())
    if (!before.contains(&op))
      op.setDiscardableAttr(ProfDialect::kAttachedAttr, unit);
}

/// Takes times, counters and the summary away, not what came as operations.
static void stripAttributes(ModuleOp module) {
  module->removeDiscardableAttr(ProfDialect::kSummaryAttr);
  module.walk([](Operation *op) {
    op->removeDiscardableAttr(ProfDialect::kTimeAttr);
    op->removeDiscardableAttr(ProfDialect::kCountersAttr);
    auto instances = op->getAttrOfType<ArrayAttr>(fx::kInstanceAttributesAttr);
    if (!instances)
      return;
    SmallVector<Attribute> kept;
    bool anyLeft = false;
    for (Attribute instance : instances) {
      NamedAttrList attributes(cast<DictionaryAttr>(instance));
      attributes.erase(ProfDialect::kTimeAttr);
      attributes.erase(ProfDialect::kCountersAttr);
      anyLeft |= !attributes.empty();
      kept.push_back(attributes.getDictionary(op->getContext()));
    }
    // Outlining leaves none where no node has an attribute.
    if (anyLeft)
      op->setDiscardableAttr(fx::kInstanceAttributesAttr,
                             ArrayAttr::get(op->getContext(), kept));
    else
      op->removeDiscardableAttr(fx::kInstanceAttributesAttr);
  });
}

void opprof::prof::stripProfile(ModuleOp module) {
  for (Operation &op : llvm::make_early_inc_range(module.getOps()))
    if (op.hasAttr(ProfDialect::kAttachedAttr))
      op.erase();
  stripAttributes(module);
}

LogicalResult opprof::prof::attachProfile(ModuleOp module,
                                          const Profile &profile) {
  // Programs that stand for nothing but an earlier profile's launches go with
  // it; those that were read from code stay, and get the new times.
  for (Operation &op : llvm::make_early_inc_range(module.getOps())) {
    auto program = dyn_cast<inductor::ProgramOp>(op);
    if (op.hasAttr(ProfDialect::kAttachedAttr) &&
        (isa<FindingOp>(op) || (program && !program.getTotal())))
      op.erase();
  }
  stripAttributes(module);
  llvm::DenseSet<Operation *> before = getOperations(module);
  if (failed(Attacher(module, profile).attach()))
    return failure();
  markAttached(module, before);
  return success();
}

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

void opprof::prof::addClasses(ModuleOp module, const PartitionMap &map) {
  llvm::DenseSet<Operation *> before = getOperations(module);
  fx::NodeSymbols symbols(module);
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  for (const MappedClass &mapped : map.classes) {
    auto repeated = ClassOp::create(
        builder, builder.getUnknownLoc(), builder.getStringAttr(mapped.id),
        mapped.parent.empty() ? StringAttr()
                              : builder.getStringAttr(mapped.parent));
    OpBuilder inside(module.getContext());
    inside.createBlock(&repeated.getBody());
    for (const MappedPartition &partition : mapped.partitions) {
      SmallVector<Attribute> nodes;
      for (const NodeId &node : partition.nodes)
        nodes.push_back(fx::NodeSymbols::getRef(
            symbols.getOrAddGraph({node.graph, node.stage, ""}), node.name));
      InstanceOp::create(
          inside, builder.getUnknownLoc(),
          PartitionAttr::get(module.getContext(), partition.label,
                             partition.isUnique ? Role::unique
                                                : Role::duplicate),
          builder.getArrayAttr(nodes));
    }
  }
  markAttached(module, before);
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

namespace {
struct AttachProfilePass
    : public opprof::prof::impl::AttachProfilePassBase<AttachProfilePass> {
  using Base::Base;

  void runOnOperation() override {
    if (path.empty()) {
      emitError(getOperation().getLoc())
          << "no profile is given: write --attach-profile=FILE";
      return signalPassFailure();
    }
    std::string message;
    std::unique_ptr<llvm::MemoryBuffer> text =
        opprof::openInput(path, &message);
    if (!text) {
      emitError(getOperation().getLoc()) << message;
      return signalPassFailure();
    }
    llvm::Expected<std::unique_ptr<Profile>> profile =
        profile::readProfile(text->getBuffer(), path);
    if (!profile) {
      emitError(getOperation().getLoc()) << llvm::toString(profile.takeError());
      return signalPassFailure();
    }
    if (failed(attachProfile(getOperation(), **profile)))
      signalPassFailure();
  }
};

struct StripProfilePass
    : public opprof::prof::impl::StripProfilePassBase<StripProfilePass> {
  using Base::Base;

  void runOnOperation() override { stripProfile(getOperation()); }
};
} // namespace
