"""Training programs with one fault each, and the same without it, for benchmarks/planted_faults.py.

    python faulty_train.py FAULT faulty|fixed [--device cuda] [--steps 40]

The lines of a fault end in a comment with its name. A program is a class whose `step` is one step of a training loop; `main` runs the
loop that `opprof run` records.
"""

import argparse
import contextlib
import fcntl
import gc
import io
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional as F


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader  # loader  # workers


class LayerNorm(nn.Module):
    def __init__(self, width: int, by_hand: bool) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.by_hand = by_hand

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.by_hand:
            return F.layer_norm(x, x.shape[-1:], self.weight, self.bias)
        mean = x.mean(-1, keepdim=True)  # layer-norm
        variance = (x - mean).pow(2).mean(-1, keepdim=True)  # layer-norm
        return (x - mean) / torch.sqrt(variance + 1e-5) * self.weight + self.bias  # layer-norm


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, by_hand: bool) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.by_hand = heads, by_hand

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        if self.by_hand:
            scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5  # attention
            weights = scores.softmax(-1)  # attention
            mixed = weights.to(v.dtype) @ v  # attention
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Island(nn.Module):
    """The second half of a layer, of which someone once distrusted the precision."""

    def __init__(self, width: int, wide: bool) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.wide = wide

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.wide:
            return self.down(F.gelu(self.up(x)))
        with torch.autocast(x.device.type, enabled=False):
            hidden = self.up(x.float())  # island
            return self.down(F.gelu(hidden))  # island


class Layer(nn.Module):
    def __init__(self, width: int, fault: str, index: int) -> None:
        super().__init__()
        self.norm1 = LayerNorm(width, fault == "layer-norm")
        self.norm2 = LayerNorm(width, fault == "layer-norm")
        self.attention = Attention(width, 8, fault == "attention")
        self.mlp = Island(width, fault == "island" and index == 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Net(nn.Module):
    def __init__(
        self, rows: int, width: int, layers: int, fault: str, sparse: bool = False
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(rows, width, sparse=sparse)
        self.layers = nn.ModuleList(Layer(width, fault, index) for index in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 512)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)  # embedding
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Texts(torch.utils.data.Dataset[torch.Tensor]):
    """Each text takes its time to read, as a file's does."""

    def __init__(self, length: int, seconds: float) -> None:
        self.length, self.seconds = length, seconds

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.seconds:
            time.sleep(self.seconds)
        return torch.arange(index, index + self.length + 1) % 512


class Program:
    """A transformer in training."""

    # Batch, length, width and layers: bound by the device, by the host, with much for the optimizer, and for a CPU.
    SIZES: ClassVar[dict[str, tuple[int, int, int, int]]] = {
        "wide": (32, 256, 768, 6),
        "narrow": (8, 64, 256, 6),
        "heavy": (8, 64, 2048, 6),
        "cpu": (8, 32, 64, 3),
    }

    def __init__(self, fault: str, is_faulty: bool, device: str) -> None:
        torch.manual_seed(0)
        self.name, self.device = fault, device
        self.fault = fault if is_faulty else ""
        self.batch, self.length, width, layers = self.SIZES[
            "cpu" if device == "cpu" else SIZE.get(fault, "narrow")
        ]
        rows = (40_000 if device == "cpu" else 400_000) if fault == "embedding" else 512
        sparse = fault == "embedding" and not is_faulty
        with torch.device(device):
            self.net = Net(rows, width, layers, self.fault, sparse)
        dense = [
            p for name, p in self.net.named_parameters() if not (sparse and "embedding" in name)
        ]
        self.optimizer: Any = torch.optim.AdamW(dense, lr=1e-4, fused=True)
        if self.fault == "optimizer":
            self.optimizer = torch.optim.AdamW(dense, lr=1e-4, foreach=False)
        if fault == "embedding":
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-4)
        if fault == "sgd":
            self.optimizer = torch.optim.SGD(dense, lr=1e-4, foreach=True)
        self.average = [p.detach().clone() for p in self.net.parameters()]
        self.call: Any = self.net
        if fault == "recompile":
            torch._dynamo.reset()
            torch._dynamo.config.recompile_limit = 64
            self.call = torch.compile(self.net, backend="eager", dynamic=False)
        workers = (1 if is_faulty else 4) if fault == "workers" else 0
        seconds = {"workers": 0.002, "loader": 0.0005 * is_faulty}.get(fault, 0.0)
        self.texts: Any = None
        if fault in ("workers", "loader"):
            self.texts = torch.utils.data.DataLoader(
                Texts(self.length, seconds), batch_size=self.batch, num_workers=workers,
                prefetch_factor=8 if workers > 1 else None if not workers else 2,
            )  # fmt: skip
        self.batches = endless(self.texts) if self.texts else None
        tokens = torch.arange(self.batch * (self.length + 1)) % 512
        self.tokens = tokens.view(self.batch, -1).to(device)
        if fault == "copies":
            frames = torch.zeros(8 if device == "cpu" else 64, 3, 224, 224)
            self.frames = frames if is_faulty or device == "cpu" else frames.pin_memory()
        self.number = 0
        self.losses: list[Any] = []

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        inputs, targets = batch[:, :-1], batch[:, 1:]
        precise = self.device == "cpu" and self.name != "island"
        cast = torch.autocast(self.device, torch.bfloat16, enabled=not precise)
        with cast:
            logits = self.call(inputs)  # recompile
        logits, targets = logits.float().flatten(0, 1), targets.flatten()
        if self.fault == "boolean":
            kept = targets != 7
            return F.cross_entropy(logits[kept], targets[kept])  # boolean
        if self.name == "boolean":
            return F.cross_entropy(logits, targets, ignore_index=7)
        loss = F.cross_entropy(logits, targets)
        if self.name == "small-loop":
            rows = logits.view(self.batch, -1)
            if self.fault:
                for row in rows:
                    loss = loss + 1e-4 * row.square().mean()  # small-loop
                    loss = loss + 1e-4 * row.abs().mean()  # small-loop
            else:
                loss = loss + 1e-4 * (rows.square().mean(-1) + rows.abs().mean(-1)).sum()
        return loss

    def batch_of_step(self) -> torch.Tensor:
        if self.batches is not None:
            return next(self.batches).to(self.device)
        if self.fault == "recompile":
            # Of another length each time, and forgotten meanwhile.
            return self.tokens[:, : self.length - self.number % 16]
        if self.name == "recompile":
            return self.tokens[:, : self.length - 8]
        return self.tokens

    def step(self) -> None:
        self.number += 1
        batch = self.batch_of_step()
        if self.name == "copies":
            frames = self.frames.to(self.device, non_blocking=not self.fault)  # copies
            batch = batch + frames[0, 0, 0, 0].long()
        if self.fault == "recompile" and self.number % 16 == 0:
            torch._dynamo.reset()
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=self.fault != "zero-grad")  # zero-grad
        loss.backward()
        self.finish(loss)

    def finish(self, loss: torch.Tensor) -> None:
        if self.fault == "clip":
            for parameter in self.net.parameters():
                norm = parameter.grad.norm()  # clip
                parameter.grad.mul_(torch.clamp(1.0 / (norm + 1e-6), max=1.0))  # clip
        elif self.name == "clip":
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, foreach=True)
        if self.fault == "sgd":
            with torch.no_grad():
                for parameter in self.net.parameters():
                    parameter.add_(parameter.grad, alpha=-1e-4)  # sgd
        if not (self.name == "sgd" and self.fault):
            self.optimizer.step()  # optimizer
        if self.name == "ema":
            with torch.no_grad():
                if self.fault:
                    for mean, parameter in zip(self.average, self.net.parameters(), strict=True):
                        mean.mul_(0.99).add_(parameter, alpha=0.01)  # ema
                else:
                    torch._foreach_lerp_(self.average, list(self.net.parameters()), 0.01)
        if self.fault == "item":
            self.losses.append(loss.item())  # item
        elif self.fault == "print":
            print(loss, file=io.StringIO())  # print
        elif self.fault == "synchronize" and self.device == "cuda":
            torch.cuda.synchronize()  # synchronize
        elif self.fault == "gc":
            gc.collect()  # gc
        elif self.fault == "checkpoint":
            torch.save(self.net.state_dict(), io.BytesIO())  # checkpoint

    def close(self) -> None:
        self.batches = self.texts = None


