// opprof-translate: reads foreign files into MLIR and writes MLIR as other
// formats.

#include "opprof/Driver/ProfileTranslation.h"
#include "opprof/Report/Report.h"
#include "opprof/Support/ToolOptions.h"
#include "opprof/Target/FXJSON/FXJSON.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"
#include "opprof/Target/PT2/PT2.h"
#include "opprof/Target/Python/PythonEmitter.h"
#include "opprof/Target/TransformScript/TransformScript.h"

#include "mlir/Support/LogicalResult.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

int main(int argc, char **argv) {
  opprof::fx::registerFXJSONTranslations();
  opprof::fx::registerPT2Translation();
  opprof::fx::registerPythonTranslation();
  opprof::inductor::registerInductorTranslations();
  opprof::profile::registerProfileTranslations();
  opprof::fx::registerEmitRewriteTranslation();
  opprof::report::registerReportTranslations();

  opprof::printLocationsByDefault();
  return mlir::failed(
      mlir::mlirTranslateMain(argc, argv, "opprof's translation driver\n"));
}
