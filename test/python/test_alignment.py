"""Values as the oracle of alignment: a compiled node that ends what an exported node became has that node's value.

Both graphs run node by node on the same inputs, the compiled one as another process would have left it: without identities.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from alignment_models import MODELS
from torch import fx

from opprof.commands.launches import launches_text
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.export.inductor import CompiledGraph, watching_inductor
from opprof.tools import run_tool

#: What holds another's value: where the exported node is a view, so are those that end it.
MOVES = (
    *("view", "reshape", "permute", "expand", "unsqueeze", "squeeze", "getitem", "split", "slice", "select", "transpose", "t"),
    *("split_with_sizes", "unbind", "alias", "detach", "clone", "to", "convert_element_type", "_to_copy", "contiguous"),
)  # fmt: skip

#: The least share of computing nodes that dataflow proves, where no pass of Inductor's replaces what was exported.
PROVEN = {"cnn": 0.95}


class Recorder(fx.Interpreter):
    """Runs a graph and keeps of each value what no view, cast or layout changes."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and result.numel() and not result.is_complex():
            self.values[n.name] = result.detach().double().flatten().sort().values.nan_to_num()
        return result


def same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    """Whether two recorded values are one but for rounding."""
    return (
        a is not None
        and b is not None
        and a.shape == b.shape
        and torch.allclose(a, b, rtol=1e-3, atol=1e-4)
    )


def family(node: fx.Node) -> str:
    """`add` of `aten.add.Tensor`."""
    return str(node.target).split(".")[1] if "." in str(node.target) else node.name.split("_")[0]


def users_of(node: fx.Node) -> Iterator[fx.Node]:
    """What computes with a node's value, be it through views."""
    for user in node.users:
        yield user
        if family(user) in MOVES:
            yield from users_of(user)


def compile_apart(
    module: torch.nn.Module, args: tuple[torch.Tensor, ...], folder: Path
) -> tuple[Path, fx.GraphModule, list[Any]]:
    """Compiles a module by itself: its code, its post-grad graph and the inputs that this is called with."""
    from torch._inductor.output_code import CompiledFxGraph

    compiled: list[tuple[Path, fx.GraphModule]] = []
    inputs: list[list[Any]] = []

    def keep(graph: CompiledGraph) -> None:
        copy = fx.Graph()
        copy.output(copy.graph_copy(graph.module.graph, {}))
        compiled.append((graph.folder, fx.GraphModule(graph.module, copy)))

    run = CompiledFxGraph.__call__

    def call(self: Any, values: Any) -> Any:
        inputs.append([v.clone() if isinstance(v, torch.Tensor) else v for v in values])
        return run(self, values)

    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch, watching_inductor(folder, keep):
        patch.setattr(CompiledFxGraph, "__call__", call)
        torch.compile(module)(*args)
    (code, graph), values = compiled[0], inputs[0]
    return code / "output_code.py", graph, values


