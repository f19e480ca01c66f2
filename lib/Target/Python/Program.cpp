// A module of graphs as a Python program: one function a graph, and a class
// that holds the weights and is called like the model.

#include "Calls.h"
#include "Regions.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/GraphAttributes.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Target/Python/PythonEmitter.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir;
using namespace opprof::fx;

// What stands after the functions; it uses INPUTS, FORMS, PLACES, TRAINED,
// OUTPUTS, IN_SPEC, OUT_SPEC, ATTRIBUTES, STATE, SHARED and `_run`, which stand
// before it.
static constexpr llvm::StringLiteral kRuntime = R"py(

class Program:
    """The graph with its weights, called like the model that it was made from.

    `weights` maps qualified names to tensors, as a state_dict does (constants that the graph holds among them). They are
    used, and buffers are updated, in place.
    """

    def __init__(self, weights):
        needed = [target for kind, target in INPUTS if kind not in ("user_input", "token")]
        missing = sorted({name for name in [*needed, *ATTRIBUTES] if name not in weights and name not in STATE})
        if missing:
            objects = {target for kind, target in INPUTS if kind == "constant_object"}
            raise KeyError(
                f"the weights lack {len(missing)} of {len(needed) + len(ATTRIBUTES)}: {', '.join(missing[:5])}"
                + ("; objects are in no file: load(weights, module) takes them from the loaded module" if objects & {*missing} else "")
            )
        weights = _sharing(weights)
        if STATE:
            weights = {**{name: begin(weights) for name, begin in STATE.items() if name not in weights}, **weights}
        self.weights = _trained_alike(weights)
        # Parsed here, and not in a call, which torch.compile may be looking at.
        self.in_spec, self.out_spec = _spec(IN_SPEC), _spec(OUT_SPEC)
        names = None if IN_SPEC is None else json.loads(IN_SPEC)[1]["children_spec"][1]["context"]
        self.names = (json.loads(names) if isinstance(names, str) else names) or []

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, *args, **kwargs):
        values = iter(self._flatten(args, kwargs))
        inputs = []
        for position, (kind, target) in enumerate(INPUTS):
            if kind == "user_input":
                inputs.append(_of_its_form(next(values), *FORMS.get(position, ("", ANY))))
            elif kind == "token":
                inputs.append(torch.empty(0))
            else:
                inputs.append(self.weights[target])
        results = _run(inputs, self.weights)
        if OUTPUTS is None:
            return results if self.out_spec is None else pytree.tree_unflatten(list(results), self.out_spec)
        returned, gradients = [], []
        for (kind, target), value in zip(OUTPUTS, results, strict=True):
            if kind in ("buffer_mutation", "parameter_mutation"):
                with torch.no_grad():
                    self.weights[target].copy_(value)
            elif kind == "user_input_mutation":
                with torch.no_grad():
                    inputs[target].copy_(value)
            elif kind.startswith("gradient"):
                gradients.append(value)
            elif kind != "token":
                returned.append(value)
        count = None if self.out_spec is None else self.out_spec.num_leaves
        if count is None or count > len(returned):
            return (*returned, *gradients)
        # Behind the results of the model, gradients that PyTorch names or not.
        gradients = [*returned[count:], *gradients]
        result = pytree.tree_unflatten(returned[:count], self.out_spec)
        return (result, tuple(gradients)) if gradients else result

    def _flatten(self, args, kwargs):
        """The tensors, and other leaves, of a call, in the order of the graph's inputs."""
        if self.in_spec is None:
            count = sum(kind == "user_input" for kind, _ in INPUTS)
            if kwargs or len(args) != count:
                raise TypeError(f"the graph takes {count} positional arguments, in the order of its inputs")
            # Lists and dictionaries stay the caller's, as TorchScript leaves them, which works on copies.
            return [pytree.tree_map(lambda leaf: leaf, value) for value in args]
        kwargs = {name: kwargs[name] for name in [*self.names, *kwargs] if name in kwargs}
        values, given = pytree.tree_flatten((args, kwargs))
        if given != self.in_spec:
            raise TypeError(f"the program was exported for arguments of the structure {self.in_spec}, and got {given}")
        return values


def _of_its_form(value, name, form):
    """The argument, if it is of the form that the graph was made for: what followed from that is in the graph."""
    if form is ANY:
        return value
    if (value is None) != (form is None):
        raise ValueError(
            f"the graph was made for {name} that is {'None' if form is None else 'there'}, and got "
            f"{'None' if value is None else type(value).__name__}; make it of arguments like those that it is to get"
        )
    if form is None or form is GIVEN:
        return value
    kind, *content = form
    if kind == "tensor":
        if isinstance(value, torch.Tensor):
            _check_tensor(value, name, *content)
    elif kind == "dict":
        inner = dict(content[0])
        if not isinstance(value, dict) or value.keys() != inner.keys():
            raise ValueError(
                f"the graph was made for {name} with the keys {list(inner)}, and got "
                f"{list(value) if isinstance(value, dict) else type(value).__name__}; make it of arguments like those that it is to get"
            )
        for key, part in inner.items():
            _of_its_form(value[key], f"{name}[{key!r}]", part)
    else:
        if not isinstance(value, (list, tuple)) or len(value) != len(content[0]):
            raise ValueError(
                f"the graph was made for {name} with {len(content[0])} elements, and got "
                f"{len(value) if isinstance(value, (list, tuple)) else type(value).__name__}; make it of arguments like those that it "
                "is to get, or of none"
            )
        for place, part in enumerate(content[0]):
            _of_its_form(value[place], f"{name}[{place}]", part)
    return value


