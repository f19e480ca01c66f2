// See Allocations.h.

#include "Allocations.h"

#include <c10/core/Allocator.h>

#include <array>
#include <cstring>
#include <elf.h>
#include <link.h>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

using namespace opprof::observer;

static AllocationListener listener;

//===----------------------------------------------------------------------===//
// The CPU
//===----------------------------------------------------------------------===//

namespace {

/// PyTorch's allocator, and each block told. What it gives out and takes back
/// are the very blocks of the other one.
class HeardAllocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr block = within->allocate(bytes);
    // An allocator may give out what is no block of its own: nothing tells when
    // that is freed.
    if (block && block.get() == block.get_context() &&
        block.compare_exchange_deleter(within->raw_deleter(), freeHeard))
      listener.allocated(block.get(), bytes, block.device(), std::nullopt);
    return block;
  }
  c10::DeleterFnPtr raw_deleter() const override { return freeHeard; }
  bool is_simple_data_ptr(const c10::DataPtr &block) const override {
    return within->is_simple_data_ptr(block);
  }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    within->copy_data(to, from, bytes);
  }

  /// Blocks are given back to it after everything else is gone.
  static inline c10::Allocator *within = nullptr;

private:
  static void freeHeard(void *address) {
    if (address)
      listener.freed(address, 0, c10::Device(c10::DeviceType::CPU),
                     std::nullopt);
    within->raw_deleter()(address);
  }
};

} // namespace

static std::string listenToCPU() {
  // PyTorch allocates through it until the process is gone, and what is static
  // ends before that.
  static auto &heard = *new HeardAllocator;
  HeardAllocator::within = c10::GetAllocator(c10::DeviceType::CPU);
  if (!HeardAllocator::within || !HeardAllocator::within->raw_deleter())
    return "memory of the CPU: the program's own allocator does not say how "
           "its blocks are freed";
  c10::SetAllocator(c10::DeviceType::CPU, &heard);
  if (c10::GetAllocator(c10::DeviceType::CPU) != &heard)
    return "memory of the CPU: the program has an allocator of its own";
  return "";
}

//===----------------------------------------------------------------------===//
// Other devices
//===----------------------------------------------------------------------===//

/// c10::reportMemoryUsageToProfiler, which each allocator of a device calls.
/// What it calls has one place a thread, which is left to the program's own
/// torch.profiler; here the calls themselves are led elsewhere.
static constexpr const char *kReport =
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";

static void reportHeard(void *address, int64_t bytes, size_t held,
                        size_t reserved, c10::Device device) {
  // What an extension says of the CPU was told where it allocated.
  if (device.type() != c10::DeviceType::CPU) {
    if (bytes > 0)
      listener.allocated(address, uint64_t(bytes), device, held);
    else if (bytes < 0)
      listener.freed(address, -uint64_t(bytes), device, held);
  }
  c10::reportMemoryUsageToProfiler(address, bytes, held, reserved, device);
}

static uintptr_t pageSize() { return uintptr_t(::sysconf(_SC_PAGESIZE)); }

/// Where the page of an address begins.
static uintptr_t pageOf(uintptr_t address) {
  return address & ~(pageSize() - 1);
}

namespace {

/// The tables of a library that is loaded.
struct Library {
  explicit Library(const dl_phdr_info &info) {
    const ElfW(Dyn) *entry = nullptr;
    for (size_t at = 0; at < info.dlpi_phnum; ++at) {
      const ElfW(Phdr) &header = info.dlpi_phdr[at];
      ElfW(Addr) begin = info.dlpi_addr + header.p_vaddr;
      if (header.p_type == PT_DYNAMIC)
        entry = reinterpret_cast<const ElfW(Dyn) *>(begin);
      // The loader leaves a page that it covers in part writable, and data that
      // the library writes may share it.
      if (header.p_type == PT_GNU_RELRO)
        relro = {begin, pageOf(begin + header.p_memsz)};
    }
    // Some loaders leave addresses as they are in the file.
    auto address = [&](ElfW(Addr) value) {
      return value < info.dlpi_addr ? value + info.dlpi_addr : value;
    };
    for (; entry && entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols =
            reinterpret_cast<const ElfW(Sym) *>(address(entry->d_un.d_ptr));
        break;
      case DT_STRTAB:
        names = reinterpret_cast<const char *>(address(entry->d_un.d_ptr));
        break;
      case DT_JMPREL:
        tables[0].begin =
            reinterpret_cast<const ElfW(Rela) *>(address(entry->d_un.d_ptr));
        break;
      case DT_PLTRELSZ:
        tables[0].bytes = entry->d_un.d_val;
        break;
      case DT_RELA:
        tables[1].begin =
            reinterpret_cast<const ElfW(Rela) *>(address(entry->d_un.d_ptr));
        break;
      case DT_RELASZ:
        tables[1].bytes = entry->d_un.d_val;
        break;
      case DT_PLTREL:
        isKnown = entry->d_un.d_val == DT_RELA;
        break;
      default:
        break;
      }
    }
  }

