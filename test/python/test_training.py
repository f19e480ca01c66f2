"""Backends for steps of training: their gradients are those of autograd in float64, and what cannot keep them right is left out."""

import copy
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from opprof.backend.checks import Subject, check_backend, load_backend
from opprof.backend.emit import emit
from opprof.backend.rewrites import Script
from opprof.backend.training import TrainingSubject, subject_of
from opprof.commands.optimize import OptimizeOptions, optimize, widen_budget
from opprof.commands.profile import ProfileOptions
from opprof.commands.validate import validate
from opprof.errors import OpprofError
from opprof.export.model_script import load_model_script
from opprof.search.training import training_recipes

# Batch norm writes its statistics, the ReLU what it takes, and dropout that is off stays.
MODEL = """
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8) if NORMALIZES else nn.Identity()
        self.up = nn.Linear(8 * 6 * 6, 64)
        self.norm = nn.LayerNorm(64)
        self.drop = nn.Dropout(0.0)
        self.down = nn.Linear(64, 4)

    def forward(self, x, y):
        x = F.relu_(self.bn(self.conv(x))).flatten(1)
        x = self.drop(F.gelu(self.norm(self.up(x))))
        return F.cross_entropy(self.down(x), y)


def get_model_and_input():
    torch.manual_seed(0)
    return Model().train(), (torch.randn(6, 3, 8, 8), torch.randint(0, 4, (6,)))
"""
STEP = """

def make_step(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
"""


def write(folder: Path, *, normalizes: bool = True, step: str = STEP) -> Path:
    file = folder / "training_model.py"
    file.write_text(MODEL.replace("NORMALIZES", str(normalizes)) + step)
    return file


def strategy(folder: Path, text: str) -> Path:
    """A backend whose only script asks for these strategies."""
    script = folder / "strategy.mlir"
    script.write_text(
        "module attributes {transform.with_named_sequence} {\n"
        "  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {\n"
        f"    transform.fx.region_strategy %root {{{text}}} : !transform.any_op\n"
        "    transform.yield\n  }\n}\n"
    )
    output = folder / "trained_by.py"
    emit([Script(script, "strategy")], output)
    return output


def gradients(module: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.double().flatten() for p in module.parameters() if p.grad is not None])


def trained(module: nn.Module, called: Any, inputs: tuple[Any, ...]) -> torch.Tensor:
    called(*inputs).backward()
    return gradients(module)


def error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


@pytest.mark.parametrize(
    ("text", "normalizes", "most", "least", "left_out"),
    [
        ("training", True, 1e-6, 0.0, ()),
        # A CPU has no such units.
        ("training, tf32", True, 1e-6, 0.0, ()),
        ('training, precision = "bfloat16"', False, 5e-2, 1e-4, ()),
        ('training, regions = {"linear 6x64 4x64" = "bfloat16"}', False, 2e-2, 1e-4, ()),
        ('training, precision = "bfloat16"', True, 1e-6, 0.0, ("precision",)),
        ('training, precision = "float16"', False, 1e-6, 0.0, ("precision",)),
        ('training, regions = {gelu = "float16"}', False, 1e-6, 0.0, ("regions",)),
        (
            "training, freeze, prologue, cuda_graph",
            True,
            1e-6,
            0.0,
            ("prologue", "freeze", "cuda_graph"),
        ),
    ],
)
def test_gradients_are_those_of_float64(
    tmp_path: Path,
    text: str,
    normalizes: bool,
    most: float,
    least: float,
    left_out: tuple[str, ...],
) -> None:
    loaded = load_model_script(write(tmp_path, normalizes=normalizes))
    backend = load_backend(strategy(tmp_path, text))
    module = copy.deepcopy(loaded.module)
    double = copy.deepcopy(loaded.module).double()
    images, classes = loaded.args
    expected = trained(double, double, (images.double(), classes))
    optimized = backend.optimize(module)
    found = error(trained(module, optimized, loaded.args), expected)
    assert least <= found <= most
    assert {p.grad.dtype for p in module.parameters() if p.grad is not None} == {torch.float32}
    (graph,) = backend.status()["graphs"]
    assert graph.refusal is None and graph.calls == 1
    assert [line.partition(":")[0] for line in graph.left_out] == list(left_out)
    if normalizes:
        assert torch.allclose(module.bn.running_mean.double(), double.bn.running_mean)
    # Weights change, as they do: the second step is of the new ones.
    for trained_module in (module, double):
        with torch.no_grad():
            for weight in trained_module.parameters():
                weight.mul_(1.5)
                weight.grad = None
    again = trained(double, double, (images.double(), classes))
    assert error(trained(module, optimized, loaded.args), again) <= most
    assert error(again, expected) > 0.05


def test_a_backend_of_inference_leaves_training_alone(tmp_path: Path) -> None:
    loaded = load_model_script(write(tmp_path, normalizes=False))
    backend = load_backend(strategy(tmp_path, 'precision = "bfloat16"'))
    backend.optimize(loaded.module)(*loaded.args).backward()
    (graph,) = backend.status()["graphs"]
    assert graph.refusal == "gradients are needed"


