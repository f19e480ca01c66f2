"""What a model is checked on: inputs of its script, or changed ones that break nothing; and where it runs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from opprof.commands import profile
from opprof.errors import OpprofError
from opprof.export.fresh_inputs import BoundsCheck, Integers, OutOfBounds, fresh
from opprof.export.model_script import ModelScript, load_model_script


def script_of(module: nn.Module, *args: Any) -> ModelScript:
    return ModelScript(Path("model.py"), "model", module, args, {})


class Bags(nn.Module):
    """Ids in bags, whose offsets begin at 0 and never fall."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 4)

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        return self.bag(ids, offsets)


class Tables(nn.Module):
    """One table a column, of other sizes each."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 4) for size in (1000, 10, 3))

    def forward(self, ids: Tensor) -> Tensor:
        return sum(table(ids[:, i]) for i, table in enumerate(self.tables))


class TransposedTables(Tables):
    """The same with a table a row."""

    def forward(self, ids: Tensor) -> Tensor:
        return sum(table(ids[i]) for i, table in enumerate(self.tables))


def test_offsets_stay_and_ids_change_places() -> None:
    ids, offsets = torch.randperm(40), torch.tensor([0, 7, 7, 20])
    script = script_of(Bags(), ids, offsets)
    (other, same), _ = script.inputs(11)
    assert torch.equal(same, offsets)
    assert not torch.equal(other, ids) and torch.equal(other.sort()[0], ids.sort()[0])
    (again, _), _ = script.inputs(11)
    assert torch.equal(again, other)


def test_columns_of_other_ranges_keep_theirs() -> None:
    torch.manual_seed(0)
    ids = torch.stack([torch.randint(size, (16,)) for size in (1000, 10, 3)], dim=1)
    (other,), _ = script_of(Tables(), ids).inputs(11)
    assert not torch.equal(other, ids)
    assert all(torch.equal(other[:, i].sort()[0], ids[:, i].sort()[0]) for i in range(3))
    (kept,), _ = script_of(TransposedTables(), ids.T.contiguous()).inputs(11)
    assert torch.equal(kept, ids.T)


def test_rows_of_several_tensors_change_places_together() -> None:
    first, second = torch.tensor([[5, 2], [9, 10], [7, 1]]), torch.tensor([3, 1, 2])
    for seed in range(4):
        one, other = fresh((first, second), seed, Integers.ROWS)
        pairs = {(5, 3), (9, 1), (7, 2)}
        assert {(int(a), int(b)) for a, b in zip(one[:, 0], other, strict=True)} == pairs


@pytest.mark.parametrize(
    "leaf",
    [
        torch.tensor([[1, 1, 0], [1, 0, 0]]),
        torch.tensor([True, False, True]),
        torch.tensor([9, 4, 1]),
        torch.tensor(7),
        torch.arange(8).expand(2, 8),
        torch.tensor([[0.0, -torch.inf], [0.0, 0.0]]),
        torch.tensor([[0.0, -1e9], [0.0, 0.0]]),
    ],
)
def test_masks_positions_and_lengths_stay(leaf: Tensor) -> None:
    assert torch.equal(fresh(leaf, 3, Integers.SHUFFLED), leaf)


def test_what_is_nowhere_negative_stays_so() -> None:
    leaf = torch.rand(100)
    other = fresh(leaf, 3, Integers.SHUFFLED)
    assert not torch.equal(other, leaf) and bool((other >= 0).all())
    assert bool((fresh(torch.randn(100), 3, Integers.SHUFFLED) < 0).any())


@pytest.mark.parametrize(
    "read",
    [
        lambda x, i: torch.nn.functional.embedding(i, x),
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(0, i[:, None]),
        lambda x, i: x.scatter(0, i[:, None], 1.0),
        lambda x, i: torch.nn.functional.embedding_bag(i, x, torch.tensor([0])),
    ],
)
def test_indices_are_checked_before_anything_reads(read: Any) -> None:
    x = torch.randn(6, 6)
    with BoundsCheck():
        read(x, torch.tensor([0, 5]))
        with pytest.raises(OutOfBounds):
            read(x, torch.tensor([0, 6]))


def test_the_script_says_what_other_inputs_are_like(script: Any) -> None:
    path = script("""
        def get_inputs(seed):
            return torch.full((4,), seed)


        def get_model_and_input():
            return torch.nn.Embedding(64, 3).eval(), torch.arange(4)
    """)
    (value,), _ = load_model_script(path).inputs(23)
    assert value.tolist() == [23] * 4


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("torch.ones(3)", "torch.float32 (3,) on cpu where get_model_and_input() gives"),
        ("(torch.ones(4), 1)", "another structure"),
        ("1 / 0", "get_inputs(11) failed: ZeroDivisionError"),
    ],
)
def test_other_forms_of_input_are_refused(script: Any, made: str, message: str) -> None:
    path = script(
        f"def get_inputs(seed): return {made}\n"
        "def get_model_and_input(): return torch.nn.ReLU().eval(), torch.ones(4)\n"
    )
    with pytest.raises(OpprofError) as error:
        load_model_script(path).inputs(11)
    assert message in str(error.value)


def test_a_model_left_on_the_cpu_beside_a_gpu_is_named_so(
    capsys: pytest.CaptureFixture[str], script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script("def get_model_and_input(): return torch.nn.ReLU().eval(), torch.ones(1)\n")
    load_model_script(path)
    assert "--device" not in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert load_model_script(path).device_type == "cpu"
    assert "leaves its model on the CPU" in capsys.readouterr().err
    load_model_script(path, device="cpu")
    assert "leaves" not in capsys.readouterr().err


def test_model_and_inputs_are_moved(script: Any) -> None:
    path = script("""
        def get_inputs(seed):
            return {"x": torch.ones(2)}


        def get_model_and_input():
            return torch.nn.Linear(2, 2).eval(), {"x": torch.ones(2)}
    """)
    # A device that every machine has.
    moved = load_model_script(path, device="meta")
    assert moved.module.weight.device.type == "meta"
    assert moved.kwargs["x"].device.type == "meta"
    assert moved.inputs(1)[1]["x"].device.type == "meta"
    if not torch.cuda.is_available():
        with pytest.raises(OpprofError, match="PyTorch sees no GPU"):
            load_model_script(path, device="cuda")


def test_a_profile_of_the_cpu_bears_its_name_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    script = script_of(nn.Linear(4, 4), torch.ones(2, 4))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert profile.facts_of(script)["device"]["type"] == "cpu"
    assert profile.why_no_capture(script) == "the model is on the CPU"
