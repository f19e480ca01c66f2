// RUN: split-file %s %t
// RUN: opprof-opt --apply-rewrites=%t/handles.mlir --mlir-print-debuginfo=false %t/graph.mlir | FileCheck %t/handles.mlir
// RUN: opprof-opt --apply-rewrites=%t/input.mlir --mlir-print-debuginfo=false %t/graph.mlir | FileCheck %t/input.mlir
// RUN: opprof-opt --apply-rewrites=%t/alternatives.mlir --mlir-print-debuginfo=false %t/graph.mlir 2>&1 | FileCheck %t/alternatives.mlir
// RUN: not opprof-opt --apply-rewrites=%t/nested.mlir %t/graph.mlir 2>&1 | FileCheck %t/nested.mlir

//--- graph.mlir
fx.graph @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = fx.node "aten.neg.default"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = fx.node "aten.relu.default"(%b) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>)
}

//--- handles.mlir
// Verify that a handle to nodes loses what is gone, follows a result to the node that gives it now, and keeps the others; and that the
// result is a handle to what was made.
// CHECK: fx.node "aten.abs.default"(%arg0) {made, seen}
// CHECK-NEXT: fx.node "aten.relu.default"({{.*}}) {seen}
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %twice = fx.node "aten.neg.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%twice) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    %abs = fx.node "aten.abs.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%abs) : (tensor<4xf32>)
  }
  transform.named_sequence @is_node(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["fx.node"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %nodes = transform.collect_matching @is_node in %root : (!transform.any_op) -> !transform.any_op
    %made = transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op -> !transform.any_op
    transform.annotate %made "made" : !transform.any_op
    transform.annotate %nodes "seen" : !transform.any_op
    transform.yield
  }
}

//--- input.mlir
// Verify that handles lose nodes in whose place nothing new is.
// CHECK-LABEL: fx.graph @g
// CHECK-NEXT: fx.node "aten.relu.default"(%arg0) {seen}
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %twice = fx.node "aten.neg.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%twice) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    fx.output(%x) : (tensor<4xf32>)
  }
  transform.named_sequence @is_node(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["fx.node"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %nodes = transform.collect_matching @is_node in %root : (!transform.any_op) -> !transform.any_op
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.annotate %nodes "seen" : !transform.any_op
    transform.yield
  }
}

//--- alternatives.mlir
// Verify that a pattern that is nowhere lets an alternative be tried, silently.
// CHECK-NOT: nowhere
// CHECK: applied at 1 place
// CHECK-NOT: nowhere
// CHECK: fx.node "aten.abs.default"
module attributes {transform.with_named_sequence} {
  fx.graph private @tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
    %tanh = fx.node "aten.tanh.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%tanh) : (tensor<4xf32>)
  }
  fx.graph private @neg(%x: tensor<4xf32>) -> tensor<4xf32> {
    %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %twice = fx.node "aten.neg.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%twice) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    %abs = fx.node "aten.abs.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%abs) : (tensor<4xf32>)
  }
  transform.named_sequence @is_graph(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["fx.graph"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %graphs = transform.collect_matching @is_graph in %root : (!transform.any_op) -> !transform.any_op
    transform.alternatives %graphs : !transform.any_op {
    ^bb0(%graph: !transform.any_op):
      transform.fx.replace_subgraph %graph, @tanh -> @replacement : !transform.any_op
    }, {
    ^bb0(%graph: !transform.any_op):
      transform.fx.replace_subgraph %graph, @neg -> @replacement : !transform.any_op
    }
    transform.yield
  }
}

//--- nested.mlir
// Verify that a failure that the sequence passes on is an error, which says what no node is.
// CHECK: error: the pattern @tanh is nowhere in the graph, which stays as it is
// CHECK: note: no node calls aten.tanh.default with these arguments, which gives the pattern's first result
module attributes {transform.with_named_sequence} {
  fx.graph private @tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
    %tanh = fx.node "aten.tanh.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%tanh) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    %abs = fx.node "aten.abs.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%abs) : (tensor<4xf32>)
  }
  transform.named_sequence @inner(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @tanh -> @replacement : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.include @inner failures(propagate) (%root) : (!transform.any_op) -> ()
    transform.yield
  }
}
