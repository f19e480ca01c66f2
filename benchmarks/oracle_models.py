"""The models of launch_oracle.py: small, of many kinds, and none of them among the examples."""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class OracleModel:
    """A module and what it is called with; `train` compiles the backward graph as well."""

    module: nn.Module
    args: tuple[Any, ...]
    train: bool = False
    dynamic: bool = False
    exports: bool = True
    config: dict[str, Any] = field(default_factory=dict)


MODELS: dict[str, Callable[[], OracleModel]] = {}


def model(make: Callable[[], OracleModel]) -> Callable[[], OracleModel]:
    MODELS[make.__name__] = make
    return make


class Lambda(nn.Module):
    """A function with parameters."""

    def __init__(self, function: Callable[..., Any], **parts: Any):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


# Convolutional networks.


class InPlaceBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int = 1):
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm_2 = nn.BatchNorm2d(after)
        self.short = nn.Conv2d(before, after, 1, stride, bias=False) if before != after else None

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.first(x)), inplace=True)
        y = self.norm_2(self.second(y))
        y += x if self.short is None else self.short(x)
        return F.relu_(y)


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1),
        nn.Hardswish(inplace=True),
        InPlaceBlock(8, 8),
        InPlaceBlock(8, 16, 2),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


@model
def cnn_inplace() -> OracleModel:
    return OracleModel(_cnn(), (torch.randn(2, 3, 16, 16),))


@model
def cnn_inplace_train() -> OracleModel:
    return OracleModel(_cnn(), (torch.randn(2, 3, 16, 16),), train=True)


@model
def squeeze_excite() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = F.silu(m.norm(m.conv(x)))
        gate = m.up(F.silu(m.down(y.mean((2, 3), keepdim=True)))).sigmoid()
        return m.out(y * gate) + x

    parts = {
        "conv": nn.Conv2d(8, 16, 3, padding=1, groups=8),
        "norm": nn.GroupNorm(4, 16),
        "down": nn.Conv2d(16, 4, 1),
        "up": nn.Conv2d(4, 16, 1),
        "out": nn.Conv2d(16, 8, 1),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 8, 12, 12),))


@model
def unet_cat() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        a = F.leaky_relu_(m.a(x), 0.1)
        b = F.leaky_relu_(m.b(F.avg_pool2d(a, 2)), 0.1)
        up = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        return m.c(torch.cat([a, up, x], 1)).tanh()

    parts = {
        "a": nn.Conv2d(3, 8, 3, padding=1),
        "b": nn.Conv2d(8, 16, 3, padding=1),
        "c": nn.Conv2d(27, 3, 1),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 16, 16),))


@model
def channels_last_depthwise() -> OracleModel:
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU6(), nn.Conv2d(12, 12, 3, 1, 1, groups=12),
        nn.BatchNorm2d(12), nn.ReLU6(inplace=True), nn.Conv2d(12, 6, 1), nn.Softmax(1),
    )  # fmt: skip
    x = torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last)
    return OracleModel(net.to(memory_format=torch.channels_last), (x,))


@model
def transposed_conv_train() -> OracleModel:
    net = nn.Sequential(
        nn.ConvTranspose2d(6, 8, 4, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
        nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip
    return OracleModel(net, (torch.randn(2, 6, 4, 4),), train=True)


# Recurrent ones.


@model
def gru() -> OracleModel:
    return OracleModel(
        Lambda(lambda m, x: m.gru(x)[0], gru=nn.GRU(8, 12, batch_first=True)),
        (torch.randn(2, 3, 8),),
    )


@model
def lstm_train() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.head(m.lstm(x)[0][:, -1])

    parts = {"lstm": nn.LSTM(6, 8, batch_first=True), "head": nn.Linear(8, 3)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 6),), train=True)


