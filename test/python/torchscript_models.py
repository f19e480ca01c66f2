"""Models that the tests of TorchScript archives save: scripted, traced and mixed, with and without control flow."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor, nn


@dataclass
class Case:
    """A model, how it is saved, and what it is called with."""

    make: Callable[[], nn.Module]
    inputs: tuple[Any, ...]
    traced: bool = False
    # As --input gives them; of tensors they follow from `inputs`.
    texts: list[str] | None = None
    # Targets that the graph has to hold, or none of.
    holds: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ("prim.If", "prim.Loop")
    options: list[str] = field(default_factory=list)


def texts_of(inputs: tuple[Any, ...]) -> list[str]:
    return [text_of(value) for value in inputs]


def text_of(value: Any) -> str:
    """What --input makes a value of the same type and shape of."""
    if isinstance(value, Tensor):
        names = {
            torch.float16: "f16",
            torch.bfloat16: "bf16",
            torch.float32: "f32",
            torch.int64: "i64",
            torch.bool: "b8",
            torch.float64: "f64",
        }
        return "x".join([*(str(size) for size in value.shape), names[value.dtype]])
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(element) for element in value) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(text_of(element) for element in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"'{key}': {text_of(entry)}" for key, entry in value.items()) + "}"
    return repr(value)


class Perceptron(nn.Module):
    def __init__(self, width: int = 8, hidden: int = 16) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Perceptron() for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.ReLU(inplace=True))
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.stem(x)))
        x = x + self.block(x)
        x = self.pool(self.up(x))
        return self.head(torch.flatten(x, 1))


class Attention(nn.Module):
    """Sizes are taken from the input, as traced graphs keep them."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.register_buffer("mask", torch.tril(torch.ones(32, 32)).bool())

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.size()
        q, k, v = self.qkv(x).split(width, dim=2)
        q = q.view(batch, length, 4, width // 4).transpose(1, 2)
        k = k.view(batch, length, 4, width // 4).transpose(1, 2)
        v = v.view(batch, length, 4, width // 4).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / (width // 4) ** 0.5
        scores = scores.masked_fill(~self.mask[:length, :length], float("-inf"))
        y = torch.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, width))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class DecoderStep(nn.Module):
    """A step of a decoder: takes the cache, and gives it longer by one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.key = nn.Linear(8, 8)
        self.value = nn.Linear(8, 8)

    def forward(
        self, token: Tensor, cache: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        x = self.embedding(token)
        longer: list[tuple[Tensor, Tensor]] = []
        for keys, values in cache:
            keys = torch.cat([keys, self.key(x)], dim=1)
            values = torch.cat([values, self.value(x)], dim=1)
            longer.append((keys, values))
            x = x + torch.softmax(x @ keys.transpose(1, 2), dim=-1) @ values
        return x, longer


class Detector(nn.Module):
    """Keeps the boxes whose score is high, and those only, one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(8, 1)
        self.boxes = nn.Linear(8, 4)

    def forward(self, features: list[Tensor]) -> list[dict[str, Tensor]]:
        results: list[dict[str, Tensor]] = []
        for feature in features:
            score = torch.sigmoid(self.scores(feature)).squeeze(-1)
            box = self.boxes(feature)
            keep = torch.nonzero(score > 0.5).squeeze(1)
            if keep.numel() > 0:
                results.append({"boxes": box[keep], "scores": score[keep]})
            else:
                results.append({"boxes": box[:0], "scores": score[:0]})
        return results


class Expert(nn.Module):
    """Its weights are no modules, whose sizes would give each of them a class, and lines, of its own."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(inner, width))
        self.down = nn.Parameter(torch.randn(width, inner))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(torch.relu(nn.functional.linear(x, self.up)), self.down)


class Mixture(nn.Module):
    """Experts in branches that have no results: the sum is written in place."""

    def __init__(self, width: int, number: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.randn(number, width))
        self.experts = nn.ModuleList(Expert(width, 2 * width) for _ in range(number))

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.softmax(nn.functional.linear(x, self.gate), -1)
        best, total = scores.argmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.nonzero(best == number).squeeze(1)
            if rows.numel() > 0:
                total.index_add_(0, rows, torch.tanh(expert(x[rows])))
        return total


class Mixtures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Mixture(8, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, (hidden, _) = self.lstm(x)
        return y, hidden


class Cell(nn.Module):
    """A recurrence that is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(x.size(0), 6)
        for step in range(x.size(1)):
            state = self.cell(x[:, step], state)
        return state


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(4, 4)
        self.right = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            y = self.left(x)
            if y.mean() > 0:
                y = y * 2
        else:
            y = self.right(x)
        return y


class While(nn.Module):
    def forward(self, x: Tensor, limit: float) -> tuple[Tensor, int]:
        count = 0
        while bool(x.abs().sum() > limit) and count < 50:
            x = x / 2
            count += 1
        return x, count


class Nested(nn.Module):
    def forward(self, x: Tensor, rounds: int) -> Tensor:
        total = torch.zeros_like(x)
        for i in range(rounds):
            for j in range(i):
                if (i + j) % 2 == 0:
                    total = total + x * j
                else:
                    total = total - x
        return total


class EarlyReturn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) > 100:
            return x
        for i in range(10):
            x = x + i
            if x.max() > 20:
                return x * 2
        return x


