"""From a trace of torch.profiler to what it says: opprof beside HolisticTraceAnalysis and TraceLens, in turns, with each one's peak of memory.

    python -m venv /tmp/peers && /tmp/peers/bin/pip install HolisticTraceAnalysis openpyxl orjson tabulate tqdm pyyaml
    git clone https://github.com/AMD-AGI/TraceLens /tmp/TraceLens
    PATH=build/bin:$PATH python benchmarks/peer_trace.py --python /tmp/peers/bin/python --tracelens /tmp/TraceLens TRACE.json [...]

Of the peers the time of their imports is left out; of opprof it is the time of the whole process, which reads the trace, attributes it
and prints the profile as JSON, findings included. HolisticTraceAnalysis parses the trace and makes its breakdowns of time and kernels;
TraceLens makes its tree, and, as another row, its report. Medians of the runs; a ratio over 1 says that the peer takes longer.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HTA = """
import sys, time, shutil, tempfile
from hta.trace_analysis import TraceAnalysis
folder = tempfile.mkdtemp()
shutil.copy(sys.argv[1], folder)
start = time.perf_counter()
analysis = TraceAnalysis(trace_dir=folder)
analysis.get_temporal_breakdown(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
print("seconds", time.perf_counter() - start)
"""

TREE = """
import sys, time
from TraceLens import TreePerfAnalyzer
start = time.perf_counter()
analyzer = TreePerfAnalyzer.from_file(sys.argv[1])
analyzer.get_df_gpu_timeline()
analyzer.get_df_kernel_launchers()
print("seconds", time.perf_counter() - start)
"""

REPORT = """
import sys, tempfile, time
from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch
start = time.perf_counter()
generate_perf_report_pytorch(sys.argv[1], output_csvs_dir=tempfile.mkdtemp())
print("seconds", time.perf_counter() - start)
"""

PEERS = {"HTA": HTA, "TraceLens, tree": TREE, "TraceLens, report": REPORT}


def run(command: list[str], environment: dict[str, str]) -> tuple[float, float, bytes]:
    """Wall seconds, peak MB and what it printed."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        output.seek(0)
        printed = output.read()
    if status:
        sys.exit(f"{command[0]}: ended with status {status}")
    return seconds, usage.ru_maxrss / 1024, printed


def own_seconds(printed: bytes) -> float:
    lines = [line for line in printed.decode().splitlines() if line.startswith("seconds ")]
    return float(lines[-1].split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--python", default=sys.executable, help="one that has the peers")
    parser.add_argument("--tracelens", type=Path, required=True, help="its repository")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    # Each works on one core.
    environment = dict(os.environ, PYTHONPATH=str(options.tracelens), OMP_NUM_THREADS="1")
    print("| trace | MB | opprof, s (MB) | " + " | ".join(PEERS) + " |")
    print("|---|---|---|" + "---|" * len(PEERS))
    for trace in options.traces:
        times: dict[str, list[float]] = {}
        peaks: dict[str, float] = {}
        for _ in range(options.runs):
            for name, command in (
                ("opprof", ["opprof-driver", "report", "--json", str(trace)]),
                *((name, [options.python, "-c", code, str(trace)]) for name, code in PEERS.items()),
            ):
                seconds, peak, printed = run(command, environment)
                taken = own_seconds(printed) if name in PEERS else seconds
                times.setdefault(name, []).append(taken)
                peaks[name] = max(peak, peaks.get(name, 0))
        own = statistics.median(times["opprof"])
        cells = [
            f"{statistics.median(times[name]):.2f} ({peaks[name]:.0f}), ×{statistics.median(times[name]) / own:.0f}"
            for name in PEERS
        ]
        megabytes = trace.stat().st_size / 1e6
        print(
            f"| {trace.name} | {megabytes:.0f} | {own:.3f} ({peaks['opprof']:.0f}) | "
            + " | ".join(cells)
            + " |"
        )


if __name__ == "__main__":
    main()
