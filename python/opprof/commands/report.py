"""`opprof report`: shows a profile. Needs no PyTorch."""

from pathlib import Path

from opprof.chain import page_options
from opprof.tools import run_driver


def report_text(path: Path, *, width: int | None = None, color: bool | None = None) -> str:
    """The terminal page of a run folder or profile, as wide as the terminal and in color where it is one, unless told."""
    return run_driver("report", path, *page_options(width, color)).decode()


def report_json(path: Path) -> str:
    """The profile of a run folder as its file has it."""
    return run_driver("report", path, "--json").decode()


def report_html(path: Path, target: Path) -> str:
    """Writes the self-contained page; to `-`, it is what is returned."""
    return run_driver("report", path, f"--html={target}").decode()
