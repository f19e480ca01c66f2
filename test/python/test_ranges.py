"""NVTX ranges of layers: which ranges a launch lies in, and that they are balanced whatever the program does.

The ranges are opened and closed by the interpreter's own events, which are others from Python 3.12 on, so the programs here
also run in a newer interpreter where there is one. They need no PyTorch.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from conftest import interpreters

from opprof.recording.partitions import Node, parse_partition_maps
from opprof.recording.ranges import LayerRanges

ROOT = Path(__file__).parents[2]
LIBRARY = Path(os.environ.get("OPPROF_BUILD_DIR", ROOT / "build")) / "lib" / "libopprof_capture.so"

PARTITIONS: dict[str, Any] = {
    "classes": [
        {
            "id": "c0",
            "parent": None,
            "partitions": [
                {"label": "h.0", "role": "unique", "nodes": ["a0", "b0", "c0"]},
                {"label": "h.1", "role": "duplicate", "nodes": ["a1", "b1", "c1"]},
            ],
        },
        {
            "id": "c1",
            "parent": "c0",
            "partitions": [
                {"label": "h.0.mlp", "role": "unique", "nodes": ["b0"]},
                {"label": "h.0.out", "role": "duplicate", "nodes": ["c0"]},
                {"label": "h.1.mlp", "role": "duplicate", "nodes": ["b1"]},
            ],
        },
    ]
}

WRAPPER = """\
def call(args):
    launch(1)
    launch(2)
    launch(3)
    launch(4)
    launch(5)
    launch(6)
    return inner(args)

def partition_0(args):
    launch(11)
    if args == "raise":
        raise ValueError("the user's own")
    return args
"""

PROGRAM = """
import importlib.util, json, sys, threading
from pathlib import Path
from opprof.recording import identity
from opprof.recording.library import Library
from opprof.recording.launch_maps import LaunchMap
from opprof.recording.partitions import read_partition_maps
from opprof.recording.ranges import LayerRanges

log = []
def push(name):
    log.append("+" + name)
def pop():
    log.append("-")

spec = importlib.util.spec_from_file_location("wrapper", "wrapper.py")
wrapper = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wrapper)
wrapper.launch = lambda line: log.append(line)
wrapper.inner = wrapper.partition_0

def entry(index, line, *nodes):
    return {"index": index, "line": line, "kernel": "k", "nodes": [{"name": n, "from": [{"name": n}]} for n in nodes]}

