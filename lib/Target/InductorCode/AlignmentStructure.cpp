// Ties the nodes of two graphs of one program by their dataflow.
//
// The post-grad nodes are gone through in order. A node's operands are tied
// already, so the exported nodes that take those values are its candidates;
// operators, operands in their places, parts of tensors, sizes and constants
// say which of them can be it. Where several can, one is chosen as the sequence
// of both graphs proposes, and each other one stays as a *reading*: what
// follows is tied under it as well, until nothing fits and it is refuted. What
// an unrefuted reading would tie otherwise is not proven, and neither is what
// depends on it.

#include "AlignmentOperators.h"
#include "AlignmentSequence.h"
#include "AlignmentValues.h"
#include "opprof/Target/InductorCode/Alignment.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// Readings that are followed at once; what is open beyond is not proven.
static constexpr size_t kMaxReadings = 256;
/// Alternatives of one node that become readings.
static constexpr size_t kMaxRivals = 6;

namespace {

/// How a node can be an exported one.
enum class Fit : uint8_t { None, Part, Whole };

/// The same program with one choice taken otherwise.
struct Reading {
  DenseMap<uint32_t, uint32_t> alternatives;
  DenseSet<uint32_t> claimed;
  bool refuted = false;
};

class Aligner {
public:
  Aligner(const GraphView &postGrad, const GraphView &exported,
          const Provenance::Table *groups,
          ArrayRef<std::pair<uint32_t, uint32_t>> inputs)
      : post(postGrad, /*merge=*/false), exp(exported, /*merge=*/true),
        groups(groups),
        proposals(proposeBySequence(postGrad, exported, groups)),
        tie(postGrad.nodes.size(), kNoValue), value(tie), inputTie(tie),
        inputTiedBy(tie), proven(postGrad.nodes.size(), false), dim(proven),
        deferred(proven), adopter(tie),
        inputTaken(exported.nodes.size(), false),
        whole(exp.root.size(), kNoValue), also(postGrad.nodes.size()) {
    for (uint32_t i = 0; i < exp.root.size(); ++i)
      if (exp.computes(i) && exp.root[i] == i && !takesValues(i))
        leaves.push_back(i);
      else if (exp.role[i] == Role::Same)
        moves[exp.root[i]].push_back(i);
    for (auto [mine, theirs] : inputs) {
      inputTie[mine] = theirs;
      inputTaken[theirs] = true;
    }
  }

  std::vector<Tie> run();

private:
  /// The exported value of an operand under a reading; kNoValue where unknown.
  uint32_t valueOf(uint32_t operand, const Reading *reading) const {
    if (reading)
      if (auto it = reading->alternatives.find(operand);
          it != reading->alternatives.end())
        return it->second;
    return value[operand];
  }
  bool takesValues(uint32_t element) const {
    return any_of(exp.operands[element],
                  [&](uint32_t operand) { return exp.computes(operand); });
  }
  bool inputsMatch(uint32_t input, uint32_t element) const;
  bool operandMatches(uint32_t operand, uint32_t element,
                      const Reading *reading) const;
  bool constantsAgree(uint32_t node, uint32_t element) const;
  bool sizesAgree(uint32_t node, uint32_t element) const;
  Fit fit(uint32_t node, uint32_t element, const Reading *reading) const;
  Fit fitWhole(uint32_t node, uint32_t element, const Reading *reading) const;
  Fit fitPart(uint32_t node, uint32_t element, const Reading *reading) const;
  SmallVector<std::pair<uint32_t, Fit>, 8>
  candidates(uint32_t node, const Reading *reading) const;
  int score(uint32_t node, uint32_t element, Fit fit) const;
  StringRef groupOf(uint32_t node) const;
  void alignNode(uint32_t node);
  bool alignBySkipping(uint32_t node);
  bool alignAttention(uint32_t node);
  void propose(uint32_t node);
  void adopt(uint32_t node, uint32_t element);
  void settle(uint32_t node, uint32_t element, Fit fit);
  void tieInputs(uint32_t node, uint32_t element);
  void followReadings(uint32_t node, size_t count);
  bool restsOnProof(uint32_t node) const;
  void doubtMissing();
  void tieMoves();
  bool tieMove(uint32_t node);
  void spreadDoubt();

