// The C ABI of libopprof_capture. Thin entry points over the session, the ids
// and the recorded launches.

#include "opprof/Capture/Capture.h"

#include "Callbacks.h"
#include "Session.h"

#include "opprof/Capture/CaptureReader.h"

#include <algorithm>
#include <cstring>

using namespace opprof::capture;

static size_t copyText(const std::string &text, char *buffer, size_t size) {
  if (buffer && size) {
    size_t n = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), n);
    buffer[n] = 0;
  }
  return text.size();
}

static int noSession() {
  return failWith(OPPROF_INVALID, "no capture is running in this process");
}

static void fillFromTimeline(const KernelRecord &kernel, opprof_launch &out) {
  out.registers = kernel.registers;
  out.local_bytes = kernel.localPerThread;
  out.static_shared = kernel.staticShared;
  out.dynamic_shared = kernel.dynamicShared;
  out.duration_ns =
      uint32_t(std::min<uint64_t>(kernel.end - kernel.start, kNone - 1));
}

int opprof_capture_abi(void) { return OPPROF_CAPTURE_ABI; }

int opprof_capture_load(const char *path) {
  std::string error;
  return loadCupti(path, error) ? OPPROF_OK : failWith(OPPROF_NO_CUPTI, error);
}

size_t opprof_capture_info(char *buffer, size_t size) {
  auto quoted = [](std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\')
        out += '\\';
      out += c;
    }
    return out + '"';
  };
  std::string text = "{\"abi\": " + std::to_string(OPPROF_CAPTURE_ABI);
  if (const CuptiApi *api = cupti())
    text += ", \"cupti\": " + quoted(api->path) +
            ", \"cupti_version\": " + std::to_string(api->version) +
            ", \"range_profiler\": " +
            (api->cuptiRangeProfilerEnable ? "true" : "false");
  std::string error;
  if (const DriverApi *cuda = driver(&error)) {
    int count = 0;
    // Nothing else of this process may have used CUDA yet.
    CUresult result = cuda->cuInit(0);
    if (result == CUDA_SUCCESS)
      result = cuda->cuDeviceGetCount(&count);
    text += ", \"driver_version\": " + std::to_string(cuda->version) +
            ", \"devices\": " + std::to_string(count);
    if (result != CUDA_SUCCESS)
      text += ", \"no_driver\": " + quoted(driverText(result));
  } else {
    text += ", \"no_driver\": " + quoted(error);
  }
  return copyText(text + "}", buffer, size);
}

int opprof_capture_start(const opprof_capture_options *options) {
  if (!options || options->size < sizeof(*options))
    return failWith(OPPROF_INVALID,
                    "opprof_capture_start: options of another ABI");
  return Session::start(*options);
}

int opprof_capture_pause(void) {
  auto session = Session::current();
  return session ? session->pause() : noSession();
}

int opprof_capture_resume(void) {
  auto session = Session::current();
  return session ? session->resume() : noSession();
}

int opprof_capture_flush(void) {
  auto session = Session::current();
  return session ? session->flush() : noSession();
}

int opprof_capture_stop(opprof_capture_stats *stats) {
  return Session::stop(stats);
}

int opprof_capture_active(void) { return Session::current() != nullptr; }

int opprof_capture_mark(uint32_t kind, uint64_t value, const char *name) {
  auto session = Session::current();
  if (!session)
    return noSession();
  session->mark(kind, value, name);
  return OPPROF_OK;
}

int opprof_capture_push_id(uint64_t id) { return IdStack::push(id); }
int opprof_capture_pop_id(void) { return IdStack::pop(); }
void opprof_capture_at_id(uint64_t id) { IdStack::at(id); }

int opprof_capture_name_id(uint64_t id, const char *text) {
  auto session = Session::current();
  if (!session)
    return noSession();
  std::lock_guard<std::mutex> lock(session->writer().Mutex);
  IdNameRecord record{id, session->writer().string(text), 0};
  session->writer().add(ChunkType::IdNames, record);
  return OPPROF_OK;
}

int opprof_launches_begin(void) { return Callbacks::get().beginLaunches(); }

int opprof_launches_end(size_t *count) {
  int status = Callbacks::get().endLaunches();
  if (count)
    *count = Callbacks::get().launchCount();
  return status;
}

int opprof_launches_get(size_t index, opprof_launch *out) {
  auto found = Callbacks::get().launch(index);
  if (!found)
    return failWith(OPPROF_INVALID, "no launch " + std::to_string(index));
  const Launch &l = found->launch;
  out->name = found->name;
  out->external_id = l.externalId;
  std::copy(l.grid, l.grid + 3, out->grid);
  std::copy(l.block, l.block + 3, out->block);
  out->kind = l.kind;
  out->registers = out->local_bytes = out->static_shared = out->dynamic_shared =
      out->duration_ns = kNone;
  if (found->kernel)
    fillFromTimeline(*found->kernel, *out);
  return OPPROF_OK;
}

int opprof_launches_kernel(size_t launch, size_t index, opprof_launch *out) {
  auto found = Callbacks::get().launch(launch);
  if (!found)
    return failWith(OPPROF_INVALID, "no launch " + std::to_string(launch));
  size_t count = 0;
  auto ran = Callbacks::get().kernelOfGraph(found->launch, index, count);
  if (!ran)
    return failWith(OPPROF_INVALID, "launch " + std::to_string(launch) +
                                        " ran " + std::to_string(count) +
                                        " kernels of a graph");
  const auto &[kernel, name] = *ran;
  *out = {};
  out->name = name ? name : "(unnamed)";
  std::copy(kernel.grid, kernel.grid + 3, out->grid);
  std::copy(kernel.block, kernel.block + 3, out->block);
  fillFromTimeline(kernel, *out);
  return OPPROF_OK;
}

int opprof_capture_measure_ranks(const char *const *paths,
                                 const uint32_t *ranks, size_t count,
                                 const char *measures) {
  std::vector<RankCapture> captures;
  for (size_t index = 0; index < count; ++index)
    captures.push_back({paths[index], ranks[index]});
  std::string error;
  return measureRanks(captures, measures, error) ? OPPROF_OK
                                                 : failWith(OPPROF_IO, error);
}

size_t opprof_demangle(const char *name, char *buffer, size_t size) {
  return copyText(demangled(name), buffer, size);
}

size_t opprof_capture_summarize(const char *path, char *buffer, size_t size) {
  std::string text, error;
  if (!summarize(path, text, error)) {
    failWith(OPPROF_IO, error);
    return 0;
  }
  return copyText(text, buffer, size);
}
