"""What the observer costs a program, beside the bare program and torch.profiler with stacks, interleaved.

    python benchmarks/observer.py [--device cuda] [--rounds 7] [--libraries build/lib]

Each round starts the same training program once bare, once observed and once profiled, and takes the median wall time of its steps.
On a GPU the capture's own records come on top (`opprof run`); this measures the operators alone. `--build` compiles the two
libraries for the installed PyTorch and Python into the folder first, which needs g++ and Python's headers, and neither LLVM nor CMake.
"""

import argparse
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

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


def build(folder: Path) -> None:
    """Both libraries, as lib/Torch/CMakeLists.txt makes them."""
    import torch

    own = Path(torch.__file__).parent
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    observer = folder / f"libopprof_observer-torch-{torch.__version__}.so"
    common = [
        "g++", "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{ROOT}/include",
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    libraries = [own / "lib" / name for name in ("libtorch_cpu.so", "libc10.so")]
    sources = ["lib/Torch/Observer.cpp", "lib/Capture/FileWriter.cpp", "lib/Capture/Crc32.cpp"]
    subprocess.run(
        [*common, f"-isystem{own}/include", *(ROOT / s for s in sources), *libraries,
         "-Wl,--allow-shlib-undefined", "-o", observer],
        check=True,
    )  # fmt: skip
    frames = folder / f"libopprof_frames-torch-{torch.__version__}-python-{python}.so"
    subprocess.run(
        [*common, f"-I{sysconfig.get_paths()['include']}", ROOT / "lib/Torch/Frames.cpp", observer,
         "-Wl,-rpath,$ORIGIN", "-o", frames],
        check=True,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--libraries", type=Path, default=ROOT / "build" / "lib")
    parser.add_argument("--build", action="store_true")
    options = parser.parse_args()
    if options.build:
        build(options.libraries)
    injected = ROOT / "python" / "opprof" / "recording" / "injected"
    for width in (32, 512):
        times: dict[str, list[float]] = {"bare": [], "observed": [], "profiled": []}
        for _ in range(options.rounds):
            for way, list_of in times.items():
                with tempfile.TemporaryDirectory() as folder:
                    environment = dict(os.environ, KINETO_LOG_LEVEL="99")
                    if way == "observed":
                        environment["PYTHONPATH"] = str(injected)
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
