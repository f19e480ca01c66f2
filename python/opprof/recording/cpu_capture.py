"""`opprof.capture` on a machine without a GPU: torch.profiler traces the steps on the CPU, and the folder gets the same kind of report.

Needs PyTorch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from opprof.chain import report_recording
from opprof.errors import OpprofError
from opprof.files import make_folder
from opprof.progress import progress
from opprof.recording.capture import Capture, Step, check_step, keeping, recording_facts
from opprof.recording.torch_profiler import quiet, write_trace
from opprof.run_folder import RunFolder


class CpuCapture(Capture):
    """A capture whose steps torch.profiler traces. There are no launches and no counters."""

    def __init__(self, path: str | Path, reason: str, **options: Any) -> None:
        super().__init__(path, **options)
        self.reason = reason
        self._profiler: Any = None
        self._ended = False

    def __enter__(self) -> CpuCapture:
        make_folder(self.path)
        progress(f"{self.reason}: tracing steps on the CPU with torch.profiler")
        if self.mode != "none":
            progress(f"no counters: {self.reason}")
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: object) -> None:
        self._ended = True
        if self._profiler is None:
            progress("nothing was recorded: prof.step(fn) runs and records one step")
            return
        folder = RunFolder(self.path)
        try:
            self._profiler.stop()
            self._write(folder, error)
        except Exception as failure:
            # The program's own error is the one to show.
            if error is None:
                raise
            progress(f"the recording is lost: {failure}")

    def step(self, fn: Callable[[], Any], *, outside: Callable[[], Any] | None = None) -> Any:
        """Runs and records one step; returns its result. `outside` is for counters, of which there are none here."""
        check_step(fn)
        if self._ended:
            raise OpprofError("the capture has ended: call prof.step() inside the with statement")
        if self._profiler is None:
            self._profiler = _started()
        step = Step(len(self.steps))
        self.steps.append(step)
        if self.mode != "none":
            step.report = {"left_out": self.reason}
        import torch

        begin = time.perf_counter_ns()
        try:
            # The name by which torch.profiler marks steps itself, and readers find them.
            with torch.profiler.record_function(f"ProfilerStep#{step.number}"):
                return fn()
        finally:
            step.wall_ns = time.perf_counter_ns() - begin

    def timeline(self, fn: Callable[[], Any], steps: int) -> None:
        """Runs and records steps that follow one another, after one that is not recorded."""
        fn()
        for _ in range(steps):
            self.step(fn)

    @contextlib.contextmanager
    def identified(self) -> Iterator[None]:
        """Of use for CUDA graphs only."""
        yield

    def _write(self, folder: RunFolder, error: BaseException | None) -> None:
        import torch

        write_trace(self._profiler, folder.trace)
        # What an earlier run on a GPU left is of other kernels.
        for file in (folder.capture, folder.counters):
            file.unlink(missing_ok=True)
        facts = recording_facts("torch.profiler", error)
        facts["timeline"]["reason"] = self.reason
        facts["device"] = {"type": "cpu", "threads": torch.get_num_threads()}
        if self.mode != "none":
            facts["counters"] = {"mode": self.mode, "left_out": self.reason}
        with keeping(folder.trace):
            report_recording(folder, folder.trace, facts)


def _started() -> Any:
    """torch.profiler, running; what it says of itself on stderr is left out."""
    quiet()
    import torch

    if torch.autograd._profiler_enabled():
        raise OpprofError(
            "torch.profiler is recording already, and opprof records with it on a machine without a GPU",
            remedy="end the other recording first",
        )
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    )
    profiler.start()
    # What the profiler prepares at the first operator that it records would be in the first step.
    with torch.profiler.record_function("opprof: warm-up"):
        torch.zeros(1)
    return profiler
