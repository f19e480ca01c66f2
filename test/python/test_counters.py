"""Which launches are counted in a run folder, and what the profile gets of it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from opprof.counters import (
    LaunchMap,
    Locator,
    Places,
    attach,
    launch_maps,
    origins,
)
from opprof.errors import OpprofError
from opprof.selection import Filter, Layers, sequence_difference

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
    layers = Layers(PARTITIONS, launch_maps([code]), "here")
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
    assert Layers(partitions, maps, "here").choose(recorded).stands_for == {1: [2]}

    profile: dict[str, Any] = {
        "kernels": [
            {
                "id": i,
                "compiled_graph": "g",
                "launch": i,
                "step": 0,
                "start_ns": i,
                "duration_ns": 1,
            }
            for i in range(3)
        ],
        "nodes": [
            {"name": f"a{i}", "kernels": [i], "metrics": {}, "inferred_from": None}
            for i in range(3)
        ],
    }
    counters = {
        "steps": [
            {
                "launches": [{"index": i, "file": cached, "line": 10 + i} for i in range(3)],
                "counters": [{"launch": i, "metrics": {"ipc": float(i)}} for i in (0, 1)],
            }
        ]
    }
    assert attach(profile, counters, maps, partitions) == 3
    assert [n["metrics"]["ipc"] for n in profile["nodes"]] == [0.0, 1.0, 1.0]
    assert [n["inferred_from"] for n in profile["nodes"]] == [None, None, "a1"]


def _profile() -> dict[str, Any]:
    kernels: list[dict[str, Any]] = []
    for step in range(2):
        for launch in (0, 1, 1, 2, 2):
            kernels.append(
                {
                    "id": len(kernels),
                    "name": f"k{launch}",
                    "step": step,
                    "compiled_graph": "g",
                    "launch": launch,
                    "start_ns": 100 * len(kernels),
                    "duration_ns": 30 if launch else 10,
                    "phase": "steady",
                }
            )
    kernels.append({"id": 10, "name": "other", "start_ns": 5000, "duration_ns": 1})
    return {
        "kernels": kernels,
        "nodes": [
            {"name": "embed", "kernels": [0, 5], "metrics": {}, "inferred_from": None},
            {"name": "a0", "kernels": [1, 2, 6, 7], "metrics": {}, "inferred_from": None},
            {"name": "a1", "kernels": [3, 4, 8, 9], "metrics": {}, "inferred_from": None},
            {"name": "mixed", "kernels": [0, 10], "metrics": {}, "inferred_from": None},
        ],
    }


def _counters(cached: str, counted: tuple[int, ...]) -> dict[str, Any]:
    lines = [10, 11, 11, 12, 12]
    return {
        "steps": [
            {
                "launches": [
                    {"index": i, "file": cached, "line": line} for i, line in enumerate(lines)
                ],
                "counters": [
                    {
                        "launch": i,
                        "metrics": {
                            "instructions": 100.0 + i,
                            "ipc": 1.0 + i,
                            "registers": 32.0 + i,
                        },
                    }
                    for i in counted
                ],
            }
        ]
    }


def test_counters_reach_kernels_and_nodes(code: Path) -> None:
    profile = _profile()
    counted = attach(
        profile,
        _counters(str(code.parent / "cached.py"), (0, 1, 2, 3, 4)),
        launch_maps([code]),
        PARTITIONS,
    )
    assert counted == 10
    assert [k.get("metrics", {}).get("instructions") for k in profile["kernels"]] == [
        100.0,
        101.0,
        102.0,
        103.0,
        104.0,
    ] * 2 + [None]
    embed, a0, a1, mixed = profile["nodes"]
    assert embed["metrics"] == {"instructions": 100.0, "ipc": 1.0, "registers": 32.0}
    # Amounts of one step, rates by time, the largest limit.
    assert a0["metrics"] == {"instructions": 203.0, "ipc": 2.5, "registers": 34.0}
    assert a1["metrics"]["instructions"] == 207.0
    assert a1["inferred_from"] is None
    # One of its kernels was not counted: no value is better than a wrong one.
    assert mixed["metrics"] == {}


def test_duplicates_take_their_representatives_counters_and_say_so(code: Path) -> None:
    profile = _profile()
    attach(
        profile,
        _counters(str(code.parent / "cached.py"), (0, 1, 2)),
        launch_maps([code]),
        PARTITIONS,
    )
    _, a0, a1, _ = profile["nodes"]
    assert a1["metrics"] == a0["metrics"]
    assert a1["inferred_from"] == "a0"
    assert a0["inferred_from"] is None
    assert [k.get("metrics_inferred", False) for k in profile["kernels"][:5]] == [
        False,
        False,
        False,
        True,
        True,
    ]


def test_without_counters_of_its_launch_a_kernel_has_none(code: Path) -> None:
    profile = _profile()
    before = copy.deepcopy(profile)
    assert (
        attach(profile, _counters("/no/such/file.py", (0, 1, 2)), launch_maps([code]), PARTITIONS)
        == 0
    )
    assert profile == before


def test_nested_duplicates_lead_to_one_representative() -> None:
    places = Places({"c": "b", "b": "a", "x": "x"})
    assert places.representative("c") == "a"
    assert places.representative("a") == "a"
    assert places.representative("x") == "x"
    assert origins(_launch(0, "p", "q")) == {"p", "q"}


def test_a_damaged_launch_map_is_said(code: Path) -> None:
    (code / "launches.json").write_text("{")
    with pytest.raises(
        OpprofError, match=r"model__0_inference_0\.0: its launch map cannot be read"
    ):
        launch_maps([code])
    assert LaunchMap("g", "", {}).by_line == {}


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
