"""`opprof optimize` of TorchScript archives: the module that is made of one, the backend for it, and what is refused."""

import copy
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchscript_models import CASES, STATEFUL, Stack, save, texts_of

from opprof.backend.checks import Subject
from opprof.backend.emit import emit
from opprof.commands.cli import main
from opprof.errors import OpprofError
from opprof.export import archive_model
from opprof.export.archive_model import own_usage, usage, write_archive_model
from opprof.export.model_script import load_model_script
from opprof.search.baselines import EAGER, INDUCTOR, TORCHSCRIPT, make_baseline, recipes
from opprof.tools import find_tool
from opprof.torchscript import TOOL, TorchScriptOptions, write_graph

try:
    find_tool(TOOL)
except OpprofError:
    pytest.skip("this build has no LibTorch", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")


class Shifted(nn.Module):
    """Holds a tensor that is neither parameter nor buffer, which an archive keeps among its constants."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x))) + torch.arange(64, dtype=torch.float32)


class Padded(nn.Module):
    """Row 0 of the table is that of padding, and so is its result; the mask hides what is no 1."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 8, padding_idx=0)
        self.out = nn.Linear(8, 4, bias=False)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        hidden = self.table(tokens) * torch.sqrt(1 - (1 - mask.float()) ** 2).unsqueeze(-1)
        return self.out(hidden)


def test_whole_numbers_reach_more_than_the_row_of_padding(tmp_path: Path) -> None:
    """A token is at most 6, and a mask of 3 gives no number: what is drawn fits each."""
    tokens, mask = torch.randint(1, 7, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
    torch.jit.trace(Padded().eval(), (tokens, mask)).save(tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=["2x9xi64", "2x9xi64"])
    script = load_model_script(write_archive_model(tmp_path / "model.pt", options, tmp_path / "o"))
    for value in script.args:
        assert set(value.flatten().tolist()) == {0, 1}
    assert bool(script.module(*script.args).any())


@pytest.mark.parametrize(
    "name",
    [
        "stack",
        "cnn-traced",
        "lstm",
        "lstm-traced",
        "bookkeeping",
        "encoder",
        "defaults",
        "writer",
        "windows",
    ],
)
def test_the_module_is_the_archive(tmp_path: Path, name: str) -> None:
    """write_archive_model compares bits; the parameters are the loaded archive's own, and other sizes are refused."""
    case = CASES.get(name) or STATEFUL[name]
    save(case, tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=texts_of(case.inputs))
    target = write_archive_model(tmp_path / "model.pt", options, tmp_path / "out")
    script = load_model_script(target)
    loaded = torch.jit.load(tmp_path / "model.pt")
    module = sys.modules[type(script.module).__module__].module_of(loaded)
    own = {name: value.data_ptr() for name, value in loaded.named_parameters()}
    for key, value in module.named_parameters():
        assert value.data_ptr() == own[key]
    with pytest.raises(ValueError, match="is for tensors of the sizes"):
        module(*(torch.zeros(1) for _ in script.args))
    # TorchScript itself is one of the programs: each call of it begins with what the archive holds.
    subject = Subject(script)
    recipe = recipes(subject)[0]
    assert recipe.name == TORCHSCRIPT
    baseline = make_baseline(recipe, subject, 1e-3)
    assert baseline.program is not None, baseline.reason
    expected = copy.deepcopy(script.module)(*copy.deepcopy(script.args))
    for _ in range(2):
        found = baseline.program(*copy.deepcopy(script.args))
        torch.testing.assert_close(found, expected)


class Counting(torch.nn.Module):
    """Adds to a tensor that is no buffer in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.count = torch.zeros(4)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1.0)
        return self.linear(x) + self.count


class CountingInParameter(Counting):
    def __init__(self) -> None:
        super().__init__()
        del self.count
        self.count = torch.nn.Parameter(torch.zeros(4), requires_grad=False)


class Largest(torch.nn.Module):
    """Keeps the largest numbers that it has seen, which small ones are not."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("top", torch.zeros(4))
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.top.copy_(torch.maximum(self.top, x.amax(0) - 3))
        return self.linear(x) + self.top


@pytest.mark.parametrize("form", ["scripted", "traced", "frozen"])
@pytest.mark.parametrize("kind", [Counting, CountingInParameter, Largest])
def test_each_call_of_torchscript_begins_with_what_the_archive_holds(
    tmp_path: Path, kind: type[torch.nn.Module], form: str
) -> None:
    model, x = kind().eval(), torch.randn(2, 4)
    traced = form == "traced"
    made = torch.jit.trace(model, x, check_trace=False) if traced else torch.jit.script(model)
    if form == "frozen":
        made = torch.jit.freeze(made)
    made.save(tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=["2x4xf32"])
    script = load_model_script(
        write_archive_model(tmp_path / "model.pt", options, tmp_path / "out")
    )
    assert script.archive_method is not None
    run = script.archive_method("cpu")
    with torch.no_grad():
        for given in (x, x, x * 10, x * 10, x):
            expected = copy.deepcopy(script.module)(given)
            torch.testing.assert_close(run(given), expected)


@pytest.mark.parametrize(
    "name", ["stack_model.py", "stack_model_arguments.pt", "stack_model_constants.safetensors"]
)
def test_what_is_somebody_elses_is_not_replaced(tmp_path: Path, name: str) -> None:
    save(CASES["stack"], tmp_path / "stack.pt")
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("months of somebody's work")
    options = TorchScriptOptions(inputs=texts_of(CASES["stack"].inputs))
    with pytest.raises(OpprofError, match="is none of opprof's files, and would be lost"):
        write_archive_model(tmp_path / "stack.pt", options, out)
    assert [file.read_text() for file in out.iterdir()] == ["months of somebody's work"]
    # Its own are replaced.
    (out / name).unlink()
    for _ in range(2):
        assert write_archive_model(tmp_path / "stack.pt", options, out) == out / "stack_model.py"


def test_the_backend_of_an_archive_replaces_nothing_of_somebody_elses(tmp_path: Path) -> None:
    save(CASES["stack"], tmp_path / "stack.pt")
    own = tmp_path / "stack_model_optimized.py"
    own.write_text("months of somebody's work")
    inputs = [f"--input={text}" for text in texts_of(CASES["stack"].inputs)]
    assert main(["optimize", str(tmp_path / "stack.pt"), *inputs, "-o", str(tmp_path)]) == 1
    assert own.read_text() == "months of somebody's work"


def test_the_module_in_another_precision(tmp_path: Path) -> None:
    """What tries bfloat16, or asks float64 how exact float32 is, converts the module and what it takes."""
    torch.jit.trace(Stack().eval(), torch.randn(2, 8), check_trace=False).save(
        tmp_path / "model.pt"
    )
    options = TorchScriptOptions(inputs=["2x8xf32"])
    script = load_model_script(
        write_archive_model(tmp_path / "model.pt", options, tmp_path / "out")
    )
    (x,) = script.args
    with torch.no_grad():
        expected = script.module(x)
        for dtype, tolerance in ((torch.bfloat16, 0.1), (torch.float64, 1e-5)):
            module = copy.deepcopy(script.module).to(dtype)
            torch.testing.assert_close(
                module(x.to(dtype)).float(), expected, rtol=tolerance, atol=tolerance
            )
            with pytest.raises(ValueError, match="is for tensors of the sizes and dtypes"):
                module(x)
            assert torch.equal(script.module(x), module.float()(x)) or dtype == torch.bfloat16
        with pytest.raises(ValueError, match="is for tensors of the sizes and dtypes"):
            script.module(x.double())


class Rotated(nn.Module):
    """Takes the dtype of what it is given or holds, of which a tracer writes down the one that it found."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 8)
        self.out = nn.Linear(8, 4)
        # It is no weight's, and says nothing of what the weights are.
        self.scale = torch.tensor(0.5, dtype=torch.float64)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        angles = torch.arange(tokens.shape[1]).to(x.dtype)[:, None] * torch.ones(8, dtype=x.dtype)
        x = x.masked_fill(tokens[..., None] == 3, torch.finfo(x.dtype).min).clamp(-8)
        wide = (x * angles.cos()).float()
        return self.out((wide * self.scale).softmax(-1, dtype=torch.float32).to(x.dtype))


@pytest.mark.parametrize("own", [torch.float32, torch.bfloat16])
def test_a_traced_module_in_another_precision(tmp_path: Path, own: torch.dtype) -> None:
    """It takes the dtypes that the tracer wrote for those of its weights; as it was saved, it gives TorchScript's bits."""
    tokens = torch.zeros(2, 5, dtype=torch.int64)
    traced = torch.jit.trace(Rotated().eval().to(own), tokens, check_trace=False)
    traced.save(tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=["2x5xi64"])
    script = load_model_script(write_archive_model(tmp_path / "model.pt", options, tmp_path / "o"))
    with torch.no_grad():
        expected = script.module(*script.args).double()
        for dtype in (torch.bfloat16, torch.float64):
            found = copy.deepcopy(script.module).to(dtype)(*script.args)
            assert found.dtype == dtype
            torch.testing.assert_close(found.double(), expected, rtol=0.1, atol=0.1)


class Narrowed(nn.Module):
    """Takes float32 for weights of another dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.out = nn.Linear(8, 4).to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x.to(self.out.weight.dtype)).softmax(-1)


@pytest.mark.parametrize("own", [torch.bfloat16, torch.float64])
def test_arguments_of_another_dtype_than_the_weights(tmp_path: Path, own: torch.dtype) -> None:
    """One of the dtypes that it is converted to is its own, which changes no weight; the arguments are converted all the same."""
    torch.jit.trace(Narrowed(own).eval(), torch.randn(2, 8)).save(tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=["2x8xf32"])
    script = load_model_script(write_archive_model(tmp_path / "model.pt", options, tmp_path / "o"))
    (x,) = script.args
    assert x.dtype == torch.float32
    with torch.no_grad():
        expected = script.module(x)
        assert expected.dtype == own
        for dtype in (torch.bfloat16, torch.float64):
            found = copy.deepcopy(script.module).to(dtype)(x.to(dtype))
            assert found.dtype == dtype
            torch.testing.assert_close(found.double(), expected.double(), rtol=0.1, atol=0.1)
        with pytest.raises(ValueError, match="is for tensors of the sizes and dtypes"):
            copy.deepcopy(script.module).to(torch.float16)(x)


class Named(nn.Module):
    """Holds what the module that is made of it once called its own by the same names."""

    def __init__(self) -> None:
        super().__init__()
        self.precision = nn.Parameter(torch.randn(8))
        self.leaves = nn.Linear(8, 8)
        self._floats = nn.Parameter(torch.randn(8))
        self.opprof_leaves = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.leaves(x * self.precision) + self._floats * self.opprof_leaves


def test_the_names_are_the_archives_own(tmp_path: Path) -> None:
    torch.jit.script(Named().eval()).save(tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=["2x8xf32"])
    script = load_model_script(
        write_archive_model(tmp_path / "model.pt", options, tmp_path / "out")
    )
    with torch.no_grad():
        compiled = torch.compile(script.module, backend="eager", fullgraph=True)
        assert torch.equal(compiled(*script.args), script.module(*script.args))
    # Dynamo of PyTorch 2.11 traces no attribute of another kind.
    assert all(name.isidentifier() for name in vars(script.module))


def test_weights_are_parameters_that_can_be_moved_and_copied(tmp_path: Path) -> None:
    torch.jit.script(Named().eval()).save(tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=["2x8xf32"])
    script = load_model_script(
        write_archive_model(tmp_path / "model.pt", options, tmp_path / "out")
    )
    assert {name for name, _ in script.module.named_parameters()} == {
        name for name, _ in Named().named_parameters()
    }
    # A buffer that takes gradients would be no leaf once it is moved, and no copy could be made of it.
    moved = copy.deepcopy(script.module.double())
    assert all(value.is_leaf and value.requires_grad for value in moved.parameters())


class Tagger(nn.Module):
    """A recurrent layer makes its first state on the device of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0] + torch.arange(8, device=x.device)


def test_devices_of_tensors_are_where_the_module_is_moved(tmp_path: Path) -> None:
    torch.jit.script(Tagger().eval()).save(tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=["2x3x8xf32"])
    script = load_model_script(write_archive_model(tmp_path / "model.pt", options, tmp_path / "o"))
    model, (x,) = script.module, script.args
    assert torch.equal(model(x), torch.jit.load(tmp_path / "model.pt")(x))
    # As a GPU would: an operator on tensors of two devices raises.
    assert model.to("meta")(x.to("meta")).device.type == "meta"


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.register_buffer("scale", torch.rand(8, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.lin(x) * self.scale


def test_an_archive_of_two_precisions_in_one(tmp_path: Path) -> None:
    torch.jit.script(Mixed().eval()).save(tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=["2x8xf32"])
    script = load_model_script(
        write_archive_model(tmp_path / "model.pt", options, tmp_path / "out")
    )
    (x,) = script.args
    with torch.no_grad():
        module = copy.deepcopy(script.module).to("cpu")
        assert torch.equal(module(x), script.module(x))
        module.to(torch.bfloat16)
        assert module(x.bfloat16()).dtype == torch.bfloat16


def test_what_takes_long_is_compared_on_fewer_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.jit.script(Mixed().eval()).save(tmp_path / "model.pt")
    options = TorchScriptOptions(inputs=["2x8xf32"])
    write_archive_model(tmp_path / "model.pt", options, tmp_path / "out")
    assert "held against TorchScript" not in capsys.readouterr().err
    monkeypatch.setattr(archive_model, "_CHECK_SECONDS", 0.0)
    write_archive_model(tmp_path / "model.pt", options, tmp_path / "out")
    assert "held against TorchScript on 2 inputs, not on 4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "branch",
            r"model\.pt/code/__torch__/torchscript_models\.py:\d+: the method branches .*: if ",
        ),
        (
            "detector",
            r"model\.pt/code/__torch__/torchscript_models\.py:\d+: the method loops .*: for ",
        ),
    ],
)
def test_control_flow_is_refused_by_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, says: str
) -> None:
    case = CASES[name]
    save(case, tmp_path / "model.pt")
    inputs = [f"--input={text}" for text in texts_of(case.inputs)]
    assert main(["optimize", str(tmp_path / "model.pt"), "-o", str(tmp_path / "out"), *inputs]) == 1
    assert re.search(says, capsys.readouterr().err)
    assert not list(tmp_path.glob("out/*.py"))


