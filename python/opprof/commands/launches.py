"""`opprof launches`: what Inductor's generated code launches, in order, and which nodes each launch computes. Needs no PyTorch."""

from pathlib import Path

from opprof.tools import run_driver


def launches_text(directory: Path, graph: Path | None, *, as_json: bool = False) -> str:
    """The launch maps of the compiled graphs at or below `directory`: as JSON, or a line a launch, with the first of its nodes."""
    options = [f"--graph={graph}"] if graph is not None else []
    if as_json:
        options.append("--json")
    return run_driver("launches", directory, *options).decode()
