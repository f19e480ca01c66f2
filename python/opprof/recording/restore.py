"""Puts a step's state back, so that a counter pass runs the same kernels on the same values. Needs PyTorch.

What is restored, what is not, and how tensors that a step changes are found is written down in docs/capture.md.
"""

from __future__ import annotations

import copy
import functools
import inspect
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

_DEPTH = 4


def _reachable(fn: Callable[..., Any]) -> Iterator[Any]:
    """The objects that a callable holds: its closure, defaults, bound self, arguments, and the globals it names."""
    if isinstance(fn, functools.partial):
        yield from fn.args
        yield from fn.keywords.values()
        yield from _reachable(fn.func)
        return
    if inspect.ismethod(fn):
        yield fn.__self__
        fn = fn.__func__
    if not inspect.isfunction(fn):
        yield fn
        return
    inner = inspect.unwrap(fn)
    for cell in (inner.__closure__ or ()) + (fn.__closure__ or ()):
        try:
            yield cell.cell_contents
        except ValueError:
            continue
    yield from inner.__defaults__ or ()
    yield from (inner.__kwdefaults__ or {}).values()
    for name in inner.__code__.co_names:
        if name in inner.__globals__:
            yield inner.__globals__[name]


class StepState:
    """The tensors and random states that a step can change."""

    def __init__(self, fn: Callable[..., Any], extra: Iterable[Any] = ()) -> None:
        self._tensors: dict[int, torch.Tensor] = {}
        self._parameters: dict[int, torch.nn.Parameter] = {}
        self._optimizers: dict[int, torch.optim.Optimizer] = {}
        self._seen: set[int] = set()
        self._roots = [*_reachable(fn), *extra]
        self._collect_all()
        self._versions = {key: t._version for key, t in self._tensors.items()}
        self._saved: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._grads: list[tuple[torch.nn.Parameter, torch.Tensor | None]] = []
        self._optimizer_scalars: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._random: dict[str, Any] = {}
        self.bytes = 0

    def _collect_all(self) -> None:
        self._seen.clear()
        for root in self._roots:
            self._collect(root, 0)

    def _collect(self, item: Any, depth: int) -> None:
        if item is None or depth > _DEPTH or id(item) in self._seen:
            return
        if isinstance(item, torch.Tensor):
            self._seen.add(id(item))
            self._tensors.setdefault(id(item), item)
            if isinstance(item, torch.nn.Parameter):
                self._parameters[id(item)] = item
                if item.grad is not None:
                    self._tensors.setdefault(id(item.grad), item.grad)
        elif isinstance(item, torch.nn.Module):
            self._seen.add(id(item))
            for module in item.modules():
                self._seen.add(id(module))
                for value in list(module.__dict__.values()):
                    if isinstance(value, torch.Tensor | dict | list | tuple):
                        self._collect(value, depth + 1)
        elif isinstance(item, torch.optim.Optimizer):
            self._seen.add(id(item))
            self._optimizers[id(item)] = item
            for group in item.param_groups:
                self._collect(group["params"], depth)
            for state in item.state.values():
                self._collect(dict(state), depth)
        elif isinstance(item, dict):
            self._seen.add(id(item))
            for value in list(item.values()):
                self._collect(value, depth + 1)
        elif isinstance(item, list | tuple | set):
            self._seen.add(id(item))
            for value in list(item):
                self._collect(value, depth + 1)
        elif inspect.isfunction(item) or inspect.ismethod(item):
            self._seen.add(id(item))
            for value in _reachable(item):
                if depth < 2:
                    self._collect(value, depth + 1)

    def save(self, everything: bool = False) -> None:
        """Keeps a copy of what the step changed since this object was made, as it is now, in place of an earlier copy.

        A tensor counts as changed when its version counter moved, or when it is new; `everything` keeps all.
        """
        self._saved, self._grads, self._optimizer_scalars, self.bytes = [], [], [], 0
        self._collect_all()
        optimizer_tensors = {
            id(value)
            for optimizer in self._optimizers.values()
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        }
        for key, tensor in self._tensors.items():
            changed = self._versions.get(key) != tensor._version
            if everything or changed or key in optimizer_tensors:
                self._saved.append((tensor, tensor.detach().clone()))
                self.bytes += tensor.numel() * tensor.element_size()
        for parameter in self._parameters.values():
            self._grads.append((parameter, parameter.grad))
        for optimizer in self._optimizers.values():
            for holder in [*optimizer.state.values(), *optimizer.param_groups]:
                scalars = {
                    k: copy.copy(v)
                    for k, v in holder.items()
                    if k != "params" and not isinstance(v, torch.Tensor)
                }
                self._optimizer_scalars.append((holder, scalars))
        self._random["python"] = random.getstate()
        self._random["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self._random["cuda"] = torch.cuda.get_rng_state_all()
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            self._random["numpy"] = numpy.random.get_state()

    @property
    def tensor_count(self) -> int:
        """How many tensors were copied."""
        return len(self._saved)

    def restore(self) -> None:
        """Puts everything back as it was at `save`."""
        with torch.no_grad():
            for tensor, copied in self._saved:
                tensor.copy_(copied)
        for parameter, grad in self._grads:
            parameter.grad = grad
        for holder, scalars in self._optimizer_scalars:
            holder.update(copy.deepcopy(scalars))
        random.setstate(self._random["python"])
        torch.set_rng_state(self._random["torch"])
        if "cuda" in self._random:
            torch.cuda.set_rng_state_all(self._random["cuda"])
        if "numpy" in self._random:
            sys.modules["numpy"].random.set_state(self._random["numpy"])
