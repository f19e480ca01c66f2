# The source of every emitted backend: `opprof emit` writes this file with the rewrites put in at the marked place, and nothing
# else changed. It needs PyTorch only, so that a colleague can use what was emitted without opprof.

import functools
import logging
import operator
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch._dynamo import register_backend
from torch._inductor.compile_fx import compile_fx
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.optim.optimizer import register_optimizer_step_post_hook

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TensorSpec:
    """What a matched tensor has to be; None leaves it open. In sizes, a name stands for the same number wherever it is."""

    dtype: torch.dtype | None = None
    shape: tuple[int | str | None, ...] | None = None
    # "contiguous" stands for the strides of a contiguous tensor of that shape.
    stride: tuple[int | str, ...] | str | None = None
    device: str | None = None
    layout: str | None = None
    # The class's name; empty for a plain tensor.
    subclass: str | None = None
    requires_grad: bool | None = None


# What a list of tensors has to be is a tuple.
Spec = TensorSpec | tuple[Any, ...]


@dataclass(frozen=True)
class Rewrite:
    """A pattern, what takes its place, and what has to hold there."""

    name: str
    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    # The pattern's inputs, then what each of its nodes gives.
    values: tuple[Spec, ...]
    # Conditions on the place, by their names in PLACE_CHECKS.
    place: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Strategy:
    """How the whole graph is compiled and run."""

    # What depends on weights alone is computed once, not in every call.
    prologue: bool = False
    # Weights become constants that Inductor lays out once for its kernels.
    freeze: bool = False
    # Weights are cast once, inputs and outputs in every call.
    precision: torch.dtype | None = None
    # Float32 products run on TF32 units.
    tf32: bool = False
    # Inductor times its choices for each GEMM and convolution.
    autotune: bool = False
    # The compiled program is captured once into a CUDA graph and replayed.
    cuda_graph: bool = False


# >>> rewrites
BACKEND_NAME = "opprof_template"
REWRITES: tuple[Rewrite, ...] = ()
STRATEGY = replace(Strategy())
# <<< rewrites


# How often each rewrite was applied, in all graphs so far.
applied: dict[str, int] = {}


@dataclass
class GraphStatus:
    """What became of one graph that Dynamo found."""

    # Why Inductor compiles it as it is; None where this backend's own program runs.
    refusal: str | None = None
    applied: dict[str, int] = field(default_factory=dict)
    strategy: Strategy = field(default_factory=Strategy)
    # Parts of the strategy that were left out, and why.
    left_out: list[str] = field(default_factory=list)
    calls: int = 0
    refreshes: int = 0


_graphs: list[GraphStatus] = []


def status() -> dict[str, Any]:
    """What this backend did so far: its graphs, all calls, and the shares of them that its own programs and each rewrite ran in."""
    calls = sum(graph.calls for graph in _graphs)
    own = [graph for graph in _graphs if graph.refusal is None]

    def share(graphs: Sequence[GraphStatus]) -> float:
        return sum(graph.calls for graph in graphs) / calls if calls else 0.0

    return {
        "graphs": list(_graphs),
        "calls": calls,
        "own_share": share(own),
        "rewrites": {
            rewrite.name: share([graph for graph in own if graph.applied.get(rewrite.name)])
            for rewrite in REWRITES
        },
    }


