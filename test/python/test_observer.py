"""The observer: operators with module and line, backward as forward, steps, faults by line, and programs that end in all ways."""

import json
import os
import re
import struct
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from test_recordings import STRINGS, chunks_of

from opprof.recording import INJECTED
from opprof.run_folder import recorded_file

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("OPPROF_BUILD_DIR", ROOT / "build"))
LIBRARIES = BUILD / "lib"
PROGRAMS = Path(__file__).parent / "observed_programs.py"
#: Chunks of docs/formats/capture.md.
END, OPERATORS = 21, 22
FAULTS = re.findall(r"# ([a-z-]+)$", PROGRAMS.read_text(), re.MULTILINE)

pytestmark = pytest.mark.skipif(
    not (LIBRARIES / f"libopprof_observer-torch-{torch.__version__}.so").is_file()
    or not list(
        LIBRARIES.glob(f"libopprof_frames-*-python-{sys.version_info[0]}.{sys.version_info[1]}.so")
    ),
    reason="the observer is not built for this PyTorch and Python",
)


def environment(**variables: str) -> dict[str, str]:
    """Of a machine without a GPU, with what was built."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "OPPROF_TOOLS_DIR": str(BUILD / "bin"),
        "OPPROF_CAPTURE_LIBRARY": str(LIBRARIES / "libopprof_capture.so"),
        "OPPROF_CUDA_LIBRARY": "/no/such/libcuda.so",
        **variables,
    }


def opprof(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opprof", *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def observe(folder: Path, program: Path, *arguments: object) -> dict[str, Any]:
    """The profile of a program that ends well."""
    done = opprof("run", "-o", folder, program, *arguments)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads((folder / "profile.opprof.json").read_text())
    return result


def observe_processes(folder: Path, program: Path) -> tuple[str, list[dict[str, Any]]]:
    """What is said of a program that ends well, and the profile of each of its processes."""
    done = opprof("run", "-o", folder, program)
    assert done.returncode == 0, done.stderr
    return done.stderr, [json.loads(file.read_text()) for file in folder.glob("profile-*.json")]


def write(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


def line_of(program: Path, text: str) -> str:
    lines = program.read_text().splitlines()
    return f"{program}:{next(n for n, line in enumerate(lines, 1) if text in line)}"


def named(profile: dict[str, Any]) -> dict[str, str]:
    """The findings that are of lines, with their lines."""
    return {f["id"]: f["evidence"]["source"] for f in profile["findings"] if f["id"] in FAULTS}


def test_operators_have_modules_and_lines_and_backward_those_of_forward(tmp_path: Path) -> None:
    profile = observe(tmp_path / "run", PROGRAMS, "clean")
    steady = [k for k in profile["kernels"] if k["phase"] == "steady"]
    products = [k for k in steady if k.get("module") == "Net.layers.1.up"]
    line = line_of(PROGRAMS, "torch.relu(self.up(x))")
    assert {k["part"] for k in products} == {"forward", "backward"}
    assert {k["source"] for k in products} == {line}
    steps = [k for k in steady if k.get("part") == "optimizer"]
    assert {k["module"] for k in steps if k["source"] == line_of(PROGRAMS, "optimizer.step()")} == {
        "AdamW group 0"
    }
    total = sum(k["duration_ns"] for k in steady)
    placed = sum(k["duration_ns"] for k in steady if "source" in k)
    assert placed >= 0.99 * total
    assert profile["summary"]["steps_from"] == "optimizer_steps"
    assert profile["summary"]["steps"] == 12


# A device that the program waits for in each of the ways that it may, one after the other.
WAITS = """
import importlib.util, sys, time, types, torch
spec = importlib.util.spec_from_file_location("observing", sys.argv[1])
observing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(observing)
recorder = observing._Recorder(sys.argv[2], torch)
assert recorder.remark is None, recorder.remark
class Awaited:
    def synchronize(self):
        time.sleep(0.002)
class Event(Awaited): pass
class Stream(Awaited): pass
class Work:
    def wait(self):
        time.sleep(0.002)
C = types.SimpleNamespace(
    _cuda_synchronize=lambda: time.sleep(0.002), _distributed_c10d=types.SimpleNamespace(Work=Work)
)
observing._note_waits(types.SimpleNamespace(_C=C, cuda=types.SimpleNamespace(Event=Event, Stream=Stream)), recorder.observer)
recorder.start(sys.argv[3])
def main():
    torch.ones(2)
    C._cuda_synchronize()  # device
    Event().synchronize()  # event
    Stream().synchronize()  # stream
    Work().wait()  # collective
