// Limits of memory and processor time for the files of strangers.

#include "opprof/Support/ReadingLimits.h"
#include "opprof/Support/Units.h"

#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using namespace opprof;

namespace {
/// The limits of this process, which are made at its first file.
class Limits {
public:
  void add(llvm::StringRef name, uint64_t bytes, const ReadingBudget &budget);

private:
  void begin();
  void hold();

  std::mutex mutex;
  bool isBegun = false;
  /// Of the process at its first file, in bytes; 0 where it isn't known.
  uint64_t usedBefore = 0;
  ReadingBudget largest = {0, 0, 0, 0};
  /// What the files' own bytes allow.
  uint64_t memory = 0;
  double seconds = 0;
};
} // namespace

/// Written by the handlers below, where no memory can be had.
static constexpr size_t kMaxMessage = 512;
static char memoryMessage[kMaxMessage];
static char timeMessage[kMaxMessage];

[[noreturn]] static void stop(const char *message) {
  // Nothing can be done where stderr takes nothing.
  [[maybe_unused]] ssize_t written =
      ::write(STDERR_FILENO, message, std::strlen(message));
  std::_Exit(1);
}

static void stopForMemory() { stop(memoryMessage); }
static void stopForMemory(void *, const char *, bool) { stop(memoryMessage); }
static void stopForTime(int) { stop(timeMessage); }

static void setMessage(char *to, llvm::StringRef name, const std::string &what,
                       const std::string &limit) {
  // The name may hold anything, and goes to a terminal.
  std::string text = "error: ";
  for (unsigned char c : name.take_front(200))
    text += c < 0x20 || c == 0x7f ? '?' : static_cast<char>(c);
  text += ": reading it takes more than " + limit + " of " + what +
          ", the most for its size: it is damaged, or made to do harm\n"
          "  where it is neither, set OPPROF_READING_LIMITS=off\n";
  size_t size = std::min(text.size(), kMaxMessage - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

/// The private memory of the process in bytes, as RLIMIT_DATA counts it, or 0.
static uint64_t getUsedMemory() {
  std::ifstream file("/proc/self/statm");
  uint64_t total, resident, shared, code, library, data = 0;
  file >> total >> resident >> shared >> code >> library >> data;
  return file ? data * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

/// What stacks and arenas of a thread a processor take, and more.
static uint64_t threadMemory() {
  return uint64_t(std::thread::hardware_concurrency()) << 25;
}

/// Sets a limit that never is above what the process had.
static void lower(__rlimit_resource resource, uint64_t to) {
  rlimit limit;
  static rlimit before[RLIM_NLIMITS];
  static bool isKnown[RLIM_NLIMITS];
  if (::getrlimit(resource, &limit))
    return;
  if (!isKnown[resource]) {
    before[resource] = limit;
    isKnown[resource] = true;
  }
  limit.rlim_cur = std::min<uint64_t>(before[resource].rlim_cur, to);
  ::setrlimit(resource, &limit);
}

void Limits::begin() {
  isBegun = true;
  usedBefore = getUsedMemory();
  std::set_new_handler(stopForMemory);
  llvm::install_bad_alloc_error_handler(stopForMemory);
  std::signal(SIGXCPU, stopForTime);
}

void Limits::hold() {
  if (usedBefore)
    lower(RLIMIT_DATA, usedBefore + threadMemory() + largest.memory + memory);
  lower(RLIMIT_CPU, largest.seconds + static_cast<uint64_t>(seconds));
}

void Limits::add(llvm::StringRef name, uint64_t bytes,
                 const ReadingBudget &budget) {
  std::lock_guard lock(mutex);
  if (!isBegun)
    begin();
  largest.memory = std::max(largest.memory, budget.memory);
  largest.seconds = std::max(largest.seconds, budget.seconds);
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max() / 8;
  memory = std::min(kMost, memory + std::min(bytes, kMost / 2048) *
                                        budget.memoryPerByte);
  seconds =
      std::min(1e9, seconds + static_cast<double>(bytes) /
                                  static_cast<double>(budget.bytesPerSecond));
  setMessage(memoryMessage, name, "memory",
             formatBytes(largest.memory + memory));
  setMessage(timeMessage, name, "processor time",
             std::to_string(largest.seconds + static_cast<uint64_t>(seconds)) +
                 " s");
  hold();
}

void opprof::limitReading(llvm::StringRef name, uint64_t bytes,
                          const ReadingBudget &budget) {
  static const bool isOff = [] {
    const char *set = std::getenv("OPPROF_READING_LIMITS");
    return set && llvm::StringRef(set) == "off";
  }();
  static Limits limits;
  if (!isOff)
    limits.add(name, bytes, budget);
}
