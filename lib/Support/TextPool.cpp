// Keeps one of equal texts.

#include "opprof/Support/TextPool.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstring>

using namespace llvm;
using namespace opprof;

StringRef TextPool::save(StringRef text) {
  if (text.empty())
    return strings.save(text);
  uint64_t begin = 0, end = 0;
  size_t some = std::min(text.size(), sizeof(begin));
  std::memcpy(&begin, text.begin(), some);
  std::memcpy(&end, text.end() - some, some);
  // An odd number whose bits are mixed; its product's upper bits are the place.
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  constexpr size_t kPlaces = std::tuple_size_v<decltype(recent)>;
  static_assert(llvm::isPowerOf2_64(kPlaces));
  uint64_t mixed = ((begin ^ text.size()) * kMix ^ end) * kMix;
  StringRef &last = recent[mixed >> (64 - llvm::ConstantLog2<kPlaces>())];
  if (last != text)
    last = strings.save(text);
  return last;
}
