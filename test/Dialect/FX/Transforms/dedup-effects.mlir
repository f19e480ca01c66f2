// Verify that calls stay where they are when their results or operands are written.

// RUN: opprof-opt %s --cse --canonicalize --mlir-print-debuginfo=false | FileCheck %s

// Two fresh tensors, one of which is written, are not one.
// CHECK-LABEL: fx.graph @written
// CHECK-COUNT-2: fx.call @fresh
fx.graph @written(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fx.call @fresh(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.call @fresh(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fx.node "aten.relu_.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%2, %1) : (tensor<4xf32>, tensor<4xf32>)
}

// Reading before and after a call that writes is not the same.
// CHECK-LABEL: fx.graph @around
// CHECK: fx.node "aten.neg.default"
// CHECK: fx.call @writes
// CHECK: fx.node "aten.neg.default"
fx.graph @around(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.call @writes(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0, %2) : (tensor<4xf32>, tensor<4xf32>)
}

// Where nothing is written, equal calls are one.
// CHECK-LABEL: fx.graph @pure
// CHECK: fx.call @fresh
// CHECK-NOT: fx.call
fx.graph @pure(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {functional} {
  %0 = fx.call @fresh(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = fx.call @fresh(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0, %1) : (tensor<4xf32>, tensor<4xf32>)
}

// CHECK-LABEL: fx.graph private @fresh
fx.graph private @fresh(%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %0 = fx.node "aten.exp.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0) : (tensor<4xf32>)
}
fx.graph private @writes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.node "aten.relu_.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0) : (tensor<4xf32>)
}
