"""Writes FX graphs as graph JSON (docs/formats/graph-json.md) with everything that PyTorch knows of a node. Needs PyTorch."""

import collections
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

import torch
import torch.utils._pytree as pytree
from torch import fx
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind
from torch.fx.traceback import NodeSource

from opprof.errors import OpprofError
from opprof.export.graph_values import (
    Table,
    argument,
    dumps,
    short_path,
    target_name,
    type_name,
    value_type,
)
from opprof.files import replacing
from opprof.version import __version__

STAGES = ("export", "dynamo", "aot_forward", "aot_joint", "aot_backward", "post_grad")

_INPUT_KINDS = {
    InputKind.USER_INPUT: "user_input",
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant_tensor",
    InputKind.CUSTOM_OBJ: "constant_object",
    InputKind.TOKEN: "token",
}

_OUTPUT_KINDS = {
    OutputKind.USER_OUTPUT: "user_output",
    OutputKind.LOSS_OUTPUT: "loss_output",
    OutputKind.BUFFER_MUTATION: "buffer_mutation",
    OutputKind.USER_INPUT_MUTATION: "user_input_mutation",
    OutputKind.GRADIENT_TO_PARAMETER: "gradient_to_parameter",
    OutputKind.GRADIENT_TO_USER_INPUT: "gradient_to_user_input",
    OutputKind.TOKEN: "token",
}
# Older PyTorch versions have no parameter mutations.
if hasattr(OutputKind, "PARAMETER_MUTATION"):
    _OUTPUT_KINDS[OutputKind.PARAMETER_MUTATION] = "parameter_mutation"


@dataclass
class GraphInput:
    """What is known of one placeholder beyond its node."""

    kind: str = "user_input"
    target: str | None = None
    persistent: bool = True
    # What a constant tensor without dimensions holds.
    constant: bool | int | float | None = None


@dataclass
class GraphOutput:
    """What is known of one output beyond its value."""

    kind: str = "user_output"
    target: str | None = None


@dataclass
class GraphSource:
    """One top-level graph to write, with the signature that its stage has."""

    module: fx.GraphModule
    name: str
    stage: str
    inputs: list[GraphInput] | None = None
    outputs: list[GraphOutput] | None = None
    range_constraints: dict[str, list[int | None]] = field(default_factory=dict)
    in_spec: str | None = None
    out_spec: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    # Where the nodes of an autograd sequence number came from. A backward node has no other trace of its forward nodes.
    differentiated: dict[int, list[NodeSource]] = field(default_factory=dict)


def source_of_exported_program(program: torch.export.ExportedProgram, name: str) -> GraphSource:
    """The graph of torch.export with its signature."""
    signature: ExportGraphSignature = program.graph_signature
    inputs = [
        GraphInput(
            _INPUT_KINDS[spec.kind],
            spec.target,
            spec.persistent is not False,
            # A buffer's may be another one in the next call.
            _number_of(program.constants.get(spec.target or ""))
            if spec.kind is InputKind.CONSTANT_TENSOR
            else None,
        )
        for spec in signature.input_specs
    ]
    outputs = [
        GraphOutput(_OUTPUT_KINDS[spec.kind], spec.target) for spec in signature.output_specs
    ]
    ranges = {
        str(symbol): [_bound(values.lower), _bound(values.upper)]
        for symbol, values in program.range_constraints.items()
    }
    return GraphSource(
        program.graph_module,
        name,
        "export",
        inputs,
        outputs,
        ranges,
        _spec_text(program.call_spec.in_spec),
        _spec_text(program.call_spec.out_spec),
    )


def _number_of(constant: Any) -> bool | int | float | None:
    """What a tensor without dimensions holds, as `torch.tensor(0.5)` in a program is lifted to one; None for anything else."""
    if not isinstance(constant, torch.Tensor) or constant.dim() or constant.is_complex():
        return None
    try:
        number: bool | int | float = constant.item()
    except RuntimeError:
        # It lies on no device, as in a program that is traced there.
        return None
    return number


def _bound(value: Any) -> int | None:
    """A bound as a number; None for an infinite one, of which PyTorch has one kind for integers and sympy one for reals."""
    try:
        number = None if math.isinf(float(value)) else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number is not None and abs(number) < 2**62 else None


