"""Checks emitted backends with CUDA graphs on a GPU: every change of weights, strides, threads and streams, captures that fail.

    PYTHONPATH=python python benchmarks/backends_gpu.py [--quick]

Each by torch.compile and by optimize(); on a second GPU too, where there is one. Prints a line a check, then what a call costs
(benchmarks/front_cost.py; not with --quick), and exits with 1 where a check fails.
"""

import importlib.util
import sys
import threading
import traceback
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


def program_of(backend, model, front):
    return backend.optimize(model) if front else torch.compile(model, backend=backend.BACKEND_NAME)


def probe(name, strategy, front=False):
    print(name)
    torch._dynamo.reset()
    torch.manual_seed(0)
    backend = load(name, strategy)
    model = Merged().cuda().eval()
    compiled = program_of(backend, model, front)
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
    compiled = program_of(backend, model, front)
    check(backend, compiled, model, "sliced input", hidden[:, -1])
    check(backend, compiled, model, "sliced input again", hidden[:, 2])
    torch._dynamo.reset()
    compiled = program_of(backend, model, front)
    check(
        backend,
        compiled,
        model,
        "expanded input",
        torch.randn(1, 128, device="cuda").expand(32, 128),
    )
    torch._dynamo.reset()
    compiled = program_of(backend, model, front)
    check(backend, compiled, model, "before threads", x)
    if front:
        results_where_they_lie(backend, compiled, model, x)
    threads_and_streams(backend, compiled, model)
    if front:
        status = backend.status()["fronts"]
        good = sum(f.shortcuts for f in status) > 0
        say(name, "calls past Dynamo", good, status)


def check_same(name, what, actual, expected):
    good = all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))
    print(f"  {'ok    ' if good else 'FAILED'} {what}")
    if not good:
        failures.append((name, what, ""))


def threads_and_streams(backend, compiled, model):
    """Four threads on streams of their own, and on one; they drop results while what reads them has only been launched."""
    tolerance = 5e-3 if backend.STRATEGY.precision else 1e-4
    for streams in (4, 1):
        wrong, done, failed = [], [], []

        def work(seed, streams=streams, wrong=wrong, done=done, failed=failed):
            stream = torch.cuda.Stream() if streams > 1 else torch.cuda.default_stream()
            generator = torch.Generator(device="cuda").manual_seed(seed)
            with torch.no_grad(), torch.cuda.stream(stream):
                for _ in range(50):
                    own = torch.randn(32, 128, device="cuda", generator=generator)
                    results = [value.clone() for value in compiled(own)]
                    if torch.cuda.current_stream() != stream:
                        failed.append("the call changed the thread's stream")
                    found = error(results, model(own))
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
        good = not wrong and not failed and len(done) == 600
        what = f"4 threads, {streams} streams: {len(wrong)} of {len(done)} wrong {wrong[:3]} {failed[:1]}"
        print(f"  {'ok    ' if good else 'FAILED'} {what}")
        if not good:
            failures.append((backend.BACKEND_NAME, "threads", (wrong + failed)[:3]))


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


def say(name, what, good, found=""):
    print(f"  {'ok    ' if good else 'FAILED'} {what} {found if not good else ''}", flush=True)
    if not good:
        failures.append((name, what, str(found)[:300]))


def results_where_they_lie(backend, fast, model, x):
    """Results are not copied where they are dropped, and stay as they are where they are kept."""
    name = backend.BACKEND_NAME
    with torch.no_grad():
        places = set()
        for _ in range(8):
            results = fast(x)
            places.add(results[0].data_ptr())
        say(name, "a loop copies no results", len(places) <= 4, places)
        kept, right = [], []
        for number in range(6):
            other = torch.randn_like(x)
            kept.append(fast(other)[0][number])
            right.append(model(other)[0][number].clone())
        good = all((a - b).norm() <= 5e-3 * b.norm() for a, b in zip(kept, right, strict=True))
        say(name, "results that are kept stay", good)
        del kept
        for _ in range(4):
            results = fast(x)
            [value.zero_() for value in results]
        check(backend, fast, model, "results written", x)
        # The same memory with other contents, and other memory.
        y = x.clone()
        for number in range(6):
            y.fill_(number / 7)
            check(backend, fast, model, f"an input filled again, {number}", y)
        with torch.inference_mode():
            check(backend, fast, model, "inference mode", x)
        stream = torch.cuda.Stream()
        for number in range(20):
            own = torch.randn_like(x)
            with torch.cuda.stream(stream if number % 2 else torch.cuda.current_stream()):
                if number % 2:
                    stream.wait_stream(torch.cuda.default_stream())
                actual = [value.clone() for value in fast(own)]
            torch.cuda.synchronize()
            found = error(actual, model(own))
            if not isinstance(found, float) or found > 5e-3:
                say(name, f"two streams in turn, call {number}", False, found)
                return
        say(name, "two streams in turn", True)


