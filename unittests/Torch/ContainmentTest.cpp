// What a process that reads an untrusted file can do, and what becomes of it.

#include "opprof/Torch/Containment.h"
#include "opprof/Torch/Archive.h"

#include "gtest/gtest.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

using namespace opprof::torchscript;

namespace {
/// What is said of how the work ended, or nothing.
std::string run(const Limits &limits, const std::function<void()> &work) {
  try {
    for (int file :
         runContained(limits, 1, [&](const std::vector<int> &) { work(); }))
      close(file);
  } catch (const InputError &error) {
    return error.what();
  }
  return "";
}

Limits getSandbox() {
  Limits limits;
  limits.sandbox = true;
  limits.memory = uint64_t(32) << 30;
  return limits;
}

TEST(Containment, HandsBackWhatWasWritten) {
  for (bool sandbox : {false, true}) {
    Limits limits;
    limits.sandbox = sandbox;
    std::vector<int> files =
        runContained(limits, 2, [](const std::vector<int> &to) {
          ASSERT_EQ(write(to[1], "second", 6), 6);
        });
    ASSERT_EQ(files.size(), 2u);
    char buffer[16];
    EXPECT_EQ(pread(files[0], buffer, sizeof buffer, 0), 0);
    EXPECT_EQ(pread(files[1], buffer, sizeof buffer, 0), 6);
    for (int file : files)
      close(file);
  }
}

TEST(Containment, SaysHowItEnded) {
  EXPECT_EQ(run({}, [] { throw std::runtime_error("wrong"); }), "wrong");
  EXPECT_NE(run({}, [] { raise(SIGSEGV); }).find("ended with signal 11"),
            std::string::npos);
  EXPECT_NE(run({}, [] { abort(); }).find("ended with signal 6"),
            std::string::npos);
  EXPECT_NE(run({}, [] { _exit(7); }).find("exit status 7"), std::string::npos);
  EXPECT_NE(run(getSandbox(), [] { abort(); }).find("ended with signal 6"),
            std::string::npos);
}

TEST(Containment, EndsWhatTakesTooLong) {
  Limits limits;
  limits.seconds = 1;
  EXPECT_NE(run(limits, [] { pause(); }).find("the limit of 1 seconds"),
            std::string::npos);
}

TEST(Containment, BoundsMemory) {
  Limits limits;
  limits.memory = 256 << 20;
  EXPECT_EQ(run(limits,
                [] {
                  std::vector<std::string> blocks;
                  while (true)
                    blocks.emplace_back(16 << 20, 'x');
                }),
            "the memory limit was reached");
}

/// The processes and threads that /proc shows.
uint64_t countTasks() {
  namespace fs = std::filesystem;
  uint64_t tasks = 0;
  std::error_code error;
  for (const fs::directory_entry &process : fs::directory_iterator("/proc"))
    // Some end meanwhile.
    for (fs::directory_iterator it(process.path() / "task", error), end;
         it != end && !error; it.increment(error))
      ++tasks;
  return tasks;
}

/// What forks and begins threads without end stops before the machine has no
/// room for another process. The kernel does not hold root to it.
TEST(Containment, BoundsProcesses) {
  rlimit own{};
  getrlimit(RLIMIT_NPROC, &own);
  // What the machine begins meanwhile is within it too.
  constexpr uint64_t kMost = 16384;
  uint64_t most = countTasks() + kMost;
  // The user's own limit may be such a bound: then this shows nothing.
  if (own.rlim_max <= most)
    GTEST_SKIP() << "this user may have " << own.rlim_max << " processes";
  for (const Limits &limits : {Limits(), getSandbox()})
    EXPECT_EQ(run(limits,
                  [&] {
                    rlimit limit{};
                    getrlimit(RLIMIT_NPROC, &limit);
                    if (limit.rlim_cur != limit.rlim_max ||
                        limit.rlim_max > most)
                      throw std::runtime_error("nothing bounds them");
                  }),
              "");
}

/// Each gives true where it got what it tried.
struct Attempt {
  const char *name;
  std::function<bool(const std::string &folder)> tries;
};

std::vector<Attempt> getAttempts() {
  auto opens = [](int flags) {
    return [flags](const std::string &folder) {
      return open((folder + "/file").c_str(), flags, 0600) >= 0;
    };
  };
  return {
      {"open for writing", opens(O_WRONLY)},
      {"open for both", opens(O_RDWR)},
      {"open and empty", opens(O_RDONLY | O_TRUNC)},
      {"create", opens(O_RDONLY | O_CREAT)},
      {"append", opens(O_RDONLY | O_APPEND)},
      {"creat", [](auto &f) { return creat((f + "/x").c_str(), 0600) >= 0; }},
      {"unnamed file",
       [](auto &f) { return open(f.c_str(), O_TMPFILE | O_RDWR, 0600) >= 0; }},
      {"openat2",
       [](auto &f) {
         uint64_t how[3] = {O_RDWR | O_CREAT, 0600, 0};
         return syscall(SYS_openat2, AT_FDCWD, (f + "/x").c_str(), how,
                        sizeof how) >= 0;
       }},
      {"remove", [](auto &f) { return unlink((f + "/file").c_str()) == 0; }},
      {"rename",
       [](auto &f) {
         return rename((f + "/file").c_str(), (f + "/y").c_str()) == 0;
       }},
      {"truncate",
       [](auto &f) { return truncate((f + "/file").c_str(), 0) == 0; }},
      {"change mode",
       [](auto &f) { return chmod((f + "/file").c_str(), 0777) == 0; }},
      {"link",
       [](auto &f) { return symlink("/etc", (f + "/link").c_str()) == 0; }},
      {"second name",
       [](auto &f) {
         return link((f + "/file").c_str(), (f + "/x").c_str()) == 0;
       }},
      {"folder", [](auto &f) { return mkdir((f + "/d").c_str(), 0700) == 0; }},
      {"socket", [](auto &) { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }},
      {"local socket",
       [](auto &) { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }},
      {"socket pair",
       [](auto &) {
         int pair[2];
         return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
       }},
      {"fork",
       [](auto &) {
         pid_t child = fork();
         if (child == 0)
           _exit(0);
         return child > 0;
       }},
      {"vfork",
       [](auto &) {
         long child = syscall(SYS_vfork);
         if (child == 0)
           _exit(0);
         return child > 0;
       }},
      {"program",
       [](auto &) {
         execl("/bin/true", "true", nullptr);
         return false;
       }},
      {"trace", [](auto &) { return ptrace(PTRACE_TRACEME, 0, 0, 0) == 0; }},
      {"signal to the parent", [](auto &) { return kill(getppid(), 0) == 0; }},
      {"larger limit",
       [](auto &) {
         rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
         return setrlimit(RLIMIT_CORE, &limit) == 0;
       }},
      {"file in memory", [](auto &) { return memfd_create("x", 0) >= 0; }},
      {"io_uring",
       [](auto &) {
         char parameters[120] = {};
         return syscall(SYS_io_uring_setup, 1, parameters) >= 0;
       }},
      {"keys",
       [](auto &) {
         return syscall(SYS_add_key, "user", "x", "y", 1, -3) >= 0;
       }},
      {"where another process runs",
       [](auto &) {
         cpu_set_t set;
         return sched_getaffinity(getppid(), sizeof set, &set) == 0 &&
                sched_setaffinity(getppid(), sizeof set, &set) == 0;
       }},
      {"a page of the machine's",
       [](auto &) {
         // Of no length: it takes no page, and asks whether it may.
         void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         return madvise(page, 0, MADV_HWPOISON) == 0;
       }},
      {"a thread in a namespace",
       [](auto &) {
         static char stack[1 << 16];
         return clone([](void *) { return int(syscall(SYS_exit, 0)); },
                      stack + sizeof stack,
                      CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_NEWUTS,
                      nullptr) >= 0;
       }},
      {"memory that is shared",
       [](auto &) {
         return mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
       }},
      // Looked at, it takes a page of the kernel's for every two megabytes.
      {"memory that holds nothing",
       [](auto &) {
         return mmap(nullptr, size_t(4) << 40, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0) != MAP_FAILED;
       }},
      {"memory that may be written later",
       [](auto &) {
         size_t size = size_t(80) << 30;
         void *place = mmap(nullptr, size, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
         return place != MAP_FAILED &&
                mprotect(place, size, PROT_READ | PROT_WRITE) == 0;
       }},
      {"memory that is validated and shared",
       [](auto &f) {
         int file = open((f + "/file").c_str(), O_RDONLY);
         return mmap(nullptr, 4096, PROT_READ, MAP_SHARED_VALIDATE, file, 0) !=
                MAP_FAILED;
       }},
      {"memory that grows down",
       [](auto &) {
         return mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1,
                     0) != MAP_FAILED;
       }},
      {"its own memory as a file",
       [](auto &) { return open("/proc/self/mem", O_RDWR) >= 0; }},
      {"its own standing among processes",
       [](auto &) {
         int file = open("/proc/self/oom_score_adj", O_WRONLY);
         return file >= 0 && write(file, "1000", 4) == 4;
       }},
      {"copy into a file",
       [](auto &f) {
         int file = open((f + "/file").c_str(), O_RDONLY);
         return syscall(SYS_copy_file_range, file, nullptr, file, nullptr, 4,
                        0) >= 0 ||
                syscall(SYS_sendfile, 1, file, nullptr, 4) >= 0;
       }},
      {"pipe",
       [](auto &) {
         int ends[2];
         return pipe(ends) == 0;
       }},
      {"times of a file",
       [](auto &f) {
         return utimensat(AT_FDCWD, (f + "/file").c_str(), nullptr, 0) == 0;
       }},
      {"attribute of a file",
       [](auto &f) {
         return syscall(SYS_setxattr, (f + "/file").c_str(), "user.x", "y", 1,
                        0) == 0;
       }},
      {"lock on a file",
       [](auto &f) {
         int file = open((f + "/file").c_str(), O_RDONLY);
         return syscall(SYS_flock, file, 2) == 0;
       }},
      {"signals of a file",
       [](auto &f) {
         int file = open(f.c_str(), O_RDONLY);
         return fcntl(file, F_SETOWN, getppid()) == 0;
       }},
      {"special file",
       [](auto &f) { return mkfifo((f + "/fifo").c_str(), 0600) == 0; }},
      {"other folder", [](auto &f) { return chdir(f.c_str()) == 0; }},
      {"handle of the parent",
       [](auto &) { return syscall(SYS_pidfd_open, getppid(), 0) >= 0; }},
      {"memory of the parent",
       [](auto &) {
         char byte = 0;
         struct {
           void *base;
           size_t size;
         } own{&byte, 1}, other{&byte, 1};
         return syscall(SYS_process_vm_readv, getppid(), &own, 1, &other, 1,
                        0) == 1;
       }},
      {"priority of the parent",
       [](auto &) {
         int same = getpriority(PRIO_PROCESS, getppid());
         return setpriority(PRIO_PROCESS, getppid(), same) == 0;
       }},
      {"queued signal",
       [](auto &) {
         char about[128] = {};
         return syscall(SYS_rt_sigqueueinfo, getppid(), 0, about) == 0;
       }},
      {"timer",
       [](auto &) {
         int timer = 0;
         return syscall(SYS_timer_create, 0, nullptr, &timer) == 0;
       }},
      {"memory of System V",
       [](auto &) {
         int memory = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
         return memory >= 0 && shmctl(memory, IPC_RMID, nullptr) == 0;
       }},
      {"queue of messages",
       [](auto &) {
         int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
         return queue >= 0 && msgctl(queue, IPC_RMID, nullptr) == 0;
       }},
      {"watch on a folder",
       [](auto &) { return syscall(SYS_inotify_init1, 0) >= 0; }},
      {"page faults of its own",
       [](auto &) { return syscall(SYS_userfaultfd, 1) >= 0; }},
      {"counters",
       [](auto &) {
         char about[128] = {};
         return syscall(SYS_perf_event_open, about, 0, -1, -1, 0) >= 0;
       }},
      {"program in the kernel",
       [](auto &) {
         char about[128] = {};
         return syscall(SYS_bpf, 0, about, sizeof about) >= 0;
       }},
      {"life after the parent",
       [](auto &) { return prctl(PR_SET_PDEATHSIG, 0) == 0; }},
      {"another filter",
       [](auto &) {
         return prctl(PR_SET_DUMPABLE, 1) == 0 ||
                syscall(SYS_seccomp, 0, 0, nullptr) == 0;
       }},
      {"other root", [](auto &f) { return chroot(f.c_str()) == 0; }},
      {"namespace of the parent",
       [](auto &) {
         return setns(open("/proc/self/ns/net", O_RDONLY), 0) == 0;
       }},
      {"session", [](auto &) { return setsid() >= 0; }},
      {"calls of x32",
       [](auto &f) {
         return syscall(0x40000000 + SYS_open, (f + "/x").c_str(),
                        O_CREAT | O_RDWR, 0600) >= 0;
       }},
      {"other user", [](auto &) { return setuid(1) == 0; }},
      {"32-bit calls",
       [](auto &f) {
         // open, by the numbers of another architecture.
         long result = -1;
         std::string path = f + "/x";
         auto *low = static_cast<char *>(
             mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0));
         path.copy(low, path.size());
         asm volatile("int $0x80"
                      : "=a"(result)
                      : "a"(5L), "b"(low), "c"(long(O_CREAT | O_RDWR)),
                        "d"(0600L)
                      : "memory");
         return result >= 0;
       }},
  };
}

