"""Runs clang-tidy over the sources of a build, and fails where it finds anything.

A file whose text, headers, command and configuration are what they were when clang-tidy last found nothing in it is not
read again: most of the time goes into MLIR's headers. What most files include of them is read once, where several files
include it. Which headers a file includes is in ninja's log of dependencies, so run this after a build; a file that was
never built is always read.

Usage: clang_tidy.py BUILD [FILE…]
"""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

TIDY = "clang-tidy-22"
CLANG = "clang++-22"
# The headers of MLIR's that most files of those that include its IR include.
SHARED_HEADERS = (
    "mlir/Bytecode/BytecodeImplementation.h",
    "mlir/IR/Builders.h",
    "mlir/IR/BuiltinOps.h",
    "mlir/IR/OpImplementation.h",
    "mlir/IR/PatternMatch.h",
    "mlir/IR/SymbolTable.h",
    "mlir/Interfaces/DataLayoutInterfaces.h",
    "mlir/Interfaces/FunctionInterfaces.h",
    "mlir/Interfaces/SideEffectInterfaces.h",
)
# What says that a file includes them.
IR_HEADER = "/mlir/IR/BuiltinOps.h"
# Reading the headers takes as long as they take in two files.
FEWEST_TO_SHARE = 3
SOURCES = Path(__file__).resolve().parents[1]


def dependencies(build: Path) -> dict[str, list[str]]:
    """The files that each object of the build was made of, absolute."""
    listed = subprocess.run(
        ["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, list[str]] = {}
    files: list[str] = []
    for line in listed.splitlines():
        if line.startswith("    "):
            files.append(os.path.join(build, line.strip()))
        elif match := re.match(r"(\S+): #deps .*\(VALID\)", line):
            files = found[os.path.join(build, match[1])] = []
    return found


@cache
def digest(file: str) -> bytes:
    return hashlib.sha256(Path(file).read_bytes()).digest()


@cache
def version() -> bytes:
    return subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout


def key(entry: dict[str, Any], files: list[str]) -> str:
    """Names all that a result depends on."""
    text = hashlib.sha256(version())
    text.update(entry["command"].encode())
    configurations = [folder / ".clang-tidy" for folder in Path(entry["file"]).parents]
    for file in [*sorted(files), *(str(file) for file in configurations if file.is_file())]:
        text.update(file.encode() + b"\0" + digest(file))
    return text.hexdigest()


def precompile(entry: dict[str, Any], folder: Path) -> list[str]:
    """Has clang read the shared headers as a file of the build does; returns what tells clang-tidy to take them from there."""
    header, output = str(folder / "shared.h"), str(folder / "shared.pch")
    Path(header).write_text("".join(f'#include "{name}"\n' for name in SHARED_HEADERS))
    words = iter(shlex.split(entry["command"])[1:])
    flags: list[str] = []
    for word in words:
        if word in ("-isystem", "-include"):
            flags += [word, next(words)]
        elif word in ("-o", "-c"):
            next(words)
        elif re.match(r"-(?!W|I)", word):
            flags.append(word)
    triple = subprocess.run(
        [CLANG, "-print-target-triple"], capture_output=True, text=True, check=True
    ).stdout.strip()
    # clang-tidy goes by the name of the build's compiler; and libraries are -fPIC, programs -fPIE, which have to agree.
    agreed = [f"--target={triple}", "-fPIC"]
    flags += ["-fpch-instantiate-templates", "-x", "c++-header", header, "-o", output]
    subprocess.run([CLANG, *flags, *agreed], check=True)
    return [f"--extra-arg={word}" for word in (*agreed, "-include-pch", output)]


def findings(build: Path, file: str, arguments: list[str]) -> Iterator[str]:
    """What clang-tidy says about a file: each finding with the lines that belong to it."""
    result = subprocess.run(
        [TIDY, "-p", build, "--quiet", *arguments, file], capture_output=True, text=True
    )
    found = [
        part
        for part in re.split(r"^(?=\S+:\d+:\d+: (?:error|warning):)", result.stdout, flags=re.M)
        if part.strip()
    ]
    yield from found
    if result.returncode and not found:
        yield f"{file}: clang-tidy failed:\n{result.stderr}"


def main() -> int:
    started = time.monotonic()
    build = Path(sys.argv[1]).resolve()
    wanted = {str(Path(file).resolve()) for file in sys.argv[2:]}
    kept = build / "clang-tidy"
    kept.mkdir(exist_ok=True)
    objects = dependencies(build)
    entries = {
        entry["file"]: entry
        for entry in json.loads((build / "compile_commands.json").read_text())
        if Path(entry["file"]).is_relative_to(SOURCES) and (not wanted or entry["file"] in wanted)
    }
    clean: dict[str, Path] = {}
    for file, entry in entries.items():
        files = objects.get(os.path.join(build, entry["output"]), [])
        # What was built before a header moved is as good as never built.
        if files and all(map(os.path.exists, files)):
            clean[file] = kept / key(entry, files)
    unknown = [file for file in entries if file not in clean or not clean[file].exists()]

    of_ir = {
        file
        for file in unknown
        if any(
            header.endswith(IR_HEADER)
            for header in objects.get(os.path.join(build, entries[file]["output"]), [])
        )
    }

    seen: set[str] = set()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        shared: list[str] = []
        if len(of_ir) >= FEWEST_TO_SHARE:
            shared = precompile(entries[min(of_ir)], Path(folder))
        results = pool.map(
            lambda file: list(findings(build, file, shared if file in of_ir else [])), unknown
        )
        for file, parts in zip(unknown, results, strict=True):
            for part in parts:
                # A header's are found in every file that includes it.
                if part not in seen:
                    seen.add(part)
                    print(part.rstrip(), flush=True)
            if not parts and file in clean:
                clean[file].touch()
    if not wanted:
        for old in set(kept.iterdir()) - set(clean.values()):
            old.unlink()
    seconds = time.monotonic() - started
    print(
        f"{len(entries)} files, {len(unknown)} of them read in {seconds:.0f} s: {len(seen)} findings"
    )
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
