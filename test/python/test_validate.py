"""What validation lets pass, and above all what it does not."""

import math
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from opprof.backend.checks import (
    Measurement,
    Subject,
    Verdict,
    check_backend,
    judge_gain,
    relative_error,
)
from opprof.backend.device_time import own_share
from opprof.backend.emit import emit
from opprof.backend.probes import probe_backend
from opprof.commands.optimize import OptimizeOptions, optimize
from opprof.errors import OpprofError
from opprof.export.model_script import load_model_script

SCRIPT = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x):
        return torch.tanh(self.fc(x))

def get_model_and_input():
    torch.manual_seed(0)
    return Model().eval(), torch.randn(8, 16)
"""


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    file = tmp_path / "small_model.py"
    file.write_text(textwrap.dedent(SCRIPT))
    return Subject(load_model_script(file))


def backend_that(tmp_path: Path, name: str, result: str) -> Path:
    """A backend that runs the graph as it is and returns `result` of its output."""
    file = tmp_path / f"{name}.py"
    file.write_text(
        "import torch\nfrom torch._dynamo import register_backend\n"
        f'BACKEND_NAME = "{name}"\nREWRITES = ()\napplied = {{}}\n'
        "@register_backend(name=BACKEND_NAME)\n"
        "def backend(module, inputs):\n"
        "    def run(*values):\n"
        f"        return tuple({result} for out in module(*values))\n"
        "    return run\n"
    )
    return file


def test_a_right_backend_passes(tmp_path: Path, subject: Subject) -> None:
    file, _ = emit([], tmp_path / "plain_backend.py")
    verdict, program = check_backend(file, subject, error_budget=1e-3)
    assert verdict.passed and program is not None
    assert verdict.error is not None and verdict.error < 1e-5
    exact, _ = check_backend(file, subject, error_budget=0)
    assert exact.passed


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("wrong", "out + 0.01"),
        ("not_a_number", "out * float('nan')"),
        ("one_nan", "torch.where(torch.arange(out.numel()).view_as(out) == 3, torch.nan, out)"),
        ("infinite", "out / 0"),
        ("other_shape", "out[:1]"),
    ],
)
def test_a_wrong_result_does_not_pass(
    tmp_path: Path, subject: Subject, name: str, result: str
) -> None:
    verdict, _ = check_backend(backend_that(tmp_path, name, result), subject, error_budget=1e-3)
    assert not verdict.passed
    assert verdict.checks[-1].name == "equality"


def test_a_budget_of_zero_asks_for_bits(tmp_path: Path, subject: Subject) -> None:
    file = backend_that(tmp_path, "almost", "out * (1 + 2e-7)")
    assert check_backend(file, subject, error_budget=1e-3)[0].passed
    assert not check_backend(file, subject, error_budget=0)[0].passed


UNPROVABLE = {
    "zeros": (
        "nn.init.zeros_(self.fc.weight), nn.init.zeros_(self.fc.bias)",
        "every output is zero",
    ),
    "a bias alone": ("nn.init.zeros_(self.fc.weight)", "the same on every input"),
    "both": ("()", None),
}


@pytest.mark.parametrize("begins", UNPROVABLE)
def test_outputs_that_nothing_reaches_prove_nothing(tmp_path: Path, begins: str) -> None:
    text, reason = UNPROVABLE[begins]
    file = tmp_path / "headless.py"
    file.write_text(SCRIPT.replace("nn.Linear(16, 16)", f"nn.Linear(16, 16)\n        {text}"))
    subject = Subject(load_model_script(file))
    verdict, _ = check_backend(
        backend_that(tmp_path, "backend_of_nothing", "out"), subject, error_budget=1e-3
    )
    assert verdict.passed == (reason is None)
    if reason is None:
        assert subject.why_unprovable is None
    else:
        assert reason in (subject.why_unprovable or "")
        assert reason in verdict.checks[-1].text
        with pytest.raises(OpprofError, match=reason):
            optimize(str(file), tmp_path / "out", OptimizeOptions())


OBJECTS = {
    "dataclass": "Output(None, [torch.tanh(self.fc(x))])",
    "objects in objects": "Output(Plain(torch.tanh(self.fc(x))), None)",
    "a dictionary of its own class, beside a tensor": "(x.sin(), Named(a=torch.tanh(self.fc(x))))",
    "a list of its own class": "Several([torch.tanh(self.fc(x))])",
    "slots, in what can be called": "Called(torch.tanh(self.fc(x)))",
    "values of a dictionary, twice": "(lambda p: [p, p])({1: Plain(torch.tanh(self.fc(x)))}.values())",
}
HOLDERS = """
from dataclasses import dataclass

