"""Which launches are counted in a run folder, and what the profile gets of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from opprof.errors import OpprofError
from opprof.recording.launch_maps import (
    LaunchMap,
    Locator,
    Places,
    launch_maps,
    origins,
)
from opprof.recording.partitions import Node, parse_partition_maps
from opprof.recording.selection import Filter, Layers, sequence_difference

PARTITIONS = {
    "classes": [
        {
            "partitions": [
                {"role": "unique", "nodes": ["a0", "b0"]},
                {"role": "duplicate", "nodes": ["a1", "b1"]},
            ]
        }
    ]
}


def _launch(index: int, *nodes: str) -> dict[str, Any]:
    return {
        "index": index,
        "line": 10 + index,
        "kernel": "fused",
        "nodes": [{"name": f"post_{n}", "from": [{"name": n}]} for n in nodes],
    }


LAUNCHES = [
    _launch(0, "embed"),
    _launch(1, "a0", "b0"),
    _launch(2, "a1", "b1"),
    _launch(3, "b1", "head"),
    _launch(4),
]


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A compiled graph's folder, and a copy of its code as Inductor's cache has it."""
    folder = tmp_path / "model__0_inference_0.0"
    folder.mkdir()
    (folder / "output_code.py").write_text("def call(args):\n    pass\n")
    (folder / "launches.json").write_text(
        json.dumps({"version": 1, "graph": "g", "launches": LAUNCHES})
    )
    (tmp_path / "cached.py").write_text("def call(args):\n    pass\n")
    return folder


def test_a_launch_is_found_by_its_code_and_line(code: Path) -> None:
    locate = Locator(launch_maps([code]))
    cached = str(code.parent / "cached.py")
    found = locate({"file": cached, "line": 12})
    assert found is not None
    assert found[0].graph == "g"
    assert found[1]["index"] == 2
    assert locate({"file": cached, "line": 99}) is None
    assert locate({"file": str(code.parent / "none.py"), "line": 12}) is None
    assert locate({}) is None


def test_launches_of_duplicates_are_not_counted(code: Path) -> None:
    cached = str(code.parent / "cached.py")
    layers = Layers(parse_partition_maps(PARTITIONS), launch_maps([code]), "here")
    launches: list[dict[str, Any]] = [
        {"kernel": "fused", "file": cached, "line": 10 + i} for i in range(5)
    ]
    launches.append({"kernel": "of no wrapper"})
    chosen = layers.choose(launches)
    assert (chosen.indices, chosen.stands_for) == ([0, 1, 3, 4, 5], {1: [2]})
    assert layers.knows(launches) and not layers.knows(launches[5:])
    # What runs other kernels is other work, whatever the graph says.
    launches[2]["kernel"] = "another"
    assert layers.choose(launches).stands_for == {}


def test_one_launch_of_each_work_is_counted(tmp_path: Path) -> None:
    # The unique partition's first launch computes the embedding too, so the first duplicate's stands for the others'.
    partitions = {
        "classes": [
            {
                "partitions": [
                    {"role": "unique", "nodes": ["a0"]},
                    {"role": "duplicate", "nodes": ["a1"]},
                    {"role": "duplicate", "nodes": ["a2"]},
                ]
            }
        ]
    }
    folder = tmp_path / "g"
    folder.mkdir()
    (folder / "output_code.py").write_text("pass\n")
    launches = [_launch(0, "embed", "a0"), _launch(1, "a1"), _launch(2, "a2")]
    (folder / "launches.json").write_text(json.dumps({"graph": "g", "launches": launches}))
    (tmp_path / "cached.py").write_text("pass\n")
    cached = str(tmp_path / "cached.py")
    maps = launch_maps([folder])
    recorded = [{"kernel": "fused", "file": cached, "line": 10 + i} for i in range(3)]
    assert Layers(parse_partition_maps(partitions), maps, "here").choose(recorded).stands_for == {
        1: [2]
    }


