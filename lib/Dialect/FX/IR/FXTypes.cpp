// Types of the fx dialect.

#include "opprof/Dialect/FX/IR/FXAttributes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace opprof::fx;

#define GET_TYPEDEF_CLASSES
#include "opprof/Dialect/FX/IR/FXTypes.cpp.inc"

void FXDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "opprof/Dialect/FX/IR/FXTypes.cpp.inc"
      >();
}

LogicalResult
ScalarType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   StringRef name) {
  if (name == "int" || name == "float" || name == "bool" || name == "str")
    return success();
  return emitError() << "'" << name
                     << "' is no Python scalar: use int, float, bool or str";
}