class Rounded(torch.autograd.Function):
    """Rounds, and lets gradients through."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.round(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Halves(nn.Module):
    """Two layers, and between them what is done to the first one's result."""

    def __init__(self, between: Any) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.between(self, x)).square().mean()


def hooked(self: Halves, x: torch.Tensor) -> torch.Tensor:
    y = self.a(x)
    y.register_hook(lambda gradient: gradient * 5)
    return y


def without(self: Halves, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        fixed = self.a(x) * 2
    return fixed + self.a(x)


BETWEEN = {
    "custom function": (lambda self, x: Rounded.apply(self.a(x) * 3), "autograd_function_apply"),
    "hook": (hooked, "register_hook"),
    "checkpoint": (
        lambda self, x: torch.utils.checkpoint.checkpoint(
            lambda y: torch.tanh(self.a(y)), x, use_reentrant=False
        ),
        "checkpoint",
    ),
    "no_grad": (without, None),
    "detach": (lambda self, x: self.a(x).detach() * x + self.a(x), None),
}


@pytest.mark.parametrize("kind", BETWEEN)
def test_what_has_gradients_of_its_own_is_left_to_inductor(tmp_path: Path, kind: str) -> None:
    between, reason = BETWEEN[kind]
    backend = load_backend(strategy(tmp_path, "training"))
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = Halves(between)
    plain, x = copy.deepcopy(module), torch.randn(4, 8)
    expected = trained(plain, plain, (x,))
    found = trained(module, backend.optimize(module), (x,))
    assert found.shape == expected.shape and error(found, expected) < 1e-6
    refusals = [graph.refusal for graph in backend.status()["graphs"]]
    assert refusals == [None] if reason is None else all(reason in (r or "") for r in refusals)


def test_one_layers_wrong_gradient_is_not_hidden_by_the_others(tmp_path: Path) -> None:
    file = write(tmp_path)
    text = file.read_text().replace(
        "return F.cross_entropy(self.down(x), y)", "return self.scaled(x, y)"
    )
    file.write_text(
        text.replace(
            "    def forward(self, x, y):",
            "    def scaled(self, x, y):\n"
            "        return F.cross_entropy(self.down(x) + 1e-3 * self.gate(x), y)\n\n"
            "    def forward(self, x, y):",
        ).replace("self.drop =", "self.gate = nn.Linear(64, 4)\n        self.drop =")
    )
    subject = subject_of(load_model_script(file))
    loss, flat = subject.run(subject.eager, 11)
    assert subject.error_between([loss, flat], 11) < 1e-4
    assert isinstance(subject, TrainingSubject)
    parts = list(flat.split(subject._sizes))
    names = [name for name, _ in subject.module.named_parameters()]
    gate = names.index("gate.weight")
    parts[gate] = -parts[gate]
    reversed_gate = torch.cat(parts)
    assert error(reversed_gate.double(), flat.double()) < 2e-2
    assert subject.error_between([loss, reversed_gate], 11) == pytest.approx(2, rel=0.01)


ATTENTION = """
import math
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 5, 3, 2, 8).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), -1)
        return (scores @ v).square().mean()


def get_model_and_input():
    torch.manual_seed(0)
    return Model().train(), torch.randn(2, 5, 16)


def make_step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def step(x):
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step
"""


def test_rules_offer_a_step_what_keeps_gradients_right(tmp_path: Path) -> None:
    file = tmp_path / "attends.py"
    file.write_text(ATTENTION)
    options = OptimizeOptions(
        seconds=0.2, profile=ProfileOptions(counters="none", timed_seconds=0.1, timed=3)
    )
    outcome = optimize(str(file), tmp_path / "out", options)
    names = {trial.script.name for trial in outcome.trials}
    assert "attention" in " ".join(names), names
    # What is frozen is said to be left out, with the reason, and not tried.
    index = (tmp_path / "out" / "rewrites" / "rewrites.json").read_text()
    assert "change in every step of training" in index
    assert not {"freeze", "float16", "bfloat16"} & names
    for trial in outcome.trials:
        assert trial.error is None or trial.error < 1e-5, trial
    assert {one.name for one in outcome.entrants} >= {"eager", "Inductor", "bfloat16 autocast"}
    script = next(t.script for t in outcome.trials if "attention" in t.script.name)
    emit([script], tmp_path / "attends_better.py", model=str(file))
    verdict = validate(tmp_path / "attends_better.py", model=str(file))
    found = {check.name: check for check in verdict.checks}
    assert found["applied"].passed and "attention" in found["applied"].text
    assert found["equality"].passed and found["losses"].passed


def test_a_step_that_draws_numbers_is_compared_with_what_draws_the_same(tmp_path: Path) -> None:
    file = write(tmp_path)
    with torch._inductor.config.patch(fallback_random=False):
        assert not subject_of(load_model_script(file)).draws
        file.write_text(file.read_text().replace("Dropout(0.0)", "Dropout(0.5)"))
        subject = subject_of(load_model_script(file))
        assert subject.draws and torch._inductor.config.fallback_random
        verdict, _ = check_backend(strategy(tmp_path, "training"), subject, error_budget=1e-4)
        assert verdict.passed, verdict.lines()


@pytest.mark.parametrize(("factor", "budget"), [(1.0, 1e-3), (1 + 4e-3, 8e-3), (1.2, None)])
def test_what_the_model_errs_by_itself_is_allowed_up_to_a_limit(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, factor: float, budget: float | None
) -> None:
    references = {
        seed: [value * factor for value in values] for seed, values in subject.references.items()
    }
    monkeypatch.setitem(vars(subject), "references", references)
    options = OptimizeOptions()
    if budget is None:
        with pytest.raises(OpprofError, match="itself errs by"):
            widen_budget(subject, options)
    else:
        widen_budget(subject, options)
        assert options.error_budget == pytest.approx(budget, rel=0.01)


def test_a_step_without_gradients_says_so(tmp_path: Path) -> None:
    step = STEP.replace("loss.backward()", "pass")
    with pytest.raises(OpprofError, match="no optimizer took a gradient"):
        subject_of(load_model_script(write(tmp_path, step=step)))


def test_gradients_without_an_optimizer_are_those_that_are_left(tmp_path: Path) -> None:
    step = textwrap.dedent("""
        def make_step(model):
            def step(x, y):
                loss = model(x, y)
                loss.backward()
                return loss.item()
            return step
    """)
    subject = subject_of(load_model_script(write(tmp_path, step=step)))
    assert subject.reference == "float64"
    loss, flat = subject.run(subject.eager, 11)
    module = copy.deepcopy(subject.script.module)
    args, _ = subject.inputs(11)
    expected = module(*args)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item())
    assert error(flat.double(), gradients(module)) < 1e-6
    # Once more: gradients do not add up over runs.
    assert torch.equal(subject.run(subject.eager, 11)[1], flat)


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return subject_of(load_model_script(write(tmp_path)))


