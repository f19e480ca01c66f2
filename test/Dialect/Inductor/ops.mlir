// Programs print as they are read, and give their launches as JSON.

// RUN: opprof-opt %s --verify-roundtrip | FileCheck %s
// RUN: opprof-opt %s --emit-bytecode | opprof-opt --mlir-print-debuginfo=false | FileCheck %s
// RUN: opprof-translate --export-inductor-launches %s | FileCheck %s --check-prefix=JSON

// CHECK: inductor.program @model stage "post_grad" statements 4 of 5 aligned <"structure", "net", "export", 1 of 2> {
inductor.program @model stage "post_grad" statements 4 of 5 aligned <"structure", "net", "export", 1 of 2> {
  // CHECK-NEXT: inductor.kernel @extern_kernels.mm extern extern
  inductor.kernel @extern_kernels.mm extern extern
  // CHECK-NEXT: inductor.kernel @triton_poi_fused_relu_0 triton pointwise hash "cabc"
  inductor.kernel @triton_poi_fused_relu_0 triton pointwise hash "cabc"
  // CHECK-NEXT: inductor.launch 0 @extern_kernels.mm in "partition_0" at [12, 40] reads ["a", "b"] writes ["buf0"] computes [#inductor.node<"mm", evidence = ["target"]>] listed ["relu"] handle 7 flops 16 read 8 written 4 {conditional, in_loop}
  inductor.launch 0 @extern_kernels.mm in "partition_0" at [12, 40] reads ["a", "b"] writes ["buf0"] computes [#inductor.node<"mm", evidence = ["target"]>] listed ["relu"] handle 7 flops 16 read 8 written 4 {conditional, in_loop} loc("output_code.py":21:0)
  // CHECK-NEXT: inductor.launch 1 @triton_poi_fused_relu_0 reads ["buf0"] writes ["buf0"] computes [#inductor.node<"relu", evidence = ["fragment", "dataflow"], recomputed = true, graph = "true_graph_0", origins = {{\[\[}}"net", "export", "relu"]], module = "h.0", source = "model.py:3">]
  inductor.launch 1 @triton_poi_fused_relu_0 reads ["buf0"] writes ["buf0"] computes [#inductor.node<"relu", evidence = ["fragment", "dataflow"], recomputed = true, graph = "true_graph_0", origins = [["net", "export", "relu"]], module = "h.0", source = "model.py:3">] loc("output_code.py":22:0)
  // CHECK-NEXT: inductor.not_launched "view" of "true_graph_0" because "view"
  inductor.not_launched "view" of "true_graph_0" because "view"
}

// JSON: "graph": "model"
// JSON: "kept_as_text": 1
// JSON: "aligned": 1,
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
