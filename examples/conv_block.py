"""A small image classifier: three 3×3 convolutions, each with BatchNorm and ReLU, pooled into ten classes."""

import torch
from torch import Tensor, nn


class ConvBNReLU(nn.Module):
    """A 3×3 convolution without bias, its BatchNorm and a ReLU."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channels_out)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(x)))


class ConvClassifier(nn.Module):
    """3 → 64 → 128, halved by MaxPool, → 256 channels → global average → 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stage1 = ConvBNReLU(3, 64)
        self.stage2 = nn.Sequential(ConvBNReLU(64, 128), nn.MaxPool2d(2))
        self.stage3 = nn.Sequential(ConvBNReLU(128, 256), nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage1(x)
        x = self.stage2(x)
        x = self.stage3(x)
        return self.classifier(x.flatten(1))


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """The model and a 16 × 3 × 64 × 64 input on a GPU; 4 images on a CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = ConvClassifier().eval().to(device)
    batch = 16 if device == "cuda" else 4
    return model, torch.randn(batch, 3, 64, 64).to(device)
