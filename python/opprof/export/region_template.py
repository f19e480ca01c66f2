"""What `opprof extract` writes behind the program of a module that it cut out of a recorded step. Needs PyTorch.

What stands above the line is the emitted program's, or made for the module.
"""

import math
from typing import Any

import torch
import torch.utils._pytree as pytree


class Program:
    """The graph, as opprof-translate --emit-python writes it."""

    in_spec: Any
    out_spec: Any
    names: list[str]

    def __init__(self, weights: dict[str, Any]) -> None:
        raise NotImplementedError

    def _flatten(self, args: Any, kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


WEIGHTS: dict[str, tuple[Any, ...]] = {}
CONSTANTS: dict[int, Any] = {}
POSITIONAL, KEYWORDS = 0, ()
TRAINING = False


def _arguments(generator: torch.Generator) -> tuple[Any, ...]:
    raise NotImplementedError


# What follows is written.


class Extracted(torch.nn.Module):
    """The module, called as it was in the program. Its state_dict has the names that the original's has, where its operators use them."""

    _flatten = Program._flatten

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        weights: dict[str, torch.Tensor] = {}
        for name, (_, _, shape, stride, dtype, device, _, facts) in WEIGHTS.items():
            weights[name] = _like(generator, shape, stride, dtype, device, facts)
        program = Program(weights)
        self.in_spec, self.out_spec, self.names = program.in_spec, program.out_spec, program.names
        for name, (kind, persistent, *_, is_trained, _) in WEIGHTS.items():
            *path, last = name.split(".")
            owner = self
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, torch.nn.Module())
                owner = owner._modules[part]
            if kind == "parameter":
                parameter = torch.nn.Parameter(weights[name], requires_grad=is_trained)
                owner.register_parameter(last, parameter)
            else:
                owner.register_buffer(last, weights[name], persistent=persistent)
        self.train(TRAINING)

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        # Who calls with positions only gives the keywords' values behind.
        if len(args) > POSITIONAL:
            kwargs = {**dict(zip(KEYWORDS, args[POSITIONAL:], strict=True)), **kwargs}
            args = args[:POSITIONAL]
        for index, value in enumerate(self._flatten(args, kwargs)):
            if index in CONSTANTS and CONSTANTS[index] != value:
                raise ValueError(
                    f"recorded with {CONSTANTS[index]!r} where {value!r} was given: another value may take another path"
                )
        return Program.forward(self, *args, **kwargs)


def _like(
    generator: torch.Generator,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: torch.dtype,
    device: str,
    facts: dict[str, Any],
) -> torch.Tensor:
    """A tensor of the shape, with numbers like those that `facts` tell of."""
    # What an expanded dimension repeats is there once.
    base = tuple(1 if step == 0 else size for size, step in zip(shape, stride, strict=True))
    parts = (*base, 2) if dtype.is_complex else base
    values = _draw(generator, parts, dtype.is_floating_point or dtype.is_complex, facts)
    if dtype.is_complex:
        values = torch.view_as_complex(values.contiguous())
    result = torch.empty_strided(base, stride, dtype=dtype, device=device)
    return result.copy_(values).expand(shape)


def _draw(
    generator: torch.Generator, shape: tuple[int, ...], is_float: bool, facts: dict[str, Any]
) -> torch.Tensor:
    count = math.prod(shape)
    if "values" in facts:
        values = facts["values"]
        kind = torch.float64 if is_float else None
        return torch.tensor([float(v) if is_float else v for v in values], dtype=kind).reshape(
            shape
        )
    if "step" in facts:
        row = facts["start"] + facts["step"] * torch.arange(shape[-1])
        return row.expand(shape)
    if not is_float:
        low, high = facts.get("min", 0), facts.get("max", 0)
        # The end is outside of the range, and has to be a number of 64 bits too.
        end = min(high + 1, torch.iinfo(torch.int64).max)
        numbers = torch.randint(min(low, end - 1), end, shape, generator=generator)
        if low == high:
            numbers = torch.full(shape, low)
        elif high - low == 1:
            share = facts["zeros"] if low == 0 else 0.5
            numbers = low + (torch.rand(shape, generator=generator) >= share).long()
        return numbers.sort(-1).values if facts.get("sorted") else numbers
    numbers = torch.randn(shape, generator=generator, dtype=torch.float32)
    numbers = numbers * facts.get("std", 1.0) + facts.get("mean", 0.0)
    lot = torch.rand(shape, generator=generator)
    if "max" in facts:
        numbers = numbers.clamp(facts["min"], facts["max"])
        if facts["zeros"] > 0.01:
            numbers = numbers.masked_fill(lot < facts["zeros"], 0.0)
        for name, other in (("highest", facts["max"]), ("lowest", facts["min"])):
            if other != 0 and facts["zeros"] + facts.get(name, 0.0) > 0.999 and count > 1:
                # Two values, as a mask has them: of one that is added, 0 is the highest.
                numbers = torch.where(lot < facts["zeros"], 0.0, other)
    begin = facts.get("zeros", 0.0)
    for name in ("nan", "inf", "-inf"):
        share = facts.get(name, 0.0)
        if share:
            chosen = (lot >= begin) & (lot < begin + share)
            # A row of a mask that lets nothing through makes no number.
            chosen[..., 0] = False
            numbers = numbers.masked_fill(chosen, float(name))
            begin += share
    return numbers


def get_model_and_input() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    return Extracted(), get_inputs(0)


def get_inputs(seed: int) -> tuple[Any, ...]:
    return _arguments(torch.Generator().manual_seed(seed))


# What follows is written.


def make_step(module: Any) -> Any:
    """Forward, and backward from a gradient of ones; gradients are those of the last step."""

    def step(*args: Any) -> Any:
        for parameter in module.parameters():
            parameter.grad = None
        result = module(*args)
        leaves = pytree.tree_leaves(result)
        trained = [v for v in leaves if isinstance(v, torch.Tensor) and v.requires_grad]
        torch.autograd.backward(trained, [torch.ones_like(value) for value in trained])
        return result

    return step