def _check_tensor(value, name, dtype, sizes):
    given = tuple(value.shape)
    if len(given) != len(sizes) or any(size not in (None, own) for size, own in zip(sizes, given)):
        known = "x".join("?" if size is None else str(size) for size in sizes) or "one number"
        raise ValueError(
            f"the graph was made for {name} of the size {known}, and got {'x'.join(map(str, given)) or 'one number'}; "
            "make it for that size, or for sizes that may change"
        )
    if value.dtype != dtype:
        raise ValueError(f"the graph was made for {name} of {dtype}, and got {value.dtype}; make it for that dtype")


def _trained_alike(weights):
    """The weights, and parameters that require a gradient exactly where they did in the graph: operators may look at that.

    They share their storage with those given, which are kept where they are alike already.
    """
    changed = {}
    for name, trained in TRAINED.items():
        value = weights.get(name)
        if isinstance(value, torch.Tensor) and value.requires_grad != trained:
            changed[name] = torch.nn.Parameter(value.detach(), requires_grad=trained)
    return {**weights, **changed} if changed else weights


def _sharing(weights):
    """The weights, with those that are parts of one memory in the model as views of one here too: the graph writes to one of them.

    Where one of those given has memory that holds them all, they are views of that.
    """
    changed = {}
    for group in SHARED:
        given = {name: weights[name] for name in group if isinstance(weights.get(name), torch.Tensor)}
        places = {(value.device, value.data_ptr() - group[name][0]) for name, value in given.items()}
        if len(places) < 2 and all(value.stride() == group[name][1] for name, value in given.items()):
            continue
        begin = min(group[name][0] for name in given) // 16 * 16
        end = max(
            group[name][0] + (1 + sum((size - 1) * stride for size, stride in zip(value.shape, group[name][1]))) * value.itemsize
            for name, value in given.items()
        )
        memory, start = None, 0
        for name, value in given.items():
            start = value.storage_offset() * value.itemsize - (group[name][0] - begin)
            if value.stride() == group[name][1] and 0 <= start and start + end - begin <= value.untyped_storage().nbytes():
                memory = value.untyped_storage()
                break
        is_new = memory is None
        if is_new:
            memory, start = torch.empty(end - begin, dtype=torch.uint8, device=value.device).untyped_storage(), 0
        views = {}
        for name, value in given.items():
            offset, strides = group[name]
            place = (start + offset - begin) // value.itemsize
            views[name] = torch.empty(0, dtype=value.dtype, device=memory.device).set_(memory, place, value.shape, strides)
            if is_new:
                views[name].copy_(value.detach())
        for name, value in given.items():
            if not torch.equal(_bytes(views[name]), _bytes(value.detach().to(memory.device))):
                raise ValueError(f"{', '.join(given)} are parts of one memory in the model, and {name} holds something else in the weights")
            is_parameter = isinstance(value, torch.nn.Parameter)
            changed[name] = torch.nn.Parameter(views[name], value.requires_grad) if is_parameter else views[name]
    return {**weights, **changed} if changed else weights


def _bytes(tensor):
    """What it holds as bytes, in which a NaN is itself."""
    return tensor.resolve_conj().contiguous().view(-1).view(torch.uint8)


def _spec(text):
    """How values are nested, or None where the graph does not say."""
    return None if text is None else _structure(*json.loads(text))


def _structure(protocol, node):
    children = [_structure(protocol, child) for child in node["children_spec"]]
    kind, context = node["type"], node["context"]
    if kind and kind.startswith("torch.return_types."):
        return pytree.TreeSpec(_loaded(kind, tuple), None, children)
    _import_nothing(kind, context)
    leaf = {"type": None, "context": None, "children_spec": []}
    try:
        own = pytree.treespec_loads(json.dumps([protocol, {**node, "children_spec": [leaf] * len(children)}]))
    except NotImplementedError as error:
        if kind != "collections.namedtuple":
            raise ImportError(f"{error} {_IMPORT}") from None
        return pytree.TreeSpec(collections.namedtuple, _loaded(context, tuple), children)
    return pytree.TreeSpec(own.type, own.context, children) if kind else own


# A file imports nothing that its graph names: PyTorch knows a library's class from its import on.
_IMPORT = "Import the module of this class before load()"


def _loaded(name, base):
    """A class, of a module that is imported already."""
    steps = str(name).split(".")
    for count in range(len(steps) - 1, 0, -1):
        module = sys.modules.get(".".join(steps[:count]))
        if module is not None:
            # A library may import a part of it that is asked for by name.
            found = functools.reduce(lambda of, step: getattr(of, "__dict__", {}).get(step), steps[count:], module)
            if isinstance(found, type) and issubclass(found, base):
                return found
            break
    raise ImportError(f"{name} is not known. {_IMPORT}")


