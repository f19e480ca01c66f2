"""Training programs for the tests of the observer: one that is as it should be, and the same with one fault each.

    python observed_programs.py NAME [STEPS]

A line that a finding is to name ends in a comment with the finding's id.
"""

import gc
import io
import sys
import time
from typing import Any

import torch
from torch import nn

WIDTH, VOCABULARY, LENGTH, BATCH = 64, 512, 16, 8
FAULT = sys.argv[1] if len(sys.argv) > 1 else "clean"
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 12


class Norm(nn.Module):
    """A root mean square norm."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if FAULT != "normalization-by-hand":
            return nn.functional.rms_norm(x, (WIDTH,), self.weight)
        mean = x.pow(2).mean(-1, keepdim=True)  # normalization-by-hand
        return x * torch.rsqrt(mean + 1e-6) * self.weight


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        if FAULT != "attention-by-hand":
            return nn.functional.scaled_dot_product_attention(q, k, v)
        scores = torch.matmul(q, k.transpose(-1, -2)) / WIDTH**0.5
        weights = torch.softmax(scores, -1)  # attention-by-hand
        return torch.matmul(weights, v)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = Norm(), Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rows = 100_000 if FAULT == "dense-embedding-gradient" else VOCABULARY
        self.embedding = nn.Embedding(rows, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(3)])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)  # dense-embedding-gradient
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Tokens(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return BATCH * STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if FAULT == "data-loading-waits":
            time.sleep(0.01)
        return torch.arange(index, index + LENGTH) % VOCABULARY


def clip(net: nn.Module) -> None:
    if FAULT != "gradient-loop":
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
        return
    for parameter in net.parameters():
        if parameter.grad is not None:
            norm = parameter.grad.norm()  # gradient-loop
            parameter.grad.mul_(1.0 / torch.clamp(norm, min=1.0))


def penalty(logits: torch.Tensor) -> Any:
    if FAULT != "operator-loop":
        return 1e-4 * logits.square().mean()
    # A row at a time, twice: much of a step on a busy machine too.
    rows = [*logits.flatten(0, 1)[:, :32]] * 2
    return 1e-4 * sum(row.square().mean() for row in rows)  # operator-loop


@torch.no_grad()
def follow(means: list[torch.Tensor], net: nn.Module) -> None:
    parameters = list(net.parameters())
    if FAULT != "parameter-loop":
        torch._foreach_lerp_(means, parameters, 0.01)
        return
    # Several times, likewise.
    for mean, parameter in zip(8 * means, 8 * parameters, strict=True):
        mean.mul_(0.99).add_(parameter, alpha=0.01)  # parameter-loop


def prepared(tokens: torch.Tensor) -> torch.Tensor:
    if FAULT == "host-code":
        end = time.perf_counter() + 0.01
        while time.perf_counter() < end:
            pass
    return tokens.clone()  # host-code


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Net()
    if FAULT == "gradient-sets":
        # One that nothing uses has its gradient set all the same.
        net.unused = nn.Parameter(torch.zeros(4_000_000))
        net.unused.grad = torch.zeros_like(net.unused)
    fused = FAULT != "optimizer-loop"
    optimizer = torch.optim.AdamW(net.parameters(), fused=fused, foreach=False)
    means = [parameter.detach().clone() for parameter in net.parameters()]
    call: Any = torch.compile(net, backend="eager") if FAULT == "recompilation" else net
    loader = torch.utils.data.DataLoader(Tokens(), batch_size=BATCH)
    for step, tokens in enumerate(loader):  # data-loading-waits
        if FAULT == "recompilation":
            torch._dynamo.reset()
        logits = call(prepared(tokens))  # recompilation
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss = loss + penalty(logits)
        sets = FAULT == "gradient-sets"
        optimizer.zero_grad(set_to_none=not sets)  # gradient-sets
        loss.backward()
        clip(net)
        optimizer.step()  # optimizer-loop
        follow(means, net)
        if FAULT == "garbage-collection":
            gc.collect()  # garbage-collection
        if FAULT == "checkpoint-writing":
            torch.save(net.state_dict(), io.BytesIO())  # checkpoint-writing
        if step == STEPS - 1:
            print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
