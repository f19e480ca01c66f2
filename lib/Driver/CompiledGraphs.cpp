// Reads what lies in a compiled graph's folder, and maps its launches.

#include "CompiledGraphs.h"

#include "opprof/Driver/RunFolder.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Target/GraphFile/GraphFile.h"
#include "opprof/Target/InductorCode/InductorFolder.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::driver;
using inductor::GraphView;
using launch::LaunchMap;
using llvm::Expected;
using llvm::StringRef;

Expected<OwningOpRef<ModuleOp>>
driver::readOwnGraph(Session &session, StringRef folder, bool keeps) {
  std::string source = code::file(folder, code::kGraphJSON);
  if (!isFile(source))
    return OwningOpRef<ModuleOp>();
  std::string bytecode = code::file(folder, code::kGraph);
  if (isFile(bytecode))
    return session.readGraph(bytecode);
  Expected<OwningOpRef<ModuleOp>> module = session.readGraph(source);
  if (module && keeps)
    if (llvm::Error error = writeGraphFile(**module, bytecode))
      return error;
  return module;
}

Expected<OwningOpRef<ModuleOp>> driver::readRecordedGraph(Session &session,
                                                          StringRef folder) {
  std::string file = code::file(folder, code::kPostGrad);
  if (!isFile(file))
    return OwningOpRef<ModuleOp>();
  return session.readGraph(file);
}

Expected<launch::LaunchMap>
driver::mapLaunches(Session &session, StringRef folder, const GraphView *graph,
                    OwningOpRef<ModuleOp> *postGrad, Belonging *belonging) {
  std::string path = code::file(folder, code::kOutput);
  // Whoever reads a pipe waits for somebody who writes.
  if (!isFile(path))
    return llvm::createStringError(path + ": is no file");
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> text = opprof::openInput(path, &message);
  if (!text)
    return llvm::createStringError(message);
  Expected<inductor::InductorFolder> files =
      inductor::readInductorFolder(text->getBuffer(), path);
  if (!files)
    return files.takeError();
  Expected<OwningOpRef<ModuleOp>> recorded = readRecordedGraph(session, folder);
  if (!recorded)
    return recorded.takeError();
  if (!*recorded) {
    if (postGrad && files->postGrad) {
      // Inductor prints a module without the name of what it compiled.
      files->postGrad->name = files->name;
      *postGrad =
          inductor::toModule(*files->postGrad, path, &session.getContext());
    }
    LaunchMap map = inductor::mapLaunches(*files, nullptr, graph);
    if (belonging && graph && files->postGrad)
      *belonging = findBelonging(*files->postGrad, map, *graph);
    return map;
  }
  Expected<GraphView> view =
      inductor::toGraphView(**recorded, code::file(folder, code::kPostGrad));
  if (!view)
    return view.takeError();
  if (postGrad)
    *postGrad = std::move(*recorded);
  LaunchMap map = inductor::mapLaunches(*files, &*view, graph);
  if (belonging && graph)
    *belonging = findBelonging(*view, map, *graph);
  return map;
}
