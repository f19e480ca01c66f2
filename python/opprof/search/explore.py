"""The search: recommendations one on top of the other, each measured, and what was kept taken apart again. Needs PyTorch."""

import contextlib
import functools
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from opprof.backend.checks import LEAST_GAIN, Measurement, Program, Subject, measure
from opprof.backend.rewrites import Script
from opprof.devices import raise_if_lost
from opprof.progress import progress
from opprof.search.ahead import Ahead, Job, job_of
from opprof.search.baselines import (
    EAGER,
    INDUCTOR,
    TORCHSCRIPT,
    Baseline,
    Recipe,
    cpu_has_faster_products,
    make_baseline,
    recipes,
    what_failed,
    why_not_tuned,
)
from opprof.search.candidates import Built, Workshop
from opprof.search.clock import Clock, TimeIsUp, limited
from opprof.search.measure import compare, launch_time
from opprof.search.precision import (
    Assignment,
    Precision,
    explore_precision,
    write_script,
    write_whole,
)
from opprof.search.prediction import StepModel
from opprof.search.training import training_recipes
from opprof.search.trials import BOX_OVER, Ablation, End, Trial, why_ended
from opprof.units import counted, microseconds

# Scripts for the program as torch.compile traces it, where those for the exported one have no place.
AS_COMPILED = "as-compiled-{}.mlir"
# A prediction below this share of a step is not worth a compilation of its own.
NOISE = LEAST_GAIN / 2
# What times kernels to choose among them may take so long in any case, and otherwise half of what the search took before it.
_TUNING_SECONDS = 30.0
# What was compiled before, by another process, takes so long to be loaded and checked, or less.
_KNOWN_SECONDS = 5.0
# A rewrite, and the CUDA graph that is captured round it.
_PAIR = 2
# What a user has and what it is held against are measured in any box, as nothing but Inductor's own program is compiled for them.
_AT_ONCE = (TORCHSCRIPT, EAGER, INDUCTOR)
# What PyTorch calls it.
_OUT_OF_MEMORY = torch.OutOfMemoryError.__name__
# What the error of a model run operator by operator may be, relative to the budget, for its compiled form to be worth a try: fused
# kernels compute in float32 between their operators.
COMPILED_ROUNDS_LESS = 2.5


@dataclass
class SearchOptions:
    """What may be lost, and for how long is searched."""

    error_budget: float
    # Seconds that the programs of one comparison are timed, where it is not clear before.
    seconds: float = 3.0
    # On a GPU, nanoseconds of kernels in a step as it was profiled, where that is known.
    kernel_ns: float | None = None


@dataclass
class Explored:
    """What was found before the model's profile was there."""

    # None where there is nothing to choose.
    precision: Precision | None
    # Inductor's program, and the seconds that compiling and checking it took.
    inductor: Baseline
    seconds: float


@dataclass
class Found:
    """What the search ends with, before it is written and measured against all recipes."""

    kept: list[Script] = field(default_factory=list)
    # That, as it was compiled and checked; None where nothing is kept.
    built: Built | None = None
    trials: list[Trial] = field(default_factory=list)
    ablations: list[Ablation] = field(default_factory=list)
    baselines: list[Baseline] = field(default_factory=list)
    # Levels by region, where everything in one narrow type is over the budget.
    assignment: Assignment | None = None


def prepare_early(
    subject: Subject,
    error_budget: float,
    ahead: Ahead,
    folder: Path,
    between: Callable[[], None] = lambda: None,
) -> Explored:
    """What a search needs in any case, before the model's profile is there: its precision, in other processes the compilation of what
    precision makes of it, and the program that it is measured against. Calls `between` two runs of the model.
    """
    _ = subject.references
    precision, scripts = explore_precision(subject, error_budget, between), []
    if precision is not None and _is_worth_compiling(precision, error_budget):
        scripts.append(write_whole(precision.narrow, precision.uniform_error, folder))
    if precision is not None and precision.assignment is not None:
        scripts.append(write_script(precision.assignment, folder, None))
    workshop = Workshop(subject, folder, error_budget)
    ahead.add(workshop.job([script]) for script in scripts)
    between()
    begin = time.monotonic()
    inductor = next(way for way in recipes(subject) if way.name == INDUCTOR)
    baseline = make_baseline(inductor, subject, error_budget)
    return Explored(precision, baseline, time.monotonic() - begin)


