"""Memory by module and line: against what torch.profiler counts, and against sizes that programs of known allocations have."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from test_observer import LIBRARIES, PROGRAMS, ROOT, environment, line_of, opprof, write

torch = pytest.importorskip("torch")
jsonschema = pytest.importorskip("jsonschema")

pytestmark = pytest.mark.skipif(
    not (LIBRARIES / f"libopprof_observer-torch-{torch.__version__}.so").is_file(),
    reason="the observer is not built for this PyTorch",
)

Memory = dict[str, Any]


def remembered(folder: Path, program: Path, *options: str, device: str = "cpu") -> Memory:
    """What the run of a program says of a device's memory."""
    done = opprof("run", "--memory", "-o", folder, *options, program)
    assert done.returncode == 0, done.stderr
    return of_device(json.loads((folder / "profile.opprof.json").read_text()), device)


def of_device(profile: dict[str, Any], device: str) -> Memory:
    [memory] = [entry for entry in profile["tensor_memory"] if entry["device"] == device]
    result: Memory = memory
    return result


def steady(folder: Path) -> int:
    """How many steps the sums are of."""
    profile = json.loads((folder / "profile.opprof.json").read_text())
    return sum(step["phase"] == "steady" for step in profile["steps"])


def at(memory: Memory, source: str, key: str) -> int:
    return sum(site[key] for site in memory["sites"] if site.get("source") == source)


PROFILED = """
import sys, torch
sys.argv = sys.argv[2:]
profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
with profile:
    exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"), {"__name__": "__main__"})
profile.export_chrome_trace(sys.argv[0] + ".json")
"""


@pytest.mark.parametrize("fault", ["clean", "attention-by-hand"])
def test_the_peak_and_the_sum_are_those_of_torch_profiler(fault: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    text = PROGRAMS.read_text().replace("sys.argv[1] if len(sys.argv) > 1 else", f"{fault!r} or")
    # Its workers of loading are the program's own thread.
    program.write_text(text.replace("sys.argv[2]) if len(sys.argv) > 2 else", "7) or"))
    subprocess.run(
        [sys.executable, "-c", PROFILED, "-", program], check=True, stdout=subprocess.DEVNULL
    )
    trace = json.loads((tmp_path / "program.py.json").read_text())
    events = [e for e in trace["traceEvents"] if e.get("name") == "[memory]"]
    events.sort(key=lambda event: event["ts"])
    held = peak = taken = count = 0
    for event in events:
        size = event["args"]["Bytes"]
        held += size
        peak = max(peak, held)
        taken += max(size, 0)
        count += size > 0
    memory = remembered(tmp_path / "run", program)
    assert memory["peak_bytes"] == peak
    assert memory["allocations"] == count
    assert sum(site["peak_bytes"] for site in memory["sites"]) == peak


def test_what_a_program_knows_of_its_own_sizes(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import threading, torch\n"
        "torch.set_num_threads(1)\n"
        "kept, other = [], []\n"
        "weights = torch.empty(1_000_000)  # weights\n"
        "storage = torch.empty(1000, dtype=torch.uint8).untyped_storage()  # storage\n"
        "storage.resize_(70_000)  # resized\n"
        "def step():\n"
        "    big = torch.empty(500_000)  # big\n"
        "    kept.append(torch.empty(100, dtype=torch.uint8))  # kept\n"
        "    other.append(torch.empty(10_000, dtype=torch.uint8))  # other\n"
        "    thread = threading.Thread(target=other.clear)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "    del big\n"
        "optimizer = torch.optim.SGD([torch.nn.Parameter(weights)])\n"
        "for _ in range(16):\n"
        "    step()\n"
        "    optimizer.step()\n",
    )
    memory = remembered(tmp_path / "run", program)
    line = {
        name: line_of(program, f"# {name}")
        for name in ("weights", "storage", "resized", "big", "kept", "other")
    }
    assert at(memory, line["weights"], "peak_bytes") == 4_000_000
    # What was resized is another block, and the first one is gone.
    assert at(memory, line["storage"], "peak_bytes") == 0
    assert at(memory, line["resized"], "peak_bytes") == 70_000
    assert at(memory, line["big"], "peak_bytes") == 2_000_000
    # The last step has the peak, before the other thread frees.
    assert at(memory, line["kept"], "peak_bytes") == 1_600
    assert at(memory, line["other"], "peak_bytes") == 10_000
    assert memory["peak_bytes"] == 4_000_000 + 70_000 + 2_000_000 + 1_600 + 10_000
    steps = steady(tmp_path / "run")
    assert steps >= 6
    assert at(memory, line["big"], "bytes") == at(memory, line["big"], "churn_bytes")
    assert at(memory, line["big"], "bytes") == 2_000_000 * steps
    assert at(memory, line["other"], "churn_bytes") == 10_000 * steps
    assert at(memory, line["kept"], "churn_bytes") == 0
    assert at(memory, line["kept"], "growth_bytes_per_step") == 100
    assert memory["growth_bytes_per_step"] == 100
    assert max(memory["held_bytes"]) == memory["peak_bytes"]
    assert memory["held_bytes"][-1] >= memory["end_bytes"]


@pytest.mark.parametrize("kept", ["loss", "loss.item()"])
def test_losses_that_keep_what_they_were_computed_from(kept: str, tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "torch.set_num_threads(1)\n"
        "net = torch.nn.Linear(64, 64)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "losses = []\n"
        "for _ in range(20):\n"
        "    x = torch.randn(50, 64)\n"
        "    features = net(x).sigmoid()  # kept\n"
        "    loss = features.mean()\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward(retain_graph=True)\n"
        "    optimizer.step()\n"
        f"    losses.append({kept})\n",
    )
    done = opprof("run", "--memory", "-o", tmp_path / "run", program)
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "run" / "profile.opprof.json").read_text())
    found = [f["evidence"] for f in profile["findings"] if f["id"] == "memory-growth"]
    if kept == "loss.item()":
        assert not found
        return
    [evidence] = found
    # What a sigmoid saves is its result.
    size = 50 * 64 * 4
    assert evidence["device"] == "cpu"
    assert evidence["bytes_per_step"] == size
    assert evidence["source"] in (line_of(program, "torch.randn"), line_of(program, "# kept"))
    # The input and the loss of each step besides.
    assert evidence["all_bytes_per_step"] == 2 * size + 4


