"""Captured programs: whose memory results lie in, what is copied, and what is looked at while a replay runs."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from emulated_graphs import emulate
from programs import import_program
from torch import Tensor

from opprof.backend.emit import emit


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    module = import_program(emit([], tmp_path_factory.mktemp("graphs") / "captured_graphs.py")[0])
    emulate(module)
    return module


def function(x: Tensor, y: Tensor) -> list[Tensor]:
    total = x + y
    return [total, total[1:], (x * y).t()]


def expected(x: Tensor, y: Tensor) -> list[Tensor]:
    return [value.clone() for value in function(x, y)]


@pytest.fixture
def captured(backend: ModuleType) -> Callable[..., list[Tensor]]:
    inputs = [torch.randn(3, 4), torch.randn(4).expand(3, 4)]
    graph = backend.CapturedGraph(function, inputs, None)

    def call(*values: Tensor, hand_out: bool = True) -> list[Tensor]:
        return graph(values, hand_out=hand_out)

    call.graph = graph  # type: ignore[attr-defined]
    return call


def fresh() -> tuple[Tensor, Tensor]:
    return torch.randn(3, 4), torch.randn(4).expand(3, 4)


def same(actual: list[Tensor], right: list[Tensor]) -> bool:
    pairs = zip(actual, right, strict=True)
    return all(torch.equal(a, b) and a.stride() == b.stride() for a, b in pairs)


def test_a_loop_that_drops_results_copies_none(captured: Callable[..., list[Tensor]]) -> None:
    where = set()
    for _ in range(6):
        x, y = fresh()
        results = captured(x, y)
        assert same(results, expected(x, y))
        assert results[1].untyped_storage()._cdata == results[0].untyped_storage()._cdata
        where.add(results[0].data_ptr())
    assert len(where) == 2 and len(captured.graph.recordings) == 3


def test_results_that_are_kept_stay(captured: Callable[..., list[Tensor]]) -> None:
    kept = []
    for number in range(8):
        x, y = fresh()
        results = captured(x, y)
        # A view holds the memory as well.
        kept.append((results[1][0] if number % 2 else results[0][1], expected(x, y)[0][1]))
    assert all(torch.equal(own, right) for own, right in kept)
    assert len(captured.graph.recordings) == 3
    del kept, results
    x, y = fresh()
    results = captured(x, y)
    storages = [recording.outputs[0].data_ptr() for recording in captured.graph.recordings]
    assert results[0].data_ptr() in storages[1:]


def test_results_that_are_written_are_the_callers(captured: Callable[..., list[Tensor]]) -> None:
    for _ in range(4):
        x, y = fresh()
        results = captured(x, y)
        assert same(results, expected(x, y))
        for value in results:
            value.zero_()


def test_copies_are_of_nobody_else(captured: Callable[..., list[Tensor]]) -> None:
    one, two = fresh(), fresh()
    first, second = captured(*one, hand_out=False), captured(*two, hand_out=False)
    assert same(first, expected(*one)) and same(second, expected(*two))
    assert first[0].untyped_storage()._cdata == first[1].untyped_storage()._cdata
    assert len(captured.graph.recordings) == 1


def test_inputs_at_the_same_place_are_not_copied(captured: Callable[..., list[Tensor]]) -> None:
    x, y = fresh()
    for _ in range(3):
        results = captured(x, y)
    copied = type(captured.graph).copied_in
    for number in range(4):
        x.fill_(number)
        results = captured(x, y)
        assert same(results, expected(x, y))
    assert type(captured.graph).copied_in == copied
    other, y = fresh()
    assert same(captured(other, y), expected(other, y))
    assert type(captured.graph).copied_in == copied + 1
    assert same(captured(x, y), expected(x, y))
    assert len(captured.graph.recordings) <= 5
