"""The rewrites and the strategy: `opprof emit` puts those of the scripts in their place."""

from collections.abc import Callable
from dataclasses import replace

from torch import fx

from opprof.backend.emitted.interface import Rewrite, Strategy

BACKEND_NAME = "opprof_template"
REWRITES: tuple[Rewrite, ...] = ()
STRATEGY = replace(Strategy())
# Edits that are no rewrites of a pattern, and their names: each changes a graph and returns at how many places.
PASSES: tuple[tuple[str, Callable[[fx.GraphModule], int]], ...] = ()
