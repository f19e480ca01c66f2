"""Rewrites: where their patterns are, and what is put there."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from opprof.backend.emitted.calls import filled_in, normalized_arguments, same_arguments
from opprof.backend.emitted.conditions import PLACE_CHECKS, Place, accepts, holds_constant
from opprof.backend.emitted.definitions import PASSES, REWRITES, STRATEGY
from opprof.backend.emitted.effects import Effects
from opprof.backend.emitted.graphs import only_asserts, operator_name, propagate_values
from opprof.backend.emitted.interface import Open, Rewrite, Size
from opprof.backend.emitted.regions import class_of, is_product, most_exact, put_into_class


@dataclass
class Nearest:
    """Where most of a pattern was found, and what is there in the place of the rest."""

    matched: int = -1
    differs: str = ""
    node: str = ""

    def text(self, lines: Mapping[str, str]) -> str:
        """What differs and where, with the node's line in the program where `lines` has it."""
        if not self.node:
            return "no part of it is in the graph"
        line = f" ({lines[self.node]})" if self.node in lines else ""
        return f"nearest: {self.differs} at {self.node}{line}"


def apply_rewrites(
    graph: fx.GraphModule, missed: dict[str, Nearest] | None = None
) -> dict[str, int]:
    """Applies every rewrite to an ATen graph wherever its pattern is, then every pass; returns how often each was applied.

    `missed` gets those whose pattern is nowhere, and what stands where most of it is.
    """
    counts: dict[str, int] = {}
    for rewrite in REWRITES:
        nearest = Nearest()
        found = find_places(rewrite, graph, nearest)
        counts[rewrite.name] = counts.get(rewrite.name, 0) + len(found)
        if not found and missed is not None:
            missed[rewrite.name] = nearest
        if found:
            _replace(rewrite, graph, found)
            propagate_values(graph)
    for name, edit in PASSES:
        try:
            places = edit(graph)
        except Exception as error:
            # Whoever fills it in reads this in the log and in status(), where there is no traceback.
            raise RuntimeError(f"the pass {name!r} failed: {error!r}") from error
        # One that is still empty, or has found nothing, is no rewrite.
        if places:
            counts[name] = counts.get(name, 0) + places
            propagate_values(graph)
    if any(counts.values()):
        graph.graph.eliminate_dead_code()
        graph.recompile()
    return counts


def find_places(
    rewrite: Rewrite, graph: fx.GraphModule, nearest: Nearest | None = None
) -> list[Place]:
    """The places of the pattern that share no node, in the order of the node for the first result."""
    nearest = nearest or Nearest()
    order = {node: position for position, node in enumerate(graph.graph.nodes)}
    effects = Effects(graph)
    places: list[Place] = []
    taken: set[fx.Node] = set()
    for node in graph.graph.nodes:
        place = _Search(rewrite, order, effects, taken, nearest).start(node)
        if place:
            places.append(place)
            taken.update(place.nodes)
    return places


class _NotedSources(TorchFunctionMode):
    """Has calls that take no value, such as those of `full`, in the traced graph, which would be run and leave their result."""

    def __init__(self, tracer: fx.Tracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if types or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **(kwargs or {}))
        return self.tracer.create_proxy("call_function", func, args, kwargs or {})


@functools.cache
def _trace(function: Callable[..., Any]) -> tuple[fx.Graph, list[fx.Node]]:
    """The function as a graph, and its results."""
    tracer = fx.Tracer()
    with _NotedSources(tracer):
        graph = tracer.trace(function)
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


def leaves_open(pattern: Callable[..., Any]) -> bool:
    """True for a pattern that names constants or sizes in arguments: it can be looked for, and not called."""
    leaves = [
        leaf
        for node in _calls(_trace(pattern)[0])
        for leaf in tree_leaves((node.args, node.kwargs))
    ]
    return any(isinstance(leaf, (Open, Size)) for leaf in leaves)


def _calls(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op not in ("placeholder", "output")]


@dataclass
class _State:
    """What the pattern's values and sizes stand for so far, and which nodes are matched."""

    values: dict[fx.Node, fx.Node] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    matched: set[fx.Node] = field(default_factory=set)

    def copy(self) -> "_State":
        return _State(dict(self.values), dict(self.sizes), dict(self.constants), set(self.matched))


