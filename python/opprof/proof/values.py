"""Finds the nodes of a graph whose value a tensor of the compiled program holds, in whatever layout. Needs PyTorch."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import torch

from opprof.proof.trace import Trace

#: Relative distances: what rounding makes of float32, and of narrower numbers that kernels keep wider between two nodes.
_NEAR, _NEAR_NARROW, _NEAR_AS_SETS = 1e-3, 4e-2, 1e-5
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
        self.cancelled = _cancelled(trace)

    def find(self, tensor: torch.Tensor, *, ordered: bool = True) -> frozenset[int]:
        """The steps whose value `tensor` holds; with `ordered` false only the elements are known, not their place."""
        return self._nearest(tensor, ordered=ordered) or self._rounded_away(tensor)

    def _rounded_away(self, tensor: torch.Tensor) -> frozenset[int]:
        """Sums of as many elements whose terms cancel: what is left is rounding, which each order of the terms has its own of."""
        if not self.cancelled or not tensor.is_floating_point() or not tensor.numel():
            return frozenset()
        largest = float(_numbers(tensor).abs().max())
        return frozenset(
            number
            for number, most in self.cancelled.items()
            if 0 < largest <= most and self.trace.steps[number].value.numel() == tensor.numel()
        )

    def _nearest(self, tensor: torch.Tensor, *, ordered: bool) -> frozenset[int]:
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
        near: dict[int, torch.Tensor] = {}
        for place in np.flatnonzero(alike):
            number, value = entries[int(place)]
            if _alike(tensor.dtype, value.dtype):
                near[number] = value
        numbers = _numbers(tensor)
        distances = {
            number: _distance(tensor, numbers, value, self.near) if ordered else math.inf
            for number, value in near.items()
        }
        if not any(distance <= self.near for distance in distances.values()):
            distances = {n: _distance_of_sets(numbers, value) for n, value in near.items()}
        least = min(distances.values(), default=math.inf)
        if least > self.near:
            return frozenset()
        limit = min(max(_AS_NEAR * least, _ROUNDING), self.near)
        return frozenset(number for number, distance in distances.items() if distance <= limit)


#: What rounding may leave of a sum, of the sum of its terms' sizes.
_CANCELLED = 1e-6

#: What another order of the terms may leave, as a multiple of what the graph's own order left: a bound for any order lets large
#: sums be anything.
_OTHER_ORDER = 8.0


def _cancelled(trace: Trace) -> dict[int, float]:
    """The sums, and views of them, that are nothing but rounding, with the most that rounding may leave."""
    found: dict[int, float] = {}
    for number, step in enumerate(trace.steps):
        value = step.value
        if not _is_dense(value) or not value.is_floating_point():
            continue
        operands = [trace.steps[operand].value for operand in step.operands]
        if step.free and step.operands and step.operands[0] in found:
            if value.numel() == operands[0].numel():
                found[number] = found[step.operands[0]]
        elif step.operator == "aten.sum" and value.numel() and _is_dense(operands[0]):
            terms = operands[0].numel() / value.numel()
            most = _CANCELLED * float(_numbers(operands[0]).abs().mean()) * terms
            left = float(_numbers(value).abs().max())
            if left <= most:
                found[number] = min(most, _OTHER_ORDER * left)
    return found


def _is_dense(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


#: What is larger is a mask's stand-in for infinity.
_HUGE = 1e30


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as float64. What is no number, or infinite, takes the size of the others, so that these still count."""
    if tensor.dtype.is_complex:
        tensor = torch.view_as_real(tensor.resolve_conj()).sum(-1)
    numbers = tensor.detach().to("cpu", torch.float64)
    finite = numbers.isfinite() & (numbers.abs() < _HUGE)
    if bool(finite.all()):
        return numbers
    size = float(numbers[finite].abs().mean()) if bool(finite.any()) else 1.0
    stand_in = torch.where(numbers > 0, 3 * size, torch.where(numbers < 0, -3 * size, 2 * size))
    return torch.where(finite, numbers, stand_in + 1e-3)


def _summary(tensor: torch.Tensor) -> tuple[float, float, float]:
    numbers = _numbers(tensor)
    return (
        float(numbers.mean()),
        float(numbers.abs().mean()),
        float((numbers * numbers).mean()),
    )


def _alike(a: torch.dtype, b: torch.dtype) -> bool:
    """Whether one may stand for the other: a kernel keeps numbers wider or narrower than the graph says, and a mask that is counted as
    whole numbers, but of the same kind."""
    if a.itemsize == b.itemsize == 1:
        return True
    return (a.is_floating_point, a.is_complex) == (b.is_floating_point, b.is_complex)


def _distance(a: torch.Tensor, x: torch.Tensor, b: torch.Tensor, near: float) -> float:
    """The relative distance of two tensors of as many elements, in the order of theirs that brings them closest."""
    y = _numbers(b)
    scale = float(y.norm()) + 1e-30
    best = math.inf
    for first, second in _orders(x, y, a, b):
        best = min(best, float((first - second).norm()) / scale)
        if best <= near / 100:
            break
    return best


def _distance_of_sets(numbers: torch.Tensor, b: torch.Tensor) -> float:
    """The same without regard to order. Like distributions are near one another, so no more than rounding is allowed for."""
    y = _numbers(b).reshape(-1).sort().values
    distance = float((numbers.reshape(-1).sort().values - y).norm()) / (float(y.norm()) + 1e-30)
    return distance if distance <= _NEAR_AS_SETS else math.inf


def _orders(
    x: torch.Tensor, y: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    yield x.reshape(-1), y.reshape(-1)
    x_stored, y_stored = _stored(x, a), _stored(y, b)
    yield x_stored, y_stored
    yield x_stored, y.reshape(-1)
    yield x.reshape(-1), y_stored
    x, y = x.squeeze(), y.squeeze()
    if x.dim() <= _MAX_PERMUTED_DIMENSIONS:
        for order in itertools.permutations(range(x.dim())):
            permuted = x.permute(order)
            if permuted.shape == y.shape:
                yield permuted, y
            elif x.dim() < _MAX_PERMUTED_DIMENSIONS:
                yield permuted.reshape(-1), y.reshape(-1)
    if x.dim() != y.dim() <= _MAX_PERMUTED_DIMENSIONS:
        for order in itertools.permutations(range(y.dim())):
            yield x.reshape(-1), y.permute(order).reshape(-1)


def _stored(numbers: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The elements in the order in which they lie in memory."""
    order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
    return numbers.permute(order).reshape(-1)
