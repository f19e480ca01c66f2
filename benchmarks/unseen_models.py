"""More models of launch_oracle.py, written after the rules of the map and of its oracle and without a look at them: what they showed as they were
met is a held-out figure. What was mended since is in docs/measurements.md."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from oracle_models import Lambda, OracleModel
from torch import Tensor, nn

MODELS = {}


def model(make: Any) -> Any:
    MODELS[make.__name__] = make
    return make


# Images.


class DoubleConv(nn.Module):
    def __init__(self, before: int, after: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.down, self.deep = DoubleConv(3, 8), DoubleConv(8, 16), DoubleConv(16, 32)
        self.up_2, self.join_2 = nn.ConvTranspose2d(32, 16, 2, 2), DoubleConv(32, 16)
        self.up_1, self.join_1 = nn.ConvTranspose2d(16, 8, 2, 2), DoubleConv(16, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.enter(x)
        b = self.down(F.max_pool2d(a, 2))
        c = self.deep(F.max_pool2d(b, 2))
        b = self.join_2(torch.cat([b, self.up_2(c)], 1))
        return self.head(self.join_1(torch.cat([a, self.up_1(b)], 1)))


@model
def unet_skips() -> OracleModel:
    return OracleModel(UNet(), (torch.randn(1, 3, 16, 16),))


@model
def unet_skips_train() -> OracleModel:
    return OracleModel(UNet(), (torch.randn(2, 3, 16, 16),), train=True)


class ResidualSiLU(nn.Module):
    """The residual block of diffusion models: group norm, SiLU in place, a time embedding added to every pixel."""

    def __init__(self, before: int, after: int, time: int):
        super().__init__()
        self.norm_1, self.conv_1 = nn.GroupNorm(4, before), nn.Conv2d(before, after, 3, padding=1)
        self.time = nn.Linear(time, after)
        self.norm_2, self.conv_2 = nn.GroupNorm(4, after), nn.Conv2d(after, after, 3, padding=1)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = self.conv_1(F.silu(self.norm_1(x), inplace=True))
        h = h + self.time(F.silu(t))[:, :, None, None]
        h = self.conv_2(F.silu(self.norm_2(h), inplace=True))
        return (self.skip(x) + h) / math.sqrt(2)


@model
def diffusion_residual() -> OracleModel:
    def forward(m: Any, x: Tensor, step: Tensor) -> Tensor:
        frequency = torch.exp(-math.log(1000.0) * torch.arange(8) / 8)
        angle = step[:, None].float() * frequency[None]
        t = m.embed(torch.cat([angle.sin(), angle.cos()], -1))
        h = m.second(m.first(m.enter(x), t), t)
        return m.leave(F.silu(m.norm(F.interpolate(h, scale_factor=2.0, mode="nearest"))))

    parts = {
        "embed": nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32)),
        "enter": nn.Conv2d(3, 8, 3, padding=1),
        "first": ResidualSiLU(8, 16, 32),
        "second": ResidualSiLU(16, 16, 32),
        "norm": nn.GroupNorm(4, 16),
        "leave": nn.Conv2d(16, 3, 3, padding=1),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 8, 8), torch.tensor([3, 70])))


class DiTBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm_1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm_2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.qkv, self.proj, self.heads = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
            heads,
        )
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = self.modulation(c).chunk(6, 1)
        h = self.norm_1(x) * (1 + scale_1.unsqueeze(1)) + shift_1.unsqueeze(1)
        b, n, w = h.shape
        q, k, v = (
            self.qkv(h)
            .reshape(b, n, 3, self.heads, w // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w)
        x = x + gate_1.unsqueeze(1) * self.proj(a)
        h = self.norm_2(x) * (1 + scale_2.unsqueeze(1)) + shift_2.unsqueeze(1)
        return x + gate_2.unsqueeze(1) * self.mlp(h)


class DiT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(4, 16, 2, 2)
        self.label = nn.Embedding(11, 16)
        self.blocks = nn.ModuleList(DiTBlock(16, 2) for _ in range(2))
        self.out = nn.Linear(16, 16)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        b, _, h, w = x.shape
        x = self.patch(x).flatten(2).transpose(1, 2)
        c = self.label(y)
        for block in self.blocks:
            x = block(x, c)
        x = self.out(x).view(b, h // 2, w // 2, 2, 2, 4)
        return torch.einsum("nhwpqc->nchpwq", x).reshape(b, 4, h, w)


@model
def dit_adaln() -> OracleModel:
    return OracleModel(DiT(), (torch.randn(2, 4, 8, 8), torch.tensor([1, 7])))


@model
def dit_adaln_train() -> OracleModel:
    return OracleModel(DiT(), (torch.randn(2, 4, 8, 8), torch.tensor([1, 7])), train=True)


class ShiftedWindows(nn.Module):
    """Swin's block with its table of relative positions and the mask of rolled windows."""

    def __init__(self, width: int, heads: int, window: int, shift: int, size: int):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        at = torch.stack(
            torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        ).flatten(1)
        apart = (at[:, :, None] - at[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        regions = torch.zeros(1, size, size, 1)
        count = 0
        cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
        for rows in cuts:
            for columns in cuts:
                regions[:, rows, columns] = count
                count += 1
        regions = self.split(regions).squeeze(-1)
        mask = regions[:, None] - regions[:, :, None]
        self.register_buffer(
            "mask", mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        )

    def split(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        n = self.window
        return x.view(b, h // n, n, w // n, n, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, c)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        rolled = torch.roll(self.norm(x), shifts=(-self.shift, -self.shift), dims=(1, 2))
        windows = self.split(rolled)
        n, s, _ = windows.shape
        qkv = self.qkv(windows).reshape(n, s, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * (c // self.heads) ** -0.5, qkv[1], qkv[2]
        bias = self.table[self.index.view(-1)].view(s, s, -1).permute(2, 0, 1).contiguous()
        scores = q @ k.transpose(-2, -1) + bias.unsqueeze(0)
        count = self.mask.shape[0]
        scores = scores.view(n // count, count, self.heads, s, s) + self.mask[None, :, None]
        a = (scores.view(-1, self.heads, s, s).softmax(-1) @ v).transpose(1, 2).reshape(n, s, c)
        k = self.window
        a = (
            self.out(a)
            .view(b, h // k, w // k, k, k, c)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(b, h, w, c)
        )
        x = x + torch.roll(a, shifts=(self.shift, self.shift), dims=(1, 2))
        return x + self.mlp(self.norm_2(x))


@model
def swin_masked() -> OracleModel:
    return OracleModel(ShiftedWindows(16, 2, 4, 2, 8), (torch.randn(2, 8, 8, 16),))


@model
def swin_masked_train() -> OracleModel:
    return OracleModel(ShiftedWindows(16, 2, 4, 2, 8), (torch.randn(2, 8, 8, 16),), train=True)


@model
def spatial_transformer() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        theta = m.locate(F.adaptive_avg_pool2d(x, 2).flatten(1)).view(-1, 2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return F.pixel_shuffle(m.conv(F.grid_sample(x, grid, align_corners=False)), 2)

    parts = {"locate": nn.Linear(12, 6), "conv": nn.Conv2d(3, 8, 3, padding=1)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 8, 8),))


@model
def dilated_pyramid() -> OracleModel:
    """Atrous pooling of DeepLab, with reflected borders."""

    def forward(m: Any, x: Tensor) -> Tensor:
        y = F.elu(m.enter(F.pad(x, (1, 1, 1, 1), mode="reflect")))
        whole = F.interpolate(
            m.whole(F.adaptive_avg_pool2d(y, 1)), size=y.shape[-2:], mode="nearest"
        )
        parts = torch.cat([branch(y) for branch in m.branches] + [whole], 1)
        return F.log_softmax(m.leave(F.prelu(parts, m.slope)), 1)

    parts = {
        "enter": nn.Conv2d(3, 8, 3),
        "whole": nn.Conv2d(8, 4, 1),
        "branches": nn.ModuleList(nn.Conv2d(8, 4, 3, padding=d, dilation=d) for d in (1, 2, 3)),
        "slope": nn.Parameter(torch.rand(16)),
        "leave": nn.Conv2d(16, 5, 1),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 12, 12),))


@model
def conv3d_video_train() -> OracleModel:
    net = nn.Sequential(
        nn.Conv3d(2, 6, 3, padding=1), nn.BatchNorm3d(6), nn.ReLU(), nn.AvgPool3d(2), nn.Conv3d(6, 4, 1),
        nn.Softplus(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip
    return OracleModel(net, (torch.randn(2, 2, 4, 8, 8),), train=True)


@model
def vector_quantizer_train() -> OracleModel:
    """Nearest codes by distance, passed straight through to the encoder."""

    def forward(m: Any, x: Tensor) -> Any:
        z = m.encode(x)
        flat = z.permute(0, 2, 3, 1).reshape(-1, 6)
        far = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ m.codes.t() + m.codes.pow(2).sum(1)
        near = F.embedding(far.argmin(1), m.codes).view(2, 4, 4, 6).permute(0, 3, 1, 2)
        loss = F.mse_loss(near.detach(), z) * 0.25 + F.mse_loss(near, z.detach())
        return m.decode(z + (near - z).detach()), loss

    parts = {
        "encode": nn.Conv2d(3, 6, 4, 2, 1),
        "codes": nn.Parameter(torch.randn(10, 6)),
        "decode": nn.ConvTranspose2d(6, 3, 4, 2, 1),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 8, 8),), train=True)


@model
def variational_train() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        mean, log_variance = m.encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        bound = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1).mean()
        return F.binary_cross_entropy_with_logits(m.decode(z), x.sigmoid()) + bound

    parts = {
        "encode": nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 8)),
        "decode": nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 12)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(5, 12),), train=True)


