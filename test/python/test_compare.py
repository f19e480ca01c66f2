"""`opprof diff`, `top`, `explain`, `opprof.load`: what is called a change, by which statistics, and how each is printed. No PyTorch is needed."""

import contextlib
import gzip
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opprof
from opprof.commands.cli import main
from opprof.commands.compare import diff, explain_text, top_text
from opprof.errors import OpprofError

REPOSITORY = Path(__file__).parents[2]
FORMATS = REPOSITORY / "docs" / "formats"


def write_run(
    path: Path,
    *,
    steps: int = 20,
    seed: int = 1,
    slower: tuple[int, float] = (0, 1.0),
    name: Callable[[int], str] = "linear_{}".format,
    **head: Any,
) -> Path:
    """A profile of ten nodes with a noise of half a percent; node `slower[0]` takes `slower[1]` times as long."""
    random = np.random.default_rng(seed)
    kernels: list[dict[str, Any]] = []
    marks = []
    now = 0
    for step in range(steps):
        start = now
        for node in range(10):
            factor = slower[1] if node == slower[0] else 1
            duration = int(20_000 * (1 + node) * factor * random.normal(1, 0.005))
            kernels.append(
                {
                    "id": len(kernels),
                    "name": f"kernel_{node}",
                    "device": 0,
                    "step": step,
                    "start_ns": now,
                    "duration_ns": duration,
                    "nodes": [name(node)],
                    "method": "kernel_hash",
                    "confidence": "high",
                    "phase": "steady",
                }
            )
            now += duration + 400
        marks.append({"index": step, "start_ns": start, "end_ns": now, "phase": "steady"})
    profile = {
        "version": 1,
        "sources": [{"kind": "opprof capture", "file": "capture.opcap"}],
        "graph": "g",
        "stage": "export",
        "devices": [{"id": 0, "name": "NVIDIA H200", "kind": "cuda"}],
        "summary": {"steps": steps, "steps_from": "profiler_step"},
        "notes": [],
        "steps": marks,
        "kernels": kernels,
        "nodes": [{"name": name(node), "module": f"h.{node // 5}"} for node in range(10)],
        "findings": [
            {
                "id": "cold-start",
                "nodes": [],
                "evidence": {
                    "warm_up_steps": 1,
                    "warm_up_ns_per_step": 2000,
                    "steady_ns_per_step": 1000,
                },
                "text": "1 step of the trace is warm-up.",
            }
        ],
        **head,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(profile))
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_run(tmp_path / "base" / "profile.opprof.json", seed=1)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return write_run(tmp_path / "new" / "profile.opprof.json", seed=2, slower=(3, 1.6))


def compared(a: Path, b: Path, **options: Any) -> Any:
    return json.loads(diff([a], [b], form="json", **options)[0])


def by_name(result: Any) -> dict[str, Any]:
    return {
        item["name"] if isinstance(item["name"], str) else item["name"]["name"]: item
        for item in result["items"]
    }


