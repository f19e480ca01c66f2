"""The main job: profile a model, try what the rules recommend, keep what is proven to be right and faster, and say what was gained.

Needs PyTorch. The model script is run. What is kept beats everything that anybody can write without opprof, in two measurements;
otherwise no backend is written, and the report says what to use.
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from opprof.backend.checks import (
    Program,
    Subject,
    check_backend,
    check_script,
    check_written,
    measure,
)
from opprof.backend.emit import BACKEND_TITLE, TEST_TITLE, emit, same_program, test_file
from opprof.backend.rewrites import Script
from opprof.backend.training import subject_of
from opprof.chain import attribute, import_graph
from opprof.choices import DEFAULT_ERROR_BUDGET
from opprof.commands.profile import ProfileOptions, profile_script
from opprof.commands.program import keep_operator_graphs
from opprof.commands.recommend import recommend, unseen_by_rules
from opprof.devices import raise_if_lost
from opprof.errors import OpprofError
from opprof.export.archive_model import own_usage, usage, write_archive_model
from opprof.export.graph_json import GraphSource, write_graph_json
from opprof.export.graph_store import GraphStore
from opprof.export.inductor import CompiledGraph, watching_inductor
from opprof.export.model_script import ModelScript, import_script, load_model_script
from opprof.export.stages import user_error
from opprof.files import check_mark, read_json, replacing, scratch_folder
from opprof.processes import Beginning, begin, beginning, start_server
from opprof.progress import progress
from opprof.recording.torch_profiler import trace_steps
from opprof.run_folder import POST_GRAD, RunFolder, write_run
from opprof.search.ahead import Ahead, worker_count
from opprof.search.baselines import (
    EAGER,
    INDUCTOR,
    TORCHSCRIPT,
    Baseline,
    Recipe,
    recipes,
    what_failed,
)
from opprof.search.candidates import Built
from opprof.search.clock import Clock
from opprof.search.explore import AS_COMPILED, Explored, Found, Search, SearchOptions, prepare_early
from opprof.search.measure import Timing, measure_all
from opprof.search.outcome import OPTIMIZED, VERSION, Entrant, Outcome, facts_of
from opprof.search.precision import EXACT, PRECISION_SCRIPT
from opprof.search.prediction import kernel_time
from opprof.search.trials import BOX_OVER, End, Trial
from opprof.tools import run_tool
from opprof.torchscript import TorchScriptOptions
from opprof.units import counted, microseconds, milliseconds

# A machine with so many has some that a profile leaves idle.
_IDLE_CORES = 8
# Of the time of the first profile: what a profile of the result takes that compiles, and one that finds everything compiled. The proof
# compiles nothing of what the search compiled.
_AGAIN, _FROM_CACHE = 0.6, 0.2
# What of that is kept until there is something to prove: a box that is late is of more use than one with nothing in it.
_BEFORE_ANY = 0.5
# Classes of nodes that the report names.
_MOST_CLASSES = 8


@dataclass
class OptimizeOptions:
    """How much is tried, and what may be lost."""

    error_budget: float = DEFAULT_ERROR_BUDGET
    # A folder of scripts that are tried like those of the rules.
    rules: Path | None = None
    # Seconds that a comparison is timed where it is not clear before, and all programs in the end.
    seconds: float = 3.0
    # For the whole command; None for as long as it takes.
    budget_seconds: float | None = None
    # Processes that compile ahead; None for as many as the machine has room for.
    workers: int | None = None
    # Where model and inputs are moved; None leaves them where the script puts them.
    device: str | None = None
    # How a TorchScript archive is read, where that is what is optimized.
    archive: TorchScriptOptions | None = None
    profile: ProfileOptions = field(
        # What compiles ahead runs meanwhile, and a busy CPU has no ceilings.
        default_factory=lambda: ProfileOptions(counters="none", timed_seconds=1.0, ceilings=False)
    )


def optimize(path: str, output: Path, options: OptimizeOptions) -> Outcome:
    """Profiles, recommends, tries, keeps, and reports; leaves everything below `output`."""
    try:
        return _optimize(path, output, options)
    except torch.AcceleratorError as error:
        raise OpprofError(
            f"{path}: the device failed, and does nothing more for this process: {str(error).splitlines()[0]}",
            remedy="the last line above says what ran; CUDA_LAUNCH_BLOCKING=1 makes the kernel that failed raise it. If the model runs alone, tell us",
        ) from error


def _optimize(path: str, output: Path, options: OptimizeOptions) -> Outcome:
    clock = Clock(options.budget_seconds)
    first_lines: tuple[str, ...] = ()
    own_lines: tuple[str, ...] = ()
    if options.archive is not None:
        progress("making a program of the archive")
        archive = Path(path)
        with clock.phase("archive"):
            program = write_archive_model(archive, options.archive, output)
        first_lines, path = usage(program, archive, options.device), str(program)
        own_lines = own_usage(archive, options.archive.method, options.device)
    _check_output(output, Path(path).stem)
    options.profile.device = options.device
    progress("1/4 profile")
    with contextlib.ExitStack() as stack:
        with clock.phase("profile"):
            before, loaded = _profile(path, output / "profile", options, clock, stack)
        progress("2/4 recommend")
        rewrites = recommend(
            before.path, output / "rewrites", error_budget=options.error_budget, rules=options.rules
        )
        script = loaded.script or load_model_script(
            path, device=options.device, script=loaded.module
        )
        for stale in [output / PRECISION_SCRIPT, *output.glob(AS_COMPILED.format("*"))]:
            stale.unlink(missing_ok=True)
        if _is_over(clock, script, before):
            _drop_backend(_backend_file(output, script.name))
            # That of an earlier run is of a backend that is gone.
            stack.enter_context(_Result(RunFolder(output / "after"), None))
            outcome = _outcome_of_profile(script, before, rewrites.scripts, max(0.0, clock.left))
        else:
            outcome = _search(
                script, loaded, before, rewrites.scripts, output, options, clock, stack
            )
        outcome.declined, outcome.unseen = rewrites.declined, unseen_by_rules(before.path)
    outcome.seconds = clock.phases
    for entrant in outcome.entrants:
        is_own = entrant.name == TORCHSCRIPT
        entrant.lines = own_lines if is_own else (*first_lines, *entrant.lines)
    _write_report(outcome, before, output, options)
    return outcome


def _search(
    script: ModelScript,
    loaded: "_Loaded",
    before: RunFolder,
    scripts: Sequence[Script],
    output: Path,
    options: OptimizeOptions,
    clock: Clock,
    stack: contextlib.ExitStack,
) -> Outcome:
    """Tries, keeps, proves and profiles; what it begins ends with `stack`."""
    subject = loaded.subject or subject_of(script)
    if subject.why_unprovable is not None:
        raise OpprofError(
            f"{script.path}: {subject.why_unprovable}, so that no program can be proven to compute the same",
            remedy=subject.unprovable_remedy,
        )
    widen_budget(subject, options)
    ahead = loaded.ahead or _start_ahead(script, options, stack)
    # The optimized program is proven, and profiled like this one: where its graph is known, without compiling it again.
    share = _AGAIN if ahead.store is None else _FROM_CACHE
    proof = share * (clock.phases["profile"] - loaded.waited)
    clock.reserve(_BEFORE_ANY * proof + options.seconds, once_kept=proof + options.seconds)
    progress(f"3/4 try {len(scripts)} recommendations")
    candidates = stack.enter_context(scratch_folder())
    kernel_ns = None
    if subject.script.device_type == "cuda":
        kernel_ns = kernel_time(read_json(before.profile, within=before.path))
    how = SearchOptions(options.error_budget, options.seconds, kernel_ns)
    search = Search(
        subject,
        scripts,
        candidates,
        output,
        how,
        clock,
        ahead,
        loaded.explored,
        lambda: _recommend_as_compiled(script, before, candidates, options),
    )
    found = search.run()
    progress("4/4 prove and report")
    result = stack.enter_context(_Result(RunFolder(output / "after"), ahead.store))
    outcome = _finish(subject, found, output, result, options, clock)
    if outcome.backend is not None:
        with clock.phase("profile of the result"):
            _try_to_profile_after(subject, outcome, before, result, options)
    return outcome


def _is_over(clock: Clock, script: ModelScript, before: RunFolder) -> bool:
    """Whether the box ends before Inductor has compiled the model once more, which is what all is held against. Where a GPU is, it
    is compiled during the profile. The profile has times of the same programs only where a step is a call, of what torch.compile compiles.
    """
    if clock.budget_seconds is None or script.device_type != "cpu" or script.make_step is not None:
        return False
    facts = before.read_run()
    return "differs" not in facts and clock.left < facts["compile_ns"] / 1e9


def _outcome_of_profile(
    script: ModelScript, before: RunFolder, scripts: Sequence[Script], left: float
) -> Outcome:
    """What is known where the box was over with the profile, or had too few seconds left: what that timed."""
    facts = before.read_run()
    known = {EAGER: facts["eager_step"], INDUCTOR: facts["step"]}
    entrants = []
    subject = Subject(script)
    for way in recipes(subject):
        step = known.get(way.name)
        entrant = Entrant(way.name, way.lines, allowed=step is not None)
        if way.name == TORCHSCRIPT:
            _time_archive(entrant, way, subject)
        elif step is None:
            entrant.reason = f"left out: {BOX_OVER}"
        else:
            entrant.latency_ns = step["median_ns"]
        entrants.append(entrant)
    trials = [Trial(one, End.LEFT_OUT, BOX_OVER) for one in scripts]
    outcome = Outcome(script.name, entrants, trials, [], [])
    later = (
        "" if script.archive_method is None else " (but TorchScript's, which was taken after it)"
    )
    outcome.be_beaten(
        f"the time box ended with the profile, whose times these are{later}, and nothing was compared with float64: {left:.0f} s were left, "
        f"and Inductor took {facts['compile_ns'] / 1e9:.0f} s to compile what rewrites are held against"
    )
    return outcome


def _time_archive(entrant: Entrant, way: Recipe, subject: Subject) -> None:
    """What the user has is not part of the profile, and takes no longer than a few of its steps."""
    try:
        program = way.make(subject)
        entrant.latency_ns = measure(subject, {way.name: program}, seconds=0.5).median(way.name)
        entrant.allowed = True
    except Exception as error:
        raise_if_lost(error)
        entrant.reason = what_failed(error)


def _recommend_as_compiled(
    script: ModelScript, before: RunFolder, scratch: Path, options: OptimizeOptions
) -> list[Script]:
    """What the rules have for the model as torch.compile traces it: that is what a backend is handed, and not what was exported."""
    progress("  asking the rules of the program as torch.compile traces it")
    found: list[Script] = []
    for number, source in enumerate(_trace_as_compiled(script)):
        folder = RunFolder(scratch / f"as-compiled-{number}")
        folder.path.mkdir()
        # What it says of the device holds for this program too.
        shutil.copyfile(before.run, folder.run)
        _import(source, folder.graph)
        rewrites = folder.path / "rewrites"
        found += recommend(folder.path, rewrites, error_budget=options.error_budget).scripts
    return found


def _trace_as_compiled(script: ModelScript) -> list[GraphSource]:
    """The graphs that torch.compile hands to a backend, in the operators that rules look for."""
    sources: list[GraphSource] = []
    keep = keep_operator_graphs(script.name, sources)
    try:
        # Dynamo is not reset: what is compiled already is measured on.
        script.step_of(torch.compile(script.module, backend=keep))()
    except Exception as error:
        raise user_error(script, "the model does not run compiled", error) from error
    return sources


# What a program may err by where the model itself is over the budget: rounding in another order is not the same error.
_AS_WELL = 2.0
# From here on errors say nothing: gradients of a deep network that is not trained may change wholly with the last bits.
_MOST_OF_ITS_OWN = 0.05


def widen_budget(subject: Subject, options: OptimizeOptions) -> None:
    """Nothing is asked of programs that the model does not do as it is: convolutions of a GPU round to TF32 unless told otherwise."""
    own = subject.error_of(subject.eager)
    if not 0 < options.error_budget < own:
        return
    what = f"the uncompiled model itself errs by {own:.1e} against {subject.reference}"
    if own > _MOST_OF_ITS_OWN:
        raise OpprofError(
            f"{subject.script.path}: {what}, so that no program can be proven to compute the same",
            remedy="switch off what rounds (torch.backends.cudnn.allow_tf32 = False), or give weights that were trained for a while: "
            "gradients of a deep network at its beginning follow every rounding",
        )
    options.error_budget = _AS_WELL * own
    progress(f"  {what}, more than the budget: {options.error_budget:.1e} is allowed")


@dataclass
class _Loaded:
    """What was made ready here while the model was profiled in another process."""

    module: ModuleType | None = None
    script: ModelScript | None = None
    ahead: Ahead | None = None
    subject: Subject | None = None
    explored: Explored | None = None
    # Seconds of the profile in which it waited for what was begun here.
    waited: float = 0.0


# What the process that profiles and the command tell each other, in memory that neither locks: any of the two may be killed. Whether
# quiet is asked for, whether it is there, and for how many seconds was waited for it.
_ASKED, _QUIET, _WAITED = 0, 1, 2
_shared: Any = None
# Seconds for which a profile that is timed is left alone at most.
_LONGEST_QUIET = 60.0


def _begin_profile(start: Beginning, shared: Any) -> None:
    global _shared
    begin(start)
    _shared = shared


def _wait_until_quiet() -> None:
    start = time.monotonic()
    _shared[_ASKED] = 1
    while not _shared[_QUIET]:
        time.sleep(0.002)
    _shared[_WAITED] = time.monotonic() - start


@dataclass
class _Profiling:
    """A profile that another process makes."""

    result: "Future[RunFolder]"
    shared: Any

    def let_time(self, ahead: Ahead | None) -> None:
        """Where it asks for quiet, waits until it has been timed, and the processes of `ahead` stand still."""
        if not self.shared[_ASKED] or self.shared[_QUIET]:
            return
        with contextlib.nullcontext() if ahead is None else ahead.quiet():
            self.shared[_QUIET] = 1
            wait([self.result], timeout=_LONGEST_QUIET)

    def finish(self, ahead: Ahead | None) -> None:
        """Waits until it is done, one way or the other."""
        while not self.result.done():
            self.let_time(ahead)
            wait([self.result], timeout=0.01)


def _profile(
    path: str, folder: Path, options: OptimizeOptions, clock: Clock, stack: contextlib.ExitStack
) -> tuple[RunFolder, _Loaded]:
    """Profiles in a process of its own: one in which CUPTI has recorded launches more slowly to its end, and what is compared
    here would be compared unfairly. Meanwhile the script's libraries are loaded here, and the search begins.
    """
    context = start_server()
    shared = context.RawArray("d", 3)
    how = replace(options.profile, before_timing=_wait_until_quiet)
    with ProcessPoolExecutor(1, context, _begin_profile, (beginning(), shared)) as process:
        try:
            begun = time.time()
            profiled = process.submit(profile_script, path, folder, how, check_script)
            profiling = _Profiling(profiled, shared)
            loaded = _Loaded()
            try:
                # What fails here fails in the other process or later too, which says so.
                with contextlib.suppress(Exception):
                    loaded.module = import_script(Path(path))
                    if _has_idle_cores():
                        _wait_for_graph(RunFolder(folder), begun, profiling)
                        _load_early(path, options, loaded, clock, profiling, stack)
                profiling.finish(loaded.ahead)
            finally:
                # It is not left waiting where this process is interrupted.
                shared[_QUIET] = 1
            loaded.waited = shared[_WAITED]
            return profiled.result(), loaded
        except BrokenProcessPool:
            raise OpprofError(
                f"{path}: the process that profiled it was ended from outside",
                remedy="the kernel's log says whether memory ran out; `opprof profile` alone shows how far it gets",
            ) from None


def _has_idle_cores() -> bool:
    return torch.cuda.is_available() and len(os.sched_getaffinity(0)) >= _IDLE_CORES


def _wait_for_graph(folder: RunFolder, begun: float, profiling: _Profiling) -> None:
    """Until the profile has a graph: the program has been timed as it is then, and Inductor is next."""
    while not (profiling.result.done() or profiling.shared[_ASKED]):
        with contextlib.suppress(OSError):
            if folder.graph_json.stat().st_mtime >= begun:
                return
        time.sleep(0.05)


def _load_early(
    path: str,
    options: OptimizeOptions,
    loaded: _Loaded,
    clock: Clock,
    profiling: _Profiling,
    stack: contextlib.ExitStack,
) -> None:
    """Where the profile is of a GPU, also loads the model, and begins the search in this process and those that compile ahead, while
    Inductor compiles what is profiled. While that is timed, all of it stands still.
    """
    script = load_model_script(path, device=options.device, script=loaded.module)
    if script.device_type != "cuda":
        return
    loaded.script = script
    loaded.ahead = _start_ahead(script, options, stack)
    # A model that leaves no room for others is profiled alone.
    if script.make_step is not None or not loaded.ahead.works or not clock.allows(options.seconds):
        return
    subject = Subject(script)
    # Others hold memory now: where it is not enough, the references are made once more when they have ended.
    subject.gives_way = True
    if subject.why_unprovable is None:
        widen_budget(subject, options)
        early = stack.enter_context(scratch_folder())
        ahead = loaded.ahead
        try:
            loaded.explored = prepare_early(
                subject, options.error_budget, ahead, early, lambda: profiling.let_time(ahead)
            )
            loaded.subject = subject
        finally:
            subject.gives_way = False
            subject.restore()


def _start_ahead(
    script: ModelScript, options: OptimizeOptions, stack: contextlib.ExitStack
) -> Ahead:
    workers = worker_count(script) if options.workers is None else options.workers
    if script.make_step is not None:
        # What is compiled there are forward passes without gradients.
        workers = 0
    store = None
    if _can_keep_graphs(script):
        store = GraphStore(stack.enter_context(scratch_folder()))
    return stack.enter_context(Ahead(script, workers, store))


def _can_keep_graphs(script: ModelScript) -> bool:
    """Whether the profile of a program is as good that was compiled without events round its kernels."""
    return script.device_type == "cuda"


# ---------------------------------------------------------------------------------------------------------------------
# What is left behind
# ---------------------------------------------------------------------------------------------------------------------


class _Result:
    """The run folder of the optimized program, and what is compiled for it, until the block ends."""

    def __init__(self, folder: RunFolder, store: GraphStore | None) -> None:
        self.folder = folder
        self.store = store
        # The names of what was compiled for it.
        self.compiled: list[str] = []
        # What ran while Inductor was watched.
        self.program: Program | None = None

    def __enter__(self) -> "_Result":
        if self.folder.graph.is_file():
            # Of an earlier run; a folder without a graph is none of these.
            shutil.rmtree(self.folder.path)
        # One that was killed before there was a graph has left this.
        self.folder.drop_scratch()
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.drop_scratch()
        # Where nothing was kept, nothing is in it.
        with contextlib.suppress(OSError):
            self.folder.path.rmdir()

    def take(self, graphs: Sequence[Path]) -> None:
        """Takes folders of graphs that were compiled before, with their code."""
        for graph in graphs:
            shutil.copytree(graph, self.folder.scratch / graph.name)
            self.compiled.append(graph.name)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """The block, with the graphs and the code of what is compiled in it kept in the folder's scratch."""

        def keep(graph: CompiledGraph) -> None:
            self.compiled.append(graph.name)
            write_graph_json(
                graph.folder / POST_GRAD, GraphSource(graph.module, graph.name, "post_grad")
            )

        self.folder.path.mkdir(parents=True, exist_ok=True)
        scratch = self.folder.scratch
        with (
            watching_inductor(scratch, keep)
            if self.store is None
            else self.store.watching(scratch, lambda name, _: self.compiled.append(name))
        ):
            yield


