// The values of a graph as alignment sees them.

#include "AlignmentValues.h"
#include "AlignmentBodies.h"
#include "AlignmentOperators.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

Values::Values(const GraphView &graph, bool merge) : graph(graph) {
  size_t count = graph.nodes.size();
  role.assign(count, Role::None);
  root.resize(count);
  operands.resize(count);
  op.resize(count);
  users.resize(count);
  part.resize(count);
  written.assign(count, kNoValue);
  StringMap<uint32_t> known;
  for (uint32_t i = 0; i < count; ++i) {
    root[i] = i;
    const GraphNode &node = graph.nodes[i];
    if (node.op != GraphNode::Call) {
      role[i] = Role::Input;
      continue;
    }
    op[i] = canonicalOperator(opFamily(node.target));
    addCall(i);
    if (!computes(i))
      continue;
    const fx::OperatorSchema *schema = fx::lookupSchema(node.target);
    if (merge && schema && !schema->isRandom && !schema->isMutating()) {
      auto [it, inserted] = known.try_emplace(keyOf(i), i);
      if (!inserted) {
        root[i] = it->second;
        continue;
      }
    }
    for (uint32_t operand : operands[i])
      if (users[operand].empty() || users[operand].back() != i)
        users[operand].push_back(i);
  }
}

std::optional<uint64_t> Values::elements(uint32_t node) const {
  const GraphNode &of = graph.nodes[node];
  if (of.results.empty())
    return std::nullopt;
  return of.results.front().elements();
}

uint32_t Values::valueOf(uint32_t node) {
  uint32_t value = root[node];
  while (written[value] != kNoValue) {
    // What is written to again and again is found in few steps.
    if (uint32_t next = written[written[value]]; next != kNoValue)
      written[value] = next;
    value = written[value];
  }
  return value;
}

/// Arguments in one order for all spellings: a product's bias comes last.
void Values::setOperands(uint32_t node) {
  StringRef family = opFamily(graph.nodes[node].target);
  SmallVector<uint32_t, 4> &list = operands[node];
  for (uint32_t operand : graph.nodes[node].operands)
    if (role[operand] != Role::None &&
        !isBodyName(graph.nodes[node], graph.nodes[operand]))
      list.push_back(valueOf(operand));
  if (list.size() == 3 && (family == "addmm" || family == "baddbmm" ||
                           family == "_addmm_activation"))
    std::rotate(list.begin(), list.begin() + 1, list.end());
}

/// What a slice, a select or a member of a split takes.
void Values::setPart(uint32_t node) {
  const GraphNode &of = graph.nodes[node];
  auto integer = [&](size_t i) -> std::optional<int64_t> {
    return i < of.args.size() ? of.args[i].getAsInteger() : std::nullopt;
  };
  if (of.operands.empty())
    return;
  const GraphNode &from = graph.nodes[of.operands.front()];
  if (from.results.empty() || from.resultIsTuple ||
      !from.results.front().shapeKnown)
    return;
  const std::vector<Dim> &shape = from.results.front().shape;
  int64_t dim = integer(1).value_or(0);
  dim += dim < 0 ? static_cast<int64_t>(shape.size()) : 0;
  if (dim < 0 || dim >= static_cast<int64_t>(shape.size()))
    return;
  std::optional<int64_t> size = shape[dim].value;
  StringRef family = opFamily(of.target);
  if (family == "select" && integer(2)) {
    int64_t start = *integer(2);
    if (start >= 0 || size)
      part[node] = Part{start < 0 ? start + *size : start, 1};
    return;
  }
  if (family != "slice" || !size || integer(4).value_or(1) != 1)
    return;
  auto clip = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + *size : at, 0, *size);
  };
  int64_t start = clip(integer(2).value_or(0));
  int64_t end = clip(integer(3).value_or(*size));
  if (start == 0 && end == *size)
    role[node] = Role::Same;
  part[node] = Part{start, end - start};
}

