"""References in float64 of models whose code asks for float32."""

from pathlib import Path
from typing import Any

import pytest
import torch

from opprof.backend.checks import Subject
from opprof.backend.promotion import Promoted, grouped_product
from opprof.export.model_script import load_model_script

TIMES = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 8)

    def forward(self, x, t):
        f = torch.exp(-torch.arange(8, device=x.device, dtype=torch.float32))
        e = t[:, None].float() * f
        e = torch.cat([e.sin(), e.cos()], -1).to(torch.float32)
        return x + self.linear(e) * torch.ones(8) + FURTHER


def get_model_and_input():
    torch.manual_seed(0)
    return Model().eval(), (torch.randn(4, 8), torch.arange(4))
"""


def subject(tmp_path: Path, text: str) -> Subject:
    path = tmp_path / "model.py"
    path.write_text(text)
    return Subject(load_model_script(str(path)))


def test_embeddings_of_times_are_held_against_float64(tmp_path: Path) -> None:
    found = subject(tmp_path, TIMES.replace("FURTHER", "0"))
    assert found.reference == "float64"
    assert all(value.dtype == torch.float64 for value in found.references[11])
    # Rounding of float32, and no nothing.
    assert 1e-9 < found.error_of(found.eager) < 1e-5


@pytest.mark.parametrize(
    ("further", "reason"),
    [
        # Another function in float64: it looks at its own type.
        ("(1.0 if self.linear.weight.dtype is torch.float64 else 0.0)", "may be another function"),
        # Another by less than what narrow types may differ by.
        ("(0.01 if self.linear.weight.dtype is torch.float64 else 0.0)", "may be another function"),
        # An operator that has no float64.
        ("torch.ops.no.such_operator(x) if x.dtype is torch.float64 else 0", "such_operator"),
    ],
)
def test_what_is_another_model_in_float64_is_held_against_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], further: str, reason: str
) -> None:
    found = subject(tmp_path, TIMES.replace("FURTHER", further))
    assert found.reference == "the uncompiled model"
    assert found.error_of(found.eager) == 0
    assert reason in capsys.readouterr().err


def test_random_numbers_are_others_in_float64(tmp_path: Path) -> None:
    found = subject(tmp_path, TIMES.replace("FURTHER", "0.01 * torch.randn(4, 8)"))
    assert found.reference == "the uncompiled model"


WRITES = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.cache = torch.zeros(4, 8)
        self.seen = None
        self.calls = 0
        self.log = []

    def forward(self, x):
        x = self.linear(x.float()) * torch.ones(8, dtype=torch.float32)
        self.calls += 1
        WRITE
        return x + self.cache + self.calls


def get_model_and_input():
    torch.manual_seed(0)
    return Model().eval(), (torch.randn(4, 8, dtype=torch.float16),)
"""


@pytest.mark.parametrize(
    "write",
    [
        "self.cache.add_(x)",
        "self.cache += x",
        "self.cache[1:3] = x[1:3]",
        "self.cache.view(-1).add_(x.view(-1))",
        "torch.add(self.cache, x, out=self.cache)",
        "torch.nn.functional.relu(self.cache.sub_(x), inplace=True)",
        "self.log.append(x); x = x + torch.stack(self.log).sum(0)",
        "self.seen = x if self.seen is None else self.seen + x; x = x + self.seen",
    ],
)
def test_what_a_call_writes_is_in_the_reference(tmp_path: Path, write: str) -> None:
    found = subject(tmp_path, WRITES.replace("WRITE", write))
    own = found.run(found.eager, 11)
    assert found.reference == "float64"
    torch.testing.assert_close(found.references[11][0].float(), own[0])
    # Each run begins with what the module held.
    assert found.error_of(found.eager) == found.error_of(found.eager) < 1e-5


GATED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64, dtype=torch.bfloat16)
        self.gate = nn.Linear(64, 8)

    def forward(self, x):
        return self.gate(self.linear(x).to(torch.float32))


def get_model_and_input():
    torch.manual_seed(0)
    return Model().eval(), torch.randn(4, 64, dtype=torch.bfloat16)
"""


def test_what_is_narrow_may_differ_by_its_own_rounding(tmp_path: Path) -> None:
    found = subject(tmp_path, GATED)
    assert found.reference == "float64"
    assert 1e-3 < found.error_of(found.eager) < 5e-2


def test_memory_that_others_hold_says_nothing_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = subject(tmp_path, TIMES.replace("FURTHER", "0"))
    found.gives_way = True

    def fail(*_: Any) -> Any:
        raise torch.OutOfMemoryError("nothing is left")

    with monkeypatch.context() as patched:
        patched.setattr(found, "_run_wide", fail)
        with pytest.raises(torch.OutOfMemoryError):
            _ = found.references
    found.gives_way = False
    assert found.reference == "float64"


def test_memory_that_two_tensors_share_is_refused() -> None:
    table = torch.zeros(4)
    part = table[:2]
    with Promoted():
        part.add_(1)
        with pytest.raises(RuntimeError, match="share memory"):
            table.sum()


def test_narrower_floats_are_meant() -> None:
    x: Any = torch.ones(2)
    with Promoted():
        assert (x.half() + 1).dtype == torch.float16
        assert torch.zeros(2).dtype == torch.zeros(2, dtype=torch.float32).dtype == torch.float64
        assert x.float().dtype == x.to(torch.float32).dtype == torch.float64
        assert (torch.arange(3) > 1).dtype == torch.bool
    assert torch.zeros(2).dtype == torch.float32


def test_grouped_products_are_those_of_pytorch() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(24, 16), torch.randn(3, 16, 8)
    offs = torch.tensor([8, 8, 24], dtype=torch.int32)
    try:
        expected = torch._grouped_mm(left.bfloat16(), right.bfloat16(), offs=offs)
    except (AttributeError, RuntimeError):
        pytest.skip("this PyTorch has no grouped products here")
    own = grouped_product(left.bfloat16(), right.bfloat16(), offs)
    torch.testing.assert_close(own, expected, atol=1e-1, rtol=1e-2)
    with Promoted():
        wide = torch._grouped_mm(left, right, offs=offs)
    assert wide.dtype == torch.float64
    torch.testing.assert_close(wide.float(), own.float(), atol=1e-1, rtol=1e-1)
