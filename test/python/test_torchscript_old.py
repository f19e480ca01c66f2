"""Archives that PyTorch 1.13 wrote give graphs that compute what it computed; torchscript_old/make.py made them.

OPPROF_OLD_ARCHIVES names another folder that it made, such as one of all its models, or of another version.
"""

import copy
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
import test_torchscript as new
import torch
from torchscript_models import texts_of

HERE = Path(__file__).parent / "torchscript_old"
FOLDER = Path(os.environ.get("OPPROF_OLD_ARCHIVES", HERE / "1.13"))
RESULTS: dict[str, Any] = torch.load(FOLDER / "results.pt")

pytestmark = pytest.mark.filterwarnings("ignore")
warnings.filterwarnings("ignore", category=DeprecationWarning)


def call(function: Any, inputs: tuple[Any, ...]) -> Any:
    """The result for copies, as what is called may write them."""
    with torch.no_grad():
        return function(*copy.deepcopy(inputs))


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_the_old_ones(tmp_path: Path, name: str) -> None:
    about = RESULTS[name]
    inputs = about["inputs"]
    archive = tmp_path / f"{name}.pt"
    archive.write_bytes((FOLDER / archive.name).read_bytes())
    document = new.convert(archive, inputs=inputs)
    for node in new.nodes_of(new.graph_of(document)):
        assert "stack" in node and "modules" in node, node
    graph = new.import_mlir(document)
    if about["layers"]:
        assert max(map(len, new.classes_of(graph))) == about["layers"]
    loaded = torch.jit.load(archive)
    result = call(new.load_program(graph, loaded), inputs)
    new.assert_same(result, call(loaded, inputs))
    # Of 8 bits, products that are added in another order differ by some of the last.
    bounds = {"rtol": 0.02, "atol": 0.1} if name == "half" else {}
    torch.testing.assert_close(result, about["outputs"], **bounds)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lite-flatbuffer", "it is a flatbuffer of PyTorch's lite interpreter"),
        ("flatbuffer", "it is a flatbuffer of PyTorch's lite interpreter"),
        ("checkpoint", "a checkpoint of torch.save holds weights and no graph"),
        ("pickle", "it is a pickle, as torch.save wrote them before PyTorch 1.6"),
    ],
)
def test_other_forms_are_refused(tmp_path: Path, name: str, says: str) -> None:
    archive = tmp_path / f"{name}.pt"
    archive.write_bytes((FOLDER / archive.name).read_bytes())
    inputs = texts_of(RESULTS["mixed"]["inputs"])
    assert says in new.refusal(archive, *(f"--input={text}" for text in inputs))
