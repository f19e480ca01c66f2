"""Reads every recorded program below a folder, and holds it to what must be true of each.

Usage: sweep.py INPUTS SCHEMA.json CHECK_SCHEMA.py
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


def check(code: Path, scratch: Path) -> Path:
    text = run("opprof-translate", "--inductor-launches", str(code))
    graph = json.loads(text)
    assert graph["statements"]["kept_as_text"] == 0, graph["statements"]

    # Every call that launches is a launch: counted in the text, function by function, where none is called twice.
    source = code.read_text()
    head, body = source.split("async_compile.wait", 1)
    runs = len(re.findall(r"^ +\w+\.run\(|extern_kernels\.\w+\(", body, re.MULTILINE))
    of_call = [
        launch
        for launch in graph["launches"]
        if launch["kind"] in ("triton", "user", "extern") and launch["line"] > head.count("\n")
    ]
    assert len(of_call) == runs, (len(of_call), runs)
    assert [launch["index"] for launch in graph["launches"]] == list(range(len(graph["launches"])))

    # A launch has the nodes that PyTorch recorded for it: computed, or listed and said to be so.
    mapping = code.parent / "inductor_provenance_tracking_node_mappings.json"
    if mapping.exists():
        recorded = json.loads(mapping.read_text())["cppCodeToPost"]
        for launch in graph["launches"]:
            names = recorded.get(f"{launch['kernel']}:{launch.get('debug_handle')}")
            by_record = [n for n in launch["nodes"] if "provenance" in n["evidence"]]
            if names is None or not by_record:
                continue
            known = {n["name"] for n in by_record} | set(launch.get("listed_only", []))
            assert known <= set(names), (launch["kernel"], known - set(names))

    # Nodes are launched, or there is a reason; none is both.
    launched = {(n.get("graph"), n["name"]) for x in graph["launches"] for n in x["nodes"]}
    idle = {(n.get("graph"), n["name"]) for n in graph["not_launched"]}
    assert not launched & idle, launched & idle

    # The dialect holds the same.
    module = scratch / "program.mlir"
    run("opprof-translate", "--import-inductor-code", str(code), "-o", str(module))
    run("opprof-opt", "--verify-roundtrip", str(module), "-o", "/dev/null")
    assert run("opprof-translate", "--export-inductor-launches", str(module)) == text

    out = scratch / f"{graph['graph']}-{code.parent.name}.json"
    out.write_text(text)
    return out


def main() -> None:
    codes = sorted(Path(sys.argv[1]).rglob("output_code.py"))
    assert len(codes) >= 10, codes
    with tempfile.TemporaryDirectory() as folder:
        files = [str(check(code, Path(folder))) for code in codes]
        print(run(sys.executable, sys.argv[3], sys.argv[2], *files))
    print(f"{len(codes)} programs")


main()
