// Times, counters, classes and findings print as they are read.

// RUN: opprof-opt %s --verify-roundtrip | FileCheck %s
// RUN: opprof-opt %s --emit-bytecode | opprof-opt --mlir-print-debuginfo=false | FileCheck %s

// CHECK: module attributes {prof.summary = #prof.summary<kernels = 314, kernel_ns = 5722000, steps = 2, wall_ns = 6802000, busy_ns = 5700113, device = "NVIDIA H200">}
module attributes {prof.summary = #prof.summary<kernels = 314, kernel_ns = 5722000, steps = 2, wall_ns = 6802000, busy_ns = 5700113, device = "NVIDIA H200">} {
  fx.graph @net stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> {
    // CHECK: prof.counters = #prof.counters<{dram_throughput_pct = 6.125000e+01 : f64, sm__x = 0x7FF8000000000000 : f64}>, prof.time = #prof.time<ns = 3456, kernels = 2, steps = 2, share = whole, confidence = high>
    %relu = fx.node "aten.relu.default"(%x) {prof.counters = #prof.counters<{dram_throughput_pct = 61.25, sm__x = 0x7FF8000000000000 : f64}>, prof.time = #prof.time<ns = 3456, kernels = 2, steps = 2, share = whole, confidence = high>} : (tensor<4xf32>) -> tensor<4xf32> loc("relu")
    // CHECK: prof.counters = #prof.counters<{}, inferred_from = @net::@relu, absent = {tensor_pipe_pct = "why"}>, prof.time = #prof.time<ns = 1, kernels = 1, share = divided, confidence = low>
    %relu_1 = fx.node "aten.relu.default"(%relu) {prof.counters = #prof.counters<{}, inferred_from = @net::@relu, absent = {tensor_pipe_pct = "why"}>, prof.time = #prof.time<ns = 1, kernels = 1, share = divided, confidence = low>} : (tensor<4xf32>) -> tensor<4xf32> loc("relu_1")
    fx.output(%relu_1) : (tensor<4xf32>)
  }
  fx.external @compiled stage "post_grad"
  // CHECK: inductor.launch 0 "k" cpp pointwise reads [] writes [] computes [#inductor.node<@compiled::@relu, from = [@net::@relu]>] {prof.time = #prof.time<ns = 5, kernels = 1, steps = 1, share = whole, confidence = medium>}
  inductor.program of @compiled statements 1 of 1 {
    inductor.launch 0 "k" cpp pointwise reads [] writes [] computes [#inductor.node<@compiled::@relu, from = [@net::@relu]>] {prof.time = #prof.time<ns = 5, kernels = 1, steps = 1, share = whole, confidence = medium>}
  }
  // CHECK: prof.class "c1" in "c0" {
  prof.class "c1" in "c0" {
    // CHECK-NEXT: prof.instance <"h.0", unique> of [@net::@relu] {prof.time = #prof.time<
    prof.instance <"h.0", unique> of [@net::@relu] {prof.time = #prof.time<ns = 3456, kernels = 2, steps = 2, share = whole, confidence = high>}
    // CHECK-NEXT: prof.instance <"h.1", duplicate> of [@net::@relu_1]
    prof.instance <"h.1", duplicate> of [@net::@relu_1]
  }
  // CHECK: prof.finding "memory-bound" severity 120000 on [@net::@relu] evidence {pct = 9.150000e+01 : f64}
  prof.finding "memory-bound" severity 120000 on [@net::@relu] evidence {pct = 91.5}
  // CHECK: prof.finding "wall-time" on [] evidence {}
  prof.finding "wall-time" on [] evidence {}
}
