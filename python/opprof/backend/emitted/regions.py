"""Precision by region: each class of nodes computes at a level of its own."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils._python_dispatch import _disable_current_modes

from opprof.backend.emitted.effects import written_inputs
from opprof.backend.emitted.graphs import (
    may_alias,
    may_write,
    operator_name,
    trace_to_aten,
)
from opprof.backend.emitted.precision import (
    exact_nodes,
    has_no_narrow_form,
    is_scaled,
    narrowed,
    numbers_of,
    over_rows,
    restored,
    saturated,
    values_of_results,
    why_not_cast,
)

# Levels: what a class's operands and results are. float32 is the one that needs no word.
# The result of a product in float32 has no rounding of its own.
_RESULT_IN_FLOAT32 = "float16_float32"
# A product as one of two or three times the depth: x is x_hi + x_lo, and w too with three.
_PARTS = {_RESULT_IN_FLOAT32: 1, "float16x2": 2, "float16x3": 3}
_NARROW = {"float16": torch.float16, "bfloat16": torch.bfloat16}
LEVELS = (*_NARROW, *_PARTS)
# From the one that rounds least on.
_BY_EXACTNESS = ("float32", "float16x3", "float16x2", _RESULT_IN_FLOAT32, "float16", "bfloat16")
# In a node's meta["custom"], which PyTorch hands on to what is traced of the node.
_CLASS = "opprof_class"

_MATRIX_PRODUCTS = ("linear", "mm", "addmm", "bmm", "matmul", "baddbmm")
_PRODUCTS = (
    *_MATRIX_PRODUCTS,
    *(f"conv{rank}d" for rank in (1, 2, 3)),
    *(f"conv_transpose{rank}d" for rank in (1, 2, 3)),
    "convolution",
    "einsum",
    "scaled_dot_product_attention",
    # What is left of attention below autograd.
    *(f"_scaled_dot_product_{kind}_attention" for kind in ("efficient", "flash", "cudnn")),
    "_scaled_dot_product_flash_attention_for_cpu",
)
# Their parameters and statistics are float32 beside operands of any type: the library asks for it.
_OVER_BATCHES = (
    "batch_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
    "_batch_norm_no_update",
    "cudnn_batch_norm",
)
# They give the values that they take, or choose among them: nothing is rounded.
_MOVERS = (
    *("cat", "stack", "clone", "contiguous", "_to_copy", "to", "index", "index_select", "gather"),
    *("lift_fresh_copy", "lift_fresh", "detach_"),
    *(
        "embedding",
        "relu",
        "relu_",
        "abs",
        "neg",
        "max_pool2d",
        "pad",
        "constant_pad_nd",
        "dropout",
    ),
    *("repeat", "repeat_interleave", "roll", "flip", "tril", "triu", "masked_select", "copy_"),
)


def class_of(node: fx.Node) -> str | None:
    """What nodes that share a level are called: their operator, and of a product what it multiplies. None for what follows its
    operands, and for what is no operator. What was put in the place of others is of their class."""
    name = operator_name(node)
    if node.op != "call_function" or not name:
        return None
    given = node.meta.get("custom", {}).get(_CLASS)
    if given is not None and "val" not in node.meta:
        return str(given)
    results = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    if not any(isinstance(v, torch.Tensor) and v.dtype is torch.float32 for v in results):
        return None
    product = is_product(node)
    if not product and (
        name in _MOVERS or (may_alias(node) and not may_write(node)) or not node.all_input_nodes
    ):
        return None
    if given is not None:
        return str(given)
    if not product:
        # In place or not.
        return name.removesuffix("_")
    values = [operand.meta.get("val") for operand in node.all_input_nodes]
    sizes = [
        "x".join(map(str, value.shape))
        for value in values[:3]
        if isinstance(value, torch.Tensor) and value.dim() > 1
    ]
    return " ".join([name, *sizes])


def put_into_class(node: fx.Node, name: str) -> None:
    node.meta["custom"] = {**node.meta.get("custom", {}), _CLASS: name}


def is_product(node: fx.Node) -> bool:
    return operator_name(node) in _PRODUCTS


def most_exact(classes: Iterable[str], levels: dict[str, str]) -> str:
    """The class whose level rounds least."""
    return min(classes, key=lambda name: _BY_EXACTNESS.index(levels.get(name, "float32")))


def split_operands(node: fx.Node, args: Sequence[Any]) -> tuple[Any, Any, Any] | None:
    """A product as x · w + bias with w of depth by width; None for what is not one of these."""
    name = operator_name(node)
    if node.kwargs or len(args) < 2:
        return None
    x, w, bias = args[0], args[1], None
    if name == "linear":
        w, bias = w.t() if w.dim() == 2 else None, args[2] if len(args) > 2 else None
    elif name == "addmm":
        bias, x, w = (*args[:3],) if len(args) == 3 else (None, None, None)
    elif name not in ("mm", "bmm", "matmul"):
        return None
    if not isinstance(w, torch.Tensor) or x.dim() < 2:
        return None
    if w.dim() == 2 or (w.dim() == 3 and x.dim() == 3 and x.shape[0] == w.shape[0]):
        return x, w, bias
    return None


def as_product_of_patches(node: fx.Node, args: Sequence[Any]) -> tuple[Any, Any, Any] | None:
    """A convolution over squares beside each other, as a vision transformer begins with, as x · w + bias, with a patch a row; None for
    what is none.
    """
    kernel = _patch_size(node, args)
    if kernel is None:
        return None
    x, weight, bias = args[0], args[1], args[2] if len(args) > 2 else None
    count, channels = x.shape[:2]
    sizes = [size // k for size, k in zip(x.shape[2:], kernel, strict=True)]
    for dim, (size, k) in enumerate(zip(sizes, kernel, strict=True), 2):
        x = x.narrow(dim, 0, size * k)
    split = [part for pair in zip(sizes, kernel, strict=True) for part in pair]
    rank = len(kernel)
    # A batch's places, then what is in each.
    order = [0, *range(2, 2 + 2 * rank, 2), 1, *range(3, 3 + 2 * rank, 2)]
    patches = x.reshape(count, channels, *split).permute(order)
    depth = channels * math.prod(kernel)
    return patches.reshape(count, *sizes, depth), weight.reshape(-1, depth).t(), bias


def _patch_size(node: fx.Node, args: Sequence[Any]) -> list[int] | None:
    name = operator_name(node)
    if name not in ("conv1d", "conv2d", "conv3d") or node.kwargs or len(args) < 4:
        return None
    x, weight = args[0], args[1]
    kernel = list(weight.shape[2:])
    rank = len(kernel)

    def each(position: int, default: int) -> Any:
        given = args[position] if len(args) > position else default
        values = list(given) if isinstance(given, (list, tuple)) else [given]
        return values * rank if len(values) == 1 else values

    beside = each(3, 1) == kernel and each(4, 0) == [0] * rank and each(5, 1) == [1] * rank
    groups = args[6] if len(args) > 6 else 1
    fits = beside and groups == 1 and x.dim() == rank + 2 and math.prod(kernel) > 1
    return kernel if fits and all(isinstance(size, int) for size in x.shape) else None


# The bits of a float32 that float16 has too, but for its exponent's range.
_LEADING_BITS = ~0x1FFF


def _halves(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`value` as the sum of two that float16 holds, but for the last bits."""
    # By its bits: a cast there and back is none to Inductor, and nothing would be left for the second part.
    high = (value.view(torch.int32) & _LEADING_BITS).view(torch.float32)
    return high, value - high


