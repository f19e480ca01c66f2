"""What people do to models, each with an emitted backend, with plain torch.compile and with neither: ours ends as that does.

A probe is a function that is given what compiles a model, and returns what it saw. It runs with the model as it is, with torch.compile,
and with a backend both ways of using it. Where torch.compile sees what the model itself gives, the backend has to; where it raises, the
backend raises the same or is right. Graphs run as they are traced, in Inductor's place, but with OPPROF_PROBES=inductor; on a GPU with
OPPROF_PROBES_DEVICE=cuda, where CUDA graphs are those of the device.
"""

import contextlib
import copy
import functools
import io
import math
import os
import pickle
import re
import threading
import types
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch
from emulated_graphs import backend_with
from torch import Tensor, nn
from torch._dynamo.backends.debugging import aot_eager
from torch.nn import functional
from torch.nn.utils import parametrizations, prune

STRATEGIES: dict[str, dict[str, Any]] = {
    "training": {"prologue": True, "training": True, "tf32": True},
    "frozen graph": {"prologue": True, "freeze": True, "cuda_graph": True},
    "half graph": {"prologue": True, "precision": torch.float16, "cuda_graph": True},
}
if "OPPROF_PROBES" in os.environ:
    # All of them take half an hour, with OPPROF_PROBES=inductor hours: what a probe asks is asked before anything is compiled, or after.
    STRATEGIES |= {
        "none": {},
        "prologue": {"prologue": True},
        "frozen": {"prologue": True, "freeze": True},
        "tf32": {"prologue": True, "tf32": True},
        "recurrent": {"prologue": True, "recurrent": True},
        "bfloat16": {"prologue": True, "precision": torch.bfloat16},
        "float16": {"prologue": True, "precision": torch.float16},
        "frozen float16": {"prologue": True, "freeze": True, "precision": torch.float16},
        "graph": {"prologue": True, "cuda_graph": True},
    }
DEVICE = os.environ.get("OPPROF_PROBES_DEVICE", "cpu")
if DEVICE != "cpu":
    # Not set_default_device(): that is a mode of Python's in which every call runs, and programs have no shortcuts under one.
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
COMPILER = "inductor" if os.environ.get("OPPROF_PROBES") == "inductor" else "aot_eager"

Make = Callable[[nn.Module], Any]
Probe = Callable[[Make], list[Any]]
PROBES: dict[str, Probe] = {}


def probe(function: Probe) -> Probe:
    PROBES[function.__name__] = function
    return function


class Small(nn.Module):
    """Two layers, a normalization, dropout, a buffer and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(16, 8)
        self.register_buffer("shift", torch.randn(8))
        self.scale = 1.5

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        return self.last(self.drop(x)) * self.scale + self.shift


class Images(nn.Module):
    """Convolutions with normalization over the batch and activations in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)
        self.depth = nn.Conv2d(4, 4, 3, groups=4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.conv(x)))
        return self.head(self.act(self.depth(x)).mean((2, 3)))


