"""Watches Inductor compile: its debug folder of each compiled graph, and the graph that the folder's code was made from. Needs PyTorch."""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config
import torch._inductor.config
import torch._inductor.debug
from torch import fx
from torch._inductor.output_code import CompiledFxGraph

from opprof.run_folder import OUTPUT_CODE


@dataclass
class CompiledGraph:
    """One graph as Inductor compiles it: `name` is that of its debug folder, `module` the graph after the post-grad passes."""

    name: str
    folder: Path
    module: fx.GraphModule


@contextlib.contextmanager
def watching_inductor(directory: Path, on_graph: Callable[[CompiledGraph], None]) -> Iterator[None]:
    """Inductor's debug output goes below `directory` while the block runs; `on_graph` sees each graph before it is lowered.

    The caches of compiled graphs are off meanwhile, because a graph that comes out of one is not compiled and leaves nothing to
    see; those of compiled kernels stay on. The program that is compiled is the same as without this, but for an event round each
    CPU kernel, which the profile of a CPU program needs, and for the range that PyTorch marks round a call while a profiler runs:
    it bears the name of the code's file.
    """
    compiled: Any = CompiledFxGraph
    post_compile = compiled.post_compile

    @functools.wraps(post_compile)
    def named_by_code(self: Any, *arguments: Any, **options: Any) -> Any:
        # Without a cache there is no key of one, and all calls would look alike.
        if self._fx_graph_cache_key is None:
            self._fx_graph_cache_key = self.cache_key
        return post_compile(self, *arguments, **options)

    patches = {"fx_graph_cache": False, "cpp.enable_kernel_profile": True}
    with torch._inductor.config.patch(patches), patched_inductor(directory, on_graph):
        compiled.post_compile = named_by_code
        try:
            yield
        finally:
            compiled.post_compile = post_compile


@contextlib.contextmanager
def patched_inductor(directory: Path, on_graph: Callable[[CompiledGraph], None]) -> Iterator[None]:
    """What every watch needs: debug output below `directory`, with each node's origin, of each graph that is lowered; `on_graph` sees it
    before. Gradients are not taken out of the cache of whole programs, whose graphs would not be met.
    """
    formatter = torch._inductor.debug.DebugFormatter
    original = formatter.fx_graph_transformed

    def fx_graph_transformed(self: Any, module: fx.GraphModule, inputs: Any) -> Any:
        folder = Path(self.filename(OUTPUT_CODE)).parent
        on_graph(CompiledGraph(folder.name, folder, module))
        return original(self, module, inputs)

    patches: dict[str, Any] = {
        "trace.enabled": True,
        "trace.debug_dir": str(directory),
        # Nobody reads them, and they took a fifth of a compilation.
        "trace.ir_pre_fusion": False,
        "trace.ir_post_fusion": False,
    }
    # PyTorch 2.8 and older have no such switch: the comments of the generated code are all that they record.
    if hasattr(torch._inductor.config.trace, "provenance_tracking_level"):
        patches["trace.provenance_tracking_level"] = 1
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._inductor.config.patch(patches))
        if hasattr(torch._functorch.config, "enable_autograd_cache"):
            stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        stack.enter_context(_quiet("torch._inductor.debug"))
        formatter.fx_graph_transformed = fx_graph_transformed
        stack.callback(setattr, formatter, "fx_graph_transformed", original)
        yield


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Holds back a logger's warnings: Inductor announces each debug folder as one."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
