// Graph JSON, written.

#include "GraphWriter.h"

#include <algorithm>
#include <charconv>
#include <cmath>

using namespace opprof::torchscript;

/// The length of the valid UTF-8 sequence that `text` begins with, or 0.
static size_t getSequenceLength(std::string_view text) {
  auto first = static_cast<uint8_t>(text[0]);
  size_t length = first < 0x80   ? 1
                  : first < 0xC2 ? 0
                  : first < 0xE0 ? 2
                  : first < 0xF0 ? 3
                  : first < 0xF5 ? 4
                                 : 0;
  if (!length || length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<uint8_t>(text[i]) & 0xC0) != 0x80)
      return 0;
  auto second = length > 1 ? static_cast<uint8_t>(text[1]) : 0;
  // Overlong forms, surrogates, and what lies beyond the last code point.
  bool isInvalid =
      (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return isInvalid ? 0 : length;
}

std::string opprof::torchscript::quote(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string result = "\"";
  while (!text.empty()) {
    size_t length = getSequenceLength(text);
    char c = text[0];
    if (!length) {
      result += "\xEF\xBF\xBD";
      length = 1;
    } else if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      result += "\\u00";
      result += kDigits[c >> 4];
      result += kDigits[c & 15];
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return result + "\"";
}

std::string opprof::torchscript::floatText(double number) {
  if (!std::isfinite(number))
    return form("float", std::isnan(number) ? "\"nan\""
                         : number > 0       ? "\"inf\""
                                            : "\"-inf\"");
  char buffer[64];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, number);
  std::string text(buffer, result.ptr);
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return text;
}

std::string
opprof::torchscript::listText(const std::vector<std::string> &elements) {
  std::string text = "[";
  for (const std::string &element : elements)
    text += (text.size() > 1 ? "," : "") + element;
  return text + "]";
}

std::string opprof::torchscript::form(std::string_view key,
                                      std::string_view value) {
  std::string text = "{\"";
  text += key;
  text += "\":";
  text += value;
  return text + "}";
}

int Table::add(const std::string &text) {
  auto [entry, isNew] =
      indices.try_emplace(text, static_cast<int>(texts.size()));
  if (isNew)
    texts.push_back(&entry->first);
  return entry->second;
}

