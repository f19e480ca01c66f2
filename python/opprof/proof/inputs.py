"""Values for a compiled graph's inputs: of the sizes and layouts that its code's harness states, and unlike one another. Needs PyTorch."""

import ast
import math
from collections.abc import Set
from pathlib import Path
from typing import Any

import torch

from opprof.errors import OpprofError


def harness_inputs(module: dict[str, Any], path: Path) -> list[Any]:
    """What the harness at the end of the code makes for its inputs."""
    from torch._dynamo.testing import rand_strided

    make = module.get("get_args")
    if make is not None:
        return list(make())
    # PyTorch 2.10 and older make them in the function that times the code.
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "benchmark_compiled_module":
            made: list[ast.stmt] = [s for s in node.body if isinstance(s, (ast.Assign, ast.Global))]
            local: dict[str, Any] = {"rand_strided": rand_strided}
            exec(compile(ast.Module(made, []), str(path), "exec"), module, local)
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "call":
                    (names,) = call.args
                    return list(eval(ast.unparse(names), module, local))
    raise OpprofError(f"{path}: has no harness that says what its inputs look like")


def fill(
    values: list[Any], seed: int, *, indices: int, weights: Set[int] = frozenset()
) -> list[Any]:
    """Other numbers in tensors of the same sizes and strides. Whole numbers lie below `indices`: they may be places in a table.
    They hold numbers of about 1; those of the places in `weights` so small ones that a product with them keeps the size of what goes in
    (He et al. 2015: a variance of 2 / fan-in)."""
    generator = torch.Generator().manual_seed(seed)
    return [
        _filled(value, generator, indices, place in weights) for place, value in enumerate(values)
    ]


def _filled(value: Any, generator: torch.Generator, indices: int, is_weight: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    kind = value.dtype
    size = value.untyped_storage().nbytes() // max(value.element_size(), 1)
    if kind.is_complex:
        numbers = torch.randn(size, generator=generator, dtype=torch.complex64)
    elif kind.is_floating_point:
        numbers = torch.randn(size, generator=generator)
        if value.dim() <= 1:
            # A variance, maybe, or a scale or a size: of a negative one there would be no root.
            numbers = numbers.abs() + 0.125
        elif is_weight and value.dim() > 1 and value.numel():
            numbers *= math.sqrt(2 * value.size(0) / value.numel())
    elif kind == torch.bool:
        numbers = torch.rand(size, generator=generator) < 0.5
    elif kind in (torch.int8, torch.uint8):
        numbers = torch.randint(0, 120, (size,), generator=generator)
    else:
        numbers = torch.randint(0, max(indices, 1), (size,), generator=generator)
    room = torch.empty(size, dtype=kind, device=value.device)
    room.copy_(
        numbers.to(torch.float32) if kind.itemsize == 1 and kind.is_floating_point else numbers
    )
    filled = torch.empty(0, dtype=kind, device=value.device)
    return filled.set_(room.untyped_storage(), value.storage_offset(), value.size(), value.stride())
