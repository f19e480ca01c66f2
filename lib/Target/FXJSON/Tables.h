// The tables of graph JSON, which nodes refer to by index: types, stacks of
// frames, stacks of modules.

#ifndef OPPROF_LIB_TARGET_FXJSON_TABLES_H
#define OPPROF_LIB_TARGET_FXJSON_TABLES_H

#include "JSONSource.h"

#include "opprof/Dialect/FX/IR/Provenance.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace opprof::fx {

class Tables {
public:
  Tables(JSONSource &source, mlir::MLIRContext *context)
      : source(source), context(context), builder(context) {}

  /// A type of the table of types, with what bounds its printed form.
  struct TypeEntry {
    mlir::Type type;
    unsigned depth = 1;
    uint64_t size = 1;
  };

  // Each adds an entry, and returns false after an error.
  bool addType(mlir::Attribute value);
  bool addStack(mlir::Attribute value);
  bool addModules(mlir::Attribute value);

  llvm::SmallVector<TypeEntry> types;
  llvm::SmallVector<StackOrigin> stacks;
  llvm::SmallVector<mlir::ArrayAttr> moduleStacks;

private:
  mlir::Type convertTensor(mlir::DictionaryAttr members);
  bool fail(const llvm::Twine &what) { return source.fail(what); }

  JSONSource &source;
  mlir::MLIRContext *context;
  mlir::Builder builder;
};

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_FXJSON_TABLES_H
