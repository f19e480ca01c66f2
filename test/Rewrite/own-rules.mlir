// RUN: rm -rf %t && split-file %s %t
// RUN: opprof-opt --recommend-rewrites="dir=%t/out device=H200 rules=%t/rules" %t/graph.mlir -o /dev/null
// RUN: FileCheck %s < %t/out/rewrites.json
// RUN: cat %t/out/*-twice.mlir | FileCheck %s --check-prefix=SCRIPT
// RUN: opprof-opt --apply-rewrites=%t/out %t/graph.mlir --mlir-print-debuginfo=false 2>&1 | FileCheck %s --check-prefix=APPLIED
// RUN: opprof-translate --emit-rewrite %t/rules/twice.mlir | FileCheck %s --check-prefix=PYTHON
// RUN: not opprof-opt --recommend-rewrites="dir=%t/out rules=%t/misspelled" %t/graph.mlir -o /dev/null 2>&1 | FileCheck %s --check-prefix=MISSPELLED
// RUN: not opprof-opt --apply-rewrites=%t/overload.mlir %t/graph.mlir 2>&1 | FileCheck %s --check-prefix=OVERLOAD
// RUN: not opprof-opt --recommend-rewrites="dir=%t/out rules=%t/nowhere" %t/graph.mlir -o /dev/null 2>&1 | FileCheck %s --check-prefix=MISSING

// Verify that a person's scripts, of named sizes and open constants, are offered where their patterns are, at all places; that one
// whose pattern is nowhere is declined with the nearest place; and that a wrong operator is an error where it stands.
// CHECK: "name": "twice"
// CHECK: "nodes": [
// CHECK: "first"
// CHECK-NEXT: "second"
// CHECK: "third"
// CHECK-NEXT: "fourth"
// CHECK: "declined": [
// CHECK: "rule": "elsewhere"
// CHECK-NEXT: "reason": "its pattern is nowhere; nearest: the argument 'other' is 2.0 here and 3.0 in the pattern"
// CHECK-NEXT: "node": "first"

// SCRIPT: fx.sym<"n">
// SCRIPT: #fx.any<"factor">

// APPLIED: remark: applied at 2 places
// APPLIED: "aten.mul.Scalar"(%{{.*}}, 2.000000e+00) : (tensor<4x8xf32
// APPLIED: "aten.reshape.default"(%{{.*}}, [4, 8])
// APPLIED: "aten.mul.Scalar"(%{{.*}}, 5.000000e-01) : (tensor<3x2xf32
// APPLIED: "aten.reshape.default"(%{{.*}}, [3, 2])

// PYTHON: Open("factor")
// PYTHON: [Size("n"), Size("m")]

// MISSPELLED: misspelled/wrong.mlir:3:{{[0-9]+}}: error: PyTorch has no operator 'aten.rellu.default'; did you mean 'aten.relu.default'?
// OVERLOAD: overload.mlir:3:{{[0-9]+}}: error: PyTorch has no operator 'aten.relu'; did you mean 'aten.relu.default'?
// MISSING: nowhere: no such file or folder

//--- graph.mlir
!a = tensor<4x8xf32, #fx.tensor<"cpu">>
!b = tensor<3x2xf32, #fx.tensor<"cpu">>
fx.graph @graph(%x: !a, %y: !b) -> (!a, !b) {
  %0 = fx.node "aten.mul.Scalar"(%x, 2.0) : (!a) -> !a loc("first")
  %1 = fx.node "aten.neg.default"(%0) : (!a) -> !a loc("second")
  %2 = fx.node "aten.relu.default"(%1) : (!a) -> !a
  %3 = fx.node "aten.mul.Scalar"(%y, 0.5) : (!b) -> !b loc("third")
  %4 = fx.node "aten.neg.default"(%3) : (!b) -> !b loc("fourth")
  %5 = fx.node "aten.relu.default"(%4) : (!b) -> !b
  fx.output(%2, %5) : (!a, !b)
}

//--- rules/twice.mlir
!t = tensor<?x?xf32, #fx.tensor<"cpu", unknown_strides, dims = [#fx.sym<"n">, #fx.sym<"m">]>>
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: !t) -> !t {
    %0 = fx.node "aten.mul.Scalar"(%x, #fx.any<"factor">) : (!t) -> !t
    %1 = fx.node "aten.neg.default"(%0) : (!t) -> !t
    fx.output(%1) : (!t)
  }
  fx.graph private @replacement(%x: !t) -> !t {
    %0 = fx.node "aten.neg.default"(%x) : (!t) -> !t
    %1 = fx.node "aten.mul.Scalar"(%0, #fx.any<"factor">) : (!t) -> !t
    %2 = fx.node "aten.reshape.default"(%1, [#fx.sym<"n">, #fx.sym<"m">]) : (!t) -> !t
    fx.output(%2) : (!t)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

//--- rules/elsewhere.mlir
!t = tensor<*xf32>
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: !t) -> !t {
    %0 = fx.node "aten.mul.Scalar"(%x, 3.0) : (!t) -> !t
    fx.output(%0) : (!t)
  }
  fx.graph private @replacement(%x: !t) -> !t {
    %0 = fx.node "aten.neg.default"(%x) : (!t) -> !t
    fx.output(%0) : (!t)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

//--- misspelled/wrong.mlir
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.rellu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.yield
  }
}

//--- overload.mlir
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.yield
  }
}
