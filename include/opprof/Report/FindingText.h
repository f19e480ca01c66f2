// Findings in words. Puts what rules found into sentences: the one place with
// the prose of findings.

#ifndef OPPROF_REPORT_FINDINGTEXT_H
#define OPPROF_REPORT_FINDINGTEXT_H

#include "opprof/Profile/Profile.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace opprof::report {

/// What the host did, short enough for a sentence: of a function of Python the
/// end, where its line and name are.
std::string shortHost(llvm::StringRef host);

/// Writes the text of findings that have none: those that were computed. The
/// text of one that was read from a file stays, also where this version does
/// not know its kind.
void describeFindings(profile::Profile &profile);

} // namespace opprof::report

#endif // OPPROF_REPORT_FINDINGTEXT_H
