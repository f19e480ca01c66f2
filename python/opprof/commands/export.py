"""`opprof export`: writes a model's graphs. Needs PyTorch."""

from pathlib import Path

from opprof.chain import import_graph
from opprof.errors import OpprofError
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.export.model_script import load_model_script
from opprof.export.stages import capture, export_program
from opprof.export.weights import save_weights, weights_of_module, weights_of_program
from opprof.files import scratch_folder
from opprof.suffixes import GRAPH_JSON, MLIR, MLIR_BYTECODE, MLIR_TEXT


def export_script(
    path: str, output: str, stage: str = "export", weights: Path | None = None
) -> list[Path]:
    """Writes the script's graphs at a stage to `output`, JSON or MLIR by its ending, and returns the files written.

    A model that compiles to several graphs gives several files, numbered before the ending. `weights` is a file for the
    tensors that parameters, buffers and constants stand for.
    """
    target = Path(output)
    if target.suffix not in (GRAPH_JSON, *MLIR):
        raise OpprofError(
            f"{output}: the ending has to be {GRAPH_JSON}, {MLIR_TEXT} or {MLIR_BYTECODE}, as it says what to write"
        )
    script = load_model_script(path)
    written = []
    if stage == "export":
        program = export_program(script)
        sources = [source_of_exported_program(program, script.name)]
        tensors = weights_of_program(program)
    else:
        sources = capture(script, stage)
        tensors = weights_of_module(script.module)
    if weights is not None:
        save_weights(weights, tensors)
        written.append(weights)
    for position, source in enumerate(sources):
        file = target.with_stem(f"{target.stem}.{position}") if position else target
        if file.suffix == GRAPH_JSON:
            write_graph_json(file, source)
        else:
            with scratch_folder() as directory:
                json_file = directory / "graph.json"
                write_graph_json(json_file, source)
                import_graph(json_file, file)
        written.append(file)
    return written
