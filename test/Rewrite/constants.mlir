// RUN: split-file %s %t
// RUN: opprof-opt --apply-rewrites=%t/script.mlir %t/graph.mlir --mlir-print-debuginfo=false 2>&1 | FileCheck %s
// RUN: opprof-opt --apply-rewrites=%t/script.mlir %t/other.mlir --mlir-print-debuginfo=false 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: opprof-translate --emit-rewrite %t/script.mlir | FileCheck %s --check-prefix=PYTHON

// Verify that an argument of a pattern that says what it holds stands for a tensor that holds that, and for no other one.
// CHECK: remark: applied at 1 place
// CHECK: "aten.relu.default"
// CHECK-NOT: "aten.mul.Tensor"
// OTHER: what stands for the pattern's argument 1 holds another number
// OTHER: "aten.mul.Tensor"
// PYTHON: TensorSpec(dtype=torch.float32, shape=(), constant=0.5)

//--- graph.mlir
!x = tensor<4x8xf32, #fx.tensor<"cpu">>
!c = tensor<f32, #fx.tensor<"cpu">>
fx.graph @graph(%x: !x, %c: !c {fx.kind = "constant_tensor", fx.target = "c", fx.constant = 0.5}) -> !x {
  %0 = fx.node "aten.mul.Tensor"(%x, %c) : (!x, !c) -> !x
  %1 = fx.node "aten.neg.default"(%0) : (!x) -> !x
  fx.output(%1) : (!x)
}

//--- other.mlir
!x = tensor<4x8xf32, #fx.tensor<"cpu">>
!c = tensor<f32, #fx.tensor<"cpu">>
fx.graph @graph(%x: !x, %c: !c {fx.kind = "constant_tensor", fx.target = "c", fx.constant = 0.25}) -> !x {
  %0 = fx.node "aten.mul.Tensor"(%x, %c) : (!x, !c) -> !x
  %1 = fx.node "aten.neg.default"(%0) : (!x) -> !x
  fx.output(%1) : (!x)
}

//--- script.mlir
!x = tensor<4x8xf32, #fx.tensor<"cpu">>
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: !x, %c: tensor<f32> {fx.constant = 0.5}) -> !x {
    %0 = fx.node "aten.mul.Tensor"(%x, %c) : (!x, tensor<f32>) -> !x
    fx.output(%0) : (!x)
  }
  fx.graph private @replacement(%x: !x, %c: tensor<f32>) -> !x {
    %0 = fx.node "aten.relu.default"(%x) : (!x) -> !x
    fx.output(%0) : (!x)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}
