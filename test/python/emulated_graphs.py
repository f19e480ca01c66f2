"""CUDA graphs as a CPU can have them: a replay computes into the memory of the first results, and reads where it read then."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from programs import import_program

from opprof.backend.emit import emit


def backend_with(strategy: dict[str, Any], file: Path, emulated: bool = True) -> ModuleType:
    """A backend without rewrites, emitted to `file`, that compiles by a strategy; its CUDA graphs are emulated but where there is a GPU for them."""
    backend = import_program(emit([], file)[0])
    backend.STRATEGY = backend.Strategy(**strategy)
    if emulated and backend.STRATEGY.cuda_graph:
        emulate(backend)
    return backend


def emulate(backend: ModuleType) -> None:
    """Lets an emitted backend capture what runs on a CPU."""

    class Emulated(backend.CapturedGraph):  # type: ignore[name-defined,misc]
        copied_in = 0

        def _on_device(self) -> Any:
            return contextlib.nullcontext()

        def _prepare(self, inputs: Sequence[torch.Tensor]) -> None:
            self._copy_in(inputs)

        def _affords_another(self) -> bool:
            return True

        def _record(self, inputs: Sequence[torch.Tensor], addresses: tuple[int, ...] | None) -> Any:
            # As tensors of their own: a caller may give the memory back.
            inputs = [value.detach() for value in inputs]
            outputs = list(self.function(*inputs))

            def replay() -> None:
                for own, value in zip(outputs, self.function(*inputs), strict=True):
                    if isinstance(own, torch.Tensor) and own is not value:
                        once = tuple(slice(None if step else 1) for step in own.stride())
                        own[once].copy_(value[once])

            return backend.Recording(replay, outputs, addresses)

        def _copy_in(self, inputs: Sequence[torch.Tensor]) -> None:
            type(self).copied_in += 1
            super()._copy_in(inputs)

        def __call__(self, inputs: Sequence[torch.Tensor], may_record: Any = None) -> list[Any]:
            return self._call(inputs, 0, may_record)  # type: ignore[no-any-return]

        def wait(self) -> None:
            pass

        def _order(self, recording: Any, raw: int) -> None:
            pass

        def mark(self) -> None:
            pass

    backend.CapturedGraph = Emulated
    backend.why_not_capture = lambda graph, inputs: (
        "the graph writes its inputs"
        if backend.written_inputs(graph)
        else backend.why_not_freeze(graph)
    )
