"""Training programs under `opprof run`: how much of kernel time has its operator, module and line, and how much of that is right.

    PYTHONPATH=python python benchmarks/eager_attribution.py [--device cuda] [--only transformer,amp] [--ranks 2] [--jobs 2] [-o OUT]

Each program of benchmarks/models/eager_train.py runs twice: under `opprof run`, and by itself with a witness. That is torch.profiler's
record of its last steps, with a range round each call of PyTorch's that names line and module by other means than opprof's (a mode that
sees each call, hooks of modules); what autograd runs is its forward operator's, by the sequence number. The last kernels of each name are
paired, in the order of their launches. On a CPU a kernel is the outermost operator of ATen. Printed for each program: shares of kernel time
with all three, and of the time that the witness knows too, shares that are as it says. Differences are counted by what they are.
"""

import argparse
import bisect
import collections
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "benchmarks" / "models" / "eager_train.py"
PROGRAMS = (
    "transformer",
    "transformer amp",
    "transformer checkpoint",
    "transformer amp checkpoint fused",
    "transformer foreach",
    "convolutions",
    "convolutions amp fused",
    "convolutions checkpoint foreach",
    "recommender",
    "recommender amp foreach",
    "recommender fused",
    "transformer amp ddp fused",
    "convolutions ddp foreach",
    "recommender ddp",
)
Event = dict[str, Any]


class Nest:
    """The ranges of one thread, each inside of others: which are round a moment, outermost first."""

    def __init__(self, events: list[Event]):
        self.events = sorted(events, key=lambda event: (event["ts"], -event["dur"]))
        self.starts = [event["ts"] for event in self.events]
        self.around: list[int] = []
        stack: list[int] = []
        for i, event in enumerate(self.events):
            while stack and event["ts"] >= end_of(self.events[stack[-1]]):
                stack.pop()
            self.around.append(stack[-1] if stack else -1)
            stack.append(i)

    def at(self, moment: float) -> list[Event]:
        i = bisect.bisect_right(self.starts, moment) - 1
        chain = []
        while i >= 0:
            if end_of(self.events[i]) > moment:
                chain.append(self.events[i])
            i = self.around[i]
        return chain[::-1]


def end_of(event: Event) -> float:
    return float(event["ts"] + event["dur"])


def forward_of(chain: list[Event], forward: dict[int, list[Event]]) -> list[Event]:
    """The ranges round the forward operator of what autograd runs, where that is the innermost that is known of them."""
    for event in reversed(chain):
        if event["name"].startswith("at|"):
            return chain
        if event["name"].startswith("autograd::engine::evaluate_function"):
            return forward.get(event["args"].get("Sequence number", -1), [])
    return chain


def is_view(operator: str) -> bool:
    """True for an operator of ATen that gives its operand's storage and writes nothing: it is no kernel."""
    packet = getattr(torch.ops.aten, operator.removeprefix("aten::"), None)
    schemas = [getattr(packet, name)._schema for name in packet.overloads()] if packet else []
    returned = [value.alias_info for schema in schemas for value in schema.returns]
    return bool(returned) and all(info and not info.is_write for info in returned)


def witnessed(trace: Path, device: str) -> list[dict[str, Any]]:
    """The kernels of the witness in the order of their launches: name, time, operators round the launch, line and module."""
    events = json.loads(trace.read_text())["traceEvents"]
    complete = [event for event in events if event.get("ph") == "X"]
    host = [e for e in complete if e.get("cat") in ("cpu_op", "user_annotation")]
    threads = collections.defaultdict(list)
    for event in host:
        threads[event["pid"], event["tid"]].append(event)
    nests = {thread: Nest(own) for thread, own in threads.items()}
    forward: dict[int, list[Event]] = {}
    for nest in nests.values():
        for event in nest.events:
            number = event["args"].get("Sequence number", -1)
            if number >= 0 and not event["args"].get("Fwd thread id"):
                # The last of several is the operator that autograd's node is made in.
                forward[number] = nest.at(event["ts"])
    launches = []
    if device == "cuda":
        calls = {
            e["args"]["correlation"]: e
            for e in complete
            if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e["args"]
        }
        for event in complete:
            if event.get("cat") == "kernel":
                call = calls.get(event["args"].get("correlation"))
                launches.append((call, event))
    else:
        for nest in nests.values():
            for event in nest.events:
                chain = nest.at(event["ts"])
                names = [outer["name"] for outer in chain if outer is not event]
                outermost = not any(name.startswith("aten::") for name in names)
                if event["name"].startswith("aten::") and outermost and not is_view(event["name"]):
                    launches.append((event, event))
    kernels = []
    for call, event in launches:
        own = nests.get((call["pid"], call["tid"])) if call else None
        chain = own.at(call["ts"]) if own and call else []
        known = forward_of(chain, forward)
        places = [outer["name"].split("|") for outer in known if outer["name"].startswith("at|")]
        kernels.append(
            {
                "name": event["name"],
                "duration": event["dur"] * 1e3,
                "launched": call["ts"] if call else event["ts"],
                "operators": [e["name"] for e in chain if e["cat"] == "cpu_op"],
                "line": int(places[-1][1]) if places else None,
                "module": places[-1][2] if places else None,
            }
        )
    return sorted(kernels, key=lambda kernel: kernel["launched"])


def path_of(module: str) -> str:
    """A module of opprof's without the class of the outermost one, and without what wraps it."""
    parts = module.split(".")[1:]
    return ".".join(parts[1:] if parts[:1] == ["module"] else parts)


