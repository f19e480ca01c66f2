// Reads what lies in a compiled graph's folder, and maps its launches.

#include "CompiledGraphs.h"

#include "opprof/Driver/RunFolder.h"
#include "opprof/Target/GraphFile/GraphFile.h"
#include "opprof/Target/InductorCode/InductorFolder.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::driver;
using inductor::GraphView;
using llvm::Expected;
using llvm::StringRef;

Expected<std::optional<GraphView>>
driver::readOwnGraph(Session &session, StringRef folder, bool keeps) {
  std::string source = code::file(folder, code::kGraphJSON);
  if (!isFile(source))
    return std::optional<GraphView>();
  std::string bytecode = code::file(folder, code::kGraph);
  bool isMade = isFile(bytecode);
  if (isMade)
    source = bytecode;
  Expected<OwningOpRef<ModuleOp>> module = session.readGraph(source);
  if (!module)
    return module.takeError();
  if (keeps && !isMade)
    if (llvm::Error error = writeGraphFile(**module, bytecode))
      return error;
  Expected<GraphView> view = inductor::toGraphView(**module, source);
  if (!view)
    return view.takeError();
  return std::optional<GraphView>(std::move(*view));
}

Expected<launch::LaunchMap> driver::mapLaunches(Session &session,
                                                StringRef folder,
                                                const GraphView *graph) {
  std::string path = code::file(folder, code::kOutput);
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> text = openInputFile(path, &message);
  if (!text)
    return llvm::createStringError(message);
  Expected<inductor::InductorFolder> files =
      inductor::readInductorFolder(text->getBuffer(), path);
  if (!files)
    return files.takeError();
  std::string postGrad = code::file(folder, code::kPostGrad);
  if (!isFile(postGrad))
    return inductor::mapLaunches(*files, nullptr, graph);
  Expected<OwningOpRef<ModuleOp>> module = session.readGraph(postGrad);
  if (!module)
    return module.takeError();
  Expected<GraphView> recorded = inductor::toGraphView(**module, postGrad);
  if (!recorded)
    return recorded.takeError();
  return inductor::mapLaunches(*files, &*recorded, graph);
}
