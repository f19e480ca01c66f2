// From the files of a run to its profile and reports: what one step makes is
// handed to the next in memory, and each file is written for people and other
// tools.

#include "CompiledGraphs.h"
#include "Recordings.h"

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"
#include "opprof/Driver/AnnotatedProgram.h"
#include "opprof/Driver/Commands.h"
#include "opprof/Driver/Profiling.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Target/GraphFile/GraphFile.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"
#include "opprof/Trace/Gzip.h"
#include "opprof/Trace/Reader.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::driver;
using inductor::GraphView;
using launch::LaunchMap;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

Error driver::importGraph(Session &session, StringRef source, StringRef archive,
                          StringRef target) {
  // What has no suffix, such as /dev/null, gets bytecode.
  if (llvm::sys::path::has_extension(target) && !isMLIRFile(target))
    return llvm::createStringError(
        target + ": a graph is written as MLIR\n  give -o a file that ends "
                 "with .mlir (text) or .mlirbc (bytecode)");
  Expected<OwningOpRef<ModuleOp>> module =
      archive.empty() ? session.readGraph(source)
                      : session.readGraphOf(archive, source);
  if (!module)
    return module.takeError();
  return writeGraphFile(**module, target);
}

/// Finds the repeats of `outlined`, which are outlined there, and writes them.
static Error findRepeats(Session &session, const RunFolder &folder,
                         OwningOpRef<ModuleOp> outlined,
                         ProfileInputs &inputs) {
  session.progress("finding repeated subgraphs");
  fx::DedupPartitionsPassOptions options;
  options.partitionMap = folder.partitions();
  session.getContext().loadDialect<prof::ProfDialect>();
  if (Error error = session.quietly([&] {
        inputs.partitions = fx::dedupPartitions(*outlined, options);
        return success();
      }))
    return error;
  return writeFile(folder.partitions(), [&](llvm::raw_ostream &os) {
    writePartitionMaps(inputs.partitions, os);
  });
}

/// Finds the repeats of the run's graph, and writes them.
static Error findPartitions(Session &session, const RunFolder &folder,
                            ModuleOp graph, ProfileInputs &inputs) {
  // The launches are of the graph as it was.
  return findRepeats(session, folder, graph.clone(), inputs);
}

static OwningOpRef<ModuleOp> makeModule(Session &session) {
  return ModuleOp::create(UnknownLoc::get(&session.getContext()));
}

/// The same where there is no exported graph: the repeats of what was lowered.
static Error findPostGradPartitions(Session &session, const RunFolder &folder,
                                    ArrayRef<CompiledGraph> compiled,
                                    ProfileInputs &inputs) {
  std::vector<CompiledGraph> graphs(compiled.size());
  for (auto [graph, from, map] :
       llvm::zip_equal(graphs, compiled, inputs.maps)) {
    if (from.postGrad)
      graph.postGrad = from.postGrad.get().clone();
    graph.map.graph = map.graph;
    graph.map.stage = map.stage;
  }
  OwningOpRef<ModuleOp> module = makeModule(session);
  if (Error error =
          session.quietly([&] { return addCompiledGraphs(*module, graphs); }))
    return error;
  // The graphs of branches and loops have no stage.
  for (auto graph : module->getOps<fx::GraphOp>())
    if (graph.getStage())
      graph.setPublic();
  return findRepeats(session, folder, std::move(module), inputs);
}

static Error writeMap(const LaunchMap &map, StringRef file) {
  return writeFile(
      file, [&](llvm::raw_ostream &os) { launch::writeLaunchMap(map, os); });
}

/// Refuses code of which nothing was compiled from the graph, and notes what of
/// it may not have been.
static Error
checkBelonging(ArrayRef<std::pair<std::string, Belonging>> belongings,
               ProfileInputs &inputs) {
  if (!belongings.empty() && llvm::all_of(belongings, [](const auto &entry) {
        return entry.second.isRefuted();
      })) {
    const auto &[name, belonging] = belongings.front();
    return llvm::createStringError(
        name + ": was not compiled from this graph: " + belonging.describe() +
        "\n  give the graph, the code and the trace of one program");
  }
  for (const auto &[name, belonging] : belongings)
    if (belonging.isDoubtful())
      inputs.notes.push_back(name + " may not be compiled from this graph: " +
                             belonging.describe());
  return Error::success();
}

