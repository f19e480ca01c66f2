"""Cuts the call of a module out of the graph of a step that `opprof run --graph` recorded. Needs no PyTorch.

What comes of it is graph JSON of the module alone: its operators as they ran, weights by their names in the module, what it was called with as inputs.
"""

import contextlib
import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opprof.errors import OpprofError
from opprof.files import read_json

#: What is left out where nothing asks for it: autograd detaches what it saves, and copies what is overwritten, and will again.
_IDLE = (
    "operator.getitem",
    "aten.clone.default",
    "aten.detach.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
)

#: Operators that draw random numbers, without what says how.
_RANDOM = re.compile(
    r"aten\.(_?fused_dropout|native_dropout|bernoulli_?|dropout_?|rand\w*|multinomial|normal_?|uniform_?|exponential_?|geometric_?|"
    r"log_normal_?|cauchy_?|random_?|poisson|rrelu_with_noise_?)\."
)

#: Module paths in a message.
_MOST_NAMED = 8


@dataclass
class Step:
    """A recorded step: graph.json and what is beside it."""

    path: Path
    document: dict[str, Any]
    facts: dict[str, Any]

    @property
    def graph(self) -> dict[str, Any]:
        graph: dict[str, Any] = self.document["graphs"][0]
        return graph

    @property
    def calls(self) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = self.facts["calls"]
        return calls


@dataclass
class Weight:
    """A parameter, buffer or captured tensor of the module."""

    kind: str
    persistent: bool
    type: dict[str, Any]
    statistics: dict[str, Any]


@dataclass
class Region:
    """One call of a module, alone."""

    module: str
    kind: str
    #: Graph JSON of the call.
    document: dict[str, Any]
    weights: dict[str, Weight]
    #: Arguments as graph JSON has them; tensors are {"node": name}, and described in `tensors`.
    args: list[Any]
    kwargs: dict[str, Any]
    tensors: dict[str, tuple[dict[str, Any], dict[str, Any]]]
    training: bool
    operators: int
    #: What a reader of the script should know.
    notes: list[str] = field(default_factory=list)


def read_step(path: Path) -> Step:
    """The step that a run folder holds, or that of a graph file of `opprof run`: graph-r1-p4242.json."""
    if not path.exists():
        raise OpprofError(f"{path}: no such file or folder")
    if path.is_dir():
        graph, facts = path / "graph.json", path / "step.json"
        within: Path | None = path
    else:
        graph, facts = path, path.with_name(path.name.replace("graph", "step", 1))
        within = None
    if not facts.is_file() or not graph.is_file() or facts == graph:
        raise OpprofError(
            f"{path}: holds no graph of a step",
            remedy="`opprof run --graph -o run/ -- python train.py` records one",
        )
    step = Step(graph, read_json(graph, within=within), read_json(facts, within=within))
    if step.facts.get("opprof_step_version") != 1:
        raise OpprofError(f"{facts}: is no step of a version that this opprof reads")
    return step


def cut(step: Step, module: str, number: int = 0, *, training: bool = False) -> Region:
    """The call of that number, from 0, of the module with that path, for a forward pass or with `training` for one with gradients.

    Raises OpprofError with the near names where there is none.
    """
    place = find_call(step, module, number)
    if training and not step.calls[place]["with_gradients"]:
        raise OpprofError(
            f"--training: {step.calls[place]['module']} ran without gradients in the recorded step"
        )
    return _Cut(step, place, training).region()


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Refuses a step that somebody has changed, or that is none: its files are read as `opprof run --graph` writes them."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise OpprofError(
            f"{path}: the step is not as `opprof run --graph` writes it: {type(error).__name__}: {error}"
        ) from error


def forward_graph(step: Step) -> dict[str, Any]:
    """Graph JSON of what ran forward, of which autograd's numbers tell what ran backward; nodes have the names that they have in the step."""
    calls = step.calls
    columns = step.facts["nodes"]
    rows = zip(step.graph["nodes"], columns["phase"], columns["call"], strict=True)
    nodes = [
        node
        for node, phase, call in rows
        if phase == "f" and (call < 0 or not calls[call]["in_backward"])
    ]
    made = {node["name"] for node in nodes}
    used = dict.fromkeys(value_names([[node["args"], node["kwargs"]] for node in nodes]))
    known = {entry["name"]: entry for entry in step.graph["inputs"]}
    types = {entry["name"]: entry.get("type") for entry in step.graph["nodes"]}
    inputs = [
        known.get(name) or {"name": name, "type": types[name], "kind": "user_input"}
        for name in used
        if name not in made
    ]
    graph = {**step.graph, "inputs": inputs, "nodes": nodes, "outputs": []}
    return {**step.document, "graphs": [graph]}


