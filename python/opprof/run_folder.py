"""A run folder: what `opprof profile` and `opprof run` leave, where it lies, and how the native tools make the profile out of it.

Needs no PyTorch.
"""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opprof.errors import OpprofError
from opprof.files import check_folder, make_folder, replacing
from opprof.progress import progress
from opprof.tools import run_tool

# What a run folder keeps of Inductor's debug folder of a graph.
CODE_FILES = (
    "output_code.py",
    "fx_graph_readable.py",
    "fx_graph_transformed.py",
    "inductor_provenance_tracking_node_mappings.json",
)

# What opprof writes beside them.
MADE_FILES = ("post_grad.json", "graph.json", "graph.mlirbc", "launches.json")


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run folder's files."""

    path: Path
    #: Ends the names of what is one process's of several that `opprof run` recorded: "-r0-p4242".
    process: str = ""

    @property
    def run(self) -> Path:
        return self.path / "run.json"

    @property
    def graph_json(self) -> Path:
        return self.path / "graph.json"

    @property
    def graph(self) -> Path:
        return self.path / "graph.mlirbc"

    @property
    def partitions(self) -> Path:
        return self.path / "partitions.json"

    @property
    def trace(self) -> Path:
        return self.path / "trace.json.gz"

    @property
    def capture(self) -> Path:
        """opprof's own timeline, where there is a GPU; the trace is then made of it."""
        return self.path / "capture.opcap"

    @property
    def counters(self) -> Path:
        return self.path / "counters.json"

    @property
    def counters_capture(self) -> Path:
        """The timeline of the step whose kernels were counted."""
        return self.path / "counters.opcap"

    @property
    def operators(self) -> Path:
        """The launch map of the graph where it ran node by node."""
        return self.path / "operators.json"

    @property
    def profile(self) -> Path:
        return self.path / f"profile{self.process}.opprof.json"

    @property
    def report_text(self) -> Path:
        return self.path / f"report{self.process}.txt"

    @property
    def report_html(self) -> Path:
        return self.path / f"report{self.process}.html"

    @property
    def scratch(self) -> Path:
        """Where Inductor leaves its debug folders while it compiles."""
        return self.path / ".inductor"

    def compiled_graphs(self) -> list[Path]:
        """The folders of the compiled graphs, in the order in which they were compiled. Run folders below this one keep theirs."""
        return _by_compilation(file.parent for file in self.path.glob("*/output_code.py"))

    def made_files(self) -> list[Path]:
        """What tells of one run; the rest is made again or replaced."""
        return [
            *(self.report_text, self.report_html, self.profile, self.run, self.partitions),
            *(self.operators, self.counters, self.counters_capture, self.capture, self.trace),
        ]

    def check(self) -> None:
        """Refuses a folder that cannot be filled: a run's code folders are taken away by the next, so there may be no one else's."""
        check_folder(self.path)
        if (self.path / "output_code.py").exists():
            raise OpprofError(
                f"{self.path}: is a debug folder of Inductor, not a run folder",
                remedy="give -o a folder of its own",
            )
        for code in self.compiled_graphs():
            for entry in code.iterdir():
                if entry.name not in (*CODE_FILES, *MADE_FILES):
                    raise OpprofError(
                        f"{code}: would be taken for code of this run, and {entry.name} in it is none of opprof's files",
                        remedy="give -o a folder of its own",
                    )

    def clear(self) -> None:
        """Takes away what an earlier run left: it would be put on this one's kernels, or be read as what this one gave."""
        self.check()
        make_folder(self.path)
        for code in self.compiled_graphs():
            shutil.rmtree(code)
        for file in self.made_files():
            file.unlink(missing_ok=True)

    def read_run(self) -> dict[str, Any]:
        """What run.json says."""
        try:
            return json.loads(self.run.read_text())
        except (OSError, ValueError) as error:
            raise OpprofError(f"{self.run}: cannot be read: {error}") from error


