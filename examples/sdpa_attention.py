"""One attention layer with separate query, key and value projections: three GEMMs that share an input."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SelfAttention(nn.Module):
    """LayerNorm → eight-head attention over all positions → output projection, residual, LayerNorm."""

    def __init__(self, width: int = 512, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.ln_pre = nn.LayerNorm(width)
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)
        self.ln_post = nn.LayerNorm(width)

    def split_heads(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        residual = x
        x = self.ln_pre(x)
        q = self.split_heads(self.q_proj(x))
        k = self.split_heads(self.k_proj(x))
        v = self.split_heads(self.v_proj(x))
        attended = F.scaled_dot_product_attention(q, k, v)
        merged = attended.transpose(1, 2).reshape(residual.shape)
        return self.ln_post(self.out_proj(merged) + residual)


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """The model and an 8 × 512 × 512 input on a GPU; 2 × 512 × 512 on a CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = SelfAttention().eval().to(device)
    batch = 8 if device == "cuda" else 2
    return model, torch.randn(batch, 512, 512).to(device)
