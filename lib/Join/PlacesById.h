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
    auto it =
        llvm::lower_bound(entries, id, [](const Entry &known, uint64_t id) {
          return known.id() < id;
        });
    return it == entries.end() || it->id() != id ? kNone : it->place;
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