main()
recorder.stop()
"""


def test_waits_that_no_operator_is_round_are_noted_with_their_lines(tmp_path: Path) -> None:
    program = write(tmp_path, WAITS)
    done = subprocess.run(
        [sys.executable, program, INJECTED / "observing.py", LIBRARIES, tmp_path / "recorded"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("recorded-r*.opcap")
    done = opprof("report", "--json", file)
    profile = json.loads(done.stdout)
    waits = {h["source"]: h for h in profile["host"] if h["kind"] == "wait"}
    lines = {of: line_of(program, f"# {of}") for of in ("device", "event", "stream", "collective")}
    assert set(waits) == set(lines.values())
    assert waits[lines["collective"]]["name"] == "collective wait"
    assert all(wait["time_ns"] >= 2e6 for wait in waits.values()), waits
    # On a CPU no device is waited for; other ranks are.
    (found,) = [f for f in profile["findings"] if f["id"] == "collective-wait"]
    said = f"other ranks, or for what is sent, at {lines['collective']}: "
    assert said in found["text"]
    assert float(found["text"].split(said)[1].split(" ")[0]) >= 2


def test_nothing_is_named_in_a_program_without_faults(tmp_path: Path) -> None:
    assert named(observe(tmp_path / "run", PROGRAMS, "clean")) == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_with_its_line(fault: str, tmp_path: Path) -> None:
    profile = observe(tmp_path / "run", PROGRAMS, fault)
    assert named(profile) == {fault: line_of(PROGRAMS, f"# {fault}")}


def test_backward_of_checkpoints_double_backward_and_functions_of_the_program(
    tmp_path: Path,
) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "from torch.utils.checkpoint import checkpoint\n"
        "class Cube(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.save_for_backward(x)\n"
        "        return x.pow(3)\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        return g.cosh()\n"
        "class Inner(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x.sin()\n"
        "class Outer(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.inner = Inner()\n"
        "    def forward(self, x):\n"
        "        return checkpoint(self.inner, x, use_reentrant=False)\n"
        "class Method(torch.nn.Module):\n"
        "    def compute(self, x):\n"
        "        return torch.asinh((lambda: self)() and x.relu())\n"
        "    def forward(self, x):\n"
        "        return checkpoint(self.compute, x, use_reentrant=False)\n"
        "x = torch.ones(4, requires_grad=True)\n"
        "Cube.apply(x).sum().backward()\n"
        "Outer()(x).sum().backward()\n"
        "y = x.exp()\n"
        "g, = torch.autograd.grad(y.sum(), x, create_graph=True)\n"
        "g.tanh().sum().backward()\n"
        "torch.nn.Sequential(Method())(x).sum().backward()\n",
    )
    profile = observe(tmp_path / "run", program)
    places = {(k["name"], k.get("part")): k for k in profile["kernels"]}
    assert places["aten::cosh", "backward"]["source"] == f"{program}:10"
    # Run again in the backward pass, by the path of the forward one.
    again = places["aten::sin", "backward"]
    assert (again["source"], again["module"]) == (f"{program}:13", "Outer.inner")
    assert places["aten::cos", "backward"]["source"] == f"{program}:13"
    tanh = [k for k in profile["kernels"] if k.get("part") == "backward"]
    assert any(k["source"] == f"{program}:30" and "tanh" in k["name"] for k in tanh)
    # A method that is computed again is its module's, and not that of the function whose backward asked for it.
    again = places["aten::relu", "backward"]
    assert (again["source"], again["module"]) == (f"{program}:22", "Sequential.0")


def test_operators_in_functions_of_the_programs_have_sizes_and_lines(tmp_path: Path) -> None:
    """Of what Inductor compiled too: its own file is nobody's line, and what traces the program is none of its work."""
    program = write(
        tmp_path,
        "import torch\n"
        "class Product(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, a, b):\n"
        "        return a.mm(b)\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        return g, g\n"
        "net = torch.nn.Linear(24, 24)\n"
        "call = torch.compile(net, dynamic=False)\n"
        "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "square = torch.randn(24, 24, requires_grad=True)\n"
        "for step in range(8):\n"
        "    x = torch.randn(24 if step < 5 else 48, 24)\n"
        "    loss = call(x).sum() + Product.apply(square, square).sum()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n",
    )
    profile = observe(tmp_path / "run", program)
    sized = {operator["name"] for operator in profile["operators"] if operator.get("input_dims")}
    assert {"aten::mm", "aten::addmm"} <= sized
    assert {k["source"].rpartition(":")[0] for k in profile["kernels"] if "source" in k} == {
        str(program)
    }
    # The step that compiles for another size is a step like the others, and pays for it.
    assert profile["steps"][5]["phase"] == "steady"
    found = [f["evidence"] for f in profile["findings"] if f["id"] == "recompilation"]
    # The backward pass is compiled when it is first run, which may be worth a finding too.
    assert f"{program}:15" in {evidence["source"] for evidence in found}


