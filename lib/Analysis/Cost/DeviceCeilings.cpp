//===- DeviceCeilings.cpp - What devices can do at most -------------------===//

#include "opprof/Analysis/Cost/DeviceCeilings.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace opprof;

static constexpr StringLiteral measured = "measured";
static constexpr StringLiteral datasheet = "datasheet";
static constexpr StringLiteral halfOfBF16 = "half of the measured bf16 rate";
static constexpr StringLiteral sameAsBF16 = "the measured bf16 rate";
static constexpr StringLiteral assumed = "assumed";
static constexpr Ceiling none = {0, "no such unit"};

/// The first fitting entry counts: longer names stand before those that they
/// contain. Rates are dense ones. What a launch costs the host is assumed.
static constexpr DeviceCeilings table[] = {
    // Measured with a device-to-device copy and with dense bf16 products.
    {"H200",
     {4.3e12, measured},
     {67e12, datasheet},
     {394e12, halfOfBF16},
     {788e12, measured},
     {788e12, sameAsBF16},
     132,
     3000},
    {"H100 PCIe",
     {2.0e12, datasheet},
     {51e12, datasheet},
     {378e12, datasheet},
     {756e12, datasheet},
     {756e12, datasheet},
     114,
     3000},
    {"H100 NVL",
     {3.9e12, datasheet},
     {60e12, datasheet},
     {417e12, datasheet},
     {835e12, datasheet},
     {835e12, datasheet},
     132,
     3000},
    {"H100",
     {3.35e12, datasheet},
     {67e12, datasheet},
     {494e12, datasheet},
     {989e12, datasheet},
     {989e12, datasheet},
     132,
     3000},
    {"A100-SXM4-80GB",
     {2.039e12, datasheet},
     {19.5e12, datasheet},
     {156e12, datasheet},
     {312e12, datasheet},
     {312e12, datasheet},
     108,
     3500},
    {"A100 80GB PCIe",
     {1.935e12, datasheet},
     {19.5e12, datasheet},
     {156e12, datasheet},
     {312e12, datasheet},
     {312e12, datasheet},
     108,
     3500},
    {"A100",
     {1.555e12, datasheet},
     {19.5e12, datasheet},
     {156e12, datasheet},
     {312e12, datasheet},
     {312e12, datasheet},
     108,
     3500},
    {"L40S",
     {0.864e12, datasheet},
     {91.6e12, datasheet},
     {183e12, datasheet},
     {362e12, datasheet},
     {362e12, datasheet},
     142,
     3500},
    {"L40",
     {0.864e12, datasheet},
     {90.5e12, datasheet},
     {90.5e12, datasheet},
     {181e12, datasheet},
     {181e12, datasheet},
     142,
     3500},
    {"A10",
     {0.6e12, datasheet},
     {31.2e12, datasheet},
     {62.5e12, datasheet},
     {125e12, datasheet},
     {125e12, datasheet},
     72,
     3500},
    {"T4",
     {0.32e12, datasheet},
     {8.1e12, datasheet},
     none,
     none,
     {65e12, datasheet},
     40,
     4000},
};

/// For predictions about devices that are not in the table.
static constexpr DeviceCeilings anyGPU = {"cuda",
                                          {1e12, assumed},
                                          {20e12, assumed},
                                          {100e12, assumed},
                                          {200e12, assumed},
                                          {200e12, assumed},
                                          100,
                                          3500};
static constexpr DeviceCeilings anyCPU = {"cpu",
                                          {2e10, assumed},
                                          {1.5e11, assumed},
                                          none,
                                          {3e11, assumed},
                                          none,
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
  for (const DeviceCeilings &device : table)
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
  return isGPU ? anyGPU : anyCPU;
}