def _is_worth_compiling(precision: Precision, error_budget: float) -> bool:
    """Whether all in one narrow type may be within the budget once it is compiled."""
    return precision.uniform_error <= COMPILED_ROUNDS_LESS * error_budget


class Search:
    """One search, for one model: candidates go to `folder`, a script that the search writes itself to `output`."""

    def __init__(
        self,
        subject: Subject,
        scripts: Sequence[Script],
        folder: Path,
        output: Path,
        options: SearchOptions,
        clock: Clock,
        ahead: Ahead,
        explored: Explored | None = None,
        as_compiled: Callable[[], list[Script]] = list,
    ) -> None:
        self.subject = subject
        self.scripts = list(scripts)
        self.output = output
        self.options = options
        self.clock = clock
        self.ahead = ahead
        self.explored = explored
        # Gives what the rules have for the model as torch.compile traces it, which is asked for where an offer has no place there.
        self.recommend_as_compiled = as_compiled
        # Rules of which that was taken, by name.
        self.asked: set[str] = set()
        self.workshop = Workshop(subject, folder, options.error_budget, ahead.store)
        self.found = Found()
        self.best: Program = subject.inductor
        self.best_ns = 0
        # On a GPU, what bounds a step of the best.
        self.model: StepModel | None = None
        # On a CPU what is begun in the box may end long after it; on a GPU it is short.
        self.ends_with_box = (
            subject.script.device_type == "cpu" and clock.budget_seconds is not None
        )
        # What compiling Inductor's program took here.
        self.inductor_seconds = 0.0
        # Levels by region, and what makes them needless where it is kept.
        self.regions: Script | None = None
        # Whether they are tried behind everything else, as they most likely lose, and compile longest.
        self.regions_last = False
        self.instead_of_regions: list[Script] = []
        # What is over the budget uncompiled, and may be within it once it is compiled.
        self.doubtful: list[Script] = []

    def run(self) -> Found:
        """Everything in its order; what the time box leaves out is named in the trials and baselines."""
        found = self.found
        ways = (training_recipes if self.subject.trains else recipes)(self.subject)
        with self.clock.phase("precision"):
            self._prepare(ways)
        with self.clock.phase("recipes"):
            for way in ways:
                if not self._comes_late(way):
                    self._add_baseline(way)
            self.best_ns = self._time_of(self.best)
            if self.options.kernel_ns is not None:
                with self.ahead.quiet():
                    host_ns = launch_time(self.subject, self.best)
                self.model = StepModel(self.options.kernel_ns, host_ns).measured(self.best_ns)
        with self.clock.phase("rewrites"):
            self._take_all(lambda: self.ahead.add(map(job_of, filter(self._comes_late, ways))))
        with self.clock.phase("ablation"):
            self._ablate()
        with self.clock.phase("recipes"):
            for way in ways:
                if self._comes_late(way):
                    self._add_baseline(way)
        # What comes next is timed to the end.
        self.ahead.end()
        if found.kept:
            found.built = self.workshop.build(found.kept)
        names = [way.name for way in ways]
        found.baselines.sort(key=lambda baseline: names.index(baseline.recipe.name))
        return found

    # -----------------------------------------------------------------------------------------------------------------
    # Recipes
    # -----------------------------------------------------------------------------------------------------------------

    def _comes_late(self, way: Recipe) -> bool:
        """Whether a recipe is measured after the rewrites: in a time box, all that the rewrites are not held against."""
        in_box = self.clock.budget_seconds is not None
        return way.late or (in_box and way.name not in _AT_ONCE)

    def _prepare(self, ways: Sequence[Recipe]) -> None:
        """What needs no time measured, at once: compilations in other processes, and what is known of precision here."""
        whole = list(filter(self._is_narrow, self.scripts))
        made = () if self.explored is None else (INDUCTOR,)
        soon = [way for way in ways if not self._comes_late(way) and way.name not in made]
        self.ahead.add([*map(job_of, soon), *self._jobs_of(whole[:1])])
        self._find_precision()
        narrow = self.regions or next(filter(self._is_narrow, self.scripts), None)
        if narrow is not None and not self.regions_last:
            # What most likely is kept first, and what stands on top of it then.
            self.ahead.add([*self._jobs_of([narrow]), *self._jobs_of(self.scripts, on=narrow)])
            self.ahead.add(self._jobs_of(filter(self._captures, self.scripts)))
        else:
            self.ahead.add(self._jobs_of(self.scripts))
        # Needed below in any case.
        self._make_references()

    def _make_references(self) -> None:
        self.subject.gives_way = self.ahead.works
        try:
            _ = self.subject.references
        except torch.OutOfMemoryError:
            self._give_others_up()
        finally:
            self.subject.gives_way = False
        _ = self.subject.references

    def _give_others_up(self) -> None:
        progress("  going on alone: what compiles ahead leaves too little memory")
        self.ahead.end()
        self.subject.restore()

    def _build(self, scripts: Sequence[Script]) -> Built:
        """A candidate, with what others compile of it, and once more where they leave it no memory."""
        if not self.workshop.is_built(scripts):
            needed = self.options.seconds + self.workshop.longest_seconds
            self._wait_for_others(scripts, needed)
        with self.ahead.beside_compilation():
            built = self.workshop.build(scripts)
        if self.ahead.works and _OUT_OF_MEMORY in (built.failure or ""):
            self._give_others_up()
            self.workshop.forget(scripts)
            return self.workshop.build(scripts)
        return built

    def _jobs_of(self, scripts: Iterable[Script], on: Script | None = None) -> list[Job]:
        """Compilations of scripts, each alone or on top of another; those whose kernels are chosen by timing are none of these."""
        jobs: list[Job] = []
        for script in scripts if self.ahead.works else ():
            # A captured graph changes nothing of what is compiled; what saves nothing is not tried.
            apart = on is None or not (
                self.workshop.excluded(script, [on])
                or self._captures(script)
                or script.saves_ns == 0
            )
            if apart and not self._tunes(script):
                both = [script] if on is None else [on, script]
                jobs.append(self.workshop.job(both))
        return jobs

    def _tunes(self, script: Script) -> bool:
        return "autotune" in self.workshop.strategy(script)

    def _captures(self, script: Script) -> bool:
        return "cuda_graph" in self.workshop.strategy(script)

    def _is_narrow(self, script: Script) -> bool:
        return bool({"precision", "regions"} & set(self.workshop.strategy(script)))

    def _add_baseline(self, recipe: Recipe) -> None:
        early = self.explored if recipe.name == INDUCTOR else None
        # What failed may have had no memory.
        if early is not None and not early.inductor.reason:
            self.found.baselines.append(early.inductor)
            self._note_inductor(early.seconds)
            return
        baseline = Baseline(recipe)
        self.found.baselines.append(baseline)
        with self.ahead.quiet() if recipe.tunes_float32 else contextlib.nullcontext():
            baseline.reason = why_not_tuned(recipe, self.subject, self.best_ns)
        if baseline.reason:
            return
        # Nothing is known of how long a recipe compiles but how long others did.
        longest = max(self.workshop.longest_seconds, self.inductor_seconds)
        needed = longest * (3 if recipe.tunes_float32 else 1)
        self._wait_for_job(job_of(recipe), needed)
        if recipe.name not in _AT_ONCE and not self.clock.allows(needed):
            baseline.reason = f"left out: {BOX_OVER}"
            return
        progress(f"  {recipe.name}")
        limit = self._tuning_limit() if recipe.tunes_float32 else None
        begin = time.monotonic()
        with self._tuning(limit), self.ahead.beside_compilation():
            if limit is None and recipe.name not in _AT_ONCE:
                limit = self._box_limit()
            made = make_baseline(recipe, self.subject, self.options.error_budget, limit=limit)
        if recipe.name == INDUCTOR:
            self._note_inductor(time.monotonic() - begin)
        if self.ahead.works and _OUT_OF_MEMORY in made.reason:
            self._give_others_up()
            made = make_baseline(recipe, self.subject, self.options.error_budget, limit=limit)
        self.found.baselines[-1] = made
        if made.reason:
            progress(f"     {made.reason}")

    def _note_inductor(self, seconds: float) -> None:
        """Other recipes take as long as Inductor's program, and on a CPU the first candidate; on a GPU that is begun in any case."""
        self.inductor_seconds = seconds
        if self.ends_with_box:
            self.workshop.longest_seconds = max(self.workshop.longest_seconds, seconds)

    def _tuning_limit(self) -> float:
        """Seconds that choosing kernels by timing them may take."""
        return max(1.0, min(self.clock.left, max(_TUNING_SECONDS, self.clock.elapsed / 2)))

    def _box_limit(self) -> float | None:
        """Seconds that what takes no part in choosing kernels may take, or None for as long as it does."""
        if not self.ends_with_box:
            return None
        # What is kept is to be proven in the time that is reserved for that.
        return max(1.0, self.clock.left if self.found.kept else self.clock.until_end)

    def _tuning(self, limit: float | None) -> contextlib.AbstractContextManager[None]:
        """What chooses kernels by timing them is disturbed by others as any measurement is, and takes longer than those."""
        return contextlib.nullcontext() if limit is None else self.ahead.quiet(limit)

    def _time_of(self, program: Program) -> int:
        with self.ahead.quiet():
            measurement = measure(self.subject, {"program": program}, seconds=0.5)
        return measurement.median("program")

    # -----------------------------------------------------------------------------------------------------------------
    # Precision
    # -----------------------------------------------------------------------------------------------------------------

    def _find_precision(self) -> None:
        """Puts a script with levels by region behind the one with all in one narrow type, for the case that this is over the budget."""
        if self.explored is None and not self.clock.allows(self.options.seconds):
            return
        try:
            with limited(self._box_limit()):
                precision = (
                    explore_precision(self.subject, self.options.error_budget)
                    if self.explored is None
                    else self.explored.precision
                )
        except TimeIsUp:
            progress(f"  no precision by region: {BOX_OVER}")
            self.subject.restore()
            return
        except Exception as error:
            raise_if_lost(error)
            # The precisions of the rules are tried as they are.
            progress(f"  no precision by region: {what_failed(error)}")
            self.subject.restore()
            return
        if precision is None:
            return
        whole = [
            script
            for script in self.scripts
            if self.workshop.strategy(script).get("precision") == f"torch.{precision.narrow}"
        ]
        saves = whole[0].saves_ns if whole else None
        if not _is_worth_compiling(precision, self.options.error_budget):
            for script in whole:
                reason = f"run operator by operator, its error is {precision.uniform_error:.1e}: not compiled"
                self._end([script], End.WRONG, reason, error=precision.uniform_error)
            self.scripts = [script for script in self.scripts if script not in whole]
            whole = []
        if precision.uniform_error > self.options.error_budget:
            self.doubtful = whole
        if precision.assignment is not None:
            self.found.assignment = precision.assignment
            saves = None if saves is None else int(saves * precision.saved_share)
            kind = "training" if self.subject.trains else "freeze"
            regions = write_script(precision.assignment, self.output, saves, kind)
            narrow = [*whole, regions]
            others = [script for script in self.scripts if script not in whole]
            on_cpu, dtype = (
                self.subject.script.device_type == "cpu",
                getattr(torch, precision.narrow),
            )
            self.regions_last = on_cpu and not cpu_has_faster_products(dtype)
            self.scripts = [*others, *narrow] if self.regions_last else [*narrow, *others]
            self.instead_of_regions = whole
            self.regions = regions

    # -----------------------------------------------------------------------------------------------------------------
    # Rewrites
    # -----------------------------------------------------------------------------------------------------------------

    def _take_all(self, after_a_trial: Callable[[], None] = lambda: None) -> None:
        """Takes recommendations one by one, the best first, each on top of what won before it. Calls `after_a_trial` at least once."""
        small: list[Script] = []
        lost_before: list[tuple[Trial, int]] = []
        ahead = list(self.scripts)
        while ahead:
            ahead.remove(script := self._next(ahead))
            if self._is_small(script):
                small.append(script)
                continue
            if script is self.regions:
                whole = [own for own in self.instead_of_regions if own in self.found.kept]
                if whole:
                    reason = f"{whole[0].name} is within the budget as it was compiled"
                    self._end([script], End.CONFLICT, reason)
                    continue
            graph = self._graph_round(script, ahead)
            trial = self._try([script] if graph is None else [script, graph])
            after_a_trial()
            if graph is not None and trial.end is End.KEPT:
                ahead.remove(graph)
            elif graph is not None:
                # It has its own turn.
                self.found.trials = [one for one in self.found.trials if one.script is not graph]
                # The graph may be what lost, or what failed.
                if trial.end in (End.FAILED, End.SLOWER):
                    trial = self._try([script])
            ahead += self._instead_of_missing(trial)
            # What was left out before anything was compiled costs nothing to ask again.
            if trial.end is End.SLOWER or (trial.end is End.LEFT_OUT and trial.seconds is None):
                lost_before.append((trial, len(self.found.kept)))
        after_a_trial()
        self._take_small(small)
        # A rewrite may win only after another one: launches that cost nothing change what pays.
        if self.subject.script.device_type == "cuda":
            for trial, kept in lost_before:
                if kept < len(self.found.kept) and trial.script not in self.found.kept:
                    self._try([trial.script])

    def _instead_of_missing(self, trial: Trial) -> list[Script]:
        """What the rules whose pattern is nowhere in the compiled program have for that program: a library may build for an export what
        a call of the model does not, as masks that hide nothing.
        """
        missing = self.workshop.build(trial.order).missing if trial.end is End.CONFLICT else []
        rules = {script.name for script in missing} - self.asked
        if not rules or not self.clock.allows(self.options.seconds):
            return []
        self.asked |= rules
        known = {self.workshop.content(script) for script in self.scripts}
        found = [
            self._keep_as_compiled(script)
            for script in self._as_compiled
            if script.name in rules and self.workshop.content(script) not in known
        ]
        self.scripts += found
        self.ahead.add(self._jobs_of(found))
        return found

    @functools.cached_property
    def _as_compiled(self) -> list[Script]:
        """What the rules have for the compiled program; nothing where asking them fails, as what was found before is not to be lost for it."""
        try:
            with limited(self._box_limit()):
                return self.recommend_as_compiled()
        except TimeIsUp:
            why = BOX_OVER
        except Exception as error:
            why = str(error) or type(error).__name__
        finally:
            self.subject.restore()
        progress(f"     no rewrites of the program as torch.compile traces it: {why}")
        return []

    def _keep_as_compiled(self, script: Script) -> Script:
        """It with a copy that stays when the search has ended."""
        count = len(list(self.output.glob(AS_COMPILED.format("*"))))
        kept = self.output / AS_COMPILED.format(f"{count}-{script.name}")
        return replace(script, path=Path(shutil.copyfile(script.path, kept)))

    def _graph_round(self, script: Script, scripts: Sequence[Script]) -> Script | None:
        """The CUDA graph that is captured round what `script` makes in the same compilation, where launches would be what is left."""
        graph = next(filter(self._captures, scripts), None)
        if self.model is None or graph is None or self._captures(script) or self._tunes(script):
            return None
        both, _ = self._predict([script, graph], self._excluded([script]))
        alone, _ = self._predict([script], self._excluded([script]))
        more = 0 if both is None or alone is None else both - alone
        return graph if more >= NOISE * self.best_ns else None

    def _saves(self, script: Script, scripts: Sequence[Script]) -> int | None:
        """What a script is predicted to save, in the CUDA graph that would be captured round it."""
        graph = self._graph_round(script, scripts)
        tried = [script] if graph is None else [script, graph]
        return self._predict(tried, self._excluded([script]))[0]

    def _next(self, scripts: Sequence[Script]) -> Script:
        """What is predicted to save most on top of what is kept, of equal ones the first: a box may end at any time. What
        times kernels to choose among them takes longest, and comes last; what may be over the budget comes after the levels by region
        that are within it.
        """
        soon = [script for script in scripts if not self._tunes(script)] or scripts
        if self.regions in soon:
            soon = [script for script in soon if script not in self.doubtful]
        if self.model is None:
            return soon[0]
        best, most = soon[0], -math.inf
        for script in soon:
            saves = self._saves(script, soon)
            # Of what nothing is predicted has the place that it came with.
            if saves is None:
                break
            if saves > most:
                best, most = script, saves
        return best

    def _saves_alone(self, script: Script) -> int | None:
        if self.model is not None and self._captures(script):
            # It grows with what was kept since the rule saw the program.
            return self._predict([script], [])[0]
        return script.saves_ns

    def _is_small(self, script: Script) -> bool:
        saves = self._saves_alone(script)
        return saves is not None and saves < NOISE * self.best_ns

    def _take_small(self, scripts: list[Script]) -> None:
        """Those that nothing could tell from noise alone: together, where that much can be told."""
        # What was kept since may have made steps so short that it can be told now.
        for script in list(scripts):
            if not self._is_small(script):
                scripts.remove(script)
                self._try([script])
        together = sum(script.saves_ns or 0 for script in scripts)
        if len(scripts) > 1 and together >= NOISE * self.best_ns:
            self._try(scripts)
            return
        for script in scripts:
            saves = self._saves_alone(script) or 0
            share = saves / self.best_ns
            reason = f"predicted to save {microseconds(saves)} µs, {share:.1%} of a step, which no measurement tells from noise"
            self._end([script], End.NOISE, reason, predicted_ns=saves)

    def _try(self, scripts: list[Script]) -> Trial:
        """Tries scripts on top of what is kept, in the order and beside the ones that they can stand beside."""
        title = f"{len(scripts)} small ones together"
        if len(scripts) <= _PAIR:
            title = " – ".join(script.title for script in scripts)
        progress(f"  {len(self.found.trials) + 1}. {title}")
        pointless = self._why_pointless(scripts)
        if pointless is not None:
            trial = self._end(scripts, End.LEFT_OUT, pointless[0], predicted_ns=pointless[1])
        elif not self._is_in_time(self._beside_kept(scripts), tunes=any(map(self._tunes, scripts))):
            trial = self._end(scripts, End.LEFT_OUT, BOX_OVER)
        else:
            trial = self._build_and_judge(scripts)
        progress(f"     {trial.end.value}: {trial.reason}")
        return trial

    def _beside_kept(self, scripts: Sequence[Script]) -> list[Script]:
        excluded = self._excluded(scripts)
        return [*(script for script in self.found.kept if script not in excluded), *scripts]

    def _is_in_time(self, scripts: Sequence[Script], *, tunes: bool = False) -> bool:
        """Whether the box has time for a program and its comparison, once others have done what they are at of it."""
        if self.workshop.is_built(scripts):
            return self.clock.allows(self.options.seconds)
        # What is given up halfway has saved nothing.
        compilation = max(self.workshop.longest_seconds, _TUNING_SECONDS if tunes else 0.0)
        if self._wait_for_others(scripts, self.options.seconds + compilation):
            compilation = min(compilation, _KNOWN_SECONDS)
        return self.clock.allows(self.options.seconds + compilation)

    def _wait_for_others(self, scripts: Sequence[Script], needed: float) -> bool:
        """Whether others have compiled it, waiting for that as long as the box has so many seconds afterwards."""
        return self.ahead.works and self._wait_for_job(self.workshop.job(scripts), needed)

    def _wait_for_job(self, job: Job | None, needed: float) -> bool:
        # Of a program for a GPU others save no more than its kernels, a third: whoever waits for them is later than who begins.
        waits = self.subject.script.device_type != "cuda"
        return self.ahead.wait_for(job, self.clock.left - needed - 1 if waits else 0.0)

    @contextlib.contextmanager
    def _building(self, scripts: Sequence[Script]) -> Iterator[None]:
        """Ends what chooses kernels by timing them where that takes longer than it may, and others where the box has ended, with TimeIsUp
        that says so.
        """
        limit = self._tuning_limit() if any(map(self._tunes, scripts)) else None
        try:
            with self._tuning(limit), limited(self._box_limit() if limit is None else limit):
                yield
        except TimeIsUp as up:
            self.subject.restore()
            raise TimeIsUp(why_ended(up, tunes=limit is not None)) from None

    def _build_and_judge(self, scripts: list[Script]) -> Trial:
        begin = time.monotonic()
        try:
            with self._building(scripts):
                built, instead = self._arrange(scripts)
        except TimeIsUp as up:
            seconds = time.monotonic() - begin
            return self._end(scripts, End.LEFT_OUT, str(up), seconds=seconds)
        return self._judge(scripts, built, instead)

    def _why_pointless(self, scripts: list[Script]) -> tuple[str, int] | None:
        """Why scripts are not worth a compilation, where they take the place of what is kept and save no more by what is predicted;
        and what they save then.
        """
        instead = self._excluded(scripts)
        saves, _ = self._predict(scripts, instead)
        if not instead or saves is None or saves > 0 or not all(map(self._kept_its_word, instead)):
            return None
        names = " and ".join(one.title for one in instead)
        more = f"{microseconds(-saves)} µs of a step more" if saves else "as much"
        return f"it takes the place of “{names}”, which is predicted to save {more}", saves

    def _excluded(self, scripts: Sequence[Script]) -> list[Script]:
        """Which of the kept ones cannot stand beside them, each once."""
        kept = self.found.kept
        found = [one for script in scripts for one in self.workshop.excluded(script, kept)]
        return list(dict.fromkeys(found))

    def _kept_its_word(self, script: Script) -> bool:
        """Whether a kept one was measured to save at least half of what it was predicted to."""
        trials = [trial for trial in self.found.trials if trial.script == script]
        return all(
            trial.saved_ns is not None and trial.saved_ns >= (trial.predicted_ns or 0) / 2
            for trial in trials
        )

    def _arrange(self, scripts: list[Script]) -> tuple[Built, list[Script]]:
        """The first arrangement in which everything applies, or the last of them; and the kept ones that it does without."""
        kept = self.found.kept
        instead = self._excluded(scripts)
        rest = [script for script in kept if script not in instead]
        built = self._build([*rest, *scripts])
        if built.missing and rest:
            # The earlier one of two takes the nodes that both want.
            built = self._build([*scripts, *rest])
            hidden = [script for script in built.missing if script in rest]
            if hidden:
                instead += hidden
                rest = [script for script in rest if script not in hidden]
                built = self._build([*rest, *scripts])
        return built, instead

    def _judge(self, scripts: list[Script], built: Built, instead: list[Script]) -> Trial:
        error = built.verdict.error
        saves, model = self._predict(scripts, instead)
        facts: dict[str, Any] = {
            "error": error,
            "predicted_ns": saves,
            "seconds": built.seconds,
            "order": list(built.scripts),
            "instead_of": instead,
        }
        if built.failure is not None or built.program is None:
            within = error is None or error <= self.options.error_budget
            end = End.CONFLICT if built.missing else End.FAILED if within else End.WRONG
            return self._end(scripts, end, built.failure or "does not run", **facts)
        try:
            with self.ahead.quiet():
                measurement = compare(
                    self.subject, self.best, built.program, seconds=self.options.seconds
                )
        except RuntimeError as failure:
            raise_if_lost(failure)
            return self._end(scripts, End.FAILED, f"fails when it is timed: {failure}", **facts)
        won, times, gain = measurement.wins("candidate", "best")
        before_ns = measurement.median("best")
        facts |= {"before_ns": before_ns, "after_ns": measurement.median("candidate")}
        if self.model is not None:
            # Of a step as it is now: what a host that was late before could save, it may no longer.
            self.model = self.model.measured_again(before_ns)
            facts["predicted_ns"], model = self._predict(scripts, instead)
        if not won:
            return self._end(scripts, End.SLOWER, f"{times}, {gain}", **facts)
        for script in instead:
            names = " and ".join(other.name for other in scripts)
            self._end([script], End.CONFLICT, f"{names} takes its place, and is faster")
        self.found.kept = list(built.scripts)
        self.clock.found()
        self.best, self.best_ns = built.program, measurement.median("candidate")
        # Without a prediction of what is kept, nothing is known of what bounds it.
        self.model = None if model is None else model.measured(self.best_ns)
        return self._end(scripts, End.KEPT, f"{times}, {gain}", **facts)

    def _predict(
        self, scripts: list[Script], instead: list[Script]
    ) -> tuple[int | None, StepModel | None]:
        """What scripts save of a step beyond those that they take the place of, and on a GPU what bounds it then."""
        if any(script.saves_ns is None for script in (*scripts, *instead)):
            return None, None
        captures = set(filter(self._captures, scripts))
        # What a rule says of a capture is idle time that it saw: no kernel is shorter for it.
        counted = [script for script in scripts if self.model is None or script not in captures]
        saves = sum(one.saves_ns or 0 for one in counted)
        lost = sum(one.saves_ns or 0 for one in instead)
        if self.model is None:
            return saves - lost, None
        model = self.model.saving(saves, instead_ns=lost, captured=bool(captures))
        return int(self.model.step_ns - model.step_ns), model

    def _end(self, scripts: list[Script], end: End, reason: str, **facts: Any) -> Trial:
        """Notes how it ended; what was said of the same scripts before is no longer true."""
        self.found.trials = [other for other in self.found.trials if other.script not in scripts]
        made = []
        for script in scripts:
            others = [other for other in scripts if other is not script]
            names = f"with “{others[0].title}”" if len(others) == 1 else "all together"
            said = f"{reason}, {names}" if others else reason
            own = {"predicted_ns": script.saves_ns, **facts, "together": others}
            made.append(Trial(script, end, said, **own))
        self.found.trials += made
        return made[0]

    # -----------------------------------------------------------------------------------------------------------------
    # Ablation
    # -----------------------------------------------------------------------------------------------------------------

    def _ablate(self) -> None:
        """Takes each kept one out once; of those that no longer pay the least one goes, until all pay."""
        while len(self.found.kept) > 1:
            programs = self._without_each()
            if not programs:
                return
            progress(f"  without each of {counted(len(programs), 'kept rewrite')}")
            named = {name: program for name, (_, program) in programs.items()}
            with self.ahead.quiet():
                measurement = measure(
                    self.subject, {"kept": self.best, **named}, seconds=self.options.seconds
                )
            gains = {
                script: measurement.gain("kept", name) for name, (script, _) in programs.items()
            }
            least = min(gains, key=lambda script: gains[script])
            drops = gains[least] < NOISE
            for script, gain in gains.items():
                self._note_ablation(script, gain, dropped=drops and script is least)
            if not drops:
                return
            self._drop(least, measurement, programs)

    def _without_each(self) -> dict[str, tuple[Script, Program]]:
        programs: dict[str, tuple[Script, Program]] = {}
        for script in self.found.kept:
            rest = [other for other in self.found.kept if other is not script]
            tunes = any(map(self._tunes, rest))
            if not self.workshop.is_built(rest) and not self._is_in_time(rest, tunes=tunes):
                self._note_ablation(script, None, reason=f"left out: {BOX_OVER}")
                continue
            try:
                # Without the rewrite there may be other kernels to choose.
                with self._building(rest):
                    built = self._build(rest)
            except TimeIsUp as up:
                self._note_ablation(script, None, reason=f"left out: {up}")
                continue
            if built.failure is None and built.program is not None:
                programs[f"without {script.path.name}"] = (script, built.program)
            else:
                self._note_ablation(script, None, reason=f"the rest needs it: {built.failure}")
        return programs

    def _note_ablation(
        self, script: Script, gain: float | None, *, dropped: bool = False, reason: str = ""
    ) -> None:
        if gain is not None:
            reason = (
                f"the rest is as fast without it ({gain:.1%})" if dropped else f"saves {gain:.0%}"
            )
        self.found.ablations = [one for one in self.found.ablations if one.without != script]
        self.found.ablations.append(Ablation(script, gain, dropped, reason))

    def _drop(
        self,
        script: Script,
        measurement: Measurement,
        programs: dict[str, tuple[Script, Program]],
    ) -> None:
        name = f"without {script.path.name}"
        self.found.kept = [other for other in self.found.kept if other is not script]
        self.best, self.best_ns = programs[name][1], measurement.median(name)
        for trial in self.found.trials:
            if trial.script == script:
                trial.end = End.DROPPED
                trial.reason += "; dropped: what else was kept is as fast without it"
        progress(f"     dropped: {script.title}")
