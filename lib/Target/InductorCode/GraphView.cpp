// A graph as the code reader needs it. Types in FX's short form, and small
// queries on graphs.

#include "opprof/Target/InductorCode/GraphView.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

std::optional<uint64_t> TensorInfo::elements() const {
  if (!shapeKnown)
    return std::nullopt;
  uint64_t count = 1;
  for (const Dim &dim : shape) {
    if (!dim.value || *dim.value < 0)
      return std::nullopt;
    bool overflow = false;
    count = SaturatingMultiply<uint64_t>(count, *dim.value, &overflow);
    if (overflow)
      return std::nullopt;
  }
  return count;
}

std::optional<uint64_t> TensorInfo::bytes() const {
  std::optional<uint64_t> count = elements();
  std::optional<unsigned> size = elementSize(dtype);
  if (!count || !size)
    return std::nullopt;
  bool overflow = false;
  uint64_t total = SaturatingMultiply<uint64_t>(*count, *size, &overflow);
  return overflow ? std::nullopt : std::optional<uint64_t>(total);
}

/// Reads "[a, b*c, Max(1, s0)]" from the front of `text`.
static bool parseDims(StringRef &text, std::vector<Dim> &dims) {
  if (!text.consume_front("["))
    return false;
  unsigned open = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '(' || c == '[')
      ++open;
    else if (c == ')' || (c == ']' && open))
      open -= open ? 1 : 0;
    else if (!open && (c == ',' || c == ']')) {
      StringRef part = text.slice(start, i).trim();
      if (!part.empty()) {
        Dim &dim = dims.emplace_back();
        int64_t value;
        if (part.getAsInteger(10, value))
          dim.symbol = part.str();
        else
          dim.value = value;
      }
      start = i + 1;
      if (c == ']') {
        text = text.drop_front(i + 1);
        return true;
      }
    }
  }
  return false;
}

std::optional<TensorInfo> opprof::inductor::parseShortType(StringRef text) {
  text = text.trim();
  size_t bracket = text.find('[');
  if (bracket == StringRef::npos)
    return std::nullopt;
  const DType *dtype = lookupShortDType(text.take_front(bracket));
  if (!dtype)
    return std::nullopt;
  TensorInfo info;
  info.dtype = dtype->name.str();
  text = text.drop_front(bracket);
  if (!parseDims(text, info.shape))
    return std::nullopt;
  info.shapeKnown = true;
  if (text.starts_with("[") && !parseDims(text, info.stride))
    return std::nullopt;
  info.device = text.trim().str();
  return info;
}

std::optional<uint32_t> GraphView::find(StringRef node) const {
  auto it = index.find(node);
  if (it == index.end())
    return std::nullopt;
  return it->second;
}

void GraphView::reindex() {
  index.clear();
  // Of two nodes, or bodies, of one name the first is meant.
  for (uint32_t i = 0; i < nodes.size(); ++i)
    index.try_emplace(nodes[i].name, i);
  subgraphIndex.clear();
  for (uint32_t i = 0; i < subgraphs.size(); ++i)
    subgraphIndex.try_emplace(subgraphs[i].name, i);
}

std::vector<std::vector<uint32_t>> GraphView::users() const {
  std::vector<std::vector<uint32_t>> out(nodes.size());
  for (uint32_t i = 0; i < nodes.size(); ++i)
    for (uint32_t operand : nodes[i].operands)
      if (out[operand].empty() || out[operand].back() != i)
        out[operand].push_back(i);
  return out;
}

const GraphView *GraphView::subgraph(StringRef subgraphName) const {
  auto it = subgraphIndex.find(subgraphName);
  return it == subgraphIndex.end() ? nullptr : &subgraphs[it->second];
}
