// Syntax of generated Python. Precedence climbing over one logical line at a
// time. A line that does not parse is kept as text, and the next one starts
// afresh.

#include "opprof/Target/InductorCode/PythonParser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

//===----------------------------------------------------------------------===//
// Expr
//===----------------------------------------------------------------------===//

std::string Expr::dotted() const {
  SmallVector<StringRef> parts;
  const Expr *expr = this;
  for (; expr->kind == Attribute; expr = expr->items[0])
    parts.push_back(expr->text);
  if (expr->kind != Name)
    return "";
  std::string out = expr->text.str();
  for (StringRef part : reverse(parts))
    (out += '.') += part;
  return out;
}

SmallVector<const Expr *> Expr::positional() const {
  SmallVector<const Expr *> out;
  if (kind == Call)
    for (auto [item, name] : zip(items.drop_front(), names))
      if (name.empty() && item->kind != Star)
        out.push_back(item);
  return out;
}

const Expr *Expr::keyword(StringRef name) const {
  if (kind == Call)
    for (auto [item, key] : zip(items.drop_front(), names))
      if (key == name)
        return item;
  return nullptr;
}

const Expr *Expr::lookup(StringRef key) const {
  if (kind == Dict)
    for (size_t i = 0; i + 1 < items.size(); i += 2)
      if (items[i]->kind == String && stringBody(items[i]->text) == key)
        return items[i + 1];
  return nullptr;
}

std::optional<std::string> Expr::stringValue() const {
  if (kind != String)
    return std::nullopt;
  std::string out = decodeString(text);
  for (const Expr *more : items)
    out += decodeString(more->text);
  return out;
}

