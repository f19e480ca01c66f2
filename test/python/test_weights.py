"""Weights files hold every tensor of the graph, bit by bit."""

import json
from pathlib import Path

import numpy
import pytest
import torch

from opprof.errors import OpprofError
from opprof.export.weights import save_weights, weights_of_module, weights_of_program


class Tied(torch.nn.Module):
    """Two names for one parameter, a buffer that is not saved, a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = torch.nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("scratch", torch.arange(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)) + self.scratch + torch.tensor([0.5, 0.25, 0.125])


def test_every_input_of_the_graph_has_its_tensor() -> None:
    program = torch.export.export(Tied(), (torch.ones(2, 3),))
    weights = weights_of_program(program)
    targets = {spec.target for spec in program.graph_signature.input_specs if spec.target}
    assert targets <= set(weights)
    assert torch.equal(weights["scratch"], torch.arange(3))


def test_module_names_repeat_for_tied_parameters() -> None:
    assert {"first.weight", "second.weight", "scratch"} <= set(weights_of_module(Tied()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_safetensors(tmp_path: Path, dtype: torch.dtype) -> None:
    # A transposed view: the file holds rows whatever the strides.
    tensor = (torch.randn(4, 3) * 2).to(dtype).t()
    scalar = torch.tensor(1).to(dtype)
    path = tmp_path / "weights.safetensors"
    save_weights(path, {"a.weight": tensor, "scalar": scalar})
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    for name, expected in (("a.weight", tensor), ("scalar", scalar)):
        begin, end = header[name]["data_offsets"]
        array = numpy.frombuffer(
            data[8 + length + begin : 8 + length + end], dtype=expected.numpy().dtype
        )
        assert header[name]["shape"] == list(expected.shape)
        assert numpy.array_equal(array.reshape(expected.shape), expected.numpy())


def test_bfloat16_keeps_its_bits(tmp_path: Path) -> None:
    tensor = torch.randn(5).to(torch.bfloat16)
    path = tmp_path / "weights.safetensors"
    save_weights(path, {"w": tensor})
    assert path.read_bytes()[-10:] == tensor.view(torch.int16).numpy().tobytes()


def test_pt(tmp_path: Path) -> None:
    weights = weights_of_module(Tied())
    save_weights(tmp_path / "weights.pt", weights)
    loaded = torch.load(tmp_path / "weights.pt", weights_only=True)
    assert all(torch.equal(loaded[name], value) for name, value in weights.items())


def test_a_dtype_that_safetensors_lacks(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    with pytest.raises(OpprofError, match=r"w has dtype torch\.complex64"):
        save_weights(path, {"w": torch.zeros(2, dtype=torch.complex64)})
    assert not path.exists()


def test_unknown_ending(tmp_path: Path) -> None:
    with pytest.raises(OpprofError, match=r"weights\.npz"):
        save_weights(tmp_path / "weights.npz", {})