def prologue_on_streams(front):
    """Without a captured graph: what the prologue makes on one stream is there for calls on others."""
    name = f"streams_{'front' if front else 'compiled'}"
    print(name)
    torch._dynamo.reset()
    torch.manual_seed(0)
    backend = load(name, dict(prologue=True, precision=torch.float16))
    model = Merged().cuda().eval()
    compiled = program_of(backend, model, front)
    x = torch.randn(32, 128, device="cuda")
    check(backend, compiled, model, "first call", x)
    check(backend, compiled, model, "second call", x)
    for number in range(10):
        stream = torch.cuda.Stream()
        with torch.no_grad():
            model.a.mul_(-1)
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(10_000_000)
                compiled(x)
            actual = compiled(x)
            torch.cuda.synchronize()
            found = error(actual, model(x))
        say(
            name,
            f"made on another stream, {number}",
            isinstance(found, float) and found < 5e-3,
            found,
        )


def two_devices(front):
    """Each device's program is captured on its device, whichever is current."""
    if torch.cuda.device_count() < 2:
        print("two devices: left out, there is one")
        return
    name = f"devices_{'front' if front else 'compiled'}"
    print(name)
    torch._dynamo.reset()
    torch.manual_seed(0)
    backend = load(name, dict(prologue=True, cuda_graph=True))
    models = [Merged().to(f"cuda:{i}").eval() for i in range(2)]
    programs = [program_of(backend, model, front) for model in models]
    for number in range(4):
        for device, (model, program) in enumerate(zip(models, programs, strict=True)):
            x = torch.randn(32, 128, device=f"cuda:{device}")
            check(backend, program, model, f"cuda:{device}, call {number}", x)
    wrong = []

    def work(device):
        with torch.no_grad():
            for _ in range(50):
                own = torch.randn(32, 128, device=f"cuda:{device}")
                found = error(programs[device](own), models[device](own))
                if not isinstance(found, float) or found > 1e-4:
                    wrong.append(found)

    threads = [threading.Thread(target=work, args=(device,)) for device in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    say(name, "two threads on two devices", not wrong, wrong[:3])


class SplitProducts(nn.Module):
    """Products of few results and many terms, which cuBLAS adds up in its workspace."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(1 << 15, 96)
        self.second = nn.Linear(96, 1 << 15)

    def forward(self, x):
        return self.first(torch.tanh(self.second(torch.tanh(self.first(x)))))


def workspaces(front):
    """Who compiles with reduce-overhead gives the workspaces of all products back: a captured graph has its own."""
    name = f"workspaces{'_front' if front else ''}"
    print(name)
    torch._dynamo.reset()
    backend = load(name, dict(cuda_graph=True))
    model, x = SplitProducts().cuda().eval(), torch.randn(8, 1 << 15, device="cuda")
    compiled = program_of(backend, model, front)
    check(backend, compiled, model, "captured", x)
    check(backend, compiled, model, "replay", x)
    if not captured(backend):
        failures.append((name, "nothing was captured", ""))
    other = nn.Sequential(nn.Linear(1 << 14, 64), nn.Tanh(), nn.Linear(64, 1 << 14)).cuda().eval()
    given = torch.randn(4, 1 << 14, device="cuda")
    with torch.no_grad():
        fast = torch.compile(other, mode="reduce-overhead")
        for _ in range(5):
            fast(given)
        del fast
        torch._dynamo.reset()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        # Of all sizes that a workspace has: whoever still writes to one writes here.
        junk = [torch.full((size,), 7.0, device="cuda") for size in (1 << 18, 1 << 20, 1 << 23) for _ in range(24)]
        for _ in range(20):
            compiled(x)
        check(backend, compiled, model, "after reduce-overhead", x)
        written = sum(int((own != 7).sum()) for own in junk)
        say(name, "memory of others as it was", not written, written)


def main():
    for name, strategy in STRATEGIES.items():
        for front in (False, True):
            try:
                probe(f"{name}_front" if front else name, strategy, front)
            except Exception as problem:
                traceback.print_exc()
                failures.append((name, "raised", repr(problem)[:200]))
    for check_all in (
        fallback,
        lambda: two_devices(False),
        lambda: two_devices(True),
        lambda: prologue_on_streams(False),
        lambda: prologue_on_streams(True),
        lambda: workspaces(front=False),
        lambda: workspaces(front=True),
    ):
        try:
            check_all()
        except Exception as problem:
            traceback.print_exc()
            failures.append(("raised", repr(problem)[:200]))
    print("FAILED" if failures else "all ok", failures)
    if "--quick" not in sys.argv:
        import front_cost

        front_cost.main()
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