def find_call(step: Step, module: str, number: int) -> int:
    """The place of the call among those of the step."""
    calls = step.calls
    paths = list(dict.fromkeys(call["module"] for call in calls))
    if not paths:
        raise OpprofError(f"{step.path}: no module was called in the recorded step")
    exact = [path for path in paths if path == module]
    found = exact or [path for path in paths if path.partition(".")[2] == module]
    found = found or [path for path in paths if path.endswith(f".{module}")]
    if not found:
        raise _no_such(step, module, paths)
    if len(found) > 1:
        raise OpprofError(
            f"--module {module}: {len(found)} modules of the step end so: {_listed(found)}",
            remedy="give more of the path",
        )
    places = [
        place
        for place, call in enumerate(calls)
        if call["module"] == found[0] and not call["in_backward"]
    ]
    if number >= len(places):
        again = sum(call["module"] == found[0] for call in calls) - len(places)
        recomputed = f" (and {again} in the backward part, as checkpoints do)" if again else ""
        raise OpprofError(
            f"--call {number}: {found[0]} was called {len(places)} times in the step{recomputed}, counted from 0"
        )
    return places[number]


def _no_such(step: Step, module: str, paths: list[str]) -> OpprofError:
    near = difflib.get_close_matches(module, paths, _MOST_NAMED, 0.5)
    last = module.rpartition(".")[2]
    near += [path for path in paths if path.rpartition(".")[2] == last and path not in near]
    what = "no module of that path was called in the recorded step"
    if near:
        return OpprofError(f"--module {module}: {what}", remedy=f"near: {_listed(near)}")
    return OpprofError(f"--module {module}: {what}", remedy=f"those called: {_listed(paths)}")


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def value_names(value: Any) -> Iterator[str]:
    """The values of the graph that an argument names, in order."""
    if isinstance(value, dict):
        if set(value) == {"node"}:
            yield str(value["node"])
            return
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from value_names(part)


