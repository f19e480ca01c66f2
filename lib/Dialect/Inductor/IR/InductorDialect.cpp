// The inductor dialect: registration, and what its verifiers hold programs to.

#include "opprof/Dialect/Inductor/IR/Inductor.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::inductor;

#include "opprof/Dialect/Inductor/IR/InductorDialect.cpp.inc"
#include "opprof/Dialect/Inductor/IR/InductorEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "opprof/Dialect/Inductor/IR/InductorAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "opprof/Dialect/Inductor/IR/InductorOps.cpp.inc"

void InductorDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "opprof/Dialect/Inductor/IR/InductorAttrs.cpp.inc"
      >();
}

void InductorDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "opprof/Dialect/Inductor/IR/InductorOps.cpp.inc"
      >();
  registerAttributes();
}

LogicalResult NodeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               StringRef name, ArrayAttr evidence, bool, bool,
                               bool, StringAttr, ArrayAttr origins, StringAttr,
                               StringAttr) {
  if (name.empty())
    return emitError() << "a node needs a name";
  for (Attribute record : evidence) {
    auto text = dyn_cast<StringAttr>(record);
    if (!text || !llvm::StringSwitch<bool>(text.getValue())
                      .Cases({"provenance", "fragment", "source_nodes"}, true)
                      .Cases({"target", "dataflow"}, true)
                      .Default(false))
      return emitError() << "the evidence for node '" << name << "' holds "
                         << record
                         << ", which is no record that the reader knows";
  }
  if (origins)
    for (Attribute origin : origins) {
      auto parts = dyn_cast<ArrayAttr>(origin);
      if (!parts || parts.size() != 3 ||
          !llvm::all_of(parts,
                        [](Attribute part) { return isa<StringAttr>(part); }))
        return emitError() << "an origin of node '" << name
                           << "' must be [\"graph\", \"stage\", \"name\"]";
    }
  return success();
}

LogicalResult
AlignmentInfoAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          StringRef method, StringRef, StringRef,
                          uint64_t aligned, uint64_t total) {
  if (method != "recorded" && method != "structure")
    return emitError() << "'" << method
                       << "' is no method of alignment; expected 'recorded' "
                          "or 'structure'";
  if (aligned > total)
    return emitError() << "more nodes are aligned (" << aligned
                       << ") than there are (" << total << ")";
  return success();
}

LogicalResult ProgramOp::verify() {
  if (getUnderstood() > getTotal() || static_cast<int64_t>(getUnderstood()) < 0)
    return emitOpError() << "understands " << getUnderstood() << " of "
                         << getTotal() << " statements";
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  uint64_t next = 0;
  for (Operation &op : getBody().front()) {
    if (!isa<KernelOp, LaunchOp, NotLaunchedOp>(op))
      return op.emitOpError() << "does not belong in an inductor.program";
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch)
      continue;
    if (launch.getIndex() != next)
      return launch.emitOpError()
             << "has index " << launch.getIndex() << " but is launch " << next
             << " of the program";
    ++next;
  }
  return success();
}

LogicalResult LaunchOp::verify() {
  auto isNegative = [](std::optional<uint64_t> value) {
    return value && static_cast<int64_t>(*value) < 0;
  };
  if (isNegative(getFlops()) || isNegative(getBytesRead()) ||
      isNegative(getBytesWritten()))
    return emitOpError() << "has negative FLOPs or bytes";
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  if (!symbolTable.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr()))
    return emitOpError() << "calls " << getKernelAttr()
                         << ", which is no kernel of its program";
  return success();
}
