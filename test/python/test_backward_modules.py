"""The modules of backward operators in traces of torch.profiler, which has frames of forward modules alone."""

import json
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity

from opprof.commands.report import report_json


def shown(trace: Path) -> dict:
    return json.loads(report_json(trace))


def note_of(profile: dict) -> str:
    notes = [note for note in profile["notes"] if note.startswith("modules of backward operators")]
    return notes[0] if notes else ""


class Stage(torch.nn.Module):
    def __init__(self, a: int, b: int, c: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(a, b)
        self.second = torch.nn.Linear(b, c)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Net(torch.nn.Module):
    """Layers of sizes that no two share, so that a product's sizes alone say which layer it is of."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = torch.nn.Sequential(Stage(11, 13, 17), Stage(17, 19, 23))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stages(x)


#: As torch.profiler counts modules of a class, in the order of their first calls.
LAYERS = {(11, 13): "Stage_0.Linear_0", (13, 17): "Stage_0.Linear_1", (17, 19): "Stage_1.Linear_2", (19, 23): "Stage_1.Linear_3"}  # fmt: skip
BATCH = 7


def layer_of(dims: list[list[int]]) -> str:
    """Of a product in a backward pass: [out, batch] · [batch, in] is a weight's gradient, [batch, out] · [out, in] an input's."""
    (rows, inner), (_, columns) = dims[:2]
    return LAYERS[(columns, rows if inner == BATCH else inner)]


def test_backward_products_have_the_module_of_their_layer(tmp_path):
    net, x = Net(), torch.randn(BATCH, 11, requires_grad=True)

    def step() -> None:
        net(x).square().sum().backward()

    step()
    with torch.profiler.profile(
        activities=[ProfilerActivity.CPU], with_stack=True, with_modules=True, record_shapes=True
    ) as profiler:
        step()
        step()
    trace = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(trace))
    profile = shown(trace)
    operators = profile["operators"]
    backward = [kernel for kernel in profile["kernels"] if kernel.get("part") == "backward"]
    products = [kernel for kernel in backward if kernel["name"] == "aten::mm"]
    # Two of each layer, in two steps.
    assert len(products) == 2 * 2 * len(LAYERS)
    for kernel in products:
        dims = json.loads(operators[kernel["operator"]]["input_dims"])
        assert kernel["module"] == f"Net_0.Sequential_0.{layer_of(dims)}", dims
    # What adds to a weight's gradient is of the weight's layer too; sums and squares are of no module.
    assert {
        kernel.get("module", "")
        for kernel in backward
        if kernel["name"] in ("aten::mul", "aten::pow")
    } <= {""}
    functions = sum(
        event.get("name", "").startswith("autograd::engine::evaluate_function")
        and event["args"].get("Fwd thread id", 0) > 0
        for event in json.loads(trace.read_text())["traceEvents"]
    )
    assert f"known of {functions} of {functions} functions" in note_of(profile)


def made(tmp_path: Path, threads: list[int], ran_on: int, numbers: list[int]) -> Path:
    """Two modules whose operators drew 5 and 6 on each of these threads, and what autograd ran on another with `numbers`."""
    events, at, launch = [], 100, 0

    def add(category: str, name: str, tid: int, start: int, duration: int, **arguments) -> None:
        events.append(
            {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": duration, "args": arguments}
        )  # fmt: skip

    def operator(name: str, tid: int, start: int, **arguments) -> None:
        nonlocal launch
        launch += 1
        add("cpu_op", name, tid, start, 10, **{"External id": launch}, **arguments)
        add("cuda_runtime", "cudaLaunchKernel", tid, start + 2, 4, correlation=launch)
        add("kernel", f"kernel_of_{name[6:]}_{launch}", 7, start + 20, 5, correlation=launch, device=0, stream=7)  # fmt: skip

    for tid in threads:
        for number, module in ((5, "nn.Module: First_0"), (6, "nn.Module: Second_0")):
            add("python_function", f"{module}{tid}", tid, at, 30)
            operator("aten::forward", tid, at + 5, **{"Sequence number": number, "Fwd thread id": 0})  # fmt: skip
            at += 50
    for number in numbers:
        name = "autograd::engine::evaluate_function: MmBackward0"
        add("cpu_op", name, ran_on, at, 40, **{"Sequence number": number, "Fwd thread id": 1})
        operator("aten::back", ran_on, at + 5)
        at += 50
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": events}))
    return file


def modules_of_backward(profile: dict) -> list[str]:
    return [kernel.get("module", "") for kernel in profile["kernels"] if "back" in kernel["name"]]


def test_a_thread_of_autograds_is_told_whose_pass_it_runs(tmp_path):
    profile = shown(made(tmp_path, threads=[10], ran_on=20, numbers=[6, 5]))
    assert modules_of_backward(profile) == ["Second_010", "First_010"]
    assert "known of 2 of 2 functions" in note_of(profile)


@pytest.mark.parametrize(
    ("threads", "ran_on", "modules"),
    [
        # Either thread may have drawn the numbers.
        ([10, 11], 20, ["", ""]),
        # One of them runs its own backward pass.
        ([10, 11], 11, ["Second_011", "First_011"]),
    ],
)
def test_numbers_of_several_threads(tmp_path, threads, ran_on, modules):
    profile = shown(made(tmp_path, threads=threads, ran_on=ran_on, numbers=[6, 5]))
    assert modules_of_backward(profile) == modules
    assert f"known of {len([m for m in modules if m])} of 2" in note_of(profile)


def test_what_was_recorded_before_the_trace_has_no_module(tmp_path):
    profile = shown(made(tmp_path, threads=[10], ran_on=20, numbers=[6, 4, 5]))
    assert modules_of_backward(profile) == ["Second_010", "", "First_010"]
    assert "known of 2 of 3 functions" in note_of(profile)
