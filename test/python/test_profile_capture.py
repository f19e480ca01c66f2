"""`opprof profile` on a machine with a GPU, played by a CUPTI and a driver that need none (unittests/Capture/FakeCupti.cpp).

The model's operators launch kernels of the fake CUPTI, so that Inductor's wrapper, the exported graph and a CUDA graph launch
what the capture sees.
"""

import gzip
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from test_capture import ROOT, run

torch = pytest.importorskip("torch")

MODEL = """
import ctypes, os, torch

fake = ctypes.CDLL(os.environ["OPPROF_CUPTI_LIBRARY"])
NAMES = {"gemm": ctypes.c_char_p(b"gemm"), "norm": ctypes.c_char_p(b"norm"), "embed": ctypes.c_char_p(b"embed")}
RUNS = [0]


def operator(name):
    @torch.library.custom_op(f"played::{name}", mutates_args=())
    def run(x: torch.Tensor) -> torch.Tensor:
        fake.fake_launch(NAMES[name], 4, 128)
        RUNS[0] += 1
        if os.environ.get("FAILS_AT") == str(RUNS[0]):
            raise torch.OutOfMemoryError("the user's own")
        return x + 1

    run.register_fake(lambda x: torch.empty_like(x))
    return run


embed, norm, gemm = operator("embed"), operator("norm"), operator("gemm")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        return gemm(norm(x) * self.scale).relu() + gemm(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.h = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        x = embed(x)
        for block in self.h:
            x = block(x)
        return x


def get_model_and_input():
    return Model().eval(), torch.ones(2, 8)
"""