@model
def recurrent_by_hand() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], 8)
        outputs = []
        for t in range(4):
            z = torch.sigmoid(m.z(torch.cat([x[:, t], h], -1)))
            h = z * h + (1 - z) * torch.tanh(m.h(torch.cat([x[:, t], h], -1)))
            outputs.append(h)
        return torch.stack(outputs, 1)

    return OracleModel(
        Lambda(forward, z=nn.Linear(14, 8), h=nn.Linear(14, 8)), (torch.randn(3, 4, 6),)
    )


# Attention.


class HandAttention(nn.Module):
    def __init__(self, width: int, heads: int, *, rotary: bool = False, causal: bool = False):
        super().__init__()
        self.heads, self.rotary, self.causal = heads, rotary, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, s, w = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.rotary:
            half = q.shape[-1] // 2
            angle = torch.arange(s, device=x.device)[:, None] / 100 ** (
                torch.arange(half, device=x.device) / half
            )
            cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

            def turn(t: Tensor) -> Tensor:
                return t * cos + torch.cat([-t[..., half:], t[..., :half]], -1) * sin

            q, k = turn(q), turn(k)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if self.causal:
            mask = torch.ones(s, s, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w))


class Block(nn.Module):
    def __init__(self, width: int, attention: nn.Module, p: float = 0.0):
        super().__init__()
        self.norm, self.norm_2, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), attention
        self.up, self.down, self.p = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), p

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.dropout(self.attention(self.norm(x)), self.p, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm_2(x)))), self.p, self.training)


@model
def attention_by_hand() -> OracleModel:
    blocks = [Block(16, HandAttention(16, 2, causal=True)) for _ in range(2)]
    return OracleModel(nn.Sequential(*blocks), (torch.randn(2, 6, 16),))


@model
def attention_rotary() -> OracleModel:
    return OracleModel(Block(16, HandAttention(16, 2, rotary=True)), (torch.randn(2, 6, 16),))


@model
def attention_by_hand_train() -> OracleModel:
    return OracleModel(Block(16, HandAttention(16, 2), p=0.1), (torch.randn(2, 6, 16),), train=True)


@model
def attention_bf16() -> OracleModel:
    block = Block(32, HandAttention(32, 2)).bfloat16()
    return OracleModel(block, (torch.randn(2, 8, 32).bfloat16(),))


@model
def sdpa_train() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = m.qkv(x).view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return m.out(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )

    parts = {"qkv": nn.Linear(16, 48), "out": nn.Linear(16, 16)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 8, 16),), train=True)


@model
def windowed_vit() -> OracleModel:
    class Windows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = HandAttention(16, 2)
            self.bias = nn.Parameter(torch.randn(16))

        def forward(self, x: Tensor) -> Tensor:
            b, h, w, c = x.shape
            x = torch.roll(x, (-2, -2), (1, 2))
            x = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
            x = self.attention(x) + self.bias
            x = x.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
            return torch.roll(x, (2, 2), (1, 2))

    def forward(m: Any, x: Tensor) -> Tensor:
        x = m.patch(x).permute(0, 2, 3, 1)
        x = m.block(x)
        merged = torch.cat(
            [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1
        )
        return m.head(m.merge(merged).mean((1, 2)))

    parts = {
        "patch": nn.Conv2d(3, 16, 2, 2),
        "block": Block(16, Windows()),
        "merge": nn.Linear(64, 16, bias=False),
        "head": nn.Linear(16, 5),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 16, 16),))


@model
def vit_by_hand() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        x = m.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([m.cls.expand(x.shape[0], -1, -1), x], 1) + m.position
        return m.head(m.norm(m.blocks(x))[:, 0])

    parts = {
        "patch": nn.Conv2d(3, 16, 4, 4),
        "cls": nn.Parameter(torch.randn(1, 1, 16)),
        "position": nn.Parameter(torch.randn(1, 17, 16)),
        "blocks": nn.Sequential(*[Block(16, HandAttention(16, 2)) for _ in range(3)]),
        "norm": nn.LayerNorm(16),
        "head": nn.Linear(16, 5),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 16, 16),))


@model
def encoder_decoder() -> OracleModel:
    net = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    return OracleModel(net, (torch.randn(2, 5, 16), torch.randn(2, 4, 16)))


