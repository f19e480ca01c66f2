"""Sums up what test.sh ran: reads the result files in a folder, prints a line for each kind of test and one for all of them."""

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path


def test_cases(files: list[Path]) -> Iterator[bool | None]:
    """Whether each test case of JUnit files passed; None for one that was skipped."""
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):
            if case.find("skipped") is not None or case.get("status") == "notrun":
                yield None
            else:
                yield case.find("failure") is None and case.find("error") is None


def main() -> int:
    folder = Path(sys.argv[1])
    lines = (folder / "checks").read_text().splitlines()
    # A runner that fails without a failed case (no test found, a crash) counts as one failed test.
    suites = {
        "checks": [line.endswith(" passed") for line in lines],
        "gtest": list(test_cases(sorted((folder / "gtest").glob("*.xml")))),
        "lit": list(test_cases(list(folder.glob("lit.xml")))),
        "pytest": list(test_cases(list(folder.glob("pytest.xml")))),
    }
    print()
    passed = failed = 0
    for name, results in suites.items():
        if not results:
            print(f"{name}: no result")
            failed += 1
        counts = [results.count(True), results.count(False), results.count(None)]
        passed, failed = passed + counts[0], failed + counts[1]
        print(f"{name}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
    for line in lines:
        if not line.endswith(" passed"):
            print(line)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
