"""Writes in place: strategies give what PyTorch gives, and what cannot be kept is declined with its node and line."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from functorch.compile import nop
from programs import import_program
from torch import Tensor, nn
from torch._functorch.aot_autograd import aot_module_simplified
from torch.nn import functional as F

from opprof.backend.emit import emit
from opprof.backend.emitted import graphs
from opprof.backend.emitted.effects import Stopping, what_may_stop
from opprof.backend.emitted.graphs import trace_to_aten
from opprof.backend.emitted.prologue import nodes_of_each_run
from opprof.backend.rewrites import read_rewrites
from opprof.commands.recommend import recommend, rewrites_text
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.tools import run_tool

STRATEGIES: dict[str, dict[str, Any]] = {
    "prologue": {"prologue": True},
    "freeze": {"prologue": True, "freeze": True},
    "float16": {"prologue": True, "freeze": True, "precision": torch.float16},
}


class Residual(nn.Module):
    """A block of a residual network: activations and the sum in place, as torchvision writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        y = F.relu(self.norms[0](self.convs[0](x)), inplace=True)
        y = self.norms[1](self.convs[1](y))
        y += x
        return F.hardswish(F.relu(y, inplace=True), inplace=True)


class Statistics(nn.Module):
    """A normalization that renews its running statistics in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 4, 1)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(self.conv(x), self.mean, self.var, training=True)


class Cache(nn.Module):
    """Keys and values written into buffers, and read from them."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.register_buffer("keys", torch.zeros(4, 8, 8))
        self.register_buffer("values", torch.zeros(4, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x[:, 0]) for part in self.parts)
        self.keys[:, :2] = k[:, :2]
        self.values[:, :2].copy_(v[:, :2])
        return torch.softmax(q @ self.keys.transpose(1, 2), -1) @ self.values


class WrittenWeight(nn.Module):
    """What is made of a weight alone, and then written with data: nothing that may be kept from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        start = self.weight * 2
        start.add_(x[0, 0])
        return start.relu_() @ self.weight


class Flat(nn.Module):
    """Weights that are parts of one buffer, which is written in each call: what is made of them is not what it was."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("flat", torch.randn(16, 8))
        self.register_buffer("first", self.flat[:8])
        self.register_buffer("second", self.flat[8:])
        self.part = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.flat.mul_(0.5)
        return self.part(F.linear(x, torch.cat([self.first, self.second * 3])))


class WrittenInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x.relu_()
        return self.part(x)


class Positions(nn.Module):
    """Positions added in place: what is written has another precision than what is added."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.part(x)
        y.add_(torch.arange(8, device=x.device).float())
        return F.relu(self.part(y), inplace=True)


class Views(nn.Module):
    """Views written and read in order, and a detached one."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.part(x) * 1.5
        y.detach_()
        left, right = y.chunk(2, -1)
        left.mul_(right.sigmoid())
        y[..., :2] = 0
        return left + right


MODELS = [Residual, Statistics, Cache, WrittenWeight, Flat, WrittenInput, Positions, Views]
# Those whose precision may not change: their graphs write inputs, or what is computed of positions.
KEEP_PRECISION = (Statistics, Cache, Flat, WrittenInput, Positions)


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> ModuleType:
    """The backend with a strategy; AOTAutograd's graphs run as they are, without Inductor."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    name = "".join(c if c.isalnum() else "_" for c in request.node.name)
    file = tmp_path / f"{name}.py"
    emit([], file)
    module = import_program(file)

    def compile_fx(graph: Any, inputs: list[Any], config_patches: Any = None) -> Any:
        return aot_module_simplified(
            graph,
            inputs,
            fw_compiler=nop,
            inference_compiler=nop,
            keep_inference_input_mutations=False,
        )

    module.compile_fx = compile_fx
    return module


def error(actual: Any, expected: Any) -> float:
    pairs = zip(
        torch.utils._pytree.tree_leaves(actual),
        torch.utils._pytree.tree_leaves(expected),
        strict=True,
    )
    return max(
        float((one.double() - other).norm() / other.double().norm().clamp_min(1e-30))
        for one, other in pairs
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", MODELS)
def test_results_and_writes_are_those_of_pytorch(
    backend: ModuleType, kind: Callable[[], nn.Module], strategy: str
) -> None:
    backend.STRATEGY = backend.Strategy(**STRATEGIES[strategy])
    plain = kind().eval()
    model = copy.deepcopy(plain)
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    tolerance = 2e-3 if strategy == "float16" else 1e-5
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(4, 8, 8, 8)
            own = x.clone()
            assert error(compiled(own), plain(x)) < tolerance
            assert error(own, x) < tolerance
            assert error(model.state_dict(), plain.state_dict()) < tolerance
    (graph,) = backend.status()["graphs"]
    assert graph.refusal is None
    assert bool(graph.left_out) == (strategy == "float16" and kind in KEEP_PRECISION)


def offered(model: nn.Module, folder: Path) -> tuple[set[str], list[dict[str, Any]]]:
    """What is offered for a GPU's sake, and what is declined."""
    with torch.no_grad():
        program = torch.export.export(model.eval(), (torch.randn(4, 8, 8, 8),))
    write_graph_json(folder / "graph.json", source_of_exported_program(program, "model"))
    graph = folder / "graph.mlir"
    run_tool("opprof-translate", ["--import-fx-json", folder / "graph.json"], output=graph)
    options = f"dir={folder / 'rewrites'} device=H200"
    run_tool("opprof-opt", [graph, f"--recommend-rewrites={options}"], output=folder / "same.mlir")
    index = json.loads((folder / "rewrites" / "rewrites.json").read_text())
    return {entry["name"] for entry in index["rewrites"]}, index["declined"]


