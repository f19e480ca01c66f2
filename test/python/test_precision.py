"""Precision by region: what runs at a level, how the levels are chosen, and that what is never cast is not."""

import copy
import functools
import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from opprof.backend.checks import Subject, relative_error
from opprof.backend.emitted import matching
from opprof.backend.emitted.graphs import operator_name, trace_to_aten
from opprof.backend.emitted.interface import Rewrite, TensorSpec
from opprof.backend.emitted.precision import cast_graph
from opprof.backend.emitted.prologue import split_prologue
from opprof.backend.emitted.regions import (
    LEVELS,
    cast_regions,
    class_of,
    most_exact,
    without_writes,
)
from opprof.backend.rewrites import Script
from opprof.export.model_script import ModelScript
from opprof.search import explore, precision
from opprof.search.ahead import Ahead
from opprof.search.candidates import Workshop
from opprof.search.clock import Clock
from opprof.search.explore import Search, SearchOptions
from opprof.search.precision import (
    EXACT,
    Device,
    Probe,
    Region,
    assign,
    choose,
    explore_precision,
    share_of,
    write_script,
)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def subject_of(module: nn.Module, *args: Any) -> Subject:
    return Subject(ModelScript(Path("model.py"), "model", module.eval(), args, {}))


def cast(function: Any, inputs: Sequence[Tensor], levels: dict[str, str]) -> Any:
    with torch.no_grad():
        return cast_regions(trace_to_aten(function, inputs), inputs, levels)


def with_weights(module: nn.Module, *inputs: Tensor) -> tuple[Any, list[Tensor]]:
    """The graph that Dynamo hands to a backend, which takes its weights too; and all that it takes."""
    seen: list[Any] = []

    def keep(graph: Any, values: list[Tensor]) -> Any:
        seen[:] = [graph, values]
        return graph.forward

    with torch.no_grad():
        torch.compile(module, backend=keep)(*inputs)
    return seen[0], seen[1]


def classes(function: Any, inputs: Sequence[Tensor]) -> list[str]:
    graph = trace_to_aten(function, inputs)
    return [name for node in graph.graph.nodes if (name := class_of(node)) is not None]


