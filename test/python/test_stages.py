"""Graphs of every stage go through MLIR and back, and those that a program can run give the same bits as Python."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from programs import assert_same, emit_program, script_of

from opprof.export.graph_json import GraphSource, write_graph_json
from opprof.export.stages import capture
from opprof.tools import run_tool


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    """Two blocks, a mutated buffer, in-place and view ops, an autocast and a no_grad region."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.register_buffer("count", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        with torch.no_grad():
            self.count.add_(x.detach().mean(dim=0))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.blocks[0].up(x)
        first, second = y.float().chunk(2, dim=1)
        z = first.clone()
        z[:, 1:3] *= 2
        return (z * second).reshape(-1)[::2]


def through_mlir(source: GraphSource, folder: Path) -> Path:
    """JSON to MLIR, text and bytecode, and back; the JSON that comes out says what the one that went in says."""
    first, text, bytecode, again, second = (
        folder / name for name in ("1.json", "1.mlir", "1.mlirbc", "2.mlir", "2.json")
    )
    write_graph_json(first, source)
    run_tool("opprof-translate", ["--import-fx-json", first, "-o", text])
    run_tool("opprof-opt", ["--verify-roundtrip", "--emit-bytecode", text, "-o", bytecode])
    run_tool("opprof-opt", [bytecode, "-o", again])
    run_tool("opprof-translate", ["--export-fx-json", again, "-o", second])
    assert resolve(json.loads(first.read_text())) == resolve(json.loads(second.read_text()))
    return again


def resolve(document: dict[str, Any]) -> Any:
    def type_of(index: int) -> Any:
        entry = document["types"][index]
        if isinstance(entry, str):
            return entry
        ((kind, content),) = entry.items()
        return {kind: [type_of(i) for i in content]} if kind in ("tuple", "list") else entry

    for graph in document["graphs"]:
        for entry in graph["inputs"] + graph["nodes"]:
            if "type" in entry:
                entry["type"] = type_of(entry["type"])
            for key, table in (("stack", "stacks"), ("modules", "modules")):
                if key in entry:
                    entry[key] = document[table][entry[key]]
    return document["graphs"]


@pytest.mark.parametrize("stage", ["dynamo", "aot_forward", "aot_joint", "aot_backward"])
def test_stage(stage: str, tmp_path: Path) -> None:
    sources = capture(script_of(Model().train(), torch.randn(4, 8)), stage)
    assert sources
    for position, source in enumerate(sources):
        folder = tmp_path / str(position)
        folder.mkdir()
        mlir = through_mlir(source, folder)
        assert f'stage "{stage}"' in mlir.read_text()
        # Every stage is a program; what it takes and gives is flat after Dynamo.
        emit_program(mlir)


def example_inputs(source: GraphSource) -> list[Any]:
    """A value for each input of the graph, by its recorded type."""
    torch.manual_seed(0)
    values = []
    for node in source.module.graph.nodes:
        if node.op == "placeholder":
            value = node.meta.get("val", node.meta.get("example_value"))
            if isinstance(value, torch.Tensor):
                assert value.dtype.is_floating_point
                values.append(
                    torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).normal_()
                )
            else:
                values.append(int(value))
    return values


@pytest.mark.parametrize("stage", ["aot_forward", "aot_joint", "aot_backward"])
def test_aot_graphs_run(stage: str, tmp_path: Path) -> None:
    (source,) = capture(script_of(Model().train(), torch.randn(4, 8)), stage)
    program = emit_program(through_mlir(source, tmp_path)).load({})
    first, second = example_inputs(source), example_inputs(source)
    with torch.no_grad():
        if stage == "aot_joint":
            # Its placeholders are (primals, tangents), its leaves the inputs.
            expected = torch.fx.Interpreter(source.module).run(*first, enable_io_processing=False)
        else:
            expected = source.module(*first)
        actual = program(*second)
    assert_same(expected, actual, structure=False)


def test_dynamo_graph_runs(tmp_path: Path) -> None:
    model = Model().eval()
    x = torch.randn(4, 8)
    (source,) = capture(script_of(model, x), "dynamo")
    program = emit_program(through_mlir(source, tmp_path))
    model.count.zero_()
    with torch.no_grad():
        expected = model(x)
        count = model.count.clone()
        model.count.zero_()
        weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        actual = program.load(weights)(x)
    assert_same(expected, actual, structure=False)
    assert torch.equal(model.count, count)


