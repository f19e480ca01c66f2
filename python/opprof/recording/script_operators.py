"""Which node of an archive's graph each operator that TorchScript ran is, and how TorchScript ran it.

torch.profiler asks TorchScript's interpreter where it is whenever an operator begins: the lines of the archive's code, call by call.
A node knows the same lines. An operator is a node where lines and name leave one, or as many as ran in each step, in their order. It then
gets the range that `opprof profile --mode=eager` gives it elsewhere. Where they leave several, it is the one that the graph can have run between
the operators before and after. What that does not settle is left to the alignment by order that eager programs without ranges have.
"""

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from opprof.files import replacing

#: A line of the archive's code: file, line.
Place = tuple[str, int]
#: What operators and nodes have in common: where they stand, outermost call first, and the operator's name.
Key = tuple[tuple[Place, ...], str]

_FRAME = re.compile(r"^(.*)\((\d+)\): [^()]*$")
#: What TorchScript's executor makes of an operator, from a function of its own (`decompose_ops.cpp`), whose one line is in a file without a name,
#: which holds others that take operators apart.
_TAKEN_APART = {"aten.addmm.default": ("aten::mm", "aten::add")}
_TAKEN_APART_AT = (("<string>", 3),)
#: How many places are looked at, before what is not settled is left: seconds.
MOST_WORK = 10_000_000
_CONVOLUTION = re.compile(r"^aten::conv(_transpose)?[123]d$")


@dataclass
class JoinedOperators:
    """How many operators the steps ran, outermost ones of the archive's code, and of how many of them the node is known."""

    ran: int = 0
    joined: int = 0
    #: Names of those that are not joined, and how many there are.
    left: Counter[str] = field(default_factory=Counter)
    #: Whether some are, as it would have taken too long to find out.
    gave_up: bool = False


class _TooMuchWork(Exception):
    """The ways through a graph are too many to follow."""


class _Within(NamedTuple):
    """What a node lies in: a block, and of those around it one of a branch or loop without results."""

    is_block: bool = False
    has_no_results: bool = False


