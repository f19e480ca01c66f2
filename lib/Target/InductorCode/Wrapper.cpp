//===- Wrapper.cpp - Inductor's generated wrapper, interpreted ------------===//
//
// An abstract walk over the wrapper's functions: names stand for buffers with
// shapes, calls of kernels and libraries become launches.
//
//===----------------------------------------------------------------------===//

#include "opprof/Target/InductorCode/Wrapper.h"
#include "opprof/Target/InductorCode/PythonParser.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

/// Following calls could multiply launches without end in a hostile file.
static constexpr size_t maxLaunches = 4'000'000;
static constexpr unsigned maxCallDepth = 32;
/// Operands of all launches together, for the same reason.
static constexpr size_t maxOperands = 50'000'000;
/// Statements walked and values copied, and members of one list of lists.
static constexpr uint64_t maxWork = 400'000'000;
static constexpr uint32_t maxListWeight = 200'000;

//===----------------------------------------------------------------------===//
// Comments
//===----------------------------------------------------------------------===//

/// "[a, , b]": the names, empty ones left out.
static std::vector<std::string> readNameList(StringRef text) {
  std::vector<std::string> out;
  SmallVector<StringRef> parts;
  text.trim().split(parts, ',');
  for (StringRef part : parts)
    if (StringRef name = part.trim(); !name.empty())
      out.push_back(name.str());
  return out;
}

/// The text between "key: [" and its closing bracket.
static std::optional<StringRef> bracketAfter(StringRef text, StringRef key) {
  size_t at = text.find(key);
  if (at == StringRef::npos)
    return std::nullopt;
  text = text.drop_front(at + key.size()).ltrim();
  if (!text.consume_front("["))
    return std::nullopt;
  return text.take_until([](char c) { return c == ']'; });
}

/// "%relu : Tensor "f32[8]" = call_function[target=…](args = (…), kwargs = …)".
static std::optional<FragmentNode> readFragmentLine(StringRef text) {
  if (!text.consume_front("%"))
    return std::nullopt;
  FragmentNode node;
  auto isNameChar = [](char c) { return isAlnum(c) || c == '_' || c == '.'; };
  StringRef name = text.take_while(isNameChar);
  node.name = name.str();
  text = text.drop_front(name.size()).ltrim();
  if (name.empty() || !text.consume_front(":"))
    return std::nullopt;
  text = text.ltrim();
  size_t equals;
  if (text.consume_front("Tensor \"")) {
    auto [type, rest] = text.split('"');
    node.type = parseShortType(type);
    text = rest;
  }
  equals = text.find(" = ");
  if (text.starts_with("= "))
    text = text.drop_front(2);
  else if (equals != StringRef::npos)
    text = text.drop_front(equals + 3);
  else
    return std::nullopt;
  if (text.starts_with("PlaceHolder[")) {
    node.isPlaceholder = true;
    return node;
  }
  size_t target = text.find("target=");
  if (target == StringRef::npos)
    return std::nullopt;
  text = text.drop_front(target + 7);
  StringRef called = text.take_until([](char c) { return c == ']'; });
  text = text.drop_front(called.size());
  called.consume_front("torch.ops.");
  node.target = called.str();
  for (size_t at = text.find('%'); at != StringRef::npos; at = text.find('%')) {
    text = text.drop_front(at + 1);
    StringRef operand = text.take_while(isNameChar);
    if (!operand.empty())
      node.operands.push_back(operand.str());
  }
  return node;
}

static void readDefinitionComments(ArrayRef<CommentLine> comments,
                                   KernelDefinition &kernel) {
  enum { None, Mapping, Fragment } section = None;
  for (const CommentLine &comment : comments) {
    StringRef text = comment.text.drop_front();
    StringRef trimmed = text.trim();
    if (trimmed.consume_front("kernel path:")) {
      StringRef path = trimmed.trim();
      path = path.substr(path.find_last_of("/\\") + 1);
      path.consume_back(".py");
      kernel.hash = path.str();
      section = None;
    } else if (trimmed.contains("Source Nodes: [")) {
      if (auto names = bracketAfter(trimmed, "Source Nodes:"))
        kernel.sourceNodes = readNameList(*names);
      if (auto names = bracketAfter(trimmed, "Original ATen:"))
        kernel.originalAten = readNameList(*names);
      section = Mapping;
    } else if (trimmed.starts_with("Source node to ATen node mapping")) {
      section = Mapping;
    } else if (trimmed.starts_with("Graph fragment")) {
      section = Fragment;
    } else if (section == Mapping && text.contains("=>")) {
      auto [source, nodes] = text.split("=>");
      kernel.sourceToAten.push_back({source.trim().str(), readNameList(nodes)});
    } else if (section == Fragment && trimmed.consume_front("return ")) {
      for (std::string &name : readNameList(trimmed)) {
        StringRef bare = name;
        bare.consume_front("%");
        kernel.fragmentReturns.push_back(bare.str());
      }
    } else if (section == Fragment) {
      if (std::optional<FragmentNode> node = readFragmentLine(trimmed))
        kernel.fragment.push_back(std::move(*node));
    }
  }
}

//===----------------------------------------------------------------------===//
// Kernel definitions
//===----------------------------------------------------------------------===//

static LaunchCategory categoryOfName(StringRef name, LaunchCategory otherwise) {
  return StringSwitch<LaunchCategory>(name)
      .StartsWith("triton_poi_", LaunchCategory::Pointwise)
      .StartsWith("triton_red_", LaunchCategory::Reduction)
      .StartsWith("triton_per_", LaunchCategory::PersistentReduction)
      .StartsWith("triton_for_", LaunchCategory::Foreach)
      .StartsWith("triton_spl_", LaunchCategory::SplitScan)
      .StartsWith("triton_tem_", LaunchCategory::Template)
      .StartsWith("cutlass_", LaunchCategory::Template)
      .StartsWith("cutedsl_", LaunchCategory::Template)
      .StartsWith("rocm_", LaunchCategory::Template)
      .StartsWith("ck_", LaunchCategory::Template)
      .Default(otherwise);
}

static KernelParameter::Role roleOfName(StringRef name) {
  if (name.starts_with("in_out_ptr"))
    return KernelParameter::InOut;
  if (name.starts_with("out_ptr") || name.starts_with("output_ptr"))
    return KernelParameter::Output;
  return KernelParameter::Input;
}

/// `text` from the first occurrence of `key` on, without it; or empty.
static StringRef after(StringRef text, StringRef key) {
  size_t at = text.find(key);
  return at == StringRef::npos ? StringRef() : text.drop_front(at + key.size());
}