def _beside(value: torch.Tensor, parts: int, low: int | None) -> torch.Tensor:
    """`value` in float16, `parts` times side by side: its first half, but in the part `low` its second; all of it where that is None.

    Of each element of what `cat` gives, Inductor may compute all that is joined, with what it is made of; of this only its own.
    """
    if low is None:
        both = value.unsqueeze(-2).expand(*value.shape[:-1], parts, value.shape[-1])
    else:
        first, second = _halves(value)
        place = torch.arange(parts, device=value.device).unsqueeze(-1)
        both = torch.where(place == low, second.unsqueeze(-2), first.unsqueeze(-2))
    return _cast(both, torch.float16).flatten(-2)


def _multiply(x: torch.Tensor, w: torch.Tensor, bias: Any, parts: int) -> torch.Tensor:
    """x · w of float16 values with sums and a result in float32: of x and w rounded, of x in two parts, or of both."""
    rows = x if w.dim() == 3 else x.reshape(-1, x.shape[-1])
    # The depth is the inner dimension of what a linear layer holds, and stays it.
    turned = w.transpose(-1, -2)
    left = _beside(rows, parts, 1) if parts > 1 else _cast(rows, torch.float16)
    low = 2 if parts > 2 else None
    if parts > 1 and w.dim() == 3:
        right = _beside(turned, parts, low)
    else:
        # Mostly a weight, of which this is made once: what joins tensors goes into the prologue.
        high, rest = (turned, turned) if low is None else _halves(turned)
        own = [rest if part == low else high for part in range(parts)]
        right = torch.cat([_cast(part, torch.float16) for part in own], -1)
    product = _accumulated(left, right.transpose(-1, -2))
    if w.dim() == 2:
        product = product.reshape(*x.shape[:-1], w.shape[-1])
    return product if bias is None else product + bias