class Flow:
    """The operators of a graph, those in blocks among them, as places in an order that branches and loops have a say in.

    An operator that TorchScript runs in parts is as many places.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        #: The node of each place, or that of the block that begins or ends there.
        self.names: list[str] = []
        self.is_in_block: list[bool] = []
        #: Whether what runs there may name only some of the calls.
        self._may_be_cut: list[bool] = []
        self._next: list[list[int]] = []
        self._previous: list[list[int]] = []
        self._work = 0
        self.gave_up = False
        #: By line and name: the calls that led there, and the place.
        self._by_line: dict[tuple[Place, str], list[tuple[tuple[Place, ...], int]]] = defaultdict(
            list
        )
        self._parts: dict[str, list[int]] = defaultdict(list)
        self._stacks, self._types = document["stacks"], document["types"]
        graph = document["graphs"][0]
        # Another step follows the last.
        start = self._add("", _Within())
        self._link(self._visit(graph, [start], _Within()), start)

    def find(self, key: Key) -> list[int]:
        """The places of a key, in the order of the graph.

        LibTorch's inliner does not say which call brought a branch without results, such as one that writes in place, or what stands
        in it: of the calls that led there, an operator may name some. Elsewhere it names all of them.
        """
        stack, name = key
        there = self._by_line.get((stack[-1], name), ())
        is_whole = any(calls == stack for calls, _ in there)
        return [
            place
            for calls, place in there
            if calls == stack
            or (_is_in_order(stack, calls) and (not is_whole or self._may_be_cut[place]))
        ]

    def find_parts(self, operator: str, whole: set[int]) -> list[int]:
        """The places of that part of operators that ran in parts, which those did not that ran as a whole."""
        names = {self.names[place] for place in whole}
        return [place for place in self._parts[operator] if self.names[place] not in names]

    def narrow(self, possible: list[frozenset[int]]) -> list[frozenset[int]]:
        """Of the places that each operator may be, those that lie on a way through the graph that all of them can have taken.

        A way leaves out what did not run as an operator of its own, which passes of TorchScript merge or remove, but no node that is
        known to have run as one. Where there is no such way, TorchScript has another order, and nothing is left out.
        """
        numbers = [number for number, places in enumerate(possible) if places]
        while any(len(possible[n]) > 1 for n in numbers):
            certain = {min(possible[n]) for n in numbers if len(possible[n]) == 1}
            try:
                there = self._follow([possible[n] for n in numbers], self._next, certain)
                if not there[-1]:
                    break
                both = self._follow(there[::-1], self._previous, certain)[::-1]
            except _TooMuchWork:
                self.gave_up = True
                break
            narrowed = list(possible)
            for n, places in zip(numbers, both, strict=True):
                narrowed[n] = places
            if narrowed == possible:
                break
            possible = narrowed
        return possible

    def _follow(
        self, possible: list[frozenset[int]], links: list[list[int]], certain: set[int]
    ) -> list[frozenset[int]]:
        """Of the places of each operator, those that can be reached from those of the one before."""
        # Steps and layers begin at the same places again and again.
        reached: dict[frozenset[int], frozenset[int]] = {}
        found = possible[:1]
        for places in possible[1:]:
            before = found[-1]
            if before not in reached:
                reached[before] = self._reach(before, links, certain)
            self._spend(len(places))
            found.append(places & reached[before])
        return found

    def _reach(
        self, places: frozenset[int], links: list[list[int]], certain: set[int]
    ) -> frozenset[int]:
        """Where the next operator may be."""
        found: set[int] = set()
        waiting = [one for place in places for one in links[place]]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                if one not in certain:
                    waiting.extend(links[one])
        self._spend(len(places) + len(found))
        return frozenset(found)

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > MOST_WORK:
            raise _TooMuchWork

    def _add(self, name: str, within: _Within) -> int:
        self.names.append(name)
        self.is_in_block.append(within.is_block)
        self._may_be_cut.append(within.has_no_results)
        self._next.append([])
        self._previous.append([])
        return len(self.names) - 1

    def _link(self, ends: list[int], place: int) -> None:
        for end in ends:
            self._next[end].append(place)
            self._previous[place].append(end)

    def _visit(self, block: dict[str, Any], ends: list[int], within: _Within) -> list[int]:
        """Goes on from where the code before the block ends, and gives where that of the block does."""
        for node in block["nodes"]:
            place = self._add(node["name"], within)
            self._link(ends, place)
            ends = [place]
            blocks = node.get("blocks", ())
            is_loop = node["target"] == "prim.Loop"
            if blocks:
                has_none = "type" not in node or self._types[node["type"]] == "none"
                inside = _Within(True, within.has_no_results or has_none)
                ends = [one for b in blocks for one in self._visit(b, [place], inside)]
            else:
                ends = self._record(node, place, within)
            if is_loop:
                self._link(ends, place)
                ends = [place]
        return ends

    def _record(self, node: dict[str, Any], place: int, within: _Within) -> list[int]:
        """Notes what runs as the node, and gives where it ends."""
        parts = node["target"].split(".")
        if node["op"] != "call_function" or len(parts) != 3 or "stack" not in node:
            return [place]
        # A file of the archive is named model.pt/code/….
        calls = tuple(
            (frame["file"].partition("/")[2], frame["line"])
            for frame in self._stacks[node["stack"]]
        )
        for name in _names(f"{parts[0]}::{parts[1]}"):
            self._by_line[calls[-1], name].append((calls, place))
        for number, part in enumerate(_TAKEN_APART.get(node["target"], ())):
            if number > 0:
                before, place = place, self._add(node["name"], within)
                self._link([before], place)
            self._parts[part].append(place)
        return [place]


def join_operators(trace: Path, document: dict[str, Any], steps: int) -> JoinedOperators:
    """Puts a range round each operator of the trace whose node of the graph JSON is known, and takes Python's frames out of it.

    `trace` is torch.profiler's of `steps` steps, compressed, with stacks.
    """
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        content = json.load(file)
    flow = Flow(document)
    graph = document["graphs"][0]
    prefix = f"opprof::node::{graph['name']}::{graph['stage']}::"
    events = [event for event in content["traceEvents"] if event.get("cat") != "python_function"]
    ran = list(outermost_operators(events))
    found = _nodes_that_ran(flow, ran, steps)
    node_of = {
        id(event): name for (event, _), name in zip(ran, found, strict=True) if name is not None
    }
    result = JoinedOperators(len(ran), len(node_of))
    result.left.update(key[1] for event, key in ran if id(event) not in node_of)
    result.gave_up = flow.gave_up
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


def _nodes_that_ran(
    flow: Flow, ran: list[tuple[dict[str, Any], Key]], steps: int
) -> list[str | None]:
    """The node that each operator is, where that is certain."""
    by_key: dict[Key, list[int]] = defaultdict(list)
    for number, (_, key) in enumerate(ran):
        by_key[key].append(number)
    possible: list[frozenset[int]] = [frozenset()] * len(ran)
    for key, numbers in by_key.items():
        found = flow.find(key)
        same = frozenset(found)
        for number in numbers:
            possible[number] = same
        # Outside of blocks a node runs once a step. Fewer than all means that TorchScript's passes merged some.
        if len(numbers) == steps * len(found) and not any(flow.is_in_block[one] for one in found):
            for turn, number in enumerate(numbers):
                possible[number] = frozenset([found[turn % len(found)]])
    # What forks run in parallel has no one order.
    has_one_order = len({(event["pid"], event["tid"]) for event, _ in ran}) == 1
    if has_one_order:
        whole = {one for places in possible for one in places}
        for (stack, name), numbers in by_key.items():
            if stack == _TAKEN_APART_AT:
                same = frozenset(flow.find_parts(name, whole))
                for number in numbers:
                    possible[number] = same
        possible = flow.narrow(possible)
    found_at = Counter(min(places) for places in possible if len(places) == 1)
    # Then something else ran there too.
    too_often = {
        place for place, count in found_at.items() if count > steps and not flow.is_in_block[place]
    }
    return [
        flow.names[min(places)] if len(places) == 1 and not places & too_often else None
        for places in possible
    ]


def _is_in_order(some: tuple[Place, ...], calls: tuple[Place, ...]) -> bool:
    """Whether all of these calls are among those that led to a node, in their order."""
    left = iter(calls)
    return all(one in left for one in some)


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
