"""The oracle of launch maps: right maps are proven, wrong ones refuted, on code that Inductor makes for a CPU here."""

import copy
import functools
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from opprof.commands.cli import main
from opprof.commands.launches import VERDICTS, Proof, prove
from opprof.commands.program import CompiledGraphs, module_of
from opprof.export.graph_json import source_of_exported_program, write_graph_json
from opprof.export.inductor import watching_inductor
from opprof.export.model_script import ModelScript, load_model_script
from opprof.export.stages import export_program
from opprof.proof.exported import exported_values, judge_exported
from opprof.proof.inputs import fill, harness_inputs
from opprof.proof.judge import Derivation, LaunchVerdict, Verdict, judge
from opprof.proof.observe import Observation, Observed, Written, observe_all
from opprof.proof.random_numbers import inductor_random
from opprof.proof.trace import FORCED_ROUNDS, GraphRunner, Step, Trace, unknown_operators
from opprof.proof.values import ValueIndex
from opprof.run_folder import RunFolder
from opprof.tools import run_tool


class Mixed(nn.Module):
    """A convolution changed in place, an addition that is kept, a branch, and parts that are put together."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu_(self.conv(x))
        y = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        z = torch.cond(y.sum() > 0, lambda t: t.sin() + 1, lambda t: torch.relu(t), (y,))
        return torch.cat([z, x], 1).softmax(-1)


#: What each launch of the model computes, read off its kernels by hand: the reader of code is not what is tested here.
NODES = [
    "convolution",
    "relu var_mean sub add rsqrt mul mul_1 add_1",
    "addmm",
    "view_1 mul_2 mul_3 erf add_2 mul_4",
    "addmm_1",
    "relu view_3 add_3 sum_1 gt",
    "true_graph_0.sin true_graph_0.add",
    "false_graph_0.relu",
    "cat amax sub_1 exp sum_2 div",
]


def with_nodes(launch_map: dict[str, Any]) -> dict[str, Any]:
    """The map with the nodes of NODES, each as the reader describes it."""
    known = {
        ".".join(filter(None, (node.get("graph"), node["name"]))): node
        for launch in launch_map["launches"]
        for node in launch["nodes"]
    }
    for launch, names in zip(launch_map["launches"], NODES, strict=True):
        launch["nodes"] = [known[name] for name in names.split()]
    return launch_map


class ReadBack(nn.Module):
    """Kernels that read what they stored: windows over a normalization, and parts that an earlier kernel put together."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, 4)
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.scale = nn.Parameter(torch.randn(4, 1, 1))
        self.narrow = nn.Conv2d(4, 3, 1, bias=False)
        self.deep = nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        x = x + (self.pool(y) - y) * self.scale
        first = torch.relu(self.narrow(x))
        second = torch.tanh(self.deep(first))
        parts = torch.cat([first, second], 1)
        return torch.nn.functional.max_pool2d(parts + parts.flip(0), 3, 2, 1)


class Mixer(nn.Module):
    """Normalizations of what is laid out otherwise, which are of copies, between additions of what was copied."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(6) for _ in range(3))
        self.tokens = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2).transpose(1, 2)
        for norm, tokens in zip(self.norms, self.tokens, strict=True):
            x = x + tokens(norm(x).transpose(1, 2)).transpose(1, 2)
        return x


class ClassTokens(nn.Module):
    """A token put before the others for each block: kernels store its part of what they read as a whole, and read other parts by their own names."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
        self.mixes = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(2))
        self.scale = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        token = self.token
        x = torch.tanh(x * self.scale)
        for norm, mix in zip(self.norms, self.mixes, strict=False):
            token = token + self.scale * mix(norm(torch.cat([token, x], 1))[:, 1:2])
        return self.norms[2](torch.cat([token, x], 1))


class GatheredBlocks(nn.Module):
    """Blocks taken by an index beside the first and the last, out of a view of a view."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.out = nn.Linear(4, 4, bias=False)
        self.register_buffer("chosen", torch.randint(0, 16, (2, 5)))

    def forward(self, x: Tensor) -> Tensor:
        keys = self.project(x).view(1, 32, 2, 4).transpose(1, 2).reshape(1, 2, 16, 2, 4)
        places = self.chosen[None, :, :, None, None].expand(1, 2, 5, 2, 4)
        middle = keys.gather(2, places)
        return self.out(torch.cat([keys[:, :, 0], middle[:, :, 1], keys[:, :, -1]], 2))


class EqualMasks(nn.Module):
    """A mask that each layer makes anew where the layer before it left the same one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        mask = (torch.arange(6) + 0)[None, None, :, None] >= 0
        for layer in self.layers:
            y = layer(x).view(1, 6, 2, 4).transpose(1, 2)
            y = torch.nn.functional.scaled_dot_product_attention(
                y, y, y, attn_mask=mask.expand(1, -1, 6, 6)
            )
            x = x + y.transpose(1, 2).reshape(1, 6, 8)
        return x


class Choices(nn.Module):
    """Values that are chosen by whole numbers, which are alike but where these differ by one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kinds", torch.arange(8)[:, None] % 3)
        self.other = nn.Parameter(torch.randn(6))
        self.weight = nn.Parameter(torch.randn(6, 5))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = torch.where(self.kinds == 0, x, self.other)
        second = torch.where(self.kinds == 1, x, first)
        return first @ self.weight, second @ self.weight


class TokenCache(nn.Module):
    """A cache that takes the keys of one token: kernels store a part of what is read as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.register_buffer("keys", torch.randn(1, 2, 6, 4))
        self.register_buffer("place", torch.tensor([3]))

    def forward(self, x: Tensor) -> Tensor:
        key = torch.tanh(self.project(x)).view(1, 1, 2, 4).transpose(1, 2)
        self.keys[:, :, self.place] = key
        return torch.nn.functional.scaled_dot_product_attention(key, self.keys, self.keys)


class Loss(nn.Module):
    """A loss that leaves out targets of which there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 5)
        self.register_buffer("targets", torch.tensor([1, 0, 4, 2]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(self.project(x), self.targets, ignore_index=-1)


class CountedMask(nn.Module):
    """Places counted by a mask, which no node widens; and what begins where they do, next to the ones before."""

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(6)[None] + 0
        before = torch.cat([places[:, :1] - 1, places], -1)[:, :-1]
        groups = (places - before != 1).cumsum(-1)
        seen = (x > 0).cumsum(-1)
        return x * (groups[:, :, None] == groups[:, None, :]) + seen


class Guided(nn.Module):
    """Halves of a batch that are put together anew, as diffusion models do to be guided by a class."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(6, 8)
        self.embed = nn.Embedding(11, 6)
        self.scale = nn.Linear(6, 12)

    def forward(self, x: Tensor, classes: Tensor) -> Tensor:
        scale, shift = self.scale(torch.nn.functional.silu(self.embed(classes))).chunk(2, dim=1)
        y = self.project(x * (1 + scale[:, None]) + shift[:, None]).transpose(1, 2)
        given, free = torch.split(y[:, :3], len(y) // 2, dim=0)
        guided = free + 4.0 * (given - free)
        return torch.cat([torch.cat([guided, guided], 0), y[:, 3:]], 1)


class Packed(nn.Module):
    """Two numbers of four bits in a byte."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (5, 4), dtype=torch.uint8))

    def forward(self, x: Tensor) -> Tensor:
        low, high = (self.packed & 15).to(torch.int8) - 8, (self.packed >> 4).to(torch.int8) - 8
        return x @ torch.stack([low, high], -1).flatten(1).to(x.dtype).t()


class Unmasked(nn.Module):
    """Scores that are masked by ones, of which an index chooses as many ones (BigBird): what is added is nothing, wherever it is taken from."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(8, 6, bias=False), nn.Linear(6, 5, bias=False)
        self.register_buffer("chosen", torch.tensor([[3, 0, 2, 1, 5, 4]]))

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(1, 7).gather(1, self.chosen)
        return self.after(self.before(x) * 0.3 + (1.0 - mask) * -10000.0)


class Decomposed(nn.Module):
    """A series less its moving mean, whose ends are repeated before it (Autoformer): windows over what the kernel has just put together."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 16)
        self.pool = nn.AvgPool1d(5, 1)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.project(x)
        padded = torch.cat([x[:, :1].repeat(1, 2, 1), x, x[:, -1:].repeat(1, 2, 1)], 1)
        trend = self.pool(padded.permute(0, 2, 1)).permute(0, 2, 1)
        return self.project(self.norm(x - trend))


def test_what_a_kernel_puts_together_and_reads_is_its_own(tmp_path: Path) -> None:
    """No record names the concatenation, and the windows prove nothing: it was missing."""
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, Decomposed(), torch.randn(1, 12, 16))
    found = verdicts(compiled.map, compiled.runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found
    assert any("cat" in v.listed for v in found)


class Routed(nn.Module):
    """Experts that are counted: a kernel checks their numbers, the next one divides the sums that another made."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 3, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.gate(x)
        weights, chosen = torch.topk(logits, 2, -1)
        used = torch.nn.functional.one_hot(chosen, 3).float().sum(1).mean(0)
        return weights.softmax(-1), (used * logits.softmax(-1).mean(0)).sum()


class Apart(nn.Module):
    """Sums of rows that are spelled out beside a sum of all, which for a CPU is a loop however short it is."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(5))

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.scale
        return (y.amax(1) + torch.sin(y).sum(1)).exp().sum()


class Narrow(nn.Module):
    """Residuals in bfloat16, which kernels keep as float32 that no node has: they add to what an earlier one began."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 16)
        self.mixes = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(4))
        self.norms = nn.ModuleList(nn.RMSNorm(16) for _ in range(5))
        self.to(torch.bfloat16)

    def forward(self, rows: Tensor) -> Tensor:
        x = self.table(rows)
        for mix, norm in zip(self.mixes, self.norms, strict=False):
            x = x + mix(norm(x))
        return self.norms[4](x)


