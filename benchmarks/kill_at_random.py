"""Kills every command with -9 at random moments: nothing half-written may lie where a result would be, and the next run works.

    python benchmarks/kill_at_random.py [--times 200] [--seed 0] [--no-torch] [COMMAND …]

A command is killed again and again into the same place, the processes that it started are left to themselves, and every tenth run
goes to its end: it has to succeed (but for a gain, which a busy machine may not show) and leave what the first one left (but for the
ceilings of a CPU, which a busy one has none of), whatever the killed ones left beside it. The exit status is 1 where a command does not keep to that. Without names all commands are killed; `--no-torch` leaves out those that load PyTorch.
"""

import argparse
import ast
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opprof.tools import find_tool

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
INPUTS = ROOT / "test" / "Profile" / "Inputs"
MODEL = ROOT / "examples" / "mlp_activations.py"

#: A run between two that go to their end is killed this often.
KILLED_IN_A_ROW = 9

#: A whole run takes no longer, on any machine.
LONGEST_SECONDS = 1800

#: A profile leaves this where the CPU had nothing else to do.
CEILINGS = "ceilings.json"

#: Small, as runs that are killed are to be many.
SMALL_MODEL = """
import torch

def get_model_and_input():
    layers = [torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)]
    return torch.nn.Sequential(*layers).eval(), torch.randn(16, 32)
"""
#: Of a step of this one `opprof run` records a graph.
STEPS = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(16, 32)).sum().backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Command:
    """A command line of opprof or one of its tools, and the file or folder where its results lie."""

    arguments: list[str]
    output: Path
    needs_torch: bool = False
    #: The name of the command that makes what this one reads, where that is not made beforehand.
    after: str = ""
    #: Whether a run that ended with a status other than 0 did what it had to.
    is_answer: Callable[[subprocess.CompletedProcess[bytes]], bool] = lambda _: False

    @property
    def line(self) -> list[str]:
        if self.arguments[0].startswith("opprof-"):
            return [find_tool(self.arguments[0]), *self.arguments[1:]]
        return [sys.executable, "-m", "opprof", *self.arguments]


def _is_no_gain(run: subprocess.CompletedProcess[bytes]) -> bool:
    """Whether `validate` found a backend right and no faster: its status is 1 as it is where another check or the command failed."""
    return run.returncode == 1 and re.findall(rb"^  FAILED +(\S+)", run.stdout, re.M) == [b"gain"]


