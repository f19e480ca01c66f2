"""Makes the program that is profiled of a model script: eager, compiled by Inductor or another backend, or one CUDA graph. Needs PyTorch.

What runs is the exported program's module where the model exports: PyTorch then records, for every node that Inductor
compiles, the exported node that it came from, and no graph has to be aligned with another. Its kernels are those of the user's
module. Where the model does not export, the user's module runs, and the graph of the run is the one that Dynamo saw, in ATen
operators where Inductor compiles it: rules and patterns know those.
"""

import contextlib
import difflib
import functools
import inspect
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import fx
from torch.fx.traceback import NodeSource

from opprof.backend.emitted.cuda_graph import capture_on, warm_up_on
from opprof.backend.emitted.graphs import (
    needs_gradients,
    placeholders_of,
    trace_with_lines,
    why_not_trace,
)
from opprof.backend.emitted.interface import Strategy
from opprof.backend.emitted.program import compile_graph
from opprof.backend.emitted.recurrent import keep_layers
from opprof.backend.emitted.training import why_not_differentiate
from opprof.devices import synchronize
from opprof.errors import OpprofError
from opprof.export.compilations import CompilationLog, Names
from opprof.export.graph_json import GraphSource, write_graph_json
from opprof.export.inductor import CompiledGraph, watching_inductor
from opprof.export.model_script import ModelScript
from opprof.export.stages import dynamo_inputs, keep_dynamo_graphs, user_error
from opprof.progress import progress
from opprof.recording.identity import NodeGraph
from opprof.run_folder import CODE_GRAPH, POST_GRAD, RunFolder

Result = TypeVar("Result")

EAGER, INDUCTOR, CUDA_GRAPHS = "eager", "inductor", "cudagraphs"


@dataclass
class Program:
    """A program that is ready to run."""

    step: Callable[[], Any]
    #: Graphs that run node by node.
    graphs: list[NodeGraph] = field(default_factory=list)
    #: What was compiled, and is while it is run on.
    compiled: "CompiledGraphs | None" = None
    #: The first step, compilation included.
    compile_ns: int = 0

    def name_compiled(self) -> None:
        """Gives the code that was compiled since the last time the names of the run, before the driver takes it."""
        if self.compiled is not None:
            self.compiled.name_folders()

    def facts(self) -> dict[str, Any]:
        """What run.json says of the compilations so far."""
        return {"compiled_graphs": []} if self.compiled is None else self.compiled.facts()


