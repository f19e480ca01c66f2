// See Requests.h.

#include "Requests.h"

#include "RecurringSteps.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace llvm;
using namespace opprof::join;

/// Of each beginning of `piece` how long a shorter beginning is that it ends
/// with (Knuth, Morris and Pratt).
static std::vector<uint32_t> borders(ArrayRef<uint32_t> piece) {
  std::vector<uint32_t> border(piece.size());
  for (uint32_t at = 1, length = 0; at < piece.size(); ++at) {
    while (length && piece[at] != piece[length])
      length = border[length - 1];
    length += piece[at] == piece[length];
    border[at] = length;
  }
  return border;
}

/// Where `piece` is in `sequence`, one after the other.
static std::vector<uint32_t> findAll(ArrayRef<uint32_t> sequence,
                                     ArrayRef<uint32_t> piece,
                                     ArrayRef<uint32_t> border) {
  std::vector<uint32_t> found;
  uint32_t length = 0;
  for (uint32_t at = 0; at < sequence.size(); ++at) {
    while (length && sequence[at] != piece[length])
      length = border[length - 1];
    length += sequence[at] == piece[length];
    if (length < piece.size())
      continue;
    found.push_back(at + 1 - length);
    length = 0;
  }
  return found;
}

/// What the thread does again and again; all of it where it does it once.
static ArrayRef<uint32_t> pieceOf(ArrayRef<uint32_t> sequence) {
  uint32_t size = sequence.size();
  uint32_t period = size - borders(sequence).back();
  if (period < size && size % period == 0)
    return sequence.take_front(period);
  std::optional<Recurrence> found = findRecurrence(sequence);
  if (found && found->length >= size / 2)
    return sequence.slice(found->begin, found->period);
  return sequence;
}

std::optional<SharedPiece>
opprof::join::findSharedPiece(ArrayRef<std::vector<uint32_t>> threads) {
  // How much was run by threads of which it is the piece.
  std::map<std::vector<uint32_t>, size_t> pieces;
  size_t all = 0;
  for (const std::vector<uint32_t> &sequence : threads) {
    all += sequence.size();
    if (!sequence.empty())
      pieces[pieceOf(sequence)] += sequence.size();
  }
  if (pieces.empty())
    return std::nullopt;
  const std::vector<uint32_t> &piece =
      llvm::max_element(pieces, [](const auto &a, const auto &b) {
        return a.second < b.second;
      })->first;
  SharedPiece shared;
  shared.length = piece.size();
  std::vector<uint32_t> border = borders(piece);
  for (auto [thread, sequence] : llvm::enumerate(threads)) {
    std::vector<uint32_t> found = findAll(sequence, piece, border);
    for (uint32_t begin : found)
      shared.pieces.push_back({uint32_t(thread), begin});
    shared.threads += !found.empty();
  }
  if (shared.threads < 2 || shared.pieces.size() < 3 ||
      shared.pieces.size() * piece.size() * 2 < all)
    return std::nullopt;
  return shared;
}