class Stacked(nn.Module):
    """The caches of two layers in one tensor, all of which is written back in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.register_buffer("keys", torch.randn(2, 1, 2, 6, 4))
        self.register_buffer("place", torch.tensor([3]))

    def forward(self, x: Tensor) -> Tensor:
        for layer in range(2):
            key = self.project(x).view(1, 1, 2, 4).transpose(1, 2)
            self.keys[layer].index_copy_(2, self.place, torch.tanh(key))
            held = self.keys[layer].repeat_interleave(2, 1)
            scores = (key.repeat_interleave(2, 1) @ held.mT).softmax(-1)
            x = x + (scores @ held).sum(1).view(1, 4).repeat(1, 2)
        return x


class Equilibrium(nn.Module):
    """A loop whose results are copies of what goes in where it does not run, as it does here."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, torch.tanh(y @ self.weight + x)

        start = torch.zeros((), dtype=torch.int64)
        loop = torch._higher_order_ops.while_loop
        return loop(lambda i, _: i < 3, body, (start, x * 0.5))[1].exp()


class Compiled:
    """A model's compiled graph, its map, and what a run of both showed."""

    def __init__(self, folder: Path, module: nn.Module, x: Tensor) -> None:
        module.eval()
        for parameter in module.parameters():
            # Scales of one and biases of zero would give different nodes the same value.
            parameter.data += 0.1 * torch.randn_like(parameter)
        script = ModelScript(folder / "mixed.py", "mixed", module, (x,))
        self.run = RunFolder(folder / "run")
        self.run.path.mkdir()
        exported = export_program(script)
        write_graph_json(self.run.graph_json, source_of_exported_program(exported, "mixed"))
        graphs = CompiledGraphs(self.run)
        graphs.graph_names[id(exported.graph)] = "mixed"
        given: list[Any] = []
        # Buffers as they are before the program writes to them.
        before = copy.deepcopy(module)
        torch._dynamo.reset()
        # Not optimized: the C++ compiler takes a third of the time, and the launches are the same.
        patches = {"cpp.simdlen": 1, "aot_inductor.debug_compile": True}
        with (
            torch._inductor.config.patch(patches),
            watching_inductor(self.run.scratch, graphs.keep),
            torch.no_grad(),
        ):
            compiled = torch.compile(module_of(exported))
            compiled(*script.args)
            (graph,) = graphs.compiled
            self.folder = self.run.path / graph.name
            shutil.copytree(graph.folder, self.folder)
            given = self.inputs(graph.module, before, script.args[0])
            values = functools.partial(exported_values, exported, script.args)
            self.runs = observe_all(
                self.folder / "output_code.py", self.folder / "post_grad.json", given, values
            )
        document = run_tool(
            "opprof-translate",
            [
                *("--inductor-launches", self.folder / "output_code.py"),
                f"--post-grad-graph={self.folder / 'post_grad.json'}",
                f"--graph={self.run.graph_json}",
            ],
        )
        self.map = json.loads(document)

    @staticmethod
    def inputs(graph: Any, module: nn.Module, x: Tensor) -> list[Any]:
        """The graph's inputs by their sizes: no two tensors of this model have the same, but for biases and scales."""
        values = [*(p.detach() for p in module.parameters()), *module.buffers(), x]
        found = []
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                place = next(i for i, v in enumerate(values) if v.shape == node.meta["val"].shape)
                found.append(values.pop(place))
        return found


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    torch.manual_seed(0)
    compiled = Compiled(tmp_path_factory.mktemp("oracle"), Mixed(), torch.randn(2, 4, 8))
    with_nodes(compiled.map)
    return compiled


def verdicts(launch_map: dict[str, Any], runs: list[Observed]) -> list[LaunchVerdict]:
    found = judge(launch_map, runs)
    assert [v.index for v in found] == [launch["index"] for launch in launch_map["launches"]]
    return found


def confidences(launch_map: dict[str, Any]) -> set[str]:
    """Of all nodes of all launches."""
    return {node["confidence"] for launch in launch_map["launches"] for node in launch["nodes"]}


def computing(compiled: Compiled) -> list[tuple[int, int]]:
    """Nodes that a launch can be seen to compute, as (launch, place of the node)."""
    steps = {
        step.name: step for step in compiled.runs[0].trace.steps + compiled.runs[1].trace.steps
    }
    return [
        (launch, place)
        for launch, entry in enumerate(compiled.map["launches"])
        for place, node in enumerate(entry["nodes"])
        if not steps[node["name"]].computes_nothing and not node.get("prepares")
    ]


