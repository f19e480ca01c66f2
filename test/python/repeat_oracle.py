"""An oracle for repeats that knows nothing of ours: instances of one module class that PyTorch recorded alike.

It reads the modules that torch.export noted on every node, and compares what two instances compute in PyTorch's own terms. Only a
graph of PyTorch is looked at on one side, only a partition map on the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

#: Positional arguments without effect where the argument at the second place is false.
_WITHOUT_EFFECT = {"aten.dropout.default": (1, 2), "aten.feature_dropout.default": (1, 2)}


@dataclass(frozen=True)
class EqualInstances:
    """Instances of one module class that compute the same: their paths, and for each the names of its nodes in order."""

    type: str
    paths: tuple[str, ...]
    nodes: tuple[tuple[str, ...], ...]


def _type_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (
            str(value.dtype),
            tuple(map(str, value.shape)),
            tuple(map(str, value.stride())) if value.layout == torch.strided else (),
            str(value.device),
            value.requires_grad,
        )
    if isinstance(value, (list, tuple)):
        return tuple(map(_type_of, value))
    return type(value).__name__


def _signature(nodes: Sequence[fx.Node]) -> Any:
    """What the nodes compute, up to names and to where their inputs come from."""
    inside = {node: index for index, node in enumerate(nodes)}
    outside: dict[fx.Node, int] = {}

    def describe(argument: Any) -> Any:
        if isinstance(argument, fx.Node):
            if argument in inside:
                return ("node", inside[argument])
            number = outside.setdefault(argument, len(outside))
            return ("input", number, _type_of(argument.meta.get("val")))
        if isinstance(argument, (list, tuple)):
            return (type(argument).__name__, *map(describe, argument))
        if isinstance(argument, dict):
            return tuple((key, describe(value)) for key, value in argument.items())
        if isinstance(argument, slice):
            return ("slice", *map(describe, (argument.start, argument.stop, argument.step)))
        return (type(argument).__name__, repr(argument))

    result = []
    for node in nodes:
        args = list(node.args)
        ignored = _WITHOUT_EFFECT.get(str(node.target))
        if ignored and len(args) > ignored[1] and args[ignored[1]] is False:
            args[ignored[0]] = None
        leaves = any(user not in inside for user in node.users)
        result.append(
            (
                str(node.target),
                describe(args),
                describe(node.kwargs),
                _type_of(node.meta.get("val")),
                leaves,
            )
        )
    return tuple(result)


def equal_instances(graph: fx.Graph, min_nodes: int = 4) -> tuple[list[EqualInstances], int]:
    """The groups of equal instances that are recorded in one piece; and how many instances are not, which only another order could
    bring together."""
    order = [node for node in graph.nodes if node.op == "call_function"]
    members: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, node in enumerate(order):
        for path, type_ in (node.meta.get("nn_module_stack") or {}).values():
            name = type_ if isinstance(type_, str) else type_.__qualname__
            if path:
                members[path, name].append(place)
    # A module that is called again has another key and the same path: what lies apart is two calls.
    groups: dict[Any, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    interleaved = 0
    for (path, name), places in members.items():
        if places[-1] - places[0] + 1 != len(places):
            interleaved += 1
            continue
        if len(places) < min_nodes:
            continue
        nodes = [order[place] for place in places]
        groups[name, _signature(nodes)].append((path, tuple(node.name for node in nodes)))
    found = [
        EqualInstances(
            name, tuple(path for path, _ in instances), tuple(nodes for _, nodes in instances)
        )
        for (name, _), instances in groups.items()
        if len(instances) > 1
    ]
    return found, interleaved


class MergedNodes:
    """Which nodes a partition map merges: those that stand at one place of one class, through all levels."""

    def __init__(self, partition_map: Mapping[str, Any]) -> None:
        self._parents: dict[str, str] = {}
        for group in partition_map["classes"]:
            first = group["partitions"][0]["nodes"]
            for partition in group["partitions"][1:]:
                for node, other in zip(first, partition["nodes"], strict=True):
                    self._parents[self.find(other)] = self.find(node)

    def find(self, node: str) -> str:
        while (parent := self._parents.get(node, node)) != node:
            self._parents[node] = self._parents.get(parent, parent)
            node = parent
        return node

    def count(self, nodes: Iterable[str]) -> int:
        """How many nodes are left of `nodes` once."""
        return len({self.find(node) for node in nodes})

    def not_merged(self, group: EqualInstances) -> list[str]:
        """The instances that are not the first one, node by node."""
        expected = [self.find(node) for node in group.nodes[0]]
        return [
            path
            for path, nodes in zip(group.paths, group.nodes, strict=True)
            if [self.find(node) for node in nodes] != expected
        ]


def wrongly_merged(graph: fx.Graph, merged: MergedNodes) -> list[str]:
    """Nodes that a map brings together although they call another operator or give another type."""
    kinds: dict[str, set[Any]] = defaultdict(set)
    for node in graph.nodes:
        if node.op == "call_function":
            kinds[merged.find(node.name)].add((str(node.target), _type_of(node.meta.get("val"))))
    return [name for name, found in kinds.items() if len(found) > 1]
