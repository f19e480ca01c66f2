// JSON of other tools that people have beside a trace, told by its keys.

#ifndef OPPROF_SUPPORT_OTHERDOCUMENTS_H
#define OPPROF_SUPPORT_OTHERDOCUMENTS_H

#include "llvm/ADT/StringRef.h"

namespace opprof {

/// What a document is that has `key` at its top and is neither a trace nor a
/// profile; empty where the key does not tell.
llvm::StringRef nameOtherDocument(llvm::StringRef key);

} // namespace opprof

#endif // OPPROF_SUPPORT_OTHERDOCUMENTS_H