# Sequences.


class SelectiveScan(nn.Module):
    """Mamba by hand: a depthwise causal convolution, and a scan whose steps depend on the input."""

    def __init__(self, width: int, state: int):
        super().__init__()
        self.enter, self.leave = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)
        self.conv = nn.Conv1d(2 * width, 2 * width, 4, groups=2 * width, padding=3)
        self.choose, self.step = nn.Linear(2 * width, 2 * state + 2), nn.Linear(2, 2 * width)
        self.log_a = nn.Parameter(torch.log(torch.arange(1.0, state + 1).repeat(2 * width, 1)))
        self.d, self.state = nn.Parameter(torch.ones(2 * width)), state

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.enter(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        rank, b, c = self.choose(u).split([2, self.state, self.state], -1)
        delta = F.softplus(self.step(rank))
        decay = torch.exp(delta[..., None] * -self.log_a.exp())
        drive = delta[..., None] * b[:, :, None] * u[..., None]
        h, out = torch.zeros_like(drive[:, 0]), []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + drive[:, t]
            out.append((h * c[:, t, None]).sum(-1))
        return self.leave((torch.stack(out, 1) + u * self.d) * F.silu(gate))


@model
def selective_scan() -> OracleModel:
    return OracleModel(SelectiveScan(6, 4), (torch.randn(2, 5, 6),))


@model
def selective_scan_train() -> OracleModel:
    return OracleModel(SelectiveScan(6, 4), (torch.randn(2, 4, 6),), train=True)


@model
def linear_attention() -> OracleModel:
    """Attention without a softmax, by sums that run along the sequence."""

    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = (p.unflatten(-1, (2, 4)) for p in m.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        outer = torch.einsum("bshd,bshe->bshde", k, v).cumsum(1)
        norm = (q * k.cumsum(1)).sum(-1, keepdim=True)
        return m.out((torch.einsum("bshd,bshde->bshe", q, outer) / (norm + 1e-6)).flatten(2))

    parts = {"qkv": nn.Linear(8, 24), "out": nn.Linear(8, 8)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 6, 8),))


