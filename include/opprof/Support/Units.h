// How times, bytes, shares and counts are printed. The one place that puts
// units to numbers that people read.

#ifndef OPPROF_SUPPORT_UNITS_H
#define OPPROF_SUPPORT_UNITS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace opprof {

/// How many digits a time has. Tables have three that count, so that a column
/// of them takes one width. Sentences have as many behind the point as the unit
/// takes, so that two times of one unit can be set against each other.
enum class TimeDigits : uint8_t {
  Three, ///< "543 µs", "5.43 ms"
  Fixed, ///< "543.2 µs", "5.43 ms"
};

std::string formatTime(int64_t nanoseconds,
                       TimeDigits digits = TimeDigits::Three);

/// "1.50 GB".
std::string formatBytes(uint64_t bytes);

/// "1.53 G": an amount without a unit of its own.
std::string formatAmount(double value);

/// "1.53 G", "843 ": an amount that a unit follows at once.
std::string formatPrefix(double value);

/// "61.2 %", of a value in percent.
std::string formatPercent(double percent);

/// `part` of `whole` in percent, rounded to tenths; 0 where there is no whole.
double percentOf(double part, double whole);

/// "1 launch" or "3 launches".
std::string formatCount(uint64_t number, llvm::StringRef singular,
                        llvm::StringRef plural);

/// The shortest decimal number that is read back as `value`, for files:
/// "0.001", "1e-06".
std::string formatShortest(double value);

} // namespace opprof

#endif // OPPROF_SUPPORT_UNITS_H