/// Leaves a map's nodes to be those that were lowered: PyTorch's records name
/// those of Dynamo that they come from, whose graph is in no debug folder, and
/// neither classes nor an annotated program could be of them.
static void dropOrigins(LaunchMap &map) {
  for (launch::Launch &launch : map.launches)
    for (launch::LaunchNode &node : launch.nodes)
      node.from.clear();
}

/// Maps the launches of every compiled graph, and writes the maps. The graphs
/// that were lowered go to `graphs`. Without `graph`, which may be null, nodes
/// are those that were lowered.
static Error mapCompiledGraphs(Session &session, const RunFolder &folder,
                               ModuleOp graph, ProfileInputs &inputs,
                               std::vector<CompiledGraph> &graphs) {
  std::optional<GraphView> view;
  std::vector<std::pair<std::string, Belonging>> belongings;
  for (const std::string &compiled : folder.compiledGraphs()) {
    session.progress("mapping the launches of " +
                     llvm::sys::path::filename(compiled));
    Expected<OwningOpRef<ModuleOp>> own =
        readOwnGraph(session, compiled, /*keeps=*/true);
    if (!own)
      return own.takeError();
    std::optional<GraphView> ownView;
    if (*own || (graph && !view)) {
      Expected<GraphView> read = inductor::toGraphView(
          *own ? **own : graph,
          *own ? code::file(compiled, code::kGraphJSON) : folder.graph());
      if (!read)
        return read.takeError();
      (*own ? ownView : view) = std::move(*read);
    }
    CompiledGraph &lowered = graphs.emplace_back();
    Belonging belonging;
    Expected<LaunchMap> map = mapLaunches(session, compiled,
                                          ownView ? &*ownView
                                          : view  ? &*view
                                                  : nullptr,
                                          &lowered.postGrad, &belonging);
    if (!map)
      return map.takeError();
    if (view && !ownView)
      belongings.push_back({map->graph, belonging});
    if (!view && !ownView && lowered.postGrad)
      dropOrigins(*map);
    lowered.dynamo = std::move(*own);
    std::string file = code::file(compiled, code::kLaunches);
    if (Error error = writeMap(*map, file))
      return error;
    if (Error error = inputs.addMap(std::move(*map), file))
      return error;
  }
  return checkBelonging(belongings, inputs);
}

/// What runs node by node says of each kernel which node that is.
static Error mapNodes(const RunFolder &folder, ModuleOp module,
                      ProfileInputs &inputs) {
  std::optional<LaunchMap> map = inductor::mapOperators(module);
  if (!map)
    return llvm::createStringError(folder.graph() +
                                   ": holds no fx.graph with a stage");
  if (Error error = writeMap(*map, folder.operators()))
    return error;
  return inputs.addMap(std::move(*map), folder.operators());
}

/// The graphs that were lowered, where their launches are mapped already.
static Error readCompiledGraphs(Session &session, const RunFolder &folder,
                                std::vector<CompiledGraph> &graphs) {
  for (const std::string &compiled : folder.compiledGraphs()) {
    Expected<OwningOpRef<ModuleOp>> recorded =
        readRecordedGraph(session, compiled);
    if (!recorded)
      return recorded.takeError();
    graphs.emplace_back().postGrad = std::move(*recorded);
    Expected<OwningOpRef<ModuleOp>> own =
        readOwnGraph(session, compiled, /*keeps=*/true);
    if (!own)
      return own.takeError();
    graphs.back().dynamo = std::move(*own);
  }
  return Error::success();
}

/// Writes the profile with its pages, and prints the page that is asked for.
static Error writeReports(const profile::Profile &profile,
                          const RunFolder &folder, const Page &page) {
  if (Error error = writeResults(profile, folder))
    return error;
  if (page)
    report::printText(profile, llvm::outs(), *page);
  return Error::success();
}

/// Writes the annotated program. Where the profile's nodes are of no graph that
/// is here, as code without the graph that it was made from gives them, there
/// is none, and the profile stands without it.
static Error writeProgram(Session &session, const RunFolder &folder,
                          ModuleOp graph, std::vector<CompiledGraph> &compiled,
                          ProfileInputs &inputs,
                          const profile::Profile &profile) {
  llvm::sys::fs::remove(folder.program());
  // Where nodes run by themselves there is a map, and no compiled graph.
  if (!compiled.empty() && compiled.size() != inputs.maps.size())
    return llvm::createStringError(
        folder.getPath() + ": " + Twine(inputs.maps.size()) +
        " launch maps for " + Twine(compiled.size()) +
        " compiled graphs; each folder of code has one in launches.json");
  compiled.resize(inputs.maps.size());
  for (auto [lowered, map] : llvm::zip_equal(compiled, inputs.maps))
    lowered.map = std::move(map);
  OwningOpRef<ModuleOp> program = graph ? graph.clone() : makeModule(session);
  if (Error error = session.quietly([&] {
        // Maps come from files, which may say what no program can.
        return success(succeeded(buildAnnotatedProgram(
                           *program, compiled, inputs.partitions, &profile)) &&
                       succeeded(verify(*program)));
      })) {
    session.progress("no annotated program: " +
                     llvm::toString(std::move(error)));
    return Error::success();
  }
  return writeGraphFile(*program, folder.program());
}

