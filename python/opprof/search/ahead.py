"""Compiles candidates ahead in processes of their own, so that this one finds their kernels in Inductor's cache. Needs PyTorch.

Nothing is timed there and no compiled program runs: its kernels' choices, which Triton times at the first call and keeps in the
cache, would be made on a busy device. While this process times or runs something, they stand still: what launches kernels is slower
beside them.
"""

import contextlib
import copy
import os
import pickle
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch import fx
from torch._dynamo.callback import callback_handler
from torch.utils._pytree import tree_leaves, tree_map

from opprof.backend.checks import Subject, load_backend
from opprof.backend.emitted.tf32 import with_tf32
from opprof.export.graph_store import GraphStore
from opprof.export.model_script import ModelScript, load_model_script
from opprof.processes import (
    Beginning,
    Guard,
    begin,
    beginning,
    go_on,
    kill,
    stand_apart,
    start_server,
    stop,
)
from opprof.progress import progress
from opprof.search.baselines import Recipe, cast_floats
from opprof.units import counted

# Memory of the model's own size that a process may need, and of PyTorch's beside it.
_MODEL_COPIES, _OVERHEAD_BYTES = 4, 2 << 30
# So many have jobs that are waited for, at any time.
_FEW = 4
# More have nothing to do: so many candidates are rarely known at once.
_MOST_WORKERS = 12
# Seconds for which processes stand still at most: one may hold a lock that is waited for.
_STILL_SECONDS = 60.0
# Seconds for which one compilation is waited for at most.
_LONGEST_SECONDS = 600.0
# Between two looks for a job.
_LOOK_SECONDS = 0.05
# What became of a job: its code is there, or whoever was at it failed or was killed.
_COMPILED, _GIVEN_UP = 1, 2
# Of what comes after so many jobs nobody knows whether it is done.
_MOST_JOBS = 1024


