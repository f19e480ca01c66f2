"""Small models whose repeats are known, for the tests of deduplication."""

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


def build(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model of that name and its inputs."""
    torch.manual_seed(0)
    if name == "llama":
        return Llama().eval(), (torch.randint(0, 64, (2, 8)),)
    if name == "resnet":
        return ResNet().eval(), (torch.randn(2, 3, 16, 16),)
    if name == "transformer":
        return Transformer().eval(), (torch.randn(2, 8, 32), torch.randn(2, 6, 32))
    if name == "mixture":
        return Mixture().eval(), (torch.randn(2, 8, 16),)
    raise ValueError(name)