void Table::write(std::ostream &os, std::string_view key) const {
  os << ",\n \"" << key << "\": [";
  for (size_t i = 0; i < texts.size(); ++i)
    os << (i ? ",\n  " : "\n  ") << *texts[i];
  os << "]";
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// The inputs that the blocks of `node` lack, in the order of their first use.
static void captureValues(NodeRecord &node,
                          const std::unordered_map<std::string, int> &types) {
  std::vector<std::string> captured;
  std::set<std::string> seen;
  for (const BlockRecord &block : node.blocks) {
    std::set<std::string> own;
    for (const InputRecord &input : block.inputs)
      own.insert(input.name);
    auto use = [&](const std::string &name) {
      if (!own.count(name) && seen.insert(name).second)
        captured.push_back(name);
    };
    for (const NodeRecord &inner : block.nodes) {
      for (const std::string &name : inner.uses)
        use(name);
      own.insert(inner.name);
    }
    for (const std::string &name : block.outputUses)
      use(name);
  }
  for (const std::string &name : captured) {
    auto type = types.find(name);
    for (BlockRecord &block : node.blocks) {
      InputRecord input;
      input.name = name;
      input.type = type == types.end() ? -1 : type->second;
      block.inputs.push_back(input);
    }
    node.args.push_back(form("node", quote(name)));
    node.uses.push_back(name);
  }
}

void opprof::torchscript::finishBlock(
    BlockRecord &block, const std::unordered_map<std::string, int> &types) {
  std::set<std::string> needed(block.outputUses.begin(),
                               block.outputUses.end());
  std::vector<NodeRecord> kept;
  for (auto node = block.nodes.rbegin(); node != block.nodes.rend(); ++node) {
    if (!node->acts && !needed.count(node->name))
      continue;
    if (!node->blocks.empty()) {
      for (BlockRecord &inner : node->blocks)
        finishBlock(inner, types);
      captureValues(*node, types);
    }
    needed.insert(node->uses.begin(), node->uses.end());
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  block.nodes = std::move(kept);
}

static void writeInput(std::ostream &os, const InputRecord &input,
                       bool isOfGraph) {
  os << "{\"name\":" << quote(input.name);
  if (input.type >= 0)
    os << ",\"type\":" << input.type;
  if (isOfGraph) {
    os << ",\"kind\":" << quote(input.kind);
    if (!input.target.empty() || input.kind != "user_input")
      os << ",\"target\":" << quote(input.target);
    if (!input.persistent)
      os << ",\"persistent\":false";
  }
  os << "}";
}

static void writeNode(std::ostream &os, const NodeRecord &node);

static void writeBlock(std::ostream &os, const BlockRecord &block) {
  os << "{\"inputs\":[";
  for (size_t i = 0; i < block.inputs.size(); ++i) {
    os << (i ? "," : "");
    writeInput(os, block.inputs[i], /*isOfGraph=*/false);
  }
  os << "],\"nodes\":[";
  for (size_t i = 0; i < block.nodes.size(); ++i) {
    os << (i ? "," : "");
    writeNode(os, block.nodes[i]);
  }
  os << "],\"outputs\":" << listText(block.outputs) << "}";
}

static void writeNode(std::ostream &os, const NodeRecord &node) {
  os << "{\"name\":" << quote(node.name) << ",\"op\":" << quote(node.op)
     << ",\"target\":" << quote(node.target)
     << ",\"args\":" << listText(node.args) << ",\"kwargs\":{";
  for (size_t i = 0; i < node.kwargs.size(); ++i)
    os << (i ? "," : "") << quote(node.kwargs[i].first) << ":"
       << node.kwargs[i].second;
  os << "}";
  if (!node.blocks.empty()) {
    os << ",\"blocks\":[";
    for (size_t i = 0; i < node.blocks.size(); ++i) {
      os << (i ? "," : "");
      writeBlock(os, node.blocks[i]);
    }
    os << "]";
  }
  for (auto [key, index] : {std::pair("type", node.type),
                            {"stack", node.stack},
                            {"modules", node.modules}})
    if (index >= 0)
      os << ",\"" << key << "\":" << index;
  os << "}";
}

void GraphFile::write(std::ostream &os, const Producer &producer,
                      std::string_view name, const BlockRecord &graph,
                      bool returnsOneValue) const {
  os << "{\"opprof_graph_version\": 1,\n \"producer\": {\"torch\":"
     << quote(producer.torch) << ",\"opprof\":" << quote(producer.opprof)
     << ",\"from\":\"torchscript\",\"method\":" << quote(producer.method)
     << (producer.trains ? ",\"training\":true}" : "}");
  types.write(os, "types");
  stacks.write(os, "stacks");
  modules.write(os, "modules");
  os << ",\n \"graphs\": [\n  {\"name\":" << quote(name)
     << ",\"stage\":\"export\",\n   \"inputs\": [";
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    os << (i ? ",\n    " : "\n    ");
    writeInput(os, graph.inputs[i], /*isOfGraph=*/true);
  }
  os << "],\n   \"nodes\": [";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    os << (i ? ",\n    " : "\n    ");
    writeNode(os, graph.nodes[i]);
  }
  os << "],\n   \"outputs\": [";
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    os << (i ? ",\n    " : "\n    ") << "{\"value\":" << graph.outputs[i]
       << ",\"kind\":\"user_output\"}";
  std::vector<std::string> attributes;
  if (returnsOneValue)
    attributes.push_back("\"output\":\"single\"");
  auto addMap = [&](const char *name,
                    const std::map<std::string, std::string> &entries) {
    if (entries.empty())
      return;
    std::string text;
    for (const auto &[key, value] : entries)
      text += (text.empty() ? "" : ",") + quote(key) + ":" + value;
    attributes.push_back(quote(name) + ":{" + text + "}");
  };
  addMap("state", state);
  addMap("argument_forms", argumentForms);
  if (!sharedMemory.empty())
    attributes.push_back("\"shared_memory\":" + listText(sharedMemory));
  os << "],\n   \"range_constraints\":{},\"attributes\":{";
  for (size_t i = 0; i < attributes.size(); ++i)
    os << (i ? "," : "") << attributes[i];
  os << "}}]}\n";
}
