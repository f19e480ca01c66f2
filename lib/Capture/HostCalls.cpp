// Calls that put work on a device.

#include "HostCalls.h"

#include "Session.h"

#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

using namespace opprof::capture;

HostCalls &HostCalls::get() {
  static auto *instance = new HostCalls;
  return *instance;
}

static bool startsWithAny(std::string_view name,
                          std::initializer_list<std::string_view> prefixes) {
  for (std::string_view prefix : prefixes)
    if (name.starts_with(prefix))
      return true;
  return false;
}

static bool isWatched(std::string_view name) {
  return name.find("Synchronize") != std::string_view::npos ||
         startsWithAny(name,
                       {"cuLaunchKernel", "cuLaunchCooperativeKernel",
                        "cuGraphLaunch", "cuGraphInstantiate", "cuMemcpy",
                        "cuMemset", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc",
                        "cuMemCreate", "cuModuleLoad", "cuLibraryLoad"});
}

const std::vector<CUpti_CallbackId> &HostCalls::watched() {
  std::lock_guard<std::mutex> lock(Mutex);
  const CuptiApi *api = cupti();
  if (!List.empty() || !api)
    return List;
  for (uint32_t cbid = 1; cbid < 4096; ++cbid) {
    const char *name = nullptr;
    if (api->cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, cbid, &name) !=
            CUPTI_SUCCESS ||
        !name)
      break;
    if (isWatched(name))
      List.push_back(cbid);
  }
  return List;
}

struct HostCalls::Thread {
  struct Open {
    uint64_t start, id;
    uint32_t correlation;
    bool kept;
  };
  std::shared_ptr<Buffer> Mine = std::make_shared<Buffer>();
  std::vector<Open> Stack;
  uint32_t Number = uint32_t(::syscall(SYS_gettid));
};

HostCalls::Thread &HostCalls::thread() {
  static constinit thread_local Thread *mine = nullptr;
  static constinit thread_local bool ended = false;
  struct Owner {
    ~Owner() {
      delete std::exchange(mine, nullptr);
      ended = true;
    }
  };
  if (!mine) {
    mine = new Thread;
    // Destructors of a thread and of the program may call the driver after this
    // one: what they are noted in has no owner, and is never freed.
    if (!ended) {
      static thread_local Owner owner;
      (void)owner;
    }
    std::lock_guard<std::mutex> lock(Mutex);
    Buffers.push_back(mine->Mine);
  }
  return *mine;
}

void HostCalls::note(CUpti_CallbackId cbid, const CUpti_CallbackData &data) {
  Thread &t = thread();
  const CuptiApi *api = cupti();
  if (data.callbackSite == CUPTI_API_ENTER) {
    // The driver may do a call's work by another of its own.
    bool inner = !t.Stack.empty() && t.Stack.back().kept &&
                 t.Stack.back().correlation == data.correlationId;
    t.Stack.push_back({0, IdStack::top(), data.correlationId, !inner});
    if (!inner)
      api->cuptiGetTimestamp(&t.Stack.back().start);
    return;
  }
  // A call that was entered before the capture began has no beginning.
  while (!t.Stack.empty() && t.Stack.back().correlation != data.correlationId)
    t.Stack.pop_back();
  if (t.Stack.empty())
    return;
  Thread::Open open = t.Stack.back();
  t.Stack.pop_back();
  if (!open.kept)
    return;
  HostCall call{};
  call.start = open.start;
  api->cuptiGetTimestamp(&call.end);
  call.id = open.id;
  call.cbid = cbid;
  call.thread = t.Number;
  call.correlation = data.correlationId;
  if (data.functionReturnValue)
    call.result = *static_cast<const uint32_t *>(data.functionReturnValue);
  // What a thread may hold while the writer is busy: 64 MiB.
  constexpr size_t kLimit = (64u << 20) / sizeof(HostCall);
  std::lock_guard<std::mutex> lock(t.Mine->Mutex);
  if (t.Mine->Calls.size() < kLimit)
    t.Mine->Calls.push_back(call);
  else
    ++t.Mine->Lost;
}

std::vector<HostCall> HostCalls::take(uint64_t &lost) {
  std::vector<HostCall> all;
  std::lock_guard<std::mutex> lock(Mutex);
  for (auto &buffer : Buffers) {
    std::vector<HostCall> calls;
    {
      std::lock_guard<std::mutex> own(buffer->Mutex);
      calls.reserve(buffer->Calls.size());
      calls.swap(buffer->Calls);
      lost += std::exchange(buffer->Lost, 0);
    }
    all.insert(all.end(), calls.begin(), calls.end());
  }
  // The last holder of a buffer whose thread has ended is this list.
  std::erase_if(Buffers, [](const auto &buffer) {
    if (buffer.use_count() != 1)
      return false;
    std::lock_guard<std::mutex> own(buffer->Mutex);
    return buffer->Calls.empty();
  });
  return all;
}
