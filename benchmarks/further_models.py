"""A third set of models of launch_oracle.py, of kinds that neither of the other two files has, written after the rules of the map and of its
oracle: what they showed as they were met is a held-out figure (docs/measurements.md)."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from oracle_models import Lambda, OracleModel
from torch import Tensor, nn

MODELS = {}


def model(make: Any) -> Any:
    MODELS[make.__name__] = make
    return make


@model
def neural_ode_train() -> OracleModel:
    """Four stages of Runge-Kutta, three steps of them."""

    def forward(m: Any, x: Tensor) -> Tensor:
        def slope(t: float, y: Tensor) -> Tensor:
            return m.out(torch.tanh(m.into(y) + t * m.time))

        h = 0.25
        for i in range(3):
            t = i * h
            k1 = slope(t, x)
            k2 = slope(t + h / 2, x + h / 2 * k1)
            k3 = slope(t + h / 2, x + h / 2 * k2)
            k4 = slope(t + h, x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return x

    parts = {
        "into": nn.Linear(6, 12),
        "out": nn.Linear(12, 6),
        "time": nn.Parameter(torch.randn(12)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(5, 6),), train=True)


@model
def spline_layer() -> OracleModel:
    """A Kolmogorov-Arnold layer: B-splines by the recursion of Cox and de Boor."""

    def forward(m: Any, x: Tensor) -> Tensor:
        grid = m.grid
        u = x.unsqueeze(-1)
        bases = ((u >= grid[:, :-1]) & (u < grid[:, 1:])).to(x.dtype)
        for k in range(1, 3):
            left = (u - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)])
            right = (grid[:, k + 1 :] - u) / (grid[:, k + 1 :] - grid[:, 1:(-k)])
            bases = left * bases[..., :-1] + right * bases[..., 1:]
        return F.silu(x) @ m.base + bases.flatten(1) @ m.coefficients

    knots = torch.linspace(-2.2, 2.3, 9).repeat(4, 1)
    parts = {
        "grid": knots,
        "base": nn.Parameter(torch.randn(4, 5)),
        "coefficients": nn.Parameter(torch.randn(4 * 6, 5)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(7, 4),))


@model
def capsule_routing() -> OracleModel:
    """Three rounds of routing by agreement, with the squash of capsules."""

    def squash(s: Tensor) -> Tensor:
        n = (s * s).sum(-1, keepdim=True)
        return n / (1 + n) * s / torch.sqrt(n + 1e-6)

    def forward(m: Any, x: Tensor) -> Tensor:
        u = torch.einsum("bic,ijcd->bijd", squash(x), m.w)
        b = torch.zeros_like(u[..., 0])
        for _ in range(3):
            v = squash((b.softmax(2).unsqueeze(-1) * u).sum(1))
            b = b + (u * v.unsqueeze(1)).sum(-1)
        return v.norm(dim=-1)

    return OracleModel(
        Lambda(forward, w=nn.Parameter(torch.randn(10, 3, 4, 5) * 0.4)), (torch.randn(2, 10, 4),)
    )


@model
def rwkv_time_mix_train() -> OracleModel:
    """Time shift, the recurrence of weights and keys with a running maximum, and the gate of RWKV."""

    def forward(m: Any, x: Tensor) -> Tensor:
        before = F.pad(x, (0, 0, 1, -1))
        k = m.key(x * m.mix_k + before * (1 - m.mix_k))
        v = m.value(x * m.mix_v + before * (1 - m.mix_v))
        r = torch.sigmoid(m.receptance(x * m.mix_r + before * (1 - m.mix_r)))
        a = b = torch.zeros_like(k[:, 0])
        p = torch.full_like(a, -20.0)
        outs = []
        for t in range(x.shape[1]):
            q = torch.maximum(p, m.first + k[:, t])
            e1, e2 = (p - q).exp(), (m.first + k[:, t] - q).exp()
            outs.append((e1 * a + e2 * v[:, t]) / (e1 * b + e2))
            q = torch.maximum(p - m.decay.exp(), k[:, t])
            e1, e2 = (p - m.decay.exp() - q).exp(), (k[:, t] - q).exp()
            a, b, p = e1 * a + e2 * v[:, t], e1 * b + e2, q
        return m.out(r * torch.stack(outs, 1))

    parts: dict[str, Any] = {
        name: nn.Linear(8, 8, bias=False) for name in ("key", "value", "receptance", "out")
    }
    parts |= {
        name: nn.Parameter(torch.rand(8)) for name in ("mix_k", "mix_v", "mix_r", "first", "decay")
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 5, 8),), train=True)


@model
def coupling_flow_train() -> OracleModel:
    """Affine couplings of halves that change places, with the logarithm of the determinant and a normal density."""

    def forward(m: Any, x: Tensor) -> Tensor:
        log_det = x.new_zeros(x.shape[0])
        for i in range(3):
            a, b = x.chunk(2, 1)
            scale, shift = m.nets[i](a).chunk(2, 1)
            scale = torch.tanh(scale) * m.limits[i].exp()
            b = b * scale.exp() + shift
            log_det = log_det + scale.sum(1)
            x = torch.cat([b, a], 1)
        return -(-0.5 * (x**2 + math.log(2 * math.pi))).sum(1).add(log_det).mean()

    nets = nn.ModuleList(
        nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.1), nn.Linear(16, 8)) for _ in range(3)
    )
    return OracleModel(
        Lambda(forward, nets=nets, limits=nn.Parameter(torch.zeros(3))),
        (torch.randn(6, 8),),
        train=True,
    )


class LatentAttention(nn.Module):
    """Attention of DeepSeek's kind: keys and values from one small vector, positions on a part of each head."""

    def __init__(
        self, width: int = 32, heads: int = 4, rank: int = 12, plain: int = 8, turned: int = 4
    ):
        super().__init__()
        self.heads, self.plain, self.turned = heads, plain, turned
        self.q = nn.Linear(width, heads * (plain + turned), bias=False)
        self.down = nn.Linear(width, rank + turned, bias=False)
        self.norm = nn.RMSNorm(rank)
        self.up = nn.Linear(rank, heads * plain * 2, bias=False)
        self.out = nn.Linear(heads * plain, width, bias=False)
        self.rank = rank

    def turn(self, x: Tensor) -> Tensor:
        n, half = x.shape[-2], x.shape[-1] // 2
        angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack(
            [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1
        ).flatten(-2)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q_plain, q_turned = (
            self.q(x)
            .view(b, n, self.heads, -1)
            .transpose(1, 2)
            .split([self.plain, self.turned], -1)
        )
        latent, k_turned = self.down(x).split([self.rank, self.turned], -1)
        k, v = self.up(self.norm(latent)).view(b, n, self.heads, -1).transpose(1, 2).chunk(2, -1)
        k_turned = self.turn(k_turned).unsqueeze(1).expand(-1, self.heads, -1, -1)
        q = torch.cat([q_plain, self.turn(q_turned)], -1)
        k = torch.cat([k, k_turned], -1)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1))


