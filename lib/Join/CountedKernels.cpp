// Kernels that were counted by themselves, without a timeline. Nsight Compute
// runs the program for itself and knows no launches: what its kernels have in
// common with those of a timeline is name, grid, block and order.

#include "CountedKernels.h"

#include "NodeMetrics.h"
#include "opprof/Join/Counters.h"
#include "opprof/Join/SequenceAlignment.h"
#include "opprof/Metrics/Catalogue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <map>
#include <numeric>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

CounterRow opprof::join::deriveCounters(const Trace &counted,
                                        const TraceActivity &kernel) {
  metrics::RawCounters raw;
  for (auto [name, value] : counted.counters[*kernel.counters])
    raw.try_emplace(counted.counterNames[name], value);
  metrics::DeviceFacts facts;
  for (const Device &device : counted.devices)
    if (device.id == kernel.device) {
      facts.smCount = device.smCount.value_or(0);
      if (device.maxThreadsPerSM)
        facts.warpsPerSM = *device.maxThreadsPerSM / 32;
    }
  metrics::LaunchFacts launch;
  launch.registers = kernel.config->registers;
  launch.dynamicShared = kernel.config->dynamicShared;
  if (kernel.durationNs)
    launch.durationNs = kernel.durationNs;
  CounterRow row = metrics::derive(raw, facts, launch);
  for (const auto &[name, value] : raw)
    if (metrics::isFindingCounter(name))
      row.values.try_emplace(name, value);
  return row;
}

/// The name of a function without what versions of ncu and recorders print in
/// different ways: what it returns, template arguments, parameters.
static StringRef functionName(StringRef name) {
  name.consume_front("void ");
  return name.take_until([](char c) { return c == '<' || c == '('; }).rtrim();
}

namespace {
class KernelJoin {
public:
  KernelJoin(Profile &profile, const Trace &counted);

  void attach();

private:
  using Size = std::array<uint64_t, 3>;
  using Work = std::tuple<StringRef, Size, Size>;
  /// Names kernels that do the same as far as both sides tell by a number.
  uint32_t workOf(const DeviceActivity &kernel);
  void joinStep(ArrayRef<uint32_t> step);
  /// Where in the page all kernels of the step follow one another, from `from`
  /// on; nothing where nowhere.
  std::optional<uint32_t> findWhole(ArrayRef<uint32_t> step,
                                    uint32_t from) const;
  void give(uint32_t kernel, uint32_t place, StringRef how);

  Profile &profile;
  const Trace &counted;
  std::map<Work, uint32_t> works;
  /// Works of the kernels of the profile and of the page.
  std::vector<uint32_t> ofProfile, ofPage;
  /// By work: places in the page, and the turn that is next.
  std::map<uint32_t, std::pair<std::vector<uint32_t>, size_t>> byWork;
  /// By place in the page: the place in Profile::counters.
  std::vector<std::optional<uint32_t>> rows;
  /// Where the next step is looked for in a page of several.
  uint32_t next = 0;
  uint64_t medium = 0, low = 0;
};
} // namespace

uint32_t KernelJoin::workOf(const DeviceActivity &kernel) {
  return works
      .try_emplace({functionName(kernel.name),
                    kernel.config->grid.value_or(Size()),
                    kernel.config->block.value_or(Size())},
                   works.size())
      .first->second;
}

KernelJoin::KernelJoin(Profile &profile, const Trace &counted)
    : profile(profile), counted(counted), rows(counted.activities.size()) {
  for (const Activity &kernel : profile.kernels)
    ofProfile.push_back(workOf(kernel));
  for (auto [place, kernel] : enumerate(counted.activities)) {
    ofPage.push_back(workOf(kernel));
    byWork[ofPage.back()].first.push_back(place);
  }
}

