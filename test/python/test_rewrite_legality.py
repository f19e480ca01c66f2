"""What opprof-opt's matcher and the emitted backend call legal: the same, script by script and graph by graph."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from programs import import_program
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from opprof.backend.emit import emit
from opprof.backend.emitted.conditions import PLACE_CHECKS, VALUE_CHECKS
from opprof.backend.rewrites import Script
from opprof.export.graph_json import GraphSource, write_graph_json
from opprof.tools import run_tool

aten = torch.ops.aten

# ---------------------------------------------------------------------------------------------------------------------
# Scripts
# ---------------------------------------------------------------------------------------------------------------------


def tensor(
    dtype: str = "f32",
    device: str = "cpu",
    shape: str = "4x8",
    about: str = "",
    encoded: bool = True,
) -> str:
    encoding = f', #fx.tensor<"{device}"{about and ", " + about}>' if encoded else ""
    return f"tensor<{shape}x{dtype}{encoding}>"


PLAIN = tensor()


def script(
    value: str = PLAIN,
    *,
    inputs: str | None = None,
    result: str | None = None,
    scale: str = "%sum, 0.5",
    plus: str = "%x, %y",
) -> str:
    """(x + y) · 0.5 becomes |x|, which `result` is the type of."""
    return f"""
!v = {value}
!i = {inputs or value}
!r = {result or value}
module attributes {{transform.with_named_sequence, fx.rewrite = {{name = "scaled-sum"}}}} {{
  fx.graph private @pattern(%x: !i, %y: !i) -> !v {{
    %sum = fx.node "aten.add.Tensor"({plus}) : (!i, !i) -> !v
    %scaled = fx.node "aten.mul.Scalar"({scale}) : (!v) -> !v
    fx.output(%scaled) : (!v)
  }}
  fx.graph private @replacement(%x: !i, %y: !i) -> !r {{
    %abs = fx.node "aten.abs.default"(%x) : (!i) -> !r
    fx.output(%abs) : (!r)
  }}
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }}
}}
"""


TURNED = tensor(about="strides = [1, 4]")
NAMED = tensor(shape="?x?", about='unknown_strides, dims = [#fx.sym<"m">, #fx.sym<"n">]')

SCRIPTS = {
    "plain": script(),
    "half": script(tensor("f16")),
    "another shape": script(tensor(shape="8x4")),
    "turned": script(TURNED),
    "first GPU": script(tensor(device="cuda:0")),
    "second GPU": script(tensor(device="cuda:1")),
    "any rows": script(tensor(shape="?x8", about='unknown_strides, dims = [#fx.sym<"m">, 8]')),
    "square": script(
        tensor(shape="?x?", about='unknown_strides, dims = [#fx.sym<"m">, #fx.sym<"m">]')
    ),
    "named sizes": script(NAMED),
    "contiguous, whatever size": script(
        tensor(shape="?x?", about='dims = [#fx.sym<"m">, #fx.sym<"n">]')
    ),
    "no encoding": script(tensor(encoded=False)),
    "any shape": script("tensor<*xf32>"),
    "anything": script("!fx.any"),
    "gradients": script(inputs=tensor(about="requires_grad")),
    "a class of its own": script(tensor(about='subclass = "mine.Tensor"')),
    "sparse": script(tensor(about='unknown_strides, layout = "sparse_coo"')),
    "default explicit": script(plus="%x, %y, alpha = 1"),
    "by keyword": script(plus="%x, other = %y", scale="self = %sum, other = 0.5"),
    "another default": script(plus="%x, %y, alpha = 2"),
    "minus zero": script(scale="%sum, -0.0"),
    "zero": script(scale="%sum, 0.0"),
    "whole": script(scale="%sum, 1"),
    "nan": script(scale="%sum, 0x7FF8000000000000 : f64"),
    "any scale": script(scale="%sum, #fx.any"),
    "a scale": script(scale='%sum, #fx.any<"scale">'),
    "alpha is scale": script(
        plus='%x, %y, alpha = #fx.any<"scale">', scale='%sum, #fx.any<"scale">'
    ),
    "alpha is the number of rows": script(
        tensor(shape="?x8", about='unknown_strides, dims = [#fx.sym<"m">, 8]'),
        plus='%x, %y, alpha = #fx.sym<"m">',
    ),
    "one value twice": script(plus="%x, %x").replace(", %y: !i", ""),
    "laid out otherwise": script(result=TURNED),
    "laid out somehow": script(result=tensor(about="unknown_strides")),
    "sum and scaled": script()
    .replace("%y: !i) -> !v {", "%y: !i) -> (!v, !v) {")
    .replace("%y: !i) -> !r {", "%y: !i) -> (!r, !i) {")
    .replace("fx.output(%scaled) : (!v)", "fx.output(%scaled, %sum) : (!v, !v)")
    .replace("fx.output(%abs) : (!r)", "fx.output(%abs, %x) : (!r, !i)"),
}
# No graph below has such tensors.
NOWHERE = ("a class of its own", "sparse")

# ---------------------------------------------------------------------------------------------------------------------
# Graphs
# ---------------------------------------------------------------------------------------------------------------------


def graph_of(build: Callable[..., Any], inputs: list[Any]) -> fx.GraphModule:
    """The nodes that `build` makes of a graph and its inputs, with fake values; it returns what the graph returns."""
    graph = fx.Graph()
    nodes = [graph.placeholder(f"in{position}") for position in range(len(inputs))]
    graph.output(build(graph.call_function, *nodes))
    module = fx.GraphModule({}, graph)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        values = [make() for make in inputs]
    with torch.no_grad():
        FakeTensorProp(module, mode).propagate_dont_convert_inputs(*values)
    for node, value in zip(nodes, values, strict=True):
        node.meta["val"] = value
    return module


def plain(call: Any, x: fx.Node, y: fx.Node) -> Any:
    return (
        call(aten.relu.default, (call(aten.mul.Scalar, (call(aten.add.Tensor, (x, y)), 0.5)),)),
    )


def written(*, scale: Any = 0.5, alpha: Any = None, keywords: bool = False) -> Callable[..., Any]:
    """The same, with calls written in another way."""

    def build(call: Any, x: fx.Node, y: fx.Node) -> Any:
        options = {} if alpha is None else {"alpha": alpha}
        total = (
            call(aten.add.Tensor, (), {"self": x, "other": y, **options})
            if keywords
            else call(aten.add.Tensor, (x, y), options)
        )
        scaled = (
            call(aten.mul.Scalar, (total,), {"other": scale})
            if keywords
            else call(aten.mul.Scalar, (total, scale))
        )
        return (call(aten.relu.default, (scaled,)),)

    return build


def used(use: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with what `use` makes of the sum, the scaled sum and the inputs returned."""

    def build(call: Any, x: fx.Node, y: fx.Node) -> Any:
        total = call(aten.add.Tensor, (x, y))
        scaled = call(aten.mul.Scalar, (total, 0.5))
        return (use(call, total, scaled, x, y),)

    return build