def test_nested_duplicates_lead_to_one_representative() -> None:
    a, b, c, x = (Node("g", "export", name) for name in "abcx")
    places = Places({c: b, b: a, x: x})
    assert places.representative(c) == a
    assert places.representative(a) == a
    assert places.representative(x) == x
    # Another graph's node of the same name has a place of its own.
    other = c._replace(graph="other")
    assert places.representative(other) == other
    assert origins(_launch(0, "p", "q")) == {Node("", "", "p"), Node("", "", "q")}


def test_partition_maps_of_two_graphs_keep_their_nodes_apart() -> None:
    maps = [
        {"graph": "g", "stage": "export", **PARTITIONS},
        {
            "graph": "h",
            "stage": "export",
            "classes": [
                {
                    "partitions": [
                        {"role": "unique", "nodes": ["a1"]},
                        {"role": "duplicate", "nodes": ["a0"]},
                    ]
                }
            ],
        },
    ]
    layers = Layers(parse_partition_maps(maps), [], "here")
    launches = [
        {"kernel": "k", "node": name, "graph": graph} for graph in "gh" for name in ("a0", "a1")
    ]
    chosen = layers.choose(launches)
    assert (chosen.indices, chosen.stands_for) == ([0, 3], {0: [1], 3: [2]})


def test_a_damaged_launch_map_is_said(code: Path) -> None:
    (code / "launches.json").write_text("{")
    with pytest.raises(
        OpprofError, match=r"model__0_inference_0\.0/launches\.json: cannot be read"
    ):
        launch_maps([code])
    assert LaunchMap("g", "", {}).by_line == {}


def test_without_repeats_every_node_is_counted() -> None:
    layers = Layers(parse_partition_maps({"graph": "g", "classes": []}), [], "here")
    launches = [{"kernel": "k", "node": f"n{i}", "graph": "g"} for i in range(3)]
    assert layers.knows(launches)
    assert layers.choose(launches).indices == [0, 1, 2]
    assert not layers.knows([{"kernel": "k", "node": "n0", "graph": "another"}])


def test_launches_are_narrowed_by_name_then_time_then_place() -> None:
    launches = [
        {"kernel": name, "duration_ns": time}
        for name, time in (("a", 5), ("b", 9), ("a", 5), ("c", 1), ("b", 9), ("b", 9))
    ]
    every = range(6)
    assert not Filter().narrows and Filter().apply(launches, every) == list(every)
    assert Filter(kernels="a|c").apply(launches, every) == [0, 2, 3]
    assert Filter(top=1).apply(launches, every) == [1, 4, 5]
    assert Filter(top=2).apply(launches, [0, 1, 3]) == [0, 1]
    assert Filter(launch_skip=1, launch_count=2).apply(launches, every) == [1, 2]
    assert Filter(kernels="b", launch_skip=1).apply(launches, every) == [4, 5]
    assert Filter(kernels="[ac]", top=1, launch_count=1).apply(launches, every) == [0]
    assert Filter(launch_skip=9).apply(launches, every) == []
    with pytest.raises(OpprofError, match="not a regular expression"):
        Filter(kernels="(")


def test_a_sequence_of_other_kernels_is_told_by_its_first_difference() -> None:
    def kernels(*names: str) -> list[dict[str, Any]]:
        return [{"kernel": name, "grid": [4, 1, 1], "block": [128, 1, 1]} for name in names]

    assert sequence_difference(kernels("a", "b"), kernels("a", "b")) is None
    assert "kernel 1 of the graph is c grid (4, 1, 1)" in str(
        sequence_difference(kernels("a", "c"), kernels("a", "b"))
    )
    assert "outside of it is at its end after 1" in str(
        sequence_difference(kernels("a", "c"), kernels("a"))
    )
    other = kernels("a")
    other[0]["grid"] = [8, 1, 1]
    assert "grid (8, 1, 1)" in str(sequence_difference(other, kernels("a")))
