"""What `opprof profile` records: the run folder's files, and what each says."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from opprof.backend.checks import load_backend
from opprof.backend.emit import emit
from opprof.chain import attribute, import_graph
from opprof.commands.cli import main
from opprof.commands.launches import launches_text
from opprof.commands.profile import ProfileOptions, profile_script, record
from opprof.commands.recommend import recommend, unseen_by_rules
from opprof.errors import OpprofError
from opprof.export.model_script import import_script
from opprof.run_folder import RunFolder

OPTIONS = ProfileOptions(warm_up=1, traced=2, timed=3, timed_seconds=0.5)

TWO_LAYERS = """
    class TwoLayers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(16, 16)
            self.second = torch.nn.Linear(16, 4)

        def forward(self, x):
            return torch.softmax(self.second(self.first(x).relu()), -1)


    def get_model_and_input():
        torch.manual_seed(0)
        return TwoLayers().eval(), torch.randn(8, 16)
"""


def recorded(path: Path) -> RunFolder:
    """A run folder beside the script, with what the driver makes of it."""
    folder = RunFolder(path.parent / "run")
    record(str(path), folder, OPTIONS)
    attribute(folder)
    return folder


def load(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text())


def trace_events(folder: RunFolder) -> list[dict[str, Any]]:
    """The events of the folder's trace."""
    with gzip.open(folder.trace) as file:
        return json.load(file)["traceEvents"]


def origins(code: Path, graph: str) -> list[set[str]]:
    """For each node of a compiled graph, the nodes of `graph` that it comes from."""
    post_grad = load(code / "post_grad.json")["graphs"][0]
    return [
        {entry["name"] for entry in node.get("from_node", []) if entry["graph"] == graph}
        for node in post_grad["nodes"]
    ]


def test_inference(script: Any) -> None:
    folder = recorded(script(TWO_LAYERS))
    run = load(folder.run)
    assert run["version"] == 1
    assert (run["graph"], run["stage"], run["training"]) == ("model_under_test", "export", False)
    assert run["iterations"] == 2
    for step in (run["step"], run["eager_step"]):
        assert len(step["steps_ns"]) == 3
        assert step["median_ns"] == sorted(step["steps_ns"])[1]
    (code,) = folder.compiled_graphs()
    assert [code.name] == run["compiled_graphs"]
    names = {path.name for path in code.iterdir()}
    assert {"output_code.py", "fx_graph_readable.py", "fx_graph_transformed.py"} <= names
    assert "inductor_provenance_tracking_node_mappings.json" in names

    exported = {node["name"] for node in load(folder.graph_json)["graphs"][0]["nodes"]}
    found = origins(code, "model_under_test")
    assert all(found) and set().union(*found) == exported

    events = trace_events(folder)
    steps = [e for e in events if str(e.get("name")).startswith("ProfilerStep#")]
    assert len({e["name"] for e in steps}) == 2
    kernels = [e for e in events if "cpp_fused" in str(e.get("name"))]
    assert len(kernels) % 2 == 0 and kernels
    assert not (folder.path / ".inductor").exists()


def test_node_by_node(script: Any) -> None:
    path = script(TWO_LAYERS)
    options = ProfileOptions(
        warm_up=1, traced=2, timed=3, timed_seconds=0.2, eager=False, mode="eager"
    )
    folder = profile_script(str(path), path.parent / "run", options)
    profile = load(folder.profile)
    # Each operator of the host ran in the range of its node.
    assert {k["method"] for k in profile["kernels"]} == {"identity"}
    assert {k["confidence"] for k in profile["kernels"]} == {"high"}
    named = [(k["name"], k["nodes"]) for k in profile["kernels"] if k["step"] == 0]
    assert named == [
        ("aten::linear", ["linear"]),
        ("aten::relu", ["relu"]),
        ("aten::linear", ["linear_1"]),
        ("aten::softmax", ["softmax"]),
    ]
    assert load(folder.run)["timeline"]["by"] == "torch.profiler"


def test_a_second_profile_leaves_nothing_of_the_first(script: Any) -> None:
    path = script(TWO_LAYERS)
    first = recorded(path)
    (stale,) = first.compiled_graphs()
    stale.rename(stale.with_name("model__7_inference_7.7"))
    second = recorded(path)
    assert [code.name for code in second.compiled_graphs()] == load(second.run)["compiled_graphs"]


