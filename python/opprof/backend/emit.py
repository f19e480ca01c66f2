"""From rewrite scripts to a torch.compile backend: one readable file that needs PyTorch only, and its test. Needs no PyTorch itself."""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from opprof.backend.rewrites import Script
from opprof.errors import OpprofError
from opprof.files import replacing
from opprof.tools import run_tool
from opprof.version import __version__

_TEMPLATE = Path(__file__).with_name("template.py")
_TEST_TEMPLATE = Path(__file__).with_name("test_template.py")
_BEGIN, _END = "# >>> rewrites\n", "# <<< rewrites\n"


def backend_name(output: Path) -> str:
    """What the backend is registered as: the file's name."""
    return re.sub(r"\W", "_", output.stem)


def test_file(output: Path) -> Path:
    """The pytest file of a backend, which lies beside it."""
    return output.with_name(f"{output.stem}_test.py")


def escaped(text: str) -> str:
    """`text` as a part of a docstring or comment of an emitted file: one line that closes neither, and looks like what it is."""
    line = "".join(
        " " if c.isspace() else "?" if unicodedata.category(c).startswith("C") else c for c in text
    )
    return " ".join(line.split()).replace("\\", "\\\\").replace('"', "'")


def emit(scripts: Sequence[Script], output: Path, *, model: str | None = None) -> list[Path]:
    """Writes the backend for `scripts` to `output`, and its pytest file beside it; returns both.

    `model` is the model script that the test compares on, where there is one.
    """
    if output.suffix != ".py":
        raise OpprofError(f"{output}: a backend is a Python file, so its name has to end in .py")
    name = backend_name(output)
    definitions, titles = _definitions(scripts)
    source = _TEMPLATE.read_text()
    before, rest = source.split(_BEGIN)
    _, after = rest.split(_END)
    imports = before.split("\n\n", 1)[1]
    text = (
        _head(name, output, titles)
        + "\n"
        + imports
        + f"BACKEND_NAME = {name!r}\n"
        + f"MODEL_SCRIPT = {model!r}\n"
        + "REWRITES: tuple[Rewrite, ...] = ()\nSTRATEGY = Strategy()\n\n"
        + definitions
        + after
    )
    test = _TEST_TEMPLATE.read_text().split("\n\n", 1)[1]
    test = test.replace('"opprof_template.py"', repr(output.name))
    beside = test_file(output)
    for file, content in ((output, text), (beside, _test_head(output) + "\n" + test)):
        with replacing(file) as stream:
            stream.write(content)
    return [output, beside]


def _definitions(scripts: Sequence[Script]) -> tuple[str, list[str]]:
    """The Python definitions of all scripts, and a line on each for the head of the file."""
    parts, titles = [], []
    used: set[str] = set()
    for script in scripts:
        name = script.name
        number = 2
        while name in used:
            name = f"{script.name}-{number}"
            number += 1
        used.add(name)
        python = run_tool(
            "opprof-translate", ["--emit-rewrite", f"--rewrite-name={name}", script.path]
        ).decode()
        parts.append(python.strip("\n") + "\n\n")
        titles.append(f"{script.path.name}: {script.title or name}")
    return "\n".join(parts), titles


def _head(name: str, output: Path, titles: list[str]) -> str:
    listed = (
        "\n".join(f"  {escaped(title)}" for title in titles)
        or "  none: this backend is plain Inductor"
    )
    return f'''"""A torch.compile backend made by opprof {__version__}. It needs PyTorch only.

    import {escaped(output.stem)}
    model = torch.compile(model, backend="{name}")

Rewrites:
{listed}

A graph in which no pattern is found, or that needs gradients or has symbolic sizes, is compiled by Inductor as it is.
"""
'''


def _test_head(output: Path) -> str:
    return f'"""Tests of the torch.compile backend in {escaped(output.name)}: run `pytest {escaped(test_file(output).name)}`."""\n'