class Optionals(nn.Module):
    def forward(self, x: Tensor, bias: Optional[Tensor] = None, scale: float = 2.0) -> Tensor:  # noqa: UP045
        x = x * scale
        if bias is not None:
            x = x + bias
        return x


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Structures(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        pair = Pair(x + 1, x - 1)
        parts = torch.chunk(pair.first, 2, dim=1)
        names = ["left", "right"]
        result: dict[str, Tensor] = {}
        for name, part in zip(names, parts):  # noqa: B905
            result[name] = part
        result["second"] = pair.second
        return result


class Writer(nn.Module):
    """Writes its input and a buffer in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.steps.add_(1)
        y = x.clone()
        y[:, 0] = 3.0
        y.mul_(self.steps)
        return y


@torch.jit.interface
class Activation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) ** 2


class Interfaced(nn.Module):
    activation: Activation

    def __init__(self) -> None:
        super().__init__()
        self.activation = Squared()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation.forward(x) + 1


class Mixed(nn.Module):
    """A scripted module with a traced one inside, and a constant tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.trace(Perceptron().eval(), torch.randn(2, 8))
        self.offsets = [torch.full((8,), 0.5), torch.full((8,), -0.5)]

    def forward(self, x: Tensor, flip: bool) -> Tensor:
        x = self.inner(x)
        if flip:
            x = x + self.offsets[0]
        else:
            x = x + self.offsets[1]
        return x


class Types(nn.Module):
    """What arguments have besides tensors and numbers."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros([2, 3], dtype=torch.int32, device=x.device)
        z = x.to(torch.float64).contiguous(memory_format=torch.channels_last)
        w = torch.arange(6, dtype=torch.float64).view(2, 3) + y.to(x.dtype)
        return z.sum(dim=[0, 1]).sum() + w


class Checked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2:
            raise ValueError("a matrix is wanted")
        if x.sum() > 1e9:
            raise ValueError("too large")
        assert x.size(1) == 4
        torch._assert(bool(x.min() < 9), f"{x.size(0)} rows, of which 100% are large")
        return x + 1


class VoiceDetector(nn.Module):
    """Keeps a state between calls, which it assigns and takes from attributes that are no tensors too."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 4)
        self.rates = [8000, 16000]
        self.last_rate = 0
        self.gain = 0.5
        self.state = torch.zeros(0)

    @torch.jit.export
    def reset(self) -> None:
        self.state = torch.zeros(0)
        self.last_rate = 0

    def forward(self, x: Tensor, rate: int) -> tuple[Tensor, int]:
        if rate not in self.rates:
            raise ValueError(f"Supported rates: {self.rates}")
        if self.last_rate and self.last_rate != rate:
            self.reset()
        if not len(self.state):
            self.state = torch.zeros(x.size(0), 4)
        self.state = self.cell(x * self.gain, (self.state, self.state))[0]
        self.gain = self.gain / 2
        self.last_rate = rate
        return self.state, self.last_rate


class Streaming(nn.Module):
    """Holds nothing before the first call, by way of a branch too, and from then on what is longer in each."""

    cache: Optional[Tensor]  # noqa: UP045
    last: Optional[tuple[Tensor, int]]  # noqa: UP045

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 2, 3)
        self.cache = None
        self.last = None
        self.calls = 0

    def history(self) -> Optional[Tensor]:  # noqa: UP045
        if self.calls < 2:
            found = self.cache
        else:
            found = None
        return found

    def forward(self, x: Tensor) -> tuple[Tensor, int, int]:
        history = self.history()
        y = x if history is None else torch.cat([history, x], 2)
        last = self.last
        before = 0
        if last is not None:
            before = last[1] + last[0].size(2)
        self.cache = y
        self.last = (y, self.calls)
        self.calls = 0 if self.calls == 3 else self.calls + 1
        return self.conv(y), y.size(2), before


