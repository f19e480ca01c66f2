"""How the native tools make a profile out of a run folder's files: graph, partitions, launch maps, profile, reports. Needs no PyTorch."""

from pathlib import Path
from typing import Any

from opprof.errors import OpprofError
from opprof.progress import progress
from opprof.run_folder import (
    CODE_GRAPH,
    LAUNCHES,
    OUTPUT_CODE,
    POST_GRAD,
    RunFolder,
    code_folders,
    copy_code,
    copy_trace,
    write_run,
)
from opprof.suffixes import GRAPH_JSON, MLIR, MLIR_BYTECODE, PT2
from opprof.tools import run_tool

#: What opprof-translate reads, and by which option.
_IMPORTS = {GRAPH_JSON: "--import-fx-json", PT2: "--import-pt2"}


def import_graph(source: Path, target: Path) -> None:
    """A graph in any form that opprof reads, as MLIR bytecode."""
    if source.suffix in MLIR:
        run_tool("opprof-opt", [source, "--emit-bytecode"], output=target)
        return
    if source.suffix not in _IMPORTS:
        raise OpprofError(
            f"{source}: not a graph that opprof reads",
            remedy=f"give graph JSON ({GRAPH_JSON}), a torch.export archive ({PT2}), or MLIR ({', '.join(MLIR)})",
        )
    translated = run_tool("opprof-translate", [_IMPORTS[source.suffix], source])
    run_tool("opprof-opt", ["-", "--emit-bytecode"], input=translated, output=target)


def find_partitions(folder: RunFolder) -> None:
    """Writes the partition map of the folder's graph."""
    run_tool(
        "opprof-opt",
        [
            folder.graph,
            "--dedup-partitions",
            f"--partition-map={folder.partitions}",
            "-o",
            "/dev/null",
        ],
        quiet=True,
    )


def map_launches(code: Path, graph: Path | None, target: Path) -> None:
    """Writes the launch map of one compiled graph, whose nodes are followed back to `graph` where one is given."""
    arguments: list[str | Path] = ["--inductor-launches", code / OUTPUT_CODE]
    if graph is not None:
        arguments.append(f"--graph={graph}")
    post_grad = code / POST_GRAD
    if post_grad.is_file():
        arguments.append(f"--post-grad-graph={post_grad}")
    run_tool("opprof-translate", arguments, output=target)


def graph_of(code: Path, folder: RunFolder) -> Path:
    """The graph that a compiled graph was made from: the run's, but for further Dynamo graphs of a model that does not export."""
    own = code / CODE_GRAPH
    if not own.is_file():
        return folder.graph
    imported = own.with_suffix(MLIR_BYTECODE)
    if not imported.is_file():
        import_graph(own, imported)
    return imported


def map_all_launches(folder: RunFolder) -> None:
    """Writes the launch map of each compiled graph."""
    for code in folder.compiled_graphs():
        progress(f"mapping the launches of {code.name}")
        map_launches(code, graph_of(code, folder), code / LAUNCHES)


def attribute(folder: RunFolder, mapped: bool = False) -> None:
    """Everything that follows from the graph, the code and the timeline: partitions, launches, profile, reports.

    `mapped` says that partitions and launch maps are there already.
    """
    if not mapped:
        progress("finding repeated subgraphs")
        find_partitions(folder)
        map_all_launches(folder)
    captured = folder.capture.is_file()
    maps = [code / LAUNCHES for code in folder.compiled_graphs()]
    folder.operators.unlink(missing_ok=True)
    # What runs node by node says of each kernel which node that is.
    if not maps and (captured or _runs_by_node(folder)):
        run_tool(
            "opprof-translate",
            ["--export-operator-launches", folder.graph],
            output=folder.operators,
        )
        maps.append(folder.operators)
    progress("joining the timeline to the launches")
    report_timeline(
        folder,
        folder.capture if captured else folder.trace,
        *(f"--launches={launches}" for launches in maps),
        f"--partitions={folder.partitions}",
        *([f"--counters={folder.counters}"] if folder.counters.is_file() else []),
    )


def _runs_by_node(folder: RunFolder) -> bool:
    return folder.run.is_file() and folder.read_run().get("mode") == "eager"


def report_recording(folder: RunFolder, timeline: Path, facts: dict[str, Any]) -> None:
    """The profile and reports of what `opprof.capture` recorded; launch maps and partitions are those that lie in the folder."""
    write_run(folder, facts)
    maps = [code / LAUNCHES for code in folder.compiled_graphs()]
    files = {"partitions": folder.partitions, "counters": folder.counters}
    report_timeline(
        folder,
        timeline,
        *(f"--launches={launches}" for launches in maps if launches.is_file()),
        *(f"--{option}={file}" for option, file in files.items() if file.is_file()),
    )
    progress(f"wrote {timeline.name}, {folder.profile.name} and reports to {folder.path}")


def report_timeline(folder: RunFolder, timeline: Path, *options: str) -> None:
    """Writes the profile of a capture or trace, and the report as text and as HTML; without launch maps, of kernels alone."""
    run_tool(
        "opprof-translate",
        [
            "--attribute-profile",
            timeline,
            *options,
            f"--run={folder.run}",
            f"--with-text={folder.report_text}",
            f"--with-html={folder.report_html}",
        ],
        output=folder.profile,
    )


def profile_from_files(graph: Path, code: Path, trace: Path, output: Path) -> RunFolder:
    """A run folder out of files that were recorded elsewhere."""
    for path in (graph, code, trace):
        if not path.exists():
            raise OpprofError(f"{path}: no such file or folder")
    folder = RunFolder(output)
    if output.is_dir() and output.resolve() in (
        code.resolve(),
        *(file.parent.resolve() for file in (graph, trace)),
    ):
        raise OpprofError(
            f"{output}: holds the files that are to be read, and a run folder is emptied before it is filled",
            remedy="give -o a folder of its own",
        )
    # A run folder below the folder of code is what this command left there the last time.
    codes = [
        found for found in code_folders(code) if output.resolve() not in found.resolve().parents
    ]
    if not codes:
        raise OpprofError(
            f"{code}: holds no {OUTPUT_CODE}",
            remedy="give the debug folder of a run with TORCH_COMPILE_DEBUG=1, or a folder of such folders",
        )
    folder.check()
    progress(f"reading {graph}")
    import_graph(graph, folder.graph)
    folder.clear()
    for source in codes:
        copy_code(source, output / source.name)
    copy_trace(trace, folder)
    write_run(
        folder,
        {
            "recorded": {"graph": str(graph), "code": str(code), "trace": str(trace)},
            "compiled_graphs": [source.name for source in codes],
        },
    )
    attribute(folder)
    return folder
