// Every dialect and extension that a file of opprof's may hold.

#include "opprof/Dialect/Dialects.h"
#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Dialect/Prof/IR/Prof.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"

void opprof::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<fx::FXDialect, inductor::InductorDialect, prof::ProfDialect,
                  mlir::transform::TransformDialect>();
  fx::registerTransformExtension(registry);
}
