"""`opprof run`: records a program that knows nothing of opprof, and reports what ran. Needs no PyTorch of its own.

The program comes first: its exit status is this command's, its stdout is its own, and nothing that goes wrong after its end takes
away what was recorded.
"""

import contextlib
import importlib.util
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opprof.chain import import_graph, report_timeline
from opprof.commands.report import report_perfetto, report_text
from opprof.errors import OpprofError
from opprof.export.step_region import forward_graph, read_step, reading
from opprof.files import check_own, read_json, replacing, scratch_folder
from opprof.progress import progress, show
from opprof.recording import INJECTED
from opprof.recording.counters import step_counters
from opprof.recording.library import Library, find_library, summary_counts, why_no_gpu
from opprof.recording.metrics import Metrics
from opprof.recording.torch_profiler import QUIET
from opprof.run_folder import (
    RECORDING,
    RecordedFile,
    RunFolder,
    recorded_file,
    recorded_files,
    versions,
    write_run,
)
from opprof.suffixes import CAPTURE
from opprof.terminal import printable

#: A trace is JSON, and several times as large as the capture that it is made of.
LARGEST_TRACED = 1 << 30

#: A profile keeps each kernel, 1 kB of memory and 0.6 kB of JSON: of a longer capture it is about the last ones.
MOST_KERNELS = 1_000_000

#: A larger profile takes too long to read again for the sake of colors and the terminal's width.
LARGEST_SHOWN = 100 << 20

#: What says that a process was a worker of a data loader.
_WORKERS = "worker-p*"

#: Ends what a process was writing when it was killed.
_PARTIAL = ".new"

#: A profile of a process that ran no operator is no larger.
_EMPTY_PROFILE = 20_000
#: So many times the profile of the program's own process, and another process is what ran.
_MUCH_MORE = 10


@dataclass(frozen=True)
class Recorded:
    """What one process left, and what it is called."""

    #: A capture, what the observer recorded, or a trace of torch.profiler.
    capture: Path
    rank: int | None
    process: str
    #: Kernels, copies and sets; without, there is nothing to report.
    work: int
    #: Whether it is the program itself, and no process that this started.
    is_program: bool = False

    @property
    def name(self) -> str:
        number, _, before = self.process.partition("e")
        process = f"process {number}" + (f" before its exec {before}" if before else "")
        return process if self.rank is None else f"rank {self.rank}, {process}"


@dataclass(frozen=True)
class Part:
    """What of a program is recorded."""

    #: Seconds, of which a duration of 0 is all.
    delay: float = 0.0
    duration: float = 0.0
    #: The first step and the one after the last, in place of seconds.
    steps: tuple[int, int] | None = None
    #: Whether what is allocated and freed is recorded too.
    memory: bool = False
    #: The step that a graph is recorded of as well, if any.
    graph_step: int | None = None
    #: What is counted of the steps after `steps`, if anything.
    metrics: Metrics | None = None

    def facts(self) -> dict[str, Any]:
        """What run.json says of it."""
        memory = {"memory": True} if self.memory else {}
        if self.steps is not None:
            return {"steps": list(self.steps), **memory}
        return {"delay_s": self.delay, "duration_s": self.duration, **memory}

    def asking(self) -> dict[str, str]:
        """What tells the program's processes what to record besides."""
        return {"OPPROF_MEMORY": "1"} if self.memory else {}

    def environment(self) -> dict[str, str]:
        """What tells the program's processes."""
        variables = {}
        if self.graph_step is not None:
            variables["OPPROF_GRAPH_STEP"] = str(self.graph_step)
        if self.metrics is not None:
            names = [*self.metrics.counters, *self.metrics.with_local_memory]
            variables["OPPROF_COUNTERS"] = ",".join(names)
        if self.steps is not None:
            steps = f"{self.steps[0]}:{self.steps[1]}"
            return {**variables, "OPPROF_STEPS": steps, **self.asking()}
        return {
            **variables,
            **self.asking(),
            "OPPROF_CAPTURE_DELAY": str(self.delay),
            "OPPROF_CAPTURE_DURATION": str(self.duration),
        }


def step_of_graph(steps: tuple[int, int] | None) -> int:
    """The step to record a graph of where none was chosen: it runs slowly, and is none of those that are measured.

    Without a window that is the second, by which optimizers have their state; what is slow after the first step counts as warm-up.
    """
    if steps is None:
        return 1
    return steps[0] - 1 if steps[0] > 1 else steps[1]


