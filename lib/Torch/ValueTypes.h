// What values of a TorchScript graph are: by their annotations, or by what they
// were in a run.

#ifndef OPPROF_LIB_TORCH_VALUETYPES_H
#define OPPROF_LIB_TORCH_VALUETYPES_H

#include "GraphWriter.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <optional>
#include <string>
#include <vector>

namespace opprof::torchscript {

struct ValueType {
  enum Kind { Unknown, Tensor, Tuple, List, Name, Object, Optional };
  Kind kind = Unknown;
  /// "int", "none" of a Name; the Python type of an Object.
  std::string name;
  /// Of a tuple or list; what an Optional is where it is not None.
  std::vector<ValueType> elements;
  // Of a tensor. A size that differs from run to run is -1.
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes, strides;
  bool knowsStrides = false, requiresGrad = false;
  int64_t storageOffset = 0;
  std::string device, layout;

  /// Keeps what holds of both.
  void merge(const ValueType &other);
  bool isNone() const { return kind == Name && name == "none"; }
  /// The type of what may be None as well.
  ValueType makeOptional() const;
  /// True for a tensor whose sizes are the same whenever the node runs.
  bool hasStaticSizes() const;
};

/// The place of an element by Python's index, which counts from the end below
/// zero; nothing beyond the ends.
std::optional<size_t> toPlace(int64_t index, size_t size);

ValueType describe(const c10::IValue &value);
ValueType describe(const c10::Type &type);

/// The type's index in the table, or -1 where it is unknown.
int addType(GraphFile &file, const ValueType &type);

/// "bfloat16"
const char *getDTypeName(c10::ScalarType type);

/// What the graph takes from an argument's types: sizes and dtypes of tensors,
/// and what is None, in lists, tuples and dictionaries too.
struct ArgumentForm {
  /// As JSON; empty where the argument's type says all of it.
  std::string text;
  /// Nothing is taken from it: lists of tensors that differ may hold others.
  bool isOpen = false;
};
/// `declared` is the type that the method asks for.
ArgumentForm describeForm(const c10::IValue &value, const c10::Type &declared);

/// The value that a text of the command line describes: "4x128xi64" is a
/// tensor, and 3, 0.5, true, none, 'text', [a,b], (a,b) and {key: a} are
/// themselves. Tensors of floating-point numbers hold random ones, others
/// zeros.
c10::IValue parseInput(const std::string &text, const c10::TypePtr &type);

} // namespace opprof::torchscript

#endif // OPPROF_LIB_TORCH_VALUETYPES_H
