// The messages of the language server protocol that carry documents.

#include "Relay.h"

#include "opprof/Support/ForeignMLIR.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <optional>
#include <string>
#include <unistd.h>

using namespace llvm;
using namespace opprof;

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

namespace {
/// Messages that arrive at a descriptor, each behind a header with its size.
class MessageReader {
public:
  explicit MessageReader(int descriptor) : descriptor(descriptor) {}

  /// The next one; none at the end, or where there is no telling where it ends.
  std::optional<std::string> next() {
    size_t size = 0;
    for (;;) {
      std::optional<std::string> line = readLine();
      if (!line)
        return std::nullopt;
      StringRef header = StringRef(*line).trim();
      if (header.empty())
        break;
      if (header.consume_front_insensitive("content-length:") &&
          header.trim().getAsInteger(10, size))
        return std::nullopt;
    }
    if (size > Relay::kMaxMessage || !fill(size))
      return std::nullopt;
    return take(size);
  }

private:
  std::string take(size_t size) {
    std::string taken = buffer.substr(0, size);
    buffer.erase(0, size);
    return taken;
  }
  bool readMore() {
    char bytes[16384];
    ssize_t count;
    do
      count = ::read(descriptor, bytes, sizeof(bytes));
    while (count < 0 && errno == EINTR);
    if (count > 0)
      buffer.append(bytes, size_t(count));
    return count > 0;
  }
  bool fill(size_t size) {
    while (buffer.size() < size)
      if (!readMore())
        return false;
    return true;
  }
  std::optional<std::string> readLine() {
    constexpr size_t kMaxHeader = 4096;
    size_t end;
    while ((end = buffer.find('\n')) == std::string::npos)
      if (buffer.size() > kMaxHeader || !readMore())
        return std::nullopt;
    return take(end + 1);
  }

  int descriptor;
  std::string buffer;
};
} // namespace