@pytest.mark.parametrize("kind", MODELS)
def test_strategies_are_offered_where_the_backend_takes_them(
    tmp_path: Path, kind: Callable[[], nn.Module]
) -> None:
    names, declined = offered(kind(), tmp_path)
    # What is computed of positions the rule does not look for: the backend leaves the precision.
    writes_input = kind in KEEP_PRECISION and kind is not Positions
    assert ("float16" in names) != writes_input
    reasons = {(entry["rule"], entry["reason"]): entry for entry in declined}
    found = reasons.get(("float16", "it writes an input of the graph"))
    assert (found is not None) == writes_input
    if found is not None:
        assert found["line"].startswith("test_effects.py:") or "/test_effects.py:" in found["line"]
        assert found["node"]


@torch.library.custom_op("opprof_effects::halved", mutates_args=())
def halved(x: Tensor) -> Tensor:
    return x / 2


halved.register_fake(torch.empty_like)


def test_what_nobody_knows_the_writes_of_is_not_said_to_write(tmp_path: Path) -> None:
    class Halved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.part(halved(x)) * 2

    names, declined = offered(Halved(), tmp_path)
    assert "float16" not in names
    (found,) = [entry for entry in declined if entry["rule"] == "float16"]
    assert found["node"] == "halved"
    assert found["reason"].startswith("nothing is known of what it writes")


def test_what_is_declined_is_printed_with_its_place(tmp_path: Path) -> None:
    with torch.no_grad():
        program = torch.export.export(Cache().eval(), (torch.randn(4, 8, 8, 8),))
    write_graph_json(tmp_path / "graph.json", source_of_exported_program(program, "model"))
    graph = tmp_path / "graph.mlir"
    run_tool("opprof-translate", ["--import-fx-json", tmp_path / "graph.json"], output=graph)
    recommend(graph, tmp_path / "rewrites", error_budget=1e-2)
    text = rewrites_text(read_rewrites(tmp_path / "rewrites"))
    line = next(line for line in text.splitlines() if line.startswith("declined: bfloat16"))
    assert line.startswith("declined: bfloat16: it writes an input of the graph at copy_")
    assert "test_effects.py:" in line


@pytest.mark.parametrize(
    ("function", "names", "of_inductor"),
    [
        ("returnsUndeclaredAlias", graphs._ALIASING, {"inductor_view"}),
        ("renewsRunningStatistics", graphs._RENEWING, set()),
    ],
)
def test_what_schemas_leave_out_is_one_list_in_both_worlds(
    function: str, names: tuple[str, ...], of_inductor: set[str]
) -> None:
    """An emitted file has to hold the list itself; operators that only Inductor's graphs have never reach it."""
    sources = Path(__file__).parents[2] / "lib" / "Dialect" / "FX" / "IR" / "Schema.cpp"
    found = re.search(rf"::{function}\(.*?\n}}\n", sources.read_text(), re.DOTALL)
    assert found is not None
    assert set(re.findall(r'"(\w+)"', found[0])) == set(names) | of_inductor


