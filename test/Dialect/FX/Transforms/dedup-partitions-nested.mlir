// Repeats inside repeats: what is searched again inside its classes has the
// greatest repeats as its outermost classes, cut where nothing smaller is.
// RUN: opprof-opt %s -split-input-file --dedup-partitions=levels=2 -o /dev/null 2>&1 | FileCheck %s
// RUN: opprof-opt %s -split-input-file --dedup-partitions=levels=2 2>/dev/null \
// RUN:   | opprof-opt -split-input-file --inline-partitions --mlir-print-debuginfo=false -o %t.inlined
// RUN: opprof-opt %s -split-input-file --mlir-print-debuginfo=false | diff - %t.inlined

// A block of 14 nodes stands twice, its part of 5 nodes seven times: the part
// gains more, and is found inside the block and beside it.
// CHECK: @parts, 46 nodes: 5 partitions in 2 classes
// CHECK: 5 nodes: c0.0 … c1.1.c0.4: 1 unique, 6 duplicates
// CHECK: 14 nodes: c1.0, c1.1: 1 unique, 1 duplicate
fx.graph @parts(%input: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %v0 = fx.node "aten.log.default"(%input) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.neg.default"(%v0) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.abs.default"(%v1) : (tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.exp.default"(%v2) : (tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.sin.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.cos.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.sqrt.default"(%v5) : (tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.neg.default"(%v6) : (tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.abs.default"(%v7) : (tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.exp.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.sin.default"(%v9) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.cos.default"(%v10) : (tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.floor.default"(%v11) : (tensor<4xf32>) -> tensor<4xf32>
  %v13 = fx.node "aten.neg.default"(%v12) : (tensor<4xf32>) -> tensor<4xf32>
  %v14 = fx.node "aten.abs.default"(%v13) : (tensor<4xf32>) -> tensor<4xf32>
  %v15 = fx.node "aten.exp.default"(%v14) : (tensor<4xf32>) -> tensor<4xf32>
  %v16 = fx.node "aten.sin.default"(%v15) : (tensor<4xf32>) -> tensor<4xf32>
  %v17 = fx.node "aten.cos.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v18 = fx.node "aten.relu.default"(%v17) : (tensor<4xf32>) -> tensor<4xf32>
  %v19 = fx.node "aten.neg.default"(%v18) : (tensor<4xf32>) -> tensor<4xf32>
  %v20 = fx.node "aten.abs.default"(%v19) : (tensor<4xf32>) -> tensor<4xf32>
  %v21 = fx.node "aten.exp.default"(%v20) : (tensor<4xf32>) -> tensor<4xf32>
  %v22 = fx.node "aten.sin.default"(%v21) : (tensor<4xf32>) -> tensor<4xf32>
  %v23 = fx.node "aten.cos.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  %v24 = fx.node "aten.tanh.default"(%v23) : (tensor<4xf32>) -> tensor<4xf32>
  %v25 = fx.node "aten.neg.default"(%v24) : (tensor<4xf32>) -> tensor<4xf32>
  %v26 = fx.node "aten.abs.default"(%v25) : (tensor<4xf32>) -> tensor<4xf32>
  %v27 = fx.node "aten.exp.default"(%v26) : (tensor<4xf32>) -> tensor<4xf32>
  %v28 = fx.node "aten.sin.default"(%v27) : (tensor<4xf32>) -> tensor<4xf32>
  %v29 = fx.node "aten.cos.default"(%v28) : (tensor<4xf32>) -> tensor<4xf32>
  %v30 = fx.node "aten.sigmoid.default"(%v29) : (tensor<4xf32>) -> tensor<4xf32>
  %v31 = fx.node "aten.add.Tensor"(%v30, %v17) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v32 = fx.node "aten.relu.default"(%v31) : (tensor<4xf32>) -> tensor<4xf32>
  %v33 = fx.node "aten.neg.default"(%v32) : (tensor<4xf32>) -> tensor<4xf32>
  %v34 = fx.node "aten.abs.default"(%v33) : (tensor<4xf32>) -> tensor<4xf32>
  %v35 = fx.node "aten.exp.default"(%v34) : (tensor<4xf32>) -> tensor<4xf32>
  %v36 = fx.node "aten.sin.default"(%v35) : (tensor<4xf32>) -> tensor<4xf32>
  %v37 = fx.node "aten.cos.default"(%v36) : (tensor<4xf32>) -> tensor<4xf32>
  %v38 = fx.node "aten.tanh.default"(%v37) : (tensor<4xf32>) -> tensor<4xf32>
  %v39 = fx.node "aten.neg.default"(%v38) : (tensor<4xf32>) -> tensor<4xf32>
  %v40 = fx.node "aten.abs.default"(%v39) : (tensor<4xf32>) -> tensor<4xf32>
  %v41 = fx.node "aten.exp.default"(%v40) : (tensor<4xf32>) -> tensor<4xf32>
  %v42 = fx.node "aten.sin.default"(%v41) : (tensor<4xf32>) -> tensor<4xf32>
  %v43 = fx.node "aten.cos.default"(%v42) : (tensor<4xf32>) -> tensor<4xf32>
  %v44 = fx.node "aten.sigmoid.default"(%v43) : (tensor<4xf32>) -> tensor<4xf32>
  %v45 = fx.node "aten.add.Tensor"(%v44, %v31) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v45) : (tensor<4xf32>)
}

// -----

// The last of three gives one value less: what stands behind the node that
// makes it differ is the same as in the others.
// CHECK: @last, 24 nodes:
// CHECK: 8 nodes: c0.0, c0.1: 1 unique, 1 duplicate
// CHECK: 6 nodes: c1.0 … c0.1.c1.1: 1 unique, 2 duplicates
fx.graph @last(%input: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {functional} {
  %v0 = fx.node "aten.neg.default"(%input) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.abs.default"(%v0) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.exp.default"(%v1) : (tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.sin.default"(%v2) : (tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.cos.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.tanh.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.relu.default"(%v5) : (tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.sigmoid.default"(%v6) : (tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.neg.default"(%v7) : (tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.abs.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.exp.default"(%v9) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.sin.default"(%v10) : (tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.cos.default"(%v11) : (tensor<4xf32>) -> tensor<4xf32>
  %v13 = fx.node "aten.tanh.default"(%v12) : (tensor<4xf32>) -> tensor<4xf32>
  %v14 = fx.node "aten.relu.default"(%v13) : (tensor<4xf32>) -> tensor<4xf32>
  %v15 = fx.node "aten.sigmoid.default"(%v14) : (tensor<4xf32>) -> tensor<4xf32>
  %v16 = fx.node "aten.neg.default"(%v15) : (tensor<4xf32>) -> tensor<4xf32>
  %v17 = fx.node "aten.abs.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v18 = fx.node "aten.exp.default"(%v17) : (tensor<4xf32>) -> tensor<4xf32>
  %v19 = fx.node "aten.sin.default"(%v18) : (tensor<4xf32>) -> tensor<4xf32>
  %v20 = fx.node "aten.cos.default"(%v19) : (tensor<4xf32>) -> tensor<4xf32>
  %v21 = fx.node "aten.tanh.default"(%v20) : (tensor<4xf32>) -> tensor<4xf32>
  %v22 = fx.node "aten.relu.default"(%v21) : (tensor<4xf32>) -> tensor<4xf32>
  %v23 = fx.node "aten.sigmoid.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v23, %v1, %v9) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
}

// -----

// What repeats may begin with either relu: it begins behind the first, where
// the value branches, and not between a sum and the one node that takes it.
// CHECK: @start, 13 nodes: 3 partitions in 1 class
// CHECK-NEXT: fx.graph @start
// CHECK: 4 nodes: c0.0 … c0.2: 1 unique, 2 duplicates
// CHECK-NEXT: "aten.neg.default"
fx.graph @start(%input: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %v0 = fx.node "aten.relu.default"(%input) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.neg.default"(%v0) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.abs.default"(%v1) : (tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.add.Tensor"(%v2, %v0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.relu.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.neg.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.abs.default"(%v5) : (tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.add.Tensor"(%v6, %v4) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.relu.default"(%v7) : (tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.neg.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.abs.default"(%v9) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.add.Tensor"(%v10, %v8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.relu.default"(%v11) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v12) : (tensor<4xf32>)
}

// -----

// Behind each cell but the last stands a node that takes what the one before was given; behind the last it takes
// the cell's own result. What all three have in common is tried without it.
// CHECK: @cells, 36 nodes: 3 partitions in 2 classes
// CHECK: 9 nodes: c0.0, c0.1: 1 unique, 1 duplicate
// CHECK: 8 nodes: c1.0 … c0.1.c1.1: 1 unique, 2 duplicates
fx.graph @cells(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %v0 = fx.node "aten.rsqrt.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.ceil.default"(%v0) : (tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.ceil.default"(%v2) : (tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.abs.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.erf.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.mul.Tensor"(%v5, %v1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.rsqrt.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.acos.default"(%v6) : (tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.neg.default"(%v7) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.floor.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.abs.default"(%v10) : (tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.ceil.default"(%v11) : (tensor<4xf32>) -> tensor<4xf32>
  %v13 = fx.node "aten.ceil.default"(%v12) : (tensor<4xf32>) -> tensor<4xf32>
  %v14 = fx.node "aten.abs.default"(%v13) : (tensor<4xf32>) -> tensor<4xf32>
  %v15 = fx.node "aten.erf.default"(%v14) : (tensor<4xf32>) -> tensor<4xf32>
  %v16 = fx.node "aten.mul.Tensor"(%v15, %v9) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v17 = fx.node "aten.relu.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v18 = fx.node "aten.neg.default"(%v17) : (tensor<4xf32>) -> tensor<4xf32>
  %v19 = fx.node "aten.floor.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v20 = fx.node "aten.abs.default"(%v19) : (tensor<4xf32>) -> tensor<4xf32>
  %v21 = fx.node "aten.ceil.default"(%v20) : (tensor<4xf32>) -> tensor<4xf32>
  %v22 = fx.node "aten.ceil.default"(%v21) : (tensor<4xf32>) -> tensor<4xf32>
  %v23 = fx.node "aten.abs.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  %v24 = fx.node "aten.erf.default"(%v23) : (tensor<4xf32>) -> tensor<4xf32>
  %v25 = fx.node "aten.mul.Tensor"(%v24, %v18) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v26 = fx.node "aten.relu.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v27 = fx.node "aten.neg.default"(%v26) : (tensor<4xf32>) -> tensor<4xf32>
  %v28 = fx.node "aten.floor.default"(%v25) : (tensor<4xf32>) -> tensor<4xf32>
  %v29 = fx.node "aten.abs.default"(%v28) : (tensor<4xf32>) -> tensor<4xf32>
  %v30 = fx.node "aten.ceil.default"(%v29) : (tensor<4xf32>) -> tensor<4xf32>
  %v31 = fx.node "aten.ceil.default"(%v30) : (tensor<4xf32>) -> tensor<4xf32>
  %v32 = fx.node "aten.abs.default"(%v31) : (tensor<4xf32>) -> tensor<4xf32>
  %v33 = fx.node "aten.erf.default"(%v32) : (tensor<4xf32>) -> tensor<4xf32>
  %v34 = fx.node "aten.mul.Tensor"(%v33, %v27) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v35 = fx.node "aten.relu.default"(%v34) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v35) : (tensor<4xf32>)
}
