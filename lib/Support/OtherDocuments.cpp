// The keys that tell documents of other tools.

#include "opprof/Support/OtherDocuments.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

StringRef opprof::nameOtherDocument(StringRef key) {
  return StringSwitch<StringRef>(key)
      .Case("$schema", "a profile of another tool, such as speedscope")
      .Case("schema",
            "an execution trace of PyTorch (ExecutionTraceObserver), which "
            "holds operators and not when they ran")
      .Case("segments", "a snapshot of PyTorch's memory")
      .Case("resourceSpans", "a trace of OpenTelemetry")
      .Case("rocprofiler-sdk-tool",
            "a result of rocprofv3, which knows no operators; record with "
            "torch.profiler")
      .Case("samples", "a profile of a CPU's samples")
      .Default("");
}
