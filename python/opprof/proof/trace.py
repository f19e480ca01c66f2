"""Runs a graph of graph JSON node by node, and keeps what every node computed, and from which. Needs PyTorch."""

import functools
import importlib
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
import torch._inductor.inductor_prims  # Registers the operators of Inductor's graphs.

import opprof.backend.emitted.recurrent  # noqa: F401 - registers those that `opprof profile` leaves there
from opprof.errors import OpprofError
from opprof.proof.random_numbers import inductor_random

#: Gives the value of a tensor that a graph holds itself: of its name and its entry of graph JSON.
Constants: TypeAlias = Callable[[str, dict[str, Any]], Any]
#: Which branch of a conditional to take, of the value that decides.
Branch: TypeAlias = Callable[[Any], bool]

#: A loop that runs longer is not followed.
_MAX_ITERATIONS = 1000
#: Rounds of a loop while branches are forced: the one that is taken may be what never ends it.
FORCED_ROUNDS = 64
#: Operators that give the value which they were given: a launch that has the one has the other.
_SAME_VALUE = {
    *(
        "aten.clone",
        "aten.contiguous",
        "aten.copy_",
        "aten.copy",
        "aten.lift_fresh_copy",
        "aten.alias",
    ),
    *("aten._to_copy", "prims.convert_element_type", "prims.inductor_force_stride_order"),
    *("prims.device_put", "inductor.accumulate_grad_"),
}
_ASSERTIONS = {
    *("aten._assert_async", "aten._assert_scalar", "aten._functional_assert_async"),
    "aten._linalg_check_errors",
}
#: Operators that take nothing but its sizes of an argument: by the argument's place.
_SIZES_ONLY = {"aten.avg_pool2d_backward": 1, "aten.avg_pool3d_backward": 1}
#: Operators that choose elements of their first argument: where all of it is one constant, whatever chooses.
_CHOICES = {"aten.index", "aten._unsafe_index", "aten.gather", "aten.index_select"}
#: Operators that are views although their schema doesn't say so, and what a launch reads as a number.
_VIEWS = {"aten._unsafe_view", "prims.inductor_lookup_seed", "aten._local_scalar_dense"}


@dataclass
class Step:
    """One node as it was run; in a loop, one for each time."""

    #: The subgraph that it lies in; empty for the graph itself.
    graph: str
    name: str
    target: str
    operands: tuple[int, ...]
    value: Any
    #: Computes nothing of its own: an input, a view, an element of a tuple.
    free: bool = False
    #: Computes the same values as its operand in another place.
    same: bool = False
    #: Takes no tensor, and gives the same each time.
    constant: bool = False
    #: Whether there is a tensor with elements in its value.
    is_tensor: bool = True

    @property
    def is_input(self) -> bool:
        """Comes from outside: nothing leads to it."""
        return self.target in ("placeholder", "get_attr") and not self.operands

    @property
    def computes_nothing(self) -> bool:
        """Costs a launch nothing to have, with or without being named."""
        return self.free or self.same or self.constant

    @property
    def asserts(self) -> bool:
        """Checks what it was given, and gives nothing."""
        return self.operator in _ASSERTIONS

    @property
    def operator(self) -> str:
        """The target without its overload: "aten.add"."""
        parts = self.target.split(".")
        return ".".join(parts[:2]) if len(parts) > 2 else self.target


@dataclass
class _Bound:
    """What a name stands for while a graph runs: its value, and the step that made it."""

    value: Any
    step: int


