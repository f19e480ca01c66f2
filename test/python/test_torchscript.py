"""TorchScript archives become graphs that compute the same bits, and what is no such archive is refused."""

import copy
import importlib.util
import json
import os
import pickle
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import pytest
import torch
from torch import Tensor
from torchscript_models import (
    CASES,
    STATEFUL,
    Attention,
    Mixtures,
    Packed,
    Perceptron,
    Stack,
    save,
    texts_of,
)

from opprof.errors import OpprofError
from opprof.tools import find_tool, run_tool
from opprof.torchscript import TOOL, is_torchscript

try:
    find_tool(TOOL)
except OpprofError:
    pytest.skip("this build has no LibTorch", allow_module_level=True)

# PyTorch says of every archive that TorchScript is not developed any more.
pytestmark = pytest.mark.filterwarnings("ignore")
warnings.filterwarnings("ignore", category=DeprecationWarning)


def convert(archive: Path, *options: str, inputs: tuple[Any, ...] = ()) -> Path:
    """The graph JSON of an archive, with its weights beside it."""
    target = archive.with_suffix(".json")
    arguments = [f"--input={text}" for text in texts_of(inputs)]
    weights = f"--weights={archive.with_suffix('.safetensors')}"
    run_tool(TOOL, [archive, "-o", target, weights, *arguments, *options])
    return target