PLAYED = """
import opprof
from opprof.commands import profile, program
from opprof.recording import capture, library
from opprof.errors import OpprofError
from opprof.commands.profile import ProfileOptions, profile_script
from pathlib import Path
profile.why_no_capture = lambda script: None
# One step, so that tests can say after how many launches the program fails.
capture.WARM_UP_SECONDS = 0.0

fake.fake_graph.restype = ctypes.c_uint64
def into_cuda_graph(step):
    # The nodes come into being under the ids that the step's launches carry.
    launched = []
    import model
    real = model.fake
    class Capturing:
        def fake_launch(self, name, grid, block):
            launched.append((name, fake.fake_graph()))
    model.fake = Capturing()
    try:
        result = step()
    finally:
        model.fake = real
    names = (ctypes.c_char_p * len(launched))(*(name for name, _ in launched))
    nodes = (ctypes.c_uint64 * len(launched))(*(node for _, node in launched))
    count = len(launched) - int(os.environ.get("GRAPH_LACKS", "0"))
    def replay():
        fake.fake_graph_replay(names, nodes, count)
        return result
    return replay
profile.into_cuda_graph = into_cuda_graph

def profiled(**options):
    return profile_script("model.py", Path("run"), ProfileOptions(
        warm_up=1, traced=3, timed=3, timed_seconds=0.2, eager=False, **options))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def played(body: str, folder: Path, **environment: str) -> Any:
    done = run(PLAYED + textwrap.dedent(body), folder, **environment)
    return done


def profile_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run" / "profile.opprof.json").read_text())


def run_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run" / "run.json").read_text())


def check_counters(folder: Path) -> dict[str, Any]:
    """The counted step, after the file was held against its schema."""
    file = folder / "run" / "counters.json"
    formats = ROOT / "docs" / "formats"
    checked = subprocess.run(
        [
            sys.executable,
            ROOT / "test/docs/check_schema.py",
            formats / "counters.schema.json",
            file,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "0 failed" in checked.stdout, checked.stdout + checked.stderr
    (step,) = json.loads(file.read_text())["steps"]
    return step


def check_timeline(folder: Path) -> dict[str, Any]:
    """Three steps of ten kernels, each joined to what launched it."""
    profile = profile_of(folder)
    steady = [k for k in profile["kernels"] if k.get("step") is not None]
    assert [s["phase"] for s in profile["steps"]] == ["steady", "steady", "steady"]
    assert len(steady) == 30 == len(profile["kernels"])
    (before,) = (
        n for n in profile["notes"] if "kernels, copies and sets before the first step" in n
    )
    assert before.startswith("10 kernels")
    assert {k["links"]["launch"] for k in profile["kernels"]} == {"high"}
    assert {k["confidence"] for k in profile["kernels"]} <= {"high", "medium"}
    assert {k["method"] for k in profile["kernels"]} == {"identity"}
    names = [k["name"] for k in steady[:10]]
    assert names[0] == "embed" and names.count("gemm") == 6 and names.count("norm") == 3
    assert run_of(folder)["timeline"]["by"] == "opprof capture"
    trace = json.loads(gzip.decompress((folder / "run" / "trace.json.gz").read_bytes()))
    assert sum(e.get("cat") == "kernel" for e in trace["traceEvents"]) == 40
    return profile


def test_inductor(folder: Path) -> None:
    done = played("profiled()", folder)
    assert done.returncode == 0, done.stderr
    profile = check_timeline(folder)
    assert {k["compiled_graph"] for k in profile["kernels"]} == set(
        run_of(folder)["compiled_graphs"]
    )
    counters = run_of(folder)["counters"]
    # One block of three is counted, and the embedding.
    assert counters["mode"] == "unique" and counters["unique"]["counted"] == 4
    assert counters["unique"]["stood_for"] == 6
    assert all("metrics" in k for k in profile["kernels"])
    blocks = {k.get("metrics_from") for k in profile["kernels"]}
    assert None in blocks and len(blocks) == 4
    assert {n["inferred_from"] for n in profile["nodes"] if n["metrics"]} == {
        None,
        "norm",
        "gemm",
        "gemm_1",
    }
    assert "speed-of-light" in {f["id"] for f in profile["findings"]}


def test_eager(folder: Path) -> None:
    done = played('profiled(mode="eager", counters="all", metrics="default")', folder)
    assert done.returncode == 0, done.stderr
    profile = check_timeline(folder)
    assert profile["kernels"][0]["nodes"] == ["embed"]
    assert all("metrics" in k for k in profile["kernels"])
    nodes = {node["name"]: node for node in profile["nodes"]}
    assert nodes["norm"]["module"] == "h.0" and nodes["embed"]["module"] == ""
    assert "model.py" in nodes["gemm_5"]["source"]
    assert nodes["gemm_5"]["metrics"] and nodes["gemm_5"]["inferred_from"] is None
    launches = {launch["kernel"] for launch in profile["launches"]}
    assert "played.gemm.default" in launches
    assert run_of(folder)["compiled_graphs"] == []
    counters = check_counters(folder)
    assert len(counters["counters"]) == 10
    # The names of CUPTI stay where they are, but for those that no value is made of.
    assert not any("__" in name for kernel in profile["kernels"] for name in kernel["metrics"])
    assert [launch["node"] for launch in counters["launches"]][:2] == ["embed", "norm"]


def test_unique_partitions_of_a_graph_that_runs_node_by_node(folder: Path) -> None:
    done = played('profiled(mode="eager")', folder)
    assert done.returncode == 0, done.stderr
    assert run_of(folder)["counters"]["unique"]["counted"] == 4
    step = check_counters(folder)
    rows = {row["launch"]: row.get("stands_for") for row in step["counters"]}
    assert rows == {0: None, 1: [4, 7], 2: [5, 8], 3: [6, 9]}


def test_a_cuda_graph(folder: Path) -> None:
    done = played('profiled(mode="cudagraphs")', folder)
    assert done.returncode == 0, done.stderr
    check_timeline(folder)
    counters = run_of(folder)["counters"]
    assert counters["graph"]["joined"] == counters["graph"]["kernels"] == 10
    step = check_counters(folder)
    assert {row["inferred"] for row in step["counters"]} == {"outside of the CUDA graph"}
    profile = profile_of(folder)
    assert all(k["metrics_from"].endswith("outside of the CUDA graph") for k in profile["kernels"])
    assert all(n["inferred_from"] for n in profile["nodes"] if n["metrics"])


def test_counters_of_the_whole_step_beside_its_kernels(folder: Path) -> None:
    done = played('profiled(mode="eager", counters="all,step")', folder)
    assert done.returncode == 0, done.stderr
    assert "taking counters of every kernel and the whole step" in done.stderr
    step = check_counters(folder)
    whole = profile_of(folder)["step_counters"]
    assert whole["metrics"]["dram_read_bytes"] == step["whole"]["metrics"]["dram_read_bytes"] > 0
    kernels = whole["kernels"]
    assert kernels["summed"] == kernels["counted"] == 10
    assert (
        kernels["metrics"]["dram_read_bytes"]
        == sum(row["metrics"]["dram_read_bytes"] for row in step["counters"])
        == whole["metrics"]["dram_read_bytes"]
    )
    assert not {"time_ns", "l2_hit_pct"} & kernels["metrics"].keys()
    counters = run_of(folder)["counters"]
    assert counters["mode"] == "all,step" and counters["whole"]["passes"] == counters["passes"] == 1
    text = (folder / "run" / "report.txt").read_text()
    assert "Counters of the whole step" in text and "sum of 10 kernels" in text
    assert " 0.0 %" in text


def test_counters_of_a_whole_cuda_graph(folder: Path) -> None:
    # Of kernels that the graph lacks no counters can be joined; the range needs none.
    done = played('profiled(mode="cudagraphs", counters="step")', folder, GRAPH_LACKS="1")
    assert done.returncode == 0, done.stderr
    step = check_counters(folder)
    assert step["counters"] == [] and step["whole"]["metrics"]["instructions"] > 0
    assert [launch["cuda_graph"] for launch in step["launches"]] == [True]
    whole = profile_of(folder)["step_counters"]
    assert "kernels" not in whole and "sm_active_pct" in whole["metrics"]
    assert "in one range" in (folder / "run" / "report.txt").read_text()


def test_a_cuda_graph_of_other_kernels(folder: Path) -> None:
    done = played('profiled(mode="cudagraphs")', folder, GRAPH_LACKS="1")
    assert done.returncode == 0, done.stderr
    left_out = run_of(folder)["counters"]["left_out"]
    assert "kernel 9 of the graph is at its end after 9" in left_out
    assert "gemm grid (4, 1, 1)" in left_out
    assert profile_of(folder)["kernels"]


def test_which_kernels_are_counted(folder: Path) -> None:
    done = played(
        'profiled(mode="eager", counters="all", kernels="gemm|norm", top=1, launch_skip=1, launch_count=2)',
        folder,
    )
    assert done.returncode == 0, done.stderr
    step = check_counters(folder)
    assert [row["kernel"] for row in step["counters"]] == ["gemm", "gemm"]
    assert [row["launch"] for row in step["counters"]] == [3, 5]


def test_kernels_are_chosen_by_the_names_of_their_source(tmp_path: Path) -> None:
    done = run(
        """
        NAMES["mangled"] = b"_ZN2at6native4reluILi4EEEvPf"
        def step():
            launch("gemm"); launch("mangled")
        with opprof.capture("run", counters="all", kernels="at::native::relu<4>") as prof:
            prof.step(step)
        import gzip
        events = json.load(gzip.open("run/trace.json.gz"))["traceEvents"]
        print(json.dumps({
            "counted": [row["kernel"] for row in prof.steps[0].counters],
            "traced": [e["name"] for e in events if e.get("cat") == "kernel"],
        }))
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "counted": ["_ZN2at6native4reluILi4EEEvPf"],
        "traced": ["gemm", "void at::native::relu<4>(float*)"],
    }


