"""Writes broken graph JSON files and prints what opprof-translate says of each: its first lines, the directory left out."""

import json
import subprocess
import sys
from pathlib import Path


def document(nodes: list[str], *, types: str = "[]", graphs: str | None = None) -> str:
    lines = ",\n".join(nodes)
    graph = (
        '{"name": "g",\n "inputs": [{"name": "x", "kind": "user_input"}],\n "nodes": [\n'
        + lines
        + '],\n "outputs": [{"value": {"node": "x"}, "kind": "user_output"}]}'
    )
    return '{"opprof_graph_version": 1,\n "types": %s,\n "graphs": [%s]}' % (types, graphs or graph)


def node(args: str = "[]", name: str = "a", **more: object) -> str:
    entry = f'{{"name": "{name}", "op": "call_function", "target": "aten.relu.default", "args": {args}, "kwargs": {{}}'
    for key, value in more.items():
        entry += f', "{key}": {json.dumps(value)}'
    return entry + "}"


BOMB = "[" + ", ".join(['"int"'] + [f'{{"tuple": [{i}, {i}]}}' for i in range(30)]) + "]"
GOOD = document([node('[{"node": "x"}]')])

CASES = {
    "empty": "",
    "zip": "PK\x03\x04rest",
    "truncated": GOOD[: GOOD.index('"target"')],
    "no_json": "import torch",
    "array": "[1, 2]",
    "no_version": GOOD.replace('"opprof_graph_version": 1,', ""),
    "version_2": GOOD.replace('version": 1', 'version": 2'),
    "no_graphs": '{"opprof_graph_version": 1, "graphs": []}',
    "no_type": document([node(type=7)]),
    "missing_target": document(['{"name": "a", "op": "call_function", "args": [], "kwargs": {}}']),
    "missing_name": document([node().replace('"name": "a", ', "")]),
    "duplicate_node": document([node(), node()]),
    "duplicate_graph": GOOD.replace(
        '"graphs": [', '"graphs": [{"name": "g", "inputs": [], "nodes": [], "outputs": []},'
    ),
    "duplicate_key": document([node(args='[], "args": []')]),
    "dangling": document([node('[{"node": "nobody"}]')]),
    "cycle": document([node('[{"node": "b"}]'), node('[{"node": "a"}]', name="b")]),
    "dangling_graph": document([node('[{"graph": "nobody"}]')]),
    "huge_int": document([node("[123456789012345678901234567890]")]),
    "huge_float": document([node("[1e999]")]),
    "deep": document([node("[" * 5000 + "]" * 5000)]),
    "unknown_form": document([node('[{"tensor": 1}]')]),
    "two_forms": document([node('[{"node": "x", "int": "1"}]')]),
    "bad_op": document([node().replace("call_function", "call")]),
    "bad_kind": GOOD.replace(
        '"inputs": [',
        '"inputs": [{"name": "w", "kind": "user_input"},{"name": "v", "kind": "weight"},',
    ),
    "type_bomb": document([node()], types=BOMB),
    "type_cycle": document([node()], types='[{"tuple": [0]}]'),
    "negative_size": document(
        [node()],
        types='[{"tensor": {"dtype": "float32", "device": "cpu", "shape": [-1], "stride": [1]}}]',
    ),
    "long_line": document([node('["%s", {"node": "nobody"}]' % ("x" * 5000))]),
    "trailing_comma": document([node("[1,]")]),
    "trailing_text": GOOD + "x",
    "leading_zero": document([node("[01]")]),
    "no_digits": document([node("[1.]")]),
    "word": document([node("[nul]")]),
    "no_colon": document([node()]).replace('"op":', '"op"'),
    "unknown_syntax": document([node(color=[1, {"a": None}]).replace("null", "nil")]),
    "escape": document([node(r'["\x41"]')]),
    "surrogate": document([node(r'["\ud83d\u0041"]')]),
    "control": document([node('["\t"]')]),
    "utf8": document([node('["\udcc3("]')]),
    "open_string": GOOD[: GOOD.index("relu")],
    "unknown_key": document([node(color="red"), node(name="b", color="red")]),
}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in CASES.items():
        file = folder / f"{name}.json"
        file.write_text(text, encoding="utf-8", errors="surrogateescape")
        process = subprocess.run(
            ["opprof-translate", "--import-fx-json", "--mlir-print-debuginfo=false", str(file)],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
        )
        shown = process.stderr.replace(f"{folder}/", "").splitlines()[:1]
        print(f"{name}:", *shown, sep="\n")
        expected = 0 if name == "unknown_key" else 1
        if process.returncode != expected or (process.stdout and expected):
            print(f"exit status {process.returncode}, {len(process.stdout)} characters of output")
        if not expected:
            print(process.stdout)


if __name__ == "__main__":
    main()