@model
def encoder_decoder_train() -> OracleModel:
    net = nn.Transformer(16, 2, 1, 1, 32, dropout=0.1, batch_first=True)
    return OracleModel(net, (torch.randn(2, 5, 16), torch.randn(2, 4, 16)), train=True)


# Mixtures of experts.


class Experts(nn.Module):
    def __init__(self, width: int, count: int, chosen: int):
        super().__init__()
        self.chosen, self.count = chosen, count
        self.router = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, 2 * width) * 0.2)
        self.down = nn.Parameter(torch.randn(count, width * 2, width) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        weights, index = self.router(flat).softmax(-1).topk(self.chosen, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        dense = torch.zeros(flat.shape[0], self.count, device=x.device).scatter(1, index, weights)
        hidden = F.silu(torch.einsum("nd,edh->enh", flat, self.up))
        return torch.einsum("ne,enh,ehd->nd", dense, hidden, self.down).view_as(x)


@model
def experts() -> OracleModel:
    return OracleModel(Experts(8, 4, 2), (torch.randn(2, 5, 8),))


@model
def experts_train() -> OracleModel:
    return OracleModel(Experts(8, 4, 2), (torch.randn(2, 5, 8),), train=True)


@model
def experts_gathered() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        weights, index = m.router(x).sigmoid().topk(2, -1)
        up, down = m.up[index], m.down[index]
        hidden = torch.einsum("nd,nkdh->nkh", x, up).relu()
        return (torch.einsum("nkh,nkhd->nkd", hidden, down) * weights[..., None]).sum(1) + x

    parts = {
        "router": nn.Linear(8, 4),
        "up": nn.Parameter(torch.randn(4, 8, 12)),
        "down": nn.Parameter(torch.randn(4, 12, 8)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(6, 8),))


# Shapes, control flow, and what is written in place.


@model
def dynamic_attention() -> OracleModel:
    return OracleModel(
        Block(16, HandAttention(16, 2, causal=True)), (torch.randn(3, 7, 16),), dynamic=True
    )


@model
def dynamic_cnn_train() -> OracleModel:
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3))
    return OracleModel(net, (torch.randn(3, 3, 11, 11),), train=True, dynamic=True)


@model
def cond() -> OracleModel:
    def forward(m: Any, p: Tensor, x: Tensor) -> Tensor:
        y = m.norm(m.a(x))
        z = torch.cond(p.sum() > 0, lambda t: F.gelu(m.b(t)) + t, lambda t: t.sin() * 2, (y,))
        return z.softmax(-1)

    parts = {"a": nn.Linear(8, 8), "b": nn.Linear(8, 8), "norm": nn.LayerNorm(8)}
    return OracleModel(Lambda(forward, **parts), (torch.ones(3), torch.randn(4, 8)))


@model
def while_loop() -> OracleModel:
    def forward(m: Any, n: Tensor, x: Tensor) -> Tensor:
        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, torch.tanh(y @ m.w) + y * 0.5

        _, y = torch._higher_order_ops.while_loop(
            lambda i, y: i < n, body, (torch.zeros((), dtype=torch.int64), x.cos())
        )
        return y.exp()

    return OracleModel(
        Lambda(forward, w=nn.Parameter(torch.randn(6, 6) * 0.3)),
        (torch.tensor(3), torch.randn(4, 6)),
    )


@model
def kv_cache_in_place() -> OracleModel:
    def forward(m: Any, x: Tensor, position: Tensor) -> Tensor:
        q, k, v = m.qkv(x).chunk(3, -1)
        m.keys[:, position] = k
        m.values.index_copy_(1, position, v)
        scores = (q @ m.keys.transpose(-1, -2) / 4).softmax(-1)
        return m.out(scores @ m.values)

    parts = {
        "qkv": nn.Linear(16, 48),
        "out": nn.Linear(16, 16),
        "keys": torch.randn(2, 10, 16),
        "values": torch.randn(2, 10, 16),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 1, 16), torch.tensor([4])))


