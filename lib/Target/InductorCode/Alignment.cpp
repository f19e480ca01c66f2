// From post-grad nodes to exported nodes. Recorded identities come first.
// Without them, the two graphs are aligned as sequences: what stands for one
// node before decomposition is one element, and operators, sizes and source
// lines say how well two elements fit. Names only break ties.

#include "opprof/Target/InductorCode/Alignment.h"
#include "opprof/Analysis/Cost/CostModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

/// Cells of the alignment table; larger graphs are aligned in a band.
static constexpr uint64_t kMaxCells = 64'000'000;

//===----------------------------------------------------------------------===//
// Which operators decompose into which
//===----------------------------------------------------------------------===//

/// An operator under one name for all its spellings.
static StringRef canonical(StringRef family) {
  family.consume_back("_");
  return StringSwitch<StringRef>(family)
      .Cases({"addmm", "mm", "linear", "_addmm_activation"}, "matmul")
      .Cases({"bmm", "baddbmm", "matmul", "mv", "dot"}, "matmul")
      .Cases({"conv1d", "conv2d", "conv3d", "_convolution"}, "convolution")
      .Cases({"view", "_unsafe_view", "reshape", "flatten", "unflatten"},
             "view")
      .Cases({"permute", "transpose", "t", "swapaxes"}, "permute")
      .Cases({"convert_element_type", "_to_copy", "to", "type_as"}, "to")
      .Cases({"float", "half", "bfloat16"}, "to")
      .Cases({"relu6", "hardtanh"}, "hardtanh")
      .Cases({"_softmax", "softmax", "_safe_softmax"}, "softmax")
      .Cases({"_log_softmax", "log_softmax"}, "log_softmax")
      .Cases({"native_layer_norm", "layer_norm"}, "layer_norm")
      .Cases({"split", "split_with_sizes", "chunk", "unbind"}, "split")
      .Cases({"arange", "iota"}, "arange")
      .Cases({"truediv", "div", "__truediv__"}, "div")
      .Cases({"_fused_rms_norm", "rms_norm"}, "rms_norm")
      .Cases({"_native_batch_norm_legit_no_training", "batch_norm",
              "native_batch_norm", "_native_batch_norm_legit"},
             "batch_norm")
      .StartsWith("_scaled_dot_product", "attention")
      .StartsWith("scaled_dot_product", "attention")
      .StartsWith("max_pool", "max_pool")
      .Cases({"_low_memory_max_pool_with_offsets",
              "_low_memory_max_pool2d_with_offsets"},
             "max_pool")
      .StartsWith("adaptive_avg_pool", "avg_pool")
      .StartsWith("_adaptive_avg_pool", "avg_pool")
      .Default(family);
}

/// Whether `part`, canonical, can come from decomposing `whole`, canonical.
static bool decomposesInto(StringRef whole, StringRef part) {
  if (whole == part)
    return true;
  // Copies, casts and views appear wherever a layout or dtype is needed.
  if (StringSwitch<bool>(part)
          .Cases({"view", "permute", "clone", "to", "expand"}, true)
          .Cases({"unsqueeze", "squeeze", "getitem", "alias"}, true)
          .Default(false))
    return !isViewTarget(("aten." + whole + ".default").str());
  auto any = [&](std::initializer_list<StringRef> parts) {
    return is_contained(parts, part);
  };
  if (whole == "matmul")
    return any({"add", "mul", "sum", "constant_pad_nd"});
  if (whole == "convolution")
    return any({"add", "constant_pad_nd"});
  if (whole == "layer_norm" || whole == "group_norm" ||
      whole == "instance_norm")
    return any({"var_mean", "sub", "add", "rsqrt", "mul", "mean", "pow"});
  if (whole == "batch_norm")
    return any({"sub", "add", "sqrt", "rsqrt", "reciprocal", "mul", "var_mean",
                "div"});
  if (whole == "rms_norm")
    return any({"pow", "mean", "add", "rsqrt", "mul"});
  if (whole == "gelu")
    return any({"mul", "erf", "add", "tanh", "pow"});
  if (whole == "silu" || whole == "sigmoid")
    return any({"neg", "exp", "add", "div", "sigmoid", "mul", "reciprocal"});
  if (whole == "softmax" || whole == "log_softmax")
    return any({"amax", "sub", "exp", "sum", "div", "log",
                "prepare_softmax_online", "max"});
  if (whole == "attention")
    return any({"matmul", "softmax", "mul",           "amax",
                "sub",    "exp",     "sum",           "div",
                "where",  "full",    "scalar_tensor", "constant_pad_nd",
                "slice",  "le",      "arange",        "add",
                "eq",     "any",     "full_like",     "logical_not",
                "cat"});
  if (whole == "hardtanh")
    return any({"clamp_min", "clamp_max", "clamp"});
  if (whole == "avg_pool")
    return any({"mean", "sum", "div"});
  if (whole == "mean")
    return any({"sum", "div"});
  if (whole == "dropout")
    return any({"mul", "gt", "inductor_random", "inductor_lookup_seed"});
  if (whole == "cross_entropy_loss" || whole == "cross_entropy")
    return any({"log_softmax", "amax", "sub", "exp", "sum", "log", "gather",
                "neg", "where", "div", "ne", "full", "prepare_softmax_online"});
  if (whole == "lstm" || whole == "gru")
    return any({"matmul", "add", "mul", "sigmoid", "tanh", "split", "cat",
                "select", "slice", "sub", "stack", "full", "zeros"});
  if (whole == "square" || whole == "rsqrt" || whole == "pow")
    return any({"mul", "pow", "sqrt", "reciprocal"});
  if (whole == "index_copy" || whole == "index_put")
    return any({"index_put", "scatter"});
  if (whole == "where" || whole == "masked_fill")
    return any({"where", "scalar_tensor", "full"});
  return false;
}

