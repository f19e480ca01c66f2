// Captures programs that know nothing of it. The CUDA driver loads the library
// that CUDA_INJECTION64_PATH names and calls InitializeInjection when a program
// first uses CUDA. NVTX does the same with NVTX_INJECTION64_PATH and
// InitializeInjectionNvtx2 at its first range.

#include "Cupti.h"

#include "opprof/Capture/Capture.h"
#include "opprof/Capture/FileWriter.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <thread>
#include <unistd.h>

using namespace opprof::capture;

static std::string expand(const char *pattern) {
  std::string out;
  for (const char *p = pattern; *p; ++p) {
    if (p[0] != '%' || !p[1]) {
      out += *p;
      continue;
    }
    ++p;
    char host[256] = "";
    switch (*p) {
    case 'p':
      out += std::to_string(::getpid());
      break;
    case 'r': {
      const char *rank = std::getenv("RANK");
      out += rank && *rank ? rank : "0";
      break;
    }
    case 'n':
      out += recordedName();
      break;
    case 'h':
      ::gethostname(host, sizeof(host) - 1);
      out += host;
      break;
    default:
      out += *p;
    }
  }
  return out;
}

static double secondsFrom(const char *variable) {
  const char *value = std::getenv(variable);
  return value ? std::strtod(value, nullptr) : 0;
}

static void stopAtExit() {
  if (opprof_capture_active() && opprof_capture_stop(nullptr) != OPPROF_OK)
    std::fprintf(stderr, "opprof: %s\n", opprof_capture_last_error());
}

int InitializeInjectionNvtx2(void *exportTable) {
  std::string error;
  const CuptiApi *api = loadCupti(nullptr, error);
  void *handle =
      api ? ::dlopen(api->path.c_str(), RTLD_NOW | RTLD_NOLOAD) : nullptr;
  auto initialize = reinterpret_cast<int (*)(void *)>(
      handle ? ::dlsym(handle, "InitializeInjectionNvtx2") : nullptr);
  // Zero tells NVTX that there is no tool, and its calls stay empty.
  return initialize ? initialize(exportTable) : 0;
}

/// Whether the driver has asked for a capture, or need not ask.
static std::atomic<bool> injected{false};

void opprof_capture_decline_injection(void) { injected = true; }

int InitializeInjection(void) {
  if (injected.exchange(true))
    return 1;
  const char *pattern = std::getenv("OPPROF_CAPTURE_FILE");
  if (!pattern || !*pattern)
    return 1;
  std::string path = expand(pattern);
  double delay = secondsFrom("OPPROF_CAPTURE_DELAY");
  double duration = secondsFrom("OPPROF_CAPTURE_DURATION");
  opprof_capture_options options{};
  options.size = sizeof(options);
  options.path = path.c_str();
  if (const char *kinds = std::getenv("OPPROF_CAPTURE_KINDS"))
    options.kinds = uint32_t(std::strtoul(kinds, nullptr, 0));
  options.paused = delay > 0;
  // CUPTI hands over whole buffers, and a program that is killed loses the one
  // that is being filled: some thousand kernels of this size.
  options.buffer_bytes = 256u << 10;
  // The program goes on whatever happens here: its own behaviour comes first.
  if (opprof_capture_start(&options) != OPPROF_OK) {
    std::fprintf(stderr, "opprof: nothing is captured: %s\n",
                 opprof_capture_last_error());
    return 1;
  }
  std::atexit(stopAtExit);
  if (delay > 0 || duration > 0)
    std::thread([delay, duration] {
      std::this_thread::sleep_for(std::chrono::duration<double>(delay));
      opprof_capture_resume();
      if (duration <= 0)
        return;
      std::this_thread::sleep_for(std::chrono::duration<double>(duration));
      opprof_capture_pause();
    }).detach();
  return 1;
}
