"""Finds which classes of nodes may compute in narrower floats within an error budget: measured one by one, chosen together, confirmed. Needs PyTorch.

Errors are those of the outputs against float64. A class is an operator, and of a product what it multiplies; equal layers are one class, so
they share their level.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import fx

from opprof.backend.checks import SEEDS, Program, Subject
from opprof.backend.emitted.graphs import operator_name, trace_to_aten
from opprof.backend.emitted.precision import exact_nodes
from opprof.backend.emitted.regions import (
    Levels,
    as_product_of_patches,
    class_of,
    split_operands,
    why_not_regions,
    without_writes,
)
from opprof.backend.rewrites import Script
from opprof.files import replacing
from opprof.progress import progress
from opprof.suffixes import MLIR_TEXT

EXACT = "float32"
# Lies beside the report: what the search writes is no recommendation of a rule.
PRECISION_SCRIPT = f"precision-by-region{MLIR_TEXT}"
# Of the budget: what the classes may bring by their own errors, added as if they knew nothing of each other, and what all of them
# together may be measured to bring on every seed, so that other inputs stay within it.
_PLANNED, _CONFIRMED = 0.7, 0.9
_ATTEMPTS = 5
# A class that saves less of all cost is not worth any error.
_WORTH = 0.002
# Stands for the error of outputs that are no numbers where errors are weighed against each other.
_INFINITE = 1e6


@dataclass(frozen=True)
class Device:
    """What computing at a level costs, relative to other levels: operations and bytes in a nanosecond.

    They need be right to some ten percent of each other only: they choose between levels, and what is chosen is measured.
    """

    flops: dict[str, float]
    bytes: float


# An H200's peaks by kind of unit; a CPU's with units for bfloat16.
_GPU = Device(
    {
        EXACT: 67e3,
        "float16": 990e3,
        "bfloat16": 990e3,
        "float16_float32": 990e3,
        "float16x2": 495e3,
        "float16x3": 330e3,
    },
    4.8e3,
)
_CPU = Device({EXACT: 1e3, "bfloat16": 4e3}, 100.0)
_WIDTHS = {"float16": 2, "bfloat16": 2}


@dataclass
class Region:
    """One class of nodes."""

    name: str
    nodes: int = 0
    flops: float = 0.0
    # Of float32 operands and results.
    bytes: float = 0.0
    # Whether it is a product that can be split.
    splits: bool = False
    # What it may compute at.
    levels: list[str] = field(default_factory=lambda: [EXACT])
    # The error of the outputs where this class alone computes at a level, of those that it ran at.
    errors: dict[str, float] = field(default_factory=lambda: {EXACT: 0.0})
    level: str = EXACT

    def cost(self, level: str, device: Device) -> float:
        """Nanoseconds by the device's table."""
        width = _WIDTHS.get(level, 4) / 4
        return self.flops / device.flops[level] + self.bytes * width / device.bytes


@dataclass
class Assignment:
    """Levels for all classes, and what they were measured to bring together."""

    regions: list[Region]
    error: float
    # What the classes' own errors add up to, as if they knew nothing of each other.
    expected: float

    @property
    def levels(self) -> dict[str, str]:
        return {region.name: region.level for region in self.regions if region.level != EXACT}

    def facts(self) -> dict[str, Any]:
        """For optimize.json: the classes, those that bring most of the error first."""
        return {
            "error": self.error,
            "expected_error": self.expected,
            "classes": [
                {
                    "class": region.name,
                    "nodes": region.nodes,
                    "level": region.level,
                    "error": region.errors[region.level],
                    "share": share_of(region, self.regions),
                    "errors": {
                        level: error if math.isfinite(error) else None
                        for level, error in region.errors.items()
                        if level != EXACT
                    },
                }
                for region in sorted(
                    self.regions, key=lambda one: one.errors[one.level], reverse=True
                )
            ],
        }


def share_of(region: Region, regions: Sequence[Region]) -> float:
    """Which part of the squared error a class brings."""
    total = sum(one.errors[one.level] ** 2 for one in regions)
    return region.errors[region.level] ** 2 / total if total else 0.0


