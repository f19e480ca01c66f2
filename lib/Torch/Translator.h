// An inlined graph as graph JSON: what is known before the graph runs is worked
// out, operators get the form that torch.export's graphs have, and attributes
// become inputs with their qualified names.

#ifndef OPPROF_LIB_TORCH_TRANSLATOR_H
#define OPPROF_LIB_TORCH_TRANSLATOR_H

#include "GraphWriter.h"
#include "ModuleGraph.h"
#include "Runner.h"
#include "Variation.h"

#include <map>
#include <memory>
#include <optional>
#include <set>

namespace opprof::torchscript {

/// What stands for a value of the TorchScript graph.
struct Binding {
  enum Form { Node, Known, List, Tuple, Dict, Module };
  Form form = Node;
  /// The node or input that gives it; may be there for a known tensor too.
  std::string node;
  /// Of a Known value: a number, text, None, dtype or device, a list or tuple
  /// of these, or a tensor of one number that depends on no data.
  c10::IValue known;
  /// Of a list or tuple, or a dictionary's keys and values in turn.
  std::vector<std::shared_ptr<const Binding>> elements;
  /// Of an attribute of the module that is an object.
  std::string path;
};
using BindingRef = std::shared_ptr<const Binding>;

/// Of a list or tuple that is known, no more elements stand in one argument.
inline constexpr size_t kMaxKnownElements = 4096;
/// True for a number, text, device or None, or a list or tuple of numbers, in a
/// tensor or not.
bool isNumber(const c10::IValue &value);

class Translator {
public:
  /// `runner` is null where the graph was not run. `given` says which inputs
  /// stay inputs; the others have the values in `fixed`.
  Translator(const ModuleGraph &graph, Runner *runner, GraphFile &file,
             std::string archiveName);

  /// Names for tensors that freezing made constants: `name` by data.
  void nameConstants(const torch::jit::Module &original);

  /// Devices that are taken of tensors are so where the graph runs, too.
  void followDevices() { followsDevices = true; }

  /// Says in the file which of the weights are parts of one memory, where the
  /// graph writes to one of them.
  void keepSharedMemory();

  /// Inputs with a value in `fixed` are known, the others are the graph's.
  BlockRecord translate(const std::vector<std::optional<c10::IValue>> &fixed,
                        const std::vector<ArgumentForm> &forms);

  bool returnsOneValue() const { return hasOneOutput; }
  /// Tensors by qualified name, as the graph takes them.
  const std::vector<std::pair<std::string, at::Tensor>> &getWeights() const {
    return weights;
  }

private:
  /// An argument as JSON, and the names that it holds.
  struct Argument {
    std::string text;
    std::vector<std::string> uses;
  };
  using Expected = const c10::Type *;

  // Values.
  BindingRef get(const torch::jit::Value *value);
  void bind(const torch::jit::Value *value, BindingRef binding) {
    bindings[value] = std::move(binding);
  }
  BindingRef makeNode(std::string name);
  BindingRef makeKnown(c10::IValue value);
  BindingRef makeKnown(c10::IValue value, std::string node);
  std::optional<std::vector<BindingRef>> getElements(const Binding &binding);
  std::optional<c10::IValue> getKnown(const Binding &binding) const;
  std::optional<c10::IValue> getKnownNumbers(const torch::jit::Value *value);
  std::optional<int64_t> getKnownInt(const torch::jit::Value *value);
  ValueType getType(const torch::jit::Value *value) const;
  bool isNeverWritten(const torch::jit::Value *value) const {
    return !graph.getMutations().isChanged(value);
  }
  const ValueType *lookUpFixedType(const torch::jit::Value *value) const;
  Argument getArgument(const BindingRef &binding, Expected expected = nullptr);
  void appendArgument(const BindingRef &binding, Expected expected,
                      Argument &argument);
  std::string getConstant(const c10::IValue &value, Expected expected) const;

  // Attributes and constants.
  std::string addWeight(const std::string &path, const char *kind,
                        const c10::IValue &value, bool persistent = true);
  BindingRef bindAttribute(const c10::IValue &value, const std::string &path,
                           const char *kind, bool persistent);
  std::string getState(const c10::IValue &value, const std::string &path,
                       unsigned depth);
  std::string getTensorHome(const c10::IValue &value, const std::string &path,
                            std::string_view kind);
  void keepState(const std::string &path, const c10::IValue &value);
  void translateGetAttr(torch::jit::Node *node);
  void translateSetAttr(torch::jit::Node *node);
  void translateConstant(torch::jit::Node *node);

  // Lists and dictionaries.
  void bindContainer(torch::jit::Node *node, Binding::Form form,
                     std::vector<BindingRef> elements);
  std::optional<std::vector<BindingRef>>
  getContents(const torch::jit::Value *value);
  std::optional<size_t> findEntry(const std::vector<BindingRef> &entries,
                                  const torch::jit::Value *key);
  void stopFollowing(const BindingRef &root);
  void stopFollowingWithin(torch::jit::Block *block);
  void stopFollowingInputs(torch::jit::Node *node);
  bool translateContainerStep(torch::jit::Node *node);
  bool translateListStep(torch::jit::Node *node, const std::string &name);
  bool translateDictStep(torch::jit::Node *node, const std::string &name);

