"""Training programs with one fault each, and the same without it: whether the fault is named, at its line, and what it is said to cost.

    python benchmarks/planted_faults.py [--device cuda] [--rounds 5] [--only item,clip] [-o FOLDER] [--jobs 4]

Each pair of benchmarks/models/faulty_train.py runs bare, the two in turns in one process: the saving is the median of what the rounds
differ by. Then `opprof run` records either, and `opprof report --json` says what the fault costs. Several start and report at a time,
one at a time runs. Printed is a line for each fault, with the cost over the saving (1 is right), and the findings about lines of the
programs without it. The folder gets all of it as planted.json, beside the recordings, and what there is of it after each fault. On a CPU savings are of the process's own time, as the machine may be busy; those of a program that waits for its
data are of the clock's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "benchmarks" / "models" / "faulty_train.py"
sys.path.insert(0, str(PROGRAM.parent))

import faulty_train  # type: ignore[import-not-found]  # noqa: E402

SECONDS = 0.25


def measure(fault: str, device: str, rounds: int) -> dict[str, Any]:
    """What a step of either takes, bare, and what they differ by."""
    import torch

    torch.set_num_threads(1)
    clock: Callable[[], float] = time.perf_counter
    if device == "cpu" and fault not in ("loader", "workers"):
        clock = time.process_time
    pair = [faulty_train.Program(fault, is_faulty, device) for is_faulty in (True, False)]

    def block(program: Any, steps: int) -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        start = clock()
        for _ in range(steps):
            program.step()
        if device == "cuda":
            torch.cuda.synchronize()
        return (clock() - start) / steps

    for program in pair:
        block(program, 4)
    steps = max(10, min(200, int(SECONDS / block(pair[0], 3))))
    times = [[block(program, steps) for program in pair] for _ in range(rounds)]
    return {
        "steps": steps,
        "faulty_ns": statistics.median(faulty for faulty, _ in times) * 1e9,
        "fixed_ns": statistics.median(fixed for _, fixed in times) * 1e9,
        "saved_ns": statistics.median(faulty - fixed for faulty, fixed in times) * 1e9,
        "rounds_ns": [(faulty - fixed) * 1e9 for faulty, fixed in times],
    }


def measure_apart(fault: str, device: str, rounds: int) -> dict[str, Any]:
    """In a process that was forked from this one, which has PyTorch loaded, and no device yet."""
    import torch  # noqa: F401

    read, write = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(read)
            with os.fdopen(write, "w") as pipe:
                json.dump(measure(fault, device, rounds), pipe)
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1]:
        return {"error": "the bare programs failed"}
    return dict(json.loads(text))


def record(fault: str, state: str, device: str, steps: int, folder: Path) -> dict[str, Any]:
    """The profile of a program under `opprof run`."""
    run = folder / f"{fault}-{state}"
    command = [
        sys.executable,
        "-m",
        "opprof",
        "run",
        "-o",
        run,
        "--",
        sys.executable,
        PROGRAM,
        fault,
        state,
    ]
    done = subprocess.run(
        [*command, "--device", device, "--steps", str(steps), "--lock", folder / "lock"],
        capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )  # fmt: skip
    # Workers of a loader have none.
    profiles = list(run.glob("**/profile*.opprof.json"))
    if not profiles:
        return {"error": done.stderr[-2000:], "findings": [], "steps": []}
    return dict(json.loads(max(profiles, key=lambda file: file.stat().st_size).read_text()))


def lines_of(fault: str) -> set[str]:
    marked = enumerate(PROGRAM.read_text().splitlines(), 1)
    return {f"{PROGRAM}:{number}" for number, line in marked if f"# {fault}" in line.split("  ")}


def about_lines(profile: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Findings about a line of the program: which, where, and the cost."""
    return [
        (finding["id"], finding["evidence"]["source"], finding.get("severity_ns_per_step") or 0)
        for finding in profile["findings"]
        if finding["evidence"].get("source")
    ]


