// Tokens of JSON as RFC 8259 has them, and what is wrong with others.

#include "JSONLexer.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/ConvertUTF.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

using namespace opprof::fx;
using llvm::StringRef;

bool JSONLexer::expected(StringRef what) {
  char found = peek();
  if (current == end)
    return fail("expected " + what + ", found the end of the file");
  std::string shown =
      llvm::isPrint(found)
          ? "'" + std::string(1, found) + "'"
          : "the byte 0x" + llvm::utohexstr(static_cast<uint8_t>(found));
  return fail("syntax error: expected " + what + ", found " + shown);
}

//===----------------------------------------------------------------------===//
// Strings
//===----------------------------------------------------------------------===//

/// A string with escapes or characters outside ASCII, or with something wrong.
bool JSONLexer::readUnusualString(StringRef &value) {
  const char *first = ++current;
  bool isEscaped = false;
  unescaped.clear();
  for (;;) {
    const char *special = findSpecial(current);
    if (isEscaped)
      unescaped.append(current, special);
    current = special;
    if (current == end)
      return fail("a string does not end");
    if (*current == '"')
      break;
    if (*current == '\\') {
      if (!isEscaped)
        unescaped.assign(first, current);
      isEscaped = true;
      if (!readEscape())
        return false;
      continue;
    }
    const char *character = current;
    if (!readCharacter())
      return false;
    if (isEscaped)
      unescaped.append(character, current);
  }
  value = isEscaped ? StringRef(unescaped) : StringRef(first, current - first);
  ++current;
  return true;
}

/// One character outside ASCII.
bool JSONLexer::readCharacter() {
  if (static_cast<uint8_t>(*current) < ' ')
    return fail("invalid string: a control character is written \\u" +
                llvm::utohexstr(static_cast<uint8_t>(*current),
                                /*LowerCase=*/false, /*Width=*/4));
  auto *bytes = reinterpret_cast<const llvm::UTF8 *>(current);
  unsigned length = llvm::getNumBytesForUTF8(*bytes);
  if (end - current < length ||
      !llvm::isLegalUTF8Sequence(bytes, bytes + length))
    return fail("invalid string: ill-formed UTF-8");
  current += length;
  return true;
}

/// Four hexadecimal digits.
bool JSONLexer::readCodeUnit(unsigned &unit) {
  unit = 0;
  for (unsigned position = 0; position < 4; ++position, ++current) {
    if (current == end)
      return fail("a string does not end");
    unsigned digit = llvm::hexDigitValue(*current);
    if (digit > 15)
      return fail("invalid string: '\\u' takes four hexadecimal digits");
    unit = unit << 4 | digit;
  }
  return true;
}

bool JSONLexer::readEscape() {
  if (++current == end)
    return fail("a string does not end");
  char kind = *current++;
  switch (kind) {
  case '"':
  case '\\':
  case '/':
    unescaped += kind;
    return true;
  case 'b':
    unescaped += '\b';
    return true;
  case 'f':
    unescaped += '\f';
    return true;
  case 'n':
    unescaped += '\n';
    return true;
  case 'r':
    unescaped += '\r';
    return true;
  case 't':
    unescaped += '\t';
    return true;
  case 'u':
    break;
  default:
    --current;
    return fail("invalid string: no escape begins with that character");
  }
  unsigned unit;
  if (!readCodeUnit(unit))
    return false;
  if (unit >= 0xD800 && unit < 0xE000) {
    unsigned low = 0;
    if (unit < 0xDC00 && end - current >= 2 && current[0] == '\\' &&
        current[1] == 'u') {
      current += 2;
      if (!readCodeUnit(low))
        return false;
    }
    if (low < 0xDC00 || low >= 0xE000)
      return fail("invalid string: half of a pair of surrogates");
    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }
  char bytes[UNI_MAX_UTF8_BYTES_PER_CODE_POINT];
  char *last = bytes;
  llvm::ConvertCodePointToUTF8(unit, last);
  unescaped.append(bytes, last);
  return true;
}

//===----------------------------------------------------------------------===//
// Other values
//===----------------------------------------------------------------------===//

bool JSONLexer::readNumber(Number &number) {
  peek();
  const char *first = current, *last = current;
  auto skipDigits = [&] {
    const char *before = last;
    while (last != end && llvm::isDigit(*last))
      ++last;
    return last != before;
  };
  bool isNegative = last != end && *last == '-';
  if (isNegative)
    ++last;
  const char *whole = last;
  if (!skipDigits()) {
    current = last;
    return expected(isNegative ? "a digit" : "a value");
  }
  // What follows a zero is no part of the number.
  if (*whole == '0')
    last = whole + 1;
  bool isReal = false;
  if (last != end && *last == '.') {
    isReal = true;
    ++last;
    if (!skipDigits()) {
      current = last;
      return expected("a digit");
    }
  }
  if (last != end && (*last == 'e' || *last == 'E')) {
    isReal = true;
    ++last;
    if (last != end && (*last == '+' || *last == '-'))
      ++last;
    if (!skipDigits()) {
      current = last;
      return expected("a digit");
    }
  }
  number.digits = StringRef(first, last - first);
  if (isReal) {
    number.kind = Number::Float;
    if (std::from_chars(first, last, number.real).ec != std::errc()) {
      // Too large, or so small that it is rounded to zero.
      number.real = std::strtod(number.digits.str().c_str(), nullptr);
      if (std::isinf(number.real))
        return fail("number overflow parsing '" + number.digits.take_front(40) +
                    "'");
    }
  } else {
    constexpr unsigned kSafeDigits = 18;
    number.kind = Number::Integer;
    if (last - whole <= kSafeDigits) {
      int64_t magnitude = 0;
      for (const char *digit = whole; digit != last; ++digit)
        magnitude = magnitude * 10 + (*digit - '0');
      number.integer = isNegative ? -magnitude : magnitude;
    } else if (number.digits.getAsInteger(10, number.integer)) {
      number.kind = Number::HugeInteger;
    }
  }
  current = last;
  return true;
}

bool JSONLexer::readWord(StringRef word) {
  peek();
  StringRef rest(current, end - current);
  if (!rest.starts_with(word)) {
    if (word.starts_with(rest))
      current = end;
    return expected("a value");
  }
  current += word.size();
  return true;
}

bool JSONLexer::skipValue() {
  // What closes the arrays and objects that are open.
  llvm::SmallVector<char> closers;
  StringRef string;
  Number number;
  auto skipKey = [&] {
    return readString(string) && (consume(':') || expected("':'"));
  };
  do {
    switch (peek()) {
    case '{':
      consume('{');
      if (consume('}'))
        break;
      closers.push_back('}');
      if (!skipKey())
        return false;
      continue;
    case '[':
      consume('[');
      if (consume(']'))
        break;
      closers.push_back(']');
      continue;
    case '"':
      if (!readString(string))
        return false;
      break;
    case 't':
      if (!readWord("true"))
        return false;
      break;
    case 'f':
      if (!readWord("false"))
        return false;
      break;
    case 'n':
      if (!readWord("null"))
        return false;
      break;
    default:
      if (!readNumber(number))
        return false;
      break;
    }
    while (!closers.empty()) {
      bool isObject = closers.back() == '}';
      if (consume(',')) {
        if (isObject && !skipKey())
          return false;
        break;
      }
      if (!consume(closers.back()))
        return expected(isObject ? "',' or '}'" : "',' or ']'");
      closers.pop_back();
    }
  } while (!closers.empty());
  return true;
}
