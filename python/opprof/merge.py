"""`opprof merge`: joins captures of several ranks on one clock, and measures their communication. Needs no PyTorch."""

import json
import math
import re
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opprof.capture_library import Library
from opprof.errors import OpprofError
from opprof.files import replacing

Interval = tuple[float, float]


@dataclass(frozen=True)
class Collective:
    """One kernel of NCCL, in microseconds on the common clock."""

    name: str
    start: float
    end: float


@dataclass
class Rank:
    """One rank's communication, in microseconds."""

    rank: int
    file: str
    kernels: int = 0
    compute_us: float = 0.0
    communication_us: float = 0.0
    #: Communication while no other kernel of the rank ran.
    exposed_us: float = 0.0


@dataclass
class Merged:
    """What a merge found out."""

    ranks: list[Rank] = field(default_factory=list)
    #: Of each collective that every rank launched: its name, and how far apart the ranks began it.
    skews: list[tuple[str, float]] = field(default_factory=list)
    #: By rank, collectives that not every rank has recorded.
    unpaired: dict[int, int] = field(default_factory=dict)
    #: Captures that belong to no rank, and why.
    left_out: list[str] = field(default_factory=list)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals with overlaps joined, in order."""
    joined: list[list[float]] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return [(start, end) for start, end in joined]


def length(intervals: Iterable[Interval]) -> float:
    """The sum of their lengths."""
    return sum(end - start for start, end in intervals)


def uncovered(intervals: Sequence[Interval], cover: Sequence[Interval]) -> float:
    """How much of `intervals` lies outside of `cover`; both are unions."""
    total = length(intervals)
    index = 0
    for start, end in intervals:
        while index < len(cover) and cover[index][1] <= start:
            index += 1
        at = index
        while at < len(cover) and cover[at][0] < end:
            total -= min(end, cover[at][1]) - max(start, cover[at][0])
            at += 1
    return total


def is_collective(name: str) -> bool:
    """Whether a kernel is NCCL's."""
    return "nccl" in name.lower()