def _import_nothing(kind, context):
    """PyTorch would import the module that a default of dictionaries or a member of an enumeration is said to be of."""
    if kind == "collections.defaultdict":
        module, name = (context.get(f"default_factory_{part}") for part in ("module", "name")) if isinstance(context, dict) else (None, None)
        if module != "builtins" or not isinstance(vars(builtins).get(name), type):
            raise ImportError(
                f"a dictionary has defaults of {module}.{name}, which a file does not choose: make the graph of a model whose dictionaries "
                "have defaults of a type of Python's own (list, int), or none"
            )
    try:
        values = [json.loads(context)]
    except (TypeError, ValueError):
        return
    while values:
        value = values.pop()
        if isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            values += value.values()
            if "__enum__" in value:
                _loaded(str(value.get("fqn")).replace(":", "."), enum.Enum)


def load(weights, module=None):
    """The program with weights from a mapping by qualified name, a .safetensors file, or a state_dict that torch.save wrote.

    Weights of a file go to the device, and get the strides, that they had in the graph. Objects that no file holds, such as packed
    quantized weights, are those of `module`, which torch.jit.load gave.
    """
    if module is not None:
        objects = [target for kind, target in INPUTS if kind == "constant_object"]
        return load({**_in_place(weights), **{name: _attribute(module, name) for name in objects if name not in STATE}})
    return Program(_in_place(weights))


def _attribute(module, name):
    steps = name.split(".")
    if any(step.startswith("__") for step in steps):
        raise KeyError(f"{name} is no attribute that a program may take")
    while steps:
        # Passes of TorchScript make attributes whose own names have dots.
        ends = [end for end in range(len(steps), 1, -1) if hasattr(module, ".".join(steps[:end]))]
        end = ends[0] if ends else 1
        module = getattr(module, ".".join(steps[:end]))
        steps = steps[end:]
    return module


def _in_place(weights):
    """Weights by name, on their devices and with their strides where they come from a file."""
    if not isinstance(weights, (str, os.PathLike)):
        return weights
    path = os.fspath(weights)
    if path.endswith(".safetensors"):
        loaded = _read_safetensors(path)
    else:
        loaded = dict(torch.load(path, weights_only=True, map_location="cpu"))
    for name, (device, strides) in PLACES.items():
        if name in loaded:
            value = loaded[name]
            if strides is not None:
                value = torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)
            loaded[name] = value.to(device)
    return loaded


def _read_safetensors(path):
    """The tensors of a file that holds the length of a JSON header, the header with each tensor's place, and their bytes."""
    dtypes = {
        "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16",
        "I8": "int8", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
        "C128": "complex128",
    }
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensor = torch.empty(entry["shape"], dtype=getattr(torch, dtypes[entry["dtype"]]))
            if end > begin:
                tensor.view(-1).view(torch.uint8).copy_(torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8))
            tensors[name] = tensor
    return tensors
)py";

// For programs with prof.range_push and prof.range_pop.
static constexpr llvm::StringLiteral kMarkers = R"py(
# Ranges are recorded through these two names; assign others to record them elsewhere than in NVTX.
if torch.cuda.is_available():
    _range_push, _range_pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
else:
    _range_push, _range_pop = (lambda label: None), (lambda: None)
)py";

namespace {
class ProgramPrinter {
public:
  ProgramPrinter(ModuleOp module, const PythonProgramOptions &options,
                 const llvm::DenseSet<Operation *> &noRegions)
      : options(options), noRegions(noRegions), symbols(module),
        module(module) {}

  LogicalResult print(raw_ostream &os);

private:
  LogicalResult visit(GraphOp graph);
  void findCallees(GraphOp graph, llvm::SetVector<GraphOp> &callees);
  LogicalResult printTables(raw_ostream &os, GraphOp main);
  LogicalResult printState(raw_ostream &os, GraphOp main);
  LogicalResult printSharedMemory(raw_ostream &os, GraphOp main);

  const PythonProgramOptions &options;
  /// Called graphs that are plain functions all the same.
  const llvm::DenseSet<Operation *> &noRegions;
  SymbolTable symbols;
  ModuleOp module;
  /// Graphs, each after those that it calls.
  SmallVector<GraphOp> order;
  enum class State { Open, Done };
  llvm::DenseMap<Operation *, State> states;
  llvm::StringMap<std::string> functionNames;
  llvm::StringSet<> takenNames;
  llvm::StringSet<> takesAttributes;
  std::set<std::string> attributes;
  llvm::StringMap<std::string> attributePrefixes;
  llvm::DenseSet<Operation *> partitions;
  bool usesMarkers = false;
};
} // namespace

