"""Random models, what is recommended for them, emitted: every file compiles, and gives what the model gives."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from programs import import_program
from test_backend import errors
from test_rewrites import scripts_of
from torch import Tensor, nn

from opprof.backend.emit import emit
from opprof.backend.rewrites import read_rewrites

WIDTH = 8

# Steps from one tensor of (rows, WIDTH) to another, each of its own kind of weights.
STEPS: dict[str, Callable[[random.Random], nn.Module]] = {
    "projections": lambda draw: Projections(draw.choice([2, 3, 4]), draw.random() < 0.5),
    "attention": lambda draw: Attention(draw.choice([1, 2, 4])),
    "norm": lambda draw: nn.LayerNorm(WIDTH),
    "batch norm": lambda draw: nn.BatchNorm1d(WIDTH),
    "linear": lambda draw: nn.Linear(WIDTH, WIDTH, bias=draw.random() < 0.5),
    "made weight": lambda draw: MadeWeight(),
    "table": lambda draw: Table(draw.choice([3, 3000])),
    "tanh": lambda draw: nn.Tanh(),
    "gelu": lambda draw: nn.GELU(approximate=draw.choice(["none", "tanh"])),
    "dropout": lambda draw: nn.Dropout(0.5),
}


class Projections(nn.Module):
    """Several products of one input, of which a sum is given."""

    def __init__(self, count: int, bias: bool) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        values = [part(x) for part in self.parts]
        return x + values[0] * sum(values[1:], torch.zeros_like(x)).tanh()


class Attention(nn.Module):
    """Heads over rows, each projection with a weight of its own."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        def split(value: Tensor) -> Tensor:
            return value.view(len(x), self.heads, -1).transpose(0, 1)[None]

        attended = nn.functional.scaled_dot_product_attention(
            split(self.q(x)), split(self.k(x)), split(self.v(x))
        )
        return x + attended[0].transpose(0, 1).reshape(len(x), WIDTH)


class MadeWeight(nn.Module):
    """A weight that is computed of two in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.b = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.a * self.b.softmax(0)).t() / WIDTH


class Table(nn.Module):
    """Angles of positions, which are whole numbers up to a few thousand."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.start = start
        self.embedding = nn.Embedding(4, WIDTH)
        self.register_buffer("frequency", 10.0 ** -torch.arange(float(WIDTH)))

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(len(x), device=x.device) + self.start
        return x + self.embedding(positions % 4) + (positions[:, None] * self.frequency).sin()


class Random(nn.Module):
    """A chain of steps, which gives some of what is in between."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.names = [draw.choice(list(STEPS)) for _ in range(draw.randint(2, 6))]
        self.steps = nn.ModuleList(STEPS[name](draw) for name in self.names)
        self.given = sorted({len(self.steps) - 1, draw.randrange(len(self.steps))})

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        values = []
        for step in self.steps:
            x = step(x)
            values.append(x)
        return tuple(values[i] for i in self.given)


@pytest.mark.parametrize("seed", range(8))
def test_random_models(seed: int, tmp_path: Path) -> None:
    torch._dynamo.reset()
    torch.manual_seed(seed)
    draw = random.Random(seed)
    model = Random(draw).eval()
    x = torch.randn(draw.choice([1, 2, 5]), WIDTH)
    names = scripts_of(model, x, tmp_path)
    files = emit(read_rewrites(tmp_path / "rewrites").scripts, tmp_path / f"fuzzed_{seed}.py")
    for file in files:
        compile(file.read_text(), str(file), "exec")
    backend = import_program(files[0])
    backend.STRATEGY = draw.choice(
        [
            backend.STRATEGY,
            backend.Strategy(prologue=True),
            backend.Strategy(prologue=True, freeze=True),
            backend.Strategy(prologue=True, precision=torch.bfloat16),
        ]
    )
    tolerance = 5e-2 if backend.STRATEGY.precision else 1e-5
    programs = [
        torch.compile(model, backend=backend.BACKEND_NAME),
        backend.optimize(model),
    ]
    with torch.no_grad():
        for _ in range(2):
            for program in programs:
                for _ in range(2):
                    x = torch.randn_like(x)
                    assert max(errors(program(x), model(x))) < tolerance, (model.names, names)
            for parameter in model.parameters():
                parameter.mul_(1.25)
    status = backend.status()
    assert status["own_share"] == 1.0, status
    size = sum(parameter.nbytes for parameter in model.parameters())
    # Each of the two programs holds a copy of each weight at most, and of what it was made of nothing.
    assert all(graph.held_bytes <= size for graph in status["graphs"])
