"""Names the layers that launches belong to, and puts NVTX ranges of these names round them.

`layer::unique::h.0` is the partition that stands for its class, `layer::duplicate::h.1` one that is the same. A launch that
computes nodes of two partitions is in a range of both names, and the ranges of nested partitions nest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opprof.recording.partitions import Node, PartitionMap

#: Between the names of the partitions that one launch straddles.
BOTH = " + "


class _Thread(threading.local):
    """The ranges that are open on a thread, outermost first."""

    path: tuple[str, ...] = ()


class LayerRanges:
    """The ranges of a partition map. `push` and `pop` are NVTX's unless others are given."""

    def __init__(
        self,
        partitions: Sequence[PartitionMap],
        push: Callable[[str], Any] | None = None,
        pop: Callable[[], Any] | None = None,
    ) -> None:
        # For each level of nesting, the range of each node, with its place among the ranges.
        self._levels: list[dict[Node, tuple[int, str]]] = []
        self._paths: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._here = _Thread()
        if push is None or pop is None:
            push, pop = nvtx_calls()
        self._push, self._pop = push, pop
        self.partitions = partitions
        count = 0
        for entries in partitions:
            # A class may lie in several others, and at several levels: each place has its own.
            parents = {
                entry.id: {node: place.parent for place in entry.partitions for node in place.nodes}
                for entry in entries.classes
            }
            for entry in entries.classes:
                for partition in entry.partitions:
                    level = 0
                    parent = partition.parent
                    while parent in parents and level < len(parents):
                        level += 1
                        parent = parents[parent].get(partition.nodes[0])
                    while len(self._levels) <= level:
                        self._levels.append({})
                    count += 1
                    name = f"layer::{partition.role}::{partition.label}"
                    for node in partition.nodes:
                        self._levels[level][node] = (count, name)

    def path(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """The ranges, outermost first, that a launch of these nodes lies in."""
        nodes = list(nodes)
        names = []
        for level in self._levels:
            here = {level[node] for node in nodes if node in level}
            if here:
                names.append(BOTH.join(name for _, name in sorted(here)))
        path = tuple(names)
        # One object a path, so that staying in a layer is seen without comparing names.
        return self._paths.setdefault(path, path)

    def move(self, path: tuple[str, ...]) -> None:
        """Closes what this thread leaves, and opens what it enters."""
        here = self._here
        current = here.path
        if path is current:
            return
        kept = 0
        for old, new in zip(current, path, strict=False):
            if old != new:
                break
            kept += 1
        for _ in current[kept:]:
            self._pop()
        for name in path[kept:]:
            self._push(name)
        here.path = path

    def leave(self) -> None:
        """Closes every range of this thread."""
        self.move(())


def nvtx_calls() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """NVTX's push and pop, or calls that do nothing where PyTorch was built without CUDA."""
    import torch

    if not torch.cuda.is_available():
        return (lambda name: None), (lambda: None)
    return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