void ProgramPrinter::findCallees(GraphOp graph,
                                 llvm::SetVector<GraphOp> &callees) {
  std::string prefix = attributePrefixes.lookup(graph.getSymName());
  auto add = [&](StringRef name) {
    if (auto callee = symbols.lookup<GraphOp>(name))
      callees.insert(callee);
  };
  graph.walk([&](Operation *op) {
    if (auto call = dyn_cast<CallOp>(op)) {
      add(call.getCallee());
      if (auto callee = symbols.lookup<GraphOp>(call.getCallee()))
        partitions.insert(callee);
      // A partition is cut out of its caller, attributes and all.
      attributePrefixes.try_emplace(call.getCallee(), prefix);
    } else if (auto node = dyn_cast<NodeOp>(op)) {
      if (node.getKind() == NodeKind::get_attr ||
          node.getKind() == NodeKind::call_module) {
        takesAttributes.insert(graph.getSymName());
        attributes.insert((prefix + node.getTarget()).str());
      }
      if (isAssignment(node))
        takesAttributes.insert(graph.getSymName());
      walkLeaves(node.getArgs(), [&](Attribute leaf) {
        auto symbol = dyn_cast<FlatSymbolRefAttr>(leaf);
        if (!symbol)
          return;
        add(symbol.getValue());
        attributePrefixes.try_emplace(symbol.getValue(),
                                      symbol.getValue().str() + ".");
      });
    } else if (isa<opprof::prof::RangePushOp, opprof::prof::RangePopOp>(op)) {
      usesMarkers = true;
    }
  });
}

/// Puts the graph, and first those that it calls, into `order`.
LogicalResult ProgramPrinter::visit(GraphOp root) {
  struct Frame {
    GraphOp graph;
    llvm::SetVector<GraphOp> callees;
    size_t next = 0;
  };
  SmallVector<Frame> stack;
  auto enter = [&](GraphOp graph) {
    states[graph] = State::Open;
    stack.emplace_back(Frame{graph, {}, 0});
    findCallees(graph, stack.back().callees);
  };
  enter(root);
  while (!stack.empty()) {
    Frame &frame = stack.back();
    if (frame.next == frame.callees.size()) {
      for (GraphOp callee : frame.callees)
        if (takesAttributes.contains(callee.getSymName()))
          takesAttributes.insert(frame.graph.getSymName());
      states[frame.graph] = State::Done;
      order.push_back(frame.graph);
      stack.pop_back();
      continue;
    }
    GraphOp callee = frame.callees[frame.next++];
    auto found = states.find(callee);
    if (found == states.end())
      enter(callee);
    else if (found->second == State::Open)
      return callee.emitError() << "graph '" << callee.getSymName()
                                << "' calls itself, by way of others or not; "
                                   "FX graphs do not";
  }
  return success();
}

/// A structure of a container that PyTorch could not write: a text that only
/// shows it.
static bool isShownOnly(StringAttr structure) {
  return structure && !structure.getValue().starts_with("[");
}

/// The string, or None where there is none.
static std::string getOptionalString(Operation *op, StringRef name) {
  auto text = op->getAttrOfType<StringAttr>(name);
  return !text || isShownOnly(text) ? "None" : getPythonString(text);
}

namespace {
/// What an attribute of the model holds before the first call, as Python.
class StatePrinter {
public:
  StatePrinter(GraphOp graph, StringRef name, bool mayHoldText,
               std::set<std::string> &weights)
      : graph(graph), name(name), mayHoldText(mayHoldText), weights(weights) {}

  FailureOr<std::string> print(Attribute value);

private:
  FailureOr<std::string> printAll(StringRef open, ArrayRef<Attribute> elements,
                                  StringRef close);
  FailureOr<std::string> printForm(StringRef key, Attribute content);
  LogicalResult refuse(StringRef what) {
    return graph.emitError()
           << "the model's attribute '" << name << "' holds " << what
           << ", which no program can begin with: change the model to hold "
              "numbers, tensors, or lists, tuples and dictionaries of them";
  }

  GraphOp graph;
  StringRef name;
  bool mayHoldText;
  /// Tensors that are found in it.
  std::set<std::string> &weights;
};
} // namespace

FailureOr<std::string> StatePrinter::printAll(StringRef open,
                                              ArrayRef<Attribute> elements,
                                              StringRef close) {
  std::string text = open.str();
  for (Attribute element : elements) {
    FailureOr<std::string> inner = print(element);
    if (failed(inner))
      return failure();
    text += *inner + ", ";
  }
  return StringRef(text).rtrim(' ').str() + close.str();
}