class RelativeBias(nn.Module):
    """T5's attention: buckets of distances, no scale, RMS norm, and a gated MLP."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads, self.scale = heads, nn.Parameter(torch.ones(width))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.bias = nn.Embedding(8, heads)
        self.wi_0, self.wi_1 = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.wo, self.scale_2 = (
            nn.Linear(2 * width, width, bias=False),
            nn.Parameter(torch.ones(width)),
        )

    @staticmethod
    def norm(x: Tensor, scale: Tensor) -> Tensor:
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return scale * (x * torch.rsqrt(variance + 1e-6))

    @staticmethod
    def bucket(distance: Tensor) -> Tensor:
        result = (distance > 0).to(torch.long) * 4
        distance = distance.abs()
        far = 2 + (torch.log(distance.float() / 2) / math.log(8 / 2) * 2).to(torch.long)
        far = torch.min(far, torch.full_like(far, 3))
        return result + torch.where(distance < 2, distance, far)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, s, w = x.shape
        h = self.norm(x, self.scale)
        q, k, v = (
            p(h).view(b, s, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v)
        )
        at = torch.arange(s)
        bias = self.bias(self.bucket(at[None] - at[:, None])).permute(2, 0, 1).unsqueeze(0)
        bias = bias + (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        weights = F.softmax((q @ k.transpose(3, 2) + bias).float(), -1).type_as(x)
        x = x + self.o((weights @ v).transpose(1, 2).contiguous().view(b, s, w))
        h = self.norm(x, self.scale_2)
        return x + self.wo(F.gelu(self.wi_0(h), approximate="tanh") * self.wi_1(h))


@model
def relative_bias() -> OracleModel:
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    return OracleModel(RelativeBias(16, 2), (torch.randn(2, 7, 16), mask))


@model
def relative_bias_train() -> OracleModel:
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    return OracleModel(RelativeBias(16, 2), (torch.randn(2, 7, 16), mask), train=True)


class Decoder(nn.Module):
    """A Llama's layers with grouped heads, rotary positions and a static cache that a step writes to."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 2, length: int = 12):
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, width
        half = width // heads
        self.embed = nn.Embedding(20, width)
        self.q = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.kv = nn.ModuleList(nn.Linear(width, 2 * groups * half, bias=False) for _ in range(2))
        self.o = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(5))
        self.gate_up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(2))
        frequency = 1.0 / (100 ** (torch.arange(0, half, 2).float() / half))
        angle = torch.outer(torch.arange(length).float(), frequency)
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin())
        for name in ("keys", "values"):
            self.register_buffer(name, torch.randn(2, 1, groups, length, half))

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        b, s = token.shape
        x = self.embed(token)
        cos, sin = self.cos[position], self.sin[position]
        length = self.keys.shape[3]
        mask = torch.arange(length)[None] <= position[:, None]
        for i in range(2):
            h = self.norms[2 * i](x)
            q = self.q[i](h).view(b, s, self.heads, -1).transpose(1, 2)
            k, v = self.kv[i](h).view(b, s, 2, self.groups, -1).permute(2, 0, 3, 1, 4)

            def turn(t: Tensor) -> Tensor:
                one, two = t.chunk(2, -1)
                return t * cos + torch.cat([-two, one], -1) * sin

            q, k = turn(q), turn(k)
            self.keys[i].index_copy_(2, position, k)
            self.values[i].index_copy_(2, position, v)
            k, v = (t[i].repeat_interleave(2, 1) for t in (self.keys, self.values))
            scores = (q @ k.mT) * (q.shape[-1] ** -0.5)
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            x = x + self.o[i]((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, -1))
            gate, up = self.gate_up[i](self.norms[2 * i + 1](x)).chunk(2, -1)
            x = x + self.down[i](F.silu(gate) * up)
        return F.linear(self.norms[4](x), self.embed.weight)


@model
def decoder_static_cache() -> OracleModel:
    return OracleModel(Decoder(), (torch.tensor([[5]]), torch.tensor([4])))


@model
def decoder_prefill() -> OracleModel:
    return OracleModel(Decoder(), (torch.tensor([[5, 6, 1, 9]]), torch.arange(4)))


@model
def decoder_bf16() -> OracleModel:
    net = Decoder().to(torch.bfloat16)
    return OracleModel(net, (torch.tensor([[5, 2]]), torch.tensor([4, 5])))


@model
def bidirectional_lstm() -> OracleModel:
    def forward(m: Any, tokens: Tensor) -> Tensor:
        hidden, (last, _) = m.lstm(m.embed(tokens))
        return m.head(torch.cat([hidden.max(1).values, last[-1], last[-2]], -1))

    parts = {
        "embed": nn.Embedding(30, 6, padding_idx=0),
        "lstm": nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True),
        "head": nn.Linear(20, 3),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randint(0, 30, (2, 3)),))