@model
def latent_attention() -> OracleModel:
    return OracleModel(LatentAttention(), (torch.randn(2, 6, 32),))


@model
def latent_attention_train() -> OracleModel:
    return OracleModel(LatentAttention(), (torch.randn(2, 6, 32),), train=True)


@model
def volume_rendering_train() -> OracleModel:
    """Rays of a radiance field: frequencies of places, densities, and what is left of the light by a running product."""

    def forward(m: Any, origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
        depth = torch.linspace(0.5, 2.0, 9)
        points = origin[:, None] + direction[:, None] * depth[:, None]
        waves = points[..., None] * 2.0 ** torch.arange(4)
        coded = torch.cat([waves.sin(), waves.cos()], -1).flatten(-2)
        h = F.relu(m.first(coded))
        density = F.softplus(m.density(h).squeeze(-1) - 1)
        colour = torch.sigmoid(
            m.colour(torch.cat([h, F.normalize(direction, dim=-1)[:, None].expand(-1, 9, -1)], -1))
        )
        gaps = torch.cat([depth.diff(), depth.new_full((1,), 0.5)])
        alpha = 1 - torch.exp(-density * gaps)
        light = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[
            :, :-1
        ]
        weights = alpha * light
        return (weights.unsqueeze(-1) * colour).sum(1), (weights * depth).sum(1)

    parts = {"first": nn.Linear(24, 16), "density": nn.Linear(16, 1), "colour": nn.Linear(19, 3)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(5, 3), torch.randn(5, 3)), train=True)


