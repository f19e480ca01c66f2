"""Optimizes TorchScript archives on a device, and measures what comes of it beside TorchScript itself, as a user would run either.

    PYTHONPATH=python OPPROF_TOOLS_DIR=build/bin python benchmarks/torchscript_optimize.py [--device cuda] [--dtype float16] [NAME …]

Models of the kinds that people deploy, scripted and traced on the CPU with random weights; nothing is downloaded, and PyTorch alone is needed.
Of each: `opprof optimize` with empty caches and a time box, and then, in a new process, steps of three programs in turns. TorchScript is the
archive as torch.jit.load gives it, after its profiling executor has made its plans; Inductor is torch.compile of the module that opprof
makes of the archive; and the last is the backend, by the lines that the report says to write. One archive is tried after the other.
A step begins on an idle device and ends when its results are there. The gain is that over TorchScript. What follows is optimize's own: the best that needs nothing of
opprof (plain TorchScript, or Inductor in one of its modes) and its time over that of the backend, and the error of what is to be used, against float64. The difference is the
largest of what the backend gives from what TorchScript gives, relative to the largest number in that. `--keep` leaves reports, programs and a row of JSON for each.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from opprof.search.outcome import OPTIMIZED

# Calls after which the executor has its plans: two are profiled, and a fuser compiles at the next.
_WARM_UP = 10


# ---------------------------------------------------------------------------------------------------------------------
# Models
# ---------------------------------------------------------------------------------------------------------------------


def unit(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """A convolution and its normalization."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


class Basic(nn.Module):
    """The block of ResNet-18."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *unit(inputs, outputs, 3, stride), nn.ReLU(), *unit(outputs, outputs)
        )
        self.short = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(*unit(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.short(x))


class Inverted(nn.Module):
    """The block of MobileNet V3, with squeeze and excitation."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        inner = 4 * inputs
        self.expand = nn.Sequential(*unit(inputs, inner, 1), nn.Hardswish())
        self.depth = nn.Sequential(*unit(inner, inner, 3, stride, inner), nn.Hardswish())
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(inner, inputs, 1),
            nn.ReLU(),
            nn.Conv2d(inputs, inner, 1),
            nn.Hardsigmoid(),
        )
        self.project = nn.Sequential(*unit(inner, outputs, 1))
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(self.expand(x))
        y = self.project(y * self.gate(y))
        return x + y if self.skips else y


class Next(nn.Module):
    """The block of ConvNeXt, which normalizes with channels last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depth = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def pooled(body: Sequence[nn.Module], width: int) -> nn.Module:
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 100))


def resnet(width: int, depth: int) -> nn.Module:
    body: list[nn.Module] = [*unit(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = width
    for stage in range(4):
        for place in range(depth):
            outer = width << stage
            body.append(Basic(inner, outer, 2 if stage and not place else 1))
            inner = outer
    return pooled(body, inner)


def mobilenet(width: int, depth: int) -> nn.Module:
    body: list[nn.Module] = [*unit(3, width, 3, 2), nn.Hardswish()]
    for stage in range(3):
        body += [Inverted(width << stage, width << stage, 1) for _ in range(depth)]
        body.append(Inverted(width << stage, width << stage + 1, 2))
    return pooled(body, width << 3)


def vgg(width: int, depth: int) -> nn.Module:
    body: list[nn.Module] = []
    inner = 3
    for stage in range(4):
        for _ in range(depth):
            body += [nn.Conv2d(inner, width << stage, 3, padding=1), nn.ReLU()]
            inner = width << stage
        body.append(nn.MaxPool2d(2))
    return pooled(body, inner)


def convnext(width: int, depth: int) -> nn.Module:
    body: list[nn.Module] = [nn.Conv2d(3, width, 4, 4)]
    body += [Next(width) for _ in range(depth)]
    body.append(nn.Conv2d(width, 2 * width, 2, 2))
    body += [Next(2 * width) for _ in range(depth)]
    return pooled(body, 2 * width)


class Residual(nn.Module):
    """The block of a diffusion model's network."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.up = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.out = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.short = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(functional.silu(self.first(x)))
        return self.short(x) + self.out(functional.silu(self.second(y)))


