// Verify that a file may hold what other tools left beside the graph: launches, and the script that rewrote it.

// RUN: opprof-translate --emit-python %s | FileCheck %s

// CHECK: def model(
// CHECK: torch.ops.aten.relu.default(arg0)

!x = tensor<2x8xf32, #fx.tensor<"cpu">>

module attributes {transform.with_named_sequence} {
  fx.graph @model stage "export" (%x: !x) -> (!x) {
    %relu = fx.node "aten.relu.default"(%x) : (!x) -> !x
    fx.output(%relu) : (!x)
  }

  fx.external @model_0 stage "post_grad"
  inductor.program of @model_0 statements 1 of 1 {
    inductor.launch 0 "cpp_fused_relu_0" cpp pointwise hash "cabc" reads ["x"] writes ["buf0"] computes [#inductor.node<@model_0::@relu, evidence = ["fragment"]>]
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.region_strategy %root {freeze} : !transform.any_op
    transform.yield
  }
}
