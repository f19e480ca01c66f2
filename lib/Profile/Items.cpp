// What of a profile takes time, by node, class, module, kernel or operator, and
// step by step.

#include "opprof/Profile/Items.h"
#include "opprof/Support/EnumNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;

static constexpr StringLiteral kItemKinds[] = {"node", "class", "module",
                                               "kernel", "operator"};

StringRef opprof::profile::stringify(ItemKind kind) {
  return kItemKinds[static_cast<size_t>(kind)];
}
std::optional<ItemKind> opprof::profile::parseItemKind(StringRef text) {
  return parseEnumerator<ItemKind>(kItemKinds, text);
}

StringRef opprof::profile::stringify(Match match) {
  static constexpr StringLiteral kMatches[] = {"identity", "structure", "name"};
  return kMatches[static_cast<size_t>(match)];
}

int64_t Item::totalNs() const {
  return std::accumulate(timesNs.begin(), timesNs.end(), int64_t(0));
}

/// Keys are made of parts that hold no such byte, so that no two run together.
static std::string joinKey(std::initializer_list<StringRef> parts) {
  return llvm::join(parts, StringRef("\0", 1));
}

namespace {
/// "linear_12": the kind of node, and which of them.
struct NumberedName {
  StringRef base;
  uint64_t number = 0;
};
} // namespace

static NumberedName splitNumber(StringRef name) {
  StringRef base = name.rtrim("0123456789");
  NumberedName split{name};
  if (base.size() == name.size() || !base.ends_with("_") ||
      name.drop_front(base.size()).getAsInteger(10, split.number))
    return {name};
  split.base = base.drop_back();
  return split;
}

namespace {

/// Adds up kernel time under items that it is told of.
class Adder {
public:
  explicit Adder(const Profile &profile);

  /// Goes over what is counted with `add`, and gives the table.
  ItemTable run(function_ref<void(const Activity &)> add);

  /// Adds time of the kernel that `run` is at.
  void add(uint32_t item, int64_t ns);
  /// The place of the item that `name` is known by; made by `make` where it is
  /// new.
  template <typename Make> uint32_t find(StringRef name, Make make) {
    auto [place, isNew] = places.try_emplace(name, table.items.size());
    if (isNew) {
      table.items.push_back(make());
      table.items.back().timesNs.resize(table.repeats());
    }
    return place->second;
  }
  /// What no item is known of.
  void addRest(StringRef name, int64_t ns) {
    add(find(joinKey({"rest", name}),
             [&] {
               Item item;
               item.name = name;
               item.keys[size_t(Match::Name)] = joinKey({"rest", name});
               return item;
             }),
        ns);
  }

private:
  void measureSteps();

  const Profile &profile;
  ItemTable table;
  StringMap<uint32_t> places;
  /// The repeat of each step; absent for steps that are not counted.
  std::vector<std::optional<uint32_t>> repeatOf;
  uint32_t repeat = 0;
  /// The kernel is counted once for each item, also where several of its nodes
  /// belong to it.
  const Activity *kernel = nullptr;
  std::vector<const Activity *> lastKernel;
};

} // namespace

Adder::Adder(const Profile &profile) : profile(profile) {
  uint32_t repeats = 0;
  for (const Step &step : profile.steps)
    repeatOf.push_back(step.phase == Phase::Steady
                           ? std::optional<uint32_t>(repeats++)
                           : std::nullopt);
  table.hasSteps = repeats > 0;
  table.kernelNs.resize(std::max(repeats, 1u));
  measureSteps();
}

