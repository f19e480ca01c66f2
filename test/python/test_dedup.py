"""Deduplication of real exported models: what repeats is found, whatever it is called, and inlining gives back the graph."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from dedup_models import build

from opprof.export.graph_json import source_of_exported_program, write_graph_json
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
    "vit": [numbered("blocks", *range(12))],
    "bert": [numbered("layer", *range(12))],
    "t5": [numbered("encoder", *range(6)), numbered("decoder", *range(6))],
    "convnext": [
        numbered(f"stages.{stage}", *range(depth)) for stage, depth in enumerate((3, 3, 9, 3))
    ],
    "swin": [[f"blocks.{pair}+blocks.{pair + 1}" for pair in (0, 2, 4)]],
    # What the way down and the way up share: all but the first convolution, which takes fewer channels on one side.
    "unet": [["down.0", "up.2"], numbered("middle", 0, 1, 2, 3)],
    # The first step of a layer has one state for two, and of the last one a state is not used: what they share is a class.
    "lstm": [numbered(f"c{index}", *range(count)) for index, count in enumerate((2, 8, 2))],
    "mamba": [numbered("layers", 0, 1, 2, 3)],
    "efficientnet": [numbered("stage1", 1, 2, 3), numbered("stage2", 1, 2, 3, 4)],
}


# The others have one order only.
WITH_OTHER_ORDERS = (
    "llama",
    "resnet",
    "transformer",
    "mixture",
    "vit",
    "bert",
    "t5",
    "swin",
    "mamba",
)


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


def test_norms_nest_in_layers(tmp_path: Path) -> None:
    """The three norms of a decoder layer repeat, though more than a norm looks the same at first, and the one behind all layers is one of them."""
    result = dedup(export("t5", tmp_path), tmp_path, "levels=2")
    _, _, encoder, decoder, *_ = result["classes"]
    for group, last, module, norms in (
        (encoder, "norm1", "encoder", (1, 3)),
        (decoder, "norm2", "decoder", (1, 2, 3)),
    ):
        assert [partition["label"] for partition in group["partitions"]] == [
            last,
            *(f"{module}.{layer}.norm{norm}" for layer in range(6) for norm in norms),
        ]


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
    from opprof.commands.export import export_script

    export_script(str(examples / "gpt2.py"), str(tmp_path / "gpt2.json"), "export")
    scramble(tmp_path / "gpt2.json", tmp_path / "scrambled.json")
    before = dedup(tmp_path / "gpt2.json", tmp_path)
    after = dedup(tmp_path / "scrambled.json", tmp_path)
    assert [len(group["partitions"]) for group in after["classes"]] == [12]
    assert structure(before) == structure(after)


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory, examples: Path) -> Path:
    """GPT-2's joint graph: twelve layers forward and backward, narrow, with a loss."""
    from opprof.export.model_script import ModelScript
    from opprof.export.stages import capture_aot

    sys.path.insert(0, str(examples))
    from gpt2 import GPT2

    torch.manual_seed(0)
    model = GPT2(layers=12, width=32, heads=4, hidden=64).train()
    script = ModelScript(
        examples / "gpt2.py", "joint", model, (torch.randint(0, 100, (2, 16)),), {}
    )
    path = tmp_path_factory.mktemp("joint") / "joint.json"
    write_graph_json(path, capture_aot(script, "aot_joint")[0])
    return path


@pytest.mark.parametrize("options", ["", "any-order"])
def test_forward_and_backward_of_gpt2(options: str, tmp_path: Path, joint: Path) -> None:
    """Both halves of the joint graph repeat once a block, whatever anything is called."""
    result = dedup(joint, tmp_path, options)
    assert [len(group["partitions"]) for group in result["classes"]] == [12, 12]
    forward, backward = result["classes"]
    assert [p["modules"] for p in forward["partitions"]] == [[f"h.{i}"] for i in range(12)]
    assert [p["modules"] for p in backward["partitions"]][-1] == ["h.0"]
    scramble(joint, tmp_path / "scrambled.json")
    assert structure(dedup(tmp_path / "scrambled.json", tmp_path, options)) == structure(result)


