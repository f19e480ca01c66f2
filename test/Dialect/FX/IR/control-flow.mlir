// Nodes with blocks: read, printed, and written as bytecode; their effects are those of the nodes inside.
// RUN: opprof-opt %s | FileCheck %s
// RUN: opprof-opt %s | opprof-opt | FileCheck %s
// RUN: opprof-opt --emit-bytecode %s | opprof-opt | FileCheck %s
// RUN: opprof-opt --cse %s | FileCheck %s --check-prefix=CSE

// CHECK-LABEL: fx.graph @branch
// CHECK: %[[IF:[a-z0-9]+]] = fx.node "prim.If"(%{{.*}}, %{{.*}}) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: block (%[[Y:[a-z0-9]+]]: tensor<4xf32> {{.*}}) {
// CHECK-NEXT: %[[NEG:[a-z0-9]+]] = fx.node "aten.neg.default"(%[[Y]])
// CHECK-NEXT: fx.output(%[[NEG]])
// CHECK-NEXT: }
// CHECK-NEXT: block (%[[Z:[a-z0-9]+]]: tensor<4xf32> {{.*}}) {
// CHECK-NEXT: fx.output(%[[Z]])
// CHECK-NEXT: }
// CHECK-NEXT: fx.output(%[[IF]])
fx.graph @branch(%is: !fx.scalar<"bool">, %x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %0 = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>) {
      %neg = fx.node "aten.neg.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%neg) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  fx.output(%0) : (tensor<4xf32>)
}

// CHECK-LABEL: fx.graph @loop
// CHECK: fx.node "prim.Loop"(%{{[^,]*}}, true, %{{[^,]*}}, 0, %{{[^,]*}}) {{.*}} -> tuple<tensor<4xf32>, !fx.scalar<"int">>
// CHECK-NEXT: block (%{{.*}}: !fx.scalar<"int"> {{.*}}, %{{.*}}: tensor<4xf32> {{.*}}, %{{.*}}: !fx.scalar<"int"> {{.*}}, %{{.*}}: tensor<4xf32> {{.*}}) {
// CHECK: fx.output(true, %{{.*}}, 1)
fx.graph @loop(%n: !fx.scalar<"int">, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %0 = fx.node "prim.Loop"(%n, true, %x, 0, %y) : (!fx.scalar<"int">, tensor<4xf32>, tensor<4xf32>) -> tuple<tensor<4xf32>, !fx.scalar<"int">>
    block (%round: !fx.scalar<"int">, %carried: tensor<4xf32>, %count: !fx.scalar<"int">, %read: tensor<4xf32>) {
      %add = fx.node "aten.add.Tensor"(%carried, %read) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(true, %add, 1) : (tensor<4xf32>)
    }
  fx.output() : ()
}

// Of two equal branches one is enough where nothing in them acts; what is not used goes.
// CSE-LABEL: fx.graph @twice
// CSE-COUNT-1: "prim.If"
// CSE-NOT: "prim.If"
// CSE: fx.output
fx.graph @twice(%is: !fx.scalar<"bool">, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {functional} {
  %0 = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>) {
      %neg = fx.node "aten.neg.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%neg) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  %1 = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>) {
      %neg = fx.node "aten.neg.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%neg) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  %2 = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  fx.output(%0, %1) : (tensor<4xf32>, tensor<4xf32>)
}

// A branch that writes, or draws random numbers, stays.
// CSE-LABEL: fx.graph @acting
// CSE-COUNT-3: "prim.If"
fx.graph @acting(%is: !fx.scalar<"bool">, %x: tensor<4xf32>) {
  %0 = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> !fx.none
    block (%y: tensor<4xf32>) {
      %neg = fx.node "aten.neg_.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output() : ()
    }
    block (%y: tensor<4xf32>) {
      fx.output() : ()
    }
  %1 = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> !fx.none
    block (%y: tensor<4xf32>) {
      %neg = fx.node "aten.neg_.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output() : ()
    }
    block (%y: tensor<4xf32>) {
      fx.output() : ()
    }
  %2 = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
    block (%y: tensor<4xf32>) {
      %rand = fx.node "aten.rand_like.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%rand) : (tensor<4xf32>)
    }
    block (%y: tensor<4xf32>) {
      fx.output(%y) : (tensor<4xf32>)
    }
  fx.output() : ()
}