@dataclass
class Output:
    first: object
    second: object

class Plain:
    def __init__(self, held):
        self.held = held
        self.owner = self

class Named(dict):
    pass

class Several(list):
    pass

class Called:
    __slots__ = "held"

    def __init__(self, held):
        self.held = held

    def __call__(self):
        return self.held
"""


@pytest.mark.parametrize("form", OBJECTS)
def test_results_in_objects_of_any_class_are_compared(tmp_path: Path, form: str) -> None:
    file = tmp_path / "model_of_objects.py"
    file.write_text(HOLDERS + SCRIPT.replace("torch.tanh(self.fc(x))", OBJECTS[form]))
    subject = Subject(load_model_script(file))
    assert subject.why_unprovable is None
    right = backend_that(tmp_path, "right_in_objects", "out")
    assert check_backend(right, subject, error_budget=1e-3)[0].passed
    wrong = backend_that(tmp_path, "wrong_in_objects", "out + 0.01")
    assert not check_backend(wrong, subject, error_budget=1e-3)[0].passed


NOTHING = {
    "no tensor": (
        ("return torch.tanh(self.fc(x))", "x.copy_(self.fc(x))"),
        "nothing that it gives is a tensor, or holds one: return what is computed",
    ),
    "no rows": (
        ("torch.randn(8, 16)", "torch.randn(0, 16)"),
        "no tensor that it gives has an element: give it inputs of another size",
    ),
}


@pytest.mark.parametrize("what", NOTHING)
def test_a_result_of_nothing_proves_nothing(tmp_path: Path, what: str) -> None:
    change, reason = NOTHING[what]
    file = tmp_path / "model_of_nothing.py"
    file.write_text(SCRIPT.replace(*change))
    subject = Subject(load_model_script(file))
    verdict, _ = check_backend(
        backend_that(tmp_path, "gives_nothing", "out"), subject, error_budget=1e-3
    )
    assert not verdict.passed and verdict.checks[-1].text.startswith(reason)


@pytest.mark.parametrize(
    ("text", "failed", "why"),
    [
        ("def broken(:", "syntax", "invalid syntax"),
        ("import no_such_module_here", "import", "No module named"),
        (SCRIPT, "import", "is no backend: sets no BACKEND_NAME"),
        (
            'BACKEND_NAME = "never_registered"\nREWRITES = ()\napplied = {}',
            "registration",
            "never_registered is not known",
        ),
    ],
)
def test_a_broken_file_is_named(
    tmp_path: Path, subject: Subject, text: str, failed: str, why: str
) -> None:
    file = tmp_path / f"broken_{failed}.py"
    file.write_text(text)
    verdict, program = check_backend(file, subject, error_budget=1e-3)
    assert program is None
    (wrong,) = [check for check in verdict.checks if not check.passed]
    assert wrong.name == failed and why in wrong.text


def test_a_backend_that_never_ran_is_not_valid(tmp_path: Path, subject: Subject) -> None:
    file, _ = emit([], tmp_path / "never_ran.py")
    subject.script.module.forward = torch._dynamo.disable(subject.script.module.forward)
    verdict, _ = check_backend(file, subject, error_budget=1e-3)
    assert not verdict.passed
    assert (verdict.checks[-1].name, verdict.checks[-1].passed) == ("ran", False)


def test_a_backend_that_left_everything_to_inductor_is_not_valid(
    tmp_path: Path, subject: Subject
) -> None:
    file, _ = emit([], tmp_path / "refuses_all.py")
    decides = "    graph.refusal = _reason_to_leave_alone(module, inputs)"
    source = file.read_text()
    assert decides in source
    file.write_text(source.replace(decides, '    graph.refusal = "of a test"'))
    verdict, _ = check_backend(file, subject, error_budget=1e-3)
    assert (verdict.checks[-1].name, verdict.checks[-1].passed) == ("ran", False)
    assert "0% of 1 calls; of a test" in verdict.checks[-1].text


def probed(file: Path, subject: Subject) -> dict[str, tuple[bool, str]]:
    verdict, program = check_backend(file, subject, error_budget=1e-3)
    assert verdict.passed and program is not None
    before = len(verdict.checks)
    probe_backend(verdict, subject, sys.modules[file.stem], program, error_budget=1e-3)
    return {check.name: (check.passed, check.text) for check in verdict.checks[before:]}


def test_a_right_backend_passes_all_probes(tmp_path: Path, subject: Subject) -> None:
    file, _ = emit([], tmp_path / "probed.py")
    file.write_text(
        file.read_text().replace("STRATEGY = Strategy()", "STRATEGY = Strategy(prologue=True)")
    )
    weights = [parameter.clone() for parameter in subject.module.parameters()]
    found = probed(file, subject)
    assert all(passed for passed, _ in found.values()), found
    assert found["weights"][1] == "written, replaced, data replaced, refresh(), and back"
    assert found["results"][1] == "kept, written"
    assert "slices, expanded, twice the batch, inference mode" in found["inputs"][1]
    assert "100%" in found["own share"][1] and "past Dynamo" in found["own share"][1]
    pairs = zip(weights, subject.module.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize(
    ("name", "setup", "result", "failed"),
    [
        # Weights as they were when the graph was compiled.
        ("stale", "old = [v.clone() for v in inputs]", "module(*old[:2], *values[2:])", "weights"),
        # One buffer for all results.
        ("shared", "kept = []", "reused(kept, module(*values))", "results"),
        ("shapes", "pass", "[v[:8] for v in module(*values)]", "inputs"),
    ],
)
def test_a_backend_that_is_wrong_later_does_not_pass(
    tmp_path: Path, subject: Subject, name: str, setup: str, result: str, failed: str
) -> None:
    file = tmp_path / f"later_{name}.py"
    file.write_text(
        "import torch\nfrom torch._dynamo import register_backend\n"
        f'BACKEND_NAME = "later_{name}"\nREWRITES = ()\napplied = {{}}\n'
        "def reused(kept, results):\n"
        "    if kept and kept[0].shape == results[0].shape:\n"
        "        return [kept[0].copy_(results[0])]\n"
        "    kept[:] = [results[0].clone()]\n"
        "    return list(kept)\n"
        "@register_backend(name=BACKEND_NAME)\n"
        "def backend(module, inputs):\n"
        f"    {setup}\n"
        "    def run(*values):\n"
        f"        return {result}\n"
        "    return run\n"
    )
    found = probed(file, subject)
    assert failed in [name for name, (passed, _) in found.items() if not passed], found


def test_the_share_of_time_is_that_of_the_programs(tmp_path: Path) -> None:
    file = tmp_path / "half_compiled.py"
    # The second half is never the backend's: it sleeps outside of what Dynamo sees.
    file.write_text(
        SCRIPT.replace("import torch\n", "import time, torch\n", 1).replace(
            "return torch.tanh(self.fc(x))",
            "y = torch.tanh(self.fc(x))\n        self.wait()\n        return y\n\n"
            "    @torch.compiler.disable\n    def wait(self):\n        time.sleep(SLEEP)",
        )
    )
    shares = []
    for seconds in (0.0, 0.05):
        own = tmp_path / f"half_{seconds > 0}.py"
        own.write_text(file.read_text().replace("SLEEP", str(seconds)))
        subject = Subject(load_model_script(own))
        backend_file = emit([], tmp_path / f"timed_{seconds > 0}.py")[0]
        verdict, program = check_backend(backend_file, subject, error_budget=1e-3)
        assert verdict.passed and program is not None
        shares.append(own_share(subject, sys.modules[backend_file.stem], program))
    assert shares[0] is not None and shares[1] is not None
    assert 0 < shares[1] < 0.1 and shares[1] < shares[0] <= 1


def test_errors_are_relative_and_never_hide_what_is_no_number() -> None:
    one = torch.ones(4)
    assert relative_error(one * 1.5, one) == pytest.approx(0.5)
    assert relative_error(torch.zeros(4), torch.zeros(4)) == 0
    assert math.isnan(relative_error(torch.tensor([1.0, math.nan]), torch.ones(2)))
    assert math.isnan(relative_error(torch.ones(2), torch.tensor([1.0, math.inf])))


@pytest.mark.parametrize(
    ("first", "second", "kept"), [(80, 85, True), (80, 101, False), (99, 99, False)]
)
def test_a_gain_has_to_show_twice(first: int, second: int, kept: bool) -> None:
    verdict = Verdict(
        measurement=Measurement(
            {"base": [100, 200], "new": [first, 2 * first]},
            {"base": [100, 300], "new": [second, 3 * second]},
        )
    )
    assert judge_gain(verdict, "new", "base") is kept
    assert verdict.passed is kept


def test_training_without_a_step_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "training_model.py"
    file.write_text(SCRIPT.replace("Model().eval()", "Model().train()"))
    with pytest.raises(OpprofError, match="in training mode"):
        Subject(load_model_script(file))
