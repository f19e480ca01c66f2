"""Programs emitted with --regions: one compiled region a class, called from each of its places, with the results of the flat program."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from dedup_models import build
from programs import assert_same, copies, emit_program, import_graph
from torch import Tensor, nn

from opprof.export.weights import weights_of_program
from opprof.tools import run_tool


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()


def programs(
    program: torch.export.ExportedProgram, folder: Path, *passes: str
) -> tuple[ModuleType, ModuleType]:
    """The flat program and the one with regions."""
    flat = import_graph(program, "flat", folder)
    shared = folder / "shared.mlir"
    run_tool("opprof-opt", [flat, *(passes or ["--dedup-partitions"]), "-o", shared])
    return emit_program(flat), emit_program(shared, "--regions")


class CountingBackend:
    """Runs Dynamo's graph as it is, and keeps which regions it calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        self.calls = [
            node.args[0] for node in graph.graph.nodes if "invoke_subgraph" in str(node.target)
        ]
        return torch._dynamo.lookup_backend("aot_eager")(graph, _)

    @property
    def counts(self) -> tuple[int, int]:
        """How many calls there are, and of how many regions."""
        return len(self.calls), len({node.target for node in self.calls})


def check(
    module: nn.Module,
    args: tuple[Any, ...],
    folder: Path,
    counts: tuple[int, int],
    *passes: str,
    **options: Any,
) -> ModuleType:
    """Runs both programs on copies of the same weights and compares results, and what was written, bit for bit."""
    program = torch.export.export(module, args, **options)
    flat, regions = programs(program, folder, *passes)
    weights = weights_of_program(program)
    first, second = copies(weights), copies(weights)
    backend = CountingBackend()
    with torch.no_grad():
        torch.manual_seed(0)
        expected = flat.load(first)(*args)
        torch.manual_seed(0)
        compiled = torch.compile(regions.load(second), backend=backend, fullgraph=True)
        assert_same(expected, compiled(*args))
    assert_same(first, second)
    assert backend.counts == counts
    return regions


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("llama", (4, 1)),
        ("resnet", (8, 3)),
        ("t5", (12, 2)),
        ("mixture", (3, 1)),
        ("swin", (3, 1)),
        ("bert", (12, 1)),
        ("lstm", (12, 3)),
    ],
)
def test_models(name: str, counts: tuple[int, int], tmp_path: Path) -> None:
    module, args = build(name)
    check(module, args, tmp_path, counts)


def test_nested_classes(tmp_path: Path) -> None:
    """Experts are regions inside the layers' regions."""
    module, args = build("mixture")
    regions = check(module, args, tmp_path, (3, 1), "--dedup-partitions=levels=2")
    assert Path(regions.__file__ or "").read_text().count("@torch.compiler.nested") == 2


def test_symbolic_sizes(tmp_path: Path) -> None:
    module, args = build("llama")
    batch = torch.export.Dim("batch", min=2, max=64)
    check(module, args, tmp_path, (4, 1), dynamic_shapes={"ids": {0: batch}})


class Buffers(nn.Module):
    """Each layer adds to a buffer of its own, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = nn.ModuleList(nn.BatchNorm1d(4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for norm in self.sums:
            norm.running_mean.add_(x.mean(0).sin())
            x = (x * norm.running_mean).tanh() + x
        return x


def test_buffers_are_written(tmp_path: Path) -> None:
    check(Buffers(), (torch.randn(5, 4),), tmp_path, (3, 1))


class Dropouts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = nn.functional.dropout(x.sin().cos().tan(), 0.5, training=True) + 1
        return x


def test_random_numbers_are_those_of_the_flat_program(tmp_path: Path) -> None:
    check(Dropouts(), (torch.randn(64),), tmp_path, (3, 1))


class Views(nn.Module):
    """Layers that also give views: of what they compute, of each other, and of what they take."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        kept = []
        for layer in self.layers:
            taken = x.view(4, 4)
            y = layer(x).relu()
            heads = y.view(2, 2, 4)
            first, second = heads.split(1, 1)
            kept += [taken, heads, heads.transpose(1, 2), first * 2, second]
            x = x + y.sin().cos() * taken.view(2, 8)
        return x, kept


def test_views_are_made_outside_of_the_regions(tmp_path: Path) -> None:
    regions = check(Views(), (torch.randn(2, 8),), tmp_path, (3, 1))
    source = Path(regions.__file__ or "").read_text()
    region = source[source.index("@torch.compiler.nested_compile_region") :].split("\n\n\n")[0]
    assert "aten.relu" in region and "aten.transpose" not in region


def test_gradients(tmp_path: Path) -> None:
    module, args = build("llama")
    program = torch.export.export(module, args)
    flat, regions = programs(program, tmp_path)
    results = []
    for emitted, compiled in ((flat, False), (regions, True)):
        weights = {
            name: value.detach().clone().requires_grad_()
            for name, value in weights_of_program(program).items()
        }
        called: Any = emitted.load(weights)
        if compiled:
            called = torch.compile(called, backend="aot_eager", fullgraph=True)
        called(*args).square().mean().backward()
        results.append({name: value.grad for name, value in weights.items()})
    torch.testing.assert_close(results[0], results[1])


def test_ranges_go_round_the_region_calls(tmp_path: Path) -> None:
    module, args = build("llama")
    regions = check(module, args, tmp_path, (4, 1), "--dedup-partitions", "--insert-nvtx-markers")
    source = Path(regions.__file__ or "").read_text()
    for index, role in enumerate(("unique", "duplicate", "duplicate", "duplicate")):
        push = rf'_range_push\("layer::{role}::layers\.{index}"\)\n(    #[^\n]*\n)?'
        assert re.search(
            push + r"    [^\n]* = LlamaLayer\([^\n]*\n(    del [^\n]*\n)?    _range_pop\(\)", source
        )


def test_inductor_compiles_each_class_once(tmp_path: Path) -> None:
    """The boundaries are there in the generated wrapper: one function a class, called from each place."""
    from torch._inductor.utils import run_and_get_code

    module, args = build("transformer")
    program = torch.export.export(module, args)
    flat, regions = programs(program, tmp_path)
    weights = weights_of_program(program)
    with torch.no_grad():
        expected = flat.load(weights)(*args)
        compiled = torch.compile(regions.load(weights), fullgraph=True)
        actual, (code,) = run_and_get_code(compiled, *args)
    torch.testing.assert_close(actual, expected)
    functions = re.findall(r"^def (repeated_subgraph\w*)\(", code, re.MULTILINE)
    assert len(functions) == 2
    calls = [len(re.findall(rf"= {name}\(", code)) for name in functions]
    assert calls == [3, 3]
    # What is launched for a layer is launched by its function, and by nothing else.
    _, main = code.split("def call(", 1)
    assert "extern_kernels" not in main.split("return")[0]
