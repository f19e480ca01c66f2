"""Waits in a program for `opprof attach`, records while it asks for that, and says when it is done.

The two speak by files in a folder of the user's own, the one of `opprof run --wait`: `waiting-p<process>` says that this process can be
recorded, when it started and which thread looks, `attach-p<process>` is the request, and `attached-p<process>` the answer. Who asks holds a lock on the first for as
long, so that there is one at a time. A folder that others can write is none, and a request counts only where its file is the
user's of this process and nobody else can write it; recording ends when the time that it states is over or the file is gone. No signal is
sent, no port is open, and the program's own threads do nothing for it: the thread here looks twice a second.
"""

import _thread
import contextlib
import ctypes
import json
import os
import stat
import time
from typing import Any, ClassVar

_LOOK_S = 0.5

#: No request is longer.
_LONGEST = 1 << 16

#: Why a request that comes at the end of the process is not met.
_LEFT = "it ended before the recording began"


class _CaptureOptions(ctypes.Structure):
    _fields_: ClassVar = [
        ("size", ctypes.c_size_t),
        ("path", ctypes.c_char_p),
        ("kinds", ctypes.c_uint32),
        ("buffer_bytes", ctypes.c_uint32),
        ("pool_bytes", ctypes.c_uint64),
        ("flush_ms", ctypes.c_uint32),
        ("paused", ctypes.c_uint32),
    ]


def _why_not_own(folder: str) -> str | None:
    """Why what lies in the folder may be another user's."""
    try:
        of = os.stat(folder, follow_symlinks=False)
    except OSError as error:
        return str(error)
    if not stat.S_ISDIR(of.st_mode) or of.st_uid != os.geteuid():
        return f"{folder} is no folder of this user's"
    if of.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write to {folder}"
    return None


def started(process: int) -> int:
    """When a process did, in the kernel's ticks: no other one of its number started then. Raises OSError where there is none."""
    with open(f"/proc/{process}/stat", "rb") as file:
        # What follows the program's name, which may hold anything.
        return int(file.read().rpartition(b")")[2].split()[19])


class Waiting:
    """A process that waits for `opprof attach`. Raises OSError where it cannot."""

    def __init__(self, recorder: Any, control: str) -> None:
        self.recorder = recorder
        self.control = control
        reason = _why_not_own(control)
        if reason is not None:
            raise OSError(reason)
        self.capture: Any = None
        if recorder.capture is not None:
            self.capture = ctypes.CDLL(recorder.capture)
            self.capture.opprof_capture_last_error.restype = ctypes.c_char_p
        os.register_at_fork(after_in_child=self._forked)
        self._begin()

    def _file(self, kind: str) -> str:
        return os.path.join(self.control, f"{kind}-p{os.getpid()}")

    def _forked(self) -> None:
        """The recording is the parent's; the fork waits for one of its own."""
        self.recorder.stop()
        self._begin(_LOOK_S)

    def _begin(self, after: float = 0.0) -> None:
        """Waits from so many seconds on."""
        self.lock = _thread.allocate_lock()
        self.is_recording = False
        self.is_leaving = False
        self.answered = ""
        with contextlib.suppress(OSError):
            # Not one of the threading module's, which the program may list.
            _thread.start_new_thread(self._wait, (os.getpid(), after))

    def _write(self, kind: str, content: dict[str, Any]) -> None:
        file = self._file(kind)
        with contextlib.suppress(FileNotFoundError):
            # Of a process that was killed.
            os.unlink(file + ".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(file + ".new", flags, 0o600), "w", encoding="utf-8") as out:
            json.dump(content, out)
        os.replace(file + ".new", file)

    def _say(self, number: str, error: str | None, *, done: bool, ended: bool = False) -> None:
        """Answers the request of that number."""
        self.answered = number
        with self.lock, contextlib.suppress(OSError):
            answer = {"number": number, "error": error, "done": done, "ended": ended}
            self._write("attached", answer)

    def _request(self) -> dict[str, Any] | None:
        """What is asked for; None where nothing is, or not by this user."""
        try:
            descriptor = os.open(self._file("attach"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            of = os.fstat(file.fileno())
            is_own = of.st_uid == os.geteuid() and not of.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if not is_own or not stat.S_ISREG(of.st_mode) or of.st_size > _LONGEST:
                return None
            try:
                request: dict[str, Any] = json.loads(file.read(_LONGEST))
                return {
                    "number": str(request["number"]),
                    "folder": str(request["folder"]),
                    "end": time.monotonic() + float(request["seconds"]),
                }
            except (ValueError, KeyError, TypeError):
                return None

    def _wait(self, process: int, after: float) -> None:
        # Most forks run another program at once, which has not this thread and leaves no file.
        time.sleep(after)
        with self.lock, contextlib.suppress(OSError):
            if self.is_leaving:
                return
            self._write(
                "waiting", {"started": started(os.getpid()), "thread": _thread.get_native_id()}
            )
        while os.getpid() == process:
            time.sleep(_LOOK_S)
            request = self._request()
            if request is None or request["number"] == self.answered:
                continue
            number = request["number"]
            error = self._start(request["folder"])
            self._say(number, error, done=error is not None)
            if error is not None:
                continue
            while time.monotonic() < request["end"]:
                time.sleep(min(_LOOK_S, max(0.0, request["end"] - time.monotonic())))
                now = self._request()
                if now is None or now["number"] != number:
                    break
            error = self._stop()
            self._say(number, error, done=True, ended=self.is_leaving)

    def _start(self, folder: str) -> str | None:
        """Returns why nothing is recorded."""
        with self.lock:
            if self.is_leaving:
                return _LEFT
            self.recorder.stop()
            if self.capture is not None:
                path = self.recorder.file(os.path.join(folder, "capture"))
                # Small buffers, of which a program that is killed loses one.
                options = _CaptureOptions(
                    ctypes.sizeof(_CaptureOptions), path, 0, 256 << 10, 0, 0, 0
                )
                if self.capture.opprof_capture_start(ctypes.byref(options)):
                    return str(self.capture.opprof_capture_last_error().decode(errors="replace"))
            try:
                self.recorder.start(os.path.join(folder, "operators"))
            except Exception as error:
                if self.capture is not None:
                    self.capture.opprof_capture_stop(None)
                return str(error)
            self.is_recording = True
            return None

    def _stop(self) -> str | None:
        with self.lock:
            # A fork of a process that was recorded has a recording too.
            self.recorder.stop()
            was_recording, self.is_recording = self.is_recording, False
            if not was_recording or self.capture is None:
                return None
            if self.capture.opprof_capture_stop(None):
                return str(self.capture.opprof_capture_last_error().decode(errors="replace"))
            return None

    def leave(self) -> None:
        """At the end of the process: what is recorded is whole, and nobody waits for more."""
        with self.lock:
            # Nothing begins any more.
            self.is_leaving = True
            was_recording = self.is_recording
        error = self._stop()
        request = self._request()
        if was_recording:
            self._say(self.answered, error, done=True, ended=True)
        elif request is not None and request["number"] != self.answered:
            self._say(request["number"], _LEFT, done=True, ended=True)
        with contextlib.suppress(OSError):
            os.unlink(self._file("waiting"))
