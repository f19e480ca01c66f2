// RUN: rm -rf %t && opprof-opt --recommend-rewrites="dir=%t device=H200" %s -o /dev/null && FileCheck %s < %t/rewrites.json

// Verify that normalizations that are spelled out are declined with their places and what they cost, and nothing that only looks like
// one: a root of what is no mean of squares, of a power of three, of the sum of two tensors, or of weights alone, and
// one that nothing is multiplied or divided by.
// CHECK-NOT: "name": "form-norm"
// CHECK: "rule": "form-norm"
// CHECK-NEXT: "reason": "Inductor usually makes one kernel of it, {{.*}}; by the model all of them take 11.7 µs of a step{{.*}}"
// CHECK-NEXT: "node": "rms"
// CHECK: "count": 3
// CHECK-NOT: "rule": "form-norm"

!x = tensor<4096x512xf32, #fx.tensor<"cuda:0">>
!r = tensor<4096x1xf32, #fx.tensor<"cuda:0">>
fx.graph @model(%x: !x, %w: !x {fx.kind = "parameter"}) -> (!x, !x, !x, !x, !x, !x, !x, !r) {
  // Llama's.
  %0 = fx.node "aten.pow.Tensor_Scalar"(%x, 2) : (!x) -> !x
  %1 = fx.node "aten.mean.dim"(%0, [-1], true) : (!x) -> !r
  %2 = fx.node "aten.add.Tensor"(%1, 1.0e-6) : (!r) -> !r
  %3 = fx.node "aten.rsqrt.default"(%2) : (!r) -> !r loc("rms")
  %4 = fx.node "aten.mul.Tensor"(%x, %3) : (!x, !r) -> !x
  // By the variance, and a division.
  %5 = fx.node "aten.var.correction"(%x, [-1], correction = 0, keepdim = true) : (!x) -> !r
  %6 = fx.node "aten.add.Tensor"(%5, 1.0e-6) : (!r) -> !r
  %7 = fx.node "aten.sqrt.default"(%6) : (!r) -> !r
  %8 = fx.node "aten.div.Tensor"(%x, %7) : (!x, !r) -> !x
  // By a product, a cast and a power.
  %9 = fx.node "aten.mul.Tensor"(%x, %x) : (!x, !x) -> !x
  %10 = fx.node "aten.mean.dim"(%9, [-1], true) : (!x) -> !r
  %11 = fx.node "aten.to.dtype"(%10, #fx.dtype<"float32">) : (!r) -> !r
  %12 = fx.node "aten.pow.Tensor_Scalar"(%11, -0.5) : (!r) -> !r
  %13 = fx.node "aten.mul.Tensor"(%x, %12) : (!x, !r) -> !x
  // None of these.
  %14 = fx.node "aten.mean.dim"(%x, [-1], true) : (!x) -> !r
  %15 = fx.node "aten.rsqrt.default"(%14) : (!r) -> !r
  %16 = fx.node "aten.pow.Tensor_Scalar"(%x, 3) : (!x) -> !x
  %17 = fx.node "aten.mean.dim"(%16, [-1], true) : (!x) -> !r
  %18 = fx.node "aten.rsqrt.default"(%17) : (!r) -> !r
  %19 = fx.node "aten.add.Tensor"(%1, %15) : (!r, !r) -> !r
  %20 = fx.node "aten.rsqrt.default"(%19) : (!r) -> !r
  %21 = fx.node "aten.pow.Tensor_Scalar"(%w, 2) : (!x) -> !x
  %22 = fx.node "aten.mean.dim"(%21, [-1], true) : (!x) -> !r
  %23 = fx.node "aten.rsqrt.default"(%22) : (!r) -> !r
  %24 = fx.node "aten.mul.Tensor"(%x, %15) : (!x, !r) -> !x
  %25 = fx.node "aten.mul.Tensor"(%x, %18) : (!x, !r) -> !x
  %26 = fx.node "aten.mul.Tensor"(%x, %20) : (!x, !r) -> !x
  %27 = fx.node "aten.mul.Tensor"(%x, %23) : (!x, !r) -> !x
  // An error, which is the result.
  %28 = fx.node "aten.sqrt.default"(%1) : (!r) -> !r
  fx.output(%4, %8, %13, %24, %25, %26, %27, %28) : (!x, !x, !x, !x, !x, !x, !x, !r)
}
