"""What anybody can write without opprof, as programs to measure against: eager, compilation in its modes, narrower floats. Needs PyTorch.

Each is called like the model itself: float32 goes in where the model takes it, and comes out where the model gives it.
"""

import copy
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.flop_counter import flop_registry

from opprof.backend.checks import Program, Subject
from opprof.backend.emitted.cuda_graph import CapturedGraph
from opprof.backend.emitted.tf32 import with_tf32
from opprof.devices import raise_if_lost, synchronize
from opprof.search.clock import TimeIsUp, limited
from opprof.search.trials import why_ended
from opprof.units import milliseconds

EAGER, INDUCTOR = "eager", "Inductor"
# What the owner of an archive has already.
TORCHSCRIPT = "TorchScript"
# Calls after which TorchScript's executor has its plans: two are profiled, and a fuser compiles at the next.
_PLANNED_AFTER = 4


@dataclass(frozen=True)
class Recipe:
    """One way to run a model, and the lines that a person writes for it."""

    name: str
    lines: tuple[str, ...]
    make: Callable[[Subject], Program]
    # Inductor's options where the model's own graphs are compiled with them, so that another process can do it ahead.
    options: dict[str, Any] | None = None
    # What the model is cast to as a whole for it.
    dtype: torch.dtype | None = None
    # Whether float32 products run on TF32 units.
    tf32: bool = False
    # Whether it is made after the rewrites: where the time box ends first, it is what is missed least.
    late: bool = False
    # Whether products run in float32, whose speed bounds it, while much time goes into the choice of kernels.
    tunes_float32: bool = False


@dataclass
class Baseline:
    """What became of a recipe."""

    recipe: Recipe
    program: Program | None = None
    error: float | None = None
    # Whether its error is within the budget: otherwise it is shown, and not what others are measured by.
    allowed: bool = False
    # Why there is no program.
    reason: str = ""


# Weights are constants of what Inductor makes.
_FREEZING = {"freezing": True}


def recipes(subject: Subject) -> list[Recipe]:
    """Those that exist on the device of the model, the cheap ones first."""
    compile_line = "model = torch.compile(model)"
    found = [
        Recipe(EAGER, ("with torch.no_grad():", "    model(...)"), lambda s: s.eager),
        Recipe(INDUCTOR, (compile_line,), lambda s: s.inductor, options={}),
    ]
    if subject.script.archive_method is not None:
        lines = ("model = torch.jit.load(...)",)
        found.insert(0, Recipe(TORCHSCRIPT, lines, _torchscript))
    if subject.script.device_type == "cuda":
        found += [
            _mode("reduce-overhead"),
            Recipe(
                "tf32",
                ('torch.set_float32_matmul_precision("high")', compile_line),
                lambda s: with_tf32(s.compiled("inductor")),
                options={},
                tf32=True,
                late=True,
            ),
            _narrow(torch.float16, captured=True),
            _narrow(torch.bfloat16, captured=True),
        ]
    else:
        found.append(_narrow(torch.bfloat16, captured=False))
    return [*found, _mode("max-autotune", tunes_float32=True)]


def _torchscript(subject: Subject) -> Program:
    """The archive's own method, with the plans that its executor makes in the first calls."""
    make = subject.script.archive_method
    assert make is not None
    program = subject.step_of(make(subject.script.device_type))
    # It may write what it is given.
    args, kwargs = copy.deepcopy((subject.script.args, subject.script.kwargs))
    for _ in range(_PLANNED_AFTER):
        program(*args, **kwargs)
    return program


def _mode(mode: str, *, tunes_float32: bool = False) -> Recipe:
    return Recipe(
        mode,
        (f'model = torch.compile(model, mode="{mode}")',),
        lambda subject: subject.step_of(torch.compile(subject.script.module, mode=mode)),
        options=torch._inductor.list_mode_options(mode),
        late=tunes_float32,
        tunes_float32=tunes_float32,
    )


def _narrow(dtype: torch.dtype, *, captured: bool) -> Recipe:
    name = str(dtype).removeprefix("torch.")
    lines = [
        f'model = torch.compile(model.to({dtype}), options={{"freezing": True}})',
        "with torch.no_grad():",
    ]
    if captured:
        lines += [
            f"    x = inputs.to({dtype})  # floating-point ones; a buffer that calls copy theirs into",
            "    for _ in range(3):",
            "        model(x)",
            "    graph = torch.cuda.CUDAGraph()",
            "    with torch.cuda.graph(graph):",
            "        y = model(x).float()",
            "# a step: x.copy_(inputs); graph.replay(); y.clone()",
        ]
    else:
        lines.append(f"    model(inputs.to({dtype})).float()")
    title = f"{name} module, frozen" + (", in one CUDA graph" if captured else "")
    make = _captured if captured else _frozen
    # Of the two, bfloat16 is as fast and errs more.
    late = dtype is torch.bfloat16
    return Recipe(
        title,
        tuple(lines),
        lambda subject: make(subject, dtype),
        options=_FREEZING,
        dtype=dtype,
        late=late,
    )


def cast_floats(value: Any, source: torch.dtype, target: torch.dtype) -> Any:
    """The tensors in it that are of one type, in another."""

    def one(leaf: Any) -> Any:
        is_source = isinstance(leaf, torch.Tensor) and leaf.dtype is source
        return leaf.to(target) if is_source else leaf

    return tree_map(one, value)


def _frozen(subject: Subject, dtype: torch.dtype) -> Program:
    """The model wholly in `dtype`, its weights constants of what Inductor makes."""
    module = copy.deepcopy(subject.script.module).to(dtype)
    compiled = torch.compile(module, options=_FREEZING)

    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = cast_floats((args, kwargs), torch.float32, dtype)
        with torch.no_grad():
            return cast_floats(compiled(*args, **kwargs), dtype, torch.float32)

    return run


