// Errors of graph JSON, and the plain values that it is made of.

#include "JSONSource.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace opprof::fx;
using llvm::Twine;

/// A diagnostic shows its line of the file; no terminal is helped by a longer
/// one.
static constexpr size_t kMaxShownLine = 2000;

std::string JSONSource::where() const {
  std::string result = describePlace();
  if (!keyName.empty()) {
    if (!result.empty())
      result += ", ";
    result += ("key '" + keyName + "'").str();
  }
  if (!result.empty())
    result += ": ";
  return result;
}

/// The place as a location whose line a diagnostic can show; where that line is
/// too long to be shown, the location is unknown and `prefix` names the place.
Location JSONSource::getFilePlace(const char *place, StringRef &prefix,
                                  std::string &storage) const {
  StringRef before(text.begin(), place - text.begin());
  size_t line = before.count('\n') + 1;
  size_t lineBegin = before.rfind('\n');
  lineBegin = lineBegin == StringRef::npos ? 0 : lineBegin + 1;
  size_t lineEnd = text.find('\n', before.size());
  if (lineEnd == StringRef::npos)
    lineEnd = text.size();
  size_t column = before.size() - lineBegin;
  if (lineEnd - lineBegin <= kMaxShownLine)
    return FileLineColLoc::get(context, fileName, line,
                               std::max<size_t>(column, 1));
  storage = (fileName + ":" + Twine(line) + ":" + Twine(column) + ": ").str();
  prefix = storage;
  return UnknownLoc::get(context);
}

bool JSONSource::failAt(const char *place, StringRef where, const Twine &what) {
  StringRef prefix;
  std::string storage;
  Location location = getFilePlace(place, prefix, storage);
  emitError(location) << prefix << where << what;
  return false;
}

void JSONSource::warn(const Twine &what) {
  StringRef prefix;
  std::string storage;
  Location location = getFilePlace(lexer.getPlace(), prefix, storage);
  emitWarning(location) << prefix << where() << what;
}

bool JSONSource::failSyntax() {
  keyName = {};
  if (text.trim().empty())
    return fail("the file is empty; write it again with `opprof export`");
  if (text.starts_with("PK\x03\x04"))
    return fail("this is a zip archive; if torch.export saved it, read it with "
                "--import-pt2");
  if (lexer.isAtEnd())
    return fail("the file ends in the middle of the graph (was it truncated?); "
                "write it again with `opprof export`");
  return fail("this is no valid JSON: " + lexer.getError());
}

bool JSONSource::unexpected(StringRef what) {
  auto found = [&](bool isRead, StringRef kind) {
    return isRead ? fail("expected " + what + ", found " + kind) : failSyntax();
  };
  StringRef string;
  JSONLexer::Number number;
  switch (lexer.peek()) {
  case '{':
    return found(true, "an object");
  case '[':
    return found(true, "an array");
  case '"':
    return found(lexer.readString(string), "a string");
  case 't':
    return found(lexer.readWord("true"), "a truth value");
  case 'f':
    return found(lexer.readWord("false"), "a truth value");
  case 'n':
    return found(lexer.readWord("null"), "null");
  default:
    if (!lexer.readNumber(number))
      return failSyntax();
    return found(true, number.kind == JSONLexer::Number::Float
                           ? "a number with a point"
                           : "a whole number");
  }
}

bool JSONSource::hugeInteger(StringRef digits) {
  return fail("the whole number " + Twine(digits.take_front(40)) +
              (digits.size() > 40 ? "… " : " ") +
              "does not fit 64 bits; as an argument it is written "
              "{\"int\": \"" +
              digits.take_front(8) + "…\"}");
}

bool JSONSource::readString(StringRef &value) {
  if (lexer.peek() != '"')
    return unexpected("a string");
  return lexer.readString(value) || failSyntax();
}

bool JSONSource::readText(StringRef &value) {
  if (!readString(value))
    return false;
  value = save(value);
  return true;
}

bool JSONSource::readInteger(int64_t &value) {
  char first = lexer.peek();
  if (first != '-' && !llvm::isDigit(first))
    return unexpected("a whole number");
  JSONLexer::Number number;
  if (!lexer.readNumber(number))
    return failSyntax();
  if (number.kind == JSONLexer::Number::HugeInteger)
    return hugeInteger(number.digits);
  if (number.kind == JSONLexer::Number::Float)
    return fail("expected a whole number, found a number with a point");
  value = number.integer;
  return true;
}

bool JSONSource::skipUnknown(StringRef key) {
  auto [entry, isNew] = unknownKeys.insert(key);
  keyName = entry->getKey();
  if (isNew)
    warn("unknown, and left out here and wherever else it comes");
  return lexer.skipValue() || failSyntax();
}
