// What the fuzzers of graph readers share.

#ifndef OPPROF_UNITTESTS_FUZZ_FXFUZZING_H
#define OPPROF_UNITTESTS_FUZZ_FXFUZZING_H

#include "Fuzzing.h"

#include "opprof/Dialect/FX/IR/FX.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

/// A context with the fx dialect that says nothing. One a run: the uniqued
/// attributes of all inputs would pile up in one for all.
class QuietContext : public mlir::MLIRContext {
public:
  QuietContext()
      : MLIRContext(Threading::DISABLED),
        silent(this, [](mlir::Diagnostic &) { return mlir::success(); }) {
    loadDialect<opprof::fx::FXDialect>();
  }

private:
  mlir::ScopedDiagnosticHandler silent;
};

#endif // OPPROF_UNITTESTS_FUZZ_FXFUZZING_H