def _looked_up(ids: Tensor, table: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return torch.nn.functional.embedding(ids, table) * scale + shift


def _written_beside(ids: Tensor, table: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """As attention adds a position's bias to its scores."""
    values = torch.nn.functional.embedding(ids, table) * scale
    values += shift
    return values


def _written_table(ids: Tensor, table: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    own = table.clone()
    own[1:].mul_(scale)
    return torch.nn.functional.embedding(ids, own) + shift


def _written_ids(ids: Tensor, table: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    own = torch.zeros_like(ids)
    own.copy_(ids).clamp_(min=0)
    return torch.nn.functional.embedding(own, table) * scale + shift


def _ids_in_a_part(ids: Tensor, table: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    own = torch.arange(6, device=ids.device)
    part = own[2:]
    part.add_(ids[:4])
    return torch.nn.functional.embedding(own, table) * scale + shift


def _counted_in_a_mask(ids: Tensor, table: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    mask = torch.zeros(6, dtype=torch.bool, device=ids.device)
    part = mask[:]
    part.copy_(ids != 3)
    return torch.nn.functional.embedding(mask.cumsum(0), table) * scale + shift


def _cast_places(ids: Tensor, table: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """As those of a bucket: what scales them is a number of the program, which no table knows."""
    return torch.nn.functional.embedding((ids * 0.5).long(), table) * scale + shift


def _parts_of_ids(ids: Tensor, table: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    first, second = ids.split(3)
    return torch.nn.functional.embedding(first, table) * scale + shift + second.float().mean()


def _own_places(ids: Tensor, table: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Places that no caller gives, as those of a relative position's bucket."""
    places = torch.arange(6, device=ids.device)
    places += 1
    return torch.nn.functional.embedding(places, table) * scale + shift * ids.numel()


@pytest.mark.parametrize(
    ("function", "inputs", "by_tables"),
    [
        (_looked_up, {0, 1}, True),
        (_written_beside, {0, 1}, True),
        (_written_table, {0, 1, 3}, True),
        (_written_ids, {0, 1}, False),
        (_ids_in_a_part, {0, 1}, False),
        (_counted_in_a_mask, {0, 1}, False),
        (_cast_places, {0, 1}, False),
        (_parts_of_ids, {0, 1}, True),
        (_own_places, {1}, True),
    ],
)
def test_what_decides_whether_a_replay_stops_the_device(
    function: Callable[..., Tensor], inputs: set[int], *, by_tables: bool
) -> None:
    given = (torch.arange(6), torch.randn(8, 4), torch.randn(4), torch.tensor(2.0))
    graph = trace_to_aten(function, given)
    assert what_may_stop(graph, [0], list(graph.graph.nodes)) == Stopping(inputs, by_tables)


@pytest.mark.parametrize(("weights", "expected"), [([1, 2], None), ([1], Stopping({1, 2}, True))])
def test_what_the_prologue_looks_up_stops_no_replay(
    weights: list[int], expected: Stopping | None
) -> None:
    """The bias of a window's positions, which Swin gathers of a table by a buffer of places."""

    def function(x: Tensor, table: Tensor, places: Tensor) -> Tensor:
        return x + table[places]

    graph = trace_to_aten(function, (torch.randn(6, 4), torch.randn(8, 4), torch.arange(6)))
    assert what_may_stop(graph, [0], nodes_of_each_run(graph, weights)) == expected


def test_ids_of_a_table_that_the_prologue_makes_are_of_its_weights() -> None:
    def function(ids: Tensor, table: Tensor, scale: Tensor) -> Tensor:
        return torch.nn.functional.embedding(ids, table.half() * scale)

    graph = trace_to_aten(function, (torch.arange(6), torch.randn(8, 4), torch.tensor(2.0)))
    run = nodes_of_each_run(graph, [1, 2])
    assert what_may_stop(graph, [0], run) == Stopping({0, 1, 2}, by_tables=True)


def test_a_write_of_anything_leaves_all_to_look_at() -> None:
    """What gives a tensor another storage writes nobody knows what."""

    def function(ids: Tensor, table: Tensor, other: Tensor) -> Tensor:
        return torch.nn.functional.embedding(ids, table) + other

    graph = trace_to_aten(function, (torch.arange(6), torch.randn(8, 4), torch.randn(4)))
    other = graph.graph.find_nodes(op="placeholder")[2]
    with graph.graph.inserting_after(other):
        graph.graph.call_function(torch.ops.aten.resize_.default, (other, [4]))
    found = what_may_stop(graph, [0], list(graph.graph.nodes))
    assert found == Stopping({0, 1, 2}, by_tables=False)
