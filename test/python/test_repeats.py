"""Every repeat at every nesting level, against the modules that PyTorch recorded (benchmarks/nested_repeats.py does it for large models)."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from dedup_models import MODELS, build
from repeat_oracle import MergedNodes, equal_instances, wrongly_merged

from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.tools import run_tool

# Of a step of recurrence PyTorch records no module; of two towers that are recorded in each other's midst only another order would do.
NAMES = [name for name in MODELS if name not in ("lstm", "towers")]


def merged_nodes(name: str, folder: Path) -> tuple[torch.fx.Graph, dict[str, Any]]:
    model, inputs = build(name)
    with torch.no_grad():
        program = torch.export.export(model, inputs)
    graph, module, partitions = (folder / f"{name}.{end}" for end in ("json", "mlir", "map"))
    write_graph_json(graph, source_of_exported_program(program, name))
    run_tool("opprof-translate", ["--import-fx-json", graph, "-o", module])
    flag = f"--dedup-partitions=levels=8 partition-map={partitions}"
    run_tool("opprof-opt", [module, flag, "-o", folder / "merged.mlir"])
    run_tool("opprof-opt", [folder / "merged.mlir", "--inline-partitions", "-o", folder / "back"])
    run_tool("opprof-opt", [module, "-o", folder / "plain"])
    assert (folder / "back").read_text() == (folder / "plain").read_text()
    return program.graph, json.loads(partitions.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_equal_instances_are_merged(name: str, tmp_path: Path) -> None:
    graph, partitions = merged_nodes(name, tmp_path)
    merged = MergedNodes(partitions)
    groups, _ = equal_instances(graph)
    assert groups or name == "unet"
    assert {group.type: paths for group in groups if (paths := merged.not_merged(group))} == {}
    assert wrongly_merged(graph, merged) == []


@pytest.mark.parametrize(
    "name", ["epsilons", "masked-pairs", "masked-towers", "mixture", "tail", "turns"]
)
def test_any_order_leaves_no_more_nodes(name: str, tmp_path: Path) -> None:
    """At the outermost level and over all of them; every structure is one class. Where no more is saved, nothing else is found."""
    model, inputs = build(name)
    with torch.no_grad():
        program = torch.export.export(model, inputs)
    graph, module = tmp_path / "graph.json", tmp_path / "graph.mlir"
    write_graph_json(graph, source_of_exported_program(program, name))
    run_tool("opprof-translate", ["--import-fx-json", graph, "-o", module])
    nodes = [node.name for node in program.graph.nodes if node.op == "call_function"]
    left, classes = {}, {}
    for options in ("", "any-order", "levels=8", "levels=8 any-order"):
        file = tmp_path / "map.json"
        flag = f"--dedup-partitions=partition-map={file} {options}"
        run_tool("opprof-opt", [module, flag, "-o", tmp_path / "merged.mlir"])
        partitions = json.loads(file.read_text())
        left[options] = MergedNodes(partitions).count(nodes)
        hashes = [group["hash"] for group in partitions["classes"]]
        assert len(set(hashes)) == len(hashes), options
        classes[options] = hashes
    assert left["any-order"] <= left[""]
    assert left["levels=8 any-order"] <= left["levels=8"] <= left[""]
    if left["any-order"] == left[""]:
        assert len(classes["any-order"]) <= len(classes[""])
    if left["levels=8 any-order"] == left["levels=8"]:
        assert classes["levels=8 any-order"] == classes["levels=8"]


def test_a_structure_is_one_class(tmp_path: Path) -> None:
    """A layer that stands in a longer class and behind it."""
    _, partitions = merged_nodes("tail", tmp_path)
    pairs, layer = partitions["classes"][:2]
    assert pairs["node_count"] > layer["node_count"]
    assert [place.get("parent", layer["parent"]) for place in layer["partitions"]] == [
        None,
        None,
        *[pairs["id"]] * 4,
    ]
    assert len({group["hash"] for group in partitions["classes"]}) == len(partitions["classes"])
