"""`opprof run`: captures the timeline of a program that knows nothing of opprof. Needs no PyTorch of its own."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from opprof.capture_library import CaptureError, Library, find_library
from opprof.errors import OpprofError
from opprof.files import replacing
from opprof.progress import progress

#: A trace is JSON, and several times as large as the capture that it is made of.
LARGEST_TRACED = 1 << 30

# Runs a script as Python would, under torch.profiler; the script's own exit status is kept.
_ON_CPU = """
import os, runpy, sys
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
import torch
target = os.environ.pop("OPPROF_CPU_TRACE")
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True)
profiler.start()
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    profiler.stop()
    partial = target.removesuffix(".json.gz") + ".partial.json.gz"
    profiler.export_chrome_trace(partial)
    os.replace(partial, target)
"""


def run_program(
    command: Sequence[str], output: Path, *, delay: float = 0.0, duration: float = 0.0
) -> int:
    """Runs a program to its end with every process of it captured; returns its exit status."""
    command = list(command)
    if command and command[0] == "--":
        del command[0]
    if not command:
        raise OpprofError("nothing to run", remedy="opprof run -o run/ script.py arguments …")
    script = command[0].endswith(".py")
    if script and not Path(command[0]).is_file():
        raise OpprofError(f"{command[0]}: no such file")
    if not script and shutil.which(command[0]) is None:
        raise OpprofError(f"{command[0]}: no such program")
    output.mkdir(parents=True, exist_ok=True)
    reason = _no_gpu()
    if reason is None:
        return _captured([sys.executable, *command] if script else command, output, delay, duration)
    if not script:
        raise OpprofError(f"{command[0]} cannot be captured: {reason}")
    progress(f"{reason}; running {command[0]} under torch.profiler on the CPU")
    trace = output / "trace.json.gz"
    environment = {**os.environ, "OPPROF_CPU_TRACE": str(trace)}
    status = _run([sys.executable, "-c", _ON_CPU, *command], environment)
    if trace.is_file():
        progress(f"wrote {trace}")
    return status


def _no_gpu() -> str | None:
    """Why nothing could be captured here, or None."""
    try:
        info = Library.get().info()
    except CaptureError as error:
        return str(error)
    if "no_driver" in info:
        return info["no_driver"]
    return None if info.get("devices") else "the driver shows no GPU"


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Runs a program to its end. Signals are the program's to answer: its exit writes the rest of the capture."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise OpprofError(f"{command[0]} cannot be run: {error}") from error

    def forward(number: int, frame: object) -> None:
        process.send_signal(number)

    before = {
        # The terminal sends Ctrl-C to the program as well.
        signal.SIGINT: signal.signal(signal.SIGINT, lambda number, frame: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, forward),
        signal.SIGHUP: signal.signal(signal.SIGHUP, forward),
    }
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _captured(command: Sequence[str], output: Path, delay: float, duration: float) -> int:
    library = Library.get()
    environment = {
        **os.environ,
        "CUDA_INJECTION64_PATH": find_library(),
        # NVTX asks for its tool at its first range; the library leads it to the CUPTI that the program uses.
        "NVTX_INJECTION64_PATH": find_library(),
        # A program that brings no CUPTI is lent this one.
        "OPPROF_CUPTI_DEFAULT": library.info()["cupti"],
        "OPPROF_CAPTURE_FILE": str(output.resolve() / "capture-r%r-p%p.opcap"),
        "OPPROF_CAPTURE_DELAY": str(delay),
        "OPPROF_CAPTURE_DURATION": str(duration),
    }
    before = {file: file.stat().st_mtime_ns for file in output.glob("capture-*.opcap")}
    status = _run(command, environment)
    captures = sorted(
        file
        for file in output.glob("capture-*.opcap")
        if before.get(file) != file.stat().st_mtime_ns
    )
    if not captures:
        progress("no process of the program used CUDA: nothing was captured")
    for capture in captures:
        summary = library.summarize(str(capture))
        if not re.search(r"^(kernels|mem\w+|api calls|markers): ", summary, re.MULTILINE):
            capture.unlink()
            process = capture.stem.rpartition("-p")[2]
            progress(f"process {process} put nothing on a device: its empty capture is removed")
            continue
        if capture.stat().st_size > LARGEST_TRACED:
            progress(
                f"wrote {capture}; it is larger than {LARGEST_TRACED >> 20} MiB, and no trace is made of it: "
                "--delay and --duration record less"
            )
        else:
            trace = capture.with_suffix(".trace.json")
            library.export_trace(str(capture), str(trace))
            progress(f"wrote {capture} and {trace.name}")
        with replacing(capture.with_suffix(".txt")) as file:
            file.write(summary)
    if status < 0:
        progress(f"the program was ended by signal {-status}; what it did until then is kept")
        return 128 - status
    return status