def test_what_lies_where_another_one_did_is_not_taken_for_it(tmp_path: Path) -> None:
    """Optimizers one after the other, whose groups reuse addresses, and a module made anew in each round."""
    program = write(
        tmp_path,
        "import torch\n"
        "parameters = [torch.nn.Parameter(torch.randn(8)) for _ in range(4)]\n"
        "def go(kind):\n"
        "    groups = [{'params': parameters[:2]}, {'params': parameters[2:]}]\n"
        "    optimizer = kind(groups, lr=0.1)\n"
        "    for _ in range(5):\n"
        "        for parameter in parameters:\n"
        "            parameter.grad = torch.ones(8)\n"
        "        optimizer.step()\n"
        "for kind in (torch.optim.SGD, torch.optim.RMSprop, torch.optim.SGD):\n"
        "    go(kind)\n"
        "for round in range(3000):\n"
        "    module = torch.nn.ReLU() if round % 2 else torch.nn.Sigmoid()\n"
        "    module(torch.ones(2))\n",
    )
    profile = observe(tmp_path / "run", program)
    kinds: dict[str, set[str]] = {}
    for kernel in profile["kernels"]:
        if kernel.get("range", "").startswith("Optimizer.step#"):
            kinds.setdefault(kernel["range"], set()).add(kernel["module"])
        if kernel["name"] in ("aten::relu", "aten::sigmoid"):
            assert kernel["module"] == {"aten::relu": "ReLU"}.get(kernel["name"], "Sigmoid")
    assert kinds == {
        f"Optimizer.step#{kind}.step": {f"{kind} group 0", f"{kind} group 1"}
        for kind in ("SGD", "RMSprop")
    }


def test_a_program_finds_its_python_as_it_is(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import importlib.util, os, pickle, sys\n"
        "class Old:\n"
        "    def find_module(self, name, path=None):\n"
        "        return None\n"
        "sys.meta_path.insert(0, Old())\n"
        "assert importlib.util.find_spec('torch') is not None\n"
        "sys.meta_path.pop(0)\n"
        "import torch\n"
        "torch.ones(2).exp()\n"
        "assert pickle.loads(pickle.dumps(os._exit)) is os._exit\n"
        "os._exit(5)\n",
    )
    done = opprof("run", "-o", tmp_path / "run", program)
    assert done.returncode == 5, done.stderr
    assert (tmp_path / "run" / "profile.opprof.json").is_file()


def test_the_same_operators_as_torch_profiler_records(tmp_path: Path) -> None:
    """A second run of the program, recorded by PyTorch itself: as many of each operator, of the same sizes."""
    observed = observe(tmp_path / "observed", PROGRAMS, "clean", 3)
    done = opprof(
        *("run", "-o", tmp_path / "profiled", PROGRAMS, "clean", 3),
        OPPROF_OBSERVER_LIBRARIES="/no/such/folder",
    )
    assert done.returncode == 0, done.stderr
    profiled = json.loads((tmp_path / "profiled" / "profile.opprof.json").read_text())
    assert [p["sources"][0]["kind"] for p in (observed, profiled)] == ["opprof observer", "kineto"]

    def counts(profile: dict[str, Any]) -> Counter[tuple[str, str]]:
        sizes = [str(operator.get("input_dims")) for operator in profile["operators"]]
        return Counter((k["name"], sizes[k["operator"]]) for k in profile["kernels"])

    assert counts(observed) == counts(profiled)


def test_ranges_that_end_on_another_thread(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import threading\n"
        "import torch\n"
        "profiler, x = torch.ops.profiler, torch.ones(4)\n"
        "end = profiler._record_function_exit._RecordFunction\n"
        "for _ in range(50):\n"
        "    outer = profiler._record_function_enter_new('outer', None)\n"
        "    inner = profiler._record_function_enter_new('inner', None)\n"
        "    thread = threading.Thread(target=end, args=(inner,))\n"
        "    thread.start(), thread.join()\n"
        "    del inner, thread\n"
        "    y = x + 1\n"
        "    z = y * 2\n"
        "    end(outer)\n"
        "    del outer\n",
    )
    profile = observe(tmp_path / "run", program)
    lines = {
        name: {k["source"].rpartition(":")[2] for k in profile["kernels"] if k["name"] == name}
        for name in ("aten::add", "aten::mul")
    }
    assert lines == {"aten::add": {"11"}, "aten::mul": {"12"}}


def test_other_threads_are_recorded(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import threading, torch\n"
        "def work():\n"
        "    torch.ones(8).exp()\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "thread.join()\n",
    )
    profile = observe(tmp_path / "run", program)
    assert {k["source"] for k in profile["kernels"]} == {f"{program}:3"}


def test_steps_of_a_program_without_an_optimizer_recur(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "net = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(3)))\n"
        "with torch.no_grad():\n"
        "    for _ in range(10):\n"
        "        net(torch.ones(2, 8)).sum()\n",
    )
    summary = observe(tmp_path / "run", program)["summary"]
    assert (summary["steps_from"], summary["steps"]) == ("recurring_operators", 10)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("raise ValueError('of the program')", 1),
        ("import os, signal, time; time.sleep(1.5); os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("sys.exit(7)", 7),
        ("import os; os._exit(4)", 4),
    ],
)
def test_however_a_program_ends_its_operators_are_reported(
    end: str, status: int, tmp_path: Path
) -> None:
    program = write(tmp_path, f"import sys, torch\ntorch.ones(8).exp()\n{end}\n")
    done = opprof("run", "-o", tmp_path / "run", program)
    assert done.returncode == status, done.stderr
    text = (tmp_path / "run" / "report.txt").read_text()
    assert "aten::exp" in text and "program.py:2" in text