@model
def running_statistics_train() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = m.bn(m.a(x))
        m.mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        return (y - m.mean).pow(2).mean(-1)

    parts = {"a": nn.Linear(8, 8), "bn": nn.BatchNorm1d(8), "mean": torch.zeros(8)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(6, 8),), train=True)


@model
def embedding_train() -> OracleModel:
    def forward(m: Any, index: Tensor, labels: Tensor) -> Tensor:
        hidden = m.norm(m.table(index) + m.position.weight[: index.shape[1]])
        return F.cross_entropy(hidden.flatten(0, 1) @ m.table.weight.t(), labels.flatten())

    parts = {"table": nn.Embedding(20, 8), "position": nn.Embedding(10, 8), "norm": nn.LayerNorm(8)}
    index = torch.randint(0, 20, (2, 6))
    return OracleModel(Lambda(forward, **parts), (index, torch.randint(0, 20, (2, 6))), train=True)


@model
def long_reductions() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Any:
        y = x * m.scale
        mean, deviation = y.mean(), y.std()
        z = (y - mean) / (deviation + 1e-6)
        return z, z.cumsum(-1), z.logsumexp(-1), z.argmax(-1), z.sort(-1).values[:, :3]

    return OracleModel(
        Lambda(forward, scale=nn.Parameter(torch.randn(300))), (torch.randn(40, 300),)
    )


@model
def scatter_gather() -> OracleModel:
    def forward(m: Any, x: Tensor, index: Tensor) -> Tensor:
        edges = F.relu(m.edge(torch.cat([x[index[0]], x[index[1]]], -1)))
        gathered = torch.zeros(x.shape[0], 8, device=x.device).index_add(0, index[1], edges)
        degree = torch.zeros(x.shape[0], device=x.device).scatter_add(
            0, index[1], torch.ones(index.shape[1], device=x.device)
        )
        return m.node(torch.cat([x, gathered / degree.clamp(min=1)[:, None]], -1))

    parts = {"edge": nn.Linear(12, 8), "node": nn.Linear(14, 6)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(7, 6), torch.randint(0, 7, (2, 15))))


@model
def class_tokens() -> OracleModel:
    """The class attention of CaiT: the token is put before the others anew for each block."""

    def forward(m: Any, x: Tensor) -> Tensor:
        x = m.patch(x).flatten(2).transpose(1, 2)
        token = m.cls.expand(x.shape[0], -1, -1)
        for attention, mlp in zip(m.attentions, m.mlps, strict=True):
            joined = m.before(torch.cat([token, x], 1))
            token = token + m.scale * attention(joined)[:, :1]
            token = token + m.scale * mlp(m.between(token))
        return m.head(m.norm(torch.cat([token, x], 1))[:, 0])

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    parts = {
        "patch": nn.Conv2d(3, 16, 4, 4),
        "cls": nn.Parameter(torch.randn(1, 1, 16)),
        "scale": nn.Parameter(torch.randn(16)),
        "before": nn.LayerNorm(16),
        "between": nn.LayerNorm(16),
        "attentions": nn.ModuleList(HandAttention(16, 2) for _ in range(2)),
        "mlps": nn.ModuleList(mlp() for _ in range(2)),
        "norm": nn.LayerNorm(16),
        "head": nn.Linear(16, 5),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 16, 16),))