class Keeper(nn.Module):
    """Lists and dictionaries that a call changes, and what they hold, by several names."""

    log: list[int]
    names: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.log = []
        self.names = {}
        self.rows: list[list[int]] = [[1], [2]]
        self.pair: tuple[list[int], int] = ([7], 1)
        self.keys: list[Tensor] = [torch.zeros(0, 4), torch.ones(1, 4)]
        self.values: dict[str, Tensor] = {"first": torch.zeros(4)}

    def push(self, count: int) -> None:
        self.log.append(count)
        if len(self.log) > 3:
            self.log.clear()
            self.names["cleared"] = len(self.names)

    def forward(self, x: Tensor) -> tuple[Tensor, list[int], list[list[int]], dict[str, Tensor]]:
        self.push(x.size(0) + len(self.log))
        self.rows[0].append(len(self.log))
        self.pair[0].append(4)
        first, number = self.pair
        for i in range(2):
            self.keys[i] = torch.cat([self.keys[i], x])
            x = x + self.keys[i].mean(0) + self.keys[i].size(0)
        if "last" in self.values:
            self.values["last"] = self.values["last"] + x[0]
        else:
            self.values["last"] = x[0]
        self.values["first"] = self.values["first"] + len(first) + number + len(self.names)
        return x, self.log, self.rows, self.values


class Extremes(nn.Module):
    """State that is no plain number."""

    def __init__(self) -> None:
        super().__init__()
        self.best = float("inf")
        self.unknown = float("nan")
        self.shape: tuple[int, int] = (1, 2)
        self.state = (torch.zeros(2, 4), torch.ones(2, 4))
        self.mode = "start"
        self.scales = {"start": 1.0, "run": 2.0}
        self.place = torch.device("cpu")
        self.cell = nn.LSTMCell(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, float, float, tuple[int, int], str]:
        self.state = self.cell(x * self.scales[self.mode], self.state)
        self.best = min(self.best, float(x.sum()))
        self.unknown = self.unknown if self.best == 0.5 else 3.0
        first, second = self.shape
        self.shape = (second, first + second)
        self.mode = "run"
        return (
            self.state[0].to(self.place),
            self.best,
            self.unknown,
            self.shape,
            self.mode,
        )


