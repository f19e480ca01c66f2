// What a trace says of the sizes of an operator's inputs.

#include "opprof/Trace/InputShapes.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;

std::vector<InputShape> opprof::trace::readInputShapes(StringRef dims) {
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

std::vector<std::string> opprof::trace::readInputTexts(StringRef list) {
  std::vector<std::string> texts;
  bool inText = false;
  for (size_t at = 0; at < list.size(); ++at) {
    char c = list[at];
    if (c == '"') {
      inText = !inText;
      if (inText)
        texts.emplace_back();
    } else if (inText) {
      if (c == '\\' && at + 1 < list.size())
        c = list[++at];
      texts.back() += c;
    }
  }
  return inText ? std::vector<std::string>() : texts;
}