class _Cut:
    def __init__(self, step: Step, place: int, training: bool) -> None:
        self.step, self.place, self.call = step, place, step.calls[place]
        self.training = training
        self.module: str = self.call["module"]
        self.types: list[Any] = list(step.document["types"])
        self.type_index = {json.dumps(value): index for index, value in enumerate(self.types)}
        self.type_of = {e["name"]: e.get("type") for e in step.graph["nodes"]}
        self.type_of.update({e["name"]: e.get("type") for e in step.graph["inputs"]})
        self.notes: list[str] = []

    def region(self) -> Region:
        nodes, grads = self._nodes()
        kept = self._without_dead_parts(nodes)
        grads = [grad for node, grad in zip(nodes, grads, strict=True) if id(node) in kept]
        nodes = [node for node in nodes if id(node) in kept]
        nodes = self._without_outer_views(nodes, grads)
        drawing = [node["name"] for node in nodes if _RANDOM.match(node["target"])]
        if drawing:
            self.notes.append(
                f"{_listed(drawing)} draws random numbers: `opprof optimize` may find no program to be proven the same; a step of the "
                "program in eval mode draws none"
            )
        made = {node["name"] for node in nodes}
        args, kwargs = self.call["args"], self.call["kwargs"]
        result = self.call["result"]
        leaves = [
            *_leaves({"tuple": args}),
            *_leaves({"dict": [[k, v] for k, v in kwargs.items()]}),
        ]
        given = {name for leaf in leaves for name in value_names(leaf)}
        used = dict.fromkeys(
            name for node in nodes for name in value_names([node["args"], node["kwargs"]])
        )
        used.update(dict.fromkeys(value_names(result)))
        taken = [name for name in used if name not in made and name not in given]
        weights: dict[str, Weight] = {}
        inputs = [self._weight(name, weights) for name in taken]
        inputs += self._user_inputs(leaves)
        out_leaves = [self._result(leaf) for leaf in _leaves(result)]
        graph = {
            # Of exported programs PyTorch records the lines of functions that are called so.
            "name": "forward",
            "stage": "recorded",
            "inputs": inputs,
            "nodes": self._with_switches(nodes, grads),
            "outputs": [{"value": leaf, "kind": "user_output"} for leaf in out_leaves],
            "range_constraints": {},
            "in_spec": _spec_text(
                {"tuple": [{"tuple": args}, {"dict": [*map(list, kwargs.items())]}]}
            ),
            "out_spec": _spec_text(result),
            "attributes": {},
        }
        document = {**self.step.document, "types": self.types, "graphs": [graph]}
        tensors = {name: self._described(name) for name in given}
        return Region(
            self.module, self.call["type"], document, weights, args, kwargs, tensors,
            self.training, len(nodes), self.notes,
        )  # fmt: skip

    def _nodes(self) -> tuple[list[dict[str, Any]], list[bool]]:
        """The nodes that ran in the call, and whether each ran with gradients on."""
        if self.call.get("failed"):
            raise OpprofError(
                f"{self.module}: the call ended with an exception in the recorded step"
            )
        if "result" not in self.call or "end" not in self.call:
            raise OpprofError(f"{self.module}: the recording ended before the call did")
        inside = {self.place}
        for place, call in enumerate(self.step.calls):
            if call["caller"] in inside:
                inside.add(place)
        columns = self.step.facts["nodes"]
        rows = zip(self.step.graph["nodes"], columns["call"], columns["grad"], strict=True)
        found = [(node, grad == "1") for node, call, grad in rows if call in inside]
        self._check_seen([node for node, _ in found])
        return [node for node, _ in found], [grad for _, grad in found]

    def _check_seen(self, nodes: list[dict[str, Any]]) -> None:
        """Refuses what holds work that is not in the graph."""
        for node in nodes:
            if node["target"] == "higher_order.compiled_region":
                raise OpprofError(
                    f"{self.module}: {self._where(node)}torch.compile compiled part of it, whose operators are not in the graph",
                    remedy="record the program uncompiled: TORCHDYNAMO_DISABLE=1 opprof run --graph …",
                )
        names = {node["name"] for node in nodes}
        # Where only the memory was made here, the call may have had it written, and another one reads it.
        for entry in self.step.facts["foreign"]:
            if names & {entry["reader"], entry["value"], entry.get("base")}:
                raise self._unseen(
                    f"{entry['reader']} reads {entry['value'] or 'memory'}", entry["reader"]
                )
        for name in self.call.get("unwritten", []):
            raise self._unseen(f"gives {name}", name)

    def _unseen(self, what: str, name: str) -> OpprofError:
        place: dict[str, Any] = next((n for n in self.step.graph["nodes"] if n["name"] == name), {})
        return OpprofError(
            f"{self.module}: {self._where(place)}{what}, which something that PyTorch does not dispatch has written (a kernel of Triton's "
            "or an extension's, NumPy), if anything has",
            remedy="make it an operator of torch.library, or extract a module that does not hold it",
        )

    def _where(self, node: dict[str, Any]) -> str:
        stack = self.step.document["stacks"][node["stack"]] if "stack" in node else []
        return f"{stack[-1]['file']}:{stack[-1]['line']}: " if stack else ""

    def _without_dead_parts(self, nodes: list[dict[str, Any]]) -> set[int]:
        """All but parts of results, and what autograd detached for itself, that nothing asks for."""
        used = set(value_names(self.call["result"]))
        kept: set[int] = set()
        for node in reversed(nodes):
            if node["target"] in _IDLE and node["name"] not in used:
                continue
            kept.add(id(node))
            used.update(value_names([node["args"], node["kwargs"]]))
        return kept

    def _without_outer_views(
        self, nodes: list[dict[str, Any]], grads: list[bool]
    ) -> list[dict[str, Any]]:
        """A view that was made without an operator lies in the storage of its base: where that is not here, the view is an input."""
        hidden = set(self.step.facts["hidden_views"])
        made = {node["name"] for node in nodes}
        kept = []
        for place in range(len(nodes) - 1, -1, -1):
            node = nodes[place]
            if node["name"] in hidden and not made & set(value_names(node["args"])):
                del grads[place]
            else:
                kept.append(node)
        return kept[::-1]

    def _weight(self, name: str, weights: dict[str, Weight]) -> dict[str, Any]:
        """The input of the graph for what the module takes beside its arguments."""
        # What was changed in place before is the same weight.
        base = self.step.facts["same_place"].get(name, name)
        known = self.step.facts["inputs"].get(base, {})
        source: dict[str, Any] = next(
            (e for e in self.step.graph["inputs"] if e["name"] == base), {}
        )
        own = next((n for n in known.get("names", []) if n.startswith(f"{self.module}.")), None)
        kind = source.get("kind", "user_input")
        if own is not None and kind in ("parameter", "buffer"):
            target = own[len(self.module) + 1 :]
            persistent = source.get("persistent", True)
        else:
            kind, persistent = "buffer", False
            target = f"captured_{name}"
            names = known.get("names") or [name]
            self.notes.append(f"{target} is {names[0]}, which the module takes from outside of it")
        tensor, statistics = self._described(base)
        weights[target] = Weight(kind, persistent, tensor, statistics)
        entry = {"name": name, "type": self._plain(tensor), "kind": kind, "target": target}
        if not persistent:
            entry["persistent"] = False
        return entry

    def _described(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The type of a tensor, and what its numbers were like, where it came from before the step or is a result of it."""
        index = self.type_of[name]
        tensor = self.types[index].get("tensor") if isinstance(self.types[index], dict) else None
        if tensor is None or tensor.get("layout", "strided") != "strided" or "subclass" in tensor:
            raise OpprofError(
                f"{self.module}: takes {name}, which is no plain tensor: none like it can be made"
            )
        known = self.step.facts["inputs"].get(name) or self.step.facts["values"].get(name) or {}
        return tensor, known.get("statistics", {})

    def _plain(self, tensor: dict[str, Any]) -> int:
        """The type of a tensor that is made anew: it begins where its storage does."""
        own = {key: value for key, value in tensor.items() if key != "storage_offset"}
        return self._add_type({"tensor": own})

    def _add_type(self, value: Any) -> int:
        text = json.dumps(value)
        if text not in self.type_index:
            self.type_index[text] = len(self.types)
            self.types.append(value)
        return self.type_index[text]

    def _user_inputs(self, leaves: list[Any]) -> list[dict[str, Any]]:
        """An input for each leaf of the arguments, also for those that are no tensors, and one that comes twice."""
        entries: list[dict[str, Any]] = []
        taken = {e["name"] for e in self.step.graph["inputs"]} | {*self.type_of}
        seen: set[str] = set()
        for place, leaf in enumerate(leaves):
            name = next(value_names(leaf), None)
            if name is not None and name not in seen:
                seen.add(name)
                kind = self._plain(self._described(name)[0])
                entries.append({"name": name, "type": kind, "kind": "user_input"})
                continue
            unused = f"argument_{place}"
            while unused in taken:
                unused += "_"
            taken.add(unused)
            kind = self._plain(self._described(name)[0]) if name else self._add_type(_kind(leaf))
            entries.append({"name": unused, "type": kind, "kind": "user_input"})
        return entries

    def _result(self, leaf: Any) -> Any:
        if isinstance(leaf, dict) and "object" in leaf:
            what = str(leaf["object"].get("type"))
            self.notes.append(
                f"None stands for the {what} among its results, which the graph does not know"
            )
            return None
        return leaf

    def _with_switches(
        self, nodes: list[dict[str, Any]], grads: list[bool]
    ) -> list[dict[str, Any]]:
        """The nodes, with gradients switched off and on where the module did: a custom function of autograd's, for one, runs without."""
        if not self.training:
            return nodes
        result: list[dict[str, Any]] = []
        now = start = True
        taken = {*self.type_of}

        def switch(to: bool) -> None:
            name = f"set_grad_enabled_{len(result)}"
            while name in taken:
                name += "_"
            result.append(
                {"name": name, "op": "call_function", "target": "torch._C._set_grad_enabled", "args": [to], "kwargs": {}}
            )  # fmt: skip

        for node, grad in zip(nodes, grads, strict=True):
            if grad != now and node["target"] != "operator.getitem":
                switch(grad)
                now = grad
            result.append(node)
        if now != start:
            switch(start)
        return result


def _kind(leaf: Any) -> Any:
    """The type of an argument that is no tensor."""
    if leaf is None:
        return "none"
    for python_type in (bool, int, float, str):
        if isinstance(leaf, python_type):
            return python_type.__name__
    return {"object": next(iter(leaf))}


def _parts(value: Any) -> tuple[str, Any, list[Any]] | None:
    """The type of a container, what PyTorch's pytree says of it, and its parts; None for a leaf."""
    if isinstance(value, list):
        return "list", None, value
    if isinstance(value, dict) and set(value) == {"tuple"}:
        return "tuple", None, value["tuple"]
    if isinstance(value, dict) and set(value) == {"dict"}:
        return "dict", [key for key, _ in value["dict"]], [part for _, part in value["dict"]]
    return None


def _leaves(value: Any) -> Iterator[Any]:
    parts = _parts(value)
    if parts is None:
        yield value
        return
    for part in parts[2]:
        yield from _leaves(part)


def _spec_text(value: Any) -> str:
    """How a value is nested, as PyTorch's treespec_dumps writes it."""

    def spec(value: Any) -> dict[str, Any]:
        parts = _parts(value)
        if parts is None:
            return {"type": None, "context": None, "children_spec": []}
        kind, context, children = parts
        return {
            "type": f"builtins.{kind}",
            "context": json.dumps(context),
            "children_spec": [spec(child) for child in children],
        }

    return json.dumps([1, spec(value)])
