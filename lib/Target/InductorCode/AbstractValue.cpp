// Arithmetic on stand-ins. Functions with flat parts (maximum, comparisons) are
// replaced by smooth ones, so that their result tells their arguments; what is
// known before the program runs (indices, constants) is computed exactly.

#include "AbstractValue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/bit.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

bool AbstractValue::agrees(const AbstractValue &other, double tolerance) const {
  if (!known || !other.known)
    return false;
  if (number == other.number)
    return true;
  double scale = std::max(std::fabs(number), std::fabs(other.number));
  // Constants of a kernel's source are rounded to float32.
  return std::fabs(number - other.number) <= tolerance * std::max(scale, 1e-2);
}

static uint64_t mix(uint64_t seed) {
  uint64_t mixed = (seed + 1) * 0x9E3779B97F4A7C15ull;
  mixed ^= mixed >> 29;
  mixed *= 0xBF58476D1CE4E5B9ull;
  return mixed ^ mixed >> 32;
}

AbstractValue opprof::inductor::makeInput(uint64_t seed, double offset) {
  uint64_t mixed = mix(seed);
  double phase = (mixed >> 11) * 0x1p-53;
  return AbstractValue::data(0.7 + 0.25 * std::sin(6.2831853 * phase) +
                             0.2 * std::sin(1.6180339887 * offset + phase));
}

AbstractValue opprof::inductor::makeIndex(uint64_t seed, double offset,
                                          int64_t limit, unsigned draw) {
  static constexpr double kPlaces[] = {2, 3, 5, 7, 11, 13, 17, 19};
  AbstractValue input = makeInput(seed, offset);
  if (!std::isfinite(input.number))
    return input;
  if (draw == 0)
    return AbstractValue::data(
        kPlaces[size_t(std::fmod(std::fabs(input.number) * 1e4, 4))]);
  uint64_t mixed = mix(mix(seed) ^ mix(bit_cast<uint64_t>(offset)) ^ draw);
  if (limit <= 0)
    return AbstractValue::data(kPlaces[mixed % std::size(kPlaces)]);
  // The last place has the greatest digits in every view; those that follow are
  // beyond what any divisor but the size leaves out, each second one anywhere.
  if (draw == 1)
    return AbstractValue::data(double(limit - 1));
  int64_t from = draw % 2 ? 0 : limit / 2;
  return AbstractValue::data(double(from + int64_t(mixed % (limit - from))));
}

/// An infinity that masks is a number like others.
static double withoutInfinity(double number) {
  return std::isinf(number) ? std::copysign(7.3, number) : number;
}

/// Smooth, and not what adding or scaling gives.
static double softMaximum(double a, double b) {
  if (std::isinf(a))
    return a < 0 ? b : a;
  if (std::isinf(b))
    return b < 0 ? a : b;
  return 0.5 * (a + b + std::sqrt((a - b) * (a - b) + 0.5));
}

static double signedRoot(double value) {
  return std::copysign(std::sqrt(std::fabs(value)), value);
}

static double power(double base, double exponent) {
  if (exponent == 0.5)
    return signedRoot(base);
  if (exponent == std::floor(exponent))
    return std::pow(base, exponent);
  return std::copysign(std::pow(std::fabs(base), exponent), base);
}

