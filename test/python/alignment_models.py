"""Small models for the value oracle of alignment: residuals, branches, experts, operators in place, an encoder with a decoder."""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Attention(nn.Module):
    """Attention written by hand over one product for query, key and value."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor, causal: bool) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        if causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        mixed = self.drop(scores.softmax(-1)) @ v
        return self.drop(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))


class Block(nn.Module):
    """A residual block: attention, then two products with a GELU between."""

    def __init__(self, width: int, *, causal: bool, first: bool) -> None:
        super().__init__()
        self.causal, self.first = causal, first
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, 2)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.first:
            x = x + self.attention(self.norm1(x), self.causal)
            return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))
        x = self.norm1(x + self.attention(x, self.causal))
        return self.norm2(self.drop(self.down(F.gelu(self.up(x)))) + x)


class GPT(nn.Module):
    """A decoder with learned positions and the norm before each part."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(64, 32), nn.Embedding(16, 32)
        self.blocks = nn.Sequential(*(Block(32, causal=True, first=True) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 64, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


class ViT(nn.Module):
    """A vision transformer with a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.positions = nn.Parameter(torch.randn(1, 17, 32))
        self.blocks = nn.Sequential(*(Block(32, causal=False, first=True) for _ in range(3)))
        self.head = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.blocks(x)[:, 0])


class BERT(nn.Module):
    """An encoder with the norm after each part."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.norm = nn.Embedding(64, 32), nn.LayerNorm(32)
        self.blocks = nn.Sequential(*(Block(32, causal=False, first=False) for _ in range(3)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.norm(self.tokens(ids)))


class Experts(nn.Module):
    """Rotary positions, then a mixture of gated experts of equal shapes, in a residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32, bias=False) for _ in range(3))
        self.router = nn.Linear(32, 4)
        self.gate, self.up = (nn.ModuleList(nn.Linear(32, 48) for _ in range(4)) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(48, 32) for _ in range(4))

    @staticmethod
    def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angle = torch.arange(x.shape[1], dtype=torch.float32)[:, None] / 10 + torch.arange(32) / 7
        cos, sin = angle.cos(), angle.sin()
        q, k = self.rotate(self.q(x), cos, sin), self.rotate(self.k(x), cos, sin)
        x = x + F.scaled_dot_product_attention(q[:, None], k[:, None], self.v(x)[:, None])[:, 0]
        weights = self.router(x).softmax(-1)
        mixed = torch.zeros_like(x)
        for i in range(4):
            expert = self.down[i](F.silu(self.gate[i](x)) * self.up[i](x))
            mixed = mixed + weights[..., i : i + 1] * expert
        return x + mixed


class CNN(nn.Module):
    """Convolutions, batch norms and ReLUs in place, with shortcuts."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(4))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(4))
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.stem(x), inplace=True)
        for i in (0, 2):
            y = F.relu(self.norms[i](self.convs[i](x)), inplace=True)
            y = self.norms[i + 1](self.convs[i + 1](y))
            y += x
            x = F.relu(y, inplace=True)
        return self.head(x.mean((2, 3)))


class EncoderDecoder(nn.Module):
    """PyTorch's own transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.inner(source, target)


def _ids() -> torch.Tensor:
    return torch.randint(0, 64, (2, 16))


MODELS: dict[str, Callable[[], Made]] = {
    "gpt": lambda: (GPT(), (_ids(),)),
    "vit": lambda: (ViT(), (torch.randn(2, 3, 16, 16),)),
    "bert": lambda: (BERT(), (_ids(),)),
    "experts": lambda: (Experts(), (torch.randn(2, 16, 32),)),
    "cnn": lambda: (CNN(), (torch.randn(2, 3, 16, 16),)),
    "encoder_decoder": lambda: (EncoderDecoder(), (torch.randn(2, 8, 32), torch.randn(2, 6, 32))),
}
