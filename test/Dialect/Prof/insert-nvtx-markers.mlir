// RUN: opprof-opt --pass-pipeline='builtin.module(fx.graph(insert-nvtx-markers))' %s | FileCheck %s
// RUN: opprof-opt --insert-nvtx-markers --insert-nvtx-markers --cse --canonicalize --symbol-dce %s | FileCheck %s
// RUN: opprof-opt --insert-nvtx-markers --inline %s | FileCheck %s --check-prefix=INLINE

// Verify that each call of a partition gets its own range, once, that nested partitions nest, and that passes keep them.
// CHECK-LABEL: fx.graph private @mlp
// CHECK-NOT: prof.range

// CHECK-LABEL: fx.graph private @layer
// CHECK-NEXT: prof.range_push "layer::unique::mlp"
// CHECK-NEXT: fx.call @mlp
// CHECK-NEXT: prof.range_pop
// CHECK-NEXT: fx.output

// CHECK-LABEL: fx.graph @model
// CHECK-NEXT: prof.range_push "layer::unique::h.0"
// CHECK-NEXT: %[[FIRST:.*]] = fx.call @layer
// CHECK-NEXT: prof.range_pop
// CHECK-NEXT: fx.node "aten.relu.default"
// CHECK-NEXT: prof.range_push "layer::duplicate::h.1"
// CHECK-NEXT: fx.call @layer
// CHECK-NEXT: prof.range_pop
// CHECK-NEXT: %[[PLAIN:.*]] = fx.call @layer
// CHECK-NEXT: fx.output

// Inlined, the ranges stay where the calls were.
// INLINE-LABEL: fx.graph @model
// INLINE: prof.range_push "layer::unique::h.0"
// INLINE-NEXT: prof.range_push "layer::unique::mlp"
// INLINE-NEXT: fx.node "aten.tanh.default"
// INLINE-NEXT: prof.range_pop
// INLINE-NEXT: prof.range_pop
// INLINE-NEXT: fx.node "aten.relu.default"
// INLINE-NEXT: prof.range_push "layer::duplicate::h.1"
// INLINE-NEXT: prof.range_push "layer::unique::mlp"

fx.graph private @mlp(%x: tensor<4xf32>) -> tensor<4xf32> {
  %tanh = fx.node "aten.tanh.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%tanh) : (tensor<4xf32>)
}
fx.graph private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.call @mlp(%x) {prof.partition = #prof.partition<"mlp", unique>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0) : (tensor<4xf32>)
}
fx.graph @model(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.call @layer(%x) {prof.partition = #prof.partition<"h.0", unique>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.node "aten.relu.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fx.call @layer(%1) {prof.partition = #prof.partition<"h.1", duplicate>} : (tensor<4xf32>) -> tensor<4xf32>
  // A call that no partition stands for gets no range.
  %3 = fx.call @layer(%2) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%3) : (tensor<4xf32>)
}
