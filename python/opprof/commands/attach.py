"""`opprof attach`: records a process of a program that runs already. What it was started with waits for that (`opprof run --wait`).

The other side is recording/injected/attaching.py, which says how the two speak.
"""

import contextlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opprof.commands.run import recorded_operators, report_captures, report_operators
from opprof.errors import OpprofError
from opprof.progress import progress
from opprof.run_folder import RunFolder, versions, write_run
from opprof.suffixes import CAPTURE

#: How long an answer takes at most: the process looks twice a second, where Python lets its thread run.
_ANSWER_S = 20.0

_LOOK_S = 0.1


def attach(process: int, output: Path, seconds: float) -> None:
    """Records the process for so many seconds, and reports; raises OpprofError where it cannot be recorded."""
    control = _control(process)
    if not (control / f"waiting-p{process}").is_file():
        raise OpprofError(
            f"process {process} has not imported PyTorch",
            remedy="attach to the process that runs the model; one that was just started needs a while",
        )
    folder = RunFolder(output)
    folder.clear()
    for file in _recorded(output, process, "capture") + _recorded(output, process, "operators"):
        file.unlink()
    number = secrets.token_hex(8)
    answer = control / f"attached-p{process}"
    with _request(control / f"attach-p{process}", number, output, seconds):
        started = _answer(answer, process, number, _ANSWER_S)
        if started is None:
            raise OpprofError(
                f"process {process} does not answer",
                remedy="it may hold Python's lock in one long call, or be stopped",
            )
        if started["error"]:
            raise OpprofError(f"process {process} cannot be recorded: {started['error']}")
        progress(f"recording process {process} for {seconds:g} s")
        try:
            ended = _answer(answer, process, number, seconds + _ANSWER_S, done=True)
        except KeyboardInterrupt:
            progress("interrupted: what was recorded until now is reported")
            (control / f"attach-p{process}").unlink(missing_ok=True)
            ended = _answer(answer, process, number, _ANSWER_S, done=True)
    if ended is None:
        progress(f"process {process} ended meanwhile: what was written is reported")
    elif ended["error"]:
        progress(f"the recording ended with an error: {ended['error']}")
    captures = _recorded(output, process, "capture")
    by = "opprof capture" if captures else "opprof observer"
    write_run(
        folder,
        {
            "command": ["opprof", "attach", str(process)],
            "program": _command_line(process),
            "versions": versions(),
            "timeline": {"by": by, "duration_s": seconds},
        },
    )
    if captures:
        report_captures(captures, output)
    else:
        operators = _recorded(output, process, "operators")
        report_operators([recorded_operators(file, process) for file in operators], output)


def _control(process: int) -> Path:
    """The folder in which the process waits for requests."""
    try:
        owner = os.stat(f"/proc/{process}").st_uid
        if owner != os.geteuid():
            raise PermissionError
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except FileNotFoundError:
        raise OpprofError(f"there is no process {process}") from None
    except PermissionError:
        raise OpprofError(
            f"process {process} is another user's", remedy="attach as the user who started it"
        ) from None
    for variable in variables:
        if variable.startswith(b"OPPROF_CONTROL="):
            return Path(os.fsdecode(variable.partition(b"=")[2]))
    raise OpprofError(
        f"process {process} was not started to be recorded",
        remedy="start the program with `opprof run --wait -o run/ …`",
    )


@contextlib.contextmanager
def _request(file: Path, number: str, output: Path, seconds: float) -> Iterator[None]:
    """Asks for a recording; takes the request back at the end."""
    text = json.dumps(
        {
            "number": number,
            "folder": str(output.resolve()),
            "seconds": seconds,
            "asker": os.getpid(),
        }
    )
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        # Of one that was killed.
        if not os.path.exists(f"/proc/{int(json.loads(file.read_text())['asker'])}"):
            file.unlink()
    partial = file.with_name(f"{file.name}.{number}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.fchmod(descriptor, stat.S_IRUSR | stat.S_IWUSR)
        with os.fdopen(descriptor, "w") as out:
            out.write(text)
        # Unlike a rename, this fails where there is a request.
        os.link(partial, file)
    except FileExistsError:
        raise OpprofError(
            f"another `opprof attach` records {file.name.partition('-p')[2]}",
            remedy="wait until it has ended",
        ) from None
    finally:
        partial.unlink()
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _answer(
    file: Path, process: int, number: str, patience: float, *, done: bool = False
) -> dict[str, Any] | None:
    """What the process says of the request, of its end if `done`; None where it says nothing for so many seconds, or ended."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        # Asked first: the last it does is to answer.
        runs = os.path.exists(f"/proc/{process}")
        with contextlib.suppress(OSError, ValueError):
            answer: dict[str, Any] = json.loads(file.read_text())
            if answer["number"] == number and (answer["done"] or not done):
                return answer
        if not runs:
            return None
        time.sleep(_LOOK_S)
    return None


def _recorded(output: Path, process: int, kind: str) -> list[Path]:
    return sorted(output.glob(f"{kind}-*-p{process}{CAPTURE}"))


def _command_line(process: int) -> str:
    try:
        text = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return f"process {process}"
    return " ".join(os.fsdecode(part) for part in text.split(b"\0") if part)
