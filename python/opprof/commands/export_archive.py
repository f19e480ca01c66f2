"""`opprof export` of a TorchScript archive: its graph, through opprof-torchscript. Needs no PyTorch."""

from pathlib import Path

from opprof.chain import import_graph
from opprof.errors import OpprofError
from opprof.files import scratch_folder
from opprof.suffixes import GRAPH_JSON, MLIR, MLIR_BYTECODE, MLIR_TEXT, SAFETENSORS
from opprof.torchscript import TorchScriptOptions, write_graph


def export_archive(
    archive: Path, target: Path, options: TorchScriptOptions, weights: Path | None = None
) -> list[Path]:
    """Writes the graph of the archive's method to `target`, JSON or MLIR by its ending, and returns the files written."""
    if target.suffix not in (GRAPH_JSON, *MLIR):
        raise OpprofError(
            f"{target}: the ending has to be {GRAPH_JSON}, {MLIR_TEXT} or {MLIR_BYTECODE}, as it says what to write"
        )
    if weights is not None and weights.suffix != SAFETENSORS:
        raise OpprofError(f"{weights}: the weights of an archive are written as {SAFETENSORS}")
    if target.suffix == GRAPH_JSON:
        write_graph(archive, target, options, weights)
    else:
        with scratch_folder() as folder:
            graph = folder / f"{archive.stem}{GRAPH_JSON}"
            write_graph(archive, graph, options, weights)
            import_graph(graph, target)
    return [target] if weights is None else [weights, target]