/// Names in the parentheses that `text` starts with, last word of each.
static std::vector<StringRef> parameterWords(StringRef text) {
  std::vector<StringRef> out;
  unsigned open = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size() && i < 1 << 20; ++i) {
    char c = text[i];
    if (c == '(' || c == '<' || c == '[')
      ++open;
    else if ((c == ')' && !open) || (c == ',' && !open)) {
      StringRef part = text.slice(start, i).trim();
      part = part.take_until([](char d) { return d == ':' || d == '='; });
      part = part.rtrim();
      size_t word = part.find_last_of(" *&\n\t");
      if (!part.empty())
        out.push_back(word == StringRef::npos ? part
                                              : part.drop_front(word + 1));
      start = i + 1;
      if (c == ')')
        return out;
    } else if (c == ')' || c == '>' || c == ']')
      open -= open ? 1 : 0;
  }
  return {};
}

static void readTritonSource(StringRef body, KernelDefinition &kernel) {
  StringRef heuristic = after(body, "@triton_heuristics.");
  StringRef word =
      heuristic.take_while([](char c) { return isAlnum(c) || c == '_'; });
  kernel.category =
      StringSwitch<LaunchCategory>(word)
          .Case("pointwise", LaunchCategory::Pointwise)
          .Cases({"reduction", "cooperative_reduction"},
                 LaunchCategory::Reduction)
          .Case("persistent_reduction", LaunchCategory::PersistentReduction)
          .Case("split_scan", LaunchCategory::SplitScan)
          .Case("foreach", LaunchCategory::Foreach)
          .Case("template", LaunchCategory::Template)
          .Case("user_autotune", LaunchCategory::Template)
          .Default(categoryOfName(kernel.name, LaunchCategory::Pointwise));
  if (word == "user_autotune")
    kernel.kind = LaunchKind::User;

  BumpPtrAllocator arena;
  StringSet<> mutated;
  if (StringRef text = after(body, "inductor_meta="); !text.empty())
    if (const Expr *meta = parseExpression(text, arena)) {
      if (meta->lookup("combo_grid_meta"))
        kernel.category = LaunchCategory::Foreach;
      if (const Expr *names = meta->lookup("mutated_arg_names"))
        for (const Expr *name : names->items)
          if (std::optional<std::string> text = name->stringValue())
            mutated.insert(*text);
    }

  StringRef parameters = after(body, "def " + kernel.name + "(");
  if (parameters.empty())
    parameters = after(after(body, "@triton.jit"), "(");
  std::vector<StringRef> words = parameterWords(parameters);

  StringRef text = after(body, "triton_meta=");
  const Expr *meta = text.empty() ? nullptr : parseExpression(text, arena);
  const Expr *signature = meta ? meta->lookup("signature") : nullptr;
  if (!signature || signature->kind != Expr::Dict)
    return;
  kernel.hasSignature = true;
  // A kernel of the user's has names of its own: what it stores to and loads
  // from is read from its text.
  StringSet<> stored, loaded;
  if (kernel.kind == LaunchKind::User)
    for (auto [function, names] :
         {std::pair<StringRef, StringSet<> *>{"tl.store(", &stored},
          {"tl.load(", &loaded},
          {"tl.atomic_", nullptr}})
      for (StringRef rest = after(body, function); !rest.empty();
           rest = after(rest, function)) {
        StringRef call = names ? rest : after(rest, "(");
        StringRef word = call.ltrim().take_while(
            [](char c) { return isAlnum(c) || c == '_'; });
        if (names != &loaded)
          stored.insert(word);
        if (names != &stored)
          loaded.insert(word);
      }
  for (size_t i = 0; i + 1 < signature->items.size(); i += 2) {
    KernelParameter parameter;
    const Expr *key = signature->items[i];
    if (std::optional<std::string> name = key->stringValue())
      parameter.name = *name;
    else if (std::optional<int64_t> at = key->intValue();
             at && *at >= 0 && static_cast<size_t>(*at) < words.size())
      parameter.name = words[*at].str();
    std::optional<std::string> type = signature->items[i + 1]->stringValue();
    if (type && StringRef(*type).starts_with("*")) {
      parameter.role = roleOfName(parameter.name);
      if (mutated.contains(parameter.name) &&
          parameter.role == KernelParameter::Input)
        parameter.role = KernelParameter::InOut;
      if (kernel.kind == LaunchKind::User && mutated.empty()) {
        bool isStored = stored.contains(parameter.name);
        bool isLoaded = loaded.contains(parameter.name);
        parameter.role = isStored && !isLoaded   ? KernelParameter::Output
                         : isLoaded && !isStored ? KernelParameter::Input
                                                 : KernelParameter::InOut;
        kernel.rolesCertain &= isStored || isLoaded;
      }
    }
    kernel.parameters.push_back(std::move(parameter));
  }
}

static void readCppSource(const Expr *types, StringRef body,
                          KernelDefinition &kernel) {
  kernel.kind = LaunchKind::Cpp;
  bool isGemm = body.contains("micro_gemm") || body.contains("_gemm(") ||
                kernel.name.find("gemm") != std::string::npos ||
                body.contains("cpp_flash_attention") ||
                body.contains("cpp_flex_attention");
  bool reduces = body.contains("tmp_acc") || body.contains("reduction(") ||
                 body.contains("welford") || body.contains("_max_reduce");
  kernel.category = isGemm    ? LaunchCategory::Template
                    : reduces ? LaunchCategory::Reduction
                              : LaunchCategory::Pointwise;
  std::vector<StringRef> words;
  for (StringRef opening : {"void  kernel(", "void kernel("})
    if (words.empty())
      words = parameterWords(after(body, opening));
  if (!types)
    return;
  kernel.hasSignature = true;
  for (auto [i, type] : enumerate(types->items)) {
    KernelParameter parameter;
    if (i < words.size())
      parameter.name = words[i].str();
    std::optional<std::string> text = type->stringValue();
    if (text && StringRef(*text).contains('*')) {
      bool isConst = StringRef(*text).trim().starts_with("const");
      parameter.role = isConst ? KernelParameter::Input
                       : StringRef(parameter.name).starts_with("in_")
                           ? KernelParameter::InOut
                           : KernelParameter::Output;
    }
    kernel.parameters.push_back(std::move(parameter));
  }
}

//===----------------------------------------------------------------------===//
// Interpreter
//===----------------------------------------------------------------------===//

