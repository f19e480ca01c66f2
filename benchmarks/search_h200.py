"""Optimizes models with cold caches, and prints for each the time of a step by every recipe and by opprof's program, with errors.

    PATH=build/bin:$PATH PYTHONPATH=python python benchmarks/search_h200.py -o out/search [--minutes 9] [--gpus 2] [--beside] [NAME[:SECONDS] …]

Models are the examples and those of benchmarks/models; names choose among them, or are scripts' paths, and have a time box of their own behind a colon. What OUT
holds already is not run again, so that calls of limited time go on where the last one stopped. With several GPUs a search runs on each, on a share of the cores. `--beside` measures all
recipes and the backend that was handed out once more, in another process and one interleaved run: in a time box most recipes have no room. Needs a GPU to say
anything; transformers and torchvision for some models.
"""

import argparse
import json
import math
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXAMPLES = (
    "gpt2",
    "embedding_projection",
    "sdpa_attention",
    "mlp_activations",
    "conv_block",
    "depthwise_separable_conv",
    "lstm_sequence_encoder",
)
# In the order of the table that the project is held to.
OTHERS = ("resnet50", "bert_base", "llama_grouped")
MORE = ("t5_small", "vit_base", "recommender", "gru_tagger", "experts")
SHORT = {
    "reduce-overhead": "r.-overhead",
    "float16 module, frozen, in one CUDA graph": "fp16 graph",
    "bfloat16 module, frozen, in one CUDA graph": "bf16 graph",
}


def script_of(name: str) -> Path:
    if name.endswith(".py"):
        return Path(name)
    folder = ROOT / "examples" if name in EXAMPLES else ROOT / "benchmarks" / "models"
    return folder / f"{name}.py"


