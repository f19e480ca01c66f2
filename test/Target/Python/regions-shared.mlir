// Results of one operator that returns several tensors own their storage each, so layers that share them are regions. A layer that is
// none says why.
// RUN: opprof-translate --emit-python --regions %s 2> %t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY < %t.remarks

// CHECK: @torch.compiler.nested_compile_region
// CHECK-NEXT: def layer(
// CHECK-NOT: nested_compile_region
// CHECK: def both(
// WHY-NOT: @layer
// WHY: remark: @both is no region: a call gives it input 0 and input 1, which share storage
// WHY: note: the call is here

fx.graph @pairs(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %pair = fx.node "aten.var_mean.correction"(%x, [0]) : (tensor<4x4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>>
  %var = fx.node "operator.getitem"(%pair, 0) : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  %mean = fx.node "operator.getitem"(%pair, 1) : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  %0 = fx.call @layer(%x, %var, %mean) {prof.partition = #prof.partition<"a", unique>} : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %1 = fx.call @layer(%0, %var, %mean) {prof.partition = #prof.partition<"b", duplicate>} : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %view = fx.node "aten.view.default"(%1, [4, 4]) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = fx.call @both(%1, %view) {prof.partition = #prof.partition<"c", unique>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output(%2) : (tensor<4x4xf32>)
}
fx.graph private @layer(%x: tensor<4x4xf32>, %var: tensor<4xf32>, %mean: tensor<4xf32>) -> tensor<4x4xf32> {
  %sub = fx.node "aten.sub.Tensor"(%x, %mean) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %mul = fx.node "aten.mul.Tensor"(%sub, %var) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  fx.output(%mul) : (tensor<4x4xf32>)
}
fx.graph private @both(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %sub = fx.node "aten.sub.Tensor"(%x, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output(%sub) : (tensor<4x4xf32>)
}
