// Repeats in the blocks that nodes hold: layers in the body of a loop, and in the branches of a condition.

// RUN: opprof-opt %s --split-input-file --dedup-partitions=min-nodes=3 --mlir-print-debuginfo=false -o %t 2> %t.remarks
// RUN: FileCheck %s --input-file=%t
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK
// RUN: opprof-opt %s --split-input-file --mlir-print-debuginfo=false -o %t.before
// RUN: opprof-opt %s --split-input-file --dedup-partitions=min-nodes=3 --inline-partitions --mlir-print-debuginfo=false -o %t.after 2> /dev/null
// RUN: diff %t.before %t.after
// RUN: opprof-opt %s --split-input-file --dedup-partitions="min-nodes=3 levels=4 any-order" --inline-partitions --mlir-print-debuginfo=false -o %t.after 2> /dev/null
// RUN: diff %t.before %t.after

// REMARK: @loop, 7 nodes: 2 partitions in 1 class, 3 nodes saved
// CHECK-LABEL: fx.graph @loop(
// CHECK: "prim.Loop"
// CHECK-COUNT-2: fx.call @partition(
// CHECK-NOT: fx.call
// CHECK: fx.graph private @partition(
fx.graph @loop(%x: tensor<4x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %n: !fx.scalar<"int">) -> tensor<4x4xf32> attributes {functional} {
  %loop = fx.node "prim.Loop"(%n, true, %x, %a, %b) : (!fx.scalar<"int">, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    block (%round: !fx.scalar<"int">, %carried: tensor<4x4xf32>, %first: tensor<4x4xf32>, %second: tensor<4x4xf32>) {
      %mm = fx.node "aten.mm.default"(%carried, %first) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %relu = fx.node "aten.relu.default"(%mm) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %add = fx.node "aten.add.Tensor"(%carried, %relu) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %mm_1 = fx.node "aten.mm.default"(%add, %second) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %relu_1 = fx.node "aten.relu.default"(%mm_1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %add_1 = fx.node "aten.add.Tensor"(%add, %relu_1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      fx.output(true, %add_1) : (tensor<4x4xf32>)
    }
  fx.output(%loop) : (tensor<4x4xf32>)
}

// -----

// What stands in a branch, in a branch in that, and in the graph itself is one class. Another order of operands is another thing.
// REMARK: @branches, 17 nodes: 4 partitions in 1 class, 9 nodes saved
// CHECK-LABEL: fx.graph @branches(
// CHECK: fx.call @partition(
// CHECK: fx.call @partition(
// CHECK: "prim.If"
// CHECK: fx.call @partition(
// CHECK: "prim.If"
// CHECK: fx.call @partition(
// CHECK-NOT: fx.call
// CHECK: fx.graph private @partition(
fx.graph @branches(%is: !fx.scalar<"bool">, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %sub = fx.node "aten.sub.Tensor"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %relu = fx.node "aten.relu.default"(%sub) : (tensor<4xf32>) -> tensor<4xf32>
  %add = fx.node "aten.add.Tensor"(%relu, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %sub_1 = fx.node "aten.sub.Tensor"(%add, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %relu_1 = fx.node "aten.relu.default"(%sub_1) : (tensor<4xf32>) -> tensor<4xf32>
  %add_1 = fx.node "aten.add.Tensor"(%relu_1, %add) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %if = fx.node "prim.If"(%is, %is, %add_1, %y) : (!fx.scalar<"bool">, !fx.scalar<"bool">, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    block (%again: !fx.scalar<"bool">, %z: tensor<4xf32>, %w: tensor<4xf32>) {
      %sub_2 = fx.node "aten.sub.Tensor"(%z, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %relu_2 = fx.node "aten.relu.default"(%sub_2) : (tensor<4xf32>) -> tensor<4xf32>
      %add_2 = fx.node "aten.add.Tensor"(%relu_2, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %if_1 = fx.node "prim.If"(%again, %add_2, %w) : (!fx.scalar<"bool">, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        block (%v: tensor<4xf32>, %u: tensor<4xf32>) {
          %sub_3 = fx.node "aten.sub.Tensor"(%v, %u) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          %relu_3 = fx.node "aten.relu.default"(%sub_3) : (tensor<4xf32>) -> tensor<4xf32>
          %add_3 = fx.node "aten.add.Tensor"(%relu_3, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          fx.output(%add_3) : (tensor<4xf32>)
        }
        block (%v: tensor<4xf32>, %u: tensor<4xf32>) {
          fx.output(%v) : (tensor<4xf32>)
        }
      fx.output(%if_1) : (tensor<4xf32>)
    }
    block (%again: !fx.scalar<"bool">, %z: tensor<4xf32>, %w: tensor<4xf32>) {
      %sub_4 = fx.node "aten.sub.Tensor"(%w, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %relu_4 = fx.node "aten.relu.default"(%sub_4) : (tensor<4xf32>) -> tensor<4xf32>
      %add_4 = fx.node "aten.add.Tensor"(%relu_4, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%add_4) : (tensor<4xf32>)
    }
  fx.output(%if) : (tensor<4xf32>)
}

// -----

// Two layers that hold a branch are a class, and what the branch repeats is a class inside of it: each place is one of both layers.
// REMARK: @layers, 18 nodes: 2 partitions in 2 classes, 3 nodes saved
// REMARK: c1 @partition_0, 3 nodes: {{.*}}: 1 unique, 3 duplicates
// CHECK-LABEL: fx.graph @layers(
// CHECK-COUNT-2: fx.call @partition(
// CHECK-NOT: fx.call
// CHECK: fx.graph private @partition_0(
// CHECK: fx.graph private @partition(
// CHECK: "prim.If"
// CHECK-COUNT-2: fx.call @partition_0(
// CHECK-NOT: fx.call
fx.graph @layers(%is: !fx.scalar<"bool">, %x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %in = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %if = fx.node "prim.If"(%is, %in) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>) {
      %sin = fx.node "aten.sin.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
      %relu = fx.node "aten.relu.default"(%sin) : (tensor<4xf32>) -> tensor<4xf32>
      %add = fx.node "aten.add.Tensor"(%relu, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %sin_1 = fx.node "aten.sin.default"(%add) : (tensor<4xf32>) -> tensor<4xf32>
      %relu_1 = fx.node "aten.relu.default"(%sin_1) : (tensor<4xf32>) -> tensor<4xf32>
      %add_1 = fx.node "aten.add.Tensor"(%relu_1, %add) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%add_1) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  %out = fx.node "aten.tanh.default"(%if) : (tensor<4xf32>) -> tensor<4xf32>
  %in_1 = fx.node "aten.neg.default"(%out) : (tensor<4xf32>) -> tensor<4xf32>
  %if_1 = fx.node "prim.If"(%is, %in_1) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>) {
      %sin_2 = fx.node "aten.sin.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
      %relu_2 = fx.node "aten.relu.default"(%sin_2) : (tensor<4xf32>) -> tensor<4xf32>
      %add_2 = fx.node "aten.add.Tensor"(%relu_2, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %sin_3 = fx.node "aten.sin.default"(%add_2) : (tensor<4xf32>) -> tensor<4xf32>
      %relu_3 = fx.node "aten.relu.default"(%sin_3) : (tensor<4xf32>) -> tensor<4xf32>
      %add_3 = fx.node "aten.add.Tensor"(%relu_3, %add_2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%add_3) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  %out_1 = fx.node "aten.tanh.default"(%if_1) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%out_1) : (tensor<4xf32>)
}
