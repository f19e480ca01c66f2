// What a profile says of a program. Works out from a profile where the time
// went and what that means. A finding carries the numbers that prove it;
// docs/findings.md states every rule.

#ifndef OPPROF_FINDINGS_FINDINGS_H
#define OPPROF_FINDINGS_FINDINGS_H

#include "opprof/Profile/Profile.h"

namespace opprof {

/// Replaces `profile.findings`, and sets the metrics of nodes that follow from
/// the model of FLOPs and bytes. Only steady kernels count.
void computeFindings(profile::Profile &profile);

/// Replaces those that follow from what devices can do at most, which has
/// become known since the others were computed. Of what these rest on, a file
/// does not have everything.
void renewCeilingFindings(profile::Profile &profile);

} // namespace opprof

#endif // OPPROF_FINDINGS_FINDINGS_H