FAILS_LATE = """
    class Late(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.only = torch.nn.Linear(16, 16)

        def forward(self, x):
            return self.only(x).relu()


    def get_model_and_input():
        return Late().eval(), torch.ones(8, 16)


    def make_step(module):
        calls = []

        def step(x):
            calls.append(torch.autograd._profiler_enabled())
            if sum(calls) == {when}:
                raise {what}
            return module(x)

        return step
"""


@pytest.mark.parametrize(
    ("what", "status"), [("ValueError('no more data')", 1), ("KeyboardInterrupt", 130)]
)
def test_what_was_recorded_until_the_program_failed_is_kept(
    script: Any, capsys: pytest.CaptureFixture[str], what: str, status: int
) -> None:
    """The fourth of five traced steps fails."""
    path = script(FAILS_LATE.format(when=4, what=what))
    folder = RunFolder(path.parent / "run")
    command = ["profile", str(path), "-o", str(folder.path), "--warmup", "1"]
    assert main(command) == status
    said = capsys.readouterr()
    if status == 1:
        assert "model_under_test.py:24: the model fails under the profiler" in said.err
        assert f"raise {what}\n" in said.err and "opprof/commands/" not in said.err
    assert load(folder.run)["ended"]
    kernels = load(folder.profile)["kernels"]
    assert [kernel["name"] for kernel in kernels].count("aten::addmm") == 3
    assert folder.report_text.is_file()
    assert not [file for file in folder.path.iterdir() if file.name.startswith(".")]


