"""From rewrite scripts to a torch.compile backend: one readable file that needs PyTorch only, and its test. Needs no PyTorch itself."""

import ast
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opprof.backend.escaping import escaped
from opprof.backend.rewrites import Script
from opprof.errors import OpprofError
from opprof.files import check_mark, replacing
from opprof.tools import run_tool
from opprof.version import __version__

_SOURCES = Path(__file__).with_name("emitted")
_PACKAGE = "opprof.backend.emitted"
_TEST_TEMPLATE = Path(__file__).with_name("test_template.py")

# The modules of an emitted file, in its order: each takes from earlier ones only.
MODULES = (
    "interface",
    "definitions",
    "status",
    "graphs",
    "effects",
    "precision",
    "regions",
    "calls",
    "conditions",
    "matching",
    "weights",
    "prologue",
    "tf32",
    "cuda_graph",
    "origin",
    "recurrent",
    "program",
    "training",
    "backend",
    "watch",
    "front",
)
# The one that what is read from scripts takes the place of.
_DEFINITIONS = "definitions"
# What an emitted file is called, and is for: whatever they are, the program that it makes is the same.
_NAMES = ("BACKEND_NAME", "MODEL_SCRIPT", "MODEL_DEVICE")
#: How what is emitted begins.
BACKEND_TITLE = '"""A torch.compile backend made by opprof'
TEST_TITLE = '"""Tests of the torch.compile backend in'
_RULE = f"# {'-' * 117}\n"


@dataclass(frozen=True)
class Source:
    """A module of the emitted file: what it imports, and the text that goes into the file as it is."""

    title: str
    # Modules that it imports whole, and names by the module that they come from.
    imports: frozenset[str]
    names: dict[str, frozenset[str]]
    body: str


