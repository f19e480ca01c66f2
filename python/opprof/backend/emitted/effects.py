"""Effects: which values of a graph share storage, and what each node writes."""

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from opprof.backend.emitted.graphs import (
    may_write,
    operator_name,
    placeholders_of,
    roles_of,
    storage_of,
)

# They change what autograd knows of a tensor, and no element.
_WRITING_NO_ELEMENT = ("detach_", "requires_grad_", "retain_grad")
# They give a tensor another storage.
_CHANGING_STORAGE = (
    "set_",
    "set_data",
    "resize_",
    "resize_as_",
    "_resize_output_",
    "resize_as_sparse_",
)


class Effects:
    """Which nodes of a graph may share storage, and what each writes.

    A result is a storage of its own unless its operator may return an argument or a view of one. All inputs may be one storage.
    """

    def __init__(self, graph: fx.GraphModule) -> None:
        self.groups: dict[fx.Node, fx.Node] = {}
        # What each node that writes may write; None stands for any storage.
        self.written: dict[fx.Node, list[fx.Node] | None] = {}
        # Inputs that are one storage when the graph is compiled, as weights are that are parts of one buffer.
        firsts: dict[int, fx.Node] = {}
        for node in placeholders_of(graph):
            storage = storage_of(node)
            if storage is not None:
                self._join(node, firsts.setdefault(storage, node))
        for node in graph.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            roles = roles_of(node)
            for operand, _, aliased in roles:
                if aliased:
                    self._join(node, operand)
            name = operator_name(node)
            if name in _WRITING_NO_ELEMENT:
                continue
            known = getattr(node.target, "_schema", None) is not None
            if name in _CHANGING_STORAGE or (not known and may_write(node)):
                self.written[node] = None
            elif any(written for _, written, _ in roles):
                self.written[node] = [operand for operand, written, _ in roles if written]
        self.inputs = {
            self.group_of(node)
            for node in graph.graph.nodes
            if node.op in ("placeholder", "get_attr")
        }
        self.changed = {
            self.group_of(operand)
            for node, values in self.written.items()
            for operand in (node.all_input_nodes if values is None else values)
        }

    def _join(self, node: fx.Node, other: fx.Node) -> None:
        group, joined = self.group_of(node), self.group_of(other)
        # Of two operands of one storage the second adds nothing, and a group that led to itself would be followed for ever.
        if group is not joined:
            self.groups[group] = joined

    def group_of(self, node: fx.Node) -> fx.Node:
        """The value that stands for all that may share its storage."""
        group = node
        while group in self.groups:
            group = self.groups[group]
        # Later searches are short.
        while node is not group:
            following = self.groups[node]
            self.groups[node] = group
            node = following
        return group

    def alias(self, first: fx.Node, second: fx.Node) -> bool:
        groups = {self.group_of(first), self.group_of(second)}
        return len(groups) == 1 or groups <= self.inputs

    def writes(self, node: fx.Node, values: Sequence[fx.Node]) -> bool:
        """True where the node may write the storage of one of the values."""
        if node not in self.written:
            return False
        written = self.written[node]
        return bool(values) and (
            written is None or any(self.alias(own, value) for own in written for value in values)
        )

    def writers_of(self, values: Collection[fx.Node]) -> list[fx.Node]:
        """The nodes that may write the storage of one of the values, each other input's among those of an input."""
        groups = {self.group_of(value) for value in values}
        if not groups.isdisjoint(self.inputs):
            groups |= self.inputs
        return [
            node
            for node, written in self.written.items()
            if written is None or not groups.isdisjoint(map(self.group_of, written))
        ]

    def is_written(self, value: fx.Node) -> bool:
        """True where a node of the graph may write the value, itself or through a view."""
        return self.group_of(value) in self.changed


def written_inputs(graph: fx.GraphModule) -> set[int]:
    """Positions of the inputs that the graph writes to, itself or through a view."""
    effects = Effects(graph)
    return {
        position for position, node in enumerate(placeholders_of(graph)) if effects.is_written(node)
    }


# Kernels that end the whole process's use of a GPU where a number is not one that they expect.
_CHECKING = ("_assert_async", "binary_cross_entropy")


# They give the same whole numbers again.
_KEEPING_PLACES = frozenset(
    [
        "clone",
        "contiguous",
        "detach",
        "expand",
        "expand_as",
        "flatten",
        "int",
        "long",
        "narrow",
        "permute",
        "ravel",
        "reshape",
        "squeeze",
        "t",
        "to",
        "transpose",
        "unflatten",
        "unsqueeze",
        "view",
    ]
)


@dataclass
class Stopping:
    """What decides whether a run stops the device for good: a kernel stops it that is given what another model would take, places in a
    table that was larger, or what is checked.
    """

    # Positions of the graph's inputs that nodes read which take whole numbers, or check what they are given.
    inputs: set[int]
    # Whether callers' whole numbers are looked up as they are: then tables alone decide.
    by_tables: bool


def what_may_stop(
    graph: fx.GraphModule, data: Collection[int], run: Collection[fx.Node]
) -> Stopping | None:
    """None where no run stops a device. `data` are the positions of the inputs that each call gives, `run` the nodes that it computes."""
    inputs = placeholders_of(graph)
    checking = [node for node in run if operator_name(node) in _CHECKING]
    taking = [
        node
        for node in run
        if node.op != "output"
        and any(_holds_places(operand.meta.get("val")) for operand in node.all_input_nodes)
    ]
    if not checking and not taking:
        return None
    effects = Effects(graph)
    if None in effects.written.values():
        # What a value is made of is more than what anybody can tell.
        return Stopping(set(range(len(inputs))), by_tables=False)
    reached = {operand for node in (*checking, *taking) for operand in node.all_input_nodes}
    count = 0
    while len(reached) > count:
        count = len(reached)
        # A value is made of what its node reads, and of what is written to it.
        reached.update(effects.writers_of(reached))
        for node in reversed(graph.graph.nodes):
            if node in reached:
                reached.update(node.all_input_nodes)
    given = {node for position, node in enumerate(inputs) if position in set(data)}
    # What something given was written to, of which views made before are parts.
    filled: set[fx.Node] = set()
    changed = False
    for node in graph.graph.nodes:
        operands = node.all_input_nodes
        if given.isdisjoint(operands) and filled.isdisjoint(map(effects.group_of, operands)):
            continue
        given.add(node)
        written = effects.written.get(node) or []
        filled.update(map(effects.group_of, written))
        # A number with a fraction says nothing of the whole one that a cast makes of it.
        if not _keeps_places(node) or any(map(_has_fractions, operands)):
            changed |= any(_holds_places(value.meta.get("val")) for value in (node, *written))
    positions = {position for position, node in enumerate(inputs) if node in reached}
    return Stopping(positions, by_tables=not checking and not changed)


def _keeps_places(node: fx.Node) -> bool:
    return node.target is operator.getitem or operator_name(node) in _KEEPING_PLACES


def _holds_places(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and not value.is_floating_point()
        and not value.is_complex()
        and value.dtype != torch.bool
    )


def _has_fractions(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()
