"""Writes files that are made to do harm: hostile.py FOLDER mlir|said|archives. Each is small, and what reads it without a bound crashes or goes on for
minutes."""

import os
import random
import sys
import zipfile
from pathlib import Path


def write_mlir(folder: Path) -> None:
    deep = 100_000
    aliases = "".join(f"#a{i} = [#a{i - 1}, #a{i - 1}]\n" for i in range(1, 64))
    chain = "".join(f"#a{i} = [#a{i - 1}]\n" for i in range(1, deep))
    texts = {
        "types": f"module attributes {{fx.a = {'tuple<' * deep}i32{'>' * deep}}} {{}}",
        "attributes": f"module attributes {{fx.a = {'[' * deep}{']' * deep}}} {{}}",
        "modules": "module {" * deep + "}" * deep,
        "minus": f"module attributes {{fx.a = affine_map<(d0) -> ({'- ' * deep}d0)>}} {{}}",
        "sum": f"module attributes {{fx.a = affine_map<(d0) -> ({'d0 + ' * deep}d0)>}} {{}}",
        "modulo": f"module attributes {{fx.a = affine_map<(d0) -> ({'d0 mod ' * deep}2)>}} {{}}",
        "location": f"module {{}} loc({'callsite(unknown at ' * deep}unknown{')' * deep})",
        "doubling": f"#a0 = [0]\n{aliases}module attributes {{fx.a = #a63}} {{}}",
        "chain": f"#a0 = [0]\n{chain}module attributes {{fx.a = #a{deep - 1}}} {{}}",
        "digits": f"module attributes {{fx.a = {'9' * 5_000}}} {{}}",
    }
    for name, text in texts.items():
        (folder / f"{name}.mlir").write_text(text)


def write_what_is_said(folder: Path) -> None:
    """Files whose errors would command the terminal, fill it, or show a line of another file."""
    escape = "\x1b]0;owned\x07\u009b31m\u202e"
    head = 'fx.graph @g(%x: tensor<4xf32> {fx.name = "x"}) -> tensor<4xf32> { '
    output = "fx.output(%x) : (tensor<4xf32>)"
    other, pipe = folder / "other.py", folder / "pipe"
    other.write_text("a secret\n")
    os.mkfifo(pipe)
    texts = {
        "line.mlir": f"{head}fx.output(%y) : (tensor<4xf32>) }} // {escape}",
        "line.json": f'{{"opprof_graph_version": 1, "graphs": ["{escape}"]}}',
        "long.mlir": head + "a" * 1_000_000,
    }
    for name, place in {
        "place": "\\1B]0;owned\\07",
        "other": str(other),
        "pipe": str(pipe),
        "device": "/dev/zero",
    }.items():
        texts[f"{name}.mlir"] = f'{head}{output} loc("{place}":1:1) {output}}}'
    for name, text in texts.items():
        (folder / name).write_text(text)


def write_archives(folder: Path) -> None:
    def write(name: str, argument: str, metadata: str = "{}") -> None:
        node = (
            '{"target": "aten.f", "name": "n", "inputs": [{"name": "x", "arg": %s}], "outputs": [], "metadata": %s}'
            % (argument, metadata)
        )
        document = (
            '{"schema_version": {"major": 8, "minor": 1}, "graph_module": {"graph": {"inputs": [], "outputs": [], "nodes": [%s]}, '
            '"signature": {"input_specs": [], "output_specs": []}}}' % node
        )
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("m/models/model.json", document)

    deep = 260_000
    nested = "[" * deep + "]" * deep
    write("argument.pt2", nested)
    write("kept.pt2", '{"as_of_tomorrow": %s}' % nested)
    write("from-node.pt2", '{"as_int": 1}', '{"from_node": "%s"}' % nested)
    # As much as an archive may grow: what packs badly pays for what packs well.
    noise = "".join(random.Random(1).choices("0123456789abcdef", k=2_000_000))
    zeros = "0, " * 38_000_000
    write("zeros.pt2", '{"as_ints": [%s0]}' % zeros, '{"stack_trace": "%s"}' % noise)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    kinds = {"mlir": write_mlir, "said": write_what_is_said, "archives": write_archives}
    kinds[sys.argv[2]](folder)
