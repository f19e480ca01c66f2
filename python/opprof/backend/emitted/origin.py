"""Where a graph comes from: what Dynamo knows of the function that it traced."""

import types
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew


@dataclass(frozen=True)
class Origin:
    """What the graph stands for, so that one who calls that function may call the graph's program instead."""

    code: types.CodeType | None = None
    # Why the graph is not all that the function does; empty where it is.
    unfit: str = "PyTorch says nothing of it"
    # What Dynamo's guards look at, as expressions of L (the function's locals) and G (its globals).
    reads: tuple[str, ...] = ()


def origin_of(module: fx.GraphModule) -> Origin:
    """Asked while Dynamo has the graph compiled. What it says of itself is private to PyTorch, and unknown where that changes."""
    try:
        output = InstructionTranslator.current_tx().output
        guards = torch._guards.TracingContext.get().guards_context.dynamo_guards
        reads = {_expression(guard.originating_source) for guard in guards} - {""}
        unfit = _unfit(module, output, reads)
        return Origin(output.root_tx.f_code, unfit, tuple(sorted(reads)))
    except Exception as error:
        return Origin(unfit=f"PyTorch says nothing of it ({type(error).__name__})")


def _expression(source: Any) -> str:
    name = source.name
    return str(name() if callable(name) else name)


def _unfit(module: fx.GraphModule, output: Any, reads: set[str]) -> str:
    if module.compile_subgraph_reason.graph_break:
        return "the graph breaks"
    if output.random_calls:
        return "it draws random numbers in Python"
    effects = output.side_effects
    changed = [
        value
        for value in effects.id_to_variable.values()
        if not isinstance(value.mutation_type, (AttributeMutationNew, ValueMutationNew))
        and effects.is_modified(value)
    ]
    if effects.tensor_hooks or effects.save_for_backward:
        return "it changes what was there before"
    for value in changed:
        if _left_as_it_was(value, output):
            continue
        written = _written_as_it_was(value, effects)
        if not written:
            return "it changes what was there before"
        reads |= written
    return ""


def _left_as_it_was(value: Any, output: Any) -> bool:
    """True for the stack of function modes where the function begins and ends with none: libraries make masks in one of their own."""
    if type(value).__name__ != "TorchFunctionModeStackVariable":
        return False
    now = output.root_tx.symbolic_torch_function_state.mode_stack
    return not now and not output.torch_function_mode_stack


def _written_as_it_was(value: Any, effects: Any) -> set[str]:
    """The attributes of an object that are given the values that they have, as expressions; empty where others are changed.

    Libraries set such switches for the time of a call.
    """
    attributes = effects.store_attr_mutations.get(value, {})
    own = getattr(getattr(value, "value", None), "__dict__", {})
    same = all(
        name in own and new.is_python_constant() and new.as_python_constant() is own[name]
        for name, new in attributes.items()
    )
    if not same or value.source is None or getattr(value, "_base_vt", None) is not None:
        return set()
    return {f"{_expression(value.source)}.{name}" for name in attributes}
