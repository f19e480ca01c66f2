"""The launch maps of a program's wrappers, and which launch's counters stand for which. Needs no PyTorch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opprof.errors import OpprofError
from opprof.files import read_json
from opprof.recording.partitions import Node, PartitionMap
from opprof.run_folder import LAUNCHES, OUTPUT_CODE


@dataclass
class LaunchMap:
    """The launches of one compiled graph, by their line."""

    graph: str
    code: str
    by_line: dict[int, dict[str, Any]]


def launch_maps(folders: Iterable[Path]) -> list[LaunchMap]:
    """The launch maps of compiled graphs' folders."""
    maps = []
    for folder in folders:
        launches = read_json(folder / LAUNCHES)
        try:
            code = (folder / OUTPUT_CODE).read_text()
        except (OSError, ValueError) as error:
            raise OpprofError(f"{folder / OUTPUT_CODE}: cannot be read: {error}") from error
        by_line = {launch["line"]: launch for launch in launches["launches"] if launch.get("line")}
        maps.append(LaunchMap(launches.get("graph", folder.name), code, by_line))
    return maps


class Locator:
    """Finds the launch of the map that a captured launch is: Inductor's cache holds the code that the run folder copies."""

    def __init__(self, maps: Sequence[LaunchMap]) -> None:
        self._maps = maps
        self._files: dict[str, LaunchMap | None] = {}

    def map_of(self, file: str) -> LaunchMap | None:
        """The launch map of a file of generated code."""
        if file not in self._files:
            try:
                text = Path(file).read_text()
            except OSError:
                text = None
            self._files[file] = next((m for m in self._maps if m.code == text), None)
        return self._files[file]

    def __call__(self, launch: Mapping[str, Any]) -> tuple[LaunchMap, dict[str, Any]] | None:
        file = launch.get("file")
        if file is None:
            return None
        found = self.map_of(file)
        entry = found.by_line.get(launch["line"]) if found is not None else None
        return (found, entry) if found is not None and entry is not None else None


def origins(launch: Mapping[str, Any]) -> frozenset[Node]:
    """The exported nodes that a launch computes."""
    return frozenset(
        Node.of(origin)
        for node in launch["nodes"]
        for origin in node.get("from", [])
        if origin.get("name")
    )


@dataclass
class Places:
    """For each node of a duplicate partition, the node in its place of the unique one."""

    of: dict[Node, Node] = field(default_factory=dict)

    @classmethod
    def read(cls, maps: Sequence[PartitionMap]) -> "Places":
        places = cls()
        for entry in (entry for partitions in maps for entry in partitions.classes):
            unique = next((p for p in entry.partitions if p.role == "unique"), None)
            for partition in entry.partitions:
                if unique is not None and partition.role == "duplicate":
                    places.of.update(zip(partition.nodes, unique.nodes, strict=False))
        return places

    def representative(self, node: Node) -> Node:
        """The node whose counters stand for this one's."""
        # A class may be nested in another: follow until nothing stands for the node.
        for _ in range(16):
            if node not in self.of:
                break
            node = self.of[node]
        return node


#: Launches that do the same work: what they compute with each node in its unique place, which of the launches of exactly
#: these nodes it is, and its kernel.
Work = tuple[frozenset[Node], int, str]
#: A compiled graph and the launch's place in it, or nothing and a node.
Place = tuple[str, int | Node]


class Standing:
    """Which launch's counters stand for which: one launch of each work is counted."""

    def __init__(self, maps: Sequence[LaunchMap], places: Places) -> None:
        self.places = places
        self.work: dict[Place, Work] = {}
        self.nodes: dict[Place, frozenset[Node]] = {}
        self.counted: dict[Work, Place] = {}
        seen: dict[frozenset[Node], int] = {}
        for graph in maps:
            for entry in sorted(graph.by_line.values(), key=lambda e: e["index"]):
                key = (graph.graph, entry["index"])
                nodes = origins(entry)
                self.nodes[key] = nodes
                if not nodes:
                    continue
                number = seen.get(nodes, 0)
                seen[nodes] = number + 1
                work = (frozenset(map(places.representative, nodes)), number, entry["kernel"])
                self.work[key] = work
                before = self.counted.get(work)
                # The unique partition's own launch, where it has one that computes nothing else; fusion across a
                # partition's border can leave it without.
                if before is None or (nodes == work[0] and self.nodes[before] != work[0]):
                    self.counted[work] = key

    def add_node(self, node: Node) -> Place:
        """A node that runs by itself is a launch of its own."""
        key = ("", node)
        if key not in self.work:
            self.nodes[key] = frozenset({node})
            representative = self.places.representative(node)
            work = (frozenset({representative}), 0, "")
            self.work[key] = work
            if node == representative or work not in self.counted:
                self.counted[work] = key
        return key

    def counted_for(self, key: Place) -> Place:
        """The launch whose counters stand for this one's; one that is known to compute no node stands for itself."""
        work = self.work.get(key)
        return key if work is None else self.counted[work]
