"""Progress lines on stderr: what is being done, and how long the command has run."""

import os
import sys
import time

_start = time.monotonic()


def began() -> float:
    """When the command began, on the clock that all processes share."""
    return _start


def began_at(start: float) -> None:
    """For a process that does a part of a command: counts from the command's beginning."""
    global _start
    _start = start


def progress(message: str) -> None:
    """Prints one line with the seconds since the command began."""
    show(f"[{time.monotonic() - _start:6.1f} s] {message}")


def show(text: str) -> None:
    """Prints to stderr; where nobody reads that any more, the work goes on."""
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        # Python would flush into the closed pipe once more at its end, and make that its exit status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
