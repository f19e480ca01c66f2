// Operations of the fx dialect.

#ifndef OPPROF_DIALECT_FX_IR_FXOPS_TD
#define OPPROF_DIALECT_FX_IR_FXOPS_TD

include "opprof/Dialect/FX/IR/FXAttrs.td"
include "opprof/Dialect/FX/IR/FXTypes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class FX_Op<string mnemonic, list<Trait> traits = []>
    : Op<FX_Dialect, mnemonic, traits>;

def FX_GraphOp : FX_Op<"graph", [
    FunctionOpInterface, IsolatedFromAbove, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "one FX graph";
  let description = [{
    A symbol with one isolated block. Its arguments are the graph's inputs, in
    order, each with what PyTorch's signature says of it: `fx.kind` (parameter,
    buffer, constant_tensor, constant_object, token or user_input), `fx.target`
    (the qualified name in the module), and `fx.name` where the input's name is
    not the name of its location.

    `stage` says which of PyTorch's stages the graph was taken from: export,
    dynamo, aot_forward, aot_joint, aot_backward or post_grad. It is absent for
    a subgraph. `functional` says that nothing in the graph writes a tensor
    that existed before; the verifier holds it to that, and passes that compare
    or merge nodes need not look for writers. A graph is known by its name and
    stage; `fx.name` says the name where another graph of the module has it as
    its symbol.

    ```mlir
    fx.graph @double stage "export" (%x: tensor<4xf32, #fx.tensor<"cpu">>)
        -> tensor<4xf32, #fx.tensor<"cpu">> {
      %add = fx.node "aten.add.Tensor"(%x, %x)
          : (tensor<4xf32, #fx.tensor<"cpu">>, tensor<4xf32, #fx.tensor<"cpu">>)
          -> tensor<4xf32, #fx.tensor<"cpu">>
      fx.output(%add) : (tensor<4xf32, #fx.tensor<"cpu">>)
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    TypeAttrOf<FunctionType>:$function_type,
    OptionalAttr<StrAttr>:$stage,
    UnitAttr:$functional,
    OptionalAttr<StrAttr>:$sym_visibility,
    OptionalAttr<DictArrayAttr>:$arg_attrs,
    OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
      "::mlir::FunctionType":$type, CArg<"::llvm::StringRef", "{}">:$stage)>];
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::mlir::Block &getBlock() { return getBody().front(); }
    OutputOp getOutput();
    /// True where no node may write storage. Costs a walk; importers put the
    /// answer into `functional`. `symbols` is for the graphs that nodes name:
    /// to look each up alone takes time with the square of their number.
    bool isFunctional(::mlir::SymbolTableCollection &symbols);
    /// The name of the input at `index`, from `fx.name` or its location.
    ::llvm::StringRef getInputName(unsigned index);
    /// Its `fx.kind`: user_input where nothing is said.
    ::llvm::StringRef getInputKind(unsigned index);
    /// Its `fx.target`: the qualified name in the module, or empty.
    ::llvm::StringRef getInputTarget(unsigned index);
  }];
}

def FX_NodeOp : FX_Op<"node", [
    IsolatedFromAbove,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface,
                              ["getAsmResultNames", "getAsmBlockArgumentNames"]>]> {
  let summary = "one FX node";
  let description = [{
    Calls `target` with the arguments written in parentheses, as Python would:
    values and constants in any nesting, then keyword arguments. A target is an
    operator overload (`aten.add.Tensor`), another function by its qualified
    name (`operator.getitem`), or, with another `kind`, a method
    (`call_method`), a submodule (`call_module`) or an attribute (`get_attr`).
    Every node has one result, as in FX; a node that only acts has type
    `!fx.none`, and one with several outputs has a tuple, taken apart by
    `operator.getitem`.

    Mutation and aliasing follow the operator's schema and show as memory
    effects. An operator that no schema is known for has every effect.

    TorchScript's control flow holds blocks. A block sees nothing from outside
    but its arguments, so that every use of a value is an operand; it ends in
    `fx.output`. What it gives is the node's result: `!fx.none` for nothing, the
    value where there is one, and otherwise a tuple. `prim.If` takes a truth
    value and then what its two blocks take. `prim.Loop` takes the greatest number of
    rounds, whether there is a first one, the values carried from round to round,
    and then what the block reads; its block takes the round's number, the
    carried values and those read, and gives whether there is another round, and
    the values carried to it. Such a node's effects are those of the nodes
    inside.

    ```mlir
    fx.graph @control(%x: tensor<4xf32>, %is: !fx.scalar<"bool">, %n: !fx.scalar<"int">)
        -> tensor<4xf32> {
      %branch = fx.node "prim.If"(%is, %x) : (!fx.scalar<"bool">, tensor<4xf32>) -> tensor<4xf32>
        block (%y: tensor<4xf32>) {
          %neg = fx.node "aten.neg.default"(%y) : (tensor<4xf32>) -> tensor<4xf32>
          fx.output(%neg) : (tensor<4xf32>)
        }
        block (%y: tensor<4xf32>) {
          fx.output(%y) : (tensor<4xf32>)
        }
      %loop = fx.node "prim.Loop"(%n, true, %branch) : (!fx.scalar<"int">, tensor<4xf32>) -> tensor<4xf32>
        block (%round: !fx.scalar<"int">, %carried: tensor<4xf32>) {
          %add = fx.node "aten.add.Tensor"(%carried, 1) : (tensor<4xf32>) -> tensor<4xf32>
          fx.output(true, %add) : (tensor<4xf32>)
        }
      fx.output(%loop) : (tensor<4xf32>)
    }
    ```

    ```mlir
    fx.graph @arguments(%x: tensor<8xf32>, %y: tensor<2x8xf32>) {
      %view = fx.node "aten.view.default"(%x, [4, 2]) : (tensor<8xf32>) -> tensor<4x2xf32>
      %cat = fx.node "aten.cat.default"([%x, %x], 0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
      %to = fx.node "aten._to_copy.default"(%x, dtype = #fx.dtype<"float16">) : (tensor<8xf32>) -> tensor<8xf16>
      %last = fx.node "operator.getitem"(%y, (slice(none, none, none), -1)) : (tensor<2x8xf32>) -> tensor<2xf32>
      %relu = fx.node call_method "relu"(%x) : (tensor<8xf32>) -> tensor<8xf32>
      fx.output() : ()
    }
    ```
  }];
  let arguments = (ins
    StrAttr:$target,
    DefaultValuedAttr<FX_NodeKind, "::opprof::fx::NodeKind::call_function">:$kind,
    Variadic<AnyType>:$operands,
    ArrayAttr:$args,
    OptionalAttr<ArrayAttr>:$kwarg_names);
  let results = (outs AnyType:$result);
  let regions = (region VariadicRegion<SizedRegion<1>>:$blocks);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$result,
      "::llvm::StringRef":$target, "::mlir::ValueRange":$operands,
      "::llvm::ArrayRef<::mlir::Attribute>":$args,
      CArg<"::llvm::ArrayRef<::mlir::Attribute>", "{}">:$kwargNames)>];
  let extraClassDeclaration = [{
    /// The number of positional arguments; the others are keyword arguments.
    unsigned getNumPositional();

    /// The argument that the operator's schema calls `name`, positional or by
    /// keyword: a constant, an attribute that nests #fx.value, or null where it
    /// is left to its default or the schema is unknown.
    ::mlir::Attribute getArgument(::llvm::StringRef name);

    /// The value of that argument where it is a single one, or null.
    ::mlir::Value getArgumentValue(::llvm::StringRef name);

    /// The values of that argument, in the order written.
    ::mlir::OperandRange getArgumentValues(::llvm::StringRef name);

    /// True where the node or one in its blocks reads attributes of the model
    /// or runs its submodules.
    bool readsAttributes();

    /// Of prim.Loop: how many values go from round to round.
    unsigned getNumCarried();

    /// The operand that an argument of one of the node's blocks stands for; null
    /// for the round of a loop and what is carried.
    ::mlir::Value getPassedValue(::mlir::BlockArgument argument);

    /// True where this node may write the storage of a tensor that existed
    /// before: its schema says so, or nothing is known of it.
    bool mayWrite();

    /// Calls `visit(operand, isWritten, isAliased)` for each operand: whether
    /// this node may write its storage, and whether the result may share it.
    /// Both are true where nothing is known of the node.
    void visitOperandRoles(::llvm::function_ref<void(::mlir::OpOperand &, bool, bool)> visit);

    /// True where the node, or a node of a subgraph that it runs, draws from a
    /// random generator. Dropout that the arguments turn off does not.
    bool drawsRandomNumbers();

    /// True where running this node twice, or not at all if unused, would be
    /// seen: it writes, draws random numbers, or has no known schema.
    bool hasSideEffects();
  }];
}

def FX_OutputOp : FX_Op<"output", [
    Pure, Terminator, ReturnLike, ParentOneOf<["GraphOp", "NodeOp"]>]> {
  let summary = "what a graph, or a block of a node, returns";
  let description = [{
    The graph's outputs, nested as FX nests them, constants among them. The
    types in parentheses are those of the values, and are the results of the
    graph. `signature` holds one dictionary an output where not all of them are
    plain user outputs: its `kind` (user_output, loss_output, buffer_mutation,
    parameter_mutation, user_input_mutation, gradient_to_parameter,
    gradient_to_user_input, token) and its `target`.

    ```mlir
    fx.graph @pair(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      fx.output(%a, [%b, none]) : (tensor<4xf32>, tensor<4xf32>)
    }
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$operands, ArrayAttr:$args,
                       OptionalAttr<ArrayAttr>:$signature);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$operands)>];
}

