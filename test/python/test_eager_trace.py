"""Kernels of an eager program on nodes of its exported graph. The oracle is the program itself: every module, or every call of a function
of torch, marks a range while it runs, and while its backward runs, which the match does not look at."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.profiler import record_function
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from opprof.chain import profile_from_files
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.tools import run_tool


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.q(x) @ self.k(x).transpose(-1, -2) / x.shape[-1] ** 0.5
        return self.out(scores.softmax(-1) @ self.v(x))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = Attention(width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.first(x)))
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.second(x)))))


def transformer() -> tuple[nn.Module, tuple[Any, ...]]:
    return nn.Sequential(*(Block(32) for _ in range(3)), nn.Linear(32, 8)), (torch.randn(4, 6, 32),)


def convolutions() -> tuple[nn.Module, tuple[Any, ...]]:
    """In-place activations, a residual, batch norm in training."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))
            self.norm, self.relu = nn.BatchNorm2d(8), nn.ReLU(inplace=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.relu(self.norm(self.one(x)))
            y = self.two(y)
            y += x
            return self.relu(y)

    return nn.Sequential(
        nn.Conv2d(3, 8, 3), Residual(), Residual(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ), (torch.randn(2, 3, 12, 12),)


def experts() -> tuple[nn.Module, tuple[Any, ...]]:
    """A mixture of experts, each of which every token passes through."""

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(16, 4)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16)) for _ in range(4)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights, _ = self.gate(x).softmax(-1).topk(2, dim=-1)
            mixed = torch.stack([expert(x) for expert in self.experts], -1)
            return (mixed[..., :2] * weights.unsqueeze(-2)).sum(-1)

    return nn.Sequential(Experts(), nn.LayerNorm(16), Experts()), (torch.randn(5, 16),)


class Regions(nn.Module):
    """What an export makes graphs of their own of: autocast, no gradients, a branch, a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.turn, self.out = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.down(nn.functional.gelu(self.up(self.norm(x)))).float()
        with torch.no_grad():
            y = y / (x.abs().amax() + 1)
        y = torch.cond(y.sum() > 1e6, lambda t: t.sigmoid() + 1, lambda t: t.cos() * 2, (y,))
        _, y = torch._higher_order_ops.while_loop(
            lambda i, _: i < 3, lambda i, t: (i + 1, self.turn(t).tanh()), (torch.tensor(0), y)
        )
        return self.out(y)


def ranges_of(name: Callable[[], str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Hooks that begin a range of the name that it has then, and end the last one."""
    open_ranges: list[Any] = []

    def enter(*_: Any) -> None:
        open_ranges.append(record_function(name()))
        open_ranges[-1].__enter__()

    def leave(*_: Any) -> None:
        open_ranges.pop().__exit__(None, None, None)

    return enter, leave


def mark_modules(model: nn.Module, backward: bool) -> None:
    """Every module's forward in a range of its path, and the backward of those without children in one too."""

    # PyTorch forbids hooks of backward where something is written in place.
    inplace = any(getattr(module, "inplace", False) for module in model.modules())

    def hook(path: str, module: nn.Module) -> None:
        enter, leave = ranges_of(lambda: f"module:{path}")
        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)
        if backward and not list(module.children()) and not inplace:
            module.register_full_backward_pre_hook(enter)
            module.register_full_backward_hook(leave)

    for path, module in model.named_modules():
        hook(path, module)


