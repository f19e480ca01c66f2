"""Holds what a launch map says of exported nodes against the values that the exported program computes node by node. Needs PyTorch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import fx

from opprof.export.graph_json import named_bodies
from opprof.proof.judge import Derivation
from opprof.proof.observe import Observed
from opprof.proof.trace import FORCED_ROUNDS

#: By node, as `key_of` calls it: its value, and those of its operands.
ExportedValues: TypeAlias = dict[str, tuple[Any, list[Any]]]


class _Keeping(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph and the bodies in it: of a branch both, of a loop the first round. Keeps the value of each node with those of its operands."""

    def __init__(
        self,
        module: fx.GraphModule,
        where: str,
        names: Mapping[int, str],
        branch: bool | None,
        found: ExportedValues,
    ) -> None:
        super().__init__(module)
        self.where, self.names, self.branch, self.found = where, names, branch, found
        self.values: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n.target is torch.ops.higher_order.cond:
            value: Any = self._cond(*self.fetch_args_kwargs_from_env(n)[0])
        elif n.target is torch.ops.higher_order.while_loop:
            value = self._while_loop(*self.fetch_args_kwargs_from_env(n)[0])
        else:
            value = super().run_node(n)
        # What an operator changes in place later is kept as it was here.
        kept = value.detach().clone() if isinstance(value, torch.Tensor) else value
        self.values[n] = kept
        if n.op == "call_function" and isinstance(kept, torch.Tensor):
            operands = [self.values[o] for o in n.all_input_nodes if o in self.values]
            tensors = [o for o in operands if isinstance(o, torch.Tensor)]
            self.found.setdefault(key_of(self.where, n.name), (kept, tensors))
        return value

    def _body(self, body: fx.GraphModule, given: Sequence[Any], *, kept: bool = True) -> Any:
        found = self.found if kept else {}
        return _Keeping(body, self.names[id(body)], self.names, self.branch, found).run(*given)

    def _cond(
        self,
        predicate: Any,
        taken: fx.GraphModule,
        other: fx.GraphModule,
        given: Sequence[Any] = (),
    ) -> Any:
        results = {True: self._body(taken, given), False: self._body(other, given)}
        return results[bool(predicate) if self.branch is None else self.branch]

    def _while_loop(
        self,
        condition: fx.GraphModule,
        body: fx.GraphModule,
        carried: Sequence[Any],
        more: Sequence[Any] = (),
    ) -> Any:
        state, rounds = tuple(carried), 0
        while bool(_only(self._body(condition, (*state, *more), kept=rounds == 0))):
            if self.branch is not None and rounds == FORCED_ROUNDS:
                break
            state = tuple(self._body(body, (*state, *more), kept=rounds == 0))
            rounds += 1
        return state


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, (tuple, list)) else value


def key_of(graph: str, name: str) -> str:
    """How a node is called among exported values: by its name, with that of the body that it lies in."""
    return f"{graph}:{name}" if graph else name


def exported_values(
    program: torch.export.ExportedProgram, args: Sequence[Any], branch: bool | None = None
) -> ExportedValues:
    """The value of each node of an exported program and of its bodies, with those of its operands, as it runs on `args`. `branch` is what
    conditionals give on instead of what they compute; both branches are run."""
    leaves = torch.utils._pytree.tree_leaves(tuple(args))
    given = []
    remaining = iter(leaves)
    for spec in program.graph_signature.input_specs:
        if spec.target is None:
            given.append(next(remaining))
        else:
            given.append(_held(program, spec.target))
    found: ExportedValues = {}
    names = {id(body): name for name, body in named_bodies(program.graph_module, "")}
    with torch.no_grad():
        _Keeping(program.graph_module, "", names, branch, found).run(
            *[g.detach().clone() if isinstance(g, torch.Tensor) else g for g in given]
        )
    return found


def _held(program: torch.export.ExportedProgram, target: str) -> Any:
    if target in program.state_dict:
        return program.state_dict[target]
    return program.constants[target]


#: Operators that make memory, and no value.
_UNWRITTEN = {"aten.empty", "aten.empty_strided", "aten.empty_like", "aten.empty_permuted"}


@dataclass
class ExportedVerdict:
    """How many ties of post-grad nodes to exported nodes were judged, and which are wrong."""

    judged: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list)
    confidence: dict[str, dict[str, int]] = field(default_factory=dict)


def judge_exported(launch_map: Mapping[str, Any], runs: Sequence[Observed]) -> ExportedVerdict:
    """A tie is right where the node lies on the way from the values of the exported node's operands to its own value."""
    verdict = ExportedVerdict()
    seen: set[tuple[str, str]] = set()
    main = launch_map.get("alignment", {}).get("graph", "")
    for launch in launch_map["launches"]:
        for node in launch["nodes"]:
            key = node.get("graph", ""), node["name"]
            if key in seen or not node.get("from"):
                continue
            seen.add(key)
            # A node that two exported nodes share is right where one of them needs it, in each run that can tell.
            told = [_is_any_tied(key, node["from"], main, run) for run in runs]
            known = [is_right for is_right in told if is_right is not None]
            if not known:
                continue
            verdict.judged += 1
            confidence = node.get("from_confidence", "unstated")
            numbers = verdict.confidence.setdefault(confidence, {"judged": 0, "right": 0})
            numbers["judged"] += 1
            if all(known):
                verdict.right += 1
                numbers["right"] += 1
            else:
                names = ", ".join(origin["name"] for origin in node["from"])
                verdict.wrong.append(f"{node['name']}: not of {names}")
    return verdict


def _is_any_tied(
    key: tuple[str, str], origins: Sequence[Mapping[str, str]], main: str, run: Observed
) -> bool | None:
    """Whether the node computes a part of one of the exported nodes; None where this run can't tell of any, as of a branch not taken."""
    if key not in run.trace.of:
        return None
    known = []
    for origin in origins:
        graph = "" if origin["graph"] == main else origin["graph"]
        is_right = _is_tied(key, key_of(graph, origin["name"]), run)
        if is_right is not None:
            known.append(is_right)
    return any(known) if known else None


def _is_tied(key: tuple[str, str], origin: str, run: Observed) -> bool | None:
    """Whether the node computes a part of the exported node; None where values can't tell."""
    value, holders, whole = run.exported.get(origin, (frozenset(), [], False))
    if not value:
        return None
    mine = set(run.trace.of.get(key, ()))
    if mine & value:
        return True
    # What only asserts has no part in the value.
    if run.trace.only_asserts(mine):
        return None
    # Memory that nothing was written to holds any numbers.
    if mine and all(run.trace.steps[n].operator in _UNWRITTEN for n in mine):
        return None
    operands = frozenset().union(*holders)
    needed, enough = Derivation(run.trace, set(operands - value), set()).needs(value)
    # Where an operand was folded away, nothing says where the exported node begins; and where the node has an operand's value
    # itself, it computes nothing that values could show.
    if not whole or not enough or mine & operands or all(run.trace.steps[n].free for n in mine):
        return None
    if mine & needed:
        return True
    # A mask that leaves nothing out, an addition of nothing: what gives an operand's value again may be a part of the node.
    firsts = set().union(*(_firsts(run, held) for held in holders))
    again, _ = Derivation(run.trace, firsts - value, set()).needs(value)
    return None if mine & again else False


def _firsts(run: Observed, held: frozenset[int]) -> set[int]:
    """Of steps that have one value, those that are not computed from another of them."""
    derivation = Derivation(run.trace, set(), set())
    return {
        number
        for number in held
        if not derivation.needs(run.trace.steps[number].operands)[0] & held
    }
