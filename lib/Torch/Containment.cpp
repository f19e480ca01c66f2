// A child process with limits, and seccomp's filter round it.

#include "opprof/Torch/Containment.h"
#include "opprof/Torch/Archive.h"

#include <seccomp.h>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

using namespace opprof::torchscript;

namespace {
/// What the child says when it ends by itself.
enum ExitCode : int { kDone = 0, kRefused = 3, kNoSandbox = 4 };

/// More of a child's last words is not passed on.
constexpr size_t kMaxMessage = 16 << 10;

/// Of address space that holds no data, such as stacks and what glibc sets
/// aside for threads, there may be so many bytes. The kernel needs a page for
/// every two megabytes that are looked at, which the limit on data does not
/// count; and where little address space is left, mprotect asks for no limit
/// on data, so there is not much more than data may take.
constexpr uint64_t kMaxUncounted = uint64_t(4) << 30;

/// How many processes and threads there may be beside those that run already.
constexpr uint64_t kMaxTasks = 4096;

/// Closes what a run opened unless it is handed on.
class Files {
public:
  ~Files() {
    for (int file : files)
      ::close(file);
  }
  int add(int file) {
    if (file < 0)
      throw InputError("no file in memory could be made: " +
                       std::string(std::strerror(errno)));
    files.push_back(file);
    return file;
  }
  std::vector<int> release() { return std::exchange(files, {}); }

private:
  std::vector<int> files;
};
} // namespace

/// No limit is raised.
static void setLimit(int number, uint64_t value) {
  auto resource = static_cast<__rlimit_resource>(number);
  rlimit limit{};
  if (getrlimit(resource, &limit) == 0)
    value = std::min<uint64_t>(value, limit.rlim_max);
  limit = {value, value};
  setrlimit(resource, &limit);
}

/// System calls that computing on what is open and reading files takes. The
/// filter refuses everything else with EPERM.
static const int kAllowed[] = {
    SCMP_SYS(read),
    SCMP_SYS(pread64),
    SCMP_SYS(readv),
    SCMP_SYS(preadv),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(pwrite64),
    SCMP_SYS(close),
    SCMP_SYS(fstat),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(lseek),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(getdents64),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(brk),
    SCMP_SYS(futex),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(membarrier),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(getrandom),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getcpu),
    SCMP_SYS(get_mempolicy),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(uname),
    SCMP_SYS(sysinfo),
    SCMP_SYS(getrlimit),
    SCMP_SYS(getrusage),
    SCMP_SYS(times),
    SCMP_SYS(poll),
    SCMP_SYS(restart_syscall),
};

/// Adds the rules that look at arguments. A filter cannot look behind a
/// pointer, so what matters has to stand in a register.
static bool addConditionalRules(scmp_filter_ctx filter) {
  constexpr uint64_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC |
                                O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
  constexpr uint64_t kThread = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;
  constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP |
                                   CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                   CLONE_NEWPID | CLONE_NEWNET;
  auto allow = [&](int call, const scmp_arg_cmp &condition) {
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, condition) == 0;
  };
  const int ownProcess = getpid();
  return allow(SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, kWriting, 0)) &&
         allow(SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, kWriting, 0)) &&
         // What is shared, or grows down as a stack does, is counted by no
         // limit on memory.
         allow(SCMP_SYS(mmap),
               SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_SHARED | MAP_GROWSDOWN, 0)) &&
         // Threads, and no processes or namespaces.
         allow(SCMP_SYS(clone),
               SCMP_A0(SCMP_CMP_MASKED_EQ, kThread | kNamespaces, kThread)) &&
         // Of its own memory. Beyond stands what takes a page from the machine.
         allow(SCMP_SYS(madvise), SCMP_A2(SCMP_CMP_LT, MADV_HWPOISON)) &&
         // The calling thread, and none of another process.
         allow(SCMP_SYS(sched_setaffinity), SCMP_A0(SCMP_CMP_EQ, 0)) &&
         // glibc then takes clone, whose flags can be seen.
         seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3),
                          0) == 0 &&
         // Its own end by abort, and no other process.
         allow(SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, uint64_t(ownProcess))) &&
         // Limits may be asked for, and not set.
         allow(SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0)) &&
         allow(SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_GETFD)) &&
         allow(SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_GETFL)) &&
         allow(SCMP_SYS(fcntl), SCMP_A1(SCMP_CMP_EQ, F_SETFD)) &&
         allow(SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME)) &&
         allow(SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_GET_NAME)) &&
         seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOTTY), SCMP_SYS(ioctl), 0) ==
             0;
}

