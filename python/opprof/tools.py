"""Finds and runs the native tools, opprof-driver, opprof-opt and opprof-translate, and passes on what they say."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from opprof.errors import OpprofError
from opprof.files import replacing
from opprof.progress import began, show


def find_tool(name: str) -> str:
    """The tool's path: in $OPPROF_TOOLS_DIR, beside this Python, in the package, or on PATH, in this order."""
    places = [Path(sys.executable).parent, Path(__file__).parent / "bin"]
    directory = os.environ.get("OPPROF_TOOLS_DIR")
    if directory:
        places.insert(0, Path(directory))
    for place in places:
        candidate = place / name
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which(name)
    if found:
        return found
    raise OpprofError(
        f"{name} was not found in $OPPROF_TOOLS_DIR, beside {sys.executable}, or on PATH",
        remedy="install the project with `pip install .`, or set OPPROF_TOOLS_DIR to the build's bin folder",
    )


def run_tool(
    name: str,
    arguments: Sequence[str | os.PathLike[str]],
    *,
    input: bytes | None = None,
    output: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> bytes:
    """Runs a tool and returns what it printed; with `output`, that goes to the file instead, whole or not at all.

    Diagnostics of a run that worked go to stderr as they are (not with `quiet`); those of a run that failed become the error.
    """
    command = [find_tool(name), *(os.fspath(argument) for argument in arguments)]
    if output is not None:
        with replacing(output, "wb") as file:
            process = subprocess.run(
                command,
                env=_environment(),
                input=input,
                stdout=file,
                stderr=subprocess.PIPE,
                close_fds=False,
                check=False,
            )
            _check(name, process, quiet)
        return b""
    process = subprocess.run(
        command,
        env=_environment(),
        input=input,
        capture_output=True,
        close_fds=False,
        check=False,
    )
    _check(name, process, quiet)
    return process.stdout


def _environment() -> dict[str, str]:
    """Of a tool, which does not outlive the process that waits for it."""
    return {**os.environ, "OPPROF_PARENT": str(os.getpid())}


#: What opprof-driver puts before what ended it; all that follows belongs to it.
_FAILED = "opprof-driver: error: "


def run_driver(
    command: str,
    subject: str | os.PathLike[str],
    *options: str | os.PathLike[str],
    input: Mapping[str, Any] | None = None,
    others: Sequence[str | os.PathLike[str]] = (),
    output: IO[bytes] | None = None,
) -> bytes:
    """Runs a command of opprof-driver on a path or names, shows what it does while it does it, and returns what it printed.

    `input` is what it reads from stdin, as JSON; `others` are further paths, for a command that takes them. With `output`, what
    it prints goes there while it prints it, and nothing is returned.
    """
    return ask_driver(command, subject, *options, input=input, others=others, output=output)[1]


def ask_driver(
    command: str,
    subject: str | os.PathLike[str],
    *options: str | os.PathLike[str],
    input: Mapping[str, Any] | None = None,
    others: Sequence[str | os.PathLike[str]] = (),
    answers: Sequence[int] = (0,),
    output: IO[bytes] | None = None,
) -> tuple[int, bytes]:
    """The same, with the exit status, which is one of `answers`: any other is an error."""
    elapsed = f"--elapsed={time.monotonic() - began():.3f}"
    arguments = [
        command,
        elapsed,
        *(os.fspath(option) for option in options),
        "--",
        os.fspath(subject),
        *(os.fspath(other) for other in others),
    ]
    said: list[str] = []
    process = subprocess.Popen(
        [find_tool("opprof-driver"), *arguments],
        env=_environment(),
        stdin=None if input is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # What a shell gives by `<(…)` is a descriptor that this process was begun with; its own are not inherited.
        close_fds=False,
    )
    assert process.stdout is not None and process.stderr is not None
    listener = threading.Thread(target=_listen, args=(process.stderr, said))
    listener.start()
    try:
        if process.stdin is not None:
            # One that fails before it has read all says why.
            with contextlib.suppress(BrokenPipeError), process.stdin as stream:
                stream.write(json.dumps(input).encode())
        if output is None:
            printed = process.stdout.read()
        else:
            printed = b""
            shutil.copyfileobj(process.stdout, output)
    except BaseException as error:
        _end(process, is_told=isinstance(error, KeyboardInterrupt))
        raise
    finally:
        listener.join()
        process.wait()
        process.stdout.close()
        process.stderr.close()
    if process.returncode not in answers:
        raise _failure("opprof-driver", process.returncode, "\n".join(said).strip())
    return process.returncode, printed


#: A tool takes no longer to remove what it has not finished.
_REMOVED_AFTER_SECONDS = 5.0


def _end(process: subprocess.Popen[bytes], *, is_told: bool) -> None:
    """Has a tool remove what it has not finished. On Ctrl-C a terminal has told it too, and a second signal would disturb it."""
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            if is_told:
                process.wait(_REMOVED_AFTER_SECONDS / 10)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_REMOVED_AFTER_SECONDS)
    finally:
        # At once, where somebody asks for it a second time.
        process.kill()


#: Of prctl(2).
_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Has the system kill this process when the one that began it is gone: a command that is killed leaves nobody who fills its folder."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _listen(stream: IO[bytes], errors: list[str]) -> None:
    """Shows what a tool says, line by line, and keeps what ended it in `errors`."""
    for line in stream:
        text = line.decode(errors="replace").rstrip("\n")
        # What ended it is said in any case: the name of a file may have anything in it.
        if text.startswith(_FAILED):
            errors.append(text.removeprefix(_FAILED)[:_LONGEST])
            continue
        if not _is_text(text):
            continue
        if errors:
            errors.append(text)
        else:
            show(text)


def _check(name: str, process: subprocess.CompletedProcess[bytes], quiet: bool) -> None:
    # A diagnostic quotes the line that it is of, and a file of another kind may have anything in it.
    lines = process.stderr.decode(errors="replace").strip().splitlines()
    diagnostics = "\n".join(line for line in lines if _is_text(line))
    if process.returncode == 0:
        if diagnostics and not quiet:
            print(diagnostics, file=sys.stderr)
        return
    # What failed is said by opprof; which of its tools met it is of no use to the reader.
    diagnostics = diagnostics.removeprefix(f"{name}: ").removeprefix("error: ")
    raise _failure(name, process.returncode, diagnostics)


def _failure(name: str, status: int, diagnostics: str) -> OpprofError:
    if status < 0:
        what = f"{name} was ended by signal {-status}"
        return OpprofError(f"{what}\n{diagnostics}" if diagnostics else what)
    return OpprofError(diagnostics or f"{name} failed with exit status {status}")


#: A line of a diagnostic is no longer.
_LONGEST = 4000


def _is_text(line: str) -> bool:
    return len(line) <= _LONGEST and all(
        c == "\t" or (c.isprintable() and c != "\ufffd") for c in line
    )