  Values post, exp;
  const Provenance::Table *groups;
  std::vector<uint32_t> proposals;
  /// For each post-grad node, the exported node that it is (a part of), and the
  /// exported value that its own is.
  std::vector<uint32_t> tie, value, inputTie;
  /// The node that tells which input one is; kNoValue where that was known.
  std::vector<uint32_t> inputTiedBy;
  std::vector<bool> proven, dim;
  /// Made of inputs alone, and the node that such a one is made for.
  std::vector<bool> deferred;
  std::vector<uint32_t> adopter;
  std::vector<bool> inputTaken;
  /// The post-grad node that is all of an exported one.
  std::vector<uint32_t> whole;
  /// Other exported nodes that became part of the same post-grad node.
  std::vector<SmallVector<uint32_t, 1>> also;
  /// Exported nodes that compute from inputs alone, and those that hold the
  /// value of another.
  std::vector<uint32_t> leaves;
  DenseMap<uint32_t, SmallVector<uint32_t, 4>> moves;
  std::vector<Reading> readings;
  StringMap<DenseSet<uint32_t>> ofGroup;
};
} // namespace

StringRef Aligner::groupOf(uint32_t node) const {
  if (!groups)
    return "";
  auto it = groups->find(post.graph.nodes[node].name);
  if (it == groups->end() || it->second.size() != 1)
    return "";
  return it->second.front();
}

//===----------------------------------------------------------------------===//
// Whether a node can be an exported one
//===----------------------------------------------------------------------===//

/// Whether a post-grad input can be one of the inputs that `element` takes.
bool Aligner::inputsMatch(uint32_t input, uint32_t element) const {
  return any_of(exp.operands[element], [&](uint32_t candidate) {
    return operandMatches(input, candidate, nullptr);
  });
}

/// Whether the value of a post-grad operand can be that of an exported one.
bool Aligner::operandMatches(uint32_t operand, uint32_t candidate,
                             const Reading *reading) const {
  if (post.role[operand] == Role::Constant ||
      exp.role[candidate] == Role::Constant)
    return post.role[operand] == exp.role[candidate];
  if (post.role[operand] == Role::Input) {
    if (exp.role[candidate] != Role::Input)
      return false;
    if (inputTie[operand] != kNoValue)
      return inputTie[operand] == candidate;
    std::optional<uint64_t> a = post.elements(operand),
                            b = exp.elements(candidate);
    return !inputTaken[candidate] && (!a || !b || a == b);
  }
  uint32_t known = valueOf(operand, reading);
  return known == kNoValue ? exp.computes(candidate) : known == candidate;
}

static void collectNumbers(const json::Value &value,
                           SmallVectorImpl<double> &numbers) {
  if (getNodeArgument(value))
    return;
  if (auto number = value.getAsNumber()) {
    numbers.push_back(*number);
  } else if (const json::Object *object = value.getAsObject()) {
    double real;
    if (std::optional<StringRef> text = object->getString(kRealNumberKey);
        text && !text->getAsDouble(real))
      numbers.push_back(real);
  }
}

/// Whether element-wise operators have the same number beside their tensors.
bool Aligner::constantsAgree(uint32_t node, uint32_t element) const {
  SmallVector<double, 2> a, b;
  for (const json::Value &argument : post.graph.nodes[node].args)
    collectNumbers(argument, a);
  for (const json::Value &argument : exp.graph.nodes[element].args)
    collectNumbers(argument, b);
  if (a.size() != 1 || b.size() != 1)
    return true;
  return std::abs(a[0] - b[0]) <=
         1e-6 * std::max(std::abs(a[0]), std::abs(b[0]));
}

