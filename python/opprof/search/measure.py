"""Times several programs in one interleaved run: single steps from an idle device, and steps that follow one another. Needs PyTorch."""

import math
import statistics
import time
from dataclasses import dataclass

from opprof.backend.checks import LEAST_GAIN, Measurement, Program, Subject, measure
from opprof.devices import synchronize

# Rounds after which what is clear is believed, and the share by which it has to be.
_ROUNDS, _CLEAR = 15, 3 * LEAST_GAIN


@dataclass
class Timing:
    """What one run showed of each program, in nanoseconds a step."""

    latency: Measurement
    # Medians of steps that follow one another without a wait; empty on a CPU, whose steps always do.
    loop: dict[str, int]


def compare(subject: Subject, best: Program, candidate: Program, *, seconds: float) -> Measurement:
    """Both, interleaved, until the difference is clear or the time is over."""

    def is_clear(times: dict[str, list[int]]) -> bool:
        if len(times["best"]) < _ROUNDS:
            return False
        gains = sorted(1 - a / b for a, b in zip(times["candidate"], times["best"], strict=True))
        low, high = gains[len(gains) // 4], gains[3 * len(gains) // 4]
        return low > _CLEAR or high < 0

    programs = {"best": best, "candidate": candidate}
    return measure(subject, programs, seconds=seconds, is_enough=is_clear)


def launch_time(subject: Subject, program: Program) -> int:
    """Nanoseconds until a call returns, on a device that has nothing to do: what the host needs for it. The median of some calls."""
    times = []
    for _ in range(_ROUNDS):
        synchronize()
        start = time.perf_counter_ns()
        program(*subject.script.args, **subject.script.kwargs)
        times.append(time.perf_counter_ns() - start)
    synchronize()
    subject.restore()
    return int(statistics.median(times))


def measure_all(subject: Subject, programs: dict[str, Program], *, seconds: float) -> Timing:
    """Latencies of all, and on a GPU a loop of each, in one run."""
    latency = measure(subject, programs, seconds=seconds)
    if subject.script.device_type == "cpu":
        return Timing(latency, {})
    loops: dict[str, list[int]] = {name: [] for name in programs}
    slowest = max(latency.median(name) for name in programs)
    steps = max(3, min(50, math.ceil(20e6 / slowest)))
    args, kwargs = subject.script.args, subject.script.kwargs
    for _ in range(5):
        for name, program in programs.items():
            synchronize()
            start = time.perf_counter_ns()
            for _ in range(steps):
                program(*args, **kwargs)
            synchronize()
            loops[name].append((time.perf_counter_ns() - start) // steps)
    subject.restore()
    return Timing(latency, {name: int(statistics.median(times)) for name, times in loops.items()})
