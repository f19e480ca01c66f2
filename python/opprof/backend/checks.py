"""Proves or refuses a backend: syntax, import, registration, what it applies, equality on fresh inputs, and a measured gain. Needs PyTorch.

The backend and the model script are run. Equality is the relative error, in the Euclidean norm, of each output against the same
model in float64 (float32 where float64 does not run). A budget of 0 asks for the bits of plain Inductor.
"""

import ast
import contextlib
import copy
import functools
import importlib.util
import math
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, ItemsView, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from opprof.backend.promotion import Promoted
from opprof.devices import raise_if_lost, synchronize
from opprof.errors import OpprofError
from opprof.export.model_script import ModelScript
from opprof.progress import progress
from opprof.units import milliseconds

# What is called like the model.
Program = Callable[..., Any]

SEEDS = (11, 23, 47)
# Why results say nothing, where there is nothing to compare.
_NO_RESULT = "nothing that it gives is a tensor, or holds one"
_NO_ELEMENT = "no tensor that it gives has an element"
# What helps then; else it is the weights.
_REMEDIES = {
    _NO_RESULT: "return what is computed: tensors, or whatever holds them",
    _NO_ELEMENT: "give it inputs of another size than 0",
}
# A gain below this is not told from noise.
LEAST_GAIN = 0.02
# What a model may differ by from itself made to compute in float64 throughout: beyond that it may be another function, as where it
# draws random numbers, which are others in float64. By its narrowest floats; TF32 units round as float16 does.
_SAME_FUNCTION = {torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}


@dataclass
class Check:
    """One question that a backend has to answer, and its answer."""

    name: str
    passed: bool
    text: str


@dataclass
class Measurement:
    """Two interleaved measurements of several programs: nanoseconds, round by round, by the program's name."""

    first: dict[str, list[int]]
    second: dict[str, list[int]]

    def median(self, name: str) -> int:
        return int(statistics.median(self.first[name] + self.second[name]))

    def gain(self, name: str, baseline: str) -> float:
        """The smallest gain that both measurements show, as a share of the baseline's time: below 0 where it lost once.

        Each is asked twice: by its medians, and by comparing the times of one round with each other, so that a machine that slows
        down between rounds changes nothing.
        """
        gains = []
        for part in (self.first, self.second):
            own, other = part[name], part[baseline]
            gains.append(1 - statistics.median(own) / statistics.median(other))
            gains.append(statistics.median(1 - a / b for a, b in zip(own, other, strict=True)))
        return min(gains)

    def wins(self, name: str, baseline: str) -> tuple[bool, str, str]:
        """Whether there is a gain that both measurements show; the times, and what they say of it, in words."""
        gain = self.gain(name, baseline)
        times = f"{milliseconds(self.median(baseline))} → {milliseconds(self.median(name))} ms"
        if gain >= LEAST_GAIN:
            return True, times, f"at least {gain:.0%} in both measurements"
        return False, times, f"no gain of {LEAST_GAIN:.0%} in both measurements"


@dataclass
class Verdict:
    """What was found of one backend."""

    checks: list[Check] = field(default_factory=list)
    error: float | None = None
    measurement: Measurement | None = None
    # Names of rewrites that were applied nowhere.
    missing: list[str] = field(default_factory=list)
    # Parts of the strategy that no graph follows, and why the first does not.
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def add(self, name: str, passed: bool, text: str) -> bool:
        self.checks.append(Check(name, passed, text))
        return passed

    def lines(self) -> list[str]:
        """The checks, a line each."""
        return [
            f"  {'ok    ' if check.passed else 'FAILED'}  {check.name:13} {check.text}"
            for check in self.checks
        ]


# ---------------------------------------------------------------------------------------------------------------------
# Programs
# ---------------------------------------------------------------------------------------------------------------------


def load_backend(file: Path) -> ModuleType:
    """Imports a backend, which registers it."""
    name = file.stem
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    # Registering a name twice is an error, and a file that was emitted again is another backend.
    if name in sys.modules:
        from torch._dynamo.backends import registry

        for table in ("_COMPILER_FNS", "_BACKENDS"):
            getattr(registry, table, {}).pop(getattr(sys.modules[name], "BACKEND_NAME", ""), None)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def check_script(script: ModelScript) -> None:
    """Refuses what cannot be rewritten."""
    if script.make_step is None and script.module.training:
        raise OpprofError(
            f"{script.path}: its module is in training mode, and nothing says what a step of training is",
            remedy="define make_step(module), which returns the function of one step, or give the module in eval mode",
        )


