"""Profiles a model script: exports it, compiles it with Inductor, times it, traces it, and fills a run folder. Needs PyTorch.

What is compiled is the exported program's module where the model exports: PyTorch then records, for every node that Inductor
compiles, the exported node that it came from, and no graph has to be aligned with another. Its kernels are those of the user's
module. Where the model does not export, the user's module is compiled, and the graph of the run is the one that Dynamo saw.
"""

import functools
import gc
import inspect
import os
import platform
import re
import shutil
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.fx.traceback import NodeSource

import opprof
from opprof.counters import attach_to_folder, count
from opprof.errors import OpprofError
from opprof.export import ExportFailure, dynamo_inputs, export_program, user_error
from opprof.graph_json import GraphSource, source_of_exported_program, write_graph_json
from opprof.inductor import CompiledGraph, watching_inductor
from opprof.model_script import ModelScript, load_model_script
from opprof.progress import progress
from opprof.run_folder import (
    RunFolder,
    attribute,
    copy_code,
    find_partitions,
    graph_of,
    import_graph,
    map_launches,
    write_run,
)


@dataclass
class ProfileOptions:
    """How much is run."""

    warm_up: int = 3
    traced: int = 5
    # Timed steps, and the seconds after which timing ends with fewer.
    timed: int = 50
    timed_seconds: float = 3.0
    eager: bool = True
    # Hardware counters of one step: "none", "unique" (partitions) or "all", and which.
    counters: str = "none"
    metrics: str = "default"
    replay: str = "user"


@dataclass
class Timing:
    """Wall times of single steps, each from an idle device to an idle device."""

    steps_ns: list[int] = field(default_factory=list)

    @property
    def median_ns(self) -> int:
        return int(statistics.median(self.steps_ns))

    def as_json(self) -> dict[str, Any]:
        return {"median_ns": self.median_ns, "steps_ns": self.steps_ns}


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def time_steps(step: Callable[[], Any], options: ProfileOptions) -> Timing:
    """Times single steps, at least three."""
    timing = Timing()
    for _ in range(options.warm_up):
        step()
    _synchronize()
    end = time.monotonic() + options.timed_seconds
    while len(timing.steps_ns) < options.timed:
        start = time.perf_counter_ns()
        step()
        _synchronize()
        timing.steps_ns.append(time.perf_counter_ns() - start)
        if time.monotonic() > end and len(timing.steps_ns) >= 3:
            break
    return timing


def trace_steps(step: Callable[[], Any], steps: int, target: Path) -> None:
    """Records `steps` steps with torch.profiler, each with its ProfilerStep annotation, after one that warms the profiler up."""
    # Kineto announces each start and stop on stderr unless it is told not to before its first one.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    # A part of the file name that ends in .gz makes the profiler compress; the rename leaves no half-written trace.
    partial = target.with_name(f".{target.name.removesuffix('.gz')}.partial.gz")
    with torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=steps, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(partial)),
        record_shapes=True,
    ) as profiler:
        for number in range(steps + 1):
            step()
            # Steps follow one another as they do in the user's loop. Waiting after each would be a cost that the report blames
            # on the user; the first traced step and the end of the last need an idle device.
            if number in (0, steps):
                _synchronize()
            profiler.step()
    partial.replace(target)


