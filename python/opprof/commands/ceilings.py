"""Measures what a device can do at most: bytes a second through its memory, operations a second of its matrix products. Needs PyTorch.

The same code measures CPUs, with all threads of PyTorch, and GPUs: a rate is of rounds, each of as many calls as take a while, with a
wait for the device at its end. The fastest round counts, for nothing but other work makes a round slower; where the rounds differ much,
or other programs had the processors meanwhile, the device was busy and nothing is stated.
"""

import json
import math
import os
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from opprof.devices import describe_device, float32_products, synchronize
from opprof.errors import OpprofError
from opprof.files import replacing
from opprof.run_folder import versions
from opprof.units import counted

#: Of the rounds of a rate: how far the median may lie below the fastest, in percent of that.
LARGEST_SPREAD_PCT = 10.0
#: What other programs may have of the processors' time while it is measured, in percent.
LARGEST_SHARE_OF_OTHERS_PCT = 10.0
#: What of a GPU others may use before it is measured.
LARGEST_UTILIZATION_PCT = 5.0

FEWEST_ROUNDS = 7
#: Long beside what starting, waiting and clocks take.
ROUND_SECONDS = 0.02

#: Sizes of the square products that are tried, while there is time.
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Rate:
    """Of the fastest round, and how far the others lie below it."""

    per_second: float
    spread_pct: float
    rounds: int
    #: Bytes of an operand, or rows of the square matrices.
    size: int


@dataclass
class Ceilings:
    """What was measured of one device."""

    device: dict[str, Any]
    memory: Rate
    products: dict[str, Rate]
    #: What was seen of others on the device ("checked: …"), or why nothing was ("not checked: …").
    idle: str
    #: Why others are not there.
    left_out: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        def rate(found: Rate, unit: str, size: str) -> dict[str, Any]:
            return {
                f"{unit}_per_second": found.per_second,
                "spread_pct": round(found.spread_pct, 2),
                "rounds": found.rounds,
                size: found.size,
            }

        return {
            "version": 1,
            "device": self.device,
            "versions": versions(),
            "idle": self.idle,
            "memory": rate(self.memory, "bytes", "operand_bytes"),
            "products": {
                name: rate(found, "operations", "rows") for name, found in self.products.items()
            },
            "left_out": self.left_out,
        }

    def write(self, target: Path) -> None:
        with replacing(target) as file:
            json.dump(self.as_json(), file, indent=1)
            file.write("\n")

    def as_text(self) -> str:
        clock = self.device.get("clock_mhz")
        head = self.device["name"] + (f" at {clock:.0f} MHz" if clock else "")
        if "threads" in self.device:
            head += f", {counted(self.device['threads'], 'thread')}"
        lines = [head, _line("memory", self.memory, "GB/s", f"{self.memory.size >> 20} MiB")]
        for name, found in self.products.items():
            lines.append(_line(name, found, _unit(name), f"{found.size} rows"))
        lines += [f"  {name:9} not measured: {reason}" for name, reason in self.left_out.items()]
        lines.append(f"  idle      {self.idle}")
        return "\n".join(lines) + "\n"


def _line(name: str, rate: Rate, unit: str, size: str) -> str:
    return (
        f"  {name:9}{rate.per_second / 1e9:12,.1f} {unit:8} median of {rate.rounds} rounds "
        f"{rate.spread_pct:.1f} % below; {size}"
    )


