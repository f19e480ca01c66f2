// Kernels as a wrapper defines them. Their comments, and what their sources say
// of what they read and write.

#include "KernelDefinitions.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

//===----------------------------------------------------------------------===//
// Comments
//===----------------------------------------------------------------------===//

std::vector<std::string> opprof::inductor::readNameList(StringRef text) {
  std::vector<std::string> out;
  SmallVector<StringRef> parts;
  text.trim().split(parts, ',');
  for (StringRef part : parts)
    if (StringRef name = part.trim(); !name.empty())
      out.push_back(name.str());
  return out;
}

std::optional<StringRef> opprof::inductor::bracketAfter(StringRef text,
                                                        StringRef key) {
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

LaunchCategory opprof::inductor::categoryOfName(StringRef name,
                                                LaunchCategory otherwise) {
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

/// What the decorator of a Triton kernel's source says of it.
static void readHeuristic(StringRef body, KernelDefinition &kernel) {
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
}

namespace {
/// Parameters of a Triton kernel that its text stores to and loads from.
struct PointerUses {
  explicit PointerUses(StringRef body);

  StringSet<> stored, loaded;
};
} // namespace

PointerUses::PointerUses(StringRef body) {
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
}

static void readTritonSource(StringRef body, KernelDefinition &kernel) {
  readHeuristic(body, kernel);
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
  std::optional<PointerUses> uses;
  if (kernel.kind == LaunchKind::User && mutated.empty())
    uses.emplace(body);
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
      parameter.isMutated = mutated.contains(parameter.name);
      if (parameter.isMutated && parameter.role == KernelParameter::Input)
        parameter.role = KernelParameter::InOut;
      if (uses) {
        bool isStored = uses->stored.contains(parameter.name);
        bool isLoaded = uses->loaded.contains(parameter.name);
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

/// A multi_kernel is defined by the kernels that it chooses from; the first of
/// them speaks for it.
static void readMultiKernel(ArrayRef<const Expr *> args, KernelLookup known,
                            KernelDefinition &kernel) {
  kernel.kind = LaunchKind::MultiKernel;
  kernel.category = LaunchCategory::Reduction;
  for (const Expr *arg : args)
    if (arg->kind == Expr::List)
      for (const Expr *item : arg->items)
        if (item->kind == Expr::Name)
          kernel.alternatives.push_back(item->text.str());
  for (const std::string &name : kernel.alternatives) {
    const KernelDefinition *first = known(name);
    if (!first)
      continue;
    kernel.parameters = first->parameters;
    kernel.hasSignature = first->hasSignature;
    kernel.category = first->category;
    kernel.source = first->source;
    if (kernel.fragment.empty()) {
      kernel.fragment = first->fragment;
      kernel.fragmentReturns = first->fragmentReturns;
      kernel.sourceNodes = first->sourceNodes;
      kernel.sourceToAten = first->sourceToAten;
    }
    return;
  }
}

std::optional<KernelDefinition>
opprof::inductor::readKernelDefinition(const Stmt &stmt, KernelLookup known) {
  if (stmt.kind != Stmt::Assign || stmt.targets.size() != 1 ||
      stmt.targets[0]->kind != Expr::Name || !stmt.value ||
      stmt.value->kind != Expr::Call)
    return std::nullopt;
  StringRef callee = stmt.value->items[0]->source;
  if (!callee.consume_front("async_compile."))
    return std::nullopt;

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

  kernel.source = body;
  if (callee == "triton") {
    readTritonSource(body, kernel);
  } else if (callee.starts_with("cpp")) {
    const Expr *types =
        !args.empty() && args[0]->kind == Expr::List ? args[0] : nullptr;
    readCppSource(types, body, kernel);
  } else if (callee == "multi_kernel") {
    readMultiKernel(args, known, kernel);
  } else {
    bool cute = callee.starts_with("cutedsl") || callee.starts_with("cute");
    kernel.kind = cute ? LaunchKind::CuteDsl : LaunchKind::Cutlass;
    kernel.category = LaunchCategory::Template;
  }
  return kernel;
}