namespace {
/// What a name stands for.
struct Value {
  enum Kind : uint8_t { Unknown, Tensor, List, Scalar };
  Kind kind = Unknown;
  std::string name;
  int32_t storage = -1;
  TensorInfo info;
  std::vector<Value> items;
  /// A list whose members become known by indexing: a library's results.
  int32_t producer = -1;
  std::optional<uint32_t> member;
  /// Values in it, itself included.
  uint32_t weight = 1;
};

struct PendingComments {
  std::vector<std::string> sourceNodes;
  std::vector<std::string> originalAten;
  /// (kernel name, handle).
  std::vector<std::pair<std::string, int64_t>> handles;
};

class Interpreter {
public:
  Interpreter(StringRef source, StringRef fileName)
      : source(source), fileName(fileName) {}

  Expected<WrapperProgram> run();

private:
  using Environment = StringMap<Value>;

  struct Frame {
    std::string function;
    Environment values;
    std::optional<Value> result;
    PendingComments pending;
    bool conditional = false;
    bool inLoop = false;
  };

  // Module level.
  void readModule();
  void readModuleStatement(const Stmt &stmt);
  bool readKernelDefinition(const Stmt &stmt);
  void readHarnessInputs(const Stmt &function);
  void countBoilerplate(ArrayRef<const Stmt *> body);

  // Function level.
  void runFunction(const Stmt &function, Frame &frame);
  void runBlock(ArrayRef<const Stmt *> body, Frame &frame);
  bool runStatement(const Stmt &stmt, Frame &frame);
  void readCallComments(const Stmt &stmt, Frame &frame);
  bool assign(const Expr &target, Value value, Frame &frame);
  void nameTensor(Value &value, StringRef name);
  /// Sets `known` to false where the expression is not understood.
  Value evaluate(const Expr &expr, Frame &frame, bool &known);
  Value evaluateCall(const Expr &expr, Frame &frame, bool &known);
  Value callFunction(const Stmt &function, const Expr &call, Frame &frame,
                     bool &known);
  std::vector<Dim> dims(const Expr *expr, const Frame &frame);
  Value newTensor(TensorInfo info);
  void noteShape(const Expr &call, Frame &frame);

  // Launches.
  WrapperLaunch *addLaunch(const Expr &call, StringRef kernel, LaunchKind kind,
                           LaunchCategory category, Frame &frame);
  void addOperands(WrapperLaunch &launch, const Value &value,
                   KernelParameter::Role role);
  Value launchKernel(const Expr &call, size_t kernel, Frame &frame);
  Value launchLibrary(const Expr &call, StringRef name, LaunchKind kind,
                      LaunchCategory category, Frame &frame);
  std::string resolve(const Expr &callee) const;

  void keep(const Stmt &stmt);
  /// Notes that more than launches use a value.
  void keepAlive(const Value &value) {
    if (value.kind == Value::Tensor && value.storage >= 0)
      program.returned.push_back(value.storage);
    for (const Value &item : value.items)
      keepAlive(item);
  }
  void spend(uint64_t amount) {
    work += amount;
    exhausted |= work > maxWork;
  }

  StringRef source;
  StringRef fileName;
  SyntaxTree tree;
  WrapperProgram program;
  StringMap<uint32_t> kernelIndex;
  StringMap<const Stmt *> functions;
  StringMap<std::string> aliases;
  StringMap<TensorInfo> inputInfo;
  std::vector<std::string> partitions;
  StringSet<> used;
  const Stmt *entry = nullptr;
  DenseMap<const Stmt *, bool> understood;
  std::vector<uint32_t> callLines;
  SmallVector<const Stmt *, 8> active;
  size_t operandCount = 0;
  uint64_t work = 0;
  bool exhausted = false;
};
} // namespace

void Interpreter::keep(const Stmt &stmt) {
  auto [it, inserted] = understood.try_emplace(&stmt, false);
  if (inserted && program.keptText.size() < 32)
    program.keptText.push_back(
        (Twine(stmt.line) + ": " + stmt.source.take_front(160)).str());
}

void Interpreter::countBoilerplate(ArrayRef<const Stmt *> body) {
  for (const Stmt *stmt : body) {
    if (stmt->kind == Stmt::Text)
      keep(*stmt);
    else
      understood.try_emplace(stmt, true);
    countBoilerplate(stmt->body);
    countBoilerplate(stmt->orelse);
  }
}

bool Interpreter::readKernelDefinition(const Stmt &stmt) {
  if (stmt.kind != Stmt::Assign || stmt.targets.size() != 1 ||
      stmt.targets[0]->kind != Expr::Name || !stmt.value ||
      stmt.value->kind != Expr::Call)
    return false;
  StringRef callee = stmt.value->items[0]->source;
  if (!callee.consume_front("async_compile."))
    return false;

  KernelDefinition kernel;
  kernel.name = stmt.targets[0]->text.str();
  kernel.line = stmt.line;
  readDefinitionComments(stmt.leading, kernel);
  SmallVector<const Expr *> args = stmt.value->positional();
  // The source text is the longest string argument.
  StringRef body;
  for (const Expr *arg : args)
    if (arg->kind == Expr::String && stringBody(arg->text).size() > body.size())
      body = stringBody(arg->text);

  if (callee == "triton") {
    readTritonSource(body, kernel);
  } else if (callee.starts_with("cpp")) {
    const Expr *types =
        !args.empty() && args[0]->kind == Expr::List ? args[0] : nullptr;
    readCppSource(types, body, kernel);
  } else if (callee == "multi_kernel") {
    kernel.kind = LaunchKind::MultiKernel;
    kernel.category = LaunchCategory::Reduction;
    for (const Expr *arg : args)
      if (arg->kind == Expr::List)
        for (const Expr *item : arg->items)
          if (item->kind == Expr::Name)
            kernel.alternatives.push_back(item->text.str());
    for (const std::string &name : kernel.alternatives)
      if (auto it = kernelIndex.find(name); it != kernelIndex.end()) {
        const KernelDefinition &first = program.kernels[it->second];
        kernel.parameters = first.parameters;
        kernel.hasSignature = first.hasSignature;
        kernel.category = first.category;
        if (kernel.fragment.empty()) {
          kernel.fragment = first.fragment;
          kernel.fragmentReturns = first.fragmentReturns;
          kernel.sourceNodes = first.sourceNodes;
          kernel.sourceToAten = first.sourceToAten;
        }
        break;
      }
  } else {
    bool cute = callee.starts_with("cutedsl") || callee.starts_with("cute");
    kernel.kind = cute ? LaunchKind::CuteDsl : LaunchKind::Cutlass;
    kernel.category = LaunchCategory::Template;
  }
  kernelIndex[kernel.name] = program.kernels.size();
  program.kernels.push_back(std::move(kernel));
  return true;
}

