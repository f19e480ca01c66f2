"""The program of one graph: compiled, with what was made of its weights."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext
from torch._inductor.compile_fx import compile_fx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.weak import WeakIdKeyDictionary

from opprof.backend.emitted.cuda_graph import CapturedGraph, replace_by_copies, why_not_capture
from opprof.backend.emitted.definitions import STRATEGY
from opprof.backend.emitted.effects import what_may_stop, written_inputs
from opprof.backend.emitted.graphs import forget_values
from opprof.backend.emitted.interface import Strategy
from opprof.backend.emitted.origin import Origin
from opprof.backend.emitted.precision import cast_graph, why_not_cast
from opprof.backend.emitted.prologue import (
    made_of_weights,
    nodes_of_each_run,
    prologue_inputs,
    split_prologue,
    why_not_freeze,
    with_constants,
)
from opprof.backend.emitted.recurrent import put_together
from opprof.backend.emitted.regions import cast_regions, why_not_regions
from opprof.backend.emitted.status import GraphStatus
from opprof.backend.emitted.tf32 import compile_with_tf32
from opprof.backend.emitted.weights import Weights, checksum_of, foreach_copy_, weight_watch

# Inductor compiles one program at a time, and Dynamo may be at it in another thread.
_compile_lock: Any = getattr(torch._dynamo.convert_frame, "compile_lock", threading.RLock())


class _FixedSizes(FakeTensorMode):
    """Sizes are numbers, though there is a place for symbols: Inductor's cache of compiled graphs asks for one."""

    def from_tensor(
        self, tensor: torch.Tensor, *, static_shapes: Any = None, **options: Any
    ) -> Any:
        return super().from_tensor(tensor, static_shapes=True, **options)

    def forget_tensors(self) -> None:
        """Drops its weak references to the tensors that it made fake ones of, as Dynamo does with its own mode: compiled programs may
        hold the mode, and nobody may swap tensors that are referred to weakly.
        """
        describer = self.fake_tensor_converter.meta_converter.describer
        # New ones, as clear() asks each reference for its object: PyTorch 2.9 then brings storages back that have gone, and frees them a
        # second time.
        describer.lookup_tensor = WeakIdKeyDictionary()
        describer.lookup_storage = WeakIdKeyDictionary()


def choose(
    strategy: Strategy, graph: fx.GraphModule, inputs: Sequence[Any], state: GraphStatus
) -> Strategy:
    """The strategy without the parts that would change what this graph gives, which the state and the log name."""
    parts: list[tuple[str, dict[str, Any], str | None]] = []
    if strategy.precision:
        parts.append(("precision", {"precision": None}, why_not_cast(graph)))
    if strategy.regions:
        parts.append(("regions", {"regions": ()}, why_not_regions(graph, inputs)))
    if strategy.freeze:
        parts.append(("freeze", {"freeze": False}, why_not_freeze(graph)))
    if strategy.cuda_graph:
        parts.append(("cuda_graph", {"cuda_graph": False}, why_not_capture(graph, inputs)))
    for name, without, reason in parts:
        if reason:
            strategy = replace(strategy, **without)
            state.leave_out(name, reason)
    state.strategy = strategy
    return strategy


def at_precision(
    graph: fx.GraphModule, inputs: Sequence[Any], strategy: Strategy
) -> fx.GraphModule:
    """The graph in the floats that the strategy names."""
    if strategy.precision:
        return cast_graph(graph, inputs, strategy.precision)
    if strategy.regions:
        return cast_regions(graph, inputs, dict(strategy.regions))
    return graph


