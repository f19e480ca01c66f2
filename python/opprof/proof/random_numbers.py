"""The random numbers of Inductor's CPU kernels: Philox with ten rounds, a number for each seed and offset. Needs PyTorch."""

import math

import numpy as np
import torch

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)


def _philox(seed: int, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first two words for (seed, 0, offset), as at::Philox4_32 gives them; the kernels' seeds have 32 bits."""
    key = [np.uint32(seed & 0xFFFFFFFF), np.uint32(0)]
    zeros = np.zeros_like(offsets, dtype=np.uint32)
    counter = [
        (offsets & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        (offsets >> np.uint64(32)).astype(np.uint32),
        zeros,
        zeros,
    ]
    with np.errstate(over="ignore"):
        for _ in range(10):
            first = counter[0].astype(np.uint64) * _MULTIPLIERS[0]
            second = counter[2].astype(np.uint64) * _MULTIPLIERS[1]
            counter = [
                (second >> np.uint64(32)).astype(np.uint32) ^ counter[1] ^ key[0],
                second.astype(np.uint32),
                (first >> np.uint64(32)).astype(np.uint32) ^ counter[3] ^ key[1],
                first.astype(np.uint32),
            ]
            key = [key[0] + _KEY_STEPS[0], key[1] + _KEY_STEPS[1]]
    return counter[0], counter[1]


def _uniform(words: np.ndarray) -> np.ndarray:
    return (words & np.uint32(0x7FFFFFFF)).astype(np.float32) * np.float32(4.6566127342e-10)


def inductor_random(
    size: list[int], seed: torch.Tensor, mode: str, *, offset: int = 0
) -> torch.Tensor:
    """What a kernel makes of prims.inductor_random on a CPU; on a GPU Triton's generator gives other numbers."""
    offsets = np.arange(offset, offset + math.prod(size), dtype=np.uint64)
    first, second = _philox(int(seed.item()), offsets)
    numbers = _uniform(first)
    if mode == "randn":
        radius = np.sqrt(-2.0 * np.log(1 - numbers))
        numbers = radius * np.cos(2 * np.pi * (1 - _uniform(second)))
    tensor = torch.from_numpy(numbers.astype(np.float32)).reshape(size)
    return tensor.to(seed.device)
