"""An emitted program gives the bits of the graph that it came from: export, JSON, MLIR (text and bytecode), Python, run."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from programs import EXAMPLE_NAMES, assert_same, copies, import_program, script_of
from torch.utils import _pytree as pytree

from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.export.model_script import ModelScript, load_model_script
from opprof.export.stages import export_program
from opprof.export.weights import save_weights, weights_of_program
from opprof.tools import find_tool, run_tool


def emit(graph_json: Path, folder: Path, *options: str) -> ModuleType:
    """The program of a graph JSON file, imported; the graph goes through MLIR's text and bytecode on the way."""
    text, bytecode, again = (
        folder / f"graph{ending}" for ending in (".mlir", ".mlirbc", ".again.mlir")
    )
    run_tool("opprof-translate", ["--import-fx-json", graph_json, "-o", text])
    run_tool("opprof-opt", ["--emit-bytecode", text, "-o", bytecode])
    run_tool("opprof-opt", [bytecode, "-o", again])
    direct = run_tool("opprof-translate", ["--emit-python", *options, text])
    program = folder / "program.py"
    run_tool("opprof-translate", ["--emit-python", *options, again, "-o", program])
    assert program.read_bytes() == direct
    return import_program(program)


def check(program: torch.export.ExportedProgram, script: ModelScript, folder: Path) -> ModuleType:
    """Runs the exported graph eagerly and the emitted program, on copies of the same weights and inputs."""
    file = folder / "graph.json"
    write_graph_json(file, source_of_exported_program(program, script.name))
    module = emit(file, folder)
    weights = copies(weights_of_program(program))
    eager = program.module()
    args, kwargs = script.args, script.kwargs
    own_args, own_kwargs = pytree.tree_map(
        lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
    )
    with torch.no_grad():
        torch.manual_seed(0)
        expected = eager(*args, **kwargs)
        torch.manual_seed(0)
        actual = module.load(weights)(*own_args, **own_kwargs)
    assert_same(expected, actual)
    # What the graph writes: inputs and buffers end up the same too.
    assert_same((args, kwargs), (own_args, own_kwargs))
    for name, buffer in eager.named_buffers():
        if name in program.graph_signature.buffers:
            assert torch.equal(buffer, weights[name]), name
    return module


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_example(name: str, examples: Path, tmp_path: Path) -> None:
    script = load_model_script(examples / f"{name}.py")
    check(export_program(script), script, tmp_path)


def check_module(
    module: torch.nn.Module, folder: Path, *args: Any, dynamic_shapes: Any = None, **kwargs: Any
) -> ModuleType:
    program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    return check(program, script_of(module, *args, **kwargs), folder)


class Forms(torch.nn.Module):
    """Arguments of every form that torch.export keeps."""

    def forward(self, x: torch.Tensor) -> Any:
        y = x.to(torch.float64).to(torch.complex64) + (1.5 - 2.0j)
        z = torch.full((2, 3), float("inf"), dtype=torch.bfloat16)
        w = torch.where(x > 0, x, float("-inf")).nan_to_num(nan=float("nan"), posinf=1e300)
        v = x[..., None, 1:3, ::2].contiguous(memory_format=torch.contiguous_format)
        u = torch.empty_like(x, dtype=torch.int8, device="cpu").fill_(2**7 - 1)
        i = x[:, torch.tensor([0, 2]), None]
        t = torch.arange(2**40, 2**40 + 3, dtype=torch.int64)
        values, indices = x.topk(2, dim=1)
        return {"a": [y, (z, w)], "b": v, 3: u}, i, t, None, values, indices, 7, x.split([1, 3])


def test_forms_of_arguments(tmp_path: Path) -> None:
    check_module(Forms(), tmp_path, torch.randn(4, 5))


OUTPUTS = """
from dataclasses import dataclass
import torch
from torch.utils import _pytree as pytree

@dataclass
class Output:
    last: torch.Tensor

pytree.register_dataclass(Output, serialized_type_name="outputs.Output")
"""

MODEL_WITH_OUTPUTS = """
import outputs, torch

class Model(torch.nn.Module):
    def forward(self, x):
        return outputs.Output(x * 2)

def get_model_and_input():
    return Model(), torch.ones(3)
"""