def _check_output(output: Path, name: str) -> None:
    """Refuses a folder where something of somebody else's would be lost."""
    backend = _backend_file(output, name)
    check_mark(backend, BACKEND_TITLE, at_beginning=True)
    check_mark(test_file(backend), TEST_TITLE, at_beginning=True)
    for file in [output / PRECISION_SCRIPT, *output.glob(AS_COMPILED.format("*"))]:
        check_mark(file, "fx.rewrite")
    check_mark(output / "optimize.json", '"error_budget"')
    check_mark(output / "report.txt", "opprof optimize: ")


def _backend_file(output: Path, name: str) -> Path:
    return output / f"{name}_optimized.py"


def _drop_backend(target: Path) -> None:
    for file in (target, test_file(target)):
        file.unlink(missing_ok=True)


def _finish(
    subject: Subject,
    found: Found,
    output: Path,
    result: _Result,
    options: OptimizeOptions,
    clock: Clock,
) -> Outcome:
    """Writes the backend, proves it once more as it lies there, and measures it beside all recipes."""
    target = _backend_file(output, subject.script.name)
    _drop_backend(target)
    entrants = [_entrant(baseline) for baseline in found.baselines]
    outcome = Outcome(subject.script.name, entrants, found.trials, found.ablations, found.kept)
    outcome.reference = subject.reference
    if found.assignment is not None:
        outcome.precision = found.assignment.facts()
    programs = {
        baseline.recipe.name: baseline.program
        for baseline in found.baselines
        if baseline.program is not None
    }
    if found.kept:
        with clock.phase("proof"):
            program = _prove(subject, outcome, found.built, target, result, options)
        if program is not None:
            programs[OPTIMIZED] = program
    with clock.phase("last measurement"):
        timing = measure_all(subject, programs, seconds=options.seconds)
    for name in programs:
        entrant = outcome.entrant(name)
        assert entrant is not None
        entrant.latency_ns = timing.latency.median(name)
        entrant.loop_ns = timing.loop.get(name)
    _decide(outcome, timing, target)
    if outcome.backend is None:
        _drop_backend(target)
    return outcome


