"""Measures the capture library on one GPU: counters' cost by stage, attribution, faults, long runs.

    PYTHONPATH=python OPPROF_CAPTURE_LIBRARY=build/lib/libopprof_capture.so python benchmarks/capture_h200.py -o OUT [part…]

Each part runs in a process of its own, so that one that fails leaves the others. Results are JSON lines in
OUT/results.jsonl; benchmarks/results/ holds those of the runs that the documents quote.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from result_lines import Results

ROOT = Path(__file__).resolve().parent.parent
OUT = Path(os.environ.get("OPPROF_BENCH_OUT", "out"))
RESULTS = Results(OUT / "results.jsonl")
WORKLOADS = (
    "gpt2",
    "embedding_projection",
    "sdpa_attention",
    "mlp_activations",
    "conv_block",
    "depthwise_separable_conv",
    "lstm_sequence_encoder",
)

# What ncu collects by default for these values, in one list, as the reference of the cost.
SIXTEEN = [
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "fbpa__dram_write_bytes.sum",
    "lts__t_sectors.sum",
    "lts__t_sectors_lookup_hit.sum",
    "l1tex__t_sectors.sum",
    "l1tex__t_sectors_lookup_hit.sum",
    "sm__cycles_active.sum",
    "sm__warps_active.sum",
    "smsp__issue_active.sum",
    "smsp__inst_executed.sum",
    "smsp__thread_inst_executed.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "sm__pipe_tensor_cycles_active.sum",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum",
    "sm__cycles_elapsed.max",
]


def workload(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model and its inputs, from examples/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, inputs = module.get_model_and_input()
    return model, inputs if isinstance(inputs, tuple) else (inputs,)


def compiled(name: str) -> Callable[[], Any]:
    """A step of a compiled workload, warmed up."""
    import torch

    model, inputs = workload(name)
    fast = torch.compile(model)

    def step() -> Any:
        with torch.no_grad():
            return fast(*inputs)

    begin = time.perf_counter()
    for _ in range(4):
        step()
    torch.cuda.synchronize()
    RESULTS.say("compile", workload=name, seconds=round(time.perf_counter() - begin, 2))
    return step


def trace_events(capture: Path) -> list[dict[str, Any]]:
    """The slices of a capture's trace for Perfetto."""
    from opprof.commands.report import report_perfetto

    target = Path(str(capture) + ".trace.json")
    report_perfetto(capture, target)
    return [e for e in json.loads(target.read_text())["traceEvents"] if e["ph"] == "X"]


def counted(step: Callable[[], Any], label: str, repeats: int = 1, **options: Any) -> list[Any]:
    """The captured steps of one mode, and a line of results for each."""
    import opprof

    results = []
    for repeat in range(repeats):
        with opprof.capture(OUT / "counters", **options) as prof:
            begin = time.perf_counter()
            prof.step(step)
            total = time.perf_counter() - begin
        one = prof.steps[0]
        seconds = {k: round(v, 4) for k, v in one.report.get("seconds", {}).items()}
        RESULTS.say(
            "counters",
            label=label,
            repeat=repeat,
            launches=len(one.launches),
            rows=len(one.counters),
            passes=one.report.get("passes"),
            counters_s=round(one.report.get("total_seconds", 0), 4),
            step_s=round(total, 4),
            stages=seconds,
            image_bytes=one.report.get("image_bytes"),
            absent=one.report.get("absent"),
        )
        results.append(one)
    return results


def compare(a: Any, b: Any) -> None:
    """How far the counters of two captures of the same launches are apart, relative to the first."""
    by_launch = {row["launch"]: row["raw"] for row in a.counters}
    spread: dict[str, list[float]] = {}
    for row in b.counters:
        for name, value in row["raw"].items():
            other = by_launch[row["launch"]].get(name)
            if other:
                spread.setdefault(name, []).append(abs(value - other) / abs(other))
    derived: dict[str, list[float]] = {}
    values = {row["launch"]: row["metrics"] for row in a.counters}
    for row in b.counters:
        for name, value in row["metrics"].items():
            other = values[row["launch"]].get(name)
            if other:
                derived.setdefault(name, []).append(abs(value - other) / abs(other))
    RESULTS.say(
        "agreement",
        derived={k: round(statistics.median(v), 4) for k, v in derived.items()},
        median={k: round(statistics.median(v), 4) for k, v in spread.items()},
        worst={k: round(max(v), 4) for k, v in spread.items()},
    )


