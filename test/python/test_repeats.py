"""Every repeat at every nesting level, against the modules that PyTorch recorded (benchmarks/nested_repeats.py does it for large models)."""

import gzip
import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from dedup_models import MODELS, build
from repeat_oracle import MergedNodes, equal_instances, wrongly_merged

from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.tools import run_tool

INPUTS = Path(__file__).parents[1] / "Dialect" / "FX" / "Transforms" / "Inputs"

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
    groups, _ = equal_instances(program.graph)
    left, classes, missed = {}, {}, {}
    for options in ("", "any-order", "levels=8", "levels=8 any-order"):
        file = tmp_path / "map.json"
        flag = f"--dedup-partitions=partition-map={file} {options}"
        run_tool("opprof-opt", [module, flag, "-o", tmp_path / "merged.mlir"])
        partitions = json.loads(file.read_text())
        merged = MergedNodes(partitions)
        left[options] = merged.count(nodes)
        missed[options] = {path for group in groups for path in merged.not_merged(group)}
        hashes = [group["hash"] for group in partitions["classes"]]
        assert len(set(hashes)) == len(hashes), options
        classes[options] = hashes
    assert left["any-order"] <= left[""]
    assert left["levels=8 any-order"] <= left["levels=8"] <= left[""]
    assert missed["any-order"] <= missed[""]
    assert missed["levels=8 any-order"] <= missed["levels=8"]
    if left["any-order"] == left[""]:
        assert len(classes["any-order"]) <= len(classes[""])
    if left["levels=8 any-order"] == left["levels=8"]:
        assert classes["levels=8 any-order"] == classes["levels=8"]


def test_any_order_gives_up_no_module(tmp_path: Path) -> None:
    """An encoder and a decoder of two layers each, whose positions are relative (UMT5): in the dataflow's order 13 nodes less are
    left, but of the 22 modules that the recorded order merges ten are not merged any more."""
    text = gzip.decompress((INPUTS / "relative_attention.json.gz").read_bytes())
    graph, module = tmp_path / "graph.json", tmp_path / "graph.mlir"
    graph.write_bytes(text)
    run_tool("opprof-translate", ["--import-fx-json", graph, "-o", module])
    document = json.loads(text)
    nodes_of: dict[str, list[str]] = defaultdict(list)
    for node in document["graphs"][0]["nodes"]:
        for entry in document["modules"][node["modules"]] if "modules" in node else ():
            nodes_of[entry["path"]].append(node["name"])

    def merged(options: str) -> MergedNodes:
        file = tmp_path / "map.json"
        flag = f"--dedup-partitions=partition-map={file} {options}"
        run_tool("opprof-opt", [module, flag, "-o", tmp_path / "merged.mlir"])
        return MergedNodes(json.loads(file.read_text()))

    for levels in (1, 8):
        recorded, any_order = merged(f"levels={levels}"), merged(f"levels={levels} any-order")
        assert any_order.count(nodes_of[""]) <= recorded.count(nodes_of[""])
        repeated = 0
        for nodes, others in combinations(nodes_of.values(), 2):
            if [*map(recorded.find, nodes)] == [*map(recorded.find, others)]:
                repeated += 1
                assert [*map(any_order.find, nodes)] == [*map(any_order.find, others)]
        assert repeated > 10


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
