// The hardware counters of a run, as counters.json has them: of the launches of
// a step, one by one, and of the whole step.

#ifndef OPPROF_TRACE_COUNTERS_H
#define OPPROF_TRACE_COUNTERS_H

#include "opprof/Support/JSONReading.h"
#include "opprof/Trace/Trace.h"

#include "llvm/Support/Error.h"

namespace opprof::trace {

/// A launch of the step whose kernels were counted.
struct CountedLaunch {
  /// Neither node nor file where it carried no id.
  Identity identity;
  /// Demangled, as a trace has it.
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
  /// Without sums of kernels.
  std::optional<StepCounters> whole;
  /// Why there are no counters, or not those that were asked for.
  std::vector<std::string> notes;
};

/// Reads the last step of counters.json. `name` stands in errors.
llvm::Expected<CountersFile> readCounters(llvm::StringRef text,
                                          llvm::StringRef name);

/// Reads the identity of a launch as counters.json has it; what is not recorded
/// of it stays empty.
llvm::Error readIdentity(const JSONReading &reading, JSONReading::object from,
                         Identity &identity);

} // namespace opprof::trace

#endif // OPPROF_TRACE_COUNTERS_H