class Block(nn.Module):
    """A transformer block with a residual stream, ids, and positions beyond what float16 can count."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.ids = nn.Embedding(100, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(4000, 4000 + ids.shape[1], device=ids.device).float()
        x = self.ids(ids) + torch.sin(positions * 0.37)[:, None]
        for _ in range(2):
            q, k, v = (
                part.unflatten(-1, (4, -1)).transpose(1, 2)
                for part in self.qkv(self.norm(x)).chunk(3, -1)
            )
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.out(y.transpose(1, 2).flatten(-2))
            x = x + self.down(torch.relu_(self.up(self.norm(x))))
        return x


def test_products_are_classes_by_their_sizes_and_the_rest_by_operator() -> None:
    def function(x: Tensor, w: Tensor, b: Tensor, i: Tensor) -> Tensor:
        y = nn.functional.linear(x, w, b).view(2, 2, 5)
        z = torch.softmax(y.transpose(0, 1), -1) @ y.transpose(1, 2)
        return torch.relu(torch.cat([z, z])) + w[i][0, :2] + i.sum()

    inputs = [torch.randn(4, 3), torch.randn(5, 3), torch.randn(5), torch.tensor([1, 0])]
    assert classes(function, inputs) == [
        "linear 4x3 5x3",
        "softmax",
        "matmul 2x2x5 2x5x2",
        "add",
        "add",
    ]


def test_a_write_changes_no_name_of_a_class() -> None:
    def function(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> Tensor:
        z = nn.functional.linear(x, w, b).relu()
        z = nn.functional.scaled_dot_product_attention(z, z, z) + nn.functional.layer_norm(z, (6,))
        return torch.softmax(z, -1) * y.add(1)

    def writing(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> Tensor:
        z = nn.functional.linear(x, w, b).relu_()
        z = nn.functional.scaled_dot_product_attention(z, z, z) + nn.functional.layer_norm(z, (6,))
        return torch.softmax(z, -1) * y.clone().add_(1)

    inputs = [torch.randn(2, 4, 3), torch.randn(6, 3), torch.randn(6), torch.randn(6)]
    graph = without_writes(trace_to_aten(writing, inputs), inputs)
    named = {name for node in graph.graph.nodes if (name := class_of(node)) is not None}
    assert named == {name.replace("add_", "add") for name in classes(function, inputs)}


def test_masks_made_for_float32_fit_narrower_floats() -> None:
    least = torch.finfo(torch.float32).min

    def function(x: Tensor, w: Tensor, mask: Tensor) -> Tensor:
        # As models of transformers spell it: added, and filled in.
        causal = torch.full((4, 4), least).triu(1)
        scores = torch.where(mask, x @ w + causal, least)
        return torch.softmax(scores.masked_fill(~mask, least), -1) @ x

    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[:, 3] = False
    inputs = [torch.randn(4, 8), torch.randn(8, 4), mask]
    expected = function(*inputs)
    whole = cast_graph(trace_to_aten(function, inputs), inputs, torch.float16)
    assert relative_error(whole(*inputs), expected) < 1e-2
    regions = dict.fromkeys(classes(function, inputs), "float16")
    assert "where" in regions
    assert relative_error(cast(function, inputs, regions)(*inputs), expected) < 1e-2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_given_mask_of_the_lowest_number_hides_a_row_as_in_float32(dtype: torch.dtype) -> None:
    least = torch.finfo(torch.float32).min

    def function(x: Tensor, mask: Tensor) -> Tensor:
        # As OPT has it: what is added twice is the lowest number nonetheless.
        scores = torch.max(x @ x.mT + mask, torch.tensor(least))
        return torch.softmax(scores, -1) @ x

    def added(x: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(x @ x.mT + mask, -1) @ x

    x = torch.randn(4, 8)
    for value in (least, -math.inf):
        mask = torch.zeros(4, 4)
        mask[1], mask[:, 3] = value, value
        for hide in (function, added):
            expected = hide(x, mask)
            graph = trace_to_aten(hide, [x, mask])
            actual = cast_graph(graph, [x, mask], dtype)(x, mask)
            assert torch.allclose(actual, expected, atol=0.05, equal_nan=True)
            regions = dict.fromkeys(classes(hide, [x, mask]), str(dtype)[6:])
            actual = cast(hide, [x, mask], regions)(x, mask)
            assert torch.allclose(actual, expected, atol=0.05, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_bounds_and_fills_beyond_a_type(dtype: torch.dtype) -> None:
    least = torch.finfo(torch.float32).min

    def function(x: Tensor) -> Tensor:
        padded = torch.nn.functional.pad((x @ x.mT).clamp(min=least), (1, 1), value=least)
        filled = padded.index_fill(1, torch.tensor([2]), least)
        return filled.scatter(1, torch.tensor([[3], [3]]), least).softmax(-1)

    x = torch.randn(2, 8)
    expected = function(x)
    graph = trace_to_aten(function, [x])
    assert torch.allclose(cast_graph(graph, [x], dtype)(x), expected, atol=0.05)
    regions = dict.fromkeys(classes(function, [x]), str(dtype)[6:])
    assert torch.allclose(cast(function, [x], regions)(x), expected, atol=0.05)


@pytest.mark.parametrize("score", [0.0, -20.0])
def test_a_bounded_mask_that_hides_a_row_gives_numbers(score: float) -> None:
    least = torch.finfo(torch.float32).min

    def function(x: Tensor, mask: Tensor) -> Tensor:
        return torch.softmax(x + mask.clamp(min=least), -1)

    x, mask = torch.full((2, 4), score), torch.zeros(2, 4)
    mask[1] = -math.inf
    expected = function(x, mask)
    actual = cast_graph(trace_to_aten(function, [x, mask]), [x, mask], torch.float16)(x, mask)
    assert torch.allclose(actual, expected, atol=0.05)


def test_fills_and_bounds_of_other_types_and_by_whole_numbers() -> None:
    def wide(x: Tensor) -> Tensor:
        return ((x.double() * 2e5).clamp(max=1e5) * 1e-5).float()

    def whole(x: Tensor) -> Tensor:
        return x.masked_fill(x > 0, -100000).clamp(min=-200000).softmax(-1)

    x = torch.tensor([[1.0, -0.5, 0.25]])
    for function in (wide, whole):
        actual = cast_graph(trace_to_aten(function, [x]), [x], torch.float16)(x)
        assert torch.allclose(actual, function(x), atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_operators_that_have_no_narrow_form_run_in_float32(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> Tensor:
        square = x @ x.mT + 4 * torch.eye(4)
        return torch.cdist(torch.linalg.solve(square, x), x) + torch.linalg.cholesky(square).det()

    x = torch.randn(4, 4)
    expected = function(x)
    graph = trace_to_aten(function, [x])
    assert relative_error(cast_graph(graph, [x], dtype)(x), expected) < 0.05
    regions = dict.fromkeys(classes(function, [x]), str(dtype)[6:])
    assert relative_error(cast(function, [x], regions)(x), expected) < 0.05


@pytest.mark.parametrize("score", [0.0, -20.0, 100.0])
def test_scores_beside_a_mask_that_is_beyond_a_type_stay_numbers(score: float) -> None:
    most = torch.finfo(torch.float32).max

    def function(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return torch.softmax(x - mask, -1), torch.softmax(x + -mask, -1)

    inputs = [torch.full((2, 4), score), torch.full((2, 4), most)]
    graph = cast_graph(trace_to_aten(function, inputs), inputs, torch.float16)
    for result in graph(*inputs):
        assert torch.equal(result, torch.full((2, 4), 0.25))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_that_graphs_hold_as_tensors_are_not_rounded(dtype: torch.dtype) -> None:
    """Beside positions, whose multiples a rounded number makes others."""

    def function(x: Tensor) -> Tensor:
        return x + torch.sin(torch.arange(1000) * torch.tensor(0.1))

    inputs = [torch.zeros(1000)]
    expected = function(*inputs)
    graph = trace_to_aten(function, inputs)
    regions = cast(function, inputs, dict.fromkeys(classes(function, inputs), str(dtype)[6:]))
    for actual in (cast_graph(graph, inputs, dtype)(*inputs), regions(*inputs)):
        assert (actual - expected).abs().max() < torch.finfo(dtype).eps


def test_a_number_beyond_float16_scales_what_is_within() -> None:
    inputs = [torch.rand(4, 8) * 1e-3 + 1e-3]

    def scaled(x: Tensor) -> Tensor:
        return x * torch.tensor(1e6)

    def scaling(x: Tensor) -> Tensor:
        return torch.tensor(1e6) * x

    def divided(x: Tensor) -> Tensor:
        return torch.tensor(1e6) / (x * 1e5 + 100)

    for function in (scaled, scaling, divided):
        expected = function(*inputs)
        whole = cast_graph(trace_to_aten(function, inputs), inputs, torch.float16)
        assert relative_error(whole(*inputs), expected) < 2e-3
        regions = dict.fromkeys(classes(function, inputs), "float16")
        assert relative_error(cast(function, inputs, regions)(*inputs), expected) < 2e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_number_that_is_written_through_another_name_is_what_was_written(
    dtype: torch.dtype,
) -> None:
    def function(x: Tensor) -> Tensor:
        number = torch.tensor(5.0)
        other = number.detach()
        number.add_(1)
        return x * other

    inputs = [torch.rand(4, 8) + 1]
    graph = trace_to_aten(function, inputs)
    error = relative_error(cast_graph(graph, inputs, dtype)(*inputs), function(*inputs))
    assert error < 2 * torch.finfo(dtype).eps


def test_a_cache_that_begins_empty_makes_nothing_float32() -> None:
    def attend(x: Tensor) -> Tensor:
        keys = torch.cat([torch.tensor([]), x], dim=-2)
        return nn.functional.scaled_dot_product_attention(x, keys, keys)

    x = torch.randn(1, 2, 4, 8)
    with torch.no_grad():
        narrow = cast_graph(trace_to_aten(attend, [x]), [x], torch.bfloat16)
        assert torch.allclose(narrow(x), attend(x), atol=0.05) and narrow(x).dtype is torch.float32
    (attention,) = [n for n in narrow.graph.nodes if "scaled_dot" in str(n.target)]
    assert {o.meta["val"].dtype for o in attention.all_input_nodes} == {torch.bfloat16}


def test_a_merge_computes_at_the_most_exact_level_of_what_it_merges() -> None:
    levels = {"linear a": "float16", "linear b": "float16x2", "linear c": "bfloat16"}
    assert most_exact(["linear a", "linear c"], levels) == "linear a"
    assert most_exact(["linear c", "linear b", "linear a"], levels) == "linear b"
    assert most_exact(["linear a", "linear d"], levels) == "linear d"


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (nn.functional.linear, ((2, 7, 64), (48, 64), (48,))),
        (nn.functional.linear, ((7, 64), (48, 64))),
        (torch.mm, ((7, 64), (64, 48))),
        (torch.addmm, ((48,), (7, 64), (64, 48))),
        (torch.bmm, ((3, 7, 64), (3, 64, 48))),
        (torch.matmul, ((2, 7, 64), (64, 48))),
        # Squares of images beside each other; the last column is left over.
        (functools.partial(nn.functional.conv2d, stride=4), ((2, 4, 8, 13), (48, 4, 4, 4), (48,))),
        (functools.partial(nn.functional.conv1d, stride=(8,)), ((2, 8, 24), (48, 8, 8))),
    ],
)
def test_each_level_of_a_product_is_more_exact_than_the_one_before(
    function: Any, shapes: Sequence[tuple[int, ...]]
) -> None:
    inputs = [torch.randn(shape) for shape in shapes]
    (name,) = classes(function, inputs)
    expected = function(*(value.double() for value in inputs))
    errors = {}
    for level in LEVELS:
        result = cast(function, inputs, {name: level})(*inputs)
        assert result.dtype is torch.float32 and result.shape == expected.shape
        errors[level] = relative_error(result, expected)
    order = ["bfloat16", "float16", "float16_float32", "float16x2", "float16x3"]
    assert all(errors[coarse] > errors[fine] for coarse, fine in itertools.pairwise(order))
    assert errors["float16x3"] < 3e-6 < 1e-4 < errors["float16x2"] < 3e-4


@pytest.mark.parametrize(
    "channels_last, padding, dilation, groups, product",
    [
        (False, 0, 1, 1, True),
        (True, 0, 1, 1, True),
        (False, 1, 1, 1, False),
        (False, 0, 2, 1, False),
        (False, 0, 1, 2, False),
    ],
)
def test_convolutions_over_squares_beside_each_other_are_products(
    channels_last: bool, padding: int, dilation: int, groups: int, product: bool
) -> None:
    def forward(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        y = nn.functional.conv2d(x, w, bias, 4, padding, dilation, groups)
        # A view of what lies in memory as the library's result does.
        return y.permute(0, 2, 3, 1).view(-1, 8) if channels_last else y.view(2, 8, -1)

    x, w, bias = torch.randn(2, 4, 16, 17), torch.randn(8, 4 // groups, 4, 4), torch.randn(8)
    if channels_last:
        x, w = (value.to(memory_format=torch.channels_last) for value in (x, w))
    inputs = [x, w, bias]
    (name,) = classes(forward, inputs)
    graph = cast(forward, inputs, {name: "float16x3"})
    names = {operator_name(node) for node in graph.graph.nodes}
    assert ("mm" in names, "conv2d" in names) == (product, not product)
    expected = forward(*[value.double() for value in inputs])
    assert relative_error(graph(*inputs), expected) < 3e-6


def test_an_empty_batch_of_images_stays_one() -> None:
    inputs = [torch.randn(0, 4, 8, 8), torch.randn(6, 4, 4, 4)]

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return nn.functional.conv2d(x, w, stride=4)

    (name,) = classes(forward, inputs)
    assert cast(forward, inputs, {name: "float16x2"})(*inputs).shape == (0, 6, 2, 2)


@pytest.mark.parametrize("level", ["float16", "float32", None])
def test_linear_layers_take_rows_that_lie_one_behind_the_other(level: str | None) -> None:
    """As PyTorch's attention takes a batch; a copy of it is made in the cast, and a product over each row in none."""

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return nn.functional.linear(x.transpose(0, 1), w)

    inputs = [torch.randn(5, 3, 64), torch.randn(48, 64)]
    (name,) = classes(forward, inputs)
    if level is None:
        graph = cast_graph(trace_to_aten(forward, inputs), inputs, torch.bfloat16)
    else:
        graph = cast(forward, inputs, {name: level})
    (layer,) = [node for node in graph.graph.nodes if operator_name(node) == "linear"]
    assert layer.args[0].meta["val"].is_contiguous()
    assert relative_error(graph(*inputs), forward(*inputs)) < 2e-2


