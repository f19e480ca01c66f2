// Bodies of higher-order operators in place of their calls. A region of
// autocast or a checkpoint computes nothing by itself, and compiling leaves
// only its body's nodes: those are what post-grad nodes came from.

#include "AlignmentBodies.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// Bodies may nest; what nests deeper is left as a call.
static constexpr unsigned kMaxBodyDepth = 32;
/// What copies may come to in any case, and how often the exported program.
static constexpr size_t kMinBudget = 1'000'000;
static constexpr size_t kCopies = 4;

//===----------------------------------------------------------------------===//
// How much is copied
//===----------------------------------------------------------------------===//

static size_t countMembers(const json::Value &value) {
  size_t count = 1;
  if (const json::Array *list = value.getAsArray())
    for (const json::Value &member : *list)
      count += countMembers(member);
  else if (const json::Object *object = value.getAsObject())
    for (const auto &[key, member] : *object)
      count += countMembers(member);
  return count;
}

static size_t countParts(const GraphView &graph) {
  size_t count = 1 + graph.outputs.size();
  for (const GraphNode &node : graph.nodes) {
    count += 1 + node.operands.size();
    for (const json::Value &argument : node.args)
      count += countMembers(argument);
    for (const auto &[key, argument] : node.kwargs)
      count += countMembers(argument);
  }
  return count;
}

BodyBudget::BodyBudget(const GraphView &exported) {
  left = kMinBudget + kCopies * countParts(exported);
  for (const GraphView &body : exported.subgraphs)
    left += kCopies * sizeOf(body);
}

size_t BodyBudget::sizeOf(const GraphView &body) {
  auto [it, inserted] = sizes.try_emplace(&body);
  if (inserted)
    it->second = countParts(body);
  return it->second;
}

bool BodyBudget::take(const GraphView &body) {
  size_t size = sizeOf(body);
  if (size > left) {
    ++numRefused;
    return false;
  }
  left -= size;
  return true;
}

//===----------------------------------------------------------------------===//
// Bodies in place of calls
//===----------------------------------------------------------------------===//

BodyUse opprof::inductor::getBodyUse(StringRef target) {
  if (!target.consume_front("higher_order."))
    return BodyUse::None;
  return StringSwitch<BodyUse>(target)
      .Cases({"wrap_with_autocast", "wrap_with_set_grad_enabled"},
             BodyUse::Once)
      .Cases({"wrap", "wrap_activation_checkpoint"}, BodyUse::Once)
      .Cases({"tag_activation_checkpoint", "invoke_subgraph"}, BodyUse::Once)
      .Cases({"hints_wrapper", "strict_mode"}, BodyUse::Once)
      .Case("cond", BodyUse::Choice)
      .Cases({"while_loop", "scan", "associative_scan"}, BodyUse::Loop)
      .Cases({"map", "map_impl"}, BodyUse::Loop)
      .Default(BodyUse::None);
}

const GraphView *opprof::inductor::findBody(const GraphView &exported,
                                            const GraphNode &node) {
  if (getBodyUse(node.target) != BodyUse::Once)
    return nullptr;
  for (const json::Value &argument : node.args)
    if (const json::Object *object = argument.getAsObject())
      if (std::optional<StringRef> name = object->getString("graph"))
        return exported.subgraph(*name);
  return nullptr;
}

namespace {
class Inliner {
public:
  Inliner(const GraphView &exported, const StringSet<> &kept,
          BodyBudget &budget, InlinedGraph &out)
      : exported(exported), kept(kept), budget(budget), out(out) {}

  /// Appends the nodes of `view`; gives the new places of its outputs.
  SmallVector<uint32_t> append(const GraphView &view,
                               ArrayRef<uint32_t> arguments, unsigned depth);

private:
  const GraphView &exported;
  const StringSet<> &kept;
  BodyBudget &budget;
  InlinedGraph &out;
};
} // namespace

