// RUN: rm -rf %t && opprof-opt --recommend-rewrites="dir=%t device=H200 error-budget=1e-2 training=true" %s -o /dev/null && FileCheck %s < %t/rewrites.json
// RUN: cat %t/*.mlir | FileCheck %s --check-prefix=SCRIPT

// A step of training is offered what leaves gradients right, and the index says why the rest is not.
// CHECK-NOT: "name": "{{freeze|float16|bfloat16|cuda-graph|merge-gemms}}"
// CHECK: "name": "tf32"
// CHECK-NOT: "name": "{{freeze|float16|bfloat16|cuda-graph|merge-gemms}}"
// CHECK: "declined": [
// CHECK-DAG: "reason": "makes something of weights once, and they change in every step of training"
// CHECK-DAG: "reason": "captures the forward pass, whose gradients are needed"

// SCRIPT: transform.fx.region_strategy {{.*}} {tf32, training}

!x = tensor<4096x4096xf32, #fx.tensor<"cuda:0">>
fx.graph @step(%x: !x, %a: !x {fx.kind = "parameter"}, %b: !x {fx.kind = "parameter"}) -> !x {
  %0 = fx.node "aten.linear.default"(%x, %a) : (!x, !x) -> !x
  %1 = fx.node "aten.linear.default"(%x, %b) : (!x, !x) -> !x
  %2 = fx.node "aten.mul.Tensor"(%0, %1) : (!x, !x) -> !x
  fx.output(%2) : (!x)
}
