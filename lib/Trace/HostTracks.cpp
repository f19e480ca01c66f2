// What the host did in a recording, as JSON: operators and ranges, calls of
// CUDA, frames of modules and of the program's own functions, what Python did
// besides, and what the profiler took.

#include "opprof/Trace/HostTracks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;

namespace {
class Printer {
public:
  Printer(const Trace &trace, raw_ostream &os) : trace(trace), out(os) {}

  void print() {
    out.object([&] {
      out.attributeArray("processes", [&] {
        for (StringRef name : trace.processes)
          text(name);
      });
      out.attributeArray("threads", [&] {
        for (ProcessId process : trace.threads)
          out.value(process);
      });
      out.attributeArray("events", [&] { events(); });
    });
  }

private:
  void events() {
    for (const HostOp &op : trace.hostOps)
      event(op.annotation ? "user_annotation" : "cpu_op", op, [&] {
        number("External id", op.externalId);
        number("Sequence number", op.sequenceNumber);
        attribute("Input Dims", trace.inputsOf(op).dims);
        place(op.place);
      });
    for (const RuntimeCall &call : trace.runtimeCalls)
      // The driver's functions begin so, and the runtime's with "cuda".
      event(call.name.starts_with("cu") && !call.name.starts_with("cuda")
                ? "cuda_driver"
                : "cuda_runtime",
            call, [&] {
              number("correlation", call.correlation);
              number("External id", call.externalId);
            });
    for (const ModuleFrame &frame : trace.moduleFrames)
      event("python_function", frame, [] {});
    for (const HostEvent &frame : trace.longFrames)
      event("python_function", frame, [&] { place(frame.place); });
    for (const HostEvent &event : trace.hostEvents)
      this->event("host", event, [&] { place(event.place); });
    // Marks of captures; those of torch.profiler are ranges.
    if (trace.kind != "kineto")
      for (const TraceStep &step : trace.steps)
        row("user_annotation", "ProfilerStep#" + std::to_string(step.number),
            std::nullopt, step.startNs, step.endNs - step.startNs, [] {});
    for (const ProfilerOverhead &overhead : trace.overheads)
      row("overhead", overhead.kind, std::nullopt, overhead.startNs,
          overhead.durationNs, [] {});
  }

  template <typename Event, typename Arguments>
  void event(StringRef category, const Event &event, Arguments arguments) {
    row(category, event.name, event.thread, event.startNs, event.durationNs,
        arguments);
  }

  void row(StringRef category, StringRef name, std::optional<ThreadId> thread,
           int64_t startNs, int64_t durationNs,
           function_ref<void()> arguments) {
    out.array([&] {
      out.value(category);
      text(name);
      out.value(thread ? json::Value(*thread) : json::Value(nullptr));
      out.value(startNs);
      out.value(durationNs);
      out.object(arguments);
    });
  }

  void place(OptionalPlace number) {
    if (!number)
      return;
    const Place &place = trace.places[*number];
    attribute("module", place.module);
    attribute("source", place.source);
    attribute("function", place.function);
    attribute("group", place.group);
  }

  template <typename Number> void number(StringRef key, Number value) {
    if (value)
      out.attribute(key, *value);
  }

  void attribute(StringRef key, StringRef value) {
    if (value.empty())
      return;
    out.attributeBegin(key);
    text(value);
    out.attributeEnd();
  }

  /// What a program named may be no UTF-8.
  void text(StringRef text) {
    out.value(json::isUTF8(text) ? text.str() : json::fixUTF8(text));
  }

  const Trace &trace;
  json::OStream out;
};
} // namespace

void trace::writeHostTracks(const Trace &trace, raw_ostream &os) {
  Printer(trace, os).print();
}
