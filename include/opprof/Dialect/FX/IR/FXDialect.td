// The fx dialect: PyTorch FX graphs, as exported, with nothing lost.

#ifndef OPPROF_DIALECT_FX_IR_FXDIALECT_TD
#define OPPROF_DIALECT_FX_IR_FXDIALECT_TD

include "mlir/IR/DialectBase.td"

def FX_Dialect : Dialect {
  let name = "fx";
  let cppNamespace = "::opprof::fx";
  let summary = "PyTorch FX graphs of any stage";
  let description = [{
    An `fx.graph` is one FX graph: a symbol with one isolated block. An
    `fx.node` is one FX node: a target, the values it takes, and its other
    arguments nested as FX nests them. A graph that is imported, printed as
    Python by `opprof-translate --emit-python` and run in PyTorch gives the bits
    that the original gives.

    A node's name is its `NameLoc`; the module path, the user's source line and
    what PyTorch recorded of its origin are in the location, so that every
    diagnostic points at the user's line. The tools print locations unless told
    not to.

    ```mlir
    #cpu = #fx.tensor<"cpu">
    fx.graph @mlp stage "export" (
        %weight: tensor<64x32xf32, #cpu> {fx.kind = "parameter", fx.target = "fc.weight"},
        %x: tensor<8x32xf32, #cpu> {fx.kind = "user_input"})
        -> tensor<8x64xf32, #cpu> {
      %linear = fx.node "aten.linear.default"(%x, %weight)
          : (tensor<8x32xf32, #cpu>, tensor<64x32xf32, #cpu>) -> tensor<8x64xf32, #cpu>
      %relu = fx.node "aten.relu.default"(%linear)
          : (tensor<8x64xf32, #cpu>) -> tensor<8x64xf32, #cpu>
      fx.output(%relu) : (tensor<8x64xf32, #cpu>)
    }
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    /// Names of the discardable attributes on the arguments of a graph.
    static constexpr llvm::StringLiteral kNameAttr = "fx.name";
    static constexpr llvm::StringLiteral kKindAttr = "fx.kind";
    static constexpr llvm::StringLiteral kTargetAttr = "fx.target";
    static constexpr llvm::StringLiteral kPersistentAttr = "fx.persistent";

    void registerAttributes();
    void registerTypes();
  }];
}

#endif // OPPROF_DIALECT_FX_IR_FXDIALECT_TD