def test_weights_are_cast_and_split_in_the_prologue() -> None:
    inputs = [torch.randn(4, 64), torch.randn(48, 64)]
    # A CPU's library multiplies the parts as float32.
    for level, weight in (
        ("float16", ((48, 64), torch.float16)),
        ("float16x3", ((192, 48), torch.float32)),
    ):
        graph = cast(nn.functional.linear, inputs, {"linear 4x64 48x64": level})
        made, rest, _ = split_prologue(graph, [1])
        assert made is not None
        taken = [node.meta["val"] for node in rest.graph.nodes if node.op == "placeholder"]
        assert [(tuple(value.shape), value.dtype) for value in taken] == [
            weight,
            ((4, 64), torch.float32),
        ]


def test_what_takes_the_place_of_products_has_their_level(monkeypatch: pytest.MonkeyPatch) -> None:
    def pattern(x: Tensor, a: Tensor, b: Tensor) -> Any:
        linear = torch.ops.aten.linear.default
        return linear(x, a), linear(x, b)

    def replacement(x: Tensor, a: Tensor, b: Tensor) -> Any:
        both = torch.ops.aten.linear.default(x, torch.ops.aten.cat.default([a, b]))
        return tuple(torch.ops.aten.split.Tensor(both, 16, -1)[i] for i in range(2))

    def function(x: Tensor, a: Tensor, b: Tensor) -> Any:
        return nn.functional.linear(x, a), nn.functional.linear(x, b).relu()

    spec = TensorSpec()
    merge = Rewrite("merge", pattern, replacement, (spec,) * 5, ())
    monkeypatch.setattr(matching, "REWRITES", [merge])
    inputs = [torch.randn(4, 64), torch.randn(16, 64), torch.randn(16, 64)]
    with torch.no_grad():
        graph = trace_to_aten(function, inputs)
        assert matching.apply_rewrites(graph) == {"merge": 1}
        narrow = cast_regions(graph, inputs, {"linear 4x64 16x64": "float16"})
    expected = function(*(value.double() for value in inputs))
    for own, reference in zip(narrow(*inputs), expected, strict=True):
        # As many bits are lost as float16 loses, and no fewer.
        assert 5e-5 < relative_error(own, reference) < 2e-3


