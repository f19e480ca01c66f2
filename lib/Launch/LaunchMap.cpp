// Reading and writing launches.json. The writer leaves out what is unknown; the
// reader says where a file breaks the format, and takes nothing on trust.

#include "opprof/Launch/LaunchMap.h"

#include "opprof/Support/JSONReading.h"
#include "opprof/Support/JSONWriting.h"
#include "opprof/Support/ReadingLimits.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::launch;

//===----------------------------------------------------------------------===//
// Writer
//===----------------------------------------------------------------------===//

static void writeNode(json::OStream &json, const LaunchNode &node) {
  json.object([&] {
    json.attribute("name", node.name);
    if (!node.graph.empty())
      json.attribute("graph", node.graph);
    json.attribute("recomputed", node.recomputed);
    if (node.continued)
      json.attribute("continued", true);
    if (node.prepares)
      json.attribute("prepares", true);
    writeStrings(json, "evidence", node.evidence);
    if (node.confidence)
      json.attribute("confidence", stringify(*node.confidence));
    json.attributeArray("from", [&] {
      for (auto [i, origin] : llvm::enumerate(node.from))
        json.object([&, &origin = origin, i = i] {
          writeNodeKeys(json, origin);
          if (is_contained(node.idleFrom, i))
            json.attribute("computes", false);
        });
    });
    if (node.fromConfidence)
      json.attribute("from_confidence", stringify(*node.fromConfidence));
    if (node.work)
      json.attribute("work", *node.work);
    if (node.module)
      json.attribute("module", *node.module);
    if (!node.source.empty())
      json.attribute("source", node.source);
    if (node.stack)
      json.attribute("stack", *node.stack);
  });
}

static void writeSizes(json::OStream &json,
                       ArrayRef<std::optional<Sizes>> arguments) {
  if (arguments.empty())
    return;
  json.attributeArray("argument_sizes", [&] {
    for (const std::optional<Sizes> &sizes : arguments) {
      if (!sizes) {
        json.value(nullptr);
        continue;
      }
      json.array([&] {
        for (int64_t size : *sizes)
          size == kUnknownSize ? json.value(nullptr) : json.value(size);
      });
    }
  });
}

static void writeLaunch(json::OStream &json, const Launch &launch) {
  json.object([&] {
    json.attribute("index", launch.index);
    json.attribute("file", launch.file);
    json.attribute("line", launch.line);
    if (!launch.function.empty())
      json.attribute("function", launch.function);
    if (!launch.callLines.empty())
      json.attributeArray("call_lines", [&] {
        for (uint32_t line : launch.callLines)
          json.value(line);
      });
    json.attribute("kernel", launch.kernel);
    if (!launch.kernelHash.empty())
      json.attribute("kernel_hash", launch.kernelHash);
    json.attribute("kind", stringify(*launch.kind));
    json.attribute("category", stringify(*launch.category));
    if (launch.debugHandle)
      json.attribute("debug_handle", *launch.debugHandle);
    if (launch.conditional)
      json.attribute("conditional", true);
    if (launch.inLoop)
      json.attribute("in_loop", true);
    json.attributeArray("nodes", [&] {
      for (const LaunchNode &node : launch.nodes)
        writeNode(json, node);
    });
    if (!launch.listedOnly.empty())
      writeStrings(json, "listed_only", launch.listedOnly);
    if (launch.flops)
      json.attribute("flops", *launch.flops);
    writeStrings(json, "inputs", launch.inputs);
    writeStrings(json, "outputs", launch.outputs);
    writeSizes(json, launch.argumentSizes);
    if (!launch.dtype.empty())
      json.attribute("dtype", launch.dtype);
    if (launch.bytesRead)
      json.attribute("bytes_read", *launch.bytesRead);
    if (launch.bytesWritten)
      json.attribute("bytes_written", *launch.bytesWritten);
  });
}

