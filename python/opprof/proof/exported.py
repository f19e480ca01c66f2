"""Holds what a launch map says of exported nodes against the values that the exported program computes node by node. Needs PyTorch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from opprof.proof.judge import Derivation
from opprof.proof.observe import Observed


def exported_values(
    program: torch.export.ExportedProgram, args: Sequence[Any]
) -> dict[str, tuple[Any, list[Any]]]:
    """The value of each node of an exported program, with those of its operands, as it runs on `args`."""
    module = program.graph_module
    values: dict[fx.Node, Any] = {}

    class Keeping(fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: fx.Node) -> Any:
            value = super().run_node(n)
            # What an operator changes in place later is kept as it was here.
            values[n] = value.detach().clone() if isinstance(value, torch.Tensor) else value
            return value

    leaves = torch.utils._pytree.tree_leaves(tuple(args))
    given = []
    remaining = iter(leaves)
    for spec in program.graph_signature.input_specs:
        if spec.target is None:
            given.append(next(remaining))
        else:
            given.append(_held(program, spec.target))
    with torch.no_grad():
        Keeping(module).run(
            *[g.detach().clone() if isinstance(g, torch.Tensor) else g for g in given]
        )
    found = {}
    for node, value in values.items():
        if node.op == "call_function" and isinstance(value, torch.Tensor):
            operands = [values[n] for n in node.all_input_nodes if n in values]
            found[node.name] = value, [o for o in operands if isinstance(o, torch.Tensor)]
    return found


def _held(program: torch.export.ExportedProgram, target: str) -> Any:
    if target in program.state_dict:
        return program.state_dict[target]
    return program.constants[target]


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
    for launch in launch_map["launches"]:
        for node in launch["nodes"]:
            key = node.get("graph", ""), node["name"]
            if key in seen or not node.get("from"):
                continue
            seen.add(key)
            known = [
                is_right
                for origin in node["from"]
                for is_right in (_is_tied(key, origin["name"], runs[0]),)
                if is_right is not None
            ]
            if not known:
                continue
            verdict.judged += 1
            confidence = node.get("from_confidence", "unstated")
            numbers = verdict.confidence.setdefault(confidence, {"judged": 0, "right": 0})
            numbers["judged"] += 1
            # A node that two exported nodes share is right where one of them needs it.
            if any(known):
                verdict.right += 1
                numbers["right"] += 1
            else:
                names = ", ".join(origin["name"] for origin in node["from"])
                verdict.wrong.append(f"{node['name']}: not of {names}")
    return verdict


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