/// What JSON has no form of its own for, as {"key": content}.
FailureOr<std::string> StatePrinter::printForm(StringRef key,
                                               Attribute content) {
  auto text = dyn_cast<StringAttr>(content);
  auto list = dyn_cast<ArrayAttr>(content);
  if (key == "weight" && text) {
    weights.insert(text.getValue().str());
    return "weights[" + getPythonString(text) + "]";
  }
  if (key == "float" && text)
    for (StringRef known : {"inf", "-inf", "nan"})
      if (text.getValue() == known)
        return ("float(\"" + known + "\")").str();
  if (key == "device" && text)
    return "torch.device(" + getPythonString(text) + ")";
  if (key == "complex" && list && list.size() == 2)
    return printAll("complex(", list.getValue(), ")");
  if (key == "tuple" && list)
    return printAll("(", list.getValue(), ")");
  if (key == "dict" && list) {
    std::string result = "{";
    for (Attribute entry : list) {
      auto pair = dyn_cast<ArrayAttr>(entry);
      if (!pair || pair.size() != 2)
        return refuse("a dictionary with an entry that is no pair");
      FailureOr<std::string> first = print(pair[0]), second = print(pair[1]);
      if (failed(first) || failed(second))
        return failure();
      result += *first + ": " + *second + ", ";
    }
    return StringRef(result).rtrim(' ').str() + "}";
  }
  auto object = dyn_cast<DictionaryAttr>(content);
  auto type = key == "object" && object ? object.getAs<StringAttr>("type")
                                        : StringAttr();
  return refuse(type ? ("an object of the class " + type.getValue()).str()
                     : ("what is written as '" + key + "'").str());
}

FailureOr<std::string> StatePrinter::print(Attribute value) {
  if (isa<opprof::fx::NoneAttr>(value))
    return std::string("None");
  if (auto flag = dyn_cast<BoolAttr>(value))
    return std::string(flag.getValue() ? "True" : "False");
  if (auto number = dyn_cast<IntegerAttr>(value))
    return llvm::toString(number.getValue(), 10, /*Signed=*/true);
  if (auto number = dyn_cast<FloatAttr>(value))
    return getPythonFloat(number.getValueAsDouble());
  if (auto text = dyn_cast<StringAttr>(value)) {
    if (mayHoldText)
      return getPythonString(text);
    return refuse("text, and the graph calls operators of other libraries, "
                  "for which it may be the name of a file");
  }
  if (auto elements = dyn_cast<ArrayAttr>(value))
    return printAll("[", elements.getValue(), "]");
  auto form = dyn_cast<DictionaryAttr>(value);
  if (!form || form.size() != 1)
    return refuse("what has no form in Python");
  return printForm(form.begin()->getName(), form.begin()->getValue());
}

/// Prints what attributes hold before the first call, and adds the tensors in
/// it to the attributes that have to be among the weights.
LogicalResult ProgramPrinter::printState(raw_ostream &os, GraphOp main) {
  std::set<std::string> needed = attributes;
  for (BlockArgument input : main.getBlock().getArguments())
    needed.insert(main.getInputTarget(input.getArgNumber()).str());
  bool mayHoldText = !callsForeignOperators(module);
  os << "\n# What attributes that are no tensors hold before the first call.\n"
        "STATE = {\n";
  auto extra = main->getAttrOfType<DictionaryAttr>(kAttributesAttr);
  if (auto state =
          extra ? extra.getAs<DictionaryAttr>(kStateKey) : DictionaryAttr())
    for (NamedAttribute entry : state) {
      StringRef name = entry.getName();
      if (!needed.count(name.str()))
        continue;
      FailureOr<std::string> text =
          StatePrinter(main, name, mayHoldText, attributes)
              .print(entry.getValue());
      if (failed(text))
        return failure();
      os << "    " << getPythonString(name) << ": lambda weights: " << *text
         << ",\n";
    }
  os << "}\n";
  return success();
}

/// Prints which of the weights are parts of one memory.
LogicalResult ProgramPrinter::printSharedMemory(raw_ostream &os, GraphOp main) {
  std::set<std::string> needed = attributes;
  for (BlockArgument input : main.getBlock().getArguments())
    needed.insert(main.getInputTarget(input.getArgNumber()).str());
  os << "\n# Weights that are parts of one memory, of which the graph writes "
        "one: the byte where each begins, and its strides.\nSHARED = (\n";
  auto extra = main->getAttrOfType<DictionaryAttr>(kAttributesAttr);
  auto groups = extra ? extra.getAs<ArrayAttr>(kSharedMemoryKey) : ArrayAttr();
  for (Attribute element : groups ? groups.getValue() : ArrayRef<Attribute>()) {
    auto group = dyn_cast<DictionaryAttr>(element);
    auto refuse = [&] {
      return main.emitError()
             << "fx.attributes: '" << kSharedMemoryKey
             << "' is a list of dictionaries that give, by the name of a "
                "weight, its 'offset' in bytes and its 'stride'";
    };
    if (!group)
      return refuse();
    std::string text;
    for (NamedAttribute entry : group) {
      auto part = dyn_cast<DictionaryAttr>(entry.getValue());
      auto offset = part ? part.getAs<IntegerAttr>("offset") : IntegerAttr();
      auto strides = part ? part.getAs<ArrayAttr>("stride") : ArrayAttr();
      if (!offset || offset.getValue().isNegative() || !strides ||
          !llvm::all_of(strides, llvm::IsaPred<IntegerAttr>))
        return refuse();
      if (!needed.count(entry.getName().str()))
        continue;
      text += getPythonString(entry.getName()) + ": (" +
              llvm::toString(offset.getValue(), 10, /*Signed=*/true) + ", (";
      for (Attribute stride : strides)
        text += llvm::toString(cast<IntegerAttr>(stride).getValue(), 10,
                               /*Signed=*/true) +
                ",";
      text += ")), ";
    }
    if (StringRef(text).count(": (") > 1)
      os << "    {" << StringRef(text).rtrim(", ") << "},\n";
  }
  os << ")\n";
  return success();
}

