// RUN: opprof-opt %s -split-input-file -verify-diagnostics

// Verify that a replacement must be there.
module attributes {transform.with_named_sequence} {
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{names @replacement, which is no fx.graph of this file}}
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that pattern and replacement take the same arguments.
module attributes {transform.with_named_sequence} {
  // expected-note @+1 {{the pattern}}
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  // expected-note @+1 {{the replacement}}
  fx.graph private @replacement(%x: tensor<4xf16>) -> tensor<4xf32> {
    %0 = fx.node "aten.to.dtype"(%x, #fx.dtype<"float32">) : (tensor<4xf16>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{has a replacement that takes other arguments than the pattern}}
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

// Verify that a replacement keeps the shapes of results.
module attributes {transform.with_named_sequence} {
  // expected-note @+1 {{the pattern}}
  fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  // expected-note @+1 {{the replacement}}
  fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<2x2xf32> {
    %0 = fx.node "aten.view.default"(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
    fx.output(%0) : (tensor<2x2xf32>)
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{has a replacement whose result 0 has another shape or element type than the pattern's}}
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{names no strategy}}
    transform.fx.region_strategy %root : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{has precision "float12"; "float16" and "bfloat16" are known}}
    transform.fx.region_strategy %root {precision = "float12"} : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{has class "softmax" at level "float8"; float16, bfloat16, float16_float32, float16x2, float16x3 are known}}
    transform.fx.region_strategy %root {regions = {"linear 4x8 8x8" = "float16", softmax = "float8"}} : !transform.any_op
    transform.yield
  }
}

// -----

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    // expected-error @+1 {{has a precision for everything and regions; give one of them}}
    transform.fx.region_strategy %root {precision = "float16", regions = {softmax = "float16"}} : !transform.any_op
    transform.yield
  }
}
