"""The training step under test: what is compared are its results and the gradients that its optimizers take. Needs PyTorch."""

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._pytree import tree_map

from opprof.backend.checks import (
    SEEDS,
    Program,
    Subject,
    Verdict,
    largest_error,
    relative_error,
    tensors_of,
    widen,
)
from opprof.errors import OpprofError
from opprof.export.model_script import ModelScript
from opprof.progress import progress

# Steps of the curve of losses: enough for optimizers with two moments to move.
CURVE_STEPS = 3 * len(SEEDS)
# An error that no order of sums in float32 brings, nor float64: dropout took other elements.
_OTHER_NUMBERS = 5e-3
# A parameter's gradient that errs by so much is another one; and what it is, relative to all, where it is none.
_ANOTHER, _NOTHING = 0.5, 1e-5


class _Step:
    """A step, and the parameters that it was made of."""

    def __init__(self, call: Callable[..., Any], function: Any) -> None:
        self._call = call
        self.parameters = (
            list(function.parameters()) if isinstance(function, torch.nn.Module) else []
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)


class TrainingSubject(Subject):
    """A script's make_step(): programs are steps, each with optimizers of its own, on the same weights."""

    trains = True

    def __init__(self, script: ModelScript) -> None:
        super().__init__(script)
        # Of the module, whose weights these are, and what else begins with them.
        self._modules = [script.module]
        self.weights = copy.deepcopy(dict(script.module.named_parameters()))
        if self.draws:
            progress(
                "the step draws random numbers: programs are compiled to draw what the uncompiled model does, which is slower"
            )
            torch._inductor.config.fallback_random = True

    @functools.cached_property
    def draws(self) -> bool:
        """Whether a step draws random numbers: from other seeds its results are others."""
        results = []
        for seed in (0, 1):
            args, kwargs = self.inputs(SEEDS[0])
            self.restore()
            results.append(self.results_of(self.eager, args, kwargs, seed=seed))
        self.restore()
        # A GPU adds up in another order each time, which is less.
        return not largest_error(*results) <= _OTHER_NUMBERS

    @functools.cached_property
    def references(self) -> dict[int, list[torch.Tensor]]:
        """In float64, but where the same seed gives other random numbers there."""
        results: dict[int, list[torch.Tensor]] = super().references
        if self.draws:
            own = self._eager_results
            if any(not largest_error(own[seed], results[seed]) <= _OTHER_NUMBERS for seed in SEEDS):
                self.in_double = False
                return own
        return results

    def restore(self) -> None:
        """Gives the module and its copies the weights and buffers that it came with, and it no gradients."""
        self.restore_attributes()
        with torch.no_grad():
            for module in self._modules:
                for name, buffer in module.named_buffers():
                    buffer.copy_(self.state[name])
                for name, weight in module.named_parameters():
                    weight.copy_(self.weights[name])
        self.script.module.zero_grad(set_to_none=True)

    def copy_of_module(self) -> torch.nn.Module:
        """A copy with weights of its own, which begin each run as the module's do."""
        module = copy.deepcopy(self.script.module)
        self._modules.append(module)
        return module

    def step_of(self, function: Any) -> Callable[..., Any]:
        assert self.script.make_step is not None
        return _Step(self.script.make_step(function), function)

    def results_of(
        self, program: Program, args: tuple[Any, ...], kwargs: dict[str, Any], *, seed: int = 0
    ) -> list[torch.Tensor]:
        """What the step returns, and after it all gradients in one: those that an optimizer took, or else those that were left."""
        torch.manual_seed(seed)
        with gradients_taken() as taken:
            results = program(*args, **kwargs)
        # A replay of a captured step calls no optimizer.
        taken = taken or getattr(program, "gradients", [])
        if not taken:
            own = getattr(program, "parameters", None) or self.script.module.parameters()
            taken = [p.grad for p in own if p.grad is not None]
        if not taken:
            raise OpprofError(
                f"{self.script.path}: no optimizer took a gradient in a step, and none was left",
                remedy="make_step(module) returns the function that runs forward, backward and the optimizer's step",
            )
        dense = [gradient.detach().to_dense().flatten() for gradient in taken]
        self._sizes = [gradient.numel() for gradient in dense]
        return [*_losses(results), torch.cat(dense)]

    def error_between(self, results: Sequence[torch.Tensor], seed: int) -> float:
        """That of the results and of all gradients as one; or the largest of one parameter's gradient that is another altogether, which
        all as one may hide and an optimizer that normalizes each does not.
        """
        error = super().error_between(results, seed)
        expected = self.references[seed][-1]
        if math.isnan(error) or results[-1].shape != expected.shape:
            return error
        for own, right, eager in zip(
            *(
                flat.double().split(self._sizes)
                for flat in (results[-1], expected, self._eager_results[seed][-1])
            ),
            strict=True,
        ):
            # Those that are zero but for rounding are left out.
            share = (right.numel() / expected.numel()) ** 0.5
            if float(right.norm()) <= _NOTHING * share * float(expected.norm()):
                continue
            found = relative_error(own, right)
            if found > max(_ANOTHER, 10 * relative_error(eager, right)):
                error = max(error, found)
        return error

    @functools.cached_property
    def _eager_results(self) -> dict[int, list[torch.Tensor]]:
        """Those of the uncompiled model as it is."""
        return {seed: self.run(self.eager, seed) for seed in SEEDS}

    def check_further(self, verdict: Verdict, called: Any, error_budget: float) -> None:
        """Whether a curve of losses is that of the model in float64."""
        if not self.curve:
            verdict.add("losses", True, "not checked: a step returns no number")
            return
        try:
            losses = self._curve_of(called)
        except Exception as failure:
            text = (str(failure) or "no message").splitlines()[0][:200]
            verdict.add("losses", False, f"{type(failure).__name__}: {text}")
            return
        error = largest_error([torch.stack(losses)], [torch.stack(self.curve)])
        verdict.add(
            "losses",
            error <= error_budget,
            f"relative error {error:.1e} over {CURVE_STEPS} steps one after the other, budget {error_budget:.0e}",
        )

    @functools.cached_property
    def curve(self) -> list[torch.Tensor]:
        """What steps one after the other return, as the references are made; empty where they return nothing."""
        _ = self.references
        self.restore()
        if not self.in_double:
            return self._curve_of(copy.deepcopy(self.script.module))
        return self._curve_of(copy.deepcopy(self.script.module).double(), wide=True)

    def _curve_of(self, called: Any, *, wide: bool = False) -> list[torch.Tensor]:
        """The means of what steps return, from the weights that the model came with and an optimizer that is new."""
        self.restore()
        step = self.step_of(called)
        losses = []
        for number in range(CURVE_STEPS):
            args, kwargs = self.inputs(SEEDS[number % len(SEEDS)])
            if wide:
                args, kwargs = tree_map(widen, (args, kwargs))
            torch.manual_seed(number)
            with self.promoting() if wide else contextlib.nullcontext():
                results = step(*args, **kwargs)
            losses += [loss.double().mean().cpu() for loss in _losses(results)]
        self.restore()
        return losses


def subject_of(script: ModelScript) -> Subject:
    """The model of the script, or its step of training where it has one."""
    return Subject(script) if script.make_step is None else TrainingSubject(script)


def _losses(results: Any) -> list[torch.Tensor]:
    """The tensors that a step returns; a number is one."""
    numbers = tree_map(
        lambda leaf: torch.tensor(leaf, dtype=torch.float64) if isinstance(leaf, float) else leaf,
        results,
    )
    return [loss for loss in tensors_of(numbers) if loss.is_floating_point()]


@contextlib.contextmanager
def gradients_taken(*, copies: bool = True) -> Iterator[list[torch.Tensor]]:
    """The gradients that optimizers take in the block, in the order of their parameters; or copies, as they are then."""
    taken: list[torch.Tensor] = []

    def note(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            own = [p.grad.detach() for p in group["params"] if p.grad is not None]
            taken.extend([gradient.clone() for gradient in own] if copies else own)

    hook = register_optimizer_step_pre_hook(note)
    try:
        yield taken
    finally:
        hook.remove()
