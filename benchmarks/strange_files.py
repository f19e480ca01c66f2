"""Puts strange objects into every place where a command reads or writes a file, and looks at what becomes of it.

    python benchmarks/strange_files.py [--torch] [--only TEXT] [--workers 2]

A strange object is a pipe, a folder, a device, a socket, a link that is broken, leads to itself or to /dev/urandom, a file of a
terabyte without content, one that may not be read, one of another kind, an empty one, one whose text commands a terminal. Each
command gets them in turn in the place of each of its files, of each file of a run folder that it reads, and of each that it
writes. A file that an argument names also gets strange names (blanks, line ends, escapes, a dash in front, bytes that are no
UTF-8), and one that is written also lies in a folder where nobody may write, on a disk that is full at once, and on one that is
full soon (as root, who may mount them). Wrong is a traceback, an end by a signal, more than 60 seconds (20 of the processor),
more memory than 4 GiB, a control character on the terminal, an error of many lines, an exit status other than 0, 1 and 2, a
foreign file that is no more what it was, a whole file that is refused for its name, and what a failed command leaves. One row is
printed for each command and place; the exit status is 1 where anything was wrong. With `--torch` so are the commands that load
PyTorch.
"""

import argparse
import gzip
import os
import re
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from opprof.tools import find_tool

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "test" / "Target" / "InductorCode" / "Inputs" / "mlp_activations"
INPUTS = ROOT / "test" / "Profile" / "Inputs"

SECONDS, PROCESSOR_SECONDS, MEMORY = 60, 20, 4 << 30
#: An error says what is wrong, and in a line or two what to do.
LINES = 8
PRECIOUS = "months of somebody's work\n"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _socket(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)
    # The name of a socket is short; this one's folder has a name of its own.
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _forbidden(path: Path) -> None:
    path.write_text(PRECIOUS)
    path.chmod(0)


def _binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)


def _hostile(path: Path) -> None:
    path.write_text("\x1b]0;owned\x07 \x9b31m \u202eevil\n")


#: What may lie in the place of a file that is read.
OBJECTS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "/dev/urandom": lambda path: path.symlink_to("/dev/urandom"),
    "/dev/full": lambda path: path.symlink_to("/dev/full"),
    "broken link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "socket": _socket,
    "terabyte": _sparse,
    "forbidden": _forbidden,
    "binary": _binary,
    "escapes": _hostile,
    "text": lambda path: path.write_text(PRECIOUS),
    "empty": lambda path: path.write_text(""),
}
#: What a file may be called, but for its ending.
NAMES = {
    "blanks": " a b ",
    "line end": "a\nb",
    "terminal": "a\x1b]0;owned\x07",
    "dash": "-v",
    "no UTF-8": os.fsdecode(b"a\xff\xfe"),
    "direction": "a\u202eb",
    "shell": "a'\"$(b)`;",
    "percent": "a%s%n{0}",
}
#: Where nothing can be written, or not all of it: the size of the disk in bytes, or None for a folder that is locked.
FOLDERS = {"locked folder": None, "full disk": 4096, "small disk": 12288}
#: And where one is written.
TARGETS = ("pipe", "folder", "/dev/full", "broken link", "link to itself", "socket", "text")


@dataclass(frozen=True)
class Place:
    """A command line, and the file in it that is replaced, as a path below the command's folder."""

    command: str
    arguments: tuple[str, ...]
    place: str
    is_output: bool = False
    needs_torch: bool = False


def prepare(folder: Path) -> None:
    """The files that commands take: a run folder and what belongs to it."""
    code = folder / "code"
    shutil.copytree(RECORDED, code, ignore=shutil.ignore_patterns("export.json"))
    shutil.copy(RECORDED / "export.json", folder / "graph.json")
    shutil.copy(INPUTS / "mlp_activations.trace.json.gz", folder / "trace.json.gz")
    (folder / "rank0.opcap").write_bytes(
        gzip.decompress((INPUTS / "conv_block.opcap.gz").read_bytes())
    )
    shutil.copy(ROOT / "examples" / "mlp_activations.py", folder / "model.py")
    (folder / "program.py").write_text("print(1)\n")
    (folder / "rules").mkdir()
    for arguments in (
        [
            "profile",
            "--graph",
            "graph.json",
            "--code",
            "code",
            "--trace",
            "trace.json.gz",
            "-o",
            "run",
        ],
        ["recommend", "run", "-o", "rewrites"],
        ["emit", "rewrites", "-o", "backend.py"],
    ):
        subprocess.run(
            [sys.executable, "-m", "opprof", *arguments],
            cwd=folder,
            check=True,
            capture_output=True,
        )
    shutil.copy(folder / "run" / "profile.opprof.json", folder / "profile.json")
    shutil.copy(next((folder / "rewrites").glob("*.mlir")), folder / "rewrite.mlir")
    subprocess.run(
        [find_tool("opprof-opt"), "run/graph.mlirbc", "-o", "graph.mlir"], cwd=folder, check=True
    )
    for file in ("counters.json", "ceilings.json", "hits.json"):
        (folder / file).write_text("{}\n")