std::optional<int64_t> Expr::intValue() const {
  const Expr *expr = this;
  bool negative = false;
  while (expr->kind == Unary && (expr->text == "-" || expr->text == "+")) {
    negative ^= expr->text == "-";
    expr = expr->items[0];
  }
  int64_t value;
  if (expr->kind != Number || expr->text.getAsInteger(0, value))
    return std::nullopt;
  return negative ? -value : value;
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

namespace {
/// Parses expressions out of a list of tokens. Every function returns null
/// where the tokens are none it knows.
class ExprParser {
public:
  ExprParser(ArrayRef<Token> tokens, BumpPtrAllocator &arena)
      : tokens(tokens), arena(arena) {}

  const Token &peek() const {
    static const Token none;
    return at < tokens.size() ? tokens[at] : none;
  }
  bool done() const { return at >= tokens.size(); }
  bool acceptOp(StringRef op) {
    if (!peek().isOp(op))
      return false;
    ++at;
    return true;
  }
  bool acceptName(StringRef name) {
    if (!peek().isName(name))
      return false;
    ++at;
    return true;
  }

  /// a, b, … where commas make a tuple.
  const Expr *parseList();
  const Expr *parse();
  /// A target of `for`, or of a plain expression without `in`.
  const Expr *parseTargetList();

  template <typename T> ArrayRef<T> copy(ArrayRef<T> values) {
    if (values.empty())
      return {};
    T *out = arena.Allocate<T>(values.size());
    std::uninitialized_copy(values.begin(), values.end(), out);
    return ArrayRef<T>(out, values.size());
  }

  size_t at = 0;

private:
  const Expr *make(Expr::Kind kind, size_t from, StringRef text,
                   ArrayRef<const Expr *> items = {},
                   ArrayRef<StringRef> names = {});
  const Expr *parseBinary(unsigned precedence);
  const Expr *parseUnary();
  const Expr *parsePostfix();
  const Expr *parseAtom();
  const Expr *parseSubscript();
  bool parseArguments(SmallVectorImpl<const Expr *> &items,
                      SmallVectorImpl<StringRef> &names);
  /// Keeps everything up to the end of the enclosing bracket or line as Text.
  const Expr *keepText(size_t from);
  StringRef sourceFrom(size_t from) const;

  ArrayRef<Token> tokens;
  BumpPtrAllocator &arena;
  unsigned depth = 0;
};
} // namespace

StringRef ExprParser::sourceFrom(size_t from) const {
  if (from >= at)
    return StringRef();
  const char *begin = tokens[from].text.begin();
  return StringRef(begin, tokens[at - 1].text.end() - begin);
}

const Expr *ExprParser::make(Expr::Kind kind, size_t from, StringRef text,
                             ArrayRef<const Expr *> items,
                             ArrayRef<StringRef> names) {
  unsigned below = 0;
  for (const Expr *item : items)
    if (item)
      below = std::max<unsigned>(below, item->depth);
  Expr *expr = new (arena.Allocate<Expr>()) Expr();
  expr->line = from < tokens.size() ? tokens[from].line : 0;
  expr->source = sourceFrom(from);
  if (below + 1 > Expr::kMaxDepth) {
    expr->kind = Expr::Text;
    expr->depth = 1;
    expr->text = expr->source;
    return expr;
  }
  expr->kind = kind;
  expr->depth = below + 1;
  expr->text = text;
  expr->items = copy(items);
  expr->names = copy(names);
  return expr;
}

const Expr *ExprParser::keepText(size_t from) {
  unsigned open = 0;
  at = from;
  // The commas between a lambda's parameters do not end it.
  bool parameters = tokens[from].isName("lambda");
  for (; at < tokens.size(); ++at) {
    const Token &token = tokens[at];
    if (token.kind != Token::Op)
      continue;
    if (parameters && !open && token.text == ":")
      parameters = false;
    if (token.text == "(" || token.text == "[" || token.text == "{")
      ++open;
    else if (token.text == ")" || token.text == "]" || token.text == "}") {
      if (!open)
        break;
      --open;
    } else if (!open && !parameters && token.text == ",")
      break;
  }
  if (at == from)
    return nullptr;
  return make(Expr::Text, from, sourceFrom(from));
}

const Expr *ExprParser::parseList() {
  size_t from = at;
  const Expr *first = parse();
  if (!first || !peek().isOp(","))
    return first;
  SmallVector<const Expr *> items = {first};
  while (acceptOp(",")) {
    const Token &token = peek();
    if (done() || token.isOp(")") || token.isOp("]") || token.isOp("=") ||
        token.isOp(";") || token.isOp(":"))
      break;
    const Expr *item = parse();
    if (!item)
      return nullptr;
    items.push_back(item);
  }
  return make(Expr::Tuple, from, "", items);
}

const Expr *ExprParser::parseTargetList() {
  size_t from = at;
  SmallVector<const Expr *> items;
  bool comma = false;
  do {
    if (done() || peek().isName("in"))
      break;
    const Expr *item = parsePostfix();
    if (!item)
      return nullptr;
    items.push_back(item);
    comma |= peek().isOp(",");
  } while (acceptOp(","));
  if (items.empty())
    return nullptr;
  return comma ? make(Expr::Tuple, from, "", items) : items.front();
}

const Expr *ExprParser::parse() {
  if (depth > Expr::kMaxDepth)
    return nullptr;
  ++depth;
  scope_exit leave([&] { --depth; });
  size_t from = at;
  if (peek().isName("lambda") || peek().isName("await") ||
      peek().isName("yield"))
    return keepText(from);
  if (peek().isOp("*") || peek().isOp("**")) {
    StringRef op = tokens[at++].text;
    const Expr *operand = parseBinary(0);
    return operand ? make(Expr::Star, from, op, {operand}) : nullptr;
  }
  const Expr *value = parseBinary(0);
  if (!value)
    return nullptr;
  if (acceptName("if")) {
    const Expr *condition = parseBinary(0);
    if (!condition || !acceptName("else"))
      return nullptr;
    const Expr *otherwise = parse();
    if (!otherwise)
      return nullptr;
    return make(Expr::IfElse, from, "", {value, condition, otherwise});
  }
  if (peek().isName("for") || peek().isName("async") || peek().isOp(":="))
    return keepText(from);
  return value;
}

/// Binding strength of a binary operator; 0 where the token is none.
static unsigned precedenceOf(const Token &token, const Token &following) {
  if (token.kind == Token::Name)
    return StringSwitch<unsigned>(token.text)
        .Case("or", 1)
        .Case("and", 2)
        .Cases({"in", "is"}, 4)
        .Case("not", following.isName("in") ? 4 : 0)
        .Default(0);
  if (token.kind != Token::Op)
    return 0;
  return StringSwitch<unsigned>(token.text)
      .Cases({"<", ">", "==", "!=", "<=", ">="}, 4)
      .Case("|", 5)
      .Case("^", 6)
      .Case("&", 7)
      .Cases({"<<", ">>"}, 8)
      .Cases({"+", "-"}, 9)
      .Cases({"*", "/", "//", "%", "@"}, 10)
      .Default(0);
}

const Expr *ExprParser::parseBinary(unsigned minimum) {
  if (depth > Expr::kMaxDepth)
    return nullptr;
  ++depth;
  scope_exit leave([&] { --depth; });
  size_t from = at;
  const Expr *left = parseUnary();
  while (left && !done()) {
    static const Token none;
    const Token &following = at + 1 < tokens.size() ? tokens[at + 1] : none;
    unsigned precedence = precedenceOf(peek(), following);
    if (!precedence || precedence <= minimum)
      break;
    StringRef op = tokens[at++].text;
    if (op == "not" || (op == "is" && peek().isName("not"))) {
      op = op == "not" ? StringRef("not in") : StringRef("is not");
      ++at;
    }
    const Expr *right = parseBinary(precedence);
    if (!right)
      return nullptr;
    left = make(Expr::Binary, from, op, {left, right});
  }
  return left;
}

const Expr *ExprParser::parseUnary() {
  size_t from = at;
  SmallVector<StringRef, 4> ops;
  while (peek().isOp("-") || peek().isOp("+") || peek().isOp("~") ||
         peek().isName("not"))
    ops.push_back(tokens[at++].text);
  const Expr *value;
  if (!ops.empty() && ops.back() == "not") {
    // `not` binds weaker than comparisons.
    value = parseBinary(3);
  } else {
    value = parsePostfix();
    if (value && acceptOp("**")) {
      if (depth > Expr::kMaxDepth)
        return nullptr;
      ++depth;
      const Expr *power = parseUnary();
      --depth;
      if (!power)
        return nullptr;
      value = make(Expr::Binary, from, "**", {value, power});
    }
  }
  for (StringRef op : reverse(ops)) {
    if (!value)
      return nullptr;
    value = make(Expr::Unary, from, op, {value});
  }
  return value;
}

bool ExprParser::parseArguments(SmallVectorImpl<const Expr *> &items,
                                SmallVectorImpl<StringRef> &names) {
  while (!acceptOp(")")) {
    StringRef name;
    if (peek().kind == Token::Name && at + 1 < tokens.size() &&
        tokens[at + 1].isOp("=")) {
      name = peek().text;
      at += 2;
    }
    const Expr *value = parse();
    if (!value)
      return false;
    items.push_back(value);
    names.push_back(name);
    if (!acceptOp(",") && !peek().isOp(")"))
      return false;
  }
  return true;
}

const Expr *ExprParser::parseSubscript() {
  size_t from = at;
  SmallVector<const Expr *> items;
  bool comma = false;
  while (!peek().isOp("]")) {
    size_t itemFrom = at;
    const Expr *item = nullptr;
    if (!peek().isOp(":") && !(item = parse()))
      return nullptr;
    if (peek().isOp(":")) {
      const Expr *bounds[3] = {item, nullptr, nullptr};
      for (unsigned i = 1; i < 3 && acceptOp(":"); ++i)
        if (!peek().isOp(":") && !peek().isOp(",") && !peek().isOp("]") &&
            !(bounds[i] = parse()))
          return nullptr;
      item = make(Expr::Slice, itemFrom, "", bounds);
    }
    items.push_back(item);
    if (!acceptOp(",")) {
      if (!peek().isOp("]"))
        return nullptr;
      break;
    }
    comma = true;
  }
  if (items.empty())
    return nullptr;
  return comma ? make(Expr::Tuple, from, "", items) : items.front();
}

const Expr *ExprParser::parsePostfix() {
  size_t from = at;
  const Expr *value = parseAtom();
  while (value) {
    if (acceptOp(".")) {
      if (peek().kind != Token::Name)
        return nullptr;
      StringRef name = tokens[at++].text;
      value = make(Expr::Attribute, from, name, {value});
    } else if (acceptOp("(")) {
      SmallVector<const Expr *> items = {value};
      SmallVector<StringRef> names;
      if (!parseArguments(items, names))
        return nullptr;
      value = make(Expr::Call, from, "", items, names);
    } else if (acceptOp("[")) {
      const Expr *index = parseSubscript();
      if (!index || !acceptOp("]"))
        return nullptr;
      value = make(Expr::Subscript, from, "", {value, index});
    } else {
      break;
    }
  }
  return value;
}

const Expr *ExprParser::parseAtom() {
  if (done())
    return nullptr;
  size_t from = at;
  const Token &token = tokens[at];
  switch (token.kind) {
  case Token::Name:
    if (StringSwitch<bool>(token.text)
            .Cases({"if", "else", "for", "in", "is", "and", "or", "not"}, true)
            .Cases({"lambda", "def", "class", "return", "import"}, true)
            .Default(false))
      return nullptr;
    ++at;
    return make(Expr::Name, from, token.text);
  case Token::Number:
    ++at;
    return make(Expr::Number, from, token.text);
  case Token::String: {
    ++at;
    SmallVector<const Expr *> more;
    while (peek().is(Token::String)) {
      size_t moreFrom = at++;
      more.push_back(make(Expr::String, moreFrom, tokens[moreFrom].text));
    }
    return make(Expr::String, from, token.text, more);
  }
  case Token::Op:
    break;
  default:
    return nullptr;
  }

  if (acceptOp("...")) {
    return make(Expr::Name, from, token.text);
  }
  if (acceptOp("(")) {
    if (acceptOp(")"))
      return make(Expr::Tuple, from, "");
    const Expr *inner = parseList();
    if (!inner || !acceptOp(")"))
      return nullptr;
    if (inner->kind == Expr::Tuple)
      return make(Expr::Tuple, from, "", inner->items);
    return inner;
  }
  if (acceptOp("[")) {
    SmallVector<const Expr *> items;
    while (!acceptOp("]")) {
      const Expr *item = parse();
      if (!item)
        return nullptr;
      items.push_back(item);
      if (!acceptOp(",") && !peek().isOp("]"))
        return nullptr;
    }
    return make(Expr::List, from, "", items);
  }
  if (acceptOp("{")) {
    SmallVector<const Expr *> items;
    bool isSet = false;
    while (!acceptOp("}")) {
      const Expr *key = parse();
      if (!key)
        return nullptr;
      items.push_back(key);
      if (acceptOp(":")) {
        const Expr *value = parse();
        if (!value)
          return nullptr;
        items.push_back(value);
      } else {
        isSet = true;
      }
      if (!acceptOp(",") && !peek().isOp("}"))
        return nullptr;
    }
    if (!isSet && items.size() % 2)
      return nullptr;
    return make(isSet ? Expr::Set : Expr::Dict, from, "", items);
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

namespace opprof::inductor {
class Parser {
public:
  Parser(StringRef source, StringRef fileName)
      : lexer(source), fileName(fileName) {}

  Expected<SyntaxTree> run();

private:
  BumpPtrAllocator &arena() { return *tree.arena; }
  /// Reads tokens up to the end of a logical line; comments go to `comments`
  /// or, when they share the line, to `trailing`.
  bool readLine();
  void parseBlock(SmallVectorImpl<const Stmt *> &out);
  void parseLine(SmallVectorImpl<const Stmt *> &out);
  void parseCompound(SmallVectorImpl<const Stmt *> &out);
  void parseSimple(ArrayRef<Token> tokens, Stmt &stmt);
  void parseHeader(ArrayRef<Token> tokens, Stmt &stmt);
  void parseParameters(ExprParser &parser, Stmt &stmt);
  Stmt *start(ArrayRef<Token> tokens);

  template <typename T> ArrayRef<T> copy(ArrayRef<T> values) {
    return ExprParser({}, arena()).copy(values);
  }

  Lexer lexer;
  StringRef fileName;
  SyntaxTree tree;
  Token token;
  bool broken = false;
  SmallVector<Token, 64> line;
  SmallVector<CommentLine> comments;
  StringRef trailing;
};
} // namespace opprof::inductor

bool Parser::readLine() {
  line.clear();
  trailing = StringRef();
  while (true) {
    switch (token.kind) {
    case Token::Error:
      broken = true;
      return false;
    case Token::Newline:
      token = lexer.next();
      if (line.empty())
        continue;
      return true;
    case Token::Comment:
      if (line.empty())
        comments.push_back({token.line, token.text});
      else
        trailing = token.text;
      token = lexer.next();
      continue;
    case Token::Indent:
    case Token::Dedent:
    case Token::End:
      return !line.empty();
    default:
      line.push_back(token);
      token = lexer.next();
    }
  }
}

Stmt *Parser::start(ArrayRef<Token> tokens) {
  Stmt *stmt = new (arena().Allocate<Stmt>()) Stmt();
  stmt->line = tokens.front().line;
  stmt->leading = copy(ArrayRef<CommentLine>(comments));
  comments.clear();
  const char *begin = tokens.front().text.begin();
  stmt->source = StringRef(begin, tokens.back().text.end() - begin);
  return stmt;
}

static bool startsBlock(ArrayRef<Token> tokens) {
  return tokens.front().is(Token::Name) &&
         StringSwitch<bool>(tokens.front().text)
             .Cases({"def", "class", "with", "if", "elif", "else"}, true)
             .Cases({"for", "while", "try", "except", "finally", "async"}, true)
             .Default(false);
}

/// Where the ':' that opens the block stands.
static size_t findColon(ArrayRef<Token> tokens) {
  unsigned open = 0;
  bool lambda = false;
  // FX prints modules without a name as `class <lambda>(…):`.
  bool isClass = tokens.front().isName("class");
  for (auto [i, token] : enumerate(tokens)) {
    if (token.isName("lambda") && !isClass)
      lambda = true;
    if (token.kind != Token::Op)
      continue;
    if (token.text == "(" || token.text == "[" || token.text == "{")
      ++open;
    else if (token.text == ")" || token.text == "]" || token.text == "}")
      --open;
    else if (token.text == ":" && !open) {
      if (!lambda)
        return i;
      lambda = false;
    }
  }
  return tokens.size();
}

void Parser::parseSimple(ArrayRef<Token> tokens, Stmt &stmt) {
  ExprParser parser(tokens, arena());
  const Token &first = tokens.front();
  if (first.is(Token::Name)) {
    if (first.text == "import" || first.text == "from") {
      stmt.kind = Stmt::Import;
      return;
    }
    if (first.text == "pass" || first.text == "break" ||
        first.text == "continue" || first.text == "global" ||
        first.text == "nonlocal") {
      stmt.kind = Stmt::Pass;
      return;
    }
    if (first.text == "return" || first.text == "assert") {
      ++parser.at;
      bool isReturn = first.text == "return";
      if (parser.done()) {
        if (isReturn)
          stmt.kind = Stmt::Return;
        return;
      }
      stmt.value = parser.parseList();
      if (stmt.value && parser.done())
        stmt.kind = isReturn ? Stmt::Return : Stmt::Assert;
      return;
    }
    if (first.text == "del") {
      ++parser.at;
      const Expr *list = parser.parseList();
      if (!list || !parser.done())
        return;
      stmt.kind = Stmt::Delete;
      stmt.targets = list->kind == Expr::Tuple
                         ? list->items
                         : copy(ArrayRef<const Expr *>(list));
      return;
    }
  }

  const Expr *value = parser.parseList();
  if (!value)
    return;
  if (parser.done()) {
    stmt.kind = Stmt::ExprStmt;
    stmt.value = value;
    return;
  }
  SmallVector<const Expr *> targets = {value};
  if (parser.acceptOp(":")) {
    stmt.annotation = parser.parse();
    if (!stmt.annotation)
      return;
    if (parser.done()) {
      stmt.kind = Stmt::Assign;
      stmt.targets = copy(ArrayRef<const Expr *>(targets));
      return;
    }
  }
  StringRef op = parser.peek().text;
  if (parser.peek().kind != Token::Op || !op.ends_with("=") || op == "==" ||
      op == "!=" || op == "<=" || op == ">=")
    return;
  ++parser.at;
  const Expr *assigned = parser.parseList();
  while (assigned && op == "=" && parser.acceptOp("=")) {
    targets.push_back(assigned);
    assigned = parser.parseList();
  }
  if (!assigned || !parser.done())
    return;
  stmt.kind = Stmt::Assign;
  stmt.name = op;
  stmt.targets = copy(ArrayRef<const Expr *>(targets));
  stmt.value = assigned;
}

void Parser::parseParameters(ExprParser &parser, Stmt &stmt) {
  SmallVector<StringRef> names;
  SmallVector<const Expr *> annotations;
  while (!parser.acceptOp(")")) {
    if (parser.done())
      return;
    if (parser.acceptOp(",") || parser.acceptOp("*") || parser.acceptOp("**") ||
        parser.acceptOp("/"))
      continue;
    if (!parser.peek().is(Token::Name))
      return;
    names.push_back(parser.peek().text);
    ++parser.at;
    const Expr *annotation = nullptr;
    if (parser.acceptOp(":") && !(annotation = parser.parse()))
      return;
    annotations.push_back(annotation);
    if (parser.acceptOp("=") && !parser.parse())
      return;
  }
  stmt.parameters = copy(ArrayRef<StringRef>(names));
  stmt.annotations = copy(ArrayRef<const Expr *>(annotations));
  if (parser.acceptOp("->"))
    stmt.value = parser.parse();
  if (parser.done())
    stmt.kind = Stmt::Function;
}

void Parser::parseHeader(ArrayRef<Token> tokens, Stmt &stmt) {
  ExprParser parser(tokens, arena());
  StringRef keyword = tokens.front().text;
  ++parser.at;
  if (keyword == "def" || keyword == "class") {
    if (keyword == "class")
      parser.acceptOp("<");
    if (!parser.peek().is(Token::Name))
      return;
    stmt.name = parser.peek().text;
    ++parser.at;
    if (keyword == "def") {
      if (parser.acceptOp("("))
        parseParameters(parser, stmt);
    } else {
      stmt.kind = Stmt::Class;
    }
  } else if (keyword == "with") {
    const Expr *list = parser.parseList();
    if (!list)
      return;
    if (parser.acceptName("as") && !parser.parseTargetList())
      return;
    if (!parser.done())
      return;
    stmt.kind = Stmt::With;
    stmt.targets = list->kind == Expr::Tuple
                       ? list->items
                       : copy(ArrayRef<const Expr *>(list));
  } else if (keyword == "if" || keyword == "elif" || keyword == "while") {
    stmt.value = parser.parse();
    if (stmt.value && parser.done())
      stmt.kind = keyword == "while" ? Stmt::While : Stmt::If;
  } else if (keyword == "for") {
    const Expr *target = parser.parseTargetList();
    if (!target || !parser.acceptName("in"))
      return;
    stmt.value = parser.parseList();
    if (stmt.value && parser.done()) {
      stmt.kind = Stmt::For;
      stmt.targets = copy(ArrayRef<const Expr *>(target));
    }
  }
}

void Parser::parseCompound(SmallVectorImpl<const Stmt *> &out) {
  SmallVector<Token, 32> header(line.begin(), line.end());
  StringRef comment = trailing;
  size_t colon = findColon(header);
  Stmt *stmt = start(header);
  stmt->trailing = comment;
  StringRef keyword = header.front().text;
  ArrayRef<Token> head = ArrayRef<Token>(header).take_front(colon);
  parseHeader(head, *stmt);

  // Comments between the header and its block come before the indentation.
  for (; token.is(Token::Comment); token = lexer.next())
    comments.push_back({token.line, token.text});

  SmallVector<const Stmt *> body;
  if (colon + 1 < header.size()) {
    line.assign(header.begin() + colon + 1, header.end());
    parseLine(body);
  } else if (token.is(Token::Indent)) {
    token = lexer.next();
    parseBlock(body);
    if (token.is(Token::Dedent))
      token = lexer.next();
  }
  stmt->body = copy(ArrayRef<const Stmt *>(body));

  if (keyword == "else" || keyword == "elif") {
    // Belongs to the last `if`, `for` or `while` of the block; an `elif` is an
    // `if` in its else branch.
    Stmt *owner = out.empty() ? nullptr : const_cast<Stmt *>(out.back());
    while (owner && owner->kind == Stmt::If && owner->orelse.size() == 1 &&
           owner->orelse.front()->kind == Stmt::If &&
           owner->orelse.front()->source.starts_with("elif"))
      owner = const_cast<Stmt *>(owner->orelse.front());
    if (owner &&
        (owner->kind == Stmt::If || owner->kind == Stmt::For ||
         owner->kind == Stmt::While) &&
        owner->orelse.empty()) {
      owner->orelse =
          keyword == "else" ? stmt->body : copy(ArrayRef<const Stmt *>(stmt));
      return;
    }
    stmt->kind = Stmt::Text;
  }
  out.push_back(stmt);
}

void Parser::parseLine(SmallVectorImpl<const Stmt *> &out) {
  SmallVector<Token, 64> tokens(line.begin(), line.end());
  StringRef comment = trailing;
  ArrayRef<Token> rest = tokens;
  Stmt *last = nullptr;
  while (!rest.empty()) {
    size_t length = 0;
    unsigned open = 0;
    for (; length < rest.size(); ++length) {
      const Token &t = rest[length];
      if (t.kind != Token::Op)
        continue;
      if (t.text == "(" || t.text == "[" || t.text == "{")
        ++open;
      else if (t.text == ")" || t.text == "]" || t.text == "}")
        --open;
      else if (t.text == ";" && !open)
        break;
    }
    ArrayRef<Token> part = rest.take_front(length);
    rest = rest.drop_front(std::min(length + 1, rest.size()));
    if (part.empty())
      continue;
    last = start(part);
    parseSimple(part, *last);
    out.push_back(last);
  }
  if (last)
    last->trailing = comment;
}

void Parser::parseBlock(SmallVectorImpl<const Stmt *> &out) {
  while (!broken) {
    if (readLine()) {
      if (startsBlock(line) && findColon(line) < line.size())
        parseCompound(out);
      else
        parseLine(out);
      continue;
    }
    if (token.is(Token::Indent)) {
      // An indented block that no statement opened: read it in place.
      token = lexer.next();
      SmallVector<const Stmt *> body;
      parseBlock(body);
      if (token.is(Token::Dedent))
        token = lexer.next();
      out.append(body);
      continue;
    }
    return;
  }
}

Expected<SyntaxTree> Parser::run() {
  SmallVector<const Stmt *> module;
  token = lexer.next();
  while (!broken && !token.is(Token::End)) {
    parseBlock(module);
    if (token.is(Token::Dedent))
      token = lexer.next();
  }
  if (broken || token.is(Token::Error))
    return createStringError(fileName + ": " + lexer.error());
  tree.module = copy(ArrayRef<const Stmt *>(module));
  return std::move(tree);
}

Expected<SyntaxTree> opprof::inductor::parsePython(StringRef source,
                                                   StringRef fileName) {
  size_t offset = 0;
  if (!json::isUTF8(source, &offset))
    return createStringError(
        fileName + ": line " +
        Twine(source.take_front(offset).count('\n') + 1) +
        ": holds bytes that are no UTF-8: this is not a source file");
  return Parser(source, fileName).run();
}

const Expr *opprof::inductor::parseExpression(StringRef source,
                                              BumpPtrAllocator &arena) {
  Lexer lexer(source);
  SmallVector<Token, 64> tokens;
  for (Token token = lexer.next(); !token.is(Token::Newline);
       token = lexer.next()) {
    if (token.is(Token::End) || token.is(Token::Error))
      break;
    if (token.is(Token::Comment) || token.is(Token::Indent) ||
        token.is(Token::Dedent))
      continue;
    tokens.push_back(token);
  }
  if (tokens.empty())
    return nullptr;
  return ExprParser(tokens, arena).parse();
}
