"""From a model to its report, and the same from the files of the first run where there is no PyTorch."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from opprof.commands.cli import main
from opprof.run_folder import RunFolder

MODEL = """
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(32)
            self.layer = torch.nn.Linear(32, 32)

        def forward(self, x):
            return x + torch.nn.functional.gelu(self.layer(self.norm(x)))


    class Blocks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x


    def get_model_and_input():
        torch.manual_seed(0)
        return Blocks().eval(), torch.randn(16, 32)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run folder of a small model with three equal blocks."""
    directory = tmp_path_factory.mktemp("chain")
    script = directory / "blocks.py"
    script.write_text("import torch\n\n\n" + textwrap.dedent(MODEL))
    output = directory / "run"
    arguments = ["profile", str(script), "-o", str(output), "--iters", "2", "--warmup", "1"]
    assert main(arguments) == 0
    return RunFolder(output)


def load(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text())


def test_every_file_is_there(run: RunFolder) -> None:
    files = [run.run, run.graph_json, run.graph, run.partitions, run.trace]
    files += [run.profile, run.report_text, run.report_html]
    files += [code / "launches.json" for code in run.compiled_graphs()]
    assert all(file.stat().st_size > 0 for file in files)


def test_the_blocks_are_one_class(run: RunFolder) -> None:
    partitions = load(run.partitions)
    assert (partitions["graph"], partitions["stage"]) == ("blocks", "export")
    (blocks,) = (c for c in partitions["classes"] if c["parent"] is None)
    assert [p["role"] for p in blocks["partitions"]] == ["unique", "duplicate", "duplicate"]
    assert blocks["node_count"] == 4


def test_every_kernel_leads_to_exported_nodes(run: RunFolder) -> None:
    profile = load(run.profile)
    summary = profile["summary"]
    assert summary["steps"] == 2
    assert summary["kernels"] == len(profile["kernels"])
    assert summary["attributed_ns"]["high"] == summary["kernel_time_ns"]
    exported = {node["name"] for node in load(run.graph_json)["graphs"][0]["nodes"]}
    named = [set(kernel["nodes"]) for kernel in profile["kernels"]]
    assert all(nodes and nodes <= exported for nodes in named)
    assert set().union(*named) == exported
    lines = {node["source"].rpartition(":")[0] for node in profile["nodes"]}
    assert {Path(line).name for line in lines} == {"blocks.py"}


def test_report(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run.path), "--width", "100"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("blocks on ")
    assert all(len(line) <= 100 for line in page.splitlines())
    assert main(["report", str(run.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == load(run.profile)


def test_launches(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launches", str(run.path), "--json"]) == 0
    (printed,) = json.loads(capsys.readouterr().out)
    (code,) = run.compiled_graphs()
    assert printed["launches"] == load(code / "launches.json")["launches"]
    assert main(["launches", str(run.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    launches = [line for line in lines if line.split()[0].isdecimal()]
    assert [int(line.split()[0]) for line in launches] == list(range(len(printed["launches"])))
    assert all("blocks.py" in line for line in launches)


def test_the_same_from_files_without_pytorch(run: RunFolder, tmp_path: Path) -> None:
    """The second process can't import PyTorch, and works on copies, so that it has nothing but the files."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "torch.py").write_text("raise ImportError('PyTorch was imported')\n")
    for code in run.compiled_graphs():
        shutil.copytree(code, tmp_path / "code" / code.name)
        (tmp_path / "code" / code.name / "launches.json").unlink()
    package = str(Path(sys.modules["opprof"].__file__ or "").parents[1])
    command = [sys.executable, "-m", "opprof", "profile", "-o", str(tmp_path / "again")]
    command += ["--graph", str(run.graph_json), "--code", str(tmp_path / "code")]
    command += ["--trace", str(run.trace)]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{package}"}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    again, first = load(RunFolder(tmp_path / "again").profile), load(run.profile)
    # A folder that is filled anew has none, and neither has a CPU that was busy.
    if run.ceilings.exists():
        command = [sys.executable, "-m", "opprof", "report", str(tmp_path / "again"), "--json"]
        command += ["--ceilings", str(run.ceilings)]
        again = json.loads(
            subprocess.run(command, env=environment, check=True, capture_output=True).stdout
        )
    assert again["kernels"] == first["kernels"]
    assert again["nodes"] == first["nodes"]


def test_a_broken_trace_is_named_and_leaves_no_profile(
    run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": [{"ph": "X", ')
    arguments = ["profile", "-o", str(tmp_path / "run"), "--trace", str(trace)]
    arguments += ["--graph", str(run.graph_json), "--code", str(run.path)]
    assert main(arguments) == 1
    assert "trace.json" in capsys.readouterr().err
    assert not RunFolder(tmp_path / "run").profile.exists()
