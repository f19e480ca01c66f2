"""`opprof report`: shows profiles, and recordings of any kind. Needs no PyTorch."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from opprof.chain import page_options
from opprof.files import check_mark
from opprof.tools import run_driver


def _show(
    paths: Path | Sequence[Path],
    ceilings: Path | None,
    *options: str,
    output: IO[bytes] | None = None,
) -> bytes:
    own = [] if ceilings is None else [f"--ceilings={ceilings}"]
    first, *others = [paths] if isinstance(paths, Path) else paths
    return run_driver("report", first, *own, *options, others=others, output=output)


def report_text(
    paths: Path | Sequence[Path],
    *,
    width: int | None = None,
    color: bool | None = None,
    ceilings: Path | None = None,
) -> str:
    """The terminal page of run folders, profiles, captures or traces, as wide as the terminal and in color where it is one, unless told.

    `ceilings` is a file of `opprof ceilings` that kernels are held against; else what lies in a run folder is, or the table.
    """
    return _show(paths, ceilings, *page_options(width, color)).decode()


def report_json(paths: Path | Sequence[Path], *, ceilings: Path | None = None) -> str:
    """The profile of a run folder as its file has it, or that of a recording; of several a list."""
    return _show(paths, ceilings, "--json").decode()


def print_json(
    paths: Path | Sequence[Path], output: IO[bytes], *, ceilings: Path | None = None
) -> None:
    """Writes what `report_json` returns while it is made: of a long recording it is large."""
    _show(paths, ceilings, "--json", output=output)


#: What the two files of a report begin with.
_HTML_BEGINS, _PERFETTO_BEGINS = "<!doctype html>", '{"displayTimeUnit": "ns"'


def check_report_file(path: Path, option: str, *, is_page: bool = False) -> None:
    """Refuses to replace what is no page or trace of a report's: in `--html rank0.json rank1.json` the option takes the first recording."""
    # A device and a pipe are written to, as what stands for the terminal is, and a link gives way.
    if str(path) != "-" and path.is_file() and not path.is_symlink():
        check_mark(
            path,
            _HTML_BEGINS if is_page else _PERFETTO_BEGINS,
            at_beginning=True,
            remedy=f"{option} is followed by the file to write: give it another name, or take that one away",
        )


def report_html(paths: Path | Sequence[Path], target: Path, *, ceilings: Path | None = None) -> str:
    """Writes the self-contained page; to `-`, it is what is returned."""
    return _show(paths, ceilings, f"--html={target}").decode()


def report_perfetto(paths: Path | Sequence[Path], target: Path | IO[bytes]) -> None:
    """Writes a trace for Perfetto of one recording, or of several on one clock, to a file or a stream.

    Of a long recording it is larger than what is read for it, so it is never in memory as a whole.
    """
    if isinstance(target, Path):
        _show(paths, None, f"--perfetto={target}")
    else:
        _show(paths, None, "--perfetto=-", output=target)