/// How FORMS writes a tensor.
static std::string getTensorForm(StringRef dtype, ArrayRef<int64_t> sizes) {
  std::string text = ("(\"tensor\", torch." + dtype + ", (").str();
  for (int64_t size : sizes)
    text += (ShapedType::isDynamic(size) ? "None" : std::to_string(size)) + ",";
  return text + "))";
}

/// How FORMS writes what a graph says of an argument; empty where that is not
/// what it may say.
static std::string getFormText(Attribute form) {
  auto getAll = [](Attribute list, StringRef kind) -> std::string {
    auto elements = dyn_cast<ArrayAttr>(list);
    if (!elements)
      return "";
    std::string text = ("(\"" + kind + "\", (").str();
    for (Attribute element : elements) {
      std::string key;
      if (kind == "dict") {
        auto pair = dyn_cast<ArrayAttr>(element);
        if (!pair || pair.size() != 2)
          return "";
        if (auto name = dyn_cast<StringAttr>(pair[0]))
          key = getPythonString(name);
        else if (auto flag = dyn_cast<BoolAttr>(pair[0]))
          key = flag.getValue() ? "True" : "False";
        else if (auto number = dyn_cast<IntegerAttr>(pair[0]))
          key = llvm::toString(number.getValue(), 10, /*Signed=*/true);
        else if (auto real = dyn_cast<FloatAttr>(pair[0]))
          key = getPythonFloat(real.getValueAsDouble());
        else
          return "";
        element = pair[1];
      }
      std::string inner = getFormText(element);
      if (inner.empty())
        return "";
      text += key.empty() ? inner + "," : "(" + key + ", " + inner + "),";
    }
    return text + "))";
  };
  if (isa<opprof::fx::NoneAttr>(form))
    return "None";
  if (auto given = dyn_cast<BoolAttr>(form))
    return given.getValue() ? "GIVEN" : "";
  auto entry = dyn_cast<DictionaryAttr>(form);
  if (!entry)
    return "";
  for (StringRef kind : {"list", "tuple", "dict"})
    if (Attribute elements = entry.get(kind))
      return getAll(elements, kind);
  auto dtype = entry.getAs<StringAttr>("dtype");
  auto sizes = entry.getAs<ArrayAttr>("size");
  if (!dtype || !isTorchConstant(dtype.getValue()) || !sizes ||
      !llvm::all_of(sizes, llvm::IsaPred<IntegerAttr>))
    return "";
  SmallVector<int64_t> numbers;
  for (Attribute size : sizes)
    numbers.push_back(cast<IntegerAttr>(size).getValue().getSExtValue());
  return getTensorForm(dtype.getValue(), numbers);
}

/// An entry of FORMS: of an argument that is a tensor its type says it, and of
/// others the graph.
static LogicalResult printForm(raw_ostream &os, GraphOp graph,
                               BlockArgument input) {
  unsigned index = input.getArgNumber();
  if (graph.getInputKind(index) != "user_input")
    return success();
  StringRef name = graph.getInputName(index);
  auto extra = graph->getAttrOfType<DictionaryAttr>(kAttributesAttr);
  auto forms =
      extra ? extra.getAs<DictionaryAttr>(kArgumentFormsKey) : DictionaryAttr();
  Attribute own = forms ? forms.get(name) : Attribute();
  std::string text;
  if (own) {
    text = getFormText(own);
    if (text.empty())
      return graph.emitError()
             << "fx.attributes: '" << kArgumentFormsKey << "' says of '" << name
             << "' what is no form of an argument";
  } else if (auto tensor = dyn_cast<RankedTensorType>(input.getType())) {
    StringRef dtype = getDTypeName(tensor.getElementType());
    if (isTorchConstant(dtype))
      text = getTensorForm(dtype, tensor.getShape());
  }
  if (!text.empty())
    os << "    " << index << ": (" << getPythonString(name) << ", " << text
       << "),\n";
  return success();
}

/// An entry of PLACES, where the input needs one.
static void printPlace(raw_ostream &os, GraphOp graph, BlockArgument input) {
  StringRef target = graph.getInputTarget(input.getArgNumber());
  auto tensor = dyn_cast<RankedTensorType>(input.getType());
  auto info = tensor ? dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding())
                     : TensorInfoAttr();
  if (target.empty() || !info)
    return;
  auto strides = TensorInfoAttr::getStaticStrides(tensor);
  bool hasStrides = info.getStrides() && strides;
  if (info.getDevice() == "cpu" && !hasStrides)
    return;
  os << "    " << getPythonString(target) << ": ("
     << getPythonString(info.getDevice()) << ", ";
  if (hasStrides) {
    os << '(';
    llvm::interleaveComma(*strides, os);
    os << ",)";
  } else {
    os << "None";
  }
  os << "),\n";
}

