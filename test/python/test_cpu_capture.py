"""`opprof.capture` on a machine without a GPU: torch.profiler records the steps, and the folder has a profile and reports."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import opprof
from opprof.commands.cli import main
from opprof.errors import OpprofError
from opprof.recording import library as capture_library
from opprof.run_folder import RunFolder

torch = pytest.importorskip("torch")

REASON = "there is no GPU in this test"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_library, "why_no_gpu", lambda: REASON)


def load(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())


def product() -> Any:
    return torch.mm(torch.ones(8, 8), torch.ones(8, 8))


def test_steps_are_recorded_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opprof.capture(tmp_path / "run", counters="all") as prof:
        assert torch.equal(prof.step(product), product())
        prof.step(product)
    folder = RunFolder(tmp_path / "run")
    profile = load(folder.profile)
    steady = [kernel for kernel in profile["kernels"] if kernel.get("step") is not None]
    assert [kernel["name"] for kernel in steady].count("aten::mm") == 2
    assert profile["summary"]["steps"] == 2 and all(step.wall_ns > 0 for step in prof.steps)
    run = load(folder.run)
    assert run["timeline"] == {"by": "torch.profiler", "reason": REASON}
    assert (
        run["counters"]
        == {"mode": "all", "left_out": REASON}
        == {
            "mode": "all",
            **prof.steps[0].report,
        }
    )
    said = capsys.readouterr().err
    assert f"{REASON}: tracing" in said and f"no counters: {REASON}" in said
    assert "traceEvents" in json.loads(gzip.decompress(folder.trace.read_bytes()))
    assert main(["report", str(folder.path)]) == 0
    assert "aten::mm" in capsys.readouterr().out


def test_an_exception_of_the_step_is_the_programs_own(tmp_path: Path) -> None:
    def fails() -> None:
        raise ValueError("no more data")

    with pytest.raises(ValueError, match="no more data"), opprof.capture(tmp_path / "run") as prof:
        prof.step(product)
        prof.step(fails)
    folder = RunFolder(tmp_path / "run")
    assert load(folder.run)["ended"] == "ValueError: no more data"
    assert "aten::mm" in {kernel["name"] for kernel in load(folder.profile)["kernels"]}
    assert not [file for file in folder.path.iterdir() if file.name.startswith(".")]


def test_a_report_that_fails_is_not_the_programs_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.report_html.mkdir(parents=True)
    with opprof.capture(folder.path) as prof:
        prof.step(product)
    said = capsys.readouterr().err
    assert f"no report was made; {folder.trace} is kept: " in said
    assert folder.trace.is_file() and "report.html" in said


def test_what_is_wrong_is_said_as_on_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OpprofError, match="near names: memory"):
        opprof.capture(tmp_path / "run", metrics="memry")
    with opprof.capture(tmp_path / "run") as prof, pytest.raises(OpprofError, match="a Tensor"):
        prof.step(product())
    assert "nothing was recorded" in capsys.readouterr().err
    with pytest.raises(OpprofError, match="the capture has ended"):
        prof.step(product)
    with (
        torch.profiler.profile(),
        opprof.capture(tmp_path / "run") as prof,
        pytest.raises(OpprofError, match="recording already"),
    ):
        prof.step(product)
