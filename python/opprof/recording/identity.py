"""Gives launches the identity of what launched them: a line of Inductor's wrapper, or a node of an exported graph.

Nothing is added to the program: a launch carries the id that is set on the launching thread when the generated code that
launches gets to a line. The same lines open and close the NVTX ranges of layers.
"""

from __future__ import annotations

import ast
import dis
import functools
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol

from opprof.errors import OpprofError
from opprof.recording.launch_maps import LaunchMap, Locator, origins
from opprof.recording.library import Library
from opprof.recording.partitions import node_that_ran
from opprof.recording.ranges import LayerRanges

_CALL = re.compile(r"\(")
# What wrappers call without launching; each line that is left out saves its event in every step.
_NO_LAUNCH = re.compile(
    r"""^\s*(\#|@|def\s|class\s|with\s|return\b|del\s|assert_\w+|torch\.cuda\.set_device
         |(\S+\s*=\s*)?(empty_strided|reinterpret_tensor|get_raw_stream|rand_strided)
         |[\w,\s]+=\s*args\b|args\.clear)""",
    re.VERBOSE,
)


def wrapper_codes(module: ModuleType) -> Iterator[CodeType]:
    """The code of the functions of an Inductor wrapper module that launch: `call`, and the partitions beside it."""
    seen: set[int] = set()
    for value in list(vars(module).values()):
        functions: Iterable[Any] = (value,)
        if isinstance(value, type):
            functions = vars(value).values()
        for function in functions:
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                name = function.__name__
                if (
                    name == "call"
                    or name.startswith(("partition_", "repeated_subgraph", "subgraph"))
                ) and id(function.__code__) not in seen:
                    seen.add(id(function.__code__))
                    yield function.__code__


def launching_lines(code: CodeType) -> list[int]:
    """The lines of a wrapper function that may launch something."""
    try:
        with open(code.co_filename, encoding="utf-8", errors="replace") as file:
            text = file.read().splitlines()
    except OSError:
        return []
    lines = {line for _, _, line in code.co_lines() if line}
    return sorted(
        line
        for line in lines
        if line <= len(text)
        and _CALL.search(text[line - 1])
        and not _NO_LAUNCH.match(text[line - 1])
    )


def line_starts(code: CodeType) -> Iterator[tuple[int, int]]:
    """The offset of each instruction at which a function gets to another line, and that line."""
    instructions = code.co_code
    before = None
    for offset, _, line in code.co_lines():
        if line is not None and line != before:
            before = line
            # The prefix of a long argument is an instruction of its own, or none: that depends on the interpreter.
            while instructions[offset] == dis.EXTENDED_ARG:
                offset += 2
            yield offset, line


@dataclass
class NodeGraph:
    """A graph that runs node by node, as the code that torch.fx makes of it, and the name and stage that its nodes go by."""

    module: Any
    name: str | None = None
    stage: str | None = None


def node_lines(module: Any) -> dict[int, str]:
    """The line of a graph module's code at which each of its operators runs."""
    operators = {
        node.name
        for node in module.graph.nodes
        if node.op in ("call_function", "call_method", "call_module")
    }
    lines: dict[int, str] = {}
    for statement in ast.walk(ast.parse(module.code)):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign):
            target = statement.target
        else:
            continue
        if isinstance(target, ast.Name) and target.id in operators:
            # What follows on the same line frees names of earlier nodes.
            lines.setdefault(statement.lineno, target.id)
    return lines


@dataclass
class _Code:
    """The lines of one function that carry ids."""

    code: CodeType
    ids: dict[int, int] = field(default_factory=dict)
    #: What each id stands for, as it is written to the file.
    places: dict[int, dict[str, Any]] = field(default_factory=dict)
    paths: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @functools.cached_property
    def starts(self) -> dict[int, int]:
        """The instructions, by their offsets, with which these lines start. Asked for when all of them are known."""
        return {offset: line for offset, line in line_starts(self.code) if line in self.ids}


class Ids(Protocol):
    """What WrapperLines tells where the program is: the capture library, or something in its place."""

    def at_id(self, identifier: int) -> Any:
        """The thread is at what the id stands for; 0: at nothing."""


class NodeRanges:
    """In place of the capture library where torch.profiler traces: each node that runs is a range of its own."""

    def __init__(self) -> None:
        self.lines: WrapperLines | None = None
        self._open = threading.local()

    def at_id(self, identifier: int) -> None:
        """Ends the range of the node before, and begins that of this one."""
        from torch.profiler import record_function

        before = getattr(self._open, "range", None)
        if before is not None:
            before.__exit__(None, None, None)
        self._open.range = None
        place = self.lines.where(identifier) if self.lines is not None else {}
        if "node" in place:
            name = (
                f"opprof::node::{place.get('graph', '')}::{place.get('stage', '')}::{place['node']}"
            )
            self._open.range = record_function(name)
            self._open.range.__enter__()

    @contextmanager
    def round_nodes(self, graphs: Sequence[NodeGraph]) -> Iterator[None]:
        """Opens the ranges during the with statement."""
        self.lines = WrapperLines(self, (), graphs=graphs)
        with self.lines.active():
            yield