SmallVector<uint32_t> Inliner::append(const GraphView &view,
                                      ArrayRef<uint32_t> arguments,
                                      unsigned depth) {
  std::vector<uint32_t> places(view.nodes.size());
  // What the calls that are left out give.
  DenseMap<uint32_t, SmallVector<uint32_t>> results;
  size_t inputs = 0;
  for (uint32_t i = 0; i < view.nodes.size(); ++i) {
    const GraphNode &node = view.nodes[i];
    if (depth && node.op == GraphNode::Placeholder &&
        inputs < arguments.size()) {
      places[i] = arguments[inputs++];
      continue;
    }
    SmallVector<uint32_t> operands;
    for (uint32_t operand : node.operands)
      operands.push_back(places[operand]);
    const GraphView *body = depth < kMaxBodyDepth && !kept.contains(node.target)
                                ? findBody(exported, node)
                                : nullptr;
    if (body && budget.take(*body)) {
      SmallVector<uint32_t> values = append(*body, operands, depth + 1);
      if (!values.empty()) {
        places[i] = values.front();
        results[i] = std::move(values);
        continue;
      }
    }
    if (node.target == "operator.getitem" && !node.operands.empty() &&
        node.args.size() == 2)
      if (auto it = results.find(node.operands.front()); it != results.end()) {
        std::optional<int64_t> member = node.args[1].getAsInteger();
        if (member && *member >= 0 &&
            *member < static_cast<int64_t>(it->second.size())) {
          places[i] = it->second[*member];
          continue;
        }
      }
    places[i] = out.graph.nodes.size();
    out.graph.nodes.push_back(node);
    out.graph.nodes.back().operands.assign(operands.begin(), operands.end());
    out.origins.push_back({&view, i});
  }
  SmallVector<uint32_t> outputs;
  for (uint32_t output : view.outputs)
    outputs.push_back(places[output]);
  return outputs;
}

InlinedGraph opprof::inductor::inlineBodies(const GraphView &exported,
                                            const GraphView &view,
                                            const StringSet<> &kept,
                                            BodyBudget &budget) {
  InlinedGraph out;
  out.graph.name = view.name;
  out.graph.stage = view.stage;
  SmallVector<uint32_t> outputs =
      Inliner(exported, kept, budget, out).append(view, {}, 0);
  out.graph.outputs.assign(outputs.begin(), outputs.end());
  out.graph.reindex();
  return out;
}

/// Calls `visit` with each value among an argument and the members of lists and
/// tuples in it.
static void visitArguments(const json::Value &value,
                           function_ref<void(const json::Value &)> visit) {
  const json::Array *list = value.getAsArray();
  if (const json::Object *object = value.getAsObject(); object && !list)
    list = object->getArray("tuple");
  if (!list)
    return visit(value);
  for (const json::Value &member : *list)
    visitArguments(member, visit);
}

/// The name of the body that an argument is, or nothing.
static std::optional<StringRef> bodyName(const json::Value &argument,
                                         const GraphNode &call,
                                         const GraphView &view) {
  if (const json::Object *object = argument.getAsObject())
    return object->getString("graph");
  std::optional<uint32_t> at = getNodeArgument(argument);
  if (at && isBodyName(call, view.nodes[*at]))
    return view.nodes[*at].target;
  return std::nullopt;
}

SmallVector<const GraphView *, 2>
opprof::inductor::findBodies(const GraphView &whole, const GraphView &view,
                             const GraphNode &call) {
  SmallVector<const GraphView *, 2> bodies;
  if (!isHigherOrder(call))
    return bodies;
  for (const json::Value &argument : call.args)
    visitArguments(argument, [&](const json::Value &value) {
      std::optional<StringRef> name = bodyName(value, call, view);
      if (!name)
        return;
      // A printed body names its own bodies without its name before them.
      const GraphView *body = whole.subgraph((view.name + "." + *name).str());
      bodies.push_back(body ? body : whole.subgraph(*name));
    });
  if (is_contained(bodies, nullptr))
    bodies.clear();
  return bodies;
}

SmallVector<uint32_t> opprof::inductor::bodyOperands(const GraphNode &call,
                                                     const GraphView &view) {
  SmallVector<uint32_t> operands;
  bool skipsFirst = getBodyUse(call.target) == BodyUse::Choice;
  for (const json::Value &argument : call.args) {
    if (std::exchange(skipsFirst, false))
      continue;
    visitArguments(argument, [&](const json::Value &value) {
      // The second argument of a shared body is the name that it has.
      if (bodyName(value, call, view) || value.getAsString())
        return;
      operands.push_back(getNodeArgument(value).value_or(kNoOperand));
    });
  }
  return operands;
}
