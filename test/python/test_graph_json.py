"""The graph JSON writer: every form of argument and type, every stage, equal files for equal programs."""

import json
import math
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import EXAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import EXAMPLE_NAMES
from torch import fx

from opprof.export.graph_json import (
    STAGES,
    GraphSource,
    clean_module_path,
    parse_stack_trace,
    source_of_exported_program,
    write_graph_json,
)
from opprof.export.graph_values import target_name
from opprof.export.model_script import load_model_script
from opprof.export.stages import capture


def written(tmp_path: Path, source: GraphSource) -> dict[str, Any]:
    """The file that the writer makes of a graph, loaded."""
    path = tmp_path / "graph.json"
    write_graph_json(path, source)
    return json.loads(path.read_text())


def exported(tmp_path: Path, module: torch.nn.Module, *args: Any, **options: Any) -> dict[str, Any]:
    """The file of a module's export."""
    program = torch.export.export(module, args, **options)
    return written(tmp_path, source_of_exported_program(program, "model"))


def one_argument(tmp_path: Path, value: Any) -> Any:
    """How the writer puts down one argument of a node."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(operator.add, (x, value)),))
    source = GraphSource(fx.GraphModule({}, graph), "model", "dynamo")
    return written(tmp_path, source)["graphs"][0]["nodes"][0]["args"][1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (-(2**63), -(2**63)),
        (2**63, {"int": "9223372036854775808"}),
        (1.5, 1.5),
        (1e300, 1e300),
        (math.inf, {"float": "inf"}),
        (-math.inf, {"float": "-inf"}),
        ("text", "text"),
        ([1, [2, None]], [1, [2, None]]),
        ((1, 2), {"tuple": [1, 2]}),
        ({"k": (1,)}, {"dict": [["k", {"tuple": [1]}]]}),
        (slice(None, 4, 2), {"slice": [None, 4, 2]}),
        (Ellipsis, {"ellipsis": True}),
        (1 + 2j, {"complex": [1.0, 2.0]}),
        (complex(0.0, math.inf), {"complex": [0.0, {"float": "inf"}]}),
        (torch.bfloat16, {"dtype": "bfloat16"}),
        (torch.device("cuda", 1), {"device": "cuda:1"}),
        (torch.strided, {"layout": "strided"}),
        (torch.channels_last, {"memory_format": "channels_last"}),
        (torch.ops.aten.add.Tensor, {"op": "aten.add.Tensor"}),
    ],
)
def test_argument(tmp_path: Path, value: Any, expected: Any) -> None:
    result = one_argument(tmp_path, value)
    assert result == expected
    assert type(result) is type(expected)


def test_argument_nan(tmp_path: Path) -> None:
    assert one_argument(tmp_path, math.nan) == {"float": "nan"}


def test_argument_of_unknown_type_is_kept_as_text(tmp_path: Path) -> None:
    result = one_argument(tmp_path, range(3))
    assert result == {"object": {"type": "range", "repr": "range(0, 3)"}}


ARGUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.sampled_from([torch.float32, torch.int64, torch.device("cpu"), Ellipsis]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=8,
)


def decoded(value: Any) -> Any:
    """The Python value that an argument in the file stands for."""
    if isinstance(value, list):
        return [decoded(element) for element in value]
    if not isinstance(value, dict):
        return value
    ((key, content),) = value.items()
    decoders = {
        "int": int,
        "float": float,
        "complex": lambda parts: complex(*(decoded(part) for part in parts)),
        "tuple": lambda elements: tuple(decoded(element) for element in elements),
        "dict": lambda pairs: {decoded(k): decoded(v) for k, v in pairs},
        "dtype": lambda name: getattr(torch, name),
        "device": torch.device,
        "ellipsis": lambda _: Ellipsis,
    }
    return decoders[key](content)


# A machine that does other things as well is no fault.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(value=ARGUMENTS)
def test_arguments_lose_nothing(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    result = one_argument(tmp_path_factory.mktemp("graph"), value)
    # repr tells apart what == does not: nan from nan never, 1 from True and 1.0, 0.0 from -0.0.
    assert repr(decoded(result)) == repr(value)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (torch.ops.aten.add.Tensor, "aten.add.Tensor"),
        (torch.ops.aten.add, "aten.add"),
        (operator.getitem, "operator.getitem"),
        (math.sqrt, "math.sqrt"),
        (torch.relu, "torch.relu"),
        (torch.nn.functional.gelu, "torch._C._nn.gelu"),
        (torch.nn.functional.softmax, "torch.nn.functional.softmax"),
        (torch.ops.higher_order.cond, "higher_order.cond"),
        ("view", "view"),
    ],
)
def test_target_name(target: Any, expected: str) -> None:
    assert target_name(target) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ""),
        ("h.0.mlp", "h.0.mlp"),
        ("L['self']", ""),
        ("L['self'].fc1", "fc1"),
        ("L['self'].h[0].mlp", "h.0.mlp"),
        ("L['self']._modules['h']._modules['0']._parameters['w']", "h.0.w"),
        ("L__self__.h.0", "h.0"),
    ],
)
def test_clean_module_path(path: str, expected: str) -> None:
    assert clean_module_path(path) == expected


def test_parse_stack_trace() -> None:
    text = (
        '  File "/elsewhere/model.py", line 7, in forward\n'
        "    return self.fc(x)\n"
        "           ^^^^^^^^^^\n"
        '  File "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 9, in forward\n'
        "    return F.linear(input)\n"
    )
    assert parse_stack_trace(text) == [
        {
            "file": "/elsewhere/model.py",
            "line": 7,
            "function": "forward",
            "code": "return self.fc(x)",
        },
        {
            "file": "site-packages/torch/nn/modules/linear.py",
            "line": 9,
            "function": "forward",
            "code": "return F.linear(input)",
        },
    ]


class Mixed(torch.nn.Module):
    """A parameter, a mutated buffer, one that is not saved, a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.count.add_(1)
        y = x * self.weight + self.scratch + torch.tensor([1.0, 2.0, 3.0])
        return y, y.to(torch.float64)