@model
def beam_step() -> OracleModel:
    """A step of beam search: the best of all continuations, their parents' caches, what has ended held where it is."""

    def forward(
        m: Any, scores: Tensor, last: Tensor, cache: Tensor, done: Tensor
    ) -> tuple[Tensor, ...]:
        beams, vocab = scores.shape[0], 11
        h = torch.tanh(m.embed(last) + cache.mean(1))
        logits = m.head(h).log_softmax(-1)
        ended = torch.full((vocab,), -1e9).index_fill(0, torch.tensor([0]), 0.0)
        logits = torch.where(done[:, None], ended, logits)
        total = (scores[:, None] + logits).flatten()
        best, index = total.topk(beams)
        parent, token = index // vocab, index % vocab
        cache = torch.cat([cache.index_select(0, parent)[:, 1:], h[parent].unsqueeze(1)], 1)
        return best, token, cache, done[parent] | (token == 0)

    parts = {"embed": nn.Embedding(11, 8), "head": nn.Linear(8, 11)}
    args = (
        torch.randn(4),
        torch.randint(0, 11, (4,)),
        torch.randn(4, 5, 8),
        torch.tensor([False, True, False, False]),
    )
    return OracleModel(Lambda(forward, **parts), args)


@model
def box_losses_train() -> OracleModel:
    """Queries that find boxes: generalized intersection over union, and a focal loss."""

    def forward(m: Any, x: Tensor, boxes: Tensor, kinds: Tensor) -> Tensor:
        h = x + m.attend(m.queries.expand(x.shape[0], -1, -1), x, x, need_weights=False)[0]
        centre, size = m.box(h).sigmoid().chunk(2, -1)
        low, high = centre - size / 2, centre + size / 2
        t_low, t_high = boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2
        area, t_area = (high - low).prod(-1), (t_high - t_low).prod(-1)
        inter = (torch.minimum(high, t_high) - torch.maximum(low, t_low)).clamp(min=0).prod(-1)
        union = area + t_area - inter
        hull = (torch.maximum(high, t_high) - torch.minimum(low, t_low)).prod(-1)
        giou = inter / union - (hull - union) / hull
        logits = m.kind(h)
        target = F.one_hot(kinds, 4).to(x.dtype)
        p = logits.sigmoid()
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        near = p * target + (1 - p) * (1 - target)
        focal = (0.25 * target + 0.75 * (1 - target)) * (1 - near) ** 2 * ce
        return (1 - giou).mean() + focal.sum() / 6 + (centre - boxes[..., :2]).abs().mean()

    parts = {
        "queries": nn.Parameter(torch.randn(1, 6, 16)),
        "attend": nn.MultiheadAttention(16, 2, batch_first=True),
        "box": nn.Linear(16, 4),
        "kind": nn.Linear(16, 4),
    }
    args = (torch.randn(2, 6, 16), torch.rand(2, 6, 4) * 0.5 + 0.2, torch.randint(0, 4, (2, 6)))
    return OracleModel(Lambda(forward, **parts), args, train=True)


