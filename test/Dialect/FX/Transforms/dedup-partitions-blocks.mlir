// Nodes that hold blocks are merged where what the blocks compute is the same: the same operators on other values are not.

// RUN: opprof-opt %s --dedup-partitions=min-nodes=3 --mlir-print-debuginfo=false -o %t 2> %t.remarks
// RUN: FileCheck %s --input-file=%t
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK
// RUN: opprof-opt %s --dedup-partitions="min-nodes=3 any-order levels=4" --mlir-print-debuginfo=false -o - 2> /dev/null | FileCheck %s

// The first and the third are the same; the second subtracts the other way round, the fourth gives another value.
// REMARK: @branches, 20 nodes: 2 partitions in 1 class, 4 nodes saved
// CHECK-LABEL: fx.graph @branches
// CHECK-COUNT-2: fx.call @partition(
// CHECK-NOT: fx.call
// CHECK: fx.graph private @partition(
// CHECK-NOT: fx.graph
fx.graph @branches(%is: !fx.scalar<"bool">, %x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {functional} {
  %in0 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %if0 = fx.node "prim.If"(%is, %in0, %z) : (!fx.scalar<"bool">, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>, %w: tensor<4xf32>) {
      %sub = fx.node "aten.sub.Tensor"(%y, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%sub) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>, %w: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  %tanh0 = fx.node "aten.tanh.default"(%if0) : (tensor<4xf32>) -> tensor<4xf32>
  %neg0 = fx.node "aten.neg.default"(%tanh0) : (tensor<4xf32>) -> tensor<4xf32>
  %in1 = fx.node "aten.sin.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %if1 = fx.node "prim.If"(%is, %in1, %z) : (!fx.scalar<"bool">, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>, %w: tensor<4xf32>) {
      %sub = fx.node "aten.sub.Tensor"(%w, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%sub) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>, %w: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  %tanh1 = fx.node "aten.tanh.default"(%if1) : (tensor<4xf32>) -> tensor<4xf32>
  %neg1 = fx.node "aten.neg.default"(%tanh1) : (tensor<4xf32>) -> tensor<4xf32>
  %in2 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %if2 = fx.node "prim.If"(%is, %in2, %z) : (!fx.scalar<"bool">, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>, %w: tensor<4xf32>) {
      %sub = fx.node "aten.sub.Tensor"(%y, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%sub) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>, %w: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  %tanh2 = fx.node "aten.tanh.default"(%if2) : (tensor<4xf32>) -> tensor<4xf32>
  %neg2 = fx.node "aten.neg.default"(%tanh2) : (tensor<4xf32>) -> tensor<4xf32>
  %in3 = fx.node "aten.cos.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %if3 = fx.node "prim.If"(%is, %in3, %z) : (!fx.scalar<"bool">, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>, %w: tensor<4xf32>) {
      %sub = fx.node "aten.sub.Tensor"(%y, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%sub) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>, %w: tensor<4xf32>) {
      fx.output(%w) : (tensor<4xf32>)
    }
  %tanh3 = fx.node "aten.tanh.default"(%if3) : (tensor<4xf32>) -> tensor<4xf32>
  %neg3 = fx.node "aten.neg.default"(%tanh3) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%neg0, %neg1, %neg2, %neg3) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
}
