// Passes on fx graphs.

#ifndef OPPROF_DIALECT_FX_TRANSFORMS_PASSES_TD
#define OPPROF_DIALECT_FX_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def DedupPartitionsPass : Pass<"dedup-partitions", "::mlir::ModuleOp"> {
  let summary = "Outline each repeated subgraph once";
  let description = [{
    Finds subgraphs that a graph repeats, such as the layers of a transformer,
    from structure alone: the same targets, edges, constants, result types and
    order of inputs and outputs. Each class of equal subgraphs becomes one
    private graph, and each of its places a call. The first place is the unique
    one, the others are duplicates; module paths, where there are any, give the
    labels.

    The names and locations of the nodes of every place are kept in the location
    of its call, so that `--inline-partitions` gives back the same graph. What
    was found is reported as remarks, and written as a partition map where a
    file is named.

    Before:

    ```mlir
    fx.graph @model stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
      %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %relu = fx.node "aten.relu.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
      %neg_1 = fx.node "aten.neg.default"(%relu) : (tensor<4xf32>) -> tensor<4xf32>
      %relu_1 = fx.node "aten.relu.default"(%neg_1) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu_1) : (tensor<4xf32>)
    }
    ```

    After `--dedup-partitions=min-nodes=2`:

    ```mlir
    fx.graph @model stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
      %0 = fx.call @partition(%x) {prof.partition = #prof.partition<"c0.0", unique>} : (tensor<4xf32>) -> tensor<4xf32>
      %1 = fx.call @partition(%0) {prof.partition = #prof.partition<"c0.1", duplicate>} : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%1) : (tensor<4xf32>)
    }
    fx.graph private @partition(%input: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
      %neg = fx.node "aten.neg.default"(%input) : (tensor<4xf32>) -> tensor<4xf32>
      %relu = fx.node "aten.relu.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu) : (tensor<4xf32>)
    }
    ```
  }];
  let options = [
    Option<"levels", "levels", "unsigned", /*default=*/"1",
           "How deep partitions nest: 2 looks for repeats inside each class too">,
    Option<"minNodes", "min-nodes", "unsigned", /*default=*/"4",
           "The fewest nodes of a partition">,
    Option<"minRepeats", "min-repeats", "unsigned", /*default=*/"2",
           "The fewest partitions of a class">,
    Option<"anyOrder", "any-order", "bool", /*default=*/"false",
           "Compare in the order of the dataflow, not in the recorded one">,
    Option<"mode", "mode", "::opprof::fx::DedupMode",
           /*default=*/"::opprof::fx::DedupMode::Exact",
           "exact, or ignore-shapes to report also what is equal but for shapes",
           [{::llvm::cl::values(
             clEnumValN(::opprof::fx::DedupMode::Exact, "exact",
                        "report what is the same"),
             clEnumValN(::opprof::fx::DedupMode::IgnoreShapes, "ignore-shapes",
                        "report also what is the same but for shapes"))}]>,
    Option<"partitionMap", "partition-map", "std::string", /*default=*/"",
           "Write the partition map to this file">,
  ];
  let statistics = [
    Statistic<"numPartitions", "num-partitions", "Number of partitions outlined">,
    Statistic<"numNodesSaved", "num-nodes-saved", "Number of nodes saved">,
  ];
  let dependentDialects = ["::opprof::fx::FXDialect", "::opprof::prof::ProfDialect"];
}

def InlinePartitionsPass : Pass<"inline-partitions", "::mlir::ModuleOp"> {
  let summary = "Undo --dedup-partitions";
  let description = [{
    Replaces every call that outlining left by the nodes that stood there, with
    the names, locations, attributes and order that they had. Graphs that
    nothing calls any more go.

    Before:

    ```mlir
    fx.graph @model(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fx.call @partition(%x) {prof.partition = #prof.partition<"c0.0", unique>} : (tensor<4xf32>) -> tensor<4xf32>
      %1 = fx.call @partition(%0) {prof.partition = #prof.partition<"c0.1", duplicate>} : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%1) : (tensor<4xf32>)
    }
    fx.graph private @partition(%input: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%input) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu) : (tensor<4xf32>)
    }
    ```

    After:

    ```mlir
    fx.graph @model(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %relu_1 = fx.node "aten.relu.default"(%relu) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu_1) : (tensor<4xf32>)
    }
    ```
  }];
  let dependentDialects = ["::opprof::fx::FXDialect"];
}

def ExplainDifferencePass : Pass<"explain-difference", "::mlir::ModuleOp"> {
  let summary = "Say why two partitions are not the same";
  let description = [{
    Reports everything in which two parts of the module differ: a remark at
    each node that differs, with the argument's name in the operator's schema,
    and a note at the other one, each with the calls that led there. Nodes are
    paired as lines are in a diff, so that one which only one part has is said
    once and does not shift the rest.

    A part is named by a module path (`h.0`: the nodes of that module and of
    those inside it), by the label of a partition, by the name of a graph
    (`@block`), or, where `partition-map` names the map that
    `--dedup-partitions` wrote, by the id of a class (`c0`).

    ```mlir
    fx.graph @first(%x: tensor<4xf32>) -> tensor<4xf32> {
      %softmax = fx.node "aten.softmax.int"(%x, 0) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%softmax) : (tensor<4xf32>)
    }
    fx.graph @second(%x: tensor<4xf32>) -> tensor<4xf32> {
      %softmax = fx.node "aten.softmax.int"(%x, -1) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%softmax) : (tensor<4xf32>)
    }
    ```

    `--explain-difference=partitions=@first,@second` remarks: they differ in
    constant at node 0: the argument 'dim' is 0 in the first, -1 in the second.
  }];
  let options = [
    ListOption<"partitions", "partitions", "std::string",
               "The two parts to compare">,
    Option<"partitionMap", "partition-map", "std::string", "",
           "The map that --dedup-partitions wrote, whose classes may be named">,
  ];
}

#endif // OPPROF_DIALECT_FX_TRANSFORMS_PASSES_TD
