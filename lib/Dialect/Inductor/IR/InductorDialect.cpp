// The inductor dialect: registration, and what its verifiers hold programs to.

#include "opprof/Dialect/Inductor/IR/Inductor.h"

#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Support/Confidence.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::inductor;

#include "opprof/Dialect/Inductor/IR/InductorDialect.cpp.inc"

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
                               SymbolRefAttr node, ArrayAttr evidence,
                               StringAttr confidence, bool, bool, bool,
                               ArrayAttr from, DenseI64ArrayAttr idle,
                               StringAttr fromConfidence, IntegerAttr,
                               StringAttr, StringAttr) {
  if (node.getNestedReferences().size() != 1)
    return emitError() << "a node is named as @graph::@node, not as " << node;
  if (evidence)
    for (Attribute record : evidence) {
      auto text = dyn_cast<StringAttr>(record);
      if (!text || !llvm::StringSwitch<bool>(text.getValue())
                        .Cases({"provenance", "fragment", "source_nodes"}, true)
                        .Cases({"target", "dataflow"}, true)
                        .Default(false))
        return emitError() << "the evidence for node " << node << " holds "
                           << record
                           << ", which is no record that the reader knows";
    }
  for (StringAttr word : {confidence, fromConfidence})
    if (word && !parseConfidence(word.getValue()))
      return emitError() << word << " is no confidence of node " << node
                         << "; expected \"high\", \"medium\", \"low\" or "
                            "\"unattributed\"";
  if (idle && llvm::any_of(idle.asArrayRef(), [&](int64_t place) {
        return !from || place < 0 || place >= static_cast<int64_t>(from.size());
      }))
    return emitError() << "node " << node
                       << " names an idle origin that it does not have";
  if (from)
    for (Attribute origin : from)
      if (!isa<SymbolRefAttr>(origin))
        return emitError() << "what node " << node << " was made from is "
                           << origin << "; expected @graph::@node";
  return success();
}

LogicalResult
AlignmentInfoAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          StringRef method, FlatSymbolRefAttr, uint64_t aligned,
                          uint64_t total, std::optional<uint64_t> proven) {
  if (method != "recorded" && method != "structure")
    return emitError() << "'" << method
                       << "' is no method of alignment; expected 'recorded' "
                          "or 'structure'";
  if (aligned > total)
    return emitError() << "more nodes are aligned (" << aligned
                       << ") than there are (" << total << ")";
  if (proven && *proven > aligned)
    return emitError() << "more nodes are certain (" << *proven
                       << ") than are aligned (" << aligned << ")";
  return success();
}

LogicalResult ProgramOp::verify() {
  if (getUnderstood().has_value() != getTotal().has_value())
    return emitOpError() << "says only half of how many statements of how many "
                            "were understood";
  if (getTotal() && (*getUnderstood() > *getTotal() ||
                     static_cast<int64_t>(*getUnderstood()) < 0))
    return emitOpError() << "understands " << *getUnderstood() << " of "
                         << *getTotal() << " statements";
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  SmallVector<FlatSymbolRefAttr> graphs = {getGraphAttr()};
  if (getAlignmentAttr())
    graphs.push_back(getAlignmentAttr().getGraph());
  for (FlatSymbolRefAttr graph : graphs)
    if (!fx::isGraphOrExternal(
            symbolTable.lookupNearestSymbolFrom(*this, graph)))
      return emitOpError() << "names the graph " << graph
                           << ", which is neither an fx.graph nor an "
                              "fx.external of the module";
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  std::optional<uint64_t> last;
  for (Operation &op : getBody().front()) {
    if (!isa<LaunchOp, NotLaunchedOp>(op))
      return op.emitOpError() << "does not belong in an inductor.program";
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch)
      continue;
    if (last && launch.getIndex() <= *last)
      return launch.emitOpError() << "has index " << launch.getIndex()
                                  << " but comes after launch " << *last;
    last = launch.getIndex();
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
  SmallVector<Attribute> named;
  for (auto node : getNodes().getAsRange<NodeAttr>()) {
    named.push_back(node.getNode());
    if (node.getFrom())
      llvm::append_range(named, node.getFrom());
  }
  if (getListed())
    llvm::append_range(named, *getListed());
  return fx::verifyNodeRefs(*this, ArrayAttr::get(getContext(), named),
                            symbolTable);
}

LogicalResult
NotLaunchedOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  return fx::verifyNodeRefs(*this, ArrayAttr::get(getContext(), {getNode()}),
                            symbolTable);
}
