"""CUDA graphs: a compiled program captured once and replayed."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from opprof.backend.emitted.effects import written_inputs
from opprof.backend.emitted.graphs import draws_numbers
from opprof.backend.emitted.prologue import why_not_freeze

# Captures of graphs, one at a time.
_capture_lock = threading.RLock()


class CapturedGraph:
    """A function on CUDA tensors, captured once as a CUDA graph; a call copies its inputs in, replays, and copies out.

    Its caller lets one call in at a time. Streams may differ from call to call.
    """

    def __init__(self, function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> None:
        # The graph reads what the function holds, for as long as it is replayed.
        self.function = function
        self.inputs = [_buffer_like(value) for value in inputs]
        self.targets = [_once(value) for value in self.inputs]
        self.device = torch.cuda.current_device()
        for target, value in zip(self.targets, inputs, strict=True):
            target.copy_(_once(value))
        self.done = torch.cuda.Event()
        with _capture_lock:
            current = torch.cuda.current_stream()
            side = torch.cuda.Stream()
            side.wait_stream(current)
            # Libraries allocate workspaces and Triton loads kernels in the first calls, which a capture must not see.
            with torch.cuda.stream(side):
                for _ in range(3):
                    function(*self.inputs)
            current.wait_stream(side)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            # Other threads may allocate and synchronize meanwhile.
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self.outputs = list(function(*self.inputs))
        self.mark()

    def wait(self) -> None:
        """Has the current stream wait for the call before, whatever stream that was on."""
        torch.cuda.current_stream(self.device).wait_event(self.done)

    def mark(self) -> None:
        self.done.record(torch.cuda.current_stream(self.device))

    def __call__(self, *inputs: torch.Tensor) -> Any:
        with torch.cuda.device(self.device):
            self.wait()
            if self.inputs:
                torch._foreach_copy_(self.targets, [_once(value) for value in inputs])
            self.graph.replay()
            results = _copies(self.outputs)
            self.mark()
        return results


def _buffer_like(value: torch.Tensor) -> torch.Tensor:
    """An uninitialized tensor of the same sizes and strides."""
    extent = sum(
        (size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)
    )
    storage = torch.empty(
        extent + 1 if value.numel() else 0, dtype=value.dtype, device=value.device
    )
    return storage.as_strided(value.shape, value.stride())


def _once(value: torch.Tensor) -> torch.Tensor:
    """The tensor without the repetitions of an expanded one, so that it can be written to."""
    if 0 not in value.stride():
        return value.detach()
    sizes = [
        1 if stride == 0 else size for size, stride in zip(value.shape, value.stride(), strict=True)
    ]
    return value.detach().as_strided(sizes, value.stride())


def _copies(values: Sequence[Any]) -> list[Any]:
    """Copies with the strides of the originals; those that share storage share it again."""
    storages: dict[int, torch.UntypedStorage] = {}
    results: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            own = value.untyped_storage()
            if own.data_ptr() not in storages:
                storages[own.data_ptr()] = own.clone()
            copy = torch.empty(0, dtype=value.dtype, device=value.device)
            value = copy.set_(
                storages[own.data_ptr()], value.storage_offset(), value.shape, value.stride()
            )
        results.append(value)
    return results


def why_not_capture(graph: fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    if not inputs or not all(value.is_cuda for value in inputs):
        return "its inputs are not on a GPU"
    if len({value.device for value in inputs}) > 1:
        return "its inputs are on several GPUs"
    if inputs[0].device.index != torch.cuda.current_device():
        return "its GPU is not the current one"
    if any(type(value) not in (torch.Tensor, torch.nn.Parameter) for value in inputs) or any(
        value.layout != torch.strided for value in inputs
    ):
        return "an input is no plain tensor"
    if written_inputs(graph):
        return "the graph writes its inputs"
    if any(draws_numbers(node) for node in graph.graph.nodes):
        return "the graph draws random numbers"
    return why_not_freeze(graph)
