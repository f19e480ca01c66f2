"""Programs for the tests of `opprof run --graph` and `opprof extract`, which keep what their modules took and gave as an oracle.

    python stepped_programs.py NAME [FOLDER]

In the step whose graph is recorded, each call of a watched module leaves a file in FOLDER: weights, arguments and random state before it, results and
buffers after it, and gradients. All that is printed depends on every bit of the training. Weights are copied by NumPy, of which PyTorch knows nothing.
"""

import itertools
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

STEPS, STEP = 3, 1
FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else None


def copied(value: Any) -> Any:
    """The same without PyTorch's tensors."""
    if isinstance(value, torch.Tensor):
        return ("tensor", value.detach().numpy().copy(), value.stride())
    if isinstance(value, (list, tuple)):
        return type(value)(map(copied, value))
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return value


class Watch:
    """Replaces how modules of these paths are called by one that keeps what they are called with."""

    def __init__(self, net: nn.Module, paths: list[str]) -> None:
        self.step = 0
        self.kept: list[dict[str, Any]] = []
        for path in paths:
            module = net.get_submodule(path)
            module.forward = self.watched(module, path, module.forward)  # type: ignore[method-assign]

    def watched(self, module: nn.Module, path: str, forward: Callable[..., Any]) -> Any:
        counts = itertools.count()

        def call(*args: Any, **kwargs: Any) -> Any:
            if FOLDER is None or self.step != STEP or torch._C._current_graph_task_id() != -1:
                return forward(*args, **kwargs)
            state = dict(itertools.chain(module.named_parameters(), module.named_buffers()))
            kept = {
                "path": path,
                "call": next(counts),
                "state": copied(state),
                "args": copied(args),
                "kwargs": copied(kwargs),
                "random": torch.get_rng_state().numpy().copy(),
                "training": torch.is_grad_enabled(),
                "gradients": {},
            }
            result = forward(*args, **kwargs)
            kept["result"] = copied(result)
            kept["buffers"] = copied(dict(module.named_buffers()))
            leaves = [
                r for r in torch.utils._pytree.tree_leaves(result) if isinstance(r, torch.Tensor)
            ]
            for place, leaf in enumerate(leaves):
                if leaf.requires_grad:
                    leaf.register_hook(
                        lambda grad, place=place: (
                            kept["gradients"].setdefault(place, copied(grad)) and None
                        )
                    )
            kept["parameters"] = dict(module.named_parameters())
            self.kept.append(kept)
            return result

        return call

    def after_backward(self) -> None:
        for kept in self.kept:
            if "parameters" in kept:
                parameters = kept.pop("parameters")
                kept["trained"] = {
                    name: copied(p.grad) for name, p in parameters.items() if p.grad is not None
                }

    def write(self) -> None:
        for number, kept in enumerate(self.kept):
            kept.pop("parameters", None)
            if FOLDER is not None:
                (FOLDER / f"{number}.pickle").write_bytes(pickle.dumps(kept))


class Attention(nn.Module):
    """Attention by hand, with a flag, a mask that may be None, and a dict of results."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.2)

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None, *, causal: bool = False
    ) -> dict[str, Any]:
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores + mask
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        weights = self.drop(scores.softmax(-1))
        return {"out": self.out(weights @ v), "weights": weights, "kind": "causal"}


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop(self.attention(self.norm(x), None, causal=True)["out"])
        return x + self.down(F.gelu(self.up(x)))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layers = nn.ModuleList([Layer(16) for _ in range(3)])
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class ConvBlock(nn.Module):
    """Batch norm in training, ReLU in place, and a residual that is added in place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in "ab")
        self.norm, self.last = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.norm(self.first(x)))
        out = self.last(self.second(out))
        out += x
        return self.relu(out)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(ConvBlock(8), ConvBlock(8))
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Square(torch.autograd.Function):
    """Runs without gradients, writes to its own memory, and has a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        out.copy_(x).mul_(x)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * 2 * x


class Shared(nn.Module):
    """Called three times in a step; takes a tuple, a number and a scale from outside of it, and gives a tuple."""

    def __init__(self, scale: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.scale = [scale]
        self.register_buffer("seen", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, pair: tuple[torch.Tensor, torch.Tensor], power: float = 1.0) -> Any:
        first, second = pair
        self.seen += 1
        y = first @ self.weight * self.scale[0]
        return [y * power + second, (Square.apply(y), None)]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.drop = nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(torch.tanh(self.up(x))) + x.detach()


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared, self.inner = Shared(torch.full((8,), 0.5)), Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, (b, _) = self.shared((x, x), power=2.0)
        a, (c, _) = self.shared((a, b))
        a, _ = self.shared((a[:2], c[:2]), 0.5)
        return checkpoint(self.inner, a, use_reentrant=False)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(8, 8, 2, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, (hidden, _) = self.rnn(x)
        return self.head(out[:, -1] + hidden[-1])


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], list[str]]] = {
    "transformer": (
        Transformer,
        lambda: torch.randint(0, 50, (2, 6)),
        ["layers.0", "layers.1.attention", "layers.2.norm", "head", ""],
    ),
    "convolutions": (
        Convolutions,
        lambda: torch.randn(2, 3, 12, 12),
        ["blocks.0", "blocks.1.relu", "stem"],
    ),
    "several": (Several, lambda: torch.randn(4, 8), ["shared", "inner"]),
    "recurrent": (Recurrent, lambda: torch.randn(2, 5, 8), ["rnn", ""]),
}


def main() -> None:
    name = sys.argv[1]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    make, data, paths = MODELS[name.partition("-")[0]]
    net = make()
    watch = Watch(net, paths)
    if name.endswith("-inference"):
        net.eval()
        with torch.inference_mode():
            for watch.step in range(STEPS):
                print(net(data()).double().sum().item().hex())
        watch.write()
        return
    kind: Any = torch.optim.SGD if name == "convolutions" else torch.optim.AdamW
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    optimizer = kind(net.parameters(), lr=1e-2, **options)
    for watch.step in range(STEPS):
        out = net(data())
        loss = F.cross_entropy(
            out.flatten(0, -2), torch.zeros(out[..., 0].numel(), dtype=torch.long)
        )
        optimizer.zero_grad()
        loss.backward()
        watch.after_backward()
        optimizer.step()
        print(loss.item().hex())
    watch.write()
    for parameter in net.parameters():
        print(parameter.detach().double().sum().item().hex(), parameter.abs().max().item().hex())
    print(torch.rand(2).tolist())


if __name__ == "__main__":
    main()
