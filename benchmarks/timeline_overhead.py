"""What a running timeline costs: wall time of a step over that of the bare program. Needs a GPU.

    PYTHONPATH=python OPPROF_CAPTURE_LIBRARY=build/lib/libopprof_capture.so python benchmarks/timeline_overhead.py -o OUT [workload…]

Each workload runs in a process of its own. A round measures every way once, in an order that changes, each between two
measurements of the bare program, whose mean it is divided by; the figure is the median of the rounds. A measurement is a
number of steps, the same for all, that follow one another. OUT/overhead.jsonl holds one line a workload. The bare
program is that of a process that CUPTI has been in, which is slower than one that it never was in: capture_residual.py shows by
how much.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from capture_h200 import WORKLOADS, compiled

#: Not a workload: two hundred launches of a tiny kernel, which shows what a launch costs.
LAUNCHES = "launches"
#: About how many seconds of steps one measurement takes; a third of that goes before it, uncounted.
WINDOW = 0.05


def launches() -> Callable[[], None]:
    """A step that does nothing but launch."""
    import torch

    x = torch.zeros(64, device="cuda")

    def step() -> None:
        for _ in range(200):
            x.relu_()

    return step


def measure(name: str, output: Path, rounds: int, chosen: list[str]) -> None:
    """All ways of one workload."""
    import torch

    from opprof.recording import library as capture_library
    from opprof.recording.identity import WrapperLines
    from opprof.recording.library import DEFAULT_KINDS, KERNELS, Library

    library = Library.get()
    step = launches() if name == LAUNCHES else compiled(name)
    lines = WrapperLines(library)
    kinds = {
        "kernels": KERNELS,
        "markers": capture_library.MARKERS,
        "kernels, copies": KERNELS | capture_library.COPIES,
        "kernels, syncs": KERNELS | capture_library.SYNCS,
        "kernels, overhead": KERNELS | capture_library.OVERHEAD,
        "kernels, markers": KERNELS | capture_library.MARKERS,
        "kernels, callbacks": KERNELS,
        "kernels, ids": KERNELS | capture_library.IDS,
        "kernels, API": KERNELS | capture_library.API,
        "all but overhead": DEFAULT_KINDS & ~capture_library.OVERHEAD,
        "all but API and ids": DEFAULT_KINDS & ~capture_library.API & ~capture_library.IDS,
        "all but ids": DEFAULT_KINDS & ~capture_library.IDS,
        "default": DEFAULT_KINDS,
        "default, lines": DEFAULT_KINDS,
        "default, syncs": DEFAULT_KINDS | capture_library.SYNCS,
        "default, syncs, lines": DEFAULT_KINDS | capture_library.SYNCS,
        "kernels, lines": KERNELS | capture_library.IDS,
        "lines without capture": 0,
    }
    ways = {k: v for k, v in kinds.items() if not chosen or k in chosen}

    def wall(count: int) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / count

    wall(20)
    steps = max(3, round(WINDOW / wall(20)))
    settling = max(1, steps // 3)

    def captured(label: str) -> float:
        if ways[label]:
            library.start(str(output / "overhead.opcap"), kinds=ways[label])
        try:
            if "callbacks" in label:
                library.call("launches_begin")
            with lines.active() if "lines" in label else contextlib.nullcontext():
                wall(settling)
                return wall(steps)
        finally:
            if "callbacks" in label:
                library.call("launches_end", None)
            if ways[label]:
                library.stop()

    ratios: dict[str, list[float]] = {label: [] for label in ways}
    bare: list[float] = []
    for _ in range(rounds):
        order = list(ways)
        random.shuffle(order)
        before = wall(steps)
        for label in order:
            during = captured(label)
            wall(settling)
            after = wall(steps)
            ratios[label].append(2 * during / (before + after))
            bare.append(before)
            before = after
    result = {
        "workload": name,
        "bare_us": round(statistics.median(bare) * 1e6, 1),
        "bare_quartiles_us": [round(q * 1e6, 1) for q in statistics.quantiles(bare, n=4)],
        "rounds": rounds,
        "ratio": {k: round(statistics.median(v), 4) for k, v in ratios.items()},
        "quartiles": {
            k: [round(q, 4) for q in statistics.quantiles(v, n=4)] for k, v in ratios.items()
        },
    }
    if not chosen or "torch.profiler" in chosen:
        result["ratio"]["torch.profiler"] = round(
            profiled(lambda: wall(steps), lambda: wall(settling), rounds), 4
        )
    text = json.dumps(result)
    print(text, flush=True)
    with open(output / "overhead.jsonl", "a") as file:
        file.write(text + "\n")


def profiled(measured: Callable[[], float], settle: Callable[[], float], rounds: int) -> float:
    """torch.profiler's overhead; last, because it keeps CUPTI to the end of the process."""
    from torch.profiler import ProfilerActivity, profile

    values = []
    for _ in range(max(3, rounds // 3)):
        before = measured()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
            settle()
            during = measured()
        settle()
        values.append(2 * during / (before + measured()))
    return statistics.median(values)


def main() -> None:
    """Measures the workloads that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out"))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--ways", default="", help="which ways, with semicolons between")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    os.environ["OPPROF_BENCH_OUT"] = str(options.output)
    if options.inside:
        chosen = [way for way in options.ways.split(";") if way]
        measure(options.workloads[0], options.output, options.rounds, chosen)
        return
    for name in options.workloads:
        try:
            subprocess.run(
                [
                    *(sys.executable, __file__, "--inside", "-o", str(options.output)),
                    *("--rounds", str(options.rounds), "--ways", options.ways, name),
                ],
                timeout=120,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"{name}: not finished in 120 s", flush=True)


if __name__ == "__main__":
    main()
