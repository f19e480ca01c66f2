"""A model with a backend in front is that model: to all who look at it, and in what it gives after whatever was changed."""

import abc
import collections
import collections.abc
import copy
import gc
import io
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from emulated_graphs import backend_with
from test_backend import CHANGES, STRATEGIES, Merged, errors, errors_in_threads, step
from torch import Tensor, nn
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.autograd import forward_ad
from torch.overrides import BaseTorchFunctionMode
from torch.utils import _pytree as pytree

from opprof.backend.emitted import watch as watching
from opprof.backend.emitted.watch import Unknown, Watch

SETTINGS = {"factor": 2.0}
ALL = {
    **STRATEGIES,
    "graph": {"prologue": True, "cuda_graph": True},
    "frozen_graph": {"prologue": True, "freeze": True, "cuda_graph": True},
}


def scaled(x: Tensor) -> Tensor:
    return x * SETTINGS["factor"]


Pair = collections.namedtuple("Pair", ["first", "second"])


class Model(nn.Module):
    """What decides in models: attributes, configurations, lists, globals, modes, arguments that are no tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(bias=True, sizes=[1.0, 2.0], kinds={"last": "tanh"})
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("shift", torch.randn(8))
        self.plain = torch.randn(8)
        self.scale = 1.5
        self.steps = [1, 2]

    def forward(
        self, x: Tensor, mask: Tensor | None = None, *, flip: bool = False, many: Any = ()
    ) -> Tensor:
        x = scaled(self.norm(self.layers(x))) * self.scale + self.plain
        if self.config.bias:
            x = x + self.shift
        if mask is not None:
            x = x * mask
        for size, count in zip(self.config.sizes, self.steps, strict=True):
            x = x * size + count
        for value in many:
            x = x + value
        if self.config.kinds["last"] == "tanh":
            x = x.tanh()
        return x.flip(0) if flip else x


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleType]:
    """The backend with a strategy, under a name of its own."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    name = "".join(c if c.isalnum() else "_" for c in request.node.name)
    module = backend_with(ALL[getattr(request, "param", "prologue")], tmp_path / f"{name}.py")
    yield module
    module.check_weights_every(0)
    SETTINGS["factor"] = 2.0


def shortcuts(backend: ModuleType) -> int:
    return sum(front.shortcuts for front in backend.status()["fronts"])