/// Whether results are of one shape where both have as many dimensions, and of
/// as many elements where not: products are taken of flattened tensors. A mask
/// is no number.
bool Aligner::sizesAgree(uint32_t node, uint32_t element) const {
  std::optional<uint64_t> a = post.elements(node), b = exp.elements(element);
  if (!a || !b)
    return true;
  auto isMask = [](const GraphNode &of) {
    return of.results.front().dtype == "bool";
  };
  if (isMask(post.graph.nodes[node]) != isMask(exp.graph.nodes[element]))
    return false;
  if (a != b || post.op[node] == "matmul")
    return a == b;
  const std::vector<Dim> &mine = post.graph.nodes[node].results.front().shape;
  const std::vector<Dim> &theirs =
      exp.graph.nodes[element].results.front().shape;
  return mine.size() != theirs.size() || mine == theirs;
}

Fit Aligner::fitWhole(uint32_t node, uint32_t element,
                      const Reading *reading) const {
  StringRef op = post.op[node];
  auto isValue = [](const Values &values) {
    return [&values](uint32_t operand) {
      return values.role[operand] != Role::Constant;
    };
  };
  SmallVector<uint32_t, 4> mine, theirs;
  copy_if(post.operands[node], std::back_inserter(mine), isValue(post));
  copy_if(exp.operands[element], std::back_inserter(theirs), isValue(exp));
  bool hasBias = op == "matmul" || op == "convolution";
  if (op == "attention") {
    // Masks are made in ways of their own.
    mine.truncate(std::min<size_t>(mine.size(), 3));
    theirs.truncate(std::min<size_t>(theirs.size(), 3));
  } else if (hasBias && theirs.size() == 3 && mine.size() == 2) {
    // A bias may be added afterwards.
    theirs.pop_back();
  } else if (hasBias && mine.size() == 3 && theirs.size() == 2) {
    mine.pop_back();
  }
  if (mine.size() != theirs.size())
    return Fit::None;
  if (!sizesAgree(node, element))
    return Fit::None;
  if (op == "part" && post.part[node] && exp.part[element] &&
      !(post.part[node] == exp.part[element]))
    return Fit::None;
  if (!isComposite(op) && op != "part" && !constantsAgree(node, element))
    return Fit::None;
  auto matches = [&](ArrayRef<uint32_t> order) {
    return all_of(zip(mine, order), [&](auto pair) {
      return operandMatches(std::get<0>(pair), std::get<1>(pair), reading);
    });
  };
  if (matches(theirs))
    return Fit::Whole;
  if (isCommutative(op) && theirs.size() == 2) {
    std::swap(theirs[0], theirs[1]);
    if (matches(theirs))
      return Fit::Whole;
  }
  return Fit::None;
}

/// A part takes what the whole takes, or what other parts of it made.
Fit Aligner::fitPart(uint32_t node, uint32_t element,
                     const Reading *reading) const {
  bool anyInput = false, anyValue = false;
  for (uint32_t operand : post.operands[node]) {
    if (post.role[operand] == Role::Constant)
      continue;
    if (post.role[operand] == Role::Input) {
      if (!inputsMatch(operand, element))
        return Fit::None;
      anyInput = true;
      continue;
    }
    uint32_t known = valueOf(operand, reading);
    if (known == kNoValue)
      continue;
    if (known != element && !is_contained(exp.operands[element], known))
      return Fit::None;
    anyValue = true;
  }
  // What one node has done already lacks a bias at most.
  if (whole[element] != kNoValue && whole[element] != node &&
      !(post.op[node] == "add" &&
        (anyInput || exp.operands[element].size() > 2)))
    return Fit::None;
  return anyInput || anyValue ? Fit::Part : Fit::None;
}

Fit Aligner::fit(uint32_t node, uint32_t element,
                 const Reading *reading) const {
  if (post.op[node] == exp.op[element])
    return fitWhole(node, element, reading);
  if (isComposite(exp.op[element]) &&
      decomposesInto(exp.op[element], post.op[node]))
    return fitPart(node, element, reading);
  return Fit::None;
}

