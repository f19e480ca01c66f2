"""Times the trace reader beside Python's json module on the same traces, in one run, and prints a table.

    python benchmarks/trace_read.py [--megabytes 64] [--runs 5] [--repeat] [TRACE ...]
    python benchmarks/trace_read.py --simdjson [--tools DIR:DIR…] [--megabytes 200] [--runs 5] [--repeat] [TRACE ...]
    python benchmarks/trace_read.py --memory [--tools DIR:DIR…] [--megabytes 1000] [--runs 3] [--repeat] [TRACE ...]

What is timed of opprof is the whole command, `opprof-translate --attribute-profile`: start, reading, attribution, findings and
writing the profile. Of Python it is json.loads alone (and gzip.decompress for a compressed trace). Without traces of your own one is
made: kernels, launches and operators in the proportions of a GPT-2 step, until the text has the size asked for. With --repeat those that
are given are: one step after another, each with ids of its own. --memory tells the time and the most memory of `opprof-driver report --json`,
besides mapped files, and Python reads nothing; the folders of --tools take turns. --simdjson tells the processor time of the same command, system calls and
all, beside that of simdjson on the same texts (benchmarks/simdjson_rate.cpp, which a compiler and simdjson's headers have to be there for), in turns.
"""

import argparse
import gzip
import json
import os
import re
import resource
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


NUMBERS = re.compile(
    rb'("ts": |"External id": |"Ev Idx": |"correlation": |"id": |"Sequence number": )(\d+)'
)


def repeated_trace(trace: Path, size: int, to: Path) -> None:
    """Writes the events of a trace again and again, each time later and with ids of their own, until they have `size` bytes."""
    data = trace.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    begin = data.index(b"[", data.index(b'"traceEvents"')) + 1
    end = data.rindex(b"]")
    head, events, tail = data[:begin], data[begin:end], data[end:]
    parts = NUMBERS.split(events)
    keys, numbers = parts[1::3], list(map(int, parts[2::3]))
    times = [n for key, n in zip(keys, numbers, strict=True) if key == b'"ts": ']
    span = max(times) - min(times) + 1_000_000
    most = max(n for key, n in zip(keys, numbers, strict=True) if key != b'"ts": ') + 1
    shift = [span if key == b'"ts": ' else most for key in keys]
    with to.open("wb") as file:
        file.write(head)
        for again in range(-(-size // len(events))):
            file.write(b"," if again else b"")
            for at, (number, step) in enumerate(zip(numbers, shift, strict=True)):
                # 0 as an id is none.
                parts[3 * at + 2] = b"%d" % (number + again * step if number else 0)
            file.write(b"".join(parts))
        file.write(tail)


def own_memory(process: int) -> int:
    """What it holds at this moment besides mapped files, in bytes; 0 once it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    held = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(held[1]) * 1024 if held else 0


def print_memory(trace: Path, folders: list[str], runs: int) -> None:
    """The least seconds and the most memory of each folder's tool, run in turns."""
    seconds: dict[str, list[float]] = {folder: [] for folder in folders}
    most = dict.fromkeys(folders, 0)
    for _ in range(runs):
        for folder in folders:
            command = [f"{folder}/opprof-driver", "report", "--json", "--", str(trace)]
            start = time.perf_counter()
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                while process.poll() is None:
                    most[folder] = max(most[folder], own_memory(process.pid))
                    time.sleep(0.005)
            seconds[folder].append(time.perf_counter() - start)
            if process.returncode:
                sys.exit(f"{' '.join(command)} failed")
    size = trace.stat().st_size
    for folder in folders:
        print(
            f"| {trace.name} | {size / 1e6:.1f} | {folder} | {min(seconds[folder]):.2f} |"
            f" {size / 1e6 / min(seconds[folder]):.0f} | {most[folder] / 1e6:.0f} | {most[folder] / size:.2f} |"
        )


def processor_seconds(command: list[str]) -> float:
    """What a command takes of the processor, by itself and in the system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        sys.exit(f"{' '.join(command)} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def print_simdjson(traces: list[Path], folders: list[str], runs: int, work: Path) -> None:
    """The least processor time of each folder's tool, over simdjson's on the same text; all take turns."""
    source = Path(__file__).with_name("simdjson_rate.cpp")
    program = str(work / "simdjson_rate")
    compiler = os.environ.get("CXX", "c++")
    subprocess.run(
        [compiler, "-std=c++17", "-O3", str(source), "-o", program, "-lsimdjson"], check=True
    )
    print("| trace | MB | tools | opprof, MB/s | simdjson on demand | document | of the former |")
    print("|---|---|---|---|---|---|---|")
    for trace in traces:
        seconds = dict.fromkeys(folders, float("inf"))
        on_demand = document = float("inf")
        for _ in range(runs):
            for folder in folders:
                command = [f"{folder}/opprof-driver", "report", "--json", "--", str(trace)]
                seconds[folder] = min(seconds[folder], processor_seconds(command))
            printed = subprocess.run([program, str(trace)], stdout=subprocess.PIPE, check=True)
            one, other = map(float, printed.stdout.split())
            on_demand, document = min(on_demand, one), min(document, other)
        size = trace.stat().st_size / 1e6
        for folder in folders:
            print(
                f"| {trace.name} | {size:.1f} | {folder} | {size / seconds[folder]:.0f} | {size / on_demand:.0f} |"
                f" {size / document:.0f} | {on_demand / seconds[folder]:.2f} |"
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
    parser.add_argument(
        "--repeat", action="store_true", help="repeat the given traces to that size"
    )
    parser.add_argument("--memory", action="store_true", help="tell memory; of plain traces alone")
    parser.add_argument("--simdjson", action="store_true", help="compare with it; plain traces")
    parser.add_argument("--tools", help="folders of tools, with colons between them")
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
        elif options.repeat:
            for place, trace in enumerate(traces):
                to = work / f"{place}-{trace.name.removesuffix('.gz')}"
                repeated_trace(trace, options.megabytes * 1_000_000, to)
                traces[place] = to
        folders = options.tools.split(":") if options.tools else [str(Path(tool).parent)]
        if options.simdjson:
            plain = [trace for trace in traces if trace.suffix != ".gz"]
            print_simdjson(plain, folders, options.runs, work)
            return
        if options.memory:
            print("| trace | MB | tools | all (s) | MB/s | memory (MB) | of the file |")
            print("|---|---|---|---|---|---|---|")
            for trace in traces:
                if trace.suffix != ".gz":
                    print_memory(trace, folders, options.runs)
            return
        print(
            "| trace | MB of text | opprof, all (s) | MB/s | json.loads alone (s) | MB/s | ratio |"
        )
        print("|---|---|---|---|---|---|---|")
        for trace in traces:
            measure(trace, tool, options.runs, work)


if __name__ == "__main__":
    main()
