"""An emitted file is the modules of opprof.backend.emitted, one after the other, and what was read from scripts."""

import ast
import importlib
from pathlib import Path

import pytest
import torch
from torch import fx
from torch.nn import functional

from opprof.backend.emit import MODULES, assembled, emit, read_source, same_program
from opprof.backend.emitted.graphs import trace_to_aten
from opprof.backend.emitted.precision import cast_graph, exact_nodes, why_not_cast
from opprof.backend.emitted.prologue import split_prologue

FOLDER = Path(importlib.import_module("opprof.backend.emitted").__file__ or "").parent
PACKAGE = "opprof.backend.emitted"


def defined(statements: list[ast.stmt]) -> list[str]:
    """What statements at the top of a file define."""
    names: list[str] = []
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            names.append(statement.name)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.append(statement.target.id)
        elif isinstance(statement, ast.Assign):
            names += [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return names


def test_every_source_is_a_module_of_the_file() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} == {*MODULES, "__init__"}
    for name in MODULES:
        importlib.import_module(f"{PACKAGE}.{name}")


@pytest.mark.parametrize("name", MODULES)
def test_a_source_takes_from_earlier_ones_and_by_name(name: str) -> None:
    earlier = MODULES[: MODULES.index(name)]
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            assert node in tree.body, "an import inside of a function"
            assert not any(alias.asname for alias in node.names)
    source = read_source(name)
    for module, names in source.names.items():
        if module.startswith("opprof"):
            package, _, own = module.rpartition(".")
            assert package == PACKAGE and own in earlier
            # Of what is assigned anew, another module would hold the old value.
            assert not {n for n in names if n.startswith("_")}
    assert not any(isinstance(node, ast.Global) for node in ast.walk(tree))


def test_an_emitted_file_is_those_sources_and_nothing_else(tmp_path: Path) -> None:
    file, _ = emit([], tmp_path / "plain.py")
    rest = file.read_text()
    for name in MODULES:
        if name == "definitions":
            continue
        source = read_source(name)
        before, found, rest = rest.partition(source.body)
        assert found, f"{name} is not in the file as it is"
        between = ast.parse(before).body
        if name == "interface":
            assert ast.get_docstring(ast.parse(before))
            assert all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in between[1:])
        elif between:
            expected = [
                "BACKEND_NAME",
                "MODEL_SCRIPT",
                "MODEL_DEVICE",
                "REWRITES",
                "STRATEGY",
                "PASSES",
            ]
            assert name == "status" and defined(between) == expected
    assert not ast.parse(rest).body


def test_files_of_one_program_are_told_from_those_of_another(tmp_path: Path) -> None:
    first, _ = emit([], tmp_path / "first.py")
    second, _ = emit([], tmp_path / "second.py", model="../a.py", device="cuda")
    assert first.read_text() != second.read_text() and same_program(first, second)
    lines = second.read_text().splitlines()
    places = [i for i, line in enumerate(lines) if line and not line.startswith((" ", "#", '"'))]
    ours = {"BACKEND_NAME", "MODEL_SCRIPT", "MODEL_DEVICE"}
    for place in places[:: max(1, len(places) // 40)]:
        if place < lines.index('"""') or lines[place].split(" = ")[0] in ours:
            continue
        second.write_text("\n".join([*lines[:place], f"{lines[place]}  #", *lines[place + 1 :]]))
        assert not same_program(first, second), lines[place]


def test_no_name_stands_for_two_things() -> None:
    tree = ast.parse(assembled(""))
    names = defined(tree.body)
    imported = [
        alias.name
        for statement in tree.body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        for alias in statement.names
    ]
    assert len(names + imported) == len({*names, *imported})
    assert not any("opprof" in name for name in imported)


def example() -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """A product with a weight that is made of two, turned by angles of positions."""
    a, b, x = torch.randn(4, 8), torch.randn(4, 8), torch.randn(3, 8)
    positions = torch.tensor([0, 1, 4097])

    def model(
        a: torch.Tensor, b: torch.Tensor, x: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        return x @ torch.cat([a, b]).t() + (positions[:, None] * 0.1).cos()

    inputs = [a, b, x, positions]
    with torch.no_grad():
        return trace_to_aten(model, inputs), inputs


def test_the_prologue_alone() -> None:
    graph, inputs = example()
    prologue, rest, held = split_prologue(graph, [0, 1])
    assert prologue is not None and held == []
    made = prologue(*inputs[:2])
    assert torch.equal(rest(*made, *inputs[2:]), graph(*inputs))


def test_precision_alone() -> None:
    graph, inputs = example()
    assert why_not_cast(graph) is None
    assert {str(node.target) for node in exact_nodes(graph)} == {"aten.mul.Tensor"}
    with torch.no_grad():
        lower = cast_graph(graph, inputs, torch.bfloat16)
        actual, expected = lower(*inputs), graph(*inputs)
    assert actual.dtype == torch.float32
    assert 1e-5 < float((actual - expected).norm() / expected.norm()) < 2e-2


def test_what_operators_make_wide_of_narrow_floats_is_cast_again() -> None:
    def model(x: torch.Tensor, turn: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        # Its points are float32, whatever the type of what they are turned by.
        grid = functional.affine_grid(turn, [2, 1, 8, 8], align_corners=False)
        turned = functional.grid_sample(x, grid, align_corners=False)
        return functional.conv2d(turned, weight)

    torch.manual_seed(0)
    turn = torch.eye(2, 3) + 0.1 * torch.randn(2, 2, 3)
    inputs = [torch.randn(2, 1, 8, 8), turn, torch.randn(4, 1, 3, 3)]
    with torch.no_grad():
        graph = trace_to_aten(model, inputs)
        lower = cast_graph(graph, inputs, torch.bfloat16)
        actual, expected = lower(*inputs), graph(*inputs)
    assert actual.dtype == torch.float32
    assert 1e-5 < float((actual - expected).norm() / expected.norm()) < 5e-2