class CompiledGraphs:
    """Keeps the graphs of a compilation, and names those that compiled nodes can be followed back to."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.graph_names: dict[int, str] = {}
        self.compiled: list[CompiledGraph] = []
        # The Dynamo graphs where the model does not export, and which of them each compiled graph was made from.
        self.dynamo_graphs: list[Path] = []
        self.made_from: dict[str, Path] = {}

    def backend(self, name: str, module: fx.GraphModule, inputs: list[Any], **options: Any) -> Any:
        """Inductor; the graphs that it is handed are written down where they are all there is, as the model does not export."""
        from torch._inductor.compile_fx import compile_fx

        count = len(self.dynamo_graphs)
        if count or not self.graph_names:
            graph_name = f"{name}.{count}" if count else name
            source = GraphSource(module, graph_name, "dynamo", dynamo_inputs(module))
            target = (
                self.folder.scratch / f"graph.{count}.json" if count else self.folder.graph_json
            )
            # Inductor's passes change the graph in place, so it is written down before they do.
            write_graph_json(target, source)
            self.dynamo_graphs.append(target)
            self.graph_names[id(module.graph)] = graph_name
        return compile_fx(module, inputs, **options)

    def keep(self, graph: CompiledGraph) -> None:
        """Writes the graph beside its code. A backward node names the forward nodes that it differentiates."""
        self.compiled.append(graph)
        if self.dynamo_graphs:
            # A backward graph may be compiled when other graphs have been since its forward graph.
            origin = self.made_from.setdefault(_model(graph.name), self.dynamo_graphs[-1])
            if origin != self.folder.graph_json:
                shutil.copyfile(origin, graph.folder / "graph.json")
        differentiated: dict[int, list[NodeSource]] = {}
        for earlier in self.compiled:
            if _model(earlier.name) == _model(graph.name):
                for node in earlier.module.graph.nodes:
                    records = node.meta.get("from_node") or []
                    if "seq_nr" in node.meta and self._lead_to_a_named_graph(records):
                        differentiated.setdefault(node.meta["seq_nr"], records)
        source = GraphSource(graph.module, graph.name, "post_grad", differentiated=differentiated)
        write_graph_json(graph.folder / "post_grad.json", source, self.graph_names)

    def _lead_to_a_named_graph(self, records: list[NodeSource]) -> bool:
        """A pass that replaces nodes may record no more than its own pattern."""
        return any(
            record.graph_id in self.graph_names or self._lead_to_a_named_graph(record.from_node)
            for record in records
        )


def _model(name: str) -> str:
    """What forward and backward of one Dynamo graph share in the names of their debug folders: model__2_forward_5.1 → model__2."""
    return re.sub(r"_(forward|backward|inference)_.*$", "", name)


def profile_script(path: str, output: Path, options: ProfileOptions) -> RunFolder:
    """Runs the script and leaves a run folder."""
    folder = RunFolder(output)
    record(path, folder, options)
    # The tools that follow are given the memory that the models took.
    gc.collect()
    if (
        not folder.graph.is_file()
        or folder.graph.stat().st_mtime < folder.graph_json.stat().st_mtime
    ):
        progress("importing the graph")
        import_graph(folder.graph_json, folder.graph)
    attribute(folder)
    attach_to_folder(folder)
    return folder


def map_code(folder: RunFolder) -> None:
    """What counters of unique partitions need to know before they are taken: partitions, and launches."""
    progress("importing the graph")
    import_graph(folder.graph_json, folder.graph)
    find_partitions(folder)
    for code in folder.compiled_graphs():
        map_launches(code, graph_of(code, folder), code / "launches.json")


def record(path: str, folder: RunFolder, options: ProfileOptions) -> None:
    """The part that runs the user's program: graph, code, trace and times."""
    progress(f"loading {path}")
    script = load_model_script(path)
    folder.path.mkdir(parents=True, exist_ok=True)
    for stale in folder.compiled_graphs():
        shutil.rmtree(stale)
    # Counters of an earlier run would be put on this one's kernels.
    (folder.path / "counters.json").unlink(missing_ok=True)
    facts = _facts(script)
    if options.eager:
        progress("timing the program as it is, uncompiled")
        eager_step = script.step_of(script.module)
        timing = _run(script, "fails", lambda: time_steps(eager_step, options))
        facts["eager_step"] = timing.as_json()

    # Graphs are named by their addresses: the exported program has to live as long as the names are used.
    program = _export(script, folder)
    module = script.module
    graphs = CompiledGraphs(folder)
    if program is not None:
        module = module_of(program)
        graphs.graph_names[id(program.graph)] = script.name
    shutil.rmtree(folder.scratch, ignore_errors=True)
    progress("compiling with Inductor")
    try:
        with watching_inductor(folder.scratch, graphs.keep):
            torch._dynamo.reset()
            backend = functools.partial(graphs.backend, script.name)
            step = script.step_of(torch.compile(module, backend=backend))
            start = time.perf_counter_ns()
            _run(script, "does not run compiled", step)
            _synchronize()
            facts["compile_ns"] = time.perf_counter_ns() - start
        if not graphs.compiled:
            raise OpprofError(f"{script.path}: Inductor compiled nothing of this model")
        for graph in graphs.compiled:
            copy_code(graph.folder, folder.path / graph.name)
    finally:
        shutil.rmtree(folder.scratch, ignore_errors=True)

    progress("timing the compiled program")
    timing = _run(script, "fails when run compiled", lambda: time_steps(step, options))
    if options.counters != "none":
        if options.counters == "unique" and torch.cuda.is_available():
            map_code(folder)
        facts["counters"] = _run(
            script,
            "fails while counters are taken",
            lambda: count(step, folder, options.counters, options.metrics, options.replay),
        )
    progress(f"tracing {options.traced} steps")
    _run(
        script, "fails under the profiler", lambda: trace_steps(step, options.traced, folder.trace)
    )
    facts.update(
        {
            "graph": script.name,
            "stage": "export" if program is not None else "dynamo",
            "compiled_graphs": [graph.name for graph in graphs.compiled],
            "warm_up": options.warm_up,
            "iterations": options.traced,
            "step": timing.as_json(),
        }
    )
    write_run(folder, facts)


def _export(script: ModelScript, folder: RunFolder) -> torch.export.ExportedProgram | None:
    """The exported program, or nothing, with the reason said, where the model does not export."""
    progress("exporting with torch.export")
    try:
        program = export_program(script)
    except ExportFailure as failure:
        progress(f"{failure}")
        progress("going on with the model as torch.compile sees it")
        return None
    write_graph_json(folder.graph_json, source_of_exported_program(program, script.name))
    return program


def module_of(program: torch.export.ExportedProgram) -> torch.nn.Module:
    """The program as a module. Its check of the input's shapes is left out: the input is the one that was exported with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "check_guards" in inspect.signature(program.module).parameters:
            return program.module(check_guards=False)
        return program.module()


def _run(script: ModelScript, what: str, action: Callable[[], Any]) -> Any:
    """Runs the user's program, and says where it failed if it does."""
    try:
        return action()
    except OpprofError:
        raise
    except Exception as error:
        raise user_error(script, f"the model {what}", error) from error


def _facts(script: ModelScript) -> dict[str, Any]:
    """What a reader has to know of the machine and the program to compare this run with another."""
    device: dict[str, Any] = {
        "type": "cpu",
        "name": _cpu_name(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        device = {
            "type": "cuda",
            "name": properties.name,
            "sm_count": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
        }
    return {
        "command": ["opprof", *sys.argv[1:]],
        "script": str(script.path),
        "versions": {
            "opprof": opprof.__version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        "device": device,
        "training": script.module.training,
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
