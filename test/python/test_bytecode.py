"""Bytecode of a package that has none and may get none is kept in the user's cache, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from opprof.bytecode import keep_bytecode
print(keep_bytecode("large"))
import large
print(large.__cached__)
import subprocess
print(subprocess.run([sys.executable, "-c", "import large; print(large.__cached__)"], capture_output=True, text=True).stdout)
"""


def run(tmp_path: Path, *flags: str, **environment: str) -> list[str]:
    (tmp_path / "modules" / "large").mkdir(parents=True, exist_ok=True)
    (tmp_path / "modules" / "large" / "__init__.py").write_text("value = 1\n")
    paths = os.pathsep.join([str(tmp_path / "modules"), *filter(None, sys.path)])
    base = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env = {**base, "PYTHONPATH": paths, "XDG_CACHE_HOME": str(tmp_path / "cache"), **environment}
    done = subprocess.run(
        [sys.executable, *flags, "-c", PROGRAM],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def compiled(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*.pyc") if "large" in file.parts]


def test_bytecode_that_may_not_lie_beside_its_module_lies_in_the_cache(tmp_path: Path) -> None:
    folder, own, child = run(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert folder == str(tmp_path / "cache" / "opprof" / "bytecode")
    assert own.startswith(folder) and child == own
    assert compiled(tmp_path / "cache") == [Path(own)]
    assert not compiled(tmp_path / "modules")


def test_with_b_as_an_option_too(tmp_path: Path) -> None:
    folder, own, _ = run(tmp_path, "-B")
    assert own.startswith(folder) and Path(own).is_file()


def test_what_may_be_written_is_left_to_python(tmp_path: Path) -> None:
    assert run(tmp_path)[0] == "None"
    assert compiled(tmp_path / "modules") and not (tmp_path / "cache").exists()
    # What has bytecode needs no other, whoever asks.
    assert run(tmp_path, "-B")[0] == "None"


@pytest.mark.parametrize("shared", ["opprof/bytecode", "opprof"])
def test_a_folder_that_others_may_write_is_not_trusted(tmp_path: Path, shared: str) -> None:
    folder = tmp_path / "cache" / shared
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert run(tmp_path, "-B")[0] == "None"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "opprof").symlink_to(tmp_path / "elsewhere")
    assert run(tmp_path, "-B")[0] == "None"


def test_a_cache_that_depends_on_the_working_directory_is_none(tmp_path: Path) -> None:
    folder = run(tmp_path, "-B", XDG_CACHE_HOME="cache", HOME=str(tmp_path / "home"))[0]
    assert folder == str(tmp_path / "home" / ".cache" / "opprof" / "bytecode")


@pytest.mark.parametrize("where", ["/proc/none"])
def test_without_a_folder_nothing_is_kept(tmp_path: Path, where: str) -> None:
    assert run(tmp_path, "-B", XDG_CACHE_HOME=where)[0] == "None"