void opprof::launch::writeLaunchMap(const LaunchMap &map, json::OStream &json) {
  json.object([&] {
    json.attribute("version", LaunchMap::kVersion);
    json.attribute("graph", map.graph);
    json.attribute("stage", map.stage);
    json.attributeObject("statements", [&] {
      json.attribute("total", map.statements.total);
      json.attribute("understood", map.statements.understood);
      json.attribute("kept_as_text", map.statements.keptAsText);
    });
    if (map.alignment)
      json.attributeObject("alignment", [&] {
        json.attribute("method", map.alignment->method);
        json.attribute("graph", map.alignment->graph);
        json.attribute("stage", map.alignment->stage);
        if (map.alignment->proven)
          json.attribute("proven", *map.alignment->proven);
        json.attribute("aligned", map.alignment->aligned);
        json.attribute("of", map.alignment->of);
        if (map.alignment->bodiesLeft)
          json.attribute("bodies_left", map.alignment->bodiesLeft);
      });
    if (!map.stacks.empty())
      json.attributeArray("stacks", [&] {
        for (const std::vector<std::string> &stack : map.stacks)
          json.array([&] {
            for (const std::string &frame : stack)
              json.value(frame);
          });
      });
    json.attributeArray("launches", [&] {
      for (const Launch &launch : map.launches)
        writeLaunch(json, launch);
    });
    json.attributeArray("not_launched", [&] {
      for (const NotLaunched &node : map.notLaunched)
        json.object([&] {
          json.attribute("name", node.name);
          if (!node.graph.empty())
            json.attribute("graph", node.graph);
          json.attribute("reason", node.reason);
        });
    });
  });
}

void opprof::launch::writeLaunchMap(const LaunchMap &map, raw_ostream &os) {
  json::OStream json(os, /*IndentSize=*/1);
  writeLaunchMap(map, json);
  json.flush();
  os << '\n';
}

//===----------------------------------------------------------------------===//
// Reader
//===----------------------------------------------------------------------===//

using simdjson::dom::element;
using simdjson::dom::object;

namespace {
class Reader : public opprof::JSONReading {
public:
  using JSONReading::JSONReading;

  Error readMaps(element root, std::vector<LaunchMap> &maps);

private:
  Error readMap(object from, LaunchMap &map);
  Error readLaunch(object from, Launch &launch);
  Error readSizes(object from, Launch &launch);
  Error readNode(object from, LaunchNode &node);
  Error readStacks(object from, LaunchMap &map);
};
} // namespace

Error Reader::readNode(object from, LaunchNode &node) {
  if (Error error = getString(from, "name", node.name, /*required=*/true))
    return error;
  if (Error error = getString(from, "graph", node.graph, false))
    return error;
  if (Error error = getBool(from, "recomputed", node.recomputed))
    return error;
  if (Error error = getBool(from, "continued", node.continued))
    return error;
  if (Error error = getBool(from, "prepares", node.prepares))
    return error;
  if (Error error = getStrings(from, "evidence", false, node.evidence))
    return error;
  for (auto [key, confidence] :
       {std::pair("confidence", &node.confidence),
        std::pair("from_confidence", &node.fromConfidence)})
    if (Error error = getEnum(from, key, *confidence, parseConfidence,
                              /*required=*/false))
      return error;
  if (Error error = getInteger(from, "work", node.work))
    return error;
  if (Error error = getInteger(from, "stack", node.stack))
    return error;
  if (Error error = getString(from, "module", node.module))
    return error;
  if (Error error = getString(from, "source", node.source, false))
    return error;
  // Nodes of another graph are never plain names.
  return getObjects(from, "from", false, [&](object origin) {
    bool computes = true;
    if (Error error = getBool(origin, "computes", computes))
      return error;
    if (!computes)
      node.idleFrom.push_back(node.from.size());
    return getNodeKeys(origin, "", "", node.from.emplace_back());
  });
}

Error Reader::readSizes(object from, Launch &launch) {
  return getArray(from, "argument_sizes", false, [&](element item) -> Error {
    std::optional<Sizes> &sizes = launch.argumentSizes.emplace_back();
    if (item.is_null())
      return Error::success();
    simdjson::dom::array array;
    if (item.get(array))
      return fail("expected the sizes of a tensor, or null");
    sizes.emplace();
    for (element size : array) {
      int64_t number = kUnknownSize;
      if (!size.is_null() && (size.get(number) || number < 0))
        return fail("expected a size, or null");
      sizes->push_back(number);
    }
    return Error::success();
  });
}

