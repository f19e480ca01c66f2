"""Takes the graphs of a model script at a stage: torch.export's, or one of those that torch.compile makes. Needs PyTorch."""

import contextlib
import functools
import io
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from opprof.errors import OpprofError, ProgramError
from opprof.export.graph_json import (
    GraphInput,
    GraphSource,
    clean_module_path,
    source_of_exported_program,
)
from opprof.export.model_script import ModelScript, user_line
from opprof.files import scratch_folder
from opprof.progress import progress


class ExportFailure(OpprofError):
    """torch.export refused the model; the message names the line that it stopped at."""


def export_program(script: ModelScript) -> torch.export.ExportedProgram:
    """torch.export of the script's module; a failure says where in the user's program it lies."""
    said = io.StringIO()
    try:
        # A failing export dumps the graph so far on stderr, and the line that it stopped at is lost in it.
        with torch.set_grad_enabled(script.module.training), contextlib.redirect_stderr(said):
            program = torch.export.export(script.module, script.args, script.kwargs)
        sys.stderr.write(said.getvalue())
        return program
    except Exception as error:
        raise ExportFailure(
            f"{user_line(error, script.path) or script.path}: the model does not export: {_first_lines(error)}",
            remedy="torch.export needs the whole forward as one graph; `--stage dynamo` takes what torch.compile sees",
        ) from error


def user_error(
    script: ModelScript, what: str, error: Exception, remedy: str | None = None
) -> ProgramError:
    """An error of the user's own program: the line of theirs that it comes from, and PyTorch's words."""
    place = user_line(error, script.path) or script.path
    return ProgramError(f"{place}: {what}: {_first_lines(error)}", remedy=remedy)


def _first_lines(error: Exception) -> str:
    """The part of PyTorch's message that says what happened; its hints on logging flags are left out."""
    text = str(error).strip().split("\n\n")[0]
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    text = "\n  ".join(lines[:6])
    return f"{type(error).__name__}: " + (text if len(text) <= 1000 else text[:1000] + "…")


def capture_dynamo(script: ModelScript) -> list[GraphSource]:
    """The graphs that Dynamo hands to a backend: one, or several where the model breaks the graph."""
    captured: list[GraphSource] = []
    _run_compiled(script, keep_dynamo_graphs(script.name, captured))
    return captured


def keep_dynamo_graphs(
    name: str,
    kept: list[GraphSource],
    change: Callable[[fx.GraphModule, list[Any]], fx.GraphModule] = lambda module, _: module,
) -> Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]:
    """A backend that adds to `kept` what `change` makes of each graph that it is handed, and runs the graph as it is."""

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        changed = change(module, inputs)
        own = f"{name}_{len(kept)}" if kept else name
        kept.append(GraphSource(changed, own, "dynamo", dynamo_inputs(changed)))
        run: Callable[..., Any] = module.forward
        return run

    return backend


def dynamo_inputs(graph_module: fx.GraphModule) -> list[GraphInput]:
    """Which parameter or buffer of the user's module each placeholder of a Dynamo graph stands for."""
    inputs = []
    for node in graph_module.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("example_value", node.meta.get("val"))
        grapharg = node.meta.get("grapharg")
        source = getattr(getattr(grapharg, "source", None), "name", None)
        path = source() if callable(source) else source
        if not isinstance(path, str) or not clean_module_path(path):
            inputs.append(GraphInput())
            continue
        target = clean_module_path(path)
        if "_parameters[" in path or isinstance(value, torch.nn.Parameter):
            inputs.append(GraphInput("parameter", target))
        elif "_buffers[" in path:
            inputs.append(GraphInput("buffer", target))
        else:
            inputs.append(GraphInput())
    return inputs