def search(name: str, box: float, gpu: int, options: argparse.Namespace, end: float) -> None:
    """One run with caches of its own, and all recipes beside what it handed out; its time and what it printed stay beside the results."""
    output: Path = options.output / Path(name).stem
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
            "TRITON_CACHE_DIR": f"{caches}/triton",
        }
        apart: list[str] = []
        if options.gpus > 1:
            cores = sorted(os.sched_getaffinity(0))
            share = max(1, len(cores) // options.gpus)
            own = cores[gpu * share :][:share] or cores
            if shutil.which("taskset"):
                apart = ["taskset", "--cpu-list", ",".join(map(str, own))]
            environment |= {"CUDA_VISIBLE_DEVICES": str(gpu), "OMP_NUM_THREADS": str(len(own))}
        script = str(script_of(name))
        if not (output / "optimize.json").is_file():
            print(f"{name} …", file=sys.stderr, flush=True)
            command = [*apart, sys.executable, "-m", "opprof", "optimize"]
            command += [script, "-o", str(output)]
            command += [f"--error-budget={options.error_budget}", f"--budget-seconds={box}"]
            start = time.monotonic()
            run(command, environment, output / "log.txt", end)
            seconds = {"seconds": time.monotonic() - start}
            (output / "wall.json").write_text(json.dumps(seconds))
        if options.beside and (output / "optimize.json").is_file():
            command = [*apart, sys.executable, __file__, script, "-o", str(output), "--measure"]
            command += [f"--error-budget={options.error_budget}"]
            run(command, environment, output / "beside.txt", end)


def run(command: list[str], environment: dict[str, str], log: Path, end: float) -> None:
    """A command until `end`. What it prints is written as it comes: what was stopped says how far it got."""
    limit = max(1.0, end - time.monotonic())
    with log.open("w") as stream:
        try:
            subprocess.run(
                command, env=environment, stdout=stream, stderr=stream, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            stream.write(f"stopped after {limit:.0f} s\n")


# Seconds that choosing kernels by timing them may take.
TUNING_SECONDS = 30.0


def measure_beside(script: Path, output: Path, error_budget: float) -> None:
    """All recipes, and the backend in `output`, in one interleaved run, to beside.json."""
    from opprof.backend.checks import Subject, check_backend, measure
    from opprof.export.model_script import load_model_script
    from opprof.search.baselines import Baseline, make_baseline, recipes, why_not_tuned
    from opprof.search.measure import measure_all
    from opprof.search.outcome import OPTIMIZED

    subject = Subject(load_model_script(script, device="cuda"))
    programs: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    backend = output / f"{script.stem}_optimized.py"
    if backend.is_file():
        verdict, program = check_backend(backend, subject, error_budget=error_budget)
        rows.append({"name": OPTIMIZED, "error": verdict.error, "within_budget": verdict.passed})
        if program is not None:
            programs[OPTIMIZED] = program
    for recipe in recipes(subject):
        made = Baseline(recipe)
        if recipe.tunes_float32 and programs:
            timed = measure(subject, programs, seconds=0.5)
            made.reason = why_not_tuned(recipe, subject, min(map(timed.median, programs)))
        if not made.reason:
            limit = TUNING_SECONDS if recipe.tunes_float32 else None
            made = make_baseline(recipe, subject, error_budget, limit=limit)
        rows.append({"name": recipe.name, "error": made.error, "within_budget": made.allowed})
        if made.program is not None:
            programs[recipe.name] = made.program
    timing = measure_all(subject, programs, seconds=5.0)
    for row in rows:
        known = row["name"] in programs
        row["latency_ns"] = timing.latency.median(row["name"]) if known else None
        row["loop_ns"] = timing.loop.get(row["name"])
    (output / "beside.json").write_text(json.dumps(rows, indent=1))


def read_result(output: Path) -> dict[str, Any] | None:
    """What a search ended with, with all recipes where they were measured beside it."""
    if not (output / "optimize.json").is_file():
        return None
    result: dict[str, Any] = json.loads((output / "optimize.json").read_text())
    result["wall"] = json.loads((output / "wall.json").read_text())["seconds"]
    if (output / "beside.json").is_file():
        result["programs"] = json.loads((output / "beside.json").read_text())
    return result


def cell(program: dict[str, Any]) -> str:
    """Microseconds and the error, or that there is none; in brackets what is over the budget."""
    if program["latency_ns"] is None:
        return "–"
    loop = f"/{program['loop_ns'] / 1e3:.0f}" if program["loop_ns"] is not None else ""
    error = "?" if program["error"] is None else f"{program['error']:.0e}"
    text = f"{program['latency_ns'] / 1e3:.0f}{loop} {error}"
    return text if program["within_budget"] else f"({text})"


def table(results: dict[str, dict[str, Any]]) -> None:
    """All models and programs; what was kept; how far predictions were off."""
    columns = list(dict.fromkeys(p["name"] for r in results.values() for p in r["programs"]))
    columns.sort(key=lambda name: name == "optimized")
    print("Microseconds a step that waits / one of a loop, and the relative error against float64")
    print(
        "| model | " + " | ".join(SHORT.get(c, c) for c in columns) + " | use | of the best | s |"
    )
    print("|---" * (len(columns) + 4) + "|")
    gains, ratios, predictions = [], [], []
    for name, result in results.items():
        programs = {program["name"]: program for program in result["programs"]}
        cells = [cell(programs[column]) if column in programs else "" for column in columns]
        times = {
            key: program["latency_ns"]
            for key, program in programs.items()
            if program["within_budget"] and program["latency_ns"] is not None
        }
        used = times[result["use"]]
        ratios.append(used / min(times.values()))
        if "Inductor" in times:
            gains.append(times["Inductor"] / used)
        use = SHORT.get(result["use"], result["use"])
        seconds = f"{result['wall']:.0f}"
        print(f"| {name} | {' | '.join(cells)} | {use} | {ratios[-1]:.3f} | {seconds} |")
        seen: set[str] = set()
        for trial in result["trials"]:
            # Of several in one trial the first counts.
            if seen.intersection(trial.get("together", ())):
                continue
            seen.add(trial["script"])
            if trial["predicted_ns"] is not None and trial["measured_ns"] is not None:
                measured = trial["measured_ns"]
                least = max(abs(measured), 0.02 * trial["before_ns"])
                predictions.append(abs(trial["predicted_ns"] - measured) / least)
    if gains:
        mean = math.exp(statistics.mean(math.log(gain) for gain in gains))
        print(f"\ngeometric mean over Inductor: {mean:.2f} (n = {len(gains)})")
    print(f"largest ratio to the best within the budget: {max(ratios):.3f}")
    if predictions:
        median = statistics.median(predictions)
        print(f"predictions are off by {median:.0%} at the median (n = {len(predictions)})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="models, NAME or NAME:SECONDS (default: all)")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0, help="of this call (default: 9)")
    parser.add_argument("--error-budget", type=float, default=1e-3)
    parser.add_argument("--budget-seconds", type=float, default=100.0)
    parser.add_argument("--gpus", type=int, default=1, help="searches side by side (default: 1)")
    parser.add_argument("--beside", action="store_true", help="measure all recipes afterwards")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure_beside(Path(options.names[0]), options.output, options.error_budget)
        return 0
    end = time.monotonic() + 60 * options.minutes
    names = options.names or [*OTHERS, *EXAMPLES, *MORE]
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        left.put(name)

    def work(gpu: int) -> None:
        while time.monotonic() < end - 60:
            try:
                name, _, box = left.get_nowait().partition(":")
            except queue.Empty:
                return
            search(name, float(box or options.budget_seconds), gpu, options, end)

    workers = [threading.Thread(target=work, args=(gpu,)) for gpu in range(options.gpus)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    results: dict[str, dict[str, Any]] = {}
    for name in (Path(one.partition(":")[0]).stem for one in names):
        output = options.output / name
        result = read_result(output)
        if result is None:
            log = output / "log.txt"
            tail = log.read_text().splitlines()[-6:] if log.is_file() else ["not begun"]
            print(f"{name}: no result\n  " + "\n  ".join(tail), file=sys.stderr)
            continue
        phases = ", ".join(f"{key} {value:.0f}" for key, value in result["seconds"].items())
        print(f"{name}: {result['wall']:.0f} s ({phases}); {result['remark']}", file=sys.stderr)
        results[name] = result
    if results:
        table(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