@dataclass
class Trace:
    """All steps of a graph in the order in which they were run."""

    steps: list[Step] = field(default_factory=list)
    #: The steps of each node, by subgraph and name.
    of: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    #: The steps whose values the graph returns.
    results: set[int] = field(default_factory=set)

    @property
    def leaves_numbers(self) -> bool:
        """Whether a step made what is no number, or an infinity that does not mask (masks are negative), of numbers."""
        return any(
            isinstance(step.value, torch.Tensor)
            and step.value.is_floating_point()
            and not step.is_input
            and bool((step.value.isnan() | step.value.isposinf()).any())
            for step in self.steps
        )

    def only_asserts(self, steps: Collection[int]) -> bool:
        """Whether there are such steps, and all are computed for an assertion alone: what is stored says nothing of them."""
        return bool(steps) and self._checked.issuperset(steps)

    @functools.cached_property
    def _checked(self) -> frozenset[int]:
        users: dict[int, list[int]] = {}
        for number, step in enumerate(self.steps):
            for operand in step.operands:
                users.setdefault(operand, []).append(number)
        found: set[int] = set()
        for number in reversed(range(len(self.steps))):
            step = self.steps[number]
            only_asserted = number in users and found.issuperset(users[number])
            # What is checked and returned, too, is stored for whoever takes it.
            only_asserted = only_asserted and number not in self.results
            if step.asserts or (only_asserted and not step.is_input):
                found.add(number)
        return frozenset(found)

    def add(self, step: Step, *, keep_kind: bool = False) -> int:
        if not keep_kind:
            step.is_tensor = _tensors(step.value)
        self.steps.append(step)
        self.of.setdefault((step.graph, step.name), []).append(len(self.steps) - 1)
        return len(self.steps) - 1


def copy_of(value: Any) -> Any:
    """A tensor on a copy of its storage: the same layout, elements that share a place included."""
    if not isinstance(value, torch.Tensor):
        return value
    copy = torch.empty(0, dtype=value.dtype, device=value.device)
    whole = torch.empty(0, dtype=torch.uint8, device=value.device).set_(value.untyped_storage())
    return copy.set_(
        whole.clone().untyped_storage(), value.storage_offset(), value.size(), value.stride()
    )


