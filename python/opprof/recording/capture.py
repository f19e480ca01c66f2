"""Captures a CUDA program from inside its own process: `with opprof.capture("run/") as prof: prof.step(fn)`.

The timeline comes from CUPTI's activity records, hardware counters from its range profiler, which runs the step once a
pass. docs/capture.md says what is measured, what is restored between passes, and what counters cost.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opprof.chain import report_recording
from opprof.choices import COUNTER_MODES
from opprof.devices import synchronize
from opprof.errors import OpprofError
from opprof.files import make_folder, replacing
from opprof.progress import progress
from opprof.recording.identity import NodeGraph, WrapperLines
from opprof.recording.launch_maps import Layers
from opprof.recording.library import DEFAULT_KINDS, CaptureError, Counters, Library
from opprof.recording.metrics import Device, derive, derive_step, resolve
from opprof.recording.ranges import LayerRanges
from opprof.recording.selection import (
    Filter,
    Selection,
    graph_kernels,
    select,
    sequence_difference,
)
from opprof.run_folder import RunFolder, versions
from opprof.tools import run_driver
from opprof.units import counted

if TYPE_CHECKING:
    from opprof.recording.restore import StepState

#: How long steps run before those of a timeline; at least one does.
WARM_UP_SECONDS = 0.05


@dataclass
class Step:
    """One captured step."""

    number: int
    wall_ns: int = 0
    launches: list[dict[str, Any]] = field(default_factory=list)
    #: Of each launch that was counted: raw counters, derived values, and the reasons for absent ones.
    counters: list[dict[str, Any]] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)
    #: The same of all the step in one range, with a report of its own; empty where that was not asked for.
    whole: dict[str, Any] = field(default_factory=dict)


class Capture:
    """A running capture. `opprof.capture(...)` makes one."""

    def __init__(
        self,
        path: str | Path,
        *,
        counters: str = "none",
        metrics: str | Sequence[str] = "default",
        kinds: int = DEFAULT_KINDS,
        replay: str = "user",
        select: Callable[[dict[str, Any]], bool] | None = None,
        kernels: str | None = None,
        top: int | None = None,
        launch_skip: int = 0,
        launch_count: int | None = None,
        state: Iterable[Any] = (),
        restore: str = "changed",
        lines: bool = True,
        graphs: Sequence[NodeGraph] = (),
        file: str = "capture.opcap",
        report: bool = False,
    ) -> None:
        if counters not in COUNTER_MODES:
            raise OpprofError(f"counters={counters!r}: choose one of {' | '.join(COUNTER_MODES)}")
        if replay not in ("user", "kernel"):
            raise OpprofError(f"replay={replay!r}: choose 'user' or 'kernel'")
        if restore not in ("changed", "all", "none"):
            raise OpprofError(f"restore={restore!r}: choose 'changed', 'all' or 'none'")
        self.path = Path(path)
        self.file = self.path / file
        self.mode = counters
        self._counts_step = counters.endswith("step")
        #: Which kernels are counted one by one.
        self._kernels = counters.removesuffix("step").removesuffix(",") or "none"
        if self._counts_step and replay == "kernel":
            raise OpprofError(
                "replay='kernel' repeats single kernels, and counters of the whole step repeat the step",
                remedy="leave out replay=, or the step",
            )
        self.replay = replay
        # Without counters only names that were given are looked at: a timeline alone needs no tools.
        self._metrics = resolve(metrics) if counters != "none" or metrics != "default" else None
        self.steps: list[Step] = []
        self._select = select if self._kernels == "unique" else None
        self._filter = Filter(kernels, top, launch_skip, launch_count)
        if counters == "step" and self._filter.narrows:
            raise OpprofError(
                "counters='step' counts the step as a whole: no kernels are chosen",
                remedy="counters='all,step' counts the kernels that are chosen beside it",
            )
        self._state = tuple(state)
        self._restore = restore
        self._kinds = kinds
        self._want_lines = lines
        self._reports = report
        self._graphs = tuple(graphs)
        self._marks = 0
        self.library: Library
        self.lines: WrapperLines | None = None
        self._layers: Layers | None = None
        self._nvtx = contextlib.ExitStack()
        self._compiled_meanwhile = False

    def __enter__(self) -> Capture:
        make_folder(self.path)
        self.library = Library.get()
        self.library.start(str(self.file), kinds=self._kinds, paused=True)
        self._nvtx.enter_context(_nvtx_reaches_cupti(self.library))
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: object) -> None:
        self._nvtx.close()
        try:
            self.stats = self.library.stop()
        except CaptureError:
            # The program's own error is the one to show.
            if error is None:
                raise
        if self.steps and self.mode != "none":
            self._write_counters()
        if self.steps and self._reports:
            self._report(error)

    def _report(self, error: BaseException | None) -> None:
        """A trace for Perfetto, a profile and reports, as `opprof profile` leaves them. What fails here is not the program's."""
        folder = RunFolder(self.path)
        with keeping(self.file):
            if self.mode == "none":
                # Those of an earlier capture are of other launches.
                folder.counters.unlink(missing_ok=True)
            facts = recording_facts("opprof capture", error)
            if self.mode != "none":
                facts["counters"] = self.counter_facts()
            report_recording(folder, self.file, facts)
            run_driver("report", folder.profile, f"--perfetto={folder.trace}")

    def counter_facts(self) -> dict[str, Any]:
        """What run.json says of the counters: of the steps of one program, the last is no longer warming up."""
        step = self.steps[-1]
        report = step.report
        if "unique" in report:
            # What stood for what, launch by launch, is in counters.json.
            unique = {k: v for k, v in report["unique"].items() if k != "launches"}
            report = {**report, "unique": unique}
        whole = {"whole": step.whole["report"]} if step.whole else {}
        return {"mode": self.mode, **report, **whole}

    def step(self, fn: Callable[[], Any], *, outside: Callable[[], Any] | None = None) -> Any:
        """Runs one step with the timeline on, then once more for each counter pass; returns the first run's result.

        Where `fn` replays a CUDA graph, `outside` runs the same kernels without it, and the counters of kernels are taken of that;
        those of the whole step are of `fn`.
        """
        check_step(fn)
        step = Step(self._marks)
        self._marks += 1
        self.steps.append(step)
        keeper = self._keeper(outside or fn)
        result = self._record(step, fn)
        if not any(launch["cuda_graph"] for launch in step.launches):
            outside = None
        if self._counts_step:
            self._count(step, lambda: self._take_whole(step, fn, outside, keeper))
        if self._kernels != "none":
            if outside is not None:
                self._count_outside(step, outside, keeper)
            else:
                self._count(step, lambda: self._take_counters(step, fn, keeper))
        return result

    def timeline(self, fn: Callable[[], Any], steps: int) -> None:
        """Runs steps that follow one another as they do in the user's loop: no wait between them, and no counters.

        Those before them, marked as a warm-up, meet what recording costs at first: CUPTI prepares itself at the first launches,
        and the interpreter specializes followed code anew, which takes several steps.
        """
        self._make_lines()
        synchronize()
        self.library.call("capture_resume")
        try:
            with self._active_lines():
                with self._next_marked("warm-up"):
                    end = time.perf_counter() + WARM_UP_SECONDS
                    while True:
                        fn()
                        # A host that runs ahead would queue more than the time allows.
                        synchronize()
                        if time.perf_counter() > end:
                            break
                for left in reversed(range(steps)):
                    with self._next_marked():
                        fn()
                        if not left:
                            synchronize()
        finally:
            self.library.call("capture_pause")
        self.library.call("capture_flush")

    @contextlib.contextmanager
    def identified(self) -> Iterator[None]:
        """Gives what is launched in the with statement its identity although nothing is recorded: for the capture of CUDA graphs."""
        self._make_lines()
        with self._active_lines():
            yield

    def _next_marked(self, name: str | None = None) -> contextlib.AbstractContextManager[None]:
        self._marks += 1
        return self._marked(self._marks - 1, name)

    @contextlib.contextmanager
    def _marked(self, number: int, name: str | None = None) -> Iterator[None]:
        self.library.mark(1, number, name)
        try:
            yield
        finally:
            self.library.mark(2, number, name)

    @contextlib.contextmanager
    def _noted(self, note: str) -> Iterator[None]:
        self.library.mark(3, 1, f"{note} begins")
        try:
            yield
        finally:
            self.library.mark(3, 2, f"{note} ends")

    def _keeper(self, fn: Callable[[], Any]) -> StepState | None:
        """What puts the state back that a step changes."""
        if self.mode == "none" or self._restore == "none":
            return None
        from opprof.recording.restore import StepState

        return StepState(fn, self._state)

    def _make_lines(self) -> None:
        """Follows the lines of the code that is loaded now; what is compiled later is found by the next step."""
        if not self._want_lines:
            return
        if self.lines is None:
            self._layers = Layers.read(RunFolder(self.path))
            self.lines = WrapperLines(
                self.library,
                graphs=self._graphs,
                maps=self._layers.maps if self._layers else (),
                ranges=LayerRanges(self._layers.partitions) if self._layers else None,
            )
            self.lines.describe()
        elif self.lines.add_loaded():
            self.lines.describe()

    def _active_lines(self) -> contextlib.AbstractContextManager[None]:
        return self.lines.active() if self.lines is not None else contextlib.nullcontext()

    def _record(self, step: Step, fn: Callable[[], Any], note: str | None = None) -> Any:
        """Runs a step with the timeline on and its launches noted. What it did until it failed is kept.

        With `note` it is not one of the program's own steps, and is marked by that.
        """
        library = self.library
        self._make_lines()
        synchronize()
        library.call("launches_begin")
        try:
            library.call("capture_resume")
            begin = time.perf_counter_ns()
            loaded = _wrappers_loaded()
            try:
                mark = self._marked(step.number) if note is None else self._noted(note)
                with self._active_lines(), mark:
                    begin = time.perf_counter_ns()
                    result = fn()
                    synchronize()
            finally:
                step.wall_ns = time.perf_counter_ns() - begin
                library.call("capture_pause")
                self._compiled_meanwhile = _wrappers_loaded() != loaded
        finally:
            library.call("launches_end", None)
            try:
                library.call("capture_flush")
                step.launches = [self._located(launch) for launch in library.launches()]
            except CaptureError:
                # The program's own error is the one to show.
                if sys.exc_info()[0] is None:
                    raise
        return result

    def _choose(self, launches: list[dict[str, Any]]) -> Selection:
        """The launches that are counted."""
        chosen = None
        if self._select is not None:
            chosen = [i for i, launch in enumerate(launches) if self._select(launch)]
        return select(
            RunFolder(self.path),
            launches,
            every=self._kernels == "all",
            chosen=chosen,
            filter=self._filter,
            demangle=self.library.demangle,
        )

    def _count_outside(
        self, step: Step, outside: Callable[[], Any], keeper: StepState | None
    ) -> None:
        """Counters of a CUDA graph's kernels: those of the same kernels run without it, where the sequences agree."""
        graph = graph_kernels(step.launches)
        plain = Step(step.number)
        self._record(plain, outside, "the step outside of its CUDA graph")
        difference = sequence_difference(graph, plain.launches)
        joined = {
            "kernels": len(graph),
            "reason": "CUPTI does not count the kernels of a CUDA graph one by one: these values are of the same "
            "kernels run outside of the graph, joined by their sequence of name, grid and block",
        }
        step.launches = plain.launches
        if difference is not None:
            step.report = {
                "graph": {**joined, "joined": 0, "difference": difference},
                "failed": "the kernels of the CUDA graph are not those of the program outside of it: "
                + difference,
            }
            raise CaptureError(step.report["failed"], "not-replayable")
        self._count(plain, lambda: self._take_counters(plain, outside, keeper))
        step.counters, step.report = plain.counters, plain.report
        for row in step.counters:
            row["inferred"] = "outside of the CUDA graph"
            row["graph_kernel"] = row["launch"]
        step.report["graph"] = {**joined, "joined": len(graph)}

    def _count(self, step: Step, take: Callable[[], None]) -> None:
        try:
            take()
        except CaptureError as error:
            step.report.setdefault("failed", str(error))
            if self._compiled_meanwhile and error.status == "not-replayable":
                error.remedy = "the step compiled something while it was recorded: run it once before it is captured"
            raise

    def _take_whole(
        self,
        step: Step,
        fn: Callable[[], Any],
        outside: Callable[[], Any] | None,
        keeper: StepState | None,
    ) -> None:
        """Counters of one range over all of the step, which runs as fast as it does."""
        import torch

        if outside is not None and keeper is not None:
            # A CUDA graph does not tell PyTorch what it writes; the same kernels outside of it do.
            outside()
            synchronize()
        kernels = [
            kernel
            for launch in step.launches
            for kernel in (launch["kernels"] if launch["cuda_graph"] else (launch,))
        ]
        rows, report = self._run_passes(step, fn, keeper, kernels, {"whole_step": True})
        ((_, raw),) = rows
        # Of a kernel that the timeline lost it is not known whether it has local memory.
        local = [kernel.get("local_bytes") for kernel in kernels]
        local_bytes = None if None in local else sum(filter(None, local))
        report["time"] = "of the range, from the first launch to the end of the last kernel"
        step.whole = {**derive_step(_device(torch), raw, local_bytes), "report": report}

    def _take_counters(self, step: Step, fn: Callable[[], Any], keeper: StepState | None) -> None:
        import torch

        begin = time.perf_counter()
        chosen = self._choose(step.launches)
        stands_for = chosen.stands_for
        if not stands_for:
            step.report = {"skipped": "no launch of the step is selected"}
            return
        everything = len(stands_for) == len(step.launches)
        selected = None if self._kernels == "all" and everything else _ranges(stands_for)
        rows, step.report = self._run_passes(
            step,
            fn,
            keeper,
            [step.launches[i] for i in stands_for],
            {"selected": selected, "replay": self.replay},
        )
        # The time of a range that is the kernel's own stays as it was counted.
        facts = ("registers", "dynamic_shared", "local_bytes") + (
            () if selected is None else ("duration_ns",)
        )
        counted_launches = [
            (raw, {fact: step.launches[index].get(fact) for fact in facts}) for index, raw in rows
        ]
        derived = derive(_device(torch), counted_launches)
        for (index, _), row in zip(rows, derived, strict=True):
            entry = {"launch": index, "kernel": step.launches[index]["kernel"], **row}
            if stands_for[index]:
                entry["stands_for"] = stands_for[index]
            step.counters.append(entry)
        step.report["total_seconds"] = time.perf_counter() - begin
        step.report["replay"] = self.replay
        step.report["time"] = (
            "of the range" if selected is None else "of the kernel, by the timeline"
        )
        if self._kernels == "unique":
            step.report["unique"] = chosen.report

    def _run_passes(
        self,
        step: Step,
        fn: Callable[[], Any],
        keeper: StepState | None,
        kernels: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
    ) -> tuple[list[tuple[int, dict[str, float]]], dict[str, Any]]:
        """Runs the step once a pass, and puts back what one step left; the raw counters of each range, and a report.

        `kernels` are those that are counted, `options` say of Counters which ranges there are.
        """
        begin = time.perf_counter()
        seconds: dict[str, float] = {}
        assert self._metrics is not None
        names = list(self._metrics.counters)
        if any(k.get("local_bytes") for k in kernels):
            names += self._metrics.with_local_memory
        if keeper is not None:
            keeper.save(everything=self._restore == "all")
            seconds["save"] = time.perf_counter() - begin
        # Restoring would put launches of its own between the runs of a pass.
        uncounted = int(self.replay == "user" and (keeper is None or not keeper.bytes))
        steps = 0
        with Counters(self.library, names, uncounted_runs=uncounted, **options) as counters:
            more = True
            try:
                while more:
                    if keeper is not None and steps:
                        keeper.restore()
                        synchronize()
                    counters.begin_pass()
                    moment = time.perf_counter()
                    try:
                        for run in range(uncounted + 1):
                            if run:
                                counters.next_run()
                            fn()
                            synchronize()
                    finally:
                        seconds["steps"] = seconds.get("steps", 0) + time.perf_counter() - moment
                    more = counters.end_pass()
                    steps += 1
            except BaseException as error:
                # The program goes on from where one step left it, whatever the passes met.
                step.report = {"failed": f"pass {steps + 1}: {type(error).__name__}: {error}"}
                counters.close()
                if keeper is not None:
                    keeper.restore()
                raise
            moment = time.perf_counter()
            if keeper is not None:
                keeper.restore()
            seconds["restore"] = time.perf_counter() - moment
            counters.finish()
            rows = counters.rows()
            report = counters.report()
            moment = time.perf_counter()
        seconds["disable"] = time.perf_counter() - moment
        report["seconds"].update(seconds)
        report["total_seconds"] = time.perf_counter() - begin
        report["caches"] = "as the step leaves them: not flushed between kernels or passes" + (
            "; each pass begins with a run that is not counted" if uncounted else ""
        )
        if keeper is not None:
            report["restored"] = {"tensors": keeper.tensor_count, "bytes": keeper.bytes}
            if keeper.bytes:
                print(
                    f"opprof: {keeper.tensor_count} tensors that the step changes were copied "
                    f"({keeper.bytes / 2**20:.1f} MiB) to run it {counted(steps, 'more time')}",
                    file=sys.stderr,
                )
        return rows, report

    def _write_counters(self) -> None:
        assert self._metrics is not None
        data = {
            "version": 1,
            "made_of": self._metrics.made_of,
            "steps": [
                {
                    "step": step.number,
                    "wall_ns": step.wall_ns,
                    "launches": step.launches,
                    "counters": step.counters,
                    **({"whole": step.whole} if step.whole else {}),
                    "report": step.report,
                }
                for step in self.steps
            ],
        }
        with replacing(RunFolder(self.path).counters) as file:
            json.dump(data, file, indent=1)

    def _located(self, launch: dict[str, Any]) -> dict[str, Any]:
        return {**launch, **self.lines.where(launch["id"])} if self.lines is not None else launch

    def located_launches(self, step: int = -1) -> list[dict[str, Any]]:
        """A step's launches with the wrapper's file and line, or the node, of each that has one."""
        return self.steps[step].launches