@model
def slot_attention() -> OracleModel:
    """Slots compete for inputs: attention normalized over the slots, then over the inputs; a recurrent cell changes the slots."""

    def forward(m: Any, x: Tensor) -> Tensor:
        x = m.norm(x)
        k, v = m.k(x), m.v(x)
        slots = m.start.expand(x.shape[0], -1, -1)
        for _ in range(2):
            q = m.q(m.norm_slots(slots))
            a = (torch.einsum("bnd,bsd->bns", k, q) * 8**-0.5).softmax(-1) + 1e-8
            a = a / a.sum(1, keepdim=True)
            update = torch.einsum("bns,bnd->bsd", a, v)
            slots = m.cell(update.flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = slots + m.mlp(m.norm_mlp(slots))
        return slots

    parts = {
        "norm": nn.LayerNorm(8), "norm_slots": nn.LayerNorm(8), "norm_mlp": nn.LayerNorm(8),
        "k": nn.Linear(8, 8), "q": nn.Linear(8, 8), "v": nn.Linear(8, 8),
        "cell": nn.GRUCell(8, 8), "mlp": nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)),
        "start": nn.Parameter(torch.randn(1, 3, 8)),
    }  # fmt: skip
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 10, 8),))


@model
def deformable_sampling_train() -> OracleModel:
    """Attention at a few places that the query chooses, by bilinear samples."""

    def forward(m: Any, x: Tensor) -> Tensor:
        b, _, h, w = x.shape
        q = x.flatten(2).transpose(1, 2)
        offsets = torch.tanh(m.offset(q)).view(b, h * w, 4, 2) * 0.3
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        places = torch.stack([xs, ys], -1).view(1, h * w, 1, 2) + offsets
        values = F.grid_sample(m.value(x), places, align_corners=True)
        weights = m.weight(q).softmax(-1)
        return m.out((values * weights.unsqueeze(1)).sum(-1).transpose(1, 2)) + q

    parts = {
        "offset": nn.Linear(8, 8),
        "value": nn.Conv2d(8, 8, 1),
        "weight": nn.Linear(8, 4),
        "out": nn.Linear(8, 8),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(1, 8, 5, 6),), train=True)


@model
def gaussian_process() -> OracleModel:
    """A kernel of distances, its Cholesky factor, and mean and variance at new places."""

    def forward(m: Any, x: Tensor, y: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        def kernel(a: Tensor, b: Tensor) -> Tensor:
            d = (a[:, None] - b[None]) / m.length.exp()
            return m.height.exp() * torch.exp(-0.5 * (d * d).sum(-1))

        factor = torch.linalg.cholesky(kernel(x, x) + 0.1 * torch.eye(x.shape[0]))
        alpha = torch.cholesky_solve(y[:, None], factor)
        cross = kernel(new, x)
        v = torch.linalg.solve_triangular(factor, cross.T, upper=False)
        return (cross @ alpha).squeeze(-1), m.height.exp() - (v * v).sum(0)

    parts = {"length": nn.Parameter(torch.zeros(3)), "height": nn.Parameter(torch.zeros(()))}
    return OracleModel(
        Lambda(forward, **parts), (torch.randn(6, 3), torch.randn(6), torch.randn(4, 3))
    )


@model
def weight_normed_gan_train() -> OracleModel:
    """A discriminator with normalized weights by hand, hinge losses and a penalty."""

    def forward(m: Any, x: Tensor, made: Tensor) -> Tensor:
        def judge(t: Tensor) -> Tensor:
            w = (
                m.direction
                / m.direction.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
                * m.gain.view(-1, 1, 1, 1)
            )
            t = F.leaky_relu(F.conv2d(t, w, m.bias, stride=2, padding=1), 0.2)
            u = F.normalize(m.w2 @ m.v, dim=0)
            sigma = u @ m.w2 @ m.v
            return F.linear(F.leaky_relu(t.flatten(1), 0.2), m.w2 / sigma)

        real, fake = judge(x), judge(made)
        return F.relu(1 - real).mean() + F.relu(1 + fake).mean() + 0.01 * (real**2).mean()

    parts = {
        "direction": nn.Parameter(torch.randn(6, 3, 3, 3)),
        "gain": nn.Parameter(torch.ones(6)),
        "bias": nn.Parameter(torch.zeros(6)),
        "w2": nn.Parameter(torch.randn(1, 6 * 16)),
        "v": F.normalize(torch.randn(6 * 16), dim=0),
    }
    return OracleModel(
        Lambda(forward, **parts), (torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8, 8)), train=True
    )


