// Reads kernels' sources into statements. Triton's lines and C++'s blocks are
// cut into the same tokens and parsed by one expression grammar.

#include "KernelBody.h"

#include "AbstractValue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// A longer kernel is left unread.
static constexpr size_t kMaxSource = 4 << 20;
static constexpr unsigned kMaxNesting = 160;

namespace {
struct BodyToken {
  enum Kind : uint8_t { End, Name, Number, Text, Op, Line };
  Kind kind = End;
  StringRef text;
  double number = 0;
  /// White space stands before it.
  bool spaced = false;

  bool is(StringRef op) const { return kind == Op && text == op; }
  bool isName(StringRef name) const { return kind == Name && text == name; }
};
} // namespace

static double readNumber(StringRef text) {
  StringRef digits = text;
  if (digits.starts_with_insensitive("0x")) {
    uint64_t value = 0;
    digits.drop_front(2).rtrim("uUlL").getAsInteger(16, value);
    return value;
  }
  digits = digits.rtrim("uUlLfFjJ");
  double value = 0;
  if (digits.getAsDouble(value))
    return NAN;
  return value;
}

/// Cuts `text`; ends of lines count where `lines` is set and no bracket is
/// open.
static std::vector<BodyToken> tokenize(StringRef text, bool lines) {
  static constexpr StringLiteral kOps[] = {
      "<<=", ">>=", "//=", "**", "//", "::", "->", "<=", ">=", "==", "!=",
      "&&",  "||",  "+=",  "-=", "*=", "/=", "|=", "&=", "++", "--"};
  std::vector<BodyToken> tokens;
  unsigned open = 0;
  bool spaced = false;
  while (!text.empty()) {
    char c = text.front();
    if (c == '\n' && lines && !open)
      tokens.push_back({BodyToken::Line, text.take_front(1), 0, spaced});
    if (isSpace(c) || c == '\\') {
      spaced = true;
      text = text.drop_front();
      continue;
    }
    bool isComment = (lines && c == '#') || (!lines && text.starts_with("//"));
    // A C++ preprocessor's line.
    if (isComment || (!lines && c == '#')) {
      text = text.drop_until([](char d) { return d == '\n'; });
      continue;
    }
    BodyToken token;
    token.spaced = spaced;
    spaced = false;
    size_t size = 1;
    if (isAlpha(c) || c == '_') {
      token.kind = BodyToken::Name;
      size =
          text.take_while([](char d) { return isAlnum(d) || d == '_'; }).size();
    } else if (isDigit(c) ||
               (c == '.' && text.size() > 1 && isDigit(text[1]))) {
      token.kind = BodyToken::Number;
      char before = 0;
      size = text.take_while([&](char d) {
                   bool isSign = (d == '+' || d == '-') &&
                                 (before == 'e' || before == 'E');
                   before = d;
                   return isAlnum(d) || d == '.' || isSign;
                 })
                 .size();
      token.number = readNumber(text.take_front(size));
    } else if (c == '"' || c == '\'') {
      token.kind = BodyToken::Text;
      while (size < text.size() && text[size] != c)
        size += text[size] == '\\' ? 2 : 1;
      size = std::min(size + 1, text.size());
    } else {
      token.kind = BodyToken::Op;
      for (StringRef op : kOps)
        if (text.starts_with(op) && (lines || op != "//")) {
          size = op.size();
          break;
        }
      if (c == '(' || c == '[' || c == '{')
        ++open;
      if (c == ')' || c == ']' || c == '}')
        open -= open ? 1 : 0;
    }
    token.text = text.take_front(size);
    tokens.push_back(token);
    text = text.drop_front(size);
  }
  tokens.push_back({});
  return tokens;
}

namespace opprof::inductor {
class BodyParser {
public:
  BodyParser(KernelBody &body, std::vector<BodyToken> tokens)
      : body(body), tokens(std::move(tokens)),
        isCpp(body.language == KernelBody::Cpp) {}

