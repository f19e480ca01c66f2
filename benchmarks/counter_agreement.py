"""Holds opprof's counters against ncu's, in units of how well each agrees with itself. Needs a GPU and ncu.

    PYTHONPATH=python OPPROF_CAPTURE_LIBRARY=build/lib/libopprof_capture.so python benchmarks/counter_agreement.py -o OUT [workload…]

Each workload's first 150 kernels of one compiled step are counted twice by each of several ways, each run in a process of
its own. Caches are left as they are, clocks are not changed. OUT/rows.json.gz holds every value; OUT/agreement.jsonl
one line a workload: for each counter the median relative difference between two runs of ncu, of opprof, and
between the two programs, and the median of the signed difference, which shows a bias.
"""

from __future__ import annotations

import argparse
import csv
import glob
import gzip
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from capture_h200 import ROOT, WORKLOADS, compiled

#: ncu's way of counting the step as a whole: one row, which is held against opprof's range over the step.
RANGE = "ncu-range"
#: Values of one kernel, by counter.
Row = dict[str, float]

#: What is run: ncu by its kernel and its application replay, and by one range round the step; opprof replaying the step,
#: replaying each kernel, and replaying the step with a pause after each line that launches, which is how far apart ncu's
#: kernels are.
WAYS = {
    "ncu": 2,
    "ncu-application": 1,
    RANGE: 1,
    "step": 2,
    "kernel": 2,
    "paused 0.1": 1,
}


def ncu_command() -> str:
    """Where ncu is."""
    found = shutil.which("ncu") or next(iter(glob.glob("/opt/nvidia/nsight-compute/*/ncu")), None)
    if found is None:
        raise SystemExit("ncu was not found")
    return found


def child_step(name: str) -> None:
    """What ncu looks at: one step between cudaProfilerStart and cudaProfilerStop."""
    import torch

    step = compiled(name)
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    step()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


