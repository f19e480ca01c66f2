"""Precision: a graph computed in narrower floats."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from opprof.backend.emitted.effects import written_inputs
from opprof.backend.emitted.graphs import (
    may_write,
    operator_name,
    placeholders_of,
    results_of,
    storage_of,
    trace_to_aten,
)


def _shared_results(graph: fx.GraphModule) -> str | None:
    """Why copies of the results would be wrong: one is an input or a view of it, or two share storage."""
    storages = [storage_of(node) for node in results_of(graph)]
    known = [storage for storage in storages if storage is not None]
    if set(known) & {storage_of(node) for node in placeholders_of(graph)}:
        return "a result shares storage with an input"
    if len(set(known)) != len(known):
        return "results share storage with each other"
    return None


def why_not_cast(graph: fx.GraphModule) -> str | None:
    nodes = list(graph.graph.nodes)
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))) or any(
        node.target is torch.amp.autocast_mode._enter_autocast for node in nodes
    ):
        return "autocast chooses the precision already"
    if written_inputs(graph):
        return "the graph writes its inputs"
    if any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in nodes):
        return "the graph holds subgraphs"
    for node in nodes:
        for value in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and value.is_complex():
                return "the graph computes with complex numbers"
    if any(operator_name(node) == "view" and _reads_bits(node) for node in nodes):
        return "the graph reads the bits of its numbers"
    floats = {
        node.meta["val"].dtype
        for node in placeholders_of(graph)
        if isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].is_floating_point()
    }
    if floats - {torch.float32}:
        return "not all of its inputs are float32"
    exact = exact_nodes(graph)
    for node in nodes:
        # What it writes would be a copy of another precision.
        if may_write(node) and exact.intersection([node, *node.all_input_nodes]):
            return "the graph writes what is computed of positions"
    return _shared_results(graph)


def _reads_bits(node: fx.Node) -> bool:
    """True for a view that takes the bits of numbers for those of another type."""
    types = {_dtype(node), _dtype(node.all_input_nodes[0])}
    return torch.float32 in types and len(types) > 1


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


def exact_nodes(graph: fx.GraphModule) -> set[fx.Node]:
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
        name = operator_name(node)
        if started or any(operand in exact for operand in node.all_input_nodes):
            if name not in _BOUNDED or started:
                exact.add(node)
    return exact


def over_rows(node: fx.Node, args: Sequence[Any]) -> Sequence[Any]:
    """A linear layer's operands with rows that lie one behind the other. Of ones that do not, as of a transposed batch, PyTorch makes a
    product of its own for each row of the first dimension, which reads all weights again; a copy of the rows, which is that of the cast
    where there is one, costs less.
    """
    if operator_name(node) != "linear" or not isinstance(args[0], torch.Tensor):
        return args
    x = args[0]
    if x.dim() < 3 or x.is_contiguous():
        return args
    return (x.contiguous(), *args[1:])


# They put a number in the place of values. Arithmetic takes its numbers in float32, whatever its operands are.
_FILLS = (
    *("full", "full_like", "new_full", "fill", "masked_fill", "where"),
    *("scalar_tensor", "constant_pad_nd", "pad", "index_fill", "scatter"),
)

# They hold values within bounds, of which one beyond the type is none.
_BOUNDS = ("clamp", "clamp_min", "clamp_max", "clip", "hardtanh")

# Of both, those whose whole numbers are values, and no sizes or dimensions.
_TAKES_NO_SIZES = ("masked_fill", "fill", "where", *_BOUNDS)


def saturated(node: fx.Node, leaf: Any, dtype: torch.dtype) -> Any:
    """A number that a node fills values of `dtype` with: `beyond` of its sign where it is more than the type holds, as a mask's is that
    was made for float32, and so a lower bound; an upper one is the type's own. PyTorch raises an error at either.
    """
    name = operator_name(node).removesuffix("_")
    is_number = type(leaf) is float or (type(leaf) is int and name in _TAKES_NO_SIZES)
    if not is_number or not math.isfinite(leaf) or abs(leaf) <= torch.finfo(dtype).max:
        return leaf
    # What is of another type than float32 stays so.
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.dtype is not torch.float32:
        return leaf
    # A lower bound is there for negative infinity, and is added to as a mask is.
    if name in _FILLS or (name in _BOUNDS and leaf < 0):
        return math.copysign(beyond(dtype), leaf)
    return torch.finfo(dtype).max if name in _BOUNDS else leaf


def beyond(dtype: torch.dtype) -> float:
    """What stands for numbers that a type does not hold: half of its largest, so that scores that are added to it stay numbers."""
    return torch.finfo(dtype).max / 2


# What tracing puts between a number that a graph holds as a tensor and what takes it.
_HANDED_ON = ("lift_fresh_copy", "lift_fresh", "detach", "alias", "clone")


def numbers_of(graph: fx.GraphModule) -> set[fx.Node]:
    """The numbers that a graph holds as float32 tensors without dimensions, and writes nowhere."""
    held: dict[fx.Node, fx.Node] = {}
    written: set[fx.Node] = set()
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = getattr(graph, str(node.target), None)
            if isinstance(value, torch.Tensor) and not value.dim() and value.dtype is torch.float32:
                held[node] = node
        elif node.op == "call_function":
            roots = {held[operand] for operand in node.all_input_nodes if operand in held}
            handed_on = operator_name(node).removesuffix("_") in _HANDED_ON
            if handed_on and len(roots) == len(node.all_input_nodes) == 1:
                held[node] = roots.pop()
            elif may_write(node):
                # Through whichever of its names.
                written |= roots
    return {node for node, root in held.items() if root not in written}


def is_scaled(node: fx.Node, numbers: set[fx.Node]) -> bool:
    """True where the operator multiplies or divides by one of these numbers, or divides it: it takes it in float32, as it does a number
    that is no tensor, so that one beyond the narrower type scales what lies within it.
    """
    return operator_name(node).removesuffix("_") in ("mul", "div") and not numbers.isdisjoint(
        operand for operand in node.args[:2] if isinstance(operand, fx.Node)
    )


# Operators of which PyTorch has none for narrower floats: decompositions and distances, by how their names begin or by all of it.
_FLOAT32_FAMILIES = (
    *("linalg_", "_linalg_", "cholesky", "_cholesky", "lu_", "_lu_"),
    *("cdist", "_cdist", "pdist", "_pdist"),
)
_FLOAT32_ONLY = (
    *("triangular_solve", "inverse", "det", "logdet", "slogdet", "pinverse", "svd", "qr"),
    *("geqrf", "orgqr", "ormqr", "histc"),
)


# Of these families, what is no decomposition.
_NARROW_LINALG = (
    *("linalg_vector_norm", "linalg_norm", "linalg_vecdot", "linalg_cross", "linalg_matmul"),
    *("linalg_multi_dot", "linalg_diagonal"),
)


# Namespaces of the operators that are PyTorch's, and of those that stand for its recurrent layers.
RECURRENT_NAMESPACE = "opprof_recurrent"
_KNOWN_NAMESPACES = ("aten", "prims", RECURRENT_NAMESPACE)


def has_no_narrow_form(node: fx.Node) -> bool:
    """True for an operator that has to run in float32, whatever is asked. What writes keeps to the types of what it writes to."""
    name = operator_name(node)
    if name in _NARROW_LINALG or may_write(node):
        return False
    if getattr(node.target, "namespace", "aten") not in _KNOWN_NAMESPACES:
        # A program's own: nobody knows what it does with other types.
        return True
    return name in _FLOAT32_ONLY or name.startswith(_FLOAT32_FAMILIES)


def narrowed(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A float32 tensor in a type that holds less. Numbers beyond all of its own become `beyond` and stay no infinity: a mask of
    float32's lowest that hides all of a row gives its keys weights that are numbers, the same but for rounding, and one of negative
    infinity none.
    """
    result = torch.ops.aten._to_copy.default(value, dtype=dtype)
    overflows = result.isinf() & ~value.isinf()
    result = torch.where(overflows & (value < 0), -beyond(dtype), result)
    return torch.where(overflows & (value > 0), beyond(dtype), result)