class WrapperLines:
    """While active, each launch of the given generated code carries the id of its line: `base << 20 | line`.

    `modules` are Inductor's wrappers, all that are loaded unless told; `graphs` run node by node. With `maps`, the launch maps
    of the wrappers, an id also names the compiled graph. With `ranges`, each launch is in the ranges of its layers. Without
    `library` only the ranges are made, which any NVTX tool sees.
    """

    def __init__(
        self,
        library: Ids | None,
        modules: Iterable[ModuleType] | None = None,
        *,
        graphs: Sequence[NodeGraph] = (),
        maps: Sequence[LaunchMap] = (),
        ranges: LayerRanges | None = None,
    ) -> None:
        self._library = library
        self._ranges = ranges
        self._maps = maps
        self._codes: list[_Code] = []
        # By identity: a code object's hash reads all of its bytecode, at every lookup.
        self._by_code: dict[int, _Code] = {}
        for graph in graphs:
            self._add_graph(graph)
        self.add_loaded(modules)

    def add_loaded(self, modules: Iterable[ModuleType] | None = None) -> bool:
        """Takes in wrappers that were loaded since, and says whether there are any; ids that were given keep their meaning."""
        before = len(self._codes)
        for module in inductor_modules() if modules is None else modules:
            for code in wrapper_codes(module):
                if id(code) not in self._by_code:
                    self._add_wrapper(code)
        return len(self._codes) > before

    def _add(self, code: CodeType) -> tuple[_Code, int]:
        entry = _Code(code)
        self._codes.append(entry)
        self._by_code[id(code)] = entry
        return entry, len(self._codes) << 20

    def _add_wrapper(self, code: CodeType) -> None:
        locate = Locator(self._maps)
        entry, base = self._add(code)
        for line in launching_lines(code):
            place: dict[str, Any] = {"file": code.co_filename, "line": line}
            found = locate(place)
            launch_map = locate.map_of(code.co_filename)
            if launch_map is not None:
                place["graph"] = launch_map.graph
            entry.ids[line] = base | line
            entry.places[line] = place
            if self._ranges is not None and found is not None:
                entry.paths[line] = self._ranges.path(origins(found[1]))

    def _add_graph(self, graph: NodeGraph) -> None:
        entry, base = self._add(type(graph.module).forward.__code__)
        for line, node in node_lines(graph.module).items():
            place: dict[str, Any] = {"node": node}
            if graph.name is not None:
                place["graph"] = graph.name
            if graph.stage is not None:
                place["stage"] = graph.stage
            entry.ids[line] = base | line
            entry.places[line] = place
            if self._ranges is not None:
                entry.paths[line] = self._ranges.path(
                    [node_that_ran(node, graph.name, graph.stage, self._ranges.partitions)]
                )

    def where(self, identifier: int) -> Mapping[str, Any]:
        """What an id stands for: `file` and `line` of a wrapper, or `node`; nothing for an id of somebody else."""
        number = identifier >> 20
        if not 0 < number <= len(self._codes):
            return {}
        return self._codes[number - 1].places.get(identifier & 0xFFFFF, {})

    def describe(self) -> None:
        """Writes what the ids stand for into the capture file."""
        assert isinstance(self._library, Library)
        for entry in self._codes:
            for line, identifier in entry.ids.items():
                self._library.name_id(identifier, json.dumps(entry.places[line]))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Sets the ids during the with statement, on every thread that runs the code."""
        if not any(entry.ids for entry in self._codes):
            yield
        elif sys.version_info >= (3, 12):
            yield from self._monitored()
        else:
            yield from self._traced()

    def _at(self) -> Any:
        return self._library.at_id if self._library is not None else _no_id

    def _leave(self) -> None:
        self._at()(0)
        if self._ranges is not None:
            self._ranges.leave()

    def _monitored(self) -> Iterator[None]:
        monitoring = _monitoring()
        events = monitoring.events
        on_place, on_leave = self._callbacks(monitoring.DISABLE)
        tool = _free_tool()
        monitoring.use_tool_id(tool, "opprof")
        try:
            # Not LINE: the interpreter looks a line up from the beginning of the function, and a wrapper has thousands.
            monitoring.register_callback(tool, events.INSTRUCTION, on_place)
            monitoring.register_callback(tool, events.PY_RETURN, on_leave)
            monitoring.register_callback(tool, events.PY_UNWIND, on_leave)
            # An exception that leaves a function is an event of the interpreter, not of the function.
            monitoring.set_events(tool, events.PY_UNWIND)
            with _second_tool() as second:
                for entry in self._codes:
                    if second is not None:
                        monitoring.set_local_events(second, entry.code, events.PY_RETURN)
                    monitoring.set_local_events(
                        tool, entry.code, events.INSTRUCTION | events.PY_RETURN
                    )
                    if second is not None:
                        monitoring.set_local_events(second, entry.code, 0)
            yield
        finally:
            monitoring.set_events(tool, 0)
            for entry in self._codes:
                monitoring.set_local_events(tool, entry.code, 0)
            for event in (events.INSTRUCTION, events.PY_RETURN, events.PY_UNWIND):
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)
            self._leave()

    def _callbacks(self, disable: object) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What sys.monitoring calls: where an instruction runs, and where a function is left."""
        places = [
            (entry.code, offset, entry.ids[line], entry.paths.get(line, ()))
            for entry in self._codes
            for offset, line in entry.starts.items()
        ]
        move = self._ranges.move if self._ranges is not None else None
        if isinstance(self._library, Library):
            builtins = self._library.python_callbacks(places, disable, move, ())
            if builtins is not None:
                return builtins
        at, leave = self._at(), self._leave
        known: dict[int, dict[int, tuple[int, tuple[str, ...]]]] = {
            key: {} for key in self._by_code
        }
        for code, offset, identifier, path in places:
            known[id(code)][offset] = (identifier, path)

        def on_place(code: CodeType, offset: int) -> Any:
            place = known[id(code)].get(offset)
            if place is None:
                return disable
            at(place[0])
            if move is not None:
                move(place[1])
            return None

        def on_leave(code: CodeType, offset: int, value: object) -> None:
            if id(code) in known:
                leave()

        return on_place, on_leave

    def _traced(self) -> Iterator[None]:
        at, codes, ranges, leave = self._at(), self._by_code, self._ranges, self._leave
        before, before_in_threads = sys.gettrace(), threading.gettrace()

        def local(frame: Any, event: str, argument: object) -> Any:
            if event == "line":
                entry, line = codes[id(frame.f_code)], frame.f_lineno
                identifier = entry.ids.get(line)
                if identifier is not None:
                    at(identifier)
                    if ranges is not None:
                        ranges.move(entry.paths.get(line, ()))
            elif event == "return":
                leave()
            return local

        def trace(frame: Any, event: str, argument: object) -> Any:
            return local if id(frame.f_code) in codes else None

        # Threads that run already cannot be followed: there this is Python 3.12's to do.
        sys.settrace(trace)
        threading.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before_in_threads)
            leave()


