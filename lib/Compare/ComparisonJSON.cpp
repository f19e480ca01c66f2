// Writes comparisons as docs/formats/diff.md describes them.

#include "opprof/Compare/Compare.h"
#include "opprof/Support/JSONWriting.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::compare;

namespace {
class Writer {
public:
  Writer(const Comparison &comparison, raw_ostream &os)
      : comparison(comparison), json(os, /*IndentSize=*/1) {}

  void write(std::optional<double> failAbovePct);

private:
  void side(StringRef key, const Side &side);
  void unlike();
  /// Times in whole nanoseconds.
  void time(StringRef key, std::optional<double> ns) {
    if (ns)
      json.attribute(key, std::llround(*ns));
  }
  void text(StringRef key, StringRef value) {
    if (!value.empty())
      json.attribute(key, toJSONText(value));
  }
  void interval(StringRef key, double from, double to, bool whole);
  void whole(StringRef key, const Change &change);
  void item(const ItemChange &item);

  const Comparison &comparison;
  json::OStream json;
};
} // namespace

/// Tenths of a thousandth are more than any measurement has.
static double roundShare(double percent) {
  return std::round(percent * 1e4) / 1e4;
}

void Writer::side(StringRef key, const Side &side) {
  json.attributeObject(key, [&] {
    writeStrings(json, "files", side.files);
    json.attribute("steps", side.steps);
    json.attribute("recordings", uint64_t(side.recordings));
    json.attribute("repeats", uint64_t(side.repeats));
    json.attribute("repeats_are", comparison.byLaunch ? "launches"
                                  : side.repeatsAreRecordings || !side.steps
                                      ? "recordings"
                                      : "steps");
    text("clock", side.clock);
    text("device", side.device);
    text("mode", side.mode);
    text("torch", side.torch);
    text("dtypes", side.dtypes);
    text("batch", side.inputs);
    text("source", side.source);
  });
}

void Writer::unlike() {
  json.attributeArray("unlike", [&] {
    for (const Unlike &unlike : comparison.unlike)
      json.value(unlike.what);
  });
  json.attributeArray("unlike_values", [&] {
    for (const Unlike &unlike : comparison.unlike)
      json.object([&] {
        json.attribute("what", unlike.what);
        json.attribute("a", toJSONText(unlike.a));
        json.attribute("b", toJSONText(unlike.b));
      });
  });
}

void Writer::interval(StringRef key, double from, double to, bool whole) {
  json.attributeArray(key, [&] {
    for (double end : {from, to})
      if (whole)
        json.value(std::llround(end));
      else
        json.value(roundShare(end));
  });
}

void Writer::whole(StringRef key, const Change &change) {
  json.attributeObject(key, [&] {
    time("a_ns", change.aNs);
    time("b_ns", change.bNs);
    if (change.changeNs)
      if (std::optional<double> percent = change.percentOfA(*change.changeNs))
        json.attribute("change_pct", roundShare(*percent));
    if (change.intervalNs && change.percentOfA(1))
      interval("interval_pct", *change.percentOfA(change.intervalNs->first),
               *change.percentOfA(change.intervalNs->second), false);
    time("floor_ns", change.floorNs);
    json.attribute("verdict", stringify(change.verdict));
  });
}

void Writer::item(const ItemChange &item) {
  json.object([&] {
    json.attribute("by", stringify(comparison.by));
    if (item.node)
      json.attributeObject("name", [&] { writeNodeKeys(json, *item.node); });
    else
      json.attribute("name", toJSONText(item.name));
    text("detail", item.detail);
    if (item.matchedBy)
      json.attribute("matched_by", stringify(*item.matchedBy));
    time("a_ns", item.aNs);
    time("b_ns", item.bNs);
    if (item.aNs)
      json.attribute("a_kernels", roundShare(item.aKernels));
    if (item.bNs)
      json.attribute("b_kernels", roundShare(item.bKernels));
    time("change_ns", item.changeNs);
    if (item.intervalNs)
      interval("interval_ns", item.intervalNs->first, item.intervalNs->second,
               true);
    time("floor_ns", item.floorNs);
    json.attribute("verdict", stringify(item.verdict));
  });
}

void Writer::write(std::optional<double> failAbovePct) {
  json.object([&] {
    json.attribute("version", 1);
    side("a", comparison.a);
    side("b", comparison.b);
    unlike();
    writeStrings(json, "notes", comparison.notes);
    if (comparison.clockRatio)
      json.attribute("clock_ratio", roundShare(*comparison.clockRatio));
    json.attribute("compared", uint64_t(comparison.compared));
    whole("step", comparison.step);
    whole("kernel_time", comparison.kernelTime);
    if (failAbovePct) {
      json.attribute("fail_above_pct", *failAbovePct);
      writeStrings(json, "failed", comparison.slowerBy(*failAbovePct));
    }
    json.attributeArray("items", [&] {
      for (const ItemChange &change : comparison.items)
        item(change);
    });
  });
}

void compare::writeComparison(const Comparison &comparison,
                              std::optional<double> failAbovePct,
                              raw_ostream &os) {
  Writer(comparison, os).write(failAbovePct);
  os << '\n';
}
