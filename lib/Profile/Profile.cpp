// The data model of profile.opprof.json. Names of enumerators, and the sums
// that are computed from the kernels.

#include "opprof/Profile/Profile.h"
#include "opprof/Support/EnumNames.h"
#include "opprof/Support/Intervals.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Demangle/Demangle.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;

static constexpr StringLiteral kPhases[] = {
    "steady", "warm_up", "compile", "autotune", "before_window", "apart"};

StringRef opprof::profile::stringify(Phase phase) {
  return kPhases[static_cast<size_t>(phase)];
}
std::optional<Phase> opprof::profile::parsePhase(StringRef text) {
  return parseEnumerator<Phase>(kPhases, text);
}

static constexpr StringLiteral kParts[kNumParts] = {
    "", "forward", "backward", "optimizer", "data_loading"};

StringRef opprof::profile::stringify(Part part) {
  return kParts[static_cast<size_t>(part)];
}
std::optional<Part> opprof::profile::parsePart(StringRef text) {
  return parseEnumerator<Part>(kParts, text);
}

static constexpr StringLiteral kHostCostKinds[] = {
    "data_loading", "wait", "garbage", "compilation", "checkpoint", "program"};

StringRef opprof::profile::stringify(HostCostKind kind) {
  return kHostCostKinds[static_cast<size_t>(kind)];
}
std::optional<HostCostKind> opprof::profile::parseHostCostKind(StringRef text) {
  return parseEnumerator<HostCostKind>(kHostCostKinds, text);
}

static constexpr StringLiteral kShares[] = {"none", "whole", "modelled",
                                            "even"};

StringRef opprof::profile::stringify(Share share) {
  return kShares[static_cast<size_t>(share)];
}
std::optional<Share> opprof::profile::parseShare(StringRef text) {
  return parseEnumerator<Share>(kShares, text);
}

const Origin &Origin::unknown() {
  static const Origin origin;
  return origin;
}

static std::array<StringRef, 8> textsOf(const Origin &origin) {
  return {origin.method, origin.explanation, origin.hostOp,
          origin.module, origin.source,      origin.inputType,
          origin.range,  origin.countersFrom};
}

size_t Profile::OriginHash::operator()(const Origin &origin) const {
  std::array<const char *, 8> places;
  llvm::transform(textsOf(origin), places.begin(),
                  [](StringRef text) { return text.data(); });
  return hash_combine(origin.rank.value_or(-1),
                      hash_combine_range(origin.nodes),
                      hash_combine_range(places));
}

bool Profile::IsSameOrigin::operator()(const Origin &a, const Origin &b) const {
  return a.rank == b.rank && a.nodes == b.nodes &&
         llvm::equal(textsOf(a), textsOf(b), [](StringRef a, StringRef b) {
           return a.data() == b.data() && a.size() == b.size();
         });
}

std::vector<int64_t> opprof::profile::shareTime(int64_t total, size_t count,
                                                ArrayRef<uint32_t> parts) {
  std::vector<int64_t> shares(count, 0);
  int64_t whole = 0;
  if (parts.size() == count)
    for (uint32_t part : parts)
      whole += part;
  bool isEven = whole == 0;
  if (isEven)
    whole = static_cast<int64_t>(count);
  // Up to the end of each part, rounded up: no nanosecond is lost or made.
  int64_t upTo = 0, given = 0;
  for (size_t i = 0; i < count; ++i) {
    upTo += isEven ? 1 : parts[i];
    int64_t end =
        total / whole * upTo + (total % whole * upTo + whole - 1) / whole;
    shares[i] = end - given;
    given = end;
  }
  return shares;
}

/// From its launch on, a kernel that waits longer than this has others before
/// it: without them it takes some microseconds to begin.
static constexpr int64_t kQueuedNs = 100'000;

/// Whether the device was still at earlier work when it was told to do this.
static bool wasQueued(const Activity &activity) {
  return activity.launchStartNs &&
         activity.startNs - *activity.launchStartNs -
                 activity.launchDurationNs.value_or(0) >
             kQueuedNs;
}

static bool isInSteadyStep(const Profile &profile, const Activity &activity) {
  return activity.step && *activity.step < profile.steps.size() &&
         profile.steps[*activity.step].phase == Phase::Steady;
}

