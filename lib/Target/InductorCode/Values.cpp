// What the expressions of a wrapper stand for. Buffers with their shapes, lists
// of them, and scalars.

#include "Interpreter.h"

#include <algorithm>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

std::vector<Dim> Interpreter::dims(const Expr *expr, const Frame &frame) {
  std::vector<Dim> out;
  if (!expr)
    return out;
  ArrayRef<const Expr *> items =
      expr->kind == Expr::Tuple || expr->kind == Expr::List
          ? expr->items
          : ArrayRef<const Expr *>(expr);
  for (const Expr *item : items) {
    Dim &dim = out.emplace_back();
    if (std::optional<int64_t> value = item->intValue())
      dim.value = value;
    else
      dim.symbol = item->source.str();
  }
  return out;
}

Value Interpreter::newTensor(TensorInfo info) {
  Value value;
  value.kind = Value::Tensor;
  value.storage = program.storages.size();
  value.info = info;
  Storage &storage = program.storages.emplace_back();
  storage.info = std::move(info);
  return value;
}

/// assert_size_stride(buf2, (64, 256), (256, 1), …) tells a result's layout;
/// since PyTorch 2.14 its dtype may be told too, by another name, and several
/// inputs may be told of at once.
void Interpreter::noteShapes(const Expr &call, StringRef name, Frame &frame) {
  SmallVector<const Expr *> args = call.positional();
  if (args.size() < 3)
    return;
  if (name == "assert_size_stride" || name == "assert_tensor_metadata") {
    noteShape(*args[0], args[1], args[2], frame);
  } else if (name == "assert_size_stride_grouped") {
    size_t told = std::min(
        {args[0]->items.size(), args[1]->items.size(), args[2]->items.size()});
    for (size_t i = 0; i < told; ++i)
      noteShape(*args[0]->items[i], args[1]->items[i], args[2]->items[i],
                frame);
  }
}

void Interpreter::noteShape(const Expr &tensor, const Expr *shape,
                            const Expr *stride, Frame &frame) {
  if (tensor.kind != Expr::Name)
    return;
  auto it = frame.values.find(tensor.text);
  if (it == frame.values.end() || it->second.kind != Value::Tensor)
    return;
  Value &value = it->second;
  value.info.shape = dims(shape, frame);
  value.info.stride = dims(stride, frame);
  value.info.shapeKnown = true;
  if (value.storage >= 0) {
    Storage &storage = program.storages[value.storage];
    if (!storage.info.shapeKnown) {
      storage.info.shape = value.info.shape;
      storage.info.stride = value.info.stride;
      storage.info.shapeKnown = true;
    }
  }
}

Value Interpreter::evaluateName(const Expr &expr, Frame &frame) {
  auto it = frame.values.find(expr.text);
  if (it != frame.values.end()) {
    spend(it->second.weight);
    return it->second;
  }
  Value value;
  value.name = expr.text.str();
  // Constants of the module (frozen weights) are tensors of unknown layout.
  if (expr.text.starts_with("_tensor_constant") ||
      expr.text.starts_with("_frozen_param") ||
      expr.text.starts_with("constant")) {
    value.kind = Value::Tensor;
    value.storage = program.storages.size();
    Storage &storage = program.storages.emplace_back();
    storage.name = value.name;
    storage.isInput = true;
    frame.values[expr.text] = value;
  }
  return value;
}

Value Interpreter::evaluateList(const Expr &expr, Frame &frame, bool &known) {
  Value value;
  value.kind = Value::List;
  for (const Expr *item : expr.items) {
    value.items.push_back(evaluate(*item, frame, known));
    value.weight += value.items.back().weight;
    if (value.weight > kMaxListWeight) {
      known = false;
      return {};
    }
  }
  return value;
}

Value Interpreter::evaluateSubscript(const Expr &expr, Frame &frame,
                                     bool &known) {
  Value base = evaluate(*expr.items[0], frame, known);
  std::optional<int64_t> at = expr.items[1]->intValue();
  if (base.kind == Value::List) {
    if (at && *at >= 0 && static_cast<size_t>(*at) < base.items.size())
      return base.items[*at];
    return {};
  }
  if (base.kind != Value::Tensor || !at)
    return {};
  // A member of a library's results.
  Value value;
  value.kind = Value::Tensor;
  value.producer = base.producer;
  if (*at >= 0 && *at <= UINT16_MAX)
    value.member = *at;
  value.info.device = base.info.device;
  return value;
}

