"""opprof: why a PyTorch program on a GPU is slow, node by node of its graph, and a faster program that is proven to be one.

Importing this package imports nothing else; the modules that need PyTorch say so at their head.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # `with opprof.capture("run/")` needs no import of its own.
    if name == "capture":
        import importlib

        return importlib.import_module("opprof.capture")
    if name == "layer_ranges":
        import importlib

        return importlib.import_module("opprof.ranges").layer_ranges
    raise AttributeError(f"module 'opprof' has no attribute {name!r}")
