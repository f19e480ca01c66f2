"""Deduplication of real exported models: what repeats is found, whatever it is called, and inlining gives back the graph."""

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from dedup_models import build

from opprof.graph_json import source_of_exported_program, write_graph_json
from opprof.tools import run_tool

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "formats" / "partition-map.schema.json").read_text()
)


def export(name: str, folder: Path) -> Path:
    model, inputs = build(name)
    with torch.no_grad():
        program = torch.export.export(model, inputs)
    path = folder / f"{name}.json"
    write_graph_json(path, source_of_exported_program(program, name))
    return path


def dedup(graph: Path, folder: Path, options: str = "") -> dict[str, Any]:
    """The partition map of a graph; checks on the way that inlining undoes the pass."""
    module, merged, restored = (
        folder / f"{graph.stem}.{end}" for end in ("a.mlir", "b.mlir", "c.mlir")
    )
    partitions = folder / f"{graph.stem}.partitions.json"
    run_tool("opprof-translate", ["--import-fx-json", graph, "-o", folder / "raw.mlir"])
    run_tool("opprof-opt", [folder / "raw.mlir", "-o", module])
    flag = "--dedup-partitions" + (f"={options}" if options else "")
    run_tool("opprof-opt", [module, flag, f"--partition-map={partitions}", "-o", merged])
    run_tool("opprof-opt", [merged, "--inline-partitions", "-o", restored])
    assert restored.read_text() == module.read_text()
    result = json.loads(partitions.read_text())
    jsonschema.validate(result, SCHEMA)
    return result


def labels(result: dict[str, Any]) -> list[list[str]]:
    return [
        [partition["label"] for partition in group["partitions"]] for group in result["classes"]
    ]


def structure(result: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [
        (group["hash"], group["node_count"], len(group["partitions"]))
        for group in result["classes"]
    ]


def numbered(prefix: str, *numbers: int) -> list[str]:
    return [f"{prefix}.{number}" for number in numbers]


EXPECTED = {
    "llama": [numbered("layers", 0, 1, 2, 3)],
    "resnet": [
        numbered("stage1", 0, 1, 2),
        numbered("stage2", 1, 2, 3),
        numbered("stage3", 1, 2),
    ],
    "transformer": [numbered("encoder", 0, 1, 2), numbered("decoder", 0, 1, 2)],
    "mixture": [numbered("layers", 0, 1, 2)],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_finds_what_is_repeated(name: str, tmp_path: Path) -> None:
    result = dedup(export(name, tmp_path), tmp_path)
    assert labels(result) == EXPECTED[name]
    for group in result["classes"]:
        roles = [partition["role"] for partition in group["partitions"]]
        assert roles == ["unique"] + ["duplicate"] * (len(roles) - 1)


def test_experts_nest_in_layers(tmp_path: Path) -> None:
    result = dedup(export("mixture", tmp_path), tmp_path, "levels=2")
    layers, experts = result["classes"]
    assert experts["parent"] == layers["id"]
    assert [partition["label"] for partition in experts["partitions"]] == [
        f"layers.{layer}.experts.{expert}" for layer in range(3) for expert in range(4)
    ]
    outer = {partition["label"]: set(partition["nodes"]) for partition in layers["partitions"]}
    for partition in experts["partitions"]:
        assert set(partition["nodes"]) < outer[".".join(partition["label"].split(".")[:2])]


def scramble(source: Path, target: Path) -> None:
    """Replaces all names of nodes, inputs, modules and weights by random ones."""
    graph = json.loads(source.read_text())
    generator = random.Random(7)
    names: dict[str, str] = {}

    def renamed(name: str) -> str:
        return names.setdefault(name, f"n{generator.getrandbits(64):x}")

    def visit(value: Any) -> Any:
        if isinstance(value, list):
            return [visit(element) for element in value]
        if isinstance(value, dict):
            if set(value) == {"node"}:
                return {"node": renamed(value["node"])}
            return {key: visit(element) for key, element in value.items()}
        return value

    graph["modules"] = [
        [{"path": f"m{generator.getrandbits(64):x}", "type": "T"} for _ in entry]
        for entry in graph["modules"]
    ]
    for part in graph["graphs"]:
        for node in part["inputs"] + part["nodes"]:
            node["name"] = renamed(node["name"])
            if "target" in node and "op" not in node:
                node["target"] = f"w{generator.getrandbits(64):x}"
        for node in part["nodes"]:
            node["args"], node["kwargs"] = visit(node["args"]), visit(node["kwargs"])
        part["outputs"] = visit(part["outputs"])
    target.write_text(json.dumps(graph))


@pytest.mark.parametrize("name", EXPECTED)
def test_names_carry_no_weight(name: str, tmp_path: Path) -> None:
    plain = export(name, tmp_path)
    scramble(plain, tmp_path / "scrambled.json")
    before, after = dedup(plain, tmp_path), dedup(tmp_path / "scrambled.json", tmp_path)
    assert structure(before) == structure(after)


def test_names_carry_no_weight_in_gpt2(tmp_path: Path, examples: Path) -> None:
    """The twelve blocks of the full-size example, under random names and module paths."""
    from opprof.export import export_script

    export_script(str(examples / "gpt2.py"), str(tmp_path / "gpt2.json"), "export")
    scramble(tmp_path / "gpt2.json", tmp_path / "scrambled.json")
    before = dedup(tmp_path / "gpt2.json", tmp_path)
    after = dedup(tmp_path / "scrambled.json", tmp_path)
    assert [len(group["partitions"]) for group in after["classes"]] == [12]
    assert structure(before) == structure(after)


def test_forward_and_backward_of_gpt2(tmp_path: Path, examples: Path, script: Any) -> None:
    """Both halves of the joint graph repeat once a block."""
    from opprof.export import export_script

    path = script(
        f"""
        import sys
        sys.path.insert(0, {str(examples)!r})
        from gpt2 import GPT2

        def get_model_and_input():
            return GPT2(layers=4, width=32, heads=4, hidden=64), torch.randint(0, 100, (2, 16))
        """
    )
    export_script(str(path), str(tmp_path / "joint.json"), "aot_joint")
    result = dedup(tmp_path / "joint.json", tmp_path)
    assert [len(group["partitions"]) for group in result["classes"]] == [4, 4]
    forward, backward = result["classes"]
    assert [p["modules"] for p in forward["partitions"]] == [[f"h.{i}"] for i in range(4)]
    assert [p["modules"] for p in backward["partitions"]][-1] == ["h.0"]


def test_all_blocks_of_gpt2(tmp_path: Path, examples: Path) -> None:
    from opprof.export import export_script

    export_script(str(examples / "gpt2.py"), str(tmp_path / "gpt2.json"))
    result = dedup(tmp_path / "gpt2.json", tmp_path)
    assert labels(result) == [numbered("h", *range(12))]
    covered = sum(len(p["nodes"]) for p in result["classes"][0]["partitions"])
    assert covered == 12 * 22


def test_a_map_that_cannot_be_written(tmp_path: Path) -> None:
    from opprof.errors import OpprofError

    (tmp_path / "g.mlir").write_text("fx.graph @g() {\n  fx.output() : ()\n}\n")
    missing = tmp_path / "missing" / "p.json"
    with pytest.raises(OpprofError, match="partition map cannot be written"):
        run_tool(
            "opprof-opt", [tmp_path / "g.mlir", "--dedup-partitions", f"--partition-map={missing}"]
        )
    assert not missing.exists()
