// Loading an archive, and its steps to graph JSON.

#include "opprof/Torch/TorchScript.h"

#include "Translator.h"

#include "opprof/Torch/Archive.h"

#include <ATen/Version.h>
#include <torch/csrc/jit/frontend/builtin_functions.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/version.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>

using namespace opprof::torchscript;

namespace {
/// Seconds since it was made or last asked.
class Stopwatch {
public:
  double lap() {
    Clock::time_point now = Clock::now();
    std::chrono::duration<double> passed = now - std::exchange(last, now);
    return passed.count();
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = Clock::now();
};

/// The method's arguments: those given, and those left to their defaults.
struct Arguments {
  std::vector<c10::IValue> values;
  std::vector<std::optional<c10::IValue>> fixed;
  /// What the graph takes from the types of those that are given.
  std::vector<ArgumentForm> forms;
};
} // namespace

/// What code calls through `ops.` is an operator, or a function of LibTorch's
/// own in TorchScript, as prim::shape is, which PyTorch 1.4 and older wrote.
static bool isKnownOperator(const std::string &name) {
  auto symbol = c10::Symbol::fromQualString(name);
  return !torch::jit::getAllOperatorsFor(symbol).empty() ||
         !torch::jit::getAllBuiltinFunctionsFor(symbol).empty();
}

static void checkOperators(const std::vector<std::string> &operators) {
  for (const std::string &name : operators)
    if (!isKnownOperator(name))
      throw InputError("the archive's code calls the operator " + name +
                       ", which this PyTorch does not have: it belongs to a "
                       "library that is not loaded, or to another version");
}

static Arguments getArguments(const c10::FunctionSchema &schema,
                              const std::vector<std::string> &inputs) {
  Arguments result;
  const auto &formals = schema.arguments();
  result.values.resize(formals.size() - 1);
  std::vector<bool> isGiven(formals.size() - 1, false);
  size_t next = 1;
  for (const std::string &input : inputs) {
    // A text may hold the sign, and begins with no name.
    size_t equals = 0;
    while (equals < input.size() &&
           (std::isalnum(static_cast<unsigned char>(input[equals])) ||
            input[equals] == '_'))
      ++equals;
    bool isNamed = equals < input.size() && input[equals] == '=';
    std::string name = input.substr(0, isNamed ? equals : 0);
    size_t place = next;
    if (!name.empty()) {
      auto found = schema.argumentIndexWithName(name);
      if (!found || *found == 0)
        throw InputError("the method takes no argument '" + name +
                         "': " + c10::toString(schema));
      place = static_cast<size_t>(*found);
    }
    if (place >= formals.size() || isGiven[place - 1])
      throw InputError("the input '" + input + "' is one too many for " +
                       c10::toString(schema));
    next = place + 1;
    isGiven[place - 1] = true;
    result.values[place - 1] = parseInput(
        name.empty() ? input : input.substr(equals + 1), formals[place].type());
  }
  for (size_t i = 1; i < formals.size(); ++i) {
    result.fixed.emplace_back();
    if (isGiven[i - 1])
      continue;
    if (!formals[i].default_value())
      throw InputError("the method's argument '" + formals[i].name() + "' (" +
                       formals[i].type()->annotation_str() +
                       ") has no --input: " + c10::toString(schema));
    result.values[i - 1] = *formals[i].default_value();
    result.fixed.back() = result.values[i - 1];
  }
  // LibTorch words what is wrong with an argument's type.
  std::vector<c10::IValue> all = result.values;
  all.insert(all.begin(), c10::IValue());
  for (size_t i = 1; i < all.size(); ++i) {
    std::string reason;
    if (!all[i].type()->isSubtypeOf(*formals[i].type()) &&
        !(all[i].isList() && all[i].toListRef().empty()))
      throw InputError("the method's argument '" + formals[i].name() + "' is " +
                       formals[i].type()->annotation_str() + ", and not " +
                       all[i].type()->annotation_str());
  }
  for (size_t i = 1; i < formals.size(); ++i)
    result.forms.push_back(
        describeForm(result.values[i - 1], *formals[i].type()));
  return result;
}

/// What LibTorch says of an error, without the stack of its own functions.
static std::string getReason(const std::exception &error) {
  std::string what = error.what();
  // Its allocator's error has the stack alone.
  return what.substr(0, std::min(what.find("\nException raised from"),
                                 what.find("\nframe #0:")));
}

/// The methods that TorchScript makes of an overloaded one: forward__0,
/// forward__1.
static std::vector<torch::jit::Method>
getOverloads(const torch::jit::Module &module, const std::string &method) {
  const std::string prefix = method + "__";
  std::vector<torch::jit::Method> overloads;
  for (const torch::jit::Method &other : module.get_methods()) {
    const std::string &name = other.name();
    if (name.size() > prefix.size() && name.rfind(prefix, 0) == 0 &&
        name.find_first_not_of("0123456789", prefix.size()) ==
            std::string::npos)
      overloads.push_back(other);
  }
  return overloads;
}

/// The name of the method that is asked for: of an overloaded one, as the
/// recurrent layers of PyTorch have, that of the overload that takes the
/// inputs.
static std::string chooseMethod(const torch::jit::Module &module,
                                const ReadRequest &request) {
  std::vector<torch::jit::Method> overloads;
  if (!module.find_method(request.method))
    overloads = getOverloads(module, request.method);
  if (overloads.empty())
    return request.method;
  std::vector<std::string> fitting;
  std::string schemas, reasons;
  for (const torch::jit::Method &overload : overloads) {
    const c10::FunctionSchema &schema = overload.function().getSchema();
    schemas += (schemas.empty() ? "" : "; ") + c10::toString(schema);
    try {
      getArguments(schema, request.inputs);
      fitting.push_back(overload.name());
    } catch (const std::bad_alloc &) {
      throw;
    } catch (const std::exception &error) {
      reasons += (reasons.empty() ? "" : "; ") + overload.name() + ": " +
                 getReason(error);
    }
  }
  if (fitting.size() == 1 && !request.inputs.empty())
    return fitting.front();
  const std::string begin =
      "the method '" + request.method + "' is overloaded, and ";
  if (fitting.empty() && !request.inputs.empty())
    throw InputError(begin + "the inputs fit none of them: " + reasons);
  throw InputError(begin +
                   (request.inputs.empty() ? "no --input says which is meant"
                                           : "the inputs fit several of them") +
                   ": name one with --method: " + schemas);
}

static torch::jit::Module load(const ReadRequest &request) {
  try {
    return torch::jit::load(request.path, c10::Device(c10::kCPU));
  } catch (const std::exception &error) {
    throw InputError("LibTorch cannot load it: " + getReason(error));
  }
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static void writeAll(int file, const char *data, size_t size) {
  while (size) {
    ssize_t written = write(file, data, size);
    if (written <= 0)
      throw InputError("the result cannot be written: " +
                       std::string(std::strerror(errno)));
    data += written;
    size -= static_cast<size_t>(written);
  }
}

static const char *getSafetensorsName(c10::ScalarType type) {
  switch (type) {
  case c10::ScalarType::Double:
    return "F64";
  case c10::ScalarType::Float:
    return "F32";
  case c10::ScalarType::Half:
    return "F16";
  case c10::ScalarType::BFloat16:
    return "BF16";
  case c10::ScalarType::Long:
    return "I64";
  case c10::ScalarType::Int:
    return "I32";
  case c10::ScalarType::Short:
    return "I16";
  case c10::ScalarType::Char:
    return "I8";
  case c10::ScalarType::Byte:
    return "U8";
  case c10::ScalarType::Bool:
    return "BOOL";
  // The format has the first, and the second is written as it would be.
  case c10::ScalarType::ComplexFloat:
    return "C64";
  case c10::ScalarType::ComplexDouble:
    return "C128";
  case c10::ScalarType::Float8_e4m3fn:
    return "F8_E4M3";
  case c10::ScalarType::Float8_e5m2:
    return "F8_E5M2";
  default:
    return nullptr;
  }
}

/// The length of a JSON header, the header with each tensor's place, and the
/// tensors' bytes.
static void
writeWeights(int file,
             const std::vector<std::pair<std::string, at::Tensor>> &weights) {
  std::string header = "{";
  size_t end = 0;
  for (const auto &[name, tensor] : weights) {
    const char *dtype = tensor.layout() == at::kStrided
                            ? getSafetensorsName(tensor.scalar_type())
                            : nullptr;
    if (!dtype)
      throw InputError("the weight " + name + " is a " +
                       getDTypeName(tensor.scalar_type()) +
                       " tensor, which safetensors has no form for: leave "
                       "--weights out, and give the program the tensors of "
                       "torch.jit.load");
    std::vector<std::string> sizes;
    for (int64_t size : tensor.sizes())
      sizes.push_back(std::to_string(size));
    size_t begin = end;
    end += tensor.nbytes();
    header += (header.size() > 1 ? "," : "") + quote(name) +
              ":{\"dtype\":" + quote(dtype) + ",\"shape\":" + listText(sizes) +
              ",\"data_offsets\":[" + std::to_string(begin) + "," +
              std::to_string(end) + "]}";
  }
  header += "}";
  // Tensors begin at a multiple of eight bytes.
  header.resize((header.size() + 7) / 8 * 8, ' ');
  uint64_t size = header.size();
  writeAll(file, reinterpret_cast<const char *>(&size), sizeof size);
  writeAll(file, header.data(), header.size());
  for (const auto &[name, tensor] : weights) {
    at::Tensor whole = tensor.resolve_conj().resolve_neg().contiguous();
    writeAll(file, static_cast<const char *>(whole.const_data_ptr()),
             whole.nbytes());
  }
}

static void writeArguments(int file, const std::vector<c10::IValue> &values) {
  std::vector<char> saved =
      torch::jit::pickle_save(c10::ivalue::Tuple::create(values));
  writeAll(file, saved.data(), saved.size());
}

static std::string getFileName(const std::string &path) {
  return path.substr(path.rfind('/') + 1);
}

/// "model" of model.pt, "model_encode" of its method encode.
static std::string getGraphName(const ReadRequest &request) {
  std::string name = getFileName(request.path);
  size_t dot = name.rfind('.');
  std::string stem =
      dot == std::string::npos || !dot ? name : name.substr(0, dot);
  for (char &c : stem)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return request.method == "forward" ? stem : stem + "_" + request.method;
}

/// Whether the block reads an attribute "training" of `self`.
static bool readsTraining(const torch::jit::Block *block,
                          const torch::jit::Value *self) {
  for (const torch::jit::Node *node : block->nodes()) {
    if (node->kind() == torch::jit::prim::GetAttr && node->input(0) == self &&
        node->s(torch::jit::attr::name) == "training")
      return true;
    for (const torch::jit::Block *inner : node->blocks())
      if (readsTraining(inner, self))
        return true;
  }
  return false;
}

/// Whether the code of one of the module's own methods asks for its mode, other
/// than to save it.
static bool asksForMode(const torch::jit::Module &module) {
  for (const torch::jit::Method &method : module.get_methods()) {
    if (method.name() == "__getstate__")
      continue;
    auto graph = method.graph();
    if (!graph->inputs().empty() &&
        readsTraining(graph->block(), graph->inputs().front()))
      return true;
  }
  return false;
}

/// Whether PyTorch's quantization made the module in place of another one: it
/// is in the mode of any new module then, whatever that one was in.
static bool isConverted(const torch::jit::Module &module) {
  std::string name = module.type()->name()->qualifiedName();
  for (const char *package :
       {"torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.",
        "torch.nn.quantized.", "torch.nn.intrinsic.quantized."})
    if (name.rfind(std::string("__torch__.") + package, 0) == 0)
      return true;
  return false;
}

/// True where what was saved trains. A wrapper that nobody called eval() on,
/// round a model that is in that mode, as tracing often needs one, does not,
/// unless its own code asks for its mode; nor does what was quantized.
static bool isTraining(const torch::jit::Module &module) {
  auto trains = [](const torch::jit::Module &one) {
    return one.hasattr("training") && one.is_training() &&
           (!isConverted(one) || asksForMode(one));
  };
  bool isAlone = true;
  for (const auto &inner : module.named_modules()) {
    if (inner.name.empty())
      continue;
    if (trains(inner.value))
      return true;
    isAlone = false;
  }
  if (!trains(module))
    return false;
  return isAlone || asksForMode(module);
}

static ReadTimes read(const ReadRequest &request, const ReadFiles &files) {
  ReadTimes times;
  Stopwatch watch;
  checkOperators(request.operators);
  torch::jit::Module module = load(request);
  times.load = watch.lap();
  bool trains = isTraining(module);
  if (request.freeze && trains)
    throw InputError("it was saved in training mode, and what is frozen is "
                     "inference: save it again after eval()");
  const std::string method = chooseMethod(module, request);
  ModuleGraph graph(module, method);
  if (request.freeze)
    graph = graph.freeze();
  times.inlining = watch.lap();

  std::optional<Runner> runner;
  Arguments arguments;
  bool isCalled = !request.inputs.empty() || files.arguments >= 0;
  if (isCalled) {
    at::manual_seed(0);
    arguments = getArguments(graph.getSchema(), request.inputs);
  }
  // A run may write what it is given.
  if (files.arguments >= 0)
    writeArguments(files.arguments, arguments.values);
  if (isCalled) {
    runner.emplace(graph, request.explores, request.isExploring);
    runner->run(arguments.values);
  }
  times.run = watch.lap();

  GraphFile file;
  Translator translator(graph, runner ? &*runner : nullptr, file,
                        getFileName(request.path));
  if (request.followDevices)
    translator.followDevices();
  translator.nameConstants(module);
  BlockRecord record = translator.translate(arguments.fixed, arguments.forms);
  translator.keepSharedMemory();
  times.translation = watch.lap();
  std::ostringstream text;
  GraphFile::Producer producer{TORCH_VERSION, request.opprofVersion, method,
                               trains};
  file.write(text, producer, getGraphName(request), record,
             translator.returnsOneValue());
  std::string content = text.str();
  writeAll(files.graph, content.data(), content.size());
  if (files.weights >= 0)
    writeWeights(files.weights, translator.getWeights());
  times.writing = watch.lap();
  return times;
}

ReadTimes opprof::torchscript::readTorchScript(const ReadRequest &request,
                                               const ReadFiles &files) {
  try {
    return read(request, files);
  } catch (const c10::Error &error) {
    throw InputError(getReason(error));
  }
}

std::vector<int> opprof::torchscript::readContained(
    ReadRequest &request, const Limits &limits, unsigned numOutputs,
    const std::function<void(const std::vector<int> &)> &work) {
  using Flag = std::atomic<bool>;
  void *shared = mmap(nullptr, sizeof(Flag), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    throw InputError("no memory could be shared with the process that reads "
                     "it: " +
                     std::string(std::strerror(errno)));
  auto unmap = [&request](Flag *flag) {
    request.isExploring = nullptr;
    munmap(flag, sizeof *flag);
  };
  std::unique_ptr<Flag, decltype(unmap)> isExploring(new (shared) Flag(false),
                                                     unmap);
  request.isExploring = isExploring.get();
  try {
    return runContained(limits, numOutputs, work);
  } catch (const InputError &) {
    if (!*isExploring)
      throw;
  }
  request.explores = false;
  return runContained(limits, numOutputs, work);
}

/// "2.13" of "2.13.0+cpu".
static std::string getMinorVersion(const std::string &version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

void opprof::torchscript::checkLibTorch() {
  // LibTorch tells its version in the text on how it was built only.
  static constexpr char kKey[] = "TORCH_VERSION=";
  std::string config = at::show_config();
  size_t begin = config.find(kKey);
  if (begin == std::string::npos)
    return;
  begin += sizeof kKey - 1;
  std::string running =
      getMinorVersion(config.substr(begin, config.find(',', begin) - begin));
  std::string built = getMinorVersion(TORCH_VERSION);
  if (running != built)
    throw InputError("this opprof-torchscript was built against PyTorch " +
                     built + " and runs with PyTorch " + running +
                     ": build opprof again where that one is installed "
                     "(./setup.sh)");
}
