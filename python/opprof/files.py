"""Files and folders: results are written whole or not at all, and what is read may be anybody's."""

import contextlib
import errno
import fcntl
import json
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from opprof.errors import OpprofError


def real_path(path: Path) -> Path:
    """The path without links; refuses one that leads to itself."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        # Python 3.13 and later keep such a link as it is.
        raise OpprofError(f"{path}: is a link that leads to itself") from error


def check_folder(path: Path) -> None:
    """Refuses a folder for results that is no folder, or where nothing may be written; whether it is there already is all one."""
    for place in (path, *path.parents):
        if not place.exists():
            if place.is_symlink():
                raise OpprofError(
                    f"{path}: cannot be a folder of results: {place} is a link to {os.readlink(place)}, which is not there"
                )
            continue
        if not place.is_dir():
            raise OpprofError(f"{path}: cannot be a folder of results: {place} is a file")
        if not os.access(place, os.W_OK | os.X_OK):
            raise OpprofError(f"{path}: nothing may be written to {place}: permission denied")
        return


def make_folder(path: Path) -> None:
    """Makes a folder for results, and the ones above it."""
    check_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OpprofError(f"{path}: cannot be made a folder: {error.strerror}") from error


def check_own(path: Path) -> None:
    """Refuses a folder that is another user's, or that others can write to: what lies in it may be theirs."""
    try:
        of = path.stat()
    except OSError as error:
        raise OpprofError(f"{path}: cannot be looked into: {error.strerror}") from error
    if of.st_uid != os.geteuid():
        raise OpprofError(
            f"{path}: is another user's folder", remedy="give -o a folder of your own"
        )
    if of.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OpprofError(
            f"{path}: others can write to this folder",
            remedy=f"give -o another one, or `chmod go-w {path}`",
        )


def check_mark(
    path: Path,
    mark: str,
    *,
    at_beginning: bool = False,
    remedy: str = "give -o a folder of its own",
) -> None:
    """Refuses to replace what bears the name of one of opprof's files and does not hold what opprof writes there: `mark`, in its first
    64 KiB, unpacked, or as what it begins with.
    """
    if not path.exists():
        return
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(1 << 16)
        if head.startswith(b"\x1f\x8b"):
            with contextlib.suppress(zlib.error):
                head = zlib.decompressobj(wbits=31).decompress(head, 1 << 16)
        # What is empty is in nobody's way.
        place = head.find(mark.encode())
        if not head or place == 0 or (place > 0 and not at_beginning):
            return
    raise OpprofError(f"{path}: is none of opprof's files, and would be lost", remedy=remedy)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Keeps a folder for results to this process: another command that fills it is refused until the block has ended. Gives whether
    it made the folder.

    A process that is killed holds nothing any more. A folder that is made for it and stays empty is taken away again.
    """
    is_new = not path.exists()
    make_folder(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OpprofError(
                f"{path}: another opprof command is filling this folder",
                remedy="wait until it has ended, or give -o another folder",
            ) from error
        except OSError:
            # A file system without locks.
            pass
        yield is_new
    finally:
        if is_new:
            # What was written into it stays.
            with contextlib.suppress(OSError):
                path.rmdir()
        os.close(descriptor)


_MODEL_SCRIPT = "give a Python file that defines get_model_and_input() -> (module, input)"


def check_script(path: Path) -> None:
    """Refuses a model script that is no file, before PyTorch is loaded for it."""
    if not path.is_file():
        raise OpprofError(
            f"{path}: {f'is {_kind(path)}, and no file' if path.exists() else 'no such file'}",
            remedy=_MODEL_SCRIPT,
        )


#: A larger file is no source text of anybody's.
_MOST_SOURCE = 64 << 20


def check_source(path: Path) -> None:
    """Refuses a Python file that is too large to be one, as all of it is read before anything is said."""
    if (size := path.stat().st_size) > _MOST_SOURCE:
        raise OpprofError(f"{path}: is no Python file: it is of {size} bytes")


def check_python(path: Path) -> None:
    """Refuses what is given in a model script's place and is none, before PyTorch is loaded for it."""
    if path.suffix != ".py":
        raise OpprofError(
            f"{path}: is {_what_is(path)}, and no Python file",
            remedy=_MODEL_SCRIPT,
        )
    check_source(path)


def _what_is(path: Path) -> str:
    """What a file is that stands in a model script's place."""
    if path.suffix in (".pt2", ".mlir", ".mlirbc", ".json"):
        return "a graph (`opprof profile --graph` and `opprof-translate` take one)"
    if path.suffix == ".onnx":
        return "a model of ONNX, which opprof does not read"
    with path.open("rb") as file:
        head = file.read(2)
    if path.suffix == ".safetensors" or head[:1] == b"\x80" or head == b"PK":
        return "a file of weights, without the program that takes them"
    return "neither a model script nor an archive of torch.jit.save"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone after the with statement."""
    with tempfile.TemporaryDirectory(prefix="opprof-") as path:
        yield Path(path)


def _kind(path: Path) -> str:
    """What lies at a path where a file was looked for."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def check_file(path: Path) -> None:
    """Refuses what is there and no file: nobody may write into a pipe, and devices have no end."""
    if path.exists() and not path.is_file():
        raise OpprofError(f"{path}: cannot be read: it is {_kind(path)}, and no file")


#: A larger file of these is nobody's.
_MOST_JSON = 1 << 30


def read_json(path: Path, *, within: Path | None = None) -> dict[str, Any]:
    """The object that a JSON file holds. A file may be anybody's: what is no object, too deep or too large is refused.

    So is a link that leads out of the folder `within`.
    """
    try:
        if within is not None and real_path(within) not in real_path(path).parents:
            raise OpprofError(
                f"{path}: is a link out of the run folder, to {real_path(path)}",
                remedy="put the file itself there",
            )
        check_file(path)
        if path.stat().st_size > _MOST_JSON:
            raise OpprofError(f"{path}: cannot be read: it is larger than {_MOST_JSON} bytes")
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OpprofError(f"{path}: cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise OpprofError(f"{path}: cannot be read: it holds no JSON object")
    return data


#: What write(2) is refused for, without the name of a file.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Opens a temporary file beside `path` and renames it to `path` when the block ends without an exception.

    What is no file, such as /dev/null, is opened itself.
    """
    path = Path(path)
    encoding = None if "b" in mode else "utf-8"
    if path.is_dir():
        raise OpprofError(f"{path}: cannot be written: it is a folder")
    make_folder(path.parent)
    if path.exists() and not path.is_file():
        # /dev/null and pipes are written to: a file that took their place would be in everybody's way.
        with path.open(mode, encoding=encoding) as file:
            yield file
        return
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OpprofError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, mode, encoding=encoding) as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            raise OpprofError(f"{path}: cannot be written: {error.strerror}") from error
        raise