@model
def gru_cell_train() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], 6)
        loss = x.new_zeros(())
        for t in range(x.shape[1] - 1):
            h = m.cell(x[:, t], h)
            loss = loss + F.smooth_l1_loss(m.head(h), x[:, t + 1])
        return loss / (x.shape[1] - 1)

    parts = {"cell": nn.GRUCell(4, 6), "head": nn.Linear(6, 4)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(3, 4, 4),), train=True)


class WaveBlock(nn.Module):
    def __init__(self, channels: int, dilation: int):
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1d(channels, 2 * channels, 3, dilation=dilation)
        self.out = nn.Conv1d(channels, 2 * channels, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self.conv(F.pad(x, (2 * self.dilation, 0))).chunk(2, 1)
        residual, skip = self.out(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
        return x + residual, skip


class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv1d(1, 6, 1)
        self.blocks = nn.ModuleList(WaveBlock(6, 2**i) for i in range(3))
        self.leave = nn.Sequential(nn.ReLU(), nn.Conv1d(6, 6, 1), nn.ReLU(), nn.Conv1d(6, 8, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        total = torch.zeros_like(x)
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        return self.leave(total)


@model
def wavenet() -> OracleModel:
    return OracleModel(WaveNet(), (torch.randn(2, 1, 20),))


@model
def audio_net_train() -> OracleModel:
    """Frames of a signal, a window, magnitudes by a made transform, and convolutions over time with weight norm."""

    def forward(m: Any, x: Tensor) -> Tensor:
        frames = x.unfold(-1, 16, 8) * m.window
        spectrum = (frames @ m.real).square() + (frames @ m.imaginary).square()
        y = torch.log1p(spectrum.clamp(min=1e-5)).transpose(1, 2)
        weight = m.gain * m.direction / m.direction.flatten(1).norm(dim=1)[:, None, None]
        y = F.glu(F.conv1d(y, weight, padding=1), 1)
        return m.head(F.avg_pool1d(y, 2).mean(-1))

    turn = 2 * math.pi * torch.outer(torch.arange(16.0), torch.arange(9.0)) / 16
    parts = {
        "window": torch.hann_window(16),
        "real": turn.cos(),
        "imaginary": turn.sin(),
        "gain": nn.Parameter(torch.rand(8, 1, 1)),
        "direction": nn.Parameter(torch.randn(8, 9, 3)),
        "head": nn.Linear(4, 3),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 64),), train=True)


# Experts, recommenders, losses.


class RoutedExperts(nn.Module):
    """Top-k routing by a loop over the experts, with a loss that balances them."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 3, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 8)) for _ in range(3)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.view(-1, 8)
        logits = self.gate(flat)
        weights, chosen = torch.topk(logits, 2, -1)
        weights = F.softmax(weights, -1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            part = (weights * (chosen == number)).sum(-1, keepdim=True)
            out = out + part * expert(flat)
        usage = F.one_hot(chosen, 3).float().sum(1).mean(0)
        return out.view_as(x), (usage * logits.softmax(-1).mean(0)).sum() * 3


@model
def routed_experts() -> OracleModel:
    return OracleModel(RoutedExperts(), (torch.randn(2, 5, 8),))


@model
def routed_experts_train() -> OracleModel:
    return OracleModel(RoutedExperts(), (torch.randn(2, 5, 8),), train=True)


@model
def grouped_experts() -> OracleModel:
    """Tokens sorted by their expert, and one grouped product of all."""

    def forward(m: Any, x: Tensor) -> Tensor:
        weight, chosen = m.gate(x).softmax(-1).max(-1)
        order = chosen.argsort()
        ends = F.one_hot(chosen, 4).sum(0).cumsum(0).to(torch.int32)
        y = torch._grouped_mm(x[order].bfloat16(), m.weight.bfloat16(), offs=ends)
        out = torch.zeros(x.shape[0], 16).index_copy(0, order, y.float())
        return out * weight[:, None]

    parts = {"gate": nn.Linear(16, 4), "weight": nn.Parameter(torch.randn(4, 16, 16))}
    return OracleModel(Lambda(forward, **parts), (torch.randn(16, 16),))


@model
def recommender_bags_train() -> OracleModel:
    """Deep factorization: bags of ids, products of all pairs of features, and a tower."""

    def forward(m: Any, dense: Tensor, ids: Tensor, offsets: Tensor) -> Tensor:
        features = [m.bottom(dense)] + [bag(ids[i], offsets) for i, bag in enumerate(m.bags)]
        stacked = torch.stack(features, 1)
        pairs = torch.bmm(stacked, stacked.transpose(1, 2))
        rows, columns = torch.tril_indices(3, 3, offset=-1)
        return m.top(torch.cat([features[0], pairs[:, rows, columns]], 1)).sigmoid().squeeze(1)

    parts = {
        "bottom": nn.Sequential(nn.Linear(5, 6), nn.ReLU()),
        "bags": nn.ModuleList(nn.EmbeddingBag(20, 6, mode=mode) for mode in ("sum", "mean")),
        "top": nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 1)),
    }
    inputs = torch.randn(3, 5), torch.randint(0, 20, (2, 7)), torch.tensor([0, 2, 5])
    return OracleModel(Lambda(forward, **parts), inputs, train=True)


@model
def clip_contrastive_train() -> OracleModel:
    def forward(m: Any, image: Tensor, text: Tensor) -> Tensor:
        a = F.normalize(m.image(image), dim=-1)
        b = F.normalize(m.text(text), dim=-1)
        logits = m.scale.exp().clamp(max=100) * a @ b.t()
        labels = torch.arange(a.shape[0])
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2

    parts = {
        "image": nn.Linear(12, 8),
        "text": nn.Linear(10, 8),
        "scale": nn.Parameter(torch.tensor(2.6)),
    }
    inputs = torch.randn(6, 12), torch.randn(6, 10)
    return OracleModel(Lambda(forward, **parts), inputs, train=True)


@model
def info_nce_views_train() -> OracleModel:
    """SimCLR: two views of each sample, all others are negatives, and itself is masked."""

    def forward(m: Any, one: Tensor, two: Tensor) -> Tensor:
        z = F.normalize(m.head(torch.cat([one, two])), dim=1)
        scores = z @ z.T / 0.5
        n = one.shape[0]
        scores = scores.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
        target = torch.cat([torch.arange(n) + n, torch.arange(n)])
        return F.cross_entropy(scores, target)

    head = nn.Sequential(nn.Linear(8, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 6))
    inputs = torch.randn(4, 8), torch.randn(4, 8)
    return OracleModel(Lambda(forward, head=head), inputs, train=True)


@model
def triplet_distances_train() -> OracleModel:
    """Distances of all pairs, and the hardest positive and negative of each."""

    def forward(m: Any, x: Tensor, label: Tensor) -> Tensor:
        z = m.net(x)
        far = torch.cdist(z, z)
        same = label[:, None] == label[None]
        positive = far.masked_fill(~same, 0.0).amax(1)
        negative = far.masked_fill(same, 1e4).amin(1)
        return F.relu(positive - negative + 0.3).mean()

    inputs = torch.randn(6, 8), torch.tensor([0, 0, 1, 1, 2, 2])
    return OracleModel(Lambda(forward, net=nn.Linear(8, 5)), inputs, train=True)


@model
def ctc_like_losses_train() -> OracleModel:
    """Label smoothing with ignored targets, a divergence to a teacher, and a margin."""

    def forward(m: Any, x: Tensor, y: Tensor, teacher: Tensor) -> Tensor:
        logits = m.net(x)
        a = F.cross_entropy(logits, y, ignore_index=-100, label_smoothing=0.1)
        b = (
            F.kl_div(
                F.log_softmax(logits / 2, -1), F.softmax(teacher / 2, -1), reduction="batchmean"
            )
            * 4
        )
        c = F.huber_loss(logits, teacher, delta=0.5)
        return a + b + c

    net = nn.Sequential(nn.Linear(8, 16), nn.SELU(), nn.Linear(16, 5))
    inputs = torch.randn(6, 8), torch.tensor([0, -100, 1, 4, 2, -100]), torch.randn(6, 5)
    return OracleModel(Lambda(forward, net=net), inputs, train=True)


# A step of training as one graph, shapes, control flow, places written.


@model
def optimizer_step() -> OracleModel:
    """AdamW by hand on the gradients that it is given."""

    def forward(m: Any, p: Tensor, g: Tensor, first: Tensor, second: Tensor, step: Tensor) -> Any:
        g = g * (1.0 / (g.norm() + 1e-6)).clamp(max=1.0)
        first = first.lerp(g, 0.1)
        second = second * 0.999 + g * g * 0.001
        bias_1, bias_2 = 1 - 0.9**step, 1 - 0.999**step
        denominator = (second / bias_2).sqrt() + 1e-8
        return p * (1 - 0.01 * 1e-3) - 1e-3 * (first / bias_1) / denominator, first, second

    inputs = (*(torch.randn(6, 8) for _ in range(3)), torch.rand(6, 8), torch.tensor(3.0))
    return OracleModel(Lambda(forward), inputs)


@model
def dynamic_sequence_train() -> OracleModel:
    def forward(m: Any, x: Tensor, mask: Tensor) -> Tensor:
        h = m.norm(m.enter(x))
        scores = (h @ h.transpose(1, 2)) / h.shape[-1] ** 0.5
        scores = scores + (1 - mask[:, None].float()) * -1e4
        pooled = (scores.softmax(-1) @ h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return m.head(pooled)

    parts = {"enter": nn.Linear(6, 8), "norm": nn.LayerNorm(8), "head": nn.Linear(8, 2)}
    inputs = torch.randn(3, 5, 6), torch.randint(0, 2, (3, 5)).index_fill(1, torch.tensor(0), 1)
    return OracleModel(Lambda(forward, **parts), inputs, train=True, dynamic=True)


@model
def dynamic_images() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = F.relu(m.conv(x), inplace=True)
        y = F.interpolate(y, size=(x.shape[2] // 2, x.shape[3] // 2), mode="bilinear")
        return m.head(y.flatten(2).mean(-1))

    parts = {"conv": nn.Conv2d(3, 6, 3, padding=1), "head": nn.Linear(6, 4)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(3, 3, 10, 14),), dynamic=True)


@model
def early_exit() -> OracleModel:
    """A second block runs only where the first is unsure."""

    def forward(m: Any, x: Tensor) -> Tensor:
        h = F.relu(m.first(x))
        sure = m.exit(h).softmax(-1).amax(-1).mean()

        def more(t: Tensor) -> Tensor:
            return m.exit_2(F.layer_norm(m.second(t).relu() + t, (8,)))

        return torch.cond(sure < 0.9, more, lambda t: m.exit(t) * 1.0, (h,)).log_softmax(-1)

    parts = {
        "first": nn.Linear(6, 8),
        "second": nn.Linear(8, 8),
        "exit": nn.Linear(8, 3),
        "exit_2": nn.Linear(8, 3),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(4, 6),))


@model
def fixed_point_loop() -> OracleModel:
    """Equilibrium by iteration until it no longer changes."""

    def forward(m: Any, x: Tensor) -> Tensor:
        u = m.inject(x)

        def go_on(i: Tensor, z: Tensor, change: Tensor) -> Tensor:
            return (i < 8) & (change > 1e-3)

        def body(i: Tensor, z: Tensor, change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            new = torch.tanh(z @ m.w + u)
            return i + 1, new, (new - z).norm() / new.norm()

        start = (torch.zeros((), dtype=torch.int64), torch.zeros_like(u), torch.ones(()))
        _, z, _ = torch._higher_order_ops.while_loop(go_on, body, start)
        return m.head(z)

    parts = {
        "inject": nn.Linear(6, 8),
        "w": nn.Parameter(torch.randn(8, 8) * 0.2),
        "head": nn.Linear(8, 3),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(4, 6),))


@model
def detection_selection() -> OracleModel:
    """Boxes decoded, the best of each class by sort and top-k, taken by gather and put back by index."""

    def forward(m: Any, x: Tensor, anchors: Tensor) -> Any:
        y = m.head(x)
        boxes, scores = y[..., :4], y[..., 4:].sigmoid()
        centre = boxes[..., :2] * anchors[:, 2:] + anchors[:, :2]
        size = boxes[..., 2:].clamp(max=4).exp() * anchors[:, 2:]
        corners = torch.cat([centre - size / 2, centre + size / 2], -1)
        best, kind = scores.max(-1)
        top, place = best.topk(4, -1)
        taken = corners.gather(1, place[..., None].expand(-1, -1, 4))
        area = (taken[..., 2] - taken[..., 0]).clamp(min=0) * (taken[..., 3] - taken[..., 1]).clamp(
            min=0
        )
        low = torch.maximum(taken[:, :, None, :2], taken[:, None, :, :2])
        high = torch.minimum(taken[:, :, None, 2:], taken[:, None, :, 2:])
        both = (high - low).clamp(min=0).prod(-1)
        overlap = both / (area[:, :, None] + area[:, None] - both + 1e-6)
        order = area.argsort(-1, descending=True)
        marked = torch.zeros_like(best).scatter(1, place, top)
        return (
            taken,
            overlap.triu(1),
            kind.gather(1, place),
            order,
            marked.index_put(
                (torch.tensor([0]), torch.tensor([1])), torch.tensor([9.0]), accumulate=True
            ),
        )

    inputs = torch.randn(2, 9, 6), torch.rand(9, 4) + 0.5
    return OracleModel(Lambda(forward, head=nn.Linear(6, 7)), inputs)


@model
def written_slices() -> OracleModel:
    """What people write in place: parts of a tensor, masked places, rows by index."""

    def forward(m: Any, x: Tensor, at: Tensor) -> Tensor:
        y = m.a(x).clone()
        y[:, 0] = 1.0
        y[:, 1:3] *= 2
        y[at] = y[at] + x[at] @ m.w
        y[y < -1] = 0
        y.clamp_(max=2).add_(m.bias)
        z = y.new_empty(x.shape[0], 12)
        z[:, :8] = y
        z[:, 8:] = y[:, :4].sigmoid()
        return z.flip(-1)

    parts = {
        "a": nn.Linear(6, 8),
        "w": nn.Parameter(torch.randn(6, 8)),
        "bias": nn.Parameter(torch.randn(8)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(5, 6), torch.tensor([0, 3])))


@model
def graph_convolution_train() -> OracleModel:
    def forward(m: Any, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        degree = torch.zeros(7).scatter_add(0, target, torch.ones(12)) + 1
        norm = degree.rsqrt()
        for layer in m.layers:
            h = layer(x)
            message = h[source] * (norm[source] * norm[target])[:, None]
            x = F.relu(
                torch.zeros_like(h).scatter_add(0, target[:, None].expand_as(message), message)
                + h / degree[:, None]
            )
        return m.head(torch.cat([x.mean(0), x.amax(0)]))

    parts = {
        "layers": nn.ModuleList([nn.Linear(5, 8), nn.Linear(8, 8)]),
        "head": nn.Linear(16, 2),
    }
    inputs = torch.randn(7, 5), torch.randint(0, 7, (2, 12))
    return OracleModel(Lambda(forward, **parts), inputs, train=True)


# Few bits.


class WeightInt8(nn.Module):
    def __init__(self, before: int, after: int):
        super().__init__()
        weight = torch.randn(after, before)
        scale = weight.abs().amax(1) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = nn.Parameter(torch.randn(after))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype)) * self.scale + self.bias


@model
def int8_linears() -> OracleModel:
    net = nn.Sequential(WeightInt8(16, 24), nn.GELU(), nn.LayerNorm(24), WeightInt8(24, 8))
    return OracleModel(net, (torch.randn(5, 16),))


@model
def int8_linears_bf16() -> OracleModel:
    net = nn.Sequential(WeightInt8(16, 24), nn.ReLU(), WeightInt8(24, 8)).to(torch.bfloat16)
    return OracleModel(net, (torch.randn(5, 16, dtype=torch.bfloat16),))


@model
def int4_grouped() -> OracleModel:
    """Four bits a weight, low and high halves of a byte, in groups with a scale and a zero of their own."""

    def forward(m: Any, x: Tensor) -> Tensor:
        low, high = m.packed & 0xF, (m.packed >> 4) & 0xF
        whole = torch.stack([low, high], -1).reshape(8, -1)
        grouped = (whole.view(8, 4, 4) - m.zero[..., None]).to(torch.float32) * m.scale[..., None]
        return F.linear(x, grouped.reshape(8, 16), m.bias).tanh()

    parts = {
        "packed": torch.randint(0, 256, (8, 8), dtype=torch.uint8),
        "zero": torch.randint(0, 16, (8, 4), dtype=torch.uint8),
        "scale": torch.rand(8, 4),
        "bias": nn.Parameter(torch.randn(8)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(5, 16),))


@model
def fake_quantized_train() -> OracleModel:
    """Training that rounds as it will be rounded: gradients pass straight through."""

    def forward(m: Any, x: Tensor) -> Tensor:
        def rounded(t: Tensor) -> Tensor:
            scale = t.detach().abs().max() / 7
            return t + ((t / scale).round().clamp(-8, 7) * scale - t).detach()

        return F.hardtanh(F.linear(rounded(x), rounded(m.w), m.b))

    parts = {"w": nn.Parameter(torch.randn(8, 6)), "b": nn.Parameter(torch.randn(8))}
    return OracleModel(Lambda(forward, **parts), (torch.randn(4, 6),), train=True)


@model
def scaled_fp8() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        scale = x.abs().max() / 448
        small = (x / scale).to(torch.float8_e4m3fn)
        y = torch._scaled_mm(
            small, m.weight.t(), scale_a=scale, scale_b=m.scale, out_dtype=torch.bfloat16
        )
        return F.relu(y.float())

    parts = {
        "weight": torch.randn(16, 32).to(torch.float8_e4m3fn),
        "scale": torch.tensor(0.5),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(16, 32),))


@model
def complex_positions() -> OracleModel:
    """Rotary positions by products of complex numbers, as Llama's first code had them."""

    def forward(m: Any, x: Tensor) -> Tensor:
        q = torch.view_as_complex(m.q(x).view(2, 5, 2, 4, 2))
        turned = torch.view_as_real(q * m.turn[None, :, None]).flatten(3)
        return m.out(turned.flatten(2))

    angle = torch.outer(torch.arange(5.0), 1 / 100 ** (torch.arange(4.0) / 4))
    parts = {
        "q": nn.Linear(16, 16),
        "out": nn.Linear(16, 16),
        "turn": torch.polar(torch.ones_like(angle), angle),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 5, 16),))


