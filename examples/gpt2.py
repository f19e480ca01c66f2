"""GPT-2 small without its head: twelve identical decoder blocks that return the last hidden state."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 50257


class Attention(nn.Module):
    """Causal self-attention; query, key and value come from one projection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(attended.transpose(1, 2).reshape(batch, length, width))


class MLP(nn.Module):
    """The feed-forward half of a block, with the tanh form of GELU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, hidden)
        self.c_proj = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    """A pre-LayerNorm decoder block."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = MLP(width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """Token and position embeddings, the blocks, a last LayerNorm."""

    def __init__(
        self, layers: int = 12, width: int = 768, heads: int = 12, hidden: int = 3072
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.wpe = nn.Embedding(1024, width)
        self.h = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, input_ids: Tensor) -> Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.wte(input_ids) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """The model and 4 × 128 token ids on a GPU; 1 × 128 on a CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = GPT2().eval().to(device)
    batch = 4 if device == "cuda" else 1
    return model, torch.randint(0, VOCABULARY, (batch, 128)).to(device)
