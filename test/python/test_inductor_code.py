"""Inductor's code as this PyTorch writes it for a CPU: read in full, every launch found in a trace of the same program."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from torch._export.serde import serialize
from torch.utils import _dtype_abbrs as dtype_abbrs

from opprof.tools import run_tool

PROGRAM = """
import sys
import torch
import torch.nn.functional as F

torch._inductor.config.cpp.enable_kernel_profile = True
torch._inductor.config.force_disable_caches = True


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 32)

    def forward(self, p, x):
        y = x + self.down(F.gelu(self.up(self.norm(x))))
        return torch.cond(p.sum() > 0, lambda y: torch.sin(y) + 1, lambda y: torch.relu(y), (y,))


torch.manual_seed(0)
model = torch.compile(Model().eval(), fullgraph=True)
inputs = torch.ones(3), torch.randn(4, 32)
with torch.no_grad():
    model(*inputs)
    with torch.profiler.profile() as profile:
        model(*inputs)
profile.export_chrome_trace(sys.argv[1])
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    environment = {**os.environ, "TORCH_COMPILE_DEBUG": "1", "INDUCTOR_PROVENANCE": "1"}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "trace.json")],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
        timeout=600,
    )
    (code,) = folder.rglob("output_code.py")
    return code


def launches(code: Path) -> dict[str, Any]:
    command = ["opprof-translate", "--inductor-launches", str(code)]
    tools = os.environ.get("OPPROF_TOOLS_DIR")
    if tools:
        command[0] = str(Path(tools) / command[0])
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout)


def test_everything_is_understood(compiled: Path) -> None:
    graph = launches(compiled)
    assert graph["statements"]["kept_as_text"] == 0, graph["statements"]
    assert all(launch["nodes"] for launch in graph["launches"])
    assert not [n for n in graph["not_launched"] if n["reason"] == "unrecorded"]
    assert {launch["kind"] for launch in graph["launches"]} == {"cpp", "extern"}
    assert {launch["function"] for launch in graph["launches"]} == {
        "call",
        "true_graph_0",
        "false_graph_0",
    }
    assert all(launch["bytes_written"] > 0 for launch in graph["launches"])


def test_launches_are_those_of_the_trace(compiled: Path) -> None:
    graph = launches(compiled)
    taken = [
        launch["kernel"]
        for launch in graph["launches"]
        if launch["kind"] == "cpp" and launch["function"] != "false_graph_0"
    ]
    trace = json.loads(
        next(
            compiled.parents[i] / "trace.json"
            for i in range(8)
            if (compiled.parents[i] / "trace.json").exists()
        ).read_text()
    )
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and "cpp_fused" in e["name"]]
    names = [e["name"] for e in sorted(events, key=lambda e: e["ts"])]
    assert len(names) == len(taken)
    for name, kernel in zip(names, taken, strict=True):
        assert name.endswith(kernel), (names, taken)


def test_nodes_are_within_the_records(compiled: Path) -> None:
    records = json.loads(
        (compiled.parent / "inductor_provenance_tracking_node_mappings.json").read_text()
    )["cppCodeToPost"]
    graph = launches(compiled)
    checked = 0
    for launch in graph["launches"]:
        names = records.get(f"{launch['kernel']}:{launch.get('debug_handle')}")
        if names is None:
            continue
        checked += 1
        assert {node["name"] for node in launch["nodes"]} <= set(names)
    assert checked == len(graph["launches"])


def test_every_dtype_of_printed_graphs(tmp_path: Path) -> None:
    """Names and sizes of dtypes, against PyTorch's own."""
    dtypes = [
        dtype for dtype in dtype_abbrs.dtype_abbrs if dtype in serialize._TORCH_TO_SERIALIZE_DTYPE
    ]
    assert len(dtypes) == len(serialize._TORCH_TO_SERIALIZE_DTYPE)
    names = [str(dtype).removeprefix("torch.") for dtype in dtypes]
    types = [f'"{dtype_abbrs.dtype_abbrs[dtype]}[3]"' for dtype in dtypes]
    lines = ["class M(torch.nn.Module):"]
    inputs = ", ".join(f"x_{name}: {kind}" for name, kind in zip(names, types, strict=True))
    lines.append(f"    def forward(self, {inputs}):")
    for name, kind in zip(names, types, strict=True):
        lines.append(f"        y_{name}: {kind} = torch.ops.aten.clone.default(x_{name})")
    lines.append(f"        return ({', '.join(f'y_{name}' for name in names)},)")
    printed = tmp_path / "graph.py"
    printed.write_text("\n".join(lines) + "\n")
    mlir = tmp_path / "graph.mlir"
    run_tool("opprof-translate", ["--import-fx-readable", printed, "-o", mlir])
    document = json.loads(run_tool("opprof-translate", ["--export-fx-json", mlir]))
    (graph,) = document["graphs"]
    for node, name in zip(graph["nodes"], names, strict=True):
        assert document["types"][node["type"]]["tensor"]["dtype"] == name
    launches = json.loads(run_tool("opprof-translate", ["--export-operator-launches", mlir]))
    for launch, dtype in zip(launches["launches"], dtypes, strict=True):
        assert launch["bytes_read"] == 3 * dtype.itemsize


def test_a_sum_of_all_is_spelled_out_on_a_gpu_alone() -> None:
    """A recorded program's sum of three numbers to one: for a CPU Inductor makes a loop of it, which test_launch_oracle.py has."""
    code = Path(__file__).parents[1] / "Target" / "InductorCode" / "Inputs" / "cond"
    document = run_tool("opprof-translate", ["--inductor-launches", code / "output_code.py"])
    first = json.loads(document)["launches"][0]
    assert {node["name"]: node["confidence"] for node in first["nodes"]} == {
        "sum_1": "high",
        "gt": "high",
    }
