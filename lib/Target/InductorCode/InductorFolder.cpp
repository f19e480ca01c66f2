// One compiled graph's files. Finds and reads the siblings of output_code.py.

#include "opprof/Target/InductorCode/InductorFolder.h"
#include "opprof/Support/ReadingLimits.h"
#include "opprof/Target/InductorCode/Alignment.h"
#include "opprof/Target/InductorCode/FXReadable.h"
#include "opprof/Target/InductorCode/Launches.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

/// The text of `folder`/`name`: none where there is no such file.
static Expected<std::unique_ptr<MemoryBuffer>>
readSibling(StringRef folder, StringRef name, std::string &path) {
  SmallString<256> full(folder);
  sys::path::append(full, name);
  path = full.str().str();
  if (!sys::fs::is_regular_file(full))
    return std::unique_ptr<MemoryBuffer>();
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(full);
  if (!buffer)
    return createStringError(path + ": " + buffer.getError().message());
  return std::move(*buffer);
}

Expected<InductorFolder> opprof::inductor::readInductorFolder(StringRef code,
                                                              StringRef path) {
  limitReading(path, code.size(), kPlainBudget);
  Expected<WrapperProgram> program = readWrapper(code, path);
  if (!program)
    return program.takeError();
  InductorFolder out;
  out.program = std::move(*program);

  SmallString<256> absolute(path);
  sys::fs::make_absolute(absolute);
  StringRef folder = sys::path::parent_path(absolute);
  out.name = sys::path::filename(absolute) == "output_code.py"
                 ? sys::path::filename(folder).str()
                 : "";
  if (out.name.empty())
    out.name = out.program.aotId;
  if (out.name.empty())
    out.name = sys::path::stem(absolute).str();
  if (path == "-" || path == "<stdin>")
    return out;
  folder = sys::path::parent_path(path);

  std::string name;
  for (StringRef file : {"fx_graph_transformed.py", "fx_graph_readable.py"}) {
    auto buffer = readSibling(folder, file, name);
    if (!buffer)
      return buffer.takeError();
    if (!*buffer)
      continue;
    Expected<GraphView> graph = readFXReadable((*buffer)->getBuffer(), name);
    if (!graph)
      return graph.takeError();
    out.postGrad = std::move(*graph);
    break;
  }
  auto buffer = readSibling(
      folder, "inductor_provenance_tracking_node_mappings.json", name);
  if (!buffer)
    return buffer.takeError();
  if (*buffer) {
    Expected<Provenance> provenance =
        readProvenance((*buffer)->getBuffer(), name);
    if (!provenance)
      return provenance.takeError();
    out.provenance = std::move(*provenance);
  }
  return out;
}

LaunchMap opprof::inductor::mapLaunches(const InductorFolder &folder,
                                        const GraphView *recorded,
                                        const GraphView *exported) {
  const Provenance *provenance =
      folder.provenance ? &*folder.provenance : nullptr;
  LaunchSources sources{folder.program, nullptr, provenance, folder.name};
  sources.postGrad = folder.postGrad ? &*folder.postGrad : recorded;
  LaunchMap map = buildLaunchMap(sources);

  AlignmentSources alignment;
  alignment.postGrad = sources.postGrad;
  alignment.recorded = recorded;
  alignment.exported = exported;
  alignment.provenance = provenance;
  alignLaunches(map, alignment);
  return map;
}
