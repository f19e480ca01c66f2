"""Trains six blocks for 12 steps of AdamW, and prints what PyTorch says of its memory on a GPU: what a report of its run is held against.

opprof run --memory -o run/ -- python benchmarks/train_blocks.py
opprof run --graph -o run/ -- python benchmarks/train_blocks.py
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """A feed-forward block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Blocks, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(512) for _ in range(6))
        self.head = nn.Linear(512, 1000)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main() -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = Net().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(12):
        x = torch.randn(256, 512, device=device)
        classes = torch.randint(0, 1000, (256,), device=device)
        optimizer.zero_grad()
        F.cross_entropy(net(x), classes).backward()
        optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()
        print(f"peak {torch.cuda.max_memory_allocated()}, held {torch.cuda.memory_allocated()}")


if __name__ == "__main__":
    main()
