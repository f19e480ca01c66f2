"""Progress lines on stderr: what is being done, and how long the command has run."""

import sys
import time

_start = time.monotonic()


def progress(message: str) -> None:
    """Prints one line with the seconds since the command began."""
    print(f"[{time.monotonic() - _start:6.1f} s] {message}", file=sys.stderr, flush=True)
