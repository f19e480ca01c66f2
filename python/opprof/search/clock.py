"""The time box of a search: what is left of it, and what took how long. Needs no PyTorch."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from opprof.progress import began


class Clock:
    """Counts from the command's beginning, on the clock that its processes share."""

    def __init__(self, budget_seconds: float | None = None) -> None:
        self.budget_seconds = budget_seconds
        # Seconds by phase, in order.
        self.phases: dict[str, float] = {}
        # Kept for what follows the search: it has to prove and write what was found.
        self.reserved = 0.0

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


@contextlib.contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Ends the block with TimeIsUp after so long, between two steps of Python; only the main thread can be ended so."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: Any) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, end)
    # Again where it came while an exception cannot be raised, as in a finalizer.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
