// RUN: rm -rf %t && opprof-opt --recommend-rewrites="dir=%t device=H200" %s -o /dev/null
// RUN: FileCheck %s < %t/rewrites.json
// RUN: cat %t/*-merge-gemms.mlir | FileCheck %s --check-prefix=SCRIPT
// RUN: opprof-opt --apply-rewrites=%t %s --mlir-print-debuginfo=false 2>&1 | FileCheck %s --check-prefix=APPLIED

// Verify that two layers of one shape are one rewrite with two places, that products with and without bias are
// kept apart, and that a pair of addmm merges along the other dimension.
// CHECK: "rewrites": [
// CHECK-DAG: "{{[0-9]+}}-merge-gemms.mlir"
// CHECK: "title": "2 GEMMs of one input become one, at 2 places"
// CHECK: "linear_0"
// CHECK-NEXT: "linear_1"
// CHECK: "linear_2"
// CHECK-NEXT: "linear_3"
// CHECK: "addmm_0"
// CHECK-NEXT: "addmm_1"

// SCRIPT-DAG: "aten.cat.default"([%weight_0, %weight_1], 0)
// SCRIPT-DAG: "aten.cat.default"([%bias_0, %bias_1], 0)
// SCRIPT-DAG: "aten.cat.default"([%weight_0, %weight_1], 1)
// SCRIPT-DAG: "aten.addmm.default"(%bias, %x, %weight)
// SCRIPT-DAG: "aten.split_with_sizes.default"(%product, [16, 4], -1)

// APPLIED-DAG: remark: applied at 2 places
// APPLIED-DAG: remark: applied at 1 place
// APPLIED: fx.graph @layers
// APPLIED-SAME: fx.strategies = {{{.*}}prologue
// APPLIED: "aten.split_with_sizes.default"({{.*}}, [16, 4], -1)
// APPLIED: "aten.split_with_sizes.default"({{.*}}, [16, 4], -1)
// APPLIED: "aten.split_with_sizes.default"({{.*}}, [8, 8], -1)
// APPLIED: "aten.linear.default"({{.*}}, %arg5)

!x = tensor<2x8xf32, #fx.tensor<"cuda:0">>
!w = tensor<16x8xf32, #fx.tensor<"cuda:0">>
!v = tensor<4x8xf32, #fx.tensor<"cuda:0">>
!b = tensor<16xf32, #fx.tensor<"cuda:0">>
!c = tensor<4xf32, #fx.tensor<"cuda:0">>
!y = tensor<2x16xf32, #fx.tensor<"cuda:0">>
!z = tensor<2x4xf32, #fx.tensor<"cuda:0">>
!m = tensor<8x8xf32, #fx.tensor<"cuda:0">>
!n = tensor<8xf32, #fx.tensor<"cuda:0">>
fx.graph @layers(%x: !x, %w: !w {fx.kind = "parameter"}, %v: !v {fx.kind = "parameter"}, %b: !b {fx.kind = "parameter"}, %c: !c {fx.kind = "parameter"}, %u: !w {fx.kind = "parameter"}, %m: !m {fx.kind = "parameter"}, %l: !m {fx.kind = "parameter"}, %n: !n {fx.kind = "parameter"}, %o: !n {fx.kind = "parameter"}) -> (!y, !z) {
  %0 = fx.node "aten.linear.default"(%x, %w, %b) : (!x, !w, !b) -> !y loc("linear_0")
  %1 = fx.node "aten.linear.default"(%x, %v, %c) : (!x, !v, !c) -> !z loc("linear_1")
  %r = fx.node "aten.relu.default"(%0) : (!y) -> !y
  %s = fx.node "aten.relu.default"(%1) : (!z) -> !z
  %h = fx.node "aten.slice.Tensor"(%r, 1, 0, 8) : (!y) -> tensor<2x8xf32, #fx.tensor<"cuda:0", strides = [16, 1]>>
  %g = fx.node "aten.clone.default"(%h) : (tensor<2x8xf32, #fx.tensor<"cuda:0", strides = [16, 1]>>) -> !x
  %2 = fx.node "aten.linear.default"(%g, %w, %b) : (!x, !w, !b) -> !y loc("linear_2")
  %3 = fx.node "aten.linear.default"(%g, %v, %c) : (!x, !v, !c) -> !z loc("linear_3")
  %p = fx.node "aten.relu.default"(%2) : (!y) -> !y
  %q = fx.node "aten.relu.default"(%3) : (!z) -> !z
  %e = fx.node "aten.relu.default"(%x) : (!x) -> !x
  %4 = fx.node "aten.addmm.default"(%n, %e, %m) : (!n, !x, !m) -> !x loc("addmm_0")
  %5 = fx.node "aten.addmm.default"(%o, %e, %l) : (!n, !x, !m) -> !x loc("addmm_1")
  %f = fx.node "aten.add.Tensor"(%4, %5) : (!x, !x) -> !x
  %alone = fx.node "aten.linear.default"(%f, %u) : (!x, !w) -> !y
  %k = fx.node "aten.add.Tensor"(%alone, %p) : (!y, !y) -> !y
  %j = fx.node "aten.add.Tensor"(%s, %q) : (!z, !z) -> !z
  fx.output(%k, %j) : (!y, !z)
}
