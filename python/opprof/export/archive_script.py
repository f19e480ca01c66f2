"""A TorchScript archive in the place of a model script: the loaded module, and the inputs that `--input` describes. Needs PyTorch.

opprof-torchscript looks at all of the file and reads it in a process with limits first; what it refuses is never loaded here. Then the
archive is loaded in this process, which runs what it asks LibTorch to run.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.jit._pickle

from opprof.errors import OpprofError, ProgramError
from opprof.export.model_script import ModelScript
from opprof.files import read_json, scratch_folder
from opprof.torchscript import TorchScriptOptions, write_graph

#: What LibTorch's pickles of lists name.
_OF_LISTS = [
    value
    for name, value in vars(torch.jit._pickle).items()
    if name.startswith(("build_", "restore_type_tag"))
]


def place_of(node: dict[str, Any], document: dict[str, Any]) -> tuple[str, str]:
    """The line of the archive's code that a node of graph JSON is of, "file:line", and what it says; empty where none is known."""
    frames = document["stacks"][node["stack"]] if "stack" in node else []
    return (
        (f"{frames[-1]['file']}:{frames[-1]['line']}", frames[-1]["code"]) if frames else ("", "")
    )


@dataclass
class ArchiveScript(ModelScript):
    """A loaded archive: what is called is one of its methods, without gradients, as its graph is that of inference."""

    method: str = "forward"
    #: Graph JSON of that method, as opprof-torchscript wrote it.
    graph: dict[str, Any] = field(default_factory=dict)

    def step_of(self, module: Any) -> Callable[[], Any]:
        method = getattr(module, self.method)

        def step() -> Any:
            with torch.no_grad():
                return method(*self.args, **self.kwargs)

        return step

    def why_tied_to_another(self, device: str | None) -> str | None:
        """What to do where the code makes tensors on another device: the tracer writes the one that it ran on into the archive."""
        wanted = device or "cpu"
        for node in self.graph["graphs"][0]["nodes"]:
            own = node.get("kwargs", {}).get("device")
            if not isinstance(own, dict) or str(own.get("device", wanted)).startswith(wanted):
                continue
            place, _ = place_of(node, self.graph)
            made = f"{place or 'its code'} makes a tensor on {own['device']}, where the archive was traced"
            return f"{made}: trace it on {wanted}" + (", or leave out --device" if device else "")
        return None


def load_archive(
    path: Path, options: TorchScriptOptions, graph: Path, *, device: str | None = None
) -> ArchiveScript:
    """Writes the graph of the archive's method to `graph`, and loads the archive and its inputs on the device, "cpu" or "cuda"."""
    if device == "cuda" and not torch.cuda.is_available():
        raise OpprofError("--device=cuda: PyTorch sees no GPU", remedy="leave out --device")
    with scratch_folder() as folder:
        arguments = folder / "arguments.pt"
        write_graph(path, graph, options, arguments=arguments)
        with torch.serialization.safe_globals(_OF_LISTS):
            args = torch.load(arguments, map_location=device or "cpu", weights_only=True)
    document = read_json(graph)
    check_version(path, document)
    try:
        module = torch.jit.load(path, map_location=device or "cpu")
    except Exception as error:
        raise ProgramError(f"{path}: PyTorch cannot load it: {error}") from error
    return ArchiveScript(
        path,
        document["graphs"][0]["name"],
        module,
        args,
        moved_to=device,
        method=document["producer"]["method"],
        graph=document,
    )


def check_version(path: Path, document: dict[str, Any]) -> None:
    """Refuses a graph that was made by another PyTorch than the one that is to run the archive: its operators may be others."""
    made_by = str(document["producer"]["torch"])
    if made_by.split(".")[:2] != torch.__version__.split(".")[:2]:
        raise OpprofError(
            f"{path}: opprof-torchscript was built against PyTorch {made_by}, and this Python has {torch.__version__}",
            remedy="build opprof again with this Python: ./setup.sh does",
        )
