// RUN: split-file %s %t
// RUN: opprof-opt --apply-rewrites=%t/merge.mlir --mlir-print-debuginfo=false %t/graph.mlir 2>&1 | FileCheck %t/graph.mlir
// RUN: opprof-opt --apply-rewrites=%t/merge.mlir %t/other-inputs.mlir 2>&1 | FileCheck %t/other-inputs.mlir
// RUN: opprof-opt --apply-rewrites=%t/merge.mlir %t/returned.mlir 2>&1 | FileCheck %t/returned.mlir
// RUN: opprof-opt --apply-rewrites=%t/merge.mlir %t/written.mlir 2>&1 | FileCheck %t/written.mlir
// RUN: opprof-opt --apply-rewrites=%t/strategies --mlir-print-debuginfo=false %t/returned.mlir 2>&1 | FileCheck %t/strategies/b.mlir
// RUN: not opprof-opt --apply-rewrites=%t/nowhere %t/graph.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not opprof-opt --apply-rewrites=%t/merge.mlir %t/outlined.mlir 2>&1 | FileCheck %t/outlined.mlir

// MISSING: nowhere: no such file or folder; give a rewrite script

// What is no script is named, and not printed.
// RUN: mkdir %t/empty && not opprof-opt --apply-rewrites=%t/empty %t/graph.mlir 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not opprof-opt --apply-rewrites=%t/graph.mlir %t/graph.mlir 2>&1 | FileCheck %s --check-prefix=SEQUENCE --implicit-check-not=fx.graph
// EMPTY: empty: holds no rewrite script (.mlir)
// SEQUENCE: graph.mlir:{{.*}}: error: holds no transform.named_sequence @__transform_main: give a rewrite script, such as `opprof recommend` writes

//--- merge.mlir
!x = tensor<2x8xf32, #fx.tensor<"cpu">>
!w = tensor<4x8xf32, #fx.tensor<"cpu">>
!y = tensor<2x4xf32, #fx.tensor<"cpu">>
!slice = tensor<2x4xf32, #fx.tensor<"cpu", strides = [8, 1]>>
!second = tensor<2x4xf32, #fx.tensor<"cpu", strides = [8, 1], offset = 4>>