def test_a_class_of_a_library_is_named_until_the_library_is_imported(tmp_path: Path) -> None:
    (tmp_path / "outputs.py").write_text(OUTPUTS)
    (tmp_path / "model.py").write_text(MODEL_WITH_OUTPUTS)

    def run(code: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    export = (
        "from opprof.commands.cli import main; main(['export', 'model.py', '-o', 'graph.json'])"
    )
    assert run("import sys; sys.path.insert(0, '.'); " + export).returncode == 0
    mlir = tmp_path / "graph.mlir"
    run_tool("opprof-translate", ["--import-fx-json", tmp_path / "graph.json", "-o", mlir])
    run_tool("opprof-translate", ["--emit-python", mlir, "-o", tmp_path / "program.py"])
    call = "import torch, program; print(program.load({})(torch.ones(3)).last.tolist())"
    refused = run(call)
    assert "ImportError" in refused.stderr and "outputs.Output" in refused.stderr
    assert "Import the module of this class before load()" in refused.stderr
    assert run("import outputs; " + call).stdout == "[2.0, 2.0, 2.0]\n"


class Mutates(torch.nn.Module):
    """Buffers and an input that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("scratch", torch.ones(3), persistent=False)
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.scratch.mul_(x.sum())
        cache[1:] = self.norm(x)[1:]
        return cache * self.count + self.scratch


@pytest.mark.parametrize("functional", [False, True])
def test_mutations(functional: bool, tmp_path: Path) -> None:
    module = Mutates().train()
    args = (torch.randn(4, 3), torch.zeros(4, 3))
    program = torch.export.export(module, args)
    if functional:
        program = program.run_decompositions({})
        kinds = {spec.kind.name for spec in program.graph_signature.output_specs}
        assert {"BUFFER_MUTATION", "USER_INPUT_MUTATION"} <= kinds
    check(program, script_of(module, *args), tmp_path)


class Random(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5, training=True) + torch.rand(3) + torch.rand(3)


def test_random_numbers_are_drawn_in_order(tmp_path: Path) -> None:
    check_module(Random(), tmp_path, torch.ones(4, 3))


class Dynamic(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape
        return torch.cat([x * scale, x.new_full((2 * rows + 1, columns), rows)]).reshape(-1)


def test_symbolic_shapes(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    module = check_module(
        Dynamic(),
        tmp_path,
        torch.randn(6, 3),
        scale=torch.tensor(2.0),
        dynamic_shapes={"x": {0: batch}, "scale": None},
    )
    x, scale = torch.randn(9, 3), torch.tensor(3.0)
    program = module.load({})
    assert torch.equal(program(x, scale=scale), Dynamic()(x, scale=scale))
    for wrong, given in ((torch.randn(9, 4), "9x4"), (torch.randn(3), "3")):
        with pytest.raises(ValueError, match=rf"made for x of the size \?x3, and got {given};"):
            program(wrong, scale=scale)
    with pytest.raises(ValueError, match="made for scale of the size one number, and got 3;"):
        program(x, scale=torch.ones(3))


class Mean(torch.nn.Module):
    """The number of rows is in its graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) / x.shape[0]


def test_sizes_that_are_numbers_are_asked_for(tmp_path: Path) -> None:
    module = check_module(Mean(), tmp_path, torch.randn(6, 3))
    with pytest.raises(ValueError, match="made for x of the size 6x3, and got 5x3;"):
        module.load({})(torch.randn(5, 3))


