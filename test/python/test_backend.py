"""An emitted backend gives what the model gives, after everything that people do to weights and from any number of threads."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from emulated_graphs import backend_with
from programs import import_program
from torch import Tensor, nn
from torch._dynamo.backends.registry import lookup_backend

from opprof.backend.emit import emit

STRATEGIES = {
    "prologue": {"prologue": True},
    "freeze": {"prologue": True, "freeze": True},
    "bfloat16": {"prologue": True, "precision": torch.bfloat16},
    "frozen_bfloat16": {"prologue": True, "freeze": True, "precision": torch.bfloat16},
}


class Merged(nn.Module):
    """A product with a weight that is made of two, and that weight itself."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(4, 8))
        self.b = nn.Parameter(torch.randn(4, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weight = torch.cat([self.a, self.b])
        return x @ weight.t(), weight * 2


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleType]:
    """The backend with a strategy, under a name of its own."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    name = "".join(c if c.isalnum() else "_" for c in request.node.name)
    strategy = STRATEGIES.get(getattr(request, "param", ""), {})
    module = backend_with(strategy, tmp_path / f"{name}.py")
    yield module
    module.check_weights_every(0)


def every_strategy(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("backend", STRATEGIES, indirect=True)(test)


def errors(actual: Any, expected: Any) -> list[float]:
    pairs = zip(
        torch.utils._pytree.tree_leaves(actual),
        torch.utils._pytree.tree_leaves(expected),
        strict=True,
    )
    result = []
    for own, reference in pairs:
        assert own.dtype == reference.dtype and own.shape == reference.shape
        difference = (own.double() - reference.double()).norm()
        result.append(float(difference / reference.double().norm().clamp_min(1e-30)))
    return result


def errors_in_threads(program: Any, model: "Merged", calls: int) -> list[float]:
    """What `program` gives beside `model` in each of so many calls of four threads, begun anew after each of three changes of a weight."""
    found: list[float] = []
    barrier = threading.Barrier(4)

    def work(seed: int) -> None:
        own = torch.randn(3, 8, generator=torch.Generator().manual_seed(seed))
        barrier.wait()
        with torch.no_grad():
            for _ in range(calls):
                found.extend(errors(program(own), model(own)))

    for _ in range(3):
        with torch.no_grad():
            model.a.add_(1)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def step(model: Merged, x: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, fused=True)
    before = model.a._version
    sum(result.sum() for result in model(x)).backward()
    optimizer.step()
    assert model.a._version == before


def replace_at_the_same_address(model: Merged) -> None:
    """Weights that are freed, and others that the allocator puts where they were, if nobody holds them."""
    for _ in range(20):
        model.a = None
        model.a = nn.Parameter(torch.randn(4, 8))


def swap(model: Merged) -> None:
    other = Merged()
    other.a.data.neg_()
    model.load_state_dict(other.state_dict(), assign=True)


CHANGES: dict[str, Callable[[Merged, Tensor], Any]] = {
    "written": lambda model, x: model.a.mul_(2),
    "view_written": lambda model, x: model.a[1].zero_(),
    "replaced": lambda model, x: replace_at_the_same_address(model),
    "data_replaced": lambda model, x: setattr(model.a, "data", torch.randn(4, 8)),
    "loaded": lambda model, x: model.load_state_dict(Merged().state_dict()),
    "assigned": lambda model, x: swap(model),
    "swapped": lambda model, x: torch.utils.swap_tensors(model.a, nn.Parameter(torch.randn(4, 8))),
}


def test_a_file_that_is_loaded_again_replaces_its_backend(tmp_path: Path) -> None:
    name = "loaded_again"
    file, _ = emit([], tmp_path / f"{name}.py")
    first, second = import_program(file), import_program(file)
    assert lookup_backend(name) is second.backend is not first.backend
    # Not in place of what somebody else registered.
    other, _ = emit([], tmp_path / "eager.py")
    with pytest.raises(AssertionError, match="duplicate name: eager"):
        import_program(other)


@every_strategy
def test_every_change_of_a_weight_is_seen(backend: ModuleType) -> None:
    model, x = Merged(), torch.randn(3, 8)
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    tolerance = 2e-2 if backend.STRATEGY.precision else 1e-5

    def check(what: str) -> Any:
        with torch.no_grad():
            actual = compiled(x)
            assert max(errors(actual, model(x))) < tolerance, what
        return actual

    results = check("first")
    # Results made of weights alone are the caller's own.
    results[1].zero_()
    check("results written")
    for name, change in CHANGES.items():
        with torch.no_grad():
            change(model, x)
        check(name)
    step(model, x)
    check("fused step")
    model.a.data.mul_(3)
    model.b.detach().numpy()[:] = 7
    backend.refresh()
    check("refresh()")
    backend.check_weights_every(2)
    check("checked")
    torch.from_dlpack(model.a.detach())[0] = 5
    with torch.no_grad():
        compiled(x)
    check("checksum")
    status = backend.status()
    assert len(status["graphs"]) == 1 and status["graphs"][0].refusal is None
    assert status["graphs"][0].refreshes > 3
    assert status["own_share"] == 1.0


@every_strategy
def test_weights_without_versions_are_inputs(backend: ModuleType) -> None:
    with torch.inference_mode():
        model, x = Merged(), torch.randn(3, 8)
        compiled = torch.compile(model, backend=backend.BACKEND_NAME)
        tolerance = 2e-2 if backend.STRATEGY.precision else 1e-5
        for _ in range(3):
            assert max(errors(compiled(x), model(x))) < tolerance
            model.a.mul_(2)


@every_strategy
def test_threads_get_right_answers_and_break_nothing(backend: ModuleType) -> None:
    model, x = Merged(), torch.randn(3, 8)
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    tolerance = 2e-2 if backend.STRATEGY.precision else 1e-5
    with torch.no_grad():
        compiled(x)
    found = errors_in_threads(compiled, model, calls=10)
    assert len(found) == 3 * 4 * 10 * 2 and max(found) < tolerance
    # Every later compilation in the process works.
    with torch.no_grad():
        other = torch.compile(lambda value: value.sin() + 1)
        assert torch.allclose(other(x), x.sin() + 1)


class Scaled(nn.Module):
    """A float attribute, which Dynamo takes as a number first and as an input when it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.scale


@pytest.mark.parametrize("backend", ["prologue"], indirect=True)
def test_a_float_that_changes(backend: ModuleType) -> None:
    model, x = Scaled(), torch.randn(3, 8)
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    with torch.no_grad():
        for scale in (1.0, 2.0, 3.0):
            model.scale = scale
            assert max(errors(compiled(x), model(x))) < 1e-5


class Limits:
    """What a model keeps its numbers in, as configurations do."""

    def __init__(self) -> None:
        self.slope = 0.0


class Signed(nn.Module):
    """Numbers whose sign decides where they are zero: an argument, an attribute, one of an object."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.limits = 0.0, Limits()

    def forward(self, x: Tensor, shift: float) -> Tensor:
        signs = torch.stack([x * self.scale, x * self.limits.slope, x * shift])
        return torch.copysign(torch.ones_like(signs), signs)


@pytest.mark.parametrize("backend", ["prologue"], indirect=True)
@pytest.mark.parametrize("place", ["argument", "attribute", "object"])
def test_the_front_tells_zeros_apart(backend: ModuleType, place: str) -> None:
    model, x = Signed(), torch.rand(3, 8) + 1
    optimized = backend.optimize(model)
    with torch.no_grad():
        for number in (0.0, 1.0, -0.0, 0.0, -0.0):
            if place == "attribute":
                model.scale = number
            elif place == "object":
                model.limits.slope = number
            shift = number if place == "argument" else 1.0
            for _ in range(3):
                assert torch.equal(optimized(x, shift), model(x, shift))


class BrokenSigned(nn.Module):
    """What decides stands behind a break in the graph; another attribute is read by nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.limits = 0.0, Limits()

    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return torch.copysign(torch.ones_like(y), y * self.scale)


@pytest.mark.parametrize("backend", ["prologue"], indirect=True)
def test_zeros_are_told_apart_behind_a_break_and_for_any_shape(backend: ModuleType) -> None:
    for model in (BrokenSigned(), Signed()):
        optimized = backend.optimize(model)
        more = (1.0,) if isinstance(model, Signed) else ()
        with torch.no_grad():
            for size in range(2, 10):
                x = torch.rand(size, 8) + 1
                for number in (0.0, -0.0):
                    model.scale = number
                    assert torch.equal(optimized(x, *more), model(x, *more))


class Unreadable:
    """As proxies are that nothing is bound to."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("not bound")


@pytest.mark.parametrize("backend", ["prologue"], indirect=True)
def test_the_front_learns_of_models_whose_configuration_is_made_anew(backend: ModuleType) -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.rand(3, 8)
    optimized = backend.optimize(model)
    model.proxy = Unreadable()
    model.large = [[0.0] * 2000, "text"]
    with torch.no_grad():
        for _ in range(10):
            model.limits = Limits()
            model.limits.slope = -0.0
            assert torch.equal(optimized(x), model(x))
        before = backend.status()["fronts"][-1].shortcuts
        for _ in range(5):
            optimized(x)
        assert backend.status()["fronts"][-1].shortcuts == before + 5


@pytest.mark.parametrize("backend", ["prologue"], indirect=True)
def test_threads_see_the_hooks_and_zeros_that_are_there(backend: ModuleType) -> None:
    model, x = Signed(), torch.rand(3, 8) + 1
    optimized = backend.optimize(model)
    wrong: list[Any] = []

    def call(expected: Tensor) -> None:
        with torch.no_grad():
            result = optimized(x, 1.0)
        if not torch.equal(result, expected):
            wrong.append(result)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for turn in range(12):
            model.scale = -0.0 if turn % 2 else 0.0
            hook = model.register_forward_hook(lambda module, given, result, by=turn: result + by)
            with torch.no_grad():
                expected = model(x, 1.0)
            threads = [threading.Thread(target=call, args=(expected,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            hook.remove()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


class Broken(nn.Module):
    """Two graphs, of which the first one only holds what a rewrite looks for."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.relu()
        torch._dynamo.graph_break()
        return y.tanh()


def test_status_counts_all_graphs(backend: ModuleType) -> None:
    relu, leaky = torch.ops.aten.relu.default, torch.ops.aten.clamp_min.default
    spec = backend.TensorSpec(dtype=torch.float32)
    backend.REWRITES = (
        backend.Rewrite("clamped", lambda x: relu(x), lambda x: leaky(x, 0), (spec, spec), ()),
    )
    compiled = torch.compile(Broken(), backend=backend.BACKEND_NAME)
    x = torch.randn(3)
    assert backend.status()["calls"] == 0
    with torch.no_grad():
        assert torch.equal(compiled(x), x.relu().tanh())
        compiled(x)
    assert backend.applied == {"clamped": 1}
    status = backend.status()
    assert status["calls"] == 4 and status["own_share"] == 1.0
    assert status["rewrites"] == {"clamped": 0.5}
    with torch.enable_grad():
        compiled(x.requires_grad_())
    assert backend.status()["own_share"] == pytest.approx(4 / 6)
    assert "gradients are needed" in {graph.refusal for graph in backend.status()["graphs"]}


class Rotary(nn.Module):
    """Angles of positions, beyond what float16 holds."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("frequency", 10.0 ** -torch.arange(4.0))

    def forward(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        angles = positions[:, None] * self.frequency
        turned = positions.float()[:, None] * self.frequency
        whole = torch.cat([angles.cos(), turned.sin()], -1)
        return self.linear(x) * whole, angles


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.func.grad(lambda y: y.sin().sum())(x),
        lambda x: torch.func.vmap(lambda row: row.sin() * row.sum())(x),
    ],
    ids=["grad", "vmap"],
)
def test_transformed_functions_are_left_to_inductor(
    backend: ModuleType, function: Callable[[Tensor], Tensor]
) -> None:
    """What is computed inside of them is nothing that the tracer follows: a gradient was a fake tensor."""
    x = torch.randn(3, 8)
    torch.testing.assert_close(
        torch.compile(function, backend=backend.BACKEND_NAME)(x), function(x)
    )
    (graph,) = backend.status()["graphs"]
    assert "tracing loses what torch.func" in graph.refusal


@pytest.mark.parametrize("backend", ["bfloat16", "frozen_bfloat16"], indirect=True)
def test_positions_keep_their_precision(backend: ModuleType) -> None:
    model, x = Rotary(), torch.randn(5, 8)
    positions = torch.tensor([0, 1, 4097, 5555, 7001])
    with torch.no_grad():
        actual = torch.compile(model, backend=backend.BACKEND_NAME)(x, positions)
        product, angles = errors(actual, model(x, positions))
    assert 1e-5 < product < 1e-2 and angles < 1e-6


class Shared(nn.Module):
    """Results that are views of one tensor."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.exp()
        return y, y[1:]


class Complex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * (1 + 2j)).abs()


