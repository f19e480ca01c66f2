"""Weights: what is noticed of their changes."""

import functools
import gc
import inspect
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


@dataclass
class WeightWatch:
    """What is asked of weights besides their identity, address and version."""

    # Changes that no tensor tells of: each step of an optimizer (fused ones write weights and leave their versions), each refresh().
    changes: int = 0
    checked_every: int = 0


weight_watch = WeightWatch()


def refresh() -> None:
    """Has everything that was made of weights made again in the next call: for writes that tensors do not tell of.

    These are writes through `weight.data`, through NumPy arrays and DLPack, and by code that is not PyTorch's.
    """
    weight_watch.changes += 1


def check_weights_every(calls: int) -> None:
    """Lets each program compare a checksum of its weights in every `calls`-th call, and refresh where it differs; 0 stops that.

    It sees every write, at the latest that many calls after it. It reads all weights, and waits for the device.
    """
    weight_watch.checked_every = calls


class OptimizerSteps(threading.local):
    """Whether an optimizer is at a step in this thread."""

    running = False


_optimizer_steps = OptimizerSteps()


def _note_step_begin(*_: Any) -> None:
    _optimizer_steps.running = True


def _note_step(*_: Any) -> None:
    _optimizer_steps.running = False
    refresh()


register_optimizer_step_pre_hook(_note_step_begin)
register_optimizer_step_post_hook(_note_step)


# Elements of a checksum that are computed at a time, so that the memory for it does not grow with the weights.
_CHUNK = 1 << 20


def checksum_of(value: torch.Tensor) -> torch.Tensor:
    """A number that differs where one element does, and almost certainly where several do."""
    data = value.detach().contiguous().reshape(-1).view(torch.uint8)
    aligned = data.numel() % 8 == 0 and data.data_ptr() % 8 == 0
    words = data.view(torch.int64) if aligned else data
    total = torch.zeros((), dtype=torch.int64, device=value.device)
    for start in range(0, words.numel(), _CHUNK):
        part = words[start : start + _CHUNK]
        places = torch.arange(start, start + part.numel(), device=value.device) * 2 + 1
        total += (part * places).sum()
    return total


_version: Callable[[torch.Tensor], int] = attrgetter("_version")
_address = torch.Tensor.data_ptr


class Weights:
    """Weights as they were when something was made of them.

    Their storages are held, so nothing else can be at their addresses; they themselves are not, so that a model can be dropped.
    """

    def __init__(self, values: Sequence[torch.Tensor], read: Sequence[torch.Tensor]) -> None:
        """`read` are those whose elements something was made of: of the others it is enough that they are where they were."""
        self.changes = weight_watch.changes
        self.alive = True
        self._ids = tuple(map(id, values))
        self._references = [weakref.ref(value, self._forget) for value in values]
        # An alias holds the storage also where another is put under the weight (`weight.data = …`).
        self._aliases = [value.detach() for value in values]
        self.addresses = list(map(_address, values))
        # Versions only grow, so that no sum is that of other versions.
        self.versions = sum(map(_version, read))
        self._forms = _forms_of(values)
        self._storages = _storages_of(read)
        _held.add(self)

    def _forget(self, _: Any) -> None:
        self.alive = False

    def let_go(self, tensors: Sequence[Any]) -> None:
        """Gives up on these weights where one of the tensors is about to be another under the same name."""
        if not {id(tensor) for tensor in tensors}.isdisjoint(self._ids):
            self.alive, self._references = False, []

    def note_write(self, storages: set[int]) -> None:
        """Knows from now on that these were written, though no version tells of it."""
        if not storages.isdisjoint(self._storages):
            self.changes = -1

    def are(self, values: Sequence[torch.Tensor]) -> bool:
        """True for the same tensors of the same form, whatever was written to them: one that was given a view of its own data
        (`weight.data = weight.data.t()`) has its address and version, and the Dynamo of PyTorch 2.11 compiles nothing anew for it.
        """
        return (
            self.alive and self._ids == tuple(map(id, values)) and self._forms == _forms_of(values)
        )

    def are_unchanged(self, values: Sequence[torch.Tensor], read: Sequence[torch.Tensor]) -> bool:
        """True where nothing tells of a change to the same tensors."""
        return (
            self.alive
            and self.changes == weight_watch.changes
            and sum(map(_version, read)) == self.versions
            and list(map(_address, values)) == self.addresses
        )


_held: "weakref.WeakSet[Weights]" = weakref.WeakSet()


def _forms_of(values: Sequence[torch.Tensor]) -> list[tuple[Any, ...]]:
    return [(value.shape, value.stride()) for value in values]


def _storages_of(values: Iterable[torch.Tensor]) -> set[int]:
    return {value.untyped_storage().data_ptr() for value in values}


def _noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes the tensors of its first list: on a GPU those of PyTorch leave the versions as they are."""

    @functools.wraps(function)
    def write(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not torch.compiler.is_compiling() and _held:
            _note_write(args[0] if args else kwargs.get("self", ()))
        return result

    return write


def _note_write(values: Iterable[torch.Tensor]) -> None:
    if _optimizer_steps.running:
        # Of which a refresh comes in any case; nobody has to look through all weights for each of its functions.
        refresh()
        return
    try:
        storages = _storages_of(values)
    except (AttributeError, NotImplementedError, RuntimeError):
        # Tensors of a class of their own.
        refresh()
        return
    for weights in list(_held):
        weights.note_write(storages)


#: PyTorch's own, for what is no weight.
foreach_copy_: Callable[..., Any] = inspect.unwrap(torch._foreach_copy_)

for _name in dir(torch):
    if _name.startswith(("_foreach_", "_fused_")) and _name.endswith("_"):
        setattr(torch, _name, _noted(getattr(torch, _name)))


def _noting_statistics(function: Callable[..., Any], flag: str | None) -> Callable[..., Any]:
    """A normalization that renews the running statistics that it is given, which leaves their versions as they are.

    Whether it does is its sixth argument, `flag`, where there is one.
    """

    @functools.wraps(function)
    def normalize(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not torch.compiler.is_compiling() and _held:
            given = (*args[3:5], kwargs.get("running_mean"), kwargs.get("running_var"))
            renews = flag is None or (args[5] if len(args) > 5 else kwargs.get(flag))
            statistics = given if renews else ()
            own = [value for value in statistics if isinstance(value, torch.Tensor)]
            if own and not any(isinstance(value, FakeTensor) for value in own):
                _note_write(own)
        return result

    return normalize


for _name, _flag in (
    ("batch_norm", "training"),
    ("instance_norm", "use_input_stats"),
    ("batch_norm_gather_stats_with_counts", None),
):
    _own = _noting_statistics(getattr(torch, _name), _flag)
    # TorchScript knows operators by the functions that they are called by.
    torch.jit._builtins._register_builtin(_own, f"aten::{_name}")
    setattr(torch, _name, _own)


def _let_go_first(swap: Callable[..., None]) -> Callable[..., None]:
    """`torch.utils.swap_tensors`, by which modules are converted and loaded where PyTorch is told so, and those with weights of a class
    of their own always: it refuses tensors that somebody refers to weakly.
    """

    @functools.wraps(swap)
    def swap_what_nobody_holds(*tensors: Any) -> None:
        for weights in list(_held):
            weights.let_go(tensors)
        if any(map(weakref.getweakrefs, tensors)):
            # What knew them while they were traced is dropped, and may not have gone yet.
            gc.collect()
        swap(*tensors)

    return swap_what_nobody_holds


torch.utils.swap_tensors = _let_go_first(torch.utils.swap_tensors)