@model
def spectral_mixing() -> OracleModel:
    """Mixing of tokens by a Fourier transform, with learned filters."""

    def forward(m: Any, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(m.norm(x), dim=1)
        filtered = torch.view_as_real(spectrum) * m.gain[:, None, None]
        return x + m.mlp(torch.fft.irfft(torch.view_as_complex(filtered), n=8, dim=1))

    parts = {
        "norm": nn.LayerNorm(6),
        "gain": nn.Parameter(torch.rand(5)),
        "mlp": nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 8, 6),))


@model
def gradient_penalty_train() -> OracleModel:
    """Norms of Jacobians by forward mode, which functorch writes out."""

    def forward(m: Any, x: Tensor) -> Tensor:
        def one(row: Tensor) -> Tensor:
            return (torch.tanh(row @ m.w) @ m.v).sum()

        slopes = torch.func.vmap(torch.func.grad(one))(x)
        return one(x) + (slopes.norm(dim=-1) - 1).square().mean()

    parts = {"w": nn.Parameter(torch.randn(4, 6)), "v": nn.Parameter(torch.randn(6, 2))}
    return OracleModel(Lambda(forward, **parts), (torch.randn(5, 4),), train=True, exports=False)


# After the first of these had taught something: what they show is held out of that as well.


@model
def later_perceiver_train() -> OracleModel:
    """Learned queries read a longer sequence, with a norm of queries and keys and a learned scale."""

    def forward(m: Any, x: Tensor) -> Tensor:
        q = m.q(m.latents).unflatten(-1, (2, 6)).transpose(0, 1).expand(x.shape[0], -1, -1, -1)
        k, v = m.kv(x).unflatten(-1, (2, 2, 6)).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        scores = (q @ k.mT * m.scale.exp()[:, None, None]).softmax(-1)
        h = m.latents + m.out((scores @ v).transpose(1, 2).flatten(2))
        return m.head((h + m.mlp(h)).mean(1))

    parts = {
        "latents": nn.Parameter(torch.randn(4, 12)),
        "q": nn.Linear(12, 12),
        "kv": nn.Linear(9, 24),
        "scale": nn.Parameter(torch.zeros(2)),
        "out": nn.Linear(12, 12),
        "mlp": nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12)),
        "head": nn.Linear(12, 3),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 10, 9),), train=True)


