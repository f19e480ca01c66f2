"""The partition map of a run folder, with nodes by their full identity: names repeat over graphs and stages. Needs no PyTorch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from opprof.files import read_json


class Node(NamedTuple):
    """A node's identity."""

    graph: str
    stage: str
    name: str

    @classmethod
    def of(cls, entry: str | Mapping[str, Any], graph: str = "", stage: str = "") -> "Node":
        """A node as files have it: a plain name is one of `graph` and `stage`, others are objects."""
        if isinstance(entry, str):
            return cls(graph, stage, entry)
        return cls(entry.get("graph", graph), entry.get("stage", stage), entry["name"])


@dataclass(frozen=True)
class Partition:
    """One place of a class; position i of the nodes is the same place in every one."""

    label: str
    role: str
    #: The class that this place lies in.
    parent: str | None
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class PartitionClass:
    """Subgraphs that are the same."""

    id: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True)
class PartitionMap:
    """The repeats of one graph."""

    graph: str
    stage: str
    classes: tuple[PartitionClass, ...]


def parse_partition_maps(document: Any) -> list[PartitionMap]:
    """One graph's map, or a list of several graphs'."""
    return [_parse(entry) for entry in (document if isinstance(document, list) else [document])]


def read_partition_maps(file: Path) -> list[PartitionMap]:
    """The maps of a file."""
    return parse_partition_maps(read_json(file, within=file.parent))


def _parse(document: Mapping[str, Any]) -> PartitionMap:
    graph, stage = document.get("graph", ""), document.get("stage", "")
    classes = (
        PartitionClass(
            entry.get("id", ""),
            tuple(
                Partition(
                    partition.get("label", ""),
                    partition["role"],
                    partition.get("parent", entry.get("parent")),
                    tuple(Node.of(node, graph, stage) for node in partition["nodes"]),
                )
                for partition in entry["partitions"]
            ),
        )
        for entry in document.get("classes", [])
    )
    return PartitionMap(graph, stage, tuple(classes))


def node_that_ran(
    name: str, graph: str | None, stage: str | None, maps: Sequence[PartitionMap]
) -> Node:
    """The node that runs by itself; what the recording leaves out is the graph's, where the program has one."""
    if graph is None and len(maps) == 1:
        graph = maps[0].graph
    if stage is None:
        stage = next((known.stage for known in maps if known.graph == graph), "")
    return Node(graph or "", stage, name)
