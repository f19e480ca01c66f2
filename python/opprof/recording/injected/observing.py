"""Loads the observer into a program that has imported PyTorch, and has it record until the process ends.

Nothing of opprof can be imported here: the program's Python need not be the one that opprof is installed in. What the libraries
are called says which PyTorch and Python they are of.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import os
import sys
import sysconfig
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, NoReturn

ABI = 4

#: Collections that are shorter are not worth a line of a report.
_LEAST_GARBAGE_NS = 50_000
#: A collective is waited for where that takes longer.
_LEAST_COLLECTIVE_NS = 20_000


#: The library, once it records.
_observers: list[Any] = []

#: What records a graph of a step.
_graphs: list[Any] = []

#: What is to be called at the end of the process, before the recording ends.
_leaving: list[Callable[[], None]] = []


class _Options(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", ctypes.c_size_t),
        ("prefix", ctypes.c_char_p),
        ("shapes", ctypes.c_uint32),
        ("flush_ms", ctypes.c_uint32),
        ("limit_bytes", ctypes.c_uint64),
        ("delay_s", ctypes.c_double),
        ("duration_s", ctypes.c_double),
        ("capture", ctypes.c_char_p),
        ("first_step", ctypes.c_uint64),
        ("end_step", ctypes.c_uint64),
        ("search_s", ctypes.c_double),
        ("capture_prefix", ctypes.c_char_p),
        ("memory", ctypes.c_uint32),
    ]


class NotObservedError(Exception):
    """Why the observer does not record, in words."""


def names(torch: ModuleType) -> tuple[str, str]:
    """The files of the observer of this PyTorch, and of what reads the frames of this Python for it; empty where nothing does."""
    # Other builds of one version lay their objects and frames out otherwise.
    is_usual = not sysconfig.get_config_var("Py_GIL_DISABLED") and not hasattr(
        sys, "gettotalrefcount"
    )
    is_known = sys.implementation.name == "cpython" and (3, 11) <= sys.version_info[:2] <= (3, 13)
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    of = f"torch-{torch.__version__}"
    frames = f"libopprof_frames-{of}-python-{python}.so" if is_usual and is_known else ""
    return f"libopprof_observer-{of}.so", frames


def _load(folder: str, torch: ModuleType) -> Any:
    path = os.path.join(folder, names(torch)[0])
    if not os.path.isfile(path):
        raise NotObservedError(f"the observer was not built for PyTorch {torch.__version__}")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise NotObservedError(
            f"the observer cannot be loaded: {error}; one that was built is built anew once {path} is removed"
        ) from error
    library.opprof_observer_torch.restype = ctypes.c_char_p
    library.opprof_observer_last_error.restype = ctypes.c_char_p
    library.opprof_observer_file.restype = ctypes.c_char_p
    library.opprof_observer_count_step.restype = ctypes.c_int64
    library.opprof_observer_count_step.argtypes = [ctypes.c_char_p, ctypes.c_uint32]
    library.opprof_observer_note.restype = None
    library.opprof_observer_note.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
    built = library.opprof_observer_torch().decode()
    if library.opprof_observer_abi() != ABI or not torch.__version__.startswith(built):
        raise NotObservedError(f"{path} is of another version")
    return library


def _follow_frames(folder: str, torch: ModuleType, observer: Any) -> str | None:
    """Has the observer know modules and lines; returns why it does not."""
    name = names(torch)[1]
    path = os.path.join(folder, name)
    if not name or not os.path.isfile(path):
        return (
            f"nothing reads the frames of this Python {sys.version_info[0]}.{sys.version_info[1]}"
        )
    try:
        frames = ctypes.PyDLL(path)
    except OSError as error:
        return str(error)
    here = os.path.dirname(os.path.abspath(__file__))
    own = os.path.dirname(os.path.dirname(here))
    hidden = [os.path.dirname(str(torch.__file__)), sysconfig.get_paths()["stdlib"], own]
    texts = (ctypes.c_char_p * len(hidden))(
        *(os.fsencode(os.path.join(place, "")) for place in hidden)
    )
    frames.opprof_frames_start.restype = ctypes.c_char_p
    frames.opprof_frames_source.restype = ctypes.c_void_p
    call = torch.nn.Module.__call__.__code__
    reason: bytes | None = frames.opprof_frames_start(
        ctypes.c_void_p(id(call)), texts, ctypes.c_size_t(len(hidden))
    )
    if reason is not None:
        return reason.decode()
    observer.opprof_observer_set_places(ctypes.c_void_p(frames.opprof_frames_source()))
    return None


def _note_garbage(observer: Any) -> None:
    began = 0

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        now = time.monotonic_ns()
        if phase == "start":
            began = now
        elif now - began > _LEAST_GARBAGE_NS:
            observer.opprof_observer_note(b"garbage of generation %d" % info["generation"], began)

    gc.callbacks.append(note)


def note_compilations(callback: ModuleType) -> None:
    """Notes when Dynamo compiles, once its module of callbacks is loaded; says nothing where it has none such."""
    began: list[int] = []

    def start(*_: object) -> None:
        began.append(time.monotonic_ns())
        for graph in _graphs:
            graph.compilation_begins()

    def end(*_: object) -> None:
        if began:
            _observers[0].opprof_observer_note(b"compilation", began.pop())
        for graph in _graphs:
            graph.compilation_ended()

    def register() -> None:
        callback.callback_handler.register_start_callback(start)
        callback.callback_handler.register_end_callback(end)

    # Nothing of ours fails the program's import.
    with contextlib.suppress(Exception):
        register()
        clear = callback.callback_handler.clear

        def clear_and_register() -> None:
            # As torch._dynamo.reset does.
            clear()
            register()

        callback.callback_handler.clear = clear_and_register


def _note_checkpoints(torch: ModuleType, observer: Any) -> None:
    """Notes what torch.save takes. The function itself stays as it is, which programs compare and pickle."""
    serialization = torch.serialization
    began: dict[int, int] = {}

    def follow_end(kind: Any) -> None:
        leave = kind.__exit__

        def leave_and_note(writer: Any, *args: Any) -> Any:
            try:
                return leave(writer, *args)
            finally:
                if id(writer) in began:
                    observer.opprof_observer_note(b"checkpoint", began.pop(id(writer)))

        kind.__exit__ = leave_and_note

    # Nothing of ours fails the program's import.
    with contextlib.suppress(AttributeError):
        open_writer = serialization._open_zipfile_writer
        for name in ("file", "buffer"):
            follow_end(getattr(serialization, f"_open_zipfile_writer_{name}"))

        def open_and_note(*args: Any, **kwargs: Any) -> Any:
            now = time.monotonic_ns()
            writer = open_writer(*args, **kwargs)
            began[id(writer)] = now
            return writer

        serialization._open_zipfile_writer = open_and_note


def _note_waits(torch: ModuleType, observer: Any) -> None:
    """Notes when the program itself waits for a device, or for other ranks: no operator is round that, which the line would be known by.

    torch.cuda.synchronize and torch.accelerator.synchronize stay as they are; each calls one of these by name. So do the functions
    of torch.distributed that begin a collective and wait for it.
    """

    def follow(owner: Any, name: str, note: bytes, least: int = 0) -> None:
        wait = getattr(owner, name)

        @functools.wraps(wait)
        def wait_and_note(*args: Any, **kwargs: Any) -> Any:
            began = time.monotonic_ns()
            try:
                return wait(*args, **kwargs)
            finally:
                if time.monotonic_ns() - began >= least:
                    observer.opprof_observer_note(note, began)

        setattr(owner, name, wait_and_note)

    for owner, name in (
        (torch._C, "_cuda_synchronize"),
        (torch._C, "_accelerator_synchronizeDevice"),
        (torch.cuda.Stream, "synchronize"),
        (torch.cuda.Event, "synchronize"),
    ):
        # Nothing of ours fails the program's import: a build for CPUs lacks the first, and other versions may lack others.
        with contextlib.suppress(AttributeError):
            follow(owner, name, b"wait")
    # NCCL's only makes a stream wait, and returns.
    with contextlib.suppress(AttributeError):
        follow(torch._C._distributed_c10d.Work, "wait", b"collective wait", _LEAST_COLLECTIVE_NS)


class _Recorder:
    """The libraries, and one recording after the other."""

    def __init__(self, folder: str, torch: ModuleType) -> None:
        self.observer = _load(folder, torch)
        #: Why operators have no modules and lines, if they have none.
        self.remark = _follow_frames(folder, torch, self.observer)
        #: Where the capture library is injected for a GPU.
        self.capture = os.environ.get("CUDA_INJECTION64_PATH")

    def start(
        self,
        prefix: str,
        *,
        delay: float = 0.0,
        duration: float = 0.0,
        steps: tuple[int, int] = (0, 0),
    ) -> None:
        """Records operators into files that begin with `prefix`; raises NotObservedError.

        `steps` are the first and the one after the last to record; then a capture of the steps is made in the same folder.
        """
        capture = os.fsencode(self.capture) if self.capture is not None else None
        options = _Options(
            ctypes.sizeof(_Options),
            os.fsencode(prefix),
            "OPPROF_OPERATORS_SHAPES" in os.environ,
            0,
            0,
            delay,
            duration,
            capture,
            *steps,
            float(os.environ.get("OPPROF_STEPS_SEARCH", "0")),
            os.fsencode(os.path.join(os.path.dirname(prefix), "capture")) if capture else None,
            "OPPROF_MEMORY" in os.environ,
        )
        if self.observer.opprof_observer_start(ctypes.byref(options)):
            raise NotObservedError(self.observer.opprof_observer_last_error().decode())

    def file(self, prefix: str) -> bytes:
        """The path of this process's file of a kind and in a folder, which `prefix` says."""
        path: bytes = self.observer.opprof_observer_file(os.fsencode(prefix))
        return path

    def stop(self) -> None:
        """Ends the recording that there is; that it ends is not to fail the program."""
        self.observer.opprof_observer_stop()


