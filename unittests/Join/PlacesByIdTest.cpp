// Verifies that ids are found where others than counting recorders put them.

#include "../../lib/Join/PlacesById.h"

#include <gtest/gtest.h>

#include <map>

using namespace opprof::join;

/// Every id is found at the place that was added first, and no other is.
static void check(const std::vector<uint64_t> &ids) {
  PlacesById places;
  std::map<uint64_t, uint32_t> expected;
  for (uint32_t place = 0; place < ids.size(); ++place) {
    places.add(ids[place], place);
    expected.try_emplace(ids[place], place);
  }
  places.sort();
  for (auto [id, place] : expected) {
    EXPECT_EQ(places.find(id), place) << id;
    for (uint64_t other : {id - 1, id + 1})
      if (!expected.count(other)) {
        EXPECT_EQ(places.find(other), PlacesById::kNone) << other;
      }
  }
}

TEST(PlacesById, FindsIdsHoweverTheyLie) {
  check({});
  check({7});
  check({5, 5, 5});
  check({~uint64_t(0) - 1, 1});
  std::vector<uint64_t> counted, apart, alike, falling;
  for (uint64_t number = 0; number < 2000; ++number) {
    counted.push_back(100 + number);
    // As ranks have them in one file: far apart, and dense in between.
    apart.push_back((number % 3) << 40 | number);
    alike.push_back(number < 1990 ? 50 : 1'000'000 * number);
    falling.push_back(uint64_t(1) << (number % 60));
  }
  for (const std::vector<uint64_t> &ids : {counted, apart, alike, falling})
    check(ids);
}
