// Types of the fx dialect: values of a graph that are no tensors.

#ifndef OPPROF_DIALECT_FX_IR_FXTYPES_TD
#define OPPROF_DIALECT_FX_IR_FXTYPES_TD

include "opprof/Dialect/FX/IR/FXDialect.td"
include "mlir/IR/AttrTypeBase.td"

class FX_Type<string name, string typeMnemonic> : TypeDef<FX_Dialect, name> {
  let mnemonic = typeMnemonic;
}

class FX_SymbolicType<string name, string typeMnemonic, string what>
    : FX_Type<name, typeMnemonic> {
  let summary = what;
  let parameters = (ins StringRefParameter<"expression over the size symbols">:$expression);
  let assemblyFormat = "`<` $expression `>`";
}

def FX_SymIntType : FX_SymbolicType<"SymInt", "symint", "a symbolic whole number">;
def FX_SymFloatType : FX_SymbolicType<"SymFloat", "symfloat", "a symbolic floating-point number">;
def FX_SymBoolType : FX_SymbolicType<"SymBool", "symbool", "a symbolic truth value">;

def FX_NoneType : FX_Type<"None", "none"> {
  let summary = "the value None, as nodes have that only act";
}

def FX_ScalarType : FX_Type<"Scalar", "scalar"> {
  let summary = "a Python int, float, bool or str";
  let parameters = (ins StringRefParameter<"int, float, bool or str">:$name);
  let assemblyFormat = "`<` $name `>`";
  let genVerifyDecl = 1;
}

def FX_ListType : FX_Type<"List", "list"> {
  let summary = "a list of values whose types are known one by one (a tuple is a builtin tuple)";
  let parameters = (ins "::mlir::TupleType":$elements);
  let assemblyFormat = "`<` $elements `>`";
}

def FX_OptionalType : FX_Type<"Optional", "optional"> {
  let summary = "a value that may be None";
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
}

def FX_ObjectType : FX_Type<"Object", "object"> {
  let summary = "any other Python value, by its Python type";
  let parameters = (ins StringRefParameter<"Python type">:$pythonType);
  let assemblyFormat = "`<` $pythonType `>`";
}

def FX_AnyType : FX_Type<"Any", "any"> {
  let summary = "in a pattern: any type";
}

def FX_DTypeType : FX_Type<"DType", "dtype"> {
  let summary = "a tensor's element type that MLIR has no builtin type for";
  let parameters = (ins StringRefParameter<"torch's own name">:$name);
  let assemblyFormat = "`<` $name `>`";
}

#endif // OPPROF_DIALECT_FX_IR_FXTYPES_TD
