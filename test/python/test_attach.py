"""`opprof attach` and the process that waits for it: one asker at a time, numbers of processes that are given again, folders that others can write
to, and processes that end. What records is a stand-in: how operators are recorded from outside is in test_observer.py."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opprof.recording import INJECTED

ROOT = Path(__file__).parents[2]

# A process that waits, without PyTorch. It ends when its second argument is there, or with the first request that it does not look at.
PROGRAM = """
import importlib.util, os, pathlib, sys, time
spec = importlib.util.spec_from_file_location("attaching", sys.argv[1])
attaching = importlib.util.module_from_spec(spec)
spec.loader.exec_module(attaching)
class Recorder:
    capture = None
    def start(self, prefix):
        pathlib.Path(prefix + "-started").touch()
    def stop(self):
        pass
if sys.argv[3] == "blind":
    attaching._LOOK_S = 1000
control = pathlib.Path(os.environ["OPPROF_CONTROL"])
waiting = attaching.Waiting(Recorder(), str(control))
end = control / f"attach-p{os.getpid()}" if sys.argv[3] == "blind" else pathlib.Path(sys.argv[2])
# What runs in the place of the program, or of a fork.
other = [sys.executable, "-c", "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(30)"]
other.append(str(control.parent / "other"))
if sys.argv[3] == "forks":
    fork = os.fork()
    if fork == 0:
        os.execv(other[0], other)
while not end.exists():
    time.sleep(0.01)
if sys.argv[3] == "executes":
    os.execv(other[0], other)
if sys.argv[3] == "forks":
    os.kill(fork, 9)
