"""A profile as a trace that Perfetto opens: what ran on each stream, and beside it the nodes, partitions and modules that it was for, the
steps, and the counters. Needs no PyTorch."""

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from opprof.files import replacing
from opprof.loading import Profile

#: Process of the steps; those of devices follow.
_STEPS = 1
_ARGUMENTS = (
    *(
        "id",
        "device",
        "stream",
        "step",
        "compiled_graph",
        "launch",
        "method",
        "confidence",
        "explanation",
    ),
    *("phase", "host_op", "module", "input_type", "range", "bytes", "grid", "block", "metrics"),
)


def events_of(profile: Profile) -> list[dict[str, Any]]:
    """The events of the trace, in microseconds after the first of the profile: all of them exact to the nanosecond."""
    data = profile.data
    rows = [("kernel", row) for row in data.get("kernels", [])]
    rows += [("gpu_" + row.get("kind", "memcpy"), row) for row in data.get("copies", [])]
    steps = data.get("steps", [])
    began = min([row["start_ns"] for row in [*(row for _, row in rows), *steps]], default=0)
    partitions = {
        _name(node, profile): node["partition"]
        for node in data.get("nodes", [])
        if "partition" in node
    }
    devices = {device.id: device.name for device in profile.devices}
    events: list[dict[str, Any]] = []
    if steps:
        events += _named(_STEPS, "steps", 0)
        events += _track(_STEPS, 1, "steps")
        for step in steps:
            duration = step["end_ns"] - step["start_ns"]
            events.append(
                _slice(
                    "step", f"step {step['index']}", step["start_ns"] - began, duration, _STEPS, 1
                )
                | {"args": {"phase": step["phase"]}}
            )
    places: dict[tuple[int, int], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for category, row in rows:
        places[row.get("rank", -1), row["device"]].append((category, row))
    for number, ((rank, device), own) in enumerate(
        sorted(places.items(), key=lambda item: item[0])
    ):
        process = _STEPS + 1 + number
        of_rank = f"rank {rank}, " if rank >= 0 else ""
        name = f"{of_rank}device {device} {devices.get(device, '')}".strip()
        events += _named(process, name, number + 1)
        events += _device(own, process, began, profile, partitions)
    return events


def _device(
    rows: Iterable[tuple[str, dict[str, Any]]],
    process: int,
    began: int,
    profile: Profile,
    partitions: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    streams: dict[int, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for category, row in rows:
        streams[row.get("stream", 0)].append((category, row))
    thread = 0
    for stream, own in sorted(streams.items()):
        for lane, members in enumerate(_lanes(own)):
            of_lane = f" ({lane + 1})" if lane else ""
            tracks = {
                "": [_ran(category, row, profile) for category, row in members],
                "nodes of ": list(_nodes(members, profile)),
                "partitions of ": list(
                    _joined("partition", members, _partition(profile, partitions))
                ),
                "modules of ": list(_joined("module", members, lambda row: row.get("module", ""))),
            }
            for of, slices in tracks.items():
                if not slices:
                    continue
                thread += 1
                yield from _track(process, thread, f"{of}stream {stream}{of_lane}")
                for category, name, start, duration, args in slices:
                    yield _slice(category, name, start - began, duration, process, thread) | {
                        "args": args
                    }
            for _, row in members:
                for metric, value in row.get("metrics", {}).items():
                    for at, shown in ((0, value), (row["duration_ns"], 0)):
                        time = (row["start_ns"] + at - began) / 1000
                        counter = f"{metric}, stream {stream}{of_lane}"
                        yield {
                            "ph": "C",
                            "name": counter,
                            "pid": process,
                            "ts": time,
                            "args": {"value": shown},
                        }


_Slice = tuple[str, str, int, int, dict[str, Any]]


def _ran(category: str, row: Mapping[str, Any], profile: Profile) -> _Slice:
    args = {key: row[key] for key in _ARGUMENTS if key in row}
    args["nodes"] = [_name(node, profile) for node in row.get("nodes", [])]
    return category, row["name"], row["start_ns"], row["duration_ns"], args


def _nodes(rows: Iterable[tuple[str, dict[str, Any]]], profile: Profile) -> Iterator[_Slice]:
    for _, row in rows:
        if names := [_name(node, profile) for node in row.get("nodes", [])]:
            args = {"nodes": names, "confidence": row["confidence"], "kernel": row["id"]}
            yield "node", " + ".join(names), row["start_ns"], row["duration_ns"], args


def _partition(profile: Profile, partitions: Mapping[str, str]) -> Any:
    def of(row: Mapping[str, Any]) -> str:
        names = {partitions.get(_name(node, profile), "") for node in row.get("nodes", [])}
        # Of a kernel that computes nodes of several, none is said.
        return names.pop() if len(names) == 1 else ""

    return of


def _joined(category: str, rows: Iterable[tuple[str, dict[str, Any]]], of: Any) -> Iterator[_Slice]:
    """What follows one another and is of one partition, or module, and of one step where that is known, as one slice."""
    current, start, end, kernels = "", 0, 0, 0
    step = None
    for kind, row in [*rows, ("", {})]:
        name = of(row) if row else ""
        ends = name != current or (step is not None and row.get("step", step) != step)
        if current and ends:
            yield category, current, start, end - start, {"kernels": kernels}
        if not row:
            break
        if ends:
            current, start, kernels, step = name, row["start_ns"], 0, None
        step = row.get("step", step)
        end = row["start_ns"] + row["duration_ns"]
        kernels += kind == "kernel"


def _lanes(
    rows: Iterable[tuple[str, dict[str, Any]]],
) -> list[list[tuple[str, dict[str, Any]]]]:
    """Slices of a track may not overlap in part: what runs at once is side by side."""
    lanes: list[list[tuple[str, dict[str, Any]]]] = []
    ends: list[int] = []
    for item in sorted(rows, key=lambda item: (item[1]["start_ns"], item[1]["id"])):
        start = item[1]["start_ns"]
        free = next((lane for lane, end in enumerate(ends) if end <= start), len(ends))
        if free == len(ends):
            lanes.append([])
            ends.append(0)
        lanes[free].append(item)
        ends[free] = start + item[1]["duration_ns"]
    return lanes


def _name(node: Any, profile: Profile) -> str:
    """A node as tables call it: of another graph or stage with these."""
    if isinstance(node, str):
        return node
    graph, stage = node.get("graph", profile.graph), node.get("stage", profile.stage)
    if (graph, stage) == (profile.graph, profile.stage):
        return str(node["name"])
    return f"{graph}@{stage}:{node['name']}"


def _slice(
    category: str, name: str, start: int, duration: int, process: int, thread: int
) -> dict[str, Any]:
    return {
        **{"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread},
        **{"ts": start / 1000, "dur": duration / 1000},
    }


def _named(process: int, name: str, place: int) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}},
        {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": place}},
    ]


def _track(process: int, thread: int, name: str) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}},
        {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": process,
            "tid": thread,
            "args": {"sort_index": thread},
        },
    ]


def write_timeline(profile: Profile, target: str | os.PathLike[str]) -> None:
    """Writes the trace; compressed where the name ends so."""
    document = {
        "displayTimeUnit": "ns",
        # As torch.profiler names them, so that what reads its traces knows them.
        "deviceProperties": [{"id": d.id, "name": d.name} for d in profile.devices if d.name],
        "traceEvents": events_of(profile),
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    with replacing(target, "wb") as file:
        file.write(gzip.compress(text, mtime=0) if Path(target).suffix == ".gz" else text)