def test_what_the_program_of_a_killed_run_does_later_is_in_no_report(tmp_path: Path) -> None:
    folder, going, end, ended = (tmp_path / name for name in ("run", "going", "end", "ended"))
    (tmp_path / "late.py").write_text("import torch\ntorch.ones(8).cos()\n")
    program = tmp_path / "first.py"
    program.write_text(
        "import os, pathlib, subprocess, sys, time, torch\n"
        "going, end, ended, late = map(pathlib.Path, sys.argv[1:])\n"
        "torch.ones(8).exp()\n"
        "going.write_text(f'{os.getpid()}')\n"
        "while not end.exists():\n"
        "    time.sleep(0.05)\n"
        "subprocess.run([sys.executable, late], check=True)\n"
        "ended.touch()\n"
    )
    arguments = (going, end, ended, tmp_path / "late.py")
    command = [sys.executable, "-m", "opprof", "run", "-o", folder, program, *arguments]
    first = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
    while not going.exists() or not going.read_text():
        assert first.poll() is None
        time.sleep(0.05)
    first.kill()
    first.wait()
    # What it has recorded is there until the next run.
    while "aten::exp" not in (shown := opprof("report", folder)).stdout:
        assert "Traceback" not in shown.stderr
        time.sleep(0.2)
    second = write(
        tmp_path,
        "import pathlib, sys, time, torch\n"
        "end, ended = map(pathlib.Path, sys.argv[1:])\n"
        "torch.ones(8).sin()\n"
        "end.touch()\n"
        "while not ended.exists():\n"
        "    time.sleep(0.05)\n",
    )
    done = opprof("run", "-o", folder, second, end, ended)
    assert done.returncode == 0, done.stderr
    assert "was killed: what it recorded until then is removed" in done.stderr
    assert f"`kill {going.read_text()}` ends it" in done.stderr
    profile = json.loads((folder / "profile.opprof.json").read_text())
    names = {kernel["name"] for kernel in profile["kernels"]}
    assert "aten::sin" in names and not names & {"aten::exp", "aten::cos"}
    assert len(list(folder.glob("operators-*"))) == 1
    assert not list(folder.glob("profile-*")) and not list(folder.glob(".*"))


def test_who_waits_for_attach_still_does_after_another_program_of_the_folder(
    tmp_path: Path,
) -> None:
    """The `opprof run --wait` that began a program may be killed, and the next one have the same folder."""
    going, ended = (tmp_path / f"waiting-p{process}" for process in (os.getpid(), 2**30))
    for file in (going, ended):
        file.write_text("{}")
    done = opprof("run", "--wait", "-o", tmp_path, "true")
    assert done.returncode == 0, done.stderr
    assert going.exists() and not ended.exists()


def test_forks_have_files_of_their_own(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import multiprocessing, torch\n"
        "def work():\n"
        "    torch.ones(8).exp()\n"
        "torch.ones(8).sin()\n"
        "for _ in range(2):\n"
        "    child = multiprocessing.get_context('fork').Process(target=work)\n"
        "    child.start()\n"
        "    child.join()\n",
    )
    _, profiles = observe_processes(tmp_path / "run", program)
    sources = [k.get("source") for p in profiles for k in p["kernels"] if k["name"] == "aten::exp"]
    assert sources == [f"{program}:3"] * 2


def test_what_a_program_starts_is_shown_where_that_does_the_work(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "import torch.multiprocessing as mp\n"
        "def train(rank, weight):\n"
        "    for _ in range(100 * rank):\n"
        "        weight.tanh().sin().cos()\n"
        "if __name__ == '__main__':\n"
        "    weight = torch.ones(8).share_memory_()\n"
        "    for rank in (1, 4):\n"
        "        process = mp.get_context('spawn').Process(target=train, args=(rank, weight))\n"
        "        process.start()\n"
        "        process.join()\n",
    )
    said, profiles = observe_processes(tmp_path / "run", program)
    # No process of a folder is its run where others did what it is for.
    assert len(profiles) == 3 and not (tmp_path / "run" / "profile.opprof.json").exists()
    most = max(profiles, key=lambda profile: len(profile["kernels"]))
    process = most["sources"][0]["process"]
    assert f"by opprof observer, process {process}\n" in said
    assert f"\nprocess {process}: " not in said


def test_the_type_of_a_product_is_the_one_that_autocast_casts_to(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "net, x = torch.nn.Linear(8, 8), torch.ones(4, 8)\n"
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "    net(x)\n"
        "    with torch.autocast('cpu', enabled=False):\n"
        "        net(x)\n",
    )
    profile = observe(tmp_path / "run", program)
    types = {
        k["source"].rpartition(":")[2]: k["input_type"]
        for k in profile["kernels"]
        if k["name"] == "aten::linear"
    }
    assert types == {"4": "c10::BFloat16", "6": "float"}


