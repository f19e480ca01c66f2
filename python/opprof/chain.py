"""What opprof-driver makes of a run folder's files: graph, partitions, launch maps, profile, reports. Needs no PyTorch."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from opprof.progress import progress
from opprof.run_folder import RunFolder, write_run
from opprof.tools import run_driver


def page_options(width: int | None = None, color: bool | None = None) -> list[str]:
    """How the driver prints a page: as wide as the terminal and in color where it is one, unless told."""
    if width is None:
        width = shutil.get_terminal_size((120, 40)).columns
    if color is None:
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return [f"--width={width}", *(["--color-page"] if color else [])]


def import_graph(source: Path, target: Path) -> None:
    """A graph in any form that opprof reads, as MLIR: text or bytecode, by the target's ending."""
    run_driver("import", source, "-o", target)


def map_run(folder: RunFolder) -> None:
    """What ranges of layers and counters of unique partitions need to know before they are taken: partitions, and launches."""
    run_driver("map", folder.path)


def attribute(folder: RunFolder, *, mapped: bool = False, shows: bool = False) -> str:
    """Makes everything that follows from the graph, the code and the timeline, and returns the report as a page if it is to show.

    `mapped` says that partitions and launch maps are there already.
    """
    options = page_options() if shows else ["--no-page"]
    if mapped:
        options.append("--mapped")
    return run_driver("profile", folder.path, *options).decode()


def profile_from_files(
    graph: Path | None,
    code: Path | None,
    trace: Path,
    output: Path,
    counters: Path | None = None,
) -> str:
    """Makes a run folder out of files that were recorded elsewhere, and returns the report as a page."""
    given = (("graph", graph), ("code", code), ("trace", trace), ("counters", counters))
    files = [f"--{key}={file}" for key, file in given if file]
    return run_driver("profile-files", output, *files, *page_options()).decode()


def report_recording(folder: RunFolder, timeline: Path, facts: dict[str, Any]) -> None:
    """The profile and reports of what `opprof.capture` recorded; launch maps and partitions are those that lie in the folder."""
    write_run(folder, facts)
    report_timeline(folder, timeline, "--mapped")
    progress(f"wrote {timeline.name}, {folder.profile.name} and reports to {folder.path}")


def report_timeline(folder: RunFolder, timeline: Path, *options: str) -> None:
    """Writes the profile of a capture or trace, and the report as text and as HTML; of kernels alone, unless `--mapped`."""
    own = [f"--process={folder.process}"] if folder.process else []
    run_driver("profile-timeline", folder.path, f"--timeline={timeline}", *own, *options)
