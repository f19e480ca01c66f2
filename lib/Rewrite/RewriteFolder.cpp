// A folder of rewrite scripts with its index, rewrites.json.

#include "opprof/Rewrite/RewriteFolder.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/JSONReading.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Support/Units.h"
#include "opprof/Target/TransformScript/ScriptBuilder.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::rewrite;

static constexpr llvm::StringLiteral kIndexName = "rewrites.json";
/// What every script holds.
static constexpr llvm::StringLiteral kScriptMark = "fx.rewrite";

static llvm::Error write(const std::string &path, StringRef text) {
  return writeFile(path, [&](llvm::raw_ostream &os) { os << text; });
}

static std::string join(StringRef folder, StringRef name) {
  SmallString<128> path(folder);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

/// Removes the scripts that an index of an earlier run names, and no others: a
/// folder may hold a person's own.
static llvm::Error removeOldScripts(StringRef folder) {
  std::string index = join(folder, kIndexName);
  auto file = opprof::openInput(index);
  if (!file)
    return llvm::Error::success();
  JSONReading reading(index);
  return reading.parse(
      (*file)->getBuffer(), [&](JSONReading::element root) -> llvm::Error {
        JSONReading::object keys;
        if (llvm::Error error = reading.getObject(root, keys))
          return error;
        return reading.getObjects(
            keys, "rewrites", false,
            [&](JSONReading::object entry) -> llvm::Error {
              std::string name;
              if (llvm::Error error = reading.getString(entry, "file", name,
                                                        /*required=*/false))
                return error;
              // Only names that this function gives: never a
              // path to elsewhere.
              if (!StringRef(name).ends_with(".mlir") ||
                  StringRef(name).contains('/'))
                return llvm::Error::success();
              std::string script = join(folder, name);
              if (llvm::Error error = checkOwn(script, kScriptMark))
                return error;
              llvm::sys::fs::remove(script);
              return llvm::Error::success();
            });
      });
}

static void writeNode(const NodeId &node, const NodeId &main,
                      llvm::json::OStream &json) {
  if (node.graph == main.graph && node.stage == main.stage) {
    json.value(node.name);
    return;
  }
  json.object([&] {
    json.attribute("graph", node.graph);
    json.attribute("stage", node.stage);
    json.attribute("name", node.name);
  });
}

/// An entry of the index.
static void writeEntry(const Recommendation &current, StringRef file,
                       int64_t rank, const NodeId &main,
                       llvm::json::OStream &json) {
  json.object([&] {
    json.attribute("file", file);
    json.attribute("name", current.name);
    json.attribute("rank", rank);
    json.attribute("finding", current.finding);
    json.attribute("title", current.title);
    json.attribute("explanation", current.explanation);
    json.attribute("saves_ns", static_cast<int64_t>(current.savesNs));
    json.attributeBegin("expected_error");
    json.rawValue(formatShortest(current.error));
    json.attributeEnd();
    json.attributeArray("nodes", [&] {
      for (const std::vector<NodeId> &place : current.places)
        json.array([&] {
          for (const NodeId &node : place)
            writeNode(node, main, json);
        });
    });
  });
}

static void writeDecline(const Decline &decline, const NodeId &main,
                         llvm::json::OStream &json) {
  json.object([&] {
    json.attribute("rule", decline.rule);
    json.attribute("reason", decline.reason);
    if (!decline.node.name.empty()) {
      json.attributeBegin("node");
      writeNode(decline.node, main, json);
      json.attributeEnd();
    }
    if (!decline.line.empty())
      json.attribute("line", decline.line);
    json.attribute("count", decline.count);
  });
}

llvm::Error opprof::rewrite::writeRewriteFolder(StringRef folder,
                                                const NodeId &main,
                                                const Offers &offers,
                                                const Evidence &evidence,
                                                StringRef script) {
  if (llvm::Error error = makeFolder(folder))
    return error;
  // Their names are such that others have them too, and so is "rewrites".
  if (llvm::Error error =
          checkOwn(join(folder, kIndexName), "\"error_budget\""))
    return error;
  std::vector<std::string> files;
  for (auto [i, current] : llvm::enumerate(offers.recommendations)) {
    files.push_back(llvm::formatv("{0,0+2}-{1}.mlir", i + 1, current.name));
    if (llvm::Error error = checkOwn(join(folder, files.back()), kScriptMark))
      return error;
  }
  if (llvm::Error error = removeOldScripts(folder))
    return error;
  std::string index;
  llvm::raw_string_ostream os(index);
  llvm::json::OStream json(os, 1);
  json.objectBegin();
  json.attribute("version", 1);
  json.attribute("graph", main.graph);
  if (!main.stage.empty())
    json.attribute("stage", main.stage);
  json.attribute("device", evidence.device.name);
  json.attributeBegin("error_budget");
  json.rawValue(formatShortest(evidence.errorBudget));
  json.attributeEnd();
  json.attribute("times", evidence.wallNs ? "profile" : "model");
  json.attributeBegin("rewrites");
  json.arrayBegin();
  for (auto [i, current] : llvm::enumerate(offers.recommendations)) {
    setScriptHead(current, i + 1, main);
    std::string text;
    llvm::raw_string_ostream stream(text);
    fx::printRewriteScript(*current.script, stream);
    if (llvm::Error error = write(join(folder, files[i]), text))
      return error;
    writeEntry(current, files[i], i + 1, main, json);
  }
  json.arrayEnd();
  json.attributeEnd();
  json.attributeArray("declined", [&] {
    for (const Decline &decline : offers.declines)
      writeDecline(decline, main, json);
  });
  if (!script.empty())
    json.attribute("script", script);
  json.objectEnd();
  os << "\n";
  return write(join(folder, kIndexName), index);
}
