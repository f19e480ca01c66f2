"""`opprof export` of models with every kind of argument, structure and symbol: what is written can be read."""

from pathlib import Path
from typing import Any

import pytest

from opprof.commands.cli import main

WHILE_LOOP = """
    from torch._higher_order_ops.while_loop import while_loop


    class Loop(torch.nn.Module):
        def forward(self, x):
            def condition(i, v):
                return i < 3

            def body(i, v):
                return i + 1, v.sin()

            return while_loop(condition, body, (torch.zeros((), dtype=torch.int64), x))


    def get_model_and_input():
        return Loop(), torch.ones(3)
"""

REGION = """
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        @torch.compiler.nested_compile_region
        def forward(self, x):
            return self.layer(x).relu()


    class Blocks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x


    def get_model_and_input():
        return Blocks().eval(), torch.ones(2, 4)
"""

MODES = """
    class Modes(torch.nn.Module):
        def forward(self, x):
            with torch.no_grad():
                y = x.sin()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = torch.mm(x, x.t())
            return y.sum() + z.float().sum()


    def get_model_and_input():
        return Modes(), torch.ones(2, 4)
"""

CONTAINERS = """
    class Containers(torch.nn.Module):
        def forward(self, x, n, items, options):
            y = x * n + items[0] + items[1]["a"]
            y = torch.cat([y, y], -1)[..., 1:None:2].to(memory_format=torch.contiguous_format)
            mask = torch.full((3,), float("-inf"), dtype=torch.float32)
            return {"y": y, "mask": mask, "list": [y.sum() * options["k"], None, 3]}


    def get_model_and_input():
        return Containers(), (torch.ones(2, 4), 3, [torch.ones(4), {"a": torch.ones(4)}], {"k": 1.5})
"""

UNBACKED = """
    class Unbacked(torch.nn.Module):
        def forward(self, x):
            n = x.sum().to(torch.int64).item()
            torch._check(n >= 0)
            torch._check(n < 100)
            return torch.zeros(n) + 1, x.nonzero()


    def get_model_and_input():
        return Unbacked(), torch.ones(4)
"""


@pytest.mark.parametrize("stage", ["export", "dynamo", "aot", "post_grad"])
@pytest.mark.parametrize(
    ("model", "subgraphs"),
    [(WHILE_LOOP, 2), (REGION, 1), (MODES, 2), (CONTAINERS, 0), (UNBACKED, 0)],
    ids=["while_loop", "region", "modes", "containers", "unbacked"],
)
def test_mlir(script: Any, tmp_path: Path, model: str, subgraphs: int, stage: str) -> None:
    target = tmp_path / "graph.mlir"
    assert main(["export", str(script(model)), "-o", str(target), "--stage", stage]) == 0
    graphs = target.read_text().count("fx.graph ")
    # Export without Dynamo inlines regions; Dynamo inlines the modes.
    inlined = {(REGION, "export"), (MODES, "dynamo"), (MODES, "aot"), (MODES, "post_grad")}
    assert graphs == 1 + (0 if (model, stage) in inlined else subgraphs)


def test_several_graphs_give_several_files(script: Any, tmp_path: Path) -> None:
    path = script(
        """
        class Break(torch.nn.Module):
            def forward(self, x):
                y = x.sin()
                torch._dynamo.graph_break()
                return y.cos()


        def get_model_and_input():
            return Break(), torch.ones(3)
        """
    )
    arguments = ["export", str(path), "-o", str(tmp_path / "graph.json"), "--stage", "dynamo"]
    assert main(arguments) == 0
    assert {file.name for file in tmp_path.glob("*.json")} == {"graph.json", "graph.1.json"}


def test_weights_lie_beside_the_graph(script: Any, tmp_path: Path) -> None:
    path = script(
        """
        def get_model_and_input():
            return torch.nn.Linear(3, 3), torch.ones(3)
        """
    )
    target, weights = tmp_path / "graph.json", tmp_path / "weights.safetensors"
    assert main(["export", str(path), "-o", str(target), "--weights", str(weights)]) == 0
    assert b'"weight"' in weights.read_bytes() and target.is_file()
