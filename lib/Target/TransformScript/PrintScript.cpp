// Printing rewrite scripts for people: MLIR's own text with a head that can be
// read, short names for types, and comments.

#include "opprof/Dialect/FX/IR/TypeAliases.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Support/Units.h"
#include "opprof/Target/TransformScript/ScriptBuilder.h"
#include "opprof/Target/TransformScript/TransformScript.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace opprof::fx;

/// `text` as comment lines of at most 80 columns.
static void printComment(StringRef text, llvm::raw_ostream &os) {
  SmallVector<StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  std::string line = "//";
  for (StringRef word : words) {
    if (line.size() + 1 + word.size() > 80) {
      os << line << "\n";
      line = "//";
    }
    line += " " + word.str();
  }
  os << line << "\n";
}

/// The shortest text that is read back as `value`, with the point that MLIR
/// asks for.
static std::string formatNumber(double value) {
  std::string text = opprof::formatShortest(value);
  auto [mantissa, exponent] = StringRef(text).split('e');
  std::string result = mantissa.str();
  if (!mantissa.contains('.'))
    result += ".0";
  if (!exponent.empty())
    result += ("e" + exponent).str();
  return result;
}

/// An entry of the head: plain numbers, and nested lists, such as those of
/// nodes, one a line.
static void printHeadValue(Attribute value, llvm::raw_ostream &os) {
  if (auto integer = dyn_cast<IntegerAttr>(value);
      integer && integer.getType().isInteger(64)) {
    os << integer.getInt();
    return;
  }
  if (auto number = dyn_cast<FloatAttr>(value);
      number && number.getType().isF64() && number.getValue().isFinite()) {
    os << formatNumber(number.getValueAsDouble());
    return;
  }
  auto list = dyn_cast<ArrayAttr>(value);
  if (!list || list.empty() || !isa<ArrayAttr>(list[0])) {
    os << value;
    return;
  }
  os << "[";
  llvm::interleave(
      list, os, [&](Attribute element) { os << element; }, ",\n           ");
  os << "]";
}

/// The head's entries, what a person looks for first, first.
static SmallVector<NamedAttribute> getHeadEntries(DictionaryAttr head) {
  SmallVector<NamedAttribute> entries;
  StringRef first[] = {"name",        "rank",     "finding",       "title",
                       "explanation", "saves_ns", "expected_error"};
  for (StringRef key : first)
    if (std::optional<NamedAttribute> entry = head.getNamed(key))
      entries.push_back(*entry);
  for (NamedAttribute entry : head)
    if (!llvm::is_contained(first, entry.getName().getValue()))
      entries.push_back(entry);
  return entries;
}

/// Attributes of the script's module, the head a line an entry.
static void printModuleLine(ModuleOp script, llvm::raw_ostream &os) {
  os << "module attributes {transform.with_named_sequence";
  if (auto head = script->getAttrOfType<DictionaryAttr>(kRewriteAttr)) {
    os << ", " << kRewriteAttr << " = {";
    llvm::interleave(
        getHeadEntries(head), os,
        [&](NamedAttribute entry) {
          os << "\n  " << entry.getName().getValue() << " = ";
          printHeadValue(entry.getValue(), os);
        },
        ",");
    os << "}";
  }
  os << "} {\n";
}

/// What the sequence does with each graph, as a comment above it.
static llvm::StringMap<StringRef> getRoles(ModuleOp script) {
  llvm::StringMap<StringRef> roles;
  script.walk([&](transform::ReplaceSubgraphOp replace) {
    roles[replace.getPattern()] = "What is there.";
    roles[replace.getReplacement()] = "What takes its place.";
  });
  return roles;
}

void opprof::fx::printRewriteScript(ModuleOp script, llvm::raw_ostream &os) {
  if (auto head = script->getAttrOfType<DictionaryAttr>(kRewriteAttr)) {
    if (auto title = head.getAs<StringAttr>("title"))
      printComment((title.getValue() + ".").str(), os);
    if (auto explanation = head.getAs<StringAttr>("explanation")) {
      os << "//\n";
      printComment(explanation.getValue(), os);
    }
    os << "\n";
  }
  llvm::StringMap<StringRef> roles = getRoles(script);
  OwningOpRef<ModuleOp> bare(cast<ModuleOp>(script->clone()));
  bare->getOperation()->removeAttr(kRewriteAttr);
  std::string text;
  {
    llvm::raw_string_ostream stream(text);
    ScopedTypeAliases aliases;
    OpPrintingFlags flags;
    // The names of values are those of nodes; locations would say them again.
    flags.enableDebugInfo(false).printNameLocAsPrefix();
    bare->print(stream, flags);
  }
  StringRef rest = text;
  bool hasAliases = rest.starts_with("!");
  while (!rest.empty()) {
    auto [line, tail] = rest.split('\n');
    rest = tail;
    // MLIR leaves a blank after an operation without operands.
    line = line.rtrim();
    if (line.starts_with("module attributes {")) {
      os << (hasAliases ? "\n" : "");
      printModuleLine(script, os);
      continue;
    }
    StringRef name = line;
    if (name.consume_front("  fx.graph private @"))
      if (auto role = roles.find(
              name.take_until([](char c) { return c == '(' || c == ' '; }));
          role != roles.end())
        os << "  // " << role->second << "\n";
    os << line << "\n";
    if (line == "  }" && !rest.starts_with("}"))
      os << "\n";
  }
}
