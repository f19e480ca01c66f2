"""The program of one graph: compiled, with what was made of its weights."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._inductor.compile_fx import compile_fx

from opprof.backend.emitted.cuda_graph import CapturedGraph, why_not_capture
from opprof.backend.emitted.definitions import BACKEND_NAME, STRATEGY
from opprof.backend.emitted.effects import written_inputs
from opprof.backend.emitted.interface import Strategy
from opprof.backend.emitted.precision import cast_graph, why_not_cast
from opprof.backend.emitted.prologue import (
    made_of_weights,
    split_prologue,
    why_not_freeze,
    with_constants,
)
from opprof.backend.emitted.status import GraphStatus, log
from opprof.backend.emitted.tf32 import with_tf32
from opprof.backend.emitted.weights import (
    Weight,
    checksum_of,
    weight_watch,
)

# Inductor compiles one program at a time, and Dynamo may be at it in another thread.
_compile_lock: Any = getattr(torch._dynamo.convert_frame, "compile_lock", threading.RLock())


class Program:
    """A rewritten graph, compiled, with what its prologue made of the weights.

    That is made again, and nothing is compiled again, when a weight is another tensor, has been written to, or an optimizer has
    made a step. For what tensors do not tell, see refresh() and check_weights_every().
    """

    def __init__(
        self, graph: fx.GraphModule, inputs: Sequence[Any], weights: list[int], state: GraphStatus
    ) -> None:
        self.state = state
        self.lock = threading.RLock()
        self.strategy = self._choose(graph, inputs)
        state.strategy = self.strategy
        if self.strategy.precision:
            graph = cast_graph(graph, inputs, self.strategy.precision)
        written = written_inputs(graph)
        # Tensors of inference mode have no versions, so nothing is made of them.
        keeps = self.strategy.prologue or self.strategy.freeze or self.strategy.cuda_graph
        self.weights = [
            i for i in weights if keeps and i not in written and not inputs[i].is_inference()
        ]
        self.data = [i for i in range(len(inputs)) if i not in set(self.weights)]
        self.prologue, main, self.constants = split_prologue(graph, self.weights)
        self.copied = made_of_weights(graph, self.weights)
        self.captured: CapturedGraph | None = None
        self.sums: list[int] | None = None
        self.calls = 0
        self.made: tuple[torch.Tensor, ...] = ()
        self.seen = self._look(inputs)
        self._make(inputs)
        self.graph = graph
        data = [inputs[i] for i in self.data]
        self.frozen: Any = None
        self.compiled: Any = None
        if self.strategy.freeze and self.weights:
            held = [*self.made, *(inputs[i].detach() for i in self.constants)]
            # Constants of the program: it takes them as they were, and a refresh needs the other one.
            self.frozen = self._compile(with_constants(main, held), data, freezing=True)
            self.main = split_prologue(graph, self.weights)[1]
        else:
            self.compiled = self._compile(main, [*self._held(inputs), *data])
        self.first = True

    def _choose(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Strategy:
        """The strategy without the parts that would change what this graph gives."""
        strategy = STRATEGY
        parts: list[tuple[str, dict[str, Any], str | None]] = []
        if strategy.precision:
            parts.append(("precision", {"precision": None}, why_not_cast(graph)))
        if strategy.freeze:
            parts.append(("freeze", {"freeze": False}, why_not_freeze(graph)))
        if strategy.cuda_graph:
            parts.append(("cuda_graph", {"cuda_graph": False}, why_not_capture(graph, inputs)))
        for name, without, reason in parts:
            if reason:
                strategy = replace(strategy, **without)
                self._leave_out(name, reason)
        return strategy

    def _leave_out(self, name: str, reason: str) -> None:
        self.state.left_out.append(f"{name}: {reason}")
        log.warning("%s: no %s for a graph, as %s", BACKEND_NAME, name, reason)

    def _compile(self, graph: fx.GraphModule, inputs: list[Any], *, freezing: bool = False) -> Any:
        options = {"max_autotune": True} if self.strategy.autotune else {}
        if freezing:
            options["freezing"] = True
        # Compiled inside Dynamo's own compilation, whose lock is held: Inductor takes one program at a time.
        tf32 = self.strategy.tf32
        with torch._guards.tracing(None):
            compile_graph = with_tf32(compile_fx) if tf32 else compile_fx
            compiled = compile_graph(graph, inputs, config_patches=options)
        return with_tf32(compiled) if tf32 else compiled

    def _look(self, inputs: Sequence[Any]) -> tuple[int, list[Weight]]:
        """What the weights are, before anything is made of them: a write from now on is one more change."""
        return weight_watch.changes, [Weight.of(inputs[i]) for i in self.weights]

    def _is_current(self, inputs: Sequence[Any]) -> bool:
        changes, seen = self.seen
        return changes == weight_watch.changes and all(
            weight.is_still(inputs[i]) for i, weight in zip(self.weights, seen, strict=True)
        )

    def _check(self, inputs: Sequence[Any]) -> None:
        """The comparison that check_weights_every() asks for."""
        self.calls += 1
        every = weight_watch.checked_every
        if not every or (self.sums is not None and self.calls % every):
            return
        sums = [checksum_of(inputs[i]) for i in self.weights]
        # What was made before the first comparison may be of older values.
        if sums != self.sums:
            self._refresh(inputs)
            self.sums = sums

    def _make(self, inputs: Sequence[Any]) -> None:
        if self.prologue is None:
            return
        with torch.no_grad():
            made = self.prologue(*[inputs[i].detach() for i in self.weights])
            if self.captured is None:
                self.made = tuple(made)
            else:
                # The captured graph reads these where they lie.
                torch._foreach_copy_(list(self.made), list(made))

    def _refresh(self, inputs: Sequence[Any]) -> None:
        """Makes again what was made of the weights. Calls in other threads go on with what there was until all is done."""
        seen = self._look(inputs)
        pairs = zip(self.seen[1], seen[1], strict=True)
        if any(old.address != new.address for old, new in pairs):
            # The captured graph reads weights where they were.
            self.captured, self.first = None, True
        if self.captured is not None:
            self.captured.wait()
        self._make(inputs)
        if self.captured is not None:
            self.captured.mark()
        if self.frozen is not None:
            # Changed once, they are weights in training, or of a model that is loaded anew: no longer constants.
            data = [inputs[i] for i in self.data]
            with _compile_lock:
                self.compiled = self._compile(self.main, [*self._held(inputs), *data])
            self.frozen, self.captured, self.first = None, None, True
        self.state.refreshes += 1
        self.seen = seen

    def _held(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        return [*self.made, *(inputs[i].detach() for i in self.constants)]

    def _run(self, inputs: Sequence[Any]) -> Any:
        data = [inputs[i] for i in self.data]
        frozen = self.frozen
        return frozen(*data) if frozen is not None else self.compiled(*self._held(inputs), *data)

    def __call__(self, *inputs: Any) -> Any:
        self.state.calls += 1
        if self.strategy.cuda_graph:
            with self.lock:
                self._renew(inputs)
                return self._replay(inputs)
        if self.weights and (weight_watch.checked_every or not self._is_current(inputs)):
            with self.lock:
                self._renew(inputs)
        results = self._run(inputs)
        if not self.copied:
            return results
        results = list(results)
        for position in self.copied:
            results[position] = results[position].clone()
        return results

    def _renew(self, inputs: Sequence[Any]) -> None:
        if not self._is_current(inputs):
            self._refresh(inputs)
        if weight_watch.checked_every:
            self._check(inputs)

    def _replay(self, inputs: Sequence[Any]) -> Any:
        """One call by the captured graph: calls share its buffers, so they take turns, on the host and on the device."""
        data = [inputs[i] for i in self.data]
        if self.first:
            self.first = False
            held, frozen, compiled = self._held(inputs), self.frozen, self.compiled

            def function(*values: Any) -> Any:
                return frozen(*values) if frozen is not None else compiled(*held, *values)

            try:
                self.captured = CapturedGraph(function, data)
            except Exception as error:
                first = (str(error) or "no message").splitlines()[0]
                self._leave_out("cuda_graph", f"{type(error).__name__}: {first}")
        if self.captured is not None:
            return self.captured(*data)
        results = list(self._run(inputs))
        for position in self.copied:
            results[position] = results[position].clone()
        return results
