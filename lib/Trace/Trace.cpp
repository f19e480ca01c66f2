// What a recording of a program holds.

#include "opprof/Trace/Trace.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstring>
#include <tuple>

using namespace llvm;
using namespace opprof::trace;

static auto textsOf(const OperatorInputs &inputs) {
  return std::tie(inputs.kernelHash, inputs.firstType, inputs.dims,
                  inputs.types, inputs.values);
}

StringRef Trace::intern(StringRef text) {
  if (text.empty())
    return strings.save(text);
  uint64_t begin = 0, end = 0;
  size_t some = std::min(text.size(), sizeof(begin));
  std::memcpy(&begin, text.begin(), some);
  std::memcpy(&end, text.end() - some, some);
  // An odd number whose bits are mixed; its product's upper bits are the place.
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
  static_assert(llvm::isPowerOf2_64(std::tuple_size_v<decltype(recentTexts)>));
  uint64_t mixed = ((begin ^ text.size()) * kMix ^ end) * kMix;
  StringRef &recent =
      recentTexts[mixed >> (64 - llvm::Log2_64(recentTexts.size()))];
  if (recent != text)
    recent = strings.save(text);
  return recent;
}

ThreadId Trace::addThread(StringRef process) {
  auto [it, isNew] = processIds.try_emplace(process, processes.size());
  if (isNew)
    processes.push_back(process.str());
  threads.push_back(it->second);
  return threads.size() - 1;
}

uint32_t Trace::placeOf(const OperatorInputs &inputs) {
  if (textsOf(inputs) == textsOf(operatorInputs.front()))
    return 0;
  uint64_t hash = hash_combine(inputs.kernelHash.data(), inputs.dims.data(),
                               inputs.types.data(), inputs.values.data());
  // The largest numbers are DenseMap's own.
  auto [it, isNew] = inputPlaces.try_emplace(hash / 4, operatorInputs.size());
  if (!isNew && textsOf(operatorInputs[it->second]) == textsOf(inputs))
    return it->second;
  // Others of the same hash stand there more than once, which is rare, and
  // costs room alone.
  operatorInputs.push_back(inputs);
  return operatorInputs.size() - 1;
}
