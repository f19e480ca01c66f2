"""Arguments and types as graph JSON has them (docs/formats/graph-json.md), of whatever PyTorch hands over. Needs PyTorch.

Imports nothing of opprof: what is loaded into a program that opprof records reads this file by its path.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import torch

_TORCH_VALUES = (
    (torch.dtype, "dtype"),
    (torch.device, "device"),
    (torch.layout, "layout"),
    (torch.memory_format, "memory_format"),
)


class Table:
    """Values that stand once in the file and are referred to by index."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def add(self, value: Any) -> int:
        return self.index.setdefault(dumps(value), len(self.index))


def dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def argument(value: Any, refer: Callable[[Any], Any]) -> Any:
    """An argument of a node in the form that the document's table of arguments gives it.

    `refer` gives the form of what the graph's values are (nodes, tensors), and None for all else.
    """
    own = refer(value)
    if own is not None:
        return own
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else {"int": str(int(value))}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": [argument(value.real, refer), argument(value.imag, refer)]}
    if isinstance(value, tuple):
        return {"tuple": [argument(element, refer) for element in value]}
    if isinstance(value, list):
        return [argument(element, refer) for element in value]
    if isinstance(value, dict):
        return {"dict": [[argument(k, refer), argument(v, refer)] for k, v in value.items()]}
    if isinstance(value, slice):
        return {"slice": [argument(part, refer) for part in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    for python_type, key in _TORCH_VALUES:
        if isinstance(value, python_type):
            return {key: str(value).removeprefix("torch.")}
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        expression = symbolic(value)
        return expression if isinstance(expression, int) else {"sym": expression}
    if isinstance(value, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
        return {"op": target_name(value)}
    return {"object": {"type": type_name(type(value)), "repr": _bounded_repr(value)}}


def value_type(value: Any, types: Table) -> Any:
    """The type of a value; those that it is made of stand in `types` then."""
    if isinstance(value, torch.Tensor):
        return {"tensor": tensor_type(value)}
    if isinstance(value, tuple):
        return {"tuple": [types.add(value_type(element, types)) for element in value]}
    if isinstance(value, list):
        return {"list": [types.add(value_type(element, types)) for element in value]}
    if value is None:
        return "none"
    if isinstance(value, torch.SymInt):
        return {"symint": str(symbolic(value))}
    if isinstance(value, torch.SymFloat):
        return {"symfloat": str(symbolic(value))}
    if isinstance(value, torch.SymBool):
        return {"symbool": str(symbolic(value))}
    for python_type in (bool, int, float, str):
        if isinstance(value, python_type):
            return python_type.__name__
    return {"object": type_name(type(value))}


def type_name(python_type: type) -> str:
    module = python_type.__module__
    return (
        python_type.__qualname__ if module == "builtins" else f"{module}.{python_type.__qualname__}"
    )


def _bounded_repr(value: Any) -> str:
    text = repr(value)
    # An address differs from run to run, and tells nobody anything.
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text if len(text) <= 1000 else text[:1000] + "…"


def symbolic(value: Any) -> int | str:
    """A symbolic number: an int where it is known to be one value, its expression otherwise."""
    if isinstance(value, int):
        return value
    node = value.node
    expression = getattr(node, "expr", None)
    if expression is None:
        return str(node)
    if getattr(expression, "is_Integer", False):
        return int(expression)
    return str(expression)


def tensor_type(tensor: torch.Tensor) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": [symbolic(extent) for extent in tensor.shape],
    }
    if tensor.layout == torch.strided:
        entry["stride"] = [symbolic(stride) for stride in tensor.stride()]
        offset = symbolic(tensor.storage_offset())
        if offset != 0:
            entry["storage_offset"] = offset
    else:
        entry["stride"] = []
        entry["layout"] = str(tensor.layout).removeprefix("torch.")
    entry["device"] = str(tensor.device)
    if tensor.requires_grad:
        entry["requires_grad"] = True
    python_type = type(tensor)
    if python_type.__module__.partition(".")[0] != "torch":
        entry["subclass"] = type_name(python_type)
    return entry


def target_name(target: Any) -> str:
    """`aten.add.Tensor` for an operator overload, `operator.getitem` and the like for a function, a method's or attribute's own name."""
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(target)
    name = getattr(target, "__name__", "")
    if getattr(operator, name, None) is target:
        return f"operator.{name}"
    try:
        name = torch.fx.node._get_qualified_name(target)
    except (AttributeError, RuntimeError):
        name = f"{getattr(target, '__module__', None)}.{getattr(target, '__qualname__', target)}"
    return name.removeprefix("torch.ops.")


def short_path(path: str, folder: str) -> str:
    """Relative to `folder`, the working directory, where the file lies below it, as a compiler would print it.

    Installed packages are named from `site-packages` on, wherever that is: readers tell the user's lines from a library's by it.
    """
    marker = "/site-packages/"
    if marker in path:
        return "site-packages/" + path.rpartition(marker)[2]
    prefix = folder.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else path
