"""Takes hardware counters of a program's steps while it runs on: one range over a whole step, and a step for each pass that the
counters need. Nothing of the program is run again, so that the steps have to launch the same kernels; which they do is noted of the first,
and each pass is held against that. Nothing of opprof can be imported here.
"""

import ctypes
import json
import os
import sys
from typing import Any, ClassVar

#: Steps that launch other kernels than the one that was noted before them: so often it begins anew.
_MOST_TRIES = 4

_OK, _NOT_REPLAYABLE = 0, 8
_USER_REPLAY, _WHOLE_STEP = 0, 2

#: CUDA's numbers of what a device has: processors, and threads on each.
_PROCESSORS, _THREADS = 16, 39


class _Options(ctypes.Structure):
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


class _NotCountedError(Exception):
    """Why there are no counters, in words; `status` is the library's."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class CountedSteps:
    """Notes the launches of one step, counts those that follow, and writes what they counted into a file."""

    def __init__(self, library: str, metrics: list[str], step: int, file: str) -> None:
        """`step` is the number of the step whose launches are noted; `library` libopprof_capture.so."""
        self.library = ctypes.CDLL(library)
        self.library.opprof_capture_last_error.restype = ctypes.c_char_p
        self.library.opprof_counters_report.restype = ctypes.c_char_p
        self.library.opprof_counters_rows.restype = ctypes.c_size_t
        self.library.opprof_counters_close.restype = None
        # The one that PyTorch has loaded.
        self.cuda = ctypes.CDLL(os.environ.get("OPPROF_CUDA_LIBRARY") or "libcuda.so.1")
        self.metrics, self.step, self.file = metrics, step, file
        self.handle = ctypes.c_void_p()
        self.is_noting = False
        self.is_done = False
        self.tries = 0
        #: Why it began anew, the last time.
        self.unlike = ""
        #: Runs of the pass that is open, of which the first does not count: CUPTI leaves its own lines in the cache.
        self.runs = 0
        self.counted: list[int] = []
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """The counters are the parent's."""
        self.is_done = True

    def step_ended(self, count: int) -> None:
        """`count` steps have ended."""
        if self.is_done or count < self.step:
            return
        try:
            self._advance(count)
        except Exception as error:
            self._end({"failed": str(error)})

    def _advance(self, count: int) -> None:
        if not self.handle and not self.is_noting:
            self._call("launches_begin")
            self.is_noting = True
            return
        # What the device still runs belongs to the step that has ended.
        self._ask_cuda("cuCtxSynchronize")
        if self.is_noting:
            self.is_noting = False
            self._call("launches_end", None)
            self._open()
            self._begin_pass()
            return
        self.runs += 1
        if self.runs == 1:
            self._call("counters_next_run", self.handle)
            return
        more = ctypes.c_int()
        try:
            self._call("counters_end_pass", self.handle, ctypes.byref(more))
        except _NotCountedError as error:
            self._again(error)
            return
        self.counted.append(count - 1)
        if more.value:
            self._begin_pass()
        else:
            self._finish()

    def _again(self, error: _NotCountedError) -> None:
        """Steps of a program need not be the same, as replays are: the next one is noted in the place of the first."""
        self._close()
        self.counted.clear()
        self.tries += 1
        if error.status != _NOT_REPLAYABLE:
            raise error
        self.unlike = (
            f"{error}; {self.tries} time{'s' if self.tries > 1 else ''}, other kernels were launched "
            "than in the step that had been noted"
        )
        if self.tries == _MOST_TRIES:
            raise _NotCountedError(self.unlike, error.status)
        self._call("launches_begin")
        self.is_noting = True

    def _open(self) -> None:
        names = (ctypes.c_char_p * len(self.metrics))(*[name.encode() for name in self.metrics])
        options = _Options(
            *(ctypes.sizeof(_Options), names, len(self.metrics)),
            *(_USER_REPLAY, _WHOLE_STEP, None, 0, 0, 1),
        )
        self._call("counters_open", ctypes.byref(options), ctypes.byref(self.handle))

    def _begin_pass(self) -> None:
        self._call("counters_begin_pass", self.handle)
        self.runs = 0

    def _finish(self) -> None:
        self._call("counters_finish", self.handle)
        values = (ctypes.c_double * len(self.metrics))()
        launch = ctypes.c_uint64()
        self._call(*("counters_row", self.handle, ctypes.c_size_t(0), ctypes.byref(launch), values))
        report = json.loads(self.library.opprof_counters_report(self.handle))
        raw = {
            name: value for name, value in zip(self.metrics, values, strict=True) if value == value
        }
        self._end({"raw": raw, "report": report, "counted": self.counted, "device": self._device()})

    def _device(self) -> dict[str, int]:
        device = ctypes.c_int()
        self._ask_cuda("cuCtxGetDevice", ctypes.byref(device))
        found = []
        for attribute in (_PROCESSORS, _THREADS):
            value = ctypes.c_int()
            self._ask_cuda("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            found.append(value.value)
        return {"sm_count": found[0], "warps_per_sm": found[1] // 32}

    def _end(self, facts: dict[str, Any]) -> None:
        """Writes what there is, and gives the device's profiler back."""
        self.is_done = True
        try:
            if self.is_noting:
                self.library.opprof_launches_end(None)
            self._close()
            with open(f"{self.file}.new", "w", encoding="utf-8") as out:
                json.dump(facts, out)
            os.replace(f"{self.file}.new", self.file)
        except Exception as error:
            print(f"opprof: no counters: {error}", file=sys.stderr)

    def leave(self) -> None:
        """At the end of the process."""
        if self.is_done:
            return
        if self.unlike:
            reason = (
                f"{self.unlike}, and the program ended after {len(self.counted)} of the steps that "
                "were counted anew"
            )
        elif self.handle:
            reason = f"the program ended after {len(self.counted)} of the steps that are counted"
        else:
            reason = (
                f"the program ended before step {self.step + 1}, from which on steps are counted"
            )
        self._end({"failed": reason})

    def _close(self) -> None:
        if self.handle:
            self.library.opprof_counters_close(self.handle)
            self.handle = ctypes.c_void_p()

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, f"opprof_{name}")(*arguments)
        if status != _OK:
            text = self.library.opprof_capture_last_error().decode(errors="replace")
            raise _NotCountedError(text, status)

    def _ask_cuda(self, name: str, *arguments: Any) -> None:
        status = getattr(self.cuda, name)(*arguments)
        if status:
            raise _NotCountedError(f"CUDA's {name} failed with {status}", _OK)
