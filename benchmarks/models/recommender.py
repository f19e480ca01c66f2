"""A recommender of DLRM's form: bags of ids, a dense part, and their pairwise products."""

from typing import Any

import torch
from torch import Tensor, nn

TABLES = (200_000, 50_000, 20_000, 5_000, 1_000, 100, 20, 7)
WIDTH, BAG = 64, 4


class Recommender(nn.Module):
    """Eight tables, their bags and the dense part, each with each, and a tower of linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(size, WIDTH, mode="sum") for size in TABLES)
        self.dense = nn.Sequential(
            nn.Linear(13, 512),
            nn.ReLU(inplace=True),
            nn.Linear(512, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, WIDTH),
        )
        count = len(TABLES) + 1
        self.top = nn.Sequential(
            nn.Linear(count * (count - 1) // 2 + WIDTH, 512),
            nn.ReLU(inplace=True),
            nn.Linear(512, 256),
            nn.ReLU(inplace=True),
            nn.Linear(256, 1),
        )
        self.register_buffer("pairs", torch.tril_indices(count, count, -1))

    def forward(self, dense: Tensor, ids: list[Tensor], offsets: Tensor) -> Tensor:
        x = self.dense(dense)
        bags = [table(own, offsets) for table, own in zip(self.tables, ids, strict=True)]
        features = torch.stack([x, *bags], 1)
        products = features @ features.transpose(1, 2)
        flat = products[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([x, flat], 1)))


def get_inputs(seed: int) -> tuple[Any, ...]:
    """Ids within each table, and bags of equal length."""
    gpu = torch.cuda.is_available()
    batch, device = (2048, "cuda") if gpu else (32, "cpu")
    generator = torch.Generator().manual_seed(seed)
    ids = [torch.randint(size, (batch * BAG,), generator=generator) for size in TABLES]
    return (
        torch.rand(batch, 13, generator=generator).to(device),
        [own.to(device) for own in ids],
        torch.arange(0, batch * BAG, BAG, device=device),
    )


def get_model_and_input() -> tuple[nn.Module, tuple[Any, ...]]:
    """A batch of 2048 on a GPU, of 32 on a CPU."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Recommender().eval().to(device), get_inputs(0)
