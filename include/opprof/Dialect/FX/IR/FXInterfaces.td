// Interfaces by which other dialects say things of the fx dialect's operations.

#ifndef OPPROF_DIALECT_FX_IR_FXINTERFACES_TD
#define OPPROF_DIALECT_FX_IR_FXINTERFACES_TD

include "mlir/IR/OpBase.td"

def FX_LabelAttrInterface : AttrInterface<"LabelAttrInterface"> {
  let cppNamespace = "::opprof::fx";
  let description = [{
    A discardable attribute that names the `fx.call` it is on, so that the name
    of a call whose location has none needs no second place.
  }];
  let methods = [InterfaceMethod<"The name of the call.", "::llvm::StringRef",
                                 "getLabel">];
}

#endif // OPPROF_DIALECT_FX_IR_FXINTERFACES_TD
