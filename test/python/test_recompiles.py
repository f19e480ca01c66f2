"""Programs that are compiled several times, or in pieces: every compilation has its map, and the report says why there are several."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from test_profile import OPTIONS, load

from opprof.chain import profile_from_files
from opprof.commands.launches import launches_text
from opprof.commands.profile import profile_script
from opprof.errors import OpprofError
from opprof.export.compilations import CompilationLog, Names
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.run_folder import OUTPUT_CODE, RunFolder, code_folders

FIXTURES = Path(__file__).parents[1] / "Target" / "InductorCode" / "Inputs"
TRACES = Path(__file__).parents[1] / "Profile" / "Inputs"

#: Attention over a cache that grows at each call: the second size makes Dynamo compile for any.
GROWING = """
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.key = torch.nn.Linear(16, 16)

        def forward(self, x, cache):
            cache = torch.cat([cache, self.key(x)], 1)
            return torch.softmax(x @ cache.transpose(1, 2), -1) @ cache, cache


    def get_model_and_input():
        torch.manual_seed(0)
        return Attention().eval(), (torch.randn(2, 1, 16), torch.randn(2, 8, 16))


    def make_step(module):
        def step(x, cache):
            with torch.no_grad():
                for _ in range(3):
                    x, cache = module(x, cache)
            return x

        return step