/// An entry of TRAINED, where the input is a parameter.
static void printTrained(raw_ostream &os, GraphOp graph, BlockArgument input) {
  unsigned index = input.getArgNumber();
  StringRef target = graph.getInputTarget(index);
  auto tensor = dyn_cast<RankedTensorType>(input.getType());
  auto info = tensor ? dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding())
                     : TensorInfoAttr();
  if (info && !target.empty() && graph.getInputKind(index) == "parameter")
    os << "    " << getPythonString(target) << ": "
       << (info.getRequiresGrad() ? "True" : "False") << ",\n";
}

LogicalResult ProgramPrinter::printTables(raw_ostream &os, GraphOp main) {
  for (auto [name, what] : {std::pair(kInSpecAttr, "takes its arguments"),
                            std::pair(kOutSpecAttr, "returns its results")})
    if (auto structure = main->getAttrOfType<StringAttr>(name);
        isShownOnly(structure))
      mlir::emitWarning(main.getLoc())
          << "the program " << what
          << " one after another, as PyTorch has no name for a container of "
          << structure
          << "; register_pytree_node(serialized_type_name=…) gives it one";
  os << "\n# What each input of the graph is: its kind, and its qualified name "
        "in the model.\nINPUTS = (\n";
  llvm::StringMap<unsigned> inputIndex;
  for (BlockArgument input : main.getBlock().getArguments()) {
    unsigned index = input.getArgNumber();
    inputIndex[main.getInputName(index)] = index;
    StringRef target = main.getInputTarget(index);
    os << "    (" << getPythonString(main.getInputKind(index)) << ", "
       << (target.empty() ? "None" : getPythonString(target)) << "),\n";
  }
  os << ")\n\nANY, GIVEN = object(), object()\n\n# Forms of arguments by place "
        "among the inputs, with their names: dtypes and sizes of tensors, "
        "where "
        "None is a size that\n# may change, and what is None or GIVEN.\nFORMS "
        "= "
        "{\n";
  for (BlockArgument input : main.getBlock().getArguments())
    if (failed(printForm(os, main, input)))
      return failure();
  os << "}\n\n# Weights that are not on the CPU or not contiguous: device, and "
        "strides or None.\nPLACES = {\n";
  for (BlockArgument input : main.getBlock().getArguments())
    printPlace(os, main, input);
  os << "}\n\n# Parameters: whether they require a gradient.\nTRAINED = {\n";
  for (BlockArgument input : main.getBlock().getArguments())
    printTrained(os, main, input);
  os << "}\n\n# What each output is; None where all are simply returned.\n";
  OutputOp output = main.getOutput();
  if (auto signature = output.getSignature()) {
    os << "OUTPUTS = (\n";
    for (Attribute element : *signature) {
      auto entry = dyn_cast<DictionaryAttr>(element);
      auto kind = entry ? entry.getAs<StringAttr>("kind") : StringAttr();
      auto target = entry ? entry.getAs<StringAttr>("target") : StringAttr();
      if (!kind)
        return output.emitError() << "has a signature entry without a kind";
      std::string text = target ? getPythonString(target) : "None";
      if (kind.getValue() == "user_input_mutation") {
        auto found =
            target ? inputIndex.find(target.getValue()) : inputIndex.end();
        if (found == inputIndex.end())
          return output.emitError()
                 << "mutates the input " << (target ? target : kind)
                 << ", which the graph does not have";
        text = std::to_string(found->second);
      }
      os << "    (" << getPythonString(kind) << ", " << text << "),\n";
    }
    os << ")\n";
  } else {
    os << "OUTPUTS = None\n";
  }
  os << "\n# How arguments and results are nested, as PyTorch's pytree writes "
        "it.\nIN_SPEC = "
     << getOptionalString(main, kInSpecAttr)
     << "\nOUT_SPEC = " << getOptionalString(main, kOutSpecAttr) << "\n";
  // Tensors in what attributes hold are found as that is printed.
  if (failed(printState(os, main)) || failed(printSharedMemory(os, main)))
    return failure();
  os << "\n# Attributes of the model that nodes read by name, and tensors in "
        "them.\nATTRIBUTES = (";
  for (const std::string &attribute : attributes)
    os << getPythonString(attribute) << ",";
  os << ")\n";
  return success();
}

