// An abstract walk over a wrapper. Names stand for buffers with shapes; calls
// of kernels and libraries become launches. Statements are walked in
// Wrapper.cpp, expressions in Values.cpp, calls in Calls.cpp.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_INTERPRETER_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_INTERPRETER_H

#include "opprof/Target/InductorCode/PythonParser.h"
#include "opprof/Target/InductorCode/Wrapper.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace opprof::inductor {

/// Following calls could multiply launches without end in a hostile file.
inline constexpr size_t kMaxLaunches = 4'000'000;
inline constexpr unsigned kMaxCallDepth = 32;
/// Operands of all launches together, for the same reason.
inline constexpr size_t kMaxOperands = 50'000'000;
/// Statements walked and values copied, and members of one list of lists.
inline constexpr uint64_t kMaxWork = 400'000'000;
/// A call counts for as many statements, as Inductor launches something in
/// each: a tree of calls that doubles at every level ends in seconds.
inline constexpr uint64_t kCallWork = 64;
inline constexpr uint32_t kMaxListWeight = 200'000;

/// What a name stands for.
struct Value {
  enum Kind : uint8_t { Unknown, Tensor, List, Scalar };
  Kind kind = Unknown;
  std::string name;
  int32_t storage = -1;
  /// Elements from the start of the storage.
  std::optional<int64_t> offset = 0;
  TensorInfo info;
  std::vector<Value> items;
  /// A list whose members become known by indexing: a library's results.
  int32_t producer = -1;
  std::optional<uint32_t> member;
  /// Values in it, itself included.
  uint32_t weight = 1;
};

struct PendingComments {
  std::vector<std::string> sourceNodes;
  std::vector<std::string> originalAten;
  /// (kernel name, handle).
  std::vector<std::pair<std::string, int64_t>> handles;
};

class Interpreter {
public:
  Interpreter(llvm::StringRef source, llvm::StringRef fileName)
      : source(source), fileName(fileName) {}

  llvm::Expected<WrapperProgram> run();

private:
  using Environment = llvm::StringMap<Value>;

  struct Frame {
    std::string function;
    Environment values;
    std::optional<Value> result;
    PendingComments pending;
    bool conditional = false;
    bool inLoop = false;
  };

  // Module level.
  void readModule();
  void readModuleStatement(const Stmt &stmt);
  void readHarnessInputs(const Stmt &function);
  void countBoilerplate(llvm::ArrayRef<const Stmt *> body);

  // Function level.
  void runFunction(const Stmt &function, Frame &frame);
  void runBlock(llvm::ArrayRef<const Stmt *> body, Frame &frame);
  /// Each gives false where the statement is not understood.
  bool runStatement(const Stmt &stmt, Frame &frame);
  bool runAssign(const Stmt &stmt, Frame &frame);
  bool runReturn(const Stmt &stmt, Frame &frame);
  bool runWith(const Stmt &stmt, Frame &frame);
  bool runIf(const Stmt &stmt, Frame &frame);
  bool runLoop(const Stmt &stmt, Frame &frame);
  void unpackArguments(const Stmt &stmt, Frame &frame);
  void readCallComments(const Stmt &stmt, Frame &frame);
  bool assign(const Expr &target, Value value, Frame &frame);
  void nameTensor(Value &value, llvm::StringRef name);
  /// Sets `known` to false where the expression is not understood.
  Value evaluate(const Expr &expr, Frame &frame, bool &known);
  Value evaluateName(const Expr &expr, Frame &frame);
  Value evaluateList(const Expr &expr, Frame &frame, bool &known);
  Value evaluateSubscript(const Expr &expr, Frame &frame, bool &known);
  Value evaluateBinary(const Expr &expr, Frame &frame, bool &known);
  Value evaluateCall(const Expr &expr, Frame &frame, bool &known);
  // Calls by what is called; none where it is something else.
  std::optional<Value> callDefined(const Expr &expr, Frame &frame, bool &known);
  std::optional<Value> callPartition(const Expr &expr, Frame &frame,
                                     bool &known);
  std::optional<Value> callAllocator(const Expr &expr, llvm::StringRef name,
                                     Frame &frame, bool &known);
  std::optional<Value> callOperator(const Expr &expr, llvm::StringRef name,
                                    Frame &frame, bool &known);
  std::optional<Value> callMethod(const Expr &expr, Frame &frame, bool &known);
  Value callUnknown(const Expr &expr, Frame &frame);
  Value copyTensor(const Expr &expr, Frame &frame);
  Value cloneTensor(const Expr &expr, Frame &frame);
  Value readScalar(const Expr &expr, Frame &frame);
  Value callFunction(const Stmt &function, const Expr &call, Frame &frame,
                     bool &known);
  std::vector<Dim> dims(const Expr *expr, const Frame &frame);
  Value newTensor(TensorInfo info);
  void noteShapes(const Expr &call, llvm::StringRef name, Frame &frame);
  void noteShape(const Expr &tensor, const Expr *shape, const Expr *stride,
                 Frame &frame);

  // Launches.
  WrapperLaunch *addLaunch(const Expr &call, llvm::StringRef kernel,
                           launch::LaunchKind kind,
                           launch::LaunchCategory category, Frame &frame);
  void addOperands(WrapperLaunch &launch, const Value &value,
                   KernelParameter::Role role);
  Value launchKernel(const Expr &call, size_t kernel, Frame &frame);
  void readBody(KernelDefinition &kernel);
  Value launchLibrary(const Expr &call, llvm::StringRef name,
                      launch::LaunchKind kind, launch::LaunchCategory category,
                      Frame &frame);
  std::string resolve(const Expr &callee) const;

  void keep(const Stmt &stmt);
  /// Notes that more than launches use a value.
  void keepAlive(const Value &value) {
    if (value.kind == Value::Tensor && value.storage >= 0)
      program.returned.push_back(value.storage);
    for (const Value &item : value.items)
      keepAlive(item);
  }
  void spend(uint64_t amount) {
    work += amount;
    exhausted |= work > kMaxWork;
  }

  llvm::StringRef source;
  llvm::StringRef fileName;
  SyntaxTree tree;
  WrapperProgram program;
  llvm::StringMap<uint32_t> kernelIndex;
  llvm::StringMap<const Stmt *> functions;
  llvm::StringMap<std::string> aliases;
  llvm::StringMap<TensorInfo> inputInfo;
  /// Inputs that are sizes.
  llvm::StringMap<int64_t> harnessSizes;
  /// Names of sizes computed from them, by what they stand for now.
  llvm::StringMap<int64_t> computedSizes;
  std::vector<std::string> partitions;
  llvm::StringSet<> used;
  const Stmt *entry = nullptr;
  llvm::DenseMap<const Stmt *, bool> understood;
  std::vector<uint32_t> callLines;
  llvm::SmallVector<const Stmt *, 8> active;
  size_t operandCount = 0;
  uint64_t work = 0;
  bool exhausted = false;
};

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_INTERPRETER_H