/// The folder's capture as a trace for Perfetto.
static Error writeCaptured(const profile::Profile &profile,
                           const llvm::MemoryBuffer &capture,
                           const RunFolder &folder) {
  trace::ReadOptions options;
  options.warmUp = true;
  Expected<std::unique_ptr<trace::Trace>> read =
      trace::readTrace(capture.getMemBufferRef(), options);
  if (!read)
    return read.takeError();
  return writeTimeline(folder.trace(), /*recordings=*/1,
                       [&](report::PerfettoTrace &timeline) -> Error {
                         timeline.add(profile, read->get());
                         return Error::success();
                       });
}

/// All that follows from graph, code and timeline. `graph` is null where only
/// the code is there. What somebody else recorded has been read: the timeline,
/// and the counters among the inputs; else the folder's own are.
static Error attribute(Session &session, const RunFolder &folder,
                       ModuleOp graph, bool mapped, const Page &page,
                       std::unique_ptr<trace::Trace> trace = nullptr,
                       ProfileInputs inputs = {}) {
  std::vector<CompiledGraph> compiled;
  if (Error error = inputs.readRun(folder.run()))
    return error;
  if (mapped) {
    if (Error error = inputs.readPartitions(folder.partitions()))
      return error;
    if (Error error = inputs.readMaps(folder, /*some=*/false))
      return error;
    if (Error error = readCompiledGraphs(session, folder, compiled))
      return error;
  } else {
    if (graph)
      if (Error error = findPartitions(session, folder, graph, inputs))
        return error;
    if (Error error =
            mapCompiledGraphs(session, folder, graph, inputs, compiled))
      return error;
    if (!graph)
      if (Error error =
              findPostGradPartitions(session, folder, compiled, inputs))
        return error;
  }
  bool captured = isFile(folder.capture());
  llvm::sys::fs::remove(folder.operators());
  if (inputs.maps.empty() && (trace || captured || inputs.run->mode == "eager"))
    if (Error error = mapNodes(folder, graph, inputs))
      return error;
  std::unique_ptr<llvm::MemoryBuffer> timeline;
  if (!trace) {
    for (const std::string &counters :
         {folder.counters(), folder.countersPage()})
      if (isFile(counters))
        if (Error error = inputs.readCounters(counters))
          return error;
    std::string message;
    timeline = opprof::openInput(captured ? folder.capture() : folder.trace(),
                                 &message);
    if (!timeline)
      return llvm::createStringError(message);
    Expected<std::unique_ptr<trace::Trace>> read =
        trace::readTrace(timeline->getMemBufferRef());
    if (!read)
      return read.takeError();
    trace = std::move(*read);
  }
  if (Error error = inputs.readCeilings(folder))
    return error;
  session.progress("joining the timeline to the launches");
  std::unique_ptr<profile::Profile> profile =
      makeProfile(std::move(trace), inputs);
  if (Error error =
          writeProgram(session, folder, graph, compiled, inputs, *profile))
    return error;
  // Another recording's trace is there already.
  if (timeline && captured)
    if (Error error = writeCaptured(*profile, *timeline, folder))
      return error;
  return writeReports(*profile, folder, page);
}

/// Makes graph.mlirbc of graph.json, and gives what it holds.
static Expected<OwningOpRef<ModuleOp>> importRunGraph(Session &session,
                                                      const RunFolder &folder) {
  Expected<OwningOpRef<ModuleOp>> graph = session.readGraph(folder.graphJSON());
  if (graph)
    if (Error error = writeGraphFile(**graph, folder.graph()))
      return error;
  return graph;
}

Error driver::mapRun(Session &session, const RunFolder &folder) {
  if (Error error = folder.takeCode())
    return error;
  Expected<OwningOpRef<ModuleOp>> graph = importRunGraph(session, folder);
  if (!graph)
    return graph.takeError();
  ProfileInputs inputs;
  if (Error error = findPartitions(session, folder, **graph, inputs))
    return error;
  std::vector<CompiledGraph> compiled;
  return mapCompiledGraphs(session, folder, **graph, inputs, compiled);
}