def _entrant(baseline: Baseline) -> Entrant:
    recipe = baseline.recipe
    return Entrant(
        recipe.name, recipe.lines, baseline.error, baseline.allowed, reason=baseline.reason
    )


def _prove(
    subject: Subject,
    outcome: Outcome,
    built: Built | None,
    target: Path,
    result: _Result,
    options: OptimizeOptions,
) -> Program | None:
    """The program of the backend as it was written, where it passes every check. What the search compiled and checked of the same text is
    not compiled again.
    """
    model = os.path.relpath(subject.script.path.resolve(), target.parent.resolve())
    emit(outcome.kept, target, model=model, device=options.device)
    progress("  proving the backend as it was written")
    program = None if built is None else built.program
    if built is not None and program is not None and same_program(target, built.file):
        verdict = check_written(
            target, built.verdict, program, subject, error_budget=options.error_budget
        )
        if built.graphs is not None:
            result.take(built.graphs)
            result.program = program
    else:
        with contextlib.ExitStack() as stack:
            # Then it need not be compiled again for its profile.
            if result.store is not None:
                stack.enter_context(result.watched())
            verdict, program = check_backend(target, subject, error_budget=options.error_budget)
            result.program = program if result.store is not None else None
    outcome.checks = verdict.lines()
    lines = (f"import {target.stem}", f"model = {target.stem}.optimize(model)")
    entrant = Entrant(OPTIMIZED, lines, verdict.error, verdict.passed)
    outcome.entrants.append(entrant)
    if verdict.passed:
        return program
    entrant.reason = "does not pass its checks as it was written"
    return None


