"""CUDA graphs: a compiled program captured once and replayed."""

import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from opprof.backend.emitted.effects import written_inputs
from opprof.backend.emitted.graphs import draws_numbers
from opprof.backend.emitted.prologue import why_not_freeze
from opprof.backend.emitted.weights import foreach_copy_

# Captures of graphs, one at a time.
_capture_lock = threading.RLock()

# How many references there are to a storage, by its address.
_references_to: Callable[[int], int] = torch._C._storage_Use_Count


def why_not_capture(graph: fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    """Why the graph cannot be captured and replayed, if it cannot."""
    if not inputs or not all(value.is_cuda for value in inputs):
        return "its inputs are not on a GPU"
    if len({value.device for value in inputs}) > 1:
        return "its inputs are on several GPUs"
    if any(type(value) not in (torch.Tensor, torch.nn.Parameter) for value in inputs) or any(
        value.layout != torch.strided for value in inputs
    ):
        return "an input is no plain tensor"
    if written_inputs(graph):
        return "the graph writes its inputs"
    if any(draws_numbers(node) for node in graph.graph.nodes):
        return "the graph draws random numbers"
    return why_not_freeze(graph)


def warm_up_on(stream: torch.cuda.Stream, function: Callable[[], Any], runs: int) -> None:
    """Runs a function on a stream, after what the current one does, which goes on after it."""
    current = torch.cuda.current_stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        for _ in range(runs):
            function()
    current.wait_stream(stream)


def capture_on(
    stream: torch.cuda.Stream, function: Callable[[], Any]
) -> tuple[torch.cuda.CUDAGraph, Any]:
    """What a function does as a CUDA graph, and its results, which each replay writes anew. It has run on the stream before."""
    graph = torch.cuda.CUDAGraph()
    current = torch.cuda.current_stream()
    # PyTorch keeps a workspace for the products of each stream, which others give back at any time, as mode="reduce-overhead" does when it
    # compiles: replays would write into memory that is somebody else's. One that is made within the capture is the graph's own, and no
    # later product on the same stream is to have it.
    torch._C._cuda_clearCublasWorkspaces()
    try:
        # Other threads may allocate and synchronize meanwhile.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            results = function()
    finally:
        # A capture that fails leaves this thread on the stream that it was captured on.
        torch.cuda.set_stream(current)
        torch._C._cuda_clearCublasWorkspaces()
    return graph, results


@dataclass
class Recording:
    """One capture of a program: each replay writes the same outputs."""

    replay: Callable[[], None]
    outputs: list[Any]
    # Where the tensors of a caller lie that it reads; None where it reads buffers of its own.
    addresses: tuple[int, ...] | None

    def __post_init__(self) -> None:
        self._tensors = [value for value in self.outputs if isinstance(value, torch.Tensor)]
        self._storages = [value.untyped_storage() for value in self._tensors]
        self._keys = [storage._cdata for storage in self._storages]
        self._references = list(map(_references_to, self._keys))
        # There is one object of Python's of a storage, which a caller may keep without a tensor.
        self._holders = list(map(sys.getrefcount, self._storages))
        self._places = list(map(torch.Tensor.data_ptr, self._tensors))
        # Where its results were handed out last.
        self.stream: torch.cuda.Stream | None = None
        self.raw_stream = -1

    def is_free(self) -> bool:
        """True where nobody holds a result that was handed out, nor a view of one."""
        return (
            list(map(_references_to, self._keys)) == self._references
            and list(map(sys.getrefcount, self._storages)) == self._holders
        )

    def is_whole(self) -> bool:
        """True where the results lie where replays write them: a caller may have given a storage another size."""
        return list(map(torch.Tensor.data_ptr, self._tensors)) == self._places


class CapturedGraph:
    """A function on CUDA tensors, captured as CUDA graphs; a call copies its inputs in, replays, and gives the results.

    Its caller lets one call in at a time. Streams may differ from call to call.
    """

    # Recordings whose results are handed out as they lie, for each way to read inputs: one is replayed while a caller still holds
    # the results of the other, as in `y = model(x)` of a loop.
    most_handed_out = 2

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[torch.Tensor],
        device: torch.device,
        copied: Sequence[int] = (),
    ) -> None:
        # The graph reads what the function holds, for as long as it is replayed.
        self.function = function
        self.device = device
        # Results that are never handed out as they lie, because no replay writes them.
        self.copied = copied
        self.inputs = [_buffer_like(value) for value in inputs]
        self.targets = [_once(value) for value in self.inputs]
        self.repeating = [i for i, value in enumerate(inputs) if 0 in value.stride()]
        self.last: tuple[int, ...] | None = None
        self.stream = 0
        # Bytes that a recording takes.
        self.memory = 0
        # Which threads have run the function.
        self.warm = threading.local()
        with self._on_device():
            self._prepare(inputs)
            # Its results are always copied, so that it can be replayed whatever callers hold.
            self.recordings = [self._record(self.inputs, None)]
            self.mark()

    def _on_device(self) -> contextlib.AbstractContextManager[Any]:
        return torch.cuda.device(self.device)

    def _prepare(self, inputs: Sequence[torch.Tensor]) -> None:
        """Makes what all recordings share."""
        self.done = torch.cuda.Event()
        self._copy_in(inputs)
        # One of this device, where torch.cuda.graph would take one of the first device that it was used on.
        self.side = torch.cuda.Stream()
        self._warm_up(3)

    def _warm_up(self, runs: int) -> None:
        """Runs the function before it is captured: Triton loads kernels in the first calls, and libraries allocate workspaces, and make
        handles for each thread, which a capture does not allow.
        """
        warm_up_on(self.side, lambda: self.function(*self.inputs), runs)
        self.warm.up = True

    def _record(
        self, inputs: Sequence[torch.Tensor], addresses: tuple[int, ...] | None
    ) -> Recording:
        """Captures the function. Each recording has memory of its own: results of one may be held while another is replayed."""
        with _capture_lock:
            if not hasattr(self.warm, "up"):
                self._warm_up(1)
            torch.cuda.synchronize()
            before = torch.cuda.memory_reserved()
            graph, results = capture_on(self.side, lambda: self.function(*inputs))
            self.memory = max(self.memory, torch.cuda.memory_reserved() - before)
        return Recording(graph.replay, list(results), addresses)

    def wait(self) -> None:
        """Has the current stream wait for the call before, if that was on another one."""
        if torch._C._cuda_getCurrentRawStream(self.device.index) != self.stream:
            torch.cuda.current_stream(self.device).wait_event(self.done)

    def _order(self, recording: Recording, raw: int) -> None:
        """Lets the current stream, `raw`, come after what was begun with results that were handed out on another one and dropped since."""
        current = torch.cuda.current_stream(self.device)
        if recording.stream is not None:
            current.wait_stream(recording.stream)
        recording.stream, recording.raw_stream = current, raw

    def mark(self) -> None:
        """Lets later calls, on whatever stream, come after what the current stream does so far."""
        self.done.record(torch.cuda.current_stream(self.device))
        self.stream = torch._C._cuda_getCurrentRawStream(self.device.index)

    def _copy_in(self, inputs: Sequence[torch.Tensor]) -> None:
        sources = inputs
        if self.repeating:
            sources = list(inputs)
            for i in self.repeating:
                sources[i] = _once(sources[i])
        if len(sources) == 1:
            self.targets[0].copy_(sources[0])
        elif sources:
            foreach_copy_(self.targets, sources)

    def __call__(
        self, inputs: Sequence[torch.Tensor], may_record: Callable[[], bool] | None = None
    ) -> list[Any]:
        """One call. With `may_record`, results are not copied where the caller has dropped those of an earlier call, and it is asked
        before the function is captured once more for that.
        """
        # What comes before the replay is waited for in a step that waits: no context is made where none is needed.
        index = self.device.index
        if torch._C._cuda_getDevice() == index:
            return self._call(inputs, torch._C._cuda_getCurrentRawStream(index), may_record)
        with self._on_device():
            return self._call(inputs, torch._C._cuda_getCurrentRawStream(index), may_record)

    def _call(
        self, inputs: Sequence[torch.Tensor], raw: int, may_record: Callable[[], bool] | None
    ) -> list[Any]:
        """One call on the device's stream `raw`, which is the current one."""
        if raw != self.stream:
            self.wait()
        recording = self.recordings[0] if may_record is None else self._choose(inputs, may_record)
        if raw != recording.raw_stream and recording is not self.recordings[0]:
            self._order(recording, raw)
        if recording.addresses is None:
            self._copy_in(inputs)
        recording.replay()
        if recording is self.recordings[0]:
            results = _copies(recording.outputs)
        else:
            results = [value.detach() for value in recording.outputs]
            replace_by_copies(results, self.copied)
        self.mark()
        return results

    def _choose(self, inputs: Sequence[torch.Tensor], may_record: Callable[[], bool]) -> Recording:
        """A recording whose results nobody holds, if there is one: best one that reads the inputs where they lie."""
        addresses = tuple(map(torch.Tensor.data_ptr, inputs))
        direct = addresses == self.last
        self.last = addresses
        free = self._free_one(addresses) or (None if direct else self._free_one(None))
        if free is not None:
            return free
        own = [recording for recording in self.recordings[1:] if recording.addresses is None]
        others = len(self.recordings) - len(own) - 1
        wanted = (others if direct else len(own)) < self.most_handed_out
        if wanted and self._affords_another() and may_record():
            try:
                # A caller's tensors are read at each replay as by any kernel: they are there, because the caller gives them again.
                another = self._record(*((inputs, addresses) if direct else (self.inputs, None)))
                self.recordings.append(another)
                return another
            except RuntimeError:
                self.most_handed_out = 0
        return self._free_one(None) or self.recordings[0]

    def _free_one(self, addresses: tuple[int, ...] | None) -> Recording | None:
        """A recording that reads there, or in buffers of its own, whose results nobody holds."""
        for recording in self.recordings[1:]:
            if recording.addresses == addresses and recording.is_free():
                if recording.is_whole():
                    return recording
                self.recordings.remove(recording)
        return None

    def _affords_another(self) -> bool:
        """Whether another recording would leave most of the free memory to others."""
        return 4 * self.memory < torch.cuda.mem_get_info(self.device)[0]


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