def test_a_program_that_fails_at_once_leaves_the_earlier_run(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    first = recorded(script(TWO_LAYERS))
    before = {file: file.stat().st_mtime_ns for file in first.path.iterdir()}
    path = script(FAILS_LATE.format(when=0, what="RuntimeError('broken')"), "broken.py")
    assert main(["profile", str(path), "-o", str(first.path)]) == 1
    said = capsys.readouterr().err
    assert "broken.py:24: the model fails: RuntimeError: broken" in said
    assert {file: file.stat().st_mtime_ns for file in first.path.iterdir()} == before


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--kernels=(", "kernels '(': not a regular expression"),
        ("--metrics=dram_bytes_read.sum", "near names: dram__bytes_read.sum"),
        ("--metrics=", "no metric is named"),
        ("--mode=inductr", "near names: inductor\n"),
        ("--counters=none --top=3", "--counters=none takes no counters"),
    ],
)
def test_options_are_refused_before_the_program_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, said: str
) -> None:
    script = tmp_path / "model.py"
    script.write_text("raise SystemExit('the script ran')\n")
    command = ["profile", str(script), "-o", str(tmp_path / "run"), *option.split()]
    assert main(command) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_options_of_counters_are_not_passed_over_in_silence(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(TWO_LAYERS)
    folder = RunFolder(path.parent / "run")
    record(str(path), folder, replace(OPTIONS, metrics="memory"))
    reason = "PyTorch sees no GPU"
    assert load(folder.run)["counters"] == {"mode": "unique", "left_out": reason}
    assert f"no counters: {reason}" in capsys.readouterr().err


def test_a_model_that_does_not_export(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = recorded(
        script(
            """
            class Break(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first = torch.nn.Linear(16, 16)

                def forward(s, x):
                    y = s.first(x).relu()
                    if y.sum() > 0:
                        return y.sin()
                    return y.cos()


            def get_model_and_input():
                return Break().eval(), torch.ones(8, 16)
            """
        )
    )
    said = capsys.readouterr().err
    assert "does not export" in said and "model_under_test.py:12" in said
    assert "def forward" not in said
    run = load(folder.run)
    assert run["stage"] == "dynamo" and len(run["compiled_graphs"]) == 2
    first, second = folder.compiled_graphs()
    graphs = [load(folder.graph_json)["graphs"][0], load(second / "graph.json")["graphs"][0]]
    assert not (first / "graph.json").exists()
    assert [graph["stage"] for graph in graphs] == ["dynamo", "dynamo"]
    assert [entry.get("target") for entry in graphs[0]["inputs"]].count("first.weight") == 1
    assert all(origins(first, graphs[0]["name"])) and all(origins(second, graphs[1]["name"]))
    import_graph(folder.graph_json, folder.graph)
    maps = json.loads(launches_text(folder.path, None, as_json=True))
    for launch_map, graph in zip(maps, graphs, strict=True):
        found = [
            origin
            for launch in launch_map["launches"]
            for node in launch["nodes"]
            for origin in node["from"]
        ]
        assert {origin["graph"] for origin in found} == {graph["name"]}


def test_rules_see_the_operators_of_a_model_that_does_not_export(script: Any) -> None:
    path = script(
        """
        class Break(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = torch.nn.Linear(16, 16)
                self.a = torch.nn.Linear(16, 8)
                self.b = torch.nn.Linear(16, 8)

            def forward(s, x):
                y = s.first(x).relu()
                if y.sum() < 0:
                    return y
                return s.a(y).tanh() * s.b(y).sigmoid()


        def get_model_and_input():
            torch.manual_seed(0)
            return Break().eval(), torch.randn(8, 16)
        """
    )
    folder = recorded(path)
    assert "untraced" not in load(folder.run)
    _, second = folder.compiled_graphs()
    (graph,) = load(second / "graph.json")["graphs"]
    targets = [node["target"] for node in graph["nodes"]]
    linear = "aten.linear.default"
    assert targets == [
        linear,
        "aten.tanh.default",
        linear,
        "aten.sigmoid.default",
        "aten.mul.Tensor",
    ]
    assert all("stack" in node for node in graph["nodes"])
    assert "modules" in graph["nodes"][0]
    names = {entry.get("target"): entry["name"] for entry in graph["inputs"]}
    assert names["a.weight"] == "l_s_modules_a_parameters_weight_"
    # The rules look behind the graph break too, and the backend finds there what they saw.
    rewrites = recommend(folder.path, path.parent / "rewrites")
    (merge,) = [one for one in rewrites.scripts if one.name == "merge-gemms"]
    place = [{"graph": graph["name"], "stage": "dynamo", "name": f"linear{n}"} for n in ("", "_1")]
    nodes = {entry["name"]: entry["nodes"] for entry in load(folder.rewrites)["rewrites"]}
    assert nodes["merge-gemms"] == [place]
    (file, _) = emit([merge], path.parent / "merged.py")
    backend = load_backend(file)
    module, x = import_script(path).get_model_and_input()
    torch._dynamo.reset()
    with torch.no_grad():
        expected = module(x)
        torch.testing.assert_close(torch.compile(module, backend=backend.BACKEND_NAME)(x), expected)
    assert backend.applied == {"merge-gemms": 1}


def test_a_step_of_training_whose_model_does_not_export(script: Any) -> None:
    """Behind the graph break Dynamo would take the sizes of what autograd follows for symbols."""
    folder = recorded(
        script(
            """
            class Break(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first = torch.nn.Linear(16, 16)
                    self.second = torch.nn.Linear(16, 8)

                def forward(s, x):
                    y = s.first(x).relu()
                    if y.sum() < 0:
                        return y
                    return s.second(y).relu()


            def get_model_and_input():
                torch.manual_seed(0)
                return Break().train(), torch.randn(8, 16)


            def make_step(module):
                optimizer = torch.optim.SGD(module.parameters(), 0.01)

                def step(x):
                    optimizer.zero_grad()
                    loss = module(x).square().mean()
                    loss.backward()
                    optimizer.step()
                    return loss

                return step
            """
        )
    )
    run = load(folder.run)
    assert "untraced" not in run
    assert sum("_backward_" in name for name in run["compiled_graphs"]) == 2
    (graph,) = load(folder.graph_json)["graphs"]
    assert [node["target"] for node in graph["nodes"]][:2] == [
        "aten.linear.default",
        "aten.relu.default",
    ]
    kernels = [one for one in load(folder.profile)["kernels"] if one.get("compiled_graph")]
    assert kernels and all(one["nodes"] for one in kernels)


def test_a_graph_that_no_rule_can_see_is_said(script: Any) -> None:
    path = script(
        """
        from torch.utils.checkpoint import checkpoint


        class Break(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = torch.nn.Linear(16, 16)

            def forward(s, x):
                y = checkpoint(s.first, x, use_reentrant=False)
                return y.sin() if y.sum() > 0 else y.cos()


        def get_model_and_input():
            return Break(), torch.ones(8, 16)
        """
    )
    folder = recorded(path)
    name = "model_under_test"
    assert load(folder.run)["untraced"] == {name: "it checkpoints activations"}
    (line,) = unseen_by_rules(folder.path)
    assert (
        line
        == f"no rule sees operators in {name}, which stays as torch.compile traces it: it checkpoints activations"
    )


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("torch.cond(y.sum() > 0, torch.sin, torch.cos, (y,))", "cond is no ATen operator"),
        (
            "torch.func.vmap(lambda row: row.sin() * row.sum())(y)",
            "ValueError: tracing loses what torch.func (vmap, grad, jvp) transforms",
        ),
    ],
    ids=["control flow", "a transformed function"],
)
def test_what_cannot_be_traced_is_profiled_as_torch_compile_has_it(
    script: Any, expression: str, reason: str
) -> None:
    folder = recorded(
        script(
            f"""
            class Break(torch.nn.Module):
                def forward(s, x):
                    y = x.relu()
                    if y.sum() > 1e30:
                        return y
                    return {expression}


            def get_model_and_input():
                return Break().eval(), torch.ones(8, 16)
            """
        )
    )
    run = load(folder.run)
    assert run["untraced"] == {"model_under_test.1": reason}
    assert len(run["compiled_graphs"]) == 2
    _, second = folder.compiled_graphs()
    # What is written down is the graph that Inductor compiled: its nodes lead there.
    assert all(origins(second, "model_under_test.1"))