def command(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `opprof`."""
    # What is large is written as bytes.
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
    return status, out.buffer.getvalue().decode(), err.getvalue()  # type: ignore[attr-defined]


# ----------------------------------------------------------------------------------------------------------------------
# The statistics, computed a second time
# ----------------------------------------------------------------------------------------------------------------------


def times_of(path: Path, node: int) -> np.ndarray:
    profile = json.loads(path.read_text())
    return np.array(
        [k["duration_ns"] for k in profile["kernels"] if k["name"] == f"kernel_{node}"], float
    )


def trimmed(values: np.ndarray, axis: int = -1) -> np.ndarray:
    cut = int(0.2 * values.shape[axis])
    return np.sort(values, axis)[..., cut : values.shape[axis] - cut].mean(axis)


def test_times_are_trimmed_means_of_the_steps(base: Path, new: Path) -> None:
    items = by_name(compared(base, new))
    for node in range(10):
        a, b = trimmed(times_of(base, node)), trimmed(times_of(new, node))
        item = items[f"linear_{node}"]
        assert item["a_ns"] == pytest.approx(a, abs=0.51)
        assert item["b_ns"] == pytest.approx(b, abs=0.51)
        assert item["change_ns"] == pytest.approx(b - a, abs=0.51)


def test_intervals_are_those_of_another_bootstrap(base: Path, new: Path) -> None:
    items = by_name(compared(base, new))
    random = np.random.default_rng(5)
    for node in range(10):
        a, b = times_of(base, node), times_of(new, node)
        draws = [
            trimmed(side[random.integers(len(side), size=(20_000, len(side)))]) for side in (a, b)
        ]
        low, high = np.quantile(draws[1] - draws[0], [0.025, 0.975])
        own = items[f"linear_{node}"]["interval_ns"]
        # Two bootstraps of 1,000 and 20,000 draws: an end is off by some percent of the width.
        assert own[0] == pytest.approx(low, abs=0.12 * (high - low))
        assert own[1] == pytest.approx(high, abs=0.12 * (high - low))


def test_a_step_is_its_wall_time(base: Path, new: Path) -> None:
    result = compared(base, new)
    profile = json.loads(base.read_text())
    walls = np.array([mark["end_ns"] - mark["start_ns"] for mark in profile["steps"]], float)
    assert result["step"]["a_ns"] == pytest.approx(trimmed(walls), abs=0.51)
    assert result["a"]["steps"] == result["a"]["repeats"] == 20
    assert result["a"]["clock"] == "the device's"


def test_the_same_files_always_give_the_same(base: Path, new: Path) -> None:
    assert diff([base], [new], form="json") == diff([base], [new], form="json")


# ----------------------------------------------------------------------------------------------------------------------
# What is said
# ----------------------------------------------------------------------------------------------------------------------


def test_the_slower_node_is_named_and_no_other(base: Path, new: Path) -> None:
    result = compared(base, new)
    slower = [name for name, item in by_name(result).items() if item["verdict"] != "same"]
    assert slower == ["linear_3"]
    assert result["items"][0]["matched_by"] == "identity"
    assert result["step"]["verdict"] == result["kernel_time"]["verdict"] == "slower"
    assert result["unlike"] == []


def test_a_recording_compared_with_itself_is_the_same(base: Path) -> None:
    result = compared(base, base)
    assert {item["verdict"] for item in result["items"]} == {"same"}
    assert result["step"]["change_pct"] == 0


def test_every_form_by_everything(base: Path, new: Path) -> None:
    for by in ("node", "class", "module", "kernel", "operator"):
        result = compared(base, new, by=by)
        total = sum(item["a_ns"] for item in result["items"])
        assert {item["by"] for item in result["items"]} == {by}
        assert total == pytest.approx(result["kernel_time"]["a_ns"], rel=0.005)
        for form in ("text", "markdown"):
            assert diff([base], [new], by=by, form=form)[0]


def test_unlike_sides_are_said_first(base: Path, tmp_path: Path) -> None:
    other = write_run(
        tmp_path / "other.opprof.json",
        devices=[{"id": 0, "name": "NVIDIA A100", "kind": "cuda"}],
        run={"mode": "eager", "torch": "2.9.0"},
    )
    like = write_run(tmp_path / "like.opprof.json", run={"mode": "inductor", "torch": "2.13.0"})
    result = compared(like, other)
    assert result["unlike"] == ["device", "mode", "torch"]
    page = diff([like], [other], width=100)[0].splitlines()
    assert page[0] == "other device: NVIDIA H200 → NVIDIA A100"
    assert page[2] == "other version of PyTorch: 2.13.0 → 2.9.0"


def with_operator(path: Path, dims: str) -> Path:
    """The run, without its graph, as calls of one operator."""
    profile = json.loads(path.read_text())
    for key in ("graph", "stage", "nodes"):
        profile.pop(key, None)
    profile["operators"] = [
        {
            "name": "aten::mm",
            "input_dims": dims,
            "calls": 200,
            "kernels": 200,
            "kernel_time_ns": 1,
        }
    ]
    for kernel in profile["kernels"]:
        kernel.update(operator=0, nodes=[])
    path.write_text(json.dumps(profile))
    return path


def test_another_batch_is_said_first(base: Path, new: Path) -> None:
    small, large = with_operator(base, "[[8, 4], [4, 4]]"), with_operator(new, "[[16, 4], [4, 4]]")
    result = compared(small, large)
    assert result["unlike"] == ["batch"]
    assert result["unlike_values"][0]["b"] == "aten::mm [[16, 4], [4, 4]]"
    # The same operator is found by its name, as its sizes are others.
    assert [item["matched_by"] for item in result["items"]] == ["name"]
    assert compared(small, small)["unlike"] == []


def test_a_result_to_write_into_is_no_other_size(base: Path, new: Path) -> None:
    """Compiled code gives libraries one, an argument more than the uncompiled program's."""
    eager = with_operator(base, "[[8, 4], [4, 4]]")
    for dims, unlike in (
        ("[[8, 4], [4, 4], [8, 4]]", []),
        ("[[8, 4], [4, 40]]", ["batch"]),
        ("[[8, 4], [4, 40], [8, 40]]", ["batch"]),
    ):
        assert compared(eager, with_operator(new, dims))["unlike"] == unlike


def test_with_few_steps_nothing_is_guessed(base: Path, tmp_path: Path) -> None:
    short = write_run(tmp_path / "short.opprof.json", steps=2, slower=(3, 5.0))
    result = compared(base, short)
    assert result["step"]["verdict"] == "unknown"
    assert {item["verdict"] for item in result["items"]} == {"unknown"}
    assert "B has 2 steps" in result["notes"][0]
    assert "--iters 20" in result["notes"][0]
    text, slower = diff([base], [short], fail_above=0.0)
    assert slower is None
    assert "Not known: whether anything is slower by more than 0 % of a step." in text
    assert "❔ not known" in diff([base], [short], fail_above=0.0, form="markdown")[0]
    # A check that cannot be made does not pass.
    status, out, err = command("diff", base, short, "--fail-above", "1%")
    assert status == 2 and "Not known" in out
    assert "too few steps" in err and "--iters 20" in err


def test_a_file_beside_itself_is_told(base: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.opprof.json"
    link.symlink_to(base)
    for other in (base, link):
        result = compared(base, other)
        assert result["notes"][0] == f"{base} is in A and in B: a file does not differ from itself"
    assert not any("itself" in note for note in compared(base, new_like(base, tmp_path))["notes"])


def new_like(base: Path, folder: Path) -> Path:
    """The same run, in another file."""
    copy = folder / "copy.opprof.json"
    copy.write_bytes(base.read_bytes())
    return copy


def test_nodes_whose_numbers_moved_are_found_by_structure(base: Path, tmp_path: Path) -> None:
    moved = write_run(
        tmp_path / "moved.opprof.json", seed=2, name=lambda node: f"linear_{node + 1}"
    )
    result = compared(base, moved)
    # One name of five in a module is another place of it now: a name that stands for the same is the surer one.
    assert {item["verdict"] for item in result["items"]} <= {
        "same",
        "slower",
        "faster",
        "new",
        "gone",
    }
    assert all(
        "matched_by" in item or item["verdict"] in ("new", "gone") for item in result["items"]
    )
    renamed = write_run(tmp_path / "renamed.opprof.json", seed=2, graph="another")
    assert {item["matched_by"] for item in compared(base, renamed)["items"]} == {"structure"}


def test_several_files_a_side(base: Path, new: Path, tmp_path: Path) -> None:
    a = [write_run(tmp_path / f"a{i}.json", seed=i) for i in range(5)]
    b = [write_run(tmp_path / f"b{i}.json", seed=10 + i, slower=(3, 1.1)) for i in range(5)]
    result = json.loads(diff(a, b, form="json")[0])
    assert result["a"]["repeats_are"] == "recordings"
    assert result["a"]["repeats"] == 5
    assert result["items"][0]["name"]["name"] == "linear_3"
    assert result["items"][0]["verdict"] == "slower"


def test_the_schemas_hold(base: Path, new: Path, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((FORMATS / "diff.schema.json").read_text())
    short = write_run(tmp_path / "short.opprof.json", steps=2)
    for a, b in ((base, new), (base, short)):
        for by in (None, "kernel"):
            result = json.loads(diff([a], [b], form="json", by=by, fail_above=1.0)[0])
            jsonschema.validate(result, schema)


def test_markdown_has_nothing_of_a_name(base: Path, tmp_path: Path) -> None:
    hostile = "a|b`</td><script>alert(1)</script>\n# x"
    paths = [
        write_run(
            tmp_path / f"{seed}.json",
            seed=seed,
            slower=(3, factor),
            name=lambda node: f"{hostile}{node}",
        )
        for seed, factor in ((1, 1.0), (2, 2.0))
    ]
    text = diff([paths[0]], [paths[1]], form="markdown", fail_above=0.5)[0]
    assert "slower by more than 0.5 % of a step" in text
    for line in text.splitlines():
        # What is left of a line without code spans is opprof's own.
        assert "script" not in re.sub(r"`[^`]*`", "", line)
        assert not line.startswith("# x")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {10}


# ----------------------------------------------------------------------------------------------------------------------
# The command line
# ----------------------------------------------------------------------------------------------------------------------


def test_exit_statuses(base: Path, new: Path, tmp_path: Path) -> None:
    assert command("diff", base, new)[0] == 0
    assert command("diff", base, new, "--fail-above", "50%")[0] == 0
    assert command("diff", base, new, "--fail-above", "1 %")[0] == 1
    assert command("diff", new, base, "--fail-above", "0")[0] == 0
    status, out, err = command("diff", base, tmp_path / "missing")
    assert (status, out) == (2, "")
    assert "no such file or folder" in err
    assert command("diff", base)[0] == 2
    assert command("diff", base, new, base)[0] == 2
    assert command("diff", base, new, "--fail-above", "often")[0] == 2
    assert command("diff", base, base, "--to", new, new)[0] == 0
    assert command("top", tmp_path / "missing")[0] == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\x00" * 64,
        b'{"version": 1}',
        b'{"version": 2, "kernels": []}',
        b'{"version": 1, "kernels": [{"id": 0}]}',
        b'{"version": 1, "summary": {}, "kernels": [{"id": 0, "name": "k", "start_ns": 0, "duration_ns": -1}]}',
        b'{"version": 1, "summary": {}, "kernels": [{"id": 7, "name": "k", "start_ns": 0, "duration_ns": 1}]}',
        b'{"traceEvents": "none"}',
        b"\x1f\x8b cut",
        b"OPCAP",
    ],
)
def test_broken_files_are_refused(base: Path, tmp_path: Path, content: bytes) -> None:
    broken = tmp_path / "broken.json"
    broken.write_bytes(content)
    for arguments in (("diff", base, broken), ("diff", broken, base), ("top", broken)):
        status, out, err = command(*arguments)
        # A profile without kernels is a profile.
        assert status in (0, 2 if arguments[0] == "diff" else 1)
        assert bool(status) == bool(err)
        if status:
            assert not out
            assert "broken.json" in err


def test_times_that_mean_nothing_are_no_change(tmp_path: Path) -> None:
    """Durations of zero, and steps that lie about the time."""
    path = write_run(tmp_path / "zero.json")
    profile = json.loads(path.read_text())
    for kernel in profile["kernels"]:
        kernel["duration_ns"] = 0
    for mark in profile["steps"]:
        mark["end_ns"] = mark["start_ns"]
    path.write_text(json.dumps(profile))
    result = compared(path, path)
    assert {item["verdict"] for item in result["items"]} <= {"same", "small"}
    assert "change_pct" not in result["kernel_time"]


def test_lines_fit_the_terminal(base: Path, new: Path) -> None:
    for width in (40, 60, 80, 100, 160):
        for page in (
            top_text(new, width=width),
            diff([base], [new], width=width)[0],
            explain_text("cold-start", new, width=width),
        ):
            assert max(map(len, page.splitlines())) <= width


def test_no_number_is_cut_in_two(tmp_path: Path) -> None:
    sizes = [1048576, 3072, 50257, 12.25, 768]
    name = "_x_".join(map(str, sizes)) + "_y_" + "z" * 30 + "_y_" + "_x_".join(map(str, sizes))
    path = write_run(tmp_path / "sizes.json", name=lambda node: f"{name}#{node}")
    whole = {str(size) for size in sizes} | {str(node) for node in range(10)}
    for width in range(40, 130):
        for line in top_text(path, width=width).splitlines()[1:]:
            shown = line.split("  ")[-1] if "…" in line else ""
            assert set(re.findall(r"[\d.]*\d", shown)) <= whole


def test_top_lists_what_takes_most(new: Path) -> None:
    lines = top_text(new, number=3, width=100).splitlines()
    assert lines[0].startswith("By node: ")
    assert [line.split()[5] for line in lines[1:4]] == ["linear_9", "linear_8", "linear_7"]
    assert lines[4].startswith("7 more take ")
    assert top_text(new, by="module", width=100).splitlines()[1].endswith("  h.1")


def test_findings_are_explained(new: Path) -> None:
    text = explain_text("cold-start", new, width=100)
    for part in ("How it is computed", "What to do", "When it would not be true", "In this run"):
        assert part in text
    assert "warm_up_steps = 1" in text
    status, _, err = command("explain", "no-such-finding")
    assert status == 1
    assert "small-kernels" in err
    status, _, err = command("explain", str(new), "cold-start")
    assert (status, f"opprof explain cold-start {new}" in err) == (1, True)
    assert "There is no such finding." in explain_text("stalls", new, width=100)


def test_the_page_of_findings_is_what_is_explained() -> None:
    page = (REPOSITORY / "docs" / "reference" / "findings.md").read_text()
    assert page == explain_text("all", width=100)


def test_a_folder_s_links_are_not_followed(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "linked"
    folder.mkdir()
    (folder / "profile.opprof.json").symlink_to(base)
    for arguments in (
        ("report", folder, "--json"),
        ("top", folder),
        ("diff", folder, base),
        ("explain", "wall-time", folder),
    ):
        status, out, err = command(*arguments)
        assert status
        assert not out
        assert "link" in err


def test_report_prints_profiles_by_their_schema(base: Path, tmp_path: Path) -> None:
    """What a file has beside a profile is not passed on."""
    profile = json.loads(base.read_text())
    base.write_text(json.dumps({**profile, "unknown": {"deep": [1]}}))
    status, out, _ = command("report", base, "--json")
    assert status == 0
    printed = json.loads(out)
    assert "unknown" not in printed
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(printed, json.loads((FORMATS / "profile.schema.json").read_text()))


# ----------------------------------------------------------------------------------------------------------------------
# opprof.load
# ----------------------------------------------------------------------------------------------------------------------


def test_a_profile_as_objects(new: Path) -> None:
    p = opprof.load(new.parent)
    assert [node.name for node in p.nodes.sort("time")[:2]] == ["linear_9", "linear_8"]
    assert p.nodes.sort("name", descending=False)[0].name == "linear_0"
    assert len(p.kernels) == p.summary.kernels == 200
    assert p.kernels[0].nodes == ("linear_0",)
    assert sum(node.kernel_time_ns for node in p.nodes) == p.summary.kernel_time_ns
    assert [finding.id for finding in p.findings] == ["cold-start"]
    assert p.devices[0].name == "NVIDIA H200"
    assert repr(p) == "<opprof.Profile of g: 200 kernels, 10 nodes, 1 findings>"
    assert "linear_9" in p._repr_html_()
    assert p.kernels._repr_html_().count("<tr>") == 21
    with pytest.raises(OpprofError, match="no column 'speed'"):
        p.nodes.sort("speed")
    with pytest.raises(OpprofError, match="no table 'speeds'"):
        p.table("speeds")


def test_a_notebook_shows_no_file_s_html(tmp_path: Path) -> None:
    path = write_run(
        tmp_path / "x.json",
        name=lambda node: f"<script>{node}</script>",
        graph="<b>",
        findings=[{"id": "cold-start", "nodes": [], "evidence": {}, "text": "<img src=x>"}],
    )
    p = opprof.load(path)
    for page in (p._repr_html_(), p.nodes._repr_html_()):
        assert "<script" not in page
        assert "<img" not in page
        assert "<b>" not in page.replace("<b>cold-start</b>", "")


def test_tables_of_other_libraries(new: Path, tmp_path: Path) -> None:
    p = opprof.load(new)
    pandas = pytest.importorskip("pandas")
    frame = p.to_pandas("kernels")
    assert isinstance(frame, pandas.DataFrame)
    assert frame["duration_ns"].sum() == p.summary.kernel_time_ns
    pytest.importorskip("pyarrow")
    assert p.to_arrow("nodes").num_rows == 10
    status, _, err = command("report", new, "--parquet", tmp_path / "tables")
    assert status == 0, err
    parquet = pytest.importorskip("pyarrow.parquet")
    kernels = parquet.read_table(tmp_path / "tables" / "kernels.parquet")
    assert kernels.column("duration_ns").to_pylist() == [k.duration_ns for k in p.kernels]


def overlaps(events: list[dict[str, Any]]) -> int:
    """How many slices of a track lie in another one in part: those of streams in no other at all."""
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    streams = {
        (event["pid"], event["tid"])
        for event in events
        if event["ph"] == "M" and "stream" in str(event["args"].get("name"))
    }
    for event in events:
        if event["ph"] == "X":
            place = event["pid"], event["tid"]
            start, end = (round(time * 1000) for time in (event["ts"], event["ts"] + event["dur"]))
            tracks.setdefault(place, []).append((start, -end))
    found = 0
    for place, track in tracks.items():
        ends: list[int] = []
        for start, end in sorted(track):
            while ends and ends[-1] <= start:
                ends.pop()
            found += bool(ends) and (place in streams or -end > ends[-1])
            ends.append(-end)
    return found


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_timelines_for_perfetto(new: Path, tmp_path: Path, name: str) -> None:
    data = json.loads((new if new.is_file() else next(new.glob("*.opprof.json"))).read_text())
    data["nodes"][0]["partition"] = data["nodes"][1]["partition"] = "layer"
    kernels = data["kernels"]
    kernels[3]["metrics"] = {"occupancy_pct": 40.5}
    kernels[4]["start_ns"] -= 10_000
    for kernel in kernels:
        kernel |= {"launched_at_ns": kernel["start_ns"] - 4_000, "launch_call_ns": 900}
    path = tmp_path / "changed.opprof.json"
    path.write_text(json.dumps(data))
    status, _, err = command("report", path, "--perfetto", tmp_path / name)
    assert status == 0, err
    raw = (tmp_path / name).read_bytes()
    events = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)["traceEvents"]
    shown = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["args"]["id"])
    assert [round(e["dur"] * 1000) for e in shown] == [k["duration_ns"] for k in kernels]
    # Times begin with the first launch.
    first = min(k["launched_at_ns"] for k in kernels)
    assert [round(e["ts"] * 1000) for e in shown] == [k["start_ns"] - first for k in kernels]
    launches = [e for e in events if e.get("cat") == "launch"]
    assert len(launches) == len({k["launched_at_ns"] for k in kernels})
    assert sorted(e["id"] for e in events if e["ph"] == "s") == list(range(1, len(kernels) + 1))
    assert sum(e["ph"] == "f" for e in events) == len(kernels)
    assert sum(e.get("cat") == "node" for e in events) == len(kernels)
    # The first two nodes of a step follow one another.
    layers = [e for e in events if e.get("cat") == "partition"]
    assert {e["name"] for e in layers} == {"layer"}
    assert all(e["args"]["kernels"] == 2 for e in layers)
    assert [e["args"]["value"] for e in events if e["ph"] == "C"] == [40.5, 0]
    assert sum(e.get("cat") == "step" for e in events) == len(data["steps"])
    assert not overlaps(events)
    # opprof reads it again, with all kernels.
    again = opprof.load(tmp_path / name)
    assert sorted(k.duration_ns for k in again.kernels) == sorted(k["duration_ns"] for k in kernels)
    assert [(d.id, d.name) for d in again.devices] == [
        (d["id"], d.get("name", "")) for d in data["devices"]
    ]