@model
def later_convnext_train() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        x = m.stem(x)
        for dw, norm, up, down, gamma in zip(m.dw, m.norms, m.ups, m.downs, m.gammas, strict=True):
            h = norm(dw(x).permute(0, 2, 3, 1))
            g = F.gelu(up(h))
            n = g.norm(dim=(1, 2), keepdim=True)
            g = g * (n / (n.mean(-1, keepdim=True) + 1e-6)) + g
            x = x + (down(g) * gamma).permute(0, 3, 1, 2)
        return m.head(x.mean((2, 3)))

    parts = {
        "stem": nn.Conv2d(3, 8, 2, 2),
        "dw": nn.ModuleList(nn.Conv2d(8, 8, 5, padding=2, groups=8) for _ in range(2)),
        "norms": nn.ModuleList(nn.LayerNorm(8, eps=1e-6) for _ in range(2)),
        "ups": nn.ModuleList(nn.Linear(8, 16) for _ in range(2)),
        "downs": nn.ModuleList(nn.Linear(16, 8) for _ in range(2)),
        "gammas": nn.ParameterList(torch.randn(8) for _ in range(2)),
        "head": nn.Linear(8, 4),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 12, 12),), train=True)


@model
def later_speculative_step() -> OracleModel:
    """Tokens that are drawn from what top-k and nucleus leave, and accepted against a draft."""

    def forward(m: Any, hidden: Tensor, draft: Tensor, u: Tensor) -> Any:
        logits = m.head(m.norm(hidden)) / 0.8
        kept = logits.topk(6, -1).values[..., -1:]
        logits = logits.masked_fill(logits < kept, -torch.inf)
        ordered, index = logits.softmax(-1).sort(-1, descending=True)
        mask = (ordered.cumsum(-1) - ordered) > 0.9
        p = torch.zeros_like(ordered).scatter(-1, index, ordered.masked_fill(mask, 0.0))
        p = p / p.sum(-1, keepdim=True)
        taken = p.gather(-1, draft[..., None]).squeeze(-1)
        accepted = (u < taken).long().cumprod(-1)
        return accepted.sum(-1), torch.where(accepted.bool(), draft, p.argmax(-1))

    parts = {"norm": nn.RMSNorm(8), "head": nn.Linear(8, 16, bias=False)}
    inputs = torch.randn(2, 3, 8), torch.randint(0, 16, (2, 3)), torch.rand(2, 3)
    return OracleModel(Lambda(forward, **parts), inputs)


