"""Recurrent layers: compiled with what is around them, and still one call of the library each."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from opprof.backend.emitted.graphs import placeholders_of
from opprof.backend.emitted.precision import RECURRENT_NAMESPACE

# Inductor takes these operators apart, step by step of the sequence; of operators that it does not know it makes calls.
_LAYERS = {
    torch.ops.aten.lstm.input: ("lstm", "Tensor[] hx", "(Tensor, Tensor, Tensor)"),
    torch.ops.aten.gru.input: ("gru", "Tensor hx", "(Tensor, Tensor)"),
    torch.ops.aten.rnn_tanh.input: ("rnn_tanh", "Tensor hx", "(Tensor, Tensor)"),
    torch.ops.aten.rnn_relu.input: ("rnn_relu", "Tensor hx", "(Tensor, Tensor)"),
}
# By the operator's name: of a cell. cuDNN has the same names in capitals.
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_ARGUMENTS = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"


def _results_like(
    value: torch.Tensor, states: list[torch.Tensor], bidirectional: bool, batch_first: bool
) -> tuple[torch.Tensor, ...]:
    """What a layer gives, without values: the library puts time first, whatever its caller does."""
    steps, batch = value.shape[:2] if not batch_first else (value.shape[1], value.shape[0])
    width = states[0].shape[2] * (2 if bidirectional else 1)
    output = value.new_empty((steps, batch, width))
    last = [torch.empty_like(state, memory_format=torch.contiguous_format) for state in states]
    return output.transpose(0, 1) if batch_first else output, *last


def _like(result: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The result laid out as it was announced, and sharing storage with nothing."""
    if result.stride() == expected.stride():
        return result
    return expected.copy_(result)


def _define(
    layer: Any, name: str, state: str, returns: str, library: torch.library.Library
) -> None:
    schema = f"{name}(Tensor input, {state}, {_ARGUMENTS}) -> {returns}"
    library.define(schema, tags=(torch.Tag.nondeterministic_seeded,))

    def states_of(hx: Any) -> list[torch.Tensor]:
        return list(hx) if isinstance(hx, (list, tuple)) else [hx]

    def announce(value: torch.Tensor, hx: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
        return _results_like(value, states_of(hx), rest[-2], rest[-1])

    def compute(value: torch.Tensor, hx: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
        results = layer(value, hx, *rest)
        expected = _results_like(value, states_of(hx), rest[-2], rest[-1])
        return tuple(_like(one, other) for one, other in zip(results, expected, strict=True))

    library.impl(name, compute, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{RECURRENT_NAMESPACE}::{name}", announce, lib=library)


def _define_all() -> Any:
    """The operators' library, which holds them; None where another emitted backend in this process has defined them."""
    if hasattr(getattr(torch.ops, RECURRENT_NAMESPACE), "lstm"):
        return None
    library = torch.library.Library(RECURRENT_NAMESPACE, "FRAGMENT")
    for layer, (name, state, returns) in _LAYERS.items():
        _define(layer, name, state, returns, library)
    return library


_library = _define_all()


def has_layers(module: fx.GraphModule) -> bool:
    """True for a graph of Dynamo's that calls recurrent layers."""
    calls = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
    return any(node.op == "call_function" and node.target in calls for node in module.graph.nodes)


def keep_layers(graph: fx.GraphModule) -> int:
    """Puts a call that Inductor leaves alone in the place of each recurrent layer; returns of how many."""
    kept = 0
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target in _LAYERS:
            name = _LAYERS[node.target][0]
            node.target = getattr(getattr(torch.ops, RECURRENT_NAMESPACE), name).default
            kept += 1
    graph.recompile()
    return kept


def put_together(graph: fx.GraphModule, made: Sequence[torch.Tensor]) -> None:
    """Moves the weights of each recurrent layer, as far as they are among the first inputs of the graph, which are `made`, into
    the one piece of memory that cuDNN takes them from: others it copies there in every call.
    """
    values = dict(zip(placeholders_of(graph), made, strict=False))
    for node in graph.graph.nodes:
        namespace, _, name = str(node.target).removesuffix(".default").partition(".")
        if namespace != RECURRENT_NAMESPACE:
            continue
        _, _, weights, has_biases, layers, _, _, bidirectional, batch_first = node.args
        own = [values[weight] for weight in weights if weight in values]
        if len(own) < len(weights) or len({(one.dtype, one.device) for one in own}) > 1:
            continue
        if not all(map(torch.backends.cudnn.is_acceptable, own)):
            continue
        # Of a layer: of the input, of the state, a bias of each, and what projects the state.
        per_layer = len(own) // (layers * (2 if bidirectional else 1))
        projected = own[per_layer - 1].shape[0] if per_layer - 2 * has_biases == 3 else 0
        torch._cudnn_rnn_flatten_weight(
            own,
            per_layer,
            own[0].shape[1],
            torch.backends.cudnn.rnn.get_cudnn_mode(name.upper()),
            own[0].shape[0] // _GATES[name],
            projected,
            layers,
            batch_first,
            bidirectional,
        )