@model
def block_gather() -> OracleModel:
    """Blocks of keys taken by an index, beside the first and the last one (BigBird's sparse attention)."""

    def forward(m: Any, x: Tensor) -> Tensor:
        def blocks(linear: nn.Module) -> Tensor:
            return linear(x).view(1, 64, 2, 8).transpose(1, 2).reshape(1, 2, 8, 8, 8)

        q, k, v = map(blocks, (m.q, m.k, m.v))
        places = m.chosen[None, :, :, None, None].expand(1, 2, 6, 8, 8)

        def context(t: Tensor) -> Tensor:
            taken = t.gather(2, places)
            ends = [t[:, :, i : i + 1].expand(1, 2, 6, 8, 8) for i in (0, 7)]
            return torch.cat([ends[0], t[:, :, :-2], taken, ends[1]], 3)

        scores = q[:, :, 1:-1] @ context(k).transpose(-1, -2) / 8**0.5
        middle = scores.softmax(-1) @ context(v)
        whole = (q[:, :, :1].flatten(2, 3) @ k.flatten(2, 3).transpose(-1, -2) / 8**0.5).softmax(
            -1
        ) @ v.flatten(2, 3)
        joined = torch.cat([whole[:, :, None], middle, whole[:, :, None]], 2)
        return m.out(joined.reshape(1, 2, 64, 8).transpose(1, 2).reshape(1, 64, 16))

    parts: dict[str, Any] = {name: nn.Linear(16, 16) for name in ("q", "k", "v", "out")}
    return OracleModel(
        Lambda(forward, chosen=torch.randint(0, 8, (2, 6)), **parts), (torch.randn(1, 64, 16),)
    )


@model
def two_heads_padded() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Any:
        a, b = m.both(x).split([5, 11], -1)
        padded = F.pad(a, (1, 2), value=0.5)
        return (
            torch.where(padded > 0, padded, padded.expm1()),
            b.unfold(-1, 3, 2).amax(-1),
            F.normalize(b, dim=-1),
        )

    return OracleModel(Lambda(forward, both=nn.Linear(8, 16)), (torch.randn(4, 8),))


@model
def graph_attention_train() -> OracleModel:
    def forward(m: Any, x: Tensor, ends: Tensor) -> Tensor:
        source, target = ends
        h = m.project(x).view(-1, 2, 4)
        scores = F.leaky_relu((h * m.a).sum(-1)[source] + (h * m.b).sum(-1)[target], 0.2).exp()
        total = torch.zeros(7, 2, device=x.device).index_add_(0, target, scores)
        weights = scores / (total[target] + 1e-9)
        out = torch.zeros(7, 2, 4, device=x.device)
        return F.elu(out.index_add(0, target, weights[..., None] * h[source]).flatten(1))

    parts: dict[str, Any] = {name: nn.Parameter(torch.randn(2, 4)) for name in ("a", "b")}
    inputs = torch.randn(7, 5), torch.randint(0, 7, (2, 15))
    return OracleModel(Lambda(forward, project=nn.Linear(5, 8), **parts), inputs, train=True)


@model
def attention_decoder_train() -> OracleModel:
    """Additive attention of one query at a time."""

    def forward(m: Any, x: Tensor) -> Tensor:
        keys, h = m.keys(x), x.mean(1)
        for _ in range(2):
            scores = m.score(torch.tanh(keys + m.query(h)[:, None])).squeeze(-1)
            context = torch.einsum("bs,bsd->bd", scores.softmax(-1), x)
            h = torch.tanh(m.mix(torch.cat([context, h], -1)))
        return h

    parts = {
        "keys": nn.Linear(8, 8),
        "query": nn.Linear(8, 8, bias=False),
        "score": nn.Linear(8, 1),
        "mix": nn.Linear(16, 8),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(3, 5, 8),), train=True)


@model
def branch_in_loop() -> OracleModel:
    def forward(m: Any, n: Tensor, x: Tensor) -> Tensor:
        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            y = torch.cond(i % 2 == 0, lambda t: t + m.turn(t).sin(), lambda t: t * 0.5, (y,))
            return i + 1, y

        start = torch.zeros((), dtype=torch.int64)
        _, y = torch._higher_order_ops.while_loop(lambda i, _: i < n, body, (start, m.first(x)))
        return F.normalize(y, dim=-1)

    parts = {"turn": nn.Linear(6, 6), "first": nn.Linear(6, 6)}
    return OracleModel(Lambda(forward, **parts), (torch.tensor(3), torch.randn(4, 6)))


# Few bits.