def host_recordings() -> dict[str, bytes]:
    inputs, corpus = REPOSITORY / "test" / "Profile" / "Inputs", REPOSITORY / "unittests" / "fuzz"
    return {
        "trace.json": gzip.decompress((inputs / "gpt2.trace.json.gz").read_bytes()),
        "capture.opcap": gzip.decompress((inputs / "conv_block.opcap.gz").read_bytes()),
        "operators.opcap": (corpus / "corpus" / "capture" / "operators.opcap").read_bytes(),
        "nsys.sqlite": (corpus / "corpus" / "nsys" / "2023.sqlite").read_bytes(),
    }


@pytest.mark.parametrize(
    ("name", "categories"),
    [
        ("trace.json", {"cpu_op": 586, "user_annotation": 2, "cuda_driver": 170}),
        # 118 steps of warm-up, which its profile leaves out.
        ("capture.opcap", {"cuda_driver": 1964, "kernel": 1722, "user_annotation": 6}),
        ("operators.opcap", {"cpu_op": 23, "user_annotation": 1}),
        ("nsys.sqlite", {"cpu_op": 1, "cuda_runtime": 3}),
    ],
)
def test_timelines_have_what_the_host_did(
    tmp_path: Path, name: str, categories: dict[str, int]
) -> None:
    """Whatever the recording is, and read again it says the same."""
    path, target = tmp_path / name, tmp_path / "timeline.json"
    path.write_bytes(host_recordings()[name])
    status, _, err = command("report", path, "--perfetto", target)
    assert status == 0, err
    events = json.loads(target.read_text())["traceEvents"]
    for category, count in categories.items():
        assert sum(e.get("cat") == category for e in events) == count, category
    assert not overlaps(events)
    own, again = opprof.load(path), opprof.load(target)

    def durations(profile: Any) -> list[int]:
        has_steps = bool(profile.summary.steps)
        return sorted(
            k["duration_ns"] for k in profile.data["kernels"] if not has_steps or "step" in k
        )

    assert durations(again) == durations(own)
    assert again.summary.busy_ns == own.summary.busy_ns
    # Between the steps of a capture nothing is recorded, which no trace of torch.profiler says.
    if own.summary.steps_from != "capture_marks":
        assert again.summary.wall_ns == own.summary.wall_ns
    assert again.summary.steps == own.summary.steps
    # Arrows lead from the call to what it launched, and end at its beginning.
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    if name not in ("operators.opcap", "capture.opcap"):
        assert len(ends) == sum("launched_at_ns" in k for k in own.data["kernels"]) + sum(
            "launched_at_ns" in c for c in own.data["copies"]
        )
    slices = {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] == "X"}
    assert all((e["pid"], e["tid"], e["ts"]) in slices for e in [*starts.values(), *ends.values()])


