"""The backend that torch.compile calls."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends import registry
from torch._inductor.compile_fx import compile_fx

from opprof.backend.emitted.definitions import BACKEND_NAME, STRATEGY
from opprof.backend.emitted.graphs import (
    forget_values,
    lines_of,
    needs_gradients,
    trace_to_aten,
    why_not_trace,
)
from opprof.backend.emitted.interface import Strategy
from opprof.backend.emitted.matching import Nearest, apply_rewrites
from opprof.backend.emitted.origin import origin_of
from opprof.backend.emitted.program import Program
from opprof.backend.emitted.recurrent import has_layers, keep_layers
from opprof.backend.emitted.status import GraphStatus, applied, log, new_graph
from opprof.backend.emitted.training import TrainingProgram, why_not_differentiate


def _register(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a backend by this file's name, in place of what the file registered when it was loaded before."""
    before = registry._COMPILER_FNS.get(BACKEND_NAME)
    if getattr(before, "is_emitted", False):
        del registry._COMPILER_FNS[BACKEND_NAME]
    function.is_emitted = True  # type: ignore[attr-defined]
    return registry.register_backend(function, name=BACKEND_NAME)


@_register
def backend(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compiles a graph that Dynamo found: rewrites it at the ATen level, then hands it to Inductor."""
    graph = new_graph()
    graph.refusal = _reason_to_leave_alone(module, inputs)
    if graph.refusal is None:
        try:
            program = _program(module, inputs, graph)
        except Exception as error:
            # Whatever it is, plain Inductor may still do it, and says it better where not.
            graph.refusal = (
                f"{type(error).__name__}: {(str(error) or 'no message').splitlines()[0]}"
            )
        else:
            for name, count in graph.applied.items():
                applied[name] = applied.get(name, 0) + count
            return program
    graph.applied, graph.strategy, graph.left_out = {}, Strategy(), []
    log.warning("%s: %s, so Inductor compiles this graph as it is", BACKEND_NAME, graph.refusal)
    # Dynamo would have left recurrent layers, and what is around them, to eager mode.
    plain = module if has_layers(module) else compile_fx(module, list(inputs))

    def run(*values: Any) -> Any:
        graph.calls += 1
        return plain(*values)

    return run


if STRATEGY.recurrent:
    # Dynamo hands recurrent layers to no backend otherwise. The switch is of the whole process: other backends get them too.
    torch._dynamo.config.allow_rnn = True


def _program(
    module: fx.GraphModule, inputs: Sequence[Any], graph: GraphStatus
) -> Program | TrainingProgram:
    weights = _weight_positions(module, inputs)
    aten = trace_to_aten(module, inputs)
    try:
        missed: dict[str, Nearest] = {}
        graph.applied = apply_rewrites(aten, missed)
        lines = lines_of(module, inputs) if any(near.node for near in missed.values()) else {}
        graph.missed = {name: nearest.text(lines) for name, nearest in missed.items()}
        if needs_gradients(inputs):
            return TrainingProgram(aten, inputs, graph)
        if STRATEGY.recurrent:
            keep_layers(aten)
        program = Program(aten, inputs, weights, graph)
        program.origin = origin_of(module)
        return program
    finally:
        forget_values(aten)


def _reason_to_leave_alone(module: fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    if reason := why_not_trace(module, inputs):
        return reason
    if needs_gradients(inputs):
        return why_not_differentiate(module) if STRATEGY.training else "gradients are needed"
    return None


def _weight_positions(module: fx.GraphModule, inputs: Sequence[Any]) -> list[int]:
    """The inputs that are parameters or buffers of the user's module."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    positions = []
    for position, (node, value) in enumerate(zip(placeholders, inputs, strict=True)):
        source = getattr(node.meta.get("grapharg"), "source", None)
        name = getattr(source, "name", "")
        name = name() if callable(name) else name
        if isinstance(value, torch.nn.Parameter) or "._buffers[" in name:
            positions.append(position)
    return positions