class MarkedFunctions(TorchFunctionMode):
    """Each call of a function of torch in a range of the name that an export gives the nodes of it (`torch_fn`): the how manieth call of
    which function it is. So is what runs for it in the backward, of views too: the functions of autograd that the call recorded. What
    adds to the gradient of a parameter is marked by all calls that take it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Counter[Any]()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.calls[func] += 1
        label = label_of(f"{func.__name__}_{self.calls[func]}", type(func).__name__)
        before = {known.grad_fn for known in tensors_in((args, kwargs or {}))}
        with record_function(f"function:{label}"):
            result = func(*args, **(kwargs or {}))
        open_functions = [tensor.grad_fn for tensor in tensors_in(result)]
        while open_functions:
            function = open_functions.pop()
            if function is None or function in before:
                continue
            labels = function.metadata.setdefault("opprof", [])
            is_parameter = type(function).__name__ == "AccumulateGrad"
            if not labels:
                mark_backward(function, "accumulate" if is_parameter else "backward", labels)
            if not labels or is_parameter:
                labels.append(label)
                open_functions += [following for following, _ in function.next_functions]
        return result


def label_of(call: str, kind: str) -> str:
    return f"{kind}.{call}"


def tensors_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def mark_backward(function: Any, kind: str, labels: list[str]) -> None:
    enter, leave = ranges_of(lambda: f"{kind}:{'|'.join(labels)}")
    function.register_prehook(enter)
    function.register_hook(leave)


def nodes_of_calls(graph: dict[str, Any]) -> dict[str, set[str]]:
    """The nodes of each call of a function of torch, by its label."""
    nodes: dict[str, set[str]] = {}
    for body in graph["graphs"]:
        for node in body["nodes"]:
            if "torch_fn" in node:
                call, function = node["torch_fn"]
                label = label_of(call, function.partition(".")[0])
                nodes.setdefault(label, set()).add(node["name"])
    return nodes


def judge_functions(profile: dict[str, Any], nodes: dict[str, set[str]]) -> Counter[str]:
    """Nanoseconds in ranges of calls that the graph has nodes of, and of those what is on nodes of that call, by direction."""
    time = Counter[str]()
    for kernel in profile["kernels"]:
        duration = kernel["duration_ns"]
        direction, _, labels = kernel.get("range", "").partition(":")
        own = set().union(*(nodes.get(label, set()) for label in labels.split("|")))
        if direction not in ("function", "backward", "accumulate") or not own:
            time["of no node's call"] += duration
            continue
        found = {n["name"] if isinstance(n, dict) else n for n in kernel["nodes"]}
        verdict = "missing" if not found else "right" if found <= own else "wrong"
        for where in (direction, "all"):
            time[where] += duration
            time[f"{where} {verdict}"] += duration
        if verdict == "wrong":
            time[f"wrong at {kernel['confidence']}"] += duration
    return time


def profiled(
    model: nn.Module,
    inputs: tuple[Any, ...],
    folder: Path,
    *,
    train: bool,
    change: Callable[[Any], None],
    mark: str = "modules",
) -> dict[str, Any]:
    """The profile of a trace of three steps of the uncompiled model, joined to its exported graph. `mark` says what has ranges: modules,
    functions or nothing."""
    exported = torch.export.export(model, inputs)
    write_graph_json(folder / "graph.json", source_of_exported_program(exported, "model"))
    run_tool(
        "opprof-translate", ["--import-fx-json", folder / "graph.json"], output=folder / "g.mlir"
    )
    operators = folder / "operators.json"
    run_tool(
        "opprof-translate", ["--export-operator-launches", folder / "g.mlir"], output=operators
    )
    if mark == "modules":
        mark_modules(model, backward=train)
    elif not mark:
        model(*inputs)
    with torch.profiler.profile(record_shapes=True) as recorded:
        for _ in range(3):
            with MarkedFunctions() if mark == "functions" else contextlib.nullcontext():
                result = model(*inputs)
            if train:
                result.sum().backward()
    recorded.export_chrome_trace(str(folder / "trace.json"))
    trace = json.loads((folder / "trace.json").read_text())
    change(trace)
    return joined(trace, folder)


def joined(trace: Any, folder: Path) -> dict[str, Any]:
    """The profile of a trace, joined to the graph that `profiled` left in the folder."""
    (folder / "trace.json").write_text(json.dumps(trace))
    out = run_tool(
        "opprof-translate",
        [
            "--attribute-profile",
            f"--launches={folder / 'operators.json'}",
            folder / "trace.json",
        ],
    )
    return json.loads(out)


#: What a graph calls the operators whose gradients have another name.
WRITTEN = {"convolution": "conv2d", "threshold": "relu", "value_selecting_reduction": "topk"}

MODELS = [transformer, convolutions, experts]


def check_modules(profile: dict[str, Any], least: float) -> None:
    """Every kernel that has a node ran in the range of the node's module, and those that ran in a range have one."""
    modules = {node["name"]: node["module"] for node in profile["nodes"]}
    wrong, count = [], Counter[str]()
    for kernel in profile["kernels"]:
        marked = kernel.get("range", "")
        # The hooks of backward call view_as.
        if not marked.startswith("module:") or kernel["host_op"] == "aten::view_as":
            continue
        # The hooks add gradients too.
        if not kernel["nodes"] and re.search(
            "that no node of the graph recorded|in the backward of BackwardHookFunction",
            kernel["explanation"],
        ):
            count[f"accumulated by {kernel['host_op']}"] += 1
            continue
        count["all"] += 1
        for node in kernel["nodes"]:
            # The hooks of modules without a range in backward leave the one around them.
            if modules[node] != marked.removeprefix("module:"):
                wrong.append((kernel["name"], marked, node, kernel["confidence"]))
            else:
                count["right"] += 1
    assert not wrong
    assert count["right"] >= least * count["all"], count


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_forward(make: Callable[[], Any], tmp_path: Path) -> None:
    model, inputs = make()
    profile = profiled(model.eval(), inputs, tmp_path, train=False, change=lambda _: None)
    check_modules(profile, least=0.99)
    assert {kernel["confidence"] for kernel in profile["kernels"] if kernel["nodes"]} == {"high"}


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_backward(make: Callable[[], Any], tmp_path: Path) -> None:
    model, inputs = make()
    profile = profiled(model.train(), inputs, tmp_path, train=True, change=lambda _: None)
    check_modules(profile, least=0.95)
    methods = Counter(kernel["method"] for kernel in profile["kernels"])
    assert methods["operator"] and methods["sequence_number"]
    # An operator that computes a gradient says whose in its name.
    for kernel in profile["kernels"]:
        if match := re.fullmatch(r"aten::_?(?:native_)?(\w+?)_backward(_data)?", kernel["host_op"]):
            (node,) = kernel["nodes"]
            assert re.sub(r"_\d+$", "", node).startswith(WRITTEN.get(match[1], match[1])), kernel


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_calls_and_their_backward(make: Callable[[], Any], tmp_path: Path) -> None:
    """By calls, not modules: sums of gradients for biases too, which autograd's engine runs and no function of it."""
    model, inputs = make()
    profile = profiled(
        model.train(), inputs, tmp_path, train=True, change=lambda _: None, mark="functions"
    )
    time = judge_functions(
        profile, nodes_of_calls(json.loads((tmp_path / "graph.json").read_text()))
    )
    assert time["function right"] and time["backward right"]
    assert not [key for key in time if "wrong" in key], time
    missing = {
        kernel["host_op"]
        for kernel in profile["kernels"]
        if kernel.get("range", "").startswith(("function:", "backward:")) and not kernel["nodes"]
    }
    assert not missing


