"""What Dynamo says of its compilations: of which function each is, why it was compiled again, and where its graph breaks. Needs PyTorch."""

import collections
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch._dynamo.utils as dynamo
from torch._guards import CompileContext

#: More compilations than a program has; PyTorch forgets all but the last 64 unless it is told.
_KEPT = 1 << 14


def current_compilation() -> str:
    """Which compilation runs on this thread: "3/1" is the second one of the fourth function that was compiled; empty for none."""
    identity = CompileContext.current_compile_id()
    return "" if identity is None else str(identity)


def _function_of(compilation: str) -> str:
    return compilation.rpartition("/")[0]


class Names:
    """Names what compilations give: what a function's first one calls NAME is called NAME@1, NAME@2, … of the later ones."""

    def __init__(self) -> None:
        # How many of a kind a compilation has given so far, and the first name of each.
        self._given: collections.Counter[tuple[str, str]] = collections.Counter()
        self._first: dict[tuple[str, str, int], str] = {}
        self._uses: collections.Counter[str] = collections.Counter()

    def name(self, kind: str, fresh: str) -> str:
        """The name of what the compilation that runs gives; `fresh` where it is no further one of anything."""
        compilation = current_compilation()
        place = self._given[compilation, kind]
        self._given[compilation, kind] += 1
        first = fresh
        if compilation:
            first = self._first.setdefault((_function_of(compilation), kind, place), fresh)
        self._uses[first] += 1
        return first if self._uses[first] == 1 else f"{first}@{self._uses[first] - 1}"


class CompilationLog:
    """What was compiled since this was made."""

    def __init__(self) -> None:
        dynamo.set_compilation_metrics_limit(_KEPT)
        self._before = len(dynamo.get_compilation_metrics())
        self._breaks_before = len(dynamo.graph_break_reasons)
        self._graphs: dict[str, list[str]] = {}

    def add_graph(self, name: str) -> None:
        """The compilation that runs gives the compiled graph `name`."""
        self._graphs.setdefault(current_compilation(), []).append(name)

    def compilations(self) -> list[dict[str, Any]]:
        """Each compilation that gave a compiled graph or that failed, as run.json has it."""
        functions: dict[str, Any] = {}
        found: dict[str, dict[str, Any]] = {}
        for entry in dynamo.get_compilation_metrics()[self._before :]:
            compilation = entry.compile_id
            if not compilation or getattr(entry, "is_runtime", False):
                continue
            if entry.co_name:
                functions.setdefault(_function_of(compilation), entry)
            facts = found.setdefault(compilation, {"id": compilation})
            function = functions.get(_function_of(compilation))
            if function is not None:
                facts["function"] = _readable(function.co_name)
                if Path(function.co_filename or "").is_file():
                    facts["source"] = f"{function.co_filename}:{function.co_firstlineno}"
            # Forward and backward of a compilation are two entries.
            facts["compile_ns"] = facts.get("compile_ns", 0) + 1000 * (entry.duration_us or 0)
            if getattr(entry, "recompile_reason", None):
                facts["reason"] = _failed_guard(entry.recompile_reason)
            if entry.fail_reason:
                facts["failed"] = _first_line(entry.fail_reason)
            if compilation in self._graphs:
                facts["compiled_graphs"] = self._graphs[compilation]
        return [
            facts for facts in found.values() if "compiled_graphs" in facts or "failed" in facts
        ]

    def graph_breaks(self) -> list[dict[str, Any]]:
        """Each place where a graph breaks, with the reason, and in how many compilations it did."""
        places: dict[tuple[str, str], dict[str, Any]] = {}
        # A reset forgets them.
        start = min(self._breaks_before, len(dynamo.graph_break_reasons))
        for entry in dynamo.graph_break_reasons[start:]:
            reason, source = _first_line(entry.reason), _user_line(entry.user_stack)
            facts = places.setdefault((reason, source), {"reason": reason, "compilations": 0})
            facts["compilations"] += 1
            if source:
                facts["source"] = source
            hint = re.search(r"Hint: (.+)", entry.reason)
            if hint:
                facts["hint"] = hint[1].strip()
        return list(places.values())


def _readable(function: str) -> str:
    """What follows a graph break is a function of Dynamo's own making."""
    resumed = re.fullmatch(r"torch_dynamo_resume_in_(.+)_at_(\d+)", function)
    return f"{resumed[1]} from line {resumed[2]}" if resumed else function


def _failed_guard(reason: str) -> str:
    """The guard alone: PyTorch says before it of which compilation it is, and behind it which line of the program made it."""
    guard = re.sub(r"^\S+/\d+: ", "", _first_line(reason))
    return re.split(r"\s{2,}#\s", guard)[0].strip()


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _user_line(stack: Sequence[Any]) -> str:
    """`file:line` of the innermost frame outside of torch."""
    torch_folder = str(Path(dynamo.__file__).parents[1])
    for frame in reversed(stack):
        if not str(frame.filename).startswith(torch_folder):
            return f"{frame.filename}:{frame.lineno}"
    return f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""
