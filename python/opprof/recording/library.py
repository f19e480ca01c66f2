"""libopprof_capture.so through ctypes: its functions with their types, and its errors as exceptions. Needs no PyTorch."""

import ctypes
import glob
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar

from opprof.errors import OpprofError

ABI = 1

KERNELS = 1
COPIES = 2
API = 4
SYNCS = 8
OVERHEAD = 16
IDS = 32
MARKERS = 64
MEMORY = 128
ALL_API = 256
DEFAULT_KINDS = KERNELS | COPIES | API | OVERHEAD | IDS | MARKERS

#: Statuses of the library that callers tell apart; see Capture.h.
STATUSES = {
    1: "no-cupti",
    2: "no-device",
    3: "busy",
    4: "permission",
    5: "invalid",
    6: "io",
    7: "unknown-metric",
    8: "not-replayable",
    9: "forked",
    10: "cupti",
}


_UNKNOWN = 0xFFFFFFFF


class CaptureError(OpprofError):
    """A failure of the capture library; `status` says of which sort."""

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are made again of their args alone, also where a process hands one to another.
        return type(self), (*self.args, self.status), self.__dict__


class _Options(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", ctypes.c_size_t),
        ("path", ctypes.c_char_p),
        ("kinds", ctypes.c_uint32),
        ("buffer_bytes", ctypes.c_uint32),
        ("pool_bytes", ctypes.c_uint64),
        ("flush_ms", ctypes.c_uint32),
        ("paused", ctypes.c_uint32),
    ]


