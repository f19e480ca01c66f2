// Whether two sets of repeated times differ.

#include "opprof/Compare/Statistics.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <random>

using namespace llvm;
using namespace opprof;
using namespace opprof::compare;

double compare::meanOf(ArrayRef<double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

static size_t countTrimmed(size_t repeats) {
  return static_cast<size_t>(kTrim * static_cast<double>(repeats));
}

TrimmedMean compare::trimmedMean(ArrayRef<double> values) {
  assert(!values.empty() && "no mean of nothing");
  std::vector<double> sorted(values.begin(), values.end());
  llvm::sort(sorted);
  size_t trimmed = countTrimmed(sorted.size());
  TrimmedMean result;
  result.kept = sorted.size() - 2 * trimmed;
  ArrayRef<double> kept = ArrayRef(sorted).slice(trimmed, result.kept);
  result.mean = meanOf(kept);
  if (result.kept < 2)
    return result;
  // What was left out counts as the nearest that was not.
  for (size_t i = 0; i < trimmed; ++i) {
    sorted[i] = kept.front();
    sorted[sorted.size() - 1 - i] = kept.back();
  }
  double mean = meanOf(sorted);
  double squares = 0;
  for (double value : sorted)
    squares += (value - mean) * (value - mean);
  double count = static_cast<double>(result.kept);
  result.squaredError = squares / (count * (count - 1));
  return result;
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
static double betaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kEnough = 1e-15;
  auto apart = [](double value) {
    return std::abs(value) < kTiny ? kTiny : value;
  };
  double c = 1, d = 1 / apart(1 - (a + b) * x / (a + 1)), result = d;
  for (int i = 1; i < 1000; ++i) {
    for (double factor :
         {i * (b - i) * x / ((a + 2 * i - 1) * (a + 2 * i)),
          -(a + i) * (a + b + i) * x / ((a + 2 * i) * (a + 2 * i + 1))}) {
      d = 1 / apart(1 + factor * d);
      c = apart(1 + factor / c);
      result *= c * d;
    }
    if (std::abs(c * d - 1) < kEnough)
      break;
  }
  return result;
}

/// The regularized incomplete beta function.
static double incompleteBeta(double a, double b, double x) {
  if (x <= 0)
    return 0;
  if (x >= 1)
    return 1;
  double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                          a * std::log(x) + b * std::log1p(-x));
  // Either fraction gives the value; each converges fast on its own side.
  return x < (a + 1) / (a + b + 2) ? front * betaFraction(a, b, x) / a
                                   : 1 - front * betaFraction(b, a, 1 - x) / b;
}

double compare::studentQuantile(double tail, double freedom) {
  assert(tail > 0 && tail <= 0.5 && freedom > 0 && "no such quantile");
  auto tailOf = [&](double t) {
    return 0.5 * incompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t));
  };
  double low = 0, high = 1;
  while (tailOf(high) > tail && high < 1e12)
    high *= 2;
  while (high - low > 1e-12 * high) {
    double middle = (low + high) / 2;
    if (middle == low || middle == high)
      break;
    (tailOf(middle) > tail ? low : high) = middle;
  }
  return high;
}

std::optional<double> compare::marginOfDifference(const TrimmedMean &a,
                                                  const TrimmedMean &b,
                                                  double level) {
  if (a.kept < 2 || b.kept < 2)
    return std::nullopt;
  double squared = a.squaredError + b.squaredError;
  if (squared <= 0)
    return 0;
  double spread =
      a.squaredError * a.squaredError / static_cast<double>(a.kept - 1) +
      b.squaredError * b.squaredError / static_cast<double>(b.kept - 1);
  return studentQuantile(level / 2, squared * squared / spread) *
         std::sqrt(squared);
}

double compare::correlationOfNeighbours(ArrayRef<double> values) {
  if (values.size() < 4)
    return 0;
  double mean = meanOf(values);
  double together = 0, alone = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    alone += (values[i] - mean) * (values[i] - mean);
    if (i)
      together += (values[i] - mean) * (values[i - 1] - mean);
  }
  return alone > 0 ? std::clamp(together / alone, 0.0, 0.9) : 0;
}

//===----------------------------------------------------------------------===//
// Bootstrap
//===----------------------------------------------------------------------===//

static std::vector<uint16_t> draw(size_t repeats, std::mt19937_64 &random) {
  std::vector<uint16_t> counts(Bootstrap::kDraws * repeats);
  for (size_t drawn = 0; drawn < Bootstrap::kDraws; ++drawn)
    for (size_t i = 0; i < repeats; ++i)
      // The libraries' distributions differ, and what a comparison says must
      // not.
      ++counts[drawn * repeats + random() % repeats];
  return counts;
}

Bootstrap::Bootstrap(size_t repeatsOfA, size_t repeatsOfB) {
  std::mt19937_64 random(1);
  drawsOfA = draw(repeatsOfA, random);
  drawsOfB = draw(repeatsOfB, random);
}

/// The trimmed mean of each draw.
static std::vector<double> redraw(ArrayRef<double> values,
                                  ArrayRef<uint16_t> draws) {
  size_t repeats = values.size(), trimmed = countTrimmed(repeats);
  std::vector<size_t> order(repeats);
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> means;
  means.reserve(draws.size() / repeats);
  for (; !draws.empty(); draws = draws.drop_front(repeats)) {
    // Of the drawn ones, in order, those from `trimmed` on.
    size_t passed = 0, end = repeats - trimmed;
    double sum = 0;
    for (size_t place : order) {
      size_t next = passed + draws[place];
      size_t from = std::max(passed, trimmed), to = std::min(next, end);
      if (from < to)
        sum += values[place] * static_cast<double>(to - from);
      passed = next;
    }
    means.push_back(sum / static_cast<double>(end - trimmed));
  }
  return means;
}

std::pair<double, double> Bootstrap::interval(ArrayRef<double> a,
                                              ArrayRef<double> b) const {
  std::vector<double> differences = redraw(b, drawsOfB);
  for (auto [difference, mean] :
       llvm::zip_equal(differences, redraw(a, drawsOfA)))
    difference -= mean;
  llvm::sort(differences);
  constexpr size_t kLeftOut = kDraws * 25 / 1000;
  return {differences[kLeftOut], differences[kDraws - 1 - kLeftOut]};
}