@dataclass(frozen=True)
class _Program:
    """What is to be run."""

    #: As it was given.
    given: list[str]
    #: Whether it is a script, which this Python runs.
    is_script: bool

    @property
    def command(self) -> list[str]:
        return [sys.executable, *self.given] if self.is_script else self.given


def _program(command: Sequence[str]) -> _Program:
    command = list(command)
    if command and command[0] == "--":
        del command[0]
    if not command:
        raise OpprofError("nothing to run", remedy="opprof run -o run/ script.py arguments …")
    script = command[0].endswith(".py")
    if script and not Path(command[0]).is_file():
        raise OpprofError(f"{command[0]}: no such file")
    if not script and shutil.which(command[0]) is None:
        raise OpprofError(f"{command[0]}: no such program")
    return _Program(command, script)


def run_waiting(command: Sequence[str], output: Path, *, is_new: bool, memory: bool = False) -> int:
    """Runs a program that `opprof attach` can record, and returns its exit status; nothing is recorded before. `is_new` says that the
    folder was made for it, and `memory` that what the program allocates is to be recorded too.
    """
    program = _program(command).command
    if is_new:
        # Whatever the user's mask lets others do in folders.
        output.chmod(0o700)
    check_own(output)
    reason = why_no_gpu()
    environment = {
        **QUIET,
        **_inherited(),
        **_loading(),
        **Part(memory=memory).asking(),
        "OPPROF_CONTROL": str(output.resolve()),
    }
    if reason is None:
        environment.update(_injecting())
    else:
        progress(reason)
        environment["OPPROF_OPERATORS_SHAPES"] = "1"
    progress(f"running {shlex.join(program)}: `opprof attach` records its processes")
    try:
        return _run(program, environment)[0]
    finally:
        for kind in ("waiting", "attach", "attached"):
            for file in output.glob(f"{kind}-p*"):
                process = file.name.removeprefix(f"{kind}-p").partition(".")[0]
                # One whose `opprof run` was killed still waits in the same folder.
                if not Path("/proc", process).exists():
                    file.unlink(missing_ok=True)


def run_program(command: Sequence[str], output: Path, part: Part) -> int:
    """Runs a program to its end with every process of it recorded, reports, and returns its exit status."""
    program = _program(command)
    reason = why_no_gpu()
    if reason is not None and program.is_script and importlib.util.find_spec("torch") is None:
        raise OpprofError(
            f"{program.given[0]} cannot be recorded: {reason}, and there is no PyTorch"
        )
    folder = RunFolder(output)
    _tell_of_killed(output)
    folder.clear()
    # A graph of another run is none of this one's.
    folder.drop_graph()
    facts: dict[str, Any] = {
        "command": ["opprof", *sys.argv[1:]],
        "program": shlex.join(program.given),
        "versions": versions(),
    }
    if reason is None:
        facts["timeline"] = {"by": "opprof capture", **part.facts()}
        captures, status, own = _captured(program.command, output, part)
    else:
        if part.metrics is not None:
            progress("no counters: hardware counters are taken of a GPU")
            part = replace(part, metrics=None)
        traces, status, own = _observed(program.command, output, reason, part)
        by = "opprof observer"
        if any(entry.capture.suffix != CAPTURE for entry in traces):
            by = "torch.profiler"
        facts["timeline"] = {"by": by, "reason": reason, **part.facts()}
    facts["exit_status"] = status
    try:
        if part.graph_step is not None:
            facts["step_graph"] = _take_graphs(folder, part.graph_step, own)
        if part.metrics is not None:
            _take_counters(output, part.metrics)
        write_run(folder, facts)
        if reason is None:
            report_captures(captures, output)
        else:
            report_operators(traces, output)
    except KeyboardInterrupt:
        progress("interrupted: what was recorded is kept")
    except Exception as error:
        # Whatever it is, the program has run, and its status is what the caller asks for.
        _failed("no report was made", error)
    return status


def _failed(what: str, error: Exception) -> None:
    """Says what could not be made of a recording, which stays."""
    kind = "" if isinstance(error, OpprofError) else f"{type(error).__name__}: "
    progress(f"{what}: {kind}{error}")
    if isinstance(error, OpprofError) and error.remedy:
        show(f"  {error.remedy}")


