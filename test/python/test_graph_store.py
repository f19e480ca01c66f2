"""What was compiled for the cache: its code and graph are there for whoever takes it out."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from opprof.export.graph_store import GraphStore
from opprof.export.inductor import watching_inductor
from opprof.run_folder import OUTPUT_CODE, POST_GRAD


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) * 3


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    yield
    torch._dynamo.reset()


def compiled(store: GraphStore, folder: Path, calls: int = 1) -> tuple[list[str], int]:
    """The names of the graphs that the store told of, and how often Inductor's cache had one."""
    torch.manual_seed(0)
    told: list[str] = []
    model, x = Small(), torch.randn(2, 8)
    expected = model(x)
    counters.clear()
    with store.watching(folder, lambda name, place: told.append(str(place.relative_to(folder)))):
        for _ in range(calls):
            torch._dynamo.reset()
            torch.testing.assert_close(torch.compile(model)(x), expected)
    return told, counters["inductor"]["fxgraph_cache_hit"]


def test_what_comes_out_of_the_cache_has_the_code_and_the_graph_of_its_compilation(
    tmp_path: Path,
) -> None:
    store = GraphStore(tmp_path / "store")
    (first,), hits = compiled(store, tmp_path / "a")
    assert hits == 0
    (second,), hits = compiled(store, tmp_path / "b")
    assert hits == 1
    for file in (OUTPUT_CODE, POST_GRAD):
        made, taken = (tmp_path / "a" / first / file), (tmp_path / "b" / second / file)
        assert taken.read_text() == made.read_text()
    # No other folder is left beside those with keys.
    assert all(not place.name.startswith(".") for place in (tmp_path / "store").iterdir())


def test_two_of_one_key_have_a_folder_and_a_name_each(tmp_path: Path) -> None:
    store = GraphStore(tmp_path / "store")
    compiled(store, tmp_path / "a")
    names, hits = compiled(store, tmp_path / "b", calls=2)
    assert hits == 2 and len(set(names)) == 2
    for name in names:
        content = json.loads((tmp_path / "b" / name / POST_GRAD).read_text())
        assert content["graphs"][0]["name"] == name


def test_what_the_cache_has_and_the_store_has_not_is_compiled(tmp_path: Path) -> None:
    compiled(GraphStore(tmp_path / "one"), tmp_path / "a")
    (name,), _ = compiled(GraphStore(tmp_path / "other"), tmp_path / "b")
    assert (tmp_path / "b" / name / OUTPUT_CODE).is_file()
    assert len(list((tmp_path / "other").iterdir())) == 1


def test_a_compilation_that_failed_is_not_what_comes_out_of_the_cache_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.graph import GraphLowering

    store = GraphStore(tmp_path / "store")
    (first,), _ = compiled(store, tmp_path / "a")
    torch._dynamo.reset()
    with (
        store.watching(tmp_path / "b", lambda name, place: told.append(place / POST_GRAD)),
        monkeypatch.context() as patched,
    ):
        told: list[Path] = []

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("nothing is lowered")

        patched.setattr(GraphLowering, "run", fail)
        with pytest.raises(Exception, match="nothing is lowered"):
            torch.compile(lambda x: torch.cos(x) - 1)(torch.ones(3))
        patched.undo()
        torch.manual_seed(0)
        torch.compile(Small())(torch.randn(2, 8))
    (graph,) = told
    # Neither the cosine's nor under its name.
    assert graph.read_text() == (tmp_path / "a" / first / POST_GRAD).read_text()


def test_inductor_is_as_it_was_afterwards(tmp_path: Path) -> None:
    from torch._inductor.codecache import FxGraphCache
    from torch._inductor.output_code import CompiledFxGraph

    before = (FxGraphCache.load_with_key, CompiledFxGraph.post_compile)
    with pytest.raises(ZeroDivisionError), GraphStore(tmp_path / "store").watching(tmp_path):
        raise ZeroDivisionError
    with watching_inductor(tmp_path, lambda graph: None):
        assert CompiledFxGraph.post_compile is not before[1]
    assert (FxGraphCache.load_with_key, CompiledFxGraph.post_compile) == before
