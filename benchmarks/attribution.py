"""Joins recorded traces to Inductor's code, and prints the table of docs/attribution.md.

    python benchmarks/attribution.py FOLDER [--tools build/bin]

FOLDER has a folder for each program: `*.trace.json.gz` of torch.profiler, and Inductor's debug folders anywhere below; eager traces are joined to
the exported graph where there is one, `*.pt2`.
"""

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path


def run(command: list[str | Path]) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{result.stderr[-2000:]}")


def kernels_of_trace(path: Path) -> Counter[tuple[str, int, int]]:
    """(name, start, duration) in nanoseconds of each kernel, from the decimal digits of the file."""
    with gzip.open(path) as file:
        trace = json.load(file, parse_float=Decimal)
    return Counter(
        (event["name"], int(event["ts"] * 1000), int(event["dur"] * 1000))
        for event in trace["traceEvents"]
        if event.get("ph") == "X" and event.get("cat") == "kernel"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tools", type=Path, default=Path("build/bin"))
    arguments = parser.parse_args()
    translate = arguments.tools / "opprof-translate"
    print(
        "| program | trace | kernels in | out | exact | GPU time | high | medium | unattributed |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for program in sorted(path for path in arguments.folder.iterdir() if path.is_dir()):
            maps: list[str] = []
            for number, code in enumerate(sorted(program.glob("**/output_code.py"))):
                # With the code beside it, as in a run folder.
                folder = Path(scratch) / f"{program.name}.{number}"
                folder.mkdir()
                shutil.copyfile(code, folder / code.name)
                target = folder / "launches.json"
                run([translate, "--inductor-launches", code, "-o", target])
                maps.append(f"--launches={target}")
            for number, graph in enumerate(sorted(program.glob("*.pt2"))):
                module, target = (
                    Path(scratch) / "graph.mlir",
                    Path(scratch) / f"graph.{number}.json",
                )
                run([translate, "--import-pt2", graph, "-o", module])
                run([translate, "--export-operator-launches", module, "-o", target])
                maps.append(f"--launches={target}")
            for trace in sorted(program.glob("*.trace.json.gz")):
                target = Path(scratch) / "profile.json"
                run([translate, "--attribute-profile", trace, *maps, "-o", target])
                profile = json.loads(target.read_text())
                expected = kernels_of_trace(trace)
                found = Counter(
                    (kernel["name"], kernel["start_ns"], kernel["duration_ns"])
                    for kernel in profile["kernels"]
                )
                summary = profile["summary"]
                shares = [
                    f"{100 * summary['attributed_ns'][name] / max(1, summary['kernel_time_ns']):.2f} %"
                    for name in ("high", "medium", "unattributed")
                ]
                row = [
                    program.name,
                    trace.name.removesuffix(".trace.json.gz"),
                    str(expected.total()),
                    str(summary["kernels"]),
                    "yes" if found == expected else "no",
                    f"{summary['kernel_time_ns'] / 1000:.1f} µs",
                    *shares,
                ]
                print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
