// What each kind of finding means, how it is computed, what to do about it, and
// when it would not be true: the one place with these words.

#ifndef OPPROF_REPORT_FINDINGEXPLANATION_H
#define OPPROF_REPORT_FINDINGEXPLANATION_H

#include "opprof/Report/Report.h"

#include "llvm/Support/Error.h"

namespace opprof::report {

/// Explains the finding of this id, with what `profile`, which may be null, has
/// of it. "all" prints every kind as a page of Markdown, docs/reference's. An
/// unknown id is an error that names the known ones.
llvm::Error explainFinding(llvm::StringRef id, const profile::Profile *profile,
                           llvm::raw_ostream &os,
                           const TextOptions &options = {});

/// What to do about the finding: a rewrite that opprof offers, a change of the
/// program, at its line where that is known, or nothing. Empty of a finding
/// that this version does not know.
std::string adviseOn(const profile::Finding &finding,
                     const profile::Profile &profile);

} // namespace opprof::report

#endif // OPPROF_REPORT_FINDINGEXPLANATION_H
