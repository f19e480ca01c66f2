"""Trains a small model op by op, for benchmarks/eager_attribution.py: python eager_train.py MODEL DEVICE [amp] [checkpoint] [foreach|fused] [ddp]

With `witness=FOLDER` torch.profiler records the last steps, and whatever calls PyTorch is wrapped in a range that names its line and module
by other means than opprof's: a mode that sees each call, its frames, and hooks of modules.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

STEPS, WITNESSED = 12, 3
# Of the program that is recorded by it.
witness: Any = None
TORCH = os.path.dirname(torch.__file__)


def recompute(function: Callable[..., Any], module: nn.Module, x: Tensor, reentrant: bool) -> Any:
    """What a checkpoint computes twice; a witness is there the second time too, when autograd has left the mode."""

    def watched(x: Tensor) -> Any:
        with witness.inside(module):
            return function(x)

    return checkpoint(watched if witness else function, x, use_reentrant=reentrant)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, again: bool):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.heads, self.again = heads, again

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, width))

    def compute(self, x: Tensor) -> Tensor:
        x = self.attend(x)
        return x + self.mlp(self.after(x))

    def forward(self, x: Tensor) -> Tensor:
        if self.again:
            return recompute(self.compute, self, x, reentrant=False)
        return self.compute(x)


class Transformer(nn.Module):
    def __init__(self, size: int, again: bool):
        super().__init__()
        self.width, self.length, self.words = 128 * size, 64, 1000
        self.tokens, self.places = (
            nn.Embedding(self.words, self.width),
            nn.Embedding(64, self.width),
        )
        self.blocks = nn.ModuleList(Block(self.width, 4, again) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(self.width), nn.Linear(self.width, self.words)

    def batch(self, device: str) -> tuple[Tensor, ...]:
        tokens = torch.randint(self.words, (8, self.length + 1), device=device)
        return tokens[:, :-1], tokens[:, 1:]

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(self.length, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


class Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.short = nn.Conv2d(before, after, 1, stride, bias=False) if before != after else None

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm_1(self.first(x)), inplace=True)
        y = self.norm_2(self.second(y))
        y += x if self.short is None else self.short(x)
        return y.relu_()


class Convolutions(nn.Module):
    def __init__(self, size: int, again: bool):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16 * size, 3, 1, 1), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
        self.again = again
        self.stages = nn.ModuleList(
            [
                Residual(16 * size, 16 * size, 1),
                Residual(16 * size, 32 * size, 2),
                Residual(32 * size, 32 * size, 1),
            ]
        )
        self.head = nn.Linear(32 * size, 10)

    def batch(self, device: str) -> tuple[Tensor, ...]:
        return torch.randn(8, 3, 32, 32, device=device), torch.randint(10, (8,), device=device)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = recompute(stage, self, x, reentrant=True) if self.again else stage(x)
        return F.cross_entropy(self.head(x.mean((2, 3))).float(), labels)


class Recommender(nn.Module):
    def __init__(self, size: int, again: bool):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(1000, 32, mode="sum") for _ in range(6))
        self.bottom = nn.Sequential(nn.Linear(13, 64 * size), nn.ReLU(), nn.Linear(64 * size, 32))
        self.top = nn.Sequential(
            nn.Linear(21 + 32, 128 * size), nn.ReLU(), nn.Linear(128 * size, 1)
        )

    def batch(self, device: str) -> tuple[Tensor, ...]:
        return (
            torch.randn(256, 13, device=device),
            torch.randint(1000, (6, 256, 4), device=device),
            torch.rand(256, device=device).round(),
        )

    def forward(self, dense: Tensor, sparse: Tensor, labels: Tensor) -> Tensor:
        x = self.bottom(dense)
        bags = [table(indices) for table, indices in zip(self.tables, sparse, strict=True)]
        all_of = torch.stack([x, *(bag.to(x.dtype) for bag in bags)], 1)
        products = torch.bmm(all_of, all_of.transpose(1, 2))
        row, column = torch.tril_indices(7, 7, -1, device=x.device)
        pairs = products[:, row, column]
        logits = self.top(torch.cat([x, pairs], 1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits.float(), labels)


MODELS: dict[str, Callable[[int, bool], Any]] = {
    "transformer": Transformer,
    "convolutions": Convolutions,
    "recommender": Recommender,
}


class Witness(TorchFunctionMode):
    """Puts a range round each call of PyTorch's that says from which line of this program and in which module it comes."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._modules: list[str] = []

        def enter(module: nn.Module, *_: Any) -> None:
            self._modules.append(self._paths.get(id(module), "?"))

        def leave(module: nn.Module, *_: Any) -> None:
            self._modules.pop()

        nn.modules.module.register_module_forward_pre_hook(enter)
        nn.modules.module.register_module_forward_hook(leave, always_call=True)

    @contextmanager
    def inside(self, module: nn.Module) -> Iterator[None]:
        self._modules.append(self._paths[id(module)])
        depth = len(self._modules)
        try:
            with self:
                yield
        finally:
            # A recomputation ends by an exception, inside of modules.
            del self._modules[depth - 1 :]

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        frame = sys._getframe(1)
        own = Witness.__torch_function__.__code__
        while frame.f_back is not None and (
            frame.f_code is own or frame.f_code.co_filename.startswith((TORCH, "<"))
        ):
            frame = frame.f_back
        module = self._modules[-1] if self._modules else ""
        with torch.profiler.record_function(f"at|{frame.f_lineno}|{module}"):
            return function(*args, **(kwargs or {}))


def main() -> None:
    global witness
    name, device, *words = sys.argv[1:]
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    torch.manual_seed(0)
    # Small enough for a CPU, and with products that a GPU spends its time on.
    size = 8 if device == "cuda" else 1
    if device == "cuda":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    model = inner = MODELS[name](size, "checkpoint" in words).to(device)
    if "ddp" in words:
        torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
        model = nn.parallel.DistributedDataParallel(
            model, device_ids=[rank] if device == "cuda" else None
        )
    optimizer = torch.optim.AdamW(
        model.parameters(), foreach="foreach" in words, fused="fused" in words
    )
    narrow = torch.autocast(device, torch.bfloat16) if "amp" in words else nullcontext()
    folders = [word.removeprefix("witness=") for word in words if word.startswith("witness=")]

    def step() -> None:
        batch = inner.batch(device)
        with narrow:
            loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    profiler: Any = None
    for number in range(STEPS):
        if folders and number == STEPS - WITNESSED:
            witness = Witness(inner)
            activities = [torch.profiler.ProfilerActivity.CPU]
            activities += [torch.profiler.ProfilerActivity.CUDA] if device == "cuda" else []
            profiler = torch.profiler.profile(activities=activities)
            profiler.start()
            witness.__enter__()
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    if profiler is not None:
        witness.__exit__(None, None, None)
        profiler.stop()
        profiler.export_chrome_trace(os.path.join(folders[0], f"witness-{rank}.json"))
    if "ddp" in words:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
