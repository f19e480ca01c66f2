// What a thread that runs operators keeps: those that have begun, the records
// that wait to be written, and the names and sizes that it has met.

#ifndef OPPROF_LIB_TORCH_THREADSTATE_H
#define OPPROF_LIB_TORCH_THREADSTATE_H

#include "opprof/Capture/CaptureFile.h"

#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

// Without it, at::RecordFunction has a field that PyTorch's own has not.
#ifndef NDEBUG
#error "compile with NDEBUG, as PyTorch is"
#endif

namespace opprof::observer {

using capture::AllocationRecord;
using capture::kNone;
using capture::OperatorRecord;

/// Records of a kind and thread that may wait to be written: 512 KiB of
/// operators and 320 KiB of allocations.
inline constexpr size_t kBuffered = 8192;

inline uint64_t now() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

struct ThreadState;

/// An operator that has begun. PyTorch holds it until the end, on whichever
/// thread that is.
struct Open final : at::ObserverContext {
  OperatorRecord record{};
  /// The one round it on its thread.
  Open *outer = nullptr;
  /// The innermost frame of Python where it began.
  const void *frame = nullptr;
  /// Where the innermost function of autograd's round it, or itself, began.
  const void *backwardFrame = nullptr;
  bool inBackward = false;
  /// An operator, or inside of one: not a range, and not autograd's.
  bool inOperator = false;
  /// When the callback at its beginning was entered, of one whose recording is
  /// measured; else 0.
  uint64_t enteredAt = 0;
  /// The recording that the record's numbers are of.
  uint32_t recording = 0;

  /// The thread in whose chain of open ones it is; null where it is in none.
  ThreadState *owner = nullptr;
  /// Another thread ended it: its owner takes it out of the chain and frees it.
  std::atomic<bool> over{false};

  // One a call of an operator: from a list of its thread's own.
  // The checker knows no delete that destroys.
  // NOLINTNEXTLINE(misc-new-delete-overloads)
  static void *operator new(size_t size);
  static void operator delete(Open *open, std::destroying_delete_t);
};

/// Records of one kind, which a thread adds to and whoever holds its log's lock
/// takes from.
template <typename Record> struct Ring {
  /// Made by the thread before it adds the first.
  std::unique_ptr<Record[]> records;
  /// What was taken when the thread last looked.
  uint64_t seen = 0;
  alignas(64) std::atomic<uint64_t> added{0};
  alignas(64) std::atomic<uint64_t> taken{0};
};

/// A thread's records. The thread waits for the lock only where a ring is full.
struct Log {
  Ring<OperatorRecord> operators;
  Ring<AllocationRecord> allocations;
  std::mutex mutex;
};

/// The numbers of names that a thread has met.
class Names {
public:
  /// Of an operator, whose name lies where it is for as long as it can be
  /// called. Null where it is not known.
  const uint32_t *find(const char *text) const {
    for (size_t probe = 0; probe < kProbes; ++probe) {
      const Operator &known = operators[slotOf(text, probe)];
      if (known.text == text)
        return std::memcmp(known.head, text, kHead) ? nullptr : &known.number;
      if (!known.text)
        return nullptr;
    }
    return nullptr;
  }
  void add(const char *text, uint32_t number) {
    size_t probe = 0;
    while (probe < kProbes && operators[slotOf(text, probe)].text &&
           operators[slotOf(text, probe)].text != text)
      ++probe;
    Operator &known = operators[slotOf(text, probe % kProbes)];
    known.text = text;
    known.number = number;
    std::memcpy(known.head, text, kHead);
  }

  /// Of what is named by a text that is made for the call.
  const uint32_t *findText(std::string_view text) const {
    const Text &known = texts[hash(text) % kTexts];
    return known.text == text ? &known.number : nullptr;
  }
  void addText(std::string_view text, uint32_t number) {
    texts[hash(text) % kTexts] = {std::string(text), number};
  }

private:
  static constexpr size_t kOperators = 2048, kProbes = 8, kTexts = 2048;
  /// A name is a std::string's, which has so many bytes at least. They tell a
  /// text from the operator of a library that was unloaded from there.
  static constexpr size_t kHead = 16;
  struct Operator {
    const char *text = nullptr;
    uint32_t number = 0;
    char head[kHead];
  };
  struct Text {
    std::string text;
    uint32_t number = 0;
  };

  static size_t slotOf(const char *text, size_t probe) {
    size_t mixed = (reinterpret_cast<uintptr_t>(text) >> 3) * kGolden;
    return ((mixed >> 48) + probe) % kOperators;
  }
  static size_t hash(std::string_view text) {
    uint64_t hash = text.size();
    for (; text.size() >= 8; text.remove_prefix(8)) {
      uint64_t word;
      std::memcpy(&word, text.data(), 8);
      hash = (hash ^ word) * kGolden;
      hash ^= hash >> 32;
    }
    for (char letter : text)
      hash = (hash ^ uint8_t(letter)) * kGolden;
    return hash >> 32;
  }
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;

  std::array<Operator, kOperators> operators;
  std::array<Text, kTexts> texts;
};

/// Sizes, types and values of inputs that were met before.
struct Inputs {
  uint64_t hash = 0;
  uint32_t sizes = kNone, types = kNone;
  /// As OperatorRecord::values.
  uint32_t values = 0;
  bool isKnown = false;
};

struct ThreadState {
  std::shared_ptr<Log> log;
  Open *open = nullptr;
  uint64_t nextId = 0;
  /// Operators until the next one whose recording is measured.
  uint32_t unmeasured = 0;
  uint32_t number = 0;
  /// Which recording the log and the numbers below are of.
  uint32_t recording = 0;
  /// Inside the source of places, where an operator is not to ask it again.
  bool asking = false;
  /// Whether it is the process's first, which waits for nobody's work.
  bool isFirst = false;
  /// The outermost operator that ran last: when it ended, what the thread had
  /// had of the processor by then (0: not asked), and which one it was.
  uint64_t lastEnd = 0, lastRan = 0;
  uint32_t lastName = kNone, lastPlace = kNone;
  /// After which ones the thread last ran none for long: a request may have
  /// several such times.
  struct Pause {
    uint32_t name = kNone, place = kNone;
  };
  std::array<Pause, 8> pauses;
  size_t numPauses = 0;
  /// Memory of operators that have ended.
  Open *freed = nullptr;
  size_t numFreed = 0;
  std::unique_ptr<Names> names;
  std::array<Inputs, 1024> inputs;

  /// Whether the operator that ran last is one of these.
  bool hasPaused() const {
    for (const Pause &pause : pauses)
      if (pause.name == lastName && pause.place == lastPlace)
        return true;
    return false;
  }

  ~ThreadState();
};

/// This thread's state, or null: where a thread-local object costs calls, a
/// pointer costs one load.
[[gnu::tls_model(
    "initial-exec")]] extern constinit thread_local ThreadState *thisThread;

/// The state of a thread that is about to record for the first time; null where
/// the thread is at its end.
ThreadState *makeThread();

} // namespace opprof::observer

#endif // OPPROF_LIB_TORCH_THREADSTATE_H