  // Nodes.
  std::string makeName(const std::string &wanted);
  NodeRecord makeRecord(torch::jit::Node *node, const std::string &target,
                        const std::string &baseName = "");
  void addArgument(NodeRecord &record, const BindingRef &binding,
                   Expected expected = nullptr);
  void addKeyword(NodeRecord &record, const std::string &name,
                  const BindingRef &binding, Expected expected = nullptr);
  void addText(NodeRecord &record, std::string text) {
    record.args.push_back(std::move(text));
  }
  void emit(torch::jit::Node *node, NodeRecord record);
  std::string emitGetItem(torch::jit::Node *node, const std::string &base,
                          size_t index, int type);
  int addStack(const torch::jit::Node *node);
  int addModules(const torch::jit::Node *node);

  void translateBlock(torch::jit::Block *block);
  void translateNode(torch::jit::Node *node);
  bool translatePrimitive(torch::jit::Node *node);
  bool translateConstruction(torch::jit::Node *node);
  bool translateUnpacking(torch::jit::Node *node);
  bool translateKnown(torch::jit::Node *node);
  bool translateMetadata(torch::jit::Node *node);
  bool translateFlag(torch::jit::Node *node, const std::string &name);
  bool translateTypeNumber(torch::jit::Node *node, const std::string &name);
  bool translateEnum(torch::jit::Node *node, const std::string &name);
  bool translateFormat(torch::jit::Node *node);
  bool translateIsInstance(torch::jit::Node *node);
  std::optional<bool> isNone(const torch::jit::Value *value);
  bool isMadeByNode(const torch::jit::Value *value);
  bool isGiven(const torch::jit::Value *value) const;
  const torch::jit::Value *getOrigin(const torch::jit::Value *value);
  bool areApart(const torch::jit::Value *first,
                const torch::jit::Value *second);
  bool translateIs(torch::jit::Node *node, bool asksIs);
  bool translateToPython(torch::jit::Node *node);
  bool translateListChange(torch::jit::Node *node, const std::string &name);
  bool translateDictChange(torch::jit::Node *node, const std::string &name);
  bool translateTensorOfList(torch::jit::Node *node);
  bool translateNumToTensor(torch::jit::Node *node);
  bool translateScalars(torch::jit::Node *node, const std::string &name);
  bool translateConvolution(torch::jit::Node *node);
  bool translateWholeSlice(torch::jit::Node *node);
  void giveBackDropoutOperand(torch::jit::Node *node);
  void translateOperator(torch::jit::Node *node);
  void translateOther(torch::jit::Node *node);
  void translateIf(torch::jit::Node *node);
  void translateLoop(torch::jit::Node *node);
  bool unrollLoop(torch::jit::Node *node);
  BlockRecord translateInner(torch::jit::Block *block);
  void addOutput(BlockRecord &block, const BindingRef &binding);
  void emitPython(torch::jit::Node *node, const std::string &target,
                  const std::vector<BindingRef> &args, bool acts = false);

  const ModuleGraph &graph;
  Runner *runner;
  /// There where the graph was run.
  std::optional<Variation> variation;
  GraphFile &file;
  std::string archiveName;
  /// An enumerator stands as the tuple of its name and its value, where none
  /// comes from outside or goes there.
  bool writesEnums = true;
  bool followsDevices = false;
  /// An object that the graph makes stands as the dictionary of its attributes,
  /// on the same condition.
  bool writesObjects = true;
  bool exchangesObjects(torch::jit::Block *block) const;
  bool isOwnObject(const torch::jit::Value *value) const;
  bool hasOneOutput = true;
  bool changesMetadata = false;

  std::unordered_map<const torch::jit::Value *, BindingRef> bindings;
  /// A list or dictionary that the graph changes, of which it is known what it
  /// holds now; every name of it has the one binding.
  struct Followed {
    std::shared_ptr<Binding> binding;
    torch::jit::Node *maker;
  };
  std::unordered_map<const Binding *, Followed> followed;
  size_t numUnrolled = 0;
  std::vector<NodeRecord> *nodes = nullptr;
  std::set<std::string> names;
  std::unordered_map<std::string, unsigned> nextNumber;
  std::unordered_map<std::string, int> typeOfName;
  /// The value that a node or input of the graph was written for, by its name.
  std::unordered_map<std::string, const torch::jit::Value *> makers;

  // Inputs of the graph that are no user's, by kind, and each by its path.
  std::vector<InputRecord> parameters, buffers, constants;
  std::unordered_map<std::string, std::string> weightNames;
  std::vector<std::pair<std::string, at::Tensor>> weights;
  /// Where a tensor's elements are, which is the same of two that are one.
  using Place = std::tuple<const void *, c10::ScalarType, std::vector<int64_t>,
                           std::vector<int64_t>>;
  static Place getPlace(const at::Tensor &tensor);
  bool mayBeWritten(const std::string &path) const;
  struct Registered {
    std::string path;
    const char *kind;
    bool requiresGrad;
  };
  const Registered *lookUpRegistered(const at::Tensor &tensor);
  /// The module's parameters and buffers; made when it is first asked for.
  std::optional<std::map<Place, Registered>> registered;
  std::map<Place, std::string> constantPaths, tensorHomes;
  /// Paths of constants that the graph writes to.
  std::set<std::string> writtenConstants;
  unsigned numConstants = 0;
  std::unordered_map<const void *, int> stackIndices;
};

} // namespace opprof::torchscript

#endif // OPPROF_LIB_TORCH_TRANSLATOR_H