def test_what_does_not_compile_traced_is_compiled_as_it_was_handed_over(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("no rule for this operator\nand more")

    monkeypatch.setattr("opprof.commands.program.compile_graph", refuse)
    folder = recorded(
        script(
            """
            class Break(torch.nn.Module):
                def forward(s, x):
                    y = x.relu()
                    return y.sin() if y.sum() > 0 else y.cos()


            def get_model_and_input():
                return Break().eval(), torch.ones(8, 16)
            """
        )
    )
    run = load(folder.run)
    reason = "RuntimeError: no rule for this operator"
    assert run["untraced"] == {"model_under_test": reason, "model_under_test.1": reason}
    first, second = folder.compiled_graphs()
    assert all(origins(first, "model_under_test")) and all(origins(second, "model_under_test.1"))
    (graph,) = load(folder.graph_json)["graphs"]
    assert graph["nodes"][0]["target"] == "relu"


@torch._dynamo.config.patch(allow_rnn=False)  # an emitted backend that another test loaded sets it
def test_a_recurrent_model_is_not_what_the_user_compiles(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script("""
        class Tagger(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.cells = torch.nn.GRU(8, 8, batch_first=True)
                self.out = torch.nn.Linear(8, 4)

            def forward(self, x):
                return self.out(self.cells(x)[0])


        def get_model_and_input():
            return Tagger().eval(), torch.randn(2, 3, 8)
    """)
    folder = recorded(path)
    assert "cells (GRU)" in load(folder.run)["differs"]
    code = (folder.compiled_graphs()[0] / "output_code.py").read_text()
    assert code.count("= torch.ops.opprof_recurrent.gru.default(") == 1
    assert "library a layer" in load(folder.run)["differs"]
    assert "leaves cells (GRU) uncompiled" in capsys.readouterr().err
    # In a process of its own, which knows that call.
    assert main(["launches", str(folder.path), "--prove"]) == 0
    assert "have exactly their nodes" in capsys.readouterr().out
    eager = RunFolder(path.parent / "eager")
    record(str(path), eager, replace(OPTIONS, mode="eager"))
    assert "differs" not in load(eager.run)


def test_a_training_step(script: Any) -> None:
    folder = recorded(
        script(
            """
            class Loss(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = torch.nn.Linear(16, 16)

                def forward(self, x):
                    return self.layer(x).tanh().square().mean()


            def get_model_and_input():
                return Loss().train(), torch.ones(8, 16)


            def make_step(model):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

                def step(x):
                    optimizer.zero_grad()
                    model(x).backward()
                    optimizer.step()

                return step
            """
        )
    )
    forward, backward = folder.compiled_graphs()
    assert "forward" in forward.name and "backward" in backward.name
    # Autograd's sequence numbers lead from the backward graph to what it differentiates.
    reached = origins(backward, "model_under_test")
    assert {"tanh", "linear"} <= set().union(*reached)
    assert load(folder.run)["training"] is True


def test_a_model_that_fails(script: Any, tmp_path: Path) -> None:
    path = script(
        """
        def get_model_and_input():
            return torch.nn.Linear(3, 3), torch.ones(8, 4)
        """
    )
    with pytest.raises(OpprofError, match="the model fails: RuntimeError: mat1 and mat2"):
        recorded(path)
    assert not (tmp_path / "run" / "run.json").exists()