def test_training_is_refused(tmp_path: Path) -> None:
    torch.jit.script(Shifted().train()).save(tmp_path / "model.pt")
    with pytest.raises(OpprofError, match="saved in training mode"):
        write_archive_model(
            tmp_path / "model.pt", TorchScriptOptions(inputs=["8x64xf32"]), tmp_path / "out"
        )


class Convolved(nn.Module):
    """Is quantized statically: each layer has a scale, and its weights are packed."""

    def __init__(self, quantization: Any) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.out = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.dequant(self.out(self.conv(self.quant(x)).mean((2, 3))))


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("scripted", "conv"),
        ("traced", "conv"),
        ("frozen", "a quantized.Conv2dPackedParamsBase among the constants of the code"),
    ],
)
def test_quantized_archives_are_refused_for_what_they_hold(
    tmp_path: Path, form: str, says: str
) -> None:
    """PyTorch's conversion leaves new modules in training mode, which is no reason: none of them asks for it."""
    quantization = pytest.importorskip("torch.ao.quantization")
    archive, x = tmp_path / "model.pt", torch.randn(2, 3, 8, 8)
    model = Convolved(quantization).eval()
    model.qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(model, inplace=True)(x)
    quantization.convert(model, inplace=True)
    assert model.conv.training
    module = torch.jit.trace(model, x) if form == "traced" else torch.jit.script(model)
    (torch.jit.freeze(module) if form == "frozen" else module).save(archive)
    options = TorchScriptOptions(inputs=["2x3x8x8xf32"])
    line = r"model\.pt/code/__torch__/.*\.py:\d+: quantized\.conv2d takes weights that PyTorch packed when the model was quantized, "
    with pytest.raises(OpprofError, match=f"{line}{says}.*: .*ops.quantized.conv2d") as refused:
        write_archive_model(archive, options, tmp_path / "out")
    assert "before it was quantized" in (refused.value.remedy or "")
    # Nor is it one for what else is inference.
    if form != "frozen":
        write_graph(archive, tmp_path / "frozen.json", replace(options, freeze=True))


