// Sizes that are expressions of symbols.

#include "Sizes.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

std::optional<int64_t>
opprof::inductor::evaluateSize(const Expr &expr,
                               const std::map<std::string, int64_t> &hints) {
  if (std::optional<int64_t> value = expr.intValue())
    return value;
  if (expr.kind == Expr::Name) {
    auto it = hints.find(expr.text.str());
    return it == hints.end() ? std::nullopt : std::optional(it->second);
  }
  if (expr.kind == Expr::Tuple && expr.items.size() == 1)
    return evaluateSize(*expr.items[0], hints);
  bool isPair = expr.kind == Expr::Binary && expr.items.size() == 2;
  bool isCall = expr.kind == Expr::Call && expr.items.size() == 3;
  if (!isPair && !isCall)
    return std::nullopt;
  size_t first = isCall ? 1 : 0;
  auto a = evaluateSize(*expr.items[first], hints);
  auto b = evaluateSize(*expr.items[first + 1], hints);
  int64_t out = 0;
  if (!a || !b)
    return std::nullopt;
  StringRef name = isCall ? expr.items[0]->source : expr.text;
  if (name == "+" && !AddOverflow(*a, *b, out))
    return out;
  if (name == "-" && !SubOverflow(*a, *b, out))
    return out;
  if (name == "*" && !MulOverflow(*a, *b, out))
    return out;
  if ((name == "//" || name == "FloorDiv") && *a >= 0 && *b > 0)
    return *a / *b;
  if (name == "Max" || name == "max")
    return std::max(*a, *b);
  if (name == "Min" || name == "min")
    return std::min(*a, *b);
  return std::nullopt;
}