def find_backend(mode: str) -> str:
    """The torch.compile backend of a mode: Inductor's, a registered one, or that of a file."""
    if mode in (EAGER, INDUCTOR, CUDA_GRAPHS):
        return "inductor"
    if mode.endswith(".py"):
        from opprof.backend.checks import load_backend

        if not Path(mode).is_file():
            raise OpprofError(f"{mode}: no such file")
        try:
            name = getattr(load_backend(Path(mode)), "BACKEND_NAME", None)
        except Exception as error:
            raise OpprofError(
                f"{mode}: the backend cannot be imported: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(name, str):
            raise OpprofError(
                f"{mode}: does not say the name of its backend",
                remedy='register it, and set BACKEND_NAME = "…" in the file; `opprof emit` writes such files',
            )
        return name
    if mode not in torch._dynamo.list_backends(exclude_tags=()):
        # Those for debugging PyTorch itself can be asked for, and are no suggestions.
        known = torch._dynamo.list_backends()
        choices = list(dict.fromkeys((EAGER, INDUCTOR, CUDA_GRAPHS, *known)))
        near = difflib.get_close_matches(mode, choices, 3, 0.5)
        raise OpprofError(
            f"--mode={mode}: no such mode or backend"
            + (f"; near names: {', '.join(near)}" if near else ""),
            remedy=f"choose {EAGER}, {INDUCTOR}, {CUDA_GRAPHS}, the file of a backend, or a backend of torch.compile: {', '.join(choices[3:])}",
        )
    return mode


class CompiledGraphs:
    """Keeps the graphs of a compilation, and names those that compiled nodes can be followed back to."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.graph_names: dict[int, str] = {}
        self.compiled: list[CompiledGraph] = []
        # What the run calls them, in the same order, and of how many of them the folders are called so.
        self.names: list[str] = []
        self._named = 0
        self._compiled_names, self._dynamo_names = Names(), Names()
        self._log = CompilationLog()
        # Not in the scratch, which the driver takes away: a backward graph may be compiled after that.
        self._graphs = tempfile.TemporaryDirectory(prefix="opprof-")
        # The Dynamo graphs where the model does not export, and which of them each compiled graph was made from.
        self.dynamo_graphs: list[Path] = []
        self.made_from: dict[str, Path] = {}
        # Whether recurrent layers stay calls of the library, which have no gradients.
        self.keeps_layers = False
        # Those of them that are not of operators, and why.
        self.untraced: dict[str, str] = {}
        # Those that are run node by node.
        self.run_by_node: list[NodeGraph] = []

    def backend(
        self, compiler: str, name: str, module: fx.GraphModule, inputs: list[Any], **options: Any
    ) -> Any:
        """The compiler; the graphs that it is handed are written down where they are all there is, as the model does not export."""
        is_all = self.dynamo_graphs or not self.graph_names
        traced = module
        untraced: str | None = f"it is what the backend {compiler} is handed"
        if compiler == INDUCTOR and is_all:
            traced, untraced = in_operators(module, inputs)
        graph_name, target = self._name_graph(name)
        self._write_down(traced, graph_name, target)
        if untraced is not None and is_all:
            self.untraced[graph_name] = untraced
        if compiler == EAGER:
            self.run_by_node.append(NodeGraph(module, graph_name, "dynamo"))
            return module.forward
        if compiler == INDUCTOR:
            from torch._inductor.compile_fx import compile_fx

            if not needs_gradients(inputs):
                self.keeps_layers |= keep_layers(traced) > 0
            if is_all and untraced is None:
                try:
                    # In Dynamo's own context its guards would be asked of sizes that it knows nothing of.
                    return compile_graph(traced, inputs, Strategy())
                except Exception as error:
                    # Whatever it is, Inductor may still compile what it is handed without opprof, and says it better where not.
                    self.untraced[graph_name] = _said(error)
                    del self.graph_names[id(traced.graph)]
                    self._write_down(module, graph_name, target)
            return compile_fx(module, inputs, **options)
        return torch._dynamo.lookup_backend(compiler)(module, inputs, **options)

    def _name_graph(self, name: str) -> tuple[str, Path | None]:
        """What the run calls a graph that the compiler is handed, and the file for it, None where the run has the exported graph."""
        count = len(self.dynamo_graphs)
        graph_name = self._dynamo_names.name("dynamo", f"{name}.{count}" if count else name)
        if not count and self.graph_names:
            return graph_name, None
        target = (
            Path(self._graphs.name) / f"graph.{count}.json" if count else self.folder.graph_json
        )
        self.dynamo_graphs.append(target)
        return graph_name, target

    def _write_down(self, module: fx.GraphModule, graph_name: str, target: Path | None) -> None:
        if target is not None:
            source = GraphSource(module, graph_name, "dynamo", dynamo_inputs(module))
            # Inductor's passes change the graph in place, so it is written down before they do.
            write_graph_json(target, source)
            self.graph_names[id(module.graph)] = graph_name

    def keep(self, graph: CompiledGraph) -> None:
        """Writes the graph beside its code. A backward node names the forward nodes that it differentiates."""
        self.compiled.append(graph)
        name = self._compiled_names.name(_kind(graph.name), graph.name)
        self.names.append(name)
        self._log.add_graph(name)
        if self.dynamo_graphs:
            # A backward graph may be compiled when other graphs have been since its forward graph.
            origin = self.made_from.setdefault(_model(graph.name), self.dynamo_graphs[-1])
            if origin != self.folder.graph_json:
                shutil.copyfile(origin, graph.folder / CODE_GRAPH)
        differentiated: dict[int, list[NodeSource]] = {}
        for earlier in self.compiled:
            if _model(earlier.name) == _model(graph.name):
                for node in earlier.module.graph.nodes:
                    records = node.meta.get("from_node") or []
                    if "seq_nr" in node.meta and self._lead_to_a_named_graph(records):
                        differentiated.setdefault(node.meta["seq_nr"], records)
        source = GraphSource(graph.module, name, "post_grad", differentiated=differentiated)
        write_graph_json(graph.folder / POST_GRAD, source, self.graph_names)

    def name_folders(self) -> None:
        """Gives the folders of the graphs compiled since the last time the names of the run: Inductor is done with them."""
        for graph, name in zip(
            self.compiled[self._named :], self.names[self._named :], strict=True
        ):
            if graph.folder.name != name and graph.folder.is_dir():
                graph.folder = graph.folder.rename(graph.folder.with_name(name))
        self._named = len(self.compiled)

    def facts(self) -> dict[str, Any]:
        """What run.json says of them."""
        facts: dict[str, Any] = {"compiled_graphs": list(self.names)}
        for key, found in (
            ("compilations", self._log.compilations()),
            ("graph_breaks", self._log.graph_breaks()),
            ("untraced", self.untraced),
        ):
            if found:
                facts[key] = found
        return facts

    def _lead_to_a_named_graph(self, records: list[NodeSource]) -> bool:
        """A pass that replaces nodes may record no more than its own pattern."""
        return any(
            record.graph_id in self.graph_names or self._lead_to_a_named_graph(record.from_node)
            for record in records
        )


def in_operators(module: fx.GraphModule, inputs: list[Any]) -> tuple[fx.GraphModule, str | None]:
    """A graph of Dynamo's in ATen operators, its inputs known by the names and sources that Dynamo has for them; or the graph as it is, and why."""
    why_not = why_not_trace(module, inputs)
    if why_not is None and needs_gradients(inputs):
        why_not = why_not_differentiate(module)
    if why_not is not None:
        return module, why_not
    try:
        traced = trace_with_lines(module, inputs)
    except Exception as error:
        # Whatever it is, Inductor may still compile the graph, and says it better where not.
        return module, _said(error)
    for node in traced.graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            # Its rules are for the fake tensors of Dynamo, with which the traced graph is not compiled.
            return module, f"{node.target.name()} is no ATen operator"
    for own, known in zip(placeholders_of(traced), placeholders_of(module), strict=True):
        own._rename(known.name)
        own.meta = {**known.meta, **own.meta}
    return traced, None


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error) or 'no message').splitlines()[0]}"


