// --print-slowest: the nodes and launches that take the most time.

#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Dialect/Prof/Transforms/Passes.h"

#include "llvm/Support/FormatVariadic.h"

namespace opprof::prof {
#define GEN_PASS_DEF_PRINTSLOWESTPASS
#include "opprof/Dialect/Prof/Transforms/Passes.h.inc"
} // namespace opprof::prof

using namespace mlir;
using namespace opprof;
using namespace opprof::prof;

namespace {
struct Row {
  double ns = 0;
  std::string name;
  std::string module;
  std::string source;
};

struct PrintSlowestPass
    : public opprof::prof::impl::PrintSlowestPassBase<PrintSlowestPass> {
  using Base::Base;

  void runOnOperation() override;

private:
  void print(StringRef title, std::vector<Row> rows, llvm::raw_ostream &os);
};
} // namespace

static Row getNodeRow(Operation *op, double ns) {
  StringRef name = fx::getNodeName(op);
  StringRef graph = SymbolTable::getSymbolName(op->getParentOp()).getValue();
  std::string shown = ("@" + graph + "::@" + name).str();
  return {ns, std::move(shown), fx::getModulePath(op->getLoc()).str(),
          fx::getSourceText(op->getLoc())};
}

/// Module and source are those of the first exported node that has any.
static Row getLaunchRow(inductor::ProgramOp program, inductor::LaunchOp launch,
                        double ns, fx::NodeSymbols &symbols) {
  Row row;
  row.ns = ns;
  row.name = llvm::formatv("{0} {1} {2}", program.getGraphAttr(),
                           launch.getIndex(), launch.getKernel());
  for (auto node : launch.getNodes().getAsRange<inductor::NodeAttr>()) {
    if (row.module.empty() && node.getModule())
      row.module = node.getModule().getValue();
    if (row.source.empty() && node.getSource())
      row.source = node.getSource().getValue();
    const fx::NodePlace *place = symbols.lookup(node.getNode());
    if (!place || !place->location)
      continue;
    Location location = Location(place->location);
    if (row.module.empty())
      row.module = fx::getModulePath(location);
    if (row.source.empty())
      row.source = fx::getSourceText(location);
  }
  return row;
}

void PrintSlowestPass::print(StringRef title, std::vector<Row> rows,
                             llvm::raw_ostream &os) {
  // Equal times stay in the order of the program.
  llvm::stable_sort(rows,
                    [](const Row &a, const Row &b) { return a.ns > b.ns; });
  SummaryAttr summary = getSummary(getOperation());
  double total = summary ? summary.getPerStep(summary.getKernelNs()) : 0;
  os << llvm::formatv("{0,12}  {1,6}  {2}\n", "us a step", "share", title);
  for (const Row &row :
       llvm::ArrayRef(rows).take_front(std::min<size_t>(count, rows.size()))) {
    os << llvm::formatv("{0,12:f2}  ", row.ns / 1000);
    if (total > 0)
      os << llvm::formatv("{0,4:f1} %", 100 * row.ns / total);
    else
      os << "      ";
    os << "  " << row.name;
    if (!row.module.empty())
      os << "  " << row.module;
    if (!row.source.empty())
      os << "  " << row.source;
    os << '\n';
  }
}

void PrintSlowestPass::runOnOperation() {
  if (count < 1) {
    emitError(getOperation().getLoc())
        << "--print-slowest=" << count.getValue()
        << ": give the number of rows, at least 1";
    return signalPassFailure();
  }
  fx::NodeSymbols symbols(getOperation());
  std::vector<Row> nodes, launches;
  for (Operation *graph : symbols.getGraphs())
    for (Operation &op : graph->getRegion(0).front())
      if (std::optional<double> ns = getTime(&op))
        nodes.push_back(getNodeRow(&op, *ns));
  for (auto program : getOperation().getOps<inductor::ProgramOp>())
    for (auto launch : program.getBody().getOps<inductor::LaunchOp>())
      if (std::optional<double> ns = getTime(launch))
        launches.push_back(getLaunchRow(program, launch, *ns, symbols));
  if (nodes.empty() && launches.empty()) {
    emitError(getOperation().getLoc())
        << "the module holds no times: run --attach-profile=FILE first";
    return signalPassFailure();
  }
  print("node", std::move(nodes), llvm::errs());
  if (!launches.empty())
    print("launch", std::move(launches), llvm::errs());
}
