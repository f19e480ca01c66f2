fx.graph private @partition(%a: tensor<8xf32> {fx.name = "a"}, %b: tensor<8xf32> {fx.name = "b"}) -> tensor<8xf32> {
  %mul = fx.node "aten.mul.Tensor"(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %neg = fx.node "aten.neg.default"(%mul) : (tensor<8xf32>) -> tensor<8xf32>
  fx.output(%neg) : (tensor<8xf32>)
}
fx.graph private @"then branch"(%a: tensor<8xf32> {fx.name = "a"}) -> tensor<8xf32> {
  %scale = fx.node get_attr "scale"() : () -> tensor<8xf32>
  %mul = fx.node "aten.mul.Tensor"(%a, %scale) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fx.output(%mul) : (tensor<8xf32>)
}
fx.graph @main stage "export" (
    %weight: tensor<8xf32> {fx.name = "weight", fx.kind = "parameter", fx.target = "fc.weight"},
    %mask: tensor<8xf32> {fx.name = "mask", fx.kind = "buffer", fx.target = "mask"},
    %x: tensor<?x8xf32, #fx.tensor<"cpu", strides = [8, 1], dims = [#fx.sym<"s0">, 8]>> {fx.name = "in"},
    %n: !fx.symint<"s1"> {fx.name = "torch"},
    %state: tensor<2x2xf32, #fx.tensor<"cuda:0", strides = [1, 2]>> {fx.name = "state", fx.kint = "buffer", fx.target = "state"}) -> (tensor<8xf32>, tensor<?x8xf32, #fx.tensor<"cpu", strides = [8, 1], dims = [#fx.sym<"s0">, 8]>>, tensor<8xf32>) {
  %first = fx.call @partition(%weight, %mask) {prof.partition = #prof.partition<"h.0.mlp", unique>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      loc("first"(fused<{code = "y = self.partition(x)", modules = [["", "model.Net"], ["h.0.mlp", "model.MLP"]]}>["model.py":42:0]))
  fx.call @partition(%first, %mask) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %all = fx.node "aten.einsum.default"(none, true, false, "a\22\\\n\C3\A9\E2\80\AE", -5, 1.0, 1.0e-05, -0.0, 0x7FF0000000000000 : f64, 0xFFF0000000000000 : f64, 0x7FF8000000000000 : f64, [], [1, [%first]], (), (%first), (%first, none)) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> !fx.none loc("all_forms")
  %more = fx.node "aten.einsum.default"(dict("k" = %all, 3 = (1)), slice(none, 2, none), #fx.ellipsis, #fx.int<"00000000000000000001">, #fx.complex<1.0 : f64, 0x7FF0008000000000 : f64>, #fx.dtype<"bfloat16">, #fx.device<"cuda:0">, #fx.layout<"strided">, #fx.memory_format<"channels_last">, #fx.sym<"Max(1, s0 + 1)">, #fx.op<"aten.add.Tensor">, alpha = 2, from = 1) : (!fx.none) -> !fx.none loc("more")
  %index = fx.node "operator.getitem"(%more, (slice(none, none, none), slice(1, %first, none), slice(none, none, 2), none, #fx.ellipsis, -1)) : (!fx.none, tensor<8xf32>) -> !fx.none loc("index")
  fx.node "operator.setitem"(%index, 0, %n) : (!fx.none, !fx.symint<"s1">) -> !fx.none
  %getitem = fx.node "operator.getitem"(%index, ((0, 1))) : (!fx.none) -> !fx.none
  %shape = fx.node "getattr"(%getitem, "shape") : (!fx.none) -> !fx.none loc("shape")
  %add = fx.node "operator.add"(%n, 1) : (!fx.symint<"s1">) -> !fx.symint<"s1 + 1">
  %neg = fx.node "operator.neg"(%add) : (!fx.symint<"s1 + 1">) -> !fx.symint<"-s1 - 1">
  %view = fx.node call_method "view"(%getitem, %neg, 1) : (!fx.none, !fx.symint<"-s1 - 1">) -> !fx.none
  %fc = fx.node call_module "fc"(%view) : (!fx.none) -> !fx.none
  fx.node "aten.random.from"(%fc, 1) : (!fx.none) -> !fx.none
  %cond = fx.node "higher_order.cond"(%fc, @"then branch", @partition, (%first, %first)) : (!fx.none, tensor<8xf32>, tensor<8xf32>) -> tuple<tensor<8xf32>> loc("cond")
  prof.range_push "layer::unique::h.0"
  %sqrt = fx.node "math.sqrt"(3.0) : () -> !fx.scalar<"float">
  %gelu = fx.node "torch._C._nn.gelu"(%sqrt, approximate = "tanh") : (!fx.scalar<"float">) -> !fx.none
  prof.range_pop
  fx.output(%first, %x, %first) signature [{kind = "buffer_mutation", target = "mask"}, {kind = "user_input_mutation", target = "in"}, {kind = "user_output"}] : (tensor<8xf32>, tensor<?x8xf32, #fx.tensor<"cpu", strides = [8, 1], dims = [#fx.sym<"s0">, 8]>>, tensor<8xf32>)
}