def _loading() -> dict[str, str]:
    """What has every Python of a program that imports PyTorch load the observer."""
    paths = [str(INJECTED), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "OPPROF_OBSERVER_LIBRARIES": os.environ.get("OPPROF_OBSERVER_LIBRARIES", "")
        or str(Path(find_library()).parent),
    }


def _injecting() -> dict[str, str]:
    """What has every process of a program that uses CUDA load the capture library."""
    return {
        "CUDA_INJECTION64_PATH": find_library(),
        # NVTX asks for its tool at its first range; the library leads it to the CUPTI that the program uses.
        "NVTX_INJECTION64_PATH": find_library(),
        # A program that brings no CUPTI is lent this one.
        "OPPROF_CUPTI_DEFAULT": Library.get().info()["cupti"],
    }


def _inherited() -> dict[str, str]:
    """The environment, without what an `opprof run` round this one asks of its programs."""
    asked = (
        *("OPPROF_CONTROL", "OPPROF_OPERATORS", "OPPROF_CAPTURE_FILE", "OPPROF_CPU_TRACES"),
        *("OPPROF_STEPS", "OPPROF_MEMORY", "OPPROF_GRAPH_STEP", "OPPROF_COUNTERS"),
    )
    return {key: value for key, value in os.environ.items() if key not in asked}


def _observing(recording: Path, part: Part) -> dict[str, str]:
    """What has it record its operators from the beginning."""
    return {**_loading(), "OPPROF_OPERATORS": _operators(recording), **part.environment()}


def _operators(recording: Path) -> str:
    return str(recording / "operators")


def _observed(
    command: Sequence[str], output: Path, reason: str, part: Part
) -> tuple[list[Recorded], int, int]:
    """Runs a program with the observer, or for want of it torch.profiler, in every Python of it that imports PyTorch; returns what they
    left, its status, and its process.
    """
    progress(reason)
    progress(f"running {shlex.join(command)}, and recording its operators on the CPU")
    _drop_operators(output)
    recording = _new_recording(output)
    environment = {
        **QUIET,
        **_inherited(),
        **_observing(recording, part),
        "OPPROF_CPU_TRACES": str(recording),
        # There are no kernels, whose launches cost more than the sizes do.
        "OPPROF_OPERATORS_SHAPES": "1",
    }
    files, status, own = _run_into(recording, command, environment)
    traces = [
        recorded_operators(file, own)
        for kind in ("operators", "trace")
        for file in files
        if file.kind == kind
    ]
    if not traces:
        progress(
            "nothing was recorded: no Python of the program imported PyTorch, or one did that looks at no "
            "variables (python -I or -E, env -i) or was killed at once"
        )
    return traces, status, own


def _order(file: RecordedFile) -> tuple[int, int]:
    return file.rank or 0, int(file.process.partition("e")[0])


def _take_graphs(folder: RunFolder, step: int, program: int) -> dict[str, Any]:
    """Makes the graph that the program recorded of a step the run's; of one with ranks, that of the first. Returns what run.json says."""
    files = recorded_files(folder.path, "graph")
    own = [file for file in files if file.process == str(program)]
    chosen = sorted(own or files, key=_order)[:1]
    if not chosen:
        progress(
            f"no graph was recorded of step {step}: no process stepped an optimizer that often that it did not compile itself, nor "
            "called a module without gradients"
        )
        return {}
    rest = recorded_files(folder.path, "step", chosen[0].process)
    chosen[0].path.replace(folder.graph_json)
    for file in rest:
        file.path.replace(folder.step)
    try:
        import_graph(folder.graph_json, folder.graph)
    except OpprofError as error:
        _failed(f"{folder.graph_json} is kept, but cannot be read", error)
    else:
        progress(f"the graph of a step: {folder.graph}; `opprof extract {folder.path} --module …`")
    others = [file.path.name for file in files if file is not chosen[0]]
    return {"process": chosen[0].process, "others": others}


def _take_counters(output: Path, metrics: Metrics) -> None:
    """Makes of what the processes counted what reports read."""
    counted = recorded_files(output, "counted")
    if not counted:
        progress("no counters: no process of the program stepped an optimizer")
    for file in counted:
        found = read_json(file.path)
        if "failed" in found:
            progress(f"no counters of process {file.process}: {found['failed']}")
        with replacing(output / f"counters{file.name}.json") as target:
            json.dump(step_counters(found, metrics), target, indent=1)
        file.path.unlink()