def named(argument: Any) -> list[str]:
    """The nodes that an argument of graph JSON refers to."""
    if isinstance(argument, list):
        return [name for element in argument for name in named(element)]
    if isinstance(argument, dict):
        if set(argument) == {"node"}:
            return [argument["node"]]
        return [name for element in argument.values() for name in named(element)]
    return []


def reorder(source: Path, target: Path, seed: int) -> bool:
    """Writes the graph in a random order of its nodes that keeps each behind what it takes; false where it has one only."""
    document = json.loads(source.read_text())
    graph = document["graphs"][0]
    generator = random.Random(seed)
    nodes = graph["nodes"]
    own = {node["name"] for node in nodes}
    waiting, users = {}, {name: [] for name in own}
    for node in nodes:
        needed = own & set(named([node["args"], node["kwargs"]]))
        waiting[node["name"]] = len(needed)
        for name in needed:
            users[name].append(node)
    ready = [node for node in nodes if not waiting[node["name"]]]
    order = []
    while ready:
        node = ready.pop(generator.randrange(len(ready)))
        order.append(node)
        for user in users[node["name"]]:
            waiting[user["name"]] -= 1
            if not waiting[user["name"]]:
                ready.append(user)
    graph["nodes"] = order
    target.write_text(json.dumps(document))
    return order != nodes


def saved(result: dict[str, Any]) -> int:
    """Nodes that stand in a class's body instead of in its other partitions."""
    return sum(
        (len(group["partitions"]) - 1) * len(group["partitions"][0]["nodes"])
        for group in result["classes"]
        if not group.get("parent")
    )


def found(result: dict[str, Any]) -> list[tuple[str, list[tuple[str, str, frozenset[str]]]]]:
    """The classes: their hashes, and of each partition its label, its role and its nodes."""
    return [
        (
            group["hash"],
            [(p["label"], p["role"], frozenset(p["nodes"])) for p in group["partitions"]],
        )
        for group in result["classes"]
    ]


@pytest.mark.parametrize("name", [*WITH_OTHER_ORDERS, "towers", "joint"])
def test_any_order_finds_the_same_in_every_order(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Layers whose nodes are recorded between each other's are found, whole; where the recorded order saves more, it is taken."""
    graph = request.getfixturevalue("joint") if name == "joint" else export(name, tmp_path)
    expected = dedup(graph, tmp_path, "any-order")
    if name in EXPECTED:
        assert labels(expected) == EXPECTED[name]
    other = tmp_path / "reordered.json"
    moved = 0
    for seed in range(5):
        moved += reorder(graph, other, seed)
        reordered = dedup(other, tmp_path, "any-order")
        if found(reordered) != found(expected):
            assert saved(reordered) == saved(dedup(other, tmp_path)), f"order {seed}"
        else:
            assert saved(reordered) >= saved(dedup(other, tmp_path)), f"order {seed}"
    assert moved == 5


def test_all_blocks_of_gpt2(tmp_path: Path, examples: Path) -> None:
    from opprof.commands.export import export_script

    export_script(str(examples / "gpt2.py"), str(tmp_path / "gpt2.json"))
    result = dedup(tmp_path / "gpt2.json", tmp_path)
    assert labels(result) == [numbered("h", *range(12))]
    covered = sum(len(p["nodes"]) for p in result["classes"][0]["partitions"])
    assert covered == 12 * 22


def test_a_map_that_cannot_be_written(tmp_path: Path) -> None:
    from opprof.errors import OpprofError

    (tmp_path / "g.mlir").write_text("fx.graph @g() {\n  fx.output() : ()\n}\n")
    (tmp_path / "file").write_text("not a folder")
    below = tmp_path / "file" / "p.json"
    with pytest.raises(OpprofError, match=r"partition map: .*cannot be a folder of results"):
        run_tool(
            "opprof-opt", [tmp_path / "g.mlir", "--dedup-partitions", f"--partition-map={below}"]
        )
    assert (tmp_path / "file").read_text() == "not a folder"
