// Archives made byte by byte: what is read, and what is refused.

#include "ZipArchive.h"

#include "llvm/Support/CRC.h"
#include "gtest/gtest.h"

using namespace opprof::fx;

namespace {
struct Member {
  std::string name, content;
  /// What the headers claim, where that is not the truth.
  uint32_t size = ~0u, crc = ~0u;
};

void append(std::string &bytes, uint32_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i)
    bytes += static_cast<char>(value >> (8 * i));
}

uint32_t getCRC(llvm::StringRef text) {
  return llvm::crc32(llvm::ArrayRef(
      reinterpret_cast<const uint8_t *>(text.data()), text.size()));
}

std::string zip(std::vector<Member> members) {
  std::string bytes, directory;
  for (const Member &member : members) {
    uint32_t offset = bytes.size();
    uint32_t size = member.size == ~0u ? member.content.size() : member.size;
    uint32_t crc = member.crc == ~0u ? getCRC(member.content) : member.crc;
    std::string common;
    append(common, 20, 2);
    append(common, 0, 8); // flags, stored, time and date
    append(common, crc, 4);
    append(common, member.content.size(), 4);
    append(common, size, 4);
    append(common, member.name.size(), 2);
    append(common, 0, 2);
    bytes += "PK\x03\x04" + common + member.name + member.content;
    directory += "PK\x01\x02";
    append(directory, 20, 2);
    directory += common;
    append(directory, 0, 10);
    append(directory, offset, 4);
    directory += member.name;
  }
  uint32_t offset = bytes.size();
  bytes += directory;
  bytes += "PK\x05\x06";
  append(bytes, 0, 4);
  append(bytes, members.size(), 2);
  append(bytes, members.size(), 2);
  append(bytes, directory.size(), 4);
  append(bytes, offset, 4);
  append(bytes, 0, 2);
  return bytes;
}

/// What is wrong with the archive, or with its first entry; empty for nothing.
std::string getError(const std::string &bytes) {
  auto archive = ZipArchive::open(bytes);
  if (!archive)
    return llvm::toString(archive.takeError());
  if (archive->getEntries().empty())
    return "no entry";
  auto text = archive->read(archive->getEntries().front());
  return text ? "" : llvm::toString(text.takeError());
}

TEST(ZipArchive, Reads) {
  std::string bytes = zip({{"a/b.json", "hello"}, {"empty", ""}});
  auto archive = ZipArchive::open(bytes);
  ASSERT_TRUE(static_cast<bool>(archive));
  ASSERT_EQ(archive->getEntries().size(), 2u);
  ASSERT_NE(archive->find("a/b.json"), nullptr);
  EXPECT_EQ(archive->find("a/c.json"), nullptr);
  EXPECT_EQ(*archive->read(*archive->find("a/b.json")), "hello");
  EXPECT_EQ(*archive->read(*archive->find("empty")), "");
}

TEST(ZipArchive, RefusesOtherFiles) {
  EXPECT_EQ(getError(""), "the file is empty");
  EXPECT_EQ(getError("hello"), "this is no zip archive, and so no .pt2 file");
  std::string bytes = zip({{"a", "hello"}});
  EXPECT_EQ(getError(bytes.substr(0, bytes.size() - 10)),
            "the zip archive has no directory at its end: it was truncated");
}

TEST(ZipArchive, RefusesNamesThatEscape) {
  for (const char *name : {"/a", "../a", "a/../../b", "..", "a\\b", "C:a"})
    EXPECT_NE(getError(zip({{name, "x"}})).find("outside its own folder"),
              std::string::npos)
        << name;
  EXPECT_EQ(getError(zip({{"a/..b/c", "x"}})), "");
}

TEST(ZipArchive, RefusesTwins) {
  EXPECT_EQ(getError(zip({{"a", "x"}, {"a", "y"}})),
            "the zip archive holds 'a' twice");
}

TEST(ZipArchive, RefusesDamage) {
  EXPECT_EQ(getError(zip({{"a", "hello", ~0u, 1}})),
            "entry 'a': its check sum is wrong: it is damaged");
}

TEST(ZipArchive, RefusesBombs) {
  EXPECT_NE(getError(zip({{"a", "x", 64u << 20}})).find("zip bomb"),
            std::string::npos);
  EXPECT_NE(getError(zip({{"a", "x", 0xF0000000u}})).find("the most is"),
            std::string::npos);
}

TEST(ZipArchive, EveryPrefixAndEveryFlippedByteIsReadOrRefused) {
  std::string whole = zip({{"models/model.json", "{\"a\": 1}"}});
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(getError(whole.substr(0, size)), "");
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string copy = whole;
      copy[at] ^= 1 << bit;
      getError(copy);
    }
}
} // namespace
