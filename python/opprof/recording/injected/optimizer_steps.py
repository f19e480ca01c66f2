"""Counts the steps of a program by its optimizers, and tells those who wait for one. Nothing of opprof can be imported here."""

import contextlib
import importlib
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any


class OptimizerSteps:
    """Calls `before` and `after` round each step of an optimizer, and `ended` with how many steps of the program have ended when one
    has: the same that the observer counts for --steps. Not where Dynamo reads the program.
    """

    def __init__(self, torch: ModuleType, observer: Any, frames: ModuleType) -> None:
        """`frames` is step_graph.py, which knows whose a frame is."""
        self.torch, self.observer, self.frames = torch, observer, frames
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.ended: list[Callable[[int], None]] = []
        self.places: dict[tuple[str, int], int] = {}
        frames.hide_files(os.path.dirname(str(torch.__file__)))
        optimizer = importlib.import_module("torch.optim.optimizer")
        self.handles = [
            optimizer.register_optimizer_step_pre_hook(self._before_step),
            optimizer.register_optimizer_step_post_hook(self._after_step),
        ]

    def _before_step(self, *_: object) -> None:
        for call in self.before:
            call()

    def _after_step(self, optimizer: Any, *_: object) -> None:
        if self.torch.compiler.is_compiling():
            return
        with contextlib.suppress(Exception):
            place = self.places.setdefault(self.frames.user_place(), len(self.places))
            name = f"Optimizer.step#{type(optimizer).__name__}.step"
            count = self.observer.opprof_observer_count_step(name.encode(), place)
            for after in self.after:
                after()
            for ended in self.ended if count >= 0 else ():
                ended(count)
