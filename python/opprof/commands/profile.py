"""Profiles a model script: exports it, compiles it, times it, captures its timeline and counters, and fills a run folder. Needs PyTorch.

On a GPU the timeline is opprof's own capture, whose launches know the line or node that launched them; elsewhere it is
torch.profiler's trace.
"""

import contextlib
import gc
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from opprof.chain import attribute, map_run
from opprof.commands.ceilings import Busy, ceilings_of_run
from opprof.commands.program import (
    CUDA_GRAPHS,
    EAGER,
    INDUCTOR,
    Program,
    difference,
    find_backend,
    first_step,
    into_cuda_graph,
    make_program,
    run_user,
)
from opprof.devices import describe_device, synchronize
from opprof.errors import OpprofError, ProgramError
from opprof.export.archive_script import ArchiveScript, load_archive
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.export.model_script import ModelScript, load_model_script
from opprof.export.stages import ExportFailure, export_program, user_error
from opprof.files import scratch_folder
from opprof.progress import progress
from opprof.recording.capture import Capture
from opprof.recording.counters import count
from opprof.recording.identity import NodeRanges
from opprof.recording.library import CaptureError, Library
from opprof.recording.metrics import resolve
from opprof.recording.script_operators import join_operators
from opprof.recording.selection import Filter
from opprof.recording.torch_profiler import trace_steps
from opprof.recording.torchscript_executor import executor_facts, executor_text
from opprof.run_folder import RunFolder, versions, write_run
from opprof.terminal import program_output_on_stderr
from opprof.torchscript import TorchScriptOptions
from opprof.units import counted


@dataclass
class ProfileOptions:
    """How much is run."""

    warm_up: int = 3
    traced: int = 5
    # Timed steps, and the seconds after which timing ends with fewer.
    timed: int = 50
    timed_seconds: float = 3.0
    eager: bool = True
    # "eager", "inductor", "cudagraphs", a backend of torch.compile, or the file of one.
    mode: str = INDUCTOR
    # How a TorchScript archive is read, where that is what is profiled.
    archive: TorchScriptOptions | None = None
    # Where model and inputs are moved before anything runs: "cpu" or "cuda"; None leaves them where the script puts them.
    device: str | None = None
    # Whether what the CPU can do is measured, where the model is there.
    ceilings: bool = True
    # Hardware counters of one step: one of capture.COUNTER_MODES, or None, which is "unique" where there is a GPU.
    counters: str | None = None
    metrics: str = "default"
    replay: str = "user"
    # Which of these kernels are counted; selection.Filter says how.
    kernels: str | None = None
    top: int | None = None
    launch_skip: int = 0
    launch_count: int | None = None
    # Called once the program is compiled: it returns when nothing else is at work on the machine. A function of a module.
    before_timing: Callable[[], None] | None = None

    @property
    def filter(self) -> Filter:
        """Which kernels are counted."""
        return Filter(self.kernels, self.top, self.launch_skip, self.launch_count)

    @property
    def asks_for_counters(self) -> bool:
        """Whether any option says how counters are to be taken."""
        how = (self.metrics, self.replay) != ("default", "user") or self.filter.narrows
        return self.counters not in (None, "none") or how


@dataclass
class Timing:
    """Wall times of a step without a profiler."""

    #: Of single steps, each from an idle device to an idle device.
    steps_ns: list[int] = field(default_factory=list)
    #: Of a step among others that follow one another without a wait, as those of the timeline do; one for each run of such steps.
    loops_ns: list[int] = field(default_factory=list)

    @property
    def median_ns(self) -> int:
        return int(statistics.median(self.steps_ns))

    def as_json(self) -> dict[str, Any]:
        times: dict[str, Any] = {"median_ns": self.median_ns, "steps_ns": self.steps_ns}
        if self.loops_ns:
            times["loop_ns"] = int(statistics.median(self.loops_ns))
        return times


