// Passes on what profiling puts into graphs.

#ifndef OPPROF_DIALECT_PROF_TRANSFORMS_PASSES_TD
#define OPPROF_DIALECT_PROF_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def InsertNVTXMarkersPass : Pass<"insert-nvtx-markers", "::opprof::fx::GraphOp"> {
  let summary = "Put NVTX ranges around the partitions of a graph";
  let description = [{
    Every call that `--dedup-partitions` left gets a range
    `layer::unique::<label>` or `layer::duplicate::<label>` around it. Calls
    inside a partition get theirs there, so that nested partitions nest. Calls
    that have a range already are left alone.

    Before:

    ```mlir
    fx.graph private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu) : (tensor<4xf32>)
    }
    fx.graph @model(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fx.call @layer(%x) {prof.partition = #prof.partition<"h.0", unique>} : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%0) : (tensor<4xf32>)
    }
    ```

    After:

    ```mlir
    fx.graph private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu) : (tensor<4xf32>)
    }
    fx.graph @model(%x: tensor<4xf32>) -> tensor<4xf32> {
      prof.range_push "layer::unique::h.0"
      %0 = fx.call @layer(%x) {prof.partition = #prof.partition<"h.0", unique>} : (tensor<4xf32>) -> tensor<4xf32>
      prof.range_pop
      fx.output(%0) : (tensor<4xf32>)
    }
    ```
  }];
  let dependentDialects = ["::opprof::prof::ProfDialect"];
  let statistics = [Statistic<"numRanges", "num-ranges", "Number of ranges inserted">];
}

def AttachProfilePass : Pass<"attach-profile", "::mlir::ModuleOp"> {
  let summary = "Put a profile's times and counters onto nodes and launches";
  let description = [{
    Reads a profile.opprof.json (docs/formats/profile.md) and gives the nodes
    that it names `prof.time` and `prof.counters`, the launches of compiled graphs
    theirs, and the module `prof.summary` and a `prof.finding` for each finding:

        opprof-opt --attach-profile=run/profile.opprof.json gpt2.mlir

    A compiled graph that the module has no `inductor.program` of gets one with
    the launches that the profile lists. A call that `--dedup-partitions` left has
    the sum over its nodes, a node of an outlined graph the sum over all calls;
    inlining gives every node its own.

    Nodes that the profile names and the module does not have are warned of. A
    profile of another graph is an error. What an earlier profile left is
    replaced.
  }];
  let options = [Option<"path", "path", "std::string", /*default=*/"\"\"",
                        "A profile.opprof.json of the module's graphs">];
  let dependentDialects = ["::opprof::fx::FXDialect",
                           "::opprof::inductor::InductorDialect",
                           "::opprof::prof::ProfDialect"];
}

def StripProfilePass : Pass<"strip-profile", "::mlir::ModuleOp"> {
  let summary = "Undo --attach-profile";
  let description = [{
    Takes away times, counters, the summary, and every operation that came with
    the profile: findings, classes, and the programs and graphs that were not
    there before. The graph is what it was.

    Before:

    ```mlir
    fx.graph @timed(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x)
          {prof.time = #prof.time<ns = 3456, kernels = 2, steps = 2, share = whole, confidence = high>}
          : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu) : (tensor<4xf32>)
    }
    prof.finding "memory-bound" on [] evidence {} {prof.attached}
    ```

    After:

    ```mlir
    fx.graph @timed(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu) : (tensor<4xf32>)
    }
    ```
  }];
}

def PrintSlowestPass : Pass<"print-slowest", "::mlir::ModuleOp"> {
  let summary = "Print the nodes and launches that take the most time";
  let description = [{
    Prints the `count` slowest nodes and launches of an annotated module to the
    standard error stream, with their kernel time in a step, its share of all
    kernel time, module and source line:

        opprof-opt --attach-profile=run/profile.opprof.json --print-slowest=20 gpt2.mlir -o /dev/null

    A call of an outlined graph stands for its nodes.
  }];
  let options = [Option<"count", "count", "int64_t", /*default=*/"20",
                        "How many nodes, and how many launches">];
}

#endif // OPPROF_DIALECT_PROF_TRANSFORMS_PASSES_TD
