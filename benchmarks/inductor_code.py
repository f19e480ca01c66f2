"""How fast Inductor's generated code is read, beside Python's own tokenizer and parser in the same run.

    python benchmarks/inductor_code.py OUTPUT_CODE.py [--megabytes 100]

Times `opprof-translate --inductor-launches` on the file as it is and on a concatenation of it (one wrapper with its kernel definitions
repeated up to the size asked for; the calls stand once), `tokenize` and `ast.parse` on the same texts. Best of three; a process each for
opprof, start-up included. Its memory is the most that the process had; its user time, which other processes lengthen less than what a
clock shows, the least of nine (three of the large text).
"""

import argparse
import ast
import io
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Callable
from pathlib import Path


def best(run: Callable[[], object], times: int = 3) -> float:
    measured = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        measured.append(time.perf_counter() - start)
    return min(measured)


def command(path: Path) -> list[str]:
    return ["opprof-translate", "--inductor-launches", str(path), "-o", "/dev/null"]


def opprof(path: Path) -> None:
    subprocess.run(command(path), check=True)


#: A process counts what its parent had when it was forked: a small one starts it.
_LAUNCHER = """import os, sys
pid = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
used = os.wait4(pid, 0)[2]
print(used.ru_maxrss, used.ru_utime, used.ru_stime)
"""


def usage(path: Path) -> tuple[float, float, float]:
    """How many bytes mapping a file took at most, and its seconds of user and system time."""
    small = [sys.executable, "-S", "-c", _LAUNCHER, *command(path)]
    done = subprocess.run(small, check=True, capture_output=True, text=True)
    memory, user, system = map(float, done.stdout.split())
    return 1024 * memory, user, system


def python_tokens(text: str) -> int:
    return sum(1 for _ in tokenize.generate_tokens(io.StringIO(text).readline))


def enlarge(text: str, size: int) -> str:
    """Repeats the kernel definitions, each time under names of their own, until the text has `size` bytes."""
    head, body = text.split("async_compile.wait(", 1)
    start = head.index("# kernel path:")
    kernels = head[start:]
    parts = [head]
    length = len(head) + len(body)
    copy = 0
    while length < size:
        copy += 1
        parts.append(kernels.replace(" = async_compile.", f"_copy{copy} = async_compile."))
        length += len(parts[-1])
    return "".join(parts) + "async_compile.wait(" + body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("code", type=Path)
    parser.add_argument("--megabytes", type=int, default=100)
    options = parser.parse_args()
    small = options.code.read_text()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output_code.py"
        large = enlarge(small, options.megabytes * 1_000_000)
        path.write_text(large)
        print("| text | MB | opprof, s | user, s | MB/s | memory | tokenize, s | ast.parse, s |")
        print("|---|---|---|---|---|---|---|---|")
        for name, text, file in (
            ("as it is", small, options.code),
            ("enlarged", large, path),
        ):
            times = 3 if text is small else 1
            size = len(text.encode()) / 1e6
            ours = best(lambda file=file: opprof(file), 3)
            used = [usage(file) for _ in range(3 * times)]
            most, user = max(u[0] for u in used) / 1e6, min(u[1] for u in used)
            row = [
                best(lambda text=text: python_tokens(text), times),
                best(lambda text=text: ast.parse(text), times),
            ]
            print(
                f"| {name} | {size:.1f} | {ours:.3f} | {user:.3f} | {size / ours:.0f} | {most:.0f} MB | "
                + " | ".join(f"{t:.3f}" for t in row)
                + " |"
            )


if __name__ == "__main__":
    main()
