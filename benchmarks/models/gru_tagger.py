"""A recurrent tagger: ids, a bidirectional GRU of two layers, and a linear layer at each place."""

import torch
from torch import Tensor, nn


class Tagger(nn.Module):
    """Embedding → GRU in both directions → Linear."""

    def __init__(self, words: int = 20_000, width: int = 256, tags: int = 40) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.gru = nn.GRU(width, width, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(2 * width, tags)

    def forward(self, ids: Tensor) -> Tensor:
        return self.tags(self.gru(self.words(ids))[0])


def get_model_and_input() -> tuple[nn.Module, Tensor]:
    """32 × 64 ids on a GPU, 2 × 16 on a CPU."""
    torch.manual_seed(0)
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    return Tagger().eval().to(device), torch.randint(20_000, (32, 64) if gpu else (2, 16)).to(
        device
    )
