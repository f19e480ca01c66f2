"""The time box of a search: what is left of it, and what took how long. Needs no PyTorch."""

import concurrent.futures.thread
import contextlib
import logging
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator, Set
from typing import Any

from opprof.progress import began


class Clock:
    """Counts from the command's beginning, on the clock that its processes share."""

    def __init__(self, budget_seconds: float | None = None) -> None:
        self.budget_seconds = budget_seconds
        # Seconds by phase, in order.
        self.phases: dict[str, float] = {}
        # Kept for what follows the search: it has to prove and write what was found, where something is.
        self.reserved = self._once_kept = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - began()

    @property
    def left(self) -> float:
        """Seconds until the box ends, without those that are reserved."""
        if self.budget_seconds is None:
            return float("inf")
        return self.budget_seconds - self.reserved - self.elapsed

    @property
    def until_end(self) -> float:
        """Seconds until the box ends, with those that are reserved."""
        return self.left + self.reserved

    def reserve(self, seconds: float, *, once_kept: float) -> None:
        """Keeps the end of the box for what follows the search: so much, and `once_kept` after `found()`."""
        self.reserved, self._once_kept = seconds, once_kept

    def found(self) -> None:
        """There is something to prove from now on."""
        self.reserved = max(self.reserved, self._once_kept)

    def allows(self, seconds: float) -> bool:
        """Whether something that takes about so long may begin."""
        return self.left >= seconds

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - start


class TimeIsUp(BaseException):
    """Ends what took too long. No Exception: libraries catch those, and go on with the next of what they try."""


# Seconds after which it is raised again, where it came while an exception cannot be raised, as in a finalizer. What libraries do when
# they are ended takes less.
_AGAIN_S = 15.0
# Seconds that threads of libraries get to end what they have begun.
_REST_S = 20.0


@contextlib.contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Ends the block with TimeIsUp after so long, between two steps of Python, and what it left to pools of threads; only the main
    thread can be ended so.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    over = False

    def end(*_: Any) -> None:
        if not over:
            raise TimeIsUp(f"takes longer than {seconds:.0f} s")

    pools = _threads_of_pools()
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        try:
            yield
        finally:
            over = True
    except TimeIsUp:
        over = True
        _end_compilation()
        _end_pools(_threads_of_pools().keys() - pools.keys())
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _end_compilation() -> None:
    """Ends Inductor's processes that compile: they would do all that they were given before this one may end. Others begin when they
    are needed.
    """
    inductor = sys.modules.get("torch._inductor.async_compile")
    if inductor is None:
        return
    for pool in list(inductor._pool_set):
        process = getattr(pool, "process", None)
        if process is not None:
            process.kill()
    # Which says that it could not be asked to end.
    log = logging.getLogger("torch._inductor.compile_worker.subproc_pool")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        inductor.shutdown_compile_workers()
    finally:
        log.setLevel(level)


def _threads_of_pools() -> dict[threading.Thread, Any]:
    """The threads of all executors, and the queue that each is given its work by."""
    return dict(concurrent.futures.thread._threads_queues)


def _end_pools(threads: Set[threading.Thread]) -> None:
    """Takes from threads what they have not begun, and waits until they have nothing to do: nothing is timed beside them."""
    for thread, work in _threads_of_pools().items():
        with contextlib.suppress(queue.Empty):
            while thread in threads:
                item = work.get_nowait()
                if item is None:
                    # Which says that its executor has ended.
                    work.put(None)
                    break
                item.future.cancel()
    end = time.monotonic() + _REST_S
    while any(map(_is_busy, threads)) and time.monotonic() < end:
        time.sleep(0.05)


def _is_busy(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is not concurrent.futures.thread._worker.__code__