/// Whether graph.mlirbc is missing, or of an earlier graph.json.
static bool needsImport(const RunFolder &folder) {
  llvm::sys::fs::file_status source, made;
  if (llvm::sys::fs::status(folder.graphJSON(), source))
    return false;
  return llvm::sys::fs::status(folder.graph(), made) ||
         made.getLastModificationTime() < source.getLastModificationTime();
}

Error driver::profileRun(Session &session, const RunFolder &folder, bool mapped,
                         const Page &page) {
  if (Error error = folder.takeCode())
    return error;
  bool imports = needsImport(folder);
  if (imports)
    session.progress("importing the graph");
  Expected<OwningOpRef<ModuleOp>> graph =
      imports ? importRunGraph(session, folder)
              : session.readGraph(folder.graph());
  if (!graph)
    return graph.takeError();
  return attribute(session, folder, **graph, mapped, page);
}

Error driver::profileTimeline(Session &session, const RunFolder &folder,
                              StringRef timeline, StringRef operators,
                              StringRef graph, StringRef counters, bool mapped,
                              uint64_t lastKernels) {
  ProfileInputs inputs;
  if (Error error = inputs.readRun(folder.run()))
    return error;
  if (Error error = inputs.readCeilings(folder))
    return error;
  if (!graph.empty()) {
    Expected<OwningOpRef<ModuleOp>> module = session.readGraph(graph);
    if (!module)
      return module.takeError();
    if (Error error = findPartitions(session, folder, **module, inputs))
      return error;
    if (Error error = mapNodes(folder, **module, inputs))
      return error;
  }
  if (!counters.empty())
    if (Error error = inputs.readCounters(counters))
      return error;
  if (mapped) {
    if (Error error = inputs.readMaps(folder, /*some=*/true))
      return error;
    if (isFile(folder.partitions()))
      if (Error error = inputs.readPartitions(folder.partitions()))
        return error;
    if (isFile(folder.counters()))
      if (Error error = inputs.readCounters(folder.counters()))
        return error;
  }
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      opprof::openInput(timeline, &message);
  if (!buffer)
    return llvm::createStringError(message);
  trace::ReadOptions options;
  options.lastKernels = lastKernels;
  std::unique_ptr<llvm::MemoryBuffer> observed;
  if (!operators.empty()) {
    observed = opprof::openInput(operators, &message);
    if (!observed)
      return llvm::createStringError(message);
    options.operators = observed->getMemBufferRef();
  }
  Expected<std::unique_ptr<profile::Profile>> profile =
      makeProfile(buffer->getMemBufferRef(), inputs, options);
  if (!profile)
    return profile.takeError();
  return writeResults(**profile, folder);
}

/// The path without links and dots; empty where there is nothing.
static std::string resolve(StringRef path) {
  llvm::SmallString<256> real;
  if (llvm::sys::fs::real_path(path.empty() ? "." : path, real))
    return "";
  return real.str().str();
}

/// The folders of code that a run folder is to be made of.
static Expected<std::vector<std::string>> findCode(const RecordedFiles &files,
                                                   const RunFolder &folder) {
  // An uncompiled program has no code, and a compiled one may have been
  // exported by nobody.
  if (files.trace.empty())
    return llvm::createStringError(
        "--trace is missing\n  give the recorded files: --trace, and --graph, "
        "--code, or both");
  if (files.graph.empty() && files.code.empty())
    return llvm::createStringError(
        "--graph and --code are missing\n  give the exported graph, the debug "
        "folder of a run with TORCH_COMPILE_DEBUG=1, or both; `opprof report "
        "FILE` shows a recording alone");
  for (StringRef path : {files.graph, files.trace, files.code, files.counters})
    if (!path.empty() && !llvm::sys::fs::exists(path))
      return llvm::createStringError(path + ": no such file or folder");
  std::string output = resolve(folder.getPath());
  std::vector<std::string> sources = {
      resolve(llvm::sys::path::parent_path(files.trace))};
  if (!files.graph.empty())
    sources.push_back(resolve(llvm::sys::path::parent_path(files.graph)));
  if (!files.code.empty())
    sources.push_back(resolve(files.code));
  if (!files.counters.empty())
    sources.push_back(resolve(llvm::sys::path::parent_path(files.counters)));
  if (!output.empty() && llvm::is_contained(sources, output))
    return llvm::createStringError(
        folder.getPath() +
        ": holds the files that are to be read, and a run folder is emptied "
        "before it is filled\n  give -o a folder of its own");
  if (files.code.empty())
    return std::vector<std::string>();
  std::vector<std::string> found = code::findFolders(files.code);
  // A run folder below the folder of code is what this command left there the
  // last time.
  if (!output.empty())
    llvm::erase_if(found, [&](const std::string &path) {
      return StringRef(resolve(path)).starts_with(output + "/");
    });
  if (found.empty())
    return llvm::createStringError(
        files.code + ": holds no " + code::kOutput +
        "\n  give the debug folder of a run with TORCH_COMPILE_DEBUG=1, or a "
        "folder of such folders");
  return found;
}

