"""Holds the rooms of the sources: a room includes only what its row in docs/architecture.md names, and there is no cycle.

    python test/structure/rooms.py ROOT

A room is a folder of include/opprof with its mirror in lib. The table of the document is what is checked against, so that it can't
say something else than the sources. A line per fault: file:line, what it includes, and the room that may not.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

#: Where the table of rooms begins in docs/architecture.md.
HEADING = "| room |"


def read_table(document: Path) -> dict[str, list[str]]:
    """The rooms, and for each those that it may include; a name stands for the rooms below it too."""
    lines = document.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(HEADING))
    rooms: dict[str, list[str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        allowed = re.findall(r"`([^`]+)`", cells[2])
        for room in re.findall(r"`([^`]+)`", cells[0]):
            rooms[room] = allowed
    return rooms


def room_of(folder: str, rooms: dict[str, list[str]]) -> str | None:
    """The innermost room that the folder lies in."""
    parts = folder.split("/")
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in rooms:
            return name
    return None


def includes(root: Path) -> Iterator[tuple[Path, int, str, str]]:
    """File, line, the folder that the file lies in, and the folder that it includes from."""
    for top in (root / "include" / "opprof", root / "lib"):
        for file in sorted(top.rglob("*")):
            if file.suffix not in (".h", ".cpp", ".td"):
                continue
            folder = file.parent.relative_to(top).as_posix()
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if found := re.match(r'\s*#?include "opprof/([^"]+)/[^"/]+"', line):
                    yield file.relative_to(root), number, folder, found[1]


def find_cycle(edges: dict[str, set[str]]) -> list[str] | None:
    """A cycle among the rooms, or None."""
    done: set[str] = set()
    path: list[str] = []

    def visit(room: str) -> list[str] | None:
        if room in path:
            return [*path[path.index(room) :], room]
        if room in done:
            return None
        path.append(room)
        for other in sorted(edges.get(room, ())):
            if cycle := visit(other):
                return cycle
        path.pop()
        done.add(room)
        return None

    for room in sorted(edges):
        if cycle := visit(room):
            return cycle
    return None


def main() -> int:
    root = Path(sys.argv[1])
    rooms = read_table(root / "docs" / "architecture.md")
    faults: list[str] = []
    edges: dict[str, set[str]] = {}
    for file, line, folder, target in includes(root):
        own, other = room_of(folder, rooms), room_of(target, rooms)
        for room, place in ((own, folder), (other, target)):
            if room is None:
                faults.append(f"{file}:{line}: {place} is no room of docs/architecture.md")
        if own is None or other is None or own == other:
            continue
        edges.setdefault(own, set()).add(other)
        if not any(other == name or other.startswith(name + "/") for name in rooms[own]):
            faults.append(f"{file}:{line}: includes {target}, which {own} may not")
    for room in rooms:
        if not any((root / top / room).is_dir() for top in ("include/opprof", "lib")):
            faults.append(f"docs/architecture.md: there is no folder of the room {room}")
    if cycle := find_cycle(edges):
        faults.append(f"cycle: {' -> '.join(cycle)}")
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
