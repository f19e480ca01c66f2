"""From a run folder to ranked rewrite scripts: asks the native rules, with what the profile measured. Needs no PyTorch."""

from collections.abc import Sequence
from pathlib import Path

from opprof.backend.rewrites import Rewrites, read_rewrites
from opprof.choices import DEFAULT_ERROR_BUDGET
from opprof.files import read_json
from opprof.run_folder import RunFolder
from opprof.tools import run_driver
from opprof.units import microseconds


def recommend(
    run: Path,
    output: Path,
    *,
    error_budget: float = DEFAULT_ERROR_BUDGET,
    rules: Path | None = None,
) -> Rewrites:
    """Writes scripts for the graph of a run folder (or of a graph file) to `output` and returns them, ranked, and what was declined.

    Those of the folder `rules` are among them, where their patterns are in the graph.
    """
    own = [] if rules is None else [f"--rules={rules}"]
    run_driver("recommend", run, "-o", output, f"--error-budget={error_budget}", *own)
    return read_rewrites(output)


def unseen_by_rules(run: Path) -> list[str]:
    """What of the run folder's program no rule sees a graph of operators of, and why: all of it where it does not export, and functions
    that torch.compile left alone.
    """
    file = RunFolder(run).run
    if not file.is_file():
        return []
    facts = read_json(file, within=run)
    functions: dict[str, str] = {}
    for one in facts.get("compilations") or []:
        if isinstance(one, dict) and one.get("failed"):
            source = f" ({one['source']})" if one.get("source") else ""
            known = f"{one.get('function') or one.get('id')}{source}"
            functions.setdefault(known, str(one["failed"]))
    # Rules look for operators; what torch.compile traces has functions and methods.
    untraced = facts.get("untraced")
    of_functions = [
        f"no rule sees operators in {graph}, which stays as torch.compile traces it: {reason}"
        for graph, reason in (untraced if isinstance(untraced, dict) else {}).items()
    ]
    return of_functions + [
        f"no rule sees {known}, which torch.compile leaves as it is: {reason}"
        for known, reason in functions.items()
    ]


def rewrites_text(rewrites: Rewrites, unseen: Sequence[str] = ()) -> str:
    """The ranked list, and what was declined or not seen, as `opprof recommend` prints them."""
    lines = []
    for script in rewrites.scripts:
        saves = "" if script.saves_ns is None else f"{microseconds(script.saves_ns):>10} µs"
        lines.append(f"{saves:>13}  {script.path.name:28} {script.title}")
    head = "predicted gain a step" if lines else "no rule has a rewrite to offer for this graph"
    return "\n".join([head, *lines, *map(str, rewrites.declined), *unseen]) + "\n"
