"""Small models whose repeats are known, for the tests of deduplication."""

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GroupedAttention(nn.Module):
    """Causal attention with fewer key and value heads than query heads, and rotary positions."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q_proj = nn.Linear(width, heads * self.size, bias=False)
        self.k_proj = nn.Linear(width, groups * self.size, bias=False)
        self.v_proj = nn.Linear(width, groups * self.size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, width = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        q, k = (self.rotate(part, cos, sin) for part in (q, k))
        k = k.repeat_interleave(self.heads // self.groups, dim=1)
        v = v.repeat_interleave(self.heads // self.groups, dim=1)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(attended.transpose(1, 2).reshape(batch, length, width))

    @staticmethod
    def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin


class GatedMLP(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    """A pre-norm decoder layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input_norm = nn.RMSNorm(width)
        self.attention = GroupedAttention(width, heads=4, groups=2)
        self.post_norm = nn.RMSNorm(width)
        self.mlp = GatedMLP(width, 2 * width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.input_norm(x), cos, sin)
        return x + self.mlp(self.post_norm(x))


class Llama(nn.Module):
    """Decoder layers that share one table of rotary positions, computed first."""

    def __init__(self, layers: int = 4, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.layers = nn.ModuleList(LlamaLayer(width) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, 64, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        angles = torch.arange(ids.shape[1])[:, None] * torch.arange(4)[None, :].float().exp().neg()
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class ResidualBlock(nn.Module):
    """Two convolutions and a shortcut, which is a convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """Three stages; the first block of the second and the third differs from the others."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.stage1 = nn.Sequential(*(ResidualBlock(8, 8, 1) for _ in range(3)))
        self.stage2 = nn.Sequential(
            ResidualBlock(8, 16, 2), *(ResidualBlock(16, 16, 1) for _ in range(3))
        )
        self.stage3 = nn.Sequential(
            ResidualBlock(16, 32, 2), *(ResidualBlock(32, 32, 1) for _ in range(2))
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage3(self.stage2(self.stage1(self.stem(x))))
        return self.head(x.mean(dim=(2, 3)))


class Transformer(nn.Module):
    """PyTorch's own encoder and decoder layers; each decoder layer reads the encoder's output."""

    def __init__(self, layers: int = 3, width: int = 32) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(EncoderLayer(width) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(width) for _ in range(layers))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        for layer in self.encoder:
            source = layer(source)
        for layer in self.decoder:
            target = layer(target, source)
        return target


class CrossAttention(nn.Module):
    """Attention from one sequence to another, or to itself."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, causal: bool) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(attended.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward part, post-norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = CrossAttention(width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, x, False))
        return self.norm2(x + self.down(F.relu(self.up(x))))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder, a feed-forward part."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.self_attention = CrossAttention(width)
        self.cross_attention = CrossAttention(width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        x = self.norm1(x + self.self_attention(x, x, True))
        x = self.norm2(x + self.cross_attention(x, memory, False))
        return self.norm3(x + self.down(F.gelu(self.up(x))))


class MixtureLayer(nn.Module):
    """Every token goes to its best expert; the experts run one after the other on all tokens, masked."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(GatedMLP(width, 2 * width) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = self.router(x).softmax(-1).max(-1, keepdim=True)
        result = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            result = result + expert(x) * (weight * (chosen == index))
        return x + result


class Mixture(nn.Module):
    """Layers of experts."""

    def __init__(self, layers: int = 3, width: int = 16, experts: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(MixtureLayer(width, experts) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class PreNormLayer(nn.Module):
    """A pre-norm encoder layer as in BERT's and ViT's successors; dropout as exporters meet it, switched off."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Patches, a class token, positions, layers."""

    def __init__(self, layers: int = 12, width: int = 32) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 17, width))
        self.blocks = nn.ModuleList(PreNormLayer(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class BertLayer(nn.Module):
    """Post-norm attention with scores written out and a mask that all layers share."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.view(y.shape[0], y.shape[1], self.heads, self.size).permute(0, 2, 1, 3)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.size**0.5 + mask
        y = torch.matmul(scores.softmax(-1), v).permute(0, 2, 1, 3).contiguous().view(x.shape)
        x = self.norm1(self.out(y) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class Bert(nn.Module):
    """Three embeddings, layers with a mask, a pooled head."""

    def __init__(self, layers: int = 12, width: int = 32) -> None:
        super().__init__()
        self.words, self.types = nn.Embedding(64, width), nn.Embedding(2, width)
        self.positions = nn.Embedding(16, width)
        self.norm = nn.LayerNorm(width)
        self.layer = nn.ModuleList(BertLayer(width) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        mask = (1.0 - attention_mask[:, None, None, :].float()) * -1e9
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        x = self.norm(x + self.types(torch.zeros_like(ids)))
        for layer in self.layer:
            x = layer(x, mask)
        return x, self.pooler(x[:, 0]).tanh()


class T5Norm(nn.Module):
    """A norm without mean and bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class T5Attention(nn.Module):
    """Attention with a bias on the scores; in the decoder's second half keys and values come from the encoder."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, bias: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        scores = split(self.q(x)) @ split(self.k(memory)).transpose(3, 2) + bias
        return self.o((scores.softmax(-1) @ split(self.v(memory))).transpose(1, 2).flatten(2))


class T5Layer(nn.Module):
    """One layer of the encoder, or of the decoder where there is an encoder's output."""

    def __init__(self, width: int, *, decodes: bool) -> None:
        super().__init__()
        self.norm1, self.attention = T5Norm(width), T5Attention(width)
        if decodes:
            self.norm2, self.cross = T5Norm(width), T5Attention(width)
        self.norm3 = T5Norm(width)
        self.wi, self.wo = nn.Linear(width, 64, bias=False), nn.Linear(64, width, bias=False)

    def forward(
        self, x: Tensor, bias: Tensor, memory: Tensor | None = None, zero: Tensor | None = None
    ) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, bias)
        if memory is not None and zero is not None:
            x = x + self.cross(self.norm2(x), memory, zero)
        return x + self.wo(F.relu(self.wi(self.norm3(x))))


class T5(nn.Module):
    """Encoder and decoder with relative positions that are looked up once and added in every layer."""

    def __init__(self, layers: int = 6, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.bias1, self.bias2 = nn.Embedding(32, 4), nn.Embedding(32, 4)
        self.encoder = nn.ModuleList(T5Layer(width, decodes=False) for _ in range(layers))
        self.decoder = nn.ModuleList(T5Layer(width, decodes=True) for _ in range(layers))
        self.norm1, self.norm2 = T5Norm(width), T5Norm(width)

    @staticmethod
    def relative(length: int, table: nn.Embedding) -> Tensor:
        places = torch.arange(length)
        return table((places[None, :] - places[:, None]).abs()).permute(2, 0, 1)[None]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        bias = self.relative(source.shape[1], self.bias1)
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, bias)
        memory = self.norm1(x)
        length = target.shape[1]
        causal = torch.full((length, length), float("-inf")).triu(1)
        bias = self.relative(length, self.bias2) + causal
        zero = torch.zeros(1, 1, length, source.shape[1])
        y = self.embed(target)
        for layer in self.decoder:
            y = layer(y, bias, memory, zero)
        return self.norm2(y) @ self.embed.weight.t()


class ConvNextBlock(nn.Module):
    """A depthwise convolution and a scaled MLP on the last axis."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + (self.gamma * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """Four stages of 3, 3, 9 and 3 blocks with another width each."""

    def __init__(self) -> None:
        super().__init__()
        widths, depths = (8, 16, 24, 32), (3, 3, 9, 3)
        self.stem = nn.Conv2d(3, 8, 2, 2)
        self.downs = nn.ModuleList(nn.Conv2d(a, b, 2, 2) for a, b in pairwise(widths))
        self.stages = nn.ModuleList(
            nn.Sequential(*(ConvNextBlock(width) for _ in range(depth)))
            for width, depth in zip(widths, depths, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stages[0](self.stem(x))
        for down, stage in zip(self.downs, self.stages[1:], strict=True):
            x = stage(down(x))
        return x.mean((2, 3))


class SwinBlock(nn.Module):
    """Attention in windows, which every other block shifts: two blocks make what repeats."""

    def __init__(self, width: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.size, self.window, self.shift = size, window, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(2, window**2, window**2))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        count, window = self.size // self.window, self.window
        y = self.norm1(x).view(batch, self.size, self.size, width)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = y.view(batch, count, window, count, window, width).permute(0, 1, 3, 2, 4, 5)
        qkv = self.qkv(y.reshape(-1, window**2, width)).unflatten(-1, (3, 2, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1) + self.bias).softmax(-1)
        y = self.proj((scores @ v).transpose(1, 2).flatten(2))
        y = y.view(batch, count, count, window, window, width).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(batch, self.size, self.size, width)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y.reshape(batch, length, width)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Swin(nn.Module):
    """One stage of three pairs of blocks."""

    def __init__(self, pairs: int = 3, width: int = 16, size: int = 8) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 2, 2)
        self.blocks = nn.ModuleList(
            SwinBlock(width, size, 4, 2 * (index % 2)) for index in range(2 * pairs)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return x.mean(1)


class DoubleConv(nn.Module):
    """Two convolutions with norms, as in each level of a U-Net."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(inputs, outputs, 3, 1, 1),
            nn.Conv2d(outputs, outputs, 3, 1, 1),
        )
        self.norm1, self.norm2 = nn.GroupNorm(4, outputs), nn.GroupNorm(4, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.norm2(self.second(F.silu(self.norm1(self.first(x))))))


class UNet(nn.Module):
    """A way down and a way up with skips; the middle has blocks that repeat."""

    def __init__(self, middle: int = 4) -> None:
        super().__init__()
        self.down = nn.ModuleList((DoubleConv(3, 8), DoubleConv(8, 16), DoubleConv(16, 32)))
        self.middle = nn.ModuleList(DoubleConv(32, 32) for _ in range(middle))
        self.up = nn.ModuleList((DoubleConv(64, 16), DoubleConv(32, 8), DoubleConv(16, 8)))

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        for block in self.middle:
            x = x + block(x)
        for block, skip in zip(self.up, reversed(skips), strict=True):
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat((x, skip), 1))
        return x


class LSTMStack(nn.Module):
    """Cells written out: every step of every layer is the same work."""

    def __init__(self, layers: int = 2, width: int = 16) -> None:
        super().__init__()
        self.cells = nn.ModuleList(nn.LSTMCell(width, width) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        steps = list(x.unbind(1))
        for cell in self.cells:
            h = c = x.new_zeros(x.shape[0], x.shape[2])
            for index, step in enumerate(steps):
                gates = F.linear(step, cell.weight_ih, cell.bias_ih)
                gates = gates + F.linear(h, cell.weight_hh, cell.bias_hh)
                i, f, g, o = gates.chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                steps[index] = h
        return torch.stack(steps, 1)


class MambaBlock(nn.Module):
    """A gated block whose state runs over the steps one by one."""

    def __init__(self, width: int, state: int = 4) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.in_proj = nn.Linear(width, 2 * width, bias=False)
        self.conv = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.x_proj = nn.Linear(width, 1 + 2 * state, bias=False)
        self.dt = nn.Linear(1, width)
        self.decay = nn.Parameter(torch.zeros(width, state))
        self.skip = nn.Parameter(torch.ones(width))
        self.out_proj = nn.Linear(width, width, bias=False)
        self.state = state

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.in_proj(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        dt, b, c = self.x_proj(u).split((1, self.state, self.state), -1)
        dt = F.softplus(self.dt(dt))
        decay = torch.exp(dt[..., None] * -self.decay.exp())
        step = (dt * u)[..., None] * b[:, :, None, :]
        h = torch.zeros_like(step[:, 0])
        outputs = []
        for index in range(x.shape[1]):
            h = decay[:, index] * h + step[:, index]
            outputs.append((h * c[:, index, None, :]).sum(-1))
        y = torch.stack(outputs, 1) + u * self.skip
        return x + self.out_proj(y * F.silu(gate))


class Mamba(nn.Module):
    """Blocks with a scan over six steps in each."""

    def __init__(self, layers: int = 4, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.layers = nn.ModuleList(MambaBlock(width) for _ in range(layers))
        self.norm = nn.RMSNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        hidden = 4 * inputs
        self.expand = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden)
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
        )
        self.reduce, self.restore = nn.Conv2d(hidden, 4, 1), nn.Conv2d(4, hidden, 1)
        self.project = nn.Sequential(
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.depthwise(F.silu(self.expand(x))))
        y = y * self.restore(F.silu(self.reduce(y.mean((2, 3), keepdim=True)))).sigmoid()
        y = self.project(y)
        return x + y if self.adds else y


class EfficientNet(nn.Module):
    """Stages whose first block has other widths and strides."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.stage1 = nn.Sequential(
            InvertedResidual(8, 12, 2), *(InvertedResidual(12, 12, 1) for _ in range(3))
        )
        self.stage2 = nn.Sequential(
            InvertedResidual(12, 16, 2), *(InvertedResidual(16, 16, 1) for _ in range(4))
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.stage2(self.stage1(self.stem(x))).mean((2, 3))


class Towers(nn.Module):
    """Two stacks that run side by side and meet at the end: their nodes may be recorded in each other's midst."""

    def __init__(self, layers: int = 3, width: int = 32) -> None:
        super().__init__()
        self.query = nn.ModuleList(EncoderLayer(width) for _ in range(layers))
        self.document = nn.ModuleList(EncoderLayer(width) for _ in range(layers))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for query, document in zip(self.query, self.document, strict=True):
            x, y = query(x), document(y)
        return (x.mean(1) * y.mean(1)).sum(-1)


def _ids(rows: int, length: int) -> Tensor:
    return torch.randint(0, 64, (rows, length))


class RecurrentLayer(nn.Module):
    """A gated convolution over time and a feed-forward part, as layers between those of attention are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.conv = nn.Conv1d(width, width, 3, padding=1, groups=width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        mixed = self.conv(self.value(y).transpose(1, 2)).transpose(1, 2)
        x = x + mixed * torch.sigmoid(self.gate(y))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Hybrid(nn.Module):
    """Recurrent layers and layers of attention in turn."""

    def __init__(self, turns: str, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            RecurrentLayer(width) if turn == "L" else PreNormLayer(width) for turn in turns
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class MaskedAttention(nn.Module):
    """Rotary attention that makes its mask itself, where it looks at a few neighbours only: what differs stands in the layer's midst."""

    def __init__(self, width: int, window: int | None) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.window = window

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part(x).view(batch, length, 4, -1).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        cos, sin = cos[:, : q.shape[-1]], sin[:, : q.shape[-1]]
        q, k = (GroupedAttention.rotate(part, cos, sin) for part in (q, k))
        scores = q @ k.transpose(-1, -2) / 2.0
        if self.window:
            place = torch.arange(length)
            near = (place[:, None] - place[None]).abs() < self.window
            scores = scores.masked_fill(~near, -1e9)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2)
        return self.o(mixed.reshape(batch, length, width))


class MeanSquareNorm(nn.Module):
    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon))


