"""Captures several ranks on one host: `opprof run` of a torchrun program with NCCL, `opprof merge`, and torch.profiler beside them.

    PYTHONPATH=python OPPROF_CAPTURE_LIBRARY=build/lib/libopprof_capture.so python benchmarks/capture_two_gpus.py -o OUT [part…]

Results are JSON lines in OUT/two-gpus.jsonl. The program trains a small model for a number of steps; its gradients go through all-reduces of
buckets that overlap the backward pass, as DistributedDataParallel does it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from result_lines import Results

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("out")
RESULTS = Results(OUT / "two-gpus.jsonl")

PROGRAM = '''
"""Trains a small model on every rank; prints the seconds of its steps. With a trace's folder, under torch.profiler."""
import json, os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

steps, traces = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl", device_id=torch.device("cuda", local))
torch.manual_seed(0)
layers = []
for _ in range(6):
    layers += [torch.nn.Linear(2048, 2048), torch.nn.GELU()]
model = DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), device_ids=[local], bucket_cap_mb=16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(1024, 2048, device="cuda")

def step():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()

for _ in range(5):
    step()
torch.cuda.synchronize()
dist.barrier()
profiler = None
if traces:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU])
    profiler.start()
begin = time.perf_counter()
torch.cuda.nvtx.range_push("measured")
for _ in range(steps):
    step()
torch.cuda.synchronize()
torch.cuda.nvtx.range_pop()
seconds = time.perf_counter() - begin
if profiler is not None:
    profiler.stop()
    profiler.export_chrome_trace(f"{traces}/rank{rank}.json")
