// Finds CUPTI and the driver. The search goes from what the user said, over
// what the process already uses, to what the loader knows: two CUPTIs in one
// process would not see each other.

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

} // namespace

/// Folders of CUDA libraries that the process has mapped.
static std::vector<std::string> mappedCudaFolders() {
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

static void *openCupti(const char *path, std::string &found,
                       std::string &error) {
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
  // What an injected program that brings none is lent by its profiler.
  const char *lent = std::getenv("OPPROF_CUPTI_DEFAULT");
  if (lent && *lent)
    if (void *handle = open(lent, 0))
      return handle;
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
                "loaded; a container needs --gpus=all)";
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

std::string opprof::capture::driverText(CUresult result) {
  std::string number = " (CUDA error " + std::to_string(result) + ")";
  switch (int(result)) {
  case CUDA_ERROR_NO_DEVICE:
    return "the driver shows no GPU" + number +
           ": CUDA_VISIBLE_DEVICES may hide it; a container needs --gpus=all; "
           "a GPU in MIG mode needs an instance "
           "(nvidia-smi mig -cgi <profile> -C)";
  case CUDA_ERROR_SYSTEM_NOT_READY:
    return "the GPUs are not ready" + number +
           ": on a machine with NVSwitch the fabric manager has to run "
           "(systemctl start nvidia-fabricmanager)";
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    return "the kernel's part of the driver and its library are not of one "
           "version" +
           number + ": reboot, or load the kernel module that was installed";
  case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    return "the driver is too old for this CUDA, and this GPU takes no "
           "compatibility libraries" +
           number + ": update the driver, or install a PyTorch for its CUDA";
  case CUDA_ERROR_MPS_CONNECTION_FAILED:
  case CUDA_ERROR_MPS_RPC_FAILURE:
  case CUDA_ERROR_MPS_SERVER_NOT_READY:
  case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
  case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
    return "the MPS server does not take this process" + number +
           ": end it (echo quit | nvidia-cuda-mps-control), or unset "
           "CUDA_MPS_PIPE_DIRECTORY";
  case CUDA_ERROR_NOT_INITIALIZED:
  case CUDA_ERROR_DEINITIALIZED:
    return "CUDA is not initialized in this process" + number;
  default:
    return "the driver cannot be initialized" + number;
  }
}

std::string opprof::capture::versionMismatch(const CuptiApi &cupti) {
  const DriverApi *cuda = driver();
  if (!cuda || !cuda->version)
    return "";
  // Before 13, CUPTI counted its interface up instead of naming CUDA's version.
  int needed = cupti.version >= 10000 ? int(cupti.version / 10000)
               : cupti.version >= 18  ? 12
                                      : 11;
  if (cuda->version / 1000 >= needed)
    return "";
  return "; the driver is of CUDA " + std::to_string(cuda->version / 1000) +
         "." + std::to_string(cuda->version % 1000 / 10) + " and " +
         cupti.path + " of CUDA " + std::to_string(needed) +
         ": update the driver, or install a PyTorch for its CUDA";
}

std::string opprof::capture::multiProcessHint() {
  const char *pipe = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::string control =
      std::string(pipe && *pipe ? pipe : "/tmp/nvidia-mps") + "/control";
  if (::access(control.c_str(), F_OK) != 0)
    return "";
  return ". MPS seems to run here (" + control +
         "): its clients share the GPU, which then lends no counters; end it "
         "with 'echo quit | nvidia-cuda-mps-control' to take them";
}
