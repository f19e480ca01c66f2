"""The JSON Schema of graph JSON: what the exporter and the tools write follows it, and what the reader refuses does not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from opprof.errors import OpprofError
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.tools import run_tool

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/formats/graph-json.schema.json").read_text())
FORMS = ROOT / "test/Target/FXJSON/Inputs/forms.json"
BLOCKS = FORMS.with_name("blocks.json")
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_form() -> None:
    VALIDATOR.validate(json.loads(FORMS.read_text()))
    VALIDATOR.validate(json.loads(BLOCKS.read_text()))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor) -> Any:
        self.count.add_(1)
        y = torch.cond(x.sum() > 0, lambda v: self.linear(v), lambda v: v + 1, (x,))
        return y, x.topk(2)[0], torch.where(x > 0, x, float("-inf"))


def test_what_is_written(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Model(), (torch.randn(4, 3),), dynamic_shapes={"x": {0: batch}})
    first, mlir = tmp_path / "graph.json", tmp_path / "graph.mlir"
    write_graph_json(first, source_of_exported_program(program.run_decompositions({}), "model"))
    VALIDATOR.validate(json.loads(first.read_text()))
    run_tool("opprof-translate", ["--import-fx-json", first, "-o", mlir])
    VALIDATOR.validate(json.loads(run_tool("opprof-translate", ["--export-fx-json", mlir])))


def _set(value: Any, *path: str | int) -> Callable[[Any], None]:
    def edit(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        if value is None:
            del document[path[-1]]
        else:
            document[path[-1]] = value

    return edit


BROKEN = [
    _set(2, "opprof_graph_version"),
    _set([], "graphs"),
    _set(None, "graphs", 0, "name"),
    _set("", "graphs", 0, "nodes", 0, "name"),
    _set(None, "graphs", 0, "nodes", 0, "target"),
    _set("call", "graphs", 0, "nodes", 0, "op"),
    _set(-1, "graphs", 0, "nodes", 0, "type"),
    _set([{"node": "x", "int": "1"}], "graphs", 0, "nodes", 0, "args"),
    _set([{"tensor": 1}], "graphs", 0, "nodes", 0, "args"),
    _set("weight", "graphs", 0, "inputs", 0, "kind"),
    _set(None, "graphs", 0, "inputs", 0, "target"),
    _set("result", "graphs", 0, "outputs", 0, "kind"),
    _set([1], "graphs", 0, "range_constraints", "s0"),
    _set({"tensor": {"dtype": "float32", "device": "cpu", "shape": [-1]}}, "types", 0),
    _set("long", "types", 0),
    _set([{"file": "a.py"}], "stacks", 0),
    _set([{"path": ""}], "modules", 0),
]


@pytest.mark.parametrize("edit", BROKEN)
def test_what_breaks_the_schema_is_refused_by_the_reader_too(
    edit: Callable[[Any], None], tmp_path: Path
) -> None:
    document = json.loads(FORMS.read_text())
    edit(document)
    assert not VALIDATOR.is_valid(document)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(document))
    with pytest.raises(OpprofError, match=r"broken\.json:\d+:\d+: "):
        run_tool("opprof-translate", ["--import-fx-json", path])
