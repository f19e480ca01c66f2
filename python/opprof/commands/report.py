"""`opprof report`: shows a profile. Needs no PyTorch."""

import os
import shutil
import sys
from pathlib import Path

from opprof.errors import OpprofError
from opprof.run_folder import RunFolder
from opprof.tools import run_tool


def profile_file(path: Path) -> Path:
    """The profile that a run folder, or the path itself, stands for."""
    file = RunFolder(path).profile if path.is_dir() else path
    if not file.is_file() and path.is_dir():
        several = sorted(path.glob("profile-*.opprof.json"))
        if len(several) == 1:
            return several[0]
        if several:
            raise OpprofError(
                f"{path}: holds the profiles of {len(several)} processes",
                remedy=f"give one of them: opprof report {several[0]}",
            )
    if not file.is_file():
        raise OpprofError(
            f"{file}: no such file",
            remedy="`opprof profile model.py -o run/` and `opprof run -o run/ script.py` make a run folder",
        )
    return file


def report_text(path: Path, *, width: int | None = None, color: bool | None = None) -> str:
    """The terminal page, as wide as the terminal and in color where it is one, unless told."""
    if width is None:
        width = shutil.get_terminal_size((120, 40)).columns
    if color is None:
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    arguments: list[str | Path] = ["--report-text", f"--width={width}"]
    if color:
        arguments.append("--color")
    return run_tool("opprof-translate", [*arguments, profile_file(path)]).decode()


def report_html(path: Path, target: Path) -> None:
    """Writes the self-contained page."""
    run_tool("opprof-translate", ["--report-html", profile_file(path)], output=target)
