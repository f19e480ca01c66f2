// RUN: rm -rf %t && opprof-opt --recommend-rewrites="dir=%t device=H200" %s -o /dev/null
// RUN: FileCheck %s < %t/rewrites.json

// Verify that products are not offered as one where the graph returns a view of a result: pieces of one product share
// storage, so that no place would be found for the script.
// CHECK-NOT: "name": "merge-gemms"
// CHECK: "declined": [
// CHECK: "rule": "merge-gemms"
// CHECK-NEXT: "reason": "{{.*}}the graph returns its result, or a view of it"
// CHECK-NEXT: "node": "linear_{{[01]}}"

!x = tensor<2x8xf32, #fx.tensor<"cuda:0">>
!w = tensor<16x8xf32, #fx.tensor<"cuda:0">>
!y = tensor<2x16xf32, #fx.tensor<"cuda:0">>
!z = tensor<32xf32, #fx.tensor<"cuda:0">>
fx.graph @layers(%x: !x, %w: !w {fx.kind = "parameter"}, %v: !w {fx.kind = "parameter"}) -> (!z, !y) {
  %0 = fx.node "aten.linear.default"(%x, %w) : (!x, !w) -> !y loc("linear_0")
  %1 = fx.node "aten.linear.default"(%x, %v) : (!x, !w) -> !y loc("linear_1")
  %2 = fx.node "aten.view.default"(%0, [32]) : (!y) -> !z
  %3 = fx.node "aten.relu_.default"(%1) : (!y) -> !y
  fx.output(%2, %3) : (!z, !y)
}
