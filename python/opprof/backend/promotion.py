"""Runs a model in float64 though its code asks for float32 in places: embeddings of time steps, masks and buffers made in a call. Needs PyTorch."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map


class Promoted(TorchFunctionMode):  # type: ignore[misc]
    """In the block, whoever asks PyTorch for float32 is given float64. Narrower floats are as they were: they are meant."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = tree_map(_wide_type, (args, kwargs or {}))
        return tree_map(_wide_tensor, _WIDE.get(function, function)(*args, **kwargs))


def _wide_type(leaf: Any) -> Any:
    return torch.float64 if leaf is torch.float32 else _wide_tensor(leaf)


def _wide_tensor(leaf: Any) -> Any:
    # What is a parameter, or what a subclass of tensors, is not to become another thing.
    plain = type(leaf) is torch.Tensor and leaf.dtype is torch.float32
    return torch._C._TensorBase.double(leaf) if plain else leaf


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