class Statistics(nn.Module):
    """State that a loop reads, and writes in a branch; a buffer as a ring."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ring", torch.zeros(3, 4))
        self.total = torch.zeros(4)
        self.hits = 0
        self.at = 0

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        for i in range(x.size(0)):
            if bool(x[i].sum() > self.total.sum()):
                self.total = self.total + x[i]
                self.hits += 1
            elif self.hits > 2:
                self.hits = 0
                self.total = torch.zeros_like(self.total)
        self.ring[self.at] = self.total
        self.at = (self.at + 1) % 3
        return self.ring.mean(0) + self.total, self.hits


class Counter(nn.Module):
    log: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))
        self.calls = 0
        self.log = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.steps.add_(1)
        self.log.append(self.calls)
        return x * self.steps + self.calls + len(self.log)


class Shared(nn.Module):
    """One submodule by two names, each of which is called, and a tensor by two."""

    def __init__(self) -> None:
        super().__init__()
        counter = torch.jit.script(Counter())
        self.first = counter
        self.second = counter
        shared = torch.zeros(4)
        self.register_buffer("left", shared)
        self.register_buffer("right", shared)

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        self.left.add_(x[0])
        y = self.second(self.first(self.first(x)))
        return y + self.second.steps + self.right, self.first.calls


class EarlyExit(nn.Module):
    """Gives what an earlier call has found, if it is near."""

    answer: Optional[Tensor]  # noqa: UP045

    def __init__(self) -> None:
        super().__init__()
        self.answer = None
        self.map = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        answer = self.answer
        if answer is not None:
            if bool((answer - x).abs().mean() < 1.5):
                return answer
        result = self.map(x)
        self.answer = result
        return result


class Names(nn.Module):
    """No state: lists that are changed by another name than they were made by, and constant dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: dict[str, int] = {"a": 3, "b": 4}
        self.table: dict[int, Tensor] = {0: torch.ones(4), 1: torch.zeros(4)}

    def forward(self, x: Tensor) -> tuple[list[list[int]], list[int], list[int], Tensor]:
        lists = [[1], [2]]
        lists[0].append(x.size(0))
        made = [5]
        pair = (made, 3)
        taken, number = pair
        taken.append(number)
        inner = [9]
        outer: list[list[int]] = []
        outer.append(inner)
        outer[0].append(8)
        return lists, made, inner, self.table[1] + self.ids["b"] + x


class DataSizes(nn.Module):
    """Sizes that follow from numbers, in branches and loops too."""

    def forward(self, x: Tensor, limit: int) -> tuple[Tensor, int, int, int]:
        found = torch.nonzero(x > 0.3)
        count = found.size(0)
        kept = x[x > 0]
        y = torch.zeros(limit)
        while bool(y.sum() < x.abs().sum()):
            y = torch.cat([y, torch.ones(1)])
        return torch.zeros(count), kept.size(0), y.size(0), count


class Forked(nn.Module):
    """Futures in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        futures: list[torch.jit.Future[Tensor]] = []
        for layer in self.layers:
            futures.append(torch.jit.fork(layer, x))
        return torch.stack([torch.jit.wait(future) for future in futures]).sum(0)


class InContexts(nn.Module):
    """Managers that change nothing of what is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = self.up(x)
        with torch.profiler.record_function("the second half"):
            if x.size(0) > 1:
                with torch.no_grad():
                    x = x * 2
            x = self.down(x)
        return x


class CacheByName(nn.Module):
    """A decoder whose cache is a dictionary."""

    cache: dict[str, Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.cache = {"k": torch.zeros(1, 0, 4), "v": torch.zeros(1, 0, 4)}
        self.q = nn.Linear(4, 4)
        self.k = nn.Linear(4, 4)
        self.v = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, float, list[str]]:
        self.cache["k"] = torch.cat([self.cache["k"], self.k(x)], 1)
        self.cache["v"] = torch.cat([self.cache["v"], self.v(x)], 1)
        total = 0.0
        for t in self.cache.values():
            total += float(t.sum())
        names: list[str] = []
        for name, t in self.cache.items():
            if t.size(1) > 2:
                names.append(name)
        y = torch.softmax(self.q(x) @ self.cache["k"].transpose(1, 2), -1) @ self.cache["v"]
        return y, total, names


class Dictionaries(nn.Module):
    """What dictionaries do besides getting and setting."""

    counts: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        self.counts = {"a": 1, "b": 2, "c": 3}

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, int], list[int], int, list[str]]:
        n = self.counts.get("a", 0)
        m = self.counts.get("zzz", 7)
        o = self.counts.get("q")
        if o is not None:
            m += o
        self.counts.setdefault("d", n + m)
        p = self.counts.pop("d")
        self.counts.update({"a": n + 1})
        other = self.counts.copy()
        other["new"] = x.size(0)
        it = other.popitem()
        keys = list(other.keys())
        vals = list(self.counts.values())
        del other["b"]
        scratch: dict[int, Tensor] = {}
        scratch[3] = x
        scratch[1] = x * 2
        first = scratch.popitem()
        k = len(scratch)
        scratch.clear()
        if 3 in scratch:
            k += 100
        return first[1] + k + len(it[0]), other, vals, p + it[1] + sum(vals), keys


