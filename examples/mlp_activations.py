"""Four linear layers, each with another activation: pointwise work that wants to be part of its GEMM."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ActivationMLP(nn.Module):
    """512 → 2048 ReLU → 2048 GELU → 2048 SiLU → 512 tanh."""

    def __init__(self, width: int = 512, hidden: int = 2048) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, hidden)
        self.fc4 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(x))
        x = F.gelu(self.fc2(x))
        x = F.silu(self.fc3(x))
        return torch.tanh(self.fc4(x))


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """The model and a 256 × 512 input, on the GPU when there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = ActivationMLP().eval().to(device)
    return model, torch.randn(256, 512).to(device)
