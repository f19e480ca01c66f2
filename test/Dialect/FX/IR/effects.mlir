// Mutation, aliasing and randomness as memory effects: what CSE merges and dead code elimination drops, and what they leave.
// RUN: opprof-opt --cse --split-input-file %s | FileCheck %s

// Pure nodes of equal arguments are one.
// CHECK-LABEL: @pure
fx.graph @pure(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[R:.*]] = fx.node "aten.relu.default"
  // CHECK-NEXT: fx.output(%[[R]], %[[R]])
  %0 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0, %1) : (tensor<4xf32>, tensor<4xf32>)
}

// Constants and types count.
// CHECK-LABEL: @differ
fx.graph @differ(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-3: fx.node "aten.add.Tensor"
  %0 = fx.node "aten.add.Tensor"(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.node "aten.add.Tensor"(%x, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fx.node "aten.add.Tensor"(%x, true) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0, %1, %2) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
}

// What is not used and only computes goes.
// CHECK-LABEL: @dead
fx.graph @dead(%x: tensor<4xf32>) {
  // CHECK-NOT: fx.node
  %0 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.node "operator.add"(1, 2) : () -> !fx.symint<"3">
  // CHECK: fx.output
  fx.output() : ()
}

// What Python writes to stays, though its result is not used.
// CHECK-LABEL: @setitem
fx.graph @setitem(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: fx.node "operator.setitem"
  // CHECK-NEXT: fx.node "operator.delitem"
  // CHECK-NEXT: fx.output
  %0 = fx.node "operator.setitem"(%x, 0, 1.0) : (tensor<4xf32>) -> !fx.none
  %1 = fx.node "operator.delitem"(%x, 0) : (tensor<4xf32>) -> !fx.none
  fx.output(%x) : (tensor<4xf32>)
}

// Random draws stay, used or not, one after the other.
// CHECK-LABEL: @random
fx.graph @random(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-3: fx.node "aten.rand.default"
  %0 = fx.node "aten.rand.default"([4]) : () -> tensor<4xf32>
  %1 = fx.node "aten.rand.default"([4]) : () -> tensor<4xf32>
  %2 = fx.node "aten.rand.default"([4]) : () -> tensor<4xf32>
  fx.output(%0, %1) : (tensor<4xf32>, tensor<4xf32>)
}

// A write between two reads of the same tensor keeps them apart.
// CHECK-LABEL: @mutation
fx.graph @mutation(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: %[[BEFORE:.*]] = fx.node "aten.relu.default"
  // CHECK: fx.node "aten.add_.Tensor"
  // CHECK: %[[AFTER:.*]] = fx.node "aten.relu.default"
  // CHECK: fx.output(%[[BEFORE]], %[[AFTER]])
  %0 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.node "aten.add_.Tensor"(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0, %1) : (tensor<4xf32>, tensor<4xf32>)
}

// So does one through a view.
// CHECK-LABEL: @view
fx.graph @view(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-2: fx.node "aten.relu.default"
  %view = fx.node "aten.view.default"(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %0 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.node "aten.add_.Tensor"(%view, 1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0, %1) : (tensor<4xf32>, tensor<4xf32>)
}

// Two views of a tensor that nobody writes are one.
// CHECK-LABEL: @views
fx.graph @views(%x: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK-COUNT-1: fx.node "aten.view.default"
  // CHECK-NOT: fx.node
  %0 = fx.node "aten.view.default"(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %1 = fx.node "aten.view.default"(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  fx.output(%0, %1) : (tensor<2x2xf32>, tensor<2x2xf32>)
}

// Two fresh tensors of equal value are not one, once one of them is written.
// CHECK-LABEL: @fresh
fx.graph @fresh(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-2: fx.node "aten.clone.default"
  %0 = fx.node "aten.clone.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.node "aten.clone.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.node "aten.add_.Tensor"(%0, 1) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0, %1) : (tensor<4xf32>, tensor<4xf32>)
}

// An operator without a schema may do anything.
// CHECK-LABEL: @unknown
fx.graph @unknown(%x: tensor<4xf32>) {
  // CHECK-COUNT-2: fx.node "mylib.log.default"
  // CHECK: fx.node call_method "zero_"
  fx.node "mylib.log.default"(%x) : (tensor<4xf32>) -> !fx.none
  fx.node "mylib.log.default"(%x) : (tensor<4xf32>) -> !fx.none
  fx.node call_method "zero_"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

// A call does what its callee's nodes do.
fx.graph private @pure(%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %0 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0) : (tensor<4xf32>)
}
fx.graph private @writes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.node "aten.relu_.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0) : (tensor<4xf32>)
}
// CHECK-LABEL: @calls
fx.graph @calls(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // CHECK-NOT: @pure
  // CHECK-COUNT-2: fx.call @writes
  %0 = fx.call @pure(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.call @writes(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fx.call @writes(%y) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

// A higher-order operator that only runs functional subgraphs only computes; one that draws random numbers stays.
fx.graph private @pure(%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %0 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0) : (tensor<4xf32>)
}
fx.graph private @draws(%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %0 = fx.node "aten.rand_like.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0) : (tensor<4xf32>)
}
// CHECK-LABEL: @higher_order
fx.graph @higher_order(%p: tensor<i1>, %x: tensor<4xf32>) {
  // CHECK-NOT: "higher_order.cond"(%{{.*}}, @pure, @pure
  // CHECK: "higher_order.cond"(%{{.*}}, @pure, @draws
  %0 = fx.node "higher_order.cond"(%p, @pure, @pure, (%x)) : (tensor<i1>, tensor<4xf32>) -> tuple<tensor<4xf32>>
  %1 = fx.node "higher_order.cond"(%p, @pure, @draws, (%x)) : (tensor<i1>, tensor<4xf32>) -> tuple<tensor<4xf32>>
  fx.output() : ()
}

// -----

// Verify that dropout which the arguments turn off is no draw: attention without dropout and dropout in eval mode merge.
// CHECK-LABEL: @dropout_off
// CHECK-COUNT-1: aten.scaled_dot_product_attention.default
// CHECK-NOT: aten.scaled_dot_product_attention.default
// CHECK-COUNT-1: aten.dropout.default
// CHECK-NOT: aten.dropout.default
fx.graph @dropout_off(%x: tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) {
  %0 = fx.node "aten.scaled_dot_product_attention.default"(%x, %x, %x) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = fx.node "aten.scaled_dot_product_attention.default"(%x, %x, %x) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %2 = fx.node "aten.dropout.default"(%x, 1.000000e-01, false) : (tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %3 = fx.node "aten.dropout.default"(%x, 1.000000e-01, false) : (tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  fx.output(%0, %1, %2, %3) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
}

// -----

// Verify that attention with dropout stays a draw.
// CHECK-LABEL: @dropout_on
// CHECK-COUNT-2: aten.scaled_dot_product_attention.default
fx.graph @dropout_on(%x: tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) {
  %0 = fx.node "aten.scaled_dot_product_attention.default"(%x, %x, %x, none, 1.000000e-01) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %1 = fx.node "aten.scaled_dot_product_attention.default"(%x, %x, %x, none, 1.000000e-01) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  fx.output(%0, %1) : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>)
}

// -----

// What is assigned between two reads of an attribute is seen by the second: they merge where nothing stands between.
// CHECK-LABEL: @assigned
// CHECK: get_attr "count"
// CHECK-NEXT: "prim.SetAttr"("count"
// CHECK-NEXT: get_attr "count"
// CHECK-NOT: get_attr
// CHECK: fx.output
fx.graph @assigned(%n: !fx.scalar<"int">) -> (!fx.scalar<"int">, !fx.scalar<"int">, !fx.scalar<"int">) {
  %0 = fx.node get_attr "count"() : () -> !fx.scalar<"int">
  fx.node "prim.SetAttr"("count", %n) : (!fx.scalar<"int">) -> !fx.none
  %1 = fx.node get_attr "count"() : () -> !fx.scalar<"int">
  %2 = fx.node get_attr "count"() : () -> !fx.scalar<"int">
  fx.output(%0, %1, %2) : (!fx.scalar<"int">, !fx.scalar<"int">, !fx.scalar<"int">)
}

// -----

// Nothing assigns this one, so that its reads are one whatever stands between.
// CHECK-LABEL: @not_assigned
// CHECK-COUNT-1: get_attr "rate"
// CHECK-NOT: get_attr "rate"
fx.graph @not_assigned(%n: !fx.scalar<"int">) -> (!fx.scalar<"int">, !fx.scalar<"int">) {
  %0 = fx.node get_attr "rate"() : () -> !fx.scalar<"int">
  fx.node "prim.SetAttr"("count", %n) : (!fx.scalar<"int">) -> !fx.none
  %1 = fx.node get_attr "rate"() : () -> !fx.scalar<"int">
  fx.output(%0, %1) : (!fx.scalar<"int">, !fx.scalar<"int">)
}

// -----

// An assignment to an object that may be any module's may be one to any attribute.
// CHECK-LABEL: @object
// CHECK-COUNT-2: get_attr "rate"
fx.graph @object(%object: !fx.object<"Counter">, %n: !fx.scalar<"int">) -> (!fx.scalar<"int">, !fx.scalar<"int">) {
  %0 = fx.node get_attr "rate"() : () -> !fx.scalar<"int">
  fx.node "prim.SetAttr"(%object, "rate", %n) : (!fx.object<"Counter">, !fx.scalar<"int">) -> !fx.none
  %1 = fx.node get_attr "rate"() : () -> !fx.scalar<"int">
  fx.output(%0, %1) : (!fx.scalar<"int">, !fx.scalar<"int">)
}

// -----

// A branch that reads the attribute does so where it stands, and so does a call.
fx.graph private @reads(%is: !fx.scalar<"bool">) -> !fx.scalar<"int"> attributes {functional} {
  %0 = fx.node get_attr "count"() : () -> !fx.scalar<"int">
  fx.output(%0) : (!fx.scalar<"int">)
}
// CHECK-LABEL: @assigned_elsewhere
// CHECK: "prim.If"
// CHECK: fx.call @reads
// CHECK: "prim.If"
// CHECK: "prim.SetAttr"
// CHECK: "prim.If"
// CHECK: fx.call @reads
// CHECK: fx.output
fx.graph @assigned_elsewhere(%is: !fx.scalar<"bool">, %n: !fx.scalar<"int">) -> (!fx.scalar<"int">, !fx.scalar<"int">, !fx.scalar<"int">, !fx.scalar<"int">) {
  %0 = fx.node "prim.If"(%is) : (!fx.scalar<"bool">) -> !fx.scalar<"int">
    block () {
      %count = fx.node get_attr "count"() : () -> !fx.scalar<"int">
      fx.output(%count) : (!fx.scalar<"int">)
    }
    block () {
      fx.output(0) : ()
    }
  %1 = fx.call @reads(%is) : (!fx.scalar<"bool">) -> !fx.scalar<"int">
  fx.node "prim.If"(%is, %n) : (!fx.scalar<"bool">, !fx.scalar<"int">) -> !fx.none
    block (%m: !fx.scalar<"int">) {
      fx.node "prim.SetAttr"("count", %m) : (!fx.scalar<"int">) -> !fx.none
      fx.output() : ()
    }
    block (%m: !fx.scalar<"int">) {
      fx.output() : ()
    }
  %2 = fx.node "prim.If"(%is) : (!fx.scalar<"bool">) -> !fx.scalar<"int">
    block () {
      %count = fx.node get_attr "count"() : () -> !fx.scalar<"int">
      fx.output(%count) : (!fx.scalar<"int">)
    }
    block () {
      fx.output(0) : ()
    }
  %3 = fx.call @reads(%is) : (!fx.scalar<"bool">) -> !fx.scalar<"int">
  fx.output(%0, %1, %2, %3) : (!fx.scalar<"int">, !fx.scalar<"int">, !fx.scalar<"int">, !fx.scalar<"int">)
}