def test_statistics_stay_float32_beside_narrow_values() -> None:
    # cuDNN takes float16 with float32 parameters, and with no others.
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    function, inputs = with_weights(module, torch.randn(2, 3, 8, 8))
    (name,) = (one for one in classes(function, inputs) if "batch_norm" in one)
    graph = cast(function, inputs, {name: "float16"})
    (norm,) = (node for node in graph.graph.nodes if "batch_norm" in str(node.target))
    types = [operand.meta["val"].dtype for operand in norm.all_input_nodes]
    assert types == [torch.float16, *[torch.float32] * 4]


def test_a_result_that_repeats_is_not_written_out() -> None:
    def repeating(x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        return y.expand(3, 4, 8), y.sum().expand(5), y.sum(1, keepdim=True).expand(4, 2), y.t()

    inputs = [torch.randn(4, 8)]
    expected = [(value.shape, value.stride()) for value in repeating(*inputs)]
    for one in ("narrow", "region"):
        graph = trace_to_aten(repeating, inputs)
        with torch.no_grad():
            graph = (
                cast_graph(graph, inputs, torch.bfloat16)
                if one == "narrow"
                else cast_regions(graph, inputs, {"exp": "bfloat16", "sum": "bfloat16"})
            )
        results = graph(*inputs)
        assert [(value.shape, value.stride()) for value in results] == expected
        for value, own in zip(results, repeating(*inputs), strict=True):
            torch.testing.assert_close(value, own, atol=0, rtol=3e-2)


def test_whole_numbers_and_what_counts_are_never_cast() -> None:
    module, ids = Block().eval(), torch.randint(100, (2, 16))
    function, inputs = with_weights(module, ids)
    graph = cast(function, inputs, dict.fromkeys(Probe(subject_of(module, ids)).regions, "float16"))
    for node in graph.graph.nodes:
        if str(node.target).startswith("aten._to_copy"):
            assert node.all_input_nodes[0].meta["val"].is_floating_point() or (
                node.meta["val"].dtype is torch.float32
            )
        if str(node.target) in ("aten.sin.default", "aten.arange.start"):
            assert node.meta["val"].dtype is not torch.float16
    with torch.no_grad():
        expected = module.double()(ids)
    assert relative_error(graph(*inputs)[0], expected) < 5e-3


def test_writes_between_regions_are_seen() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 4, 3)
    ).eval()
    x = torch.randn(2, 3, 12, 12)
    found = Probe(subject_of(module, x)).regions
    products = [name for name in found if name.startswith("conv")]
    assert len(products) == 2
    function, inputs = with_weights(module, x)
    for levels in ({products[0]: "float16"}, dict.fromkeys(found, "bfloat16")):
        with torch.no_grad():
            (result,) = cast(function, inputs, levels)(*inputs)
            assert 1e-7 < relative_error(result, module(x)) < 2e-2
            assert result.dtype is torch.float32


