// Layers of two kinds in turn: both kinds are classes, whichever gains more.
// RUN: opprof-opt %s -split-input-file --dedup-partitions 2>&1 | FileCheck %s
// RUN: opprof-opt %s -split-input-file --dedup-partitions=levels=2 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: opprof-opt %s -split-input-file --dedup-partitions=levels=2 2>/dev/null \
// RUN:   | opprof-opt -split-input-file --inline-partitions --mlir-print-debuginfo=false -o %t.inlined
// RUN: opprof-opt %s -split-input-file --mlir-print-debuginfo=false | diff - %t.inlined

// The second kind stands alone between the places of the first.
// CHECK: @turns, {{[0-9]+}} nodes: 12 partitions in 2 classes, 49 nodes saved
// CHECK: c0 @partition, 5 nodes: c0.0 … c0.9: 1 unique, 9 duplicates
// CHECK: c1 @partition_0, 4 nodes: c1.0, c1.1: 1 unique, 1 duplicate
fx.graph @turns stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %v0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.exp.default"(%v0) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.relu.default"(%v1) : (tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.sin.default"(%v2) : (tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.abs.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.neg.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.exp.default"(%v5) : (tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.relu.default"(%v6) : (tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.sin.default"(%v7) : (tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.abs.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.neg.default"(%v9) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.exp.default"(%v10) : (tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.relu.default"(%v11) : (tensor<4xf32>) -> tensor<4xf32>
  %v13 = fx.node "aten.sin.default"(%v12) : (tensor<4xf32>) -> tensor<4xf32>
  %v14 = fx.node "aten.abs.default"(%v13) : (tensor<4xf32>) -> tensor<4xf32>
  %v15 = fx.node "aten.neg.default"(%v14) : (tensor<4xf32>) -> tensor<4xf32>
  %v16 = fx.node "aten.exp.default"(%v15) : (tensor<4xf32>) -> tensor<4xf32>
  %v17 = fx.node "aten.relu.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v18 = fx.node "aten.sin.default"(%v17) : (tensor<4xf32>) -> tensor<4xf32>
  %v19 = fx.node "aten.abs.default"(%v18) : (tensor<4xf32>) -> tensor<4xf32>
  %v20 = fx.node "aten.neg.default"(%v19) : (tensor<4xf32>) -> tensor<4xf32>
  %v21 = fx.node "aten.exp.default"(%v20) : (tensor<4xf32>) -> tensor<4xf32>
  %v22 = fx.node "aten.relu.default"(%v21) : (tensor<4xf32>) -> tensor<4xf32>
  %v23 = fx.node "aten.sin.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  %v24 = fx.node "aten.abs.default"(%v23) : (tensor<4xf32>) -> tensor<4xf32>
  %v25 = fx.node "aten.cos.default"(%v24) : (tensor<4xf32>) -> tensor<4xf32>
  %v26 = fx.node "aten.tanh.default"(%v25) : (tensor<4xf32>) -> tensor<4xf32>
  %v27 = fx.node "aten.sigmoid.default"(%v26) : (tensor<4xf32>) -> tensor<4xf32>
  %v28 = fx.node "aten.erf.default"(%v27) : (tensor<4xf32>) -> tensor<4xf32>
  %v29 = fx.node "aten.neg.default"(%v28) : (tensor<4xf32>) -> tensor<4xf32>
  %v30 = fx.node "aten.exp.default"(%v29) : (tensor<4xf32>) -> tensor<4xf32>
  %v31 = fx.node "aten.relu.default"(%v30) : (tensor<4xf32>) -> tensor<4xf32>
  %v32 = fx.node "aten.sin.default"(%v31) : (tensor<4xf32>) -> tensor<4xf32>
  %v33 = fx.node "aten.abs.default"(%v32) : (tensor<4xf32>) -> tensor<4xf32>
  %v34 = fx.node "aten.neg.default"(%v33) : (tensor<4xf32>) -> tensor<4xf32>
  %v35 = fx.node "aten.exp.default"(%v34) : (tensor<4xf32>) -> tensor<4xf32>
  %v36 = fx.node "aten.relu.default"(%v35) : (tensor<4xf32>) -> tensor<4xf32>
  %v37 = fx.node "aten.sin.default"(%v36) : (tensor<4xf32>) -> tensor<4xf32>
  %v38 = fx.node "aten.abs.default"(%v37) : (tensor<4xf32>) -> tensor<4xf32>
  %v39 = fx.node "aten.neg.default"(%v38) : (tensor<4xf32>) -> tensor<4xf32>
  %v40 = fx.node "aten.exp.default"(%v39) : (tensor<4xf32>) -> tensor<4xf32>
  %v41 = fx.node "aten.relu.default"(%v40) : (tensor<4xf32>) -> tensor<4xf32>
  %v42 = fx.node "aten.sin.default"(%v41) : (tensor<4xf32>) -> tensor<4xf32>
  %v43 = fx.node "aten.abs.default"(%v42) : (tensor<4xf32>) -> tensor<4xf32>
  %v44 = fx.node "aten.neg.default"(%v43) : (tensor<4xf32>) -> tensor<4xf32>
  %v45 = fx.node "aten.exp.default"(%v44) : (tensor<4xf32>) -> tensor<4xf32>
  %v46 = fx.node "aten.relu.default"(%v45) : (tensor<4xf32>) -> tensor<4xf32>
  %v47 = fx.node "aten.sin.default"(%v46) : (tensor<4xf32>) -> tensor<4xf32>
  %v48 = fx.node "aten.abs.default"(%v47) : (tensor<4xf32>) -> tensor<4xf32>
  %v49 = fx.node "aten.neg.default"(%v48) : (tensor<4xf32>) -> tensor<4xf32>
  %v50 = fx.node "aten.exp.default"(%v49) : (tensor<4xf32>) -> tensor<4xf32>
  %v51 = fx.node "aten.relu.default"(%v50) : (tensor<4xf32>) -> tensor<4xf32>
  %v52 = fx.node "aten.sin.default"(%v51) : (tensor<4xf32>) -> tensor<4xf32>
  %v53 = fx.node "aten.abs.default"(%v52) : (tensor<4xf32>) -> tensor<4xf32>
  %v54 = fx.node "aten.cos.default"(%v53) : (tensor<4xf32>) -> tensor<4xf32>
  %v55 = fx.node "aten.tanh.default"(%v54) : (tensor<4xf32>) -> tensor<4xf32>
  %v56 = fx.node "aten.sigmoid.default"(%v55) : (tensor<4xf32>) -> tensor<4xf32>
  %v57 = fx.node "aten.erf.default"(%v56) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v57) : (tensor<4xf32>)
}

// -----

// CHECK: @irregular, {{[0-9]+}} nodes: 14 partitions in 2 classes, 57 nodes saved
// CHECK: c0 @partition, 5 nodes: c0.0 … c0.9: 1 unique, 9 duplicates
// CHECK: c1 @partition_0, 4 nodes: c1.0 … c1.3: 1 unique, 3 duplicates
fx.graph @irregular stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %v0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.exp.default"(%v0) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.relu.default"(%v1) : (tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.sin.default"(%v2) : (tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.abs.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.neg.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.exp.default"(%v5) : (tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.relu.default"(%v6) : (tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.sin.default"(%v7) : (tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.abs.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.cos.default"(%v9) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.tanh.default"(%v10) : (tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.sigmoid.default"(%v11) : (tensor<4xf32>) -> tensor<4xf32>
  %v13 = fx.node "aten.erf.default"(%v12) : (tensor<4xf32>) -> tensor<4xf32>
  %v14 = fx.node "aten.neg.default"(%v13) : (tensor<4xf32>) -> tensor<4xf32>
  %v15 = fx.node "aten.exp.default"(%v14) : (tensor<4xf32>) -> tensor<4xf32>
  %v16 = fx.node "aten.relu.default"(%v15) : (tensor<4xf32>) -> tensor<4xf32>
  %v17 = fx.node "aten.sin.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v18 = fx.node "aten.abs.default"(%v17) : (tensor<4xf32>) -> tensor<4xf32>
  %v19 = fx.node "aten.neg.default"(%v18) : (tensor<4xf32>) -> tensor<4xf32>
  %v20 = fx.node "aten.exp.default"(%v19) : (tensor<4xf32>) -> tensor<4xf32>
  %v21 = fx.node "aten.relu.default"(%v20) : (tensor<4xf32>) -> tensor<4xf32>
  %v22 = fx.node "aten.sin.default"(%v21) : (tensor<4xf32>) -> tensor<4xf32>
  %v23 = fx.node "aten.abs.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  %v24 = fx.node "aten.neg.default"(%v23) : (tensor<4xf32>) -> tensor<4xf32>
  %v25 = fx.node "aten.exp.default"(%v24) : (tensor<4xf32>) -> tensor<4xf32>
  %v26 = fx.node "aten.relu.default"(%v25) : (tensor<4xf32>) -> tensor<4xf32>
  %v27 = fx.node "aten.sin.default"(%v26) : (tensor<4xf32>) -> tensor<4xf32>
  %v28 = fx.node "aten.abs.default"(%v27) : (tensor<4xf32>) -> tensor<4xf32>
  %v29 = fx.node "aten.cos.default"(%v28) : (tensor<4xf32>) -> tensor<4xf32>
  %v30 = fx.node "aten.tanh.default"(%v29) : (tensor<4xf32>) -> tensor<4xf32>
  %v31 = fx.node "aten.sigmoid.default"(%v30) : (tensor<4xf32>) -> tensor<4xf32>
  %v32 = fx.node "aten.erf.default"(%v31) : (tensor<4xf32>) -> tensor<4xf32>
  %v33 = fx.node "aten.neg.default"(%v32) : (tensor<4xf32>) -> tensor<4xf32>
  %v34 = fx.node "aten.exp.default"(%v33) : (tensor<4xf32>) -> tensor<4xf32>
  %v35 = fx.node "aten.relu.default"(%v34) : (tensor<4xf32>) -> tensor<4xf32>
  %v36 = fx.node "aten.sin.default"(%v35) : (tensor<4xf32>) -> tensor<4xf32>
  %v37 = fx.node "aten.abs.default"(%v36) : (tensor<4xf32>) -> tensor<4xf32>
  %v38 = fx.node "aten.cos.default"(%v37) : (tensor<4xf32>) -> tensor<4xf32>
  %v39 = fx.node "aten.tanh.default"(%v38) : (tensor<4xf32>) -> tensor<4xf32>
  %v40 = fx.node "aten.sigmoid.default"(%v39) : (tensor<4xf32>) -> tensor<4xf32>
  %v41 = fx.node "aten.erf.default"(%v40) : (tensor<4xf32>) -> tensor<4xf32>
  %v42 = fx.node "aten.neg.default"(%v41) : (tensor<4xf32>) -> tensor<4xf32>
  %v43 = fx.node "aten.exp.default"(%v42) : (tensor<4xf32>) -> tensor<4xf32>
  %v44 = fx.node "aten.relu.default"(%v43) : (tensor<4xf32>) -> tensor<4xf32>
  %v45 = fx.node "aten.sin.default"(%v44) : (tensor<4xf32>) -> tensor<4xf32>
  %v46 = fx.node "aten.abs.default"(%v45) : (tensor<4xf32>) -> tensor<4xf32>
  %v47 = fx.node "aten.neg.default"(%v46) : (tensor<4xf32>) -> tensor<4xf32>
  %v48 = fx.node "aten.exp.default"(%v47) : (tensor<4xf32>) -> tensor<4xf32>
  %v49 = fx.node "aten.relu.default"(%v48) : (tensor<4xf32>) -> tensor<4xf32>
  %v50 = fx.node "aten.sin.default"(%v49) : (tensor<4xf32>) -> tensor<4xf32>
  %v51 = fx.node "aten.abs.default"(%v50) : (tensor<4xf32>) -> tensor<4xf32>
  %v52 = fx.node "aten.neg.default"(%v51) : (tensor<4xf32>) -> tensor<4xf32>
  %v53 = fx.node "aten.exp.default"(%v52) : (tensor<4xf32>) -> tensor<4xf32>
  %v54 = fx.node "aten.relu.default"(%v53) : (tensor<4xf32>) -> tensor<4xf32>
  %v55 = fx.node "aten.sin.default"(%v54) : (tensor<4xf32>) -> tensor<4xf32>
  %v56 = fx.node "aten.abs.default"(%v55) : (tensor<4xf32>) -> tensor<4xf32>
  %v57 = fx.node "aten.neg.default"(%v56) : (tensor<4xf32>) -> tensor<4xf32>
  %v58 = fx.node "aten.exp.default"(%v57) : (tensor<4xf32>) -> tensor<4xf32>
  %v59 = fx.node "aten.relu.default"(%v58) : (tensor<4xf32>) -> tensor<4xf32>
  %v60 = fx.node "aten.sin.default"(%v59) : (tensor<4xf32>) -> tensor<4xf32>
  %v61 = fx.node "aten.abs.default"(%v60) : (tensor<4xf32>) -> tensor<4xf32>
  %v62 = fx.node "aten.cos.default"(%v61) : (tensor<4xf32>) -> tensor<4xf32>
  %v63 = fx.node "aten.tanh.default"(%v62) : (tensor<4xf32>) -> tensor<4xf32>
  %v64 = fx.node "aten.sigmoid.default"(%v63) : (tensor<4xf32>) -> tensor<4xf32>
  %v65 = fx.node "aten.erf.default"(%v64) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v65) : (tensor<4xf32>)
}

// -----

// CHECK: @tail, {{[0-9]+}} nodes:
// What a longer class holds and what stands behind it is one class.
// NESTED: @tail, {{[0-9]+}} nodes: 8 partitions in 2 classes, 50 nodes saved
// NESTED: c0 @partition, 9 nodes: c0.0 … c0.5: 1 unique, 5 duplicates
// NESTED: c1 @partition_0, 5 nodes: c1.0 … c0.5.c1.2: 1 unique, 7 duplicates
// NESTED: fx.graph @tail
// NESTED: fx.call @partition_0(%5) {prof.partition = #prof.partition<"c1.0", unique>}
// NESTED: fx.graph private @partition(
// NESTED-NEXT: fx.call @partition_0(%input) {prof.partition = #prof.partition<"c1.2", duplicate>}
fx.graph @tail stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %v0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.exp.default"(%v0) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.relu.default"(%v1) : (tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.sin.default"(%v2) : (tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.abs.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.cos.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.tanh.default"(%v5) : (tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.sigmoid.default"(%v6) : (tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.erf.default"(%v7) : (tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.neg.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.exp.default"(%v9) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.relu.default"(%v10) : (tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.sin.default"(%v11) : (tensor<4xf32>) -> tensor<4xf32>
  %v13 = fx.node "aten.abs.default"(%v12) : (tensor<4xf32>) -> tensor<4xf32>
  %v14 = fx.node "aten.cos.default"(%v13) : (tensor<4xf32>) -> tensor<4xf32>
  %v15 = fx.node "aten.tanh.default"(%v14) : (tensor<4xf32>) -> tensor<4xf32>
  %v16 = fx.node "aten.sigmoid.default"(%v15) : (tensor<4xf32>) -> tensor<4xf32>
  %v17 = fx.node "aten.erf.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v18 = fx.node "aten.neg.default"(%v17) : (tensor<4xf32>) -> tensor<4xf32>
  %v19 = fx.node "aten.exp.default"(%v18) : (tensor<4xf32>) -> tensor<4xf32>
  %v20 = fx.node "aten.relu.default"(%v19) : (tensor<4xf32>) -> tensor<4xf32>
  %v21 = fx.node "aten.sin.default"(%v20) : (tensor<4xf32>) -> tensor<4xf32>
  %v22 = fx.node "aten.abs.default"(%v21) : (tensor<4xf32>) -> tensor<4xf32>
  %v23 = fx.node "aten.cos.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  %v24 = fx.node "aten.tanh.default"(%v23) : (tensor<4xf32>) -> tensor<4xf32>
  %v25 = fx.node "aten.sigmoid.default"(%v24) : (tensor<4xf32>) -> tensor<4xf32>
  %v26 = fx.node "aten.erf.default"(%v25) : (tensor<4xf32>) -> tensor<4xf32>
  %v27 = fx.node "aten.neg.default"(%v26) : (tensor<4xf32>) -> tensor<4xf32>
  %v28 = fx.node "aten.exp.default"(%v27) : (tensor<4xf32>) -> tensor<4xf32>
  %v29 = fx.node "aten.relu.default"(%v28) : (tensor<4xf32>) -> tensor<4xf32>
  %v30 = fx.node "aten.sin.default"(%v29) : (tensor<4xf32>) -> tensor<4xf32>
  %v31 = fx.node "aten.abs.default"(%v30) : (tensor<4xf32>) -> tensor<4xf32>
  %v32 = fx.node "aten.cos.default"(%v31) : (tensor<4xf32>) -> tensor<4xf32>
  %v33 = fx.node "aten.tanh.default"(%v32) : (tensor<4xf32>) -> tensor<4xf32>
  %v34 = fx.node "aten.sigmoid.default"(%v33) : (tensor<4xf32>) -> tensor<4xf32>
  %v35 = fx.node "aten.erf.default"(%v34) : (tensor<4xf32>) -> tensor<4xf32>
  %v36 = fx.node "aten.neg.default"(%v35) : (tensor<4xf32>) -> tensor<4xf32>
  %v37 = fx.node "aten.exp.default"(%v36) : (tensor<4xf32>) -> tensor<4xf32>
  %v38 = fx.node "aten.relu.default"(%v37) : (tensor<4xf32>) -> tensor<4xf32>
  %v39 = fx.node "aten.sin.default"(%v38) : (tensor<4xf32>) -> tensor<4xf32>
  %v40 = fx.node "aten.abs.default"(%v39) : (tensor<4xf32>) -> tensor<4xf32>
  %v41 = fx.node "aten.cos.default"(%v40) : (tensor<4xf32>) -> tensor<4xf32>
  %v42 = fx.node "aten.tanh.default"(%v41) : (tensor<4xf32>) -> tensor<4xf32>
  %v43 = fx.node "aten.sigmoid.default"(%v42) : (tensor<4xf32>) -> tensor<4xf32>
  %v44 = fx.node "aten.erf.default"(%v43) : (tensor<4xf32>) -> tensor<4xf32>
  %v45 = fx.node "aten.neg.default"(%v44) : (tensor<4xf32>) -> tensor<4xf32>
  %v46 = fx.node "aten.exp.default"(%v45) : (tensor<4xf32>) -> tensor<4xf32>
  %v47 = fx.node "aten.relu.default"(%v46) : (tensor<4xf32>) -> tensor<4xf32>
  %v48 = fx.node "aten.sin.default"(%v47) : (tensor<4xf32>) -> tensor<4xf32>
  %v49 = fx.node "aten.abs.default"(%v48) : (tensor<4xf32>) -> tensor<4xf32>
  %v50 = fx.node "aten.cos.default"(%v49) : (tensor<4xf32>) -> tensor<4xf32>
  %v51 = fx.node "aten.tanh.default"(%v50) : (tensor<4xf32>) -> tensor<4xf32>
  %v52 = fx.node "aten.sigmoid.default"(%v51) : (tensor<4xf32>) -> tensor<4xf32>
  %v53 = fx.node "aten.erf.default"(%v52) : (tensor<4xf32>) -> tensor<4xf32>
  %v54 = fx.node "aten.neg.default"(%v53) : (tensor<4xf32>) -> tensor<4xf32>
  %v55 = fx.node "aten.exp.default"(%v54) : (tensor<4xf32>) -> tensor<4xf32>
  %v56 = fx.node "aten.relu.default"(%v55) : (tensor<4xf32>) -> tensor<4xf32>
  %v57 = fx.node "aten.sin.default"(%v56) : (tensor<4xf32>) -> tensor<4xf32>
  %v58 = fx.node "aten.abs.default"(%v57) : (tensor<4xf32>) -> tensor<4xf32>
  %v59 = fx.node "aten.neg.default"(%v58) : (tensor<4xf32>) -> tensor<4xf32>
  %v60 = fx.node "aten.exp.default"(%v59) : (tensor<4xf32>) -> tensor<4xf32>
  %v61 = fx.node "aten.relu.default"(%v60) : (tensor<4xf32>) -> tensor<4xf32>
  %v62 = fx.node "aten.sin.default"(%v61) : (tensor<4xf32>) -> tensor<4xf32>
  %v63 = fx.node "aten.abs.default"(%v62) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v63) : (tensor<4xf32>)
}

// -----

// Two streams through layers of two kinds in turn; nobody takes the second one behind the last layer, whose last node is that stream's.
// CHECK: @streams, 22 nodes: 2 partitions in 1 class, 10 nodes saved
// CHECK: c0 @partition, 10 nodes: c0.0, c0.1: 1 unique, 1 duplicate
fx.graph @streams stage "export" (%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %v0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.exp.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.mul.Tensor"(%v0, %v1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.relu.default"(%v2) : (tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.sin.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.cos.default"(%v1) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.tanh.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.erf.default"(%v5) : (tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.div.Tensor"(%v6, %v7) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.abs.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.sigmoid.default"(%v7) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.neg.default"(%v9) : (tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.exp.default"(%v10) : (tensor<4xf32>) -> tensor<4xf32>
  %v13 = fx.node "aten.mul.Tensor"(%v11, %v12) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v14 = fx.node "aten.relu.default"(%v13) : (tensor<4xf32>) -> tensor<4xf32>
  %v15 = fx.node "aten.sin.default"(%v14) : (tensor<4xf32>) -> tensor<4xf32>
  %v16 = fx.node "aten.cos.default"(%v12) : (tensor<4xf32>) -> tensor<4xf32>
  %v17 = fx.node "aten.tanh.default"(%v15) : (tensor<4xf32>) -> tensor<4xf32>
  %v18 = fx.node "aten.erf.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v19 = fx.node "aten.div.Tensor"(%v17, %v18) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v20 = fx.node "aten.abs.default"(%v19) : (tensor<4xf32>) -> tensor<4xf32>
  %v21 = fx.node "aten.sigmoid.default"(%v18) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v20) : (tensor<4xf32>)
}

// -----

// Both places of the block begin with a value that only the first one gives on. Without it they are the same; a smaller repeat, of the first
// four nodes, loses a node to that border.
// NESTED: @cut, 44 nodes: 6 partitions in 2 classes, 22 nodes saved
// NESTED: c0 @partition, 4 nodes: c0.0 … c1.1.c0.4: 1 unique, 5 duplicates
// NESTED: c1 @partition_0, 10 nodes: c1.0, c1.1: 1 unique, 1 duplicate
fx.graph @cut stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %v0 = fx.node "aten.sin.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.cos.default"(%v0) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.erf.default"(%v1) : (tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.sigmoid.default"(%v2) : (tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.floor.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.sin.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.cos.default"(%v5) : (tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.erf.default"(%v6) : (tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.sigmoid.default"(%v7) : (tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.ceil.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.neg.default"(%v9) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.exp.default"(%v10) : (tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.tanh.default"(%v11) : (tensor<4xf32>) -> tensor<4xf32>
  %v13 = fx.node "aten.abs.default"(%v12) : (tensor<4xf32>) -> tensor<4xf32>
  %v14 = fx.node "aten.sin.default"(%v13) : (tensor<4xf32>) -> tensor<4xf32>
  %v15 = fx.node "aten.cos.default"(%v14) : (tensor<4xf32>) -> tensor<4xf32>
  %v16 = fx.node "aten.erf.default"(%v15) : (tensor<4xf32>) -> tensor<4xf32>
  %v17 = fx.node "aten.sigmoid.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v18 = fx.node "aten.mul.Tensor"(%v11, %v17) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v19 = fx.node "aten.relu.default"(%v18) : (tensor<4xf32>) -> tensor<4xf32>
  %v20 = fx.node "aten.add.Tensor"(%v10, %v19) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v21 = fx.node "aten.sqrt.default"(%v20) : (tensor<4xf32>) -> tensor<4xf32>
  %v22 = fx.node "aten.sin.default"(%v21) : (tensor<4xf32>) -> tensor<4xf32>
  %v23 = fx.node "aten.cos.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  %v24 = fx.node "aten.erf.default"(%v23) : (tensor<4xf32>) -> tensor<4xf32>
  %v25 = fx.node "aten.sigmoid.default"(%v24) : (tensor<4xf32>) -> tensor<4xf32>
  %v26 = fx.node "aten.log.default"(%v25) : (tensor<4xf32>) -> tensor<4xf32>
  %v27 = fx.node "aten.neg.default"(%v26) : (tensor<4xf32>) -> tensor<4xf32>
  %v28 = fx.node "aten.exp.default"(%v27) : (tensor<4xf32>) -> tensor<4xf32>
  %v29 = fx.node "aten.tanh.default"(%v28) : (tensor<4xf32>) -> tensor<4xf32>
  %v30 = fx.node "aten.abs.default"(%v29) : (tensor<4xf32>) -> tensor<4xf32>
  %v31 = fx.node "aten.sin.default"(%v30) : (tensor<4xf32>) -> tensor<4xf32>
  %v32 = fx.node "aten.cos.default"(%v31) : (tensor<4xf32>) -> tensor<4xf32>
  %v33 = fx.node "aten.erf.default"(%v32) : (tensor<4xf32>) -> tensor<4xf32>
  %v34 = fx.node "aten.sigmoid.default"(%v33) : (tensor<4xf32>) -> tensor<4xf32>
  %v35 = fx.node "aten.mul.Tensor"(%v28, %v34) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v36 = fx.node "aten.relu.default"(%v35) : (tensor<4xf32>) -> tensor<4xf32>
  %v37 = fx.node "aten.add.Tensor"(%v27, %v36) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v38 = fx.node "aten.round.default"(%v37) : (tensor<4xf32>) -> tensor<4xf32>
  %v39 = fx.node "aten.sin.default"(%v38) : (tensor<4xf32>) -> tensor<4xf32>
  %v40 = fx.node "aten.cos.default"(%v39) : (tensor<4xf32>) -> tensor<4xf32>
  %v41 = fx.node "aten.erf.default"(%v40) : (tensor<4xf32>) -> tensor<4xf32>
  %v42 = fx.node "aten.sigmoid.default"(%v41) : (tensor<4xf32>) -> tensor<4xf32>
  %v43 = fx.node "aten.sub.Tensor"(%v42, %v10) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v43) : (tensor<4xf32>)
}

// -----

// Layers of two kinds with parts in common, which begin where the class of a norm ends: a smaller repeat that reaches over that border, of the
// norm's end and a node behind it, is cut by that class already.
// NESTED: @borders, 130 nodes: 11 partitions in 5 classes, 89 nodes saved
// NESTED: c0 @partition, 15 nodes: c0.0 … c0.3: 1 unique, 3 duplicates
// NESTED: @partition_2, 18 nodes: c3.0 … c3.2: 1 unique, 2 duplicates
fx.graph @borders stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %v0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v1 = fx.node "aten.exp.default"(%v0) : (tensor<4xf32>) -> tensor<4xf32>
  %v2 = fx.node "aten.mul.Tensor"(%x, %v1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v3 = fx.node "aten.tanh.default"(%v2) : (tensor<4xf32>) -> tensor<4xf32>
  %v4 = fx.node "aten.sin.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v5 = fx.node "aten.cos.default"(%v4) : (tensor<4xf32>) -> tensor<4xf32>
  %v6 = fx.node "aten.neg.default"(%v5) : (tensor<4xf32>) -> tensor<4xf32>
  %v7 = fx.node "aten.exp.default"(%v6) : (tensor<4xf32>) -> tensor<4xf32>
  %v8 = fx.node "aten.mul.Tensor"(%v5, %v7) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v9 = fx.node "aten.tanh.default"(%v8) : (tensor<4xf32>) -> tensor<4xf32>
  %v10 = fx.node "aten.erf.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v11 = fx.node "aten.neg.default"(%v10) : (tensor<4xf32>) -> tensor<4xf32>
  %v12 = fx.node "aten.exp.default"(%v11) : (tensor<4xf32>) -> tensor<4xf32>
  %v13 = fx.node "aten.mul.Tensor"(%v10, %v12) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v14 = fx.node "aten.tanh.default"(%v13) : (tensor<4xf32>) -> tensor<4xf32>
  %v15 = fx.node "aten.sigmoid.default"(%v3) : (tensor<4xf32>) -> tensor<4xf32>
  %v16 = fx.node "aten.div.Tensor"(%v14, %v15) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v17 = fx.node "aten.relu.default"(%v16) : (tensor<4xf32>) -> tensor<4xf32>
  %v18 = fx.node "aten.add.Tensor"(%v17, %v9) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v19 = fx.node "aten.neg.default"(%v18) : (tensor<4xf32>) -> tensor<4xf32>
  %v20 = fx.node "aten.exp.default"(%v19) : (tensor<4xf32>) -> tensor<4xf32>
  %v21 = fx.node "aten.mul.Tensor"(%v18, %v20) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v22 = fx.node "aten.tanh.default"(%v21) : (tensor<4xf32>) -> tensor<4xf32>
  %v23 = fx.node "aten.sin.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  %v24 = fx.node "aten.cos.default"(%v23) : (tensor<4xf32>) -> tensor<4xf32>
  %v25 = fx.node "aten.neg.default"(%v24) : (tensor<4xf32>) -> tensor<4xf32>
  %v26 = fx.node "aten.exp.default"(%v25) : (tensor<4xf32>) -> tensor<4xf32>
  %v27 = fx.node "aten.mul.Tensor"(%v24, %v26) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v28 = fx.node "aten.tanh.default"(%v27) : (tensor<4xf32>) -> tensor<4xf32>
  %v29 = fx.node "aten.erf.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  %v30 = fx.node "aten.neg.default"(%v29) : (tensor<4xf32>) -> tensor<4xf32>
  %v31 = fx.node "aten.exp.default"(%v30) : (tensor<4xf32>) -> tensor<4xf32>
  %v32 = fx.node "aten.mul.Tensor"(%v29, %v31) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v33 = fx.node "aten.tanh.default"(%v32) : (tensor<4xf32>) -> tensor<4xf32>
  %v34 = fx.node "aten.sigmoid.default"(%v22) : (tensor<4xf32>) -> tensor<4xf32>
  %v35 = fx.node "aten.div.Tensor"(%v33, %v34) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v36 = fx.node "aten.relu.default"(%v35) : (tensor<4xf32>) -> tensor<4xf32>
  %v37 = fx.node "aten.add.Tensor"(%v36, %v28) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v38 = fx.node "aten.neg.default"(%v37) : (tensor<4xf32>) -> tensor<4xf32>
  %v39 = fx.node "aten.exp.default"(%v38) : (tensor<4xf32>) -> tensor<4xf32>
  %v40 = fx.node "aten.mul.Tensor"(%v37, %v39) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v41 = fx.node "aten.tanh.default"(%v40) : (tensor<4xf32>) -> tensor<4xf32>
  %v42 = fx.node "aten.sin.default"(%v41) : (tensor<4xf32>) -> tensor<4xf32>
  %v43 = fx.node "aten.cos.default"(%v42) : (tensor<4xf32>) -> tensor<4xf32>
  %v44 = fx.node "aten.neg.default"(%v43) : (tensor<4xf32>) -> tensor<4xf32>
  %v45 = fx.node "aten.exp.default"(%v44) : (tensor<4xf32>) -> tensor<4xf32>
  %v46 = fx.node "aten.mul.Tensor"(%v43, %v45) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v47 = fx.node "aten.tanh.default"(%v46) : (tensor<4xf32>) -> tensor<4xf32>
  %v48 = fx.node "aten.erf.default"(%v41) : (tensor<4xf32>) -> tensor<4xf32>
  %v49 = fx.node "aten.neg.default"(%v48) : (tensor<4xf32>) -> tensor<4xf32>
  %v50 = fx.node "aten.exp.default"(%v49) : (tensor<4xf32>) -> tensor<4xf32>
  %v51 = fx.node "aten.mul.Tensor"(%v48, %v50) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v52 = fx.node "aten.tanh.default"(%v51) : (tensor<4xf32>) -> tensor<4xf32>
  %v53 = fx.node "aten.div.Tensor"(%v52, %v34) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v54 = fx.node "aten.relu.default"(%v53) : (tensor<4xf32>) -> tensor<4xf32>
  %v55 = fx.node "aten.add.Tensor"(%v54, %v47) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v56 = fx.node "aten.neg.default"(%v55) : (tensor<4xf32>) -> tensor<4xf32>
  %v57 = fx.node "aten.exp.default"(%v56) : (tensor<4xf32>) -> tensor<4xf32>
  %v58 = fx.node "aten.mul.Tensor"(%v55, %v57) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v59 = fx.node "aten.tanh.default"(%v58) : (tensor<4xf32>) -> tensor<4xf32>
  %v60 = fx.node "aten.sin.default"(%v59) : (tensor<4xf32>) -> tensor<4xf32>
  %v61 = fx.node "aten.cos.default"(%v60) : (tensor<4xf32>) -> tensor<4xf32>
  %v62 = fx.node "aten.neg.default"(%v61) : (tensor<4xf32>) -> tensor<4xf32>
  %v63 = fx.node "aten.exp.default"(%v62) : (tensor<4xf32>) -> tensor<4xf32>
  %v64 = fx.node "aten.mul.Tensor"(%v61, %v63) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v65 = fx.node "aten.tanh.default"(%v64) : (tensor<4xf32>) -> tensor<4xf32>
  %v66 = fx.node "aten.erf.default"(%v59) : (tensor<4xf32>) -> tensor<4xf32>
  %v67 = fx.node "aten.neg.default"(%v66) : (tensor<4xf32>) -> tensor<4xf32>
  %v68 = fx.node "aten.exp.default"(%v67) : (tensor<4xf32>) -> tensor<4xf32>
  %v69 = fx.node "aten.mul.Tensor"(%v66, %v68) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v70 = fx.node "aten.tanh.default"(%v69) : (tensor<4xf32>) -> tensor<4xf32>
  %v71 = fx.node "aten.sigmoid.default"(%v59) : (tensor<4xf32>) -> tensor<4xf32>
  %v72 = fx.node "aten.div.Tensor"(%v70, %v71) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v73 = fx.node "aten.relu.default"(%v72) : (tensor<4xf32>) -> tensor<4xf32>
  %v74 = fx.node "aten.add.Tensor"(%v73, %v65) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v75 = fx.node "aten.neg.default"(%v74) : (tensor<4xf32>) -> tensor<4xf32>
  %v76 = fx.node "aten.exp.default"(%v75) : (tensor<4xf32>) -> tensor<4xf32>
  %v77 = fx.node "aten.mul.Tensor"(%v74, %v76) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v78 = fx.node "aten.tanh.default"(%v77) : (tensor<4xf32>) -> tensor<4xf32>
  %v79 = fx.node "aten.sin.default"(%v78) : (tensor<4xf32>) -> tensor<4xf32>
  %v80 = fx.node "aten.cos.default"(%v79) : (tensor<4xf32>) -> tensor<4xf32>
  %v81 = fx.node "aten.neg.default"(%v80) : (tensor<4xf32>) -> tensor<4xf32>
  %v82 = fx.node "aten.exp.default"(%v81) : (tensor<4xf32>) -> tensor<4xf32>
  %v83 = fx.node "aten.mul.Tensor"(%v80, %v82) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v84 = fx.node "aten.tanh.default"(%v83) : (tensor<4xf32>) -> tensor<4xf32>
  %v85 = fx.node "aten.erf.default"(%v78) : (tensor<4xf32>) -> tensor<4xf32>
  %v86 = fx.node "aten.neg.default"(%v85) : (tensor<4xf32>) -> tensor<4xf32>
  %v87 = fx.node "aten.exp.default"(%v86) : (tensor<4xf32>) -> tensor<4xf32>
  %v88 = fx.node "aten.mul.Tensor"(%v85, %v87) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v89 = fx.node "aten.tanh.default"(%v88) : (tensor<4xf32>) -> tensor<4xf32>
  %v90 = fx.node "aten.div.Tensor"(%v89, %v71) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v91 = fx.node "aten.relu.default"(%v90) : (tensor<4xf32>) -> tensor<4xf32>
  %v92 = fx.node "aten.add.Tensor"(%v91, %v84) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v93 = fx.node "aten.neg.default"(%v92) : (tensor<4xf32>) -> tensor<4xf32>
  %v94 = fx.node "aten.exp.default"(%v93) : (tensor<4xf32>) -> tensor<4xf32>
  %v95 = fx.node "aten.mul.Tensor"(%v92, %v94) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v96 = fx.node "aten.tanh.default"(%v95) : (tensor<4xf32>) -> tensor<4xf32>
  %v97 = fx.node "aten.sin.default"(%v96) : (tensor<4xf32>) -> tensor<4xf32>
  %v98 = fx.node "aten.cos.default"(%v97) : (tensor<4xf32>) -> tensor<4xf32>
  %v99 = fx.node "aten.neg.default"(%v98) : (tensor<4xf32>) -> tensor<4xf32>
  %v100 = fx.node "aten.exp.default"(%v99) : (tensor<4xf32>) -> tensor<4xf32>
  %v101 = fx.node "aten.mul.Tensor"(%v98, %v100) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v102 = fx.node "aten.tanh.default"(%v101) : (tensor<4xf32>) -> tensor<4xf32>
  %v103 = fx.node "aten.erf.default"(%v96) : (tensor<4xf32>) -> tensor<4xf32>
  %v104 = fx.node "aten.neg.default"(%v103) : (tensor<4xf32>) -> tensor<4xf32>
  %v105 = fx.node "aten.exp.default"(%v104) : (tensor<4xf32>) -> tensor<4xf32>
  %v106 = fx.node "aten.mul.Tensor"(%v103, %v105) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v107 = fx.node "aten.tanh.default"(%v106) : (tensor<4xf32>) -> tensor<4xf32>
  %v108 = fx.node "aten.div.Tensor"(%v107, %v71) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v109 = fx.node "aten.relu.default"(%v108) : (tensor<4xf32>) -> tensor<4xf32>
  %v110 = fx.node "aten.add.Tensor"(%v109, %v102) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v111 = fx.node "aten.neg.default"(%v110) : (tensor<4xf32>) -> tensor<4xf32>
  %v112 = fx.node "aten.exp.default"(%v111) : (tensor<4xf32>) -> tensor<4xf32>
  %v113 = fx.node "aten.mul.Tensor"(%v110, %v112) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v114 = fx.node "aten.tanh.default"(%v113) : (tensor<4xf32>) -> tensor<4xf32>
  %v115 = fx.node "aten.sin.default"(%v114) : (tensor<4xf32>) -> tensor<4xf32>
  %v116 = fx.node "aten.cos.default"(%v115) : (tensor<4xf32>) -> tensor<4xf32>
  %v117 = fx.node "aten.neg.default"(%v116) : (tensor<4xf32>) -> tensor<4xf32>
  %v118 = fx.node "aten.exp.default"(%v117) : (tensor<4xf32>) -> tensor<4xf32>
  %v119 = fx.node "aten.mul.Tensor"(%v116, %v118) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v120 = fx.node "aten.tanh.default"(%v119) : (tensor<4xf32>) -> tensor<4xf32>
  %v121 = fx.node "aten.erf.default"(%v114) : (tensor<4xf32>) -> tensor<4xf32>
  %v122 = fx.node "aten.neg.default"(%v121) : (tensor<4xf32>) -> tensor<4xf32>
  %v123 = fx.node "aten.exp.default"(%v122) : (tensor<4xf32>) -> tensor<4xf32>
  %v124 = fx.node "aten.mul.Tensor"(%v121, %v123) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v125 = fx.node "aten.tanh.default"(%v124) : (tensor<4xf32>) -> tensor<4xf32>
  %v126 = fx.node "aten.sigmoid.default"(%v114) : (tensor<4xf32>) -> tensor<4xf32>
  %v127 = fx.node "aten.div.Tensor"(%v125, %v126) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v128 = fx.node "aten.relu.default"(%v127) : (tensor<4xf32>) -> tensor<4xf32>
  %v129 = fx.node "aten.add.Tensor"(%v128, %v120) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%v129) : (tensor<4xf32>)
}
