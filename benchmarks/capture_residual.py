"""What recording costs launches, and what of it stays when it has ended, until CUPTI is taken out of the process. Needs a GPU.

    PYTHONPATH=python OPPROF_CAPTURE_LIBRARY=build/lib/libopprof_capture.so python benchmarks/capture_residual.py [--order=ORDER] [workload]

Without a workload the step is twelve small launches. A time is the median of loops of a hundred steps. Each line of the
output is a JSON object: what was measured, and microseconds a step. The order matters, because what one kind leaves behind
is there for those that follow: `kinds` adds one kind after another to kernels, `calls` begins with calls alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent))
from capture_h200 import WORKLOADS, compiled

from opprof.recording import library as kinds
from opprof.recording.library import DEFAULT_KINDS, KERNELS, Library

ORDERS = {
    "kinds": {
        "kernels": KERNELS,
        "kernels, copies": KERNELS | kinds.COPIES,
        "kernels, overhead": KERNELS | kinds.OVERHEAD,
        "kernels, markers": KERNELS | kinds.MARKERS,
        "kernels, calls": KERNELS | kinds.API,
        "default": DEFAULT_KINDS,
        "default, syncs": DEFAULT_KINDS | kinds.SYNCS,
    },
    "calls": {
        "calls": kinds.API,
        "kernels, calls": KERNELS | kinds.API,
    },
}


def main() -> None:
    """Measures one order on one program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--order", choices=ORDERS, default="kinds")
    parser.add_argument("workload", nargs="?", choices=WORKLOADS)
    options = parser.parse_args()
    import torch

    library = Library.get()
    cupti = ctypes.CDLL(library.info()["cupti"])
    if options.workload is None:
        tensors = [torch.zeros(4096, device="cuda") for _ in range(12)]

        def step() -> None:
            for tensor in tensors:
                tensor.relu_()
    else:
        step = compiled(options.workload)

    def loops(seconds: float, count: int = 100) -> float:
        times = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or not times:
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(count):
                step()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) / count)
        return round(statistics.median(times) * 1e6, 1)

    def say(what: str, microseconds: float) -> None:
        print(
            json.dumps(
                {"step": options.workload or "12 launches", "what": what, "us": microseconds}
            ),
            flush=True,
        )

    with TemporaryDirectory() as folder:

        def recorded(which: int) -> float:
            library.start(str(Path(folder) / "residual.opcap"), kinds=which)
            try:
                loops(0.03)
                return loops(0.12)
            finally:
                library.stop()

        def without_cupti() -> None:
            torch.cuda.synchronize()
            status = cupti.cuptiFinalize()
            say(
                "bare, CUPTI taken out" if status == 0 else f"cuptiFinalize failed ({status})",
                loops(0.12),
            )

        loops(0.3)
        say("bare, before CUPTI", loops(0.12))
        for name, which in ORDERS[options.order].items():
            say(name, recorded(which))
            say("bare, after it", loops(0.12))
        without_cupti()
        say("kernels", recorded(KERNELS))
        say("default", recorded(DEFAULT_KINDS))
        say("bare, after it", loops(0.12))
        without_cupti()


if __name__ == "__main__":
    main()