/// One of several results.
void Values::addMember(uint32_t node) {
  const GraphNode &of = graph.nodes[node];
  uint32_t from = of.operands.front();
  if (role[from] == Role::None)
    return;
  std::optional<int64_t> member =
      of.args.size() == 2 ? of.args[1].getAsInteger() : std::nullopt;
  // Each result of a body is a value of its own.
  if (isHigherOrder(graph.nodes[from]) && member &&
      role[from] == Role::Compute) {
    role[node] = Role::Pick;
    op[node] = "part";
    operands[node] = {valueOf(from)};
    part[node] = Part{*member, 1};
    return;
  }
  if (op[from] != "split" || !member) {
    role[node] = role[from] == Role::Input ? Role::Input : Role::Same;
    root[node] = valueOf(from);
    return;
  }
  role[node] = Role::Pick;
  op[node] = "part";
  operands[node] = {valueOf(from)};
  const GraphNode &split = graph.nodes[from];
  StringRef family = opFamily(split.target);
  if (family == "unbind") {
    part[node] = Part{*member, 1};
    return;
  }
  auto integer = [&](size_t i) {
    return i < split.args.size() ? split.args[i].getAsInteger() : std::nullopt;
  };
  // How long the part is along the dimension, and how long the whole.
  auto extent = [&](const GraphNode &tensor) -> std::optional<int64_t> {
    if (tensor.results.empty() || tensor.resultIsTuple)
      return std::nullopt;
    const std::vector<Dim> &shape = tensor.results.front().shape;
    int64_t dim = integer(2).value_or(0);
    dim += dim < 0 ? static_cast<int64_t>(shape.size()) : 0;
    if (dim < 0 || dim >= static_cast<int64_t>(shape.size()))
      return std::nullopt;
    return shape[dim].value;
  };
  std::optional<int64_t> length = extent(of), whole;
  if (!split.operands.empty())
    whole = extent(graph.nodes[split.operands.front()]);
  // No tensor has as many parts; products of these stay in range.
  constexpr int64_t kMost = int64_t(1) << 31;
  if (!length || *member < 0 || *member > kMost || whole.value_or(0) > kMost ||
      std::abs(integer(1).value_or(0)) > kMost)
    return;
  const json::Array *list =
      split.args.size() > 1 ? split.args[1].getAsArray() : nullptr;
  if (list && *member < static_cast<int64_t>(list->size())) {
    int64_t start = 0;
    for (int64_t i = 0; i < *member; ++i)
      start +=
          std::clamp<int64_t>((*list)[i].getAsInteger().value_or(0), 0, kMost);
    part[node] = Part{start, *length};
  } else if (family == "split" && integer(1)) {
    part[node] = Part{*integer(1) * *member, *length};
  } else if (family == "chunk" && integer(1).value_or(0) > 0 && whole) {
    int64_t size = (*whole + *integer(1) - 1) / *integer(1);
    part[node] = Part{size * *member, *length};
  }
}

void Values::addCall(uint32_t node) {
  const GraphNode &of = graph.nodes[node];
  StringRef family = opFamily(of.target);
  if (!of.symbol.empty() || family.starts_with("_assert") ||
      family.starts_with("sym_") || family == "_set_grad_enabled")
    return;
  if (family == "getitem" && !of.operands.empty())
    return addMember(node);
  if (makesConstant(of)) {
    role[node] = Role::Constant;
    return;
  }
  setOperands(node);
  SmallVector<uint32_t, 4> &takes = operands[node];
  if (op[node] == "split" || keepsValue(of)) {
    bool picks = family == "select" || family == "slice" || family == "narrow";
    role[node] = takes.empty() ? Role::None : picks ? Role::Pick : Role::Same;
    if (picks && !takes.empty()) {
      op[node] = "part";
      setPart(node);
    }
    if (role[node] == Role::Same)
      root[node] = takes.front();
    if (role[node] != Role::Pick)
      takes.clear();
    return;
  }
  // A concatenation with nothing is a copy.
  if (op[node] == "cat") {
    erase_if(takes, [&](uint32_t value) { return elements(value) == 0u; });
    if (takes.size() == 1) {
      role[node] = Role::Same;
      root[node] = takes.front();
      takes.clear();
      return;
    }
  }
  role[node] = Role::Compute;
  if (family == "copy_" && takes.size() == 2 && role[takes[0]] == Role::Input) {
    // What leaves the graph; the value is another's.
    role[node] = Role::Same;
    root[node] = takes[1];
    takes.clear();
    return;
  }
  const fx::OperatorSchema *schema = fx::lookupSchema(of.target);
  if (!schema || !schema->isMutating() || takes.empty())
    return;
  // What was written into has a new value from here on, and so has what it is
  // a part of.
  for (uint32_t value = valueOf(of.operands.front()); value != kNoValue;) {
    written[value] = value == node ? kNoValue : node;
    value = role[value] == Role::Pick ? operands[value].front() : kNoValue;
  }
}

/// Equal for nodes that do the same to the same values.
std::string Values::keyOf(uint32_t node) const {
  const GraphNode &of = graph.nodes[node];
  std::string key = of.target;
  raw_string_ostream os(key);
  for (uint32_t operand : operands[node])
    os << '%' << operand;
  os << '|';
  for (const json::Value &value : of.args)
    if (!getNodeArgument(value))
      os << value << ',';
  for (const auto &[name, value] : of.kwargs)
    if (!getNodeArgument(value))
      os << name << '=' << value << ',';
  if (part[node])
    os << part[node]->start << ':' << part[node]->length;
  if (!of.results.empty()) {
    for (const Dim &dim : of.results.front().shape)
      os << 'x' << dim.value.value_or(-1) << dim.symbol;
    os << of.results.front().dtype;
  }
  return key;
}
