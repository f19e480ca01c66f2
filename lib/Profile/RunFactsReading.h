// What run.json and profiles say alike. The facts of a run that have the same
// names in run.json and in the `run` of profile.opprof.json, where they stand
// in different objects.

#ifndef OPPROF_LIB_PROFILE_RUNFACTSREADING_H
#define OPPROF_LIB_PROFILE_RUNFACTSREADING_H

#include "opprof/Profile/Profile.h"
#include "opprof/Support/JSONReading.h"

namespace opprof::profile {

/// What ran, how, and how it ended.
llvm::Error readProgramFacts(JSONReading &reader, simdjson::dom::object from,
                             RunFacts &facts);
/// What was compiled.
llvm::Error readCompilations(JSONReading &reader, simdjson::dom::object from,
                             RunFacts &facts);
/// How counters were taken, but for which were asked for.
llvm::Error readCounterFacts(JSONReading &reader, simdjson::dom::object from,
                             RunFacts &facts);
llvm::Error readMemoryFacts(JSONReading &reader, simdjson::dom::object from,
                            RunFacts &facts);

} // namespace opprof::profile

#endif // OPPROF_LIB_PROFILE_RUNFACTSREADING_H
