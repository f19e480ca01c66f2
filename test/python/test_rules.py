"""Rules that replace nodes: what opprof-opt and the backend make of their scripts, against PyTorch, and where they hold back."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from functorch.compile import nop
from programs import import_program
from torch import Tensor, nn
from torch._functorch.aot_autograd import aot_module_simplified
from torch.nn import functional as F

from opprof.backend.emit import emit
from opprof.backend.rewrites import read_rewrites
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.tools import run_tool


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


class Normalized(nn.Module):
    """A product, its normalization, and an activation in place."""

    def __init__(self, product: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.product, self.norm = product, norm
        for name, value in [*norm.named_parameters(), *norm.named_buffers()]:
            if value.is_floating_point():
                value.data.copy_(torch.rand_like(value) + (0.5 if name.endswith("var") else 0))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.product(x)), inplace=True).flatten(1) * 2


class UsedTwice(Normalized):
    def forward(self, x: Tensor) -> Tensor:
        y = self.product(x)
        return self.norm(y) + y.sigmoid()


class Attention(nn.Module):
    """Attention as programs spell it."""

    def __init__(self, weights: Callable[[Tensor, Tensor], Tensor], *, heads: int = 2) -> None:
        super().__init__()
        self.weights, self.heads = weights, heads
        self.parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            part(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for part in self.parts
        )
        p = self.weights(q @ k.transpose(-2, -1), mask)
        y = self.dropout(p) @ v
        return y.transpose(1, 2).contiguous().view(*x.shape[:2], -1) * 2


class ScoresUsed(Attention):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q = x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
        p = self.weights(q @ q.transpose(-2, -1), mask)
        return p @ q + p.sum()


X = torch.randn(2, 6, 8)
ADDED = torch.randn(2, 1, 6, 6)
HIDDEN = torch.ones(6, 6).triu(1).bool()[None, None]
NONE = torch.zeros(1)

NORMALIZED: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "conv2d": (
        Normalized(nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6)),
        (torch.randn(2, 4, 9, 9),),
    ),
    "conv2d, groups, bias": (
        Normalized(nn.Conv2d(4, 8, 3, groups=2, dilation=2), nn.BatchNorm2d(8, eps=1e-3)),
        (torch.randn(2, 4, 9, 9),),
    ),
    "conv2d, channels last": (
        Normalized(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)).to(memory_format=torch.channels_last),
        (torch.randn(2, 4, 9, 9).to(memory_format=torch.channels_last),),
    ),
    "conv1d": (Normalized(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)), (torch.randn(2, 4, 9),)),
    "conv3d": (
        Normalized(nn.Conv3d(2, 3, 2, bias=False), nn.BatchNorm3d(3)),
        (torch.randn(2, 2, 4, 4, 4),),
    ),
    "linear": (Normalized(nn.Linear(8, 6), nn.BatchNorm1d(6)), (torch.randn(5, 8),)),
}
ATTENTION: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "factor": (Attention(lambda s, m: torch.softmax(s * 0.5, -1)), (X, NONE)),
    "divided": (Attention(lambda s, m: torch.softmax(s / math.sqrt(3), 3)), (X, NONE)),
    "plain": (Attention(lambda s, m: s.softmax(dim=-1)), (X, NONE)),
    "added mask": (Attention(lambda s, m: F.softmax(s * 0.5 + m, dim=-1)), (X, ADDED)),
    "hidden": (
        Attention(lambda s, m: F.softmax((s / 2).masked_fill(m, float("-inf")), dim=-1)),
        (X, HIDDEN),
    ),
    "in float32": (
        Attention(lambda s, m: F.softmax(s * 0.5 + m, dim=-1, dtype=torch.float32)),
        (X, ADDED),
    ),
}
HELD_BACK: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "product used twice": (
        UsedTwice(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)),
        (torch.randn(2, 4, 9, 9),),
    ),
    "linear of sequences": (
        Normalized(nn.Linear(8, 6), nn.BatchNorm1d(5)),
        (torch.randn(2, 5, 8),),
    ),
    "no factors": (
        Normalized(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6, affine=False)),
        (torch.randn(2, 4, 9, 9),),
    ),
    "scores used": (ScoresUsed(lambda s, m: torch.softmax(s, -1)), (X, NONE)),
    "over queries": (Attention(lambda s, m: torch.softmax(s * 0.5, -2)), (X, NONE)),
    "another value for what is hidden": (
        Attention(lambda s, m: F.softmax(s.masked_fill(m, -1e4), dim=-1)),
        (X, HIDDEN),
    ),
    "mask multiplied": (Attention(lambda s, m: F.softmax(s * m, dim=-1)), (X, ADDED)),
}
NAMES = ("fold-batch-norm", "form-attention")


def index_of(model: nn.Module, inputs: tuple[Tensor, ...], folder: Path) -> dict[str, Any]:
    with torch.no_grad():
        program = torch.export.export(model, inputs)
    write_graph_json(folder / "graph.json", source_of_exported_program(program, "model"))
    graph = folder / "graph.mlir"
    run_tool("opprof-translate", ["--import-fx-json", folder / "graph.json"], output=graph)
    options = f"dir={folder / 'rewrites'} device=H200"
    run_tool("opprof-opt", [graph, f"--recommend-rewrites={options}"], output=folder / "same.mlir")
    return json.loads((folder / "rewrites" / "rewrites.json").read_text())


@pytest.mark.parametrize("name", [*NORMALIZED, *ATTENTION])
def test_rules_keep_what_pytorch_gives(tmp_path: Path, name: str) -> None:
    model, inputs = {**NORMALIZED, **ATTENTION}[name]
    model = copy.deepcopy(model).eval()
    index = index_of(model, inputs, tmp_path)
    rule = NAMES[name in ATTENTION]
    (entry,) = [entry for entry in index["rewrites"] if entry["name"] == rule]
    assert len(entry["nodes"]) == 1
    script = next(s for s in read_rewrites(tmp_path / "rewrites").scripts if s.name == rule)
    rewritten = run_tool(
        "opprof-opt",
        [tmp_path / "graph.mlir", f"--apply-rewrites={script.path}"],
        quiet=True,
    ).decode()
    assert ("scaled_dot_product_attention" if name in ATTENTION else "rsqrt") in rewritten
    assert ("softmax" if name in ATTENTION else "batch_norm") not in rewritten
    file = tmp_path / f"rule_{''.join(c if c.isalnum() else '_' for c in name)}.py"
    backend = import_program(emit([script], file)[0])
    backend.compile_fx = lambda graph, inputs, config_patches=None: aot_module_simplified(
        graph, inputs, fw_compiler=nop, inference_compiler=nop
    )
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    with torch.no_grad():
        for _ in range(2):
            actual, expected = compiled(*inputs), model(*inputs)
            assert backend.applied == {rule: 1}
            assert torch.allclose(actual, expected, rtol=1e-4, atol=1e-5)
            assert actual.stride() == expected.stride()
            # What is made of weights is made anew when they change.
            for parameter in model.parameters():
                parameter.mul_(1.5)


@pytest.mark.parametrize("name", HELD_BACK)
def test_rules_hold_back_where_one_condition_fails(tmp_path: Path, name: str) -> None:
    model, inputs = HELD_BACK[name]
    index = index_of(copy.deepcopy(model).eval(), inputs, tmp_path)
    assert not {entry["name"] for entry in index["rewrites"]} & set(NAMES)


def test_a_normalization_in_training_is_declined_with_its_line(tmp_path: Path) -> None:
    model, inputs = NORMALIZED["conv2d"]
    index = index_of(copy.deepcopy(model).train(), inputs, tmp_path)
    (declined,) = [entry for entry in index["declined"] if entry["rule"] == "fold-batch-norm"]
    assert "the argument 'training' is true here and false in the pattern" in declined["reason"]
    assert declined["node"] == "batch_norm" and "test_rules.py:" in declined["line"]