def _report(folder: RunFolder, entry: Recorded, *options: str) -> None:
    """Makes the report of a process, and joins it to the forward part of the step that was recorded of it, if one was."""
    whole = RunFolder(folder.path)
    recorded = whole.step.is_file() and read_json(whole.run).get("step_graph", {})
    if recorded and recorded.get("process") == entry.process:
        with scratch_folder() as scratch:
            file = scratch / "graph.json"
            try:
                with reading(folder.path):
                    file.write_text(
                        json.dumps(forward_graph(read_step(folder.path))), encoding="utf-8"
                    )
                report_timeline(folder, entry.capture, f"--graph={file}", *options)
                return
            except OpprofError as error:
                _failed("the report is made without the graph", error)
    report_timeline(folder, entry.capture, *options)


def _without_workers(traces: Sequence[Recorded], output: Path) -> list[Recorded]:
    """The processes but workers of data loaders, of which one line says what they ran."""
    names = {file.name.removeprefix("worker-p") for file in output.glob(_WORKERS)}
    workers = [entry for entry in traces if entry.process in names]
    operators = 0
    for entry in workers:
        with contextlib.suppress(OpprofError):
            summary = Library.for_files().summarize(str(entry.capture))
            operators += summary_counts(summary).get("operators", 0)
    if workers:
        several = "s" if len(workers) > 1 else ""
        progress(
            f"{len(workers)} worker{several} of data loaders ran {operators} operators: no report of them, "
            f"{workers[0].capture.name}{' and others' if several else ''} kept"
        )
    return [entry for entry in traces if entry.process not in names]


def _drop_operators(output: Path) -> None:
    """Takes away what an earlier run recorded of operators: one process's may be taken for another's of its number."""
    kinds = ("operators", "graph", "step", "counted", "counters")
    earlier = [file.path for kind in kinds for file in recorded_files(output, kind)]
    for path in [*earlier, *output.glob(_WORKERS)]:
        path.unlink()


def _tell_of_killed(output: Path) -> None:
    """Says what is taken away of runs that were killed, and who of theirs goes on: what it does takes its time from the next run."""
    recordings = sorted(output.resolve().glob(f"{RECORDING}*"))
    if not recordings:
        return
    progress(f"an earlier run into {output} was killed: what it recorded until then is removed")
    marks = {os.fsencode(f"OPPROF_OPERATORS={_operators(path)}") for path in recordings}
    going = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        # It may end meanwhile, or be another user's.
        with contextlib.suppress(OSError):
            if not marks.isdisjoint(file.read_bytes().split(b"\0")):
                going.append(file.parent.name)
    if going:
        several = (
            "processes of its program still run" if len(going) > 1 else "its program still runs"
        )
        progress(f"{several}, which takes time from this one: `kill {' '.join(going)}` ends it")


def _new_recording(output: Path) -> Path:
    """Makes the folder that the processes of this run record into, and of no other: those of one that was killed go on."""
    recording = output.resolve() / f"{RECORDING}{secrets.token_hex(8)}"
    recording.mkdir()
    # Where the program's processes become another user's, the output is open to that one.
    shutil.copymode(output, recording)
    return recording


def _run_into(
    recording: Path, command: Sequence[str], environment: dict[str, str]
) -> tuple[list[RecordedFile], int, int]:
    """Runs a program whose processes record into that folder; returns what they left, which lies in the run folder then, its status,
    and its process. What begins later, or writes a file later, finds no folder.
    """
    files = []
    try:
        status, own = _run(command, environment)
    finally:
        for path in sorted(recording.glob("[!.]*")):
            if path.suffix != _PARTIAL:
                files.append(recorded_file(path.replace(recording.parent / path.name)))
        shutil.rmtree(recording, ignore_errors=True)
    return files, status, own


def recorded_operators(file: RecordedFile, program: int) -> Recorded:
    """What the observer or torch.profiler left of one process; `program` is the process of the program itself."""
    return Recorded(file.path, file.rank, file.process, 1, file.process == str(program))