class Busy(OpprofError):
    """The device was not at hand alone, so nothing is known of what it can do."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the device is busy: {what}", remedy="measure when nothing else runs on it"
        )


@dataclass
class Clock:
    """Times calls on a device."""

    wait: Callable[[], None] = synchronize
    now: Callable[[], float] = time.perf_counter

    def seconds(self, call: Callable[[], object], calls: int) -> float:
        self.wait()
        start = self.now()
        for _ in range(calls):
            call()
        self.wait()
        return self.now() - start

    def rounds(self, call: Callable[[], object], seconds: float) -> list[float]:
        """Seconds of a call in each of some rounds, which take about `seconds` together."""
        once = max(min(self.seconds(call, 1) for _ in range(2)), 1e-7)
        calls = max(1, math.ceil(ROUND_SECONDS / once))
        number = max(FEWEST_ROUNDS, int(seconds / (once * calls)))
        return [self.seconds(call, calls) / calls for _ in range(number)]


def rate_of(amount: float, times: list[float], size: int, what: str, unit: str) -> Rate:
    """The rate of the fastest round of calls that each do `amount`; refuses rounds that differ too much."""
    fastest, median = min(times), statistics.median(times)
    spread = 100 * (1 - fastest / median)
    if spread > LARGEST_SPREAD_PCT:
        raise Busy(
            f"of {len(times)} rounds of {what} the fastest reached {amount / fastest / 1e9:.1f} {unit}, and half of them at most "
            f"{amount / median / 1e9:.1f}, {spread:.0f} % less (at most {LARGEST_SPREAD_PCT:.0f} % is taken)"
        )
    return Rate(amount / fastest, spread, len(times), size)


def measure_memory(device: torch.device, clock: Clock, seconds: float) -> Rate:
    """Of a copy or of a triad (a = b + s · c), whichever is faster; bytes are those that the program asks for."""
    elements = _operand_bytes(device) // 4
    b, c = (torch.rand(elements, device=device) for _ in range(2))
    a = torch.empty_like(b)

    def copy() -> object:
        return a.copy_(b)

    def triad() -> object:
        return torch.add(b, c, alpha=1.5, out=a)

    size = a.numel() * a.element_size()
    found = []
    for call, operands, what in ((copy, 2, "copies"), (triad, 3, "triads")):
        # The first call meets memory that the system has not given yet.
        call()
        times = clock.rounds(call, seconds / 2)
        found.append(rate_of(operands * size, times, size, what, "GB/s"))
    return max(found, key=lambda rate: rate.per_second)


def _operand_bytes(device: torch.device) -> int:
    """Well beyond any cache, and within what is free."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(min(1 << 30, free // 8))
    return 4 * max(_cache_bytes(), 1 << 25)


def _cache_bytes() -> int:
    """Of the largest cache that a processor has; at least that of most."""
    largest = 0
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = file.read_text(encoding="utf-8").strip()
            largest = max(largest, int(text[:-1]) << {"K": 10, "M": 20}[text[-1]])
        except (OSError, ValueError, KeyError):
            continue
    # A machine of many such caches is not filled by four times one of them.
    return min(max(largest, 1 << 25), 1 << 27)


def _product(kind: str, rows: int, device: torch.device) -> Callable[[], object]:
    """A call that multiplies two square matrices."""
    if kind == "int8":
        a, b = (
            torch.randint(-128, 127, (rows, rows), dtype=torch.int8, device=device)
            for _ in range(2)
        )
        # cuBLASLt takes the second operand by columns.
        return lambda: torch._int_mm(a, b.t())
    dtype = getattr(torch, "float32" if kind == "tf32" else kind)
    # Of zeros a GPU takes less power, and runs faster than it can.
    x, y = (torch.rand(rows, rows, device=device).sub_(0.5).to(dtype) for _ in range(2))
    out = torch.empty(rows, rows, dtype=dtype, device=device)
    return lambda: torch.mm(x, y, out=out)


def measure_products(kind: str, device: torch.device, clock: Clock, seconds: float) -> Rate:
    """Of square products of the size that is fastest."""
    with float32_products(tf32=kind == "tf32"):
        best, call, rows = 0.0, None, 0
        for size in SIZES:
            candidate = _product(kind, size, device)
            candidate()
            once = min(clock.seconds(candidate, 1) for _ in range(3))
            rate = 2.0 * size**3 / max(once, 1e-9)
            if rate > best:
                best, call, rows = rate, candidate, size
            # The next takes eight times as long.
            if 8 * once > seconds / 2:
                break
        assert call is not None
        times = clock.rounds(call, seconds)
        return rate_of(2.0 * rows**3, times, rows, f"products in {kind}", _unit(kind))


def _unit(kind: str) -> str:
    return "Gop/s" if kind == "int8" else "GFLOP/s"


def _why_not(kind: str, device: torch.device) -> str | None:
    """Why a device has no such products, where that is known before they are tried."""
    if kind != "tf32":
        return None
    if device.type != "cuda" or torch.version.hip:
        return "only GPUs of NVIDIA have it"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "the GPU is older than the type"
    return None


#: The types whose products are measured. Launches are held against the first four.
KINDS = ("float32", "tf32", "bfloat16", "float16", "float64", "int8")
_OF_REPORTS = KINDS[:4]