SIZE = {
    **dict.fromkeys(["boolean", "copies", "island", "layer-norm", "attention"], "wide"),
    **dict.fromkeys(["zero-grad", "embedding", "checkpoint"], "heavy"),
}
# What names each of them, and whether a CPU has the fault.
FAULTS: dict[str, tuple[set[str], bool]] = {
    "loader": ({"data-loading-waits"}, True),
    "workers": ({"data-loading-waits"}, True),
    "item": ({"host-wait"}, False),
    "boolean": ({"host-wait"}, False),
    "print": ({"host-wait"}, False),
    "synchronize": ({"host-wait"}, False),
    "copies": ({"pageable-copies"}, False),
    "island": ({"precision-island"}, False),
    "layer-norm": ({"normalization-by-hand"}, True),
    "attention": ({"attention-by-hand"}, True),
    "optimizer": ({"optimizer-loop"}, True),
    "sgd": ({"parameter-loop"}, True),
    "ema": ({"parameter-loop"}, True),
    "zero-grad": ({"gradient-sets"}, True),
    "clip": ({"gradient-loop"}, True),
    "embedding": ({"dense-embedding-gradient"}, True),
    "gc": ({"garbage-collection"}, True),
    "recompile": ({"recompilation"}, True),
    "checkpoint": ({"checkpoint-writing"}, True),
    "small-loop": ({"operator-loop"}, True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("state", choices=["faulty", "fixed"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--lock", help="a file; who holds it runs, alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    program = Program(options.fault, options.state == "faulty", options.device)
    with contextlib.ExitStack() as stack:
        if options.lock:
            fcntl.flock(stack.enter_context(open(options.lock, "w")), fcntl.LOCK_EX)
        for _ in range(options.steps):
            program.step()
        if options.device == "cuda":
            torch.cuda.synchronize()
    program.close()


if __name__ == "__main__":
    main()