  /// Calls `visitor` with the place of each address of the function `name` that
  /// is another library's.
  template <typename Visitor>
  void visitCalls(const dl_phdr_info &info, const char *name,
                  Visitor visitor) const {
    if (!symbols || !names || !isKnown)
      return;
    for (const Table &table : tables)
      for (size_t at = 0;
           table.begin && at < table.bytes / sizeof(*table.begin); ++at) {
        const ElfW(Rela) &entry = table.begin[at];
        const ElfW(Sym) &symbol = symbols[ELF64_R_SYM(entry.r_info)];
        if (isOfFunction(ELF64_R_TYPE(entry.r_info)) &&
            symbol.st_shndx == SHN_UNDEF &&
            !std::strcmp(names + symbol.st_name, name))
          visitor(reinterpret_cast<void **>(info.dlpi_addr + entry.r_offset));
      }
  }

  /// Whether the loader has made the place read-only.
  bool isReadOnly(const void *place) const {
    auto at = reinterpret_cast<ElfW(Addr)>(place);
    return at >= relro.begin && at < relro.end;
  }

private:
  static bool isOfFunction(uint64_t type) {
#if defined(__x86_64__)
    return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
    return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
#else
    return false;
#endif
  }

  const ElfW(Sym) *symbols = nullptr;
  const char *names = nullptr;
  struct Table {
    const ElfW(Rela) *begin = nullptr;
    size_t bytes = 0;
  };
  std::array<Table, 2> tables;
  struct {
    ElfW(Addr) begin = 0, end = 0;
  } relro;
  bool isKnown = true;
};

} // namespace

/// Has a library call `to` where it calls another library's function.
static bool redirect(const Library &library, void **place, void *to) {
  auto *page =
      reinterpret_cast<void *>(pageOf(reinterpret_cast<uintptr_t>(place)));
  bool isReadOnly = library.isReadOnly(place);
  if (isReadOnly && ::mprotect(page, pageSize(), PROT_READ | PROT_WRITE))
    return false;
  // Another thread may call it now.
  __atomic_store_n(place, to, __ATOMIC_RELEASE);
  return !isReadOnly || !::mprotect(page, pageSize(), PROT_READ);
}

/// Of the libraries that are loaded: PyTorch's for a device are when it has
/// been imported.
static std::string listenToDevices() {
  bool failed = false;
  auto visit = [](dl_phdr_info *info, size_t, void *data) {
    Library library(*info);
    // This library has a call that is to stay as it is.
    Dl_info own{};
    if (::dladdr(reinterpret_cast<const void *>(&reportHeard), &own) &&
        reinterpret_cast<ElfW(Addr)>(own.dli_fbase) == info->dlpi_addr)
      return 0;
    library.visitCalls(*info, kReport, [&](void **place) {
      if (!redirect(library, place, reinterpret_cast<void *>(&reportHeard)))
        *static_cast<bool *>(data) = true;
    });
    return 0;
  };
  ::dl_iterate_phdr(visit, &failed);
  return failed ? "memory of devices: the system does not let their "
                  "allocators' calls be changed"
                : "";
}

std::string
opprof::observer::listenToAllocations(const AllocationListener &to) {
  static std::once_flag once;
  static std::string missing;
  std::call_once(once, [&] {
    listener = to;
    missing = listenToCPU();
    std::string devices = listenToDevices();
    if (!missing.empty() && !devices.empty())
      missing += "; ";
    missing += devices;
  });
  return missing;
}
