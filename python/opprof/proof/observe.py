"""Runs a compiled graph's code beside the graph that it was made from, and says which nodes' values each call was given and left. Needs PyTorch."""

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from opprof.devices import float32_products
from opprof.errors import OpprofError
from opprof.progress import progress
from opprof.proof.inputs import fill, harness_inputs
from opprof.proof.recorder import Execution, Recorder, Tensor, load
from opprof.proof.trace import FORCED_ROUNDS, GraphRunner, Step, Trace, copy_of
from opprof.proof.values import ValueIndex


@dataclass
class Written:
    """One place that a call wrote: the steps whose value it may hold, and what it completes."""

    name: str
    steps: frozenset[int]


@dataclass
class Observation:
    """One call of the wrapper, as it ran: by steps of the trace."""

    line: int
    call_lines: tuple[int, ...]
    text: str
    #: For each tensor that went in: the steps whose value it holds.
    reads: list[frozenset[int]] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    #: Earlier observations that left a value of no node, which this one was given.
    unknown_from: set[int] = field(default_factory=set)
    #: Of each value that was written over, and shows in nothing that was written: the steps whose value it is.
    replaced: list[frozenset[int]] = field(default_factory=list)

    @property
    def held(self) -> set[int]:
        """Steps whose value went in."""
        return set().union(*self.reads)

    def with_replaced(self) -> "Observation":
        """The same, with what was written over among what went in."""
        return replace(self, reads=[*self.reads, *self.replaced])


