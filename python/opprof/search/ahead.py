"""Compiles candidates ahead in processes of their own, so that this one finds their kernels in Inductor's cache. Needs PyTorch.

Nothing is timed there and no compiled program runs: its kernels' choices, which Triton times at the first call and keeps in the
cache, would be made on a busy device. Some cores are left to the command itself, which measures meanwhile.
"""

import contextlib
import copy
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map

from opprof.backend.checks import Subject, load_backend
from opprof.backend.emitted.tf32 import with_tf32
from opprof.export.model_script import ModelScript, load_model_script
from opprof.processes import Beginning, begin, beginning, start_server
from opprof.progress import progress
from opprof.search.baselines import Recipe, cast_floats
from opprof.units import counted

# Memory of the model's own size that a process may need, and of PyTorch's beside it.
_MODEL_COPIES, _OVERHEAD_BYTES = 4, 2 << 30
# More have nothing to do: so many candidates are rarely known at once.
_MOST_WORKERS = 12
# Of the cores, what the processes leave to the command.
_CORES_LEFT = 4


@dataclass(frozen=True)
class Job:
    """One compilation: by a backend's file, or with options of Inductor, of the model or of the model cast as a whole."""

    backend: Path | None = None
    options: tuple[tuple[str, Any], ...] = ()
    dtype: torch.dtype | None = None
    # Whether float32 products may use TF32 units, which is a setting of the whole process.
    tf32: bool = False


def job_of(recipe: Recipe) -> Job | None:
    """What a recipe compiles; None where that is nothing, or where kernels are chosen by timing."""
    if recipe.options is None or recipe.tunes_float32:
        return None
    return Job(options=tuple(recipe.options.items()), dtype=recipe.dtype, tf32=recipe.tf32)


