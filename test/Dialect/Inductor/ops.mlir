// Programs print as they are read, and give their launches as JSON.

// RUN: opprof-opt %s --verify-roundtrip | FileCheck %s
// RUN: opprof-opt %s --emit-bytecode | opprof-opt --mlir-print-debuginfo=false | FileCheck %s
// RUN: opprof-translate --export-inductor-launches %s | FileCheck %s --check-prefix=JSON

// CHECK: fx.external @model stage "post_grad"
fx.external @model stage "post_grad"
// CHECK-NEXT: fx.external @true_graph_0 stage "post_grad"
fx.external @true_graph_0 stage "post_grad"
// CHECK-NEXT: fx.external @net stage "export"
fx.external @net stage "export"
// CHECK-NEXT: inductor.program of @model statements 4 of 5 aligned <"structure", @net, 1 of 2, 1> {
inductor.program of @model statements 4 of 5 aligned <"structure", @net, 1 of 2, 1> {
  // CHECK-NEXT: inductor.launch 0 "extern_kernels.mm" extern extern in "partition_0" at [12, 40] reads ["a", "b"] writes ["buf0"] computes [#inductor.node<@model::@mm, evidence = ["target"]>] listed [@model::@relu] handle 7 flops 16 read 8 written 4 {conditional, in_loop}
  inductor.launch 0 "extern_kernels.mm" extern extern in "partition_0" at [12, 40] reads ["a", "b"] writes ["buf0"] computes [#inductor.node<@model::@mm, evidence = ["target"]>] listed [@model::@relu] handle 7 flops 16 read 8 written 4 {conditional, in_loop} loc("output_code.py":21:0)
  // CHECK-NEXT: inductor.launch 1 "triton_poi_fused_relu_0" triton pointwise hash "cabc" reads ["buf0"] writes ["buf0"] computes [#inductor.node<@true_graph_0::@relu, evidence = ["fragment", "dataflow"], recomputed = true, from = [@net::@relu], module = "h.0", source = "model.py:3">]
  inductor.launch 1 "triton_poi_fused_relu_0" triton pointwise hash "cabc" reads ["buf0"] writes ["buf0"] computes [#inductor.node<@true_graph_0::@relu, evidence = ["fragment", "dataflow"], recomputed = true, from = [@net::@relu], module = "h.0", source = "model.py:3">] loc("output_code.py":22:0)
  // CHECK-NEXT: inductor.launch 2 "triton_poi_fused_relu_1" triton pointwise reads [] writes [] computes [#inductor.node<@model::@relu_1, confidence = "high", from = [@net::@relu], from_confidence = "medium", work = 64 : i64>]
  inductor.launch 2 "triton_poi_fused_relu_1" triton pointwise reads [] writes [] computes [#inductor.node<@model::@relu_1, confidence = "high", from = [@net::@relu], from_confidence = "medium", work = 64 : i64>] loc("output_code.py":23:0)
  // CHECK-NEXT: inductor.not_launched @true_graph_0::@view because "view"
  inductor.not_launched @true_graph_0::@view because "view"
}
// CHECK: inductor.program of @net {
inductor.program of @net {
}

// JSON: "graph": "model"
// JSON: "kept_as_text": 1
// JSON: "proven": 1,
// JSON-NEXT: "aligned": 1,
// JSON-NEXT: "of": 2
// JSON: "line": 21,
// JSON-NEXT: "function": "partition_0",
// JSON-NEXT: "call_lines": [
// JSON: "kind": "extern",
// JSON: "conditional": true,
// JSON-NEXT: "in_loop": true,
// JSON: "listed_only": [
// JSON-NEXT: "relu"
// JSON: "kernel_hash": "cabc",
// JSON: "graph": "true_graph_0",
// JSON-NEXT: "recomputed": true,
// JSON: "module": "h.0",
// JSON: "reason": "view"
