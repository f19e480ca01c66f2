// Syntax of generated Python. Statements and expressions of the Python that
// Inductor writes. What the parser does not know becomes a Text statement or
// expression: the source is kept, and counted by its users.

#ifndef OPPROF_TARGET_INDUCTORCODE_PYTHONPARSER_H
#define OPPROF_TARGET_INDUCTORCODE_PYTHONPARSER_H

#include "opprof/Target/InductorCode/PythonLexer.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Allocator.h"

#include <memory>
#include <optional>

namespace opprof::inductor {

/// An expression. Nodes live as long as the SyntaxTree that made them.
struct Expr {
  enum Kind : uint8_t {
    Name,      ///< text is the identifier; True, False and None included
    Number,    ///< text is the literal
    String,    ///< text is the literal; items are the further adjacent ones
    Attribute, ///< items[0].text
    Call,      ///< items[0](items[1:]); names[i] is the keyword of items[i + 1]
    Subscript, ///< items[0][items[1]]
    Tuple,
    List,
    Set,
    Dict,   ///< items alternate keys and values
    Slice,  ///< items[0]:items[1]:items[2], each may be null
    Unary,  ///< text is the operator
    Binary, ///< text is the operator; comparisons and and/or included
    IfElse, ///< items[0] if items[1] else items[2]
    Star,   ///< text is "*" or "**"
    Text,   ///< anything else (lambda, comprehension): text is its source
  };

  /// Deeper expressions are kept as Text, so that walks may recurse.
  static constexpr unsigned kMaxDepth = 400;

  Kind kind;
  uint16_t depth;
  uint32_t line;
  llvm::StringRef text;
  llvm::ArrayRef<const Expr *> items;
  llvm::ArrayRef<llvm::StringRef> names;
  /// The expression's own source.
  llvm::StringRef source;

  bool isName(llvm::StringRef name) const {
    return kind == Name && text == name;
  }
  /// "a.b.c" for names and attributes of names, else empty.
  std::string dotted() const;
  /// Positional arguments of a call, in order.
  llvm::SmallVector<const Expr *> positional() const;
  /// A keyword argument of a call, or null.
  const Expr *keyword(llvm::StringRef name) const;
  /// The value of a dict under a string key, or null.
  const Expr *lookup(llvm::StringRef key) const;
  /// The value of a string (adjacent literals joined).
  std::optional<std::string> stringValue() const;
  /// The value of a whole number, a sign included.
  std::optional<int64_t> intValue() const;
};

struct CommentLine {
  uint32_t line;
  llvm::StringRef text;
};

/// A statement.
struct Stmt {
  enum Kind : uint8_t {
    Assign,   ///< targets = value (annotation may be set; op is "=", "+=", …)
    ExprStmt, ///< value
    Delete,   ///< targets
    Return,   ///< value or null
    Import,   ///< source only
    Function, ///< name, parameters, body; value is the return annotation
    Class,    ///< name, body
    With,     ///< targets are the context expressions; body
    If,       ///< value, body, orelse
    For,      ///< targets in value; body
    While,    ///< value, body
    Assert,   ///< value
    Pass,     ///< pass, break, continue, global, nonlocal: source only
    Text,     ///< anything else: source only; a block keeps its body
  };

  Kind kind = Text;
  uint32_t line = 0;
  /// Of Function and Class; the operator of Assign.
  llvm::StringRef name;
  llvm::ArrayRef<const Expr *> targets;
  const Expr *annotation = nullptr;
  const Expr *value = nullptr;
  /// Parameters of a Function: names, and their annotations (may be null).
  llvm::ArrayRef<llvm::StringRef> parameters;
  llvm::ArrayRef<const Expr *> annotations;
  llvm::ArrayRef<const Stmt *> body;
  llvm::ArrayRef<const Stmt *> orelse;
  /// Comment lines between the statement before and this one.
  llvm::ArrayRef<CommentLine> leading;
  /// A comment on the statement's last line.
  llvm::StringRef trailing;
  /// The statement's own line(s) without its body.
  llvm::StringRef source;
};

/// A parsed file. The source text must outlive it.
class SyntaxTree {
public:
  SyntaxTree() = default;
  SyntaxTree(SyntaxTree &&) = default;
  SyntaxTree &operator=(SyntaxTree &&) = default;

  llvm::ArrayRef<const Stmt *> statements() const { return module; }

private:
  friend class Parser;
  std::unique_ptr<llvm::BumpPtrAllocator> arena =
      std::make_unique<llvm::BumpPtrAllocator>();
  llvm::ArrayRef<const Stmt *> module;
};

/// Parses a whole file. Only what makes the rest unreadable (an unclosed
/// string or bracket, a byte that starts no token) is an error, which names
/// `fileName` and the line.
llvm::Expected<SyntaxTree> parsePython(llvm::StringRef source,
                                       llvm::StringRef fileName);

/// Parses the expression that `source` starts with; what follows it is left
/// alone. Null when there is none.
const Expr *parseExpression(llvm::StringRef source,
                            llvm::BumpPtrAllocator &arena);

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_PYTHONPARSER_H
