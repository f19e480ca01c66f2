// What PyTorch calls where an operator, a function of autograd's or a range
// begins and ends. It takes no lock, allocates nothing and compares no text but
// a range's.

#include "ObserverState.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <unistd.h>

using namespace opprof::capture;
using namespace opprof::observer;

namespace {

constexpr size_t kLongestName = 512;
/// Of the sizes of an operator's inputs; longer ones are not recorded.
constexpr size_t kLongestInputs = 1 << 16;
/// One of so many operators has the time that its recording takes measured: a
/// prime, as programs repeat themselves.
constexpr uint32_t kMeasuredEvery = 31;
/// A thread without operators for longer may have waited for work.
constexpr uint64_t kLongPauseNs = 500'000;
/// What it is called then.
constexpr char kWorkWait[] = "work wait";

} // namespace

constinit thread_local ThreadState *opprof::observer::thisThread = nullptr;

ThreadState *opprof::observer::makeThread() {
  struct Owner {
    ThreadState *state = nullptr;
    bool isGone = false;
    ~Owner() {
      isGone = true;
      thisThread = nullptr;
      delete state;
    }
  };
  thread_local Owner owner;
  if (owner.isGone)
    return nullptr;
  thisThread = owner.state = new ThreadState;
  thisThread->isFirst = ::gettid() == ::getpid();
  return thisThread;
}

ThreadState::~ThreadState() {
  if (log)
    Observer::get().dropLog(log);
  while (freed) {
    Open *next = freed->outer;
    ::free(freed);
    freed = next;
  }
}

// NOLINTNEXTLINE(misc-new-delete-overloads)
void *Open::operator new(size_t size) {
  ThreadState *state = thisThread;
  if (!state || !state->freed)
    return ::malloc(size);
  Open *memory = state->freed;
  state->freed = memory->outer;
  --state->numFreed;
  return memory;
}

void Open::operator delete(Open *open, std::destroying_delete_t) {
  if (open->owner) {
    open->over.store(true, std::memory_order_release);
    return;
  }
  open->~Open();
  ThreadState *state = thisThread;
  if (!state || state->numFreed >= 256)
    return ::free(open);
  open->outer = state->freed;
  state->freed = open;
  ++state->numFreed;
}

uint32_t Observer::name(ThreadState &state,
                        const at::RecordFunction &function) {
  const char *text = function.name();
  if (const uint32_t *known = state.names->find(text)) [[likely]]
    return *known;
  std::string_view whole(text, ::strnlen(text, kLongestName));
  if (const uint32_t *known = state.names->findText(whole))
    return *known;
  uint32_t number = this->text(whole);
  if (function.operator_name())
    state.names->add(text, number);
  else
    state.names->addText(whole, number);
  return number;
}

void Observer::add(ThreadState &state, const OperatorRecord &record) {
  if (record.end < begin || (end && record.start > end))
    return;
  addTo(*state.log, state.log->operators, record);
}

uint32_t Observer::placeAt(ThreadState &state, const void *frame,
                           const void *until) {
  if (!frame || state.asking)
    return OPPROF_NO_PLACE;
  state.asking = true;
  uint32_t place = source.load(std::memory_order_acquire)->place(frame, until);
  state.asking = false;
  return place;
}

