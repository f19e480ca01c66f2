"""`opprof profile` of TorchScript archives: which node an operator is, and what is said of how TorchScript ran it.

The oracles of the join are sizes, which it does not look at, as every node of the models takes tensors of sizes that no other takes,
and the module that calls each function when Python runs the model.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchscript_models import CASES, Mixtures, save, texts_of

from opprof.commands.cli import main
from opprof.commands.profile import ProfileOptions, profile_script
from opprof.errors import OpprofError
from opprof.export.archive_script import check_version, load_archive
from opprof.recording.script_operators import join_operators
from opprof.recording.torch_profiler import trace_steps
from opprof.tools import find_tool
from opprof.torchscript import TOOL, TorchScriptOptions

try:
    find_tool(TOOL)
except OpprofError:
    pytest.skip("this build has no LibTorch", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")

STEPS = 2


class Block(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width + 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Widths(nn.Module):
    """The same lines run for every layer, and a line runs an operator several times: only sizes tell them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width, 11 * width) for width in (3, 4, 5, 6))
        self.a = nn.Parameter(torch.randn(7))
        self.b = nn.Parameter(torch.randn(2, 1))
        self.c = nn.Parameter(torch.randn(5, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return torch.mul(torch.mul(torch.mul(x, self.a), self.b), self.c)


class Merged(nn.Module):
    """TorchScript computes what stands on the line twice only once, so that its operator is neither node with certainty."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.tanh(x), torch.tanh(x)])


def sizes_by_node(document: dict[str, Any]) -> dict[str, list[list[int]]]:
    """The sizes of the tensors that each node takes."""
    graph = document["graphs"][0]
    nodes = list(nodes_of(graph))
    taken = [
        one
        for block in (graph, *(b for n in nodes for b in n.get("blocks", ())))
        for one in block["inputs"]
    ]
    shapes = {
        one["name"]: document["types"][one["type"]]["tensor"]["shape"]
        for one in (*taken, *nodes)
        if "tensor" in document["types"][one.get("type", 0)]
    }
    return {
        node["name"]: [
            shapes[argument["node"]]
            for argument in node["args"]
            if isinstance(argument, dict) and argument.get("node") in shapes
        ]
        for node in nodes
    }


def nodes_of(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes of a graph, and those in their blocks."""
    for node in block["nodes"]:
        yield node
        for inner in node.get("blocks", ()):
            yield from nodes_of(inner)


def recorded(archive: Path, *texts: str) -> tuple[Any, dict[str, Any], list[dict[str, Any]]]:
    """What was joined, the graph, and the events of the trace with their ranges."""
    trace = archive.with_name("trace.json.gz")
    script = load_archive(
        archive, TorchScriptOptions(inputs=texts), archive.with_name("graph.json")
    )
    step = script.step_of(script.module)
    for _ in range(3):
        step()
    trace_steps(step, STEPS, trace, with_stack=True)
    joined = join_operators(trace, script.graph, STEPS)
    with gzip.open(trace, "rt") as file:
        return joined, script.graph, json.load(file)["traceEvents"]


@pytest.mark.parametrize("form", ["scripted", "traced"])
def test_operators_are_their_nodes(tmp_path: Path, form: str) -> None:
    archive = tmp_path / "widths.pt"
    model, inputs = Widths().eval(), (torch.randn(2, 3),)
    made = (
        torch.jit.script(model)
        if form == "scripted"
        else torch.jit.trace(model, inputs, check_trace=False)
    )
    made.save(archive)
    joined, document, events = recorded(archive, "2x3xf32")
    assert joined.joined == joined.ran == STEPS * (4 * 3 + 3), joined
    expected = sizes_by_node(document)
    assert len({json.dumps(sizes) for sizes in expected.values()}) == len(expected)
    seen = []
    for place, event in enumerate(events):
        if str(event.get("name")).startswith("opprof::node::widths::export::"):
            node, operator = event["name"].rpartition("::")[2], events[place + 1]
            assert (operator["ts"], operator["dur"]) == (event["ts"], event["dur"])
            dims = [sizes for sizes in operator["args"]["Input Dims"] if sizes]
            assert dims == expected[node], (node, operator["name"])
            seen.append(node)
    assert sorted(seen) == sorted([*expected] * STEPS)
    assert not any(event.get("cat") == "python_function" for event in events)


class Products(nn.Module):
    """Calls addmm first, last, twice in a row, in a loop, and where a branch hides another one, with sizes of its own each time."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(3, 4), (4, 5), (5, 6), (6, 7), (7, 7), (7, 8)]
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(size)) for size in sizes)
        self.biases = nn.ParameterList(nn.Parameter(torch.randn(size[1])) for size in sizes)

    def forward(self, x: Tensor, rounds: int) -> Tensor:
        w, b = list(self.weights), list(self.biases)
        x = torch.addmm(b[1], torch.addmm(b[0], x, w[0]), w[1])
        x = torch.tanh(torch.addmm(b[2], torch.relu(x), w[2]))
        x = torch.addmm(b[3], x, w[3])
        for _ in range(rounds):
            x = torch.addmm(b[4], torch.sigmoid(x), w[4])
        return torch.addmm(b[5], torch.cos(x), w[5])


def test_products_that_are_taken_apart(tmp_path: Path) -> None:
    """TorchScript runs addmm as mm and add, at lines of its own, in a loop and beside it too."""
    archive = tmp_path / "products.pt"
    torch.jit.script(Products().eval()).save(archive)
    joined, document, events = recorded(archive, "2x3xf32", "2")
    assert not joined.left
    sizes = sizes_by_node(document)
    seen = []
    for place, event in enumerate(events):
        node = str(event.get("name")).removeprefix("opprof::node::products::export::")
        if node in sizes and events[place + 1]["name"] == "aten::mm":
            # What the interpreter holds besides stands before them.
            assert events[place + 1]["args"]["Input Dims"][-2:] == sizes[node][1:], node
            seen.append(node)
    nodes = nodes_of(document["graphs"][0])
    products = [node["name"] for node in nodes if node["target"].startswith("aten.addmm")]
    assert len(products) == 6
    assert seen == [*products[:4], *[products[4]] * 2, products[5]] * STEPS


class Boxes(nn.Module):
    """Gives nothing: it puts the boxes of what is likely into a list."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Parameter(torch.randn(1, 8))
        self.refine = nn.Parameter(torch.randn(8, 8))
        self.box = nn.Parameter(torch.randn(4, 8))

    def forward(self, feature: Tensor, boxes: list[Tensor]) -> None:
        score = torch.sigmoid(nn.functional.linear(feature, self.score)).squeeze(1)
        keep = torch.nonzero(score > 0.5).squeeze(1)
        if keep.numel() > 0:
            kept = feature[keep]
            while bool(kept.abs().max() > 4.0):
                kept = torch.tanh(nn.functional.linear(kept, self.refine))
            boxes.append(torch.exp(nn.functional.linear(kept, self.box)))


class Detecting(nn.Module):
    """Three heads of one class, called in a loop over two levels."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Boxes() for _ in range(3))

    def forward(self, x: Tensor, levels: int) -> Tensor:
        boxes: list[Tensor] = [torch.zeros(1, 4)]
        for _ in range(levels):
            for head in self.heads:
                head(x, boxes)
            x = 1.5 * x
        return torch.cat(boxes)


#: Functions that Python and TorchScript both run, under the same name, as one call.
SAME = ("linear", "relu", "softmax", "sigmoid", "exp", "tanh", "argmax", "zeros_like", "index_add_")


class Callers(torch.overrides.TorchFunctionMode):
    """Writes down which module of the model calls a function."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.ran: list[tuple[str, str]] = []
        self.inside = [""]
        for path, module in model.named_modules():
            if path:
                module.register_forward_pre_hook(lambda *_, path=path: self.inside.append(path))
                module.register_forward_hook(lambda *_: self.inside.pop() and None)

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function.__name__ in SAME:
            self.ran.append((function.__name__, self.inside[-1]))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("made", [Mixtures, Detecting])
def test_branches_without_results(tmp_path: Path, made: type[nn.Module]) -> None:
    """TorchScript does not say which of several calls led to such a branch, whose lines are the same in all of them."""
    torch.manual_seed(0)
    model = made().eval()
    archive = tmp_path / "branches.pt"
    torch.jit.script(model).save(archive)
    texts = ("32x8xf32",) if made is Mixtures else ("32x8xf32", "2")
    joined, document, events = recorded(archive, *texts)
    # Python's conversion to bool, which the condition of the loop has, is a node of Python's.
    assert set(joined.left) <= {"aten::item"}
    args = load_archive(
        archive, TorchScriptOptions(inputs=texts), archive.with_name("graph.json")
    ).args
    with torch.no_grad(), Callers(model) as callers:
        model(*args)
    modules = {
        node["name"]: document["modules"][node["modules"]][-1]["path"]
        for node in nodes_of(document["graphs"][0])
    }
    # A call of the model's own code, and one of each module inside it.
    stacks = {
        n["name"]: len(document["stacks"][n["stack"]]) for n in nodes_of(document["graphs"][0])
    }
    depth = {"": 1, "layers": 2, "heads": 2, "experts": 3}
    for name, path in modules.items():
        kind = (path.split(".") or [""])[-2:-1] or [""]
        assert stacks[name] == depth[kind[0]], (name, path)
    assert len({calls for calls in modules.values() if "experts" in calls or "heads" in calls}) > 2
    seen = []
    for place, event in enumerate(events):
        if str(event.get("name")).startswith("opprof::node::branches::"):
            operator = events[place + 1]["name"].removeprefix("aten::")
            if operator in SAME:
                seen.append((operator, modules[event["name"].rpartition("::")[2]]))
    assert len(callers.ran) > 20
    assert seen == callers.ran * STEPS


def test_what_is_not_certain_is_left(tmp_path: Path) -> None:
    archive = tmp_path / "merged.pt"
    torch.jit.script(Merged()).save(archive)
    joined, _, _ = recorded(archive, "4xf32")
    assert joined.left == {"aten::tanh": STEPS}
    assert joined.joined == STEPS


@pytest.mark.parametrize("name", ["detector", "lstm", "decoder", "cnn-traced"])
def test_profile_of_an_archive(tmp_path: Path, name: str) -> None:
    """The report is of the nodes and lines of the archive's code, with control flow too, and says what ran it."""
    case = CASES[name]
    archive = tmp_path / "model.pt"
    save(case, archive)
    options = ProfileOptions(
        warm_up=1,
        traced=STEPS,
        timed=3,
        timed_seconds=0.2,
        mode="eager",
        archive=TorchScriptOptions(inputs=texts_of(case.inputs)),
    )
    folder = profile_script(str(archive), tmp_path / "run", options)
    facts = folder.read_run()["torchscript"]
    assert facts["executor"] == "profiling" and facts["optimized"]
    assert facts["fused_groups"] == 0
    operators = facts["operators"]
    assert operators["ran"] > 0
    assert operators["joined"] + sum(operators["left"].values()) == operators["ran"]
    report = folder.report_text.read_text()
    assert "TorchScript's profiling executor ran the archive" in report
    profile = json.loads(folder.profile.read_text())
    sources = [node["source"] for node in profile["nodes"] if node.get("source")]
    assert any("/code/__torch__/" in json.dumps(source) for source in sources)
    # What ran in branches and loops has its module and line, as everything else has.
    assert all(node["source"] and node["module"] is not None for node in profile["nodes"])
    assert not any("a GPU's program" in note for note in profile["notes"])


def test_wrong_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "model.pt"
    save(CASES["perceptron"], archive)

    def refusal(*options: str) -> str:
        assert main(["profile", str(archive), "-o", str(tmp_path / "run"), *options]) == 1
        return capsys.readouterr().err

    assert "argument 'x' (Tensor) has no --input" in refusal()
    assert "no method 'other'" in refusal("--method=other", "--input=2x8xf32")
    assert "leave out --mode" in refusal("--mode=inductor", "--input=2x8xf32")
    script = tmp_path / "script.py"
    script.write_text("")
    archive = script
    assert "--method and --input are for TorchScript archives" in refusal("--input=2x8xf32")


def test_another_pytorch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OpprofError, match=r"built against PyTorch 2\.0\.1, and this Python has"):
        check_version(tmp_path / "model.pt", {"producer": {"torch": "2.0.1"}})
    check_version(tmp_path / "model.pt", {"producer": {"torch": torch.__version__}})


class Counts(nn.Module):
    """Makes places on the device that it is given, of which the tracer keeps the one that it ran on."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.table(torch.arange(x.shape[0], device=x.device)) + x[:, None]
        return result


def test_an_archive_that_is_tied_to_the_device_of_its_trace(tmp_path: Path) -> None:
    file = tmp_path / "counts.pt"
    torch.jit.trace(Counts().eval(), torch.randn(5)).save(str(file))
    script = load_archive(file, TorchScriptOptions(inputs=["5xf32"]), tmp_path / "graph.json")
    assert script.why_tied_to_another(None) is script.why_tied_to_another("cpu") is None
    remedy = script.why_tied_to_another("cuda")
    assert remedy is not None
    assert "counts.pt/code/__torch__/" in remedy and "trace it on cuda" in remedy
