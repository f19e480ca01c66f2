"""Profiles the examples on one GPU in every mode, and checks what the run folders say: attribution, layers' ranges, counters.

    PYTHONPATH=python OPPROF_TOOLS_DIR=build/bin python benchmarks/profile_h200.py -o OUT [--modes=…] [--prepare] [workload…]

Each workload has a process of its own, so that one that fails leaves the others. Results are JSON lines in
OUT/profile.jsonl. `--prepare` compiles all workloads at once first, which fills Inductor's caches.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from capture_h200 import ROOT, WORKLOADS, workload
from result_lines import Results

MODES = ("eager", "cudagraphs", "inductor")


def attribution(profile: Mapping[str, Any]) -> dict[str, Any]:
    """How the kernels of a profile are joined."""
    summary = profile["summary"]
    kernels = [k for k in profile["kernels"] if k.get("phase", "steady") == "steady"]
    total = summary["kernel_time_ns"] or 1
    return {
        "kernels": len(kernels),
        "steps": summary.get("steps"),
        "high": round(summary["attributed_ns"]["high"] / total, 5),
        "confidence": dict(Counter(k["confidence"] for k in kernels)),
        "method": dict(Counter(k["method"] for k in kernels)),
        "outside_steps": sum(k.get("step") is None for k in kernels),
        "unjoined": sorted(
            {k["explanation"][:150] for k in kernels if k["confidence"] == "unattributed"}
        )[:3],
        "kernels_us": round(summary["kernel_time_ns"] / 1e3 / max(1, summary.get("steps") or 1), 1),
        "notes": [note[:160] for note in profile["notes"]][:4],
    }


def check_ranges(folder: Any, profile: Mapping[str, Any]) -> dict[str, Any]:
    """Whether each kernel was launched inside of exactly the ranges of its layers, by the markers of the capture."""
    from opprof.recording.partitions import Node, read_partition_maps
    from opprof.recording.ranges import LayerRanges

    ranges = LayerRanges(read_partition_maps(folder.partitions), lambda name: None, lambda: None)
    trace = json.loads(gzip.decompress(folder.trace.read_bytes()))["traceEvents"]
    markers = [
        e for e in trace if e.get("cat") == "user_annotation" and e["name"].startswith("layer::")
    ]
    launches = {
        e["args"]["correlation"]: e
        for e in trace
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "Launch" in e["name"]
    }
    # The profile leaves out the step that only got the recording over its first costs.
    warm_up = [e for e in trace if e.get("name") == "warm-up"]
    on_device = sorted(
        (
            e
            for e in trace
            if e.get("cat") == "kernel"
            and not any(w["ts"] <= e["ts"] <= w["ts"] + w["dur"] for w in warm_up)
        ),
        key=lambda e: (e["ts"], e["name"]),
    )
    wanted = {
        (k["name"], k["start_ns"]): ranges.path(
            [Node.of(n, profile["graph"], profile["stage"]) for n in k["nodes"]]
        )
        for k in profile["kernels"]
    }
    exact, wrong, unknown = 0, [], 0
    in_profile = sorted(profile["kernels"], key=lambda k: (k["start_ns"], k["name"]))
    for event, kernel in zip(on_device, in_profile, strict=True):
        launch = launches.get(event["args"]["correlation"])
        if launch is None:
            unknown += 1
            continue
        begin, end = launch["ts"], launch["ts"] + launch["dur"]
        around = [
            m
            for m in markers
            if m["tid"] == launch["tid"] and m["ts"] <= begin and end <= m["ts"] + m["dur"]
        ]
        names = [m["name"] for m in sorted(around, key=lambda m: (m["ts"], -m["dur"]))]
        expected = list(wanted[kernel["name"], kernel["start_ns"]])
        if names == expected:
            exact += 1
        else:
            wrong.append({"kernel": event["name"][:60], "in": names, "expected": expected})
    return {
        "ranges": len(markers),
        "names": len({m["name"] for m in markers}),
        "straddling": len({m["name"] for m in markers if " + " in m["name"]}),
        "kernels_in_exactly_theirs": exact,
        "of": len(on_device),
        "launch_unknown": unknown,
        "wrong": wrong[:3],
    }


def with_counters(profile: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """What the counters of a run brought."""
    counters = dict(run.get("counters", {}))
    kernels = [k for k in profile["kernels"] if k.get("phase", "steady") == "steady"]
    having = [k for k in kernels if k.get("metrics")]
    time_all = sum(k["duration_ns"] for k in kernels) or 1
    return {
        **{
            key: counters.get(key)
            for key in (
                "mode",
                "left_out",
                "failed",
                "passes",
                "ranges",
                "unique",
                "graph",
                "absent",
            )
            if counters.get(key)
        },
        "seconds": round(counters.get("total_seconds", 0), 3),
        "stages": {k: round(v, 3) for k, v in counters.get("seconds", {}).items() if v > 0.002},
        "kernels": len(having),
        "of": len(kernels),
        "kernel_time": round(sum(k["duration_ns"] for k in having) / time_all, 4),
        "nodes": sum(bool(n["metrics"]) for n in profile["nodes"]),
        "nodes_inferred": sum(bool(n.get("inferred_from")) for n in profile["nodes"]),
        "nodes_of": len(profile["nodes"]),
    }


def profiled(results: Results, name: str, mode: str, **options: Any) -> dict[str, Any]:
    """One run of the profiler, and what its folder says."""
    from opprof.commands.profile import ProfileOptions, profile_script

    label = f"{name}-{mode}" + "".join(f"-{v}" for v in options.values())
    folder = profile_script(
        str(ROOT / "examples" / f"{name}.py"),
        results.folder / label.replace("/", "_"),
        ProfileOptions(
            warm_up=3, traced=3, timed=20, timed_seconds=0.3, eager=False, mode=mode, **options
        ),
    )
    profile = json.loads(folder.profile.read_text())
    run = json.loads(folder.run.read_text())
    values: dict[str, Any] = {
        "step_us": round(run["step"]["median_ns"] / 1e3, 1),
        "loop_us": round(run["step"]["loop_ns"] / 1e3, 1),
        "recorded_us": round(
            profile["summary"]["wall_ns"] / 1e3 / max(1, profile["summary"]["steps"]), 1
        ),
        "timeline": run["timeline"],
        "attribution": attribution(profile),
        "counters": with_counters(profile, run),
        "trace_bytes": folder.trace.stat().st_size,
        "report_lines": len(folder.report_text.read_text().splitlines()),
    }
    if mode != "cudagraphs":
        values["ranges"] = check_ranges(folder, profile)
    return values


def compare_inferred(results: Results, name: str) -> dict[str, Any]:
    """Values that duplicates took over, against those that were counted, node by node."""
    folders = [results.folder / f"{name}-inductor", results.folder / f"{name}-inductor-all"]
    unique, everything = (
        {
            node["name"]: node
            for node in json.loads((folder / "profile.opprof.json").read_text())["nodes"]
        }
        for folder in folders
    )
    spread: dict[str, list[float]] = {}
    for node, entry in unique.items():
        if not entry.get("inferred_from") or node not in everything:
            continue
        for metric, value in entry["metrics"].items():
            other = everything[node]["metrics"].get(metric)
            if other:
                spread.setdefault(metric, []).append(abs(value - other) / abs(other))
    return {
        "nodes": max(map(len, spread.values()), default=0),
        "median_relative_difference": {
            k: round(statistics.median(v), 4) for k, v in spread.items()
        },
    }


def against_kineto(results: Results, name: str, step: Callable[[], Any]) -> dict[str, Any]:
    """The nodes of each kernel by this capture, and by torch.profiler's own correlation in a run of its own."""
    from opprof.recording.torch_profiler import trace_steps
    from opprof.run_folder import RunFolder
    from opprof.tools import run_tool

    folder = RunFolder(results.folder / f"{name}-inductor")
    trace = results.folder / f"{name}-kineto.json.gz"
    trace_steps(step, 2, trace)
    arguments = [
        "--attribute-profile",
        trace,
        *(f"--launches={code / 'launches.json'}" for code in folder.compiled_graphs()),
        f"--partitions={folder.partitions}",
    ]
    theirs = json.loads(run_tool("opprof-translate", arguments))
    mine = json.loads(folder.profile.read_text())

    def last_step(profile: Mapping[str, Any]) -> list[dict[str, Any]]:
        steps = [k.get("step") for k in profile["kernels"] if k.get("step") is not None]
        kernels = [k for k in profile["kernels"] if k.get("step") == max(steps)]
        return sorted(kernels, key=lambda k: k["start_ns"])

    a, b = last_step(mine), last_step(theirs)
    other = [
        {"mine": [x["name"][:50], x["nodes"][:4]], "kineto": [y["name"][:50], y["nodes"][:4]]}
        for x, y in zip(a, b, strict=False)
        if x["nodes"] != y["nodes"]
    ]
    return {
        "kernels": len(a),
        "kineto_kernels": len(b),
        "same_nodes": min(len(a), len(b)) - len(other),
        "kineto_confidence": dict(Counter(k["confidence"] for k in b)),
        "other": other[:3],
    }


