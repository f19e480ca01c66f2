// What nodes with blocks have to be.
// RUN: opprof-opt --split-input-file --verify-diagnostics %s

fx.graph @other(%x: tensor<4xf32>) {
  // expected-error@below {{holds blocks: only prim.If and prim.Loop do}}
  %0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>) { fx.output(%y) : (tensor<4xf32>) }
  fx.output() : ()
}

// -----

fx.graph @one_block(%is: !fx.scalar<"bool">) {
  // expected-error@below {{takes a truth value, and has two blocks}}
  %0 = fx.node "prim.If"(%is) : (!fx.scalar<"bool">) -> !fx.none
    block () { fx.output() : () }
  fx.output() : ()
}

// -----

fx.graph @none(%is: !fx.scalar<"bool">) {
  // expected-error@below {{takes a truth value, and has two blocks}}
  %0 = fx.node "prim.If"(%is) : (!fx.scalar<"bool">) -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @from_outside(%is: !fx.scalar<"bool">, %x: tensor<4xf32>) {
  // expected-note@below {{required by region isolation constraints}}
  %0 = fx.node "prim.If"(%is) : (!fx.scalar<"bool">) -> !fx.none
    block () {
      // expected-error@below {{using value defined outside the region}}
      %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output() : ()
    }
    block () { fx.output() : () }
  fx.output() : ()
}

// -----

fx.graph @count(%is: !fx.scalar<"bool">, %x: tensor<4xf32>) {
  // expected-error@below {{passes 1 values that its block reads, and the block takes 0}}
  %0 = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> !fx.none
    block () { fx.output() : () }
    block () { fx.output() : () }
  fx.output() : ()
}

// -----

fx.graph @type(%is: !fx.scalar<"bool">, %x: tensor<4xf32>) {
  // expected-error@below {{passes a value of type 'tensor<4xf32>' where its block takes 'tensor<8xf32>'}}
  %0 = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> !fx.none
    block (%y: tensor<8xf32>) { fx.output() : () }
    block (%y: tensor<4xf32>) { fx.output() : () }
  fx.output() : ()
}

// -----

fx.graph @unequal(%is: !fx.scalar<"bool">) {
  // expected-error@below {{has a block that gives 1 values, and one that gives 0}}
  %0 = fx.node "prim.If"(%is) : (!fx.scalar<"bool">) -> !fx.scalar<"int">
    block () { fx.output(1) : () }
    block () { fx.output() : () }
  fx.output() : ()
}

// -----

fx.graph @result(%is: !fx.scalar<"bool">) {
  // expected-error@below {{has the result type '!fx.none', but its blocks give 2 values}}
  %0 = fx.node "prim.If"(%is) : (!fx.scalar<"bool">) -> !fx.none
    block () { fx.output(1, 2) : () }
    block () { fx.output(3, 4) : () }
  fx.output() : ()
}

// -----

fx.graph @carried(%n: !fx.scalar<"int">, %x: tensor<4xf32>) {
  // expected-error@below {{takes a number of rounds, a truth value and what is carried}}
  %0 = fx.node "prim.Loop"(%n, true) : (!fx.scalar<"int">) -> tensor<4xf32>
    block (%round: !fx.scalar<"int">, %y: tensor<4xf32>) { fx.output(true, %y) : (tensor<4xf32>) }
  fx.output() : ()
}

// -----

fx.graph @no_output(%is: !fx.scalar<"bool">) {
  %0 = fx.node "prim.If"(%is) : (!fx.scalar<"bool">) -> !fx.none
    // expected-error@below {{block with no terminator}}
    block () { %1 = fx.node "aten.rand.default"([2]) : () -> tensor<2xf32> }
    block () { fx.output() : () }
  fx.output() : ()
}
