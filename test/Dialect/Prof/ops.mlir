// RUN: opprof-opt --verify-roundtrip %s | FileCheck %s
// RUN: opprof-opt --emit-bytecode %s | opprof-opt | FileCheck %s

// Verify that markers and partition labels print as they are read.
// CHECK-LABEL: fx.graph @nested
// CHECK-NEXT: prof.range_push "outer"
// CHECK-NEXT: prof.range_push "layer::unique::h.0"
// CHECK-NEXT: fx.call @layer(%{{.*}}) {prof.partition = #prof.partition<"h.0", unique>}
// CHECK-NEXT: prof.range_pop
// CHECK-NEXT: prof.range_pop
fx.graph private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%relu) : (tensor<4xf32>)
}
fx.graph @nested(%x: tensor<4xf32>) -> tensor<4xf32> {
  prof.range_push "outer"
  prof.range_push "layer::unique::h.0"
  %0 = fx.call @layer(%x) {prof.partition = #prof.partition<"h.0", unique>} : (tensor<4xf32>) -> tensor<4xf32>
  prof.range_pop
  prof.range_pop
  fx.output(%0) : (tensor<4xf32>)
}