@functools.cache
def read_source(name: str) -> Source:
    """The module `name` of opprof.backend.emitted, in its parts."""
    text = (_SOURCES / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    imports: set[str] = set()
    names: dict[str, frozenset[str]] = {}
    for statement in tree.body[1:]:
        if isinstance(statement, ast.Import):
            imports.update(alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            names[statement.module or ""] = frozenset(alias.name for alias in statement.names)
        else:
            break
        last = statement.end_lineno or 0
    body = "".join(text.splitlines(keepends=True)[last:]).strip("\n") + "\n"
    return Source(ast.get_docstring(tree) or "", frozenset(imports), names, body)


def assembled(definitions: str) -> str:
    """The program of an emitted file but for its head: the imports of all modules, and their texts one after the other, with
    `definitions` in the place of the module of that name."""
    sources = {name: read_source(name) for name in MODULES}
    sections = [
        definitions
        if name == _DEFINITIONS
        else f"{_RULE}# {source.title}\n{_RULE}\n\n{source.body}"
        for name, source in sources.items()
    ]
    return _imports(list(sources.values())) + "\n" + "\n\n".join(sections)


def _imports(sources: Sequence[Source]) -> str:
    """The imports of all sources, each once, the standard library's first."""
    names: dict[str, set[str]] = {}
    for source in sources:
        for module, taken in source.names.items():
            if not module.startswith(_PACKAGE):
                names.setdefault(module, set()).update(taken)
    whole = {module for source in sources for module in source.imports}
    groups: list[list[str]] = [[], []]
    for module in sorted(whole):
        groups[module.split(".")[0] == "torch"].append(f"import {module}\n")
    for module in sorted(names):
        groups[module.split(".")[0] == "torch"].append(
            f"from {module} import {', '.join(sorted(names[module], key=_import_order))}\n"
        )
    return "\n".join("".join(group) for group in groups)


def _import_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as isort has it."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def backend_name(output: Path) -> str:
    """What the backend is registered as: the file's name."""
    return re.sub(r"\W", "_", output.stem)


def test_file(output: Path) -> Path:
    """The pytest file of a backend, which lies beside it."""
    return output.with_name(f"{output.stem}_test.py")


def emit(
    scripts: Sequence[Script],
    output: Path,
    *,
    model: str | None = None,
    device: str | None = None,
    passes: str = "",
) -> list[Path]:
    """Writes the backend for `scripts` to `output`, and its pytest file beside it; returns both.

    `model` is the model script that it is for, where there is one, and `device` where that model was moved to, if it was;
    `passes` is what skeleton() gave.
    """
    if output.suffix != ".py":
        raise OpprofError(f"{output}: a backend is a Python file, so its name has to end in .py")
    name = backend_name(output)
    definitions, titles = _definitions(scripts)
    named = zip(_NAMES, (name, model, device), strict=True)
    names = "".join(f"{variable} = {value!r}\n" for variable, value in named)
    text = (
        _head(name, output, titles, has_passes=bool(passes))
        + "\n"
        + assembled(
            f"{names}REWRITES: tuple[Rewrite, ...] = ()\nSTRATEGY = Strategy()\n"
            "PASSES: tuple[tuple[str, Callable[[fx.GraphModule], int]], ...] = ()\n\n"
            f"{definitions}{passes and passes + chr(10)}"
        )
    )
    test = _TEST_TEMPLATE.read_text(encoding="utf-8").split("\n\n", 1)[1]
    test = test.replace('"opprof_template.py"', repr(output.name))
    beside = test_file(output)
    # Nobody named this one: what has its name may be a test of somebody's own.
    check_mark(
        beside, TEST_TITLE, at_beginning=True, remedy="move it away, or give -o another name"
    )
    for file, content in ((output, text), (beside, _test_head(output) + "\n" + test)):
        with replacing(file) as stream:
            stream.write(content)
    return [output, beside]


def same_program(first: Path, second: Path) -> bool:
    """Whether two emitted files differ in nothing but their heads, and the names of backend, model and device."""
    return _without_names(first) == _without_names(second)


def _without_names(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    head = ast.parse(text).body[0].end_lineno or 0
    return [line for line in text.splitlines()[head:] if line.split(" = ")[0] not in _NAMES]


def unique_names(scripts: Sequence[Script]) -> list[str]:
    """What the rewrites of scripts are called in a backend of all of them."""
    used: list[str] = []
    for script in scripts:
        name = script.name
        number = 2
        while name in used:
            name = f"{script.name}-{number}"
            number += 1
        used.append(name)
    return used


def _definitions(scripts: Sequence[Script]) -> tuple[str, list[str]]:
    """The Python definitions of all scripts, and a line on each for the head of the file."""
    parts, titles = [], []
    for script, name in zip(scripts, unique_names(scripts), strict=True):
        python = _translated(script, name)
        parts.append(python.strip("\n") + "\n\n")
        titles.append(f"{script.path.name}: {script.title or name}")
    return "\n".join(parts), titles


def definitions_of(script: Script) -> str:
    """What a backend of one script defines, without comments: scripts of one content, under whatever names, compile the same."""
    lines = _translated(script, script.name).splitlines()
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def _translated(script: Script, name: str) -> str:
    return run_tool(
        "opprof-translate", ["--emit-rewrite", f"--rewrite-name={name}", script.path]
    ).decode()


def _head(name: str, output: Path, titles: list[str], *, has_passes: bool) -> str:
    none = (
        "none but what the passes below are filled in with"
        if has_passes
        else "none: this backend is plain Inductor"
    )
    listed = "\n".join(f"  {escaped(title)}" for title in titles or [none])
    return f'''{BACKEND_TITLE} {__version__}. It needs PyTorch only.

    import {escaped(output.stem)}
    model = {escaped(output.stem)}.optimize(model)                  # or:
    model = torch.compile(model, backend="{name}")

Rewrites:
{listed}

A graph in which no pattern is found, that has symbolic sizes, or that needs gradients where the strategy is none for training, is
compiled by Inductor as it is.
"""
'''


def _test_head(output: Path) -> str:
    return (
        f'{TEST_TITLE} {escaped(output.name)}: run `pytest {escaped(test_file(output).name)}`."""\n'
    )
