// One pass over a kernel's statements: loops run once, at their first index,
// and what they accumulate is scaled by how often they would run.

#include "KernelRun.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// Statements and calls of one run; a kernel of many thousand statements is
/// not worth more.
static constexpr size_t kMaxSteps = 400'000;
/// Expressions within one another.
static constexpr unsigned kMaxRunNesting = 1000;
static constexpr unsigned kMaxCalls = 64;
/// How often what was stored to a place is told from what was before.
static constexpr unsigned kMaxRounds = 8;

namespace {
struct BodyValue {
  enum Kind : uint8_t { Plain, Pointer, Function, Parts };
  Kind kind = Plain;
  AbstractValue value = AbstractValue::unknown();
  /// Parameters that it was loaded through.
  SmallBitVector loaded;
  /// Of a pointer: `value` is the offset.
  unsigned parameter = 0;
  const BodyExpr *lambda = nullptr;
  std::vector<BodyValue> parts;
};

class KernelRunner {
public:
  KernelRunner(const KernelBody &body, ArrayRef<KernelArgument> arguments,
               KernelMemory &memory, std::optional<KernelTurn> turn)
      : body(body), arguments(arguments), memory(memory), turn(turn),
        rounds(arguments.size()), storing(arguments.size()),
        readBack(arguments.size()) {}

  KernelResult run();

private:
  struct Loop {
    StringRef variable;
    double trips;
    /// It begins at another than its first turn.
    bool isElsewhere = false;
  };
  struct Variable {
    BodyValue value;
    /// Loops that were open where it was made.
    size_t depth = 0;
  };

  void runAll(ArrayRef<const BodyStmt *> statements);
  void runStatement(const BodyStmt &stmt);
  void runAssign(const BodyStmt &stmt);
  void runFor(const BodyStmt &stmt);
  void runIf(const BodyStmt &stmt);
  bool accumulate(const BodyStmt &stmt, StringRef name);
  void assign(const BodyExpr &target, BodyValue value, bool declares);
  void store(const BodyValue &pointer, BodyValue value);

  BodyValue evaluate(const BodyExpr &expr);
  BodyValue evaluatePlace(const BodyExpr &expr);
  BodyValue apply(StringRef name, ArrayRef<BodyValue> args);
  BodyValue evaluateName(const BodyExpr &expr);
  BodyValue evaluateBinary(const BodyExpr &expr);
  BodyValue evaluateUnary(const BodyExpr &expr);
  BodyValue evaluateSubscript(const BodyExpr &expr);
  BodyValue evaluateCall(const BodyExpr &expr);
  BodyValue evaluateMethod(const BodyExpr &expr);
  std::optional<BodyValue> callMemory(StringRef name, const BodyExpr &expr);
  std::optional<BodyValue> callReduction(StringRef name,
                                         ArrayRef<BodyValue> args);
  BodyValue callFunction(StringRef name, ArrayRef<BodyValue> args);
  BodyValue callLambda(const BodyExpr &lambda);
  BodyValue loadFrom(const BodyValue &pointer);
  BodyValue loadAnywhere(const BodyValue &pointer);
  BodyValue loadBefore(const BodyValue &pointer);
  bool shareMemory(unsigned first, unsigned second) const;
  void addReadBack(const KernelStore &item, SmallBitVector &loaded) const;
  void addOtherTurns(unsigned parameter, BodyValue &value) const;
  BodyValue readPlain(BodyValue value);
  BodyValue combine(AbstractValue value, ArrayRef<BodyValue> from);
  BodyValue select(const BodyValue &test, const BodyValue &yes,
                   const BodyValue &no);
  BodyValue constant(double number) {
    BodyValue out;
    out.value = AbstractValue::constant(number);
    return out;
  }
  double reducedCount() const;
  double turnOf(unsigned depth, double turns) const;
  double blockOf(const AbstractValue &axis) const;
  StringRef baseName(const BodyExpr &expr) const;

  const KernelBody &body;
  ArrayRef<KernelArgument> arguments;
  KernelMemory &memory;
  std::optional<KernelTurn> turn;
  StringMap<Variable> variables;
  SmallVector<Loop> loops;
  std::vector<KernelStore> stores, overwritten;
  /// By parameter: the round of what is stored through it.
  SmallVector<unsigned> rounds;
  /// By parameter: how many statements stored through it.
  SmallVector<unsigned> storing;
  SmallBitVector read, readBack, divided;
  bool readsByData = false;
  std::optional<BodyValue> returned;
  unsigned calls = 0;
  /// Loops that are open, less those that share another's turns.
  unsigned counting = 0;
  /// How many places of memory are being computed.
  unsigned placing = 0;
  size_t steps = 0;
  unsigned nesting = 0;
};
} // namespace

