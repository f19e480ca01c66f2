// Prints fx graphs as Python that PyTorch runs: single functions, and whole
// programs.

#ifndef OPPROF_TARGET_PYTHON_PYTHONEMITTER_H
#define OPPROF_TARGET_PYTHON_PYTHONEMITTER_H

#include "mlir/IR/BuiltinOps.h"

namespace opprof::fx {

class GraphOp;

struct PythonFunctionOptions {
  /// What the function is called; the graph's name where it is empty.
  llvm::StringRef name;
  /// Spaces before `def`.
  unsigned indent = 0;
  /// Modules and source lines as comments, types as annotations.
  bool withComments = false;
  /// `del` each value after its last use.
  bool withDeletions = false;
  /// A graph with one output returns it as it is, and not in a tuple.
  bool unwrapSingleOutput = false;
  /// The graph is of a rewrite: constants that it leaves open and sizes that it
  /// names are printed as Open("name") and Size("name").
  bool isOfRewrite = false;
  /// Decorators, one a line, without '@'.
  llvm::ArrayRef<llvm::StringRef> decorators;
  /// What the graphs that this one calls are called as functions; those not
  /// in here go by their own names.
  llvm::function_ref<llvm::StringRef(llvm::StringRef)> functionName;
  /// True for a graph whose function takes the mapping `attributes` first,
  /// because it, or a graph that it calls, reads attributes or submodules.
  llvm::function_ref<bool(llvm::StringRef)> takesAttributes;
  /// What stands before the names of attributes and submodules: a subgraph's
  /// are those of a module inside the model.
  llvm::StringRef attributePrefix;
};

/// Prints `graph` as one function: its inputs are the parameters, each node is
/// a statement, its output is what is returned. The text needs `torch`,
/// `operator` and `math` imported. Fails, with a diagnostic at the node, where
/// something has no form in Python; what was printed is then to be discarded.
mlir::LogicalResult
printPythonFunction(GraphOp graph, llvm::raw_ostream &os,
                    const PythonFunctionOptions &options = {});

/// `text` as a Python string literal.
std::string getPythonString(llvm::StringRef text);

/// A shortest text that Python reads as the same double.
std::string getPythonFloat(double value);

/// `text` as the rest of a comment: nothing in it can end the line, or make it
/// look like something else.
std::string getPythonComment(llvm::StringRef text);

/// `text` as a Python identifier that is no keyword.
std::string getPythonIdentifier(llvm::StringRef text);

struct PythonProgramOptions {
  /// Each graph that fx.call calls becomes a nested_compile_region, of which
  /// Inductor compiles one representative.
  bool regions = false;
};

/// Prints the module's main graph (the first public one), and the graphs that
/// it calls, as a Python module with `load(weights)`. Writes nothing on
/// failure.
mlir::LogicalResult emitPython(mlir::ModuleOp module, llvm::raw_ostream &os,
                               const PythonProgramOptions &options = {});

/// --emit-python.
void registerPythonTranslation();

} // namespace opprof::fx

#endif // OPPROF_TARGET_PYTHON_PYTHONEMITTER_H
