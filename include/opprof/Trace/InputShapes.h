// What a trace says of the sizes of an operator's inputs.

#ifndef OPPROF_TRACE_INPUTSHAPES_H
#define OPPROF_TRACE_INPUTSHAPES_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace opprof::trace {

/// One input of an operator: a tensor, whose sizes a scalar and what is no
/// tensor have none of, or a list of tensors.
struct InputShape {
  std::vector<std::vector<int64_t>> tensors;
  bool isList = false;
};

/// Reads trace::OperatorInputs::dims, "[[8, 16], [16], [[4], [4, 2]], []]": one
/// for each input, by position; none where the text can't be read.
std::vector<InputShape> readInputShapes(llvm::StringRef dims);

/// The texts of a list as the profiler writes it: "Input type" or "Concrete
/// Inputs", ["float", "", "[1, 1]"]; none where it can't be read.
std::vector<std::string> readInputTexts(llvm::StringRef list);

} // namespace opprof::trace

#endif // OPPROF_TRACE_INPUTSHAPES_H
