// What has no form in Python is refused by name, and nothing is written.
// RUN: opprof-translate --emit-python --split-input-file --verify-diagnostics %s

// expected-error@below {{holds no public fx.graph to write}}
module {
}

// -----

fx.graph @object() {
  // expected-error@below {{takes the torch.Generator <Generator>, which exists only in the process that exported the graph}}
  %0 = fx.node "aten.rand.default"([4], generator = #fx.object<"torch.Generator", "<Generator>">) : () -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @function() {
  // expected-error@below {{calls 'os.system.run.it', which is no operator of PyTorch, and none of the functions that a program may call}}
  fx.node "os.system.run.it"("true") : () -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @user_kernel(%x: tensor<4xf32>) {
  // expected-error@below {{runs a Triton kernel of the user's, which the graph names by its number in the exporting process}}
  %0 = fx.node "higher_order.triton_kernel_wrapper_functional"(kernel_idx = 0, constant_args_idx = 0, grid = [1], kwargs = %x) : (tensor<4xf32>) -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @injection() {
  // expected-error@below {{calls 'aten.add(1) or exit.Tensor'}}
  fx.node "aten.add(1) or exit.Tensor"(1) : () -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @loads_files() {
  // expected-error@below {{calls 'torch.load'}}
  fx.node "torch.load"("weights.pt") : () -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @torch_save(%x: tensor<4xf32>) {
  // expected-error@below {{calls 'torch.save'}}
  %0 = fx.node "torch.save"(%x, "file") : (tensor<4xf32>) -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @torch_compile(%x: tensor<4xf32>) {
  // expected-error@below {{calls 'torch.compile'}}
  %0 = fx.node "torch.compile"(%x, "file") : (tensor<4xf32>) -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @torch_hub_load(%x: tensor<4xf32>) {
  // expected-error@below {{calls 'torch.hub.load'}}
  %0 = fx.node "torch.hub.load"(%x, "file") : (tensor<4xf32>) -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @torch_classes_load_library(%x: tensor<4xf32>) {
  // expected-error@below {{calls 'torch.classes.load_library'}}
  %0 = fx.node "torch.classes.load_library"(%x, "file") : (tensor<4xf32>) -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @torch_ops_load_library(%x: tensor<4xf32>) {
  // expected-error@below {{calls 'torch.ops.load_library'}}
  %0 = fx.node "torch.ops.load_library"(%x, "file") : (tensor<4xf32>) -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @torch_package_PackageImporter(%x: tensor<4xf32>) {
  // expected-error@below {{calls 'torch.package.PackageImporter'}}
  %0 = fx.node "torch.package.PackageImporter"(%x, "file") : (tensor<4xf32>) -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @beyond_the_end(%x: tensor<4xf32>) {
  // expected-error@below {{calls 'inductor._reinterpret_tensor.default'}}
  %0 = fx.node "inductor._reinterpret_tensor.default"(%x, [4], [1], 1000000) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output() : ()
}

// -----

fx.graph @builtin() {
  // expected-error@below {{calls 'builtins.exec'}}
  fx.node "builtins.exec"("print(1)") : () -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @method(%x: tensor<4xf32>) {
  // expected-error@below {{'relu().exit' is no method of its first argument}}
  fx.node call_method "relu().exit"(%x) : (tensor<4xf32>) -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @dtype() {
  // expected-error@below {{'float32; exit' is no dtype, layout or memory format of torch}}
  fx.node "aten.empty.memory_format"([4], dtype = #fx.dtype<"float32; exit">) : () -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @expression(%n: !fx.symint<"s0">) {
  // expected-error@below {{the symbolic expression "Zeta(s0)" has no form in Python}}
  fx.node "aten.empty.memory_format"([#fx.sym<"Zeta(s0)">]) : () -> !fx.none
  fx.output() : ()
}

// -----

// expected-error@below {{graph 'symbol' uses the symbol 's0', but none of its inputs is, or has a dimension of, just that size}}
fx.graph @symbol() {
  fx.node "aten.empty.memory_format"([#fx.sym<"s0 + 1">]) : () -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @attribute() {
  // expected-error@below {{the argument unit has no form in Python}}
  fx.node "aten.empty.memory_format"([unit]) : () -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @main(%p: tensor<i1>) {
  fx.node "higher_order.cond"(%p, @circle, @circle, ()) : (tensor<i1>) -> !fx.none
  fx.output() : ()
}
// expected-error@below {{graph 'circle' calls itself, by way of others or not; FX graphs do not}}
fx.graph private @circle() {
  fx.node "higher_order.invoke_subgraph"(@circle, "id") : () -> !fx.none
  fx.output() : ()
}

// -----

fx.graph @mutation(%x: tensor<4xf32> {fx.name = "x"}) -> tensor<4xf32> {
  // expected-error@below {{mutates the input "y", which the graph does not have}}
  fx.output(%x) signature [{kind = "user_input_mutation", target = "y"}] : (tensor<4xf32>)
}
