// opprof-lsp-server: editor support for opprof's dialects.

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Dialect/Prof/IR/Prof.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry
      .insert<opprof::fx::FXDialect, opprof::inductor::InductorDialect,
              opprof::prof::ProfDialect, mlir::transform::TransformDialect>();
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