DEVICE = Device({EXACT: 1.0, "float16": 10.0, "float16x3": 3.0}, 1.0)


def region(name: str, flops: float, **errors: float) -> Region:
    known = {EXACT: 0.0, **errors}
    return Region(name, 1, flops, 0.0, levels=list(known), errors=known)


def all_known(region: Region, level: str) -> None:
    pytest.fail(f"{level} of {region.name} is known")


def test_the_cheapest_levels_that_fit_are_chosen() -> None:
    regions = [
        region("large", 1000, float16=3e-4, float16x3=1e-6),
        region("small", 10, float16=9e-4, float16x3=1e-6),
        region("overflows", 10, float16=math.inf),
    ]
    choose(regions, 7e-4, DEVICE, all_known)
    assert [one.level for one in regions] == ["float16", "float16x3", EXACT]
    assert share_of(regions[0], regions) > 0.99
    choose(regions, 1e-4, DEVICE, all_known)
    assert [one.level for one in regions] == ["float16x3", "float16x3", EXACT]
    choose(regions, 1e-9, DEVICE, all_known)
    assert [one.level for one in regions] == [EXACT, EXACT, EXACT]


def test_what_is_not_measured_changes_no_choice() -> None:
    """Of many classes as a GPU has them: the same levels as where each ran at all of them, in fewer runs."""
    levels = [name for name in precision._GPU.flops if name not in (EXACT, "bfloat16")]
    runs, all_runs = 0, 0
    for seed in range(300):
        draw = random.Random(seed)
        all_errors: dict[str, dict[str, float]] = {}
        regions = []
        for number in range(draw.randint(1, 25)):
            own = levels if draw.random() < 0.5 else levels[:1]
            errors = {level: 10 ** draw.uniform(-8, -3) for level in own}
            if seed % 2:
                errors = {level: draw.choice((0.0, 1e-5, 1e-4, 1e-3, math.inf)) for level in own}
            if draw.random() < 0.1 or math.isinf(errors["float16"]):
                errors |= {"float16": math.inf, "bfloat16": 10 ** draw.uniform(-6, -2)}
            flops, size = 10 ** draw.uniform(6, 12), 10 ** draw.uniform(4, 9)
            if seed % 3:
                flops, size = draw.choice((0.0, 1e9, 1e12)), draw.choice((0.0, 1e6, 1e9))
            region = Region(str(number), 1, flops, size)
            region.levels = [EXACT, *own]
            all_errors[region.name] = errors
            regions.append(region)

        def measure(region: Region, level: str, errors: Any = all_errors) -> None:
            assert level not in region.errors
            region.errors[level] = errors[region.name][level]
            if level == "float16" and math.isinf(region.errors[level]):
                region.levels.append("bfloat16")

        known = copy.deepcopy(regions)
        for one in known:
            for level in list(one.levels[1:]):
                measure(one, level)
            for level in one.levels:
                if level not in one.errors:
                    measure(one, level)
        for bound in (1e-3, 3e-4, 1e-6):
            choose(regions, bound, precision._GPU, measure)
            choose(known, bound, precision._GPU, all_known)
            assert [one.level for one in regions] == [one.level for one in known]
        runs += sum(len(one.errors) - 1 for one in regions)
        all_runs += sum(len(one.errors) - 1 for one in known)
    assert runs < 0.8 * all_runs