def measure_ceilings(
    device: torch.device, seconds: float = 1.0, kinds: tuple[str, ...] = KINDS
) -> Ceilings:
    """Measures for about `seconds` each rate; raises Busy where other work was in the way."""
    clock = Clock()
    idle = _check_idle(device) if device.type == "cuda" else None
    processing = _Processing()
    memory = measure_memory(device, clock, seconds)
    products, left_out = {}, {}
    for kind in kinds:
        reason = _why_not(kind, device)
        if reason is None:
            try:
                products[kind] = measure_products(kind, device, clock, seconds)
                continue
            except (RuntimeError, AttributeError) as error:
                # What PyTorch has no kernel for here.
                if kind == "float32":
                    raise
                reason = str(error).splitlines()[0]
        left_out[kind] = reason
    if idle is None:
        idle = processing.check(torch.get_num_threads())
    facts = describe_device(device.type)
    clock_mhz = _clock_mhz(device)
    if clock_mhz is not None:
        facts["clock_mhz"] = clock_mhz
    return Ceilings(facts, memory, products, idle, left_out)


def ceilings_of_run(device: torch.device) -> Ceilings:
    """What a report of a run asks for, in a second or two."""
    return measure_ceilings(device, seconds=0.2, kinds=_OF_REPORTS)


@dataclass(frozen=True)
class _Processors:
    """What the processors of the machine have done since it began, in seconds."""

    number: int
    busy: float

    @staticmethod
    def read() -> "_Processors | None":
        """None where the system does not say."""
        try:
            lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
            ticks = [int(text) for text in lines[0].split()[1:9]]
        except (OSError, ValueError, IndexError):
            return None
        # All but what they were idle for, or waited; what a hypervisor gave to others counts.
        busy = sum(ticks) - ticks[3] - ticks[4]
        number = sum(bool(re.match(r"cpu\d", line)) for line in lines)
        return _Processors(number, busy / os.sysconf("SC_CLK_TCK"))


class _Processing:
    """What of the processors' time others had since this began."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.own = time.process_time()
        self.processors = _Processors.read()

    def check(self, threads: int) -> str:
        """What was seen of others; refuses where they ran so much that the threads cannot all have run all the time."""
        now = _Processors.read()
        if self.processors is None or now is None:
            return "not checked: /proc/stat does not say what the processors did"
        wall = time.perf_counter() - self.start
        others = now.busy - self.processors.busy - (time.process_time() - self.own)
        lost = lost_share_pct(wall, threads, now.number, others)
        if lost > LARGEST_SHARE_OF_OTHERS_PCT:
            raise Busy(
                f"other programs took {lost:.0f} % of the time of its {counted(threads, 'thread')} "
                f"(at most {LARGEST_SHARE_OF_OTHERS_PCT:.0f} % is taken)"
            )
        return f"checked: others took {lost:.1f} % of the threads' time (/proc/stat)"


def lost_share_pct(wall: float, threads: int, processors: int, others: float) -> float:
    """What of the time of `threads` others must have had, if they ran for `others` seconds on `processors` within `wall`."""
    return 100 * max(0.0, others - (processors - threads) * wall) / (threads * wall)


def _ask_nvidia_smi(device: torch.device, key: str) -> float | None:
    """What the driver's tool says of a GPU now; None without it, as on GPUs of AMD."""
    try:
        identity = torch.cuda.get_device_properties(device).uuid
        answer = subprocess.run(
            [
                "nvidia-smi",
                f"--id=GPU-{identity}",
                f"--query-gpu={key}",
                "--format=csv,noheader,nounits",
            ],
            capture_output=True,
            encoding="utf-8",
            timeout=10,
            check=True,
        )
        return float(answer.stdout.strip())
    except (OSError, ValueError, AttributeError, subprocess.SubprocessError):
        return None


def _check_idle(device: torch.device) -> str:
    """What was seen of others on a GPU, which this process has given nothing yet; refuses one that they use."""
    synchronize()
    use = _ask_nvidia_smi(device, "utilization.gpu")
    if use is None:
        return "not checked: nvidia-smi did not say how much of the GPU others use"
    if use > LARGEST_UTILIZATION_PCT:
        raise Busy(f"others use {use:.0f} % of it (nvidia-smi)")
    return f"checked: others used {use:.0f} % of the GPU before the start (nvidia-smi)"


def _clock_mhz(device: torch.device) -> float | None:
    """While it multiplies: what it runs at when it has nothing to do says nothing."""
    if device.type == "cuda":
        call = _product("float32", 8192, device)
        # Some tenths of a second, over which the question is asked.
        for _ in range(20):
            call()
        clock = _ask_nvidia_smi(device, "clocks.sm")
        synchronize()
        return clock
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    clocks = [float(found) for found in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)]
    return max(clocks, default=None)
