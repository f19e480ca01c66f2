// What the verifiers and parsers of the fx dialect refuse, in the user's terms.
// RUN: opprof-opt --split-input-file --verify-diagnostics %s

// expected-error@below {{dict of 1 keys and 0 values}}
module attributes {fx.test = #fx.dict<["k"], []>} {
}

// -----

// expected-error@below {{a whole number of up to 4096 decimal digits is expected, and no zero before them}}
module attributes {fx.test = #fx.int<"0018446744073709551617">} {
}

// -----

// expected-error@below {{'long' is no Python scalar: use int, float, bool or str}}
fx.graph @scalar(%x: !fx.scalar<"long">) { fx.output() : () }

// -----

// expected-error@below {{1 strides for a tensor of 2 dimensions}}
fx.graph @strides(%x: tensor<4x8xf32, #fx.tensor<"cpu", strides = [1]>>) { fx.output() : () }

// -----

// expected-error@below {{3 dims for a tensor of 2 dimensions}}
fx.graph @dims(%x: tensor<?x8xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s0">, 8, 1]>>) { fx.output() : () }

// -----

// expected-error@below {{dims says 9 where the shape says 8}}
fx.graph @dims(%x: tensor<?x8xf32, #fx.tensor<"cpu", dims = [#fx.sym<"s0">, 9]>>) { fx.output() : () }

// -----

// expected-error@below {{a tensor has no 'stride': expected strides, unknown_strides, dims, offset, requires_grad, layout or subclass}}
fx.graph @key(%x: tensor<4xf32, #fx.tensor<"cpu", stride = [1]>>) { fx.output() : () }

// -----

fx.graph @kind(%x: tensor<4xf32>) {
  // expected-error@below {{'call' is no kind of node: use call_function, call_method, call_module or get_attr}}
  fx.node call "relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @order(%x: tensor<4xf32>) {
  // expected-error@below {{a positional argument follows a keyword argument}}
  fx.node "aten.add.Tensor"(%x, alpha = 2, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @twice(%x: tensor<4xf32>) {
  // expected-error@below {{gives the keyword argument 'alpha' twice}}
  fx.node "aten.add.Tensor"(%x, %x, alpha = 2, alpha = 3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @slice() {
  // expected-error@below {{a slice has a start, a stop and a step}}
  fx.node "operator.getitem"(slice(1, 2)) : () -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @word(%x: tensor<4xf32>) {
  // expected-error@below {{expected '=' after the keyword 'alpha'}}
  fx.node "aten.add.Tensor"(%x, alpha) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @target(%x: tensor<4xf32>) {
  // expected-error@below {{has no target}}
  fx.node ""(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @count(%x: tensor<4xf32>) {
  // expected-error@below {{has 1 operands, but its arguments name 2 values}}
  "fx.node"(%x) <{target = "aten.add.Tensor", args = [#fx.value, #fx.value], kind = 0 : i32}> : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @keywords(%x: tensor<4xf32>) {
  // expected-error@below {{names more keyword arguments than it has arguments}}
  "fx.node"(%x) <{target = "aten.relu.default", args = [#fx.value], kwarg_names = ["a", "b"], kind = 0 : i32}> : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @subgraph(%x: tensor<4xf32>) {
  // expected-error@below {{names the subgraph @nobody, which does not exist}}
  fx.node "higher_order.cond"(%x, @nobody) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @results(%x: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error@below {{gives values of other types than the graph's results}}
  fx.output(%x) : (tensor<4xf32>)
}

// -----

fx.graph @signature(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@below {{has a signature of 2 outputs for 1}}
  fx.output(%x) signature [{kind = "user_output"}, {kind = "user_output"}] : (tensor<4xf32>)
}

// -----

fx.graph @functional(%x: tensor<4xf32>) attributes {functional} {
  // expected-error@below {{may write a tensor, in a graph that is marked functional}}
  fx.node "aten.add_.Tensor"(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @functional(%x: tensor<4xf32>) attributes {functional} {
  // expected-error@below {{may write a tensor, in a graph that is marked functional}}
  fx.node "mylib.unknown.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph private @writes(%x: tensor<4xf32>) {
  %y = fx.node "aten.add_.Tensor"(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

fx.graph @functional(%p: tensor<i1>, %x: tensor<4xf32>) attributes {functional} {
  // expected-error@below {{may write a tensor, in a graph that is marked functional}}
  fx.node "higher_order.cond"(%p, @writes, @writes, (%x)) : (tensor<i1>, tensor<4xf32>) -> tuple<>
  fx.output() : ()
}

// -----

fx.graph @call(%x: tensor<4xf32>) {
  // expected-error@below {{calls @nobody, which is no graph of this module}}
  fx.call @nobody(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph private @callee(%x: tensor<8xf32>) -> tensor<8xf32> {
  fx.output(%x) : (tensor<8xf32>)
}
fx.graph @operands(%x: tensor<4xf32>) {
  // expected-error@below {{passes operands of other types than @callee takes}}
  fx.call @callee(%x) : (tensor<4xf32>) -> tensor<8xf32>
  fx.output() : ()
}

// -----

fx.graph private @callee(%x: tensor<8xf32>) -> tensor<8xf32> {
  fx.output(%x) : (tensor<8xf32>)
}
fx.graph @results(%x: tensor<8xf32>) {
  // expected-error@below {{has results of other types than @callee gives}}
  fx.call @callee(%x) : (tensor<8xf32>) -> tensor<4xf32>
  fx.output() : ()
}