def keep_operator_graphs(
    name: str, kept: list[GraphSource]
) -> Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]:
    """A backend that adds each graph that it is handed to `kept`, in operators where it can be, and runs it as it is."""
    return keep_dynamo_graphs(name, kept, lambda *graph: in_operators(*graph)[0])


def difference(
    module: torch.nn.Module, exported: bool, mode: str, compiled: CompiledGraphs | None
) -> str | None:
    """How the program of a mode differs from what `torch.compile(module)` runs, in a sentence; None where it does not."""
    recurrent = [
        f"{name or 'the model'} ({type(part).__name__})"
        for name, part in module.named_modules()
        if isinstance(part, torch.nn.RNNBase)
    ]
    if not exported or mode == EAGER or not recurrent or torch._dynamo.config.allow_rnn:
        return None
    inside = (
        "stays one call of the library a layer"
        if compiled is not None and compiled.keeps_layers
        else "is compiled too, step by step of the sequence"
    )
    return (
        f"torch.compile(model) leaves {', '.join(recurrent)} uncompiled, and divides the graph there; this program is the compiled "
        f"export, one graph in which that {inside}. --mode={EAGER} runs the model as it is"
    )


def _model(name: str) -> str:
    """What forward and backward of one Dynamo graph share in the names of their debug folders: model__2_forward_5.1 → model__2."""
    return re.sub(r"_(forward|backward|inference)_.*$", "", name)


def _kind(name: str) -> str:
    """Which graph of a function one is: model__2_forward_5.1 → forward."""
    found = re.search(r"_(forward|backward|inference)_", name)
    return found[1] if found else ""


def module_of(program: torch.export.ExportedProgram) -> torch.nn.Module:
    """The program as a module. Its check of the input's shapes is left out: the input is the one that was exported with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "check_guards" in inspect.signature(program.module).parameters:
            return program.module(check_guards=False)
        return program.module()


@contextlib.contextmanager
def make_program(
    script: ModelScript,
    exported: torch.export.ExportedProgram | None,
    folder: RunFolder,
    mode: str,
) -> Iterator[Program]:
    """Makes the program of a mode and runs its first step. What is compiled until the with statement ends, then or when it runs
    on, lies in the run folder's scratch.
    """
    module = script.module if exported is None else module_of(exported)
    if exported is not None and mode == EAGER:
        program = Program(script.step_of(module), [NodeGraph(module, script.name, "export")])
        first_step(script, program, "fails when it runs node by node")
        yield program
        return
    compiler = EAGER if mode == EAGER else find_backend(mode)
    folder.drop_scratch()
    if mode != EAGER:
        progress(f"compiling with {'Inductor' if compiler == INDUCTOR else compiler}")
    torch._dynamo.reset()
    graphs = CompiledGraphs(folder)
    if exported is not None:
        graphs.graph_names[id(exported.graph)] = script.name
    with watching_inductor(folder.scratch, graphs.keep):
        backend = functools.partial(graphs.backend, compiler, script.name)
        program = Program(
            script.step_of(torch.compile(module, backend=backend)), graphs.run_by_node, graphs
        )
        remedy = None if mode == EAGER else f"--mode={EAGER} profiles it uncompiled"
        first_step(script, program, "does not run compiled", remedy)
        if compiler == INDUCTOR and not graphs.compiled:
            raise OpprofError(f"{script.path}: Inductor compiled nothing of this model")
        if exported is None and not graphs.dynamo_graphs:
            raise OpprofError(f"{script.path}: Dynamo found no graph in this model")
        if compiler not in (EAGER, INDUCTOR) and not graphs.compiled:
            progress(
                f"{compiler} compiles nothing by Inductor: its kernels cannot be joined to nodes"
            )
        program.name_compiled()
        yield program


def first_step(script: ModelScript, program: Program, what: str, remedy: str | None = None) -> None:
    start = time.perf_counter_ns()
    run_user(script, what, program.step, remedy)
    synchronize()
    program.compile_ns = time.perf_counter_ns() - start


def run_user(
    script: ModelScript, what: str, action: Callable[[], Result], remedy: str | None = None
) -> Result:
    """Runs the user's program, and says where it failed if it does, and what helps."""
    try:
        return action()
    except OpprofError:
        raise
    except Exception as error:
        raise user_error(script, f"the model {what}", error, remedy) from error


def into_cuda_graph(step: Callable[[], Any]) -> Callable[[], Any]:
    """Captures a step into one CUDA graph, and returns its replay. The step has run before."""
    stream = torch.cuda.Stream()
    # Libraries choose their kernels and allocate workspaces at the first call on a stream.
    warm_up_on(stream, step, 2)
    torch.cuda.synchronize()
    graph, result = capture_on(stream, step)

    def replay() -> Any:
        graph.replay()
        return result

    return replay
