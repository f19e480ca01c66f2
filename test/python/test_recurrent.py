"""Recurrent layers under emitted backends: handed over by Dynamo, never unrolled, and what PyTorch gives."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from programs import import_program
from torch import Tensor, nn
from torch._inductor.utils import run_and_get_code

from opprof.backend.emit import emit


class Encoder(nn.Module):
    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer = layer
        self.out = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, state = self.layer(torch.tanh(x))
        return self.out(y).relu(), state[0]


MODELS: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: Encoder(nn.LSTM(8, 16, 2, batch_first=True), 16),
    "lstm, both ways": lambda: Encoder(nn.LSTM(8, 16, bidirectional=True), 32),
    "lstm, projected": lambda: Encoder(nn.LSTM(8, 16, proj_size=4), 4),
    "gru": lambda: Encoder(nn.GRU(8, 16, batch_first=True), 16),
    "gru, without bias": lambda: Encoder(nn.GRU(8, 16, bias=False), 16),
    "rnn": lambda: Encoder(nn.RNN(8, 16, nonlinearity="relu"), 16),
}


@pytest.fixture(autouse=True)
def dynamo_as_before() -> Iterator[None]:
    with torch._dynamo.config.patch(allow_rnn=False):
        yield


def backend_of(folder: Path, name: str, **strategy: object) -> ModuleType:
    torch._dynamo.reset()
    file = folder / f"recurrent_{''.join(c if c.isalnum() else '_' for c in name)}.py"
    emit([], file)
    fields = ", ".join(f"{key}={value!r}" for key, value in strategy.items())
    file.write_text(
        file.read_text().replace("STRATEGY = Strategy()", f"STRATEGY = Strategy({fields})")
    )
    return import_program(file)


@pytest.mark.parametrize("name", MODELS)
def test_layers_stay_one_call_of_the_library(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    backend = backend_of(tmp_path, name, recurrent=True, prologue=True)
    model = MODELS[name]().eval()
    compiled = torch.compile(copy.deepcopy(model), backend=backend.BACKEND_NAME)
    x = torch.randn(3, 5, 8)
    with torch.no_grad():
        expected = model(x)
        actual, sources = run_and_get_code(compiled, x)
    for own, reference in zip(actual, expected, strict=True):
        assert torch.allclose(own, reference, rtol=1e-4, atol=1e-5)
        assert own.stride() == reference.stride()
    (graph,) = backend.status()["graphs"]
    assert graph.refusal is None
    # One call, whatever the length of the sequence.
    assert sum(source.count("torch.ops.opprof_recurrent.") for source in sources) >= 1
    assert not any("mkldnn_rnn" in source or "lstm_cell" in source for source in sources)


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_other_strategies_apply_with_it(tmp_path: Path, precision: torch.dtype | None) -> None:
    torch.manual_seed(0)
    backend = backend_of(
        tmp_path,
        f"with_{precision}",
        recurrent=True,
        prologue=True,
        freeze=True,
        precision=precision,
    )
    model = MODELS["lstm"]().eval()
    compiled = torch.compile(copy.deepcopy(model), backend=backend.BACKEND_NAME)
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(3, 5, 8)
            for own, reference in zip(compiled(x), model(x), strict=True):
                assert own.dtype == torch.float32
                assert (own - reference).norm() / reference.norm() < (2e-2 if precision else 1e-5)
    (graph,) = backend.status()["graphs"]
    assert graph.refusal is None and not graph.left_out


def test_without_the_strategy_dynamo_keeps_its_way(tmp_path: Path) -> None:
    backend = backend_of(tmp_path, "without")
    model = MODELS["lstm"]().eval()
    with torch.no_grad():
        torch.compile(model, backend=backend.BACKEND_NAME)(torch.randn(3, 5, 8))
    assert backend.status()["graphs"] == []


def test_training_runs_as_it_did(tmp_path: Path) -> None:
    torch.manual_seed(0)
    backend = backend_of(tmp_path, "training", recurrent=True)
    model = MODELS["lstm"]()
    twin = copy.deepcopy(model)
    x = torch.randn(3, 5, 8)
    torch.compile(model, backend=backend.BACKEND_NAME)(x)[0].sum().backward()
    twin(x)[0].sum().backward()
    for own, reference in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(own.grad, reference.grad, rtol=1e-4, atol=1e-5)
    (graph,) = backend.status()["graphs"]
    assert graph.refusal == "gradients are needed"


@pytest.mark.parametrize("name", MODELS)
def test_weights_that_were_cast_lie_together_as_the_library_takes_them(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[object, ...]] = []
    monkeypatch.setattr(torch.backends.cudnn, "is_acceptable", lambda value: True)
    monkeypatch.setattr(torch.backends.cudnn.rnn, "get_cudnn_mode", lambda mode: mode)
    monkeypatch.setattr(
        torch, "_cudnn_rnn_flatten_weight", lambda *arguments: given.append(arguments)
    )
    backend = backend_of(
        tmp_path, f"together_{name}", recurrent=True, prologue=True, precision=torch.bfloat16
    )
    model = MODELS[name]().eval()
    with torch.no_grad():
        torch.compile(model, backend=backend.BACKEND_NAME)(torch.randn(3, 5, 8))
    layer = model.layer
    (weights, *rest) = given[0]
    assert [value.shape for value in weights] == [value.shape for value in layer._flat_weights]
    assert all(value.dtype is torch.bfloat16 for value in weights)
    # What the module itself gives for its own weights.
    per_layer = len(layer.all_weights[0])
    sizes = [layer.input_size, layer.mode, layer.hidden_size, layer.proj_size, layer.num_layers]
    expected = [per_layer, *sizes, layer.batch_first, layer.bidirectional]
    assert rest == expected


@pytest.mark.parametrize("name", MODELS)
def test_calls_pass_dynamo_by(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    backend = backend_of(tmp_path, f"front_{name}", recurrent=True, prologue=True)
    model = MODELS[name]().eval()
    front = backend.optimize(model)
    x = torch.randn(3, 5, 8)

    def check() -> int:
        before = backend.status()["fronts"][0].shortcuts
        for _ in range(4):
            for own, reference in zip(front(x), model(x), strict=True):
                assert torch.allclose(own, reference, rtol=1e-4, atol=1e-5)
        return int(backend.status()["fronts"][0].shortcuts) - int(before)

    with torch.no_grad():
        assert check() >= 2
        layer = model.layer
        layer.weight_hh_l0.mul_(2)
        assert check() >= 2
        # PyTorch's layers keep weak references to their weights, look whether these are the weights still, and make them anew in
        # the call where they are not.
        layer.weight_ih_l0 = nn.Parameter(torch.randn_like(layer.weight_ih_l0))
        check()
        layer.load_state_dict({key: value / 2 for key, value in layer.state_dict().items()})
        check()
        layer._init_flat_weights()
        check()
