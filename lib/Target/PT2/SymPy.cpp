// Reads SymPy's srepr form and prints its str form.

#include "SymPy.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <optional>
#include <vector>

using llvm::StringRef;

namespace {
constexpr unsigned kMaxDepth = 64;

struct Term {
  std::string function;
  /// Of a number or a symbol: what is printed.
  std::string text;
  std::vector<Term> arguments;
};

class Reader {
public:
  explicit Reader(StringRef text) : rest(text) {}

  std::optional<Term> run() {
    Term term;
    if (!read(term, 0) || !rest.trim().empty())
      return std::nullopt;
    return term;
  }

private:
  bool read(Term &term, unsigned depth) {
    rest = rest.ltrim();
    if (depth > kMaxDepth)
      return false;
    if (rest.consume_front("'")) {
      size_t end = rest.find('\'');
      if (end == StringRef::npos)
        return false;
      term.text = rest.take_front(end).str();
      rest = rest.drop_front(end + 1);
      return true;
    }
    StringRef word = rest.take_while([](char c) {
      return llvm::isAlnum(c) || c == '_' || c == '.' || c == '-';
    });
    if (word.empty())
      return false;
    rest = rest.drop_front(word.size());
    if (!rest.consume_front("(")) {
      term.text = word == "true"    ? "True"
                  : word == "false" ? "False"
                                    : word.str();
      return true;
    }
    size_t dot = word.rfind('.');
    term.function =
        (dot == StringRef::npos ? word : word.substr(dot + 1)).str();
    while (true) {
      rest = rest.ltrim();
      if (rest.consume_front(")"))
        return true;
      // What is assumed of a symbol (positive=True) is not printed.
      size_t keyword = rest.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
      bool isKeyword =
          keyword != StringRef::npos && keyword > 0 && rest[keyword] == '=';
      if (isKeyword)
        rest = rest.drop_front(keyword + 1);
      Term argument;
      if (!read(argument, depth + 1))
        return false;
      if (!isKeyword)
        term.arguments.push_back(std::move(argument));
      rest = rest.ltrim();
      rest.consume_front(",");
    }
  }

  StringRef rest;
};

/// What an expression is in a larger one, from loosest to tightest.
enum Tightness { Relation, Sum, Product, Power, Atom };

} // namespace

/// `left`, `text` and `right` in a row.
static std::string enclose(StringRef left, StringRef text, StringRef right) {
  return (left + text + right).str();
}

namespace {

struct Printed {
  std::string text;
  Tightness tightness = Atom;
};

class Printer {
public:
  std::optional<std::string> run(const Term &term) {
    std::string text = print(term).text;
    if (isBad)
      return std::nullopt;
    return text;
  }

private:
  Printed bad() {
    isBad = true;
    return {};
  }

  std::string wrap(const Term &term, Tightness least) {
    Printed printed = print(term);
    if (printed.tightness < least)
      return enclose("(", printed.text, ")");
    return printed.text;
  }

  std::string join(const Term &term, StringRef separator, Tightness least) {
    std::string result;
    for (const Term &argument : term.arguments) {
      if (!result.empty())
        result += separator;
      result += wrap(argument, least);
    }
    return result;
  }

  Printed printProduct(const Term &term) {
    std::string over, under;
    bool isNegative = false;
    unsigned numUnder = 0;
    auto multiply = [](std::string &product, StringRef factor) {
      if (!product.empty())
        product += '*';
      product += factor;
    };
    for (const Term &factor : term.arguments) {
      if (factor.function == "Integer" && factor.arguments.size() == 1) {
        StringRef digits = factor.arguments[0].text;
        isNegative ^= digits.consume_front("-");
        if (digits != "1")
          multiply(over, digits);
      } else if (factor.function == "Rational" &&
                 factor.arguments.size() == 2) {
        StringRef digits = factor.arguments[0].text;
        isNegative ^= digits.consume_front("-");
        if (digits != "1")
          multiply(over, digits);
        multiply(under, factor.arguments[1].text);
        ++numUnder;
      } else if (factor.function == "Pow" && factor.arguments.size() == 2 &&
                 factor.arguments[1].function == "Integer" &&
                 factor.arguments[1].arguments.size() == 1 &&
                 factor.arguments[1].arguments[0].text == "-1") {
        multiply(under, wrap(factor.arguments[0], Power));
        ++numUnder;
      } else {
        multiply(over, wrap(factor, Product));
      }
    }
    if (over.empty())
      over.push_back('1');
    if (numUnder > 1)
      under = enclose("(", under, ")");
    return {enclose(isNegative ? "-" : "", over, numUnder ? "/" : "") + under,
            Product};
  }

  Printed print(const Term &term) {
    StringRef function = term.function;
    size_t count = term.arguments.size();
    if (function.empty())
      return {term.text, Atom};
    if (function == "Symbol" || function == "Integer" || function == "Float") {
      if (count == 0)
        return bad();
      StringRef text = term.arguments[0].text;
      return {text.str(), text.starts_with("-") ? Sum : Atom};
    }
    if (function == "Rational" && count == 2)
      return {enclose(term.arguments[0].text, "/", term.arguments[1].text),
              Product};
    if (function == "Add") {
      std::string result;
      for (const Term &argument : term.arguments) {
        StringRef text;
        std::string printed = wrap(argument, Sum);
        text = printed;
        if (result.empty())
          result = printed;
        else if (text.consume_front("-"))
          result += (" - " + text).str();
        else
          result += (" + " + text).str();
      }
      return {result, Sum};
    }
    if (function == "Mul")
      return printProduct(term);
    if (function == "Pow" && count == 2)
      return {enclose(wrap(term.arguments[0], Atom), "**",
                      wrap(term.arguments[1], Atom)),
              Power};
    if (function == "FloorDiv" && count == 2)
      return {enclose("(",
                      enclose(wrap(term.arguments[0], Atom), "//",
                              wrap(term.arguments[1], Atom)),
                      ")"),
              Atom};
    static const std::pair<StringRef, StringRef> kRelations[] = {
        {"StrictLessThan", " < "},
        {"LessThan", " <= "},
        {"StrictGreaterThan", " > "},
        {"GreaterThan", " >= "},
        {"And", " & "},
        {"Or", " | "}};
    for (auto [name, symbol] : kRelations)
      if (function == name)
        return {join(term, symbol, Sum), Relation};
    if (function == "Not" && count == 1)
      return {enclose("~", wrap(term.arguments[0], Atom), ""), Relation};
    if (function == "Equality")
      function = "Eq";
    else if (function == "Unequality")
      function = "Ne";
    return {(function + "(" + join(term, ", ", Relation) + ")").str(), Atom};
  }

  bool isBad = false;
};
} // namespace

std::string opprof::fx::getSymPyText(StringRef srepr) {
  if (!srepr.contains('('))
    return srepr.str();
  if (std::optional<Term> term = Reader(srepr).run())
    if (std::optional<std::string> text = Printer().run(*term))
      return *text;
  return srepr.str();
}
