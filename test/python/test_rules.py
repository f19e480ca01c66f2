"""Rules that replace nodes: what opprof-opt and the backend make of their scripts, against PyTorch, and where they hold back."""

import copy
import json
import math
import re
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

from opprof.backend.checks import Subject, check_backend
from opprof.backend.emit import emit
from opprof.backend.rewrites import read_rewrites
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.export.model_script import ModelScript
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


class Frozen(nn.Module):
    """A normalization as detectors spell it."""

    def __init__(self, channels: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.rand(channels) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight.reshape(self.shape), self.bias.reshape(self.shape)
        scale = weight * (self.running_var.reshape(self.shape) + 1e-5).rsqrt()
        return x * scale + (bias - self.running_mean.reshape(self.shape) * scale)


class Viewed(nn.Module):
    """Swaps or orders dimensions, or makes rows of all but the last one."""

    def __init__(self, *dims: int) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        if not self.dims:
            return x.reshape(-1, x.shape[-1])
        return x.transpose(*self.dims) if len(self.dims) == 2 else x.permute(self.dims)


class Restored(Normalized):
    """A normalization of all rows, which are sequences again afterwards."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.product(x)
        return self.norm(y.flatten(0, 1)).reshape_as(y).transpose(1, 2) * 2


class UsedTwice(Normalized):
    def forward(self, x: Tensor) -> Tensor:
        y = self.product(x)
        return self.norm(y) + y.sigmoid()


class Gated(Normalized):
    """A factor and a term of each channel that are other ones in every call."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.product(x)
        mean = y.mean((2, 3), keepdim=True)
        return F.relu(y * mean.sigmoid() + mean).flatten(1) * 2


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


class Spelled(nn.Module):
    """Attention of queries, keys and values that have batches and heads apart, as `attend` spells it."""

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        self.attend = attend
        self.parts = nn.Linear(8, 24)
        self.register_buffer("causal", torch.ones(6, 6).tril().bool())
        self.register_buffer("bias", torch.randn(1, 2, 6, 6))
        self.register_buffer("slopes", torch.randn(4, 1, 6))
        self.register_buffer("factor", torch.rand(2, 1, 1) + 0.1)
        self.lowest = torch.tensor(-1e30)
        padded = torch.zeros(2, 1, 6, 6)
        padded[1, :, :, :2] = torch.finfo(padded.dtype).min
        padded[0, :, 5, 0] = float("-inf")
        padded[1, :, 5, 3] = -5.0
        self.register_buffer("padded", padded)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (p.view(2, 6, 2, 4).transpose(1, 2) for p in self.parts(x).chunk(3, -1))
        y = self.attend(self, q, k, v)
        return y.view(2, 2, 6, 4).transpose(1, 2).reshape(2, 6, 8) * 2 + 0 * mask.sum()


def flat(*heads: Tensor) -> list[Tensor]:
    return [x.reshape(-1, 6, 4) for x in heads]


def by_bmm(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = flat(q, k, v)
    return torch.bmm((torch.bmm(q, k.transpose(1, 2)) / 2).softmax(-1), v)


def as_fairseq(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = flat(q, k, v)
    w = torch.bmm(q * 0.5, k.transpose(1, 2)) + m.bias[0, 0].triu(1).unsqueeze(0)
    w = F.dropout(F.softmax(w, dim=-1, dtype=torch.float32).type_as(w), 0.1, m.training)
    return torch.bmm(w, v)


def as_bloom(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = flat(q, k, v)
    scores = m.slopes.baddbmm(q, k.transpose(1, 2), beta=0.75, alpha=0.5).view(2, 2, 6, 6)
    scores = torch.masked_fill(scores.to(torch.float), ~m.causal, torch.finfo(torch.float).min)
    p = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype).view(4, 6, 6)
    return torch.bmm(p, v)


def as_opt(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = flat(q, k, v)
    w = torch.bmm(q, k.transpose(1, 2)).view(2, 2, 6, 6) + m.bias[:, :1]
    p = w.view(4, 6, 6).softmax(-1)
    return torch.bmm(p.view(2, 2, 6, 6).view(4, 6, 6), v)


def without_added(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = flat(q, k, v)
    scores = torch.baddbmm(q.new_empty(4, 6, 6), q, k.transpose(1, 2), beta=0, alpha=0.5)
    return torch.bmm(scores.softmax(-1), v)


def by_einsum(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    a = torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.5
    return torch.einsum("bhqk,bhkd->bhqd", a.softmax(-1), v).contiguous()


def by_einsum_of_sequences(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    a = torch.einsum("bkhd,bqhd->bhqk", k, q).masked_fill(~m.causal, float("-inf"))
    return (
        torch.einsum("bhqk,bkhd->bqhd", a.softmax(-1), v)
        .transpose(1, 2)
        .clone(memory_format=torch.contiguous_format)
    )


def by_einsum_of_any(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    a = torch.einsum("...qd,...kd->...qk", q, k) * 0.5
    return torch.einsum("... q k, ... k d -> ... q d", a.softmax(-1), v).contiguous()


def by_flat_einsum(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = flat(q, k, v)
    return torch.einsum("bij,bjd->bid", torch.einsum("bid,bjd->bij", q, k).softmax(-1), v)


def of_scores(
    change: Callable[[Spelled, Tensor], Tensor],
) -> Callable[[Spelled, Tensor, Tensor, Tensor], Tensor]:
    def attend(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.matmul(change(m, torch.matmul(q, k.transpose(-1, -2))), v)

    return attend


def as_gpt2(m: Spelled, a: Tensor) -> Tensor:
    a = a / torch.full([], 2.0, dtype=a.dtype, device=a.device)
    lowest = torch.full([], torch.finfo(a.dtype).min, dtype=a.dtype, device=a.device)
    return F.softmax(torch.where(m.causal[None, None], a, lowest), dim=-1).type(a.dtype)


def as_gpt_neo(m: Spelled, a: Tensor) -> Tensor:
    """Its numbers are tensors, which tracing lifts to inputs of the graph."""
    lowest = torch.tensor(torch.finfo(a.dtype).min, dtype=a.dtype)
    return torch.where(m.causal, a * torch.tensor(0.5), lowest).softmax(-1)


def padded_behind_causal(m: Spelled, a: Tensor) -> Tensor:
    """GPT-Neo's mask of paddings comes behind that of what is later; the last row sees nothing of its own, and the first nothing."""
    lowest = torch.finfo(a.dtype).min
    seen = m.causal & torch.arange(6).ne(5)[:, None]
    return (torch.where(seen, a, torch.tensor(lowest)) + m.padded).softmax(-1)


def low_behind_lower(m: Spelled, a: Tensor) -> Tensor:
    """What is seen but padded is lower than what is not seen."""
    seen = m.causal & torch.arange(6).ne(5)[:, None]
    return (a.masked_fill(~seen, -1e30) + m.padded).softmax(-1)


def hidden_behind_bias(m: Spelled, a: Tensor) -> Tensor:
    """The last row sees nothing, which gives all keys the same weight."""
    seen = m.causal & torch.arange(6).ne(5)[:, None]
    return (a * 90 + m.bias).masked_fill(~seen, torch.finfo(a.dtype).min).softmax(-1)


def hidden_twice(m: Spelled, a: Tensor) -> Tensor:
    a = (a * 0.5 + m.bias).masked_fill(~m.causal, -1e30) * 2
    seen = torch.arange(6).ne(5)[:, None]
    return a.masked_fill(~seen, torch.finfo(a.dtype).min).softmax(-1)


def one_key_for_all(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = k[:, :1], v[:, :1]
    return (q @ k.transpose(-1, -2) + m.bias[0, 0]).softmax(-1) @ v


def repeated_keys(m: Spelled, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = (x[:, :1].repeat_interleave(2, 1) for x in (k, v))
    w = F.softmax(q @ k.transpose(2, 3) / 2 + m.bias[0], dim=-1, dtype=torch.float32)
    return w.to(q.dtype) @ v


def as_deberta(m: Spelled, a: Tensor) -> Tensor:
    """What is added is written between the product and the sum, before anything of it is read."""
    bias = m.bias + 0
    bias += m.slopes[:2]
    return (a + bias).softmax(-1)


SPELLINGS: dict[str, Callable[..., Tensor]] = {
    "bmm": by_bmm,
    "fairseq": as_fairseq,
    "BLOOM": as_bloom,
    "OPT": as_opt,
    "baddbmm without what is added": without_added,
    "einsum": by_einsum,
    "einsum of sequences": by_einsum_of_sequences,
    "einsum of any batches": by_einsum_of_any,
    "einsum of flat heads": by_flat_einsum,
    "GPT-2": of_scores(as_gpt2),
    "GPT-Neo": of_scores(as_gpt_neo),
    "padded behind causal": of_scores(padded_behind_causal),
    "low behind lower": of_scores(low_behind_lower),
    "hidden behind a bias": of_scores(hidden_behind_bias),
    "where": of_scores(lambda m, a: torch.where(m.causal, a * 0.5, float("-inf")).softmax(-1)),
    "XLNet": of_scores(lambda m, a: ((a + m.bias + 0) * 0.5).softmax(-1)),
    "where not": of_scores(lambda m, a: torch.where(~m.causal, -1e30, a * 0.5).softmax(-1)),
    "float32 and back": of_scores(lambda m, a: (a.float() - m.bias).softmax(-1).to(a.dtype)),
    "type_as": of_scores(lambda m, a: F.softmax((a + m.bias).float(), dim=-1).type_as(a)),
    "scaled mask": of_scores(lambda m, a: ((a + m.bias) * 0.3).softmax(-1)),
    "factor a head": of_scores(lambda m, a: (a * m.factor + m.bias).softmax(-1)),
    "mask of one dimension": of_scores(lambda m, a: (a + m.bias[0, 0, 0]).softmax(-1)),
    "in place": of_scores(
        lambda m, a: a.mul_(0.5).add_(m.bias).masked_fill_(~m.causal, -1e30).softmax(-1)
    ),
    "Falcon": of_scores(lambda m, a: F.softmax(a.div_(2) + m.bias, dim=-1)),
    "fairseq, in place": lambda m, q, k, v: torch.bmm(
        F.softmax(
            (w := torch.bmm(q.reshape(-1, 6, 4), k.reshape(-1, 6, 4).transpose(1, 2)).div_(2)),
            dim=-1,
            dtype=torch.float32,
        ).type_as(w),
        v.reshape(-1, 6, 4),
    ),
    "einsum, in place": lambda m, q, k, v: (
        torch.einsum("bhqd,bhkd->bhqk", q, k).mul_(0.5).softmax(-1) @ v
    ),
    "less a bias, in place": of_scores(lambda m, a: a.sub_(m.bias[0]).mul_(m.factor).softmax(-1)),
    "DeBERTa": of_scores(as_deberta),
    "dropout in place": of_scores(
        lambda m, a: F.dropout(a.softmax(-1), 0.1, m.training, inplace=True)
    ),
    "one key for all": one_key_for_all,
    "repeated keys": repeated_keys,
}


class Reshaped(Spelled):
    """A view of what `reshape` makes of the result, as GPT-2's projections take one."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (p.view(2, 6, 2, 4).transpose(1, 2) for p in self.parts(x).chunk(3, -1))
        return self.attend(self, q, k, v).transpose(1, 2).reshape(2, 6, 8).view(-1, 8) * 2


def with_sink(m: Spelled, a: Tensor) -> Tensor:
    """A column of scores that takes weight and has no value."""
    a = torch.cat([a + m.bias, m.factor[0].expand(2, 2, 6, 1)], -1)
    return (a - a.amax(-1, keepdim=True)).softmax(-1)[..., :-1]


def with_bias_written(m: Spelled, a: Tensor) -> Tensor:
    """Scores are read before what is added to them is written, and once more behind."""
    bias = m.bias + 0
    a = a + bias
    bias += m.slopes[:2]
    return (a + bias).softmax(-1)


#: The operator that keeps a spelling from being known, and why.
UNKNOWN: dict[str, tuple[Callable[..., Tensor], str, str]] = {
    "a number added": (
        of_scores(lambda m, a: (a + 1.5).softmax(-1)),
        "add",
        "adds a number to all scores",
    ),
    "softcap": (
        of_scores(lambda m, a: (torch.tanh(a / 5) * 5).softmax(-1)),
        "tanh",
        "stands between the product and softmax",
    ),
    "multiplied mask": (
        of_scores(lambda m, a: (a * m.causal.float()).softmax(-1)),
        "mul",
        "differs from key to key",
    ),
    "weak fill": (
        of_scores(lambda m, a: a.masked_fill(~m.causal, -1e4).softmax(-1)),
        "masked_fill",
        "shows where all of a row is hidden",
    ),
    "a bias that shows beside what is filled in": (
        of_scores(lambda m, a: (a.masked_fill(~m.causal, -1e9) + m.bias).softmax(-1)),
        "masked_fill",
        "shows where all of a row is hidden",
    ),
    "multiplied behind a sum": (
        of_scores(lambda m, a: ((a.masked_fill(~m.causal, -1e30) + m.bias) * 2).softmax(-1)),
        "masked_fill",
        "shows where all of a row is hidden",
    ),
    "weak fill by a tensor": (
        of_scores(lambda m, a: torch.where(m.causal, a, torch.tensor(-1e4)).softmax(-1)),
        "where",
        "shows where all of a row is hidden",
    ),
    "fill by an attribute, which may change": (
        of_scores(lambda m, a: torch.where(m.causal, a, m.lowest).softmax(-1)),
        "where",
        "the value that is filled in is not known",
    ),
    "hidden twice": (of_scores(hidden_twice), "masked_fill", "shows where all of a row is hidden"),
    "filled, and multiplied": (
        of_scores(
            lambda m, a: (a.masked_fill(~m.causal, torch.finfo(a.dtype).min) * 8).softmax(-1)
        ),
        "masked_fill",
        "may be no number then",
    ),
    "with themselves": (
        of_scores(lambda m, a: (a + a).softmax(-1)),
        "add",
        "combines scores with themselves",
    ),
    "a number of a tensor": (
        of_scores(lambda m, a: torch.add(a, m.bias, alpha=m.factor.sum().item()).softmax(-1)),
        "add",
        "computed in every call",
    ),
    "whole numbers": (
        lambda m, q, k, v: (
            (q.long() @ k.long().transpose(2, 3))
            .masked_fill(~m.causal, -2000000000)
            .softmax(-1, dtype=torch.float32)
            @ v
        ),
        "softmax",
        "other than real numbers",
    ),
    "factor of another type": (
        of_scores(lambda m, a: (a * m.factor.bfloat16()).softmax(-1)),
        "mul",
        "another type than queries",
    ),
    "narrow weights": (
        of_scores(lambda m, a: a.softmax(-1, dtype=torch.bfloat16).float()),
        "softmax",
        "holds less",
    ),
    "a wider mask in place": (
        of_scores(lambda m, a: a.add_(m.bias.double().masked_fill(~m.causal, -1e300)).softmax(-1)),
        "add_",
        "which it is added to in place, do not",
    ),
    "into the mask": (
        of_scores(lambda m, a: m.bias.repeat(2, 1, 1, 1).add_(a).softmax(-1)),
        "add_",
        "writes scores into what they are combined with",
    ),
    "written, and taken elsewhere": (
        of_scores(lambda m, a: a.mul_(0.5).softmax(-1) * a.mean()),
        "mul_",
        "taken elsewhere too",
    ),
    "weights in place": (
        of_scores(lambda m, a: a.softmax(-1).mul_(2)),
        "mul_",
        "stands between softmax and the product",
    ),
    "head mask": (
        of_scores(lambda m, a: a.softmax(-1) * m.bias[:, :, :1, :1]),
        "mul",
        "between softmax and the product",
    ),
    "a column beside scores": (
        of_scores(with_sink),
        "cat",
        "an attention sink",
    ),
    "some of the weights": (
        of_scores(lambda m, a: F.pad(a.softmax(-1)[..., 1:], (0, 1))),
        "slice",
        "aten.slice.Tensor stands between softmax and the product",
    ),
    "written between its readers": (
        of_scores(with_bias_written),
        "matmul",
        "may be written between them",
    ),
    "exp": (
        of_scores(lambda m, a: a.exp() / a.exp().sum(-1, keepdim=True)),
        "exp",
        "written as exp",
    ),
    "five dimensions": (
        of_scores(lambda m, a: (a.view(1, 2, 2, 6, 6) + m.bias).view(2, 2, 6, 6).softmax(-1)),
        "add",
        "more than four dimensions",
    ),
}

X = torch.randn(2, 6, 8)
ADDED = torch.randn(2, 1, 6, 6)
HIDDEN = torch.ones(6, 6).triu(1).bool()[None, None]
FIRST_ROW = torch.arange(6).eq(0)[:, None].expand(6, 6)
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
    "no factors": (
        Normalized(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6, affine=False)),
        (torch.randn(2, 4, 9, 9),),
    ),
    "conv2d, padded to the same size": (
        Normalized(nn.Conv2d(4, 6, 3, padding="same", bias=False), nn.BatchNorm2d(6)),
        (torch.randn(2, 4, 9, 9),),
    ),
    "linear, transposed": (
        Normalized(nn.Sequential(nn.Linear(8, 6), Viewed(1, 2)), nn.BatchNorm1d(6)),
        (torch.randn(2, 5, 8),),
    ),
    "linear, of equal sizes, permuted": (
        Normalized(nn.Sequential(nn.Linear(5, 5, bias=False), Viewed(0, 2, 1)), nn.BatchNorm1d(5)),
        (torch.randn(5, 5, 5),),
    ),
    "linear, transposed from the end": (
        Normalized(nn.Sequential(nn.Linear(8, 6), Viewed(-1, -2)), nn.BatchNorm1d(6)),
        (torch.randn(2, 5, 8),),
    ),
    "LeViT": (Restored(nn.Linear(8, 6, bias=False), nn.BatchNorm1d(6)), (torch.randn(2, 5, 8),)),
    "linear, viewed": (
        Normalized(nn.Sequential(nn.Linear(8, 6), Viewed()), nn.BatchNorm1d(6, affine=False)),
        (torch.randn(2, 5, 8),),
    ),
    "linear, rows of all sequences": (
        Normalized(nn.Sequential(nn.Linear(8, 6, bias=False), nn.Flatten(0, 1)), nn.BatchNorm1d(6)),
        (torch.randn(2, 5, 8),),
    ),
    "frozen": (
        Normalized(nn.Conv2d(4, 6, 3, bias=False), Frozen(6, (1, -1, 1, 1))),
        (torch.randn(2, 4, 9, 9),),
    ),
    "frozen, of three dimensions, bias": (
        Normalized(nn.Conv2d(4, 6, 3, groups=2), Frozen(6, (-1, 1, 1))),
        (torch.randn(2, 4, 9, 9),),
    ),
    "frozen, transposed": (
        Normalized(nn.ConvTranspose1d(4, 6, 3), Frozen(6, (1, -1, 1))),
        (torch.randn(2, 4, 9),),
    ),
    "transposed conv1d": (
        Normalized(nn.ConvTranspose1d(4, 6, 4, 2, 1, bias=False), nn.BatchNorm1d(6)),
        (torch.randn(2, 4, 9),),
    ),
    "transposed conv2d": (
        Normalized(nn.ConvTranspose2d(4, 6, 3, 2, output_padding=1), nn.BatchNorm2d(6)),
        (torch.randn(2, 4, 5, 5),),
    ),
    "transposed conv3d, no factors": (
        Normalized(nn.ConvTranspose3d(2, 3, 2), nn.BatchNorm3d(3, affine=False)),
        (torch.randn(2, 2, 4, 4, 4),),
    ),
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
    "all of a row hidden": (
        Attention(lambda s, m: F.softmax(s.masked_fill(m, float("-inf")), dim=-1)),
        (X, FIRST_ROW),
    ),
    "none of a row kept": (
        Attention(lambda s, m: torch.where(m, float("-inf"), s).softmax(-1)),
        (X, FIRST_ROW),
    ),
    "all of a row infinite": (
        Attention(lambda s, m: F.softmax(s / 2 + m, dim=-1)),
        (X, torch.zeros(6, 6).masked_fill(FIRST_ROW, float("-inf"))),
    ),
    "all of a row low": (
        Attention(lambda s, m: F.softmax((s * 90).masked_fill(m, -1e9), dim=-1)),
        (X, FIRST_ROW),
    ),
    "turned round": (
        Attention(lambda s, m: F.softmax(s.masked_fill(m, float("-inf")) * -1, dim=-1)),
        (X, torch.eye(6).bool()),
    ),
    "in float32": (
        Attention(lambda s, m: F.softmax(s * 0.5 + m, dim=-1, dtype=torch.float32)),
        (X, ADDED),
    ),
    "viewed twice": (Reshaped(SPELLINGS["where"]), (X, NONE)),
    **{name: (Spelled(attend), (X, NONE)) for name, attend in SPELLINGS.items()},
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
    "channels by numbers of the input": (
        Gated(nn.Conv2d(4, 6, 3), nn.Identity()),
        (torch.randn(1, 4, 9, 9),),
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
# Scores of some hundreds are off by up to 1e-4 in float32, and what their exponentials weigh as much.
ROUNDING = {"all of a row low": 1e-3}


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
            # Rows of which nothing is left are no numbers in both.
            tolerance = {"rtol": 1e-4, "atol": ROUNDING.get(name, 1e-5)}
            assert torch.allclose(actual, expected, equal_nan=True, **tolerance)
            assert actual.stride() == expected.stride()
            # What is made of weights is made anew when they change.
            for parameter in model.parameters():
                parameter.mul_(1.5)


@pytest.mark.parametrize("name", ["all of a row low", "hidden behind a bias"])
def test_rows_hidden_by_a_number_are_so_in_float16(tmp_path: Path, name: str) -> None:
    """It has no number so low that scores do not show beside it."""
    model, inputs = ATTENTION[name]
    model = copy.deepcopy(model).eval()
    index_of(model, inputs, tmp_path)
    scripts = read_rewrites(tmp_path / "rewrites").scripts
    script = next(script for script in scripts if script.name == "form-attention")
    module = f"rule_in_float16_{'_'.join(name.split())}.py"
    backend = import_program(emit([script], tmp_path / module)[0])
    backend.STRATEGY = backend.Strategy(precision=torch.float16)
    backend.compile_fx = lambda graph, inputs, config_patches=None: aot_module_simplified(
        graph, inputs, fw_compiler=nop, inference_compiler=nop
    )
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    with torch.no_grad():
        actual, expected = compiled(*inputs), model(*inputs)
    assert backend.applied["form-attention"] == 1
    assert actual.isfinite().all() and expected.isfinite().all()
    row = 0 if name == "all of a row low" else 5
    error = (actual - expected)[:, row].norm() / expected[:, row].norm()
    assert error < 5e-3, error


def test_another_number_in_the_program_is_another_pattern(tmp_path: Path) -> None:
    class Filled(Spelled):
        def __init__(self, lowest: float) -> None:
            super().__init__(of_scores(lambda m, a: m.fill(a).softmax(-1)))
            self.number = lowest

        def fill(self, scores: Tensor) -> Tensor:
            return torch.where(self.causal, scores, torch.tensor(self.number))

    index_of(Filled(-1e30).eval(), (X, NONE), tmp_path)
    scripts = read_rewrites(tmp_path / "rewrites").scripts
    script = next(script for script in scripts if script.name == "form-attention")
    backend = import_program(emit([script], tmp_path / "rule_of_another_number.py")[0])
    backend.compile_fx = lambda graph, inputs, config_patches=None: aot_module_simplified(
        graph, inputs, fw_compiler=nop, inference_compiler=nop
    )
    for number, times in ((-1e4, 0), (-1e30, 1)):
        model = Filled(number).eval()
        torch._dynamo.reset()
        with torch.no_grad():
            actual = torch.compile(model, backend=backend.BACKEND_NAME)(X, NONE)
            assert torch.allclose(actual, model(X, NONE), rtol=1e-4, atol=1e-5)
        assert backend.applied["form-attention"] == times


def test_a_pattern_that_the_compiled_graph_lacks_is_said_with_its_place(tmp_path: Path) -> None:
    """Libraries add masks that hide nothing where a program is exported, and only there."""

    def attend(m: Spelled, a: Tensor) -> Tensor:
        return (a + m.bias if torch.compiler.is_exporting() else a).softmax(-1)

    model = Spelled(of_scores(attend)).eval()
    with torch.no_grad():
        model.bias.zero_()
    index_of(model, (X, NONE), tmp_path)
    scripts = read_rewrites(tmp_path / "rewrites").scripts
    script = next(script for script in scripts if script.name == "form-attention")
    file = emit([script], tmp_path / "rule_of_the_export_alone.py")[0]
    source = tmp_path / "model.py"
    source.write_text("")
    subject = Subject(ModelScript(source, "model", model, (X, NONE)))
    verdict, _ = check_backend(file, subject, error_budget=1e-3)
    (applied,) = [check for check in verdict.checks if check.name == "applied"]
    assert not applied.passed and verdict.missing == ["form-attention"]
    assert re.search(
        r"nowhere: form-attention \(nearest: aten\.matmul\.default is where the pattern has "
        r"aten\.add\.Tensor, at matmul \(.*test_rules\.py:\d+\)\)",
        applied.text,
    )


def test_many_ways_to_no_product_are_looked_at_once(tmp_path: Path) -> None:
    class Dense(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            parts = [x.sin()]
            for _ in range(36):
                parts.append(torch.cat(parts, 1))
            return parts[-1].exp() @ x.transpose(1, 2)

    x = torch.randn(2, 4, 1)
    rows = torch.export.Dim("rows", min=2, max=64)
    with torch.no_grad():
        program = torch.export.export(Dense(), (x,), dynamic_shapes=({1: rows},))
    write_graph_json(tmp_path / "graph.json", source_of_exported_program(program, "model"))
    graph = tmp_path / "graph.mlir"
    run_tool("opprof-translate", ["--import-fx-json", tmp_path / "graph.json"], output=graph)
    options = f"dir={tmp_path / 'rewrites'} device=H200"
    output = tmp_path / "same.mlir"
    run_tool("opprof-opt", [graph, f"--recommend-rewrites={options}"], output=output)
    assert "aten.exp" in output.read_text()


@pytest.mark.parametrize("name", HELD_BACK)
def test_rules_hold_back_where_one_condition_fails(tmp_path: Path, name: str) -> None:
    model, inputs = HELD_BACK[name]
    index = index_of(copy.deepcopy(model).eval(), inputs, tmp_path)
    assert not {entry["name"] for entry in index["rewrites"]} & set(NAMES)


@pytest.mark.parametrize("name", UNKNOWN)
def test_attention_that_is_not_known_is_declined_at_its_node(tmp_path: Path, name: str) -> None:
    attend, node, reason = UNKNOWN[name]
    index = index_of(Spelled(attend).eval(), (X, NONE), tmp_path)
    (declined,) = [entry for entry in index["declined"] if entry["rule"] == "form-attention"]
    assert reason in declined["reason"]
    assert re.sub(r"_\d+$", "", declined["node"]) == node and "test_rules.py:" in declined["line"]


def test_layers_that_spell_attention_alike_are_one_script(tmp_path: Path) -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Spelled(by_bmm) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x, x)
            return x * 2

    index = index_of(Layers().eval(), (X,), tmp_path)
    (entry,) = [e for e in index["rewrites"] if e["name"].startswith("form-attention")]
    assert len(entry["nodes"]) == 3


def test_a_second_place_is_declined_beside_the_first(tmp_path: Path) -> None:
    model = nn.Sequential(
        Normalized(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)),
        nn.Unflatten(1, (6, 7, 7)),
        UsedTwice(nn.Conv2d(6, 6, 3), nn.BatchNorm2d(6)),
    ).eval()
    index = index_of(model, (torch.randn(2, 4, 9, 9),), tmp_path)
    (entry,) = [entry for entry in index["rewrites"] if entry["name"] == "fold-batch-norm"]
    assert len(entry["nodes"]) == 1
    (declined,) = [entry for entry in index["declined"] if entry["rule"] == "fold-batch-norm"]
    assert declined["node"] == "conv2d_1"


def test_a_normalization_is_held_against_its_own_form_alone(tmp_path: Path) -> None:
    class Returned(nn.Module):
        """What is folded in one form first, and can't be in another."""

        def __init__(self) -> None:
            super().__init__()
            norms = (nn.BatchNorm1d(6), nn.BatchNorm1d(6))
            self.first = Normalized(nn.Sequential(nn.Linear(8, 6), Viewed(1, 2)), norms[0])
            self.second = Restored(nn.Linear(30, 6), norms[1])

        def forward(self, x: Tensor) -> Tensor:
            y = self.second.product(self.first(x)[:, None])
            return self.second.norm(y.flatten(0, 1)).reshape_as(y)

    index = index_of(Returned().eval(), (torch.randn(2, 5, 8),), tmp_path)
    (declined,) = [entry for entry in index["declined"] if entry["rule"] == "fold-batch-norm"]
    assert "the graph returns a result" in declined["reason"]


#: What keeps a normalization from being folded, and the node that is named.
NOT_FOLDED: dict[str, tuple[nn.Module, tuple[Tensor, ...], str, str]] = {
    "an input": (
        nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3)),
        (torch.randn(2, 4, 9, 9),),
        "batch_norm",
        "what it normalizes is an input of the graph",
    ),
    "an activation between": (
        nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.BatchNorm2d(6)),
        (torch.randn(2, 4, 9, 9),),
        "batch_norm",
        "is the result of aten.relu.default, and of no product",
    ),
    "sequences": (
        Normalized(nn.Linear(8, 6), nn.BatchNorm1d(5)),
        (torch.randn(2, 5, 8),),
        "batch_norm",
        "has 3 dimensions, and its channels are not the second one",
    ),
    "channels and pixels": (
        Normalized(nn.Sequential(nn.Conv1d(4, 6, 3), nn.Flatten()), nn.BatchNorm1d(42)),
        (torch.randn(2, 4, 9),),
        "batch_norm",
        "is the result of aten.flatten.using_ints, and of no product",
    ),
    "rows of a sequence": (
        Normalized(nn.Sequential(nn.Linear(5, 5), Viewed(0, 1)), nn.BatchNorm1d(5)),
        (torch.randn(5, 5, 5),),
        "batch_norm",
        "is the result of aten.transpose.int, and of no product",
    ),
    "transposed, in groups": (
        Normalized(nn.ConvTranspose2d(4, 6, 3, groups=2), nn.BatchNorm2d(6)),
        (torch.randn(2, 4, 5, 5),),
        "conv_transpose2d",
        "the argument 'groups' is 2 here and 1 in the pattern",
    ),
    "statistics of the batch": (
        Normalized(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6, track_running_stats=False)),
        (torch.randn(2, 4, 9, 9),),
        "batch_norm",
        "it normalizes by statistics of the batch",
    ),
}


@pytest.mark.parametrize("name", NOT_FOLDED)
def test_a_normalization_that_is_not_folded_is_declined_at_its_node(
    tmp_path: Path, name: str
) -> None:
    model, inputs, node, reason = NOT_FOLDED[name]
    index = index_of(copy.deepcopy(model).eval(), inputs, tmp_path)
    (declined,) = [entry for entry in index["declined"] if entry["rule"] == "fold-batch-norm"]
    assert reason in declined["reason"], declined
    assert declined["node"] == node


class Products(nn.Module):
    """Products of one input, by linear layers and by parameters."""

    def __init__(self, *layers: nn.Module, parameters: int = 0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.weights = nn.ParameterList(torch.randn(8, 4) for _ in range(parameters))

    def forward(self, x: Tensor) -> Tensor:
        parts = [layer(x).sin() for layer in self.layers]
        return torch.cat([*parts, *((x @ weight).sin() for weight in self.weights)], -1)


def test_products_by_parameters_become_one(tmp_path: Path) -> None:
    model = Products(parameters=3).eval()
    x = torch.randn(2, 5, 8)
    index = index_of(model, (x,), tmp_path)
    (entry,) = [entry for entry in index["rewrites"] if entry["name"] == "merge-gemms"]
    assert [len(place) for place in entry["nodes"]] == [3]
    script = next(
        s for s in read_rewrites(tmp_path / "rewrites").scripts if s.name == "merge-gemms"
    )
    backend = import_program(emit([script], tmp_path / "rule_products_by_parameters.py")[0])
    backend.compile_fx = lambda graph, inputs, config_patches=None: aot_module_simplified(
        graph, inputs, fw_compiler=nop, inference_compiler=nop
    )
    with torch.no_grad():
        actual = torch.compile(model, backend=backend.BACKEND_NAME)(x)
        assert torch.allclose(actual, model(x), rtol=1e-5, atol=1e-6)
    assert backend.applied == {"merge-gemms": 1}


class Repeated(nn.Module):
    """A product that is written twice, first or last, of those that share an input."""

    def __init__(self, *, is_written: bool) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(8, 4) for _ in range(3))
        self.is_written = is_written

    def forward(self, x: Tensor) -> Tensor:
        first, again, other = self.a(x), self.a(x), self.b(x)
        if self.is_written:
            first.mul_(2)
        return first.sin() + again.cos() + other.tanh() + self.b(x).relu() + self.c(x).sigmoid()


@pytest.mark.parametrize("is_written", [False, True])
def test_a_product_that_is_repeated_is_merged_with_those_of_its_input(
    tmp_path: Path, is_written: bool
) -> None:
    """Without it the pattern found the repeated one twice in the place of two, and nothing was offered."""
    model, x = Repeated(is_written=is_written).eval(), torch.randn(2, 5, 8)
    index = index_of(model, (x,), tmp_path)
    merges = [entry for entry in index["rewrites"] if entry["name"] == "merge-gemms"]
    if is_written:
        # One slice would stand for what is written and for what is not.
        assert not merges
        (declined,) = [entry for entry in index["declined"] if entry["rule"] == "merge-gemms"]
        assert "is written later" in declined["reason"]
        return
    assert [len(place) for entry in merges for place in entry["nodes"]] == [5]
    scripts = [s for s in read_rewrites(tmp_path / "rewrites").scripts if s.name == "merge-gemms"]
    backend = import_program(emit(scripts, tmp_path / "rule_repeated_product.py")[0])
    ran: list[str] = []

    def compile_plainly(graph: Any, inputs: Any, config_patches: Any = None) -> Any:
        ran.extend(str(node.target) for node in graph.graph.nodes)
        return aot_module_simplified(graph, inputs, fw_compiler=nop, inference_compiler=nop)

    backend.compile_fx = compile_plainly
    with torch.no_grad():
        actual = torch.compile(model, backend=backend.BACKEND_NAME)(x)
        assert torch.allclose(actual, model(x), rtol=1e-5, atol=1e-6)
    assert backend.applied == {"merge-gemms": 1}
    assert ran.count("aten.linear.default") == 1


def test_more_products_of_one_input_are_merged_before_fewer(tmp_path: Path) -> None:
    """Three are found among four; what three save at two places is more than what four save at one."""

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                Products(*(nn.Linear(8, 4) for _ in range(count))) for count in (3, 3, 4)
            )

        def forward(self, x: Tensor) -> Tensor:
            parts = [layer(x * number) for number, layer in enumerate(self.layers, 2)]
            return torch.cat(parts, -1) * 2

    model, x = Layers().eval(), torch.randn(2, 5, 8)
    index = index_of(model, (x,), tmp_path)
    merges = [entry for entry in index["rewrites"] if entry["name"] == "merge-gemms"]
    assert [len(entry["nodes"][0]) for entry in merges] == [4, 3]
    assert merges[0]["saves_ns"] < merges[1]["saves_ns"]
    scripts = [s for s in read_rewrites(tmp_path / "rewrites").scripts if s.name == "merge-gemms"]
    backend = import_program(emit(scripts, tmp_path / "rule_more_products_first.py")[0])
    backend.compile_fx = lambda graph, inputs, config_patches=None: aot_module_simplified(
        graph, inputs, fw_compiler=nop, inference_compiler=nop
    )
    with torch.no_grad():
        actual = torch.compile(model, backend=backend.BACKEND_NAME)(x)
        assert torch.allclose(actual, model(x), rtol=1e-5, atol=1e-6)
    assert backend.applied == {"merge-gemms": 1, "merge-gemms-2": 2}


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            Products(nn.Linear(8, 4), nn.Linear(8, 4, bias=False)),
            "of it and another product of its input one has a bias",
        ),
        (
            Products(nn.Linear(8, 4, bias=False), parameters=1),
            "another product of its input calls another operator",
        ),
    ],
)
def test_products_of_unlike_forms_are_declined(
    tmp_path: Path, model: nn.Module, reason: str
) -> None:
    index = index_of(model.eval(), (torch.randn(2, 5, 8),), tmp_path)
    (declined,) = [entry for entry in index["declined"] if entry["rule"] == "merge-gemms"]
    assert reason in declined["reason"] and declined["count"] == 2


def test_a_gpu_saves_little_by_folding(tmp_path: Path) -> None:
    """The bias of a convolution is added in a pass of its own there, which is that of the normalization."""
    model = nn.Sequential(nn.Conv2d(64, 64, 3), nn.BatchNorm2d(64), nn.ReLU()).eval()
    index = index_of(model, (torch.randn(8, 64, 56, 56),), tmp_path)
    saves = {entry["name"]: entry["saves_ns"] for entry in index["rewrites"]}
    # A pass over 48 MB takes ten thousand.
    assert 0 <= saves["fold-batch-norm"] < 100 and 0 <= saves["freeze"] < 1000


def test_a_normalization_in_training_is_declined_with_its_line(tmp_path: Path) -> None:
    model, inputs = NORMALIZED["conv2d"]
    index = index_of(copy.deepcopy(model).train(), inputs, tmp_path)
    (declined,) = [entry for entry in index["declined"] if entry["rule"] == "fold-batch-norm"]
    assert declined["reason"] == "it normalizes by statistics of the batch"
    assert declined["node"] == "batch_norm" and "test_rules.py:" in declined["line"]
