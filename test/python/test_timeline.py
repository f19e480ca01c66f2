"""What holds of every timeline for Perfetto, whatever a profile and its recording say: random ones of the forms of docs/formats/profile.md."""

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opprof.errors import OpprofError
from opprof.tools import run_tool

TESTS = Path(__file__).parents[1]
SHARED = TESTS.parents[1] / "shared"
#: All that were recorded, on devices and without, of programs compiled and eager.
RECORDINGS = sorted(
    [
        *(TESTS / "Profile" / "Inputs").glob("*.trace.json*"),
        *(TESTS / "Profile" / "Inputs").glob("*.opcap*"),
        *SHARED.glob("fixtures/**/*.trace.json*"),
    ]
)

#: Few values, so that starts and ends meet: there the order of events matters.
TIMES = st.one_of(st.integers(-3, 12), st.integers(-(1 << 61), 1 << 61))
DURATIONS = st.one_of(st.integers(0, 6), st.integers(0, 1 << 40))
TEXTS = st.text(max_size=6)
NODES = st.lists(st.sampled_from(["add", "mul"]), max_size=2, unique=True)
ROWS = st.fixed_dictionaries(
    {
        "name": TEXTS,
        "device": st.integers(0, 1),
        "start_ns": TIMES,
        "duration_ns": DURATIONS,
        "nodes": NODES,
        "confidence": st.sampled_from(["high", "unattributed"]),
        "phase": st.just("steady"),
        "method": st.just("kernel_hash"),
    },
    optional={
        "rank": st.integers(0, 1),
        "stream": st.integers(0, 1),
        "step": st.integers(0, 2),
        "module": st.sampled_from(["", "h.0", "h.1"]),
        "launched_at_ns": TIMES,
        "launch_call_ns": DURATIONS,
        "host_op": TEXTS,
        "metrics": st.dictionaries(st.sampled_from(["sm_pct", "bytes"]), st.floats(0, 1e9)),
    },
)
#: Steps of several ranks overlap, and a file may say that one ends before it begins.
STEPS = st.fixed_dictionaries(
    {
        "index": st.integers(0, 3),
        "phase": st.sampled_from(["warm_up", "steady"]),
        "start_ns": TIMES,
        "end_ns": TIMES,
    }
)
WAITS = st.fixed_dictionaries({"name": TEXTS, "start_ns": TIMES, "duration_ns": DURATIONS})


SOURCES = st.fixed_dictionaries(
    {"kind": st.just("kineto"), "file": st.just("t.json")},
    optional={
        "rank": st.integers(0, 1),
        "base_time_ns": st.one_of(st.integers(0, 9), st.integers(-(1 << 63), (1 << 63) - 1)),
    },
)
PROFILES = st.builds(
    lambda *parts: _profile(*parts),
    st.lists(ROWS, max_size=8),
    st.lists(ROWS, max_size=3),
    st.lists(STEPS, max_size=4),
    st.lists(WAITS, max_size=3),
    st.lists(SOURCES, max_size=1),
)


def _profile(kernels: Any, copies: Any, steps: Any, waits: Any, sources: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "graph": "g",
        "stage": "export",
        "sources": sources,
        "findings": [],
        "summary": {
            "kernels": len(kernels),
            "copies": len(copies),
            "kernel_time_ns": sum(row["duration_ns"] for row in kernels),
            "copy_time_ns": sum(row["duration_ns"] for row in copies),
            "attributed_ns": {"high": 0, "medium": 0, "low": 0},
        },
        "devices": [{"id": 0, "name": "first"}, {"id": 1}],
        "kernels": [{**row, "id": i} for i, row in enumerate(kernels)],
        "copies": [{**row, "id": i, "kind": "memcpy"} for i, row in enumerate(copies)],
        "nodes": [
            {"name": "add", "partition": "h.0", "kernel_time_ns": 0},
            {"name": "mul", "partition": "h.1", "kernel_time_ns": 0},
        ],
        "steps": steps,
        "synchronizations": waits,
    }


def _nanoseconds(microseconds: Decimal) -> int:
    """Times are decimals of whole nanoseconds; as doubles they would lose those of a long recording."""
    scaled = microseconds * 1000
    assert scaled == int(scaled)
    return int(scaled)


def _slices_of(text: bytes) -> list[dict[str, Any]]:
    """The slices of a trace, as its format says that they are to be read, with all that must hold of it."""
    document = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    events = document["traceEvents"]
    for event in events:
        # Perfetto leaves out what is before its zero.
        if event["ph"] != "M":
            event["begin"] = _nanoseconds(event["ts"])
            assert event["begin"] >= 0
        if event["ph"] == "X":
            length = _nanoseconds(event["dur"])
            assert length >= 0
            event["end"] = event["begin"] + length
    slices = [event for event in events if event["ph"] == "X"]
    # Each track has one name, and there is none without a slice or a counter.
    names = Counter(
        (event["pid"], event.get("tid")) for event in events if event["name"].endswith("_name")
    )
    assert set(names.values()) <= {1}
    tracks = {(event["pid"], event["tid"]) for event in slices}
    assert tracks == {track for track in names if track[1] is not None}
    assert {process for process, _ in tracks} == {
        process for process, thread in names if thread is None
    }
    # Slices of a track lie in one another or apart, and in the file where the outer one is read first.
    of_track = defaultdict(list)
    for event in slices:
        of_track[event["pid"], event["tid"]].append((event["begin"], event["end"]))
    for own in of_track.values():
        open_ends: list[int] = []
        assert [begin for begin, _ in own] == sorted(begin for begin, _ in own)
        for begin, end in own:
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)
    # Arrows begin and end once, each at the begin of a slice.
    begins = {(event["pid"], event["tid"], event["begin"]) for event in slices}
    arrows = {
        phase: {event["id"]: event for event in events if event["ph"] == phase} for phase in "sf"
    }
    assert arrows["s"].keys() == arrows["f"].keys()
    assert 2 * len(arrows["s"]) == sum(event["ph"] in "sf" for event in events)
    for ends in arrows.values():
        assert all((e["pid"], e["tid"], e["begin"]) in begins for e in ends.values())
    return slices