def _captures(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(path.glob("*.opcap"))
            if not found:
                raise OpprofError(f"{path}: holds no capture (.opcap)")
            files.extend(found)
        elif path.is_file():
            files.append(path)
        else:
            raise OpprofError(f"{path}: no such file or folder")
    return files


def measure(rank: Rank, events: Sequence[dict[str, Any]]) -> list[Collective]:
    """Fills in a rank's times; returns its collectives in order."""
    kernels = [e for e in events if e.get("cat") == "kernel"]
    kernels.sort(key=lambda e: e["ts"])
    rank.kernels = len(kernels)
    spans: dict[bool, list[Interval]] = {True: [], False: []}
    for event in kernels:
        spans[is_collective(event["name"])].append((event["ts"], event["ts"] + event["dur"]))
    communication, compute = union(spans[True]), union(spans[False])
    rank.compute_us = length(compute)
    rank.communication_us = length(communication)
    rank.exposed_us = uncovered(communication, compute)
    return [
        Collective(e["name"], e["ts"], e["ts"] + e["dur"])
        for e in kernels
        if is_collective(e["name"])
    ]


def offset_of(other: Sequence[Collective], reference: Sequence[Collective]) -> int:
    """What to add to a collective's place in `reference` for its place in `other`.

    Recordings that begin after a delay begin at different collectives. A collective ends on all ranks at about one time,
    however late one of them began, so the places are those at which the ends are nearest.
    """
    if not other or not reference:
        return 0
    middle = reference[len(reference) // 2].end
    nearest = min(range(len(other)), key=lambda i: abs(other[i].end - middle))
    guess = nearest - len(reference) // 2

    def distance(offset: int) -> float:
        first, last = max(0, -offset), min(len(reference), len(other) - offset)
        if last <= first:
            return math.inf
        # A few hundred tell one offset from another.
        places = range(first, last, max(1, (last - first) // 300))
        apart = [
            abs(other[i + offset].end - reference[i].end)
            for i in places
            if other[i + offset].name == reference[i].name
        ]
        return statistics.median(apart) if 2 * len(apart) > len(places) else math.inf

    best = min(range(guess - 100, guess + 101), key=distance)
    # Where nothing speaks clearly for another place, as on clocks that are wrong, the n-th meets the n-th.
    return best if 2 * distance(best) < distance(0) else 0


def pair(result: Merged, collectives: Sequence[Sequence[Collective]]) -> None:
    """Fills in how far apart the ranks began each collective, and how many could not be paired."""
    offsets = [offset_of(own, collectives[0]) for own in collectives]
    paired = 0
    for place in range(len(collectives[0])):
        at = [place + offset for offset in offsets]
        if not all(0 <= i < len(own) for i, own in zip(at, collectives, strict=True)):
            continue
        same = [own[i] for i, own in zip(at, collectives, strict=True)]
        if len({entry.name for entry in same}) == 1:
            starts = [entry.start for entry in same]
            result.skews.append((same[0].name, max(starts) - min(starts)))
            paired += 1
    result.unpaired = {
        rank.rank: len(own) - paired
        for rank, own in zip(result.ranks, collectives, strict=True)
        if len(own) > paired
    }


def _of_ranks(library: Library, files: Sequence[Path], result: Merged) -> list[tuple[int, Path]]:
    """The captures that are merged, and their ranks.

    A launcher, and helpers of a rank, may use CUDA without being a rank: what has none, where others have, is left out, and so
    is a second process of a rank that ran no kernel.
    """
    found: list[tuple[int | None, int, Path]] = []
    for file in files:
        summary = library.summarize(str(file))
        numbers = dict(re.findall(r"^(kernels|rank): (\d+)", summary, re.MULTILINE))
        rank = int(numbers["rank"]) if "rank" in numbers else None
        found.append((rank, int(numbers.get("kernels", 0)), file))
    ranked = any(rank is not None for rank, _, _ in found)
    working = {rank for rank, kernels, _ in found if kernels}
    seen: dict[int, Path] = {}
    for number, (rank, kernels, file) in enumerate(found):
        if rank is None and ranked:
            result.left_out.append(f"{file}: of no rank, {kernels} kernels")
            continue
        if not kernels and rank in working:
            result.left_out.append(f"{file}: a further process of rank {rank}, without kernels")
            continue
        rank = number if rank is None else rank
        if rank in seen:
            raise OpprofError(
                f"{file}: rank {rank} is also {seen[rank]}'s",
                remedy="give one capture a rank; those of another run belong to a merge of their own",
            )
        seen[rank] = file
    return sorted(seen.items())


def merge(paths: Sequence[Path], output: Path) -> Merged:
    """Writes one trace of all ranks, and returns the measures."""
    library = Library.get()
    result = Merged()
    collectives: list[list[Collective]] = []
    with replacing(output) as target, tempfile.TemporaryDirectory() as scratch:
        target.write('{"trace_source": "opprof merge", "displayTimeUnit": "ms", "traceEvents": [')
        first = True
        origin: float | None = None
        for number, file in _of_ranks(library, _captures(paths), result):
            trace_file = Path(scratch) / "trace.json"
            library.export_trace(str(file), str(trace_file))
            trace = json.loads(trace_file.read_text())
            rank = Rank(number, str(file))
            clock = trace.get("clock")
            if clock is None:
                raise OpprofError(f"{file}: holds no clock, so it cannot be put beside other ranks")
            # One origin keeps microseconds since 1970 out of double's last digits.
            shift = (clock["realtime"] - clock["trace"]) / 1000
            if origin is None:
                origin = clock["realtime"] / 1000
            events = trace["traceEvents"]
            for event in events:
                event["ts"] += shift - origin
                event["pid"] = f"rank {rank.rank}, {event['pid']}"
                target.write(("\n" if first else ",\n") + json.dumps(event))
                first = False
            collectives.append(measure(rank, events))
            result.ranks.append(rank)
        target.write("\n]}\n")
    if len(collectives) > 1:
        pair(result, collectives)
    return result


def merge_text(merged: Merged) -> str:
    """The measures as a table."""
    lines = [f"{'rank':>5} {'kernels':>8} {'compute ms':>11} {'comm. ms':>9} {'exposed ms':>11}"]
    for rank in merged.ranks:
        lines.append(
            f"{rank.rank:>5} {rank.kernels:>8} {rank.compute_us / 1e3:>11.3f} "
            f"{rank.communication_us / 1e3:>9.3f} {rank.exposed_us / 1e3:>11.3f}"
        )
    if merged.skews:
        name, worst = max(merged.skews, key=lambda skew: skew[1])
        middle = sorted(skew for _, skew in merged.skews)[len(merged.skews) // 2]
        lines.append(
            f"{len(merged.skews)} collectives on all ranks; started {middle:.1f} µs apart (median), "
            f"{worst:.1f} µs at most ({name})"
        )
    elif len(merged.ranks) > 1:
        lines.append("no collective runs on all ranks")
    lines += [
        f"rank {rank}: {count} collective{'s' if count != 1 else ''} that another rank has not recorded"
        for rank, count in merged.unpaired.items()
    ]
    lines += [f"left out: {reason}" for reason in merged.left_out]
    return "\n".join(lines) + "\n"
