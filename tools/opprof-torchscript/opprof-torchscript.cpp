// Reads a TorchScript archive through LibTorch, in a process of its own, and
// writes graph JSON, of which opprof-driver makes MLIR where that is asked for.

#include "../Parent.h"

#include "opprof/Torch/Archive.h"
#include "opprof/Torch/Containment.h"
#include "opprof/Torch/TorchScript.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>

using namespace opprof::torchscript;

static constexpr char kHelp[] =
    R"(usage: opprof-torchscript MODEL.pt -o GRAPH.json [options]

Writes the graph of a TorchScript archive's method as graph JSON, which
opprof-translate --import-fx-json reads, or as MLIR.

  -o FILE            where the graph goes; - is stdout (the default). MLIR where
                     it ends in .mlir, bytecode in .mlirbc
  --method NAME      the method (forward)
  --input TEXT       one argument of the method, in order or as NAME=TEXT:
                     4x128xi64, 3, 0.5, true, none, 'text', [a,b], (a,b). The
                     method is run on them, and values get the types that they
                     had; without --input nothing is run.
  --freeze           make attributes that the method does not change constants
  --follow-devices   devices that the code takes of tensors are those of the
                     tensors where the graph runs, not those of the run here
  --weights FILE     write the tensors that the graph takes, as safetensors
  --arguments FILE   write the tuple of what the method is called with, for
                     torch.load
  --sandbox          read the archive without network, writing or new processes
  --memory GIB       memory that reading may take (32)
  --seconds N        time that reading may take (600), and once more where it
                     ended while it ran branches that the inputs do not take
  --timing           print what each step took on stderr
  --version, --help
)";

namespace {
struct Options {
  ReadRequest request;
  Limits limits;
  std::string output = "-", weights, arguments;
  bool wantsTimes = false;
};

/// Of a command line that is wrong: exit status 2.
class UsageError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};
} // namespace

static uint64_t parseNumber(const std::string &option,
                            const std::string &text) {
  uint64_t number = 0;
  auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() ||
      number == 0 || number > 1'000'000)
    throw UsageError(option + " takes a whole number from 1, not '" + text +
                     "'");
  return number;
}

static Options parseOptions(int argc, char **argv) {
  Options options;
  options.limits.memory = uint64_t(32) << 30;
  options.limits.seconds = 600;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i], value;
    size_t equals =
        name.rfind("--", 0) == 0 ? name.find('=') : std::string::npos;
    bool hasValue = equals != std::string::npos;
    if (hasValue) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    auto take = [&] {
      if (hasValue)
        return value;
      if (++i == arguments.size())
        throw UsageError(name + " takes a value");
      return arguments[i];
    };
    if (name == "-o")
      options.output = take();
    else if (name == "--method")
      options.request.method = take();
    else if (name == "--input")
      options.request.inputs.push_back(take());
    else if (name == "--weights")
      options.weights = take();
    else if (name == "--arguments")
      options.arguments = take();
    else if (name == "--memory")
      options.limits.memory = parseNumber(name, take()) << 30;
    else if (name == "--seconds")
      options.limits.seconds = static_cast<unsigned>(parseNumber(name, take()));
    else if (name == "--freeze" && !hasValue)
      options.request.freeze = true;
    else if (name == "--follow-devices" && !hasValue)
      options.request.followDevices = true;
    else if (name == "--sandbox" && !hasValue)
      options.limits.sandbox = true;
    else if (name == "--timing" && !hasValue)
      options.wantsTimes = true;
    else if (name.size() > 1 && name[0] == '-')
      throw UsageError("there is no option " + name);
    else if (options.request.path.empty())
      options.request.path = name;
    else
      throw UsageError("one archive at a time: " + options.request.path +
                       " and " + name);
  }
  if (options.request.path.empty())
    throw UsageError("no archive is given");
  return options;
}

static void copyAll(int from, int to, const std::string &path) {
  struct stat about;
  if (fstat(from, &about) != 0)
    throw InputError("the result cannot be read");
  off_t done = 0;
  while (done < about.st_size) {
    char buffer[1 << 16];
    ssize_t size = pread(from, buffer, sizeof buffer, done);
    ssize_t written =
        size > 0 ? write(to, buffer, static_cast<size_t>(size)) : -1;
    if (written <= 0)
      throw InputError(path + " cannot be written: " + std::strerror(errno));
    done += written;
  }
}

/// The file that is being written, of which no signal leaves anything.
static const char *volatile unfinished = nullptr;

static void removeUnfinished(int signal) {
  if (unfinished)
    unlink(unfinished);
  // It has its default action again.
  std::raise(signal);
}

