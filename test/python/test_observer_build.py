"""The observer is built at first use where there is none for a program's PyTorch, and what keeps it from being built is said."""

import fcntl
import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from test_observer import line_of, opprof, write

from opprof.recording import INJECTED

ROOT = Path(__file__).parents[2]
OBSERVER, FRAMES = "observer.so", "frames.so"
HEADERS = [
    *Path("/usr/include").glob("python3.1[123]"),
    *Path(sys.base_prefix).parent.glob("*/include/python3.1[123]"),
]

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

#: A compiler that notes what it is to make, and makes nothing of frames.
STUB = """#!/bin/sh
for last; do :; done
echo "$last" >>{calls}
case "$*" in *Frames.cpp*) echo "Frames.cpp: error: no such frames" >&2; exit 1 ;; esac
{does}
: >"$last"
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
        "CXX": "",
    }


def run(tmp_path: Path, name: str, environment: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """What `opprof run` says of the program, and its report."""
    program, folder = write(tmp_path, PROGRAM), tmp_path / name
    done = opprof("run", "-o", folder, "--", sys.executable, program, **environment)
    assert done.returncode == 0, done.stderr
    reported = opprof("report", "--json", folder)
    assert reported.returncode == 0, reported.stderr
    return done.stderr, json.loads(reported.stdout)


@pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++")
def test_the_first_run_builds_it_and_the_second_finds_it(
    tmp_path: Path, package: dict[str, str]
) -> None:
    said, first = run(tmp_path, "first", package)
    assert "opprof: builds the observer for PyTorch" in said
    assert "torch.profiler records" not in said
    # Whoever has no compiler any more needs none.
    said, second = run(tmp_path, "second", {**package, "CXX": "/nowhere"})
    assert "opprof: builds" not in said
    line = line_of(tmp_path / "program.py", "# here")
    for profile in (first, second):
        assert "Net.first" in {kernel.get("module") for kernel in profile["kernels"]}
        assert line in {kernel.get("source") for kernel in profile["kernels"]}
    (folder,) = (tmp_path / "cache" / "opprof").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # Nothing is left of what was being made.
    assert {path.suffix for path in folder.iterdir()} == {".lock", ".so"}


def test_what_keeps_it_from_being_built_is_said_and_the_program_runs(
    tmp_path: Path, package: dict[str, str]
) -> None:
    said, profile = run(tmp_path, "run", {**package, "CXX": "false"})
    assert "false could not build libopprof_observer" in said and "torch.profiler records" in said
    assert profile["kernels"]


@pytest.mark.parametrize("headers", HEADERS, ids=lambda path: path.name)
@pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++")
def test_frames_of_each_python_compile(headers: Path) -> None:
    if not (headers / "internal" / "pycore_frame.h").is_file():
        pytest.skip("its headers are not whole")
    subprocess.run(
        [
            *("g++", "-fsyntax-only", "-std=c++20", f"-I{ROOT}/include", f"-isystem{headers}"),
            str(ROOT / "lib/Torch/Frames.cpp"),
        ],
        check=True,
        timeout=120,
    )


@pytest.fixture
def build(package: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, value in package.items():
        monkeypatch.setenv(name, value)
    spec = importlib.util.spec_from_file_location("observer_build", INJECTED / "observer_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TORCH: Any = SimpleNamespace(
    __file__="/torch/__init__.py", __version__="2.99", compiled_with_cxx11_abi=lambda: True
)


def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str = "") -> Path:
    """Has a compiler that notes its calls in the file."""
    calls, compiler = tmp_path / "calls", tmp_path / "compiler"
    compiler.write_text(STUB.format(calls=calls, does=does))
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return calls


def found(build: ModuleType, frames: str = FRAMES) -> Path:
    folder = os.environ["OPPROF_OBSERVER_LIBRARIES"]
    return Path(build.libraries(folder, TORCH, (OBSERVER, frames)))


def test_frames_that_cannot_be_built_cost_nothing_but_lines(
    build: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(build, "_python_headers", lambda: "/headers")
    calls = stub(tmp_path, monkeypatch)
    folder = found(build)
    assert (folder / OBSERVER).is_file() and not (folder / FRAMES).exists()
    assert "no such frames" in capfd.readouterr().err
    assert found(build) == folder
    # The second program tries nothing again.
    assert len(calls.read_text().splitlines()) == 2
    assert "builds" not in capfd.readouterr().err


def test_a_python_whose_frames_are_not_known_has_the_observer(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stub(tmp_path, monkeypatch)
    assert (found(build, frames="") / OBSERVER).is_file()
    found(build, frames="")
    assert len(calls.read_text().splitlines()) == 1


def test_a_failure_is_believed_by_the_other_processes_and_not_by_another_compiler(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = stub(tmp_path, monkeypatch, "echo 'here: error: no' >&2; exit 1")
    for _ in range(3):
        with pytest.raises(build.BuildError, match="here: error: no"):
            found(build)
    assert len(calls.read_text().splitlines()) == 1
    monkeypatch.setenv("CXX", f"{tmp_path}/compiler -O0")
    with pytest.raises(build.BuildError):
        found(build)
    assert len(calls.read_text().splitlines()) == 2


def test_who_holds_the_lock_does_not_keep_a_program_for_ever(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(tmp_path, monkeypatch)
    folder = found(build, frames="")
    (folder / OBSERVER).unlink()
    monkeypatch.setattr(build, "_MOST_SECONDS", 0.3)
    with open(folder / f"{OBSERVER}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(build.BuildError, match="another process has held"):
            found(build, frames="")
        # What is there needs no lock.
        (folder / OBSERVER).touch()
        assert found(build, frames="") == folder


def test_what_others_may_write_is_not_loaded(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(tmp_path, monkeypatch)
    folder = found(build, frames="")
    folder.chmod(0o777)
    with pytest.raises(build.BuildError, match="others may write to"):
        found(build, frames="")
    folder.chmod(0o700)
    moved = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(moved)
    with pytest.raises(build.BuildError, match="others may write to"):
        found(build, frames="")


def test_without_a_home_or_a_compiler_it_says_what_to_do(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match="no C\\+\\+ compiler to build it: install g\\+\\+"):
        found(build)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setattr(build.os.path, "expanduser", lambda path: path)
    with pytest.raises(build.BuildError, match="set XDG_CACHE_HOME"):
        found(build)
