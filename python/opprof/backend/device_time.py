"""Which part of the device's time in a step is a backend's own programs', from a trace of torch.profiler. Needs PyTorch."""

import functools
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import ModuleType
from typing import Any
from unittest.mock import patch

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from opprof.backend.checks import Program, Subject
from opprof.devices import synchronize

_STEP, _OWN = "opprof: step", "opprof: own program"


def own_share(subject: Subject, backend: ModuleType, program: Program) -> float | None:
    """From 0 to 1: of the kernels' time in a step that of kernels launched by the backend's programs, on a CPU of the step's time that spent
    in them. None where the backend has no programs of that kind, or nothing ran on the device.

    Once a profiler has run, launches take longer in this process: to be asked last.
    """
    own = getattr(backend, "Program", None)
    if own is None:
        return None
    args, kwargs = subject.script.args, subject.script.kwargs
    on_gpu = subject.script.device_type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with ExitStack() as stack:
        stack.enter_context(patch.object(own, "run", _marked(own.run)))
        program(*args, **kwargs)
        synchronize()
        trace = stack.enter_context(profile(activities=activities))
        with record_function(_STEP):
            program(*args, **kwargs)
        synchronize()
    subject.restore()
    events = list(trace.events())
    if on_gpu:
        return _share_of_kernels(events)
    total = sum(event.cpu_time_total for event in events if event.name == _STEP)
    inside = sum(event.cpu_time_total for event in events if event.name == _OWN)
    return inside / total if total else None


def _marked(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with record_function(_OWN):
            return function(*args, **kwargs)

    return run


def _share_of_kernels(events: Iterable[Any]) -> float | None:
    """By the ranges of threads that kernels were launched in."""
    total = inside = 0.0
    for event in events:
        if event.device_type != DeviceType.CPU or not event.kernels:
            continue
        time = sum(kernel.duration for kernel in event.kernels)
        total += time
        parent = event
        while parent is not None and parent.name != _OWN:
            parent = parent.cpu_parent
        inside += time if parent is not None else 0.0
    return inside / total if total else None