def test_the_recording_of_a_run_folder_is_in_its_timeline(new: Path, tmp_path: Path) -> None:
    """Beside the profile; what is a link may lead to anybody's."""
    inputs = REPOSITORY / "test" / "Profile" / "Inputs"
    trace = tmp_path / "gpt2.trace.json.gz"
    trace.write_bytes((inputs / trace.name).read_bytes())
    status, profile, err = command("report", trace, "--json")
    assert status == 0, err
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "profile.opprof.json").write_text(profile)

    def operators() -> int:
        status, _, err = command("report", folder, "--perfetto", tmp_path / "out.json")
        assert status == 0, err
        events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
        return sum(e.get("cat") == "cpu_op" for e in events)

    assert operators() == 0
    (folder / trace.name).symlink_to(trace)
    assert operators() == 0
    (folder / trace.name).unlink()
    (folder / trace.name).write_bytes(trace.read_bytes())
    assert operators() == 586


def test_slices_of_modules_end_with_their_step(new: Path, tmp_path: Path) -> None:
    """The host may be idle there, or another module's; copies are no kernels."""
    same = {"device": 0, "stream": 7, "method": "none", "confidence": "unattributed"}
    kernels = [
        {"id": 0, "name": "k", "module": "a", "start_ns": 0, "duration_ns": 5, "step": 0, **same},
        {"id": 1, "name": "k", "module": "a", "start_ns": 20, "duration_ns": 5, "step": 0, **same},
        {"id": 2, "name": "k", "module": "a", "start_ns": 90, "duration_ns": 5, "step": 1, **same},
        {"id": 3, "name": "k", "module": "b", "start_ns": 95, "duration_ns": 5, "step": 1, **same},
        {"id": 4, "name": "k", "module": "b", "start_ns": 100, "duration_ns": 5, **same},
    ]
    copy = {"id": 0, "name": "c", "kind": "memcpy", "module": "a", "start_ns": 5, **same}
    steps = [
        {"index": 0, "start_ns": 0, "end_ns": 50, "phase": "steady"},
        {"index": 1, "start_ns": 50, "end_ns": 110, "phase": "steady"},
    ]
    path = tmp_path / "made.opprof.json"
    data = json.loads(new.read_text())
    for kernel in [*kernels, copy]:
        kernel |= {"phase": "steady", "nodes": []}
    data |= {"steps": steps, "kernels": kernels, "copies": [{**copy, "duration_ns": 5}]}
    data |= {"nodes": [], "findings": []}
    path.write_text(json.dumps(data))
    status, _, err = command("report", path, "--perfetto", tmp_path / "t.json")
    assert status == 0, err
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [
        (e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000), e["args"]["kernels"])
        for e in events
        if e.get("cat") == "module"
    ] == [("a", 0, 25, 2), ("a", 90, 5, 1), ("b", 95, 10, 2)]


