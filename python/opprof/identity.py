"""Gives launches the identity of what launched them: a line of Inductor's wrapper, or a node of an exported graph.

Nothing is added to the program: a launch carries an id by CUPTI's external correlation, set on the launching thread.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

from opprof.capture_library import Library

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


class WrapperLines:
    """While active, each launch of the given wrappers carries the id of its line: `base << 20 | line`."""

    _TOOL = 3  # one of the numbers that sys.monitoring leaves to tools

    def __init__(self, library: Library, modules: Iterable[ModuleType] | None = None) -> None:
        self._library = library
        # By identity: a code object's hash reads all of its bytecode, at every lookup.
        self._codes: list[CodeType] = []
        self._ids: dict[int, dict[int, int]] = {}
        self._files: dict[int, str] = {}
        if modules is None:
            modules = inductor_modules()
        for module in modules:
            for code in wrapper_codes(module):
                self._codes.append(code)
                base = len(self._codes)
                self._ids[id(code)] = {line: base << 20 | line for line in launching_lines(code)}
                self._files[base] = code.co_filename

    def where(self, identifier: int) -> tuple[str, int] | None:
        """The file and line that an id stands for."""
        file = self._files.get(identifier >> 20)
        return (file, identifier & 0xFFFFF) if file else None

    def describe(self) -> None:
        """Writes what the ids stand for into the capture file."""
        for code in self._codes:
            for line, identifier in self._ids[id(code)].items():
                self._library.name_id(
                    identifier, json.dumps({"file": code.co_filename, "line": line})
                )

    @contextmanager
    def active(self) -> Iterator[None]:
        """Sets the ids during the with statement, on every thread that runs a wrapper."""
        if not self._ids:
            yield
        elif sys.version_info >= (3, 12):
            yield from self._monitored()
        else:
            yield from self._traced()

    def _monitored(self) -> Iterator[None]:
        monitoring = sys.monitoring  # type: ignore[attr-defined]
        events = monitoring.events
        at, ids, disable = self._library.at_id, self._ids, monitoring.DISABLE

        def on_line(code: CodeType, line: int) -> Any:
            identifier = ids[id(code)].get(line)
            return disable if identifier is None else at(identifier)

        def on_leave(code: CodeType, offset: int, value: object) -> None:
            at(0)

        tool = self._TOOL
        monitoring.use_tool_id(tool, "opprof")
        try:
            monitoring.register_callback(tool, events.LINE, on_line)
            monitoring.register_callback(tool, events.PY_RETURN, on_leave)
            for code in self._codes:
                monitoring.set_local_events(tool, code, events.LINE | events.PY_RETURN)
            yield
        finally:
            for code in self._codes:
                monitoring.set_local_events(tool, code, 0)
            monitoring.register_callback(tool, events.LINE, None)
            monitoring.register_callback(tool, events.PY_RETURN, None)
            monitoring.free_tool_id(tool)
            at(0)

    def _traced(self) -> Iterator[None]:
        at, ids = self._library.at_id, self._ids
        before = sys.gettrace()

        def local(frame: Any, event: str, argument: object) -> Any:
            if event == "line":
                identifier = ids[id(frame.f_code)].get(frame.f_lineno)
                if identifier is not None:
                    at(identifier)
            elif event == "return":
                at(0)
            return local

        def trace(frame: Any, event: str, argument: object) -> Any:
            return local if id(frame.f_code) in ids else None

        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
            at(0)


def inductor_modules() -> list[ModuleType]:
    """The wrapper modules that Inductor has loaded in this process."""
    codecache = sys.modules.get("torch._inductor.codecache")
    if codecache is None:
        return []
    modules = getattr(codecache.PyCodeCache, "modules", [])
    return [m for m in modules if any(True for _ in wrapper_codes(m))]


def run_nodes(
    graph_module: Any, *inputs: Any, base: int = 0, library: Library | None = None
) -> Any:
    """Runs an exported graph node by node; launches of node number n carry the id `base | n + 1`."""
    import torch.fx

    target = library or Library.get()
    numbers = {node: base | (i + 1) for i, node in enumerate(graph_module.graph.nodes)}

    class Numbered(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            target.push_id(numbers[node])
            try:
                return super().run_node(node)
            finally:
                target.pop_id()

    if target.native.opprof_capture_active():
        for node, number in numbers.items():
            if node.op not in ("placeholder", "output"):
                target.name_id(number, json.dumps({"node": node.name}))
    return Numbered(graph_module).run(*inputs)
