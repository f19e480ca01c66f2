"""The rewrites and the strategy: `opprof emit` puts those of the scripts in their place."""

from dataclasses import replace

from opprof.backend.emitted.interface import Rewrite, Strategy

BACKEND_NAME = "opprof_template"
REWRITES: tuple[Rewrite, ...] = ()
STRATEGY = replace(Strategy())