/// rand_strided((4,), (1,), device='cpu', dtype=torch.float32)
static std::optional<TensorInfo> readRandStrided(const Expr &expr) {
  if (expr.kind != Expr::Call || !expr.items[0]->isName("rand_strided"))
    return std::nullopt;
  TensorInfo info;
  SmallVector<const Expr *> args = expr.positional();
  auto read = [](const Expr *tuple, std::vector<Dim> &out) {
    for (const Expr *item : tuple->items) {
      Dim &dim = out.emplace_back();
      if (std::optional<int64_t> value = item->intValue())
        dim.value = value;
      else
        dim.symbol = item->source.str();
    }
  };
  if (!args.empty() && args[0]->kind == Expr::Tuple) {
    read(args[0], info.shape);
    info.shapeKnown = true;
  }
  if (args.size() > 1 && args[1]->kind == Expr::Tuple)
    read(args[1], info.stride);
  if (const Expr *device = expr.keyword("device"))
    info.device = device->stringValue().value_or("");
  if (const Expr *dtype = expr.keyword("dtype"))
    if (StringRef name = dtype->source; name.consume_front("torch."))
      info.dtype = name.str();
  return info;
}

/// The harness makes inputs of the sizes that the program was compiled with.
/// Sizes are taken from the program itself, dtypes and devices from here.
void Interpreter::readHarnessInputs(const Stmt &function) {
  for (const Stmt *stmt : function.body)
    if (stmt->kind == Stmt::Assign && stmt->targets.size() == 1 &&
        stmt->targets[0]->kind == Expr::Name && stmt->value)
      if (std::optional<TensorInfo> info = readRandStrided(*stmt->value)) {
        info->shape.clear();
        info->stride.clear();
        info->shapeKnown = false;
        inputInfo[stmt->targets[0]->text] = *info;
      }
}

void Interpreter::readModuleStatement(const Stmt &stmt) {
  for (const CommentLine &comment : stmt.leading)
    if (StringRef text = comment.text; text.consume_front("# AOT ID: "))
      program.aotId = text.trim().str();

  switch (stmt.kind) {
  case Stmt::Function:
    functions[stmt.name] = &stmt;
    if (stmt.name == "call")
      entry = &stmt;
    if (stmt.name == "get_args" || stmt.name == "benchmark_compiled_module") {
      readHarnessInputs(stmt);
      countBoilerplate(stmt.body);
    }
    understood[&stmt] = true;
    return;
  case Stmt::Class:
    understood[&stmt] = true;
    for (const Stmt *member : stmt.body) {
      if (member->kind == Stmt::Function && member->name == "call") {
        entry = member;
        understood[member] = true;
        continue;
      }
      if (member->kind == Stmt::Function && !member->name.starts_with("__") &&
          member->name != "recursively_apply_fns") {
        functions[("self." + member->name).str()] = member;
        understood[member] = true;
        continue;
      }
      countBoilerplate(member);
    }
    return;
  case Stmt::Assign:
    if (readKernelDefinition(stmt)) {
      understood[&stmt] = true;
      return;
    }
    if (stmt.targets.size() == 1 && stmt.targets[0]->kind == Expr::Name &&
        stmt.value) {
      std::string value = stmt.value->dotted();
      if (!value.empty())
        aliases[stmt.targets[0]->text] = value;
      if (stmt.value->kind == Expr::Call)
        if (const Expr *list = stmt.value->keyword("partitions"))
          for (const Expr *item : list->items)
            partitions.push_back(item->source.str());
      understood[&stmt] = true;
      return;
    }
    keep(stmt);
    return;
  case Stmt::Text:
    keep(stmt);
    countBoilerplate(stmt.body);
    return;
  default:
    understood[&stmt] = true;
    countBoilerplate(stmt.body);
    countBoilerplate(stmt.orelse);
  }
}

std::vector<Dim> Interpreter::dims(const Expr *expr, const Frame &frame) {
  std::vector<Dim> out;
  if (!expr)
    return out;
  ArrayRef<const Expr *> items =
      expr->kind == Expr::Tuple || expr->kind == Expr::List
          ? expr->items
          : ArrayRef<const Expr *>(expr);
  for (const Expr *item : items) {
    Dim &dim = out.emplace_back();
    if (std::optional<int64_t> value = item->intValue())
      dim.value = value;
    else
      dim.symbol = item->source.str();
  }
  return out;
}

Value Interpreter::newTensor(TensorInfo info) {
  Value value;
  value.kind = Value::Tensor;
  value.storage = program.storages.size();
  value.info = info;
  Storage &storage = program.storages.emplace_back();
  storage.info = std::move(info);
  return value;
}

/// "extern_kernels.mm", "torch.ops.aten.sort.default", aliases of the module's
/// head resolved.
std::string Interpreter::resolve(const Expr &callee) const {
  std::string dotted = callee.dotted();
  auto [head, rest] = StringRef(dotted).split('.');
  auto it = aliases.find(head);
  if (it == aliases.end() || rest.empty())
    return dotted;
  return it->second + "." + rest.str();
}

WrapperLaunch *Interpreter::addLaunch(const Expr &call, StringRef kernel,
                                      LaunchKind kind, LaunchCategory category,
                                      Frame &frame) {
  if (program.launches.size() >= maxLaunches) {
    exhausted = true;
    return nullptr;
  }
  WrapperLaunch &launch = program.launches.emplace_back();
  launch.line = call.line;
  launch.function = frame.function;
  launch.callLines = callLines;
  launch.kernel = kernel.str();
  launch.kind = kind;
  launch.category = category;
  launch.conditional = frame.conditional;
  launch.inLoop = frame.inLoop;
  launch.sourceNodes = std::move(frame.pending.sourceNodes);
  launch.originalAten = std::move(frame.pending.originalAten);
  auto &handles = frame.pending.handles;
  for (auto it = handles.begin(); it != handles.end(); ++it)
    if (it->first == kernel || StringRef(it->first).ends_with(kernel) ||
        kernel.ends_with(it->first)) {
      launch.debugHandle = it->second;
      break;
    }
  frame.pending = PendingComments();
  return &launch;
}

void Interpreter::addOperands(WrapperLaunch &launch, const Value &value,
                              KernelParameter::Role role) {
  if (value.kind == Value::List) {
    for (const Value &item : value.items)
      addOperands(launch, item, role);
    return;
  }
  if (value.kind != Value::Tensor)
    return;
  if (++operandCount > maxOperands) {
    exhausted = true;
    return;
  }
  LaunchOperand &operand = launch.operands.emplace_back();
  operand.name = value.name;
  operand.storage = value.storage;
  operand.info = value.info;
  operand.role = role;
}