print(json.dumps({"rank": rank, "seconds": seconds, "steps": steps}), flush=True)
dist.barrier()
dist.destroy_process_group()
'''


def ranks() -> int:
    """How many GPUs there are."""
    import torch

    return torch.cuda.device_count()


def torchrun(*arguments: object) -> list[str]:
    """The program under torchrun, a rank a GPU."""
    return [
        sys.executable,
        *("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks()}"),
        str(OUT / "train.py"),
        *map(str, arguments),
    ]


def opprof(*arguments: object, timeout: float = 150) -> subprocess.CompletedProcess[str]:
    """One command of opprof."""
    return subprocess.run(
        [sys.executable, "-m", "opprof", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def printed(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What the ranks printed."""
    found = re.findall(r'\{"rank".*?\}', done.stdout)
    return sorted((json.loads(line) for line in found), key=lambda entry: entry["rank"])


def kernels_of(trace: Path, measured: bool) -> list[dict[str, Any]]:
    """The kernels of a trace; of a capture those that were launched inside of the program's own NVTX range."""
    events = json.loads(trace.read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    if not measured:
        return kernels
    spans = [e for e in events if e.get("cat") == "user_annotation" and e["name"] == "measured"]
    launches = {
        e["args"]["correlation"]: e["ts"]
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    return [
        kernel
        for kernel in kernels
        if any(
            span["ts"] <= launches.get(kernel["args"]["correlation"], 0) <= span["ts"] + span["dur"]
            for span in spans
        )
    ]


def figures(kernels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts and times of a rank's kernels."""
    nccl = [k for k in kernels if "nccl" in k["name"].lower()]
    return {
        "kernels": len(kernels),
        "nccl": len(nccl),
        "nccl_ms": round(sum(k["dur"] for k in nccl) / 1e3, 3),
        "other_ms": round(sum(k["dur"] for k in kernels if k not in nccl) / 1e3, 3),
    }


def merged(name: str, folder: Path) -> None:
    """`opprof merge`, and each rank's own figures."""
    from opprof.commands.merge import merge, merge_text

    begin = time.perf_counter()
    result = merge([folder], OUT / f"{name}.merged.json")
    seconds = time.perf_counter() - begin
    print(merge_text(result), flush=True)
    skews = sorted(skew for _, skew in result.skews)
    RESULTS.say(
        name,
        what="merge",
        seconds=round(seconds, 2),
        ranks=[
            {
                "rank": rank.rank,
                "kernels": rank.kernels,
                "compute_ms": round(rank.compute_ns / 1e6, 3),
                "communication_ms": round(rank.communication_ns / 1e6, 3),
                "exposed_ms": round(rank.exposed_ns / 1e6, 3),
            }
            for rank in result.ranks
        ],
        left_out=result.left_out,
        collectives=len(skews),
        skew_us={
            "median": round(skews[len(skews) // 2] / 1e3, 1),
            "most": round(skews[-1] / 1e3, 1),
        }
        if skews
        else None,
        trace_mib=(OUT / f"{name}.merged.json").stat().st_size >> 20,
    )


def captured(name: str, steps: int, *options: object) -> None:
    """`opprof run` of the program, and its files."""
    folder = OUT / name
    begin = time.perf_counter()
    done = opprof("run", "-o", folder, *options, "--", *torchrun(steps))
    RESULTS.say(
        name,
        what="run",
        status=done.returncode,
        wall_s=round(time.perf_counter() - begin, 1),
        said=done.stderr.strip().splitlines()[-8:],
        steps=printed(done),
        files={file.name: file.stat().st_size for file in sorted(folder.glob("*"))},
        summaries={
            file.name: file.read_text().strip().splitlines()
            for file in sorted(folder.glob("*.txt"))
        },
    )
    for trace in sorted(folder.glob("*.trace.json")):
        RESULTS.say(
            name,
            what="rank",
            file=trace.name,
            all=figures(kernels_of(trace, False)),
            measured=figures(kernels_of(trace, True)),
        )
    RESULTS.guarded(f"{name} merge", lambda: merged(name, folder))


def part_bare() -> None:
    """The program without anything."""
    done = subprocess.run(torchrun(30), capture_output=True, text=True, timeout=150, check=False)
    RESULTS.say("bare", status=done.returncode, steps=printed(done), errors=done.stderr[-300:])


def part_profiler() -> None:
    """The same program under torch.profiler, as the witness of kernels and NCCL's time."""
    folder = OUT / "profiler"
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        torchrun(30, folder), capture_output=True, text=True, timeout=150, check=False
    )
    RESULTS.say("profiler", status=done.returncode, steps=printed(done), errors=done.stderr[-300:])
    for trace in sorted(folder.glob("*.json")):
        RESULTS.say(
            "profiler", what="rank", file=trace.name, measured=figures(kernels_of(trace, False))
        )


def part_run() -> None:
    """Every rank of the unmodified program."""
    captured("run", 30)


def part_delay() -> None:
    """A second of a program that takes longer."""
    captured("delay", 3000, "--delay", "8", "--duration", "1")


def part_kill() -> None:
    """A rank that dies by a signal: torchrun's status, and what each rank left."""
    script = OUT / "train.py"
    dying = OUT / "dying.py"
    dying.write_text(
        script.read_text().replace(
            "dist.barrier()\ndist.destroy",
            "time.sleep(1.5)\nif rank == 1: os.kill(os.getpid(), 9)\ndist.barrier()\ndist.destroy",
        )
    )
    command = torchrun(30)
    command[command.index(str(script))] = str(dying)
    folder = OUT / "kill"
    done = opprof("run", "-o", folder, "--", *command)
    RESULTS.say(
        "kill",
        status=done.returncode,
        said=done.stderr.strip().splitlines()[-3:],
        summaries={
            file.name: file.read_text().strip().splitlines()
            for file in sorted(folder.glob("*.txt"))
        },
    )


PARTS: dict[str, Callable[[], None]] = {
    "bare": part_bare,
    "profiler": part_profiler,
    "run": part_run,
    "delay": part_delay,
    "kill": part_kill,
}


def main() -> None:
    """Runs the parts that were asked for."""
    global OUT, RESULTS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=OUT)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    options = parser.parse_args()
    OUT = options.output.resolve()
    RESULTS = Results(OUT / "two-gpus.jsonl")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "train.py").write_text(PROGRAM)
    os.environ.setdefault("OMP_NUM_THREADS", "4")
    # Multicast over NVLink is not lent everywhere.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    for part in options.parts or PARTS:
        RESULTS.guarded(part, PARTS[part])


if __name__ == "__main__":
    main()
