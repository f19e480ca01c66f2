// What holds of every profile. Whatever a trace says, the profile made of it
// keeps every event, and what is written of it is read back with the same sums.

#ifndef OPPROF_UNITTESTS_FUZZ_PROFILECHECKS_H
#define OPPROF_UNITTESTS_FUZZ_PROFILECHECKS_H

#include "Fuzzing.h"

#include "opprof/Findings/Findings.h"
#include "opprof/Join/Attribution.h"
#include "opprof/Profile/ProfileJSON.h"

namespace opprof::profile {

/// Computes findings, writes the profile and reads it back.
inline void checkRoundTrip(Profile &profile) {
  computeFindings(profile);
  std::string text;
  llvm::raw_string_ostream os(text);
  writeProfile(profile, os);
  llvm::Expected<std::unique_ptr<Profile>> read = readProfile(text, "written");
  if (!read) {
    llvm::errs() << toString(read.takeError()) << '\n';
    std::abort();
  }
  require((*read)->kernels.size() == profile.kernels.size());
  require((*read)->summary.kernelTimeNs == profile.summary.kernelTimeNs);
  require((*read)->summary.busyNs == profile.summary.busyNs);
  require((*read)->summary.attributedNs == profile.summary.attributedNs);
  require((*read)->stepCounters.has_value() ==
          profile.stepCounters.has_value());
}

inline std::unique_ptr<Profile>
checkProfile(const trace::Trace &trace, const join::AttributionInputs &inputs) {
  std::unique_ptr<Profile> profile = join::attribute(trace, inputs);
  if (!trace.activities.empty())
    require(profile->kernels.size() + profile->copies.size() ==
            trace.activities.size());
  checkRoundTrip(*profile);
  return profile;
}

} // namespace opprof::profile

#endif // OPPROF_UNITTESTS_FUZZ_PROFILECHECKS_H
