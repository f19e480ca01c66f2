"""What holds of every timeline for Perfetto, whatever a profile and its recording say: random ones of the forms of docs/formats/profile.md."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from opprof.tools import run_tool

#: Few values, so that starts and ends meet: there the order of events matters.
TIMES = st.one_of(st.integers(0, 12), st.integers(0, 1 << 60))
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
STEPS = st.fixed_dictionaries({"start_ns": TIMES, "duration_ns": DURATIONS})
WAITS = st.fixed_dictionaries({"name": TEXTS, "start_ns": TIMES, "duration_ns": DURATIONS})


def _apart(steps: Any) -> list[dict[str, Any]]:
    """Steps follow one another."""
    starts = sorted(row["start_ns"] for row in steps)
    ends = [*starts[1:], 1 << 61][: len(starts)]
    return [
        {
            "index": number,
            "phase": "steady",
            "start_ns": start,
            "end_ns": min(end, start + row["duration_ns"]),
        }
        for number, (row, start, end) in enumerate(zip(steps, starts, ends, strict=True))
    ]


def _profile(kernels: Any, copies: Any, steps: Any, waits: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "graph": "g",
        "stage": "export",
        "sources": [],
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
        "steps": _apart(steps),
        "synchronizations": waits,
    }


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(ROWS, max_size=8),
    st.lists(ROWS, max_size=3),
    st.lists(STEPS, max_size=2),
    st.lists(WAITS, max_size=2),
)
def test_every_timeline_is_one_that_perfetto_shows(
    kernels: Any, copies: Any, steps: Any, waits: Any
) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "profile.opprof.json"
        file.write_text(json.dumps(_profile(kernels, copies, steps, waits)))
        events = json.loads(run_tool("opprof-driver", ["report", file, "--perfetto=-"]))
    events = events["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    # Everything that ran is there once.
    ran = Counter(event["name"] for event in slices if event["cat"].startswith(("kernel", "gpu_")))
    assert ran == Counter(row["name"] for row in [*kernels, *copies])
    assert sum(event["cat"] == "step" for event in slices) == len(steps)
    # Nothing is before the begin, and each track has a name.
    assert all(event["ts"] >= 0 for event in events if "ts" in event)
    named = {
        (event["pid"], event.get("tid")) for event in events if event["name"].endswith("_name")
    }
    assert {(event["pid"], event["tid"]) for event in slices} <= named
    assert {(event["pid"], None) for event in slices} <= named
    # Slices of a track lie in one another or apart.
    of_track = defaultdict(list)
    for event in slices:
        begin, length = round(event["ts"] * 1000), round(event["dur"] * 1000)
        of_track[event["pid"], event["tid"]].append((begin, begin + length))
    largest = max((end for own in of_track.values() for _, end in own), default=0)
    # Microseconds of a day's length and less are exact to the nanosecond as JSON's numbers.
    if largest < 1 << 50:
        for own in of_track.values():
            open_ends: list[int] = []
            for begin, end in sorted(own, key=lambda times: (times[0], -times[1])):
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1]
                open_ends.append(end)
    # Arrows begin and end once.
    for phase in ("s", "f"):
        arrows = Counter(event["id"] for event in events if event["ph"] == phase)
        assert all(count == 1 for count in arrows.values())
    begun = {event["id"] for event in events if event["ph"] == "s"}
    assert begun == {event["id"] for event in events if event["ph"] == "f"}
