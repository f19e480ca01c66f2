// Printed FX modules. Turns `x: "f32[4]" = torch.ops.aten.relu.default(y);  y =
// None` back into nodes. Nested classes are the bodies of higher-order
// operators.

#include "opprof/Target/InductorCode/FXReadable.h"
#include "opprof/Target/InductorCode/PythonParser.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

namespace {
class ModuleReader {
public:
  ModuleReader(GraphView &graph, uint64_t &kept) : graph(graph), kept(kept) {}

  void readClass(const Stmt &stmt);

private:
  void readForward(const Stmt &function);
  void readStatement(const Stmt &stmt);
  void readComments(const Stmt &stmt);
  void addNode(const Stmt &stmt, StringRef name, const Expr &value);
  void addResultTypes();

  json::Value convert(const Expr &expr, std::vector<uint32_t> &operands);
  json::Value convertCall(const Expr &expr, std::vector<uint32_t> &operands);
  std::optional<uint32_t> lookup(StringRef name) const {
    auto it = names.find(name);
    if (it == names.end())
      return std::nullopt;
    return it->second;
  }

  GraphView &graph;
  uint64_t &kept;
  StringMap<uint32_t> names;
  SourcePlace place;
};
} // namespace

static json::Value wrap(StringRef key, json::Value value) {
  return json::Object{{key, std::move(value)}};
}

static json::Value object(const Expr &expr) {
  return wrap("object", json::Object{{"type", "expression"},
                                     {"repr", expr.source.str()}});
}

json::Value ModuleReader::convertCall(const Expr &expr,
                                      std::vector<uint32_t> &operands) {
  std::string callee = expr.items[0]->dotted();
  if (callee == "device" || callee == "torch.device") {
    const Expr *type = expr.keyword("type");
    SmallVector<const Expr *> positional = expr.positional();
    if (!type && !positional.empty())
      type = positional[0];
    if (type && type->stringValue()) {
      std::string name = *type->stringValue();
      if (const Expr *index = expr.keyword("index"))
        name += (":" + index->source).str();
      return wrap("device", name);
    }
  }
  if (callee == "slice") {
    json::Array parts;
    for (const Expr *item : expr.positional())
      parts.push_back(convert(*item, operands));
    if (parts.size() == 1)
      parts.insert(parts.begin(), nullptr);
    while (parts.size() < 3)
      parts.push_back(nullptr);
    return wrap("slice", std::move(parts));
  }
  if (callee == "float") {
    SmallVector<const Expr *> positional = expr.positional();
    if (positional.size() == 1 && positional[0]->stringValue()) {
      std::string text = *positional[0]->stringValue();
      if (text == "inf" || text == "-inf" || text == "nan")
        return wrap("float", text);
    }
  }
  return object(expr);
}

json::Value ModuleReader::convert(const Expr &expr,
                                  std::vector<uint32_t> &operands) {
  auto list = [&](ArrayRef<const Expr *> items) {
    json::Array out;
    for (const Expr *item : items)
      out.push_back(convert(*item, operands));
    return out;
  };
  switch (expr.kind) {
  case Expr::Name: {
    if (std::optional<uint32_t> node = lookup(expr.text)) {
      operands.push_back(*node);
      return makeNodeArgument(*node);
    }
    if (expr.text == "None")
      return nullptr;
    if (expr.text == "True" || expr.text == "False")
      return expr.text == "True";
    if (expr.text == "inf" || expr.text == "nan")
      return wrap("float", expr.text.str());
    if (expr.text == "...")
      return wrap("ellipsis", true);
    return object(expr);
  }
  case Expr::Number: {
    std::string digits = expr.text.str();
    llvm::erase(digits, '_');
    if (StringRef(digits).find_first_of(".eE") == StringRef::npos ||
        StringRef(digits).starts_with("0x")) {
      int64_t value;
      if (!StringRef(digits).getAsInteger(0, value))
        return value;
      if (StringRef(digits).find_first_not_of("0123456789") == StringRef::npos)
        return wrap("int", digits);
      return object(expr);
    }
    double value;
    if (StringRef(digits).getAsDouble(value))
      return object(expr);
    if (StringRef(digits).ends_with("."))
      digits += '0';
    if (StringRef(digits).starts_with("."))
      digits.insert(0, 1, '0');
    return wrap(kRealNumberKey, digits);
  }
  case Expr::String:
    return *expr.stringValue();
  case Expr::Unary: {
    if (expr.text == "-") {
      json::Value inner = convert(*expr.items[0], operands);
      if (std::optional<int64_t> value = inner.getAsInteger())
        return -*value;
      if (json::Object *wrapped = inner.getAsObject())
        for (StringRef key :
             {StringRef("float"), StringRef(kRealNumberKey), StringRef("int")})
          if (std::optional<StringRef> text = wrapped->getString(key))
            return wrap(key, ("-" + *text).str());
    }
    return object(expr);
  }
  case Expr::Tuple:
    return wrap("tuple", list(expr.items));
  case Expr::List:
    return list(expr.items);
  case Expr::Dict: {
    json::Array pairs;
    for (size_t i = 0; i + 1 < expr.items.size(); i += 2)
      pairs.push_back(list(expr.items.slice(i, 2)));
    return wrap("dict", std::move(pairs));
  }
  case Expr::Slice: {
    json::Array parts;
    for (const Expr *item : expr.items)
      parts.push_back(item ? convert(*item, operands) : json::Value(nullptr));
    return wrap("slice", std::move(parts));
  }
  case Expr::Attribute: {
    std::string dotted = expr.dotted();
    StringRef rest = dotted;
    if (rest.consume_front("torch.ops."))
      return wrap("op", rest.str());
    if (rest.consume_front("torch.")) {
      if (lookupDType(rest))
        return wrap("dtype", rest.str());
      if (rest == "strided" || rest.starts_with("sparse") || rest == "_mkldnn")
        return wrap("layout", rest.str());
      if (rest == "contiguous_format" || rest == "preserve_format" ||
          rest.starts_with("channels_last"))
        return wrap("memory_format", rest.str());
    }
    return object(expr);
  }
  case Expr::Call:
    return convertCall(expr, operands);
  default:
    return object(expr);
  }
}

