// Values and arguments of graph JSON. A value in an argument that is an object
// has one key, which says what it is.

#include "ValueReader.h"

#include "opprof/Dialect/FX/IR/ArgumentForms.h"

using namespace mlir;
using namespace opprof::fx;
using llvm::Twine;

// Bounds on what a file may ask of the reader. Whatever PyTorch writes lies far
// below them.
static constexpr unsigned kMaxNesting = 200;

/// Any value, as an attribute, inside `depth` others.
Attribute ValueReader::readValue(Grammar grammar, unsigned depth) {
  auto orFail = [&](bool isRead, Attribute value) {
    if (!isRead)
      source.failSyntax();
    return isRead ? value : Attribute();
  };
  switch (lexer.peek()) {
  case '{':
    return grammar == Grammar::Argument ? readForm(depth)
                                        : readMembers(depth, kMaxNesting);
  case '[':
    return readList(grammar, depth);
  case '"': {
    StringRef value;
    if (!lexer.readString(value))
      return orFail(false, {});
    return getString(value);
  }
  case 't':
    return orFail(lexer.readWord("true"), builder.getBoolAttr(true));
  case 'f':
    return orFail(lexer.readWord("false"), builder.getBoolAttr(false));
  case 'n':
    return orFail(lexer.readWord("null"), NoneAttr::get(context));
  default:
    break;
  }
  JSONLexer::Number number;
  if (!lexer.readNumber(number))
    return orFail(false, {});
  switch (number.kind) {
  case JSONLexer::Number::Integer:
    return builder.getI64IntegerAttr(number.integer);
  case JSONLexer::Number::Float:
    return builder.getF64FloatAttr(number.real);
  case JSONLexer::Number::HugeInteger:
    source.hugeInteger(number.digits);
    break;
  }
  return {};
}

Attribute ValueReader::readList(Grammar grammar, unsigned depth) {
  if (!checkNesting(depth, grammar == Grammar::Argument ? kMaxArgumentNesting
                                                        : kMaxNesting))
    return {};
  size_t first = elements.size();
  if (!source.forEachElement([&] {
        Attribute element = readValue(grammar, depth + 1);
        if (element)
          elements.push_back(element);
        return !!element;
      }))
    return {};
  auto list = ArrayAttr::get(context, ArrayRef(elements).drop_front(first));
  elements.truncate(first);
  return list;
}

/// An object of whatever keys, as a dictionary.
Attribute ValueReader::readMembers(unsigned depth, unsigned limit) {
  if (!checkNesting(depth, limit))
    return {};
  size_t first = members.size();
  if (!source.forEachMember([&](StringRef key) {
        if (key.empty())
          return fail("a key is empty");
        StringAttr name = strings.get(key);
        Attribute value = readValue(Grammar::Json, depth + 1);
        if (value)
          members.emplace_back(name, value);
        return !!value;
      }))
    return {};
  MutableArrayRef<NamedAttribute> own =
      MutableArrayRef(members).drop_front(first);
  if (!sortMembers(own))
    return {};
  auto dictionary = DictionaryAttr::getWithSorted(context, own);
  members.truncate(first);
  return dictionary;
}

/// Brings the members of an object into the order of a dictionary's.
bool ValueReader::sortMembers(MutableArrayRef<NamedAttribute> members) {
  bool areLast =
      llvm::equal(members, lastKeys, [](NamedAttribute member, StringAttr key) {
        return member.getName() == key;
      });
  if (!areLast) {
    lastKeys.clear();
    lastOrder.clear();
    for (NamedAttribute member : members) {
      lastOrder.push_back(lastKeys.size());
      lastKeys.push_back(member.getName());
    }
    llvm::sort(lastOrder, [&](unsigned left, unsigned right) {
      return lastKeys[left].getValue() < lastKeys[right].getValue();
    });
    for (size_t position = 1; position < lastOrder.size(); ++position) {
      StringAttr key = lastKeys[lastOrder[position]];
      if (key == lastKeys[lastOrder[position - 1]])
        return fail("the key '" + key.getValue() +
                    "' comes twice in one object");
    }
  }
  sorted.clear();
  for (unsigned position : lastOrder)
    sorted.push_back(members[position]);
  llvm::copy(sorted, members.begin());
  return true;
}

/// A reference to a node, as the only member of an argument object.
Attribute ValueReader::readReference() {
  StringRef name;
  if (!lexer.readString(name)) {
    source.failSyntax();
    return {};
  }
  Value value = scope.graph->lookup(name);
  if (!value && !scope.danglingPlace) {
    scope.danglingName = source.save(name);
    scope.danglingUser = source.where();
    scope.danglingPlace = lexer.getPlace();
  }
  operands->push_back(value);
  return valueAttr;
}

/// An argument that is an object: its one key says what its value is.
Attribute ValueReader::readForm(unsigned depth) {
  if (!checkNesting(depth, kMaxArgumentNesting))
    return {};
  std::optional<ArgumentForm> form;
  Attribute value;
  if (!source.forEachMember([&](StringRef key) {
        if (form)
          return fail("an argument that is an object has one key; it has '" +
                      stringifyArgumentForm(*form) + "' and '" + key + "'");
        form = parseArgumentForm(key);
        if (!form)
          return fail("'" + Twine(key) +
                      "' is no form of argument; docs/formats/graph-json.md "
                      "lists them");
        char first = lexer.peek();
        if (form == ArgumentForm::Node && first == '"')
          value = readReference();
        else if (form == ArgumentForm::Object && first == '{')
          value = readMembers(depth + 1, kMaxArgumentNesting);
        else
          value = readValue(Grammar::Argument, depth + 1);
        return !!value;
      }))
    return {};
  if (!form) {
    fail("an argument that is an object has one key; it has none");
    return {};
  }
  Attribute argument =
      makeArgument(*form, value, [&](const Twine &what) { fail(what); });
  if (auto symbol = dyn_cast_or_null<FlatSymbolRefAttr>(argument))
    if (referencedGraphs.insert(symbol.getValue()).second)
      graphReferences.emplace_back(symbol, source.where());
  return argument;
}