"""

#: One value of the flag is compiled apart from the other, and both run in each step.
SWITCHED = """
    class Switched(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(16, 16)

        def forward(self, x, flag):
            x = self.first(x)
            return torch.relu(x) + 1 if flag else torch.sigmoid(x) + 1


    def get_model_and_input():
        torch.manual_seed(0)
        return Switched().eval(), (torch.randn(8, 16), True)


    def make_step(module):
        def step(x, flag):
            with torch.no_grad():
                return module(x, flag) + module(x, not flag)

        return step
"""

#: Dynamo cannot put `item` or `print` into a graph.
BROKEN = """
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(16, 16)

        def forward(self, x):
            x = torch.relu(self.first(x))
            if x.sum().item() > 1e9:
                x = x * 2
            return torch.sigmoid(x) * 2


    def get_model_and_input():
        torch.manual_seed(0)
        return Broken().eval(), torch.randn(8, 16)
"""


def profiled(script: Any, source: str, name: str) -> tuple[RunFolder, dict[str, Any]]:
    """The run folder of a script, and its profile."""
    path = script(source, name)
    folder = profile_script(str(path), path.parent / "run", OPTIONS)
    return folder, load(folder.profile)


def test_every_compilation_of_a_growing_cache_has_its_map(script: Any) -> None:
    folder, profile = profiled(script, GROWING, "growing.py")
    run = load(folder.run)
    first = run["compiled_graphs"][0]
    assert run["compiled_graphs"] == [first, f"{first}@1"]
    assert [path.name for path in folder.compiled_graphs()] == run["compiled_graphs"]
    for name in run["compiled_graphs"]:
        launch_map = load(folder.path / name / "launches.json")
        assert launch_map["graph"] == name
        # Where a part of the cache lies is a size too.
        assert all(launch["nodes"] for launch in launch_map["launches"])
    # The exported program is of one size of the cache.
    assert run["stage"] == "dynamo"

    original, again = run["compilations"]
    assert original["compiled_graphs"] == [first] and "reason" not in original
    assert again["compiled_graphs"] == [f"{first}@1"]
    assert again["reason"] == "tensor 'cache' size mismatch at index 1. expected 8, actual 9"
    assert again["function"] == "forward" and again["source"].startswith(f"{folder.path.parent}/")
    assert again["compile_ns"] > 0
    assert profile["run"]["compilations"] == run["compilations"]

    # Code for any size takes the first one too, once it is there.
    calls = [call["compiled_graph"] for call in profile["calls"]]
    assert calls == [f"{first}@1"] * 3 * OPTIONS.traced
    joined = [kernel for kernel in profile["kernels"] if kernel["nodes"]]
    assert joined and {kernel["compiled_graph"] for kernel in joined} == {f"{first}@1"}
    assert {kernel["links"]["launch"] for kernel in joined} == {"high"}
    report = folder.report_text.read_text()
    assert "forward (growing.py:" in report and "was compiled 2 times, in" in report
    assert "size mismatch at index 1. expected 8, actual 9" in " ".join(report.split())


def test_kernels_go_to_the_compilation_that_ran(script: Any) -> None:
    folder, profile = profiled(script, SWITCHED, "switched.py")
    first, again = load(folder.run)["compiled_graphs"]
    assert again == f"{first}@1"
    assert load(folder.run)["compilations"][1]["reason"] == "flag == True"
    calls = [call["compiled_graph"] for call in profile["calls"]]
    assert calls == [first, again] * OPTIONS.traced
    for name, operator in ((first, "relu"), (again, "sigmoid")):
        kernels = [k for k in profile["kernels"] if k.get("compiled_graph") == name]
        assert any(operator in kernel["name"] for kernel in kernels)
        assert {kernel["links"]["launch"] for kernel in kernels} == {"high"}
        # The later compilation's nodes are those of a Dynamo graph of its own.
        graphs = {n["graph"] for k in kernels for n in k["nodes"] if isinstance(n, dict)}
        assert graphs == (set() if name == first else {"switched@1"})


def test_graph_breaks_are_counted_with_reason_and_line(script: Any) -> None:
    folder, profile = profiled(script, BROKEN, "broken.py")
    (found,) = load(folder.run)["graph_breaks"]
    lines = (folder.path.parent / "broken.py").read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if ".item()" in text)
    assert found["source"].endswith(f"broken.py:{line}")
    assert "item()" in found["reason"] and found["compilations"] == 1
    assert profile["run"]["graph_breaks"] == [found]
    report = " ".join(folder.report_text.read_text().split())
    assert "the graph breaks at one place:" in report and f"(broken.py:{line})" in report
    # What follows the break is no further compilation of the same function.
    assert len(profile["run"]["compilations"]) == 2
    assert "was compiled" not in report
    assert not any("@" in name for name in load(folder.run)["compiled_graphs"])


@pytest.fixture
def counted() -> Any:
    """Compiles with a backend that only counts, and says what the log makes of it."""
    torch._dynamo.reset()
    log, names = CompilationLog(), Names()
    given: list[str] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Any:
        given.append(names.name("graph", f"graph{len(given)}"))
        log.add_graph(given[-1])
        return module.forward

    yield backend, log, given
    torch._dynamo.reset()


def test_reasons_of_recompilations_are_the_guards_alone(counted: Any) -> None:
    backend, log, given = counted

    @torch.compile(backend=backend, dynamic=False)
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    scaled(torch.ones(2), 2)
    scaled(torch.ones(2), 3)
    scaled(torch.ones(3), 3)
    scaled(torch.ones(2), 2)
    module = torch.compile(torch.nn.Dropout(0.5), backend=backend)
    module(torch.ones(2))
    module.eval()
    module(torch.ones(2))
    assert given == ["graph0", "graph0@1", "graph0@2", "graph3", "graph3@1"]
    found = log.compilations()
    assert [entry.get("reason") for entry in found[:3]] == [
        None,
        "factor == 2",
        "tensor 'x' size mismatch at index 0. expected 2, actual 3",
    ]
    assert "training == True" in found[4]["reason"] and "#" not in found[4]["reason"]
    assert json.loads(json.dumps(found)) == found


def test_a_function_that_is_compiled_too_often_is_said_to_run_uncompiled(counted: Any) -> None:
    backend, log, _ = counted
    with torch._dynamo.config.patch(recompile_limit=2):

        @torch.compile(backend=backend, dynamic=False)
        def doubled(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        for size in range(2, 6):
            doubled(torch.ones(size))
    found = log.compilations()
    assert [entry["function"] for entry in found] == ["doubled"] * 3
    assert "failed" not in found[1]
    assert found[2]["failed"] == "Dynamo recompile limit exceeded"


def test_what_was_compiled_before_is_not_of_this_run(counted: Any) -> None:
    backend, log, _ = counted

    def halved(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    torch.compile(halved, backend=backend)(torch.ones(2))
    assert len(log.compilations()) == 1
    assert CompilationLog().compilations() == []


def test_folders_of_one_name_are_numbered(tmp_path: Path, monkeypatch: Any) -> None:
    code = tmp_path / "code"
    inputs, trace = FIXTURES / "mlp_activations", TRACES / "mlp_activations.trace.json.gz"
    for process in ("run_1", "run_2"):
        folder = code / process / "model__0_inference_0.0"
        folder.mkdir(parents=True)
        for file in inputs.iterdir():
            if file.name != "export.json":
                (folder / file.name).write_bytes(file.read_bytes())
    out = tmp_path / "run"
    profile_from_files(inputs / "export.json", code, trace, out)
    names = ["model__0_inference_0.0", "model__0_inference_0.0@1"]
    assert load(out / "run.json")["compiled_graphs"] == names
    assert [path.name for path in RunFolder(out).compiled_graphs()] == names
    assert {
        launch["compiled_graph"] for launch in load(out / "profile.opprof.json")["launches"]
    } == set(names)

    # A debug folder that is given as the place where one is.
    monkeypatch.chdir(code / "run_2" / names[0])
    profile_from_files(inputs / "export.json", Path("."), trace, tmp_path / "here")
    assert load(tmp_path / "here" / "run.json")["compiled_graphs"] == names[:1]
    assert (tmp_path / "here" / names[0] / "launches.json").is_file()


class Other(torch.nn.Module):
    """Nothing of any recorded program, but products that are called like its."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 5, 3)
        self.linear = torch.nn.Linear(5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(self.linear(self.convolution(x).mean((2, 3))), 1)


def graph_of_another(folder: Path) -> Path:
    program = torch.export.export(Other().eval(), (torch.randn(2, 3, 7, 7),))
    graph = folder / "other.json"
    write_graph_json(graph, source_of_exported_program(program, "other"))
    return graph


def test_launches_are_not_shown_with_another_graph(tmp_path: Path) -> None:
    for code in (FIXTURES / "mlp_activations", FIXTURES / "mlp_activations" / OUTPUT_CODE):
        with pytest.raises(OpprofError, match="was not compiled from this graph"):
            launches_text(code, graph_of_another(tmp_path))


def test_folders_of_one_name_are_shown_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (tmp_path / run / "model__0_inference_0.0" for run in ("run_1", "run_2"))
    shutil.copytree(FIXTURES / "mlp_activations", first)
    shutil.copytree(FIXTURES / "user_triton", second)
    named = {first.name: first, f"{first.name}@1": second}
    assert code_folders(tmp_path) == named
    shown = json.loads(launches_text(tmp_path, None, as_json=True))
    assert [document["graph"] for document in shown] == list(named)
    for document, folder in zip(shown, named.values(), strict=True):
        (alone,) = json.loads(launches_text(folder, None, as_json=True))
        assert document["launches"] == alone["launches"]
    monkeypatch.chdir(second)
    assert launches_text(Path(), None).startswith("model__0_inference_0.0: ")


def test_code_of_another_graph_is_refused(tmp_path: Path) -> None:
    graph = graph_of_another(tmp_path)
    code = FIXTURES / "mlp_activations"
    with pytest.raises(OpprofError) as error:
        profile_from_files(graph, code, TRACES / "mlp_activations.trace.json.gz", tmp_path / "run")
    assert "was not compiled from this graph: 0 of 9 inputs of the code have the shape" in str(
        error.value
    )
    assert str(error.value).endswith("give the graph, the code and the trace of one program")
    assert not (tmp_path / "run" / "profile.opprof.json").exists()