class Lists(nn.Module):
    """What lists do besides appending."""

    order: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.order = [3, 1, 2]

    def forward(self, x: Tensor) -> tuple[Tensor, list[int], list[int], int, list[float], int]:
        self.order.append(x.size(0) + len(self.order))
        self.order.sort()
        if len(self.order) > 5:
            self.order.remove(self.order[0])
            self.order.reverse()
        a = sorted(self.order)
        c = self.order.count(3) + self.order.index(self.order[-1])
        self.order.insert(1, 9)
        last = self.order.pop()
        self.order.sort(reverse=True)
        f: list[float] = [0.1] * 3
        f.extend([float(x.sum()), 0.2])
        f *= 2
        b = self.order[::2]
        self.order[0] += 1
        return x * max(self.order) + min(a), a, b, c + last, f, sum(self.order)


class Outs(nn.Module):
    """Results that are written into tensors that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("acc", torch.zeros(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.empty_like(x)
        torch.add(x, 1.0, out=y)
        torch.mul(y, x, out=y)
        torch.sum(y, dim=[0], out=self.acc)
        v = torch.empty(0)
        i = torch.empty(0, dtype=torch.long)
        torch.max(x, 1, False, max=v, max_values=i)
        z = torch.cat([x, y], out=torch.empty(0))
        return y, self.acc + v.sum() + i.sum(), z


class Tokenizer(nn.Module):
    """Text in, and lists of text out."""

    vocab: dict[str, int]
    seen: list[str]

    def __init__(self) -> None:
        super().__init__()
        self.vocab = {"[unk]": 0, "hello": 1, "world": 2, "a": 3, "##b": 4}
        self.emb = nn.Embedding(8, 4)
        self.seen = []

    def tokens(self, text: str) -> list[str]:
        out: list[str] = []
        for w in text.lower().strip().split(" "):
            if w in self.vocab:
                out.append(w)
            elif w.startswith("a") and len(w) > 1:
                out.append(w[0])
                out.append("##" + w[1:])
            else:
                out.append("[unk]")
        return out

    def forward(self, texts: list[str]) -> tuple[Tensor, list[list[str]], str]:
        all: list[list[str]] = []
        rows: list[Tensor] = []
        for t in texts:
            ts = self.tokens(t)
            all.append(ts)
            ids = [self.vocab.get(x, 0) for x in ts]
            rows.append(self.emb(torch.tensor(ids)).sum(0))
            if ts[0] not in self.seen:
                self.seen.append(ts[0])
        joined = "|".join(self.seen)
        return (
            torch.stack(rows),
            all,
            joined.upper().replace("|", "-") + str(len(joined)) + chr(ord("a") + len(all)),
        )


class Suppression(nn.Module):
    """Suppresses boxes that overlap better ones, in loops over numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 9)

    def iou(self, a: Tensor, b: Tensor) -> float:
        x1 = max(float(a[0]), float(b[0]))
        y1 = max(float(a[1]), float(b[1]))
        x2 = min(float(a[2]), float(b[2]))
        y2 = min(float(a[3]), float(b[3]))
        inter = max(0.0, x2 - x1) * max(0.0, y2 - y1)
        area = float((a[2] - a[0]) * (a[3] - a[1])) + float((b[2] - b[0]) * (b[3] - b[1])) - inter
        return inter / (area + 1e-9)

    def forward(self, x: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        y = self.head(x)
        out: list[tuple[Tensor, Tensor, Tensor]] = []
        for b in range(y.shape[0]):
            box = y[b, :, :4].clone()
            box[:, 2:] = box[:, :2] + box[:, 2:].abs()
            scores, labels = y[b, :, 4:].softmax(-1).max(-1)
            order = torch.argsort(scores, descending=True)
            keep: list[int] = []
            alive = torch.ones(order.numel(), dtype=torch.bool)
            for i in range(order.numel()):
                if not bool(alive[i]):
                    continue
                k = int(order[i])
                keep.append(k)
                if len(keep) >= 5:
                    break
                for j in range(i + 1, order.numel()):
                    if self.iou(box[k], box[int(order[j])]) > 0.3:
                        alive[j] = False
            idx = torch.tensor(keep, dtype=torch.long)
            out.append((box[idx], scores[idx], labels[idx]))
        return out


class Packed(nn.Module):
    """Sequences of several lengths: isinstance() of what is called."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, 1, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        p = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        o, (h, _) = self.lstm(p)
        y, n = nn.utils.rnn.pad_packed_sequence(o, batch_first=True)
        return y, h + n.sum()


class Heads(nn.Module):
    """Layers by list, heads by name, and an exit before the last layer."""

    depth: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(4)])
        self.heads = nn.ModuleDict({"cls": nn.Linear(4, 3), "reg": nn.Linear(4, 1)})
        self.gates = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(4)])
        self.depth = []

    def forward(self, x: Tensor) -> tuple[dict[str, Tensor], int]:
        used = 0
        done = False
        for i, b in enumerate(self.blocks):
            if not done:
                x = b(x) + x
                used = i
                done = bool(x.abs().mean() > 0.9)
        self.depth.append(used)
        out: dict[str, Tensor] = {}
        for name, h in self.heads.items():
            out[name] = h(x)
        return out, len(self.depth)


class Rotations(nn.Module):
    """Complex numbers and tensors as state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("freqs", torch.polar(torch.ones(3, 2), torch.randn(3, 2)))
        self.register_buffer("wide", torch.randn(2, dtype=torch.complex128).conj())
        self.phase = complex(0.5, -1.5)
        self.turn = torch.tensor(1j)
        self.z = 2 + 3j

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, complex, float]:
        c = torch.view_as_complex(x.reshape(3, 2, 2)) * self.freqs * self.turn
        self.turn = self.turn * 1j
        self.phase = self.phase * self.z
        self.freqs.mul_(1j)
        return (
            torch.view_as_real(c) * abs(self.phase),
            (c.to(torch.complex128) * self.wide),
            self.phase,
            abs(self.phase) + abs(self.z),
        )