/// Calls `visit` with all that devices ran.
static void forEachActivity(const Profile &profile,
                            function_ref<void(const Activity &)> visit) {
  for (const std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (const Activity &activity : *list)
      visit(activity);
}

static bool isBefore(const Activity *a, const Activity *b) {
  return a->startNs < b->startNs;
}

/// When the devices are done with what is recorded of earlier work, which goes
/// on when the steady steps begin; as the last of these ends with its last
/// kernel, the first begins where that of the one before did.
static std::optional<int64_t> endOfRecordedWork(const Profile &profile) {
  std::optional<int64_t> begin;
  for (const Step &step : profile.steps)
    if (step.phase == Phase::Steady)
      begin = std::min(begin.value_or(step.startNs), step.startNs);
  if (!begin)
    return std::nullopt;
  // By device: where its own steps begin, and until when others go on.
  struct Device {
    int64_t firstNs, endNs;
  };
  std::map<int64_t, Device> devices;
  std::vector<const Activity *> earlier;
  forEachActivity(profile, [&](const Activity &activity) {
    if (isInSteadyStep(profile, activity)) {
      auto [it, isNew] = devices.try_emplace(activity.device,
                                             Device{activity.startNs, *begin});
      it->second.firstNs = std::min(it->second.firstNs, activity.startNs);
    } else if (activity.phase != Phase::Apart && activity.endNs() > *begin) {
      earlier.push_back(&activity);
    }
  });
  llvm::sort(earlier, isBefore);
  for (const Activity *activity : earlier)
    if (auto it = devices.find(activity->device);
        it != devices.end() && activity->startNs < it->second.firstNs &&
        activity->startNs <= it->second.endNs + kQueuedNs)
      it->second.endNs = std::max(it->second.endNs, activity->endNs());
  std::optional<int64_t> all;
  for (const auto &[id, device] : devices) {
    int64_t end = std::min(device.endNs, std::max(device.firstNs, *begin));
    all = std::min(all.value_or(end), end);
  }
  // Less is the end of what was there in time.
  return all && *all > *begin + kQueuedNs ? all : std::nullopt;
}

/// Summary::earlierWorkEndNs.
static std::optional<int64_t> endOfEarlierWork(const Profile &profile) {
  const Activity *first = nullptr;
  for (const Activity &kernel : profile.kernels)
    if (isInSteadyStep(profile, kernel) &&
        (!first || kernel.startNs < first->startNs))
      first = &kernel;
  if (!first)
    return std::nullopt;
  std::vector<const Activity *> copies;
  for (const Activity &copy : profile.copies)
    if (copy.device == first->device && copy.startNs < first->startNs &&
        isInSteadyStep(profile, copy))
      copies.push_back(&copy);
  llvm::sort(copies, [](const Activity *a, const Activity *b) {
    return a->endNs() > b->endNs();
  });
  for (const Activity *copy : copies)
    if (copy->endNs() >= first->startNs - kQueuedNs &&
        copy->startNs < first->startNs)
      first = copy;
  if (!wasQueued(*first))
    return endOfRecordedWork(profile);
  return first->startNs;
}

/// Whether the device that `first`, of a stream the first, ran on was at work
/// of which the recording shows nothing until then: it waited while the device,
/// which ran for `workNs` before and until `endNs`, seems idle.
static bool endsUnrecordedWork(const Activity &first, int64_t workNs,
                               int64_t endNs) {
  // How much longer what is not seen takes than what is.
  constexpr int64_t kMuchLonger = 100;
  int64_t launched = *first.launchStartNs + first.launchDurationNs.value_or(0);
  return launched <= endNs + kQueuedNs &&
         first.startNs - std::max(endNs, launched) >
             std::max(kQueuedNs, kMuchLonger * workNs);
}

/// When the recording of devices begins, where no steps are marked: at what the
/// first of them is seen to do, but for what ends unrecorded work.
static std::optional<int64_t> beginOfRecording(const Profile &profile) {
  std::map<std::pair<int64_t, int64_t>, const Activity *> firsts;
  const Activity **last = nullptr;
  forEachActivity(profile, [&](const Activity &activity) {
    // Those of one stream mostly follow one another.
    if (!last || (*last)->device != activity.device ||
        (*last)->stream != activity.stream)
      last = &firsts[{activity.device, activity.stream.value_or(-1)}];
    if (!*last || activity.startNs < (*last)->startNs)
      *last = &activity;
  });
  struct Device {
    int64_t beginNs;
    /// Of what comes before the stream that is looked at.
    int64_t workNs = 0;
    std::optional<int64_t> endNs = std::nullopt;
  };
  std::map<int64_t, Device> devices;
  std::vector<const Activity *> queued, earlier;
  for (const auto &[stream, first] : firsts) {
    auto [it, isNew] =
        devices.try_emplace(first->device, Device{first->startNs});
    it->second.beginNs = std::min(it->second.beginNs, first->startNs);
    if (wasQueued(*first))
      queued.push_back(first);
  }
  llvm::sort(queued, isBefore);
  forEachActivity(profile, [&](const Activity &activity) {
    if (!queued.empty() && isBefore(&activity, queued.back()))
      earlier.push_back(&activity);
  });
  llvm::sort(earlier, isBefore);
  auto next = earlier.begin();
  for (const Activity *first : queued) {
    for (; next != earlier.end() && isBefore(*next, first); ++next) {
      Device &device = devices.at((*next)->device);
      device.workNs += (*next)->durationNs;
      device.endNs =
          std::max(device.endNs.value_or((*next)->endNs()), (*next)->endNs());
    }
    Device &device = devices.at(first->device);
    if (device.endNs &&
        endsUnrecordedWork(*first, device.workNs, *device.endNs))
      device.beginNs = first->startNs;
  }
  std::optional<int64_t> begin;
  for (const auto &[id, device] : devices)
    begin = std::min(begin.value_or(device.beginNs), device.beginNs);
  return begin;
}

/// Summary::window.
static std::optional<Interval> wallWindow(const Profile &profile) {
  std::optional<Interval> window;
  auto extend = [&](int64_t from, int64_t to) {
    if (!window)
      window = {from, to};
    window->first = std::min(window->first, from);
    window->second = std::max(window->second, to);
  };
  // Steps that are taken to begin at passes of a graph say nothing of what lies
  // before the first and after the last.
  bool marks = llvm::is_contained({"profiler_step", "capture_marks",
                                   "optimizer_steps", "recurring_operators"},
                                  StringRef(profile.summary.stepsFrom)) &&
               countSteadySteps(profile) > 0;
  if (marks) {
    for (const Step &step : profile.steps)
      if (step.phase == Phase::Steady)
        extend(step.startNs, step.endNs);
  }
  // A step's kernels may end after the host has left it. Without marks of
  // steps the device's own events are the span.
  forEachActivity(profile, [&](const Activity &activity) {
    if (!marks)
      extend(activity.startNs, activity.endNs());
    else if (isInSteadyStep(profile, activity))
      window->second = std::max(window->second, activity.endNs());
  });
  std::optional<int64_t> begin =
      marks ? profile.summary.earlierWorkEndNs : beginOfRecording(profile);
  if (begin)
    window->first = std::max(window->first, *begin);
  return window;
}

/// Summary::betweenSteps.
static std::vector<Interval> timeBetweenSteps(const Profile &profile,
                                              Interval window) {
  std::vector<Interval> between, running;
  if (profile.summary.stepsFrom != "capture_marks") {
    for (const Step &step : profile.steps)
      if (step.phase == Phase::Apart && step.startNs < window.second &&
          step.endNs > window.first)
        between.push_back({std::max(step.startNs, window.first),
                           std::min(step.endNs, window.second)});
    // Between requests a server waits for the next one. Other steps that recur
    // follow one another.
    if (profile.summary.stepsFrom != "recurring_operators")
      return between;
  }
  forEachActivity(profile, [&](const Activity &activity) {
    running.push_back({activity.startNs, activity.endNs()});
  });
  llvm::sort(running);
  size_t next = 0;
  // Steps follow one another: the marks of one thread make them.
  std::optional<int64_t> left;
  for (const Step &step : profile.steps) {
    if (step.phase != Phase::Steady)
      continue;
    for (int64_t from = left.value_or(step.startNs); from < step.startNs;) {
      // What runs at `from` began before it; time is idle up to the next one.
      while (next < running.size() && running[next].first <= from) {
        from = std::max(from, running[next].second);
        ++next;
      }
      int64_t to = step.startNs;
      if (next < running.size())
        to = std::min(to, running[next].first);
      if (from >= step.startNs)
        break;
      between.push_back({from, to});
      from = to;
    }
    left = std::max(left.value_or(step.endNs), step.endNs);
  }
  return intersect({window}, unite(std::move(between)));
}

std::vector<std::pair<int64_t, int64_t>>
opprof::profile::runningTimes(ArrayRef<Activity> list, int64_t device,
                              std::pair<int64_t, int64_t> window) {
  std::vector<Interval> intervals;
  for (const Activity &activity : list)
    if (activity.device == device && activity.phase != Phase::Apart)
      intervals.push_back(
          {std::clamp(activity.startNs, window.first, window.second),
           std::clamp(activity.endNs(), window.first, window.second)});
  return unite(std::move(intervals));
}

int64_t opprof::profile::countSteadySteps(const Profile &profile) {
  return llvm::count_if(profile.steps, [](const Step &step) {
    return step.phase == Phase::Steady;
  });
}

const Device *opprof::profile::findBusiestDevice(const Profile &profile) {
  const Device *busiest = nullptr;
  for (const Device &device : profile.devices)
    if (device.busyNs &&
        (!busiest || *device.busyNs > busiest->busyNs.value_or(0)))
      busiest = &device;
  return busiest;
}

/// `name` without balanced pairs of parentheses and what is between them.
static std::string dropParentheses(StringRef name) {
  std::string kept;
  unsigned depth = 0;
  for (char c : name) {
    if (c == '(')
      ++depth;
    else if (c == ')' && depth)
      --depth;
    else if (!depth)
      kept += c;
  }
  // What is open to the end is no list of parameters.
  return depth ? name.str() : kept;
}

std::string opprof::profile::shortKernelName(StringRef kernel) {
  // Of what compilers write some recorders show all.
  constexpr size_t kLongestMangled = 4096;
  std::string name = kernel.starts_with("_Z") && kernel.size() < kLongestMangled
                         ? demangle(kernel)
                         : kernel.str();
  if (StringRef(name).starts_with("void "))
    name.erase(0, StringRef("void ").size());
  auto drop = [&](StringRef part) {
    for (size_t at; (at = name.find(part)) != std::string::npos;)
      name.erase(at, part.size());
  };
  drop("(anonymous namespace)::");
  name = dropParentheses(name);
  for (size_t at; (at = name.find("::{lambda")) != std::string::npos;) {
    size_t end = name.find('}', at);
    if (end == std::string::npos)
      break;
    name.erase(at, end + 1 - at);
  }
  drop("::operator const");
  drop("at::native::");
  // How many tensors an element-wise kernel has says little of it.
  constexpr StringLiteral kPointers = ", std::array<char*, ";
  for (size_t at; (at = name.find(kPointers)) != std::string::npos;) {
    size_t end = name.find('>', at);
    if (end == std::string::npos)
      break;
    name.erase(at, end + 1 - at);
  }
  for (size_t at; (at = name.find(" >")) != std::string::npos;)
    name.erase(at, 1);
  // A name of nothing else is shown as it is.
  return StringRef(name).trim().empty() ? kernel.str()
                                        : StringRef(name).trim().str();
}

std::string opprof::profile::nameIn(const Profile &profile,
                                    const NodeId &node) {
  return node.graph == profile.graph && node.stage == profile.stage
             ? node.name
             : toString(node);
}

std::string opprof::profile::metricsOriginIn(const Profile &profile,
                                             const Node &node) {
  if (!node.inferredFrom)
    return "";
  return node.inferredFrom->launch.empty()
             ? nameIn(profile, node.inferredFrom->node)
             : node.inferredFrom->launch;
}

bool opprof::profile::isCounted(const Profile &profile, bool anySteady,
                                const Activity &activity) {
  return !anySteady ||
         (activity.step && *activity.step < profile.steps.size() &&
          profile.steps[*activity.step].phase == Phase::Steady);
}

bool opprof::profile::hasGraph(const Profile &profile) {
  return !profile.graph.empty() || !profile.launches.empty() ||
         !profile.nodes.empty();
}

bool opprof::profile::hasTimeline(const Profile &profile) {
  return llvm::none_of(profile.sources, [](const Source &source) {
    return source.kind == kNcuKind;
  });
}

StringRef opprof::profile::recordingNoun(const Profile &profile) {
  return llvm::any_of(profile.sources,
                      [](const Source &source) {
                        return source.kind == "opprof capture";
                      })
             ? "capture"
             : "trace";
}

/// Whether the launch says how the kernel's time divides among its nodes.
static const LaunchRecord *findDivision(const Profile &profile,
                                        const Activity &kernel) {
  const LaunchRecord *launch =
      kernel.launch ? &profile.launches[*kernel.launch] : nullptr;
  return launch && launch->nodes == kernel.origin->nodes &&
                 launch->parts.size() == kernel.origin->nodes.size()
             ? launch
             : nullptr;
}

std::vector<int64_t> opprof::profile::shareAmongNodes(const Profile &profile,
                                                      const Activity &kernel) {
  const LaunchRecord *launch = findDivision(profile, kernel);
  return shareTime(kernel.durationNs, kernel.origin->nodes.size(),
                   launch ? ArrayRef(launch->parts) : ArrayRef<uint32_t>());
}

/// Divides a kernel's time among its nodes.
static void addShares(const Activity &kernel, Profile &profile) {
  const LaunchRecord *launch = findDivision(profile, kernel);
  std::vector<int64_t> shares = shareAmongNodes(profile, kernel);
  for (auto [position, place] : llvm::enumerate(kernel.origin->nodes)) {
    Node &node = profile.nodes[place];
    node.kernelTimeNs += shares[position];
    node.kernels.push_back(kernel.id);
    Share share = kernel.origin->nodes.size() == 1     ? Share::Whole
                  : launch && !launch->parts[position] ? Share::None
                  : launch                             ? launch->share
                                                       : Share::Even;
    node.share = std::max(node.share.value_or(share), share);
  }
}

void opprof::profile::summarize(Profile &profile) {
  Summary &summary = profile.summary;
  summary.kernels = profile.kernels.size();
  summary.kernelTimeNs = 0;
  summary.attributedNs.fill(0);
  summary.linksNs = {};
  summary.copies = profile.copies.size();
  summary.copyTimeNs = 0;
  summary.wallNs.reset();
  summary.busyNs.reset();
  summary.idleNs.reset();
  for (Node &node : profile.nodes) {
    node.kernelTimeNs = 0;
    node.kernels.clear();
    node.share.reset();
  }
  for (LaunchRecord &launch : profile.launches)
    launch.kernelTimeNs = 0;
  bool anySteady = countSteadySteps(profile) > 0;
  for (OperatorTime &op : profile.operators)
    op.kernelTimeNs = op.kernels = 0;

  for (const Activity &kernel : profile.kernels) {
    summary.kernelTimeNs += kernel.durationNs;
    summary.attributedNs[static_cast<size_t>(kernel.confidence)] +=
        kernel.durationNs;
    for (auto [link, confidence] : llvm::enumerate(toArray(kernel.links)))
      if (confidence)
        summary.linksNs[link][static_cast<size_t>(*confidence)] +=
            kernel.durationNs;
    addShares(kernel, profile);
    if (kernel.op && isCounted(profile, anySteady, kernel)) {
      OperatorTime &op = profile.operators[*kernel.op];
      ++op.kernels;
      op.kernelTimeNs += kernel.durationNs;
    }
    if (kernel.launch)
      profile.launches[*kernel.launch].kernelTimeNs += kernel.durationNs;
  }
  for (const Activity &copy : profile.copies)
    summary.copyTimeNs += copy.durationNs;

  summary.earlierWorkEndNs = endOfEarlierWork(profile);
  std::optional<Interval> window = summary.window = wallWindow(profile);
  summary.betweenSteps.clear();
  for (Device &device : profile.devices)
    device.busyNs.reset();
  if (!window)
    return;
  bool isTimed = hasTimeline(profile);
  if (isTimed)
    summary.wallNs = window->second - window->first;
  summary.betweenSteps = timeBetweenSteps(profile, *window);
  if (isTimed)
    *summary.wallNs -= sumLengths(summary.betweenSteps);
  for (Device &device : profile.devices) {
    if (llvm::none_of(profile.kernels, [&](const Activity &kernel) {
          return kernel.device == device.id;
        }))
      continue;
    std::vector<Interval> running =
        runningTimes(profile.kernels, device.id, *window);
    device.busyNs = sumLengths(running);
    // With several devices the summary speaks of the busiest one: adding them
    // up would pass the wall time.
    if (!isTimed || (summary.busyNs && *device.busyNs <= *summary.busyNs))
      continue;
    summary.busyNs = device.busyNs;
    llvm::append_range(running,
                       runningTimes(profile.copies, device.id, *window));
    summary.idleNs = *summary.wallNs - unionLength(std::move(running));
  }
}