def test_a_right_map_is_proven(compiled: Compiled) -> None:
    found = verdicts(compiled.map, compiled.runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found
    assert any("true_graph_0" in name for v in found for name in v.listed)
    assert any("false_graph_0" in name for v in found for name in v.listed)


@pytest.mark.parametrize(
    "module, shape",
    [
        (ReadBack, (2, 4, 8, 8)),
        (Mixer, (2, 6, 2, 2)),
        (ClassTokens, (1, 6, 8)),
        (GatheredBlocks, (1, 32, 8)),
        (EqualMasks, (1, 6, 8)),
        (Choices, (8, 6)),
        (Packed, (3, 8)),
        (Unmasked, (2, 4, 8)),
        (Routed, (10, 8)),
        (Apart, (6, 5)),
    ],
)
def test_kernels_of_real_models_are_proven(
    module: type[nn.Module], shape: tuple[int, ...], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, module(), torch.randn(shape))
    found = verdicts(compiled.map, compiled.runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found
    assert confidences(compiled.map) == {"high"}


class Ended(nn.Module):
    """Numbers of which one, where an index in memory says, is another: what is put there comes from the index alone."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 6)
        self.register_buffer("end", torch.tensor([0]))

    def forward(self, x: Tensor) -> Tensor:
        ended = torch.full((6,), -9.0).index_fill(0, self.end, 0.5)
        return torch.where(x[:, :1] > 0, ended, self.head(x.tanh()).log_softmax(-1))


class Factored(nn.Module):
    """A factorization that a call of its own checks, and gives nothing."""

    def forward(self, x: Tensor) -> Tensor:
        factor = torch.linalg.cholesky(x @ x.mT + torch.eye(4))
        return torch.cholesky_solve(x, factor).tanh()


class Alone(nn.Module):
    """Weights of one element, which are one whatever it is (SwiftFormer): what was written over shows in nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Parameter(torch.randn(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        weights = ((x @ self.score) * 0.35).softmax(-1)
        return (weights * x).sum(1)


@pytest.mark.parametrize(
    "module, shape",
    [
        (Stacked, (1, 8)),
        (Equilibrium, (4, 8)),
        (Ended, (4, 8)),
        (Factored, (4, 6)),
        (Alone, (1, 24, 8)),
    ],
)
def test_what_replaces_inputs_and_loops_is_proven(
    module: type[nn.Module], shape: tuple[int, ...], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, module(), torch.randn(shape))
    found = verdicts(compiled.map, compiled.runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found


def test_what_earlier_kernels_began_is_theirs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, Narrow(), torch.tensor([[5, 2]]))
    found = verdicts(compiled.map, compiled.runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found


class Growing(nn.Module):
    """Keys and values of one token behind those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 32)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        key, value = self.project(x).view(1, 1, 2, 2, 8).permute(2, 0, 3, 1, 4)
        return torch.cat([keys, key], 2), torch.cat([values, value], 2)


def test_the_place_of_a_part_may_be_a_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    graphs = CompiledGraphs(RunFolder(tmp_path))
    torch._dynamo.reset()
    with watching_inductor(tmp_path / "code", graphs.keep), torch.no_grad():
        module = torch.compile(Growing(), dynamic=True)
        module(torch.randn(1, 1, 16), torch.randn(1, 2, 6, 8), torch.randn(1, 2, 6, 8))
    (graph,) = graphs.compiled
    document = run_tool(
        "opprof-translate",
        [
            *("--inductor-launches", graph.folder / "output_code.py"),
            f"--post-grad-graph={graph.folder / 'post_grad.json'}",
        ],
    )
    *_, stored = json.loads(document)["launches"]
    nodes = {node["name"]: node["confidence"] for node in stored["nodes"]}
    assert {"cat": "high", "cat_1": "high"}.items() <= nodes.items()


class Distances(nn.Module):
    """The gradients of distances of all to all: a matrix and its transpose begin alike."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        z = self.project(x)
        return torch.cdist(z, z).exp().sum()


class Rows(nn.Module):
    """A table's gradient, which an earlier kernel clears beside its own work, and signs and windows before it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.project = nn.Linear(8, 24)
        self.other = nn.Linear(8, 24)

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        c = torch.nn.functional.silu(self.table(rows))
        y = torch.nn.functional.avg_pool3d(x, 2).flatten(1) * self.project(c) + self.other(c)
        return torch.nn.functional.smooth_l1_loss(y, torch.zeros_like(y))


def test_a_matrix_is_told_from_its_transpose(tmp_path: Path) -> None:
    torch.manual_seed(0)
    launch_map, runs = backward_graph(Distances(), (torch.randn(6, 8),), tmp_path)
    found = verdicts(launch_map, runs)
    # The gradients of all points add up to nothing but rounding, of which nothing can be proven.
    assert not [v for v in found if v.verdict.refutes], found
    calls = [launch["nodes"] for launch in launch_map["launches"] if "cdist" in launch["kernel"]]
    assert [node["name"] for nodes in calls for node in nodes] == [
        "_cdist_backward",
        "_cdist_backward_1",
    ]


def test_what_an_earlier_kernel_cleared_is_added_to(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4, 4, requires_grad=True)
    launch_map, runs = backward_graph(Rows(), (x, torch.tensor([1, 7])), tmp_path)
    found = verdicts(launch_map, runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found
    assert all(launch["nodes"] for launch in launch_map["launches"])


def test_a_part_that_is_stored_makes_another_value_of_the_whole(tmp_path: Path) -> None:
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, TokenCache(), torch.randn(1, 1, 8))
    found = verdicts(compiled.map, compiled.runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found
    (stored,) = (v for v in found if "index_put" in v.listed)
    launch = compiled.map["launches"][stored.index]
    launch["nodes"] = [node for node in launch["nodes"] if node["name"] != "index_put"]
    judged = verdicts(compiled.map, compiled.runs)[stored.index]
    assert judged.verdict is Verdict.MISSING
    assert judged.missing == ["index_put"]


def backward_graph(
    module: nn.Module, inputs: tuple[Any, ...], folder: Path, which: str = "backward"
) -> tuple[dict[str, Any], list[Observed]]:
    """The map of the module's compiled backward graph, of which PyTorch keeps no records, and what its code computes; or of the forward
    graph of its training."""
    graphs = CompiledGraphs(RunFolder(folder))
    torch._dynamo.reset()
    patches = {"cpp.simdlen": 1, "aot_inductor.debug_compile": True}
    with torch._inductor.config.patch(patches), watching_inductor(folder / "code", graphs.keep):
        result = torch.compile(module)(*inputs)
        (result * torch.randn_like(result)).sum().backward()
    (graph,) = (graph for graph in graphs.compiled if which in graph.name)
    code, post_grad = graph.folder / "output_code.py", graph.folder / "post_grad.json"
    arguments = ["--inductor-launches", code, f"--post-grad-graph={post_grad}"]
    launch_map = json.loads(run_tool("opprof-translate", arguments))
    return launch_map, observe_all(code, post_grad)


def test_what_is_proven_of_one_store_needs_no_record(tmp_path: Path) -> None:
    """The kernel that begins the backward graph also clears what is added up atomically later."""
    torch.manual_seed(0)
    inputs = torch.randn(4, 5, 6), torch.randint(0, 11, (4,))
    launch_map, runs = backward_graph(Guided(), inputs, tmp_path)
    found = verdicts(launch_map, runs)
    assert len(found[0].listed) > 1
    assert found[0].verdict is Verdict.EXACT


class Pooled(nn.Module):
    """Attention of one query: the gradient of its weights is a product with one row, which Inductor sums up by itself on a CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(8, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.sin()
        weights = self.scores(torch.tanh(x)).squeeze(-1).softmax(-1)
        return torch.einsum("bs,bsd->bd", weights, x)


class Spread(nn.Module):
    """Edges that are added up by node: kernels take sums of what they scattered, of which no number is known."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(5, 8)
        self.first = nn.Parameter(torch.randn(2, 4))
        self.second = nn.Parameter(torch.randn(2, 4))

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        hidden = self.project(x).view(-1, 2, 4)
        weights = (hidden * self.first).sum(-1)[ends[0]] + (hidden * self.second).sum(-1)[ends[1]]
        edges = torch.exp(weights)[..., None] * hidden[ends[0]]
        return torch.zeros(7, 2, 4).index_add(0, ends[1], edges).flatten(1).tanh()


@pytest.mark.parametrize(
    "make, inputs",
    [
        (Pooled, lambda: (torch.randn(3, 10, 8, requires_grad=True),)),
        (Spread, lambda: (torch.randn(7, 5), torch.randint(0, 7, (2, 15)))),
    ],
)
def test_gradients_are_proven_without_records(
    make: type[nn.Module], inputs: Any, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    launch_map, runs = backward_graph(make(), inputs(), tmp_path)
    found = verdicts(launch_map, runs)
    assert not [v for v in found if v.verdict.refutes], found


class TurnedInPart(nn.Module):
    """Rotary embeddings of a part of each head: gradients are put into zeros at every second place, so that the first element is of one of them alone."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(6, 16)
        self.out = nn.Linear(16, 3)

    def forward(self, x: Tensor, angle: Tensor) -> Tensor:
        query = self.query(x)
        turned = torch.stack((-query[..., 1:8:2], query[..., 0:8:2]), -1).flatten(-2)
        turned = query[..., :8] * angle.cos() + turned * angle.sin()
        return self.out(torch.cat((turned, query[..., 8:]), -1))


class RowsTaken(nn.Module):
    """Rows written over by others: going backward one kernel clears some of a copy, adds others up, and reads both."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 6)

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        square = self.net(x).tanh().triu(-1)
        square[rows[0]] = square[rows[1]]
        return square @ x


@pytest.mark.parametrize(
    "make, inputs",
    [
        (TurnedInPart, lambda: (torch.randn(3, 5, 6), torch.randn(5, 8))),
        (RowsTaken, lambda: (torch.randn(6, 4), torch.tensor([[0, 2, 4], [1, 3, 5]]))),
    ],
)
def test_what_begins_as_another_value_or_is_scattered_is_sure(
    make: type[nn.Module], inputs: Any, tmp_path: Path
) -> None:
    """What read such a value was at `medium`, as the first element is another node's too, or that of no formula."""
    torch.manual_seed(0)
    launch_map, runs = backward_graph(make(), inputs(), tmp_path)
    found = verdicts(launch_map, runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found
    assert confidences(launch_map) == {"high"}


def test_what_is_laid_out_for_a_call_is_of_that_call(tmp_path: Path) -> None:
    """In training PyTorch has no record of such a kernel, which had no node: 41 % of a small ConViT's time on a CPU."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    launch_map, runs = backward_graph(net, (torch.randn(2, 3, 8, 8),), tmp_path, "forward")
    moved, called = launch_map["launches"][:2]
    assert [(node["name"], node["prepares"]) for node in moved["nodes"]] == [("convolution", True)]
    assert [node["name"] for node in called["nodes"]] == ["convolution"]
    assert {v.verdict for v in verdicts(launch_map, runs)} == {Verdict.EXACT}


def test_places_in_windows_lie_in_the_image(tmp_path: Path) -> None:
    """Such a backward graph could not be run: what it was given for places in windows was larger than these."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(1, 2))
    launch_map, runs = backward_graph(net, (torch.randn(2, 2, 8, 8),), tmp_path)
    found = verdicts(launch_map, runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found


class ScaledLater(nn.Module):
    """A variance whose sum of squares is stored before a product, and divided after it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(12, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = x.sin()
        variance, mean = torch.var_mean(x, -1, keepdim=True)
        return self.net(x - mean) * (variance + 1e-3).rsqrt()


def test_a_variance_may_be_divided_later(tmp_path: Path) -> None:
    """What divided it was at `medium`."""
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, ScaledLater(), torch.randn(5, 12))
    found = verdicts(compiled.map, compiled.runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found
    assert confidences(compiled.map) == {"high"}


class Nested(nn.Module):
    """A branch in the body of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            y = torch.cond(i % 2 == 0, lambda t: t + self.turn(t).sin(), lambda t: t * 0.5, (y,))
            return i + 1, y

        start = torch.zeros((), dtype=torch.int64)
        return torch._higher_order_ops.while_loop(lambda i, _: i < 3, body, (start, x))[1].cos()


class EndedByABranch(nn.Module):
    """A loop that only one branch of what is in it leads out of."""

    def forward(self, x: Tensor) -> Tensor:
        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            i = torch.cond(y.sum() < 9, lambda i: i + 1, lambda i: i * 1, (i,))
            return i, y.sin()

        start = torch.zeros((), dtype=torch.int64)
        return torch._higher_order_ops.while_loop(lambda i, _: i < 3, body, (start, x))[1].cos()


def test_a_loop_that_a_forced_branch_never_ends_is_left(tmp_path: Path) -> None:
    compiled = Compiled(tmp_path, EndedByABranch(), torch.randn(4, 6))
    _, endless = compiled.runs
    name = "while_loop_body_graph_0"
    assert [len(run.trace.of[name, "sin"]) for run in compiled.runs] == [3, FORCED_ROUNDS]
    # The wrapper leaves the loop where the graph does.
    written = {step for call in endless.calls for w in call.written for step in w.steps}
    assert written & set(endless.trace.of["", "cos"])
    assert not [v for v in verdicts(compiled.map, compiled.runs) if v.verdict.refutes]


def test_bodies_within_bodies_have_their_own_nodes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, Nested(), torch.randn(4, 6))
    found = verdicts(compiled.map, compiled.runs)
    assert not [v for v in found if v.verdict.refutes], found
    nodes = [node for launch in compiled.map["launches"] for node in launch["nodes"]]
    (sine,) = (node for node in nodes if node["name"] == "sin")
    assert sine["graph"] == "while_loop_body_graph_0.true_graph_0"
    # FX's own code is nobody's line.
    assert sine["source"].rpartition(":")[0].endswith("test_launch_oracle.py")


def test_masks_that_are_counted_belong_to_what_makes_them(tmp_path: Path) -> None:
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, CountedMask(), torch.randn(1, 6, 6))
    found = verdicts(compiled.map, compiled.runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found
    listed = {name for verdict in found for name in verdict.listed}
    assert {"ne", "gt"} <= listed


def test_deep_networks_are_proven_on_numbers(tmp_path: Path) -> None:
    """Of weights of about one, 50 layers that nothing normalizes make one infinity, which all late nodes would have."""
    layers = [part for _ in range(50) for part in (nn.Linear(64, 64, bias=False), nn.ReLU())]
    compiled = Compiled(tmp_path, nn.Sequential(nn.Tanh(), *layers), torch.randn(2, 64))
    runs = observe_all(compiled.folder / "output_code.py", compiled.folder / "post_grad.json")
    assert not runs[0].trace.leaves_numbers
    assert {v.verdict for v in verdicts(compiled.map, runs)} == {Verdict.EXACT}
    # What goes in is no smaller for that: of small numbers this would be the identity.
    first = compiled.map["launches"][0]["nodes"]
    assert [node["name"] for node in first] == ["tanh"]
    first.clear()
    assert verdicts(compiled.map, runs)[0].verdict is Verdict.MISSING


def test_a_node_that_is_left_out_is_noticed(compiled: Compiled) -> None:
    unnoticed = []
    places = computing(compiled)
    for launch, place in places:
        wrong = copy.deepcopy(compiled.map)
        node = wrong["launches"][launch]["nodes"].pop(place)
        verdict = verdicts(wrong, compiled.runs)[launch]
        if verdict.verdict is not Verdict.MISSING or not any(
            node["name"] in name for name in verdict.missing
        ):
            unnoticed.append((launch, node["name"], verdict))
    # cat has no launch of its own: its parts lie in its memory.
    assert {name for _, name, _ in unnoticed} <= {"cat"}, unnoticed
    assert len(places) > 20


def test_a_node_that_is_added_is_noticed(compiled: Compiled) -> None:
    places = computing(compiled)
    for launch, place in places:
        node = compiled.map["launches"][launch]["nodes"][place]
        # What lies in a branch is judged with the launches of that branch alone.
        if node["name"] == "cat" or "graph" in node:
            continue
        for other in range(len(compiled.map["launches"])):
            wrong = copy.deepcopy(compiled.map)
            nodes = wrong["launches"][other]["nodes"]
            if other == launch or any(n["name"] == node["name"] for n in nodes):
                continue
            nodes.append(node)
            verdict = verdicts(wrong, compiled.runs)[other]
            assert verdict.verdict is Verdict.EXTRA, (other, node["name"], verdict)


def test_swapped_library_calls_are_noticed(compiled: Compiled) -> None:
    wrong = copy.deepcopy(compiled.map)
    first, second = [e for e in wrong["launches"] if e["kernel"] == "extern_kernels.addmm"]
    first["nodes"], second["nodes"] = second["nodes"], first["nodes"]
    found = verdicts(wrong, compiled.runs)
    for entry in (first, second):
        verdict = found[entry["index"]]
        assert verdict.verdict is Verdict.BOTH
        assert verdict.extra == [entry["nodes"][0]["name"]] != verdict.missing


def test_what_is_kept_of_a_run_judges_alike(compiled: Compiled) -> None:
    kept = [Observed.from_json(json.loads(json.dumps(run.to_json()))) for run in compiled.runs]
    wrong = copy.deepcopy(compiled.map)
    wrong["launches"][1]["nodes"].pop()
    for launch_map in (compiled.map, wrong):
        assert judge(launch_map, kept) == judge(launch_map, compiled.runs)


def test_exported_nodes_are_held_against_their_values(compiled: Compiled) -> None:
    right = judge_exported(compiled.map, compiled.runs)
    assert right.judged > 15
    assert not right.wrong
    wrong = copy.deepcopy(compiled.map)
    (gelu,) = {
        origin["name"]
        for launch in wrong["launches"]
        for node in launch["nodes"]
        for origin in node["from"]
        if origin["name"].startswith("gelu")
    }
    for launch in wrong["launches"]:
        for node in launch["nodes"]:
            if node["name"].startswith("erf"):
                node["from"] = [{"graph": "mixed", "stage": "export", "name": "layer_norm"}]
            elif any(origin["name"] == "layer_norm" for origin in node["from"]):
                node["from"] = [{"graph": "mixed", "stage": "export", "name": gelu}]
    refuted = judge_exported(wrong, compiled.runs)
    assert refuted.judged == right.judged
    assert any(text.startswith("erf: not of layer_norm") for text in refuted.wrong)
    assert any(text.endswith(f"not of {gelu}") for text in refuted.wrong)


def test_memory_that_nothing_was_written_to_has_no_value_to_judge() -> None:
    def node(name: str, target: str, *args: Any) -> dict[str, Any]:
        return {"name": name, "op": "call_function", "target": target, "args": args, "kwargs": {}}

    graph = {
        "name": "main",
        "inputs": [{"name": "x"}],
        "nodes": [
            node("made", "aten.empty.memory_format", [3]),
            node("filled", "aten.copy.default", {"node": "made"}, {"node": "x"}),
            node("sum_1", "aten.sum.default", {"node": "filled"}),
        ],
        "outputs": [{"value": {"node": "sum_1"}}],
    }
    trace = GraphRunner({"types": [], "graphs": [graph]}, lambda *_: None).run([torch.ones(3)])
    (filled,) = trace.of["", "filled"]
    run = Observed(trace, [], {"empty_like": (frozenset({filled}), [], True)})
    origin = [{"graph": "main", "stage": "export", "name": "empty_like"}]

    def judged(name: str) -> int:
        launch = {"nodes": [{"name": name, "from": origin}]}
        return judge_exported({"alignment": {"graph": "main"}, "launches": [launch]}, [run]).judged

    assert judged("made") == 0
    assert judged("sum_1") == 1


def test_what_is_checked_and_returned_is_not_only_checked() -> None:
    def node(name: str, target: str, *args: str) -> dict[str, Any]:
        given = [{"node": arg} for arg in args]
        return {"name": name, "op": "call_function", "target": target, "args": given, "kwargs": {}}

    graph = {
        "name": "main",
        "inputs": [{"name": "x"}],
        "nodes": [
            node("any_1", "aten.any.default", "x"),
            node("all_1", "aten.all.default", "x"),
            node("check", "aten._assert_async.default", "any_1"),
            node("check_1", "aten._assert_async.default", "all_1"),
        ],
        "outputs": [{"value": {"node": "any_1"}}],
    }
    runner = GraphRunner({"types": [], "graphs": [graph]}, lambda *_: None)
    trace = runner.run([torch.ones(3)])
    assert trace.only_asserts(trace.of["", "all_1"])
    assert not trace.only_asserts(trace.of["", "any_1"])
    # What is kept of a run knows it, too.
    kept = Observed.from_json(json.loads(json.dumps(Observed(trace, []).to_json())))
    assert not kept.trace.only_asserts(kept.trace.of["", "any_1"])


def judged(trace: Trace, reads: list[set[int]], *launches: str) -> list[LaunchVerdict]:
    """Launches that read `reads` and change nothing, with the nodes named."""
    calls = [
        Observation(line, (), "", [frozenset(read) for read in reads])
        for line in range(len(launches))
    ]
    maps = [
        {
            "index": line,
            "line": line,
            "kernel": "k",
            "nodes": [{"name": name} for name in names.split()],
        }
        for line, names in enumerate(launches)
    ]
    return judge({"launches": maps}, [Observed(trace, calls)])


def test_what_gives_its_operand_again_is_proven_where_nobody_else_has_it() -> None:
    trace = Trace()
    x = torch.randn(3)
    trace.add(Step("", "x", "placeholder", (), x, free=True))
    trace.add(Step("", "mul", "aten.mul.Tensor", (0,), x * 1.0))
    assert judged(trace, [{0, 1}], "mul")[0].verdict is Verdict.EXACT
    # Another launch may be the one that has it, or there is one that nobody has.
    assert judged(trace, [{0, 1}], "mul", "mul")[0].verdict is Verdict.UNPROVEN
    trace.add(Step("", "add", "aten.add.Tensor", (0,), x + 0.0))
    assert judged(trace, [{0, 1, 2}], "mul")[0].verdict is Verdict.UNPROVEN
    # What does not come from what it was given is none of its nodes.
    trace.add(Step("", "y", "placeholder", (), torch.randn(3), free=True))
    trace.add(Step("", "other", "aten.relu.default", (3,), x.clone()))
    assert judged(trace, [{0, 4}], "other")[0].verdict is Verdict.UNPROVEN


def test_what_only_copies_or_checks_is_proven_by_what_it_was_given() -> None:
    """Nothing is written that a value could tell."""
    trace = Trace()
    x = torch.randn(3)
    trace.add(Step("", "x", "placeholder", (), x, free=True))
    trace.add(Step("", "clone", "aten.clone.default", (0,), x.clone(), same=True))
    trace.add(Step("", "y", "placeholder", (), torch.randn(3), free=True))
    trace.add(Step("", "gt", "aten.gt.Scalar", (2,), torch.ones(3) > 0))
    trace.add(Step("", "check", "aten._assert_async.default", (3,), None))
    assert judged(trace, [{0, 1}], "clone")[0].verdict is Verdict.EXACT
    assert judged(trace, [{2}], "clone")[0].verdict is Verdict.UNPROVEN
    # Which of two launches copied does not show, and what was given is no copy.
    both = judged(trace, [{0, 1}], "clone", "clone")
    assert [verdict.verdict for verdict in both] == [Verdict.UNPROVEN] * 2
    assert judged(trace, [{0, 1}], "x")[0].verdict is Verdict.UNPROVEN
    trace.add(Step("", "view", "aten.view.default", (1,), x.view(3, 1), free=True))
    assert judged(trace, [{0, 1, 5}], "clone view")[0].verdict is Verdict.EXACT
    assert judged(trace, [{2}], "gt check")[0].verdict is Verdict.EXACT
    assert judged(trace, [{3}], "check")[0].verdict is Verdict.EXACT
    # A check of what it was not given, what leads to no check, and what is needed for none.
    assert judged(trace, [{0, 1}], "gt check")[0].verdict is Verdict.UNPROVEN
    assert judged(trace, [{2}], "gt")[0].verdict is Verdict.UNPROVEN
    assert judged(trace, [{3}], "gt check")[0].verdict is Verdict.UNPROVEN


def test_what_shows_nothing_of_what_it_wrote_over_is_proven_where_only_its_nodes_give_it() -> None:
    trace = Trace()
    trace.add(Step("", "x", "placeholder", (), torch.randn(3, 1), free=True))
    trace.add(Step("", "softmax", "aten._softmax.default", (0,), torch.ones(3, 1)))

    def verdict() -> Verdict:
        steps = frozenset(range(1, len(trace.steps)))
        call = Observation(0, (), "", [], [Written("buf0", steps)], replaced=[frozenset({0})])
        nodes = [{"name": "softmax"}]
        launch = {"index": 0, "line": 0, "kernel": "k", "nodes": nodes}
        return judge({"launches": [launch]}, [Observed(trace, [call])])[0].verdict

    assert verdict() is Verdict.EXACT
    trace.add(Step("", "other", "aten.sigmoid.default", (0,), torch.ones(3, 1)))
    assert verdict() is Verdict.UNPROVEN


def test_sums_that_cancel_are_found_by_what_rounding_leaves() -> None:
    trace = Trace()
    terms = torch.randn(64, 8)
    terms = terms - terms.mean(0)
    trace.add(Step("", "x", "placeholder", (), terms, free=True))
    trace.add(Step("", "sum_1", "aten.sum.dim_IntList", (0,), terms.sum(0)))
    trace.add(Step("", "view", "aten.view.default", (1,), terms.sum(0).view(8, 1), free=True))
    index = ValueIndex(trace)
    backwards = terms.flip(0).double().cumsum(0)[-1].float() + 1e-7
    assert index.find(backwards) == {1, 2}
    # Nothing at all is no rounding, and what is larger is something else, however many terms there are.
    assert not index.find(torch.zeros(8))
    assert not index.find(torch.full((8,), 0.1))
    many = torch.randn(1000, 1000)
    many = many - many.mean()
    trace.add(Step("", "y", "placeholder", (), many, free=True))
    trace.add(Step("", "sum_2", "aten.sum.default", (3,), many.sum()))
    trace.add(Step("", "sparse", "aten.to_sparse.default", (0,), terms.to_sparse()))
    trace.add(Step("", "sum_3", "aten.sum.default", (5,), terms.sum()))
    index = ValueIndex(trace)
    assert many.sum().abs() < 0.05 and index.find(many.sum()) == {4}
    assert not index.find(torch.tensor(0.5))


def test_attention_takes_elements_that_are_neighbours() -> None:
    """What a backward graph says of a saved query is its layout before Inductor lays it out for the library, which does not look."""
    query, key, value, gradient = (torch.randn(1, 2, 16, 8) for _ in range(4))
    out, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value)
    operands = [gradient, query, key, value, out, logsumexp]
    names = ["gradient", "query", "key", "value", "out", "logsumexp"]
    target = "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"
    node = {
        "name": "backward",
        "op": "call_function",
        "target": target,
        "args": [*({"node": name} for name in names), 0.0, False],
        "kwargs": {},
    }
    graph = {
        "name": "",
        "inputs": [{"name": name} for name in names],
        "nodes": [node],
        "outputs": [],
    }
    apart = [o.transpose(-1, -2).contiguous().transpose(-1, -2) for o in operands]
    trace = GraphRunner({"types": [], "graphs": [graph]}, lambda name, entry: None, bool, None).run(
        apart
    )
    expected = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        *operands, 0.0, False
    )
    for found, right in zip(trace.steps[-1].value, expected, strict=True):
        torch.testing.assert_close(found, right)


def test_what_has_no_elements_need_not_be_read() -> None:
    trace = Trace()
    trace.add(Step("", "x", "placeholder", (), torch.randn(3), free=True))
    trace.add(Step("", "empty", "placeholder", (), torch.empty(0), free=True))
    trace.add(Step("", "bag", "aten.cat.default", (0, 1), torch.randn(3)))
    assert Derivation(trace, {0}, {2}).possible(2)


def test_what_gives_an_operand_again_is_no_wrong_tie(tmp_path: Path) -> None:
    """No target is left out, so that the loss's mask gives the targets as they were: it is a part of the loss all the same."""
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, Loss(), torch.randn(4, 8))
    judged = judge_exported(compiled.map, compiled.runs)
    assert judged.judged > 5
    assert not judged.wrong


class Looped(nn.Module):
    """A loop that carries a count and a tensor, then a branch, each with layers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        def body(i: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, self.norm(h + torch.tanh(self.turn(h)))

        _, h = torch._higher_order_ops.while_loop(
            lambda i, h: i < 2, body, (torch.zeros((), dtype=torch.int64), x)
        )
        return torch.cond(
            h.abs().mean() > 0.5,
            lambda t: self.down(torch.relu(self.up(t))),
            lambda t: t.sigmoid() * t,
            (h,),
        )


def test_bodies_of_loops_and_branches_reach_the_exported_bodies(tmp_path: Path) -> None:
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, Looped(), torch.randn(5, 8))
    inside = {
        f"{node['graph']}.{node['name']}": node
        for launch in compiled.map["launches"]
        for node in launch["nodes"]
        if "graph" in node
    }
    ties = {
        name: [f"{origin['graph']}.{origin['name']}" for origin in node["from"]]
        for name, node in inside.items()
    }
    assert ties["while_loop_cond_graph_0.lt"] == ["while_loop_cond_graph_0.lt"]
    assert ties["while_loop_body_graph_0.addmm"] == ["while_loop_body_graph_0.linear"]
    assert ties["while_loop_body_graph_0.rsqrt"] == ["while_loop_body_graph_0.layer_norm"]
    assert ties["true_graph_0.addmm"] == ["true_graph_0.linear"]
    assert ties["true_graph_0.addmm_1"] == ["true_graph_0.linear_1"]
    assert ties["false_graph_0.mul"] == ["false_graph_0.mul"]
    assert {node["from_confidence"] for node in inside.values()} == {"high"}
    judged = judge_exported(compiled.map, compiled.runs)
    assert judged.judged >= len(inside) - 1
    assert not judged.wrong
    # The values of bodies tell a tie to another node of the body.
    inside["true_graph_0.addmm"]["from"][0]["name"] = "linear_1"
    (wrong,) = judge_exported(compiled.map, compiled.runs).wrong
    assert wrong.startswith("addmm: not of linear_1")


class Stepped(nn.Module):
    """A state that several operators change in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.rand(6))

    def forward(self, x: Tensor) -> Tensor:
        self.state.mul_(0.9)
        self.state.addcmul_(x, x, value=0.1)
        return self.state.sum()


def test_what_is_written_back_comes_from_the_last_that_changed_it(tmp_path: Path) -> None:
    """PyTorch's record of the copy at the end names the first."""
    compiled = Compiled(tmp_path, Stepped(), torch.randn(6))
    nodes = [node for launch in compiled.map["launches"] for node in launch["nodes"]]
    (stored,) = (node for node in nodes if node["name"] == "copy_")
    assert {origin["name"] for origin in stored["from"]} == {"addcmul_"}


class Solved(nn.Module):
    """Rows that are written back into a matrix, each from those before it; what puts them there has the record of the first node."""

    def forward(self, x: Tensor) -> Tensor:
        place = torch.arange(4)
        y = -(x @ x.mT).masked_fill(place[:, None] <= place, 0)
        for i in range(1, 4):
            row = y[..., i, :i].clone()
            y[..., i, :i] = row + (row.unsqueeze(-1) * y[..., :i, :i].clone()).sum(-2)
        return y @ x


def test_what_writes_a_part_back_is_of_the_write(tmp_path: Path) -> None:
    """It was tied to the indices, which its record names though nothing of it is made of them."""
    torch.manual_seed(0)
    compiled = Compiled(tmp_path, Solved(), torch.randn(2, 4, 3))
    ties = {
        node["name"]: {origin["name"].rstrip("_0123456789") for origin in node["from"]}
        for launch in compiled.map["launches"]
        for node in launch["nodes"]
        if "_scatter" in node["name"]
    }
    assert len(ties) == 6 and set.union(*ties.values()) == {"copy"}, ties
    judged = judge_exported(compiled.map, compiled.runs)
    assert judged.judged and not judged.wrong


class Attended(nn.Module):
    """Attention by hand, of which a pass makes its own in training: in the records of that, what is not looked up by an identity leads nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.out = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part(x).view(2, 6, 2, 8).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        weights = nn.functional.dropout(((q @ k.mT) / 8**0.5).softmax(-1), 0.1)
        return self.out((weights @ v).transpose(1, 2).reshape(2, 6, 16))


def test_products_that_a_pass_made_are_those_of_the_same_projections(tmp_path: Path) -> None:
    """They had no exported node, so that most of a step's time was of no module."""
    torch.manual_seed(0)
    script = ModelScript(tmp_path / "mixed.py", "mixed", Attended(), (torch.randn(2, 6, 16),))
    run = RunFolder(tmp_path)
    exported = export_program(script)
    write_graph_json(run.graph_json, source_of_exported_program(exported, "mixed"))
    graphs = CompiledGraphs(run)
    graphs.graph_names[id(exported.graph)] = "mixed"
    torch._dynamo.reset()
    patches = {"cpp.simdlen": 1, "aot_inductor.debug_compile": True}
    with torch._inductor.config.patch(patches), watching_inductor(run.scratch, graphs.keep):
        torch.compile(module_of(exported))(*script.args).sum().backward()
        forward, backward = (
            json.loads(
                run_tool(
                    "opprof-translate",
                    [
                        *("--inductor-launches", graph.folder / "output_code.py"),
                        f"--post-grad-graph={graph.folder / 'post_grad.json'}",
                        f"--graph={run.graph_json}",
                    ],
                )
            )
            for graph in graphs.compiled
        )
    ties, confidence = {}, {}
    for which, launch_map in (("forward", forward), ("backward", backward)):
        for tied in [one for launch in launch_map["launches"] for one in launch["nodes"]]:
            ties[which, tied["name"]] = [origin["name"] for origin in tied["from"]]
            confidence[which, tied["name"]] = tied.get("from_confidence")
    assert ties["forward", "bmm_default"] == ["matmul"]
    assert ties["forward", "bmm_default_1"] == ["matmul_1"]
    # A pass's own name of it is spelled in FX's way.
    assert ties["forward", "sum_dim_int_list"] == ["matmul_1"]
    # What is scaled is for the scores alone.
    assert ties["forward", "mul_scalar"] == ["matmul"]
    # What goes backward leads to the gradients of what the product takes.
    assert ties["backward", "bmm_default_2"] == ties["backward", "bmm_default_3"] == ["matmul_1"]
    assert ties["backward", "bmm_default_4"] == ties["backward", "bmm_default_5"] == ["matmul"]
    assert ties["backward", "sum_dim_int_list_1"] == ["matmul"]
    products = [name for name in confidence if name[1].startswith("bmm_default")]
    assert len(products) == 6
    assert {confidence[name] for name in products} == {"medium"}


class AttendedLater(Attended):
    """The same, behind what also is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(16))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward((x * self.scale).tanh())


def test_a_copy_is_stored_where_nothing_else_takes_what_it_copies(tmp_path: Path) -> None:
    """The gradient of the keys, that lies the other way round, might have been stored in its place: nothing behind was sure."""
    torch.manual_seed(0)
    launch_map, runs = backward_graph(AttendedLater(), (torch.randn(2, 6, 16),), tmp_path)
    found = verdicts(launch_map, runs)
    assert not [v for v in found if v.verdict.refutes], found
    assert confidences(launch_map) == {"high"}


class Largest(nn.Module):
    """The places of the largest values, which nothing takes, are the numbers of another node."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.topk(2)[0].exp(), (x[:, :2] < 1.95).long()


def test_a_result_that_nothing_takes_is_no_other_nodes_value(tmp_path: Path) -> None:
    """The launch was said to miss a comparison."""
    x = torch.tensor([[2.5, 1.5, 1.0], [2.0, 1.0, 1.9]])
    compiled = Compiled(tmp_path, Largest(), x)
    found = verdicts(compiled.map, compiled.runs)
    assert {v.verdict for v in found} == {Verdict.EXACT}, found


def test_the_command_proves_a_run_folder(compiled: Compiled) -> None:
    command = [sys.executable, "-m", "opprof", "launches", str(compiled.run.path), "--prove"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    name = compiled.folder.name
    assert f"{name}: " in result.stdout, result.stdout + result.stderr
    assert f"of {len(NODES)} launches have exactly their nodes" in result.stdout
    refuted = any(word in result.stdout for word in ("missing node", "extra node", "other nodes"))
    assert result.returncode == int(refuted)


def test_what_cannot_be_proven_is_said(compiled: Compiled, tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "output_code.py").write_text((compiled.folder / "output_code.py").read_text())
    proof = prove(tmp_path, None)
    assert "holds no post_grad.json" in proof.to_text()
    assert not proof.refuted


OWN_OPERATOR = """
import sys, torch
from torch import nn

print("loaded")
sys.stdout.write("without an end")
torch.set_default_dtype(torch.float64)

@torch.library.custom_op("opprof_test::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3

thrice.register_fake(torch.empty_like)

class Model(nn.Module):
    def forward(self, x):
        return thrice(x.sin()).exp()

def get_model_and_input():
    return Model(), torch.randn(5, dtype=torch.float32)
"""


def test_operators_of_a_program_are_those_that_its_script_defines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a mixture of experts of transformers nothing was judged: the process that runs the code knew no operators but PyTorch's."""
    script, run = tmp_path / "own.py", RunFolder(tmp_path / "run")
    script.write_text(OWN_OPERATOR)
    run.path.mkdir()
    try:
        loaded = load_model_script(script)
    finally:
        torch.set_default_dtype(torch.float32)
    graphs = CompiledGraphs(run)
    torch._dynamo.reset()
    with watching_inductor(run.path / "code", graphs.keep), torch.no_grad():
        torch.compile(loaded.module)(*loaded.args)
    # The one that the run was made of, and not what has its name here; what it prints and how it ends is its own.
    run.run.write_text(json.dumps({"script": "own.py", "directory": str(tmp_path)}))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "own.py").write_text("raise AssertionError\n")
    monkeypatch.chdir(tmp_path / "here")
    proof = prove(run.path, None)
    assert proof.count("exact") == 3, proof.graphs
    script.write_text("import sys\nsys.exit(0)\n")
    (ended,) = prove(run.path, None).graphs.values()
    assert "SystemExit" in ended["error"]
    script.unlink()
    (unproven,) = prove(run.path, None).graphs.values()
    assert "opprof_test.thrice.default is no operator of PyTorch's own" in unproven["error"]


def test_graphs_of_one_run_are_judged_by_one_process(compiled: Compiled, tmp_path: Path) -> None:
    """Each loaded PyTorch and ran the script. One that ends the process takes none of the others along."""
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    for name in "abcd":
        folder = run.path / name
        shutil.copytree(compiled.folder, folder)
        graph = folder / "post_grad.json"
        own = graph.read_text().replace("aten.erf.default", "opprof_once.erf.default")
        assert own != graph.read_text()
        graph.write_text(own)
    # It ends what it runs in wherever it stands.
    for name, line in (("b", "import os; os.abort()"), ("c", "raise ValueError('of its own')")):
        with (run.path / name / "output_code.py").open("a") as code:
            code.write(f"\n{line}\n")
    script = tmp_path / "script.py"
    loads = tmp_path / "loads"
    script.write_text(
        "import os, torch\n"
        f"with open({str(loads)!r}, 'a') as file:\n    print(os.getpid(), file=file)\n"
        "torch.library.define('opprof_once::erf', '(Tensor x) -> Tensor')\n"
        "torch.library.impl('opprof_once::erf', 'CPU', torch.erf)\n"
        "def get_model_and_input():\n    return torch.nn.Identity(), torch.zeros(1)\n"
    )
    run.run.write_text(json.dumps({"script": script.name, "directory": str(tmp_path)}))
    proof = prove(run.path, None)
    first, second, third, fourth = (proof.graphs[name] for name in "abcd")
    assert first["launches"] and first == fourth
    assert second == {"error": f"the code was ended by signal {int(signal.SIGABRT)}"}
    assert "of its own" in third["error"]
    # Before the one that aborts, by it, by the one that fails, and after it.
    assert len(loads.read_text().split()) == 4


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("raise ValueError('of its own')", "ValueError: of its own"),
        # As a node's own error is handed on.
        (
            "from opprof.errors import OpprofError\nraise OpprofError('erf') from ValueError()",
            "erf",
        ),
    ],
    ids=["raised", "handed-on"],
)
def test_a_graph_that_fails_spoils_no_other(
    compiled: Compiled, tmp_path: Path, failure: str, said: str
) -> None:
    """After an error of CUDA's all that uses the GPU fails, until the process ends."""
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    spoil = "import torch\ntorch.spoilt = True"
    for name, lines in {
        "a": spoil,
        "b": "import torch\nif hasattr(torch, 'spoilt'): raise RuntimeError('spoilt')",
        "c": f"{spoil}\n{failure}",
        "d": "import torch\nif hasattr(torch, 'spoilt'): raise RuntimeError('spoilt')",
    }.items():
        shutil.copytree(compiled.folder, run.path / name)
        with (run.path / name / "output_code.py").open("a") as code:
            code.write(f"\n{lines}\n")
    graphs = prove(run.path, None).graphs
    assert graphs["c"] == {"error": said}
    assert graphs["a"]["launches"]
    assert graphs["a"] == graphs["b"] == graphs["d"], graphs


def node(name: str, target: str, *args: Any) -> dict[str, Any]:
    """A node of graph JSON; a text among its arguments names another."""

    def described(arg: Any) -> Any:
        if isinstance(arg, list):
            return [described(member) for member in arg]
        return {"node": arg} if isinstance(arg, str) else arg

    call = {"op": "call_function", "target": target, "args": described(list(args)), "kwargs": {}}
    return {"name": name, **call}


@pytest.mark.parametrize("table", ["ones", "numbers"])
def test_what_is_chosen_of_one_constant_needs_no_index(table: str) -> None:
    """A mask that is taken from ones (LUKE's) computes no places, as nothing depends on them."""
    nodes = [
        node("numbers", "aten.arange.default", 4),
        node("ones", "aten.full.default", [2, 4], 1),
        node("places", "aten.add.Tensor", "x", 1),
        node("chosen", "aten.index.Tensor", table, ["places"]),
        node("twice", "aten.mul.Tensor", "chosen", 2),
    ]
    outputs = [{"value": {"node": "twice"}}]
    graph = {"name": "main", "inputs": [{"name": "x"}], "nodes": nodes, "outputs": outputs}
    runner = GraphRunner({"types": [], "graphs": [graph]}, lambda name, entry: None, bool, None)
    trace = runner.run([torch.tensor([0, 0])])
    (twice,) = trace.of["", "twice"]
    derivation = Derivation(trace, set(), set(range(len(trace.steps))))
    names = {trace.steps[number].name for number in derivation.needs([twice])[0]}
    assert names == {"twice", "chosen", table} | ({"places", "x"} if table == "numbers" else set())


@pytest.mark.parametrize("which", [0, 1])
def test_what_is_chosen_of_a_result_of_a_subgraph_needs_its_index(which: int) -> None:
    """The first of its results is one constant, and the second is none."""
    sub = {
        "name": "sub",
        "inputs": [{"name": "t"}],
        "nodes": [
            node("ones", "aten.full.default", [2, 4], 1),
            node("more", "aten.mul.Tensor", "t", 2),
        ],
        "outputs": [{"value": {"node": "ones"}}, {"value": {"node": "more"}}],
    }
    call = node("call", "higher_order.invoke_subgraph", "sub", "sub", "table")
    call["args"][0] = {"graph": "sub"}
    call["args"][1] = "sub"
    nodes = [
        call,
        node("item", "operator.getitem", "call", which),
        node("places", "aten.add.Tensor", "x", 1),
        node("chosen", "aten.index.Tensor", "item", ["places"]),
    ]
    outputs = [{"value": {"node": "chosen"}}]
    inputs = [{"name": "table"}, {"name": "x"}]
    main = {"name": "main", "inputs": inputs, "nodes": nodes, "outputs": outputs}
    runner = GraphRunner({"types": [], "graphs": [main, sub]}, lambda name, entry: None, bool, None)
    trace = runner.run([torch.arange(8.0).view(2, 4), torch.tensor([0, 0])])
    (chosen,) = trace.of["", "chosen"]
    derivation = Derivation(trace, set(), set(range(len(trace.steps))))
    names = {trace.steps[number].name for number in derivation.needs([chosen])[0]}
    assert "places" in names


def test_scalars_have_roots() -> None:
    """The size that attention's scores are divided by the root of (SEW-D's) may be an input: of a negative one nothing was a number."""
    given = [torch.empty(()), torch.empty(3)]
    for seed in range(8):
        assert all(bool((value > 0).all()) for value in fill(given, seed, indices=2))


def test_what_is_written_through_a_view_is_in_the_tensor() -> None:
    """Inductor leaves writes in place where nothing else needs what was there: the diagonal of a tensor that goes on."""

    nodes = [
        node("double", "aten.mul.Tensor", "x", 2),
        node("before", "aten.exp.default", "double"),
        node("diagonal", "aten.diagonal.default", "double"),
        node("half", "aten.mul.Tensor", "diagonal", 0.5),
        node("written", "aten.copy_.default", "diagonal", "half"),
        node("after", "aten.exp.default", "double"),
        node("first", "aten.select.int", "double", 0, 0),
        node("zeroed", "aten.zero_.default", "first"),
        node("last", "aten.exp.default", "double"),
    ]
    outputs = [{"value": {"node": "last"}, "kind": "user_output"}]
    graph = {"name": "g", "inputs": [{"name": "x"}], "nodes": nodes, "outputs": outputs}
    x = torch.randn(3, 3)
    runner = GraphRunner({"types": [], "graphs": [graph]}, lambda name, entry: None, bool, None)
    trace = runner.run([x])
    value = {
        step.name: step.value for step in trace.steps if step.name not in ("written", "zeroed")
    }
    expected = x * 2
    assert torch.equal(value["before"], expected.exp())
    expected.diagonal().mul_(0.5)
    assert torch.equal(value["after"], expected.exp())
    expected[0] = 0
    assert torch.equal(value["last"], expected.exp())
    # What went on is of the node that wrote, and of what it was before.
    (last,) = trace.of["", "last"]
    (before,) = trace.of["", "double"]
    derivation = Derivation(trace, {before}, set(range(len(trace.steps))))
    names = {trace.steps[number].name for number in derivation.needs([last])[0]}
    assert {"written", "half", "zeroed"} <= names


def test_operators_that_are_handed_to_others_are_looked_for() -> None:
    """An operator with effects stands in a graph as what with_effects calls."""
    args = [{"node": "token"}, {"op": "opprof_test.unheard_of.default"}, {"node": "x"}]
    node = {"name": "n", "op": "call_function", "target": "higher_order.with_effects", "args": args}
    document = {"graphs": [{"nodes": [node]}]}
    assert unknown_operators(document) == ["opprof_test.unheard_of.default"]


@pytest.mark.parametrize(
    ("graphs", "status"),
    [
        (["exact"], 0),
        (["exact not provable"], 0),
        (["not provable"], 1),
        (["not provable", ""], 1),
        ([""], 0),
        (["exact", "error"], 1),
        (["", "error"], 1),
        (["missing node exact"], 1),
    ],
)
def test_the_status_of_a_proof(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    graphs: list[str],
    status: int,
) -> None:
    """What was not judged is not right; where nothing is launched, there is nothing to judge."""

    def graph(verdicts: str) -> dict[str, Any]:
        if verdicts == "error":
            return {"error": "it ended"}
        launches = [
            {"index": 0, "line": 1, "kernel": "mm", "nodes": [], "verdict": verdict}
            for verdict in VERDICTS
            if verdict in verdicts
        ]
        return {"launches": launches, "confidence": {}}

    proof = Proof({str(index): graph(verdicts) for index, verdicts in enumerate(graphs)})
    monkeypatch.setattr("opprof.commands.launches.prove", lambda *_: proof)
    assert main(["launches", "run", "--prove"]) == status
    said = capsys.readouterr().out
    assert ("nothing was judged" in said) == (graphs == ["", "error"])
    assert ("nothing to judge" in said) == (graphs == [""])


def test_a_refuted_map_ends_in_failure() -> None:
    launch = {"index": 3, "line": 12, "kernel": "mm", "nodes": [], "missing": ["mm_1"]}
    proof = Proof({"g": {"launches": [{**launch, "verdict": "missing node"}], "confidence": {}}})
    assert proof.refuted
    assert "missing node; lacks mm_1" in proof.to_text()
    assert json.loads(proof.to_json())["totals"]["missing node"] == 1


def test_random_numbers_are_those_of_the_kernels(tmp_path: Path) -> None:
    seed = torch.tensor(1234567890123)
    program = torch.ops.prims.inductor_random
    torch._dynamo.reset()

    @torch.compile
    def both(seed: Tensor) -> tuple[Tensor, Tensor]:
        return program([3, 5], seed, "rand"), program([3, 5], seed, "randn")

    for mode, found in zip(("rand", "randn"), both(seed), strict=True):
        torch.testing.assert_close(found, inductor_random([3, 5], seed, mode))


def test_the_harness_of_an_older_pytorch() -> None:
    """PyTorch 2.9 makes a graph's inputs in the function that times it, and has no get_args()."""
    inputs = Path(__file__).parents[1] / "Target" / "InductorCode" / "Inputs"
    made = harness_inputs({"torch": torch}, inputs / "lstm_torch_2_9" / "output_code.py")
    assert [tuple(value.shape) for value in made] == [
        *((2, 6, 24), (128, 24), (128, 32), (128,), (128,)),
        *((4, 32), (4,)),
    ]
