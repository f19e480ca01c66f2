// Bounds of MLIR that may come from anyone.
//
// Text is scanned once, before MLIR's parser sees it, by the few rules of its
// lexer that say how deep the parser goes. Bytecode nests without a sign of it,
// but its reader doesn't recurse: it is read, and then measured, without a
// recursion, before the verifier or the printer walk it.

#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Support/ForeignDiagnostics.h"
#include "opprof/Support/ReadingLimits.h"
#include "opprof/Support/TerminalText.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <algorithm>

using namespace mlir;
using llvm::Error;
using llvm::Twine;

/// The sum, or the most that can be told.
static uint64_t add(uint64_t a, uint64_t b) {
  return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t maxWords(uint64_t bytes) {
  return opprof::kMaxMLIRWords + opprof::kMaxMLIRWordsPerByte * bytes;
}

static std::string tellDepth(unsigned depth) {
  return ("it nests deeper than " + Twine(depth)).str();
}

static std::string tellWords(uint64_t words) {
  return ("its attributes stand for more than " + Twine(words) +
          " words: they hold one another over and over")
      .str();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
class TextScanner {
public:
  explicit TextScanner(llvm::MemoryBufferRef file)
      : name(file.getBufferIdentifier()), text(file.getBuffer()) {}

  Error run();

private:
  /// What a name stands for: its words, and how deep they nest.
  struct Alias {
    uint64_t words = 1;
    unsigned depth = 0;
  };
  struct Level {
    char closing;
    /// MLIR's parser of expressions goes a level down for each.
    unsigned operators = 0;
  };

  Error fail(const Twine &what) const {
    unsigned line = 1 + text.take_front(position).count('\n');
    return llvm::createStringError(name + ":" + Twine(line) + ": " + what);
  }
  void skipString();
  Error readWord();
  Error readName(char sigil);
  Error readBracket(char c);
  Error readOperator(char c);
  Error countOperator();
  Error noteDepth(unsigned inner);
  void endOperand() {
    depth -= levels.back().operators;
    levels.back().operators = 0;
  }
  void beginDefinition(StringRef alias);
  void endDefinition();

  StringRef name;
  StringRef text;
  size_t position = 0;
  llvm::SmallVector<Level> levels = {{'\0'}};
  /// Of the place that is read: brackets, and operators in front of it.
  unsigned depth = 0;
  llvm::StringMap<Alias> aliases;
  /// The name that is being defined, as its line began, or empty.
  std::string defined;
  Alias definition;
  uint64_t words = 0;
};
} // namespace

void TextScanner::skipString() {
  for (++position; position < text.size() && text[position] != '"'; ++position)
    if (text[position] == '\\')
      ++position;
  ++position;
}

Error TextScanner::noteDepth(unsigned inner) {
  unsigned total = depth + inner;
  definition.depth = std::max(definition.depth, total);
  if (total > opprof::kMaxMLIRAliasDepth)
    return fail(tellDepth(opprof::kMaxMLIRAliasDepth));
  return Error::success();
}

void TextScanner::endDefinition() {
  if (!defined.empty())
    aliases.try_emplace(defined, definition);
  defined.clear();
}

/// A definition ends where the next one begins, at the latest.
void TextScanner::beginDefinition(StringRef alias) {
  endDefinition();
  defined = alias.str();
  definition = {};
}

/// #name or !name: a use, or what a line of a definition begins with.
Error TextScanner::readName(char sigil) {
  size_t begin = position++;
  while (position < text.size() &&
         (llvm::isAlnum(text[position]) || text[position] == '_' ||
          text[position] == '$' || text[position] == '.'))
    ++position;
  StringRef alias = text.slice(begin, position);
  StringRef rest = text.drop_front(position).ltrim();
  if (levels.size() == 1 && rest.starts_with("=") && !rest.starts_with("==")) {
    beginDefinition(alias);
    // What a printer never spells out counts as one word for who uses it.
    if (rest.drop_front().ltrim().starts_with("loc"))
      definition.words = 0;
    return Error::success();
  }
  Alias use;
  if (auto found = aliases.find(alias); found != aliases.end())
    use = found->second;
  definition.words = add(definition.words, use.words);
  words = add(words, use.words);
  if (words > maxWords(text.size()))
    return fail(tellWords(maxWords(text.size())));
  return noteDepth(use.depth);
}

Error TextScanner::countOperator() {
  ++levels.back().operators;
  if (++depth > opprof::kMaxMLIRDepth)
    return fail(tellDepth(opprof::kMaxMLIRDepth));
  return Error::success();
}

Error TextScanner::readWord() {
  size_t begin = position;
  while (position < text.size() &&
         (llvm::isAlnum(text[position]) || text[position] == '_' ||
          text[position] == '$' || text[position] == '.'))
    ++position;
  StringRef word = text.slice(begin, position);
  definition.words = add(definition.words, 1);
  if (llvm::isDigit(word.front()) && word.size() > opprof::kMaxMLIRDigits)
    return fail("a number of more than " + Twine(opprof::kMaxMLIRDigits) +
                " digits");
  if (word == "mod" || word == "floordiv" || word == "ceildiv")
    return countOperator();
  return Error::success();
}

Error TextScanner::readBracket(char c) {
  ++position;
  if (c == '(' || c == '[' || c == '{' || c == '<') {
    levels.push_back({c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '>'});
    if (++depth > opprof::kMaxMLIRDepth)
      return fail(tellDepth(opprof::kMaxMLIRDepth));
    return noteDepth(0);
  }
  // The parser stops at a bracket that closes nothing.
  if (levels.back().closing != c)
    return Error::success();
  depth -= levels.back().operators + 1;
  levels.pop_back();
  return Error::success();
}

Error TextScanner::readOperator(char c) {
  StringRef rest = text.drop_front(position);
  for (StringRef token : {"->", ">=", "<=", "=="})
    if (rest.starts_with(token)) {
      position += token.size();
      return Error::success();
    }
  if (c == '<' || c == '>')
    return readBracket(c);
  ++position;
  if (c == '+' || c == '-' || c == '*')
    return countOperator();
  endOperand();
  return Error::success();
}

Error TextScanner::run() {
  while (position < text.size()) {
    char c = text[position];
    Error error = Error::success();
    if (c == '"')
      skipString();
    else if (c == '/' && text.drop_front(position).starts_with("//"))
      position = std::min(text.find('\n', position), text.size());
    else if (StringRef("([{)]}").contains(c))
      error = readBracket(c);
    else if (StringRef("+-*<>=,:").contains(c))
      error = readOperator(c);
    else if ((c == '#' || c == '!') && position + 1 < text.size() &&
             llvm::isAlpha(text[position + 1]))
      error = readName(c);
    else if (llvm::isAlnum(c) || c == '_')
      error = readWord();
    else
      ++position;
    if (error)
      return error;
  }
  return Error::success();
}

Error opprof::checkMLIRText(llvm::MemoryBufferRef file) {
  limitReading(file.getBufferIdentifier(), file.getBufferSize(), kPlainBudget);
  return TextScanner(file).run();
}

//===----------------------------------------------------------------------===//
// What was read
//===----------------------------------------------------------------------===//

namespace {
/// Measures a module that neither was verified nor may be walked recursively.
class ModuleMeter {
public:
  /// Null where it is within bounds, or what it exceeds.
  std::optional<std::string> measure(Operation *root, uint64_t bytes);

private:
  struct Size {
    uint64_t words = 1;
    unsigned depth = 0;
    bool isKnown = false;
  };

  void measure(Attribute attribute) { measure(attribute.getAsOpaquePointer()); }
  void measure(const void *root, bool isType = false);
  template <typename Each>
  static void forParts(const void *of, bool isType, Each each);

  llvm::DenseMap<const void *, Size> sizes;
  uint64_t words = 0;
  unsigned depth = 0;
};
} // namespace

/// Calls `each` for the attributes and types that one holds.
template <typename Each>
void ModuleMeter::forParts(const void *of, bool isType, Each each) {
  auto ofAttribute = [&](Attribute part) {
    if (part)
      each(part.getAsOpaquePointer(), false, isa<LocationAttr>(part));
  };
  auto ofType = [&](Type part) {
    if (part)
      each(part.getAsOpaquePointer(), true, false);
  };
  if (isType)
    Type::getFromOpaquePointer(of).walkImmediateSubElements(ofAttribute,
                                                            ofType);
  else
    Attribute::getFromOpaquePointer(of).walkImmediateSubElements(ofAttribute,
                                                                 ofType);
}

void ModuleMeter::measure(const void *root, bool isType) {
  if (!root)
    return;
  SmallVector<std::pair<const void *, bool>> pending = {{root, isType}};
  while (!pending.empty()) {
    auto [each, eachIsType] = pending.back();
    if (sizes.lookup(each).isKnown) {
      pending.pop_back();
      continue;
    }
    Size size;
    bool isComplete = true;
    forParts(each, eachIsType,
             [&](const void *part, bool partIsType, bool isLocation) {
               Size inner = sizes.lookup(part);
               if (!inner.isKnown) {
                 // A recursive type finds itself: it has no size then.
                 auto [found, isNew] = sizes.try_emplace(part);
                 if (isNew) {
                   pending.emplace_back(part, partIsType);
                   isComplete = false;
                 }
               }
               // Printers give locations names.
               size.words = add(size.words, isLocation ? 1 : inner.words);
               size.depth = std::max(size.depth, inner.depth + 1);
             });
    if (!isComplete)
      continue;
    size.isKnown = true;
    sizes[each] = size;
    pending.pop_back();
  }
  Size size = sizes.lookup(root);
  words = add(words, size.words);
  depth = std::max(depth, size.depth);
}

std::optional<std::string> ModuleMeter::measure(Operation *root,
                                                uint64_t bytes) {
  SmallVector<std::pair<Operation *, unsigned>> pending = {{root, 1}};
  while (!pending.empty()) {
    auto [operation, level] = pending.pop_back_val();
    if (level > opprof::kMaxMLIRDepth)
      return tellDepth(opprof::kMaxMLIRDepth);
    measure(operation->getRawDictionaryAttrs());
    measure(operation->getPropertiesAsAttribute());
    measure(Attribute(operation->getLoc()));
    for (Type type : operation->getResultTypes())
      measure(type.getAsOpaquePointer(), /*isType=*/true);
    for (Region &region : operation->getRegions())
      for (Block &block : region) {
        for (BlockArgument argument : block.getArguments())
          measure(argument.getType().getAsOpaquePointer(), /*isType=*/true);
        for (Operation &inner : block)
          pending.emplace_back(&inner, level + 1);
      }
    if (depth > opprof::kMaxMLIRAliasDepth)
      return tellDepth(opprof::kMaxMLIRAliasDepth);
    if (words > maxWords(bytes))
      return tellWords(maxWords(bytes));
  }
  return std::nullopt;
}

/// Reports what is wrong with the file, without a part of it in the message.
static LogicalResult refuse(MLIRContext *context, const Twine &what) {
  return emitError(UnknownLoc::get(context)) << what.str();
}

OwningOpRef<ModuleOp>
opprof::parseForeignMLIR(llvm::SourceMgr &sources, MLIRContext *context,
                         FallbackAsmResourceMap *resources) {
  llvm::MemoryBufferRef file =
      *sources.getMemoryBuffer(sources.getMainFileID());
  if (!isBytecode(file)) {
    if (Error error = checkMLIRText(file)) {
      (void)refuse(context, llvm::toString(std::move(error)));
      return nullptr;
    }
    return parseSourceFile<ModuleOp>(
        sources, ParserConfig(context, /*verifyAfterParse=*/true, resources));
  }
  limitReading(file.getBufferIdentifier(), file.getBufferSize(), kPlainBudget);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(
      sources, ParserConfig(context, /*verifyAfterParse=*/false, resources));
  if (!module)
    return nullptr;
  if (std::optional<std::string> fault =
          ModuleMeter().measure(*module, file.getBufferSize())) {
    // Taking it down would recurse as deeply as it nests.
    (void)module.release();
    (void)refuse(context, file.getBufferIdentifier() + ": " + *fault);
    return nullptr;
  }
  if (failed(verify(*module)))
    return nullptr;
  return module;
}

LogicalResult opprof::checkForeignMLIR(llvm::MemoryBufferRef file,
                                       const DialectRegistry &registry) {
  if (!isBytecode(file)) {
    Error error = checkMLIRText(file);
    if (!error)
      return success();
    llvm::errs() << "error: "
                 << toTerminalLines(llvm::toString(std::move(error))) << '\n';
    return failure();
  }
  MLIRContext context(registry);
  context.allowUnregisteredDialects();
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBuffer(file, /*RequiresNullTerminator=*/false),
      llvm::SMLoc());
  // What is no more than wrong is told by who reads it again.
  std::optional<std::string> refusal;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (isa<UnknownLoc>(diagnostic.getLocation()))
      refusal = diagnostic.str();
    return success();
  });
  if (parseForeignMLIR(sources, &context) || !refusal)
    return success();
  llvm::errs() << "error: " << toTerminalLines(*refusal) << '\n';
  return failure();
}

void opprof::registerTranslationFromMLIR(
    StringRef name, StringRef description,
    const std::function<LogicalResult(ModuleOp, raw_ostream &)> &translate,
    const DialectRegistrationFunction &dialects) {
  TranslateRegistration registration(
      name, description,
      [translate, dialects](const std::shared_ptr<llvm::SourceMgr> &sources,
                            raw_ostream &os, MLIRContext *context) {
        ForeignDiagnostics diagnostics(*sources, context);
        DialectRegistry registry;
        dialects(registry);
        context->appendDialectRegistry(registry);
        OwningOpRef<ModuleOp> module = parseForeignMLIR(*sources, context);
        return module ? translate(*module, os) : failure();
      });
}
