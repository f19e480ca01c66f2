"""opprof: why a PyTorch program on a GPU is slow, node by node of its graph, and a faster program that is proven to be one.

Importing this package imports nothing else; the modules that need PyTorch say so at their head.
"""

from typing import TYPE_CHECKING

from opprof.version import __version__

if TYPE_CHECKING:
    from opprof.loading import load
    from opprof.recording.api import capture, layer_ranges

__all__ = ["__version__", "capture", "layer_ranges", "load"]

#: Where what the package offers is defined; it is imported when it is used.
_PLACES = {
    "capture": "opprof.recording.api",
    "layer_ranges": "opprof.recording.api",
    "load": "opprof.loading",
}


def __getattr__(name: str) -> object:
    # `with opprof.capture("run/")` needs no import of its own.
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'opprof' has no attribute {name!r}")
