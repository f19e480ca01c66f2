"""Recipes for a step of training: what anybody can write without opprof. Needs PyTorch."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from opprof.backend.checks import Program, Subject
from opprof.backend.emitted.cuda_graph import capture_on, warm_up_on
from opprof.backend.emitted.tf32 import with_tf32
from opprof.backend.training import TrainingSubject, gradients_taken
from opprof.search.baselines import EAGER, INDUCTOR, Recipe

_COMPILE = "model = torch.compile(model)"


def training_recipes(subject: Subject) -> list[Recipe]:
    """Those that exist on the device of the model, the cheap ones first."""
    found = [
        Recipe(EAGER, ("step = make_step(model)",), lambda s: s.eager),
        Recipe(INDUCTOR, (_COMPILE,), lambda s: s.inductor),
        Recipe(
            "fused optimizer",
            (_COMPILE, "optimizer = …(model.parameters(), …, fused=True)"),
            _with_fused_optimizers,
        ),
    ]
    device = subject.script.device_type
    if device == "cuda":
        found += [
            Recipe(
                "reduce-overhead",
                ('model = torch.compile(model, mode="reduce-overhead")',),
                lambda s: s.step_of(torch.compile(s.script.module, mode="reduce-overhead")),
                late=True,
            ),
            Recipe(
                "tf32",
                ('torch.set_float32_matmul_precision("high")', _COMPILE),
                lambda s: with_tf32(s.compiled("inductor")),
            ),
            Recipe(
                "the whole step in one CUDA graph",
                (
                    _COMPILE,
                    "optimizer = …(model.parameters(), …, capturable=True)  # where it has that",
                    "for _ in range(3):  # on a stream of its own",
                    "    step(batch)",
                    "graph = torch.cuda.CUDAGraph()",
                    "with torch.cuda.graph(graph):",
                    "    loss = step(batch)",
                    "# a step: batch.copy_(next_batch); graph.replay(); the learning rate is what it was when captured",
                ),
                _captured,
            ),
        ]
    autocast = f'with torch.autocast("{device}", torch.bfloat16):'
    return [
        *found,
        Recipe(
            "bfloat16 autocast",
            (_COMPILE, autocast, "    loss = model(batch)"),
            lambda s: s.step_of(torch.compile(_Autocast(s.script.module, device))),
            late=True,
        ),
    ]


class _Autocast(nn.Module):  # type: ignore[misc]
    """The module, called under autocast; all else that is asked of it is the module's own."""

    def __init__(self, module: nn.Module, device: str) -> None:
        super().__init__()
        self.inner = module
        self.device = device

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(self.device, torch.bfloat16):
            return self.inner(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)


@contextlib.contextmanager
def _optimizers_made() -> Iterator[list[torch.optim.Optimizer]]:
    """The optimizers that are made in the block."""
    made: list[torch.optim.Optimizer] = []
    kind: Any = torch.optim.Optimizer
    original = kind.__init__

    def noted(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        made.append(self)

    kind.__init__ = noted
    try:
        yield made
    finally:
        kind.__init__ = original


def _set(optimizer: torch.optim.Optimizer, name: str, others: dict[str, Any]) -> bool:
    """Turns an option on that is read when the optimizer steps first; False where it has none of that name."""
    if name not in optimizer.defaults:
        return False
    for group in [optimizer.defaults, *optimizer.param_groups]:
        group.update({name: True, **others})
    return True


def _with_fused_optimizers(subject: Subject) -> Program:
    with _optimizers_made() as made:
        step = subject.step_of(torch.compile(subject.script.module))
    if not [one for one in made if _set(one, "fused", {"foreach": False})]:
        raise ValueError("no optimizer of the step has a fused form")
    return step


def _captured(subject: Subject) -> Program:
    assert isinstance(subject, TrainingSubject)
    return CapturedStep(subject)


class CapturedStep:
    """The step with the model compiled by Inductor, captured into one CUDA graph; a call copies its inputs in and its results out."""

    def __init__(self, subject: TrainingSubject) -> None:
        # Autograd goes on with the streams of weights that were trained elsewhere.
        module = subject.copy_of_module()
        with _optimizers_made() as made:
            step = subject.step_of(torch.compile(module))
        for optimizer in made:
            _set(optimizer, "capturable", {})
        leaves, structure = tree_flatten((subject.script.args, subject.script.kwargs))
        self._places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._leaves = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(self._leaves, structure)
        stream = torch.cuda.Stream()
        warm_up_on(stream, lambda: step(*args, **kwargs), 3)
        with gradients_taken(copies=False) as taken:
            self._graph, self._results = capture_on(stream, lambda: step(*args, **kwargs))
        #: Where a replay leaves its gradients.
        self.gradients = taken or [p.grad for p in module.parameters() if p.grad is not None]
        subject.restore()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given, _ = tree_flatten((args, kwargs))
        for place in self._places:
            self._leaves[place].copy_(given[place])
        self._graph.replay()
        return tree_map(
            lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, self._results
        )