module attributes {transform.with_named_sequence, fx.rewrite = {name = "merge-gemms"}} {
  fx.graph private @pattern(%x: !x, %a: !w, %b: !w) -> (!y, !y) {
    %0 = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !y
    %1 = fx.node "aten.linear.default"(%x, %b) : (!x, !w) -> !y
    fx.output(%0, %1) : (!y, !y)
  }
  fx.graph private @replacement(%x: !x, %a: !w, %b: !w) -> (!slice, !second) {
    %weight = fx.node "aten.cat.default"([%a, %b], 0) : (!w, !w) -> tensor<8x8xf32, #fx.tensor<"cpu">>
    %0 = fx.node "aten.linear.default"(%x, %weight) : (!x, tensor<8x8xf32, #fx.tensor<"cpu">>) -> tensor<2x8xf32, #fx.tensor<"cpu">>
    %slices = fx.node "aten.split_with_sizes.default"(%0, [4, 4], -1) : (tensor<2x8xf32, #fx.tensor<"cpu">>) -> !fx.list<tuple<!slice, !second>>
    %first = fx.node "operator.getitem"(%slices, 0) : (!fx.list<tuple<!slice, !second>>) -> !slice
    %second = fx.node "operator.getitem"(%slices, 1) : (!fx.list<tuple<!slice, !second>>) -> !second
    fx.output(%first, %second) : (!slice, !second)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

//--- graph.mlir
// Verify that every place is replaced, the second of which takes what the first gives, and that a view's strides follow.
// CHECK: applied at 2 places
// CHECK-LABEL: fx.graph @chain
// CHECK-NEXT: %[[CAT:.*]] = fx.node "aten.cat.default"([%arg1, %arg2], 0)
// CHECK-NEXT: %[[ALL:.*]] = fx.node "aten.linear.default"(%arg0, %[[CAT]])
// CHECK-NEXT: %[[SPLIT:.*]] = fx.node "aten.split_with_sizes.default"(%[[ALL]], [4, 4], -1)
// CHECK-NEXT: %[[Q:.*]] = fx.node "operator.getitem"(%[[SPLIT]], 0)
// CHECK-NEXT: %[[K:.*]] = fx.node "operator.getitem"(%[[SPLIT]], 1)
// CHECK-NEXT: %{{.*}} = fx.node "aten.view.default"(%[[Q]], [2, 2, 2]) {{.*}} -> tensor<2x2x2xf32, #[[LAYOUT:.*]]>
// CHECK-NOT: fx.node "aten.linear.default"(%arg0, %arg1)
// CHECK: %[[NEXT:.*]] = fx.node "aten.cat.default"([%{{.*}}, %[[K]]], 1)
// CHECK-NEXT: %[[CAT1:.*]] = fx.node "aten.cat.default"([%arg2, %arg1], 0)
// CHECK-NEXT: %{{.*}} = fx.node "aten.linear.default"(%[[NEXT]], %[[CAT1]])
!x = tensor<2x8xf32, #fx.tensor<"cpu">>
!w = tensor<4x8xf32, #fx.tensor<"cpu">>
!y = tensor<2x4xf32, #fx.tensor<"cpu">>
fx.graph @chain(%x: !x, %a: !w, %b: !w) -> !y {
  %q = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !y
  %k = fx.node "aten.linear.default"(%x, %b) : (!x, !w) -> !y
  %view = fx.node "aten.view.default"(%q, [2, 2, 2]) : (!y) -> tensor<2x2x2xf32, #fx.tensor<"cpu">>
  %flat = fx.node "aten.reshape.default"(%view, [2, 4]) : (tensor<2x2x2xf32, #fx.tensor<"cpu">>) -> !y
  %wide = fx.node "aten.cat.default"([%flat, %k], 1) : (!y, !y) -> !x
  %q1 = fx.node "aten.linear.default"(%wide, %b) : (!x, !w) -> !y
  %k1 = fx.node "aten.linear.default"(%wide, %a) : (!x, !w) -> !y
  %sum = fx.node "aten.add.Tensor"(%q1, %k1) : (!y, !y) -> !y
  fx.output(%sum) : (!y)
}

//--- other-inputs.mlir
// Verify that products of different inputs stay, and that the warning says what is different where.
// CHECK: warning: the pattern @pattern is nowhere in the graph
// CHECK: other-inputs.mlir:{{[0-9]+}}:8: note: the nearest place is in @other, where 1 of the pattern's 2 nodes fit; no other node that takes what stands for the same value calls aten.linear.default as the pattern does
// CHECK: merge.mlir:{{[0-9]+}}:10: note: the pattern's node
// CHECK-NOT: aten.cat
!x = tensor<2x8xf32, #fx.tensor<"cpu">>
!w = tensor<4x8xf32, #fx.tensor<"cpu">>
!y = tensor<2x4xf32, #fx.tensor<"cpu">>
fx.graph @other(%x: !x, %z: !x, %a: !w, %b: !w) -> !y {
  %q = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !y
  %k = fx.node "aten.linear.default"(%z, %b) : (!x, !w) -> !y
  %sum = fx.node "aten.add.Tensor"(%q, %k) : (!y, !y) -> !y
  fx.output(%sum) : (!y)
}

//--- returned.mlir
// Verify that results that the graph returns stay what they are.
// CHECK: warning: the pattern @pattern is nowhere in the graph
// CHECK: note: {{.*}} 2 of the pattern's 2 nodes fit; {{.*}}the graph returns a result, or a view of one
// CHECK-NOT: aten.cat
!x = tensor<2x8xf32, #fx.tensor<"cpu">>
!w = tensor<4x8xf32, #fx.tensor<"cpu">>
!y = tensor<2x4xf32, #fx.tensor<"cpu">>
fx.graph @returned(%x: !x, %a: !w, %b: !w) -> (!y, !y) {
  %q = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !y
  %k = fx.node "aten.linear.default"(%x, %b) : (!x, !w) -> !y
  fx.output(%q, %k) : (!y, !y)
}

//--- written.mlir
// Verify that products before and after a write to their input stay apart.
// CHECK: warning: the pattern @pattern is nowhere in the graph
// CHECK-NOT: aten.cat
!x = tensor<2x8xf32, #fx.tensor<"cpu">>
!w = tensor<4x8xf32, #fx.tensor<"cpu">>
!y = tensor<2x4xf32, #fx.tensor<"cpu">>
fx.graph @written(%x: !x, %a: !w, %b: !w) -> !y {
  %q = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !y
  %twice = fx.node "aten.mul_.Scalar"(%x, 2) : (!x) -> !x
  %k = fx.node "aten.linear.default"(%x, %b) : (!x, !w) -> !y
  %sum = fx.node "aten.add.Tensor"(%q, %k) : (!y, !y) -> !y
  fx.output(%sum) : (!y)
}

//--- outlined.mlir
// CHECK: error: 'fx.call' op stands in the way of rewrites, which may cross its border: run --inline-partitions first
fx.graph private @part(%x: tensor<4xf32>) -> tensor<4xf32> {
  %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%relu) : (tensor<4xf32>)
}
fx.graph @outlined(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fx.call @part(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%0) : (tensor<4xf32>)
}

//--- strategies/a.mlir
module attributes {transform.with_named_sequence, fx.rewrite = {name = "lower", rank = 2}} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.region_strategy %root {precision = "bfloat16"} : !transform.any_op
    transform.yield
  }
}

//--- strategies/b.mlir
// Verify that scripts run by rank, and that a later strategy adds to an earlier one and overrides it.
// CHECK: fx.graph @returned
// CHECK-SAME: fx.strategies = {cuda_graph, precision = "bfloat16"}
module attributes {transform.with_named_sequence, fx.rewrite = {name = "graph", rank = 1}} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.region_strategy %root {cuda_graph, precision = "float16"} : !transform.any_op
    transform.yield
  }
}
