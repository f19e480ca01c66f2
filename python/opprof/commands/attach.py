"""`opprof attach`: records a process of a program that runs already. What it was started with waits for that (`opprof run --wait`).

The other side is recording/injected/attaching.py, which says how the two speak.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opprof.commands.run import recorded_operators, report_captures, report_operators
from opprof.errors import OpprofError
from opprof.files import check_own
from opprof.progress import progress
from opprof.recording.injected.attaching import started
from opprof.run_folder import RunFolder, recorded_files, versions, write_run

#: How long an answer takes at most: the process looks twice a second, where Python lets its thread run.
_ANSWER_S = 20.0

_LOOK_S = 0.1


def attach(process: int, output: Path, seconds: float, *, is_new: bool) -> None:
    """Records the process for so many seconds, and reports; raises OpprofError where it cannot be recorded. `is_new` says that the
    folder was made for it.
    """
    control = _control(process)
    if is_new:
        # Whatever the user's mask lets others do in folders.
        output.chmod(0o700)
    check_own(output)
    folder = RunFolder(output)
    number = secrets.token_hex(8)
    answer = control / f"attached-p{process}"
    with contextlib.ExitStack() as held:
        began = held.enter_context(_alone(control, process))
        folder.clear()
        for kind in ("capture", "operators"):
            for file in recorded_files(output, kind, process):
                file.path.unlink()
        held.enter_context(_request(control / f"attach-p{process}", number, output, seconds))
        started = _answer(answer, process, began, number, _ANSWER_S)
        if started is None and _started(process) != began:
            raise OpprofError(f"process {process} ended before the recording began")
        if started is None:
            raise OpprofError(
                f"process {process} does not answer",
                remedy="it may hold Python's lock in one long call, or be stopped",
            )
        if started["error"]:
            raise OpprofError(f"process {process} cannot be recorded: {started['error']}")
        progress(f"recording process {process} for {seconds:g} s")
        try:
            ended = _answer(answer, process, began, number, seconds + _ANSWER_S, done=True)
        except KeyboardInterrupt:
            progress("interrupted: what was recorded until now is reported")
            (control / f"attach-p{process}").unlink(missing_ok=True)
            ended = _answer(answer, process, began, number, _ANSWER_S, done=True)
    if ended is None or ended["ended"]:
        progress(f"process {process} ended meanwhile: what was written is reported")
    if ended is not None and ended["error"]:
        progress(f"the recording ended with an error: {ended['error']}")
    captures = [file.path for file in recorded_files(output, "capture", process)]
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
        operators = recorded_files(output, "operators", process)
        report_operators([recorded_operators(file, process) for file in operators], output)


def _control(process: int) -> Path:
    """The folder in which the process waits for requests."""
    try:
        owner = os.stat(f"/proc/{process}").st_uid
        if owner != os.geteuid():
            raise PermissionError
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise OpprofError(f"there is no process {process}") from None
    except PermissionError:
        raise OpprofError(
            f"process {process} is another user's", remedy="attach as the user who started it"
        ) from None
    for variable in variables:
        if variable.startswith(b"OPPROF_CONTROL="):
            control = Path(os.fsdecode(variable.partition(b"=")[2]))
            break
    else:
        raise OpprofError(
            f"process {process} was not started to be recorded",
            remedy="start the program with `opprof run --wait -o run/ …`",
        )
    # The numbers of the process in each namespace, from this one inwards.
    numbers = re.search(r"^NSpid:\s+\d+(?:\s+\d+)*\s+(\d+)$", status, re.MULTILINE)
    if numbers is not None:
        raise OpprofError(
            f"process {process} is in a container (another PID namespace), where it is process {numbers[1]}",
            remedy=f"run `opprof attach {numbers[1]}` in that container",
        )
    check_own(control)
    return control


def _started(process: int) -> int | None:
    """When the process did; None where there is none. Numbers of processes are given again."""
    try:
        return started(process)
    except (OSError, ValueError, IndexError):
        return None


@contextlib.contextmanager
def _alone(control: Path, process: int) -> Iterator[int]:
    """Keeps the process to this command; gives when it started. The lock ends with this process, however that ends."""
    try:
        descriptor = os.open(control / f"waiting-p{process}", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        raise _not_waiting(process) from None
    with os.fdopen(descriptor, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OpprofError(
                f"another `opprof attach` records {process}", remedy="wait until it has ended"
            ) from None
        except OSError:
            # A file system without locks.
            pass
        try:
            content = json.load(file)
            began, thread = int(content["started"]), int(content["thread"])
        except (ValueError, KeyError, TypeError):
            raise _not_waiting(process) from None
        # The file may be of a process that was killed, whose number this one got, or of what ran in this one before it ran another
        # program.
        if began != _started(process) or not Path(f"/proc/{process}/task/{thread}").exists():
            raise _not_waiting(process)
        yield began


def _not_waiting(process: int) -> OpprofError:
    return OpprofError(
        f"process {process} has not imported PyTorch",
        remedy="attach to the process that runs the model; one that was just started needs a while",
    )


@contextlib.contextmanager
def _request(file: Path, number: str, output: Path, seconds: float) -> Iterator[None]:
    """Asks for a recording, in the place of one whose asker was killed; takes the request back at the end."""
    partial = file.with_name(f"{file.name}.{number}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        os.fchmod(descriptor, stat.S_IRUSR | stat.S_IWUSR)
        json.dump({"number": number, "folder": str(output.resolve()), "seconds": seconds}, out)
    partial.replace(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _answer(
    file: Path, process: int, began: int, number: str, patience: float, *, done: bool = False
) -> dict[str, Any] | None:
    """What the process says of the request, of its end if `done`; None where it says nothing for so many seconds, or ended."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        # Asked first: the last it does is to answer.
        runs = _started(process) == began
        with contextlib.suppress(OSError, ValueError):
            answer: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            if answer["number"] == number and (answer["done"] or not done):
                return answer
        if not runs:
            return None
        time.sleep(_LOOK_S)
    return None


def _command_line(process: int) -> str:
    try:
        text = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return f"process {process}"
    return " ".join(os.fsdecode(part) for part in text.split(b"\0") if part)
