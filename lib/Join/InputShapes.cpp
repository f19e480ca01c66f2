// What a trace says of the sizes of an operator's inputs.

#include "InputShapes.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using launch::Sizes;

std::vector<InputShape> opprof::join::readInputShapes(StringRef dims) {
  std::vector<InputShape> inputs;
  unsigned depth = 0;
  while (!dims.empty()) {
    if (dims.front() >= '0' && dims.front() <= '9') {
      int64_t size;
      if (depth < 2 || dims.consumeInteger(10, size))
        return {};
      inputs.back().tensors.back().push_back(size);
      continue;
    }
    char c = dims.front();
    dims = dims.drop_front();
    if (c == '[' && ++depth == 2) {
      inputs.emplace_back().tensors.emplace_back();
    } else if (c == '[' && depth == 3) {
      InputShape &input = inputs.back();
      if (input.isList)
        input.tensors.emplace_back();
      input.isList = true;
    } else if (c == ']' && depth-- <= 1) {
      break;
    }
  }
  return inputs;
}
