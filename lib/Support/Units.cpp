// How times, bytes, shares and counts are printed.

#include "opprof/Support/Units.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <charconv>
#include <cmath>
#include <iterator>

using namespace llvm;
using namespace opprof;

/// Three digits that count: "1.23", "12.3", "123".
static std::string formatThreeDigits(double value) {
  double size = std::abs(value);
  return formatv(size < 9.995   ? "{0:f2}"
                 : size < 99.95 ? "{0:f1}"
                                : "{0:f0}",
                 value);
}

/// A value that three digits would print as 1000 goes to the next unit.
static constexpr double kNextUnit = 999.5;

static std::string formatFixedTime(int64_t nanoseconds) {
  double value = static_cast<double>(nanoseconds);
  if (nanoseconds < 1'000)
    return formatv("{0} ns", nanoseconds);
  if (nanoseconds < 1'000'000)
    return formatv("{0:f1} µs", value / 1e3);
  if (nanoseconds < 1'000'000'000)
    return formatv("{0:f2} ms", value / 1e6);
  return formatv("{0:f2} s", value / 1e9);
}

std::string opprof::formatTime(int64_t nanoseconds, TimeDigits digits) {
  if (digits == TimeDigits::Fixed)
    return formatFixedTime(nanoseconds);
  double value = static_cast<double>(nanoseconds);
  double size = std::abs(value);
  if (size < 1e3)
    return formatv("{0} ns", nanoseconds);
  if (size < kNextUnit * 1e3)
    return formatThreeDigits(value / 1e3) + " µs";
  if (size < kNextUnit * 1e6)
    return formatThreeDigits(value / 1e6) + " ms";
  return formatThreeDigits(value / 1e9) + " s";
}

std::string opprof::formatBytes(uint64_t bytes) {
  static constexpr StringLiteral kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= kNextUnit && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  if (!unit)
    return formatv("{0} {1}", bytes, bytes == 1 ? "byte" : "bytes");
  return formatThreeDigits(value) + " " + kUnits[unit].str();
}

std::string opprof::formatAmount(double value) {
  static constexpr StringLiteral kPrefixes[] = {"", " k", " M", " G", " T"};
  size_t prefix = 0;
  while (std::abs(value) >= kNextUnit && prefix + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++prefix;
  }
  bool isWhole = value == std::round(value) && !prefix;
  return (isWhole ? formatv("{0:f0}", value).str() : formatThreeDigits(value)) +
         kPrefixes[prefix].str();
}

std::string opprof::formatPrefix(double value) {
  std::string amount = formatAmount(value);
  return llvm::isDigit(amount.back()) ? amount + " " : amount;
}

std::string opprof::formatPercent(double percent) {
  return formatv("{0:f1} %", percent);
}

double opprof::percentOf(double part, double whole) {
  return whole > 0 ? std::round(1000 * part / whole) / 10 : 0;
}

std::string opprof::formatCount(uint64_t number, StringRef singular,
                                StringRef plural) {
  return formatv("{0} {1}", number, number == 1 ? singular : plural);
}

std::string opprof::formatShortest(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, std::end(digits), value).ptr};
}
