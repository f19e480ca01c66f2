// RUN: rm -rf %t && opprof-opt --recommend-rewrites="dir=%t device=H200" %s -o /dev/null
// RUN: FileCheck %s < %t/rewrites.json

// Verify that products whose bias is one number for all columns are not merged: side by side, two of them would be a bias of two
// columns beside a product of thirty-two.
// CHECK-NOT: "name": "merge-gemms"
// CHECK: "declined"
// CHECK: "rule": "merge-gemms"
// CHECK-NEXT: "reason": "its bias is one number for all of its columns"

!x = tensor<2x8xf32, #fx.tensor<"cuda:0">>
!w = tensor<8x16xf32, #fx.tensor<"cuda:0">>
!b = tensor<1xf32, #fx.tensor<"cuda:0">>
!y = tensor<2x16xf32, #fx.tensor<"cuda:0">>
fx.graph @layers(%x: !x, %w: !w {fx.kind = "parameter"}, %v: !w {fx.kind = "parameter"}, %b: !b {fx.kind = "parameter"}, %c: !b {fx.kind = "parameter"}) -> (!y) {
  %0 = fx.node "aten.addmm.default"(%b, %x, %w) : (!b, !x, !w) -> !y loc("addmm_0")
  %1 = fx.node "aten.addmm.default"(%c, %x, %v) : (!b, !x, !w) -> !y loc("addmm_1")
  %2 = fx.node "aten.add.Tensor"(%0, %1) : (!y, !y) -> !y
  fx.output(%2) : (!y)
}
