"""What a program that records itself calls: `opprof.capture` and `opprof.layer_ranges`."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opprof.errors import OpprofError
from opprof.recording import library
from opprof.recording.capture import Capture
from opprof.recording.cpu_capture import CpuCapture
from opprof.recording.identity import WrapperLines
from opprof.recording.launch_maps import Layers
from opprof.recording.ranges import LayerRanges
from opprof.run_folder import RunFolder


def capture(path: str | Path, **options: Any) -> Capture:
    """Records steps into the run folder `path`: `with opprof.capture("run/", counters="all") as prof: prof.step(fn)`.

    The options are those of Capture, and docs/capture.md explains them. Without a GPU torch.profiler records the CPU.
    """
    reason = library.why_no_gpu()
    if reason is None:
        return Capture(path, **{"report": True, **options})
    return CpuCapture(path, reason, **options)


@contextlib.contextmanager
def layer_ranges(folder: str | Path) -> Iterator[None]:
    """Puts the NVTX ranges of a run folder's layers round the launches of its program, for nsys and every other NVTX tool.

    The program's own wrappers have to be loaded: call it once before. Nothing is captured.
    """
    layers = Layers.read(RunFolder(Path(folder)))
    if layers is None:
        raise OpprofError(
            f"{folder}: holds no partitions.json",
            remedy="`opprof profile model.py -o run/` makes a run folder",
        )
    lines = WrapperLines(None, maps=layers.maps, ranges=LayerRanges(layers.partitions))
    with lines.active():
        yield