BodyValue KernelRunner::combine(AbstractValue value, ArrayRef<BodyValue> from) {
  BodyValue out;
  out.value = value;
  for (const BodyValue &other : from) {
    if (other.loaded.size() > out.loaded.size())
      out.loaded.resize(other.loaded.size());
    out.loaded |= other.loaded;
    for (const BodyValue &part : other.parts) {
      if (part.loaded.size() > out.loaded.size())
        out.loaded.resize(part.loaded.size());
      out.loaded |= part.loaded;
    }
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

bool KernelRunner::shareMemory(unsigned first, unsigned second) const {
  int32_t storage = arguments[first].storage;
  return first == second ||
         (storage >= 0 && storage == arguments[second].storage);
}

void KernelRunner::addReadBack(const KernelStore &item,
                               SmallBitVector &loaded) const {
  unsigned bit = getReadBackBit(arguments.size(), item.parameter, item.round);
  loaded.resize(std::max<size_t>(loaded.size(), bit + 1));
  loaded.set(bit);
}

/// What is read by a name of its own may hold more than the store that the
/// first element is from.
void KernelRunner::addOtherTurns(unsigned parameter, BodyValue &value) const {
  const KernelArgument &from = arguments[parameter];
  auto add = [&](const SmallBitVector &loaded) {
    value.loaded.resize(std::max(value.loaded.size(), loaded.size()));
    value.loaded |= loaded;
  };
  for (const KernelStore &item : stores) {
    const KernelArgument &to = arguments[item.parameter];
    if (to.storage < 0 || to.storage != from.storage ||
        !memory.mayHold(parameter, to.offset + item.offset - from.offset))
      continue;
    if (memory.reload(item.parameter, item.round, 0))
      addReadBack(item, value.loaded);
    else
      add(item.loaded);
  }
  if (memory.holdsOthers(parameter)) {
    SmallBitVector own(parameter + 1);
    own.set(parameter);
    add(own);
  }
}

/// What stands at a place that is not known: anything that the kernel stored
/// there, or else that the memory holds.
BodyValue KernelRunner::loadAnywhere(const BodyValue &pointer) {
  size_t count = arguments.size();
  BodyValue out = combine(AbstractValue::unknown(), pointer);
  out.loaded.resize(std::max<size_t>(out.loaded.size(), count));
  bool isWritten = false;
  for (KernelStore &item : stores) {
    if (!shareMemory(item.parameter, pointer.parameter))
      continue;
    isWritten = true;
    item.isReadBack = true;
    if (memory.reload(item.parameter, item.round, 0)) {
      addReadBack(item, out.loaded);
      continue;
    }
    out.loaded |= item.loaded;
    readBack.set(item.parameter);
  }
  if (!isWritten) {
    out.loaded.set(pointer.parameter);
    read.set(pointer.parameter);
    memory.touch(pointer.parameter);
  }
  return out;
}

BodyValue KernelRunner::loadFrom(const BodyValue &pointer) {
  if (!pointer.value.known)
    return loadAnywhere(pointer);
  readsByData |= pointer.value.isData;
  const KernelArgument &from = arguments[pointer.parameter];
  double place = from.offset + pointer.value.number;
  // What the kernel stored there before, under any name.
  bool isWritten = false, isShared = false;
  unsigned writer = 0;
  size_t count = arguments.size();
  SmallBitVector written(count);
  for (KernelStore &item : reverse(stores)) {
    const KernelArgument &to = arguments[item.parameter];
    if (!shareMemory(item.parameter, pointer.parameter))
      continue;
    double inside = place - to.offset;
    isShared = true;
    written.resize(std::max(written.size(), item.loaded.size()));
    written |= item.loaded;
    if (!memory.mayHold(item.parameter, inside))
      continue;
    if (std::optional<AbstractValue> value =
            memory.reload(item.parameter, item.round, inside)) {
      item.isReadBack = true;
      BodyValue out = combine(*value, pointer);
      addReadBack(item, out.loaded);
      if (item.parameter != pointer.parameter)
        addOtherTurns(pointer.parameter, out);
      return out;
    }
    if (!isWritten)
      writer = item.parameter;
    isWritten = true;
    if (item.offset != inside)
      continue;
    // Of what is scattered over, the scatter's value is read.
    if (item.isScattered && !item.value.known)
      for (KernelStore &other : stores)
        other.isReadBack |=
            other.isScattered && other.parameter == item.parameter;
    BodyValue out;
    // Other turns may have stored something else over it.
    bool isWhole = !turn || storing[item.parameter] == 1;
    out.value = isWhole ? item.value : AbstractValue::unknown();
    out.loaded = item.loaded;
    if (item.parameter != pointer.parameter)
      addOtherTurns(pointer.parameter, out);
    return out;
  }
  BodyValue out = combine(AbstractValue::unknown(), pointer);
  out.loaded.resize(std::max<size_t>(out.loaded.size(), count));
  // Before the start of what it wrote: behind a test that fails, as for what
  // lies outside of an image.
  if (isShared && place < from.offset)
    return out;
  if (!isWritten) {
    out.loaded.set(pointer.parameter);
    read.set(pointer.parameter);
  }
  // What it reads in other turns of the loop.
  out.loaded.resize(std::max(out.loaded.size(), written.size()));
  out.loaded |= written;
  if (isWritten) {
    readBack.set(writer);
    for (KernelStore &item : stores)
      item.isReadBack |= item.parameter == writer;
  } else {
    out.value = memory.load(pointer.parameter, pointer.value.number);
  }
  return out;
}

/// What a scatter adds to, which is nothing that it is read back for.
BodyValue KernelRunner::loadBefore(const BodyValue &pointer) {
  SmallVector<bool> flags;
  for (const KernelStore &item : stores)
    flags.push_back(item.isReadBack);
  SmallBitVector parameters = readBack;
  BodyValue value = loadFrom(pointer);
  for (auto [item, flag] : zip(stores, flags))
    item.isReadBack = flag;
  readBack = std::move(parameters);
  return value;
}

BodyValue KernelRunner::readPlain(BodyValue value) {
  if (value.kind == BodyValue::Pointer)
    return loadFrom(value);
  return value;
}

void KernelRunner::store(const BodyValue &pointer, BodyValue value) {
  KernelStore item{pointer.parameter,    pointer.value.number,
                   value.value,          value.loaded,
                   /*round=*/0,          /*isReadBack=*/false,
                   /*isScattered=*/false};
  // Where data says where to: it may be anywhere.
  if (!pointer.value.known || pointer.value.isData) {
    item.value = AbstractValue::unknown();
    item.offset = -1;
    item.isScattered = true;
    item.loaded.resize(std::max(item.loaded.size(), pointer.loaded.size()));
    item.loaded |= pointer.loaded;
    for (KernelStore &other : stores)
      if (arguments[other.parameter].storage ==
          arguments[item.parameter].storage) {
        other.value = AbstractValue::unknown();
        other.isScattered = true;
        other.loaded |= item.loaded;
      }
  }
  ++storing[item.parameter];
  unsigned &round = rounds[item.parameter];
  item.round = round;
  auto other = llvm::find_if(stores, [&](const KernelStore &held) {
    return held.parameter == item.parameter && held.offset == item.offset;
  });
  if (other != stores.end()) {
    if (other->isReadBack && round < kMaxRounds) {
      overwritten.push_back(std::move(*other));
      item.round = ++round;
    } else if (other->isReadBack) {
      // What was read of it before would be taken for what is read from now on.
      item.value = AbstractValue::unknown();
    }
    // The last store to a place is looked for from the end.
    stores.erase(other);
  }
  stores.push_back(std::move(item));
}

/// The name that an address starts with.
StringRef KernelRunner::baseName(const BodyExpr &expr) const {
  const BodyExpr *at = &expr;
  while (at->kind != BodyExpr::Name && !at->items.empty() &&
         at->kind != BodyExpr::Call)
    at = at->items.front();
  return at->kind == BodyExpr::Name ? at->text : StringRef();
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

BodyValue KernelRunner::evaluateName(const BodyExpr &expr) {
  if (auto it = variables.find(expr.text); it != variables.end())
    return it->second.value;
  std::optional<double> number =
      StringSwitch<std::optional<double>>(expr.text)
          .Cases({"True", "true"}, 1)
          .Cases({"False", "false"}, 0)
          .Cases({"\"inf\"", "'inf'"}, INFINITY)
          .Cases({"\"-inf\"", "'-inf'"}, -INFINITY)
          .Case("None", 1)
          .Case("INFINITY", INFINITY)
          .Case("CHAR_BIT", 8)
          // Blocks of threads: the first of them.
          .Cases({"XBLOCK", "YBLOCK", "ZBLOCK", "RBLOCK"}, 1)
          .Cases({"R0_BLOCK", "R1_BLOCK"}, 1)
          .Default(std::nullopt);
  return number ? constant(*number) : BodyValue();
}

/// A place is taken apart where the graph has views: exactly, as those are.
/// What an operator divides has a smooth stand-in, by which it is told. What
/// divides a place is told by several draws of it (see kPlaceDraws).
BodyValue KernelRunner::apply(StringRef name, ArrayRef<BodyValue> args) {
  SmallVector<AbstractValue> values;
  for (const BodyValue &arg : args)
    values.push_back(arg.value);
  BodyValue out = combine(AbstractValue::unknown(), args);
  bool takesApart = name == "floor_divide" || name == "remainder";
  if (placing && takesApart && values.size() == 2 &&
      all_of(values, [](const AbstractValue &value) {
        return value.known && value.number == std::floor(value.number);
      })) {
    out.value =
        applyOperator(name, {AbstractValue::constant(values[0].number),
                             AbstractValue::constant(values[1].number)});
    out.value.isData = values[0].isData || values[1].isData;
    divided.resize(std::max(divided.size(), out.loaded.size()));
    divided |= out.loaded;
  } else {
    out.value = applyOperator(name, values);
  }
  return out;
}

BodyValue KernelRunner::evaluatePlace(const BodyExpr &expr) {
  ++placing;
  auto leave = llvm::scope_exit([&] { --placing; });
  return evaluate(expr);
}

BodyValue KernelRunner::evaluateBinary(const BodyExpr &expr) {
  BodyValue left = evaluate(*expr.items[0]), right = evaluate(*expr.items[1]);
  StringRef name = StringSwitch<StringRef>(expr.text)
                       .Case("+", "add")
                       .Case("-", "sub")
                       .Case("*", "mul")
                       .Case("/", "div")
                       .Case("//", "floor_divide")
                       .Case("%", "remainder")
                       .Case("<", "lt")
                       .Case("<=", "le")
                       .Case(">", "gt")
                       .Case(">=", "ge")
                       .Case("==", "eq")
                       .Case("!=", "ne")
                       .Cases({"&", "&&", "and"}, "logical_and")
                       .Cases({"|", "||", "or"}, "logical_or")
                       .Case("^", "logical_xor")
                       .Case("<<", "lshift")
                       .Case(">>", "rshift")
                       .Default("");
  BodyValue out = apply(name, {left, right});
  const BodyValue *pointer = left.kind == BodyValue::Pointer    ? &left
                             : right.kind == BodyValue::Pointer ? &right
                                                                : nullptr;
  if (pointer && name == "add") {
    out.kind = BodyValue::Pointer;
    out.parameter = pointer->parameter;
  }
  return out;
}

BodyValue KernelRunner::evaluateUnary(const BodyExpr &expr) {
  const BodyExpr &inner = *expr.items[0];
  // &out_ptr0[i]
  if (expr.text == "&" && inner.kind == BodyExpr::Subscript) {
    BodyValue base = evaluate(*inner.items[0]);
    if (base.kind == BodyValue::Pointer && inner.items.size() > 1) {
      BodyValue index = evaluatePlace(*inner.items[1]);
      BodyValue out = combine(applyOperator("add", {base.value, index.value}),
                              {base, index});
      out.kind = BodyValue::Pointer;
      out.parameter = base.parameter;
      return out;
    }
    return base;
  }
  BodyValue value = evaluate(inner);
  StringRef name = StringSwitch<StringRef>(expr.text)
                       .Case("-", "neg")
                       .Cases({"~", "!", "not"}, "logical_not")
                       .Default("");
  if (name.empty())
    return expr.text == "*" ? readPlain(value) : value;
  return combine(applyOperator(name, value.value), value);
}

BodyValue KernelRunner::evaluateSubscript(const BodyExpr &expr) {
  BodyValue base = evaluate(*expr.items[0]);
  if (base.kind != BodyValue::Pointer)
    return base;
  if (expr.items.size() < 2)
    return {};
  BodyValue index = evaluatePlace(*expr.items[1]);
  BodyValue pointer =
      combine(applyOperator("add", {base.value, index.value}), {base, index});
  pointer.kind = BodyValue::Pointer;
  pointer.parameter = base.parameter;
  return loadFrom(pointer);
}

BodyValue KernelRunner::select(const BodyValue &test, const BodyValue &yes,
                               const BodyValue &no) {
  return combine(applyOperator("where", {test.value, yes.value, no.value}),
                 {test, yes, no});
}

BodyValue KernelRunner::evaluate(const BodyExpr &expr) {
  if (++steps > kMaxSteps || nesting >= kMaxRunNesting)
    return {};
  ++nesting;
  auto leave = llvm::scope_exit([&] { --nesting; });
  switch (expr.kind) {
  case BodyExpr::Unknown:
    return {};
  case BodyExpr::Name:
    return evaluateName(expr);
  case BodyExpr::Number:
    return constant(expr.number);
  case BodyExpr::Call:
    return evaluateCall(expr);
  case BodyExpr::Method:
    return evaluateMethod(expr);
  case BodyExpr::Subscript:
    return evaluateSubscript(expr);
  case BodyExpr::Unary:
    return evaluateUnary(expr);
  case BodyExpr::Binary:
    return evaluateBinary(expr);
  case BodyExpr::Select: {
    BodyValue test = evaluate(*expr.items[1]);
    BodyValue yes = evaluate(*expr.items[0]);
    return select(test, yes, evaluate(*expr.items[2]));
  }
  case BodyExpr::Tuple: {
    if (expr.items.size() == 1)
      return evaluate(*expr.items[0]);
    BodyValue out;
    out.kind = BodyValue::Parts;
    // Tuples of tuples would grow without end.
    for (const BodyExpr *item : expr.items) {
      BodyValue part = evaluate(*item);
      out.parts.push_back(part.kind == BodyValue::Parts ? BodyValue()
                                                        : std::move(part));
    }
    return out;
  }
  case BodyExpr::Lambda: {
    BodyValue out;
    out.kind = BodyValue::Function;
    out.lambda = &expr;
    return out;
  }
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// ATen's name of a function of Triton's or C++'s libraries.
static StringRef canonicalName(StringRef name) {
  return StringSwitch<StringRef>(name)
      .Cases({"sqrt_rn", "sqrtf"}, "sqrt")
      .Cases({"exp_u20", "fexp_u20", "fast_expf"}, "exp")
      .Cases({"fabs", "absf"}, "abs")
      .Cases({"rint", "nearbyint", "llrint"}, "round")
      .Cases({"max", "max_propagate_nan", "fmax"}, "maximum")
      .Cases({"min", "min_propagate_nan", "fmin"}, "minimum")
      .Cases({"div_rn", "fdividef"}, "div")
      .Case("div_floor_integer", "floor_divide")
      .Cases({"remainder_integer", "mod"}, "remainder")
      .Case("calc_erfinv", "erfinv")
      .Case("calc_digamma", "digamma")
      .Cases({"rand", "normalized_rand_cpu"}, "rand")
      .Cases({"randn", "randn_cpu"}, "randn")
      .Case("rsqrtf", "rsqrt")
      .Default(name);
}

/// Functions that give their first argument for the first element.
static bool isIdentity(StringRef name) {
  return StringSwitch<bool>(name)
      .Cases({"broadcast_to", "reshape", "promote_to_tensor", "expand_dims"},
             true)
      .Cases({"static_cast", "Vectorized", "VectorizedN", "convert"}, true)
      .Cases({"float", "double", "int", "bool"}, true)
      .Cases({"half", "bfloat16"}, true)
      .Cases({"BFloat16", "Half", "decltype", "long", "VecMask"}, true)
      .Cases({"from", "cast", "to", "arange", "loadu", "data"}, true)
      .Cases({"C10_LIKELY", "C10_UNLIKELY", "welford_vec_reduce_all"}, true)
      // The sum that its helper holds.
      .Case("cascade_sum_final", true)
      .Cases({"to_float_mask", "trans", "sort", "expand"}, true)
      .Default(isWholeType(name));
}

/// Bytes of a number of C++'s.
static double sizeOfType(StringRef name) {
  return StringSwitch<double>(name)
      .Cases({"bool", "int8_t", "uint8_t"}, 1)
      .Cases({"int16_t", "uint16_t", "half", "bfloat16"}, 2)
      .Cases({"int32_t", "uint32_t", "float"}, 4)
      .Cases({"int64_t", "uint64_t", "double"}, 8)
      .Default(NAN);
}

double KernelRunner::reducedCount() const {
  double count = 1;
  for (StringRef name : {"r0_numel", "r1_numel"})
    if (auto it = variables.find(name); it != variables.end())
      count *= it->second.value.value.number;
  return count;
}

BodyValue KernelRunner::callLambda(const BodyExpr &lambda) {
  if (calls >= kMaxCalls)
    return {};
  ++calls;
  std::optional<BodyValue> outer = std::exchange(returned, std::nullopt);
  runAll(lambda.body);
  BodyValue out = returned ? *returned : BodyValue();
  returned = std::move(outer);
  --calls;
  return out;
}

/// Loads and stores of both languages.
std::optional<BodyValue> KernelRunner::callMemory(StringRef name,
                                                  const BodyExpr &expr) {
  ArrayRef<const BodyExpr *> items = expr.items;
  if (name == "load" && !items.empty()) {
    BodyValue pointer = evaluatePlace(*items[0]);
    if (pointer.kind != BodyValue::Pointer)
      return pointer;
    // What the mask leaves out is `other`.
    if (items.size() > 1 && expr.keywords.size() + 2 <= items.size()) {
      BodyValue mask = evaluate(*items[1]);
      if (mask.value.known && !mask.value.isData && mask.value.number == 0) {
        BodyValue other = loadFrom(pointer);
        other.value = AbstractValue::constant(0);
        for (auto [key, item] :
             zip(expr.keywords, items.take_back(expr.keywords.size())))
          if (key == "other")
            other.value = evaluate(*item).value;
        return other;
      }
    }
    return loadFrom(pointer);
  }
  bool isAtomic = name.starts_with("atomic_");
  if ((name == "store" || isAtomic) && items.size() >= 2) {
    BodyValue pointer = evaluatePlace(*items[0]);
    BodyValue value = evaluate(*items[1]);
    if (isAtomic) {
      BodyValue before;
      if (pointer.kind == BodyValue::Pointer) {
        before = loadBefore(pointer);
        read.set(pointer.parameter);
      }
      value = combine(AbstractValue::unknown(), {pointer, before, value});
      pointer.value = AbstractValue::unknown();
    }
    if (pointer.kind == BodyValue::Pointer)
      store(pointer, value);
    return BodyValue();
  }
  // transpose_mxn(from, step, to, step)
  if (name == "transpose_mxn" && items.size() >= 3) {
    BodyValue value = readPlain(evaluate(*items[0]));
    BodyValue pointer = evaluate(*items[2]);
    if (pointer.kind == BodyValue::Pointer)
      store(pointer, value);
    else if (StringRef local = baseName(*items[2]); !local.empty())
      variables[local].value = value;
    return BodyValue();
  }
  return std::nullopt;
}

/// Reductions, where the language has functions for them.
std::optional<BodyValue> KernelRunner::callReduction(StringRef name,
                                                     ArrayRef<BodyValue> args) {
  auto makeParts = [&](ArrayRef<AbstractValue> values) {
    BodyValue out;
    out.kind = BodyValue::Parts;
    for (AbstractValue value : values)
      out.parts.push_back(combine(value, args));
    return out;
  };
  if (args.empty())
    return std::nullopt;
  StringRef reduction = StringSwitch<StringRef>(name)
                            .Case("sum", "sum")
                            .Case("max2", "amax")
                            .Case("min2", "amin")
                            .Case("prod", "prod")
                            .Case("any", "any")
                            .Default("");
  if (!reduction.empty() && body.language == KernelBody::Triton)
    return combine(applyReduction(reduction, args[0].value, reducedCount()),
                   args);
  // The loop's step keeps the element; the call behind it reduces.
  if (name == "welford_reduce")
    return makeParts({args[0].value, args[0].value, args[0].value});
  if (name == "welford") {
    auto [mean, squares] = applyWelford(args[0].value, reducedCount());
    return makeParts({mean, squares, AbstractValue::constant(reducedCount())});
  }
  bool isMaximum = name.starts_with("max");
  if ((name == "maximum_with_index" || name == "minimum_with_index") &&
      args.size() >= 3)
    return makeParts({args[2].value, args[2].value});
  if (name == "max_with_index" || name == "min_with_index")
    return makeParts({applyReduction(isMaximum ? "amax" : "amin", args[0].value,
                                     reducedCount()),
                      applyReduction(isMaximum ? "argmax" : "argmin",
                                     args[0].value, reducedCount())});
  if (name == "online_softmax_combine" && args.size() >= 3)
    return makeParts({args[2].value, args[2].value});
  if (name == "online_softmax_reduce") {
    auto [maximum, sum] = applySoftmax(args[0].value, reducedCount());
    return makeParts({maximum, sum});
  }
  if (name == "associative_scan") {
    BodyValue out = args[0];
    if (out.kind != BodyValue::Parts) {
      BodyValue list;
      list.kind = BodyValue::Parts;
      list.parts.push_back(std::move(out));
      return list;
    }
    return out;
  }
  return std::nullopt;
}

/// Which of so many turns is looked at.
double KernelRunner::turnOf(unsigned depth, double turns) const {
  if (!turn || turn->depth != depth || !(turns > 1))
    return 0;
  return std::max(1.0, std::floor(turn->share * (turns - 1)));
}

/// Which block along an axis, of one element each.
double KernelRunner::blockOf(const AbstractValue &axis) const {
  constexpr StringLiteral kCounts[] = {"xnumel", "ynumel", "znumel"};
  if (!axis.known || !(axis.number >= 0 && axis.number < 3))
    return 0;
  auto it = variables.find(kCounts[size_t(axis.number)]);
  bool isKnown = it != variables.end() && it->second.value.value.known;
  return isKnown ? turnOf(axis.number, it->second.value.value.number) : 0;
}

BodyValue KernelRunner::callFunction(StringRef name, ArrayRef<BodyValue> args) {
  auto value = [&](size_t i) { return args[i].value; };
  name = canonicalName(name);
  if (name == "zeros")
    return constant(0);
  if (name == "infinity")
    return constant(INFINITY);
  if (name == "program_id")
    return constant(args.empty() ? 0 : blockOf(value(0)));
  if (args.empty())
    return name == "Vectorized" ? constant(0) : BodyValue();
  if (name == "full" || name == "set" || name == "vec_reduce_all")
    return args.size() > 1 ? args[1] : BodyValue();
  if (name == "arange" && body.language == KernelBody::Triton)
    return constant(0);
  if (isIdentity(name)) {
    BodyValue plain = readPlain(args[0]);
    if (isWholeType(name))
      plain.value = toWhole(plain.value);
    return plain;
  }
  if (name == "blendv" && args.size() == 3)
    return select(args[2], args[1], args[0]);
  if (name == "where" && args.size() == 3)
    return select(args[0], args[1], args[2]);
  if ((name == "fmadd" || name == "fma") && args.size() == 3) {
    AbstractValue product = applyOperator("mul", {value(0), value(1)});
    return combine(applyOperator("add", {product, value(2)}), args);
  }
  if (name == "rand" || name == "randn")
    return combine(applyOperator(name, value(0)), args);
  if (name == "clamp" && args.size() == 3) {
    AbstractValue low = applyOperator("maximum", {value(0), value(1)});
    return combine(applyOperator("minimum", {low, value(2)}), args);
  }
  return apply(name, args);
}

BodyValue KernelRunner::evaluateCall(const BodyExpr &expr) {
  StringRef name = expr.text;
  if (name == "()" && !expr.items.empty())
    return callLambda(*expr.items[0]);
  if (name == "sizeof" && expr.items.size() == 1)
    return constant(sizeOfType(expr.items[0]->text));
  if (auto it = variables.find(name);
      it != variables.end() && it->second.value.lambda)
    return callLambda(*it->second.value.lambda);
  if (std::optional<BodyValue> done = callMemory(name, expr))
    return *done;
  SmallVector<BodyValue> args;
  for (const BodyExpr *item : expr.items)
    args.push_back(item->kind == BodyExpr::Lambda ? BodyValue()
                                                  : evaluate(*item));
  if (std::optional<BodyValue> done = callReduction(name, args))
    return *done;
  return callFunction(name, args);
}

BodyValue KernelRunner::evaluateMethod(const BodyExpr &expr) {
  StringRef name = expr.text;
  BodyValue base = evaluate(*expr.items[0]);
  if (name == "store" && expr.items.size() >= 2) {
    BodyValue pointer = evaluate(*expr.items[1]);
    if (pointer.kind == BodyValue::Pointer)
      store(pointer, base);
    else if (StringRef local = baseName(*expr.items[1]); !local.empty())
      variables[local].value = base;
    return {};
  }
  if (base.kind == BodyValue::Parts) {
    size_t part = StringSwitch<size_t>(name)
                      .Cases({"mean", "value"}, 0)
                      .Cases({"m2", "index"}, 1)
                      .Case("weight", 2)
                      .Default(base.parts.size());
    return part < base.parts.size() ? base.parts[part] : BodyValue();
  }
  // x.to(tl.int64)
  if (name == "to" && expr.items.size() > 1 &&
      expr.items[1]->kind == BodyExpr::Name)
    if (StringRef type = expr.items[1]->text; isWholeType(type))
      return callFunction(type, {base});
  SmallVector<BodyValue> args = {base};
  for (const BodyExpr *item : ArrayRef(expr.items).drop_front())
    args.push_back(evaluate(*item));
  return callFunction(name, args);
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

void KernelRunner::assign(const BodyExpr &target, BodyValue value,
                          bool declares) {
  if (target.kind == BodyExpr::Name) {
    Variable &variable = variables[target.text];
    variable.value = std::move(value);
    if (declares)
      variable.depth = loops.size();
    return;
  }
  if (target.kind != BodyExpr::Subscript)
    return;
  BodyValue base = evaluate(*target.items[0]);
  if (base.kind == BodyValue::Pointer && target.items.size() > 1) {
    BodyValue index = evaluatePlace(*target.items[1]);
    BodyValue pointer =
        combine(applyOperator("add", {base.value, index.value}), {base, index});
    pointer.kind = BodyValue::Pointer;
    pointer.parameter = base.parameter;
    store(pointer, std::move(value));
    return;
  }
  // An array of the kernel's own is one value.
  if (StringRef local = baseName(target); !local.empty()) {
    Variable &variable = variables[local];
    variable.value = std::move(value);
    if (declares)
      variable.depth = loops.size();
  }
}

/// The reduction that a step `acc = f(acc, value)` does.
static StringRef reductionOf(const BodyExpr &step) {
  if (step.kind == BodyExpr::Binary)
    return StringSwitch<StringRef>(step.text)
        .Case("+", "sum")
        .Case("*", "prod")
        .Cases({"|", "||"}, "any")
        .Cases({"&", "&&"}, "all")
        .Default("");
  return StringSwitch<StringRef>(step.text)
      .Cases({"sum_masked_reduce", "cascade_sum_combine"}, "sum")
      .Cases({"max_masked_reduce", "max_propagate_nan", "maximum", "max"},
             "amax")
      .Cases({"min_masked_reduce", "min_propagate_nan", "minimum", "min"},
             "amin")
      .Case("prod_masked_reduce", "prod")
      .Case("any_masked_reduce", "any")
      .Case("welford_combine", "welford")
      .Cases({"argmax_combine", "argmax_combine_vec"}, "argmax")
      .Cases({"argmin_combine", "argmin_combine_vec"}, "argmin")
      .Default("");
}

/// `acc = f(acc, value)` in C++: every turn of the loops that were opened since
/// `acc` was made adds to it.
bool KernelRunner::accumulate(const BodyStmt &stmt, StringRef name) {
  const BodyExpr &step = *stmt.value;
  // acc = cascade_sum_combine(value, &helper): the helper holds the sum.
  bool isCascade = step.kind == BodyExpr::Call &&
                   step.text == "cascade_sum_combine" && step.items.size() == 2;
  bool isStep =
      (step.kind == BodyExpr::Binary || step.kind == BodyExpr::Call) &&
      step.items.size() >= 2 && (isCascade || baseName(*step.items[0]) == name);
  auto it = variables.find(name);
  StringRef reduction = isStep ? reductionOf(step) : StringRef();
  if (reduction.empty() || it == variables.end() ||
      body.language != KernelBody::Cpp)
    return false;
  double count = 1;
  bool isElsewhere = false;
  for (const Loop &loop :
       ArrayRef(loops).drop_front(std::min(it->second.depth, loops.size()))) {
    count *= loop.trips;
    isElsewhere |= loop.isElsewhere;
  }
  BodyValue before = it->second.value;
  BodyValue value = evaluate(*step.items[isCascade ? 0 : 1]);
  bool isFirst = !before.value.isData && before.kind == BodyValue::Plain;
  isFirst |= !before.value.known && before.loaded.none() &&
             before.kind == BodyValue::Plain;
  BodyValue result;
  if (reduction.starts_with("arg")) {
    // A first accumulator takes elements; what puts others into it, that may
    // hold as many, is not modelled.
    bool isElement = value.kind == BodyValue::Plain && isFirst;
    auto reduce = [&](StringRef by) {
      return combine(isElement ? applyReduction(by, value.value, count)
                               : AbstractValue::unknown(),
                     {before, value});
    };
    result.kind = BodyValue::Parts;
    result.parts = {reduce(reduction == "argmax" ? "amax" : "amin"),
                    reduce(reduction)};
  } else if (reduction == "welford") {
    bool isElement = value.kind == BodyValue::Plain &&
                     (value.value.known || value.loaded.any());
    if (isElement) {
      auto [mean, squares] = applyWelford(value.value, count);
      result.kind = BodyValue::Parts;
      result.parts = {combine(mean, value), combine(squares, value),
                      constant(count)};
    } else {
      // Another accumulator, of which one is empty.
      result = before.kind == BodyValue::Parts ? before : value;
    }
  } else {
    result =
        combine(applyReduction(reduction, value.value, count), {before, value});
    if (!isFirst) {
      bool isValue = value.value.known && value.value.isData;
      // A second accumulator that nothing was added to.
      if (!isValue && value.loaded.none())
        result = before;
      else
        result.value = AbstractValue::unknown();
    }
  }
  // A sum is of all elements, whichever one of them is looked at: scaled from
  // another than the first it would be taken for the sum of another value.
  if (isElsewhere)
    result = combine(AbstractValue::unknown(), {before, value});
  if (isCascade)
    if (StringRef helper = baseName(*step.items[1]); !helper.empty())
      variables[helper].value = result;
  assign(*stmt.targets[0], std::move(result), false);
  return true;
}

void KernelRunner::runAssign(const BodyStmt &stmt) {
  if (stmt.targets.empty())
    return;
  if (stmt.targets.size() == 1 && stmt.op.empty() && !stmt.declares)
    if (StringRef name = baseName(*stmt.targets[0]); !name.empty())
      if (accumulate(stmt, name))
        return;
  BodyValue value = evaluate(*stmt.value);
  if (!stmt.op.empty()) {
    BodyValue before = evaluate(*stmt.targets[0]);
    value = combine(AbstractValue::unknown(), {before, value});
  }
  if (stmt.targets.size() == 1) {
    if (value.kind == BodyValue::Parts && value.parts.size() == 1)
      value = BodyValue(value.parts.front());
    assign(*stmt.targets[0], std::move(value), stmt.declares);
    return;
  }
  for (auto [i, target] : enumerate(stmt.targets))
    assign(*target,
           i < value.parts.size() ? value.parts[i]
                                  : combine(AbstractValue::unknown(), value),
           stmt.declares);
}

void KernelRunner::runFor(const BodyStmt &stmt) {
  StringRef name = stmt.targets[0]->text;
  BodyValue start = evaluate(*stmt.value), bound = evaluate(*stmt.bound);
  double trips = NAN;
  if (start.value.known && bound.value.known)
    trips = bound.value.number - start.value.number;
  if (body.language == KernelBody::Cpp && trips <= 0)
    return;
  // Threads share the elements that the loop round them counts, and so do a
  // tile's: x0_inner goes over those of one step of x0.
  StringRef outer = name;
  bool isTile =
      outer.consume_back("_inner") &&
      any_of(loops, [&](const Loop &loop) { return loop.variable == outer; });
  bool counts = name != "tid" && !isTile && body.language == KernelBody::Cpp;
  if (!counts)
    trips = 1;
  double turn = turnOf(counting, trips);
  start.value.number += turn;
  variables[name].value = start;
  loops.push_back({name, trips, turn != 0});
  counting += counts;
  runAll(stmt.body);
  counting -= counts;
  loops.pop_back();
}

void KernelRunner::runIf(const BodyStmt &stmt) {
  BodyValue test = evaluate(*stmt.value);
  bool isKnown = test.value.known && !test.value.isData;
  if (!isKnown || test.value.number != 0)
    runAll(stmt.body);
  if (!isKnown || test.value.number == 0)
    runAll(stmt.orelse);
}

void KernelRunner::runStatement(const BodyStmt &stmt) {
  switch (stmt.kind) {
  case BodyStmt::Assign:
    return runAssign(stmt);
  case BodyStmt::Eval:
    if (stmt.value)
      evaluate(*stmt.value);
    return;
  case BodyStmt::For:
    return runFor(stmt);
  case BodyStmt::If:
    return runIf(stmt);
  case BodyStmt::Block:
    return runAll(stmt.body);
  case BodyStmt::Return:
    returned = evaluate(*stmt.value);
    return;
  }
}

void KernelRunner::runAll(ArrayRef<const BodyStmt *> statements) {
  for (const BodyStmt *stmt : statements) {
    if (++steps > kMaxSteps || returned)
      return;
    runStatement(*stmt);
  }
}

KernelResult KernelRunner::run() {
  read.resize(arguments.size());
  for (auto [i, name] : enumerate(body.parameters)) {
    if (i >= arguments.size())
      break;
    BodyValue value;
    if (arguments[i].storage >= 0) {
      value.kind = BodyValue::Pointer;
      value.parameter = i;
      value.value = AbstractValue::constant(0);
    } else if (arguments[i].number) {
      value.value = AbstractValue::constant(*arguments[i].number);
    } else {
      // Sizes of blocks have numbers of their own.
      continue;
    }
    variables[name].value = value;
  }
  runAll(body.statements);
  // A kernel that is only read in part proves nothing.
  if (steps > kMaxSteps)
    return {};
  return {std::move(stores), std::move(overwritten),
          std::move(read),   std::move(readBack),
          readsByData,       std::move(divided),
          std::move(storing)};
}

KernelResult opprof::inductor::runKernel(const KernelBody &body,
                                         ArrayRef<KernelArgument> arguments,
                                         KernelMemory &memory,
                                         std::optional<KernelTurn> turn) {
  return KernelRunner(body, arguments, memory, turn).run();
}