def backend_that(tmp_path: Path, name: str, body: str) -> Path:
    file = tmp_path / f"{name}.py"
    file.write_text(
        "import torch\nfrom torch._dynamo import register_backend\n"
        f'BACKEND_NAME = "{name}"\nREWRITES = ()\napplied = {{}}\ncalls = [0]\n'
        "@register_backend(name=BACKEND_NAME)\n"
        "def backend(module, inputs):\n"
        "    def run(*values):\n"
        "        calls[0] += 1\n"
        f"        return {body}\n"
        "    return run\n"
    )
    return file


@pytest.mark.parametrize(
    ("name", "body", "failed"),
    [
        ("same_step", "module(*values)", None),
        # The loss is right, its gradient twice what it should be.
        ("double_gradient", "[2 * v - v.detach() for v in module(*values)]", "equality"),
        # Right on each input alone, and wrong once the weights have moved.
        ("wrong_later", "[v * (1.01 if calls[0] > 8 else 1) for v in module(*values)]", "losses"),
    ],
)
def test_wrong_gradients_and_wrong_curves_do_not_pass(
    tmp_path: Path, subject: Subject, name: str, body: str, failed: str | None
) -> None:
    verdict, _ = check_backend(backend_that(tmp_path, name, body), subject, error_budget=1e-3)
    names = [check.name for check in verdict.checks if not check.passed]
    assert names == ([] if failed is None else [failed])


def test_every_program_begins_with_the_same_weights(subject: Subject) -> None:
    assert isinstance(subject, TrainingSubject)
    before = [p.detach().clone() for p in subject.module.parameters()]
    first = subject.run(subject.eager, 11)
    subject.run(subject.eager, 23)
    assert all(map(torch.equal, first, subject.run(subject.eager, 11)))
    subject.restore()
    assert all(map(torch.equal, before, subject.module.parameters()))
    assert not any(p.grad is not None for p in subject.module.parameters())
    assert int(subject.module.bn.num_batches_tracked) == 0


def test_recipes_of_training_compute_what_they_say(subject: Subject) -> None:
    found = {way.name: way for way in training_recipes(subject)}
    fused = subject.error_of(found["fused optimizer"].make(subject))
    narrow = subject.error_of(found["bfloat16 autocast"].make(subject))
    assert fused < 1e-5 < narrow < 0.1


def test_a_fused_optimizer_is_one(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.optim import adam

    calls: list[int] = []
    original = adam._fused_adam

    def fused(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(adam, "_fused_adam", fused)
    ways = {way.name: way for way in training_recipes(subject)}
    subject.run(ways["Inductor"].make(subject), 11)
    assert not calls
    subject.run(ways["fused optimizer"].make(subject), 11)
    assert calls
