// --insert-nvtx-markers: NVTX ranges around partitions.

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/Prof/Transforms/Passes.h"

#include "mlir/IR/Builders.h"

namespace opprof::prof {
#define GEN_PASS_DEF_INSERTNVTXMARKERSPASS
#include "opprof/Dialect/Prof/Transforms/Passes.h.inc"
} // namespace opprof::prof

using namespace mlir;
using namespace opprof;
using namespace opprof::prof;

namespace {
struct InsertNVTXMarkersPass
    : public opprof::prof::impl::InsertNVTXMarkersPassBase<
          InsertNVTXMarkersPass> {
  using Base::Base;

  void runOnOperation() override {
    // Calls are collected first: the walk must not see what it inserts.
    SmallVector<fx::CallOp> calls;
    getOperation().walk([&](fx::CallOp call) { calls.push_back(call); });
    for (fx::CallOp call : calls) {
      auto partition =
          call->getAttrOfType<PartitionAttr>(ProfDialect::kPartitionAttr);
      if (!partition)
        continue;
      std::string label = ("layer::" + stringifyRole(partition.getRole()) +
                           "::" + partition.getLabel())
                              .str();
      auto before = dyn_cast_or_null<RangePushOp>(call->getPrevNode());
      if (before && before.getLabel() == label)
        continue;
      OpBuilder builder(call);
      RangePushOp::create(builder, call.getLoc(), label);
      builder.setInsertionPointAfter(call);
      RangePopOp::create(builder, call.getLoc());
      ++numRanges;
    }
  }
};
} // namespace