Value Interpreter::evaluateBinary(const Expr &expr, Frame &frame, bool &known) {
  Value value;
  // [None] * 2: the slots of a subgraph's results.
  if (expr.text == "*" && expr.items[0]->kind == Expr::List) {
    value.kind = Value::List;
    if (std::optional<int64_t> count = expr.items[1]->intValue();
        count && *count >= 0 && *count <= 65536)
      value.items.resize(*count);
    value.weight += value.items.size();
    return value;
  }
  for (const Expr *item : expr.items)
    evaluate(*item, frame, known);
  value.kind = Value::Scalar;
  return value;
}

Value Interpreter::evaluate(const Expr &expr, Frame &frame, bool &known) {
  switch (expr.kind) {
  case Expr::Name:
    return evaluateName(expr, frame);
  case Expr::Number:
  case Expr::String: {
    Value value;
    value.kind = Value::Scalar;
    return value;
  }
  case Expr::Tuple:
  case Expr::List:
    return evaluateList(expr, frame, known);
  case Expr::Subscript:
    return evaluateSubscript(expr, frame, known);
  case Expr::Call:
    return evaluateCall(expr, frame, known);
  case Expr::Binary:
    return evaluateBinary(expr, frame, known);
  case Expr::Unary:
  case Expr::IfElse:
  case Expr::Dict:
  case Expr::Set:
  case Expr::Slice: {
    for (const Expr *item : expr.items)
      if (item)
        evaluate(*item, frame, known);
    return {};
  }
  case Expr::Attribute:
  case Expr::Star:
    return {};
  case Expr::Text:
    known = false;
    return {};
  }
  llvm_unreachable("every kind of expression is handled");
}

/// Gives a value its name; a launch's result becomes a buffer of its own.
void Interpreter::nameTensor(Value &value, StringRef name) {
  value.name = name.str();
  if (value.kind != Value::Tensor)
    return;
  bool isResult = value.producer >= 0;
  if (value.storage < 0) {
    value.storage = program.storages.size();
    program.storages.emplace_back().info = value.info;
  } else if (!program.storages[value.storage].name.empty()) {
    isResult = false;
  }
  if (isResult) {
    // Members stand for the tuple that they are taken from.
    if (value.member)
      llvm::erase_if(program.launches[value.producer].operands,
                     [&](const LaunchOperand &other) {
                       return other.role == KernelParameter::Output &&
                              !other.member && other.isResult;
                     });
    LaunchOperand &operand =
        program.launches[value.producer].operands.emplace_back();
    operand.name = value.name;
    operand.storage = value.storage;
    operand.offset = value.offset;
    operand.info = value.info;
    operand.role = KernelParameter::Output;
    operand.member = value.member;
    operand.isResult = true;
  }
  Storage &storage = program.storages[value.storage];
  if (storage.name.empty())
    storage.name = value.name;
}

bool Interpreter::assign(const Expr &target, Value value, Frame &frame) {
  switch (target.kind) {
  case Expr::Name: {
    nameTensor(value, target.text);
    frame.values[target.text] = std::move(value);
    return true;
  }
  case Expr::Tuple:
  case Expr::List: {
    bool known = true;
    if (value.kind == Value::List) {
      for (auto [i, item] : enumerate(target.items))
        known &= assign(
            *item, i < value.items.size() ? value.items[i] : Value(), frame);
      return known;
    }
    for (auto [i, item] : enumerate(target.items)) {
      Value member;
      if (value.kind == Value::Tensor) {
        member.kind = Value::Tensor;
        member.producer = value.producer;
        member.member = i;
      }
      known &= assign(*item, std::move(member), frame);
    }
    return known;
  }
  case Expr::Subscript: {
    if (target.items[0]->kind != Expr::Name)
      return false;
    auto it = frame.values.find(target.items[0]->text);
    std::optional<int64_t> at = target.items[1]->intValue();
    if (it == frame.values.end() || it->second.kind != Value::List || !at ||
        *at < 0 || static_cast<size_t>(*at) >= it->second.items.size())
      return false;
    it->second.weight += value.weight;
    if (it->second.weight > kMaxListWeight)
      return false;
    if (value.kind == Value::Tensor && value.name.empty())
      nameTensor(value, target.source);
    it->second.items[*at] = std::move(value);
    return true;
  }
  case Expr::Attribute:
    return true;
  default:
    return false;
  }
}
