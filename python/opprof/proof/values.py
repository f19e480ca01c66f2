"""Finds the nodes of a graph whose value a tensor of the compiled program holds, in whatever layout. Needs PyTorch."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import torch

from opprof.proof.trace import Trace

#: Relative distances: what rounding makes of float32, and of narrower numbers that kernels keep wider between two nodes.
_NEAR, _NEAR_NARROW = 2e-4, 4e-2
#: Of several nodes that are near, the nearest count: those within this factor of the best, or at rounding's distance.
_AS_NEAR, _ROUNDING = 4.0, 2e-6
_MAX_PERMUTED_DIMENSIONS = 5
_NARROW = 16


class ValueIndex:
    """The values of a trace's steps, to be found by value."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.entries: dict[int, list[tuple[int, torch.Tensor]]] = defaultdict(list)
        narrow = False
        for number, step in enumerate(trace.steps):
            value = step.value
            if isinstance(value, torch.Tensor) and value.numel() and value.layout == torch.strided:
                self.entries[value.numel()].append((number, value))
                kind = value.dtype
                narrow = narrow or (
                    (kind.is_floating_point and torch.finfo(kind).bits <= _NARROW)
                    or kind in (torch.int8, torch.uint8)
                )
        self.near = _NEAR_NARROW if narrow else _NEAR
        self.summaries = {
            count: np.array([_summary(value) for _, value in entries])
            for count, entries in self.entries.items()
        }

    def find(self, tensor: torch.Tensor, *, ordered: bool = True) -> frozenset[int]:
        """The steps whose value `tensor` holds; with `ordered` false only the elements are known, not their place."""
        entries = self.entries.get(tensor.numel())
        if not entries:
            return frozenset()
        mean, magnitude, square = _summary(tensor)
        table = self.summaries[tensor.numel()]
        tolerance = self.near * magnitude + 1e-30
        alike = (
            (np.abs(table[:, 0] - mean) <= tolerance)
            & (np.abs(table[:, 1] - magnitude) <= tolerance)
            & (np.abs(table[:, 2] - square) <= 2 * self.near * square + 1e-30)
        )
        distances = {}
        for place in np.flatnonzero(alike):
            number, value = entries[int(place)]
            if tensor.dtype.is_floating_point != value.dtype.is_floating_point and not (
                tensor.dtype.itemsize == value.dtype.itemsize == 1
            ):
                continue
            distance = _distance(tensor, value, self.near, ordered=ordered)
            if distance <= self.near:
                distances[number] = distance
        if not distances:
            return frozenset()
        limit = max(_AS_NEAR * min(distances.values()), _ROUNDING)
        return frozenset(number for number, distance in distances.items() if distance <= limit)


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj()).reshape(*tensor.shape, 2).sum(-1)
    return tensor.detach().to("cpu", torch.float64).nan_to_num(nan=-1.2345, posinf=1e6, neginf=-1e6)


def _summary(tensor: torch.Tensor) -> tuple[float, float, float]:
    numbers = _numbers(tensor)
    return (
        float(numbers.mean()),
        float(numbers.abs().mean()),
        float((numbers * numbers).mean()),
    )


def _distance(a: torch.Tensor, b: torch.Tensor, near: float, *, ordered: bool) -> float:
    """The relative distance of two tensors of as many elements, in the order of theirs that brings them closest."""
    ordinary = _numbers(b)
    scale = float(ordinary.norm()) + 1e-30
    best = math.inf
    if ordered:
        for x, y in _orders(_numbers(a), ordinary, a, b):
            best = min(best, float((x - y).norm()) / scale)
            if best <= near / 100:
                return best
        if best <= near:
            return best
    # As sets of numbers: like distributions are near one another, so only rounding is allowed for.
    x, _ = _numbers(a).reshape(-1).sort()
    y, _ = ordinary.reshape(-1).sort()
    distance = float((x - y).norm()) / scale
    return distance if distance <= min(near, 1e-5) or (not ordered and distance <= near / 4) else best


def _orders(
    x: torch.Tensor, y: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    yield x.reshape(-1), y.reshape(-1)
    x_stored, y_stored = _stored(x, a), _stored(y, b)
    yield x_stored, y_stored
    yield x_stored, y.reshape(-1)
    yield x.reshape(-1), y_stored
    x, y = x.squeeze(), y.squeeze()
    if sorted(x.shape) == sorted(y.shape) and x.dim() <= _MAX_PERMUTED_DIMENSIONS:
        for order in itertools.permutations(range(x.dim())):
            permuted = x.permute(order)
            if permuted.shape == y.shape:
                yield permuted, y


def _stored(numbers: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The elements in the order in which they lie in memory."""
    order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
    return numbers.permute(order).reshape(-1)
