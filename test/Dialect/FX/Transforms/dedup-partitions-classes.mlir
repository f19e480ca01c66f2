// Verify classes that feed each other, that cut values decide between stretches of nearly equal size, and what is not merged.

// RUN: opprof-opt %s --dedup-partitions --mlir-print-debuginfo=false 2> %t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: opprof-opt %s --dedup-partitions=mode=ignore-shapes -o /dev/null 2>&1 | FileCheck %s --check-prefix=WEAK
// RUN: opprof-opt %s -o %t.before && opprof-opt %s --dedup-partitions --inline-partitions -o %t.after 2> %t.remarks
// RUN: diff %t.before %t.after

// REMARK: remark: @two, 16 nodes: 4 partitions in 2 classes, 8 nodes saved
// REMARK: note: c0 @partition, 4 nodes: c0.0, c0.1: 1 unique, 1 duplicate
// REMARK: note: c1 @partition_0, 4 nodes: c1.0, c1.1: 1 unique, 1 duplicate
// REMARK: remark: @shapes, 8 nodes: no subgraph of at least 4 nodes is repeated
// WEAK: remark: @shapes: equal but for shape, and so not merged: 2 partitions of 4 nodes

// CHECK-LABEL: fx.graph @two
// CHECK-NEXT: %[[A:.*]] = fx.call @partition(%{{.*}})
// CHECK-NEXT: %[[B:.*]] = fx.call @partition(%[[A]])
// CHECK-NEXT: %[[C:.*]] = fx.call @partition_0(%[[B]])
// CHECK-NEXT: %[[D:.*]] = fx.call @partition_0(%[[C]])
// CHECK-NEXT: fx.output(%[[D]])
fx.graph @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.node "aten.relu.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fx.node "aten.abs.default"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = fx.node "aten.add.Tensor"(%2, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = fx.node "aten.neg.default"(%3) : (tensor<4xf32>) -> tensor<4xf32>
  %5 = fx.node "aten.relu.default"(%4) : (tensor<4xf32>) -> tensor<4xf32>
  %6 = fx.node "aten.abs.default"(%5) : (tensor<4xf32>) -> tensor<4xf32>
  %7 = fx.node "aten.add.Tensor"(%6, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = fx.node "aten.sin.default"(%7) : (tensor<4xf32>) -> tensor<4xf32>
  %9 = fx.node "aten.cos.default"(%8) : (tensor<4xf32>) -> tensor<4xf32>
  %10 = fx.node "aten.exp.default"(%9) : (tensor<4xf32>) -> tensor<4xf32>
  %11 = fx.node "aten.mul.Tensor"(%10, %8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %12 = fx.node "aten.sin.default"(%11) : (tensor<4xf32>) -> tensor<4xf32>
  %13 = fx.node "aten.cos.default"(%12) : (tensor<4xf32>) -> tensor<4xf32>
  %14 = fx.node "aten.exp.default"(%13) : (tensor<4xf32>) -> tensor<4xf32>
  %15 = fx.node "aten.mul.Tensor"(%14, %12) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%15) : (tensor<4xf32>)
}

// CHECK-LABEL: fx.graph @shapes
// CHECK-NOT: fx.call
fx.graph @shapes(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.node "aten.relu.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fx.node "aten.abs.default"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = fx.node "aten.add.Tensor"(%2, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = fx.node "aten.neg.default"(%y) : (tensor<8xf32>) -> tensor<8xf32>
  %5 = fx.node "aten.relu.default"(%4) : (tensor<8xf32>) -> tensor<8xf32>
  %6 = fx.node "aten.abs.default"(%5) : (tensor<8xf32>) -> tensor<8xf32>
  %7 = fx.node "aten.add.Tensor"(%6, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fx.output(%3, %7) : (tensor<4xf32>, tensor<8xf32>)
}