def _monitoring() -> Any:
    """sys.monitoring, which mypy does not find in the oldest Python that opprof is for."""
    return vars(sys)["monitoring"]


def _free_tool() -> int:
    """One of the numbers that sys.monitoring leaves to tools: a step may run a graph node by node that is itself captured."""
    monitoring = _monitoring()
    for tool in (3, 4):
        if monitoring.get_tool(tool) is None:
            return tool
    holders = " and ".join(repr(monitoring.get_tool(tool)) for tool in (3, 4))
    raise OpprofError(
        f"lines of generated code cannot be followed: sys.monitoring is held by {holders}",
        remedy="end that tool, or capture with lines=False",
    )


@contextmanager
def _second_tool() -> Iterator[int | None]:
    """A further number that no tool holds, held during the with statement; None where there is none.

    CPython (3.12.1, 3.13.0) forgets whose the events of instructions are when a second tool, which sys.setprofile is too, comes
    to a function, unless two tools were there when these events were set.
    """
    monitoring = _monitoring()
    for tool in (5, 4, 3, 2, 1, 0):
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, "opprof")
            try:
                yield tool
            finally:
                monitoring.free_tool_id(tool)
            return
    yield None


def _no_id(identifier: int) -> None:
    """In place of the library's at_id where there is no capture."""


def inductor_modules() -> list[ModuleType]:
    """The wrapper modules that Inductor has loaded in this process."""
    codecache = sys.modules.get("torch._inductor.codecache")
    if codecache is None:
        return []
    modules = getattr(codecache.PyCodeCache, "modules", [])
    return [m for m in modules if any(True for _ in wrapper_codes(m))]


def run_nodes(graph_module: Any, *inputs: Any, library: Library | None = None) -> Any:
    """Runs a graph module; the launches of each node carry an id that stands for it."""
    target = library or Library.get()
    lines = WrapperLines(target, (), graphs=[NodeGraph(graph_module)])
    if target.native.opprof_capture_active():
        lines.describe()
    with lines.active():
        return graph_module(*inputs)