/// The exported nodes that can be this one, by dataflow.
SmallVector<std::pair<uint32_t, Fit>, 8>
Aligner::candidates(uint32_t node, const Reading *reading) const {
  SmallVector<std::pair<uint32_t, Fit>, 8> found;
  DenseSet<uint32_t> seen;
  auto consider = [&](uint32_t element) {
    if (!seen.insert(element).second)
      return;
    if (Fit how = fit(node, element, reading); how != Fit::None)
      found.push_back({element, how});
  };
  bool unknown = false;
  // All operands have to fit: to look at the users of one is enough, of that
  // with the fewest.
  uint32_t anchor = kNoValue;
  for (uint32_t operand : post.operands[node]) {
    if (post.role[operand] == Role::Constant || deferred[operand])
      continue;
    uint32_t known = post.role[operand] == Role::Input
                         ? inputTie[operand]
                         : valueOf(operand, reading);
    unknown |= known == kNoValue && post.role[operand] != Role::Input;
    if (known != kNoValue &&
        (anchor == kNoValue ||
         exp.users[known].size() < exp.users[anchor].size()))
      anchor = known;
  }
  if (anchor != kNoValue) {
    if (exp.computes(anchor))
      consider(anchor);
    for (uint32_t user : exp.users[anchor])
      consider(user);
  }
  if (anchor == kNoValue && !unknown)
    for (uint32_t element : leaves)
      consider(element);
  return found;
}

int Aligner::score(uint32_t node, uint32_t element, Fit fit) const {
  int points = fit == Fit::Whole ? 60 : 30;
  if (fit == Fit::Whole && whole[element] != kNoValue)
    points -= 50;
  if (StringRef group = groupOf(node); !group.empty()) {
    auto known = ofGroup.find(group);
    if (known != ofGroup.end() && known->second.contains(element))
      points += 20;
  }
  if (proposals[node] == element)
    points += 8;
  const SourcePlace &a = post.graph.nodes[node].source,
                    &b = exp.graph.nodes[element].source;
  if (a.line && b.line && a.line == b.line &&
      StringRef(a.file).rsplit('/').second ==
          StringRef(b.file).rsplit('/').second)
    points += 5;
  return points;
}

//===----------------------------------------------------------------------===//
// Deciding
//===----------------------------------------------------------------------===//

bool Aligner::restsOnProof(uint32_t node) const {
  ArrayRef<uint32_t> operands = post.operands[node];
  // What attention is of says which it is; its mask is an operand of its own.
  if (post.op[node] == "attention")
    operands = operands.take_front(3);
  return all_of(operands, [&](uint32_t operand) {
    return !post.computes(operand) || deferred[operand] || proven[operand];
  });
}

/// Post-grad inputs that can only be one of the exported ones.
void Aligner::tieInputs(uint32_t node, uint32_t element) {
  for (uint32_t operand : post.operands[node]) {
    if (post.role[operand] != Role::Input || inputTie[operand] != kNoValue)
      continue;
    uint32_t only = kNoValue;
    bool several = false;
    for (uint32_t candidate : exp.operands[element])
      if (candidate != only && operandMatches(operand, candidate, nullptr)) {
        several |= only != kNoValue;
        only = candidate;
      }
    if (only == kNoValue || several)
      continue;
    inputTie[operand] = only;
    inputTiedBy[operand] = node;
    inputTaken[only] = true;
  }
}

void Aligner::settle(uint32_t node, uint32_t element, Fit fit) {
  tie[node] = value[node] = element;
  if (fit == Fit::Whole && whole[element] == kNoValue)
    whole[element] = node;
  if (StringRef group = groupOf(node); !group.empty())
    ofGroup[group].insert(element);
}

