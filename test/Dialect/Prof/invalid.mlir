// RUN: opprof-opt %s -split-input-file -verify-diagnostics

// Verify that a range left open is an error.
fx.graph @open() {
  // expected-error @below {{opens the range 'a', which its block does not close}}
  prof.range_push "a"
  fx.output() : ()
}

// -----

// Verify that a pop without a push is an error.
fx.graph @closed_twice() {
  prof.range_push "a"
  prof.range_pop
  // expected-error @below {{closes a range that its block does not open}}
  prof.range_pop
  fx.output() : ()
}

// -----

// Verify that the outer of two ranges needs its own end.
fx.graph @one_end_for_two() {
  // expected-error @below {{opens the range 'outer', which its block does not close}}
  prof.range_push "outer"
  prof.range_push "inner"
  prof.range_pop
  fx.output() : ()
}

// -----

// Verify that a role is one of the two there are.
fx.graph @role() attributes {
    // expected-error @below {{expected ::opprof::prof::Role to be one of: unique, duplicate}}
    // expected-error @below {{failed to parse Prof_PartitionAttr parameter 'role'}}
    prof.partition = #prof.partition<"h.0", main>} {
  fx.output() : ()
}
