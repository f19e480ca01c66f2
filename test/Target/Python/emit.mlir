// Every form of node and argument as Python.
// RUN: opprof-translate --emit-python %s | FileCheck %s --match-full-lines --strict-whitespace --check-prefix=FUNCTION
// RUN: opprof-translate --emit-python %s | FileCheck %s
// RUN: opprof-translate --emit-python --regions %s | FileCheck %s --check-prefix=REGIONS
// RUN: opprof-translate --emit-python %s | %python -m py_compile /dev/stdin

// CHECK: """main (export): a program that opprof wrote from the graph of that name.
// CHECK: _range_push, _range_pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
// CHECK: INPUTS = (
// CHECK-NEXT: ("parameter", "fc.weight"),
// CHECK-NEXT: ("buffer", "mask"),
// CHECK-NEXT: ("user_input", None),
// CHECK-NEXT: ("user_input", None),
// CHECK: FORMS = {
// CHECK-NEXT: 2: ("in", ("tensor", torch.float32, (None,8,))),
// CHECK-NEXT: }
// CHECK: PLACES = {
// CHECK-NEXT: "state": ("cuda:0", (1, 2,)),
// CHECK-NEXT: }
// CHECK: OUTPUTS = (
// CHECK-NEXT: ("buffer_mutation", "mask"),
// CHECK-NEXT: ("user_input_mutation", 2),
// CHECK-NEXT: ("user_output", None),
// CHECK: IN_SPEC = None
// CHECK: ATTRIBUTES = ("fc","then branch.scale",)
// CHECK: def _run(inputs, attributes):
// CHECK-NEXT: results = main(attributes, *inputs)
// CHECK-NEXT: return results
// CHECK: class Program:
// CHECK: def load(weights, module=None):

