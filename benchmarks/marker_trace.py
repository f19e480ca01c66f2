"""Proves on a GPU that the ranges of an emitted program hold the kernels of their partitions, and no others.

    python benchmarks/marker_trace.py examples/gpt2.py [--json FILE] [--keep FOLDER]

The model is exported, deduplicated, marked and emitted with opprof's tools. Then four recordings are made with opprof's own capture:

nodes    the exported graph, unmarked, run node by node; each launch carries the id of its node. With the partition map this says which
         range, if any, every launch belongs to.
ranges   the emitted program run op by op; a launch lies in the NVTX ranges that are open on its thread when it is called.
capture  the emitted program run op by op while a CUDA graph is captured of it: the launch calls, and the NVTX ranges round them.
replay   that CUDA graph run once: each kernel's graph node carries the id of the range that was open when it was captured.

All four launch the same work in the same order (kernels, grids and blocks are compared), so the n-th launch of one is the n-th of the
others. Prints JSON with the counts; the exit status is 0 when every launch of a partition, and no other, lies in its partition's range.
Needs a GPU, PyTorch, and opprof's tools and capture library (OPPROF_TOOLS_DIR, OPPROF_CAPTURE_LIBRARY).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

from opprof.commands.report import report_perfetto
from opprof.recording.library import Library, find_cupti
from opprof.recording.partitions import read_partition_maps

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
# Calls that put work on a device; each comes in several versions and suffixes.
LAUNCH_CALLS = (
    "cudaLaunch",
    "cuLaunch",
    "cudaMemcpyAsync",
    "cuMemcpy",
    "cudaMemsetAsync",
    "cuMemset",
)


def read_trace(capture: Path) -> list[dict[str, Any]]:
    """The events of a capture, with times in whole nanoseconds, which a float would round."""
    trace = capture.with_suffix(".trace.json")
    report_perfetto(capture, trace)
    document = json.loads(trace.read_text(), parse_float=lambda text: int(Decimal(text) * 1000))
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


def shape_of(event: dict[str, Any]) -> tuple[Any, ...]:
    """What is launched: two launches of the same work have the same."""
    arguments = event["args"]
    return event["name"], *(json.dumps(arguments.get(key)) for key in ("grid", "block", "bytes"))


def device_work(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kernels, copies and fills with the call that launched each, in the order of those calls."""
    calls = {
        event["args"]["correlation"]: event
        for event in events
        if event["cat"] in ("cuda_runtime", "cuda_driver")
    }
    work = [
        {
            "shape": shape_of(event),
            "call": calls.get(event["args"]["correlation"]),
            "id": event["args"].get("launched_by"),
            "graph_node": event["args"].get("graph node id"),
            "ts": event["ts"],
        }
        for event in events
        if event["cat"] in DEVICE_WORK
    ]
    return sorted(work, key=lambda item: (item["call"]["ts"] if item["call"] else 0, item["ts"]))


def launch_calls(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls that put work on a device, in order; a runtime call and the driver call inside it count once."""
    seen: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["cat"] in ("cuda_runtime", "cuda_driver") and event["name"].startswith(
            LAUNCH_CALLS
        ):
            seen.setdefault(event["args"]["correlation"], event)
    return sorted(seen.values(), key=lambda event: event["ts"])


class Ranges:
    """The NVTX ranges of a trace, and which of them are open at a moment."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.ranges = sorted(
            (event["ts"], event["ts"] + event["dur"], event["tid"], event["name"])
            for event in events
            if event["cat"] == "user_annotation" and event["name"].startswith("layer::")
        )

    def at(self, call: dict[str, Any]) -> list[str]:
        """The ranges that are open when `call` begins, on its thread, the outermost first."""
        return [
            name
            for begin, end, thread, name in self.ranges
            if begin <= call["ts"] <= end and thread == call["tid"]
        ]


def expected_ranges(partitions: Path) -> tuple[dict[str, list[str]], int]:
    """The ranges that each node is to lie in by the partition map, the outermost first, and how many ranges there are."""
    (document,) = read_partition_maps(partitions)
    ranges: dict[str, list[str]] = {}
    count = 0
    for group in document.classes:
        for partition in group.partitions:
            count += 1
            for node in partition.nodes:
                ranges.setdefault(node.name, []).append(
                    f"layer::{partition.role}::{partition.label}"
                )
    return ranges, count


def judge(expected: list[list[str]], found: list[list[str]]) -> dict[str, Any]:
    """Launch by launch: is it in the ranges of its node, and in no others?"""
    wrong = [
        {"launch": index, "expected": wanted, "found": seen}
        for index, (wanted, seen) in enumerate(zip(expected, found, strict=False))
        if wanted != seen
    ]
    return {
        "launches": len(found),
        "launches_expected": len(expected),
        "of_partitions": sum(bool(wanted) for wanted in expected),
        "of_partitions_in_their_range": sum(
            bool(wanted) and wanted == seen for wanted, seen in zip(expected, found, strict=False)
        ),
        "of_no_partition": sum(not wanted for wanted in expected),
        "of_no_partition_in_a_range": sum(
            not wanted and bool(seen) for wanted, seen in zip(expected, found, strict=False)
        ),
        "ranges_with_launches": len({name for names in found for name in names}),
        "exact": not wrong and len(found) == len(expected),
        "first_wrong": wrong[:5],
    }