lines = {2: ["embed"], 3: ["a0"], 4: ["b0"], 5: ["c0", "a1"], 6: ["b1"], 7: ["head"], 11: ["b0"]}
launches = LaunchMap(
    "g",
    open("wrapper.py").read(),
    {line: entry(i, line, *nodes) for i, (line, nodes) in enumerate(lines.items())},
)
ranges = LayerRanges(read_partition_maps(Path("partitions.json")), push, pop)
library = Library(sys.argv[1]) if len(sys.argv) > 1 else None
followed = identity.WrapperLines(library, [wrapper], maps=[launches], ranges=ranges)
"""


def run(python: str, body: str, folder: Path, *, capture: bool = False) -> Any:
    """What a program printed, as JSON. With `capture` its ids are set too, from Python 3.12 on by the library's builtins."""
    if capture and not LIBRARY.is_file():
        pytest.skip("the capture library is not built: cmake --build build --target opprof_capture")
    (folder / "wrapper.py").write_text(WRAPPER)
    (folder / "partitions.json").write_text(json.dumps(PARTITIONS))
    done = subprocess.run(
        [python, "-c", PROGRAM + textwrap.dedent(body), *([str(LIBRARY)] if capture else [])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_launch_lies_in_the_ranges_of_its_nodes() -> None:
    ranges = LayerRanges(parse_partition_maps(PARTITIONS), lambda name: None, lambda: None)

    def path(*names: str) -> tuple[str, ...]:
        return ranges.path(Node("", "", name) for name in names)

    assert path("embed") == ()
    assert path("a0") == ("layer::unique::h.0",)
    assert path("a0", "b0") == ("layer::unique::h.0", "layer::unique::h.0.mlp")
    assert path("c0", "b1") == (
        "layer::unique::h.0 + layer::duplicate::h.1",
        "layer::duplicate::h.0.out + layer::duplicate::h.1.mlp",
    )
    # The same place is the same object, whichever nodes lead to it.
    assert path("a1") is path("a1", "head")


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("capture", [False, True])
def test_ranges_nest_and_straddle(python: str, capture: bool, tmp_path: Path) -> None:
    log = run(
        python,
        """
        with followed.active():
            wrapper.call("x")
        print(json.dumps(log))
        """,
        tmp_path,
        capture=capture,
    )
    both = "+layer::unique::h.0 + layer::duplicate::h.1"
    assert log == [
        1,
        "+layer::unique::h.0",
        2,
        "+layer::unique::h.0.mlp",
        3,
        "-",
        "-",
        both,
        "+layer::duplicate::h.0.out",
        4,
        "-",
        "-",
        "+layer::duplicate::h.1",
        "+layer::duplicate::h.1.mlp",
        5,
        "-",
        "-",
        6,
        "+layer::unique::h.0",
        "+layer::unique::h.0.mlp",
        11,
        "-",
        "-",
    ]


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("capture", [False, True])
def test_ranges_are_balanced_when_the_program_raises(
    python: str, capture: bool, tmp_path: Path
) -> None:
    result = run(
        python,
        """
        with followed.active():
            try:
                wrapper.call("raise")
            except ValueError as error:
                said = str(error)
            balanced = log.count("-") == sum(str(entry)[0] == "+" for entry in log)
            wrapper.partition_0("x")
        print(json.dumps({"said": said, "balanced": balanced, "after": log[-5:]}))
        """,
        tmp_path,
        capture=capture,
    )
    assert result == {
        "said": "the user's own",
        "balanced": True,
        "after": ["+layer::unique::h.0", "+layer::unique::h.0.mlp", 11, "-", "-"],
    }


@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize("capture", [False, True])
def test_nothing_is_left_when_the_capture_ends_or_threads_meet(
    python: str, capture: bool, tmp_path: Path
) -> None:
    result = run(
        python,
        """
        errors = []
        def many():
            try:
                for _ in range(50):
                    wrapper.partition_0("x")
            except BaseException as error:
                errors.append(repr(error))
        with followed.active():
            threads = [threading.Thread(target=many) for _ in range(4)]
            for thread in threads:
                thread.start()
            wrapper.partition_0("x")
            for thread in threads:
                thread.join()
        before = len(log)
        wrapper.partition_0("x")
        opened = sum(str(entry)[0] == "+" for entry in log)
        print(json.dumps({"errors": errors, "balanced": log.count("-") == opened, "after": log[before:], "opened": opened}))
        """,
        tmp_path,
        capture=capture,
    )
    assert result["errors"] == []
    assert result["balanced"] and result["after"] == [11]
    assert result["opened"] >= 2


def test_ranges_without_a_capture(tmp_path: Path) -> None:
    (tmp_path / "run" / "g").mkdir(parents=True)
    (tmp_path / "run" / "partitions.json").write_text(json.dumps(PARTITIONS))
    (tmp_path / "run" / "g" / "output_code.py").write_text(WRAPPER)
    launches = [
        {"index": 0, "line": 3, "kernel": "k", "nodes": [{"name": "a0", "from": [{"name": "a0"}]}]}
    ]
    (tmp_path / "run" / "g" / "launches.json").write_text(
        json.dumps({"version": 1, "graph": "g", "launches": launches})
    )
    log = run(
        sys.executable,
        """
        import opprof
        from opprof.errors import OpprofError
        from opprof.recording import ranges
        ranges.nvtx_calls = lambda: (push, pop)
        identity.inductor_modules = lambda: [wrapper]
        with opprof.layer_ranges("run"):
            wrapper.call("x")
        try:
            with opprof.layer_ranges("none"):
                pass
        except OpprofError as error:
            log.append(str(error))
        print(json.dumps(log))
        """,
        tmp_path,
    )
    assert log == [
        1,
        "+layer::unique::h.0",
        2,
        "-",
        3,
        4,
        5,
        6,
        11,
        "none: holds no partitions.json",
    ]


@pytest.mark.skipif(len(interpreters()) + (sys.version_info >= (3, 12)) < 2, reason="Python 3.12")
def test_a_taken_number_of_the_interpreter_is_said(tmp_path: Path) -> None:
    result = run(
        interpreters()[-1],
        """
        sys.monitoring.use_tool_id(3, "first tool")
        with followed.active():
            wrapper.partition_0("x")
        sys.monitoring.use_tool_id(4, "second tool")
        try:
            with followed.active():
                pass
        except Exception as error:
            said = str(error)
        print(json.dumps({"log": log, "said": said}))
        """,
        tmp_path,
    )
    assert len(result["log"]) == 5
    assert "'first tool' and 'second tool'" in result["said"]