static bool writeMessage(int descriptor, StringRef body) {
  std::string bytes =
      formatv("Content-Length: {0}\r\n\r\n{1}", body.size(), body);
  for (size_t at = 0; at < bytes.size();) {
    ssize_t count = ::write(descriptor, bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    at += size_t(count);
  }
  return true;
}

/// The file that a URI names, or its text where it names none.
static std::string getPath(StringRef uri) {
  if (!uri.consume_front("file://"))
    return uri.str();
  std::string path;
  for (size_t i = 0; i < uri.size(); ++i) {
    unsigned byte;
    if (uri[i] == '%' && !uri.substr(i + 1, 2).getAsInteger(16, byte)) {
      path += char(byte);
      i += 2;
    } else {
      path += uri[i];
    }
  }
  return path;
}

//===----------------------------------------------------------------------===//
// From the editor
//===----------------------------------------------------------------------===//

void Relay::checkDocument(StringRef uri, json::Object &holder) {
  std::optional<StringRef> text = holder.getString("text");
  if (!text)
    return;
  std::string name = sys::path::filename(getPath(uri)).str();
  Error error = checkMLIRText(MemoryBufferRef(*text, name));
  std::lock_guard<std::mutex> lock(mutex);
  if (!error) {
    refused.erase(uri);
    return;
  }
  refused[uri] = toString(std::move(error));
  holder["text"] = "";
}

void Relay::checkBytecode(const json::Object &request) {
  const json::Object *params = request.getObject("params");
  std::optional<StringRef> uri =
      params ? params->getString("uri") : std::nullopt;
  const json::Value *id = request.get("id");
  if (!uri || !id)
    return;
  ErrorOr<std::unique_ptr<MemoryBuffer>> file =
      MemoryBuffer::getFile(getPath(*uri));
  // What cannot be opened is the server's to say.
  if (!file || succeeded(checkForeignMLIR(**file, registry)))
    return;
  std::lock_guard<std::mutex> lock(mutex);
  refusedRequests[formatv("{0}", *id)] =
      sys::path::filename(getPath(*uri)).str() +
      ": it nests deeper, or stands for more, than opprof reads";
}

void Relay::changeRequest(json::Value &message) {
  json::Object *request = message.getAsObject();
  std::optional<StringRef> method =
      request ? request->getString("method") : std::nullopt;
  json::Object *params = request ? request->getObject("params") : nullptr;
  if (!method || !params)
    return;
  json::Object *document = params->getObject("textDocument");
  std::optional<StringRef> uri =
      document ? document->getString("uri") : std::nullopt;
  if (*method == "textDocument/didOpen" && uri) {
    checkDocument(std::string(*uri), *document);
  } else if (*method == "textDocument/didChange" && uri) {
    if (json::Array *changes = params->getArray("contentChanges"))
      for (json::Value &change : *changes)
        if (json::Object *whole = change.getAsObject())
          checkDocument(*uri, *whole);
  } else if (*method == "mlir/convertFromBytecode") {
    checkBytecode(*request);
    std::lock_guard<std::mutex> lock(mutex);
    if (const json::Value *id = request->get("id"))
      if (refusedRequests.count(formatv("{0}", *id)))
        // Nothing answers to this name; the answer is changed on its way.
        (*request)["method"] = "opprof/refused";
  }
}

void Relay::relayToServer() {
  MessageReader reader(fromEditor);
  while (std::optional<std::string> body = reader.next()) {
    Expected<json::Value> message = json::parse(*body);
    if (!message) {
      consumeError(message.takeError());
      continue;
    }
    changeRequest(*message);
    if (!writeMessage(toServer, formatv("{0}", *message).str()))
      break;
  }
  // The server ends with its input.
  ::close(toServer);
}

//===----------------------------------------------------------------------===//
// To the editor
//===----------------------------------------------------------------------===//

/// The reason at the line that it names, or at the first.
static json::Array makeDiagnostics(StringRef reason) {
  unsigned line = 1;
  for (StringRef part : split(reason, ':'))
    if (!part.getAsInteger(10, line))
      break;
  unsigned at = line ? line - 1 : 0;
  json::Object place{{"line", at}, {"character", 0}};
  json::Object end{{"line", at + 1}, {"character", 0}};
  return json::Array{
      json::Object{{"range", json::Object{{"start", std::move(place)},
                                          {"end", std::move(end)}}},
                   {"severity", 1},
                   {"source", "opprof"},
                   {"message", reason}}};
}

void Relay::changeReply(json::Value &message) {
  json::Object *reply = message.getAsObject();
  if (!reply)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  if (reply->getString("method") ==
      std::optional<StringRef>("textDocument/publishDiagnostics")) {
    json::Object *params = reply->getObject("params");
    std::optional<StringRef> uri =
        params ? params->getString("uri") : std::nullopt;
    auto reason = uri ? refused.find(*uri) : refused.end();
    if (reason != refused.end())
      (*params)["diagnostics"] = makeDiagnostics(reason->second);
    return;
  }
  const json::Value *id = reply->get("id");
  auto reason =
      id ? refusedRequests.find(formatv("{0}", *id)) : refusedRequests.end();
  if (reason != refusedRequests.end()) {
    if (json::Object *error = reply->getObject("error"))
      (*error)["message"] = reason->second;
    refusedRequests.erase(reason);
    return;
  }
  // Changes are to be whole documents: a part of one cannot be judged.
  json::Object *result = reply->getObject("result");
  json::Object *capabilities =
      result ? result->getObject("capabilities") : nullptr;
  json::Object *sync =
      capabilities ? capabilities->getObject("textDocumentSync") : nullptr;
  if (sync)
    (*sync)["change"] = 1;
}

void Relay::relayToEditor() {
  MessageReader reader(fromServer);
  while (std::optional<std::string> body = reader.next()) {
    if (Expected<json::Value> message = json::parse(*body)) {
      changeReply(*message);
      *body = formatv("{0}", *message).str();
    } else {
      consumeError(message.takeError());
    }
    if (!writeMessage(toEditor, *body))
      break;
  }
}

//===----------------------------------------------------------------------===//
// Both
//===----------------------------------------------------------------------===//

Error Relay::begin() {
  int requests[2], answers[2];
  if (::pipe(requests) || ::pipe(answers))
    return createStringError("no pipe can be made");
  fromEditor = ::dup(STDIN_FILENO);
  toEditor = ::dup(STDOUT_FILENO);
  if (fromEditor < 0 || toEditor < 0 || ::dup2(requests[0], STDIN_FILENO) < 0 ||
      ::dup2(answers[1], STDOUT_FILENO) < 0)
    return createStringError("stdin and stdout cannot be replaced");
  ::close(requests[0]);
  ::close(answers[1]);
  toServer = requests[1];
  fromServer = answers[0];
  replies = std::thread([this] { relayToEditor(); });
  // It waits for the editor, also when the server has ended.
  std::thread([this] { relayToServer(); }).detach();
  return Error::success();
}

void Relay::end() {
  outs().flush();
  ::close(STDOUT_FILENO);
  replies.join();
}