/// Leaves the process none of root's powers but to read each file: the kernel
/// lets who may look into any process pass by Landlock.
static bool dropPowers() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct powers[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, powers) != 0)
    return false;
  uint32_t kept = powers[0].permitted & (1U << CAP_DAC_READ_SEARCH);
  powers[0] = {kept, kept, 0};
  powers[1] = {};
  return syscall(SYS_capset, &header, powers) == 0;
}

/// Lets a ruleset of Landlock read the path and what is beneath it. What cannot
/// be opened stays closed.
static void allowReading(int rules, const std::string &path) {
  landlock_path_beneath_attr rule{};
  rule.parent_fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (rule.parent_fd < 0)
    return;
  struct stat about{};
  rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
  if (fstat(rule.parent_fd, &about) == 0 && S_ISDIR(about.st_mode))
    rule.allowed_access |= LANDLOCK_ACCESS_FS_READ_DIR;
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(rule.parent_fd);
}

/// A filter of system calls cannot see what is opened for reading. Landlock
/// can, and does not let this process look into others, whose memory is files
/// in /proc; opening a device may act, and /dev/shm is the memory that others
/// share. False where it fails; a kernel that has none of it, before 5.13, is
/// left to the filter.
static bool restrictReading(const std::string &file) {
  if (syscall(SYS_landlock_create_ruleset, nullptr, 0,
              LANDLOCK_CREATE_RULESET_VERSION) < 1)
    return true;
  landlock_ruleset_attr handled{};
  // Every right of the first version, the last of which this is.
  handled.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
  int rules = static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0));
  if (rules < 0)
    return false;
  std::error_code error;
  // Where a link leads has an entry of its own, or is to stay closed.
  for (const auto &entry : std::filesystem::directory_iterator("/", error))
    if (entry.path() != "/dev" && !entry.is_symlink(error))
      allowReading(rules, entry.path());
  for (const char *device :
       {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"})
    allowReading(rules, device);
  allowReading(rules, file);
  bool isDone = syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  close(rules);
  return isDone;
}

/// Restricts what this process reads, and filters its system calls, from here
/// on; gives what failed where the kernel or libseccomp cannot.
static const char *enterSandbox(const Limits &limits) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    return "this process cannot give up gaining powers (no_new_privs)";
  if (!dropPowers())
    return "this process cannot give up the powers it has (capset)";
  if (!restrictReading(limits.file))
    return "Landlock, which this kernel has, does not restrict this process";
  constexpr const char *kNoFilter =
      "this process cannot have a seccomp filter, or this kernel has none";
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  if (!filter)
    return kNoFilter;
  bool isReady = true;
  for (int call : kAllowed)
    isReady &= seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0) == 0;
  isReady = isReady && addConditionalRules(filter) && !seccomp_load(filter);
  seccomp_release(filter);
  return isReady ? nullptr : kNoFilter;
}

/// Leaves the child with its outputs, `/dev/null` and nothing else to write
/// to. The outputs keep their numbers.
static void closeOthers(const std::vector<int> &kept) {
  int null = open("/dev/null", O_RDWR);
  for (int standard = 0; standard < 3; ++standard)
    dup2(null, standard);
  int last = 3;
  for (int file : kept) {
    for (; last < file; ++last)
      close(last);
    last = file + 1;
  }
  // By /proc where the kernel, or a container's filter, has no close_range.
  closefrom(last);
}

/// What this process has mapped already, PyTorch's libraries among it.
static uint64_t getMappedBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  return pages * uint64_t(sysconf(_SC_PAGESIZE));
}