def refusal(archive: Path, *options: str) -> str:
    """What the tool says where it fails, which has to be one line of its own."""
    target = archive.with_suffix(".json")
    process = subprocess.run(
        [find_tool(TOOL), archive, "-o", target, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode in (1, 2), process.stderr
    assert not target.exists()
    assert process.stderr.startswith(f"{TOOL}: error: ")
    return process.stderr


def nodes_of(block: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes of a graph, those in blocks among them."""
    result = []
    for node in block["nodes"]:
        result.append(node)
        for inner in node.get("blocks", []):
            result.extend(nodes_of(inner))
    return result


def graph_of(document: Path) -> dict[str, Any]:
    return json.loads(document.read_text())["graphs"][0]


def import_mlir(document: Path) -> Path:
    target = document.with_suffix(".mlir")
    run_tool("opprof-translate", ["--import-fx-json", document, "-o", target])
    return target


def load_program(graph: Path, loaded: Any = None) -> Any:
    source = run_tool("opprof-translate", ["--emit-python", graph]).decode()
    path = graph.with_name("emitted_program.py")
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("emitted_program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(graph.with_suffix(".safetensors"), loaded)


def assert_same(actual: Any, expected: Any) -> None:
    if isinstance(expected, Tensor):
        assert actual.dtype == expected.dtype and torch.equal(actual, expected)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key in expected:
            assert_same(actual[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_same(left, right)
    else:
        assert actual == expected and type(actual) is type(expected)


@pytest.mark.parametrize("name", CASES)
def test_same_bits(tmp_path: Path, name: str) -> None:
    """The graph as Python gives what the loaded module gives, and its nodes say where they come from."""
    case = CASES[name]
    module = save(case, tmp_path / "model.pt")
    document = convert(tmp_path / "model.pt", *case.options, inputs=case.inputs)
    nodes = nodes_of(graph_of(document))
    targets = {node["target"] for node in nodes}
    assert targets >= set(case.holds)
    assert not targets & set(case.lacks)
    for node in nodes:
        assert "modules" in node and "stack" in node, node
    program = load_program(import_mlir(document))
    with torch.no_grad():
        expected = module(*copy.deepcopy(case.inputs))
        actual = program(*copy.deepcopy(case.inputs))
    assert_same(actual, expected)


def test_state_is_kept_between_calls(tmp_path: Path) -> None:
    """What attributes hold goes from call to call as in the module, and stays out of the weights that were given."""
    case = CASES["voice"]
    module = save(case, tmp_path / "model.pt")
    program = load_program(import_mlir(convert(tmp_path / "model.pt", inputs=case.inputs)))
    another = type(program)(program.weights)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for rate in (16000, 16000, 8000, 16000):
            assert_same(program(x, rate), module(x, rate))
        assert_same(another(x, 16000), save(case, tmp_path / "again.pt")(x, 16000))
        with pytest.raises(AssertionError, match=r"Supported rates: \[8000, 16000\]"):
            program(x, 44100)


def another(value: Any) -> Any:
    """An argument of the same type and shape, with other numbers."""
    return torch.randn_like(value) if isinstance(value, Tensor) else value


@pytest.mark.parametrize("with_inputs", [True, False])
@pytest.mark.parametrize("name", STATEFUL)
def test_calls_in_a_row(tmp_path: Path, name: str, with_inputs: bool) -> None:
    """What a call finds is what the calls before it left, whatever the one that was recorded has found."""
    case = STATEFUL[name]
    module = save(case, tmp_path / "model.pt")
    document = convert(tmp_path / "model.pt", inputs=case.inputs if with_inputs else ())
    program = load_program(import_mlir(document))
    torch.manual_seed(1)
    with torch.no_grad():
        for _ in range(6):
            args = tuple(map(another, case.inputs))
            expected = copy.deepcopy(module(*copy.deepcopy(args)))
            assert_same(program(*args), expected)


class Collects(torch.nn.Module):
    def forward(self, x: Tensor, seen: list[Tensor], by_size: dict[str, list[Tensor]]) -> int:
        seen.append(x)
        by_size["all"].append(x)
        by_size[str(x.shape[0])] = [x]
        return len(seen) + len(by_size["all"]) + len(by_size)


def test_lists_stay_the_callers(tmp_path: Path) -> None:
    archive = tmp_path / "collects.pt"
    torch.jit.script(Collects()).save(archive)
    script, program = torch.jit.load(archive), load_program(import_mlir(convert(archive)))
    x = torch.ones(2)
    for run in (script, program):
        seen, by_size = [x], {"all": [x]}
        assert [run(x, seen, by_size) for _ in range(2)] == [6, 6]
        assert len(seen) == 1 and list(by_size) == ["all"] and len(by_size["all"]) == 1


def test_sizes_of_the_input_are_asked_for(tmp_path: Path) -> None:
    archive = tmp_path / "perceptron.pt"
    torch.jit.script(CASES["perceptron"].make().eval()).save(archive)
    program = load_program(import_mlir(convert(archive, inputs=(torch.randn(2, 8),))))
    with pytest.raises(ValueError, match="made for x of the size 2x8, and got 3x8;"):
        program(torch.randn(3, 8))
    program = load_program(import_mlir(convert(archive)))
    assert program(torch.randn(3, 8)).shape == (3, 8)


def test_packed_sequences(tmp_path: Path) -> None:
    """isinstance() is answered by what the method is called with; lengths of zero, as --input makes them, cannot be packed."""
    module = torch.jit.script(Packed().eval())
    module.save(tmp_path / "model.pt")
    program = load_program(import_mlir(convert(tmp_path / "model.pt")))
    with torch.no_grad():
        for lengths in ([5, 2, 3], [1, 1, 4]):
            args = torch.randn(3, 5, 4), torch.tensor(lengths)
            assert_same(program(*args), module(*args))


def test_parts_of_one_memory(tmp_path: Path) -> None:
    """They are views of the weight that holds them all, and what was taken apart and changed is refused."""
    case = STATEFUL["windows"]
    module = save(case, tmp_path / "model.pt")
    program = load_program(import_mlir(convert(tmp_path / "model.pt")))
    weights = program.weights
    assert weights["row"].data_ptr() == weights["table"][1].data_ptr()
    # Those of a loaded archive share memory already, and stay what they are.
    own = dict(module.named_buffers())
    given = type(program)(own)
    assert all(given.weights[name] is own[name] for name in own)
    given(*case.inputs)
    assert_same(module.table, weights["table"] + case.inputs[0][0] * torch.eye(3)[1, :, None])
    apart = {name: value.clone() for name, value in own.items()}
    apart["row"] += 1
    with pytest.raises(ValueError, match=r"row, table, turned are parts of one memory .*row holds"):
        type(program)(apart)


def test_weights_in_lists_are_the_parameters(tmp_path: Path) -> None:
    """Recurrent layers keep theirs in a list: they have their names and require gradients, on which operators look."""
    case = CASES["lstm"]
    module = save(case, tmp_path / "model.pt")
    document = convert(tmp_path / "model.pt")
    inputs = [entry for entry in graph_of(document)["inputs"] if entry["kind"] != "user_input"]
    assert {entry["target"] for entry in inputs} == {name for name, _ in module.named_parameters()}
    assert {entry["kind"] for entry in inputs} == {"parameter"}
    program = load_program(import_mlir(document))
    assert all(weight.requires_grad for weight in program.weights.values())
    # Those of the module will do, by name.
    assert type(program)(module.state_dict()).weights.keys() == program.weights.keys()


@pytest.mark.parametrize("name", ["stack", "forked", "interface", "detector", "lstm"])
def test_frozen_graphs_keep_their_modules(tmp_path: Path, name: str) -> None:
    """A frozen graph's nodes are of the modules that they were called in, forked or not, and give the bits of torch.jit.freeze."""
    case = CASES[name]
    module = save(case, tmp_path / "model.pt")
    documents = [convert(tmp_path / "model.pt", *options) for options in ([], ["--freeze"])]
    document = json.loads(documents[-1].read_text())
    plain = json.loads(convert(tmp_path / "model.pt").read_text())

    def paths(one: dict[str, Any]) -> set[str]:
        nodes = nodes_of(one["graphs"][0])
        return {
            one["modules"][node["modules"]][-1]["path"]
            for node in nodes
            if node["target"].startswith("aten")
        }

    assert paths(document) == paths(plain) and paths(plain)
    program = load_program(import_mlir(convert(tmp_path / "model.pt", "--freeze")))
    frozen = torch.jit.freeze(module)
    with torch.no_grad():
        assert_same(program(*case.inputs), frozen(*copy.deepcopy(case.inputs)))


def test_frozen_layers_are_found(tmp_path: Path) -> None:
    save(CASES["stack"], tmp_path / "model.pt")
    graph = import_mlir(convert(tmp_path / "model.pt", "--freeze", inputs=CASES["stack"].inputs))
    assert [[f"layers.{i}"] for i in range(4)] in classes_of(graph)


def test_training_mode_is_not_frozen(tmp_path: Path) -> None:
    torch.jit.script(Perceptron().train()).save(tmp_path / "model.pt")
    assert "saved in training mode" in refusal(tmp_path / "model.pt", "--freeze")
    convert(tmp_path / "model.pt")


class Drops(torch.nn.Module):
    """Asks for its own mode, round a module that is in eval()."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Perceptron().eval()

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.dropout(self.inner(x), 0.5, self.training)


def test_a_wrapper_that_asks_for_its_mode_is_in_training(tmp_path: Path) -> None:
    torch.jit.script(Drops()).save(tmp_path / "model.pt")
    assert "saved in training mode" in refusal(tmp_path / "model.pt", "--freeze")
    assert json.loads(convert(tmp_path / "model.pt").read_text())["producer"]["training"] is True


class Point(NamedTuple):
    place: Tensor
    weight: Optional[Tensor]  # noqa: UP045


class Forms(torch.nn.Module):
    """Branches on what arguments hold besides numbers."""

    def forward(
        self,
        x: Tensor,
        point: Point,
        images: list[Tensor],
        named: dict[str, Tensor],
        scale: Optional[float],  # noqa: UP045
        ids: dict[int, float],
    ) -> Tensor:
        weight = point.weight
        y = x + point.place.size(0) if weight is None else x * weight
        for image in images:
            y = y + (1 if image.size(0) > 3 else 2)
        if named["a"].dtype == torch.float32:
            y = y + named["b"].size(0)
        if scale is not None:
            y = y * scale
        for key, value in ids.items():
            y = y + key * value
        return y


_TWO, _FOUR = torch.ones(2), torch.ones(4)
_FORMS = (
    _TWO,
    Point(_FOUR, _TWO),
    [_FOUR, _FOUR],
    {"a": _TWO, "b": _FOUR},
    2.0,
    {3: 0.5},
)
_TEXTS = (
    "2xf32",
    "(4xf32, 2xf32)",
    "[4xf32, 4xf32]",
    "{'a': 2xf32, 'b': 4xf32}",
    "2",
    "{3: 0.5}",
)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (0, _TWO.double(), "made for x of torch.float32, and got torch.float64"),
        (0, None, "made for x that is there, and got None"),
        (1, Point(_FOUR, None), r"made for point\[1\] that is there, and got None"),
        (1, Point(_TWO, _TWO), r"made for point\[0\] of the size 4, and got 2;"),
        (2, [_FOUR], "made for images with 2 elements, and got 1;"),
        (2, [_FOUR, _TWO], r"made for images\[1\] of the size 4, and got 2;"),
        (3, {"a": _TWO, "c": _FOUR}, r"with the keys \['a', 'b'\], and got \['a', 'c'\]"),
        (3, {"a": _TWO.double(), "b": _FOUR}, r"named\['a'\] of torch.float32, and got torch.fl"),
        (4, None, "made for scale that is there, and got None"),
    ],
)
def test_forms_of_arguments_are_asked_for(
    tmp_path: Path, place: int, value: Any, says: str
) -> None:
    """What followed from an argument's None, sizes and dtypes, however nested, is in the graph: other ones are refused."""
    torch.jit.script(Forms()).save(tmp_path / "model.pt")
    module = torch.jit.load(tmp_path / "model.pt")
    document = convert(tmp_path / "model.pt", *(f"--input={text}" for text in _TEXTS))
    assert not {node["target"] for node in graph_of(document)["nodes"]} & {"prim.If"}
    program = load_program(import_mlir(document))
    assert_same(program(*_FORMS), module(*_FORMS))
    with pytest.raises(ValueError, match=says):
        program(*_FORMS[:place], value, *_FORMS[place + 1 :])
    # Without --input nothing follows from them.
    program = load_program(import_mlir(convert(tmp_path / "model.pt")))
    if place or value is not None:
        args = (*_FORMS[:place], value, *_FORMS[place + 1 :])
        if "keys" not in says:
            assert_same(program(*args), module(*args))


def test_lists_of_several_sizes_leave_them_open(tmp_path: Path) -> None:
    torch.jit.script(Forms()).save(tmp_path / "model.pt")
    module = torch.jit.load(tmp_path / "model.pt")
    texts = [*_TEXTS[:2], "[4xf32, 2xf32]", *_TEXTS[3:]]
    program = load_program(
        import_mlir(convert(tmp_path / "model.pt", *(f"--input={t}" for t in texts)))
    )
    for images in ([_TWO], [_FOUR, _FOUR, torch.ones(9)], []):
        args = (*_FORMS[:2], images, *_FORMS[3:])
        assert_same(program(*args), module(*args))


class Dtypes(torch.nn.Module):
    """Dtypes and layouts are numbers to TorchScript."""

    def forward(self, x: Tensor, like: Tensor) -> tuple[Tensor, int, bool, Tensor]:
        kind = x.dtype if x.size(0) > 2 else like.dtype
        if x.dtype == torch.float32:
            x = x + 1
        elif x.dtype in [torch.int64, torch.bool]:
            x = x * 2
        y = torch.zeros(2, dtype=kind).to(like.dtype)
        return x, kind, x.layout == torch.strided, y


def test_dtypes_are_numbers(tmp_path: Path) -> None:
    torch.jit.script(Dtypes()).save(tmp_path / "model.pt")
    module = torch.jit.load(tmp_path / "model.pt")
    program = load_program(import_mlir(convert(tmp_path / "model.pt")))
    for x in (torch.ones(2), torch.ones(3, dtype=torch.int64), torch.ones(2).double()):
        for like in (torch.ones(1), torch.ones(1).bfloat16()):
            assert_same(program(x, like), module(x, like))


class Tally:
    """Which a test's models make objects of."""

    def __init__(self, limit: int) -> None:
        self.seen: list[int] = []
        self.total = torch.zeros(1)
        self.limit = limit

    def add(self, value: int, x: Tensor) -> None:
        if len(self.seen) >= self.limit:
            raise RuntimeError("the tally is full")
        self.seen.append(value)
        self.total += x.sum()

    def mean(self) -> float:
        total = 0
        for value in self.seen:
            total += value
        return total / len(self.seen)


class Tallies(torch.nn.Module):
    def forward(self, x: Tensor, values: list[int]) -> tuple[Tensor, float, list[int]]:
        first, second = Tally(4), Tally(2)
        other = first
        for value in values:
            if value > 3:
                other = second
            other.add(value, x)
        tallies = [first, second]
        return tallies[0].total + x, tallies[0].mean(), tallies[1].seen


def test_objects_of_the_archives_classes(tmp_path: Path) -> None:
    """Objects that the method makes have several names, and attributes that are changed by each."""
    torch.jit.script(Tally)
    torch.jit.script(Tallies()).save(tmp_path / "model.pt")
    module = torch.jit.load(tmp_path / "model.pt")
    for options in ((), ("--input=2xf32", "--input=[1, 5]")):
        program = load_program(import_mlir(convert(tmp_path / "model.pt", *options)))
        for values in ([1, 5], [1, 2, 4, 2], [3]):
            x = torch.randn(2)
            assert_same(program(x, values), module(x, values))
        with pytest.raises(AssertionError, match="the tally is full"):
            program(x, [1, 5, 5, 5])


class Reduction(Enum):
    SUM = "sum"
    MEAN = "mean"


class Reduced(torch.nn.Module):
    """Enumerators as an attribute, and as what a branch gives."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = Reduction.MEAN

    def apply(self, x: Tensor, kind: Reduction) -> Tensor:
        if kind == Reduction.SUM:
            return x.sum()
        return x.mean()

    def forward(self, x: Tensor, total: bool) -> tuple[Tensor, str, str]:
        kind = Reduction.SUM if total else Reduction.MEAN
        return self.apply(x, self.kind) + self.apply(x, kind), kind.name, kind.value


@pytest.mark.parametrize("options", [(), ("--input=3xf32", "--input=true"), ("--freeze",)])
def test_enumerators(tmp_path: Path, options: tuple[str, ...]) -> None:
    torch.jit.script(Reduced().eval()).save(tmp_path / "model.pt")
    module = torch.jit.load(tmp_path / "model.pt")
    program = load_program(import_mlir(convert(tmp_path / "model.pt", *options)))
    for total in (True, False):
        args = (torch.randn(3), total)
        assert_same(program(*args), module(*args))


class GivesEnumerator(torch.nn.Module):
    def forward(self, x: Tensor) -> Reduction:
        return Reduction.SUM if x.sum() > 0 else Reduction.MEAN


def test_enumerators_that_come_out_are_refused(tmp_path: Path) -> None:
    torch.jit.script(GivesEnumerator()).save(tmp_path / "model.pt")
    graph = import_mlir(convert(tmp_path / "model.pt"))
    with pytest.raises(OpprofError, match=r"model\.pt/code/.*\.py:\d+:\d+: .*Reduction"):
        run_tool("opprof-translate", ["--emit-python", graph])


def test_numbers_for_tensors_and_text_with_signs(tmp_path: Path) -> None:
    """Lengths of sequences, which zeros cannot be; an `=` in a text names no argument, and a quote can be escaped."""
    module = torch.jit.script(Packed().eval())
    module.save(tmp_path / "model.pt")
    program = load_program(
        import_mlir(
            convert(tmp_path / "model.pt", "--input=3x5x4xf32", "--input=lengths=[5, 2, 3]")
        )
    )
    args = torch.randn(3, 5, 4), torch.tensor([5, 2, 3])
    with torch.no_grad():
        assert_same(program(*args), module(*args))
    archive = (tmp_path / "model.pt").rename(tmp_path / "other.pt")
    said = refusal(archive, "--input=3x5x4xf32", "--input=[[1, 2], [3]]")
    assert "more than numbers in lists of equal lengths" in said

    class Text(torch.nn.Module):
        def forward(self, text: str, x: Tensor) -> tuple[str, Tensor]:
            return text, x

    torch.jit.script(Text()).save(tmp_path / "text.pt")
    arguments = tmp_path / "arguments.pt"
    convert(
        tmp_path / "text.pt",
        r"--input='a=\'b\''",
        "--input=[[0.5, 2], [3, 4]]",
        f"--arguments={arguments}",
    )
    text, x = torch.load(arguments)
    assert text == "a='b'"
    assert_same(x, torch.tensor([[0.5, 2], [3, 4]]))


class Spelled(torch.nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, str]:
        return x, str(float(x.sum()))


def test_operators_of_any_type_are_refused_by_line(tmp_path: Path) -> None:
    torch.jit.script(Spelled()).save(tmp_path / "model.pt")
    graph = import_mlir(convert(tmp_path / "model.pt"))
    says = r"model\.pt/code/__torch__/test_torchscript\.py:\d+:\d+: .*'aten\.str\.default', TorchScript's own operator on values of any type"
    with pytest.raises(OpprofError, match=says):
        run_tool("opprof-translate", ["--emit-python", graph])


def test_text_that_is_made_stays_from_operators_of_others(tmp_path: Path) -> None:
    save(STATEFUL["tokenizer"], tmp_path / "model.pt")
    graph = import_mlir(convert(tmp_path / "model.pt"))
    foreign = graph.read_text().replace("aten.embedding.default", "image.lookup.default")
    assert foreign != graph.read_text()
    graph.write_text(foreign)
    with pytest.raises(
        OpprofError, match=r"which is no operator of PyTorch that takes any|other libraries"
    ):
        run_tool("opprof-translate", ["--emit-python", graph])


class Draws(torch.nn.Module):
    """Has sizes and branches of random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        size = torch.nonzero(torch.rand(20) > 0.5).size(0)
        y = x * size
        if float(torch.rand(1)) > 0.5:
            y = torch.cat([y, x])
        return y * y.size(0)


@pytest.mark.parametrize("with_inputs", [True, False])
def test_what_was_drawn_once_is_drawn_again(tmp_path: Path, with_inputs: bool) -> None:
    x = torch.randn(3, 4)
    module = torch.jit.script(Draws())
    module.save(tmp_path / "model.pt")
    document = convert(tmp_path / "model.pt", inputs=(x,) if with_inputs else ())
    program = load_program(import_mlir(document))
    sizes = set()
    for seed in range(12):
        torch.manual_seed(seed)
        expected = module(x)
        torch.manual_seed(seed)
        assert_same(program(x), expected)
        sizes.add(expected.shape[0])
    assert len(sizes) == 2


class OneOfTwo(torch.nn.Module):
    """Changes an object of a class of its own by a name that stands for either of two."""

    def __init__(self) -> None:
        super().__init__()
        self.a = Counter(1)
        self.b = Counter(5)

    def forward(self, x: Tensor, second: bool) -> Tensor:
        counter = self.a
        if second:
            counter = self.b
        counter.next()
        return x * self.a.count


def test_objects_of_classes_are_no_modules(tmp_path: Path) -> None:
    module = torch.jit.script(OneOfTwo())
    module.save(tmp_path / "model.pt")
    # It is read; what has no form is refused where a program is made of it.
    graph = import_mlir(convert(tmp_path / "model.pt"))
    with pytest.raises(OpprofError, match=r"Counter|attribute 'a"):
        run_tool("opprof-translate", ["--emit-python", graph])


def test_state_that_may_be_none_is_typed_so(tmp_path: Path) -> None:
    case = STATEFUL["early-exit"]
    save(case, tmp_path / "model.pt")
    document = json.loads(convert(tmp_path / "model.pt", inputs=case.inputs).read_text())
    (node,) = (n for n in document["graphs"][0]["nodes"] if n["op"] == "get_attr")
    assert node["target"] == "answer"
    assert list(document["types"][node["type"]]) == ["optional"]


class Reassigned(torch.nn.Module):
    """Keeps an object of a class of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.counter = Counter(1)

    def forward(self, x: Tensor) -> Tensor:
        self.counter = Counter(self.counter.next())
        return x * self.counter.count


def test_state_without_a_form_is_refused_by_name(tmp_path: Path) -> None:
    torch.jit.script(Reassigned()).save(tmp_path / "model.pt")
    graph = import_mlir(convert(tmp_path / "model.pt"))
    with pytest.raises(
        OpprofError, match=r"attribute 'counter' holds an object of the class .*Count"
    ):
        run_tool("opprof-translate", ["--emit-python", graph])


def test_text_beside_operators_of_others_is_refused(tmp_path: Path) -> None:
    """Text may be the name of a file for an operator that PyTorch does not have."""
    save(STATEFUL["extremes"], tmp_path / "model.pt")
    graph = import_mlir(convert(tmp_path / "model.pt"))
    foreign = graph.read_text().replace("aten.sum.default", "image.total.default")
    assert foreign != graph.read_text()
    graph.write_text(foreign)
    with pytest.raises(OpprofError, match=r"attribute '(mode|scales)'.* other libraries"):
        run_tool("opprof-translate", ["--emit-python", graph])


def test_nested_forks_are_counted(tmp_path: Path) -> None:
    """Forks that double again and again are refused before they are made."""
    lines = ["import torch", "def f0(x: torch.Tensor) -> torch.Tensor:", "    return x + 1"]
    for i in range(1, 61):
        lines += [
            f"def f{i}(x: torch.Tensor) -> torch.Tensor:",
            f"    a = torch.jit.fork(f{i - 1}, x)",
            f"    b = torch.jit.fork(f{i - 1}, x)",
            "    return torch.jit.wait(a) + torch.jit.wait(b)",
        ]
    lines += [
        "class Nest(torch.nn.Module):",
        "    def forward(self, x: torch.Tensor) -> torch.Tensor:",
    ]
    lines += ["        return f60(x)"]
    source = tmp_path / "nest_of_forks.py"
    source.write_text("\n".join(lines))
    spec = importlib.util.spec_from_file_location("nest_of_forks", source)
    assert spec is not None and spec.loader is not None
    nest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nest)
    torch.jit.script(nest.Nest()).save(tmp_path / "model.pt")
    assert "more than 10000000 nodes" in refusal(tmp_path / "model.pt", "--seconds=20")


class Autocast(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            return self.inner(x)


def test_autocast_is_refused(tmp_path: Path) -> None:
    torch.jit.script(Autocast().eval()).save(tmp_path / "model.pt")
    for options in ((), ("--input=2x4xf32",)):
        said = refusal(tmp_path / "model.pt", *options)
        assert re.search(r"the code asks for autocast \(code/__torch__/.*py:\d+\)", said)


class OneOrMany(torch.nn.Module):
    def forward(self, x: Union[Tensor, list[Tensor]]) -> Tensor:  # noqa: UP007
        if isinstance(x, Tensor):
            return x
        return torch.stack(x).sum(0)


@pytest.mark.parametrize("text", ["4xf32", "[4xf32, 4xf32]"])
def test_one_of_several_types(tmp_path: Path, text: str) -> None:
    torch.jit.script(OneOrMany()).save(tmp_path / "model.pt")
    graph = graph_of(convert(tmp_path / "model.pt", f"--input={text}"))
    assert "prim.If" in {node["target"] for node in graph["nodes"]}


class Counted(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        counter = Counter(2)
        return x * counter.next()


@torch.jit.script
class Counter:
    def __init__(self, first: int) -> None:
        self.count = first

    def next(self) -> int:
        self.count += 1
        return self.count


class GivesObject(torch.nn.Module):
    def forward(self, x: Tensor) -> Counter:
        return Counter(x.size(0))


def test_objects_are_not_emitted(tmp_path: Path) -> None:
    """A node without a form in Python is refused when the program is written, and not when it runs."""
    torch.jit.script(Counted()).save(tmp_path / "model.pt")
    x = torch.randn(2)
    program = load_program(import_mlir(convert(tmp_path / "model.pt", inputs=(x,))))
    assert_same(program(x), torch.jit.load(tmp_path / "model.pt")(x))
    torch.jit.script(GivesObject()).save(tmp_path / "model.pt")
    graph = import_mlir(convert(tmp_path / "model.pt", inputs=(x,)))
    with pytest.raises(OpprofError, match=r"'prim\.\w+', which is no operator of PyTorch"):
        run_tool("opprof-translate", ["--emit-python", graph])


@pytest.mark.parametrize("name", ["stack", "branch", "while", "nested", "detector"])
def test_json_again(tmp_path: Path, name: str) -> None:
    """A graph with blocks is the same graph after a way through JSON."""
    case = CASES[name]
    save(case, tmp_path / "model.pt")
    first = import_mlir(convert(tmp_path / "model.pt", inputs=case.inputs))
    again = tmp_path / "again.json"
    again.write_bytes(run_tool("opprof-translate", ["--export-fx-json", first]))
    assert import_mlir(again).read_text() == first.read_text()


@pytest.mark.parametrize("name", ["stack", "branch", "detector"])
def test_without_inputs(tmp_path: Path, name: str) -> None:
    """Nothing is run without inputs, and the graph is that of every shape."""
    case = CASES[name]
    module = save(case, tmp_path / "model.pt")
    program = load_program(import_mlir(convert(tmp_path / "model.pt")))
    with torch.no_grad():
        assert_same(program(*case.inputs), module(*case.inputs))


def test_shapes_are_those_of_a_run(tmp_path: Path) -> None:
    case = CASES["cnn"]
    module = save(case, tmp_path / "model.pt")
    document = json.loads(convert(tmp_path / "model.pt", inputs=case.inputs).read_text())
    graph = document["graphs"][0]
    (output,) = graph["outputs"]
    last = next(node for node in graph["nodes"] if node["name"] == output["value"]["node"])
    with torch.no_grad():
        expected = module(*case.inputs)
    tensor = document["types"][last["type"]]["tensor"]
    assert tensor["shape"] == list(expected.shape)
    assert tensor["stride"] == list(expected.stride())


def test_places(tmp_path: Path) -> None:
    """A node's module path is the attribute's, containers included, and its line one of the archive's code."""
    save(CASES["stack"], tmp_path / "model.pt")
    document = json.loads(convert(tmp_path / "model.pt").read_text())
    node = next(n for n in document["graphs"][0]["nodes"] if n["name"] == "linear_3")
    paths = [entry["path"] for entry in document["modules"][node["modules"]]]
    assert paths == ["", "layers.1", "layers.1.down"]
    # The method, the layer that it calls, and the linear map inside that.
    assert len(document["stacks"][node["stack"]]) == 3
    with zipfile.ZipFile(tmp_path / "model.pt") as archive:
        for frame in document["stacks"][node["stack"]]:
            name = frame["file"].removeprefix("model.pt/")
            lines = archive.read(f"model/{name}").decode().splitlines()
            assert lines[frame["line"] - 1].strip() == frame["code"]


def classes_of(graph: Path) -> list[list[list[str]]]:
    """The modules of every partition, class by class."""
    partitions = graph.with_suffix(".partitions.json")
    run_tool(
        "opprof-opt",
        [graph, f"--dedup-partitions=partition-map={partitions}", "-o", graph.with_suffix(".out")],
    )
    document = json.loads(partitions.read_text())
    return [[part["modules"] for part in entry["partitions"]] for entry in document["classes"]]


class RootNorm(torch.nn.Module):
    """As Llama and T5 write it: the casts do nothing in float32."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(16))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class RootLayer(torch.nn.Module):
    """A residual that a tracer takes for the result of its norm's cast, ':' in an index, and numbers beside tensors."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.norm = RootNorm(eps)
        self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        heads = self.first(y)[:, None, :, :].expand(2, 3, 7, 16).sum(1) / 3
        return x + self.second(heads) * 0.5


class Shares(torch.nn.Module):
    """Layers that drop out what all of them share, as DeBERTa's relative positions: off, that is what went in."""

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = torch.nn.Dropout(0.1)
            self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)

        def forward(self, x: Tensor, shared: Tensor) -> Tensor:
            y = torch.relu(self.first(x)) + 1
            shared = self.dropout(shared)
            return x + self.second(torch.relu(y * shared) + shared)

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.layers = torch.nn.ModuleList(Shares.Layer() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        shared = self.norm(x)
        for layer in self.layers:
            x = layer(x, shared)
        return x


GROUPED: dict[str, Callable[[], torch.nn.Module]] = {
    "attention": lambda: torch.nn.Sequential(
        *(torch.nn.Sequential(Attention(), Mlp()) for _ in range(4))
    ),
    "casts": lambda: torch.nn.Sequential(*(RootLayer(1e-6) for _ in range(4))),
    # The last norm gives its cast to nobody.
    "last norm": lambda: torch.nn.Sequential(
        *(RootLayer(1e-6) for _ in range(4)), RootNorm(1e-6), torch.nn.Linear(16, 16)
    ),
    "shared dropout": Shares,
}


@pytest.mark.parametrize("name", GROUPED)
def test_grouping_is_that_of_an_export(name: str, tmp_path: Path) -> None:
    """The same layers are found in a traced archive, a scripted one, and the exported graph of one model."""
    from opprof.export.graph_json import source_of_exported_program, write_graph_json

    torch.manual_seed(0)
    model = GROUPED[name]().eval()
    inputs = (torch.randn(2, 7, 16),)
    exported = tmp_path / "exported.json"
    program = torch.export.export(model, inputs)
    write_graph_json(exported, source_of_exported_program(program, "exported"))
    expected = classes_of(import_mlir(exported))
    assert [len(partitions) for partitions in expected] == [4]
    for kind, saved in (
        ("traced", torch.jit.trace(model, inputs, check_trace=False)),
        ("scripted", torch.jit.script(model)),
    ):
        archive = tmp_path / f"{kind}.pt"
        saved.save(archive)
        assert classes_of(import_mlir(convert(archive, inputs=inputs))) == expected, kind


class Rounds(torch.nn.Module):
    """Layers in the body of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Perceptron(16, 32) for _ in range(3))

    def forward(self, x: Tensor, count: int) -> Tensor:
        for _ in range(count):
            for layer in self.layers:
                x = layer(x)
        return x


def test_layers_in_a_loop_are_one_class(tmp_path: Path) -> None:
    """And the program that calls it in the loop's body computes the same bits."""
    torch.jit.script(Rounds().eval()).save(tmp_path / "model.pt")
    inputs = (torch.randn(2, 16), 3)
    module = import_mlir(convert(tmp_path / "model.pt", inputs=inputs))
    assert classes_of(module) == [[[f"layers.{i}"] for i in range(3)]]
    run_tool("opprof-opt", [module, "--dedup-partitions", "-o", module])
    assert module.read_text().count("fx.call @") == 3
    model = torch.jit.load(tmp_path / "model.pt")
    for count in (0, 1, 4):
        assert_same(load_program(module)(inputs[0], count), model(inputs[0], count))


class Settling(torch.nn.Module):
    """How many rounds there are, and what is taken of them, follows from numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.step = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = [x]
        while bool(x.abs().max() > 2.0):
            x = torch.tanh(x @ self.step)
            kept.append(x[x[:, 0] > 0])
        if bool(x[0, 0] > 0.1):
            kept.append(torch.relu(x[1:]))
        return x + torch.cat(kept).sum(0)


class SettlingLayers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Settling() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("made", [Mixtures, SettlingLayers])
def test_layers_are_one_class_whatever_a_run_took(
    tmp_path: Path, made: type[torch.nn.Module]
) -> None:
    """Few rows, so that some experts get none, and layers differ in what they take: sizes that follow from numbers are open."""
    torch.manual_seed(0)
    model = made().eval()
    torch.jit.script(model).save(tmp_path / "model.pt")
    graph = convert(tmp_path / "model.pt", inputs=(torch.randn(5, 8),))
    number = len(list(model.layers))
    assert [[f"layers.{i}"] for i in range(number)] in classes_of(import_mlir(graph))
    document = json.loads(graph.read_text())
    shapes = {
        node["target"]: document["types"][node["type"]]["tensor"]["shape"]
        for node in nodes_of(document["graphs"][0])
        if node["target"].startswith(("aten.index.", "aten.tanh.", "aten.relu."))
    }
    assert shapes["aten.index.Tensor"] == ["?", 8]
    assert shapes["aten.relu.default"] in (["?", 16], [4, 8])
    program, loaded = load_program(import_mlir(graph)), torch.jit.load(tmp_path / "model.pt")
    for scale in (0.1, 1.0, 10.0):
        x = scale * torch.randn(5, 8)
        assert_same(program(x), loaded(x))


class Divides(torch.nn.Module):
    """Has a branch that is no code for the numbers that do not take it."""

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        number = int((x * 0).sum())
        found, rest = torch.nonzero(x), 0
        if number != 0:
            rest = 10 % number
            found = found + rest
        return found, rest


@pytest.mark.parametrize("options", [(), ("--sandbox",)])
def test_a_branch_that_ends_the_process_is_left_out(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    torch.jit.script(Divides().eval()).save(tmp_path / "model.pt")
    x = torch.randn(8)
    graph = convert(tmp_path / "model.pt", *options, inputs=(x,))
    program, loaded = load_program(import_mlir(graph)), torch.jit.load(tmp_path / "model.pt")
    for given in (x, torch.ones(8)):
        assert_same(program(given), loaded(given))


class AddsComplex(torch.nn.Module):
    """Has a branch that writes, beside a number that LibTorch can't copy."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        number = complex(float(x[0].item()), 1.0)
        found, total = torch.nonzero(x), torch.zeros(4)
        if bool(x.sum() > 1000):
            total.add_(abs(number))
        return found, total


class CountsOn(torch.nn.Module):
    """Has a branch with a loop without end that has no nodes."""

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        found, last = torch.nonzero(x), 0
        if bool(x.sum() > 1000):
            for i in range(1_000_000_000_000_000):
                last = i
        return found, last


@pytest.mark.parametrize("made", [AddsComplex, CountsOn])
def test_a_branch_that_cannot_be_gone_through_leaves_the_others(
    tmp_path: Path, made: type[torch.nn.Module]
) -> None:
    torch.jit.script(made().eval()).save(tmp_path / "model.pt")
    graph = convert(tmp_path / "model.pt", "--seconds=10", inputs=(torch.ones(8),))
    document = json.loads(graph.read_text())
    (found,) = (n for n in nodes_of(document["graphs"][0]) if "nonzero" in n["target"])
    assert document["types"][found["type"]]["tensor"]["shape"] == ["?", 1]


class Widened(torch.nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        wide = x.to(torch.float32)
        return wide * 2, wide


class AddsWidened(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.widened = Widened()

    def forward(self, x: Tensor) -> Tensor:
        twice, wide = self.widened(x)
        return twice + wide


def test_casts_of_code_that_was_compiled_stay(tmp_path: Path) -> None:
    """Only a tracer takes a cast's result for what went in; a converted model would add what was not widened."""
    torch.jit.script(AddsWidened()).save(tmp_path / "model.pt")
    graph = graph_of(convert(tmp_path / "model.pt", inputs=(torch.randn(4),)))
    cast, total = (
        next(n for n in graph["nodes"] if n["target"].startswith(f"aten.{name}."))
        for name in ("to", "add")
    )
    assert total["args"][1] == {"node": cast["name"]}


def test_a_traced_number_is_one_and_tells_layers_apart(tmp_path: Path) -> None:
    """A tracer keeps `x + 1e-5` as the sum of two tensors; a tensor that differs would make no difference."""
    layers = (RootLayer(10.0**-n) for n in (5, 5, 5, 6, 6, 6))
    model = torch.nn.Sequential(*layers).eval()
    inputs = (torch.randn(2, 7, 16),)
    traced = torch.jit.trace(model, inputs, check_trace=False)
    traced.save(tmp_path / "model.pt")
    graph = convert(tmp_path / "model.pt", inputs=inputs)
    document = graph_of(graph)
    assert not [entry for entry in document["inputs"] if entry["kind"] == "constant_tensor"]
    assert [n["target"] for n in document["nodes"] if "slice" in n["target"]] == []
    for partitions in classes_of(import_mlir(graph)):
        norms = {int(path[0]) < 3 for (path,) in partitions if path.endswith("norm")}
        assert len(norms) < 2


@pytest.mark.parametrize(
    ("other", "number"),
    [
        (torch.ones(1), torch.tensor(1.5, dtype=torch.float64)),
        (torch.arange(6), torch.tensor(1.5, dtype=torch.float64)),
        (torch.arange(6) > 2, torch.tensor(3, dtype=torch.int32)),
        (torch.randn(6), torch.tensor(1.1, dtype=torch.float64)),
        (torch.randn(6).double(), torch.tensor(1.1)),
    ],
)
def test_a_tensor_of_one_number_has_a_numbers_say_in_the_type(
    other: Tensor, number: Tensor, tmp_path: Path
) -> None:
    """TorchScript's executor takes the number for it where it is the second operand, and there alone."""

    class Sum(torch.nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            x = x.squeeze()
            return (x + number) * number - number, number + x

    torch.jit.trace(Sum(), (other,), check_trace=False).save(tmp_path / "model.pt")
    graph = convert(tmp_path / "model.pt", inputs=(other,))
    model = torch.jit.load(tmp_path / "model.pt")
    assert_same(load_program(import_mlir(graph))(other), model(other))


def test_gpt2_has_twelve_blocks(tmp_path: Path, examples: Path) -> None:
    from opprof.export.model_script import load_model_script

    script = load_model_script(str(examples / "gpt2.py"))
    with torch.no_grad():
        traced = torch.jit.trace(script.module, script.args, check_trace=False)
    traced.save(tmp_path / "model.pt")
    classes = classes_of(import_mlir(convert(tmp_path / "model.pt", inputs=script.args)))
    assert [len(partitions) for partitions in classes] == [12]


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.inner = Perceptron(16, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.norm(x))


class Methods(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.encode(x)

    @torch.jit.export
    def encode(self, x: Tensor) -> Tensor:
        return torch.tanh(x)

    @torch.jit.export
    def decode(self, x: Tensor, scale: float = 3.0) -> Tensor:
        return torch.atanh(x) * scale


def test_methods(tmp_path: Path) -> None:
    archive = tmp_path / "model.pt"
    torch.jit.script(Methods()).save(archive)
    for method, target in (("encode", "aten.tanh.default"), ("decode", "aten.atanh.default")):
        graph = graph_of(convert(archive, f"--method={method}", "--input=x=4xf32"))
        assert graph["name"] == f"model_{method}"
        assert graph["nodes"][0]["target"] == target
    said = refusal(archive.rename(tmp_path / "other.pt"), "--method=nothing")
    assert "no method 'nothing'; it has forward, " in said and "encode" in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--input=4x8xf32", "--input=4x8xf32"], "one too many"),
        (["--input=y=4x8xf32"], "takes no argument 'y'"),
        (["--input=4x8xf99"], "is none that can be made"),
        (["--input=4x9xf32"], "aten::linear (code/__torch__"),
        (["--input=3"], "argument 'x' is Tensor, and not int"),
        (["--input=1000000x1000000xf32"], "larger than 100 GB"),
        (["--nothing"], "there is no option --nothing"),
        (["--memory=0"], "a whole number from 1"),
    ],
)
def test_wrong_requests(tmp_path: Path, options: list[str], says: str) -> None:
    save(CASES["perceptron"], tmp_path / "model.pt")
    assert says in refusal(tmp_path / "model.pt", *options)


@pytest.mark.parametrize("ending", ["mlir", "mlirbc"])
def test_mlir_is_that_of_the_graph_json(tmp_path: Path, ending: str) -> None:
    save(CASES["perceptron"], tmp_path / "model.pt")
    graph = tmp_path / f"graph.{ending}"
    run_tool(TOOL, [tmp_path / "model.pt", "-o", graph, "--input=4x8xf32"])
    assert graph.read_bytes().startswith(b"ML\xefR") == (ending == "mlirbc")
    convert(tmp_path / "model.pt", "--input=4x8xf32")
    expected = import_mlir(tmp_path / "model.json").read_text()
    assert run_tool("opprof-opt", [graph]).decode().strip() == expected.strip()
    assert len(list(tmp_path.iterdir())) == 5
    (tmp_path / f"taken.{ending}").mkdir()
    with pytest.raises(OpprofError, match=rf"taken\.{ending}: cannot be written: it is a folder"):
        run_tool(TOOL, [tmp_path / "model.pt", "-o", tmp_path / f"taken.{ending}"])


def beside(folder: Path, driver: str) -> Path:
    """The tool in a folder of its own, with a shell script for opprof-driver."""
    folder.mkdir()
    shutil.copy(find_tool(TOOL), folder)
    (folder / "opprof-driver").write_text(driver)
    (folder / "opprof-driver").chmod(0o755)
    return folder / TOOL


def test_what_makes_mlir_ends_with_the_tool_and_leaves_nothing(tmp_path: Path) -> None:
    save(CASES["perceptron"], tmp_path / "model.pt")
    temporary, begun = tmp_path / "temporary", tmp_path / "begun"
    temporary.mkdir()
    tool = beside(
        tmp_path / "bin", f"#!/bin/sh\necho $$ > {begun}~; mv {begun}~ {begun}; exec sleep 60\n"
    )
    process = subprocess.Popen(
        [tool, tmp_path / "model.pt", "-o", tmp_path / "graph.mlir"],
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    try:
        while not begun.exists():
            assert process.poll() is None
            time.sleep(0.01)
        driver = int(begun.read_text())
    finally:
        process.terminate()
        process.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(driver, signal.SIGKILL)
    assert list(temporary.iterdir()) == []


class Large(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(48 << 20))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight[0]


def test_a_tool_whose_command_is_killed_takes_its_unfinished_file_away(tmp_path: Path) -> None:
    torch.jit.script(Large().eval()).save(tmp_path / "model.pt")
    folder = tmp_path / "out"
    folder.mkdir()
    code = "import sys\nfrom opprof.tools import run_tool\nrun_tool(sys.argv[1], sys.argv[2:])"
    options = ["-o", folder / "graph.json", "--weights", folder / "weights.safetensors"]
    process = subprocess.Popen([sys.executable, "-c", code, TOOL, tmp_path / "model.pt", *options])
    while not list(folder.iterdir()):
        assert process.poll() is None
        time.sleep(0.001)
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    descriptor = os.pidfd_open(int(child))
    process.kill()
    process.wait()
    ended, _, _ = select.select([descriptor], [], [], 30)
    os.close(descriptor)
    assert ended
    (tmp_path / "model.pt").unlink()
    # On a slow machine it may have been done with the first.
    assert {path.name for path in folder.iterdir()} <= {"weights.safetensors", "graph.json"}


def test_whoever_ignores_its_children_is_told_how_it_ended(tmp_path: Path) -> None:
    save(CASES["perceptron"], tmp_path / "model.pt")

    def run(target: str, *options: str) -> tuple[int, str]:
        command = [find_tool(TOOL), tmp_path / "model.pt", "-o", tmp_path / target, *options]
        process = subprocess.run(
            ["env", "--ignore-signal=CHLD", *command],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        return process.returncode, process.stderr

    assert run("graph.mlir") == (0, "")
    assert (tmp_path / "graph.mlir").exists()
    status, said = run("graph.json", "--method=backward")
    assert status == 1 and "no method 'backward'" in said
    assert not (tmp_path / "graph.json").exists()


def test_a_driver_that_cannot_be_run_is_named_with_the_reason(tmp_path: Path) -> None:
    save(CASES["perceptron"], tmp_path / "model.pt")
    tool = beside(tmp_path / "bin", "#!/nowhere/sh\n")
    process = subprocess.run(
        [tool, tmp_path / "model.pt", "-o", tmp_path / "graph.mlir"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert process.returncode == 1
    assert "opprof-driver, which makes MLIR, cannot be run: No such file" in process.stderr


@pytest.mark.parametrize("make", [torch.nn.LSTM, torch.nn.GRU])
def test_overloads_are_told_by_their_inputs(
    tmp_path: Path, make: Callable[..., torch.nn.Module]
) -> None:
    """A recurrent layer that is no part of a model is saved as two methods, and not as forward."""
    torch.manual_seed(0)
    module, x = make(6, 7, 2).eval(), torch.randn(4, 2, 6)
    archive = tmp_path / "model.pt"
    torch.jit.script(module).save(archive)
    document = convert(archive, inputs=(x,))
    assert json.loads(document.read_text())["producer"]["method"] == "forward__0"
    loaded = torch.jit.load(archive)
    with torch.no_grad():
        assert_same(load_program(import_mlir(document), loaded)(x), loaded.forward__0(x))
    document.unlink()
    said = refusal(archive)
    assert "'forward' is overloaded, and no --input says which is meant" in said
    assert "forward__0(" in said and "forward__1(" in said
    for text, says in (
        ("3", "forward__0: the method's argument 'input' is Tensor, and not int"),
        ("4x2xq32", "the input '4x2xq32' is none that can be made"),
        ("1000000x1000000xf32", "is larger than 100 GB"),
        ("nope=3", "the method takes no argument 'nope': forward__0("),
    ):
        said = refusal(archive, f"--input={text}")
        assert "the inputs fit none of them: forward__0: " in said and says in said
    said = refusal(archive, "--memory=2", "--input=40000x40000xf32")
    assert "memory" in said and "frame #" not in said
    assert "no method 'backward'" in refusal(archive, "--method=backward", "--input=4x2x6xf32")


class Sized(torch.nn.Module):
    """Asks for what follows from sizes and dtypes, and whether tensors are one."""

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        y = x.exp()
        if x.numel() > 4 and len(other) == 2 and y.dim() == 2 and x.element_size() == 4:
            y = y + 1
        if y is not other:
            y = y * 2
        if y is x.sum():
            y = y * 3
        if y.t() is y.t():
            y = y * 4
        return y


def test_sizes_and_fresh_tensors_decide_branches(tmp_path: Path) -> None:
    module = torch.jit.script(Sized())
    module.save(tmp_path / "model.pt")
    inputs = (torch.rand(3, 4), torch.rand(2))
    document = convert(tmp_path / "model.pt", inputs=inputs)
    targets = [node["target"] for node in nodes_of(graph_of(document))]
    assert targets[:3] == ["aten.exp.default", "aten.add.Tensor", "aten.mul.Tensor"]
    assert "prim.If" not in targets
    assert_same(load_program(import_mlir(document))(*inputs), module(*inputs))


class MaybeOne(torch.nn.Module):
    """What may be one tensor in another call, or is one where it was not thought to be."""

    def forward(self, x: Tensor, other: Tensor, drops: bool) -> Tensor:
        y = x * 2
        if x is other:
            y = y + 1
        if torch.dropout(y, 0.5, drops) is not y:
            y = y * 0
        if y.contiguous() is not y:
            y = y + 3
        if torch.dropout(x, 0.5, False) is other:
            y = y + 5
        if x.transpose(0, 0) is other:
            y = y + 7
        return y


def test_tensors_that_may_be_one_are_asked_for(tmp_path: Path) -> None:
    module = torch.jit.script(MaybeOne())
    module.save(tmp_path / "model.pt")
    x, other = torch.rand(3, 4), torch.rand(3, 4)
    document = convert(tmp_path / "model.pt", inputs=(x, other, True))
    program = load_program(import_mlir(document))
    wide = torch.rand(4, 3).t()
    for inputs in ((x, other, False), (x, x, False), (x, x, True), (wide, wide, False)):
        assert_same(program(*inputs), module(*inputs))


class ByDevice(torch.nn.Module):
    """Keeps a table for each device that it was asked on, as LeViT's attention does."""

    cache: dict[str, Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(5))
        self.register_buffer("places", torch.tensor([[0, 1], [1, 4]]))
        self.cache = {}

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            key = str(x.device)
            if key not in self.cache:
                self.cache[key] = self.bias[self.places]
            x = x + self.cache[key]
        return x


def test_devices_as_text(tmp_path: Path) -> None:
    module = torch.jit.script(ByDevice())
    module.save(tmp_path / "model.pt")
    x = torch.randn(2, 2)
    document = convert(tmp_path / "model.pt", inputs=(x,))
    assert "builtins.str" in {node["target"] for node in nodes_of(graph_of(document))}
    program = load_program(import_mlir(document))
    with torch.no_grad():
        for _ in range(2):
            assert_same(program(x), module(x))


def test_missing_input(tmp_path: Path) -> None:
    save(CASES["while"], tmp_path / "model.pt")
    said = refusal(tmp_path / "model.pt", "--input=4xf32")
    assert "argument 'limit' (float) has no --input" in said


# ---------------------------------------------------------------------------------------------------------------------
# Files that are not what they should be
# ---------------------------------------------------------------------------------------------------------------------


def rewritten(archive: Path, changes: dict[str, bytes | None]) -> Path:
    """A copy of the archive with other content for some of its files, or without them."""
    target = archive.with_name("changed.pt")
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w") as sink:
        for entry in source.infolist():
            inner = entry.filename.partition("/")[2]
            content = (
                changes.get(inner, source.read(entry)) if inner in changes else source.read(entry)
            )
            if content is not None:
                sink.writestr(entry.filename, content)
    return target


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    save(CASES["perceptron"], tmp_path / "model.pt")
    return tmp_path / "model.pt"


def test_other_files(tmp_path: Path) -> None:
    text = tmp_path / "text.pt"
    text.write_text("no archive")
    assert "it is no zip file" in refusal(text)
    checkpoint = tmp_path / "checkpoint.pt"
    torch.save({"weight": torch.ones(2)}, checkpoint)
    assert "a checkpoint of torch.save holds weights and no graph" in refusal(checkpoint)
    assert not is_torchscript(text) and not is_torchscript(checkpoint)
    assert "No such file" in refusal(tmp_path / "nothing.pt")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PYTORCH1" + bytes(56), "the previews of PyTorch 1.0"),
        (bytes(4) + b"PTMF" + bytes(56), "a flatbuffer of PyTorch's lite interpreter"),
        (bytes(4) + b"ET12" + bytes(56), "a program of ExecuTorch"),
        (pickle.dumps([1], protocol=2), "it is a pickle, as torch.save wrote them"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "model.pt"
    file.write_bytes(content)
    assert says in refusal(file)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        # What PyTorch 1.0 and 1.1 wrote.
        (
            ["model/version", "model/code/model.py", "model/attributes.pkl", "model/model.json"],
            "the form of PyTorch 1.0 to 1.3 (model.json), which LibTorch no longer loads",
        ),
        (["MAR-INF/MANIFEST.json", "model.pt", "handler.py"], "an archive of TorchServe"),
    ],
)
def test_other_archives_are_named(tmp_path: Path, names: list[str], says: str) -> None:
    file = tmp_path / "model.pt"
    with zipfile.ZipFile(file, "w") as sink:
        for name in names:
            # As an empty list is pickled.
            sink.writestr(name, b"\x80\x02]q\x00." if name.endswith(".pkl") else b"1")
    assert says in refusal(file)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return (os.system, ("touch /tmp/opprof-was-here",))


@pytest.mark.parametrize("name", ["data.pkl", "constants.pkl", "code/__torch__.py.debug_pkl"])
def test_foreign_pickles(archive: Path, name: str) -> None:
    changed = rewritten(archive, {name: pickle.dumps(Evil(), protocol=2)})
    if name.startswith("code/"):
        with zipfile.ZipFile(changed, "a") as sink:
            sink.writestr(f"model/{name}", pickle.dumps(Evil(), protocol=2))
    said = refusal(changed)
    assert "which no TorchScript archive needs: the file is refused" in said
    assert "system" in said


def test_unknown_operator(archive: Path) -> None:
    with zipfile.ZipFile(archive) as source:
        name = next(n for n in source.namelist() if n.endswith("torchscript_models.py"))
        code = source.read(name).decode()
    assert "torch.relu(" in code
    inner = name.partition("/")[2]
    changed = rewritten(archive, {inner: code.replace("torch.relu(", "ops.mine.relu(").encode()})
    assert "calls the operator mine::relu, which this PyTorch does not have" in refusal(changed)


class Cached(torch.nn.Module):
    """What a layer gives beside its state is of one type, however long the lists of states become."""

    def layer(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return x.reshape(x.size(0), x.size(1)) + 1, (x, x * 2)

    def forward(self, x: Tensor, n: int) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        states: list[tuple[Tensor, Tensor]] = []
        x, state = self.layer(x)
        states.append(state)
        x, state = self.layer(x)
        states.append(state)
        for _ in range(n):
            grown: list[tuple[Tensor, Tensor]] = []
            for s in states:
                grown.append((torch.cat([s[0], s[0]]), s[1]))
            states = grown
        return x, states


def test_lists_that_grow_leave_what_stands_beside_them(tmp_path: Path) -> None:
    module = torch.jit.script(Cached())
    module.save(tmp_path / "model.pt")
    target = convert(tmp_path / "model.pt", inputs=(torch.ones(2, 3), 2))
    targets = [node["target"] for node in graph_of(target)["nodes"]]
    assert "prim.Loop" in targets and "aten.size.default" not in targets
    program = load_program(import_mlir(target))
    for n in (2, 0, 3):
        x = torch.randn(2, 3)
        assert_same(program(x, n), module(x, n))


def test_functions_that_old_code_calls_as_operators(archive: Path) -> None:
    """PyTorch 1.4 and older wrote sizes as `ops.prim.shape`, which is no operator but a function of LibTorch's own."""
    with zipfile.ZipFile(archive) as source:
        name = next(n for n in source.namelist() if n.endswith("torchscript_models.py"))
        code = source.read(name).decode()
    inner, old = name.partition("/")[2], "torch.relu((up).forward(x, ))"
    assert old in code
    code = code.replace(old, f"torch.mul({old}, (ops.prim.shape(x))[1])")
    changed = rewritten(archive, {inner: code.encode(), "version": b"1\n"})
    case = CASES["perceptron"]
    program = load_program(import_mlir(convert(changed, inputs=case.inputs)))
    assert_same(program(*case.inputs), torch.jit.load(changed)(*case.inputs))


def test_missing_parts(archive: Path) -> None:
    for name in ("constants.pkl", "data.pkl"):
        assert "it has no code, constants.pkl or data.pkl" in refusal(
            rewritten(archive, {name: None})
        )
    assert "LibTorch cannot load it" in refusal(rewritten(archive, {"data/0": None}))


def test_broken_archives(archive: Path) -> None:
    """None of many broken files does more than fail with one error."""
    whole = archive.read_bytes()
    target = archive.with_name("broken.pt")
    for position in range(0, len(whole), len(whole) // 12):
        target.write_bytes(whole[:position])
        refusal(target)


def test_endless_loop(tmp_path: Path) -> None:
    """An archive whose run has no end is stopped by its time."""

    class Endless(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            while bool(x.sum() > -1):
                x = x.abs()
            return x

    torch.jit.script(Endless()).save(tmp_path / "model.pt")
    said = refusal(tmp_path / "model.pt", "--input=2xf32", "--seconds=2")
    assert "more than the limit of 2 seconds" in said


def test_much_memory(tmp_path: Path) -> None:
    class Greedy(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.zeros([1 << 33]).sum() + x

    torch.jit.script(Greedy()).save(tmp_path / "model.pt")
    said = refusal(tmp_path / "model.pt", "--input=2xf32", "--memory=1")
    assert "allocate memory" in said or "memory limit" in said


# ---------------------------------------------------------------------------------------------------------------------
# The sandbox
# ---------------------------------------------------------------------------------------------------------------------


def test_sandbox_reads_the_same(tmp_path: Path) -> None:
    case = CASES["detector"]
    save(case, tmp_path / "model.pt")
    open_document = convert(tmp_path / "model.pt", inputs=case.inputs).read_text()
    closed = convert(tmp_path / "model.pt", "--sandbox", inputs=case.inputs).read_text()
    assert closed == open_document


class Saver(torch.nn.Module):
    """A module whose loading writes a file: LibTorch runs __setstate__ when it reads the archive."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.training = False

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.path = state[0]
        self.training = state[1]
        torch.save(torch.ones([2]), self.path)

    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def test_nothing_gets_out(tmp_path: Path) -> None:
    """Code that an archive runs while it is loaded writes a file outside of the sandbox, and not in it."""
    target = tmp_path / "written"
    torch.jit.script(Saver(str(target))).save(tmp_path / "model.pt")
    convert(tmp_path / "model.pt")
    assert target.exists(), "LibTorch does not run __setstate__ any more: say so in the document"
    target.unlink()
    convert(tmp_path / "model.pt", "--sandbox")
    assert not target.exists()


# ---------------------------------------------------------------------------------------------------------------------
# The command
# ---------------------------------------------------------------------------------------------------------------------


def test_command(tmp_path: Path) -> None:
    """`opprof export` takes an archive by its content, under any name, and says what only one of the two takes."""
    from opprof.commands.cli import main

    archive = tmp_path / "weights.bin"
    save(CASES["perceptron"], archive)
    target = tmp_path / "graph.mlir"
    assert main(["export", str(archive), "-o", str(target), "--input=2x8xf32"]) in (0, None)
    assert re.search(r"fx\.graph @weights stage \"export\"", target.read_text())


def test_stack_is_four(tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.jit.script(Stack().eval()).save(tmp_path / "model.pt")
    classes = classes_of(import_mlir(convert(tmp_path / "model.pt", inputs=(torch.randn(2, 8),))))
    assert [[f"layers.{i}"] for i in range(4)] in classes


def test_quantized(tmp_path: Path) -> None:
    """Packed weights are objects of PyTorch's own classes: kept by name, and their operators by theirs."""
    quantize = pytest.importorskip("torch.ao.quantization").quantize_dynamic
    model = quantize(torch.nn.Sequential(torch.nn.Linear(8, 4)), {torch.nn.Linear}, torch.qint8)
    torch.jit.script(model).save(tmp_path / "model.pt")
    target = tmp_path / "model.json"
    run_tool(TOOL, [tmp_path / "model.pt", "-o", target, "--input=2x8xf32"])
    graph = graph_of(target)
    assert [i["kind"] for i in graph["inputs"]] == ["constant_object", "user_input"]
    assert "quantized.linear_dynamic.default" in {n["target"] for n in nodes_of(graph)}
    # The program takes packed weights from the loaded module, and says so.
    target = convert(tmp_path / "model.pt")
    with pytest.raises(
        KeyError, match=r"load\(weights, module\) takes them from the loaded module"
    ):
        load_program(import_mlir(target))
    module = torch.jit.load(tmp_path / "model.pt")
    program = load_program(import_mlir(target), module)
    x = torch.randn(2, 8)
    assert_same(program(x), module(x))


class QuantizedAs(torch.nn.Module):
    """Branches on a dtype that its caller names."""

    def __init__(self, by_channel: bool) -> None:
        super().__init__()
        self.by_channel = by_channel

    def forward(self, x: Tensor, dtype: int) -> Tensor:
        if self.by_channel:
            y = torch.quantize_per_channel(x, torch.ones(2), torch.zeros(2), 0, dtype)
        else:
            y = torch.quantize_per_tensor(x, 0.1, 0, dtype)
        if y.dtype == torch.qint8:
            return x + 1
        return x * 3


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("dtype", [12, 13])
def test_dtypes_of_a_call_decide_its_branches(tmp_path: Path, by_channel: bool, dtype: int) -> None:
    """The branch that a run took is not the branch of each call, where the dtype is the call's."""
    torch.jit.script(QuantizedAs(by_channel)).save(tmp_path / "model.pt")
    document = convert(tmp_path / "model.pt", "--input=2x3xf32", f"--input={dtype}")
    assert "prim.If" in {node["target"] for node in nodes_of(graph_of(document))}
    module, x = torch.jit.load(tmp_path / "model.pt"), torch.rand(2, 3)
    program = load_program(import_mlir(document))
    for other in (12, 13):
        assert_same(program(x, other), module(x, other))


def test_quantized_tensors_have_sizes(tmp_path: Path) -> None:
    """The scale of an input is a buffer, and the checks of a quantized convolution ask for what does not hang on it."""
    quantization = pytest.importorskip("torch.ao.quantization")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        quantization.QuantStub(), torch.nn.Conv2d(3, 4, 3), quantization.DeQuantStub()
    ).eval()
    model.qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(model, inplace=True)
    x = torch.randn(1, 3, 8, 8)
    model(x)
    quantization.convert(model, inplace=True)
    torch.jit.script(model).save(tmp_path / "model.pt")
    document = convert(tmp_path / "model.pt", inputs=(x,))
    targets = {node["target"] for node in nodes_of(graph_of(document))}
    assert "quantized.conv2d.new" in targets and "prim.If" not in targets
    module = torch.jit.load(tmp_path / "model.pt")
    assert_same(load_program(import_mlir(document), module)(x), module(x))


def test_objects_whose_names_have_dots(tmp_path: Path) -> None:
    """LibTorch's passes put packed weights into attributes of such names, as mobile models have them."""
    quantize = pytest.importorskip("torch.ao.quantization").quantize_dynamic
    model = quantize(torch.nn.Sequential(torch.nn.Linear(8, 4)), {torch.nn.Linear}, torch.qint8)
    packed = torch.jit.script(model)._c.getattr("0").getattr("_packed_params")
    weights = packed.getattr("_packed_params")
    module = torch.jit.ScriptModule()
    kind = torch._C._jit_try_infer_type(weights).type()
    module._c._register_attribute("packed.0.weights", kind, weights)
    module.define(
        "def forward(self, x):\n"
        '  return torch.ops.quantized.linear_dynamic(x, getattr(self, "packed.0.weights"), True)\n'
    )
    module.save(tmp_path / "model.pt")
    module = torch.jit.load(tmp_path / "model.pt")
    program = load_program(import_mlir(convert(tmp_path / "model.pt")), module)
    x = torch.randn(2, 8)
    assert_same(program(x), module(x))
