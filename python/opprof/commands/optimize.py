"""The main job: profile a model, try what the rules recommend, keep what is proven to be right and faster, and say what was gained.

Needs PyTorch. The model script is run. Nothing is kept that does not win in two measurements, and where nothing wins, no backend
is written.
"""

import json
import math
import multiprocessing
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from opprof.backend.checks import (
    Measurement,
    Subject,
    Verdict,
    check_backend,
    check_inference,
    measure,
)
from opprof.backend.emit import emit, test_file
from opprof.backend.rewrites import Script
from opprof.chain import attribute
from opprof.choices import DEFAULT_ERROR_BUDGET
from opprof.commands.profile import ProfileOptions, profile_script
from opprof.commands.recommend import recommend
from opprof.commands.validate import validate
from opprof.errors import OpprofError
from opprof.export.graph_json import GraphSource, write_graph_json
from opprof.export.inductor import CompiledGraph, watching_inductor
from opprof.export.model_script import load_model_script
from opprof.files import replacing, scratch_folder
from opprof.progress import began, began_at, progress
from opprof.recording.torch_profiler import trace_steps
from opprof.run_folder import POST_GRAD, RunFolder, write_run
from opprof.tools import run_tool
from opprof.units import milliseconds


@dataclass
class OptimizeOptions:
    """How much is tried, and what may be lost."""

    error_budget: float = DEFAULT_ERROR_BUDGET
    # Seconds that the programs of one comparison are timed.
    seconds: float = 6.0
    profile: ProfileOptions = field(default_factory=lambda: ProfileOptions(counters="none"))


@dataclass
class Trial:
    """One recommendation that was tried, on top of those kept before it."""

    script: Script
    kept: bool
    reason: str
    error: float | None = None
    measurement: Measurement | None = None


@dataclass
class Outcome:
    """What `opprof optimize` found."""

    name: str
    trials: list[Trial]
    kept: list[Script]
    verdict: Verdict | None
    # Medians in nanoseconds of eager, Inductor and, where something won, optimized.
    times: dict[str, int]
    backend: Path | None = None


def optimize(path: str, output: Path, options: OptimizeOptions) -> Outcome:
    """Profiles, recommends, tries, keeps, and reports; leaves everything below `output`."""
    progress("1/4 profile")
    before = _profile(path, output / "profile", options.profile)
    progress("2/4 recommend")
    scripts = recommend(before.path, output / "rewrites", error_budget=options.error_budget)
    subject = Subject(load_model_script(path))
    progress(f"3/4 try {len(scripts)} recommendations")
    with scratch_folder() as candidates:
        outcome = _search(subject, scripts, candidates, options)
    progress("4/4 report")
    target = output / f"{subject.script.name}_optimized.py"
    for stale in (target, test_file(target)):
        stale.unlink(missing_ok=True)
    after = RunFolder(output / "after")
    if after.graph.is_file():
        # Of an earlier run; a folder without a graph is none of these.
        shutil.rmtree(after.path)
    if outcome.kept:
        _finish(subject, outcome, target, before, output, options)
    _write_report(outcome, before, output, options)
    return outcome


def _profile(path: str, folder: Path, options: ProfileOptions) -> RunFolder:
    """Profiles in a process of its own: one in which CUPTI has recorded launches more slowly to its end, and what is compared
    here would be compared unfairly.
    """
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), began_at, (began(),)
    ) as process:
        try:
            return process.submit(profile_script, path, folder, options, check_inference).result()
        except BrokenProcessPool:
            raise OpprofError(
                f"{path}: the process that profiled it was ended from outside",
                remedy="the kernel's log says whether memory ran out; `opprof profile` alone shows how far it gets",
            ) from None


# ---------------------------------------------------------------------------------------------------------------------
# Search
# ---------------------------------------------------------------------------------------------------------------------


