"""Two layers round torch.nn.MultiheadAttention: small enough for any machine."""

import torch
from torch import Tensor, nn


class Layer(nn.Module):
    """Attention, then a feed-forward block, each behind a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        attended, _ = self.attention(y, y, y, need_weights=False)
        x = x + attended
        return x + self.down(nn.functional.gelu(self.up(self.after(x))))


class Net(nn.Module):
    """An embedding, the layers, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.layers = nn.ModuleList(Layer(64) for _ in range(2))
        self.head = nn.Linear(64, 100)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Net().eval(), torch.randint(0, 100, (2, 32))
