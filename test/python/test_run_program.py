"""`opprof run` and `opprof merge`: injected programs, programs without a GPU, and ranks on one clock."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from opprof.commands.merge import Collective, Merged, Rank, pair
from opprof.tools import find_tool

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("OPPROF_BUILD_DIR", ROOT / "build"))
FAKE = BUILD / "unittests" / "libopprof_fake_cupti.so"
LIBRARY = BUILD / "lib" / "libopprof_capture.so"

# What the CUDA driver does when a program first uses it, and a program.
PROGRAM = """
import ctypes, os, signal, sys, time
ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()
fake = ctypes.CDLL(os.environ["OPPROF_CUPTI_LIBRARY"])
name = ctypes.c_char_p(sys.argv[1].encode())
for _ in range(0 if "nothing" in sys.argv else 5):
    fake.fake_launch(name, 1, 1)
if "copies" in sys.argv:
    fake.fake_others()
if "waits" in sys.argv:
    def leave(number, frame):
        fake.fake_launch(name, 1, 1)
        sys.exit(5)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    print("ready", flush=True)
    # A signal that comes before the sleep begins does not end it.
    for _ in range(600):
        time.sleep(0.1)
if "late" in sys.argv:
    time.sleep(0.8)
    fake.fake_launch(name, 1, 1)
    time.sleep(0.8)
    fake.fake_launch(name, 1, 1)
if "killed" in sys.argv:
    time.sleep(1.2)
    os.kill(os.getpid(), signal.SIGKILL)
