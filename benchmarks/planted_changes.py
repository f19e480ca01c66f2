"""Compares pairs of made runs, equal ones and ones with a planted change, and counts what `opprof diff` says of them.

    python benchmarks/planted_changes.py [--equal 1000] [--changed 100] [--tools build/bin] [-o benchmarks/results/planted-changes.json]

A run is a profile of 300 nodes whose times have the noise that recordings have: of each kernel, of each step, of steps that follow one another,
of steps that something disturbed, of the process (where its memory lies), and of the clock. In a changed pair one node, any, is slower by 2 % of the step.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

NODES = 300
#: Standard deviations, of the times that they are of.
KERNEL_NOISE, STEP_NOISE, DRIFT_NOISE = 0.007, 0.003, 0.002
PROCESS_NOISE, CLOCK_NOISE = 0.002, 0.005
#: How much of the drift stays from one step to the next; how often a step is disturbed, and by how much.
DRIFT_STAYS, DISTURBED, DISTURBED_BY = 0.6, 0.03, 0.15
STEP_NS, GAP_NS, TICK_NS = 3_000_000, 300, 32


def base_times(random: np.random.Generator) -> np.ndarray:
    """What the nodes of a program take: few take much, many little."""
    times = random.lognormal(0, 1.5, NODES)
    return times / times.sum() * STEP_NS


def write_run(path: Path, base: np.ndarray, steps: int, random: np.random.Generator) -> None:
    """A profile of a process that runs the program."""
    drift = np.zeros(steps)
    for step in range(1, steps):
        drift[step] = DRIFT_STAYS * drift[step - 1] + random.normal(0, DRIFT_NOISE)
    factor = 1 + drift + random.normal(0, STEP_NOISE, steps)
    factor += DISTURBED_BY * (random.random(steps) < DISTURBED)
    process = 1 + random.normal(0, PROCESS_NOISE, NODES) + random.normal(0, CLOCK_NOISE)
    noise = 1 + random.normal(0, KERNEL_NOISE, (steps, NODES))
    times = np.maximum(base * process * noise * factor[:, None], TICK_NS)
    durations = (np.rint(times / TICK_NS) * TICK_NS).astype(np.int64)
    ends = (durations + GAP_NS).cumsum().reshape(steps, NODES)
    starts = ends - durations
    kernels = ",".join(
        '{"id":%d,"name":"kernel_%d","device":0,"stream":7,"step":%d,"start_ns":%d,"duration_ns":%d,"nodes":["node_%d"],'
        '"method":"kernel_hash","confidence":"high"}'
        % (step * NODES + node, node, step, starts[step, node], durations[step, node], node)
        for step in range(steps)
        for node in range(NODES)
    )
    marks = [
        {
            "index": step,
            "start_ns": int(starts[step, 0]) - GAP_NS,
            "end_ns": int(ends[step, -1]),
            "phase": "steady",
        }
        for step in range(steps)
    ]
    nodes = [{"name": f"node_{node}", "module": f"h.{node // 12}"} for node in range(NODES)]
    head = {
        "version": 1,
        "sources": [{"kind": "opprof capture", "file": path.name}],
        "graph": "made",
        "stage": "export",
        "devices": [{"id": 0, "name": "made", "kind": "cuda"}],
        "summary": {"steps": steps, "steps_from": "profiler_step"},
        "steps": marks,
        "nodes": nodes,
    }
    path.write_text(json.dumps(head)[:-1] + ', "kernels": [' + kernels + "]}")


def compare(driver: Path, a: Path, b: Path) -> dict[str, object]:
    command = [driver, "diff", "--format=json", "--fail-above=0", f"--to={b}", "--", a]
    result = subprocess.run(command, capture_output=True, check=False)
    if result.returncode not in (0, 3):
        sys.exit(result.stderr.decode())
    return json.loads(result.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--equal", type=int, default=1000)
    parser.add_argument("--changed", type=int, default=100)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tools", type=Path, default=Path("build/bin"))
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    driver = options.tools / "opprof-driver"
    began = time.monotonic()
    called: Counter[str] = Counter()
    shares, missed = [], []
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder) / "a.json", Path(folder) / "b.json"
        for pair in range(options.equal + options.changed):
            random = np.random.default_rng([options.seed, pair])
            base = base_times(random)
            changed = base.copy()
            planted = None
            if pair >= options.equal:
                planted = int(random.integers(NODES))
                changed[planted] += 0.02 * STEP_NS
            write_run(a, base, options.steps, random)
            write_run(b, changed, options.steps, random)
            result = compare(driver, a, b)
            verdicts = {
                item["name"]["name"]: item["verdict"]
                for item in result["items"]
                if item["verdict"] in ("slower", "faster")
            }
            step = result["step"]["verdict"]
            kind = "equal" if planted is None else "changed"
            called[f"{kind}: step {step}"] += 1
            if planted is None:
                called["equal pairs in which anything is called slower"] += bool(result["failed"])
                called["equal pairs in which anything is called faster"] += (
                    "faster" in verdicts.values() or step == "faster"
                )
                continue
            named = verdicts.pop(f"node_{planted}", None) == "slower"
            called["changed pairs in which the node is named"] += named
            called["changed pairs in which another is called changed"] += bool(verdicts)
            shares.append(base[planted] / STEP_NS)
            if not named:
                missed.append(round(100 * shares[-1], 3))
    figures = {
        "equal_pairs": options.equal,
        "changed_pairs": options.changed,
        "steps": options.steps,
        "nodes": NODES,
        "seed": options.seed,
        "called": dict(sorted(called.items())),
        "shares_of_missed_pct": missed,
        "seconds": round(time.monotonic() - began, 1),
    }
    text = json.dumps(figures, indent=1) + "\n"
    print(text, end="")
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
