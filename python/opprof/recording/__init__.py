"""What records a program that runs: the capture library and what it is told, counters, NVTX ranges, and torch.profiler in its place.

It is not called `capture`, because that is what users call: `opprof.capture(...)` is a function, and a package of that name would
take its place as soon as anything imported one of its modules.
"""

from pathlib import Path

#: Holds a sitecustomize.py that records the Python that finds it on its path with torch.profiler.
INJECTED = Path(__file__).parent / "injected"