//===----------------------------------------------------------------------===//
// Sequence alignment
//===----------------------------------------------------------------------===//

namespace {
/// One element of the post-grad sequence: what one earlier node became.
struct Group {
  std::string name;
  std::vector<uint32_t> nodes;
  /// Canonical operators of its nodes, views left out where there is more.
  SmallVector<StringRef, 4> operators;
  bool onlyViews = false;
  std::optional<uint64_t> elements;
  SourcePlace source;
};

struct Element {
  uint32_t node;
  StringRef op;
  std::optional<uint64_t> elements;
  SourcePlace source;
};
} // namespace

static std::optional<uint64_t> elementsOf(const GraphNode &node) {
  if (node.results.empty())
    return std::nullopt;
  return node.results.front().elements();
}

static StringRef baseName(StringRef path) {
  return path.substr(path.find_last_of("/\\") + 1);
}

/// Fit of two elements, or nothing where they can't be the same.
/// Views alone stand for an operator that computes only as a part of it.
static std::optional<int> score(const Group &group, const Element &element,
                                StringRef elementName, bool asPart = false) {
  int value;
  bool exact = is_contained(group.operators, element.op);
  bool composed = all_of(group.operators, [&](StringRef op) {
    return decomposesInto(element.op, op);
  });
  if (exact && composed)
    value = 60;
  else if (composed && (asPart || !group.onlyViews))
    value = 28;
  else if (exact)
    value = 20;
  else
    return std::nullopt;
  if (group.elements && element.elements)
    value += *group.elements == *element.elements ? 20 : -25;
  if (group.source.line && element.source.line) {
    bool same = group.source.line == element.source.line &&
                baseName(group.source.file) == baseName(element.source.file);
    value += same ? 30 : -40;
  }
  if (group.name == elementName)
    value += 2;
  return value > 0 ? std::optional<int>(value) : std::nullopt;
}

static std::vector<Group> makeGroups(const GraphView &graph,
                                     const Provenance::Table *groups) {
  std::vector<Group> out;
  StringMap<uint32_t> index;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode &node = graph.nodes[i];
    if (node.op != GraphNode::Call)
      continue;
    std::string key = "\x01" + node.name;
    std::string name = node.name;
    if (groups)
      if (auto it = groups->find(node.name);
          it != groups->end() && it->second.size() == 1)
        key = name = it->second.front();
    auto [it, inserted] = index.try_emplace(key, out.size());
    if (inserted) {
      out.emplace_back();
      out.back().name = name;
      out.back().source = node.source;
    }
    out[it->second].nodes.push_back(i);
  }
  for (Group &group : out) {
    SmallVector<StringRef, 4> views;
    for (uint32_t i : group.nodes) {
      const GraphNode &node = graph.nodes[i];
      StringRef op = canonical(opFamily(node.target));
      if (op == "getitem")
        continue;
      SmallVector<StringRef, 4> &list =
          isViewTarget(node.target) ? views : group.operators;
      if (!is_contained(list, op))
        list.push_back(op);
    }
    group.onlyViews = group.operators.empty();
    if (group.onlyViews)
      group.operators = views;
    group.elements = elementsOf(graph.nodes[group.nodes.back()]);
  }
  return out;
}

