"""Times reading graph JSON against MLIR's parse of the same graph as text and as bytecode, from a thousand to a million nodes.

    python benchmarks/graph_scale.py [--tools build/bin] [--nodes 1000 10000 …] [--repeat 3] [-o results.jsonl]
    python benchmarks/graph_scale.py --generate layers 1000000 graph.json     # only writes a graph

Three kinds of graph: many small layers, a few large ones, and one without any repeat. A fourth, only where it is named (--kinds branches), is a
`cond` in every six nodes, each with two bodies of its own, which readers find by name in one table: 24,000 nodes are 4,000 of them. The verifier is off for all three readers.
The exponent is the slope of time over nodes in logarithms: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from scale import Command, Row, add_options, best_of, sweep

KINDS = ("layers", "large", "unique")
BRANCHES = "branches"
WIDTH = 64


class Writer:
    """Writes graph JSON node by node, so that the generator needs no more memory than a node."""

    def __init__(self, file: IO[str], name: str, *, bare: bool = False) -> None:
        self.file = file
        self.bare = bare
        self.count = 0
        self.is_first = True
        self.modules = 0
        types = [
            {"tensor": {"dtype": "float32", "shape": shape, "stride": stride, "device": "cpu"}}
            for shape, stride in (
                ([8, WIDTH], [WIDTH, 1]),
                ([WIDTH, WIDTH], [WIDTH, 1]),
                ([WIDTH], [1]),
                ([8, 4, WIDTH // 4], [WIDTH, WIDTH // 4, 1]),
            )
        ]
        types.append({"tensor": {"dtype": "bool", "shape": [], "stride": [], "device": "cpu"}})
        types.append({"tuple": [0]})
        self.head = {
            "opprof_graph_version": 1,
            "producer": {"torch": "2.13.0", "opprof": "0.1.0"},
            "types": types,
        }
        self.name = name

    def begin(self, layers: int, weights: int) -> None:
        """Tables and inputs; `layers` is how many module paths and source lines there are."""
        text = json.dumps(self.head)[:-1]
        self.file.write(text + ',\n "stacks": [')
        self._rows(
            json.dumps(
                [
                    {
                        "file": "model.py",
                        "line": 10 + line,
                        "function": "forward",
                        "code": f"x = self.step{line}(x)",
                    }
                ]
            )
            for line in range(16)
        )
        self.file.write('],\n "modules": [')
        self._rows(
            json.dumps(
                [
                    {"path": "", "type": "model.Model"},
                    {"path": f"layers.{layer}", "type": "model.Layer"},
                ]
            )
            for layer in range(layers)
        )
        self.modules = layers
        self.file.write(f'],\n "graphs": [{{"name": "{self.name}", "stage": "export", "inputs": [')
        rows = [json.dumps({"name": "x", "type": 0, "kind": "user_input"})]
        for weight in range(weights):
            for part, kind in (("weight", 1), ("bias", 2)):
                entry = {
                    "name": f"p_{part}_{weight}",
                    "type": kind,
                    "kind": "parameter",
                    "target": f"layers.{weight}.{part}",
                }
                rows.append(json.dumps(entry))
        rows.append(json.dumps({"name": "p", "type": 4, "kind": "user_input"}))
        self._rows(rows)
        self.file.write('],\n "nodes": [')

    def _rows(self, rows: Iterator[str] | list[str]) -> None:
        for position, row in enumerate(rows):
            self.file.write(("," if position else "") + "\n  " + row)

    def node(
        self, target: str, args: list, layer: int, result: int = 0, **kwargs: object
    ) -> dict[str, str]:
        """Writes a node and returns a reference to it."""
        base = target.split(".")[1]
        name = f"{base}_{self.count}"
        entry = {
            "name": name,
            "op": "call_function",
            "target": target,
            "args": args,
            "kwargs": kwargs,
            "type": result,
        }
        if not self.bare:
            entry |= {
                "stack": self.count % 16,
                "modules": layer % self.modules,
                "seq_nr": self.count,
                "original_aten": target,
                "from_node": [{"name": name, "graph": "#1", "pass": "", "action": "create"}],
            }
        self.file.write(("" if self.is_first else ",") + "\n  " + json.dumps(entry))
        self.is_first = False
        self.count += 1
        return {"node": name}

    def body(self, value: dict[str, str], name: str) -> None:
        """Ends a graph, and begins another of one input, `x`."""
        self._outputs(value)
        x = json.dumps({"name": "x", "type": 0, "kind": "user_input"})
        self.file.write(f',\n{{"name": "{name}", "stage": "export", "inputs": [{x}], "nodes": [')
        self.is_first = True

    def end(self, value: dict[str, str]) -> None:
        self._outputs(value)
        self.file.write("]}\n")

    def _outputs(self, value: dict[str, str]) -> None:
        output = json.dumps({"value": value, "kind": "user_output"})
        self.file.write(
            f'],\n "outputs": [{output}], "range_constraints": {{}}, "attributes": {{}}}}'
        )


LAYER = 10


def layer_nodes(writer: Writer, x: dict[str, str], layer: int, weight: int) -> dict[str, str]:
    """Ten nodes of a residual layer with one weight and one bias."""
    w, b = {"node": f"p_weight_{weight}"}, {"node": f"p_bias_{weight}"}
    normed = writer.node("aten.layer_norm.default", [x, [WIDTH], b, b, 1e-05], layer)
    up = writer.node("aten.linear.default", [normed, w, b], layer)
    heads = writer.node("aten.view.default", [up, [8, 4, WIDTH // 4]], layer, 3)
    scaled = writer.node("aten.mul.Tensor", [heads, 0.125], layer, 3)
    summed = writer.node("aten.add.Tensor", [scaled, heads], layer, 3, alpha=2)
    flat = writer.node("aten.view.default", [summed, [8, WIDTH]], layer)
    active = writer.node("aten.gelu.default", [flat], layer, approximate="tanh")
    down = writer.node("aten.linear.default", [active, w], layer)
    gate = writer.node("aten.sigmoid.default", [down], layer)
    return writer.node("aten.add.Tensor", [x, gate], layer)


def generate(path: Path, kind: str, nodes: int, *, bare: bool = False) -> int:
    """Writes a graph of about that many nodes, `bare` ones without lines, modules and origins, and returns how many it has."""
    with open(path, "w", encoding="utf-8") as file:
        writer = Writer(file, kind, bare=bare)
        layers = max(1, nodes // LAYER)
        x = {"node": "x"}
        if kind == "layers":
            writer.begin(layers, layers)
            for layer in range(layers):
                x = layer_nodes(writer, x, layer, layer)
        elif kind == "large":
            # Four repeats of one big layer, inside which no two parts are the same.
            writer.begin(4, 4)
            size = max(1, nodes // 4)
            for layer in range(4):
                random.seed(0)
                first = writer.count
                earlier = [x]
                while writer.count - first < size:
                    x = _irregular(writer, earlier, layer, writer.count - first)
        elif kind == BRANCHES:
            writer.begin(1, 0)
            _branches(writer, max(1, nodes // 6))
            return writer.count
        else:
            writer.begin(1, 1)
            random.seed(0)
            earlier = [x]
            while writer.count < nodes:
                x = _irregular(writer, earlier, 0, writer.count)
        writer.end(x)
        return writer.count


def _branches(writer: Writer, count: int) -> None:
    x = {"node": "x"}
    for branch in range(count):
        bodies = [{"graph": f"true_graph_{branch}"}, {"graph": f"false_graph_{branch}"}]
        result = writer.node(
            "higher_order.cond", [{"node": "p"}, *bodies, {"tuple": [x]}], 0, result=5
        )
        x = writer.node("operator.getitem", [result, 0], 0)
    for branch in range(count):
        for side, function in (("true", "sin"), ("false", "cos")):
            writer.body(x, f"{side}_graph_{branch}")
            inner = writer.node(f"aten.{function}.default", [{"node": "x"}], 0)
            x = writer.node("aten.mul.Tensor", [inner, 2 + branch], 0)
    writer.end(x)


def _irregular(
    writer: Writer, earlier: list[dict[str, str]], layer: int, position: int
) -> dict[str, str]:
    """A node whose constant occurs nowhere else, on values a little way back."""
    left, right = random.choice(earlier), earlier[-1]
    if position % 2:
        result = writer.node("aten.add.Tensor", [right, left], layer, alpha=position + 2)
    else:
        result = writer.node("aten.mul.Tensor", [right, 1.0 + position / 1024], layer)
    earlier.append(result)
    del earlier[:-32]
    return result


def measure(tools: Path, kind: str, nodes: int, repeat: int, folder: Path) -> Row:
    source, text, bytecode = (folder / f"graph{ending}" for ending in (".json", ".mlir", ".mlirbc"))
    count = generate(source, kind, nodes)
    translate, opt = tools / "opprof-translate", tools / "opprof-opt"
    # The same graph, locations and all.
    subprocess.run([translate, "--import-fx-json", source, "-o", text], check=True)
    subprocess.run([opt, "--emit-bytecode", text, "-o", bytecode], check=True)
    unverified = "--mlir-very-unsafe-disable-verifier-on-parsing"
    nowhere = ["-o", os.devnull]
    best = best_of(
        repeat,
        {
            "json": Command(
                [translate, "--import-fx-json", source, *nowhere], {"json_s": "Parser"}
            ),
            "text": Command([opt, unverified, text, *nowhere], {"text_s": "Parser"}),
            "bytecode": Command([opt, unverified, bytecode, *nowhere], {"bytecode_s": "Parser"}),
        },
    )
    result: Row = {"kind": kind, "nodes": count}
    for name, file in (("json", source), ("text", text), ("bytecode", bytecode)):
        result[f"{name}_s"] = best.seconds[f"{name}_s"]
        result[f"{name}_mb"] = round(file.stat().st_size / 1e6, 1)
        result[f"{name}_peak_mb"] = round(best.peak_bytes[name] / 1e6)
    result["text_over_json"] = round(best.seconds["text_s"] / best.seconds["json_s"], 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, KINDS, BRANCHES)
    parser.add_argument("--generate", nargs=3, metavar=("KIND", "NODES", "FILE"))
    options = parser.parse_args()
    if options.generate:
        kind, nodes, file = options.generate
        print(f"{generate(Path(file), kind, int(nodes))} nodes")
        return
    sweep(options, measure, ("json_s", "text_s", "bytecode_s"))


if __name__ == "__main__":
    main()