def time_steps(step: Callable[[], Any], options: ProfileOptions) -> Timing:
    """Times single steps, at least three, and on a GPU, whose steps overlap, some that follow one another."""
    timing = Timing()
    for _ in range(options.warm_up):
        step()
    synchronize()
    end = time.monotonic() + options.timed_seconds
    while len(timing.steps_ns) < options.timed:
        start = time.perf_counter_ns()
        step()
        synchronize()
        timing.steps_ns.append(time.perf_counter_ns() - start)
        if time.monotonic() > end and len(timing.steps_ns) >= 3:
            break
    if torch.cuda.is_available():
        end = time.monotonic() + options.timed_seconds / 4
        while len(timing.loops_ns) < options.timed:
            start = time.perf_counter_ns()
            for _ in range(options.traced):
                step()
            synchronize()
            timing.loops_ns.append((time.perf_counter_ns() - start) // options.traced)
            if time.monotonic() > end and len(timing.loops_ns) >= 3:
                break
    return timing


def profile_script(
    path: str,
    output: Path,
    options: ProfileOptions,
    check: Callable[[ModelScript], None] | None = None,
    *,
    shows: bool = False,
) -> RunFolder:
    """Runs the script and leaves a run folder, also of what was recorded until the program failed or was interrupted.

    `check` may refuse the script before it is run; with `shows` the report is printed.
    """
    folder = RunFolder(output)
    with program_output_on_stderr():
        ended = record(path, folder, options, check)
    if ended is not None:
        progress(f"the program ended early; {folder.path} keeps what was recorded until then")
    # The tools that follow are given the memory that the models took.
    gc.collect()
    try:
        page = attribute(folder, mapped=_is_mapped(folder), shows=shows)
    except OpprofError as error:
        if ended is None:
            raise
        progress(f"no profile can be made of it: {error}")
    if ended is not None:
        raise ended
    if shows:
        print(page, end="")
    return folder


def _is_mapped(folder: RunFolder) -> bool:
    """Whether the launch maps were made for the capture, and nothing was compiled after that."""
    return folder.capture.is_file() and not folder.scratch.is_dir()


def why_no_capture(script: ModelScript) -> str | None:
    """Why the timeline cannot be opprof's own here, or None."""
    if isinstance(script, ArchiveScript):
        return "only torch.profiler asks TorchScript where an operator stands"
    if not torch.cuda.is_available():
        return "PyTorch sees no GPU"
    if script.device_type == "cpu":
        return "the model is on the CPU"
    try:
        Library.get()
    except OpprofError as error:
        return str(error)
    return None


def record(
    path: str,
    folder: RunFolder,
    options: ProfileOptions,
    check: Callable[[ModelScript], None] | None = None,
) -> BaseException | None:
    """The part that runs the user's program: graph, code, timeline, times and counters.

    Returns what ended the program while it was recorded, where something had been recorded until then.
    """
    find_backend(options.mode)
    if options.metrics != "default":
        resolve(options.metrics)
    if options.asks_for_counters and options.counters == "none":
        raise OpprofError(
            "--counters=none takes no counters, and another option says which or how",
            remedy="leave out --counters=none, or --metrics, --replay, --kernels, --top, --launch-skip and --launch-count",
        )
    folder.check()
    progress(f"loading {path}")
    if options.archive is not None:
        return _record_archive(path, folder, options, options.archive)
    script = load_model_script(path, device=options.device)
    if check is not None:
        check(script)
    no_capture = why_no_capture(script)
    if options.mode == CUDA_GRAPHS and no_capture is not None:
        raise OpprofError(f"--mode={CUDA_GRAPHS} needs a GPU: {no_capture}")
    facts = {**facts_of(script), "mode": options.mode}
    if options.eager:
        progress("timing the program as it is, uncompiled")
        eager_step = script.step_of(script.module)
        timing = run_user(script, "fails", lambda: time_steps(eager_step, options))
        facts["eager_step"] = timing.as_json()
    folder.clear()
    try:
        return _record(script, folder, options, facts, no_capture)
    except BaseException:
        folder.drop_scratch()
        raise


def _record_archive(
    path: str, folder: RunFolder, options: ProfileOptions, archive: TorchScriptOptions
) -> BaseException | None:
    """The same for an archive: TorchScript runs it, and its graph is the one that opprof-torchscript reads."""
    if options.mode != EAGER:
        raise OpprofError(
            f"{path}: --mode={options.mode} compiles a model, and an archive is run as TorchScript runs it",
            remedy="leave out --mode; `opprof optimize` makes a program for torch.compile of an archive without control flow",
        )
    with scratch_folder() as scratch:
        graph = scratch / folder.graph_json.name
        script = load_archive(Path(path), archive, graph, device=options.device)
        folder.clear()
        shutil.copyfile(graph, folder.graph_json)
    facts = {**facts_of(script), "mode": EAGER}
    program = Program(script.step_of(script.module))
    remedy = script.why_tied_to_another(options.device)
    first_step(script, program, "fails when TorchScript runs it", remedy)
    return _record_program(script, program, True, folder, options, facts)


def _record(
    script: ModelScript,
    folder: RunFolder,
    options: ProfileOptions,
    facts: dict[str, Any],
    no_capture: str | None,
) -> BaseException | None:
    """The same in a folder that is ready. The code stays in its scratch until the driver takes it from there."""
    # Graphs are named by their addresses: the exported program has to live as long as the names are used.
    exported = _export(script, folder)
    with contextlib.ExitStack() as stack:
        program, exported = _compile(script, exported, folder, options.mode, stack)
        return _record_program(script, program, exported is not None, folder, options, facts)


def _compile(
    script: ModelScript,
    exported: torch.export.ExportedProgram | None,
    folder: RunFolder,
    mode: str,
    stack: contextlib.ExitStack,
) -> tuple[Program, torch.export.ExportedProgram | None]:
    """The program of a mode; of the exported one unless the script's step calls the model in ways that this is not of."""
    try:
        return stack.enter_context(make_program(script, exported, folder, mode)), exported
    except ProgramError as error:
        # With the same input each time, what was exported is what is called.
        if exported is None or script.make_step is None:
            raise
        progress(f"the step calls the model otherwise than it was exported: {error}")
        progress("going on with the model as torch.compile sees it")
    return stack.enter_context(make_program(script, None, folder, mode)), None


def _record_program(
    script: ModelScript,
    program: Program,
    exported: bool,
    folder: RunFolder,
    options: ProfileOptions,
    facts: dict[str, Any],
) -> BaseException | None:
    """Times and records a program that has run; returns what ended it while it was recorded."""
    no_capture = why_no_capture(script)
    differs = difference(script.module, exported, options.mode, program.compiled)
    if differs is not None:
        progress(differs)
        facts["differs"] = differs
    facts["compile_ns"] = program.compile_ns
    if options.before_timing is not None:
        options.before_timing()
    progress(f"timing the program ({options.mode})")
    timing = _time(script, program, options)
    program.name_compiled()
    facts.update(
        {
            "graph": script.name,
            "stage": "export" if exported else "dynamo",
            "compiled_graphs": [],
            "warm_up": options.warm_up,
            "iterations": options.traced,
            "step": timing.as_json(),
        }
    )
    ended: BaseException | None = None
    try:
        if no_capture is None:
            try:
                _capture(script, program, folder, options, facts)
            except CaptureError as error:
                folder.capture.unlink(missing_ok=True)
                if options.mode == CUDA_GRAPHS:
                    raise
                no_capture = str(error)
        if no_capture is not None:
            _trace(script, program, folder, options, facts, no_capture)
    except (ProgramError, KeyboardInterrupt, SystemExit) as error:
        if not folder.capture.is_file() and not folder.trace.is_file():
            raise
        facts["ended"] = str(error) or type(error).__name__
        ended = error
    program.name_compiled()
    facts.update(program.facts())
    write_run(folder, facts)
    return ended


def _trace(
    script: ModelScript,
    program: Program,
    folder: RunFolder,
    options: ProfileOptions,
    facts: dict[str, Any],
    no_capture: str,
) -> None:
    """The timeline by torch.profiler."""
    progress(f"{no_capture}: tracing {counted(options.traced, 'step')} with torch.profiler")
    facts["timeline"] = {"by": "torch.profiler", "reason": no_capture}
    if options.asks_for_counters:
        facts["counters"] = {"mode": options.counters or "unique", "left_out": no_capture}
        progress(f"no counters: {no_capture}")
    of_archive = isinstance(script, ArchiveScript)
    with NodeRanges().round_nodes(program.graphs):
        run_user(
            script,
            "fails under the profiler",
            lambda: trace_steps(program.step, options.traced, folder.trace, with_stack=of_archive),
        )
    if options.ceilings and script.device_type == "cpu":
        _measure(folder, facts)
    if isinstance(script, ArchiveScript):
        _join_archive(script, folder, options, facts)


def _measure(folder: RunFolder, facts: dict[str, Any]) -> None:
    """What the CPU can do at most: there is no table of CPUs, and what one does depends on what it is built into."""
    progress("measuring what the CPU can do")
    try:
        ceilings_of_run(torch.device("cpu")).write(folder.ceilings)
    except Busy as error:
        progress(f"no ceilings: {error}")
        facts["ceilings"] = {"left_out": str(error)}


def _join_archive(
    script: ArchiveScript, folder: RunFolder, options: ProfileOptions, facts: dict[str, Any]
) -> None:
    """Gives the operators of the trace their nodes, and says how TorchScript ran them."""
    joined = join_operators(folder.trace, script.graph, options.traced)
    executor = executor_facts()
    facts["torchscript"] = {
        "method": script.method,
        **executor,
        "operators": {
            "ran": joined.ran,
            "joined": joined.joined,
            "left": dict(joined.left),
            "gave_up": joined.gave_up,
        },
    }
    # The report shows it: what ran is not what the graph alone says.
    facts["differs"] = executor_text(executor)
    progress(facts["differs"])
    progress(f"the node of {joined.joined} of {counted(joined.ran, 'operator')} is certain")
    if joined.gave_up:
        progress(
            "which node each of the others is would take too long to find out: the ways through the branches are many"
        )


def _time(script: ModelScript, program: Program, options: ProfileOptions) -> Timing:
    """Times the program with no profiler in the process's way."""
    step = program.step
    if options.mode == CUDA_GRAPHS:
        # A graph of its own: that of the timeline is captured before CUPTI's eyes, which costs each of its replays.
        step = run_user(
            script, "cannot be captured into a CUDA graph", lambda: into_cuda_graph(program.step)
        )
    return run_user(script, "fails when it is timed", lambda: time_steps(step, options))


def _capture(
    script: ModelScript,
    program: Program,
    folder: RunFolder,
    options: ProfileOptions,
    facts: dict[str, Any],
) -> None:
    """The timeline by opprof's own capture, and then the counters: what fails there takes nothing from the timeline."""
    progress("finding layers and launches")
    map_run(folder)
    progress(f"capturing {options.traced} steps")
    step = program.step
    with Capture(folder.path, graphs=program.graphs) as prof:
        if options.mode == CUDA_GRAPHS:
            with prof.identified():
                step = run_user(
                    script,
                    "cannot be captured into a CUDA graph",
                    lambda: into_cuda_graph(program.step),
                )
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        ended: BaseException | None = None
        try:
            run_user(
                script, "fails while it is captured", lambda: prof.timeline(step, options.traced)
            )
        except (ProgramError, KeyboardInterrupt, SystemExit) as error:
            # What was captured until then becomes a timeline too.
            ended = error
    if torch.cuda.is_available():
        facts["memory"] = {
            "peak_bytes": torch.cuda.max_memory_allocated(),
            "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
        }
    facts["timeline"] = {"by": "opprof capture", "records": prof.stats.records}
    if prof.stats.lost:
        progress(f"{prof.stats.lost} records of the timeline were lost")
        facts["timeline"]["lost"] = prof.stats.lost
    if ended is not None:
        raise ended
    mode = "unique" if options.counters is None else options.counters
    if mode == "none":
        return
    try:
        facts["counters"] = count(
            step,
            folder,
            mode,
            options.metrics,
            replay=options.replay,
            outside=program.step if options.mode == CUDA_GRAPHS else None,
            graphs=program.graphs,
            kernels=options.kernels,
            top=options.top,
            launch_skip=options.launch_skip,
            launch_count=options.launch_count,
        )
    except OpprofError:
        raise
    except Exception as error:
        text = str(user_error(script, "the model fails while counters are taken", error))
        progress(f"no counters: {text}")
        facts["counters"] = {"mode": mode, "left_out": text}


def _export(script: ModelScript, folder: RunFolder) -> torch.export.ExportedProgram | None:
    """The exported program, or nothing, with the reason said, where the model does not export."""
    progress("exporting with torch.export")
    try:
        program = export_program(script)
    except ExportFailure as failure:
        progress(f"{failure}")
        progress("going on with the model as torch.compile sees it")
        return None
    write_graph_json(folder.graph_json, source_of_exported_program(program, script.name))
    return program


def facts_of(script: ModelScript) -> dict[str, Any]:
    """What a reader has to know of the machine and the program to compare this run with another."""
    is_cuda = torch.cuda.is_available() and script.device_type == "cuda"
    return {
        "command": ["opprof", *sys.argv[1:]],
        "script": str(script.path),
        "directory": os.getcwd(),
        "versions": versions(),
        "device": describe_device("cuda" if is_cuda else "cpu"),
        "training": script.module.training,
    }