def test_operators_that_the_graph_lacks(tmp_path: Path) -> None:
    """What is taken out of the trace moves no other kernel to another node."""
    model, inputs = transformer()

    def drop(trace: Any) -> None:
        seen = 0
        kept = []
        for event in trace["traceEvents"]:
            seen += event.get("name") == "aten::layer_norm"
            # The second block's first norm, with what it calls.
            if seen % 6 == 3 and re.fullmatch("aten::(native_)?layer_norm", str(event.get("name"))):
                continue
            kept.append(event)
        trace["traceEvents"] = kept

    profile = profiled(model.eval(), inputs, tmp_path, train=False, change=drop)
    check_modules(profile, least=0.9)


@torch.library.custom_op("opprof_test::exported_addmm", mutates_args=())
def exported_addmm(bias: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.addmm(bias, x, weight)


@exported_addmm.register_fake
def _(bias: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], weight.shape[1])


def test_another_operator_of_the_same_tensors(tmp_path: Path) -> None:
    """A model may call one operator and export another, as mixtures of experts do: it is on its node, and never sure."""

    class Chooses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(8, 6)), nn.Parameter(torch.randn(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            operator = exported_addmm if torch.compiler.is_exporting() else torch.addmm
            return operator(self.bias, x.relu(), self.weight).tanh()

    model = nn.Sequential(Chooses(), nn.Linear(6, 8), Chooses()).requires_grad_(False)
    profile = profiled(model, (torch.randn(3, 8),), tmp_path, train=False, change=lambda _: None)
    check_modules(profile, least=1.0)
    found = [kernel for kernel in profile["kernels"] if kernel["host_op"] == "aten::addmm"]
    assert Counter(node for kernel in found for node in kernel["nodes"]) == {
        "exported_addmm": 3,
        "exported_addmm_1": 3,
    }
    assert {kernel["confidence"] for kernel in found} == {"medium"}


def test_a_run_folder_of_an_eager_trace(tmp_path: Path) -> None:
    """`opprof profile --graph --trace` without code: steps, findings on nodes, and the annotated program."""
    model, inputs = convolutions()
    profiled(model.eval(), inputs, tmp_path, train=False, change=lambda _: None)
    page = profile_from_files(
        tmp_path / "graph.json", None, tmp_path / "trace.json", tmp_path / "run"
    )
    profile = json.loads((tmp_path / "run" / "profile.opprof.json").read_text())
    assert profile["summary"]["steps_from"] == "graph_passes"
    assert profile["summary"]["steps"] == 3
    assert "ran uncompiled" in page
    slowest = run_tool("opprof-opt", ["--print-slowest=3", tmp_path / "run" / "program.mlirbc"])
    assert b"conv2d" in slowest


def test_a_profile_is_attached_to_a_graph_with_views(tmp_path: Path) -> None:
    """The program that is made for it is of the graph that ran, and not of one that Inductor lowered."""
    model, inputs = experts()
    profile = profiled(model.train(), inputs, tmp_path, train=True, change=lambda _: None)
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    attach = f"--attach-profile={tmp_path / 'profile.json'}"
    program = run_tool("opprof-opt", [attach, tmp_path / "g.mlir"]).decode()
    assert '"aten.slice.Tensor"' in program and "inductor.program of @model" in program
    assert "post_grad" not in program


def test_operators_of_regions_branches_and_loops(tmp_path: Path) -> None:
    """Bodies of higher-order operators are graphs of their own: what they run is on their nodes, not nowhere."""
    model = Regions().eval().requires_grad_(False)
    # Dynamo runs the branch and the loop: it takes no ranges, and traces them in the first call.
    profile = profiled(
        model, (torch.randn(4, 16),), tmp_path, train=False, change=lambda _: None, mark=""
    )
    found: dict[str, set[tuple[str, str]]] = {}
    nodes = Counter[str]()
    for kernel in profile["kernels"]:
        for node in kernel["nodes"]:
            graph, name = (node["graph"], node["name"]) if isinstance(node, dict) else ("", node)
            found.setdefault(kernel["host_op"], set()).add((graph, kernel["confidence"]))
            nodes[re.sub(r"_\d+$", "", name)] += 1
    # Three passes; the loop turns three times in each.
    assert nodes["layer_norm"] == nodes["gelu"] == nodes["amax"] == nodes["cos"] == 3
    assert nodes["tanh"] == 9
    assert nodes["linear"] == 3 * (2 + 3 + 1)
    assert "sigmoid" not in nodes
    ((region, confidence),) = found["aten::layer_norm"]
    assert region and confidence == "high"
    assert {name.partition("_graph")[0] for name, _ in found["aten::cos"]} == {"false"}
    assert {(name.partition("_graph")[0], sure) for name, sure in found["aten::tanh"]} == {
        ("while_loop_body", "medium")
    }