def _spec_text(spec: pytree.TreeSpec | None) -> str | None:
    if spec is None:
        return None
    try:
        return str(pytree.treespec_dumps(spec))
    except (NotImplementedError, TypeError):
        pass
    try:
        protocol, _ = json.loads(pytree.treespec_dumps(_LEAF))
        return json.dumps([protocol, _spec_node(spec)])
    except (NotImplementedError, TypeError):
        # A user's own container type that has no name: the text still shows the structure.
        return str(spec)


_LEAF = pytree.tree_structure(0)


def _spec_node(spec: pytree.TreeSpec) -> dict[str, Any]:
    """What `treespec_dumps` writes of a structure, and of named tuples, which have no name there, that of their class."""
    if spec.is_leaf():
        written: dict[str, Any] = json.loads(pytree.treespec_dumps(spec))[1]
        return written
    children = spec.children() if hasattr(spec, "children") else spec.children_specs
    leaves = [_LEAF] * len(children)
    if spec.type.__module__ == "torch.return_types":
        own = {"type": f"torch.return_types.{spec.type.__name__}", "context": "null"}
    else:
        try:
            alone = pytree.TreeSpec(spec.type, spec.context, leaves)
            own = json.loads(pytree.treespec_dumps(alone))[1]
        except NotImplementedError:
            if spec.type is not collections.namedtuple:
                raise
            name = f"{spec.context.__module__}.{spec.context.__qualname__}"
            own = {"type": "collections.namedtuple", "context": name}
    return {**own, "children_spec": [_spec_node(child) for child in children]}


def write_graph_json(
    path: str | os.PathLike[str],
    source: GraphSource,
    graph_names: Mapping[int, str] | None = None,
) -> None:
    """Writes a graph, and the subgraphs that it calls, to one file.

    `graph_names` names the graphs that `from_node` chains may lead to, by `id(graph)`; others are called `#1`, `#2`, … in the
    order in which they are first seen, so that equal programs give equal files.
    """
    with replacing(path) as file:
        _GraphFile(graph_names or {}).write(file, source)


#: A node's places in the tables of types, stacks and modules.
References: TypeAlias = tuple[int | None, int | None, int | None]


def named_bodies(module: fx.GraphModule, name: str) -> Iterator[tuple[str, fx.GraphModule]]:
    """The graphs that the higher-order operators of the graph `name` call, callers first, each named by its path in the module."""
    taken = {name}
    seen: set[int] = set()

    def visit(module: fx.GraphModule, prefix: str) -> Iterator[tuple[str, fx.GraphModule]]:
        for node in module.graph.nodes:
            if node.op != "get_attr":
                continue
            child = _attribute(module, node.target)
            if not isinstance(child, fx.GraphModule) or id(child) in seen:
                continue
            seen.add(id(child))
            name = path = f"{prefix}{node.target}"
            count = 1
            while name in taken:
                count += 1
                name = f"{path}_{count}"
            taken.add(name)
            yield name, child
            yield from visit(child, f"{name}.")

    yield from visit(module, "")