@model
def later_retention_chunks() -> OracleModel:
    """Gated linear attention in chunks, each with the state that the one before it left."""

    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v, g = m.qkvg(x).chunk(4, -1)
        decay = F.logsigmoid(m.decay(x)) / 4
        state = x.new_zeros(x.shape[0], 8, 8)
        out = []
        for part in range(2):
            at = slice(4 * part, 4 * part + 4)
            total = decay[:, at].cumsum(1)
            a, b = q[:, at] * total.exp(), k[:, at] * (-total).exp()
            inside = (a @ b.mT).tril() @ v[:, at]
            out.append(inside + a @ state)
            last = total[:, -1:]
            state = state * last.mT.exp() + (k[:, at] * (last - total).exp()).mT @ v[:, at]
        y = torch.cat(out, 1)
        return m.out(F.rms_norm(y, (8,)) * F.silu(g))

    parts = {"qkvg": nn.Linear(8, 32), "decay": nn.Linear(8, 8), "out": nn.Linear(8, 8)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 8, 8),))


@model
def later_mixture_density_train() -> OracleModel:
    def forward(m: Any, x: Tensor, y: Tensor) -> Tensor:
        weight, mean, scale = m.net(x).chunk(3, -1)
        scale = F.softplus(scale) + 1e-3
        log = -0.5 * ((y - mean) / scale).square() - scale.log() - 0.919
        return -torch.logsumexp(log + F.log_softmax(weight, -1), -1).mean()

    net = nn.Sequential(nn.Linear(5, 16), nn.Mish(), nn.Dropout(0.2), nn.Linear(16, 12))
    inputs = torch.randn(8, 5), torch.randn(8, 1)
    return OracleModel(Lambda(forward, net=net), inputs, train=True)