@model
def int4_packed() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        parts = [(m.packed & 15).to(torch.int8) - 8, (m.packed >> 4).to(torch.int8) - 8]
        groups = torch.stack(parts, -1).view(12, 4, 4).to(x.dtype)
        return F.mish(x @ (groups * m.scale[..., None] + m.zero[..., None]).flatten(1).t())

    parts = {
        "packed": torch.randint(0, 256, (12, 8), dtype=torch.uint8),
        "scale": torch.rand(12, 4),
        "zero": torch.randn(12, 4),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(5, 16),))


@model
def int8_dynamic() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True) / 127
        whole = (x / scale).round().clamp(-128, 127).to(torch.int8)
        product = torch._int_mm(whole, m.weight)
        return product.to(torch.float32) * scale * m.scale + m.bias

    parts = {
        "weight": torch.randint(-100, 100, (32, 16), dtype=torch.int8),
        "scale": torch.rand(16) * 0.01,
        "bias": nn.Parameter(torch.randn(16)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(32, 32),))


@model
def int8_weight_only() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = F.silu(x @ (m.a.to(x.dtype) * m.a_scale).t())
        return F.layer_norm(y @ (m.b.to(x.dtype) * m.b_scale).t(), (16,))

    parts = {
        "a": torch.randint(-100, 100, (24, 16), dtype=torch.int8),
        "a_scale": torch.rand(24, 1) * 0.02,
        "b": torch.randint(-100, 100, (16, 24), dtype=torch.int8),
        "b_scale": torch.rand(16, 1) * 0.02,
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(6, 16),))


@model
def fp8_round_trip() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        scale = x.abs().amax() / 448
        small = (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        weight = m.weight.to(torch.float8_e4m3fn)
        return F.gelu((small.float() * scale) @ weight.float().t())

    return OracleModel(
        Lambda(forward, weight=nn.Parameter(torch.randn(12, 16))), (torch.randn(8, 16),)
    )


@model
def autocast_mlp_train() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return F.mse_loss(m.b(F.relu(m.a(x))), torch.zeros_like(x))

    parts = {"a": nn.Linear(16, 32), "b": nn.Linear(32, 16)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(8, 16),), train=True)


@model
def mlp_swiglu_train() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * m.scale
        return x + m.down(F.silu(m.gate(y)) * m.up(y))

    parts = {
        "scale": nn.Parameter(torch.ones(12)),
        "gate": nn.Linear(12, 24, bias=False),
        "up": nn.Linear(12, 24, bias=False),
        "down": nn.Linear(24, 12, bias=False),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 5, 12),), train=True)


@model
def mlp_max_autotune() -> OracleModel:
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.GELU())
    return OracleModel(
        net, (torch.randn(32, 64),), config={"max_autotune": True, "freezing": False}
    )


# Models of libraries.


def _transformers(
    name: str,
    config: str,
    inputs: Callable[[Any], tuple[Any, ...]],
    train: bool = False,
    **sizes: Any,
) -> None:
    def make() -> OracleModel:
        import transformers

        settings = getattr(transformers, config)(**sizes)
        settings.use_cache = False
        settings.return_dict = False
        net = getattr(transformers, name)(settings)
        return OracleModel(
            Lambda(lambda m, *a: m.net(*a)[0], net=net), inputs(settings), train=train
        )

    MODELS["transformers_" + name + ("_train" if train else "")] = make


def _torchvision(name: str, size: int, train: bool = False, **options: Any) -> None:
    def make() -> OracleModel:
        import torchvision

        # A class, or a function that makes one of its sizes.
        maker = getattr(torchvision.models, name)
        net = maker(**options) if isinstance(maker, type) else maker(weights=None, **options)
        return OracleModel(net, (torch.randn(2, 3, size, size),), train=train)

    MODELS["torchvision_" + name + ("_train" if train else "")] = make


def _timm(name: str, size: int, train: bool = False, **options: Any) -> None:
    def make() -> OracleModel:
        import timm

        net = timm.create_model(name, pretrained=False, num_classes=5, **options)
        return OracleModel(net, (torch.randn(2, 3, size, size),), train=train)

    MODELS["timm_" + name + ("_train" if train else "")] = make