def compile_graph(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    strategy: Strategy,
    *,
    freezing: bool = False,
) -> Any:
    """What Inductor makes of the graph, and of its gradients where they are needed."""
    options: dict[str, Any] = {"max_autotune": True} if strategy.autotune else {}
    if freezing:
        options["freezing"] = True
    # Compiled inside Dynamo's own compilation, whose lock is held: Inductor takes one program at a time.
    sizes = _FixedSizes(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    context = TracingContext(sizes)
    try:
        with torch._guards.tracing(context):
            if strategy.tf32:
                return compile_with_tf32(graph, list(inputs), options)
            return compile_fx(graph, list(inputs), config_patches=options)
    finally:
        context.tensor_to_context.clear()
        sizes.forget_tensors()


def at_precision_that_runs(
    strategy: Strategy,
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    state: GraphStatus,
    build: Callable[[fx.GraphModule, Strategy], Any],
) -> None:
    """Builds the program of the graph in the floats that the strategy names, and calls what `build` returns once: only then a library
    says that it has no kernel for them. What cannot be traced, compiled or called keeps its precision.
    """
    if not strategy.precision and not strategy.regions:
        build(graph, strategy)
        return
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        # What it draws, the first call draws.
        with torch.random.fork_rng(devices), torch._guards.tracing(None):
            build(at_precision(graph, inputs, strategy), strategy)()
    except Exception as error:
        first = (str(error) or "no message").splitlines()[0]
        part = "precision" if strategy.precision else "regions"
        state.leave_out(part, f"{type(error).__name__}: {first}")
        state.strategy = replace(strategy, precision=None, regions=())
        state.held_bytes = 0
        build(graph, state.strategy)


class Recorder(threading.local):
    """What programs ran in this thread, while somebody asks."""

    runs: "list[tuple[Program, Sequence[Any], Any]] | None" = None


recorder = Recorder()


def picker(positions: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What picks these positions of a sequence, as a sequence."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda values: [values[position] for position in positions]


class Generation:
    """What was made of one set of weights at one time, and the graph that was captured with it.

    A program may be that of several equal modules: each has its weights, and its generation.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        # What the prologue made, and the weights that the program takes as they are.
        self.made: tuple[torch.Tensor, ...] = ()
        self.held: tuple[torch.Tensor, ...] = ()
        # Whether these are the weights that are constants of the frozen program.
        self.frozen = False
        # A checksum says that a weight was written to.
        self.stale = False
        self.sums: list[torch.Tensor] | None = None
        self.calls = 0
        self.captured: CapturedGraph | None = None
        self.tried = False
        # On a GPU: that all of it is made, and the streams that have waited for that.
        self.ready: Any = None
        self.streams: set[int] = set()

    def order(self, device: torch.device) -> None:
        """Has the current stream wait until all is made, and tells the allocator that it is used there."""
        stream = torch.cuda.current_stream(device)
        stream.wait_event(self.ready)
        for value in self.held:
            value.record_stream(stream)


class Program:
    """A rewritten graph, compiled, with what its prologue made of the weights.

    That is made again, and nothing is compiled again, when a weight is another tensor, has been written to, or an optimizer has
    made a step. For what tensors do not tell, see refresh() and check_weights_every().
    """

    # Generations of weights that are alive: those of equal modules that were compiled one by one.
    most_generations = 32

    def __init__(
        self, graph: fx.GraphModule, inputs: Sequence[Any], weights: list[int], state: GraphStatus
    ) -> None:
        self.state = state
        self.origin = Origin()
        self.lock = threading.RLock()

        def build(graph: fx.GraphModule, strategy: Strategy) -> Callable[[], Any]:
            self._build(graph, inputs, weights, strategy)
            return lambda: self._function(self.generations[0])(*self.pick_data(inputs))

        strategy = choose(STRATEGY, graph, inputs, state)
        at_precision_that_runs(strategy, graph, inputs, state, build)

    def _build(
        self,
        graph: fx.GraphModule,
        inputs: Sequence[Any],
        weights: list[int],
        strategy: Strategy,
    ) -> None:
        """Compiles the graph, with what its prologue makes of the weights."""
        self.strategy = strategy
        self.written = written_inputs(graph)
        # Tensors of inference mode have no versions, so nothing is made of them.
        keeps = self.strategy.prologue or self.strategy.freeze or self.strategy.cuda_graph
        self.weights = [
            i for i in weights if keeps and i not in self.written and not inputs[i].is_inference()
        ]
        read = self.weights if self.strategy.freeze else prologue_inputs(graph, self.weights)
        if not self.strategy.cuda_graph:
            # The others are handed over in each call, like all that is not a weight.
            self.weights = read
        self.stopping = what_may_stop(
            graph, set(range(len(inputs))) - set(weights), nodes_of_each_run(graph, self.weights)
        )
        self.data = [i for i in range(len(inputs)) if i not in set(self.weights)]
        self.pick_weights, self.pick_data = picker(self.weights), picker(self.data)
        self.pick_read = picker(read)
        self.prologue, self.main, constants = split_prologue(graph, self.weights)
        self.pick_constants = picker(constants)
        self.copied = made_of_weights(graph, self.weights)
        devices = {value.device for value in inputs if value.is_cuda}
        self.device = devices.pop() if len(devices) == 1 else None
        self.frozen: Any = None
        self.compiled: Any = None
        self.generations: list[Generation] = []
        generation = self._make(inputs, None)
        data = self.pick_data(inputs)
        if self.strategy.freeze and self.weights:
            # Constants of the program: it takes them as they were, and a refresh needs the other one.
            constant = with_constants(self.main, generation.held)
            self.frozen = compile_graph(constant, data, self.strategy, freezing=True)
            forget_values(constant)
            self.main = split_prologue(graph, self.weights)[1]
            generation.frozen = True
            generation.sums = self._sums(inputs)
            self.state.held_bytes += sum(value.nbytes for value in generation.held)
            generation.made = generation.held = ()
            if self.device is not None:
                # Calls on other streams find the constants made.
                torch.cuda.synchronize(self.device)
        else:
            self.compiled = compile_graph(self.main, [*generation.held, *data], self.strategy)
        self.generations = [generation]
        # What is made and compiled later is traced anew.
        for made in (graph, self.prologue, self.main):
            if made is not None:
                forget_values(made)

    def _sums(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        return [checksum_of(value) for value in self.pick_read(inputs)]

    def _make(self, inputs: Sequence[Any], old: Generation | None) -> Generation:
        """What the weights give now. `old` is what the same tensors gave before, whose captured graph goes on where it can."""
        # They are looked at before anything is made of them: a write from now on is one more change.
        values = self.pick_weights(inputs)
        generation = Generation(Weights(values, self.pick_read(inputs)))
        captured = old.captured if old is not None and not old.frozen else None
        if old is not None and captured is not None:
            # The captured graph reads weights where they were.
            if old.weights.addresses != generation.weights.addresses:
                captured = None
            else:
                captured.wait()
        with torch.no_grad():
            if self.prologue is not None:
                made = self.prologue(*[value.detach() for value in values])
                if old is not None and captured is not None:
                    # It reads these where they lie.
                    generation.made = old.made
                    if made:
                        foreach_copy_(list(old.made), list(made))
                else:
                    put_together(self.main, made)
                    generation.made = tuple(made)
            held = [value.detach() for value in self.pick_constants(inputs)]
            generation.held = (*generation.made, *held)
        if captured is not None:
            captured.mark()
            generation.captured, generation.tried = captured, True
        if self.device is not None and generation.made:
            stream = torch.cuda.current_stream(self.device)
            generation.ready = stream.record_event()
            generation.streams = {stream.cuda_stream}
        return generation

    def _current(self, inputs: Sequence[Any]) -> Generation:
        """The generation for these weights as they are, made where there is none."""
        if not self.weights:
            return self.generations[0]
        values, read = self.pick_weights(inputs), self.pick_read(inputs)
        for generation in self.generations:
            if generation.weights.are(values):
                if not generation.stale and generation.weights.are_unchanged(values, read):
                    if not weight_watch.checked_every or self._is_as_checked(generation, inputs):
                        return generation
                break
        with self.lock:
            return self._renew(inputs)

    def _is_as_checked(self, generation: Generation, inputs: Sequence[Any]) -> bool:
        """The comparison that check_weights_every() asks for."""
        generation.calls += 1
        if generation.sums is not None and generation.calls % weight_watch.checked_every:
            return True
        sums = self._sums(inputs)
        same = generation.sums is not None and all(
            bool(old == new) for old, new in zip(generation.sums, sums, strict=True)
        )
        if not same:
            generation.stale = True
        return same

    def _renew(self, inputs: Sequence[Any]) -> Generation:
        """Makes again what was made of the weights. Calls in other threads go on with what there was until all is done."""
        values, read = self.pick_weights(inputs), self.pick_read(inputs)
        old: Generation | None = None
        for generation in self.generations:
            if generation.weights.are(values):
                if not generation.stale and generation.weights.are_unchanged(values, read):
                    return generation
                old = generation
        new = self._make(inputs, old)
        if weight_watch.checked_every:
            new.sums = self._sums(inputs)
        if self.compiled is None:
            # Changed once, they are weights in training, or of a model that is loaded anew: no longer constants.
            with _compile_lock:
                data = self.pick_data(inputs)
                self.compiled = compile_graph(self.main, [*new.held, *data], self.strategy)
        kept = [g for g in self.generations if g is not old and g.weights.alive]
        self.generations = [new, *kept[: self.most_generations - 1]]
        if not any(generation.frozen for generation in self.generations):
            self.frozen = None
        self.state.refreshes += 1
        self.state.held_bytes = sum(v.nbytes for g in self.generations for v in g.made)
        return new

    def __call__(self, *inputs: Any) -> Any:
        self.state.calls += 1
        if self.strategy.cuda_graph:
            # The buffers of captured graphs are shared by all calls, so they take turns.
            with self.lock:
                results = self.run(self._current(inputs), self.pick_data(inputs))
        else:
            results = self.run(self._current(inputs), self.pick_data(inputs))
        if recorder.runs is not None:
            recorder.runs.append((self, inputs, results))
        return results

    def run(self, generation: Generation, data: Sequence[Any]) -> list[Any]:
        """One call with what was made of weights that are known to be as they were then."""
        if generation.ready is not None and generation.captured is None:
            assert self.device is not None
            stream = torch._C._cuda_getCurrentRawStream(self.device.index)
            if stream not in generation.streams:
                generation.order(self.device)
                generation.streams.add(stream)
        if self.strategy.cuda_graph:
            captured = generation.captured or self._capture(generation, data)
            if captured is not None:
                return captured(data)
        results = list(self._function(generation)(*data))
        replace_by_copies(results, self.copied)
        return results

    def _function(self, generation: Generation) -> Callable[..., Any]:
        """The compiled program for these weights, as a function of the data."""
        frozen = self.frozen
        if generation.frozen and frozen is not None:
            return frozen
        held, compiled = generation.held, self.compiled
        return lambda *data: compiled(*held, *data)

    def _capture(self, generation: Generation, data: Sequence[Any]) -> CapturedGraph | None:
        """The program as a CUDA graph, tried once for a generation."""
        if generation.tried:
            return None
        generation.tried = True
        try:
            generation.captured = CapturedGraph(
                self._function(generation), data, self.device, self.copied
            )
        except Exception as error:
            first = (str(error) or "no message").splitlines()[0]
            self.state.leave_out("cuda_graph", f"{type(error).__name__}: {first}")
        return generation.captured
