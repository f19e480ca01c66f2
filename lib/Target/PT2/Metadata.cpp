// Where nodes come from: stack traces, module stacks, and the nodes of earlier
// graphs.

#include "Metadata.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace opprof::fx;
using namespace opprof::fx::pt2;

/// A module's qualified name from what export records of it.
static std::string getModuleName(StringRef path) {
  path.consume_front("L['self']");
  path.consume_front("L__self__");
  std::string result;
  while (!path.empty()) {
    // ._modules['h'] and ['h'] stand for .h
    path.consume_front("._modules");
    if (path.consume_front("[")) {
      auto [name, rest] = path.split(']');
      result += (result.empty() ? "" : ".") + name.trim("'\"").str();
      path = rest;
      continue;
    }
    result += path.front();
    path = path.drop_front();
  }
  return StringRef(result).ltrim('.').str();
}

/// Installed packages are named from `site-packages` on, wherever that is.
static StringRef getShortFile(StringRef file) {
  size_t found = file.rfind("/site-packages/");
  return found == StringRef::npos ? file : file.substr(found + 1);
}

/// The frames of a traceback as Python prints it, innermost last; their texts
/// live in `text`.
static SmallVector<StackFrame> parseStackTrace(StringRef text) {
  SmallVector<StackFrame> frames;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    StringRef rest = line.trim();
    if (rest.consume_front("File \"")) {
      auto [file, after] = rest.split("\", line ");
      StackFrame frame;
      frame.file = getShortFile(file);
      if (after.consumeInteger(10, frame.line) || frame.line > INT32_MAX)
        continue;
      if (after.consume_front(", in "))
        frame.function = after.trim();
      frames.push_back(frame);
    } else if (!frames.empty() && frames.back().code.empty() &&
               !rest.trim(" ^~").empty()) {
      frames.back().code = rest;
    }
  }
  constexpr size_t kMaxFrames = 1000;
  if (frames.size() > kMaxFrames)
    frames.erase(frames.begin(), frames.end() - kMaxFrames);
  return frames;
}

/// "key,path,type;…" as [["path", "type"], …].
static ArrayAttr parseModuleStack(Builder &builder, StringRef text) {
  SmallVector<Attribute> modules;
  SmallVector<StringRef> entries;
  text.split(entries, ';');
  for (StringRef entry : entries) {
    // Commas in brackets belong to a part.
    SmallVector<StringRef> parts;
    int depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i < entry.size(); ++i) {
      char c = entry[i];
      depth += (c == '[' || c == '(') - (c == ']' || c == ')');
      if (c == ',' && depth == 0) {
        parts.push_back(entry.slice(begin, i));
        begin = i + 1;
      }
    }
    parts.push_back(entry.substr(begin));
    if (parts.size() != 3)
      continue;
    modules.push_back(builder.getStrArrayAttr(
        {StringRef(getModuleName(parts[1])), parts[2]}));
  }
  return modules.empty() ? ArrayAttr() : builder.getArrayAttr(modules);
}

/// One record of a node's origin, or null where it names no node.
DictionaryAttr MetadataReader::readStep(const json &step) {
  StringRef name = getString(step, "name");
  std::optional<json> graphId = getMember(step, "graph_id");
  if (name.empty() || !graphId)
    return {};
  std::string &graph = sourceGraphs[getText(*graphId)];
  if (graph.empty())
    graph = "#" + std::to_string(sourceGraphs.size());
  std::string action;
  std::optional<json> actions = getMember(step, "action");
  if (actions)
    action = getString(*actions).value_or("").lower();
  for (const json &each : getElements(actions))
    if (std::optional<StringRef> text = getString(each))
      action += (action.empty() ? "" : "+") + text->lower();
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("name", builder.getStringAttr(name)),
       builder.getNamedAttr("graph", builder.getStringAttr(graph)),
       builder.getNamedAttr(
           "pass", builder.getStringAttr(getString(step, "pass_name"))),
       builder.getNamedAttr("action", builder.getStringAttr(action))});
}

/// The nested records of a node's origin as one chain, newest first, each step
/// once.
ArrayAttr MetadataReader::readFromNode(StringRef text) {
  SmallVector<Attribute> steps;
  llvm::SmallDenseSet<Attribute> seen;
  // What cannot be read is left out.
  llvm::consumeError(opprof::JSONReading("from_node")
                         .parse(
                             text,
                             [&](json chain) {
                               SmallVector<json> pending;
                               auto push = [&](const json &list) {
                                 llvm::append_range(
                                     pending, llvm::reverse(getElements(list)));
                               };
                               push(chain);
                               while (!pending.empty()) {
                                 json source = pending.pop_back_val();
                                 if (std::optional<json> inner =
                                         getMember(source, "from_node"))
                                   push(*inner);
                                 Attribute step = readStep(source);
                                 if (step && seen.insert(step).second)
                                   steps.push_back(step);
                               }
                               return llvm::Error::success();
                             },
                             kMaxDepth));
  return steps.empty() ? ArrayAttr() : builder.getArrayAttr(steps);
}

NodeOrigin MetadataReader::read(const json &node) {
  NodeOrigin origin;
  std::optional<json> source = getMember(node, "metadata");
  if (!source)
    return origin;
  if (StringRef text = getString(*source, "stack_trace"); !text.empty()) {
    auto [entry, isNew] = stacks.try_emplace(text);
    if (isNew)
      entry->second =
          getStackOrigin(builder.getContext(), parseStackTrace(text));
    origin.stack = entry->second;
  }
  origin.modules =
      parseModuleStack(builder, getString(*source, "nn_module_stack"));
  if (StringRef text = getString(*source, "torch_fn"); !text.empty()) {
    auto [name, function] = text.split(';');
    origin.torchFunction = builder.getStrArrayAttr({name, function});
  }
  if (StringRef text = getString(*source, "from_node"); !text.empty())
    origin.fromNode = readFromNode(text);
  return origin;
}
