// What can be said of a TorchScript archive before LibTorch sees it: that it is
// one, that nothing in it unfolds to more than its bounds, and that its pickles
// name nothing but what TorchScript's own do.

#ifndef OPPROF_TORCH_ARCHIVE_H
#define OPPROF_TORCH_ARCHIVE_H

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace opprof::torchscript {

/// An error of the file or the request, worded for the user.
class InputError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Bounds on what an archive may unfold to, in bytes and entries.
struct ArchiveLimits {
  uint64_t maxEntries = 1 << 20;
  /// Of one file of code, of debugging records, or of a pickle.
  uint64_t maxTextSize = 256 << 20;
  /// Of all files of code and pickles together.
  uint64_t maxTotalTextSize = uint64_t(1) << 30;
};

/// What LibTorch needs to know of before it compiles the code.
struct ArchiveSummary {
  /// "quantized::linear": what the code calls through `ops.`, each once.
  std::vector<std::string> operators;
};

/// Reads the archive's list of files, its code and its pickles. Throws
/// InputError where it is no TorchScript archive or one that is refused.
ArchiveSummary checkArchive(const std::string &path,
                            const ArchiveLimits &limits = {});

/// The text with a question mark for each control character but the end of a
/// line: what a file says of itself is shown on terminals.
std::string printable(std::string text);

/// Throws InputError, which begins with `name`, where the pickle names a class
/// or function that TorchScript's archives do not have, or is no pickle that
/// LibTorch reads.
void checkPickle(std::string_view name, std::string_view pickle);

} // namespace opprof::torchscript

#endif // OPPROF_TORCH_ARCHIVE_H
