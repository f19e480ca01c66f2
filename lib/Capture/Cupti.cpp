//===- Cupti.cpp - Finds CUPTI and the driver -----------------------------===//
//
// The search goes from what the user said, over what the process already uses,
// to what the loader knows: two CUPTIs in one process would not see each other.
//
//===----------------------------------------------------------------------===//

#include "Cupti.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <unistd.h>
#include <vector>

using namespace opprof::capture;

// cuda.h renames these to their versioned symbols, which is what dlsym needs.
#define OPPROF_STRINGIFY_(x) #x
#define OPPROF_STRINGIFY(x) OPPROF_STRINGIFY_(x)

namespace {

std::mutex LoadMutex;
std::atomic<const CuptiApi *> Loaded{nullptr};

/// Folders of CUDA libraries that the process has mapped.
std::vector<std::string> mappedCudaFolders() {
  std::vector<std::string> folders;
  std::FILE *maps = std::fopen("/proc/self/maps", "r");
  if (!maps)
    return folders;
  char line[4352];
  while (std::fgets(line, sizeof(line), maps)) {
    char *path = std::strchr(line, '/');
    if (!path)
      continue;
    path[std::strcspn(path, "\n")] = 0;
    const char *base = std::strrchr(path, '/') + 1;
    if (std::strncmp(base, "libcudart.so", 12) != 0 &&
        std::strncmp(base, "libcupti.so", 11) != 0)
      continue;
    std::string folder(path, base - path);
    if (folders.empty() || folders.back() != folder)
      folders.push_back(folder);
  }
  std::fclose(maps);
  return folders;
}

void *openCupti(const char *path, std::string &found, std::string &error) {
  auto open = [&](const std::string &name, int flags) -> void * {
    void *handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
    if (handle)
      found = name;
    return handle;
  };
  if (!path || !*path)
    path = std::getenv("OPPROF_CUPTI_LIBRARY");
  if (path && *path) {
    if (void *handle = open(path, 0))
      return handle;
    const char *reason = ::dlerror();
    error = std::string("CUPTI cannot be loaded from ") + path + ": " +
            (reason ? reason : "unknown reason");
    return nullptr;
  }
  static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12",
                                        "libcupti.so"};
  for (const char *name : sonames)
    if (void *handle = open(name, RTLD_NOLOAD))
      return handle;
  for (const std::string &folder : mappedCudaFolders()) {
    // PyTorch's 12.x wheels keep each CUDA library in a folder of its own.
    for (const char *sibling : {"", "../../cuda_cupti/lib/"})
      for (const char *name : sonames)
        if (void *handle = open(folder + sibling + name, 0))
          return handle;
  }
  for (const char *name : sonames)
    if (void *handle = open(name, 0))
      return handle;
  if (const char *home = std::getenv("CUDA_HOME"))
    for (const char *name : sonames)
      if (void *handle =
              open(std::string(home) + "/extras/CUPTI/lib64/" + name, 0))
        return handle;
  error = "CUPTI was not found; install the package nvidia-cuda-cupti that "
          "belongs to your PyTorch (pip install nvidia-cuda-cupti), or set "
          "OPPROF_CUPTI_LIBRARY to the path of libcupti.so";
  return nullptr;
}

} // namespace

std::string CuptiApi::text(CUptiResult result) const {
  const char *message = nullptr;
  if (!cuptiGetResultString ||
      cuptiGetResultString(result, &message) != CUPTI_SUCCESS || !message)
    message = "unknown error";
  return std::string(message) + " (CUPTI error " + std::to_string(result) + ")";
}

const CuptiApi *opprof::capture::cupti() {
  return Loaded.load(std::memory_order_acquire);
}

const CuptiApi *opprof::capture::loadCupti(const char *path,
                                           std::string &error) {
  if (const CuptiApi *api = cupti())
    return api;
  std::lock_guard<std::mutex> lock(LoadMutex);
  if (const CuptiApi *api = cupti())
    return api;
  std::string found;
  void *handle = openCupti(path, found, error);
  if (!handle)
    return nullptr;
  static CuptiApi api;
  const char *missing = nullptr;
#define X(name)                                                                \
  api.name = reinterpret_cast<decltype(api.name)>(::dlsym(handle, #name));     \
  if (!api.name && !missing)                                                   \
    missing = #name;
  OPPROF_CUPTI_REQUIRED(X)
#undef X
#define X(name)                                                                \
  api.name = reinterpret_cast<decltype(api.name)>(::dlsym(handle, #name));
  OPPROF_CUPTI_OPTIONAL(X)
#undef X
  if (missing) {
    error = found + " lacks " + missing +
            "; opprof needs CUPTI 12.0 or newer (pip install "
            "nvidia-cuda-cupti)";
    return nullptr;
  }
  api.cuptiGetVersion(&api.version);
  Dl_info info;
  api.path = ::dladdr(reinterpret_cast<void *>(api.cuptiGetVersion), &info) &&
                     info.dli_fname
                 ? info.dli_fname
                 : found;
  Loaded.store(&api, std::memory_order_release);
  return &api;
}

const DriverApi *opprof::capture::driver(std::string *error) {
  static std::string failure;
  static const DriverApi *loaded = []() -> const DriverApi * {
    const char *path = std::getenv("OPPROF_CUDA_LIBRARY");
    void *handle =
        ::dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      failure = "there is no NVIDIA driver here (libcuda.so.1 cannot be "
                "loaded); on a machine without a GPU, profile on the CPU";
      return nullptr;
    }
    static DriverApi api;
    const char *missing = nullptr;
#define X(name)                                                                \
  api.name = reinterpret_cast<decltype(api.name)>(                             \
      ::dlsym(handle, OPPROF_STRINGIFY(name)));                                \
  if (!api.name && !missing)                                                   \
    missing = OPPROF_STRINGIFY(name);
    OPPROF_CUDA_DRIVER(X)
#undef X
    if (missing) {
      failure = std::string("the NVIDIA driver lacks ") + missing +
                "; it is too old for CUDA 12";
      return nullptr;
    }
    api.cuDriverGetVersion(&api.version);
    return &api;
  }();
  if (!loaded && error)
    *error = failure;
  return loaded;
}