class Overlapping(nn.Module):
    """Tensors that are parts of one memory: by other strides, as slices, and in lists."""

    def __init__(self) -> None:
        super().__init__()
        table = torch.arange(12.0).reshape(3, 4)
        self.register_buffer("table", table)
        self.register_buffer("row", table[1])
        self.register_buffer("turned", table.t())
        self.rows = [table[0], table[2]]
        self.w = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("slice", self.w.data[:2])
        self.ring: list[Tensor] = [self.row, torch.zeros(4)]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        self.row.add_(x[0])
        self.rows[0].mul_(2)
        self.turned[0, 0] = 5.0
        self.slice.add_(1)
        self.ring[0].sub_(0.5)
        return self.table * 1, self.turned * 1, x @ self.w, self.rows[1] + self.row


class NestedTables(nn.Module):
    """Complex numbers in a list, and dictionaries in a dictionary."""

    zs: list[complex]
    table: dict[str, dict[str, int]]

    def __init__(self) -> None:
        super().__init__()
        self.zs = [1j, 2 + 1j]
        self.table = {"a": {"b": 1}}

    def forward(self, x: Tensor) -> tuple[Tensor, list[complex], dict[str, dict[str, int]]]:
        self.zs.append(self.zs[-1] * 1j)
        for name, inner in self.table.items():
            inner[name + "x"] = len(inner)
        if len(self.zs) > 4:
            self.table["n" + str(len(self.zs))] = {"q": 2}
        return x * len(self.zs), self.zs, self.table