@register_backend(name=BACKEND_NAME)
def backend(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compiles a graph that Dynamo found: rewrites it at the ATen level, then hands it to Inductor."""
    graph = GraphStatus()
    _graphs.append(graph)
    graph.refusal = _reason_to_leave_alone(inputs)
    if graph.refusal is None:
        try:
            program = _program(module, inputs, graph)
        except Exception as error:
            # Whatever it is, plain Inductor may still do it, and says it better where not.
            graph.refusal = (
                f"{type(error).__name__}: {(str(error) or 'no message').splitlines()[0]}"
            )
        else:
            for name, count in graph.applied.items():
                applied[name] = applied.get(name, 0) + count
            return program
    graph.applied, graph.strategy, graph.left_out = {}, Strategy(), []
    log.warning("%s: %s, so Inductor compiles this graph as it is", BACKEND_NAME, graph.refusal)
    plain = compile_fx(module, list(inputs))

    def run(*values: Any) -> Any:
        graph.calls += 1
        return plain(*values)

    return run


def _program(module: fx.GraphModule, inputs: Sequence[Any], graph: GraphStatus) -> "Program":
    weights = _weight_positions(module, inputs)
    aten = _to_aten(module, inputs)
    graph.applied = apply_rewrites(aten)
    return Program(aten, inputs, weights, graph)


def _reason_to_leave_alone(inputs: Sequence[Any]) -> str | None:
    if not all(isinstance(value, torch.Tensor) for value in inputs):
        return "sizes are symbolic"
    if any(isinstance(value, FakeTensor) for value in inputs):
        return "the inputs have no values yet"
    if torch.is_grad_enabled() and any(value.requires_grad for value in inputs):
        return "gradients are needed"
    return None


def _to_aten(function: Callable[..., Any], inputs: Sequence[Any]) -> fx.GraphModule:
    """`function` as a graph of ATen operators before autograd: the level that torch.export shows, and rewrites are made for."""
    # Dynamo's own context would make the sizes of some inputs symbols that its guards then know nothing of.
    with torch._guards.tracing(None):
        graph = make_fx(function, pre_dispatch=True, tracing_mode="fake")(*inputs)
    _note_gradients(graph, [isinstance(i, torch.Tensor) and i.requires_grad for i in inputs])
    return graph


def _placeholders(graph: fx.GraphModule) -> list[fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def _note_gradients(graph: fx.GraphModule, needed: Sequence[bool]) -> None:
    """Lets the inputs' fake values say again which of them require gradients: tracing detaches them."""
    for node, requires_grad in zip(_placeholders(graph), needed, strict=True):
        if requires_grad:
            node.meta["val"].requires_grad_()


def _weight_positions(module: fx.GraphModule, inputs: Sequence[Any]) -> list[int]:
    """The inputs that are parameters or buffers of the user's module."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    positions = []
    for position, (node, value) in enumerate(zip(placeholders, inputs, strict=True)):
        source = getattr(node.meta.get("grapharg"), "source", None)
        name = getattr(source, "name", "")
        name = name() if callable(name) else name
        if isinstance(value, torch.nn.Parameter) or "._buffers[" in name:
            positions.append(position)
    return positions


# ---------------------------------------------------------------------------------------------------------------------
# Rewrites
# ---------------------------------------------------------------------------------------------------------------------


def apply_rewrites(graph: fx.GraphModule) -> dict[str, int]:
    """Applies every rewrite to an ATen graph wherever its pattern is; returns how often each one was applied."""
    counts: dict[str, int] = {}
    for rewrite in REWRITES:
        places = find_places(rewrite, graph)
        counts[rewrite.name] = counts.get(rewrite.name, 0) + len(places)
        if places:
            _replace(rewrite, graph, places)
            _propagate_values(graph)
    if any(counts.values()):
        graph.graph.eliminate_dead_code()
        graph.recompile()
    return counts


@dataclass
class Place:
    """Nodes of a graph that a pattern's stand for."""

    nodes: list[fx.Node]
    inputs: list[fx.Node]
    results: list[fx.Node]
    # What names in shapes stand for.
    sizes: dict[str, int]
    order: dict[fx.Node, int]

    @property
    def before(self) -> int:
        """Where a replacement goes: behind all inputs."""
        inputs = [self.order[node] + 1 for node in self.inputs if node.op != "placeholder"]
        return max([min(self.order[node] for node in self.nodes), *inputs])

    def is_outside(self, node: fx.Node) -> bool:
        return node not in self.nodes

    def between(self, first: int, last: int) -> Iterator[fx.Node]:
        return (node for node, position in self.order.items() if first <= position <= last)


def find_places(rewrite: Rewrite, graph: fx.GraphModule) -> list[Place]:
    """The places of the pattern that share no node, in the order of the node for the first result."""
    order = {node: position for position, node in enumerate(graph.graph.nodes)}
    places: list[Place] = []
    taken: set[fx.Node] = set()
    for node in graph.graph.nodes:
        place = _Search(rewrite, order, taken).start(node)
        if place:
            places.append(place)
            taken.update(place.nodes)
    return places


@functools.cache
def _trace(function: Callable[..., Any]) -> tuple[fx.Graph, list[fx.Node]]:
    """The function as a graph, and its results."""
    graph = fx.symbolic_trace(function).graph
    results = graph.output_node().args[0]
    return graph, list(results) if isinstance(results, (tuple, list)) else [results]


@functools.cache
def _steps(pattern: Callable[..., Any]) -> list[tuple[fx.Node, fx.Node | None]]:
    """The pattern's nodes in the order of the search.

    A node is found as what an earlier one takes, or among the users of the value beside it.
    """
    graph, results = _trace(pattern)
    nodes = _calls(graph)
    steps: list[tuple[fx.Node, fx.Node | None]] = []
    visited: set[fx.Node] = set()
    bound: set[fx.Node] = set()

    def visit(start: fx.Node, shared: fx.Node | None) -> None:
        stack = [(start, shared)]
        visited.add(start)
        while stack:
            node, source = stack.pop()
            steps.append((node, source))
            bound.add(node)
            for operand in node.all_input_nodes:
                bound.add(operand)
                if operand.op != "placeholder" and operand not in visited:
                    visited.add(operand)
                    stack.append((operand, None))

    visit(results[0], None)
    rest = [*(node for node in results if node.op != "placeholder"), *reversed(nodes)]
    while len(steps) < len(nodes):
        visit(
            *next(
                (node, operand)
                for node in rest
                if node not in visited
                for operand in node.all_input_nodes
                if operand in bound
            )
        )
    return steps


def _calls(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op not in ("placeholder", "output")]


@dataclass
class _State:
    """What the pattern's values and sizes stand for so far, and which nodes are matched."""

    values: dict[fx.Node, fx.Node] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    matched: set[fx.Node] = field(default_factory=set)

    def copy(self) -> "_State":
        return _State(dict(self.values), dict(self.sizes), set(self.matched))


class _Search:
    """One search for a pattern, by backtracking from the node of its first result."""

    # Bounds the search in graphs where one value has very many users.
    most_tries = 10000

    def __init__(self, rewrite: Rewrite, order: dict[fx.Node, int], taken: set[fx.Node]) -> None:
        self.rewrite = rewrite
        self.order = order
        self.taken = taken
        self.graph, self.results = _trace(rewrite.pattern)
        self.steps = _steps(rewrite.pattern)
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        self.specs = dict(zip([*inputs, *_calls(self.graph)], rewrite.values, strict=True))
        self.tries = 0

    def start(self, anchor: fx.Node) -> Place | None:
        state = _State()
        return self._go_on(state, 1) if self._take(state, self.steps[0][0], anchor) else None

    def _go_on(self, state: _State, step: int) -> Place | None:
        for number in range(step, len(self.steps)):
            node, shared = self.steps[number]
            if shared is None:
                if not self._take(state, node, state.values[node]):
                    return None
                continue
            for candidate in sorted(state.values[shared].users, key=self.order.__getitem__):
                self.tries += 1
                if self.tries > self.most_tries:
                    return None
                branch = state.copy()
                if self._take(branch, node, candidate):
                    place = self._go_on(branch, number + 1)
                    if place:
                        return place
            return None
        return self._finish(state)

    def _take(self, state: _State, node: fx.Node, candidate: fx.Node) -> bool:
        """Lets `candidate` stand for the pattern's `node`, where it can."""
        pairs: list[tuple[fx.Node, fx.Node]] = []
        if (
            candidate.op != node.op
            or candidate.target != node.target
            or candidate in state.matched
            or candidate in self.taken
            or not _same(_normalized(node), _normalized(candidate), pairs)
            or not all(self._bind(state, value, other) for value, other in pairs)
            or not self._bind(state, node, candidate)
        ):
            return False
        state.matched.add(candidate)
        return True

    def _bind(self, state: _State, value: fx.Node, other: fx.Node) -> bool:
        if value in state.values:
            return state.values[value] is other
        if value.op != "placeholder" and other.op == "placeholder":
            return False
        state.values[value] = other
        return _accepts(self.specs[value], other.meta.get("val"), state.sizes)

    def _finish(self, state: _State) -> Place | None:
        nodes = [state.values[node] for node in _calls(self.graph)]
        inputs = [state.values[node] for node in self.graph.nodes if node.op == "placeholder"]
        results = [state.values[node] for node in self.results]
        place = Place(nodes, inputs, results, state.sizes, self.order)
        # The pattern would feed itself.
        if any(node in nodes for node in inputs):
            return None
        checks = (PLACE_CHECKS[name](place, expected) for name, expected in self.rewrite.place)
        return place if all(checks) else None


def _replace(rewrite: Rewrite, graph: fx.GraphModule, places: list[Place]) -> None:
    """Puts the replacement at places of one graph."""
    replacement, results = _trace(rewrite.replacement)
    inputs = [node for node in replacement.nodes if node.op == "placeholder"]
    original = list(graph.graph.nodes)
    # A later place may take what an earlier one gave.
    replaced: dict[fx.Node, fx.Node] = {}
    for place in places:
        copies = {
            own: replaced.get(value, value) for own, value in zip(inputs, place.inputs, strict=True)
        }
        kept = {
            key: place.nodes[0].meta[key]
            for key in ("stack_trace", "nn_module_stack")
            if key in place.nodes[0].meta
        }
        with graph.graph.inserting_before(original[place.before]):
            for node in _calls(replacement):
                copies[node] = graph.graph.node_copy(node, copies.__getitem__)
                copies[node].meta = dict(kept)
        for old, new in zip(place.results, results, strict=True):
            replaced[old] = copies[new]
            old.replace_all_uses_with(copies[new])
    order = {node: position for position, node in enumerate(original)}
    dead = [node for place in places for node in place.nodes]
    for node in sorted(dead, key=order.__getitem__, reverse=True):
        if not node.users:
            graph.graph.erase_node(node)


# ---------------------------------------------------------------------------------------------------------------------
# Calls: operators in one form, whichever way they were written
# ---------------------------------------------------------------------------------------------------------------------

_MEMORY_FORMATS = (
    torch.contiguous_format,
    torch.preserve_format,
    torch.channels_last,
    torch.channels_last_3d,
)
_DTYPES = {3: torch.int32, 4: torch.int64, 6: torch.float32, 7: torch.float64, 11: torch.bool}


def _normalized(node: fx.Node) -> list[Any]:
    """The arguments in the order of the operator's schema, with defaults explicit, whole numbers for floats as floats, and
    tuples for lists as lists."""
    schema = getattr(node.target, "_schema", None)
    names = {argument.name for argument in schema.arguments} if schema is not None else set()
    if schema is None or len(node.args) > len(names) or not names.issuperset(node.kwargs):
        return [tuple(node.args), dict(node.kwargs)]
    arguments = []
    for position, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        if argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        elif position < len(node.args):
            value = node.args[position]
        else:
            value = _default(argument)
        if isinstance(value, tuple) and "List[" in kind:
            value = list(value)
        arguments.append(_as_floats(value) if "float" in kind else value)
    return arguments


def _default(argument: Any) -> Any:
    value, kind = argument.default_value, str(argument.real_type)
    if isinstance(value, int) and "MemoryFormat" in kind:
        return _MEMORY_FORMATS[value]
    if isinstance(value, int) and "ScalarType" in kind:
        return _DTYPES[value]
    return value


def _as_floats(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_as_floats(element) for element in value)
    return float(value) if type(value) is int else value


def _same(expected: Any, actual: Any, pairs: list[tuple[fx.Node, fx.Node]]) -> bool:
    """True for equal arguments; adds the values that stand for each other to `pairs`. Floats are compared by their bits."""
    if isinstance(expected, fx.Node) and isinstance(actual, fx.Node):
        pairs.append((expected, actual))
        return True
    for kind in (list, tuple):
        if isinstance(expected, kind) and isinstance(actual, kind):
            return len(expected) == len(actual) and all(
                _same(one, other, pairs) for one, other in zip(expected, actual, strict=True)
            )
    if isinstance(expected, dict) and isinstance(actual, dict):
        return list(expected) == list(actual) and _same(
            list(expected.values()), list(actual.values()), pairs
        )
    if isinstance(expected, slice) and isinstance(actual, slice):
        return _same(
            [expected.start, expected.stop, expected.step],
            [actual.start, actual.stop, actual.step],
            pairs,
        )
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, float):
        return struct.pack("d", expected) == struct.pack("d", actual)
    if isinstance(expected, complex):
        return struct.pack("dd", expected.real, expected.imag) == struct.pack(
            "dd", actual.real, actual.imag
        )
    return bool(expected == actual)


