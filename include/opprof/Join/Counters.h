//===- Counters.h - Hardware counters of a run ------------------*- C++ -*-===//
//
// Reads counters.json, which a capture leaves, and puts its values on the
// kernels and nodes of a profile.
//
//===----------------------------------------------------------------------===//

#ifndef OPPROF_JOIN_COUNTERS_H
#define OPPROF_JOIN_COUNTERS_H

#include "opprof/Join/Attribution.h"
#include "opprof/Trace/Trace.h"

#include "llvm/Support/Error.h"

namespace opprof::profile {

/// A launch of the step whose kernels were counted.
struct CountedLaunch {
  /// Neither node nor file where it carried no id.
  Identity identity;
  std::string kernel;
  /// Place in CountersFile::rows.
  std::optional<uint32_t> row;
  /// The launch that was counted for this one, as a place in
  /// CountersFile::launches.
  std::optional<uint32_t> countedFor;
};

struct CountersFile {
  std::vector<CountedLaunch> launches;
  std::vector<CounterRow> rows;
  /// By row: in what other circumstances the kernel was counted than those it
  /// runs in; empty where in the same.
  std::vector<std::string> elsewhere;
  std::optional<StepCounters> whole;
  /// Why there are no counters, or not those that were asked for.
  std::vector<std::string> notes;
};

/// Reads the last step of counters.json. `name` stands in errors.
llvm::Expected<CountersFile> readCounters(llvm::StringRef text,
                                          llvm::StringRef name);

/// Gives the profile's kernels the counters of the launch that they are of, and
/// its nodes those of their steady kernels: amounts are summed over a step,
/// limits are the largest, rates are means weighted by time. Those of the whole
/// step are the profile's own. `inputs` are those that the profile was made
/// with.
void attachCounters(Profile &profile, const CountersFile &file,
                    const AttributionInputs &inputs);

} // namespace opprof::profile

#endif // OPPROF_JOIN_COUNTERS_H
