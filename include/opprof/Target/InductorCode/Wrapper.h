// Inductor's generated wrapper, interpreted. What output_code.py says by
// itself: kernel definitions with their comments, and every launch in call
// order with the buffers it takes. Functions are followed where they are
// called; nothing is executed.

#ifndef OPPROF_TARGET_INDUCTORCODE_WRAPPER_H
#define OPPROF_TARGET_INDUCTORCODE_WRAPPER_H

#include "opprof/Launch/LaunchMap.h"
#include "opprof/Target/InductorCode/GraphView.h"

#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace opprof::inductor {

class KernelBody;

/// A line of a "Graph fragment" comment.
struct FragmentNode {
  std::string name;
  /// "aten.relu.default"; empty for a placeholder.
  std::string target;
  std::optional<TensorInfo> type;
  /// Names of the nodes among the arguments, in order.
  std::vector<std::string> operands;
  bool isPlaceholder = false;
};

struct KernelParameter {
  enum Role : uint8_t { Scalar, Input, Output, InOut };
  std::string name;
  Role role = Scalar;
  /// Written in part, or added to: what it held before is in it afterwards.
  bool isMutated = false;
};

/// A kernel as the wrapper defines it.
struct KernelDefinition {
  std::string name;
  std::string hash;
  uint32_t line = 0;
  launch::LaunchKind kind = launch::LaunchKind::Triton;
  launch::LaunchCategory category = launch::LaunchCategory::Pointwise;
  std::vector<KernelParameter> parameters;
  /// Parameter roles are known (a signature was read).
  bool hasSignature = false;
  /// The roles say exactly what is read and what is written.
  bool rolesCertain = true;
  std::vector<std::string> sourceNodes;
  std::vector<std::string> originalAten;
  /// "Source node to ATen node mapping".
  std::vector<std::pair<std::string, std::vector<std::string>>> sourceToAten;
  std::vector<FragmentNode> fragment;
  /// Names after `return` in the fragment: what the kernel stores.
  std::vector<std::string> fragmentReturns;
  /// Of a multi_kernel: the kernels that it chooses from.
  std::vector<std::string> alternatives;
  /// Its source, while the file is read.
  llvm::StringRef source;
  /// What it does; null where it is never launched or can't be read.
  std::shared_ptr<const KernelBody> body;
};

/// A tensor's memory. Aliases and reinterpreted buffers share one.
struct Storage {
  /// The name it was made under: a graph input, or the first buffer.
  std::string name;
  TensorInfo info;
  bool isInput = false;
  /// A launch writes it under its own name: of an input, the caller sees that.
  bool isMutated = false;
};

/// One tensor handed to a launch, as it is seen there.
struct LaunchOperand {
  std::string name;
  int32_t storage = -1;
  /// Elements from the start of the storage; absent where that is no number.
  std::optional<int64_t> offset = 0;
  TensorInfo info;
  KernelParameter::Role role = KernelParameter::Input;
  /// Position among the call's arguments.
  uint32_t parameter = 0;
  /// Of a library call with several results: which of them.
  std::optional<uint32_t> member;
  /// It was returned by the call, not passed to it.
  bool isResult = false;
};

/// A launch, before it is joined to nodes.
struct WrapperLaunch {
  uint32_t line = 0;
  std::string function;
  /// Call sites of the enclosing functions, outermost first.
  std::vector<uint32_t> callLines;
  std::string kernel;
  /// Index into kernels, or -1.
  int32_t definition = -1;
  /// It is the first launch of its definition, which the comments there
  /// describe.
  bool firstUse = false;
  launch::LaunchKind kind = launch::LaunchKind::Extern;
  launch::LaunchCategory category = launch::LaunchCategory::Extern;
  std::optional<int64_t> debugHandle;
  bool conditional = false;
  bool inLoop = false;
  std::vector<std::string> sourceNodes;
  std::vector<std::string> originalAten;
  std::vector<LaunchOperand> operands;
  /// Numbers among a kernel's arguments, by position, as they are written.
  std::vector<std::pair<uint32_t, std::string>> scalars;
  /// A keyword argument is_causal that is true.
  bool isCausal = false;
};

struct WrapperProgram {
  std::string fileName;
  std::string aotId;
  std::vector<KernelDefinition> kernels;
  std::vector<Storage> storages;
  std::vector<WrapperLaunch> launches;
  /// Graph inputs in order, and what get_args says of them.
  std::vector<std::string> inputs;
  /// Storages of what functions return and conditions ask for.
  std::vector<int32_t> returned;
  /// What sizes that are symbols were when the program was compiled, as its
  /// harness says: "s77" -> 8.
  std::map<std::string, int64_t> sizeHints;
  launch::StatementCounts statements;
  /// "line: source" of the statements kept as text, the first few.
  std::vector<std::string> keptText;
};

/// Reads the text of an output_code.py (or of a file in Inductor's cache).
/// A text without the functions that Inductor writes is an error.
llvm::Expected<WrapperProgram> readWrapper(llvm::StringRef source,
                                           llvm::StringRef fileName);

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_WRAPPER_H
