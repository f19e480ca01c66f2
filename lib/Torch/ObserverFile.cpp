// The observer's file, one a recording: records of threads' rings, and the
// names and places that they mean.

#include "ObserverState.h"

#include <cstdlib>
#include <unistd.h>

using namespace opprof::capture;
using namespace opprof::observer;

namespace {

/// Names beyond so many are one, so that a program that makes its ranges' names
/// up as it goes takes no more memory the longer it runs.
constexpr size_t kMostNames = 200'000;
/// Bytes of all names and sizes.
constexpr size_t kMostText = size_t(64) << 20;
/// How long a thread may take from the time that it writes down to the record.
constexpr uint64_t kRecordLateNs = 100'000'000;

} // namespace

std::string opprof::observer::pathOf(const std::string &prefix) {
  return prefix + "-" + recordedName() + ".opcap";
}

Observer::LockedFile Observer::lockFile() {
  while (true) {
    FileWriter *at = file.load(std::memory_order_acquire);
    if (!at)
      return {nullptr, {}};
    std::unique_lock<std::mutex> lock(at->Mutex);
    // A recording may have begun meanwhile, with a file of its own.
    if (at == file.load(std::memory_order_acquire))
      return {at, std::move(lock)};
  }
}

bool Observer::open() {
  // Until it is known to all, its places are those that there are now.
  std::lock_guard<std::mutex> lock(placesMutex);
  auto made = std::make_unique<FileWriter>();
  FileWriter *file = made.get();
  if (!file->open(pathOf(prefix), error))
    return false;
  const char *rank = std::getenv("RANK");
  file->meta(kRecorderKey, kObserver);
  file->meta("pid", std::to_string(::getpid()));
  file->meta("torch", opprof_observer_torch());
  file->meta(kCallingKey, std::to_string(callingNs));
  if (rank)
    file->meta("rank", rank);
  if (const char *size = std::getenv("WORLD_SIZE"))
    file->meta("world_size", size);
  timespec real;
  ::clock_gettime(CLOCK_REALTIME, &real);
  uint64_t time = now();
  ClockRecord clock{
      time, uint64_t(real.tv_sec) * 1'000'000'000 + uint64_t(real.tv_nsec),
      time};
  file->add(ChunkType::Clocks, clock);
  for (uint32_t number = 0; number < places.size(); ++number)
    writePlace(*file, number);
  if (!file->flush()) {
    error = file->error();
    return false;
  }
  files.push_back(std::move(made));
  this->file.store(file, std::memory_order_release);
  return true;
}

uint32_t Observer::text(std::string_view text) {
  auto [file, lock] = lockFile();
  if (!file)
    return kNone;
  if (!file->hasString(text)) {
    if (file->strings() >= kMostNames || textBytes + text.size() > kMostText)
      text = "(further names)";
    textBytes += text.size();
  }
  return file->string(text);
}

void Observer::writePlace(FileWriter &file, uint32_t number) const {
  const PlaceText &place = places[number];
  PlaceRecord record{number,
                     file.string(place.module),
                     file.string(place.file),
                     file.string(place.function),
                     place.line,
                     file.string(place.group)};
  file.add(ChunkType::Places, record);
}

uint32_t Observer::addPlace(PlaceText place) {
  std::lock_guard<std::mutex> all(placesMutex);
  if (places.size() >= kMostNames)
    return OPPROF_NO_PLACE;
  places.push_back(std::move(place));
  if (auto [file, lock] = lockFile(); file)
    writePlace(*file, uint32_t(places.size() - 1));
  return uint32_t(places.size() - 1);
}

template <typename Record>
void Observer::writeRing(FileWriter &file, ChunkType type, Ring<Record> &ring) {
  uint64_t from = ring.taken.load(std::memory_order_relaxed);
  const uint64_t to = ring.added.load(std::memory_order_acquire);
  while (from < to) {
    size_t at = from % kBuffered;
    size_t count = std::min<size_t>(to - from, kBuffered - at);
    file.addAll(type, &ring.records[at], count);
    from += count;
  }
  ring.taken.store(to, std::memory_order_release);
}

void Observer::write(Log &log) {
  std::lock_guard<std::mutex> own(log.mutex);
  if (log.operators.taken == log.operators.added &&
      log.allocations.taken == log.allocations.added)
    return;
  auto [file, lock] = lockFile();
  if (!file || !file->isOpen())
    return;
  writeRing(*file, ChunkType::Operators, log.operators);
  writeRing(*file, ChunkType::Allocations, log.allocations);
  file->flush();
  if (file->bytes() <= limit || !recording.exchange(false))
    return;
  recordsMemory = false;
  file->meta("not recorded", "what ran after the file had reached its limit "
                             "of " +
                                 std::to_string(limit >> 20) + " MiB");
  file->flush();
}

std::shared_ptr<Log> Observer::makeLog(uint32_t &number) {
  auto log = std::make_shared<Log>();
  log->operators.records.reset(new OperatorRecord[kBuffered]);
  std::lock_guard<std::mutex> lock(logsMutex);
  if (!file) {
    if (open())
      startWriting();
    else
      recording = false;
  }
  number = ++threads;
  uint64_t never = 0;
  began.compare_exchange_strong(never, now());
  logs.push_back(log);
  return log;
}

void Observer::dropLog(const std::shared_ptr<Log> &log) {
  // A recording that is about to end may not have read it yet.
  write(*log);
  std::lock_guard<std::mutex> lock(logsMutex);
  std::erase(logs, log);
}

/// Begins a file in the place of the one that there is.
bool Observer::openNext() {
  std::lock_guard<std::mutex> lock(logsMutex);
  FileWriter *last = file;
  begun();
  for (const std::shared_ptr<Log> &log : logs) {
    std::lock_guard<std::mutex> own(log->mutex);
    log->operators.taken = log->operators.added.load();
    log->allocations.taken = log->allocations.added.load();
  }
  if (!open())
    return false;
  if (last) {
    std::lock_guard<std::mutex> own(last->Mutex);
    last->abandon();
  }
  return true;
}

void Observer::endFile() {
  flush();
  auto [file, lock] = lockFile();
  if (!file || !file->isOpen())
    return;
  file->finish(0, now());
  error = file->error();
}

void Observer::note(const char *key, const std::string &text) {
  auto [file, lock] = lockFile();
  if (!file || !file->isOpen())
    return;
  file->meta(key, text);
  file->flush();
}

bool Observer::flush() {
  const uint64_t written = now() - kRecordLateNs;
  std::vector<std::shared_ptr<Log>> all;
  {
    std::lock_guard<std::mutex> lock(logsMutex);
    all = logs;
  }
  for (const std::shared_ptr<Log> &log : all)
    write(*log);
  auto [file, lock] = lockFile();
  if (file && file->isOpen() && recordsMemory) {
    AllocationRecord record{};
    record.time = written;
    record.place = OPPROF_NO_PLACE;
    record.operation = uint8_t(AllocationOperation::Written);
    file->add(ChunkType::Allocations, record);
  }
  return file && file->flush();
}

void Observer::writeEvery() {
  std::unique_lock<std::mutex> lock(wakeMutex);
  while (true) {
    wake.wait_for(lock, interval, [&] { return ending || isHalfFull; });
    if (ending)
      return;
    isHalfFull = false;
    lock.unlock();
    flush();
    searchEnded();
    endCapture();
    lock.lock();
  }
}