/// Source lines tell elements apart where both captures ran the same files.
/// Where most lines of one are unknown to the other, they say nothing.
static void dropForeignEvidence(MutableArrayRef<Group> groups,
                                MutableArrayRef<Element> elements) {
  auto key = [](const SourcePlace &place) {
    return (baseName(place.file) + ":" + Twine(place.line)).str();
  };
  StringSet<> known;
  for (const Element &element : elements)
    if (element.source.line)
      known.insert(key(element.source));
  size_t placed = 0, shared = 0;
  for (const Group &group : groups)
    if (group.source.line) {
      ++placed;
      shared += known.contains(key(group.source));
    }
  if (shared * 2 < placed)
    for (Group &group : groups)
      group.source = SourcePlace();

  // The same holds for sizes: the captures may have had other batches. What
  // products, convolutions and attention give tells it best.
  auto isAnchor = [](StringRef op) {
    return op == "matmul" || op == "convolution" || op == "attention";
  };
  std::set<uint64_t> sizes;
  for (const Element &element : elements)
    if (element.elements && isAnchor(element.op))
      sizes.insert(*element.elements);
  size_t sized = 0, common = 0;
  for (const Group &group : groups)
    if (group.elements && any_of(group.operators, isAnchor)) {
      ++sized;
      common += sizes.count(*group.elements);
    }
  if (common * 2 < sized)
    for (Group &group : groups)
      group.elements = std::nullopt;
}

static constexpr uint32_t kUnmatched = ~0u;

/// Which result a getitem takes.
static std::optional<int64_t> memberOf(const GraphNode &node) {
  if (node.target != "operator.getitem" || node.args.size() != 2)
    return std::nullopt;
  return node.args[1].getAsInteger();
}

/// Moves each group that its operands speak against: what takes a value comes
/// from the exported node of that value, or from one that takes it.
static void followDataflow(ArrayRef<Group> groups, ArrayRef<Element> elements,
                           const GraphView &postGrad, const GraphView &exported,
                           std::vector<uint32_t> &matched) {
  std::vector<uint32_t> groupOf(postGrad.nodes.size(), kUnmatched);
  for (auto [i, group] : enumerate(groups))
    for (uint32_t node : group.nodes)
      groupOf[node] = i;
  std::vector<uint32_t> columnOf(exported.nodes.size(), kUnmatched);
  for (auto [i, element] : enumerate(elements))
    columnOf[element.node] = i;
  std::vector<std::vector<uint32_t>> users = exported.users();

  for (uint32_t row = 0; row < groups.size(); ++row) {
    SmallVector<uint32_t, 8> candidates;
    for (uint32_t node : groups[row].nodes)
      for (uint32_t operand : postGrad.nodes[node].operands) {
        uint32_t from = groupOf[operand];
        if (from == kUnmatched || from == row || matched[from] == kUnmatched)
          continue;
        candidates.push_back(matched[from]);
        // Of several results, the one that is taken here.
        std::optional<int64_t> member = memberOf(postGrad.nodes[operand]);
        SmallVector<uint32_t, 8> work = {elements[matched[from]].node};
        for (size_t at = 0; at < work.size() && at < 64; ++at)
          for (uint32_t user : users[work[at]]) {
            std::optional<int64_t> taken = memberOf(exported.nodes[user]);
            if (columnOf[user] != kUnmatched)
              candidates.push_back(columnOf[user]);
            else if (!member || !taken || member == taken)
              work.push_back(user);
          }
      }
    if (candidates.empty() || is_contained(candidates, matched[row]))
      continue;
    int best = 0;
    for (bool asPart : {false, true}) {
      for (uint32_t column : candidates)
        if (std::optional<int> fit =
                score(groups[row], elements[column],
                      exported.nodes[elements[column].node].name, asPart))
          if (*fit > best) {
            best = *fit;
            matched[row] = column;
          }
      if (best)
        break;
    }
  }
}

