"""Does with one version of PyTorch what a user does, on the CPU, and notes what came of it: what works with which version.

    python benchmarks/torch_versions.py --record benchmarks/results/torch-versions.jsonl    with the PyTorch of this Python
    python benchmarks/torch_versions.py --table benchmarks/results/torch-versions.jsonl     the table of docs/torch-versions.md

`.ci/wheel VERSION…` runs it in an environment of each version. `opprof` is that of this Python; what is linked to LibTorch is looked for in
$OPPROF_TOOLS_DIR, and where it is not there, the checks that need it are left out and noted as such. The observer is built at first use.
The exit status is 1 where a check fails. Counts are noted beside, as a version on which less has its module or line fails nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ("mlp_activations", "conv_block", "lstm_sequence_encoder", "sdpa_attention")
OWN = ("small_cnn", "small_transformer", "small_lstm")
CHECKS: dict[str, Callable[[Path], dict[str, Any]]] = {}


class FailedError(Exception):
    """What a command said that failed."""


class LeftOutError(Exception):
    """Why a check cannot be made."""


def check(function: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    CHECKS[function.__name__.replace("_", " ")] = function
    return function


def said(*command: object, seconds: int = 900) -> str:
    """What a command printed."""
    words = [str(word) for word in command]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"{' '.join(words)}: not done after {seconds} s") from error
    if ran.returncode:
        what = f"{ran.stderr.strip()[-1500:]}\n{ran.stdout.strip()[-500:]}"
        raise FailedError(f"{' '.join(words)}: exit status {ran.returncode}\n{what}")
    return ran.stdout


def opprof(*arguments: object) -> str:
    return said(sys.executable, "-m", "opprof", *arguments)


def tool(name: str) -> str:
    from opprof.errors import OpprofError
    from opprof.tools import find_tool

    try:
        return find_tool(name)
    except OpprofError as error:
        raise LeftOutError(str(error)) from error


def script(name: str) -> Path:
    folder = ROOT / ("examples" if name in EXAMPLES else "benchmarks/models")
    return folder / f"{name}.py"


def share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def nodes_of(graph: Path) -> list[dict[str, Any]]:
    """What a graph in a file of JSON computes."""
    return [
        node
        for of in json.loads(graph.read_text())["graphs"]
        for node in of["nodes"]
        if node["op"] not in ("placeholder", "output", "get_attr")
    ]


@check
def versions(work: Path) -> dict[str, Any]:
    return {"said": " ".join(opprof("--version").split())}


@check
def export(work: Path) -> dict[str, Any]:
    """Graphs of all models: how many of their nodes have a line and a module's path, and repeats; operators that no schema is known of."""
    facts: dict[str, Any] = {}
    for name in (*EXAMPLES, *OWN):
        graph = work / f"{name}.json"
        opprof("export", script(name), "-o", graph, "--weights", work / f"{name}.safetensors")
        nodes = nodes_of(graph)
        module = said(tool("opprof-translate"), "--import-fx-json", graph)
        (work / f"{name}.mlir").write_text(module)
        said(
            tool("opprof-opt"),
            "--dedup-partitions",
            f"--partition-map={work / name}.map.json",
            work / f"{name}.mlir",
        )
        classes = json.loads((work / f"{name}.map.json").read_text())["classes"]
        facts[name] = {
            "nodes": len(nodes),
            "with line": sum("stack" in node for node in nodes),
            "with module": sum("modules" in node for node in nodes),
            "repeats": sum(len(of["partitions"]) for of in classes),
        }
    return facts


RUN_EMITTED = """
import importlib.util, sys, torch
def load(path):
    spec = importlib.util.spec_from_file_location("loaded", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
for script, program, weights in zip(*[iter(sys.argv[1:])] * 3):
    model, given = load(script).get_model_and_input()
    given = given if isinstance(given, tuple) else (given,)
    # With gradients, as MultiheadAttention takes another way without them that torch.export does not.
    expected, got = model(*given), load(program).load(weights)(*given)
    assert torch.equal(expected, got), f"{script}: {(expected - got).abs().max()}"
"""


