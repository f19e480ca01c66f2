"""Makes TorchScript archives with an old PyTorch, and what it computes with them, for test_torchscript_old.py.

    python3.11 -m venv env
    env/bin/pip install 'torch==1.13.1' 'numpy<2'        # and the nvidia-*-cu11 packages that it asks for
    env/bin/python test/python/torchscript_old/make.py FOLDER

Leaves an archive for each model in FOLDER, files of other forms of one of them, and results.pt: what each archive is called with, what
came out, and how many layers are alike. Words after FOLDER are the names of those that are made. What the tests read is the smallest of
what 1.13.1 made so, in `1.13`.
"""

import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035

import torch
from torch import Tensor, nn


class Bottleneck(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.act = nn.Hardswish(inplace=True)
        self.squeeze = nn.AdaptiveAvgPool2d(1)
        self.gate = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.norm(self.conv(x)))
        return x + y * torch.sigmoid(self.gate(self.squeeze(y)))


class Images(nn.Module):
    """A network for images, as torchvision writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6(), nn.MaxPool2d(2))
        self.layers = nn.Sequential(*[Bottleneck(8) for _ in range(3)])
        self.up = nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=False)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(self.layers(self.stem(x)))
        return self.head(self.drop(x.mean([2, 3])))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        qkv = self.qkv(self.norm(x)).reshape(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        return x + self.out((weights @ v).transpose(1, 2).reshape(b, t, c))


class Tokens(nn.Module):
    """A decoder, whose attention is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.layers = nn.ModuleList([Block(16, 2) for _ in range(4)])
        self.norm = nn.LayerNorm(16)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embed.weight.t()


class Encoder(nn.Module):
    """PyTorch's own layers, with the fast path that 1.12 put into them."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(16, 8, batch_first=True)

    def forward(
        self,
        x: Tensor,
        state: Optional[Tuple[Tensor, Tensor]] = None,  # noqa: UP006, UP045
    ) -> Tuple[Tensor, Tensor]:  # noqa: UP006
        y, (h, _) = self.lstm(x, state)
        return self.gru(y)[0], h


class Found(NamedTuple):
    boxes: Tensor
    scores: Tensor


class Detector(nn.Module):
    """Branches and loops on data, lists, dictionaries and a named tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(4, 1)
        self.refine = nn.Linear(4, 4)

    def keep(self, boxes: Tensor, scores: Tensor) -> List[int]:  # noqa: UP006
        kept: List[int] = []  # noqa: UP006
        order = scores.argsort(descending=True)
        for i in range(order.size(0)):
            one = int(order[i])
            near = False
            for other in kept:
                if bool((boxes[one] - boxes[other]).abs().sum() < 1.0):
                    near = True
                    break
            if not near:
                kept.append(one)
        return kept

    def forward(self, boxes: Tensor, most: int) -> Tuple[Found, Dict[str, Tensor]]:  # noqa: UP006
        scores = self.score(boxes).squeeze(1)
        rounds = 0
        while rounds < most and bool(scores.max() > 0.0):
            boxes = boxes + 0.1 * torch.tanh(self.refine(boxes))
            scores = self.score(boxes).squeeze(1) - 0.1
            rounds += 1
        kept = self.keep(boxes, scores)
        found = Found(boxes[kept], scores[kept])
        return found, {"rounds": torch.tensor(rounds), "mean": found.scores.mean()}


@torch.jit.script
def clipped(x: Tensor, limit: float) -> Tensor:
    if bool(x.norm() > limit):
        x = x * (limit / x.norm())
    return x


class Mixed(nn.Module):
    """Traced, with a scripted function and a scripted module in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
        self.inner = torch.jit.script(Choice())

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = clipped(torch.tanh(layer(x)), 1.5)
        return self.inner(x)


class Choice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            return torch.einsum("ij,kj->ik", x, x)
        return torch.cat([x, -x], 1)[:, : x.size(0)]


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 4, mode="mean")
        self.head = nn.Linear(4, 2)
        self.scale = 0.5

    def forward(self, tokens: Tensor, offsets: Tensor) -> Tensor:
        return torch.log_softmax(self.head(self.bag(tokens, offsets)) * self.scale, 1)


class Reads(nn.Module):
    """What an encoder of tokens and one that remembers take in turns: state that is assigned and written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.calls = 0
        self.mix = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.seen.mul_(0.5).add_(x.sum(0))
        self.calls += 1
        return self.mix(x + self.seen) * self.calls


def quantized_statically(given: Tuple[Any, ...]) -> nn.Module:  # noqa: UP006
    model = nn.Sequential(
        torch.quantization.QuantStub(),
        nn.Conv2d(3, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 4),
        torch.quantization.DeQuantStub(),
    ).eval()
    model.qconfig = torch.quantization.get_default_qconfig("fbgemm")
    torch.quantization.fuse_modules(model, [["1", "2"], ["3", "4"]], inplace=True)
    torch.quantization.prepare(model, inplace=True)
    model(*given)
    return torch.quantization.convert(model)


def quantized_graph(given: Tuple[Any, ...]) -> nn.Module:  # noqa: UP006
    from torch.ao.quantization import get_default_qconfig_mapping, quantize_fx

    model = Images().eval()
    mapping = get_default_qconfig_mapping("fbgemm")
    prepared = quantize_fx.prepare_fx(model, mapping, given)
    prepared(*given)
    return quantize_fx.convert_fx(prepared)