@model
def sliding_window_attention() -> OracleModel:
    """Each query sees the seven keys around it, cut out by unfold, and two global tokens."""

    def forward(m: Any, x: Tensor) -> Tensor:
        _, n, d = x.shape
        q, k, v = m.qkv(x).chunk(3, -1)
        keys = F.pad(k, (0, 0, 3, 3)).unfold(1, 7, 1)
        values = F.pad(v, (0, 0, 3, 3)).unfold(1, 7, 1)
        near = torch.einsum("bnd,bndw->bnw", q, keys) / d**0.5
        place = torch.arange(n)[:, None] + torch.arange(-3, 4)
        near = near.masked_fill((place < 0) | (place >= n), -1e4)
        far = q @ k[:, :2].transpose(1, 2) / d**0.5
        a = torch.cat([near, far], -1).softmax(-1)
        return m.out(torch.einsum("bnw,bndw->bnd", a[..., :7], values) + a[..., 7:] @ v[:, :2])

    return OracleModel(
        Lambda(forward, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8)), (torch.randn(2, 12, 8),)
    )


@model
def alibi_softcap_grouped() -> OracleModel:
    """Groups of queries share a key, scores are capped and fall with distance, and norms have one added to their weight."""

    def forward(m: Any, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + m.g)
        q = m.q(h).view(b, n, 4, 8).transpose(1, 2)
        k = m.k(h).view(b, n, 2, 8).transpose(1, 2).repeat_interleave(2, 1)
        v = m.v(h).view(b, n, 2, 8).transpose(1, 2).repeat_interleave(2, 1)
        s = q @ k.transpose(-1, -2) * 8**-0.5
        s = 20.0 * torch.tanh(s / 20.0)
        distance = torch.arange(n)[None] - torch.arange(n)[:, None]
        slopes = 2.0 ** (-torch.arange(1, 5, dtype=torch.float32) * 2)
        s = s + slopes[:, None, None] * distance
        s = torch.where(distance <= 0, s, torch.finfo(s.dtype).min)
        y = m.o((s.softmax(-1, dtype=torch.float32) @ v).transpose(1, 2).reshape(b, n, 32))
        y = x + y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + m.g2)
        return y + m.down(F.gelu(m.gate(y), approximate="tanh") * m.up(y))

    parts: dict[str, Any] = {
        "q": nn.Linear(16, 32, bias=False), "k": nn.Linear(16, 16, bias=False), "v": nn.Linear(16, 16, bias=False),
        "o": nn.Linear(32, 16, bias=False), "gate": nn.Linear(16, 40, bias=False), "up": nn.Linear(16, 40, bias=False),
        "down": nn.Linear(40, 16, bias=False), "g": nn.Parameter(torch.zeros(16)), "g2": nn.Parameter(torch.zeros(16)),
    }  # fmt: skip
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 6, 16),))


@model
def orthogonal_update() -> OracleModel:
    """Muon's step: momentum, five iterations of Newton and Schulz, and decoupled decay."""

    def forward(m: Any, gradient: Tensor) -> Tensor:
        m.momentum.lerp_(gradient, 0.05)
        x = gradient.lerp(m.momentum, 0.95)
        x = x / (x.norm() + 1e-7)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return m.weight * (1 - 0.02 * 0.1) - 0.02 * max(1, 6 / 10) ** 0.5 * x

    parts = {"momentum": torch.randn(6, 10), "weight": nn.Parameter(torch.randn(6, 10))}
    return OracleModel(Lambda(forward, **parts), (torch.randn(6, 10),))


@model
def transport_loss_train() -> OracleModel:
    """Sinkhorn's iterations on a matrix of costs, in logarithms."""

    def forward(m: Any, a: Tensor, b: Tensor) -> Tensor:
        x, y = F.normalize(m.encode(a), dim=-1), F.normalize(m.encode(b), dim=-1)
        cost = 1 - x @ y.T
        log = -cost / 0.3
        u, v = torch.zeros(a.shape[0]), torch.zeros(b.shape[0])
        for _ in range(4):
            u = -math.log(a.shape[0]) - torch.logsumexp(log + v, 1)
            v = -math.log(b.shape[0]) - torch.logsumexp(log + u[:, None], 0)
        return ((log + u[:, None] + v).exp() * cost).sum()

    return OracleModel(
        Lambda(forward, encode=nn.Linear(6, 8)), (torch.randn(5, 6), torch.randn(9, 6)), train=True
    )


