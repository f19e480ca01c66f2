"""What is said of everything that was tried: each has an end, and a reason for it. Needs no PyTorch."""

from dataclasses import dataclass, field
from enum import Enum

from opprof.backend.rewrites import Script
from opprof.search.clock import TimeIsUp

# Why what there was no time for is left out.
BOX_OVER = "the time box was over"


def why_ended(up: TimeIsUp, *, tunes: bool) -> str:
    """Why a compilation that was ended is left out: one that chooses kernels by timing them may take a part of the box alone."""
    return f"choosing its kernels {up}" if tunes else f"{BOX_OVER} while it was compiled"


class End(Enum):
    """How a trial ended."""

    KEPT = "kept"
    #: Kept at first; without it the rest is as fast.
    DROPPED = "dropped"
    SLOWER = "not faster"
    WRONG = "over the error budget"
    FAILED = "failed"
    CONFLICT = "in conflict"
    NOISE = "below noise"
    LEFT_OUT = "left out"
    #: Kept, and another recipe is as fast without it.
    BEATEN = "beaten"


@dataclass
class Trial:
    """One recommendation that was tried, on top of those kept before it."""

    script: Script
    end: End
    reason: str
    error: float | None = None
    # Nanoseconds of a step before it and with it, in one run.
    before_ns: int | None = None
    after_ns: int | None = None
    # What it was predicted to save of that step, beyond what it took the place of.
    predicted_ns: int | None = None
    # Seconds that compiling and checking it took.
    seconds: float | None = None
    # What it was tried with, itself included, in order; and what it took the place of.
    order: list[Script] = field(default_factory=list)
    instead_of: list[Script] = field(default_factory=list)
    # Others that the same trial was of: its prediction and measurement are of all together.
    together: list[Script] = field(default_factory=list)

    @property
    def saved_ns(self) -> int | None:
        """What it was measured to save of a step; below 0 where it lost."""
        if self.before_ns is None or self.after_ns is None:
            return None
        return self.before_ns - self.after_ns


@dataclass
class Ablation:
    """What was kept, but for one: whether that one still pays."""

    without: Script
    # The least gain that both measurements show of having it.
    gain: float | None
    dropped: bool
    reason: str
