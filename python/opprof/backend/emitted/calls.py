"""Calls: operators in one form, whichever way they were written."""

import struct
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from opprof.backend.emitted.interface import Open, Size

_MEMORY_FORMATS = (
    torch.contiguous_format,
    torch.preserve_format,
    torch.channels_last,
    torch.channels_last_3d,
)
_DTYPES = {3: torch.int32, 4: torch.int64, 6: torch.float32, 7: torch.float64, 11: torch.bool}


def normalized_arguments(node: fx.Node) -> list[Any]:
    """The arguments in the order of the operator's schema, with defaults explicit, whole numbers for floats as floats, and
    tuples for lists as lists."""
    schema = getattr(node.target, "_schema", None)
    names = {argument.name for argument in schema.arguments} if schema is not None else set()
    if schema is None or len(node.args) > len(names) or not names.issuperset(node.kwargs):
        return [tuple(node.args), dict(node.kwargs)]
    arguments = []
    for position, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        if argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        elif position < len(node.args):
            value = node.args[position]
        else:
            value = _default(argument)
        if isinstance(value, tuple) and "List[" in kind:
            value = list(value)
        arguments.append(_as_floats(value) if "float" in kind else value)
    return arguments


def _default(argument: Any) -> Any:
    value, kind = argument.default_value, str(argument.real_type)
    if isinstance(value, int) and "MemoryFormat" in kind:
        return _MEMORY_FORMATS[value]
    if isinstance(value, int) and "ScalarType" in kind:
        return _DTYPES[value]
    return value


def _as_floats(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_as_floats(element) for element in value)
    return float(value) if type(value) is int else value


def same_arguments(expected: Any, actual: Any, pairs: list[tuple[Any, Any]]) -> bool:
    """True for equal arguments; adds the values that stand for each other to `pairs`, and what names stand for, which is for
    the caller to compare. Floats are compared by their bits."""
    if isinstance(expected, Open):
        constant = not any(isinstance(leaf, fx.Node) for leaf in tree_leaves(actual))
        pairs.append((expected, actual))
        return constant
    if isinstance(expected, Size):
        pairs.append((expected, actual))
        return type(actual) is int
    if isinstance(expected, fx.Node) and isinstance(actual, fx.Node):
        pairs.append((expected, actual))
        return True
    for kind in (list, tuple):
        if isinstance(expected, kind) and isinstance(actual, kind):
            return len(expected) == len(actual) and all(
                same_arguments(one, other, pairs)
                for one, other in zip(expected, actual, strict=True)
            )
    if isinstance(expected, dict) and isinstance(actual, dict):
        return list(expected) == list(actual) and same_arguments(
            list(expected.values()), list(actual.values()), pairs
        )
    if isinstance(expected, slice) and isinstance(actual, slice):
        return same_arguments(
            [expected.start, expected.stop, expected.step],
            [actual.start, actual.stop, actual.step],
            pairs,
        )
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, float):
        return struct.pack("d", expected) == struct.pack("d", actual)
    if isinstance(expected, complex):
        return struct.pack("dd", expected.real, expected.imag) == struct.pack(
            "dd", actual.real, actual.imag
        )
    return bool(expected == actual)


def filled_in(arguments: Any, constants: dict[str, Any], sizes: dict[str, int]) -> Any:
    """Arguments of a replacement with what its names stand for at a place."""

    def fill(leaf: Any) -> Any:
        if isinstance(leaf, Open):
            return constants[leaf]
        return sizes[leaf] if isinstance(leaf, Size) else leaf

    return fx.node.map_aggregate(arguments, fill)
