"""What a call costs besides the program: optimize() and torch.compile side by side, in one process, on GPT-2 and an MLP.

    PYTHONPATH=python python benchmarks/front_cost.py [mlp] [gpt2] [gpt2_half]

On a CPU the program is replaced by one that does nothing, so that what is left is the cost of the call. On a GPU replays are taken
away for that in the same way; and steps that wait for the GPU, and the host's time of steps that do not, are timed beside a bare replay
that copies the same input in and the same result out. Times are in microseconds: the least of many rounds, in which the candidates take turns.
"""

import functools
import gc
import importlib.util
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from opprof.backend.emit import emit

ROOT = Path(__file__).parents[1]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def load_backend(name, **strategy):
    """A backend without rewrites, with a strategy."""
    file, _ = emit([], Path(tempfile.mkdtemp()) / f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    module.STRATEGY = module.Strategy(**strategy)
    return module


def least(candidates, rounds=40, calls=25, wait=False):
    """The least time of a call of each candidate."""
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for name, function in candidates.items():
            function()
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                function()
                if wait:
                    torch.cuda.synchronize()
            best[name] = min(best[name], (time.perf_counter() - start) / calls * 1e6)
            if DEVICE == "cuda":
                torch.cuda.synchronize()
    return best


def gpt2(small):
    spec = importlib.util.spec_from_file_location("gpt2_example", ROOT / "examples" / "gpt2.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpt2_example"] = module
    spec.loader.exec_module(module)
    model = module.GPT2(12, 64, 4, 128) if small else module.GPT2()
    return model.eval(), torch.randint(0, 1000, (1, 128))


def mlp(small):
    layers = [part for _ in range(4) for part in (nn.Linear(512, 512), nn.ReLU())]
    return nn.Sequential(*layers).eval(), torch.randn(64, 512)


def bare(model, x):
    """A replay of Inductor's program with buffers of its own, and nothing asked."""
    compiled = torch.compile(model)
    buffer = x.clone()
    for _ in range(3):
        compiled(buffer)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compiled(buffer)
    replay = Begin(graph.replay)

    def step():
        buffer.copy_(x)
        replay()
        return result.clone()

    return step, replay


class Begin:
    """When the replay of a recording begins, on the host: what a call takes until then comes on top of the GPU's work in a step that waits."""

    def __init__(self, replay):
        self.replay, self.at = replay, 0.0

    def __call__(self):
        self.at = time.perf_counter()
        self.replay()


def begins_after(functions, begins, rounds=300):
    """The median time from the call of each function to the beginning of its replay, with the device idle before."""
    after = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            function()
            at = max(begin.at for begin in begins)
            after[name].append((at - start) * 1e6)
            torch.cuda.synchronize()
    return {name: statistics.median(times) for name, times in after.items()}


def recordings_of(backend):
    return [
        recording
        for program in objects_of(backend.Program)
        for generation in program.generations
        if generation.captured is not None
        for recording in generation.captured.recordings
    ]


def objects_of(kind):
    return [value for value in gc.get_objects() if type(value) is kind]


def take_work_away(backend):
    """Lets the backend's programs give what they gave, and compute nothing."""
    for recording in recordings_of(backend):
        recording.replay = lambda: None
    for program in objects_of(backend.Program):
        compiled, frozen, given = program.compiled, program.frozen, {}

        def idle(*values, function=None, given=given):
            if "result" not in given:
                given["result"] = function(*values)
            return list(given["result"])

        if compiled is not None:
            program.compiled = functools.partial(idle, function=compiled)
        if frozen is not None:
            program.frozen = functools.partial(idle, function=frozen)


def print_beside(times):
    """Times, and what each takes beside the bare replay."""
    for what, value in times.items():
        print(f"    {what:28} {value:9.1f}  {value - times['bare replay']:+9.1f}")


def print_parts(shortcut, x):
    """What a call asks, part by part."""
    parts = least(
        {
            "arguments": lambda: shortcut.signature.accepts((x,), {}),
            "modes": shortcut.state.holds,
            "modules and what they read": shortcut.watch.holds,
            "before a replay": shortcut._is_safe,
            "metadata of weights": lambda: shortcut._metadata.check(*shortcut._fixed),
            "addresses and versions": shortcut._current,
        }
    )
    print("  of that:")
    for what, value in parts.items():
        print(f"    {what:28} {value:9.2f}")


def table(name, make, strategy):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = make(DEVICE == "cpu")
    model, x = model.to(DEVICE), x.to(DEVICE)
    if DEVICE == "cuda":
        strategy = {**strategy, "cuda_graph": True}
    backend = load_backend(f"cost_{name}", **strategy)
    fast = backend.optimize(model)
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    second = x.clone()
    turn = [x, second]

    def changing(function):
        def call():
            turn.reverse()
            return function(turn[0])

        return call

    with torch.no_grad():
        for _ in range(4):
            fast(x), fast(second), compiled(x)
        front = backend.status()["fronts"][-1]
        weights = sum(1 for _ in model.parameters())
        print(
            f"{name}: {weights} weights, {strategy}; shortcuts in {front.shortcuts} of {front.calls} calls"
        )
        if front.unfit:
            print(f"  no shortcut: {front.unfit}")
        if DEVICE == "cuda":
            step, bare_replay = bare(model, x)
            own = recordings_of(backend)[-1].replay
            plain = torch.compile(model)
            waiting = least(
                {
                    "bare replay": step,
                    "optimize(), same input": lambda: fast(x),
                    "optimize(), other inputs": changing(fast),
                    "torch.compile(backend=…)": lambda: compiled(x),
                    "torch.compile": lambda: plain(x),
                    "bare replay, no copies": bare_replay.replay,
                    "optimize()'s, no copies": own,
                },
                wait=True,
            )
            print("  a step that waits:")
            print_beside(waiting)
            recordings = recordings_of(backend)
            for recording in recordings:
                recording.replay = Begin(recording.replay)
            begins = [bare_replay, *[recording.replay for recording in recordings]]
            before = begins_after(
                {
                    "bare replay": step,
                    "optimize(), same input": lambda: fast(x),
                    "optimize(), other inputs": changing(fast),
                },
                begins,
            )
            print("  of that, before the replay begins (median):")
            print_beside(before)
            # The device is behind all the while.
            running = least(
                {"bare replay": step, "optimize(), same input": lambda: fast(x)}, calls=8
            )
            print("  host time of a call, replay and copies included:")
            print_beside(running)
        take_work_away(backend)
        host = least(
            {
                "optimize(), same input": lambda: fast(x),
                "optimize(), other inputs": changing(fast),
                "torch.compile(backend=…)": lambda: compiled(x),
            }
        )
        print("  host time of a call, without the work:")
        for what, value in host.items():
            ratio = host["torch.compile(backend=…)"] / value
            print(f"    {what:28} {value:9.1f}  {ratio:6.1f} times as fast as torch.compile")
        print_parts(objects_of(backend.Shortcut)[-1], x)
    return host


def main():
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}, {DEVICE}; microseconds")
    half = torch.float16 if DEVICE == "cuda" else torch.bfloat16
    tables = {
        "mlp": (mlp, {"prologue": True}),
        "gpt2": (gpt2, {"prologue": True}),
        "gpt2_half": (gpt2, {"prologue": True, "precision": half}),
    }
    for name in sys.argv[1:] or tables:
        table(name, *tables[name])


if __name__ == "__main__":
    main()
