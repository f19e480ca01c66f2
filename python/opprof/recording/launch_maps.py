"""The launch maps and partitions of a program: which nodes a line of its wrappers launches, and of which layer. Needs no PyTorch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opprof.errors import OpprofError
from opprof.files import read_json
from opprof.recording.partitions import Node, PartitionMap, read_partition_maps
from opprof.run_folder import LAUNCHES, OUTPUT_CODE, RunFolder


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
        launches = read_json(folder / LAUNCHES, within=folder)
        try:
            code = (folder / OUTPUT_CODE).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise OpprofError(f"{folder / OUTPUT_CODE}: cannot be read: {error}") from error
        by_line = {launch["line"]: launch for launch in launches["launches"] if launch.get("line")}
        maps.append(LaunchMap(launches.get("graph", folder.name), code, by_line))
    return maps


class Locator:
    """Finds the launch of the map that a captured launch is: Inductor's cache holds the code that the run folder copies.

    Locator in lib/Join/Selection.cpp does the same for what `opprof-driver select` chooses.
    """

    def __init__(self, maps: Sequence[LaunchMap]) -> None:
        self._maps = maps
        self._files: dict[str, LaunchMap | None] = {}

    def map_of(self, file: str) -> LaunchMap | None:
        """The launch map of a file of generated code."""
        if file not in self._files:
            try:
                text = Path(file).read_text(encoding="utf-8")
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
class Layers:
    """What is known of a program's layers: its partitions, and the launch maps of its wrappers."""

    partitions: Sequence[PartitionMap]
    maps: list[LaunchMap]

    @classmethod
    def read(cls, folder: RunFolder) -> "Layers | None":
        """A run folder's, or nothing where it holds none."""
        if not folder.partitions.is_file():
            return None
        codes = [code for code in folder.compiled_graphs() if (code / LAUNCHES).is_file()]
        return cls(read_partition_maps(folder.partitions), launch_maps(codes))
