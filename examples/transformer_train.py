"""One training step of a small decoder: forward, cross-entropy, backward, AdamW.

`make_step` tells opprof that a step is more than a call of the module: it is handed the module, compiled or not, and
returns what one iteration runs.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 8192


class DecoderLayer(nn.Module):
    """A pre-LayerNorm decoder layer with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class DecoderLoss(nn.Module):
    """A language model that returns its loss: each token predicts the next."""

    def __init__(
        self, layers: int = 4, width: int = 256, heads: int = 8, length: int = 128
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(length, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """The model, in training mode, and 8 × 128 token ids on a GPU; 2 × 128 on a CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = DecoderLoss().train().to(device)
    batch = 8 if device == "cuda" else 2
    return model, torch.randint(0, VOCABULARY, (batch, 128)).to(device)


def make_step(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """One optimizer step on a batch; returns the loss before it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(ids: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = model(ids)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