class GraphRunner:
    """Runs the graphs of a document of graph JSON. `rounds`: where loops are left in any case."""

    def __init__(
        self,
        document: Mapping[str, Any],
        constants: Constants,
        branch: Branch = bool,
        rounds: int | None = None,
    ):
        self.types = document["types"]
        self.graphs = {graph["name"]: graph for graph in document["graphs"]}
        self.main = document["graphs"][0]["name"]
        self.constants = constants
        self.branch = branch
        self.rounds = rounds
        self.symbols: dict[str, Any] = {}
        self.trace = Trace()
        #: What the last node wrote in place: the tensor as it was, and its new value.
        self._written: list[tuple[torch.Tensor, torch.Tensor]] = []

    def run(self, inputs: Sequence[Any]) -> Trace:
        """Runs the first graph. Raises OpprofError for a node that can't be run here; what ran before is in `trace`."""
        results = self._run(self.main, [_Bound(value, -1) for value in inputs])
        self.trace.results = {result.step for result in results if result.step >= 0}
        return self.trace

    def _run(self, name: str, inputs: Sequence[_Bound]) -> list[_Bound]:
        graph = self.graphs[name]
        where = "" if name == self.main else name
        bound: dict[str, _Bound] = {}
        if len(inputs) != len(graph["inputs"]):
            raise OpprofError(
                f"graph {name} has {len(graph['inputs'])} inputs, and was given {len(inputs)}"
            )
        for entry, given in zip(graph["inputs"], inputs, strict=True):
            self._learn_symbol(entry, given.value)
            operands = (given.step,) if given.step >= 0 else ()
            step = Step(where, entry["name"], "placeholder", operands, given.value, free=True)
            bound[entry["name"]] = _Bound(given.value, self.trace.add(step))
        last_use = {
            name: position
            for position, entry in enumerate(graph["nodes"])
            for name in _names([entry["args"], entry["kwargs"]])
        }
        for position, entry in enumerate(graph["nodes"]):
            self._written = []
            try:
                bound[entry["name"]] = made = self._node(where, entry, bound)
                if self._written:
                    used = {name for name, last in last_use.items() if last > position}
                    self._write_through(where, entry, bound, made.step, used)
            except OpprofError:
                raise
            except Exception as error:
                lines = str(error).strip().splitlines() or [type(error).__name__]
                raise OpprofError(
                    f"{entry['target']} ({entry['name']}) can't be run by itself: {lines[0]}"
                ) from error
        return [self._result(output["value"], bound) for output in graph["outputs"]]

    def _learn_symbol(self, entry: Mapping[str, Any], value: Any) -> None:
        if "type" not in entry:
            return
        kind = self.types[entry["type"]]
        if isinstance(kind, dict) and "symint" in kind:
            self.symbols[kind["symint"]] = int(value)
        if isinstance(kind, dict) and "tensor" in kind and isinstance(value, torch.Tensor):
            for symbol, extent in zip(kind["tensor"]["shape"], value.shape, strict=False):
                if isinstance(symbol, str) and symbol.isidentifier():
                    self.symbols.setdefault(symbol, int(extent))

    def _result(self, value: Any, bound: Mapping[str, _Bound]) -> _Bound:
        if isinstance(value, dict) and "node" in value:
            return bound[value["node"]]
        return _Bound(self._value(value, bound), -1)

    def _node(self, where: str, entry: dict[str, Any], bound: dict[str, _Bound]) -> _Bound:
        target = entry["target"]
        operands = [bound[name].step for name in _names([entry["args"], entry["kwargs"]])]
        if entry["op"] == "get_attr":
            value = self.constants(target, entry)
            step = Step(where, entry["name"], "get_attr", (), value, free=True)
            return _Bound(value, self.trace.add(step))
        if target.startswith("higher_order.") and _names_graph(entry["args"]):
            return self._higher_order(where, entry, bound)
        args = self._value({"tuple": entry["args"]}, bound)
        kwargs = {key: self._value(value, bound) for key, value in entry["kwargs"].items()}
        step = Step(where, entry["name"], target, tuple(operands), None)
        if (place := _SIZES_ONLY.get(step.operator)) is not None:
            others = [value for i, value in enumerate(entry["args"]) if i != place]
            step.operands = tuple(bound[name].step for name in _names([others]))
        if entry["op"] == "call_method":
            step.value = getattr(args[0], target)(*args[1:], **kwargs)
        elif step.operator == "aten.copy_":
            # The graph's last step with an input: nothing reads the old value afterwards, but the wrapper's run needs it.
            step.value = args[1].to(args[0].dtype).expand(args[0].shape)
            step.operands = tuple(bound[name].step for name in _names(entry["args"][1]))
            self._written = [(args[0], step.value)]
        elif step.operator == "prims.inductor_random":
            step.value = inductor_random(*args)
        elif step.operator == "prims.inductor_seeds":
            # As the wrapper fills them: PyTorch's own definition takes other bounds.
            low, high = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
            step.value = torch.randint(low, high, [args[0]], device=args[1])
        else:
            self._call(step, entry, args, kwargs, bound)
        if target == "higher_order.with_effects":
            # A token says in which order what it names has its effects.
            step.target = entry["args"][1]["op"]
        if step.operator in _CHOICES and self._is_one_constant(step.operands[0]):
            step.operands = step.operands[:1]
        self._classify(step)
        return _Bound(step.value, self.trace.add(step))

    def _call(
        self,
        step: Step,
        entry: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        bound: dict[str, _Bound],
    ) -> None:
        function = resolve(step.target)
        if step.operator.startswith("aten._scaled_dot_product_"):
            # The library takes it that the last dimension's elements are neighbours, and does not look: Inductor lays them out so.
            args = tuple(_with_neighbours(a) if isinstance(a, torch.Tensor) else a for a in args)
        schema = getattr(function, "_schema", None)
        if schema is None or not schema.is_mutable:
            step.value = function(*args, **kwargs)
            return
        # What is written in place is a new value of that name; the old one stays as it was.
        changed = []
        args_list = list(args)
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            if position < len(args_list) and isinstance(args_list[position], torch.Tensor):
                old, args_list[position] = args_list[position], args_list[position].clone()
                changed.append((entry["args"][position], args_list[position]))
                self._written.append((old, args_list[position]))
            elif isinstance(kwargs.get(argument.name), torch.Tensor):
                old, kwargs[argument.name] = kwargs[argument.name], kwargs[argument.name].clone()
                changed.append((entry["kwargs"][argument.name], kwargs[argument.name]))
                self._written.append((old, kwargs[argument.name]))
        step.value = function(*args_list, **kwargs)
        if step.value is None and changed:
            step.value = tuple(value for _, value in changed)
            if len(changed) == 1:
                step.value = changed[0][1]
        for place, value in changed:
            for name in _names(place):
                bound[name] = _Bound(value, len(self.trace.steps))

    def _write_through(
        self,
        where: str,
        entry: Mapping[str, Any],
        bound: dict[str, _Bound],
        writer: int,
        used: set[str],
    ) -> None:
        """Where something of the memory that was written is used afterwards, a tensor whose diagonal was, gives all that lies there its
        new value."""
        for old, new in self._written:
            if old.layout != torch.strided:
                continue
            memory = old.untyped_storage().data_ptr()
            others = [
                name
                for name, known in bound.items()
                if isinstance(value := known.value, torch.Tensor)
                and value is not new
                and value.layout == torch.strided
                and value.untyped_storage().data_ptr() == memory
            ]
            if not memory or used.isdisjoint(others):
                continue
            whole = copy_of(old)
            whole.copy_(new)
            for name in others:
                value = bound[name].value
                view = torch.empty(0, dtype=value.dtype, device=value.device).set_(
                    whole.untyped_storage(), value.storage_offset(), value.size(), value.stride()
                )
                operands = (writer, bound[name].step)
                step = Step(where, entry["name"], entry["target"], operands, view)
                bound[name] = _Bound(view, self.trace.add(step))

    def _is_one_constant(self, number: int) -> bool:
        """Whether each element of the step's value is the same number, which the graph itself says."""
        step = self.trace.steps[number]
        while step.free and step.operands:
            # Several results of a graph, of which a later step takes one.
            if step.target.startswith("higher_order."):
                return False
            step = self.trace.steps[step.operands[0]]
        value = step.value
        return (
            step.constant
            and isinstance(value, torch.Tensor)
            and value.numel() > 0
            and bool((value == value.flatten()[0]).all())
        )

    def _classify(self, step: Step) -> None:
        steps = self.trace.steps
        tensors = [o for o in step.operands if steps[o].is_tensor]
        step.free = step.operator in _VIEWS or step.operator.startswith("operator.")
        if not _tensors(step.value):
            step.free = True
        schema = getattr(resolve(step.target, missing_ok=True), "_schema", None)
        if schema is not None and not step.free:
            returns = schema.returns
            step.free = bool(returns) and all(
                r.alias_info is not None and not r.alias_info.is_write for r in returns
            )
        random = step.operator.startswith("prims.inductor_") or _is_random(step.target)
        step.constant = not tensors and not random and not step.free
        if step.operator in _SAME_VALUE and tensors:
            operand = steps[tensors[-1]].value
            step.same = (
                isinstance(operand, torch.Tensor)
                and isinstance(step.value, torch.Tensor)
                and operand.dtype == step.value.dtype
            )

    def _higher_order(self, where: str, entry: dict[str, Any], bound: dict[str, _Bound]) -> _Bound:
        target = entry["target"].removeprefix("higher_order.")
        if target == "cond":
            results = self._cond(entry, bound)
        elif target == "while_loop":
            results = self._while_loop(entry, bound)
        elif target == "invoke_subgraph":
            graph, _, *operands = _elements(entry["args"])
            results = self._run(graph["graph"], [self._result(o, bound) for o in operands])
        else:
            raise OpprofError(f"{entry['target']} ({entry['name']}) can't be followed")
        # A tuple whose elements are the results of the graph that ran: what takes one of them reads that result.
        step = Step(
            where,
            entry["name"],
            entry["target"],
            tuple(result.step for result in results if result.step >= 0),
            tuple(result.value for result in results),
            free=True,
        )
        return _Bound(step.value, self.trace.add(step))

    def _cond(self, entry: dict[str, Any], bound: dict[str, _Bound]) -> list[_Bound]:
        predicate, taken, other, *operands = _elements(entry["args"])
        chosen = taken if self.branch(self._value(predicate, bound)) else other
        flat = _elements(operands[0]) if operands else []
        return self._run(chosen["graph"], [self._result(o, bound) for o in flat])

    def _while_loop(self, entry: dict[str, Any], bound: dict[str, _Bound]) -> list[_Bound]:
        condition, body, carried, *more = _elements(entry["args"])
        state = [self._result(o, bound) for o in _elements(carried)]
        rest = [self._result(o, bound) for o in _elements(more[0])] if more else []
        for turn in range(_MAX_ITERATIONS):
            (goes_on,) = self._run(condition["graph"], state + rest)
            if not bool(goes_on.value) or turn == self.rounds:
                return state
            state = self._run(body["graph"], state + rest)
        raise OpprofError(f"{entry['name']} runs more than {_MAX_ITERATIONS} times")

    def _value(self, value: Any, bound: Mapping[str, _Bound]) -> Any:
        if isinstance(value, list):
            return [self._value(element, bound) for element in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "node":
            return bound[content].value
        if kind == "sym":
            return evaluate(content, self.symbols)
        decode = _DECODERS.get(kind)
        if decode is None:
            raise OpprofError(f"graph JSON has an argument of a kind that can't be run: {kind}")
        if kind in ("tuple", "slice", "complex", "dict"):
            content = [self._value(element, bound) for element in content]
        return decode(content)


def _resolve(name: str) -> Any:
    return resolve(name)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "complex": lambda parts: complex(*parts),
    "tuple": tuple,
    "dict": dict,
    "slice": lambda parts: slice(*parts),
    "ellipsis": lambda _: Ellipsis,
    "dtype": lambda name: getattr(torch, name),
    "device": torch.device,
    "layout": lambda name: getattr(torch, name),
    "memory_format": lambda name: getattr(torch, name),
    "op": _resolve,
}


