"""Times --dedup-partitions, outlining included, against --cse on the same module in the same run, from a thousand to a million nodes.

    python benchmarks/dedup_scale.py [--tools build/bin] [--nodes 1000 10000 …] [--repeat 3] [-o results.jsonl]

The graphs are those of graph_scale.py: many small layers, a few large ones, one without any repeat, and (--kinds branches) one of branches. Both passes run one after the
other in one process without threads. Memory is the peak of a process that reads the module and runs the pass over the peak of one
that only reads it. The exponents are the slopes of time over nodes in logarithms: 1 is linear, and what --cse has above it is what a
module costs that no cache holds. `--bare` leaves out what graphs say of nodes beyond what they compute: a million of the others take 2 GB.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
from pathlib import Path

from graph_scale import BRANCHES, KINDS, generate
from scale import Command, Row, add_options, best_of, sweep

OPTIONS = ["--mlir-disable-threading", "--verify-each=false", "--emit-bytecode", "-o", os.devnull]
PASSES = {"cse_s": "CSE", "dedup_s": "DedupPartitionsPass"}


def measure(tools: Path, kind: str, nodes: int, repeat: int, folder: Path, *, bare: bool) -> Row:
    source, text, module = (folder / f"graph{ending}" for ending in (".json", ".mlir", ".mlirbc"))
    count = generate(source, kind, nodes, bare=bare)
    opt = tools / "opprof-opt"
    subprocess.run([tools / "opprof-translate", "--import-fx-json", source, "-o", text], check=True)
    source.unlink()
    subprocess.run([opt, text, "--emit-bytecode", "-o", module], check=True)
    text.unlink()
    best = best_of(
        repeat,
        {
            "both": Command([opt, module, "--cse", "--dedup-partitions", *OPTIONS], PASSES),
            "read": Command([opt, module, *OPTIONS]),
            "dedup": Command([opt, module, "--dedup-partitions", *OPTIONS]),
        },
    )
    cse, dedup = best.seconds["cse_s"], best.seconds["dedup_s"]
    read, deduplicated = best.peak_bytes["read"], best.peak_bytes["dedup"]
    return {
        "kind": f"{kind}, bare" if bare else kind,
        "nodes": count,
        **best.seconds,
        "dedup_over_cse": round(dedup / cse, 3) if cse else None,
        "module_bytes": read,
        "dedup_bytes": deduplicated,
        "memory_ratio": round(deduplicated / read, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, KINDS, BRANCHES)
    parser.add_argument("--bare", action="store_true")
    options = parser.parse_args()
    sweep(options, functools.partial(measure, bare=options.bare), tuple(PASSES))


if __name__ == "__main__":
    main()