class Branches(torch.nn.Module):
    """Higher-order operators, with weights and constants inside the branches."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.cond(
            x.sum() > 0, lambda v: self.linear(v).sin(), lambda v: v + torch.tensor(2.0), (x,)
        )
        step, z = torch._higher_order_ops.while_loop(
            lambda i, v: i < 3, lambda i, v: (i + 1, v * 2 + 1), (torch.tensor(0), x)
        )
        with torch.no_grad():
            w = x.exp()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            v = self.linear(x)
        return y, step, z, w, v


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_higher_order_operators(sign: float, tmp_path: Path) -> None:
    check_module(Branches(), tmp_path, sign * torch.ones(2, 3))


class Strided(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(5, 3).t())
        self.low = torch.nn.Parameter(torch.randn(3).to(torch.bfloat16))
        self.register_buffer("flags", torch.tensor([True, False, True]))
        self.empty = torch.nn.Parameter(torch.empty(0))

    def forward(self, x: torch.Tensor) -> Any:
        return x @ self.weight, self.low * self.flags, self.empty + 1


@pytest.mark.parametrize("ending", [".safetensors", ".pt"])
def test_weights_from_a_file(ending: str, tmp_path: Path) -> None:
    module = Strided()
    program = torch.export.export(module, (torch.randn(2, 3),))
    emitted = check(program, script_of(module, torch.randn(2, 3)), tmp_path)
    file = tmp_path / f"weights{ending}"
    save_weights(file, weights_of_program(program))
    loaded = emitted.load(str(file))
    assert loaded.weights["weight"].stride() == module.weight.stride()
    x = torch.randn(2, 3)
    with torch.no_grad():
        assert_same(program.module()(x), loaded(x))


def test_a_state_dict_gives_parameters(tmp_path: Path) -> None:
    """A state_dict holds detached tensors; operators see parameters that require what they did in the graph."""
    module = torch.nn.Linear(3, 2)
    module.bias.requires_grad_(False)
    emitted = check_module(module, tmp_path, torch.randn(4, 3))
    given = dict(module.state_dict())
    weights = emitted.load(given).weights
    assert [weights[name].requires_grad for name in ("weight", "bias")] == [True, False]
    assert weights["weight"].data_ptr() == given["weight"].data_ptr()
    assert emitted.load(weights).weights is weights


class WithLoss(torch.nn.Module):
    """Returns one number, which is what a joint graph differentiates."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).square().mean()


def test_a_joint_graph_is_called(tmp_path: Path) -> None:
    """What the model returns, nested as it does, and behind it the gradients."""
    from torch.export.experimental import _export_forward_backward

    torch.manual_seed(0)
    module, x = WithLoss(), torch.randn(4, 3)
    joint = _export_forward_backward(torch.export.export(module, (x,)))
    write_graph_json(tmp_path / "joint.json", source_of_exported_program(joint, "joint"))
    emitted = emit(tmp_path / "joint.json", tmp_path)
    with torch.no_grad():
        loss, gradients = emitted.load(dict(module.state_dict()))(x)
    expected = module(x)
    expected.backward()
    assert torch.allclose(loss, expected)
    assert [tuple(value.shape) for value in gradients] == [(2, 3), (2,)]
    assert torch.allclose(gradients[0], module.linear.weight.grad)