def import_program(path: Path) -> ModuleType:
    """The emitted program as a module."""
    spec = importlib.util.spec_from_file_location("marked_program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_program(model: Path, work: Path) -> tuple[Any, Any, ModuleType, Path]:
    """The script's model, its exported program, the marked program made of it, and the partition map."""
    from opprof.export.graph_json import source_of_exported_program, write_graph_json
    from opprof.export.model_script import load_model_script
    from opprof.export.stages import export_program
    from opprof.tools import run_tool

    script = load_model_script(model)
    exported = export_program(script)
    graph, raw, marked = work / "graph.json", work / "graph.mlir", work / "marked.mlir"
    partitions, program = work / "partitions.json", work / "marked_program.py"
    write_graph_json(graph, source_of_exported_program(exported, script.name))
    run_tool("opprof-translate", ["--import-fx-json", graph, "-o", raw])
    passes = ["--dedup-partitions", f"--partition-map={partitions}", "--insert-nvtx-markers"]
    run_tool("opprof-opt", [*passes, raw, "-o", marked])
    run_tool("opprof-translate", ["--emit-python", marked, "-o", program])
    return script, exported, import_program(program), partitions


def graph_inputs(exported: Any, weights: dict[str, Any], script: Any) -> list[Any]:
    """What the placeholders of the exported graph stand for, in their order."""
    import torch

    leaves = iter(torch.utils._pytree.tree_leaves((script.args, script.kwargs)))
    return [
        next(leaves) if spec.kind.name == "USER_INPUT" else weights[spec.target]
        for spec in exported.graph_signature.input_specs
    ]


def record(model: Path, work: Path) -> dict[str, Any]:
    """Makes the four recordings and compares them."""
    library = Library.get()
    import torch

    import opprof
    from opprof.export.weights import weights_of_program
    from opprof.recording.identity import run_nodes

    script, exported, module, partitions = make_program(model, work)
    weights = weights_of_program(exported)
    program = module.load(weights)
    inputs = graph_inputs(exported, weights, script)
    ranges, range_count = expected_ranges(partitions)

    # Ranges also set an id, which the nodes of a CUDA graph keep: NVTX itself leaves no trace in a replay.
    ids: dict[str, int] = {}
    push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop

    def range_push(label: str) -> None:
        push(label)
        library.push_id(ids.setdefault(label, len(ids) + 1))

    def range_pop() -> None:
        library.pop_id()
        pop()

    module._range_push, module._range_pop = range_push, range_pop  # type: ignore[attr-defined]

    def run() -> Any:
        return program(*script.args, **script.kwargs)

    def captured(name: str, *steps: Any) -> list[dict[str, Any]]:
        with opprof.capture(work / name, lines=False) as recording:
            for step in steps:
                recording.step(step)
            for label, identifier in ids.items():
                library.name_id(identifier, json.dumps({"node": label}))
        return read_trace(recording.file)

    with torch.no_grad():
        expected_result = exported.module()(*script.args, **script.kwargs)
        same = torch.utils._pytree.tree_map(torch.equal, expected_result, run())
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()

        nodes = device_work(captured("nodes", lambda: run_nodes(exported.graph_module, *inputs)))
        eager_events = captured("ranges", run)
        graph = torch.cuda.CUDAGraph()

        def capture_graph() -> None:
            with torch.cuda.graph(graph):
                run()

        graph_events = captured("graph", capture_graph, graph.replay)

    node_names = [item["id"]["node"] if item["id"] else "" for item in nodes]
    expected = [ranges.get(name, []) for name in node_names]
    eager, eager_ranges = device_work(eager_events), Ranges(eager_events)
    replay = [item for item in device_work(graph_events) if item["graph_node"]]
    # Kernels of a replay have one call, that of the graph; they follow each other on one stream.
    replay.sort(key=lambda item: item["ts"])
    graph_ranges = Ranges(graph_events)
    # While a graph is captured nothing runs: a call that ran something was about the capture, not in it.
    ran = {
        item["call"]["args"]["correlation"] for item in device_work(graph_events) if item["call"]
    }
    calls = [call for call in launch_calls(graph_events) if call["args"]["correlation"] not in ran]

    def label_of(item: dict[str, Any]) -> list[str]:
        return [item["id"]["node"]] if item["id"] else []

    def innermost(names: list[list[str]]) -> list[list[str]]:
        return [each[-1:] for each in names]

    return {
        "model": str(model),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "nodes_with_launches": len(set(node_names)),
        "launches_without_node": node_names.count(""),
        "ranges": range_count,
        "result_is_the_exported_graphs": all(torch.utils._pytree.tree_leaves(same)),
        "same_launches_as_the_exported_graph": [item["shape"] for item in nodes]
        == [item["shape"] for item in eager],
        "same_launches_in_the_replay": [item["shape"] for item in nodes]
        == [item["shape"] for item in replay],
        "op_by_op": judge(expected, [eager_ranges.at(item["call"]) for item in eager]),
        "captured_into_a_graph": judge(expected, [graph_ranges.at(call) for call in calls]),
        "replay": judge(innermost(expected), [label_of(item) for item in replay]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="a script with get_model_and_input()")
    parser.add_argument("--json", type=Path, help="write the result there too")
    parser.add_argument("--keep", type=Path, help="a folder to keep programs, captures and traces")
    arguments = parser.parse_args()
    cupti = find_cupti()
    if cupti is not None:
        # NVTX ranges reach CUPTI only when NVTX is told so before its first use.
        os.environ.setdefault("NVTX_INJECTION64_PATH", cupti)
    with tempfile.TemporaryDirectory(prefix="opprof-markers-") as folder:
        work = arguments.keep or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        result = record(arguments.model, work)
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    parts = ("op_by_op", "captured_into_a_graph", "replay")
    return 0 if all(result[part]["exact"] for part in parts) else 1


if __name__ == "__main__":
    sys.exit(main())
