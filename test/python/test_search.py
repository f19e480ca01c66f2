"""The search for the fastest program: what is tried, in which order and beside what, and why each of them ended as it did."""

import contextlib
import json
import math
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_map

from opprof import progress
from opprof.backend.checks import (
    Measurement,
    Subject,
    Verdict,
    load_backend,
    relative_error,
)
from opprof.backend.emit import BACKEND_TITLE, emit
from opprof.backend.rewrites import Decline, Rewrites, Script
from opprof.commands import optimize as optimize_command
from opprof.commands.cli import main
from opprof.commands.optimize import OptimizeOptions, _prove, _Result, report
from opprof.commands.profile import ProfileOptions, profile_script
from opprof.commands.recommend import recommend, rewrites_text, unseen_by_rules
from opprof.errors import OpprofError
from opprof.export.graph_store import GraphStore
from opprof.export.model_script import load_model_script
from opprof.processes import start_server
from opprof.run_folder import OUTPUT_CODE, POST_GRAD, RunFolder
from opprof.search import ahead, baselines, explore
from opprof.search.ahead import Ahead, Job, compile_only, results_like, worker_count
from opprof.search.baselines import (
    Recipe,
    _ProductFlops,
    least_float32_ns,
    make_baseline,
    recipes,
)
from opprof.search.candidates import Built, Workshop, strategy_of
from opprof.search.clock import Clock, TimeIsUp, limited
from opprof.search.explore import Search, SearchOptions
from opprof.search.measure import compare, measure_all
from opprof.search.outcome import OPTIMIZED, Entrant, Outcome, facts_of
from opprof.search.prediction import StepModel, kernel_time
from opprof.search.trials import BOX_OVER, End, Trial

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/formats/optimize.schema.json").read_text())

MODEL = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 64)

    def forward(self, x):
        return torch.tanh(self.second(torch.relu(self.first(x))))


def get_model_and_input():
    torch.manual_seed(0)
    return Model().eval(), torch.randn(32, 64)
"""


@pytest.fixture
def subject(script: Any) -> Subject:
    torch._dynamo.reset()
    return Subject(load_model_script(script(MODEL)))


def region(folder: Path, number: int, name: str, what: str, saves_ns: int | None = None) -> Script:
    """A script with one strategy."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{number:02}-{name}.mlir"
    file.write_text(
        "module attributes {transform.with_named_sequence} {\n"
        "  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {\n"
        f"    transform.fx.region_strategy %root {{{what}}} : !transform.any_op\n"
        "    transform.yield\n  }\n}\n"
    )
    return Script(file, name, title=name, saves_ns=saves_ns)


# ---------------------------------------------------------------------------------------------------------------------
# The search, on programs that only say how long they would take
# ---------------------------------------------------------------------------------------------------------------------


class Table(Workshop):
    """Candidates of which a table says how many nanoseconds they take, and which rewrites hide others."""

    def __init__(
        self,
        times: Callable[[frozenset[str]], int],
        hides: Sequence[tuple[str, str]] = (),
        strategies: dict[str, dict[str, str]] | None = None,
        wrong: Sequence[str] = (),
        fails: Sequence[str] = (),
        nowhere: Sequence[str] = (),
    ) -> None:
        self.times, self.hides, self.strategies = times, hides, strategies or {}
        self.wrong, self.fails, self.nowhere = wrong, fails, nowhere
        self.longest_seconds = 1.0
        self.asked: list[list[str]] = []

    def build(self, scripts: Sequence[Script]) -> Built:
        names = [script.name for script in scripts]
        self.asked.append(names)
        verdict = Verdict(error=1e-4)
        for earlier, later in self.hides:
            if earlier in names and later in names and names.index(earlier) < names.index(later):
                verdict.missing.append(later)
        verdict.missing += [s.name for s in scripts if s.path.stem in self.nowhere]
        verdict.add("applied", not verdict.missing, "")
        if set(self.wrong) & set(names):
            verdict.error = 0.5
            verdict.add("equality", False, "relative error 5e-01")
        if set(self.fails) & set(names):
            verdict.add("strategy", False, "left out")
        ns = self.times(frozenset(names))
        return Built(tuple(scripts), verdict, lambda: ns, 1.0, Path())

    def is_built(self, scripts: Sequence[Script]) -> bool:
        return False

    def content(self, script: Script) -> str:
        return script.path.stem

    def strategy(self, script: Script) -> dict[str, str]:
        return self.strategies.get(script.name, {})