def test_several_recordings_stand_on_one_clock(tmp_path: Path) -> None:
    """That of the first; what says no time of day stands beside no other."""
    for rank, base in ((0, 10**18), (1, 10**18 + 5_000)):
        kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
        made = {
            "traceEvents": [{**kernel, "args": {"device": 0, "stream": 7}}],
            "distributedInfo": {"rank": rank, "world_size": 2},
            "baseTimeNanoseconds": base,
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(made))
    files = [tmp_path / "rank0.json", tmp_path / "rank1.json"]
    status, _, err = command("report", *files, "--perfetto", tmp_path / "all.json.gz")
    assert status == 0, err
    events = json.loads(gzip.decompress((tmp_path / "all.json.gz").read_bytes()))["traceEvents"]
    shown = [(e["pid"], e["ts"]) for e in events if e.get("cat") == "kernel"]
    # A rank may begin before the first one, and no time may be below zero.
    assert shown == [("rank 0, 2", 86_400e6), ("rank 1, 2", 86_400e6 + 5)]
    made = json.loads(files[1].read_text())
    del made["baseTimeNanoseconds"]
    files[1].write_text(json.dumps(made))
    status, _, err = command("report", *files, "--perfetto", tmp_path / "none.json")
    assert status == 1
    assert "rank1.json: holds no clock" in err and "give it alone" in err
    assert not (tmp_path / "none.json").exists()