std::vector<std::vector<uint32_t>>
opprof::inductor::alignByStructure(const GraphView &postGrad,
                                   const GraphView &exported,
                                   const Provenance::Table *table) {
  std::vector<std::vector<uint32_t>> result(postGrad.nodes.size());
  std::vector<Group> groups = makeGroups(postGrad, table);
  std::vector<Element> elements;
  for (uint32_t i = 0; i < exported.nodes.size(); ++i) {
    const GraphNode &node = exported.nodes[i];
    StringRef op = canonical(opFamily(node.target));
    if (node.op == GraphNode::Call && op != "getitem")
      elements.push_back({i, op, elementsOf(node), node.source});
  }
  dropForeignEvidence(groups, elements);
  const size_t rows = groups.size(), columns = elements.size();
  if (!rows || !columns)
    return result;

  // Needleman-Wunsch without a price for gaps, in a band round the diagonal
  // where the whole table would be too large.
  uint64_t width = columns;
  if (rows * columns > kMaxCells)
    width = std::max<uint64_t>(256, kMaxCells / rows);
  auto begin = [&](size_t row) -> size_t {
    if (width >= columns)
      return 0;
    size_t middle = static_cast<uint64_t>(row) * columns / rows;
    return middle > width / 2
               ? std::min<size_t>(middle - width / 2, columns - width)
               : 0;
  };
  enum Step : uint8_t { None, Match, SkipGroup, SkipElement };
  std::vector<uint8_t> steps(rows * width, None);
  std::vector<int> above(columns + 1, 0), here(columns + 1, 0);
  for (size_t row = 0; row < rows; ++row) {
    size_t first = begin(row);
    size_t last = std::min<size_t>(first + width, columns);
    here[first] = above[first];
    for (size_t column = first; column < last; ++column) {
      int best = here[column];
      Step step = SkipElement;
      if (above[column + 1] >= best) {
        best = above[column + 1];
        step = SkipGroup;
      }
      const Element &element = elements[column];
      if (std::optional<int> fit =
              score(groups[row], element, exported.nodes[element.node].name))
        if (above[column] + *fit > best) {
          best = above[column] + *fit;
          step = Match;
        }
      here[column + 1] = best;
      steps[row * width + (column - first)] = step;
    }
    for (size_t column = last; column < columns; ++column)
      here[column + 1] = here[column];
    std::swap(above, here);
  }
  std::vector<uint32_t> matched(rows, kUnmatched);
  for (size_t row = rows, column = columns; row && column;) {
    size_t first = begin(row - 1);
    if (column <= first) {
      --row;
      continue;
    }
    if (column > first + width) {
      column = first + width;
      continue;
    }
    switch (steps[(row - 1) * width + (column - 1 - first)]) {
    case Match:
      matched[--row] = --column;
      break;
    case SkipGroup:
      --row;
      break;
    default:
      --column;
    }
  }

  // What the sequence left out belongs to a neighbour that it is a part of: an
  // operator that became several, or a value computed where it is first used.
  std::vector<uint32_t> before(rows, kUnmatched), next(rows, kUnmatched);
  for (size_t row = 0; row < rows; ++row)
    before[row] = matched[row] != kUnmatched ? matched[row]
                  : row                      ? before[row - 1]
                                             : kUnmatched;
  for (size_t row = rows; row-- > 0;)
    next[row] = matched[row] != kUnmatched ? matched[row]
                : row + 1 < rows           ? next[row + 1]
                                           : kUnmatched;
  for (size_t row = 0; row < rows; ++row) {
    if (matched[row] != kUnmatched)
      continue;
    const Group &group = groups[row];
    uint32_t low = before[row] == kUnmatched ? 0 : before[row];
    uint32_t high = next[row] == kUnmatched ? columns - 1 : next[row];
    int best = 0;
    for (uint32_t column = low; column <= high && column < low + 256;
         ++column) {
      const Element &element = elements[column];
      Group plain = group;
      plain.elements = std::nullopt; // A part has sizes of its own.
      if (std::optional<int> fit =
              score(plain, element, exported.nodes[element.node].name,
                    /*asPart=*/true))
        if (*fit > best) {
          best = *fit;
          matched[row] = column;
        }
    }
  }
  followDataflow(groups, elements, postGrad, exported, matched);
  for (auto [group, column] : zip(groups, matched))
    if (column != kUnmatched)
      for (uint32_t node : group.nodes)
        result[node] = {elements[column].node};

  // A node that came from several earlier ones (or from a pass) has the
  // exported nodes of all of those.
  if (table) {
    StringMap<uint32_t> byName;
    for (auto [group, column] : zip(groups, matched))
      if (column != kUnmatched)
        byName[group.name] = elements[column].node;
    for (uint32_t i = 0; i < postGrad.nodes.size(); ++i) {
      auto it = table->find(postGrad.nodes[i].name);
      if (it == table->end() || it->second.size() < 2)
        continue;
      std::vector<uint32_t> all;
      for (const std::string &name : it->second)
        if (auto known = byName.find(name);
            known != byName.end() && !is_contained(all, known->second))
          all.push_back(known->second);
      if (!all.empty())
        result[i] = std::move(all);
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Launch maps
//===----------------------------------------------------------------------===//

static std::string placeText(const SourcePlace &place) {
  if (!place.line)
    return "";
  return place.file + ":" + std::to_string(place.line);
}

void opprof::inductor::alignLaunches(LaunchMap &map,
                                     const AlignmentSources &sources) {
  const GraphView *exported = sources.exported;
  const GraphView *recorded = sources.recorded;
  // How many nodes PyTorch's own records reach.
  bool byRecord = false;
  if (recorded && exported)
    for (const GraphNode &node : recorded->nodes)
      for (const auto &[graph, name] : node.from)
        byRecord |= graph == exported->name && exported->find(name);

  std::vector<std::vector<uint32_t>> structure;
  const GraphView *base = sources.postGrad ? sources.postGrad : recorded;
  if (exported && base && !byRecord)
    structure = alignByStructure(
        *base, *exported,
        sources.provenance ? &sources.provenance->postToPre : nullptr);

  if (exported) {
    Alignment &alignment = map.alignment.emplace();
    alignment.method = byRecord ? "recorded" : "structure";
    alignment.graph = exported->name;
    alignment.stage = exported->stage.empty() ? "export" : exported->stage;
  }

  StringMap<bool> counted;
  for (Launch &launch : map.launches)
    for (LaunchNode &node : launch.nodes) {
      const GraphView *graph = base;
      if (!node.graph.empty() && graph)
        graph = graph->subgraph(node.graph);
      std::optional<uint32_t> at =
          graph ? graph->find(node.name) : std::nullopt;
      if (at) {
        const GraphNode &own = graph->nodes[*at];
        node.source = placeText(own.source);
        if (own.hasModule)
          node.module = own.module;
      }
      const GraphNode *record = nullptr;
      if (recorded && node.graph.empty())
        if (std::optional<uint32_t> found = recorded->find(node.name))
          record = &recorded->nodes[*found];
      if (record) {
        if (record->hasModule)
          node.module = record->module;
        if (record->source.line)
          node.source = placeText(record->source);
      }

      auto refer = [&](const GraphNode &origin) {
        NodeId ref{exported->name, map.alignment->stage, origin.name};
        if (is_contained(node.from, ref))
          return;
        if (node.from.empty()) {
          if (origin.hasModule)
            node.module = origin.module;
          if (origin.source.line)
            node.source = placeText(origin.source);
        }
        node.from.push_back(std::move(ref));
      };
      if (exported) {
        if (byRecord) {
          if (record)
            for (const auto &[name, origin] : record->from)
              if (name == exported->name)
                if (std::optional<uint32_t> found = exported->find(origin))
                  refer(exported->nodes[*found]);
        } else if (at && node.graph.empty() && *at < structure.size()) {
          for (uint32_t origin : structure[*at])
            refer(exported->nodes[origin]);
        }
        auto [it, inserted] = counted.try_emplace(
            node.graph + "\x01" + node.name, !node.from.empty());
        if (inserted) {
          ++map.alignment->of;
          map.alignment->aligned += it->second;
        }
      } else if (sources.provenance && node.graph.empty()) {
        // Without an exported graph: the nodes that Dynamo traced.
        auto it = sources.provenance->postToPre.find(node.name);
        if (it != sources.provenance->postToPre.end())
          for (const std::string &name : it->second)
            node.from.push_back({map.graph, "dynamo", name});
      }
    }
}
