// --emit-rewrite: prints one rewrite script as the Python definitions of an
// emitted backend: pattern and replacement as functions, what matched tensors
// have to be, and the strategies.

#include "opprof/Dialect/Dialects.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Target/Python/PythonEmitter.h"
#include "opprof/Target/TransformScript/TransformScript.h"

#include "mlir/Dialect/Transform/IR/TransformOps.h"
#include "mlir/Dialect/Transform/Transforms/TransformInterpreterUtils.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace opprof::fx;

/// Numbers of a shape as a Python tuple; what is open becomes None.
template <typename Range>
static void printSizes(const Range &sizes, llvm::raw_ostream &os) {
  os << "(";
  llvm::interleaveComma(sizes, os, [&](std::optional<int64_t> size) {
    if (size)
      os << *size;
    else
      os << "None";
  });
  os << (sizes.size() == 1 ? ",)" : ")");
}

/// TensorSpec(…) of `type`, which stands at `place`.
static LogicalResult printTensorSpec(Type type, Location place,
                                     llvm::raw_ostream &os) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto info =
      tensor ? dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding()) : nullptr;
  StringRef dtype = tensor ? getDTypeName(tensor.getElementType()) : "";
  if (!info || dtype.empty())
    return emitError(place)
           << "a pattern's inputs and results have to be ranked tensors on a "
              "device to be checked in Python, and this is "
           << type;
  SmallVector<std::optional<int64_t>> shape, strides;
  for (int64_t size : tensor.getShape())
    shape.push_back(ShapedType::isDynamic(size) ? std::nullopt
                                                : std::optional(size));
  if (auto known = TensorInfoAttr::getStaticStrides(tensor))
    llvm::append_range(strides, *known);
  else
    strides.assign(shape.size(), std::nullopt);
  os << "TensorSpec(torch." << dtype << ", ";
  printSizes(shape, os);
  os << ", ";
  printSizes(strides, os);
  os << ", " << getPythonString(info.getDevice().split(':').first) << ")";
  return success();
}

template <typename Range>
static LogicalResult printSpecs(StringRef field, const Range &types,
                                Location place, llvm::raw_ostream &os) {
  os << "        " << field << "=(\n";
  for (Type type : types) {
    os << "            ";
    if (failed(printTensorSpec(type, place, os)))
      return failure();
    os << ",\n";
  }
  os << "        ),\n";
  return success();
}

/// The lines of `text` as Python comments.
static void printComment(StringRef text, llvm::raw_ostream &os) {
  SmallVector<StringRef> words;
  text.split(words, ' ', -1, false);
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
  auto pattern = SymbolTable::lookupNearestSymbolFrom<GraphOp>(
      replace, replace.getPatternAttr());
  auto replacement = SymbolTable::lookupNearestSymbolFrom<GraphOp>(
      replace, replace.getReplacementAttr());
  std::string base = getPythonIdentifier(name);
  if (index)
    base += "_" + llvm::utostr(index);
  std::string patternName = base + "_pattern";
  std::string replacementName = base + "_replacement";
  PythonFunctionOptions options;
  options.unwrapSingleOutput = true;
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
  if (failed(printSpecs("inputs", pattern.getArgumentTypes(), pattern.getLoc(),
                        entry)) ||
      failed(printSpecs("results", pattern.getResultTypes(), pattern.getLoc(),
                        entry)))
    return failure();
  entry << "    ),\n";
  return success();
}

static llvm::cl::opt<std::string> emittedName(
    "rewrite-name",
    llvm::cl::desc("What --emit-rewrite calls the rewrite, for several of "
                   "one name in one backend"));

/// Prints the functions of `module`, then `REWRITES += (…)` and `STRATEGY =
/// replace(STRATEGY, …)` for what its sequence does.
static LogicalResult emitRewrite(ModuleOp module, llvm::raw_ostream &os) {
  transform::TransformOpInterface entry =
      transform::detail::findTransformEntryPoint(module, ModuleOp());
  if (!entry)
    return failure();
  auto head = module->getAttrOfType<DictionaryAttr>(kRewriteAttr);
  auto getText = [&](StringRef key) {
    auto text = head ? head.getAs<StringAttr>(key) : nullptr;
    return text ? text.getValue() : StringRef();
  };
  StringRef name =
      emittedName.empty() ? getText("name") : StringRef(emittedName);
  if (name.empty())
    name = "rewrite";
  std::string text, entries, strategies;
  llvm::raw_string_ostream body(text);
  printComment(getText("title"), body);
  if (!getText("title").empty() && !getText("explanation").empty())
    body << "#\n";
  printComment(getText("explanation"), body);
  body << "\n\n";
  unsigned index = 0;
  for (Operation &op : entry->getRegion(0).front()) {
    if (auto replace = dyn_cast<transform::ReplaceSubgraphOp>(op)) {
      if (failed(printReplacement(replace, name, index++, entries, body)))
        return failure();
    } else if (auto region = dyn_cast<transform::RegionStrategyOp>(op)) {
      for (NamedAttribute strategy : region.getStrategies()) {
        if (!strategies.empty())
          strategies += ", ";
        strategies += strategy.getName().str() + "=";
        if (auto precision = dyn_cast<StringAttr>(strategy.getValue()))
          strategies += "torch." + precision.str();
        else
          strategies += "True";
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
  static TranslateFromMLIRRegistration registration(
      "emit-rewrite",
      "Print a rewrite script as the Python definitions of a backend",
      [](ModuleOp module, llvm::raw_ostream &os) {
        return emitRewrite(module, os);
      },
      registerDialects);
}