void ModuleReader::addNode(const Stmt &stmt, StringRef name,
                           const Expr &value) {
  GraphNode node;
  node.name = name.str();
  node.line = stmt.line;
  node.source = place;
  if (stmt.annotation)
    if (std::optional<std::string> text = stmt.annotation->stringValue()) {
      StringRef type = *text;
      if (std::optional<TensorInfo> info = parseShortType(type))
        node.results.push_back(std::move(*info));
      else if (type.consume_front("Sym(") && type.consume_back(")"))
        node.symbol = type.str();
    }

  if (value.kind == Expr::Call) {
    StringRef target;
    std::string dotted = value.items[0]->dotted();
    target = dotted;
    target.consume_front("torch.ops.");
    node.target = target.str();
    for (auto [item, key] : zip(value.items.drop_front(), value.names)) {
      if (key.empty())
        node.args.push_back(convert(*item, node.operands));
      else
        node.kwargs.emplace_back(key.str(), convert(*item, node.operands));
    }
  } else if (value.kind == Expr::Subscript) {
    node.target = "operator.getitem";
    node.args.push_back(convert(*value.items[0], node.operands));
    node.args.push_back(convert(*value.items[1], node.operands));
  } else if (value.kind == Expr::Attribute &&
             StringRef(value.dotted()).starts_with("self.")) {
    node.op = GraphNode::GetAttr;
    node.target = value.dotted().substr(5);
  } else if (value.kind == Expr::Binary || value.kind == Expr::Unary) {
    StringRef function =
        StringSwitch<StringRef>(value.text)
            .Case("+", value.kind == Expr::Unary ? "pos" : "add")
            .Case("-", value.kind == Expr::Unary ? "neg" : "sub")
            .Case("*", "mul")
            .Case("/", "truediv")
            .Case("//", "floordiv")
            .Case("%", "mod")
            .Case("**", "pow")
            .Case("<", "lt")
            .Case("<=", "le")
            .Case(">", "gt")
            .Case(">=", "ge")
            .Case("==", "eq")
            .Case("!=", "ne")
            .Case("&", "and_")
            .Case("|", "or_")
            .Default("");
    if (function.empty()) {
      ++kept;
      return;
    }
    node.target = ("operator." + function).str();
    for (const Expr *item : value.items)
      node.args.push_back(convert(*item, node.operands));
  } else {
    ++kept;
    return;
  }
  names[name] = graph.nodes.size();
  graph.nodes.push_back(std::move(node));
}

void ModuleReader::readComments(const Stmt &stmt) {
  for (const CommentLine &comment : stmt.leading) {
    StringRef text = comment.text.ltrim("# ");
    if (text.starts_with("No stacktrace found")) {
      place = {};
      continue;
    }
    if (!text.consume_front("File: "))
      continue;
    // "path:line in function, code: …"; a path may hold colons and spaces.
    auto [where, code] = text.split(", code: ");
    StringRef path = where.rsplit(" in ").first;
    auto [file, line] = path.rsplit(':');
    SourcePlace read;
    if (line.getAsInteger(10, read.line))
      continue;
    // A line of code that FX made is no line of the program's.
    if (file.starts_with("<eval_with_key>")) {
      place = {};
      continue;
    }
    read.file = file.str();
    read.code = code.str();
    place = std::move(read);
  }
}

