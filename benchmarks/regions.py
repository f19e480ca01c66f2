"""Times torch.compile on a whole program and on the same program with regions, in which each repeated class is compiled once.

    python benchmarks/regions.py [--models gpt2 layers24] [--tools build/bin] [--runs 3] [-o results.jsonl]

gpt2 is examples/gpt2.py; layers24 is the same model with 24 layers of width 1024 and 16 heads. Each is exported, deduplicated and emitted once. Then three ways in are
compiled in processes of their own, each with an empty cache folder and all of PyTorch's caches off:

model    the module itself, by torch.compile
whole    the program emitted without partitions
regions  the program emitted after --dedup-partitions with --emit-python --regions

Printed for each: the seconds of the first call (Dynamo, Inductor and the C++ compiler together, less one later call), kernel definitions in the generated code, functions of repeated
subgraphs and their calls, seconds of a later call, and the largest difference from the eager program. Times are medians of the runs, with the fastest and the slowest.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
MODELS: dict[str, dict[str, int]] = {
    "gpt2": {},
    "layers24": {"layers": 24, "width": 1024, "heads": 16, "hidden": 4096},
}
WAYS = ("model", "whole", "regions")


def load_model(name: str) -> tuple[Any, Any]:
    """The model and its input."""
    import torch

    sys.path.insert(0, str(EXAMPLES))
    from gpt2 import GPT2, VOCABULARY

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = GPT2(**MODELS[name]).eval().to(device)
    return model, torch.randint(0, VOCABULARY, (4 if device == "cuda" else 1, 128)).to(device)


def emit(name: str, tools: Path, folder: Path) -> dict[str, Any]:
    """Writes the programs `whole` and `regions`; what deduplication found, and how long opprof's own steps took."""
    import torch

    from opprof.export.graph_json import source_of_exported_program, write_graph_json

    model, x = load_model(name)
    with torch.no_grad():
        program = torch.export.export(model, (x,))
    write_graph_json(folder / "graph.json", source_of_exported_program(program, name))
    start = time.perf_counter()
    steps: tuple[tuple[str, ...], ...] = (
        ("opprof-translate", "--import-fx-json", "graph.json", "-o", "graph.mlir"),
        (
            "opprof-opt",
            "graph.mlir",
            "--dedup-partitions",
            "--partition-map=map.json",
            "-o",
            "d.mlir",
        ),
        ("opprof-translate", "--emit-python", "graph.mlir", "-o", "whole.py"),
        ("opprof-translate", "--emit-python", "--regions", "d.mlir", "-o", "regions.py"),
    )
    for tool, *arguments in steps:
        subprocess.run(
            [tools / tool, *arguments], check=True, cwd=folder, stderr=subprocess.DEVNULL
        )
    seconds = time.perf_counter() - start
    classes = json.loads((folder / "map.json").read_text())["classes"]
    return {
        "nodes": len(json.loads((folder / "graph.json").read_text())["graphs"][0]["nodes"]),
        "classes": [[group["node_count"], len(group["partitions"])] for group in classes],
        "import_dedup_and_emit_s": round(seconds, 3),
    }


def compile_one(name: str, way: str, folder: Path) -> dict[str, Any]:
    """Compiles and runs one way in, in this process."""
    import torch
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    config.force_disable_caches = True
    model, x = load_model(name)
    called: Any = model
    if way != "model":
        sys.path.insert(0, str(folder))
        module = __import__(way)
        called = module.load({**dict(model.named_parameters()), **dict(model.named_buffers())})
    with torch.no_grad():
        expected = model(x)
        compiled = torch.compile(called, fullgraph=True)
        start = time.perf_counter()
        result, codes = run_and_get_code(compiled, x)
        first = time.perf_counter() - start
        later = []
        for _ in range(5):
            start = time.perf_counter()
            compiled(x)
            if x.is_cuda:
                torch.cuda.synchronize()
            later.append(time.perf_counter() - start)
    code = "\n".join(codes)
    functions = re.findall(r"^def (repeated_subgraph\w*)\(", code, re.MULTILINE)
    return {
        "compile_s": first - min(later),
        "run_s": min(later),
        "kernel_definitions": len(re.findall(r"= async_compile\.", code)),
        "region_functions": len(functions),
        "region_calls": sum(len(re.findall(rf"= {function}\(", code)) for function in functions),
        "code_lines": code.count("\n"),
        "largest_difference": (result - expected).abs().max().item(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if x.is_cuda else "cpu",
    }


def compile_cold(name: str, way: str, folder: Path) -> dict[str, Any]:
    """compile_one in a process of its own, with a cache folder that is empty."""
    with tempfile.TemporaryDirectory(prefix="opprof-inductor-") as cache:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
        command = [sys.executable, __file__, "--one", name, way, str(folder)]
        process = subprocess.run(command, env=environment, capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{process.stderr[-4000:]}")
    return json.loads(process.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--tools", type=Path, default=Path("build/bin"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, way, folder = arguments.one
        print(json.dumps(compile_one(name, way, Path(folder))))
        return
    lines = []
    for name in arguments.models:
        with tempfile.TemporaryDirectory(prefix="opprof-regions-") as folder:
            found = emit(name, arguments.tools.resolve(), Path(folder))
            for way in arguments.ways:
                runs = [compile_cold(name, way, Path(folder)) for _ in range(arguments.runs)]
                times = [run.pop("compile_s") for run in runs]
                row = {
                    "model": name,
                    "way": way,
                    "compile_s": round(statistics.median(times), 2),
                    "fastest_s": round(min(times), 2),
                    "slowest_s": round(max(times), 2),
                    **runs[0],
                    "run_s": round(min(run["run_s"] for run in runs), 4),
                    **found,
                }
                lines.append(json.dumps(row))
                print(lines[-1], flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
