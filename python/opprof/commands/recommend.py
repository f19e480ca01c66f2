"""From a run folder to ranked rewrite scripts: asks the rules in opprof-opt, with what the profile measured. Needs no PyTorch."""

import json
from pathlib import Path
from typing import Any

from opprof.backend.rewrites import INDEX, Script, read_rewrites
from opprof.choices import DEFAULT_ERROR_BUDGET
from opprof.errors import OpprofError
from opprof.files import make_folder, read_json, replacing, scratch_folder
from opprof.run_folder import RunFolder
from opprof.suffixes import MLIR
from opprof.tools import run_tool
from opprof.units import microseconds


def recommend(
    run: Path, output: Path, *, error_budget: float = DEFAULT_ERROR_BUDGET
) -> list[Script]:
    """Writes scripts for the graph of a run folder (or of a graph file) to `output` and returns them, ranked."""
    options = [f"error-budget={error_budget}"]
    profile: Path | None = None
    facts: dict[str, Any] = {}
    if run.is_dir():
        folder = RunFolder(run)
        graph = folder.graph
        if folder.run.is_file():
            facts = folder.read_run()
        if facts.get("training"):
            raise OpprofError(
                f"{run}: is a run of a training step, which writes its weights; no backend of opprof rewrites that",
                remedy="profile a script without make_step() whose module is in eval mode",
            )
        name = facts.get("device", {}).get("name")
        if facts.get("device", {}).get("type") == "cpu":
            name = "cpu"
        if name:
            # The tool separates options by blanks and commas.
            options.append("device=" + name.replace(" ", "-").replace(",", "-"))
        if folder.profile.is_file():
            profile = folder.profile
    else:
        graph = run
    if not graph.is_file():
        raise OpprofError(
            f"{graph}: no such file",
            remedy=f"give a run folder that `opprof profile` filled, or a graph ({', '.join(MLIR)})",
        )
    if graph.suffix not in MLIR:
        raise OpprofError(
            f"{graph}: not a graph in MLIR",
            remedy="give a run folder, or what `opprof export model.py -o graph.mlir` writes",
        )
    make_folder(output)
    with scratch_folder() as scratch:
        options.append(f"dir={_without_blanks(output, scratch)}")
        if profile is not None:
            options.append(f"profile={_without_blanks(profile, scratch)}")
        run_tool(
            "opprof-opt",
            [graph, f"--recommend-rewrites={','.join(options)}", "-o", "/dev/null"],
        )
    _add_to_index(output, {"script": facts["script"]} if "script" in facts else {})
    return read_rewrites(output).scripts


def _without_blanks(path: Path, scratch: Path) -> Path:
    """The path, or a link to it: blanks and commas separate what is told to a pass."""
    if not set(str(path)) & {" ", ","}:
        return path
    link = scratch / str(len(list(scratch.iterdir())))
    link.symlink_to(path.resolve())
    return link


def _add_to_index(directory: Path, facts: dict[str, Any]) -> None:
    file = directory / INDEX
    index = read_json(file)
    index.update(facts)
    with replacing(file) as stream:
        json.dump(index, stream, indent=1)
        stream.write("\n")


def rewrites_text(scripts: list[Script]) -> str:
    """The ranked list, as `opprof recommend` prints it."""
    if not scripts:
        return "no rule has a rewrite to offer for this graph\n"
    lines = []
    for script in scripts:
        saves = "" if script.saves_ns is None else f"{microseconds(script.saves_ns):>10} µs"
        lines.append(f"{saves:>13}  {script.path.name:28} {script.title}")
    return "predicted gain a step\n" + "\n".join(lines) + "\n"
