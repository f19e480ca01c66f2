// The probability of a dropout that is off changes nothing: such layers are the same, and inlining gives back each its own.
// RUN: opprof-opt %s --dedup-partitions=min-nodes=2 --mlir-print-debuginfo=false -o %t.merged 2> %t.remarks
// RUN: FileCheck %s < %t.merged
// RUN: opprof-opt %t.merged --inline-partitions --mlir-print-debuginfo=false -o %t.inlined
// RUN: opprof-opt %s --mlir-print-debuginfo=false | diff - %t.inlined

// CHECK: fx.call @partition(%arg0) {prof.partition = #prof.partition<"c0.0", unique>}
// CHECK: fx.call @partition({{.*}}) {fx.instance_arguments = {{\[\[}}#fx.value, 2.000000e-01, false], unit], prof.partition = #prof.partition<"c0.1", duplicate>}
// CHECK: fx.node "aten.dropout.default"({{.*}}, 3.000000e-01, true)
// CHECK: fx.graph private @partition
fx.graph @model stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %a = fx.node "aten.dropout.default"(%x, 1.000000e-01, false) : (tensor<4xf32>) -> tensor<4xf32>
  %b = fx.node "aten.relu.default"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = fx.node "aten.dropout.default"(%b, 2.000000e-01, false) : (tensor<4xf32>) -> tensor<4xf32>
  %d = fx.node "aten.relu.default"(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %e = fx.node "aten.dropout.default"(%d, 3.000000e-01, true) : (tensor<4xf32>) -> tensor<4xf32>
  %f = fx.node "aten.relu.default"(%e) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%f) : (tensor<4xf32>)
}

// CHECK-LABEL: fx.graph @decomposed
// CHECK-COUNT-2: fx.call @partition_0
// CHECK-NOT: fx.call
fx.graph @decomposed stage "export" (%x: tensor<2x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) -> tensor<2x4xf32> attributes {functional} {
  %a = fx.node "aten._native_batch_norm_legit_no_training.default"(%x, %w, %b, %m, %v, 1.000000e-01, 1.000000e-05) : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tuple<tensor<2x4xf32>, tensor<0xf32>, tensor<0xf32>>
  %c = fx.node "operator.getitem"(%a, 0) : (tuple<tensor<2x4xf32>, tensor<0xf32>, tensor<0xf32>>) -> tensor<2x4xf32>
  %d = fx.node "aten._native_batch_norm_legit_no_training.default"(%c, %w, %b, %m, %v, 1.000000e-02, 1.000000e-05) : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tuple<tensor<2x4xf32>, tensor<0xf32>, tensor<0xf32>>
  %e = fx.node "operator.getitem"(%d, 0) : (tuple<tensor<2x4xf32>, tensor<0xf32>, tensor<0xf32>>) -> tensor<2x4xf32>
  fx.output(%e) : (tensor<2x4xf32>)
}