# ---------------------------------------------------------------------------------------------------------------------
# Conditions: what the rewrites above say has to hold, and nothing else
# ---------------------------------------------------------------------------------------------------------------------


def _accepts(spec: Spec, value: Any, sizes: dict[str, int]) -> bool:
    if isinstance(spec, tuple):
        return (
            isinstance(value, (list, tuple))
            and len(value) >= len(spec)
            and all(_accepts(one, other, sizes) for one, other in zip(spec, value, strict=False))
        )
    return all(
        isinstance(value, torch.Tensor) and check(value, getattr(spec, name), sizes)
        for name, check in VALUE_CHECKS.items()
        if getattr(spec, name) is not None
    )


def _agree(expected: Sequence[Any], actual: Sequence[Any], sizes: dict[str, int]) -> bool:
    return len(expected) == len(actual) and all(
        size is None
        or (
            isinstance(other, int)
            and (sizes.setdefault(size, other) if isinstance(size, str) else size) == other
        )
        for size, other in zip(expected, actual, strict=True)
    )


def _has_shape(value: torch.Tensor, expected: Any, sizes: dict[str, int]) -> bool:
    return _agree(expected, value.shape, sizes)


def _has_stride(value: torch.Tensor, expected: Any, sizes: dict[str, int]) -> bool:
    if value.layout != torch.strided:
        return False
    if expected != "contiguous":
        return _agree(expected, value.stride(), sizes)
    stride = 1
    for size, actual in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if actual != stride:
            return False
        stride *= max(size, 1)
    return True


