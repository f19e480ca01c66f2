// What devices can do at most. The one table of peak rates, which roofline
// classes are stated against and predictions are made with. Each number says
// where it is from.

#ifndef OPPROF_ANALYSIS_COST_DEVICECEILINGS_H
#define OPPROF_ANALYSIS_COST_DEVICECEILINGS_H

#include "opprof/Support/Recording.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace opprof {

/// A peak rate, in operations or bytes a second.
struct Ceiling {
  double rate = 0;
  /// "measured", "datasheet" or how it follows from another number.
  llvm::StringLiteral origin = "";
};

struct DeviceCeilings {
  /// What a device's name has to contain; of a device that was measured, its
  /// own, which lives as long as that.
  llvm::StringRef name;
  Ceiling memory;
  /// Without tensor cores.
  Ceiling fp32;
  /// Dense matrix products on tensor cores; 0 where the device has none for the
  /// type.
  Ceiling tf32;
  Ceiling bf16;
  Ceiling fp16;
  /// Processors that tiles of a product are spread over.
  unsigned multiprocessors = 1;
  /// What one more launch costs the host.
  double launchNs = 0;
  bool isGPU = true;
};

/// Null for a device that is not in the table, a CPU for one.
const DeviceCeilings *findDeviceCeilings(llvm::StringRef deviceName);

/// What was measured on the device, and what was not by the table; absent for
/// one of which neither knows anything.
std::optional<DeviceCeilings> findDeviceCeilings(const Device &device);

/// The same, and for other devices ("cuda", "cpu", an unknown name) what
/// predictions assume of any.
const DeviceCeilings &assumeDeviceCeilings(llvm::StringRef deviceName);

} // namespace opprof

#endif // OPPROF_ANALYSIS_COST_DEVICECEILINGS_H
