// Strings, names and symbolic expressions as Python, and single functions.

#include "SymbolicExpression.h"

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Target/Python/PythonEmitter.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace opprof::fx;

static std::string expression(llvm::StringRef text) {
  auto python = getPythonExpression(text, [](llvm::StringRef symbol) {
    return symbol.starts_with("s") ? symbol.str() : std::string();
  });
  return python ? *python : "refused";
}

namespace {
TEST(PythonEmitter, Strings) {
  EXPECT_EQ(getPythonString("a\"b\\c\n\t"), R"("a\"b\\c\n\t")");
  EXPECT_EQ(getPythonString(llvm::StringRef("\0\x7f", 2)), R"("\u0000\u007f")");
  EXPECT_EQ(getPythonString("\xC3\xA9\xF0\x9F\x94\xA5"),
            R"("\u00e9\U0001f525")");
  EXPECT_EQ(getPythonString("\xFF"), R"("\udcff")");
}

TEST(PythonEmitter, Identifiers) {
  EXPECT_EQ(getPythonIdentifier("h.0.attn"), "h_0_attn");
  EXPECT_EQ(getPythonIdentifier("0"), "_0");
  EXPECT_EQ(getPythonIdentifier(""), "_");
  EXPECT_EQ(getPythonIdentifier("in"), "in_");
  EXPECT_EQ(getPythonIdentifier("a(); b"), "a____b");
}

TEST(PythonEmitter, Expressions) {
  EXPECT_EQ(expression("2*s0 + 1"), "2 * s0 + 1");
  EXPECT_EQ(expression("(s0//2)"), "(s0 // 2)");
  EXPECT_EQ(expression("s0 - s1 - 2**s2**2"), "s0 - s1 - 2 ** s2 ** 2");
  EXPECT_EQ(expression("(s0 > 2) & (s1 <= 3)"), "(s0 > 2) and (s1 <= 3)");
  EXPECT_EQ(expression("(s0 > 2) | ~(s1 != 3)"), "(s0 > 2) or not (s1 != 3)");
  EXPECT_EQ(expression("-s0**2"), "-s0 ** 2");
  EXPECT_EQ(expression("Max(1, s0 - s1)"), "max(1, s0 - s1)");
  EXPECT_EQ(expression("Mod(s0 + 1, 2)"), "((s0 + 1) % (2))");
  EXPECT_EQ(expression("ModularIndexing(s0, 2, 3)"), "(((s0) // (2)) % (3))");
  EXPECT_EQ(expression("Eq(s0, 3)"), "((s0) == (3))");
  // Halves of whole numbers add up to a whole number.
  EXPECT_EQ(expression("s0/2 + 1/2"), "int(s0 / 2 + 1 / 2)");
}

TEST(PythonEmitter, ExpressionsThatAreNone) {
  for (const char *text :
       {"", "u0", "s0 +", "(s0", "s0)", "s0; exit()", "__import__(s0)",
        "exec(s0)", "s0.real", "1.2.3", "s0 s1", "Max()", "Mod(s0)", "'s0'",
        "lambda: s0", "s0 if s1 else s2"})
    EXPECT_EQ(expression(text), "refused") << text;
  EXPECT_EQ(expression(std::string(100000, '(')), "refused");
  EXPECT_EQ(expression(std::string(100000, '-')), "refused");
}

class Function : public testing::Test {
protected:
  std::string print(llvm::StringRef source,
                    const PythonFunctionOptions &options = {}) {
    context.loadDialect<FXDialect>();
    module = parseSourceString<ModuleOp>(source, &context);
    if (!module)
      return "does not parse";
    std::string text;
    llvm::raw_string_ostream os(text);
    auto graph = *module->getOps<GraphOp>().begin();
    if (failed(printPythonFunction(graph, os, options)))
      return "refused";
    return text;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

constexpr llvm::StringLiteral kPattern = R"(
fx.graph @pattern(%x: tensor<4x4xf32> {fx.name = "x"}, %w: tensor<4x4xf32> {fx.name = "w"}) -> tensor<4x4xf32> {
  %0 = fx.node "aten.mm.default"(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = fx.node "aten.relu.default"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output(%1) : (tensor<4x4xf32>)
})";

TEST_F(Function, IsPlainByDefault) {
  EXPECT_EQ(print(kPattern), "def pattern(x, w):\n"
                             "    mm = torch.ops.aten.mm.default(x, w)\n"
                             "    relu = torch.ops.aten.relu.default(mm)\n"
                             "    return (relu,)\n");
}

TEST_F(Function, TakesItsNameIndentAndResultFromTheOptions) {
  PythonFunctionOptions options;
  options.name = "replacement";
  options.indent = 4;
  options.unwrapSingleOutput = true;
  options.withDeletions = true;
  EXPECT_EQ(print(kPattern, options),
            "    def replacement(x, w):\n"
            "        mm = torch.ops.aten.mm.default(x, w)\n"
            "        relu = torch.ops.aten.relu.default(mm)\n"
            "        del mm\n"
            "        return relu\n");
}
} // namespace