def in_code(results: Results, name: str) -> dict[str, Any]:
    """`with opprof.capture(…, counters="unique")` round a compiled model, without a run folder."""
    import torch

    import opprof

    torch._dynamo.reset()
    model, inputs = workload(name)
    fast = torch.compile(model)
    with torch.no_grad():
        for _ in range(3):
            fast(*inputs)
        torch.cuda.synchronize()
        with opprof.capture(results.folder / f"{name}-code", counters="unique") as prof:
            prof.step(lambda: fast(*inputs))
    one = prof.steps[0]
    unique = one.report.get("unique", {})
    far = [row for row in unique.get("launches", []) if row.get("times", [1])[-1] > 1.25]
    return {
        "launches": len(one.launches),
        "rows": len(one.counters),
        "by": unique.get("same_work_by"),
        "stood_for": unique.get("stood_for"),
        "others_25_pct_longer": far[:3],
        "counters_s": round(one.report.get("total_seconds", 0), 3),
    }


def ranges_for_nsys(results: Results, name: str) -> dict[str, Any]:
    """The same ranges seen by nsys, in a program that is not captured."""
    import glob
    import shutil

    nsys = shutil.which("nsys") or next(
        iter(
            glob.glob("/opt/nvidia/nsight-systems/*/bin/nsys")
            + glob.glob("/usr/local/cuda/bin/nsys")
        ),
        None,
    )
    if nsys is None:
        return {"left_out": "nsys was not found"}
    report = results.folder / "ranges"
    program = (
        "import sys; sys.path.insert(0, 'benchmarks'); import torch, opprof; from capture_h200 import workload\n"
        "from opprof.export.stages import export_program; from opprof.export.model_script import load_model_script\n"
        "from opprof.commands.program import module_of\n"
        f"script = load_model_script('examples/{name}.py')\n"
        "step = script.step_of(torch.compile(module_of(export_program(script))))\n"
        "step(); torch.cuda.synchronize()\n"
        f"with opprof.layer_ranges({str(results.folder / (name + '-inductor'))!r}):\n    step(); torch.cuda.synchronize()\n"
    )
    command = [nsys, "profile", "-t", "nvtx", "-f", "true", "-o", str(report)]
    subprocess.run([*command, sys.executable, "-c", program], cwd=ROOT, timeout=45, check=True)
    stats = subprocess.run(
        [nsys, "stats", "-q", "-f", "csv", "-r", "nvtx_sum", f"{report}.nsys-rep"],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    ).stdout
    rows = [line for line in stats.splitlines() if "layer::" in line]
    return {"ranges": len(rows), "first": rows[:2]}


