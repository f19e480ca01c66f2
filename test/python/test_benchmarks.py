"""Programs of benchmarks/ whose results others read: what they keep, and what they take for a failure."""

import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from opprof.backend.checks import Verdict
from opprof.commands.validate import verdict_text

ROOT = Path(__file__).parents[2]


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    # Classes look for what they are declared in there.
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_planted_faults_that_are_done_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document was written after the last one, which a limit of time may leave out."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    planted = load("planted_faults")

    def record(fault: str, *_: Any) -> dict[str, Any]:
        if fault == "clip":
            raise TimeoutError
        return {"findings": [], "steps": []}

    monkeypatch.setattr(planted, "record", record)
    monkeypatch.setattr(
        planted, "measure_apart", lambda *_: {"faulty_ns": 2.0, "fixed_ns": 1.0, "saved_ns": 1.0}
    )
    monkeypatch.setattr(sys, "argv", ["planted_faults", "--only", "item,clip", "-o", str(tmp_path)])
    with pytest.raises(TimeoutError):
        planted.main()
    document = json.loads((tmp_path / "planted.json").read_text())
    assert [row["fault"] for row in document["faults"]] == ["item"]
    assert document["device"] == "cpu"


@pytest.mark.parametrize(
    ("failed", "is_wrong"),
    [(["gain"], False), (["equality"], True), (["equality", "gain"], True), ([], True)],
    ids=["no-gain", "not-equal", "both", "error"],
)
def test_a_backend_that_is_no_faster_is_no_failure_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: list[str], is_wrong: bool
) -> None:
    """A machine that does other things meanwhile does not show a gain."""
    killer = load("kill_at_random")
    verdict = Verdict()
    for name in ("import", "equality", "gain"):
        verdict.add(name, name not in failed, "said")
    said = verdict_text(verdict) if failed else ""
    validate = killer.prepare(tmp_path)["validate"]
    code = f"import sys; print({said!r}, end=''); sys.exit(1)"
    monkeypatch.setattr(killer.Command, "line", [sys.executable, "-c", code])
    wrong, _ = killer.kill(validate, 0, random.Random(0))
    assert bool(wrong) == is_wrong, wrong