def test_a_quantized_layer_that_asks_for_its_mode_trains(tmp_path: Path) -> None:
    quantize = pytest.importorskip("torch.ao.quantization").quantize_dynamic
    model = nn.Sequential(nn.LSTM(4, 4, num_layers=2, dropout=0.5)).eval()
    quantized = quantize(model, {nn.LSTM}, torch.qint8)
    for trains in (True, False):
        torch.jit.script(quantized.train(trains)).save(tmp_path / "model.pt")
        options = TorchScriptOptions(inputs=["3x2x4xf32"])
        says = "saved in training mode" if trains else "takes weights that PyTorch packed"
        with pytest.raises(OpprofError, match=says):
            write_archive_model(tmp_path / "model.pt", options, tmp_path / "out")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["validate", "model.pt"], "is a TorchScript archive, and no backend"),
        (["validate", "backend.py", "--model=model.pt"], "model script of it, model_model.py"),
        (["validate", "for_archive.py"], "model script of it, model_model.py"),
        (["emit", ".", "-o", "backend.py", "--model=model.pt"], "model script of it, model_model"),
        (["emit", "recorded", "-o", "backend.py"], "model script of it, model_model.py"),
    ],
)
def test_archives_in_the_place_of_scripts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    says: str,
) -> None:
    """Given by option, or recorded in what is given."""
    monkeypatch.chdir(tmp_path)
    torch.jit.script(Stack().eval()).save("model.pt")
    Path("for_archive.py").write_text('MODEL_SCRIPT = "model.pt"\n')
    Path("recorded").mkdir()
    Path("recorded", "a.mlir").touch()
    Path("recorded", "rewrites.json").write_text('{"script": "model.pt", "rewrites": []}')
    assert main(command) == 1
    assert says in capsys.readouterr().err
    assert not Path("backend.py").exists()


