"""Weights: what is noticed of their changes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


@dataclass
class WeightWatch:
    """What is asked of weights besides their identity, address and version."""

    # Changes that no tensor tells of: each step of an optimizer (fused ones write weights and leave their versions), each refresh().
    changes: int = 0
    checked_every: int = 0


weight_watch = WeightWatch()


def refresh() -> None:
    """Has everything that was made of weights made again in the next call: for writes that tensors do not tell of.

    These are writes through `weight.data`, through NumPy arrays and DLPack, and by code that is not PyTorch's.
    """
    weight_watch.changes += 1


def check_weights_every(calls: int) -> None:
    """Lets each program compare a checksum of its weights in every `calls`-th call, and refresh where it differs; 0 stops that.

    It sees every write, at the latest that many calls after it. It reads all weights, and waits for the device.
    """
    weight_watch.checked_every = calls


def _note_step(*_: Any) -> None:
    refresh()


register_optimizer_step_post_hook(_note_step)


def checksum_of(value: torch.Tensor) -> int:
    """A number that differs where one element does, and almost certainly where several do."""
    words = value.detach().contiguous().reshape(-1).view(torch.uint8).to(torch.int64)
    places = torch.arange(words.numel(), device=words.device) * 2 + 1
    return int((words * places).sum())


@dataclass(frozen=True)
class Weight:
    """A weight as it was when something was made of it. It is held, so nothing else can be at its address."""

    value: torch.Tensor
    # Holds the storage where another is put under `value` (`value.data = …`).
    alias: torch.Tensor
    address: int
    version: int

    @classmethod
    def of(cls, value: torch.Tensor) -> "Weight":
        return cls(value, value.detach(), value.data_ptr(), value._version)

    def is_still(self, value: torch.Tensor) -> bool:
        return (
            value is self.value
            and value.data_ptr() == self.address
            and value._version == self.version
        )