@check
def emit_python(work: Path) -> dict[str, Any]:
    """Graphs as Python programs, which give the bits of the models."""
    given: list[Path] = []
    for name in (*EXAMPLES, *OWN):
        program = work / f"{name}_program.py"
        program.write_text(said(tool("opprof-translate"), "--emit-python", work / f"{name}.mlir"))
        given += [script(name), program, work / f"{name}.safetensors"]
    said(sys.executable, "-c", RUN_EMITTED, *given)
    return {"same bits": len(EXAMPLES) + len(OWN)}


def launches_of(run: Path) -> dict[str, Any]:
    """What the maps of a run's launches know."""
    launches: list[dict[str, Any]] = []
    unread = 0
    for file in sorted(run.glob("*/launches.json")):
        document = json.loads(file.read_text())
        launches += document["launches"]
        unread += document["statements"]["kept_as_text"]
    nodes = [node for launch in launches for node in launch["nodes"]]
    return {
        "launches": len(launches),
        "without nodes": sum(not launch["nodes"] for launch in launches),
        "at high": share(sum(node["confidence"] == "high" for node in nodes), len(nodes)),
        "with line": share(sum("source" in node for node in nodes), len(nodes)),
        "by provenance": share(sum("provenance" in node["evidence"] for node in nodes), len(nodes)),
        "statements unread": unread,
    }


def profile_of(run: Path) -> dict[str, Any]:
    """What of a profile's time is attributed, and has its line and module."""
    profile = json.loads(opprof("report", run, "--json"))
    summary = profile["summary"]
    time_ns = summary["kernel_time_ns"]
    nodes = profile["nodes"]
    named = {node["name"]: node for node in nodes}
    sure = sum(kernel["confidence"] == "high" for kernel in profile["kernels"])
    return {
        "kernels": summary["kernels"],
        "kernels at high": share(sure, len(profile["kernels"])),
        **{
            level: share(of, time_ns)
            for level, of in summary["attributed_ns"].items()
            if of or level == "high"
        },
        "of time with line": share(
            sum(
                kernel["duration_ns"]
                for kernel in profile["kernels"]
                if kernel.get("source")
                or any(named.get(str(node), {}).get("source") for node in kernel["nodes"])
            ),
            sum(kernel["duration_ns"] for kernel in profile["kernels"]),
        ),
        "steps from": summary.get("steps_from"),
    }


def profiled(work: Path, name: str, *options: str) -> dict[str, Any]:
    run = work / f"run-{name}{''.join(options)}"
    opprof("profile", script(name), "-o", run, *options)
    return {**launches_of(run), **profile_of(run)}


@check
def profile_cnn(work: Path) -> dict[str, Any]:
    return profiled(work, "small_cnn")


@check
def profile_transformer(work: Path) -> dict[str, Any]:
    return profiled(work, "small_transformer")


@check
def profile_lstm(work: Path) -> dict[str, Any]:
    return profiled(work, "small_lstm")


@check
def profile_uncompiled(work: Path) -> dict[str, Any]:
    return profiled(work, "small_transformer", "--mode=eager")


TRAINED = """
import torch
from torch import nn

class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x).square().mean()

def get_model_and_input():
    torch.manual_seed(0)
    return Loss().train(), torch.randn(8, 16)

def make_step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()

    return step
"""


def trained(work: Path) -> Path:
    model = work / "small_training.py"
    model.write_text(TRAINED)
    return model


@check
def profile_training(work: Path) -> dict[str, Any]:
    """A step of it: forward and backward are graphs of their own."""
    opprof("profile", trained(work), "-o", work / "run-training")
    return {**launches_of(work / "run-training"), **profile_of(work / "run-training")}


