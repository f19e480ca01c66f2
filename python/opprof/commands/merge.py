"""`opprof merge`: joins captures of several ranks on one clock, and measures their communication. Needs no PyTorch."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opprof.commands.report import check_report_file, report_perfetto
from opprof.errors import OpprofError
from opprof.files import make_folder, read_json, scratch_folder
from opprof.recording.library import Library, summary_counts
from opprof.suffixes import CAPTURE
from opprof.units import counted, microseconds, milliseconds


@dataclass(frozen=True)
class Collective:
    """One kernel of NCCL, in nanoseconds on the common clock."""

    name: str
    start: int
    end: int


@dataclass
class Rank:
    """One rank's communication, in nanoseconds; unions, so that what overlaps counts once."""

    rank: int
    file: str
    kernels: int = 0
    compute_ns: int = 0
    communication_ns: int = 0
    #: Communication while no other kernel of the rank ran.
    exposed_ns: int = 0


@dataclass
class Merged:
    """What a merge found out."""

    ranks: list[Rank] = field(default_factory=list)
    #: Of each collective that every rank launched: its name, and how far apart the ranks began it.
    skews: list[tuple[str, int]] = field(default_factory=list)
    #: By rank, collectives that not every rank has recorded.
    unpaired: dict[int, int] = field(default_factory=dict)
    #: Captures that belong to no rank, and why.
    left_out: list[str] = field(default_factory=list)


def _begins_as_capture(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8) == b"OPPROFCP"


#: Recordings of other kinds are the report's.
_OTHERS = (
    "`opprof report FILE...` takes the recordings of all ranks, of any kind, and says which one the others wait for; with "
    "`--perfetto=FILE` it puts them on one clock"
)


def _captures(paths: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(path.glob(f"*{CAPTURE}"))
            if not found:
                raise OpprofError(f"{path}: holds no capture ({CAPTURE})", remedy=_OTHERS)
            files.extend(found)
        elif path.is_file():
            if path.suffix != CAPTURE and not _begins_as_capture(path):
                raise OpprofError(f"{path}: is no capture ({CAPTURE})", remedy=_OTHERS)
            files.append(path)
        else:
            raise OpprofError(f"{path}: no such file or folder")
    return files


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
        numbers = summary_counts(library.summarize(str(file)))
        found.append((numbers.get("rank"), numbers.get("kernels", 0), file))
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
    if str(output) == "-":
        raise OpprofError(
            "opprof merge prints its measures, and the trace goes to a file",
            remedy="name one: -o merged.json",
        )
    check_report_file(output, "-o")
    files = _captures(paths)
    library = Library.for_files()
    result = Merged()
    captures = [(rank, str(file)) for rank, file in _of_ranks(library, files, result)]
    make_folder(output.parent)
    with scratch_folder() as scratch:
        measures = scratch / "measures.json"
        library.measure_ranks(captures, str(measures))
        found = read_json(measures)["ranks"]
    report_perfetto([Path(file) for _, file in captures], output)
    collectives = []
    for entry in found:
        names, runs = entry.pop("names"), entry.pop("collectives")
        collectives.append([Collective(names[name], start, end) for name, start, end in runs])
        result.ranks.append(Rank(**entry))
    if len(collectives) > 1:
        pair(result, collectives)
    return result


def merge_text(merged: Merged) -> str:
    """The measures as a table."""
    lines = [f"{'rank':>5} {'kernels':>8} {'compute ms':>11} {'comm. ms':>9} {'exposed ms':>11}"]
    for rank in merged.ranks:
        lines.append(
            f"{rank.rank:>5} {rank.kernels:>8} {milliseconds(rank.compute_ns):>11} "
            f"{milliseconds(rank.communication_ns):>9} {milliseconds(rank.exposed_ns):>11}"
        )
    if merged.skews:
        name, worst = max(merged.skews, key=lambda skew: skew[1])
        middle = sorted(skew for _, skew in merged.skews)[len(merged.skews) // 2]
        lines.append(
            f"{len(merged.skews)} collectives on all ranks; started {microseconds(middle)} µs apart (median), "
            f"{microseconds(worst)} µs at most ({name})"
        )
    elif len(merged.ranks) > 1:
        lines.append("no collective runs on all ranks")
    lines += [
        f"rank {rank}: {counted(count, 'collective')} that another rank has not recorded"
        for rank, count in merged.unpaired.items()
    ]
    lines += [f"left out: {reason}" for reason in merged.left_out]
    return "\n".join(lines) + "\n"
