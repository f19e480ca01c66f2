# The source of every emitted backend: `opprof emit` writes this file with the rewrites put in at the marked place, and nothing
# else changed. It needs PyTorch only, so that a colleague can use what was emitted without opprof.

import contextlib
import functools
import logging
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._dynamo import register_backend
from torch._inductor.compile_fx import compile_fx
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.subgraph_rewriter import replace_pattern_with_filters

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TensorSpec:
    """What a matched tensor has to be; None stands for any size or stride."""

    dtype: torch.dtype
    shape: tuple[int | None, ...]
    stride: tuple[int | None, ...]
    device: str

    def accepts(self, value: Any) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and value.dtype == self.dtype
            and value.device.type == self.device
            and _agree(self.shape, value.shape)
            and _agree(self.stride, value.stride())
        )


@dataclass(frozen=True)
class Rewrite:
    """A pattern, what takes its place, and what its inputs and results have to be."""

    name: str
    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    inputs: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class Strategy:
    """How the whole graph is compiled and run."""

    # What depends on weights alone is computed once, not in every call.
    prologue: bool = False
    # Weights become constants that Inductor lays out once for its kernels.
    freeze: bool = False
    # Weights are cast once, inputs and outputs in every call.
    precision: torch.dtype | None = None
    # Inductor times its choices for each GEMM and convolution.
    autotune: bool = False
    # The compiled program is captured once into a CUDA graph and replayed.
    cuda_graph: bool = False


# >>> rewrites
BACKEND_NAME = "opprof_template"
REWRITES: tuple[Rewrite, ...] = ()
STRATEGY = replace(Strategy())
# <<< rewrites


# How often each rewrite was applied to the graph that was compiled last, and whether the strategy was used.
applied: dict[str, int] = {}