def values_of_results(graph: fx.GraphModule) -> list[Any]:
    """The fake values of what the graph returns."""
    return [r.meta.get("val") if isinstance(r, fx.Node) else r for r in results_of(graph)]


def restored(value: Any, expected: Any) -> Any:
    """A result in float32 where the graph's own, `expected`, is. What that one only repeats is repeated here too: a cast would write it
    all out.
    """
    narrow = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    if not narrow or getattr(expected, "dtype", None) is not torch.float32:
        return value
    sizes = expected.shape
    for dim, (size, stride) in enumerate(zip(sizes, expected.stride(), strict=True)):
        if size > 1 and stride == 0:
            value = torch.ops.aten.slice.Tensor(value, dim, 0, 1)
    value = torch.ops.aten._to_copy.default(value, dtype=torch.float32)
    return value if value.shape == sizes else torch.ops.aten.expand.default(value, sizes)


def cast_graph(graph: fx.GraphModule, inputs: Sequence[Any], dtype: torch.dtype) -> fx.GraphModule:
    """The graph at a lower precision: float32 inputs cast on entry, all that was float32 in between, results cast back.

    What is computed of whole numbers stays float32, and takes inputs as they were.
    """
    exact = exact_nodes(graph)
    takes_exact = {
        node for node in graph.graph.nodes if exact.intersection([node, *node.all_input_nodes])
    }
    numbers = numbers_of(graph)
    originals = values_of_results(graph)

    def convert(value: Any, source: torch.dtype, target: torch.dtype) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is source:
            if source is torch.float32:
                return narrowed(value, target)
            return torch.ops.aten._to_copy.default(value, dtype=target)
        return value

    class Lower(fx.Interpreter):
        def run_node(self, node: fx.Node) -> Any:
            if node in numbers:
                self.wide[node] = super().run_node(node)
                # Operands' types follow no number of a graph's own.
                with _disable_current_modes() if node.op == "get_attr" else nullcontext():
                    return convert(self.wide[node], torch.float32, dtype)
            if node.op != "call_function":
                value = super().run_node(node)
                # Nor do they follow one that is written, and what a cache begins with, which holds nothing, would make all that is joined to
                # it float32.
                constant = isinstance(value, torch.Tensor) and node.op == "get_attr"
                if constant and not (value.dim() and value.numel()):
                    with _disable_current_modes():
                        return convert(value, torch.float32, dtype)
                return value
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            # What is written in place stays where it is.
            scaled = is_scaled(node, numbers) and not may_write(node)
            wide = node in takes_exact or scaled or has_no_narrow_form(node)

            def prepare(leaf: Any) -> Any:
                if wide:
                    return convert(leaf, dtype, torch.float32)
                return dtype if leaf is torch.float32 else saturated(node, leaf, dtype)

            args, kwargs = torch.utils._pytree.tree_map(prepare, (args, kwargs))
            result = self.call_function(node.target, over_rows(node, args), kwargs)
            # What is made of no tensor is float32 without being told, and what some operators make of any.
            if node not in exact:
                return torch.utils._pytree.tree_map(
                    lambda leaf: convert(leaf, torch.float32, dtype), result
                )
            return result

        def fetch_args_kwargs_from_env(self, node: fx.Node) -> Any:
            def operand_of(operand: fx.Node) -> Any:
                exactly = operand in numbers and (node in numbers or is_scaled(node, numbers))
                own = self.env[operand]
                return self.wide.get(operand, own) if exactly or node in takes_exact else own

            # The inputs and numbers of the graph as they came, before they were cast.
            return fx.node.map_arg((node.args, node.kwargs), operand_of)

    def lowered(*values: Any) -> Any:
        lower = Lower(graph)
        lower.wide = dict(zip(placeholders_of(graph), values, strict=True))
        results = lower.run(*[convert(value, torch.float32, dtype) for value in values])
        leaves, structure = torch.utils._pytree.tree_flatten(results)
        leaves = [restored(leaf, own) for leaf, own in zip(leaves, originals, strict=True)]
        return torch.utils._pytree.tree_unflatten(leaves, structure)

    return trace_to_aten(lowered, inputs)


def _dtype(node: fx.Node) -> torch.dtype | None:
    return getattr(node.meta.get("val"), "dtype", None)
