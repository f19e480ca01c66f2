// Compilations in words.

#include "opprof/Report/CompilationText.h"
#include "opprof/Support/Units.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;

/// Reasons that are named; there may be one for each step.
static constexpr size_t kMostReasons = 3;

/// " (model.py:12)", or nothing.
static std::string atLine(StringRef source) {
  return source.empty() ? std::string()
                        : (" (" + sys::path::filename(source) + ")").str();
}

/// The first of `reasons`, and how many there are besides.
static std::string listReasons(ArrayRef<std::string> reasons) {
  std::string text = llvm::join(reasons.take_front(kMostReasons), "; ");
  if (reasons.size() > kMostReasons)
    text += "; and " + std::to_string(reasons.size() - kMostReasons) + " more";
  return text;
}

/// The compilations of one function.
static std::string describeFunction(ArrayRef<const Compilation *> function) {
  int64_t time = 0;
  uint64_t failures = 0;
  std::vector<std::string> reasons;
  for (const Compilation *compilation : function) {
    time += compilation->compileNs.value_or(0);
    failures += !compilation->failed.empty();
    if (!compilation->reason.empty() &&
        !llvm::is_contained(reasons, compilation->reason))
      reasons.push_back(compilation->reason);
  }
  const Compilation &first = *function.front();
  std::string name = first.function.empty()
                         ? "function " + first.id.substr(0, first.id.find('/'))
                         : first.function;
  uint64_t made = function.size() - failures;
  std::string text = name + atLine(first.source) + " was compiled " +
                     (made == 1 ? "once" : std::to_string(made) + " times");
  if (time)
    text += ", in " + formatTime(time);
  if (!reasons.empty())
    text += ", again as a guard failed: " + listReasons(reasons);
  for (const Compilation *compilation : function)
    if (!compilation->failed.empty()) {
      text += "; it runs uncompiled where no compilation fits: " +
              compilation->failed;
      break;
    }
  return text;
}

std::vector<std::string>
opprof::report::describeCompilations(const RunFacts &facts) {
  std::vector<std::string> sentences;
  MapVector<StringRef, SmallVector<const Compilation *>> functions;
  for (const Compilation &compilation : facts.compilations)
    functions[StringRef(compilation.id).rsplit('/').first].push_back(
        &compilation);
  for (const auto &[id, function] : functions)
    if (function.size() > 1 || !function.front()->failed.empty())
      sentences.push_back(describeFunction(function));
  if (facts.graphBreaks.empty())
    return sentences;
  std::vector<std::string> places;
  for (const GraphBreak &graphBreak : facts.graphBreaks)
    places.push_back(graphBreak.reason + atLine(graphBreak.source));
  sentences.push_back("the graph breaks at " +
                      (places.size() == 1
                           ? std::string("one place: ")
                           : std::to_string(places.size()) + " places: ") +
                      listReasons(places));
  return sentences;
}
