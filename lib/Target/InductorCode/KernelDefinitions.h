// Kernels as a wrapper defines them. `name = async_compile.triton(…)` with the
// comments above it.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_KERNELDEFINITIONS_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_KERNELDEFINITIONS_H

#include "opprof/Target/InductorCode/PythonParser.h"
#include "opprof/Target/InductorCode/Wrapper.h"

namespace opprof::inductor {

/// "[a, , b]" without its brackets: the names, empty ones left out.
std::vector<std::string> readNameList(llvm::StringRef text);

/// The text between "key: [" and its closing bracket.
std::optional<llvm::StringRef> bracketAfter(llvm::StringRef text,
                                            llvm::StringRef key);

/// What the name that Inductor gives a kernel says of it.
launch::LaunchCategory categoryOfName(llvm::StringRef name,
                                      launch::LaunchCategory otherwise);

/// The kernel of that name that was defined before, or null.
using KernelLookup =
    llvm::function_ref<const KernelDefinition *(llvm::StringRef)>;

/// The kernel that a statement of the module defines, or none where it defines
/// none.
std::optional<KernelDefinition> readKernelDefinition(const Stmt &stmt,
                                                     KernelLookup known);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_KERNELDEFINITIONS_H