class _Search:
    """One search for a pattern, by backtracking from the node of its first result."""

    # Bounds the search in graphs where one value has very many users.
    most_tries = 10000

    def __init__(
        self,
        rewrite: Rewrite,
        order: dict[fx.Node, int],
        effects: Effects,
        taken: set[fx.Node],
        nearest: Nearest,
    ) -> None:
        self.rewrite = rewrite
        self.order = order
        self.effects = effects
        self.taken = taken
        self.nearest = nearest
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
        pairs: list[tuple[Any, Any]] = []
        if candidate in state.matched or candidate in self.taken:
            return False
        if candidate.op != node.op or candidate.target != node.target:
            # Every node is another one than the first that is looked for.
            return bool(state.matched) and self._refuse(
                state, candidate, "{} is where the pattern has {},", candidate, node
            )
        if not same_arguments(normalized_arguments(node), normalized_arguments(candidate), pairs):
            return self._refuse(
                state, candidate, "{} has other arguments than in the pattern", node
            )
        for value, other in [*pairs, (node, candidate)]:
            if not self._bind(state, value, other):
                which = "gives" if value is node else "takes"
                return self._refuse(
                    state, candidate, "{} {} something else than in the pattern", node, which
                )
        state.matched.add(candidate)
        return True

    def _refuse(self, state: _State, candidate: fx.Node, differs: str, *parts: Any) -> bool:
        """Notes what differs where more of the pattern was found than anywhere before; most nodes are refused, and cost no text."""
        near = self.nearest
        if len(state.matched) > near.matched:
            shown = [_shown(part) if isinstance(part, fx.Node) else part for part in parts]
            near.matched, near.node = len(state.matched), candidate.name
            near.differs = differs.format(*shown)
        return False

    def _bind(self, state: _State, value: Any, other: Any) -> bool:
        if isinstance(value, Size):
            return state.sizes.setdefault(value, other) == other
        if isinstance(value, Open):
            known = state.constants.setdefault(value, other) if value else other
            return same_arguments(known, other, [])
        if value in state.values:
            return state.values[value] is other
        if value.op != "placeholder" and other.op == "placeholder":
            return False
        state.values[value] = other
        spec = self.specs[value]
        return accepts(spec, other.meta.get("val"), state.sizes) and holds_constant(spec, other)

    def _finish(self, state: _State) -> Place | None:
        nodes = [state.values[node] for node in _calls(self.graph)]
        inputs = [state.values[node] for node in self.graph.nodes if node.op == "placeholder"]
        results = [state.values[node] for node in self.results]
        place = Place(
            nodes, inputs, results, state.sizes, state.constants, self.order, self.effects
        )
        # The pattern would feed itself.
        if any(node in nodes for node in inputs):
            return None
        for name, expected in self.rewrite.place:
            if not PLACE_CHECKS[name](place, expected):
                wanted = (PLACE_CHECKS[name].__doc__ or name).split(".")[0]
                self._refuse(state, nodes[0], "all of it is there, but not so: {},", wanted)
                return None
        return place


def _shown(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_function" else f"an input ({node.name})"


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
        # Levels of precision were chosen for what was there.
        classes = {operator_name(node): class_of(node) for node in reversed(place.nodes)}
        products = [name for node in place.nodes if is_product(node) and (name := class_of(node))]
        with graph.graph.inserting_before(original[place.before]):
            for node in _calls(replacement):
                copy = graph.graph.node_copy(node, copies.__getitem__)
                copy.args = filled_in(copy.args, place.constants, place.sizes)
                copy.kwargs = filled_in(copy.kwargs, place.constants, place.sizes)
                copy.meta = dict(kept)
                known = classes.get(operator_name(copy))
                if products and is_product(copy):
                    known = most_exact(products, dict(STRATEGY.regions))
                if known is not None:
                    put_into_class(copy, known)
                copies[node] = copy
        for old, new in zip(place.results, results, strict=True):
            replaced[old] = copies[new]
            old.replace_all_uses_with(copies[new])
    order = {node: position for position, node in enumerate(original)}
    dead = [node for place in places for node in place.nodes]
    for node in sorted(dead, key=order.__getitem__, reverse=True):
        # What is asserted of a value goes with it.
        for user in [user for user in node.users if only_asserts(user) and not user.users]:
            graph.graph.erase_node(user)
        if not node.users:
            graph.graph.erase_node(node)