/// Whether the sizes can be asked for without running anything.
static bool hasSizes(const at::Tensor &tensor) {
  return tensor.defined() && !tensor.is_nested() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

/// Calls `visitor` with each input: a tensor, a list of them, or another value.
template <typename Visitor>
static void visitInputs(const at::RecordFunction &function, Visitor &visitor) {
  for (const c10::IValue &input : function.inputs()) {
    if (input.isTensor())
      visitor.tensor(input.toTensor());
    else if (input.isTensorList())
      visitor.list(input.toTensorList());
    else
      visitor.other(input);
  }
}

/// Whether the sizes of what an operator gives take more than the sizes of its
/// inputs: those of a convolution its stride, padding and dilation, too. Others
/// have values that are new in each step.
static bool needsValues(const at::RecordFunction &function) {
  // A convolution has the most inputs of all, which tells most others apart.
  constexpr size_t kLeastInputs = 7;
  return function.inputs().size() >= kLeastInputs &&
         std::strstr(function.name(), "conv");
}

/// As torch.profiler writes it; empty of what has no part in sizes.
static std::string valueText(const c10::IValue &input) {
  if (input.isInt())
    return std::to_string(input.toInt());
  if (input.isBool())
    return input.toBool() ? "True" : "False";
  std::string text;
  // A padding may be a word; no other text has a part in sizes.
  if (input.isString()) {
    const std::string &word = input.toStringRef();
    return word == "same" || word == "valid" ? word : text;
  }
  if (!input.isIntList())
    return text;
  for (int64_t number : input.toIntVector())
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

namespace {

/// Tells inputs of other sizes or types apart, and of other values where these
/// are needed.
struct InputsHash {
  bool hasValues = false;
  uint64_t hash = 1469598103934665603u;

  void mix(uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  void tensor(const at::Tensor &tensor) {
    if (!hasSizes(tensor))
      return mix(1);
    mix(2 + tensor.sizes().size());
    for (int64_t size : tensor.sizes())
      mix(uint64_t(size));
    mix(hash_value(tensor.dtype().id()));
  }
  void list(const c10::List<at::Tensor> &tensors) {
    mix(3);
    for (const at::Tensor &each : tensors)
      tensor(each);
  }
  void other(const c10::IValue &input) {
    mix(input.isScalar() ? 5 : 7);
    if (hasValues)
      mix(std::hash<std::string>()(valueText(input)));
  }
};

/// As torch.profiler writes them: "[[8, 16], [], [[4], [4]]]".
struct InputsText {
  std::string sizes, types, values;

  void tensor(const at::Tensor &tensor) {
    add("\"" + std::string(tensor.defined() ? tensor.dtype().name() : "") +
        "\"");
    describe(tensor);
  }
  void list(const c10::List<at::Tensor> &tensors) {
    add("\"TensorList\"");
    sizes += '[';
    const char *separator = "";
    for (const at::Tensor &each : tensors) {
      sizes += std::exchange(separator, ", ");
      describe(each);
    }
    sizes += ']';
  }
  void other(const c10::IValue &input) {
    add(input.isScalar() ? "\"Scalar\"" : "\"\"", valueText(input));
    sizes += "[]";
  }

private:
  void add(std::string_view type, const std::string &value = "") {
    if (!types.empty())
      for (std::string *list : {&sizes, &types, &values})
        *list += ", ";
    types += type;
    values += "\"" + value + "\"";
  }
  void describe(const at::Tensor &tensor) {
    sizes += '[';
    if (hasSizes(tensor))
      for (size_t at = 0; at < tensor.sizes().size(); ++at)
        sizes += (at ? ", " : "") + std::to_string(tensor.sizes()[at]);
    sizes += ']';
  }
};

} // namespace

void Observer::noteInputs(ThreadState &state,
                          const at::RecordFunction &function,
                          OperatorRecord &record) {
  const bool hasValues = needsValues(function);
  InputsHash hash{hasValues};
  visitInputs(function, hash);
  Inputs &known = state.inputs[hash.hash % state.inputs.size()];
  if (!known.isKnown || known.hash != hash.hash) {
    InputsText inputs;
    visitInputs(function, inputs);
    bool isLong = inputs.sizes.size() > kLongestInputs ||
                  inputs.types.size() > kLongestInputs;
    auto number = [&](const std::string &list) {
      return isLong ? kNone : text("[" + list + "]");
    };
    known = {hash.hash, number(inputs.sizes), number(inputs.types), 0, true};
    constexpr uint32_t kMostValues = (1u << 24) - 1;
    if (uint32_t values = hasValues ? number(inputs.values) : kNone;
        values < kMostValues)
      known.values = values + 1;
  }
  record.sizes = known.sizes;
  record.types = known.types;
  record.values = known.values;
}

static OperatorScope scopeOf(at::RecordScope scope) {
  switch (scope) {
  case at::RecordScope::BACKWARD_FUNCTION:
    return OperatorScope::Backward;
  case at::RecordScope::USER_SCOPE:
    return OperatorScope::Range;
  default:
    return OperatorScope::Operator;
  }
}

/// What autograd puts round each of its functions, and round what it adds up.
static bool isEngine(const char *name) {
  return std::strncmp(name, "autograd::engine::", 18) == 0;
}

/// A function of autograd's that the program or Dynamo wrote is called as an
/// operator is, and has a name without a namespace: what it calls are operators
/// of the program's.
static bool isPythonFunction(const char *name) {
  return !std::strstr(name, "::");
}

/// Takes those out of the thread's chain that another thread has ended.
static void dropEnded(ThreadState &state) {
  while (state.open && state.open->over.load(std::memory_order_acquire)) {
    Open *ended = state.open;
    state.open = ended->outer;
    ended->owner = nullptr;
    delete ended;
  }
}

/// What this thread had of the processor; 0 where the system does not say.
static uint64_t timeRun() {
  timespec time;
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time))
    return 0;
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

/// A thread of a server waits for requests, and one of a pipeline for what
/// others hand to it: it does not have the processor meanwhile. What it had is
/// asked after those operators alone that such a time followed before, as the
/// system takes longer to say it than an operator to be recorded.
static void notePause(Observer &observer, ThreadState &state,
                      const OperatorRecord &next) {
  if (!state.hasPaused())
    state.pauses[state.numPauses++ % state.pauses.size()] = {state.lastName,
                                                             state.lastPlace};
  const uint64_t ranBefore = std::exchange(state.lastRan, 0);
  if (!ranBefore)
    return;
  const uint64_t ran = timeRun(), pause = next.start - state.lastEnd;
  if (ran < ranBefore || 10 * (ran - ranBefore) > pause)
    return;
  OperatorRecord record{};
  record.start = state.lastEnd;
  record.end = next.start;
  record.id = uint64_t(state.number) << 40 | ++state.nextId;
  record.sequence = -1;
  record.thread = next.thread;
  record.name = observer.text(kWorkWait);
  record.place = next.place;
  record.sizes = record.types = kNone;
  record.scope = uint8_t(OperatorScope::Host);
  observer.add(state, record);
}

static std::unique_ptr<at::ObserverContext>
beginOperator(const at::RecordFunction &function) {
  Observer &observer = Observer::get();
  if (!observer.recording.load(std::memory_order_relaxed))
    return nullptr;
  ThreadState *recording = recordingThread(observer);
  if (!recording)
    return nullptr;
  ThreadState &state = *recording;
  uint64_t enteredAt = 0;
  if (state.unmeasured-- == 0) {
    state.unmeasured = kMeasuredEvery - 1;
    enteredAt = now();
  }
  auto open = std::make_unique<Open>();
  open->enteredAt = enteredAt;
  open->recording = state.recording;
  OperatorRecord &record = open->record;
  OperatorScope scope = scopeOf(function.scope());
  record.scope = uint8_t(scope);
  record.name = observer.name(state, function);
  record.id = uint64_t(state.number) << 40 | ++state.nextId;
  record.sequence = function.seqNr();
  // What is made to end on another thread is round nothing of this one, nor
  // does it lie within what this one runs.
  record.thread = function.isAsync() ? 0 : uint32_t(function.threadId());
  record.forwardThread = uint32_t(function.forwardThreadId());
  record.place = OPPROF_NO_PLACE;
  record.sizes = record.types = kNone;

  dropEnded(state);
  const Open *outer = open->outer = state.open;
  open->frame = observer.frame();
  if (outer) {
    open->inBackward = outer->inBackward;
    open->backwardFrame = outer->backwardFrame;
  }
  const bool wasInOperator = outer && outer->inOperator;
  // What operators call is none of the engine's.
  const bool isOfEngine = !wasInOperator && isEngine(function.name());
  if (scope == OperatorScope::Backward) {
    open->inBackward = true;
    open->backwardFrame = open->frame;
  } else if (outer && outer->frame == open->frame &&
             outer->record.scope != uint8_t(OperatorScope::Range)) {
    // No Python lies between the two.
    record.place = outer->record.place;
  } else if (!isOfEngine) {
    // Autograd runs on the thread that called it, whose frames say nothing of
    // the functions.
    record.place = observer.placeAt(
        state, open->frame, open->inBackward ? open->backwardFrame : nullptr);
  }
  const bool isOutermost =
      !wasInOperator && scope == OperatorScope::Operator && !isOfEngine;
  open->inOperator =
      wasInOperator || (isOutermost && !isPythonFunction(function.name()));
  // What operators call is computed from the sizes of the outermost. Autocast
  // calls an operator again, with what it has cast: that is what is computed
  // with.
  const bool isCastAgain = wasInOperator && outer->record.name == record.name;
  if (observer.shapes &&
      (scope == OperatorScope::Backward || isOutermost || isCastAgain))
    observer.noteInputs(state, function, record);
  // What is launched meanwhile is of the operator round what ends elsewhere: a
  // collective's kernels had the name of NCCL's work, which is no operator.
  if (!function.isAsync()) {
    state.open = open.get();
    open->owner = &state;
    if (observer.capture.atId)
      observer.capture.atId(record.id);
  }
  record.start = now();
  if (!outer && !state.isFirst && scope == OperatorScope::Operator &&
      state.lastEnd && record.start - state.lastEnd > kLongPauseNs)
    notePause(observer, state, record);
  return open;
}

static void recordEnd(Open *open) {
  open->record.end = now();
  ThreadState *state = thisThread;
  if (state && open->owner == state) {
    // A range may end out of order.
    for (Open **at = &state->open; *at; at = &(*at)->outer)
      if (*at == open) {
        *at = open->outer;
        break;
      }
    open->owner = nullptr;
    dropEnded(*state);
  }
  Observer &observer = Observer::get();
  if (observer.capture.atId)
    observer.capture.atId(state && state->open ? state->open->record.id : 0);
  if (!observer.recording.load(std::memory_order_relaxed) ||
      open->recording != observer.recordings.load(std::memory_order_relaxed))
    return;
  ThreadState *recording = recordingThread(observer);
  if (!recording)
    return;
  OperatorRecord &record = open->record;
  if (state == recording && !state->open && !state->isFirst) {
    state->lastEnd = record.end;
    state->lastName = record.name;
    state->lastPlace = record.place;
    state->lastRan = state->hasPaused() ? timeRun() : 0;
  }
  if (open->enteredAt)
    record.recordingNs = uint32_t(
        std::min<uint64_t>(record.start - open->enteredAt + now() - record.end,
                           std::numeric_limits<uint32_t>::max()));
  observer.add(*recording, record);
}

static void endOperator(const at::RecordFunction &function,
                        at::ObserverContext *context) {
  if (auto *open = static_cast<Open *>(context))
    recordEnd(open);
  if (function.scope() == at::RecordScope::USER_SCOPE)
    Observer::get().rangeEnded(function);
}

/// Where operators are not recorded, steps are counted all the same.
static std::unique_ptr<at::ObserverContext>
beginCounted(const at::RecordFunction &) {
  return nullptr;
}

static void endCounted(const at::RecordFunction &function,
                       at::ObserverContext *) {
  Observer::get().rangeEnded(function);
}

/// What PyTorch takes to call back at both ends of an operator, beside none: as
/// its dispatcher does it, for an operator of two tensors and a number. 0 where
/// somebody else is called back.
uint64_t Observer::measureCalling() {
  // Whoever listens already would take these for operators of the program.
  if (at::hasCallbacks())
    return 0;
  const std::optional<c10::OperatorHandle> add =
      c10::Dispatcher::singleton().findSchema({"aten::add", "Tensor"});
  if (!add)
    return 0;
  const at::Tensor tensor(at::detail::empty_cpu({1}, at::kFloat));
  auto timeCalls = [&] {
    constexpr int kCalls = 256, kRounds = 5;
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t from = now();
      for (int at = 0; at < kCalls; ++at) {
        auto callbacks =
            at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
        if (!callbacks)
          continue;
        at::RecordFunction function(std::move(*callbacks));
        if (function.needsInputs()) {
          const c10::IValue inputs[] = {tensor, tensor, 1};
          function.before(std::cref(add->schema()),
                          c10::ArrayRef<const c10::IValue>(inputs), -1);
        } else {
          function.before(std::cref(add->schema()), -1);
        }
      }
      least = std::min(least, now() - from);
    }
    return least / kCalls;
  };
  auto begin =
      [](const at::RecordFunction &) -> std::unique_ptr<at::ObserverContext> {
    return nullptr;
  };
  auto end = [](const at::RecordFunction &, at::ObserverContext *) {};
  const uint64_t without = timeCalls();
  const at::CallbackHandle idle =
      at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                                .needsInputs(shapes)
                                .scopes({at::RecordScope::FUNCTION}));
  const uint64_t with = timeCalls();
  at::removeCallback(idle);
  return with > without ? with - without : 0;
}

/// Has PyTorch call back at each operator, or at ranges alone.
void Observer::call(bool forOperators) {
  callNobody();
  at::RecordFunctionCallback ranges(beginCounted, endCounted);
  at::RecordFunctionCallback operators(beginOperator, endOperator);
  callback = at::addGlobalCallback(
      forOperators
          ? operators.needsInputs(shapes).scopes(
                {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                 at::RecordScope::TORCHSCRIPT_FUNCTION,
                 at::RecordScope::USER_SCOPE})
          : ranges.scopes({at::RecordScope::USER_SCOPE}));
}

void Observer::callNobody() {
  if (callback != at::INVALID_CALLBACK_HANDLE)
    at::removeCallback(callback);
  callback = at::INVALID_CALLBACK_HANDLE;
}