def _tokens(config: Any) -> tuple[Any, ...]:
    return (torch.randint(0, config.vocab_size, (2, 8)),)


_SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 64,
}

if importlib.util.find_spec("transformers"):
    _transformers("BertModel", "BertConfig", _tokens, **_SMALL)
    _transformers("BertModel", "BertConfig", _tokens, train=True, **_SMALL)
    _transformers("LlamaModel", "LlamaConfig", _tokens, num_key_value_heads=2, **_SMALL)
    _transformers(
        "MistralModel", "MistralConfig", _tokens, num_key_value_heads=2, train=True, **_SMALL
    )
    _transformers("Qwen2Model", "Qwen2Config", _tokens, num_key_value_heads=2, **_SMALL)
    _transformers(
        "MixtralModel",
        "MixtralConfig",
        _tokens,
        num_key_value_heads=2,
        num_local_experts=4,
        **_SMALL,
    )
    _transformers(
        "T5EncoderModel",
        "T5Config",
        _tokens,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        vocab_size=64,
    )
    _transformers(
        "MambaModel",
        "MambaConfig",
        _tokens,
        hidden_size=16,
        num_hidden_layers=1,
        vocab_size=64,
        state_size=4,
    )
    _transformers(
        "ViTModel", "ViTConfig", lambda c: (torch.randn(2, 3, 16, 16),), image_size=16, patch_size=4,
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
    )  # fmt: skip
    _transformers(
        "SwinModel", "SwinConfig", lambda c: (torch.randn(1, 3, 32, 32),), image_size=32, patch_size=2,
        embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
    )  # fmt: skip
if importlib.util.find_spec("torchvision"):
    _torchvision("resnet18", 32)
    _torchvision("resnet18", 32, train=True)
    _torchvision("mobilenet_v3_small", 32)
    _torchvision("shufflenet_v2_x0_5", 32)
    _torchvision("squeezenet1_1", 32)
    _torchvision("mnasnet0_5", 32)
if importlib.util.find_spec("timm"):
    _timm("vit_tiny_patch16_224", 32, img_size=32, depth=2, embed_dim=48)
    _timm("convnext_atto", 32, depths=(1, 1, 1, 1), dims=(8, 16, 16, 32))
    _timm("resnetv2_18", 32)
    _timm("efficientvit_b0", 32, depths=(1, 1, 1), widths=(8, 8, 16, 16), head_widths=(32, 32))
    _timm(
        "swin_tiny_patch4_window7_224",
        32,
        img_size=32,
        window_size=4,
        depths=(2, 2),
        num_heads=(2, 4),
        embed_dim=16,
    )

# Models that neither the map's rules nor the oracle's were written with: looked at as totals only.
_BEFORE = set(MODELS)
if importlib.util.find_spec("transformers"):
    _transformers("DistilBertModel", "DistilBertConfig", _tokens, dim=32, hidden_dim=48, n_layers=2, n_heads=4, vocab_size=64)  # fmt: skip
    _transformers("AlbertModel", "AlbertConfig", _tokens, embedding_size=16, **_SMALL)
    _transformers("ElectraModel", "ElectraConfig", _tokens, train=True, embedding_size=16, **_SMALL)
    _transformers("GPTJModel", "GPTJConfig", _tokens, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, vocab_size=64)  # fmt: skip
    _transformers("GPTNeoXModel", "GPTNeoXConfig", _tokens, **_SMALL)
    _transformers("GPTNeoXModel", "GPTNeoXConfig", _tokens, train=True, **_SMALL)
    _transformers("GemmaModel", "GemmaConfig", _tokens, num_key_value_heads=1, head_dim=8, **_SMALL)
    _transformers("PhiModel", "PhiConfig", _tokens, **_SMALL)
    _transformers("BloomModel", "BloomConfig", _tokens, n_layer=2, n_head=4, hidden_size=32, vocab_size=64)  # fmt: skip
    _transformers("CLIPTextModel", "CLIPTextConfig", _tokens, max_position_embeddings=16, **_SMALL)
    _transformers("FNetModel", "FNetConfig", _tokens, **_SMALL)
    _transformers(
        "Wav2Vec2Model", "Wav2Vec2Config", lambda c: (torch.randn(1, 400),), conv_dim=(16, 16), conv_stride=(5, 2),
        conv_kernel=(10, 3), num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, mask_time_prob=0.0, **_SMALL,
    )  # fmt: skip
