// What several threads run again and again, as those of a server do that runs a
// model for each request.

#ifndef OPPROF_LIB_JOIN_REQUESTS_H
#define OPPROF_LIB_JOIN_REQUESTS_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace opprof::join {

/// A piece of a sequence: the thread's number and where in what it ran.
struct Piece {
  uint32_t thread = 0;
  uint32_t begin = 0;
};

/// Where threads ran one and the same piece.
struct SharedPiece {
  uint32_t length = 0;
  std::vector<Piece> pieces;
  /// How many threads there are among them.
  uint32_t threads = 0;
};

/// The piece that makes up most of what the threads ran: all that one of them
/// did, what it did over and over, or its recurrence. None where no piece is
/// half of everything, or is there less than three times, or on one thread.
/// Takes O(n log² n) time.
std::optional<SharedPiece>
findSharedPiece(llvm::ArrayRef<std::vector<uint32_t>> threads);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_REQUESTS_H