def _elements(value: Any) -> list[Any]:
    return value["tuple"] if isinstance(value, dict) and "tuple" in value else list(value)


def _names(value: Any) -> list[str]:
    """The nodes that an argument names, however deep."""
    if isinstance(value, list):
        return [name for element in value for name in _names(element)]
    if isinstance(value, dict):
        if "node" in value and isinstance(value["node"], str):
            return [value["node"]]
        return [name for element in value.values() for name in _names(element)]
    return []


def _names_graph(value: Any) -> bool:
    return any(isinstance(argument, dict) and "graph" in argument for argument in value)


def _with_neighbours(value: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy of it, with the elements of its last dimension beside one another."""
    is_laid_out = not value.dim() or value.size(-1) == 1 or value.stride(-1) == 1
    return value if is_laid_out else value.contiguous()


def _tensors(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_tensors(element) for element in value)
    # What has no elements goes in without being read.
    return isinstance(value, torch.Tensor) and value.numel() > 0


@functools.cache
def resolve(target: str, *, missing_ok: bool = False) -> Any:
    """What a target of graph JSON calls."""
    root, _, rest = target.partition(".")
    found: Any = None
    if root in ("operator", "math", "builtins", "torch"):
        found = importlib.import_module(root)
    elif rest:
        found, rest = torch.ops, target
    try:
        for part in rest.split("."):
            found = getattr(found, part)
    except AttributeError:
        found = None
    if found is None and not missing_ok:
        raise OpprofError(f"{target} is not an operator of this PyTorch")
    return found


def unknown_operators(document: Mapping[str, Any]) -> list[str]:
    """Targets of the document's nodes that nothing here defines."""
    resolve.cache_clear()
    calls = [
        entry
        for graph in document["graphs"]
        for entry in graph["nodes"]
        if entry["op"] == "call_function"
    ]
    targets = {entry["target"] for entry in calls}
    targets = {target for target in targets if not target.startswith("higher_order.")}
    # Those that an operator of PyTorch's is handed, as with_effects is.
    targets |= {
        argument["op"]
        for entry in calls
        for argument in entry["args"]
        if isinstance(argument, dict) and isinstance(argument.get("op"), str)
    }
    return sorted(target for target in targets if resolve(target, missing_ok=True) is None)


def _is_random(target: str) -> bool:
    tags = getattr(resolve(target, missing_ok=True), "tags", ())
    return torch.Tag.nondeterministic_seeded in tags


_FUNCTIONS: dict[str, Any] = {
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "ModularIndexing": lambda base, divisor, modulus: base // divisor % modulus,
    "Max": max,
    "Min": min,
    "TruncToInt": math.trunc,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "floor": math.floor,
    "ceiling": math.ceil,
    "ToFloat": float,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "PowByNatural": pow,
    "Where": lambda condition, yes, no: yes if condition else no,
    "Eq": operator.eq,
    "Ne": operator.ne,
}


def evaluate(expression: str, symbols: Mapping[str, Any]) -> Any:
    """The number that an expression over symbolic sizes stands for."""
    words = set(re.findall(r"[A-Za-z_]\w*", expression))
    unknown = words - symbols.keys() - _FUNCTIONS.keys() - {"True", "False", "and", "or", "not"}
    if unknown or not re.fullmatch(r"[\w\s+\-*/%().,<>=&|~!]*", expression):
        raise OpprofError(f"{expression}: no number is known for {', '.join(sorted(unknown))}")
    return eval(expression, {"__builtins__": {}}, {**_FUNCTIONS, **symbols})
