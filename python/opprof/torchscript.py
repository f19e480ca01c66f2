"""TorchScript archives: told from other files by what they hold, and read by opprof-torchscript. Needs no PyTorch of its own."""

import contextlib
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opprof.errors import OpprofError
from opprof.files import scratch_folder
from opprof.suffixes import GRAPH_JSON
from opprof.tools import find_tool, run_tool

#: The tool, which the build leaves out where it finds no LibTorch.
TOOL = "opprof-torchscript"


@dataclass(frozen=True)
class TorchScriptOptions:
    """How an archive is read; the tool's `--help` explains each."""

    method: str | None = None
    # One text an argument of the method: "4x128xi64".
    inputs: Sequence[str] = ()
    freeze: bool = False
    sandbox: bool = False
    follow_devices: bool = False

    def arguments(self) -> list[str]:
        options = [f"--input={text}" for text in self.inputs]
        if self.method is not None:
            options.append(f"--method={self.method}")
        if self.freeze:
            options.append("--freeze")
        if self.follow_devices:
            options.append("--follow-devices")
        if self.sandbox:
            options.append("--sandbox")
        return options


#: How files begin that other forms of TorchScript are, and where: the tool says of each what it is.
_OTHER_FORMS = ((0, b"PYTORCH1"), (4, b"PTMF"))


def is_torchscript(path: str | os.PathLike[str]) -> bool:
    """Whether the file is a zip archive with TorchScript's code and constants, whatever its name ends in.

    Forms that LibTorch does not read, of PyTorch before 1.4 and of its lite interpreter, count: the tool refuses them by name.
    """
    try:
        # A device has no end to look for, and a pipe can't be read twice.
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            head = file.read(8)
        if any(head[place:].startswith(begin) for place, begin in _OTHER_FORMS):
            return True
        with zipfile.ZipFile(path) as archive:
            inner = {name.partition("/")[2] for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, ValueError):
        return False
    return not inner.isdisjoint(("constants.pkl", "model.json")) and any(
        name.startswith("code/") for name in inner
    )


def check_model(model: str | None) -> None:
    """Refuses an archive where a model script is wanted that torch.compile is to compile."""
    if model is not None and is_torchscript(model):
        raise OpprofError(
            f"{model}: is a TorchScript archive, whose modules torch.compile does not compile",
            remedy=f"`opprof optimize` writes a model script of it, {Path(model).stem}_model.py: give that one",
        )


def write_graph(
    archive: Path,
    target: Path,
    options: TorchScriptOptions,
    weights: Path | None = None,
    arguments: Path | None = None,
) -> None:
    """Writes the graph of the archive's method as graph JSON, the tensors that it takes as safetensors, and the tuple of what it
    is called with for torch.load."""
    try:
        find_tool(TOOL)
    except OpprofError:
        raise OpprofError(
            f"{archive}: this opprof was built without LibTorch, so it reads no TorchScript",
            remedy="build it where `python -c 'import torch'` works: ./setup.sh does",
        ) from None
    stored = [
        f"--{name}={file}"
        for name, file in (("weights", weights), ("arguments", arguments))
        if file is not None
    ]
    run_tool(TOOL, [archive, "-o", target, *options.arguments(), *stored])


@contextlib.contextmanager
def readable_graph(graph: Path | None) -> Iterator[Path | None]:
    """The file itself, or for a TorchScript archive a file with its graph, which is there as long as the context."""
    if graph is None or not is_torchscript(graph):
        yield graph
        return
    with scratch_folder() as folder:
        converted = folder / f"{graph.stem}{GRAPH_JSON}"
        write_graph(graph, converted, TorchScriptOptions())
        yield converted