def between(act: Callable[..., Any]) -> Callable[..., Any]:
    def build(call: Any, x: fx.Node, y: fx.Node) -> Any:
        total = call(aten.add.Tensor, (x, y))
        other = act(call, x, y)
        scaled = call(aten.mul.Scalar, (total, 0.5))
        return (call(aten.relu.default, (scaled,)), other)

    return build


def viewed(*steps: tuple[Any, ...]) -> Callable[..., Any]:
    """Views of the scaled sum, one of the other, and something computed of the last."""

    def use(call: Any, total: fx.Node, scaled: fx.Node, x: fx.Node, y: fx.Node) -> Any:
        for target, *arguments in steps:
            scaled = call(target, (scaled, *arguments))
        return call(aten.neg.default, (scaled,))

    return used(use)


def relu(call: Any, value: fx.Node) -> fx.Node:
    return call(aten.relu.default, (value,))


def asserted(call: Any, total: fx.Node, scaled: fx.Node, x: fx.Node, y: fx.Node) -> fx.Node:
    """As torch.export has it beside every cast."""
    for value in (total, scaled):
        call(aten._assert_tensor_metadata.default, (value,), {"dtype": torch.float32})
    return relu(call, scaled)


def inputs(**options: Any) -> list[Callable[[], torch.Tensor]]:
    return [lambda: torch.empty(4, 8, **options)] * 2


