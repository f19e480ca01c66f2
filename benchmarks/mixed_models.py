"""More models for launch_oracle.py: what programs do round their layers, which the other files have little of: windows of signals, segments, caches
that grow, places written by data, sorts, tables, complex numbers, statistics in buffers, and libraries' networks of kinds that none of them has."""

import importlib.util
from typing import Any

import torch
import torch.nn.functional as F
from oracle_models import Lambda, OracleModel
from torch import Tensor, nn

MODELS: dict[str, Any] = {}


def model(make: Any) -> Any:
    MODELS[make.__name__] = make
    return make


@model
def growing_cache() -> OracleModel:
    """Attention over a cache that each call lengthens, of a length that is a symbol."""

    def run(m: Any, x: Tensor, keys: Tensor, values: Tensor) -> Any:
        q, k, v = m.qkv(m.norm(x)).view(*x.shape[:2], 3, 2, 8).unbind(2)
        keys = torch.cat([keys, k], 1)
        values = torch.cat([values, v], 1)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, keys) * 8**-0.5
        distance = torch.arange(keys.shape[1], device=x.device) - (keys.shape[1] - 1)
        weights = (scores + 0.1 * distance).softmax(-1)
        mixed = torch.einsum("bhqk,bkhd->bqhd", weights, values).flatten(2)
        return x + m.out(mixed), keys, values

    parts = {"qkv": nn.Linear(16, 48), "out": nn.Linear(16, 16), "norm": nn.LayerNorm(16)}
    args = torch.randn(2, 1, 16), torch.randn(2, 7, 2, 8), torch.randn(2, 7, 2, 8)
    return OracleModel(Lambda(run, **parts), args, dynamic=True)


@model
def masked_scatter_images() -> OracleModel:
    """Features of images written over the places of words, as multimodal models do."""

    def run(m: Any, ids: Tensor, pixels: Tensor) -> Tensor:
        words = m.words(ids)
        features = m.project(F.gelu(m.patches(pixels).flatten(2).transpose(1, 2)))
        mask = (ids == 3).unsqueeze(-1).expand_as(words)
        return m.head(words.masked_scatter(mask, features))

    ids = torch.randint(4, 20, (2, 10))
    ids[:, 2:6] = 3
    parts = {
        "words": nn.Embedding(20, 16),
        "patches": nn.Conv2d(3, 12, 4, 4),
        "project": nn.Linear(12, 16),
        "head": nn.Linear(16, 5),
    }
    return OracleModel(Lambda(run, **parts), (ids, torch.randn(2, 3, 8, 8)))


@model
def running_sums_train() -> OracleModel:
    """Cumulative sums, products and logarithms of sums: a survival loss."""

    def run(m: Any, x: Tensor, when: Tensor) -> Tensor:
        hazard = m.net(x).sigmoid()
        alive = torch.cumprod(1 - hazard, dim=1)
        place = torch.cumsum(F.softplus(m.steps(x)), dim=1)
        risk = torch.logcumsumexp(place, dim=1)
        last = alive.gather(1, when) * hazard.gather(1, when)
        return -(last.clamp_min(1e-6).log()).mean() + 0.1 * (risk - place).square().mean()

    parts = {"net": nn.Linear(8, 12), "steps": nn.Linear(8, 12)}
    return OracleModel(
        Lambda(run, **parts), (torch.randn(6, 8), torch.randint(0, 12, (6, 1))), train=True
    )


@model
def spectrogram_train() -> OracleModel:
    """A short-time Fourier transform by hand, magnitudes, a filter bank, and a transform back."""

    def run(m: Any, wave: Tensor) -> Tensor:
        frames = wave.unfold(-1, 32, 8) * m.window
        spectrum = torch.fft.rfft(frames)
        power = spectrum.real.square() + spectrum.imag.square()
        bands = torch.log1p(power @ m.bank.relu())
        gain = torch.sigmoid(m.gate(bands))
        back = torch.fft.irfft(spectrum * gain, n=32)
        return (back * m.window).mean((-1, -2)) + bands.mean((-1, -2))

    parts = {
        "window": torch.hann_window(32),
        "bank": nn.Parameter(torch.rand(17, 10)),
        "gate": nn.Linear(10, 17),
    }
    return OracleModel(Lambda(run, **parts), (torch.randn(3, 160),), train=True)