def test_counters_that_fail_leave_the_timeline(folder: Path) -> None:
    # One step compiles, four time, four are captured; the recorded step and the pass of the counters follow.
    done = played(
        'profiled(mode="eager", counters="all")',
        folder,
        FAILS_AT=str(10 * (1 + 1 + 3 + 1 + 3) + 15),
    )
    assert done.returncode == 0, done.stderr
    assert "OutOfMemoryError: the user's own" in run_of(folder)["counters"]["left_out"]
    check_timeline(folder)
    denied = played('profiled(mode="eager", counters="all")', folder, FAKE_CUPTI_DENY="1")
    assert denied.returncode == 0, denied.stderr
    assert "NVreg_RestrictProfilingToAdminUsers=0" in denied.stderr
    check_timeline(folder)


def test_what_was_captured_until_the_program_failed_is_kept(folder: Path) -> None:
    """It fails in the middle of the second of three steps; the failure is the program's own."""
    done = played(
        """
        try:
            profiled(mode="eager")
        except OpprofError as error:
            print(type(error.__cause__).__name__)
        """,
        folder,
        FAILS_AT=str(10 * (1 + 1 + 3 + 1 + 1) + 5),
    )
    assert done.stdout.strip() == "OutOfMemoryError", done.stderr
    profile = profile_of(folder)
    assert len(profile["kernels"]) == 15
    assert "model.py:15: the model fails while it is captured" in run_of(folder)["ended"]
    assert not (folder / "run" / "counters.json").exists()
    assert (folder / "run" / "trace.json.gz").is_file()