def test_only_one_graph_becomes_a_program(tmp_path: Path) -> None:
    graphs = "\n".join(f"fx.graph @{name}() {{\n  fx.output() : ()\n}}" for name in ("a", "b"))
    (tmp_path / "two.mlir").write_text(graphs)
    translate = find_tool("opprof-translate")
    done = subprocess.run(
        [translate, "--emit-python", tmp_path / "two.mlir", "-o", tmp_path / "p.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "@a is written, and @b is not" in done.stderr


def test_missing_weights_and_wrong_calls_are_named(tmp_path: Path) -> None:
    module = Strided()
    emitted = check_module(module, tmp_path, torch.randn(2, 3))
    with pytest.raises(KeyError, match=r"lack 2 of 4: empty, weight"):
        emitted.load({"low": module.low, "flags": module.flags})
    with pytest.raises(TypeError, match="exported for arguments of the structure"):
        emitted.load(dict(module.state_dict()))(torch.randn(2, 3), torch.randn(2, 3))


MARKED = """
fx.graph private @layer(%x: tensor<4xf32> {fx.name = "x"}) -> tensor<4xf32> {
  %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%relu) : (tensor<4xf32>)
}
fx.graph @model(%x: tensor<4xf32> {fx.name = "x"}) -> tensor<4xf32> {
  prof.range_push "layer::unique::h.0"
  %0 = fx.call @layer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  prof.range_pop
  %1 = fx.node "aten.neg.default"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  prof.range_push "layer::duplicate::h.1"
  %2 = fx.call @layer(%1) : (tensor<4xf32>) -> tensor<4xf32>
  prof.range_pop
  fx.output(%2) : (tensor<4xf32>)
}
"""


class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
    """Every operator that runs, with the ranges that are open then."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        module._range_push, module._range_pop = self.open.append, self.open.pop

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append((str(func), tuple(self.open)))
        return func(*args, **(kwargs or {}))


def test_ranges_hold_their_partition_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "marked.mlir"
    source.write_text(MARKED)
    run_tool("opprof-translate", ["--emit-python", source, "-o", tmp_path / "program.py"])
    module = import_program(tmp_path / "program.py")
    program = module.load({})
    # Without a GPU the ranges go nowhere, and the program runs all the same.
    assert torch.equal(program(torch.tensor([1.0, -1, 2, -2]))[0], torch.zeros(4))
    x = torch.ones(4)
    with Recorder(module) as recorder:
        program(x)
    assert recorder.seen == [
        ("aten.relu.default", ("layer::unique::h.0",)),
        ("aten.neg.default", ()),
        ("aten.relu.default", ("layer::duplicate::h.1",)),
    ]
    assert not recorder.open


@pytest.mark.parametrize("name", ["gpt2", "llama_decode"])
def test_partitions_of_an_example(name: str, examples: Path, tmp_path: Path) -> None:
    """Every node of a partition, and no other, runs inside its range; bits and order are those of the flat program."""
    script = load_model_script(examples / f"{name}.py")
    program = export_program(script)
    graph, flat, shared = (tmp_path / file for file in ("graph.json", "flat.mlir", "shared.mlir"))
    write_graph_json(graph, source_of_exported_program(program, script.name))
    run_tool("opprof-translate", ["--import-fx-json", graph, "-o", flat])
    partitions = tmp_path / "partitions.json"
    passes = ["--dedup-partitions", f"--partition-map={partitions}", "--insert-nvtx-markers"]
    run_tool("opprof-opt", [*passes, flat, "-o", shared])
    modules = []
    for source in (flat, shared):
        path = tmp_path / f"{source.stem}.py"
        run_tool("opprof-translate", ["--emit-python", source, "-o", path])
        modules.append(import_program(path))
    recorders, results = [], []
    for module in modules:
        emitted = module.load(copies(weights_of_program(program)))
        args = pytree.tree_map(torch.clone, script.args)
        with torch.no_grad(), Recorder(module) as recorder:
            results.append(emitted(*args))
        recorders.append(recorder)
    assert_same(*results)
    assert [op for op, _ in recorders[0].seen] == [op for op, _ in recorders[1].seen]
    assert all(not ranges for _, ranges in recorders[0].seen)

    # The ranges in the order in which they were opened, and what ran in each, against the partition map.
    document = json.loads(partitions.read_text())
    nodes = {node["name"]: node for node in json.loads(graph.read_text())["graphs"][0]["nodes"]}
    expected: dict[str, int] = {}
    for entry in document["classes"]:
        for partition in entry["partitions"]:
            label = f"layer::{partition['role']}::{partition['label']}"
            targets = [nodes[node]["target"] for node in partition["nodes"]]
            expected[label] = sum(not target.startswith("operator.") for target in targets)
    assert len(expected) >= 8
    counted: dict[str, int] = {}
    for _, ranges in recorders[1].seen:
        for label in ranges:
            counted[label] = counted.get(label, 0) + 1
    assert set(counted) == set(expected)
    # An operator may run as several: no fewer than the nodes, and equally many in equal partitions.
    for entry in document["classes"]:
        counts = {
            counted[f"layer::{partition['role']}::{partition['label']}"]
            for partition in entry["partitions"]
        }
        assert len(counts) == 1
    assert all(counted[label] >= expected[label] for label in expected)


def test_nothing_is_written_on_failure(tmp_path: Path) -> None:
    source = tmp_path / "bad.mlir"
    source.write_text(
        'fx.graph @g() {\n  fx.node "os.system.x.y"("true") : () -> !fx.none\n  fx.output() : ()\n}\n'
    )
    process = subprocess.run(
        [find_tool("opprof-translate"), "--emit-python", source], capture_output=True, text=True
    )
    assert process.returncode != 0
    assert process.stdout == ""
    assert f"{source}:2:" in process.stderr


class Point(NamedTuple):
    """Results as people name them, of which PyTorch knows nothing."""

    x: torch.Tensor
    rest: Any


class Named(torch.nn.Module):
    """Results of PyTorch's and the user's named tuples, in each other and in a dictionary."""

    def forward(self, x: torch.Tensor, at: Point) -> Any:
        return Point(x + at.x, [x.sort(dim=1), {"range": x.aminmax()}]), x.max(dim=0)


def test_named_tuples_keep_their_class(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    check_module(Named(), tmp_path, x, Point(x * 2, None))


#: Structures for which PyTorch would import a module that a graph names, and what of it may be imported.
IMPORTING = {
    "defaults of a dictionary": (
        "collections.defaultdict",
        {"default_factory_module": "evil", "default_factory_name": "Evil", "dict_context": ["a"]},
    ),
    "defaults that do something": (
        "collections.defaultdict",
        {"default_factory_module": "os", "default_factory_name": "abort", "dict_context": ["a"]},
    ),
    "a key of an enumeration": (
        "builtins.dict",
        json.dumps([{"__enum__": True, "fqn": "evil:Evil", "name": "A"}]),
    ),
    "a key of what is no enumeration": (
        "builtins.dict",
        json.dumps([{"__enum__": True, "fqn": "os:environ", "name": "PATH"}]),
    ),
    "a key of what a library imports by name": (
        "builtins.dict",
        json.dumps([{"__enum__": True, "fqn": "lazy_library:Evil", "name": "A"}]),
    ),
    "a named tuple": ("collections.namedtuple", "evil.Evil"),
    "a named tuple that a library imports by name": ("collections.namedtuple", "lazy_library.Evil"),
    "what names no results": ("torch.return_types.__loader__", "null"),
}


@pytest.mark.parametrize("name", IMPORTING)
@pytest.mark.parametrize("of", ["in_spec", "out_spec"])
def test_a_structure_imports_nothing(
    name: str, of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"a": x * 2}

    (tmp_path / "evil.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "lazy_library.py").write_text("def __getattr__(name):\n    import evil\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("lazy_library")
    file = tmp_path / "graph.json"
    program = torch.export.export(Doubled(), (torch.ones(3),))
    write_graph_json(file, source_of_exported_program(program, "doubled"))
    document = json.loads(file.read_text())
    kind, context = IMPORTING[name]
    leaf = {"type": None, "context": None, "children_spec": []}
    spec = {"type": kind, "context": context, "children_spec": [leaf]}
    document["graphs"][0][of] = json.dumps([1, spec])
    file.write_text(json.dumps(document))
    if of == "in_spec" and not isinstance(context, dict):
        # The names of keyword arguments are taken from its second part.
        pair = {"type": "builtins.tuple", "context": "null", "children_spec": [spec, spec]}
        document["graphs"][0][of] = json.dumps([1, pair])
        file.write_text(json.dumps(document))
    module = emit(file, tmp_path)
    with pytest.raises(ImportError):
        module.load({})
    assert "evil" not in sys.modules


def test_a_container_without_a_name_is_said(tmp_path: Path) -> None:
    class Own:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return Own(x * 2)

    pytree.register_pytree_node(Own, lambda own: ([own.x], None), lambda xs, _: Own(*xs))
    file = tmp_path / "graph.json"
    program = torch.export.export(Model(), (torch.ones(3),))
    write_graph_json(file, source_of_exported_program(program, "own"))
    text = tmp_path / "graph.mlir"
    run_tool("opprof-translate", ["--import-fx-json", file, "-o", text])
    done = subprocess.run(
        [find_tool("opprof-translate"), "--emit-python", text],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "warning: the program returns its results one after another" in done.stderr
    assert "TreeSpec(Own" in done.stderr
