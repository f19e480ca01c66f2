// What commands a terminal is taken out of text, and nothing else.

#include "opprof/Support/TerminalText.h"

#include "gtest/gtest.h"

using namespace opprof;

TEST(TerminalText, TextStays) {
  EXPECT_EQ(toTerminalText("NVIDIA H200, 1.0 µs … 模型 →"),
            "NVIDIA H200, 1.0 µs … 模型 →");
}

TEST(TerminalText, CommandsGo) {
  EXPECT_EQ(toTerminalText("a\x1b[31mb\x07\r\nc\x7f"), "a [31mb   c ");
  // Latin-1's introducer of escapes, as UTF-8 and as a byte of its own.
  EXPECT_EQ(toTerminalText("a\xc2\x9b"
                           "31mb"),
            "a 31mb");
  EXPECT_EQ(toTerminalText("a\x9b"
                           "31mb"),
            "a?31mb");
  // Right-to-left override, and a separator of lines.
  // NOLINTNEXTLINE(misc-misleading-bidirectional): that is what goes.
  EXPECT_EQ(toTerminalText("a\u202e\u2028b"), "a  b");
}

TEST(TerminalText, BytesThatAreNoTextAreTold) {
  EXPECT_EQ(toTerminalText("a\xff\xc3"), "a??");
  EXPECT_EQ(toTerminalText("\xed\xa0\x80"), "???");
}