def part_counters() -> None:
    """Counters of one compiled GPT-2 iteration, by mode, with the seconds of each stage."""
    import torch

    from opprof.recording.metrics import resolve

    step = compiled("gpt2")
    default = resolve("default")

    once = functools.partial(counted, step)
    base: list[Any] = []

    def all_auto() -> None:
        base.extend(once("all, automatic ranges", 4, counters="all"))
        first = base[-1]
        RESULTS.say("sample", launches=first.launches[:16], counters=first.counters[1:3])

    RESULTS.guarded("all", all_auto)
    count = len(base[0].launches) if base else 140
    block = set(range(2, 14)) | {count - 1}

    def unique() -> None:
        chosen = once(
            "13 launches, user ranges",
            4,
            counters="unique",
            select=lambda launch: launch["index"] in block,
        )
        compare(base[-1], chosen[-1])

    def all_user() -> None:
        chosen = once("all, user ranges", 2, counters="unique", select=lambda launch: True)
        compare(base[-1], chosen[-1])

    RESULTS.guarded("self agreement", lambda: compare(base[-2], base[-1]))
    RESULTS.guarded("unique", unique)
    RESULTS.guarded("all user", all_user)
    if os.environ.get("OPPROF_BENCH_SHORT"):
        return
    RESULTS.guarded(
        "two passes",
        lambda: (
            once(
                "default and local memory, 2 passes",
                2,
                counters="all",
                metrics=[*default.counters, *default.with_local_memory],
            )
            and None
        ),
    )
    RESULTS.guarded(
        "sixteen",
        lambda: once("the 16 raw counters, 2 passes", 2, counters="all", metrics=SIXTEEN) and None,
    )
    for name in ("roofline", "memory", "stalls", "pipes"):
        RESULTS.guarded(
            name, lambda name=name: once(f"set {name}", 1, counters="all", metrics=name) and None
        )
    RESULTS.guarded(
        "unknown metric",
        lambda: (
            once(
                "unknown metric",
                1,
                counters="all",
                metrics="default,dram__bytes_writen.sum",
            )
            and None
        ),
    )
    RESULTS.guarded(
        "kernel replay", lambda: once("kernel replay", 1, counters="all", replay="kernel") and None
    )
    del torch


def part_long() -> None:
    """The highest launch rate for OPPROF_BENCH_LONG seconds (30): memory flat, buffers flushed, nothing lost."""
    import tempfile

    import torch

    from opprof.recording.library import Library

    library = Library.get()
    x = torch.randn(64, device="cuda")
    torch.cuda.synchronize()

    def resident_mib() -> int:
        fields = Path("/proc/self/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    wanted = float(os.environ.get("OPPROF_BENCH_LONG", "30"))
    # Eight minutes write some ten gigabytes, which nobody wants back.
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "long.opcap"
        library.start(str(file))
        begin = time.perf_counter()
        launches = 0
        samples: list[dict[str, int]] = []
        while (elapsed := time.perf_counter() - begin) < wanted:
            for _ in range(20000):
                torch.relu_(x)
            launches += 20000
            if elapsed >= len(samples) * wanted / 12:
                samples.append(
                    {
                        "s": round(elapsed),
                        "rss_mib": resident_mib(),
                        "file_mib": file.stat().st_size >> 20,
                        "launches": launches,
                    }
                )
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        stats = library.stop()
        RESULTS.say(
            "long",
            seconds=round(seconds, 1),
            launches=launches,
            per_second=round(launches / seconds),
            records=stats.records,
            lost=stats.lost,
            file_mib=stats.bytes >> 20,
            buffer_peak_mib=stats.buffer_peak_bytes >> 20,
            samples=samples,
        )
        begin = time.perf_counter()
        summary = library.summarize(str(file)).split("\n")
        RESULTS.say("long", read_s=round(time.perf_counter() - begin, 1), summary=summary)


def part_graph() -> None:
    """A CUDA graph of compiled GPT-2: every kernel of a replay joined to the line that was captured."""
    import torch

    import opprof
    from opprof.recording.identity import WrapperLines
    from opprof.recording.library import Library

    step = compiled("gpt2")
    library = Library.get()
    lines = WrapperLines(library)
    library.start(str(OUT / "graph.opcap"))
    lines.describe()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), lines.active():
        step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        library.mark(3, 0, "capture begins")
        with torch.cuda.graph(graph, stream=stream):
            step()
        library.mark(3, 0, "capture ends")
    for index in range(3):
        library.mark(1, index)
        graph.replay()
        torch.cuda.synchronize()
        library.mark(2, index)
    library.stop()
    events = trace_events(OUT / "graph.opcap")
    kernels = [e for e in events if e["cat"] == "kernel" and "graph node id" in e["args"]]
    joined = [e for e in kernels if "launched_by" in e["args"]]
    RESULTS.say("graph", kernels_in_replays=len(kernels), joined=len(joined))

    def refused() -> None:
        with opprof.capture(OUT / "graph_counters", counters="all") as prof:
            prof.step(graph.replay)

    RESULTS.guarded("graph counters", refused)