@model
def state_space_dual() -> OracleModel:
    """A chunk of Mamba 2: sums of segments, a product inside the chunk and a state between two chunks."""

    def segments(x: Tensor) -> Tensor:
        n = x.shape[-1]
        x = x.unsqueeze(-1).expand(*x.shape, n)
        x = x.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(-1), 0).cumsum(-2)
        return x.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(0), float("-inf"))

    def forward(m: Any, x: Tensor) -> Tensor:
        b = x.shape[0]
        z, u, bc, dt = m.into(x).split([8, 8, 8, 2], -1)
        dt = F.softplus(dt + m.bias)
        u = u.view(b, 2, 4, 2, 4) * dt.view(b, 2, 4, 2, 1)
        bb, cc = bc.view(b, 2, 4, 8).chunk(2, -1)
        a = (-m.a.exp() * dt).view(b, 2, 4, 2).permute(0, 3, 1, 2)
        total = a.cumsum(-1)
        inside = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", cc, bb, segments(a).exp(), u)
        decay = (total[..., -1:] - total).exp()
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", bb, decay, u)
        first = states[:, 0]
        states = torch.stack([torch.zeros_like(first), first], 1)
        between = torch.einsum("bcln,bchpn,bhcl->bclhp", cc, states, total.exp())
        y = (inside + between).reshape(b, 8, 8) + m.d * u.reshape(b, 8, 8)
        return m.out(y * F.silu(z))

    parts = {
        "into": nn.Linear(8, 26),
        "out": nn.Linear(8, 8),
        "bias": nn.Parameter(torch.zeros(2)),
        "a": nn.Parameter(torch.zeros(2)),
        "d": nn.Parameter(torch.ones(8)),
    }
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 8, 8),))


@model
def distillation_train() -> OracleModel:
    """A student against a frozen teacher: soft targets, smoothed labels and hidden states."""

    def forward(m: Any, x: Tensor, label: Tensor) -> Tensor:
        with torch.no_grad():
            t_hidden = F.gelu(m.teacher(x))
            t_logits = m.teacher_head(t_hidden)
        hidden = F.elu(m.student(x))
        logits = m.student_head(hidden)
        soft = (
            F.kl_div(
                (logits / 2).log_softmax(-1), (t_logits / 2).softmax(-1), reduction="batchmean"
            )
            * 4
        )
        hard = F.cross_entropy(logits, label, label_smoothing=0.1)
        return (
            soft
            + hard
            + F.smooth_l1_loss(m.bridge(hidden), t_hidden)
            + F.cosine_embedding_loss(m.bridge(hidden), t_hidden, torch.ones(x.shape[0]))
        )

    parts = {
        "teacher": nn.Linear(8, 16), "teacher_head": nn.Linear(16, 5), "student": nn.Linear(8, 6),
        "student_head": nn.Linear(6, 5), "bridge": nn.Linear(6, 16),
    }  # fmt: skip
    return OracleModel(
        Lambda(forward, **parts), (torch.randn(7, 8), torch.randint(0, 5, (7,))), train=True
    )


@model
def sub_pixel_upscaler_train() -> OracleModel:
    """Super-resolution: residual scaling, channel shuffles, sub-pixels, and a loss of edges."""

    def forward(m: Any, x: Tensor, sharp: Tensor) -> Tensor:
        h = m.head(x)
        for block in m.blocks:
            h = h + 0.1 * block(h)
        y = F.pixel_shuffle(m.up(F.channel_shuffle(h, 2)), 2) + F.interpolate(
            x, scale_factor=2, mode="bicubic"
        )
        dx, dy = y.diff(dim=-1) - sharp.diff(dim=-1), y.diff(dim=-2) - sharp.diff(dim=-2)
        return torch.sqrt((y - sharp) ** 2 + 1e-6).mean() + dx.abs().mean() + dy.abs().mean()

    blocks = nn.ModuleList(
        nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.PReLU(8), nn.Conv2d(8, 8, 1))
        for _ in range(2)
    )
    parts = {
        "head": nn.Conv2d(3, 8, 3, padding=1),
        "blocks": blocks,
        "up": nn.Conv2d(8, 12, 3, padding=1),
    }
    return OracleModel(
        Lambda(forward, **parts), (torch.randn(1, 3, 5, 5), torch.randn(1, 3, 10, 10)), train=True
    )