def _keep_earlier(prefix: str) -> None:
    """What this process recorded as another program, before it became this one by exec, gets a name of its own."""
    folder, process = os.path.dirname(prefix), os.getpid()
    names = os.listdir(folder)
    number = 1
    while any(f"-p{process}e{number}." in name for name in names):
        number += 1
    for name in names:
        if f"-p{process}." in name:
            kept = name.replace(f"-p{process}.", f"-p{process}e{number}.")
            os.rename(os.path.join(folder, name), os.path.join(folder, kept))


def _note_worker(prefix: str) -> None:
    """Leaves an empty file beside the recording of a worker of a data loader, which gets no report of its own."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    if getattr(worker, "_worker_info", None) is not None:
        path = os.path.join(os.path.dirname(prefix), f"worker-p{os.getpid()}")
        with contextlib.suppress(OSError), open(path, "x", encoding="utf-8"):
            pass


def _file_of(recorder: _Recorder, kind: str) -> str:
    """This process's file of a kind."""
    folder = os.path.dirname(os.environ["OPPROF_OPERATORS"])
    return os.fsdecode(recorder.file(os.path.join(folder, kind))).rpartition(".")[0] + ".json"


def _follow_steps(
    torch: ModuleType, recorder: _Recorder, load: Callable[[str], ModuleType], end: int
) -> None:
    """Begins what waits for steps of the program; those that are recorded end with the one before `end`."""
    graphs = load("step_graph")
    steps = load("optimizer_steps").OptimizerSteps(torch, recorder.observer, graphs)
    if "OPPROF_GRAPH_STEP" in os.environ:
        try:
            files = {kind: _file_of(recorder, kind) for kind in ("graph", "step")}
            values = load(os.path.join("..", "..", "export", "graph_values"))
            number = int(os.environ["OPPROF_GRAPH_STEP"])
            graph = load("graphed_steps").GraphedSteps(
                torch, recorder.observer, number, files, values, graphs
            )
            steps.before.append(graph.optimizer_begins)
            steps.after.append(graph.optimizer_ended)
            steps.ended.append(graph.step_ended)
            _graphs.append(graph)
            _leaving.append(graph.leave)
        except Exception as error:
            print(f"opprof: no graph is recorded: {error}", file=sys.stderr)
    if "OPPROF_COUNTERS" in os.environ:
        try:
            metrics = os.environ["OPPROF_COUNTERS"].split(",")
            counted = load("counted_steps").CountedSteps(
                recorder.capture, metrics, end, _file_of(recorder, "counted")
            )
            steps.ended.append(counted.step_ended)
            _leaving.append(counted.leave)
        except Exception as error:
            print(f"opprof: no counters are taken: {error}", file=sys.stderr)