def _decide(outcome: Outcome, timing: Timing, target: Path) -> None:
    """What to use: the backend where it beats the best recipe in both halves of the measurement, or that recipe."""
    recipe = outcome.best_recipe
    own = outcome.entrant(OPTIMIZED)
    if recipe is None:
        raise OpprofError(
            "no program gives results within the error budget",
            remedy="report.txt of a run with a larger --error-budget shows what each brings",
        )

    if own is None or own.latency_ns is None:
        outcome.be_beaten("" if own is None else own.reason)
        return
    won, times, gain = timing.latency.wins(OPTIMIZED, recipe.name)
    if not won:
        outcome.be_beaten(f"against {recipe.name}: {times}, {gain}")
        return
    outcome.use, outcome.backend = OPTIMIZED, target
    loops = {
        one.name: one.loop_ns for one in outcome.entrants if one.allowed and one.loop_ns is not None
    }
    fastest = min(loops, key=lambda name: loops[name] or 0, default=OPTIMIZED)
    if fastest != OPTIMIZED:
        outcome.remark = (
            f"where steps follow one another without a wait, {fastest} is faster: use that there"
        )


def _try_to_profile_after(
    subject: Subject,
    outcome: Outcome,
    before: RunFolder,
    result: _Result,
    options: OptimizeOptions,
) -> None:
    try:
        _profile_after(subject, outcome, before, result, options)
    except Exception as error:
        # The proof stands without it, and is not to be lost for it.
        progress(f"  no profile of the optimized program: {type(error).__name__}: {error}")


