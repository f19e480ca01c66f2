"""Holds the house style of file heads and header guards, which no formatter knows; docs/architecture.md says why it is so.

    python test/structure/style.py ROOT

A C++ or TableGen file opens with what it is for: `// ` lines, the last of which ends a sentence, and an empty line. A Python file
opens with its docstring; what tests only read, and templates of Python that is emitted, may open as they like. A header's guard
is its path, from the root or from include/. A line per fault: file:line and what is wrong.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath


def guard_of(file: PurePath) -> str:
    """The include guard of a header: OPPROF_ROOM_NAME_H, OPPROF_LIB_ROOM_NAME_H for those of lib."""
    parts = file.parts[2:] if file.parts[:2] == ("include", "opprof") else file.parts
    return "OPPROF_" + re.sub(r"\W", "_", "/".join(parts)).upper()


def check_head(text: str) -> Iterator[tuple[int, str]]:
    head = re.match(r"(?://[^\n]*\n)*", text)
    assert head
    lines = head[0].splitlines()
    if not lines or not re.match(r"// \S", lines[0]) or lines[0].startswith("//="):
        yield 1, "the file does not open with a line of what it is for: `// What it is for.`"
    elif lines[0].startswith("//="):
        yield 1, "heads have no frame: `// What it is for.`"
    elif not re.search(r"[.:)]$", lines[-1]):
        yield len(lines), "the head does not end with a full stop"
    elif text[head.end() : head.end() + 1] != "\n":
        yield len(lines) + 1, "an empty line belongs behind the head"


def check_guard(file: PurePath, text: str) -> Iterator[tuple[int, str]]:
    guard = guard_of(file)
    if f"\n#ifndef {guard}\n#define {guard}\n" not in text:
        yield 1, f"the guard is not {guard}"
    if not text.endswith(f"\n#endif // {guard}\n"):
        yield text.count("\n"), f"the last line is not `#endif // {guard}`"


def check(root: Path, file: PurePath) -> Iterator[tuple[int, str]]:
    """Line and fault of each thing that is wrong with the file."""
    text = (root / file).read_text()
    if file.suffix == ".py":
        if text and not file.stem.endswith("template") and not ast.get_docstring(ast.parse(text)):
            yield 1, "the file does not open with a docstring of what it is for"
        return
    yield from check_head(text)
    if file.suffix == ".h":
        yield from check_guard(file, text)


def main() -> int:
    root = Path(sys.argv[1])
    listed = subprocess.run(
        [
            "git",
            "-C",
            root,
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "*.h",
            "*.cpp",
            "*.td",
            "*.py",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    faults = [
        f"{name}:{line}: {fault}"
        for name in listed
        if (root / name).is_file() and not {"Inputs", "corpus"} & set(PurePath(name).parts)
        for line, fault in check(root, PurePath(name))
    ]
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
