"""What it costs a wrapper to be followed, for each line that launches. Needs Python 3.12 or later, and neither PyTorch nor a GPU.

    PYTHONPATH=python OPPROF_CAPTURE_LIBRARY=build/lib/libopprof_capture.so python benchmarks/line_events.py [launches…]

The wrapper has the form of Inductor's; what it calls does nothing. `builtin` is what a capture does, `callback` what it does
where the library has no builtins for the interpreter, `LINE` the same callback by the interpreter's own events of lines. The
figures are the medians of rounds in which each way is measured once, less the bare program measured just before it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

LAUNCH = """\
        # Topologically Sorted Source Nodes: [linear_{0}], Original ATen: [aten.addmm, aten.relu]
        # Source node to ATen node mapping: see the graph
        buf{0} = empty_strided_cuda((256, 2048), (2048, 1), torch.float32)
        stream0 = get_raw_stream(0)
        triton_poi_fused_addmm_relu_{0}.run(arg0_1, buf{0}, 524288, stream=stream0)
        del buf{0}
"""


def wrapper(launches: int, folder: Path) -> ModuleType:
    """A module with a `call` of that many launches."""
    text = "def call(args):\n    arg0_1, = args\n    args.clear()\n    with torch.device(0):\n"
    text += "".join(LAUNCH.format(i) for i in range(launches)) + "    return (arg0_1, )\n"
    path = folder / f"wrapper_{launches}.py"
    path.write_text(text)
    module = ModuleType("wrapper")
    exec(compile(text, str(path), "exec"), module.__dict__)

    def run(*arguments: Any, stream: int) -> None:
        pass

    names: dict[str, Any] = {
        "torch": SimpleNamespace(device=lambda index: contextlib.nullcontext(), float32=1),
        "empty_strided_cuda": lambda *arguments: 1,
        "get_raw_stream": lambda device: 0,
    }
    names |= {f"triton_poi_fused_addmm_relu_{i}": SimpleNamespace(run=run) for i in range(launches)}
    module.__dict__.update(names)
    return module


@contextlib.contextmanager
def by_line_events(library: Any, code: CodeType, ids: dict[int, int]) -> Iterator[None]:
    """As identity.WrapperLines does it with instructions."""
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    events, disable, at = monitoring.events, monitoring.DISABLE, library.at_id

    def on_line(code: CodeType, line: int) -> Any:
        identifier = ids.get(line)
        return disable if identifier is None else at(identifier)

    def on_return(code: CodeType, offset: int, value: object) -> None:
        at(0)

    monitoring.use_tool_id(3, "benchmark")
    monitoring.register_callback(3, events.LINE, on_line)
    monitoring.register_callback(3, events.PY_RETURN, on_return)
    monitoring.set_local_events(3, code, events.LINE | events.PY_RETURN)
    yield
    monitoring.set_local_events(3, code, 0)
    for event in (events.LINE, events.PY_RETURN):
        monitoring.register_callback(3, event, None)
    monitoring.free_tool_id(3)


def measure(launches: int, rounds: int, folder: Path) -> dict[str, Any]:
    """All ways on a wrapper of that many launches."""
    from opprof.recording.identity import WrapperLines, launching_lines
    from opprof.recording.library import Library, find_library

    builtin, callback = (Library(find_library()) for _ in range(2))
    callback._python_callbacks = None
    module = wrapper(launches, folder)
    code = module.call.__code__
    lines = launching_lines(code)
    assert len(lines) == launches
    ways: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
        "builtin": lambda: WrapperLines(builtin, [module]).active(),
        "callback": lambda: WrapperLines(callback, [module]).active(),
        "LINE": lambda: by_line_events(builtin, code, {line: line for line in lines}),
    }
    runs = max(3, 4000 // launches)

    def wall() -> float:
        begin = time.perf_counter()
        for _ in range(runs):
            module.call([1])
        return (time.perf_counter() - begin) / runs

    for _ in range(3):
        wall()
    bare: list[float] = []
    more: dict[str, list[float]] = {label: [] for label in ways}
    for _ in range(rounds):
        for label in random.sample(list(ways), len(ways)):
            wall()
            bare.append(wall())
            with ways[label]():
                wall()
                more[label].append(wall() - bare[-1])
    return {
        "launches": launches,
        "python": ".".join(map(str, sys.version_info[:3])),
        "bare_us": round(statistics.median(bare) * 1e6, 2),
        "rounds": rounds,
        # The return of the function is an event too.
        "ns_an_event": {
            label: round(statistics.median(values) / (launches + 1) * 1e9)
            for label, values in more.items()
        },
    }


def main() -> None:
    """Measures the sizes that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("launches", nargs="*", type=int, default=[8, 128, 512])
    options = parser.parse_args()
    if sys.version_info < (3, 12):
        sys.exit(
            f"Python {sys.version.split()[0]} has no sys.monitoring: run this with 3.12 or later"
        )
    with tempfile.TemporaryDirectory() as folder:
        for launches in options.launches:
            print(json.dumps(measure(launches, options.rounds, Path(folder))), flush=True)


if __name__ == "__main__":
    main()