@dataclass
class Observed:
    """Everything that one run of a compiled graph showed."""

    trace: Trace
    calls: list[Observation]
    #: By name of an exported node: the steps that hold its value, for each operand those that hold its, and whether all operands are held.
    exported: dict[str, tuple[frozenset[int], list[frozenset[int]], bool]] = field(
        default_factory=dict
    )

    def to_json(self) -> dict[str, Any]:
        """What the run showed, without the values themselves: enough to judge any map of the code."""
        return {
            "steps": [
                [*(getattr(step, key) for key in _STEP_KEYS), list(step.operands)]
                for step in self.trace.steps
            ],
            "results": sorted(self.trace.results),
            "calls": [
                {
                    "line": call.line,
                    "call_lines": list(call.call_lines),
                    "text": call.text,
                    "reads": [sorted(steps) for steps in call.reads],
                    "written": [[w.name, sorted(w.steps)] for w in call.written],
                    "unknown_from": sorted(call.unknown_from),
                    "replaced": [sorted(steps) for steps in call.replaced],
                }
                for call in self.calls
            ],
            "exported": {
                name: [sorted(value), [sorted(steps) for steps in operands], whole]
                for name, (value, operands, whole) in self.exported.items()
            },
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Observed":
        trace = Trace()
        for *values, operands in document["steps"]:
            known = dict(zip(_STEP_KEYS, values, strict=True))
            trace.add(Step(operands=tuple(operands), value=None, **known), keep_kind=True)
        # Runs that were kept before this was are read as they were.
        trace.results = set(document.get("results", ()))
        calls = [
            Observation(
                call["line"],
                tuple(call["call_lines"]),
                call["text"],
                [frozenset(steps) for steps in call["reads"]],
                [Written(name, frozenset(steps)) for name, steps in call["written"]],
                set(call["unknown_from"]),
                [frozenset(steps) for steps in call.get("replaced", ())],
            )
            for call in document["calls"]
        ]
        exported = {
            name: (frozenset(value), [frozenset(steps) for steps in operands], whole)
            for name, (value, operands, whole) in document["exported"].items()
        }
        return Observed(trace, calls, exported)


_STEP_KEYS = ("graph", "name", "target", "free", "same", "constant", "is_tensor")


class _Observer:
    def __init__(self, trace: Trace):
        self.trace = trace
        self.index = ValueIndex(trace)
        self.calls: list[Observation] = []
        #: By storage: what was written to it since, latest last.
        self.history: dict[int, list[tuple[Tensor, frozenset[int], int]]] = {}
        #: By storage: the member of a call's several results that it is, with the call, until something reads it.
        self.unread: dict[int, tuple[Observation, Written]] = {}

    def see(self, execution: Execution) -> None:
        number = len(self.calls)
        call = Observation(execution.line, execution.call_lines, execution.text)
        self.calls.append(call)
        for read in execution.reads:
            self.unread.pop(read.storage, None)
            steps = self.index.find(read.value)
            if steps:
                call.reads.append(steps)
                continue
            # Not one node's value: pieces of several, or something between nodes.
            for _, earlier, writer in self.history.get(read.storage, []):
                if earlier:
                    call.reads.append(earlier)
                else:
                    call.unknown_from.add(writer)
        for gone in execution.replaced:
            if known := self.index.find(gone.value):
                call.replaced.append(known)
        for write in execution.writes:
            steps = self.index.find(write.value, ordered=not write.part)
            # A part of what it completes: of a tensor whose other parts were written before.
            wholes = [
                whole
                for whole in execution.holds
                if whole.storage == write.storage
                and whole.value.numel() > write.value.numel()
                and (write.part or _covers(whole, write))
            ]
            beneath = self._beneath(execution, wholes)
            if beneath or not steps:
                completed = frozenset().union(*(self.index.find(w.value) for w in wholes))
                # In what held a node's value the part makes another one of it, as a cache that takes a token.
                if completed and beneath:
                    call.reads += [known for known in beneath if known not in call.reads]
                steps = completed or steps
            call.written.append(Written(write.name, steps))
            if write.name.endswith("]"):
                self.unread[write.storage] = call, call.written[-1]
            kept = self.history.setdefault(write.storage, [])
            if not write.part:
                kept[:] = [entry for entry in kept if not _covers(write, entry[0])]
            kept.append((write, steps, number))

    def finish(self, results: Sequence[Any]) -> None:
        """Forgets members that nothing took, such as a maximum's place where only the maximum is used: the graph has no node for
        them, and small numbers are soon another node's."""
        returned = {
            value.untyped_storage().data_ptr()
            for value in results
            if isinstance(value, torch.Tensor)
        }
        for storage, (call, written) in self.unread.items():
            if storage not in returned and len(call.written) > 1:
                call.written.remove(written)

    def _beneath(self, execution: Execution, wholes: Sequence[Tensor]) -> list[frozenset[int]]:
        """The steps whose value lay where a part of one of `wholes` was written, and is in the rest of it still."""
        found = []
        for earlier in execution.beneath:
            for whole in wholes:
                is_same = earlier.storage == whole.storage and earlier.name == whole.name
                if is_same and (steps := self.index.find(earlier.value)):
                    found.append(steps)
        return found


def _covers(new: Tensor, old: Tensor) -> bool:
    """Whether everything that `old` wrote is written again."""
    if old.part:
        return False
    return (
        _reach(new.value)[0] <= _reach(old.value)[0]
        and _reach(old.value)[1] <= _reach(new.value)[1]
    )


def _reach(tensor: torch.Tensor) -> tuple[int, int]:
    size = tensor.element_size()
    last = sum((e - 1) * s for e, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.storage_offset() * size, (tensor.storage_offset() + last + 1) * size


class Program:
    """A compiled graph that can be run: its code, with the recorder in it, and the graph that it was made from."""

    def __init__(self, code: Path, graph: Path):
        self.code, self.graph = code, graph
        self.document = json.loads(graph.read_text(encoding="utf-8"))
        self.recorder = Recorder()
        self.module = load(code, self.recorder)

    def harness_inputs(self, seed: int, *, indices: int) -> list[Any]:
        """Inputs of the sizes that the code's harness states, with numbers that the graph turns into others, as far as that can be had."""
        described = harness_inputs(self.module, self.code)
        given = fill(described, seed, indices=indices)
        _keep_in_windows(self.document["graphs"][0], given)
        if self._run_graph(given, seed=seed, indices=indices).leaves_numbers:
            # Deep networks that nothing normalizes multiply until all values are the same infinity, of which none tells nodes apart.
            weights = _weights(self.document["graphs"][0])
            given = fill(described, seed, indices=indices, weights=weights)
            _keep_in_windows(self.document["graphs"][0], given)
        return given

    def observe(
        self,
        inputs: Sequence[Any],
        *,
        seed: int = 0,
        indices: int = 2,
        branch: bool | None = None,
        exported: Mapping[str, tuple[Any, list[Any]]] | None = None,
    ) -> Observed:
        """Runs the code and its graph on the same inputs. `branch` is what conditionals are told instead of what they compute;
        `exported` holds the values of exported nodes and of their operands, where they are known."""
        trace = self._run_graph(inputs, seed=seed, indices=indices, branch=branch)
        constants = _constants(self.document, self.module, seed, indices)

        observer = _Observer(trace)
        given = [copy_of(value) for value in inputs]
        self.recorder.begin(
            observer.see, _chooser(branch), [*given, *constants.values()], _rounds(branch)
        )
        torch.manual_seed(seed)
        with torch.no_grad(), _full_precision():
            observer.finish(self.module["call"](given))
        found = {}
        for name, (value, operands) in (exported or {}).items():
            holders = [observer.index.find(operand) for operand in operands]
            found[name] = observer.index.find(value), holders, all(holders)
        return Observed(trace, observer.calls, found)

    def _run_graph(
        self, inputs: Sequence[Any], *, seed: int, indices: int, branch: bool | None = None
    ) -> Trace:
        """Runs the graph on copies of the inputs."""
        constants = _constants(self.document, self.module, seed, indices)
        entries = self.document["graphs"][0]["inputs"]
        if len(entries) != len(inputs):
            raise OpprofError(
                f"{self.code} takes {len(inputs)} inputs, and the graph {self.graph} has {len(entries)}",
                remedy="give the code and the graph of one compilation",
            )

        def constant(name: str, entry: dict[str, Any]) -> Any:
            return constants.get(name, _Absent())

        torch.manual_seed(seed)
        with torch.no_grad(), _full_precision():
            copies = [copy_of(value) for value in inputs]
            chooser, rounds = _chooser(branch), _rounds(branch)
            return GraphRunner(self.document, constant, chooser, rounds).run(copies)


@contextlib.contextmanager
def _full_precision() -> Iterator[None]:
    """Libraries keep float32's digits: which of them round to fewer depends on sizes and layouts."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        with float32_products(tf32=False):
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


#: Products, with the argument that is their weight.
_PRODUCTS = {
    **dict.fromkeys(("convolution", "mm", "bmm", "linear"), 1),
    **dict.fromkeys(("addmm", "baddbmm"), 2),
}
_VIEWS = {"permute", "t", "transpose", "view", "reshape", "unsqueeze", "squeeze", "expand", "clone"}


def _weights(graph: dict[str, Any]) -> set[int]:
    """The places of inputs that products take as weights, as they are or by views."""
    places = {entry["name"]: place for place, entry in enumerate(graph["inputs"])}
    nodes = {node["name"]: node for node in graph["nodes"]}

    def taken(node: dict[str, Any], argument: int) -> str:
        args = node.get("args", ())
        value = args[argument] if argument < len(args) else None
        return value.get("node", "") if isinstance(value, dict) else ""

    found = set()
    for node in graph["nodes"]:
        family = _family(node)
        name = taken(node, _PRODUCTS[family]) if family in _PRODUCTS else ""
        while name not in places and name in nodes and _family(nodes[name]) in _VIEWS:
            name = taken(nodes[name], 0)
        if name in places:
            found.add(places[name])
    return found


def _keep_in_windows(graph: dict[str, Any], given: Sequence[Any]) -> None:
    """Makes what a pooling's gradient takes for places in its windows such places: others lie outside of the image. Of windows that are
    padded the one in the middle is never in the padding."""
    places = {entry["name"]: place for place, entry in enumerate(graph["inputs"])}
    for node in graph["nodes"]:
        if not str(node["target"]).startswith("prims._low_memory_max_pool_offsets_to_indices"):
            continue
        offsets, window, _, _, padding = node["args"][:5]
        value = given[places[offsets["node"]]] if offsets.get("node") in places else None
        if isinstance(value, torch.Tensor):
            count = math.prod(window)
            value.copy_(torch.full_like(value, count // 2) if any(padding) else value % count)


def _family(node: dict[str, Any]) -> str:
    parts = str(node.get("target", "")).split(".")
    return parts[1] if parts[0] == "aten" and len(parts) > 1 else ""


def _chooser(branch: bool | None) -> Callable[[Any], bool]:
    """What a conditional takes: `branch`, or what it computes."""
    return bool if branch is None else lambda value: branch


def _rounds(branch: bool | None) -> int | None:
    """Where loops are left, whatever goes on in them."""
    return None if branch is None else FORCED_ROUNDS


class _Absent:
    """A constant that neither the code nor the graph holds."""


def _constants(
    document: dict[str, Any], module: dict[str, Any], seed: int, indices: int
) -> dict[str, Any]:
    """The tensors that the graph holds itself, as the code has them; where it has none, of the type that the graph states."""
    found: dict[str, Any] = {}
    for graph in document["graphs"]:
        for entry in graph["nodes"]:
            if entry["op"] != "get_attr" or entry["name"] in found:
                continue
            value = module.get(entry["target"])
            kind = document["types"][entry["type"]] if "type" in entry else {}
            if value is None and isinstance(kind, dict) and "tensor" in kind:
                described = kind["tensor"]
                empty = torch.empty_strided(
                    described["shape"],
                    described["stride"],
                    dtype=getattr(torch, described["dtype"]),
                    device=described["device"],
                )
                (value,) = fill([empty], seed + len(found) + 1, indices=indices)
                module[entry["target"]] = value
            found[entry["target"]] = value
    return found


def observe_all(
    code: Path,
    graph: Path,
    inputs: Sequence[Any] | None = None,
    exported: Callable[[bool | None], Mapping[str, tuple[Any, list[Any]]]] | None = None,
) -> list[Observed]:
    """One run, and where the graph has conditionals one for each branch. `exported` gives the values of exported nodes for a branch."""
    program = Program(code, graph)
    given = inputs if inputs is not None else program.harness_inputs(0, indices=2)
    branches: list[bool | None] = [None]
    if '"higher_order.cond"' in graph.read_text(encoding="utf-8"):
        branches = [True, False]
    runs = []
    for branch in branches:
        if branch is not None:
            progress(f"running the branches of conditionals that are taken when {branch}")
        values = exported(branch) if exported else None
        runs.append(program.observe(given, branch=branch, exported=values))
    return runs
