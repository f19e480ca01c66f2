// Verify that repeats become calls of one graph, with labels from module paths and a partition map.

// RUN: rm -rf %t && mkdir %t
// RUN: opprof-opt %s --dedup-partitions=min-nodes=2 --partition-map=%t/p.json --mlir-print-debuginfo=false -o %t/out.mlir 2> %t/remarks
// RUN: FileCheck %s < %t/out.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t/remarks
// RUN: FileCheck %s --check-prefix=MAP < %t/p.json

// A call's and a map's order is that of the graph; the layers' last values go on to the next layer.
// REMARK: remark: @model, 7 nodes: 3 partitions in 1 class, 4 nodes saved
// REMARK: m.py:1:0: note: c0 @Layer, 2 nodes: layers.0 … layers.2: 1 unique, 2 duplicates

// CHECK-LABEL: fx.graph @model stage "export"
// CHECK-SAME: attributes {functional}
// CHECK-NEXT: %[[PRE:.*]] = fx.node "aten.abs.default"(%x)
// CHECK-NEXT: %[[A:.*]] = fx.call @Layer(%[[PRE]], %w0) {prof.partition = #prof.partition<"layers.0", unique>}
// CHECK-NEXT: %[[B:.*]] = fx.call @Layer(%[[A]], %w1) {prof.partition = #prof.partition<"layers.1", duplicate>}
// CHECK-NEXT: %[[C:.*]] = fx.call @Layer(%[[B]], %w2) {prof.partition = #prof.partition<"layers.2", duplicate>}
// CHECK-NEXT: fx.output(%[[C]])
// CHECK-LABEL: fx.graph private @Layer(
// CHECK-SAME: %[[IN:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>) -> tensor<4xf32> attributes {functional}
// CHECK-NEXT: %[[MUL:.*]] = fx.node "aten.mul.Tensor"(%[[IN]], %[[W]])
// CHECK-NEXT: %[[ADD:.*]] = fx.node "aten.add.Tensor"(%[[IN]], %[[MUL]])
// CHECK-NEXT: fx.output(%[[ADD]])

// MAP: "version": 1
// MAP-NEXT: "graph": "model"
// MAP-NEXT: "stage": "export"
// MAP-NEXT: "node_count": 7
// MAP: "id": "c0"
// MAP-NEXT: "hash": "{{[0-9a-f]+}}"
// MAP-NEXT: "parent": null
// MAP-NEXT: "node_count": 2
// MAP: "label": "layers.0"
// MAP-NEXT: "role": "unique"
// MAP-NEXT: "modules": [
// MAP-NEXT: "layers.0"
// MAP: "nodes": [
// MAP-NEXT: "mul"
// MAP-NEXT: "add"
// MAP: "label": "layers.1"
// MAP-NEXT: "role": "duplicate"
// MAP: "nodes": [
// MAP-NEXT: "mul_1"
// MAP-NEXT: "add_1"
// MAP: "label": "layers.2"
fx.graph @model stage "export" (%x: tensor<4xf32> {fx.name = "x"}, %w0: tensor<4xf32> {fx.name = "w0"},
    %w1: tensor<4xf32> {fx.name = "w1"}, %w2: tensor<4xf32> {fx.name = "w2"}) -> tensor<4xf32> attributes {functional} {
  %abs = fx.node "aten.abs.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("abs")
  %mul = fx.node "aten.mul.Tensor"(%abs, %w0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("mul"(fused<{modules = [["", "Model"], ["layers.0", "models.Layer"]]}>["m.py":1:0]))
  %add = fx.node "aten.add.Tensor"(%abs, %mul) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add"(fused<{modules = [["", "Model"], ["layers.0", "models.Layer"]]}>["m.py":2:0]))
  %mul_1 = fx.node "aten.mul.Tensor"(%add, %w1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("mul_1"(fused<{modules = [["", "Model"], ["layers.1", "models.Layer"]]}>["m.py":1:0]))
  %add_1 = fx.node "aten.add.Tensor"(%add, %mul_1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add_1"(fused<{modules = [["", "Model"], ["layers.1", "models.Layer"]]}>["m.py":2:0]))
  %mul_2 = fx.node "aten.mul.Tensor"(%add_1, %w2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("mul_2"(fused<{modules = [["", "Model"], ["layers.2", "models.Layer"]]}>["m.py":1:0]))
  %add_2 = fx.node "aten.add.Tensor"(%add_1, %mul_2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add_2"(fused<{modules = [["", "Model"], ["layers.2", "models.Layer"]]}>["m.py":2:0]))
  fx.output(%add_2) : (tensor<4xf32>)
}
