// Steps of a program that marks none.

#ifndef OPPROF_LIB_JOIN_RECURRINGSTEPS_H
#define OPPROF_LIB_JOIN_RECURRINGSTEPS_H

#include "HostTimeline.h"

#include "opprof/Profile/Profile.h"

#include <optional>

namespace opprof::join {

/// A part of a sequence that is one piece over and over: it begins at `begin`,
/// is `length` long, and its piece `period`.
struct Recurrence {
  uint32_t begin = 0;
  uint32_t length = 0;
  uint32_t period = 0;
};

/// The longest recurrence of `sequence` with at least three pieces, the
/// shortest piece where several are as long. Takes O(n log² n) time.
std::optional<Recurrence> findRecurrence(llvm::ArrayRef<uint32_t> sequence);

/// Fills in steps from the optimizer's, or else from operators that recur: a
/// step lasts from the end of the one before. Steps that begin the program and
/// take longer than the others are set apart as warm-up, and so are those that
/// run other operators besides.
void findRecurringSteps(const trace::Trace &trace, const HostTimeline &host,
                        profile::Profile &profile);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_RECURRINGSTEPS_H
