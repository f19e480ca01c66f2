// A parser of the expressions that SymPy prints for PyTorch's symbolic sizes,
// which prints Python as it goes. What it does not know it refuses, so that no
// text of a file gets into a program unread.

#include "SymbolicExpression.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace opprof::fx;
using llvm::StringRef;

namespace {
constexpr unsigned kMaxDepth = 64;

class Parser {
public:
  Parser(StringRef text, llvm::function_ref<std::string(StringRef)> nameSymbol)
      : rest(text), nameSymbol(nameSymbol) {}

  std::optional<std::string> run() {
    std::string result = parse();
    skipSpace();
    if (isBad || !rest.empty())
      return std::nullopt;
    // A rational coefficient: the whole is a whole number all the same.
    return hasQuotient ? "int(" + result + ")" : result;
  }

private:
  void skipSpace() { rest = rest.ltrim(); }

  std::string bad() {
    isBad = true;
    return "";
  }

  /// The operator that comes next, in Python; empty where there is none.
  StringRef readOperator() {
    // Longer operators stand before those that they begin with.
    static const std::pair<StringRef, StringRef> kOperators[] = {
        {"**", "**"}, {"//", "//"}, {"<=", "<="}, {">=", ">="}, {"==", "=="},
        {"!=", "!="}, {"*", "*"},   {"/", "/"},   {"%", "%"},   {"+", "+"},
        {"-", "-"},   {"<", "<"},   {">", ">"},   {"&", "and"}, {"|", "or"}};
    skipSpace();
    for (auto [text, python] : kOperators)
      if (rest.consume_front(text))
        return python;
    return "";
  }

  /// Operators bind in Python as they do in SymPy's text, which has parentheses
  /// round what is compared or negated: nothing has to be grouped here.
  std::string parse() {
    if (++depth > kMaxDepth)
      return bad();
    std::string text = parsePrefix();
    while (!isBad) {
      StringRef op = readOperator();
      if (op.empty())
        break;
      hasQuotient |= op == "/";
      text += (" " + op + " ").str() + parsePrefix();
    }
    --depth;
    return text;
  }

  std::string nested(StringRef prefix) {
    if (++depth > kMaxDepth)
      return bad();
    std::string text = (prefix + parsePrefix()).str();
    --depth;
    return text;
  }

  std::string parsePrefix() {
    skipSpace();
    if (rest.consume_front("-"))
      return nested("-");
    if (rest.consume_front("~"))
      return nested("not ");
    if (rest.consume_front("(")) {
      std::string inner = parse();
      skipSpace();
      return rest.consume_front(")") ? "(" + inner + ")" : bad();
    }
    if (!rest.empty() && llvm::isDigit(rest.front())) {
      StringRef digits =
          rest.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
      rest = rest.drop_front(digits.size());
      return digits.count('.') > 1 ? bad() : digits.str();
    }
    StringRef word =
        rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (word.empty())
      return bad();
    rest = rest.drop_front(word.size());
    skipSpace();
    if (rest.consume_front("("))
      return parseCall(word);
    if (word == "True" || word == "False")
      return word.str();
    std::string name = nameSymbol(word);
    return name.empty() ? bad() : name;
  }

  std::string parseCall(StringRef function) {
    llvm::SmallVector<std::string> arguments;
    skipSpace();
    if (!rest.consume_front(")")) {
      do {
        arguments.push_back(parse());
        skipSpace();
      } while (!isBad && rest.consume_front(","));
      if (!rest.consume_front(")"))
        return bad();
    }
    auto infix = [&](StringRef op) {
      if (arguments.size() != 2)
        return bad();
      return ("((" + arguments[0] + ") " + op + " (" + arguments[1] + "))")
          .str();
    };
    auto call = [&](StringRef name, bool isUnary) {
      if (arguments.empty() || (isUnary && arguments.size() != 1))
        return bad();
      return (name + "(" + llvm::join(arguments, ", ") + ")").str();
    };
    static const std::pair<StringRef, StringRef> kInfix[] = {
        {"FloorDiv", "//"},
        {"CleanDiv", "//"},
        {"Mod", "%"},
        {"PythonMod", "%"},
        {"IntTrueDiv", "/"},
        {"FloatTrueDiv", "/"},
        {"PowByNatural", "**"},
        {"FloatPow", "**"},
        {"Eq", "=="},
        {"Ne", "!="},
        {"Lt", "<"},
        {"Le", "<="},
        {"Gt", ">"},
        {"Ge", ">="}};
    static const std::pair<StringRef, StringRef> kUnary[] = {
        {"Abs", "abs"},
        {"ToFloat", "float"},
        {"TruncToInt", "int"},
        {"CeilToInt", "math.ceil"},
        {"ceiling", "math.ceil"},
        {"FloorToInt", "math.floor"},
        {"floor", "math.floor"},
        {"RoundToInt", "round"},
        {"Identity", ""},
        {"OpaqueUnaryFn_sqrt", "math.sqrt"},
        {"OpaqueUnaryFn_exp", "math.exp"},
        {"OpaqueUnaryFn_log2", "math.log2"},
        {"OpaqueUnaryFn_log", "math.log"}};
    for (auto [name, op] : kInfix)
      if (function == name)
        return infix(op);
    for (auto [name, python] : kUnary)
      if (function == name)
        return call(python, /*isUnary=*/true);
    if (function == "Max" || function == "Min")
      return call(function == "Max" ? "max" : "min", /*isUnary=*/false);
    if (function == "ModularIndexing" && arguments.size() == 3)
      return "(((" + arguments[0] + ") // (" + arguments[1] + ")) % (" +
             arguments[2] + "))";
    if (function == "Where" && arguments.size() == 3)
      return "((" + arguments[1] + ") if (" + arguments[0] + ") else (" +
             arguments[2] + "))";
    return bad();
  }

  StringRef rest;
  llvm::function_ref<std::string(StringRef)> nameSymbol;
  unsigned depth = 0;
  bool isBad = false;
  bool hasQuotient = false;
};
} // namespace

std::optional<std::string> opprof::fx::getPythonExpression(
    StringRef expression,
    llvm::function_ref<std::string(StringRef)> nameSymbol) {
  return Parser(expression, nameSymbol).run();
}
