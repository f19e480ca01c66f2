// Defaults that opprof's tools share.

#ifndef OPPROF_SUPPORT_TOOLOPTIONS_H
#define OPPROF_SUPPORT_TOOLOPTIONS_H

#include "mlir/Pass/PassRegistry.h"

namespace opprof {

/// Makes the tools print locations unless told otherwise: node names, modules
/// and source lines live there. Call after MLIR's printer options are
/// registered and before the command line is parsed.
void printLocationsByDefault();

/// Registers a pass so that its option `option` may be written without its
/// name:
/// --attach-profile=FILE is --attach-profile=path=FILE. For passes of one
/// option.
void registerPassWithValue(const mlir::PassAllocatorFunction &create,
                           llvm::StringRef option);

} // namespace opprof

#endif // OPPROF_SUPPORT_TOOLOPTIONS_H
