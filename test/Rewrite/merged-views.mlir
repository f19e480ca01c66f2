// RUN: rm -rf %t && opprof-opt --recommend-rewrites="dir=%t device=H200" %s -o /dev/null
// RUN: FileCheck %s < %t/rewrites.json
// RUN: opprof-opt --apply-rewrites=%t %s --mlir-print-debuginfo=false 2>&1 | FileCheck %s --check-prefix=APPLIED

// Verify that products whose results are viewed, taken apart and viewed again merge, as a slice has all of these views (Hiera),
// and that those are not offered, but declined at their node, of which a view needs the layout that there is.
// CHECK: "title": "2 GEMMs of one input become one"
// CHECK: "q"
// CHECK-NEXT: "pooled"
// CHECK-NOT: "whole"
// CHECK: "declined": [
// CHECK: "rule": "merge-gemms"
// CHECK-NEXT: "reason": "its pattern is not here: a view of a result needs the layout that it has now"
// CHECK-NEXT: "node": "whole"

// APPLIED: applied at 1 place
// APPLIED: "aten.unbind.int"({{.*}}) : {{.*}} -> !fx.list<tuple<tensor<4x8xf32, #[[PART:.*]]>, tensor<4x8xf32, #[[PART]]>>>
// APPLIED: "operator.getitem"({{.*}}, 0) : {{.*}} -> tensor<4x8xf32, #[[PART]]>

#part = #fx.tensor<"cuda:0", strides = [16, 1]>
!x = tensor<4x8xf32, #fx.tensor<"cuda:0">>
!w = tensor<16x8xf32, #fx.tensor<"cuda:0">>
!v = tensor<4x8xf32, #fx.tensor<"cuda:0">>
!y = tensor<4x16xf32, #fx.tensor<"cuda:0">>
!z = tensor<4x4xf32, #fx.tensor<"cuda:0">>
!heads = tensor<4x2x8xf32, #fx.tensor<"cuda:0">>
!turned = tensor<2x4x8xf32, #fx.tensor<"cuda:0", strides = [8, 16, 1]>>
!half = tensor<4x8xf32, #part>
!rows = tensor<2x2x8xf32, #fx.tensor<"cuda:0", strides = [32, 16, 1]>>
!flat = tensor<16xf32, #fx.tensor<"cuda:0">>
fx.graph @layers(%x: !x, %w: !w {fx.kind = "parameter"}, %v: !v {fx.kind = "parameter"}, %u: !v {fx.kind = "parameter"}) -> (!rows, !z, !flat, !y) {
  %q = fx.node "aten.linear.default"(%x, %w) : (!x, !w) -> !y loc("q")
  %pooled = fx.node "aten.linear.default"(%x, %v) : (!x, !v) -> !z loc("pooled")
  %heads = fx.node "aten.view.default"(%q, [4, 2, 8]) : (!y) -> !heads
  %turned = fx.node "aten.permute.default"(%heads, [1, 0, 2]) : (!heads) -> !turned
  %parts = fx.node "aten.unbind.int"(%turned) : (!turned) -> !fx.list<tuple<!half, !half>>
  %first = fx.node "operator.getitem"(%parts, 0) : (!fx.list<tuple<!half, !half>>) -> !half
  %rows = fx.node "aten.view.default"(%first, [2, 2, 8]) : (!half) -> !rows
  %a = fx.node "aten.relu.default"(%rows) : (!rows) -> !rows
  %b = fx.node "aten.relu.default"(%pooled) : (!z) -> !z
  %e = fx.node "aten.relu.default"(%x) : (!x) -> !x
  %whole = fx.node "aten.linear.default"(%e, %u) : (!x, !v) -> !z loc("whole")
  %wide = fx.node "aten.linear.default"(%e, %w) : (!x, !w) -> !y loc("wide")
  %flat = fx.node "aten.view.default"(%whole, [16]) : (!z) -> !flat
  %c = fx.node "aten.relu.default"(%flat) : (!flat) -> !flat
  %d = fx.node "aten.relu.default"(%wide) : (!y) -> !y
  fx.output(%a, %b, %c, %d) : (!rows, !z, !flat, !y)
}
