// RUN: rm -rf %t && opprof-opt --recommend-rewrites="dir=%t/a device=H200" %s -o /dev/null && FileCheck %s < %t/a/rewrites.json
// RUN: opprof-opt --recommend-rewrites="dir=%t/b device=H200 error-budget=1e-2" %s -o /dev/null && FileCheck %s --check-prefix=WIDE < %t/b/rewrites.json
// RUN: echo '{"version": 1, "graph": "one", "stage": "export", "devices": [{"id": 0, "name": "NVIDIA H200"}], "summary": {"steps": 2},' > %t/profile.json
// RUN: echo '"kernels": [{"id": 0, "name": "gemm", "start_ns": 0, "duration_ns": 500000, "confidence": "unattributed", "explanation": "a test"},' >> %t/profile.json
// RUN: echo '{"id": 1, "name": "gemm", "start_ns": 3500000, "duration_ns": 500000, "confidence": "unattributed", "explanation": "a test"}],' >> %t/profile.json
// RUN: echo '"nodes": []}' >> %t/profile.json
// RUN: opprof-opt --recommend-rewrites="dir=%t/c device=H200 profile=%t/profile.json" %s -o /dev/null && FileCheck %s --check-prefix=PROFILE < %t/c/rewrites.json
// RUN: not opprof-opt --recommend-rewrites="dir=%t/d profile=%t/a/rewrites.json" %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not opprof-opt --recommend-rewrites="dir=%t/d error-budget=nan" %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: rm -rf %t/deep && mkdir %t/deep && %python -c "print('{\"error_budget\": 0, \"rewrites\": ' + '[' * 2000000)" > %t/deep/rewrites.json
// RUN: not opprof-opt --recommend-rewrites=dir=%t/deep %s -o /dev/null 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: not opprof-opt --recommend-rewrites=folder=%t %s 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not opprof-opt --recommend-rewrites=dir=%t/e,device=H200 %s 2>&1 | FileCheck %s --check-prefix=COMMA
// RUN: not ls %t/e,device=H200

// Verify that precisions are offered within the error budget only, and that the host's share of a profile decides on the CUDA graph.
// CHECK: "error_budget": 0.001
// CHECK: "times": "model"
// CHECK-NOT: "name": "bfloat16"
// CHECK-DAG: "name": "cuda-graph"
// CHECK-DAG: "name": "float16"
// CHECK-DAG: "name": "freeze"
// CHECK-NOT: "name": "bfloat16"
// CHECK: "declined": [
// CHECK: "rule": "bfloat16"
// CHECK-NEXT: "reason": "its usual error, 0.006, is over the budget of 0.001"
// CHECK-NEXT: "count": 1

// WIDE: "name": "bfloat16"

// PROFILE: "times": "profile"
// PROFILE: "name": "cuda-graph"
// PROFILE: "rank": 1
// PROFILE: "saves_ns": 1500000

// WRONG: rewrites.json: the key "summary" is missing: this is not a profile; give a profile.opprof.json
// BUDGET: error-budget is a number from 0 up to 1
// DEEP: rewrites.json: not valid JSON
// OPTION: no such option folder
// COMMA: error: {{.*}}/e,device=H200: options are separated by blanks, not by commas: write --recommend-rewrites="dir=FOLDER device=…"

!x = tensor<2x8xf32, #fx.tensor<"cuda:0">>
!w = tensor<8x8xf32, #fx.tensor<"cuda:0">>
fx.graph @one(%x: !x, %w: !w {fx.kind = "parameter"}) -> !x {
  %0 = fx.node "aten.linear.default"(%x, %w) : (!x, !w) -> !x
  fx.output(%0) : (!x)
}