@pytest.fixture
def searching(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a search on a table of times; plain Inductor takes 1000 ns."""

    def constant(programs: dict[str, Any]) -> Measurement:
        times = {name: [program()] * 5 for name, program in programs.items()}
        return Measurement(times, times)

    monkeypatch.setattr(explore, "measure", lambda subject, programs, **options: constant(programs))
    monkeypatch.setattr(
        explore,
        "compare",
        lambda subject, best, candidate, **options: constant(
            {"best": best, "candidate": candidate}
        ),
    )

    def search(
        table: Table,
        names: Sequence[str],
        saves: dict[str, int] | None = None,
        clock: Clock | None = None,
        model: StepModel | None = None,
        as_compiled: Callable[[], list[Script]] = list,
        seconds: float = 3.0,
    ) -> Search:
        scripts = [
            Script(tmp_path / f"{name}.mlir", name, name, saves_ns=(saves or {}).get(name))
            for name in names
        ]
        ahead = Ahead(subject.script, 0)
        options = SearchOptions(1e-3, seconds)
        made = Search(
            subject,
            scripts,
            tmp_path,
            tmp_path,
            options,
            clock or Clock(),
            ahead,
            as_compiled=as_compiled,
        )
        made.workshop = table
        made.best, made.best_ns, made.model = (lambda: 1000), 1000, model
        made._take_all()
        made._ablate()
        return made

    return search


def ends(search: Search) -> dict[str, End]:
    return {trial.script.name: trial.end for trial in search.found.trials}


def names_of(scripts: Sequence[Script]) -> list[str]:
    return [script.name for script in scripts]


def product(shares: dict[str, float]) -> Callable[[frozenset[str]], int]:
    def times(names: frozenset[str]) -> int:
        total = 1000.0
        for name in names:
            total *= shares[name]
        return int(total)

    return times


def test_what_wins_is_kept_and_what_does_not_is_not(searching: Any) -> None:
    search = searching(Table(product({"a": 0.5, "b": 1.1, "c": 0.8})), ["a", "b", "c"])
    assert names_of(search.found.kept) == ["a", "c"]
    assert ends(search) == {"a": End.KEPT, "b": End.SLOWER, "c": End.KEPT}
    (trial,) = [trial for trial in search.found.trials if trial.script.name == "c"]
    assert (trial.before_ns, trial.after_ns, trial.saved_ns) == (500, 400, 100)
    assert names_of(trial.order) == ["a", "c"]


def test_what_no_longer_pays_is_dropped(searching: Any) -> None:
    def times(names: frozenset[str]) -> int:
        if "b" in names:
            return 400
        return 700 if "a" in names else 1000

    search = searching(Table(times), ["a", "b"])
    assert names_of(search.found.kept) == ["b"]
    assert ends(search) == {"a": End.DROPPED, "b": End.KEPT}
    assert {one.without.name: one.dropped for one in search.found.ablations} == {
        "a": True,
        "b": False,
    }


def test_of_two_precisions_the_faster_one_stands(searching: Any) -> None:
    strategies = {"half": {"precision": "torch.float16"}, "brain": {"precision": "torch.bfloat16"}}
    table = Table(
        lambda names: 300 if "brain" in names else 500 if "half" in names else 1000,
        strategies=strategies,
    )
    search = searching(table, ["half", "brain"])
    assert names_of(search.found.kept) == ["brain"]
    assert ends(search) == {"half": End.CONFLICT, "brain": End.KEPT}
    assert ["half", "brain"] not in table.asked
    (trial,) = [trial for trial in search.found.trials if trial.end is End.KEPT]
    assert names_of(trial.instead_of) == ["half"]


def test_a_pattern_that_is_hidden_goes_first(searching: Any) -> None:
    search = searching(Table(product({"a": 0.9, "b": 0.8}), hides=[("a", "b")]), ["a", "b"])
    assert names_of(search.found.kept) == ["b", "a"]


def test_rules_are_asked_of_the_compiled_program_where_an_offer_has_no_place_there(
    searching: Any, tmp_path: Path
) -> None:
    asked: list[int] = []
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def as_compiled() -> list[Script]:
        asked.append(1)
        # What is known already, what has its place there, and what another rule has.
        found = [Script(scratch / f"{name}.mlir", name, name) for name in ("a", "c")]
        found.append(Script(scratch / "other.mlir", "a", "a as compiled"))
        for one in found:
            one.path.write_text(one.title)
        return found

    table = Table(product({"a": 0.5, "b": 0.9}), nowhere=["a", "b"])
    search = searching(table, ["a", "b"], as_compiled=as_compiled)
    assert [one.title for one in search.found.kept] == ["a as compiled"]
    ends_of = [(trial.script.path.stem, trial.end) for trial in search.found.trials]
    assert ends_of == [
        ("a", End.CONFLICT),
        ("b", End.CONFLICT),
        ("as-compiled-0-a", End.KEPT),
    ]
    # What is not tried is not left behind.
    (kept,) = tmp_path.glob("as-compiled-*")
    assert kept.read_text() == "a as compiled"
    # For all rules once.
    assert len(asked) == 1


def test_a_search_goes_on_where_the_compiled_program_cannot_be_asked_of(
    searching: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> list[Script]:
        raise OpprofError("graph.json: an operator without a name")

    def hangs() -> list[Script]:
        time.sleep(60.0)
        return []

    for as_compiled, why in ((fails, "an operator without a name"), (hangs, BOX_OVER)):
        clock = Clock()
        clock.budget_seconds = clock.elapsed + 4
        table = Table(product({"a": 0.5, "b": 0.9}), nowhere=["b"])
        table.longest_seconds = 0.0
        search = searching(table, ["a", "b"], clock=clock, as_compiled=as_compiled, seconds=0.1)
        assert ends(search) == {"a": End.KEPT, "b": End.CONFLICT}
        assert why in capsys.readouterr().err
        assert clock.until_end > -5


def test_what_the_rules_have_for_a_program_that_compiles_otherwise_than_it_exports(
    script: Any, tmp_path: Path
) -> None:
    """Libraries build a mask that hides nothing where they are exported, and none where they are called."""
    path = script("""
        class Attention(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.q, self.k, self.v, self.o = (torch.nn.Linear(16, 16) for _ in range(4))

            def forward(self, x):
                q, k, v = (f(x).view(2, 7, 4, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
                scores = q @ k.transpose(-2, -1) * 0.5
                if torch.compiler.is_exporting():
                    scores = scores + torch.zeros(1, 1, 7, 7)
                return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(2, 7, 16)).tanh()


        def get_model_and_input():
            torch.manual_seed(0)
            return Attention().eval(), torch.randn(2, 7, 16)
    """)
    before = RunFolder(tmp_path / "run")
    profile_script(str(path), before.path, ProfileOptions(timed=1, traced=1, ceilings=False))
    loaded = load_model_script(path)
    how = OptimizeOptions()

    def applied(scripts: Sequence[Script], name: str) -> dict[str, int]:
        chosen = [one for one in scripts if one.name == "form-attention"]
        file = emit(chosen, tmp_path / name, model=str(path))[0]
        backend = load_backend(file)
        module, args = loaded.module, loaded.args
        with torch.no_grad():
            actual = torch.compile(module, backend=backend.BACKEND_NAME)(*args)
            assert relative_error(actual, module(*args)) < 1e-5
        return dict(backend.applied)

    exported = recommend(before.path, tmp_path / "rewrites").scripts
    assert applied(exported, "exported.py") == {"form-attention": 0}
    compiled = optimize_command._recommend_as_compiled(loaded, before, tmp_path, how)
    assert applied(compiled, "compiled.py") == {"form-attention": 1}

    # The exported graph has no place for it: its time would lie on the operators that it replaced.
    (kept,) = (one for one in compiled if one.name == "form-attention")
    kept = replace(kept, path=Path(shutil.copyfile(kept.path, tmp_path / "as-compiled-1.mlir")))
    outcome = Outcome(loaded.name, [], [], [], [kept], backend=tmp_path / "compiled.py")
    with _Result(RunFolder(tmp_path / "after"), None) as result:
        optimize_command._profile_after(Subject(loaded), outcome, before, result, how)
    profile = json.loads(result.folder.profile.read_text())
    timed = " ".join(node["name"] for node in profile["nodes"])
    assert "scaled_dot_product" in timed and "softmax" not in timed, timed


def test_of_two_that_want_the_same_nodes_the_better_one_stands(searching: Any) -> None:
    hides = [("a", "b"), ("b", "a")]
    search = searching(Table(product({"a": 0.9, "b": 0.5}), hides=hides), ["a", "b"])
    assert names_of(search.found.kept) == ["b"]
    assert ends(search) == {"a": End.CONFLICT, "b": End.KEPT}
    search = searching(Table(product({"a": 0.5, "b": 0.9}), hides=hides), ["a", "b"])
    assert names_of(search.found.kept) == ["a"]
    assert ends(search) == {"a": End.KEPT, "b": End.SLOWER}


def test_a_wrong_one_says_so(searching: Any) -> None:
    search = searching(Table(product({"a": 0.5}), wrong=["a"]), ["a"])
    assert ends(search) == {"a": End.WRONG}
    assert search.found.trials[0].reason == "equality: relative error 5e-01"


def test_predictions_below_noise_are_not_tried_alone(searching: Any) -> None:
    shares = {"a": 0.5, "b": 0.97, "c": 0.97}
    table = Table(product(shares))
    search = searching(table, ["a", "b", "c"], saves={"a": 400, "b": 2, "c": 1})
    assert ends(search) == {"a": End.KEPT, "b": End.NOISE, "c": End.NOISE}
    assert table.asked == [["a"]]
    assert "0.2% of a step" in search.found.trials[2].reason or "0.4%" in (
        search.found.trials[1].reason
    )


def test_what_short_steps_let_tell_from_noise_is_tried(searching: Any) -> None:
    # 1 % of a step is 10 ns before the second one, and 1 ns after it.
    shares = {"a": 0.9, "b": 0.1}
    search = searching(Table(product(shares)), ["a", "b"], saves={"a": 5, "b": 900})
    assert ends(search) == {"a": End.KEPT, "b": End.KEPT}


def test_small_ones_are_tried_together_where_that_can_be_told(searching: Any) -> None:
    shares = {"b": 0.97, "c": 0.97}
    search = searching(Table(product(shares)), ["b", "c"], saves={"b": 9, "c": 8})
    assert names_of(search.found.kept) == ["b", "c"]


def test_what_the_time_box_leaves_out_is_named(searching: Any) -> None:
    search = searching(Table(product({"a": 0.5})), ["a"], clock=Clock(0.0))
    assert ends(search) == {"a": End.LEFT_OUT}
    assert "time box" in search.found.trials[0].reason


# ---------------------------------------------------------------------------------------------------------------------
# Its parts
# ---------------------------------------------------------------------------------------------------------------------


def test_what_compiles_beyond_the_end_of_the_time_box_is_ended(searching: Any) -> None:
    class Slow(Table):
        def build(self, scripts: Sequence[Script]) -> Built:
            time.sleep(60.0)
            return super().build(scripts)

    clock = Clock()
    clock.budget_seconds = clock.elapsed + 5
    table = Slow(product({"a": 0.5}))
    # Of the box it needs a tenth: it is begun on a busy machine too.
    table.longest_seconds = 0.0
    search = searching(table, ["a"], clock=clock, seconds=0.5)
    (trial,) = search.found.trials
    assert (trial.end, trial.reason) == (End.LEFT_OUT, f"{BOX_OVER} while it was compiled")
    assert clock.until_end > -5


def test_what_compiles_leaves_the_time_in_which_what_is_kept_is_proven(searching: Any) -> None:
    class SlowSecond(Table):
        def build(self, scripts: Sequence[Script]) -> Built:
            if len(scripts) > 1:
                time.sleep(60.0)
            return super().build(scripts)

    clock = Clock()
    clock.budget_seconds = clock.elapsed + 65
    clock.reserve(0.0, once_kept=60.0)
    table = SlowSecond(product({"a": 0.5, "b": 0.5}))
    table.longest_seconds = 0.0
    search = searching(table, ["a", "b"], clock=clock, seconds=0.5)
    assert ends(search) == {"a": End.KEPT, "b": End.LEFT_OUT}
    assert clock.until_end > 45


def test_the_time_box() -> None:
    assert Clock().left == float("inf")
    clock = Clock(1e6)
    clock.reserve(10.0, once_kept=5e5)
    assert clock.allows(9e5) and not clock.allows(1e6)
    clock.found()
    assert clock.allows(4e5) and not clock.allows(9e5)
    for _ in range(2):
        with clock.phase("a"):
            time.sleep(0.01)
    assert 0.02 <= clock.phases["a"] < 5


def test_a_clear_difference_needs_little_time(subject: Subject) -> None:
    start = time.monotonic()
    measurement = compare(
        subject, lambda x: time.sleep(4e-3), lambda x: time.sleep(1e-3), seconds=60
    )
    assert time.monotonic() - start < 30
    assert measurement.wins("candidate", "best")[0]
    assert 15 <= len(measurement.first["best"]) == len(measurement.first["candidate"])


def test_a_strategy_is_read_of_the_backend() -> None:
    source = "STRATEGY = Strategy()\nSTRATEGY = replace(STRATEGY, freeze=True)\n"
    source += "STRATEGY = replace(STRATEGY, precision=torch.float16)\n"
    assert strategy_of(source) == {"freeze": "True", "precision": "torch.float16"}


def test_two_scripts_that_set_one_thing_exclude_each_other(
    subject: Subject, tmp_path: Path
) -> None:
    (tmp_path / "candidates").mkdir()
    workshop = Workshop(subject, tmp_path / "candidates", 1e-3)
    half = region(tmp_path / "rewrites", 1, "half", 'freeze, precision = "float16"')
    brain = region(tmp_path / "rewrites", 2, "brain", 'precision = "bfloat16"')
    other = region(tmp_path / "rewrites", 3, "tf32", "tf32")
    freeze = region(tmp_path / "rewrites", 4, "freeze", "freeze")
    assert workshop.excluded(brain, [half, freeze]) == [half]
    assert workshop.excluded(other, [half]) == [half]
    assert workshop.excluded(freeze, [half]) == []
    built = workshop.build([freeze])
    assert built.failure is None and workshop.build([freeze]) is built


def test_what_no_graph_follows_is_none_of_what_is_measured(
    subject: Subject, tmp_path: Path
) -> None:
    """A CUDA graph that cannot be captured leaves the program as it was: it would be kept with what it stands beside."""
    workshop = Workshop(subject, tmp_path / "candidates", 1e-3)
    freeze = region(tmp_path / "scripts", 1, "freeze", "freeze")
    graph = region(tmp_path / "scripts", 2, "graph", "cuda_graph")
    assert workshop.build([freeze]).failure is None
    for scripts in ([graph], [freeze, graph]):
        failure = workshop.build(scripts).failure
        assert failure is not None
        assert failure.startswith("strategy: graph: its inputs are not on a GPU")


def test_every_recipe_takes_and_gives_float32(subject: Subject) -> None:
    (x,) = subject.script.args
    found = {recipe.name: recipe for recipe in recipes(subject)}
    assert {"eager", "Inductor", "max-autotune"} < set(found)
    for recipe in found.values():
        baseline = make_baseline(recipe, subject, 2e-2)
        assert baseline.reason == "" and baseline.allowed, recipe.name
        assert baseline.program is not None
        result: Tensor = baseline.program(x)
        assert result.dtype is torch.float32, recipe.name
    (narrow,) = [recipe for name, recipe in found.items() if "bfloat16" in name]
    baseline = make_baseline(narrow, subject, 1e-3)
    assert baseline.error is not None and baseline.error > 1e-3 and not baseline.allowed


def test_a_captured_recipe_gives_what_the_model_gives(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script("""
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = torch.nn.Linear(8, 8)

            def forward(self, x, ids, *, scale):
                return {"y": self.first(x) * scale, "ids": ids + 1, "n": 3}


        def get_model_and_input():
            inputs = {"x": torch.randn(4, 8), "ids": torch.arange(4), "scale": 2.0}
            return Model().eval(), inputs
    """)

    class Replayed:
        """A CUDA graph on a machine that has none: it runs what was captured."""

        def __init__(self, function: Any, inputs: Sequence[Tensor], device: torch.device) -> None:
            self.function = function
            assert device == inputs[0].device
            assert [value.dtype for value in inputs] == [torch.float32, torch.int64]
            function(*inputs)

        def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
            return [result.clone() for result in self.function(*inputs)]

    monkeypatch.setattr(baselines, "CapturedGraph", Replayed)
    torch._dynamo.reset()
    made = Subject(load_model_script(path))
    program = baselines._captured(made, torch.bfloat16)
    for seed in (1, 2):
        _, inputs = made.inputs(seed)
        expected, result = made.eager(**inputs), program(**inputs)
        assert result["n"] == 3 and torch.equal(result["ids"], expected["ids"])
        assert result["y"].dtype is torch.float32
        assert 1e-5 < relative_error(result["y"], expected["y"]) < 2e-2


def test_loops_are_timed_beside_single_steps_on_a_gpu(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {"slow": lambda x: time.sleep(2e-3), "fast": lambda x: time.sleep(5e-4)}
    assert measure_all(subject, programs, seconds=0.1).loop == {}
    monkeypatch.setattr(type(subject.script), "device_type", "cuda")
    timing = measure_all(subject, programs, seconds=0.1)
    assert timing.loop["slow"] > timing.loop["fast"] > 4e5
    assert timing.latency.median("slow") > timing.latency.median("fast")


def test_predictions_know_what_bounds_a_step(searching: Any) -> None:
    """Kernels that are shorter than their launches save nothing more, until one graph launches them."""
    times = {
        frozenset(): 1000,
        frozenset({"half"}): 650,
        frozenset({"graph"}): 1000,
        frozenset({"half", "graph"}): 210,
        frozenset({"tf32", "graph"}): 400,
    }
    strategies = {
        "half": {"precision": "torch.float16"},
        "graph": {"cuda_graph": "True"},
        "tf32": {"tf32": "True"},
    }
    table = Table(times.__getitem__, strategies=strategies)
    found = searching(
        table,
        ["half", "graph", "tf32"],
        {"half": 800, "graph": 0, "tf32": 600},
        model=StepModel(kernel_ns=950, host_ns=600, rest_ns=50),
    ).found
    trials = {trial.script.name: trial for trial in found.trials}
    assert [one.name for one in found.kept] == ["half", "graph"]
    # 950 − 800 of kernels, and the host's 600; then the kernels alone; then 200 more in kernels.
    # They are compiled once, together.
    assert ["half"] not in table.asked[:1] and table.asked[0] == ["half", "graph"]
    assert {name: trial.predicted_ns for name, trial in trials.items()} == {
        "half": 800,
        "graph": 800,
        "tf32": -200,
    }
    assert {name: trial.saved_ns for name, trial in trials.items()} == {
        "half": 790,
        "graph": 790,
        # It would take the place of what saves more: nothing is compiled for it.
        "tf32": None,
    }
    assert trials["tf32"].end is End.LEFT_OUT and "place of “half”" in trials["tf32"].reason


def test_what_is_predicted_to_save_most_now_is_next(searching: Any) -> None:
    """A captured graph saves more once kernels are short, and a box may end before what saves less."""
    share = {"half": 0.6, "merge": 0.95, "own": 1.0, "graph": 0.5, "late": 0.9}
    table = Table(product(share), strategies={"graph": {"cuda_graph": "True"}})
    searching(
        table,
        ["half", "merge", "graph", "own", "late"],
        {"half": 700, "merge": 60, "graph": 0, "late": 900},
        model=StepModel(kernel_ns=950, host_ns=600, rest_ns=50),
    )
    # Of `own` nothing is known, and what comes behind it stays there.
    tried = dict.fromkeys(name for names in table.asked for name in names)
    assert list(tried) == ["half", "graph", "merge", "own", "late"]


def test_what_is_slower_with_a_graph_is_tried_without(searching: Any) -> None:
    times = {
        frozenset(): 1000,
        frozenset({"half"}): 700,
        frozenset({"graph"}): 1600,
        frozenset({"half", "graph"}): 1120,
    }
    table = Table(
        times.__getitem__,
        strategies={"half": {"precision": "torch.float16"}, "graph": {"cuda_graph": "True"}},
    )
    search = searching(
        table,
        ["half", "graph"],
        {"half": 800, "graph": 100},
        model=StepModel(kernel_ns=950, host_ns=600, rest_ns=50),
    )
    assert names_of(search.found.kept) == ["half"]
    assert ends(search) == {"half": End.KEPT, "graph": End.SLOWER}
    assert [trial.together for trial in search.found.trials] == [[], []]


def test_what_is_said_of_several_names_them(searching: Any) -> None:
    table = Table(
        product({"half": 0.6, "graph": 0.5}),
        strategies={"half": {"precision": "torch.float16"}, "graph": {"cuda_graph": "True"}},
    )
    search = searching(
        table,
        ["half", "graph"],
        {"half": 800, "graph": 100},
        model=StepModel(kernel_ns=950, host_ns=600, rest_ns=50),
    )
    said = {trial.script.name: trial for trial in search.found.trials}
    assert said["half"].reason.endswith(", with “graph”")
    assert said["graph"].reason.endswith(", with “half”")
    assert [names_of(trial.together) for trial in search.found.trials] == [["graph"], ["half"]]


@pytest.mark.parametrize(
    ("wrong", "fails", "kept", "tried"),
    [
        # A graph changes no value: it is judged by itself, and float32 kernels keep the device busy as they are.
        (["half"], [], [], [["half", "graph"]]),
        # Where it cannot be captured, the other one can stand alone.
        ([], ["graph"], ["half"], [["half", "graph"], ["half"], ["half", "graph"]]),
    ],
)
def test_what_fails_in_one_graph_is_tried_without(
    searching: Any, wrong: list[str], fails: list[str], kept: list[str], tried: list[list[str]]
) -> None:
    table = Table(
        product({"half": 0.6, "graph": 0.5}),
        strategies={"half": {"precision": "torch.float16"}, "graph": {"cuda_graph": "True"}},
        wrong=wrong,
        fails=fails,
    )
    search = searching(
        table,
        ["half", "graph"],
        {"half": 800, "graph": 100},
        model=StepModel(kernel_ns=950, host_ns=600, rest_ns=50),
    )
    assert names_of(search.found.kept) == kept and table.asked == tried
    assert ends(search)["graph"] is (End.NOISE if wrong else End.FAILED)
    assert len(search.found.trials) == 2


def test_what_is_doubtful_comes_behind_the_levels_that_are_within_the_budget(
    searching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategies = {"half": {"precision": "torch.float16"}, "levels": {"regions": "((…),)"}}
    table = Table(product({"half": 0.5, "levels": 0.6}), strategies=strategies)
    take_all = Search._take_all

    def with_levels(search: Search) -> None:
        search.doubtful = search.instead_of_regions = [search.scripts[0]]
        search.regions = search.scripts[1]
        take_all(search)

    monkeypatch.setattr(Search, "_take_all", with_levels)
    search = searching(
        table,
        ["half", "levels"],
        {"half": 500, "levels": 400},
        model=StepModel(kernel_ns=950, host_ns=100),
    )
    assert table.asked[:2] == [["levels"], ["half"]]
    assert names_of(search.found.kept) == ["half"]


def test_every_candidate_has_its_prediction(searching: Any) -> None:
    """What is not tried too; and once something is kept of which none was made, the rule's own is all that is known."""
    times = {frozenset(): 1000, frozenset({"own"}): 500, frozenset({"own", "half"}): 500}
    found = searching(
        Table(lambda names: times[names]),
        ["own", "half", "tiny"],
        {"half": 800, "tiny": 1},
        model=StepModel(kernel_ns=950, host_ns=600),
    ).found
    ends = {trial.script.name: (trial.end, trial.predicted_ns) for trial in found.trials}
    assert ends == {"own": (End.KEPT, None), "half": (End.SLOWER, 800), "tiny": (End.NOISE, 1)}


def test_what_is_saved_of_kernels_is_a_share_of_what_is_left_of_them() -> None:
    model = StepModel(kernel_ns=1000, host_ns=100)
    half = model.saving(800, captured=True)
    assert (half.step_ns, half.saving(500).step_ns) == (200, 100)
    # Measured shorter than predicted: the kernels cannot be longer than the step.
    shorter = half.measured(100)
    assert (shorter.step_ns, shorter.saving(500).step_ns) == (100, 50)
    # What takes the place of another changes the kernels as they were profiled.
    assert half.saving(600, instead_ns=800).step_ns == 400
    assert half.measured(250).step_ns == half.measured(250).saving(0).step_ns == 250


def test_a_host_that_is_no_longer_late_leaves_less_to_save() -> None:
    """Of a ResNet-50 whose steps took 4875 µs at first, and 2575 beside the trial that predicted 4393 µs less."""
    model = StepModel(kernel_ns=2300, host_ns=4700, rest_ns=175)
    captured = model.saving(1900, captured=True)
    assert captured.step_ns == 575
    again = model.measured_again(2575)
    assert again.step_ns == 2575 and again.saving(1900, captured=True).step_ns == 575
    # A host that is later now, too: what a graph saves of it.
    assert model.measured_again(9000).saving(1900, captured=True).step_ns == 575
    # Of kernels that bound a step, what is longer is nobody's.
    busy = StepModel(kernel_ns=900, host_ns=100, rest_ns=50)
    assert busy.measured_again(1000).saving(300).step_ns == 700
    assert captured.measured_again(600).step_ns == 600


def test_a_prediction_is_of_the_step_that_was_measured_beside_it(searching: Any) -> None:
    times = {frozenset(): 1000, frozenset({"graph"}): 320}
    table = Table(times.__getitem__, strategies={"graph": {"cuda_graph": "True"}})
    # The host was later when the program was measured alone.
    search = searching(table, ["graph"], {"graph": 0}, model=StepModel(kernel_ns=300, host_ns=1600))
    (trial,) = search.found.trials
    assert (trial.before_ns, trial.predicted_ns, trial.saved_ns) == (1000, 700, 680)


def test_the_kernels_of_a_steady_step() -> None:
    kernels = [
        {"phase": phase, "duration_ns": ns}
        for phase, ns in (("warm-up", 900), ("steady", 40), ("steady", 60), ("steady", 80))
    ]
    steps = [{"phase": "warm-up"}, {"phase": "steady"}, {"phase": "steady"}]
    assert kernel_time({"steps": steps, "kernels": kernels}) == 90
    assert kernel_time({"steps": steps[:1], "kernels": kernels}) is None


def test_as_many_processes_compile_ahead_as_the_machine_has_room_for(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda pid: set(range(16)))
    monkeypatch.setattr(ahead.os, "sysconf", lambda name: {"SC_PAGE_SIZE": 1}.get(name, 64 << 30))
    assert worker_count(subject.script) == 8
    monkeypatch.setattr(ahead.os, "sysconf", lambda name: {"SC_PAGE_SIZE": 1}.get(name, 8 << 30))
    assert worker_count(subject.script) == 2
    monkeypatch.setattr(ahead.os, "sysconf", lambda name: {"SC_PAGE_SIZE": 1}.get(name, 6 << 30))
    # One, and the command itself.
    assert worker_count(subject.script) == 0
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda pid: {0, 1})
    assert worker_count(subject.script) == 0


def test_a_recipe_that_fails_says_so(subject: Subject) -> None:
    def make(subject: Subject) -> Any:
        raise NotImplementedError("not this one\nat all")

    baseline = make_baseline(Recipe("none", (), make), subject, 1e-3)
    assert baseline.reason == "fails: NotImplementedError: not this one"


def test_a_recipe_that_chooses_kernels_for_too_long_is_left_out(subject: Subject) -> None:
    def make(subject: Subject) -> Any:
        while True:
            # As Inductor's choice of kernels does, where one of them fails.
            with contextlib.suppress(Exception):
                time.sleep(0.01)

    slow = Recipe("slow", (), make, tunes_float32=True)
    baseline = make_baseline(slow, subject, 1e-3, limit=0.2)
    assert baseline.reason == "left out: choosing its kernels takes longer than 0 s"
    assert baseline.program is None and signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert make_baseline(Recipe("eager", (), lambda s: s.eager), subject, 1e-3, limit=60).allowed


def test_what_is_ended_leaves_no_compilation_that_the_command_waits_for(tmp_path: Path) -> None:
    program = tmp_path / "command.py"
    program.write_text(
        "import time\n"
        "from opprof.search.clock import TimeIsUp, limited\n"
        "if __name__ == '__main__':\n"
        "    import torch._inductor.config\n"
        "    torch._inductor.config.compile_threads = 2\n"
        "    from torch._inductor.async_compile import AsyncCompile\n"
        "    try:\n"
        "        with limited(3):\n"
        "            future = AsyncCompile.process_pool().submit(time.sleep, 250)\n"
        "            time.sleep(600)\n"
        "    except TimeIsUp:\n"
        "        print(future.done(), AsyncCompile.process_pool().submit(len, 'abc').result())\n"
    )
    start = time.monotonic()
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("True 3\n", "") and time.monotonic() - start < 200


def test_a_candidate_that_chooses_kernels_for_too_long_is_left_out(
    searching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(product({"half": 0.5}), strategies={"tuned": {"autotune": "True"}})
    build = table.build
    monkeypatch.setattr(explore, "_TUNING_SECONDS", 0.2)
    # In no search it has taken long to get here.
    monkeypatch.setattr(Clock, "elapsed", property(lambda self: 0.0))

    def slow(scripts: Sequence[Script]) -> Built:
        while "tuned" in names_of(scripts):
            with contextlib.suppress(Exception):
                time.sleep(0.01)
        return build(scripts)

    monkeypatch.setattr(table, "build", slow)
    found = searching(table, ["tuned", "half"]).found
    trials = {trial.script.name: trial for trial in found.trials}
    assert trials["tuned"].end is End.LEFT_OUT
    assert trials["tuned"].reason == "choosing its kernels takes longer than 1 s"
    assert names_of(found.kept) == ["half"]


def test_an_ablation_that_chooses_kernels_for_too_long_is_left_out(
    searching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(product({"half": 0.5, "tuned": 0.8}), strategies={"tuned": {"autotune": "True"}})
    build = table.build
    monkeypatch.setattr(explore, "_TUNING_SECONDS", 0.2)
    monkeypatch.setattr(Clock, "elapsed", property(lambda self: 0.0))

    def slow(scripts: Sequence[Script]) -> Built:
        # Kernels of float32 are others than those of the half that was chosen before.
        while names_of(scripts) == ["tuned"]:
            with contextlib.suppress(Exception):
                time.sleep(0.01)
        return build(scripts)

    monkeypatch.setattr(table, "build", slow)
    found = searching(table, ["half", "tuned"]).found
    assert names_of(found.kept) == ["half", "tuned"]
    ablations = {ablation.without.name: ablation for ablation in found.ablations}
    assert ablations["half"].gain is None
    assert ablations["half"].reason == "left out: choosing its kernels takes longer than 1 s"
    assert ablations["tuned"].gain is not None


def test_what_is_ended_cleans_up_and_leaves_no_thread_at_work() -> None:
    began, cleaned = [], []
    pool = ThreadPoolExecutor(2)

    def work(number: int) -> None:
        began.append(number)
        time.sleep(0.3)

    def block() -> None:
        with limited(0.2):
            try:
                for number in range(100):
                    pool.submit(work, number)
                time.sleep(60)
            finally:
                time.sleep(1.2)
                cleaned.append(True)

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeIsUp):
        block()
    assert cleaned and signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is before
    # What had begun has ended, and nothing else begins.
    count = len(began)
    assert 2 <= count < 20
    time.sleep(0.5)
    assert len(began) == count
    pool.shutdown()


def test_a_prediction_that_a_measurement_refuted_leaves_nothing_out(searching: Any) -> None:
    times = {
        frozenset(): 1000,
        frozenset({"half"}): 950,
        frozenset({"tf32"}): 500,
    }
    strategies = {"half": {"precision": "torch.float16"}, "tf32": {"tf32": "True"}}
    found = searching(
        Table(times.__getitem__, strategies=strategies),
        ["half", "tf32"],
        {"half": 800, "tf32": 600},
        model=StepModel(kernel_ns=1000, host_ns=100),
    ).found
    assert names_of(found.kept) == ["tf32"]


def test_the_least_time_of_products_is_not_above_what_they_take(subject: Subject) -> None:
    least = least_float32_ns(subject)
    start = time.perf_counter_ns()
    subject.eager(*subject.script.args)
    assert 0 < least < time.perf_counter_ns() - start


def test_products_of_a_module_that_is_given_a_parameter_are_counted() -> None:
    # As DeBERTa's attention is given the table of relative positions: hooks of PyTorch's own counter fail there.
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.project = (
                torch.nn.Parameter(torch.randn(8, 16)),
                torch.nn.Linear(16, 4),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.project(self.table).t()

    model = Model()
    counter = _ProductFlops()
    for enter in (torch.no_grad, torch.inference_mode):
        counter.flops = 0
        with enter(), counter:
            model(torch.randn(2, 4))
        assert counter.flops == 2 * 8 * 16 * 4 + 2 * 2 * 4 * 8


def test_products_beside_a_branch_are_counted() -> None:
    weight = torch.randn(8, 8)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x @ weight,))

    counter = _ProductFlops()
    with torch.no_grad(), counter:
        function(torch.randn(4, 8))
    assert counter.flops == 2 * 4 * 8 * 8


def test_in_the_place_of_results_there_are_zeros_like_them() -> None:
    seen: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        seen.append(results_like(module))
        return module.forward

    def function(x: torch.Tensor) -> Any:
        return x.t() * 2, x.sum(0) + 1

    torch.compile(function, backend=backend)(torch.randn(4, 3))
    assert seen[0] is not None
    for own, expected in zip(seen[0](), function(torch.randn(4, 3)), strict=True):
        assert (own.shape, own.stride(), own.dtype) == (
            expected.shape,
            expected.stride(),
            expected.dtype,
        )
        assert not own.any()
    torch.compile(function, backend=backend, dynamic=True)(torch.randn(6, 5))
    assert seen[1] is None


def test_compiling_ahead_runs_no_compiled_program(
    subject: Subject,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "candidates").mkdir()
    script = region(tmp_path / "rewrites", 1, "freeze", "freeze")
    file = Workshop(subject, tmp_path / "candidates", 1e-3).file([script])
    ran: list[int] = []
    subject.script.module.register_forward_hook(lambda *_: ran.append(1))
    for job in (
        Job(backend=file),
        Job(options=(("max_autotune", False),)),
        Job(options=(("freezing", True),), dtype=torch.bfloat16),
    ):
        compile_only(subject, job)
    assert len(ran) == 3
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    with Ahead(subject.script, 2) as ahead:
        # Each once.
        jobs = [Job(content="a", backend=file), Job()]
        ahead.add([*jobs, None, Job()])
        for job in jobs:
            ahead.wait_for(job)
    assert "ended early" not in capsys.readouterr().err
    # What this process would find there.
    assert list((tmp_path / "cache" / "fxgraph").iterdir())


def test_what_was_compiled_ahead_is_not_compiled_to_be_tried_and_what_was_tried_not_to_be_proven(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "candidates").mkdir()
    store = GraphStore(tmp_path / "store")
    workshop = Workshop(subject, tmp_path / "candidates", 1e-3, store)
    # Frozen weights of a CPU are packed, which no cache takes.
    scripts = [region(tmp_path / "rewrites", 1, "prologue", "prologue")]
    with Ahead(subject.script, 2, store) as ahead:
        ahead.add([workshop.job(scripts)])
        # Of another name, and the same.
        ahead.wait_for(workshop.job([region(tmp_path / "others", 2, "prologue", "prologue")]))
        assert ahead._done[0] == 1
    counters.clear()
    built = workshop.build(scripts)
    assert built.failure is None and built.program is not None
    assert counters["inductor"]["fxgraph_cache_hit"] >= 1
    assert counters["inductor"]["fxgraph_cache_miss"] == 0
    counters.clear()
    outcome = Outcome("proven", [], [], [], kept=scripts)
    with _Result(RunFolder(tmp_path / "after"), store) as result:
        program = _prove(subject, outcome, built, tmp_path / "proven.py", result, OptimizeOptions())
        assert program is built.program and result.program is program
        assert not counters["inductor"]
        (entrant,) = outcome.entrants
        assert entrant.allowed and entrant.error == built.verdict.error
        assert [line.split()[1] for line in outcome.checks][:4] == [
            "syntax",
            "import",
            "registration",
            "program",
        ]
        assert result.compiled
        for name in result.compiled:
            folder = result.folder.scratch / name
            assert (folder / OUTPUT_CODE).is_file() and (folder / POST_GRAD).is_file()


def test_another_text_than_was_tried_is_compiled_and_checked_itself(
    subject: Subject, tmp_path: Path
) -> None:
    (tmp_path / "candidates").mkdir()
    workshop = Workshop(subject, tmp_path / "candidates", 1e-3)
    built = workshop.build([region(tmp_path, 1, "prologue", "prologue")])
    outcome = Outcome("other", [], [], [], kept=[])
    with _Result(RunFolder(tmp_path / "after"), None) as result:
        program = _prove(subject, outcome, built, tmp_path / "other.py", result, OptimizeOptions())
    assert program is not None and program is not built.program
    assert not any(line.split()[1] == "program" for line in outcome.checks)


def test_a_program_that_errs_after_it_was_tried_is_not_proven(
    subject: Subject, tmp_path: Path
) -> None:
    (tmp_path / "candidates").mkdir()
    workshop = Workshop(subject, tmp_path / "candidates", 1e-3)
    scripts = [region(tmp_path, 1, "prologue", "prologue")]
    built = workshop.build(scripts)
    right = built.program
    assert right is not None
    built.program = lambda *inputs, **named: tree_map(
        lambda leaf: leaf + 1, right(*inputs, **named)
    )
    outcome = Outcome("errs", [], [], [], kept=scripts)
    with _Result(RunFolder(tmp_path / "after"), None) as result:
        assert (
            _prove(subject, outcome, built, tmp_path / "errs.py", result, OptimizeOptions()) is None
        )
    (entrant,) = outcome.entrants
    assert not entrant.allowed
    assert any("FAILED  equality" in line for line in outcome.checks)


def test_what_a_search_needs_in_any_case_is_there_before_the_profile(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    early = tmp_path / "early"
    early.mkdir()
    with Ahead(subject.script, 2) as ahead:
        between: list[int] = []
        explored = explore.prepare_early(subject, 2e-2, ahead, early, lambda: between.append(1))
        precision = explored.precision
        assert between
        assert precision is not None and precision.fits(2e-2)
        assert (early / "bfloat16.mlir").is_file() and (early / "candidate_bfloat16.py").is_file()
        for job in list(ahead._numbers):
            ahead.wait_for(job)
        assert explored.inductor.program is subject.inductor and explored.inductor.allowed
        counters.clear()
        subject.run(subject.inductor, 11)
        assert not counters["inductor"]
        # What the rule writes for it later has the same graph.
        search = Search(
            subject, [], tmp_path, tmp_path, SearchOptions(2e-2), Clock(), ahead, explored
        )
        monkeypatch.delattr(explore, "explore_precision")
        search._find_precision()
        inductor = next(way for way in baselines.recipes(subject) if way.name == baselines.INDUCTOR)
        search._add_baseline(inductor)
        assert search.found.baselines == [explored.inductor]
        assert search.inductor_seconds == explored.seconds > 0
        # What failed beside others is made again.
        explored.inductor = replace(explored.inductor, program=None, reason="fails: no memory")
        search._add_baseline(inductor)
        assert search.found.baselines[1].program is subject.inductor


def test_jobs_are_waited_for_as_long_as_is_said(subject: Subject) -> None:
    with Ahead(subject.script, 1) as ahead:
        wrong, other = Job(options=(("no such option", 1),)), Job()
        ahead.add([wrong])
        # It has failed there, which is said where it fails again.
        assert not ahead.wait_for(wrong)
        assert ahead._done[0]
        ahead.add([other, Job(options=(("freezing", True),))])
        start = time.monotonic()
        ahead.wait_for(other, 0.2)
        # Nobody is at this one.
        ahead.wait_for(Job(options=(("freezing", True),)))
        assert time.monotonic() - start < 60
        assert list(ahead._done[1:3]) == [0, 0]


def state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]


def test_what_compiles_ahead_stands_still_while_something_runs(subject: Subject) -> None:
    with Ahead(subject.script, 2) as ahead:
        ids = [process.pid or 0 for process in ahead._processes]
        states: list[tuple[str, bool]] = []

        def note(what: str) -> None:
            states.append((what, all(state_of(process) == "T" for process in ids)))

        def backend(graph: Any, inputs: Any) -> Any:
            note("compiles")

            def run(*values: Any) -> Any:
                note("runs")
                return graph(*values)

            return run

        x = torch.randn(32, 64)
        with ahead.beside_compilation():
            for mode in (True, False):
                torch.compile(subject.script.module, backend=backend, dynamic=mode)(x)
            torch._dynamo.reset()
        note("after")
        with ahead.quiet(), ahead.quiet():
            note("quiet")
        note("after")
    assert states == [
        *[("compiles", False), ("runs", True)] * 2,
        *[("after", False), ("quiet", True), ("after", False)],
    ]


def test_a_model_is_loaded_by_who_has_a_job(tmp_path: Path, script: Callable[..., Path]) -> None:
    file = script(MODEL + f"\nopen({str(tmp_path / 'loaded')!r}, 'a').write('x')\n")
    subject = Subject(load_model_script(file))
    with Ahead(subject.script, 2) as one:
        one.add([Job()])
        assert one.wait_for(Job())
        assert sum(map(bool, one._taken)) == 1
    # Here, and by the one.
    assert (tmp_path / "loaded").read_text() == "xx"


def test_on_a_gpu_no_other_process_is_waited_for(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    class Others(Ahead):
        def wait_for(self, job: Job | None, seconds: float = float("inf")) -> bool:
            asked.append(seconds)
            return False

    others = Others(subject.script, 0)
    for device in ("cpu", "cuda"):
        monkeypatch.setattr(type(subject.script), "device_type", device)
        search = Search(subject, [], tmp_path, tmp_path, SearchOptions(1e-3), Clock(), others)
        assert not search._wait_for_job(Job(), 5.0)
    assert asked == [math.inf, 0.0]


def test_who_stands_still_goes_on_where_quiet_takes_too_long(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_STILL_SECONDS", 0.2)
    with Ahead(subject.script, 1) as one, one.quiet():
        process = one._processes[0].pid or 0
        assert state_of(process) == "T"
        end = time.monotonic() + 60
        while state_of(process) == "T":
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_profile_is_not_timed_before_the_command_has_nothing_else_to_do(
    tmp_path: Path,
    script: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_work: list[bool] = []
    folder = RunFolder(tmp_path / "run")

    def work(*_: Any) -> None:
        wait_for_code(folder)
        # What comes next takes less.
        time.sleep(5)
        at_work.append(folder.trace.exists())

    monkeypatch.setattr(optimize_command, "_has_idle_cores", lambda: True)
    monkeypatch.setattr(optimize_command, "_load_early", work)
    with contextlib.ExitStack() as stack:
        optimize_command._profile(
            str(script(MODEL)), folder.path, OptimizeOptions(), Clock(), stack
        )
    assert at_work == [False]
    assert folder.trace.exists() and folder.profile.is_file()


def test_a_profile_that_is_killed_while_it_waits_is_said_to_be(
    tmp_path: Path, script: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    server = start_server()
    before = children_of_the_server()

    def work(*_: Any) -> None:
        wait_for_code(folder)
        time.sleep(3)
        for process in children_of_the_server() - before:
            os.kill(process, signal.SIGKILL)

    monkeypatch.setattr(optimize_command, "_has_idle_cores", lambda: True)
    monkeypatch.setattr(optimize_command, "_load_early", work)
    assert server is not None
    with (
        pytest.raises(OpprofError, match="was ended from outside"),
        contextlib.ExitStack() as stack,
    ):
        optimize_command._profile(
            str(script(MODEL)), folder.path, OptimizeOptions(), Clock(), stack
        )


def wait_for_code(folder: RunFolder) -> None:
    """Until a graph is compiled. Folders move meanwhile."""
    while True:
        with contextlib.suppress(OSError):
            if list(folder.path.rglob(OUTPUT_CODE)):
                return
        time.sleep(0.05)


def children_of_the_server() -> set[int]:
    """What `begin` has begun and is alive."""
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    found: set[int] = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = file.read_text().rpartition(") ")[2].split()[:2]
            if int(parent) == server and state != "Z":
                found.add(int(file.parent.name))
    return found


def test_what_a_killed_process_was_at_is_not_waited_for(subject: Subject) -> None:
    with Ahead(subject.script, 2) as ahead:
        ahead.add([Job()])
        while not any(ahead._taken):
            time.sleep(0.01)
        (place,) = (place for place, number in enumerate(ahead._taken) if number)
        ahead._processes[place].kill()
        ahead._processes[place].join()
        start = time.monotonic()
        ahead.wait_for(Job())
        assert time.monotonic() - start < 300


def test_jobs_of_any_size_are_left_to_whoever_lives(subject: Subject) -> None:
    """Nobody waits for room in a pipe, and who is killed holds nothing that others need."""
    with Ahead(subject.script, 2) as ahead:
        last = Job(options=(("freezing", True),))
        ahead.add([Job()])
        assert ahead.wait_for(Job(), 300) or any(ahead._taken)
        ahead._processes[0].kill()
        ahead._processes[0].join()
        # The one that is left may be loading still.
        ahead.add([last])
        end = time.monotonic() + 300
        while not ahead._done[1] and time.monotonic() < end:
            time.sleep(0.02)
        assert ahead._done[1]
        ahead._processes[1].kill()
        ahead.add(Job(content="x" * 10_000, options=(("number", n),)) for n in range(100))
        folder = Path(ahead._folder)
        assert len(list(folder.glob("*.job"))) == 100
        assert all(file.stat().st_size < 1000 for file in folder.iterdir())
    assert not folder.exists()


CHILD = """
import multiprocessing, subprocess
if multiprocessing.parent_process() is not None:
    subprocess.Popen(["sleep", "600"])
"""


def members_of(session: int) -> set[int]:
    """The processes of a session that have not ended."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = file.read_text().rpartition(") ")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.add(int(file.parent.name))
    return found


def test_what_processes_began_ends_with_them(script: Callable[..., Path]) -> None:
    with Ahead(load_model_script(script(CHILD + MODEL)), 1) as one:
        worker = one._processes[0].pid or 0
        # Who has no job loads nothing.
        one.add([Job()])
        end = time.monotonic() + 300
        while len(members_of(worker)) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        one.end()
        end = time.monotonic() + 10
        while members_of(worker) and time.monotonic() < end:
            time.sleep(0.02)
        assert not members_of(worker)


# ---------------------------------------------------------------------------------------------------------------------
# What it comes to
# ---------------------------------------------------------------------------------------------------------------------


def entrant(name: str, latency_ns: int | None, *, allowed: bool = True) -> Entrant:
    return Entrant(name, (f"{name}()",), 1e-4, allowed, latency_ns)


def test_a_recipe_is_used_where_no_simpler_one_is_as_fast() -> None:
    outcome = Outcome(
        "model",
        [
            entrant("eager", 1100),
            entrant("Inductor", 1005),
            entrant("float16", 500, allowed=False),
            entrant("max-autotune", 1000),
            entrant(OPTIMIZED, 999),
        ],
        [Trial(Script(Path("a.mlir"), "a"), End.KEPT, "won")],
        [],
        [Script(Path("a.mlir"), "a")],
    )
    assert outcome.best_recipe is not None and outcome.best_recipe.name == "max-autotune"
    outcome.be_beaten("no gain")
    assert (outcome.use, outcome.kept, outcome.backend) == ("Inductor", [], None)
    facts = facts_of(outcome)
    assert facts["lines"] == ["Inductor()"]
    assert facts["trials"][0]["end"] == "beaten"


def test_what_no_rule_sees_is_said_where_none_has_anything_to_offer(tmp_path: Path) -> None:
    """A recurrent layer of packed sequences: Dynamo hands it to no backend, and rules look at graphs."""
    call = {"function": "forward", "source": "model.py:9", "compile_ns": 1}
    failed = {**call, "failed": "Attempted to wrap RNN, GRU, or LSTM"}
    compilations = [{**call, "id": "0/0"}, {**failed, "id": "1/0"}, {**failed, "id": "1/1"}]
    (tmp_path / "run.json").write_text(json.dumps({"compilations": compilations}))
    (line,) = unseen_by_rules(tmp_path)
    expected = "no rule sees forward (model.py:9), which torch.compile leaves as it is: "
    assert line == expected + failed["failed"]
    (tmp_path / "run.json").write_text(json.dumps({"untraced": {"model": "sizes are symbolic"}}))
    assert unseen_by_rules(tmp_path)[0].endswith("as torch.compile traces it: sizes are symbolic")
    assert unseen_by_rules(tmp_path / "elsewhere") == []
    assert rewrites_text(Rewrites([], {}), [line]).splitlines()[-1] == line
    outcome = Outcome("model", [entrant("eager", 1)], [], [], [], use="eager", unseen=[line])
    lines = report(outcome, OptimizeOptions(), device="cpu").splitlines()
    assert lines[lines.index("No rule had a rewrite to offer.") + 1] == f"  {line}"


def test_what_a_rule_declined_is_said_beside_what_was_tried(tmp_path: Path) -> None:
    decline = Decline("form-attention", "no such mask", "softmax", "model.py:42", 2)
    trial = Trial(Script(tmp_path / "a.mlir", "a", "A rewrite"), End.KEPT, reason="as said")
    outcome = Outcome("model", [entrant("eager", 1)], [trial], [], [], use="eager")
    outcome.declined, outcome.unseen = [decline], ["no rule sees forward"]
    lines = report(outcome, OptimizeOptions(), device="cpu").splitlines()
    place = lines.index("What the rules left alone:")
    assert place > lines.index("                       as said")
    assert lines[place + 1 : place + 3] == [f"  {decline}", "  no rule sees forward"]
    facts = facts_of(outcome)
    fields = {"rule": "form-attention", "reason": "no such mask", "node": "softmax"}
    assert facts["declined"] == [{**fields, "line": "model.py:42", "count": 2}]
    assert facts["unseen"] == ["no rule sees forward"]


def test_optimize_says_of_everything_what_became_of_it(
    script: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch._dynamo.reset()
    # Its box is counted from the beginning of the process, which has run other tests.
    monkeypatch.setattr(progress, "_start", time.monotonic())
    path = script(MODEL)
    arguments = ["--error-budget=2e-2", "-o", str(tmp_path / "out")]
    assert main(["optimize", str(path), *arguments]) == 0
    page = capsys.readouterr().out
    facts = json.loads((tmp_path / "out" / "optimize.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(facts)
    programs = {program["name"]: program for program in facts["programs"]}
    assert {"eager", "Inductor", "max-autotune"} < set(programs)
    assert f"use {facts['use']}." in page.lower() or facts["use"] == OPTIMIZED
    assert all(line in page for line in facts["lines"])
    best = min(
        program["latency_ns"]
        for program in programs.values()
        if program["within_budget"] and program["latency_ns"] is not None
    )
    # Noise of a small model on a busy machine is far above that of what is decided by.
    assert programs[facts["use"]]["latency_ns"] <= 1.5 * best
    backend = tmp_path / "out" / f"{path.stem}_optimized.py"
    assert backend.is_file() == (facts["use"] == OPTIMIZED) == (facts["backend"] is not None)
    index = json.loads((tmp_path / "out" / "rewrites" / "rewrites.json").read_text())
    assert {trial["script"] for trial in facts["trials"]} == {
        entry["file"] for entry in index["rewrites"]
    }
    assert [one["rule"] for one in facts["declined"]] == [
        one["rule"] for one in index.get("declined", [])
    ]


def test_a_time_box_ends_it(script: Any, tmp_path: Path) -> None:
    torch._dynamo.reset()
    path = script(MODEL)
    # What an earlier run left is none of what this one found.
    after = RunFolder(tmp_path / "out" / "after")
    after.path.mkdir(parents=True)
    after.graph.touch()
    (tmp_path / "out" / f"{path.stem}_optimized.py").write_text(BACKEND_TITLE)
    arguments = ["--error-budget=2e-2", "--budget-seconds=0", "-o", str(tmp_path / "out")]
    assert main(["optimize", str(path), *arguments]) == 0
    facts = json.loads((tmp_path / "out" / "optimize.json").read_text())
    jsonschema.Draft202012Validator(SCHEMA).validate(facts)
    assert {trial["end"] for trial in facts["trials"]} <= {"left out", "below noise"}
    left_out = {one["name"] for one in facts["programs"] if "time box" in one["reason"]}
    assert any("bfloat16" in name for name in left_out)
    assert facts["use"] in ("eager", "Inductor")
    page = (tmp_path / "out" / "report.txt").read_text()
    assert ("--budget-seconds" in page) == any(
        trial["end"] == "left out" for trial in facts["trials"]
    )
    assert "Nothing was tried" in page
    # There was no time to compile anything but what is profiled: that has times, and no errors.
    assert "ended with the profile" in facts["remark"]
    run = json.loads((tmp_path / "out" / "profile" / "run.json").read_text())
    programs = {one["name"]: one for one in facts["programs"]}
    assert programs["Inductor"]["latency_ns"] == run["step"]["median_ns"]
    assert programs["eager"]["latency_ns"] == run["eager_step"]["median_ns"]
    assert programs["Inductor"]["error"] is None
    assert not any(one["within_budget"] for one in programs.values())
    assert not after.path.exists()
    assert not (tmp_path / "out" / f"{path.stem}_optimized.py").exists()


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("still", [False, True])
@pytest.mark.parametrize("of_all", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, None])
def test_processes_end_with_the_command_that_is_killed(
    tmp_path: Path, still: bool, of_all: signal.Signals | None
) -> None:
    program = tmp_path / "command.py"
    program.write_text(
        "import os, signal, subprocess, time\n"
        "from opprof.processes import Guard, begin, beginning, stand_apart, start_server, stop\n"
        "def work(of, has_begun):\n"
        "    stand_apart()\n"
        "    begin(of)\n"
        "    subprocess.Popen(['sleep', '600'])\n"
        "    print(os.getpid(), os.getppid(), flush=True)\n"
        "    has_begun.value = 1\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    context = start_server()\n"
        "    watching = Guard(context, 2)\n"
        "    watching.start()\n"
        "    has_begun = context.RawValue('i', 0)\n"
        "    worker = context.Process(target=work, args=(beginning(), has_begun))\n"
        "    worker.start()\n"
        "    watching.watch(0, worker.pid)\n"
        "    while not has_begun.value:\n"
        "        time.sleep(0.02)\n"
        f"    if {still}:\n"
        "        stop([worker.pid])\n"
        "    try:\n"
        "        print('still', flush=True)\n"
        "        time.sleep(600)\n"
        "    except KeyboardInterrupt:\n"
        "        os._exit(1)\n"
    )
    command = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert command.stdout is not None
    assert command.stdout.readline()
    assert command.stdout.readline() == "still\n"
    if of_all is None:
        command.kill()
    else:
        # As a terminal does, or a scheduler.
        os.killpg(command.pid, of_all)
    # The last of them closes the pipe.
    assert command.communicate(timeout=60) == ("", "")


def test_what_would_end_processes_stands_by_before_there_are_any(
    script: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is killed between the two would leave what the processes began."""
    watching: list[bool] = []
    start = BaseProcess.start

    def starting(process: BaseProcess) -> None:
        own = multiprocessing.process.active_children()
        # It stands apart, and signals to the command's group do not reach it.
        watching.append(any(one.pid == os.getsid(one.pid or 0) for one in own))
        start(process)

    monkeypatch.setattr(BaseProcess, "start", starting)
    with Ahead(load_model_script(script(MODEL)), 1):
        pass
    assert watching == [False, True]


def test_what_an_ended_process_began_ends_with_the_command(tmp_path: Path) -> None:
    """A worker ends as soon as the command does, and may have before anybody looks what it is."""
    program = tmp_path / "command.py"
    program.write_text(
        "import os, subprocess, time\n"
        "from opprof.processes import Guard, stand_apart, start_server\n"
        "def work():\n"
        "    stand_apart()\n"
        "    subprocess.Popen(['sleep', '600'])\n"
        "if __name__ == '__main__':\n"
        "    context = start_server()\n"
        "    watching = Guard(context, 1)\n"
        "    watching.start()\n"
        "    worker = context.Process(target=work)\n"
        "    worker.start()\n"
        "    watching.watch(0, worker.pid)\n"
        "    worker.join()\n"
        "    print(worker.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert command.stdout is not None
    worker = int(command.stdout.readline())
    assert len(members_of(worker)) == 1
    os.killpg(command.pid, signal.SIGKILL)
    assert command.communicate(timeout=60)[0] == ""
    assert not members_of(worker)


def test_nobody_is_warned_of_what_killed_processes_leave(tmp_path: Path) -> None:
    program = tmp_path / "command.py"
    program.write_text(
        "import multiprocessing, time\n"
        "from opprof.processes import begin, beginning, start_server\n"
        "def work(of, taken):\n"
        "    begin(of)\n"
        "    lock = multiprocessing.get_context('forkserver').Lock()\n"
        "    taken.value = 1\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    context = start_server()\n"
        "    taken = context.RawValue('i', 0)\n"
        "    worker = context.Process(target=work, args=(beginning(), taken))\n"
        "    worker.start()\n"
        "    while not taken.value:\n"
        "        time.sleep(0.02)\n"
        "    worker.kill()\n"
        "    worker.join()\n"
    )
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
