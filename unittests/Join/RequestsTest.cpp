// What threads run again and again, each for itself.

#include "../../lib/Join/Requests.h"

#include "gtest/gtest.h"

using namespace opprof::join;

/// "length x pieces on threads", of threads whose operators are letters.
static std::string shared(std::vector<std::string> threads) {
  std::vector<std::vector<uint32_t>> sequences;
  for (const std::string &letters : threads)
    sequences.emplace_back(letters.begin(), letters.end());
  std::optional<SharedPiece> found = findSharedPiece(sequences);
  if (!found)
    return "none";
  return std::to_string(found->length) + " x " +
         std::to_string(found->pieces.size()) + " on " +
         std::to_string(found->threads);
}

TEST(Requests, AThreadForEach) {
  EXPECT_EQ(shared({"abc", "abc", "abc"}), "3 x 3 on 3");
  EXPECT_EQ(shared({"aabaab", "aab", "aab"}), "3 x 4 on 3");
}

TEST(Requests, ThreadsOfAPool) {
  EXPECT_EQ(shared({"abcabcabc", "abcabc", ""}), "3 x 5 on 2");
  // One thread has set the model up, and one was interrupted.
  EXPECT_EQ(shared({"xyzabcabcabcabc", "abcabcab", "abcabc"}), "3 x 8 on 3");
}

TEST(Requests, OtherKindsAreLeftOut) {
  EXPECT_EQ(shared({"abc", "de", "abc", "abc"}), "3 x 3 on 3");
  EXPECT_EQ(shared({"abcdefgh", "ab", "ab", "ab"}), "none");
}

TEST(Requests, WhatIsNoServer) {
  EXPECT_EQ(shared({}), "none");
  EXPECT_EQ(shared({"", ""}), "none");
  EXPECT_EQ(shared({"abcabcabc"}), "none");
  EXPECT_EQ(shared({"abc", "abc"}), "none");
  // A forward and a backward thread.
  EXPECT_EQ(shared({"abcabcabc", "xyzxyzxyz"}), "none");
}