W = torch.randn(4, 4)
#: What Dynamo names by the module that defines it, and what it looks into.
FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "atleast": lambda x: (torch.atleast_1d(x), torch.atleast_3d(x)),
    "block_diag": lambda x: torch.block_diag(x, x.t()),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[0]),
    "cartesian_prod": lambda x: torch.cartesian_prod(x[0], x[1]),
    "cdist": lambda x: torch.cdist(x, x + 1),
    "chain_matmul": lambda x: torch.linalg.multi_dot([x, W, x.t()]),
    "einsum": lambda x: torch.einsum("bi,ij,bj->b", x, W, x),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij"),
    "norm": lambda x: torch.norm(x, dim=1),
    "split": lambda x: torch.split(x, [1, 3], dim=1),
    "stft": lambda x: torch.stft(x.flatten(), 4, window=torch.ones(4), return_complex=True).abs(),
    "tensordot": lambda x: torch.tensordot(x, W, dims=1),
    "grad": torch.func.grad(lambda x: (x.sin() ** 2).sum()),
    "hessian": torch.func.hessian(lambda x: (x @ W).sin().sum()),
    "jacfwd": torch.func.jacfwd(lambda x: (x @ W).sin()),
    "jacrev": torch.func.jacrev(lambda x: (x @ W).sin()),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),)),
    "vjp": lambda x: torch.func.vjp(torch.sin, x)[1](torch.ones_like(x)),
    "vmap": torch.vmap(lambda row: W @ row),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_dynamo_graphs(name: str, tmp_path: Path) -> None:
    class Applied(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return FUNCTIONS[name](x)

    x = torch.randn(3, 4)
    (source,) = capture(script_of(Applied(), x), "dynamo")
    program = emit_program(through_mlir(source, tmp_path))
    assert_same(FUNCTIONS[name](x), program.load({})(*graph_inputs(source, x)), structure=False)


def graph_inputs(source: GraphSource, x: torch.Tensor) -> list[torch.Tensor]:
    """What the graph takes: x, and W where it is used."""
    placeholders = [node for node in source.module.graph.nodes if node.op == "placeholder"]
    return [x if node.meta["example_value"].shape == x.shape else W for node in placeholders]


class Controlled(torch.nn.Module):
    """Branches, a loop, and a region that PyTorch shares."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> Any:
        @torch.compiler.nested_compile_region
        def region(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, w, b).relu()

        for layer in self.layers:
            x = region(x, layer.weight, layer.bias)
        y = torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v + 2, (x,))
        steps, z = torch._higher_order_ops.while_loop(
            lambda i, v: i < 3, lambda i, v: (i + 1, v * 2 + 1), (torch.tensor(0), x)
        )
        return y, steps, z


@pytest.mark.parametrize("stage", ["dynamo", "aot_forward"])
def test_higher_order_operators(stage: str, tmp_path: Path) -> None:
    model, x = Controlled().eval(), torch.randn(2, 4)
    (source,) = capture(script_of(model, x), stage)
    mlir = through_mlir(source, tmp_path)
    text = mlir.read_text()
    for operator in ("cond", "while_loop", "invoke_subgraph"):
        assert f'"higher_order.{operator}"' in text
    # Three calls of one region.
    assert (
        text.count('"aten.linear.default"')
        + text.count('"torch._C._nn.linear"')
        + text.count('"aten.addmm.default"')
        < 3
    )
    program = emit_program(mlir)
    if stage == "dynamo":
        with torch.no_grad():
            assert_same(model(x), program.load(dict(model.named_parameters()))(x), structure=False)


def test_post_grad(tmp_path: Path, script: Callable[..., Path]) -> None:
    module = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)
    ).eval()
    (source,) = capture(script_of(module, torch.randn(4, 8)), "post_grad")
    mlir = through_mlir(source, tmp_path)
    assert "from_node" in mlir.read_text()
    program = emit_program(mlir).load({})
    first, second = example_inputs(source), example_inputs(source)
    with torch.no_grad():
        assert_same(source.module(*first), program(*second), structure=False)