def test_a_held_cupti_leaves_torch_profiler(folder: Path) -> None:
    done = played('profiled(mode="eager")', folder, FAKE_CUPTI_BUSY="1")
    assert done.returncode == 0, done.stderr
    assert "held by 'CUPTI for Kineto'" in run_of(folder)["timeline"]["reason"]
    assert run_of(folder)["timeline"]["by"] == "torch.profiler"
    assert not (folder / "run" / "capture.opcap").exists()


def test_a_mode_that_there_is_not_is_said(folder: Path) -> None:
    done = played('profiled(mode="cudagraph")', folder)
    assert "--mode=cudagraph: no such mode or backend; near names: cudagraphs" in done.stderr
    done = played('profiled(mode="none.py")', folder)
    assert "none.py: no such file" in done.stderr


def test_another_backend(folder: Path) -> None:
    done = played('profiled(mode="aot_eager", counters="none")', folder)
    assert done.returncode == 0, done.stderr
    assert "cannot be joined to nodes" in done.stderr
    assert {k["confidence"] for k in profile_of(folder)["kernels"]} == {"unattributed"}
    (folder / "backend.py").write_text(
        textwrap.dedent(
            """
            from torch._dynamo import register_backend
            from torch._inductor.compile_fx import compile_fx
            BACKEND_NAME = "of_a_file"
            register_backend(lambda module, inputs: compile_fx(module, inputs), name=BACKEND_NAME)
            """
        )
    )
    done = played('profiled(mode="backend.py", counters="none")', folder)
    assert done.returncode == 0, done.stderr
    check_timeline(folder)


def test_unique_launches_of_a_compiled_model_without_a_run_folder(folder: Path) -> None:
    done = played(
        """
        import model
        module, x = model.get_model_and_input()
        fast = torch.compile(module)
        with torch.no_grad():
            fast(x)
            with opprof.capture("out", counters="unique") as prof:
                prof.step(lambda: fast(x))
        one = prof.steps[0]
        print(json.dumps({
            "by": one.report["unique"]["same_work_by"],
            "stood_for": one.report["unique"]["stood_for"],
            "lines": all("line" in launch for launch in one.launches),
        }))
        """,
        folder,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert "by the launch map" in result["by"]
    assert result["stood_for"] == 7 and result["lines"]


def test_a_step_that_compiles_says_so(folder: Path) -> None:
    done = played(
        """
        import model
        module, x = model.get_model_and_input()
        fast = torch.compile(module)
        module(x)
        with torch.no_grad():
            try:
                with opprof.capture("out", counters="all") as prof:
                    prof.step(lambda: (launch("gemm") if not capture._wrappers_loaded() else None, fast(x)))
            except library.CaptureError as error:
                print(json.dumps({"error": str(error), "remedy": error.remedy}))
        """,
        folder,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])
    assert "launch 0 was gemm" in result["error"]
    assert "run it once before" in result["remedy"]