def code_folders(directory: Path) -> list[Path]:
    """The folders at or below `directory` that hold an output_code.py, in the order of their compilation."""
    if (directory / "output_code.py").is_file():
        return [directory]
    return _by_compilation(file.parent for file in directory.glob("**/output_code.py"))


def _by_compilation(folders: Iterable[Path]) -> list[Path]:
    # Inductor ends a folder's name with the number of its compilation: model__2_backward_5.1.
    return sorted(folders, key=lambda folder: (_compilation(folder.name), folder.name))


def _compilation(name: str) -> int:
    number = name.rpartition(".")[2]
    return int(number) if number.isdecimal() else 0


def write_run(folder: RunFolder, facts: dict[str, Any]) -> None:
    """Writes run.json."""
    with replacing(folder.run) as file:
        json.dump({"version": 1, **facts}, file, indent=1)
        file.write("\n")


def import_graph(source: Path, target: Path) -> None:
    """A graph in any form that opprof reads, as MLIR bytecode."""
    if source.suffix == ".json":
        translated = run_tool("opprof-translate", ["--import-fx-json", source])
    elif source.suffix == ".pt2":
        translated = run_tool("opprof-translate", ["--import-pt2", source])
    elif source.suffix in (".mlir", ".mlirbc"):
        run_tool("opprof-opt", [source, "--emit-bytecode"], output=target)
        return
    else:
        raise OpprofError(
            f"{source}: not a graph that opprof reads",
            remedy="give graph JSON (.json), a torch.export archive (.pt2), or MLIR (.mlir, .mlirbc)",
        )
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
    arguments: list[str | Path] = ["--inductor-launches", code / "output_code.py"]
    if graph is not None:
        arguments.append(f"--graph={graph}")
    post_grad = code / "post_grad.json"
    if post_grad.is_file():
        arguments.append(f"--post-grad-graph={post_grad}")
    run_tool("opprof-translate", arguments, output=target)


def graph_of(code: Path, folder: RunFolder) -> Path:
    """The graph that a compiled graph was made from: the run's, but for further Dynamo graphs of a model that does not export."""
    own = code / "graph.json"
    if not own.is_file():
        return folder.graph
    imported = own.with_suffix(".mlirbc")
    if not imported.is_file():
        import_graph(own, imported)
    return imported


def map_all_launches(folder: RunFolder) -> None:
    """Writes the launch map of each compiled graph."""
    for code in folder.compiled_graphs():
        progress(f"mapping the launches of {code.name}")
        map_launches(code, graph_of(code, folder), code / "launches.json")


def attribute(folder: RunFolder, mapped: bool = False) -> None:
    """Everything that follows from the graph, the code and the timeline: partitions, launches, profile, reports.

    `mapped` says that partitions and launch maps are there already.
    """
    if not mapped:
        progress("finding repeated subgraphs")
        find_partitions(folder)
        map_all_launches(folder)
    captured = folder.capture.is_file()
    maps = [code / "launches.json" for code in folder.compiled_graphs()]
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
    maps = [code / "launches.json" for code in folder.compiled_graphs()]
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
            f"{code}: holds no output_code.py",
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


def copy_code(source: Path, target: Path) -> None:
    """Copies what a run folder keeps of a compiled graph's debug folder."""
    target.mkdir(parents=True, exist_ok=True)
    for name in (*CODE_FILES, "post_grad.json", "graph.json"):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def copy_trace(trace: Path, folder: RunFolder) -> None:
    """The trace, compressed if it was not."""
    import gzip

    with trace.open("rb") as source, replacing(folder.trace, "wb") as target:
        if source.peek(2)[:2] == b"\x1f\x8b":
            shutil.copyfileobj(source, target)
            return
        with gzip.GzipFile(fileobj=target, mode="wb", mtime=0) as compressed:
            shutil.copyfileobj(source, compressed)
