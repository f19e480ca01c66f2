module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>, %n: !fx.scalar<"int">) -> tensor<4xf32> {
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
