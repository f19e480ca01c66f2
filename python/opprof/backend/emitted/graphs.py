"""ATen graphs: how they are traced, and what their nodes write, draw and share."""

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.traceback import preserve_node_meta


def why_not_trace(module: fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    """What keeps a graph of Dynamo's from being traced by itself, if anything."""
    if not all(isinstance(value, torch.Tensor) for value in inputs):
        return "sizes are symbolic"
    if any(isinstance(value, FakeTensor) for value in inputs):
        return "the inputs have no values yet"
    for node in module.graph.nodes:
        if node.target is torch.ops.higher_order.tag_activation_checkpoint:
            return "it checkpoints activations"
        # A float argument that had several values, of which Dynamo makes a symbol.
        if node.op == "call_method" and node.target == "item":
            return "a number that it is given is symbolic"
    differentiates = any(value.requires_grad for value in inputs) and not needs_gradients(inputs)
    if differentiates and _switches_gradients_on(module):
        return "it switches gradients on"
    return None


def _switches_gradients_on(module: fx.GraphModule) -> bool:
    """True for a graph of Dynamo's a part of which has gradients, whatever is around it."""
    switch = torch._C._set_grad_enabled
    return any(node.target is switch and node.args == (True,) for node in module.graph.nodes)


def trace_to_aten(function: Callable[..., Any], inputs: Sequence[Any]) -> fx.GraphModule:
    """`function` as a graph of ATen operators before autograd: the level that torch.export shows, and rewrites are made for."""
    # Dynamo's own context would make the sizes of some inputs symbols that its guards then know nothing of.
    with torch._guards.tracing(None):
        graph = make_fx(function, pre_dispatch=True, tracing_mode="fake")(*inputs)
    _check_that_nothing_is_lost(graph)
    note_gradients(graph, [isinstance(i, torch.Tensor) and i.requires_grad for i in inputs])
    return graph


def _check_that_nothing_is_lost(graph: fx.GraphModule) -> None:
    """Refuses a graph that takes what was computed during tracing: such a graph compiles, and gives what no input has a part in.

    What a transform (vmap, grad, jvp) wraps is no tensor that the tracer follows, so that it is a constant to it.
    """
    for node in graph.graph.nodes:
        value = getattr(graph, node.target, None) if node.op == "get_attr" else None
        if isinstance(value, torch.Tensor) and (
            isinstance(value, FakeTensor) or torch._C._functorch.is_functorch_wrapped_tensor(value)
        ):
            raise ValueError("tracing loses what torch.func (vmap, grad, jvp) transforms")


def trace_with_lines(module: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """The same of a graph of Dynamo's, whose nodes keep what it knows of them: modules, lines, and which of its nodes they come from."""
    with preserve_node_meta():
        return trace_to_aten(fx.Interpreter(module).run, inputs)


def lines_of(module: fx.GraphModule, inputs: Sequence[Any]) -> dict[str, str]:
    """The program's innermost line for each node of the graph that `trace_to_aten` gives, as far as they are found."""
    try:
        graph = trace_with_lines(module, inputs)
    except Exception:
        # What it is for is said without them, too.
        return {}
    frames = {
        node.name: re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
        for node in graph.graph.nodes
    }
    return {name: ":".join(known[-1]) for name, known in frames.items() if known}


def placeholders_of(graph: fx.GraphModule) -> list[fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def note_gradients(graph: fx.GraphModule, needed: Sequence[bool]) -> None:
    """Lets the inputs' fake values say again which of them require gradients: tracing detaches them."""
    for node, requires_grad in zip(placeholders_of(graph), needed, strict=True):
        if requires_grad:
            node.meta["val"].requires_grad_()


def needs_gradients(inputs: Sequence[Any]) -> bool:
    """True where what is computed of the inputs is to be differentiated."""
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in inputs
    )


def propagate_values(graph: fx.GraphModule) -> None:
    """Gives the nodes that a replacement brought in the fake values that others have."""
    values = [node.meta["val"] for node in placeholders_of(graph)]
    modes = [value.fake_mode for value in values if isinstance(value, FakeTensor)]
    if modes:
        needed = [isinstance(v, torch.Tensor) and v.requires_grad for v in values]
        with torch.no_grad():
            FakeTensorProp(graph, modes[0]).propagate_dont_convert_inputs(*values)
        note_gradients(graph, needed)


def forget_values(graph: fx.GraphModule) -> None:
    """Drops the nodes' fake values, whose mode knows the tensors that it was made of as long as it lives."""
    for node in graph.graph.nodes:
        node.meta.pop("val", None)


def results_of(graph: fx.GraphModule) -> list[Any]:
    return list(torch.utils._pytree.tree_leaves(graph.graph.output_node().args[0]))


def storage_of(node: Any) -> int | None:
    """What stands for the storage of a node's value; None where it has none."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    return int(value.untyped_storage()._cdata)


def only_asserts(node: fx.Node) -> bool:
    """True for a node that asserts of a tensor what its type says. It takes nothing of what the tensor holds."""
    return node.target is torch.ops.aten._assert_tensor_metadata.default


def views_of(node: fx.Node) -> list[fx.Node]:
    """The nodes whose result may share storage with `node`, which is their first operand."""
    return [
        user
        for user in node.users
        if user.op != "output" and user.all_input_nodes[0] is node and may_alias(user)
    ]


# Normalizations that renew the running statistics they are given, when in training; their schemas do not say so.
_RENEWING = (
    "batch_norm",
    "instance_norm",
    "native_batch_norm",
    "cudnn_batch_norm",
    "miopen_batch_norm",
    "_batch_norm_impl_index",
    "batch_norm_gather_stats",
    "batch_norm_gather_stats_with_counts",
)
# Operators that may return an argument, or a view of one; their schemas do not say so.
_ALIASING = (
    "_unsafe_view",
    "alpha_dropout",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_tensors",
    "cartesian_prod",
    "chain_matmul",
    "channel_shuffle",
    "conj_physical",
    "data",
    "dequantize",
    "dropout",
    "einsum",
    "feature_alpha_dropout",
    "feature_dropout",
    "flatten_dense_tensors",
    "lift",
    "meshgrid",
    "sum_to_size",
    "to_dense",
    "type_as",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
)


def operator_name(node: fx.Node) -> str:
    return str(getattr(node.target, "_opname", ""))


def roles_of(node: fx.Node) -> list[tuple[fx.Node, bool, bool]]:
    """What the node takes, with whether it may write each, and whether its result may share storage with it."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        written = may_write(node)
        aliased = (
            written
            or node.target is operator.getitem
            or isinstance(node.target, torch._ops.HigherOrderOperator)
        )
        return [(operand, written, aliased) for operand in node.all_input_nodes]
    name = operator_name(node)
    arguments = {
        **dict(zip((a.name for a in schema.arguments), node.args, strict=False)),
        **node.kwargs,
    }
    renews = (
        name in _RENEWING
        and arguments.get("training", True) is not False
        and arguments.get("use_input_stats", True) is not False
    )
    returns = any(result.alias_info is not None for result in schema.returns)
    # Of one tensor einsum may give a view; what it combines is a new one.
    operands = arguments.get("tensors") if name == "einsum" else None
    undeclared = name in _ALIASING and not (operands and len(operands) > 1)
    roles = []
    for argument in schema.arguments:
        alias = argument.alias_info
        written = (alias is not None and alias.is_write) or (
            renews and argument.name in ("running_mean", "running_var")
        )
        aliased = undeclared or (returns and alias is not None)
        leaves = torch.utils._pytree.tree_leaves(arguments.get(argument.name))
        roles += [(leaf, written, aliased) for leaf in leaves if isinstance(leaf, fx.Node)]
    return roles


def may_write(node: fx.Node) -> bool:
    """True where the node may write a tensor that existed before: its schema says so, or nothing is known of it."""
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return schema.is_mutable or (
            operator_name(node) in _RENEWING and any(written for _, written, _ in roles_of(node))
        )
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return not _computes_only(node)
    module, name = getattr(node.target, "__module__", ""), getattr(node.target, "__name__", "")
    if module in (operator.__name__, operator.getitem.__module__):
        return name.startswith("i") or name == "setitem"
    return module != "math" and not (module == "torch" and name.startswith("sym_"))


# Higher-order operators that do what their subgraphs do and no more.
_CONTROL_FLOW = (
    "cond",
    "while_loop",
    "scan",
    "associative_scan",
    "map_impl",
    "invoke_subgraph",
    "wrap_with_set_grad_enabled",
    "wrap_with_autocast",
)


def _computes_only(node: fx.Node) -> bool:
    names = [operand.target for operand in node.all_input_nodes if operand.op == "get_attr"]
    values = [getattr(node.graph.owning_module, str(name), None) for name in names]
    subgraphs = [value for value in values if isinstance(value, fx.GraphModule)]
    return (
        node.target.name() in _CONTROL_FLOW
        and bool(subgraphs)
        and not any(may_write(inner) for subgraph in subgraphs for inner in subgraph.graph.nodes)
    )


def may_alias(node: fx.Node) -> bool:
    """True where the node's result may share storage with what it takes."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or operator_name(node) in _ALIASING:
        return True
    return any(result.alias_info is not None for result in schema.returns)


def draws_numbers(node: fx.Node) -> bool:
    """True for a node that draws random numbers. Attention, dropout and recurrent layers do so only when dropout is on."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if arguments.get("train") is False or arguments.get("training") is False:
        return False
    return not ("dropout_p" in names and arguments.get("dropout_p", 0.0) == 0)
