// Stands between the editor and MLIR's language server, which parses whatever
// document it is shown: one that opprof's tools would refuse is shown as empty,
// with the reason as its diagnostic.

#ifndef OPPROF_TOOLS_OPPROF_LSP_SERVER_RELAY_H
#define OPPROF_TOOLS_OPPROF_LSP_SERVER_RELAY_H

#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <mutex>
#include <thread>

namespace opprof {

/// Puts pipes in the place of stdin and stdout until the process ends, and is
/// not destroyed before: one of its threads waits for the editor.
class Relay {
public:
  /// Editors send each document whole, as the relay asks them to; one of more
  /// bytes is refused.
  static constexpr size_t kMaxMessage = size_t(256) << 20;

  explicit Relay(const mlir::DialectRegistry &registry) : registry(registry) {}

  llvm::Error begin();
  /// After the server: passes on what it has said.
  void end();

private:
  void relayToServer();
  void relayToEditor();
  void changeRequest(llvm::json::Value &message);
  void changeReply(llvm::json::Value &message);
  void checkDocument(llvm::StringRef uri, llvm::json::Object &holder);
  void checkBytecode(const llvm::json::Object &request);

  const mlir::DialectRegistry &registry;
  int fromEditor = -1, toServer = -1, fromServer = -1, toEditor = -1;
  std::thread replies;

  /// Guards what both directions know.
  std::mutex mutex;
  /// Why documents are refused, by their URI.
  llvm::StringMap<std::string> refused;
  /// Why requests are, by their id as text.
  std::map<std::string, std::string> refusedRequests;
};

} // namespace opprof

#endif // OPPROF_TOOLS_OPPROF_LSP_SERVER_RELAY_H