class Tied(nn.Module):
    """A decoder's shape: positions, an embedding that is the head too, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(32, 8)
        self.positions = nn.Embedding(16, 8)
        self.qkv = nn.Linear(8, 24)
        self.head = nn.Linear(8, 32, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor, past: tuple[Tensor, Tensor] | None = None) -> Any:
        begin = 0 if past is None else past[0].shape[1]
        places = torch.arange(begin, begin + ids.shape[1], device=ids.device)
        x = self.tokens(ids) + self.positions(places)
        q, k, v = self.qkv(x).chunk(3, -1)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        x = functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.head(x), (k, v)


def ready(make: Make, kind: type[nn.Module] = Small) -> tuple[Any, Any]:
    """A model in evaluation, and the program that is made of it."""
    torch.manual_seed(0)
    model = kind().eval()
    return model, make(model)


def x(*shape: int) -> Tensor:
    return torch.randn(*(shape or (4, 8)))


def quiet(program: Any, *args: Any, **kwargs: Any) -> Any:
    with torch.no_grad():
        return program(*args, **kwargs)


def twice(program: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """By then a front has learned of calls like these."""
    return [quiet(program, *args, **kwargs) for _ in range(3)]


def gradients(model: nn.Module) -> dict[str, Tensor | None]:
    return {name: value.grad for name, value in model.named_parameters()}


# Weights.


@probe
def weights_loaded(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    model.load_state_dict(Small().state_dict())
    return seen + twice(program, x())


@probe
def weights_assigned(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    model.load_state_dict(Small().state_dict(), assign=True)
    return seen + twice(program, x())


@probe
def averaged(make: Make) -> list[Any]:
    model, program = ready(make)
    other, seen = Small(), twice(program, x())
    with torch.no_grad():
        torch._foreach_lerp_(list(model.parameters()), list(other.parameters()), 0.5)
    return seen + twice(program, x())


@probe
def averaged_as_on_a_gpu(make: Make) -> list[Any]:
    """There these functions leave versions as they are."""
    model, program = ready(make)
    other, seen = Small(), twice(program, x())
    own = tuple(model.parameters())
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(own):
        torch._foreach_lerp_([value.data for value in own], list(other.parameters()), 0.5)
    seen += twice(program, x())
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(own):
        torch._foreach_mul_(own[:1], 2.0)
    return seen + twice(program, x())


@probe
def averaged_model(make: Make) -> list[Any]:
    model, _ = ready(make)
    average = torch.optim.swa_utils.AveragedModel(model)
    program = make(average)
    seen = twice(program, x())
    average.update_parameters(Small())
    average.update_parameters(Small())
    return seen + twice(program, x())


@probe
def initialized_again(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    nn.init.normal_(model.first.weight)
    model.last.reset_parameters()
    model.apply(lambda part: isinstance(part, nn.LayerNorm) and nn.init.constant_(part.weight, 2))
    return seen + twice(program, x())


@probe
def weight_norm(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    parametrizations.weight_norm(model.first)
    seen += twice(program, x())
    with torch.no_grad():
        model.first.parametrizations.weight.original0.mul_(2)
    seen += twice(program, x())
    nn.utils.parametrize.remove_parametrizations(model.first, "weight")
    return seen + twice(program, x())


@probe
def spectral_norm(make: Make) -> list[Any]:
    model, _ = ready(make)
    parametrizations.spectral_norm(model.first)
    model.eval()
    program = make(model)
    seen = twice(program, x())
    with torch.no_grad():
        model.first.parametrizations.weight.original.mul_(3).add_(1)
    return seen + twice(program, x())


@probe
def pruned(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    prune.l1_unstructured(model.first, "weight", amount=0.5)
    seen += twice(program, x())
    prune.remove(model.first, "weight")
    return seen + twice(program, x())


class Adapter(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


@probe
def adapter_put_in(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    model.first = Adapter(model.first)
    seen += twice(program, x())
    with torch.no_grad():
        model.first.base.weight += model.first.up.weight @ model.first.down.weight
    model.first = model.first.base
    return seen + twice(program, x())


@probe
def tied_later(make: Make) -> list[Any]:
    model, program = ready(make, Tied)
    ids = torch.randint(32, (2, 5))
    seen = twice(program, ids)
    model.head.weight = nn.Parameter(torch.randn(32, 8))
    seen += twice(program, ids)
    model.head.weight = model.tokens.weight
    with torch.no_grad():
        model.tokens.weight.mul_(2)
    return seen + twice(program, ids)


@probe
def embedding_resized(make: Make) -> list[Any]:
    model, program = ready(make, Tied)
    seen = twice(program, torch.randint(32, (2, 5)))
    model.tokens = nn.Embedding(40, 8)
    model.head = nn.Linear(8, 40, bias=False)
    return seen + twice(program, torch.randint(32, 40, (2, 5)))


@probe
def embedding_grown_where_it_is(make: Make) -> list[Any]:
    model, program = ready(make, Tied)
    seen = twice(program, torch.randint(32, (2, 5)))
    model.tokens.weight.data = torch.randn(40, 8)
    return seen + twice(program, torch.randint(32, 40, (2, 5)))


class Looked(nn.Module):
    """Rows of a table, of a part of it, and of what is made of it; the results share nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, ids: Tensor) -> Tensor:
        weight = self.table.weight
        rows = self.table(ids) + functional.embedding(ids, weight * 2) + weight[1:][ids - 1]
        return self.head(rows)


@probe
def tables_grown_where_they_are(make: Make) -> list[Any]:
    model, program = ready(make, Looked)
    seen = twice(program, torch.randint(1, 32, (2, 5)))
    model.table.weight.data = torch.randn(40, 8)
    return seen + twice(program, torch.randint(33, 40, (2, 5)))


@probe
def autocast_within(make: Make) -> list[Any]:
    class Within(Small):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast(DEVICE, torch.bfloat16):
                return super().forward(x).float()

    _, program = ready(make, Within)
    return twice(program, x())


@probe
def float32_within(make: Make) -> list[Any]:
    class Within(Small):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            with torch.autocast(DEVICE, enabled=False):
                return y / (y.float() * 1e4).square().sum(-1, keepdim=True)

    _, program = ready(make, Within)
    return twice(program, x())


@probe
def one_parameter_for_two(make: Make) -> list[Any]:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(8, 8)
            self.b = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x))

    model, program = ready(make, Both)
    seen = twice(program, x())
    model.b.weight = model.a.weight
    seen += twice(program, x())
    with torch.no_grad():
        model.a.weight[0].zero_()
    return seen + twice(program, x())


@probe
def buffer_counts(make: Make) -> list[Any]:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return self.layer(x) * self.count

    model, program = ready(make, Counting)
    seen = twice(program, x())
    model.count.zero_()
    return seen + twice(program, x()) + [model.count]


# Precision and devices of the model.