def _captured(subject: Subject, dtype: torch.dtype) -> Program:
    """The same in one CUDA graph, casts included; a call copies its inputs in and its results out."""
    function = _frozen(subject, dtype)
    leaves, structure = tree_flatten((subject.script.args, subject.script.kwargs))
    device = subject.script.device_type
    places = [
        i
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor) and leaf.device.type == device
    ]
    results: list[Any] = []
    tensors: list[int] = []

    def flat(*values: torch.Tensor) -> list[torch.Tensor]:
        own = list(leaves)
        for place, value in zip(places, values, strict=True):
            own[place] = value
        args, kwargs = tree_unflatten(own, structure)
        given, form = tree_flatten(function(*args, **kwargs))
        results[:] = [given, form]
        tensors[:] = [i for i, leaf in enumerate(given) if isinstance(leaf, torch.Tensor)]
        return [given[i] for i in tensors]

    # Compilation is none of what a capture warms up.
    flat(*(leaves[i] for i in places))
    inputs = [leaves[i] for i in places]
    graph = CapturedGraph(flat, inputs, inputs[0].device)

    def run(*args: Any, **kwargs: Any) -> Any:
        own, _ = tree_flatten((args, kwargs))
        copies = graph([own[i] for i in places])
        given, form = results
        made = list(given)
        for place, value in zip(tensors, copies, strict=True):
            made[place] = value
        return tree_unflatten(made, form)

    return run


def what_failed(error: Exception) -> str:
    """The error in a line: of TorchScript's the last one, as the first ones say where in its code."""
    lines = [line for line in str(error).splitlines() if line.strip()] or ["no message"]
    line = lines[-1] if "TorchScript interpreter" in lines[0] else lines[0]
    return f"fails: {type(error).__name__}: {line[:200]}"


def make_baseline(
    recipe: Recipe, subject: Subject, error_budget: float, *, limit: float | None = None
) -> Baseline:
    """Compiles it, for no more than `limit` seconds, and compares what it gives; what fails is said, and takes nothing from the others."""
    baseline = Baseline(recipe)
    try:
        with limited(limit):
            program = recipe.make(subject)
            baseline.error = subject.error_of(program)
            baseline.allowed = (
                subject.same_bits(program) if error_budget == 0 else baseline.error <= error_budget
            )
        baseline.program = program
    except TimeIsUp as up:
        baseline.error = None
        baseline.reason = f"left out: {why_ended(up, tunes=recipe.tunes_float32)}"
        subject.restore()
    except Exception as error:
        raise_if_lost(error)
        baseline.reason = what_failed(error)
        subject.restore()
    return baseline


# ---------------------------------------------------------------------------------------------------------------------
# What a recipe can reach at best
# ---------------------------------------------------------------------------------------------------------------------

# Kernels that Inductor chooses by timing may be better than the library's on the large product that is timed here.
_HEADROOM = 1.25


def least_float32_ns(subject: Subject) -> float:
    """Nanoseconds that the model's float32 matrix products take at least, at the rate of a large one, measured here.

    Convolutions and attention are left out: libraries may run those on other units.
    """
    counter = _ProductFlops()
    args, kwargs = subject.script.args, subject.script.kwargs
    with counter:
        subject.eager(*args, **kwargs)
    subject.restore()
    device = subject.script.device_type
    size = 4096 if device == "cuda" else 1024
    return counter.flops / (_HEADROOM * _flops_a_ns(device, torch.float32, size))


def why_not_tuned(recipe: Recipe, subject: Subject, best_ns: float) -> str:
    """Why choosing float32 kernels by timing them cannot lead to less than `best_ns`; empty where it may, or where nothing is chosen so."""
    # A busy CPU is never as fast as the best that was measured.
    if not recipe.tunes_float32 or subject.script.device_type != "cuda":
        return ""
    least = least_float32_ns(subject)
    if least <= best_ns:
        return ""
    return (
        f"left out: its float32 products alone take {milliseconds(least)} ms at the best rate measured here, "
        f"and {milliseconds(best_ns)} ms are reached without it"
    )


def cpu_has_faster_products(dtype: torch.dtype) -> bool:
    """Whether the CPU's products run faster in `dtype` than in float32: where it has no units for it, they are several times slower."""
    return _flops_a_ns("cpu", dtype, 256) > _flops_a_ns("cpu", torch.float32, 256)


class _ProductFlops(TorchDispatchMode):  # type: ignore[misc]
    """Counts what matrix products compute, by PyTorch's own formulas.

    Its FlopCounterMode counts by module as well, with hooks that fail where a module is given a parameter and no gradients are asked for.
    """

    # What an operator holds is computed as always, and counted where it comes here.
    supports_higher_order_operators = True
    _products = frozenset(
        (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm)
    )

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        if func.overloadpacket not in self._products:
            with self:
                # Without gradients some operators come here before they are taken apart.
                result = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if result is NotImplemented else result
        result = func(*args, **kwargs)
        self.flops += flop_registry[func.overloadpacket](*args, **kwargs, out_val=result)
        return result


@functools.cache
def _flops_a_ns(device: str, dtype: torch.dtype, size: int) -> float:
    value = torch.randn(size, size, device=device).to(dtype)
    best = float("inf")
    for _ in range(5):
        synchronize()
        start = time.perf_counter_ns()
        torch.mm(value, value)
        synchronize()
        best = min(best, time.perf_counter_ns() - start)
    return 2 * size**3 / best
