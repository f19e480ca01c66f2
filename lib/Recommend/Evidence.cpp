// What is known of a run: the table of devices, and a profile's numbers.

#include "opprof/Recommend/Recommend.h"

#include "simdjson.h"
#include "llvm/ADT/Twine.h"

using namespace opprof::recommend;
using llvm::StringRef;

/// Matrix products as vendors state them (dense), memory as measured by copies.
/// Names are matched as parts of what the driver calls the device; the first
/// fitting entry counts.
static const DeviceModel kDevices[] = {
    {"H200", true, 67e12, 790e12, 790e12, 4.0e12, 132, 3000},
    {"H100", true, 67e12, 790e12, 790e12, 2.6e12, 132, 3000},
    {"A100", true, 19.5e12, 250e12, 250e12, 1.4e12, 108, 3500},
    {"L40", true, 90e12, 300e12, 300e12, 0.7e12, 142, 3500},
    {"A10", true, 31e12, 110e12, 110e12, 0.5e12, 72, 3500},
    {"T4", true, 8e12, 50e12, 0, 0.25e12, 40, 4000},
    {"cuda", true, 20e12, 200e12, 200e12, 1.0e12, 100, 3500},
    {"cpu", false, 1.5e11, 0, 3e11, 2e10, 1, 1500},
};

DeviceModel opprof::recommend::getDeviceModel(StringRef name) {
  for (const DeviceModel &device : kDevices)
    if (name.contains_insensitive(device.name))
      return device;
  bool isGPU = name.contains_insensitive("nvidia") || name.contains("GPU");
  return getDeviceModel(isGPU ? "cuda" : "cpu");
}

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
