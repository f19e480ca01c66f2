"""One decoding step of a Llama-like model: a token a sequence, keys and values of the past in a static cache."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 32000
CACHE_LENGTH = 512


class RMSNorm(nn.Module):
    """Root-mean-square norm, computed in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (wide * scale).to(x.dtype) * self.weight


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of a query or key, half-split form."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class CachedAttention(nn.Module):
    """Grouped-query attention of one new token over the cache, which it is written into."""

    def __init__(self, width: int, heads: int, kv_heads: int, batch: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        cache = torch.zeros(batch, kv_heads, CACHE_LENGTH, self.head_dim)
        self.register_buffer("k_cache", cache, persistent=False)
        self.register_buffer("v_cache", cache.clone(), persistent=False)

    def forward(
        self, x: Tensor, position: Tensor, cos: Tensor, sin: Tensor, mask: Tensor
    ) -> Tensor:
        batch = x.shape[0]
        q = self.q_proj(x).view(batch, 1, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, 1, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, 1, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self.k_cache.index_copy_(2, position, k)
        self.v_cache.index_copy_(2, position, v)
        attended = F.scaled_dot_product_attention(
            q, self.k_cache, self.v_cache, attn_mask=mask, enable_gqa=True
        )
        return self.o_proj(attended.transpose(1, 2).reshape(batch, 1, -1))


class SwiGLU(nn.Module):
    """The gated feed-forward half of a layer."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """RMSNorm and attention, RMSNorm and SwiGLU, each with its residual."""

    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int, batch: int) -> None:
        super().__init__()
        self.input_norm = RMSNorm(width)
        self.attn = CachedAttention(width, heads, kv_heads, batch)
        self.post_norm = RMSNorm(width)
        self.mlp = SwiGLU(width, hidden)

    def forward(
        self, x: Tensor, position: Tensor, cos: Tensor, sin: Tensor, mask: Tensor
    ) -> Tensor:
        x = x + self.attn(self.input_norm(x), position, cos, sin, mask)
        return x + self.mlp(self.post_norm(x))


class LlamaDecoder(nn.Module):
    """Embedding, eight layers, a last norm and the head."""

    def __init__(self, batch: int, layers: int = 8, width: int = 512, heads: int = 16) -> None:
        super().__init__()
        self.head_dim = width // heads
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(
            DecoderLayer(width, heads, kv_heads=4, hidden=1408, batch=batch) for _ in range(layers)
        )
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, token_ids: Tensor, position: Tensor) -> Tensor:
        x = self.embed(token_ids)
        steps = torch.arange(0, self.head_dim, 2, device=x.device) / self.head_dim
        angles = position.float()[:, None] / 10000.0**steps
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        mask = (torch.arange(CACHE_LENGTH, device=x.device) <= position)[None, None, None]
        for layer in self.layers:
            x = layer(x, position, cos, sin, mask)
        return self.head(self.norm(x))


def get_model_and_input() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """The model, and 8 × 1 token ids with the position 128 that they stand at."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    batch = 8
    model = LlamaDecoder(batch).eval().to(device)
    token_ids = torch.randint(0, VOCABULARY, (batch, 1)).to(device)
    return model, (token_ids, torch.tensor([128], device=device))
