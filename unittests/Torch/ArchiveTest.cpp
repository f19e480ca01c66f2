// Pickles and archives, judged without LibTorch.

#include "opprof/Torch/Archive.h"

#include "gtest/gtest.h"

#include <random>

using namespace opprof::torchscript;

namespace {
/// What is said of the pickle, or nothing.
std::string judge(std::string_view pickle) {
  try {
    checkPickle("data.pkl", pickle);
  } catch (const InputError &error) {
    return error.what();
  }
  return "";
}

TEST(Pickles, OfTorchScriptAreRead) {
  using namespace std::string_view_literals;
  EXPECT_EQ(judge("\x80\x02)."sv), "");
  EXPECT_EQ(
      judge("\x80\x02"
            "c__torch__.m\nNet\nq\x00)\x81}(X\x01\x00\x00\x00wK\x01ub."sv),
      "");
  EXPECT_EQ(judge("\x80\x02"
                  "ctorch._utils\n_rebuild_tensor_v2\n."sv),
            "");
  EXPECT_EQ(judge("\x80\x02"
                  "ctorch\nFloatStorage\n."sv),
            "");
}

TEST(Pickles, WithOtherNamesAreRefused) {
  using namespace std::string_view_literals;
  for (std::string_view name :
       {"posix\nsystem\n"sv, "builtins\neval\n"sv, "torch\nload\n"sv,
        "__torch__evil\nA\n"sv, "torch.jit._pickle\nexec\n"sv,
        "torch\nStorage\n"sv})
    EXPECT_NE(judge("\x80\x02"
                    "c" +
                    std::string(name) + ")R.")
                  .find("the file is refused"),
              std::string::npos)
        << name;
}

TEST(Pickles, WithOtherOperationsAreRefused) {
  using namespace std::string_view_literals;
  // INST, OBJ, STACK_GLOBAL, NEWOBJ_EX, EXT1, and protocol 0's numbers.
  for (std::string_view pickle : {"(iposix\nsystem\n."sv, "(o."sv, "\x93."sv,
                                  "\x92."sv, "\x82\x01."sv, "I1\n."sv})
    EXPECT_NE(judge(pickle).find("is none that TorchScript writes"),
              std::string::npos)
        << pickle;
}

TEST(Pickles, ThatBreakOffAreRefused) {
  using namespace std::string_view_literals;
  EXPECT_EQ(judge(""), "data.pkl, byte 0: the pickle has no end");
  EXPECT_NE(judge("X\xff\xff\xff\xff"sv).find("breaks off"), std::string::npos);
  EXPECT_NE(judge("cmodule"sv).find("breaks off"), std::string::npos);
  EXPECT_NE(judge("\x8a\x05\x01."sv).find("breaks off"), std::string::npos);
}

TEST(Pickles, OfAnyBytesEnd) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string pickle(random() % 64, '\0');
    for (char &byte : pickle)
      byte = static_cast<char>(random());
    judge(pickle);
  }
}
} // namespace

TEST(Archive, WhatFilesSayIsShownWithoutControlCharacters) {
  EXPECT_EQ(printable("\x1b[31mred\r\ttab\x7f"), "?[31mred??tab?");
  EXPECT_EQ(printable("two\nlines, caf\xc3\xa9"), "two\nlines, caf\xc3\xa9");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m, \xc2\xa0"),
            "?31m, \xc2\xa0");
}
