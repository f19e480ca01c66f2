"""What the observer costs a program, beside the bare program and torch.profiler with stacks, interleaved.

    python benchmarks/observer.py [--device cuda] [--rounds 7] [--libraries build/lib] [--quick]

Each round starts the same training program once bare, once observed and once profiled, and takes the median wall time of its steps.
`--quick` does so in one process, in under a minute: the observer begins and ends between the steps. It adds what PyTorch itself takes
to call back (`called`: a callback that does nothing, compiled with g++), below which no observer of operators gets, what a program takes
outside of the steps that `opprof run --steps` records (`counted`), what recording allocations costs as well (`memory`), and the cost of
an operator, outermost and nested.
On a GPU the capture's own records come on top (`opprof run`); this measures the operators alone. `--build` compiles the two
libraries for the installed PyTorch and Python into the folder first, which needs g++ and Python's headers, and neither LLVM nor CMake.
"""

import argparse
import contextlib
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
INJECTED = ROOT / "python" / "opprof" / "recording" / "injected"

PROGRAM = """
import sys, time, torch
device, wide = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
net = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(wide, 4, 2 * wide, batch_first=True) for _ in range(4))).to(device)
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
def step():
    loss = net(torch.ones(4, 16, wide, device=device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()
def run(count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return sorted(times)[count // 2] * 1e3
run(5)
if sys.argv[3] == "profiled":
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True, with_modules=True):
        print(run(20))
else:
    print(run(20))
"""

EMPTY = """
#include <ATen/record_function.h>
static std::atomic<unsigned long> calls{0};
static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &) {
  calls.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}
static void end(const at::RecordFunction &, at::ObserverContext *) {}
extern "C" unsigned long empty_add() {
  return at::addGlobalCallback(at::RecordFunctionCallback(begin, end).scopes(
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
}
extern "C" void empty_remove(unsigned long handle) { at::removeCallback(handle); }
extern "C" unsigned long empty_calls() { return calls; }
"""


def compile_library(output: Path, *inputs: object) -> None:
    """A library for the installed PyTorch."""
    import torch

    own = Path(torch.__file__).parent
    libraries = [own / "lib" / name for name in ("libtorch_cpu.so", "libc10.so")]
    subprocess.run(
        ["g++", "-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-Wl,-z,nodelete",
         f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{ROOT}/include",
         *(f"-isystem{own}/include{part}" for part in ("", "/torch/csrc/api/include")), *inputs, *libraries, "-Wl,--allow-shlib-undefined", "-o", output],
        check=True,
    )  # fmt: skip


def build(folder: Path) -> None:
    """Both libraries, as a program that is recorded builds them where there are none."""
    import torch

    sys.path.insert(0, str(INJECTED))
    import observer_build  # type: ignore[import-not-found]
    import observing  # type: ignore[import-not-found]

    folder.mkdir(parents=True, exist_ok=True)
    observer_build.build(str(ROOT), str(folder), torch, observing.names(torch))


@contextlib.contextmanager
def observed(library: Any, folder: str, first: int = 0, memory: bool = False) -> Iterator[None]:
    """The observer records meanwhile; where there is a first step to record, it counts until that."""
    import observing  # type: ignore[import-not-found]

    options = observing._Options(
        ctypes.sizeof(observing._Options), os.fsencode(f"{folder}/operators")
    )
    options.first_step, options.end_step = first, first and first + 1
    options.memory = memory
    if library.opprof_observer_start(ctypes.byref(options)):
        raise RuntimeError(library.opprof_observer_last_error().decode())
    try:
        yield
    finally:
        library.opprof_observer_stop()


@contextlib.contextmanager
def called(library: Any) -> Iterator[None]:
    """A callback that does nothing is called meanwhile."""
    handle = library.empty_add()
    try:
        yield
    finally:
        library.empty_remove(ctypes.c_ulong(handle))


