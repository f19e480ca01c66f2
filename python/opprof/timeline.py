"""A recording as a trace that Perfetto opens: what the host did on each thread, what ran on each stream, and beside it the nodes, partitions
and modules that it was for, the steps, and the counters. Needs no PyTorch.

What ran on devices, and what it was for, is the profile's. What the host did is the recording's, where that is at hand; a profile alone says
when it launched and waited.
"""

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opprof.files import replacing
from opprof.loading import Profile, load
from opprof.run_folder import recorded_file, recorded_files
from opprof.tools import run_driver

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
    *("phase", "host_op", "module", "source", "input_type", "range", "cuda_graph", "graph_node"),
    *("bytes", "grid", "block", "registers", "shared_memory", "local_memory"),
    *("blocks_per_sm", "warps_per_sm", "occupancy_pct", "metrics"),
)
#: What the profile says of a device, by torch.profiler's keys.
_DEVICE = {
    "totalGlobalMem": "total_memory",
    "numSms": "sm_count",
    "warpSize": "warp_size",
    "maxThreadsPerMultiprocessor": "max_threads_per_sm",
    "regsPerMultiprocessor": "registers_per_sm",
    "sharedMemPerMultiprocessor": "shared_per_sm",
}


@dataclass(frozen=True)
class _HostEvent:
    """What a thread did, in nanoseconds on the profile's clock."""

    category: str
    name: str
    #: Its process and thread, as they are shown.
    track: tuple[str, str]
    start: int
    duration: int
    args: dict[str, Any]


def events_of(profile: Profile, host: Sequence[_HostEvent] = ()) -> list[dict[str, Any]]:
    """The events of the trace, in microseconds after the first of them: all exact to the nanosecond."""
    return _events(profile, host)[1]


def _events(profile: Profile, host: Sequence[_HostEvent]) -> tuple[int, list[dict[str, Any]]]:
    """The events, and the nanosecond of the profile's clock at which they begin."""
    data = profile.data
    rows = [("kernel", row) for row in data.get("kernels", [])]
    rows += [("gpu_" + row.get("kind", "memcpy"), row) for row in data.get("copies", [])]
    steps = data.get("steps", [])
    host = host or _host_of(profile)
    began = min(
        [
            *(row["start_ns"] for _, row in rows),
            *(step["start_ns"] for step in steps),
            *(event.start for event in host),
        ],
        default=0,
    )
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
    launches = _Launches(host)
    for number, ((rank, device), own) in enumerate(
        sorted(places.items(), key=lambda item: item[0])
    ):
        process = _STEPS + 1 + number
        of_rank = f"rank {rank}, " if rank >= 0 else ""
        name = f"{of_rank}device {device} {devices.get(device, '')}".strip()
        events += _named(process, name, number + 1)
        events += _device(own, process, began, profile, partitions, launches)
    events += _host(host, _STEPS + 1 + len(places), began, launches)
    return began, events


class _Launches:
    """Which call launched what, for the arrows between them: calls are told apart by their time, which is the profile's too."""

    def __init__(self, host: Iterable[_HostEvent]) -> None:
        calls: dict[tuple[int, int], list[_HostEvent]] = defaultdict(list)
        for event in host:
            if event.category in _CALLS:
                calls[event.start, event.duration].append(event)
        # Of two threads' calls at the same nanosecond, none is said.
        self._calls = {time: own[0] for time, own in calls.items() if len(own) == 1}
        self._arrows: dict[int, list[int]] = defaultdict(list)
        self._number = 0

    def arrow_to(self, row: Mapping[str, Any]) -> int | None:
        """The number of the arrow to a kernel or copy, from the call that launched it."""
        call = self._call_of(row)
        if call is None:
            return None
        self._number += 1
        self._arrows[id(call)].append(self._number)
        return self._number

    def _call_of(self, row: Mapping[str, Any]) -> _HostEvent | None:
        if "launched_at_ns" not in row:
            return None
        return self._calls.get((row["launched_at_ns"], row.get("launch_call_ns", 0)))

    def correlation_of(self, row: Mapping[str, Any]) -> Any:
        call = self._call_of(row)
        return None if call is None else call.args.get("correlation")

    def arrows_from(self, call: _HostEvent) -> list[int]:
        return self._arrows.get(id(call), [])


#: Categories of what may launch.
_CALLS = ("cuda_runtime", "cuda_driver", "launch")


def _arrow(
    phase: str, number: int, process: int, thread: int, start: int, began: int
) -> dict[str, Any]:
    # An arrow is bound to the slice that begins there, also where the one before ends then.
    end = {"bp": "e"} if phase == "f" else {}
    return {
        **{"ph": phase, "id": number, "pid": process, "tid": thread, "ts": (start - began) / 1000},
        **{"cat": "ac2g", "name": "ac2g", **end},
    }


def _host(
    host: Iterable[_HostEvent], first: int, began: int, launches: _Launches
) -> Iterator[dict[str, Any]]:
    processes: dict[str, dict[str, list[_HostEvent]]] = defaultdict(lambda: defaultdict(list))
    for event in host:
        processes[event.track[0]][event.track[1]].append(event)
    for number, (name, threads) in enumerate(processes.items()):
        process = first + number
        yield from _named(process, f"host {name}".strip(), process)
        thread = 0
        for label, own in threads.items():
            for lane, members in enumerate(_nested(own)):
                thread += 1
                of_lane = f" ({lane + 1})" if lane else ""
                yield from _track(process, thread, label + of_lane)
                for event in members:
                    yield _slice(
                        *(event.category, event.name, event.start - began, event.duration),
                        *(process, thread),
                    ) | {"args": event.args}
                    for arrow in launches.arrows_from(event):
                        yield _arrow("s", arrow, process, thread, event.start, began)