LogicalResult ProgramPrinter::print(raw_ostream &os) {
  GraphOp main;
  for (GraphOp graph : module.getOps<GraphOp>())
    if (!main && graph.isPublic())
      main = graph;
  if (!main)
    return module.emitError() << "holds no public fx.graph to write";
  for (GraphOp graph : module.getOps<GraphOp>())
    if (graph.isPublic() && graph != main)
      mlir::emitWarning(graph.getLoc())
          << "a program is of one graph: @" << main.getSymName()
          << " is written, and @" << graph.getSymName() << " is not";
  if (failed(visit(main)))
    return failure();

  for (StringRef name : {"torch",
                         "operator",
                         "STATE",
                         "SHARED",
                         "_sharing",
                         "_bytes",
                         "all",
                         "any",
                         "ValueError",
                         "math",
                         "functools",
                         "json",
                         "os",
                         "pytree",
                         "Program",
                         "load",
                         "INPUTS",
                         "OUTPUTS",
                         "IN_SPEC",
                         "OUT_SPEC",
                         "ATTRIBUTES",
                         "PLACES",
                         "FORMS",
                         "ANY",
                         "GIVEN",
                         "enumerate",
                         "map",
                         "_of_its_form",
                         "_check_tensor",
                         "_attribute",
                         "_in_place",
                         "object",
                         "type",
                         "_read_safetensors",
                         "dict",
                         "open",
                         "bytearray",
                         "_run",
                         "_spec",
                         "_range_push",
                         "_range_pop",
                         "attributes",
                         "float",
                         "complex",
                         "slice",
                         "getattr",
                         "abs",
                         "bool",
                         "divmod",
                         "int",
                         "len",
                         "max",
                         "min",
                         "pow",
                         "round",
                         "sum",
                         "iter",
                         "next",
                         "zip",
                         "sorted",
                         "list",
                         "tuple",
                         "isinstance",
                         "str",
                         "KeyError",
                         "TypeError",
                         "TRAINED",
                         "_trained_alike"})
    takenNames.insert(name);
  // The main graph first: it is the one whose name people look for.
  for (GraphOp graph : llvm::reverse(order)) {
    std::string wanted = getPythonIdentifier(graph.getSymName());
    std::string name = wanted;
    for (unsigned number = 1; !takenNames.insert(name).second; ++number)
      name = wanted + "_" + std::to_string(number);
    functionNames[graph.getSymName()] = name;
  }

  std::string title = getPythonString(
      (main.getSymName() +
       (main.getStage() ? " (" + *main.getStage() + ")" : llvm::Twine()))
          .str());
  os << "\"\"" << StringRef(title).drop_back()
     << ": a program that opprof wrote from the graph of that name.\n\n"
        "    program = load(\"weights.safetensors\")  # or a state_dict, in a "
        "file or in memory\n"
        "    result = program(*args)\n\"\"\"\n\n"
        "import builtins\nimport collections\nimport enum\nimport "
        "functools\nimport json\n"
        "import math\nimport operator\nimport os\nimport sys\n\n"
        "import torch\nimport torch.utils._pytree as pytree\n";
  if (usesMarkers)
    os << kMarkers;
  if (failed(printTables(os, main)))
    return failure();

  for (GraphOp graph : order) {
    PythonFunctionOptions functionOptions;
    auto getName = [&](StringRef name) -> StringRef {
      auto found = functionNames.find(name);
      return found == functionNames.end() ? "" : StringRef(found->second);
    };
    auto getTakesAttributes = [&](StringRef name) {
      return takesAttributes.contains(name);
    };
    StringRef region[] = {"torch.compiler.nested_compile_region"};
    std::string attributePrefix = attributePrefixes.lookup(graph.getSymName());
    functionOptions.name = getName(graph.getSymName());
    functionOptions.withComments = true;
    functionOptions.withDeletions = true;
    functionOptions.functionName = getName;
    functionOptions.takesAttributes = getTakesAttributes;
    functionOptions.attributePrefix = attributePrefix;
    if (options.regions && partitions.contains(graph) &&
        !noRegions.contains(graph))
      functionOptions.decorators = region;
    os << "\n\n";
    if (failed(printPythonFunction(graph, os, functionOptions)))
      return failure();
  }

  os << "\n\ndef _run(inputs, attributes):\n    results = "
     << functionNames[main.getSymName()] << "("
     << (takesAttributes.contains(main.getSymName()) ? "attributes, " : "")
     << "*inputs)\n";
  auto attributesOfMain = main->getAttrOfType<DictionaryAttr>(kAttributesAttr);
  auto form = attributesOfMain
                  ? attributesOfMain.getAs<StringAttr>(kOutputFormKey)
                  : StringAttr();
  bool isSingle = form && form.getValue() == "single" &&
                  main.getOutput().getArgs().size() == 1;
  // Without a signature or a structure, what the graph returns is the result.
  bool isAsIs = isSingle && !main.getOutput().getSignature() &&
                getOptionalString(main, kOutSpecAttr) == "None";
  os << "    return " << (isSingle && !isAsIs ? "(results,)" : "results")
     << "\n";
  os << kRuntime;
  return success();
}

LogicalResult opprof::fx::emitPython(ModuleOp module, raw_ostream &os,
                                     const PythonProgramOptions &options) {
  std::string text;
  llvm::raw_string_ostream buffer(text);
  OwningOpRef<ModuleOp> separated;
  llvm::DenseSet<Operation *> noRegions;
  if (options.regions && needsSeparation(module)) {
    separated = module.clone();
    noRegions = separateViews(*separated);
  }
  ProgramPrinter printer(separated ? *separated : module, options, noRegions);
  if (failed(printer.print(buffer)))
    return failure();
  os << text;
  return success();
}