/// Ties what an open reading would tie otherwise, or refutes it. Only the first
/// `count` readings are older than this node.
void Aligner::followReadings(uint32_t node, size_t count) {
  uint32_t element = tie[node];
  for (Reading &reading : MutableArrayRef(readings).take_front(count)) {
    if (reading.refuted)
      continue;
    bool isClaimed =
        whole[element] == node && reading.claimed.contains(element);
    if (!isClaimed && none_of(post.operands[node], [&](uint32_t operand) {
          return reading.alternatives.contains(operand);
        }))
      continue;
    uint32_t instead = kNoValue;
    bool same = false;
    for (auto [candidate, how] : candidates(node, &reading)) {
      if (candidate == element && !isClaimed) {
        same = true;
        break;
      }
      if (how == Fit::Whole && reading.claimed.contains(candidate))
        continue;
      // What another node is may only be this one where that is another too.
      if (how == Fit::Whole && whole[candidate] != kNoValue &&
          whole[candidate] != node &&
          !reading.alternatives.contains(whole[candidate]))
        continue;
      if (instead == kNoValue)
        instead = candidate;
    }
    if (same)
      continue;
    if (instead == kNoValue) {
      reading.refuted = true;
      continue;
    }
    reading.alternatives[node] = instead;
    if (exp.op[instead] == post.op[node])
      reading.claimed.insert(instead);
  }
}

/// The sequence proposes, and nothing speaks for it.
void Aligner::propose(uint32_t node) {
  uint32_t element = proposals[node];
  if (element == kNoValue)
    return;
  tie[node] = element;
  bool free = exp.op[element] == post.op[node] && whole[element] == kNoValue &&
              post.elements(node) == exp.elements(element);
  if (free)
    settle(node, element, Fit::Whole);
  dim[node] = !free;
}

/// What was made of inputs alone belongs to the first part that takes it.
void Aligner::adopt(uint32_t node, uint32_t element) {
  for (uint32_t operand : post.operands[node]) {
    if (!deferred[operand] || tie[operand] != kNoValue ||
        !decomposesInto(exp.op[element], post.op[operand]))
      continue;
    tie[operand] = element;
    adopter[operand] = node;
    proven[operand] = all_of(post.operands[operand], [&](uint32_t input) {
      return post.role[input] != Role::Input || inputsMatch(input, element);
    });
    adopt(operand, element);
  }
}

void Aligner::alignNode(uint32_t node) {
  auto found = candidates(node, nullptr);
  if (found.empty() && all_of(post.operands[node], [&](uint32_t operand) {
        return !post.computes(operand) || deferred[operand];
      })) {
    // What is made of inputs alone is a part of what takes it.
    deferred[node] = true;
    return;
  }
  if (found.empty()) {
    if (!alignAttention(node) && !alignBySkipping(node))
      propose(node);
    return;
  }
  auto *best = max_element(found, [&](const auto &a, const auto &b) {
    int first = score(node, a.first, a.second),
        second = score(node, b.first, b.second);
    return first != second ? first < second : a.first > b.first;
  });
  auto [element, how] = *best;
  bool unknown = post.op[node] != "attention" &&
                 any_of(post.operands[node], [&](uint32_t operand) {
                   return post.computes(operand) &&
                          value[operand] == kNoValue && !deferred[operand];
                 });
  size_t before = readings.size();
  settle(node, element, how);
  bool open = false;
  size_t rivals = 0;
  for (auto [other, otherHow] : found) {
    if (other == element || otherHow != how ||
        (otherHow == Fit::Whole && whole[other] != kNoValue))
      continue;
    open = true;
    if (++rivals > kMaxRivals || readings.size() >= kMaxReadings) {
      unknown = true;
      continue;
    }
    Reading &reading = readings.emplace_back();
    reading.alternatives[node] = other;
    if (otherHow == Fit::Whole)
      reading.claimed.insert(other);
  }
  followReadings(node, before);
  bool touched = any_of(readings, [&](const Reading &reading) {
    return !reading.refuted && reading.alternatives.contains(node);
  });
  if (!open && !touched)
    tieInputs(node, element);
  proven[node] = !unknown && restsOnProof(node);
  if (how == Fit::Part)
    adopt(node, element);
  // A product that adds what a node of its own adds in the exported graph.
  if (how == Fit::Whole && post.op[node] == "matmul" &&
      post.operands[node].size() == 3 && exp.operands[element].size() == 2)
    for (uint32_t user : exp.users[element])
      if (exp.op[user] == "add" && exp.users[element].size() == 1) {
        also[node].push_back(user);
        value[node] = user;
        whole[user] = node;
      }
}

