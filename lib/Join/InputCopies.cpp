// Copies into the inputs of CUDA graphs.

#include "InputCopies.h"
#include "opprof/Trace/InputShapes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// The shapes of the tensors that a copying operator writes, "256,512": its
/// first argument, a tensor or a list of them.
static SmallVector<std::string> writtenShapes(const HostTimeline &host,
                                              uint32_t op) {
  std::vector<InputShape> inputs = readInputShapes(host.inputsOf(op).dims);
  bool takesList = host.op(op).name == "aten::_foreach_copy_";
  if (inputs.empty() || inputs.front().isList != takesList)
    return {};
  SmallVector<std::string> shapes;
  for (const launch::Sizes &sizes : inputs.front().tensors)
    shapes.push_back(llvm::join(
        llvm::map_range(sizes, [](int64_t size) { return itostr(size); }),
        ","));
  return shapes;
}

/// The placeholders with exactly these shapes, of all `inputs` of the code;
/// none where there are more of one shape than were written.
static std::vector<NodeId>
findInputs(ArrayRef<std::string> shapes,
           ArrayRef<std::pair<std::string, std::string>> inputs,
           const launch::LaunchMap &launches) {
  std::vector<NodeId> found;
  StringMap<unsigned> written;
  for (StringRef shape : shapes)
    ++written[shape];
  for (const auto &[name, shape] : inputs)
    if (written.contains(shape))
      found.push_back({launches.graph, launches.stage, name});
  if (found.size() != shapes.size())
    found.clear();
  return found;
}

std::vector<InputCopy> opprof::join::findInputCopies(
    const HostTimeline &host, const LaunchIndex &index, const CallJoins &calls,
    const GraphReplays &replays, const StartedBy &operators,
    const WrapperFiles *wrappers, const Profile &profile) {
  std::vector<InputCopy> copies;
  std::map<uint32_t, std::vector<std::pair<std::string, std::string>>> inputs;
  for (bool isKernel : {true, false})
    for (const Activity &activity :
         isKernel ? profile.kernels : profile.copies) {
      uint32_t op =
          (isKernel ? operators.kernels : operators.copies)[activity.id];
      if (activity.launch || activity.cudaGraph || op == kNone)
        continue;
      uint32_t call = host.callOf(op), top = host.topOf(op);
      if (call == kNone || top == kNone || calls.mapOf(call) == kNone ||
          (host.op(top).name != "aten::_foreach_copy_" &&
           host.op(top).name != "aten::copy_"))
        continue;
      std::optional<int64_t> first = replays.firstOf(call);
      if (!first || host.op(top).startNs > *first)
        continue;
      InputCopy &copy = copies.emplace_back();
      copy.isKernel = isKernel;
      copy.id = activity.id;
      uint32_t map = calls.mapOf(call);
      auto [known, isNew] = inputs.try_emplace(map);
      if (isNew && wrappers)
        known->second = wrappers->inputsOf(map);
      copy.inputs = findInputs(writtenShapes(host, top), known->second,
                               index.getMaps()[map]);
      copy.explanation = "copies inputs of " + index.getMaps()[map].graph +
                         " to where its CUDA graph reads them";
      copy.explanation +=
          copy.inputs.empty()
              ? "; which inputs, their shapes do not say"
              : "; by their shapes, which no other input of the code has";
    }
  return copies;
}
