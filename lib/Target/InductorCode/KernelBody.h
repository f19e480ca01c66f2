// The statements of a generated kernel: what it loads, what it does to that,
// and what it stores. One small syntax serves Triton's Python and Inductor's
// C++; what it does not know becomes an Unknown expression.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_KERNELBODY_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_KERNELBODY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace opprof::inductor {

struct BodyStmt;

struct BodyExpr {
  enum Kind : uint8_t {
    Unknown,
    Name,
    Number,    ///< number
    Call,      ///< text(items): namespaces and template arguments left out
    Method,    ///< items[0].text(items[1:])
    Subscript, ///< items[0][items[1:]]
    Unary,     ///< text
    Binary,    ///< text
    Select,    ///< items[0] where items[1], else items[2]
    Tuple,
    Lambda, ///< body
  };

  Kind kind = Unknown;
  llvm::StringRef text;
  double number = 0;
  llvm::SmallVector<const BodyExpr *, 3> items;
  /// Keywords of the last arguments, as many as there are.
  llvm::SmallVector<llvm::StringRef, 2> keywords;
  std::vector<const BodyStmt *> body;
};

struct BodyStmt {
  enum Kind : uint8_t {
    Assign, ///< targets = value
    Eval,   ///< value
    For,    ///< targets[0] from value up to bound: body
    If,     ///< value: body, orelse
    Block,  ///< body
    Return, ///< value
  };

  Kind kind = Eval;
  llvm::SmallVector<const BodyExpr *, 1> targets;
  /// What is added to where it is no plain assignment: "+".
  llvm::StringRef op;
  /// The statement makes its name.
  bool declares = false;
  const BodyExpr *value = nullptr;
  const BodyExpr *bound = nullptr;
  std::vector<const BodyStmt *> body, orelse;
};

/// A parsed kernel. Owns its source text.
class KernelBody {
public:
  enum Language { Triton, Cpp };

  /// Null where the source has no kernel that can be read, or is too large.
  static std::shared_ptr<const KernelBody> parse(llvm::StringRef source,
                                                 Language language);

  Language language = Triton;
  /// Names of the parameters in order.
  std::vector<llvm::StringRef> parameters;
  std::vector<const BodyStmt *> statements;

private:
  friend class BodyParser;
  std::string text;
  std::deque<BodyExpr> exprs;
  std::deque<BodyStmt> stmts;
};

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_KERNELBODY_H
