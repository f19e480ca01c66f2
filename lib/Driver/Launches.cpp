// Shows what generated code launches.

#include "CompiledGraphs.h"

#include "opprof/Driver/Commands.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/TerminalText.h"
#include "opprof/Support/Units.h"
#include "opprof/Target/InductorCode/InductorFolder.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <algorithm>

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

/// Columns of a kernel's name, of a line of source, and of a module.
static constexpr unsigned kKernelWidth = 40, kPlaceWidth = 24;
/// The nodes of a launch that are named.
static constexpr unsigned kMaxNodes = 4;

/// Kernel time of launches in a profile, by compiled graph and index.
using LaunchTimes = llvm::StringMap<llvm::DenseMap<uint64_t, int64_t>>;

static bool recomputes(const Launch &launch) {
  return llvm::any_of(launch.nodes,
                      [](const LaunchNode &node) { return node.recomputed; });
}

/// Whether `line` ("file:7") is the place that was asked for: its end, at the
/// border of a name.
static bool isAt(StringRef line, StringRef asked) {
  if (!line.consume_back(asked))
    return false;
  return line.empty() || line.ends_with("/") || line.ends_with(":") ||
         asked.starts_with("/");
}

static bool isInside(const std::optional<std::string> &module,
                     StringRef asked) {
  StringRef rest = module ? StringRef(*module) : StringRef();
  return module && rest.consume_front(asked) &&
         (rest.empty() || rest.starts_with("."));
}

static bool fits(const LaunchNode &node, const LaunchFilter &filter) {
  if (!filter.line.empty() && !isAt(node.source, filter.line))
    return false;
  if (!filter.module.empty() && !isInside(node.module, filter.module))
    return false;
  return filter.node.empty() || node.name == filter.node ||
         llvm::any_of(node.from,
                      [&](const NodeId &id) { return id.name == filter.node; });
}

static bool fits(const Launch &launch, const LaunchFilter &filter) {
  if (!StringRef(launch.kernel).contains(filter.kernel))
    return false;
  if (filter.line.empty() && filter.module.empty() && filter.node.empty())
    return true;
  return llvm::any_of(
      launch.nodes, [&](const LaunchNode &node) { return fits(node, filter); });
}

/// The least sure of its nodes says how sure the launch is; "-" where the map
/// does not.
static StringRef confidenceOf(const Launch &launch) {
  std::optional<Confidence> least;
  for (const LaunchNode &node : launch.nodes)
    for (const std::optional<Confidence> &link :
         {node.confidence, node.fromConfidence})
      if (link && (!least || *link > *least))
        least = link;
  return least ? stringify(*least) : "-";
}

static std::string bytesOf(const Launch &launch) {
  if (!launch.bytesRead && !launch.bytesWritten)
    return "-";
  return formatBytes(launch.bytesRead.value_or(0) +
                     launch.bytesWritten.value_or(0));
}

namespace {

/// What is printed of a launch, or of all as the table's head.
struct Row {
  std::string index, category, kernel, time, bytes, flops, sure, branch, loop,
      place, module, nodes;
};

} // namespace

static Row makeHead() {
  return {"#",    "category", "kernel", "time", "bytes",  "FLOPs",
          "sure", "",         "",       "line", "module", "nodes"};
}

/// The launch, what it costs, the first of its nodes, and the user's line and
/// module.
static Row describe(const Launch &launch, std::optional<int64_t> time) {
  Row row;
  row.index = std::to_string(launch.index);
  if (launch.category)
    row.category = stringify(*launch.category);
  row.kernel = StringRef(launch.kernel).take_front(kKernelWidth);
  row.time = time ? formatTime(*time) : "-";
  row.bytes = bytesOf(launch);
  row.flops = launch.flops ? formatAmount(double(*launch.flops)) : "-";
  row.sure = confidenceOf(launch);
  row.branch = launch.conditional ? "if" : "";
  row.loop = launch.inLoop ? "loop" : "";
  for (const LaunchNode &node : llvm::reverse(launch.nodes)) {
    if (row.place.empty())
      row.place = node.source;
    if (row.module.empty() && node.module)
      row.module = *node.module;
  }
  for (std::string *text : {&row.place, &row.module})
    if (text->empty())
      *text = "-";
  llvm::raw_string_ostream os(row.nodes);
  llvm::interleaveComma(llvm::ArrayRef(launch.nodes).take_front(kMaxNodes), os,
                        [&](const LaunchNode &node) {
                          os << (node.recomputed ? "~" : "") << node.name;
                        });
  if (launch.nodes.size() > kMaxNodes)
    os << ", … (" << launch.nodes.size() << ")";
  return row;
}

