// What is known of a run: a profile's numbers.

#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Rewrite/Recommend.h"

using namespace opprof;
using namespace opprof::rewrite;
using llvm::StringRef;

llvm::Error opprof::rewrite::readEvidence(StringRef text, StringRef name,
                                          Evidence &evidence) {
  llvm::Expected<std::unique_ptr<profile::Profile>> read =
      profile::readProfile(text, name);
  if (!read)
    return llvm::createStringError(llvm::toString(read.takeError()) +
                                   "; give a profile.opprof.json that opprof "
                                   "profile wrote");
  const profile::Summary &summary = (*read)->summary;
  double steps = std::max<uint64_t>(summary.steps.value_or(1), 1);
  auto perStep = [&](std::optional<int64_t> total) {
    return total ? std::optional<double>(*total / steps) : std::nullopt;
  };
  evidence.wallNs = perStep(summary.wallNs);
  evidence.busyNs = perStep(summary.busyNs);
  evidence.kernelNs = summary.kernelTimeNs / steps;
  evidence.kernels = summary.kernels / steps;
  for (const profile::Node &node : (*read)->nodes)
    evidence.nodeNs[node.name] = node.kernelTimeNs / steps;
  return llvm::Error::success();
}
