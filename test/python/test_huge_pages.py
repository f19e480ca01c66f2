"""Whether the native tools ask for huge pages, which glibc takes when a program is loaded, and what they begin does without."""

import os
import subprocess
from pathlib import Path

import pytest

from opprof.tools import find_tool

ASKED = "glibc.malloc.hugetlb=1"


def tunables_of(arguments: list[str], fifo: Path) -> str | None:
    """With which tunables a tool was loaded that waits for what it reads."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # Opened as soon as the tool reads, which is after it was loaded for the last time.
        with fifo.open("wb"):
            environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    finally:
        process.kill()
        process.wait()
    values = [entry[15:].decode() for entry in environment if entry.startswith(b"GLIBC_TUNABLES=")]
    return values[0] if values else None


@pytest.mark.parametrize(
    "command",
    [["opprof-translate", "--import-fx-json"], ["opprof-driver", "report"]],
    ids=["begun by a launcher", "begun as it is"],
)
def test_tools_are_loaded_with_huge_pages(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    arguments = [find_tool(command[0]), *command[1:], str(fifo)]
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert tunables_of(arguments, fifo) == ASKED
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0")
    assert tunables_of(arguments, fifo) == "glibc.malloc.check=0"