def test_activations_that_another_threads_backward_frees(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import threading, torch\n"
        "x = torch.ones(1000, requires_grad=True)  # leaf\n"
        "optimizer = torch.optim.SGD([x])\n"
        "for _ in range(12):\n"
        "    loss = x.exp().sum()  # saved\n"
        "    thread = threading.Thread(target=loss.backward)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "    del loss\n"
        "    optimizer.step()\n",
    )
    memory = remembered(tmp_path / "run", program)
    saved = [
        site
        for site in memory["sites"]
        if site.get("source") == line_of(program, "# saved") and site["operator"] == "aten::exp"
    ]
    assert [s["part"] for s in saved] == ["forward"]
    assert saved[0]["bytes"] == saved[0]["churn_bytes"] == 4_000 * saved[0]["calls"] > 0
    # The leaf and its gradient are left, which is of the same line in the backward pass.
    back = [site for site in memory["sites"] if site.get("part") == "backward"]
    assert {site["source"] for site in back} == {line_of(program, "# saved")}
    assert memory["end_bytes"] == 4_000 + 4_000
    assert at(memory, line_of(program, "# leaf"), "peak_bytes") == 4_000


def test_a_window_of_steps_knows_what_was_held_before(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "torch.set_num_threads(1)\n"
        "net = torch.nn.Linear(300, 200)  # weights\n"
        "optimizer = torch.optim.Adam(net.parameters(), foreach=False)\n"
        "for _ in range(12):\n"
        "    optimizer.zero_grad()\n"
        "    net(torch.ones(50, 300)).sum().backward()\n"
        "    optimizer.step()  # state\n",
    )
    whole = remembered(tmp_path / "whole", program)
    part = remembered(tmp_path / "part", program, "--steps=6:10")
    assert part["peak_bytes"] == whole["peak_bytes"]
    assert at(part, line_of(program, "# weights"), "peak_bytes") == 4 * (300 * 200 + 200)
    states = [site for site in part["sites"] if site.get("source") == line_of(program, "# state")]
    assert sum(site["peak_bytes"] for site in states) == at(
        whole, line_of(program, "# state"), "peak_bytes"
    )
    assert part["unknown_frees"] == part["earlier_bytes"] == 0
    assert part["allocations"] < whole["allocations"]


def test_a_program_that_waits_is_asked_for_its_memory(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import time, torch\n"
        "held = torch.empty(1_000_000)  # held\n"
        "while True:\n"
        "    held[:1000].exp()  # taken\n"
        # Each is a record, which is read and reported.
        "    time.sleep(0.001)\n",
    )
    control = tmp_path / "control"
    waiting = subprocess.Popen(
        [sys.executable, "-m", "opprof", "run", "--wait", "--memory", "-o", control, program],
        env=environment(),
    )
    try:
        while not (names := [f.name for f in control.glob("waiting-p*[0-9]")]):
            assert waiting.poll() is None
            time.sleep(0.1)
        process = names[0].partition("-p")[2]
        done = opprof("attach", process, "-o", tmp_path / "run", "--seconds", 1)
    finally:
        waiting.terminate()
        waiting.wait(20)
    assert done.returncode == 0, done.stderr
    memory = of_device(json.loads((tmp_path / "run" / "profile.opprof.json").read_text()), "cpu")
    assert at(memory, line_of(program, "# held"), "peak_bytes") == 4_000_000
    assert at(memory, line_of(program, "# taken"), "calls") > 10
    assert memory["unknown_frees"] == 0
    assert memory["peak_bytes"] < 4_100_000