  bool parseTriton();
  bool parseCpp();

private:
  const BodyToken &peek(size_t ahead = 0) const {
    return tokens[std::min(at + ahead, tokens.size() - 1)];
  }
  BodyToken take() {
    const BodyToken &token = peek();
    at = std::min(at + 1, tokens.size() - 1);
    return token;
  }
  bool takeOp(StringRef op) {
    if (!peek().is(op))
      return false;
    take();
    return true;
  }
  BodyExpr *make(BodyExpr::Kind kind, StringRef text = "") {
    BodyExpr &expr = body.exprs.emplace_back();
    expr.kind = kind;
    expr.text = text;
    return &expr;
  }
  BodyStmt *makeStmt(BodyStmt::Kind kind) {
    BodyStmt &stmt = body.stmts.emplace_back();
    stmt.kind = kind;
    return &stmt;
  }

  void skipBalanced();
  void skipTemplate();
  StringRef readConversion(StringRef name) const;
  size_t templateEnd(size_t from) const;
  void readParameters();
  const BodyExpr *parseSelect();
  const BodyExpr *parseBinary(unsigned level);
  const BodyExpr *parseUnary();
  const BodyExpr *parsePostfix();
  BodyExpr *parseAtom();
  const BodyExpr *parseLambda();
  void parseArguments(BodyExpr &call, StringRef close);
  const BodyStmt *parseCppStatement();
  std::vector<const BodyStmt *> parseCppBlock();
  const BodyStmt *parseCppFor();
  const BodyStmt *parseCppIf();
  const BodyStmt *parsePlain(StringRef end);
  const BodyStmt *parseLine();

  KernelBody &body;
  std::vector<BodyToken> tokens;
  size_t at = 0;
  unsigned depth = 0;
  bool isCpp;
};
} // namespace opprof::inductor

/// Moves behind the bracket that stands next, with all in it.
void BodyParser::skipBalanced() {
  unsigned open = 0;
  do {
    BodyToken token = take();
    if (token.kind == BodyToken::End)
      return;
    if (token.is("(") || token.is("[") || token.is("{"))
      ++open;
    if (token.is(")") || token.is("]") || token.is("}"))
      open -= open ? 1 : 0;
  } while (open);
}

/// Behind the template arguments that start at token `from`, or 0.
size_t BodyParser::templateEnd(size_t from) const {
  unsigned angles = 0, parens = 0;
  for (size_t i = from; i < tokens.size() && i < from + 200; ++i) {
    const BodyToken &token = tokens[i];
    if (token.is("<"))
      ++angles;
    else if (token.is(">")) {
      if (--angles == 0)
        return i + 1;
    } else if (token.is("(")) {
      // decltype(x) and static_cast<int64_t>(8) alone.
      if (!tokens[i - 1].isName("decltype") && !tokens[i - 1].is(">") &&
          !parens)
        return 0;
      ++parens;
    } else if (token.is(")")) {
      if (!parens)
        return 0;
      --parens;
    } else if (token.kind == BodyToken::Op && !token.is(",") &&
               !token.is("::") && !token.is("*") && !token.is("&"))
      return 0;
    else if (token.kind == BodyToken::End || token.kind == BodyToken::Line)
      return 0;
  }
  return 0;
}

void BodyParser::skipTemplate() {
  if (!isCpp || !peek().is("<") || peek().spaced)
    return;
  if (size_t end = templateEnd(at))
    at = end;
}

/// convert<int64_t>(x), and of vectors convert<int64_t,2,float,1>(x), is
/// int64_t(x): it cuts off what is behind the point.
StringRef BodyParser::readConversion(StringRef name) const {
  bool isConversion = isCpp && (name == "convert" || name == "static_cast") &&
                      peek().is("<") && (peek(2).is(">") || peek(2).is(",")) &&
                      isWholeType(peek(1).text);
  return isConversion ? peek(1).text : name;
}

