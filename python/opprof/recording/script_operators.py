"""Which node of an archive's graph each operator that TorchScript ran is, and how TorchScript ran it.

torch.profiler asks TorchScript's interpreter where it is whenever an operator begins: the lines of the archive's code, call by call.
A node knows the same lines. An operator is a node where lines and name leave one, or as many as ran in each step, in their order. It then
gets the range that `opprof profile --mode=eager` gives it elsewhere. A product that TorchScript took apart has lines of TorchScript's own, and is the node
between the nodes that ran before and after it. What that does not settle is left to the alignment by order that eager programs without ranges have.
"""

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opprof.files import replacing

#: A line of the archive's code: file, line.
Place = tuple[str, int]
#: What operators and nodes have in common: where they stand, outermost call first, and the operator's name.
Key = tuple[tuple[Place, ...], str]

_FRAME = re.compile(r"^(.*)\((\d+)\): [^()]*$")
#: What TorchScript's executor makes of an operator, from a function of its own (`decompose_ops.cpp`), all whose lines are of a file without a name.
_TAKEN_APART = {"aten.addmm.default": ("aten::mm", "aten::add")}
_WITHOUT_A_FILE = "<string>"
_CONVOLUTION = re.compile(r"^aten::conv(_transpose)?[123]d$")


@dataclass
class Nodes:
    """The nodes of one key, in the order of the graph, and the blocks that they lie in."""

    names: list[str] = field(default_factory=list)
    blocks: set[int] = field(default_factory=set)


@dataclass
class JoinedOperators:
    """How many operators the steps ran, outermost ones of the archive's code, and of how many of them the node is known."""

    ran: int = 0
    joined: int = 0
    #: Names of those that are not joined, and how many there are.
    left: Counter[str] = field(default_factory=Counter)


def join_operators(trace: Path, document: dict[str, Any], steps: int) -> JoinedOperators:
    """Puts a range round each operator of the trace whose node of the graph JSON is known, and takes Python's frames out of it.

    `trace` is torch.profiler's of `steps` steps, compressed, with stacks.
    """
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        content = json.load(file)
    nodes = nodes_by_key(document)
    graph = document["graphs"][0]
    prefix = f"opprof::node::{graph['name']}::{graph['stage']}::"
    events = [event for event in content["traceEvents"] if event.get("cat") != "python_function"]
    ran = list(outermost_operators(events))
    operators: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for event, key in ran:
        operators[key].append(event)
    node_of: dict[int, str] = {}
    for key, same in operators.items():
        names = _nodes_that_ran(nodes.get(key), len(same), steps)
        for number, event in enumerate(same if names else ()):
            node_of[id(event)] = names[number % len(names)]
    node_of.update(_taken_apart(ran, graph, node_of))
    result = JoinedOperators(len(ran), len(node_of))
    result.left.update(key[1] for event, key in ran if id(event) not in node_of)
    ranges = {
        id(event): {
            **{name: event[name] for name in ("ph", "pid", "tid", "ts", "dur")},
            "cat": "user_annotation",
            "name": prefix + node_of[id(event)],
        }
        for event, _ in ran
        if id(event) in node_of
    }
    content["traceEvents"] = [
        # A range that begins where an operator does holds it where it comes first.
        one
        for event in events
        for one in (ranges.get(id(event)), event)
        if one is not None
    ]
    with replacing(trace, "wb") as target, gzip.open(target, "wt", encoding="utf-8") as text:
        json.dump(content, text)
    return result


def _nodes_that_ran(nodes: Nodes | None, count: int, steps: int) -> list[str]:
    """The nodes that operators of one key are, in turns, where that is certain; or none."""
    if nodes is None:
        return []
    if len(nodes.names) == 1:
        return nodes.names
    # Outside of blocks a node runs once a step. Fewer than all means that TorchScript's passes merged some.
    certain = nodes.blocks == {0} and count == steps * len(nodes.names)
    return nodes.names if certain else []


