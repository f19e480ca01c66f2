"""The observer is built at first use where there is none for a program's PyTorch, and what keeps it from being built is said."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_observer import line_of, opprof, write

ROOT = Path(__file__).parents[2]

PROGRAM = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
    def forward(self, x):
        return self.first(x).relu()  # here
net = Net()
for _ in range(20):
    net(torch.ones(8, 64))
"""


@pytest.fixture
def package(tmp_path: Path) -> dict[str, str]:
    """The environment of a package that holds the sources and no library, as the wheel does."""
    folder = tmp_path / "package" / "sources"
    folder.mkdir(parents=True)
    for name in ("lib", "include"):
        (folder / name).symlink_to(ROOT / name)
    return {
        "OPPROF_OBSERVER_LIBRARIES": str(folder.parent),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "CXXFLAGS": "-O0",
    }


def run(tmp_path: Path, name: str, environment: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """What `opprof run` says of the program, and its report."""
    program, folder = write(tmp_path, PROGRAM), tmp_path / name
    done = opprof("run", "-o", folder, "--", sys.executable, program, **environment)
    assert done.returncode == 0, done.stderr
    reported = opprof("report", "--json", folder)
    assert reported.returncode == 0, reported.stderr
    return done.stderr, json.loads(reported.stdout)


def test_the_first_run_builds_it_and_the_second_finds_it(
    tmp_path: Path, package: dict[str, str]
) -> None:
    said, first = run(tmp_path, "first", package)
    assert "opprof: builds the observer for PyTorch" in said
    assert "torch.profiler records" not in said
    # Whoever has no compiler any more needs none.
    again = {**package, "CXX": "/nowhere"}
    said, second = run(tmp_path, "second", again)
    assert "opprof: builds" not in said
    line = line_of(tmp_path / "program.py", "# here")
    for profile in (first, second):
        modules = {kernel.get("module") for kernel in profile["kernels"]}
        assert "Net.first" in modules
        assert line in {kernel.get("source") for kernel in profile["kernels"]}
    (folder,) = (tmp_path / "cache" / "opprof").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # Nothing is left of what was being made.
    assert {path.suffix for path in folder.iterdir()} == {"", ".so"}


@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        ("/nowhere/g++", "/nowhere/g++ could not build libopprof_observer"),
        ("false", "false could not build libopprof_observer"),
    ],
)
def test_what_keeps_it_from_being_built_is_said_and_the_program_runs(
    tmp_path: Path, package: dict[str, str], compiler: str, reason: str
) -> None:
    said, profile = run(tmp_path, "run", {**package, "CXX": compiler})
    assert reason in said and "torch.profiler records" in said
    assert profile["kernels"]


def test_without_a_compiler_it_says_what_to_install(
    tmp_path: Path, package: dict[str, str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    program = (
        "import importlib.util, os, sys, torch\n"
        "spec = importlib.util.spec_from_file_location('build', sys.argv[1])\n"
        "build = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(build)\n"
        "try:\n"
        "    build.libraries(sys.argv[2], torch, ('observer.so', 'frames.so'))\n"
        "except build.BuildError as error:\n"
        "    print(error)\n"
    )
    injected = ROOT / "python/opprof/recording/injected/observer_build.py"
    done = subprocess.run(
        [sys.executable, "-c", program, injected, package["OPPROF_OBSERVER_LIBRARIES"]],
        env={**os.environ, **package, "PATH": str(empty)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "no C++ compiler to build it: install g++" in done.stdout
