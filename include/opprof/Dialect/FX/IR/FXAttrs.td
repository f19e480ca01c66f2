// Attributes of the fx dialect: Python values that builtin attributes lack.

#ifndef OPPROF_DIALECT_FX_IR_FXATTRS_TD
#define OPPROF_DIALECT_FX_IR_FXATTRS_TD

include "opprof/Dialect/FX/IR/FXDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

class FX_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<FX_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

class FX_TextAttr<string name, string attrMnemonic, string what, string example>
    : FX_Attr<name, attrMnemonic> {
  let summary = what;
  let description = "Written by torch's own name: `#fx." # attrMnemonic # "<\"" # example # "\">`.";
  let parameters = (ins StringRefParameter<"torch's own name">:$value);
  let assemblyFormat = "`<` $value `>`";
}

def FX_NodeKind : I32EnumAttr<"NodeKind", "FX's op codes for nodes that compute", [
    I32EnumAttrCase<"call_function", 0>,
    I32EnumAttrCase<"call_method", 1>,
    I32EnumAttrCase<"call_module", 2>,
    I32EnumAttrCase<"get_attr", 3>]> {
  let cppNamespace = "::opprof::fx";
}

def FX_ValueAttr : FX_Attr<"Value", "value"> {
  let summary = "the place of an SSA operand among a node's arguments";
  let description = [{
    The i-th `#fx.value`, counted in the order in which the arguments are
    written, stands for the i-th operand.
  }];
}

def FX_NoneAttr : FX_Attr<"None", "none"> {
  let summary = "Python's None";
}

def FX_EllipsisAttr : FX_Attr<"Ellipsis", "ellipsis"> {
  let summary = "Python's ...";
}

def FX_TupleAttr : FX_Attr<"Tuple", "tuple"> {
  let summary = "a Python tuple of arguments (a list is a builtin array)";
  let parameters = (ins "::mlir::ArrayAttr":$elements);
  let assemblyFormat = "`<` $elements `>`";
}

def FX_DictAttr : FX_Attr<"Dict", "dict"> {
  let summary = "a Python dict: keys and values in order";
  let parameters = (ins "::mlir::ArrayAttr":$keys, "::mlir::ArrayAttr":$values);
  let assemblyFormat = "`<` $keys `,` $values `>`";
  let genVerifyDecl = 1;
}

def FX_SliceAttr : FX_Attr<"Slice", "slice"> {
  let summary = "a Python slice";
  let parameters = (ins "::mlir::Attribute":$start, "::mlir::Attribute":$stop,
                        "::mlir::Attribute":$step);
  let assemblyFormat = "`<` $start `,` $stop `,` $step `>`";
}

def FX_ComplexAttr : FX_Attr<"Complex", "complex"> {
  let summary = "a Python complex number";
  let parameters = (ins "::mlir::FloatAttr":$real, "::mlir::FloatAttr":$imaginary);
  let assemblyFormat = "`<` $real `,` $imaginary `>`";
}

def FX_BigIntAttr : FX_TextAttr<"BigInt", "int", "a whole number outside 64 bits", "36893488147419103232"> {
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // A bound on what a file may ask for, far above what PyTorch writes.
    static constexpr size_t kMaxDigits = 4096;

    /// Whether Python reads `text` as a whole number, and writes it so.
    static bool isWholeNumber(llvm::StringRef text);
  }];
}
def FX_DTypeAttr : FX_TextAttr<"DType", "dtype", "a torch.dtype", "bfloat16">;
def FX_DeviceAttr : FX_TextAttr<"Device", "device", "a torch.device", "cuda:0">;
def FX_LayoutAttr : FX_TextAttr<"Layout", "layout", "a torch.layout", "strided">;
def FX_MemoryFormatAttr : FX_TextAttr<"MemoryFormat", "memory_format", "a torch.memory_format", "channels_last">;
def FX_SymAttr : FX_TextAttr<"Sym", "sym", "a symbolic expression over a graph's size symbols", "s0 + 1">;
def FX_OpRefAttr : FX_TextAttr<"OpRef", "op", "an operator as a value", "aten.add.Tensor">;

def FX_AnyAttr : FX_Attr<"Any", "any"> {
  let summary = "in a pattern: any constant";
  let description = [{
    `#fx.any` stands for any constant argument. `#fx.any<"eps">` has a name: it
    stands for the same constant wherever the pattern holds it, and a
    replacement may use it.
  }];
  let parameters = (ins StringRefParameter<"name", [{""}]>:$name);
  let assemblyFormat = "(`<` $name^ `>`)?";
}

def FX_ObjectAttr : FX_Attr<"Object", "object"> {
  let summary = "any other Python value, kept as its type and repr";
  let parameters = (ins StringRefParameter<"Python type">:$pythonType,
                        StringRefParameter<"Python repr">:$repr);
  let assemblyFormat = "`<` $pythonType `,` $repr `>`";
}

def FX_TensorInfoAttr : FX_Attr<"TensorInfo", "tensor", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "what a tensor type needs beyond shape and element type";
  let description = [{
    The encoding of a ranked tensor type. Strides that are those of a contiguous
    tensor of the same, static shape are left out, so that equal layouts are
    equal attributes; `unknown_strides` says that nobody knows them. `dims`
    holds the shape with the expressions of its symbolic dimensions, and is
    absent where every dimension is a number.

    ```mlir
    fx.graph @layouts(%contiguous: tensor<4x8xf32, #fx.tensor<"cuda:0">>,
        %transposed: tensor<4x8xf32, #fx.tensor<"cuda:0", strides = [1, 4]>>,
        %symbolic: tensor<?x8xf32, #fx.tensor<"cpu", strides = [8, 1], dims = [#fx.sym<"s0">, 8]>>) {
      fx.output() : ()
    }
    ```
  }];
  let parameters = (ins
    StringRefParameter<"device, as torch writes it">:$device,
    OptionalParameter<"::mlir::ArrayAttr">:$strides,
    DefaultValuedParameter<"bool", "false">:$unknownStrides,
    OptionalParameter<"::mlir::ArrayAttr">:$dims,
    OptionalParameter<"::mlir::Attribute">:$storageOffset,
    DefaultValuedParameter<"bool", "false">:$requiresGrad,
    OptionalParameter<"::mlir::StringAttr">:$layout,
    OptionalParameter<"::mlir::StringAttr">:$subclass);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The encoding of a tensor of this `shape` (numbers, or #fx.sym). `strides`
    /// that are those of a contiguous tensor are left out; null says that they
    /// are unknown.
    static TensorInfoAttr getCanonical(
        ::mlir::MLIRContext *context, ::llvm::StringRef device,
        ::llvm::ArrayRef<::mlir::Attribute> shape, ::mlir::ArrayAttr strides,
        ::mlir::Attribute storageOffset = {}, bool requiresGrad = false,
        ::mlir::StringAttr layout = {}, ::mlir::StringAttr subclass = {});

    /// The strides of a tensor of `type` in elements, or none where one of them
    /// is symbolic or unknown.
    static std::optional<::llvm::SmallVector<int64_t>>
    getStaticStrides(::mlir::RankedTensorType type);
  }];
}

#endif // OPPROF_DIALECT_FX_IR_FXATTRS_TD