/// A folder with a file, gone at the end.
class Folder {
public:
  Folder() {
    char name[] = "/tmp/opprof-sandbox-XXXXXX";
    path = mkdtemp(name);
    int file = open((path + "/file").c_str(), O_WRONLY | O_CREAT, 0600);
    EXPECT_EQ(write(file, "kept", 4), 4);
    close(file);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  bool isUntouched() const {
    namespace fs = std::filesystem;
    return std::distance(fs::directory_iterator(path), {}) == 1 &&
           fs::file_size(path + "/file") == 4;
  }
  std::string path;
};

TEST(Sandbox, LetsNothingOut) {
  for (const Attempt &attempt : getAttempts()) {
    Folder folder;
    std::string said = run(getSandbox(), [&] {
      if (attempt.tries(folder.path))
        throw std::runtime_error("it could");
    });
    // Refused, or ended for having tried: an architecture of its own ends it.
    EXPECT_TRUE(said.empty() || said.find("signal") != std::string::npos)
        << attempt.name << ": " << said;
    EXPECT_TRUE(folder.isUntouched()) << attempt.name;
  }
}

/// Outside of the sandbox most of them work, or they prove nothing.
TEST(Sandbox, IsWhatKeepsItIn) {
  unsigned numWorking = 0;
  for (const Attempt &attempt : getAttempts()) {
    Folder folder;
    numWorking += run({}, [&] {
                    if (attempt.tries(folder.path))
                      throw std::runtime_error("it could");
                  }) == "it could";
  }
  EXPECT_GE(numWorking, 30u);
}

bool hasLandlock() {
  return syscall(SYS_landlock_create_ruleset, nullptr, 0,
                 LANDLOCK_CREATE_RULESET_VERSION) >= 1;
}

/// What is opened for reading, which a filter of system calls allows.
struct ReadingAttempt {
  const char *name;
  /// The sandbox lets nobody ask for the parent's folder, and /proc shows it.
  bool (*tries)(const std::string &parent);
};

const ReadingAttempt kReadingAttempts[] = {
    {"MemoryOfTheParentAsAFile",
     [](auto &parent) {
       // It has the same at the same place, as this began as its copy.
       static const int known = 14;
       int value = 0, file = open((parent + "/mem").c_str(), O_RDONLY);
       return file >= 0 &&
              pread(file, &value, sizeof value,
                    reinterpret_cast<off_t>(&known)) == sizeof value &&
              value == known;
     }},
    {"EnvironmentOfTheParent",
     [](auto &parent) {
       char byte = 0;
       int file = open((parent + "/environ").c_str(), O_RDONLY);
       return file >= 0 && read(file, &byte, 1) == 1;
     }},
    {"ATerminalOfItsOwn",
     [](auto &) { return open("/dev/ptmx", O_RDONLY | O_NOCTTY) >= 0; }},
};

class Reading : public testing::TestWithParam<ReadingAttempt> {};

TEST_P(Reading, IsKeptInByTheSandbox) {
  if (!hasLandlock())
    GTEST_SKIP() << "this kernel has no Landlock";
  const std::string parent = "/proc/" + std::to_string(getpid());
  auto tries = [&] {
    if (GetParam().tries(parent))
      throw std::runtime_error("it could");
  };
  EXPECT_EQ(run(getSandbox(), tries), "");
  if (run({}, tries) != "it could")
    GTEST_SKIP() << "something else forbids it: this shows nothing";
}

INSTANTIATE_TEST_SUITE_P(, Reading, testing::ValuesIn(kReadingAttempts),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

/// What other processes share lies in /dev/shm, and archives may.
TEST(Sandbox, OpensOfSharedMemoryItsFileAlone) {
  if (!hasLandlock())
    GTEST_SKIP() << "this kernel has no Landlock";
  std::string path = "/dev/shm/opprof-sandbox-XXXXXX";
  int file = mkstemp(path.data());
  if (file < 0)
    GTEST_SKIP() << "nothing can be made in /dev/shm";
  close(file);
  auto tries = [&] {
    if (open(path.c_str(), O_RDONLY) >= 0)
      throw std::runtime_error("it could");
  };
  Limits limits = getSandbox();
  EXPECT_EQ(run(limits, tries), "");
  limits.file = path;
  EXPECT_EQ(run(limits, tries), "it could");
  unlink(path.c_str());
}

/// In a root of its own, whose links lead to what is to stay closed.
TEST(Sandbox, FollowsNoLinkOfTheRoot) {
  if (!hasLandlock())
    GTEST_SKIP() << "this kernel has no Landlock";
  Folder folder;
  for (const char *name : {"/dev", "/kept"}) {
    std::filesystem::create_directory(folder.path + name);
    std::filesystem::copy(folder.path + "/file", folder.path + name + "/file");
  }
  std::filesystem::create_symlink("/", folder.path + "/all");
  std::filesystem::create_symlink("dev", folder.path + "/devices");
  auto canOpen = [](const char *path) {
    return run(getSandbox(), [&] {
             if (open(path, O_RDONLY) >= 0)
               throw std::runtime_error("it could");
           }) == "it could";
  };
  std::string said = run({}, [&] {
    if (chroot(folder.path.c_str()) != 0 &&
        (unshare(CLONE_NEWUSER) != 0 || chroot(folder.path.c_str()) != 0))
      throw std::runtime_error("no root");
    if (!canOpen("/kept/file"))
      throw std::runtime_error("it opens nothing");
    for (const char *path : {"/dev/file", "/devices/file", "/all/dev/file"})
      if (canOpen(path))
        throw std::runtime_error(path);
  });
  if (said == "no root")
    GTEST_SKIP() << "this user can have no root of its own";
  EXPECT_EQ(said, "");
}

/// Refuses a system call from here on.
void refuse(unsigned call) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program{std::size(filter), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
    throw std::runtime_error("it cannot be refused");
}

TEST(Sandbox, SaysWhatItLacks) {
  auto runWithout = [](unsigned call) {
    return run({}, [&] {
      refuse(call);
      throw std::runtime_error(run(getSandbox(), [] {}));
    });
  };
  EXPECT_NE(runWithout(SYS_capset).find("(capset)"), std::string::npos);
  EXPECT_NE(runWithout(SYS_prctl).find("(no_new_privs)"), std::string::npos);
  if (hasLandlock()) {
    EXPECT_NE(runWithout(SYS_landlock_restrict_self).find("Landlock"),
              std::string::npos);
  }
  // No filter of the sandbox's fits behind as many as the kernel takes.
  std::string said = run({}, [] {
    try {
      while (true)
        refuse(~0U);
    } catch (const std::runtime_error &) {
    }
    throw std::runtime_error(run(getSandbox(), [] {}));
  });
  EXPECT_NE(said.find("seccomp filter"), std::string::npos) << said;
}

/// A file that the parent has open for writing is none of the child's, on a
/// kernel before 5.9 too.
TEST(Sandbox, HasNoFileOfTheParents) {
  Folder folder;
  auto triesToWrite = [&] {
    // Of a larger number than what the child is to keep.
    int file =
        fcntl(open((folder.path + "/file").c_str(), O_WRONLY), F_DUPFD, 100);
    if (file < 0)
      return std::string("there is none");
    return run(getSandbox(), [&] {
      if (write(file, "x", 1) == 1)
        throw std::runtime_error("it could");
    });
  };
  EXPECT_EQ(run({}, [&] { throw std::runtime_error(triesToWrite()); }), "");
  EXPECT_EQ(run({},
                [&] {
                  refuse(SYS_close_range);
                  throw std::runtime_error(triesToWrite());
                }),
            "");
}

TEST(Sandbox, LetsWorkBeDone) {
  EXPECT_EQ(run(getSandbox(),
                [] {
                  int sum = 0;
                  std::thread thread([&] { sum = 1; });
                  thread.join();
                  int file = open("/proc/self/status", O_RDONLY);
                  std::string buffer(1 << 24, 'x');
                  if (sum != 1 || file < 0 ||
                      read(file, buffer.data(), 10) < 10)
                    throw std::runtime_error("it could not");
                }),
            "");
}
} // namespace