def differences(own: Event, kernel: dict[str, Any], text: list[str]) -> list[str]:
    """What opprof says otherwise than the witness; nothing where the witness does not know."""
    wrong = []
    if kernel["operators"] and own.get("host_op") not in kernel["operators"]:
        wrong.append(f"operator {own.get('host_op')} for {kernel['operators'][-1]}")
    if kernel["line"] is None:
        return wrong
    file, _, line = own.get("source", "").rpartition(":")
    if Path(file).name != PROGRAM.name or int(line or 0) != kernel["line"]:
        said = text[int(line) - 1].strip() if Path(file).name == PROGRAM.name else own.get("source")
        wrong.append(f"line {said} for {text[kernel['line'] - 1].strip()}")
    if (
        own.get("part") in ("forward", "backward")
        and path_of(own.get("module", "")) != kernel["module"]
    ):
        wrong.append(f"module {own.get('module')} for {kernel['module']}")
    return wrong


def compare(profile: dict[str, Any], witness: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares of kernel time: of opprof's steady steps those that have each of the three, of the witness's those that are alike."""
    steady = [kernel for kernel in profile["kernels"] if kernel["phase"] == "steady"]
    total = sum(kernel["duration_ns"] for kernel in steady)

    def has(kernel: Event) -> bool:
        outside = kernel.get("part") not in ("forward", "backward")
        return all(kernel.get(key) for key in ("host_op", "source")) and bool(
            kernel.get("module") or outside
        )

    by_name = collections.defaultdict(list)
    for kernel in sorted(profile["kernels"], key=lambda k: k.get("launched_at_ns", k["start_ns"])):
        by_name[kernel["name"]].append(kernel)
    known = right = time = 0.0
    wrong: collections.Counter[str] = collections.Counter()
    text = PROGRAM.read_text().splitlines()
    for kernel in reversed(witness):
        time += kernel["duration"]
        if not by_name[kernel["name"]]:
            wrong["no such kernel"] += kernel["duration"]
            known += kernel["duration"]
            continue
        own = by_name[kernel["name"]].pop()
        if not kernel["operators"]:
            continue
        found = differences(own, kernel, text)
        if kernel["line"] is not None:
            known += kernel["duration"]
            right += 0 if found else kernel["duration"]
        for difference in found:
            wrong[difference] += kernel["duration"]
    return {
        "kernels": len(steady),
        "placed": sum(kernel["duration_ns"] for kernel in steady if has(kernel)) / max(total, 1),
        "witnessed": known / max(time, 1),
        "right": right / max(known, 1),
        "differences": {what: ns / max(time, 1) for what, ns in wrong.most_common(8)},
    }


def program(words: str, device: str) -> list[str]:
    command = [str(PROGRAM), *words.split()[:1], device, *words.split()[1:]]
    if "ddp" not in words.split():
        return [sys.executable, *command]
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        *command,
    ]


def examine(words: str, device: str, output: Path) -> list[dict[str, Any]]:
    """Both runs of a program, and what each rank shows."""
    folder = output / words.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    run = [sys.executable, "-m", "opprof", "run", "-o", str(folder / "run"), "--"]
    commands = ([*run, *program(words, device)], [*program(words, device), f"witness={folder}"])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode:
            return [{"program": words, "error": (done.stdout + done.stderr)[-1500:]}]
    results = []
    for trace in sorted(folder.glob("witness-*.json")):
        rank = trace.stem.partition("-")[2]
        profiles = sorted((folder / "run").glob("profile*.opprof.json"))
        if len(profiles) > 1:
            profiles = [p for p in profiles if f"-r{rank}-" in p.name or f"r{rank}." in p.name]
        if len(profiles) != 1:
            found = sorted(p.name for p in (folder / "run").iterdir())
            return [
                {"program": words, "error": f"rank {rank} has {len(profiles)} profiles: {found}"}
            ]
        profile = json.loads(profiles[0].read_text())
        results.append(
            {"program": words, "rank": int(rank), **compare(profile, witnessed(trace, device))}
        )
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", default="", help="programs with one of these words")
    parser.add_argument("--ranks", type=int, choices=(1, 2), help="programs of this many")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    words = [word for word in options.only.split(",") if word]
    chosen = [own for own in PROGRAMS if not words or set(words) & set(own.split())]
    if options.ranks:
        chosen = [own for own in chosen if ("ddp" in own.split()) == (options.ranks == 2)]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    )
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        output = options.output or Path(scratch)
        print(
            "| program | rank | kernels | operator, module and line | the witness knows | as it says |"
        )
        print("|---|---|---|---|---|---|")
        with ThreadPoolExecutor(options.jobs) as pool:
            jobs = [pool.submit(examine, own, options.device, output) for own in chosen]
            for job in jobs:
                for row in job.result():
                    if "error" in row:
                        failed += 1
                        print(f"{row['program']}: {row['error']}", file=sys.stderr, flush=True)
                        continue
                    shares = [f"{100 * row[key]:.2f} %" for key in ("placed", "witnessed", "right")]
                    print(
                        f"| {row['program']} | {row['rank']} | {row['kernels']} | {' | '.join(shares)} |",
                        flush=True,
                    )
                    for what, share in row["differences"].items():
                        print(
                            f"  {row['program']}: {100 * share:.2f} %: {what}",
                            file=sys.stderr,
                            flush=True,
                        )
                    if options.output:
                        with (options.output / "rows.jsonl").open("a") as file:
                            file.write(json.dumps(row) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
