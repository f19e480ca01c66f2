// RUN: opprof-translate --emit-python --regions %s | FileCheck %s
// RUN: opprof-translate --emit-python %s | FileCheck %s --check-prefix=PLAIN

// What goes out of a region owns its storage: views of it are made by the function round the region, and so are views
// of what goes in. What is written in place is what went in.

// CHECK: @torch.compiler.nested_compile_region
// CHECK-NEXT: def layer_0(
// CHECK-NOT: aten.transpose
// CHECK: relu: "f32[4, 4]" = torch.ops.aten.relu.default(x)
// CHECK: torch.ops.aten.add_.Tensor(y, relu)
// CHECK: return (relu,)

// CHECK-NOT: nested_compile_region
// CHECK: def layer(
// CHECK: (layer_0_1,) = layer_0(x, y)
// CHECK: transpose: "f32[4, 4]" = torch.ops.aten.transpose.int(layer_0_1, 0, 1)
// CHECK: view: "f32[16]" = torch.ops.aten.view.default(x, [16])
// CHECK: return (layer_0_1, transpose, view, y)

// CHECK: @torch.compiler.nested_compile_region
// CHECK-NEXT: def fresh(

// PLAIN-NOT: nested_compile_region
// PLAIN-NOT: layer_0

fx.graph @model(%x: tensor<4x4xf32> {fx.name = "x"}, %y: tensor<4x4xf32> {fx.name = "y"}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>) {
  %0:4 = fx.call @layer(%x, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>)
  %1:4 = fx.call @layer(%0#0, %0#3) : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>)
  %2 = fx.call @fresh(%1#0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output(%2, %1#1, %1#2) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>)
}
fx.graph private @layer(%x: tensor<4x4xf32> {fx.name = "x"}, %y: tensor<4x4xf32> {fx.name = "y"}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>) {
  %relu = fx.node "aten.relu.default"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %transpose = fx.node "aten.transpose.int"(%relu, 0, 1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %view = fx.node "aten.view.default"(%x, [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
  %sum = fx.node "aten.add_.Tensor"(%y, %relu) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output(%relu, %transpose, %view, %sum) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>)
}
fx.graph private @fresh(%x: tensor<4x4xf32> {fx.name = "x"}) -> tensor<4x4xf32> {
  %view = fx.node "aten.view.default"(%x, [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
  %relu = fx.node "aten.relu.default"(%view) : (tensor<16xf32>) -> tensor<16xf32>
  %back = fx.node "aten.view.default"(%relu, [4, 4]) : (tensor<16xf32>) -> tensor<4x4xf32>
  fx.output(%back) : (tensor<4x4xf32>)
}