def places(folder: Path) -> list[Place]:
    """Every place that is tried."""
    found = []

    def reads(line: str, *names: str, torch: bool = False) -> None:
        words = tuple(line.split())
        for name in names:
            found.append(Place(line, words, name, needs_torch=torch))

    def writes(line: str, *names: str, torch: bool = False) -> None:
        words = tuple(line.split())
        for name in names:
            found.append(Place(line, words, name, is_output=True, needs_torch=torch))

    reads("report profile.json", "profile.json")
    reads("report trace.json.gz", "trace.json.gz")
    reads("report rank0.opcap", "rank0.opcap")
    reads("report profile.json --json", "profile.json")
    reads("report run --ceilings ceilings.json", "ceilings.json")
    reads("report profile.json trace.json.gz", "trace.json.gz")
    reads("diff profile.json trace.json.gz", "trace.json.gz")
    reads("top profile.json", "profile.json")
    reads("explain small-kernels profile.json", "profile.json")
    reads("launches code", "code", "code/output_code.py")
    reads("launches code --graph graph.json", "graph.json")
    files = "profile --graph graph.json --code code --trace trace.json.gz"
    reads(f"{files} -o out", "graph.json", "code", "trace.json.gz")
    reads(f"{files} --counters counters.json -o out", "counters.json")
    reads("merge rank0.opcap -o merged.json", "rank0.opcap")
    reads("recommend graph.mlir -o out", "graph.mlir")
    reads("recommend run --rules rules -o out", "rules", "rules/rule.mlir")
    reads("emit rewrite.mlir -o out.py", "rewrite.mlir")
    reads("emit rewrites -o out.py", "rewrites", "rewrites/rewrites.json", "rewrites/other.mlir")
    reads("emit rewrites --model model.py -o out.py", "model.py")
    reads("emit --skeleton run -o out.py", "run", "run/profile.opprof.json")
    reads("extract run --module a -o out.py", "run", "run/graph.json")
    reads("opprof-opt graph.mlir -o out.mlir", "graph.mlir")
    reads("opprof-opt graph.mlir --attach-profile=profile.json -o out.mlir", "profile.json")
    for option, name in (
        ("--import-fx-json", "graph.json"),
        ("--import-pt2", "graph.json"),
        ("--inductor-launches", "code/output_code.py"),
        ("--emit-python", "graph.mlir"),
        ("--emit-rewrite", "rewrite.mlir"),
        ("--report-text", "profile.json"),
        ("--report-html", "profile.json"),
    ):
        reads(f"opprof-translate {option} {name} -o out.x", name)
    for command in (
        "report run",
        "launches run",
        "recommend run -o out",
        "report run --html page.html",
    ):
        inner = sorted(
            str(file.relative_to(folder))
            for file in (folder / "run").rglob("*")
            if file.is_file() and not file.name.startswith(".")
        )
        reads(command, *inner, "run/ceilings.json")
    writes("report run --html page.html", "page.html")
    writes("report run --perfetto trace.json", "trace.json")
    writes("launches run", "run/graph.mlirbc")
    names = [f"out/{file.relative_to(folder / 'run')}" for file in (folder / "run").rglob("*")]
    writes(f"{files} -o out", "out", *sorted(names))
    writes("merge rank0.opcap -o merged.json", "merged.json")
    names = [f"out/{file.name}" for file in (folder / "rewrites").iterdir()]
    writes("recommend run -o out", "out", *sorted(names))
    writes("emit rewrites -o out.py", "out.py", "out_test.py", "test_out.py")
    writes("emit --skeleton run -o out.py", "out.py")
    writes("opprof-opt graph.mlir -o out.mlir", "out.mlir")
    writes("opprof-opt graph.mlir --dedup-partitions=partition-map=p.json -o out.mlir", "p.json")
    writes("opprof-translate --emit-python graph.mlir -o out.x", "out.x")
    reads("export model.py -o out.mlir", "model.py", torch=True)
    reads("profile model.py -o out", "model.py", torch=True)
    reads("optimize model.py -o out", "model.py", torch=True)
    reads("validate backend.py --model model.py", "backend.py", "model.py", torch=True)
    reads("run -o out program.py", "program.py", torch=True)
    writes("run -o out program.py", "out", "out/report.txt", "out/run.json", torch=True)
    writes("export model.py -o out.mlir", "out.mlir", torch=True)
    writes("export model.py -o g.json --weights w.safetensors", "w.safetensors", torch=True)
    writes("profile model.py -o out", "out", torch=True)
    writes("optimize model.py -o out", "out", torch=True)
    writes("ceilings --seconds 0.05 -o out.json", "out.json", torch=True)
    return found


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def is_named(place: Place) -> bool:
    """Whether an argument names the file, and not one that a folder of it holds."""
    return any(place.place == word.rpartition("=")[2] for word in place.arguments)