def worker_count(script: ModelScript) -> int:
    """How many processes are worth their start: half of the cores, as far as memory goes, and none where one would do."""
    parameters = [*script.module.parameters(), *script.module.buffers()]
    size = sum(value.numel() * value.element_size() for value in parameters)
    if script.device_type == "cuda":
        free = torch.cuda.mem_get_info()[0]
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fit = int(free * 0.8) // (_MODEL_COPIES * size + _OVERHEAD_BYTES)
    count = min(len(os.sched_getaffinity(0)) // 2, fit, _MOST_WORKERS)
    return count if count > 1 else 0


class Ahead:
    """Processes that do jobs while this one goes on, from the first `with` on; its end ends them, whatever is left to do.

    What fails there fails here again, where it is said. Without `workers` nothing is done ahead.
    """

    def __init__(self, script: ModelScript, workers: int) -> None:
        self._changed = threading.Condition()
        self._known: set[Job] = set()
        # What nobody has begun.
        self.waiting: list[Job] = []
        self._running: set[Job] = set()
        # While something is measured that needs the cores.
        self._held = 0
        self._ending = False
        self._failed = 0
        self._processes: list[BaseProcess] = []
        # Of each process the end of its pipe that is here, and its own.
        self._pipes: list[tuple[Connection, Connection]] = []
        if not workers:
            return
        progress(f"  compiling ahead in {workers} processes")
        context = start_server()
        for _ in range(workers):
            here, there = context.Pipe()
            arguments = (beginning(), str(script.path), script.moved_to, workers, there)
            self._processes.append(context.Process(target=_work, args=arguments))
            self._pipes.append((here, there))

    def __enter__(self) -> "Ahead":
        try:
            for process, (here, there) in zip(self._processes, self._pipes, strict=True):
                process.start()
                # What is left open here would hide that the process is gone.
                there.close()
                threading.Thread(target=self._serve, args=(here,), daemon=True).start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, jobs: Iterable[Job | None]) -> None:
        """To be done in this order, by whichever process is free; what is known already is not done again."""
        with self._changed:
            for job in jobs:
                if job is not None and job not in self._known and self._processes:
                    self._known.add(job)
                    self.waiting.append(job)
            self._changed.notify_all()

    def settle(self, job: Job | None) -> None:
        """Returns when the job is done; at once where nobody has begun it, who asks does it as soon himself."""
        with self._changed:
            if job in self.waiting:
                self.waiting.remove(job)
            self._changed.wait_for(lambda: job not in self._running)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Waits until no process does anything; none begins anything before the block ends."""
        with self._changed:
            self._held += 1
            self._changed.wait_for(lambda: not self._running)
        try:
            yield
        finally:
            with self._changed:
                self._held -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Ends the processes; says how many had ended before."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        for process in self._processes:
            if process.pid is not None:
                # The script may do something else when it is asked to end.
                process.kill()
                process.join()
        if self._failed:
            progress(
                f"  {counted(self._failed, 'process', 'processes')} ended early: no harm but time"
            )
        self._processes, self._failed = [], 0

    def _serve(self, end: Connection) -> None:
        """Hands jobs to one process until it ends."""
        with end:
            while (job := self._next()) is not None:
                try:
                    end.send(job)
                    end.recv()
                except (EOFError, OSError):
                    with self._changed:
                        self._failed += not self._ending
                    return
                finally:
                    with self._changed:
                        self._running.discard(job)
                        self._changed.notify_all()

    def _next(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: (self.waiting and not self._held) or self._ending)
            if self._ending:
                return None
            job = self.waiting.pop(0)
            self._running.add(job)
            return job


def _work(start: Beginning, path: str, device: str | None, workers: int, jobs: Connection) -> None:
    """The process: what the model and PyTorch print has been printed by the one that began it."""
    begin(start)
    sink = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(sink, stream)
    cores = sorted(os.sched_getaffinity(0))
    cores = cores[len(cores) // _CORES_LEFT :]
    os.sched_setaffinity(0, cores)
    torch._inductor.config.compile_threads = max(2, len(cores) // workers)
    subject = Subject(load_model_script(path, device=device))
    with contextlib.suppress(EOFError):
        while True:
            job = jobs.recv()
            # What fails here fails again where it is said.
            with contextlib.suppress(Exception):
                compile_only(subject, job)
            torch._dynamo.reset()
            jobs.send(None)


def compile_only(subject: Subject, job: Job) -> None:
    """Compiles every graph that Dynamo finds; in the place of results there are zeros like them, or those of the graph uncompiled."""
    from torch._inductor.compile_fx import compile_fx

    if job.backend is not None:
        compiler = torch._dynamo.lookup_backend(load_backend(job.backend).BACKEND_NAME)
    else:

        def compiler(module: Any, inputs: Any) -> Any:
            return compile_fx(module, inputs, config_patches=dict(job.options))

    def backend(module: fx.GraphModule, inputs: Any) -> Any:
        # Before Inductor's passes change the graph.
        results = results_like(module)
        compiler(module, inputs)
        return results or module.forward

    module: Any = subject.script.module
    args, kwargs = subject.script.args, subject.script.kwargs
    if job.dtype is not None:
        module = copy.deepcopy(module).to(job.dtype)
        args, kwargs = cast_floats((args, kwargs), torch.float32, job.dtype)
    compiled: Callable[..., Any] = torch.compile(module, backend=backend)
    with torch.no_grad():
        (with_tf32(compiled) if job.tf32 else compiled)(*args, **kwargs)


def results_like(module: fx.GraphModule) -> Callable[..., Any] | None:
    """A function that gives zeros like what a graph of Dynamo's gives; None where their sizes are not known.

    No other process's measurements wait for kernels of it then.
    """
    given = next(iter(reversed(module.graph.nodes))).args[0]
    known = tree_map(
        lambda leaf: leaf.meta.get("example_value") if isinstance(leaf, fx.Node) else leaf, given
    )
    for leaf in tree_leaves(known):
        sizes = (*leaf.shape, *leaf.stride()) if isinstance(leaf, torch.Tensor) else (None,)
        if not all(isinstance(size, int) for size in sizes):
            return None

    def zeros(leaf: torch.Tensor) -> torch.Tensor:
        made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)
        return made.zero_()

    return lambda *_: tree_map(zeros, known)