def test_a_graph_that_cannot_be_traced_leaves_others_their_regions() -> None:
    class Transformed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            torch._dynamo.graph_break()
            return torch.func.vmap(lambda row: row.sin() * row.sum())(y)

    probe = Probe(subject_of(Transformed().eval(), torch.randn(4, 8)))
    (product,) = [name for name, region in probe.regions.items() if region.flops]
    seeds = list(probe.subject.references)
    assert 0 < probe.error({product: "bfloat16"}, seeds) < 0.1


def test_errors_that_know_of_each_other_are_planned_for() -> None:
    class Correlated:
        """Together they bring twice what their own errors say."""

        def __init__(self) -> None:
            self.regions = {name: Region(name, 1, 100.0, 0.0) for name in "abcd"}

        def error(self, levels: dict[str, str], seeds: Sequence[int]) -> float:
            own = [4e-4 for level in levels.values() if level != EXACT]
            return math.sqrt(sum(error**2 for error in own)) * (2 if len(own) > 1 else 1)

    probe: Any = Correlated()
    found = assign(probe, 1e-3, Device({EXACT: 1.0, "bfloat16": 10.0}, 1.0), "bfloat16")
    assert found is not None and found.error <= 0.9e-3
    assert 1 <= len(found.levels) < 4
    assert assign(probe, 1e-4, Device({EXACT: 1.0, "bfloat16": 10.0}, 1.0), "bfloat16") is None