def judge(fault: str, bare: dict[str, Any], faulty: dict[str, Any], fixed: dict[str, Any]) -> Any:
    """A row of the table."""
    ids, lines = faulty_train.FAULTS[fault][0], lines_of(fault)
    costs = [finding for finding in about_lines(faulty) if finding[0] in ids]
    named = [finding for finding in costs if finding[1] in lines]
    whole = [f for f in faulty["findings"] if f["id"] in ids]
    cost = sum(cost for *_, cost in named)
    steps = [max(1, profile.get("summary", {}).get("steps") or 1) for profile in (faulty, fixed)]
    return {
        "fault": fault,
        "named": bool(whole),
        "line": bool(named),
        "cost_ns": cost if named else sum(f.get("severity_ns_per_step") or 0 for f in whole),
        **bare,
        "wrongly_named": [
            f"{name} {Path(source).name} {cost / 1e3:.0f} us"
            for name, source, cost in about_lines(fixed)
        ],
        "others": [
            f"{name} {Path(source).name} {cost / 1e3:.0f} us"
            for name, source, cost in about_lines(faulty)
            if source not in lines
        ],
        "steps_found": [
            faulty.get("summary", {}).get("steps"),
            fixed.get("summary", {}).get("steps"),
        ],
        # What the recording made of the steps: what a step took, and what of that recording did.
        **{
            f"{name}_ns": [
                profile.get("summary", {}).get(f"{key}_ns", 0) // count
                for profile, count in zip((faulty, fixed), steps, strict=True)
            ]
            for name, key in (("recorded", "wall"), ("recording", "recording"))
        },
        "error": bare.get("error") or faulty.get("error") or fixed.get("error"),
    }


def print_row(row: dict[str, Any]) -> None:
    if row["error"]:
        print(f"{row['fault']:12} failed: {row['error'].strip().splitlines()[-1]}", flush=True)
        return
    ratio = row["cost_ns"] / row["saved_ns"] if row["saved_ns"] > 0 else float("nan")
    print(
        f"{row['fault']:12} {'yes' if row['named'] else 'NO':5} {'yes' if row['line'] else 'NO':5} {row['cost_ns'] / 1e3:9.1f} "
        f"{row['saved_ns'] / 1e3:9.1f} {ratio:6.2f} {row['faulty_ns'] / 1e3:9.1f}  {'; '.join(row['wrongly_named'])}",
        flush=True,
    )
    for other in row["others"]:
        print(f"{'':12} and {other}", flush=True)


def machine(device: str) -> dict[str, Any]:
    """What the figures are of."""
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return {"device": name, "cores": os.cpu_count(), "torch": torch.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40, help="that are recorded")
    parser.add_argument("--jobs", type=int, default=4, help="programs that start at a time")
    parser.add_argument("--only", help="faults, with commas between")
    parser.add_argument(
        "-o", "--output", type=Path, help="a folder for the recordings and planted.json"
    )
    options = parser.parse_args()
    faults = [
        fault
        for fault, (_, on_cpu) in faulty_train.FAULTS.items()
        if options.device == "cuda" or on_cpu
    ]
    if options.only:
        faults = options.only.split(",")
    started = time.perf_counter()
    print(
        f"{'fault':12} {'named':5} {'line':5} {'cost us':>9} {'saved us':>9} {'ratio':>6} {'step us':>9}  wrongly named without it"
    )
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bare = {fault: measure_apart(fault, options.device, options.rounds) for fault in faults}
        measured = time.perf_counter()
        document = {**machine(options.device), "rounds": options.rounds, "faults": rows}
        with ThreadPoolExecutor(options.jobs) as pool:
            profiles = {
                (fault, state): pool.submit(
                    record, fault, state, options.device, options.steps, folder
                )
                for fault in faults
                for state in ("faulty", "fixed")
            }
            for fault in faults:
                faulty, fixed = (profiles[fault, state].result() for state in ("faulty", "fixed"))
                rows.append(judge(fault, bare[fault], faulty, fixed))
                # What is there is kept where the rest takes too long.
                whole = folder / "planted.json.part"
                whole.write_text(json.dumps(document, indent=1) + "\n")
                whole.replace(folder / "planted.json")
                print_row(rows[-1])
    right = sum(
        row["line"] and abs(row["cost_ns"] / row["saved_ns"] - 1) <= 0.2
        for row in rows
        if not row["error"]
    )
    print(
        f"{sum(row['line'] for row in rows)} of {len(rows)} named at their line, {right} with a cost within 20 %, "
        f"{sum(len(row['wrongly_named']) for row in rows)} named that are not there; "
        f"{measured - started:.0f} s bare, {time.perf_counter() - measured:.0f} s recorded"
    )


if __name__ == "__main__":
    main()