void ModuleReader::readStatement(const Stmt &stmt) {
  readComments(stmt);
  if (stmt.kind == Stmt::Return) {
    graph.outputs.clear();
    graph.outputArgs.clear();
    if (!stmt.value)
      return;
    if (stmt.value->kind == Expr::Tuple || stmt.value->kind == Expr::List)
      for (const Expr *item : stmt.value->items)
        graph.outputArgs.push_back(convert(*item, graph.outputs));
    else
      graph.outputArgs.push_back(convert(*stmt.value, graph.outputs));
    return;
  }
  if (stmt.kind == Stmt::Assign && stmt.value && stmt.value->isName("None"))
    return; // FX drops a reference after its last use.
  if (stmt.kind == Stmt::Assign && stmt.name == "=" &&
      stmt.targets.size() == 1 && stmt.targets[0]->kind == Expr::Name &&
      stmt.value) {
    addNode(stmt, stmt.targets[0]->text, *stmt.value);
    return;
  }
  if (stmt.kind == Stmt::ExprStmt && stmt.value->kind == Expr::Call) {
    // A node without users is printed as a bare call in some versions.
    std::string name = ("_" + Twine(stmt.line)).str();
    addNode(stmt, name, *stmt.value);
    return;
  }
  // Flattened inputs are unpacked by a call on the module's own spec.
  if (stmt.kind == Stmt::Pass)
    return;
  ++kept;
}

void ModuleReader::readForward(const Stmt &function) {
  for (auto [name, annotation] :
       zip(function.parameters, function.annotations)) {
    if (name == "self")
      continue;
    GraphNode node;
    node.op = GraphNode::Placeholder;
    node.name = name.str();
    node.target = name.str();
    node.line = function.line;
    if (annotation)
      if (std::optional<std::string> text = annotation->stringValue()) {
        StringRef type = *text;
        if (std::optional<TensorInfo> info = parseShortType(type))
          node.results.push_back(std::move(*info));
        else if (type.consume_front("Sym(") && type.consume_back(")"))
          node.symbol = type.str();
      }
    names[name] = graph.nodes.size();
    graph.nodes.push_back(std::move(node));
  }
  for (const Stmt *stmt : function.body)
    readStatement(*stmt);
}

/// A node with several results is printed without a type; its getitem users
/// have them.
void ModuleReader::addResultTypes() {
  for (const GraphNode &node : graph.nodes) {
    if (node.target != "operator.getitem" || node.operands.size() != 1 ||
        node.results.size() != 1 || node.args.size() != 2)
      continue;
    std::optional<int64_t> at = node.args[1].getAsInteger();
    GraphNode &producer = graph.nodes[node.operands[0]];
    if (!at || *at < 0 || *at > 4096 ||
        (producer.results.size() == 1 && !producer.resultIsTuple))
      continue;
    producer.resultIsTuple = true;
    if (producer.results.size() <= static_cast<size_t>(*at))
      producer.results.resize(*at + 1);
    producer.results[*at] = node.results[0];
  }
}

void ModuleReader::readClass(const Stmt &stmt) {
  for (const Stmt *member : stmt.body) {
    if (member->kind == Stmt::Function && member->name == "forward") {
      readForward(*member);
    } else if (member->kind == Stmt::Class) {
      GraphView child;
      child.name = member->name.str();
      child.stage = graph.stage;
      ModuleReader(child, kept).readClass(*member);
      // A body within a body is "body.branch" in graph JSON too.
      std::vector<GraphView> inner = std::exchange(child.subgraphs, {});
      child.reindex();
      for (GraphView &body : inner)
        body.name = child.name + "." + body.name;
      graph.subgraphs.push_back(std::move(child));
      std::move(inner.begin(), inner.end(),
                std::back_inserter(graph.subgraphs));
    }
  }
  addResultTypes();
  graph.reindex();
}

Expected<GraphView> opprof::inductor::readFXReadable(StringRef source,
                                                     StringRef fileName,
                                                     uint64_t *keptAsText) {
  Expected<SyntaxTree> tree = parsePython(source, fileName);
  if (!tree)
    return tree.takeError();
  uint64_t kept = 0;
  GraphView graph;
  graph.stage = "post_grad";
  bool found = false;
  for (const Stmt *stmt : tree->statements()) {
    if (stmt->kind != Stmt::Class || found)
      continue;
    bool hasForward = any_of(stmt->body, [](const Stmt *member) {
      return member->kind == Stmt::Function && member->name == "forward";
    });
    if (!hasForward)
      continue;
    found = true;
    graph.name = stmt->name == "lambda" ? "main" : stmt->name.str();
    ModuleReader(graph, kept).readClass(*stmt);
  }
  if (!found)
    return createStringError(
        fileName + ": holds no class with a forward method; expected a printed "
                   "FX module such as fx_graph_transformed.py");
  if (keptAsText)
    *keptAsText = kept;
  return graph;
}
