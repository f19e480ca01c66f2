// Whether code was compiled from a graph. Files that were recorded elsewhere
// may be of different programs; their nodes would be put on one another by what
// little they share.

#ifndef OPPROF_LIB_DRIVER_BELONGING_H
#define OPPROF_LIB_DRIVER_BELONGING_H

#include "opprof/Launch/LaunchMap.h"
#include "opprof/Target/InductorCode/GraphView.h"

namespace opprof::driver {

/// How much of a compiled graph is found in the graph that it is said to be
/// made from.
struct Belonging {
  /// Tensors that go into the code, and those of them whose shape goes into the
  /// graph too.
  uint64_t inputs = 0;
  uint64_t commonInputs = 0;
  /// Nodes that are launched, and those of them that were tied to the graph's.
  uint64_t nodes = 0;
  uint64_t tiedNodes = 0;

  /// More of one is missing than found: another batch size, another way to
  /// write the model.
  bool isDoubtful() const {
    return 2 * commonInputs < inputs || 2 * tiedNodes < nodes;
  }
  /// Of both.
  bool isRefuted() const {
    return 2 * commonInputs < inputs && 2 * tiedNodes < nodes;
  }
  /// "2 of its 14 inputs have …".
  std::string describe() const;
};

/// `code` is the compiled graph, with the map of its launches tied to `graph`'s
/// nodes. What goes into a backward graph are the values that forward kept, so
/// it is not asked.
Belonging findBelonging(const inductor::GraphView &code,
                        const launch::LaunchMap &map,
                        const inductor::GraphView &graph);

} // namespace opprof::driver

#endif // OPPROF_LIB_DRIVER_BELONGING_H
