"""Code and graphs of what Inductor compiled, by the keys of its cache: a graph that comes out of the cache leaves them nowhere else. Needs PyTorch."""

import contextlib
import functools
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch._inductor.codecache import FxGraphCache
from torch._inductor.output_code import CompiledFxGraph

from opprof.export.graph_json import GraphSource, write_graph_json
from opprof.export.inductor import CompiledGraph, patched_inductor
from opprof.files import read_json, replacing
from opprof.run_folder import POST_GRAD


class GraphStore:
    """A folder that processes share, with one folder for each compiled graph: the code, and the graph after the post-grad passes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _place(self, key: str) -> Path:
        return self.path / key

    def _put(self, key: str, graph: CompiledGraph) -> None:
        """Another process may put the same: the first one stays."""
        self.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path, prefix=".") as scratch:
            shutil.copytree(graph.folder, Path(scratch) / graph.name)
            with contextlib.suppress(OSError):
                Path(scratch).rename(self._place(key))

    @contextlib.contextmanager
    def watching(
        self, directory: Path, on_graph: Callable[[str, Path], None] = lambda name, folder: None
    ) -> Iterator[None]:
        """Each graph that Inductor compiles, or takes out of its cache, while the block runs has a folder of its own below `directory`,
        of which `on_graph` is told with its name; what is not here is compiled, though the cache has it.

        The program is the same as without this, and so are the keys of the cache. Kernels of the CPU have no events in a profile.
        """
        pending: list[CompiledGraph] = []

        def compiled(graph: CompiledGraph) -> None:
            write_graph_json(
                graph.folder / POST_GRAD, GraphSource(graph.module, graph.name, "post_grad")
            )
            pending[:] = [graph]

        cache: Any = FxGraphCache
        load = cache.load_with_key

        @functools.wraps(load)
        def load_what_is_here(key: str, *arguments: Any, **options: Any) -> Any:
            # A graph whose compilation failed was followed by no call of what was compiled, and is not what comes out of the cache now.
            pending.clear()
            found, info = load(key, *arguments, **options)
            if found is not None and not self._place(key).is_dir():
                return None, {**info, "cache_state": "miss"}
            return found, info

        kind: Any = CompiledFxGraph
        post_compile = kind.post_compile

        @functools.wraps(post_compile)
        def keep(graph: Any, *arguments: Any, **options: Any) -> Any:
            key = graph._fx_graph_cache_key
            if pending:
                made = pending.pop()
                if key is not None:
                    self._put(key, made)
                on_graph(made.name, made.folder)
            elif key is not None and self._place(key).is_dir():
                on_graph(*self._copy(key, directory))
            # Its calls bear the name of the code's file, by which a profile's kernels are joined.
            graph._fx_graph_cache_key = graph.cache_key
            return post_compile(graph, *arguments, **options)

        with patched_inductor(directory, compiled):
            cache.load_with_key = staticmethod(load_what_is_here)
            kind.post_compile = keep
            try:
                yield
            finally:
                cache.load_with_key = staticmethod(load)
                kind.post_compile = post_compile

    def _copy(self, key: str, directory: Path) -> tuple[str, Path]:
        """The graph's folder below `directory`, under a name that none there has."""
        (stored,) = self._place(key).iterdir()
        taken = directory / stored.name
        # As those are called that were compiled again.
        places = itertools.chain(
            [taken], (directory / f"{stored.name}@{n}" for n in itertools.count(1))
        )
        place = next(one for one in places if not one.exists())
        shutil.copytree(stored, place)
        if place != taken:
            file = place / POST_GRAD
            content = read_json(file, within=directory)
            content["graphs"][0]["name"] = place.name
            with replacing(file) as target:
                json.dump(content, target)
        return place.name, place
