"""Runs every ```mlir block of the given Markdown pages through opprof-opt: examples in documents must parse and verify.

Usage: check_examples.py PAGE.md…
"""

import re
import subprocess
import sys
from pathlib import Path


def main() -> int:
    checked = failed = 0
    for page in sys.argv[1:]:
        text = Path(page).read_text()
        for block in re.finditer(r"^( *)```mlir\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 1
            result = subprocess.run(
                ["opprof-opt", "--verify-roundtrip", "-o", "/dev/null"],
                input=block.group(2),
                capture_output=True,
                text=True,
            )
            checked += 1
            if result.returncode:
                failed += 1
                print(f"{page}:{line}: the example does not parse:\n{result.stderr}")
    print(f"{checked} examples, {failed} failed")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
