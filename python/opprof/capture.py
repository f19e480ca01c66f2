"""Captures a CUDA program from inside its own process: `with opprof.capture("run/") as prof: prof.step(fn)`.

The timeline comes from CUPTI's activity records, hardware counters from its range profiler, which runs the step once a
pass. docs/capture.md says what is measured, what is restored between passes, and what counters cost.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from opprof import capture_library, metrics
from opprof.capture_library import CaptureError, Counters, Library
from opprof.errors import OpprofError
from opprof.files import replacing

COUNTER_MODES = ("none", "unique", "all")


@dataclass
class Step:
    """One captured step."""

    number: int
    wall_ns: int = 0
    launches: list[dict[str, Any]] = field(default_factory=list)
    #: Of each launch that was counted: raw counters, derived values, and the reasons for absent ones.
    counters: list[dict[str, Any]] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)


class Capture:
    """A running capture. `opprof.capture(...)` makes one."""

    def __init__(
        self,
        path: str | Path,
        *,
        counters: str = "none",
        metrics: str | Sequence[str] = "default",
        kinds: int = capture_library.DEFAULT_KINDS,
        replay: str = "user",
        select: Callable[[dict[str, Any]], bool] | None = None,
        state: Iterable[Any] = (),
        restore: str = "changed",
        lines: bool = True,
    ) -> None:
        if counters not in COUNTER_MODES:
            raise OpprofError(f"counters={counters!r}: choose one of {', '.join(COUNTER_MODES)}")
        if replay not in ("user", "kernel"):
            raise OpprofError(f"replay={replay!r}: choose 'user' or 'kernel'")
        if restore not in ("changed", "all", "none"):
            raise OpprofError(f"restore={restore!r}: choose 'changed', 'all' or 'none'")
        if counters == "unique" and select is None:
            raise OpprofError(
                "counters='unique' needs select=, which says of a launch whether it is one of a unique partition",
                remedy="opprof.counters.unique_launches makes it of a run folder's partitions and launch maps",
            )
        self.path = Path(path)
        self.mode = counters
        self.replay = replay
        self.metrics = _metric_names(metrics)
        self.steps: list[Step] = []
        self._select = select if counters == "unique" else None
        self._state = tuple(state)
        self._restore = restore
        self._kinds = kinds
        self._want_lines = lines
        self.library = Library.get()
        self.lines: Any = None

    @property
    def file(self) -> Path:
        """The capture file."""
        return self.path / "capture.opcap"

    def __enter__(self) -> Capture:
        self.path.mkdir(parents=True, exist_ok=True)
        self.library.start(str(self.file), kinds=self._kinds, paused=True)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: object) -> None:
        try:
            self.stats = self.library.stop()
        except CaptureError:
            # The program's own error is the one to show.
            if error is None:
                raise
        if self.steps:
            self._write_counters()

    def step(self, fn: Callable[[], Any]) -> Any:
        """Runs one step with the timeline on, then once more for each counter pass; returns the first run's result."""
        import torch

        step = Step(len(self.steps))
        self.steps.append(step)
        library = self.library
        want = self.mode != "none"
        keeper: Any = None
        if want and self._restore != "none":
            from opprof.restore import StepState

            keeper = StepState(fn, self._state)
        if self._want_lines and self.lines is None:
            from opprof.identity import WrapperLines

            self.lines = WrapperLines(library)
            self.lines.describe()
        lines = self.lines.active() if self.lines is not None else _nothing()
        _synchronize(torch)
        library.call("launches_begin")
        try:
            library.call("capture_resume")
            library.mark(1, step.number)
            begin = time.perf_counter_ns()
            try:
                with lines:
                    result = fn()
                _synchronize(torch)
            finally:
                step.wall_ns = time.perf_counter_ns() - begin
                library.mark(2, step.number)
                library.call("capture_pause")
        finally:
            library.call("launches_end", None)
        library.call("capture_flush")
        step.launches = library.launches()
        if want:
            self._count(torch, step, fn, keeper)
        return result

    def _count(self, torch: Any, step: Step, fn: Callable[[], Any], keeper: Any) -> None:
        begin = time.perf_counter()
        seconds: dict[str, float] = {}
        selected = None
        if self._select is not None:
            selected = _ranges(
                i for i, launch in enumerate(step.launches) if self._select(self._located(launch))
            )
            if not selected:
                step.report = {"skipped": "no launch of the step is selected"}
                return
        names = list(self.metrics)
        counted = [
            launch
            for i, launch in enumerate(step.launches)
            if selected is None or any(a <= i < b for a, b in selected)
        ]
        if self.metrics == list(metrics.DEFAULT) and any(
            launch.get("local_bytes") for launch in counted
        ):
            names.append(metrics.LOCAL_MEMORY)
        if keeper is not None:
            keeper.save(everything=self._restore == "all")
            seconds["save"] = time.perf_counter() - begin
        steps = 0
        with Counters(self.library, names, replay=self.replay, selected=selected) as counters:
            more = True
            while more:
                if keeper is not None and steps:
                    keeper.restore()
                    _synchronize(torch)
                counters.begin_pass()
                moment = time.perf_counter()
                try:
                    fn()
                    _synchronize(torch)
                except BaseException:
                    seconds["failed"] = time.perf_counter() - moment
                    raise
                seconds["steps"] = seconds.get("steps", 0) + time.perf_counter() - moment
                more = counters.end_pass()
                steps += 1
            moment = time.perf_counter()
            if keeper is not None:
                keeper.restore()
            seconds["restore"] = time.perf_counter() - moment
            counters.finish()
            rows = counters.rows()
            step.report = counters.report()
            moment = time.perf_counter()
        seconds["disable"] = time.perf_counter() - moment
        device = _device(torch)
        for index, raw in rows:
            launch = step.launches[index]
            values, absent = metrics.derive(
                raw,
                device,
                registers=launch.get("registers"),
                dynamic_shared=launch.get("dynamic_shared"),
                local_bytes=launch.get("local_bytes"),
                duration_ns=launch.get("duration_ns") if selected is not None else None,
            )
            # Both cover the range, whatever the kernel's own time.
            elapsed, cycles = raw.get("gpu__time_duration.sum"), raw.get("sm__cycles_elapsed.max")
            entry = {
                "launch": index,
                "kernel": launch["kernel"],
                "raw": {k: v for k, v in raw.items() if not math.isnan(v)},
                "metrics": values,
                "absent": absent,
            }
            if elapsed and cycles and not math.isnan(elapsed) and not math.isnan(cycles):
                entry["sm_clock_mhz"] = 1e3 * cycles / elapsed
            step.counters.append(entry)
        step.report["seconds"].update(seconds)
        step.report["total_seconds"] = time.perf_counter() - begin
        step.report["replay"] = self.replay
        step.report["time"] = (
            "of the range" if selected is None else "of the kernel, by the timeline"
        )
        step.report["caches"] = "as the step leaves them: not flushed between kernels or passes"
        if keeper is not None:
            step.report["restored"] = {"tensors": keeper.tensor_count, "bytes": keeper.bytes}
            if keeper.bytes:
                print(
                    f"opprof: {keeper.tensor_count} tensors that the step changes were copied "
                    f"({keeper.bytes / 2**20:.1f} MiB) to run it {steps} more time{'s' if steps != 1 else ''}",
                    file=sys.stderr,
                )

    def _write_counters(self) -> None:
        data = {
            "version": 1,
            "steps": [
                {
                    "step": step.number,
                    "wall_ns": step.wall_ns,
                    "launches": [self._located(launch) for launch in step.launches],
                    "counters": step.counters,
                    "report": step.report,
                }
                for step in self.steps
            ],
        }
        with replacing(self.path / "counters.json", "w") as file:
            json.dump(data, file, indent=1)

    def _located(self, launch: dict[str, Any]) -> dict[str, Any]:
        where = self.lines.where(launch["id"]) if self.lines is not None else None
        return launch if where is None else {**launch, "file": where[0], "line": where[1]}

    def located_launches(self, step: int = -1) -> list[dict[str, Any]]:
        """A step's launches with the wrapper's file and line of each that has one."""
        return [self._located(launch) for launch in self.steps[step].launches]


def _metric_names(wanted: str | Sequence[str]) -> list[str]:
    return metrics.resolve(wanted)


def _ranges(indices: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and ranges[-1][1] == index:
            ranges[-1][1] = index + 1
        else:
            ranges.append([index, index + 1])
    return [(a, b) for a, b in ranges]


def _synchronize(torch: Any) -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _device(torch: Any) -> metrics.Device:
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return metrics.Device(
        properties.name,
        properties.multi_processor_count,
        properties.max_threads_per_multi_processor // 32,
    )


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


class _CallableModule(ModuleType):
    """Lets `opprof.capture(...)` be a call although `opprof.capture` is also this module."""

    def __call__(self, path: str | Path, **options: Any) -> Capture:
        return Capture(path, **options)


sys.modules[__name__].__class__ = _CallableModule
