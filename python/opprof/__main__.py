"""`opprof`, and `python -m opprof`, begin and end here, and answer Ctrl-C while there is no command that does."""

import os
import signal
import sys
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


if __name__ == "__main__":
    sys.exit(main())
