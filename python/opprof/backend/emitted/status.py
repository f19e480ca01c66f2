"""What the backend did so far."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from opprof.backend.emitted.definitions import BACKEND_NAME, REWRITES
from opprof.backend.emitted.interface import Strategy

log = logging.getLogger(__name__)


# How often each rewrite was applied, in all graphs so far.
applied: dict[str, int] = {}


@dataclass
class GraphStatus:
    """What became of one graph that Dynamo found."""

    # Why Inductor compiles it as it is; None where this backend's own program runs.
    refusal: str | None = None
    applied: dict[str, int] = field(default_factory=dict)
    # Rewrites whose pattern is nowhere in it, and what is where most of that is.
    missed: dict[str, str] = field(default_factory=dict)
    strategy: Strategy = field(default_factory=Strategy)
    # Parts of the strategy that were left out, and why.
    left_out: list[str] = field(default_factory=list)
    calls: int = 0
    refreshes: int = 0
    # What was made of weights and is kept beside them.
    held_bytes: int = 0

    def leave_out(self, part: str, reason: str) -> None:
        """Notes that a part of the strategy is not carried out for this graph."""
        self.left_out.append(f"{part}: {reason}")
        log.warning("%s: no %s for a graph, as %s", BACKEND_NAME, part, reason)


_graphs: list[GraphStatus] = []


def new_graph() -> GraphStatus:
    """The status of one graph more."""
    _graphs.append(graph := GraphStatus())
    return graph


@dataclass
class FrontStatus:
    """What became of the calls of one model that optimize() was given."""

    model: str
    calls: int = 0
    # Calls that went to a program past Dynamo.
    shortcuts: int = 0
    # Why the last call that could not gave none.
    unfit: str = ""


_fronts: list[FrontStatus] = []


def note_front(model: str) -> FrontStatus:
    """The status of one more model."""
    _fronts.append(front := FrontStatus(model))
    return front


def status() -> dict[str, Any]:
    """What this backend did so far: its graphs, all calls, and the shares of them that its own programs and each rewrite ran in."""
    calls = sum(graph.calls for graph in _graphs)
    own = [graph for graph in _graphs if graph.refusal is None]

    def share(graphs: Sequence[GraphStatus]) -> float:
        return sum(graph.calls for graph in graphs) / calls if calls else 0.0

    return {
        "graphs": list(_graphs),
        "fronts": list(_fronts),
        "calls": calls,
        "own_share": share(own),
        "held_bytes": sum(graph.held_bytes for graph in own),
        "rewrites": {
            rewrite.name: share([graph for graph in own if graph.applied.get(rewrite.name)])
            for rewrite in REWRITES
        },
    }
