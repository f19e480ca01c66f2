"""Compiles candidates ahead in processes of their own, so that this one finds their kernels in Inductor's cache. Needs PyTorch.

Nothing is timed there and no compiled program runs: its kernels' choices, which Triton times at the first call and keeps in the
cache, would be made on a busy device.
"""

import copy
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config

from opprof.backend.checks import Subject, load_backend
from opprof.export.model_script import load_model_script
from opprof.progress import progress
from opprof.search.baselines import cast_floats
from opprof.search.clock import Clock
from opprof.tools import end_with
from opprof.units import counted

# Seconds that a process takes to begin, PyTorch and the model included, at least.
_START_SECONDS = 8.0
# Memory of the model's own size that a process may need, and of PyTorch's beside it.
_MODEL_COPIES, _OVERHEAD_BYTES = 4, 2 << 30


@dataclass(frozen=True)
class Job:
    """One compilation: by a backend's file, or with options of Inductor, of the model or of the model cast as a whole."""

    backend: Path | None = None
    options: tuple[tuple[str, Any], ...] = ()
    dtype: torch.dtype | None = None


def worker_count(subject: Subject, jobs: int) -> int:
    """How many processes are worth their start: half of the cores, as far as memory goes, and none where one would do."""
    parameters = [*subject.script.module.parameters(), *subject.script.module.buffers()]
    size = sum(value.numel() * value.element_size() for value in parameters)
    if subject.script.device_type == "cuda":
        free = torch.cuda.mem_get_info()[0]
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fit = int(free * 0.8) // (_MODEL_COPIES * size + _OVERHEAD_BYTES)
    count = min(len(os.sched_getaffinity(0)) // 2, fit, jobs)
    return count if count > 1 else 0


def compile_ahead(
    subject: Subject,
    jobs: Sequence[Job],
    workers: int,
    clock: Clock,
    meanwhile: Callable[[], Any],
) -> None:
    """Has `workers` processes do the jobs and runs `meanwhile` here; gives up on those that the time box has no time for.

    What fails there fails here again, where it is said.
    """
    context = multiprocessing.get_context("spawn")
    script = subject.script
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    arguments = (os.getpid(), str(script.path), script.moved_to, threads)
    processes = [
        context.Process(target=_work, args=(*arguments, list(jobs[i::workers])), daemon=False)
        for i in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        meanwhile()
        end = time.monotonic() + min(max(clock.left / 2, _START_SECONDS), 600)
        for process in processes:
            process.join(max(end - time.monotonic(), 0))
        failed = [process for process in processes if process.exitcode not in (None, 0)]
        if failed:
            progress(
                f"  {counted(len(failed), 'process', 'processes')} ended early: no harm but time"
            )
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()


def _work(parent: int, path: str, device: str | None, threads: int, jobs: list[Job]) -> None:
    """The process: what the model and PyTorch print has been printed by the one that began it."""
    end_with(parent)
    sink = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(sink, stream)
    torch._inductor.config.compile_threads = threads
    subject = Subject(load_model_script(path, device=device))
    for job in jobs:
        try:
            compile_only(subject, job)
        except Exception as error:
            print(f"{job}: {error}", file=sys.stderr)
        torch._dynamo.reset()


def compile_only(subject: Subject, job: Job) -> None:
    """Compiles every graph that Dynamo finds, and runs it uncompiled."""
    from torch._inductor.compile_fx import compile_fx

    if job.backend is not None:
        compiler = torch._dynamo.lookup_backend(load_backend(job.backend).BACKEND_NAME)
    else:

        def compiler(module: Any, inputs: Any) -> Any:
            return compile_fx(module, inputs, config_patches=dict(job.options))

    def backend(module: Any, inputs: Any) -> Any:
        compiler(module, inputs)
        return module.forward

    module: Any = subject.script.module
    args, kwargs = subject.script.args, subject.script.kwargs
    if job.dtype is not None:
        module = copy.deepcopy(module).to(job.dtype)
        args, kwargs = cast_floats((args, kwargs), torch.float32, job.dtype)
    with torch.no_grad():
        torch.compile(module, backend=backend)(*args, **kwargs)
