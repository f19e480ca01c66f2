// What the counters of its kernels say of a node.

#include "NodeMetrics.h"

#include "opprof/Metrics/Catalogue.h"

#include <cmath>
#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;

void opprof::join::addNodeMetrics(Profile &profile,
                                  function_ref<void(Node &)> infer) {
  for (Node &node : profile.nodes) {
    std::vector<const Activity *> kernels;
    std::set<std::optional<uint32_t>> steps;
    size_t counted = 0;
    bool elsewhere = false;
    for (uint32_t id : node.kernels) {
      const Activity &kernel = profile.kernels[id];
      if (kernel.phase != Phase::Steady)
        continue;
      kernels.push_back(&kernel);
      steps.insert(kernel.step);
      counted += kernel.counters.has_value();
      elsewhere |= !kernel.origin->countersFrom.empty();
    }
    if (!counted)
      continue;
    if (counted < kernels.size()) {
      node.metricsAbsent["counters"] =
          std::to_string(kernels.size() - counted) + " of its " +
          std::to_string(kernels.size()) + " kernels were not counted";
      continue;
    }
    std::set<std::string> names;
    for (const Activity *kernel : kernels)
      for (const auto &[name, value] :
           profile.counters[*kernel->counters].values)
        names.insert(name);
    for (const std::string &name : names) {
      metrics::Sum sum = metrics::sumOf(name);
      double total = 0, weight = 0, largest = 0;
      size_t having = 0;
      for (const Activity *kernel : kernels) {
        const auto &values = profile.counters[*kernel->counters].values;
        auto it = values.find(name);
        if (it == values.end())
          continue;
        double time = double(kernel->durationNs);
        largest = having ? std::max(largest, it->second) : it->second;
        total += sum == metrics::Sum::Amount ? it->second : time * it->second;
        weight += time;
        ++having;
      }
      switch (sum) {
      case metrics::Sum::Amount:
        // A sum that leaves kernels out would be a wrong one.
        if (having < kernels.size())
          node.metricsAbsent[name] = "not all of its kernels have it";
        else if (!std::isfinite(total))
          node.metricsAbsent[name] = "its sum is more than a number can be";
        else
          node.metrics[name] = total / double(steps.size());
        break;
      case metrics::Sum::Limit:
        node.metrics[name] = largest;
        break;
      case metrics::Sum::Rate:
        if (weight > 0 && std::isfinite(total))
          node.metrics[name] = total / weight;
        break;
      }
    }
    infer(node);
    if (elsewhere && !node.inferredFrom)
      node.inferredFrom = {.node = node.id, .launch = ""};
  }
}
