// The prof dialect: registration, what its verifiers hold operations to, and
// reading what a profile left.

#include "opprof/Dialect/Prof/IR/Prof.h"

#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::prof;

FailureOr<Confidence> opprof::prof::parseConfidence(AsmParser &parser) {
  llvm::SMLoc place = parser.getCurrentLocation();
  StringRef word;
  if (failed(parser.parseKeyword(&word)))
    return failure();
  std::optional<Confidence> confidence = opprof::parseConfidence(word);
  if (!confidence || *confidence == Confidence::Unattributed) {
    parser.emitError(place) << "expected high, medium or low";
    return failure();
  }
  return *confidence;
}

#include "opprof/Dialect/Prof/IR/ProfDialect.cpp.inc"
#include "opprof/Dialect/Prof/IR/ProfEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "opprof/Dialect/Prof/IR/ProfAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "opprof/Dialect/Prof/IR/ProfOps.cpp.inc"

namespace {
struct ProfInlinerInterface : public DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void ProfDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "opprof/Dialect/Prof/IR/ProfAttrs.cpp.inc"
      >();
}

void ProfDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "opprof/Dialect/Prof/IR/ProfOps.cpp.inc"
      >();
  registerAttributes();
  addInterfaces<ProfInlinerInterface>();
}

/// True where the ranges opened by `Open` from `op` on, in the direction of
/// `next`, come to be closed by `Close`.
template <typename Open, typename Close>
static bool isBalanced(Operation *op, Operation *(Operation::*next)()) {
  unsigned depth = 0;
  for (; op; op = (op->*next)()) {
    if (isa<Open>(op))
      ++depth;
    else if (isa<Close>(op) && --depth == 0)
      return true;
  }
  return false;
}

LogicalResult RangePushOp::verify() {
  if (isBalanced<RangePushOp, RangePopOp>(*this, &Operation::getNextNode))
    return success();
  return emitOpError() << "opens the range '" << getLabel()
                       << "', which its block does not close";
}

LogicalResult RangePopOp::verify() {
  if (isBalanced<RangePopOp, RangePushOp>(*this, &Operation::getPrevNode))
    return success();
  return emitOpError() << "closes a range that its block does not open";
}

LogicalResult TimeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t ns, int64_t kernels,
                               std::optional<int64_t> steps, Share,
                               Confidence) {
  if (ns < 0 || kernels < 0)
    return emitError() << "a time of " << ns << " ns of " << kernels
                       << " kernels is negative";
  if (steps && *steps < 1)
    return emitError() << "a time is of at least one step; leave out `steps` "
                          "where the recording has none";
  return success();
}

LogicalResult CountersAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   DictionaryAttr values, SymbolRefAttr from,
                                   DictionaryAttr absent) {
  for (NamedAttribute value : values)
    if (auto number = dyn_cast<FloatAttr>(value.getValue());
        !number || !number.getType().isF64())
      return emitError() << "the counter " << value.getName() << " is "
                         << value.getValue() << "; expected an f64";
  if (from && from.getNestedReferences().size() != 1)
    return emitError() << "counters are inferred from a node, @graph::@node, "
                          "not from "
                       << from;
  if (absent)
    for (NamedAttribute reason : absent)
      if (!isa<StringAttr>(reason.getValue()))
        return emitError() << "why the counter " << reason.getName()
                           << " is absent must be said in words";
  return success();
}

std::optional<double> CountersAttr::lookup(StringRef name) const {
  if (auto value = getValues().getAs<FloatAttr>(name))
    return value.getValueAsDouble();
  return std::nullopt;
}

LogicalResult SummaryAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  int64_t kernels, int64_t kernelNs,
                                  std::optional<int64_t> steps,
                                  std::optional<int64_t> wallNs,
                                  std::optional<int64_t> busyNs, StringAttr) {
  if (kernels < 0 || kernelNs < 0 || wallNs.value_or(0) < 0 ||
      busyNs.value_or(0) < 0)
    return emitError() << "a summary's numbers must not be negative";
  if (steps && *steps < 1)
    return emitError() << "a summary is of at least one step; leave out "
                          "`steps` where the recording has none";
  return success();
}

LogicalResult ProfDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  auto expect = [&](bool hasType, StringRef form, bool hasPlace,
                    StringRef places) -> LogicalResult {
    if (!hasType)
      return op->emitOpError() << "has '" << name << "' "
                               << attribute.getValue() << "; expected " << form;
    if (!hasPlace)
      return op->emitOpError()
             << "cannot have '" << name << "', which belongs on " << places;
    return success();
  };
  Attribute value = attribute.getValue();
  bool isTimed = isa<inductor::LaunchOp, InstanceOp>(op) || fx::isNode(op) ||
                 fx::isCall(op);
  constexpr StringLiteral kTimed =
      "an fx.node, fx.call, inductor.launch or prof.instance";
  if (name == kTimeAttr)
    return expect(isa<TimeAttr>(value), "#prof.time", isTimed, kTimed);
  if (name == kCountersAttr)
    return expect(isa<CountersAttr>(value), "#prof.counters", isTimed, kTimed);
  if (name == kSummaryAttr)
    return expect(isa<SummaryAttr>(value), "#prof.summary", isa<ModuleOp>(op),
                  "a module");
  if (name == kPartitionAttr)
    return expect(isa<PartitionAttr>(value), "#prof.partition", fx::isCall(op),
                  "an fx.call");
  if (name == kAttachedAttr)
    return expect(isa<UnitAttr>(value), "no value", true, "");
  return op->emitOpError() << "has '" << name
                           << "', which the prof dialect does not know";
}

LogicalResult FindingOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return fx::verifyNodeRefs(*this, getNodes(), symbolTable);
}

LogicalResult InstanceOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return fx::verifyNodeRefs(*this, getNodes(), symbolTable);
}

LogicalResult ClassOp::verifyRegions() {
  size_t numNodes = 0;
  for (Operation &op : getBody().front()) {
    auto instance = dyn_cast<InstanceOp>(op);
    if (!instance)
      return op.emitOpError() << "does not belong in a prof.class";
    if (&op == &getBody().front().front())
      numNodes = instance.getNodes().size();
    else if (instance.getNodes().size() != numNodes)
      return instance.emitOpError()
             << "has " << instance.getNodes().size()
             << " nodes, but the class's first instance has " << numNodes;
  }
  return success();
}

TimeAttr opprof::prof::getTimeAttr(Operation *op) {
  return op->getAttrOfType<TimeAttr>(ProfDialect::kTimeAttr);
}

std::optional<double> opprof::prof::getTime(Operation *op) {
  if (TimeAttr time = getTimeAttr(op))
    return time.getNsPerStep();
  return std::nullopt;
}

CountersAttr opprof::prof::getCounters(Operation *op) {
  return op->getAttrOfType<CountersAttr>(ProfDialect::kCountersAttr);
}

std::optional<double> opprof::prof::getCounter(Operation *op, StringRef name) {
  if (CountersAttr counters = getCounters(op))
    return counters.lookup(name);
  return std::nullopt;
}

SummaryAttr opprof::prof::getSummary(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto summary =
            op->getAttrOfType<SummaryAttr>(ProfDialect::kSummaryAttr))
      return summary;
  return {};
}
