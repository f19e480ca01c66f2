// RUN: opprof-translate --export-fx-json %s -o %t.json
// RUN: FileCheck %s < %t.json
// RUN: opprof-translate --import-fx-json %t.json -o %t.mlir
// RUN: FileCheck %s --check-prefix=READ < %t.mlir
// RUN: opprof-translate --export-fx-json %t.mlir | diff %t.json -

// A call of a partition is written as FX's own operator for a shared subgraph.

// CHECK: {"name":"h.0_call","op":"call_function","target":"higher_order.invoke_subgraph","args":[{"graph":"pair"},"pair",{"node":"x"}],"kwargs":{},"type":[[TUPLE:[0-9]+]]}
// CHECK-NEXT: {"name":"pair","op":"call_function","target":"operator.getitem","args":[{"node":"h.0_call"},0],"kwargs":{},"type":0}
// CHECK-NEXT: {"name":"pair_1","op":"call_function","target":"operator.getitem","args":[{"node":"h.0_call"},1],"kwargs":{},"type":0}
// CHECK-NEXT: {"name":"h.1_call","op":"call_function","target":"higher_order.invoke_subgraph","args":[{"graph":"pair"},"pair",{"node":"pair_1"}],"kwargs":{},"type":[[TUPLE]]}

// READ: fx.graph @model
// READ: fx.node "higher_order.invoke_subgraph"(@pair, "pair", %x) : (tensor<4xf32, #{{.*}}>) -> tuple<
// READ: fx.graph private @pair

fx.graph @model(%x: tensor<4xf32> {fx.name = "x"}) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = fx.call @pair(%x) {prof.partition = #prof.partition<"h.0", unique>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc("h.0")
  %1:2 = fx.call @pair(%0#1) {prof.partition = #prof.partition<"h.1", duplicate>} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) loc("h.1")
  fx.output(%0#0, %1#0) : (tensor<4xf32>, tensor<4xf32>)
}
fx.graph private @pair(%x: tensor<4xf32> {fx.name = "x"}) -> (tensor<4xf32>, tensor<4xf32>) {
  %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("neg")
  %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("relu")
  fx.output(%neg, %relu) : (tensor<4xf32>, tensor<4xf32>)
}