class MaskedLayer(nn.Module):
    def __init__(self, width: int, window: int | None, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.before, self.behind = (MeanSquareNorm(width, epsilon) for _ in range(2))
        self.mix, self.mlp = MaskedAttention(width, window), GatedMLP(width, 2 * width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.mix(self.before(x), cos, sin)
        return x + self.mlp(self.behind(x))


class MaskedStack(nn.Module):
    """Local and global layers as `order` says: L and G, l and g where the norms have another epsilon."""

    def __init__(self, order: str, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            MaskedLayer(width, 4 if kind in "Ll" else None, 1e-6 if kind.isupper() else 1e-5)
            for kind in order
        )
        self.norm = MeanSquareNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(x.shape[1]).float(), 0.1 ** torch.arange(8))
        cos, sin = angles.cos(), angles.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class MaskedTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = MaskedStack("LLG"), MaskedStack("LGLG")

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.first(x) * self.second(y)).sum(-1)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "llama": lambda: (Llama(), (_ids(2, 8),)),
    "resnet": lambda: (ResNet(), (torch.randn(2, 3, 16, 16),)),
    "transformer": lambda: (Transformer(), (torch.randn(2, 8, 32), torch.randn(2, 6, 32))),
    "mixture": lambda: (Mixture(), (torch.randn(2, 8, 16),)),
    "vit": lambda: (VisionTransformer(), (torch.randn(2, 3, 16, 16),)),
    "bert": lambda: (Bert(), (_ids(2, 8), torch.ones(2, 8, dtype=torch.int64))),
    "t5": lambda: (T5(), (_ids(2, 8), _ids(2, 6))),
    "convnext": lambda: (ConvNext(), (torch.randn(1, 3, 64, 64),)),
    "swin": lambda: (Swin(), (torch.randn(2, 3, 16, 16),)),
    "unet": lambda: (UNet(), (torch.randn(1, 3, 32, 32),)),
    "lstm": lambda: (LSTMStack(), (torch.randn(2, 6, 16),)),
    "mamba": lambda: (Mamba(), (_ids(2, 6),)),
    "towers": lambda: (Towers(), (torch.randn(2, 8, 32), torch.randn(2, 8, 32))),
    "efficientnet": lambda: (EfficientNet(), (torch.randn(2, 3, 32, 32),)),
    "turns": lambda: (Hybrid("LLLLLGLLLLLG"), (torch.randn(2, 8, 32),)),
    "irregular": lambda: (Hybrid("LLGLLLGLGLLLLG"), (torch.randn(2, 8, 32),)),
    "tail": lambda: (Hybrid("LG" * 4 + "LL"), (torch.randn(2, 8, 32),)),
    "masked": lambda: (MaskedStack("LLGLLLGLGLLLLG"), (torch.randn(2, 8, 16),)),
    "masked-growing": lambda: (MaskedStack("LGLLGLLLGLLLLG"), (torch.randn(2, 8, 16),)),
    "masked-towers": lambda: (MaskedTowers(), (torch.randn(2, 8, 16), torch.randn(2, 8, 16))),
    "epsilons": lambda: (MaskedStack("GgGGgGG"), (torch.randn(2, 8, 16),)),
    "masked-pairs": lambda: (MaskedStack("LGGLLGG"), (torch.randn(2, 8, 16),)),
}


def build(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model of that name, for inference, and its inputs."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model.eval(), inputs
