"""A two-layer LSTM whose outputs are averaged over time and classified: sequential work in many small launches."""

import torch
from torch import Tensor, nn


class SequenceEncoder(nn.Module):
    """LSTM(256, 512, 2 layers) → mean over time → Linear(512, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(256, 512, num_layers=2, batch_first=True)
        self.classifier = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.classifier(states.mean(dim=1))


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """The model and a 32 × 128 × 256 input on a GPU; 4 × 128 × 256 on a CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = SequenceEncoder().eval().to(device)
    batch = 32 if device == "cuda" else 4
    return model, torch.randn(batch, 128, 256).to(device)
