"""A mixture of experts: each block weighs eight feed-forward layers by a gate, all of them computed."""

import torch
from torch import Tensor, nn


class Experts(nn.Module):
    """Eight experts as batched products, mixed by the two largest gates."""

    def __init__(self, width: int, hidden: int, count: int = 8) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, hidden) * width**-0.5)
        self.down = nn.Parameter(torch.randn(count, hidden, width) * hidden**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        gates = torch.softmax(self.gate(flat), -1)
        least = gates.topk(2, -1).values[:, -1:]
        gates = torch.where(gates >= least, gates, 0.0)
        hidden = nn.functional.silu(torch.matmul(flat, self.up))
        mixed = torch.einsum("end,ne->nd", torch.bmm(hidden, self.down), gates)
        return mixed.view_as(x)


class Mixture(nn.Module):
    """Blocks of attention and experts."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.experts = nn.ModuleList(Experts(width, 2 * width) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for i, (qkv, out, experts) in enumerate(zip(self.qkv, self.out, self.experts, strict=True)):
            q, k, v = (
                part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for part in qkv(self.norms[2 * i](x)).chunk(3, -1)
            )
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + out(y.transpose(1, 2).flatten(-2))
            x = x + experts(self.norms[2 * i + 1](x))
        return x


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """4 × 128 places of width 512 in four blocks on a GPU; a small one on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    width, layers, shape = (512, 4, (4, 128)) if gpu else (64, 2, (1, 16))
    device = "cuda" if gpu else "cpu"
    return Mixture(width, 8, layers).eval().to(device), torch.randn(*shape, width).to(device)
