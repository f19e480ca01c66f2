// Compilations in words. What a report says of functions that were compiled
// several times, and of places where graphs break.

#ifndef OPPROF_REPORT_COMPILATIONTEXT_H
#define OPPROF_REPORT_COMPILATIONTEXT_H

#include "opprof/Profile/Profile.h"

namespace opprof::report {

/// A sentence for each function that was compiled again, and one for the graph
/// breaks; none where there is nothing to say.
std::vector<std::string> describeCompilations(const profile::RunFacts &facts);

} // namespace opprof::report

#endif // OPPROF_REPORT_COMPILATIONTEXT_H