def _profile_after(
    subject: Subject,
    outcome: Outcome,
    before: RunFolder,
    result: _Result,
    options: OptimizeOptions,
) -> None:
    """A run folder of the optimized program: the rewritten graph (that of torch.compile where a rewrite has no place in the exported one), what Inductor made of it, and a trace."""
    assert outcome.backend is not None
    progress("  profiling the optimized program")
    after, program = result.folder, result.program
    as_compiled: list[GraphSource] = []
    if any(script.path.match(AS_COMPILED.format("*")) for script in outcome.kept):
        as_compiled = _trace_as_compiled(subject.script)
        subject.restore()
        if len(as_compiled) != 1:
            raise OpprofError(
                f"a rewrite was kept that has no place in the exported graph, and torch.compile makes {len(as_compiled)} graphs, "
                "where a profile is of one"
            )
    after.path.mkdir(parents=True, exist_ok=True)
    if as_compiled:
        _import(as_compiled[0], after.graph)
    else:
        shutil.copyfile(before.graph, after.graph)
    for script in outcome.kept:
        _apply(script, after)
    args, kwargs = subject.script.args, subject.script.kwargs
    if program is None:
        with result.watched():
            torch._dynamo.reset()
            program = subject.compiled(outcome.backend.stem)
            program(*args, **kwargs)
    trace_steps(lambda: program(*args, **kwargs), options.profile.traced, after.trace)
    own = outcome.entrant(OPTIMIZED)
    write_run(
        after,
        {
            **{k: v for k, v in before.read_run().items() if k in ("device", "versions")},
            "script": str(subject.script.path),
            "backend": outcome.backend.name,
            "compiled_graphs": list(result.compiled),
            "iterations": options.profile.traced,
            "step": {"median_ns": own.latency_ns if own is not None else None},
        },
    )
    attribute(after)


