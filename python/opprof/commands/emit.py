"""`opprof emit`: makes a torch.compile backend of rewrite scripts. Needs no PyTorch."""

import os
from pathlib import Path

from opprof.backend.emit import emit
from opprof.backend.rewrites import read_rewrites


def emit_backend(rewrites: Path, output: Path, model: str | None) -> list[Path]:
    """Writes the backend for a script, or a folder of them, and its test; returns both.

    `model` is the script that the test compares on: where none is given, the one that the folder was recommended for.
    """
    read = read_rewrites(rewrites)
    model = model or read.index.get("script")
    if model is not None:
        model = os.path.relpath(Path(model).resolve(), output.parent.resolve())
    return emit(read.scripts, output, model=model)
