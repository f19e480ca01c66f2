// What is known of a run: a profile's numbers.

#include "opprof/Recommend/Recommend.h"

#include "simdjson.h"
#include "llvm/ADT/Twine.h"

using namespace opprof::recommend;
using llvm::StringRef;

llvm::Error opprof::recommend::readEvidence(StringRef text, StringRef name,
                                            Evidence &evidence) {
  auto fail = [&](const llvm::Twine &what) {
    return llvm::createStringError(name + ": " + what +
                                   "; give a profile.opprof.json that opprof "
                                   "profile wrote");
  };
  simdjson::dom::parser parser;
  simdjson::padded_string padded(text.data(), text.size());
  simdjson::dom::object root;
  if (auto error = parser.parse(padded).get(root))
    return fail(simdjson::error_message(error));
  int64_t version;
  if (root["version"].get(version) || version != 1)
    return fail("not a profile of version 1");
  simdjson::dom::object summary;
  if (root["summary"].get(summary))
    return fail("has no summary");
  double steps = 1;
  if (double value; !summary["steps"].get(value) && value > 0)
    steps = value;
  auto perStep = [&](const char *key) -> std::optional<double> {
    double value;
    if (summary[key].get(value))
      return std::nullopt;
    return value / steps;
  };
  evidence.wallNs = perStep("wall_ns");
  evidence.busyNs = perStep("busy_ns");
  evidence.kernelNs = perStep("kernel_time_ns");
  evidence.kernels = perStep("kernels");
  simdjson::dom::array nodes;
  if (!root["nodes"].get(nodes))
    for (simdjson::dom::element node : nodes) {
      std::string_view nodeName;
      double time;
      if (!node["name"].get(nodeName) && !node["kernel_time_ns"].get(time))
        evidence.nodeNs[StringRef(nodeName.data(), nodeName.size())] =
            time / steps;
    }
  return llvm::Error::success();
}