Value Interpreter::launchKernel(const Expr &call, size_t index, Frame &frame) {
  // Taken by value: evaluating arguments may add kernels' storages, and the
  // list of launches may move.
  const KernelDefinition &kernel = program.kernels[index];
  SmallVector<const Expr *> args = call.positional();
  std::vector<Value> values;
  bool known = true;
  for (const Expr *arg : args)
    values.push_back(evaluate(*arg, frame, known));
  WrapperLaunch *launch =
      addLaunch(call, kernel.name, kernel.kind, kernel.category, frame);
  if (!launch)
    return {};
  launch->definition = index;
  launch->firstUse = used.insert(kernel.name).second;
  for (auto [i, value] : enumerate(values)) {
    KernelParameter::Role role = KernelParameter::InOut;
    if (kernel.hasSignature)
      role = i < kernel.parameters.size() ? kernel.parameters[i].role
                                          : KernelParameter::Scalar;
    if (role != KernelParameter::Scalar)
      addOperands(*launch, value, role);
  }
  return {};
}

Value Interpreter::launchLibrary(const Expr &call, StringRef name,
                                 LaunchKind kind, LaunchCategory category,
                                 Frame &frame) {
  bool known = true;
  std::vector<std::pair<Value, KernelParameter::Role>> values;
  // An operator whose name ends in an underscore writes its first argument.
  StringRef family = opFamily(name);
  bool inPlace = family.ends_with("_") && !family.ends_with("__");
  bool hasOut = false;
  bool causal = false;
  for (auto [item, key] : zip(call.items.drop_front(), call.names)) {
    // out=, or out0=, out1= of a variant with several results.
    StringRef suffix = key;
    bool isOut = suffix.consume_front("out") &&
                 llvm::all_of(suffix, [](char c) { return isDigit(c); });
    hasOut |= isOut;
    Value value = evaluate(*item, frame, known);
    KernelParameter::Role role = isOut ? KernelParameter::Output
                                 : inPlace && values.empty()
                                     ? KernelParameter::InOut
                                     : KernelParameter::Input;
    causal |= key == "is_causal" && item->isName("True");
    values.push_back({std::move(value), role});
  }
  WrapperLaunch *launch = addLaunch(call, name, kind, category, frame);
  if (!launch)
    return {};
  launch->isCausal = causal;
  for (const auto &[value, role] : values)
    addOperands(*launch, value, role);
  if (hasOut || inPlace)
    return {};
  // The result's shape is learned from the checks that follow.
  Value result;
  result.kind = Value::Tensor;
  result.producer = program.launches.size() - 1;
  return result;
}

Value Interpreter::callFunction(const Stmt &function, const Expr &call,
                                Frame &frame, bool &known) {
  if (active.size() >= maxCallDepth || is_contained(active, &function)) {
    addLaunch(call, call.items[0]->source, LaunchKind::Subgraph,
              LaunchCategory::Extern, frame);
    known = false;
    return {};
  }
  Frame inner;
  inner.function = function.name.str();
  inner.conditional = frame.conditional;
  inner.inLoop = frame.inLoop;
  ArrayRef<StringRef> parameters = function.parameters;
  if (!parameters.empty() && parameters.front() == "self")
    parameters = parameters.drop_front();
  SmallVector<const Expr *> args = call.positional();
  for (auto [name, arg] : zip(parameters, args))
    inner.values[name] = evaluate(*arg, frame, known);
  frame.pending = PendingComments();
  callLines.push_back(call.line);
  runFunction(function, inner);
  callLines.pop_back();
  if (!inner.result)
    return {};
  keepAlive(*inner.result);
  return *inner.result;
}

/// assert_size_stride(buf2, (64, 256), (256, 1), …) tells a result's layout.
void Interpreter::noteShape(const Expr &call, Frame &frame) {
  SmallVector<const Expr *> args = call.positional();
  if (args.size() < 3 || args[0]->kind != Expr::Name)
    return;
  auto it = frame.values.find(args[0]->text);
  if (it == frame.values.end() || it->second.kind != Value::Tensor)
    return;
  Value &value = it->second;
  value.info.shape = dims(args[1], frame);
  value.info.stride = dims(args[2], frame);
  value.info.shapeKnown = true;
  if (value.storage >= 0) {
    Storage &storage = program.storages[value.storage];
    if (!storage.info.shapeKnown) {
      storage.info.shape = value.info.shape;
      storage.info.stride = value.info.stride;
      storage.info.shapeKnown = true;
    }
  }
}

static bool isCollective(StringRef name) {
  StringRef rest = name;
  rest.consume_front("torch.ops.");
  return rest.starts_with("_c10d_functional") ||
         rest.starts_with("c10d_functional") || rest.starts_with("c10d.") ||
         rest.starts_with("symm_mem.") || rest.starts_with("_dtensor.");
}

/// Calls that neither launch nor move data.
static bool isBookkeeping(StringRef name) {
  StringRef last = name.rsplit('.').second;
  if (last.empty())
    last = name;
  return StringSwitch<bool>(last)
      .Cases({"assert_size_stride", "assert_alignment", "clear"}, true)
      .Cases({"set_device", "get_raw_stream", "current_stream"}, true)
      .Cases({"synchronize", "record", "wait", "wait_stream"}, true)
      .Cases({"start_graph", "end_graph", "run_intermediate_hooks"}, true)
      .Cases({"range_push", "range_pop", "maybe_profile", "append"}, true)
      .Cases({"Event", "record_event", "wait_event", "record_stream"}, true)
      .Cases({"print", "len", "isinstance", "int", "float", "bool"}, true)
      .Cases({"size", "stride", "is_contiguous", "max", "min", "abs"}, true)
      .Cases({"ceil", "floor", "sqrt", "align", "cdiv", "device"}, true)
      .Cases({"_cuda_getCurrentRawStream", "inductor_seeds"}, true)
      .Cases({"check_memory_step", "copy_misaligned", "Size"}, true)
      .Default(false);
}