@model
def decomposed_adapters_train() -> OracleModel:
    """Adapters of low rank whose directions are normalized (DoRA), on weights that are frozen."""

    def forward(m: Any, x: Tensor) -> Tensor:
        for i in range(2):
            w = m.weights[i] + 2.0 * (m.b[i] @ m.a[i])
            w = m.size[i][:, None] * w / w.norm(dim=1, keepdim=True).detach()
            x = F.mish(x @ w.T)
        return x

    def stack(*shape: int) -> nn.ParameterList:
        return nn.ParameterList(nn.Parameter(torch.randn(*shape) * 0.5) for _ in range(2))

    weights = stack(8, 8)
    for w in weights:
        w.requires_grad_(False)
    parts = {"weights": weights, "a": stack(2, 8), "b": stack(8, 2), "size": stack(8)}
    return OracleModel(Lambda(forward, **parts), (torch.randn(5, 8),), train=True)


@model
def policy_gradient_train() -> OracleModel:
    """Clipped policy and value losses with an entropy, advantages by a backwards recursion."""

    def forward(
        m: Any, seen: Tensor, done: Tensor, reward: Tensor, action: Tensor, old: Tensor
    ) -> Tensor:
        h = torch.tanh(m.body(seen))
        log = m.policy(h).log_softmax(-1)
        value = m.value(h).squeeze(-1)
        kept = value.detach()
        advantages = []
        last = torch.zeros_like(kept[0])
        for t in reversed(range(reward.shape[0])):
            delta = reward[t] + 0.99 * kept[t + 1] * (1 - done[t]) - kept[t]
            last = delta + 0.99 * 0.95 * (1 - done[t]) * last
            advantages.insert(0, last)
        a = torch.stack(advantages)
        target = a + kept[:-1]
        a = (a - a.mean()) / (a.std() + 1e-8)
        ratio = (log[:-1].gather(-1, action.unsqueeze(-1)).squeeze(-1) - old).exp()
        policy = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
        entropy = -(log.exp() * log).sum(-1).mean()
        return policy + 0.5 * F.huber_loss(value[:-1], target) - 0.01 * entropy

    parts = {"body": nn.Linear(6, 16), "policy": nn.Linear(16, 4), "value": nn.Linear(16, 1)}
    args = (
        torch.randn(5, 3, 6), (torch.rand(4, 3) < 0.2).float(), torch.randn(4, 3),
        torch.randint(0, 4, (4, 3)), -torch.rand(4, 3) - 1,
    )  # fmt: skip
    return OracleModel(Lambda(forward, **parts), args, train=True)


@model
def ghost_blocks() -> OracleModel:
    """Cheap features beside real ones, hard gates, blur before striding, and statistics of one instance."""

    def forward(m: Any, x: Tensor) -> Tensor:
        a = F.relu6(m.norm(m.primary(x)))
        h = torch.cat([a, F.relu6(m.cheap(a))], 1)
        h = h * F.hardsigmoid(m.excite(F.relu(m.squeeze(F.adaptive_avg_pool2d(h, 1)))))
        h = F.conv2d(
            F.pad(h, (1, 1, 1, 1), mode="reflect"), m.blur.expand(12, 1, 3, 3), stride=2, groups=12
        )
        h = F.instance_norm(h) + F.avg_pool2d(F.lp_pool2d(x.abs(), 2, 2), 1).sum(1, keepdim=True)
        return m.head(torch.cat([h.amax((2, 3)), h.mean((2, 3))], 1))

    blur = torch.tensor([1.0, 2.0, 1.0])
    parts = {
        "primary": nn.Conv2d(3, 6, 3, padding=1, bias=False), "norm": nn.BatchNorm2d(6), "cheap": nn.Conv2d(6, 6, 3, padding=1, groups=6),
        "squeeze": nn.Conv2d(12, 4, 1), "excite": nn.Conv2d(4, 12, 1), "head": nn.Linear(24, 5), "blur": (blur[:, None] * blur / 16)[None, None],
    }  # fmt: skip
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 3, 8, 8),))


