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
