"""What is asked of the device that PyTorch uses. PyTorch is imported when it is asked."""

import contextlib
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def synchronize() -> None:
    """Waits until the GPU has done what it was given, where there is one that was given something."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def raise_if_lost(error: Exception) -> None:
    """Raises the error where the GPU does nothing more for this process since, as after an illegal memory access. What a stream that is
    captured does not allow is an error of the same class, and no harm to anything else.
    """
    import torch

    if isinstance(error, torch.AcceleratorError):
        try:
            synchronize()
        except RuntimeError:
            raise error from None


@contextlib.contextmanager
def float32_products(*, tf32: bool) -> Iterator[None]:
    """Products of float32 on TF32 units, or not on them, while the block runs.

    Afterwards all settings are as they were: what says the same in other words ("ieee" in the place of "none") is another key of Inductor's cache.
    """
    import torch

    products = torch.backends.cuda.matmul
    # PyTorch 2.8 and older have the one interface only; newer ones refuse to go on where the two differ.
    newer = hasattr(products, "fp32_precision")
    before = products.fp32_precision if newer else products.allow_tf32
    products.allow_tf32 = tf32
    try:
        yield
    finally:
        products.allow_tf32 = before in ("tf32", True)
        if newer:
            products.fp32_precision = before


def describe_device(kind: str) -> dict[str, Any]:
    """What a reader has to know of the machine's first device of a kind, "cuda" or "cpu", to compare what it did with another's."""
    import torch

    if kind != "cuda":
        return {"type": "cpu", "name": _cpu_name(), "threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(0)
    return {
        "type": "cuda",
        "name": properties.name,
        "sm_count": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
