// RUN: opprof-opt --list-rules | FileCheck %s

// Verify that each rule is there with what it answers, when it applies and how it predicts.
// CHECK: merge-gemms
// CHECK-NEXT: finding:    gemms-sharing-an-input
// CHECK-NEXT: conditions: linear, mm, matmul or addmm with one input
// CHECK-NEXT: prediction:
// CHECK: fold-batch-norm
// CHECK: form-attention
// CHECK: freeze
// CHECK: float16
// CHECK: bfloat16
// CHECK: cuda-graph
// CHECK: autotune
// CHECK: tf32
// CHECK: form-norm
