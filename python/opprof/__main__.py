"""`opprof`, and `python -m opprof`, begin and end here, and answer Ctrl-C while there is no command that does."""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn, TypeAlias

_Handler: TypeAlias = Callable[[int, FrameType | None], object]


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """As the command does. Python would print where its own loading was interrupted."""
    os.write(2, b"opprof: interrupted\n")
    os._exit(128 + number)


def _replace_handler(before: _Handler, handler: _Handler) -> None:
    # Where Ctrl-C is ignored, as in the background, it stays so.
    if signal.getsignal(signal.SIGINT) is before:
        signal.signal(signal.SIGINT, handler)


def main() -> int:
    """Runs the command that the command line names; returns its exit status."""
    _replace_handler(signal.default_int_handler, _end)
    from opprof.commands.cli import main as run_command

    _replace_handler(_end, signal.default_int_handler)
    try:
        return run_command()
    finally:
        # Nothing is left to be done but Python's own end.
        _replace_handler(signal.default_int_handler, _end)


def run() -> NoReturn:
    """The command as a process: it ends when all is said, as what Python does then to what PyTorch has made takes a second or more."""
    status = main()
    # As Python does in its own end: threads of pools are waited for, and what is to be done at the exit is done.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        # Python says of what could not be written what it says always.
        sys.exit(status)
    os._exit(status)


if __name__ == "__main__":
    run()