def _import(source: GraphSource, target: Path) -> None:
    with scratch_folder() as scratch:
        exchanged = RunFolder(scratch).graph_json
        write_graph_json(exchanged, source)
        import_graph(exchanged, target)


def _apply(script: Script, folder: RunFolder) -> None:
    arguments: list[str | Path] = [
        folder.graph,
        f"--apply-rewrites={script.path}",
        "--emit-bytecode",
    ]
    run_tool("opprof-opt", arguments, output=folder.graph, quiet=True)


def report(outcome: Outcome, options: OptimizeOptions, *, device: str) -> str:
    """What was gained, kept and left, on one page."""
    lines = [f"opprof optimize: {outcome.name} on {device}, torch {torch.__version__}", ""]
    lines += _table(outcome)
    lines.append("")
    if options.error_budget == 0:
        lines.append("Budget: the bits of plain Inductor")
    else:
        lines.append(
            f"Relative error against {outcome.reference}, of which {options.error_budget:.0e} is allowed."
        )
    if outcome.backend is None:
        reason = f" ({outcome.remark})" if outcome.remark else ""
        was_tried = any(
            trial.end not in (End.LEFT_OUT, End.NOISE) or trial.seconds is not None
            for trial in outcome.trials
        )
        nothing = "Nothing that was tried is kept" if was_tried else "Nothing was tried"
        lines.append(f"{nothing}{reason}: use {outcome.use}.")
    else:
        lines.append(f"Use {outcome.backend.name}.")
        if outcome.remark:
            lines.append(f"But {outcome.remark}.")
    lines += _lacked_time(outcome, options)
    used = outcome.entrant(outcome.use)
    assert used is not None
    lines += ["", *(f"    {line}" for line in used.lines), ""]
    if not outcome.trials:
        lines.append("No rule had a rewrite to offer.")
    for trial in outcome.trials:
        lines.append(f"  {trial.end.value:20} {trial.script.title}")
        lines.append(f"                       {trial.reason}")
    left_alone = [*map(str, outcome.declined), *outcome.unseen]
    if outcome.trials and left_alone:
        lines += ["", "What the rules left alone:"]
    lines += [f"  {one}" for one in left_alone]
    if outcome.ablations:
        lines += ["", "Without each of those that were kept:"]
        for one in outcome.ablations:
            lines.append(f"  {one.without.title}: {one.reason}")
    if outcome.precision is not None:
        lines += ["", *_precision_lines(outcome.precision)]
    if outcome.checks:
        lines += ["", "The backend as it was written:", *outcome.checks]
    times = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in outcome.seconds.items())
    return "\n".join([*lines, "", f"Time: {times}"]) + "\n"


