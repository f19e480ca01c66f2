// RUN: rm -rf %t && opprof-opt --recommend-rewrites="dir=%t device=H200" %s -o /dev/null
// RUN: cat %t/*-merge-gemms.mlir | FileCheck %s --check-prefix=SCRIPT
// RUN: opprof-opt --apply-rewrites=%t %s --mlir-print-debuginfo=false 2>&1 | FileCheck %s --check-prefix=APPLIED

// Verify that a product that is repeated takes the slice of the first one, so that nothing is multiplied twice.
// SCRIPT: fx.graph private @pattern
// SCRIPT-COUNT-3: "aten.linear.default"
// SCRIPT: fx.graph private @replacement
// SCRIPT: "aten.cat.default"([%weight_0, %weight_1], 0)
// SCRIPT: fx.output(%[[FIRST:.*]], %{{.*}}, %[[FIRST]])

// APPLIED: remark: applied at 1 place
// APPLIED: "aten.linear.default"
// APPLIED-NOT: "aten.linear.default"

!x = tensor<2x8xf32, #fx.tensor<"cuda:0">>
!w = tensor<16x8xf32, #fx.tensor<"cuda:0">>
!y = tensor<2x16xf32, #fx.tensor<"cuda:0">>
fx.graph @repeated(%x: !x, %w: !w {fx.kind = "parameter"}, %v: !w {fx.kind = "parameter"}) -> !y {
  %0 = fx.node "aten.linear.default"(%x, %w) : (!x, !w) -> !y
  %1 = fx.node "aten.linear.default"(%x, %w) : (!x, !w) -> !y
  %2 = fx.node "aten.linear.default"(%x, %v) : (!x, !w) -> !y
  %3 = fx.node "aten.add.Tensor"(%0, %1) : (!y, !y) -> !y
  %4 = fx.node "aten.add.Tensor"(%3, %2) : (!y, !y) -> !y
  fx.output(%4) : (!y)
}
