// The fx dialect: registration, aliases for printing, and inlining.

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/TypeAliases.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace opprof::fx;

#include "opprof/Dialect/FX/IR/FXDialect.cpp.inc"

// The printer asks a dialect for aliases without saying what is printed.
static thread_local bool aliasesTensorTypes = false;

ScopedTypeAliases::ScopedTypeAliases() : previous(aliasesTensorTypes) {
  aliasesTensorTypes = true;
}

ScopedTypeAliases::~ScopedTypeAliases() { aliasesTensorTypes = previous; }

namespace {
/// Gives tensor encodings the short name of their device, or whole tensor types
/// short names of their own.
struct FXAsmInterface : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute, raw_ostream &os) const final {
    auto info = dyn_cast<TensorInfoAttr>(attribute);
    if (!info || aliasesTensorTypes)
      return AliasResult::NoAlias;
    StringRef device = info.getDevice().split(':').first;
    os << (device.empty() ? "tensor" : device);
    return AliasResult::FinalAlias;
  }

  AliasResult getAlias(Type type, raw_ostream &os) const final {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!aliasesTensorTypes || !tensor || !tensor.getEncoding())
      return AliasResult::NoAlias;
    os << 't';
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