class NumbersInLists(nn.Module):
    """Tensors of lists of numbers, which may be empty."""

    def forward(self, x: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ids: list[int] = []
        fs: list[list[float]] = []
        for i in range(n):
            if bool(x[i].sum() > 0):
                ids.append(i)
            fs.append([0.1 * i, float(x[i, 0])])
        return (
            torch.tensor(ids),
            torch.tensor(fs, dtype=torch.float64),
            torch.tensor(ids, dtype=torch.float32) + 1,
            torch.as_tensor([True, False]),
        )


class NumbersOfTensors(nn.Module):
    """Lists of numbers of tensors."""

    def forward(self, x: Tensor) -> tuple[list[list[float]], list[int], float, Tensor]:
        rows: list[list[float]] = x.tolist()
        order: list[int] = x[:, 0].argsort().tolist()
        total: float = x.sum().tolist()
        x = x + 1
        return rows, order, total, torch.tensor(rows) + x


class Windows(nn.Module):
    """A buffer that is a part of another, and one with other strides."""

    def __init__(self) -> None:
        super().__init__()
        table = torch.arange(12.0).reshape(3, 4)
        self.register_buffer("table", table)
        self.register_buffer("row", table[1])
        self.register_buffer("turned", table.t())

    def forward(self, x: Tensor) -> Tensor:
        self.row.add_(x[0])
        return self.table * self.turned.sum() + x


def _image() -> Tensor:
    return torch.randn(2, 3, 16, 16)


_VECTOR = (torch.randn(2, 8),)
_MATRIX = (torch.randn(3, 4),)
_SEQUENCE = (torch.randn(2, 5, 8),)


class Bookkeeping(nn.Module):
    """Lists and dictionaries that are changed before anything is decided by data, by several names; as interpolation, attention and
    windows of libraries do."""

    wanted: dict[str, str]

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.shift = [2, 1]
        self.wanted = {"first": "out", "third": "aux"}

    def forward(self, x: torch.Tensor) -> tuple[dict[str, torch.Tensor], list[int]]:
        sizes: list[int] = []
        for i in range(x.dim()):
            sizes.append(x.size(i) + i)
        shift = self.shift.copy()
        other = (shift, sizes)
        if x.size(0) < 100:
            shift[0] = 0
        other[0].insert(1, 7)
        last = sizes.pop()
        sizes.extend(shift + other[0])
        sizes.append(last)
        sizes.reverse()
        del sizes[0]
        results: dict[str, torch.Tensor] = {}
        x = self.linear(x)
        if "first" in self.wanted:
            results[self.wanted["first"]] = x
        x = self.linear(x)
        if "second" in self.wanted:
            results[self.wanted["second"]] = x
        x = self.linear(x)
        if "third" in self.wanted:
            results[self.wanted["third"]] = x
        if sum(shift) > 5 and x.dim() in (2, 3):
            x = torch.roll(x, [-shift[0], shift[-1]], [0, 1])
        rows = x.unsqueeze(0)
        results["rows"] = self.attention(rows, rows, rows)[0]
        return results, sizes


class Interrupted(Bookkeeping):
    """The same lists, which a branch on data and a loop change afterwards."""

    def forward(self, x: torch.Tensor) -> tuple[dict[str, torch.Tensor], list[int]]:
        sizes = [1]
        sizes.append(x.size(0))
        pair = (sizes, x)
        nested = [sizes]
        nested.append([5])
        held: dict[str, torch.Tensor] = {}
        held["x"] = x
        if bool(x.sum() > 0):
            pair[0].append(3)
            held["y"] = x + 1
        else:
            sizes[0] = 4
        for _ in range(sizes[0] + 1):
            x = x * 2
            nested[0].append(9)
        nested[1].append(sizes[1])
        held["z"] = x
        return held, sizes + nested[1] + [len(nested[0])]


CASES: dict[str, Case] = {
    "perceptron": Case(Perceptron, _VECTOR),
    "perceptron-traced": Case(Perceptron, _VECTOR, traced=True),
    "stack": Case(Stack, _VECTOR),
    "stack-traced": Case(Stack, _VECTOR, traced=True),
    "cnn": Case(ConvNet, (_image(),), holds=("aten.conv2d.default",)),
    "cnn-traced": Case(
        ConvNet,
        (_image(),),
        traced=True,
        holds=("aten.conv2d.default", "aten.conv_transpose2d.input"),
    ),
    "cnn-frozen": Case(ConvNet, (_image(),), options=["--freeze"]),
    "attention": Case(Attention, (torch.randn(2, 7, 16),)),
    "attention-traced": Case(Attention, (torch.randn(2, 7, 16),), traced=True),
    "encoder": Case(Encoder, (torch.randn(2, 5, 16),)),
    "encoder-traced": Case(Encoder, (torch.randn(2, 5, 16),), traced=True),
    "decoder": Case(
        DecoderStep,
        (torch.tensor([[3]]), [(torch.randn(1, 4, 8), torch.randn(1, 4, 8))] * 2),
        lacks=(),
    ),
    "detector": Case(
        Detector,
        ([torch.randn(6, 8), torch.randn(0, 8)],),
        holds=("prim.If", "prim.Loop"),
        lacks=(),
    ),
    "lstm": Case(Recurrent, _SEQUENCE, lacks=()),
    "lstm-traced": Case(Recurrent, _SEQUENCE, traced=True),
    "gru-cell": Case(Cell, _SEQUENCE, holds=("prim.Loop",), lacks=()),
    "branch": Case(Branch, _MATRIX, holds=("prim.If",), lacks=("prim.Loop",)),
    "while": Case(While, (torch.randn(4), 0.25), holds=("prim.Loop",), lacks=()),
    "nested": Case(Nested, (torch.randn(4), 5), holds=("prim.If", "prim.Loop"), lacks=()),
    "early-return": Case(EarlyReturn, _MATRIX, lacks=()),
    "optionals": Case(Optionals, (torch.randn(4), torch.randn(4))),
    "defaults": Case(Optionals, (torch.randn(4),)),
    "structures": Case(Structures, _MATRIX, lacks=()),
    "bookkeeping": Case(
        Bookkeeping, _MATRIX, lacks=("prim.If", "prim.Loop", "operator.iadd", "operator.setitem")
    ),
    "interrupted": Case(Interrupted, _MATRIX, holds=("prim.If", "prim.Loop"), lacks=()),
    "writer": Case(Writer, _MATRIX),
    "interface": Case(Interfaced, _MATRIX),
    "mixed": Case(Mixed, (torch.randn(2, 8), True), holds=("prim.If",), lacks=("prim.Loop",)),
    "types": Case(Types, (torch.randn(1, 2, 3, 4),)),
    "voice": Case(VoiceDetector, (torch.randn(2, 4), 16000), holds=("prim.SetAttr",), lacks=()),
    "forked": Case(Forked, _VECTOR, lacks=()),
    "contexts": Case(InContexts, _VECTOR, lacks=("prim.Enter", "prim.CreateObject")),
    "checked": Case(Checked, _MATRIX, lacks=("prim.Loop",)),
}


# Models that keep something from call to call, or take another way from call to call.
STATEFUL: dict[str, Case] = {
    "streaming": Case(Streaming, (torch.randn(1, 2, 5),)),
    "keeper": Case(Keeper, _MATRIX),
    "extremes": Case(Extremes, (torch.randn(2, 4),)),
    "statistics": Case(Statistics, _MATRIX),
    "shared": Case(Shared, _MATRIX),
    "early-exit": Case(EarlyExit, _MATRIX),
    "names": Case(Names, _MATRIX),
    "data-sizes": Case(DataSizes, (torch.randn(20), 3)),
    "cache-by-name": Case(CacheByName, (torch.randn(1, 2, 4),)),
    "dictionaries": Case(Dictionaries, _MATRIX),
    "lists": Case(Lists, _MATRIX),
    "outs": Case(Outs, _MATRIX),
    "tokenizer": Case(Tokenizer, (["Hello World ab", "zz a"],)),
    "suppression": Case(Suppression, (torch.randn(2, 8, 6),)),
    "heads": Case(Heads, _MATRIX),
    "rotations": Case(Rotations, _MATRIX),
    "overlapping": Case(Overlapping, _MATRIX),
    "windows": Case(Windows, _MATRIX),
    "nested-tables": Case(NestedTables, _MATRIX),
    "numbers-of-tensors": Case(NumbersOfTensors, _MATRIX),
    "numbers-in-lists": Case(NumbersInLists, (*_MATRIX, 3)),
}


def save(case: Case, path: Any) -> torch.jit.ScriptModule:
    """Saves the model, in evaluation mode, and returns it as it is loaded."""
    torch.manual_seed(0)
    model = case.make().eval()
    with torch.no_grad():
        scripted = (
            torch.jit.trace(model, case.inputs, check_trace=False)
            if case.traced
            else torch.jit.script(model)
        )
    scripted.save(path)
    return torch.jit.load(path)