def _nested(events: Iterable[_HostEvent]) -> list[list[_HostEvent]]:
    """Slices of a thread may lie in one another; what overlaps in part is beside it."""
    lanes: list[tuple[list[_HostEvent], list[int]]] = []
    for event in sorted(events, key=lambda event: (event.start, -event.duration)):
        end = event.start + event.duration
        for _, ends in lanes:
            while ends and ends[-1] <= event.start:
                ends.pop()
        free = (lane for lane in lanes if not lane[1] or end <= lane[1][-1])
        if (lane := next(free, None)) is None:
            lanes.append(lane := ([], []))
        lane[0].append(event)
        lane[1].append(end)
    return [members for members, _ in lanes]


def _host_of(profile: Profile) -> list[_HostEvent]:
    """What a profile alone says of the host: when it launched, called what was compiled, waited, and was held up by the profiler."""
    data = profile.data
    events: list[_HostEvent] = []
    launched: dict[tuple[str, int, int], str] = {}
    for row in [*data.get("kernels", []), *data.get("copies", [])]:
        if "launched_at_ns" in row:
            rank = f"of rank {row['rank']}" if "rank" in row else ""
            place = rank, row["launched_at_ns"], row.get("launch_call_ns", 0)
            launched.setdefault(place, row.get("host_op", row["name"]))
    for (rank, start, duration), name in launched.items():
        events.append(_HostEvent("launch", name, (rank, "launches"), start, duration, {}))
    for key, category, track in (
        ("synchronizations", "cuda_runtime", "waits"),
        ("calls", "compiled_call", "compiled calls"),
        ("cache_lookups", "cache_lookup", "cache lookups"),
        ("overheads", "overhead", "profiler"),
    ):
        for row in data.get(key, []):
            name = row.get("name") or row.get("compiled_graph") or row.get("kind") or track
            args = {k: v for k, v in row.items() if k not in ("name", "start_ns", "duration_ns")}
            start, duration = row["start_ns"], row["duration_ns"]
            events.append(_HostEvent(category, name, ("", track), start, duration, args))
    return events


def host_events(recording: Path) -> list[_HostEvent]:
    """What the host did, as the recording of any kind has it."""
    own = recorded_file(recording)
    operators = recorded_files(recording.parent, "operators", own.process) if own.process else []
    beside = [f"--operators={file.path}" for file in operators if own.kind == "capture"]
    data = json.loads(run_driver("host-tracks", recording, *beside[:1]))
    places: dict[int | None, tuple[str, str]] = {None: ("", "profiler")}
    for number, process in enumerate(data["threads"]):
        places[number] = data["processes"][process], f"thread {number}"
    return [
        _HostEvent(category, name, places[thread], start, duration, args)
        for category, name, thread, start, duration, args in data["events"]
    ]


def _recording_of(profile: Profile, path: Path) -> Path | None:
    """The one recording that a profile is of, where it lies beside it."""
    if path.is_file() and not path.name.endswith(".opprof.json"):
        return path
    folder = path if path.is_dir() else path.parent
    names = {Path(source.get("file", "")).name for source in profile.data.get("sources", [])}
    if len(names) != 1 or not (name := names.pop()):
        return None
    recording = folder / name
    # A folder may be anybody's: what it links to is not read.
    return recording if recording.is_file() and not recording.is_symlink() else None


def _device(
    rows: Iterable[tuple[str, dict[str, Any]]],
    process: int,
    began: int,
    profile: Profile,
    partitions: Mapping[str, str],
    launches: _Launches,
) -> Iterator[dict[str, Any]]:
    streams: dict[int, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for category, row in rows:
        streams[row.get("stream", 0)].append((category, row))
    thread = 0
    for stream, own in sorted(streams.items()):
        for lane, members in enumerate(_lanes(own)):
            of_lane = f" ({lane + 1})" if lane else ""
            tracks = {
                "": [_ran(category, row, profile, launches) for category, row in members],
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
                if not of:
                    for _, row in members:
                        if (arrow := launches.arrow_to(row)) is not None:
                            yield _arrow("f", arrow, process, thread, row["start_ns"], began)
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


def _ran(category: str, row: Mapping[str, Any], profile: Profile, launches: _Launches) -> _Slice:
    args = {key: row[key] for key in _ARGUMENTS if key in row}
    if (correlation := launches.correlation_of(row)) is not None:
        args["correlation"] = correlation
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


def write_timeline(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Writes the trace of a recording, a profile or a run folder; compressed where the name ends so."""
    profile = load(path)
    recording = _recording_of(profile, Path(path))
    began, events = _events(profile, host_events(recording) if recording else [])
    document: dict[str, Any] = {
        "displayTimeUnit": "ns",
        # As torch.profiler names them, so that what reads its traces knows them.
        "deviceProperties": [
            _properties(d) for d in profile.data.get("devices", []) if "name" in d
        ],
    }
    sources = profile.data.get("sources", [])
    if len(sources) == 1:
        if "base_time_ns" in sources[0]:
            document["baseTimeNanoseconds"] = sources[0]["base_time_ns"] + began
        if "rank" in sources[0]:
            size = {"world_size": sources[0]["world_size"]} if "world_size" in sources[0] else {}
            document["distributedInfo"] = {"rank": sources[0]["rank"], **size}
    document["traceEvents"] = events
    text = json.dumps(document, separators=(",", ":")).encode()
    with replacing(target, "wb") as file:
        file.write(gzip.compress(text, mtime=0) if Path(target).suffix == ".gz" else text)


def _properties(device: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: device[own] for key, own in _DEVICE.items() if own in device}
    if "compute_capability" in device:
        known["computeMajor"], known["computeMinor"] = device["compute_capability"]
    return {"id": device["id"], "name": device["name"], **known}
