// --emit-rewrite: prints one rewrite script as the Python definitions of an
// emitted backend: pattern and replacement as functions, the conditions that
// the matcher checks, and the strategies.

#include "opprof/Analysis/Structure/PatternConditions.h"
#include "opprof/Dialect/Dialects.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Target/Python/PythonEmitter.h"
#include "opprof/Target/TransformScript/TransformScript.h"

#include "mlir/Dialect/Transform/IR/TransformOps.h"
#include "mlir/Dialect/Transform/Transforms/TransformInterpreterUtils.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace opprof::fx;

/// What a condition expects, as the backend's checks take it.
static void printExpected(Attribute expected, llvm::raw_ostream &os) {
  if (auto list = dyn_cast<ArrayAttr>(expected)) {
    os << "(";
    llvm::interleaveComma(
        list, os, [&](Attribute element) { printExpected(element, os); });
    os << (list.size() == 1 ? ",)" : ")");
  } else if (auto flag = dyn_cast<BoolAttr>(expected)) {
    os << (flag.getValue() ? "True" : "False");
  } else if (auto number = dyn_cast<IntegerAttr>(expected)) {
    os << number.getInt();
  } else if (auto number = dyn_cast<FloatAttr>(expected)) {
    os << getPythonFloat(number.getValueAsDouble());
  } else if (auto symbol = dyn_cast<SymAttr>(expected)) {
    os << getPythonString(symbol.getValue());
  } else if (auto text = dyn_cast<StringAttr>(expected)) {
    os << getPythonString(text);
  } else if (auto type = dyn_cast<TypeAttr>(expected)) {
    os << "torch." << getDTypeName(type.getValue());
  } else {
    os << "None";
  }
}

/// The conditions of one value, those below `depth` elements of its list, as
/// TensorSpec(…) or a tuple of them.
static LogicalResult printSpec(ArrayRef<Condition> conditions, unsigned depth,
                               Value value, llvm::raw_ostream &os) {
  unsigned numElements = 0;
  for (const Condition &condition : conditions)
    if (condition.path.size() > depth)
      numElements = std::max(numElements, condition.path[depth] + 1);
  if (numElements) {
    os << "(";
    for (unsigned i = 0; i < numElements; ++i) {
      SmallVector<Condition> inner;
      llvm::copy_if(conditions, std::back_inserter(inner),
                    [&](const Condition &condition) {
                      return condition.path[depth] == i;
                    });
      if (failed(printSpec(inner, depth + 1, value, os)))
        return failure();
      os << (i + 1 < numElements ? ", " : numElements == 1 ? ",)" : ")");
    }
    return success();
  }
  os << "TensorSpec(";
  for (auto [index, condition] : llvm::enumerate(conditions)) {
    auto type = dyn_cast<TypeAttr>(condition.expected);
    if (condition.kind == ConditionKind::Type ||
        (type && getDTypeName(type.getValue()).empty()))
      return emitError(value.getLoc())
             << "a pattern's values have to be tensors to be checked in "
                "Python, and this is "
             << value.getType();
    os << (index ? ", " : "") << stringifyConditionKind(condition.kind) << "=";
    // A unit in the place of all strides stands for contiguous ones.
    if (isa<UnitAttr>(condition.expected))
      os << "\"contiguous\"";
    else
      printExpected(condition.expected, os);
  }
  os << ")";
  return success();
}

static LogicalResult printConditions(GraphOp pattern,
                                     const PatternConditions &conditions,
                                     llvm::raw_ostream &os) {
  SmallVector<Value> values(pattern.getArguments());
  for (NodeOp node : pattern.getBlock().getOps<NodeOp>())
    values.push_back(node.getResult());
  os << "        values=(\n";
  for (auto [value, ofValue] : llvm::zip_equal(values, conditions.ofValues)) {
    os << "            ";
    if (failed(printSpec(ofValue, 0, value, os)))
      return failure();
    os << ",\n";
  }
  os << "        ),\n        place=(\n";
  for (const Condition &condition : conditions.ofPlace) {
    os << "            (\"" << stringifyConditionKind(condition.kind) << "\", ";
    if (condition.kind == ConditionKind::ViewsWork) {
      os << "(" << condition.result << ", ";
      printExpected(condition.expected, os);
      os << ")";
    } else {
      printExpected(condition.expected, os);
    }
    os << "),\n";
  }
  os << "        ),\n";
  return success();
}

/// `text` as Python comments, line by line.
static void printPythonComment(StringRef original, llvm::raw_ostream &os) {
  // A line break in the text is one more space between words.
  std::string text = original.str();
  for (char c : {'\n', '\r', '\t'})
    llvm::replace(text, c, ' ');
  text = getPythonComment(text);
  SmallVector<StringRef> words;
  StringRef(text).split(words, ' ', -1, false);
  std::string line = "#";
  for (StringRef word : words) {
    if (line.size() + 1 + word.size() > 100) {
      os << line << "\n";
      line = "#";
    }
    line += " " + word.str();
  }
  if (line != "#")
    os << line << "\n";
}

