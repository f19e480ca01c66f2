"""Counts the repeats that --dedup-partitions finds at every nesting level, against what PyTorch recorded of the modules.

    python benchmarks/nested_repeats.py [--tools build/bin] [--only gemma3 …] [--keep FOLDER] [--any-order] [-o results.jsonl]

The oracle (test/python/repeat_oracle.py) groups the instances of one module class that compute the same; a repeat is an instance beyond
the first of its group, and is found where each of its nodes is merged with the same node of the first. The models are those of
repeat_models.py, which takes transformers, timm and torchvision; one that can't be built or exported here is named and not counted.
With --keep, graphs stay in a folder and are exported once. For each model a line has the groups and repeats, those missed with
their paths, the nodes, those that are left once everything is merged, and the classes at the outermost level and in all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "python"))

from repeat_models import ARCHITECTURES, arguments, build, measured, write_lines
from repeat_oracle import EqualInstances, MergedNodes, equal_instances

LEVELS = 16


def export(name: str, folder: Path) -> Path:
    """The graph as JSON, and beside it the oracle's groups and the names of its nodes."""
    import torch

    from opprof.export.graph_json import source_of_exported_program, write_graph_json

    graph = folder / f"{name}.json"
    model, args, kwargs = build(name)
    with torch.no_grad():
        program = torch.export.export(model, args, kwargs, strict=False)
    groups, interleaved = equal_instances(program.graph)
    write_graph_json(graph, source_of_exported_program(program, name))
    (folder / f"{name}.oracle.json").write_text(
        json.dumps(
            {
                "groups": [[group.type, group.paths, group.nodes] for group in groups],
                "interleaved": interleaved,
                "nodes": [n.name for n in program.graph.nodes if n.op == "call_function"],
            }
        )
    )
    return graph


def measure(name: str, tools: Path, folder: Path, options: str) -> dict[str, Any]:
    module, partitions = folder / f"{name}.mlir", folder / f"{name}.partitions.json"
    if not module.exists():
        graph = export(name, folder)
        translate = [tools / "opprof-translate", "--import-fx-json", graph, "-o", module]
        subprocess.run(translate, check=True, capture_output=True)
    oracle = json.loads((folder / f"{name}.oracle.json").read_text())
    flag = f"--dedup-partitions=levels={LEVELS} {options} partition-map={partitions}"
    command = [tools / "opprof-opt", module, flag, "-o", "/dev/null"]
    subprocess.run(command, check=True, capture_output=True)
    found = json.loads(partitions.read_text())
    merged = MergedNodes(found)
    groups = [
        EqualInstances(type_, tuple(paths), tuple(map(tuple, nodes)))
        for type_, paths, nodes in oracle["groups"]
    ]
    # Modules of one type may be several groups.
    missed: dict[str, list[str]] = {}
    for group in groups:
        if paths := merged.not_merged(group):
            missed.setdefault(group.type, []).extend(paths)
    outer = [
        [place for place in group["partitions"] if place.get("parent", group["parent"]) is None]
        for group in found["classes"]
    ]
    return {
        "model": name,
        "nodes": len(oracle["nodes"]),
        "left": merged.count(oracle["nodes"]),
        "saved_outermost": sum(
            len(place["nodes"]) for places in outer for place in places if place["role"] != "unique"
        ),
        "classes_outermost": sum(map(bool, outer)),
        "classes": len(found["classes"]),
        "groups": len(groups),
        "repeats": sum(len(group.paths) - 1 for group in groups),
        "missed": sum(map(len, missed.values())),
        "missed_paths": missed,
        "interleaved": oracle["interleaved"],
    }


def main() -> None:
    parser = arguments(__doc__, ARCHITECTURES)
    parser.add_argument("--any-order", action="store_true")
    options = parser.parse_args()
    order = "any-order" if options.any_order else ""
    lines = measured(
        options.only, options.keep, lambda name, folder: measure(name, options.tools, folder, order)
    )
    total = {
        key: sum(line[key] for line in lines)
        for key in ("nodes", "left", "groups", "repeats", "missed", "interleaved")
    }
    lines.append({"models": len(lines), **total})
    print(json.dumps(lines[-1]))
    write_lines(lines, options.output)


if __name__ == "__main__":
    main()
