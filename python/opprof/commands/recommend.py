"""From a run folder to ranked rewrite scripts: asks the native rules, with what the profile measured. Needs no PyTorch."""

from pathlib import Path

from opprof.backend.rewrites import Rewrites, Script, read_rewrites
from opprof.choices import DEFAULT_ERROR_BUDGET
from opprof.tools import run_driver
from opprof.units import microseconds


def recommend(
    run: Path,
    output: Path,
    *,
    error_budget: float = DEFAULT_ERROR_BUDGET,
    rules: Path | None = None,
) -> list[Script]:
    """Writes scripts for the graph of a run folder (or of a graph file) to `output` and returns them, ranked.

    Those of the folder `rules` are among them, where their patterns are in the graph.
    """
    own = [] if rules is None else [f"--rules={rules}"]
    run_driver("recommend", run, "-o", output, f"--error-budget={error_budget}", *own)
    return read_rewrites(output).scripts


def rewrites_text(rewrites: Rewrites) -> str:
    """The ranked list, and what was declined, as `opprof recommend` prints them."""
    lines = []
    for script in rewrites.scripts:
        saves = "" if script.saves_ns is None else f"{microseconds(script.saves_ns):>10} µs"
        lines.append(f"{saves:>13}  {script.path.name:28} {script.title}")
    head = "predicted gain a step" if lines else "no rule has a rewrite to offer for this graph"
    return "\n".join([head, *lines, *map(str, rewrites.declined)]) + "\n"