void KernelJoin::give(uint32_t position, uint32_t place, StringRef how) {
  if (!rows[place]) {
    rows[place] = profile.counters.size();
    profile.counters.push_back(
        deriveCounters(counted, counted.activities[place]));
  }
  Activity &kernel = profile.kernels[position];
  kernel.counters = rows[place];
  profile.changeOrigin(kernel, [&](Origin &origin) {
    origin.countersFrom = profile.intern(
        ("kernel " + Twine(place) + " of " + counted.file + ", " + how).str());
  });
}

std::optional<uint32_t> KernelJoin::findWhole(ArrayRef<uint32_t> step,
                                              uint32_t from) const {
  if (step.empty() || step.size() > ofPage.size())
    return std::nullopt;
  // Knuth, Morris and Pratt.
  std::vector<uint32_t> border(step.size(), 0);
  for (uint32_t i = 1, length = 0; i < step.size(); ++i) {
    while (length && ofProfile[step[i]] != ofProfile[step[length]])
      length = border[length - 1];
    length += ofProfile[step[i]] == ofProfile[step[length]];
    border[i] = length;
  }
  for (uint32_t at = from, length = 0; at < ofPage.size(); ++at) {
    while (length && ofPage[at] != ofProfile[step[length]])
      length = border[length - 1];
    length += ofPage[at] == ofProfile[step[length]];
    if (length == step.size())
      return at + 1 - length;
  }
  return std::nullopt;
}

void KernelJoin::joinStep(ArrayRef<uint32_t> step) {
  std::optional<uint32_t> begin = findWhole(step, next);
  if (!begin && next)
    begin = findWhole(step, 0);
  if (begin) {
    for (auto [turn, position] : enumerate(step))
      give(position, *begin + turn,
           "by name, grid, block and the order of the whole step (medium)");
    medium += step.size();
    next = *begin + step.size();
    return;
  }
  // A page that was cut, filtered, or taken of another step.
  SequenceAlignment alignment =
      alignSequences(step.size(), ofPage.size(), [&](uint32_t i, uint32_t j) {
        return ofProfile[step[i]] == ofPage[j];
      });
  for (auto [turn, position] : enumerate(step)) {
    const AlignedElement &element = alignment.elements[turn];
    if (element.position && element.forced) {
      give(position, *element.position,
           "by name, grid, block and order among others (medium)");
      ++medium;
      continue;
    }
    auto same = byWork.find(ofProfile[position]);
    if (same == byWork.end())
      continue;
    auto &[places, turns] = same->second;
    give(position, element.position.value_or(places[turns++ % places.size()]),
         "by name, grid and block alone (low)");
    ++low;
  }
}

void KernelJoin::attach() {
  std::vector<uint32_t> order(profile.kernels.size());
  std::iota(order.begin(), order.end(), 0);
  stable_sort(order, [&](uint32_t a, uint32_t b) {
    auto key = [&](const Activity &kernel) {
      return std::tuple(kernel.launchStartNs.value_or(kernel.startNs),
                        kernel.graphNode.value_or(0), kernel.startNs);
    };
    return key(profile.kernels[a]) < key(profile.kernels[b]);
  });
  std::map<std::optional<uint32_t>, std::vector<uint32_t>> steps;
  for (uint32_t position : order)
    if (profile.kernels[position].phase == Phase::Steady)
      steps[profile.kernels[position].step].push_back(position);
  size_t all = 0;
  for (const auto &[number, step] : steps) {
    joinStep(step);
    all += step.size();
  }
  for (const std::string &note : counted.notes)
    profile.notes.push_back(counted.file + ": " + note);
  profile.notes.push_back((counted.file + " has counters of " +
                           Twine(medium + low) + " of " + Twine(all) +
                           " kernels: " + Twine(medium) +
                           " by name, grid, block and order (medium), " +
                           Twine(low) + " by name, grid and block alone (low)")
                              .str());
  addNodeMetrics(profile, [](Node &) {});
}

void opprof::join::attachCounters(Profile &profile, const Trace &counted) {
  KernelJoin(profile, counted).attach();
}