def test_what_a_process_was_before_it_became_another_program_is_kept(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import os, sys, time, torch\n"
        "torch.ones(8).exp()\n"
        "time.sleep(1.5)\n"
        "os.execv(sys.executable, [sys.executable, '-c', 'import torch; torch.ones(8).sin()'])\n",
    )
    done = opprof("run", "-o", tmp_path / "run", program)
    assert done.returncode == 0, done.stderr
    (before,) = (tmp_path / "run").glob("profile-*e1.opprof.json")
    names = [
        {kernel["name"] for kernel in json.loads(path.read_text())["kernels"]}
        for path in (before, tmp_path / "run" / "profile.opprof.json")
    ]
    assert "aten::exp" in names[0] and "aten::sin" in names[1]
    assert "before its exec 1" in done.stderr


def test_workers_of_a_data_loader_are_summed_in_a_line(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "class Rows(torch.utils.data.Dataset):\n"
        "    def __len__(self):\n"
        "        return 8\n"
        "    def __getitem__(self, index):\n"
        "        return torch.ones(8) * index\n"
        "for rows in torch.utils.data.DataLoader(Rows(), 4, num_workers=2):\n"
        "    rows.exp()\n",
    )
    done = opprof("run", "-o", tmp_path / "run", program)
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "run" / "profile.opprof.json").read_text())
    assert "aten::exp" in {k["name"] for k in profile["kernels"]}
    assert not list((tmp_path / "run").glob("profile-*.json"))
    line = re.search(r"2 workers of data loaders ran (\d+) operators", done.stderr)
    assert line and int(line[1]) >= 16, done.stderr
    assert len(list((tmp_path / "run").glob("operators-*.opcap"))) == 3


def test_the_programs_own_profiler_runs_beside_the_observer(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "torch.ones(8).exp()\n"
        "with torch.profiler.profile() as own:\n"
        "    torch.ones(8).tanh()\n"
        "print([event.name for event in own.events()])\n",
    )
    done = opprof("run", "-o", tmp_path / "run", program)
    assert done.returncode == 0 and "aten::tanh" in done.stdout, done.stderr
    text = (tmp_path / "run" / "report.txt").read_text()
    assert "aten::exp" in text and "aten::tanh" in text


#: How a program of ranks ends. PyTorch's own thread of gloo drops what it has of Python after the last reduction; where Python
#: ends within that moment, it aborts the process, observed or not.
LAST_OF_RANKS = "time.sleep(0.2)\ndist.destroy_process_group()\n"


def in_two_ranks(tmp_path: Path, *lines: str) -> Path:
    """The run folder of these lines in two processes of torchrun."""
    program = write(
        tmp_path,
        "import time, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n" + "".join(lines) + LAST_OF_RANKS,
    )
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", program)
    done = opprof("run", "-o", tmp_path / "run", "--", sys.executable, *command)
    assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def test_torchrun_leaves_a_report_of_each_rank(tmp_path: Path) -> None:
    folder = in_two_ranks(tmp_path, "x = torch.ones(8)\n", "dist.all_reduce(x)\n")
    profiles = sorted(f.name[:11] for f in folder.glob("profile-*.json"))
    assert profiles == ["profile-r0-", "profile-r1-"]


def test_operators_beside_a_collective_that_runs_are_no_part_of_it(tmp_path: Path) -> None:
    """What a collective marks ends on a thread of the backend's, when the slowest rank has come."""
    folder = in_two_ranks(
        tmp_path,
        "for _ in range(20):\n",
        "    time.sleep(0.05 * dist.get_rank())\n",
        "    work = dist.all_reduce(torch.ones(8), async_op=True)\n",
        "    torch.ones(8).exp()\n",
        "    work.wait()\n",
    )
    (file,) = folder.glob("profile-r0-*.json")
    names = [kernel["name"] for kernel in json.loads(file.read_text())["kernels"]]
    assert names.count("aten::exp") == 20


def test_the_wait_at_the_end_of_a_backward_pass_has_its_line(tmp_path: Path) -> None:
    """The reducer of DistributedDataParallel waits by itself, and no operator or call of Python is round that."""
    folder = in_two_ranks(
        tmp_path,
        "net = torch.nn.Linear(64, 64)\n",
        "net = torch.nn.parallel.DistributedDataParallel(net)\n",
        "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n",
        "for _ in range(12):\n",
        "    time.sleep(0.04 * dist.get_rank())\n",
        "    loss = net(torch.ones(8, 64)).sum()\n",
        "    optimizer.zero_grad()\n",
        "    loss.backward()  # waits\n",
        "    optimizer.step()\n",
    )
    (file,) = folder.glob("profile-r0-*.json")
    profile = json.loads(file.read_text())
    line = line_of(tmp_path / "program.py", "# waits")
    (found,) = (f for f in profile["findings"] if f["id"] == "collective-wait")
    assert found["evidence"]["source"] == line
    assert found["severity_ns_per_step"] > 20e6
    # What it waits for is no code of the program's own.
    assert not [f for f in profile["findings"] if f["id"] == "host-code"]


