// How graphs print: names from locations, inputs by name, strides that go without saying left out.
// RUN: opprof-opt --mlir-print-debuginfo=false %s | FileCheck %s
// RUN: opprof-opt --symbol-dce %s | FileCheck %s --check-prefix=DCE
// RUN: opprof-opt --inline --mlir-print-debuginfo=false %s | FileCheck %s --check-prefix=INLINE

// CHECK-LABEL: fx.graph @mlp stage "export"
// CHECK-SAME: (%weight: tensor<4x4xf32, #cpu> {fx.kind = "parameter", fx.name = "weight", fx.target = "fc.weight"},
// CHECK-SAME: %x: tensor<8x4xf32, #cpu> {fx.name = "x"}) -> tensor<8x4xf32, #cpu> {
// CHECK-NEXT: %linear = fx.node "aten.linear.default"(%x, %weight) : (tensor<8x4xf32, #cpu>, tensor<4x4xf32, #cpu>) -> tensor<8x4xf32, #cpu>
// CHECK-NEXT: %[[R:.*]] = fx.call @relu(%linear) : (tensor<8x4xf32, #cpu>) -> tensor<8x4xf32, #cpu>
// CHECK-NEXT: fx.output(%[[R]]) : (tensor<8x4xf32, #cpu>)

// INLINE-LABEL: fx.graph @mlp
// INLINE: %linear = fx.node "aten.linear.default"
// INLINE-NEXT: %[[R:.*]] = fx.node "aten.relu.default"(%linear)
// INLINE-NEXT: fx.output(%[[R]])

// DCE: fx.graph @mlp
// DCE: fx.graph private @relu
// DCE-NOT: @unused
fx.graph @mlp stage "export" (
    %a: tensor<4x4xf32, #fx.tensor<"cpu">> {fx.name = "weight", fx.kind = "parameter", fx.target = "fc.weight"},
    %b: tensor<8x4xf32, #fx.tensor<"cpu">> {fx.name = "x"}) -> tensor<8x4xf32, #fx.tensor<"cpu">> {
  %0 = fx.node "aten.linear.default"(%b, %a)
      : (tensor<8x4xf32, #fx.tensor<"cpu">>, tensor<4x4xf32, #fx.tensor<"cpu">>) -> tensor<8x4xf32, #fx.tensor<"cpu">> loc("linear")
  %1 = fx.call @relu(%0) : (tensor<8x4xf32, #fx.tensor<"cpu">>) -> tensor<8x4xf32, #fx.tensor<"cpu">>
  fx.output(%1) : (tensor<8x4xf32, #fx.tensor<"cpu">>)
}
fx.graph private @relu(%x: tensor<8x4xf32, #fx.tensor<"cpu">>) -> tensor<8x4xf32, #fx.tensor<"cpu">> {
  %0 = fx.node "aten.relu.default"(%x) : (tensor<8x4xf32, #fx.tensor<"cpu">>) -> tensor<8x4xf32, #fx.tensor<"cpu">>
  fx.output(%0) : (tensor<8x4xf32, #fx.tensor<"cpu">>)
}
fx.graph private @unused() {
  fx.output() : ()
}