def quick(device: str, rounds: int, libraries: Path) -> None:
    """All ways in one process, interleaved."""
    import torch

    sys.path.insert(0, str(INJECTED))
    import observing

    library = observing._load(str(libraries), torch)
    reason = observing._follow_frames(str(libraries), torch, library)
    if reason:
        print(f"no modules and lines: {reason}")
    program: dict[str, Any] = {}
    arguments, sys.argv = sys.argv, ["program", device, "32", "none"]
    exec(
        compile(
            PROGRAM.replace("run(5)", "").rpartition("if sys.argv[3]")[0], "program.py", "exec"
        ),
        program,
    )
    sys.argv = arguments
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "empty.cpp").write_text(EMPTY)
        compile_library(Path(folder) / "empty.so", Path(folder) / "empty.cpp")
        empty = ctypes.CDLL(f"{folder}/empty.so")
        empty.empty_add.restype = empty.empty_calls.restype = ctypes.c_ulong
        activities = [torch.profiler.ProfilerActivity.CPU]
        ways: dict[str, Callable[[], Any]] = {
            "bare": contextlib.nullcontext,
            "called": lambda: called(empty),
            "counted": lambda: observed(library, folder, 1 << 40),
            "observed": lambda: observed(library, folder),
            "memory": lambda: observed(library, folder, memory=True),
            "profiled": lambda: torch.profiler.profile(
                activities=activities, with_stack=True, with_modules=True
            ),
        }
        one = torch.ones(4, 4)
        operators = {
            "outermost": lambda: one.as_strided((4, 4), (4, 1)),
            # Calls aten::transpose, and that aten::as_strided.
            "nested": lambda: one.t(),
            # Takes a block and gives it back.
            "allocating": lambda: torch.empty(16),
        }
        steps: dict[str, list[float]] = {way: [] for way in ways}
        single: dict[tuple[str, str], list[float]] = {}
        program["run"](10)
        with called(empty):
            before = empty.empty_calls()
            program["step"]()
            count = empty.empty_calls() - before
        for turn in range(rounds):
            for way, record in ways.items():
                if way == "profiled" and turn % 3:
                    continue
                with record():
                    program["run"](2)
                    steps[way].append(program["run"](15))
                    for kind, call in operators.items() if way != "profiled" else ():
                        number = 4000
                        single.setdefault((kind, way), []).append(
                            min(timeit.repeat(call, number=number, repeat=4)) / number * 1e9
                        )
    bare = statistics.median(steps["bare"])
    for way, times in steps.items():
        middle = statistics.median(times)
        print(
            f"{way:9} {middle:8.3f} ms a step, {middle / bare:.3f} of bare, {(middle - bare) / count * 1e6:5.0f} ns "
            f"for each of {count} operators, {min(times):.3f} to {max(times):.3f}"
        )
    for way in ("called", "counted", "observed", "memory"):
        extra = {
            kind: statistics.median(single[kind, way]) - statistics.median(single[kind, "bare"])
            for kind in operators
        }
        print(
            f"{way:9} an outermost operator {extra['outermost']:.0f} ns more, a nested one "
            f"{(extra['nested'] - extra['outermost']) / 2:.0f}, one that allocates {extra['allocating']:.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--libraries", type=Path, default=ROOT / "build" / "lib")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.build:
        build(options.libraries)
    if options.quick:
        quick(options.device, options.rounds, options.libraries)
        return
    for width in (32, 512):
        times: dict[str, list[float]] = {"bare": [], "observed": [], "profiled": []}
        for _ in range(options.rounds):
            for way, list_of in times.items():
                with tempfile.TemporaryDirectory() as folder:
                    environment = dict(os.environ, KINETO_LOG_LEVEL="99")
                    if way == "observed":
                        environment["PYTHONPATH"] = str(INJECTED)
                        environment["OPPROF_OPERATORS"] = f"{folder}/operators"
                        environment["OPPROF_OBSERVER_LIBRARIES"] = str(options.libraries)
                    done = subprocess.run(
                        [sys.executable, "-c", PROGRAM, options.device, str(width), way],
                        env=environment, capture_output=True, text=True, check=True,
                    )  # fmt: skip
                    list_of.append(float(done.stdout))
        bare = statistics.median(times["bare"])
        for way, list_of in times.items():
            middle = statistics.median(list_of)
            print(
                f"width {width:4} {way:9} {middle:8.3f} ms a step, {middle / bare:.3f} of bare, "
                f"{min(list_of):.3f} to {max(list_of):.3f}"
            )


if __name__ == "__main__":
    main()
