"""The program of one graph whose gradients are needed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from opprof.backend.emitted.definitions import STRATEGY
from opprof.backend.emitted.interface import Strategy
from opprof.backend.emitted.program import at_precision_that_runs, choose, compile_graph
from opprof.backend.emitted.status import GraphStatus

# Weights change in every step, so that nothing is kept of them; a captured graph has no gradients.
_OF_INFERENCE = ("prologue", "freeze", "cuda_graph")


def why_not_differentiate(module: fx.GraphModule) -> str | None:
    """Why a graph of Dynamo's, traced to operators, would have other gradients than before, if it would."""
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, fx.GraphModule) else ():
            # A custom function's own backward, a hook, a region that is computed again: tracing keeps what runs forward.
            name = getattr(node.target, "__name__", str(node.target))
            hooks = "hook" in name and node.op.startswith("call")
            if hooks or isinstance(node.target, torch._ops.HigherOrderOperator):
                return f"gradients are needed, and {name} has some of its own"
    return None


class TrainingProgram:
    """A rewritten graph, compiled with its gradients: autograd differentiates what takes the place of the graph's nodes, and weights
    that are cast get their gradients through the casts, in float32.
    """

    def __init__(self, graph: fx.GraphModule, inputs: Sequence[Any], state: GraphStatus) -> None:
        self.state = state
        for name in _OF_INFERENCE:
            if getattr(STRATEGY, name):
                state.leave_out(name, "gradients are needed")
        strategy = replace(STRATEGY, prologue=False, freeze=False, cuda_graph=False)
        strategy = choose(self._differentiable(strategy), graph, inputs, state)

        def build(graph: fx.GraphModule, strategy: Strategy) -> Callable[[], Any]:
            self.compiled = compile_graph(graph, inputs, strategy)
            return lambda: self.compiled(*inputs)

        at_precision_that_runs(strategy, graph, inputs, state, build)

    def _differentiable(self, strategy: Any) -> Any:
        """The strategy without float16, which has no place for the gradients of a mean over many."""
        narrow = {level for _, level in strategy.regions}
        if strategy.precision is torch.float16:
            self.state.leave_out("precision", "gradients may be too small for float16")
            strategy = replace(strategy, precision=None)
        if narrow - {"bfloat16"}:
            self.state.leave_out("regions", "gradients may be too small for float16")
            strategy = replace(strategy, regions=())
        return strategy

    def __call__(self, *inputs: Any) -> Any:
        self.state.calls += 1
        return self.compiled(*inputs)
