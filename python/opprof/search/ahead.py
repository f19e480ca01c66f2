"""Compiles candidates ahead in processes of their own, so that this one finds their kernels in Inductor's cache. Needs PyTorch.

Nothing is timed there and no compiled program runs: its kernels' choices, which Triton times at the first call and keeps in the
cache, would be made on a busy device.
"""

import contextlib
import copy
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config

from opprof.backend.checks import Subject, load_backend
from opprof.export.model_script import load_model_script
from opprof.processes import Beginning, begin, beginning, start_server
from opprof.progress import progress
from opprof.search.baselines import cast_floats
from opprof.search.clock import Clock
from opprof.units import counted

# Seconds that a process takes to begin and to load the model, at least.
_START_SECONDS = 5.0
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


class Ahead:
    """Processes that do jobs while the block runs; its end waits for them, as long as the time box has time for that.

    What fails there fails here again, where it is said. Without `workers` nothing is done ahead.
    """

    def __init__(self, subject: Subject, workers: int, clock: Clock) -> None:
        self.clock = clock
        self._processes: list[BaseProcess] = []
        if not workers:
            return
        progress(f"  compiling ahead in {workers} processes")
        context = start_server()
        self._jobs: SimpleQueue[Job | None] = context.SimpleQueue()
        script = subject.script
        threads = max(1, len(os.sched_getaffinity(0)) // workers)
        arguments = (beginning(), str(script.path), script.moved_to, threads, self._jobs)
        self._processes = [context.Process(target=_work, args=arguments) for _ in range(workers)]

    def add(self, jobs: Iterable[Job | None]) -> None:
        """To be done in this order, by whichever process is free."""
        for job in jobs:
            # Nobody would take what a pipe without readers has no room for.
            if any(process.is_alive() for process in self._processes):
                self._jobs.put(job)

    def __enter__(self) -> "Ahead":
        try:
            for process in self._processes:
                process.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.add([None] * len(self._processes))
        try:
            if kind is None:
                self._wait()
        finally:
            self._end()

    def _end(self) -> None:
        for process in self._processes:
            if process.pid is not None:
                # The script may do something else when it is asked to end.
                process.kill()
                process.join()

    def _wait(self) -> None:
        end = time.monotonic() + min(max(self.clock.left / 2, _START_SECONDS), 600)
        for process in self._processes:
            process.join(max(end - time.monotonic(), 0))
        failed = [process for process in self._processes if process.exitcode not in (None, 0)]
        if failed:
            progress(
                f"  {counted(len(failed), 'process', 'processes')} ended early: no harm but time"
            )


def _work(
    start: Beginning, path: str, device: str | None, threads: int, jobs: "SimpleQueue[Job | None]"
) -> None:
    """The process: what the model and PyTorch print has been printed by the one that began it."""
    begin(start)
    sink = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(sink, stream)
    torch._inductor.config.compile_threads = threads
    subject = Subject(load_model_script(path, device=device))
    while (job := jobs.get()) is not None:
        # What fails here fails again where it is said.
        with contextlib.suppress(Exception):
            compile_only(subject, job)
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