def observe(torch: ModuleType, load: Callable[[str], ModuleType]) -> str | None:
    """Begins to record, or to wait for `opprof attach`; returns what is to be said of it, if anything.

    `load` gives a module of this folder. Raises NotObservedError.
    """
    build = load("observer_build")
    try:
        folder = build.libraries(os.environ["OPPROF_OBSERVER_LIBRARIES"], torch, names(torch))
    except build.BuildError as error:
        raise NotObservedError(str(error)) from error
    recorder = _Recorder(folder, torch)
    control = os.environ.get("OPPROF_CONTROL")
    if control is None:
        with contextlib.suppress(OSError):
            _keep_earlier(os.environ["OPPROF_OPERATORS"])
        first, _, end = os.environ.get("OPPROF_STEPS", "0:0").partition(":")
        recorder.start(
            os.environ["OPPROF_OPERATORS"],
            delay=float(os.environ.get("OPPROF_CAPTURE_DELAY", "0")),
            duration=float(os.environ.get("OPPROF_CAPTURE_DURATION", "0")),
            steps=(int(first), int(end)),
        )

        if {"OPPROF_GRAPH_STEP", "OPPROF_COUNTERS"} & {*os.environ}:
            _follow_steps(torch, recorder, load, int(end))

        def stop() -> None:
            _note_worker(os.environ["OPPROF_OPERATORS"])
            for leave in _leaving:
                leave()
            recorder.stop()
    else:
        if "OPPROF_MEMORY" in os.environ:
            recorder.observer.opprof_observer_follow_memory()
        waiting = load("attaching").Waiting(recorder, control)
        stop = waiting.leave
    _observers.append(recorder.observer)
    _note_garbage(recorder.observer)
    _note_checkpoints(torch, recorder.observer)
    _note_waits(torch, recorder.observer)
    atexit.register(stop)
    exit_at_once = os._exit

    def leave_whole(status: int) -> NoReturn:
        stop()
        exit_at_once(status)

    # It can be pickled, as the function that it stands for.
    leave_whole.__module__, leave_whole.__name__, leave_whole.__qualname__ = "os", "_exit", "_exit"
    # What multiprocessing forks ends so too.
    os._exit = leave_whole
    if recorder.remark:
        return f"operators have no modules and lines: {recorder.remark}"
    return None