def _laid_out(value: torch.Tensor, node: fx.Node) -> torch.Tensor:
    """In the order that the node's own result has in memory: views are made of that."""
    return value.contiguous(memory_format=suggest_memory_format(node.meta["val"]))


def _accumulated(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The product in float32: the library's where it has it, and otherwise that of the same values in float32."""
    operator = torch.ops.aten.bmm if left.dim() == 3 else torch.ops.aten.mm
    if left.device.type == "cuda":
        return operator.dtype(left, right, torch.float32)
    return operator.default(_cast(left, torch.float32), _cast(right, torch.float32))


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """The value in `dtype` where it is a float of another."""
    known = (torch.float32, *_NARROW.values())
    if not isinstance(value, torch.Tensor) or value.dtype not in known or value.dtype is dtype:
        return value
    return torch.ops.aten._to_copy.default(value, dtype=dtype)


class Levels(fx.Interpreter):
    """Runs a graph with each class at its level. What is computed of whole numbers stays float32.

    `emulated` computes products of narrow values in float32 and rounds their results: the same but for the order of sums, and fast
    on a CPU.
    """

    def __init__(
        self, graph: fx.GraphModule, levels: dict[str, str], *, emulated: bool = False
    ) -> None:
        super().__init__(graph)
        self.levels = levels
        self.emulated = emulated
        # The graph's inputs and its own tensors: masks are among them, which hold numbers that narrower types do not.
        # Kept, so that no other is taken for one of them.
        self.given: dict[int, Any] = {}
        self.constants: set[int] = set()
        exact = exact_nodes(graph)
        self.numbers = numbers_of(graph)
        self.classes = {
            node: class_of(node)
            for node in graph.graph.nodes
            if not exact.intersection([node, *node.all_input_nodes])
        }
        self.kept = {node for node in graph.graph.nodes if node not in self.classes}
        self.originals = values_of_results(graph)

    def run_node(self, node: fx.Node) -> Any:
        if node.op != "call_function":
            value = super().run_node(node)
            if node.op == "get_attr" and isinstance(value, torch.Tensor):
                self.constants.add(id(value))
            return value
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        name = self.classes.get(node)
        level = self.levels.get(name, "float32") if name is not None else None
        if level is None and node not in self.kept:
            result = self._follow(node, args, kwargs)
            if node in self.numbers:
                self.given[id(result)] = result
            return result
        if level in _PARTS:
            wide = torch.utils._pytree.tree_map(lambda leaf: _cast(leaf, torch.float32), args)
            operands = split_operands(node, wide)
            if operands is not None:
                return _multiply(*operands, _PARTS[level])
            operands = as_product_of_patches(node, wide)
            if operands is not None:
                return _laid_out(_multiply(*operands, _PARTS[level]).movedim(-1, 1), node)
        return self._at(node, args, kwargs, _NARROW.get(level or "", torch.float32))

    def _at(self, node: fx.Node, args: Any, kwargs: Any, dtype: torch.dtype) -> Any:
        """The node with all floats, and what it is asked to give, in one type."""
        narrow = dtype is not torch.float32
        if narrow and (is_scaled(node, self.numbers) or has_no_narrow_form(node)):
            result = self._at(node, args, kwargs, torch.float32)
            return torch.utils._pytree.tree_map(lambda leaf: _cast(leaf, dtype), result)

        def prepare(leaf: Any) -> Any:
            if leaf is torch.float32 and narrow:
                return dtype
            if narrow and isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float32:
                if id(leaf) in self.given:
                    leaf = narrowed(leaf, dtype)
                elif id(leaf) in self.constants:
                    with _disable_current_modes():
                        leaf = narrowed(leaf, dtype)
            leaf = _cast(saturated(node, leaf, dtype), dtype)
            return _cast(leaf, torch.float32) if self.emulated and products else leaf

        name = operator_name(node)
        products = narrow and name in _PRODUCTS
        if name in _OVER_BATCHES:
            args = (prepare(args[0]), *args[1:])
        else:
            args, kwargs = torch.utils._pytree.tree_map(prepare, (args, kwargs))
        result = self.call_function(node.target, over_rows(node, args), kwargs)
        if not products:
            return result
        return torch.utils._pytree.tree_map(lambda leaf: _cast(leaf, dtype), result)

    def _follow(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """The node on what it is given; operands of several types are all made float32."""
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        types = {
            leaf.dtype
            for leaf in leaves
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        }
        if len(types) > 1:
            args, kwargs = torch.utils._pytree.tree_map(
                lambda leaf: _cast(leaf, torch.float32), (args, kwargs)
            )
        elif types:
            (dtype,) = types
            args, kwargs = torch.utils._pytree.tree_map(
                lambda leaf: saturated(node, leaf, dtype), (args, kwargs)
            )
        return self.call_function(node.target, args, kwargs)

    def run(self, *values: Any, **options: Any) -> Any:
        self.given = {id(value): value for value in values if isinstance(value, torch.Tensor)}
        results = super().run(*values, **options)
        leaves, structure = torch.utils._pytree.tree_flatten(results)
        leaves = [restored(leaf, own) for leaf, own in zip(leaves, self.originals, strict=True)]
        return torch.utils._pytree.tree_unflatten(leaves, structure)


def without_writes(graph: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """The graph without operators that write: a value and its view may be of several types here."""
    if not any(map(may_write, graph.graph.nodes)):
        return graph
    # What removes writes works below autograd, and so on the operators that are left there; they are of the class of what they are
    # parts of, as in a graph without writes.
    for node in graph.graph.nodes:
        name = class_of(node)
        if name is not None:
            put_into_class(node, name)
    functional = torch.func.functionalize(fx.Interpreter(graph).run, remove="mutations")
    with torch._guards.tracing(None), torch.no_grad(), preserve_node_meta():
        return make_fx(functional, tracing_mode="fake")(*[value.detach() for value in inputs])


def why_not_regions(graph: fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    if written_inputs(graph):
        return "the graph writes its inputs"
    return why_not_cast(without_writes(graph, inputs))


def cast_regions(
    graph: fx.GraphModule, inputs: Sequence[Any], levels: dict[str, str]
) -> fx.GraphModule:
    """The graph with each class of nodes at its level; classes without one stay in float32."""
    functional = without_writes(graph, inputs)
    lowered = Levels(functional, levels)
    return trace_to_aten(lambda *values: lowered.run(*values), inputs)
