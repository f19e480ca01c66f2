"""Which part of a step's time a backend's own programs take. Needs PyTorch."""

import functools
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch

from opprof.backend.checks import Program, Subject
from opprof.devices import synchronize

_STEPS = 10


def own_share(subject: Subject, backend: ModuleType, program: Program) -> float | None:
    """From 0 to 1: of the time from a step's begin to its end that between begin and end of the backend's programs, both on the current
    stream of a GPU, or by the clock on a CPU; the sum over some steps that follow one another. None where the backend has no programs
    of that kind.
    """
    own = getattr(backend, "Program", None)
    if own is None:
        return None
    args, kwargs = subject.script.args, subject.script.kwargs
    clock = _Events if subject.script.device_type == "cuda" else _Wall
    whole, inside = clock(), clock()
    # What is captured or compiled in a first call is none of a step's work.
    program(*args, **kwargs)
    synchronize()
    with patch.object(own, "run", inside.around(own.run)):
        step = whole.around(program)
        for _ in range(_STEPS):
            step(*args, **kwargs)
    synchronize()
    subject.restore()
    return inside.total / whole.total


class _Wall:
    """Nanoseconds by the clock."""

    def __init__(self) -> None:
        self.total = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                self.total += time.perf_counter_ns() - start

        return run


class _Events:
    """Milliseconds between events on the stream."""

    def __init__(self) -> None:
        self._pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    @property
    def total(self) -> float:
        return float(sum(start.elapsed_time(end) for start, end in self._pairs))

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            try:
                return function(*args, **kwargs)
            finally:
                end.record()
                self._pairs.append((start, end))

        return run
