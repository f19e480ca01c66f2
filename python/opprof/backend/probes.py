"""What people do to models and to what they give: done to the model under test, before the backend is called again. Needs PyTorch."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from opprof.backend.checks import SEEDS, Subject, Verdict, largest_error, tensors_in, tensors_of
from opprof.devices import synchronize

# Weights that are changed at a time: enough to reach every layer, and few enough to keep what they were.
_MOST_WEIGHTS = 16
_THREADS = 4
_CALLS_OF_A_THREAD = 5
# What rounding alone may do where no budget allows more.
_LEAST_TOLERANCE = 1e-5


class Probes:
    """One backend's program of one model, asked after each thing that is done."""

    def __init__(
        self, verdict: Verdict, subject: Subject, backend: ModuleType, program: Callable[..., Any]
    ) -> None:
        self.verdict, self.subject, self.backend = verdict, subject, backend
        front = getattr(backend, "optimize", None)
        # A front falls back to what torch.compile gives, so that both are asked.
        self.program = program if front is None else subject.step_of(front(subject.module))
        self.tolerance = 1.0

    def run(self, error_budget: float) -> None:
        """Adds a check for each group of probes."""
        base = self._error(*self.subject.inputs(SEEDS[0]))
        self.tolerance = max(4 * base, error_budget, _LEAST_TOLERANCE)
        self._group("weights", self._weights())
        self._group("results", self._results())
        self._group("inputs", self._inputs())
        self._group("threads", self._threads())
        if torch.cuda.is_available():
            self._group("streams", self._streams())
        self._state_shares()

    def _group(self, name: str, errors: Iterator[tuple[str, float | None]]) -> None:
        done: list[str] = []
        try:
            for what, error in errors:
                # Written so that a NaN cannot pass.
                if error is not None and not error <= self.tolerance:
                    self.verdict.add(
                        name, False, f"{what}: relative error {error:.1e} to the model"
                    )
                    return
                if error is not None:
                    done.append(what)
        except Exception as error:
            text = (str(error) or "no message").splitlines()[0][:200]
            self.verdict.add(name, False, f"{type(error).__name__} after {done}: {text}")
            return
        self.verdict.add(name, True, ", ".join(done) or "nothing to try on this model")

    def _error(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
        """The program's error to the model as it is, both run now."""
        self.subject.restore()
        expected = tensors_of(self.subject.eager(*args, **kwargs))
        self.subject.restore()
        return largest_error(tensors_of(self.program(*args, **kwargs)), expected)

    # What is probed

    def _weights(self) -> Iterator[tuple[str, float | None]]:
        for name, change in _CHANGES.items():
            if name == "refresh()" and not hasattr(self.backend, "refresh"):
                continue
            with _changed(self.subject.module, change) as some:
                if name == "refresh()":
                    self.backend.refresh()
                yield name, self._error(*self.subject.inputs(SEEDS[0])) if some else None
            if hasattr(self.backend, "refresh"):
                self.backend.refresh()
        yield "and back", self._error(*self.subject.inputs(SEEDS[0]))

    def _results(self) -> Iterator[tuple[str, float | None]]:
        self.subject.restore()
        args, kwargs = self.subject.inputs(SEEDS[0])
        first = self.program(*args, **kwargs)
        copies = tensors_of(first)
        for seed in SEEDS[1:] * 2:
            other = self.subject.inputs(seed)
            self.program(*other[0], **other[1])
        yield "kept", largest_error(tensors_of(first), copies)
        own = {leaf.untyped_storage()._cdata for leaf in tensors_in((args, kwargs))}
        own |= {p.untyped_storage()._cdata for p in self.subject.module.state_dict().values()}
        results = [leaf for leaf in tensors_in(first) if leaf.untyped_storage()._cdata not in own]
        with torch.no_grad():
            for leaf in results:
                leaf.zero_()
        yield "written", self._error(*self.subject.inputs(SEEDS[1]))

    def _inputs(self) -> Iterator[tuple[str, float | None]]:
        for name, change in _INPUTS.items():
            inputs = tree_map(change, self.subject.inputs(SEEDS[0]))
            try:
                self.subject.restore()
                self.subject.eager(*inputs[0], **inputs[1])
            except Exception:
                # The model itself does not take them.
                continue
            yield name, self._error(*inputs)
        with torch.inference_mode():
            yield "inference mode", self._error(*self.subject.inputs(SEEDS[0]))
        yield "as at first", self._error(*self.subject.inputs(SEEDS[0]))

    def _threads(self) -> Iterator[tuple[str, float | None]]:
        yield f"{_THREADS} at once", self._together(lambda: contextlib.nullcontext())

    def _streams(self) -> Iterator[tuple[str, float | None]]:
        yield (
            f"{_THREADS} threads on as many",
            self._together(lambda: torch.cuda.stream(torch.cuda.Stream())),
        )

    def _together(self, context: Callable[[], Any]) -> float:
        """The largest error among calls of several threads, each with inputs of its own."""
        self.subject.restore()
        inputs = [self.subject.inputs(100 + number) for number in range(_THREADS)]
        expected = [tensors_of(self.subject.eager(*a, **k)) for a, k in inputs]
        synchronize()
        found: list[float] = []
        barrier = threading.Barrier(_THREADS)

        def work(number: int) -> None:
            args, kwargs = inputs[number]
            barrier.wait()
            try:
                with context():
                    for _ in range(_CALLS_OF_A_THREAD):
                        actual = tensors_of(self.program(*args, **kwargs))
                        synchronize()
                        found.append(largest_error(actual, expected[number]))
            except Exception:
                found.append(float("inf"))
                raise

        threads = [threading.Thread(target=work, args=(n,)) for n in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return float("nan") if any(error != error for error in found) else max(found)

    def _state_shares(self) -> None:
        """In which share of all calls the backend's own code ran: never fine where that is none."""
        status = getattr(self.backend, "status", None)
        if status is None:
            return
        found = status()
        text = f"own programs in {found['own_share']:.0%} of {found['calls']} calls of graphs"
        fronts = found.get("fronts", [])
        calls = sum(front.calls for front in fronts)
        if calls:
            short = sum(front.shortcuts for front in fronts) / calls
            text += f"; past Dynamo in {short:.0%} of {calls} calls of the model"
            reasons = sorted(
                {front.unfit for front in fronts if front.unfit and not front.shortcuts}
            )
            text = "; ".join([text, *reasons])
        self.verdict.add("own share", found["own_share"] > 0, text)


def _some_weights(module: nn.Module) -> list[tuple[nn.Module, str, nn.Parameter]]:
    """Weights from all over the module, with the modules that hold them."""
    every = [
        (owner, name, parameter)
        for owner in module.modules()
        for name, parameter in owner.named_parameters(recurse=False)
        if parameter.is_floating_point() and not parameter.is_inference()
    ]
    step = max(1, len(every) // _MOST_WEIGHTS)
    return every[::step][:_MOST_WEIGHTS]


def _write(owner: nn.Module, name: str, parameter: nn.Parameter) -> None:
    parameter.mul_(1.5)


def _replace(owner: nn.Module, name: str, parameter: nn.Parameter) -> None:
    setattr(owner, name, nn.Parameter(parameter * 1.5, parameter.requires_grad))


def _replace_data(owner: nn.Module, name: str, parameter: nn.Parameter) -> None:
    parameter.data = parameter.detach() * 1.5


def _write_data(owner: nn.Module, name: str, parameter: nn.Parameter) -> None:
    parameter.data.mul_(1.5)


_CHANGES: dict[str, Callable[[nn.Module, str, nn.Parameter], None]] = {
    "written": _write,
    "replaced": _replace,
    "data replaced": _replace_data,
    "refresh()": _write_data,
}


@contextlib.contextmanager
def _changed(
    module: nn.Module, change: Callable[[nn.Module, str, nn.Parameter], None]
) -> Iterator[bool]:
    """Some weights of the module changed; as they were, and the same tensors, afterwards."""
    weights = _some_weights(module)
    before = [(parameter.data, parameter.detach().clone()) for _, _, parameter in weights]
    try:
        with torch.no_grad():
            for owner, name, parameter in weights:
                change(owner, name, parameter)
        yield bool(weights)
    finally:
        with torch.no_grad():
            for (owner, name, parameter), (data, values) in zip(weights, before, strict=True):
                parameter.data = data
                parameter.copy_(values)
                setattr(owner, name, parameter)


def _sliced(leaf: Any) -> Any:
    """The same values as a slice of a larger tensor."""
    if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0:
        return leaf
    return torch.stack([leaf, leaf], -1)[..., 0]


def _expanded(leaf: Any) -> Any:
    """One row, repeated without memory of its own."""
    if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0 or leaf.shape[0] < 2:
        return leaf
    return leaf[:1].expand(leaf.shape)


def _doubled(leaf: Any) -> Any:
    return torch.cat([leaf, leaf]) if isinstance(leaf, torch.Tensor) and leaf.dim() > 1 else leaf


_INPUTS: dict[str, Callable[[Any], Any]] = {
    "slices": _sliced,
    "expanded": _expanded,
    "twice the batch": _doubled,
}


def probe_backend(
    verdict: Verdict,
    subject: Subject,
    backend: ModuleType,
    program: Callable[..., Any],
    *,
    error_budget: float,
) -> None:
    """Adds to the verdict what the probes say of the backend, whose `program` of the model is compiled."""
    Probes(verdict, subject, backend, program).run(error_budget)
