// Layouts of tensors that a library changes before and after its convolutions.

#include "FindingBuilder.h"

#include "opprof/Metrics/KernelFamilies.h"

using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

void findings::addLayoutConversions(Context &context) {
  evidence::LayoutConversions found;
  const Activity *longest = nullptr;
  std::vector<const Activity *> conversions;
  for (const Activity *kernel : context.kernels) {
    if (!metrics::isLayoutConversion(kernel->name))
      continue;
    conversions.push_back(kernel);
    found.timeNs += kernel->durationNs;
    if (!longest || kernel->durationNs > longest->durationNs)
      longest = kernel;
  }
  if (!longest)
    return;
  found.kernels = conversions.size();
  found.sharePct = percentOf(found.timeNs, context.kernelTimeNs);
  found.longest = context.placeOf(*longest);
  int64_t cost = context.perStep(found.timeNs);
  Finding &finding = context.add(std::move(found));
  finding.severityNsPerStep = cost;
  for (const Activity *kernel : conversions)
    addNodes(finding, kernel->origin->nodes);
}