def _taken_apart(
    ran: list[tuple[dict[str, Any], Key]], graph: dict[str, Any], node_of: dict[int, str]
) -> dict[int, str]:
    """The nodes of operators that TorchScript put in the place of one: they lie between the nodes that ran before and after.

    Where several lie there, as many of each operator have to have run, and then it is their order. Nothing is said where a neighbour
    or what lies between is a block, which may run any number of times.
    """
    nodes = graph["nodes"]
    place_of = {node["name"]: place for place, node in enumerate(nodes)}
    whole = set(node_of.values())
    found: dict[int, str] = {}
    before: int | None = -1
    between: dict[str, list[int]] = defaultdict(list)

    def settle(after: int | None) -> None:
        if before is None or after is None or not between:
            return
        # After the last node of a step come the first ones of the next.
        there = (
            range(before + 1, after)
            if before < after
            else (*range(before + 1, len(nodes)), *range(after))
        )
        candidates = [nodes[place] for place in there]
        if any(node.get("blocks") for node in candidates):
            return
        for operator, events in between.items():
            names = [
                node["name"]
                for node in candidates
                if operator in _TAKEN_APART.get(node["target"], ()) and node["name"] not in whole
            ]
            if len(names) == len(events):
                found.update(zip(events, names, strict=True))

    for event, (stack, operator) in ran:
        node = node_of.get(id(event))
        if node is not None:
            after = place_of.get(node)
            settle(after)
            before = after
            between.clear()
        elif len(stack) == 1 and stack[0][0] == _WITHOUT_A_FILE:
            between[operator].append(id(event))
    settle(len(nodes))
    return found


def nodes_by_key(document: dict[str, Any]) -> dict[Key, Nodes]:
    """The nodes of the first graph that are operators, those in blocks among them. Block 0 is the graph's own."""
    stacks = document["stacks"]
    found: dict[Key, Nodes] = defaultdict(Nodes)
    blocks = 0

    def visit(block: dict[str, Any]) -> None:
        nonlocal blocks
        own, blocks = blocks, blocks + 1
        for node in block["nodes"]:
            parts = node["target"].split(".")
            if node["op"] == "call_function" and len(parts) == 3 and "stack" in node:
                # A file of the archive is named model.pt/code/….
                stack = tuple(
                    (frame["file"].partition("/")[2], frame["line"])
                    for frame in stacks[node["stack"]]
                )
                for name in _names(f"{parts[0]}::{parts[1]}"):
                    entry = found[stack, name]
                    entry.names.append(node["name"])
                    entry.blocks.add(own)
            for inner in node.get("blocks", ()):
                visit(inner)

    visit(document["graphs"][0])
    return found


def _names(operator: str) -> tuple[str, ...]:
    """What may run as the operator: tracers write down what convolutions call, and the graph has what the model called."""
    return (operator, "aten::_convolution") if _CONVOLUTION.match(operator) else (operator,)


def outermost_operators(events: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Key]]:
    """The operators that TorchScript's interpreter ran itself, in the order in which they began, and their keys.

    What an operator calls stands at the same lines, inside it.
    """
    operators = [
        event
        for event in events
        if event.get("cat") == "cpu_op" and event.get("args", {}).get("Call stack")
    ]
    operators.sort(key=lambda event: (event["ts"], -event["dur"]))
    ends: dict[tuple[Any, Any], float] = {}
    for event in operators:
        thread = (event["pid"], event["tid"])
        if event["ts"] < ends.get(thread, -1.0):
            continue
        ends[thread] = event["ts"] + event["dur"]
        stack = places(event["args"]["Call stack"])
        if stack:
            yield event, (stack, event["name"])


def places(stack: str) -> tuple[Place, ...]:
    """The lines of a stack as torch.profiler writes it, innermost first: "code/a.py(14): forward;code/b.py(29): forward"."""
    found: list[Place] = []
    for frame in stack.strip(";").split(";"):
        match = _FRAME.match(frame)
        if match is None:
            return ()
        found.append((match[1], int(match[2])))
    return tuple(reversed(found))
