// Scripts whose sizes have names and whose constants are open, for rules that
// hold for every size.

#ifndef OPPROF_LIB_REWRITE_RULES_OPENSCRIPT_H
#define OPPROF_LIB_REWRITE_RULES_OPENSCRIPT_H

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Rewrite/ScriptOffers.h"
#include "opprof/Target/TransformScript/ScriptBuilder.h"

#include "mlir/IR/Builders.h"

namespace opprof::rewrite {

/// What the tensors of a script have in common.
struct TensorKind {
  mlir::Type element;
  llvm::StringRef device;

  bool operator==(const TensorKind &) const = default;
};

/// Makes the graphs of a script for tensors of one kind.
class OpenScript : public fx::ScriptBuilder {
public:
  explicit OpenScript(const TensorKind &kind)
      : ScriptBuilder(kind.element.getContext()), kind(kind),
        context(kind.element.getContext()) {}

  /// A tensor whose sizes have these names, laid out in whatever way.
  mlir::RankedTensorType getType(llvm::ArrayRef<std::string> sizes) const {
    auto dims = llvm::map_to_vector(
        sizes, [&](llvm::StringRef size) -> mlir::Attribute {
          return fx::SymAttr::get(context, size);
        });
    return mlir::RankedTensorType::get(
        llvm::SmallVector<int64_t>(sizes.size(), mlir::ShapedType::kDynamic),
        kind.element,
        fx::TensorInfoAttr::getCanonical(context, kind.device, dims, {}));
  }
  /// One whose sizes are #fx.sym or numbers, laid out in whatever way or, where
  /// `isContiguous`, row by row.
  mlir::RankedTensorType getType(llvm::ArrayRef<mlir::Attribute> dims,
                                 mlir::Type element, bool isContiguous) const {
    auto shape = llvm::map_to_vector(dims, [](mlir::Attribute dim) {
      auto number = mlir::dyn_cast<mlir::IntegerAttr>(dim);
      return number ? number.getInt() : mlir::ShapedType::kDynamic;
    });
    bool isStatic = llvm::all_of(dims, llvm::IsaPred<mlir::IntegerAttr>);
    return mlir::RankedTensorType::get(
        shape, element,
        fx::TensorInfoAttr::get(context, kind.device, {}, !isContiguous,
                                isStatic ? nullptr
                                         : mlir::ArrayAttr::get(context, dims),
                                {}, false, {}, {}));
  }
  /// One of which only the number of dimensions and the element type are known.
  mlir::RankedTensorType getAnyType(unsigned rank, mlir::Type element = {}) {
    return mlir::RankedTensorType::get(
        llvm::SmallVector<int64_t>(rank, mlir::ShapedType::kDynamic),
        element ? element : kind.element);
  }

  mlir::Attribute open(llvm::StringRef name) {
    return fx::AnyAttr::get(context, name);
  }
  mlir::Attribute value() { return fx::ValueAttr::get(context); }
  mlir::Attribute size(llvm::StringRef name) {
    return fx::SymAttr::get(context, name);
  }
  mlir::Attribute list(llvm::ArrayRef<mlir::Attribute> elements) {
    return mlir::ArrayAttr::get(context, elements);
  }
  mlir::Attribute none() { return fx::NoneAttr::get(context); }
  mlir::Attribute number(int64_t number) {
    return getBuilder().getI64IntegerAttr(number);
  }
  mlir::Attribute real(double number) {
    return getBuilder().getF64FloatAttr(number);
  }
  mlir::Attribute flag(bool isOn) { return getBuilder().getBoolAttr(isOn); }

private:
  TensorKind kind;
  mlir::MLIRContext *context;
};

} // namespace opprof::rewrite

#endif // OPPROF_LIB_REWRITE_RULES_OPENSCRIPT_H
