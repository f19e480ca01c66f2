"""Which launches of a step are counted, and which others their counters stand for. Needs no PyTorch."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opprof.chain import map_launches
from opprof.errors import OpprofError
from opprof.files import scratch_folder
from opprof.recording.launch_maps import LaunchMap, Locator, Place, Places, Standing, launch_maps
from opprof.recording.partitions import PartitionMap, node_that_ran, read_partition_maps
from opprof.run_folder import LAUNCHES, OUTPUT_CODE, RunFolder


@dataclass(frozen=True)
class Filter:
    """The launches that are wanted, in the order in which ncu's options narrow them: names, times, then places."""

    #: A regular expression that is searched in the kernel's name.
    kernels: str | None = None
    #: The kernels, by name, with the longest total time.
    top: int | None = None
    #: How many of what is left are passed over, and how many are counted.
    launch_skip: int = 0
    launch_count: int | None = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.kernels or "")
        except re.error as error:
            raise OpprofError(
                f"kernels {self.kernels!r}: not a regular expression: {error}"
            ) from error

    @property
    def narrows(self) -> bool:
        """Whether anything is left out."""
        return self != Filter()

    def apply(self, launches: Sequence[Mapping[str, Any]], wanted: Iterable[int]) -> list[int]:
        """Those of the wanted launches that are counted."""
        chosen = list(wanted)
        if self.kernels is not None:
            name = re.compile(self.kernels)
            chosen = [i for i in chosen if name.search(launches[i]["kernel"])]
        if self.top is not None:
            # All launches of a kernel make up its time, also those that another one stands for.
            total: dict[str, int] = {}
            for launch in launches:
                total[launch["kernel"]] = total.get(launch["kernel"], 0) + launch.get(
                    "duration_ns", 0
                )
            names = {launches[i]["kernel"] for i in chosen}
            longest = sorted(names, key=lambda n: (-total[n], n))[: self.top]
            chosen = [i for i in chosen if launches[i]["kernel"] in longest]
        end = None if self.launch_count is None else self.launch_skip + self.launch_count
        return chosen[self.launch_skip : end]


