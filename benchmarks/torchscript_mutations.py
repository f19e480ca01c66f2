"""Changes TorchScript archives in thousands of ways, and counts how reading each one ends.

    python benchmarks/torchscript_mutations.py MODEL.pt… [--count 10000] [--tools build/bin] [--seed 1] [--sandbox] [--keep DIR]

A change is of bytes anywhere in the file, of its length, or of the content of one of its files: of code and pickles, with the checksums made
right again, so that LibTorch gets to see it. Each way to end is counted: a graph; a refusal before LibTorch; an error of LibTorch's, its crash, or a limit,
all contained and reported. Whatever else happens, such as a signal that ends the tool, an exit status that it does not have, or an output left behind
by one that failed, is a fault: it is printed, kept in DIR, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import collections
import io
import random
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WORDS = [
    b"torch.",
    b"ops.aten.",
    b"self",
    b"[0]",
    b"-1",
    b"9223372036854775807",
    b"None",
    b"while True:\n",
    b"Tensor",
    b"(",
    b")",
]


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, a piece taken out, doubled or put elsewhere, or a word put in."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if not content:
            return bytes(content)
        place, size = rng.randrange(len(content)), rng.choice((1, 2, 4, 16, 64))
        piece = content[place : place + size]
        match rng.randrange(6):
            case 0:
                content[place] ^= 1 << rng.randrange(8)
            case 1:
                content[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del content[place : place + size]
            case 3:
                content[place:place] = piece
            case 4:
                other = rng.randrange(len(content))
                content[other : other + len(piece)] = piece
            case _:
                content[place:place] = rng.choice(WORDS)
    return bytes(content)


def change_file(archive: bytes, rng: random.Random) -> bytes:
    """One file of the archive changed, left out, or exchanged with another."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        entries = [(entry.filename, source.read(entry)) for entry in source.infolist()]
    texts = [
        i for i, (name, _) in enumerate(entries) if not name.rpartition("/")[0].endswith("/data")
    ]
    chosen = rng.choice(texts if rng.random() < 0.9 else range(len(entries)))
    name, content = entries[chosen]
    match rng.randrange(10):
        case 0:
            del entries[chosen]
        case 1:
            other = rng.choice(texts)
            entries[chosen], entries[other] = (
                (name, entries[other][1]),
                (entries[other][0], content),
            )
        case _:
            entries[chosen] = (name, change_bytes(content, rng))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as sink:
        for entry_name, entry_content in entries:
            sink.writestr(entry_name, entry_content)
    return buffer.getvalue()


def mutate(archive: bytes, rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.1:
        return archive[: rng.randrange(len(archive))]
    return change_bytes(archive, rng) if kind < 0.3 else change_file(archive, rng)


def classify(status: int, said: str, has_output: bool) -> str:
    """How it ended; a fault begins with FAULT."""
    if status == 0:
        return "graph" if has_output else "FAULT: no output"
    if has_output:
        return "FAULT: an output of one that failed"
    if status != 1 or not said.startswith("opprof-torchscript: error: "):
        return f"FAULT: exit status {status}"
    if "LibTorch ended with signal" in said:
        return "contained crash of LibTorch"
    if "more than the limit" in said or "memory" in said:
        return "limit"
    return "error of LibTorch" if "LibTorch" in said else "refused"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--tools", type=Path, default=Path("build/bin"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sandbox", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    originals = [path.read_bytes() for path in options.archives]
    ends: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        changed, target = Path(folder) / "model.pt", Path(folder) / "graph.json"
        command = [
            options.tools / "opprof-torchscript",
            changed,
            "-o",
            target,
            "--seconds=20",
            "--memory=4",
        ]
        command += ["--sandbox"] if options.sandbox else []
        for number in range(options.count):
            changed.write_bytes(mutate(rng.choice(originals), rng))
            target.unlink(missing_ok=True)
            process = subprocess.run(command, capture_output=True, check=False)
            said = process.stderr.decode(errors="replace")
            end = classify(process.returncode, said, target.exists())
            ends[end] += 1
            if (number + 1) % 500 == 0:
                print(
                    number + 1, *(f"{n} {what}" for what, n in ends.items()), sep=", ", flush=True
                )
            if end.startswith("FAULT"):
                print(f"{number}: {end}: {said[:300]}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{number}.pt").write_bytes(changed.read_bytes())
    for end, count in ends.most_common():
        print(f"{count:7} {end}")
    return 1 if any(end.startswith("FAULT") for end in ends) else 0


if __name__ == "__main__":
    sys.exit(main())