class Wrapper(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)


def test_the_mode_is_that_of_the_model(tmp_path: Path) -> None:
    """Who traces wraps, and the wrapper is in the mode that nobody asked for."""
    archive, options = tmp_path / "model.pt", TorchScriptOptions(inputs=["2x8xf32"])
    torch.jit.trace(Wrapper(Stack().eval()), torch.randn(2, 8)).save(archive)
    write_archive_model(archive, options, tmp_path / "out")
    write_graph(archive, tmp_path / "frozen.json", replace(options, freeze=True))
    model = Stack().eval()
    model.layers[1].train()
    torch.jit.trace(Wrapper(model), torch.randn(2, 8)).save(archive)
    with pytest.raises(OpprofError, match="saved in training mode"):
        write_archive_model(archive, options, tmp_path / "other")


def test_lines_that_use_what_was_found_name_method_and_device() -> None:
    """An archive has no script of its owner's that would move it."""
    script, archive = Path("out/a_encode_model.py"), Path("in/a.pt")
    made = "a_encode_model.module_of(torch.jit.load('a.pt'))"
    assert usage(script, archive)[1] == f"model = {made}"
    assert usage(script, archive, "cuda")[1] == f"model = {made}.to('cuda')"
    lines = own_usage(archive, "encode", "cuda")
    assert lines[0] == "model = torch.jit.load('a.pt', map_location='cuda')"
    assert lines[-1].strip() == "model.encode(...)"
    assert own_usage(archive)[-1].strip() == "model(...)"


