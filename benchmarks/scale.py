"""What graph_scale.py and dedup_scale.py share: how long parts of the tools take, and how that grows with the graph.

MLIR times the parts inside the tools (--mlir-timing), so that starting, and what comes before and after, don't count.
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
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TIMING = ["--mlir-timing", "--mlir-timing-display=list"]
# MLIR prints steps of 0.1 ms: below this they are more than a twentieth of the figure.
LEAST_SECONDS = 0.002

Row = dict[str, object]


@dataclass
class Command:
    """A command of the tools, and which figure is the time of which part of it."""

    words: Sequence[str | Path]
    parts: dict[str, str] = field(default_factory=dict)


@dataclass
class Best:
    """Of several runs those that others disturbed least."""

    seconds: dict[str, float]
    peak_bytes: dict[str, int]


def run(command: Command) -> tuple[str, int]:
    """What the tool wrote to its error stream, and its peak memory in bytes."""
    words = [str(word) for word in command.words] + (TIMING if command.parts else [])
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read()
    if process.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{text}")
    return text, usage.ru_maxrss * 1024


def seconds_of(part: str, report: str) -> float:
    """The time of a part in the list that --mlir-timing prints."""
    match = re.search(rf"^\s*([\d.]+) \(\s*[\d.]+%\)\s+{part}$", report, re.MULTILINE)
    if match is None:
        sys.exit(f"no time of {part} in:\n{report}")
    return float(match[1])


def best_of(repeat: int, commands: dict[str, Command]) -> Best:
    """Runs the commands in turn, so that what else the machine does hits all alike."""
    best = Best({}, {})
    for _ in range(repeat):
        for name, command in commands.items():
            report, peak = run(command)
            best.peak_bytes[name] = min(best.peak_bytes.get(name, peak), peak)
            for figure, part in command.parts.items():
                seconds = seconds_of(part, report)
                best.seconds[figure] = min(best.seconds.get(figure, seconds), seconds)
    return best


def exponent(rows: list[Row], figure: str) -> float | None:
    """The slope of a straight line through logarithms, by least squares: 1 is linear."""
    points = [
        (math.log(row["nodes"]), math.log(row[figure]))
        for row in rows
        if row[figure] >= LEAST_SECONDS
    ]
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return round(
        sum((x - mean_x) * (y - mean_y) for x, y in points)
        / sum((x - mean_x) ** 2 for x, _ in points),
        2,
    )


def add_options(parser: argparse.ArgumentParser, kinds: Sequence[str], *named: str) -> None:
    """`kinds` of graph are measured where none is named, `named` ones only where they are."""
    parser.add_argument("--tools", type=Path, default=Path("build/bin"))
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", choices=[*kinds, *named], default=list(kinds))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)


def sweep(
    options: argparse.Namespace,
    measure: Callable[[Path, str, int, int, Path], Row],
    figures: Sequence[str],
) -> None:
    """Measures every kind at every size, and prints a line of JSON for each, and for the exponents of each kind's figures."""
    stamp = time.strftime("%Y-%m-%d")
    lines: list[str] = []

    def write(row: Row) -> None:
        lines.append(json.dumps({"date": stamp, **row}))
        print(lines[-1], flush=True)
        # A run takes long: what is measured stays where a later graph does not fit.
        if options.output:
            options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")

    for kind in options.kinds:
        rows = []
        for nodes in options.nodes:
            with tempfile.TemporaryDirectory(prefix="opprof-scale-") as folder:
                row = measure(options.tools, kind, nodes, options.repeat, Path(folder))
            rows.append(row)
            write(row)
        write(
            {
                "kind": rows[-1]["kind"],
                **{f"{name}_exponent": exponent(rows, name) for name in figures},
            }
        )