/// The processes and threads of the machine, those of the user among them, of
/// which the kernel counts all together; 0 where nobody says.
static uint64_t countTasks() {
  std::ifstream file("/proc/loadavg");
  std::string field;
  for (int i = 0; i < 4; ++i)
    file >> field;
  size_t slash = field.find('/');
  return slash == std::string::npos
             ? 0
             : std::strtoull(field.c_str() + slash + 1, nullptr, 10);
}

[[noreturn]] static void
runChild(const Limits &limits, const std::vector<int> &outputs, int message,
         const std::function<void(const std::vector<int> &)> &work) {
  // The child ends with its parent.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setLimit(RLIMIT_CORE, 0);
  setLimit(RLIMIT_FSIZE, limits.output);
  if (limits.memory) {
    setLimit(RLIMIT_DATA, limits.memory);
    setLimit(RLIMIT_AS, getMappedBytes() + limits.memory + kMaxUncounted);
  }
  if (limits.seconds)
    setLimit(RLIMIT_CPU, uint64_t(limits.seconds) * 256);
  if (uint64_t tasks = countTasks())
    setLimit(RLIMIT_NPROC, tasks + kMaxTasks);
  std::vector<int> kept = outputs;
  kept.push_back(message);
  closeOthers(kept);
  auto end = [&](ExitCode code, std::string_view text) {
    text = text.substr(0, kMaxMessage);
    // What cannot be said is not: the exit code says the rest.
    [[maybe_unused]] ssize_t written = write(message, text.data(), text.size());
    _exit(code);
  };
  if (limits.sandbox)
    if (const char *failure = enterSandbox(limits))
      end(kNoSandbox, failure);
  try {
    work(outputs);
  } catch (const std::bad_alloc &) {
    end(kRefused, "the memory limit was reached");
  } catch (const std::exception &error) {
    end(kRefused, error.what());
  } catch (...) {
    end(kRefused, "LibTorch ended with an exception of an unknown kind");
  }
  _exit(kDone);
}

/// Waits for the child; ends it when its time is over, and says so by true.
static bool waitFor(pid_t child, const Limits &limits, int &status) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = Clock::now() + std::chrono::seconds(limits.seconds);
  // Asked often at first: most archives take no time.
  std::chrono::microseconds pause(200);
  while (true) {
    int waited = waitpid(child, &status, limits.seconds ? WNOHANG : 0);
    if (waited == child)
      return false;
    if (waited < 0 && errno != EINTR)
      throw InputError("how reading it ended is not known: " +
                       std::string(std::strerror(errno)));
    if (limits.seconds && Clock::now() >= end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return true;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
}

static std::string readMessage(int file) {
  std::string text(kMaxMessage, '\0');
  ssize_t size = pread(file, text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return text;
}

std::vector<int> opprof::torchscript::runContained(
    const Limits &limits, unsigned numOutputs,
    const std::function<void(const std::vector<int> &)> &work) {
  Files files, messages;
  std::vector<int> outputs;
  for (unsigned i = 0; i < numOutputs; ++i)
    outputs.push_back(files.add(memfd_create("opprof", MFD_CLOEXEC)));
  int message = messages.add(memfd_create("opprof", MFD_CLOEXEC));
  pid_t child = fork();
  if (child < 0)
    throw InputError("no process could be made: " +
                     std::string(std::strerror(errno)));
  if (child == 0)
    runChild(limits, outputs, message, work);
  int status = 0;
  if (waitFor(child, limits, status))
    throw InputError("reading it took more than the limit of " +
                     std::to_string(limits.seconds) +
                     " seconds: give --seconds a larger one if the file is "
                     "trusted");
  std::string said = readMessage(message);
  if (WIFSIGNALED(status))
    throw InputError(
        "LibTorch ended with signal " + std::to_string(WTERMSIG(status)) +
        " (" + strsignal(WTERMSIG(status)) +
        ") while it read the file: it is damaged, or made to do so");
  if (WEXITSTATUS(status) == kNoSandbox)
    throw InputError("there is no sandbox, because " + said +
                     "; leave --sandbox out if the file is trusted");
  if (WEXITSTATUS(status) == kRefused)
    throw InputError(said);
  if (WEXITSTATUS(status) != kDone)
    throw InputError("LibTorch ended the process with exit status " +
                     std::to_string(WEXITSTATUS(status)));
  return files.release();
}