static LogicalResult printReplacement(transform::ReplaceSubgraphOp replace,
                                      StringRef name, unsigned index,
                                      std::string &entries,
                                      llvm::raw_ostream &os) {
  auto pattern = lookupGraph(replace, replace.getPatternAttr());
  auto replacement = lookupGraph(replace, replace.getReplacementAttr());
  FailureOr<SubgraphMatcher> matcher =
      SubgraphMatcher::get(pattern, replacement);
  if (failed(matcher))
    return failure();
  std::string base = getPythonIdentifier(name);
  if (index)
    base += "_" + llvm::utostr(index);
  std::string patternName = base + "_pattern";
  std::string replacementName = base + "_replacement";
  PythonFunctionOptions options;
  options.unwrapSingleOutput = true;
  options.isOfRewrite = true;
  options.name = patternName;
  if (failed(printPythonFunction(pattern, os, options)))
    return failure();
  os << "\n\n";
  options.name = replacementName;
  if (failed(printPythonFunction(replacement, os, options)))
    return failure();
  os << "\n\n";

  llvm::raw_string_ostream entry(entries);
  entry << "    Rewrite(\n        name=" << getPythonString(name)
        << ",\n        pattern=" << patternName
        << ",\n        replacement=" << replacementName << ",\n";
  if (failed(printConditions(pattern, matcher->getConditions(), entry)))
    return failure();
  entry << "    ),\n";
  return success();
}

/// Prints what a strategy is set to.
static void printStrategy(Attribute value, llvm::raw_ostream &os) {
  if (auto precision = dyn_cast<StringAttr>(value)) {
    os << "torch." << precision.getValue();
  } else if (auto regions = dyn_cast<DictionaryAttr>(value)) {
    os << "(\n";
    for (NamedAttribute region : regions)
      os << "    (" << getPythonString(region.getName()) << ", "
         << getPythonString(cast<StringAttr>(region.getValue())) << "),\n";
    os << ")";
  } else {
    os << "True";
  }
}

LogicalResult opprof::fx::emitRewrite(ModuleOp module, llvm::raw_ostream &os,
                                      StringRef name) {
  transform::TransformOpInterface entry =
      transform::detail::findTransformEntryPoint(module, ModuleOp());
  if (!entry)
    return failure();
  auto head = module->getAttrOfType<DictionaryAttr>(kRewriteAttr);
  auto getText = [&](StringRef key) {
    auto text = head ? head.getAs<StringAttr>(key) : nullptr;
    return text ? text.getValue() : StringRef();
  };
  if (name.empty())
    name = getText("name");
  if (name.empty())
    name = "rewrite";
  std::string text, entries, strategies;
  llvm::raw_string_ostream body(text);
  printPythonComment(getText("title"), body);
  if (!getText("title").empty() && !getText("explanation").empty())
    body << "#\n";
  printPythonComment(getText("explanation"), body);
  body << "\n\n";
  unsigned index = 0;
  for (Operation &op : entry->getRegion(0).front()) {
    if (auto replace = dyn_cast<transform::ReplaceSubgraphOp>(op)) {
      if (failed(printReplacement(replace, name, index++, entries, body)))
        return failure();
    } else if (auto region = dyn_cast<transform::RegionStrategyOp>(op)) {
      for (NamedAttribute strategy : region.getStrategies()) {
        llvm::raw_string_ostream printed(strategies);
        if (!strategies.empty())
          printed << ", ";
        printed << strategy.getName().getValue() << "=";
        printStrategy(strategy.getValue(), printed);
      }
    } else if (!isa<transform::YieldOp>(op)) {
      return op.emitOpError()
             << "has no form in a backend: only transform.fx.replace_subgraph "
                "and transform.fx.region_strategy can be emitted";
    }
  }
  if (!entries.empty())
    body << "REWRITES += (\n" << entries << ")\n";
  if (!strategies.empty())
    body << "STRATEGY = replace(STRATEGY, " << strategies << ")\n";
  os << body.str();
  return success();
}

void opprof::fx::registerEmitRewriteTranslation() {
  static llvm::cl::opt<std::string> name(
      "rewrite-name",
      llvm::cl::desc("What --emit-rewrite calls the rewrite, for several of "
                     "one name in one backend"));
  registerTranslationFromMLIR(
      "emit-rewrite",
      "Print a rewrite script as the Python definitions of a backend",
      [](ModuleOp module, llvm::raw_ostream &os) {
        return emitRewrite(module, os, name);
      },
      registerDialects);
}