def test_signature(tmp_path: Path) -> None:
    graph = exported(tmp_path, Mixed().eval(), torch.ones(2, 3))["graphs"][0]
    kinds = {entry["target"]: entry for entry in graph["inputs"] if "target" in entry}
    assert kinds["weight"]["kind"] == "parameter"
    assert kinds["count"]["kind"] == "buffer"
    assert "persistent" not in kinds["count"]
    assert kinds["scratch"]["persistent"] is False
    assert [entry["kind"] for entry in graph["inputs"]].count("constant_tensor") == 1
    assert [entry["kind"] for entry in graph["outputs"]].count("user_output") == 2


def test_a_mutated_buffer_is_an_output(tmp_path: Path) -> None:
    program = torch.export.export(Mixed().eval(), (torch.ones(2, 3),)).run_decompositions()
    graph = written(tmp_path, source_of_exported_program(program, "model"))["graphs"][0]
    assert [(o["kind"], o.get("target")) for o in graph["outputs"]] == [
        ("buffer_mutation", "count"),
        ("user_output", None),
        ("user_output", None),
    ]


def test_symbolic_shapes(tmp_path: Path) -> None:
    class Halve(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(x.shape[0] // 2, -1)

    batch = torch.export.Dim("batch", min=2, max=64)
    file = exported(tmp_path, Halve(), torch.ones(8, 3), dynamic_shapes={"x": {0: 2 * batch}})
    graph = file["graphs"][0]
    symbol = min(graph["range_constraints"], key=len)
    x = file["types"][graph["inputs"][0]["type"]]["tensor"]
    assert x["shape"] == [f"2*{symbol}", 3]
    assert graph["range_constraints"] == {symbol: [2, 64], f"2*{symbol}": [4, 128]}
    assert any("symint" in entry for entry in file["types"] if isinstance(entry, dict))


def test_ranges_without_an_end(tmp_path: Path) -> None:
    """Of integers, of which PyTorch has an infinity of its own, and of reals, where it is sympy's."""

    class Ranges(torch.nn.Module):
        def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
            return x[x > 0] * factor.item()

    rows = torch.export.Dim("rows", min=2)
    file = exported(
        tmp_path,
        Ranges(),
        torch.ones(8, 3),
        torch.tensor(0.5),
        dynamic_shapes={"x": {0: rows}, "factor": None},
    )
    ranges = file["graphs"][0]["range_constraints"]
    assert [2, None] in ranges.values() and [None, None] in ranges.values()


def test_subgraphs_of_higher_order_operators(tmp_path: Path) -> None:
    class Branch(torch.nn.Module):
        def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(flag, lambda v: v.sin(), lambda v: v.cos(), (x,))

    file = exported(tmp_path, Branch(), torch.tensor(True), torch.ones(3))
    names = [graph["name"] for graph in file["graphs"]]
    assert names[0] == "model" and len(names) == 3
    (cond,) = [n for n in file["graphs"][0]["nodes"] if n["target"] == "higher_order.cond"]
    assert [argument["graph"] for argument in cond["args"][1:3]] == names[1:]
    targets = [[node["target"] for node in graph["nodes"]] for graph in file["graphs"][1:]]
    assert targets == [["aten.sin.default"], ["aten.cos.default"]]


def references(value: Any) -> Iterator[str]:
    """The nodes that an argument refers to."""
    if isinstance(value, dict):
        if "node" in value:
            yield value["node"]
        for element in value.values():
            yield from references(element)
    elif isinstance(value, list):
        for element in value:
            yield from references(element)


def check_file(file: dict[str, Any]) -> None:
    """What every reader relies on: the order of keys, references that go backwards, indices in range."""
    assert list(file) == [
        "opprof_graph_version",
        "producer",
        "types",
        "stacks",
        "modules",
        "graphs",
    ]
    for graph in file["graphs"]:
        assert list(graph)[:4] == ["name", "stage", "inputs", "nodes"]
        known = {entry["name"] for entry in graph["inputs"]}
        assert len(known) == len(graph["inputs"])
        for node in graph["nodes"]:
            assert set(references([node["args"], list(node["kwargs"].values())])) <= known
            assert node["name"] not in known
            known.add(node["name"])
            for key, table in (("type", "types"), ("stack", "stacks"), ("modules", "modules")):
                if key in node:
                    assert 0 <= node[key] < len(file[table])
        for output in graph["outputs"]:
            assert set(references(output["value"])) <= known


@pytest.mark.parametrize("example", EXAMPLE_NAMES)
def test_examples(tmp_path: Path, example: str) -> None:
    script = load_model_script(EXAMPLES / f"{example}.py")
    program = torch.export.export(script.module, script.args, script.kwargs)
    file = written(tmp_path, source_of_exported_program(program, script.name))
    check_file(file)
    graph = file["graphs"][0]
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    assert [node["name"] for node in graph["nodes"]] == [node.name for node in calls]
    assert all("type" in node and "stack" in node for node in graph["nodes"])
    # The line that a node belongs to is the script's own.
    own = [
        [frame for frame in file["stacks"][node["stack"]] if not frame["file"].startswith("site-")]
        for node in graph["nodes"]
    ]
    assert all(frames and frames[-1]["file"].endswith(f"{example}.py") for frames in own)


TWO_LAYERS = """
    class TwoLayers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(8, 8)
            self.second = torch.nn.Linear(8, 4)

        def forward(self, x):
            return self.second(self.first(x).relu())


    def get_model_and_input():
        torch.manual_seed(0)
        return TwoLayers(), torch.randn(2, 8)
"""


@pytest.mark.parametrize("stage", STAGES)
def test_stages(tmp_path: Path, script: Any, stage: str) -> None:
    (source,) = capture(load_model_script(script(TWO_LAYERS)), stage)[:1]
    file = written(tmp_path, source)
    check_file(file)
    graph = file["graphs"][0]
    assert graph["stage"] == stage
    modules = {
        file["modules"][node["modules"]][-1]["path"] for node in graph["nodes"] if "modules" in node
    }
    assert {"first", "second"} <= modules
    if stage == "dynamo":
        assert {entry.get("target") for entry in graph["inputs"]} >= {"first.weight", "second.bias"}
    if stage in ("aot_joint", "aot_backward"):
        assert any("seq_nr" in node for node in graph["nodes"])


def test_equal_programs_give_equal_files(tmp_path: Path, script: Any) -> None:
    path = script(TWO_LAYERS)
    texts = []
    for _ in range(2):
        (source,) = capture(load_model_script(path), "aot_forward")
        write_graph_json(tmp_path / "graph.json", source)
        # PyTorch counts sequence numbers on from one program of a process to the next.
        text = (tmp_path / "graph.json").read_text()
        texts.append(re.sub(r'"seq_nr":\d+,', "", text))
    assert texts[0] == texts[1]


def test_nothing_is_left_of_a_failed_write(tmp_path: Path) -> None:
    class Unprintable:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(operator.add, (x, x)),))
    module = fx.GraphModule({}, graph)
    # Not by the constructor: that makes text of the arguments itself.
    (node,) = (node for node in module.graph.nodes if node.op == "call_function")
    node.args = (x, Unprintable())
    target = tmp_path / "kept.json"
    target.write_text("as it was")
    with pytest.raises(RuntimeError, match="no text"):
        write_graph_json(target, GraphSource(module, "model", "dynamo"))
    assert target.read_text() == "as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.json"]
