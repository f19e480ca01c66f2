"""Conditions: what the rewrites say has to hold, and nothing else."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from opprof.backend.emitted.calls import normalized_arguments, same_arguments
from opprof.backend.emitted.effects import Effects
from opprof.backend.emitted.graphs import draws_numbers, only_asserts, views_of
from opprof.backend.emitted.interface import Spec


@dataclass
class Place:
    """Nodes of a graph that a pattern's stand for."""

    nodes: list[fx.Node]
    inputs: list[fx.Node]
    results: list[fx.Node]
    # What names in shapes stand for.
    sizes: dict[str, int]
    # What open constants stand for.
    constants: dict[str, Any]
    order: dict[fx.Node, int]
    effects: Effects

    @property
    def before(self) -> int:
        """Where a replacement goes: behind all inputs."""
        inputs = [self.order[node] + 1 for node in self.inputs if node.op != "placeholder"]
        return max([min(self.order[node] for node in self.nodes), *inputs])

    def is_outside(self, node: fx.Node) -> bool:
        return node not in self.nodes

    def between(self, first: int, last: int) -> Iterator[fx.Node]:
        return (
            node
            for node, position in self.order.items()
            if first <= position <= last and self.is_outside(node)
        )


def accepts(spec: Spec, value: Any, sizes: dict[str, int]) -> bool:
    if isinstance(spec, tuple):
        return (
            isinstance(value, (list, tuple))
            and len(value) >= len(spec)
            and all(accepts(one, other, sizes) for one, other in zip(spec, value, strict=False))
        )
    return all(
        isinstance(value, torch.Tensor) and check(value, getattr(spec, name), sizes)
        for name, check in VALUE_CHECKS.items()
        if getattr(spec, name) is not None
    )


def holds_constant(spec: Spec, node: fx.Node) -> bool:
    """Whether the node is a tensor of the graph's own that holds what the spec asks for, if it asks for that."""
    if isinstance(spec, tuple) or spec.constant is None:
        return True
    held = getattr(node.graph.owning_module, str(node.target), None)
    return (
        node.op == "get_attr"
        and isinstance(held, torch.Tensor)
        and held.dim() == 0
        and same_arguments(spec.constant, held.item(), [])
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
        node in place.results
        or not any(place.is_outside(user) and not only_asserts(user) for user in node.users)
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
    """Nothing writes what a node reads between it and the place where it is read then, or draws random numbers between nodes of which one does."""
    for node in place.nodes:
        position, before = place.order[node], place.before
        moved = (position, before - 1) if position < before else (before, position)
        if any(place.effects.writes(w, node.all_input_nodes) for w in place.between(*moved)):
            return False
    if not any(draws_numbers(node) for node in place.nodes):
        return True
    positions = [place.order[node] for node in place.nodes]
    return not any(map(draws_numbers, place.between(min(positions), max(positions))))


def _results_stay_inside(place: Place, expected: None) -> bool:
    """The graph returns no result, nor a view of one, which would become a view of a larger tensor."""
    stack = list(place.results)
    while stack:
        node = stack.pop()
        if any(user.op == "output" for user in node.users):
            return False
        stack += views_of(node)
    return True


def _nothing_written_after(place: Place, expected: None) -> bool:
    """Where the replacement shares storage otherwise than the pattern: no input or result is written later."""
    shared = [*place.inputs, *place.results]
    later = place.between(place.before, len(place.order))
    return not any(place.effects.writes(node, shared) for node in later)


# They read storage by its layout: they would fail, or give other numbers.
_BY_LAYOUT = (
    torch.ops.aten.as_strided.default,
    torch.ops.aten.as_strided_.default,
    torch.ops.aten.view.dtype,
    torch.ops.aten.view_as_real.default,
    torch.ops.aten.view_as_complex.default,
)
_STRICT_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
_RESHAPING = (
    *_STRICT_VIEWS,
    torch.ops.aten.reshape.default,
    torch.ops.aten.flatten.using_ints,
    torch.ops.aten.unflatten.int,
)
# They keep, drop, add or move dimensions, and gather none.
_OF_DIMENSIONS = (
    torch.ops.aten.transpose.int,
    torch.ops.aten.permute.default,
    torch.ops.aten.detach.default,
    torch.ops.aten.alias.default,
    torch.ops.aten.split.Tensor,
    torch.ops.aten.split_with_sizes.default,
    torch.ops.aten.chunk.default,
    torch.ops.aten.unsqueeze.default,
    torch.ops.aten.select.int,
    torch.ops.aten.unbind.int,
    torch.ops.aten.squeeze.dim,
    torch.ops.aten.slice.Tensor,
)


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
        for view in views_of(node):
            inferred = _forced_strides(view)
            if inferred is None and layout is not None:
                inferred = _view_strides(view, layout)
            if view.target in _BY_LAYOUT or (view.target in _STRICT_VIEWS and inferred is None):
                return False
            stack.append((view, inferred))
    return True


def _forced_strides(view: fx.Node) -> Sequence[int] | None:
    """The strides that the view gives to whatever it takes: it makes a contiguous tensor."""
    value = view.meta.get("val")
    if (
        view.target is not torch.ops.aten.contiguous.default
        or len(view.args) > 1
        or view.kwargs
        or not isinstance(value, torch.Tensor)
    ):
        return None
    return torch.empty(tuple(value.shape), device="meta").stride()


def _view_strides(view: fx.Node, strides: Sequence[Any]) -> Sequence[int] | None:
    """The strides of a view of its first operand laid out with `strides`, of each part where it takes it apart, or None where
    that is not known."""
    source, result = view.all_input_nodes[0].meta.get("val"), view.meta.get("val")
    if view.target is operator.getitem and isinstance(source, (list, tuple)):
        # One of the parts that were taken apart: each has the strides of all.
        is_part = isinstance(result, torch.Tensor) and result.dim() == len(strides)
        return list(strides) if is_part else None
    if not isinstance(source, torch.Tensor):
        return None
    if _is_written_in_place(view):
        return list(strides)
    laid_out = torch.empty_strided(tuple(source.shape), tuple(strides), device="meta")
    try:
        if view.target in _RESHAPING and isinstance(result, torch.Tensor):
            return laid_out.view(tuple(result.shape)).stride()
        if view.target in _OF_DIMENSIONS and len(view.all_input_nodes) == 1:
            made = view.target(laid_out, *normalized_arguments(view)[1:])
            return (made if isinstance(made, torch.Tensor) else made[0]).stride()
    except (RuntimeError, IndexError):
        return None
    return None


def _is_written_in_place(node: fx.Node) -> bool:
    """True for elementwise operators that write their first operand and return it."""
    schema = getattr(node.target, "_schema", None)
    return (
        schema is not None
        and torch.Tag.pointwise in node.target.tags
        and bool(schema.arguments)
        and schema.arguments[0].alias_info is not None
        and schema.arguments[0].alias_info.is_write
    )


PLACE_CHECKS: dict[str, Callable[[Place, Any], bool]] = {
    "inner_uses_only": _inner_uses_only,
    "inputs_come_first": _inputs_come_first,
    "effects_in_order": _effects_in_order,
    "results_stay_inside": _results_stay_inside,
    "views_work": _views_work,
    "nothing_written_after": _nothing_written_after,
}