@model
def loop_with_attention() -> OracleModel:
    """A loop whose body attends, and a branch after it: graphs in a graph, each with linear layers."""

    def forward(m: Any, x: Tensor) -> Tensor:
        def body(i: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            q, k, v = m.q(h), m.k(h), m.v(h)
            a = (q @ k.transpose(-1, -2) * 8**-0.5).softmax(-1)
            return i + 1, F.layer_norm(h + a @ v, (8,))

        _, h = torch._higher_order_ops.while_loop(
            lambda i, h: i < 3, body, (torch.zeros((), dtype=torch.int64), x)
        )
        return torch.cond(
            h.abs().mean() > 0.5, lambda t: m.wide(t).relu(), lambda t: m.narrow(t).sigmoid(), (h,)
        )

    parts = {name: nn.Linear(8, 8) for name in ("q", "k", "v", "wide", "narrow")}
    return OracleModel(Lambda(forward, **parts), (torch.randn(2, 4, 8),))


@model
def quantile_features() -> OracleModel:
    """A table's columns: missing ones filled, ranks, buckets, running sums, crossed features of a factorization machine."""

    def forward(m: Any, x: Tensor, c: Tensor) -> Tensor:
        missing = torch.isnan(x)
        x = torch.where(missing, m.fill, torch.nan_to_num(x))
        z = (x - m.centre) / m.spread.clamp(min=0.1)
        bucket = torch.bucketize(z, m.edges)
        e = torch.cat([m.columns[i](bucket[:, i])[:, None] for i in range(3)] + [m.kinds(c)], 1)
        cross = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1))
        return m.head(
            torch.cat([cross, z.cumsum(1), missing.float(), torch.log1p(z.abs()) * z.sign()], 1)
        ).squeeze(-1)

    parts = {
        "fill": nn.Parameter(torch.randn(3)), "centre": nn.Parameter(torch.randn(3)), "spread": nn.Parameter(torch.rand(3) + 0.5),
        "edges": torch.tensor([-1.0, -0.3, 0.2, 0.9]), "columns": nn.ModuleList(nn.Embedding(5, 4) for _ in range(3)),
        "kinds": nn.Embedding(7, 4), "head": nn.Linear(13, 1),
    }  # fmt: skip
    x = torch.randn(6, 3)
    x[1, 2] = x[4, 0] = float("nan")
    return OracleModel(Lambda(forward, **parts), (x, torch.randint(0, 7, (6, 2))))


@model
def bfloat16_gated_delta_train() -> OracleModel:
    """A recurrence of outer products with a delta rule, in bfloat16."""

    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = m.qkv(x).chunk(3, -1)
        k = F.normalize(k.float(), dim=-1).to(x.dtype)
        beta = torch.sigmoid(m.beta(x))
        gate = torch.sigmoid(m.gate(x))
        state = x.new_zeros(x.shape[0], 8, 8)
        outs = []
        for t in range(4):
            old = torch.einsum("bij,bj->bi", state, k[:, t])
            state = state * gate[:, t, :, None] + (beta[:, t] * (v[:, t] - old)).unsqueeze(-1) * k[
                :, t
            ].unsqueeze(1)
            outs.append(torch.einsum("bij,bj->bi", state, q[:, t]))
        return torch.stack(outs, 1)

    module = Lambda(
        forward, qkv=nn.Linear(8, 24), beta=nn.Linear(8, 1), gate=nn.Linear(8, 8)
    ).bfloat16()
    return OracleModel(module, (torch.randn(2, 4, 8, dtype=torch.bfloat16),), train=True)
