// Verifies that equal texts are one, whatever others were kept between.

#include "opprof/Support/TextPool.h"

#include <gtest/gtest.h>

using namespace opprof;

TEST(TextPool, KeepsOneOfEqualTexts) {
  TextPool pool;
  std::vector<llvm::StringRef> saved;
  // More than have a place of their own, of which many begin and end alike.
  constexpr size_t kMany = 5000;
  auto text = [](size_t number) {
    return "aten::begins_alike " + std::to_string(number) + " and ends alike";
  };
  for (size_t number = 0; number < kMany; ++number)
    saved.push_back(pool.save(text(number)));
  for (size_t number = 0; number < kMany; ++number) {
    EXPECT_EQ(saved[number], text(number));
    EXPECT_EQ(pool.save(text(number)).data(), saved[number].data());
  }
}

TEST(TextPool, KeepsShortTextsApart) {
  TextPool pool;
  std::string zeros("a\0", 2);
  llvm::StringRef empty = pool.save(""), one = pool.save("a"),
                  two = pool.save(zeros);
  EXPECT_EQ(empty, "");
  EXPECT_EQ(one, "a");
  EXPECT_EQ(two.size(), 2u);
  EXPECT_EQ(pool.save("").data(), empty.data());
  EXPECT_EQ(pool.save(std::string("a")).data(), one.data());
}
