// The prof dialect: registration and the balance of markers.

#include "opprof/Dialect/Prof/IR/Prof.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace opprof::prof;

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
