"""Recording with torch.profiler, where the capture library cannot. PyTorch is imported when something is recorded."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opprof.devices import synchronize

if TYPE_CHECKING:
    import torch

#: Kineto announces each start and stop on stderr unless its environment says otherwise before its first one.
QUIET: Mapping[str, str] = {"KINETO_LOG_LEVEL": "99"}


def quiet() -> None:
    """Keeps Kineto's announcements off stderr, unless the user asked for them."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def write_trace(profiler: torch.profiler.profile, target: Path) -> None:
    """Writes the trace of a profiler that has stopped, compressed, whole or not at all."""
    # A part of the file name that ends in .gz makes the profiler compress; the rename leaves no half-written trace.
    partial = target.with_name(f".{target.name.removesuffix('.gz')}.partial.gz")
    try:
        profiler.export_chrome_trace(str(partial))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def trace_steps(
    step: Callable[[], Any], steps: int, target: Path, *, with_stack: bool = False
) -> None:
    """Records `steps` steps with torch.profiler, each with its ProfilerStep annotation, after one that warms the profiler up.

    What was recorded until a step fails is kept. With `with_stack`, operators that TorchScript runs say where they stand in its code.
    """
    quiet()
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
        on_trace_ready=functools.partial(write_trace, target=target),
        record_shapes=True,
        with_stack=with_stack,
    ) as profiler:
        for number in range(steps + 1):
            step()
            # Steps follow one another as they do in the user's loop. Waiting after each would be a cost that the report blames
            # on the user; the first traced step and the end of the last need an idle device.
            if number in (0, steps):
                synchronize()
            profiler.step()