def _class_name(value: torch.Tensor) -> str:
    kind = type(value)
    plain = kind.__module__.partition(".")[0] == "torch"
    return "" if plain else f"{kind.__module__}.{kind.__qualname__}"


VALUE_CHECKS: dict[str, Callable[[torch.Tensor, Any, dict[str, int]], bool]] = {
    "dtype": lambda value, expected, sizes: value.dtype == expected,
    "shape": _has_shape,
    "stride": _has_stride,
    "device": lambda value, expected, sizes: str(value.device) == expected,
    "layout": lambda value, expected, sizes: str(value.layout) == f"torch.{expected}",
    "subclass": lambda value, expected, sizes: _class_name(value) == expected,
    "requires_grad": lambda value, expected, sizes: value.requires_grad == expected,
}


def _inner_uses_only(place: Place, expected: None) -> bool:
    """What the pattern does not give out is used inside only."""
    return all(
        node in place.results or not any(place.is_outside(user) for user in node.users)
        for node in place.nodes
    )


def _inputs_come_first(place: Place, expected: None) -> bool:
    """All inputs are there before a result is used."""
    return not any(
        place.is_outside(user) and place.order[user] < place.before
        for node in place.results
        for user in node.users
    )


def _effects_in_order(place: Place, expected: None) -> bool:
    """Nothing writes between the nodes, or draws random numbers where one of them does."""
    positions = [place.order[node] for node in place.nodes]
    draws = any(_draws(node) for node in place.nodes)
    return not any(
        place.is_outside(node) and (_writes(node) or (draws and _draws(node)))
        for node in place.between(min(positions), max(positions))
    )


def _results_stay_inside(place: Place, expected: None) -> bool:
    """The graph returns no result, nor a view of one, which would become a view of a larger tensor."""
    stack = list(place.results)
    while stack:
        node = stack.pop()
        if any(user.op == "output" for user in node.users):
            return False
        stack += _views(node)
    return True


def _nothing_written_after(place: Place, expected: None) -> bool:
    """For a replacement that may return what it takes: no tensor is written later."""
    return not any(_writes(node) for node in place.between(place.before, len(place.order)))


# They read storage by its layout: they would fail, or give other numbers.
_BY_LAYOUT = (
    torch.ops.aten.as_strided.default,
    torch.ops.aten.as_strided_.default,
    torch.ops.aten.view.dtype,
    torch.ops.aten.view_as_real.default,
    torch.ops.aten.view_as_complex.default,
)
_STRICT_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)


def _views_work(place: Place, expected: tuple[int, Sequence[Any] | None]) -> bool:
    """Views of a result, and their views, exist when it is laid out as the replacement does. None stands for unknown strides."""
    index, named = expected
    strides: list[Any] | None = (
        None if named is None else [place.sizes.get(s) if isinstance(s, str) else s for s in named]
    )
    if strides is not None and None in strides:
        strides = None
    stack: list[tuple[fx.Node, Sequence[Any] | None]] = [(place.results[index], strides)]
    while stack:
        node, layout = stack.pop()
        for view in _views(node):
            inferred = None if layout is None else _view_strides(view, layout)
            if view.target in _BY_LAYOUT or (view.target in _STRICT_VIEWS and inferred is None):
                return False
            stack.append((view, inferred))
    return True


def _view_strides(view: fx.Node, strides: Sequence[Any]) -> Sequence[int] | None:
    """The strides of a view of its first operand laid out with `strides`, or None where that is not known."""
    source, result = view.all_input_nodes[0].meta.get("val"), view.meta.get("val")
    if not isinstance(source, torch.Tensor) or not isinstance(result, torch.Tensor):
        return None
    laid_out = torch.empty_strided(tuple(source.shape), tuple(strides), device="meta")
    try:
        if view.target in (*_STRICT_VIEWS, torch.ops.aten.reshape.default):
            return laid_out.view(tuple(result.shape)).stride()
        if view.target in (torch.ops.aten.transpose.int, torch.ops.aten.permute.default):
            return view.target(laid_out, *_normalized(view)[1:]).stride()
    except RuntimeError:
        return None
    return None


PLACE_CHECKS: dict[str, Callable[[Place, Any], bool]] = {
    "inner_uses_only": _inner_uses_only,
    "inputs_come_first": _inputs_come_first,
    "effects_in_order": _effects_in_order,
    "results_stay_inside": _results_stay_inside,
    "views_work": _views_work,
    "nothing_written_after": _nothing_written_after,
}


def _views(node: fx.Node) -> list[fx.Node]:
    """The nodes whose result may share storage with `node`, which is their first operand."""
    return [
        user
        for user in node.users
        if user.op != "output" and user.all_input_nodes[0] is node and _may_alias(user)
    ]


def _writes(node: fx.Node) -> bool:
    """True where the node may write a tensor that existed before: its schema says so, or nothing is known of it."""
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return schema.is_mutable
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return not _computes_only(node)
    module, name = getattr(node.target, "__module__", ""), getattr(node.target, "__name__", "")
    if module in (operator.__name__, operator.getitem.__module__):
        return name.startswith("i") or name == "setitem"
    return module != "math" and not (module == "torch" and name.startswith("sym_"))


# Higher-order operators that do what their subgraphs do and no more.
_CONTROL_FLOW = (
    "cond",
    "while_loop",
    "scan",
    "associative_scan",
    "map_impl",
    "invoke_subgraph",
    "wrap_with_set_grad_enabled",
    "wrap_with_autocast",
)


def _computes_only(node: fx.Node) -> bool:
    names = [operand.target for operand in node.all_input_nodes if operand.op == "get_attr"]
    values = [getattr(node.graph.owning_module, str(name), None) for name in names]
    subgraphs = [value for value in values if isinstance(value, fx.GraphModule)]
    return (
        node.target.name() in _CONTROL_FLOW
        and bool(subgraphs)
        and not any(_writes(inner) for subgraph in subgraphs for inner in subgraph.graph.nodes)
    )