@pytest.mark.parametrize("backend", ["bfloat16", "frozen_bfloat16"], indirect=True)
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: (nn.Linear(8, 8).half(), torch.randn(3, 8).half()), "float32"),
        (lambda: (nn.Linear(8, 8).bfloat16(), torch.randn(3, 8).bfloat16()), "float32"),
        (lambda: (nn.Linear(8, 8).double(), torch.randn(3, 8).double()), "float32"),
        (lambda: (Shared(), torch.randn(3, 8)), "share storage"),
        (lambda: (Complex(), torch.randn(3, 8)), "complex"),
        (lambda: (Complex(), torch.randn(3, 8) * 1j), "complex"),
    ],
)
def test_what_cannot_be_cast_keeps_its_precision(
    backend: ModuleType, make: Callable[[], tuple[nn.Module, Tensor]], reason: str
) -> None:
    model, x = make()
    with torch.no_grad():
        actual = torch.compile(model, backend=backend.BACKEND_NAME)(x)
        assert max(errors(actual, model(x))) < (1e-5 if x.element_size() >= 4 else 2e-2)
        (graph,) = backend.status()["graphs"]
        assert graph.refusal is None and any(reason in text for text in graph.left_out)
    if isinstance(actual, tuple):
        assert actual[0].data_ptr() + 32 == actual[1].data_ptr()


