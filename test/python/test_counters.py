"""Which launches are counted in a run folder, and what the profile gets of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from opprof.commands.launches import launches_text
from opprof.errors import OpprofError
from opprof.recording.launch_maps import Locator, launch_maps, origins
from opprof.recording.partitions import Node
from opprof.recording.selection import Filter, select, sequence_difference
from opprof.run_folder import RunFolder

CODE = Path(__file__).parents[1] / "Target" / "InductorCode" / "Inputs"

PARTITIONS: dict[str, Any] = {
    "version": 1,
    "graph": "net",
    "stage": "export",
    "classes": [
        {
            "id": "c0",
            "partitions": [
                {"label": "h.0", "role": "unique", "nodes": ["a0", "b0"]},
                {"label": "h.1", "role": "duplicate", "nodes": ["a1", "b1"]},
            ],
        }
    ],
}


def _launch(index: int, *nodes: str) -> dict[str, Any]:
    return {
        "index": index,
        "file": "output_code.py",
        "line": 10 + index,
        "kernel": "fused",
        "kind": "triton",
        "category": "pointwise",
        "nodes": [
            {"name": f"post_{n}", "from": [{"graph": "net", "stage": "export", "name": n}]}
            for n in nodes
        ],
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
    """A compiled graph's folder in a run folder, and a copy of its code as Inductor's cache has it."""
    folder = tmp_path / "model__0_inference_0.0"
    folder.mkdir()
    (folder / "output_code.py").write_text("def call(args):\n    pass\n")
    (folder / "launches.json").write_text(
        json.dumps({"version": 1, "graph": "g", "stage": "post_grad", "launches": LAUNCHES})
    )
    (tmp_path / "cached.py").write_text("def call(args):\n    pass\n")
    (tmp_path / "partitions.json").write_text(json.dumps(PARTITIONS))
    return folder


def test_a_launch_is_found_by_its_code_and_line(code: Path) -> None:
    locate = Locator(launch_maps([code]))
    cached = str(code.parent / "cached.py")
    found = locate({"file": cached, "line": 12})
    assert found is not None
    assert found[0].graph == "g"
    assert found[1]["index"] == 2
    assert origins(found[1]) == {Node("net", "export", "a1"), Node("net", "export", "b1")}
    assert locate({"file": cached, "line": 99}) is None
    assert locate({"file": str(code.parent / "none.py"), "line": 12}) is None
    assert locate({}) is None


def test_launches_of_duplicates_are_not_counted(code: Path) -> None:
    folder = RunFolder(code.parent)
    cached = str(folder.path / "cached.py")
    launches: list[dict[str, Any]] = [
        {"kernel": "fused", "file": cached, "line": 10 + i, "duration_ns": 1000 + 10 * i}
        for i in range(5)
    ]
    launches.append({"kernel": "of no wrapper"})
    selection = select(folder, launches)
    assert selection.stands_for == {0: [], 1: [2], 3: [], 4: [], 5: []}
    assert selection.report == {
        "same_work_by": f"the same place of the same class in {folder.partitions}, and the same kernels",
        "counted": 5,
        "of": 6,
        "stood_for": 1,
        "launches": [
            {"launch": 0, "kernel": "fused", "for": []},
            {"launch": 1, "kernel": "fused", "for": [2], "times": [1.01, 1.01]},
            {"launch": 3, "kernel": "fused", "for": []},
            {"launch": 4, "kernel": "fused", "for": []},
            {"launch": 5, "kernel": "of no wrapper", "for": []},
        ],
    }
    # What runs other kernels is other work, whatever the graph says.
    launches[2]["kernel"] = "another"
    assert list(select(folder, launches).stands_for) == [0, 1, 2, 3, 4, 5]


def test_nodes_that_run_by_themselves_are_of_their_graph(tmp_path: Path) -> None:
    other = {
        **PARTITIONS,
        "graph": "other",
        "classes": [
            {
                "id": "c0",
                "partitions": [
                    {"label": "0", "role": "unique", "nodes": ["a1"]},
                    {"label": "1", "role": "duplicate", "nodes": ["a0"]},
                ],
            }
        ],
    }
    folder = RunFolder(tmp_path)
    folder.partitions.write_text(json.dumps([PARTITIONS, other]))
    launches = [
        {"kernel": "k", "node": name, "graph": graph}
        for graph in ("net", "other")
        for name in ("a0", "a1")
    ]
    assert select(folder, launches).stands_for == {0: [1], 3: [2]}


def test_launches_of_another_program_are_told_by_their_kernels(code: Path) -> None:
    launches = [
        {"kernel": "k", "node": f"n{i}", "graph": "another", "grid": [4, 1, 1]} for i in range(3)
    ]
    launches[1]["grid"] = [8, 1, 1]
    selection = select(RunFolder(code.parent), launches)
    assert selection.stands_for == {0: [2], 1: []}
    assert selection.report["same_work_by"] == "the same kernel, grid, block and shared memory"


def test_a_products_depth_makes_it_other_work(tmp_path: Path) -> None:
    """Launches of one kernel and size agree in what the launch map of their code knows too, where there is no run folder."""
    source = CODE / "mlp_activations" / "output_code.py"
    (launch_map,) = json.loads(launches_text(source.parent, None, as_json=True))
    products = [launch for launch in launch_map["launches"] if launch.get("flops")]
    assert len({launch["flops"] for launch in products}) > 1
    launches = [
        {"kernel": "gemm", "file": str(source), "line": launch["line"]} for launch in products
    ]
    selection = select(RunFolder(tmp_path), launches)
    assert len(selection.stands_for) == len(
        {(entry["flops"], entry["bytes_read"], entry["bytes_written"]) for entry in products}
    )
    assert selection.report["same_work_by"].endswith("bytes by the launch map")


def test_code_that_cannot_be_read_is_said_and_left_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    launches = [{"kernel": "k", "file": str(tmp_path / "gone.py"), "line": 1}] * 2
    assert select(RunFolder(tmp_path), launches).stands_for == {0: [1]}
    assert "no launch maps" in capfd.readouterr().err


def test_a_damaged_launch_map_is_said(code: Path) -> None:
    (code / "launches.json").write_text("{")
    with pytest.raises(
        OpprofError, match=r"model__0_inference_0\.0/launches\.json: cannot be read"
    ):
        launch_maps([code])
    with pytest.raises(OpprofError, match=r"model__0_inference_0\.0/launches\.json"):
        select(RunFolder(code.parent), [{"kernel": "fused"}])


def test_launches_are_narrowed_by_name_then_time_then_place(tmp_path: Path) -> None:
    launches = [
        {"kernel": name, "duration_ns": time}
        for name, time in (("a", 5), ("b", 9), ("a", 5), ("c", 1), ("b", 9), ("b", 9))
    ]

    def counted(chosen: list[int] | None = None, **options: Any) -> list[int]:
        selection = select(
            RunFolder(tmp_path), launches, every=True, chosen=chosen, filter=Filter(**options)
        )
        return list(selection.stands_for)

    assert not Filter().narrows and counted() == [0, 1, 2, 3, 4, 5]
    assert counted(kernels="a|c") == [0, 2, 3]
    assert counted(top=2, chosen=[0, 1, 3]) == [0, 1]
    assert counted(kernels="[ac]", top=1, launch_count=1) == [0]
    assert counted(launch_skip=1, launch_count=2) == [1, 2]
    assert counted(launch_skip=9) == []
    with pytest.raises(OpprofError, match="not a regular expression"):
        Filter(kernels="(")


def test_kernels_go_by_the_names_that_their_sources_have(tmp_path: Path) -> None:
    launches = [{"kernel": "_Z4gemmIfEvT_"}, {"kernel": "_Z4reluIfEvT_"}]
    shown = {"_Z4gemmIfEvT_": "void gemm<float>(float)", "_Z4reluIfEvT_": "void relu<float>(float)"}
    selection = select(
        RunFolder(tmp_path),
        launches,
        every=True,
        filter=Filter(kernels="relu<float>"),
        demangle=shown.__getitem__,
    )
    assert selection.report["launches"] == [{"launch": 1, "kernel": "_Z4reluIfEvT_", "for": []}]


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