def test_optimize_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says how the loaded archive becomes the module, and a backend takes that."""
    archive, output = tmp_path / "shifted.pt", tmp_path / "out"
    inputs = (torch.randn(8, 64),)
    torch.jit.trace(Shifted().eval(), inputs, check_trace=False).save(archive)
    options = ["--input=8x64xf32", "--budget-seconds=1"]
    assert main(["optimize", str(archive), "-o", str(output), *options]) == 0
    lines = [
        "import shifted_model",
        "model = shifted_model.module_of(torch.jit.load('shifted.pt'))",
    ]
    # TorchScript itself is measured in any box, and is used by other lines.
    result = json.loads((output / "optimize.json").read_text())
    lines_of = {one["name"]: one["lines"] for one in result["programs"]}
    assert lines_of.pop(TORCHSCRIPT)[0] == "model = torch.jit.load('shifted.pt')"
    assert all(own[:2] == lines for own in lines_of.values())
    measured = {one["name"] for one in result["programs"] if one["latency_ns"]}
    assert measured >= {TORCHSCRIPT, EAGER, INDUCTOR}
    report = (output / "report.txt").read_text()
    assert "".join(f"    {line}\n" for line in result["lines"]) in report
    emit([], output / "shifted_optimized.py", model="shifted_model.py")
    monkeypatch.syspath_prepend(str(output))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"torch": torch}
    exec(
        "\n".join(
            [*lines, "import shifted_optimized", "model = shifted_optimized.optimize(model)"]
        ),
        names,
    )
    with torch.no_grad():
        actual, expected = names["model"](*inputs), torch.jit.load(archive)(*inputs)
    torch.testing.assert_close(actual, expected)
