// What devices can do at most.

#include "opprof/Analysis/Cost/DeviceCeilings.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace opprof;

static constexpr StringLiteral kMeasured = "measured";
static constexpr StringLiteral kDatasheet = "datasheet";
static constexpr StringLiteral kHalfOfBF16 = "half of the measured bf16 rate";
static constexpr StringLiteral kSameAsBF16 = "the measured bf16 rate";
static constexpr StringLiteral kAssumed = "assumed";
static constexpr Ceiling kNone = {0, "no such unit"};

/// The first fitting entry counts: longer names stand before those that they
/// contain. Rates are dense ones. What a launch costs the host is assumed.
static constexpr DeviceCeilings kTable[] = {
    // Measured with a device-to-device copy and with dense bf16 products.
    {"H200",
     {4.3e12, kMeasured},
     {67e12, kDatasheet},
     {394e12, kHalfOfBF16},
     {788e12, kMeasured},
     {788e12, kSameAsBF16},
     132,
     3000},
    {"H100 PCIe",
     {2.0e12, kDatasheet},
     {51e12, kDatasheet},
     {378e12, kDatasheet},
     {756e12, kDatasheet},
     {756e12, kDatasheet},
     114,
     3000},
    {"H100 NVL",
     {3.9e12, kDatasheet},
     {60e12, kDatasheet},
     {417e12, kDatasheet},
     {835e12, kDatasheet},
     {835e12, kDatasheet},
     132,
     3000},
    {"H100",
     {3.35e12, kDatasheet},
     {67e12, kDatasheet},
     {494e12, kDatasheet},
     {989e12, kDatasheet},
     {989e12, kDatasheet},
     132,
     3000},
    {"A100-SXM4-80GB",
     {2.039e12, kDatasheet},
     {19.5e12, kDatasheet},
     {156e12, kDatasheet},
     {312e12, kDatasheet},
     {312e12, kDatasheet},
     108,
     3500},
    {"A100 80GB PCIe",
     {1.935e12, kDatasheet},
     {19.5e12, kDatasheet},
     {156e12, kDatasheet},
     {312e12, kDatasheet},
     {312e12, kDatasheet},
     108,
     3500},
    {"A100",
     {1.555e12, kDatasheet},
     {19.5e12, kDatasheet},
     {156e12, kDatasheet},
     {312e12, kDatasheet},
     {312e12, kDatasheet},
     108,
     3500},
    {"L40S",
     {0.864e12, kDatasheet},
     {91.6e12, kDatasheet},
     {183e12, kDatasheet},
     {362e12, kDatasheet},
     {362e12, kDatasheet},
     142,
     3500},
    {"L40",
     {0.864e12, kDatasheet},
     {90.5e12, kDatasheet},
     {90.5e12, kDatasheet},
     {181e12, kDatasheet},
     {181e12, kDatasheet},
     142,
     3500},
    {"A10",
     {0.6e12, kDatasheet},
     {31.2e12, kDatasheet},
     {62.5e12, kDatasheet},
     {125e12, kDatasheet},
     {125e12, kDatasheet},
     72,
     3500},
    {"T4",
     {0.32e12, kDatasheet},
     {8.1e12, kDatasheet},
     kNone,
     kNone,
     {65e12, kDatasheet},
     40,
     4000},
};

/// For predictions about devices that are not in the table.
static constexpr DeviceCeilings kAnyGPU = {"cuda",
                                           {1e12, kAssumed},
                                           {20e12, kAssumed},
                                           {100e12, kAssumed},
                                           {200e12, kAssumed},
                                           {200e12, kAssumed},
                                           100,
                                           3500};
static constexpr DeviceCeilings kAnyCPU = {"cpu",
                                           {2e10, kAssumed},
                                           {1.5e11, kAssumed},
                                           kNone,
                                           {3e11, kAssumed},
                                           kNone,
                                           1,
                                           1500,
                                           /*isGPU=*/false};

/// Whether `part` stands in `name` as words of their own: an "RTX A1000" is no
/// "A100".
static bool containsWords(StringRef name, StringRef part) {
  for (size_t at = name.find_insensitive(part); at != StringRef::npos;
       at = name.find_insensitive(part, at + 1)) {
    StringRef rest = name.drop_front(at + part.size());
    if ((at == 0 || !isAlnum(name[at - 1])) &&
        (rest.empty() || !isAlnum(rest.front())))
      return true;
  }
  return false;
}

const DeviceCeilings *opprof::findDeviceCeilings(StringRef deviceName) {
  for (const DeviceCeilings &device : kTable)
    if (containsWords(deviceName, device.name))
      return &device;
  return nullptr;
}

const DeviceCeilings &opprof::assumeDeviceCeilings(StringRef deviceName) {
  if (const DeviceCeilings *known = findDeviceCeilings(deviceName))
    return *known;
  bool isGPU = deviceName.contains_insensitive("nvidia") ||
               deviceName.contains_insensitive("cuda") ||
               deviceName.contains("GPU");
  return isGPU ? kAnyGPU : kAnyCPU;
}
