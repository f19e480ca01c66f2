"""What it takes to report on large captures, and to merge them: a capture is made for each number of kernels.

    python benchmarks/capture_report.py [--kernels 1000000 10000000] [--last 1000000] [--jsonl FILE]

A capture has, for each kernel, its record and that of its launch, as an unmodified program leaves them; every thousandth launch is
followed by a wait. Times are of whole commands. Memory is the most that a command held of its own (`RssAnon`, looked at every 5 ms); the
capture itself is mapped, and the system takes its pages back when it needs them.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
NAMES = ["sm90_gemm", "triton_poi_fused_add_0", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"]
#: Records of one chunk: about what CUPTI hands over at a time.
CHUNK = 2000


def chunk(file: IO[bytes], kind: int, records: list[bytes], size: int = 0) -> None:
    """One chunk as docs/formats/capture.md has it."""
    payload = b"".join(records)
    header = [0x4B4E4843, kind, len(payload), len(records), size]
    crc = zlib.crc32(payload, zlib.crc32(struct.pack("<6I", *header, 0)))
    file.write(struct.pack("<6I", *header, crc) + payload + bytes(-len(payload) % 8))


def make_capture(path: Path, kernels: int) -> None:
    """Kernels of 2 to 30 µs, one after the other, each launched 20 µs before."""
    kernel, api = struct.Struct("<4Q6I6i3I4I2H"), struct.Struct("<2Q6I")
    with path.open("wb") as file:
        file.write(struct.pack("<8s4IQ", b"OPPROFCP", 1, 32, 4711, 0, 0))
        chunk(
            file,
            2,
            [struct.pack("<2I", i, len(n)) + n.encode() for i, n in enumerate(NAMES)],
        )
        chunk(file, 14, [struct.pack("<3Q", 10**9, 1_700_000_000 * 10**9, 10**9)], 24)
        at = 2 * 10**9
        for begin in range(0, kernels, CHUNK):
            launches, runs = [], []
            for number in range(begin, min(begin + CHUNK, kernels)):
                name = 2 if number % 97 == 96 else number % 2
                duration = 2000 + number * 7919 % 28_000
                stream = 20 if name == 2 else 7
                launches.append(api.pack(at - 20_000, at - 16_000, 1, 211, 5, number + 1, 0, 4711))
                if number % 1000 == 999:
                    launches.append(
                        api.pack(at - 10_000, at + duration, 1, 165, 5, 1 << 31 | number, 0, 4711)
                    )
                runs.append(
                    kernel.pack(
                        *(at, at + duration, 0, 0, name, 0, 1, stream, number + 1, 0),
                        *(264, 1, 1, 256, 1, 1, 0, 0, 0, 0, 0, 0, 0, 32, 0),
                    )
                )
                at += duration + 600
            chunk(file, 7, launches, api.size)
            chunk(file, 3, runs, kernel.size)
        chunk(file, 21, [struct.pack("<4Q", kernels, 0, 0, at)], 32)


def measured(command: list[str]) -> tuple[float, int]:
    """Seconds of a command, and the bytes that it held at most."""
    start, most = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            most = max(most, held(process.pid))
            time.sleep(0.005)
        if process.returncode:
            assert process.stderr is not None
            sys.exit(f"{' '.join(command)} failed:\n{process.stderr.read().decode()[-2000:]}")
    return time.perf_counter() - start, most


def held(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


def rows(kernels: int, last: int, folder: Path) -> Iterable[dict[str, object]]:
    tools = Path(os.environ.get("OPPROF_TOOLS_DIR", ROOT / "build" / "bin"))
    translate = str(tools / "opprof-translate")
    capture, profile = folder / "capture.opcap", folder / "profile.opprof.json"
    make_capture(capture, kernels)
    text, html = folder / "report.txt", folder / "report.html"
    reports = [f"--with-text={text}", f"--with-html={html}"]
    merged = str(folder / "merged.json")
    commands = {
        "profile and reports": [
            *(translate, "--attribute-profile", str(capture), "-o", str(profile)),
            *(f"--last-kernels={last}", *reports),
        ],
        "report of the profile": [translate, "--report-text", str(profile), "-o", str(text)],
        "merge": [sys.executable, "-m", "opprof", "merge", str(capture), "-o", merged],
    }
    for what, command in commands.items():
        seconds, most = measured(command)
        yield {
            "what": what,
            "kernels": kernels,
            "kept": min(kernels, last) if what != "merge" else kernels,
            "capture_mib": round(capture.stat().st_size / 2**20),
            "seconds": round(seconds, 2),
            "memory_mib": round(most / 2**20),
        }
    yield {"what": "size of the profile", "kernels": kernels, "mib": profile.stat().st_size >> 20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--last", type=int, default=1_000_000, help="kernels that a profile keeps")
    parser.add_argument("--jsonl", type=Path, help="also write the rows there")
    options = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(ROOT / "python"))
    found = []
    for kernels in options.kernels:
        with tempfile.TemporaryDirectory(prefix="opprof-") as folder:
            for row in rows(kernels, options.last, Path(folder)):
                print(json.dumps(row), flush=True)
                found.append(row)
    if options.jsonl is not None:
        options.jsonl.write_text("".join(json.dumps(row) + "\n" for row in found))


if __name__ == "__main__":
    main()
