"""Times commands that read recorded files against those of another installation, and prints a table of docs/measurements.md.

    python benchmarks/commands.py --other-package PYTHONPATH --other-tools DIR --graph FILE --code DIR --trace FILE [--runs 11]

Both run in turn, A B A B, as whole processes, so that a machine whose speed drifts slows both; a ratio is the median of those of the
pairs, this installation's time over the other's.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: A command's name and its arguments, for a run folder of the installation that it is timed for.
Commands = dict[str, list[str]]


def commands(recorded: argparse.Namespace, folder: Path) -> Commands:
    """What is timed, in an order in which each finds what it reads."""
    run = str(folder / "run")
    files = [f"--{name}={getattr(recorded, name)}" for name in ("graph", "code", "trace")]
    return {
        "profile from files": ["profile", *files, "-o", run],
        "report": ["report", run, "--width", "120"],
        "report --json": ["report", run, "--json"],
        "report --html": ["report", run, "--html", str(folder / "report.html")],
        "launches": ["launches", run],
        "recommend": ["recommend", run, "-o", str(folder / "rewrites")],
    }


def time_command(arguments: list[str], environment: dict[str, str]) -> float:
    """Wall seconds of one run; ends the program with the command's own words where it fails."""
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-m", "opprof", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    if result.returncode:
        sys.exit(f"opprof {' '.join(arguments)} failed:\n{result.stderr[-4000:]}")
    return seconds


def main() -> None:
    """Prints one row a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other-package", required=True, help="the folder that holds its opprof/")
    parser.add_argument("--other-tools", required=True, help="the folder of its native tools")
    for name in ("graph", "code", "trace"):
        parser.add_argument(
            f"--{name}", type=Path, required=True, help="as `opprof profile` has it"
        )
    parser.add_argument("--runs", type=int, default=11, help="pairs of runs")
    arguments = parser.parse_args()
    other = {
        **os.environ,
        "PYTHONPATH": arguments.other_package,
        "OPPROF_TOOLS_DIR": arguments.other_tools,
    }
    print("| command | s | the other | ratio | least | most |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        ours, theirs = (commands(arguments, Path(folder)) for folder in (first, second))
        for name in ours:
            pairs = []
            for turn in range(arguments.runs + 1):
                pair = (
                    time_command(ours[name], dict(os.environ)),
                    time_command(theirs[name], other),
                )
                # The first of each warms the files.
                if turn:
                    pairs.append(pair)
            ratios = [ours / theirs for ours, theirs in pairs]
            print(
                f"| {name} | {statistics.median(p[0] for p in pairs):.3f} "
                f"| {statistics.median(p[1] for p in pairs):.3f} "
                f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} |"
            )


if __name__ == "__main__":
    main()
