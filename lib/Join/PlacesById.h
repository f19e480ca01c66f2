// Which entry of a list has an id.

#ifndef OPPROF_LIB_JOIN_PLACESBYID_H
#define OPPROF_LIB_JOIN_PLACESBYID_H

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace opprof::join {

/// Ids and places, sorted: there is one for each event, and a map would take
/// three times the room. Filled first, and then asked.
class PlacesById {
public:
  static constexpr uint32_t kNone = ~uint32_t(0);

  void reserve(size_t size) { entries.reserve(size); }
  void add(uint64_t id, uint32_t place) {
    entries.push_back({uint32_t(id >> 32), uint32_t(id), place});
  }
  /// Of several with one id the first that was added stays first.
  void sort() {
    auto isLess = [](const Entry &a, const Entry &b) {
      return a.id() < b.id();
    };
    if (!llvm::is_sorted(entries, isLess))
      llvm::stable_sort(entries, isLess);
  }

  bool empty() const { return entries.empty(); }
  /// The place of `id`, or none.
  uint32_t find(uint64_t id) const {
    if (entries.empty() || id < entries.front().id() ||
        id > entries.back().id())
      return kNone;
    // Recorders count, so that its share of the range of ids tells about where
    // it stands.
    size_t last = entries.size() - 1;
    double share = double(id - entries.front().id()) /
                   (double(entries.back().id() - entries.front().id()) + 1);
    size_t guess = std::min(size_t(share * double(entries.size())), last);
    size_t low = 0, high = last;
    for (size_t width = 8;; width *= 8) {
      low = guess > width ? guess - width : 0;
      high = std::min(guess + width, last);
      if ((!low || entries[low].id() < id) && entries[high].id() >= id)
        break;
    }
    auto it = std::lower_bound(
        entries.begin() + low, entries.begin() + high, id,
        [](const Entry &known, uint64_t id) { return known.id() < id; });
    return it->id() == id ? it->place : kNone;
  }

private:
  /// With the id in halves, as a whole one would be padded by a third.
  struct Entry {
    uint32_t high;
    uint32_t low;
    uint32_t place;

    uint64_t id() const { return uint64_t(high) << 32 | low; }
  };
  std::vector<Entry> entries;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_PLACESBYID_H