waiting.leave()
time.sleep(float(sys.argv[4]))
"""


class Program:
    """A process that waits, and its folders."""

    def __init__(self, folder: Path, kind: str = "looks", *, before: tuple[str, ...] = ()) -> None:
        self.end = folder / "end"
        self.control = folder / "control"
        self.control.mkdir(0o700)
        script = folder / "program.py"
        script.write_text(PROGRAM)
        # The file ends the blind one, which then stays for long enough to be found alive.
        after = "1" if kind == "blind" else "0"
        command = [
            *before,
            sys.executable,
            script,
            INJECTED / "attaching.py",
            self.end,
            kind,
            after,
        ]
        environment = {**os.environ, "OPPROF_CONTROL": str(self.control)}
        self.process = subprocess.Popen(list(map(str, command)), env=environment)

    def wait(self) -> str:
        """The number by which the process waits."""
        for _ in range(1000):
            for file in self.control.glob("waiting-p*"):
                if not file.name.endswith(".new"):
                    return file.name.partition("-p")[2]
            assert self.process.poll() is None
            time.sleep(0.01)
        raise AssertionError("the process does not wait")


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    made.wait()
    yield made
    made.end.touch()
    assert made.process.wait(20) == 0


def attaching(process: object, folder: Path, seconds: float = 0.1) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "opprof",
        "attach",
        process,
        "-o",
        folder,
        "--seconds",
        seconds,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    return subprocess.Popen(
        list(map(str, command)), env=environment, stderr=subprocess.PIPE, text=True
    )


def attach(process: object, folder: Path, seconds: float = 0.1) -> tuple[int, str]:
    """The status of `opprof attach`, and what it says."""
    command = attaching(process, folder, seconds)
    errors = command.communicate(timeout=60)[1]
    return command.returncode, errors


def until(file: Path) -> None:
    for _ in range(2000):
        if file.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{file} is not there")


def test_one_asker_at_a_time_and_none_after_one_that_was_killed(
    program: Program, tmp_path: Path
) -> None:
    process = program.process.pid
    first = attaching(process, tmp_path / "first", 30)
    until(tmp_path / "first" / "operators-started")
    status, errors = attach(process, tmp_path / "second")
    assert status == 1 and f"another `opprof attach` records {process}" in errors
    assert not (tmp_path / "second").exists()
    first.kill()
    first.communicate()
    # What it asked for is still there, and gives way.
    assert (program.control / f"attach-p{process}").exists()
    status, errors = attach(process, tmp_path / "third")
    assert status == 0, errors
    assert (tmp_path / "third" / "operators-started").exists()
    assert sorted(file.name for file in program.control.iterdir()) == [
        f"attached-p{process}",
        f"waiting-p{process}",
    ]


def test_a_number_that_another_process_had_is_not_taken_for_it(
    program: Program, tmp_path: Path
) -> None:
    waiting = program.control / f"waiting-p{program.process.pid}"
    content = json.loads(waiting.read_text())
    waiting.write_text(json.dumps({**content, "started": content["started"] - 1}))
    status, errors = attach(program.process.pid, tmp_path / "run")
    assert status == 1 and "has not imported PyTorch" in errors
    assert not list(program.control.glob("attach-*"))


def test_a_process_that_runs_another_program_by_now_waits_no_more(
    tmp_path: Path,
) -> None:
    program = Program(tmp_path, "executes")
    process = program.wait()
    program.end.touch()
    # Its number and the time of its start stay.
    until(tmp_path / "other")
    try:
        assert (program.control / f"waiting-p{process}").exists()
        status, errors = attach(process, tmp_path / "run")
    finally:
        program.process.kill()
        program.process.wait()
    assert status == 1 and "has not imported PyTorch" in errors


def test_forks_that_run_another_program_leave_nothing(tmp_path: Path) -> None:
    program = Program(tmp_path, "forks")
    process = program.wait()
    until(tmp_path / "other")
    assert [file.name for file in program.control.iterdir()] == [f"waiting-p{process}"]
    program.end.touch()
    assert program.process.wait(20) == 0


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_results_go_to_no_folder_that_others_can_write_to(
    program: Program, mode: int, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    status, errors = attach(program.process.pid, tmp_path / "run")
    assert status == 1 and "others can write to this folder" in errors
    assert not list((tmp_path / "run").iterdir())


def test_no_link_is_followed(program: Program, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("as it was")
    (program.control / f"attached-p{program.process.pid}.new").symlink_to(other)
    status, errors = attach(program.process.pid, tmp_path / "run")
    assert status == 0, errors
    assert other.read_text() == "as it was"


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_can_write_to_is_refused(
    program: Program, mode: int, tmp_path: Path
) -> None:
    program.control.chmod(mode)
    status, errors = attach(program.process.pid, tmp_path / "run")
    assert status == 1 and "others can write to this folder" in errors
    # And by a process, which then waits for nobody.
    again = subprocess.run(
        [sys.executable, "-c", PROGRAM, INJECTED / "attaching.py", program.end, "looks", "0"],
        env={**os.environ, "OPPROF_CONTROL": str(program.control)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert again.returncode and f"others can write to {program.control}" in again.stderr
    assert len(list(program.control.iterdir())) == 1


def test_a_process_that_ends_before_the_recording_begins_says_so(tmp_path: Path) -> None:
    program = Program(tmp_path, "blind")
    status, errors = attach(program.wait(), tmp_path / "run")
    assert status == 1
    assert "cannot be recorded: it ended before the recording began" in errors
    assert program.process.wait(20) == 0


def test_a_process_that_ends_while_it_is_recorded_is_reported(
    program: Program, tmp_path: Path
) -> None:
    command = attaching(program.process.pid, tmp_path / "run", 60)
    until(tmp_path / "run" / "operators-started")
    program.end.touch()
    errors = command.communicate(timeout=60)[1]
    assert command.returncode == 0, errors
    assert "ended meanwhile: what was written is reported" in errors


def test_a_process_of_another_namespace_is_said_to_be_of_one(tmp_path: Path) -> None:
    alone = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
    probe = shutil.which("unshare") and subprocess.run(
        [*alone, "true"], capture_output=True, check=False
    )
    if not probe or probe.returncode:
        pytest.skip("no namespaces can be made here")
    program = Program(tmp_path, before=alone)
    inside = program.wait()
    parent = program.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    try:
        status, errors = attach(children[0], tmp_path / "run")
        assert status == 1
        assert f"another PID namespace), where it is process {inside}" in errors
    finally:
        program.end.touch()
        program.process.wait(20)
