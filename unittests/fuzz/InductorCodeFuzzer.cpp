// Inductor's files from anywhere: each reader refuses the text with an error,
// or reads it into something that goes through the whole join; a launch map is
// written, read again and written the same.

#include "Fuzzing.h"

#include "opprof/Target/InductorCode/Alignment.h"
#include "opprof/Target/InductorCode/FXReadable.h"
#include "opprof/Target/InductorCode/Launches.h"
#include "opprof/Target/InductorCode/Provenance.h"
#include "opprof/Target/InductorCode/PythonParser.h"
#include "opprof/Target/InductorCode/Wrapper.h"

#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

static std::string write(const LaunchMap &map) {
  std::string text;
  raw_string_ostream os(text);
  writeLaunchMap(map, os);
  return text;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A line of '\x1e' parts the input: wrapper, printed graph, provenance.
  auto [code, rest] = toText(data, size).split('\x1e');
  auto [graphText, provenanceText] = rest.split('\x1e');

  std::optional<GraphView> graph;
  if (Expected<GraphView> read = readFXReadable(graphText, "graph.py")) {
    graph = std::move(*read);
    (void)alignByStructure(*graph, *graph, nullptr);
  } else {
    consumeError(read.takeError());
  }
  std::optional<Provenance> provenance;
  if (Expected<Provenance> read = readProvenance(provenanceText, "map.json"))
    provenance = std::move(*read);
  else
    consumeError(read.takeError());

  Expected<WrapperProgram> program = readWrapper(code, "output_code.py");
  if (!program) {
    consumeError(program.takeError());
    if (Expected<std::vector<LaunchMap>> maps = readLaunchMaps(code, "l.json"))
      for (const LaunchMap &map : *maps)
        (void)write(map);
    else
      consumeError(maps.takeError());
    return 0;
  }
  require(program->statements.total ==
          program->statements.understood + program->statements.keptAsText);
  LaunchMap map = buildLaunchMap({*program, graph ? &*graph : nullptr,
                                  provenance ? &*provenance : nullptr, "g"});
  AlignmentSources sources;
  sources.postGrad = sources.exported = graph ? &*graph : nullptr;
  sources.provenance = provenance ? &*provenance : nullptr;
  alignLaunches(map, sources);
  std::string first = write(map);
  Expected<LaunchMap> again = readLaunchMap(first, "again.json");
  require(bool(again));
  require(write(*again) == first);
  return 0;
}
