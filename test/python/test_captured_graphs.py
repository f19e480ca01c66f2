"""Captured programs: whose memory results lie in, what is copied, and what is looked at while a replay runs."""

import ast
import contextlib
import importlib.resources
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from emulated_graphs import emulate
from programs import import_program
from torch import Tensor

from opprof.backend.emit import emit
from opprof.backend.emitted.cuda_graph import capture_on, warm_up_on


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
        return graph(values, (lambda: True) if hand_out else None)

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


def test_results_of_which_the_storage_is_kept_stay(captured: Callable[..., list[Tensor]]) -> None:
    kept = []
    for _ in range(8):
        x, y = fresh()
        kept.append((captured(x, y)[0].untyped_storage(), expected(x, y)[0]))
    for storage, right in kept:
        assert torch.equal(torch.empty(0).set_(storage, 0, (3, 4), (4, 1)), right)


def test_results_that_are_written_are_the_callers(captured: Callable[..., list[Tensor]]) -> None:
    for _ in range(4):
        x, y = fresh()
        results = captured(x, y)
        assert same(results, expected(x, y))
        for value in results:
            value.zero_()


def test_results_whose_memory_is_given_back(captured: Callable[..., list[Tensor]]) -> None:
    for number in range(8):
        x, y = fresh()
        results = captured(x, y)
        assert same(results, expected(x, y))
        if number % 2:
            results[0].untyped_storage().resize_(0)
        else:
            results[0].resize_(64, 64).fill_(7)
        del results
    assert len(captured.graph.recordings) <= 3


class Stream:
    """As much of a stream as a capture asks of it."""

    def wait_stream(self, other: "Stream") -> None:
        pass


@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_ends_on_the_stream_it_began_on(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    own, side = Stream(), Stream()
    current = [own]

    @contextlib.contextmanager
    def on(stream: Stream) -> Iterator[None]:
        before, current[0] = current[0], stream
        yield
        current[0] = before

    @contextlib.contextmanager
    def capture(graph: object, stream: Stream, capture_error_mode: str) -> Iterator[None]:
        # As PyTorch's, which does not come to this where the capture fails.
        with on(stream):
            yield

    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
    for name, value in {
        "CUDAGraph": object,
        "graph": capture,
        "stream": on,
        "current_stream": lambda: current[0],
        "set_stream": lambda stream: current.__setitem__(0, stream),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    runs: list[Stream] = []

    def step() -> int:
        runs.append(current[0])
        if fails and len(runs) > 2:
            raise RuntimeError("operation not permitted when stream is capturing")
        return len(runs)

    warm_up_on(side, step, 2)
    assert current == [own]
    with pytest.raises(RuntimeError) if fails else contextlib.nullcontext():
        assert capture_on(side, step)[1] == 3
    assert current == [own] and runs == [side] * 3


def test_a_capture_has_a_workspace_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others give back at any time is nothing that a replay writes, and what a replay writes is nobody else's."""
    # As PyTorch keeps them, by the stream; those of a capture lie in its memory.
    workspaces: dict[Stream, str] = {}
    side, place = Stream(), ["everybody's"]

    @contextlib.contextmanager
    def capture(graph: object, stream: Stream, capture_error_mode: str) -> Iterator[None]:
        place[0] = "the graph's"
        yield
        place[0] = "everybody's"

    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", workspaces.clear, raising=False)
    for name, value in {
        "CUDAGraph": object,
        "graph": capture,
        "current_stream": lambda: side,
        "set_stream": lambda stream: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)

    def product() -> str:
        return workspaces.setdefault(side, place[0])

    assert product() == "everybody's"
    for _ in range(2):
        assert capture_on(side, product)[1] == "the graph's"
        assert product() == "everybody's"


def test_graphs_are_captured_in_one_place() -> None:
    sources = importlib.resources.files("opprof")
    holders = [
        path
        for path in Path(str(sources)).rglob("*.py")
        if any(
            isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.cuda.CUDAGraph"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    ]
    assert [path.stem for path in holders] == ["cuda_graph"]


def test_copies_are_conjugated_and_negated_when_they_are_read(backend: ModuleType) -> None:
    def lazily(x: Tensor) -> list[Tensor]:
        number = torch.complex(x, x + 1)
        return [number.conj(), number.conj().imag, number.conj()[1:]]

    graph = backend.CapturedGraph(lazily, [torch.randn(3)], None)
    x = torch.randn(3)
    results = graph([x])
    for own, right in zip(results, lazily(x), strict=True):
        assert own.is_conj() == right.is_conj() and own.is_neg() == right.is_neg()
        assert torch.equal(own, right)


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