class UNet(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.down = nn.ModuleList(Residual(width << i, width << i + 1) for i in range(depth))
        self.up = nn.ModuleList(
            Residual(3 * width << i, width << i) for i in reversed(range(depth))
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        kept = []
        for block in self.down:
            kept.append(x)
            x = functional.avg_pool2d(block(x), 2)
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([kept.pop(), x], 1))
        return self.head(x)


class Attention(nn.Module):
    """Attention as it was written before there was an operator of it."""

    def __init__(self, width: int, heads: int, length: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        self.register_buffer("hidden", hidden if causal else None)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        all_three = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = all_three.unbind(0)
        scores = (q @ k.transpose(-2, -1)) * self.scale
        if self.hidden is not None:
            scores = scores.masked_fill(self.hidden[:length, :length], -1e4)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width: int, length: int, *, causal: bool, first: bool) -> None:
        super().__init__()
        self.attention = Attention(width, max(2, width // 64), length, causal=causal)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.first = first

    def forward(self, x: Tensor) -> Tensor:
        if self.first:
            x = x + self.attention(self.before(x))
            return x + self.down(functional.gelu(self.up(self.after(x)), approximate="tanh"))
        x = self.before(x + self.attention(x))
        return self.after(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):
    """Like BERT, or with `causal` like GPT-2."""

    def __init__(self, width: int, depth: int, length: int, *, causal: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(512, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        self.layers = nn.ModuleList(
            Layer(width, length, causal=causal, first=causal) for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 512)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Vision(nn.Module):
    """Patches of an image in place of tokens."""

    def __init__(self, width: int, depth: int, size: int) -> None:
        super().__init__()
        count = (size // 16) ** 2
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.places = nn.Parameter(0.02 * torch.randn(count, width))
        self.layers = nn.ModuleList(
            Layer(width, count, causal=False, first=True) for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


class Root(nn.Module):
    """RMSNorm as Llama's code has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Rotary(nn.Module):
    """A layer of Llama: rotated queries and keys, and a gated product."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.heads, size = width // 64, 64
        self.before, self.after = Root(width), Root(width)
        names = ("q", "k", "v", "out")
        self.linear = nn.ModuleDict({name: nn.Linear(width, width, bias=False) for name in names})
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)
        angles = torch.outer(torch.arange(length), 10000 ** (-torch.arange(0, size, 2) / size))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

    def rotate(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        q, k, v = (
            self.linear[name](y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name in ("q", "k", "v")
        )
        y = functional.scaled_dot_product_attention(
            self.rotate(q), self.rotate(k), v, is_causal=True
        )
        x = x + self.linear["out"](y.transpose(1, 2).flatten(2))
        y = self.after(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, width: int, depth: int, length: int) -> None:
        super().__init__()
        self.tokens, self.norm = nn.Embedding(512, width), Root(width)
        self.layers = nn.ModuleList(Rotary(width, length) for _ in range(depth))
        self.head = nn.Linear(width, 512, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Mixing(nn.Module):
    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(
            nn.Linear(length, 2 * length), nn.GELU(), nn.Linear(2 * length, length)
        )
        self.along = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.across(self.before(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.after(x))


class Mixer(nn.Module):
    def __init__(self, width: int, depth: int, size: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.layers = nn.Sequential(*(Mixing(width, (size // 16) ** 2) for _ in range(depth)))
        self.head = nn.Linear(width, 100)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class Dilated(nn.Module):
    """A layer of WaveNet."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.both = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.both(x).chunk(2, 1)
        return x + self.out(torch.tanh(value) * torch.sigmoid(gate))


def wavenet(width: int, depth: int) -> nn.Module:
    layers = [Dilated(width, 1 << i % 6) for i in range(depth)]
    return nn.Sequential(nn.Conv1d(1, width, 1), *layers, nn.Conv1d(width, 1, 1))


class Recommender(nn.Module):
    """Like DLRM: tables, and the products of every two of their rows."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, width) for _ in range(count))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = torch.tril_indices(count + 1, count + 1, -1)
        self.register_buffer("rows", pairs[0])
        self.register_buffer("columns", pairs[1])
        self.top = nn.Sequential(
            nn.Linear(width + pairs.shape[1], 512), nn.ReLU(), nn.Linear(512, 1), nn.Sigmoid()
        )

    def forward(self, numbers: Tensor, places: Tensor) -> Tensor:
        x = self.bottom(numbers)
        rows = [x] + [table(places[:, i]) for i, table in enumerate(self.tables)]
        both = torch.stack(rows, 1)
        products = torch.bmm(both, both.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([x, products], 1))


@dataclass(frozen=True)
class Case:
    """A model, whether it is traced, and the sizes of its inputs: whole numbers where the dtype says so."""

    model: Callable[[], nn.Module]
    traced: bool
    inputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]


def cases(device: str, dtype: torch.dtype) -> dict[str, Case]:
    """The models in sizes that keep the device busy."""
    large = device == "cuda"

    def image(batch: int, size: int) -> Any:
        return (((batch, 3, size, size), dtype),)

    def tokens(batch: int, length: int) -> Any:
        return (((batch, length), torch.int64),)

    images, texts = (image(32, 224), tokens(16, 512)) if large else (image(2, 96), tokens(2, 128))
    size, length = images[0][0][-1], texts[0][0][-1]
    width, depth = (768, 12) if large else (128, 4)
    channels = 64 if large else 16
    audio = (((8, 1, 16384) if large else (1, 1, 4096), dtype),)
    numbers, count = (8192, 26) if large else (512, 8)
    rows = (((numbers, 13), dtype), ((numbers, count), torch.int64))
    return {
        "resnet": Case(lambda: resnet(channels, 2), False, images),
        "mobilenet": Case(lambda: mobilenet(channels // 2, 2), False, images),
        "vgg": Case(lambda: vgg(channels, 2), True, images),
        "convnext": Case(lambda: convnext(2 * channels, 3), True, images),
        "unet": Case(lambda: UNet(channels, 3), False, image(8, 128) if large else image(1, 64)),
        "vision": Case(lambda: Vision(width, depth, size), False, images),
        "mixer": Case(lambda: Mixer(width, depth, size), True, images),
        "encoder": Case(lambda: Encoder(width, depth, length), True, texts),
        "encoder_scripted": Case(lambda: Encoder(width, depth, length), False, texts),
        "gpt": Case(lambda: Encoder(width, depth, length, causal=True), True, texts),
        "llama": Case(lambda: Decoder(width, depth, length), True, texts),
        "wavenet": Case(lambda: wavenet(channels, 12), True, audio),
        "recommender": Case(lambda: Recommender(64, count), True, rows),
    }


# ---------------------------------------------------------------------------------------------------------------------
# Archives
# ---------------------------------------------------------------------------------------------------------------------

_LETTERS = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64"}


def inputs_of(case: Case) -> tuple[Tensor, ...]:
    torch.manual_seed(1)
    return tuple(
        torch.randn(size).to(dtype) if dtype.is_floating_point else torch.randint(512, size)
        for size, dtype in case.inputs
    )


def texts_of(case: Case) -> list[str]:
    """The inputs as the tools take them."""
    return ["x".join(map(str, size)) + "x" + _LETTERS[dtype] for size, dtype in case.inputs]


def save(case: Case, dtype: torch.dtype, target: Path) -> None:
    """The archive, made on the CPU as most are."""
    torch.manual_seed(0)
    model = case.model().eval().to(dtype)
    with torch.no_grad():
        if case.traced:
            module = torch.jit.trace(model, inputs_of(case), check_trace=False)
        else:
            module = torch.jit.script(model)
    module.save(target)


# ---------------------------------------------------------------------------------------------------------------------
# Measuring
# ---------------------------------------------------------------------------------------------------------------------


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def difference(results: Any, expected: Any) -> float:
    """The largest of all results, relative to the largest number of each."""
    worst = 0.0
    for own, other in zip(tree_leaves(results), tree_leaves(expected), strict=True):
        scale = float(other.double().abs().max()) or 1.0
        worst = max(worst, float((own.double() - other.double()).abs().max()) / scale)
    return worst


def measure(archive: Path, out: Path, case: Case, device: str, seconds: float) -> dict[str, Any]:
    """Milliseconds of a waiting step by program, in turns. Runs in a process of its own, in the folder of the archive."""
    os.chdir(archive.parent)
    sys.path.insert(0, str(out))
    found = json.loads((out / "optimize.json").read_text())
    args = tuple(value.to(device) for value in inputs_of(case))
    name = f"{archive.stem}_model"
    module = __import__(name).module_of(torch.jit.load(archive.name, map_location="cpu"))
    programs: dict[str, Any] = {
        "torchscript": torch.jit.load(archive.name, map_location=device),
        "inductor": torch.compile(module.to(device)),
    }
    if found["backend"] is not None:
        # What the report says to write.
        names: dict[str, Any] = {"torch": torch}
        exec("\n".join(found["lines"]), names)
        programs["opprof"] = names["model"]
    row: dict[str, Any] = {}
    times: dict[str, list[float]] = {key: [] for key in programs}
    with torch.no_grad():
        for key, program in list(programs.items()):
            try:
                for _ in range(_WARM_UP):
                    results = program(*args)
                if key == "torchscript":
                    expected = results
                row[f"{key}_difference"] = difference(results, expected)
            except Exception as error:
                row[f"{key}_fails"] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                del programs[key]
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(next(iter(times.values()))) < _WARM_UP:
            for key, program in programs.items():
                wait(device)
                start = time.perf_counter()
                program(*args)
                wait(device)
                times[key].append(time.perf_counter() - start)
    row |= {key: 1e3 * statistics.median(times[key]) for key in programs}
    return row


def run(words: Sequence[str], environment: dict[str, str]) -> str | None:
    """What was wrong, where the command failed; its last lines say that."""
    ended = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    return (ended.stderr or ended.stdout)[-600:] if ended.returncode else None


def measured(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The row of one archive."""
    case = cases(options.device, options.dtype)[name]
    archive, out = folder / f"{name}.pt", folder / f"{name}_out"
    save(case, options.dtype, archive)
    # Of this archive alone, so that nothing of another is found compiled.
    environment = dict(os.environ)
    for variable, inner in (
        ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
        ("TRITON_CACHE_DIR", "triton"),
    ):
        environment[variable] = str(folder / f"{name}_caches" / inner)
    row: dict[str, Any] = {"archive": name, "torch": torch.__version__}
    inputs = [f"--input={text}" for text in texts_of(case)]
    words = [sys.executable, "-m", "opprof", "optimize", str(archive), *inputs, "-o", str(out)]
    words += [
        f"--budget-seconds={options.budget_seconds}",
        f"--error-budget={options.error_budget}",
    ]
    if options.device == "cuda":
        words.append("--device=cuda")
    start = time.monotonic()
    failed = run(words, environment)
    row["seconds"] = time.monotonic() - start
    if failed is not None:
        return row | {"fails": failed}
    found = json.loads((out / "optimize.json").read_text())
    row |= {key: found[key] for key in ("use", "remark", "backend")}
    row["programs"] = {
        one["name"]: {
            "ms": one["latency_ns"] and one["latency_ns"] / 1e6,
            "error": one["error"],
            "may_be_used": one["within_budget"] and one["latency_ns"] is not None,
        }
        for one in found["programs"]
    }
    result = folder / f"{name}_row.json"
    words = [sys.executable, __file__, name, f"--device={options.device}", f"--keep={folder}"]
    words += [f"--dtype={str(options.dtype).removeprefix('torch.')}", f"--measure-to={result}"]
    failed = run([*words, f"--seconds={options.seconds}"], environment)
    return row | ({"fails": failed} if failed else json.loads(result.read_text()))


def line_of(row: dict[str, Any]) -> str:
    def milliseconds(key: str) -> str:
        return f"{row[key]:.3f}" if key in row else "fails" if f"{key}_fails" in row else "-"

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.1e}"

    gain = (
        f"{row['torchscript'] / row['opprof']:.2f}"
        if {"torchscript", "opprof"} <= row.keys()
        else "-"
    )
    programs = row.get("programs", {})
    timed = {one: facts["ms"] for one, facts in programs.items() if facts["may_be_used"]}
    own = timed.pop(OPTIMIZED, None)
    best = min(timed, key=lambda one: timed[one], default="-")
    over = "-" if own is None or not timed else f"{timed[best] / own:.2f}"
    error = programs.get(row.get("use"), {}).get("error")
    shown = " ".join(f"{milliseconds(key):>11}" for key in ("torchscript", "inductor", "opprof"))
    said = " ".join(str(row.get("fails") or row["use"]).split())
    return (
        f"{row['archive']:18}{shown} {gain:>6}  {best[:24]:24} {over:>5} {share(error):>9} "
        f"{share(row.get('opprof_difference')):>10} {row['seconds']:8.0f}  {said}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the archives (default: all)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--budget-seconds", type=float, default=120.0)
    parser.add_argument("--error-budget", type=float, default=1e-3)
    parser.add_argument("--seconds", type=float, default=5.0, help="for the last measurement")
    parser.add_argument("--keep", type=Path, help="a folder for archives, programs and reports")
    parser.add_argument("--measure-to", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.dtype = getattr(torch, options.dtype)
    warnings.filterwarnings("ignore")
    known = cases(options.device, options.dtype)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no archive is called {unknown[0]}: {', '.join(known)}")
    if options.measure_to is not None:
        (name,) = options.names
        folder = options.keep.resolve()
        case, archive, out = known[name], folder / f"{name}.pt", folder / f"{name}_out"
        row = measure(archive, out, case, options.device, options.seconds)
        options.measure_to.write_text(json.dumps(row))
        return
    print(
        f"{'archive':18}{'TorchScript':>11} {'Inductor':>11} {'opprof':>11} {'gain':>6}  {'best without opprof':24} {'over':>5} "
        f"{'error':>9} {'difference':>10} {'seconds':>8}  use"
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.keep or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.names or known:
            row = measured(name, options, folder)
            (folder / f"{name}.json").write_text(json.dumps(row, indent=1) + "\n")
            print(line_of(row), flush=True)


if __name__ == "__main__":
    main()
