// Makes the passes on profiles known.

#include "opprof/Dialect/Prof/Transforms/Passes.h"
#include "opprof/Support/ToolOptions.h"

void opprof::prof::registerProfPasses() {
  registerInsertNVTXMarkersPass();
  registerStripProfilePass();
  registerPassWithValue([] { return createAttachProfilePass(); }, "path");
  registerPassWithValue([] { return createPrintSlowestPass(); }, "count");
}
