// What the verifiers refuse of times, counters, classes and findings.

// RUN: opprof-opt %s -split-input-file -verify-diagnostics

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 'prof.time' 1 : i64; expected #prof.time}}
  %r = fx.node "aten.relu.default"(%x) {prof.time = 1} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 'prof.counters' 1 : i64; expected #prof.counters}}
  %r = fx.node "aten.relu.default"(%x) {prof.counters = 1} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{cannot have 'prof.summary', which belongs on a module}}
  %r = fx.node "aten.relu.default"(%x) {prof.summary = #prof.summary<kernels = 0, kernel_ns = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{cannot have 'prof.partition', which belongs on an fx.call}}
  %r = fx.node "aten.relu.default"(%x) {prof.partition = #prof.partition<"h.0", unique>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 'prof.attached' 1 : i64; expected no value}}
  %r = fx.node "aten.relu.default"(%x) {prof.attached = 1} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 'prof.tiem', which the prof dialect does not know}}
  %r = fx.node "aten.relu.default"(%x) {prof.tiem = 1} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{a time of -1 ns of 2 kernels is negative}}
  %r = fx.node "aten.relu.default"(%x) {prof.time = #prof.time<ns = -1, kernels = 2, steps = 1, share = whole, confidence = high>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{a time is of at least one step}}
  %r = fx.node "aten.relu.default"(%x) {prof.time = #prof.time<ns = 1, kernels = 2, steps = 0, share = whole, confidence = high>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+2 {{expected high, medium or low}}
  // expected-error @+1 {{failed to parse Prof_TimeAttr parameter 'confidence'}}
  %r = fx.node "aten.relu.default"(%x) {prof.time = #prof.time<ns = 1, kernels = 2, steps = 1, share = whole, confidence = sure>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{the counter "x" is 1 : i64; expected an f64}}
  %r = fx.node "aten.relu.default"(%x) {prof.counters = #prof.counters<{x = 1}>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{counters are inferred from a node, @graph::@node, not from @relu}}
  %r = fx.node "aten.relu.default"(%x) {prof.counters = #prof.counters<{}, inferred_from = @relu>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @g(%x: tensor<4xf32>) {
  // expected-error @+1 {{why the counter "x" is absent must be said in words}}
  %r = fx.node "aten.relu.default"(%x) {prof.counters = #prof.counters<{}, absent = {x = 1}>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

// expected-error @+1 {{'fx.graph' op cannot have 'prof.time', which belongs on an fx.node, fx.call, inductor.launch or prof.instance}}
fx.graph @g() attributes {prof.time = #prof.time<ns = 1, kernels = 1, share = whole, confidence = high>} {
  fx.output() : ()
}

// -----

// expected-error @+1 {{a summary's numbers must not be negative}}
module attributes {prof.summary = #prof.summary<kernels = -1, kernel_ns = 0>} {
}

// -----

// expected-error @+1 {{a summary is of at least one step}}
module attributes {prof.summary = #prof.summary<kernels = 1, kernel_ns = 0, steps = 0>} {
}

// -----

// expected-error @+1 {{'prof.finding' op names @net::@relu, but there is no graph @net}}
prof.finding "memory-bound" on [@net::@relu] evidence {}

// -----

prof.class "c0" {
  // expected-error @+1 {{'builtin.module' op does not belong in a prof.class}}
  builtin.module {
  }
}

// -----

fx.external @net stage "export"
prof.class "c0" {
  // expected-error @+1 {{'prof.instance' op names a node as @net; expected @graph::@node}}
  prof.instance <"h.0", unique> of [@net]
}

// -----

fx.external @net stage "export"
prof.class "c0" {
  prof.instance <"h.0", unique> of [@net::@a, @net::@b]
  // expected-error @+1 {{'prof.instance' op has 1 nodes, but the class's first instance has 2}}
  prof.instance <"h.1", duplicate> of [@net::@c]
}
