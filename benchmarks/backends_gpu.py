"""Checks emitted backends with CUDA graphs on a GPU: every change of weights, strides, threads and streams, captures that fail.

    PYTHONPATH=python python benchmarks/backends_gpu.py

Prints a line a check, and exits with 1 where one fails.
"""

import importlib.util
import sys
import threading
import time
from pathlib import Path

import torch
from torch import nn

from opprof.backend.emit import emit

STRATEGIES = {
    "graph": dict(cuda_graph=True),
    "prologue_graph": dict(prologue=True, cuda_graph=True),
    "freeze_graph": dict(prologue=True, freeze=True, cuda_graph=True),
    "half_graph": dict(prologue=True, precision=torch.float16, cuda_graph=True),
}
failures = []


def load(name, strategy):
    folder = Path("/tmp/opprof_gpu_backends")
    folder.mkdir(exist_ok=True)
    file = folder / f"gpu_{name}.py"
    emit([], file)
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"gpu_{name}"] = module
    spec.loader.exec_module(module)
    module.STRATEGY = module.Strategy(**strategy)
    return module


class Merged(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(64, 128))
        self.b = nn.Parameter(torch.randn(64, 128))
        self.norm = nn.LayerNorm(128)

    def forward(self, x):
        weight = torch.cat([self.a, self.b])
        y = self.norm(torch.tanh(x) @ weight.t())
        return y.transpose(0, 1), weight * 2


def error(actual, expected):
    worst = 0.0
    for own, reference in zip(actual, expected, strict=True):
        if (
            own.shape != reference.shape
            or own.dtype != reference.dtype
            or own.stride() != reference.stride()
        ):
            return f"{own.shape} {own.dtype} {own.stride()} for {reference.shape} {reference.dtype} {reference.stride()}"
        value = float((own.double() - reference.double()).norm() / reference.double().norm())
        if not value <= 1:
            return f"relative error {value}"
        worst = max(worst, value)
    return worst


def check(backend, compiled, model, what, *inputs):
    tolerance = 5e-3 if backend.STRATEGY.precision else 1e-4
    with torch.no_grad():
        found = error(compiled(*inputs), model(*inputs))
    good = isinstance(found, float) and found < tolerance
    print(f"  {'ok    ' if good else 'FAILED'} {what}: {found}", flush=True)
    if not good:
        failures.append((backend.BACKEND_NAME, what, found))


def captured(backend):
    graphs = backend.status()["graphs"]
    for graph in graphs:
        if graph.refusal or graph.left_out:
            print("  left out:", graph.refusal, graph.left_out)
    return [g for g in graphs if g.refusal is None and g.strategy.cuda_graph and not g.left_out]


def probe(name, strategy):
    print(name)
    torch._dynamo.reset()
    torch.manual_seed(0)
    backend = load(name, strategy)
    model = Merged().cuda().eval()
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    x = torch.randn(32, 128, device="cuda")
    check(backend, compiled, model, "first call", x)
    for _ in range(3):
        check(backend, compiled, model, "replay", torch.randn(32, 128, device="cuda"))
    if not captured(backend):
        failures.append((name, "nothing was captured", ""))
    with torch.no_grad():
        first = compiled(x)
        kept = [value.clone() for value in first]
        compiled(torch.randn_like(x))
        check_same(name, "results kept over a call", first, kept)
        first[1].zero_()
        check(backend, compiled, model, "results written", x)
        model.a.mul_(2)
        check(backend, compiled, model, "weight written", x)
        model.a = nn.Parameter(torch.randn(64, 128, device="cuda"))
        torch.cuda.empty_cache()
        check(backend, compiled, model, "weight replaced", x)
        model.b.data = torch.randn(64, 128, device="cuda")
        check(backend, compiled, model, "data replaced", x)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    sum(result.sum() for result in model(x)).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    check(backend, compiled, model, "fused step", x)
    model.a.data.mul_(3)
    backend.refresh()
    check(backend, compiled, model, "refresh()", x)
    backend.check_weights_every(1)
    check(backend, compiled, model, "checksums", x)
    model.a.data.mul_(3)
    check(backend, compiled, model, "checksum differs", x)
    backend.check_weights_every(0)
    # Memory of what is dropped is used again: the graph must hold what it reads.
    junk = [torch.full((1 << 18,), float("nan"), device="cuda") for _ in range(64)]
    check(backend, compiled, model, "memory used by others", x)
    del junk
    hidden = torch.randn(32, 7, 128, device="cuda")
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    check(backend, compiled, model, "sliced input", hidden[:, -1])
    check(backend, compiled, model, "sliced input again", hidden[:, 2])
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    check(
        backend,
        compiled,
        model,
        "expanded input",
        torch.randn(1, 128, device="cuda").expand(32, 128),
    )
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    check(backend, compiled, model, "before threads", x)
    threads_and_streams(backend, compiled, model)


def check_same(name, what, actual, expected):
    good = all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))
    print(f"  {'ok    ' if good else 'FAILED'} {what}")
    if not good:
        failures.append((name, what, ""))


def threads_and_streams(backend, compiled, model):
    tolerance = 5e-3 if backend.STRATEGY.precision else 1e-4
    wrong, done = [], []

    def work(seed):
        stream = torch.cuda.Stream()
        generator = torch.Generator(device="cuda").manual_seed(seed)
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(50):
                own = torch.randn(32, 128, device="cuda", generator=generator)
                found = error(compiled(own), model(own))
                done.append(1)
                if not isinstance(found, float) or found > tolerance:
                    wrong.append(found)

    for _ in range(3):
        with torch.no_grad():
            model.a.add_(1)
        torch.cuda.synchronize()
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    good = not wrong and len(done) == 600
    print(
        f"  {'ok    ' if good else 'FAILED'} 4 threads, 4 streams: {len(wrong)} of {len(done)} wrong {wrong[:3]}"
    )
    if not good:
        failures.append((backend.BACKEND_NAME, "threads", wrong[:3]))


class Syncs(nn.Module):
    def forward(self, x):
        return (x * x.abs().sum().cpu().to(x.device)).tanh(), x.sum().reshape(1)


def fallback():
    """A graph that cannot be captured is run by Inductor, and says why."""
    print("fallback")
    torch._dynamo.reset()
    backend = load("fallback", dict(cuda_graph=True))
    model = Syncs().cuda()
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    x = torch.randn(8, 8, device="cuda")
    for _ in range(2):
        check(backend, compiled, model, "a copy to the host inside", x)
    captured(backend)


def overhead():
    torch._dynamo.reset()
    backend = load("overhead", dict(prologue=True, cuda_graph=True))
    model = Merged().cuda().eval()
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    x = torch.randn(32, 128, device="cuda")
    with torch.no_grad():
        for _ in range(20):
            compiled(x)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(500):
            compiled(x)
            torch.cuda.synchronize()
    print(f"a waiting call: {(time.perf_counter() - start) / 500 * 1e6:.0f} us")


for name, strategy in STRATEGIES.items():
    try:
        probe(name, strategy)
    except Exception as problem:
        import traceback

        traceback.print_exc()
        failures.append((name, "raised", repr(problem)[:200]))
fallback()
overhead()
print("FAILED" if failures else "all ok", failures)
sys.exit(bool(failures))