@pytest.mark.parametrize("name", MODELS)
def test_ties_have_the_exported_values(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, args = MODELS[name]()
    module.eval()
    with torch.no_grad():
        # Weights that are all one make values equal that are not.
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.add_(torch.rand_like(tensor) * 0.2)
        program = torch.export.export(module, args)
        write_graph_json(tmp_path / "export.json", source_of_exported_program(program, name))
        exported = Recorder(program.graph_module)
        exported.run(*program._graph_module_flat_inputs(args, {}))
        code, graph, inputs = compile_apart(module, args, tmp_path / "code")
        recorder = Recorder(graph)
        recorder.run(*inputs)

    arguments = ["--inductor-launches", code, f"--graph={tmp_path / 'export.json'}"]
    launches = json.loads(run_tool("opprof-translate", arguments))
    ties = {
        node["name"]: ([origin["name"] for origin in node["from"]], node.get("from_confidence"))
        for launch in launches["launches"]
        for node in launch["nodes"]
    }
    exported_nodes = {node.name: node for node in program.graph.nodes}
    right, wrong = [], []
    for node in graph.graph.nodes:
        origins, confidence = ties.get(node.name, ([], None))
        own = set(origins)
        moves = all(family(exported_nodes[origin]) in MOVES for origin in origins)
        if not origins or node.name not in recorder.values or (family(node) in MOVES) != moves:
            continue
        if any(own & set(ties.get(user.name, ([], None))[0]) for user in users_of(node)):
            continue
        fits = any(same(recorder.values[node.name], exported.values.get(o)) for o in origins)
        (right if fits else wrong).append((node.name, origins, confidence))

    # What only the operator's name speaks for says so, and may be wrong.
    assert not [tie for tie in wrong if tie[2] != "low"]
    assert len(right) > 10 * len(wrong)
    computing = [c for n, (_, c) in ties.items() if family(node_named(graph, n)) not in MOVES]
    assert computing.count("high") >= PROVEN.get(name, 0) * len(computing)


def node_named(graph: fx.GraphModule, name: str) -> fx.Node:
    """The node of a graph by its name."""
    return next(node for node in graph.graph.nodes if node.name == name)


def test_bodies_that_were_not_followed_are_said(tmp_path: Path) -> None:
    """Copies of a body that many others call would come to many times the program: nodes of those had no exported ones, and nothing said why."""
    calls, length = 400, 1500

    def graph(name: str, inputs: str, nodes: list[dict[str, Any]]) -> dict[str, Any]:
        kinds = {"p": 1}
        given = [{"name": x, "type": kinds.get(x, 0), "kind": "user_input"} for x in inputs.split()]
        value = {"node": nodes[-1]["name"]}
        return {
            "name": name,
            "stage": "export",
            "inputs": given,
            "nodes": nodes,
            "outputs": [{"value": value, "kind": "user_output"}],
            "range_constraints": {},
            "attributes": {},
        }

    def node(name: str, target: str, args: list[Any], kind: int = 0) -> dict[str, Any]:
        common = {"op": "call_function", "kwargs": {}, "type": kind}
        return {"name": name, "target": target, "args": args, **common}

    def document(body: list[dict[str, Any]], *more: dict[str, Any]) -> str:
        main = []
        for i in range(calls):
            args = [{"node": "p"}, {"graph": f"yes_{i}"}, {"graph": f"no_{i}"}]
            main.append(
                node(f"c{i}", "higher_order.cond", [*args, {"tuple": [{"node": f"z{i}"}]}], 2)
            )
            main.append(node(f"z{i + 1}", "operator.getitem", [{"node": f"c{i}"}, 0]))
        bodies = [graph(f"{b}_{i}", "a", body) for i in range(calls) for b in ("yes", "no")]
        tensor = {"dtype": "float32", "shape": [4], "stride": [1], "device": "cpu"}
        predicate = {"dtype": "bool", "shape": [], "stride": [], "device": "cpu"}
        return json.dumps(
            {
                "opprof_graph_version": 1,
                "producer": {"torch": "2.13.0", "opprof": "0.1.0"},
                "types": [{"tensor": tensor}, {"tensor": predicate}, {"tuple": [0]}],
                "stacks": [],
                "modules": [],
                "graphs": [graph("main", "z0 p", main), *bodies, *more],
            }
        )

    large = [
        node(f"v{i}", "aten.sin.default", [{"node": f"v{i - 1}" if i else "a"}])
        for i in range(length)
    ]
    wrapped = [
        node("w", "higher_order.wrap", [{"graph": "large"}, {"node": "a"}], 2),
        node("r", "operator.getitem", [{"node": "w"}, 0]),
    ]
    exported = document(wrapped, graph("large", "a", large))
    (tmp_path / "graph.json").write_text(exported)
    (tmp_path / "post_grad.json").write_text(
        document([node("s", "aten.sin.default", [{"node": "a"}])])
    )
    (tmp_path / "output_code.py").write_text(
        "async_compile.wait(globals())\ndef call(args):\n    z0, p = args\n    return (z0, )\n"
    )
    given_graph = tmp_path / "graph.json"
    (launch_map,) = json.loads(launches_text(tmp_path, given_graph, as_json=True))
    assert launch_map["alignment"]["bodies_left"] > 0
    assert "were not followed" in launches_text(tmp_path, given_graph)
