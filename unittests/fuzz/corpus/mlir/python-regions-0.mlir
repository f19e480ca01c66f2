fx.graph @model(%x: tensor<4x4xf32> {fx.name = "x"}, %y: tensor<4x4xf32> {fx.name = "y"}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>) {
  %0:4 = fx.call @layer(%x, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>)
  %1:4 = fx.call @layer(%0#0, %0#3) : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>)
  %2 = fx.call @fresh(%1#0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output(%2, %1#1, %1#2) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>)
}
fx.graph private @layer(%x: tensor<4x4xf32> {fx.name = "x"}, %y: tensor<4x4xf32> {fx.name = "y"}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>) {
  %relu = fx.node "aten.relu.default"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %transpose = fx.node "aten.transpose.int"(%relu, 0, 1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %view = fx.node "aten.view.default"(%x, [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
  %sum = fx.node "aten.add_.Tensor"(%y, %relu) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output(%relu, %transpose, %view, %sum) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16xf32>, tensor<4x4xf32>)
}
fx.graph private @fresh(%x: tensor<4x4xf32> {fx.name = "x"}) -> tensor<4x4xf32> {
  %view = fx.node "aten.view.default"(%x, [16]) : (tensor<4x4xf32>) -> tensor<16xf32>
  %relu = fx.node "aten.relu.default"(%view) : (tensor<16xf32>) -> tensor<16xf32>
  %back = fx.node "aten.view.default"(%relu, [4, 4]) : (tensor<16xf32>) -> tensor<4x4xf32>
  fx.output(%back) : (tensor<4x4xf32>)
}