def _propagate_values(graph: fx.GraphModule) -> None:
    """Gives the nodes that a replacement brought in the fake values that others have."""
    values = [node.meta["val"] for node in _placeholders(graph)]
    modes = [value.fake_mode for value in values if isinstance(value, FakeTensor)]
    if modes:
        needed = [isinstance(v, torch.Tensor) and v.requires_grad for v in values]
        with torch.no_grad():
            FakeTensorProp(graph, modes[0]).propagate_dont_convert_inputs(*values)
        _note_gradients(graph, needed)


# ---------------------------------------------------------------------------------------------------------------------
# Region strategies
# ---------------------------------------------------------------------------------------------------------------------


def _with_tf32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with products on TF32 units while it runs: Inductor asks when it compiles, cuBLAS when it is called."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        products = torch.backends.cuda.matmul
        before = products.fp32_precision
        if before == "tf32":
            return function(*args, **kwargs)
        # This sets what the older and the newer interface of PyTorch read, which refuses to go on where they differ.
        products.allow_tf32 = True
        try:
            return function(*args, **kwargs)
        finally:
            products.allow_tf32 = False
            products.fp32_precision = before

    return wrapped


# Changes that no tensor tells of: each step of an optimizer (fused ones write weights and leave their versions), each refresh().
_changes = 0


def refresh() -> None:
    """Has everything that was made of weights made again in the next call: for writes that tensors do not tell of.

    These are writes through `weight.data`, through NumPy arrays and DLPack, and by code that is not PyTorch's.
    """
    global _changes
    _changes += 1


_checked_every = 0


def check_weights_every(calls: int) -> None:
    """Lets each program compare a checksum of its weights in every `calls`-th call, and refresh where it differs; 0 stops that.

    It sees every write, at the latest that many calls after it. It reads all weights, and waits for the device.
    """
    global _checked_every
    _checked_every = calls


def _note_step(*_: Any) -> None:
    refresh()


register_optimizer_step_post_hook(_note_step)


def _checksum(value: torch.Tensor) -> int:
    """A number that differs where one element does, and almost certainly where several do."""
    words = value.detach().contiguous().reshape(-1).view(torch.uint8).to(torch.int64)
    places = torch.arange(words.numel(), device=words.device) * 2 + 1
    return int((words * places).sum())


@dataclass(frozen=True)
class Weight:
    """A weight as it was when something was made of it. It is held, so nothing else can be at its address."""

    value: torch.Tensor
    # Holds the storage where another is put under `value` (`value.data = …`).
    alias: torch.Tensor
    address: int
    version: int

    @classmethod
    def of(cls, value: torch.Tensor) -> "Weight":
        return cls(value, value.detach(), value.data_ptr(), value._version)

    def is_still(self, value: torch.Tensor) -> bool:
        return (
            value is self.value
            and value.data_ptr() == self.address
            and value._version == self.version
        )