Value Interpreter::evaluateCall(const Expr &expr, Frame &frame, bool &known) {
  const Expr &callee = *expr.items[0];

  // K.run(…), K.K(…), K(…)
  if (callee.kind == Expr::Name) {
    if (auto it = kernelIndex.find(callee.text); it != kernelIndex.end())
      return launchKernel(expr, it->second, frame);
    if (auto it = functions.find(callee.text); it != functions.end())
      return callFunction(*it->second, expr, frame, known);
  }
  if (callee.kind == Expr::Attribute && callee.items[0]->kind == Expr::Name) {
    StringRef base = callee.items[0]->text;
    if (auto it = kernelIndex.find(base); it != kernelIndex.end())
      return launchKernel(expr, it->second, frame);
    if (callee.text == "run" && expr.keyword("stream")) {
      // A kernel that is defined in another file.
      Value result =
          launchLibrary(expr, base, LaunchKind::Triton,
                        categoryOfName(base, LaunchCategory::Pointwise), frame);
      if (!program.launches.empty())
        for (LaunchOperand &operand : program.launches.back().operands)
          operand.role = KernelParameter::InOut;
      return {};
    }
    if (base == "self")
      if (auto it = functions.find(("self." + callee.text).str());
          it != functions.end())
        return callFunction(*it->second, expr, frame, known);
  }

  // self.partitions[0](partition0_args)
  if (callee.kind == Expr::Subscript &&
      callee.items[0]->source == "self.partitions") {
    std::optional<int64_t> at = callee.items[1]->intValue();
    if (at && *at >= 0 && static_cast<size_t>(*at) < partitions.size())
      if (auto it = functions.find(partitions[*at]); it != functions.end())
        return callFunction(*it->second, expr, frame, known);
    addLaunch(expr, callee.source, LaunchKind::Subgraph, LaunchCategory::Extern,
              frame);
    known = false;
    return {};
  }

  std::string name = resolve(callee);
  SmallVector<const Expr *> args = expr.positional();
  auto tensorLike = [&](const Expr *shape, const Expr *stride,
                        const Expr *dtype, StringRef device) {
    TensorInfo info;
    info.shape = dims(shape, frame);
    info.shapeKnown = shape;
    info.stride = dims(stride, frame);
    info.device = device.str();
    if (dtype)
      if (StringRef text = dtype->source; text.consume_front("torch."))
        info.dtype = text.str();
    return newTensor(std::move(info));
  };

  StringRef bare = callee.kind == Expr::Name ? callee.text : StringRef(name);
  if (bare.starts_with("empty_strided")) {
    StringRef device = bare.drop_front(13);
    device.consume_front("_");
    if (device.starts_with("cpu"))
      device = "cpu";
    const Expr *dtype = args.size() > 2 ? args[2] : expr.keyword("dtype");
    if (const Expr *where = expr.keyword("device"))
      device = where->source;
    if (args.size() >= 2)
      return tensorLike(args[0], args[1], dtype, device);
  }
  if (bare == "alloc_from_pool" && args.size() >= 5)
    return tensorLike(args[3], args[4], args[2], "");
  if (bare == "reinterpret_tensor" && args.size() >= 3) {
    Value value = evaluate(*args[0], frame, known);
    value.info.shape = dims(args[1], frame);
    value.info.stride = dims(args[2], frame);
    value.info.shapeKnown = true;
    if (value.kind == Value::Unknown)
      value.kind = Value::Tensor;
    value.items.clear();
    return value;
  }
  if (bare == "copy_if_misaligned" && !args.empty())
    return evaluate(*args[0], frame, known);
  if ((bare == "c_void_p" || bare == "c_long" || bare == "c_int") &&
      args.size() == 1)
    return evaluate(*args[0], frame, known);
  if (bare == "rand_strided")
    return {};

  if (StringRef(name).starts_with("extern_kernels."))
    return launchLibrary(expr, name, LaunchKind::Extern, LaunchCategory::Extern,
                         frame);
  if (StringRef(name).starts_with("torch.ops.")) {
    if (isCollective(name))
      return launchLibrary(expr, name, LaunchKind::Collective,
                           LaunchCategory::Collective, frame);
    if (isViewTarget(StringRef(name).drop_front(10)) && !args.empty()) {
      Value value = evaluate(*args[0], frame, known);
      value.info.shapeKnown = false;
      value.info.shape.clear();
      value.info.stride.clear();
      return value;
    }
    return launchLibrary(expr, name, LaunchKind::Fallback,
                         LaunchCategory::Extern, frame);
  }

  if (callee.kind == Expr::Attribute) {
    StringRef method = callee.text;
    if (method == "data_ptr")
      return evaluate(*callee.items[0], frame, known);
    if (method == "copy_" && args.size() >= 1) {
      bool inner = true;
      Value to = evaluate(*callee.items[0], frame, inner);
      Value from = evaluate(*args[0], frame, inner);
      if (WrapperLaunch *launch =
              addLaunch(expr, "Tensor.copy_", LaunchKind::Copy,
                        LaunchCategory::Copy, frame)) {
        addOperands(*launch, from, KernelParameter::Input);
        addOperands(*launch, to, KernelParameter::Output);
      }
      return to;
    }
    if (method == "clone") {
      bool inner = true;
      Value from = evaluate(*callee.items[0], frame, inner);
      Value result = newTensor(from.info);
      if (WrapperLaunch *launch =
              addLaunch(expr, "Tensor.clone", LaunchKind::Copy,
                        LaunchCategory::Copy, frame)) {
        addOperands(*launch, from, KernelParameter::Input);
        result.producer = program.launches.size() - 1;
      }
      return result;
    }
    if (method == "item") {
      // On a device, reading a scalar is a copy that the host waits for.
      bool inner = true;
      Value from = evaluate(*callee.items[0], frame, inner);
      keepAlive(from);
      Value scalar;
      scalar.kind = Value::Scalar;
      if (from.kind == Value::Tensor &&
          !StringRef(from.info.device).starts_with("cpu"))
        if (WrapperLaunch *launch =
                addLaunch(expr, "Tensor.item", LaunchKind::Copy,
                          LaunchCategory::Copy, frame))
          addOperands(*launch, from, KernelParameter::Input);
      return scalar;
    }
    if (StringSwitch<bool>(method)
            .Cases({"view", "unsqueeze", "squeeze", "t", "permute"}, true)
            .Cases({"as_strided", "detach", "expand", "reshape"}, true)
            .Default(false)) {
      Value value = evaluate(*callee.items[0], frame, known);
      value.info.shapeKnown = false;
      value.info.shape.clear();
      value.info.stride.clear();
      return value;
    }
  }

  if (isBookkeeping(name)) {
    if (bare == "assert_size_stride")
      noteShape(expr, frame);
    return {};
  }

  // Anything else may launch: keep it as text, and as a launch where a tensor
  // goes in.
  known = false;
  bool takesTensor = false;
  bool inner = true;
  std::vector<Value> values;
  for (const Expr *arg : expr.items.drop_front()) {
    values.push_back(evaluate(*arg, frame, inner));
    takesTensor |= values.back().kind == Value::Tensor;
  }
  if (takesTensor) {
    std::string called = json::fixUTF8(callee.source.take_front(200));
    if (WrapperLaunch *launch = addLaunch(expr, called, LaunchKind::Fallback,
                                          LaunchCategory::Extern, frame)) {
      for (const Value &value : values)
        addOperands(*launch, value, KernelParameter::Input);
      Value result;
      result.kind = Value::Tensor;
      result.producer = program.launches.size() - 1;
      return result;
    }
  }
  return {};
}