static void printNumbers(const Row &row, llvm::raw_ostream &os) {
  os << llvm::right_justify(row.bytes, 10) << llvm::right_justify(row.flops, 9)
     << llvm::right_justify(row.sure, 8) << llvm::right_justify(row.branch, 4)
     << llvm::right_justify(row.loop, 5);
}

static std::string formatLine(const Row &row) {
  std::string line;
  llvm::raw_string_ostream os(line);
  os << llvm::right_justify(row.index, 5) << "  "
     << llvm::left_justify(row.category, 20) << ' '
     << llvm::left_justify(row.kernel, kKernelWidth)
     << llvm::right_justify(row.time, 10);
  printNumbers(row, os);
  os << "  " << llvm::left_justify(row.place, kPlaceWidth) << ' '
     << llvm::left_justify(row.module, kPlaceWidth) << ' ' << row.nodes;
  return line;
}

/// The text's beginning, in at most that many columns.
static std::string cut(StringRef text, unsigned columns) {
  return fitColumns(text.rtrim(), columns, /*headQuarters=*/4);
}

/// The launch in two lines of at most `width` columns: what runs and what it
/// costs, and below it where that comes from.
static void printNarrow(const Row &row, unsigned width, llvm::raw_ostream &os) {
  constexpr unsigned kIndexWidth = 7, kTimeWidth = 10, kNumbersWidth = 36;
  constexpr unsigned kLeastKernel = 20;
  bool numbers =
      width >= kIndexWidth + kLeastKernel + kTimeWidth + kNumbersWidth;
  unsigned taken = kIndexWidth + kTimeWidth + (numbers ? kNumbersWidth : 0);
  unsigned kernel =
      std::clamp<int>(int(width) - int(taken), 1, int(kKernelWidth));
  std::string line;
  llvm::raw_string_ostream text(line);
  text << llvm::right_justify(row.index, 5) << "  "
       << llvm::left_justify(
              row.kernel.size() > kernel ? cut(row.kernel, kernel) : row.kernel,
              kernel)
       << llvm::right_justify(row.time, kTimeWidth);
  if (numbers)
    printNumbers(row, text);
  os << cut(line, width) << '\n';
  std::string origin(kIndexWidth, ' ');
  for (StringRef part :
       {StringRef(row.category), llvm::sys::path::filename(row.place),
        StringRef(row.module), StringRef(row.nodes)})
    if (!part.empty() && part != "-")
      origin += (origin.size() > kIndexWidth ? "  " : "") + part.str();
  os << cut(origin, width) << '\n';
}

/// The table, in lines as long as they are where `width` is 0 or they fit.
static void printTable(const std::vector<Row> &rows, unsigned width,
                       llvm::raw_ostream &os) {
  bool isNarrow = width && llvm::any_of(rows, [&](const Row &row) {
                    return columnsOf(formatLine(row)) > width;
                  });
  for (const Row &row : rows) {
    if (isNarrow)
      printNarrow(row, width, os);
    else
      os << formatLine(row) << '\n';
  }
}

/// What stands in a map for the sake of its gradient launches nothing.
static bool launches(const Launch &launch) {
  return launch.kind != launch::LaunchKind::View;
}

static void print(const LaunchMap &map, uint64_t all, const LaunchTimes &times,
                  unsigned width, llvm::raw_ostream &os) {
  uint64_t shown = llvm::count_if(map.launches, launches);
  os << toTerminalText(map.graph) << ": " << shown;
  if (shown != all)
    os << " of " << all;
  os << " launches\n";
  std::vector<Row> rows;
  if (shown)
    rows.push_back(makeHead());
  auto own = times.find(map.graph);
  for (const Launch &launch : map.launches) {
    if (!launches(launch))
      continue;
    std::optional<int64_t> time;
    if (own != times.end())
      if (auto found = own->second.find(launch.index);
          found != own->second.end())
        time = found->second;
    rows.push_back(describe(launch, time));
  }
  printTable(rows, width, os);
  if (llvm::any_of(map.launches, recomputes))
    os << "       ~ marks a node that is computed again here\n";
  if (uint64_t left = map.alignment ? map.alignment->bodiesLeft : 0)
    os << "       of bodies of branches, loops and regions " << left
       << (left == 1 ? " was" : " were")
       << " not followed, as their copies come to many times the exported "
          "program: nodes in them have no exported ones\n";
}