FLOAT = inputs()
GRAPHS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "plain": (plain, FLOAT),
    "half": (plain, inputs(dtype=torch.float16)),
    "double": (plain, inputs(dtype=torch.float64)),
    "another shape": (plain, [lambda: torch.empty(8, 4)] * 2),
    "square": (plain, [lambda: torch.empty(8, 8)] * 2),
    "broadcast": (plain, [lambda: torch.empty(4, 8), lambda: torch.empty(8)]),
    "turned": (plain, [lambda: torch.empty(8, 4).t()] * 2),
    "one turned": (plain, [lambda: torch.empty(4, 8), lambda: torch.empty(8, 4).t()]),
    "first GPU": (plain, inputs(device="cuda:0")),
    "second GPU": (plain, inputs(device="cuda:1")),
    "gradients": (plain, inputs(requires_grad=True)),
    "one with gradients": (plain, [FLOAT[0], inputs(requires_grad=True)[0]]),
    "keywords": (written(keywords=True), FLOAT),
    "default explicit": (written(alpha=1), FLOAT),
    "keywords and default": (written(alpha=1, keywords=True), FLOAT),
    "another default": (written(alpha=2), FLOAT),
    "alpha is scale": (written(alpha=2.0, scale=2.0), FLOAT),
    "alpha is the number of rows": (written(alpha=4), FLOAT),
    "zero": (written(scale=0.0), FLOAT),
    "minus zero": (written(scale=-0.0), FLOAT),
    "nan": (written(scale=float("nan")), FLOAT),
    "whole": (written(scale=1), FLOAT),
    "true": (written(scale=True), FLOAT),
    "one": (written(scale=1.0), FLOAT),
    "sum used": (
        used(lambda call, total, scaled, x, y: (relu(call, total), relu(call, scaled))),
        FLOAT,
    ),
    "sum asserted": (used(asserted), FLOAT),
    "returned": (used(lambda call, total, scaled, x, y: scaled), FLOAT),
    "view returned": (
        used(lambda call, total, scaled, x, y: call(aten.view.default, (scaled, [32]))),
        FLOAT,
    ),
    "unused": (used(lambda call, total, scaled, x, y: relu(call, x)), FLOAT),
    "used twice": (
        used(lambda call, total, scaled, x, y: call(aten.add.Tensor, (scaled, scaled))),
        FLOAT,
    ),
    "written between": (between(lambda call, x, y: call(aten.relu_.default, (x,))), FLOAT),
    "what is made between written": (
        between(lambda call, x, y: call(aten.relu_.default, (call(aten.neg.default, (x,)),))),
        FLOAT,
    ),
    "detached between": (between(lambda call, x, y: call(aten.detach_.default, (x,))), FLOAT),
    "dropout that is off written between": (
        between(
            lambda call, x, y: call(
                aten.relu_.default, (call(aten.dropout.default, (x, 0.5, False)),)
            )
        ),
        FLOAT,
    ),
    "view written between": (
        between(lambda call, x, y: call(aten.zero_.default, (call(aten.select.int, (y, 0, 1)),))),
        FLOAT,
    ),
    "list written between": (
        between(lambda call, x, y: call(aten._foreach_add_.Scalar, ([x, y], 1.0))),
        FLOAT,
    ),
    "another storage between": (
        between(
            lambda call, x, y: call(aten.set_.source_Tensor, (call(aten.neg.default, (x,)), y))
        ),
        FLOAT,
    ),
    "statistics renewed between": (
        between(
            lambda call, x, y: call(
                aten.batch_norm.default,
                (
                    x,
                    None,
                    None,
                    *[call(aten.select.int, (y, 0, i)) for i in (0, 1)],
                    True,
                    0.1,
                    1e-05,
                    False,
                ),
            )
        ),
        FLOAT,
    ),
    "statistics read between": (
        between(
            lambda call, x, y: call(
                aten.batch_norm.default,
                (
                    x,
                    None,
                    None,
                    *[call(aten.select.int, (y, 0, i)) for i in (0, 1)],
                    False,
                    0.1,
                    1e-05,
                    False,
                ),
            )
        ),
        FLOAT,
    ),
    "sum written between": (
        lambda call, x, y: (
            lambda total: (
                call(aten.relu_.default, (total,)),
                relu(call, call(aten.mul.Scalar, (total, 0.5))),
            )
        )(call(aten.add.Tensor, (x, y))),
        FLOAT,
    ),
    "what is made after written": (
        used(
            lambda call, total, scaled, x, y: (
                relu(call, scaled),
                call(aten.mul_.Scalar, (call(aten.neg.default, (x,)), 2)),
            )
        ),
        FLOAT,
    ),
    "random between": (between(lambda call, x, y: call(aten.rand_like.default, (x,))), FLOAT),
    "computed between": (between(lambda call, x, y: relu(call, y)), FLOAT),
    "written after": (
        used(
            lambda call, total, scaled, x, y: (relu(call, scaled), call(aten.mul_.Scalar, (x, 2)))
        ),
        FLOAT,
    ),
    "result written": (
        used(lambda call, total, scaled, x, y: relu(call, call(aten.mul_.Scalar, (scaled, 2)))),
        FLOAT,
    ),
    "one value": (lambda call, x, y: plain(call, x, x), FLOAT),
    "twice": (
        lambda call, x, y: plain(call, x, plain(call, x, y)[0]),
        FLOAT,
    ),
    "view": (viewed((aten.view.default, [32])), FLOAT),
    "view of what is written": (
        viewed((aten.relu_.default,), (aten.view.default, [32])),
        FLOAT,
    ),
    "view of rows": (viewed((aten.view.default, [4, 2, 4])), FLOAT),
    "reshape": (viewed((aten.reshape.default, [32])), FLOAT),
    "view of reshape": (viewed((aten.reshape.default, [32]), (aten.view.default, [4, 8])), FLOAT),
    "view of transpose": (
        viewed((aten.transpose.int, 0, 1), (aten.view.default, [8, 2, 2])),
        FLOAT,
    ),
    "turned back": (viewed((aten.permute.default, [1, 0]), (aten.view.default, [8, 4, 1])), FLOAT),
    "view of slice": (
        viewed((aten.slice.Tensor, 0, 0, 2), (aten.view.default, [16])),
        FLOAT,
    ),
    "view of parts": (
        viewed(
            (aten.view.default, [4, 2, 4]),
            (aten.permute.default, [1, 0, 2]),
            (aten.unbind.int,),
            (operator.getitem, 1),
            (aten.view.default, [2, 2, 4]),
        ),
        FLOAT,
    ),
    "view across parts": (
        viewed((aten.split.Tensor, 2, 0), (operator.getitem, 0), (aten.view.default, [16])),
        FLOAT,
    ),
    "view of a row": (viewed((aten.select.int, 0, -1), (aten.view.default, [2, 4])), FLOAT),
    "view of a column": (
        viewed(
            (aten.slice.Tensor, 1, 0, 8, 2),
            (aten.unsqueeze.default, -1),
            (aten.view.default, [2, 2, 4]),
        ),
        FLOAT,
    ),
    "view without a dimension": (
        viewed((aten.unsqueeze.default, 0), (aten.squeeze.dim, 0), (aten.view.default, [2, 2, 8])),
        FLOAT,
    ),
    "by storage": (viewed((aten.as_strided.default, [4], [1])), FLOAT),
}


