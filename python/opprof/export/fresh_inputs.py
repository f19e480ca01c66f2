"""Other inputs for a model, like those that it came with, which break nothing that a model may ask of its inputs. Needs PyTorch."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from opprof.progress import progress


class Integers(Enum):
    """What becomes of tensors of whole numbers. Their range is not theirs to fill: it may be that of one column, or of a length."""

    #: All numbers change places.
    SHUFFLED = "their numbers change places"
    #: Rows of the first dimension change places, in all tensors with as many rows alike.
    ROWS = "their rows change places, as some number fits in its own column only"
    #: They stay as they are.
    KEPT = "they stay as they are, as other orders break the model"


class OutOfBounds(Exception):
    """An index that leaves what it reads. A GPU would end the process for it."""


_ATEN = torch.ops.aten
# Where an operator's arguments say what it reads, by which indices, and in which dimension (None for the first one).
_READERS: dict[Any, tuple[int, int, int | None]] = {
    _ATEN.embedding: (0, 1, None),
    _ATEN._embedding_bag: (0, 1, None),
    _ATEN._embedding_bag_forward_only: (0, 1, None),
    _ATEN.index_select: (0, 2, 1),
    _ATEN.gather: (0, 2, 1),
    _ATEN.scatter: (0, 2, 1),
    _ATEN.scatter_: (0, 2, 1),
    _ATEN.scatter_add: (0, 2, 1),
    _ATEN.scatter_add_: (0, 2, 1),
    _ATEN.index_add: (0, 2, 1),
    _ATEN.index_add_: (0, 2, 1),
}
_BY_LISTS = (_ATEN.index, _ATEN.index_put, _ATEN.index_put_, _ATEN._unsafe_index)


class BoundsCheck(TorchDispatchMode):  # type: ignore[misc]
    """Refuses indices out of bounds before anything reads with them, on any device."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        packet = func.overloadpacket
        if packet in _READERS:
            source, place, dimension = _READERS[packet]
            shape = args[source].shape
            if shape:
                _check(args[place], shape[0 if dimension is None else args[dimension]])
        elif packet in _BY_LISTS:
            for size, indices in zip(args[0].shape, args[1], strict=False):
                # A mask takes as many dimensions as it has, and what follows stands elsewhere.
                if indices is not None and indices.dtype in (torch.bool, torch.uint8):
                    break
                _check(indices, size, negative=True)
        return func(*args, **(kwargs or {}))


def _check(indices: Any, size: int, *, negative: bool = False) -> None:
    if not isinstance(indices, torch.Tensor) or indices.numel() == 0:
        return
    low, high = int(indices.min()), int(indices.max())
    if low < (-size if negative else 0) or high >= size:
        raise OutOfBounds(f"{low} to {high} in {size}")


def fresh(value: Any, seed: int, integers: Integers) -> Any:
    """Tensors like those of `value`, of other numbers where other numbers may be there.

    Floats are drawn with the mean and deviation of the original; those that have few values or infinite ones are masks and stay,
    and those that are nowhere negative change places.
    """
    generator = torch.Generator().manual_seed(seed)
    orders: dict[int, torch.Tensor] = {}

    def draw(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided or leaf.numel() < 2:
            return leaf
        if leaf.dtype is torch.bool or leaf.is_complex() or leaf.is_quantized:
            return leaf
        if leaf.is_floating_point():
            return _floats(leaf, generator)
        if integers is Integers.KEPT or _has_an_order(leaf):
            return leaf
        if integers is Integers.ROWS:
            rows = leaf.shape[0]
            if rows not in orders:
                orders[rows] = torch.randperm(rows, generator=generator)
            return leaf[orders[rows].to(leaf.device)]
        return _shuffled(leaf, generator)

    return tree_map(draw, value)


def _floats(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    wide = leaf.detach().float()
    if not bool(wide.isfinite().all()) or _are_few(wide):
        return leaf
    if bool((wide >= 0).all()):
        return _shuffled(leaf, generator)
    value = torch.randn(leaf.shape, generator=generator) * wide.std().item() + wide.mean().item()
    return value.to(leaf.dtype).to(leaf.device)


def _shuffled(leaf: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    order = torch.randperm(leaf.numel(), generator=generator).to(leaf.device)
    return leaf.detach().reshape(-1)[order].reshape(leaf.shape)


def _are_few(leaf: torch.Tensor) -> bool:
    """True for one value or two, as a mask has them."""
    low, high = leaf.min(), leaf.max()
    return not bool(((leaf != low) & (leaf != high)).any())


def _has_an_order(leaf: torch.Tensor) -> bool:
    """True for offsets, positions and sorted lengths, and for masks: their numbers mean something by their places."""
    rows = leaf.reshape(-1, leaf.shape[-1])
    return _are_few(leaf) or bool((rows.diff(dim=-1) >= 0).all() | (rows.diff(dim=-1) <= 0).all())


def find_integers(run: Callable[[Integers], Any]) -> Integers:
    """How whole numbers may change: the first way under which `run`, which runs the model on such inputs, reads in bounds."""
    for way in (Integers.SHUFFLED, Integers.ROWS):
        try:
            with BoundsCheck(), torch.no_grad():
                run(way)
        except Exception as error:
            progress(f"inputs of whole numbers, {way.value}: {type(error).__name__}: {error}")
        else:
            return way
    return Integers.KEPT
