"""Prints how many objects of a build are built again when a header changes, and their share of the time that compiling takes.

    python benchmarks/rebuilt.py [--build build] include/opprof/Dialect/FX/IR/FX.h

Which objects include the header is what ninja knows of the last build; times are those of .ninja_log, of the last time that each object
was built. Build all of it on an idle machine without a compiler cache before (CCACHE_DISABLE=1).
"""

import argparse
import subprocess
from pathlib import Path


def dependencies(build: Path) -> dict[str, set[str]]:
    """The objects of the build, and the files that each was made of, as absolute paths."""
    listing = subprocess.run(
        ["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True
    ).stdout
    objects: dict[str, set[str]] = {}
    files: set[str] = set()
    for line in listing.splitlines():
        if line.startswith(" "):
            files.add(str((build / line.strip()).resolve()))
        elif line.partition(":")[0].endswith(".o"):
            files = objects.setdefault(line.partition(":")[0], set())
    return objects


def seconds(build: Path) -> dict[str, float]:
    """How long each file of the build took to make."""
    lines = [line.split("\t") for line in (build / ".ninja_log").read_text().splitlines()[1:]]
    return {output: (int(end) - int(start)) / 1000 for start, end, _, output, _ in lines}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("header", type=Path)
    parser.add_argument("--build", type=Path, default=Path("build"))
    arguments = parser.parse_args()
    objects, taken = dependencies(arguments.build), seconds(arguments.build)
    rebuilt = [name for name, files in objects.items() if str(arguments.header.resolve()) in files]
    time, total = (sum(taken.get(name, 0) for name in names) for names in (rebuilt, objects))
    print(
        f"{len(rebuilt)} of {len(objects)} objects, {time:.0f} of {total:.0f} s of compiling ({100 * time / total:.0f} %)"
    )


if __name__ == "__main__":
    main()