@dataclass
class Graphs:
    modules: dict[str, fx.GraphModule]
    # All of them, divided by lines of five dashes, so that one process reads them.
    mlir: Path


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Graphs:
    folder = tmp_path_factory.mktemp("graphs")
    modules, texts = {}, []
    for name, (build, values) in GRAPHS.items():
        modules[name] = graph_of(build, values)
        write_graph_json(folder / "graph.json", GraphSource(modules[name], "g", "export"))
        text = run_tool("opprof-translate", ["--import-fx-json", folder / "graph.json"])
        texts.append(text.decode())
    (folder / "graphs.mlir").write_text("// -----\n".join(texts))
    return Graphs(modules, folder / "graphs.mlir")


def emitted(text: str, folder: Path, name: str) -> ModuleType:
    path = folder / f"{name}.mlir"
    path.write_text(text)
    script_file = Script(path=path, name=name)
    return import_program(emit([script_file], folder / f"{name}.py")[0])


@pytest.mark.parametrize("name", SCRIPTS)
def test_matcher_and_backend_agree(tmp_path: Path, graphs: Graphs, name: str) -> None:
    identifier = "legal_" + re.sub(r"\W", "_", name)
    backend = emitted(SCRIPTS[name], tmp_path, identifier)
    options = ["-split-input-file", f"--apply-rewrites={tmp_path / identifier}.mlir"]
    rewritten = run_tool("opprof-opt", [graphs.mlir, *options], quiet=True).decode()
    by_opt = {
        graph: text.count('"aten.abs.default"')
        for graph, text in zip(graphs.modules, rewritten.split("// -----"), strict=True)
    }
    by_backend = {
        graph: len(backend.find_places(backend.REWRITES[0], module))
        for graph, module in graphs.modules.items()
    }
    assert by_opt == by_backend
    assert any(by_opt.values()) == (name not in NOWHERE) and not all(by_opt.values())


