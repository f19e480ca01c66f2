// Building rewrite scripts, and printing them for people.

#ifndef OPPROF_TARGET_TRANSFORMSCRIPT_SCRIPTBUILDER_H
#define OPPROF_TARGET_TRANSFORMSCRIPT_SCRIPTBUILDER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace opprof::fx {

class GraphOp;

/// Makes a transform script: graphs that stand for patterns and replacements,
/// and a sequence of what is done with them.
class ScriptBuilder {
public:
  explicit ScriptBuilder(mlir::MLIRContext *context);

  /// Inserts where the graph or the sequence is continued.
  mlir::OpBuilder &getBuilder() { return builder; }

  /// Begins a private graph whose arguments are called `names`.
  GraphOp beginGraph(llvm::StringRef name, llvm::ArrayRef<std::string> names,
                     llvm::ArrayRef<mlir::Type> types, mlir::TypeRange results);
  /// Adds a call of `target` to the graph; without `arguments`, the operands
  /// are the positional arguments. `keywords` are the names of the last ones.
  mlir::Value addNode(const llvm::Twine &name, llvm::StringRef target,
                      mlir::ValueRange operands, mlir::Type type,
                      llvm::ArrayRef<mlir::Attribute> arguments = {},
                      llvm::ArrayRef<llvm::StringRef> keywords = {});
  /// Ends the graph with what it returns.
  void finishGraph(mlir::ValueRange results);

  /// The sequence replaces `pattern` by `replacement` wherever it is.
  void addReplacement(GraphOp pattern, GraphOp replacement);
  /// The sequence names strategies for whole graphs: the attributes of
  /// transform.fx.region_strategy.
  void addStrategies(llvm::ArrayRef<mlir::NamedAttribute> strategies);

  /// The script, ended.
  mlir::OwningOpRef<mlir::ModuleOp> finish();

private:
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// What the sequence does, in order.
  std::vector<std::pair<mlir::Operation *, mlir::Operation *>> replacements;
  llvm::SmallVector<mlir::NamedAttribute> strategies;
};

/// Prints a script as a person writes one: what it is for above it, its head a
/// line an entry, tensor types by short names, a comment on each part. What is
/// printed is read back as the same script.
void printRewriteScript(mlir::ModuleOp script, llvm::raw_ostream &os);

} // namespace opprof::fx

#endif // OPPROF_TARGET_TRANSFORMSCRIPT_SCRIPTBUILDER_H
