// RUN: rm -rf %t && split-file %s %t
// RUN: opprof-opt --recommend-rewrites="dir=%t/both device=H200" %t/both.mlir -o /dev/null
// RUN: FileCheck %s < %t/both/rewrites.json
// RUN: opprof-opt --recommend-rewrites="dir=%t/one profile=%t/one.json" %t/two.mlir -o /dev/null
// RUN: opprof-opt --recommend-rewrites="dir=%t/more profile=%t/more.json" %t/two.mlir -o /dev/null
// RUN: FileCheck %s --check-prefix=TIMED < %t/one/rewrites.json
// RUN: FileCheck %s --check-prefix=TIMED < %t/more/rewrites.json

// Verify that every public graph is looked at, the second one too, and that a profile's times of another graph's nodes that have
// the same names change no prediction.
// CHECK: "graph": "one"
// CHECK: "stage": "export"
// CHECK: "title": "2 GEMMs of one input become one"
// CHECK: "graph": "two"
// CHECK-NEXT: "stage": "export"
// CHECK-NEXT: "name": "linear"

// TIMED: "name": "merge-gemms"
// TIMED: "saves_ns": 999663

//--- both.mlir
!x = tensor<2x8xf32, #fx.tensor<"cuda:0">>
!w = tensor<16x8xf32, #fx.tensor<"cuda:0">>
!y = tensor<2x16xf32, #fx.tensor<"cuda:0">>
fx.graph @one stage "export" (%x: !x, %w: !w {fx.kind = "parameter"}) -> !y {
  %0 = fx.node "aten.linear.default"(%x, %w) : (!x, !w) -> !y loc("linear")
  fx.output(%0) : (!y)
}
fx.graph @two stage "export" (%x: !x, %w: !w {fx.kind = "parameter"}, %v: !w {fx.kind = "parameter"}) -> (!y, !y) {
  %0 = fx.node "aten.linear.default"(%x, %w) : (!x, !w) -> !y loc("linear")
  %1 = fx.node "aten.linear.default"(%x, %v) : (!x, !w) -> !y loc("linear_1")
  %r = fx.node "aten.relu.default"(%0) : (!y) -> !y
  %s = fx.node "aten.relu.default"(%1) : (!y) -> !y
  fx.output(%r, %s) : (!y, !y)
}

//--- two.mlir
!x = tensor<2x8xf32, #fx.tensor<"cuda:0">>
!w = tensor<16x8xf32, #fx.tensor<"cuda:0">>
!y = tensor<2x16xf32, #fx.tensor<"cuda:0">>
fx.graph @two stage "export" (%x: !x, %w: !w {fx.kind = "parameter"}, %v: !w {fx.kind = "parameter"}) -> (!y, !y) {
  %0 = fx.node "aten.linear.default"(%x, %w) : (!x, !w) -> !y loc("linear")
  %1 = fx.node "aten.linear.default"(%x, %v) : (!x, !w) -> !y loc("linear_1")
  %r = fx.node "aten.relu.default"(%0) : (!y) -> !y
  %s = fx.node "aten.relu.default"(%1) : (!y) -> !y
  fx.output(%r, %s) : (!y, !y)
}

//--- one.json
{"version": 1, "graph": "two", "stage": "export", "devices": [{"id": 0, "name": "NVIDIA H200"}], "summary": {"steps": 1}, "kernels": [{"id": 0, "name": "gemm", "start_ns": 0, "duration_ns": 1000000, "nodes": ["linear"], "confidence": "high", "explanation": "t", "method": "identity"}, {"id": 1, "name": "gemm", "start_ns": 2000000, "duration_ns": 1000000, "nodes": ["linear_1"], "confidence": "high", "explanation": "t", "method": "identity"}], "nodes": [{"name": "linear", "kernel_time_ns": 1000000, "kernels": [0]}, {"name": "linear_1", "kernel_time_ns": 1000000, "kernels": [1]}]}

//--- more.json
{"version": 1, "graph": "two", "stage": "export", "devices": [{"id": 0, "name": "NVIDIA H200"}], "summary": {"steps": 1}, "kernels": [{"id": 0, "name": "gemm", "start_ns": 0, "duration_ns": 1000000, "nodes": ["linear"], "confidence": "high", "explanation": "t", "method": "identity"}, {"id": 1, "name": "gemm", "start_ns": 2000000, "duration_ns": 1000000, "nodes": ["linear_1"], "confidence": "high", "explanation": "t", "method": "identity"}, {"id": 2, "name": "gemm", "start_ns": 4000000, "duration_ns": 1, "nodes": [{"graph": "two_1", "stage": "export", "name": "linear"}], "confidence": "high", "explanation": "t", "method": "identity"}, {"id": 3, "name": "gemm", "start_ns": 6000000, "duration_ns": 1, "nodes": [{"graph": "two_1", "stage": "export", "name": "linear_1"}], "confidence": "high", "explanation": "t", "method": "identity"}], "nodes": [{"name": "linear", "kernel_time_ns": 1000000, "kernels": [0]}, {"name": "linear_1", "kernel_time_ns": 1000000, "kernels": [1]}, {"graph": "two_1", "stage": "export", "name": "linear", "kernel_time_ns": 1, "kernels": [2]}, {"graph": "two_1", "stage": "export", "name": "linear_1", "kernel_time_ns": 1, "kernels": [3]}]}
