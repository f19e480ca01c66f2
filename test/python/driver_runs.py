"""What the tests of readers share: the driver run on a file, and a stand-in for a tool that it calls. No PyTorch is needed."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from opprof.tools import find_tool


def driver(*arguments: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[bytes]:
    """Runs a command of the driver, which must end by itself and in time."""
    command = [find_tool("opprof-driver"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=timeout)
    assert done.returncode in (0, 1), done.stderr
    return done


def said(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """What a command of the driver says, in text, of files and of what comes from stdin."""
    command = [find_tool("opprof-driver"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=120)


def profile_of(*files: Path, timeout: float = 120) -> Any:
    """The profile of files, which must be read."""
    done = driver("report", "--json", "--", *files, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def error_of(file: Path) -> str:
    """Why a file is not read."""
    done = driver("report", "--json", "--", file)
    assert done.returncode == 1
    assert not done.stdout
    return done.stderr.decode(errors="replace")


def stand_in(tool: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a script the only tool in PATH."""
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