class Probe:
    """The model, run operator by operator with each class at a level that can be changed between runs."""

    def __init__(self, subject: Subject, between: Callable[[], None] = lambda: None) -> None:
        self.subject = subject
        self.between = between
        self.levels: dict[str, str] = {}
        self.regions: dict[str, Region] = {}
        self._graphs: list[Levels] = []
        self.program: Program = subject.compiled(self._backend)
        subject.run(self.program, SEEDS[0])

    def error(self, levels: dict[str, str], seeds: Sequence[int]) -> float:
        """The largest error over the seeds; infinite where an output is no number."""
        self.levels.clear()
        self.levels.update(levels)
        self.between()
        error = self.subject.error_of(self.program, seeds)
        return math.inf if math.isnan(error) else error

    def _backend(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        if not all(isinstance(value, torch.Tensor) for value in inputs):
            return module.forward
        with torch.no_grad():
            try:
                graph = trace_to_aten(module, inputs)
            except ValueError:
                # Tracing loses what it computes. Other graphs of the model have their regions all the same.
                return module.forward
            if why_not_regions(graph, inputs) is not None:
                return module.forward
            graph = without_writes(graph, inputs)
        exact = exact_nodes(graph)
        for node in graph.graph.nodes:
            if not exact.intersection([node, *node.all_input_nodes]):
                self._add(node)
        # What is emulated has gradients in float32.
        emulated = self.subject.script.device_type == "cpu" and not self.subject.trains
        runner = Levels(graph, self.levels, emulated=emulated)
        return lambda *values: runner.run(*values)

    def _add(self, node: fx.Node) -> None:
        name = class_of(node)
        if name is None:
            return
        region = self.regions.setdefault(name, Region(name))
        region.nodes += 1
        values = [operand.meta.get("val") for operand in node.all_input_nodes]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        result = torch.utils._pytree.tree_leaves(node.meta["val"])[0]
        region.bytes += 4.0 * (result.numel() + sum(value.numel() for value in tensors))
        operator = operator_name(node)
        region.flops += _flops(operator, result, tensors)
        args = [
            operand.meta.get("val") if isinstance(operand, fx.Node) else operand
            for operand in node.args
        ]
        region.splits = (
            operator in _SPLIT and split_operands(node, args) is not None
        ) or as_product_of_patches(node, args) is not None


_SPLIT = ("linear", "mm", "addmm", "bmm", "matmul")


def _flops(name: str, result: torch.Tensor, operands: Sequence[torch.Tensor]) -> float:
    """Of products; what else there is costs bytes."""
    size = 2.0 * float(result.numel())
    if name in _SPLIT or name == "baddbmm":
        return size * float(operands[1 if "add" in name else 0].shape[-1])
    if name.startswith("conv"):
        weight = operands[1]
        return size * float(weight.numel()) / max(float(weight.shape[0]), 1.0)
    if name == "einsum" and len(operands) == 2:
        # Of M×K, K×N and M×N: what is multiplied is the root of their product.
        sizes = [float(value.numel()) for value in (result, *operands)]
        return 2.0 * math.sqrt(sizes[0] * sizes[1] * sizes[2])
    if "scaled_dot_product" in name:
        return 4.0 * float(operands[0].numel()) * float(operands[1].shape[-2])
    return 0.0


def levels_of(region: Region, narrow: str) -> list[str]:
    """The levels of a class that are worth a run, the cheapest first."""
    if region.splits and narrow == "float16":
        return [narrow, "float16_float32", "float16x2", "float16x3"]
    return [narrow]


def assign(probe: Probe, budget: float, device: Device, narrow: str) -> Assignment | None:
    """The cheapest levels whose error is within the budget, with a margin; None where nothing narrower is."""
    regions = list(probe.regions.values())
    for region in regions:
        region.levels = [EXACT, *levels_of(region, narrow)]
        region.levels += [level for level in region.errors if level not in region.levels]

    def measure(region: Region, level: str) -> None:
        region.errors[level] = probe.error({region.name: level}, SEEDS[:1])
        if level == "float16" and math.isinf(region.errors[level]):
            # Numbers that float16 has no place for.
            region.levels.append("bfloat16")

    planned = _PLANNED * budget
    for _ in range(_ATTEMPTS):
        choose(regions, planned, device, measure)
        expected = _together(regions)
        if all(region.level == EXACT for region in regions):
            return None
        found = Assignment(regions, 0.0, expected)
        found.error = probe.error(found.levels, SEEDS)
        if found.error <= _CONFIRMED * budget:
            return found
        # The errors know of each other: as much less is planned as was found more, and less than before in any case.
        planned = 0.97 * expected * min(1.0, _CONFIRMED * budget / found.error)
    return None


Measure = Callable[[Region, str], None]


def choose(regions: Sequence[Region], bound: float, device: Device, measure: Measure) -> None:
    """Sets the level of each: from the cheapest on, what lowers the error most for its cost goes first, until the bound holds. The levels
    are those that all errors would lead to, and what has no part in the choice is not measured.
    """
    least = _WORTH * sum(region.cost(EXACT, device) for region in regions)
    for region in regions:
        region.level = min(region.levels, key=lambda level: region.cost(level, device))
        if region.cost(EXACT, device) - region.cost(region.level, device) < least:
            region.level = EXACT
        elif region.level not in region.errors:
            measure(region, region.level)
    while _together(regions) > bound:
        change = _best_change(regions, device)
        if change is None:
            return
        region, level = change
        if level in region.errors:
            region.level = level
        else:
            measure(region, level)
    _give_back(regions, bound, least, device, measure)


def _best_change(regions: Sequence[Region], device: Device) -> tuple[Region, str] | None:
    """What lowers the error most for its cost; a level that was not measured counts as exact, so that none is overlooked."""
    best: tuple[float, Region, str] | None = None
    for region in regions:
        own = region.errors[region.level]
        for level in region.levels:
            error = region.errors.get(level, 0.0)
            if error < own:
                saved = min(own, _INFINITE) ** 2 - error**2
                cost = region.cost(level, device) - region.cost(region.level, device)
                worth = saved / max(cost, 1e-9)
                if best is None or worth > best[0]:
                    best = (worth, region, level)
    return None if best is None else best[1:]


def _give_back(
    regions: Sequence[Region], bound: float, least: float, device: Device, measure: Measure
) -> None:
    """Makes those cheaper again that there is room for and that save at least so much, those that save most first."""
    changes = [
        (region.cost(region.level, device) - region.cost(level, device), region, level)
        for region in regions
        for level in region.levels
    ]
    for saved, region, level in sorted(changes, key=lambda change: change[0], reverse=True):
        if saved < least or region.cost(level, device) >= region.cost(region.level, device):
            continue
        if level not in region.errors:
            measure(region, level)
        before = region.level
        region.level = level
        if _together(regions) > bound:
            region.level = before


def _together(regions: Sequence[Region]) -> float:
    return math.sqrt(sum(region.errors[region.level] ** 2 for region in regions))


@dataclass
class Precision:
    """What is known of a model's precision."""

    # The narrow type of the device, and the error of everything in it.
    narrow: str
    uniform_error: float
    # Levels by region, where everything in the narrow type is over the budget and some of it is not.
    assignment: Assignment | None = None
    # Which part of the time that the narrow type saves is saved by the assignment too, by the device's table.
    saved_share: float = 0.0

    def fits(self, budget: float) -> bool:
        """Whether everything may be narrow, with a margin for other inputs."""
        return self.uniform_error <= _CONFIRMED * budget


def explore_precision(
    subject: Subject, budget: float, between: Callable[[], None] = lambda: None
) -> Precision | None:
    """Runs the model operator by operator at other precisions, and calls `between` two of them; None where it has no products, or no
    budget.
    """
    if budget == 0:
        return None
    probe = Probe(subject, between)
    if not any(region.flops for region in probe.regions.values()):
        return None
    gpu = subject.script.device_type == "cuda"
    # Gradients of a mean over many have no place in float16.
    narrow = "float16" if gpu and not subject.trains else "bfloat16"
    device = _GPU if gpu else _CPU
    precision = Precision(narrow, probe.error(dict.fromkeys(probe.regions, narrow), SEEDS))
    if precision.fits(budget):
        return precision
    progress(f"  precision of {len(probe.regions)} classes of nodes, one by one")
    precision.assignment = assign(probe, budget, device, narrow)
    regions = probe.regions.values()
    exact = sum(region.cost(EXACT, device) for region in regions)
    least = sum(region.cost(narrow, device) for region in regions)
    if precision.assignment is not None:
        own = sum(region.cost(region.level, device) for region in regions)
        precision.saved_share = (exact - own) / (exact - least)
    return precision


def write_script(
    assignment: Assignment, folder: Path, saves_ns: int | None, weights: str = "freeze"
) -> Script:
    """The assignment as a rewrite script. `weights` is what becomes of them: "freeze" makes constants of them, "training" casts them in
    each step.
    """
    classes = len(assignment.levels)
    title = f"{classes} of {len(assignment.regions)} classes of nodes in narrower floats, within the error budget"
    explanation = (
        "Each class was run alone at each level against float64; the cheapest levels whose errors fit were confirmed together on "
        f"{len(SEEDS)} inputs: a relative error of {assignment.error:.1e}. Weights are cast {'once' if weights == 'freeze' else 'in each step'}."
    )
    levels = ",\n      ".join(
        f"{_quoted(name)} = {_quoted(level)}" for name, level in sorted(assignment.levels.items())
    )
    strategy = f"{weights}, regions = {{\n      {levels}}}"
    return Script(
        _write(folder / PRECISION_SCRIPT, strategy, title, explanation, assignment.error),
        "precision-by-region",
        title,
        _FINDING,
        explanation,
        saves_ns,
    )


def write_whole(narrow: str, error: float, folder: Path) -> Script:
    """Everything in one narrow type, as the rule recommends it, for what is compiled before the rules have seen a profile."""
    title = f"Everything between inputs and outputs in {narrow}"
    strategy = f"freeze, precision = {_quoted(narrow)}"
    file = _write(folder / f"{narrow}{MLIR_TEXT}", strategy, title, title, error)
    return Script(file, narrow, title, _FINDING, title)


_FINDING = "matrix-units-idle"


def _write(file: Path, strategy: str, title: str, explanation: str, error: float) -> Path:
    """A rewrite script of one strategy."""
    with replacing(file) as stream:
        stream.write(
            "module attributes {transform.with_named_sequence, fx.rewrite = {\n"
            f"  name = {_quoted(file.name.removesuffix(MLIR_TEXT))},\n  finding = {_quoted(_FINDING)},\n"
            f"  title = {_quoted(title)},\n  explanation = {_quoted(explanation)},\n"
            f"  expected_error = {error:.6e}}}}} {{\n"
            "  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {\n"
            f"    transform.fx.region_strategy %root {{{strategy}}} : !transform.any_op\n"
            "    transform.yield\n  }\n}\n"
        )
    return file


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
