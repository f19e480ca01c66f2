"""Times each link of the chain on one model, and prints the table of docs/measurements.md.

    python benchmarks/links.py examples/gpt2.py [--runs 3] [--json FILE]

A link is one command, timed as a whole process: the median of the runs, with the fastest and slowest beside it. The
links that read a run folder read the one that `opprof profile` has just made.
"""

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def time_command(command: list[str], runs: int) -> list[float]:
    """Wall seconds of each run; ends the program with the command's own words where it fails."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        result = subprocess.run(command, capture_output=True, text=True)
        seconds.append(time.perf_counter() - start)
        if result.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{result.stderr[-4000:]}")
    return seconds


def links(model: Path, work: Path) -> list[tuple[str, list[str], bool]]:
    """(what it does, the command, whether it is slow enough to run once) in the order of the chain."""
    run, rewrites = work / "run", work / "rewrites"
    graph_json, graph = work / "graph.json", work / "graph.mlirbc"
    opprof = [sys.executable, "-m", "opprof"]
    return [
        ("export to graph JSON", [*opprof, "export", str(model), "-o", str(graph_json)], True),
        (
            "import graph JSON",
            ["opprof-translate", "--import-fx-json", str(graph_json), "-o", str(work / "g.mlir")],
            False,
        ),
        (
            "text to bytecode",
            ["opprof-opt", "--emit-bytecode", str(work / "g.mlir"), "-o", str(graph)],
            False,
        ),
        (
            "dedup",
            ["opprof-opt", "--dedup-partitions", str(graph), "-o", str(work / "dedup.mlir")],
            False,
        ),
        (
            "dedup and markers",
            [
                "opprof-opt",
                "--dedup-partitions",
                "--insert-nvtx-markers",
                str(graph),
                "-o",
                str(work / "marked.mlir"),
            ],
            False,
        ),
        (
            "emit Python",
            [
                "opprof-translate",
                "--emit-python",
                str(work / "marked.mlir"),
                "-o",
                str(work / "m.py"),
            ],
            False,
        ),
        (
            "profile: compile, run, map, attach",
            [*opprof, "profile", str(model), "-o", str(run)],
            True,
        ),
        ("launches", [*opprof, "launches", str(run), "--json"], False),
        ("report", [*opprof, "report", str(run)], False),
        ("recommend", [*opprof, "recommend", str(run), "-o", str(rewrites)], False),
        (
            "apply rewrites",
            [
                "opprof-opt",
                f"--apply-rewrites={rewrites}",
                str(graph),
                "-o",
                str(work / "rewritten.mlir"),
            ],
            False,
        ),
        (
            "emit a backend",
            [*opprof, "emit", str(rewrites), "-o", str(work / "optimized.py")],
            False,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a script with get_model_and_input()")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of the quick links")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    if not shutil.which("opprof-opt"):
        sys.exit("opprof-opt is not on the PATH: run ./setup.sh, then put .venv/bin first on it")

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, command, once in links(arguments.model, Path(folder)):
            print(f"{name} …", file=sys.stderr)
            seconds = time_command(command, 1 if once else arguments.runs)
            rows.append(
                {
                    "link": name,
                    "median_s": statistics.median(seconds),
                    "min_s": min(seconds),
                    "max_s": max(seconds),
                    "runs": len(seconds),
                }
            )
    print(f"{arguments.model}, {platform.machine()}, Python {platform.python_version()}\n")
    print("| link | median s | fastest | slowest | runs |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['link']} | {row['median_s']:.3f} | {row['min_s']:.3f} "
            f"| {row['max_s']:.3f} | {row['runs']} |"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
