"""Times Dynamo's own tracker of repeated regions beside --dedup-partitions, on the same graph in the same run.

    python benchmarks/repeated_regions.py [examples/gpt2.py] [--tools build/bin] [--runs 5] [-o results.json]

Dynamo traces the model with `track_nodes_for_deduplication` on: it hashes each node as it makes it (timed round `track_node`), and groups them at the end
(`get_identical_regions`, timed on the finished graph). The graph that Dynamo hands to its backend is then written as graph JSON, and opprof-opt deduplicates it, outlining
included; MLIR times the pass, and the whole process is timed beside it. Medians of the runs.

Also printed: what each finds, in the graph as it is and in one whose layers were written as different lines of source, which Dynamo takes into its hash.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch._dynamo import config
from torch._dynamo.graph_region_tracker import GraphRegionTracker

from opprof.export.graph_json import GraphSource, write_graph_json
from opprof.export.model_script import load_model_script
from opprof.export.stages import dynamo_inputs


def trace(model: Any, args: tuple[Any, ...]) -> tuple[torch.fx.GraphModule, Any, float, float]:
    """Dynamo's graph and tracker; the seconds that the tracker took while tracing, and for grouping."""
    captured: list[Any] = []
    tracking = 0.0
    original = GraphRegionTracker.track_node

    def track_node(self: GraphRegionTracker, tx: Any, node: torch.fx.Node) -> None:
        nonlocal tracking
        start = time.perf_counter()
        original(self, tx, node)
        tracking += time.perf_counter() - start

    def backend(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        tracker = InstructionTranslator.current_tx().output.region_tracker
        start = time.perf_counter()
        groups = tracker.get_identical_regions(graph_module.graph)
        captured.append((graph_module, groups, time.perf_counter() - start))
        return graph_module.forward

    torch._dynamo.reset()
    GraphRegionTracker.track_node = track_node  # type: ignore[method-assign]
    try:
        with torch.no_grad(), config.patch(track_nodes_for_deduplication=True):
            torch.compile(model, backend=backend, fullgraph=True)(*args)
    finally:
        GraphRegionTracker.track_node = original  # type: ignore[method-assign]
    ((graph_module, groups, grouping),) = captured
    return graph_module, groups, tracking, grouping


def dedup(graph: Path, tools: Path, runs: int) -> tuple[list[list[int]], float, float]:
    """The classes as [nodes, places], seconds of the pass, seconds of the whole process."""
    module, partitions = graph.with_suffix(".mlirbc"), graph.with_suffix(".map.json")
    text = graph.with_suffix(".mlir")
    subprocess.run([tools / "opprof-translate", "--import-fx-json", graph, "-o", text], check=True)
    subprocess.run(
        [tools / "opprof-opt", text, "--emit-bytecode", "-o", module],
        check=True,
    )
    passes, whole = [], []
    for _ in range(runs):
        start = time.perf_counter()
        command = [tools / "opprof-opt", module, "--dedup-partitions", "-o", "/dev/null"]
        timed = subprocess.run(
            [*command, "--mlir-timing", "--mlir-timing-display=list"],
            check=True,
            capture_output=True,
            text=True,
        )
        whole.append(time.perf_counter() - start)
        match = re.search(r"([\d.]+) \(.*DedupPartitionsPass", timed.stderr)
        if match is None:
            sys.exit(f"no time of the pass in:\n{timed.stderr}")
        passes.append(float(match[1]))
    subprocess.run(
        [*command, f"--partition-map={partitions}"], check=True, stderr=subprocess.DEVNULL
    )
    classes = json.loads(partitions.read_text())["classes"]
    found = [[group["node_count"], len(group["partitions"])] for group in classes]
    return found, statistics.median(passes), statistics.median(whole)


def compare(model: Any, args: tuple[Any, ...], tools: Path, runs: int) -> dict[str, Any]:
    """Both finders on the graph of one model."""
    traced = [trace(model, args) for _ in range(runs)]
    graph_module, groups, _, _ = traced[0]
    with tempfile.TemporaryDirectory(prefix="opprof-regions-") as folder:
        graph = Path(folder) / "graph.json"
        write_graph_json(
            graph, GraphSource(graph_module, "model", "dynamo", dynamo_inputs(graph_module))
        )
        found, seconds, process = dedup(graph, tools, runs)
    nodes = [node for node in graph_module.graph.nodes if node.op not in ("placeholder", "output")]
    return {
        "nodes": len(nodes),
        "dynamo": {
            "tracking_s": round(statistics.median(each[2] for each in traced), 5),
            "grouping_s": round(statistics.median(each[3] for each in traced), 5),
            "classes": [[len(group[0]), len(group)] for group in groups],
        },
        "opprof": {
            "pass_s": round(seconds, 5),
            "process_s": round(process, 5),
            "classes": found,
        },
    }


def with_lines_of_their_own(source: str, layers: int) -> str:
    """The model script with a Block class, the same but for its name, for each layer."""
    start = source.index("class Block(")
    end = source.index("\n\nclass ", start)
    block = source[start:end]
    copies = "\n\n".join(block.replace("class Block(", f"class Block{i}(") for i in range(layers))
    listed = ", ".join(f"Block{i}" for i in range(layers))
    text = source[:start] + copies + source[end:]
    changed = re.sub(
        r"nn\.ModuleList\(Block\(([^)]*)\) for _ in range\(layers\)\)",
        rf"nn.ModuleList(block(\1) for block in ({listed}))",
        text,
    )
    if changed == text:
        sys.exit("the script does not make its layers as examples/gpt2.py does")
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(__file__).parents[1] / "examples" / "gpt2.py"
    parser.add_argument("model", type=Path, nargs="?", default=default)
    parser.add_argument("--tools", type=Path, default=Path("build/bin"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    script = load_model_script(arguments.model)
    result = {
        "model": arguments.model.name,
        "torch": torch.__version__,
        "as it is": compare(script.module, script.args, arguments.tools, arguments.runs),
    }
    with tempfile.TemporaryDirectory(prefix="opprof-regions-") as folder:
        copy = Path(folder) / arguments.model.name
        copy.write_text(with_lines_of_their_own(arguments.model.read_text(), 12))
        script = load_model_script(copy)
        result["each layer in lines of its own"] = compare(
            script.module, script.args, arguments.tools, arguments.runs
        )
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.output:
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