def renamed(place: Place, name: str) -> list[str]:
    """The command line with another name for the file."""
    return [
        word[: len(word) - len(place.place)] + name
        if word.rpartition("=")[2] == place.place
        else word
        for word in place.arguments
    ]


def run(work: Path, words: list[str], seconds: float) -> tuple[list[str], int, str]:
    """Runs a command; what is wrong with its end, the status (-1 where it was stopped), and what it said."""
    tool, *arguments = words
    line = (
        [find_tool(tool), *arguments]
        if tool.startswith("opprof-")
        else [sys.executable, "-m", "opprof", *words]
    )
    # Nobody's right to everything: root may read what is forbidden.
    if os.geteuid() == 0:
        line = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", *line]
    said_to = work.parent / "said"
    measured = work.parent / "measured"
    code = (
        "import os, resource, sys\n"
        "pid = os.fork()\n"
        "if not pid: os.execvp(sys.argv[2], sys.argv[2:])\n"
        "_, status, used = os.wait4(pid, 0)\n"
        "open(sys.argv[1], 'w').write(f'{status} {used.ru_maxrss}')\n"
    )
    with said_to.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", code, str(measured), *line],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_limit,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return [f"goes on for {seconds:g} seconds"], -1, ""
    status, memory = map(int, measured.read_text().split())
    text = said_to.read_bytes()[: 1 << 20].decode("utf-8", "replace")
    wrong = []
    if os.WIFSIGNALED(status):
        wrong.append(f"ended by signal {os.WTERMSIG(status)}")
    elif os.WEXITSTATUS(status) not in (0, 1, 2):
        wrong.append(f"exit status {os.WEXITSTATUS(status)}")
    if "Traceback (most recent call last)" in text or "PLEASE submit a bug report" in text:
        wrong.append("a traceback: " + text.strip().splitlines()[-1])
    if memory * 1024 > MEMORY:
        wrong.append(f"takes {memory >> 10} MiB")
    if CONTROL.search(text):
        wrong.append("a control character on the terminal")
    if status and len(text.splitlines()) > LINES:
        wrong.append(f"an error of {len(text.splitlines())} lines: {text.splitlines()[0]}")
    if status and not text.strip():
        wrong.append("fails without a word")
    return wrong, status, text