def report_operators(traces: Sequence[Recorded], output: Path) -> None:
    """Makes of each trace what a person can open; what fails for one takes nothing from the others."""
    shown: list[tuple[Recorded, RunFolder]] = []
    for entry in _without_workers(traces, output):
        folder = RunFolder(output, recorded_file(entry.capture).name)
        try:
            progress(f"reporting {entry.name}")
            limit = [f"--last-kernels={MOST_KERNELS}"] if entry.capture.suffix == CAPTURE else []
            _report(folder, entry, *limit)
        except Exception as error:
            _failed(f"no report of {entry.name}; {entry.capture} is kept", error)
            continue
        if folder.profile.stat().st_size < _EMPTY_PROFILE and _is_empty(folder):
            # torchrun itself, for one.
            why = _steps_of(entry) or "ran no operator: there is nothing to report of it"
            for file in (entry.capture, folder.profile, folder.report_text, folder.report_html):
                file.unlink()
            progress(f"{entry.name} {why}")
            continue
        shown.append((entry, folder))
    # One process is the run, or the one whose helpers the others are.
    runs = [pair for pair in shown if len(shown) == 1 or pair[0].is_program]
    others = [pair for pair in shown if pair not in runs]
    # A program that leaves the work to what it starts is none of them. A profile has a line for each operator.
    if any(_MUCH_MORE * _size(pair) < _size(other) for pair in runs for other in others):
        runs = []
    if runs and all(entry.rank is None for entry, _ in others):
        entry, own = runs[0]
        folder = RunFolder(output)
        if entry.capture.suffix != CAPTURE:
            entry.capture.replace(folder.trace)
        own.profile.replace(folder.profile)
        own.report_text.replace(folder.report_text)
        own.report_html.replace(folder.report_html)
        shown = [(entry, folder), *others]
    _show_all(shown)


def _size(pair: tuple[Recorded, RunFolder]) -> int:
    return pair[1].profile.stat().st_size


def _is_empty(folder: RunFolder) -> bool:
    """Whether a process neither ran an operator nor took memory."""
    profile = read_json(folder.profile)
    return not profile["summary"]["kernels"] and not profile.get("tensor_memory")


def _steps_of(entry: Recorded) -> str | None:
    """What the observer says of the steps that were asked for."""
    if entry.capture.suffix != CAPTURE:
        return None
    with contextlib.suppress(OpprofError):
        text = Library.for_files().summarize(str(entry.capture))
        found = re.search(r"^steps: (.*)$", text, re.MULTILINE)
        return found and printable(found[1])
    return None


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[int, int]:
    """Runs a program to its end; returns its status as a shell has it, and its process.

    Signals are the program's to answer: its exit writes the rest of the capture.
    """
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise OpprofError(f"{command[0]} cannot be run: {error}") from error

    def forward(number: int, frame: object) -> None:
        process.send_signal(number)

    before = {
        # The terminal sends Ctrl-C to the program as well.
        signal.SIGINT: signal.signal(signal.SIGINT, lambda number, frame: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, forward),
        signal.SIGHUP: signal.signal(signal.SIGHUP, forward),
    }
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if status < 0:
        progress(f"the program was ended by signal {-status}")
        return 128 - status, process.pid
    if status:
        progress(f"the program ended with status {status}")
    return status, process.pid


def _captured(command: Sequence[str], output: Path, part: Part) -> tuple[list[Path], int, int]:
    """Runs a program with the capture library in it; returns the captures that it left, its status, and its process."""
    _drop_operators(output)
    recording = _new_recording(output)
    environment = {
        **_inherited(),
        **_injecting(),
        # The library puts numbers where a % is; one of the folder's name stays.
        "OPPROF_CAPTURE_FILE": os.path.join(
            str(recording).replace("%", "%%"), f"capture-%n{CAPTURE}"
        ),
        **_observing(recording, part),
    }
    if part.graph_step is not None:
        # By which operators are told from others of their name.
        environment["OPPROF_OPERATORS_SHAPES"] = "1"
    progress(f"running {shlex.join(command)}")
    files, status, own = _run_into(recording, command, environment)
    captures = [file.path for file in files if file.kind == "capture"]
    if not captures:
        observed = [recorded_operators(file, 0) for file in files if file.kind == "operators"]
        said = [text for text in map(_steps_of, observed) if text]
        for text in said or ["no process of the program used CUDA: nothing was captured"]:
            progress(text)
        if said:
            _drop_operators(output)
    return captures, status, own


