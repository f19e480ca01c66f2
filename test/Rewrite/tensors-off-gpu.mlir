// RUN: rm -rf %t && split-file %s %t
// RUN: opprof-opt --recommend-rewrites="dir=%t/number device=H200" %t/number.mlir -o /dev/null && FileCheck %s --check-prefix=NUMBER < %t/number/rewrites.json
// RUN: opprof-opt --recommend-rewrites="dir=%t/given device=H200" %t/given.mlir -o /dev/null && FileCheck %s --check-prefix=GIVEN < %t/given/rewrites.json
// RUN: opprof-opt --recommend-rewrites="dir=%t/several device=H200" %t/several.mlir -o /dev/null && FileCheck %s --check-prefix=SEVERAL < %t/several/rewrites.json

// RUN: opprof-opt --recommend-rewrites="dir=%t/unused device=H200" %t/unused.mlir -o /dev/null && FileCheck %s --check-prefix=NUMBER < %t/unused/rewrites.json

// Verify that a number of the graph's own, which torch.export writes as a tensor of the CPU (`mask[a:b] = 1`), hinders no CUDA graph, nor
// does an input that nothing takes, and that a caller's and one of several elements do.

// NUMBER: "name": "cuda-graph"
// NUMBER-NOT: not on the GPU

//--- number.mlir
!x = tensor<8xf32, #fx.tensor<"cuda:0">>
!n = tensor<f32, #fx.tensor<"cpu">>
fx.graph @number(%x: !x, %n: !n {fx.kind = "constant_tensor"}) -> !x {
  %0 = fx.node "aten.lift_fresh_copy.default"(%n) : (!n) -> !n
  %1 = fx.node "aten.mul.Tensor"(%x, %0) : (!x, !n) -> !x
  fx.output(%1) : (!x)
}

//--- unused.mlir
!x = tensor<8xf32, #fx.tensor<"cuda:0">>
!n = tensor<8xf32, #fx.tensor<"cpu">>
fx.graph @unused(%x: !x, %n: !n) -> !x {
  %0 = fx.node "aten.relu.default"(%x) : (!x) -> !x
  fx.output(%0) : (!x)
}

//--- given.mlir
// GIVEN-NOT: "name": "cuda-graph"
// GIVEN: "rule": "cuda-graph"
// GIVEN-NEXT: "reason": "a tensor is not on the GPU"
!x = tensor<8xf32, #fx.tensor<"cuda:0">>
!n = tensor<f32, #fx.tensor<"cpu">>
fx.graph @given(%x: !x, %n: !n) -> !x {
  %mul = fx.node "aten.mul.Tensor"(%x, %n) : (!x, !n) -> !x
  fx.output(%mul) : (!x)
}

//--- several.mlir
// SEVERAL-NOT: "name": "cuda-graph"
// SEVERAL: "rule": "cuda-graph"
// SEVERAL-NEXT: "reason": "a tensor is not on the GPU"
!x = tensor<8xf32, #fx.tensor<"cuda:0">>
!n = tensor<8xf32, #fx.tensor<"cpu">>
fx.graph @several(%x: !x, %n: !n {fx.kind = "constant_tensor"}) -> !x {
  %copy = fx.node "aten._to_copy.default"(%n) {arguments = [0 : i64]} : (!n) -> !x
  %mul = fx.node "aten.mul.Tensor"(%x, %copy) : (!x, !x) -> !x
  fx.output(%mul) : (!x)
}