/// Names in the parentheses that stand next.
void BodyParser::readParameters() {
  if (!takeOp("("))
    return;
  unsigned open = 1;
  StringRef last;
  bool named = false;
  while (open && peek().kind != BodyToken::End) {
    BodyToken token = take();
    if (token.is("(") || token.is("[") || token.is("<"))
      ++open;
    if (token.is(")") || token.is("]") || token.is(">"))
      --open;
    if ((token.is(",") && open == 1) || !open) {
      if (!last.empty())
        body.parameters.push_back(last);
      last = "";
      named = false;
    } else if (token.is(":") || token.is("=")) {
      named = true;
    } else if (token.kind == BodyToken::Name && open == 1 && !named) {
      last = token.text;
    }
  }
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

/// `<<` and `>>` are two tokens, as two templates may end there.
static bool isShift(const BodyToken &token, const BodyToken &next) {
  return (token.is("<") && next.is("<") && !next.spaced) ||
         (token.is(">") && next.is(">") && !next.spaced);
}

static constexpr unsigned kShiftPrecedence = 9;

static unsigned precedence(const BodyToken &token) {
  if (token.kind == BodyToken::Name)
    return StringSwitch<unsigned>(token.text)
        .Case("or", 1)
        .Case("and", 2)
        .Default(0);
  if (token.kind != BodyToken::Op)
    return 0;
  return StringSwitch<unsigned>(token.text)
      .Case("||", 1)
      .Case("&&", 2)
      .Case("|", 3)
      .Case("^", 4)
      .Case("&", 5)
      .Cases({"==", "!="}, 6)
      .Cases({"<", ">", "<=", ">="}, 7)
      .Cases({"+", "-"}, 10)
      .Cases({"*", "/", "//", "%"}, 11)
      .Default(0);
}

const BodyExpr *BodyParser::parseSelect() {
  if (++depth > kMaxNesting) {
    --depth;
    skipBalanced();
    return make(BodyExpr::Unknown);
  }
  const BodyExpr *value = parseBinary(1);
  if (takeOp("?")) {
    BodyExpr *select = make(BodyExpr::Select);
    const BodyExpr *first = parseSelect();
    takeOp(":");
    select->items = {first, value, parseSelect()};
    value = select;
  } else if (!isCpp && peek().isName("if")) {
    take();
    BodyExpr *select = make(BodyExpr::Select);
    const BodyExpr *condition = parseBinary(1);
    if (peek().isName("else"))
      take();
    select->items = {value, condition, parseSelect()};
    value = select;
  }
  --depth;
  return value;
}

const BodyExpr *BodyParser::parseBinary(unsigned level) {
  const BodyExpr *left = parseUnary();
  while (unsigned strength = precedence(peek())) {
    // Python's bitwise operators bind tighter than its comparisons.
    if (!isCpp && strength >= 3 && strength <= 5)
      strength = 8;
    bool isShifted = isShift(peek(), peek(1));
    if (isShifted)
      strength = kShiftPrecedence;
    if (strength < level)
      break;
    StringRef op = take().text;
    if (isShifted) {
      take();
      op = op == "<" ? "<<" : ">>";
    }
    BodyExpr *binary = make(BodyExpr::Binary, op);
    binary->items = {left, parseBinary(strength + 1)};
    left = binary;
  }
  return left;
}

const BodyExpr *BodyParser::parseUnary() {
  if (++depth > kMaxNesting) {
    --depth;
    take();
    return make(BodyExpr::Unknown);
  }
  const BodyExpr *result;
  const BodyToken &token = peek();
  if (token.is("-") || token.is("+") || token.is("~") || token.is("!") ||
      token.is("&") || token.is("*") || token.isName("not")) {
    BodyExpr *unary = make(BodyExpr::Unary, take().text);
    unary->items = {parseUnary()};
    result = unary;
  } else {
    result = parsePostfix();
  }
  --depth;
  return result;
}

const BodyExpr *BodyParser::parseLambda() {
  BodyExpr *lambda = make(BodyExpr::Lambda);
  skipBalanced(); // [&]
  if (peek().is("("))
    skipBalanced();
  if (takeOp("->"))
    while (!peek().is("{") && peek().kind != BodyToken::End)
      take();
  if (peek().is("{"))
    lambda->body = parseCppBlock();
  return lambda;
}

void BodyParser::parseArguments(BodyExpr &call, StringRef close) {
  while (!peek().is(close) && peek().kind != BodyToken::End) {
    size_t before = at;
    if (peek().kind == BodyToken::Name && peek(1).is("=") && !isCpp) {
      call.keywords.push_back(take().text);
      take();
    }
    // A slice's parts.
    if (peek().is(":")) {
      take();
      continue;
    }
    call.items.push_back(parseSelect());
    takeOp(",");
    if (at == before)
      take();
  }
  takeOp(close);
}

BodyExpr *BodyParser::parseAtom() {
  BodyToken token = take();
  if (token.kind == BodyToken::Number) {
    BodyExpr *number = make(BodyExpr::Number, token.text);
    number->number = token.number;
    return number;
  }
  if (token.kind == BodyToken::Text) {
    BodyExpr *text = make(BodyExpr::Name, token.text);
    return text;
  }
  if (token.is("(")) {
    BodyExpr *tuple = make(BodyExpr::Tuple);
    parseArguments(*tuple, ")");
    return tuple;
  }
  if (token.is("[") && !isCpp) {
    BodyExpr *list = make(BodyExpr::Tuple);
    parseArguments(*list, "]");
    return list;
  }
  if (token.is("{")) {
    BodyExpr *list = make(BodyExpr::Tuple);
    parseArguments(*list, "}");
    return list;
  }
  if (token.kind != BodyToken::Name)
    return make(BodyExpr::Unknown);
  StringRef name = token.text;
  if (isCpp && name == "decltype" && peek().is("(")) {
    skipBalanced();
    name = "decltype";
  }
  name = readConversion(name);
  skipTemplate();
  while (peek().is("::")) {
    take();
    if (peek().kind != BodyToken::Name)
      break;
    name = readConversion(take().text);
    // A number that depends on the type alone.
    if (name == "is_signed_v" && peek().is("<")) {
      BodyExpr *number = make(BodyExpr::Number, name);
      number->number =
          !peek(1).text.starts_with("uint") && !peek(1).isName("bool");
      skipTemplate();
      return number;
    }
    skipTemplate();
  }
  return make(BodyExpr::Name, name);
}

const BodyExpr *BodyParser::parsePostfix() {
  if (isCpp && peek().is("[") &&
      (peek(1).is("&") || peek(1).is("=") || peek(1).is("]"))) {
    const BodyExpr *lambda = parseLambda();
    if (!peek().is("("))
      return lambda;
    BodyExpr *call = make(BodyExpr::Call, "()");
    take();
    call->items = {lambda};
    parseArguments(*call, ")");
    return call;
  }
  const BodyExpr *value = parseAtom();
  while (true) {
    if (peek().is("(") && value->kind == BodyExpr::Name) {
      BodyExpr *call = make(BodyExpr::Call, value->text);
      take();
      parseArguments(*call, ")");
      value = call;
    } else if (peek().is("{") && isCpp && value->kind == BodyExpr::Name &&
               !peek().spaced) {
      BodyExpr *call = make(BodyExpr::Call, value->text);
      take();
      parseArguments(*call, "}");
      value = call;
    } else if (peek().is("[")) {
      BodyExpr *subscript = make(BodyExpr::Subscript);
      take();
      subscript->items = {value};
      parseArguments(*subscript, "]");
      value = subscript;
    } else if ((peek().is(".") || peek().is("->")) &&
               peek(1).kind == BodyToken::Name) {
      take();
      if (isCpp && peek().isName("template"))
        take();
      StringRef name = take().text;
      skipTemplate();
      BodyExpr *method = make(BodyExpr::Method, name);
      method->items = {value};
      // A module's function, else a method or an attribute.
      bool isModule = value->kind == BodyExpr::Name &&
                      StringSwitch<bool>(value->text)
                          .Cases({"tl", "libdevice", "tl_math", "math"}, true)
                          .Cases({"triton_helpers", "hl", "tldevice"}, true)
                          .Default(false);
      if (isModule) {
        method->kind = BodyExpr::Name;
        method->items.clear();
        value = method;
        continue;
      }
      if (takeOp("("))
        parseArguments(*method, ")");
      value = method;
    } else {
      return value;
    }
  }
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

/// An assignment or an expression, up to `end`.
const BodyStmt *BodyParser::parsePlain(StringRef end) {
  auto isEnd = [&](const BodyToken &token) {
    return token.kind == BodyToken::End ||
           (end == "\n" ? token.kind == BodyToken::Line : token.is(end));
  };
  size_t assign = 0, stop = at;
  unsigned open = 0;
  for (; !(isEnd(tokens[stop]) && !open); ++stop) {
    const BodyToken &token = tokens[stop];
    if (token.kind == BodyToken::End)
      break;
    if (token.is("(") || token.is("[") || token.is("{"))
      ++open;
    if (token.is(")") || token.is("]") || token.is("}")) {
      if (!open)
        break;
      --open;
    }
    if (!open && !assign &&
        (token.is("=") || token.is("+=") || token.is("-=") || token.is("*=") ||
         token.is("/=") || token.is("|=") || token.is("&=")))
      assign = stop;
  }
  BodyStmt *stmt = makeStmt(BodyStmt::Eval);
  if (assign) {
    stmt->kind = BodyStmt::Assign;
    stmt->op = tokens[assign].text.drop_back();
    // C++ puts a type before the name, Python a type after a colon.
    size_t start = at;
    if (isCpp) {
      unsigned brackets = 0;
      for (size_t i = at; i < assign; ++i) {
        brackets += tokens[i].is("[");
        brackets -= tokens[i].is("]") && brackets ? 1 : 0;
        bool isName = tokens[i].kind == BodyToken::Name && !brackets;
        bool isStart = isName && (i + 1 == assign || tokens[i + 1].is("["));
        if (isStart) {
          start = i;
          break;
        }
      }
      stmt->declares = start != at && !tokens[at].is("*");
    }
    at = start;
    while (at < assign) {
      size_t before = at;
      stmt->targets.push_back(parsePostfix());
      takeOp(",");
      if (peek().is(":"))
        break;
      if (at == before)
        break;
    }
    at = assign + 1;
    const BodyExpr *first = parseSelect();
    if (peek().is(",")) {
      BodyExpr *tuple = make(BodyExpr::Tuple);
      tuple->items.push_back(first);
      while (takeOp(","))
        tuple->items.push_back(parseSelect());
      first = tuple;
    }
    stmt->value = first;
  } else if (isCpp && stop > at + 1 &&
             tokens[stop - 1].kind == BodyToken::Name &&
             tokens[stop - 2].kind != BodyToken::Op) {
    // `float tmp;`
    stmt->kind = BodyStmt::Assign;
    stmt->declares = true;
    stmt->targets.push_back(make(BodyExpr::Name, tokens[stop - 1].text));
    stmt->value = make(BodyExpr::Unknown);
  } else {
    stmt->value = parseSelect();
  }
  at = std::max(at, stop);
  if (isEnd(peek()) && peek().kind != BodyToken::End)
    take();
  return stmt;
}

std::vector<const BodyStmt *> BodyParser::parseCppBlock() {
  std::vector<const BodyStmt *> out;
  if (!takeOp("{"))
    return out;
  while (!peek().is("}") && peek().kind != BodyToken::End) {
    size_t before = at;
    if (const BodyStmt *stmt = parseCppStatement())
      out.push_back(stmt);
    if (at == before)
      take();
  }
  takeOp("}");
  return out;
}

/// for(int64_t x0=0; x0<64; x0+=8) …
const BodyStmt *BodyParser::parseCppFor() {
  BodyStmt *loop = makeStmt(BodyStmt::For);
  take();
  takeOp("(");
  while (peek().kind == BodyToken::Name && !peek(1).is("="))
    take();
  loop->targets.push_back(make(BodyExpr::Name, take().text));
  takeOp("=");
  loop->value = parseSelect();
  takeOp(";");
  take(); // the name again
  take(); // <
  loop->bound = parseSelect();
  while (!peek().is("{") && peek().kind != BodyToken::End && !peek().is(")"))
    if (peek().is("("))
      skipBalanced();
    else
      take();
  takeOp(")");
  if (peek().is("{"))
    loop->body = parseCppBlock();
  else if (const BodyStmt *stmt = parseCppStatement())
    loop->body.push_back(stmt);
  return loop;
}

const BodyStmt *BodyParser::parseCppIf() {
  BodyStmt *stmt = makeStmt(BodyStmt::If);
  take();
  if (peek().isName("constexpr"))
    take();
  takeOp("(");
  stmt->value = parseSelect();
  takeOp(")");
  auto parseBranch = [&](std::vector<const BodyStmt *> &into) {
    if (peek().is("{"))
      into = parseCppBlock();
    else if (const BodyStmt *inner = parseCppStatement())
      into.push_back(inner);
  };
  parseBranch(stmt->body);
  if (peek().isName("else")) {
    take();
    parseBranch(stmt->orelse);
  }
  return stmt;
}

const BodyStmt *BodyParser::parseCppStatement() {
  if (++depth > kMaxNesting) {
    --depth;
    skipBalanced();
    return nullptr;
  }
  const BodyStmt *result = nullptr;
  if (peek().is("{")) {
    BodyStmt *block = makeStmt(BodyStmt::Block);
    block->body = parseCppBlock();
    result = block;
  } else if (peek().isName("for") && peek(1).is("(")) {
    result = parseCppFor();
  } else if (peek().isName("if")) {
    result = parseCppIf();
  } else if (peek().isName("return")) {
    take();
    BodyStmt *stmt = makeStmt(BodyStmt::Return);
    stmt->value = peek().is(";") ? make(BodyExpr::Unknown) : parseSelect();
    takeOp(";");
    result = stmt;
  } else if (!takeOp(";")) {
    result = parsePlain(";");
  }
  --depth;
  return result;
}

bool BodyParser::parseCpp() {
  // The function is the one that `extern "C"` stands before.
  for (; peek().kind != BodyToken::End; take())
    if (peek().isName("kernel") && peek(1).is("("))
      break;
  if (peek().kind == BodyToken::End)
    return false;
  take();
  readParameters();
  if (!peek().is("{"))
    return false;
  body.statements = parseCppBlock();
  return true;
}

const BodyStmt *BodyParser::parseLine() {
  if (peek().isName("for")) {
    BodyStmt *loop = makeStmt(BodyStmt::For);
    take();
    loop->targets.push_back(make(BodyExpr::Name, take().text));
    loop->value = loop->bound = make(BodyExpr::Number);
    while (peek().kind != BodyToken::Line && peek().kind != BodyToken::End)
      take();
    return loop;
  }
  // Branches of combined kernels are walked one after another.
  for (StringRef word : {"if", "elif", "else", "while", "pass", "return"})
    if (peek().isName(word)) {
      while (peek().kind != BodyToken::Line && peek().kind != BodyToken::End)
        take();
      return nullptr;
    }
  return parsePlain("\n");
}

bool BodyParser::parseTriton() {
  for (; peek().kind != BodyToken::End; take())
    if (peek().isName("def"))
      break;
  if (peek().kind == BodyToken::End)
    return false;
  take();
  take();
  readParameters();
  takeOp(":");
  while (peek().kind != BodyToken::End) {
    if (peek().kind == BodyToken::Line) {
      take();
      continue;
    }
    if (peek().is("@") || peek().isName("def"))
      break;
    size_t before = at;
    if (const BodyStmt *stmt = parseLine())
      body.statements.push_back(stmt);
    if (at == before)
      take();
  }
  return true;
}

std::shared_ptr<const KernelBody> KernelBody::parse(StringRef source,
                                                    Language language) {
  if (language == Triton) {
    size_t start = source.rfind("@triton.jit");
    if (start == StringRef::npos)
      return nullptr;
    source = source.drop_front(start);
  }
  if (source.size() > kMaxSource)
    return nullptr;
  auto body = std::make_shared<KernelBody>();
  body->language = language;
  body->text = source.str();
  BodyParser parser(*body, tokenize(body->text, language == Triton));
  if (!(language == Triton ? parser.parseTriton() : parser.parseCpp()))
    return nullptr;
  return body;
}
