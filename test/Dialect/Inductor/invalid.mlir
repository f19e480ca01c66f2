// What the verifiers refuse.

// RUN: opprof-opt %s -split-input-file -verify-diagnostics

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  inductor.launch 1 "k" cpp pointwise reads [] writes [] computes []
  // expected-error @+1 {{'inductor.launch' op has index 1 but comes after launch 1}}
  inductor.launch 1 "k" cpp pointwise reads [] writes [] computes []
}

// -----

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  // expected-error @+1 {{'inductor.launch' op has negative FLOPs or bytes}}
  inductor.launch 0 "k" cpp pointwise reads [] writes [] computes [] flops -1
}

// -----

fx.external @g stage "post_grad"
// expected-error @+1 {{'inductor.program' op understands 3 of 2 statements}}
inductor.program of @g statements 3 of 2 {
}

// -----

fx.external @g stage "post_grad"
// expected-error @+1 {{'inductor.program' op says only half of how many statements of how many were understood}}
"inductor.program"() <{graph = @g, total = 2}> ({
^bb0:
}) : () -> ()

// -----

// expected-error @+1 {{'inductor.program' op names the graph @g, which is neither an fx.graph nor an fx.external of the module}}
inductor.program of @g statements 1 of 1 {
}

// -----

fx.external @g stage "post_grad"
// expected-error @+1 {{'inductor.program' op names the graph @net, which is neither an fx.graph nor an fx.external of the module}}
inductor.program of @g statements 1 of 1 aligned <"recorded", @net, 1 of 2> {
}

// -----

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  // expected-error @+1 {{the evidence for node @g::@relu holds "rumour", which is no record that the reader knows}}
  inductor.launch 0 "k" cpp pointwise reads [] writes [] computes [#inductor.node<@g::@relu, evidence = ["rumour"]>]
}

// -----

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  // expected-error @+1 {{what node @g::@relu was made from is "net"; expected @graph::@node}}
  inductor.launch 0 "k" cpp pointwise reads [] writes [] computes [#inductor.node<@g::@relu, from = ["net"]>]
}

// -----

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  // expected-error @+1 {{a node is named as @graph::@node, not as @relu}}
  inductor.launch 0 "k" cpp pointwise reads [] writes [] computes [#inductor.node<@relu>]
}

// -----

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  // expected-error @+1 {{'inductor.launch' op names @net::@relu, but there is no graph @net; an fx.external stands for one of another module}}
  inductor.launch 0 "k" cpp pointwise reads [] writes [] computes [#inductor.node<@g::@relu, from = [@net::@relu]>]
}

// -----

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  // expected-error @+1 {{'inductor.launch' op names a node as @g; expected @graph::@node}}
  inductor.launch 0 "k" cpp pointwise reads [] writes [] computes [] listed [@g]
}

// -----

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  // expected-error @+1 {{'inductor.not_launched' op names @h::@view, but there is no graph @h}}
  inductor.not_launched @h::@view because "view"
}

// -----

fx.external @net stage "export"
fx.external @g stage "post_grad"
// expected-error @+1 {{more nodes are aligned (3) than there are (2)}}
inductor.program of @g statements 1 of 1 aligned <"recorded", @net, 3 of 2> {
}

// -----

fx.external @net stage "export"
fx.external @g stage "post_grad"
// expected-error @+1 {{more nodes are certain (2) than are aligned (1)}}
inductor.program of @g statements 1 of 1 aligned <"recorded", @net, 1 of 2, 2> {
}

// -----

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  // expected-error @+1 {{"sure" is no confidence of node @g::@relu; expected "high", "medium", "low" or "unattributed"}}
  inductor.launch 0 "k" cpp pointwise reads [] writes [] computes [#inductor.node<@g::@relu, confidence = "sure">]
}

// -----

fx.external @g stage "post_grad"
// expected-error @+1 {{'guess' is no method of alignment; expected 'recorded' or 'structure'}}
inductor.program of @g statements 1 of 1 aligned <"guess", @g, 1 of 2> {
}

// -----

fx.external @g stage "post_grad"
inductor.program of @g statements 1 of 1 {
  // expected-error @+1 {{'builtin.module' op does not belong in an inductor.program}}
  builtin.module {
  }
}
