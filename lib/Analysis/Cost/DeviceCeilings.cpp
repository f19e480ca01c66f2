// What devices can do at most.

#include "opprof/Analysis/Cost/DeviceCeilings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <string>
#include <vector>

using namespace llvm;
using namespace opprof;

static constexpr StringLiteral kMeasured = "measured";
static constexpr StringLiteral kMeasuredThere = "measured on this device";
static constexpr StringLiteral kDatasheet = "datasheet";
/// The maker has no public sheet; what those state who sell and measure it.
static constexpr StringLiteral kPublished = "published by others";
static constexpr StringLiteral kHalfOfBF16 = "half of the measured bf16 rate";
static constexpr StringLiteral kSameAsBF16 = "the measured bf16 rate";
static constexpr StringLiteral kAssumed = "assumed";
static constexpr Ceiling kNone = {0, "no such unit"};

/// The first fitting entry counts: longer names stand before those that they
/// contain, but for words of kVariants. Rates are dense ones, of sums in fp32
/// where the maker tells them apart. What a launch costs the host is assumed.
/// A sheet's rate is what its units do in a clock, times their clock: the tests
/// hold those to that which nobody here has measured.
static constexpr DeviceCeilings kTable[] = {
    // NVIDIA's data sheets "GB200 NVL72" (per GPU: half of a superchip's) and
    // "DGX B200" (an eighth of the system's); halves of what they state with
    // sparsity.
    // "NVIDIA GB300 NVL72" (an eighteenth of four GPUs' trays) and "DGX B300".
    {"GB300",
     {8.0e12, kDatasheet},
     {80e12, kDatasheet},
     {1250e12, kDatasheet},
     {2500e12, kDatasheet},
     {2500e12, kDatasheet},
     148,
     3000},
    {"B300",
     {8.0e12, kDatasheet},
     {75e12, kDatasheet},
     {1125e12, kDatasheet},
     {2250e12, kDatasheet},
     {2250e12, kDatasheet},
     148,
     3000},
    {"GB200",
     {8.0e12, kDatasheet},
     {80e12, kDatasheet},
     {1250e12, kDatasheet},
     {2500e12, kDatasheet},
     {2500e12, kDatasheet},
     148,
     3000},
    {"B200",
     {8.0e12, kDatasheet},
     {75e12, kDatasheet},
     {1125e12, kDatasheet},
     {2250e12, kDatasheet},
     {2250e12, kDatasheet},
     148,
     3000},
    // "NVIDIA GH200 Grace Hopper Superchip" (with HBM3) and "NVIDIA H200 Tensor
    // Core GPU" (NVL), without sparsity.
    {"GH200",
     {4.0e12, kDatasheet},
     {67e12, kDatasheet},
     {494e12, kDatasheet},
     {989e12, kDatasheet},
     {989e12, kDatasheet},
     132,
     3000},
    {"H200 NVL",
     {4.8e12, kDatasheet},
     {60e12, kDatasheet},
     {417e12, kDatasheet},
     {835e12, kDatasheet},
     {835e12, kDatasheet},
     132,
     3000},
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
    // H20, and what H800 and A800 have of H100 and A100: links between devices
    // are what they lack.
    {"H20",
     {4.0e12, kPublished},
     {44e12, kPublished},
     {74e12, kPublished},
     {148e12, kPublished},
     {148e12, kPublished},
     78,
     3000},
    {"H800 PCIe",
     {2.0e12, kDatasheet},
     {51e12, kDatasheet},
     {378e12, kDatasheet},
     {756e12, kDatasheet},
     {756e12, kDatasheet},
     114,
     3000},
    {"H800",
     {3.35e12, kDatasheet},
     {67e12, kDatasheet},
     {494e12, kDatasheet},
     {989e12, kDatasheet},
     {989e12, kDatasheet},
     132,
     3000},
    {"A800-SXM4-80GB",
     {2.039e12, kDatasheet},
     {19.5e12, kDatasheet},
     {156e12, kDatasheet},
     {312e12, kDatasheet},
     {312e12, kDatasheet},
     108,
     3500},
    {"A800 80GB PCIe",
     {1.935e12, kDatasheet},
     {19.5e12, kDatasheet},
     {156e12, kDatasheet},
     {312e12, kDatasheet},
     {312e12, kDatasheet},
     108,
     3500},
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
    // "NVIDIA RTX 6000 Ada Generation", without sparsity.
    {"RTX 6000 Ada",
     {0.96e12, kDatasheet},
     {91.1e12, kDatasheet},
     {182.1e12, kDatasheet},
     {364.2e12, kDatasheet},
     {364.2e12, kDatasheet},
     142,
     3500},
    // "NVIDIA L4 Tensor Core GPU", without sparsity.
    {"L4",
     {0.3e12, kDatasheet},
     {30.3e12, kDatasheet},
     {60e12, kDatasheet},
     {121e12, kDatasheet},
     {121e12, kDatasheet},
     58,
     3500},
    // "NVIDIA RTX Blackwell GPU Architecture", "NVIDIA Ada GPU Architecture"
    // and "NVIDIA Ampere GA102 GPU Architecture", their tables of
    // specifications: 16-bit products with sums in fp32. GeForce has half of
    // the rate for those.
    {"RTX 5090",
     {1.792e12, kDatasheet},
     {104.8e12, kDatasheet},
     {104.8e12, kDatasheet},
     {209.5e12, kDatasheet},
     {209.5e12, kDatasheet},
     170,
     3500},
    {"RTX 5080",
     {0.96e12, kDatasheet},
     {56.3e12, kDatasheet},
     {56.3e12, kDatasheet},
     {112.6e12, kDatasheet},
     {112.6e12, kDatasheet},
     84,
     3500},
    {"RTX 5070 Ti",
     {0.896e12, kDatasheet},
     {43.9e12, kDatasheet},
     {43.9e12, kDatasheet},
     {87.9e12, kDatasheet},
     {87.9e12, kDatasheet},
     70,
     3500},
    {"RTX 5070",
     {0.672e12, kDatasheet},
     {30.9e12, kDatasheet},
     {30.9e12, kDatasheet},
     {61.7e12, kDatasheet},
     {61.7e12, kDatasheet},
     48,
     3500},
    // NVIDIA's comparisons of GeForce cards: cores, boost clock and bandwidth,
    // with the rates of the same architecture.
    {"RTX 5060 Ti",
     {0.448e12, kDatasheet},
     {23.7e12, kDatasheet},
     {23.7e12, kDatasheet},
     {47.4e12, kDatasheet},
     {47.4e12, kDatasheet},
     36,
     3500},
    {"RTX 5060",
     {0.448e12, kDatasheet},
     {19.2e12, kDatasheet},
     {19.2e12, kDatasheet},
     {38.4e12, kDatasheet},
     {38.4e12, kDatasheet},
     30,
     3500},
    {"RTX 4090",
     {1.008e12, kDatasheet},
     {82.6e12, kDatasheet},
     {82.6e12, kDatasheet},
     {165.2e12, kDatasheet},
     {165.2e12, kDatasheet},
     128,
     3500},
    {"RTX 4080",
     {0.7168e12, kDatasheet},
     {48.7e12, kDatasheet},
     {48.7e12, kDatasheet},
     {97.5e12, kDatasheet},
     {97.5e12, kDatasheet},
     76,
     3500},
    {"RTX 4080 SUPER",
     {0.7363e12, kDatasheet},
     {52.2e12, kDatasheet},
     {52.2e12, kDatasheet},
     {104.4e12, kDatasheet},
     {104.4e12, kDatasheet},
     80,
     3500},
    {"RTX 4070 Ti SUPER",
     {0.672e12, kDatasheet},
     {44.1e12, kDatasheet},
     {44.1e12, kDatasheet},
     {88.2e12, kDatasheet},
     {88.2e12, kDatasheet},
     66,
     3500},
    {"RTX 4070 Ti",
     {0.504e12, kDatasheet},
     {40.1e12, kDatasheet},
     {40.1e12, kDatasheet},
     {80.2e12, kDatasheet},
     {80.2e12, kDatasheet},
     60,
     3500},
    {"RTX 4070 SUPER",
     {0.504e12, kDatasheet},
     {35.5e12, kDatasheet},
     {35.5e12, kDatasheet},
     {71.0e12, kDatasheet},
     {71.0e12, kDatasheet},
     56,
     3500},
    {"RTX 4070",
     {0.504e12, kDatasheet},
     {29.1e12, kDatasheet},
     {29.1e12, kDatasheet},
     {58.3e12, kDatasheet},
     {58.3e12, kDatasheet},
     46,
     3500},
    {"RTX 4060 Ti",
     {0.288e12, kDatasheet},
     {22.1e12, kDatasheet},
     {22.1e12, kDatasheet},
     {44.1e12, kDatasheet},
     {44.1e12, kDatasheet},
     34,
     3500},
    {"RTX 4060",
     {0.272e12, kDatasheet},
     {15.1e12, kDatasheet},
     {15.1e12, kDatasheet},
     {30.2e12, kDatasheet},
     {30.2e12, kDatasheet},
     24,
     3500},
    {"RTX 3090",
     {0.936e12, kDatasheet},
     {35.6e12, kDatasheet},
     {35.6e12, kDatasheet},
     {71e12, kDatasheet},
     {71e12, kDatasheet},
     82,
     3500},
    {"RTX 3090 Ti",
     {1.008e12, kDatasheet},
     {40.0e12, kDatasheet},
     {40.0e12, kDatasheet},
     {80.0e12, kDatasheet},
     {80.0e12, kDatasheet},
     84,
     3500},
    {"RTX 3080",
     {0.76e12, kDatasheet},
     {29.8e12, kDatasheet},
     {29.8e12, kDatasheet},
     {59.5e12, kDatasheet},
     {59.5e12, kDatasheet},
     68,
     3500},
    {"RTX 3080 Ti",
     {0.912e12, kDatasheet},
     {34.1e12, kDatasheet},
     {34.1e12, kDatasheet},
     {68.2e12, kDatasheet},
     {68.2e12, kDatasheet},
     80,
     3500},
    {"RTX 3070 Ti",
     {0.608e12, kDatasheet},
     {21.7e12, kDatasheet},
     {21.7e12, kDatasheet},
     {43.5e12, kDatasheet},
     {43.5e12, kDatasheet},
     48,
     3500},
    {"RTX 3070",
     {0.448e12, kDatasheet},
     {20.3e12, kDatasheet},
     {20.3e12, kDatasheet},
     {40.6e12, kDatasheet},
     {40.6e12, kDatasheet},
     46,
     3500},
    {"RTX 3060 Ti",
     {0.448e12, kDatasheet},
     {16.2e12, kDatasheet},
     {16.2e12, kDatasheet},
     {32.4e12, kDatasheet},
     {32.4e12, kDatasheet},
     38,
     3500},
    {"RTX 3060",
     {0.36e12, kDatasheet},
     {12.7e12, kDatasheet},
     {12.7e12, kDatasheet},
     {25.5e12, kDatasheet},
     {25.5e12, kDatasheet},
     28,
     3500},
    // "AMD Instinct MI300X Accelerator", "MI325X" and "MI300A APU" data sheets:
    // matrix rates without sparsity, vector rate for fp32.
    {"MI325X",
     {6.0e12, kDatasheet},
     {163.4e12, kDatasheet},
     {653.7e12, kDatasheet},
     {1307.4e12, kDatasheet},
     {1307.4e12, kDatasheet},
     304,
     3500},
    {"MI300X",
     {5.3e12, kDatasheet},
     {163.4e12, kDatasheet},
     {653.7e12, kDatasheet},
     {1307.4e12, kDatasheet},
     {1307.4e12, kDatasheet},
     304,
     3500},
    {"MI300A",
     {5.3e12, kDatasheet},
     {122.6e12, kDatasheet},
     {490.3e12, kDatasheet},
     {980.6e12, kDatasheet},
     {980.6e12, kDatasheet},
     228,
     3500},
    // "AMD Instinct MI350X GPU" and "MI355X GPU" data sheets: no tf32.
    {"MI355X",
     {8.0e12, kDatasheet},
     {157.3e12, kDatasheet},
     kNone,
     {2516.6e12, kDatasheet},
     {2516.6e12, kDatasheet},
     256,
     3500},
    {"MI350X",
     {8.0e12, kDatasheet},
     {144.2e12, kDatasheet},
     kNone,
     {2306.9e12, kDatasheet},
     {2306.9e12, kDatasheet},
     256,
     3500},
    // "AMD Instinct MI200 Series Accelerator" and "MI210": rates of matrix
    // products, of fp32 too. A program sees each of the two dies of an MI250 as
    // a device, which has half of what the sheet states. Some drivers name both
    // models: what is the larger one's is a ceiling of either.
    {"MI250X",
     {1.638e12, kDatasheet},
     {47.9e12, kDatasheet},
     kNone,
     {191.5e12, kDatasheet},
     {191.5e12, kDatasheet},
     110,
     3500},
    {"MI250",
     {1.638e12, kDatasheet},
     {45.3e12, kDatasheet},
     kNone,
     {181e12, kDatasheet},
     {181e12, kDatasheet},
     104,
     3500},
    {"MI210",
     {1.638e12, kDatasheet},
     {45.3e12, kDatasheet},
     kNone,
     {181e12, kDatasheet},
     {181e12, kDatasheet},
     104,
     3500},
    // "NVIDIA V100 Tensor Core GPU", SXM2, V100S and PCIe.
    {"V100-SXM2",
     {0.9e12, kDatasheet},
     {15.7e12, kDatasheet},
     kNone,
     kNone,
     {125e12, kDatasheet},
     80,
     4000},
    {"V100S",
     {1.134e12, kDatasheet},
     {16.4e12, kDatasheet},
     kNone,
     kNone,
     {130e12, kDatasheet},
     80,
     4000},
    {"V100",
     {0.9e12, kDatasheet},
     {14e12, kDatasheet},
     kNone,
     kNone,
     {112e12, kDatasheet},
     80,
     4000},
    // "NVIDIA A30 Tensor Core GPU", "NVIDIA A40", "NVIDIA RTX A6000", without
    // sparsity.
    {"A30",
     {0.933e12, kDatasheet},
     {10.3e12, kDatasheet},
     {82e12, kDatasheet},
     {165e12, kDatasheet},
     {165e12, kDatasheet},
     56,
     3500},
    {"A40",
     {0.696e12, kDatasheet},
     {37.4e12, kDatasheet},
     {74.8e12, kDatasheet},
     {149.7e12, kDatasheet},
     {149.7e12, kDatasheet},
     84,
     3500},
    {"RTX A6000",
     {0.768e12, kDatasheet},
     {38.7e12, kDatasheet},
     {77.4e12, kDatasheet},
     {154.8e12, kDatasheet},
     {154.8e12, kDatasheet},
     84,
     3500},
    // "NVIDIA A10G", without sparsity.
    {"A10G",
     {0.6e12, kDatasheet},
     {35e12, kDatasheet},
     {35e12, kDatasheet},
     {70e12, kDatasheet},
     {70e12, kDatasheet},
     80,
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

/// Whether what stands behind an entry's words makes another device of it.
static bool isOtherModel(StringRef rest) {
  if (!rest.consume_front("-") || rest.empty() || !isDigit(rest.front()))
    return false;
  return !rest.drop_while([](char c) { return isDigit(c); }).starts_with("GB");
}

/// Whether `part` stands in `name` as words of their own: an "RTX A1000" is no
/// "A100". A number behind a dash that is no size of memory ("V100-SXM2-32GB")
/// makes another device of it: an "H20-3e" has other memory than an "H20", and
/// an "A40-8Q" is a share of an "A40".
static bool containsWords(StringRef name, StringRef part) {
  for (size_t at = name.find_insensitive(part); at != StringRef::npos;
       at = name.find_insensitive(part, at + 1)) {
    StringRef rest = name.drop_front(at + part.size());
    if ((at == 0 || !isAlnum(name[at - 1])) &&
        (rest.empty() || !isAlnum(rest.front())) && !isOtherModel(rest))
      return true;
  }
  return false;
}

/// Words that make a device another one: an "RTX 4080 SUPER" is no "RTX 4080",
/// and neither is a part of one (MIG, GRID), what is throttled for its case, or
/// what has other memory ("H100 80GB HBM2e", "GH200 144G HBM3e",
/// "A100-SXM-64GB" of one machine alone).
static constexpr StringLiteral kVariants[] = {
    "Ti",   "SUPER", "D",    "Laptop", "Max",   "Mobile", "MIG",
    "GRID", "SXM3",  "FHHL", "HBM2",   "HBM2e", "HBM3e",  "64GB"};

static std::vector<std::string> listVariants(StringRef name) {
  std::vector<std::string> found;
  while (!name.empty()) {
    name = name.drop_while([](char c) { return !isAlnum(c); });
    StringRef word = name.take_while([](char c) { return isAlnum(c); });
    name = name.drop_front(word.size());
    if (llvm::any_of(kVariants, [&](StringRef variant) {
          return word.equals_insensitive(variant);
        }))
      found.push_back(word.lower());
  }
  llvm::sort(found);
  return found;
}

const DeviceCeilings *opprof::findDeviceCeilings(StringRef deviceName) {
  std::vector<std::string> variants = listVariants(deviceName);
  for (const DeviceCeilings &device : kTable)
    if (containsWords(deviceName, device.name) &&
        listVariants(device.name) == variants)
      return &device;
  return nullptr;
}

std::optional<DeviceCeilings> opprof::findDeviceCeilings(const Device &device) {
  bool isCPU = device.kind == "cpu";
  const DeviceCeilings *known =
      isCPU ? nullptr : findDeviceCeilings(device.name);
  if (!device.measured)
    return known ? std::optional(*known) : std::nullopt;
  const DeviceCeilings &other = known ? *known : isCPU ? kAnyCPU : kAnyGPU;
  DeviceCeilings own = other;
  const MeasuredRates &rates = *device.measured;
  own.name = rates.device;
  // What is assumed of any device is no ceiling.
  auto pick = [&](double rate, const Ceiling &otherwise) {
    if (rate > 0)
      return Ceiling{rate, kMeasuredThere};
    return known ? otherwise : kNone;
  };
  own.memory = pick(rates.memory, other.memory);
  own.fp32 = pick(rates.fp32, other.fp32);
  own.tf32 = pick(rates.tf32, other.tf32);
  own.bf16 = pick(rates.bf16, other.bf16);
  own.fp16 = pick(rates.fp16, other.fp16);
  return own;
}

const DeviceCeilings &opprof::assumeDeviceCeilings(StringRef deviceName) {
  if (const DeviceCeilings *known = findDeviceCeilings(deviceName))
    return *known;
  bool isGPU = deviceName.contains_insensitive("nvidia") ||
               deviceName.contains_insensitive("cuda") ||
               deviceName.contains("GPU");
  return isGPU ? kAnyGPU : kAnyCPU;
}
