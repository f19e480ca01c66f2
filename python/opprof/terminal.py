"""What goes to the terminal: text of files without what commands it, in the characters that it has, and the program's own output apart."""

import codecs
import contextlib
import io
import os
import sys
import unicodedata
from collections.abc import Iterator

#: What stands for a character that the terminal does not have: as wide as it, so that columns stay columns.
_PLAIN = {
    "µ": "u",
    "×": "x",
    "·": ".",
    "—": "-",
    "–": "-",
    "…": "~",
    "→": ">",
    "≤": "<",
    "≥": ">",
    "“": '"',
    "”": '"',
    "’": "'",
    **dict.fromkeys("█▉▊▋▌", "#"),
    **dict.fromkeys("▍▎▏", "-"),
}

#: Marks that turn the direction of writing have no category of their own.
_COMMANDS = ("Cc", "Cf", "Zl", "Zp", "Cs")


def printable(text: str) -> str:
    """The text with a blank for each character that commands a terminal; lines and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        " " if c not in "\n\t" and unicodedata.category(c) in _COMMANDS else c for c in text
    )


def _to_plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c, "?") for c in missing), error.end


def prepare_streams() -> None:
    """Lets every character be printed, on a terminal that has ASCII only too, and where a stream is closed (`>&-`)."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The first file that is opened would become the stream otherwise, and what is printed would go into it.
            with contextlib.suppress(OSError):
                os.fstat(number)
                continue
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            setattr(
                sys,
                name,
                os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False),
            )
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        # Without a buffer (`python -u`, PYTHONUNBUFFERED) what did not fit on a disk is left out in silence.
        sys.stdout = os.fdopen(
            sys.stdout.fileno(), "w", encoding=sys.stdout.encoding, closefd=False
        )
    codecs.register_error("opprof.plain", _to_plain)
    for stream in (sys.stdout, sys.stderr):
        # A stream that took their place may be any object.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="opprof.plain")


@contextlib.contextmanager
def program_output_on_stderr() -> Iterator[None]:
    """While a model runs, what it and its libraries print goes to stderr: stdout is for the command's own page."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:
        # A process may have neither.
        kept = None
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)