/// Exported nodes that became nothing: a value is taken for that of a node
/// after it.
bool Aligner::alignBySkipping(uint32_t node) {
  for (uint32_t operand : post.operands[node]) {
    uint32_t known = post.computes(operand) ? value[operand] : kNoValue;
    if (known == kNoValue)
      continue;
    for (uint32_t skipped : exp.users[known]) {
      if (whole[skipped] != kNoValue ||
          any_of(exp.operands[skipped],
                 [&](uint32_t other) { return other != known; }))
        continue;
      value[operand] = skipped;
      for (auto [element, how] : candidates(node, nullptr))
        if (how == Fit::Whole && whole[element] == kNoValue) {
          settle(node, element, how);
          // A value beside itself is left as a view that repeats it.
          proven[node] = exp.op[skipped] == "cat" && restsOnProof(node);
          return true;
        }
      value[operand] = known;
    }
  }
  return false;
}

/// Attention that a pass found in products and a softmax.
bool Aligner::alignAttention(uint32_t node) {
  if (post.op[node] != "attention" || post.operands[node].size() < 3)
    return false;
  uint32_t query = value[post.operands[node][0]],
           key = value[post.operands[node][1]],
           keyed = value[post.operands[node][2]];
  if (query == kNoValue || key == kNoValue || keyed == kNoValue)
    return false;
  for (uint32_t last : exp.users[keyed]) {
    if (exp.op[last] != "matmul" || whole[last] != kNoValue)
      continue;
    SmallVector<uint32_t, 8> path = {last};
    bool fromBoth = false;
    for (size_t at = 0; at < path.size() && path.size() < 24; ++at)
      for (uint32_t operand : exp.operands[path[at]]) {
        if (!exp.computes(operand) || operand == query || operand == key ||
            operand == keyed || whole[operand] != kNoValue ||
            is_contained(path, operand))
          continue;
        path.push_back(operand);
        fromBoth |= is_contained(exp.operands[operand], query) &&
                    is_contained(exp.operands[operand], key);
      }
    if (!fromBoth)
      continue;
    settle(node, last, Fit::Whole);
    also[node].append(path.begin() + 1, path.end());
    for (uint32_t element : path)
      whole[element] = node;
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// What moves values, and what is not proven
//===----------------------------------------------------------------------===//

/// An exported node that computes and came from nowhere may have gone into its
/// neighbours: what could be it is not proven.
void Aligner::doubtMissing() {
  DenseSet<uint32_t> met;
  for (uint32_t node = 0; node < tie.size(); ++node)
    if (tie[node] != kNoValue) {
      met.insert(tie[node]);
      met.insert(also[node].begin(), also[node].end());
    }
  DenseMap<uint32_t, SmallVector<StringRef, 2>> missing;
  for (uint32_t element = 0; element < exp.root.size(); ++element) {
    if (exp.role[element] != Role::Compute || exp.root[element] != element ||
        met.contains(element))
      continue;
    for (uint32_t operand : exp.operands[element])
      missing[operand].push_back(exp.op[element]);
    for (uint32_t user : exp.users[element])
      missing[user].push_back(exp.op[element]);
  }
  for (uint32_t node = 0; node < tie.size(); ++node) {
    if (tie[node] == kNoValue)
      continue;
    if (auto it = missing.find(tie[node]);
        it != missing.end() && post.op[node] != exp.op[tie[node]] &&
        is_contained(it->second, post.op[node]))
      proven[node] = false;
  }
}

/// Ties a node that holds another's value: to an exported node that does the
/// same to the same value, else to what it is done for.
bool Aligner::tieMove(uint32_t node) {
  const GraphNode &of = post.graph.nodes[node];
  uint32_t root = post.root[node];
  uint32_t from = post.role[root] == Role::Input ? inputTie[root] : value[root];
  bool sure = post.role[root] == Role::Input || proven[root];
  if (from != kNoValue) {
    uint32_t only = kNoValue;
    unsigned fits = 0;
    for (uint32_t i : moves.lookup(from)) {
      if (exp.op[i] != post.op[node])
        continue;
      const GraphNode &candidate = exp.graph.nodes[i];
      bool sameShape =
          of.results.empty() || candidate.results.empty() ||
          (of.results.front().shape == candidate.results.front().shape &&
           of.results.front().dtype == candidate.results.front().dtype);
      if (!sameShape)
        continue;
      ++fits;
      if (only == kNoValue || proposals[node] == i)
        only = i;
    }
    if (only != kNoValue) {
      tie[node] = only;
      proven[node] = sure && fits == 1;
      return true;
    }
  }
  return false;
}

void Aligner::tieMoves() {
  std::vector<std::vector<uint32_t>> users = post.graph.users();
  for (uint32_t node = tie.size(); node-- > 0;) {
    if ((post.role[node] != Role::Same && post.role[node] != Role::Constant &&
         post.role[node] != Role::Pick) ||
        tie[node] != kNoValue || post.graph.nodes[node].op != GraphNode::Call)
      continue;
    if (post.role[node] == Role::Same && tieMove(node))
      continue;
    // What it is done for: all that take it are parts of one node.
    uint32_t whose = kNoValue;
    bool one = !users[node].empty(), sure = true;
    for (uint32_t user : users[node]) {
      uint32_t theirs = tie[user];
      one &= theirs != kNoValue && (whose == kNoValue || whose == theirs);
      whose = theirs;
      sure &= proven[user];
    }
    uint32_t root = post.root[node];
    if (one && exp.role[whose] == Role::Compute) {
      tie[node] = whose;
      proven[node] = sure && isComposite(exp.op[whose]);
    } else if (post.role[root] == Role::Compute && tie[root] != kNoValue &&
               root != node) {
      tie[node] = tie[root];
    } else if (proposals[node] != kNoValue) {
      tie[node] = proposals[node];
      dim[node] = true;
    } else if (one) {
      tie[node] = whose;
    }
  }
}

/// What an unrefuted reading ties otherwise is not proven, and neither is what
/// takes its value.
void Aligner::spreadDoubt() {
  std::vector<bool> open(tie.size(), false);
  for (const Reading &reading : readings)
    if (!reading.refuted)
      for (auto [node, instead] : reading.alternatives)
        open[node] = true;
  for (uint32_t node = 0; node < tie.size(); ++node) {
    if (!post.computes(node))
      continue;
    proven[node] = proven[node] && !open[node] && restsOnProof(node);
  }
  for (uint32_t node = tie.size(); node-- > 0;)
    if (adopter[node] != kNoValue)
      proven[node] = proven[node] && proven[adopter[node]];
}

std::vector<Tie> Aligner::run() {
  for (uint32_t node = 0; node < tie.size(); ++node)
    if (post.computes(node) && post.root[node] == node) {
      alignNode(node);
      erase_if(readings,
               [](const Reading &reading) { return reading.refuted; });
    }
  for (uint32_t node = 0; node < tie.size(); ++node)
    if (deferred[node] && tie[node] == kNoValue)
      propose(node);
  doubtMissing();
  spreadDoubt();
  tieMoves();
  std::vector<Tie> ties(tie.size());
  for (uint32_t node = 0; node < tie.size(); ++node) {
    if (post.role[node] == Role::Input && inputTie[node] != kNoValue) {
      uint32_t by = inputTiedBy[node];
      ties[node].origins.push_back(inputTie[node]);
      ties[node].confidence =
          by == kNoValue || proven[by] ? Confidence::High : Confidence::Medium;
      continue;
    }
    if (tie[node] == kNoValue)
      continue;
    ties[node].origins.push_back(tie[node]);
    append_range(ties[node].origins, also[node]);
    ties[node].confidence = proven[node] ? Confidence::High
                            : dim[node]  ? Confidence::Low
                                         : Confidence::Medium;
  }
  return ties;
}

std::vector<Tie> opprof::inductor::alignByStructure(
    const GraphView &postGrad, const GraphView &exported,
    const Provenance::Table *groups,
    ArrayRef<std::pair<uint32_t, uint32_t>> inputs) {
  return Aligner(postGrad, exported, groups, inputs).run();
}