def replace_by_copies(results: list[Any], positions: Sequence[int]) -> None:
    """Puts copies in the place of some results, with their strides; those that share storage share it again."""
    if len(positions) == 1 and 0 not in results[positions[0]].stride():
        results[positions[0]] = results[positions[0]].clone()
    elif positions:
        copies = _copies([results[position] for position in positions])
        for position, value in zip(positions, copies, strict=True):
            results[position] = value


def _copies(values: Sequence[Any]) -> list[Any]:
    """Copies with the strides of the originals; those that share storage share it again."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    storages = {value.untyped_storage().data_ptr(): value.untyped_storage() for value in tensors}
    copies = {key: _bytes_of(storage) for key, storage in storages.items()}
    if copies:
        targets = [torch.empty_like(source) for source in copies.values()]
        foreach_copy_(targets, list(copies.values()))
        copies = dict(zip(copies, targets, strict=True))
    return [
        _same_part(value, copies[value.untyped_storage().data_ptr()].untyped_storage())
        if isinstance(value, torch.Tensor)
        else value
        for value in values
    ]


def _same_part(value: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """What the value is of its own storage, of another one: a part of it, maybe conjugated or negated when it is read."""
    result = torch.empty(0, dtype=value.dtype, device=value.device).set_(
        storage, value.storage_offset(), value.shape, value.stride()
    )
    result = result.conj() if value.is_conj() else result
    return torch._neg_view(result) if value.is_neg() else result


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
