// Values of graph JSON as attributes: any JSON, and arguments of nodes in the
// forms of docs/formats/graph-json.md.

#ifndef OPPROF_LIB_TARGET_FXJSON_VALUEREADER_H
#define OPPROF_LIB_TARGET_FXJSON_VALUEREADER_H

#include "JSONSource.h"

#include "opprof/Dialect/FX/IR/GraphBuilder.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/xxhash.h"

#include <array>

namespace opprof::fx {

/// Attributes of strings that come again and again: asking here is cheaper than
/// asking the context. Strings that come once push each other out.
class StringCache {
public:
  explicit StringCache(mlir::MLIRContext *context) : context(context) {}

  mlir::StringAttr get(llvm::StringRef text) {
    mlir::StringAttr &entry = entries[llvm::xxh3_64bits(text) % entries.size()];
    if (!entry || entry.getValue() != text)
      entry = mlir::StringAttr::get(context, text);
    return entry;
  }

private:
  mlir::MLIRContext *context;
  std::array<mlir::StringAttr, 512> entries;
};

/// The graph at hand, whose values arguments name.
struct GraphScope {
  std::optional<GraphBuilder> graph;
  /// The first reference to a name that was not seen yet: what was wrong with
  /// it is known at the end of the graph.
  llvm::StringRef danglingName;
  std::string danglingUser;
  const char *danglingPlace = nullptr;

  void begin(ModuleBuilder &program) {
    graph.emplace(program);
    danglingPlace = nullptr;
  }
  /// Goes into a block of a node, which sees its own values only.
  void beginBlock(ModuleBuilder &program) {
    graph.emplace(program, BlockOfNode());
    danglingPlace = nullptr;
  }
  /// Goes on with what was moved away.
  void resume(GraphScope &&other) {
    graph.emplace(std::move(*other.graph));
    danglingName = other.danglingName;
    danglingUser = std::move(other.danglingUser);
    danglingPlace = other.danglingPlace;
  }
};

/// Functions return null after an error.
class ValueReader {
public:
  ValueReader(JSONSource &source, mlir::MLIRContext *context)
      : strings(context), source(source), lexer(source.lexer), context(context),
        builder(context), valueAttr(ValueAttr::get(context)) {}

  mlir::Attribute readJSON() { return readValue(Grammar::Json, 0); }
  /// References to nodes go to `into`, in order.
  mlir::Attribute readArgument(llvm::SmallVectorImpl<mlir::Value> &into) {
    operands = &into;
    return readValue(Grammar::Argument, 0);
  }

  StringCache strings;
  GraphScope scope;
  /// The name of the node being read: most strings that come once are that.
  mlir::StringAttr ownName;
  /// Graphs that arguments name, each with the place where it came first.
  llvm::SmallVector<std::pair<mlir::FlatSymbolRefAttr, std::string>>
      graphReferences;

private:
  /// What a value may be.
  enum class Grammar { Json, Argument };
  mlir::Attribute readValue(Grammar grammar, unsigned depth);
  mlir::Attribute readList(Grammar grammar, unsigned depth);
  mlir::Attribute readMembers(unsigned depth, unsigned limit);
  mlir::Attribute readForm(unsigned depth);
  bool sortMembers(llvm::MutableArrayRef<mlir::NamedAttribute> members);
  mlir::Attribute readReference();
  bool checkNesting(unsigned depth, unsigned limit) {
    return depth < limit ||
           fail("values are nested deeper than " + llvm::Twine(limit));
  }
  bool fail(const llvm::Twine &what) { return source.fail(what); }
  mlir::StringAttr getString(llvm::StringRef value) {
    return ownName && value == ownName.getValue() ? ownName
                                                  : strings.get(value);
  }

  JSONSource &source;
  JSONLexer &lexer;
  mlir::MLIRContext *context;
  mlir::Builder builder;
  ValueAttr valueAttr;

  /// Elements of all lists and members of all objects that are being read, the
  /// innermost last.
  llvm::SmallVector<mlir::Attribute> elements;
  llvm::SmallVector<mlir::NamedAttribute> members;
  /// The keys of the last object, as they came, and the order that they have in
  /// a dictionary: most objects have the keys of the one before.
  llvm::SmallVector<mlir::StringAttr> lastKeys;
  llvm::SmallVector<unsigned> lastOrder;
  llvm::SmallVector<mlir::NamedAttribute> sorted;
  llvm::SmallVectorImpl<mlir::Value> *operands = nullptr;
  llvm::StringSet<> referencedGraphs;
};

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_FXJSON_VALUEREADER_H
