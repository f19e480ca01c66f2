"""The network of a diffusion model, written by hand: group norms, steps of time as sines, attention by einsum, joined skips."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions, moved by the step of time between them."""

    def __init__(self, taken: int, given: int, time: int) -> None:
        super().__init__()
        self.first_norm, self.first = nn.GroupNorm(8, taken), nn.Conv2d(taken, given, 3, padding=1)
        self.shift = nn.Linear(time, given)
        self.second_norm, self.second = (
            nn.GroupNorm(8, given),
            nn.Conv2d(given, given, 3, padding=1),
        )
        self.skip = nn.Conv2d(taken, given, 1) if taken != given else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.first(functional.silu(self.first_norm(x)))
        hidden = hidden + self.shift(functional.silu(time))[:, :, None, None]
        result: torch.Tensor = self.skip(x) + self.second(functional.silu(self.second_norm(hidden)))
        return result


class Attention(nn.Module):
    """Every place of an image attends to all of them."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, channels), heads
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        size = channels // self.heads
        parts = self.qkv(self.norm(x)).reshape(batch, 3, self.heads, size, height * width)
        query, key, value = parts.unbind(1)
        scores = torch.einsum("bhdi,bhdj->bhij", query, key) * size**-0.5
        mixed = torch.einsum("bhij,bhdj->bhdi", torch.softmax(scores, -1), value)
        result: torch.Tensor = x + self.out(mixed.reshape(batch, channels, height, width))
        return result


class UNet(nn.Module):
    """Three levels of an image and back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, time = width, 4 * width
        self.begin = nn.Conv2d(3, width, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        down = [(width, width), (width, 2 * width), (2 * width, 4 * width)]
        up = [(8 * width, 2 * width), (4 * width, width), (2 * width, width)]
        self.down = nn.ModuleList(Block(*sizes, time) for sizes in down)
        self.middle, self.attention = Block(4 * width, 4 * width, time), Attention(4 * width, 4)
        self.up = nn.ModuleList(Block(*sizes, time) for sizes in up)
        self.end = nn.Sequential(
            nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)
        )

    def forward(self, x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        half = self.width // 2
        rates = torch.exp(-torch.arange(half, device=x.device) * (9.2 / half))
        angles = step[:, None].float() * rates[None]
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        kept = []
        x = self.begin(x)
        for level, block in enumerate(self.down):
            x = block(functional.avg_pool2d(x, 2) if level else x, time)
            kept.append(x)
        x = self.attention(self.middle(x, time))
        for level, block in enumerate(self.up):
            x = functional.interpolate(x, scale_factor=2.0) if level else x
            x = block(torch.cat([x, kept.pop()], 1), time)
        result: torch.Tensor = self.end(x)
        return result


def get_model_and_input() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """Four images of 64 × 64 on a GPU; one of 16 × 16 on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    model = UNet(64 if gpu else 16)
    images = torch.randn(4, 3, 64, 64) if gpu else torch.randn(1, 3, 16, 16)
    steps = torch.randint(0, 1000, (len(images),))
    return model.eval().to(device), (images.to(device), steps.to(device))
