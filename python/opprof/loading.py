"""`opprof.load`: a recording of any kind as Python objects with types. Needs no PyTorch; pandas and pyarrow only where they are asked for."""

import html
import importlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

from opprof.errors import OpprofError
from opprof.tools import run_driver


@dataclass(frozen=True)
class _Row:
    """A row of a table."""

    @property
    def time_ns(self) -> int:
        """What `sort("time")` sorts by."""
        raise NotImplementedError  # each row says its own


@dataclass(frozen=True)
class Kernel(_Row):
    """What a device ran: docs/formats/profile.md has the meaning of each."""

    id: int
    name: str
    device: int
    start_ns: int
    duration_ns: int
    phase: str
    method: str
    confidence: str
    stream: int | None = None
    rank: int | None = None
    step: int | None = None
    compiled_graph: str | None = None
    launch: int | None = None
    nodes: tuple[str, ...] = ()
    host_op: str | None = None
    module: str | None = None
    input_type: str | None = None
    range: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def time_ns(self) -> int:
        return self.duration_ns


@dataclass(frozen=True)
class Node(_Row):
    """A node of the graph, with its part of its kernels' time over the whole recording."""

    name: str
    graph: str
    stage: str
    kernel_time_ns: int
    module: str | None = None
    source: str | None = None
    partition: str | None = None
    share: str | None = None
    kernels: tuple[int, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def time_ns(self) -> int:
        return self.kernel_time_ns


@dataclass(frozen=True)
class Finding(_Row):
    """What follows from the profile; `opprof explain ID` says what each means."""

    id: str
    text: str
    nodes: tuple[str, ...] = ()
    severity_ns_per_step: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def time_ns(self) -> int:
        return self.severity_ns_per_step or 0


@dataclass(frozen=True)
class Operator(_Row):
    """What the host called, by name and inputs, of a program without a graph."""

    name: str
    calls: int
    kernels: int
    kernel_time_ns: int
    input_dims: str | None = None
    input_types: str | None = None
    flops: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None

    @property
    def time_ns(self) -> int:
        return self.kernel_time_ns


@dataclass(frozen=True)
class MemorySite(_Row):
    """Memory that one operator took in one module, line and part of the step on one device; sums are of all steady steps."""

    device: str
    peak_bytes: int
    peak_blocks: int
    calls: int
    bytes: int
    churn_bytes: int
    scratch_bytes: int
    growth_bytes_per_step: int
    source: str | None = None
    module: str | None = None
    part: str | None = None
    operator: str | None = None

    @property
    def time_ns(self) -> int:
        raise OpprofError("memory has no time", remedy='sort("peak_bytes"), or by another column')


@dataclass(frozen=True)
class Device:
    """A device that ran something."""

    id: int
    #: Empty where the recording does not say.
    name: str = ""
    kind: str = ""
    sm_count: int | None = None
    busy_ns: int | None = None


@dataclass(frozen=True)
class Summary:
    """The sums of a profile; docs/formats/profile.md says what each is of."""

    kernels: int
    kernel_time_ns: int
    copies: int
    copy_time_ns: int
    busy_ns: int | None = None
    wall_ns: int | None = None
    idle_ns: int | None = None
    recording_ns: int | None = None
    undisturbed_ns: int | None = None
    undisturbed_idle_ns: int | None = None
    steps: int | None = None
    steps_from: str = "none"


Row = TypeVar("Row", bound=_Row)


class Table(Sequence[Row], Generic[Row]):
    """Rows of one kind: a sequence that can be sorted, cut, and shown in a notebook."""

    def __init__(self, kind: type[Row], rows: Sequence[Row]) -> None:
        self._kind = kind
        self._rows = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> "Table[Row]": ...
    def __getitem__(self, place: int | slice) -> "Row | Table[Row]":
        if isinstance(place, slice):
            return Table(self._kind, self._rows[place])
        return self._rows[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def sort(self, by: str = "time", *, descending: bool = True) -> "Table[Row]":
        """The rows by "time" or any of their columns, the largest first; rows without a value come last."""
        column = "time_ns" if by == "time" else by
        if column != "time_ns" and column not in self.columns:
            raise OpprofError(
                f"{self._kind.__name__} has no column {by!r}",
                remedy=f"there are: time, {', '.join(self.columns)}",
            )
        known = [row for row in self._rows if getattr(row, column) is not None]
        missing = [row for row in self._rows if getattr(row, column) is None]
        known.sort(key=lambda row: getattr(row, column), reverse=descending)
        return Table(self._kind, known + missing)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in fields(self._kind)]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries, which tables of other libraries are made of."""
        return [asdict(row) for row in self._rows]

    def __repr__(self) -> str:
        return f"<{len(self)} × {self._kind.__name__}>"

    def _repr_html_(self) -> str:
        shown = self._rows[:20]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{_cell(getattr(row, name))}</td>" for name in self.columns)
            + "</tr>"
            for row in shown
        )
        rest = f"<p>and {len(self) - len(shown)} more</p>" if len(self) > len(shown) else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    text = str(value)
    return html.escape(text if len(text) <= 80 else text[:79] + "…")


class Profile:
    """A profile: what ran, when, for which nodes, and what follows. `data` is the file as docs/formats/profile.md has it."""

    def __init__(self, data: Mapping[str, Any], path: Path) -> None:
        self.data = data
        self.path = path
        self.graph: str = data.get("graph", "")
        self.stage: str = data.get("stage", "")
        self.summary: Summary = _make(Summary, data["summary"])
        self.devices: list[Device] = [_make(Device, device) for device in data.get("devices", [])]
        self.notes: list[str] = list(data.get("notes", []))
        self.kernels: Table[Kernel] = Table(
            Kernel, [_make(Kernel, self._named(row)) for row in data.get("kernels", [])]
        )
        self.copies: Table[Kernel] = Table(
            Kernel, [_make(Kernel, self._named(row)) for row in data.get("copies", [])]
        )
        self.nodes: Table[Node] = Table(
            Node,
            [
                _make(Node, {"graph": self.graph, "stage": self.stage, **row})
                for row in data.get("nodes", [])
            ],
        )
        self.operators: Table[Operator] = Table(
            Operator, [_make(Operator, row) for row in data.get("operators", [])]
        )
        self.findings: Table[Finding] = Table(
            Finding, [_make(Finding, self._named(row)) for row in data.get("findings", [])]
        )

        #: Where `opprof run --memory` recorded it.
        self.memory: Table[MemorySite] = Table(
            MemorySite,
            [
                _make(MemorySite, {"device": memory["device"], **site})
                for memory in data.get("tensor_memory", [])
                for site in memory["sites"]
            ],
        )

    def _named(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        # A node of another graph or stage is an object.
        nodes = [
            node
            if isinstance(node, str)
            else f"{node.get('graph', '')}@{node.get('stage', '')}:{node['name']}"
            for node in row.get("nodes", [])
        ]
        return {**row, "nodes": nodes}

    def _tables(self) -> dict[str, Table[Any]]:
        return {
            "kernels": self.kernels,
            "copies": self.copies,
            "nodes": self.nodes,
            "operators": self.operators,
            "memory": self.memory,
            "findings": self.findings,
        }

    def table(self, name: str | None = None) -> Table[Any]:
        """A table by name; without one that of the nodes, or of the kernels where there is no graph."""
        if name is None:
            name = "nodes" if len(self.nodes) else "kernels"
        tables = self._tables()
        if name not in tables:
            raise OpprofError(
                f"a profile has no table {name!r}", remedy=f"there are: {', '.join(tables)}"
            )
        return tables[name]

    def to_pandas(self, name: str | None = None) -> Any:
        """A table as a pandas.DataFrame."""
        table = self.table(name)
        return _need("pandas").DataFrame(_flat(table), columns=table.columns)

    def to_arrow(self, name: str | None = None) -> Any:
        """A table as a pyarrow.Table; metrics, evidence and lists of nodes are JSON text."""
        table = self.table(name)
        arrow = _need("pyarrow")
        rows = _flat(table)
        types = {name: _arrow_type(arrow, table, name) for name in table.columns}
        return arrow.table(
            {
                name: arrow.array([row[name] for row in rows], type=kind)
                for name, kind in types.items()
            }
        )

    def to_parquet(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes kernels.parquet, nodes.parquet and what else there is to a folder, for DuckDB and its like."""
        _need("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        written = []
        for name, table in self._tables().items():
            if len(table) or name in ("kernels", "nodes", "findings"):
                file = target / f"{name}.parquet"
                beside = target / f".{name}.parquet.new"
                parquet.write_table(self.to_arrow(name), beside)
                beside.replace(file)
                written.append(file)
        return written

    def __repr__(self) -> str:
        of = f" of {self.graph}" if self.graph else ""
        return f"<opprof.Profile{of}: {len(self.kernels)} kernels, {len(self.nodes)} nodes, {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        steps = self.summary.steps or 1
        devices = ", ".join(device.name for device in self.devices)
        facts = [
            f"{self.summary.kernels // steps} kernels in {_ms(self.summary.kernel_time_ns / steps)} a step"
            if self.summary.steps
            else f"{self.summary.kernels} kernels in {_ms(self.summary.kernel_time_ns)}"
        ]
        if self.summary.wall_ns is not None:
            facts.insert(0, f"{_ms(self.summary.wall_ns / steps)} of wall time")
        slowest = self.nodes if len(self.nodes) else self.kernels
        rows = "".join(
            f"<tr><td>{_ms(row.time_ns / steps)}</td><td>{_cell(row.name)}</td><td>{_cell(row.module)}</td></tr>"
            for row in slowest.sort("time")[:10]
        )
        findings = "".join(
            f"<li><b>{_cell(finding.id)}</b>: {html.escape(finding.text)}</li>"
            for finding in self.findings.sort("time")
        )
        return (
            f"<h4>{_cell(self.graph or self.path)} on {_cell(devices)}</h4><p>{html.escape(', '.join(facts))}</p>"
            f"<table><thead><tr><th>time</th><th>{'node' if len(self.nodes) else 'kernel'}</th><th>module</th></tr></thead>"
            f"<tbody>{rows}</tbody></table><ul>{findings}</ul>"
        )


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3f} ms"


def _make(kind: type[Any], row: Mapping[str, Any]) -> Any:
    """An object of what it knows of a row; later versions may have more."""
    known = {column.name: row[column.name] for column in fields(kind) if column.name in row}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()})


def _flat(table: Table[Any]) -> list[dict[str, Any]]:
    """The rows with numbers and text alone."""
    return [
        {
            key: json.dumps(value) if isinstance(value, (dict, list, tuple)) else value
            for key, value in row.items()
        }
        for row in table.to_dicts()
    ]


def _arrow_type(arrow: Any, table: Table[Any], name: str) -> Any:
    # Columns without any value have a type too.
    kind = str(table._kind.__dataclass_fields__[name].type)
    return arrow.int64() if "int" in kind and "tuple" not in kind else arrow.string()


def _need(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise OpprofError(
            f"this needs {module}, which is not installed", remedy=f"pip install {module}"
        ) from None


def load(path: str | os.PathLike[str]) -> Profile:
    """A run folder, a profile, a trace, a capture: whatever `opprof report` reads, as objects."""
    data = json.loads(run_driver("report", Path(path), "--json"))
    if isinstance(data, list):
        raise OpprofError(
            f"{path}: holds {len(data)} recordings",
            remedy="load one of them; `opprof report` lists them",
        )
    return Profile(data, Path(path))