def _search(
    subject: Subject, scripts: list[Script], candidates: Path, options: OptimizeOptions
) -> Outcome:
    """Takes recommendations one by one, the best first, each on top of what won before it."""
    kept: list[Script] = []
    trials: list[Trial] = []
    best: Callable[..., Any] = subject.inductor
    queue = list(scripts)
    # A rewrite may win only after another one: launches that cost nothing change what pays.
    retried: set[Path] = set()
    count = 0
    while queue:
        script = queue.pop(0)
        count += 1
        progress(f"  {count}. {script.title} ({len(queue)} after this one)")
        file = candidates / f"candidate_{count:02}_{script.name.replace('-', '_')}.py"
        trial, program = _try(subject, [*kept, script], file, best, options)
        progress(f"     {'kept: ' if trial.kept else 'not kept: '}{trial.reason}")
        trials = [other for other in trials if other.script != script] + [trial]
        if trial.kept and program is not None:
            kept.append(script)
            best = program
            again = [
                other.script
                for other in trials
                if not other.kept and other.measurement and other.script.path not in retried
            ]
            if torch.cuda.is_available():
                retried.update(item.path for item in again)
                queue += [item for item in again if item not in queue]
    programs = {"eager": subject.eager, "Inductor": subject.inductor}
    measurement = measure(subject, programs, seconds=options.seconds / 2)
    times = {name: measurement.median(name) for name in programs}
    return Outcome(subject.script.name, trials, kept, None, times)


def _try(
    subject: Subject,
    scripts: list[Script],
    file: Path,
    best: Callable[..., Any],
    options: OptimizeOptions,
) -> tuple[Trial, Callable[..., Any] | None]:
    script = scripts[-1]
    emit(scripts, file)
    verdict, program = check_backend(file, subject, error_budget=options.error_budget)
    for check in verdict.checks:
        if not check.passed:
            return Trial(script, False, f"{check.name}: {check.text}", verdict.error), None
    assert program is not None
    try:
        measurement = measure(
            subject, {"best": best, "candidate": program}, seconds=options.seconds
        )
    except RuntimeError as error:
        return Trial(script, False, f"fails when it is timed: {error}", verdict.error), None
    won, times, gain = measurement.wins("candidate", "best")
    return Trial(script, won, f"{times}, {gain}", verdict.error, measurement), program


# ---------------------------------------------------------------------------------------------------------------------
# What is left behind
# ---------------------------------------------------------------------------------------------------------------------


def _finish(
    subject: Subject,
    outcome: Outcome,
    target: Path,
    before: RunFolder,
    output: Path,
    options: OptimizeOptions,
) -> None:
    """Writes the backend, proves it once more as it lies there, and profiles what it made."""
    model = os.path.relpath(subject.script.path.resolve(), target.parent.resolve())
    emit(outcome.kept, target, model=model)
    progress("  proving the backend as it was written")
    verdict = validate(target, error_budget=options.error_budget)
    outcome.verdict = verdict
    if verdict.measurement is not None:
        outcome.times = {
            name: verdict.measurement.median(name) for name in verdict.measurement.first
        }
    if not verdict.passed:
        for file in (target, test_file(target)):
            file.unlink(missing_ok=True)
        outcome.kept = []
        return
    outcome.backend = target
    try:
        _profile_after(subject, outcome, target, before, RunFolder(output / "after"), options)
    except Exception as error:
        # The proof stands without it, and is not to be lost for it.
        progress(f"  no profile of the optimized program: {type(error).__name__}: {error}")


