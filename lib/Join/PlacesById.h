// Which entry of a list has an id.

#ifndef OPPROF_LIB_JOIN_PLACESBYID_H
#define OPPROF_LIB_JOIN_PLACESBYID_H

#include "llvm/ADT/STLExtras.h"

#include <cstdint>
#include <vector>

namespace opprof::join {

/// Ids and places, sorted: there is one for each event, and a map would take
/// three times the room. Filled first, and then asked.
class PlacesById {
public:
  static constexpr uint32_t kNone = ~uint32_t(0);

  void reserve(size_t size) { entries.reserve(size); }
  void add(uint64_t id, uint32_t place) { entries.push_back({id, place}); }
  /// Of several with one id the first that was added stays first.
  void sort() {
    if (!llvm::is_sorted(entries, llvm::less_first()))
      llvm::stable_sort(entries, llvm::less_first());
  }

  bool empty() const { return entries.empty(); }
  /// The place of `id`, or none.
  uint32_t find(uint64_t id) const {
    auto it = llvm::lower_bound(entries, id,
                                [](const std::pair<uint64_t, uint32_t> &known,
                                   uint64_t id) { return known.first < id; });
    return it == entries.end() || it->first != id ? kNone : it->second;
  }

private:
  std::vector<std::pair<uint64_t, uint32_t>> entries;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_PLACESBYID_H
