"""Records what a process of `opprof run` has PyTorch do: with the observer, or without one and without a GPU by torch.profiler.

The folder of this file is put on PYTHONPATH, so that every Python of the program begins by running it. Nothing is recorded until the
program imports PyTorch; the trace is written when the process ends. The program runs as it would without: its `__main__`, its
arguments and its own sitecustomize are as they were.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _WaitFor:
    """A finder that calls back with a module when it has been loaded."""

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.act = act

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        # Programs ask for the spec to see whether there is a PyTorch, and import it later: this stays until it is loaded.
        for finder in [other for other in sys.meta_path if other is not self]:
            # Python still takes finders of the older kind, which have none.
            if not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        load: Callable[[ModuleType], None] | None = getattr(spec.loader, "exec_module", None)
        if load is not None:

            def load_and_record(module: ModuleType) -> None:
                load(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self.act(module)

            # To mypy a method is nothing to assign to.
            setattr(spec.loader, "exec_module", load_and_record)  # noqa: B010
        return spec


def _say(text: str) -> None:
    # Nobody may be reading, which is no reason for the program to end otherwise.
    with contextlib.suppress(OSError):
        print(f"opprof: {text}", file=sys.stderr)


def _record(torch: ModuleType) -> None:
    operators = os.environ.get("OPPROF_OPERATORS")
    if operators is not None and not os.path.isdir(os.path.dirname(operators)):
        # The run that this was to be recorded for has ended.
        return
    try:
        observing = _load_beside("observing")
        remark = observing.observe(torch, _load_beside)
        if remark:
            _say(remark)
        sys.meta_path.insert(0, _WaitFor("torch._dynamo.callback", observing.note_compilations))
        return
    except Exception as error:
        reason = f"{error}"
    if "OPPROF_GRAPH_STEP" in os.environ:
        _say(f"no graph is recorded, which needs the observer: {reason}")
    if "OPPROF_CONTROL" in os.environ:
        _say(f"{reason}: `opprof attach` cannot record this process")
        return
    if "OPPROF_CPU_TRACES" not in os.environ:
        # A GPU's kernels are captured whatever is known of operators.
        _say(f"{reason}: kernels have no operators")
        if "OPPROF_STEPS" in os.environ:
            _say(
                "its steps cannot be counted, and all of it is recorded: --steps needs the observer"
            )
        if "OPPROF_MEMORY" in os.environ:
            _say("what it allocates is not recorded: --memory needs the observer")
        return
    _say(f"{reason}: torch.profiler records")
    if "OPPROF_STEPS" in os.environ or any(
        float(os.environ.get(f"OPPROF_CAPTURE_{n}", "0")) for n in ("DELAY", "DURATION")
    ):
        _say("it does from beginning to end: --steps, --delay and --duration need the observer")
    if "OPPROF_MEMORY" in os.environ:
        _say("what is allocated is not recorded: --memory needs the observer")
    _profile(torch)


def _load_beside(name: str) -> ModuleType:
    """A module of this folder, or of one that `name` leads to from here: it is on no path."""
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    name = f"_opprof_{os.path.basename(name)}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _profile(torch: ModuleType) -> None:
    try:
        profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
        )
        profiler.start()
    except Exception as error:
        _say(f"torch.profiler does not record: {error}")
        return
    process = os.getpid()
    written: list[bool] = []

    def write() -> None:
        # What was forked has the handler too, and no recording of its own.
        if written or os.getpid() != process:
            return
        written.append(True)
        name = f"trace-r{os.environ.get('RANK', '')}-p{process}"
        target = os.path.join(os.environ["OPPROF_CPU_TRACES"], name + ".json.gz")
        partial = os.path.join(os.environ["OPPROF_CPU_TRACES"], f".{name}.partial.json.gz")
        try:
            profiler.stop()
            profiler.export_chrome_trace(partial)
            os.replace(partial, target)
        except Exception as error:
            _say(f"torch.profiler left no trace: {error}")

    atexit.register(write)

    # PyTorch has one profiler, which crashes when two use it. The program's own goes before.
    kind = torch.autograd.profiler.profile
    prepare = getattr(kind, "_prepare_trace", None)
    if prepare is None:
        return

    def prepare_for_the_program(self: object) -> None:
        if not written:
            _say("the program starts torch.profiler itself: what ran until now is recorded")
            write()
        kind._prepare_trace = prepare
        prepare(self)

    kind._prepare_trace = prepare_for_the_program


def _run_the_programs_own() -> None:
    """Another sitecustomize that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    # Inductor's workers compile for the program, and are none of it.
    if {"OPPROF_OPERATORS", "OPPROF_CONTROL"} & {*os.environ} and not any(
        "compile_worker" in argument for argument in getattr(sys, "orig_argv", [])
    ):
        sys.meta_path.insert(0, _WaitFor("torch", _record))
finally:
    _run_the_programs_own()
