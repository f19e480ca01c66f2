// The prof dialect: what profiling puts into a graph.

#ifndef OPPROF_DIALECT_PROF_IR_PROFOPS_TD
#define OPPROF_DIALECT_PROF_IR_PROFOPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Prof_Dialect : Dialect {
  let name = "prof";
  let cppNamespace = "::opprof::prof";
  let summary = "profiling markers and what a graph's parts are called in a profile";
  let description = [{
    Markers are a pair of operations with read and write effects, so that no
    pass merges, moves or drops them; the verifier holds them balanced in each
    block. `opprof-translate --emit-python` makes NVTX calls of them.

    ```mlir
    fx.graph @marked(%x: tensor<4xf32>) -> tensor<4xf32> {
      prof.range_push "layer::unique::h.0"
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      prof.range_pop
      fx.output(%relu) : (tensor<4xf32>)
    }
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    /// The discardable attribute on a call that came from outlining.
    static constexpr llvm::StringLiteral kPartitionAttr = "prof.partition";

    void registerAttributes();
  }];
}

def Prof_Role : I32EnumAttr<"Role", "what a partition is to its class", [
    I32EnumAttrCase<"unique", 0>, I32EnumAttrCase<"duplicate", 1>]> {
  let cppNamespace = "::opprof::prof";
  let genSpecializedAttr = 0;
}

def Prof_PartitionAttr : AttrDef<Prof_Dialect, "Partition"> {
  let mnemonic = "partition";
  let summary = "what a partition is called, and whether it speaks for its class";
  let description = [{
    `prof.partition` on an `fx.call`: the first partition of a class is unique,
    the others are its duplicates.

    ```mlir
    fx.graph private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
      %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%relu) : (tensor<4xf32>)
    }
    fx.graph @model(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fx.call @layer(%x) {prof.partition = #prof.partition<"h.0", unique>} : (tensor<4xf32>) -> tensor<4xf32>
      %1 = fx.call @layer(%0) {prof.partition = #prof.partition<"h.1", duplicate>} : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%1) : (tensor<4xf32>)
    }
    ```
  }];
  let parameters = (ins StringRefParameter<"label">:$label,
                        EnumParameter<Prof_Role>:$role);
  let assemblyFormat = "`<` $label `,` $role `>`";
}

class Prof_MarkerOp<string mnemonic>
    : Op<Prof_Dialect, mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let hasVerifier = 1;
}

def Prof_RangePushOp : Prof_MarkerOp<"range_push"> {
  let summary = "opens an NVTX range";
  let description = [{
    Everything up to the matching `prof.range_pop` of the same block lies in the
    range. Ranges nest.
  }];
  let arguments = (ins StrAttr:$label);
  let assemblyFormat = "$label attr-dict";
}

def Prof_RangePopOp : Prof_MarkerOp<"range_pop"> {
  let summary = "closes the innermost open NVTX range of its block";
  let assemblyFormat = "attr-dict";
}

#endif // OPPROF_DIALECT_PROF_IR_PROFOPS_TD
