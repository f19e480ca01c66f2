// The plots of the HTML page, with their style and script, and its one escaper.

#ifndef OPPROF_LIB_REPORT_HTMLPLOTS_H
#define OPPROF_LIB_REPORT_HTMLPLOTS_H

#include "opprof/Findings/RooflinePlot.h"
#include "opprof/Report/ReportModel.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>

namespace opprof::report {

/// `text` as the content of an element or of an attribute in quotes.
std::string escape(llvm::StringRef text);

extern const llvm::StringLiteral kPlotStyle;
extern const llvm::StringLiteral kPlotScript;

/// The id of the row of a table that a point stands for; empty without.
using RowOf = std::function<std::string(const RooflinePoint &)>;

/// Rates of arithmetic over what kernels do for each byte, under what the
/// device allows; and which kernels are not there.
void printRooflinePlot(const ReportModel &model, const RowOf &rowOf,
                       llvm::raw_ostream &os);

/// Kernel time by module, inside of it by operator or node, and by kernel.
void printFlame(const ReportModel &model, llvm::raw_ostream &os);

/// What tensors held on a device over the time of the recording.
void printHeldBytes(const profile::TensorMemory &memory, llvm::raw_ostream &os);

} // namespace opprof::report

#endif // OPPROF_LIB_REPORT_HTMLPLOTS_H
