// Findings in words. Puts what rules found into sentences: the one place with
// the prose of findings.

#ifndef OPPROF_REPORT_FINDINGTEXT_H
#define OPPROF_REPORT_FINDINGTEXT_H

#include "opprof/Profile/Profile.h"

namespace opprof::report {

/// Writes the text of findings that have none: those that were computed. The
/// text of one that was read from a file stays, also where this version does
/// not know its kind.
void describeFindings(profile::Profile &profile);

} // namespace opprof::report

#endif // OPPROF_REPORT_FINDINGTEXT_H