Value Interpreter::evaluate(const Expr &expr, Frame &frame, bool &known) {
  switch (expr.kind) {
  case Expr::Name: {
    auto it = frame.values.find(expr.text);
    if (it != frame.values.end()) {
      spend(it->second.weight);
      return it->second;
    }
    Value value;
    value.name = expr.text.str();
    // Constants of the module (frozen weights) are tensors of unknown layout.
    if (expr.text.starts_with("_tensor_constant") ||
        expr.text.starts_with("_frozen_param") ||
        expr.text.starts_with("constant")) {
      value.kind = Value::Tensor;
      value.storage = program.storages.size();
      Storage &storage = program.storages.emplace_back();
      storage.name = value.name;
      storage.isInput = true;
      frame.values[expr.text] = value;
    }
    return value;
  }
  case Expr::Number:
  case Expr::String: {
    Value value;
    value.kind = Value::Scalar;
    return value;
  }
  case Expr::Tuple:
  case Expr::List: {
    Value value;
    value.kind = Value::List;
    for (const Expr *item : expr.items) {
      value.items.push_back(evaluate(*item, frame, known));
      value.weight += value.items.back().weight;
      if (value.weight > maxListWeight) {
        known = false;
        return {};
      }
    }
    return value;
  }
  case Expr::Subscript: {
    Value base = evaluate(*expr.items[0], frame, known);
    std::optional<int64_t> at = expr.items[1]->intValue();
    if (base.kind == Value::List) {
      if (at && *at >= 0 && static_cast<size_t>(*at) < base.items.size())
        return base.items[*at];
      return {};
    }
    if (base.kind == Value::Tensor && at) {
      // A member of a library's results.
      Value value;
      value.kind = Value::Tensor;
      value.producer = base.producer;
      if (*at >= 0 && *at <= UINT16_MAX)
        value.member = *at;
      value.info.device = base.info.device;
      return value;
    }
    return {};
  }
  case Expr::Call:
    return evaluateCall(expr, frame, known);
  case Expr::Binary: {
    // [None] * 2: the slots of a subgraph's results.
    if (expr.text == "*" && expr.items[0]->kind == Expr::List) {
      Value value;
      value.kind = Value::List;
      if (std::optional<int64_t> count = expr.items[1]->intValue();
          count && *count >= 0 && *count <= 65536)
        value.items.resize(*count);
      value.weight += value.items.size();
      return value;
    }
    for (const Expr *item : expr.items)
      evaluate(*item, frame, known);
    Value value;
    value.kind = Value::Scalar;
    return value;
  }
  case Expr::Unary:
  case Expr::IfElse:
  case Expr::Dict:
  case Expr::Set:
  case Expr::Slice: {
    for (const Expr *item : expr.items)
      if (item)
        evaluate(*item, frame, known);
    return {};
  }
  case Expr::Attribute:
  case Expr::Star:
    return {};
  case Expr::Text:
    known = false;
    return {};
  }
  llvm_unreachable("every kind of expression is handled");
}

/// Gives a value its name; a launch's result becomes a buffer of its own.
void Interpreter::nameTensor(Value &value, StringRef name) {
  value.name = name.str();
  if (value.kind != Value::Tensor)
    return;
  bool isResult = value.producer >= 0;
  if (value.storage < 0) {
    value.storage = program.storages.size();
    program.storages.emplace_back().info = value.info;
  } else if (!program.storages[value.storage].name.empty()) {
    isResult = false;
  }
  if (isResult) {
    // Members stand for the tuple that they are taken from.
    if (value.member)
      llvm::erase_if(program.launches[value.producer].operands,
                     [&](const LaunchOperand &other) {
                       return other.role == KernelParameter::Output &&
                              !other.member && other.isResult;
                     });
    LaunchOperand &operand =
        program.launches[value.producer].operands.emplace_back();
    operand.name = value.name;
    operand.storage = value.storage;
    operand.info = value.info;
    operand.role = KernelParameter::Output;
    operand.member = value.member;
    operand.isResult = true;
  }
  Storage &storage = program.storages[value.storage];
  if (storage.name.empty())
    storage.name = value.name;
}

bool Interpreter::assign(const Expr &target, Value value, Frame &frame) {
  switch (target.kind) {
  case Expr::Name: {
    nameTensor(value, target.text);
    frame.values[target.text] = std::move(value);
    return true;
  }
  case Expr::Tuple:
  case Expr::List: {
    bool known = true;
    if (value.kind == Value::List) {
      for (auto [i, item] : enumerate(target.items))
        known &= assign(
            *item, i < value.items.size() ? value.items[i] : Value(), frame);
      return known;
    }
    for (auto [i, item] : enumerate(target.items)) {
      Value member;
      if (value.kind == Value::Tensor) {
        member.kind = Value::Tensor;
        member.producer = value.producer;
        member.member = i;
      }
      known &= assign(*item, std::move(member), frame);
    }
    return known;
  }
  case Expr::Subscript: {
    if (target.items[0]->kind != Expr::Name)
      return false;
    auto it = frame.values.find(target.items[0]->text);
    std::optional<int64_t> at = target.items[1]->intValue();
    if (it == frame.values.end() || it->second.kind != Value::List || !at ||
        *at < 0 || static_cast<size_t>(*at) >= it->second.items.size())
      return false;
    it->second.weight += value.weight;
    if (it->second.weight > maxListWeight)
      return false;
    if (value.kind == Value::Tensor && value.name.empty())
      nameTensor(value, target.source);
    it->second.items[*at] = std::move(value);
    return true;
  }
  case Expr::Attribute:
    return true;
  default:
    return false;
  }
}

void Interpreter::readCallComments(const Stmt &stmt, Frame &frame) {
  for (const CommentLine &comment : stmt.leading) {
    StringRef text = comment.text;
    if (text.contains("Source Nodes: [")) {
      if (auto names = bracketAfter(text, "Source Nodes:"))
        frame.pending.sourceNodes = readNameList(*names);
      if (auto names = bracketAfter(text, "Original ATen:"))
        frame.pending.originalAten = readNameList(*names);
    } else if (size_t at = text.find("[Provenance debug handles]");
               at != StringRef::npos) {
      SmallVector<StringRef> parts;
      text.drop_front(at + 26).split(parts, ',');
      for (StringRef part : parts) {
        auto [kernel, handle] = part.trim().rsplit(':');
        int64_t number;
        if (!handle.getAsInteger(10, number))
          frame.pending.handles.push_back({kernel.str(), number});
      }
    }
  }
}