/// What the profile of a run folder says of launches; none where it has none.
static Expected<LaunchTimes> readTimes(StringRef folder) {
  LaunchTimes times;
  std::string file = RunFolder(folder).profile();
  if (!isFile(file))
    return times;
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text =
      opprof::openInput(file);
  if (!text)
    return llvm::createStringError(file + ": " + text.getError().message());
  Expected<std::unique_ptr<profile::Profile>> profile =
      profile::readProfile((*text)->getBuffer(), file);
  if (!profile)
    return profile.takeError();
  for (const profile::LaunchRecord &record : (*profile)->launches)
    if (record.runs)
      times[record.compiledGraph][record.index] = record.kernelTimeNs;
  return times;
}

/// The graph of a file; none where no file is named.
static Expected<std::optional<GraphView>> readGraphView(Session &session,
                                                        StringRef file) {
  if (file.empty())
    return std::nullopt;
  Expected<OwningOpRef<ModuleOp>> module = session.readGraph(file);
  if (!module)
    return module.takeError();
  Expected<GraphView> view = inductor::toGraphView(**module, file);
  if (!view)
    return view.takeError();
  return std::optional(std::move(*view));
}

/// Says what of the code was not compiled from the graph that it is shown with,
/// and refuses where nothing was.
static Error check(StringRef name, const Belonging &belonging) {
  if (belonging.isRefuted())
    return llvm::createStringError(
        name + ": was not compiled from this graph: " + belonging.describe() +
        "\n  give the graph and the code of one program, or no --graph");
  if (belonging.isDoubtful())
    llvm::errs() << name << " may not be compiled from this graph: "
                 << belonging.describe() << '\n';
  return Error::success();
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
  std::vector<std::string> names = code::nameFolders(folders);
  for (auto [compiled, name] : llvm::zip(folders, names)) {
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
    Belonging belonging;
    Expected<LaunchMap> map = mapLaunches(session, compiled,
                                          own      ? &*own
                                          : *graph ? &**graph
                                                   : nullptr,
                                          /*postGrad=*/nullptr, &belonging);
    if (!map)
      return map.takeError();
    // The graph of a run may be of several programs, each with a graph of its
    // own.
    if (!isRun)
      if (Error error = check(name, belonging))
        return error;
    // Of two folders of one name each is called otherwise, as in run folders.
    map->graph = name;
    maps.push_back(std::move(*map));
  }
  return maps;
}

/// The map of one file of code. A module of Inductor's cache has nothing beside
/// it but other modules.
static Expected<std::vector<LaunchMap>>
mapFile(Session &session, StringRef file, StringRef graphFile) {
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text =
      opprof::openInput(file);
  if (!text)
    return llvm::createStringError(file + ": " + text.getError().message());
  Expected<std::optional<GraphView>> graph = readGraphView(session, graphFile);
  if (!graph)
    return graph.takeError();
  Expected<inductor::InductorFolder> files =
      inductor::readInductorFolder((*text)->getBuffer(), file);
  if (!files)
    return files.takeError();
  std::vector<LaunchMap> maps;
  maps.push_back(
      inductor::mapLaunches(*files, nullptr, *graph ? &**graph : nullptr));
  if (*graph && files->postGrad)
    if (Error error =
            check(file, findBelonging(*files->postGrad, maps.front(), **graph)))
      return error;
  return maps;
}

Error driver::showLaunches(Session &session, StringRef path, StringRef graph,
                           const LaunchFilter &filter, bool asJSON,
                           unsigned width) {
  if (!llvm::sys::fs::exists(path))
    return llvm::createStringError(path + ": no such file or folder");
  bool isCode = isFile(path) && path.ends_with(".py") &&
                llvm::sys::path::filename(path) != code::kOutput;
  // Of another file the code would be that of whatever lies around it.
  StringRef folder = path;
  if (isCode || (isFile(path) && path.ends_with(code::kOutput)))
    folder = llvm::sys::path::parent_path(path);
  if (folder.empty())
    folder = ".";
  Expected<std::vector<LaunchMap>> maps =
      isCode ? mapFile(session, path, graph)
             : mapFolders(session, folder, graph);
  if (!maps)
    return maps.takeError();
  std::vector<uint64_t> all;
  for (LaunchMap &map : *maps) {
    all.push_back(llvm::count_if(map.launches, launches));
    llvm::erase_if(map.launches,
                   [&](const Launch &launch) { return !fits(launch, filter); });
  }
  if (!asJSON) {
    Expected<LaunchTimes> times = readTimes(folder);
    if (!times)
      return times.takeError();
    for (auto [map, count] : llvm::zip(*maps, all))
      print(map, count, *times, width, llvm::outs());
    return Error::success();
  }
  TerminalJSON os(llvm::outs());
  llvm::json::OStream json(os, /*IndentSize=*/1);
  json.array([&] {
    for (const LaunchMap &map : *maps)
      writeLaunchMap(map, json);
  });
  json.flush();
  os << '\n';
  return Error::success();
}