class Stats(ctypes.Structure):
    """What a capture took; filled when it ends."""

    _fields_: ClassVar = [
        ("records", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("buffers", ctypes.c_uint64),
        ("buffer_peak_bytes", ctypes.c_uint64),
    ]


class Launch(ctypes.Structure):
    """One launch of a recorded step, as opprof_launch in Capture.h."""

    _fields_: ClassVar = [
        ("_name", ctypes.c_char_p),
        ("external_id", ctypes.c_uint64),
        ("grid", ctypes.c_int32 * 3),
        ("block", ctypes.c_int32 * 3),
        ("kind", ctypes.c_uint32),
        ("registers", ctypes.c_uint32),
        ("local_bytes", ctypes.c_uint32),
        ("static_shared", ctypes.c_uint32),
        ("dynamic_shared", ctypes.c_uint32),
        ("duration_ns", ctypes.c_uint32),
    ]

    def as_dict(self, index: int) -> dict[str, Any]:
        """The kernel, without what is not known of it."""
        entry: dict[str, Any] = {
            "index": index,
            "kernel": self._name.decode(errors="replace"),
            "grid": list(self.grid),
            "block": list(self.block),
        }
        for name in ("registers", "local_bytes", "static_shared", "dynamic_shared", "duration_ns"):
            value = getattr(self, name)
            if value != _UNKNOWN:
                entry[name] = value
        return entry


class _Place(ctypes.Structure):
    _fields_: ClassVar = [
        ("code", ctypes.c_void_p),
        ("id", ctypes.c_uint64),
        ("path", ctypes.py_object),
        ("offset", ctypes.c_uint32),
    ]


class _PythonObjects(ctypes.Structure):
    _fields_: ClassVar = [
        ("disable", ctypes.py_object),
        ("move", ctypes.py_object),
        ("outside", ctypes.py_object),
    ]


class _CountersOptions(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", ctypes.c_size_t),
        ("metrics", ctypes.POINTER(ctypes.c_char_p)),
        ("metric_count", ctypes.c_size_t),
        ("replay", ctypes.c_uint32),
        ("ranges", ctypes.c_uint32),
        ("selected", ctypes.POINTER(ctypes.c_uint64)),
        ("selected_count", ctypes.c_size_t),
        ("check_availability", ctypes.c_uint32),
        ("uncounted_runs", ctypes.c_uint32),
    ]


def find_library() -> str:
    """The library's path: $OPPROF_CAPTURE_LIBRARY, in the package, beside the tools, or in the build folder."""
    name = "libopprof_capture.so"
    given = os.environ.get("OPPROF_CAPTURE_LIBRARY")
    if given:
        return given
    package = Path(__file__).parents[1]
    places = [package / "lib", package.parent.parent / "build" / "lib"]
    tools = os.environ.get("OPPROF_TOOLS_DIR")
    if tools:
        places.insert(0, Path(tools).parent / "lib")
    for place in places:
        if (place / name).is_file():
            return str(place / name)
    raise OpprofError(
        f"{name} was not found in {', '.join(map(str, places))}",
        remedy="install the project with `pip install .`, or set OPPROF_CAPTURE_LIBRARY to its path",
    )


def find_cupti() -> str | None:
    """CUPTI in this Python's packages, where PyTorch's wheels put it; None leaves the search to the library."""
    if os.environ.get("OPPROF_CUPTI_LIBRARY"):
        return None
    for entry in sys.path:
        for pattern in ("nvidia/cu13/lib/libcupti.so.*", "nvidia/cuda_cupti/lib/libcupti.so.*"):
            found = sorted(glob.glob(os.path.join(entry or ".", pattern)))
            if found:
                return found[-1]
    return None


class Library:
    """The functions of the library; each raises CaptureError when it fails."""

    _instance: "Library | None" = None

    def __init__(self, path: str) -> None:
        # PyDLL for what runs round every launch: those calls are shorter than giving the interpreter lock away.
        self.path = path
        try:
            library = ctypes.CDLL(path)
            quick = ctypes.PyDLL(path)
        except OSError as error:
            raise OpprofError(f"{path} cannot be loaded: {error}") from error
        abi = library.opprof_capture_abi()
        if abi != ABI:
            raise OpprofError(
                f"{path} has ABI {abi}; this Python package needs {ABI}",
                remedy="build and install both together with `pip install .`",
            )
        library.opprof_capture_last_error.restype = ctypes.c_char_p
        library.opprof_counters_report.restype = ctypes.c_char_p
        for name in ("info", "summarize"):
            getattr(library, f"opprof_capture_{name}").restype = ctypes.c_size_t
        library.opprof_demangle.restype = ctypes.c_size_t
        for name in ("passes", "rows"):
            getattr(library, f"opprof_counters_{name}").restype = ctypes.c_size_t
        library.opprof_counters_close.restype = None
        quick.opprof_capture_at_id.restype = None
        for function in (quick.opprof_capture_at_id, quick.opprof_capture_push_id):
            function.argtypes = [ctypes.c_uint64]
        self.native = library
        self._python_callbacks = getattr(quick, "opprof_python_callbacks", None)
        self.at_id = quick.opprof_capture_at_id
        self.push_id = quick.opprof_capture_push_id
        self.pop_id = quick.opprof_capture_pop_id

    @classmethod
    def get(cls) -> "Library":
        """The library of this process, with CUPTI loaded."""
        if cls._instance is None:
            library = cls(find_library())
            path = find_cupti()
            library.check(library.native.opprof_capture_load(path.encode() if path else None))
            cls._instance = library
        return cls._instance

    @classmethod
    def for_files(cls) -> "Library":
        """The library for what only reads captures: that needs no CUPTI."""
        return cls._instance or cls(find_library())

    def check(self, status: int) -> None:
        """Raises what the library says of a failed call."""
        if status:
            raise CaptureError(
                self.native.opprof_capture_last_error().decode(errors="replace"),
                STATUSES.get(status, str(status)),
            )

    def _text(self, function: Any, *arguments: Any) -> str:
        size = function(*arguments, None, ctypes.c_size_t(0))
        if not size:
            self.check(6)
        buffer = ctypes.create_string_buffer(size + 1)
        function(*arguments, buffer, ctypes.c_size_t(size + 1))
        return buffer.value.decode(errors="replace")

    def info(self) -> dict[str, Any]:
        """CUPTI's and the driver's versions and paths."""
        info: dict[str, Any] = json.loads(self._text(self.native.opprof_capture_info))
        return info

    def start(
        self,
        path: str,
        *,
        kinds: int = DEFAULT_KINDS,
        paused: bool = False,
        buffer_bytes: int = 0,
        pool_bytes: int = 0,
        flush_ms: int = 0,
    ) -> None:
        """Begins to write a capture file."""
        options = _Options(
            ctypes.sizeof(_Options),
            os.fsencode(path),
            kinds,
            buffer_bytes,
            pool_bytes,
            flush_ms,
            paused,
        )
        self.check(self.native.opprof_capture_start(ctypes.byref(options)))

    def stop(self) -> Stats:
        """Ends the capture file."""
        stats = Stats()
        self.check(self.native.opprof_capture_stop(ctypes.byref(stats)))
        return stats

    def call(self, name: str, *arguments: Any) -> None:
        """Calls opprof_<name>, which returns a status."""
        self.check(getattr(self.native, f"opprof_{name}")(*arguments))

    def mark(self, kind: int, value: int, name: str | None = None) -> None:
        """Notes the beginning (1) or end (2) of a step, or a remark (3)."""
        self.call(
            "capture_mark",
            ctypes.c_uint32(kind),
            ctypes.c_uint64(value),
            name.encode() if name else None,
        )

    def name_id(self, identifier: int, text: str) -> None:
        """Says in the file what an id stands for."""
        self.call("capture_name_id", ctypes.c_uint64(identifier), text.encode())

    def python_callbacks(
        self,
        places: Sequence[tuple[CodeType, int, int, Any]],
        disable: object,
        move: Callable[[Any], Any] | None = None,
        outside: Any = None,
    ) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
        """What sys.monitoring is to call so that each place (code, offset, id, path) sets its id.

        `move` is called with the path where a thread gets to another, and with `outside` where it leaves. None where the
        process has no CPython that shows its C API, or the library is older than this. The code objects have to be kept for
        as long as the callbacks are used.
        """
        if self._python_callbacks is None:
            return None
        self._python_callbacks.restype = ctypes.py_object
        array = (_Place * len(places))()
        for entry, (code, offset, identifier, path) in zip(array, places, strict=True):
            entry.code, entry.offset, entry.id = id(code), offset, identifier
            if move is not None:
                entry.path = path
        objects = _PythonObjects()
        objects.disable = disable
        if move is not None:
            objects.move, objects.outside = move, outside
        try:
            callbacks: tuple[Callable[..., Any], Callable[..., Any]] = self._python_callbacks(
                array, ctypes.c_size_t(len(places)), ctypes.byref(objects)
            )
        except ValueError:
            # What ctypes makes of a null.
            return None
        return callbacks

    def launches(self) -> list[dict[str, Any]]:
        """The launches recorded last, with what the timeline says of them, and of a CUDA graph its kernels."""
        result: list[dict[str, Any]] = []
        launch = Launch()
        get = self.native.opprof_launches_get
        while not get(ctypes.c_size_t(len(result)), ctypes.byref(launch)):
            entry = {**launch.as_dict(len(result)), "id": launch.external_id}
            entry["cuda_graph"] = launch.kind == 1
            if entry["cuda_graph"]:
                entry["kernels"] = self._kernels(len(result))
            result.append(entry)
        return result

    def _kernels(self, launch: int) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = []
        kernel = Launch()
        while not self.native.opprof_launches_kernel(
            ctypes.c_size_t(launch), ctypes.c_size_t(len(result)), ctypes.byref(kernel)
        ):
            result.append(kernel.as_dict(len(result)))
        return result

    def measure_ranks(self, captures: Sequence[tuple[int, str]], measures: str) -> None:
        """Writes what communication costs captures, each with its rank, as JSON."""
        paths = (ctypes.c_char_p * len(captures))(*(os.fsencode(path) for _, path in captures))
        ranks = (ctypes.c_uint32 * len(captures))(*(rank for rank, _ in captures))
        count = ctypes.c_size_t(len(captures))
        self.call("capture_measure_ranks", paths, ranks, count, os.fsencode(measures))

    def demangle(self, name: str) -> str:
        """A kernel's name as its source has it."""
        return self._text(self.native.opprof_demangle, name.encode())

    def summarize(self, capture: str) -> str:
        """What a capture file holds, a line each."""
        return self._text(self.native.opprof_capture_summarize, os.fsencode(capture))


class Counters:
    """Counter passes over the launches recorded last. Close it, or use it in a with statement."""

    def __init__(
        self,
        library: Library,
        metrics: Sequence[str],
        *,
        replay: str = "user",
        selected: Sequence[tuple[int, int]] | None = None,
        whole_step: bool = False,
        uncounted_runs: int = 0,
        check_availability: bool = False,
    ) -> None:
        self._library = library
        self.metrics = list(metrics)
        names = (ctypes.c_char_p * len(metrics))(*[m.encode() for m in metrics])
        flat = [bound for pair in selected or () for bound in pair]
        pairs = (ctypes.c_uint64 * max(1, len(flat)))(*flat)
        options = _CountersOptions(
            ctypes.sizeof(_CountersOptions),
            names,
            len(metrics),
            {"user": 0, "kernel": 1}[replay],
            2 if whole_step else 0 if selected is None else 1,
            pairs,
            len(flat) // 2,
            check_availability,
            uncounted_runs,
        )
        self._handle = ctypes.c_void_p()
        library.call("counters_open", ctypes.byref(options), ctypes.byref(self._handle))

    def __enter__(self) -> "Counters":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def passes(self) -> int:
        """How often the step has to run."""
        return int(self._library.native.opprof_counters_passes(self._handle))

    def begin_pass(self) -> None:
        """Turns the counters on."""
        self._library.call("counters_begin_pass", self._handle)

    def next_run(self) -> None:
        """Between the runs of a pass that does not count all of them."""
        self._library.call("counters_next_run", self._handle)

    def end_pass(self) -> bool:
        """Turns them off; true when another pass is wanted."""
        more = ctypes.c_int()
        self._library.call("counters_end_pass", self._handle, ctypes.byref(more))
        return bool(more.value)

    def finish(self) -> None:
        """Reads the counters out, and into the capture file when there is one."""
        self._library.call("counters_finish", self._handle)

    def rows(self) -> list[tuple[int, dict[str, float]]]:
        """The launch and the raw counters of each range."""
        values = (ctypes.c_double * len(self.metrics))()
        launch = ctypes.c_uint64()
        result = []
        for index in range(self._library.native.opprof_counters_rows(self._handle)):
            self._library.call(
                "counters_row", self._handle, ctypes.c_size_t(index), ctypes.byref(launch), values
            )
            result.append((launch.value, dict(zip(self.metrics, values, strict=True))))
        return result

    def report(self) -> dict[str, Any]:
        """Chip, passes, seconds by stage, and the reason for each absent metric."""
        report: dict[str, Any] = json.loads(
            self._library.native.opprof_counters_report(self._handle)
        )
        return report

    def close(self) -> None:
        """Ends profiling on the device."""
        if self._handle:
            self._library.native.opprof_counters_close(self._handle)
            self._handle = ctypes.c_void_p()


def summary_counts(summary: str) -> dict[str, int]:
    """The numbers of a capture's summary by their names: kernels, memcpys, rank, …"""
    return {
        name: int(count) for name, count in re.findall(r"^([a-z ]+): (\d+)$", summary, re.MULTILINE)
    }


def why_no_gpu() -> str | None:
    """Why nothing could be captured here, or None."""
    try:
        info = Library.get().info()
    except OpprofError as error:
        return str(error)
    if "no_driver" in info:
        return str(info["no_driver"])
    return None if info.get("devices") else "the driver shows no GPU"
