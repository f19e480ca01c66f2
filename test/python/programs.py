"""What the tests of graphs and of emitted programs share: loading, copying, comparing."""

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from conftest import EXAMPLES
from torch.utils import _pytree as pytree

from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.export.model_script import ModelScript
from opprof.tools import run_tool

EXAMPLE_NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


_imported = itertools.count()


def import_program(path: Path) -> ModuleType:
    """A Python file as a module, anew each time, and under a new name: Dynamo remembers modules by theirs."""
    name = f"{path.stem}_{next(_imported)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def script_of(module: torch.nn.Module, *args: Any, **kwargs: Any) -> ModelScript:
    """A module and its arguments as a model script would give them."""
    return ModelScript(Path("model.py"), "model", module, args, kwargs)


def import_graph(program: torch.export.ExportedProgram, name: str, folder: Path) -> Path:
    """An exported program as MLIR."""
    graph, mlir = folder / f"{name}.json", folder / f"{name}.mlir"
    write_graph_json(graph, source_of_exported_program(program, name))
    run_tool("opprof-translate", ["--import-fx-json", graph, "-o", mlir])
    return mlir


def emit_program(mlir: Path, *options: str) -> ModuleType:
    """The program that is written of an MLIR file, imported."""
    path = mlir.with_name(f"{mlir.stem}_program.py")
    run_tool("opprof-translate", ["--emit-python", *options, mlir, "-o", path])
    return import_program(path)


def copies(tensors: dict[str, Any]) -> dict[str, Any]:
    """Tensors of their own storage, with strides kept."""
    return {
        name: value.detach().clone() if isinstance(value, torch.Tensor) else value
        for name, value in tensors.items()
    }


def assert_same(expected: Any, actual: Any, *, structure: bool = True) -> None:
    """The same bits in the same structure; `structure=False` compares the leaves alone, whatever their strides."""
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    actual_leaves, actual_spec = pytree.tree_flatten(actual)
    assert not structure or expected_spec == actual_spec
    for left, right in zip(expected_leaves, actual_leaves, strict=True):
        if isinstance(left, torch.Tensor):
            assert left.dtype == right.dtype
            assert not structure or left.stride() == right.stride()
            torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)
        else:
            assert left == right