def report_captures(captures: Sequence[Path], output: Path) -> None:
    """Makes of each capture what a person can open; what fails for one takes nothing from the others."""
    recorded = []
    for capture in captures:
        try:
            found = _summarized(capture)
        except Exception as error:
            _failed(f"{capture} is kept, but cannot be read", error)
            continue
        if found is not None:
            recorded.append(found)
    working = [entry for entry in recorded if entry.work]
    shown: list[tuple[Recorded, RunFolder]] = []
    for entry in recorded:
        if entry.work:
            own = recorded_file(entry.capture).name if len(working) > 1 else ""
            folder = RunFolder(output, own)
            try:
                progress(f"reporting {entry.name}")
                limit = f"--last-kernels={MOST_KERNELS}"
                _report(folder, entry, limit, *_beside(entry.capture))
                shown.append((entry, folder))
            except Exception as error:
                _failed(f"no report of {entry.name}; {entry.capture} is kept", error)
        else:
            progress(f"{entry.name} ran nothing on a device: there is nothing to report of it")
        try:
            # Of what has no profile, the capture alone is shown.
            shows = bool(shown) and shown[-1][0] is entry
            _export_trace(entry.capture, shown[-1][1].profile if shows else entry.capture)
        except Exception as error:
            _failed(f"no trace of {entry.capture}, which is kept", error)
    _show_all(shown)
    if len({entry.rank for entry, _ in shown} - {None}) > 1:
        merged = output / "merged.json"
        show(
            f"opprof merge {output} -o {merged} puts the ranks on one clock, and says what communication costs"
        )


def _beside(capture: Path) -> list[str]:
    """What else was recorded of the process of a capture, as options of the driver."""
    process = recorded_file(capture).process
    return [
        f"--{kind}={file.path}"
        for kind in ("operators", "counters")
        for file in recorded_files(capture.parent, kind, process)[:1]
    ]


def _show_all(shown: list[tuple[Recorded, RunFolder]]) -> None:
    """Prints the report of the first rank, or else of what ran most, and of each other the summary and where its report is."""
    shown.sort(key=lambda pair: (pair[0].rank is None, pair[0].rank or 0, -_size(pair)))
    if not shown:
        return
    _show(shown[0][1])
    for entry, folder in shown[1:]:
        # The second line of a report is its summary.
        summary = folder.report_text.read_text(encoding="utf-8").splitlines()[1:2]
        show(f"{entry.name}: {', '.join([*summary, str(folder.report_html)])}")


def _summarized(capture: Path) -> Recorded | None:
    """Writes what a capture holds, a line each; removes it where a process put nothing on a device."""
    summary = Library.get().summarize(str(capture))
    process = recorded_file(capture).process
    counts = summary_counts(summary)
    work = sum(counts.get(name, 0) for name in ("kernels", "memcpys", "memsets"))
    if not work and not any(counts.get(n) for n in ("api calls", "markers")):
        capture.unlink()
        progress(f"process {process} put nothing on a device: its empty capture is removed")
        return None
    with replacing(capture.with_suffix(".txt")) as file:
        file.write(printable(summary))
    progress(f"wrote {capture}")
    return Recorded(capture, counts.get("rank"), process, work)


def _export_trace(capture: Path, source: Path) -> None:
    trace = capture.with_suffix(".trace.json")
    trace.unlink(missing_ok=True)
    if capture.stat().st_size > LARGEST_TRACED:
        progress(
            f"{capture} is larger than {LARGEST_TRACED >> 20} MiB, and no trace is made of it: "
            "--delay and --duration record less"
        )
        return
    report_perfetto(source, trace)
    progress(f"wrote {trace}")


def _show(folder: RunFolder) -> None:
    """Prints the report, and where to find it: on stderr, since stdout is the program's."""
    terminal = sys.stderr.isatty()
    show("")
    if terminal and folder.profile.stat().st_size <= LARGEST_SHOWN:
        # A terminal that knows no size says 0.
        width = os.get_terminal_size(sys.stderr.fileno()).columns or 120
        color = "NO_COLOR" not in os.environ
        text = report_text(folder.profile, width=width, color=color)
    else:
        text = folder.report_text.read_text(encoding="utf-8")
    show(text)
    show(f"report: {folder.report_html} (for a browser), {folder.report_text}, {folder.profile}")