def one_workload(results: Results, name: str, modes: list[str]) -> None:
    """Everything of one workload."""
    from opprof.commands import profile

    programs: list[Any] = []
    capture = profile._capture

    def capture_and_keep(script: Any, program: Any, *rest: Any) -> None:
        programs.append(program)
        capture(script, program, *rest)

    profile._capture = capture_and_keep
    if name in ("gpt2", "lstm_sequence_encoder") and "inductor" in modes:
        results.guarded("in code", lambda: in_code(results, name), workload=name)
    if name == "gpt2" and "inductor" in modes:
        results.guarded(
            "profile, all kernels counted",
            lambda: profiled(results, name, "inductor", counters="all"),
            workload=name,
            mode="inductor",
        )
    for mode in sorted(modes, key=lambda mode: mode == "inductor"):
        results.guarded(
            "profile", lambda mode=mode: profiled(results, name, mode), workload=name, mode=mode
        )
    if "inductor" in modes and programs:
        # torch.profiler keeps CUPTI to the end of the process, so it comes last.
        results.guarded(
            "kineto", lambda: against_kineto(results, name, programs[-1].step), workload=name
        )
    if name == "gpt2" and "inductor" in modes:
        results.guarded("inferred", lambda: compare_inferred(results, name))
        results.guarded("nsys", lambda: ranges_for_nsys(results, name))