def test_a_program_that_waits_is_recorded_several_times_from_outside(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import pathlib, sys, threading, torch\n"
        "def work():\n"
        "    torch.ones(8).exp()\n"
        "end = pathlib.Path(sys.argv[1])\n"
        "while not end.exists():\n"
        "    work()\n"
        "    threading.Event().wait(0.002)\n"
        "assert len(threading.enumerate()) == 1\n"
        "sys.exit(3)\n",
    )
    control = tmp_path / "control"
    with ThreadPoolExecutor() as pool:
        run = pool.submit(opprof, "run", "--wait", "-o", control, program, tmp_path / "end")
        try:
            while not (waiting := list(control.glob("waiting-p*"))):
                assert not run.done(), run.result().stderr
                time.sleep(0.1)
            process = waiting[0].name.partition("-p")[2]
            # What another user could write is no request.
            foreign = tmp_path / "request"
            foreign.write_text(json.dumps({"number": "1", "folder": str(tmp_path), "seconds": 9}))
            foreign.chmod(0o666)
            request = foreign.rename(control / f"attach-p{process}")
            time.sleep(1.2)
            assert not (control / f"attached-p{process}").exists()
            request.unlink()
            for folder in (tmp_path / "one", tmp_path / "two"):
                done = opprof("attach", process, "-o", folder, "--seconds", 0.5)
                assert done.returncode == 0, done.stderr
                profile = json.loads((folder / "profile.opprof.json").read_text())
                sources = {k["source"] for k in profile["kernels"] if k["name"] == "aten::exp"}
                assert sources == {f"{program}:3"}
                answer = json.loads((control / f"attached-p{process}").read_text())
                assert answer["error"] is None
        finally:
            (tmp_path / "end").touch()
        assert run.result().returncode == 3, run.result().stderr
    assert not control.exists()
    done = opprof("attach", process, "-o", tmp_path / "three")
    assert f"there is no process {process}" in done.stderr


def test_what_cannot_be_attached_to_is_said(tmp_path: Path) -> None:
    for process, what in ((os.getpid(), "was not started to be recorded"), (1, "another user's")):
        if process == 1 and os.stat("/proc/1").st_uid == os.geteuid():
            continue
        done = opprof("attach", process, "-o", tmp_path / "run")
        assert done.returncode and what in done.stderr, done.stderr


# Has the observer record what threads do that are about to end, round after round, while others run operators all the time.
RECORDINGS = """
import ctypes, importlib.util, os, sys, threading, torch
spec = importlib.util.spec_from_file_location("observing", sys.argv[1])
observing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(observing)
recorder = observing._Recorder(sys.argv[2], torch)
ended = False
def run():
    while not ended:
        torch.ones(2)
def work(together):
    for _ in range(10):
        torch.ones(2).exp()
    together.wait()
others = [threading.Thread(target=run) for _ in range(2)]
for thread in others:
    thread.start()
for round in range(40):
    recorder.start(f"{sys.argv[3]}/{round}")
    together = threading.Barrier(25)
    threads = [threading.Thread(target=work, args=(together,)) for _ in range(24)]
    for thread in threads:
        thread.start()
    together.wait()
    recorder.stop()
    for thread in threads:
        thread.join()
ended = True
for thread in others:
    thread.join()
"""


def test_recordings_that_begin_and_end_among_threads_lose_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RECORDINGS, INJECTED / "observing.py", LIBRARIES, tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for round_ in range(40):
        (file,) = tmp_path.glob(f"{round_}-r*.opcap")
        chunks = list(chunks_of(file.read_bytes()))
        names = {}
        for kind, payload, _ in chunks:
            at = 0
            while kind == STRINGS and at < len(payload):
                number, size = struct.unpack_from("<II", payload, at)
                names[number] = payload[at + 8 : at + 8 + size]
                at += 8 + size
        ran = Counter(
            names[struct.unpack_from("<I", payload, at + 40)[0]]
            for kind, payload, record in chunks
            if kind == OPERATORS
            for at in range(0, len(payload), record)
        )
        assert ran[b"aten::exp"] == 240
        assert [kind for kind, _, _ in chunks].count(END) == 1


