// What the verifiers refuse.

// RUN: opprof-opt %s -split-input-file -verify-diagnostics

inductor.program @order stage "post_grad" statements 1 of 1 {
  inductor.kernel @k cpp pointwise
  inductor.launch 0 @k reads [] writes [] computes []
  // expected-error @+1 {{'inductor.launch' op has index 2 but is launch 1 of the program}}
  inductor.launch 2 @k reads [] writes [] computes []
}

// -----

inductor.program @unknown stage "post_grad" statements 1 of 1 {
  // expected-error @+1 {{'inductor.launch' op calls @k, which is no kernel of its program}}
  inductor.launch 0 @k reads [] writes [] computes []
}

// -----

inductor.program @negative stage "post_grad" statements 1 of 1 {
  inductor.kernel @k cpp pointwise
  // expected-error @+1 {{'inductor.launch' op has negative FLOPs or bytes}}
  inductor.launch 0 @k reads [] writes [] computes [] flops -1
}

// -----

// expected-error @+1 {{'inductor.program' op understands 3 of 2 statements}}
inductor.program @statements stage "post_grad" statements 3 of 2 {
}

// -----

inductor.program @evidence stage "post_grad" statements 1 of 1 {
  inductor.kernel @k cpp pointwise
  // expected-error @+1 {{the evidence for node 'relu' holds "rumour", which is no record that the reader knows}}
  inductor.launch 0 @k reads [] writes [] computes [#inductor.node<"relu", evidence = ["rumour"]>]
}

// -----

inductor.program @origin stage "post_grad" statements 1 of 1 {
  inductor.kernel @k cpp pointwise
  // expected-error @+1 {{an origin of node 'relu' must be ["graph", "stage", "name"]}}
  inductor.launch 0 @k reads [] writes [] computes [#inductor.node<"relu", evidence = [], origins = [["net"]]>]
}

// -----

// expected-error @+1 {{more nodes are aligned (3) than there are (2)}}
inductor.program @aligned stage "post_grad" statements 1 of 1 aligned <"recorded", "net", "export", 3 of 2> {
}

// -----

// expected-error @+1 {{'guess' is no method of alignment; expected 'recorded' or 'structure'}}
inductor.program @method stage "post_grad" statements 1 of 1 aligned <"guess", "net", "export", 1 of 2> {
}

// -----

inductor.program @kernels stage "post_grad" statements 1 of 1 {
  inductor.kernel @k cpp pointwise
  // expected-error @+1 {{'builtin.module' op does not belong in an inductor.program}}
  builtin.module {
  }
}