def agree(backend: ModuleType, fast: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    tolerance = 2e-2 if backend.STRATEGY.precision else 1e-5
    with torch.no_grad():
        actual = fast(*args, **kwargs)
        assert max(errors(actual, model(*args, **kwargs))) < tolerance
    return actual


def settle(backend: ModuleType, fast: Any, model: Any, *args: Any, **kwargs: Any) -> None:
    """Right answers, by shortcuts in the end."""
    for _ in range(3):
        before = shortcuts(backend)
        agree(backend, fast, model, *args, **kwargs)
    assert shortcuts(backend) == before + 1, backend.status()["fronts"]


every_strategy = pytest.mark.parametrize("backend", ALL, indirect=True)


@every_strategy
def test_every_change_of_a_weight_is_seen(backend: ModuleType) -> None:
    model, x = Merged(), torch.randn(3, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    agree(backend, fast, model, x)[1].zero_()
    settle(backend, fast, model, x)
    for change in CHANGES.values():
        with torch.no_grad():
            change(model, x)
        settle(backend, fast, model, x)
    step(model, x)
    settle(backend, fast, model, x)
    model.a.data.mul_(3)
    model.b.detach().numpy()[:] = 7
    backend.refresh()
    settle(backend, fast, model, x)
    backend.check_weights_every(1)
    torch.from_dlpack(model.a.detach())[0] = 5
    settle(backend, fast, model, x)


def parametrized(model: Model) -> None:
    class Double(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight * 2

    nn.utils.parametrize.register_parametrization(model.layers[0], "weight", Double())


def hook(module: nn.Module, args: Any, result: Tensor) -> Tensor:
    return result + 1


def pruned(model: Model) -> None:
    weight = model.layers[0].weight
    weight.data = weight.data.t()


def swapped(model: Model) -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.double().float().load_state_dict(Model().state_dict())
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


STATES: dict[str, Callable[[Model], Any]] = {
    "attribute": lambda model: setattr(model, "scale", 3.0),
    "list": lambda model: model.steps.__setitem__(0, 5),
    "configuration": lambda model: setattr(model.config, "bias", False),
    "list of a configuration": lambda model: model.config.sizes.reverse(),
    "dictionary of a configuration": lambda model: model.config.kinds.update(last="none"),
    "global": lambda model: SETTINGS.update(factor=-1.0),
    "buffer written": lambda model: model.shift.add_(1),
    "buffer replaced": lambda model: setattr(model, "shift", torch.randn(8)),
    "plain tensor replaced": lambda model: setattr(model, "plain", torch.randn(8)),
    "plain tensor written": lambda model: model.plain.mul_(2),
    "module replaced": lambda model: model.layers.__setitem__(1, nn.Tanh()),
    "module added": lambda model: model.layers.append(nn.Tanh()),
    "forward replaced": lambda model: setattr(model.layers[1], "forward", torch.sin),
    "parametrized": parametrized,
    "hook": lambda model: model.layers[0].register_forward_hook(hook),
    "hook of the model": lambda model: model.register_forward_hook(hook),
    "transposed in place": pruned,
    "moved": lambda model: model.double().float(),
    "moved by swapping": swapped,
    "data loaded": lambda model: model.load_state_dict(Model().state_dict()),
    "data assigned": lambda model: model.load_state_dict(Model().state_dict(), assign=True),
    "frozen": lambda model: model.requires_grad_(False),
}


@pytest.mark.parametrize("backend", ["prologue", "frozen_graph"], indirect=True)
@pytest.mark.parametrize("name", STATES)
def test_every_change_of_a_model_is_seen(backend: ModuleType, name: str) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    with torch.no_grad():
        STATES[name](model)
    settle(backend, fast, model, x)


def test_a_function_that_is_replaced(backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    monkeypatch.setitem(globals(), "scaled", lambda value: value - 1)
    settle(backend, fast, model, x)


def test_a_function_that_gets_other_code(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As notebooks give it that load a file anew."""
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    monkeypatch.setattr(scaled, "__code__", (lambda x: x - SETTINGS["factor"]).__code__)
    settle(backend, fast, model, x)


def test_hooks_that_come_and_go(backend: ModuleType) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    for _ in range(2):
        handle = fast.layers[2].register_forward_hook(hook)
        settle(backend, fast, model, x)
        handle.remove()
        settle(backend, fast, model, x)
    everywhere = nn.modules.module.register_module_forward_hook(
        lambda module, args, result: result * 2 if isinstance(module, nn.Linear) else None
    )
    agree(backend, fast, model, x)
    everywhere.remove()
    agree(backend, fast, model, x)


def test_training_and_back(backend: ModuleType) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    twin = copy.deepcopy(model)
    fast = backend.optimize(model)
    settle(backend, fast, twin, x)
    fast.train(), twin.train()
    assert model.training and model.norm.training
    for _ in range(3):
        agree(backend, fast, twin, x)
    fast(x).sum().backward()
    twin(x).sum().backward()
    for own, other in zip(fast.parameters(), twin.parameters(), strict=True):
        assert own.grad is not None and torch.allclose(own.grad, other.grad, atol=1e-5)
    assert torch.allclose(model.norm.running_mean, twin.norm.running_mean, atol=1e-6)
    fast.eval(), twin.eval()
    settle(backend, fast, twin, x)


ARGUMENTS: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "other batch": lambda: ((torch.randn(5, 8),), {}),
    "other type": lambda: ((torch.randn(4, 8).double(),), {}),
    "strides": lambda: ((torch.randn(8, 4).t(),), {}),
    "slice": lambda: ((torch.randn(4, 3, 8)[:, -1],), {}),
    "expanded": lambda: ((torch.randn(1, 8).expand(4, 8),), {}),
    "keyword": lambda: ((), {"x": torch.randn(4, 8)}),
    "mask": lambda: ((torch.randn(4, 8), torch.ones(8)), {}),
    "flag": lambda: ((torch.randn(4, 8),), {"flip": True}),
    "no number": lambda: ((torch.randn(4, 8),), {"flip": 1}),
    "list": lambda: ((torch.randn(4, 8),), {"many": [torch.ones(8), torch.ones(8)]}),
    "tuple": lambda: ((torch.randn(4, 8),), {"many": (torch.ones(8), 3)}),
    "a weight": lambda: ((nn.Parameter(torch.randn(4, 8), requires_grad=False),), {}),
}


@every_strategy
def test_other_arguments(backend: ModuleType) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    for make in ARGUMENTS.values():
        args, kwargs = make()
        if args and args[0].dtype == torch.float64:
            model.double()
        for _ in range(2):
            agree(backend, fast, model, *args, **kwargs)
        model.float()
        agree(backend, fast, model, x)
    same = torch.randn(8)
    agree(backend, fast, model, x, many=[same, same])
    agree(backend, fast, model, x, many=[same, same + 1])
    agree(backend, fast, model, x, model.shift)


def test_many_shapes(backend: ModuleType) -> None:
    model = Model().eval()
    fast = backend.optimize(model)
    for _ in range(2):
        for size in range(1, 12):
            agree(backend, fast, model, torch.randn(size, 8))


MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "inference": torch.inference_mode,
    "gradients": torch.enable_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default device": lambda: torch.device("meta"),
    "anomaly": torch.autograd.detect_anomaly,
}


@pytest.mark.parametrize("name", MODES)
@pytest.mark.filterwarnings("ignore:Anomaly")
def test_modes(backend: ModuleType, name: str) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    for _ in range(3):
        with torch.no_grad(), MODES[name]():
            actual, expected = fast(x), model(x)
        assert actual.dtype == expected.dtype
        assert actual.requires_grad == expected.requires_grad
        assert max(errors(actual, expected)) < (2e-2 if name == "autocast" else 1e-5)
    agree(backend, fast, model, x)


def test_tangents(backend: ModuleType) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    for gradients in (False, True):
        with forward_ad.dual_level(), torch.set_grad_enabled(gradients):
            dual = forward_ad.make_dual(x, torch.randn(4, 8))
            actual, expected = fast(dual), model(dual)
            tangents = [forward_ad.unpack_dual(value).tangent for value in (actual, expected)]
            assert tangents[0] is not None and torch.allclose(*tangents)
    settle(backend, fast, model, x)


class Adapts(nn.Module):
    """Needs gradients within, whatever is around it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            return self.linear(x)


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_gradients_that_are_switched_on_within(backend: ModuleType) -> None:
    model, x = Adapts(), torch.randn(4, 8)
    fast = backend.optimize(model)
    for _ in range(3):
        assert agree(backend, fast, model, x).requires_grad


class Labelled(Tensor):
    """Weights of a class of their own, as libraries have them."""


def test_weights_of_a_class_of_their_own(backend: ModuleType) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    weight = model.layers[0].weight.detach().as_subclass(Labelled)
    model.layers[0].weight = nn.Parameter(weight, requires_grad=False)
    for _ in range(3):
        with torch.no_grad():
            actual, expected = fast(x), model(x)
        assert torch.allclose(actual.as_subclass(Tensor), expected.as_subclass(Tensor), atol=1e-5)


def test_under_vmap_and_in_another_program(backend: ModuleType) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    with torch.no_grad():
        batch = torch.randn(3, 4, 8)
        assert torch.allclose(torch.vmap(fast)(batch), torch.vmap(model)(batch), atol=1e-5)
        outer = torch.compile(lambda value: fast(value) + 1)
        assert torch.allclose(outer(x), model(x) + 1, atol=1e-5)
        traced = torch.jit.trace(fast, x, check_trace=False)
        assert torch.allclose(traced(x + 1), model(x + 1), atol=1e-5)
        exported = torch.export.export(fast, (x,)).module()
        assert torch.allclose(exported(x), model(x), atol=1e-5)
    for _ in range(3):
        agree(backend, fast, model, x)
    settle(backend, fast, model, x)


def count_calls(backend: ModuleType, method: str, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One element for each call of a method of CapturedGraph from now on: `_call` replays, and `_record` captures."""
    calls: list[None] = []
    own = getattr(backend.CapturedGraph, method)

    def call(self: Any, *args: Any) -> Any:
        calls.append(None)
        return own(self, *args)

    monkeypatch.setattr(backend.CapturedGraph, method, call)
    return calls


def learn_nothing(backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets calls that no shortcut takes run the model: nothing is learned of them from now on."""
    monkeypatch.setattr(backend.Front, "_compiled", lambda self, args, kwargs: self.model(*args))


@pytest.fixture
def learned(backend: ModuleType) -> tuple[nn.Module, Any, Tensor]:
    """A model, the one with the backend in front, and the input of which there is a shortcut."""
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    return model, fast, x


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_no_replay_where_operators_are_recorded(
    backend: ModuleType, learned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would copy the input into a buffer of ours, which whoever records would have copied in each call."""
    model, fast, x = learned
    replays = count_calls(backend, "_call", monkeypatch)
    traced = torch.jit.trace(fast, x, check_trace=False)
    assert "copy_" not in str(traced.inlined_graph)
    with BaseTorchFunctionMode():
        fast(x)
    assert not replays
    settle(backend, fast, model, x)
    assert replays


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_another_mode_costs_one_replay(
    backend: ModuleType, learned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modes are looked at while the GPU works: where they are others a replay was for nothing, but not in each call."""
    model, fast, x = learned
    replays = count_calls(backend, "_call", monkeypatch)
    learn_nothing(backend, monkeypatch)
    with torch.enable_grad():
        results = [fast(x) for _ in range(4)]
    assert all(result.requires_grad for result in results)
    assert len(replays) == 1
    monkeypatch.undo()
    for _ in range(2):
        agree(backend, fast, model, x)


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_nothing_is_captured_in_another_mode(
    backend: ModuleType, learned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be replayed once the mode is again what it was."""
    model, fast, x = learned
    captures = count_calls(backend, "_record", monkeypatch)
    other = x.clone()
    agree(backend, fast, model, other)
    learn_nothing(backend, monkeypatch)
    torch.use_deterministic_algorithms(True)
    try:
        # The second one at that address, of which one reads the input where it is.
        agree(backend, fast, model, other)
    finally:
        torch.use_deterministic_algorithms(False)
    assert not captures
    for _ in range(2):
        agree(backend, fast, model, other)
    assert len(captures) == 1


class Clipped(nn.Module):
    """Takes ids that its table lacks, where its configuration says so."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(clip=False)
        self.table = nn.Embedding(8, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids.clamp(min=0) if self.config.clip else ids).relu()


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_ids_that_only_the_model_as_it_is_takes(backend: ModuleType) -> None:
    """A replay of what it was before would stop the device."""
    model, ids = Clipped().eval(), torch.arange(6)
    fast = backend.optimize(model)
    settle(backend, fast, model, ids)
    model.config.clip = True
    agree(backend, fast, model, ids - 2)
    settle(backend, fast, model, ids - 2)


class Moved(nn.Module):
    """Looks ids up from where a buffer says that they begin."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("start", torch.tensor([[3], [1]]))
        self.table = nn.Embedding(8, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids - self.start.sum(0)).relu()


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_ids_less_what_the_prologue_made(backend: ModuleType) -> None:
    """A replay with what was made of the buffer before would look beyond the table."""
    model, ids = Moved().eval(), torch.arange(4, 10)
    fast = backend.optimize(model)
    settle(backend, fast, model, ids)
    model.start.fill_(50)
    agree(backend, fast, model, ids + 96)
    settle(backend, fast, model, ids + 96)


class Guarded(nn.Module):
    """Takes ids that its table lacks, where a module that holds no table says so."""

    def __init__(self) -> None:
        super().__init__()
        self.before = Bounded()
        self.table = nn.Embedding(8, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(self.before(ids)).relu()


class Bounded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.clip = False

    def forward(self, ids: Tensor) -> Tensor:
        return ids.clamp(0, 7) if self.clip else ids


def clamp_first(module: nn.Module, args: tuple[Tensor, ...]) -> Tensor:
    return args[0].clamp(0, 7)


def clip(model: nn.Module) -> None:
    model.clip = True


# Modules before the table, and what makes them bound what it is given.
BOUNDING: dict[str, tuple[Callable[[], nn.Module], Callable[[Any], object]]] = {
    "attribute": (Bounded, clip),
    "contained": (lambda: nn.Sequential(Bounded()), lambda before: clip(before[0])),
    "appended": (nn.Sequential, lambda before: before.append(nn.Hardtanh(0, 7))),
    "hook": (nn.Identity, lambda before: before.register_forward_pre_hook(clamp_first)),
    "forward": (
        nn.Identity,
        lambda before: setattr(before, "forward", lambda ids: ids.clamp(0, 7)),
    ),
    "defaults": (lambda: WithDefault(), lambda before: setattr(bound, "__defaults__", (True,))),
}


def bound(ids: Tensor, clip: bool = False) -> Tensor:
    return ids.clamp(0, 7) if clip else ids


class WithDefault(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        return bound(ids)


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
@pytest.mark.parametrize("way", BOUNDING)
def test_ids_that_another_module_bounds(
    backend: ModuleType, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound, "__defaults__", (False,))
    if way == "defaults" and torch.__version__ < "2.13":
        pytest.skip("Dynamo does not look at defaults")
    make, change = BOUNDING[way]
    model, ids = Guarded().eval(), torch.arange(6)
    model.before = make()
    fast = backend.optimize(model)
    settle(backend, fast, model, ids)
    change(model.before)
    agree(backend, fast, model, ids * 10)
    settle(backend, fast, model, ids * 10)


class Picking(nn.Module):
    """Picks places of what it computes: there is no table."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.clip = False

    def forward(self, hidden: Tensor, ids: Tensor) -> Tensor:
        return self.linear(hidden[ids.clamp(0, 7) if self.clip else ids])


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_places_of_what_a_call_gives(backend: ModuleType) -> None:
    model, hidden, ids = Picking().eval(), torch.randn(8, 8), torch.arange(6)
    fast = backend.optimize(model)
    settle(backend, fast, model, hidden, ids)
    model.clip = True
    agree(backend, fast, model, hidden, ids * 10)
    settle(backend, fast, model, hidden, ids * 10)


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_tables_that_are_looked_up_otherwise(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ids, look_up = Guarded().eval(), torch.arange(6), nn.Embedding.forward
    fast = backend.optimize(model)
    settle(backend, fast, model, ids)
    monkeypatch.setattr(nn.Embedding, "forward", lambda table, ids: look_up(table, ids.clamp(0, 7)))
    agree(backend, fast, model, ids * 10)


@every_strategy
def test_code_of_what_a_class_computes(backend: ModuleType) -> None:
    """As notebooks that load a file anew give it."""

    class Doubling(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * torch.tanh(x)

    class Halving(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x) / 2

    model, x = nn.Sequential(nn.Linear(8, 8), Doubling()).eval(), torch.randn(3, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    Doubling.forward.__code__ = Halving.forward.__code__
    settle(backend, fast, model, x)


class Layer(nn.Module):
    kind = "plain"

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.GELU(), nn.LayerNorm(8))

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self, "absent") or self.kind != "plain":
            return x
        return x + self.body(x)


class Deep(nn.Module):
    """Looks ids up, and computes in many modules, with weights and without."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 8)
        self.layers = nn.ModuleList(Layer() for _ in range(40))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_little_is_looked_at_before_a_replay(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever other programs ask between two calls, which count as changes."""
    model, ids = Deep().eval(), torch.arange(6)
    fast = backend.optimize(model)
    settle(backend, fast, model, ids)
    looked: list[int] = []
    holds, replay = backend.Watch.holds, backend.Shortcut._replay

    def count(watch: Any) -> bool:
        dicts = (watch._filled, watch._counted, watch._empty)
        others = (watch._missing_owners, watch._expected, watch._objects, watch._keyed)
        looked.append(sum(map(len, (*dicts, *others))))
        return bool(holds(watch))

    def begin(*args: Any) -> Any:
        looked.append(-1)
        return replay(*args)

    monkeypatch.setattr(backend.Watch, "holds", count)
    monkeypatch.setattr(backend.Shortcut, "_replay", begin)
    torch._C._dynamo.guards.dict_version({})
    agree(backend, fast, model, ids)
    before, after = looked[: looked.index(-1)], looked[looked.index(-1) + 1 :]
    assert before and sum(before) < 40 < 40 * 20 < sum(after)


@pytest.mark.parametrize("backend", ["prologue"], indirect=True)
def test_what_another_thread_changes_while_a_call_is_learned_of(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast, learn = backend.optimize(model), backend.Front._learn

    def change_and_learn(*args: Any) -> None:
        model.scale = 3.0
        learn(*args)

    with torch.no_grad():
        monkeypatch.setattr(backend.Front, "_learn", change_and_learn)
        fast(x)
        monkeypatch.setattr(backend.Front, "_learn", learn)
    settle(backend, fast, model, x)


class Sum(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.tanh(x) * y


@pytest.mark.parametrize("backend", ["graph"], indirect=True)
def test_tangents_of_one_of_two_inputs(backend: ModuleType) -> None:
    model, x, y = Sum(), torch.randn(4, 8), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x, y)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.clone(), torch.ones(4, 8))
        actual, expected = fast(dual, y.clone()), model(dual, y)
        tangents = [forward_ad.unpack_dual(value).tangent for value in (actual, expected)]
    assert torch.allclose(*tangents)


class Results(nn.Module):
    """All that models give besides one tensor."""

    kind = "pair"

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.kept = [1, 2]

    def forward(self, x: Tensor) -> Any:
        y = self.linear(x)
        return {
            "pair": lambda: Pair(y, y + 1),
            "dictionary": lambda: {"y": y, "nothing": None, "more": [y * 2, (y,)]},
            "list": lambda: [y, y.sum()],
            "input": lambda: (y, x),
            "weight": lambda: (y, self.linear.weight),
            "view": lambda: (y, y[1:]),
            "twice": lambda: (y, y),
            "made": lambda: (y, made := self.linear.weight * 2, made[1:], made[0].expand(3, 8)),
            "number": lambda: (y, 3),
            "kept": lambda: (y, self.kept),
            "constant": lambda: (y, torch.arange(3.0) * 2),
            "empty": lambda: (),
        }[self.kind]()


@every_strategy
@pytest.mark.parametrize(
    "kind",
    [
        "pair",
        "dictionary",
        "list",
        "input",
        "weight",
        "view",
        "twice",
        "made",
        "number",
        "kept",
        "constant",
    ],
)
def test_results_of_all_kinds(backend: ModuleType, kind: str) -> None:
    model, x = Results().eval(), torch.randn(4, 8)
    model.kind = kind
    fast = backend.optimize(model)
    leaves, _ = torch.utils._pytree.tree_flatten(x)
    for _ in range(4):
        with torch.no_grad():
            actual, expected = fast(x), model(x)
        assert type(actual) is type(expected)
        own, shape = torch.utils._pytree.tree_flatten(actual)
        other, expected_shape = torch.utils._pytree.tree_flatten(expected)
        assert shape == expected_shape
        tolerance = 2e-2 if backend.STRATEGY.precision else 1e-5
        for one, two in zip(own, other, strict=True):
            if isinstance(two, Tensor):
                assert max(errors(one, two)) < tolerance
            else:
                assert one == two
        if kind == "input":
            assert actual[1] is x
        elif kind == "weight":
            assert actual[1] is model.linear.weight
        elif kind == "kept":
            assert actual[1] is model.kept
        elif kind == "constant":
            actual[1].zero_()
        elif kind in ("view", "twice"):
            assert actual[0].untyped_storage()._cdata == actual[1].untyped_storage()._cdata
        elif kind == "made":
            assert actual[3].stride() == (0, 1)
            actual[1].zero_()
            assert not actual[2].any() and not actual[3].any()
    assert leaves[0] is x


def test_it_is_the_model(backend: ModuleType) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    assert isinstance(fast, Model) and type(fast).__name__ == "Model" and repr(fast) == repr(model)
    assert list(fast.state_dict()) == list(model.state_dict())
    pairs = zip(fast.named_parameters(), model.named_parameters(), strict=True)
    assert all(one[0] == two[0] and one[1] is two[1] for one, two in pairs)
    fast.scale = 4.0
    assert model.scale == 4.0 and fast.layers is model.layers and fast.config is model.config
    settle(backend, fast, model, x)
    assert fast.to(torch.float32) is fast and fast.eval() is fast
    assert torch.equal(fast.forward(x), model(x))
    outer = nn.Sequential(fast, nn.ReLU())
    assert next(iter(outer.state_dict())) == "0.shift"
    settle(backend, outer, nn.Sequential(model, nn.ReLU()), x)
    with pytest.raises(TypeError, match="is no"):
        backend.optimize(torch.relu)
    with pytest.raises(TypeError):
        fast(x, 1, 2, 3)
    with pytest.raises(AttributeError):
        fast.nothing  # noqa: B018


def test_copies_have_fronts_of_their_own(backend: ModuleType) -> None:
    model, x = Model().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    other = copy.deepcopy(fast)
    with torch.no_grad():
        other.layers[0].weight.zero_()
    agree(backend, other, other.forward, x)
    settle(backend, fast, model, x)
    shallow = copy.copy(fast)
    shallow.scale = -1.0
    agree(backend, shallow, shallow.forward, x)
    agree(backend, fast, model, x)


def test_a_saved_model_needs_no_backend(backend: ModuleType) -> None:
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    file = io.BytesIO()
    torch.save(fast, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is nn.Sequential and torch.equal(loaded(x), model(x))


def test_the_module_itself_is_parametrized(backend: ModuleType) -> None:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    nn.utils.parametrizations.weight_norm(fast)
    with torch.no_grad():
        fast.parametrizations.weight.original0.mul_(2)
        assert torch.allclose(fast(x), nn.functional.linear(x, fast.weight, fast.bias))


class Breaks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.relu()
        torch._dynamo.graph_break()
        return y.tanh()


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


def test_what_cannot_be_short_is_as_fast_as_before(backend: ModuleType) -> None:
    x = torch.randn(3)
    for model in (Breaks(), Counts()):
        twin = copy.deepcopy(model)
        fast = backend.optimize(model)
        for _ in range(20):
            agree(backend, fast, twin, x)
        status = backend.status()["fronts"][-1]
        assert status.shortcuts == 0 and status.unfit
    assert model.calls == 20


def test_hooks_of_what_cannot_be_short(backend: ModuleType) -> None:
    x = torch.randn(4, 8)
    for model in (Breaks(), Counts()):
        twin = copy.deepcopy(model)
        fast = backend.optimize(model)
        for hooked in (False, True, False) * 8:
            handles = [own.register_forward_hook(hook) for own in (fast, twin) if hooked]
            for _ in range(2):
                agree(backend, fast, twin, x)
            for handle in handles:
                handle.remove()


class BreaksBefore(nn.Module):
    """What a part computes after a break."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = x.relu()
        torch._dynamo.graph_break()
        return self.part(y)


def test_hooks_of_parts_after_a_break(backend: ModuleType) -> None:
    x, other = torch.randn(4, 8), BreaksBefore()
    for _ in range(2):
        agree(backend, backend.optimize(other), copy.deepcopy(other), x)
    model = copy.deepcopy(other)
    twin = copy.deepcopy(model)
    # Hooks from before the first call, and such as come later.
    handles = [own.part.register_forward_hook(hook) for own in (model, twin)]
    fast = backend.optimize(model)
    for hooked in (True, False, True, False) * 2:
        for _ in range(2):
            agree(backend, fast, twin, x)
        for handle in handles:
            handle.remove()
        if not hooked:
            handles = [own.part.register_forward_hook(hook) for own in (model, twin)]
    agree(backend, backend.optimize(other), copy.deepcopy(other), x)


@pytest.mark.parametrize("owner", ["module", "class", "config", "class of config"])
def test_attributes_that_are_not_there(owner: str) -> None:
    class Own(nn.Module):
        config = SimpleNamespace(other=1)

    class Config:
        pass

    model = Own()
    model.config = Config()
    reads = ["L['model'].groups", "object.__getattribute__(L['model'].config, '__dict__')"]
    watch = Watch(model, [*reads, "L['model'].config.groups"], {})
    assert watch.holds()
    owners = {"module": model, "class": Own, "config": model.config, "class of config": Config}
    owners[owner].groups = 2  # type: ignore[attr-defined]
    assert not watch.holds()
    with pytest.raises(Unknown):
        Watch(Own(), ["L['model'].nothing.more"], {})


@pytest.mark.parametrize(
    ("read", "change"),
    [
        # As PyTorch 2.11 names what is no identifier.
        ("getattr(L['model'], '0')", lambda model: model.__setitem__(0, nn.ReLU())),
        (
            "__import__('collections').abc.opprof_read",
            lambda model: setattr(collections.abc, "opprof_read", 1),
        ),
    ],
)
def test_what_guards_name_otherwise(
    read: str, change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collections.abc, "opprof_read", 0, raising=False)
    model = nn.Sequential(nn.Linear(2, 2))
    watch = Watch(model, [read], {})
    assert watch.holds()
    change(model)
    assert not watch.holds()
    with pytest.raises(Unknown, match="nothing tells whether"):
        Watch(model, ["__import__('opprof_nothing').value"], {})


def test_a_module_that_is_loaded_anew_counts_before_a_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def settings(limit: int) -> ModuleType:
        module = ModuleType("opprof_settings")
        module.limit = limit  # type: ignore[attr-defined]
        return module

    monkeypatch.setitem(sys.modules, "opprof_settings", settings(1))
    model = nn.Embedding(2, 2)
    watch = Watch(model, ["__import__('opprof_settings').limit"], {})
    stopping = watch.of_what_decides_on([model.weight])
    # Modules are imported all the time: what counts is this one.
    monkeypatch.setitem(sys.modules, "opprof_others", settings(1))
    assert watch.holds() and stopping.holds()
    sys.modules["opprof_settings"] = settings(2)
    assert not watch.holds() and not stopping.holds()


class Form:
    """What has no dictionary."""

    __slots__ = ("act", "kind", "parts")

    def __init__(self) -> None:
        self.kind = "leaf"
        # Looks like a method of the class, and is none.
        self.act = self.one

    def one(self) -> int:
        return 1

    def two(self) -> int:
        return 2


class Mangled:
    __slots__ = ("__kind",)


@pytest.mark.parametrize(
    "change",
    [
        lambda form: setattr(form, "kind", "other"),
        lambda form: setattr(form, "parts", ()),
        lambda form: delattr(form, "kind"),
        lambda form: setattr(form, "act", form.two),
    ],
)
def test_objects_without_a_dictionary(change: Callable[[Form], Any]) -> None:
    model, form = nn.Linear(2, 2), Form()
    watch = Watch(model, ["G['form']"], {"form": form})
    assert watch.holds()
    change(form)
    assert not watch.holds()
    for other in (Mangled(), collections.deque[int]()):
        with pytest.raises(Unknown, match=f"of type {type(other).__name__}"):
            Watch(model, ["G['form']"], {"form": other})


class Unmoved(watching.DictionaryChanges):
    """Says as often as it is asked that nothing that is counted has changed."""

    def mark(self) -> object:
        return self


@pytest.mark.parametrize("told_by", ["count", "versions", "contents"])
def test_what_no_count_of_changes_tells_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, told_by: str
) -> None:
    """A plain empty dictionary, which is filled unseen where another is copied into it, and the classes of modules; and all else where
    nothing is counted, and where versions do not tell.
    """

    class Own(nn.Linear):
        pass

    def own() -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU()), nn.ReLU())

    counts = told_by == "count"
    monkeypatch.setattr(watching, "_changes", Unmoved() if counts else None)
    if told_by == "contents":
        monkeypatch.setattr(watching, "_VERSIONS_TELL", False)
    changes: list[Callable[[nn.Sequential], Any]] = [
        lambda model: model[1]._parameters.update({"weight": nn.Parameter(torch.ones(1))}),
        lambda model: model[2]._modules.update({"0": nn.Sigmoid()}),
        lambda model: setattr(model[0], "__class__", Own),
    ]
    counted: list[Callable[[nn.Sequential], Any]] = [
        lambda model: model[0].train(not model[0].training),
        lambda model: model[1].register_forward_hook(lambda *_: None),
        lambda model: model.append(nn.ReLU()),
        lambda model: setattr(model[0], "weight", nn.Parameter(torch.ones(4, 4))),
        lambda model: delattr(model, "2"),
    ]
    for change in [*changes, *([] if counts else counted)]:
        model = own()
        watch = Watch(model, (), {})
        assert watch.holds()
        assert watch.holds()
        change(model)
        assert not watch.holds()


@pytest.mark.skipif(
    sys.version_info < (3, 12) or not watching._VERSIONS_TELL,
    reason="Python tells nobody of changes before 3.12, nor 3.13.0 of those of attributes",
)
def test_changes_of_dictionaries_are_counted() -> None:
    changes = watching._changes
    assert changes is not None
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout()), nn.ReLU()).eval()
    other = Watch(nn.Linear(4, 4), (), {})

    def holds() -> bool:
        """Of a watch that has looked at all once."""
        assert watch.holds()
        # What another one asks, or a program does, changes nothing.
        before = changes.mark()
        assert other.holds()
        vars(SimpleNamespace(value=1)).update(value=2)
        assert changes.mark() is before
        return watch.holds()

    ways: list[Callable[[], Any]] = [
        model.train,
        lambda: model[1][0].train(),
        lambda: object.__setattr__(model[2], "inplace", True),
        lambda: vars(model[1][0]).update(p=0.5),
        lambda: model[1][0].register_forward_pre_hook(lambda *_: None),
        lambda: model[0].register_buffer("extra", torch.ones(1)),
        lambda: model[0].register_parameter("bias", None),
        lambda: model.append(nn.ReLU()),
        lambda: delattr(model, "3"),
    ]
    for way in ways:
        watch = Watch(model.eval(), (), {})
        assert holds()
        way()
        assert not watch.holds()


def test_sets_that_are_read() -> None:
    """As libraries keep which classes they have registered."""
    for change in (lambda own: own.add("more"), lambda own: own.clear(), lambda own: own.pop()):
        scope: dict[str, Any] = {"registered": {"first"}, "fixed": frozenset({1})}
        reads = ["list(G['registered'])[0]", "G['registered']", "G['fixed']"]
        watch = Watch(nn.Linear(2, 2), reads, scope)
        assert watch.holds()
        change(scope["registered"])
        assert not watch.holds()
    assert Watch(nn.Linear(2, 2), ["list(G['fixed'])[0]"], {"fixed": frozenset({1})}).holds()


class Factor:
    k = 2.0


class Loose(nn.Module):
    """Uses something as long as somebody else has it."""

    def __init__(self, factor: Factor) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.factor = weakref.ref(factor)

    def forward(self, x: Tensor) -> Tensor:
        factor = self.factor()
        return self.linear(x) if factor is None else self.linear(x) * factor.k


def test_what_is_held_weakly_may_go(backend: ModuleType) -> None:
    factor = Factor()
    model, x = Loose(factor).eval(), torch.randn(2, 4)
    fast, referent = backend.optimize(model), weakref.ref(factor)
    with torch.no_grad():
        for _ in range(6):
            assert torch.allclose(fast(x), model(x), atol=1e-6)
        del factor
        gc.collect()
        assert referent() is None
        for _ in range(3):
            assert torch.allclose(fast(x), model(x), atol=1e-6)


class Registry(dict[Any, Any]):
    """What libraries keep by class."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key)


MODE = TransformGetItemToIndex()


class InMode(nn.Module):
    """As transformers makes masks: within a function mode of its own. Or leaves one behind."""

    def __init__(self, leaves: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.leaves = leaves

    def forward(self, x: Tensor) -> Tensor:
        with TransformGetItemToIndex():
            x = self.layer(x)
        if self.leaves:
            MODE.__enter__()
        return x + 1


def test_models_that_enter_a_mode_and_leave_it(backend: ModuleType) -> None:
    model, x = InMode(leaves=False).eval(), torch.randn(3, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)


def test_models_that_leave_a_mode_behind(backend: ModuleType) -> None:
    model, x = InMode(leaves=True).eval(), torch.randn(3, 8)
    fast = backend.optimize(model)
    for _ in range(3):
        with torch.no_grad():
            fast(x)
        # Taken away, so that the next call might be short.
        MODE.__exit__(None, None, None)
    assert not torch.overrides._get_current_function_mode_stack()
    (front,) = backend.status()["fronts"]
    assert not front.shortcuts and front.unfit == "it changes what was there before"


class Pairs:
    """What PyTorch is told of while a model is there."""


class Flattening(nn.Module):
    """As what is made of an archive: the form of its arguments is asked of PyTorch's own tables, which it imports by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.forms = [[(3, 8), torch.float32]]

    def forward(self, *args: Any) -> Any:
        leaves = pytree.tree_leaves(args)
        if [tuple(leaves[0].shape), leaves[0].dtype] not in self.forms:
            raise ValueError("another form")
        return {"result": pytree.tree_map(self.layer, args)[0]}


def test_models_that_flatten_their_arguments(backend: ModuleType) -> None:
    model, x = Flattening().eval(), torch.randn(3, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    before = shortcuts(backend)
    pytree.register_pytree_node(Pairs, lambda pairs: ([], None), lambda values, _: Pairs())
    agree(backend, fast, model, x)
    assert shortcuts(backend) == before
    settle(backend, fast, model, x)
    model.forms.clear()
    with torch.no_grad(), pytest.raises(ValueError, match="another form"):
        fast(x)


class Switch:
    """What libraries set for the time of a call."""

    def __init__(self) -> None:
        self.value: Any = None

    def set(self, value: Any) -> Any:
        before, self.value = self.value, value
        return before


REGISTRY, SWITCH = Registry(), Switch()


class LikeLibraries(nn.Module):
    """Looks up how to compute by its class, and sets a switch while it does."""

    def forward(self, x: Tensor) -> Tensor:
        before = SWITCH.set("on")
        for kind, factor in REGISTRY.items():
            if isinstance(self, kind):
                x = x * factor
        SWITCH.set(before)
        return x.tanh()


def test_registries_and_switches(backend: ModuleType) -> None:
    REGISTRY.update({nn.Linear: 2.0, LikeLibraries: 3.0})
    model, x = LikeLibraries(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    REGISTRY[LikeLibraries] = 5.0
    settle(backend, fast, model, x)
    assert SWITCH.value is None
    SWITCH.value = "mine"
    agree(backend, fast, model, x)
    assert SWITCH.value == "mine"
    SWITCH.value = None


@every_strategy
def test_threads(backend: ModuleType) -> None:
    model, x = Merged(), torch.randn(3, 8)
    fast = backend.optimize(model)
    tolerance = 2e-2 if backend.STRATEGY.precision else 1e-5
    found = errors_in_threads(fast, model, calls=20)
    assert len(found) == 3 * 4 * 20 * 2 and max(found) < tolerance
    settle(backend, fast, model, x)


def test_equal_modules_have_their_own_weights(backend: ModuleType) -> None:
    blocks = [Merged() for _ in range(4)]
    fast = [backend.optimize(block) for block in blocks]
    compiled = [torch.compile(block, backend=backend.BACKEND_NAME) for block in blocks]
    for _ in range(3):
        for block, one, two in zip(blocks, fast, compiled, strict=True):
            x = torch.randn(3, 8)
            agree(backend, one, block, x)
            agree(backend, two, block, x)
    # Blocks that share a program do not take each other's weights away.
    assert max(graph.refreshes for graph in backend.status()["graphs"]) <= 3


class Kept(type):
    """A metaclass that keeps the classes that a program defines, and asks for a name."""

    classes: ClassVar[list[str]] = []

    def __new__(cls, *definition: Any, label: str = "", **others: Any) -> Any:
        assert label, "each class has a label"
        cls.classes.append(label)
        return super().__new__(cls, *definition, **others)

    def __init__(cls, *definition: Any, **others: Any) -> None:
        super().__init__(*definition)


class Twice(nn.Module):
    """One part."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.part(x) * 2


class Registering(nn.Module, metaclass=Kept, label="base"):
    """As plugins do: each class that is derived from it says by which name it is found."""

    found: ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls, *, key: str) -> None:
        Registering.found[key] = cls


class Found(Registering, key="found", label="found"):
    """Attributes in slots besides those of a module."""

    __slots__ = ("factor", "later")

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.factor = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor


def test_classes_that_ask_for_something_of_those_that_derive_from_them(
    backend: ModuleType,
) -> None:
    model, x = Found().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    assert Registering.found == {"found": Found} and Kept.classes == ["base", "found"]
    settle(backend, fast, model, x)
    assert isinstance(fast, Found) and not isinstance(model, type(fast))


def test_attributes_in_slots_are_the_models(backend: ModuleType) -> None:
    model, x = Found().eval(), torch.randn(4, 8)
    fast = backend.optimize(model)
    settle(backend, fast, model, x)
    fast.factor = 3.0
    assert model.factor == 3.0 and not hasattr(fast, "later")
    settle(backend, fast, model, x)
    model.later = 1
    assert fast.later == 1
    del fast.later
    assert not hasattr(model, "later")


@pytest.mark.parametrize("backend", ["prologue", "graph"], indirect=True)
@pytest.mark.parametrize("kind", [BreaksBefore, Twice, nn.Linear])
def test_classes_that_get_another_function(
    backend: ModuleType, kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the model, of a part of it, and of a part after a break."""
    models = [Twice(), BreaksBefore()]
    x, fast = torch.randn(4, 8), [backend.optimize(model) for model in models]
    own: Any = kind.forward
    for function in (own, lambda self, x: own(self, x) - 1, own, lambda self, x: x * 3):
        monkeypatch.setattr(kind, "forward", function)
        for optimized, model in zip(fast, models, strict=True):
            for _ in range(3):
                agree(backend, optimized, model, x)


class WithAbstract(nn.Module, abc.ABC):
    @abc.abstractmethod
    def forward(self, x: Tensor) -> Tensor: ...


class Concrete(WithAbstract):
    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


def test_a_model_of_an_abstract_class_is_not_what_is_made_of_it(backend: ModuleType) -> None:
    model = Concrete()
    assert isinstance(model, Concrete)
    fast = backend.optimize(model)
    assert isinstance(fast, WithAbstract) and not isinstance(model, type(fast))


def test_no_context_is_left_behind(backend: ModuleType) -> None:
    model = Model().eval()
    fast = backend.optimize(model)
    with nullcontext(), pytest.raises(RuntimeError), torch.no_grad():
        fast(torch.randn(4, 9))
    settle(backend, fast, model, torch.randn(4, 8))
