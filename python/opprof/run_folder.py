"""A run folder: what `opprof profile` and `opprof run` leave, and where it lies. Needs no PyTorch."""

import json
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opprof.files import read_json, replacing
from opprof.suffixes import CAPTURE, GRAPH_JSON
from opprof.tools import run_driver
from opprof.version import __version__

#: In the folder of a compiled graph: the code, the graph that it was made from, the further Dynamo graph that this is of where
#: there is one, and the map of the code's launches.
OUTPUT_CODE = "output_code.py"
POST_GRAD = "post_grad.json"
CODE_GRAPH = "graph.json"
LAUNCHES = "launches.json"

#: Begins the name of the folder in a run folder that the processes of one `opprof run` record into; kRecording in
#: include/opprof/Driver/RunFolder.h.
RECORDING = ".recording-"


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
    def step(self) -> Path:
        """What belongs to the graph of a step that `opprof run --graph` recorded: calls of modules, and what its inputs were like."""
        return self.path / "step.json"

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
    def rewrites(self) -> Path:
        """What `opprof recommend` had for the run, which its reports quote."""
        return self.path / "rewrites.json"

    @property
    def ceilings(self) -> Path:
        """What the device was measured to do."""
        return self.path / "ceilings.json"

    @property
    def counters(self) -> Path:
        return self.path / "counters.json"

    @property
    def counters_capture(self) -> Path:
        """The timeline of the step whose kernels were counted."""
        return self.path / "counters.opcap"

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
        """Where Inductor leaves its debug folders while it compiles; opprof-driver takes the code from there."""
        return self.path / ".inductor"

    def compiled_graphs(self) -> list[Path]:
        """The folders of the compiled graphs, in the order in which they were compiled. Run folders below this one keep theirs."""
        return _in_order(file.parent for file in self.path.glob(f"*/{OUTPUT_CODE}"))

    def check(self) -> None:
        """Refuses a folder that cannot be filled: a run's code folders are taken away by the next, so there may be no one else's."""
        run_driver("check", self.path)

    def clear(self) -> None:
        """Takes away what an earlier run left: it would be put on this one's kernels, or be read as what this one gave."""
        run_driver("clear", self.path)

    def drop_graph(self) -> None:
        """Takes away the graph, which clear() keeps: the next one is made of another program."""
        for file in (self.graph_json, self.graph, self.step):
            file.unlink(missing_ok=True)

    def drop_scratch(self) -> None:
        """Takes away what Inductor left and the driver has not taken."""
        shutil.rmtree(self.scratch, ignore_errors=True)

    def read_run(self) -> dict[str, Any]:
        """What run.json says."""
        return read_json(self.run, within=self.path)


def code_folders(directory: Path) -> dict[str, Path]:
    """The folders of compiled graphs at or below `directory` by name: of several of one name those that follow are numbered, as
    code::nameFolders in lib/Driver/RunFolder.cpp does it."""
    named: dict[str, Path] = {}
    for folder in _in_order(file.parent for file in directory.rglob(OUTPUT_CODE)):
        first = name = folder.resolve().name
        again = 0
        while name in named:
            again += 1
            name = f"{first}@{again}"
        named[name] = folder
    return named


def _in_order(folders: Iterable[Path]) -> list[Path]:
    """Folders of compiled graphs as they were compiled."""
    return sorted(folders, key=lambda f: (*_compilation(f.name), f.name, str(f)))


def _compilation(name: str) -> tuple[int, int]:
    # Inductor ends a folder's name with the number of its compilation: model__2_backward_5.1. What is compiled again from the
    # same function follows the first of it: model__2_backward_5.1@1. getCompilation in lib/Driver/RunFolder.cpp sorts likewise.
    first, _, again = name.partition("@")
    number = first.rpartition(".")[2]
    return (
        int(number) if number.isdecimal() else 0,
        int(again) if again.isdecimal() else 0,
    )


#: What is recorded of a process, and how the names of such files end.
RECORDED_ENDINGS = {
    "capture": CAPTURE,
    "operators": CAPTURE,
    "trace": ".json.gz",
    "graph": GRAPH_JSON,
    "step": GRAPH_JSON,
    "counted": ".json",
    "counters": ".json",
}


@dataclass(frozen=True)
class RecordedFile:
    """What a name says of a file that was recorded of one process: "<kind>-r<rank>-p<process>", and an ending.

    The rank is torchrun's, and empty without one. recordedName in include/opprof/Capture/FileWriter.h makes the names, and
    recording/injected/sitecustomize.py those of torch.profiler's traces.
    """

    path: Path
    kind: str
    rank: int | None
    #: Its number; "12e1" is what process 12 was before it became another program by exec.
    process: str

    @property
    def name(self) -> str:
        """Ends the names of what is made of it."""
        return self.path.name.partition(".")[0].removeprefix(self.kind)


def recorded_files(folder: Path, kind: str, process: object = "*") -> list[RecordedFile]:
    """What a folder has of a kind, of all processes or of one."""
    ending = RECORDED_ENDINGS[kind]
    return [recorded_file(path) for path in sorted(folder.glob(f"{kind}-r*-p{process}{ending}"))]


def recorded_file(path: Path) -> RecordedFile:
    """What the file's name says; of no process where it was given another name."""
    found = re.fullmatch(r"(\w+)-r(\d*)-p(\d+(?:e\d+)?)", path.name.partition(".")[0])
    if found is None:
        return RecordedFile(path, path.name.partition(".")[0], None, "")
    kind, rank, process = found.groups()
    return RecordedFile(path, kind, int(rank) if rank else None, process)


def versions() -> dict[str, str]:
    """What run.json says of the software that made it; of PyTorch where it is loaded."""
    found = {"opprof": __version__, "python": sys.version.split()[0]}
    if "torch" in sys.modules:
        found["torch"] = str(sys.modules["torch"].__version__)
    return found


def write_run(folder: RunFolder, facts: dict[str, Any]) -> None:
    """Writes run.json."""
    with replacing(folder.run) as file:
        json.dump({"version": 1, **facts}, file, indent=1)
        file.write("\n")