@pytest.mark.parametrize("rank", ["", "3"])
def test_files_are_found_by_the_rule_that_they_are_named_by(rank: str) -> None:
    """What C++ and Python say is in FileWriter.h and run_folder.py."""
    program = (
        "import ctypes, os, sys, torch\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "library.opprof_observer_file.restype = ctypes.c_char_p\n"
        "print(library.opprof_observer_file(b'/run/operators').decode(), os.getpid())\n"
    )
    library = LIBRARIES / f"libopprof_observer-torch-{torch.__version__}.so"
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    done = subprocess.run(
        [sys.executable, "-c", program, library],
        env=environment | ({"RANK": rank} if rank else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    path, process = done.stdout.split()
    found = recorded_file(Path(path))
    assert found.path == Path("/run") / f"operators-r{rank}-p{process}.opcap"
    assert (found.kind, found.rank, found.process) == (
        "operators",
        int(rank) if rank else None,
        process,
    )
    assert found.name == f"-r{rank}-p{process}"
    assert recorded_file(Path("mine.opcap")).process == ""


def test_optimizers_without_another_form_are_not_named_and_foreign_ones_once(
    tmp_path: Path,
) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "class Own(torch.optim.Optimizer):\n"
        "    def __init__(self, parameters):\n"
        "        super().__init__(parameters, {})\n"
        "    def step(self):\n"
        "        with torch.no_grad():\n"
        "            for group in self.param_groups:\n"
        "                for parameter in group['params']:\n"
        "                    update = parameter.grad.sign()\n"
        "                    update = update.mul(0.1).exp().log()\n"
        "                    parameter.sub_(update)\n"
        "layers = [torch.nn.Linear(8, 8) for _ in range(8)]\n"
        "net, other = torch.nn.Sequential(*layers), torch.nn.Linear(8, 8)\n"
        "own, second = Own(net.parameters()), torch.optim.LBFGS(other.parameters(), max_iter=4)\n"
        "def closure():\n"
        "    second.zero_grad()\n"
        "    loss = other(torch.ones(2, 8)).square().sum()\n"
        "    loss.backward()\n"
        "    return loss\n"
        "for _ in range(6):\n"
        "    own.zero_grad()\n"
        "    net(torch.ones(2, 8)).sum().backward()\n"
        "    own.step()\n"
        "    second.step(closure)\n",
    )
    profile = observe(tmp_path / "run", program)
    (found,) = (f for f in profile["findings"] if f["id"] == "optimizer-loop")
    assert found["evidence"]["source"] in {f"{program}:{line}" for line in (9, 10, 11)}
    assert found["evidence"]["calls_per_step"] == 16 * 5
    # It takes no fused=True.
    assert "torch._foreach_" in found["text"]


def test_what_runs_inside_of_a_step_and_is_not_the_optimizers(tmp_path: Path) -> None:
    """Lightning and LBFGS give a step the function that runs the model; one of the program's own is a step all the same."""
    program = write(
        tmp_path,
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.up = torch.nn.Linear(64, 256)\n"
        "    def forward(self, x):\n"
        "        return torch.relu(self.up(x))\n"
        "def logged(function):\n"
        "    return lambda *arguments: function(*arguments)\n"
        "class Own(torch.optim.SGD):\n"
        "    @logged\n"
        "    def step(self, closure):\n"
        "        with torch.enable_grad():\n"
        "            loss = closure()\n"
        "        for parameter in self.param_groups[0]['params']:\n"
        "            parameter.data.mul_(0.5)\n"
        "        return loss\n"
        "first, second = Net(), Net()\n"
        "sgd = torch.optim.SGD(first.parameters(), 0.1, foreach=True)\n"
        "own = Own(second.parameters(), 0.1)\n"
        "def closure(net, optimizer):\n"
        "    optimizer.zero_grad()\n"
        "    loss = net(torch.ones(32, 64)).square().mean()\n"
        "    loss.backward()\n"
        "    return loss\n"
        "for _ in range(6):\n"
        "    sgd.step(lambda: closure(first, sgd))\n"
        "    own.step(lambda: closure(second, own))\n",
    )
    profile = observe(tmp_path / "run", program)
    steady = [k for k in profile["kernels"] if k["phase"] == "steady"]

    def parts(line: str) -> set[tuple[str, str]]:
        source = line_of(program, line)
        return {
            (k.get("part", ""), k.get("module", "")) for k in steady if k.get("source") == source
        }

    assert parts("torch.relu(self.up(x))") == {
        (part, module)
        for part in ("forward", "backward")
        for module in ("Net", "Net.up", "Net#2", "Net#2.up")
    }
    assert parts("parameter.data.mul_(0.5)") == {("optimizer", "Own")}
    # The loss is in no module, as it is outside of a step, where the step is of PyTorch's.
    assert parts("loss = net(") >= {("backward", ""), ("", "")}
    of_sgd = {k.get("module") for k in steady if k.get("part") == "optimizer"}
    assert of_sgd == {"SGD group 0", "Own"}
    assert not [f for f in profile["findings"] if f["id"] == "optimizer-loop"]


def test_outermost_modules_of_one_class_are_told_apart(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import copy, torch\n"
        "learns = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())\n"
        "target = copy.deepcopy(learns)\n"
        "sgd = torch.optim.SGD(learns.parameters(), 0.1)\n"
        "for _ in range(6):\n"
        "    sgd.zero_grad()\n"
        "    with torch.no_grad():\n"
        "        wanted = target(torch.ones(32, 64))\n"
        "    torch.nn.MSELoss()(learns(torch.ones(32, 64)), wanted).backward()\n"
        "    sgd.step()\n",
    )
    profile = observe(tmp_path / "run", program)
    modules = {k.get("module", "") for k in profile["kernels"] if k["phase"] == "steady"}
    assert {"Sequential.0", "Sequential#2.0", "MSELoss"} <= modules
    # What is made anew for each step has one name.
    assert not [name for name in modules if name.startswith("MSELoss#")]
    forward = {
        k["module"]
        for k in profile["kernels"]
        if k.get("source") == line_of(program, "wanted = target") and "module" in k
    }
    assert forward == {"Sequential.0", "Sequential.1"}


def test_a_module_that_several_wrap_has_one_name(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())\n"
        "wrapped = [torch.compile(net, backend='eager') for _ in range(2)]\n"
        "for _ in range(6):\n"
        "    for each in (net, *wrapped):\n"
        "        each(torch.ones(32, 64)).sum().backward()\n",
    )
    profile = observe(tmp_path / "run", program)
    modules = {k.get("module", "") for k in profile["kernels"] if k["phase"] == "steady"}
    assert {"Sequential.0", "Sequential.1"} <= modules
    assert not [name for name in modules if "#" in name], modules