@model
def later_point_cloud() -> OracleModel:
    """Neighbours by distance, edge features, and a maximum over them."""

    def forward(m: Any, x: Tensor) -> Tensor:
        square = (x * x).sum(-1)
        far = square[:, :, None] + square[:, None] - 2 * x @ x.mT
        near = far.topk(3, -1, largest=False).indices
        rows = torch.arange(x.shape[0])[:, None, None]
        around = x[rows, near]
        edges = torch.cat([around - x[:, :, None], x[:, :, None].expand_as(around)], -1)
        h = F.leaky_relu(m.edge(edges), 0.2).amax(2)
        return m.head(torch.cat([h.amax(1), h.mean(1)], -1))

    parts = {"edge": nn.Linear(6, 8), "head": nn.Linear(16, 4)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 9, 3),))


@model
def later_autocast_unet_train() -> OracleModel:
    def forward(m: Any, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = F.silu(m.norm(m.a(x)))
            b = F.silu(m.b(F.max_pool2d(a, 2)))
            b = F.interpolate(b, scale_factor=2, mode="nearest")
            y = m.c(torch.cat([a, b], 1))
        return F.l1_loss(y.float(), x)

    parts = {
        "a": nn.Conv2d(3, 8, 3, padding=1),
        "norm": nn.GroupNorm(2, 8),
        "b": nn.Conv2d(8, 8, 3, padding=1),
        "c": nn.Conv2d(16, 3, 1),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 8, 8),), train=True)


@model
def later_hash_encoding() -> OracleModel:
    """Places of a grid by whole numbers that are multiplied, mixed and cut, as instant-ngp looks features up."""

    def forward(m: Any, x: Tensor) -> Tensor:
        out = []
        for level in range(2):
            scaled = x * (4 * 2**level)
            low = scaled.floor()
            part = scaled - low
            value: Any = 0
            for corner in range(4):
                offset = torch.tensor([corner & 1, corner >> 1])
                at = low.long() + offset
                key = (at[:, 0] ^ (at[:, 1] * 2654435761)) & 15
                near = torch.where(offset.bool(), part, 1 - part).prod(-1, keepdim=True)
                value = value + m.table[level][key] * near
            out.append(value)
        return m.net(torch.cat(out, -1))

    parts = {
        "table": nn.Parameter(torch.randn(2, 16, 2)),
        "net": nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.rand(6, 2),))
