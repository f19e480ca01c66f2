"""Reads the traces that other projects test their readers with, and holds what opprof says of them against the files and against a peer.

    git clone https://github.com/AMD-AGI/TraceLens; git clone https://github.com/facebookresearch/HolisticTraceAnalysis
    PATH=build/bin:$PATH python benchmarks/public_traces.py TraceLens HolisticTraceAnalysis

Of every trace: kernels and their time in the file, as this script counts them, and in the profile; the share of kernel time that has an
operator, of that whose launch the file holds; and the share of operators' time whose FLOPs or bytes are known. Where TraceLens keeps its
own report of a trace beside it, the FLOPs of either, without those that it finds in the trace of a graph's capture. The exit status is 1
where kernels or their time differ, or a trace is refused.
"""

import csv
import gzip
import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

csv.field_size_limit(1 << 30)


def traces(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        name = path.name.lower()
        # Of a clone that left large files out, a pointer stays.
        if path.is_file() and name.endswith((".json", ".json.gz")) and path.stat().st_size > 1000:
            yield path


def events(path: Path) -> list[dict[str, Any]] | None:
    """The events of a trace, or None of another file."""
    data = path.read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        document = json.loads(data, parse_float=Decimal, strict=False)
    except (ValueError, EOFError, OSError, zlib.error):
        return None
    found = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(found, list):
        return None
    return [event for event in found if isinstance(event, dict)]


def nanoseconds(event: dict[str, Any]) -> int:
    return int((Decimal(event.get("dur", 0)) * 1000).to_integral_value())


def peer_flops(path: Path) -> float | None:
    """What TraceLens's report of the trace says, as its tests keep it."""
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    folders = [path.parent / f"{stem}_perf_report_csvs"]
    # Of an engine's trace, where it is the only one of its folder.
    if len(list(path.parent.glob("*.json*"))) == 1:
        folders.append(path.parent / "perf_csvs")
    for folder in folders:
        table = folder / "unified_perf_summary.csv"
        if table.is_file():
            with table.open() as file:
                rows = [row for row in csv.DictReader(file) if row["GFLOPS"]]
            return sum(float(row["GFLOPS"]) * 1e9 * int(row["operation_count"]) for row in rows)
    return None


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "–"


def main() -> int:
    print("| trace | kernels | ms | with operator, % | work known, % | TFLOP | TraceLens |")
    print("|---|---|---|---|---|---|---|")
    status, refused, told = 0, 0, set[str]()
    for folder in map(Path, sys.argv[1:]):
        for path in traces(folder):
            recorded = events(path)
            if recorded is None:
                continue
            kernels = [
                e for e in recorded if str(e.get("cat")).lower() == "kernel" and e.get("ph") == "X"
            ]
            if not kernels:
                continue
            answer = subprocess.run(
                ["opprof-driver", "report", "--json", path], capture_output=True, check=False
            )
            if answer.returncode:
                refused += 1
                status = 1
                print(f"{path}: {answer.stderr.decode().strip()}", file=sys.stderr)
                continue
            profile = json.loads(answer.stdout)
            time = sum(map(nanoseconds, kernels))
            seen = profile["kernels"]
            if len(seen) != len(kernels) or sum(kernel["duration_ns"] for kernel in seen) != time:
                status = 1
                print(
                    f"{path}: {len(kernels)} kernels of {time} ns, read as {len(seen)}",
                    file=sys.stderr,
                )
            launches = {
                e.get("args", {}).get("correlation")
                for e in recorded
                if e.get("cat") in ("cuda_runtime", "cuda_driver", "Runtime")
            }
            launched = sum(
                nanoseconds(e) for e in kernels if e.get("args", {}).get("correlation") in launches
            )
            named = sum(
                kernel["duration_ns"]
                for kernel in seen
                if "host_op" in kernel and "launched_at_ns" in kernel
            )
            operators = profile.get("operators", [])
            called = sum(op["kernel_time_ns"] for op in operators)
            known = sum(
                op["kernel_time_ns"] for op in operators if "flops" in op or "bytes_read" in op
            )
            flops = sum(op.get("flops", 0) * op["calls"] for op in operators)
            peer = peer_flops(path)
            name = str(path.relative_to(folder))
            told.add(name)
            print(
                f"| {name} | {len(seen)} | {time / 1e6:.3f} | {share(named, launched)}"
                f" | {share(known, called)} | {flops / 1e12:.3f} | {'–' if peer is None else f'{peer / 1e12:.3f}'} |"
            )
    print(f"\n{len(told)} traces, {refused} refused.")
    return status


if __name__ == "__main__":
    sys.exit(main())
