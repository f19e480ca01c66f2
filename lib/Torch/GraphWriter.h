// Graph JSON (docs/formats/graph-json.md) as it is made, without LLVM: texts of
// arguments, the tables of repeated values, and nodes with their blocks.

#ifndef OPPROF_LIB_TORCH_GRAPHWRITER_H
#define OPPROF_LIB_TORCH_GRAPHWRITER_H

#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opprof::torchscript {

/// `text` as JSON; bytes that are no UTF-8 become U+FFFD.
std::string quote(std::string_view text);
/// A number as JSON, with a point or exponent, or the form of one that JSON has
/// none for.
std::string floatText(double number);
/// A JSON array of texts that are JSON.
std::string listText(const std::vector<std::string> &elements);
/// {"key": value}
std::string form(std::string_view key, std::string_view value);

/// Texts that stand once in the file and are referred to by index.
class Table {
public:
  int add(const std::string &text);
  void write(std::ostream &os, std::string_view key) const;

private:
  std::unordered_map<std::string, int> indices;
  std::vector<const std::string *> texts;
};

struct NodeRecord;

/// A value that a block or graph takes.
struct InputRecord {
  std::string name;
  /// An index into the table of types; -1 where the type is unknown.
  int type = -1;
  std::string kind = "user_input", target;
  bool persistent = true;
};

/// Nodes in order, and what they give. Inside a node, the inputs that stand for
/// values of the enclosing block have those values' names.
struct BlockRecord {
  std::vector<InputRecord> inputs;
  std::vector<NodeRecord> nodes;
  std::vector<std::string> outputs;
  /// Names that the outputs hold.
  std::vector<std::string> outputUses;
};

struct NodeRecord {
  std::string name, target;
  std::string op = "call_function";
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> kwargs;
  int type = -1, stack = -1, modules = -1;
  /// Names that the arguments hold.
  std::vector<std::string> uses;
  /// True where a node without users has to stay.
  bool acts = false;
  std::vector<BlockRecord> blocks;
};

/// Drops the nodes that nothing needs, and gives every block the inputs and
/// every node with blocks the operands that its blocks take from outside.
/// `types` says the type of each name.
void finishBlock(BlockRecord &block,
                 const std::unordered_map<std::string, int> &types);

/// The tables and graphs of one file.
struct GraphFile {
  Table types, stacks, modules;
  /// What attributes that the graph reads, writes or changes, and that are no
  /// tensors, hold before the first call: by name, as JSON.
  std::map<std::string, std::string> state;
  /// Tensors among the weights that are parts of one memory, of which the graph
  /// writes one: by name, where each begins in it and its strides, as JSON.
  std::vector<std::string> sharedMemory;

  /// What the graph takes from arguments that are None or no tensors by
  /// themselves: by name, as JSON.
  std::map<std::string, std::string> argumentForms;

  /// Who wrote the file, which method was read, and whether it was saved to be
  /// trained.
  struct Producer {
    std::string_view torch, opprof, method;
    bool trains = false;
  };

  /// Writes the file with one graph.
  void write(std::ostream &os, const Producer &producer, std::string_view name,
             const BlockRecord &graph, bool returnsOneValue) const;
};

} // namespace opprof::torchscript

#endif // OPPROF_LIB_TORCH_GRAPHWRITER_H