def part_train() -> None:
    """Counters of a training step: the state after it is that of one step."""
    import torch

    import opprof

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 2048),
        torch.nn.GELU(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(2048, 512),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x = torch.randn(256, 512, device="cuda")

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(3):
        step()
    saved = {k: v.clone() for k, v in model.state_dict().items()}
    optimizer_state = torch.optim.AdamW(model.parameters(), lr=1e-2).state_dict()
    del optimizer_state
    seed = torch.cuda.get_rng_state()
    import copy

    kept = copy.deepcopy(optimizer.state_dict())
    step()
    expected = [p.detach().clone() for p in model.parameters()]
    model.load_state_dict(saved)
    optimizer.load_state_dict(kept)
    torch.cuda.set_rng_state(seed)
    with opprof.capture(OUT / "train", counters="all", metrics="memory") as prof:
        prof.step(step)
    same = [torch.equal(a, b) for a, b in zip(expected, model.parameters(), strict=True)]
    one = prof.steps[0]
    RESULTS.say(
        "train",
        launches=len(one.launches),
        rows=len(one.counters),
        passes=one.report.get("passes"),
        restored=one.report.get("restored"),
        state_as_after_one_step=all(same),
    )

    state = {"n": 0}

    def changing() -> None:
        state["n"] += 1
        for _ in range(state["n"]):
            torch.relu(x)

    def refused() -> None:
        with opprof.capture(OUT / "changing", counters="all") as prof:
            prof.step(changing)

    RESULTS.guarded("changing step", refused)

    def failing() -> None:
        def step() -> None:
            torch.relu(x)
            state["n"] += 1
            if state["n"] % 2 == 0:
                raise ValueError("the user's own error")

        state["n"] = 0
        with opprof.capture(OUT / "failing", counters="all") as prof:
            prof.step(step)

    RESULTS.guarded("failing pass", failing)
    with opprof.capture(OUT / "after", counters="all") as prof:
        prof.step(lambda: torch.relu(x))
    RESULTS.say("after a failure", rows=len(prof.steps[0].counters))


def part_eager() -> None:
    """GPT-2 op by op from its export: each kernel joined to its node, and held against Kineto's correlation."""
    import torch

    from opprof.recording.identity import run_nodes
    from opprof.recording.library import Library

    model, inputs = workload("gpt2")
    program = torch.export.export(model, inputs)
    graph = program.module()
    library = Library.get()
    with torch.no_grad():
        for _ in range(2):
            graph(*inputs)
        torch.cuda.synchronize()
        library.start(str(OUT / "eager.opcap"))
        run_nodes(graph, *inputs)
        torch.cuda.synchronize()
        library.stop()
    events = trace_events(OUT / "eager.opcap")
    kernels = [e for e in events if e["cat"] == "kernel"]
    mine = [e["args"].get("launched_by", {}).get("node") for e in kernels]

    import torch.fx
    from torch.profiler import ProfilerActivity, profile, record_function

    class Named(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            with record_function(f"node:{node.name}"):
                return super().run_node(node)

    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        Named(graph).run(*inputs)
        torch.cuda.synchronize()
    prof.export_chrome_trace(str(OUT / "kineto.json"))
    trace = json.loads((OUT / "kineto.json").read_text())["traceEvents"]
    ranges = [
        e
        for e in trace
        if e.get("name", "").startswith("node:") and e.get("cat") == "user_annotation"
    ]
    launches = {
        e["args"]["correlation"]: e
        for e in trace
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    theirs: list[str | None] = []
    device = sorted((e for e in trace if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    for kernel in device:
        launch = launches.get(kernel["args"].get("correlation"))
        inside = [
            r
            for r in ranges
            if launch
            and r["ts"] <= launch["ts"] <= r["ts"] + r["dur"]
            and r["tid"] == launch["tid"]
        ]
        theirs.append(inside[-1]["name"][5:] if inside else None)
    RESULTS.say(
        "eager",
        kernels=len(kernels),
        joined=sum(m is not None for m in mine),
        kineto_kernels=len(device),
        same=sum(a == b for a, b in zip(mine, theirs, strict=False)),
    )


CHILD = """
import os, sys, time, torch
x = torch.randn(4096, 4096, device="cuda")
torch.cuda.nvtx.range_push("layer::unique::h.0")
for i in range(50): y = torch.relu(x)
torch.cuda.nvtx.range_pop()
torch.cuda.synchronize()
if sys.argv[1] == "kill":
    end = time.time() + 3
    while time.time() < end:
        y = torch.relu(x)
    torch.cuda.synchronize()
    os.kill(os.getpid(), 9)
if sys.argv[1] == "fork":
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    for i in range(10): y = torch.relu(x)
    torch.cuda.synchronize()
print("child ended as it should")
"""


def part_injection() -> None:
    """Unmodified programs, injected: one that ends, one that is killed, one that forks."""
    from opprof.recording.library import Library, find_cupti, find_library

    library = Library.get()
    for way in ("end", "kill", "fork"):
        file = OUT / f"injected-{way}.opcap"
        environment = {
            **os.environ,
            "CUDA_INJECTION64_PATH": find_library(),
            "NVTX_INJECTION64_PATH": find_cupti() or "",
            "OPPROF_CUPTI_LIBRARY": find_cupti() or "",
            "OPPROF_CAPTURE_FILE": str(file),
        }
        done = subprocess.run(
            [sys.executable, "-c", CHILD, way],
            env=environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        RESULTS.say(
            "injection",
            way=way,
            status=done.returncode,
            said=done.stdout.strip()[-200:],
            errors=done.stderr.strip()[-300:],
            summary=library.summarize(str(file)).split("\n") if file.exists() else None,
        )


def part_busy() -> None:
    """Another CUPTI client in the process: said by name, and the program goes on."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    import opprof

    x = torch.randn(1024, 1024, device="cuda")

    def captured() -> None:
        with opprof.capture(OUT / "busy", counters="all") as prof:
            prof.step(lambda: torch.relu(x))
        RESULTS.say("busy", rows=len(prof.steps[0].counters), launches=len(prof.steps[0].launches))

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
        torch.relu(x)
        RESULTS.guarded("inside torch.profiler", captured)
    RESULTS.guarded(
        f"after torch.profiler, TEARDOWN_CUPTI={os.environ.get('TEARDOWN_CUPTI')}", captured
    )


PARTS: dict[str, Callable[[], None]] = {
    "counters": part_counters,
    "graph": part_graph,
    "train": part_train,
    "eager": part_eager,
    "injection": part_injection,
    "busy": part_busy,
    "long": part_long,
}


def main() -> None:
    """Runs the parts that were asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", default=str(OUT))
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    options = parser.parse_args()
    if options.inside:
        PARTS[options.parts[0]]()
        return
    for part in options.parts or PARTS:
        begin = time.perf_counter()
        environment = {**os.environ, "OPPROF_BENCH_OUT": options.output}
        try:
            status = subprocess.run(
                [sys.executable, __file__, "--inside", part],
                env=environment,
                timeout=options.timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = -1
        print(f"== {part}: status {status}, {time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