/// What run.json says of files that were recorded elsewhere.
static Error writeRun(const RecordedFiles &files,
                      llvm::ArrayRef<std::string> names,
                      const RunFolder &folder) {
  return writeFile(folder.run(), [&](llvm::raw_ostream &os) {
    llvm::json::OStream json(os, /*IndentSize=*/1);
    json.object([&] {
      json.attribute("version", 1);
      json.attributeObject("recorded", [&] {
        if (!files.graph.empty())
          json.attribute("graph", files.graph);
        if (!files.code.empty())
          json.attribute("code", files.code);
        json.attribute("trace", files.trace);
        if (!files.counters.empty())
          json.attribute("counters", files.counters);
      });
      json.attributeArray("compiled_graphs", [&] {
        for (StringRef name : names)
          json.value(name);
      });
    });
    os << '\n';
  });
}

Error driver::profileFiles(Session &session, const RecordedFiles &files,
                           const RunFolder &folder, const Page &page) {
  Expected<std::vector<std::string>> sources = findCode(files, folder);
  if (!sources)
    return sources.takeError();
  if (Error error = folder.check())
    return error;
  OwningOpRef<ModuleOp> graph;
  if (!files.graph.empty()) {
    session.progress("reading " + Twine(files.graph));
    Expected<OwningOpRef<ModuleOp>> read = session.readGraph(files.graph);
    if (!read)
      return read.takeError();
    graph = std::move(*read);
  }
  Expected<std::unique_ptr<llvm::MemoryBuffer>> recorded =
      openRecording(files.trace);
  if (!recorded)
    return recorded.takeError();
  // What is read is what will lie in the run folder, and is called so; what is
  // wrong with it is to be mended where it came from.
  std::string kept = folder.trace();
  Expected<std::unique_ptr<trace::Trace>> trace =
      trace::readTrace({(*recorded)->getBuffer(), kept});
  if (!trace) {
    std::string what = llvm::toString(trace.takeError());
    if (StringRef rest = what; rest.consume_front(kept + ":"))
      what = (files.trace + ":" + rest).str();
    return llvm::createStringError(what);
  }
  std::unique_ptr<llvm::MemoryBuffer> counters;
  ProfileInputs inputs;
  if (!files.counters.empty()) {
    Expected<std::unique_ptr<llvm::MemoryBuffer>> read =
        openRecording(files.counters);
    if (!read)
      return read.takeError();
    counters = std::move(*read);
    if (Error error =
            inputs.readCounters({counters->getBuffer(), files.counters}))
      return error;
  }
  if (Error error = folder.clear())
    return error;
  if (graph)
    if (Error error = writeGraphFile(*graph, folder.graph()))
      return error;
  std::vector<std::string> names = code::nameFolders(*sources);
  for (auto [source, name] : llvm::zip_equal(*sources, names))
    if (Error error = code::copy(source, code::file(folder.getPath(), name)))
      return error;
  Error written = writeFile(folder.trace(), [&](llvm::raw_ostream &os) {
    trace::writeGzip((*recorded)->getBuffer(), os);
  });
  if (written)
    return written;
  if (counters) {
    bool isPage = trace::isCountersPage(counters->getBuffer());
    if (Error error =
            writeFile(isPage ? folder.countersPage() : folder.counters(),
                      [&](llvm::raw_ostream &os) {
                        if (isPage)
                          trace::writeGzip(counters->getBuffer(), os);
                        else
                          os << counters->getBuffer();
                      }))
      return error;
  }
  if (Error error = writeRun(files, names, folder))
    return error;
  return attribute(session, folder, graph.get(), /*mapped=*/false, page,
                   std::move(*trace), std::move(inputs));
}
