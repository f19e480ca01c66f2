// Text of files, which may hold anything, on its way to a terminal.

#ifndef OPPROF_SUPPORT_TERMINALTEXT_H
#define OPPROF_SUPPORT_TERMINALTEXT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace opprof {

/// The text with a blank for each character that commands a terminal: controls,
/// escapes, marks that turn the direction of writing; and '?' for bytes that
/// are no text.
std::string toTerminalText(llvm::StringRef text);

/// The same of a message of several lines, each no longer than a screen shows.
std::string toTerminalLines(llvm::StringRef message);

} // namespace opprof

#endif // OPPROF_SUPPORT_TERMINALTEXT_H
