"""Runs a model in float64 though its code asks for float32 in places: embeddings of time steps, masks and buffers made in a call. Needs PyTorch."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map


class Promoted(TorchFunctionMode):  # type: ignore[misc]
    """In the block, whoever asks PyTorch for float32 is given float64. Narrower floats are as they were: they are meant.

    A float32 tensor from outside, as a table that a module holds, is one float64 tensor throughout the block, so that what is written
    into it is read again. RuntimeError where two of them share memory, as a write into one would not be seen in the other.
    """

    def __init__(self) -> None:
        super().__init__()
        # By the identity of the tensor, which is kept so that it stays its own.
        self._wide: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._storages: dict[int, int] = {}

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = tree_map(self._from_outside, (args, kwargs or {}))
        return tree_map(_widened, _WIDE.get(function, function)(*args, **kwargs))

    def _from_outside(self, leaf: Any) -> Any:
        if leaf is torch.float32:
            return torch.float64
        if not _is_plain(leaf):
            return leaf
        if id(leaf) not in self._wide:
            storage = torch._C._TensorBase.untyped_storage(leaf)._cdata
            if self._storages.setdefault(storage, id(leaf)) != id(leaf):
                raise RuntimeError("two float32 tensors of the model share memory")
            self._wide[id(leaf)] = (leaf, torch._C._TensorBase.double(leaf))
        return self._wide[id(leaf)][1]


def _is_plain(leaf: Any) -> bool:
    # What is a parameter, or of a subclass of tensors, is not to become another thing.
    return type(leaf) is torch.Tensor and leaf.dtype is torch.float32


def _widened(leaf: Any) -> Any:
    return torch._C._TensorBase.double(leaf) if _is_plain(leaf) else leaf


def grouped_product(
    left: torch.Tensor,
    right: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    """torch._grouped_mm in types that it has not: rows (M, K) by one of the matrices (G, K, N) for each group of rows.

    Group g ends before row `offs[g]`; what no group has is 0. Without groups it is a product of each pair.
    """
    if offs is None or left.dim() != 2 or right.dim() != 3 or bias is not None:
        if left.dim() == right.dim() == 3 and offs is None and bias is None:
            return left @ right
        raise NotImplementedError("a grouped product of another form")
    result = left.new_zeros(left.shape[0], right.shape[2])
    start = 0
    for group, end in enumerate(offs.tolist()):
        result[start:end] = left[start:end] @ right[group]
        start = end
    return result


_WIDE = {torch.Tensor.float: torch.Tensor.double}
# PyTorch 2.8 and older have none of these.
for _module, _name in ((torch, "_grouped_mm"), (torch.nn.functional, "grouped_mm")):
    if hasattr(_module, _name):
        _WIDE[getattr(_module, _name)] = grouped_product