REPORTER = """
#include <cstddef>
#include <cstdint>
namespace c10 {
enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
struct Device { DeviceType type; int8_t index; };
void reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, Device);
}
extern "C" void report(size_t address, int64_t bytes, size_t held) {
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void *>(address), bytes, held, held, {c10::DeviceType::CUDA, 3});
}
"""


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_a_devices_allocator_is_heard_through_its_reports(binding: str, tmp_path: Path) -> None:
    source, library = tmp_path / "reporter.cpp", tmp_path / "libreporter.so"
    source.write_text(REPORTER)
    c10 = Path(torch.__file__).parent / "lib" / "libc10.so"
    subprocess.run(
        ["g++", "-shared", "-fPIC", f"-Wl,-z,{binding}", "-Wl,-z,relro", source, c10, "-Wl,-rpath," + str(c10.parent),
         "-o", library],
        check=True,
    )  # fmt: skip
    program = write(
        tmp_path,
        "import ctypes\n"
        f"library = ctypes.CDLL({str(library)!r})\n"
        "import torch\n"
        "def report(address, bytes, held):\n"
        "    library.report(ctypes.c_size_t(address), ctypes.c_int64(bytes), ctypes.c_size_t(held))\n"
        "class Like(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        report(0x1000, 600, 5600)\n"
        "        return x + 1\n"
        "torch.ones(3)\n"
        "with torch.profiler.record_function('mine'):  # mine\n"
        "    report(0x1000, 512, 5512)\n"
        "    report(0x2000, 1024, 6536)\n"
        "report(0x7000, -3000, 3536)\n"
        "report(0x1000, -512, 3024)\n",
    )
    memory = remembered(tmp_path / "run", program, device="cuda:3")
    assert memory["peak_bytes"] == 6536
    assert memory["earlier_bytes"] == 5000
    assert memory["end_bytes"] == 3024
    assert memory["allocations"] == 2
    assert at(memory, line_of(program, "# mine"), "peak_bytes") == 1536


def test_a_program_that_profiles_its_own_memory_gets_the_same(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "from torch.profiler import ProfilerActivity\n"
        "with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile:\n"
        "    torch.ones(1000).exp()\n"
        "print(sum(e.self_cpu_memory_usage for e in profile.events() if e.self_cpu_memory_usage > 0))\n",
    )
    alone = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=True
    ).stdout
    done = opprof("run", "--memory", "-o", tmp_path / "run", program)
    assert done.stdout == alone != "0\n"


def test_forks_free_what_they_inherit(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import os, torch\n"
        "torch.set_num_threads(1)\n"
        "held = torch.empty(1000)\n"
        "if os.fork() == 0:\n"
        "    del held\n"
        "    torch.empty(500)\n"
        "    held = torch.empty(200)  # own\n"
        "    os._exit(0)\n"
        "os.wait()\n",
    )
    done = opprof("run", "--memory", "-o", tmp_path / "run", program)
    assert done.returncode == 0, done.stderr
    peaks = []
    for file in (tmp_path / "run").glob("operators-*.opcap"):
        report = opprof("report", file, "--json")
        peaks.append(of_device(json.loads(report.stdout), "cpu")["peak_bytes"])
    assert sorted(peaks) == [2000, 4000]


def test_without_the_flag_nothing_of_memory_is_recorded(tmp_path: Path) -> None:
    program = write(tmp_path, "import torch\ntorch.ones(10).exp()\n")
    assert opprof("run", "-o", tmp_path / "run", program).returncode == 0
    assert "tensor_memory" not in json.loads((tmp_path / "run/profile.opprof.json").read_text())


def test_the_report_the_page_and_the_rows(tmp_path: Path) -> None:
    import opprof as package

    program = write(
        tmp_path,
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x.exp()  # held\n"
        "results = [Net()(torch.ones(1000)) for _ in range(4)]\n",
    )
    done = opprof("run", "--memory", "-o", tmp_path / "run", program)
    assert "Memory of tensors on cpu" in done.stderr
    assert "tensors on cpu held at most 20.0 kB" in done.stderr
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<h2>Memory of tensors on cpu" in page and 'class="held"' in page
    schema = json.loads((ROOT / "docs" / "formats" / "profile.schema.json").read_text())
    jsonschema.validate(json.loads((tmp_path / "run/profile.opprof.json").read_text()), schema)
    rows = package.load(tmp_path / "run").memory.sort("peak_bytes")
    assert (rows[0].operator, rows[0].module, rows[0].peak_bytes, rows[0].peak_blocks) == (
        "aten::exp",
        "Net",
        16_000,
        4,
    )
