"""Changes the sources in one place at a time, and says which changes no test notices.

    python test/mutations.py [ID…]        builds and tests each mutation, or those named, and prints the table
    python test/mutations.py --write      and puts the table into docs/mutations.md
    python test/mutations.py --check      only whether list, sources and docs/mutations.md fit together

test/mutations.toml has the list. Everything happens in a copy of the sources under build/mutations, which keeps its own build:
the working tree never holds a mutation, however this ends. Before a mutation counts as noticed, its tests have passed on the copy
without it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "test" / "mutations.toml"
PAGE = ROOT / "docs" / "mutations.md"
COPY = ROOT / "build" / "mutations"
BUILD = COPY / "build"
RESULTS = COPY / "results.json"

HEADER = "| mutation | room | the change | noticed by |\n|---|---|---|---|\n"
#: A test that does not end notices a mutation too.
TIMEOUT_S = 900


class Fault(Exception):
    """Something that is wrong with the list, or with the sources before a mutation."""


@dataclass(frozen=True)
class Mutation:
    """One entry of the list, as its head describes it."""

    id: str
    room: str
    file: str
    change: str
    old: str
    new: str
    tests: list[str] = field(hash=False)

    def apply(self, root: Path) -> str:
        """The text of the file with the change made."""
        path = root / self.file
        if not path.is_file():
            raise Fault(f"{self.id}: there is no file {self.file}")
        text = path.read_text()
        if (found := text.count(self.old)) != 1:
            raise Fault(
                f"{self.id}: the old text is {found} times in {self.file}, and has to be there once"
            )
        return text.replace(self.old, self.new)


def read_list() -> list[Mutation]:
    mutations = [Mutation(**entry) for entry in tomllib.loads(LIST.read_text())["mutation"]]
    names = [mutation.id for mutation in mutations]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Fault(f"{LIST}: several mutations are called {', '.join(sorted(twice))}")
    return mutations


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    try:
        return subprocess.run(
            command, cwd=COPY, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"ran for more than {TIMEOUT_S} s")


# ---------------------------------------------------------------------------------------------------------------------
# The copy
# ---------------------------------------------------------------------------------------------------------------------


def copy_sources() -> None:
    """Makes the copy what the working tree is; files that are alike keep their time, so that little is built again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    wanted = {name for name in listed.decode().split("\0") if (ROOT / name).is_file()} - {""}
    for name in sorted(wanted):
        source, target = ROOT / name, COPY / name
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    for folder, folders, files in os.walk(COPY):
        if Path(folder) == COPY:
            folders.remove("build") if "build" in folders else None
        for file in files:
            path = Path(folder, file)
            if (
                str(path.relative_to(COPY)) not in wanted
                and path != RESULTS
                and "__pycache__" not in path.parts
            ):
                path.unlink()


@cache
def configure() -> None:
    """Configures the copy's build as the working tree's is."""
    cache_file = ROOT / "build" / "CMakeCache.txt"
    options = re.findall(r"^(OPPROF_\w+|CMAKE_BUILD_TYPE):\w+=(.+)$", cache_file.read_text(), re.M)
    result = run(
        "cmake",
        "-S",
        COPY,
        "-B",
        BUILD,
        "-G",
        "Ninja",
        *(f"-D{name}={value}" for name, value in options),
    )
    if result.returncode:
        raise Fault(f"the copy cannot be configured:\n{result.stderr}")


def build(targets: list[str]) -> str:
    """Builds targets, and returns what went wrong."""
    if not targets:
        return ""
    configure()
    result = run("ninja", "-C", BUILD, *targets)
    return "" if result.returncode == 0 else result.stdout[-2000:]


# ---------------------------------------------------------------------------------------------------------------------
# Tests
# ---------------------------------------------------------------------------------------------------------------------


def targets_of(test: str, file: str) -> list[str]:
    """What has to be built for a test of a change in the file. Where that is Python, the tools of the working tree serve."""
    kind, what = test.split()[:2]
    if kind == "gtest":
        return [what]
    if file.endswith(".py"):
        return []
    # Python's tests may load the capture library too.
    return (
        ["opprof-package"]
        if kind == "pytest"
        else ["opprof-opt", "opprof-translate", "opprof-driver"]
    )


