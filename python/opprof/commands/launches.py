"""`opprof launches`: what Inductor's generated code launches, in order, and which nodes each launch computes. Needs no PyTorch, but to prove."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opprof.errors import OpprofError
from opprof.progress import progress
from opprof.run_folder import OUTPUT_CODE, POST_GRAD, RunFolder, code_folders
from opprof.tools import run_driver


def launches_text(
    directory: Path,
    graph: Path | None,
    *,
    as_json: bool = False,
    filters: Mapping[str, str | None] | None = None,
    width: int | None = None,
) -> str:
    """The launch maps of the compiled graphs at or below `directory`: as JSON, or a line a launch, with the first of its nodes.

    `filters` leaves out what does not fit a `line`, `module`, `node` or `kernel`. A launch takes two lines where one is longer than
    `width`.
    """
    options = [f"--graph={graph}"] if graph is not None else []
    if as_json:
        options.append("--json")
    if width is not None:
        options.append(f"--width={width}")
    options += [f"--{key}={value}" for key, value in (filters or {}).items() if value]
    return run_driver("launches", directory, *options).decode()


#: The verdicts of opprof.proof in the order of the table.
VERDICTS = ("exact", "missing node", "extra node", "other nodes", "not provable")
_REFUTED = VERDICTS[1:4]


@dataclass
class Proof:
    """What running the code of a folder's compiled graphs showed of their launch maps."""

    #: By compiled graph: what the process that ran it printed, or {"error": …}.
    graphs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def count(self, verdict: str) -> int:
        """How many launches were judged so."""
        return sum(
            launch["verdict"] == verdict
            for graph in self.graphs.values()
            for launch in graph.get("launches", ())
        )

    @property
    def refuted(self) -> bool:
        """Whether a launch computes other nodes than the map says."""
        return any(self.count(verdict) for verdict in _REFUTED)

    @property
    def failed(self) -> bool:
        """Whether a graph ended in an error: what could not be run is not shown to be right."""
        return any("error" in graph for graph in self.graphs.values())

    @property
    def judged(self) -> bool:
        """Whether anything was, or the graphs launch nothing that could be."""
        launches = any(graph.get("launches") for graph in self.graphs.values())
        return any(map(self.count, VERDICTS[:-1])) if launches else not self.failed

    def to_json(self) -> str:
        """All verdicts, and their totals, as a document."""
        totals = {verdict: self.count(verdict) for verdict in VERDICTS}
        return json.dumps({"version": 1, "totals": totals, "graphs": self.graphs}, indent=1) + "\n"

    def to_text(self) -> str:
        """A line for each compiled graph, one for each launch that is not exact, and what is right of each confidence."""
        lines = []
        judged: dict[str, list[int]] = {}
        for name, graph in self.graphs.items():
            if "error" in graph:
                lines.append(f"{name}: not provable: {graph['error']}")
                continue
            launches = graph["launches"]
            exact = sum(launch["verdict"] == "exact" for launch in launches)
            lines.append(f"{name}: {exact} of {len(launches)} launches have exactly their nodes")
            lines += [_line(launch) for launch in launches if launch["verdict"] != "exact"]
            for confidence, numbers in graph["confidence"].items():
                sums = judged.setdefault(confidence, [0, 0])
                sums[0] += numbers["right"]
                sums[1] += numbers["judged"]
        totals = ", ".join(f"{self.count(v)} {v}" for v in VERDICTS if self.count(v))
        nothing = "nothing to judge" if self.judged else "nothing was judged"
        lines.append(f"all: {totals or nothing}")
        lines += [
            f"nodes of confidence {confidence}: {right} of {of} right ({100 * right / of:.2f} %)"
            for confidence, (right, of) in judged.items()
            if of
        ]
        return "\n".join(lines) + "\n"


def _line(launch: dict[str, Any]) -> str:
    text = (
        f"{launch['index']:5}  line {launch['line']}  {launch['kernel'][:48]}  {launch['verdict']}"
    )
    for key, word in (("missing", "lacks"), ("extra", "does not compute")):
        if launch.get(key):
            text += f"; {word} {_some(launch[key])}"
    return text + (f" ({launch['note']})" if launch.get("note") else "")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:6])
    return f"{shown}, … ({len(names)})" if len(names) > 6 else shown


def prove(directory: Path, graph: Path | None) -> Proof:
    """Runs the code of each compiled graph at or below `directory`, beside the graph that it was made from, and judges the launch
    maps by what both computed."""
    folders = code_folders(directory)
    if not folders:
        raise OpprofError(
            f"{directory}: holds no {OUTPUT_CODE}",
            remedy="give a run folder of `opprof profile`, made on a machine like this one",
        )
    maps = {
        document["graph"]: document
        for document in json.loads(launches_text(directory, graph, as_json=True))
    }
    proof = Proof()
    provable = {name: at for name, at in folders.items() if (at / POST_GRAD).is_file()}
    judged = dict(_prove_each(provable, maps, _script_of(directory)))
    for name, folder in folders.items():
        proof.graphs[name] = judged.get(name) or {
            "error": f"{folder} holds no {POST_GRAD}: only run folders of `opprof profile` have the graph that can be run"
        }
    return proof


def _script_of(directory: Path) -> Path | None:
    """The script that a run folder was made of, where it still lies there."""
    run = RunFolder(directory)
    facts = run.read_run() if run.run.is_file() else {}
    named, began_in = facts.get("script"), facts.get("directory")
    if not isinstance(named, str) or not isinstance(began_in, str):
        return None
    script = Path(began_in, named)
    return script if script.suffix == ".py" and script.is_file() else None


def _prove_each(
    folders: Mapping[str, Path], maps: Mapping[str, Any], script: Path | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Judges graphs in one process, which loads PyTorch, and the script, once. Generated code that crashes or fails takes only itself along:
    what comes after it has another process, and so has it itself where others had run before it, which may have been to blame.
    """
    left = list(folders)
    while left:
        judged = 0
        with (
            tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as asked,
            tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said,
        ):
            for name in left:
                code, graph = folders[name] / OUTPUT_CODE, folders[name] / POST_GRAD
                line = {"code": str(code), "graph": str(graph), "launches": maps[name]}
                asked.write(json.dumps(line) + "\n")
            asked.flush()
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "opprof.proof", asked.name, str(os.getpid())),
                    *([str(script)] if script else []),
                ],
                stdout=subprocess.PIPE,
                stderr=said,
                encoding="utf-8",
            )
            assert process.stdout is not None
            with process:
                try:
                    for name in left:
                        progress(f"running {folders[name] / OUTPUT_CODE} and its graph")
                        answer = process.stdout.readline()
                        if not answer.endswith("\n"):
                            break
                        yield name, json.loads(answer)
                        judged += 1
                except BaseException:
                    process.kill()
                    raise
            left = left[judged:]
            if left and not judged:
                said.seek(0)
                yield left.pop(0), {"error": _why_it_ended(process.returncode, said.read())}


def _why_it_ended(status: int, said: str) -> str:
    if status < 0:
        return f"the code was ended by signal {-status}"
    last = (said.strip().splitlines() or ["it ended"])[-1]
    if last == "ModuleNotFoundError: No module named 'torch'":
        raise ModuleNotFoundError(last, name="torch")
    return last