@pytest.mark.parametrize("is_faster", [True, False])
def test_levels_come_last_where_no_unit_makes_them_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_faster: bool
) -> None:
    """A time box may end before what wins otherwise."""
    subject = subject_of(Block(), torch.randint(100, (2, 16)))
    found = explore_precision(subject, 1e-1)
    assert found is not None
    budget = 0.6 * found.uniform_error
    monkeypatch.setattr(explore, "cpu_has_faster_products", lambda *_: is_faster)
    other = Script(tmp_path / "other.mlir", "other")
    with Ahead(subject.script, 0) as ahead:
        how = SearchOptions(budget)
        search = Search(subject, [other], tmp_path, tmp_path, how, Clock(), ahead)
        monkeypatch.setattr(search.workshop, "strategy", lambda _: {})
        search._find_precision()
    assert search.regions is not None
    expected = [search.regions, other]
    assert search.scripts == (expected if is_faster else expected[::-1])


def test_a_model_over_the_budget_gets_levels_that_hold_on_every_seed(tmp_path: Path) -> None:
    subject = subject_of(Block(), torch.randint(100, (2, 16)))
    found = explore_precision(subject, 1e-1)
    assert found is not None and found.fits(1e-1) and found.assignment is None
    budget = 0.6 * found.uniform_error
    found = explore_precision(subject, budget)
    assert found is not None and found.assignment is not None and 0 < found.saved_share < 1
    assert found.assignment.error <= 0.9 * budget
    facts = found.assignment.facts()
    assert sum(one["share"] for one in facts["classes"]) == pytest.approx(1)
    assert explore_precision(subject, 0) is None
    (tmp_path / "candidates").mkdir()
    workshop = Workshop(subject, tmp_path / "candidates", budget)
    script = write_script(found.assignment, tmp_path, None)
    assert set(workshop.strategy(script)) == {"freeze", "regions"}
    built = workshop.build([script])
    assert built.failure is None
    # Levels of products are the same values; sums of a compiled program come in another order.
    assert built.verdict.error == pytest.approx(found.assignment.error, rel=0.3)


def test_products_in_parts_run_where_the_library_has_no_float32_results(tmp_path: Path) -> None:
    subject = subject_of(Block(), torch.randint(100, (2, 16)))
    found = assign(Probe(subject), 2e-5, precision._GPU, "float16")
    assert found is not None and found.error <= 1.8e-5
    assert {"float16x3"} <= set(found.levels.values())
    (tmp_path / "candidates").mkdir()
    workshop = Workshop(subject, tmp_path / "candidates", 2e-5)
    assert workshop.build([write_script(found, tmp_path, None)]).failure is None


def test_a_model_without_products_has_no_regions() -> None:
    assert explore_precision(subject_of(nn.LayerNorm(8), torch.randn(4, 8)), 1e-9) is None
