// Passes that put profiling markers into graphs.

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

#endif // OPPROF_DIALECT_PROF_TRANSFORMS_PASSES_TD