class _GraphFile:
    """Two passes over the nodes: the tables of repeated values have to be complete before the first graph is written."""

    def __init__(self, graph_names: Mapping[int, str]) -> None:
        self.types, self.stacks, self.modules = Table(), Table(), Table()
        self.graph_names = dict(graph_names)
        self.known_graphs = frozenset(graph_names.values())
        self.unnamed_graphs = 0
        self.stack_index: dict[str, int | None] = {}
        self.module_index: dict[tuple[tuple[str, str | type], ...], int | None] = {}
        self.subgraphs: dict[int, str] = {}

    def write(self, file: IO[str], main: GraphSource) -> None:
        sources = [main, *self._subgraphs_of(main)]
        references = [
            {node: self._table_references(node) for node in source.module.graph.nodes}
            for source in sources
        ]
        producer = {"torch": str(torch.__version__), "opprof": __version__}
        file.write('{"opprof_graph_version": 1,\n "producer": ' + dumps(producer))
        for key, table in (
            ("types", self.types),
            ("stacks", self.stacks),
            ("modules", self.modules),
        ):
            file.write(f',\n "{key}": [')
            file.write(",".join("\n  " + text for text in table.index))
            file.write("]")
        file.write(',\n "graphs": [')
        for position, source in enumerate(sources):
            file.write("," if position else "")
            self._write_graph(file, source, references[position])
        file.write("]}\n")

    def _subgraphs_of(self, main: GraphSource) -> Iterator[GraphSource]:
        for name, child in named_bodies(main.module, main.name):
            self.subgraphs[id(child)] = name
            yield GraphSource(child, name, main.stage)

    def _table_references(self, node: fx.Node) -> References:
        value = node.meta.get("val", node.meta.get("example_value", _MISSING))
        if value is _MISSING and node.op == "get_attr":
            value = _attribute(node.graph.owning_module, node.target)
            if isinstance(value, fx.GraphModule):
                return None, None, None
        type_index = None if value is _MISSING else self.type_of(value)
        return type_index, self._stack_of(node), self._modules_of(node)

    def type_of(self, value: Any) -> int:
        return self.types.add(value_type(value, self.types))

    def _stack_of(self, node: fx.Node) -> int | None:
        text = node.meta.get("stack_trace")
        if not text:
            return None
        if text not in self.stack_index:
            frames = parse_stack_trace(text)
            self.stack_index[text] = self.stacks.add(frames) if frames else None
        return self.stack_index[text]

    def _modules_of(self, node: fx.Node) -> int | None:
        # A backward node carries the modules of the forward node that it differentiates.
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
        if not stack:
            return None
        key = tuple((path, kind) for path, kind in stack.values())
        if key not in self.module_index:
            entries = [
                {
                    "path": clean_module_path(path),
                    "type": kind if isinstance(kind, str) else type_name(kind),
                }
                for path, kind in key
            ]
            self.module_index[key] = self.modules.add(entries)
        return self.module_index[key]

    def _write_graph(
        self, file: IO[str], source: GraphSource, references: Mapping[fx.Node, References]
    ) -> None:
        nodes = source.module.graph.nodes
        placeholders = [node for node in nodes if node.op == "placeholder"]
        inputs = source.inputs or [GraphInput() for _ in placeholders]
        if len(inputs) != len(placeholders):
            raise OpprofError(
                f"graph {source.name}: {len(placeholders)} inputs, but a signature for {len(inputs)}"
            )
        head = {"name": source.name, "stage": source.stage}
        file.write("\n  " + dumps(head)[:-1] + ',\n   "inputs": [')
        for position, (node, known) in enumerate(zip(placeholders, inputs, strict=True)):
            entry: dict[str, Any] = {"name": node.name}
            type_index = references[node][0]
            if type_index is not None:
                entry["type"] = type_index
            entry["kind"] = known.kind
            if known.target is not None:
                entry["target"] = known.target
            if not known.persistent:
                entry["persistent"] = False
            if known.constant is not None:
                entry["constant"] = argument(known.constant, lambda _: None)
            chain = self._from_node(node, source)
            if chain:
                entry["from_node"] = chain
            file.write(("," if position else "") + "\n    " + dumps(entry))
        file.write('],\n   "nodes": [')
        first = True
        result: fx.Node | None = None
        for node in nodes:
            if node.op == "output":
                result = node
            elif node.op != "placeholder" and not self._names_a_subgraph(node):
                file.write(("" if first else ",") + "\n    ")
                file.write(dumps(self._node(node, source, references[node])))
                first = False
        outputs, attributes = self._outputs(source, result)
        file.write('],\n   "outputs": [' + ",".join("\n    " + dumps(o) for o in outputs) + "]")
        tail: dict[str, Any] = {"range_constraints": source.range_constraints}
        if source.in_spec is not None:
            tail["in_spec"] = source.in_spec
        if source.out_spec is not None:
            tail["out_spec"] = source.out_spec
        tail["attributes"] = attributes
        file.write(",\n   " + dumps(tail)[1:])

    def _names_a_subgraph(self, node: fx.Node) -> bool:
        return node.op == "get_attr" and isinstance(
            _attribute(node.graph.owning_module, node.target), fx.GraphModule
        )

    def _node(self, node: fx.Node, source: GraphSource, references: References) -> dict[str, Any]:
        type_index, stack, modules = references
        entry: dict[str, Any] = {
            "name": node.name,
            "op": node.op,
            "target": target_name(node.target),
            "args": [self.argument(argument) for argument in node.args],
            "kwargs": {key: self.argument(value) for key, value in node.kwargs.items()},
        }
        for key, value in (("type", type_index), ("stack", stack), ("modules", modules)):
            if value is not None:
                entry[key] = value
        sequence_number = node.meta.get("seq_nr")
        if isinstance(sequence_number, int) and sequence_number >= 0:
            entry["seq_nr"] = sequence_number
        original = node.meta.get("original_aten")
        if original is not None:
            entry["original_aten"] = target_name(original)
        function = node.meta.get("torch_fn")
        if function is not None:
            entry["torch_fn"] = [str(part) for part in function]
        chain = self._from_node(node, source)
        if chain:
            entry["from_node"] = chain
        return entry

    def _from_node(self, node: fx.Node, source: GraphSource) -> list[dict[str, str]]:
        """The nested records of PyTorch as one chain, newest first; a step that occurs twice is written once."""
        chain: list[dict[str, str]] = []
        self._add_to_chain(chain, node.meta.get("from_node") or [])
        if not any(entry["graph"] in self.known_graphs for entry in chain):
            records = source.differentiated.get(node.meta.get("seq_nr", -1), [])
            self._add_to_chain(chain, records, "differentiate")
        return chain

    def _add_to_chain(
        self, chain: list[dict[str, str]], records: list[NodeSource], action: str | None = None
    ) -> None:
        pending = list(reversed(records))
        while pending:
            record = pending.pop()
            pending.extend(reversed(record.from_node))
            if not record.name:
                continue
            entry = {
                "name": record.name,
                "graph": self._graph_name(record.graph_id),
                "pass": record.pass_name,
                "action": action or "+".join(step.name.lower() for step in record.action),
            }
            if entry not in chain:
                chain.append(entry)

    def _graph_name(self, graph_id: int) -> str:
        if graph_id not in self.graph_names:
            self.unnamed_graphs += 1
            self.graph_names[graph_id] = f"#{self.unnamed_graphs}"
        return self.graph_names[graph_id]

    def _outputs(
        self, source: GraphSource, result: fx.Node | None
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        attributes = dict(source.attributes)
        if result is None:
            return [], attributes
        value = result.args[0]
        if not isinstance(value, tuple):
            attributes["output"] = "list" if isinstance(value, list) else "single"
        values = value if isinstance(value, (tuple, list)) else (value,)
        known = source.outputs or [GraphOutput() for _ in values]
        if len(known) != len(values):
            raise OpprofError(
                f"graph {source.name}: {len(values)} outputs, but a signature for {len(known)}"
            )
        entries = []
        for element, output in zip(values, known, strict=True):
            entry = {"value": self.argument(element), "kind": output.kind}
            if output.target is not None:
                entry["target"] = output.target
            entries.append(entry)
        return entries, attributes

    def argument(self, value: Any) -> Any:
        """An argument of a node in the form that the document's table of arguments gives it."""
        return argument(value, self._reference)

    def _reference(self, value: Any) -> Any:
        if not isinstance(value, fx.Node):
            return None
        if self._names_a_subgraph(value):
            child = _attribute(value.graph.owning_module, value.target)
            return {"graph": self.subgraphs[id(child)]}
        return {"node": value.name}


_MISSING = object()


def _attribute(module: Any, path: Any) -> Any:
    for part in str(path).split("."):
        module = getattr(module, part, None)
    return module


_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.*))?$')


def parse_stack_trace(text: str) -> list[dict[str, Any]]:
    """The frames of a traceback as Python prints it, innermost last."""
    frames: list[dict[str, Any]] = []
    for line in text.splitlines():
        match = _FRAME.match(line)
        if match:
            frames.append(
                {"file": short_path(match["file"], str(Path.cwd())), "line": int(match["line"])}
            )
            if match["function"]:
                frames[-1]["function"] = match["function"].strip()
        elif frames and "code" not in frames[-1] and line.strip(" ^~"):
            frames[-1]["code"] = line.strip()
    return frames


def clean_module_path(path: str) -> str:
    """The qualified name in the user's module, from what the stages record.

    That is `h.0.weight`, `L['self'].h[0].weight` or `L['self']._modules['h']._modules['0']._parameters['weight']`.
    """
    # The module is called self in its forward as a rule, but need not be.
    path = re.sub(r"^L(\['\w+'\]|__self__)", "", path)
    path = re.sub(r"\._(modules|parameters|buffers)(?=\[)", "", path)
    path = re.sub(r"\[['\"]?([^\]'\"]+)['\"]?\]", r".\1", path)
    return path.lstrip(".")
