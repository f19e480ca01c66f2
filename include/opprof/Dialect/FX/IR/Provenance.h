// What a node's location says of its origin: name, module path, source line,
// and PyTorch's own records.
//
// A node's location is  "name"(fused<{…}>[user frame, whole stack]): the name,
// the metadata whose keys stand below, the innermost frame in the user's own
// code (so that diagnostics show it), and the whole stack, innermost first, as
// call sites.

#ifndef OPPROF_DIALECT_FX_IR_PROVENANCE_H
#define OPPROF_DIALECT_FX_IR_PROVENANCE_H

#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"

namespace opprof::fx {

struct StackFrame {
  llvm::StringRef file;
  unsigned line = 0;
  llvm::StringRef function;
  llvm::StringRef code;
};

/// Keys of the metadata dictionary in a node's location.
/// [["path", "type"], …], outermost first.
inline constexpr llvm::StringLiteral kModulesKey = "modules";
/// The text of the user's line.
inline constexpr llvm::StringLiteral kCodeKey = "code";
/// The text of the line of every frame, outermost first, where frames other
/// than the user's have one.
inline constexpr llvm::StringLiteral kCodesKey = "codes";
inline constexpr llvm::StringLiteral kSeqNrKey = "seq_nr";
inline constexpr llvm::StringLiteral kOriginalAtenKey = "original_aten";
/// [{name, graph, pass, action}, …], newest first.
inline constexpr llvm::StringLiteral kFromNodeKey = "from_node";
/// The function of PyTorch's that the user's program called, as torch.export
/// records it: [name of the call, type and name of the function].
inline constexpr llvm::StringLiteral kTorchFunctionKey = "torch_fn";

/// The location of the stack, or unknown where `frames` is empty; `frames`
/// come outermost first, as Python prints them.
mlir::Location getStackLocation(mlir::MLIRContext *context,
                                llvm::ArrayRef<StackFrame> frames);

/// True for a frame that is not the user's: PyTorch's own code or another
/// installed package's.
bool isLibraryFrame(llvm::StringRef file);

/// The innermost frame of the user's own code, or the innermost of all where
/// there is none; `frames`, outermost first, are not empty.
const StackFrame *getUserFrame(llvm::ArrayRef<StackFrame> frames);

/// A stack, as a node's origin holds it: its location, and the texts of its
/// lines, null where there are none.
struct StackOrigin {
  mlir::LocationAttr location;
  mlir::StringAttr userCode;
  mlir::ArrayAttr codes;
};

/// `frames` come outermost first; without any the stack is unknown.
StackOrigin getStackOrigin(mlir::MLIRContext *context,
                           llvm::ArrayRef<StackFrame> frames);

/// All that a node's location may say of its origin; what is null is not known.
/// The keys above say what each holds.
struct NodeOrigin {
  StackOrigin stack;
  mlir::ArrayAttr modules, fromNode, torchFunction;
  mlir::StringAttr originalAten;
  mlir::IntegerAttr seqNr;
};

/// The location of the node `name`, which may be empty. `metadata` may be null
/// or empty.
mlir::Location getNodeLocation(mlir::StringAttr name,
                               mlir::DictionaryAttr metadata,
                               mlir::Location stack);

/// The location of a call of an outlined graph: where its first node lies, and
/// as metadata the locations of all nodes that it stands for. Its label is that
/// of its `prof.partition`. There are many calls, so nothing here is wrapped in
/// another attribute.
mlir::Location getInstanceLocation(mlir::Location place,
                                   mlir::ArrayAttr instance);

/// The locations of the nodes that a call at `location` stands for, or null.
mlir::ArrayAttr getInstance(mlir::Location location);

/// The node's name, or empty where the location has none.
llvm::StringRef getNodeName(mlir::Location location);

/// The name of a node, or the label of a call, or empty.
llvm::StringRef getNodeName(mlir::Operation *op);

/// The metadata of a node's location, or null.
mlir::DictionaryAttr getMetadata(mlir::Location location);

/// The innermost module path ("h.0.attn"), or empty.
llvm::StringRef getModulePath(mlir::Location location);

/// The innermost frame in the user's own code, or null.
mlir::FileLineColLoc getUserFrame(mlir::Location location);

/// Where a graph stands in the user's code, for what is said of all of it: the
/// user's frame of the first operation that has one, or unknown.
mlir::Location getGraphLocation(mlir::Block &block);

/// The frames of the whole stack, outermost first.
llvm::SmallVector<StackFrame> getStackFrames(mlir::Location location);

/// The user's frame as `file:line`, or empty.
std::string getSourceText(mlir::Location location);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_PROVENANCE_H
