"""Has the operators of one step of a program recorded as a graph by step_graph.py, which it is given: nothing of opprof can be
imported here.
"""

import contextlib
import os
import threading
import time
from types import ModuleType
from typing import Any


class GraphedSteps:
    """Has a StepGraph begin and end with the step that is asked for.

    A program that never steps an optimizer has the calls of its outermost modules without gradients for steps.
    """

    def __init__(
        self,
        torch: ModuleType,
        observer: Any,
        step: int,
        files: dict[str, str],
        values: ModuleType,
        graphs: ModuleType,
    ) -> None:
        """`values` and `graphs` are export/graph_values.py and step_graph.py."""
        self.torch, self.observer, self.step = torch, observer, step
        self.files, self.values, self.graphs = files, values, graphs
        self.say = graphs.say
        self.graph: Any = None
        #: What the graph is of that is recorded: a "step" or a "call".
        self.kind = ""
        self.is_done = False
        self.calls = 0
        self.depth = threading.local()
        self.has_stepped = False
        self.has_told_of_modes = False
        self._count_calls()
        os.register_at_fork(after_in_child=self._forked)

    def compilation_begins(self) -> None:
        """Dynamo is to see modules as they are."""
        self._stop_counting_calls()
        if self.graph is not None and self.graph.is_on:
            self.graph.pause()

    def compilation_ended(self) -> None:
        if self.graph is not None and self.graph.is_on:
            self.graph.follow_compiled()
            self.graph.resume()
        elif self.graph is None and not self.has_stepped and not self.is_done:
            kind = self.torch.nn.Module
            # The program may have put its own there, round this one or round the original.
            if kind.__call__ is self.original:
                kind.__call__ = self.counting

    def _forked(self) -> None:
        """The step is the parent's."""
        self.is_done = True
        if self.graph is not None:
            self.graph.is_on = False

    def optimizer_begins(self) -> None:
        if self.graph is not None:
            self.graph.in_optimizer = True

    def optimizer_ended(self) -> None:
        if self.graph is not None:
            self.graph.in_optimizer = False

    def step_ended(self, count: int) -> None:
        if self.is_done:
            return
        if not self.has_stepped:
            self.has_stepped = True
            self._stop_counting_calls()
        if self.graph is not None and self.kind == "call":
            # Of another thread, which ends it: the next step is recorded in its place.
            self.step = max(self.step, count + 1)
        elif self.graph is not None and count > self.step:
            self.finish()
        elif self.graph is None and count == self.step:
            self._start("step")

    def _start(self, kind: str) -> None:
        if self.torch._C._len_torch_dispatch_stack():
            # Whatever it is for, a mode that is entered in another order than it is left breaks the program.
            if not self.has_told_of_modes:
                self.say("the program has a dispatch mode of its own on: no graph of such a step")
            self.has_told_of_modes = True
            self.step += 1
            return
        self.kind = kind
        self.graph = self.graphs.StepGraph(self.torch, self.values, self.files, self.step, kind)
        try:
            self.graph.start()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """The program goes on as it would without; so it does where taking away what there was fails."""
        graph, self.graph, self.is_done = self.graph, None, True
        self.say(f"no graph is recorded: {type(error).__name__}: {error}")
        if graph is not None:
            with contextlib.suppress(Exception):
                graph.stop()

    def finish(self, *, ended: bool = True) -> None:
        """Ends the step, and writes it."""
        graph = self.graph
        if graph is not None:
            try:
                graph.stop()
                graph.write(is_whole=ended)
                # By which reports know the step that was slowed down: lib/Join/RecurringSteps.cpp.
                self.observer.opprof_observer_note(b"graph recorded", time.monotonic_ns())
            except Exception as error:
                self._give_up(error)
        self.graph = None
        self.is_done = self.is_done or (self.has_stepped and self.kind == "step") or not ended

    def leave(self) -> None:
        """At the end of the process."""
        if self.is_done:
            return
        was_recording = self.graph is not None
        self._stop_counting_calls()
        self.finish(ended=False)
        if was_recording:
            self.say(
                "the program ended in the step whose graph was recorded: the graph has what ran"
            )
        elif self.has_stepped:
            self.say(f"the program did not get to step {self.step}: there is no graph of it")
        # One like torchrun calls none at all.
        elif 0 < self.calls <= self.step:
            self.say(
                f"the program stepped no optimizer and called modules without gradients {self.calls} times: there is no graph, "
                f"which is of call {self.step} then"
            )

    def _count_calls(self) -> None:
        kind = self.torch.nn.Module
        self.original = original = kind.__call__
        depth = self.depth

        def call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            if getattr(depth, "value", 0) or self.torch.is_grad_enabled():
                return original(module, *args, **kwargs)
            depth.value = 1
            try:
                return self._outermost(module, args, kwargs)
            finally:
                depth.value = 0

        self.counting = call
        kind.__call__ = call

    def _stop_counting_calls(self) -> None:
        kind = self.torch.nn.Module
        if kind.__call__ is self.counting:
            kind.__call__ = self.original

    def _outermost(self, module: Any, args: Any, kwargs: Any) -> Any:
        self.calls += 1
        is_the_one = self.calls == self.step + 1 and not self.has_stepped and self.graph is None
        if self.is_done or not is_the_one:
            return self.original(module, *args, **kwargs)
        kind = self.torch.nn.Module
        self._stop_counting_calls()
        self._start("call")
        try:
            return kind.__call__(module, *args, **kwargs)
        finally:
            # A program that trains later has a step that is worth more.
            self.finish()
            if not self.has_stepped and kind.__call__ is self.original:
                kind.__call__ = self.counting