def prepare(folder: Path) -> dict[str, Command]:
    """The commands, in an order in which each finds what it reads: files that earlier ones make are made here."""
    code = folder / "code"
    shutil.copytree(RECORDED, code, ignore=shutil.ignore_patterns("export.json"))
    capture = folder / "rank0.opcap"
    capture.write_bytes(gzip.decompress((INPUTS / "conv_block.opcap.gz").read_bytes()))
    program = folder / "program.py"
    program.write_text("import torch\nprint(torch.randn(64, 64).mm(torch.randn(64, 64)).sum())\n")
    files = [
        *("--graph", str(RECORDED / "export.json"), "--code", str(code)),
        *("--trace", str(INPUTS / "mlp_activations.trace.json.gz")),
    ]
    small, steps = folder / "small.py", folder / "steps.py"
    small.write_text(SMALL_MODEL)
    steps.write_text(STEPS)
    run, rewrites, backend = folder / "run", folder / "rewrites", folder / "backend.py"
    for arguments in (
        ["profile", *files, "-o", str(run)],
        ["recommend", str(run), "-o", str(rewrites)],
        ["emit", str(rewrites), "-o", str(backend)],
    ):
        subprocess.run(
            [sys.executable, "-m", "opprof", *arguments], check=True, capture_output=True
        )
    out = folder / "out"
    recorded = folder / "recorded"
    quick = ["--iters", "3", "--warmup", "1", "--no-eager"]
    return {
        "profile from files": Command(["profile", *files, "-o", str(out / "files")], out / "files"),
        "report --html": Command(
            ["report", str(run), "--html", str(out / "report.html")], out / "report.html"
        ),
        "report --perfetto": Command(
            ["report", str(run), "--perfetto", str(out / "timeline.json.gz")],
            out / "timeline.json.gz",
        ),
        "launches": Command(["launches", str(run)], run),
        "recommend": Command(
            ["recommend", str(run), "-o", str(out / "rewrites")], out / "rewrites"
        ),
        "emit": Command(["emit", str(rewrites), "-o", str(out / "backend.py")], out / "backend.py"),
        "opprof-opt, dedup": Command(
            [
                *("opprof-opt", str(run / "graph.mlirbc"), "-o", str(out / "dedup" / "graph.mlir")),
                f"--dedup-partitions=partition-map={out / 'dedup' / 'partitions.json'}",
            ],
            out / "dedup",
        ),
        "opprof-translate": Command(
            [
                *("opprof-translate", "--emit-python", str(run / "graph.mlirbc")),
                *("-o", str(out / "emitted.py")),
            ],
            out / "emitted.py",
        ),
        "merge": Command(
            ["merge", str(capture), "-o", str(out / "merged.json")], out / "merged.json"
        ),
        "export": Command(
            ["export", str(small), "-o", str(out / "graph.mlir")], out / "graph.mlir", True
        ),
        "export --weights": Command(
            [
                *("export", str(small), "-o", str(out / "graph.json")),
                *("--weights", str(out / "weights.safetensors")),
            ],
            out / "weights.safetensors",
            True,
        ),
        "run": Command(["run", "-o", str(out / "program"), str(program)], out / "program", True),
        "run --graph": Command(["run", "--graph", "-o", str(recorded), str(steps)], recorded, True),
        "extract": Command(
            ["extract", str(recorded), "--module", "0", "-o", str(out / "layer.py")],
            out / "layer.py",
            True,
            after="run --graph",
        ),
        "profile": Command(
            ["profile", str(small), *quick, "-o", str(out / "profile")], out / "profile", True
        ),
        "launches --prove": Command(
            ["launches", str(out / "profile"), "--prove"], out / "profile", True, after="profile"
        ),
        "validate": Command(
            ["validate", str(backend), "--model", str(MODEL)], backend, True, is_answer=_is_no_gain
        ),
        "optimize": Command(
            ["optimize", str(small), "--budget-seconds", "30", "-o", str(out / "optimized")],
            out / "optimized",
            True,
        ),
    }


def _check_safetensors(file: Path) -> None:
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    assert len(data) == 8 + size + max(ends, default=0), "its tensors are cut off"


def _check_mlir(file: Path) -> None:
    subprocess.run(
        [find_tool("opprof-opt"), str(file), "-o", os.devnull], check=True, capture_output=True
    )


def _check_text(file: Path) -> None:
    assert file.read_bytes().endswith(b"\n"), "its last line has no end"


def _check_page(file: Path) -> None:
    assert file.read_text().rstrip().endswith("</html>"), "the page has no end"


#: What a whole file of a kind holds, by the end of its name; each raises where it does not.
CHECKS: dict[str, Callable[[Path], object]] = {
    ".json": lambda file: json.loads(file.read_text()),
    ".gz": lambda file: gzip.decompress(file.read_bytes()),
    ".py": lambda file: ast.parse(file.read_text()),
    ".html": _check_page,
    ".txt": _check_text,
    ".mlir": _check_mlir,
    ".mlirbc": _check_mlir,
    ".safetensors": _check_safetensors,
}


def results(output: Path) -> list[Path]:
    """The files at or below a place, but for what is hidden: a temporary file is nobody's result."""
    if output.is_file():
        return [output]
    files = [file for file in output.rglob("*") if file.is_file()]
    return [
        file
        for file in files
        if not any(part.startswith(".") for part in file.relative_to(output).parts)
    ]