// A partition comes before its caller; with --regions it is one.
// FUNCTION:def partition(
// FUNCTION-NEXT:    a,  # f32[8]
// FUNCTION-NEXT:    b,  # f32[8]
// FUNCTION-NEXT:):
// FUNCTION-NEXT:    mul: "f32[8]" = torch.ops.aten.mul.Tensor(a, b)
// FUNCTION-NEXT:    neg: "f32[8]" = torch.ops.aten.neg.default(mul)
// FUNCTION-NEXT:    del mul
// FUNCTION-NEXT:    return (neg,)
// REGIONS: @torch.compiler.nested_compile_region
// REGIONS-NEXT: def partition(
// REGIONS-NOT: nested_compile_region
fx.graph private @partition(%a: tensor<8xf32> {fx.name = "a"}, %b: tensor<8xf32> {fx.name = "b"}) -> tensor<8xf32> {
  %mul = fx.node "aten.mul.Tensor"(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %neg = fx.node "aten.neg.default"(%mul) : (tensor<8xf32>) -> tensor<8xf32>
  fx.output(%neg) : (tensor<8xf32>)
}

// FUNCTION:def then_branch(
// FUNCTION-NEXT:    attributes,
// FUNCTION-NEXT:    a,  # f32[8]
// FUNCTION-NEXT:):
// FUNCTION-NEXT:    scale: "f32[8]" = attributes["then branch.scale"]
// FUNCTION-NEXT:    mul: "f32[8]" = torch.ops.aten.mul.Tensor(a, scale)
// FUNCTION-NEXT:    del scale
// FUNCTION-NEXT:    return (mul,)
fx.graph private @"then branch"(%a: tensor<8xf32> {fx.name = "a"}) -> tensor<8xf32> {
  %scale = fx.node get_attr "scale"() : () -> tensor<8xf32>
  %mul = fx.node "aten.mul.Tensor"(%a, %scale) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fx.output(%mul) : (tensor<8xf32>)
}

// FUNCTION:def main(
// FUNCTION-NEXT:    attributes,
// FUNCTION-NEXT:    weight,  # f32[8] parameter fc.weight
// FUNCTION-NEXT:    mask,  # f32[8] buffer mask
// FUNCTION-NEXT:    in_,  # f32[s0, 8]
// FUNCTION-NEXT:    torch_1,
// FUNCTION-NEXT:    state,  # f32[2, 2] buffer state
// FUNCTION-NEXT:):
// FUNCTION-NEXT:    s0 = in_.size(0)
// FUNCTION-NEXT:    # h.0.mlp (unique)  model.py:42: y = self.partition(x)
// FUNCTION-NEXT:    (first,) = partition(weight, mask)
// FUNCTION-NEXT:    partition(first, mask)
fx.graph @main stage "export" (
    %weight: tensor<8xf32> {fx.name = "weight", fx.kind = "parameter", fx.target = "fc.weight"},
    %mask: tensor<8xf32> {fx.name = "mask", fx.kind = "buffer", fx.target = "mask"},
    %x: tensor<?x8xf32, #fx.tensor<"cpu", strides = [8, 1], dims = [#fx.sym<"s0">, 8]>> {fx.name = "in"},
    %n: !fx.symint<"s1"> {fx.name = "torch"},
    %state: tensor<2x2xf32, #fx.tensor<"cuda:0", strides = [1, 2]>> {fx.name = "state", fx.kind = "buffer", fx.target = "state"}) -> (tensor<8xf32>, tensor<?x8xf32, #fx.tensor<"cpu", strides = [8, 1], dims = [#fx.sym<"s0">, 8]>>, tensor<8xf32>) {
  %first = fx.call @partition(%weight, %mask) {prof.partition = #prof.partition<"h.0.mlp", unique>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      loc("first"(fused<{code = "y = self.partition(x)", modules = [["", "model.Net"], ["h.0.mlp", "model.MLP"]]}>["model.py":42:0]))
  fx.call @partition(%first, %mask) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // FUNCTION-NEXT:    all_forms = torch.ops.aten.einsum.default(None, True, False, "a\"\\\n\u00e9\u202e", -5, 1.0, 1e-05, -0.0, float("inf"), float("-inf"), float("nan"), [], [1, [first]], (), (first,), (first, None))
  %all = fx.node "aten.einsum.default"(none, true, false, "a\22\\\n\C3\A9\E2\80\AE", -5, 1.0, 1.0e-05, -0.0, 0x7FF0000000000000 : f64, 0xFFF0000000000000 : f64, 0x7FF8000000000000 : f64, [], [1, [%first]], (), (%first), (%first, none)) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> !fx.none loc("all_forms")
  // FUNCTION-NEXT:    more = torch.ops.aten.einsum.default({"k": all_forms, 3: (1,)}, slice(None, 2, None), ..., 36893488147419103232, complex(1.0, float("inf")), torch.bfloat16, torch.device("cuda:0"), torch.strided, torch.channels_last, max(1, s0 + 1), torch.ops.aten.add.Tensor, alpha=2, **{"from": 1})
  %more = fx.node "aten.einsum.default"(dict("k" = %all, 3 = (1)), slice(none, 2, none), #fx.ellipsis, #fx.int<"36893488147419103232">, #fx.complex<1.0 : f64, 0x7FF0000000000000 : f64>, #fx.dtype<"bfloat16">, #fx.device<"cuda:0">, #fx.layout<"strided">, #fx.memory_format<"channels_last">, #fx.sym<"Max(1, s0 + 1)">, #fx.op<"aten.add.Tensor">, alpha = 2, from = 1) : (!fx.none) -> !fx.none loc("more")
  // FUNCTION-NEXT:    del all_forms
  // FUNCTION-NEXT:    index = more[:, 1:first, ::2, None, ..., -1]
  %index = fx.node "operator.getitem"(%more, (slice(none, none, none), slice(1, %first, none), slice(none, none, 2), none, #fx.ellipsis, -1)) : (!fx.none, tensor<8xf32>) -> !fx.none loc("index")
  // FUNCTION-NEXT:    del more
  // FUNCTION-NEXT:    index[0] = torch_1
  fx.node "operator.setitem"(%index, 0, %n) : (!fx.none, !fx.symint<"s1">) -> !fx.none
  // FUNCTION-NEXT:    getitem = index[(0, 1),]
  %getitem = fx.node "operator.getitem"(%index, ((0, 1))) : (!fx.none) -> !fx.none
  // FUNCTION-NEXT:    del index
  // FUNCTION-NEXT:    getitem.shape
  %shape = fx.node "getattr"(%getitem, "shape") : (!fx.none) -> !fx.none loc("shape")
  // FUNCTION-NEXT:    add = torch_1 + 1
  %add = fx.node "operator.add"(%n, 1) : (!fx.symint<"s1">) -> !fx.symint<"s1 + 1">
  // FUNCTION-NEXT:    neg = operator.neg(add)
  %neg = fx.node "operator.neg"(%add) : (!fx.symint<"s1 + 1">) -> !fx.symint<"-s1 - 1">
  // FUNCTION-NEXT:    del add
  // FUNCTION-NEXT:    view = getitem.view(neg, 1)
  %view = fx.node call_method "view"(%getitem, %neg, 1) : (!fx.none, !fx.symint<"-s1 - 1">) -> !fx.none
  // FUNCTION-NEXT:    del getitem, neg
  // FUNCTION-NEXT:    fc = attributes["fc"](view)
  %fc = fx.node call_module "fc"(%view) : (!fx.none) -> !fx.none
  // FUNCTION-NEXT:    del view
  // FUNCTION-NEXT:    getattr(torch.ops.aten.random, "from")(fc, 1)
  fx.node "aten.random.from"(%fc, 1) : (!fx.none) -> !fx.none
  // FUNCTION-NEXT:    torch.ops.higher_order.cond(fc, functools.partial(then_branch, attributes), partition, (first, first))
  %cond = fx.node "higher_order.cond"(%fc, @"then branch", @partition, (%first, %first)) : (!fx.none, tensor<8xf32>, tensor<8xf32>) -> tuple<tensor<8xf32>> loc("cond")
  // FUNCTION-NEXT:    del fc
  // FUNCTION-NEXT:    _range_push("layer::unique::h.0")
  prof.range_push "layer::unique::h.0"
  // FUNCTION-NEXT:    sqrt = math.sqrt(2.0)
  %sqrt = fx.node "math.sqrt"(2.0) : () -> !fx.scalar<"float">
  // FUNCTION-NEXT:    torch._C._nn.gelu(sqrt, approximate="tanh")
  %gelu = fx.node "torch._C._nn.gelu"(%sqrt, approximate = "tanh") : (!fx.scalar<"float">) -> !fx.none
  // FUNCTION-NEXT:    del sqrt
  // FUNCTION-NEXT:    _range_pop()
  prof.range_pop
  // FUNCTION-NEXT:    return (first, in_, first)
  fx.output(%first, %x, %first) signature [{kind = "buffer_mutation", target = "mask"}, {kind = "user_input_mutation", target = "in"}, {kind = "user_output"}] : (tensor<8xf32>, tensor<?x8xf32, #fx.tensor<"cpu", strides = [8, 1], dims = [#fx.sym<"s0">, 8]>>, tensor<8xf32>)
}
