"""`opprof launches`: what Inductor's generated code launches, in order, and which nodes each launch computes. Needs no PyTorch."""

from pathlib import Path
from typing import Any

from opprof.chain import graph_of, import_graph, map_launches
from opprof.errors import OpprofError
from opprof.files import read_json, scratch_folder
from opprof.run_folder import LAUNCHES, OUTPUT_CODE, RunFolder, code_folders
from opprof.suffixes import MLIR_BYTECODE


def launch_maps(directory: Path, graph: Path | None) -> list[dict[str, Any]]:
    """The launch map of each compiled graph at or below `directory`, made by opprof-translate where there is none yet."""
    if not directory.exists():
        raise OpprofError(f"{directory}: no such file or folder")
    if directory.is_file():
        directory = directory.parent
    folders = code_folders(directory)
    if not folders:
        raise OpprofError(
            f"{directory}: holds no {OUTPUT_CODE}",
            remedy="give a run folder, or the debug folder of a run with TORCH_COMPILE_DEBUG=1",
        )
    maps = []
    with scratch_folder() as scratch:
        if graph is not None and graph.suffix != MLIR_BYTECODE:
            imported = scratch / "graph.mlirbc"
            import_graph(graph, imported)
            graph = imported
        run = RunFolder(directory)
        for folder in folders:
            file = scratch / LAUNCHES
            own = graph_of(folder, run) if graph is None and run.graph.is_file() else graph
            map_launches(folder, own, file)
            maps.append(read_json(file))
    return maps


def launches_text(maps: list[dict[str, Any]]) -> str:
    """One line a launch, with the first of its nodes and the user's line."""
    lines = []
    for launch_map in maps:
        launches = launch_map["launches"]
        lines.append(f"{launch_map['graph']}: {len(launches)} launches")
        for launch in launches:
            nodes = [
                ("~" if node.get("recomputed") else "") + node["name"] for node in launch["nodes"]
            ]
            sources = [node["source"] for node in launch["nodes"] if node.get("source")]
            shown = ", ".join(nodes[:4]) + (f", … ({len(nodes)})" if len(nodes) > 4 else "")
            lines.append(
                f"{launch['index']:5}  {launch['category']:20} {launch['kernel'][:48]:48} "
                f"{shown}" + (f"  [{sources[-1]}]" if sources else "")
            )
        if any(node.get("recomputed") for launch in launches for node in launch["nodes"]):
            lines.append("       ~ marks a node that is computed again here")
    return "\n".join(lines)
