// Shows what generated code launches.

#include "CompiledGraphs.h"

#include "opprof/Driver/Commands.h"
#include "opprof/Target/InductorCode/InductorFolder.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::driver;
using inductor::GraphView;
using launch::Launch;
using launch::LaunchMap;
using launch::LaunchNode;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// Columns of a kernel's name.
static constexpr unsigned kKernelWidth = 48;
/// The nodes of a launch that are named.
static constexpr unsigned kMaxNodes = 4;

static bool recomputes(const Launch &launch) {
  return llvm::any_of(launch.nodes,
                      [](const LaunchNode &node) { return node.recomputed; });
}

/// One line: the launch, the first of its nodes, and the user's line.
static void print(const Launch &launch, llvm::raw_ostream &os) {
  os << llvm::format("%5u  ", unsigned(launch.index))
     << llvm::left_justify(launch.category ? stringify(*launch.category) : "",
                           20)
     << ' '
     << llvm::left_justify(StringRef(launch.kernel).take_front(kKernelWidth),
                           kKernelWidth)
     << ' ';
  llvm::interleaveComma(llvm::ArrayRef(launch.nodes).take_front(kMaxNodes), os,
                        [&](const LaunchNode &node) {
                          os << (node.recomputed ? "~" : "") << node.name;
                        });
  if (launch.nodes.size() > kMaxNodes)
    os << ", … (" << launch.nodes.size() << ")";
  for (const LaunchNode &node : llvm::reverse(launch.nodes))
    if (!node.source.empty()) {
      os << "  [" << node.source << "]";
      break;
    }
  os << '\n';
}

static void print(const LaunchMap &map, llvm::raw_ostream &os) {
  os << map.graph << ": " << map.launches.size() << " launches\n";
  for (const Launch &launch : map.launches)
    print(launch, os);
  if (llvm::any_of(map.launches, recomputes))
    os << "       ~ marks a node that is computed again here\n";
}

/// The graph of a file, where one is named.
static Expected<std::optional<GraphView>> readGraphView(Session &session,
                                                        StringRef graphFile) {
  if (graphFile.empty())
    return std::nullopt;
  Expected<OwningOpRef<ModuleOp>> module = session.readGraph(graphFile);
  if (!module)
    return module.takeError();
  Expected<GraphView> view = inductor::toGraphView(**module, graphFile);
  if (!view)
    return view.takeError();
  return std::optional(std::move(*view));
}

/// The launch map of one wrapper under a name of its own, as in Inductor's
/// cache: nothing lies beside it.
static Expected<std::vector<LaunchMap>>
mapFile(Session &session, StringRef file, StringRef graphFile) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> text = openInputFile(file, &message);
  if (!text)
    return llvm::createStringError(message);
  Expected<inductor::InductorFolder> code =
      inductor::readInductorFolder(text->getBuffer(), file);
  if (!code)
    return code.takeError();
  Expected<std::optional<GraphView>> graph = readGraphView(session, graphFile);
  if (!graph)
    return graph.takeError();
  std::vector<LaunchMap> maps;
  maps.push_back(
      inductor::mapLaunches(*code, nullptr, *graph ? &**graph : nullptr));
  return maps;
}

/// The launch map of each compiled graph at or below `folder`.
static Expected<std::vector<LaunchMap>>
mapFolders(Session &session, StringRef folder, StringRef graphFile) {
  std::vector<std::string> folders = code::findFolders(folder);
  if (folders.empty())
    return llvm::createStringError(
        folder + ": holds no " + code::kOutput +
        "\n  give a run folder, or the debug folder of a run with "
        "TORCH_COMPILE_DEBUG=1");
  std::string ofRun = RunFolder(folder).graph();
  bool isRun = graphFile.empty() && isFile(ofRun);
  if (isRun)
    graphFile = ofRun;
  Expected<std::optional<GraphView>> graph = readGraphView(session, graphFile);
  if (!graph)
    return graph.takeError();
  std::vector<LaunchMap> maps;
  for (const std::string &compiled : folders) {
    std::optional<GraphView> own;
    if (isRun) {
      Expected<OwningOpRef<ModuleOp>> module =
          readOwnGraph(session, compiled, /*keeps=*/false);
      if (!module)
        return module.takeError();
      if (*module) {
        Expected<GraphView> view = inductor::toGraphView(
            **module, code::file(compiled, code::kGraphJSON));
        if (!view)
          return view.takeError();
        own = std::move(*view);
      }
    }
    Expected<LaunchMap> map = mapLaunches(session, compiled,
                                          own      ? &*own
                                          : *graph ? &**graph
                                                   : nullptr);
    if (!map)
      return map.takeError();
    maps.push_back(std::move(*map));
  }
  return maps;
}

Error driver::showLaunches(Session &session, StringRef folder, StringRef graph,
                           bool asJSON) {
  if (!llvm::sys::fs::exists(folder))
    return llvm::createStringError(folder + ": no such file or folder");
  bool isModule =
      isFile(folder) && llvm::sys::path::filename(folder) != code::kOutput;
  if (isFile(folder) && !isModule)
    folder = llvm::sys::path::parent_path(folder);
  if (folder.empty())
    folder = ".";
  Expected<std::vector<LaunchMap>> maps =
      isModule ? mapFile(session, folder, graph)
               : mapFolders(session, folder, graph);
  if (!maps)
    return maps.takeError();
  llvm::raw_ostream &os = llvm::outs();
  if (!asJSON) {
    for (const LaunchMap &map : *maps)
      print(map, os);
    return Error::success();
  }
  llvm::json::OStream json(os, /*IndentSize=*/1);
  json.array([&] {
    for (const LaunchMap &map : *maps)
      writeLaunchMap(map, json);
  });
  json.flush();
  os << '\n';
  return Error::success();
}
