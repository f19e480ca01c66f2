"""Times --dedup-partitions, outlining included, against --cse on the same module in the same run, from a thousand to a million nodes.

    python benchmarks/dedup_scale.py [--tools build/bin] [--nodes 1000 10000 …] [--repeat 3] [-o results.jsonl]

The graphs are those of graph_scale.py: many small layers, a few large ones, one without any repeat. Both passes run one after the
other in one process without threads, and MLIR times them, so that reading and printing don't count. Memory is the peak of a process
that reads the module and runs the pass over the peak of one that only reads it. The exponent is the slope of time over nodes in
logarithms from the smallest graph that takes ten milliseconds on: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from graph_scale import KINDS, generate

OPTIONS = ["--mlir-disable-threading", "--verify-each=false", "--emit-bytecode", "-o", os.devnull]
PASSES = {"cse": "CSE", "dedup": "DedupPartitionsPass"}


def run(command: list[str | Path]) -> tuple[str, int]:
    """What the tool wrote to its error stream, and its peak memory in bytes."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read()
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{text}")
    return text, usage.ru_maxrss * 1024


def seconds_of(name: str, report: str) -> float:
    """The time of a pass in the list that --mlir-timing prints."""
    match = re.search(rf"^\s*([\d.]+) \(\s*[\d.]+%\)\s+{name}$", report, re.MULTILINE)
    if match is None:
        sys.exit(f"no time of {name} in:\n{report}")
    return float(match[1])


def measure(tools: Path, kind: str, nodes: int, repeat: int, folder: Path) -> dict[str, object]:
    """The best of `repeat` runs, which is the one that others disturbed least."""
    source, text, module = (folder / f"graph{ending}" for ending in (".json", ".mlir", ".mlirbc"))
    count = generate(source, kind, nodes)
    opt = tools / "opprof-opt"
    subprocess.run([tools / "opprof-translate", "--import-fx-json", source, "-o", text], check=True)
    source.unlink()
    subprocess.run([opt, text, "--emit-bytecode", "-o", module], check=True)
    text.unlink()
    timing = ["--mlir-timing", "--mlir-timing-display=list"]
    best: dict[str, float] = {}
    for _ in range(repeat):
        report, _ = run([opt, module, "--cse", "--dedup-partitions", *timing, *OPTIONS])
        for key, name in PASSES.items():
            best[key] = min(best.get(key, math.inf), seconds_of(name, report))
    read = min(run([opt, module, *OPTIONS])[1] for _ in range(repeat))
    deduplicated = min(run([opt, module, "--dedup-partitions", *OPTIONS])[1] for _ in range(repeat))
    module.unlink()
    return {
        "kind": kind,
        "nodes": count,
        "cse_s": best["cse"],
        "dedup_s": best["dedup"],
        "dedup_over_cse": round(best["dedup"] / best["cse"], 3) if best["cse"] else None,
        "module_bytes": read,
        "dedup_bytes": deduplicated,
        "memory_ratio": round(deduplicated / read, 3),
    }


def exponent(rows: list[dict[str, object]]) -> float | None:
    """The slope of a straight line through logarithms, by least squares."""
    points = [
        (math.log(row["nodes"]), math.log(row["dedup_s"])) for row in rows if row["dedup_s"] >= 0.01
    ]
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum(
        (x - mean_x) ** 2 for x, _ in points
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", type=Path, default=Path("build/bin"))
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(prefix="opprof-scale-") as folder:
        for kind in arguments.kinds:
            rows = []
            for nodes in arguments.nodes:
                row = measure(arguments.tools, kind, nodes, arguments.repeat, Path(folder))
                rows.append(row)
                lines.append(json.dumps(row))
                print(lines[-1], flush=True)
            slope = exponent(rows)
            if slope is not None:
                lines.append(json.dumps({"kind": kind, "exponent": round(slope, 3)}))
                print(lines[-1], flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