@model
def grid_warp_train() -> OracleModel:
    """A spatial transformer: an affine grid, samples between pixels, other sizes of images."""

    def run(m: Any, x: Tensor) -> Tensor:
        theta = m.place(F.adaptive_avg_pool2d(m.conv(x), 2).flatten(1)).view(-1, 2, 3) + m.same
        grid = F.affine_grid(theta, [x.shape[0], 3, 10, 10], align_corners=False)
        warped = F.grid_sample(x, grid, padding_mode="border", align_corners=False)
        larger = F.interpolate(warped, scale_factor=2, mode="bicubic", align_corners=True)
        smaller = F.interpolate(x, size=(20, 20), mode="bilinear", antialias=False)
        return (larger - smaller).abs().mean((1, 2, 3))

    parts = {
        "conv": nn.Conv2d(3, 4, 3),
        "place": nn.Linear(16, 6),
        "same": torch.tensor([[1.0, 0, 0], [0, 1, 0]]),
    }
    return OracleModel(Lambda(run, **parts), (torch.randn(2, 3, 12, 12),), train=True)


@model
def router_one_hot() -> OracleModel:
    """A switch with capacities: one-hot, running places in it, tokens dispatched and combined by einsum."""

    def run(m: Any, x: Tensor) -> Any:
        flat = x.flatten(0, 1)
        gates = m.gate(flat).softmax(-1)
        weight, expert = gates.max(-1)
        chosen = F.one_hot(expert, 4)
        place = (torch.cumsum(chosen, 0) - 1) * chosen
        kept = (place < 6) & (chosen > 0)
        slot = F.one_hot((place * kept).sum(-1), 6).to(x.dtype)
        send = torch.einsum("te,tc->tec", kept.to(x.dtype), slot)
        inputs = torch.einsum("tec,td->ecd", send, flat)
        hidden = F.relu(torch.einsum("ecd,edf->ecf", inputs, m.up)).square()
        outputs = torch.einsum("ecf,efd->ecd", hidden, m.down)
        mixed = torch.einsum("tec,ecd->td", send * weight[:, None, None], outputs)
        balance = (chosen.float().mean(0) * gates.mean(0)).sum() * 4
        return mixed.view_as(x), balance

    parts = {
        "gate": nn.Linear(8, 4),
        "up": nn.Parameter(torch.randn(4, 8, 12)),
        "down": nn.Parameter(torch.randn(4, 12, 8)),
    }
    return OracleModel(Lambda(run, **parts), (torch.randn(2, 8, 8),))


@model
def sorted_sampling() -> OracleModel:
    """Top k, top p, penalties of repetition and the best of what is left."""

    def run(m: Any, hidden: Tensor, before: Tensor) -> Any:
        logits = m.head(hidden)
        seen = logits.gather(1, before)
        logits = logits.scatter(1, before, torch.where(seen < 0, seen * 1.2, seen / 1.2))
        kth = logits.topk(12, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < kth, -1e9)
        ordered, places = logits.sort(dim=-1, descending=True)
        mass = ordered.softmax(-1).cumsum(-1)
        drop = (mass - ordered.softmax(-1)) > 0.9
        kept = torch.zeros_like(drop).scatter(1, places, drop)
        final = logits.masked_fill(kept, float("-inf")).log_softmax(-1)
        return final.exp(), final.argmax(-1)

    return OracleModel(
        Lambda(run, head=nn.Linear(16, 32)), (torch.randn(3, 16), torch.randint(0, 32, (3, 5)))
    )


@model
def statistics_in_buffers_train() -> OracleModel:
    """Buffers that a step writes: moving means of codes, a counter, a queue of keys that goes round."""

    def run(m: Any, x: Tensor, y: Tensor) -> Tensor:
        query = F.normalize(m.query(x), dim=-1)
        with torch.no_grad():
            key = F.normalize(m.key(y), dim=-1)
            m.steps.add_(1)
            m.mean.mul_(0.9).add_(key.mean(0), alpha=0.1)
            m.spread.lerp_(key.var(0), 0.1)
        positive = (query * key).sum(-1, keepdim=True)
        negative = query @ m.queue.clone().t()
        scores = torch.cat([positive, negative], 1) / 0.2
        with torch.no_grad():
            m.queue[:4].copy_(key)
            m.queue.copy_(m.queue.roll(-4, 0))
        return F.cross_entropy(scores, torch.zeros(4, dtype=torch.long, device=x.device))

    parts = {
        "query": nn.Linear(8, 6),
        "key": nn.Linear(8, 6),
        "steps": torch.zeros((), dtype=torch.long),
        "mean": torch.randn(6),
        "spread": torch.rand(6) + 1,
        "queue": torch.randn(12, 6),
    }
    return OracleModel(Lambda(run, **parts), (torch.randn(4, 8), torch.randn(4, 8)), train=True)