if "pid" in sys.argv:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
sys.exit(3 if "fails" in sys.argv else 0)
"""


def environment(gpu: bool = True, **variables: str) -> dict[str, str]:
    """Where the fake CUPTI and driver are found."""
    if not FAKE.is_file() or not LIBRARY.is_file():
        pytest.skip(
            "the capture library is not built: cmake --build build --target opprof-test-depends"
        )
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "OPPROF_TOOLS_DIR": str(BUILD / "bin"),
        "OPPROF_CAPTURE_LIBRARY": str(LIBRARY),
        "OPPROF_CUPTI_LIBRARY": str(FAKE),
        "OPPROF_CUDA_LIBRARY": str(FAKE) if gpu else "/no/such/libcuda.so",
        **variables,
    }


def opprof(
    *arguments: object, gpu: bool = True, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opprof", *map(str, arguments)],
        env=environment(gpu, **variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def kernels(trace: Path) -> list[dict[str, Any]]:
    return [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("cat") == "kernel"]


def test_an_unmodified_program_is_captured_and_its_status_kept(
    program: Path, tmp_path: Path
) -> None:
    done = opprof("run", "-o", tmp_path / "run", program, "gemm", "fails")
    assert done.returncode == 3, done.stderr
    (capture,) = (tmp_path / "run").glob("*.opcap")
    assert len(kernels(capture.with_suffix(".trace.json"))) == 5
    assert "complete: yes" in capture.with_suffix(".txt").read_text()
    run = check_report(tmp_path / "run", done.stderr)
    assert run["exit_status"] == 3
    assert run["program"] == f"{program} gemm fails"
    # What a program prints is its own.
    assert done.stdout == ""
    shown = opprof("report", tmp_path / "run")
    assert "gemm fails on Fake H200, by opprof capture, process " in shown.stdout
    assert "the program ended with status 3" in shown.stdout


def check_report(
    folder: Path, errors: str, process: str = "", *, count: int = 5, work: str = "kernel"
) -> dict[str, Any]:
    """The profile and both pages of a program without steps and without a graph; returns run.json."""
    profile = json.loads((folder / f"profile{process}.opprof.json").read_text())
    assert len(profile["kernels"]) == profile["summary"]["kernels"] == count
    assert profile["summary"]["steps_from"] == "none"
    text = (folder / f"report{process}.txt").read_text()
    html = (folder / f"report{process}.html").read_text()
    for page in (text, html):
        assert f"By {work}" in page
        assert "no graph: kernels are not joined to nodes" in page
        assert "a step" not in page and "roofline:" not in page
    assert f"report: {folder / f'report{process}.html'}" in errors or process
    return json.loads((folder / "run.json").read_text())


def test_a_killed_program_leaves_its_kernels(program: Path, tmp_path: Path) -> None:
    done = opprof("run", "-o", tmp_path / "run", program, "gemm", "killed")
    assert done.returncode == 128 + 9
    assert "signal 9" in done.stderr
    (capture,) = (tmp_path / "run").glob("*.opcap")
    assert len(kernels(capture.with_suffix(".trace.json"))) == 5
    assert "complete: no" in capture.with_suffix(".txt").read_text()
    check_report(tmp_path / "run", done.stderr)
    assert "was not ended by its program, which was killed" in done.stderr


def test_each_of_several_processes_has_a_report(program: Path, tmp_path: Path) -> None:
    launcher = tmp_path / "launcher.py"
    launcher.write_text(
        "import os, subprocess, sys\n"
        "for rank, kernel in enumerate(['gemm', 'ncclDevKernel_AllReduce']):\n"
        "    subprocess.run([sys.executable, *sys.argv[1:], kernel], check=True,\n"
        "                   env={**os.environ, 'RANK': str(rank), 'WORLD_SIZE': '2'})\n"
    )
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "report.txt").write_text("of an earlier run")
    (folder / "profile.opprof.json").write_text('{"version": 1}')
    done = opprof("run", "-o", folder, launcher, program)
    assert done.returncode == 0, done.stderr
    names = [file.stem.removeprefix("capture") for file in sorted(folder.glob("*.opcap"))]
    assert [name[:5] for name in names] == ["-r0-p", "-r1-p"]
    for name in names:
        check_report(folder, done.stderr, name)
        assert str(folder / f"report{name}.html") in done.stderr
    assert not (folder / "report.txt").exists()
    # The first rank's page is shown, of the other a line.
    assert "rank 0 of 2, process" in done.stderr
    assert "rank 1, process" in done.stderr
    assert "opprof merge" in done.stderr
    several = opprof("report", folder)
    assert several.returncode == 1
    assert "holds the profiles of 2 processes" in several.stderr
    one = opprof("report", folder / f"profile{names[1]}.opprof.json")
    assert "ncclDevKernel_AllReduce" in one.stdout


def test_a_report_that_fails_costs_neither_the_status_nor_the_capture(
    program: Path, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    broken = tools / "opprof-driver"
    # What comes before the program works; the profile that follows it does not.
    broken.write_text(
        "#!/bin/sh\n"
        "[ $1 = profile-timeline ] && echo 'no luck today' >&2 && exit 1\n"
        f'exec "{find_tool("opprof-driver")}" "$@"\n'
    )
    broken.chmod(0o755)
    done = opprof(
        "run", "-o", tmp_path / "run", program, "gemm", "fails", OPPROF_TOOLS_DIR=str(tools)
    )
    assert done.returncode == 3, done.stderr
    assert "no report of process" in done.stderr and "no luck today" in done.stderr
    (capture,) = (tmp_path / "run").glob("*.opcap")
    assert len(kernels(capture.with_suffix(".trace.json"))) == 5
    assert not (tmp_path / "run" / "profile.opprof.json").exists()


def test_nobody_reading_what_is_said_costs_neither_the_status_nor_the_report(
    program: Path, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "opprof", "run", "-o", tmp_path / "run", program]
    done = subprocess.run(
        [*command, "gemm", "fails"], env=environment(), stderr=writer, timeout=120, check=False
    )
    os.close(writer)
    assert done.returncode == 3
    check_report(tmp_path / "run", f"report: {tmp_path / 'run' / 'report.html'}")


def test_copies_alone_are_reported(program: Path, tmp_path: Path) -> None:
    done = opprof("run", "-o", tmp_path / "run", program, "nothing", "copies")
    assert done.returncode == 0, done.stderr
    assert "copies 2 in" in (tmp_path / "run" / "report.txt").read_text()
    assert "holds no kernels" in done.stderr


def report_of(folder: Path, capture: bytes, settings: str = "") -> subprocess.CompletedProcess[str]:
    """What is made of a capture that some program left."""
    folder.mkdir(exist_ok=True)
    file = folder / "capture-r0-p4711.opcap"
    file.write_bytes(capture)
    code = (
        "import sys; from pathlib import Path; import opprof.commands.run as run\n"
        f"{settings}\n"
        "from opprof.run_folder import RunFolder, write_run\n"
        "folder = Path(sys.argv[1]); write_run(RunFolder(folder), {})\n"
        "run.report_captures([folder / 'capture-r0-p4711.opcap'], folder)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, folder],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert file.read_bytes() == capture
    return done


@pytest.fixture
def capture() -> bytes:
    """A capture of forty kernels, as any program leaves it."""
    sys.path.insert(0, str(ROOT / "test" / "Profile" / "Inputs"))
    from make_capture import Capture

    made = Capture()
    for number in range(40):
        made.api(1000 * number, 1000 * number + 500, number + 1)
        made.kernel("gemm", 1000 * number + 600, 1000 * number + 900, number + 1)
    made.record(21, "4Q", 0, 0, 0, 50_000)
    return made.bytes


def test_captures_that_end_early_or_are_damaged(capture: bytes, tmp_path: Path) -> None:
    done = report_of(tmp_path / "cut", capture[:-1000])
    text = (tmp_path / "cut" / "report.txt").read_text()
    assert "read as far as it was written" in text and "gemm" in text
    done = report_of(tmp_path / "head", capture[:20])
    assert "is kept, but cannot be read" in done.stderr
    assert "at byte 0: not a capture file" in done.stderr
    damaged = bytearray(capture)
    damaged[1000] ^= 1
    done = report_of(tmp_path / "damaged", bytes(damaged))
    assert "the checksum of a chunk does not match" in done.stderr
    assert "Traceback" not in done.stderr
    for name in ("head", "damaged"):
        assert not list((tmp_path / name).glob("report*"))


def test_a_capture_without_work_on_a_device_has_no_report(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "test" / "Profile" / "Inputs"))
    from make_capture import Capture

    made = Capture()
    made.api(1000, 2000, 1)
    made.record(21, "4Q", 0, 0, 0, 3000)
    done = report_of(tmp_path / "run", made.bytes)
    assert "ran nothing on a device: there is nothing to report" in done.stderr
    assert not list((tmp_path / "run").glob("report*"))


def test_large_captures_have_a_report_of_their_last_kernels(capture: bytes, tmp_path: Path) -> None:
    done = report_of(tmp_path / "run", capture, "run.LARGEST_TRACED = 100; run.MOST_KERNELS = 30")
    assert "no trace is made of it" in done.stderr
    assert not list((tmp_path / "run").glob("*.trace.json"))
    profile = json.loads((tmp_path / "run" / "profile.opprof.json").read_text())
    assert len(profile["kernels"]) == 30
    assert "the capture holds 40 kernels: this is about the last 30" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_the_programs_to_answer(
    program: Path, tmp_path: Path, number: signal.Signals
) -> None:
    # SIGINT comes from the terminal, to every process of the group.
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "opprof",
            "run",
            "-o",
            str(tmp_path / "run"),
            str(program),
            "gemm",
            "waits",
        ],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    if number is signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 5, errors
    (capture,) = (tmp_path / "run").glob("*.opcap")
    assert len(kernels(capture.with_suffix(".trace.json"))) == 6
    assert "complete: yes" in capture.with_suffix(".txt").read_text()


def test_only_the_time_that_is_asked_for_is_recorded(program: Path, tmp_path: Path) -> None:
    # Launches at once, after 0.8 s and after 1.6 s: the first come too early, the last too late.
    done = opprof(
        "run",
        "-o",
        tmp_path / "run",
        "--delay",
        "0.4",
        "--duration",
        "0.8",
        program,
        "gemm",
        "late",
    )
    assert done.returncode == 0, done.stderr
    (capture,) = (tmp_path / "run").glob("*.opcap")
    assert len(kernels(capture.with_suffix(".trace.json"))) == 1


def test_a_process_that_runs_nothing_leaves_nothing(program: Path, tmp_path: Path) -> None:
    done = opprof("run", "-o", tmp_path / "run", program, "nothing")
    assert done.returncode == 0, done.stderr
    assert "put nothing on a device: its empty capture is removed" in done.stderr
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["run.json"]


def test_a_percent_sign_of_the_folder_stays(program: Path, tmp_path: Path) -> None:
    """The library puts numbers where a pattern has one."""
    done = opprof("run", "-o", tmp_path / "50%p of it%", program, "gemm")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "50%p of it%").glob("*.opcap"))) == 1
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_dir()] == ["50%p of it%"]


def test_a_fork_writes_nothing(program: Path, tmp_path: Path) -> None:
    done = opprof("run", "-o", tmp_path / "run", program, "gemm", "pid")
    assert done.returncode == 0, done.stderr
    (capture,) = (tmp_path / "run").glob("*.opcap")
    assert "complete: yes" in capture.with_suffix(".txt").read_text()


#: Where no observer lies.
UNOBSERVED = {"OPPROF_OBSERVER_LIBRARIES": "/no/such/folder"}


def test_without_an_observer_torch_profiler_records(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text("import sys, torch\ntorch.ones(8).exp()\nsys.exit(len(sys.argv))\n")
    done = opprof("run", "-o", tmp_path / "run", script, "a", "b", gpu=False, **UNOBSERVED)
    assert done.returncode == 3, done.stderr
    assert done.stderr.count("the observer was not built for PyTorch") == 1
    assert ": torch.profiler records" in done.stderr
    trace = json.loads(gzip.decompress((tmp_path / "run" / "trace.json.gz").read_bytes()))
    assert any(e.get("name") == "aten::exp" for e in trace["traceEvents"])
    run = check_report(tmp_path / "run", done.stderr, count=2, work="operator")
    assert (run["exit_status"], run["timeline"]["by"]) == (3, "torch.profiler")
    assert "aten::exp" in (tmp_path / "run" / "report.txt").read_text()
    # The program's own traceback is what Python prints of it alone.
    script.write_text("import torch\nraise ValueError('of the script')\n")
    alone = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    failed = opprof("run", "-o", tmp_path / "failed", script, gpu=False, **UNOBSERVED)
    assert alone.stderr in failed.stderr and failed.returncode == alone.returncode == 1
    nothing = opprof("run", "-o", tmp_path / "nothing", "true", gpu=False)
    assert nothing.returncode == 0 and "nothing was recorded" in nothing.stderr


def test_every_python_of_a_program_is_recorded_without_a_gpu(tmp_path: Path) -> None:
    """A launcher that only imports PyTorch leaves nothing; what it starts is a process each."""
    pytest.importorskip("torch")
    (tmp_path / "worker.py").write_text("import torch\ntorch.ones(8).exp()\n")
    (tmp_path / "launcher.py").write_text(
        "import os, subprocess, sys, torch\n"
        "for rank in '01':\n"
        "    environment = {**os.environ, 'RANK': rank}\n"
        "    subprocess.run([sys.executable, sys.argv[1]], env=environment, check=True)\n"
    )
    command = (sys.executable, tmp_path / "launcher.py", tmp_path / "worker.py")
    done = opprof("run", "-o", tmp_path / "run", *command, gpu=False)
    assert done.returncode == 0, done.stderr
    profiles = sorted((tmp_path / "run").glob("profile-*.opprof.json"))
    assert [file.name[:11] for file in profiles] == ["profile-r0-", "profile-r1-"]
    for file in profiles:
        names = {kernel["name"] for kernel in json.loads(file.read_text())["kernels"]}
        assert "aten::exp" in names
    kept = [*(tmp_path / "run").glob("trace-*.json.gz"), *(tmp_path / "run").glob("operators-*")]
    assert len(kept) == 2
    assert "rank 1, process" in done.stderr and "ran no operator" in done.stderr


def test_a_program_that_looks_for_pytorch_first_is_recorded(tmp_path: Path) -> None:
    """As transformers does: it asks for the spec, and imports later."""
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(
        "import importlib.util, sys\nassert importlib.util.find_spec('torch') is not None\n"
        "import torch\ntorch.ones(8).exp()\nprint(any(getattr(f, 'name', '') == 'torch' for f in sys.meta_path))\n"
    )
    done = opprof("run", "-o", tmp_path / "run", script, gpu=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"
    assert "aten::exp" in (tmp_path / "run" / "report.txt").read_text()


def test_the_programs_own_profiler_goes_before(tmp_path: Path) -> None:
    """PyTorch crashes where two use its profiler: opprof's ends when the program's begins."""
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\ntorch.ones(8).exp()\nwith torch.profiler.profile() as own:\n    torch.ones(8).tanh()\n"
        "print([event.name for event in own.events()])\n"
    )
    done = opprof("run", "-o", tmp_path / "run", script, gpu=False, **UNOBSERVED)
    assert done.returncode == 0, done.stderr
    assert "aten::tanh" in done.stdout and "starts torch.profiler itself" in done.stderr
    text = (tmp_path / "run" / "report.txt").read_text()
    assert "aten::exp" in text and "aten::tanh" not in text


def test_the_programs_own_sitecustomize_is_run(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.its_own = True\n")
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.its_own, any('injected' in p for p in sys.path))\n")
    path = os.pathsep.join((str(ROOT / "python"), str(tmp_path / "site")))
    done = opprof("run", "-o", tmp_path / "run", script, gpu=False, PYTHONPATH=path)
    assert done.stdout.strip() == "True False", done.stderr


@pytest.mark.parametrize(
    ("end", "status", "reported"),
    [
        ("raise ValueError('of the script')", 1, True),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + 9, False),
        ("import os; os._exit(4)", 4, False),
    ],
)
def test_however_a_script_ends_under_torch_profiler_its_status_is_kept(
    end: str, status: int, reported: bool, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(f"import torch\ntorch.ones(8).exp()\n{end}\n")
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("trace.json.gz", "report.txt", "profile.opprof.json"):
        (folder / name).write_text('"version" 0, of an earlier run')
    done = opprof("run", "-o", folder, "--delay", "1", script, gpu=False, **UNOBSERVED)
    assert done.returncode == status, done.stderr
    assert "--delay and --duration need the observer" in done.stderr
    if reported:
        assert "of the script" in done.stderr
        check_report(folder, done.stderr, count=2, work="operator")
    else:
        assert "nothing was recorded" in done.stderr
        assert [file.name for file in folder.iterdir()] == ["run.json"]


def test_a_trace_that_cannot_be_written_costs_no_status(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(
        "import shutil, sys, torch\ntorch.ones(8).exp()\nshutil.rmtree(sys.argv[1])\nsys.exit(6)\n"
    )
    folder = tmp_path / "run"
    done = opprof("run", "-o", folder, script, folder, gpu=False, **UNOBSERVED)
    assert done.returncode == 6, done.stderr
    assert "torch.profiler left no trace: " in done.stderr
    assert "nothing was recorded" in done.stderr


def test_a_trace_that_cannot_be_read_costs_no_status(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    # The script gets in the way of the trace that the profiler writes.
    script.write_text(
        "import atexit, glob, sys\n"
        "atexit.register(lambda: [open(f, 'w').write('cut') for f in glob.glob(sys.argv[1])])\n"
        "import torch\n"
        "torch.ones(8).exp()\n"
        "sys.exit(6)\n"
    )
    folder = tmp_path / "run"
    done = opprof(
        "run", "-o", folder, script, folder / ".recording-*" / "trace-*", gpu=False, **UNOBSERVED
    )
    assert done.returncode == 6, done.stderr
    (trace,) = folder.glob("trace-*.json.gz")
    assert "no report of process" in done.stderr and f"{trace} is kept" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    assert "nothing to run" in opprof("run", "-o", tmp_path).stderr
    assert "none.py: no such file" in opprof("run", "-o", tmp_path, "none.py").stderr
    assert "no such program" in opprof("run", "-o", tmp_path, "no-such-program").stderr


def test_ranks_are_merged_on_one_clock(program: Path, tmp_path: Path) -> None:
    for rank in range(2):
        done = opprof(
            "run",
            "-o",
            tmp_path / "run",
            program,
            "ncclDevKernel_AllReduce",
            RANK=str(rank),
            WORLD_SIZE="2",
        )
        assert done.returncode == 0, done.stderr
    # Files are read anywhere.
    no_cupti = {"OPPROF_CUPTI_LIBRARY": "/no/such/libcupti.so"}
    done = opprof("merge", tmp_path / "run", "-o", tmp_path / "merged.json", gpu=False, **no_cupti)
    assert done.returncode == 0, done.stderr
    assert "5 collectives on all ranks" in done.stdout
    events = kernels(tmp_path / "merged.json")
    assert sorted({e["pid"].partition(",")[0] for e in events}) == ["rank 0", "rank 1"]
    # The second rank ran after the first, on whatever clock.
    ends = {r: [e["ts"] for e in events if e["pid"].startswith(f"rank {r}")] for r in (0, 1)}
    assert max(ends[0]) < min(ends[1])

    # A launcher that uses CUDA, and a helper of a rank that runs nothing, are no ranks.
    for words, rank in ((["gemm"], {}), (["nothing", "copies"], {"RANK": "1"})):
        done = opprof("run", "-o", tmp_path / "run", program, *words, **rank)
        assert done.returncode == 0, done.stderr
    done = opprof("merge", tmp_path / "run", "-o", tmp_path / "merged.json")
    assert done.returncode == 0, done.stderr
    assert "5 collectives on all ranks" in done.stdout
    assert "of no rank, 5 kernels" in done.stdout
    assert "a further process of rank 1, without kernels" in done.stdout

    twice = opprof("merge", tmp_path / "run", tmp_path / "run", "-o", tmp_path / "twice.json")
    assert twice.returncode == 1
    assert "rank 0 is also" in twice.stderr
    assert not (tmp_path / "twice.json").exists()
    assert "no such file" in opprof("merge", tmp_path / "none", "-o", tmp_path / "x.json").stderr


def collectives(first: int, last: int, late: int = 0) -> list[Collective]:
    """Steps of three collectives, 1000 apart; a rank that is late begins later and ends with the others."""
    names = ("ncclDevKernel_AllReduce", "ncclDevKernel_AllReduce", "ncclDevKernel_Broadcast")
    result = []
    for number in range(first, last):
        start = 1000 * (number // 3) + 200 * (number % 3)
        result.append(Collective(names[number % 3], start + late, start + 150))
    return result


def test_collectives_of_recordings_that_begin_at_other_ones_are_paired_by_their_ends() -> None:
    def merged(*ranks: list[Collective]) -> Merged:
        result = Merged([Rank(number, "file") for number in range(len(ranks))])
        pair(result, ranks)
        return result

    # As after a delay: the second rank begins 7 collectives later and ends 3 earlier, and is always 90 late.
    result = merged(collectives(0, 300), collectives(7, 297, late=90))
    assert len(result.skews) == 290
    assert {skew for _, skew in result.skews} == {90}
    assert result.unpaired == {0: 10}
    # The other way round, and with a third rank.
    result = merged(
        collectives(7, 297), collectives(0, 300, late=90), collectives(12, 400, late=30)
    )
    assert len(result.skews) == 285
    assert {skew for _, skew in result.skews} == {90}
    assert result.unpaired == {0: 5, 1: 15, 2: 103}
    # The same ones.
    result = merged(collectives(0, 30), collectives(0, 30, late=5))
    assert (len(result.skews), result.unpaired) == (30, {})
    # None, or others.
    assert merged([], collectives(0, 3)).skews == []
    other = [Collective("ncclDevKernel_Other", c.start, c.end) for c in collectives(0, 3)]
    assert merged(collectives(0, 3), other).unpaired == {0: 3, 1: 3}


def test_a_program_that_waits_has_its_kernels_captured_from_outside(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not (BUILD / "lib" / f"libopprof_observer-torch-{torch.__version__}.so").is_file():
        pytest.skip("the observer is not built for this PyTorch")
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes, os, pathlib, sys, time, torch\n"
        "ctypes.CDLL(os.environ['CUDA_INJECTION64_PATH']).InitializeInjection()\n"
        "fake = ctypes.CDLL(os.environ['OPPROF_CUPTI_LIBRARY'])\n"
        "end = pathlib.Path(sys.argv[1])\n"
        "while not end.exists():\n"
        "    torch.ones(2)\n"
        "    fake.fake_launch(b'gemm', 1, 1)\n"
        "    time.sleep(0.002)\n"
    )
    control = tmp_path / "control"
    with ThreadPoolExecutor() as pool:
        run = pool.submit(opprof, "run", "--wait", "-o", control, program, tmp_path / "end")
        try:
            while not (waiting := list(control.glob("waiting-p*"))):
                assert not run.done(), run.result().stderr
                time.sleep(0.1)
            process = waiting[0].name.partition("-p")[2]
            for folder in (tmp_path / "one", tmp_path / "two"):
                done = opprof("attach", process, "-o", folder, "--seconds", "0.5")
                assert done.returncode == 0, done.stderr
                profile = json.loads((folder / "profile.opprof.json").read_text())
                assert {k["name"] for k in profile["kernels"]} == {"gemm"}
                assert len(list(folder.glob(f"operators-*-p{process}.opcap"))) == 1
        finally:
            (tmp_path / "end").touch()
        assert run.result().returncode == 0, run.result().stderr