def _lacked_time(outcome: Outcome, options: OptimizeOptions) -> list[str]:
    """What a longer box would bring, at most as it is predicted."""
    lacking = outcome.lacked_time
    if not lacking or options.budget_seconds is None:
        return []
    saves = max((trial.script.saves_ns or 0 for trial in lacking), default=0)
    predicted = ""
    if saves:
        predicted = (
            f", of which the best alone is predicted to save {microseconds(saves)} µs of a step"
        )
    profile = outcome.seconds.get("profile", 0.0)
    return [
        f"The time box of {options.budget_seconds:.0f} s ended before {counted(len(lacking), 'rewrite')} "
        f"could be tried (the profile took {profile:.0f} s of it){predicted}: a longer --budget-seconds tries them."
    ]


def _precision_lines(precision: dict[str, Any]) -> list[str]:
    """Where the error of narrower floats comes from: the classes that bring most of it, and those that stay float32."""
    known = precision["classes"]
    narrow = [one for one in known if one["level"] != EXACT]
    exact = [one for one in known if one["level"] == EXACT]
    lines = [
        f"Precision by region: {precision['error']:.1e} together, measured; where it comes from, each class alone:"
    ]
    for one in narrow[:_MOST_CLASSES]:
        lines.append(
            f"  {one['error']:.1e} {one['share']:4.0%}  {one['level']:15} {one['class']}, {counted(one['nodes'], 'node')}"
        )
    if len(narrow) > _MOST_CLASSES:
        rest = sum(one["share"] for one in narrow[_MOST_CLASSES:])
        lines.append(f"          {rest:4.0%}  {len(narrow) - _MOST_CLASSES} more")
    if exact:
        shown = ", ".join(one["class"] for one in exact[:_MOST_CLASSES])
        more = f" and {len(exact) - _MOST_CLASSES} more" if len(exact) > _MOST_CLASSES else ""
        lines.append(f"  float32: {shown}{more}")
    return lines


