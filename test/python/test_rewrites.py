"""Rewrites from the rule to the backend: scripts, what opprof-opt and the emitted backend make of them, and what is refused."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from programs import import_program
from torch import Tensor, nn

from opprof.backend.emit import emit
from opprof.backend.emitted.graphs import draws_numbers
from opprof.backend.emitted.tf32 import with_tf32
from opprof.backend.rewrites import Script
from opprof.chain import import_graph
from opprof.choices import DEFAULT_ERROR_BUDGET
from opprof.commands.optimize import note_results
from opprof.commands.recommend import read_rewrites, recommend
from opprof.commands.report import report_text
from opprof.errors import OpprofError
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.run_folder import RunFolder, write_run
from opprof.search.trials import End, Trial
from opprof.tools import run_driver, run_tool


class Projections(nn.Module):
    """Several projections of one input, of other widths, and one of another input."""

    def __init__(self, widths: tuple[int, ...], *, bias: bool, depth: int = 16) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(depth, width, bias=bias) for width in widths)
        self.other = nn.Linear(depth, 8, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(x)
        parts = [torch.tanh(part(y)) for part in self.parts]
        return torch.cat([*parts, torch.tanh(self.other(x))], dim=-1)


class Returned(nn.Module):
    """Two projections of one input, which are returned as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(16, 8)
        self.b = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(x), self.b(x)


class DifferentInputs(nn.Module):
    """Two projections of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(16, 8)
        self.b = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x).relu() + self.b(x + 1).relu()


class Written(nn.Module):
    """Two projections of one tensor, which is written to between them."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(16, 8)
        self.b = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(x)
        first = self.a(y).relu()
        y.mul_(2.0)
        return first + self.b(y).relu()


