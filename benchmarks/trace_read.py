"""Times the trace reader beside Python's json module on the same traces, in one run, and prints a table.

    python benchmarks/trace_read.py [--megabytes 64] [--runs 5] [TRACE ...]

What is timed of opprof is the whole command, `opprof-translate --attribute-profile`: start, reading, attribution, findings and
writing the profile. Of Python it is json.loads alone (and gzip.decompress for a compressed trace). Without traces of your own one is
made: kernels, launches and operators in the proportions of a GPT-2 step, until the text has the size asked for.
"""

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def event(category: str, name: str, start: int, duration: int, **arguments: Any) -> str:
    """One complete event as Kineto prints it; times are nanoseconds."""
    device = category == "kernel"
    return (
        f'{{"ph": "X", "cat": "{category}", "name": "{name}", '
        f'"pid": {0 if device else 4242}, "tid": {7 if device else 4242},'
        f' "ts": {start // 1000}.{start % 1000:03}, "dur": {duration // 1000}.{duration % 1000:03},'
        f' "args": {json.dumps(arguments)}}}'
    )


def made_trace(size: int) -> str:
    """A trace of at least `size` characters: an operator, its launch, its kernel and the flow between them, repeated."""
    events, length, at, number = [], 0, 4_350_987_385_452_134, 1
    while length < size:
        external = {"External id": number}
        shapes = [[4, 128, 768], [768, 2304], [4, 128, 2304]]
        group = [
            event(
                "cpu_op",
                "aten::mm",
                at,
                31_956,
                **external,
                **{"Input Dims": shapes, "Ev Idx": number},
            ),
            event(
                "cuda_runtime",
                "cudaLaunchKernelExC",
                at + 9_000,
                5_250,
                **external,
                cbid=430,
                correlation=number,
            ),
            event(
                "kernel",
                "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4",
                at + 20_000,
                18_656,
                **external,
                device=0,
                stream=7,
                correlation=number,
                grid=[4, 32, 2],
                block=[128, 1, 1],
                **{
                    "registers per thread": 128,
                    "blocks per SM": 1.939394,
                    "est. achieved occupancy %": 12,
                },
            ),
            f'{{"ph": "s", "id": {number}, "pid": 4242, "tid": 4242, "ts": {at // 1000}, "cat": "ac2g", "name": "ac2g"}}',
        ]
        events += group
        length += sum(map(len, group))
        at += 40_000
        number += 1
    device = '{"id": 0, "name": "made", "numSms": 132}'
    return (
        f'{{"schemaVersion": 1, "deviceProperties": [{device}], "traceEvents": [\n'
        + ",\n".join(events)
        + "\n]}"
    )


def median_seconds(body: Callable[[], object], runs: int) -> float:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        body()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def find_tool() -> str:
    folder = os.environ.get("OPPROF_TOOLS_DIR", str(Path(sys.executable).parent))
    tool = shutil.which("opprof-translate", path=folder) or shutil.which("opprof-translate")
    if not tool:
        sys.exit("opprof-translate is not found: set OPPROF_TOOLS_DIR to the folder that holds it")
    return tool


def measure(trace: Path, tool: str, runs: int, work: Path) -> None:
    command = [tool, "--attribute-profile", str(trace), "-o", str(work / "profile.json")]

    def with_opprof() -> None:
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{result.stderr[-2000:]}")

    def with_python() -> object:
        data = trace.read_bytes()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)

    data = trace.read_bytes()
    text_size = len(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    # Alternating, so that a change of the machine's pace meets both.
    ours, theirs = [], []
    for _ in range(runs):
        ours.append(median_seconds(with_opprof, 1))
        theirs.append(median_seconds(with_python, 1))
    mine, python = statistics.median(ours), statistics.median(theirs)
    megabytes = text_size / 1e6
    print(
        f"| {trace.name} | {megabytes:.1f} | {mine:.3f} | {megabytes / mine:.0f} |"
        f" {python:.3f} | {megabytes / python:.0f} | {python / mine:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--megabytes", type=int, default=64, help="size of the made trace")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    tool = find_tool()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        traces = options.traces
        if not traces:
            text = made_trace(options.megabytes * 1_000_000)
            traces = [work / "made.json", work / "made.json.gz"]
            traces[0].write_text(text)
            traces[1].write_bytes(gzip.compress(text.encode(), compresslevel=6))
        print(
            "| trace | MB of text | opprof, all (s) | MB/s | json.loads alone (s) | MB/s | ratio |"
        )
        print("|---|---|---|---|---|---|---|")
        for trace in traces:
            measure(trace, tool, options.runs, work)


if __name__ == "__main__":
    main()
