// TorchScript archives, through LibTorch, as graph JSON.

#ifndef OPPROF_TORCH_TORCHSCRIPT_H
#define OPPROF_TORCH_TORCHSCRIPT_H

#include "opprof/Torch/Containment.h"

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace opprof::torchscript {

struct ReadRequest {
  std::string path;
  std::string method = "forward";
  /// One text an argument of the method, or NAME=TEXT: "4x128xi64", "3".
  std::vector<std::string> inputs;
  /// Makes attributes that the method does not change constants, and works out
  /// what follows from them, as torch.jit.freeze does.
  bool freeze = false;
  /// Takes a device that the code takes of a tensor from that tensor where the
  /// graph runs, which may be elsewhere than it was read.
  bool followDevices = false;
  /// Runs what no run took, where numbers decide on it. Code that is not meant
  /// for the numbers that there are may end the process, or have no end.
  bool explores = true;
  /// True while that goes on, for whoever waits for the process; may be null.
  std::atomic<bool> *isExploring = nullptr;
  /// Operators that the archive's code calls by name, to be looked for before
  /// it is compiled.
  std::vector<std::string> operators;
  std::string opprofVersion;
};

/// Seconds that each step of reading took.
struct ReadTimes {
  double load = 0, inlining = 0, run = 0, translation = 0, writing = 0;
};

/// Open files that results are written to; -1 for what is not wanted.
struct ReadFiles {
  /// Graph JSON.
  int graph = -1;
  /// The tensors that the graph takes, as safetensors.
  int weights = -1;
  /// The tuple of what the method is called with, defaults among them, as
  /// torch.load reads it.
  int arguments = -1;
};

/// Loads the archive on the CPU and writes the method's graph, its tensors and
/// its arguments. With inputs the method is run on them, node by node, and
/// every value that the run reaches has its type. Runs what the archive asks
/// LibTorch to run. Throws InputError, or what LibTorch does.
ReadTimes readTorchScript(const ReadRequest &request, const ReadFiles &files);

/// Runs `work`, which reads what is asked for, by runContained; where its
/// process ends while it explores what no run took, once more without that.
std::vector<int>
readContained(ReadRequest &request, const Limits &limits, unsigned numOutputs,
              const std::function<void(const std::vector<int> &)> &work);

/// Throws InputError, which says what to do, where the LibTorch that runs is
/// of another minor version than the one that this was built against.
void checkLibTorch();

} // namespace opprof::torchscript

#endif // OPPROF_TORCH_TORCHSCRIPT_H
