//===- DeviceCeilings.cpp - What devices can do at most -------------------===//

#include "opprof/Analysis/DeviceCeilings.h"

using namespace llvm;
using namespace opprof;

static constexpr StringLiteral measured = "measured";
static constexpr StringLiteral datasheet = "datasheet";
static constexpr StringLiteral halfOfBF16 = "half of the measured bf16 rate";

/// Longer names stand before those that they contain.
static constexpr DeviceCeilings table[] = {
    // Measured with a device-to-device copy and with dense bf16 products.
    {"H200",
     {4.3e12, measured},
     {67e12, datasheet},
     {394e12, halfOfBF16},
     {788e12, measured}},
    {"H100 PCIe",
     {2.0e12, datasheet},
     {51e12, datasheet},
     {378e12, datasheet},
     {756e12, datasheet}},
    {"H100 NVL",
     {3.9e12, datasheet},
     {60e12, datasheet},
     {417e12, datasheet},
     {835e12, datasheet}},
    {"H100",
     {3.35e12, datasheet},
     {67e12, datasheet},
     {494e12, datasheet},
     {989e12, datasheet}},
    {"A100-SXM4-80GB",
     {2.039e12, datasheet},
     {19.5e12, datasheet},
     {156e12, datasheet},
     {312e12, datasheet}},
    {"A100 80GB PCIe",
     {1.935e12, datasheet},
     {19.5e12, datasheet},
     {156e12, datasheet},
     {312e12, datasheet}},
    {"A100",
     {1.555e12, datasheet},
     {19.5e12, datasheet},
     {156e12, datasheet},
     {312e12, datasheet}},
};

const DeviceCeilings *opprof::findDeviceCeilings(StringRef deviceName) {
  for (const DeviceCeilings &device : table)
    if (deviceName.contains(device.name))
      return &device;
  return nullptr;
}
