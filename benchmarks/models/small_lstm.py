"""An LSTM of one layer with a head: small enough for any machine."""

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """The LSTM, and what its last output says."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(24, 32, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Net().eval(), torch.randn(2, 6, 24)