def FX_CallOp : FX_Op<"call", [
    CallOpInterface,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a call of a subgraph, as outlining leaves behind";
  let description = [{
    Takes the values that the subgraph's block takes, and gives its results.
    The location of a call that came from outlining holds the names that the
    nodes of this instance had, so that inlining gives them back. Its effects
    are those of the nodes called.

    ```mlir
    fx.graph private @block(%x: tensor<8xf32>, %weight: tensor<8xf32>) -> tensor<8xf32> {
      %mul = fx.node "aten.mul.Tensor"(%x, %weight) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      fx.output(%mul) : (tensor<8xf32>)
    }
    fx.graph @twice(%x: tensor<8xf32>, %first: tensor<8xf32>, %second: tensor<8xf32>) -> tensor<8xf32> {
      %0 = fx.call @block(%x, %first) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %1 = fx.call @block(%0, %second) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      fx.output(%1) : (tensor<8xf32>)
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$operands,
    OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$callee `(` $operands `)` attr-dict `:` functional-type($operands, $results)";
  let extraClassDeclaration = [{
    ::mlir::CallInterfaceCallable getCallableForCallee() { return getCalleeAttr(); }
    void setCalleeFromCallable(::mlir::CallInterfaceCallable callee) {
      setCalleeAttr(::llvm::cast<::mlir::FlatSymbolRefAttr>(
          ::llvm::cast<::mlir::SymbolRefAttr>(callee)));
    }
    ::mlir::Operation::operand_range getArgOperands() { return getOperands(); }
    ::mlir::MutableOperandRange getArgOperandsMutable() { return getOperandsMutable(); }
  }];
}

def FX_ExternalOp : FX_Op<"external", [Symbol]> {
  let summary = "a graph that is named here and held elsewhere";
  let description = [{
    Stands for a graph of which the module names nodes (@net::@relu) and that it
    does not hold: that of a launch map read alone, or of the other graph of a
    profile. Its name and stage are those of the graph; `fx.name` says the name
    where its symbol is another one, as on an `fx.graph`.

    ```mlir
    fx.external @net stage "export"
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<StrAttr>:$stage);
  let assemblyFormat = "$sym_name (`stage` $stage^)? attr-dict";
}

#endif // OPPROF_DIALECT_FX_IR_FXOPS_TD