static std::optional<double> applyUnary(StringRef name, double x) {
  using Function = double (*)(double);
  Function function =
      StringSwitch<Function>(name)
          .Case("neg", [](double x) { return -x; })
          .Case("abs", [](double x) { return std::sqrt(x * x + 0.3); })
          .Case("exp", [](double x) { return std::exp(x); })
          .Case("exp2", [](double x) { return std::exp2(x); })
          .Case("expm1", [](double x) { return std::expm1(x); })
          .Case("log", [](double x) { return std::log(std::fabs(x)); })
          .Case("log2", [](double x) { return std::log2(std::fabs(x)); })
          .Case("log10", [](double x) { return std::log10(std::fabs(x)); })
          .Case("log1p", [](double x) { return std::log(std::fabs(1 + x)); })
          .Case("sqrt", signedRoot)
          .Case("rsqrt", [](double x) { return 1 / signedRoot(x); })
          .Case("reciprocal", [](double x) { return 1 / x; })
          .Case("square", [](double x) { return x * x; })
          .Case("sin", [](double x) { return std::sin(x); })
          .Case("cos", [](double x) { return std::cos(x); })
          .Case("tan", [](double x) { return std::tan(x); })
          .Case("sinh", [](double x) { return std::sinh(x); })
          .Case("cosh", [](double x) { return std::cosh(x); })
          .Case("tanh", [](double x) { return std::tanh(x); })
          .Case("atan", [](double x) { return std::atan(x); })
          .Case("erf", [](double x) { return std::erf(x); })
          .Case("erfc", [](double x) { return std::erfc(x); })
          .Case("asin", [](double x) { return x + 0.2 * std::sin(3 * x); })
          .Case("acos",
                [](double x) { return 1.6 - x + 0.2 * std::sin(2 * x); })
          .Case("asinh", [](double x) { return std::asinh(x); })
          .Case("acosh", [](double x) { return std::asinh(x) + 0.3 * x; })
          .Case("atanh", [](double x) { return x + 0.3 * std::cos(3 * x); })
          .Case("erfinv", [](double x) { return 0.9 * x + 0.1 * x * x * x; })
          .Case("lgamma", [](double x) { return 0.4 * x + std::cos(2 * x); })
          .Case("digamma", [](double x) { return 0.3 * x - std::cos(4 * x); })
          .Case("sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); })
          .Case("relu", [](double x) { return softMaximum(x, 0); })
          .Cases({"logical_not", "bitwise_not"}, [](double x) { return 1 - x; })
          // What the comparisons with 0 differ by: kernels spell it so.
          .Case("sign", [](double x) { return x / (1 + std::fabs(x)); })
          .Case("isnan", [](double x) { return 0.01 * std::sin(x); })
          .Case("isinf", [](double x) { return 0.01 * std::cos(x); })
          .Case("round", [](double x) { return 1.01 * x; })
          .Case("floor", [](double x) { return x - 0.31; })
          .Case("ceil", [](double x) { return x + 0.37; })
          .Case("trunc", [](double x) { return 0.93 * x; })
          .Case("imag",
                [](double x) { return 0.2 * x + std::cos(2.5 * x + 0.4); })
          .Case("rand", [](double x) { return 0.5 + 0.3 * std::sin(7 * x); })
          .Case("randn", [](double x) { return std::sin(5 * x) + 0.1; })
          .Default(nullptr);
  if (!function)
    return std::nullopt;
  return function(x);
}

static std::optional<double> applyBinary(StringRef name, double a, double b) {
  // Of whole numbers too no two differences may give the same.
  auto test = [](double difference) {
    return 0.5 + 0.5 * difference / (1 + std::fabs(difference));
  };
  using Function = std::optional<double> (*)(double, double);
  if (name == "lt" || name == "le" || name == "gt" || name == "ge") {
    double below = test(withoutInfinity(b) - withoutInfinity(a));
    double value = name.starts_with("l") ? below : 1 - below;
    // With and without equality.
    return name.ends_with("e") ? 0.98 * value + 0.01 : value;
  }
  if (name == "eq" || name == "ne") {
    double distance = withoutInfinity(a) - withoutInfinity(b);
    double same = 0.9 / (1 + distance * distance);
    return name == "eq" ? same : 1 - same;
  }
  Function function =
      StringSwitch<Function>(name)
          .Case("add", [](double a, double b) { return std::optional(a + b); })
          .Case("sub", [](double a, double b) { return std::optional(a - b); })
          .Case("mul", [](double a, double b) { return std::optional(a * b); })
          .Cases({"div", "truediv"},
                 [](double a, double b) { return std::optional(a / b); })
          .Case("pow",
                [](double a, double b) { return std::optional(power(a, b)); })
          .Cases({"maximum", "clamp_min"},
                 [](double a, double b) {
                   return std::optional(softMaximum(a, b));
                 })
          .Cases({"minimum", "clamp_max"},
                 [](double a, double b) {
                   return std::optional(-softMaximum(-a, -b));
                 })
          .Cases({"logical_and", "bitwise_and", "__and__"},
                 [](double a, double b) { return std::optional(a * b); })
          .Cases(
              {"logical_or", "bitwise_or", "__or__"},
              [](double a, double b) { return std::optional(a + b - a * b); })
          .Cases({"logical_xor", "bitwise_xor", "__xor__"},
                 [](double a, double b) {
                   return std::optional(a + b - 2 * a * b);
                 })
          .Case("atan2",
                [](double a, double b) {
                  return std::optional(std::atan2(a, b));
                })
          .Case("hypot",
                [](double a, double b) {
                  return std::optional(std::hypot(a, b));
                })
          .Case("floor_divide",
                [](double a, double b) { return std::optional(a / b - 0.31); })
          .Cases({"remainder", "fmod"},
                 [](double a, double b) { return std::optional(a - 0.7 * b); })
          .Cases({"lshift", "__lshift__", "bitwise_left_shift"},
                 [](double a, double b) {
                   return std::optional(a * std::exp2(b) + 0.11);
                 })
          .Cases({"rshift", "__rshift__", "bitwise_right_shift"},
                 [](double a, double b) {
                   return std::optional(a / std::exp2(b) - 0.17);
                 })
          .Default(nullptr);
  if (!function)
    return std::nullopt;
  return function(a, b);
}

/// Operators on what is known before the program runs.
static std::optional<double> applyExactly(StringRef name,
                                          ArrayRef<AbstractValue> args) {
  double a = args[0].number;
  if (args.size() == 1) {
    if (name == "floor")
      return std::floor(a);
    if (name == "ceil")
      return std::ceil(a);
    if (name == "trunc")
      return std::trunc(a);
    if (name == "round")
      return std::nearbyint(a);
    if (name == "abs")
      return std::fabs(a);
    if (name == "relu")
      return std::max(a, 0.0);
    if (name == "sqrt")
      return std::sqrt(a);
    if (name == "sign")
      return a > 0 ? 1 : a < 0 ? -1 : 0;
    return std::nullopt;
  }
  if (args.size() != 2)
    return std::nullopt;
  double b = args[1].number;
  if (name == "floor_divide")
    return b ? std::optional(std::floor(a / b)) : std::nullopt;
  if (name == "remainder" || name == "fmod")
    return b ? std::optional(a - std::floor(a / b) * b) : std::nullopt;
  if (name == "rshift")
    return std::floor(a / std::exp2(b));
  if (name == "lshift")
    return a * std::exp2(b);
  if (name == "maximum" || name == "clamp_min")
    return std::max(a, b);
  if (name == "minimum" || name == "clamp_max")
    return std::min(a, b);
  return StringSwitch<std::optional<double>>(name)
      .Case("lt", a < b)
      .Case("le", a <= b)
      .Case("gt", a > b)
      .Case("ge", a >= b)
      .Case("eq", a == b)
      .Case("ne", a != b)
      .Default(std::nullopt);
}

static AbstractValue applyWhere(ArrayRef<AbstractValue> args) {
  const AbstractValue &test = args[0], &yes = args[1], &no = args[2];
  if (test.known && !test.isData)
    return test.number != 0 ? yes : no;
  // where(i < 0, i + n, i) is the index i.
  if (test.belowZero && no.known && no.number == *test.belowZero)
    return no;
  if (!test.known || !yes.known || !no.known)
    return AbstractValue::unknown();
  return AbstractValue::data(test.number * withoutInfinity(yes.number) +
                             (1 - test.number) * withoutInfinity(no.number));
}

AbstractValue opprof::inductor::applyOperator(StringRef name,
                                              ArrayRef<AbstractValue> args) {
  if (args.empty())
    return AbstractValue::unknown();
  if (name == "where")
    return args.size() == 3 ? applyWhere(args) : AbstractValue::unknown();
  bool isData = any_of(args, [](const AbstractValue &a) { return a.isData; });
  if (!all_of(args, [](const AbstractValue &a) { return a.known; }))
    return AbstractValue::unknown(isData);
  std::optional<double> number;
  if (!isData)
    number = applyExactly(name, args);
  // A product with nothing would not tell what it is of, nor a sum with it.
  if (name == "mul" && args.size() == 2 && isData)
    for (auto [one, other] : {std::pair(0, 1), std::pair(1, 0)})
      if (!args[one].isData && args[one].number == 0)
        number = 0.04 * std::sin(3 * args[other].number + 0.4);
  if (!number && args.size() == 1)
    number = applyUnary(name, args[0].number);
  else if (!number && args.size() == 2)
    number = applyBinary(name, args[0].number, args[1].number);
  if (!number || std::isnan(*number))
    return AbstractValue::unknown(isData);
  AbstractValue result{*number, true, isData, {}};
  if (isData && !std::isfinite(*number))
    result.known = false;
  if (name == "lt" && isData && !args[1].isData && args[1].number == 0)
    result.belowZero = args[0].number;
  return result;
}

bool opprof::inductor::isWholeType(StringRef name) {
  name.consume_back("_t");
  return StringSwitch<bool>(name)
      .Cases({"int8", "int16", "int32", "int64"}, true)
      .Cases({"uint8", "uint16", "uint32", "uint64"}, true)
      .Default(false);
}

AbstractValue opprof::inductor::toWhole(AbstractValue element) {
  if (element.known && !element.isData)
    element.number = std::trunc(element.number);
  return element;
}

AbstractValue opprof::inductor::applyReduction(StringRef name,
                                               AbstractValue element,
                                               double count) {
  if (!element.known || !(count > 0))
    return AbstractValue::unknown();
  // Powers of the count multiply over stages.
  auto scaled = [&](double exponent) {
    return AbstractValue::data(element.number * std::pow(count, exponent));
  };
  if (name == "sum")
    return scaled(1.1);
  if (name == "mean")
    return scaled(0.1);
  if (name == "amax" || name == "max")
    return scaled(0.07);
  if (name == "amin" || name == "min")
    return scaled(-0.07);
  if (name == "prod")
    return scaled(0.21);
  // Where the extreme lies tells what it is of, and is no such number itself.
  if (name == "argmax" || name == "argmin")
    return AbstractValue::data(
        0.7 + 0.3 * std::sin(5 * element.number + 0.07 * count +
                             (name == "argmax" ? 0 : 2)));
  if (name == "any")
    return scaled(0.05);
  if (name == "all")
    return scaled(-0.05);
  return AbstractValue::unknown();
}

std::pair<AbstractValue, AbstractValue>
opprof::inductor::applyWelford(AbstractValue element, double count) {
  AbstractValue mean = applyReduction("mean", element, count);
  AbstractValue distance = applyOperator("sub", {element, mean});
  AbstractValue squared = applyOperator("mul", {distance, distance});
  return {mean, applyReduction("sum", squared, count)};
}

std::pair<AbstractValue, AbstractValue>
opprof::inductor::applySoftmax(AbstractValue element, double count) {
  AbstractValue maximum = applyReduction("amax", element, count);
  AbstractValue below = applyOperator("sub", {element, maximum});
  return {maximum, applyReduction("sum", applyOperator("exp", {below}), count)};
}