def attempt(files: Path, place: Place, kind: str, seconds: float) -> list[str]:
    """Runs the command with something strange in a place; what is wrong."""
    with tempfile.TemporaryDirectory(prefix="opprof-strange-") as name:
        work = Path(name) / "work"
        shutil.copytree(files, work, symlinks=True)
        target = work / place.place
        if kind in NAMES:
            return _with_name(work, place, NAMES[kind], seconds)
        if kind in FOLDERS:
            return _in_folder(work, place, FOLDERS[kind], seconds)
        _remove(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        OBJECTS[kind](target)
        before = os.lstat(target)
        wrong, status, text = run(work, list(place.arguments), seconds)
        if status == -1:
            return ["(waited for)"] if kind == "pipe" and is_named(place) else wrong
        # In a file that is called a graph it is the reader's place to say so.
        is_graph = place.place.endswith((".mlir", ".mlirbc"))
        if (
            status
            and not is_graph
            and re.search(r"custom op|expected operation name|expected SSA", text)
        ):
            wrong.append("the words of MLIR's parser: " + text.splitlines()[0])
        if place.is_output:
            wrong += _lost(target, kind, before, status)
        return wrong


def _with_name(work: Path, place: Place, name: str, seconds: float) -> list[str]:
    """A whole file, whatever it is called, is read and written."""
    target = work / place.place
    file = target.with_name(name + "".join(target.suffixes))
    if not place.is_output:
        target.rename(file)
    wrong, status, text = run(work, renamed(place, str(file.relative_to(work))), seconds)
    # What begins with a dash is an option to everybody.
    if status and not wrong and not name.startswith("-"):
        if not place.is_output:
            file.rename(target)
        if not run(work, list(place.arguments), seconds)[1]:
            wrong.append("fails for its name: " + text.strip().splitlines()[-1])
    return wrong


def _in_folder(work: Path, place: Place, size: int | None, seconds: float) -> list[str]:
    """Where a result can't be written the command says so, and leaves nothing."""
    away = work / "away"
    away.mkdir()
    if size is None:
        away.chmod(0o555)
    else:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(away)]
        subprocess.run(mount, check=True)
    try:
        words = renamed(place, f"away/{Path(place.place).name}")
        wrong, status, text = run(work, words, seconds)
        left = sorted(file.relative_to(away) for file in away.rglob("*") if file.is_file())
    finally:
        if size is None:
            away.chmod(0o755)
        else:
            subprocess.run(["umount", str(away)], check=True)
    # A folder of results may hold some of them, each whole; what is hidden is no result.
    lost = [file for file in left if len(file.parts) == 1 or file.name.startswith(".")]
    if status and lost:
        wrong.append(f"failed, and left {', '.join(map(str, lost[:4]))}")
    if status and "away" not in text:
        wrong.append("does not say where: " + text.strip().splitlines()[-1])
    if not status and not left:
        wrong.append("succeeded, and left nothing")
    return wrong


def _lost(target: Path, kind: str, before: os.stat_result, status: int) -> list[str]:
    """What became of an object where a result was to be written."""
    if kind in ("broken link", "link to itself"):
        return []
    if not os.path.lexists(target):
        return [f"the {kind} is gone"]
    after = os.lstat(target)
    if stat.S_IFMT(after.st_mode) != stat.S_IFMT(before.st_mode):
        return [f"the {kind} is replaced"]
    if kind == "text" and status and target.read_text() != PRECIOUS:
        return ["somebody's file is lost, and the command failed"]
    if kind == "text" and not status and target.read_bytes() != PRECIOUS.encode():
        return ["(replaced)"]
    return []


def main() -> int:
    """Tries every place; prints a row for each, and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", action="store_true", help="with what loads PyTorch")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this in them")
    parser.add_argument("--kinds", nargs="+", help="what is put there (all)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="what a command may take")
    parser.add_argument("--workers", type=int, default=2, help="commands at a time")
    options = parser.parse_args()
    tried = failed = 0
    with tempfile.TemporaryDirectory(prefix="opprof-strange-") as name:
        files = Path(name) / "files"
        files.mkdir()
        prepare(files)
        with ThreadPoolExecutor(options.workers) as pool:
            rows = []
            for place in places(files):
                row = f"{place.command}: {place.place}{', written' if place.is_output else ''}"
                if options.only not in row or (place.needs_torch and not options.torch):
                    continue
                kinds = [*(TARGETS if place.is_output else OBJECTS)]
                if is_named(place):
                    kinds += NAMES
                if is_named(place) and place.is_output:
                    kinds += [k for k, size in FOLDERS.items() if size is None or not os.geteuid()]
                tries = {
                    k: pool.submit(attempt, files, place, k, options.seconds)
                    for k in kinds
                    if not options.kinds or k in options.kinds
                }
                rows.append((row, tries))
            for row, attempts in rows:
                wrong = {kind: result.result() for kind, result in attempts.items()}
                tried += len(wrong)
                count = sum(any(not w.startswith("(") for w in said) for said in wrong.values())
                failed += count
                print(f"{row}: {len(wrong)} tried, {count} wrong", flush=True)
                for kind, said in wrong.items():
                    print(*(f"    {kind}: {w}\n" for w in said), sep="", end="", flush=True)
    print(f"{tried} tried, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
