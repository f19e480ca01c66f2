"""Writing files whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from opprof.errors import OpprofError


def make_folder(path: Path) -> None:
    """Makes a folder for results, and the ones above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OpprofError(
            f"{path}: cannot be made a folder: {_reason(path, error)}",
            remedy="give -o a folder that is there or can be made",
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise OpprofError(f"{path}: nothing can be written there: permission denied")


def _reason(folder: Path, error: OSError) -> str:
    """What stands in a folder's way: a file of its name or of one above it, or what the system says."""
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            return f"{path} is a file"
    return error.strerror or str(error)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO]:
    """Opens a temporary file beside `path` and renames it to `path` when the block ends without an exception."""
    path = Path(path)
    encoding = None if "b" in mode else "utf-8"
    if path.is_dir():
        raise OpprofError(f"{path}: cannot be written: it is a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OpprofError(f"{path}: cannot be written: {_reason(path.parent, error)}") from error
    try:
        with os.fdopen(descriptor, mode, encoding=encoding) as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
