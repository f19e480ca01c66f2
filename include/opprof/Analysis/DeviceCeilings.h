//===- DeviceCeilings.h - What devices can do at most -----------*- C++ -*-===//
//
// The one table of peak rates that roofline classes are stated against. Each
// number says where it is from.
//
//===----------------------------------------------------------------------===//

#ifndef OPPROF_ANALYSIS_DEVICECEILINGS_H
#define OPPROF_ANALYSIS_DEVICECEILINGS_H

#include "llvm/ADT/StringRef.h"

namespace opprof {

/// A peak rate, in operations or bytes a second.
struct Ceiling {
  double rate = 0;
  /// "measured", "datasheet" or how it follows from another number.
  llvm::StringLiteral origin = "";
};

struct DeviceCeilings {
  /// What a device's name has to contain.
  llvm::StringLiteral name;
  Ceiling memory;
  /// Without tensor cores.
  Ceiling fp32;
  /// Dense matrix products on tensor cores.
  Ceiling tf32;
  Ceiling bf16;
};

/// Null for a device that is not in the table, a CPU for one.
const DeviceCeilings *findDeviceCeilings(llvm::StringRef deviceName);

} // namespace opprof

#endif // OPPROF_ANALYSIS_DEVICECEILINGS_H
