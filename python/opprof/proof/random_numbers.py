"""The random numbers of Inductor's kernels: Philox with ten rounds, a number for each seed and offset. Needs PyTorch."""

import math

import numpy as np
import torch

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_SCALE = np.float32(4.6566127342e-10)


def _philox(key: tuple[int, int], offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first two words for the counters (offset, 0, 0, 0)."""
    keys = [np.uint32(key[0]), np.uint32(key[1])]
    zeros = np.zeros_like(offsets, dtype=np.uint32)
    counter = [offsets.astype(np.uint32), zeros, zeros, zeros]
    with np.errstate(over="ignore"):
        for _ in range(10):
            first = counter[0].astype(np.uint64) * _MULTIPLIERS[0]
            second = counter[2].astype(np.uint64) * _MULTIPLIERS[1]
            counter = [
                (second >> np.uint64(32)).astype(np.uint32) ^ counter[1] ^ keys[0],
                second.astype(np.uint32),
                (first >> np.uint64(32)).astype(np.uint32) ^ counter[3] ^ keys[1],
                first.astype(np.uint32),
            ]
            keys = [keys[0] + _KEY_STEPS[0], keys[1] + _KEY_STEPS[1]]
    return counter[0], counter[1]


def _on_cpu(seed: int, offsets: np.ndarray, normal: bool) -> np.ndarray:
    # The C++ kernels cut seeds to 32 bits.
    words = _philox((seed & 0xFFFFFFFF, 0), offsets)
    first, second = ((w & np.uint32(0x7FFFFFFF)).astype(np.float32) * _SCALE for w in words)
    if not normal:
        return first
    return np.asarray(np.sqrt(-2.0 * np.log(1 - first)) * np.cos(2 * np.pi * (1 - second)))


def _on_gpu(seed: int, offsets: np.ndarray, normal: bool) -> np.ndarray:
    words = _philox((seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF), offsets)
    signed = [w.view(np.int32) for w in words]
    first, second = (np.where(s < 0, -s - 1, s).astype(np.float32) * _SCALE for s in signed)
    if not normal:
        return first
    radius = np.sqrt(-2.0 * np.log(np.maximum(first, np.float32(1e-7))))
    return np.asarray(radius * np.cos(np.float32(2 * math.pi) * second))


def inductor_random(
    size: list[int], seed: torch.Tensor, mode: str, *, offset: int = 0
) -> torch.Tensor:
    """What a kernel makes of prims.inductor_random: in C++ on a CPU, in Triton on a GPU."""
    offsets = np.arange(offset, offset + math.prod(size), dtype=np.uint64)
    generate = _on_cpu if seed.device.type == "cpu" else _on_gpu
    numbers = generate(int(seed.item()), offsets, mode == "randn")
    return torch.from_numpy(numbers.astype(np.float32)).reshape(size).to(seed.device)