def test_recordings_of_one_name_have_tracks_and_arrows_of_their_own(tmp_path: Path) -> None:
    """Whatever their clocks say."""
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9, "dur": 2}
    files = [tmp_path / name / "t.json" for name in "abc"]
    for file, base in zip(files, (0, 5_000, (1 << 63) - 1), strict=True):
        file.parent.mkdir()
        made = {
            "traceEvents": [
                {**call, "ts": 1, "dur": 3, "args": {"correlation": 4}},
                {**kernel, "args": {"device": 0, "stream": 7, "correlation": 4}},
            ],
            "baseTimeNanoseconds": base,
        }
        file.write_text(json.dumps(made))
    status, _, err = command("report", *files, "--perfetto", tmp_path / "all.json")
    assert status == 0, err
    events = json.loads((tmp_path / "all.json").read_text())["traceEvents"]
    processes = {e["pid"] for e in events if e.get("cat") == "kernel"}
    assert processes == {"t.json, 2", "t.json #2, 2", "t.json #3, 2"}
    for phase in "sf":
        assert [e["id"] for e in events if e["ph"] == phase] == [1, 2, 3]


def test_kernels_of_a_capture_say_what_launched_them(tmp_path: Path) -> None:
    """The line or node that the launch was marked with, and the number of the call."""
    path = tmp_path / "capture.opcap"
    path.write_bytes(host_recordings()["capture.opcap"])
    status, _, err = command("report", path, "--perfetto", tmp_path / "t.json")
    assert status == 0, err
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    kernels = [e["args"] for e in events if e.get("cat") == "kernel"]
    assert len({args["id"] for args in kernels}) == len(kernels) == 1722
    assert all(args["launched_by"]["line"] and args["correlation"] for args in kernels)


def test_a_device_may_have_no_name(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": [{**kernel, "args": {"device": 0, "stream": 7}}]}))
    assert [device.name for device in opprof.load(trace).devices] == [""]


def test_what_is_not_installed_is_said(new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    status, _, err = command("report", new, "--parquet", new.parent / "tables")
    assert status == 1
    assert "this needs pyarrow, which is not installed" in err
    assert "pip install pyarrow" in err


def test_no_pytorch_is_loaded(new: Path) -> None:
    program = f"import opprof, sys; opprof.load({str(new)!r}); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")},
        check=True,
    )
    assert done.stdout.strip() == "False"


# ----------------------------------------------------------------------------------------------------------------------
# Documents
# ----------------------------------------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    page = (REPOSITORY / "docs" / "how-to" / "compare-runs.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_how_to(
    base: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) >= 12
    for line in lines:
        told, _, comment = line.partition("#")
        words = shlex.split(told.split(">")[0])
        assert words[0] == "opprof"
        status, out, err = command(*words[1:])
        assert status == int(comment.split()[-1] if "exit status" in comment else 0), (line, err)
        assert out or status == 2


def test_the_python_of_the_how_to(
    base: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks("python"):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(block, {})
        assert "linear_9" in out.getvalue()
