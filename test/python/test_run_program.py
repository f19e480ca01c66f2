"""`opprof run` and `opprof merge`: injected programs, programs without a GPU, and ranks on one clock."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opprof.merge import Collective, Merged, Rank, length, measure, pair, uncovered, union

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
    time.sleep(60)
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
    return [e for e in json.loads(trace.read_text())["traceEvents"] if e["cat"] == "kernel"]


def test_an_unmodified_program_is_captured_and_its_status_kept(
    program: Path, tmp_path: Path
) -> None:
    done = opprof("run", "-o", tmp_path / "run", program, "gemm", "fails")
    assert done.returncode == 3, done.stderr
    (capture,) = (tmp_path / "run").glob("*.opcap")
    assert len(kernels(capture.with_suffix(".trace.json"))) == 5
    assert "complete: yes" in capture.with_suffix(".txt").read_text()


def test_a_killed_program_leaves_its_kernels(program: Path, tmp_path: Path) -> None:
    done = opprof("run", "-o", tmp_path / "run", program, "gemm", "killed")
    assert done.returncode == 128 + 9
    assert "signal 9" in done.stderr
    (capture,) = (tmp_path / "run").glob("*.opcap")
    assert len(kernels(capture.with_suffix(".trace.json"))) == 5
    assert "complete: no" in capture.with_suffix(".txt").read_text()


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
    assert list((tmp_path / "run").iterdir()) == []


def test_a_fork_writes_nothing(program: Path, tmp_path: Path) -> None:
    done = opprof("run", "-o", tmp_path / "run", program, "gemm", "pid")
    assert done.returncode == 0, done.stderr
    (capture,) = (tmp_path / "run").glob("*.opcap")
    assert "complete: yes" in capture.with_suffix(".txt").read_text()


def test_without_a_gpu_a_script_runs_under_torch_profiler(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text("import sys, torch\ntorch.ones(8).exp()\nsys.exit(len(sys.argv))\n")
    done = opprof("run", "-o", tmp_path / "run", script, "a", "b", gpu=False)
    assert done.returncode == 3, done.stderr
    assert "under torch.profiler on the CPU" in done.stderr
    trace = json.loads(gzip.decompress((tmp_path / "run" / "trace.json.gz").read_bytes()))
    assert any(e.get("name") == "aten::exp" for e in trace["traceEvents"])
    refused = opprof("run", "-o", tmp_path / "run", "true", gpu=False)
    assert refused.returncode == 1
    assert "no NVIDIA driver" in refused.stderr


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
    done = opprof("merge", tmp_path / "run", "-o", tmp_path / "merged.json")
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


def test_exposed_communication_is_what_no_kernel_covers() -> None:
    assert union([(0, 2), (5, 6), (1, 3)]) == [(0, 3), (5, 6)]
    assert length([(0, 3), (5, 6)]) == 4
    assert uncovered([(0, 10)], [(2, 4), (6, 7)]) == 7
    assert uncovered([(0, 3), (5, 9)], [(2, 6)]) == 2 + 3
    assert uncovered([(0, 3)], []) == 3

    def kernel(name: str, start: float, duration: float) -> dict[str, Any]:
        return {"cat": "kernel", "name": name, "ts": start, "dur": duration}

    rank = Rank(0, "file")
    order = measure(
        rank,
        [
            kernel("ncclDevKernel_AllReduce", 10, 10),
            kernel("gemm", 0, 15),
            {"cat": "cuda_runtime", "name": "ncclAllReduce", "ts": 0, "dur": 100},
        ],
    )
    assert (rank.kernels, rank.compute_us, rank.communication_us, rank.exposed_us) == (2, 15, 10, 5)
    assert order == [Collective("ncclDevKernel_AllReduce", 10, 20)]


def collectives(first: int, last: int, late: float = 0.0) -> list[Collective]:
    """Steps of three collectives, 1000 µs apart; a rank that is late begins later and ends with the others."""
    names = ("ncclDevKernel_AllReduce", "ncclDevKernel_AllReduce", "ncclDevKernel_Broadcast")
    result = []
    for number in range(first, last):
        start = 1000.0 * (number // 3) + 200 * (number % 3)
        result.append(Collective(names[number % 3], start + late, start + 150))
    return result


def test_collectives_of_recordings_that_begin_at_other_ones_are_paired_by_their_ends() -> None:
    def merged(*ranks: list[Collective]) -> Merged:
        result = Merged([Rank(number, "file") for number in range(len(ranks))])
        pair(result, ranks)
        return result

    # As after a delay: the second rank begins 7 collectives later and ends 3 earlier, and is always 90 µs late.
    result = merged(collectives(0, 300), collectives(7, 297, late=90))
    assert len(result.skews) == 290
    assert {skew for _, skew in result.skews} == {90.0}
    assert result.unpaired == {0: 10}
    # The other way round, and with a third rank.
    result = merged(
        collectives(7, 297), collectives(0, 300, late=90), collectives(12, 400, late=30)
    )
    assert len(result.skews) == 285
    assert {skew for _, skew in result.skews} == {90.0}
    assert result.unpaired == {0: 5, 1: 15, 2: 103}
    # The same ones.
    result = merged(collectives(0, 30), collectives(0, 30, late=5))
    assert (len(result.skews), result.unpaired) == (30, {})
    # None, or others.
    assert merged([], collectives(0, 3)).skews == []
    other = [Collective("ncclDevKernel_Other", c.start, c.end) for c in collectives(0, 3)]
    assert merged(collectives(0, 3), other).unpaired == {0: 3, 1: 3}
