// What a trace says of the sizes of an operator's inputs.

#ifndef OPPROF_LIB_JOIN_INPUTSHAPES_H
#define OPPROF_LIB_JOIN_INPUTSHAPES_H

#include "opprof/Launch/LaunchMap.h"

#include "llvm/ADT/StringRef.h"

namespace opprof::join {

/// One input of an operator: a tensor, whose sizes a scalar and what is no
/// tensor have none of, or a list of tensors.
struct InputShape {
  std::vector<launch::Sizes> tensors;
  bool isList = false;
};

/// Reads trace::HostOp::inputDims, "[[8, 16], [16], [[4], [4, 2]], []]": one
/// for each input, by position; none where the text can't be read.
std::vector<InputShape> readInputShapes(llvm::StringRef dims);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_INPUTSHAPES_H