@contextlib.contextmanager
def keeping(recording: Path) -> Iterator[None]:
    """Makes a report of a recording: where that fails, the program that was recorded goes on, and the recording is there."""
    try:
        yield
    except (OpprofError, OSError) as failure:
        progress(f"no report was made; {recording} is kept: {failure}")


def recording_facts(by: str, error: BaseException | None) -> dict[str, Any]:
    """What run.json says of a recording that the user's program made of itself."""
    facts: dict[str, Any] = {
        "command": sys.argv,
        "versions": versions(),
        "timeline": {"by": by},
    }
    if error is not None:
        facts["ended"] = f"{type(error).__name__}: {error}"
    return facts


def check_step(fn: object) -> None:
    """Refuses what is not a function, as `prof.step(model(x))` hands over."""
    if not callable(fn):
        raise OpprofError(
            f"prof.step() was given a {type(fn).__name__}, not the function that runs one step",
            remedy="prof.step(lambda: model(x))",
        )


def _ranges(indices: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and ranges[-1][1] == index:
            ranges[-1][1] = index + 1
        else:
            ranges.append([index, index + 1])
    return [(a, b) for a, b in ranges]


def _wrappers_loaded() -> int:
    """How many of Inductor's wrappers are loaded: more after a step than before it means that the step compiled."""
    codecache = sys.modules.get("torch._inductor.codecache")
    return len(codecache.PyCodeCache.modules) if codecache is not None else 0


def _device(torch: Any) -> Device:
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Device(
        properties.multi_processor_count,
        properties.max_threads_per_multi_processor // 32,
    )


@contextlib.contextmanager
def _nvtx_reaches_cupti(library: Library) -> Iterator[None]:
    """NVTX ranges are in the capture when NVTX is told of CUPTI before its first use; a tool that was first keeps them."""
    import torch

    variable = "NVTX_INJECTION64_PATH"
    if variable in os.environ or not torch.cuda.is_available():
        yield
        return
    os.environ[variable] = library.info()["cupti"]
    try:
        # NVTX reads the variable at its first call.
        torch.cuda.nvtx.range_push("opprof")
        torch.cuda.nvtx.range_pop()
        yield
    finally:
        os.environ.pop(variable, None)
