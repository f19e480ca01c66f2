"""Changes TorchScript archives in thousands of ways, and counts how reading each one ends.

    ninja -C build torchscript-many-archives
    python benchmarks/torchscript_mutations.py MODEL.pt… [--count 10000] [--seed 1] [--sandbox] [--keep DIR]

A change is of bytes anywhere in the file, of a field of the zip's own headers, of its length, or of the content of one of its files: of code, by bytes or by
words and lines, and of pickles, by bytes or by operations, with the checksums made right again, so that LibTorch gets to see it. Each way to end is counted: a graph; a refusal before LibTorch; an error of LibTorch's, its crash, or a limit,
all contained and reported. Where the reader itself ends, that is a fault: it is printed, kept in DIR, and makes the exit status 1.

An archive that is followed by what its method is called with (`model.pt:2x16xi64,3`, as for torchscript_import.py) is run on that, changed as it is.
"""

from __future__ import annotations

import argparse
import collections
import io
import pickletools
import random
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from torchscript_import import texts_of

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

_WORD = re.compile(rb"[A-Za-z_][\w.]*|[-+]?\d[\w.]*")


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


def change_code(text: bytes, rng: random.Random) -> bytes:
    """Lines of a file of code that are left out, doubled or elsewhere, and words that stand where others of the file stood."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not lines:
            break
        place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                del lines[place]
            case 1:
                lines.insert(other, lines[place])
            case 2:
                lines[place], lines[other] = lines[other], lines[place]
            case _:
                words, others = _WORD.findall(lines[place]), _WORD.findall(lines[other])
                if words and others:
                    lines[place] = lines[place].replace(rng.choice(words), rng.choice(others), 1)
    return b"".join(lines)


def change_pickle(content: bytes, rng: random.Random) -> bytes:
    """Operations of a pickle that are left out, doubled, exchanged, or there a second time in the place of another."""
    try:
        begins = [place for _, _, place in pickletools.genops(content) if place is not None]
    except ValueError:
        return change_bytes(content, rng)
    pieces = [
        content[begin:end] for begin, end in zip(begins, [*begins[1:], len(content)], strict=True)
    ]
    for _ in range(rng.choice((1, 1, 2, 4))):
        place, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        match rng.randrange(4):
            case 0:
                pieces[place] = b""
            case 1:
                pieces[place] *= 2
            case 2:
                pieces[place], pieces[other] = pieces[other], pieces[place]
            case _:
                pieces[place] = pieces[other]
    return b"".join(pieces)


def change_header(archive: bytes, rng: random.Random) -> bytes:
    """A field of one of the zip's headers, which hold sizes, places, methods, flags and lengths of names."""
    signature, size = rng.choice(((b"PK\3\4", 30), (b"PK\1\2", 46), (b"PK\5\6", 22)))
    places = [found.start() for found in re.finditer(re.escape(signature), archive)]
    if not places:
        return change_bytes(archive, rng)
    width = rng.choice((1, 2, 4))
    place = rng.choice(places) + rng.randrange(4, size - width + 1)
    value = rng.choice((0, 1, 0x7FFF_FFFF, 0xFFFF_FFFF, rng.getrandbits(32), len(archive)))
    content = bytearray(archive)
    content[place : place + width] = value.to_bytes(4, "little")[:width]
    return bytes(content)


def change_content(name: str, content: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        if name.endswith(".py"):
            return change_code(content, rng)
        if name.endswith(".pkl"):
            return change_pickle(content, rng)
    return change_bytes(content, rng)


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
            entries[chosen] = (name, change_content(name, content, rng))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as sink:
        for entry_name, entry_content in entries:
            sink.writestr(entry_name, entry_content)
    return buffer.getvalue()


def mutate(archive: bytes, rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.1:
        return archive[: rng.randrange(len(archive))]
    if kind < 0.2:
        return change_header(archive, rng)
    return change_bytes(archive, rng) if kind < 0.3 else change_file(archive, rng)


def classify(answer: str) -> str:
    """How it ended; a fault begins with FAULT."""
    status, _, said = answer.partition(" ")
    if status == "0":
        return "graph"
    if status != "1":
        return "FAULT: the reader ended"
    if "LibTorch ended with signal" in said:
        return "contained crash of LibTorch"
    if "more than the limit" in said or "memory" in said:
        return "limit"
    return "error of LibTorch" if "LibTorch" in said else "refused"


class Reader:
    """Reads archives in one process that has loaded LibTorch, and in a contained child of it each. One that ends is started again."""

    def __init__(self, program: Path, sandbox: bool) -> None:
        self._command = [program, *(["--sandbox"] if sandbox else [])]
        self._process = self._start()

    def _start(self) -> Any:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )

    def read(self, archive: Path, inputs: list[str]) -> str:
        """The exit status of opprof-torchscript for it, and what it says; empty where the process ended."""
        self._process.stdin.write("\t".join((str(archive), *inputs)) + "\n")
        self._process.stdin.flush()
        answer: str = self._process.stdout.readline()
        if not answer:
            self._process = self._start()
        return answer.strip()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("archives", nargs="+")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument(
        "--reader", type=Path, default=Path("build/unittests/Torch/torchscript-many-archives")
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sandbox", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    named = [entry.partition(":") for entry in options.archives]
    originals = [
        (Path(path).read_bytes(), texts_of(inputs) if inputs else []) for path, _, inputs in named
    ]
    ends: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "model.pt"
        reader = Reader(options.reader, options.sandbox)
        for number in range(options.count):
            original, inputs = rng.choice(originals)
            changed.write_bytes(mutate(original, rng))
            said = reader.read(changed, inputs)
            end = classify(said)
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
