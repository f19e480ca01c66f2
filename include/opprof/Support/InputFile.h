// Opens files to read, which may be no files: a device gives no end, and a pipe
// may have nobody who writes into it.

#ifndef OPPROF_SUPPORT_INPUTFILE_H
#define OPPROF_SUPPORT_INPUTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorOr.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdint>
#include <memory>
#include <string>

namespace opprof {

/// As much is read of a pipe; what is larger is given as a file.
inline constexpr uint64_t kMaxPiped = uint64_t(1) << 30;
/// So long a pipe of a name is waited for that nobody has opened to write;
/// after a second a line on stderr says so.
inline constexpr unsigned kWriterSeconds = 600;

/// The content of a file, or of a pipe; "-" is stdin. Refused are folders,
/// devices and sockets, which hold nothing that has an end.
llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>>
openInput(llvm::StringRef path);

/// The same, and what was wrong as a message that names the file.
std::unique_ptr<llvm::MemoryBuffer> openInput(llvm::StringRef path,
                                              std::string *message);

/// What keeps `path` from being read as a file or a pipe; none where nothing
/// does, or where it is not there.
std::error_code checkInput(llvm::StringRef path);

} // namespace opprof

#endif // OPPROF_SUPPORT_INPUTFILE_H
