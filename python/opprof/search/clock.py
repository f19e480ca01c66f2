"""The time box of a search: what is left of it, and what took how long. Needs no PyTorch."""

import contextlib
import time
from collections.abc import Iterator

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
    def left(self) -> float:
        """Seconds until the box ends, without those that are reserved."""
        if self.budget_seconds is None:
            return float("inf")
        return self.budget_seconds - self.reserved - (time.monotonic() - began())

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
