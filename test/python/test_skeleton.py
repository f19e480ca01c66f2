"""Skeletons: an empty pass for each finding that no rule answers, which an engineer fills in."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from programs import import_program
from torch import Tensor, nn

from opprof.backend import skeleton as skeletons
from opprof.backend.emit import emit
from opprof.backend.skeleton import skeleton, unanswered

FINDINGS: list[dict[str, Any]] = [
    {"id": "wall-time", "nodes": [], "evidence": {}, "text": "Of 1 ms …"},
    {
        "id": "device-busy",
        "severity_ns_per_step": 900,
        "nodes": [],
        "evidence": {},
        "text": "The device waits.",
    },
    {
        "id": "cache-lookups",
        "severity_ns_per_step": 5000,
        "nodes": [],
        "evidence": {},
        "text": "Dynamo looks for a compilation.",
    },
    {
        "id": "memory-traffic",
        "severity_ns_per_step": 2500,
        "nodes": ["linear", {"graph": "other", "stage": "export", "name": "mul"}],
        "evidence": {"excess_bytes": 12, "worst": [{"kernel": 'a """ b\n'}]},
        "text": 'Launches read twice: """ and\nmore.',
    },
]
NODES = [{"name": "linear", "module": "part", "source": "model.py:7"}]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.relu(self.part(x)))


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"findings": FINDINGS, "nodes": NODES}).encode()
    monkeypatch.setattr(skeletons, "run_driver", lambda *_: text)


@pytest.mark.usefixtures("report")
def test_a_finding_that_a_rule_answers_has_no_pass() -> None:
    def ids(rules: list[str]) -> list[str]:
        return [finding["id"] for finding in unanswered(Path("run"), rules)[0]]

    assert ids([]) == ["memory-traffic", "device-busy"]
    assert ids(["cuda-graph"]) == ["memory-traffic"]


@pytest.mark.usefixtures("report")
def test_an_empty_pass_changes_nothing_and_a_filled_one_is_counted(tmp_path: Path) -> None:
    torch._dynamo.reset()
    passes = skeleton(*unanswered(Path("run"), ["cuda-graph"]))
    empty = import_program(emit([], tmp_path / "skeleton_empty.py", passes=passes)[0])
    ((name, edit),) = empty.PASSES
    assert name == "memory_traffic"
    assert "is plain Inductor" not in (empty.__doc__ or "")
    for part in ("2.5 µs a step", "linear (part, model.py:7)", "other:mul", "excess_bytes: 12"):
        assert part in (edit.__doc__ or "")
    model, x = Model().eval(), torch.randn(2, 4)
    with torch.no_grad():
        torch.compile(model, backend="skeleton_empty")(x)
    assert empty.applied == {}
    assert empty.status()["graphs"][0].refusal is None

    filled = (
        (tmp_path / "skeleton_empty.py").read_text().replace("skeleton_empty", "skeleton_filled")
    )
    filled = filled.replace(
        "    # The edit goes here.\n    return 0\n",
        "    places = 0\n"
        "    for node in graph.graph.nodes:\n"
        "        relu = torch.ops.aten.relu.default\n"
        "        if node.target is relu and node.args[0].target is relu:\n"
        "            node.replace_all_uses_with(node.args[0])\n"
        "            places += 1\n"
        "    return places\n",
    )
    (tmp_path / "skeleton_filled.py").write_text(filled)
    backend = import_program(tmp_path / "skeleton_filled.py")
    torch._dynamo.reset()
    with torch.no_grad():
        actual = torch.compile(model, backend="skeleton_filled")(x)
        assert torch.allclose(actual, model(x))
    assert backend.applied == {"memory_traffic": 1}


@pytest.mark.usefixtures("report")
def test_a_pass_that_fails_is_named(tmp_path: Path) -> None:
    torch._dynamo.reset()
    passes = skeleton(*unanswered(Path("run"), ["cuda-graph"]))
    file = emit([], tmp_path / "skeleton_failing.py", passes=passes)[0]
    text = file.read_text()
    file.write_text(text.replace("    return 0\n", "    return graph.nowhere\n", 1))
    backend = import_program(file)
    model, x = Model().eval(), torch.randn(2, 4)
    with torch.no_grad():
        assert torch.allclose(torch.compile(model, backend="skeleton_failing")(x), model(x))
    refusal = backend.status()["graphs"][0].refusal
    assert "the pass 'memory_traffic' failed" in refusal and "nowhere" in refusal


def test_without_findings_there_is_no_pass(tmp_path: Path) -> None:
    backend = import_program(emit([], tmp_path / "skeleton_none.py", passes=skeleton([], {}))[0])
    assert backend.PASSES == ()


@pytest.mark.parametrize("text", ["²", "ª", "a-b c", '"""', "\\", "x" * 159 + "\\", "\ud800"])
def test_whatever_a_finding_holds_is_text(text: str) -> None:
    finding = {
        "id": text,
        "severity_ns_per_step": 1,
        "text": text,
        "nodes": [text, {"graph": text, "name": text}],
        "evidence": {text: [text, {text: text}]},
    }
    nodes = {text: {"name": text, "module": text, "source": text}}
    function, table = ast.parse(skeleton([finding, finding], nodes)).body[::2]
    assert isinstance(function, ast.FunctionDef) and function.name.isascii()
    assert [type(statement) for statement in function.body] == [ast.Expr, ast.Return]
    assert isinstance(table, ast.Assign) and isinstance(table.value, ast.Tuple)
    assert len(table.value.elts) == 2
