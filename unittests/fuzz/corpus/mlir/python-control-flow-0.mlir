fx.graph @control(%is: !fx.scalar<"bool"> loc("is_"), %n: !fx.scalar<"int"> loc("n"), %x: tensor<4xf32> loc("x")) -> (tensor<4xf32>, tensor<4xf32>, !fx.scalar<"int">, !fx.scalar<"int">) {
  %branch = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>) {
      %neg = fx.node "aten.neg.default"(%y) : (tensor<4xf32>) -> tensor<4xf32> loc("neg")
      fx.output(%neg) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    } loc("branch")
  %counted = fx.node "prim.Loop"(%n, true, %branch, %x) : (!fx.scalar<"int">, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    block (%round: !fx.scalar<"int"> loc("round_"), %carried: tensor<4xf32> loc("carried"), %read: tensor<4xf32>) {
      %add = fx.node "aten.add.Tensor"(%carried, %read) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add")
      fx.output(true, %add) : (tensor<4xf32>)
    } loc("counted")
  %open = fx.node "prim.Loop"(9223372036854775807, %is, 0, %n) : (!fx.scalar<"bool">, !fx.scalar<"int">) -> !fx.scalar<"int">
    block (%round: !fx.scalar<"int">, %number: !fx.scalar<"int"> loc("number"), %most: !fx.scalar<"int">) {
      %larger = fx.node "operator.add"(%number, 1) : (!fx.scalar<"int">) -> !fx.scalar<"int"> loc("larger")
      %less = fx.node "operator.lt"(%larger, %most) : (!fx.scalar<"int">, !fx.scalar<"int">) -> !fx.scalar<"bool"> loc("less")
      fx.output(%less, %larger) : (!fx.scalar<"bool">, !fx.scalar<"int">)
    } loc("open_")
  %both = fx.node "prim.Loop"(%n, true, %counted, 1, %is) : (!fx.scalar<"int">, tensor<4xf32>, !fx.scalar<"bool">) -> tuple<tensor<4xf32>, !fx.scalar<"int">>
    block (%round: !fx.scalar<"int"> loc("round_1"), %first: tensor<4xf32> loc("first"), %second: !fx.scalar<"int"> loc("second"), %again: !fx.scalar<"bool">) {
      fx.output(%again, %second, %first) : (!fx.scalar<"bool">, !fx.scalar<"int">, tensor<4xf32>)
    } loc("both")
  %last = fx.node "operator.getitem"(%both, 1) : (tuple<tensor<4xf32>, !fx.scalar<"int">>) -> !fx.scalar<"int"> loc("last")
  %none = fx.node "prim.If"(%is) : (!fx.scalar<"bool">) -> !fx.none
    block () {
      fx.output() : ()
    }
    block () {
      %raise = fx.node "torch._assert"(false, "no") : () -> !fx.none
      fx.output() : ()
    }
  fx.output(%branch, %counted, %open, %last) : (tensor<4xf32>, tensor<4xf32>, !fx.scalar<"int">, !fx.scalar<"int">)
}
