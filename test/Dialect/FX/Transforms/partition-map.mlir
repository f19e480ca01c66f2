// Verify that the partition map has a map for each graph, of which every node is of that graph, and that ids depend on nothing
// but the module that the pass runs on.

// RUN: opprof-opt %s --pass-pipeline='builtin.module(builtin.module(dedup-partitions{min-nodes=2}))' -o %t.threads 2> %t.remarks
// RUN: opprof-opt %s --pass-pipeline='builtin.module(builtin.module(dedup-partitions{min-nodes=2}))' --mlir-disable-threading -o %t.none 2> %t.remarks
// RUN: diff %t.threads %t.none
// RUN: FileCheck %s --input-file=%t.none

// RUN: rm -f %t.json && opprof-opt %s --dedup-partitions=min-nodes=2 --partition-map=%t.json -o /dev/null
// RUN: FileCheck %s --check-prefix=MAP --input-file=%t.json
// RUN: rm -f %t.json && opprof-opt %s --pass-pipeline='builtin.module(dedup-partitions{min-nodes=2 partition-map=%t.json})' -o /dev/null
// RUN: FileCheck %s --check-prefix=MAP --input-file=%t.json

// Verify that maps of modules side by side do not overwrite one another, and that modules in a module are not passed over in
// silence.
// RUN: rm -f %t.json && not opprof-opt %s --pass-pipeline='builtin.module(builtin.module(dedup-partitions{partition-map=%t.json}))' 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: not ls %t.json
// NESTED: error: a partition map is of the outermost module: those of modules in it would overwrite one another
// RUN: echo 'module { module { fx.graph @g(%x: tensor<4xf32>) -> tensor<4xf32> { fx.output(%x) : (tensor<4xf32>) } } }' | opprof-opt --dedup-partitions 2>&1 | FileCheck %s --check-prefix=MODULES
// MODULES: warning: no fx.graph is here, only modules that may hold some: run --pass-pipeline='builtin.module(builtin.module(dedup-partitions))'

// CHECK-LABEL: module @a
// CHECK: #prof.partition<"c0.0", unique>
// CHECK-LABEL: module @b
// CHECK: #prof.partition<"c0.0", unique>

// MAP: [
// MAP-NEXT: {
// MAP-NEXT: "version": 1,
// MAP-NEXT: "graph": "model",
// MAP-NEXT: "stage": "export",
// MAP-NEXT: "node_count": 4,
// MAP: "id": "c0",
// MAP: "nodes": [
// MAP-NEXT: "neg",
// MAP-NEXT: "relu"
// MAP: "graph": "other",
// MAP-NEXT: "stage": "joint",
// MAP-NEXT: "node_count": 4,
// MAP: "id": "c1",
// MAP: "nodes": [
// MAP-NEXT: "neg",
// MAP-NEXT: "relu"
// MAP: ]
module {
fx.graph @model stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %relu = fx.node "aten.relu.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
  %neg_1 = fx.node "aten.neg.default"(%relu) : (tensor<4xf32>) -> tensor<4xf32>
  %relu_1 = fx.node "aten.relu.default"(%neg_1) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%relu_1) : (tensor<4xf32>)
}
fx.graph @other stage "joint" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %relu = fx.node "aten.relu.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
  %neg_1 = fx.node "aten.neg.default"(%relu) : (tensor<4xf32>) -> tensor<4xf32>
  %relu_1 = fx.node "aten.relu.default"(%neg_1) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%relu_1) : (tensor<4xf32>)
}
module @a {
  fx.graph @model stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
    %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %relu = fx.node "aten.relu.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
    %neg_1 = fx.node "aten.neg.default"(%relu) : (tensor<4xf32>) -> tensor<4xf32>
    %relu_1 = fx.node "aten.relu.default"(%neg_1) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%relu_1) : (tensor<4xf32>)
  }
}
module @b {
  fx.graph @model stage "export" (%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
    %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %relu = fx.node "aten.relu.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
    %neg_1 = fx.node "aten.neg.default"(%relu) : (tensor<4xf32>) -> tensor<4xf32>
    %relu_1 = fx.node "aten.relu.default"(%neg_1) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%relu_1) : (tensor<4xf32>)
  }
}
}