@check
def export_stages(work: Path) -> dict[str, Any]:
    """What torch.compile makes of a model, at each stage that export knows."""
    facts = {}
    for stage in ("dynamo", "aot_joint", "aot_forward", "aot_backward", "post_grad"):
        graph = work / f"{stage}.json"
        opprof("export", trained(work), "--stage", stage, "-o", graph)
        nodes = nodes_of(graph)
        facts[stage] = {"nodes": len(nodes), "with line": sum("stack" in node for node in nodes)}
    return facts


@check
def launches_prove(work: Path) -> dict[str, Any]:
    """Launches of the profiles that were made, by values."""
    facts: dict[str, Any] = {
        name: " ".join(opprof("launches", work / f"run-{name}", "--prove").split())[-160:]
        for name in OWN
        if (work / f"run-{name}").is_dir()
    }
    if not facts:
        raise LeftOutError("no profile was made")
    return facts


@check
def optimize(work: Path) -> dict[str, Any]:
    out = work / "optimized"
    opprof("optimize", script("small_transformer"), "-o", out, "--budget-seconds", "60")
    outcome = json.loads((out / "optimize.json").read_text())
    return {"wins": bool(list(out.glob("*_optimized.py"))), "torch": outcome["torch"]}


@check
def emit_and_validate(work: Path) -> dict[str, Any]:
    """A backend of all rules that apply, and its own test."""
    rewrites, backend = work / "rewrites", work / "small_transformer_optimized.py"
    opprof("recommend", work / "run-small_transformer", "-o", rewrites)
    kept = len(json.loads((rewrites / "rewrites.json").read_text())["rewrites"])
    opprof("emit", rewrites, "-o", backend)
    validation = [sys.executable, "-m", "opprof", "validate", str(backend)]
    verdicts = subprocess.run(validation, capture_output=True, text=True, check=False)
    lines = [line.split(maxsplit=2) for line in verdicts.stdout.splitlines()]
    right = sum(line[:1] == ["ok"] for line in lines)
    # How fast it is on a machine with other work is no question of versions.
    wrong = [line for line in lines if line[:1] == ["FAILED"] and line[1:2] != ["gain"]]
    if wrong or not right:
        raise FailedError(f"opprof validate: {verdicts.stdout[-1000:]}\n{verdicts.stderr[-500:]}")
    return {"rewrites": kept, "checks right": right}