def names(output: Path) -> set[str]:
    """What a command leaves, by name, whatever the numbers of its processes and whether a CPU was idle; of several processes' files, each."""
    found = sorted(
        str(file.relative_to(output.parent)) for file in results(output) if file.name != CEILINGS
    )
    plain = [re.sub(r"-p\d+\b", "-p", name) for name in found]
    return {f"{name} ({plain[: i + 1].count(name)})" for i, name in enumerate(plain)}


def half_written(output: Path) -> list[str]:
    """What is wrong with the files at a place, a line each."""
    wrong = []
    for file in results(output):
        # Inductor prints graphs in a form of its own under a name of Python's.
        check = _check_text if file.name.startswith("fx_graph_") else CHECKS.get(file.suffix)
        try:
            if check is not None:
                check(file)
        except (AssertionError, EOFError, OSError, SyntaxError, ValueError) as error:
            wrong.append(f"{file}: {error}")
        except subprocess.CalledProcessError as error:
            wrong.append(f"{file}: {error.stderr.decode(errors='replace').splitlines()[:1]}")
    return wrong


def _kill_one(line: list[str], moment: float) -> float | None:
    """Kills a run after that many seconds; what it took, where it had ended by then and nothing was killed."""
    begun = time.monotonic()
    process = subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(timeout=moment)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None
    return time.monotonic() - begun


def kill(command: Command, times: int, moments: random.Random) -> tuple[list[str], str]:
    """Kills a command `times` times; returns what is wrong, and a row of a table."""
    line = command.line

    def run_whole() -> tuple[float, list[str]]:
        begun = time.monotonic()
        run = subprocess.run(line, capture_output=True, timeout=LONGEST_SECONDS, check=False)
        takes = time.monotonic() - begun
        if run.returncode and not command.is_answer(run):
            said = (run.stdout + run.stderr).decode(errors="replace")
            return takes, [f"a whole run ended with status {run.returncode}: {said[-2000:]}"]
        return takes, half_written(command.output)

    takes, wrong = run_whole()
    expected = names(command.output)
    for number in range(times):
        while (took := _kill_one(line, moments.uniform(0, takes))) is not None:
            takes = took
        wrong += [f"killed: {text}" for text in half_written(command.output)]
        if (number + 1) % (KILLED_IN_A_ROW + 1) == 0 or number + 1 == times:
            takes, after = run_whole()
            wrong += [f"after {number + 1} kills: {text}" for text in after]
            left = names(command.output)
            wrong += [
                f"after {number + 1} kills: {file} is missing" for file in sorted(expected - left)
            ]
            wrong += [
                f"after {number + 1} kills: {file} is of a killed run"
                for file in sorted(left - expected)
            ]
    return wrong, f"{times:6} {takes:8.1f} {len(wrong):6}"


def main() -> int:
    """Kills the commands; prints one row each, and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help="what to kill (all)")
    parser.add_argument("--times", type=int, default=200, help="how often each is killed")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--no-torch", action="store_true", help="leave out what loads PyTorch")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="opprof-kill-") as folder:
        commands = prepare(Path(folder))
        unknown = set(options.commands) - set(commands)
        if unknown:
            parser.error(
                f"no such command: {', '.join(sorted(unknown))} (of {', '.join(commands)})"
            )
        print(f"{'command':20} {'killed':>6} {'seconds':>8} {'wrong':>6}", flush=True)
        for name, command in commands.items():
            if options.commands and name not in options.commands:
                continue
            if options.no_torch and command.needs_torch:
                continue
            if command.after and not commands[command.after].output.exists():
                subprocess.run(commands[command.after].line, check=True, capture_output=True)
            wrong, row = kill(command, options.times, random.Random(options.seed))
            print(f"{name:20} {row}", *(f"\n    {text}" for text in wrong[:20]), flush=True)
            failed = failed or bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