Error Reader::readLaunch(object from, Launch &launch) {
  if (Error error = readLaunchInfo(*this, from, /*whole=*/true, launch))
    return error;
  if (Error error = getString(from, "function", launch.function, false))
    return error;
  if (Error error = getIntegers(from, "call_lines", launch.callLines))
    return error;
  if (Error error = getString(from, "kernel_hash", launch.kernelHash, false))
    return error;
  if (Error error = getInteger(from, "debug_handle", launch.debugHandle))
    return error;
  if (Error error = getBool(from, "conditional", launch.conditional))
    return error;
  if (Error error = getBool(from, "in_loop", launch.inLoop))
    return error;
  if (Error error = getStrings(from, "listed_only", false, launch.listedOnly))
    return error;
  if (Error error = getStrings(from, "inputs", false, launch.inputs))
    return error;
  if (Error error = getStrings(from, "outputs", false, launch.outputs))
    return error;
  if (Error error = readSizes(from, launch))
    return error;
  return getObjects(from, "nodes", true, [&](object item) {
    return readNode(item, launch.nodes.emplace_back());
  });
}

Error Reader::readStacks(object from, LaunchMap &map) {
  return getArray(from, "stacks", false, [&](element stack) -> Error {
    std::vector<std::string> &frames = map.stacks.emplace_back();
    simdjson::dom::array list;
    if (stack.get(list))
      return fail("expected a list of frames");
    for (element frame : list)
      if (Error error = getText(frame, frames.emplace_back()))
        return error;
    return Error::success();
  });
}

Error Reader::readMap(object from, LaunchMap &map) {
  if (Error error = checkVersion(from, LaunchMap::kVersion, "a launch map",
                                 "`opprof launches`"))
    return error;
  if (Error error = getString(from, "graph", map.graph, true))
    return error;
  if (Error error = getString(from, "stage", map.stage, true))
    return error;

  if (Error error = inObject(from, "statements", [&](object counts) -> Error {
        if (Error error = getRequired(counts, "total", map.statements.total))
          return error;
        if (Error error =
                getRequired(counts, "understood", map.statements.understood))
          return error;
        return getRequired(counts, "kept_as_text", map.statements.keptAsText);
      }))
    return error;
  if (Error error = inObject(from, "alignment", [&](object keys) -> Error {
        Alignment &out = map.alignment.emplace();
        if (Error error = getString(keys, "method", out.method, true))
          return error;
        if (Error error = getString(keys, "graph", out.graph, false))
          return error;
        if (Error error = getString(keys, "stage", out.stage, false))
          return error;
        if (Error error = getInteger(keys, "proven", out.proven))
          return error;
        if (Error error = getRequired(keys, "aligned", out.aligned))
          return error;
        if (Error error = getRequired(keys, "of", out.of))
          return error;
        std::optional<uint64_t> left;
        if (Error error = getInteger(keys, "bodies_left", left))
          return error;
        out.bodiesLeft = left.value_or(0);
        return Error::success();
      }))
    return error;

  if (Error error = readStacks(from, map))
    return error;
  if (Error error = getObjects(from, "launches", true, [&](object item) {
        return readLaunch(item, map.launches.emplace_back());
      }))
    return error;
  return getObjects(from, "not_launched", false, [&](object keys) -> Error {
    NotLaunched &out = map.notLaunched.emplace_back();
    if (Error error = getString(keys, "name", out.name, true))
      return error;
    if (Error error = getString(keys, "graph", out.graph, false))
      return error;
    return getString(keys, "reason", out.reason, true);
  });
}

/// One compiled graph, or an array of several.
Error Reader::readMaps(element root, std::vector<LaunchMap> &maps) {
  return forOneOrMany(
      root, [&](object from) { return readMap(from, maps.emplace_back()); });
}

Expected<std::vector<LaunchMap>>
opprof::launch::readLaunchMaps(StringRef text, StringRef name) {
  std::vector<LaunchMap> maps;
  limitReading(name, text.size(), kPlainBudget);
  Reader reader(name);
  if (Error error = reader.parse(
          text, [&](element root) { return reader.readMaps(root, maps); }))
    return error;
  return maps;
}

Expected<LaunchMap> opprof::launch::readLaunchMap(StringRef text,
                                                  StringRef name) {
  Expected<std::vector<LaunchMap>> maps = readLaunchMaps(text, name);
  if (!maps)
    return maps.takeError();
  if (maps->size() != 1)
    return createStringError(name + ": expected one compiled graph, found " +
                             Twine(maps->size()));
  return std::move(maps->front());
}
