"""The hardware counters that are collected, and the values that are made of them: opprof-driver has both. Needs no PyTorch.

docs/capture.md has the formulas.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from opprof.tools import run_driver


@dataclass(frozen=True)
class Metrics:
    """What is collected where metrics are asked for."""

    #: CUPTI's names.
    counters: list[str]
    #: What is collected beside them where a kernel of the step has local memory.
    with_local_memory: list[str]
    #: The counters that each value is made of.
    made_of: dict[str, list[str]]


@dataclass(frozen=True)
class Device:
    """What formulas need to know of the device."""

    sm_count: int
    warps_per_sm: int


def resolve(metrics: str | Sequence[str]) -> Metrics:
    """What the names of sets, or of CUPTI's metrics, or both separated by commas, ask for."""
    names = metrics if isinstance(metrics, str) else ",".join(metrics)
    return Metrics(**json.loads(run_driver("metrics", names)))


def derive(
    device: Device, launches: Sequence[tuple[Mapping[str, float], Mapping[str, int | None]]]
) -> list[dict[str, Any]]:
    """What counters.json says of counted launches: raw counters, values, and the reason for each that is absent.

    Of each, `launches` has the raw counters, and what the timeline says of it: registers, dynamic_shared, local_bytes, and
    duration_ns, the kernel's own time, on which values are put that are taken over the range's time.
    """
    ranges = [_range(raw, known) for raw, known in launches]
    rows = _ask({"device": asdict(device), "launches": ranges})["launches"]
    return [{"raw": own["raw"], **row} for own, row in zip(ranges, rows, strict=True)]


def derive_step(
    device: Device, raw: Mapping[str, float], local_bytes: int | None
) -> dict[str, Any]:
    """The same of one range over a whole step; `local_bytes` is 0 where none of its kernels has local memory."""
    whole = _range(raw, {"local_bytes": local_bytes})
    return {"raw": whole["raw"], **_ask({"device": asdict(device), "step": whole})["step"]}


def _range(raw: Mapping[str, float], known: Mapping[str, int | None]) -> dict[str, Any]:
    return {**known, "raw": {name: value for name, value in raw.items() if math.isfinite(value)}}


def _ask(ranges: Mapping[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run_driver("derive", "-", input=ranges))
    return answer