class Program:
    """A rewritten graph, compiled, with what its prologue made of the weights.

    That is made again, and nothing is compiled again, when a weight is another tensor, has been written to, or an optimizer has
    made a step. For what tensors do not tell, see refresh() and check_weights_every().
    """

    def __init__(
        self, graph: fx.GraphModule, inputs: Sequence[Any], weights: list[int], state: GraphStatus
    ) -> None:
        self.state = state
        self.lock = threading.RLock()
        self.strategy = self._choose(graph, inputs)
        state.strategy = self.strategy
        if self.strategy.precision:
            graph = _cast(graph, inputs, self.strategy.precision)
        written = _written_inputs(graph)
        # Tensors of inference mode have no versions, so nothing is made of them.
        keeps = self.strategy.prologue or self.strategy.freeze or self.strategy.cuda_graph
        self.weights = [
            i for i in weights if keeps and i not in written and not inputs[i].is_inference()
        ]
        self.data = [i for i in range(len(inputs)) if i not in set(self.weights)]
        self.prologue, main, self.constants = _split_prologue(graph, self.weights)
        self.copied = _made_of_weights(graph, self.weights)
        self.captured: CapturedGraph | None = None
        self.sums: list[int] | None = None
        self.calls = 0
        self.made: tuple[torch.Tensor, ...] = ()
        self.seen = self._look(inputs)
        self._make(inputs)
        self.graph = graph
        data = [inputs[i] for i in self.data]
        self.frozen: Any = None
        self.compiled: Any = None
        if self.strategy.freeze and self.weights:
            held = [*self.made, *(inputs[i].detach() for i in self.constants)]
            # Constants of the program: it takes them as they were, and a refresh needs the other one.
            self.frozen = self._compile(_with_constants(main, held), data, freezing=True)
            self.main = _split_prologue(graph, self.weights)[1]
        else:
            self.compiled = self._compile(main, [*self._held(inputs), *data])
        self.first = True

    def _choose(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Strategy:
        """The strategy without the parts that would change what this graph gives."""
        strategy = STRATEGY
        parts: list[tuple[str, dict[str, Any], str | None]] = []
        if strategy.precision:
            parts.append(("precision", {"precision": None}, _why_not_cast(graph)))
        if strategy.freeze:
            parts.append(("freeze", {"freeze": False}, _why_not_freeze(graph)))
        if strategy.cuda_graph:
            parts.append(("cuda_graph", {"cuda_graph": False}, _why_not_capture(graph, inputs)))
        for name, without, reason in parts:
            if reason:
                strategy = replace(strategy, **without)
                self._leave_out(name, reason)
        return strategy

    def _leave_out(self, name: str, reason: str) -> None:
        self.state.left_out.append(f"{name}: {reason}")
        log.warning("%s: no %s for a graph, as %s", BACKEND_NAME, name, reason)

    def _compile(self, graph: fx.GraphModule, inputs: list[Any], *, freezing: bool = False) -> Any:
        options = {"max_autotune": True} if self.strategy.autotune else {}
        if freezing:
            options["freezing"] = True
        # Compiled inside Dynamo's own compilation, whose lock is held: Inductor takes one program at a time.
        tf32 = self.strategy.tf32
        with torch._guards.tracing(None):
            compile_graph = _with_tf32(compile_fx) if tf32 else compile_fx
            compiled = compile_graph(graph, inputs, config_patches=options)
        return _with_tf32(compiled) if tf32 else compiled

    def _look(self, inputs: Sequence[Any]) -> tuple[int, list[Weight]]:
        """What the weights are, before anything is made of them: a write from now on is one more change."""
        return _changes, [Weight.of(inputs[i]) for i in self.weights]

    def _is_current(self, inputs: Sequence[Any]) -> bool:
        changes, seen = self.seen
        return changes == _changes and all(
            weight.is_still(inputs[i]) for i, weight in zip(self.weights, seen, strict=True)
        )

    def _check(self, inputs: Sequence[Any]) -> None:
        """The comparison that check_weights_every() asks for."""
        self.calls += 1
        every = _checked_every
        if not every or (self.sums is not None and self.calls % every):
            return
        sums = [_checksum(inputs[i]) for i in self.weights]
        # What was made before the first comparison may be of older values.
        if sums != self.sums:
            self._refresh(inputs)
            self.sums = sums

    def _make(self, inputs: Sequence[Any]) -> None:
        if self.prologue is None:
            return
        with torch.no_grad():
            made = self.prologue(*[inputs[i].detach() for i in self.weights])
            if self.captured is None:
                self.made = tuple(made)
            else:
                # The captured graph reads these where they lie.
                torch._foreach_copy_(list(self.made), list(made))

    def _refresh(self, inputs: Sequence[Any]) -> None:
        """Makes again what was made of the weights. Calls in other threads go on with what there was until all is done."""
        seen = self._look(inputs)
        pairs = zip(self.seen[1], seen[1], strict=True)
        if any(old.address != new.address for old, new in pairs):
            # The captured graph reads weights where they were.
            self.captured, self.first = None, True
        if self.captured is not None:
            self.captured.wait()
        self._make(inputs)
        if self.captured is not None:
            self.captured.mark()
        if self.frozen is not None:
            # Changed once, they are weights in training, or of a model that is loaded anew: no longer constants.
            data = [inputs[i] for i in self.data]
            with _compile_lock:
                self.compiled = self._compile(self.main, [*self._held(inputs), *data])
            self.frozen, self.captured, self.first = None, None, True
        self.state.refreshes += 1
        self.seen = seen

    def _held(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        return [*self.made, *(inputs[i].detach() for i in self.constants)]

    def _run(self, inputs: Sequence[Any]) -> Any:
        data = [inputs[i] for i in self.data]
        frozen = self.frozen
        return frozen(*data) if frozen is not None else self.compiled(*self._held(inputs), *data)

    def __call__(self, *inputs: Any) -> Any:
        self.state.calls += 1
        if self.strategy.cuda_graph:
            with self.lock:
                self._renew(inputs)
                return self._replay(inputs)
        if self.weights and (_checked_every or not self._is_current(inputs)):
            with self.lock:
                self._renew(inputs)
        results = self._run(inputs)
        if not self.copied:
            return results
        results = list(results)
        for position in self.copied:
            results[position] = results[position].clone()
        return results

    def _renew(self, inputs: Sequence[Any]) -> None:
        if not self._is_current(inputs):
            self._refresh(inputs)
        if _checked_every:
            self._check(inputs)

    def _replay(self, inputs: Sequence[Any]) -> Any:
        """One call by the captured graph: calls share its buffers, so they take turns, on the host and on the device."""
        data = [inputs[i] for i in self.data]
        if self.first:
            self.first = False
            held, frozen, compiled = self._held(inputs), self.frozen, self.compiled

            def function(*values: Any) -> Any:
                return frozen(*values) if frozen is not None else compiled(*held, *values)

            try:
                self.captured = CapturedGraph(function, data)
            except Exception as error:
                first = (str(error) or "no message").splitlines()[0]
                self._leave_out("cuda_graph", f"{type(error).__name__}: {first}")
        if self.captured is not None:
            return self.captured(*data)
        results = list(self._run(inputs))
        for position in self.copied:
            results[position] = results[position].clone()
        return results


# Inductor compiles one program at a time, and Dynamo may be at it in another thread.
_compile_lock: Any = getattr(torch._dynamo.convert_frame, "compile_lock", threading.RLock())
# Captures of graphs, one at a time.
_capture_lock = threading.RLock()


class CapturedGraph:
    """A function on CUDA tensors, captured once as a CUDA graph; a call copies its inputs in, replays, and copies out.

    Its caller lets one call in at a time. Streams may differ from call to call.
    """

    def __init__(self, function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> None:
        # The graph reads what the function holds, for as long as it is replayed.
        self.function = function
        self.inputs = [_buffer_like(value) for value in inputs]
        self.targets = [_once(value) for value in self.inputs]
        self.device = torch.cuda.current_device()
        for target, value in zip(self.targets, inputs, strict=True):
            target.copy_(_once(value))
        self.done = torch.cuda.Event()
        with _capture_lock:
            current = torch.cuda.current_stream()
            side = torch.cuda.Stream()
            side.wait_stream(current)
            # Libraries allocate workspaces and Triton loads kernels in the first calls, which a capture must not see.
            with torch.cuda.stream(side):
                for _ in range(3):
                    function(*self.inputs)
            current.wait_stream(side)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            # Other threads may allocate and synchronize meanwhile.
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self.outputs = list(function(*self.inputs))
        self.mark()

    def wait(self) -> None:
        """Has the current stream wait for the call before, whatever stream that was on."""
        torch.cuda.current_stream(self.device).wait_event(self.done)

    def mark(self) -> None:
        self.done.record(torch.cuda.current_stream(self.device))

    def __call__(self, *inputs: torch.Tensor) -> Any:
        with torch.cuda.device(self.device):
            self.wait()
            if self.inputs:
                torch._foreach_copy_(self.targets, [_once(value) for value in inputs])
            self.graph.replay()
            results = _copies(self.outputs)
            self.mark()
        return results


def _buffer_like(value: torch.Tensor) -> torch.Tensor:
    """An uninitialized tensor of the same sizes and strides."""
    extent = sum(
        (size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)
    )
    storage = torch.empty(
        extent + 1 if value.numel() else 0, dtype=value.dtype, device=value.device
    )
    return storage.as_strided(value.shape, value.stride())


def _once(value: torch.Tensor) -> torch.Tensor:
    """The tensor without the repetitions of an expanded one, so that it can be written to."""
    if 0 not in value.stride():
        return value.detach()
    sizes = [
        1 if stride == 0 else size for size, stride in zip(value.shape, value.stride(), strict=True)
    ]
    return value.detach().as_strided(sizes, value.stride())


def _copies(values: Sequence[Any]) -> list[Any]:
    """Copies with the strides of the originals; those that share storage share it again."""
    storages: dict[int, torch.UntypedStorage] = {}
    results: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            own = value.untyped_storage()
            if own.data_ptr() not in storages:
                storages[own.data_ptr()] = own.clone()
            copy = torch.empty(0, dtype=value.dtype, device=value.device)
            value = copy.set_(
                storages[own.data_ptr()], value.storage_offset(), value.shape, value.stride()
            )
        results.append(value)
    return results


# ---------------------------------------------------------------------------------------------------------------------
# What a strategy may be used for
# ---------------------------------------------------------------------------------------------------------------------


def _results(graph: fx.GraphModule) -> list[Any]:
    return list(torch.utils._pytree.tree_leaves(graph.graph.output_node().args[0]))


def _storage(node: Any) -> int | None:
    """What stands for the storage of a node's value; None where it has none."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    return int(value.untyped_storage()._cdata)


def _shared_results(graph: fx.GraphModule) -> str | None:
    """Why copies of the results would be wrong: one is an input or a view of it, or two share storage."""
    storages = [_storage(node) for node in _results(graph)]
    known = [storage for storage in storages if storage is not None]
    if set(known) & {_storage(node) for node in _placeholders(graph)}:
        return "a result shares storage with an input"
    if len(set(known)) != len(known):
        return "results share storage with each other"
    return None


def _made_of_weights(graph: fx.GraphModule, weights: list[int]) -> list[int]:
    """Positions of the results that depend on weights alone and are no views of them.

    What gives them is kept from call to call, so that a caller gets a copy.
    """
    placeholders = _placeholders(graph)
    constant = {placeholders[i] for i in weights}
    for node in graph.graph.nodes:
        if _is_constant(node, constant):
            constant.add(node)
    inputs = {_storage(node) for node in placeholders}
    return [
        position
        for position, node in enumerate(_results(graph))
        if isinstance(node, fx.Node) and node in constant and _storage(node) not in inputs
    ]


def _why_not_freeze(graph: fx.GraphModule) -> str | None:
    if set(map(_storage, _results(graph))) & set(map(_storage, _placeholders(graph))) - {None}:
        return "a result shares storage with an input"
    return None


def _why_not_capture(graph: fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    if not inputs or not all(value.is_cuda for value in inputs):
        return "its inputs are not on a GPU"
    if len({value.device for value in inputs}) > 1:
        return "its inputs are on several GPUs"
    if inputs[0].device.index != torch.cuda.current_device():
        return "its GPU is not the current one"
    if any(type(value) not in (torch.Tensor, torch.nn.Parameter) for value in inputs) or any(
        value.layout != torch.strided for value in inputs
    ):
        return "an input is no plain tensor"
    if _written_inputs(graph):
        return "the graph writes its inputs"
    if any(_draws(node) for node in graph.graph.nodes):
        return "the graph draws random numbers"
    return _why_not_freeze(graph)


def _why_not_cast(graph: fx.GraphModule) -> str | None:
    nodes = list(graph.graph.nodes)
    if _written_inputs(graph):
        return "the graph writes its inputs"
    if any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in nodes):
        return "the graph holds subgraphs"
    for node in nodes:
        for value in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and value.is_complex():
                return "the graph computes with complex numbers"
    floats = {
        node.meta["val"].dtype
        for node in _placeholders(graph)
        if isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].is_floating_point()
    }
    if floats - {torch.float32}:
        return "not all of its inputs are float32"
    if any(map(_writes, nodes)) and _exact_nodes(graph):
        return "the graph writes tensors, and computes with positions"
    return _shared_results(graph)


# Functions of a number of any size whose value is small.
_BOUNDED = (
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "softmax",
    "_softmax",
    "_safe_softmax",
    "sign",
    "erf",
    "layer_norm",
    "scaled_dot_product_attention",
)


def _exact_nodes(graph: fx.GraphModule) -> set[fx.Node]:
    """The float32 values that keep their precision: those that are computed of whole numbers, up to where they are bounded.

    float16 holds whole numbers up to 2048 only, and a position is more than that.
    """
    exact: set[fx.Node] = set()
    for node in graph.graph.nodes:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            continue
        if value.dtype is not torch.float32:
            continue
        values = [operand.meta.get("val") for operand in node.all_input_nodes]
        tensors = [operand for operand in values if isinstance(operand, torch.Tensor)]
        whole = any(not t.is_floating_point() and t.dtype is not torch.bool for t in tensors)
        floating = any(t.is_floating_point() for t in tensors)
        pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
        counts = not tensors and "arange" in str(node.target)
        started = counts or (whole and (pointwise or not floating))
        name = str(getattr(node.target, "_opname", ""))
        if started or any(operand in exact for operand in node.all_input_nodes):
            if name not in _BOUNDED or started:
                exact.add(node)
    return exact


def _written_inputs(graph: fx.GraphModule) -> set[int]:
    """Positions of the inputs that the graph writes to, itself or through a view."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    written: set[fx.Node] = set()
    for node in graph.graph.nodes:
        if node.op != "call_function" or not _writes(node):
            continue
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            stack = list(node.all_input_nodes)
        else:
            stack = []
            for position, argument in enumerate(schema.arguments):
                if argument.alias_info is None or not argument.alias_info.is_write:
                    continue
                value = (
                    node.args[position]
                    if position < len(node.args)
                    else node.kwargs.get(argument.name)
                )
                stack += [
                    leaf
                    for leaf in torch.utils._pytree.tree_leaves(value)
                    if isinstance(leaf, fx.Node)
                ]
        while stack:
            origin = stack.pop()
            if origin not in written:
                written.add(origin)
                stack += origin.all_input_nodes if _may_alias(origin) else []
    return {position for position, node in enumerate(placeholders) if node in written}


def _may_alias(node: fx.Node) -> bool:
    """True where the node's result may share storage with what it takes."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return True
    return any(result.alias_info is not None for result in schema.returns)


def _cast(graph: fx.GraphModule, inputs: Sequence[Any], dtype: torch.dtype) -> fx.GraphModule:
    """The graph at a lower precision: float32 inputs cast on entry, all that was float32 in between, results cast back.

    What is computed of whole numbers stays float32, and takes inputs as they were.
    """
    exact = _exact_nodes(graph)
    takes_exact = {
        node for node in graph.graph.nodes if exact.intersection([node, *node.all_input_nodes])
    }
    originals = _results(graph)

    def convert(value: Any, source: torch.dtype, target: torch.dtype) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is source:
            return torch.ops.aten._to_copy.default(value, dtype=target)
        return value

    class Lower(fx.Interpreter):
        def run_node(self, node: fx.Node) -> Any:
            if node.op != "call_function":
                return super().run_node(node)
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            wide = node in takes_exact

            def prepare(leaf: Any) -> Any:
                if wide:
                    return convert(leaf, dtype, torch.float32)
                return dtype if leaf is torch.float32 else leaf

            args, kwargs = torch.utils._pytree.tree_map(prepare, (args, kwargs))
            result = self.call_function(node.target, args, kwargs)
            if wide and node not in exact:
                return torch.utils._pytree.tree_map(
                    lambda leaf: convert(leaf, torch.float32, dtype), result
                )
            return result

        def fetch_args_kwargs_from_env(self, node: fx.Node) -> Any:
            args, kwargs = super().fetch_args_kwargs_from_env(node)
            if node not in takes_exact:
                return args, kwargs
            # The inputs of the graph as they came, before they were cast.
            return fx.node.map_arg(
                (node.args, node.kwargs),
                lambda operand: self.wide.get(operand, self.env[operand]),
            )

    def lowered(*values: Any) -> Any:
        lower = Lower(graph)
        lower.wide = dict(zip(_placeholders(graph), values, strict=True))
        results = lower.run(*[convert(value, torch.float32, dtype) for value in values])
        leaves, structure = torch.utils._pytree.tree_flatten(results)
        restored = [
            convert(leaf, dtype, torch.float32)
            if isinstance(original, fx.Node) and _dtype(original) is torch.float32
            else leaf
            for leaf, original in zip(leaves, originals, strict=True)
        ]
        return torch.utils._pytree.tree_unflatten(restored, structure)

    return _to_aten(lowered, inputs)


def _dtype(node: fx.Node) -> torch.dtype | None:
    return getattr(node.meta.get("val"), "dtype", None)


def _split_prologue(
    graph: fx.GraphModule, weights: list[int]
) -> tuple[fx.GraphModule | None, fx.GraphModule, list[int]]:
    """Splits off what depends on weights alone.

    Returns that graph (or None), the rest, and which weights the rest still takes. The rest takes the first graph's results,
    then those weights, then all other inputs.
    """
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    constant = {placeholders[i] for i in weights}
    for node in graph.graph.nodes:
        if _is_constant(node, constant):
            constant.add(node)
    # A view costs nothing in every call, so only what computes is worth keeping.
    kept = [
        node
        for node in graph.graph.nodes
        if node in constant
        and node.op == "call_function"
        and not _may_alias(node)
        and isinstance(node.meta.get("val"), torch.Tensor)
        and any(user not in constant for user in node.users)
    ]
    prologue = None
    if kept:
        first = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {
            placeholders[i]: first.placeholder(placeholders[i].name) for i in weights
        }
        needed = set(kept)
        for node in reversed(graph.graph.nodes):
            if node in needed:
                needed.update(node.all_input_nodes)
        for node in graph.graph.nodes:
            if node in needed and node not in copies:
                copies[node] = first.node_copy(node, copies.__getitem__)
        first.output(tuple(copies[node] for node in kept))
        prologue = fx.GraphModule(graph, first)

    rest = fx.Graph()
    mapped: dict[fx.Node, fx.Node] = {}
    live = _live_nodes(graph, set(kept))
    held = [i for i in weights if placeholders[i] in live]
    for node in kept:
        mapped[node] = rest.placeholder(f"prologue_{node.name}")
        mapped[node].meta = dict(node.meta)
    for i in [*held, *(i for i in range(len(placeholders)) if i not in set(weights))]:
        mapped[placeholders[i]] = rest.node_copy(placeholders[i])
    for node in graph.graph.nodes:
        if node in mapped or node.op == "placeholder":
            continue
        if node in live or node.op == "output":
            mapped[node] = rest.node_copy(node, mapped.__getitem__)
    return prologue, fx.GraphModule(graph, rest), held


def _draws(node: fx.Node) -> bool:
    """True for a node that draws random numbers. Attention, dropout and recurrent layers do so only when dropout is on."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if arguments.get("train") is False or arguments.get("training") is False:
        return False
    return not ("dropout_p" in names and arguments.get("dropout_p", 0.0) == 0)


def _is_constant(node: fx.Node, constant: set[fx.Node]) -> bool:
    """True for a node that gives the same in every call, as it takes nothing but what does."""
    return (
        node.op == "call_function"
        and bool(node.all_input_nodes)
        and constant.issuperset(node.all_input_nodes)
        and not _writes(node)
        and not _draws(node)
    )


def _live_nodes(graph: fx.GraphModule, cut: set[fx.Node]) -> set[fx.Node]:
    """The nodes that are still computed where those of `cut` are given."""
    live: set[fx.Node] = set()
    for node in reversed(graph.graph.nodes):
        acts = node.op == "output" or (node.op == "call_function" and _writes(node))
        if (acts or node in live) and node not in cut:
            live.add(node)
            live.update(node.all_input_nodes)
    return live


def _with_constants(graph: fx.GraphModule, values: Sequence[torch.Tensor]) -> fx.GraphModule:
    """The graph with its first inputs turned into constants of the module."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for position, (node, value) in enumerate(zip(placeholders, values, strict=False)):
        name = f"constant_{position}"
        graph.register_buffer(name, value.detach())
        with graph.graph.inserting_before(node):
            attribute = graph.graph.get_attr(name)
        attribute.meta = dict(node.meta)
        node.replace_all_uses_with(attribute)
        graph.graph.erase_node(node)
    graph.recompile()
    return graph
