// What a graph launches that runs node by node: each operator for itself. A
// view is there for the kernels of its gradient.

// RUN: mkdir -p %t
// RUN: opprof-translate --export-operator-launches %s -o %t/operators.json
// RUN: FileCheck %s --input-file %t/operators.json
// RUN: %python %opprof_src_root/test/docs/check_schema.py %opprof_src_root/docs/formats/launches.schema.json %t/operators.json | FileCheck %s --check-prefix=SCHEMA

// SCHEMA: 0 failed

// CHECK: "launches": [
// CHECK: "kernel": "aten.transpose.int",
// CHECK-NEXT: "kind": "view",
// CHECK: "argument_sizes": [
// CHECK-NEXT: [
// CHECK-NEXT: 2,
// CHECK-NEXT: 3
// CHECK: "kernel": "aten.reshape.default",
// CHECK-NEXT: "kind": "fallback",
// CHECK: "kernel": "aten.relu.default",
// CHECK-NEXT: "kind": "fallback",
#cpu = #fx.tensor<"cpu">
#cpu1 = #fx.tensor<"cpu", strides = [1, 3]>
fx.graph @m stage "export" (%x: tensor<2x3xf32, #cpu> {fx.kind = "user_input"}) -> (tensor<6xf32, #cpu>) {
  %transpose = fx.node "aten.transpose.int"(%x, 0, 1) : (tensor<2x3xf32, #cpu>) -> tensor<3x2xf32, #cpu1>
  %reshape = fx.node "aten.reshape.default"(%transpose, [-1]) : (tensor<3x2xf32, #cpu1>) -> tensor<6xf32, #cpu>
  %relu = fx.node "aten.relu.default"(%reshape) : (tensor<6xf32, #cpu>) -> tensor<6xf32, #cpu>
  fx.output(%relu) : (tensor<6xf32, #cpu>)
}
