"""Holds the diffs of the how-to pages against the sources: what a diff adds, and the lines round it, stand there as they are shown.

    python test/docs/check_diffs.py ROOT PAGE...

A line per fault: the page, the file, and the first line of what is not there.
"""

import re
import sys
from pathlib import Path


def faults(root: Path, page: Path) -> list[str]:
    """What a page shows of a file and the file does not have."""
    found = []
    for block in re.findall(r"^```diff\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        for part in re.split(r"^--- .*\n", block, flags=re.MULTILINE)[1:]:
            head, *hunks = re.split(r"^@@.*\n", part, flags=re.MULTILINE)
            name = head.strip().removeprefix("+++ b/")
            text = (root / name).read_text()
            for hunk in hunks:
                there = [line[1:] for line in hunk.splitlines() if not line.startswith("-")]
                if "\n".join(there) not in text:
                    found.append(f"{page}: {name} does not have: {there[0].strip()} …")
    return found


def main() -> None:
    root, *pages = map(Path, sys.argv[1:])
    found = [fault for page in pages for fault in faults(root, page)]
    print("\n".join(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