def run_ncu(name: str, way: str, window: slice, counters: list[str]) -> list[dict[str, Any]]:
    """One run of ncu: name, grid, block and counters of each kernel."""
    # A range is what lies between cudaProfilerStart and cudaProfilerStop.
    which = (
        ["--replay-mode", "app-range"]
        if way == RANGE
        else [
            *("--replay-mode", "application" if way == "ncu-application" else "kernel"),
            *("--profile-from-start", "off"),
            *("--launch-skip", str(window.start)),
            *("--launch-count", str(window.stop - window.start)),
        ]
    )
    done = subprocess.run(
        [
            ncu_command(),
            *("--metrics", ",".join(counters)),
            *("--cache-control", "none", "--clock-control", "none"),
            *which,
            *("--csv", "--page", "raw", "--print-units", "base"),
            *(sys.executable, __file__, "--child", name),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    text = done.stdout[done.stdout.find('"ID"') :]
    rows = []
    for row in csv.DictReader(text.splitlines()):
        if not (row.get("ID") or "").isdigit():
            continue
        values = {}
        for counter in counters:
            try:
                values[counter] = float(row[counter].replace(",", ""))
            except (KeyError, ValueError):
                continue
        rows.append(
            {
                "kernel": (row.get("Kernel Name") or "")[:60],
                "grid": _triple(row.get("Grid Size") or ""),
                "block": _triple(row.get("Block Size") or ""),
                "values": values,
            }
        )
    passes = sorted(set(re.findall(r"(\d+) pass", done.stdout + done.stderr)))
    print(f"{name} {way}: {len(rows)} kernels, passes {passes}", flush=True)
    if not rows:
        print(done.stdout[-500:], done.stderr[-500:])
    return rows


def _triple(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


def child_mine(
    name: str, file: Path, window: slice, counters: list[str], repeats: dict[str, int]
) -> None:
    """All of opprof's ways, in this process."""
    import opprof

    step = compiled(name)
    result: dict[str, list[Any]] = {}

    def once(replay: str) -> list[dict[str, Any]]:
        with opprof.capture(
            file.parent / "capture", counters="all", metrics=counters, replay=replay
        ) as prof:
            prof.step(step)
        one = prof.steps[-1]
        return [
            {
                "kernel": row["kernel"][:60],
                "grid": one.launches[row["launch"]]["grid"],
                "block": one.launches[row["launch"]]["block"],
                "values": row["raw"],
            }
            for row in one.counters[window]
        ]

    for way, count in repeats.items():
        for _ in range(count):
            if way.startswith("paused"):
                pause = float(way.removeprefix("paused "))
                result.setdefault(way, []).append(paused(pause, lambda: once("user")))
            else:
                result.setdefault(way, []).append(once("user" if way == "step" else "kernel"))
            print(f"{name} {way}: {len(result[way][-1])} kernels", flush=True)
    result["whole step"] = [whole_step(step, file.parent, counters) for _ in range(2)]
    file.write_text(json.dumps(result))


def whole_step(step: Any, folder: Path, counters: list[str]) -> list[dict[str, Any]]:
    """Counters of a step at its own speed, by one range over all of it: what the kernels' values have to add up to."""
    import opprof

    with opprof.capture(folder / "capture", counters="step", metrics=counters) as prof:
        prof.step(step)
    return [{"kernel": "(step)", "grid": [], "block": [], "values": prof.steps[-1].whole["raw"]}]


def paused(seconds: float, once: Any) -> Any:
    """One run in which the device rests before each launching line of the wrapper."""
    import torch

    from opprof.recording import identity

    def slow(code: Any, line: int) -> None:
        torch.cuda.synchronize()
        time.sleep(seconds)

    monitoring = sys.monitoring
    tool = 4
    monitoring.use_tool_id(tool, "pause")
    events = monitoring.events.LINE
    codes = [
        (code, set(identity.launching_lines(code)))
        for module in identity.inductor_modules()
        for code in identity.wrapper_codes(module)
    ]
    lines = {id(code): wanted for code, wanted in codes}
    monitoring.register_callback(
        tool,
        events,
        lambda code, line: slow(code, line) if line in lines[id(code)] else monitoring.DISABLE,
    )
    for code, _ in codes:
        monitoring.set_local_events(tool, code, events)
    try:
        return once()
    finally:
        for code, _ in codes:
            monitoring.set_local_events(tool, code, 0)
        monitoring.free_tool_id(tool)


def differences(a: list[dict[str, Any]], b: list[dict[str, Any]], counter: str) -> list[float]:
    """Signed relative differences of b from a; kernels where both are zero say nothing."""
    result = []
    for x, y in zip(a, b, strict=False):
        u, v = x["values"].get(counter), y["values"].get(counter)
        if u is None or v is None or u == v == 0:
            continue
        result.append((v - u) / max(abs(u), abs(v)))
    return result


def compare(
    name: str, runs: dict[str, list[list[dict[str, Any]]]], counters: list[str]
) -> dict[str, Any]:
    """The table of one workload: every way against ncu's kernel replay."""
    whole = {way: runs[way] for way in ("whole step", RANGE) if way in runs}
    runs = {way: group for way, group in runs.items() if way not in whole}
    shapes = {
        way: [[(row["grid"], row["block"]) for row in run] for run in group]
        for way, group in runs.items()
    }
    first = shapes["ncu"][0]
    same = {way: all(shape == first for shape in group) for way, group in shapes.items()}
    table: dict[str, Any] = {}
    for counter in counters:
        line: dict[str, Any] = {}
        for way, group in runs.items():
            pairs = (
                list(itertools.combinations(group, 2))
                if way == "ncu"
                else list(itertools.product(runs["ncu"], group))
            )
            values = [d for a, b in pairs for d in differences(a, b, counter)]
            if values:
                line[way] = [
                    round(statistics.median(abs(v) for v in values), 5),
                    round(statistics.median(values), 5),
                ]
            if way != "ncu" and len(group) > 1:
                own = [abs(d) for d in differences(group[0], group[1], counter)]
                if own:
                    line[f"{way} itself"] = round(statistics.median(own), 5)
        table[counter] = line
    return {
        "workload": name,
        "kernels": len(first),
        "same_launches": same,
        "table": table,
        "sums": sums({**runs, **whole}, counters),
    }


def sums(runs: dict[str, list[list[dict[str, Any]]]], counters: list[str]) -> dict[str, Any]:
    """What each run's kernels add up to, of the counters that can be added."""
    return {
        counter: {
            way: [sum(row["values"].get(counter, 0.0) for row in run) for run in group]
            for way, group in runs.items()
        }
        for counter in counters
        if counter.endswith(".sum")
    }


def tables(file: Path) -> str:
    """What a file of rows says, as the tables of the documents."""
    with gzip.open(file, "rt") as stream:
        everything: dict[str, dict[str, list[list[dict[str, Any]]]]] = json.load(stream)
    names = [name for name in WORKLOADS if name in everything]
    counters = list(everything[names[0]]["step"][0][0]["values"])
    lines = [f"{file.name}:", ""]
    with_ncu = [name for name in names if "ncu" in everything[name]]
    if with_ncu:
        lines += [f"| counter | {' | '.join(with_ncu)} |", "|---|" + "---|" * len(with_ncu)]
        for counter in counters:
            cells = [_against_ncu(everything[name], counter) for name in with_ncu]
            lines.append(f"| `{counter}` | {' | '.join(cells)} |")
        lines.append("")
    ways = [way for way in WAYS if any(way in everything[name] for name in names)]
    rows = []
    lines += [f"| workload | counter | {' | '.join(ways)} |", "|---|---|" + "---|" * len(ways)]
    for name in names:
        for counter in counters:
            runs = everything[name]
            if not _is_whole(runs):
                continue
            # Time is another one in a range of its own; some counters are no sums.
            if counter.endswith(".sum") and "time" not in counter and "whole step" in runs:
                cells = [_against_step(runs, way, counter) for way in ways]
                if any(cell not in ("", "0") for cell in cells):
                    lines.append(f"| {name} | `{counter}` | {' | '.join(cells)} |")
                    rows.append(dict(zip(ways, cells, strict=True)))
    if rows and "ncu" in ways:
        off = [(_percent(row["step"]), _percent(row["ncu"])) for row in rows]
        lines += [
            "",
            f"opprof's kernels are closer to the step than ncu's in {sum(a < b for a, b in off)} of {len(off)} rows, as close in "
            f"{sum(a == b for a, b in off)}, and within 1 % of it in {sum(a <= 1 for a, _ in off)}.",
        ]
    return "\n".join(lines)


def _percent(cell: str) -> float:
    """How far a cell of the table is from the step."""
    return abs(float(cell.rstrip("%")))


def _against_ncu(runs: dict[str, list[list[dict[str, Any]]]], counter: str) -> str:
    """How far opprof is from ncu, and that in units of how far two runs of ncu are from one another."""
    own = _median(differences(*runs["ncu"], counter))
    pairs = itertools.product(runs["ncu"], runs["step"])
    between = _median([d for a, b in pairs for d in differences(a, b, counter)])
    if own is None or between is None:
        return "all zero"
    if between < 1e-4:
        return "0"
    return f"{between:.1%}, {between / own:.1f}" if own >= 1e-4 else f"{between:.1%}, –"


def _against_step(runs: dict[str, list[list[dict[str, Any]]]], way: str, counter: str) -> str:
    """By how much the sum over kernels is more than the whole step; nothing where both are the same."""
    whole = statistics.mean(run[0]["values"][counter] for run in runs["whole step"])
    totals = [sum(row["values"].get(counter, 0.0) for row in run) for run in runs.get(way, [])]
    if not totals or not whole:
        return ""
    difference = statistics.mean(totals) / whole - 1
    return f"{difference:+.1%}" if abs(difference) >= 5e-4 else "0"


def _is_whole(runs: dict[str, list[list[dict[str, Any]]]]) -> bool:
    """Whether the counted kernels are all of the step: a longer step's window executes fewer instructions."""
    executed = "smsp__inst_executed.sum"
    whole = runs["whole step"][0][0]["values"][executed] if "whole step" in runs else 0.0
    kernels = sum(row["values"].get(executed, 0.0) for row in runs["step"][0])
    return bool(whole) and abs(kernels / whole - 1) < 1e-2


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(abs(v) for v in values) if values else None


def main() -> None:
    """Runs the workloads that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out"))
    parser.add_argument("--limit", type=int, default=150, help="kernels of a workload")
    parser.add_argument("--skip", type=int, default=0, help="leave out this many kernels before")
    parser.add_argument(
        "--ways",
        default=",".join(f"{k}:{v}" for k, v in WAYS.items()),
        help="which ways, each with its number of runs",
    )
    parser.add_argument(
        "--table", nargs="+", type=Path, metavar="ROWS", help="only print what rows.json.gz say"
    )
    parser.add_argument("--child", metavar="WORKLOAD", help=argparse.SUPPRESS)
    parser.add_argument("--mine", metavar="WORKLOAD", help=argparse.SUPPRESS)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--counters", help="instead of the default set, with commas between")
    options = parser.parse_args()
    if options.table:
        print("\n\n".join(tables(file) for file in options.table))
        return
    from opprof.recording.metrics import resolve

    counters = options.counters.split(",") if options.counters else resolve("default").counters
    options.output.mkdir(parents=True, exist_ok=True)
    os.environ["OPPROF_BENCH_OUT"] = str(options.output)
    if options.child:
        child_step(options.child)
        return
    window = slice(options.skip, options.skip + options.limit)
    ways = {k: int(v) for k, v in (w.split(":") for w in options.ways.split(","))}
    theirs = {k: v for k, v in ways.items() if k.startswith("ncu")}
    ours = {k: v for k, v in ways.items() if k not in theirs}
    if options.mine:
        child_mine(options.mine, options.output / "mine.json", window, counters, ours)
        return
    everything = {}
    for name in options.workloads:
        begin = time.perf_counter()
        runs: dict[str, list[list[dict[str, Any]]]] = {}
        subprocess.run(
            [
                *(sys.executable, __file__, "-o", str(options.output)),
                *(
                    "--skip",
                    str(options.skip),
                    "--limit",
                    str(options.limit),
                    "--ways",
                    options.ways,
                    "--mine",
                    name,
                ),
                *("--counters", ",".join(counters)),
            ],
            timeout=200,
            check=False,
        )
        mine = options.output / "mine.json"
        if mine.is_file():
            runs.update(json.loads(mine.read_text()))
            mine.unlink()
        for way, count in theirs.items():
            runs[way] = [run_ncu(name, way, window, counters) for _ in range(count)]
        everything[name] = runs
        with gzip.open(options.output / "rows.json.gz", "wt") as stream:
            json.dump(everything, stream)
        if "ncu" in runs:
            with open(options.output / "agreement.jsonl", "a") as file:
                file.write(json.dumps(compare(name, runs, counters)) + "\n")
        print(f"== {name}: {time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
