// Bounds of MLIR that may come from anyone, at their edges.

#include "opprof/Support/ForeignMLIR.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace opprof;

namespace {
class ForeignMLIRTest : public ::testing::Test {
protected:
  /// What is wrong with the text or bytecode, or empty.
  std::string read(StringRef file) {
    std::string error;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (error.empty())
        error = diagnostic.str();
      return success();
    });
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(
        llvm::MemoryBuffer::getMemBufferCopy(file, "file"), llvm::SMLoc());
    bool isRead = static_cast<bool>(parseForeignMLIR(sources, &context));
    EXPECT_EQ(isRead, error.empty());
    return error;
  }

  static std::string nest(size_t depth, StringRef open, StringRef inner,
                          StringRef close) {
    std::string text = "module attributes {fx.a = ";
    for (size_t i = 0; i < depth; ++i)
      text += open;
    text += inner;
    for (size_t i = 0; i < depth; ++i)
      text += close;
    return text + "} {}";
  }

  static std::string toBytecode(ModuleOp module) {
    std::string bytes;
    llvm::raw_string_ostream os(bytes);
    EXPECT_TRUE(succeeded(writeBytecodeToFile(module, os)));
    return bytes;
  }

  /// `depth` modules in one another.
  OwningOpRef<ModuleOp> nestModules(unsigned depth) {
    OpBuilder builder(&context);
    OwningOpRef<ModuleOp> root = ModuleOp::create(builder.getUnknownLoc());
    ModuleOp inner = *root;
    for (unsigned i = 1; i < depth; ++i) {
      builder.setInsertionPointToStart(inner.getBody());
      inner = ModuleOp::create(builder, builder.getUnknownLoc());
    }
    return root;
  }

  MLIRContext context;
};
} // namespace

TEST_F(ForeignMLIRTest, TextIsReadToItsDepth) {
  // The braces of the attributes are one level.
  EXPECT_EQ(read(nest(kMaxMLIRDepth - 1, "[", "1", "]")), "");
  EXPECT_EQ(read(nest(kMaxMLIRDepth, "[", "1", "]")),
            "file:1: it nests deeper than 1024");
  EXPECT_EQ(read(nest(kMaxMLIRDepth, "tuple<", "i32", ">")),
            "file:1: it nests deeper than 1024");
}

TEST_F(ForeignMLIRTest, OperatorsNestToo) {
  auto map = [](size_t operators, StringRef text) {
    std::string expression;
    for (size_t i = 0; i < operators; ++i)
      expression += text;
    return "module attributes {fx.a = affine_map<(d0) -> (" + expression +
           "d0)>} {}";
  };
  for (StringRef text : {"- ", "d0 + ", "d0 * 2 - "}) {
    EXPECT_EQ(read(map(400, text)), "") << text.str();
    EXPECT_EQ(read(map(2000, text)), "file:1: it nests deeper than 1024");
  }
}

TEST_F(ForeignMLIRTest, StringsCommentsAndArrowsNestNothing) {
  std::string text = "// ((((\nmodule attributes {fx.a = \"";
  text.append(5000, '(');
  text += "\\\"[\"} {\n";
  for (int i = 0; i < 3000; ++i)
    text += "module attributes {fx.b = -1 : i64, fx.c = (i32) -> (i32)} {}\n";
  EXPECT_EQ(read(text + "}"), "");
}

TEST_F(ForeignMLIRTest, NumbersAreShort) {
  std::string digits(kMaxMLIRDigits + 1, '9');
  EXPECT_EQ(read(nest(0, "", digits, "")),
            "file:1: a number of more than 4096 digits");
}

TEST_F(ForeignMLIRTest, NamesAreFollowed) {
  auto define = [](unsigned count, bool twice) {
    std::string text = "#a0 = [0]\n";
    for (unsigned i = 1; i < count; ++i) {
      std::string last = "#a" + std::to_string(i - 1);
      text += "#a" + std::to_string(i) + " = [" + last +
              (twice ? ", " + last : "") + "]\n";
    }
    return text + "module attributes {fx.a = #a" + std::to_string(count - 1) +
           "} {}";
  };
  EXPECT_EQ(read(define(1000, false)), "");
  EXPECT_NE(read(define(10000, false)).find("nests deeper than 4096"),
            std::string::npos);
  EXPECT_EQ(read(define(16, true)), "");
  EXPECT_NE(read(define(64, true)).find("hold one another over and over"),
            std::string::npos);
}

TEST_F(ForeignMLIRTest, BytecodeIsReadToItsDepth) {
  EXPECT_EQ(read(toBytecode(*nestModules(kMaxMLIRDepth))), "");
  EXPECT_EQ(read(toBytecode(*nestModules(kMaxMLIRDepth + 1))),
            "file: it nests deeper than 1024");
}

TEST_F(ForeignMLIRTest, AttributesOfBytecodeAreSpelledOut) {
  Builder builder(&context);
  auto write = [&](unsigned count) {
    Attribute attribute = builder.getUnitAttr();
    for (unsigned i = 0; i < count; ++i)
      attribute = builder.getArrayAttr({attribute, attribute});
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
    (*module)->setAttr("fx.a", attribute);
    return toBytecode(*module);
  };
  EXPECT_EQ(read(write(12)), "");
  EXPECT_NE(read(write(64)).find("hold one another over and over"),
            std::string::npos);
}
