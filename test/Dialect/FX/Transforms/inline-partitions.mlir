// Verify that inlining undoes deduplication: the same nodes, names, attributes and order.

// RUN: rm -rf %t && mkdir %t
// RUN: opprof-opt %s -o %t/before.mlir
// RUN: opprof-opt %s --dedup-partitions=min-nodes=2 -o %t/dedup.mlir 2> %t/remarks
// RUN: FileCheck %s < %t/dedup.mlir
// RUN: opprof-opt %t/dedup.mlir --verify-roundtrip --inline-partitions -o %t/after.mlir
// RUN: diff %t/before.mlir %t/after.mlir
// RUN: opprof-opt %s --dedup-partitions="min-nodes=2 any-order" --inline-partitions -o %t/after.mlir 2> %t/remarks
// RUN: diff %t/before.mlir %t/after.mlir
// RUN: opprof-opt %s --dedup-partitions="min-nodes=2 levels=3" --inline-partitions -o %t/after.mlir 2> %t/remarks
// RUN: diff %t/before.mlir %t/after.mlir

// The weights of the second pair are named between its nodes, and nodes have attributes of their own.
// CHECK-LABEL: fx.graph @weights
// CHECK-COUNT-2: fx.call @partition(
fx.graph @weights(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = fx.node get_attr "w"() : () -> tensor<4xf32> loc("w")
  %mul = fx.node "aten.mul.Tensor"(%x, %w) {opprof.note = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("mul")
  %v = fx.node get_attr "v"() : () -> tensor<4xf32> loc("v")
  %sub = fx.node "aten.sub.Tensor"(%mul, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("sub")
  %w_1 = fx.node get_attr "w_1"() : () -> tensor<4xf32> loc("w_1")
  %mul_1 = fx.node "aten.mul.Tensor"(%sub, %w_1) {opprof.note = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("mul_1")
  %v_1 = fx.node get_attr "v_1"() : () -> tensor<4xf32> loc("v_1")
  %sub_1 = fx.node "aten.sub.Tensor"(%mul_1, %v_1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("sub_1")
  fx.output(%sub_1) : (tensor<4xf32>)
}

// Nodes that give a tuple, and a value that two later partitions take.
// CHECK-LABEL: fx.graph @tuples
// CHECK-COUNT-2: fx.call @partition_0(
fx.graph @tuples(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %split = fx.node "aten.split.Tensor"(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>> loc("split")
  %first = fx.node "operator.getitem"(%split, 0) : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32> loc("first")
  %relu = fx.node "aten.relu.default"(%first) : (tensor<2xf32>) -> tensor<2xf32> loc("relu")
  %split_1 = fx.node "aten.split.Tensor"(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>> loc("split_1")
  %first_1 = fx.node "operator.getitem"(%split_1, 0) : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32> loc("first_1")
  %relu_1 = fx.node "aten.relu.default"(%first_1) : (tensor<2xf32>) -> tensor<2xf32> loc("relu_1")
  fx.output(%relu, %relu_1) : (tensor<2xf32>, tensor<2xf32>)
}

// Sizes that have other names in each place.
// CHECK-LABEL: fx.graph @symbols
// CHECK: fx.call @partition_1(%{{.*}}) {prof.partition
// CHECK: fx.call @partition_1(%{{.*}}) {fx.renamed_symbols = {s0 = "s1"}
fx.graph @symbols(%x: tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s0">]>>, %y: tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s1">]>>)
    -> (tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"2*s0">]>>, tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"2*s1">]>>) {
  %neg = fx.node "aten.neg.default"(%x) : (tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s0">]>>) -> tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s0">]>> loc("neg")
  %cat = fx.node "aten.cat.default"([%x, %neg]) : (tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s0">]>>, tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s0">]>>) -> tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"2*s0">]>> loc("cat")
  %neg_1 = fx.node "aten.neg.default"(%y) : (tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s1">]>>) -> tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s1">]>> loc("neg_1")
  %cat_1 = fx.node "aten.cat.default"([%y, %neg_1]) : (tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s1">]>>, tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s1">]>>) -> tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"2*s1">]>> loc("cat_1")
  fx.output(%cat, %cat_1) : (tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"2*s0">]>>, tensor<?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"2*s1">]>>)
}