if importlib.util.find_spec("torchvision"):
    _torchvision("DenseNet", 32, growth_rate=4, block_config=(2, 2), num_init_features=8)
    _torchvision("efficientnet_b0", 32)
    _torchvision("regnet_y_400mf", 32)
    # Of 32 by 32 pixels less than four values are left to normalize, which tell too little apart.
    _torchvision("vgg11_bn", 64, train=True)
    _torchvision("convnext_tiny", 32)
    _torchvision("mobilenet_v2", 64, train=True)
if importlib.util.find_spec("timm"):
    _timm("mixer_s32_224", 32, img_size=32)
    _timm("poolformer_s12", 64)
    _timm("mobilevit_xxs", 32)
    _timm("ghostnet_050", 32)
    _timm("gmixer_24_224", 32, img_size=32)
    _timm("levit_128s", 224)
if importlib.util.find_spec("transformers"):
    _transformers("OPTModel", "OPTConfig", _tokens, train=True, ffn_dim=48, word_embed_proj_dim=32, max_position_embeddings=32, **_SMALL)  # fmt: skip
    _transformers("FalconModel", "FalconConfig", _tokens, alibi=True, **_SMALL)
    _transformers("StableLmModel", "StableLmConfig", _tokens, num_key_value_heads=2, **_SMALL)
    _transformers("MixtralModel", "MixtralConfig", _tokens, num_key_value_heads=2, num_local_experts=4, **_SMALL)  # fmt: skip
    _transformers("EsmModel", "EsmConfig", _tokens, position_embedding_type="rotary", pad_token_id=1, max_position_embeddings=32, **_SMALL)  # fmt: skip
    _transformers("RoFormerModel", "RoFormerConfig", _tokens, train=True, max_position_embeddings=32, **_SMALL)  # fmt: skip
    _transformers("NystromformerModel", "NystromformerConfig", _tokens, num_landmarks=4, segment_means_seq_len=8, max_position_embeddings=32, **_SMALL)  # fmt: skip
    _transformers("MobileBertModel", "MobileBertConfig", _tokens, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16, **_SMALL)  # fmt: skip
    _transformers("Mamba2Model", "Mamba2Config", _tokens, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=4, head_dim=16, n_groups=2, vocab_size=64, chunk_size=4)  # fmt: skip
    _transformers("LongformerModel", "LongformerConfig", _tokens, attention_window=[4, 4], max_position_embeddings=32, **_SMALL)  # fmt: skip
if importlib.util.find_spec("torchvision"):
    _torchvision("shufflenet_v2_x0_5", 64, train=True)
if importlib.util.find_spec("timm"):
    _timm("crossvit_tiny_240", 240, embed_dim=(16, 32), depth=((1, 1, 0),), num_heads=(2, 2))
    _timm("beit_base_patch16_224", 32, img_size=32, depth=2, embed_dim=48, num_heads=4)
    _timm("xcit_nano_12_p16_224", 64, img_size=64, depth=2, embed_dim=48)
    _timm("repvgg_a0", 32, train=True)
    _timm("edgenext_xx_small", 64)
    _timm("vit_tiny_patch16_224", 32, train=True, img_size=32, depth=2, embed_dim=48)
    _timm("convnext_atto", 32, train=True, depths=(1, 1, 1, 1), dims=(8, 16, 16, 32))
HELD_OUT = [name for name in MODELS if name not in _BEFORE]
