"""Optimizes models with cold caches, and prints for each the time of a step by every recipe and by opprof's program, with errors.

    PATH=build/bin:$PATH PYTHONPATH=python python benchmarks/search_h200.py -o out/search [--minutes 9] [NAME …]

Models are the examples and those of benchmarks/models; names choose among them, or are scripts' paths. What OUT holds already is not run again, so that calls of
limited time go on where the last one stopped. Needs a GPU to say anything; transformers and torchvision for some models.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
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


def optimize(name: str, output: Path, options: argparse.Namespace, limit: float) -> None:
    """One run with caches of its own; its time and what it printed stay beside the results."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as caches:
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
            "TRITON_CACHE_DIR": f"{caches}/triton",
        }
        command = [sys.executable, "-m", "opprof", "optimize", str(script_of(name))]
        command += ["-o", str(output), f"--error-budget={options.error_budget}"]
        command += [f"--budget-seconds={options.budget_seconds}"]
        output.mkdir(parents=True, exist_ok=True)
        # As it comes: what was stopped says how far it got.
        with (output / "log.txt").open("w") as log:
            try:
                subprocess.run(
                    command, env=environment, stdout=log, stderr=log, timeout=limit, check=False
                )
            except subprocess.TimeoutExpired:
                log.write(f"stopped after {limit:.0f} s\n")
    (output / "wall.json").write_text(json.dumps({"seconds": time.monotonic() - start}))


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
    parser.add_argument("names", nargs="*", help="models (default: all)")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=9.0, help="of this call (default: 9)")
    parser.add_argument("--error-budget", type=float, default=1e-3)
    parser.add_argument("--budget-seconds", type=float, default=100.0)
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    results: dict[str, dict[str, Any]] = {}
    for name in options.names or (*OTHERS, *EXAMPLES, *MORE):
        output = options.output / Path(name).stem
        if not (output / "optimize.json").is_file():
            left = end - time.monotonic()
            if left < 60:
                print(f"{name}: no time left in this call", file=sys.stderr)
                continue
            print(f"{name} …", file=sys.stderr, flush=True)
            optimize(name, output, options, left)
        if not (output / "optimize.json").is_file():
            tail = "\n  ".join((output / "log.txt").read_text().splitlines()[-6:])
            print(f"{name}: no result\n  {tail}", file=sys.stderr)
            continue
        result = json.loads((output / "optimize.json").read_text())
        result["wall"] = json.loads((output / "wall.json").read_text())["seconds"]
        phases = ", ".join(f"{key} {value:.0f}" for key, value in result["seconds"].items())
        print(f"{name}: {result['wall']:.0f} s ({phases}); {result['remark']}", file=sys.stderr)
        results[name] = result
    if results:
        table(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
