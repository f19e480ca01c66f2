// The prof dialect: what profiling puts into a graph.

#ifndef OPPROF_DIALECT_PROF_IR_PROFOPS_TD
#define OPPROF_DIALECT_PROF_IR_PROFOPS_TD

include "opprof/Dialect/FX/IR/FXInterfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Prof_Dialect : Dialect {
  let name = "prof";
  let cppNamespace = "::opprof::prof";
  let summary = "what profiling puts into a graph: markers, times, counters, findings";
  let description = [{
    Times and counters are discardable attributes: `prof.time` and
    `prof.counters` on an `fx.node`, an `fx.call`, an `inductor.launch` or a
    `prof.instance`, `prof.summary` on the module. `--attach-profile` puts them
    there, `--strip-profile` takes them away, and a pass reads them through
    opprof/Dialect/Prof/IR/Prof.h (docs/dialects/prof.md has an example). A pass
    that rewrites a node drops what is no longer true of it, as it drops any
    attribute that it does not know.

    Markers are a pair of operations with read and write effects, so that no
    pass merges, moves or drops them; the verifier holds them balanced in each
    block. `opprof-translate --emit-python` makes NVTX calls of them.

    ```mlir
    fx.graph @marked(%x: tensor<4xf32>) -> tensor<4xf32> {
      prof.range_push "layer::unique::h.0"
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      prof.range_pop
      fx.output(%relu) : (tensor<4xf32>)
    }
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// The discardable attribute on a call that came from outlining.
    static constexpr llvm::StringLiteral kPartitionAttr = "prof.partition";
    /// The discardable attributes that come with a profile.
    static constexpr llvm::StringLiteral kTimeAttr = "prof.time";
    static constexpr llvm::StringLiteral kCountersAttr = "prof.counters";
    static constexpr llvm::StringLiteral kSummaryAttr = "prof.summary";
    /// On an operation that came with a profile and goes with it.
    static constexpr llvm::StringLiteral kAttachedAttr = "prof.attached";

    void registerAttributes();
  }];
}

def Prof_Role : I32EnumAttr<"Role", "what a partition is to its class", [
    I32EnumAttrCase<"unique", 0>, I32EnumAttrCase<"duplicate", 1>]> {
  let cppNamespace = "::opprof::prof";
  let genSpecializedAttr = 0;
}

def Prof_PartitionAttr : AttrDef<Prof_Dialect, "Partition", [
    FX_LabelAttrInterface]> {
  let mnemonic = "partition";
  let summary = "what a partition is called, and whether it speaks for its class";
  let description = [{
    `prof.partition` on an `fx.call`: the first partition of a class is unique,
    the others are its duplicates.

    ```mlir
    fx.graph private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu) : (tensor<4xf32>)
    }
    fx.graph @model(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fx.call @layer(%x) {prof.partition = #prof.partition<"h.0", unique>} : (tensor<4xf32>) -> tensor<4xf32>
      %1 = fx.call @layer(%0) {prof.partition = #prof.partition<"h.1", duplicate>} : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%1) : (tensor<4xf32>)
    }
    ```
  }];
  let parameters = (ins StringRefParameter<"label">:$label,
                        EnumParameter<Prof_Role>:$role);
  let assemblyFormat = "`<` $label `,` $role `>`";
}

/// A number that may be unknown, and is left out then.
def Prof_OptionalInt : OptionalParameter<"std::optional<int64_t>"> {
  let printer = "$_printer << *$_self";
}

def Prof_Confidence : AttrOrTypeParameter<"::opprof::Confidence",
                                          "how sure the join is"> {
  let parser = "::opprof::prof::parseConfidence($_parser)";
  let printer = "$_printer << ::opprof::stringify($_self)";
}

def Prof_Share : I32EnumAttr<"Share", "how much of its kernels' time is a node's", [
    I32EnumAttrCase<"whole", 0>, I32EnumAttrCase<"divided", 1>]> {
  let cppNamespace = "::opprof::prof";
  let genSpecializedAttr = 0;
}

def Prof_TimeAttr : AttrDef<Prof_Dialect, "Time"> {
  let mnemonic = "time";
  let summary = "the kernel time of an operation";
  let description = [{
    `ns` is the kernel time in nanoseconds over all recorded `steps`, and
    `kernels` how many kernels ran for it then; where the recording has no steps
    the time is that of the whole recording. `share` says whether its kernels
    compute nothing else (`whole`), or their time was `divided` among several
    nodes. `confidence` is the least sure link from these kernels to this node.

    On an `fx.call` the time is the sum over the nodes that the call stands for.
    A node of a graph that several calls share has the sum over all of them.

    ```mlir
    fx.graph @timed(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x)
          {prof.time = #prof.time<ns = 3456, kernels = 2, steps = 2, share = whole, confidence = high>}
          : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu) : (tensor<4xf32>)
    }
    ```
  }];
  let parameters = (ins
    "int64_t":$ns, "int64_t":$kernels, Prof_OptionalInt:$steps,
    EnumParameter<Prof_Share>:$share, Prof_Confidence:$confidence);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Nanoseconds of one step.
    double getNsPerStep() const {
      return static_cast<double>(getNs()) / getSteps().value_or(1);
    }
  }];
}

def Prof_CountersAttr : AttrDef<Prof_Dialect, "Counters"> {
  let mnemonic = "counters";
  let summary = "what counters and models say of an operation, by name";
  let description = [{
    Names and units are those of docs/capture.md. Amounts are of one step.
    `inferred_from` names the node that was counted, where it is another one that
    does the same work. `absent` says why a value could not be made.

    ```mlir
    fx.graph @counted(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("relu")
      %relu_1 = fx.node "aten.relu.default"(%relu)
          {prof.counters = #prof.counters<{dram_throughput_pct = 61.25}, inferred_from = @counted::@relu,
                                          absent = {tensor_pipe_pct = "not measured on this device"}>}
          : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu_1) : (tensor<4xf32>)
    }
    ```
  }];
  let parameters = (ins
    "::mlir::DictionaryAttr":$values,
    OptionalParameter<"::mlir::SymbolRefAttr">:$inferred_from,
    OptionalParameter<"::mlir::DictionaryAttr">:$absent);
  let assemblyFormat = "`<` $values (`,` struct($inferred_from, $absent)^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The value called `name`, or none.
    std::optional<double> lookup(::llvm::StringRef name) const;
  }];
}

def Prof_SummaryAttr : AttrDef<Prof_Dialect, "Summary"> {
  let mnemonic = "summary";
  let summary = "what a profile says of the whole program";
  let description = [{
    `kernel_ns` is the sum of the kernels' times, `busy_ns` the time in which at
    least one ran on the busiest device, `wall_ns` the span of the steps: all
    over `steps` steps, or over the whole recording where it has none. `device`
    is that of the program's kernels.

    ```mlir
    module attributes {prof.summary = #prof.summary<
        kernels = 314, kernel_ns = 5722000, steps = 2, wall_ns = 6802000, busy_ns = 5700113, device = "NVIDIA H200">} {
    }
    ```
  }];
  let parameters = (ins
    "int64_t":$kernels, "int64_t":$kernel_ns, Prof_OptionalInt:$steps,
    Prof_OptionalInt:$wall_ns, Prof_OptionalInt:$busy_ns,
    OptionalParameter<"::mlir::StringAttr">:$device);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// What the numbers above come to in one step.
    double getPerStep(int64_t total) const {
      return static_cast<double>(total) / getSteps().value_or(1);
    }
  }];
}

class Prof_MarkerOp<string mnemonic>
    : Op<Prof_Dialect, mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let hasVerifier = 1;
}

def Prof_RangePushOp : Prof_MarkerOp<"range_push"> {
  let summary = "opens an NVTX range";
  let description = [{
    Everything up to the matching `prof.range_pop` of the same block lies in the
    range. Ranges nest.
  }];
  let arguments = (ins StrAttr:$label);
  let assemblyFormat = "$label attr-dict";
}

def Prof_RangePopOp : Prof_MarkerOp<"range_pop"> {
  let summary = "closes the innermost open NVTX range of its block";
  let assemblyFormat = "attr-dict";
}

def Prof_FindingOp : Op<Prof_Dialect, "finding", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "something that a profile shows, with the numbers that prove it";
  let description = [{
    `kind` is the finding's id (docs/findings.md), `severity` what it costs a
    step in nanoseconds, where it is a cost. Reports put it into words.

    ```mlir
    fx.graph @slow(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("relu")
      fx.output(%relu) : (tensor<4xf32>)
    }
    prof.finding "memory-bound" severity 120000 on [@slow::@relu] evidence {dram_throughput_pct = 91.5}
    ```
  }];
  let arguments = (ins StrAttr:$kind, OptionalAttr<I64Attr>:$severity,
                       TypedArrayAttrBase<SymbolRefAttr, "array of nodes">:$nodes,
                       DictionaryAttr:$evidence);
  let assemblyFormat = [{
    $kind (`severity` $severity^)? `on` $nodes `evidence` $evidence attr-dict
  }];
}

def Prof_ClassOp : Op<Prof_Dialect, "class", [
    NoTerminator, NoRegionArguments, SingleBlock]> {
  let summary = "subgraphs that are the same";
  let description = [{
    One class of the partition map: its places, of which the first is unique and
    the others are duplicates. Position i of the nodes is the same place of the
    class in every instance. `in` names the class that a nested one lies in.

    ```mlir
    fx.graph @layers(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("relu")
      %relu_1 = fx.node "aten.relu.default"(%relu) : (tensor<4xf32>) -> tensor<4xf32> loc("relu_1")
      fx.output(%relu_1) : (tensor<4xf32>)
    }
    prof.class "c0" {
      prof.instance <"h.0", unique> of [@layers::@relu]
      prof.instance <"h.1", duplicate> of [@layers::@relu_1]
    }
    ```
  }];
  let arguments = (ins StrAttr:$id, OptionalAttr<StrAttr>:$parent);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$id (`in` $parent^)? attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Prof_InstanceOp : Op<Prof_Dialect, "instance", [
    HasParent<"ClassOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one place of a class";
  let description = [{
    Its `prof.time` is the sum over its nodes.
  }];
  let arguments = (ins Prof_PartitionAttr:$partition,
                       TypedArrayAttrBase<SymbolRefAttr, "array of nodes">:$nodes);
  let assemblyFormat = "$partition `of` $nodes attr-dict";
}

#endif // OPPROF_DIALECT_PROF_IR_PROFOPS_TD