def _table(outcome: Outcome) -> list[str]:
    """The programs of the last measurement, the fastest first, and then those that have no time."""
    base = outcome.entrant("Inductor")
    ranked = sorted(outcome.entrants, key=lambda one: (one.latency_ns is None, one.latency_ns or 0))
    loops = any(one.loop_ns is not None for one in ranked)
    width = max(len(one.name) for one in ranked)
    lines = [f"  {'':{width}}    ms a step{'   in a loop' if loops else ''}        error"]
    for one in ranked:
        if one.latency_ns is None:
            lines.append(f"  {one.name:{width}}  {one.reason}")
            continue
        loop = f" {milliseconds(one.loop_ns):>11}" if one.loop_ns is not None else ""
        error = "–" if one.error is None else f"{one.error:.1e}"
        ratio = ""
        if base is not None and base.latency_ns is not None and one is not base:
            ratio = f"   {base.latency_ns / one.latency_ns:5.2f}× Inductor"
        over = "" if one.allowed else "   over the budget"
        lines.append(
            f"  {one.name:{width}} {milliseconds(one.latency_ns):>12}{loop} {error:>12}{ratio}{over}"
        )
    return lines


def _write_report(
    outcome: Outcome, before: RunFolder, output: Path, options: OptimizeOptions
) -> None:
    device = before.read_run().get("device", {}).get("name", "this machine")
    text = report(outcome, options, device=device)
    with replacing(output / "report.txt") as file:
        file.write(text)
    facts = {
        "version": VERSION,
        "model": outcome.name,
        "device": device,
        "torch": str(torch.__version__),
        "error_budget": options.error_budget,
        "budget_seconds": options.budget_seconds,
        **facts_of(outcome),
    }
    with replacing(output / "optimize.json") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")
    note_results(before, outcome.trials)


def note_results(before: RunFolder, trials: Sequence[Trial]) -> None:
    """Adds to what was recommended for the run what became of it, for its reports."""
    if not before.rewrites.is_file():
        return
    index = read_json(before.rewrites, within=before.path)
    ended = {trial.script.path.name: trial for trial in trials}
    known = {entry["file"] for entry in index["rewrites"]}
    # What the search made itself was tried like a recommendation.
    for place, trial in ended.items():
        if place not in known:
            script = trial.script
            entry = {
                "file": place,
                "name": script.name,
                "rank": len(index["rewrites"]) + 1,
                "finding": script.finding,
                "title": script.title,
                "explanation": script.explanation,
                "nodes": [],
                "saves_ns": script.saves_ns or 0,
            }
            index["rewrites"].append(entry)
    for entry in index["rewrites"]:
        if (tried := ended.get(entry["file"])) is not None:
            entry["end"] = tried.end.value
            # What several saved together is what none of them was predicted to.
            if tried.saved_ns is not None and not tried.together:
                entry["measured_ns"] = tried.saved_ns
    with replacing(before.rewrites) as file:
        json.dump(index, file, indent=1)
        file.write("\n")