def test_what_was_compiled_once_is_found_again(
    backend: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._dynamo.utils import counters
    from torch._inductor.utils import run_and_get_code

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    model, x = Merged().eval(), torch.randn(5, 8)
    with torch.no_grad():
        _, code = run_and_get_code(torch.compile(model, backend=backend.BACKEND_NAME), x)
        # Sizes are numbers, for which kernels are made.
        assert "(5, 8)" in code[0]
        torch._dynamo.reset()
        counters.clear()
        again = torch.compile(model, backend=backend.BACKEND_NAME)(x)
        for own, reference in zip(again, model(x), strict=True):
            torch.testing.assert_close(own, reference)
    assert counters["inductor"]["fxgraph_cache_hit"] == 1


def test_normalizations_are_scripted_beside_a_backend(backend: ModuleType) -> None:
    """The backend looks at PyTorch's functions for them, which TorchScript knows by identity."""

    def normalized(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return torch.batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5, False)

    x = torch.randn(3, 4, 5)
    statistics = [(torch.zeros(4), torch.ones(4)) for _ in range(2)]
    scripted = torch.jit.script(normalized)(x, *statistics[0])
    assert torch.equal(scripted, normalized(x, *statistics[1]))
    assert torch.equal(statistics[0][0], statistics[1][0])


FORGETTING = """
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from opprof.backend.emitted.program import _FixedSizes

sizes, held = _FixedSizes(), []
for _ in range(1000):
    value = torch.zeros(4)
    sizes.from_tensor(value)
    held.append(StorageWeakRef(value.untyped_storage()))
    del value
sizes.forget_tensors()
# These would lie where storages were freed.
others = [torch.zeros(4).untyped_storage() for _ in held]
assert all(reference.expired() for reference in held)
held.clear()
"""


def test_storages_that_have_gone_are_freed_once() -> None:
    # In a process of its own: PyTorch 2.9 crashes where they are not.
    done = subprocess.run(
        [sys.executable, "-c", FORGETTING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
