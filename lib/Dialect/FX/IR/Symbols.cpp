// Finding and renaming size symbols.

#include "opprof/Dialect/FX/IR/Symbols.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace opprof::fx;

void opprof::fx::splitSymbols(StringRef expression,
                              llvm::function_ref<void(StringRef, bool)> visit) {
  auto isNameChar = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  size_t textStart = 0, i = 0;
  while (i < expression.size()) {
    if (!isNameChar(expression[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < expression.size() && isNameChar(expression[end]))
      ++end;
    bool isSymbol = !llvm::isDigit(expression[i]) &&
                    llvm::isDigit(expression[end - 1]) &&
                    (end == expression.size() || expression[end] != '(');
    if (isSymbol) {
      if (i > textStart)
        visit(expression.slice(textStart, i), false);
      visit(expression.slice(i, end), true);
      textStart = end;
    }
    i = end;
  }
  if (textStart < expression.size())
    visit(expression.drop_front(textStart), false);
}

std::string opprof::fx::renameSymbols(StringRef expression,
                                      const SymbolMap &symbols) {
  std::string result;
  splitSymbols(expression, [&](StringRef text, bool isSymbol) {
    auto found = isSymbol ? symbols.find(text) : symbols.end();
    result += found == symbols.end() ? text.str() : found->second;
  });
  return result;
}

Type opprof::fx::renameSymbols(Type type, const SymbolMap &symbols) {
  if (symbols.empty())
    return type;
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](SymAttr symbol) -> Attribute {
    return SymAttr::get(symbol.getContext(),
                        renameSymbols(symbol.getValue(), symbols));
  });
  replacer.addReplacement([&](SymIntType type) -> Type {
    return SymIntType::get(type.getContext(),
                           renameSymbols(type.getExpression(), symbols));
  });
  replacer.addReplacement([&](SymFloatType type) -> Type {
    return SymFloatType::get(type.getContext(),
                             renameSymbols(type.getExpression(), symbols));
  });
  replacer.addReplacement([&](SymBoolType type) -> Type {
    return SymBoolType::get(type.getContext(),
                            renameSymbols(type.getExpression(), symbols));
  });
  return replacer.replace(type);
}

SymbolMap opprof::fx::getRenamedSymbols(Operation *call) {
  SymbolMap symbols;
  if (auto renamed = call->getAttrOfType<DictionaryAttr>(kRenamedSymbolsAttr))
    for (NamedAttribute entry : renamed)
      if (auto text = dyn_cast<StringAttr>(entry.getValue()))
        symbols[entry.getName().getValue()] = text.str();
  return symbols;
}