def quantized_dynamically(model: nn.Module) -> nn.Module:
    return torch.quantization.quantize_dynamic(model.eval(), {nn.Linear, nn.LSTM}, torch.qint8)


def traced(model: nn.Module, given: Tuple[Any, ...]) -> Any:  # noqa: UP006
    return torch.jit.trace(model.eval(), given, check_trace=False)


def scripted(model: nn.Module, given: Tuple[Any, ...]) -> Any:  # noqa: UP006
    return torch.jit.script(model.eval())


IMAGE = (torch.linspace(-2, 2, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16),)
SMALL = (torch.linspace(-1, 1, 3 * 8 * 8).reshape(1, 3, 8, 8),)
TOKENS = (torch.arange(12).reshape(2, 6),)
SEQUENCE = (torch.linspace(-1, 1, 60).reshape(2, 5, 6),)
VECTORS = (torch.linspace(-1, 1, 32 * 5).reshape(2, 5, 16),)
MATRIX = (torch.linspace(-1, 1, 12).reshape(3, 4),)
BOXES = (torch.linspace(-1, 2, 32).reshape(8, 4), 4)

#: What makes an archive, what it is called with, and how many layers it has that are alike (0 where there are none to be counted; a
#: layer of PyTorch's fast path is one operator, and no subgraph).
MODELS: Dict[str, Tuple[Callable[[Any], Any], Tuple[Any, ...], int]] = {  # noqa: UP006
    "images-scripted": (lambda given: scripted(Images(), given), IMAGE, 3),
    "images-traced": (lambda given: traced(Images(), given), IMAGE, 3),
    "images-frozen": (
        lambda given: torch.jit.freeze(scripted(Images(), given)),
        IMAGE,
        3,
    ),
    "tokens-scripted": (lambda given: scripted(Tokens(), given), TOKENS, 4),
    "tokens-traced": (lambda given: traced(Tokens(), given), TOKENS, 4),
    "encoder-scripted": (lambda given: scripted(Encoder(), given), VECTORS, 0),
    "encoder-traced": (lambda given: traced(Encoder(), given), VECTORS, 0),
    "recurrent-scripted": (lambda given: scripted(Recurrent(), given), SEQUENCE, 0),
    "recurrent-traced": (lambda given: traced(Recurrent(), given), SEQUENCE, 0),
    "detector": (lambda given: scripted(Detector(), given), BOXES, 0),
    "mixed": (lambda given: traced(Mixed(), given), (MATRIX[0].repeat(1, 2)[:, :6],), 3),
    "bag": (
        lambda given: scripted(Bag(), given),
        (torch.arange(10), torch.tensor([0, 3, 7])),
        0,
    ),
    "state": (lambda given: scripted(Reads(), given), MATRIX, 0),
    "half": (lambda given: scripted(Tokens().bfloat16(), given), TOKENS, 4),
    "quantized-dynamic": (
        lambda given: scripted(quantized_dynamically(Recurrent()), given),
        SEQUENCE,
        0,
    ),
    "quantized-dynamic-traced": (
        lambda given: traced(quantized_dynamically(Tokens()), given),
        TOKENS,
        4,
    ),
    "quantized-static": (
        lambda given: torch.jit.script(quantized_statically(given)),
        SMALL,
        0,
    ),
    "quantized-graph": (lambda given: traced(quantized_graph(given), given), IMAGE, 0),
}

#: What saves the archive `mixed` in another form.
FORMS: Dict[str, Callable[[Any, str], Any]] = {  # noqa: UP006
    "lite": lambda module, path: module._save_for_lite_interpreter(path),
    "lite-flatbuffer": lambda module, path: module._save_for_lite_interpreter(
        path, _use_flatbuffer=True
    ),
    "flatbuffer": lambda module, path: torch.jit.save_jit_module_to_flatbuffer(module, path),
    "checkpoint": lambda module, path: torch.save(module.state_dict(), path),
    "pickle": lambda module, path: torch.save(
        module.state_dict(), path, _use_new_zipfile_serialization=False
    ),
}


def main() -> None:
    warnings.filterwarnings("ignore")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    only = set(sys.argv[2:]) or {*MODELS, *FORMS}
    results: Dict[str, Any] = {}  # noqa: UP006
    with torch.no_grad():
        for name, (make, given, layers) in MODELS.items():
            if name not in only:
                continue
            torch.manual_seed(0)
            module = make(given)
            module.save(str(folder / f"{name}.pt"))
            copied = tuple(x.clone() if isinstance(x, Tensor) else x for x in given)
            outputs = as_plain(torch.jit.load(str(folder / f"{name}.pt"))(*copied))
            results[name] = {"inputs": given, "outputs": outputs, "layers": layers}
        for name in FORMS:
            if name in only:
                FORMS[name](torch.jit.load(str(folder / "mixed.pt")), str(folder / f"{name}.pt"))
    if "lite" in only:
        results["lite"] = results["mixed"]
    torch.save(results, folder / "results.pt")


def as_plain(value: Any) -> Any:
    """Named tuples are tuples, which torch.load reads without a class."""
    if isinstance(value, tuple):
        return tuple(as_plain(element) for element in value)
    return value


if __name__ == "__main__":
    main()