def run_test(test: str, file: str) -> bool:
    """Whether the test passes on the copy."""
    kind, what, *rest = test.split()
    if kind == "gtest":
        arguments = [f"--gtest_filter={rest[0]}"] if rest else []
        result = run(BUILD / "unittests" / what, *arguments)
    elif kind == "lit":
        path = f"{BUILD / 'test'}/{what}"
        result = run("lit", "-sv", path, PATH=os.environ["PATH"] + ":/usr/lib/llvm-22/bin")
    elif kind == "pytest":
        result = run(
            *(sys.executable, "-m", "pytest", "-q", "-x", f"test/python/{what}", *rest),
            PYTHONPATH=str(COPY / "python"),
            OPPROF_TOOLS_DIR=str((ROOT / "build" if file.endswith(".py") else BUILD) / "bin"),
            PYTHONDONTWRITEBYTECODE="1",
        )
    else:
        raise Fault(
            f"{test}: a test is `gtest PROGRAM [FILTER]`, `lit PATH` or `pytest FILE [OPTIONS]`"
        )
    return result.returncode == 0


@cache
def passes_unchanged(test: str, file: str) -> bool:
    if error := build(targets_of(test, file)):
        raise Fault(f"the copy does not build without a mutation:\n{error}")
    return run_test(test, file)


def notice(mutation: Mutation) -> str | None:
    """The first test that fails with the mutation, or nothing."""
    path = COPY / mutation.file
    original, changed = path.read_text(), mutation.apply(COPY)
    for test in mutation.tests:
        if not passes_unchanged(test, mutation.file):
            raise Fault(f"{mutation.id}: `{test}` fails without the mutation")
        path.write_text(changed)
        try:
            if error := build(targets_of(test, mutation.file)):
                raise Fault(f"{mutation.id}: does not build:\n{error}")
            if not run_test(test, mutation.file):
                return test
        finally:
            path.write_text(original)
    return None


# ---------------------------------------------------------------------------------------------------------------------
# The table
# ---------------------------------------------------------------------------------------------------------------------


def row(mutation: Mutation, results: dict[str, str | None]) -> str:
    noticed = (
        "not tried"
        if mutation.id not in results
        else f"`{test}`"
        if (test := results[mutation.id])
        else "**nothing**"
    )
    return f"| {mutation.id} | {mutation.room} | {mutation.change} | {noticed} |\n"


def rows_of_page() -> dict[str, str]:
    """The rows of docs/mutations.md by their mutation."""
    table = PAGE.read_text().partition(HEADER)[2]
    lines = [line for line in table.splitlines(keepends=True) if line.startswith("| ")]
    return {line.split("|")[1].strip(): line for line in lines}


def check(mutations: list[Mutation]) -> Iterator[str]:
    """What does not fit together, a line each."""
    for mutation in mutations:
        try:
            mutation.apply(ROOT)
        except Fault as fault:
            yield str(fault)
    rows = rows_of_page()
    for mutation in mutations:
        if not rows.pop(mutation.id, "").startswith(
            row(mutation, {}).removesuffix("not tried |\n")
        ):
            yield f"{mutation.id}: docs/mutations.md has no such row, or an old one; run test/mutations.py --write"
    for name in rows:
        yield f"{name}: is in docs/mutations.md, and not in test/mutations.toml"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    mutations = read_list()
    if arguments.check:
        faults = list(check(mutations))
        print(*faults, sep="\n", end="\n" if faults else "")
        return 1 if faults else 0

    COPY.mkdir(parents=True, exist_ok=True)
    copy_sources()
    results: dict[str, str | None] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    unusable = 0
    for mutation in mutations:
        if arguments.ids and mutation.id not in arguments.ids:
            continue
        try:
            results[mutation.id] = notice(mutation)
            print(
                f"{mutation.id}: {results[mutation.id] or 'NOBODY NOTICES'}",
                file=sys.stderr,
                flush=True,
            )
        except Fault as fault:
            unusable += 1
            results.pop(mutation.id, None)
            print(fault, file=sys.stderr, flush=True)
        RESULTS.write_text(json.dumps(results, indent=1))

    known = [mutation for mutation in mutations if mutation.id in results]
    table = HEADER + "".join(row(mutation, results) for mutation in mutations)
    print(table, end="")
    survivors = [mutation.id for mutation in known if not results[mutation.id]]
    print(
        f"{len(mutations)} mutations, {len(known)} tried, {len(survivors)} that nothing notices {' '.join(survivors)}"
    )
    if arguments.write:
        head = PAGE.read_text().partition(HEADER)[0]
        PAGE.write_text(head + table)
    return 1 if survivors or unusable else 0


if __name__ == "__main__":
    sys.exit(main())