class Subject:
    """The model under test: its inputs, its reference, and programs made of it."""

    # Whether a step makes gradients.
    trains = False
    # Whether the references are in float64, and whether that takes more than weights and inputs in it.
    in_double = True
    # Whether others hold memory of the device for a while, so that what does not fit says nothing of the model.
    gives_way = False
    _promotes = False

    def __init__(self, script: ModelScript) -> None:
        self.script = script
        check_script(script)
        self.state = copy.deepcopy(dict(script.module.named_buffers()))
        self._attributes = _attributes_of(script.module)
        # Each candidate is one more compilation of the same forward.
        for limit in ("recompile_limit", "cache_size_limit"):
            with contextlib.suppress(AttributeError):
                setattr(torch._dynamo.config, limit, 256)

    def restore(self) -> None:
        """Gives buffers that a step has written the values that they had; to write the others would look like new weights."""
        self.restore_attributes()
        with torch.no_grad():
            for name, buffer in self.script.module.named_buffers():
                if not torch.equal(buffer, self.state[name]):
                    buffer.copy_(self.state[name])

    def restore_attributes(self) -> None:
        """Gives the module what it held besides weights and buffers: caches, counters, what a call left for the next."""
        for owner, name, value, copied in self._attributes:
            if vars(owner).get(name, owner) is not value:
                # What was a plain attribute may have become a parameter or a module.
                for registered in (owner._parameters, owner._buffers, owner._modules):
                    registered.pop(name, None)
                setattr(owner, name, value)
            if isinstance(value, torch.Tensor):
                if not torch.equal(value, copied):
                    with torch.no_grad():
                        value.copy_(copied)
            elif isinstance(value, list):
                value[:] = copied
            elif isinstance(value, dict | set):
                value.clear()
                value.update(copied)

    def compiled(self, backend: str | Callable[..., Any]) -> Callable[..., Any]:
        return self.step_of(torch.compile(self.script.module, backend=backend))

    @property
    def module(self) -> torch.nn.Module:
        return self.script.module

    @property
    def eager(self) -> Callable[..., Any]:
        return self.step_of(self.script.module)

    def step_of(self, function: Any) -> Callable[..., Any]:
        """What a step is where `function` is called in the place of the module."""

        def run(*args: Any, **kwargs: Any) -> Any:
            with torch.no_grad():
                return function(*args, **kwargs)

        return run

    def inputs(self, seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh inputs like those of the script."""
        return self.script.inputs(seed)

    def run(self, program: Callable[..., Any], seed: int) -> list[torch.Tensor]:
        args, kwargs = self.inputs(seed)
        self.restore()
        return self.results_of(program, args, kwargs)

    def results_of(
        self, program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[torch.Tensor]:
        """What is compared of a step."""
        return tensors_of(program(*args, **kwargs))

    @functools.cached_property
    def references(self) -> dict[int, list[torch.Tensor]]:
        """What the model gives in float64, or as it is where that does not run."""
        try:
            return {seed: self._run_wide(self.script.module, seed) for seed in SEEDS}
        except OpprofError:
            raise
        except Exception as error:
            self._give_way(error)
            # Code that asks for float32 by name, and multiplies by weights that are no longer.
            self._promotes = True
        # As it is before the model runs, which may leave in it what no restoring finds.
        self.restore()
        unused = copy.deepcopy(self.script.module)
        own = {seed: self.run(self.eager, seed) for seed in SEEDS}
        try:
            wide = {seed: self._run_wide(unused, seed) for seed in SEEDS}
            errors = [largest_error(own[seed], wide[seed]) for seed in SEEDS]
            rounding = self._rounding
            # Written so that a NaN cannot pass.
            if all(error <= rounding for error in errors):
                return wide
            reason = f"it differs by {max(errors):.1e} from what its code computes there, which may be another function"
        except Exception as error:
            self._give_way(error)
            reason = f"{type(error).__name__}: {_first_line(error)}"
        progress(f"  held against itself, not against float64: {reason}")
        self._promotes = self.in_double = False
        return own

    def _give_way(self, error: Exception) -> None:
        if self.gives_way and isinstance(error, torch.OutOfMemoryError):
            raise error

    @property
    def _rounding(self) -> float:
        """What the model's own floats may bring."""
        module, given = self.script.module, tree_leaves((self.script.args, self.script.kwargs))
        values = [*module.parameters(), *module.buffers(), *given]
        types = {value.dtype for value in values if isinstance(value, torch.Tensor)}
        if self.script.device_type == "cuda" and (
            torch.backends.cudnn.allow_tf32 or torch.get_float32_matmul_precision() != "highest"
        ):
            types.add(torch.float16)
        return max(
            limit for dtype, limit in _SAME_FUNCTION.items() if dtype in {*types, torch.float32}
        )

    def _run_wide(self, module: torch.nn.Module, seed: int) -> list[torch.Tensor]:
        """In float64. A step may write weights and buffers, so that each run has a copy of its own."""
        args, kwargs = tree_map(widen, self.inputs(seed))
        self.restore()
        program = self.step_of(copy.deepcopy(module).double())
        with self.promoting():
            return self.results_of(program, args, kwargs)

    def promoting(self) -> contextlib.AbstractContextManager[Any]:
        """Round what runs in float64: nothing, or what gives it where the model's code asks for float32."""
        return Promoted() if self._promotes else contextlib.nullcontext()

    @property
    def unprovable_remedy(self) -> str:
        """What helps where results say nothing."""
        return _REMEDIES.get(
            self.why_unprovable or "",
            "initialize the weights that are zeros, often those of a head that is yet to be trained",
        )

    @property
    def reference(self) -> str:
        """What errors are relative to."""
        _ = self.references
        return "float64" if self.in_double else "the uncompiled model"

    @functools.cached_property
    def why_unprovable(self) -> str | None:
        """Why to compare results with the references says nothing of what is computed; None where it does."""
        outputs = list(zip(*self.references.values(), strict=True))
        if not outputs:
            return _NO_RESULT
        if not any(value.numel() for values in outputs for value in values):
            return _NO_ELEMENT
        if not any(bool(value.any()) for values in outputs for value in values):
            return "every output is zero, on every input"
        floats = [values for values in outputs if values[0].is_floating_point()]
        inputs = [tree_leaves(self.inputs(seed)) for seed in SEEDS]
        differ = any(
            isinstance(first, torch.Tensor) and not torch.equal(first, other)
            for values in zip(*inputs, strict=True)
            for first, other in [values[:2]]
        )
        if floats and differ and all(_all_identical(values) for values in floats):
            return "the outputs are the same on every input"
        return None

    @functools.cached_property
    def inductor(self) -> Callable[..., Any]:
        return self.compiled("inductor")

    @functools.cached_property
    def inductor_results(self) -> dict[int, list[torch.Tensor]]:
        return {seed: self.run(self.inductor, seed) for seed in SEEDS}

    def error_between(self, results: Sequence[torch.Tensor], seed: int) -> float:
        """The largest relative error of a step's results to the references."""
        return largest_error(results, self.references[seed])

    def check_further(self, verdict: "Verdict", called: Any, error_budget: float) -> None:
        """Adds what is to be asked of `called`, which takes the module's place, besides the results of single steps."""

    def error_of(self, program: Program, seeds: Sequence[int] = SEEDS) -> float:
        """The largest relative error over seeds and outputs; NaN where an output is not what the reference is."""
        worst = 0.0
        for seed in seeds:
            error = self.error_between(self.run(program, seed), seed)
            worst = error if math.isnan(error) else max(worst, error)
            if math.isnan(worst):
                break
        return worst

    def same_bits(self, program: Callable[..., Any]) -> bool:
        """True where every output has the bits that plain Inductor gives."""
        return all(
            len(own := self.run(program, seed)) == len(self.inductor_results[seed])
            and all(_identical(a, b) for a, b in zip(own, self.inductor_results[seed], strict=True))
            for seed in SEEDS
        )


def _attributes_of(module: torch.nn.Module) -> list[tuple[torch.nn.Module, str, Any, Any]]:
    """What modules hold besides parameters, buffers and modules: the owner, the name, the value, and a copy of what it holds. Tensors in
    lists are those that they were, whatever has been written into them.
    """
    found: list[tuple[torch.nn.Module, str, Any, Any]] = []
    of_every_module = vars(torch.nn.Module())
    for owner in module.modules():
        for name, value in vars(owner).items():
            if name in of_every_module:
                continue
            if isinstance(value, torch.Tensor):
                found.append((owner, name, value, value.detach().clone()))
            elif type(value) in (list, dict, set):
                found.append((owner, name, value, value.copy()))
            elif value is None or isinstance(value, bool | int | float | str):
                found.append((owner, name, value, None))
    return found


def _first_line(error: Exception) -> str:
    return (str(error) or "no message").splitlines()[0][:200]


def widen(leaf: Any) -> Any:
    """A float tensor in float64."""
    return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of what a step takes or gives, in objects of any class too: what is not found is not compared."""
    # By id, with the objects, so that no other one gets it meanwhile.
    known: dict[int, tuple[Any, list[torch.Tensor]]] = {}

    def search(part: Any) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for leaf in tree_leaves(part.to_tuple() if hasattr(part, "to_tuple") else part):
            if isinstance(leaf, torch.Tensor):
                found.append(leaf)
            elif id(leaf) in known:
                found += known[id(leaf)][1]
            elif held := _held_by(leaf):
                # What leads back to it adds nothing.
                known[id(leaf)] = (leaf, [])
                known[id(leaf)] = (leaf, [tensor for one in held for tensor in search(one)])
                found += known[id(leaf)][1]
        return found

    return search(value)


#: Of what they hold nothing is a result.
_NO_HOLDERS = (type, ModuleType, torch.nn.Module, FunctionType, MethodType, BuiltinFunctionType)
#: What pytree takes apart where it is of exactly one of its own classes.
_COLLECTIONS = (list, tuple, set, frozenset, deque, ItemsView, ValuesView)


def _held_by(value: Any) -> list[Any]:
    """What a container of any class holds, and the attributes of an object."""
    if isinstance(value, _NO_HOLDERS):
        return []
    held: list[Any] = []
    if isinstance(value, Mapping):
        held += value.values()
    elif isinstance(value, _COLLECTIONS):
        held += value
    held += getattr(value, "__dict__", {}).values()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            held.append(getattr(value, name, None))
    return held


def tensors_of(result: Any) -> list[torch.Tensor]:
    """Copies of the tensors of a result."""
    return [tensor.detach().clone() for tensor in tensors_in(result)]


def largest_error(actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest relative error among tensors; NaN where one is another, or no number."""
    if len(actual) != len(expected):
        return math.nan
    worst = 0.0
    for own, reference in zip(actual, expected, strict=True):
        if own.shape != reference.shape:
            return math.nan
        if not own.is_floating_point():
            worst = worst if torch.equal(own, reference) else math.inf
            continue
        error = relative_error(own, reference)
        if math.isnan(error):
            return math.nan
        worst = max(worst, error)
    return worst


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """‖actual − expected‖ / ‖expected‖ in float64; NaN where either holds a value that is no number."""
    expected = expected.double()
    difference = float((actual.double() - expected).norm())
    norm = float(expected.norm())
    if math.isinf(difference) or math.isinf(norm):
        return math.nan
    if norm == 0:
        return difference
    return difference / norm


def _all_identical(values: Sequence[torch.Tensor]) -> bool:
    return all(_identical(values[0], value) for value in values[1:])


def _identical(first: torch.Tensor, second: torch.Tensor) -> bool:
    return (
        first.dtype == second.dtype
        and first.shape == second.shape
        and not bool(first.isnan().any())
        and torch.equal(first, second)
    )


# ---------------------------------------------------------------------------------------------------------------------
# Measuring
# ---------------------------------------------------------------------------------------------------------------------


def measure(
    subject: Subject,
    programs: dict[str, Program],
    *,
    seconds: float = 4.0,
    is_enough: Callable[[dict[str, list[int]]], bool] = lambda times: False,
) -> Measurement:
    """Times the programs in turn, so that what else the machine does meets all of them, twice.

    Either half ends before its time where `is_enough` says so of what it has measured.
    """
    script = subject.script
    for program in programs.values():
        for _ in range(3):
            program(*script.args, **script.kwargs)
    synchronize()
    return Measurement(
        *(_measure_once(subject, programs, seconds / 2, is_enough) for _ in range(2))
    )


def _measure_once(
    subject: Subject,
    programs: dict[str, Program],
    seconds: float,
    is_enough: Callable[[dict[str, list[int]]], bool],
) -> dict[str, list[int]]:
    times: dict[str, list[int]] = {name: [] for name in programs}
    end = time.monotonic() + seconds
    rounds = 0
    names = list(programs)
    while rounds < 5 or (time.monotonic() < end and rounds < 400):
        # Each round begins with another program: the first after a pause is slower.
        for name in names[rounds % len(names) :] + names[: rounds % len(names)]:
            start = time.perf_counter_ns()
            programs[name](*subject.script.args, **subject.script.kwargs)
            synchronize()
            times[name].append(time.perf_counter_ns() - start)
        rounds += 1
        if is_enough(times):
            break
    subject.restore()
    return times


# ---------------------------------------------------------------------------------------------------------------------
# Verdicts
# ---------------------------------------------------------------------------------------------------------------------


def check_backend(
    file: Path, subject: Subject, *, error_budget: float
) -> tuple[Verdict, Callable[..., Any] | None]:
    """All checks but speed; also returns the program, where there is one."""
    verdict = Verdict()
    backend = _load_checked(verdict, file)
    if backend is None:
        return verdict, None
    graphs: list[Any] = []
    function = torch._dynamo.lookup_backend(backend.BACKEND_NAME)

    def observed(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return function(module, inputs)

    # What people call: the front, which files of earlier versions do not have.
    front = getattr(backend, "optimize", None)
    called = (
        torch.compile(subject.script.module, backend=observed)
        if front is None
        else front(subject.script.module)
    )
    program = subject.step_of(called)
    try:
        subject.run(program, SEEDS[0])
    except Exception as error:
        raise_if_lost(error)
        verdict.add("run", False, f"{type(error).__name__}: {_first_line(error)}")
        return verdict, None
    if front is not None:
        graphs = backend.status()["graphs"]
    if not _check_ran(verdict, backend, len(graphs)):
        return verdict, program
    applied = dict(backend.applied)
    missing = [rewrite.name for rewrite in backend.REWRITES if not applied.get(rewrite.name)]
    verdict.missing = missing
    described = ", ".join(f"{key} at {count}" for key, count in applied.items() if count)
    where = [
        f"{name} ({reason})" if (reason := _nearest(name, graphs)) else name for name in missing
    ]
    verdict.add(
        "applied",
        not missing,
        f"nowhere: {', '.join(where)}" if missing else described or "strategies only",
    )
    _check_equality(verdict, subject, program, error_budget)
    if verdict.passed:
        subject.check_further(verdict, called, error_budget)
    if front is not None:
        verdict.left_out = _left_out_everywhere(backend.status()["graphs"])
    return verdict, program


def check_written(
    file: Path, candidate: Verdict, program: Program, subject: Subject, *, error_budget: float
) -> Verdict:
    """The checks of a file that says what a candidate's says but for its names: it is loaded, and the candidate's program, which would
    only be compiled again from the same text, is compared with the references once more. What else was checked is the candidate's.
    """
    verdict = Verdict(missing=candidate.missing, left_out=candidate.left_out)
    if _load_checked(verdict, file) is None:
        return verdict
    verdict.add(
        "program", True, "as the search compiled and checked it, of the same text but for names"
    )
    for check in candidate.checks:
        if check.name == _EQUALITY:
            _check_equality(verdict, subject, program, error_budget)
        elif check.name not in _OF_THE_FILE:
            verdict.checks.append(check)
    return verdict


# What is asked of a file before its program runs, and of what its program gives.
_SYNTAX, _IMPORT, _REGISTRATION, _EQUALITY = "syntax", "import", "registration", "equality"
_OF_THE_FILE = (_SYNTAX, _IMPORT, _REGISTRATION)


def _load_checked(verdict: Verdict, file: Path) -> ModuleType | None:
    """The backend, where it is one."""
    try:
        ast.parse(file.read_text(encoding="utf-8"), str(file))
    except (OSError, SyntaxError, ValueError) as error:
        verdict.add(_SYNTAX, False, f"{error}")
        return None
    verdict.add(_SYNTAX, True, "parses")
    try:
        backend = load_backend(file)
    except Exception as error:
        verdict.add(_IMPORT, False, f"{type(error).__name__}: {error}")
        return None
    name = getattr(backend, "BACKEND_NAME", None)
    if not isinstance(name, str):
        verdict.add(_IMPORT, False, "is no backend: sets no BACKEND_NAME, as `opprof emit` does")
        return None
    verdict.add(_IMPORT, True, "imports")
    registered = name in torch._dynamo.list_backends(exclude_tags=())
    text = f'backend="{name}"' if registered else f"{name} is not known"
    return backend if verdict.add(_REGISTRATION, registered, text) else None


def _nearest(rewrite: str, graphs: Sequence[Any]) -> str:
    """What one of the graphs has in the place of a rewrite's pattern; empty where none says so, as files of earlier versions."""
    reasons = [getattr(graph, "missed", {}).get(rewrite) or "" for graph in graphs]
    return max(reasons, key=lambda reason: (reason.startswith("nearest"), bool(reason)), default="")


def _left_out_everywhere(graphs: Sequence[Any]) -> dict[str, str]:
    """The parts of a strategy that each of the graphs does without, and why the first does."""
    reasons = [
        dict(text.split(": ", 1) for text in graph.left_out)
        for graph in graphs
        if graph.refusal is None
    ]
    return {
        part: reason
        for part, reason in (reasons[0] if reasons else {}).items()
        if all(part in others for others in reasons)
    }


def _check_ran(verdict: Verdict, backend: ModuleType, graphs: int) -> bool:
    """Whether the backend's own programs ran: where Inductor did everything, equality and speed say nothing of the backend."""
    if graphs == 0:
        return verdict.add("ran", False, "never: PyTorch found no graph to compile in this model")
    status = getattr(backend, "status", None)
    if status is None:
        return verdict.add("ran", True, f"{graphs} graphs, as it was called for")
    found = status()
    reasons = sorted({graph.refusal for graph in found["graphs"] if graph.refusal})
    left_out = sorted({text for graph in found["graphs"] for text in graph.left_out})
    text = f"own programs in {found['own_share']:.0%} of {found['calls']} calls"
    fronts = sorted({front.unfit for front in found.get("fronts", ()) if front.unfit})
    slow = [f"each call asks Dynamo's guards, as {unfit}" for unfit in fronts]
    return verdict.add("ran", found["own_share"] > 0, "; ".join([text, *reasons, *left_out, *slow]))


def _check_equality(
    verdict: Verdict, subject: Subject, program: Callable[..., Any], error_budget: float
) -> None:
    try:
        verdict.error = subject.error_of(program)
    except Exception as error:
        raise_if_lost(error)
        verdict.add(_EQUALITY, False, f"{type(error).__name__}: {error}")
        return
    seeds = f"{len(SEEDS)} seeds"
    if subject.why_unprovable is not None:
        verdict.add(_EQUALITY, False, f"{subject.why_unprovable}: {subject.unprovable_remedy}")
    elif math.isnan(verdict.error):
        verdict.add(
            _EQUALITY, False, "an output holds values that are no numbers, or has another shape"
        )
    elif error_budget == 0:
        same = subject.same_bits(program)
        verdict.add(_EQUALITY, same, f"bits {'as' if same else 'not those'} of Inductor, {seeds}")
    else:
        # Written so that a NaN cannot pass.
        within = verdict.error <= error_budget
        verdict.add(
            _EQUALITY,
            within,
            f"relative error {verdict.error:.1e}, budget {error_budget:.0e}, {seeds}",
        )


def judge_gain(verdict: Verdict, name: str, baseline: str) -> bool:
    """Adds the check that both measurements show a gain."""
    assert verdict.measurement is not None
    won, times, gain = verdict.measurement.wins(name, baseline)
    return verdict.add("gain", won, f"{times}{',' if won else ':'} {gain}")
