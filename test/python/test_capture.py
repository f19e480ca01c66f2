"""Captures from Python, against a CUPTI and a driver that need no GPU (unittests/Capture/FakeCupti.cpp)."""

import gzip
import json
import math
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from opprof.errors import OpprofError
from opprof.recording import capture as capture_module
from opprof.recording import metrics
from opprof.recording.capture import _ranges
from opprof.recording.library import CaptureError

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("OPPROF_BUILD_DIR", ROOT / "build"))
FAKE = BUILD / "unittests" / "libopprof_fake_cupti.so"
LIBRARY = BUILD / "lib" / "libopprof_capture.so"

PRELUDE = """
import ctypes, json, os, sys, types
import torch
import opprof
from opprof import tools
from opprof.recording import capture, identity, library, metrics

fake = ctypes.CDLL(os.environ["OPPROF_CUPTI_LIBRARY"])
def launch(name, grid=4, block=128):
    fake.fake_launch(ctypes.c_char_p(NAMES[name]), ctypes.c_uint32(grid), ctypes.c_uint32(block))
NAMES = {n: n.encode() for n in ("gemm", "relu", "spill", "more")}
capture._device = lambda torch: metrics.Device(132, 64)
"""


def run(body: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with the fake CUPTI; it has a process of its own because CUPTI is one a process."""
    if not FAKE.is_file() or not LIBRARY.is_file():
        pytest.skip(
            "the capture library is not built: cmake --build build --target opprof-test-depends"
        )
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "OPPROF_CAPTURE_LIBRARY": str(LIBRARY),
        "OPPROF_CUPTI_LIBRARY": str(FAKE),
        "OPPROF_CUDA_LIBRARY": str(FAKE),
        **environment,
    }
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body)],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def output(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON that a program printed last."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().split("\n")[-1])


def test_a_capture_is_reported(tmp_path: Path) -> None:
    """Time between steps, in which counters are taken, is in no step; a failing step's words are kept."""
    done = run(
        """
        def step(fails=False):
            launch("gemm"); launch("relu")
            if fails:
                raise ValueError("no more data")
        try:
            with opprof.capture("run", counters="all") as prof:
                prof.step(step)
                prof.step(step)
                prof.step(lambda: step(fails=True))
        except ValueError:
            print("{}")
        """,
        tmp_path,
    )
    output(done)
    files = {file.name for file in (tmp_path / "run").iterdir()}
    assert files == {
        *("capture.opcap", "counters.json", "trace.json.gz", "run.json"),
        *("profile.opprof.json", "report.txt", "report.html"),
    }
    profile = json.loads((tmp_path / "run" / "profile.opprof.json").read_text())
    assert profile["summary"]["kernels"] == 6 and profile["summary"]["steps"] == 3
    inside = sum(step["end_ns"] - step["start_ns"] for step in profile["steps"])
    assert profile["summary"]["wall_ns"] == inside
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["ended"] == "ValueError: no more data"
    assert "By kernel" in (tmp_path / "run" / "report.txt").read_text()


def test_counters_reach_the_kernels_of_a_capture_without_a_graph(tmp_path: Path) -> None:
    output(
        run(
            """
            def step():
                launch("gemm"); launch("relu")
            with opprof.capture("run", counters="all") as prof:
                prof.step(step)
                prof.step(step)
            print("{}")
            """,
            tmp_path,
        )
    )
    profile = json.loads((tmp_path / "run" / "profile.opprof.json").read_text())
    assert all("metrics" in kernel for kernel in profile["kernels"])


def test_counters_of_every_launch_and_the_state_of_one_step(tmp_path: Path) -> None:
    result = output(
        run(
            """
            w = torch.nn.Linear(4, 4)
            before = w.weight.detach().clone()
            draws = []
            def step():
                draws.append(torch.rand(1).item())
                with torch.no_grad():
                    w.weight.add_(1)
                launch("gemm"); launch("relu"); launch("spill")
                return 42
            torch.manual_seed(1)
            with opprof.capture("run", counters="all") as prof:
                result = prof.step(step)
            after_one = torch.rand(1).item()
            torch.manual_seed(1)
            expected = [torch.rand(1).item(), torch.rand(1).item()]
            one = prof.steps[0]
            print(json.dumps({
                "result": result,
                "once": torch.equal(w.weight, before + 1),
                "random": after_one == expected[1] and draws[0] == expected[0],
                "same_draws_in_every_pass": len(set(draws[1:])) == 1,
                "passes": one.report["passes"],
                "restored": one.report["restored"],
                "rows": [r["launch"] for r in one.counters],
                "local": [r["metrics"].get("local_memory_wavefronts") for r in one.counters],
                "registers": one.counters[0]["metrics"]["registers"],
            }))
            """,
            tmp_path,
        )
    )
    assert result["result"] == 42
    assert result["once"] and result["random"] and result["same_draws_in_every_pass"]
    # One kernel has local memory, so its counter, which takes a second pass, is collected.
    assert result["passes"] == 2
    assert result["restored"] == {"tensors": 1, "bytes": 64}
    assert result["rows"] == [0, 1, 2]
    assert result["local"] == [0.0, 0.0, 17002.0]
    assert result["registers"] == 40
    written = json.loads((tmp_path / "run" / "counters.json").read_text())
    assert len(written["steps"][0]["counters"]) == 3
    assert (tmp_path / "run" / "capture.opcap").stat().st_size > 0


def test_selected_launches_take_their_time_from_the_timeline(tmp_path: Path) -> None:
    result = output(
        run(
            """
            def step():
                launch("gemm"); launch("relu"); launch("gemm")
            with opprof.capture("run", counters="unique", select=lambda l: l["kernel"] == "gemm") as prof:
                prof.step(step)
            one = prof.steps[0]
            print(json.dumps({"rows": [r["launch"] for r in one.counters], "time": one.report["time"]}))
            """,
            tmp_path,
        )
    )
    assert result == {"rows": [0, 2], "time": "of the kernel, by the timeline"}


def test_one_range_over_the_whole_step(tmp_path: Path) -> None:
    result = output(
        run(
            """
            w = torch.nn.Linear(4, 4)
            before = w.weight.detach().clone()
            trains = [False]
            def step():
                if trains[0]:
                    with torch.no_grad():
                        w.weight.add_(1)
                launch("gemm"); launch("relu"); launch("gemm")
            def counted(**options):
                with opprof.capture("run", **options) as prof:
                    prof.step(step)
                return prof.steps[0]
            alone, both = counted(counters="step"), counted(counters="unique,step")
            trains[0] = True
            training = counted(counters="all,step")
            print(json.dumps({
                "alone": [alone.counters, alone.report],
                "whole": [one.whole for one in (alone, both, training)],
                "kernels": [[row["raw"]["dram__bytes_read.sum"] for row in one.counters] for one in (both, training)],
                "once": torch.equal(w.weight, before + 1),
            }))
            """,
            tmp_path,
        )
    )
    assert result["alone"] == [[], {}]
    alone, both, training = result["whole"]
    # The second run of the pass counts: its launches are 3, 4 and 5 of the stand-in.
    read, cycles = 3 * 2000.0 + 3 + 4 + 5, 3 * 10000.0 + 3 + 4 + 5
    assert alone["raw"]["dram__bytes_read.sum"] == alone["metrics"]["dram_read_bytes"] == read
    assert alone["metrics"]["sm_active_pct"] == pytest.approx(
        100 * cycles / (132 * alone["raw"]["sm__cycles_elapsed.max"])
    )
    assert alone["metrics"]["local_memory_wavefronts"] == 0
    assert "registers" not in {**alone["metrics"], **alone["absent"]}
    assert alone["report"]["passes"] == alone["report"]["ranges"] == 1
    assert "of the range" in alone["report"]["time"]
    assert both["raw"] == alone["raw"]
    # The second gemm has the first one's values.
    assert result["kernels"][0] == [2003.0, 2004.0]
    # What is trained is put back in place of a second run.
    assert training["raw"]["dram__bytes_read.sum"] == 3 * 2000.0 + 0 + 1 + 2
    assert sum(result["kernels"][1]) == training["raw"]["dram__bytes_read.sum"]
    assert training["report"]["restored"] == {"tensors": 1, "bytes": 64}
    assert result["once"]


def test_one_range_over_a_cuda_graph(tmp_path: Path) -> None:
    result = output(
        run(
            """
            fake.fake_graph.restype = ctypes.c_uint64
            names = (ctypes.c_char_p * 2)(b"gemm", b"relu")
            nodes = (ctypes.c_uint64 * 2)(fake.fake_graph(), fake.fake_graph())
            w = torch.nn.Linear(4, 4)
            before = w.weight.detach().clone()
            runs = []
            def replay():
                runs.append("graph")
                fake.fake_graph_replay(names, nodes, 2)
                launch("more")
            def outside():
                runs.append("outside")
                with torch.no_grad():
                    w.weight.add_(1)
            with opprof.capture("run", counters="step") as prof:
                prof.step(replay)
                prof.step(replay, outside=outside)
            one, two = prof.steps
            print(json.dumps({
                "runs": runs,
                "read": [step.whole["raw"]["dram__bytes_read.sum"] for step in prof.steps],
                "failed": [step.report for step in prof.steps],
                "restored": [step.whole["report"]["restored"]["tensors"] for step in prof.steps],
                "once": torch.equal(w.weight, before + 1),
            }))
            """,
            tmp_path,
        )
    )
    # Of the second step the graph does not tell what it changes, so the pass has no run before the one that counts.
    assert result["runs"] == ["graph"] * 4 + ["outside", "graph"]
    assert result["read"] == [3 * 2000.0 + 3 + 4 + 5, 3 * 2000.0 + 0 + 1 + 2]
    assert result["failed"] == [{}, {}]
    assert result["restored"] == [0, 1] and result["once"]


def test_a_step_that_fails_in_its_range_says_so(tmp_path: Path) -> None:
    done = run(
        """
        runs = [0]
        def step():
            runs[0] += 1
            for _ in range(runs[0]):
                launch("gemm")
        with opprof.capture("run", counters="all,step") as prof:
            prof.step(step)
        """,
        tmp_path,
    )
    assert "launch 1, gemm" in done.stderr
    (step,) = json.loads((tmp_path / "run" / "counters.json").read_text())["steps"]
    assert "whole" not in step and "launch 1, gemm" in step["report"]["failed"]


def test_wrapper_lines_become_the_ids_of_launches(tmp_path: Path) -> None:
    (tmp_path / "wrapper.py").write_text(
        "def call(args):\n    x, = args\n    launch('gemm')\n    y = x\n    launch('relu'); launch('relu')\n    return y\n"
    )
    result = output(
        run(
            """
            sys.path.insert(0, ".")
            import wrapper
            wrapper.launch = launch
            identity.inductor_modules = lambda: [wrapper]
            with opprof.capture("run") as prof:
                prof.step(lambda: (wrapper.call([1]), launch("more")))
            print(json.dumps({
                "lines": [l.get("line") for l in prof.located_launches()],
                "files": sorted({l["file"] for l in prof.located_launches() if "file" in l}),
            }))
            """,
            tmp_path,
        )
    )
    assert result["lines"] == [3, 5, 5, None]
    assert [Path(f).name for f in result["files"]] == ["wrapper.py"]
    events = json.loads(gzip.decompress((tmp_path / "run" / "trace.json.gz").read_bytes()))[
        "traceEvents"
    ]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert [e["args"]["launched_by"]["line"] for e in kernels[:3]] == [3, 5, 5]
    assert "launched_by" not in kernels[3]["args"]
    steps = [e for e in events if e.get("cat") == "user_annotation"]
    assert [e["name"] for e in steps] == ["ProfilerStep#0"]


def test_nodes_of_an_exported_graph_become_the_ids_of_launches(tmp_path: Path) -> None:
    result = output(
        run(
            """
            def first(x):
                launch("gemm")
                return x
            def second(x):
                launch("relu")
                return x
            graph = torch.fx.Graph()
            x = graph.placeholder("x")
            a = graph.call_function(first, (x,))
            b = graph.call_function(second, (a,))
            graph.output(b)
            module = torch.fx.GraphModule({}, graph)
            with opprof.capture("run") as prof:
                prof.step(lambda: identity.run_nodes(module, torch.ones(1)))
            import gzip
            events = json.load(gzip.open("run/trace.json.gz"))["traceEvents"]
            kernels = [e for e in events if e.get("cat") == "kernel"]
            print(json.dumps({"nodes": [e["args"]["launched_by"]["node"] for e in kernels]}))
            """,
            tmp_path,
        )
    )
    assert result == {"nodes": ["first", "second"]}


def test_a_step_that_changes_is_refused_by_the_launch_that_differs(tmp_path: Path) -> None:
    done = run(
        """
        runs = [0]
        def step():
            runs[0] += 1
            for _ in range(runs[0]):
                launch("gemm")
        with opprof.capture("run", counters="all") as prof:
            prof.step(step)
        """,
        tmp_path,
    )
    assert done.returncode == 1
    assert "launch 1, gemm grid (4, 1, 1)" in done.stderr
    # What was captured before is kept.
    assert (tmp_path / "run" / "capture.opcap").stat().st_size > 0


def test_the_users_error_passes_through_and_the_next_step_works(tmp_path: Path) -> None:
    result = output(
        run(
            """
            runs = [0]
            def step():
                runs[0] += 1
                launch("gemm")
                if runs[0] == 2:
                    raise ValueError("the user's own")
            text = ""
            try:
                with opprof.capture("run", counters="all") as prof:
                    prof.step(step)
            except ValueError as error:
                text = str(error)
            with opprof.capture("run", counters="all") as prof:
                prof.step(lambda: launch("gemm"))
            print(json.dumps({"error": text, "rows": len(prof.steps[0].counters)}))
            """,
            tmp_path,
        )
    )
    assert result == {"error": "the user's own", "rows": 1}


def test_out_of_memory_in_a_pass_leaves_the_state_of_one_step(tmp_path: Path) -> None:
    result = output(
        run(
            """
            w = torch.nn.Linear(4, 4)
            before = w.weight.detach().clone()
            runs = [0]
            def step():
                runs[0] += 1
                with torch.no_grad():
                    w.weight.add_(1)
                launch("spill")
                if runs[0] == 3:
                    raise torch.OutOfMemoryError("the user's own")
                launch("gemm")
            try:
                with opprof.capture("run", counters="all") as prof:
                    prof.step(step)
            except torch.OutOfMemoryError as error:
                text = str(error)
            print(json.dumps({
                "error": text,
                "once": torch.equal(w.weight, before + 1),
                "profiling": fake.fake_profiling(),
                "launches": [launch["kernel"] for launch in prof.steps[0].launches],
                "failed": prof.steps[0].report["failed"],
            }))
            """,
            tmp_path,
        )
    )
    assert result == {
        "error": "the user's own",
        "once": True,
        "profiling": 0,
        "launches": ["spill", "gemm"],
        "failed": "pass 2: OutOfMemoryError: the user's own",
    }
    written = json.loads((tmp_path / "run" / "counters.json").read_text())
    assert written["steps"][0]["report"]["failed"] == result["failed"]


def test_a_step_that_fails_half_way_keeps_what_it_launched(tmp_path: Path) -> None:
    result = output(
        run(
            """
            def step():
                launch("gemm")
                raise RuntimeError("half-way")
            for way, mark in (
                (lambda prof: prof.step(step), "ProfilerStep#0"),
                (lambda prof: prof.timeline(step, 3), "warm-up"),
            ):
                try:
                    with opprof.capture("run", counters="none") as prof:
                        way(prof)
                except RuntimeError as error:
                    text = str(error)
                tools.run_driver("report", "run/capture.opcap", "--perfetto=run/trace.json")
                events = json.load(open("run/trace.json"))["traceEvents"]
                assert {e["name"] for e in events if e.get("cat") in ("kernel", "user_annotation")} == {
                    mark, "gemm"}, events
                assert fake.fake_profiling() == 0 and not prof.library.native.opprof_capture_active()
            print(json.dumps({"error": text}))
            """,
            tmp_path,
        )
    )
    assert result == {"error": "half-way"}


def test_what_fails_is_written_beside_what_was_captured(tmp_path: Path) -> None:
    done = run(
        """
        runs = [0]
        def step():
            runs[0] += 1
            for _ in range(runs[0]):
                launch("gemm")
        with opprof.capture("run", counters="all") as prof:
            prof.step(step)
        """,
        tmp_path,
    )
    assert done.returncode == 1
    (step,) = json.loads((tmp_path / "run" / "counters.json").read_text())["steps"]
    assert [launch["kernel"] for launch in step["launches"]] == ["gemm"]
    assert "launch 1, gemm" in step["report"]["failed"]


def test_each_thread_has_the_lines_that_it_runs(tmp_path: Path) -> None:
    (tmp_path / "wrapper.py").write_text(
        "def call(args):\n    launch('gemm', args)\n    launch('relu', args)\n    return args\n"
    )
    result = output(
        run(
            """
            sys.path.insert(0, ".")
            import threading, wrapper
            wrapper.launch = launch
            identity.inductor_modules = lambda: [wrapper]
            def step():
                threads = [threading.Thread(target=lambda n=n: [wrapper.call(n) for _ in range(20)]) for n in (2, 3, 4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            with opprof.capture("run") as prof:
                prof.step(step)
            lines = sorted({(l["kernel"], l.get("line")) for l in prof.located_launches()})
            print(json.dumps({"lines": lines, "launches": len(prof.located_launches())}))
            """,
            tmp_path,
        )
    )
    assert result == {"lines": [["gemm", 2], ["relu", 3]], "launches": 120}


def test_a_fork_in_the_step_leaves_the_parents_capture_alone(tmp_path: Path) -> None:
    result = output(
        run(
            """
            def step():
                launch("gemm")
                child = os.fork()
                if child == 0:
                    try:
                        opprof.capture("child").__enter__()
                    except library.CaptureError as error:
                        os._exit(7 if error.status == "forked" else 1)
                    os._exit(2)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
                launch("relu")
            with opprof.capture("run", counters="all") as prof:
                prof.step(step)
            print(json.dumps({"rows": [r["kernel"] for r in prof.steps[0].counters]}))
            """,
            tmp_path,
        )
    )
    assert result == {"rows": ["gemm", "relu"]}


def test_a_metric_that_the_chip_lacks_is_absent_with_near_names(tmp_path: Path) -> None:
    result = output(
        run(
            """
            with opprof.capture("run", counters="all", metrics="dram__bytes_read.sum,dram__bytes_writen.sum") as prof:
                prof.step(lambda: launch("gemm"))
            one = prof.steps[0]
            print(json.dumps({"raw": list(one.counters[0]["raw"]), "absent": one.report["absent"]}))
            """,
            tmp_path,
        )
    )
    assert result["raw"] == ["dram__bytes_read.sum"]
    assert "near names: dram__bytes_write.sum" in result["absent"]["dram__bytes_writen.sum"]


def test_unique_launches_without_a_run_folder(tmp_path: Path) -> None:
    result = output(
        run(
            """
            def step():
                launch("gemm"); launch("relu"); launch("gemm"); launch("gemm", 8); launch("relu"); launch("gemm")
            with opprof.capture("run", counters="unique") as prof:
                prof.step(step)
            one = prof.steps[0]
            print(json.dumps({
                "rows": {row["launch"]: row.get("stands_for", []) for row in one.counters},
                "unique": one.report["unique"],
            }))
            """,
            tmp_path,
        )
    )
    assert result["rows"] == {"0": [2, 5], "1": [4], "3": []}
    unique = result["unique"]
    assert unique["same_work_by"] == "the same kernel, grid, block and shared memory"
    assert (unique["counted"], unique["of"], unique["stood_for"]) == (3, 6, 3)
    assert unique["launches"][0]["times"] == [1.0, 1.0]


def test_permission_and_holder_are_said(tmp_path: Path) -> None:
    body = """
        with opprof.capture("run", counters="all") as prof:
            prof.step(lambda: launch("gemm"))
        """
    denied = run(body, tmp_path, FAKE_CUPTI_DENY="1")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in denied.stderr
    busy = run(body, tmp_path, FAKE_CUPTI_BUSY="1")
    assert "CUPTI is held by 'CUPTI for Kineto'" in busy.stderr


def test_counter_sets_resolve_and_derive() -> None:
    asked = metrics.resolve("roofline,dram__cycles_active.sum")
    default = metrics.resolve("default")
    assert asked.counters[: len(default.counters)] == default.counters
    assert asked.counters[-1] == "dram__cycles_active.sum"
    assert metrics.resolve(["roofline", "dram__cycles_active.sum"]) == asked
    assert not asked.with_local_memory and default.with_local_memory == [
        "l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum"
    ]
    assert asked.made_of == default.made_of
    assert asked.made_of["sm_active_pct"] == ["sm__cycles_active.sum", "sm__cycles_elapsed.max"]
    assert "registers" not in asked.made_of
    assert {name for names in asked.made_of.values() for name in names} == {
        *default.counters,
        *default.with_local_memory,
    }
    with pytest.raises(OpprofError, match="no metric is named\n  sets: default, roofline"):
        metrics.resolve("")

    device = metrics.Device(sm_count=2, warps_per_sm=64)
    raw = {
        "gpu__time_duration.sum": 1000.0,
        "sm__cycles_elapsed.max": 500.0,
        "sm__cycles_active.sum": 800.0,
        "smsp__inst_executed.sum": 1600.0,
        "smsp__thread_inst_executed.sum": math.nan,
    }
    known = {"registers": 32, "local_bytes": 0, "dynamic_shared": None}
    row, short = metrics.derive(device, [(raw, known), (raw, {"duration_ns": 500})])
    assert row["raw"] == {name: value for name, value in raw.items() if not math.isnan(value)}
    assert row["metrics"]["ipc"] == 2.0
    # What a kernel is launched with is whole, and what is counted is not.
    assert json.dumps(row["metrics"]["registers"]) == "32"
    assert json.dumps(row["metrics"]["time_ns"]) == "1000.0"
    assert row["sm_clock_mhz"] == 500.0
    assert row["absent"]["threads_per_warp"] == "smsp__thread_inst_executed.sum was not collected"
    assert row["absent"]["dynamic_shared_bytes"] == "the launch is not in the timeline"
    assert set(row["metrics"]) | set(row["absent"]) == {
        *asked.made_of.keys() - {"sm_active_pct"},
        *("registers", "dynamic_shared_bytes"),
    }
    # A range twice as long as its kernel.
    assert short["metrics"]["time_ns"] == 500.0 and short["sm_clock_mhz"] == 500.0

    step = metrics.derive_step(device, raw, local_bytes=0)
    assert step["metrics"]["sm_active_pct"] == 80.0
    assert step["metrics"]["local_memory_wavefronts"] == 0.0
    assert set(step["metrics"]) | set(step["absent"]) == set(asked.made_of)
    assert metrics.derive(device, []) == []


def test_recorded_counters_say_which_memory_is_busy() -> None:
    """Every kernel of seven programs on an H200, as counter_agreement.py kept them."""
    file = ROOT / "benchmarks" / "results" / "counters-ncu.rows.json.gz"
    programs = json.loads(gzip.decompress(file.read_bytes()))
    raw = [row["values"] for ways in programs.values() for run in ways["step"] for row in run]
    rows = metrics.derive(metrics.Device(132, 64), [(values, {}) for values in raw])
    assert len(rows) == 552
    for values in (row["metrics"] for row in rows):
        parts = [values[f"{memory}_throughput_pct"] for memory in ("dram", "l1", "l2")]
        assert values["memory_throughput_pct"] == max(parts)
    # GPT-2's embedding and first layer norm, and its first product.
    assert [row["metrics"]["l2_throughput_pct"] for row in rows[:2]] == pytest.approx(
        [10.197, 9.958], abs=1e-3
    )


def test_ranges_of_launches() -> None:
    assert _ranges([0, 1, 2, 5, 7, 8]) == [(0, 3), (5, 6), (7, 9)]
    assert _ranges([]) == []


def test_wrong_options_say_what_to_choose() -> None:
    for options, text in (
        ({"counters": "some"}, r"none \| unique \| all \| step"),
        ({"counters": "step", "top": 3}, "the step as a whole: no kernels are chosen"),
        ({"counters": "all,step", "replay": "kernel"}, "repeat the step"),
        ({"replay": "app"}, "'user' or 'kernel'"),
        ({"restore": "some"}, "'changed', 'all' or 'none'"),
        ({"metrics": "rooflin"}, "'rooflin' is neither a set .* near names: roofline"),
        ({"kernels": "("}, "not a regular expression"),
    ):
        with pytest.raises(OpprofError, match=text):
            capture_module.Capture("run", **options)  # type: ignore[arg-type]


def test_an_error_of_the_library_reaches_another_process() -> None:
    """`opprof optimize` profiles in a process of its own, and shows what that one says."""
    error = CaptureError("CUPTI is held", "busy")
    error.remedy = "end the other tool"
    received = pickle.loads(pickle.dumps(error))
    assert (str(received), received.status, received.remedy) == (str(error), "busy", error.remedy)
