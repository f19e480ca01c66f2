"""Whether the native tools ask for huge pages, which glibc takes when a program is loaded, and what they begin does without."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from driver_runs import stand_in

from opprof.tools import find_tool

ASKED = "glibc.malloc.hugetlb=1"


def tunables_of(arguments: list[str], fifo: Path) -> str | None:
    """With which tunables a tool was loaded that waits for what it reads."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # As soon as the tool reads, which is after it was loaded for the last time, a writer may open it.
        writer = None
        while writer is None and process.poll() is None:
            try:
                writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(0.01)
        assert writer is not None, f"{arguments} ended"
        environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        os.close(writer)
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


def test_what_a_tool_begins_is_not_asked_for_huge_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    seen = tmp_path / "seen"
    stand_in(tmp_path / "bin" / "nsys", f"/usr/bin/env > {seen}; exit 1", monkeypatch)
    (tmp_path / "r.nsys-rep").write_bytes(b"anything")
    arguments = [find_tool("opprof-driver"), "report", str(tmp_path / "r.nsys-rep")]
    assert subprocess.run(arguments, capture_output=True, check=False).returncode == 1
    assert "PATH=" in seen.read_text() and "GLIBC_TUNABLES" not in seen.read_text()