void Adder::measureSteps() {
  if (!table.hasSteps) {
    if (std::optional<Interval> window = profile.summary.window;
        window && hasTimeline(profile))
      table.wallNs = {window->second - window->first};
    return;
  }
  std::vector<int64_t> ends;
  for (const Step &step : profile.steps)
    ends.push_back(step.endNs);
  for (const std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (const Activity &activity : *list)
      if (activity.step && *activity.step < ends.size())
        ends[*activity.step] = std::max(ends[*activity.step], activity.endNs());
  // From when the one before is done with, by host and device: where the host
  // runs ahead, how fast it begins steps says nothing of how fast they are
  // done.
  int64_t done = profile.summary.earlierWorkEndNs.value_or(
      std::numeric_limits<int64_t>::min());
  for (auto [step, end] : llvm::zip_equal(profile.steps, ends)) {
    int64_t begins = std::max(step.startNs, done);
    done = std::max(begins, end);
    if (step.phase == Phase::Steady)
      table.wallNs.push_back(done - begins);
  }
}

void Adder::add(uint32_t item, int64_t ns) {
  Item &to = table.items[item];
  to.timesNs[repeat] += ns;
  lastKernel.resize(table.items.size());
  if (lastKernel[item] != kernel)
    ++to.kernels;
  lastKernel[item] = kernel;
}

ItemTable Adder::run(function_ref<void(const Activity &)> add) {
  for (const Activity &activity : profile.kernels) {
    if (!isCounted(profile, table.hasSteps, activity))
      continue;
    repeat = table.hasSteps ? *repeatOf[*activity.step] : 0;
    kernel = &activity;
    table.kernelNs[repeat] += activity.durationNs;
    add(activity);
  }
  return std::move(table);
}

static StringRef moduleOf(const Node &node) {
  return node.module ? StringRef(*node.module) : StringRef();
}

/// Which of the nodes of its kind each is in its module, by their numbers.
static std::vector<uint32_t> numberInModule(const Profile &profile) {
  std::map<std::pair<StringRef, StringRef>,
           std::vector<std::pair<uint64_t, uint32_t>>>
      kinds;
  for (auto [place, node] : llvm::enumerate(profile.nodes)) {
    NumberedName split = splitNumber(node.id.name);
    kinds[{moduleOf(node), split.base}].push_back({split.number, place});
  }
  std::vector<uint32_t> numbers(profile.nodes.size());
  for (auto &[kind, members] : kinds) {
    llvm::sort(members);
    for (auto [number, member] : llvm::enumerate(members))
      numbers[member.second] = number;
  }
  return numbers;
}

static ItemTable listNodes(const Profile &profile) {
  Adder adder(profile);
  std::vector<uint32_t> numbers = numberInModule(profile);
  std::vector<std::optional<uint32_t>> itemOf(profile.nodes.size());
  auto makeItem = [&](uint32_t place) {
    const Node &node = profile.nodes[place];
    Item item;
    item.name = nameIn(profile, node.id);
    item.detail = moduleOf(node);
    item.node = node.id;
    item.keys = {
        joinKey({node.id.graph, node.id.stage, node.id.name, moduleOf(node)}),
        node.module
            ? joinKey({node.id.stage, moduleOf(node),
                       splitNumber(node.id.name).base, utostr(numbers[place])})
            : std::string(),
        joinKey({node.id.stage, node.id.name})};
    return item;
  };
  return adder.run([&](const Activity &kernel) {
    if (kernel.origin->nodes.empty())
      return adder.addRest("(no node known)", kernel.durationNs);
    std::vector<int64_t> shares = shareAmongNodes(profile, kernel);
    for (auto [place, share] : llvm::zip_equal(kernel.origin->nodes, shares)) {
      if (!itemOf[place])
        itemOf[place] =
            adder.find(joinKey({"node", utostr(place)}),
                       [&, &place = place] { return makeItem(place); });
      adder.add(*itemOf[place], share);
    }
  });
}

/// Sums the shares of a kernel's nodes under what `nameOf` says of each; what
/// has no node under what `nameOfKernel` says of the kernel.
static ItemTable
sumNodes(const Profile &profile, StringRef rest,
         function_ref<std::optional<Item>(const Node &)> describe,
         function_ref<std::optional<Item>(const Activity &)> describeKernel) {
  Adder adder(profile);
  auto addTo = [&](std::optional<Item> item, int64_t ns) {
    if (!item)
      return adder.addRest(rest, ns);
    std::string key = llvm::join(item->keys, StringRef("\1", 1));
    adder.add(adder.find(key, [&] { return *item; }), ns);
  };
  return adder.run([&](const Activity &kernel) {
    if (kernel.origin->nodes.empty())
      return addTo(describeKernel(kernel), kernel.durationNs);
    std::vector<int64_t> shares = shareAmongNodes(profile, kernel);
    for (auto [place, share] : llvm::zip_equal(kernel.origin->nodes, shares))
      addTo(describe(profile.nodes[place]), share);
  });
}

static Item makeNamed(StringRef name) {
  Item item;
  item.name = name;
  item.keys[size_t(Match::Name)] = name;
  return item;
}

static ItemTable listModules(const Profile &profile) {
  auto named = [](StringRef path) {
    Item item = makeNamed(path);
    if (path.empty())
      item.name = "(the model itself)";
    item.keys[size_t(Match::Name)] = joinKey({"module", path});
    return item;
  };
  return sumNodes(
      profile, "(module unknown)",
      [&](const Node &node) -> std::optional<Item> {
        if (!node.module)
          return std::nullopt;
        return named(*node.module);
      },
      [&](const Activity &kernel) -> std::optional<Item> {
        if (kernel.origin->module.empty())
          return std::nullopt;
        return named(kernel.origin->module);
      });
}

static ItemTable listClasses(const Profile &profile) {
  std::map<StringRef, const PartitionTime *> byLabel;
  std::map<StringRef, std::pair<StringRef, StringRef>> ends;
  for (const PartitionTime &partition : profile.partitions) {
    byLabel.try_emplace(partition.label, &partition);
    auto [place, isFirst] =
        ends.try_emplace(partition.classId, partition.label, partition.label);
    if (!isFirst)
      place->second.second = partition.label;
  }
  return sumNodes(
      profile, "(in no class)",
      [&](const Node &node) -> std::optional<Item> {
        auto found =
            node.partition ? byLabel.find(*node.partition) : byLabel.end();
        if (found == byLabel.end())
          return std::nullopt;
        const PartitionTime &partition = *found->second;
        auto [first, last] = ends[partition.classId];
        Item item;
        item.name = partition.classId;
        item.detail =
            first == last ? first.str() : (first + " … " + last).str();
        item.keys[size_t(Match::Structure)] = partition.hash;
        item.keys[size_t(Match::Name)] = joinKey({first, last});
        return item;
      },
      [](const Activity &) { return std::nullopt; });
}

static ItemTable listKernels(const Profile &profile) {
  Adder adder(profile);
  // Names are many times fewer than kernels.
  DenseMap<StringRef, uint32_t> byName;
  auto makeItem = [&](const Activity &kernel) {
    Item item;
    std::string shortName = shortKernelName(kernel.name);
    item.name = shortName;
    std::set<std::string> nodes;
    for (uint32_t place : kernel.origin->nodes) {
      const NodeId &id = profile.nodes[place].id;
      nodes.insert(joinKey({id.stage, id.name}));
    }
    item.keys = {kernel.name.str(),
                 nodes.empty() ? "" : llvm::join(nodes, StringRef("\1", 1)),
                 splitNumber(shortName).base.str()};
    return item;
  };
  return adder.run([&](const Activity &kernel) {
    auto [place, isNew] = byName.try_emplace(kernel.name, 0);
    if (isNew)
      place->second = adder.find(kernel.name, [&] { return makeItem(kernel); });
    adder.add(place->second, kernel.durationNs);
  });
}

static ItemTable listOperators(const Profile &profile) {
  if (profile.operators.empty())
    return sumNodes(
        profile, "(no operator known)",
        [](const Node &node) -> std::optional<Item> {
          return makeNamed(splitNumber(node.id.name).base);
        },
        [](const Activity &kernel) -> std::optional<Item> {
          if (kernel.origin->hostOp.empty())
            return std::nullopt;
          return makeNamed(kernel.origin->hostOp);
        });
  std::vector<uint32_t> numbers;
  StringMap<uint32_t> seen;
  for (const OperatorTime &op : profile.operators)
    numbers.push_back(seen[op.name]++);
  Adder adder(profile);
  auto makeItem = [&](uint32_t place) {
    const OperatorTime &op = profile.operators[place];
    Item item;
    item.name = op.name;
    item.detail = op.inputDims;
    item.keys[size_t(Match::Identity)] =
        joinKey({op.name, op.inputDims, op.inputTypes, op.inputValues});
    item.keys[size_t(Match::Name)] = joinKey({op.name, utostr(numbers[place])});
    return item;
  };
  return adder.run([&](const Activity &kernel) {
    if (!kernel.op || *kernel.op >= profile.operators.size())
      return adder.addRest("(no operator known)", kernel.durationNs);
    adder.add(
        adder.find(utostr(*kernel.op), [&] { return makeItem(*kernel.op); }),
        kernel.durationNs);
  });
}

ItemTable opprof::profile::listItems(const Profile &profile, ItemKind by) {
  switch (by) {
  case ItemKind::Node:
    return listNodes(profile);
  case ItemKind::Class:
    return listClasses(profile);
  case ItemKind::Module:
    return listModules(profile);
  case ItemKind::Kernel:
    return listKernels(profile);
  case ItemKind::Operator:
    return listOperators(profile);
  }
  llvm_unreachable("unhandled kind");
}

static std::string
describeSize(const std::optional<std::array<uint64_t, 3>> &size) {
  if (!size)
    return "?";
  std::string text;
  for (uint64_t axis : *size)
    text += (text.empty() ? "" : "×") + utostr(axis);
  return text;
}

ItemTable opprof::profile::listLaunches(const Profile &profile) {
  ItemTable table;
  table.kernelNs.resize(1);
  std::map<std::pair<StringRef, std::string>, uint32_t> places;
  for (const Activity &kernel : profile.kernels) {
    // The page has no time of it.
    if (kernel.durationNs == 0)
      continue;
    std::string sizes = "grid " + describeSize(kernel.config->grid) +
                        ", block " + describeSize(kernel.config->block);
    auto [place, isNew] =
        places.try_emplace({kernel.name, sizes}, table.items.size());
    if (isNew) {
      Item &item = table.items.emplace_back();
      item.name = shortKernelName(kernel.name);
      item.detail = sizes;
      item.keys[size_t(Match::Identity)] = joinKey({kernel.name, sizes});
      item.keys[size_t(Match::Name)] = joinKey({item.name, sizes});
    }
    Item &item = table.items[place->second];
    item.timesNs.push_back(kernel.durationNs);
    ++item.kernels;
    table.kernelNs.front() += kernel.durationNs;
  }
  return table;
}

ItemKind opprof::profile::finestKind(const Profile &profile) {
  if (llvm::any_of(profile.kernels, [](const Activity &kernel) {
        return !kernel.origin->nodes.empty();
      }))
    return ItemKind::Node;
  return profile.operators.empty() ? ItemKind::Kernel : ItemKind::Operator;
}