@probe
def halves_and_back(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    model.bfloat16()
    seen += twice(program, x().bfloat16())
    model.float()
    return seen + twice(program, x())


@probe
def half_later(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    model.half()
    return seen + twice(program, x().half())


@probe
def converted_by_swapping(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.half()
        seen += twice(program, x().half())
        model.float()
        seen += twice(program, x())
        model.load_state_dict(Small().state_dict())
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    return seen + twice(program, x())


@probe
def double_later(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    model.double()
    return seen + twice(program, x().double())


@probe
def double_all_along(make: Make) -> list[Any]:
    torch.manual_seed(0)
    model = Small().eval().double()
    return twice(make(model), x().double())


@probe
def autocast_around(make: Make) -> list[Any]:
    _, program = ready(make)
    seen = twice(program, x())
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        seen += twice(program, x())
    return seen + twice(program, x())


@probe
def wrong_dtype_raises(make: Make) -> list[Any]:
    _, program = ready(make)
    seen = twice(program, x())
    with pytest.raises(Exception):  # noqa: B017 - eager and compiled code raise different ones
        quiet(program, x().double())
    return seen + twice(program, x())


@probe
def wrong_shape_raises(make: Make) -> list[Any]:
    _, program = ready(make)
    seen = twice(program, x())
    with pytest.raises(Exception):  # noqa: B017
        quiet(program, x(4, 9))
    return seen + twice(program, x())


@probe
def channels_last_model(make: Make) -> list[Any]:
    model, program = ready(make, Images)
    images = x(2, 3, 8, 8)
    seen = twice(program, images)
    model.to(memory_format=torch.channels_last)
    seen += twice(program, images)
    return seen + twice(program, images.contiguous(memory_format=torch.channels_last))


@probe
def default_dtype(make: Make) -> list[Any]:
    class Making(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x).double() + torch.ones(8)

    _, program = ready(make, Making)
    seen = twice(program, x())
    torch.set_default_dtype(torch.float64)
    try:
        return seen + twice(program, x().float())
    finally:
        torch.set_default_dtype(torch.float32)


# Training.


@probe
def steps_of_training(make: Make) -> list[Any]:
    model, program = ready(make)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    seen: list[Any] = twice(program, x())
    for _ in range(3):
        optimizer.zero_grad()
        program(x()).square().mean().backward()
        optimizer.step()
    return [*seen, gradients(model), *twice(program, x())]


@probe
def steps_of_fused_training(make: Make) -> list[Any]:
    model, program = ready(make)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, fused=True)
    seen: list[Any] = twice(program, x())
    for _ in range(3):
        optimizer.zero_grad()
        program(x()).square().mean().backward()
        optimizer.step()
    return [*seen, *twice(program, x())]


@probe
def gradients_accumulate(make: Make) -> list[Any]:
    model, program = ready(make)
    for _ in range(3):
        program(x()).sum().backward()
    return [gradients(model)]


@probe
def gradient_of_the_input(make: Make) -> list[Any]:
    _, program = ready(make)
    seen: list[Any] = twice(program, x())
    own = x().requires_grad_()
    program(own).square().sum().backward()
    return [*seen, own.grad]


@probe
def part_frozen(make: Make) -> list[Any]:
    model, program = ready(make)
    program(x()).sum().backward()
    model.zero_grad()
    model.first.requires_grad_(False)
    program(x()).sum().backward()
    return [gradients(model)]


@probe
def hooks_on_gradients(make: Make) -> list[Any]:
    model, program = ready(make)
    model.first.weight.register_hook(lambda gradient: gradient * 2)
    seen: list[Any] = []
    model.last.weight.register_post_accumulate_grad_hook(lambda own: seen.append(own.grad.clone()))
    program(x()).sum().backward()
    return [*seen, gradients(model)]


@probe
def backward_twice(make: Make) -> list[Any]:
    model, program = ready(make)
    result = program(x()).sum()
    result.backward(retain_graph=True)
    result.backward()
    return [gradients(model)]


@probe
def gradient_by_grad(make: Make) -> list[Any]:
    model, program = ready(make)
    return list(torch.autograd.grad(program(x()).sum(), list(model.parameters())))


@probe
def batch_statistics(make: Make) -> list[Any]:
    model, program = ready(make, Images)
    seen: list[Any] = twice(program, x(2, 3, 8, 8))
    model.train()
    for _ in range(3):
        program(x(2, 3, 8, 8)).sum().backward()
    model.eval()
    return [
        *seen,
        model.norm.running_mean,
        model.norm.num_batches_tracked,
        *twice(program, x(2, 3, 8, 8)),
    ]


@probe
def statistics_of_the_model_itself(make: Make) -> list[Any]:
    model, program = ready(make, Images)
    seen = twice(program, x(2, 3, 8, 8))
    # Nothing else of it is written.
    model.norm.train()
    quiet(model.norm, x(2, 4, 8, 8) * 3 + 1)
    model.norm.eval()
    seen += twice(program, x(2, 3, 8, 8))
    functional.instance_norm(x(2, 4, 8, 8), model.norm.running_mean, model.norm.running_var)
    return seen + twice(program, x(2, 3, 8, 8))


@probe
def part_in_training(make: Make) -> list[Any]:
    model, program = ready(make, Images)
    seen = twice(program, x(2, 3, 8, 8))
    model.norm.train()
    seen += twice(program, x(2, 3, 8, 8))
    model.norm.eval()
    return seen + twice(program, x(2, 3, 8, 8)) + [model.norm.running_var]


@probe
def dropout_drops(make: Make) -> list[Any]:
    model, program = ready(make)
    seen: list[Any] = twice(program, x())
    model.train()
    own = x()
    first, second = quiet(program, own), quiet(program, own)
    model.eval()
    # Others draw other numbers, and how many.
    torch.manual_seed(2)
    return [*seen, bool((first != second).any()), *twice(program, x())]


@probe
def evaluation_between_steps(make: Make) -> list[Any]:
    model, program = ready(make, Images)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen: list[Any] = []
    for _ in range(4):
        model.train()
        program(x(2, 3, 8, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        model.eval()
        seen.append(quiet(program, x(2, 3, 8, 8)))
    return seen


@probe
def checkpointed(make: Make) -> list[Any]:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))

        def forward(self, x: Tensor) -> Tensor:
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    model, program = ready(make, Checkpointed)
    seen: list[Any] = twice(program, x())
    program(x()).sum().backward()
    return [*seen, gradients(model)]


@probe
def clipped_and_scaled(make: Make) -> list[Any]:
    model, program = ready(make)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=64.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(program(x()).square().mean()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
    return twice(program, x())


@probe
def results_that_need_gradients(make: Make) -> list[Any]:
    _, program = ready(make)
    needs = [program(x()).requires_grad, quiet(program, x()).requires_grad]
    with torch.inference_mode():
        needs += [program(x()).is_inference()]
    return [*needs, program(x()).requires_grad]


@probe
def modes_in_turn(make: Make) -> list[Any]:
    _, program = ready(make)
    seen = []
    for mode in (torch.no_grad, torch.enable_grad, torch.inference_mode) * 2:
        with mode():
            seen.append(program(x()).clone())
    return seen


# Inputs.


@probe
def batches(make: Make) -> list[Any]:
    _, program = ready(make)
    return [quiet(program, x(size, 8)) for size in (4, 4, 1, 7, 4, 16, 3, 4, 5, 9, 11, 4)]


@probe
def empty_batch(make: Make) -> list[Any]:
    _, program = ready(make)
    return twice(program, x()) + twice(program, x(0, 8)) + twice(program, x())


@probe
def sliced(make: Make) -> list[Any]:
    _, program = ready(make)
    hidden = x(4, 6, 8)
    seen = twice(program, hidden[:, -1])
    seen += twice(program, hidden[:, 1])
    seen += twice(program, x(8, 4).t())
    seen += twice(program, x(4, 16)[:, ::2])
    seen += twice(program, x(1, 8).expand(4, 8))
    return seen + twice(program, x())


@probe
def unaligned(make: Make) -> list[Any]:
    _, program = ready(make)
    return twice(program, x(33)[1:].view(4, 8)) + twice(program, x(37)[5:].view(4, 8))


@probe
def channels_last_input(make: Make) -> list[Any]:
    _, program = ready(make, Images)
    images = x(2, 3, 8, 8)
    seen = twice(program, images.contiguous(memory_format=torch.channels_last))
    return seen + twice(program, images) + twice(program, images.transpose(2, 3))


@probe
def input_refilled(make: Make) -> list[Any]:
    _, program = ready(make)
    own, seen = x(), []
    for _ in range(5):
        seen.append(quiet(program, own).clone())
        own.normal_()
    return seen


@probe
def input_is_a_weight(make: Make) -> list[Any]:
    model, program = ready(make)
    own = torch.randn(8, 8)
    seen = twice(program, own)
    model.square = nn.Parameter(torch.randn(8, 8))
    seen += twice(program, model.square)
    with torch.no_grad():
        model.square.mul_(2)
    return seen + twice(program, model.square) + twice(program, own)


@probe
def parameters_made_for_each_call(make: Make) -> list[Any]:
    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            return self.layer(x) @ (weight * 2)

    _, program = ready(make, Given)
    own = nn.Parameter(x(8, 8))
    seen = [quiet(program, x(), nn.Parameter(x(8, 8))) for _ in range(5)]
    for _ in range(3):
        seen.append(quiet(program, x(), own))
        with torch.no_grad():
            own.mul_(1.5)
    return seen


@probe
def one_tensor_twice(make: Make) -> list[Any]:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.layer(a) - b

    _, program = ready(make, Pair)
    own = x()
    seen = twice(program, own, x())
    seen += twice(program, own, own)
    seen += twice(program, own[:2], own[1:3])
    return seen + twice(program, own, x())


@probe
def writes_its_input(make: Make) -> list[Any]:
    class Writing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            x.add_(1)
            return self.layer(x)

    _, program = ready(make, Writing)
    own = x()
    return [*(quiet(program, own).clone() for _ in range(4)), own]


@probe
def numbers_as_arguments(make: Make) -> list[Any]:
    class Sampling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor, heat: float = 1.0, top: int = 3, mode: str = "sum") -> Tensor:
            values = (self.layer(x) / heat).topk(top).values
            return values.sum(-1) if mode == "sum" else values.amax(-1)

    _, program = ready(make, Sampling)
    own, seen = x(), []
    for heat in (1.0, 0.5, 0.7, 2.0, 1e9, math.inf, 1.0):
        seen.append(quiet(program, own, heat))
    for top in (1, 2, 5, 8, 3):
        seen.append(quiet(program, own, top=top))
    return seen + twice(program, own, mode="max") + twice(program, own, 0.5, 2, "max")


@probe
def optional_and_nested(make: Make) -> list[Any]:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, batch: dict[str, Any], mask: Tensor | None = None) -> Any:
            result = self.layer(batch["x"])
            for other in batch.get("more", []):
                result = result + other
            return {"out": result if mask is None else result * mask, "mask": mask}

    _, program = ready(make, Nested)
    own = x()
    seen = twice(program, {"x": own})
    seen += twice(program, {"x": own}, torch.ones(8))
    seen += twice(program, {"x": own, "more": [x(), x()]}, mask=x(8))
    seen += twice(program, {"more": (x(),), "x": own})
    seen += twice(program, OrderedDict(x=own, more=[x()]))
    return seen + twice(program, {"x": own})


@probe
def masks_of_all_kinds(make: Make) -> list[Any]:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return self.layer(x).masked_fill(mask == 0, torch.finfo(x.dtype).min).softmax(-1)

    _, program = ready(make, Masked)
    own, seen = x(), []
    for dtype in (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32):
        seen += twice(program, own, (torch.arange(8) > 2).to(dtype))
    return seen + twice(program, own, torch.zeros(8, dtype=torch.bool))


@probe
def ids_of_other_types(make: Make) -> list[Any]:
    _, program = ready(make, Tied)
    ids = torch.randint(32, (2, 5))
    return twice(program, ids) + twice(program, ids.int()) + twice(program, ids)


@probe
def large_positions(make: Make) -> list[Any]:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.register_buffer("rates", 1e4 ** (-torch.arange(0, 4) / 4))

        def forward(self, x: Tensor, places: Tensor) -> Tensor:
            angles = places[:, None].float() * self.rates
            return self.layer(x) * torch.cat([angles.cos(), angles.sin()], -1)

    _, program = ready(make, Rotary)
    return twice(program, x(), torch.tensor([1, 4097, 8191, 30001]))


@probe
def complex_input(make: Make) -> list[Any]:
    class Spectrum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(torch.view_as_real(x).flatten(1))

    _, program = ready(make, Spectrum)
    return twice(program, torch.randn(4, 4, dtype=torch.complex64))


@probe
def extreme_values(make: Make) -> list[Any]:
    _, program = ready(make)
    own = x()
    seen = twice(program, own)
    own[0] = math.nan
    own[1, 3] = math.inf
    return seen + twice(program, own) + twice(program, torch.zeros(4, 8))


@probe
def cache_that_grows(make: Make) -> list[Any]:
    _, program = ready(make, Tied)
    with torch.no_grad():
        result, past = program(torch.randint(32, (2, 3)))
        seen = [result]
        for _ in range(6):
            result, past = program(torch.randint(32, (2, 1)), past)
            seen.append(result)
    return seen


@probe
def cache_written_in_place(make: Make) -> list[Any]:
    class Static(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.register_buffer("cache", torch.zeros(2, 6, 8))

        def forward(self, x: Tensor, place: Tensor) -> Tensor:
            self.cache.index_copy_(1, place, self.layer(x))
            return self.cache.sum(1)

    model, program = ready(make, Static)
    seen = [quiet(program, x(2, 1, 8), torch.tensor([i])).clone() for i in range(5)]
    model.cache.zero_()
    return [*seen, quiet(program, x(2, 1, 8), torch.tensor([0])).clone(), model.cache]


# Results.


Named = namedtuple("Named", ["first", "second"])


@dataclass
class Output:
    logits: Tensor
    hidden: Tensor | None = None


torch.utils._pytree.register_dataclass(Output)


@probe
def results_of_all_kinds(make: Make) -> list[Any]:
    class Kinds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor, kind: str) -> Any:
            y = self.layer(x)
            return {
                "named": Named(y, x),
                "data": Output(y),
                "nested": {"a": [y, (x, None, 3)], "b": "text"},
                "weight": (y, self.layer.weight),
                "view": (y, y[0], x.t()),
                "number": (y, 1.5, True),
            }[kind]

    _, program = ready(make, Kinds)
    seen = []
    for kind in ("named", "data", "nested", "weight", "view", "number"):
        for result in twice(program, x(), kind):
            seen += [type(result).__name__, result]
    return seen


@probe
def results_hold_a_list_twice(make: Make) -> list[Any]:
    class Lists(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
            made = [self.layer(x)]
            return {"first": made, "second": made}

    _, program = ready(make, Lists)
    results = twice(program, x())
    return results + [result["first"] is result["second"] for result in results]


@probe
def bits_are_read(make: Make) -> list[Any]:
    class Bits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.layer(x), (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)

    _, program = ready(make, Bits)
    return twice(program, x())


@probe
def a_weight_is_inverted(make: Make) -> list[Any]:
    class Inverted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return x @ torch.linalg.inv(self.layer.weight)

    model, program = ready(make, Inverted)
    nn.init.eye_(model.layer.weight)
    seen = twice(program, x())
    nn.init.zeros_(model.layer.weight)
    # On a CUDA device a compiled program does not look whether there is one.
    with contextlib.nullcontext() if DEVICE == "cuda" else pytest.raises(RuntimeError):
        quiet(program, x())
    nn.init.eye_(model.layer.weight)
    return seen + twice(program, x())


@probe
def results_written(make: Make) -> list[Any]:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.layer(x), self.layer.weight * 2

    _, program = ready(make, Weighted)
    own, seen = x(), []
    for _ in range(4):
        first, second = quiet(program, own)
        seen += [first.clone(), second.clone()]
        first.zero_()
        second.fill_(7)
    return seen


@probe
def results_kept(make: Make) -> list[Any]:
    _, program = ready(make)
    kept = [quiet(program, x()) for _ in range(5)]
    return kept


@probe
def results_fed_back(make: Make) -> list[Any]:
    _, program = ready(make)
    value = x()
    for _ in range(5):
        value = quiet(program, value)
    return [value]


@probe
def results_share_storage(make: Make) -> list[Any]:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            y = self.layer(x)
            return y, y[1:], x[0]

    _, program = ready(make, Views)
    seen: list[Any] = []
    for _ in range(3):
        own = x()
        whole, part, given = quiet(program, own)
        part.zero_()
        given.fill_(3)
        seen += [whole.clone(), own.clone()]
    return seen


@probe
def layouts_of_results(make: Make) -> list[Any]:
    class Layouts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            y = self.conv(x)
            return (
                y.permute(0, 2, 3, 1),
                y.mean(1, keepdim=True).expand(-1, 5, -1, -1),
                y.transpose(2, 3),
            )

    _, program = ready(make, Layouts)
    results = twice(program, x(2, 3, 8, 8))
    return results + [[value.stride() for value in result] for result in results]


@probe
def results_in_numpy(make: Make) -> list[Any]:
    _, program = ready(make)
    arrays = [quiet(program, x()).cpu().numpy() for _ in range(4)]
    return [torch.from_numpy(array.copy()) for array in arrays]


# The model as a module.


@probe
def copied(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    other = copy.deepcopy(program)
    with torch.no_grad():
        model.first.weight.zero_()
    return seen + twice(program, x()) + twice(other, x())


@probe
def saved_and_loaded(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    file = io.BytesIO()
    torch.save(program.state_dict(), file)
    file.seek(0)
    state = {name.removeprefix("_orig_mod."): value for name, value in torch.load(file).items()}
    with torch.no_grad():
        model.last.weight.zero_()
    seen += twice(program, x())
    model.load_state_dict(state)
    return seen + twice(program, x())


@probe
def pickled(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    own = pickle.loads(pickle.dumps(model))
    return seen + twice(own, x()) + twice(make(own), x())


@probe
def attributes_change(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    for scale in (2.0, 2, 0.0, -0.0, math.inf, 1.5, True, 3.25, 4.5, 5.5):
        model.scale = scale
        seen += twice(program, x())
    return seen


@probe
def hooks_come_and_go(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    before = model.first.register_forward_pre_hook(lambda part, args: (args[0] * 2,))
    seen += twice(program, x())
    after = model.last.register_forward_hook(lambda part, args, result: result + 1)
    seen += twice(program, x())
    before.remove()
    seen += twice(program, x())
    after.remove()
    return seen + twice(program, x())


@probe
def hidden_states_collected(make: Make) -> list[Any]:
    model, program = ready(make)
    seen: list[Any] = []
    model.norm.register_forward_hook(lambda part, args, result: seen.append(result.clone()))
    results = twice(program, x())
    return [*results, *seen]


@probe
def layers_change(make: Make) -> list[Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).eval()
    program = make(model)
    seen = twice(program, x())
    model.append(nn.Tanh())
    seen += twice(program, x())
    model[1] = nn.GELU()
    seen += twice(program, x())
    del model[0]
    return seen + twice(program, x())


@probe
def forward_replaced(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    own = model.forward
    model.forward = lambda value: own(value) + 1
    seen += twice(program, x())
    del model.forward
    model.norm.forward = types.MethodType(lambda self, value: value * 2, model.norm)
    return seen + twice(program, x())


@probe
def two_models_share_a_part(make: Make) -> list[Any]:
    torch.manual_seed(0)
    part = nn.Linear(8, 8)
    first, second = nn.Sequential(part, nn.ReLU()).eval(), nn.Sequential(part, nn.Tanh()).eval()
    one, two = make(first), make(second)
    seen = twice(one, x()) + twice(two, x())
    with torch.no_grad():
        part.weight.mul_(-1)
    return seen + twice(one, x()) + twice(two, x())


@probe
def equal_models(make: Make) -> list[Any]:
    torch.manual_seed(0)
    programs = [make(Small().eval()) for _ in range(3)]
    own = x()
    return [quiet(program, own) for program in programs * 2]


@probe
def blocks_compiled_one_by_one(make: Make) -> list[Any]:
    torch.manual_seed(0)
    blocks = nn.ModuleList(make(Small().eval()) for _ in range(4))
    seen = []
    for _ in range(3):
        value = x()
        for block in blocks:
            value = quiet(block, value)
        seen.append(value)
    return seen


@probe
def memory_is_given_back(make: Make) -> list[Any]:
    _, program = ready(make)
    twice(program, x())
    result = quiet(program, x())
    watched = weakref.ref(result)
    del result
    return [watched() is None]


# What is around a call.


@probe
def threads(make: Make) -> list[Any]:
    _, program = ready(make)
    inputs = [x() for _ in range(4)]
    twice(program, inputs[0])
    results: list[Any] = [None] * 4

    def work(place: int) -> None:
        for _ in range(20):
            results[place] = quiet(program, inputs[place]).clone()

    running = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return results


@probe
def breaks_in_the_graph(make: Make) -> list[Any]:
    class Breaking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            torch._dynamo.graph_break()
            return self.b(y) if y.sum().item() > 0 else y - 1

    _, program = ready(make, Breaking)
    return [quiet(program, x()) for _ in range(6)]


@probe
def parts_left_out(make: Make) -> list[Any]:
    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        @torch.compiler.disable
        def middle(self, x: Tensor) -> Tensor:
            return x.tanh() if float(x.mean()) > 0 else x.sin()

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.middle(self.a(x)))

    _, program = ready(make, Partly)
    return [quiet(program, x()) for _ in range(4)]


@probe
def gradients_off_within(make: Make) -> list[Any]:
    class Within(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                y = self.a(x)
            return self.b(y)

    model, program = ready(make, Within)
    result = program(x())
    result.sum().backward()
    return [result, gradients(model), *twice(program, x())]


@probe
def an_error_and_on(make: Make) -> list[Any]:
    class Checking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor, check: bool = False) -> Tensor:
            if check:
                raise ValueError("no")
            return self.layer(x)

    _, program = ready(make, Checking)
    seen = twice(program, x())
    with pytest.raises(ValueError):
        quiet(program, x(), check=True)
    return seen + twice(program, x())


@probe
def functional_call(make: Make) -> list[Any]:
    model, program = ready(make)
    seen = twice(program, x())
    other = {name: torch.randn_like(value) for name, value in model.named_parameters()}
    if isinstance(program, torch._dynamo.OptimizedModule):
        other = {f"_orig_mod.{name}": value for name, value in other.items()}
    with torch.no_grad():
        seen.append(torch.func.functional_call(program, other, (x(),)))
    return seen + twice(program, x())


@probe
def within_another_program(make: Make) -> list[Any]:
    _, program = ready(make)
    seen = twice(program, x())
    outer = torch.compile(lambda value: program(value * 2) + 1, backend="eager")
    return seen + [quiet(outer, x()) for _ in range(3)]


@probe
def under_a_profiler(make: Make) -> list[Any]:
    _, program = ready(make)
    seen = twice(program, x())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        seen += twice(program, x())
    return seen + twice(program, x())


@probe
def under_a_mode_that_counts(make: Make) -> list[Any]:
    from torch.utils.flop_counter import FlopCounterMode

    _, program = ready(make)
    seen = twice(program, x())
    with FlopCounterMode(display=False):
        seen += twice(program, x())
    return seen + twice(program, x())


@probe
def threads_of_the_library(make: Make) -> list[Any]:
    _, program = ready(make)
    seen = twice(program, x())
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return seen + twice(program, x())
    finally:
        torch.set_num_threads(count)


@probe
def deterministic(make: Make) -> list[Any]:
    _, program = ready(make)
    seen = twice(program, x())
    torch.use_deterministic_algorithms(True)
    try:
        return seen + twice(program, x())
    finally:
        torch.use_deterministic_algorithms(False)


@probe
def random_numbers_within(make: Make) -> list[Any]:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) + torch.rand_like(x)

    _, program = ready(make, Noisy)
    own = x()
    values = torch.stack(twice(program, own))
    return [bool((values[0] != values[1]).any() and (values[1] != values[2]).any())]


@probe
def random_numbers_without_a_narrow_form(make: Make) -> list[Any]:
    class Leaky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return functional.rrelu(self.layer(x), training=True)

    _, program = ready(make, Leaky)
    own = x()
    values = torch.stack(twice(program, own))
    return [bool((values[0] != values[1]).any() and (values[1] != values[2]).any())]


@torch.library.custom_op("opprof_probes::doubled", mutates_args=())
def doubled(value: Tensor) -> Tensor:
    if value.dtype is not torch.float32:
        raise TypeError(f"it takes no {value.dtype}")
    return value * 2


@doubled.register_fake
def _(value: Tensor) -> Tensor:
    return torch.empty_like(value)


@probe
def operators_of_the_program(make: Make) -> list[Any]:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            made = torch.ops.opprof_probes.doubled(self.layer.weight)
            return torch.ops.opprof_probes.doubled(self.layer(x)).tanh() @ made

    model, program = ready(make, Own)
    seen = twice(program, x())
    with torch.no_grad():
        model.layer.weight.mul_(2)
    return seen + twice(program, x())


@probe
def recurrent(make: Make) -> list[Any]:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(8, 8, num_layers=2, batch_first=True)
            self.head = nn.Linear(8, 3)

        def forward(self, x: Tensor, state: Any = None) -> Any:
            y, state = self.rnn(x, state)
            return self.head(y[:, -1]), state

    model, program = ready(make, Recurrent)
    result, state = quiet(program, x(2, 5, 8))
    seen = [result, *twice(program, x(2, 5, 8), state)]
    with torch.no_grad():
        model.rnn.weight_hh_l0.mul_(0.5)
    return seen + twice(program, x(2, 5, 8))


@probe
def bags_and_offsets(make: Make) -> list[Any]:
    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(32, 8, mode="sum")
            self.head = nn.Linear(8, 3)

        def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
            return self.head(self.bag(ids, offsets))

    model, program = ready(make, Bags)
    ids, offsets = torch.randint(32, (9,)), torch.tensor([0, 3, 3, 7])
    seen = twice(program, ids, offsets)
    with torch.no_grad():
        model.bag.weight[0] = 5
    return seen + twice(program, ids, offsets) + twice(program, ids, torch.tensor([0, 1, 2, 3]))


def tolerance_of(strategy: dict[str, Any]) -> float:
    return 3e-2 if strategy.get("precision") else 1e-5


def difference(seen: Any, expected: Any, tolerance: float) -> str:
    """In which way what was seen is not what was expected; empty if in none."""
    if isinstance(expected, Tensor):
        if not isinstance(seen, Tensor):
            return f"a {type(seen).__name__} in place of a tensor"
        if (seen.dtype, seen.shape) != (expected.dtype, expected.shape):
            return f"{seen.dtype} {tuple(seen.shape)} in place of {expected.dtype} {tuple(expected.shape)}"
        if not expected.is_floating_point():
            return "" if torch.equal(seen, expected) else "other integers"
        own, reference = seen.detach().double(), expected.detach().double()
        if not torch.equal(own.isfinite(), reference.isfinite()) and own.numel():
            return "infinite or no numbers elsewhere"
        own, reference = own[reference.isfinite()], reference[reference.isfinite()]
        error = float((own - reference).norm() / reference.norm().clamp_min(1e-3))
        return "" if error <= tolerance else f"an error of {error:.2g}"
    if isinstance(expected, dict):
        if type(seen) is not type(expected) or list(seen) != list(expected):
            return "another dictionary"
        return difference(list(seen.values()), list(expected.values()), tolerance)
    if isinstance(expected, Output):
        return difference([seen.logits, seen.hidden], [expected.logits, expected.hidden], tolerance)
    if isinstance(expected, (list, tuple)):
        if type(seen) is not type(expected) or len(seen) != len(expected):
            return f"{type(seen).__name__} of {len(seen)} in place of {len(expected)}"
        for place, (own, reference) in enumerate(zip(seen, expected, strict=True)):
            if reason := difference(own, reference, tolerance):
                return f"{place}: {reason}"
        return ""
    return "" if seen == expected else f"{seen!r} in place of {expected!r}"


def ends(function: Probe, make: Make) -> tuple[list[Any], str]:
    """What a probe saw, or the class of what it raised."""
    torch._dynamo.reset()
    torch.manual_seed(1)
    try:
        return function(make), ""
    except Exception as error:
        return [], f"{type(error).__name__}: {error}"


@functools.cache
def without_backend(name: str) -> tuple[list[Any], str, str]:
    """What a probe sees of the model itself, what torch.compile without us raises, and how what it sees differs."""
    expected, raised = ends(PROBES[name], lambda model: model)
    assert not raised, raised
    seen, raised = ends(PROBES[name], functools.partial(torch.compile, backend=COMPILER))
    return expected, raised, raised or difference(seen, expected, 1e-4)


@pytest.fixture(scope="module", params=STRATEGIES)
def backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModuleType]:
    name = request.param.replace(" ", "_")
    file = tmp_path_factory.mktemp(name) / f"probed_{name}.py"
    module = backend_with(STRATEGIES[request.param], file, emulated=DEVICE == "cpu")
    if COMPILER != "inductor":
        module.compile_fx = lambda graph, inputs, **options: aot_eager(graph, inputs)
    yield module


@pytest.mark.parametrize("way", ["compile", "optimize"])
@pytest.mark.parametrize("name", PROBES)
def test_a_probe_ends_as_with_torch_compile(backend: ModuleType, name: str, way: str) -> None:
    expected, others_raised, others_differ = without_backend(name)
    if others_differ and not others_raised:
        pytest.skip(f"torch.compile: {others_differ}")
    make: Make = backend.optimize
    if way == "compile":
        make = functools.partial(torch.compile, backend=backend.BACKEND_NAME)
    before = len(backend.status()["graphs"])
    seen, raised = ends(PROBES[name], make)
    # It gives what it gives by programs of its own, and not because each failed, which torch.compile makes good.
    refusals = [graph.refusal for graph in backend.status()["graphs"][before:]]
    assert not [
        reason for reason in refusals if reason and re.match(r"\w+(Error|Exception): ", reason)
    ]
    if raised:
        assert others_raised.split(":")[0] == raised.split(":")[0], raised
        return
    assert not difference(seen, expected, tolerance_of(vars(backend.STRATEGY)))
