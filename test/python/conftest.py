"""What the Python tests share: the examples, and a way to write model scripts."""

import functools
import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch._inductor.config
from torch._inductor import cpu_vec_isa

EXAMPLES = Path(__file__).parents[2] / "examples"


def pytest_sessionstart() -> None:
    """Where tests run in the background, Ctrl-C is ignored, and so it would be by every command that they begin."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _settle_vector_instructions()


def _settle_vector_instructions() -> None:
    """Inductor compiles a program for each kind that the CPU has, in every folder of its caches, and loads all in every process: ten
    seconds, for what is the same on this machine.
    """
    there = cpu_vec_isa.x86_isa_checker()
    kinds = [
        kind for kind in cpu_vec_isa.supported_vec_isa_list if set(str(kind).split()) <= {*there}
    ]
    if kinds and all(kinds):
        os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
        torch._inductor.config.cpp.vec_isa_ok = True


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report() -> None:
    """Gives every file of tests the same numbers, as what it draws while it is imported would be others each time."""
    torch.manual_seed(0)


def pytest_collection_finish() -> None:
    """What is imported stays; the collector goes through the rest only, which took up to half of the time of what makes many objects."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Gives every test the same numbers, whichever ran before it."""
    torch.manual_seed(0)
    # Dynamo measures the guards of each compilation for its logs, with cold caches, which takes longer than many a compilation here.
    if guards := sys.modules.get("torch._dynamo.guards"):
        guards.profile_guard_manager = lambda *_: 0.0  # type: ignore[attr-defined]


@functools.cache
def interpreters() -> list[str]:
    """This Python, and newer ones, found by name or kept by pyenv, where it is too old for sys.monitoring."""
    found = [sys.executable]
    if sys.version_info < (3, 12):
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
        for version in ("3.12", "3.13", "3.14"):
            kept = sorted(pyenv.glob(f"versions/{version}*/bin/python"))
            for candidate in (shutil.which(f"python{version}"), *map(str, kept)):
                if candidate and _works(candidate):
                    found.append(candidate)
                    break
    return found


def _works(python: str) -> bool:
    program = "import ctypes, sys; sys.exit(sys.version_info < (3, 12))"
    return subprocess.run([python, "-c", program], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of the example workloads."""
    return EXAMPLES


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """Writes a model script with the given forward, and returns its path."""

    def write(body: str, name: str = "model_under_test.py") -> Path:
        path = tmp_path / name
        path.write_text("import torch\n\n\n" + textwrap.dedent(body))
        return path

    return write