def _profile_after(
    subject: Subject,
    outcome: Outcome,
    target: Path,
    before: RunFolder,
    after: RunFolder,
    options: OptimizeOptions,
) -> None:
    """A run folder of the optimized program: the rewritten graph, what Inductor made of it, and a trace."""
    progress("  profiling the optimized program")
    after.path.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(before.graph, after.graph)
    for script in outcome.kept:
        arguments: list[str | Path] = [
            after.graph,
            f"--apply-rewrites={script.path}",
            "--emit-bytecode",
        ]
        run_tool("opprof-opt", arguments, output=after.graph, quiet=True)
    compiled: list[CompiledGraph] = []

    def keep(graph: CompiledGraph) -> None:
        compiled.append(graph)
        write_graph_json(
            graph.folder / POST_GRAD, GraphSource(graph.module, graph.name, "post_grad")
        )

    try:
        with watching_inductor(after.scratch, keep):
            torch._dynamo.reset()
            program = subject.compiled(target.stem)
            program(*subject.script.args, **subject.script.kwargs)
        trace_steps(
            lambda: program(*subject.script.args, **subject.script.kwargs),
            options.profile.traced,
            after.trace,
        )
        write_run(
            after,
            {
                **{k: v for k, v in before.read_run().items() if k in ("device", "versions")},
                "script": str(subject.script.path),
                "backend": target.name,
                "compiled_graphs": [graph.name for graph in compiled],
                "iterations": options.profile.traced,
                "step": {"median_ns": outcome.times.get("optimized")},
            },
        )
        attribute(after)
    finally:
        after.drop_scratch()


def report(outcome: Outcome, options: OptimizeOptions, *, device: str) -> str:
    """What was gained, kept and left, on one page."""
    lines = [f"opprof optimize: {outcome.name} on {device}, torch {torch.__version__}", ""]
    base = outcome.times["Inductor"]
    for name, time in outcome.times.items():
        ratio = "" if name == "Inductor" else f"   {base / time:5.2f}× Inductor"
        lines.append(f"  {name:10} {milliseconds(time):>10} ms a step{ratio}")
    lines.append("")
    if outcome.kept and outcome.verdict is not None:
        bits = (
            "bits as Inductor's"
            if options.error_budget == 0
            else f"budget {options.error_budget:.0e}"
        )
        lines.append(f"Relative error against float64: {outcome.verdict.error:.1e} ({bits})")
    else:
        lines.append("Nothing that was tried wins, so nothing is changed: use plain Inductor.")
    lines.append("")
    if not outcome.trials:
        lines.append("No rule had a rewrite to offer.")
    for trial in outcome.trials:
        chosen = trial.script in outcome.kept
        lines.append(f"  {'kept    ' if chosen else 'not kept'}  {trial.script.title}")
        lines.append(f"            {trial.reason}")
    if outcome.verdict is not None:
        lines.append("")
        lines.append(
            "The backend as it was written:"
            if outcome.kept
            else "The combination failed its proof:"
        )
        lines += outcome.verdict.lines()
    if outcome.backend is not None:
        lines += [
            "",
            f'Use it: import {outcome.backend.stem}; torch.compile(model, backend="{outcome.backend.stem}")',
        ]
    return "\n".join(lines) + "\n"


def _write_report(
    outcome: Outcome, before: RunFolder, output: Path, options: OptimizeOptions
) -> None:
    device = before.read_run().get("device", {}).get("name", "this machine")
    text = report(outcome, options, device=device)
    with replacing(output / "report.txt") as file:
        file.write(text)
    facts = {
        "version": 1,
        "model": outcome.name,
        "device": device,
        "torch": str(torch.__version__),
        "error_budget": options.error_budget,
        "error": outcome.verdict.error if outcome.verdict is not None else None,
        "times_ns": outcome.times,
        "backend": outcome.backend.name if outcome.backend is not None else None,
        "trials": [
            {
                "script": trial.script.path.name,
                "name": trial.script.name,
                "kept": trial.script in outcome.kept,
                "reason": trial.reason,
                "error": trial.error if trial.error is None or math.isfinite(trial.error) else None,
            }
            for trial in outcome.trials
        ],
    }
    with replacing(output / "optimize.json") as file:
        json.dump(facts, file, indent=1)
        file.write("\n")