TRAIN = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for _ in range(8):
    loss = net(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@check
def run_unmodified(work: Path) -> dict[str, Any]:
    train = work / "train.py"
    train.write_text(TRAIN)
    opprof("run", "-o", work / "unmodified", "--", sys.executable, train)
    run = json.loads((work / "unmodified" / "run.json").read_text())
    if not list((work / "unmodified").glob("*.opcap")):
        raise LeftOutError(f"without the observer: {run.get('timeline')}")
    profile = json.loads(opprof("report", work / "unmodified", "--json"))
    kernels = [kernel for kernel in profile["kernels"] if kernel["phase"] == "steady"]
    steady = sum(step["phase"] == "steady" for step in profile["steps"])
    return {
        "steps": profile["summary"]["steps"],
        "steps from": profile["summary"].get("steps_from"),
        "operators of a step": len(kernels) // max(steady, 1),
        **{
            f"with {what}": share(sum(what in kernel for kernel in kernels), len(kernels))
            for what in ("source", "module", "part")
        },
    }


@check
def run_graph(work: Path) -> dict[str, Any]:
    """A step of an unmodified program as a graph."""
    opprof("run", "--graph", "-o", work / "graph", "--", sys.executable, work / "train.py")
    return profile_of(work / "graph")


ARCHIVE = """
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("loaded", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
model, given = module.get_model_and_input()
if sys.argv[3] == "trace":
    # Its check runs without gradients, where MultiheadAttention takes another way.
    torch.jit.trace(model, given, check_trace=False).save(sys.argv[2])
else:
    torch.jit.script(model).save(sys.argv[2])
"""
SIZES = {"small_cnn": "2x3x34x34xf32", "small_transformer": "2x32xi64", "small_lstm": "2x6x24xf32"}


@check
def torchscript(work: Path) -> dict[str, Any]:
    tool("opprof-torchscript")
    facts: dict[str, Any] = {}
    for name in OWN:
        for how in ("trace", "script"):
            archive = work / f"{name}-{how}.pt"
            graph = archive.with_suffix(".graph.json")
            said(sys.executable, "-c", ARCHIVE, script(name), archive, how)
            opprof("export", archive, "--input", SIZES[name], "-o", graph)
            nodes = nodes_of(graph)
            facts[f"{name} by {how}"] = {
                "nodes": len(nodes),
                "with line": sum("stack" in node for node in nodes),
            }
    return facts


@check
def torchscript_profile(work: Path) -> dict[str, Any]:
    tool("opprof-torchscript")
    run = work / "run-archive"
    archive = work / "small_transformer-trace.pt"
    opprof("profile", archive, "--input", SIZES["small_transformer"], "-o", run)
    return profile_of(run)


def try_all(work: Path, only: list[str]) -> list[dict[str, Any]]:
    import torch

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(work / "inductor")
    rows: list[dict[str, Any]] = []
    for name, function in CHECKS.items():
        if only and not any(word in name for word in only):
            continue
        begin = time.perf_counter()
        row: dict[str, Any] = {"torch": str(torch.__version__), "check": name}
        try:
            row["facts"] = function(work)
            row["outcome"] = "works"
        except LeftOutError as error:
            row.update(outcome="left out", why=str(error))
        except Exception as error:
            row.update(outcome="fails", why=f"{type(error).__name__}: {error}"[:2500])
        row["seconds"] = round(time.perf_counter() - begin, 1)
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


#: The figure of a check that the table shows, and what it is of.
SHOWN = {
    "profile cnn": ("high", "of time at `high`"),
    "profile transformer": ("high", "of time at `high`"),
    "profile lstm": ("high", "of time at `high`"),
    "profile training": ("kernels at high", "of kernels at `high`"),
    "profile uncompiled": ("high", "of time at `high`"),
    "run unmodified": ("with module", "of operators with a module"),
    "run graph": ("high", "of time at `high`"),
    "torchscript profile": ("high", "of time at `high`"),
}


def print_table(file: Path) -> None:
    """What was recorded, a column for each build."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    builds = sorted(
        {row["torch"] for row in rows},
        key=lambda build: [int(part) for part in build.partition("+")[0].split(".")],
    )
    cells = {(row["check"], row["torch"]): row for row in rows}
    print(f"| what is done | {' | '.join(builds)} |")
    print("|---" * (len(builds) + 1) + "|")
    for name in CHECKS:
        fact, meaning = SHOWN.get(name, (None, ""))
        shown = []
        for build in builds:
            row = cells.get((name, build))
            text = "not tried" if row is None else row["outcome"]
            facts = {} if row is None else row.get("facts", {})
            if fact in facts:
                text = f"{100 * facts[fact]:.1f} %"
            elif name == "launches prove" and facts:
                text += f" for {len(facts)} of {len(OWN)} models"
            shown.append(text)
        print(f"| {name}{f', {meaning}' if meaning else ''} | {' | '.join(shown)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave what was made here")
    parser.add_argument("--table", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.table is not None:
        print_table(arguments.table)
        return
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        rows = try_all(arguments.keep.resolve(), arguments.only)
    else:
        with tempfile.TemporaryDirectory(prefix="opprof-torch-versions-") as folder:
            rows = try_all(Path(folder), arguments.only)
    if arguments.record is not None:
        made = {(row["torch"], row["check"]) for row in rows}
        lines = arguments.record.read_text().splitlines() if arguments.record.exists() else []
        kept = [row for row in map(json.loads, lines) if (row["torch"], row["check"]) not in made]
        arguments.record.write_text("".join(json.dumps(row) + "\n" for row in (*kept, *rows)))
    sys.exit(any(row["outcome"] == "fails" for row in rows))


if __name__ == "__main__":
    main()
