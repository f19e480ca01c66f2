"""The packages of opprof look one way only, as the table in docs/architecture.md says: which may import which, and no cycle."""

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "opprof"
#: What users import, and what `python -m opprof` runs: they look into the rooms, and no room looks at them.
FACES = {"opprof": {"recording"}, "opprof.__main__": {"commands"}}


def modules() -> dict[str, Path]:
    """Every module by its name; those that an interpreter or a reader gets without the package are none."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        if "injected" not in parts:
            found[".".join(part for part in parts if part != "__init__")] = file
    return found


def imports(source: str, known: dict[str, Path]) -> Iterator[str]:
    """The modules of opprof that a source imports: at its head, in functions, for type checking, or by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield module if module in known else node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # What importlib is told.
            yield from (m for m in known if m == node.value and "." in m)


def graph() -> dict[str, set[str]]:
    """What each module imports of opprof."""
    known = modules()
    return {
        name: {used for used in imports(file.read_text(), known) if used in known} - {name}
        for name, file in known.items()
    }


def room(module: str) -> str:
    """The package that a module lies in; what lies beside the packages is in none."""
    parts = module.split(".")
    return parts[1] if (PACKAGE / parts[1]).is_dir() else ""


def allowed() -> dict[str, set[str]]:
    """Which packages each may import, out of the table of the document."""
    rows = {}
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.fullmatch(r"`opprof(?:\.(\w+))?`", cells[0])
        if name and len(cells) == 3:
            rows[name[1] or ""] = set(re.findall(r"`(\w+)`", cells[2]))
    return rows


def test_each_package_imports_what_its_row_names() -> None:
    rules = allowed()
    packages = {entry.parent.name for entry in PACKAGE.glob("*/__init__.py")}
    assert set(rules) == packages | {""}
    strangers = [
        f"{module} imports {used}"
        for module, all_used in graph().items()
        for used in sorted(all_used)
        if used in FACES
        or (
            room(used) not in FACES[module]
            if module in FACES and room(used)
            else module not in FACES and room(used) not in {"", room(module)} | rules[room(module)]
        )
    ]
    assert not strangers


def test_no_cycles() -> None:
    try:
        graphlib.TopologicalSorter(allowed()).prepare()
        graphlib.TopologicalSorter(graph()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_imports_are_found_wherever_they_stand() -> None:
    source = """
from opprof.files import replacing
def lazy():
    from opprof.commands import run
    import opprof.tools
    importlib.import_module("opprof.chain")
if TYPE_CHECKING:
    from opprof.export.weights import save_weights
"""
    assert {used for used in imports(source, modules()) if used.startswith("opprof")} == {
        *("opprof.files", "opprof.commands.run", "opprof.tools", "opprof.chain"),
        "opprof.export.weights",
    }


def loaded(program: str) -> list[str]:
    """The modules that a program of its own has loaded at its end."""
    program += "\nimport sys; print(*sys.modules)"
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def test_what_does_not_say_so_needs_no_pytorch() -> None:
    heads = {
        module: ast.get_docstring(ast.parse(file.read_text())) or ""
        for module, file in modules().items()
    }
    free = [module for module, head in heads.items() if "Needs PyTorch" not in head]
    # The sources of what is emitted are read, not imported.
    emitted = ("opprof.backend.emitted", "opprof.backend.test_template")
    free = [module for module in free if not module.startswith(emitted)]
    assert {"opprof.commands.cli", "opprof.recording.api", "opprof.commands.run"} < set(free)
    assert "torch" not in loaded(f"import {', '.join(free)}")


def test_users_call_functions_that_are_loaded_when_they_are_asked_for() -> None:
    own = {name for name in loaded("import opprof") if name.startswith("opprof")}
    assert own == {"opprof", "opprof.version"}
    import opprof.recording.capture
    import opprof.recording.ranges

    assert isinstance(opprof.capture, FunctionType)
    assert isinstance(opprof.layer_ranges, FunctionType)
