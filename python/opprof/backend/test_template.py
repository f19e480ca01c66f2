# The source of the test that `opprof emit` writes beside a backend. It needs PyTorch and pytest only.

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

BACKEND_FILE = Path(__file__).with_name("opprof_template.py")


def _load(file: Path) -> ModuleType:
    if file.stem in sys.modules:
        return sys.modules[file.stem]
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


backend = _load(BACKEND_FILE)


def _error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    expected = expected.double()
    return float((actual.double() - expected).norm() / expected.norm().clamp_min(1e-30))


def _tensor(spec: Any) -> torch.Tensor:
    if not spec.dtype or not spec.shape or not spec.device or spec.subclass:
        pytest.skip("the pattern leaves open what it takes, or takes a class of its own")
    device = torch.device(spec.device)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        pytest.skip("the pattern is for a GPU, and there is none of that number")
    shape = tuple(size if isinstance(size, int) else 3 for size in spec.shape)
    value = torch.randn(shape, device=device, dtype=torch.float64).to(spec.dtype)
    if isinstance(spec.stride, tuple):
        strides = [
            stride if isinstance(stride, int) else own
            for stride, own in zip(spec.stride, value.stride(), strict=True)
        ]
        laid_out = torch.empty_strided(shape, strides, device=device, dtype=spec.dtype)
        value = laid_out.copy_(value)
    return value.requires_grad_(bool(spec.requires_grad))


def test_backend_is_registered() -> None:
    assert backend.BACKEND_NAME in torch._dynamo.list_backends(exclude_tags=())


@pytest.mark.parametrize("rewrite", backend.REWRITES, ids=lambda rewrite: rewrite.name)
def test_rewrite_is_applied_and_keeps_values(rewrite: Any) -> None:
    torch.manual_seed(0)
    if backend.leaves_open(rewrite.pattern):
        pytest.skip("the pattern leaves constants open")
    count = rewrite.pattern.__code__.co_argcount
    inputs = [_tensor(spec) for spec in rewrite.values[:count]]

    def model(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = rewrite.pattern(*values)
        results = (results,) if isinstance(results, torch.Tensor) else results
        return tuple(result.neg() for result in results)

    with torch.no_grad():
        graph = backend.trace_to_aten(model, inputs)
        counts = backend.apply_rewrites(graph)
        assert counts[rewrite.name] == 1
        for actual, expected in zip(graph(*inputs), model(*inputs), strict=True):
            assert actual.shape == expected.shape and actual.dtype == expected.dtype
            assert _error(actual, expected) < 1e-5


def test_other_graphs_are_left_alone() -> None:
    value = torch.randn(4, 5)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) + x.sum()

    with torch.no_grad():
        graph = backend.trace_to_aten(model, [value])
        before = [(node.op, node.target) for node in graph.graph.nodes]
        assert not any(backend.apply_rewrites(graph).values())
        assert [(node.op, node.target) for node in graph.graph.nodes] == before


def test_gradients_are_what_they_were() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    value = torch.randn(2, 4)
    torch.compile(model, backend=backend.BACKEND_NAME)(value).sum().backward()
    assert model.weight.grad is not None
    expected = value.sum(0).expand(4, 4)
    assert _error(model.weight.grad, expected) < 1e-5


def test_weights_may_change() -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).to(device).eval()
    value = torch.randn(2, 8, device=device)
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    with torch.no_grad():
        rounds = backend.STRATEGY.precision or backend.STRATEGY.tf32
        tolerance = 2e-2 if rounds else 1e-5
        assert _error(compiled(value), model(value)) < tolerance
        model[0].weight.mul_(2.0)
        assert _error(compiled(value), model(value)) < tolerance
