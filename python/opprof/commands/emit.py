"""`opprof emit`: makes a torch.compile backend of rewrite scripts. Needs no PyTorch."""

import os
from pathlib import Path

from opprof.backend.emit import emit
from opprof.backend.rewrites import read_rewrites
from opprof.backend.skeleton import skeleton, unanswered
from opprof.commands.recommend import recommend
from opprof.files import real_path, scratch_folder
from opprof.torchscript import check_model


def emit_backend(rewrites: Path, output: Path, model: str | None) -> list[Path]:
    """Writes the backend for a script, or a folder of them, and its test; returns both.

    `model` is the script that the test compares on: where none is given, the one that the folder was recommended for.
    """
    read = read_rewrites(rewrites)
    model = model or read.index.get("script")
    check_model(model)
    if model is not None:
        model = os.path.relpath(real_path(Path(model)), real_path(output.parent))
    return emit(read.scripts, output, model=model)


def emit_skeleton(run: Path, output: Path, model: str | None) -> list[Path]:
    """Writes a backend whose passes are empty, one for each finding of the run folder that no rule answers, and its test."""
    with scratch_folder() as folder:
        rewrites = recommend(run, folder / "rewrites", error_budget=1e-2)
    rules = [script.name for script in rewrites.scripts]
    model = model or rewrites.index.get("script")
    check_model(model)
    if model is not None:
        model = os.path.relpath(real_path(Path(model)), real_path(output.parent))
    return emit([], output, model=model, passes=skeleton(*unanswered(run, rules)))
