"""Processes for parts of a command, which begin with PyTorch loaded. Needs no PyTorch itself.

They are forks of one server, which loads PyTorch once and beside the command's own process. It uses no GPU, so that each of its forks
can.
"""

import contextlib
import multiprocessing
import os
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from opprof.progress import began, began_at
from opprof.tools import end_with

# What takes long to load. Inductor's modules ask for GPUs while they load, after which a fork has none.
_LOADED = ("torch._dynamo",)
# States of a process that does nothing: stopped, traced, ended and not yet waited for.
_STANDING = "TtZX"
_STOPPED_AFTER_SECONDS = 5.0


def start_server() -> ForkServerContext:
    """Has the server begin to load; to be called before the command loads PyTorch itself."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    _begin_tracker()
    forkserver.ensure_running()
    return context


def _begin_tracker() -> None:
    """Begins the process that cleans up after those that are killed, which would warn of each lock that it finds."""
    quiet = "ignore:resource_tracker:UserWarning"
    sys.warnoptions.append(quiet)
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(quiet)


@dataclass(frozen=True)
class Beginning:
    """What a process takes over of the one that asks for it: the server may have begun before all of it was so."""

    process: int
    start: float
    environment: dict[str, str]


def beginning() -> Beginning:
    return Beginning(os.getpid(), began(), dict(os.environ))


def begin(of: Beginning) -> None:
    """The first call in a process. It ends with the one that asked for it, and with the server, which lasts as long as its forks."""
    end_with(os.getppid())
    try:
        ended = os.pidfd_open(of.process)
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=_end_after, args=(ended,), daemon=True).start()
    os.environ.update(of.environment)
    began_at(of.start)


def _end_after(process: int) -> None:
    """Waits for the process of a descriptor, which can be read once it has ended."""
    select.select([process], [], [])
    os.kill(os.getpid(), signal.SIGKILL)


# ---------------------------------------------------------------------------------------------------------------------
# Processes that stand still for a while
# ---------------------------------------------------------------------------------------------------------------------


def stop(processes: Iterable[int], stopped: list[int] | None = None) -> list[int]:
    """Has processes, and all that they began, do nothing until `go_on`; returns them, in `stopped` where it is given, each as soon as it
    is told to. Those that have ended are none of them.
    """
    stopped = [] if stopped is None else stopped
    waiting = list(processes)
    while waiting:
        for process in waiting:
            stopped.append(process)
            try:
                os.kill(process, signal.SIGSTOP)
            except ProcessLookupError:
                stopped.remove(process)
        _wait_until_stopped(waiting)
        # What stands still begins no others.
        parents = set(waiting)
        waiting = [process for process, parent in _parents() if parent in parents]
    return stopped


def _wait_until_stopped(processes: Sequence[int]) -> None:
    """Waits until they stand still or have ended: a process is stopped when it would run next, which on a busy machine takes a while.
    What is in a call of the kernel that nothing interrupts is not waited for longer than that.
    """
    asked = set(processes)
    end = time.monotonic() + _STOPPED_AFTER_SECONDS
    while time.monotonic() < end and any(
        process in asked and fields[0] not in _STANDING for process, fields in _stats()
    ):
        time.sleep(0.001)


def go_on(processes: Sequence[int]) -> None:
    """Has them go on, those first that others began."""
    for process in reversed(processes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def kill(processes: Iterable[int]) -> None:
    """Ends processes and all that they began, standing still or not."""
    for process in stop(processes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def stand_apart() -> None:
    """Makes a session of the process and all that it will begin, which signals to the command's do not reach."""
    os.setsid()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)


class Guard:
    """A process that has nothing else to do: what stands still when the command is killed cannot end itself.

    It stands by before there is anything to end, as whoever is killed meanwhile would leave that. What ends the command may be a signal
    to its whole group, which ends the server too, and its forks with it, but not what these began. `folder` goes with them.
    """

    def __init__(self, context: ForkServerContext, places: int, folder: str = "") -> None:
        # Of each place the process and when it began.
        self._watched = context.RawArray("q", 2 * places)
        self._stands_by = context.RawValue("b", 0)
        args = (beginning(), self._watched, self._stands_by, folder)
        self.process = context.Process(target=_guard, args=args)

    def start(self) -> None:
        """Returns once it is there."""
        self.process.start()
        while not self._stands_by.value and self.process.is_alive():
            time.sleep(0.001)

    def watch(self, place: int, process: int) -> None:
        """To end this one too, a fork of the server that stands apart, with all that it will begin."""
        self._watched[2 * place + 1] = _beginnings().get(process, 0)
        self._watched[2 * place] = process


def _guard(of: Beginning, watched: Sequence[int], stands_by: Any, folder: str) -> None:
    os.setsid()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    stands_by.value = 1
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(of.process)], [], [])
    known = {
        process: at for process, at in zip(watched[::2], watched[1::2], strict=True) if process
    }
    # Who has the number of one that ended long ago is a stranger; nobody has it while its group has others.
    now = _beginnings()
    ours = [process for process, at in known.items() if now.get(process, at) == at]
    kill(process for process in ours if process in now)
    for process in ours:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _parents() -> list[tuple[int, int]]:
    """Each process that there is, and the one that began it."""
    return [(process, int(fields[1])) for process, fields in _stats()]


def _beginnings() -> dict[int, int]:
    """When each process that there is began, in ticks since the machine did."""
    return {process: int(fields[19]) for process, fields in _stats()}


def _stats() -> Iterator[tuple[int, list[str]]]:
    """Of each process that there is, what proc_pid_stat(5) lists after its name."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        # It may end meanwhile. Its name, in parentheses, may be anything.
        with contextlib.suppress(OSError):
            text = file.read_text(encoding="utf-8", errors="replace")
            yield int(file.parent.name), text.rpartition(")")[2].split()
