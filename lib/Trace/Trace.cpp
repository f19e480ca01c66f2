// What a recording of a program holds.

#include "opprof/Trace/Trace.h"

#include "llvm/ADT/Hashing.h"

#include <tuple>

using namespace llvm;
using namespace opprof::trace;

static auto textsOf(const OperatorInputs &inputs) {
  return std::tie(inputs.kernelHash, inputs.firstType, inputs.dims,
                  inputs.types, inputs.values);
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
