"""What the code reader finds in recorded programs, held against their traces and exported graphs.

    python benchmarks/inductor_coverage.py FOLDER…
    python benchmarks/inductor_coverage.py --without-records FOLDER…

The second form reads each program again without PyTorch's provenance records, and once more without any of its comments, and prints for
how many launches the same nodes are found (views left out).

A folder is one workload: `inductor/<compiled graph>/output_code.py` with its siblings, and beside them, where they were recorded,
`inductor.trace.json.gz` (two steps of torch.profiler) and `model.noweights.pt2` (torch.export).
"""

import collections
import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STEPS = 2


def read(code: Path, graph: Path | None) -> dict[str, Any]:
    command = ["opprof-translate", "--inductor-launches", str(code)]
    if graph:
        command.append(f"--graph={graph}")
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def triton_kernels(trace: Path) -> collections.Counter[str]:
    with gzip.open(trace) as file:
        events = json.load(file)["traceEvents"]
    names = (event["name"] for event in events if event.get("cat") == "kernel")
    return collections.Counter(name for name in names if name.startswith("triton_"))


def row(folder: Path) -> list[str]:
    codes = sorted(folder.glob("inductor/*/output_code.py"))
    exported = folder / "model.noweights.pt2"
    # The exported graph is the whole model: one compiled graph answers to it.
    graph = exported if exported.exists() and len(codes) == 1 else None
    maps = [read(code, graph) for code in codes]
    launches = [launch for graph_map in maps for launch in graph_map["launches"]]
    nodes = [node for launch in launches for node in launch["nodes"]]
    kept = sum(graph_map["statements"]["kept_as_text"] for graph_map in maps)
    total = sum(graph_map["statements"]["total"] for graph_map in maps)
    bare = sum(not launch["nodes"] for launch in launches)
    recorded = sum("provenance" in node["evidence"] for node in nodes)
    flow = sum("dataflow" in node["evidence"] for node in nodes)
    listed = sum(len(launch.get("listed_only", [])) for launch in launches)
    again = sum(node["recomputed"] for node in nodes)
    agreement = "-"
    trace = folder / "inductor.trace.json.gz"
    if trace.exists():
        wanted = collections.Counter(
            launch["kernel"]
            for launch in launches
            if launch["kind"] == "triton" and not launch.get("conditional")
        )
        found = triton_kernels(trace)
        same = sum(found[name] == STEPS * count for name, count in wanted.items())
        agreement = f"{same} of {len(wanted)}"
    alignment = maps[0].get("alignment")
    aligned = f"{alignment['aligned']} of {alignment['of']}" if alignment else "-"
    return [
        folder.name,
        f"{total - kept} of {total}",
        str(len(launches)),
        str(bare),
        str(len(nodes)),
        str(recorded),
        str(flow),
        str(listed),
        str(again),
        agreement,
        aligned,
    ]


VIEW = re.compile(r"(view|permute|unsqueeze|expand|slice|select|split|unbind|getitem)")
COMMENTS = re.compile(r"^#   %.*\n|^ *# .*Source Nodes.*\n", re.MULTILINE)


def computed(launch: dict[str, Any]) -> set[str]:
    names = (node["name"] for node in launch["nodes"] if not node.get("prepares"))
    return {name for name in names if not VIEW.match(name)}


def agreement_without(code: Path, comments: bool) -> tuple[int, int]:
    """Launches that have the same nodes without the provenance records, of how many."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / code.name
        text = code.read_text()
        copy.write_text(text if comments else COMMENTS.sub("", text))
        shutil.copy(code.parent / "fx_graph_transformed.py", scratch)
        pairs = list(zip(read(code, None)["launches"], read(copy, None)["launches"], strict=True))
    return sum(computed(a) == computed(b) for a, b in pairs), len(pairs)


def without_records(folders: list[Path]) -> None:
    print("| workload | launches | same nodes without records | without comments either |")
    print("|---|---|---|---|")
    sums = [0, 0, 0]
    for folder in folders:
        counts = [0, 0, 0]
        for code in sorted(folder.glob("inductor/*/output_code.py")):
            if not (code.parent / "inductor_provenance_tracking_node_mappings.json").exists():
                continue
            with_comments, total = agreement_without(code, comments=True)
            bare, _ = agreement_without(code, comments=False)
            counts = [counts[0] + total, counts[1] + with_comments, counts[2] + bare]
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
        print(f"| {folder.name} | " + " | ".join(map(str, counts)) + " |")
    print("| all | " + " | ".join(map(str, sums)) + " |")


def main() -> None:
    if sys.argv[1:2] == ["--without-records"]:
        without_records([Path(argument) for argument in sys.argv[2:]])
        return
    head = (
        "workload, statements understood, launches, without nodes, nodes, recorded, dataflow agrees, listed only, recomputed,"
        " Triton kernels launched as often as traced, aligned to the export"
    )
    print("| " + " | ".join(head.split(", ")) + " |")
    print("|---" * len(head.split(", ")) + "|")
    for argument in sys.argv[1:]:
        print("| " + " | ".join(row(Path(argument))) + " |")


if __name__ == "__main__":
    main()
