// srepr in, str out: what SymPy itself prints stands on the right.

#include "SymPy.h"

#include "gtest/gtest.h"

using opprof::fx::getSymPyText;

namespace {
const char kS[] = "Symbol('s0', positive=True, integer=True)";

} // namespace

static std::string with(std::string text) {
  for (size_t at; (at = text.find('$')) != std::string::npos;)
    text.replace(at, 1, kS);
  return getSymPyText(text);
}

namespace {
TEST(SymPy, NumbersAndSymbols) {
  EXPECT_EQ(with("$"), "s0");
  EXPECT_EQ(with("Integer(-3)"), "-3");
  EXPECT_EQ(with("Rational(1, 2)"), "1/2");
  EXPECT_EQ(with("Float('2.5', precision=53)"), "2.5");
  EXPECT_EQ(with("true"), "true");
}

TEST(SymPy, Sums) {
  EXPECT_EQ(with("Add(Mul(Integer(2), $), Integer(1))"), "2*s0 + 1");
  EXPECT_EQ(with("Add($, Integer(-1))"), "s0 - 1");
  EXPECT_EQ(with("Add(Mul(Integer(-1), $), Symbol('s1'))"), "-s0 + s1");
  EXPECT_EQ(with("Mul(Integer(3), Add($, Integer(1)))"), "3*(s0 + 1)");
}

TEST(SymPy, Products) {
  EXPECT_EQ(with("Mul(Integer(-1), $)"), "-s0");
  EXPECT_EQ(with("Mul(Rational(1, 2), $)"), "s0/2");
  EXPECT_EQ(with("Mul(Rational(-3, 2), $)"), "-3*s0/2");
  EXPECT_EQ(with("Mul($, Pow(Symbol('s1'), Integer(-1)))"), "s0/s1");
  EXPECT_EQ(with("Pow($, Integer(2))"), "s0**2");
  EXPECT_EQ(with("Pow(Add($, Integer(1)), Integer(2))"), "(s0 + 1)**2");
}

TEST(SymPy, FunctionsAndRelations) {
  EXPECT_EQ(with("torch.utils._sympy.functions.FloorDiv($, Integer(2))"),
            "(s0//2)");
  EXPECT_EQ(with("Mod($, Integer(2))"), "Mod(s0, 2)");
  EXPECT_EQ(with("Max(Integer(1), $)"), "Max(1, s0)");
  EXPECT_EQ(with("Equality($, Integer(3))"), "Eq(s0, 3)");
  EXPECT_EQ(with("GreaterThan($, Integer(0))"), "s0 >= 0");
  EXPECT_EQ(
      with("And(StrictLessThan($, Integer(9)), Unequality($, Integer(3)))"),
      "(s0 < 9) & Ne(s0, 3)");
}

TEST(SymPy, OtherTextStays) {
  for (const char *text : {"2*s0 + 1", "", "Add(", "Add(Integer(1)",
                           "Symbol('s0", "Integer()", "f(x) y", "(1)"})
    EXPECT_EQ(getSymPyText(text), text);
  std::string deep;
  for (int i = 0; i < 1000; ++i)
    deep += "Mul(";
  EXPECT_EQ(getSymPyText(deep), deep);
}
} // namespace