def test_both_sides_know_the_same_conditions(tmp_path: Path) -> None:
    used: set[str] = set()
    for text in SCRIPTS.values():
        (tmp_path / "script.mlir").write_text(text)
        python = run_tool("opprof-translate", ["--emit-rewrite", tmp_path / "script.mlir"]).decode()
        used |= set(re.findall(r"\b(\w+)=", re.sub(r"(?s)^.*?values=\(", "", python)))
        used |= set(re.findall(r'^ *\("(\w+)", ', python, re.MULTILINE))
    assert used - {"place"} == {*VALUE_CHECKS, *PLACE_CHECKS}


def test_calls_that_take_no_value_are_part_of_patterns_and_replacements(tmp_path: Path) -> None:
    source = 'fx.node "aten.full.default"([], {}, device = #fx.device<"cpu">) : () -> tensor<f32>'
    text = f"""
!v = {PLAIN}
module attributes {{transform.with_named_sequence, fx.rewrite = {{name = "plus-two"}}}} {{
  fx.graph private @pattern(%x: !v) -> !v {{
    %two = {source.format("2.000000e+00")}
    %sum = fx.node "aten.add.Tensor"(%x, %two) : (!v, tensor<f32>) -> !v
    fx.output(%sum) : (!v)
  }}
  fx.graph private @replacement(%x: !v) -> !v {{
    %less = {source.format("-2.000000e+00")}
    %sum = fx.node "aten.sub.Tensor"(%x, %less) : (!v, tensor<f32>) -> !v
    fx.output(%sum) : (!v)
  }}
  transform.named_sequence @__transform_main(%root: !transform.any_op {{transform.readonly}}) {{
    transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op
    transform.yield
  }}
}}
"""

    def build(number: float) -> Callable[..., Any]:
        def added(call: Any, x: fx.Node, y: fx.Node) -> Any:
            two = call(aten.full.default, ([], number), {"device": torch.device("cpu")})
            return (relu(call, call(aten.add.Tensor, (x, two))),)

        return added

    backend = emitted(text, tmp_path, "legal_sources")
    two, three = (graph_of(build(number), FLOAT) for number in (2.0, 3.0))
    assert backend.apply_rewrites(two) == {"legal_sources": 1}
    assert [node.target for node in two.graph.nodes if node.op == "call_function"] == [
        aten.full.default,
        aten.sub.Tensor,
        aten.relu.default,
    ]
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    assert torch.equal(two(x, y)[0], torch.relu(x + 2))
    assert backend.apply_rewrites(three) == {"legal_sources": 0}