def test_what_follows_the_last_step_of_the_programs_profiler_is_none(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "schedule = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1)\n"
        "with torch.profiler.profile(schedule=schedule) as profiler:\n"
        "    for _ in range(8):\n"
        "        torch.ones(4).exp().sum()\n"
        "        profiler.step()\n",
    )
    summary = observe(tmp_path / "run", program)["summary"]
    assert (summary["steps_from"], summary["steps"]) == ("profiler_step", 8)


def test_the_programs_own_code_is_no_finding_where_it_is_short_or_rare(tmp_path: Path) -> None:
    """A pause of every fifth step is not what a step costs; nor is what backward or a library of PyTorch's does."""
    program = write(
        tmp_path,
        "import time, torch\n"
        "class Slow(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        return x.clone()\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        return g.clone()\n"
        "net = torch.nn.Linear(256, 256)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(20):\n"
        "    if step % 5 == 0:\n"
        "        time.sleep(0.02)\n"
        "    loss = Slow.apply(net(torch.ones(256, 256))).sum()\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n",
    )
    profile = observe(tmp_path / "run", program)
    assert [f for f in profile["findings"] if f["id"] == "host-code"] == []


def test_a_convolution_has_its_work(tmp_path: Path) -> None:
    """What it gives depends on its stride and dilation, which are no sizes of tensors."""
    program = write(
        tmp_path,
        "import torch\n"
        "from torch.nn import functional as F\n"
        "x, w, narrow = torch.ones(2, 4, 16, 16), torch.ones(8, 4, 3, 3), torch.ones(8, 2, 3, 3)\n"
        "even = torch.ones(8, 4, 4, 4)\n"
        "for _ in range(6):\n"
        "    F.conv2d(x, w, stride=2, padding=1)\n"
        "    F.conv2d(x, w, dilation=2)\n"
        "    F.conv2d(x, narrow, groups=2)\n"
        "    F.conv2d(x, even, padding='same', dilation=3)\n"
        "    F.conv2d(x, even, padding='valid', stride=3)\n",
    )
    profile = observe(tmp_path / "run", program)
    convolutions = [o for o in profile["operators"] if o["name"] == "aten::conv2d"]
    # Two for each of the elements, of as many products as the filter has.
    elements = {
        2 * 8 * 8 * 8 * 36,
        2 * 8 * 12 * 12 * 36,
        2 * 8 * 14 * 14 * 18,
        2 * 8 * 16 * 16 * 64,
        2 * 8 * 5 * 5 * 64,
    }
    assert {o["flops"] for o in convolutions} == {2 * count for count in elements}


WORKER = """
import queue, sys, threading, time, torch
tasks, done = queue.Queue(), queue.Queue()
def prepare(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
@torch.no_grad()
def work():
    while (task := tasks.get()) is not None:
        if sys.argv[1] == "busy":
            prepare(0.01)
        hidden = torch.mm(task, task)
        for _ in range(4):
            hidden = torch.relu(torch.mm(hidden, task))
        if sys.argv[1] == "both":
            prepare(0.001)
        done.put(hidden.sum())
worker = threading.Thread(target=work)
worker.start()
for _ in range(24):
    tasks.put(torch.ones(64, 64))
    done.get()
    if sys.argv[1] != "busy":
        time.sleep(0.02)
tasks.put(None)
worker.join()
"""


@pytest.mark.parametrize("state", ["waits", "both", "busy"])
def test_a_worker_that_waits_for_requests_is_no_code_of_the_program(
    state: str, tmp_path: Path
) -> None:
    """It does not have the processor meanwhile; one that prepares its input has.

    Some of them do both for each request.
    """
    program = write(tmp_path, WORKER)
    profile = observe(tmp_path / "run", program, state)
    codes = [h for h in profile["host"] if h["kind"] == "program"]
    waits = [h for h in profile["host"] if h.get("name") == "work wait"]
    first = line_of(program, "hidden = torch.mm(task, task)")
    # Of a busy machine's few pauses some may be neither.
    if state != "busy":
        assert sum(h["calls"] for h in waits if h["source"] == first) >= 12
        assert not [h for h in codes if h["source"] == first]
    else:
        assert [h for h in codes if h["source"] == first]
        assert sum(h["calls"] for h in waits if h["source"] == first) <= 6
