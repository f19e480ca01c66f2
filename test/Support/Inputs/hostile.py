"""Writes files that are made to do harm: hostile.py FOLDER mlir|archives. Each is small, and what reads it without a bound crashes or goes on for
minutes."""

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
    (write_mlir if sys.argv[2] == "mlir" else write_archives)(folder)