def _timeline(*files: Path) -> bytes:
    return run_tool("opprof-driver", ["report", "--perfetto=-", "--", *files], quiet=True)


def _ran(slices: list[dict[str, Any]]) -> Counter[str]:
    return Counter(event["name"] for event in slices if event["cat"].startswith(("kernel", "gpu_")))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(PROFILES)
def test_every_timeline_is_one_that_perfetto_shows(profile: Any) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "profile.opprof.json"
        file.write_text(json.dumps(profile))
        slices = _slices_of(_timeline(file))
    # Everything that ran is there once, where it was and as long as it was.
    rows = [*profile["kernels"], *profile["copies"]]
    assert _ran(slices) == Counter(row["name"] for row in rows)
    steps = [event for event in slices if event["cat"] == "step"]
    assert len(steps) == len(profile["steps"])
    lengths = Counter(event["end"] - event["begin"] for event in steps)
    assert lengths == Counter(max(0, s["end_ns"] - s["start_ns"]) for s in profile["steps"])
    if rows and steps:
        apart = min(row["start_ns"] for row in rows) - min(s["start_ns"] for s in profile["steps"])
        begins = [e["begin"] for e in slices if e["cat"].startswith(("kernel", "gpu_"))]
        assert min(begins) - min(event["begin"] for event in steps) == apart


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(PROFILES, min_size=2, max_size=3), st.data())
def test_ranks_that_began_in_any_order_are_shown(profiles: list[Any], data: st.DataObject) -> None:
    """Those of one hour; no more is asked of clocks."""
    hours = st.integers(-(1 << 41), 1 << 41)
    with TemporaryDirectory() as folder:
        files = []
        for number, profile in enumerate(profiles):
            for row in [*profile["kernels"], *profile["copies"], *profile["synchronizations"]]:
                row["start_ns"] %= 1 << 41
                row.pop("launched_at_ns", None)
            for step in profile["steps"]:
                step["start_ns"] %= 1 << 41
                step["end_ns"] %= 1 << 41
            base = (1 << 60) + data.draw(hours)
            profile["sources"] = [{"kind": "kineto", "file": "t.json", "base_time_ns": base}]
            files.append(Path(folder) / f"{number}.opprof.json")
            files[-1].write_text(json.dumps(profile))
        slices = _slices_of(_timeline(*files))
    rows = [row for profile in profiles for row in [*profile["kernels"], *profile["copies"]]]
    assert _ran(slices) == Counter(row["name"] for row in rows)
    # One clock: what is between them in the trace is what was between them.
    at = sorted(
        row["start_ns"] + profile["sources"][0]["base_time_ns"]
        for profile in profiles
        for row in [*profile["kernels"], *profile["copies"]]
    )
    begins = sorted(e["begin"] for e in slices if e["cat"].startswith(("kernel", "gpu_")))
    assert [time - begins[0] for time in begins] == [time - at[0] for time in at]


def test_recordings_of_other_days_are_refused(tmp_path: Path) -> None:
    files = []
    for day in (3, 1):
        row = {"name": "k", "device": 0, "start_ns": 0, "duration_ns": 1, "nodes": [],
               "confidence": "unattributed", "phase": "steady", "method": "none"}  # fmt: skip
        base = day * 86_400_000_000_000
        source = {"kind": "kineto", "file": "t.json", "base_time_ns": base}
        files.append(tmp_path / f"day{day}.opprof.json")
        files[-1].write_text(json.dumps(_profile([row], [], [], [], [source])))
    with pytest.raises(OpprofError, match="began more than a day before the first"):
        _timeline(*files)
    first, second = (event["begin"] for event in _slices_of(_timeline(*files[::-1])))
    assert second - first == 2 * 86_400_000_000_000


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_recording_is_shown_whole(file: Path, tmp_path: Path) -> None:
    recording = tmp_path / file.name.removesuffix(".gz")
    content = file.read_bytes()
    recording.write_bytes(gzip.decompress(content) if file.suffix == ".gz" else content)
    profile = tmp_path / "profile.opprof.json"
    profile.write_bytes(run_tool("opprof-driver", ["report", "--json", "--", recording]))
    whole = _slices_of(_timeline(recording))
    rows = json.loads(profile.read_bytes())
    ran = Counter(row["name"] for row in [*rows["kernels"], *rows["copies"]])
    assert ran and ran <= _ran(whole)
    if ".trace.json" in file.name:
        made = json.loads(recording.read_bytes(), parse_float=Decimal)["traceEvents"]
        kernels = [e for e in made if str(e.get("cat")).startswith(("kernel", "gpu_mem"))]
        operators = Counter(e["name"] for e in made if e.get("cat") == "cpu_op")
        assert Counter(e["name"] for e in whole if e["cat"] == "cpu_op") == operators
        # Without a device its operators are what ran.
        if kernels:
            assert _ran(whole) == Counter(event["name"] for event in kernels)
            lasted = sum(
                e["end"] - e["begin"] for e in whole if e["cat"].startswith(("kernel", "gpu_"))
            )
            assert lasted == sum(_nanoseconds(Decimal(e["dur"])) for e in kernels)
    # The profile alone, which says less of the host.
    assert _ran(_slices_of(_timeline(profile))) >= ran
