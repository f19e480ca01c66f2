"""What a rewrite and a strategy are: the classes that scripts are printed as."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


class Open(str):
    """In the arguments of a pattern, a constant that it leaves open, by its name, and in those of a replacement what it stands
    for at the place; without a name it is any constant."""


class Size(str):
    """In arguments, what a name in shapes stands for at the place."""


@dataclass(frozen=True)
class TensorSpec:
    """What a matched tensor has to be; None leaves it open. In sizes, a name stands for the same number wherever it is."""

    dtype: torch.dtype | None = None
    shape: tuple[int | str | None, ...] | None = None
    # "contiguous" stands for the strides of a contiguous tensor of that shape.
    stride: tuple[int | str, ...] | str | None = None
    device: str | None = None
    layout: str | None = None
    # The class's name; empty for a plain tensor.
    subclass: str | None = None
    requires_grad: bool | None = None
    # What a tensor of the graph's own holds, as `torch.tensor(0.5)` in the program is one.
    constant: bool | int | float | None = None


# What a list of tensors has to be is a tuple.
Spec = TensorSpec | tuple[Any, ...]


@dataclass(frozen=True)
class Rewrite:
    """A pattern, what takes its place, and what has to hold there."""

    name: str
    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    # The pattern's inputs, then what each of its nodes gives.
    values: tuple[Spec, ...]
    # Conditions on the place, by their names in PLACE_CHECKS.
    place: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Strategy:
    """How the whole graph is compiled and run."""

    # What depends on weights alone is computed once, not in every call.
    prologue: bool = False
    # Weights become constants that Inductor lays out once for its kernels.
    freeze: bool = False
    # Weights are cast once, inputs and outputs in every call.
    precision: torch.dtype | None = None
    # Classes of nodes and their levels; all others keep float32.
    regions: tuple[tuple[str, str], ...] = ()
    # Float32 products run on TF32 units.
    tf32: bool = False
    # Inductor times its choices for each GEMM and convolution.
    autotune: bool = False
    # The compiled program is captured once into a CUDA graph and replayed.
    cuda_graph: bool = False
    # Graphs whose gradients are needed are rewritten too; else they are compiled as they are.
    training: bool = False
    # Recurrent layers come to this backend, which Dynamo keeps from others, and stay the library's own kernels.
    recurrent: bool = False
