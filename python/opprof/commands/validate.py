"""`opprof validate`: everything that can be said of one backend. Needs PyTorch; the backend and the model script are run."""

import ast
import contextlib
import os
import sys
from pathlib import Path

from opprof.backend.checks import Verdict, check_backend, judge_gain, measure
from opprof.backend.device_time import own_share
from opprof.backend.probes import probe_backend
from opprof.backend.training import subject_of
from opprof.choices import DEFAULT_ERROR_BUDGET
from opprof.errors import OpprofError
from opprof.export.model_script import load_model_script
from opprof.files import check_source
from opprof.progress import progress
from opprof.torchscript import check_model
from opprof.units import milliseconds


def validate(
    file: Path,
    *,
    model: str | None = None,
    device: str | None = None,
    error_budget: float = DEFAULT_ERROR_BUDGET,
) -> Verdict:
    """Everything that can be said of one backend, printed as it is found.

    The model runs on `device`, or else where it ran when the backend was made, or else where its script puts it.
    """
    if not file.is_file():
        raise OpprofError(f"{file}: no such file")
    check_source(file)
    model = model or _recorded_model(file)
    check_model(model)
    device = device or _recorded(file, "MODEL_DEVICE")
    if model is None:
        raise OpprofError(
            f"{file}: does not say which model it is for", remedy="give --model model.py"
        )
    progress(f"loading {model}")
    subject = subject_of(load_model_script(model, device=device))
    progress("compiling and comparing")
    verdict, program = check_backend(file, subject, error_budget=error_budget)
    if verdict.passed and program is not None and not subject.trains:
        progress("changing weights and inputs, from several threads")
        backend = sys.modules[file.stem]
        probe_backend(verdict, subject, backend, program, error_budget=error_budget)
    if verdict.passed and program is not None:
        progress("measuring")
        verdict.measurement = measure(
            subject, {"eager": subject.eager, "Inductor": subject.inductor, "optimized": program}
        )
        judge_gain(verdict, "optimized", "Inductor")
        share = None if subject.trains else own_share(subject, sys.modules[file.stem], program)
        if share is not None:
            where = "device" if subject.script.device_type == "cuda" else "CPU"
            verdict.add(
                "own time", share > 0, f"own programs take {share:.0%} of a step's {where} time"
            )
    return verdict


def _recorded_model(file: Path) -> str | None:
    """The model script of a backend, which names it relative to its own folder."""
    recorded = _recorded(file, "MODEL_SCRIPT")
    return None if recorded is None else os.path.relpath(file.parent / recorded)


def _recorded(file: Path, name: str) -> str | None:
    """A text that a backend assigns to `name`, read without running it."""
    with contextlib.suppress(SyntaxError, ValueError, OSError):
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            if (
                isinstance(statement, ast.Assign)
                and isinstance(statement.targets[0], ast.Name)
                and statement.targets[0].id == name
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                return statement.value.value
    return None


def verdict_text(verdict: Verdict) -> str:
    """The checks as lines, and what follows."""
    lines = verdict.lines()
    if verdict.measurement is not None:
        lines.append(
            "  "
            + ", ".join(
                f"{name} {milliseconds(verdict.measurement.median(name))} ms"
                for name in verdict.measurement.first
            )
        )
    lines.append("valid" if verdict.passed else "not valid")
    return "\n".join(lines) + "\n"
