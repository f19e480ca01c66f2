"""The prologue: what depends on weights alone is computed once."""

from collections.abc import Sequence

import torch
from torch import fx

from opprof.backend.emitted.effects import Effects
from opprof.backend.emitted.graphs import (
    draws_numbers,
    may_alias,
    may_write,
    placeholders_of,
    results_of,
    storage_of,
)


def made_of_weights(graph: fx.GraphModule, weights: list[int]) -> list[int]:
    """Positions of the results that depend on weights alone, or on nothing, and are no views of weights.

    What gives them may be kept from call to call, so that a caller gets a copy.
    """
    constant = _constant_nodes(graph, weights, or_of_nothing=True)
    inputs = {storage_of(node) for node in placeholders_of(graph)}
    return [
        position
        for position, node in enumerate(results_of(graph))
        if isinstance(node, fx.Node) and node in constant and storage_of(node) not in inputs
    ]


def why_not_freeze(graph: fx.GraphModule) -> str | None:
    if set(map(storage_of, results_of(graph))) & set(map(storage_of, placeholders_of(graph))) - {
        None
    }:
        return "a result shares storage with an input"
    return None


def prologue_inputs(graph: fx.GraphModule, weights: list[int]) -> list[int]:
    """Those of the weights that the prologue reads."""
    prologue, _, _ = split_prologue(graph, weights)
    if prologue is None:
        return []
    taken = zip(weights, placeholders_of(prologue), strict=True)
    return [position for position, node in taken if node.users]


def split_prologue(
    graph: fx.GraphModule, weights: list[int]
) -> tuple[fx.GraphModule | None, fx.GraphModule, list[int]]:
    """Splits off what depends on weights alone.

    Returns that graph (or None), the rest, and which weights the rest still takes. The rest takes the first graph's results,
    then those weights, then all other inputs.
    """
    placeholders = placeholders_of(graph)
    kept = _kept_nodes(graph, weights)
    prologue = None
    if kept:
        first = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {
            placeholders[i]: first.placeholder(placeholders[i].name) for i in weights
        }
        needed = set(kept)
        for node in reversed(graph.graph.nodes):
            if node in needed:
                needed.update(node.all_input_nodes)
        for node in graph.graph.nodes:
            if node in needed and node not in copies:
                copies[node] = first.node_copy(node, copies.__getitem__)
        first.output(tuple(copies[node] for node in kept))
        prologue = fx.GraphModule(graph, first)

    rest = fx.Graph()
    mapped: dict[fx.Node, fx.Node] = {}
    live = _live_nodes(graph, set(kept))
    held = [i for i in weights if placeholders[i] in live]
    for node in kept:
        mapped[node] = rest.placeholder(f"prologue_{node.name}")
        mapped[node].meta = dict(node.meta)
    for i in [*held, *(i for i in range(len(placeholders)) if i not in set(weights))]:
        mapped[placeholders[i]] = rest.node_copy(placeholders[i])
    for node in graph.graph.nodes:
        if node in mapped or node.op == "placeholder":
            continue
        if node in live or node.op == "output":
            mapped[node] = rest.node_copy(node, mapped.__getitem__)
    return prologue, fx.GraphModule(graph, rest), held


def nodes_of_each_run(graph: fx.GraphModule, weights: list[int]) -> set[fx.Node]:
    """The nodes that are computed in each call, and not once by the prologue; and inputs."""
    kept = set(_kept_nodes(graph, weights))
    return _live_nodes(graph, kept) - kept


def _kept_nodes(graph: fx.GraphModule, weights: list[int]) -> list[fx.Node]:
    """The results of the prologue, in order."""
    constant = _constant_nodes(graph, weights)
    # A view costs nothing in every call, so only what computes is worth keeping, also where views of it alone are taken.
    taken: set[fx.Node] = set()
    for node in reversed(graph.graph.nodes):
        if any(u not in constant or (u in taken and may_alias(u)) for u in node.users):
            taken.add(node)
    return [
        node
        for node in graph.graph.nodes
        if node in constant
        and node in taken
        and node.op == "call_function"
        and not may_alias(node)
        and isinstance(node.meta.get("val"), torch.Tensor)
    ]


def _constant_nodes(
    graph: fx.GraphModule, weights: list[int], *, or_of_nothing: bool = False
) -> set[fx.Node]:
    """The weights, and the nodes that depend on them alone and that nothing writes: what is kept must not change in a call."""
    placeholders = placeholders_of(graph)
    effects = Effects(graph)
    constant = {placeholders[i] for i in weights}
    for node in graph.graph.nodes:
        constantly = _is_constant(node, constant, or_of_nothing=or_of_nothing)
        if constantly and not effects.is_written(node):
            constant.add(node)
    return constant


def _is_constant(node: fx.Node, constant: set[fx.Node], *, or_of_nothing: bool = False) -> bool:
    """True for a node that gives the same in every call, as it takes nothing but what does."""
    return (
        node.op == "call_function"
        and (or_of_nothing or bool(node.all_input_nodes))
        and constant.issuperset(node.all_input_nodes)
        and not may_write(node)
        and not draws_numbers(node)
    )


def _live_nodes(graph: fx.GraphModule, cut: set[fx.Node]) -> set[fx.Node]:
    """The nodes that are still computed where those of `cut` are given."""
    live: set[fx.Node] = set()
    for node in reversed(graph.graph.nodes):
        acts = node.op == "output" or (node.op == "call_function" and may_write(node))
        if (acts or node in live) and node not in cut:
            live.add(node)
            live.update(node.all_input_nodes)
    return live


def with_constants(graph: fx.GraphModule, values: Sequence[torch.Tensor]) -> fx.GraphModule:
    """The graph with its first inputs turned into constants of the module."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for position, (node, value) in enumerate(zip(placeholders, values, strict=False)):
        name = f"constant_{position}"
        graph.register_buffer(name, value.detach())
        with graph.graph.inserting_before(node):
            attribute = graph.graph.get_attr(name)
        # The graph's names keep nodes that are erased, and their fake values.
        attribute.meta, node.meta = node.meta, {}
        node.replace_all_uses_with(attribute)
        graph.graph.erase_node(node)
    graph.recompile()
    return graph
