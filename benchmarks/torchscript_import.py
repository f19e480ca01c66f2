"""Compares the import of TorchScript archives with torch::jit::load and its inlining, in one run, and looks at what was imported.

    python benchmarks/torchscript_import.py MODEL.pt… [--tools build/bin] [--repeat 3]

An archive may be followed by what its method is called with, and by how many layers it is known to have: `model.pt:2x16xi64,2x16xi64:12`;
commas in brackets are the input's own.
Of each archive it prints the seconds that LibTorch takes to load it and to inline its method, in a process of its own, those of the whole import
without a run (load, inlining, translation and writing), each the best of runs in turns, their ratio, the number of nodes, how many of them have no module path or no line, and how many
partitions the classes of repeats have. The bar is a ratio of 2, no node without a place, and a class of as many partitions as there are layers.
Of an archive of a few nodes the ratio says little: LibTorch registers its operators' schemas when the first archive is read, which takes the import 0.02 to 0.03 s, and what it is
compared with did so when PyTorch was loaded, before its time begins. Beside a program of C++ that does nothing else it is 1.4 (results/torchscript-import.txt).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Without the Python objects that torch.jit.load makes of each module.
BASELINE = """
import sys, time, torch
start = time.perf_counter()
unit = torch._C.CompilationUnit()
module = torch._C.import_ir_module(unit, sys.argv[1], torch.device("cpu"), {}, False)
torch._C._jit_pass_inline(module._get_method("forward").graph)
print(time.perf_counter() - start)
"""


def load_and_inline(archive: str) -> float:
    """Seconds that LibTorch takes alone."""
    command = [sys.executable, "-W", "ignore", "-c", BASELINE, archive]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def nodes_of(block: dict[str, Any]) -> list[dict[str, Any]]:
    result = []
    for node in block["nodes"]:
        result.append(node)
        for inner in node.get("blocks", []):
            result.extend(nodes_of(inner))
    return result


def import_once(tool: Path, archive: str, target: Path, inputs: list[str]) -> dict[str, float]:
    """Seconds by step, as the tool measures them inside its one process."""
    command = [tool, archive, "-o", target, "--timing", *(f"--input={text}" for text in inputs)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return {
        name: float(seconds) for name, seconds in re.findall(r"(\w+) ([\d.]+) s", process.stderr)
    }


def texts_of(inputs: str) -> list[str]:
    """What stands between the commas that are in no brackets."""
    texts, depth = [""], 0
    for sign in inputs:
        depth += (sign in "[({") - (sign in "])}")
        if sign == "," and depth == 0:
            texts.append("")
        else:
            texts[-1] += sign
    return texts


def repeats(tools: Path, graph: Path) -> list[int]:
    """The number of partitions of each class, the largest first."""
    module, partitions = graph.with_suffix(".mlir"), graph.with_suffix(".partitions.json")
    subprocess.run(
        [tools / "opprof-translate", "--import-fx-json", graph, "-o", module], check=True
    )
    dedup = f"--dedup-partitions=partition-map={partitions}"
    subprocess.run([tools / "opprof-opt", module, dedup, "-o", "/dev/null"], check=True)
    classes = json.loads(partitions.read_text())["classes"]
    return sorted((len(entry["partitions"]) for entry in classes), reverse=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("archives", nargs="+")
    parser.add_argument("--tools", type=Path, default=Path("build/bin"))
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{'archive':28} {'load+inline':>12} {'import':>9} {'ratio':>6} {'nodes':>6} {'placeless':>9} {'layers':>6}  repeats"
    )
    with tempfile.TemporaryDirectory() as folder:
        target, tool = Path(folder) / "graph.json", options.tools / "opprof-torchscript"
        for entry in options.archives:
            archive, inputs, layers, *_ = (*entry.split(":"), "", "")
            # In turns, so that what else the machine does meets both.
            runs = [
                (
                    sum(import_once(tool, archive, target, []).values()),
                    load_and_inline(archive),
                )
                for _ in range(options.repeat)
            ]
            whole, theirs = map(min, zip(*runs, strict=True))
            if inputs:
                import_once(tool, archive, target, texts_of(inputs))
            nodes = nodes_of(json.loads(target.read_text())["graphs"][0])
            placeless = sum("modules" not in node or "stack" not in node for node in nodes)
            classes = repeats(options.tools, target)
            print(
                f"{Path(archive).stem:28} {theirs:12.4f} {whole:9.4f} {whole / theirs:6.2f} "
                f"{len(nodes):6} {placeless:9} {layers or '-':>6}  {classes}",
                flush=True,
            )


if __name__ == "__main__":
    main()
