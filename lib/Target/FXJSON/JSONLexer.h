// A lexer of JSON in memory that always knows its place. Documents have no
// bound in size, nothing is held of what was read, and strings are views of the
// text wherever they have no escapes.

#ifndef OPPROF_LIB_TARGET_FXJSON_JSONLEXER_H
#define OPPROF_LIB_TARGET_FXJSON_JSONLEXER_H

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"

#include <functional>
#include <string>

namespace opprof::fx {

class JSONLexer {
public:
  struct Number {
    enum Kind { Integer, HugeInteger, Float } kind = Integer;
    int64_t integer = 0;
    double real = 0;
    /// As written.
    llvm::StringRef digits;
  };

  explicit JSONLexer(llvm::StringRef text)
      : begin(text.begin()), current(text.begin()), end(text.end()) {
    if (text.starts_with("\xEF\xBB\xBF"))
      current += 3;
  }

  /// The first character of the next token, null at the end of the text.
  char peek() {
    while (current != end && (*current == ' ' || *current == '\n' ||
                              *current == '\r' || *current == '\t'))
      ++current;
    return current == end ? '\0' : *current;
  }

  /// Takes the next token if it is that punctuation.
  bool consume(char punctuation) {
    if (peek() != punctuation || current == end)
      return false;
    ++current;
    return true;
  }

  // These take the next token, and return false after an error.

  /// The value holds until the next string is read, or as long as the text
  /// where `isView`.
  bool readString(llvm::StringRef &value) {
    if (!isNext('"'))
      return expected("a string");
    const char *first = current + 1;
    const char *last = findSpecial(first);
    if (last == end || *last != '"')
      return readUnusualString(value);
    value = llvm::StringRef(first, last - first);
    current = last + 1;
    return true;
  }
  bool readNumber(Number &number);
  /// true, false or null.
  bool readWord(llvm::StringRef word);
  /// A whole value of whatever kind and depth.
  bool skipValue();

  /// Notes that the next token is not `what`, and returns false.
  bool expected(llvm::StringRef what);

  bool isView(llvm::StringRef value) const {
    return std::less_equal<>()(begin, value.begin()) &&
           std::less_equal<>()(value.end(), end);
  }
  /// True where nothing but space follows.
  bool isFinished() {
    peek();
    return isAtEnd();
  }
  bool isAtEnd() const { return current == end; }
  const char *getPlace() const { return current; }
  /// What is wrong at the place where reading stopped.
  llvm::StringRef getError() const { return error; }

private:
  bool isNext(char c) { return peek() == c && current != end; }
  bool fail(const llvm::Twine &message) {
    error = message.str();
    return false;
  }
  bool readUnusualString(llvm::StringRef &value);
  bool readEscape();
  bool readCodeUnit(unsigned &unit);
  bool readCharacter();

  /// The first of a quote, a backslash, a control character or a byte outside
  /// ASCII.
  const char *findSpecial(const char *from) const {
    // Eight bytes at a time: the lowest byte that is marked is marked rightly.
    constexpr uint64_t kOnes = 0x0101010101010101, kTops = 0x8080808080808080;
    for (; end - from >= 8; from += 8) {
      uint64_t word = llvm::support::endian::read64le(from);
      uint64_t quotes = word ^ (kOnes * '"'), slashes = word ^ (kOnes * '\\');
      uint64_t marks =
          (((quotes - kOnes) & ~quotes) | ((slashes - kOnes) & ~slashes) |
           ((word - kOnes * ' ') & ~word) | word) &
          kTops;
      if (marks)
        return from + llvm::countr_zero(marks) / 8;
    }
    while (from != end && *from != '"' && *from != '\\' &&
           static_cast<signed char>(*from) >= ' ')
      ++from;
    return from;
  }

  const char *begin, *current, *end;
  /// The last string that had escapes.
  std::string unescaped;
  std::string error;
};

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_FXJSON_JSONLEXER_H