@register_backend(name=BACKEND_NAME)
def backend(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compiles a graph that Dynamo found: rewrites it at the ATen level, then hands it to Inductor."""
    refusal = _reason_to_leave_alone(inputs)
    if refusal:
        log.warning("%s: %s, so Inductor compiles this graph as it is", BACKEND_NAME, refusal)
        return compile_fx(module, list(inputs))
    weights = _weight_positions(module, inputs)
    graph = _to_aten(module, inputs)
    applied.clear()
    applied.update(apply_rewrites(graph))
    return Program(graph, inputs, weights)


def _reason_to_leave_alone(inputs: Sequence[Any]) -> str | None:
    if not all(isinstance(value, torch.Tensor) for value in inputs):
        return "sizes are symbolic"
    if torch.is_grad_enabled() and any(value.requires_grad for value in inputs):
        return "gradients are needed"
    return None


def _to_aten(function: Callable[..., Any], inputs: Sequence[Any]) -> fx.GraphModule:
    """`function` as a graph of ATen operators before autograd: the level that torch.export shows, and rewrites are made for."""
    # Dynamo's own context would make the sizes of some inputs symbols that its guards then know nothing of.
    with torch._guards.tracing(None):
        return make_fx(function, pre_dispatch=True, tracing_mode="fake")(*inputs)


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
    counts = {}
    for rewrite in REWRITES:
        matches = replace_pattern_with_filters(
            graph,
            rewrite.pattern,
            rewrite.replacement,
            match_filters=[functools.partial(_is_applicable, rewrite)],
        )
        counts[rewrite.name] = len(matches)
        if matches:
            _propagate_values(graph)
    if any(counts.values()):
        graph.graph.eliminate_dead_code()
        graph.recompile()
    return counts


def _is_applicable(rewrite: Rewrite, match: Any, graph: fx.Graph, pattern: fx.Graph) -> bool:
    """What structure alone does not say: types, order, and that nothing is written to in between."""
    ends = list(zip(rewrite.inputs, match.placeholder_nodes, strict=True))
    ends += zip(rewrite.results, match.returning_nodes, strict=True)
    if not all(
        isinstance(node, fx.Node) and spec.accepts(node.meta.get("val")) for spec, node in ends
    ):
        return False
    place = {node: position for position, node in enumerate(graph.nodes)}
    users = {user for node in match.returning_nodes for user in node.users}
    # A result that the graph returns would become a view of a larger tensor.
    if not users or any(user.op == "output" for user in users):
        return False
    inside = [
        place[node]
        for key, node in match.nodes_map.items()
        if key.op != "placeholder" and isinstance(node, fx.Node)
    ]
    first_use = min(place[user] for user in users)
    if any(place[node] >= first_use for node in match.placeholder_nodes):
        return False
    if any(min(inside) <= place[node] <= max(inside) and _writes(node) for node in graph.nodes):
        return False
    return _views_work(rewrite, match)


def _views_work(rewrite: Rewrite, match: Any) -> bool:
    """True where every aten.view of a result still is a view when the result is laid out as the replacement does."""
    values = [node.meta["val"] for node in match.placeholder_nodes]
    fake = values[0] if isinstance(values[0], FakeTensor) else None
    with fake.fake_mode if fake is not None else contextlib.nullcontext():
        results = rewrite.replacement(*values)
        results = (results,) if isinstance(results, torch.Tensor) else results
        for node, result in zip(match.returning_nodes, results, strict=True):
            for user in node.users:
                if user.target is torch.ops.aten.view.default:
                    try:
                        result.view(user.args[1])
                    except RuntimeError:
                        return False
    return True


def _agree(expected: Sequence[int | None], actual: Sequence[Any]) -> bool:
    return len(expected) == len(actual) and all(
        size is None or size == other for size, other in zip(expected, actual, strict=True)
    )


def _writes(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.op == "call_function" and node.target is not operator.getitem
    return schema.is_mutable


def _propagate_values(graph: fx.GraphModule) -> None:
    """Gives the nodes that a replacement brought in the fake values that others have."""
    values = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    modes = [value.fake_mode for value in values if isinstance(value, FakeTensor)]
    if modes:
        FakeTensorProp(graph, modes[0]).propagate_dont_convert_inputs(*values)


# ---------------------------------------------------------------------------------------------------------------------
# Region strategies
# ---------------------------------------------------------------------------------------------------------------------


class Program:
    """A rewritten graph, compiled on its first call and run on every one.

    What was made of the weights (the prologue's results, constants, a captured graph) is made again when one of them has been
    written to or replaced. A write through `weight.data` is not seen: call `torch.compiler.reset()` after one.
    """

    # Compiling again for new weights costs more than it brings in a program that keeps changing them.
    most_refreshes = 3

    def __init__(self, graph: fx.GraphModule, inputs: Sequence[Any], weights: list[int]) -> None:
        self.strategy = STRATEGY
        written = _written_inputs(graph)
        if self.strategy.precision and not written:
            graph = _cast(graph, inputs, self.strategy.precision)
        self.written = bool(written)
        self.random = any(_draws(node) for node in graph.graph.nodes)
        self.graph = graph
        self.weights = [position for position in weights if position not in written]
        self.count = len(inputs)
        self.seen: list[tuple[int, int]] | None = None
        self.data: list[int] = []
        self.run: Any = None
        self.refreshes = 0

    def __call__(self, *inputs: Any) -> Any:
        # The host compares weights while the device replays; what it reads is kept alive, so an outdated replay does no harm.
        if isinstance(self.run, CapturedGraph):
            results = self.run(*[inputs[i] for i in self.data])
            if self._state(inputs) == self.seen:
                return results
        if self._state(inputs) != self.seen:
            self._prepare(inputs)
            self.seen = self._state(inputs)
        return self.run(*[inputs[i] for i in self.data])

    def _state(self, inputs: Sequence[Any]) -> list[tuple[int, int]]:
        return [(inputs[i].data_ptr(), _version(inputs[i])) for i in self.weights]

    def _prepare(self, inputs: Sequence[Any]) -> None:
        self.refreshes += 1
        strategy = self.strategy
        if self.refreshes > self.most_refreshes:
            log.warning("%s: the weights keep changing, so they are taken as inputs", BACKEND_NAME)
            strategy, self.weights = Strategy(), []
        # A captured graph reads weights where they lie, and would otherwise copy them in every call.
        if not (strategy.prologue or strategy.freeze or strategy.cuda_graph):
            self.weights = []
        weights = self.weights
        prologue, main, constants = _split_prologue(self.graph, weights)
        made = prologue(*[inputs[i] for i in weights]) if prologue else ()
        held = [*made, *(inputs[i].detach() for i in constants)]
        self.data = [i for i in range(self.count) if i not in set(weights)]
        data = [inputs[i] for i in self.data]
        options = {"max_autotune": True} if strategy.autotune else {}
        if strategy.freeze:
            frozen = _with_constants(main, held)
            compiled = compile_fx(frozen, data, config_patches={**options, "freezing": True})
            self.run = compiled
        else:
            compiled = compile_fx(main, [*held, *data], config_patches=options)
            self.run = lambda *values: compiled(*held, *values)
        if strategy.cuda_graph:
            if self._can_be_captured(inputs):
                self.run = CapturedGraph(self.run, data)
            else:
                log.warning(
                    "%s: no CUDA graph, as the program writes its inputs, draws random numbers or is not on a GPU",
                    BACKEND_NAME,
                )

    def _can_be_captured(self, inputs: Sequence[Any]) -> bool:
        return not self.written and not self.random and all(value.is_cuda for value in inputs)


class CapturedGraph:
    """A function on CUDA tensors, captured once as a CUDA graph; a call copies its inputs in, replays, and copies out."""

    def __init__(self, function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> None:
        self.inputs = [value.clone() for value in inputs]
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
        with torch.cuda.graph(self.graph):
            self.outputs = function(*self.inputs)

    def __call__(self, *inputs: torch.Tensor) -> Any:
        if self.inputs:
            torch._foreach_copy_(self.inputs, list(inputs))
        self.graph.replay()
        return [
            value.clone() if isinstance(value, torch.Tensor) else value for value in self.outputs
        ]


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


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
    """The graph at a lower precision: float32 inputs cast on entry, all that was float32 in between, results cast back."""

    class Lower(fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = torch.utils._pytree.tree_map(
                lambda leaf: dtype if leaf is torch.float32 else leaf, (args, kwargs)
            )
            return super().call_function(target, args, kwargs)

    def convert(value: Any, source: torch.dtype, target: torch.dtype) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is source:
            return torch.ops.aten._to_copy.default(value, dtype=target)
        return value

    def lowered(*values: Any) -> Any:
        results = Lower(graph).run(*[convert(value, torch.float32, dtype) for value in values])
        return torch.utils._pytree.tree_map(
            lambda leaf: convert(leaf, dtype, torch.float32), results
        )

    return _to_aten(lowered, inputs)


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