def capture_aot(script: ModelScript, stage: str) -> list[GraphSource]:
    """AOTAutograd's graphs. Joint and backward graphs exist where something requires a gradient."""
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    captured: list[GraphSource] = []

    def keep(graph_module: fx.GraphModule, kind: str) -> None:
        if kind == stage:
            name = f"{script.name}_{len(captured)}" if captured else script.name
            captured.append(GraphSource(_copy_of(graph_module), name, kind))

    def compiler(kind: str, graph_module: fx.GraphModule, _: Sequence[Any]) -> Any:
        keep(graph_module, kind)
        return make_boxed_func(graph_module.forward)

    def partition(joint: fx.GraphModule, inputs: Any, **options: Any) -> Any:
        keep(joint, "aot_joint")
        return min_cut_rematerialization_partition(joint, inputs, **options)

    backend = aot_autograd(
        fw_compiler=functools.partial(compiler, "aot_forward"),
        bw_compiler=functools.partial(compiler, "aot_backward"),
        partition_fn=partition,
    )
    try:
        _run_compiled(script, backend, backward=stage != "aot_forward")
    except OpprofError as error:
        # The graph is whole before the program runs: a failure of the run takes nothing from it.
        if not captured:
            raise
        progress(f"the graph was captured; {error}")
    return captured


def _copy_of(graph_module: fx.GraphModule) -> fx.GraphModule:
    """A graph module of its own nodes: the partitioner rewrites the joint graph in place."""
    return fx.GraphModule(graph_module, _copy_graph(graph_module.graph))


def _copy_graph(graph: fx.Graph) -> fx.Graph:
    copy = fx.Graph()
    result = copy.graph_copy(graph, val_map={}, return_output_node=True)
    if result is not None:
        value, original = result
        copy.output(value).meta.update(original.meta)
    return copy


def capture_post_grad(script: ModelScript) -> list[GraphSource]:
    """Inductor's graphs after its post-grad passes, as they are lowered to kernels."""
    from opprof.export.inductor import CompiledGraph, watching_inductor

    captured: list[GraphSource] = []

    def keep(graph: CompiledGraph) -> None:
        captured.append(GraphSource(_copy_of(graph.module), graph.name, "post_grad"))

    with (
        scratch_folder() as directory,
        watching_inductor(directory, keep),
    ):
        _run_compiled(script, "inductor", backward=script.module.training)
    return captured


def _run_compiled(script: ModelScript, backend: Any, *, backward: bool = False) -> None:
    """Compiles the module with `backend` and runs it once, so that the backend is handed its graphs."""
    torch._dynamo.reset()
    compiled = torch.compile(script.module, backend=backend)
    try:
        # Dynamo leaves recurrent layers uncompiled unless it is told otherwise, and here the graph is what is wanted.
        with torch._dynamo.config.patch(allow_rnn=True):
            if not backward:
                script.step_of(compiled)()
                return
            with torch.enable_grad():
                result = compiled(*script.args, **script.kwargs)
            tensors = [
                value
                for value in torch.utils._pytree.tree_leaves(result)
                if isinstance(value, torch.Tensor) and value.requires_grad
            ]
            if tensors:
                torch.autograd.backward([value.float().sum() for value in tensors])
    except Exception as error:
        raise user_error(script, "the model does not run compiled", error) from error
    finally:
        torch._dynamo.reset()


def capture(script: ModelScript, stage: str) -> list[GraphSource]:
    """The script's graphs at a stage, the first being the main one."""
    if stage == "export":
        return [source_of_exported_program(export_program(script), script.name)]
    if stage == "dynamo":
        sources = capture_dynamo(script)
    elif stage == "post_grad":
        sources = capture_post_grad(script)
    else:
        sources = capture_aot(script, "aot_forward" if stage == "aot" else stage)
    if not sources:
        differentiated = stage in ("aot_joint", "aot_backward")
        raise OpprofError(
            f"{script.path}: there is no {stage} graph",
            remedy="it exists only where a parameter or an input requires a gradient"
            if differentiated
            else "Dynamo compiled nothing of this model; TORCH_LOGS=graph_breaks makes it say why",
        )
    return sources
