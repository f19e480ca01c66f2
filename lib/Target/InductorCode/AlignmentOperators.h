// Which operators of two stages may be the same.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTOPERATORS_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTOPERATORS_H

#include "opprof/Target/InductorCode/GraphView.h"

namespace opprof::inductor {

/// An operator's family under one name for all its spellings: "addmm", "mm" and
/// "linear" are "matmul".
llvm::StringRef canonicalOperator(llvm::StringRef family);

/// Whether `part` can come from decomposing `whole`; both canonical.
bool decomposesInto(llvm::StringRef whole, llvm::StringRef part);

/// Whether a canonical operator may become several that compute.
bool isComposite(llvm::StringRef op);

/// Whether a canonical operator only moves or casts values.
bool movesValues(llvm::StringRef op);

/// Whether the order of a canonical operator's operands says nothing.
bool isCommutative(llvm::StringRef op);

/// Whether the node's result holds the value of its first operand, in another
/// layout or dtype perhaps: views, copies, casts, dropout that is switched off.
bool keepsValue(const GraphNode &node);

/// Whether the node makes a tensor of one value.
bool makesConstant(const GraphNode &node);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTOPERATORS_H
