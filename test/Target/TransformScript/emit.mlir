// RUN: opprof-translate --emit-rewrite -split-input-file -verify-diagnostics %s | FileCheck %s

// Verify that a backend holds every condition of the pattern: of its inputs, of each of its nodes, and of the place.
// CHECK: def merge_pattern(x, y):
// CHECK: values=(
// CHECK-NEXT: TensorSpec(dtype=torch.float32, shape=(2, 8), stride=(8, 1), device="cuda:1", layout="strided", subclass="", requires_grad=True),
// CHECK-NEXT: TensorSpec(dtype=torch.float32, shape=(2, "n"), device="cpu", layout="strided", subclass=""),
// CHECK-NEXT: (TensorSpec(), TensorSpec(dtype=torch.float16, shape=(4, 4), stride=(1, 4), device="cpu", layout="strided", subclass="mine.Tensor")),
// CHECK-NEXT: TensorSpec(dtype=torch.float32, shape=(None,)),
// CHECK-NEXT: ),
// CHECK-NEXT: place=(
// CHECK-NEXT: ("inner_uses_only", None),
// CHECK-NEXT: ("inputs_come_first", None),
// CHECK-NEXT: ("effects_in_order", None),
// CHECK-NEXT: ("results_stay_inside", None),
// CHECK-NEXT: ("views_work", (0, (2,))),
// CHECK-NEXT: ("nothing_written_after", None),
// CHECK-NEXT: ),
!x = tensor<2x8xf32, #fx.tensor<"cuda:1", requires_grad>>
!y = tensor<2x?xf32, #fx.tensor<"cpu", unknown_strides, dims = [2, #fx.sym<"n">]>>
!parts = !fx.list<tuple<!fx.any, tensor<4x4xf16, #fx.tensor<"cpu", strides = [1, 4], subclass = "mine.Tensor">>>>
module attributes {transform.with_named_sequence, fx.rewrite = {name = "merge"}} {
  fx.graph private @pattern(%x: !x {fx.name = "x"}, %y: !y {fx.name = "y"}) -> tensor<?xf32> {
    %0 = fx.node "aten.split_with_sizes.default"(%x, [4, 4]) : (!x) -> !parts
    %1 = fx.node "mine.together.default"(%0, %y) : (!parts, !y) -> tensor<?xf32>
    fx.output(%1) : (tensor<?xf32>)
  }
  fx.graph private @replacement(%x: !x, %y: !y) -> tensor<?xf32, #fx.tensor<"cpu", strides = [2]>> {
    %0 = fx.node "aten.view.default"(%x, [-1]) : (!x) -> tensor<?xf32, #fx.tensor<"cpu", strides = [2]>>
    fx.output(%0) : (tensor<?xf32, #fx.tensor<"cpu", strides = [2]>>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that a pattern that writes what it takes is refused.
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{a pattern may write what it makes and takes once alone: use the operator that gives a new tensor}}
    %0 = fx.node "aten.relu_.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    fx.output(%x) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that a pattern that reads what it writes beside that is refused: no edge says which of them comes first.
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.sin.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{a pattern may write what it makes and takes once alone: use the operator that gives a new tensor}}
    %1 = fx.node "aten.relu_.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = fx.node "aten.mul.Tensor"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fx.output(%2) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    fx.output(%x) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that a pattern that changes what autograd knows of what it takes is refused.
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{a pattern may write what it makes and takes once alone: use the operator that gives a new tensor}}
    %0 = fx.node "aten.detach_.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = fx.node "aten.sin.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%1) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.sin.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that a pattern with one of Python's own operators that write is refused.
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{a pattern may write what it makes and takes once alone: use the operator that gives a new tensor}}
    %0 = fx.node "operator.iadd"(%x, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.sin.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that a pattern that writes what may be its argument by another name is refused.
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.lift.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{a pattern may write what it makes and takes once alone: use the operator that gives a new tensor}}
    %1 = fx.node "aten.relu_.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%1) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.sin.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that a replacement that writes is refused.
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.sin.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{a replacement may not write: use the operator that gives a new tensor}}
    %0 = fx.node "aten.relu_.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that what Python cannot check is refused, by name.
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>, %n: !fx.scalar<"int">) -> tensor<4xf32> {
    // expected-error @-1 {{a pattern's values have to be tensors to be checked in Python, and this is '!fx.scalar<"int">'}}
    %0 = fx.node "aten.mul.Scalar"(%x, %n) : (tensor<4xf32>, !fx.scalar<"int">) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  fx.graph private @replacement(%x: tensor<4xf32>, %n: !fx.scalar<"int">) -> tensor<4xf32> {
    fx.output(%x) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that classes and their levels are strings of the backend, whatever stands in them.
// CHECK: STRATEGY = replace(STRATEGY, freeze=True, regions=(
// CHECK-NEXT: ("linear 4x8 8x8", "float16x3"),
// CHECK-NEXT: ("say \"no\"\n", "bfloat16"),
// CHECK-NEXT: ))
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    transform.fx.region_strategy %root {freeze, regions = {"linear 4x8 8x8" = "float16x3", "say \22no\22\0A" = "bfloat16"}} : !transform.any_op
    transform.yield
  }
}
