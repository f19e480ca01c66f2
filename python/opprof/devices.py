"""What is asked of the device that PyTorch uses. PyTorch is imported when it is asked."""

import platform
from pathlib import Path
from typing import Any


def synchronize() -> None:
    """Waits until the GPU has done what it was given, where there is one that was given something."""
    import torch

    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


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
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
