"""Which nodes the operators of a TorchScript archive are, of graphs and traces made here; test_torchscript_profile.py has PyTorch's own."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from opprof.recording import script_operators
from opprof.recording.script_operators import JoinedOperators, join_operators

TYPES = [{"tensor": {}}, "none"]


class Graph:
    """A document as `opprof-torchscript` writes it, made call by call."""

    def __init__(self) -> None:
        self.stacks: list[list[dict[str, Any]]] = []
        self.nodes: list[dict[str, Any]] = []
        self._count = 0

    def node(
        self, target: str, lines: tuple[int, ...], *blocks: list[dict[str, Any]], type: int = 0
    ) -> dict[str, Any]:
        self.stacks.append([{"file": "model.pt/code/m.py", "line": line} for line in lines])
        self._count += 1
        return {
            "name": f"n{self._count}",
            "op": "call_function",
            "target": target,
            "stack": len(self.stacks) - 1,
            "type": type,
            **({"blocks": [{"nodes": nodes} for nodes in blocks]} if blocks else {}),
        }

    @property
    def document(self) -> dict[str, Any]:
        graph = {"name": "g", "stage": "export", "nodes": self.nodes}
        return {"graphs": [graph], "stacks": self.stacks, "types": TYPES}


#: A name, its calls, outermost first, and its thread.
Ran = tuple[str, tuple[int, ...] | str, int]


def join(
    folder: Path, graph: Graph, ran: list[Ran], steps: int
) -> tuple[JoinedOperators, list[str | None]]:
    """What was joined, and the node of each operator."""
    events = []
    for number, (name, calls, thread) in enumerate(ran):
        frames = (
            calls
            if isinstance(calls, str)
            else "".join(f"code/m.py({line}): forward;" for line in reversed(calls))
        )
        events.append(
            {
                **{"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": thread},
                **{"ts": 10 * number, "dur": 5, "args": {"Call stack": frames}},
            }
        )
    trace = folder / "trace.json.gz"
    with gzip.open(trace, "wt") as file:
        json.dump({"traceEvents": events}, file)
    joined = join_operators(trace, graph.document, steps)
    with gzip.open(trace, "rt") as file:
        written = json.load(file)["traceEvents"]
    nodes = {
        event["ts"]: event["name"].rpartition("::")[2]
        for event in written
        if event["cat"] == "user_annotation"
    }
    return joined, [nodes.get(10 * number) for number in range(len(ran))]


def mixture(layers: int, experts: int, steps: int) -> tuple[Graph, list[Ran], list[str]]:
    """Experts in branches without results, which leave out all calls that led there, and the nodes that ran."""
    graph = Graph()
    step: list[Ran] = []
    expected = []
    for layer in range(layers):
        graph.nodes.append(graph.node("aten.softmax.int", (100 + layer, 8)))
        step.append(("aten::softmax", (100 + layer, 8), 1))
        expected.append(graph.nodes[-1]["name"])
        for expert in range(experts):
            calls = (100 + layer, 200 + expert)
            names = ("linear", "relu", "tanh")
            inside = [graph.node(f"aten.{name}.default", (*calls, 9)) for name in names]
            graph.nodes.append(graph.node("prim.If", calls, inside, [], type=1))
            step += [(f"aten::{name}", (9,), 1) for name in names]
            expected += [node["name"] for node in inside]
    return graph, step * steps, expected * steps


def test_many_experts_take_little_work(tmp_path: Path) -> None:
    """The graph was walked again for each operator that ran, and each node that it could be: 45 seconds."""
    graph, ran, expected = mixture(32, 16, 10)
    began = time.process_time()
    joined, nodes = join(tmp_path, graph, ran, 10)
    assert time.process_time() - began < 10
    assert nodes == expected
    assert not joined.gave_up


def test_what_takes_too_much_work_is_left_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, ran, expected = mixture(4, 4, 2)
    monkeypatch.setattr(script_operators, "MOST_WORK", 50)
    joined, nodes = join(tmp_path, graph, ran, 2)
    assert joined.gave_up
    assert set(joined.left) == {"aten::linear", "aten::relu", "aten::tanh"}
    assert all(node in (None, one) for node, one in zip(nodes, expected, strict=True))


PART = "<string>(3): forward;"


def test_parts_of_addmm_stand_at_its_line(tmp_path: Path) -> None:
    """What else TorchScript keeps in a file without a name (batch_norm, gradients) is no addmm."""
    graph = Graph()
    graph.nodes = [graph.node("aten.relu.default", (1,)), graph.node("aten.addmm.default", (2,))]
    step: list[Ran] = [
        ("aten::relu", (1,), 1),
        ("aten::mm", PART, 1),
        ("aten::add", PART, 1),
    ]
    assert join(tmp_path, graph, step * 2, 2)[1] == ["n1", "n2", "n2"] * 2
    step[1:] = [(name, "<string>(14): forward;", thread) for name, _, thread in step[1:]]
    assert join(tmp_path, graph, step * 2, 2)[1] == ["n1", None, None] * 2


def test_what_ran_more_often_than_its_node_is_left(tmp_path: Path) -> None:
    graph = Graph()
    graph.nodes = [graph.node("aten.relu.default", (1,)), graph.node("aten.addmm.default", (2,))]
    twice: list[Ran] = [("aten::relu", (1,), 1), *[("aten::mm", PART, 1)] * 2]
    assert join(tmp_path, graph, twice, 1)[1] == ["n1", None, None]


def test_parts_in_several_threads_are_left(tmp_path: Path) -> None:
    graph = Graph()
    graph.nodes = [graph.node("aten.relu.default", (1,)), graph.node("aten.addmm.default", (2,))]
    apart: list[Ran] = [("aten::relu", (1,), 1), ("aten::mm", PART, 2), ("aten::add", PART, 2)]
    assert join(tmp_path, graph, apart, 1)[1] == ["n1", None, None]


def test_a_whole_stack_is_no_other_nodes_cut_one(tmp_path: Path) -> None:
    """Of two nodes one was merged away, whose calls begin and end as those of the other one do."""
    graph = Graph()
    graph.nodes = [
        graph.node("aten.tanh.default", (4, 9)),
        graph.node("aten.tanh.default", (4, 6, 9)),
    ]
    assert join(tmp_path, graph, [("aten::tanh", (4, 9), 1)] * 2, 2)[1] == ["n1", "n1"]


def test_a_cut_stack_may_look_whole(tmp_path: Path) -> None:
    """In a branch without results calls are left out, so that which of the two ran nobody knows."""
    graph = Graph()
    inside = [graph.node("aten.tanh.default", (4, 6, 9))]
    graph.nodes = [
        graph.node("aten.tanh.default", (4, 9)),
        graph.node("prim.If", (4, 6), inside, [], type=1),
    ]
    assert join(tmp_path, graph, [("aten::tanh", (4, 9), 1)], 1)[1] == [None]
