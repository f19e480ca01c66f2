// Every op, type and attribute reads back as it was printed, as text and as bytecode.
// RUN: opprof-opt %s | opprof-opt | FileCheck %s
// RUN: opprof-opt --emit-bytecode %s -o %t.mlirbc
// RUN: opprof-opt %t.mlirbc | FileCheck %s
// RUN: opprof-opt --verify-roundtrip %s -o /dev/null
// RUN: opprof-opt --mlir-print-op-generic %s | opprof-opt | FileCheck %s

// CHECK-DAG: #fx.tensor<"cpu", strides = [8, 1], dims = [#fx.sym<"s0">, 8]>
// CHECK-DAG: #fx.tensor<"cuda:0", strides = [1, 4], offset = 3, requires_grad>
// CHECK-DAG: #fx.tensor<"cpu", unknown_strides, layout = "sparse_coo", subclass = "my.Tensor">
// CHECK-DAG: #fx.tensor<"meta", dims = [#fx.sym<"s0 + 1">], offset = #fx.sym<"s1">>

// CHECK-LABEL: fx.graph @types
// CHECK-SAME: !fx.symint<"s0">
// CHECK-SAME: !fx.symfloat<"1.5*s0">
// CHECK-SAME: !fx.symbool<"Eq(s0, 3)">
// CHECK-SAME: !fx.none
// CHECK-SAME: !fx.scalar<"int">
// CHECK-SAME: !fx.list<tuple<tensor<4xf32>, tuple<>>>
// CHECK-SAME: !fx.optional<tensor<4xf32>>
// CHECK-SAME: !fx.object<"torch.Generator">
// CHECK-SAME: tensor<4x!fx.dtype<"quint4x2">>
fx.graph @types(
    %0: !fx.symint<"s0">, %1: !fx.symfloat<"1.5*s0">, %2: !fx.symbool<"Eq(s0, 3)">, %3: !fx.none,
    %4: !fx.scalar<"int">, %5: !fx.list<tuple<tensor<4xf32>, tuple<>>>, %6: !fx.optional<tensor<4xf32>>,
    %7: !fx.object<"torch.Generator">, %8: tensor<4x!fx.dtype<"quint4x2">>,
    %9: tensor<?x8xf32, #fx.tensor<"cpu", strides = [8, 1], dims = [#fx.sym<"s0">, 8]>>,
    %10: tensor<4x8xf32, #fx.tensor<"cuda:0", strides = [1, 4], offset = 3, requires_grad>>,
    %11: tensor<4x4xf32, #fx.tensor<"cpu", unknown_strides, layout = "sparse_coo", subclass = "my.Tensor">>,
    %12: tensor<?xf32, #fx.tensor<"meta", dims = [#fx.sym<"s0 + 1">], offset = #fx.sym<"s1">>>,
    %13: tensor<4xcomplex<f32>>, %14: tensor<4xf8E4M3FN>, %15: tensor<4xui8>) {
  fx.output() : ()
}

// CHECK-LABEL: fx.graph private @"a graph's name" stage "post_grad"
// CHECK-SAME: %{{.*}}: tensor<4xf32> {fx.kind = "parameter", fx.name = "w", fx.persistent = false, fx.target = "h.0.w"}
// CHECK-SAME: -> (tensor<4xf32>, tensor<4xf32>)
// CHECK-SAME: attributes {functional, fx.in_spec = "x"}
fx.graph private @"a graph's name" stage "post_grad" (
    %w: tensor<4xf32> {fx.name = "w", fx.kind = "parameter", fx.target = "h.0.w", fx.persistent = false})
    -> (tensor<4xf32>, tensor<4xf32>) attributes {functional, fx.in_spec = "x"} {
  // CHECK: fx.node "aten.relu.default"(%{{.*}}) {my.mark} : (tensor<4xf32>) -> tensor<4xf32>
  %0 = fx.node "aten.relu.default"(%w) {my.mark} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: fx.output(%{{.*}}, [%{{.*}}, none, 3]) signature [{kind = "buffer_mutation", target = "b"}, {kind = "user_output"}]
  fx.output(%0, [%w, none, 3]) signature [{kind = "buffer_mutation", target = "b"}, {kind = "user_output"}] : (tensor<4xf32>, tensor<4xf32>)
}

// CHECK-LABEL: fx.graph @arguments
fx.graph @arguments(%x: tensor<4xf32>) {
  // CHECK: fx.node "t.forms"(none, true, false, "text", -5, 1.500000e+00, [], [%{{.*}}, [1]], (), (%{{.*}}, none),
  // CHECK-SAME: dict("k" = %{{.*}}, 3 = (1)), dict(), slice(none, %{{.*}}, 2), #fx.ellipsis, 0x7FF0000000000000 : f64,
  // CHECK-SAME: #fx.int<"36893488147419103232">, #fx.complex<1.000000e+00 : f64, -2.000000e+00 : f64>, #fx.dtype<"bfloat16">,
  // CHECK-SAME: #fx.device<"cuda:0">, #fx.layout<"strided">, #fx.memory_format<"channels_last">, #fx.sym<"s0 + 1">, @arguments,
  // CHECK-SAME: #fx.op<"aten.add.Tensor">, #fx.object<"torch.Generator", "<Generator>">, alpha = 2, in = %{{.*}})
  %all = fx.node "t.forms"(none, true, false, "text", -5, 1.5, [], [%x, [1]], (), (%x, none),
      dict("k" = %x, 3 = (1)), dict(), slice(none, %x, 2), #fx.ellipsis, 0x7FF0000000000000 : f64,
      #fx.int<"36893488147419103232">, #fx.complex<1.0 : f64, -2.0 : f64>, #fx.dtype<"bfloat16">,
      #fx.device<"cuda:0">, #fx.layout<"strided">, #fx.memory_format<"channels_last">, #fx.sym<"s0 + 1">, @arguments,
      #fx.op<"aten.add.Tensor">, #fx.object<"torch.Generator", "<Generator>">, alpha = 2, in = %x)
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> !fx.none
  // CHECK: fx.node call_method "relu"(%{{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
  %method = fx.node call_method "relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: fx.node call_module "fc"(%{{.*}})
  %module = fx.node call_module "fc"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: fx.node get_attr "fc.weight"() : () -> tensor<4xf32>
  %attribute = fx.node get_attr "fc.weight"() : () -> tensor<4xf32>
  fx.output() : ()
}

// CHECK-LABEL: fx.graph @caller
fx.graph @caller(%x: tensor<4xf32>) {
  // CHECK: %{{.*}}:2 = fx.call @"a graph's name"(%{{.*}}) {my.mark} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %0:2 = fx.call @"a graph's name"(%x) {my.mark} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  fx.output() : ()
}

// Names, modules and source lines.
// CHECK-LABEL: fx.graph @locations
fx.graph @locations(%x: tensor<4xf32>) {
  // CHECK: %relu_7 = fx.node
  %0 = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      loc("relu_7"(fused<{modules = [["h.0", "Block"]], seq_nr = 3}>["model.py":3:0, callsite("f"("x.py":1:0) at "g"("model.py":3:0))]))
  fx.output() : ()
}
// CHECK: fused<{modules = {{\[}}["h.0", "Block"]], seq_nr = 3 : i64}>