@dataclass
class Chosen:
    """The launches that are counted, and the others that each stands for."""

    indices: list[int]
    stands_for: dict[int, list[int]] = field(default_factory=dict)
    #: What makes two launches the same work, in words.
    by: str = ""

    def of(self, indices: list[int]) -> Chosen:
        """The same with only these launches counted."""
        return Chosen(
            indices, {i: self.stands_for[i] for i in indices if i in self.stands_for}, self.by
        )

    def report(self, launches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What stood for what, and how far the times of those launches are from the counted one's."""
        rows = []
        for index in self.indices:
            others = self.stands_for.get(index, [])
            own = launches[index].get("duration_ns")
            times = [t for t in (launches[i].get("duration_ns") for i in others) if t]
            row: dict[str, Any] = {
                "launch": index,
                "kernel": launches[index]["kernel"],
                "for": others,
            }
            if own and times:
                row["times"] = [round(min(times) / own, 3), round(max(times) / own, 3)]
            rows.append(row)
        return {
            "same_work_by": self.by,
            "counted": len(self.indices),
            "of": len(launches),
            "stood_for": sum(len(row["for"]) for row in rows),
            "launches": rows,
        }


@dataclass
class Layers:
    """What is known of a program's layers: its partitions, and the launch maps of its wrappers."""

    partitions: Sequence[PartitionMap] = ()
    maps: list[LaunchMap] = field(default_factory=list)
    where: str = ""

    @classmethod
    def read(cls, folder: RunFolder) -> Layers | None:
        """A run folder's, or nothing where it holds none."""
        codes = [code for code in folder.compiled_graphs() if (code / LAUNCHES).is_file()]
        if not folder.partitions.is_file():
            return None
        partitions = read_partition_maps(folder.partitions)
        return cls(partitions, launch_maps(codes), str(folder.partitions))

    def knows(self, launches: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the launches are of this folder's program."""
        locate = Locator(self.maps)
        graphs = {partitions.graph for partitions in self.partitions}
        return any(
            locate(launch) is not None or ("node" in launch and launch.get("graph") in graphs)
            for launch in launches
        )

    def choose(self, launches: Sequence[Mapping[str, Any]]) -> Chosen:
        """One launch of each work: the unique partition's, or what stands for it. What lies in no partition is counted."""
        standing = Standing(self.maps, Places.read(self.partitions))
        locate = Locator(self.maps)
        kernels: dict[Place, list[int]] = {}
        for index, launch in enumerate(launches):
            found = locate(launch)
            if found is not None:
                kernels.setdefault((found[0].graph, found[1]["index"]), []).append(index)
            elif launch.get("node") is not None:
                node = node_that_ran(
                    launch["node"], launch.get("graph"), launch.get("stage"), self.partitions
                )
                key = standing.add_node(node)
                kernels.setdefault(key, []).append(index)
        stood: dict[int, int] = {}
        for key, mine in kernels.items():
            theirs = kernels.get(standing.counted_for(key), [])
            # A launch of another number of kernels is other work, whatever the graph says.
            if theirs is not mine and [launches[i]["kernel"] for i in theirs] == [
                launches[i]["kernel"] for i in mine
            ]:
                stood.update(zip(mine, theirs, strict=True))
        return _chosen(
            launches,
            stood,
            f"the same place of the same class in {self.where}, and the same kernels",
        )


def choose_same_kernels(launches: Sequence[Mapping[str, Any]], maps: Sequence[LaunchMap]) -> Chosen:
    """One launch of each kernel, grid, block and shared memory.

    A product of other depth can have all of these in common, so launches of a wrapper also agree in the operations and bytes
    that its launch map knows.
    """
    locate = Locator(maps)
    first: dict[tuple[Any, ...], int] = {}
    stood: dict[int, int] = {}
    place: dict[tuple[str, int], int] = {}
    for index, launch in enumerate(launches):
        key: tuple[Any, ...] = (
            launch["kernel"],
            *launch["grid"],
            *launch["block"],
            launch.get("static_shared"),
            launch.get("dynamic_shared"),
        )
        found = locate(launch)
        if found is not None:
            entry = found[1]
            here = (found[0].graph, entry["index"])
            # One call of a library may launch several kernels.
            place[here] = place.get(here, -1) + 1
            key += tuple(entry.get(name) for name in ("flops", "bytes_read", "bytes_written"))
            key += (place[here],)
        counted = first.setdefault(key, index)
        if counted != index:
            stood[index] = counted
    return _chosen(
        launches,
        stood,
        "the same kernel, grid, block and shared memory"
        + (", and the same operations and bytes by the launch map" if maps else ""),
    )


def _chosen(launches: Sequence[Mapping[str, Any]], stood: Mapping[int, int], by: str) -> Chosen:
    stands_for: dict[int, list[int]] = {}
    for other, counted in stood.items():
        stands_for.setdefault(counted, []).append(other)
    return Chosen([i for i in range(len(launches)) if i not in stood], stands_for, by)


def maps_of_files(files: Iterable[str]) -> list[LaunchMap]:
    """The launch maps of wrappers, made by opprof-translate of their files. They know no graph but the wrapper's own."""
    maps = []
    with scratch_folder() as scratch:
        for number, file in enumerate(sorted(files)):
            code = scratch / f"wrapper_{number}"
            code.mkdir()
            shutil.copyfile(file, code / OUTPUT_CODE)
            map_launches(code, code / LAUNCHES)
            maps.extend(launch_maps([code]))
    return maps


def graph_kernels(launches: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The kernels that the CUDA graphs of a step ran, in the order of their capture."""
    return [kernel for launch in launches if launch["cuda_graph"] for kernel in launch["kernels"]]


def sequence_difference(
    graph: Sequence[Mapping[str, Any]], plain: Sequence[Mapping[str, Any]]
) -> str | None:
    """The first place where the kernels of a CUDA graph and of the program outside of it are not the same; none if they are."""

    def described(kernels: Sequence[Mapping[str, Any]], index: int) -> str:
        if index >= len(kernels):
            return f"at its end after {len(kernels)}"
        kernel = kernels[index]
        return f"{kernel['kernel']} grid {tuple(kernel['grid'])} block {tuple(kernel['block'])}"

    def key(kernels: Sequence[Mapping[str, Any]], index: int) -> tuple[Any, ...] | None:
        if index >= len(kernels):
            return None
        return tuple(str(kernels[index][name]) for name in ("kernel", "grid", "block"))

    for index in range(max(len(graph), len(plain))):
        if key(graph, index) != key(plain, index):
            return (
                f"kernel {index} of the graph is {described(graph, index)}, "
                f"outside of it is {described(plain, index)}"
            )
    return None
