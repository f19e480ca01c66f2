"""An embedding and a feed-forward block under a wide output projection: the last GEMM is nearly all of the work."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 32000


class EmbeddingProjection(nn.Module):
    """Embedding → LayerNorm → Linear, GELU, Linear → logits over the vocabulary."""

    def __init__(self, width: int = 512, hidden: int = 2048) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.ln = nn.LayerNorm(width)
        self.proj1 = nn.Linear(width, hidden)
        self.proj2 = nn.Linear(hidden, width)
        self.logits = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, token_ids: Tensor) -> Tensor:
        x = self.ln(self.embed(token_ids))
        x = self.proj2(F.gelu(self.proj1(x)))
        return self.logits(x)


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """The model and 64 × 128 token ids on a GPU; 2 × 128 on a CPU, where the logits would take a gigabyte."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = EmbeddingProjection().eval().to(device)
    batch = 64 if device == "cuda" else 2
    return model, torch.randint(0, VOCABULARY, (batch, 128)).to(device)
