// Files and folders for results: whole or not at all, and never in the place of
// what is no file.

#include "opprof/Support/OutputFile.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <sys/stat.h>

using namespace llvm;
using namespace opprof;

namespace {
class OutputFileTest : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("opprof-output", folder));
  }
  void TearDown() override { sys::fs::remove_directories(folder); }

  std::string path(StringRef name) const {
    SmallString<256> result(folder);
    sys::path::append(result, name);
    return result.str().str();
  }

  /// What the file holds.
  std::string read(StringRef name) const {
    auto buffer = MemoryBuffer::getFile(path(name));
    return buffer ? (*buffer)->getBuffer().str() : "";
  }

  /// The names of the folder's files.
  size_t countFiles() const {
    size_t count = 0;
    std::error_code error;
    for (sys::fs::directory_iterator it(folder, error), end;
         it != end && !error; it.increment(error))
      ++count;
    return count;
  }

  /// Writes `text`, and gives the error's words.
  std::string write(const Twine &file, StringRef text) const {
    return toString(writeFile(file, [&](raw_ostream &os) { os << text; }));
  }

  SmallString<128> folder;
};
} // namespace

TEST_F(OutputFileTest, WritesByEveryName) {
  for (StringRef name : {"100%", "%s%n", " a ", "a\nb", "-v", "a\xff\xfe"}) {
    EXPECT_EQ(write(path(name) + "/" + name, "text"), "") << name.str();
    EXPECT_EQ(read((name + "/" + name).str()), "text") << name.str();
    auto beside = writeBeside(path(name) + "/beside", [&](StringRef file) {
      auto [folder, own] = file.rsplit('/');
      EXPECT_EQ(folder.rsplit('/').second, name);
      EXPECT_TRUE(isUnfinished(own, "beside")) << own.str();
      return false;
    });
    ASSERT_TRUE(bool(beside));
    EXPECT_FALSE(*beside);
    EXPECT_FALSE(sys::fs::exists(path((name + "/beside").str())));
  }
}

TEST_F(OutputFileTest, ReplacesAFileAndLeavesNothingBeside) {
  EXPECT_EQ(write(path("file"), "first"), "");
  EXPECT_EQ(write(path("file"), "second"), "");
  EXPECT_EQ(read("file"), "second");
  EXPECT_EQ(countFiles(), 1u);
}

TEST_F(OutputFileTest, KeepsTheUsersMask) {
  mode_t mask = ::umask(027);
  scope_exit restore([&] { ::umask(mask); });
  EXPECT_EQ(write(path("file"), "text"), "");
  EXPECT_EQ(unsigned(*sys::fs::getPermissions(path("file"))), 0640u);
}

TEST_F(OutputFileTest, MakesTheFolder) {
  EXPECT_EQ(write(path("a/b/file"), "text"), "");
  EXPECT_EQ(read("a/b/file"), "text");
}

TEST_F(OutputFileTest, NamesWhatStandsInTheWay) {
  ASSERT_EQ(write(path("file"), ""), "");
  EXPECT_EQ(write(path("file/x"), "text"),
            path("file") + ": cannot be a folder of results: " + path("file") +
                " is a file");
  EXPECT_EQ(write(folder, "text"),
            folder.str().str() + ": cannot be written: it is a folder");
}

TEST_F(OutputFileTest, WritesToADeviceItself) {
  ASSERT_FALSE(sys::fs::create_link("/dev/null", path("null")));
  EXPECT_EQ(write(path("null"), "text"), "");
  EXPECT_TRUE(sys::fs::is_symlink_file(path("null")));
  EXPECT_EQ(countFiles(), 1u);
}

TEST_F(OutputFileTest, SaysThatADeviceIsFull) {
  EXPECT_EQ(write("/dev/full", "text"),
            "/dev/full: cannot be written: No space left on device");
}

TEST_F(OutputFileTest, WhatTurnsOutWrongLeavesTheOldFile) {
  auto write = [&](StringRef text, bool succeeds) {
    return writeOutput(path("out"), [&](raw_ostream &os) {
      os << text;
      return succeeds;
    });
  };
  EXPECT_TRUE(cantFail(write("first", true)));
  EXPECT_FALSE(cantFail(write("half", false)));
  EXPECT_EQ(read("out"), "first");
  EXPECT_EQ(countFiles(), 1u);
}

TEST_F(OutputFileTest, WhatOpensItsOutputIsGivenAFileBeside) {
  auto write = [&](StringRef text, bool succeeds) {
    return writeBeside(path("out"), [&](StringRef beside) {
      EXPECT_NE(beside, path("out"));
      std::error_code code;
      raw_fd_ostream os(beside, code);
      os << text;
      return succeeds;
    });
  };
  EXPECT_TRUE(cantFail(write("first", true)));
  EXPECT_FALSE(cantFail(write("half", false)));
  EXPECT_EQ(read("out"), "first");
  EXPECT_EQ(countFiles(), 1u);
}