@dataclass(frozen=True)
class Job:
    """One compilation: by a backend, or with options of Inductor, of the model or of the model cast as a whole."""

    # What the backend is made of; files of other names may be made of the same.
    content: str = ""
    backend: Path | None = field(default=None, compare=False)
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
    """How many processes are worth their start: half of the cores, as far as memory goes beside what the command itself does meanwhile, and
    none where one would do.
    """
    parameters = [*script.module.parameters(), *script.module.buffers()]
    size = sum(value.numel() * value.element_size() for value in parameters)
    if script.device_type == "cuda":
        free = torch.cuda.mem_get_info()[0]
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    fit = int(free * 0.8) // (_MODEL_COPIES * size + _OVERHEAD_BYTES) - 1
    count = min(len(os.sched_getaffinity(0)) // 2, fit, _MOST_WORKERS)
    return count if count > 1 else 0


class Ahead:
    """Processes that do jobs, from the first `with` on until they are told to end or the block ends.

    What fails there fails here again, where it is said. Without `workers` nothing is done ahead. What backends compile, here and there,
    is left in `store`, where there is one.
    """

    def __init__(self, script: ModelScript, workers: int, store: GraphStore | None = None) -> None:
        self.store = store
        self._processes: list[BaseProcess] = []
        # The jobs' numbers, in the order in which they are taken.
        self._numbers: dict[Job, int] = {}
        # Blocks that want quiet, and who stands still for them until the timer ends that.
        self._quiet = 0
        self._stopped: list[int] = []
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()
        # For a GPU no kernel is compiled under a lock that others wait for.
        self._has_locks = script.device_type != "cuda"
        if not workers:
            return
        context = start_server()
        # A file for each job, which the process that takes it renames: who is killed holds no lock of anything, and nobody waits for room.
        try:
            self._folder = tempfile.mkdtemp(prefix="opprof-ahead-")
        except OSError as error:
            progress(f"  nothing is compiled ahead: {error}")
            return
        self._count = context.RawValue("i", 0)
        # A byte for each job.
        self._done = context.RawArray("b", _MOST_JOBS)
        # For each process the job that it is at, one more than its number, and 0 before the first.
        self._taken = context.RawArray("i", workers)
        # More than its share: the first jobs are few, and waited for.
        threads = max(1, len(os.sched_getaffinity(0)) // min(workers, _FEW))
        of_all = (beginning(), str(script.path), script.moved_to, threads, store)
        jobs = (self._folder, self._count, self._done, self._taken)
        self._processes = [
            context.Process(target=_work, args=(*of_all, *jobs, place)) for place in range(workers)
        ]
        self._guard = Guard(context, workers, self._folder)
        progress(f"  compiling ahead in {workers} processes")

    @property
    def works(self) -> bool:
        """Whether there are processes."""
        return bool(self._processes)

    def add(self, jobs: Iterable[Job | None]) -> None:
        """To be done in this order, by whichever process is free; what is known already is not done again."""
        for job in jobs:
            if job is not None and job not in self._numbers:
                number = len(self._numbers)
                if self._processes:
                    self._leave(number, job)
                self._numbers[job] = number

    def _leave(self, number: int, job: Job) -> None:
        # What it is known by takes most of it.
        text = pickle.dumps(replace(job, content=""))
        try:
            _file_of(self._folder, number).write_bytes(text)
        except OSError as error:
            progress(f"  nothing more is compiled ahead: {error}")
            self.end()
            return
        self._count.value = number + 1

    def wait_for(self, job: Job | None, seconds: float = float("inf")) -> bool:
        """Until a job is done that somebody is at or takes next, but not for longer; whether it is done. Others are done as soon by who
        asks.
        """
        end = time.monotonic() + min(seconds, _LONGEST_SECONDS)
        number = -1 if job is None else self._numbers.get(job, -1)
        while self._is_soon_done(number) and time.monotonic() < end:
            time.sleep(0.02)
        known = 0 <= number < _MOST_JOBS and bool(self._processes)
        return known and bool(self._done[number] == _COMPILED)

    def _alive(self) -> list[int]:
        """The processes that there are."""
        return [
            process.pid
            for process in self._processes
            if process.pid is not None and process.is_alive()
        ]

    def _is_soon_done(self, number: int) -> bool:
        if not self._processes or not 0 <= number < _MOST_JOBS:
            return False
        alive = 0
        for place, process in enumerate(self._processes):
            alive += process.is_alive()
            # What one was at that has been killed is done by nobody.
            if not process.is_alive() and self._taken[place]:
                at = min(self._taken[place], _MOST_JOBS) - 1
                self._done[at] = self._done[at] or _GIVEN_UP
        before = number - sum(map(bool, self._done[:number]))
        return alive > before and not self._done[number]

    def __enter__(self) -> "Ahead":
        try:
            if self._processes:
                self._guard.start()
            for place, process in enumerate(self._processes):
                process.start()
                if process.pid is not None:
                    self._guard.watch(place, process.pid)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends the processes, whatever they are at."""
        with self._lock:
            self._go_on()
            failed = [one for one in self._processes if one.exitcode not in (None, 0)]
            if failed:
                progress(
                    f"  {counted(len(failed), 'process', 'processes')} ended early: no harm but time"
                )
            if not self._processes:
                return
            # With the compilers that they began.
            kill(self._alive())
            for process in [*self._processes, self._guard.process]:
                if process.pid is not None:
                    process.kill()
                    process.join()
            self._processes = []
            shutil.rmtree(self._folder, ignore_errors=True)

    # -----------------------------------------------------------------------------------------------------------------
    # Quiet
    # -----------------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def quiet(self, seconds: float = 0.0) -> Iterator[None]:
        """Within it the processes stand still, for a while that no measurement takes; and, where they hold no locks, for as many seconds
        as are asked for.
        """
        self._begin_quiet(0.0 if self._has_locks else seconds)
        try:
            yield
        finally:
            self._end_quiet()

    @contextlib.contextmanager
    def beside_compilation(self) -> Iterator[None]:
        """Within it they stand still once Dynamo has compiled something and it runs, and not while it compiles."""
        still = False

        def begin(_: object) -> None:
            nonlocal still
            if still:
                still = False
                self._end_quiet()

        def end(_: object) -> None:
            nonlocal still
            if not still:
                still = True
                self._begin_quiet()

        callback_handler.register_start_callback(begin)
        callback_handler.register_end_callback(end)
        try:
            yield
        finally:
            # A reset of Dynamo's removes them.
            with contextlib.suppress(ValueError):
                callback_handler.remove_start_callback(begin)
                callback_handler.remove_end_callback(end)
            begin(None)

    def _begin_quiet(self, seconds: float = 0.0) -> None:
        with self._lock:
            self._quiet += 1
            alive = self._alive()
            if self._quiet > 1 or not alive:
                return
            self._timer = threading.Timer(max(seconds, _STILL_SECONDS), self._go_on)
            self._timer.daemon = True
            self._timer.start()
            stop(alive, self._stopped)

    def _end_quiet(self) -> None:
        with self._lock:
            self._quiet -= 1
            if not self._quiet:
                self._go_on()

    def _go_on(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            go_on(self._stopped)
            self._stopped = []


def _work(
    start: Beginning,
    path: str,
    device: str | None,
    threads: int,
    store: GraphStore | None,
    folder: str,
    count: Any,
    done: Any,
    taken: Any,
    place: int,
) -> None:
    """The process, which is ended by the one that began it, and prints nothing: what the model and PyTorch print has been printed there."""
    stand_apart()
    begin(start)
    sink = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(sink, stream)
    torch._inductor.config.compile_threads = threads
    subject: Subject | None = None
    # What comes before the last one that was free has been taken.
    number = 0
    while True:
        if number >= count.value:
            time.sleep(_LOOK_SECONDS)
            continue
        before, taken[place] = taken[place], number + 1
        mine = Path(folder, f"{number}-{place}")
        try:
            _file_of(folder, number).rename(mine)
        except FileNotFoundError:
            taken[place] = before
            number += 1
            continue
        job: Job = pickle.loads(mine.read_bytes())
        # Who has no job loads no model: that takes cores from what is waited for.
        subject = subject or Subject(load_model_script(path, device=device))
        became = _GIVEN_UP
        # What fails here fails again where it is said.
        with contextlib.suppress(Exception), contextlib.ExitStack() as stack:
            if store is not None and job.backend is not None:
                scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
                stack.enter_context(store.watching(Path(scratch)))
            compile_only(subject, job)
            became = _COMPILED
        torch._dynamo.reset()
        if number < _MOST_JOBS:
            done[number] = became


def _file_of(folder: str, number: int) -> Path:
    return Path(folder, f"{number}.job")


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

    A process beside it may be measuring the model for its profile, and would wait for kernels of the graph.
    """
    given = module.graph.output_node().args[0]
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
