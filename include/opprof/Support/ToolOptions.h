// Defaults that opprof's tools share.

#ifndef OPPROF_SUPPORT_TOOLOPTIONS_H
#define OPPROF_SUPPORT_TOOLOPTIONS_H

namespace opprof {

/// Makes the tools print locations unless told otherwise: node names, modules
/// and source lines live there. Call after MLIR's printer options are
/// registered and before the command line is parsed.
void printLocationsByDefault();

} // namespace opprof

#endif // OPPROF_SUPPORT_TOOLOPTIONS_H