class Layers(nn.Module):
    """Two layers of three projections each: one rewrite with two places, the second of which takes what the first gives."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(3)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        for q, k, v in self.blocks:
            heads = [part(x).view(x.shape[0], 4, 4).transpose(0, 1) for part in (q, k, v)]
            x = torch.softmax(heads[0] @ heads[1].transpose(1, 2), -1) @ heads[2]
            x = x.transpose(0, 1).reshape(-1, 16)
        return x


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    """Models of one class share their code, of which Dynamo compiles a few versions and then no more."""
    torch._dynamo.reset()


def export(model: nn.Module, x: Tensor, directory: Path) -> torch.export.ExportedProgram:
    """Writes graph.mlir of the model to `directory`."""
    with torch.no_grad():
        program = torch.export.export(model.eval(), (x,))
    write_graph_json(directory / "graph.json", source_of_exported_program(program, "model"))
    run_tool(
        "opprof-translate",
        ["--import-fx-json", directory / "graph.json"],
        output=directory / "graph.mlir",
    )
    return program


def scripts_of(model: nn.Module, x: Tensor, directory: Path) -> list[str]:
    """Recommends for the model; the names of the scripts that there are."""
    export(model, x, directory)
    rewrites = recommend(directory / "graph.mlir", directory / "rewrites")
    return [script.name for script in rewrites.scripts]


def emit_to(directory: Path, name: str, only: str | None = None) -> ModuleType:
    scripts = [
        script
        for script in read_rewrites(directory / "rewrites").scripts
        if only is None or script.name == only
    ]
    return import_program(emit(scripts, directory / f"{name}.py")[0])


def shape_of_graph(graphs: list[dict]) -> str:
    """The main graph as one expression of its outputs: what it computes, whatever the names and the order of its nodes."""
    graph = graphs[0]
    known: dict[str, str] = {}
    for position, entry in enumerate(graph["inputs"]):
        known[entry["name"]] = f"input{position}"

    def text(argument: object) -> str:
        if isinstance(argument, dict) and set(argument) == {"node"}:
            return known[str(argument["node"])]
        if isinstance(argument, list):
            return "[" + ",".join(text(item) for item in argument) + "]"
        if isinstance(argument, dict):
            return json.dumps({key: text(value) for key, value in sorted(argument.items())})
        return json.dumps(argument)

    for node in graph["nodes"]:
        arguments = text(node["args"]) + text(node["kwargs"])
        known[node["name"]] = f"{node['target']}({arguments})"
        # Expressions are shared, so that their length does not grow with the depth of the graph.
        known[node["name"]] = str(hash(known[node["name"]]))
    return text([output["value"] for output in graph["outputs"]])


def graph_by_opt(directory: Path, script: str = "") -> str:
    """What opprof-opt makes of the graph with the script of that file name, or with all."""
    rewritten = directory / "rewritten.mlir"
    run_tool(
        "opprof-opt",
        [directory / "graph.mlir", f"--apply-rewrites={directory / 'rewrites' / script}"],
        output=rewritten,
        quiet=True,
    )
    return shape_of_graph(
        json.loads(run_tool("opprof-translate", ["--export-fx-json", rewritten]))["graphs"]
    )


def graph_by_backend(
    program: torch.export.ExportedProgram, backend: ModuleType, directory: Path
) -> tuple[str, dict[str, int]]:
    """What the emitted passes make of the same exported graph."""
    source = source_of_exported_program(program, "model")
    counts = backend.apply_rewrites(source.module)
    write_graph_json(directory / "by_backend.json", source)
    return shape_of_graph(json.loads((directory / "by_backend.json").read_text())["graphs"]), counts


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("widths", [(8, 8), (8, 4, 12), (16, 4, 4, 4, 8)])
def test_projections_become_one(tmp_path: Path, widths: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    model, x = Projections(widths, bias=bias), torch.randn(6, 16)
    program = export(model, x, tmp_path)
    rewrites = recommend(tmp_path / "graph.mlir", tmp_path / "rewrites")
    names = [script.name for script in rewrites.scripts]
    assert names.count("merge-gemms") == 1
    backend = emit_to(tmp_path, f"projections_{len(widths)}_{bias}", only="merge-gemms")
    with torch.no_grad():
        expected = model(x)
        actual = torch.compile(model, backend=backend.BACKEND_NAME)(x)
    assert backend.applied == {"merge-gemms": 1}
    assert torch.allclose(actual, expected, rtol=1e-5, atol=1e-6)
    by_backend, counts = graph_by_backend(program, backend, tmp_path)
    assert counts == {"merge-gemms": 1}
    assert by_backend == graph_by_opt(tmp_path)


def test_every_place_is_rewritten(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Layers(), torch.randn(6, 16)
    program = export(model, x, tmp_path)
    recommend(tmp_path / "graph.mlir", tmp_path / "rewrites")
    index = json.loads((tmp_path / "rewrites" / "rewrites.json").read_text())
    (merge,) = [entry for entry in index["rewrites"] if entry["name"] == "merge-gemms"]
    assert [len(names) for names in merge["nodes"]] == [3, 3]
    backend = emit_to(tmp_path, "layers", only="merge-gemms")
    by_backend, counts = graph_by_backend(program, backend, tmp_path)
    assert counts == {"merge-gemms": 2}
    assert by_backend == graph_by_opt(tmp_path, merge["file"])
    with torch.no_grad():
        actual = torch.compile(model, backend=backend.BACKEND_NAME)(x)
        assert torch.allclose(actual, model(x), rtol=1e-4, atol=1e-6)


def test_the_index_says_of_which_script_and_within_what_error(tmp_path: Path) -> None:
    export(Layers(), torch.randn(6, 16), tmp_path)
    run = RunFolder(tmp_path / "run")
    import_graph(tmp_path / "graph.json", run.graph)
    write_run(run, {"script": "examples/layers.py"})
    recommend(run.path, tmp_path / "rewrites")
    index = json.loads((tmp_path / "rewrites" / "rewrites.json").read_text())
    assert index["script"] == "examples/layers.py"
    # What the command line allows unless told is what the pass allows, and the driver has no say.
    run_driver("recommend", run.path, "-o", tmp_path / "native")
    assert index["error_budget"] == DEFAULT_ERROR_BUDGET
    assert json.loads((tmp_path / "native" / "rewrites.json").read_text()) == index
    # And the run folder has what was recommended last.
    assert json.loads(run.rewrites.read_text()) == index


def test_reports_quote_what_was_recommended_and_what_became_of_it(tmp_path: Path) -> None:
    inputs = Path(__file__).parents[1] / "Profile" / "Inputs"
    name = inputs / "mlp_activations"
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    arguments = [f"{name}.trace.json.gz", f"--launches={name}.launches.json", "-o", run.profile]
    run_tool("opprof-translate", ["--attribute-profile", *arguments])
    profile = json.loads(run.profile.read_text())
    # Nothing is recommended without one.
    run.profile.write_text(json.dumps({**profile, "graph": "mlp", "stage": "export"}))

    def page() -> str:
        return re.sub(r"\s+", " ", report_text(run.path, width=100))

    assert "`opprof recommend` has the rewrites of this graph and what each would save." in page()
    graph = {
        "name": "cuda-graph",
        "file": "01-cuda-graph.mlir",
        "title": "One CUDA graph",
        "saves_ns": 250_000,
    }
    # No rule answers it.
    other = {
        "name": "given",
        "file": "02-given.mlir",
        "title": "Something else",
        "saves_ns": 900_000,
    }
    run.rewrites.write_text(json.dumps({"version": 1, "rewrites": [graph, other]}))
    quoted = "Of `opprof recommend`: One CUDA graph (01-cuda-graph.mlir) is predicted to save 250 µs of a step"
    assert f"{quoted}." in page()
    assert "Something else" not in page()
    script = Script(tmp_path / "01-cuda-graph.mlir", "cuda-graph")
    note_results(run, [Trial(script, End.KEPT, "", before_ns=900_000, after_ns=700_000)])
    assert f"{quoted}, and was measured to save 200 µs (kept)." in page()
    assert json.loads(run.rewrites.read_text())["rewrites"][1:] == [other]
    # What the search made itself is quoted as well, with what was measured.
    regions = Script(
        *(tmp_path / "precision-by-region.mlir", "precision-by-region", "Narrower floats"),
        finding="matrix-units-idle",
    )
    note_results(run, [Trial(regions, End.KEPT, "", before_ns=900_000, after_ns=600_000)])
    assert json.loads(run.rewrites.read_text())["rewrites"][2]["finding"] == "matrix-units-idle"
    text = "Narrower floats (precision-by-region.mlir) was measured to save 300 µs of a step (kept)"
    assert text in page()
    run.rewrites.write_text(json.dumps({"version": 1, "rewrites": []}))
    assert "`opprof recommend` has no rewrite of this graph for it." in page()
    run.rewrites.write_text('{"version": 1, "rewrites": [{}]}')
    with pytest.raises(
        OpprofError, match=r"rewrites\.json: rewrites\[0\]: the key \"name\" is missing"
    ):
        page()


@pytest.mark.parametrize("model", [Returned(), DifferentInputs(), Written()])
def test_nothing_is_recommended_where_it_would_be_wrong(tmp_path: Path, model: nn.Module) -> None:
    assert "merge-gemms" not in scripts_of(model, torch.randn(6, 16), tmp_path)


@pytest.mark.parametrize("other", [Returned(), DifferentInputs(), Written()])
def test_a_pass_made_for_another_model_leaves_this_one_alone(
    tmp_path: Path, other: nn.Module
) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 16)
    scripts_of(Projections((8, 8), bias=True), x, tmp_path)
    backend = emit_to(tmp_path, f"not_for_{type(other).__name__}", only="merge-gemms")
    with torch.no_grad():
        actual = torch.compile(other, backend=backend.BACKEND_NAME)(x.clone())
        assert backend.applied == {"merge-gemms": 0}
        expected = other(x.clone())
    for own, reference in zip(
        torch.utils._pytree.tree_leaves(actual),
        torch.utils._pytree.tree_leaves(expected),
        strict=True,
    ):
        assert torch.allclose(own, reference, rtol=1e-5, atol=1e-6)


def test_weights_that_change_are_seen(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Projections((8, 8), bias=True), torch.randn(6, 16)
    scripts_of(model, x, tmp_path)
    backend = emit_to(tmp_path, "changing")
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    with torch.no_grad():
        for _ in range(5):
            assert torch.allclose(compiled(x), model(x), rtol=1e-5, atol=1e-6)
            model.parts[0].weight.add_(0.5)
        model.parts[1].weight = nn.Parameter(torch.randn(8, 16))
        assert torch.allclose(compiled(x), model(x), rtol=1e-5, atol=1e-6)


def test_other_sizes_and_gradients_go_to_inductor_as_they_are(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Projections((8, 8), bias=True), torch.randn(6, 16)
    scripts_of(model, x, tmp_path)
    backend = emit_to(tmp_path, "general")
    compiled = torch.compile(model, backend=backend.BACKEND_NAME)
    with torch.no_grad():
        for rows in (6, 5, 7):
            value = torch.randn(rows, 16)
            assert torch.allclose(compiled(value), model(value), rtol=1e-5, atol=1e-6)
    compiled(x).sum().backward()
    gradient = model.parts[0].weight.grad
    assert gradient is not None
    model.zero_grad()
    model(x).sum().backward()
    assert torch.allclose(gradient, model.parts[0].weight.grad, rtol=1e-4, atol=1e-6)


def test_lower_precision_comes_back_as_float32(tmp_path: Path) -> None:
    torch.manual_seed(0)
    (tmp_path / "rewrites").mkdir()
    (tmp_path / "rewrites" / "lower.mlir").write_text(
        "module attributes {transform.with_named_sequence} {\n"
        "  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {\n"
        '    transform.fx.region_strategy %root {prologue, precision = "bfloat16"} : !transform.any_op\n'
        "    transform.yield\n  }\n}\n"
    )
    model, x = Projections((8, 8), bias=True), torch.randn(6, 16)
    backend = emit_to(tmp_path, "lower")
    with torch.no_grad():
        actual = torch.compile(model, backend=backend.BACKEND_NAME)(x)
        expected = model(x)
        assert actual.dtype is torch.float32
        error = float((actual - expected).norm() / expected.norm())
        assert 1e-5 < error < 2e-2


@pytest.mark.parametrize("trains", [False, True])
def test_tf32_is_asked_for_while_the_program_compiles_and_runs_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trains: bool
) -> None:
    (tmp_path / "rewrites").mkdir()
    (tmp_path / "rewrites" / "tf32.mlir").write_text(
        "module attributes {transform.with_named_sequence} {\n"
        "  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {\n"
        f"    transform.fx.region_strategy %root {{tf32{', training' if trains else ''}}} : !transform.any_op\n"
        "    transform.yield\n  }\n}\n"
    )
    backend = emit_to(tmp_path, f"tf32_{trains}")
    assert backend.Strategy(tf32=True, training=trains) == backend.STRATEGY
    products = torch.backends.cuda.matmul
    seen: list[tuple[str, str]] = []
    compile_part = backend.compile_fx_inner

    def compile_recorded(*args: Any, **options: Any) -> Any:
        seen.append(("compiles", products.fp32_precision))
        part = compile_part(*args, **options)
        own = part.current_callable

        def run(values: Any) -> Any:
            seen.append(("runs", products.fp32_precision))
            assert torch.get_float32_matmul_precision() == "high"
            return own(values)

        part.current_callable = run
        return part

    monkeypatch.setattr(backend, "compile_fx_inner", compile_recorded)
    model, x = Projections((8, 8), bias=True), torch.randn(6, 16)
    before = products.fp32_precision, torch.get_float32_matmul_precision()
    with torch.set_grad_enabled(trains):
        compiled = torch.compile(model, backend=backend.BACKEND_NAME)
        for _ in range(2):
            result = compiled(x)
            assert torch.allclose(result, model(x), atol=1e-6)
            assert (products.fp32_precision, torch.get_float32_matmul_precision()) == before
            if trains:
                result.sum().backward()
                assert (products.fp32_precision, torch.get_float32_matmul_precision()) == before
    # Forward and backward each.
    parts = 2 if trains else 1
    assert sorted(seen) == [("compiles", "tf32")] * parts + [("runs", "tf32")] * 2 * parts


def test_tf32_gives_the_setting_back_after_an_error() -> None:
    before = torch.backends.cuda.matmul.fp32_precision

    def fails() -> None:
        raise ValueError("a kernel")

    with pytest.raises(ValueError, match="a kernel"):
        with_tf32(fails)()
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_the_emitted_test_passes(tmp_path: Path) -> None:
    scripts_of(Projections((8, 4), bias=True), torch.randn(6, 16), tmp_path)
    backend, test = emit(read_rewrites(tmp_path / "rewrites").scripts, tmp_path / "emitted.py")
    assert "opprof" not in [
        line.split()[1].split(".")[0]
        for line in backend.read_text().splitlines()
        if line.startswith(("import ", "from "))
    ]
    # No plug-ins, no opprof on the path: as a colleague would run it.
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_dropout_that_is_off_draws_nothing() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    attention = torch.ops.aten.scaled_dot_product_attention.default
    dropout = torch.ops.aten.dropout.default
    drawn = {
        "attention": graph.call_function(attention, (x, x, x)),
        "attention, 0": graph.call_function(attention, (x, x, x, None, 0.0, True)),
        "attention, 0.1": graph.call_function(attention, (x, x, x), {"dropout_p": 0.1}),
        "eval": graph.call_function(dropout, (x, 0.1, False)),
        "train": graph.call_function(dropout, (x, 0.1, True)),
        "rand_like": graph.call_function(torch.ops.aten.rand_like.default, (x,)),
        "add": graph.call_function(torch.ops.aten.add.Tensor, (x, x)),
    }
    assert {name for name, node in drawn.items() if draws_numbers(node)} == {
        "attention, 0.1",
        "train",
        "rand_like",
    }


@pytest.mark.parametrize(
    ("name", "merged"),
    [
        ("gpt2", 0),
        ("embedding_projection", 0),
        ("sdpa_attention", 1),
        ("mlp_activations", 0),
        ("conv_block", 3),
        ("depthwise_separable_conv", 6),
        ("lstm_sequence_encoder", 0),
    ],
)
def test_script_and_emitted_pass_agree_on_the_examples(
    tmp_path: Path, examples: Path, name: str, merged: int
) -> None:
    model, x = import_program(examples / f"{name}.py").get_model_and_input()
    program = export(model, x, tmp_path)
    recommend(tmp_path / "graph.mlir", tmp_path / "rewrites")
    backend = emit_to(tmp_path, f"{name}_emitted")
    by_backend, counts = graph_by_backend(program, backend, tmp_path)
    assert sum(counts.values()) == merged
    assert by_backend == graph_by_opt(tmp_path)


def test_the_documented_rewrite_applies_as_written(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "rewrites.md").read_text()
    blocks = {
        language: re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for language in ("python", "mlir")
    }
    (tmp_path / "rewrites").mkdir()
    (tmp_path / "projections.py").write_text(blocks["python"][1])
    (tmp_path / "rewrites" / "merge.mlir").write_text(blocks["mlir"][1])
    model, x = import_program(tmp_path / "projections.py").get_model_and_input()
    # As a user exports it: the weights require gradients.
    program = torch.export.export(model, (x,))
    write_graph_json(tmp_path / "graph.json", source_of_exported_program(program, "model"))
    run_tool(
        "opprof-translate",
        ["--import-fx-json", tmp_path / "graph.json"],
        output=tmp_path / "graph.mlir",
    )
    assert "requires_grad" in (tmp_path / "graph.mlir").read_text()
    backend = emit_to(tmp_path, "documented")
    by_backend, counts = graph_by_backend(program, backend, tmp_path)
    assert list(counts.values()) == [1]
    assert by_backend == graph_by_opt(tmp_path)
    with torch.no_grad():
        actual = torch.compile(model, backend=backend.BACKEND_NAME)(x)
        assert list(backend.applied.values()) == [1]
        assert torch.allclose(actual, model(x), rtol=1e-5, atol=1e-6)
