// Tokens of Python source. A tokenizer for Python as programs write it: all
// kinds of strings, comments kept, indentation, lines continued in brackets. It
// never executes anything.

#ifndef OPPROF_TARGET_INDUCTORCODE_PYTHONLEXER_H
#define OPPROF_TARGET_INDUCTORCODE_PYTHONLEXER_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace opprof::inductor {

struct Token {
  enum Kind : uint8_t {
    Name,    ///< identifier or keyword
    Number,  ///< int, float or imaginary literal
    String,  ///< with prefix and quotes
    Op,      ///< operator, bracket or delimiter
    Comment, ///< from '#' to the end of the line; outside of brackets only
    Newline, ///< end of a logical line
    Indent,
    Dedent,
    End,
    Error, ///< see Lexer::error()
  };

  Kind kind = End;
  uint32_t line = 0;
  uint32_t column = 0;
  llvm::StringRef text;

  bool is(Kind k) const { return kind == k; }
  bool isOp(llvm::StringRef op) const { return kind == Op && text == op; }
  bool isName(llvm::StringRef name) const {
    return kind == Name && text == name;
  }
};

/// Yields the tokens of one source text. The text must outlive the tokens.
class Lexer {
public:
  /// Brackets and indentation may nest this deep; deeper is an error.
  static constexpr unsigned kMaxDepth = 200;

  explicit Lexer(llvm::StringRef source, uint32_t firstLine = 1)
      : begin(source.begin()), cursor(source.begin()), end(source.end()),
        lineStart(source.begin()), line(firstLine) {
    // A byte order mark is allowed before the first line.
    if (source.starts_with("\xEF\xBB\xBF"))
      cursor = lineStart = begin + 3;
  }

  /// The next token. After Error or End the same token is returned again.
  Token next();

  /// What is wrong, after an Error token: "line 3: …" without a file name.
  llvm::StringRef error() const { return message; }

  /// Bytes read so far.
  size_t offset() const { return cursor - begin; }

private:
  Token make(Token::Kind kind, const char *from);
  Token fail(const llvm::Twine &what, uint32_t atLine);
  Token lexString(const char *from, const char *quote);
  Token lexNumber(const char *from);
  Token lexName();
  Token lexBracket();
  Token lexOperator();
  // True where there is a token; false where what was read gives none.
  /// Measures the indentation of a line that holds a statement.
  bool lexIndentation(Token &token);
  bool lexEnd(Token &token);
  bool lexNewline(Token &token);
  bool lexComment(Token &token);
  bool skipJoint();

  const char *begin, *cursor, *end, *lineStart;
  uint32_t line;
  bool atLineStart = true;
  bool failed = false;
  unsigned pendingDedents = 0;
  llvm::SmallVector<uint32_t, 8> indents = {0};
  llvm::SmallVector<std::pair<char, uint32_t>, 16> brackets;
  std::string message;
};

/// The value of a string literal. Raw, triple-quoted and plain strings give
/// their text (of bytes strings, each byte as the character of its number);
/// replacement fields of f-strings stay as written. Escapes that Python would
/// refuse stay as written.
std::string decodeString(llvm::StringRef literal);

/// The literal's text without prefix and quotes, escapes not decoded.
llvm::StringRef stringBody(llvm::StringRef literal);

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_PYTHONLEXER_H