def prepare(name: str) -> None:
    """Compiles the program that the profile will compile."""
    import torch

    from opprof.commands.program import module_of
    from opprof.export.model_script import load_model_script
    from opprof.export.stages import export_program

    script = load_model_script(ROOT / "examples" / f"{name}.py")
    script.step_of(torch.compile(module_of(export_program(script))))()


def table(file: Path) -> str:
    """The results of a file as the tables of the documents."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    lines = [
        "| workload | mode | kernels a step | joined at `high` | in exactly their ranges | counted, stood for | counters on kernels (time) "
        "| nodes with values (inferred) | counters, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if not row["part"].startswith("profile"):
            continue
        mode = row["mode"] + (", all counted" if "all" in row["part"] else "")
        if "error" in row:
            lines.append(f"| {row['workload']} | {mode} | {row['error'][:100]} | | | | | | |")
            continue
        joined, ranges, counters = row["attribution"], row.get("ranges"), row["counters"]
        unique = counters.get("unique") or {}
        exact = f"{ranges['kernels_in_exactly_theirs']} of {ranges['of']}" if ranges else "–"
        counted = f"{unique['counted']}, {unique['stood_for']}" if unique else "–"
        lines.append(
            f"| {row['workload']} | {mode} | {joined['kernels'] // max(1, joined['steps'] or 1)} "
            f"| {joined['confidence'].get('high', 0)} of {joined['kernels']} | {exact} | {counted} "
            f"| {counters['kernels']} of {counters['of']} ({100 * counters['kernel_time']:.1f} %) "
            f"| {counters['nodes']} of {counters['nodes_of']} ({counters['nodes_inferred']}) "
            f"| {counters['seconds'] or counters.get('left_out', '–')} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs the workloads, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out"))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--timeout", type=float, default=110, help="seconds of one workload")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--inside", choices=("prepare", "run"), help=argparse.SUPPRESS)
    parser.add_argument(
        "workloads", nargs="*", metavar="workload", help=f"of {', '.join(WORKLOADS)}"
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the tables of results")
    options = parser.parse_args()
    if options.table is not None:
        print(table(options.table), end="")
        return
    names = options.workloads or list(WORKLOADS)
    options.output.mkdir(parents=True, exist_ok=True)
    results = Results(options.output / "profile.jsonl")
    sys.path.insert(0, str(ROOT / "benchmarks"))
    if options.inside:
        if options.inside == "prepare":
            prepare(names[0])
        else:
            one_workload(results, names[0], options.modes.split(","))
        return
    command = [sys.executable, __file__, "-o", str(options.output), "--modes", options.modes]
    if options.prepare:
        begin = time.perf_counter()
        children = [
            subprocess.Popen(
                [*command, "--inside", "prepare", name],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"},
            )
            for name in names
        ]
        for child in children:
            try:
                child.wait(timeout=max(1.0, 90 - (time.perf_counter() - begin)))
            except subprocess.TimeoutExpired:
                child.kill()
        results.say(
            "prepare",
            seconds=round(time.perf_counter() - begin, 1),
            statuses=[child.returncode for child in children],
        )
    for name in names:
        begin = time.perf_counter()
        try:
            status = subprocess.run(
                [*command, "--inside", "run", name], timeout=options.timeout, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            status = -1
        results.say(
            "workload",
            workload=name,
            status=status,
            seconds=round(time.perf_counter() - begin, 1),
        )


if __name__ == "__main__":
    main()
