// Work on untrusted files in a process of its own: what ends that process is an
// error that names its cause, and in a sandbox it can open nothing for writing
// and reach no network.

#ifndef OPPROF_TORCH_CONTAINMENT_H
#define OPPROF_TORCH_CONTAINMENT_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace opprof::torchscript {

struct Limits {
  /// Bytes of memory that the process may have allocated; 0 is no limit.
  uint64_t memory = 0;
  /// Seconds of wall time; 0 is no limit.
  unsigned seconds = 0;
  /// Bytes of each file that the process hands back.
  uint64_t output = uint64_t(64) << 30;
  /// Seccomp's filter on system calls: no network, no other process, nothing
  /// opened for writing.
  bool sandbox = false;
  /// The file that is read. A sandbox lets it be opened wherever it lies.
  std::string file;
};

/// Runs `work` in a child process with `numOutputs` open files, given by their
/// descriptors, and returns descriptors of what it wrote, to be closed by the
/// caller. Throws InputError with the text of an exception that `work` threw,
/// or with what ended the process.
std::vector<int>
runContained(const Limits &limits, unsigned numOutputs,
             const std::function<void(const std::vector<int> &)> &work);

} // namespace opprof::torchscript

#endif // OPPROF_TORCH_CONTAINMENT_H
