// Tokens of Python source. The tokenizer behind every reader of Python text
// that Inductor writes.

#include "opprof/Target/InductorCode/PythonLexer.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ConvertUTF.h"

#include <cstring>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

static bool isNameStart(char c) {
  return isAlpha(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

static bool isNameChar(char c) { return isNameStart(c) || isDigit(c); }

/// True for what may stand before a quote: r, b, u, f, t and their pairs.
static bool isStringPrefix(StringRef text) {
  if (text.size() > 2)
    return false;
  for (char c : text)
    if (!strchr("rRbBuUfFtT", c))
      return false;
  return true;
}

Token Lexer::make(Token::Kind kind, const char *from) {
  return {kind, line, static_cast<uint32_t>(from - lineStart),
          StringRef(from, cursor - from)};
}

Token Lexer::fail(const Twine &what, uint32_t atLine) {
  message = ("line " + Twine(atLine) + ": " + what).str();
  failed = true;
  return {Token::Error, atLine, 0, StringRef()};
}

Token Lexer::lexString(const char *from, const char *quote) {
  uint32_t startLine = line;
  uint32_t startColumn = from - lineStart;
  bool triple = end - quote >= 3 && quote[1] == *quote && quote[2] == *quote;
  cursor = quote + (triple ? 3 : 1);
  while (cursor < end) {
    char c = *cursor;
    if (c == '\\') {
      size_t left = end - cursor;
      cursor += left > 2 && cursor[1] == '\r' && cursor[2] == '\n' ? 3
                : left > 1                                         ? 2
                                                                   : 1;
      if (cursor[-1] == '\n') {
        ++line;
        lineStart = cursor;
      }
      continue;
    }
    if (c == '\n') {
      if (!triple)
        return fail("a string has no closing " + Twine(StringRef(quote, 1)),
                    startLine);
      ++line;
      lineStart = ++cursor;
      continue;
    }
    if (c == *quote &&
        (!triple || (end - cursor >= 3 && cursor[1] == c && cursor[2] == c))) {
      cursor += triple ? 3 : 1;
      return {Token::String, startLine, startColumn,
              StringRef(from, cursor - from)};
    }
    ++cursor;
  }
  return fail("the string that starts here is not closed before the end of "
              "the file: it is cut off",
              startLine);
}

Token Lexer::lexNumber(const char *from) {
  auto run = [&](auto accept) {
    while (cursor < end && (accept(*cursor) || *cursor == '_'))
      ++cursor;
  };
  if (*cursor == '0' && end - cursor > 1 && cursor[1] &&
      strchr("xXoObB", cursor[1])) {
    cursor += 2;
    run([](char c) { return isHexDigit(c); });
    return make(Token::Number, from);
  }
  run([](char c) { return isDigit(c); });
  if (cursor < end && *cursor == '.') {
    ++cursor;
    run([](char c) { return isDigit(c); });
  }
  if (cursor < end && (*cursor == 'e' || *cursor == 'E')) {
    const char *exponent = cursor + 1;
    if (exponent < end && (*exponent == '+' || *exponent == '-'))
      ++exponent;
    if (exponent < end && isDigit(*exponent)) {
      cursor = exponent;
      run([](char c) { return isDigit(c); });
    }
  }
  if (cursor < end && (*cursor == 'j' || *cursor == 'J'))
    ++cursor;
  return make(Token::Number, from);
}

bool Lexer::lexIndentation(Token &token) {
  uint32_t column = 0;
  const char *scan = cursor;
  for (; scan < end; ++scan) {
    if (*scan == ' ')
      ++column;
    else if (*scan == '\t')
      column = (column / 8 + 1) * 8;
    else if (*scan == '\f')
      column = 0;
    else
      break;
  }
  // Blank lines and comments do not count.
  if (scan == end || *scan == '\n' || *scan == '\r' || *scan == '#') {
    cursor = scan;
    return false;
  }
  const char *from = cursor;
  cursor = scan;
  atLineStart = false;
  if (column > indents.back()) {
    if (indents.size() > kMaxDepth) {
      token = fail("blocks nest deeper than " + Twine(kMaxDepth), line);
      return true;
    }
    indents.push_back(column);
    token = make(Token::Indent, from);
    return true;
  }
  while (column < indents.back()) {
    indents.pop_back();
    ++pendingDedents;
  }
  if (column != indents.back()) {
    token = fail("the indentation matches no outer block", line);
    return true;
  }
  return false;
}

/// The end of the text: of its last line, of its blocks, and of all.
bool Lexer::lexEnd(Token &token) {
  if (!brackets.empty()) {
    token = fail("the \"" + Twine(StringRef(&brackets.back().first, 1)) +
                     "\" that opens here is not closed before the end of the "
                     "file: it is cut off",
                 brackets.back().second);
    return true;
  }
  if (!atLineStart) {
    atLineStart = true;
    token = make(Token::Newline, cursor);
    return true;
  }
  if (indents.size() > 1) {
    pendingDedents = indents.size() - 1;
    indents.resize(1);
    return false;
  }
  token = make(Token::End, cursor);
  return true;
}

/// A line's end, which ends no statement in brackets and on blank lines.
bool Lexer::lexNewline(Token &token) {
  const char *from = cursor++;
  bool endsStatement = brackets.empty() && !atLineStart;
  if (endsStatement)
    token = {Token::Newline, line, static_cast<uint32_t>(from - lineStart),
             StringRef(from, 1)};
  ++line;
  lineStart = cursor;
  atLineStart |= endsStatement;
  return endsStatement;
}

/// A backslash at the end of a line joins it to the next.
bool Lexer::skipJoint() {
  if (*cursor != '\\' || cursor + 1 >= end ||
      (cursor[1] != '\n' && cursor[1] != '\r'))
    return false;
  cursor += cursor[1] == '\r' && cursor + 2 < end && cursor[2] == '\n' ? 3 : 2;
  ++line;
  lineStart = cursor;
  return true;
}

/// A comment, which counts outside of brackets only.
bool Lexer::lexComment(Token &token) {
  const char *from = cursor;
  const void *newline = memchr(cursor, '\n', end - cursor);
  cursor = newline ? static_cast<const char *>(newline) : end;
  if (!brackets.empty())
    return false;
  token = make(Token::Comment, from);
  token.text = token.text.rtrim('\r');
  return true;
}

/// A name, or a string with a prefix.
Token Lexer::lexName() {
  const char *from = cursor;
  while (cursor < end && isNameChar(*cursor))
    ++cursor;
  if (cursor < end && (*cursor == '\'' || *cursor == '"') &&
      isStringPrefix(StringRef(from, cursor - from)))
    return lexString(from, cursor);
  return make(Token::Name, from);
}

Token Lexer::lexBracket() {
  const char *from = cursor;
  char c = *cursor;
  if (c == '(' || c == '[' || c == '{') {
    if (brackets.size() >= kMaxDepth)
      return fail("brackets nest deeper than " + Twine(kMaxDepth), line);
    brackets.push_back({c, line});
  } else {
    char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (brackets.empty() || brackets.back().first != opening)
      return fail("\"" + Twine(StringRef(from, 1)) + "\" closes no bracket",
                  line);
    brackets.pop_back();
  }
  ++cursor;
  return make(Token::Op, from);
}

/// The longest operator wins.
/// Bytes of the operator or delimiter that `rest` begins with, 0 for none.
static size_t getOperatorLength(StringRef rest) {
  char second = rest.size() > 1 ? rest[1] : '\0';
  char third = rest.size() > 2 ? rest[2] : '\0';
  switch (rest.front()) {
  case '*':
  case '/':
  case '<':
  case '>':
    if (second == rest.front())
      return third == '=' ? 3 : 2;
    return second == '=' ? 2 : 1;
  case '-':
    return second == '=' || second == '>' ? 2 : 1;
  case '+':
  case '%':
  case '@':
  case '&':
  case '|':
  case '^':
  case '=':
  case ':':
  case '!':
    return second == '=' ? 2 : 1;
  case '.':
    return second == '.' && third == '.' ? 3 : 1;
  case '~':
  case ',':
  case ';':
    return 1;
  default:
    return 0;
  }
}

Token Lexer::lexOperator() {
  const char *from = cursor;
  size_t length = getOperatorLength(StringRef(from, end - from));
  if (!length)
    return fail("the byte 0x" + utohexstr(static_cast<unsigned char>(*cursor)) +
                    " starts no token of Python: this is not a source file",
                line);
  cursor += length;
  return make(Token::Op, from);
}

Token Lexer::next() {
  if (failed)
    return {Token::Error, line, 0, StringRef()};
  Token token;
  while (true) {
    if (pendingDedents) {
      --pendingDedents;
      return {Token::Dedent, line, 0, StringRef(cursor, 0)};
    }
    if (atLineStart && brackets.empty()) {
      if (lexIndentation(token))
        return token;
      if (pendingDedents)
        continue;
    }
    while (cursor < end && (*cursor == ' ' || *cursor == '\t' ||
                            *cursor == '\f' || *cursor == '\r'))
      ++cursor;
    if (cursor >= end) {
      if (lexEnd(token))
        return token;
      continue;
    }
    char c = *cursor;
    if (c == '\n') {
      if (lexNewline(token))
        return token;
      continue;
    }
    if (skipJoint())
      continue;
    if (c == '#') {
      if (lexComment(token))
        return token;
      continue;
    }
    if (isNameStart(c))
      return lexName();
    if (isDigit(c) || (c == '.' && end - cursor > 1 && isDigit(cursor[1])))
      return lexNumber(cursor);
    if (c == '\'' || c == '"')
      return lexString(cursor, cursor);
    if (strchr("()[]{}", c) && c)
      return lexBracket();
    return lexOperator();
  }
}

StringRef opprof::inductor::stringBody(StringRef literal) {
  size_t quote = literal.find_first_of("'\"");
  if (quote == StringRef::npos)
    return literal;
  StringRef quoted = literal.drop_front(quote);
  size_t width =
      quoted.size() >= 6 && quoted[1] == quoted[0] && quoted[2] == quoted[0]
          ? 3
          : 1;
  if (quoted.size() < 2 * width)
    return StringRef();
  return quoted.drop_front(width).drop_back(width);
}

std::string opprof::inductor::decodeString(StringRef literal) {
  StringRef prefix =
      literal.take_until([](char c) { return strchr("'\"", c); });
  StringRef body = stringBody(literal);
  if (prefix.contains_insensitive('r') || !body.contains('\\'))
    return body.str();

  std::string out;
  out.reserve(body.size());
  bool bytes = prefix.contains_insensitive('b');
  auto appendCodePoint = [&](unsigned code) {
    char buffer[UNI_MAX_UTF8_BYTES_PER_CODE_POINT];
    char *cursor = buffer;
    if (ConvertCodePointToUTF8(code, cursor))
      out.append(buffer, cursor);
    else
      out += '?';
  };
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out += body[i];
      continue;
    }
    char escape = body[++i];
    static constexpr StringLiteral kPlain = "abfnrtv\\'\"";
    static constexpr char kValues[] = "\a\b\f\n\r\t\v\\'\"";
    if (size_t at = kPlain.find(escape); at != StringRef::npos) {
      out += kValues[at];
    } else if (escape == '\n') {
      continue;
    } else if (escape >= '0' && escape <= '7') {
      unsigned code = 0;
      size_t digits = 0;
      for (; digits < 3 && i < body.size() && body[i] >= '0' && body[i] <= '7';
           ++digits)
        code = code * 8 + (body[i++] - '0');
      --i;
      appendCodePoint(code);
    } else if (escape == 'x' || (!bytes && (escape == 'u' || escape == 'U'))) {
      size_t count = escape == 'x' ? 2 : escape == 'u' ? 4 : 8;
      unsigned code = 0;
      StringRef digits = body.substr(i + 1, count);
      if (digits.size() != count || digits.getAsInteger(16, code)) {
        out += '\\';
        out += escape;
        continue;
      }
      appendCodePoint(code);
      i += count;
    } else {
      out += '\\';
      out += escape;
    }
  }
  return out;
}