/// Makes the file that is being written, and names it.
static int makeUnfinished(std::string &name) {
  static constexpr int kSignals[] = {SIGHUP, SIGINT, SIGTERM};
  struct sigaction action{}, before{};
  action.sa_handler = removeUnfinished;
  action.sa_flags = SA_RESETHAND;
  sigset_t held, others;
  sigemptyset(&held);
  for (int signal : kSignals) {
    sigaddset(&held, signal);
    // What whoever began this ignores stays so.
    if (sigaction(signal, nullptr, &before) == 0 &&
        before.sa_handler != SIG_IGN)
      sigaction(signal, &action, nullptr);
  }
  // None comes between the file and its name.
  sigprocmask(SIG_BLOCK, &held, &others);
  int file = mkstemp(name.data());
  int error = errno;
  if (file >= 0)
    unfinished = name.c_str();
  sigprocmask(SIG_SETMASK, &others, nullptr);
  errno = error;
  return file;
}

/// Writes the file beside its place and renames it: whole, or not at all.
static void writeFile(int from, const std::string &path) {
  if (path == "-") {
    copyAll(from, STDOUT_FILENO, "stdout");
    return;
  }
  std::string temporary = path + ".XXXXXX";
  int file = makeUnfinished(temporary);
  if (file < 0)
    throw InputError(path + " cannot be written: " + std::strerror(errno));
  try {
    mode_t mask = umask(0);
    umask(mask);
    fchmod(file, 0666 & ~mask);
    copyAll(from, file, path);
    close(file);
    std::filesystem::rename(temporary, path);
  } catch (...) {
    unlink(temporary.c_str());
    unfinished = nullptr;
    throw;
  }
  unfinished = nullptr;
}

static bool isMLIR(const std::string &path) {
  std::string suffix = std::filesystem::path(path).extension();
  return suffix == ".mlir" || suffix == ".mlirbc";
}

/// Becomes opprof-driver, which lies beside this program and makes MLIR of the
/// graph: LLVM and LibTorch never meet in one process, and what ends one of two
/// leaves the other.
[[noreturn]] static void becomeDriver(int graph, const std::string &archive,
                                      const std::string &path) {
  std::filesystem::path driver =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() /
      "opprof-driver";
  if (access(driver.c_str(), X_OK) != 0)
    throw InputError("opprof-driver, which makes MLIR, is not beside this "
                     "program: write graph JSON, and give it to "
                     "opprof-translate --import-fx-json");
  std::string arguments[] = {driver, "import", "--archive=" + archive,
                             "-o=" + path,
                             "/proc/self/fd/" + std::to_string(graph)};
  std::vector<char *> values;
  for (std::string &argument : arguments)
    values.push_back(argument.data());
  values.push_back(nullptr);
  // The graph is in no file that would be left: it goes with its descriptor.
  if (fcntl(graph, F_SETFD, 0) == 0)
    execv(driver.c_str(), values.data());
  throw InputError(driver.string() + ", which makes MLIR, cannot be run: " +
                   std::strerror(errno));
}

static void printTimes(const ReadTimes &times) {
  std::fprintf(stderr,
               "load %.6f s, inlining %.6f s, run %.6f s, translation %.6f s, "
               "writing %.6f s\n",
               times.load, times.inlining, times.run, times.translation,
               times.writing);
}

static void run(Options &options) {
  ReadRequest &request = options.request;
  if (access(request.path.c_str(), R_OK) != 0)
    throw InputError(std::strerror(errno));
  request.operators = checkArchive(request.path).operators;
  request.opprofVersion = OPPROF_VERSION;
  options.limits.file = request.path;
  // What the child hands back.
  enum Output { Graph, Weights, Arguments, Times, NumOutputs };
  std::vector<int> files = readContained(
      request, options.limits, NumOutputs, [&](const std::vector<int> &to) {
        checkLibTorch();
        ReadFiles wanted;
        wanted.graph = to[Graph];
        if (!options.weights.empty())
          wanted.weights = to[Weights];
        if (!options.arguments.empty())
          wanted.arguments = to[Arguments];
        ReadTimes times = readTorchScript(request, wanted);
        if (write(to[Times], &times, sizeof times) != sizeof times)
          throw InputError("the result cannot be written");
      });
  ReadTimes times;
  if (options.wantsTimes &&
      pread(files[Times], &times, sizeof times, 0) == sizeof times)
    printTimes(times);
  if (!options.weights.empty())
    writeFile(files[Weights], options.weights);
  if (!options.arguments.empty())
    writeFile(files[Arguments], options.arguments);
  if (isMLIR(options.output))
    becomeDriver(files[Graph], request.path, options.output);
  else
    writeFile(files[Graph], options.output);
}

int main(int argc, char **argv) {
  opprof::endWithParent();
  // Of children of whoever began this and ignores that no status is known.
  std::signal(SIGCHLD, SIG_DFL);
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::cout << kHelp;
      return 0;
    }
    if (argument == "--version") {
      std::cout << "opprof-torchscript " OPPROF_VERSION << "\n";
      return 0;
    }
  }
  Options options;
  try {
    options = parseOptions(argc, argv);
    run(options);
    return 0;
  } catch (const UsageError &error) {
    std::cerr << "opprof-torchscript: error: " << error.what()
              << " (opprof-torchscript --help lists the options)\n";
    return 2;
  } catch (const std::exception &error) {
    std::cerr << "opprof-torchscript: error: " << options.request.path << ": "
              << printable(error.what()) << "\n";
    return 1;
  }
}
