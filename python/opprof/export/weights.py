"""Writes the tensors that a graph's parameters, buffers and constants stand for. Needs PyTorch."""

import json
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from opprof.errors import OpprofError
from opprof.files import replacing
from opprof.suffixes import PT, SAFETENSORS

# The names that the safetensors format has for dtypes.
_SAFETENSORS_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}


def weights_of_program(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Every tensor that an exported graph takes besides the user's input, by the name that the graph gives as its target."""
    tensors = {**program.state_dict, **program.constants}
    # A constant of a branch or loop body lies in the module of that subgraph.
    for path, module in program.graph_module.named_modules():
        if path and isinstance(module, torch.fx.GraphModule):
            for node in module.graph.find_nodes(op="get_attr"):
                tensors[f"{path}.{node.target}"] = operator.attrgetter(node.target)(module)
    return {
        name: value.detach() for name, value in tensors.items() if isinstance(value, torch.Tensor)
    }


def weights_of_module(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The module's parameters and buffers, also those that a state_dict leaves out."""
    tensors = dict(module.named_parameters(remove_duplicate=False))
    tensors.update(module.named_buffers(remove_duplicate=False))
    return {name: value.detach() for name, value in tensors.items()}


# By which a .safetensors file is known as opprof's.
PRODUCER = {"producer": "opprof"}


def save_weights(path: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """Writes a .safetensors file, or for .pt what torch.save makes of the mapping."""
    if path.suffix == PT:
        with replacing(path, "wb") as file:
            torch.save(dict(weights), file)
    elif path.suffix == SAFETENSORS:
        _save_safetensors(path, weights)
    else:
        raise OpprofError(f"{path}: the ending has to be {SAFETENSORS} or {PT}")


def _save_safetensors(path: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """The length of a JSON header, the header with each tensor's place, then the tensors' bytes, row by row."""
    header: dict[str, dict[str, Any]] = {"__metadata__": dict(PRODUCER)}
    offset = 0
    for name, tensor in weights.items():
        if tensor.dtype not in _SAFETENSORS_DTYPES:
            raise OpprofError(
                f"{path}: {name} has dtype {tensor.dtype}, which the format does not have",
                remedy="write a .pt file, which holds every dtype",
            )
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _SAFETENSORS_DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor in weights.values():
            file.write(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
