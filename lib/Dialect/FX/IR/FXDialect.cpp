// The fx dialect: registration, aliases for printing, and inlining.

#include "opprof/Dialect/FX/IR/FX.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace opprof::fx;

#include "opprof/Dialect/FX/IR/FXDialect.cpp.inc"

namespace {
/// Gives tensor encodings the short name of their device.
struct FXAsmInterface : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute, raw_ostream &os) const final {
    auto info = dyn_cast<TensorInfoAttr>(attribute);
    if (!info)
      return AliasResult::NoAlias;
    StringRef device = info.getDevice().split(':').first;
    os << (device.empty() ? "tensor" : device);
    return AliasResult::FinalAlias;
  }
};

struct FXInlinerInterface : public DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *call, Operation *callable,
                       bool wouldBeCloned) const final {
    return isa<CallOp>(call);
  }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final {
    return true;
  }
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
  void handleTerminator(Operation *op, ValueRange valuesToReplace) const final {
    for (auto [value, replacement] :
         llvm::zip_equal(valuesToReplace, op->getOperands()))
      value.replaceAllUsesWith(replacement);
  }
};
} // namespace

void FXDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "opprof/Dialect/FX/IR/FXOps.cpp.inc"
      >();
  registerAttributes();
  registerTypes();
  addInterfaces<FXAsmInterface, FXInlinerInterface>();
}
