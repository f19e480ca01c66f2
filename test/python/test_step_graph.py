"""`opprof run --graph` and `opprof extract`: the program's own bits are as they were, and a module that was cut out gives the bits that it gave there."""

import ast
import importlib.util
import json
import pickle
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stepped_programs import STEP
from test_observer import BUILD, opprof, pytestmark, write

from opprof.commands.extract import extract_module
from opprof.errors import OpprofError
from opprof.export import region_template as region_template

torch = pytest.importorskip("torch")

PROGRAMS = Path(__file__).parent / "stepped_programs.py"
OBSERVED = Path(__file__).parent / "observed_programs.py"
NAMES = ["transformer", "convolutions", "several", "recurrent"]

__all__ = ["pytestmark"]


def record(folder: Path, program: Path, *arguments: object, options: tuple[str, ...] = ()) -> Any:
    """The run's folder, and what the program and opprof said."""
    done = opprof("run", "--graph", *options, "-o", folder, program, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def graph_of(folder: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The document, its graph, and the facts beside it."""
    document = json.loads((folder / "graph.json").read_text())
    return document, document["graphs"][0], json.loads((folder / "step.json").read_text())


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs a program once; gives the run's folder, the oracle's, and what was said."""
    runs: dict[str, tuple[Path, Path, Any]] = {}

    def run(name: str) -> tuple[Path, Path, Any]:
        if name not in runs:
            folder = tmp_path_factory.mktemp(name)
            oracle = folder / "oracle"
            oracle.mkdir()
            done = record(folder / "run", PROGRAMS, name, oracle)
            runs[name] = folder / "run", oracle, done
        return runs[name]

    return run


def extract(run: Path, output: Path, module: str, *options: object) -> ModuleType:
    done = opprof("extract", run, "--module", module, "-o", output, *options)
    assert done.returncode == 0, done.stderr
    spec = importlib.util.spec_from_file_location(output.stem, output)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def restored(value: Any) -> Any:
    """What copied() of the programs was given."""
    if isinstance(value, tuple) and len(value) == 3 and value[0] == "tensor":
        _, numbers, strides = value
        tensor = torch.from_numpy(numbers)
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)
    if isinstance(value, (list, tuple)):
        return type(value)(map(restored, value))
    if isinstance(value, dict):
        return {key: restored(part) for key, part in value.items()}
    return value


def same(first: Any, second: Any) -> bool:
    """Whether all bits are."""
    if isinstance(first, torch.Tensor):
        return (
            first.dtype == second.dtype
            and first.shape == second.shape
            and first.detach().numpy().tobytes() == second.detach().numpy().tobytes()
        )
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    return bool(first == second)


@pytest.mark.parametrize("name", [*NAMES, "transformer-inference", "recurrent-inference"])
def test_the_program_computes_the_same_bits_and_draws_the_same_numbers(
    recorded: Any, name: str
) -> None:
    bare = subprocess.run(
        [sys.executable, PROGRAMS, name], capture_output=True, text=True, check=True
    )
    _, _, done = recorded(name)
    assert done.stdout == bare.stdout


@pytest.mark.parametrize("name", [*NAMES, "transformer-inference", "recurrent-inference"])
def test_an_extracted_module_gives_the_bits_that_it_gave_in_the_program(
    recorded: Any, name: str, tmp_path: Path
) -> None:
    run, oracle, _ = recorded(name)
    _, _, facts = graph_of(run)
    root = facts["calls"][0]["module"]
    files = sorted(oracle.glob("*.pickle"))
    assert files
    for number, file in enumerate(files):
        # Written by the program above.
        kept = pickle.loads(file.read_bytes())
        path = f"{root}.{kept['path']}" if kept["path"] else root
        training = ["--training"] if kept["training"] else []
        script = extract(run, tmp_path / f"m{number}.py", path, "--call", kept["call"], *training)
        module, arguments = script.get_model_and_input()
        state = restored(kept["state"])
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        with torch.no_grad():
            for weight, value in own.items():
                if weight in state:
                    value.copy_(state[weight])
                elif value.dtype is not torch.uint8:
                    # What Shared takes from outside; what is of bytes is the random state, which the oracle looks at.
                    value.copy_(torch.full((8,), 0.5))
        args, kwargs = restored(kept["args"]), restored(kept["kwargs"])
        # Like what the script makes itself, and in the same order.
        made, spec = torch.utils._pytree.tree_flatten(arguments)
        given, other = torch.utils._pytree.tree_flatten((*args, *kwargs.values()))
        assert spec == other
        assert [getattr(v, "shape", v) for v in made] == [getattr(v, "shape", v) for v in given]
        torch.set_rng_state(torch.from_numpy(kept["random"]))
        with torch.set_grad_enabled(kept["training"]):
            assert module.training == kept["training"]
            result = module(*args, **kwargs)
        assert same(result, restored(kept["result"])), path
        buffers = restored(kept["buffers"])
        for weight, value in module.named_buffers():
            assert weight not in buffers or same(value, buffers[weight]), f"{path}.{weight}"
        if kept["training"]:
            check_gradients(module, result, kept, path)


def check_gradients(module: Any, result: Any, kept: Any, path: str) -> None:
    """Autograd goes through the module as it went in the program; weights that are used once have the same gradients."""
    leaves = [v for v in torch.utils._pytree.tree_leaves(result) if isinstance(v, torch.Tensor)]
    # Not of a weight that something else uses too.
    if not kept["trained"] or kept["path"] in ("shared", "head", ""):
        return
    # The attention's other result went into the first.
    places = [p for p in kept["gradients"] if p == 0 or not path.endswith("attention")]
    gradients = [restored(kept["gradients"][place]) for place in places]
    torch.autograd.backward([leaves[place] for place in places], gradients)
    trained = restored(kept["trained"])
    own = dict(module.named_parameters())
    assert own.keys() == trained.keys()
    for name, gradient in trained.items():
        assert torch.allclose(own[name].grad, gradient, rtol=1e-5, atol=1e-7), f"{path}.{name}"


def test_the_graph_has_what_ran_with_modules_and_lines(recorded: Any) -> None:
    run, _, done = recorded("transformer")
    document, graph, facts = graph_of(run)
    assert f"recorded the graph of step {STEP}" in done.stderr
    assert (graph["stage"], facts["kind"], facts["number"], facts["whole"]) == (
        "recorded",
        "step",
        STEP,
        True,
    )
    phases = facts["nodes"]["phase"]
    assert re.fullmatch(r"f+b+[fb]*o+f*", phases), phases
    assert len(phases) == len(facts["nodes"]["call"]) == len(graph["nodes"])
    # Backward has the modules and lines of the forward that it differentiates.
    lines = PROGRAMS.read_text().splitlines()
    softmax = next(n for n, text in enumerate(lines, 1) if "scores.softmax(-1)" in text)
    found: Counter[tuple[str, str, int]] = Counter()
    for node, phase in zip(graph["nodes"], phases, strict=True):
        if "softmax" in node["target"] and "modules" in node:
            path = document["modules"][node["modules"]][-1]["path"]
            found[phase, path, document["stacks"][node["stack"]][-1]["line"]] += 1
    layers = [f"Transformer.layers.{n}.attention" for n in range(3)]
    assert found == {(phase, path, softmax): 1 for phase in "fb" for path in layers}
    # The tied weight is one value.
    weights = [e["target"] for e in graph["inputs"] if e["kind"] == "parameter"]
    assert weights.count("Transformer.embedding.weight") == 1
    assert "Transformer.head.weight" not in weights
    names = [e["names"] for e in facts["inputs"].values() if "names" in e]
    assert ["Transformer.embedding.weight", "Transformer.head.weight"] in names


def test_layers_of_the_graph_repeat_in_forward_backward_and_optimizer(tmp_path: Path) -> None:
    record(tmp_path / "run", OBSERVED, "clean", 4)
    graph = tmp_path / "run" / "graph.mlirbc"
    done = subprocess.run(
        [BUILD / "bin" / "opprof-opt", "--dedup-partitions", graph, "-o", "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
    )
    classes = re.findall(r"note: c\d+ @(\w+), (\d+) nodes: (\S+) … (\S+):", done.stderr)
    layers = [c for c in classes if re.fullmatch(r"Layer(_\d+)?", c[0])]
    # Forward and backward, both of all three.
    assert len(layers) == 2
    assert [{first[-1], last[-1]} for _, _, first, last in layers] == [
        {"0", "2"},
        {"0", "2"},
    ] or all(
        first.startswith("Net.layers.") and last.startswith("Net.layers.")
        for _, _, first, last in layers
    )


def test_errors_name_what_there_is(recorded: Any, tmp_path: Path) -> None:
    run, _, _ = recorded("several")
    output = tmp_path / "m.py"

    def refused(*arguments: object) -> str:
        done = opprof("extract", *arguments, "-o", output)
        assert done.returncode == 1 and not output.exists(), done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "Several.shared" in refused(run, "--module", "Several.share")
    assert "called 3 times in the step" in refused(run, "--module", "shared", "--call", 3)
    # What checkpoint computed again is no other call of the program's.
    assert "called 1 times in the step (and 1 in the backward part" in refused(
        run, "--module", "inner", "--call", 1
    )
    assert "opprof run --graph" in refused(tmp_path, "--module", "shared")
    done = opprof("extract", run, "--module", "shared", "-o", tmp_path / "m.txt")
    assert "has to be .py" in done.stderr


def test_another_value_of_a_flag_is_refused(recorded: Any, tmp_path: Path) -> None:
    run, _, _ = recorded("transformer")
    script = extract(run, tmp_path / "m.py", "layers.1.attention")
    module, (x, mask, causal) = script.get_model_and_input()
    assert (mask, causal) == (None, True)
    assert module(x, mask, causal=True)["kind"] == "causal"
    with pytest.raises(ValueError, match="recorded with True where False"):
        module(x, mask, causal=False)
    # Inputs of a seed are the same every time, and others than those of another.
    assert same(script.get_inputs(3), script.get_inputs(3))
    assert not same(script.get_inputs(3)[0], script.get_inputs(4)[0])


def test_a_program_without_such_a_step_says_so(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\nnet = torch.nn.Linear(2, 2)\nopt = torch.optim.SGD(net.parameters())\n"
        "for _ in range(2):\n    net(torch.ones(1, 2)).sum().backward()\n    opt.step()\n",
    )
    done = record(tmp_path / "run", program, options=("--graph-step", "5"))
    assert "did not get to step 5" in done.stderr
    assert not (tmp_path / "run" / "graph.json").exists()
    # One that ends in the step has what ran.
    done = record(tmp_path / "run", program, options=("--graph-step", "2"))
    assert "did not get to step" not in done.stderr
    assert graph_of(tmp_path / "run")[2]["whole"] is False


COMPILED = """
import sys, torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.relu(self.up(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = Block(), torch.compile(Block(), dynamic=False)

    def forward(self, x):
        return self.last(self.first(x))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    # A size of its own, for which it is compiled in the step.
    loss = net(torch.randn(4 + step % 3 * ("again" in sys.argv), 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
print(torch.rand(1).item())
"""


@pytest.mark.parametrize("way", ["once", "again"])
def test_what_was_compiled_is_one_node_and_cannot_be_extracted(tmp_path: Path, way: str) -> None:
    program = write(tmp_path, COMPILED)
    bare = subprocess.run(
        [sys.executable, program, way], capture_output=True, text=True, check=True
    )
    done = record(tmp_path / "run", program, way, options=("--graph-step", "2"))
    assert done.stdout == bare.stdout
    assert "torch.compile compiled 2 parts of it: each is one node" in done.stderr
    _, graph, facts = graph_of(tmp_path / "run")
    regions = [n["name"] for n in graph["nodes"] if n["target"] == "higher_order.compiled_region"]
    assert [entry["node"] for entry in facts["compiled"]] == regions
    assert [entry["backward"] for entry in facts["compiled"]] == [False, True]
    # What its kernels call of PyTorch is theirs: one product is the other block's, and two are of its backward.
    assert sum("mm" in n["target"] for n in graph["nodes"]) <= 3
    refused = opprof("extract", tmp_path / "run", "--module", "last", "-o", tmp_path / "m.py")
    assert refused.returncode == 1 and "TORCHDYNAMO_DISABLE=1" in refused.stderr
    extract(tmp_path / "run", tmp_path / "m.py", "first").get_model_and_input()


def test_outermost_modules_of_one_class_are_numbered(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\nnets = [torch.nn.Linear(3, 3) for _ in range(3)]\n"
        "optimizer = torch.optim.SGD([p for n in nets for p in n.parameters()], lr=0.1)\n"
        "for _ in range(3):\n    sum(n(torch.ones(2, 3)).sum() for n in nets).backward()\n    optimizer.step()\n",
    )
    record(tmp_path / "run", program)
    graph = json.loads((tmp_path / "run" / "graph.json").read_text())["graphs"][0]
    weights = {i["target"] for i in graph["inputs"] if i["kind"] == "parameter"}
    assert weights == {f"Linear{n}.{w}" for n in ("", "_2", "_3") for w in ("weight", "bias")}


def test_memory_that_no_operator_wrote_is_told_of(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        out = torch.empty_like(x)\n"
        "        out.numpy()[:] = 2 * x.numpy()\n        return out + 1\n"
        "class Fine(torch.nn.Module):\n    def forward(self, x):\n        return torch.empty_like(x).copy_(x) + 1\n"
        "for net in (Net(), Fine()):\n    pass\n"
        "class Both(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net, self.fine = Net(), Fine()\n"
        "    def forward(self, x):\n        return self.net(x) + self.fine(x)\n"
        "both = Both()\nwith torch.no_grad():\n    for _ in range(3):\n        print(both(torch.ones(3)).tolist())\n",
    )
    done = record(tmp_path / "run", program)
    assert done.stdout.splitlines() == ["[5.0, 5.0, 5.0]"] * 3
    assert "1 operator of it read what no operator of PyTorch's has written" in done.stderr
    refused = opprof("extract", tmp_path / "run", "--module", "net", "-o", tmp_path / "m.py")
    assert refused.returncode == 1 and "program.py:6" in refused.stderr
    module, _ = extract(tmp_path / "run", tmp_path / "m.py", "fine").get_model_and_input()
    assert same(module(torch.ones(3)), torch.full((3,), 2.0))


def test_what_is_written_in_place_is_read_first_unless_it_counts_for_nothing(
    tmp_path: Path,
) -> None:
    program = write(
        tmp_path,
        "import torch\n"
        "def double(x):\n    out = torch.empty_like(x)\n    out.numpy()[:] = 2 * x.numpy()\n    return out\n"
        "class Adds(torch.nn.Module):\n    def forward(self, x):\n        return double(x).add_(1)\n"
        "class Fills(torch.nn.Module):\n    def forward(self, x):\n        return torch.empty_like(x).uniform_(0, 0).add_(x)\n"
        "class Multiplies(torch.nn.Module):\n    def forward(self, x):\n        return torch.empty(3, 3).addmm(x, x, beta=0)\n"
        "class InPlace(torch.nn.Module):\n    def forward(self, x):\n        return torch.empty(3, 3).addmm_(x, x, beta=0)\n"
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.adds, self.fills, self.multiplies, self.in_place = Adds(), Fills(), Multiplies(), InPlace()\n"
        "    def forward(self, x):\n        return self.adds(x) + self.fills(x) + self.multiplies(x) + self.in_place(x)\n"
        "net = Net()\nwith torch.no_grad():\n    for _ in range(3):\n        print(net(torch.ones(3, 3)).sum().item())\n",
    )
    done = record(tmp_path / "run", program)
    assert done.stdout.splitlines() == [str(9 * (3.0 + 1 + 3 + 3))] * 3
    assert "1 operator of it read what no operator of PyTorch's has written" in done.stderr
    refused = opprof("extract", tmp_path / "run", "--module", "adds", "-o", tmp_path / "m.py")
    assert refused.returncode == 1 and "program.py:8" in refused.stderr
    x = torch.ones(3, 3)
    for module, value in (("fills", 1.0), ("multiplies", 3.0), ("in_place", 3.0)):
        extracted, _ = extract(tmp_path / "run", tmp_path / "m.py", module).get_model_and_input()
        assert same(extracted(x), torch.full((3, 3), value)), module


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a program whose modules have NumPy write, each in another way, what is read elsewhere."""
    folder = tmp_path_factory.mktemp("unseen")
    program = write(folder, UNSEEN)
    done = record(folder / "run", program)
    assert "5 operators of it read what no operator" in done.stderr
    return folder / "run"


UNSEEN = """
import dataclasses
import torch
from torch import nn


def double(x, out):
    out.detach().numpy()[:] = 2 * x.detach().numpy()
    return out


@dataclasses.dataclass
class Held:
    value: torch.Tensor


class Gives(nn.Module):
    def forward(self, x):
        return double(x, torch.empty_like(x))


class View(nn.Module):
    def forward(self, x):
        return {"rows": [double(x, torch.empty_like(x))[1:]]}


class Object(nn.Module):
    def forward(self, x):
        return Held(double(x, torch.empty_like(x)))


class Fills(nn.Module):
    def forward(self, x, out):
        return double(x, out)


class Keeps(nn.Module):
    def forward(self, x):
        self.kept = torch.empty_like(x)
        double(x, self.kept)
        return x + 1


class Fine(nn.Module):
    def forward(self, x, y):
        return torch.empty_like(x).copy_(x) + y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gives, self.view, self.object, self.fills, self.keeps = Gives(), View(), Object(), Fills(), Keeps()
        self.first, self.second, self.last = Fine(), Fine(), Gives()

    def forward(self, x):
        y = self.gives(x)
        x = self.first(y, y)
        x = self.second(x, y)
        x = x + self.view(x)["rows"][0].sum() + self.object(x).value
        x = self.fills(x, torch.empty_like(x)) + self.keeps(x)
        return self.last(x + self.keeps.kept)


net = Net()
with torch.no_grad():
    for _ in range(3):
        net(torch.ones(2, 3)).tolist()
"""


@pytest.mark.parametrize("module", ["gives", "view", "object", "fills", "keeps", "first", "last"])
def test_a_module_is_refused_whose_result_no_operator_wrote(
    unseen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setenv("OPPROF_TOOLS_DIR", str(BUILD / "bin"))
    with pytest.raises(OpprofError, match=r"program\.py:\d+: .*does not dispatch has written"):
        extract_module(unseen, module, tmp_path / "m.py")
    assert not (tmp_path / "m.py").exists()


def test_a_module_is_extracted_that_takes_what_is_known_to_be_written(
    unseen: Path, tmp_path: Path
) -> None:
    module, _ = extract(unseen, tmp_path / "m.py", "second").get_model_and_input()
    assert same(module(torch.ones(2, 3), torch.ones(2, 3)), torch.full((2, 3), 2.0))


def recorder() -> ModuleType:
    """What `opprof run --graph` injects, which is no part of the package."""
    path = Path(region_template.__file__).parents[1] / "recording" / "injected" / "step_graph.py"
    spec = importlib.util.spec_from_file_location("step_graph", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(tensor: Any) -> tuple[dict[str, Any], Any]:
    """What is kept of a tensor, and one that an extracted script makes of that."""
    facts = json.loads(json.dumps(recorder().statistics(torch, tensor)))
    generator = torch.Generator().manual_seed(0)
    other = region_template._like(
        generator, tuple(tensor.shape), tensor.stride(), tensor.dtype, "cpu", facts
    )
    assert (other.shape, other.stride(), other.dtype) == (
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
    )
    return facts, other


def test_few_whole_numbers_come_back_also_where_they_are_expanded() -> None:
    row, column = torch.arange(8), torch.arange(4)[:, None]
    for tensor in (
        row.expand(4, 8),
        column.expand(4, 8),
        (row > 3).expand(2, 8),
        row.view(2, 1, 4).expand(3, 2, 5, 4),
        torch.tensor(7).expand(100, 100),
        torch.tensor(0.5).expand(100, 100),
        torch.arange(80).expand(4, 80),
    ):
        assert same(drawn(tensor)[1].contiguous(), tensor.contiguous())
    # Repeated numbers do not weigh more than others do.
    assert drawn(torch.arange(16.0).expand(9, 16))[0] == drawn(torch.arange(16.0))[0]


@pytest.mark.parametrize("low", [-1e4, torch.finfo(torch.float32).min, float("-inf")])
def test_a_mask_that_is_added_has_its_two_values(low: float) -> None:
    mask = torch.triu(torch.full((64, 64), low), 1)
    for tensor in (mask, mask.expand(2, 1, 64, 64)):
        other = drawn(tensor)[1]
        assert set(other.unique().tolist()) == {low, 0.0}
        assert abs(float((other == 0).float().mean() - (tensor == 0).float().mean())) < 0.05


def test_other_numbers_than_those_of_masks_keep_their_range() -> None:
    generator = torch.Generator().manual_seed(1)
    numbers = torch.randn(2000, generator=generator)
    for tensor in (numbers.relu(), -numbers.relu()):
        facts, other = drawn(tensor)
        assert 0.4 < float((other == 0).float().mean()) < 0.7
        assert other.unique().numel() > 100
        assert facts["min"] <= float(other.min()) and float(other.max()) <= facts["max"]
    assert set(drawn((numbers > 1).float())[1].unique().tolist()) == {0.0, 1.0}
    assert drawn(torch.full((100,), -3.0))[1].unique().tolist() == [-3.0]


def test_whole_numbers_may_reach_the_end_of_their_type() -> None:
    last = torch.iinfo(torch.int64).max
    for values in ([0, last], [-last - 1, last], [last, last]):
        other = drawn(torch.tensor(values * 50))[1]
        assert min(values) <= int(other.min()) and int(other.max()) <= last
    assert set(drawn(torch.full((100,), last))[1].tolist()) == {last}
    # What is unsigned is not sorted for having no negative differences.
    pixels = torch.randint(0, 256, (100,), dtype=torch.uint8, generator=torch.Generator())
    assert "sorted" not in drawn(pixels)[0] and drawn(pixels.sort().values)[0]["sorted"]


PATCHED = """
import torch
from torch import nn
calls = 0
original = nn.Module.__call__


def count(module, /, *args, **kwargs):
    global calls
    calls += 1
    return original(module, *args, **kwargs)


net = nn.Linear(8, 8)
step = torch.compile(lambda x: x * 2 + 1, backend="eager", dynamic=False)
optimizer = torch.optim.SGD(net.parameters())
for number in range(4):
    if number == PLACE:
        original = nn.Module.__call__
        nn.Module.__call__ = count
    # A size of its own, for which it is compiled.
    x = step(torch.ones(2, 8 * (number + 1)))[:, :8]
    if number == PLACE:
        print(nn.Module.__call__ is count)
    net(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(nn.Module.__call__ is count, calls)
"""


@pytest.mark.parametrize("place", [0, 2])
def test_a_programs_own_patch_of_calls_stays_when_something_is_compiled(
    tmp_path: Path, place: int
) -> None:
    """Before the step that is recorded, and in it."""
    program = write(tmp_path, PATCHED.replace("PLACE", str(place)))
    bare = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert bare.stdout.split()[-1] == str(4 - place)
    done = record(tmp_path / "run", program, options=("--graph-step", "2"))
    assert done.stdout == bare.stdout
    assert graph_of(tmp_path / "run")[2]["whole"] is True


def test_threads_and_modes_of_the_programs_own(tmp_path: Path) -> None:
    """A mode that the program has on stays in its place, and is no reason to record nothing for good."""
    program = write(
        tmp_path,
        "import torch\nfrom torch.utils._python_dispatch import TorchDispatchMode\n"
        "class Count(TorchDispatchMode):\n    count = 0\n"
        "    def __torch_dispatch__(self, func, types, args=(), kwargs=None):\n"
        "        self.count += 1\n        return func(*args, **(kwargs or {}))\n"
        "net = torch.nn.Linear(2, 2)\nopt = torch.optim.SGD(net.parameters())\n"
        "def step():\n    net(torch.ones(1, 2)).sum().backward()\n    opt.step()\n    opt.zero_grad()\n"
        "for n in range(6):\n    if n < 3:\n        with Count() as mode:\n            step()\n        print(mode.count)\n"
        "    else:\n        step()\n"
        "print(torch._C._len_torch_dispatch_stack(), torch.nn.Module.__call__.__name__)\n",
    )
    bare = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    done = record(tmp_path / "run", program)
    assert done.stdout == bare.stdout
    assert "dispatch mode of its own" in done.stderr
    assert graph_of(tmp_path / "run")[2]["number"] == 4


def test_a_call_of_another_thread_takes_the_graph_from_no_step(tmp_path: Path) -> None:
    """A producer calls a module without gradients while the program's first steps end."""
    program = write(
        tmp_path,
        "import threading, torch\n"
        "going, stepped = threading.Event(), threading.Event()\n"
        "class Waits(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        going.set()\n"
        "        stepped.wait(60)\n"
        "        return x.cos()\n"
        "def produce():\n"
        "    with torch.no_grad():\n"
        "        first(torch.ones(2))\n"
        "        waits(torch.ones(2))\n"
        "first, waits, net = torch.nn.ReLU(), Waits(), torch.nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "producer = threading.Thread(target=produce)\n"
        "producer.start()\n"
        "going.wait(60)\n"
        "for step in range(6):\n"
        "    optimizer.zero_grad()\n"
        "    net(torch.ones(2, 8)).sum().backward()\n"
        "    optimizer.step()\n"
        "    if step == 2:\n"
        "        stepped.set()\n"
        "        producer.join()\n",
    )
    record(tmp_path / "run", program)
    _, graph, facts = graph_of(tmp_path / "run")
    assert facts["kind"] == "step"
    assert any("addmm" in node.get("target", "") for node in graph["nodes"])


def test_the_report_has_work_and_classes_of_what_the_graph_is_of(tmp_path: Path) -> None:
    run = tmp_path / "run"
    record(run, OBSERVED, "clean")
    profile = json.loads((run / "profile.opprof.json").read_text())
    phases = [step["phase"] for step in profile["steps"]]
    # The step that was written down is none of those that are measured.
    assert phases[STEP] == "apart" and phases[STEP + 1 :].count("steady") >= 8
    assert profile["summary"]["steps"] == phases.count("steady")
    assert {kernel["step"] for kernel in profile["kernels"]} == {
        number for number, phase in enumerate(phases) if phase == "steady"
    }
    # Each up of the layers is a product of 128 rows, and ran once in each of these steps.
    products = [k for k in profile["launches"] if k["kernel"] == "aten.addmm.default"]
    flops = 2 * 8 * 16 * 64 * 256
    ups = [
        k
        for k in products
        if k["flops"] >= flops and k["bytes_read"] == 4 * (128 * 64 + 256 * 64 + 256)
    ]
    assert len(ups) == 3
    assert {k["runs"] for k in ups} == {phases.count("steady")}
    assert {p["label"] for p in profile["partitions"]} == {f"Net.layers.{n}" for n in range(3)}
    assert len({p["class"] for p in profile["partitions"]}) == 1
    # What is no node of it has the module that the program was in.
    parts = {
        (k["part"], k["module"]) for k in profile["kernels"] if not k["nodes"] and "module" in k
    }
    assert ("optimizer", "AdamW group 0") in parts
    joined = {k.get("part") for k in profile["kernels"] if k["nodes"] and k["confidence"] == "high"}
    assert {"forward", "backward"} <= joined and "optimizer" not in joined
    text = (run / "report.txt").read_text()
    assert "By class of repeated subgraphs" in text
    assert "ran outside of the steady steps" in text


#: What would end a string, a comment, a docstring or a line of Python, and then leave a file.
HOSTILE = '"""\'\n\r\u2028\\\nopen("pwned", "w")\n#'


def damaged(value: Any, draw: random.Random) -> Any:
    """The value with one thing in it replaced."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        if draw.random() < 0.1:
            return {(HOSTILE if k == key else k): v for k, v in value.items()}
        return {**value, key: damaged(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        place = draw.randrange(len(value))
        return [*value[:place], damaged(value[place], draw), *value[place + 1 :]]
    return draw.choice([None, -1, 10**30, 1.5, HOSTILE, [], {}, [[]], {"node": HOSTILE}, True])


def test_a_module_of_a_training_step_is_extracted_for_its_forward_pass_or_both(
    recorded: Any, tmp_path: Path
) -> None:
    run, oracle, _ = recorded("several")
    kept = pickle.loads((oracle / "0.pickle").read_bytes())
    forward = extract(run, tmp_path / "forward.py", "shared")
    module, arguments = forward.get_model_and_input()
    assert not module.training and not hasattr(forward, "make_step")
    module.load_state_dict({"weight": restored(kept["state"])["weight"]})
    with torch.no_grad():
        module.seen.copy_(restored(kept["state"])["seen"])
        module.captured_input_2.fill_(0.5)
        result = module(*restored(kept["args"]), **restored(kept["kwargs"]))
    # Its function of autograd's switches nothing on.
    assert same(result, restored(kept["result"])) and not result[1][0].requires_grad
    both = extract(run, tmp_path / "both.py", "shared", "--training")
    module, arguments = both.get_model_and_input()
    step = both.make_step(module)
    gradients = []
    for _ in range(2):
        step(*arguments)
        gradients.append(module.weight.grad.clone())
    # Those of one step, and not a sum.
    assert module.training and bool(gradients[0].any()) and same(*gradients)


def test_files_of_strangers_are_refused_or_make_scripts_without_their_code(
    recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _, _ = recorded("several")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPPROF_TOOLS_DIR", str(BUILD / "bin"))
    files = [json.loads((run / name).read_text()) for name in ("graph.json", "step.json")]
    draw = random.Random(0)
    output = tmp_path / "m.py"
    written = 0
    for number in range(150):
        graph, step = files
        if number % 3 == 0:
            # What of the files reaches the script most directly.
            call = next(c for c in step["calls"] if c["module"].endswith("shared"))
            place = step["calls"].index(call)
            calls = [*step["calls"][:place], damaged(call, draw), *step["calls"][place + 1 :]]
            step = {**step, "calls": calls}
        elif number % 3 == 1:
            graph = damaged(graph, draw)
        else:
            step = damaged(step, draw)
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        (folder / "graph.json").write_text(json.dumps(graph))
        (folder / "step.json").write_text(json.dumps(step))
        output.unlink(missing_ok=True)
        try:
            extract_module(folder, "shared", output)
        except OpprofError:
            assert not output.exists()
            continue
        written += 1
        tree = ast.parse(output.read_text())
        calls_of = {
            n.func.id
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        # The template's own reader of weights opens a file.
        opened = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value == "pwned"]
        assert not opened and not calls_of & {"exec", "eval", "__import__"}
    assert 0 < written < 150
    assert not (tmp_path / "pwned").exists()
