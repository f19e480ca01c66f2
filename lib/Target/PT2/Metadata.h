// Where nodes come from, as archives say it.

#ifndef OPPROF_LIB_TARGET_PT2_METADATA_H
#define OPPROF_LIB_TARGET_PT2_METADATA_H

#include "ArchiveJSON.h"

#include "opprof/Dialect/FX/IR/Provenance.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace opprof::fx::pt2 {

class MetadataReader {
public:
  explicit MetadataReader(mlir::MLIRContext *context) : builder(context) {}

  /// What the metadata of a node says of its origin; what is not as it should
  /// be is left out.
  NodeOrigin read(const json &node);

private:
  mlir::ArrayAttr readFromNode(llvm::StringRef text);
  mlir::DictionaryAttr readStep(const json &step);

  mlir::Builder builder;
  /// What graphs are called that nodes came from, by PyTorch's number.
  llvm::StringMap<std::string> sourceGraphs;
  llvm::StringMap<StackOrigin> stacks;
};

} // namespace opprof::fx::pt2

#endif // OPPROF_LIB_TARGET_PT2_METADATA_H
