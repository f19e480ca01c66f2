"""Candidates: scripts in an order, as one backend that is emitted, compiled and checked once. Needs PyTorch."""

import ast
import contextlib
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opprof.backend.checks import Program, Subject, Verdict, check_backend
from opprof.backend.emit import definitions_of, emit, unique_names
from opprof.backend.rewrites import Script
from opprof.export.graph_store import GraphStore
from opprof.search.ahead import Job

# Parts of a strategy of which a program has one: a second one takes the place of the first.
_ONE_OF = frozenset({"precision", "regions", "tf32"})


@dataclass
class Built:
    """A candidate and what its checks found; `program` where it runs."""

    scripts: tuple[Script, ...]
    verdict: Verdict
    program: Program | None
    # What compiling and checking it took.
    seconds: float
    # Its backend, and where graphs are kept the folders of those that it compiled, in their order.
    file: Path
    graphs: tuple[Path, ...] | None = None

    @property
    def failure(self) -> str | None:
        """The first check that it does not pass, or None."""
        failed = [check for check in self.verdict.checks if not check.passed]
        return f"{failed[0].name}: {failed[0].text}" if failed else None

    @property
    def missing(self) -> list[Script]:
        """The scripts whose pattern is nowhere once those before them have been applied."""
        names = zip(self.scripts, unique_names(self.scripts), strict=True)
        return [script for script, name in names if name in self.verdict.missing]


class Workshop:
    """Makes candidates of scripts, each once. What they compile is left in `store`, where there is one."""

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        error_budget: float,
        store: GraphStore | None = None,
    ) -> None:
        self.subject = subject
        self.store = store
        self.folder = folder
        self.error_budget = error_budget
        self._built: dict[tuple[Path, ...], Built] = {}
        self._strategies: dict[Path, dict[str, Any]] = {}
        self._contents: dict[Path, str] = {}
        # Of the slowest so far: what the next one may take.
        self.longest_seconds = 0.0

    def file(self, scripts: Sequence[Script]) -> Path:
        """The backend of the scripts, which is emitted when it is asked for the first time."""
        names = "_".join(_word(script.path.stem) for script in scripts)
        file = self.folder / f"candidate_{names}.py"
        if not file.is_file():
            emit(scripts, file)
        return file

    def build(self, scripts: Sequence[Script]) -> Built:
        """Compiles and checks; the same scripts in the same order are not compiled again."""
        key = tuple(script.path for script in scripts)
        if key not in self._built:
            start = time.monotonic()
            file = self.file(scripts)
            with self._watched() as graphs:
                verdict, program = check_backend(file, self.subject, error_budget=self.error_budget)
            seconds = time.monotonic() - start
            self.longest_seconds = max(self.longest_seconds, seconds)
            self._refuse_without_effect(verdict, scripts)
            kept = None if graphs is None else tuple(graphs)
            self._built[key] = Built(tuple(scripts), verdict, program, seconds, file, kept)
        return self._built[key]

    def _refuse_without_effect(self, verdict: Verdict, scripts: Sequence[Script]) -> None:
        """A script whose strategy no graph follows is none of what is measured."""
        for script in scripts:
            # Constants alone, or what the model is, are not what another strategy is for.
            parts = set(self.strategy(script))
            parts = parts - {"freeze", "training", "recurrent"} or parts
            if parts and parts <= set(verdict.left_out):
                reasons = sorted(verdict.left_out[part] for part in parts)
                verdict.add("strategy", False, f"{script.title}: {'; '.join(reasons)}")

    @contextlib.contextmanager
    def _watched(self) -> Iterator[list[Path] | None]:
        """The folders of the graphs that are compiled in the block, below the workshop's; None where none are kept."""
        if self.store is None:
            yield None
            return
        folder = Path(tempfile.mkdtemp(prefix="graphs-", dir=self.folder))
        graphs: list[Path] = []
        with self.store.watching(folder, lambda _, graph: graphs.append(graph)):
            yield graphs

    def is_built(self, scripts: Sequence[Script]) -> bool:
        return tuple(script.path for script in scripts) in self._built

    def job(self, scripts: Sequence[Script]) -> Job:
        """What compiles all that they compile: a CUDA graph is captured round it and changes nothing of it."""
        compiled = [one for one in scripts if "cuda_graph" not in self.strategy(one)] or scripts
        content = "\n".join(map(self.content, compiled))
        return Job(content=content, backend=self.file(compiled))

    def content(self, script: Script) -> str:
        """What a script defines, in the words of the emitted file."""
        if script.path not in self._contents:
            self._contents[script.path] = definitions_of(script)
        return self._contents[script.path]

    def forget(self, scripts: Sequence[Script]) -> None:
        """What was built of them is built again when it is asked for."""
        self._built.pop(tuple(script.path for script in scripts), None)

    def strategy(self, script: Script) -> dict[str, str]:
        """The strategy that a script names, as its backend says it: what is set, and to what."""
        if script.path not in self._strategies:
            self._strategies[script.path] = strategy_of(self.content(script))
        return self._strategies[script.path]

    def excluded(self, script: Script, kept: Sequence[Script]) -> list[Script]:
        """Which of the kept ones cannot stand beside `script`, as both say the same of the whole program."""
        own = _ONE_OF & set(self.strategy(script))
        if not own:
            return []
        return [other for other in kept if _ONE_OF & set(self.strategy(other))]


def _word(text: str) -> str:
    return re.sub(r"\W", "_", text)


def strategy_of(source: str) -> dict[str, str]:
    """What the assignments to STRATEGY set in what a backend defines."""
    found: dict[str, str] = {}
    for statement in ast.parse(source).body:
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and statement.targets[0].id == "STRATEGY"
            and isinstance(statement.value, ast.Call)
        ):
            for keyword in statement.value.keywords:
                found[keyword.arg or ""] = ast.unparse(keyword.value)
    return found