@model
def mixed_dtypes_train() -> OracleModel:
    """float16, bfloat16, float32, float64, integers and truth values in one program."""

    def run(m: Any, x: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        half = m.table(ids).to(torch.bfloat16)
        mixed = (half * mask.unsqueeze(-1)).sum(1).float()
        scale = m.scale.double().exp()
        y = m.lin(x + mixed) * scale.float()
        levels = (y.detach() * 4).round().clamp(-8, 7).to(torch.int8)
        back = levels.to(torch.float16) / 4
        y = y + (back.float() - y.detach())
        counts = mask.sum(1).to(torch.int32)
        return (y / counts.clamp_min(1).unsqueeze(-1)).square().sum(-1).double()

    parts = {
        "table": nn.Embedding(10, 8),
        "scale": nn.Parameter(torch.randn(8)),
        "lin": nn.Linear(8, 8),
    }
    args = torch.randn(4, 8), torch.randint(0, 10, (4, 6)), torch.rand(4, 6) > 0.4
    return OracleModel(Lambda(run, **parts), args, train=True)


@model
def complex_state_train() -> OracleModel:
    """A diagonal state space in complex numbers: its kernel by powers, a convolution by Fourier transforms."""

    def run(m: Any, x: Tensor) -> Tensor:
        decay = torch.complex(-m.real.exp(), m.imag)
        steps = torch.arange(x.shape[-1], device=x.device)
        powers = torch.exp(decay[:, None] * steps * m.dt.exp())
        kernel = 2 * torch.einsum("hn,nl->hl", torch.view_as_complex(m.c), powers).real
        size = 2 * x.shape[-1]
        y = torch.fft.irfft(torch.fft.rfft(x, n=size) * torch.fft.rfft(kernel, n=size), n=size)
        return F.gelu(y[..., : x.shape[-1]] + m.skip[:, None] * x)

    parts = {
        "real": nn.Parameter(torch.randn(4)),
        "imag": nn.Parameter(torch.randn(4)),
        "dt": nn.Parameter(torch.tensor(-2.0)),
        "c": nn.Parameter(torch.randn(6, 4, 2)),
        "skip": nn.Parameter(torch.randn(6)),
    }
    return OracleModel(Lambda(run, **parts), (torch.randn(2, 6, 16),), train=True)


@model
def bags_weighted_train() -> OracleModel:
    """Bags of embeddings: sums with weights, means, maxima, and a table with a row that stays zero."""

    def run(m: Any, ids: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
        total = m.sums(ids, offsets, per_sample_weights=weights)
        mean = m.means(ids, offsets)
        best = m.best(ids.view(3, 4))
        return m.head(torch.cat([total, mean, best], 1)).sigmoid()

    parts = {
        "sums": nn.EmbeddingBag(16, 6, mode="sum"),
        "means": nn.EmbeddingBag(16, 6, mode="mean", padding_idx=0),
        "best": nn.EmbeddingBag(16, 6, mode="max"),
        "head": nn.Linear(18, 2),
    }
    args = torch.randint(0, 16, (12,)), torch.tensor([0, 5, 9]), torch.rand(12)
    return OracleModel(Lambda(run, **parts), args, train=True)


@model
def triangle_einsums_train() -> OracleModel:
    """Einsum-heavy code: the triangle updates and the outer products of protein folding."""

    def run(m: Any, pair: Tensor, rows: Tensor) -> Tensor:
        z = m.norm(pair)
        a, b = m.left(z).sigmoid() * m.a(z), m.right(z).sigmoid() * m.b(z)
        out = torch.einsum("bikc,bjkc->bijc", a, b) + torch.einsum("bkic,bkjc->bijc", a, b)
        pair = pair + m.out(out)
        u, v = m.u(rows), m.v(rows)
        outer = torch.einsum("bsic,bsjd->bijcd", u, v).flatten(-2) / rows.shape[1]
        return pair + m.outer(outer)

    parts = {
        "norm": nn.LayerNorm(8),
        **{name: nn.Linear(8, 8) for name in ("left", "right", "a", "b", "out")},
        "u": nn.Linear(6, 3),
        "v": nn.Linear(6, 3),
        "outer": nn.Linear(9, 8),
    }
    return OracleModel(
        Lambda(run, **parts), (torch.randn(1, 5, 5, 8), torch.randn(1, 4, 5, 6)), train=True
    )


@model
def segments_train() -> OracleModel:
    """Sums, means, maxima and a softmax by segment: a graph network's edges, by index_add and scatter_reduce."""

    def run(m: Any, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        message = m.edge(torch.cat([x[source], x[target]], -1)).relu()
        score = m.score(message).squeeze(-1)
        top = torch.full((6,), -1e9, device=x.device).scatter_reduce(0, target, score, "amax")
        weight = (score - top.detach()[target]).exp()
        norm = torch.zeros(6, device=x.device).index_add(0, target, weight)
        message = message * (weight / (norm[target] + 1e-6)).unsqueeze(-1)
        mixed = torch.zeros(6, 8, device=x.device).index_add(0, target, message)
        mean = torch.zeros_like(mixed).scatter_reduce(
            0, target.unsqueeze(-1).expand_as(message), message, "mean", include_self=False
        )
        return m.node(torch.cat([x, mixed, mean], -1))

    parts = {"edge": nn.Linear(12, 8), "score": nn.Linear(8, 1), "node": nn.Linear(22, 4)}
    args = torch.randn(6, 6), torch.randint(0, 6, (14,)), torch.randint(0, 6, (14,))
    return OracleModel(Lambda(run, **parts), args, train=True)


@model
def int8_by_hand() -> OracleModel:
    """A linear layer in whole numbers by hand: rows quantized, an integer product, and what the zero points add."""

    def run(m: Any, x: Tensor) -> Tensor:
        low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
        scale = (high - low).clamp_min(1e-5) / 255
        zero = (-128 - low / scale).round().clamp(-128, 127)
        q = (x / scale + zero).round().clamp(-128, 127).to(torch.int8)
        product = torch._int_mm(q, m.weight.t())
        total = m.weight.to(torch.int32).sum(-1)
        y = (product - zero.to(torch.int32) * total).to(x.dtype) * scale * m.scales
        return F.silu(y + m.bias)

    parts = {
        "weight": torch.randint(-128, 128, (24, 32), dtype=torch.int8),
        "scales": torch.rand(24) * 0.01 + 0.01,
        "bias": nn.Parameter(torch.randn(24)),
    }
    return OracleModel(Lambda(run, **parts), (torch.randn(20, 32),))


@model
def loop_newton() -> OracleModel:
    """A loop until nothing changes, and a branch in what follows."""

    def run(m: Any, x: Tensor) -> Tensor:
        y = m.lin(x).abs() + 1

        def on(step: Tensor, root: Tensor) -> Tensor:
            return (step < 20) & ((root * root - y).abs().max() > 1e-4)

        def turn(step: Tensor, root: Tensor) -> Any:
            return step + 1, 0.5 * (root + y / root)

        _steps, root = torch.while_loop(on, turn, (torch.zeros((), dtype=torch.long), y.clone()))
        return torch.cond(
            root.sum() > 10, lambda r: m.a(r).tanh(), lambda r: m.b(r).relu() + 1, (root,)
        )

    parts = {"lin": nn.Linear(6, 6), "a": nn.Linear(6, 4), "b": nn.Linear(6, 4)}
    return OracleModel(Lambda(run, **parts), (torch.randn(3, 6),))


@model
def histogram_calibration() -> OracleModel:
    """Buckets, counts by bucket, and quantities by them."""

    def run(m: Any, x: Tensor, label: Tensor) -> Any:
        p = m.net(x).softmax(-1)
        sure, guess = p.max(-1)
        place = torch.bucketize(sure, m.edges)
        right = (guess == label).float()
        counts = torch.zeros(6, device=x.device).scatter_add(0, place, torch.ones_like(sure))
        hits = torch.zeros(6, device=x.device).scatter_add(0, place, right)
        trust = torch.zeros(6, device=x.device).scatter_add(0, place, sure)
        gap = (hits / counts.clamp_min(1) - trust / counts.clamp_min(1)).abs()
        return (gap * counts / counts.sum()).sum(), torch.searchsorted(m.edges, sure, right=True)

    parts = {"net": nn.Linear(8, 5), "edges": torch.linspace(0.2, 0.9, 5)}
    return OracleModel(Lambda(run, **parts), (torch.randn(30, 8), torch.randint(0, 5, (30,))))


@model
def patches_folded_train() -> OracleModel:
    """Patches that overlap, unfolded, mixed and folded again; local norms, padding by reflection."""

    def run(m: Any, x: Tensor) -> Tensor:
        x = F.pad(x, (1, 1, 1, 1), mode="reflect")
        columns = F.unfold(x, 3, stride=2, padding=1)
        mixed = m.mix(columns.transpose(1, 2)).transpose(1, 2)
        y = F.fold(F.gelu(mixed), (10, 10), 3, stride=2, padding=1)
        y = F.local_response_norm(y, 3)
        y = F.instance_norm(y) * m.gain
        return F.max_pool2d(F.pad(y, (0, 2, 0, 0), mode="replicate"), 2)

    parts = {"mix": nn.Linear(36, 36), "gain": nn.Parameter(torch.randn(4, 1, 1))}
    return OracleModel(Lambda(run, **parts), (torch.randn(2, 4, 8, 8),), train=True)


@model
def dynamic_batch_train() -> OracleModel:
    """Sizes that are symbols, forward and backward: losses over those who are not padded."""

    def run(m: Any, x: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        steps = torch.arange(x.shape[1], device=x.device)
        mask = steps[None] < lengths[:, None]
        y = m.conv(x.transpose(1, 2)).transpose(1, 2)
        y = m.norm(F.glu(y)) * mask.unsqueeze(-1)
        pooled = y.sum(1) / lengths.unsqueeze(-1)
        best = y.masked_fill(~mask.unsqueeze(-1), -1e4).amax(1)
        return F.cross_entropy(m.head(torch.cat([pooled, best], -1)), target, label_smoothing=0.1)

    parts = {
        "conv": nn.Conv1d(6, 16, 3, padding=1),
        "norm": nn.LayerNorm(8),
        "head": nn.Linear(16, 5),
    }
    args = torch.randn(5, 9, 6), torch.tensor([9, 4, 7, 2, 5]), torch.randint(0, 5, (5,))
    return OracleModel(Lambda(run, **parts), args, train=True, dynamic=True)


@model
def least_squares_head() -> OracleModel:
    """Factorizations and solves: a ridge regression, a whitening and a distance by its triangle."""

    def run(m: Any, x: Tensor, y: Tensor) -> Any:
        h = m.net(x).tanh()
        gram = h.mT @ h + 0.5 * torch.eye(6, device=x.device)
        triangle = torch.linalg.cholesky(gram)
        weights = torch.cholesky_solve(h.mT @ y, triangle)
        white = torch.linalg.solve_triangular(triangle, h.mT, upper=False).mT
        return h @ weights, white.square().sum(-1), 2 * triangle.diagonal().log().sum()

    return OracleModel(Lambda(run, net=nn.Linear(5, 6)), (torch.randn(12, 5), torch.randn(12, 2)))


@model
def places_written_train() -> OracleModel:
    """What indexing writes: index_put with and without sums, diagonals, slices with steps, masks, rows chosen twice."""

    def run(m: Any, x: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
        y = m.lin(x)
        canvas = torch.zeros(8, 6, device=x.device)
        canvas = canvas.index_put((rows, cols), y[:, 0], accumulate=True)
        canvas[1::3] = y[:3] * 2
        canvas[:, -1] = canvas[:, 0].exp()
        square = canvas[:6].clone()
        square.diagonal().mul_(0.5)
        square = square.masked_fill(square > 2, 0.0).triu(-1)
        square[[0, 2, 2]] = square[[1, 3, 5]]
        return (square @ y.t()).logsumexp(0)

    args = torch.randn(5, 4), torch.randint(0, 8, (5,)), torch.randint(0, 6, (5,))
    return OracleModel(Lambda(run, lin=nn.Linear(4, 6)), args, train=True)


@model
def norms_and_powers_train() -> OracleModel:
    """Norms of several kinds, spectral, weights of unit length, distances, activations that are rare."""

    def run(m: Any, x: Tensor) -> Tensor:
        y = F.hardtanh(m.first(x)) + F.elu(m.second(x)) * F.softsign(x[:, :6])
        y = F.mish(m.group(y.unsqueeze(-1)).squeeze(-1)) + F.hardswish(m.rms(y))
        d = torch.cdist(y, m.centers)
        close = F.softmin(d, -1) @ m.centers
        return (
            F.smooth_l1_loss(close, y, reduction="none").sum(-1)
            + y.norm(p=3, dim=-1)
            + y.std(-1).rsqrt()
        )

    parts = {
        "first": nn.utils.parametrizations.weight_norm(nn.Linear(8, 6)),
        "second": nn.Linear(8, 6),
        "group": nn.GroupNorm(2, 6),
        "rms": nn.RMSNorm(6),
        "centers": nn.Parameter(torch.randn(5, 6)),
    }
    return OracleModel(Lambda(run, **parts), (torch.randn(7, 8),), train=True)


@model
def autoregressive_flow_scan() -> OracleModel:
    """Steps of a recurrence spelled out, with what was before in places of a buffer."""

    def run(m: Any, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], 6)
        out = x.new_empty(x.shape[0], 4, 6)
        for step in range(4):
            gate = torch.sigmoid(m.gate(torch.cat([x[:, step], state], -1)))
            state = torch.lerp(state, torch.tanh(m.new(x[:, step]) + state * m.decay), gate)
            out[:, step] = state
        return out.flip(1).cummax(1).values + out.roll(1, 1).diff(dim=1, prepend=out[:, :1])

    parts = {"gate": nn.Linear(11, 6), "new": nn.Linear(5, 6), "decay": nn.Parameter(torch.rand(6))}
    return OracleModel(Lambda(run, **parts), (torch.randn(3, 4, 5),))


def _timm(name: str, size: int, train: bool = False, **options: Any) -> None:
    def make() -> OracleModel:
        import timm

        net = timm.create_model(name, pretrained=False, num_classes=5, **options)
        return OracleModel(net, (torch.randn(2, 3, size, size),), train=train)

    MODELS["timm_" + name + ("_train" if train else "")] = make


def _transformers(name: str, config: str, *inputs: Any, train: bool = False, **sizes: Any) -> None:
    def make() -> OracleModel:
        import transformers

        settings = getattr(transformers, config)(**sizes)
        settings.use_cache = False
        settings.return_dict = False
        net = getattr(transformers, name)(settings)
        given = tuple(t() if callable(t) else t for t in inputs)
        return OracleModel(Lambda(lambda m, *a: m.net(*a)[0], net=net), given, train=train)

    MODELS[name + ("_train" if train else "")] = make


_SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64,
}  # fmt: skip
_TEXT: dict[str, Any] = {
    **_SMALL, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1,
}  # fmt: skip


def _ids(*shape: int) -> Any:
    return lambda: torch.randint(2, 64, shape)


if importlib.util.find_spec("timm"):
    _timm("lcnet_035", 32)
    _timm("mixnet_s", 32)
    _timm("skresnet18", 32)
    _timm("lambda_resnet26t", 64)
    _timm(
        "swinv2_cr_tiny_224",
        32,
        img_size=32,
        patch_size=4,
        window_size=4,
        embed_dim=16,
        depths=(1, 1),
        num_heads=(2, 2),
    )
    _timm("fasternet_t0", 32, train=True, depths=(1, 1, 1, 1), embed_dim=8)
    _timm("coat_tiny", 32, img_size=32)
if importlib.util.find_spec("transformers"):
    _transformers(
        "Gemma2Model",
        "Gemma2Config",
        _ids(2, 8),
        train=True,
        **_TEXT,
        head_dim=8,
        sliding_window=4,
        query_pre_attn_scalar=8,
    )
    _transformers("CohereModel", "CohereConfig", _ids(2, 8), **_TEXT)
    _transformers(
        "Qwen3MoeModel",
        "Qwen3MoeConfig",
        _ids(2, 8),
        **_TEXT,
        head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
    )
    _transformers(
        "MptModel",
        "MptConfig",
        _ids(2, 8),
        d_model=32,
        n_heads=4,
        n_layers=2,
        max_seq_len=16,
        vocab_size=64,
        expansion_ratio=2,
    )
    _transformers(
        "ConvBertModel",
        "ConvBertConfig",
        _ids(2, 8),
        train=True,
        **_SMALL,
        embedding_size=16,
        conv_kernel_size=3,
        max_position_embeddings=32,
    )
    _transformers(
        "XLNetModel",
        "XLNetConfig",
        _ids(2, 8),
        d_model=32,
        n_layer=2,
        n_head=4,
        d_inner=48,
        vocab_size=64,
    )
    _transformers("Starcoder2Model", "Starcoder2Config", _ids(2, 8), **_TEXT)
    _transformers(
        "YosoModel",
        "YosoConfig",
        _ids(2, 8),
        **_SMALL,
        max_position_embeddings=32,
        use_expectation=True,
    )
    _transformers(
        "LevitModel",
        "LevitConfig",
        lambda: torch.randn(1, 3, 64, 64),
        image_size=64,
        hidden_sizes=[16, 24, 32],
        num_attention_heads=[1, 2, 2],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
    )
