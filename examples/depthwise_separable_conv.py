"""MobileNet's building block three times over: a depthwise and a pointwise convolution, memory-bound on a GPU."""

import torch
from torch import Tensor, nn


class SeparableConv(nn.Module):
    """Depthwise 3×3, BatchNorm, ReLU6, then pointwise 1×1, BatchNorm, ReLU6."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(
            channels_in, channels_in, 3, padding=1, groups=channels_in, bias=False
        )
        self.bn_dw = nn.BatchNorm2d(channels_in)
        self.pointwise = nn.Conv2d(channels_in, channels_out, 1, bias=False)
        self.bn_pw = nn.BatchNorm2d(channels_out)
        self.act = nn.ReLU6()

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.bn_dw(self.depthwise(x)))
        return self.act(self.bn_pw(self.pointwise(x)))


class SeparableStack(nn.Module):
    """Three blocks, 32 → 64 → 128 → 256 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            SeparableConv(32, 64), SeparableConv(64, 128), SeparableConv(128, 256)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """The model and a 16 × 32 × 56 × 56 input on a GPU; 4 images on a CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = SeparableStack().eval().to(device)
    batch = 16 if device == "cuda" else 4
    return model, torch.randn(batch, 32, 56, 56).to(device)
