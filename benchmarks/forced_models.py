"""The models of forced_rules.py that were written to lead rules astray: attention under masks of all kinds and in half types, normalizations
and products in orders that look alike, writes, recurrent layers, experts, and steps of training."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from oracle_models import Lambda
from torch import Tensor, nn

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any], bool]
MODELS: dict[str, Callable[[], Case]] = {}

LOWEST = torch.finfo(torch.float32).min


def model(make: Callable[[], Any]) -> Callable[[], Any]:
    """Adds what `make` gives: a module and its arguments by place, and "train" after them where it is in training."""

    def build() -> Case:
        module, *args = make()
        train = args[-1:] == ["train"]
        return module, tuple(args[:-1] if train else args), {}, train

    MODELS[make.__name__] = build
    return make


# Attention: `weights` makes weights of scores and a mask.


class Heads(nn.Module):
    def __init__(self, weights: Callable[[Tensor, Tensor], Tensor], groups: int = 1) -> None:
        super().__init__()
        self.weights, self.groups = weights, groups
        self.q, self.o = nn.Linear(16, 16), nn.Linear(16, 16)
        self.k, self.v = nn.Linear(16, 16 // groups), nn.Linear(16, 16 // groups)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (
            part(x).view(*x.shape[:2], -1, 4).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        if self.groups > 1:
            k, v = (y[:, :, None].expand(-1, -1, self.groups, -1, -1).flatten(1, 2) for y in (k, v))
        y = self.weights(q @ k.transpose(-2, -1) * 2, mask) @ v
        return self.o(y.transpose(1, 2).reshape(x.shape))


def tokens() -> Tensor:
    return torch.randn(2, 7, 16)


CAUSAL = torch.ones(7, 7).tril().bool()
PADDING = torch.arange(7)[None] < torch.tensor([[7], [4]])

#: A name, what makes weights of scores, and the mask.
SPELLED: list[tuple[str, Callable[[Tensor, Tensor], Tensor], Tensor]] = [
    ("filled_lowest", lambda s, m: s.masked_fill(~m, LOWEST).softmax(-1), CAUSAL),
    ("filled_infinite", lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1), CAUSAL),
    ("filled_weakly", lambda s, m: s.masked_fill(~m, -1e4).softmax(-1), CAUSAL),
    ("filled_padding", lambda s, m: s.masked_fill(~m[:, None, None], LOWEST).softmax(-1), PADDING),
    ("filled_1e9", lambda s, m: s.masked_fill(m[:, None, None] == 0, -1e9).softmax(-1), PADDING),
    ("where_kept", lambda s, m: torch.where(m, s, LOWEST).softmax(-1), CAUSAL),
    ("where_hidden", lambda s, m: torch.where(~m, -math.inf, s).softmax(-1), CAUSAL),
    ("where_swapped", lambda s, m: torch.where(m, LOWEST, s).softmax(-1), ~CAUSAL),
    ("added_infinite", lambda s, m: (s + m).softmax(-1),
     torch.zeros(7, 7).masked_fill(~CAUSAL, -math.inf)),
    ("added_lowest", lambda s, m: (s + m).softmax(-1),
     torch.zeros(2, 1, 1, 7).masked_fill(~PADDING[:, None, None], LOWEST)),
    ("added_made", lambda s, m: (s + (1.0 - m[:, None, None].to(s.dtype)) * LOWEST).softmax(-1),
     PADDING.long()),
    ("added_weak", lambda s, m: (s + (1.0 - m[:, None, None].to(s.dtype)) * -1e4).softmax(-1),
     PADDING.long()),
    ("added_then_filled", lambda s, m: (s + m.to(s.dtype)).masked_fill(~m, LOWEST).softmax(-1),
     CAUSAL),
    ("filled_then_added", lambda s, m: (s.masked_fill(~m, LOWEST) + m.to(s.dtype)).softmax(-1),
     CAUSAL),
    ("filled_infinite_then_added",
     lambda s, m: (s.masked_fill(~m, -math.inf) + m.to(s.dtype)).softmax(-1), CAUSAL),
    ("filled_twice", lambda s, m: s.masked_fill(~m, LOWEST).masked_fill(~m.flip(0), -math.inf)
     .softmax(-1), CAUSAL),
    ("filled_twice_lowest", lambda s, m: s.masked_fill(~m, -math.inf)
     .masked_fill(~m.flip(0), LOWEST).softmax(-1), CAUSAL),
    ("filled_then_scaled", lambda s, m: (s.masked_fill(~m, -math.inf) / 3).softmax(-1), CAUSAL),
    ("filled_then_negated", lambda s, m: (s.masked_fill(~m, math.inf) * -1).softmax(-1), CAUSAL),
    ("max_of_lowest", lambda s, m: torch.max(s + m, torch.tensor(LOWEST)).softmax(-1),
     torch.zeros(7, 7).masked_fill(~CAUSAL, -math.inf)),
    ("nan_to_num", lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1).nan_to_num(0.0), CAUSAL),
    ("hidden_after", lambda s, m: s.masked_fill(~m, LOWEST).softmax(-1).masked_fill(~m, 0.0),
     CAUSAL),
    ("multiplied_after", lambda s, m: s.softmax(-1) * m.to(s.dtype), CAUSAL),
    ("multiplied_before", lambda s, m: (s * m.to(s.dtype)).softmax(-1), CAUSAL),
    ("softcap", lambda s, m: ((s / 5).tanh() * 5).masked_fill(~m, LOWEST).softmax(-1), CAUSAL),
    ("softcap_added", lambda s, m: ((s / 5).tanh() * 5 + m).softmax(-1),
     torch.zeros(7, 7).masked_fill(~CAUSAL, -math.inf)),
    ("added_nothing", lambda s, m: (s + 0).masked_fill(~m, LOWEST).softmax(-1), CAUSAL),
    ("added_number", lambda s, m: (s + 1.5).masked_fill(~m, LOWEST).softmax(-1), CAUSAL),
    ("added_float_nothing", lambda s, m: (s + m + 0.0).softmax(-1),
     torch.zeros(7, 7).masked_fill(~CAUSAL, -math.inf)),
    ("taken_from", lambda s, m: (m - s).softmax(-1), torch.randn(7, 7)),
    ("less_a_mask", lambda s, m: (s - m).softmax(-1), torch.randn(1, 4, 7, 7)),
    ("alpha", lambda s, m: torch.add(s, m, alpha=-2).softmax(-1), torch.randn(7, 7)),
    ("relative", lambda s, m: (s + m).div(2).softmax(-1), torch.randn(1, 4, 7, 7)),
    ("no_last_key", lambda s, m: (s + m[..., :1]).softmax(-1), torch.randn(1, 4, 7, 7)),
    ("over_queries", lambda s, m: (s + m).softmax(-2), torch.randn(7, 7)),
    ("log_and_exp", lambda s, m: (s + m).log_softmax(-1).exp(), torch.randn(7, 7)),
    ("stable", lambda s, m: (s - s.amax(-1, keepdim=True)).softmax(-1), CAUSAL),
    ("stable_detached", lambda s, m: (s + m - (s + m).max(-1, True)[0]).softmax(-1),
     torch.randn(7, 7)),
    ("sink", lambda s, m: torch.cat([s, s[..., :1] * 0], -1).softmax(-1)[..., :-1], CAUSAL),
    ("in_float64", lambda s, m: s.double().softmax(-1).to(s.dtype), CAUSAL),
    ("in_float32", lambda s, m: F.softmax(s + m, -1, dtype=torch.float32).to(s.dtype),
     torch.randn(7, 7)),
    ("filled_in_place", lambda s, m: s.masked_fill_(~m, LOWEST).softmax(-1), CAUSAL),
    ("added_in_place", lambda s, m: s.add_(m).softmax(-1), torch.randn(7, 7)),
    ("clamped", lambda s, m: (s.clamp(-5, 5) + m).softmax(-1), torch.randn(7, 7)),
    ("dropped_out", lambda s, m: F.dropout((s + m).softmax(-1), 0.3, False), torch.randn(7, 7)),
    ("mask_of_batches", lambda s, m: s.masked_fill(~m, -math.inf).softmax(-1),
     torch.ones(2, 4, 7, 7).bernoulli(0.7).bool() | torch.eye(7).bool()),
    ("window", lambda s, m: s.masked_fill(~(m & m.flip(0, 1).roll(2)), LOWEST).softmax(-1), CAUSAL),
    ("temperature", lambda s, m: (s * m.exp()).softmax(-1), torch.randn(4, 1, 1)),
    ("temperature_of_keys", lambda s, m: (s * m.exp()).softmax(-1), torch.randn(4, 1, 7)),
    ("bernoulli_weights", lambda s, m: (s.softmax(-1) + s.softmax(-1)) / 2, CAUSAL),
]  # fmt: skip

for _name, _weights, _mask in SPELLED:
    MODELS[f"attention_{_name}"] = lambda w=_weights, m=_mask: (Heads(w), (tokens(), m), {}, False)
    if _name in ("filled_lowest", "added_lowest", "softcap", "filled_twice", "in_float32", "alpha"):
        MODELS[f"grouped_{_name}"] = lambda w=_weights, m=_mask: (
            Heads(w, 2),
            (tokens(), m),
            {},
            False,
        )
    for _half in (torch.float16, torch.bfloat16):
        # Numbers that float16 has no place for.
        if "LOWEST" in _weights.__code__.co_names or _name == "filled_1e9":
            continue
        MODELS[f"{str(_half)[6:]}_{_name}"] = lambda w=_weights, m=_mask, t=_half: (
            Heads(w).to(t),
            (tokens().to(t), m.to(t) if m.is_floating_point() else m),
            {},
            False,
        )
    if _name in ("filled_infinite", "added_lowest", "alpha", "in_float32", "filled_in_place"):
        MODELS[f"train_{_name}"] = lambda w=_weights, m=_mask: (Heads(w), (tokens(), m), {}, True)


def flat(x: Tensor) -> Tensor:
    return x.unflatten(-1, (4, 4)).transpose(1, 2).flatten(0, 1)


@model
def flat_heads_mask_repeated() -> Any:
    """fairseq: batches and heads in one dimension, the padding unfolded for a moment."""

    def forward(m: Any, x: Tensor, padding: Tensor) -> Tensor:
        q, k, v = (flat(part(x)) for part in m.parts)
        w = torch.bmm(q * 0.5, k.transpose(1, 2)).view(-1, 4, 7, 7)
        w = w.masked_fill(padding[:, None, None], -math.inf).view(-1, 7, 7)
        return torch.bmm(w.softmax(-1), v).view(-1, 4, 7, 4).transpose(1, 2).reshape(x.shape)

    return Lambda(forward, parts=nn.ModuleList(nn.Linear(16, 16) for _ in range(3))), tokens(), ~PADDING  # fmt: skip


@model
def keys_of_another_length() -> Any:
    def forward(m: Any, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = m.q(x)[:, None], m.k(memory)[:, None], m.v(memory)[:, None]
        return ((q @ k.mT / 4).softmax(-1) @ v)[:, 0]

    parts = {"q": nn.Linear(16, 8), "k": nn.Linear(16, 8), "v": nn.Linear(16, 12)}
    return Lambda(forward, **parts), tokens(), torch.randn(2, 5, 16)


@model
def square_without_heads() -> Any:
    """As many heads as queries and keys, so that sizes tell nothing."""

    def forward(m: Any, x: Tensor) -> Tensor:
        s = torch.einsum("bhqd,bhkd->bhqk", x, x * m.w)
        return torch.einsum("bhqk,bhkd->bhqd", (s + m.bias).softmax(-1), x)

    return (
        Lambda(forward, w=nn.Parameter(torch.randn(4)), bias=nn.Parameter(torch.randn(4, 4))),
        torch.randn(4, 4, 4, 4),
    )


@model
def einsum_turned_round() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        s = torch.einsum("bkhd,bqhd->bhqk", x, x * m.w)
        return torch.einsum("bkhd,bhqk->bqhd", x, s.softmax(-1))

    return Lambda(forward, w=nn.Parameter(torch.randn(4))), torch.randn(2, 5, 3, 4)


@model
def weights_transposed() -> Any:
    """The weights go into the product turned round: no attention."""

    def forward(m: Any, x: Tensor) -> Tensor:
        return (x @ (x * m.w).mT).softmax(-1).mT @ x

    return Lambda(forward, w=nn.Parameter(torch.randn(8))), torch.randn(2, 3, 6, 8)


@model
def channel_attention() -> Any:
    """Scores of channels, as Restormer and XCiT have them."""

    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (4, 4)).permute(0, 2, 3, 1) for part in m.parts)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        y = ((q @ k.mT) * m.t).softmax(-1) @ v
        return y.permute(0, 3, 1, 2).flatten(2)

    return (
        Lambda(
            forward,
            parts=nn.ModuleList(nn.Linear(16, 16) for _ in range(3)),
            t=nn.Parameter(torch.rand(4, 1, 1) + 0.5),
        ),
        tokens(),
    )


@model
def window_attention() -> Any:
    """Swin: windows are batches, with a bias a head and a mask a window."""

    def forward(m: Any, x: Tensor, mask: Tensor) -> Tensor:
        w = x.unflatten(1, (4, 4)).flatten(0, 1)
        q, k, v = (part(w).unflatten(-1, (2, 8)).transpose(1, 2) for part in m.parts)
        s = q * 0.35 @ k.mT + m.bias
        s = s.view(-1, 4, 2, 4, 4) + mask[None, :, None]
        y = s.view(-1, 2, 4, 4).softmax(-1) @ v
        return y.transpose(1, 2).reshape(x.shape)

    parts = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
    mask = torch.zeros(4, 4, 4).masked_fill(torch.rand(4, 4, 4) < 0.3, -100.0)
    return (
        Lambda(forward, parts=parts, bias=nn.Parameter(torch.randn(1, 2, 4, 4))),
        torch.randn(2, 16, 16),
        mask,
    )


@model
def cache_written() -> Any:
    """Keys and values go into a buffer at a place."""

    def forward(m: Any, x: Tensor, at: Tensor) -> Tensor:
        m.keys.index_copy_(1, at, m.k(x))
        q = m.q(x)
        return (q @ m.keys.mT / 4).softmax(-1) @ m.keys

    parts = {"q": nn.Linear(16, 16), "k": nn.Linear(16, 16), "keys": torch.zeros(2, 9, 16)}
    return Lambda(forward, **parts), torch.randn(2, 3, 16), torch.tensor([2, 3, 4])


# Normalizations and products that look alike.


def normalized(name: str, layers: Callable[[], nn.Module], *size: int, mode: str = "") -> None:
    # No rule takes what the graph returns.
    MODELS[name] = lambda: (
        nn.Sequential(layers(), nn.Tanh()),
        (torch.randn(*size),),
        {},
        mode == "train",
    )


def conv(cls: Any = nn.Conv2d, **options: Any) -> nn.Module:
    return cls(4, 4, 3, padding=1, **options)


normalized(
    "norm_of_transposed_convolution",
    lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(True)),
    *(2, 4, 5, 5),
)
normalized(
    "norm_of_grouped_transposed",
    lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3, 2, groups=2), nn.BatchNorm2d(6)),
    *(2, 4, 5, 5),
)
normalized(
    "norm_before_convolution",
    lambda: nn.Sequential(nn.BatchNorm2d(4), nn.ReLU(True), conv(), nn.BatchNorm2d(4)),
    *(2, 4, 5, 5),
)
normalized(
    "norms_twice",
    lambda: nn.Sequential(conv(), nn.BatchNorm2d(4), nn.BatchNorm2d(4)),
    *(2, 4, 5, 5),
)
normalized(
    "norm_without_factors",
    lambda: nn.Sequential(conv(), nn.BatchNorm2d(4, affine=False)),
    *(2, 4, 5, 5),
)
normalized(
    "norm_without_statistics",
    lambda: nn.Sequential(conv(), nn.BatchNorm2d(4, track_running_stats=False)),
    *(2, 4, 5, 5),
)
normalized(
    "norm_in_training",
    lambda: nn.Sequential(conv(), nn.BatchNorm2d(4)),
    *(2, 4, 5, 5),
    mode="train",
)
normalized(
    "norm_of_circular",
    lambda: nn.Sequential(conv(padding_mode="circular"), nn.BatchNorm2d(4)),
    *(2, 4, 5, 5),
)
normalized(
    "norm_of_depthwise",
    lambda: nn.Sequential(conv(groups=4, bias=False), nn.BatchNorm2d(4), nn.Hardswish(True)),
    *(2, 4, 5, 5),
)
normalized(
    "norm_of_one_dimension",
    lambda: nn.Sequential(nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4)),
    *(2, 4, 9),
)
normalized(
    "norm_of_rows",
    lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(True)),
    *(5, 6),
)
normalized(
    "norm_of_sequences", lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(3)), *(5, 3, 6)
)
normalized(
    "norm_of_complex_sizes",
    lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3), nn.ELU(inplace=True)),
    *(2, 2, 4, 4, 4),
)
normalized(
    "norms_in_half", lambda: nn.Sequential(conv(), nn.BatchNorm2d(4)).to(torch.bfloat16).float(),
    *(2, 4, 5, 5),
)  # fmt: skip


@model
def norm_in_bfloat16() -> Any:
    return nn.Sequential(conv(), nn.BatchNorm2d(4)).bfloat16(), torch.randn(2, 4, 5, 5).bfloat16()


@model
def one_convolution_two_norms() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = m.conv(x)
        return m.a(y) + m.b(y)

    return (
        Lambda(forward, conv=conv(), a=nn.BatchNorm2d(4), b=nn.BatchNorm2d(4)),
        torch.randn(2, 4, 5, 5),
    )


@model
def one_norm_shared_by_convolutions() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.norm(m.a(x)) * m.norm(m.b(x).relu())

    return Lambda(forward, a=conv(), b=conv(), norm=nn.BatchNorm2d(4)), torch.randn(2, 4, 5, 5)


@model
def weight_normalized_before_norm() -> Any:
    layer = torch.nn.utils.parametrizations.weight_norm(conv())
    return nn.Sequential(layer, nn.BatchNorm2d(4)), torch.randn(2, 4, 5, 5)


@model
def standardized_weights() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        w = m.conv.weight
        w = (w - w.mean((1, 2, 3), True)) / (w.var((1, 2, 3), keepdim=True) + 1e-5).sqrt()
        return m.norm(F.conv2d(x, w, m.conv.bias, padding=1))

    return Lambda(forward, conv=conv(), norm=nn.BatchNorm2d(4)), torch.randn(2, 4, 5, 5)


@model
def products_of_one_input() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        return [part(x).relu_() for part in m.parts]

    parts = nn.ModuleList(nn.Linear(8, width) for width in (4, 4, 6))
    return Lambda(forward, parts=parts), torch.randn(3, 5, 8)


@model
def products_of_one_weight() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        return m.a(x) * F.linear(x, m.a.weight), m.a(x.flip(0))

    return Lambda(forward, a=nn.Linear(8, 4)), torch.randn(3, 8)


@model
def products_written_between() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = x + 0
        a = m.a(h)
        h.mul_(2)
        b = m.b(h)
        return torch.cat([a.tanh(), b.add_(1)], -1)

    return Lambda(forward, a=nn.Linear(8, 4), b=nn.Linear(8, 4)), torch.randn(3, 8)


@model
def products_of_views() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        q, k, v = (p(x).view(2, -1, 2, 4).transpose(1, 2) for p in m.parts)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True), k.mT.reshape(2, -1)

    return Lambda(forward, parts=nn.ModuleList(nn.Linear(8, 8) for _ in range(3))), torch.randn(2, 5, 8)  # fmt: skip


@model
def products_in_training() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        return sum(part(x).sigmoid() for part in m.parts)

    parts = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(4))
    return Lambda(forward, parts=parts), torch.randn(3, 8), "train"


@model
def gated_with_lora() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        base = m.gate(x) + m.up(m.down(x)) * 0.5
        return m.out(F.silu(base) * m.other(x))

    parts = {
        "gate": nn.Linear(8, 16, bias=False),
        "other": nn.Linear(8, 16, bias=False),
        "down": nn.Linear(8, 2, bias=False),
        "up": nn.Linear(2, 16, bias=False),
        "out": nn.Linear(16, 8, bias=False),
    }
    return Lambda(forward, **parts), torch.randn(2, 3, 8)


# Recurrent layers, experts, and what else there is.


def recurrent(name: str, make: Callable[[], nn.Module], *args: Tensor) -> None:
    MODELS[name] = lambda: (make(), args or (torch.randn(5, 2, 8),), {}, False)


class Last(nn.Module):
    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Any:
        y, state = self.layer(x)
        return self.head(y).relu_(), state


recurrent("lstm", lambda: Last(nn.LSTM(8, 6), 6))
recurrent(
    "lstm_both_ways", lambda: Last(nn.LSTM(8, 6, 2, bidirectional=True, batch_first=True), 12)
)
recurrent("lstm_projected", lambda: Last(nn.LSTM(8, 6, proj_size=4), 4))
recurrent("lstm_without_bias", lambda: Last(nn.LSTM(8, 6, bias=False), 6))
recurrent("gru", lambda: Last(nn.GRU(8, 6, 2, dropout=0.5), 6))
recurrent("rnn_relu", lambda: Last(nn.RNN(8, 6, nonlinearity="relu"), 6))


@model
def lstm_cells() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[1], 6)
        for step in x:
            h, c = m.cell(step, (h, c))
        return h

    return Lambda(forward, cell=nn.LSTMCell(8, 6)), torch.randn(4, 2, 8)


@model
def experts_gathered() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        weight, chosen = m.gate(x).softmax(-1).topk(2, -1)
        y = torch.einsum("nd,nkdf->nkf", x, m.experts[chosen])
        return (y.relu() * weight[..., None]).sum(1)

    parts = {"gate": nn.Linear(8, 4), "experts": nn.Parameter(torch.randn(4, 8, 8))}
    return Lambda(forward, **parts), torch.randn(6, 8)


@model
def experts_masked() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        scores = m.gate(x).softmax(-1)
        y = torch.zeros_like(x)
        for i, expert in enumerate(m.experts):
            y.add_(expert(x) * (scores[:, i, None] > 0.2) * scores[:, i, None])
        return y

    parts = {"gate": nn.Linear(8, 4), "experts": nn.ModuleList(nn.Linear(8, 8) for _ in range(4))}
    return Lambda(forward, **parts), torch.randn(6, 8)


@model
def bags_and_offsets() -> Any:
    def forward(m: Any, ids: Tensor, dense: Tensor) -> Tensor:
        a, b = m.a(ids), m.b(ids)
        return torch.cat([a, b, m.bottom(dense).relu_()], 1)

    parts = {
        "a": nn.EmbeddingBag(10, 4, mode="sum"),
        "b": nn.EmbeddingBag(10, 4, mode="mean"),
        "bottom": nn.Linear(3, 4),
    }
    return Lambda(forward, **parts), torch.randint(0, 10, (3, 5)), torch.randn(3, 3)


@model
def embedding_tied() -> Any:
    def forward(m: Any, ids: Tensor) -> Tensor:
        return F.linear(m.norm(m.table(ids)), m.table.weight)

    return Lambda(forward, table=nn.Embedding(20, 8), norm=nn.LayerNorm(8)), torch.randint(0, 20, (2, 6))  # fmt: skip


@model
def rotary_positions() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1]).float()[:, None] * 3000 * m.speeds
        q, k = m.q(x), m.k(x)
        a, b = angles.cos(), angles.sin()

        def turn(y: Tensor) -> Tensor:
            left, right = y.chunk(2, -1)
            return torch.cat([left * a - right * b, right * a + left * b], -1)

        return (turn(q) @ turn(k).mT).softmax(-1) @ x

    parts = {"q": nn.Linear(8, 8), "k": nn.Linear(8, 8), "speeds": torch.rand(4)}
    return Lambda(forward, **parts), torch.randn(2, 6, 8)


@model
def buffers_counted() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        m.count.add_(1)
        m.mean.lerp_(x.mean(0), 0.1)
        return m.layer(x - m.mean) / m.count

    parts = {"layer": nn.Linear(8, 4), "count": torch.zeros(()), "mean": torch.zeros(8)}
    return Lambda(forward, **parts), torch.randn(5, 8)


@model
def complex_mixing() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.layer(torch.fft.irfft(torch.fft.rfft(x, dim=1) * m.filter, n=6, dim=1)) + m.layer(
            x
        )

    return (
        Lambda(forward, layer=nn.Linear(8, 8), filter=nn.Parameter(torch.randn(4, 8))),
        torch.randn(2, 6, 8),
    )


@model
def results_that_share_storage() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        y = m.layer(x)
        return y, y.view(-1), y[:, :2], m.layer.weight

    return Lambda(forward, layer=nn.Linear(8, 4)), torch.randn(3, 8)


@model
def weights_in_a_written_buffer() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        m.flat.mul_(0.5)
        return F.linear(x, m.a).relu() + F.linear(x, m.b).tanh(), m.a.exp()

    flat = torch.randn(8, 6)
    return Lambda(forward, flat=flat, a=flat[:4], b=flat[4:]), torch.randn(3, 6)


@model
def results_expanded_and_sliced() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        y = m.layer(x).exp()
        pooled = y.mean(0, keepdim=True)
        return pooled.expand(5, -1), (y * 2)[:, :3], y.sum().expand(2, 3), (y + 1).t()

    return Lambda(forward, layer=nn.Linear(8, 4)), torch.randn(3, 8)


@model
def products_with_one_bias() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        return torch.addmm(m.p, x, m.v).relu() + torch.addmm(m.q, x, m.w).tanh()

    parts = {"p": (1,), "v": (8, 4), "q": (1,), "w": (8, 4)}
    weights = {name: nn.Parameter(torch.randn(size)) for name, size in parts.items()}
    return Lambda(forward, **weights), torch.randn(3, 8)


@model
def products_merged_and_written_by_views() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        q, k, v = (part(x) for part in m.parts)
        q[:, 0].zero_()
        k.relu_()
        v.transpose(0, 1).add_(1)
        return (q * k).sum(-1), v @ v.T, torch.empty_like(q).fill_(1)

    return Lambda(forward, parts=nn.ModuleList(nn.Linear(6, 8) for _ in range(3))), torch.randn(3, 6)  # fmt: skip


@model
def inputs_returned_and_repeated() -> Any:
    def forward(m: Any, x: Tensor, y: Tensor) -> Any:
        return x, x[1:], m.a(x).relu() + m.b(x).relu(), y, (y, None, {"k": y.t()})

    parts = {"a": nn.Linear(6, 8), "b": nn.Linear(6, 8)}
    return Lambda(forward, **parts), torch.randn(1, 6).expand(4, 6), torch.randn(6, 4).t()


@model
def products_repeated() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        a, again, b = m.a(x), m.a(x), m.b(x)
        return a.relu() + again.sin() + b.tanh() + m.b(x).cos() + m.c(x).exp()

    parts = {name: nn.Linear(6, 8) for name in "abc"}
    return Lambda(forward, **parts), torch.randn(4, 6)


@model
def products_repeated_and_written() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        a, again, b = m.a(x), m.a(x), m.b(x)
        a.mul_(2)
        return a.relu() + again.sin() + b.tanh()

    return Lambda(forward, a=nn.Linear(6, 8), b=nn.Linear(6, 8)), torch.randn(4, 6)


@model
def no_rows() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        return m.a(x).relu(), m.b(x).relu(), x.sum(), (m.a(x) > 0).sum(-1)

    return Lambda(forward, a=nn.Linear(6, 8), b=nn.Linear(6, 8)), torch.randn(0, 6)


@model
def whole_numbers_and_truth_returned() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        scores, other = m.a(x).softmax(-1), m.b(x)
        return {
            "chosen": scores.argmax(-1),
            "large": other > 0,
            "best": scores.topk(2),
            "none": None,
        }

    return Lambda(forward, a=nn.Linear(6, 8), b=nn.Linear(6, 8)), torch.randn(3, 6)


@model
def made_of_weights_and_returned() -> Any:
    def forward(m: Any, x: Tensor) -> Any:
        rows = m.a.bias.exp().expand(2, 8)
        return m.a(x).relu() + m.b(x).relu(), m.a.weight @ m.b.weight.T, rows, torch.eye(3)[1:]

    return Lambda(forward, a=nn.Linear(6, 8), b=nn.Linear(6, 8)), torch.randn(3, 6)