bool Interpreter::runStatement(const Stmt &stmt, Frame &frame) {
  readCallComments(stmt, frame);
  bool known = true;
  switch (stmt.kind) {
  case Stmt::Assign: {
    if (!stmt.value)
      return true;
    // args unpacked: the function's inputs.
    if (stmt.value->isName("args")) {
      auto it = frame.values.find("args");
      bool isEntry = it == frame.values.end();
      const Expr &target = *stmt.targets[0];
      ArrayRef<const Expr *> names =
          target.kind == Expr::Tuple || target.kind == Expr::List
              ? target.items
              : stmt.targets;
      if (isEntry) {
        for (const Expr *name : names) {
          if (name->kind != Expr::Name)
            continue;
          program.inputs.push_back(name->text.str());
          Value value;
          auto info = inputInfo.find(name->text);
          value =
              newTensor(info == inputInfo.end() ? TensorInfo() : info->second);
          program.storages[value.storage].isInput = true;
          assign(*name, std::move(value), frame);
        }
        return true;
      }
      Value list = it->second;
      if (list.kind == Value::List && names.size() == list.items.size()) {
        for (auto [name, item] : zip(names, list.items))
          assign(*name, item, frame);
        return true;
      }
      for (const Expr *name : names)
        assign(*name, newTensor({}), frame);
      return true;
    }
    Value value = evaluate(*stmt.value, frame, known);
    for (const Expr *target : stmt.targets)
      known &= assign(*target, value, frame);
    return known;
  }
  case Stmt::ExprStmt:
    evaluate(*stmt.value, frame, known);
    return known;
  case Stmt::Return: {
    if (!stmt.value) {
      frame.result = Value();
      return true;
    }
    Value value = evaluate(*stmt.value, frame, known);
    if (!frame.result)
      frame.result = std::move(value);
    return known;
  }
  case Stmt::With:
    for (const Expr *context : stmt.targets) {
      StringRef text = context->source;
      if (context->kind == Expr::Call)
        text = context->items[0]->source;
      if (!text.contains("DeviceGuard") && !text.contains("record_function") &&
          !text.contains("stream") && !text.contains("nvtx") &&
          !text.contains("profile"))
        known = false;
    }
    runBlock(stmt.body, frame);
    return known;
  case Stmt::If: {
    evaluate(*stmt.value, frame, known);
    bool outer = frame.conditional;
    frame.conditional = true;
    runBlock(stmt.body, frame);
    runBlock(stmt.orelse, frame);
    frame.conditional = outer;
    return known;
  }
  case Stmt::For:
  case Stmt::While: {
    bool outer = frame.inLoop;
    if (stmt.kind == Stmt::For) {
      evaluate(*stmt.value, frame, known);
      for (const Expr *target : stmt.targets)
        assign(*target, Value(), frame);
    }
    frame.inLoop = true;
    if (stmt.kind == Stmt::While)
      evaluate(*stmt.value, frame, known);
    runBlock(stmt.body, frame);
    frame.inLoop = outer;
    runBlock(stmt.orelse, frame);
    return known;
  }
  case Stmt::Function:
    functions[stmt.name] = &stmt;
    return true;
  case Stmt::Assert:
    evaluate(*stmt.value, frame, known);
    return known;
  case Stmt::Delete:
  case Stmt::Import:
  case Stmt::Pass:
    return true;
  case Stmt::Class:
    return false;
  case Stmt::Text:
    runBlock(stmt.body, frame);
    return false;
  }
  llvm_unreachable("every kind of statement is handled");
}

void Interpreter::runBlock(ArrayRef<const Stmt *> body, Frame &frame) {
  for (const Stmt *stmt : body) {
    spend(1);
    if (exhausted)
      return;
    if (runStatement(*stmt, frame))
      understood.try_emplace(stmt, true);
    else
      keep(*stmt);
  }
}

void Interpreter::runFunction(const Stmt &function, Frame &frame) {
  active.push_back(&function);
  runBlock(function.body, frame);
  active.pop_back();
}

void Interpreter::readModule() {
  for (const Stmt *stmt : tree.statements())
    readModuleStatement(*stmt);
}

Expected<WrapperProgram> Interpreter::run() {
  Expected<SyntaxTree> parsed = parsePython(source, fileName);
  if (!parsed)
    return parsed.takeError();
  tree = std::move(*parsed);
  program.fileName = fileName.str();
  readModule();
  if (!entry)
    return createStringError(
        fileName +
        ": holds no function `call`: this is not the wrapper that Inductor "
        "writes. Expected output_code.py of a debug folder, or a module of "
        "Inductor's cache");
  Frame frame;
  frame.function = "call";
  runFunction(*entry, frame);
  if (frame.result)
    keepAlive(*frame.result);
  if (exhausted)
    return createStringError(
        fileName + ": following its calls gives more than " +
        Twine(maxLaunches) + " launches or " + Twine(maxWork) +
        " steps: the file is not one compiled graph");
  // Functions that nothing calls (another device's path) are read for the
  // count alone.
  for (const auto &function : functions)
    countBoilerplate(function.second->body);

  for (const auto &[stmt, known] : understood) {
    ++program.statements.total;
    ++(known ? program.statements.understood : program.statements.keptAsText);
  }
  for (WrapperLaunch &launch : program.launches)
    for (LaunchOperand &operand : launch.operands)
      if (operand.storage >= 0) {
        // Under another name the input was given up before: its memory is
        // used again, and nobody sees what is written.
        Storage &storage = program.storages[operand.storage];
        if (operand.role & KernelParameter::Output && !operand.isResult &&
            operand.name == storage.name)
          storage.isMutated = true;
        const TensorInfo &info = program.storages[operand.storage].info;
        if (!operand.info.shapeKnown) {
          operand.info.shape = info.shape;
          operand.info.stride = info.stride;
          operand.info.shapeKnown = info.shapeKnown;
        }
        if (operand.info.dtype.empty())
          operand.info.dtype = info.dtype;
        if (operand.info.device.empty())
          operand.info.device = info.device;
      }
  return std::move(program);
}

Expected<WrapperProgram> opprof::inductor::readWrapper(StringRef source,
                                                       StringRef fileName) {
  return Interpreter(source, fileName).run();
}
