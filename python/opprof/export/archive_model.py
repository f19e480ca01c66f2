"""A TorchScript archive as a model script: its graph as Python, in a module that holds the archive's own parameters. Needs PyTorch.

TorchScript's modules can't be compiled by torch.compile. The module that is written here can, and computes the same bits, which is
checked before anything is made of it. Where the graph has nodes that no such module can have, they are named with their lines.
"""

import copy
import json
import os
import runpy
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from opprof.chain import import_graph
from opprof.errors import OpprofError
from opprof.export.archive_script import ArchiveScript, load_archive, place_of
from opprof.export.model_script import ModelScript, load_model_script
from opprof.export.weights import PRODUCER, save_weights
from opprof.files import check_mark, read_json, replacing, scratch_folder
from opprof.progress import progress
from opprof.suffixes import GRAPH_JSON, MLIR_BYTECODE, SAFETENSORS
from opprof.tools import run_tool
from opprof.torchscript import TorchScriptOptions, write_graph

#: Inputs on which the module and the archive have to give the same bits, besides the first.
_SEEDS = (11, 23, 47)
# After so many seconds no further inputs are compared, once so many have been: a model that keeps a GPU busy takes a CPU long, and a
# time box most of what it has.
_CHECK_SECONDS, _LEAST_CHECKED = 5.0, 2

#: What a module is converted to: to be faster, and to be what errors are held against.
_OTHER_PRECISIONS = (torch.bfloat16, torch.float64)

#: The dtypes of weights, as graph JSON names them, that a conversion changes.
_FLOATS = ("float64", "float32", "float16", "bfloat16")

_MODULE = '''

# What the program was made of: dtypes and sizes that decide what runs are those of these arguments, None among them.
ARCHIVE = {archive!r}
METHOD = {method!r}
NAMES = {names!r}
CONSTANTS = {constants!r}
ARGUMENTS = {arguments!r}
LEAVES = {leaves!r}


def _form(value):
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    return None if value is None else "given"


def _beside(file):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), file)


def _floats(module):
    """The dtypes of all numbers with a fraction that the module holds."""
    return {{value.dtype for value in [*module.parameters(), *module.buffers()] if value.is_floating_point()}}


class Model(torch.nn.Module):
    """A method of the archive as a module: its parameters and buffers are those of the loaded archive, by name."""

    def __init__(self, weights):
        super().__init__()
        for name, value in weights.items():
            part = self
            *path, last = name.split(".")
            for step in path:
                if step not in part._modules:
                    part.add_module(step, torch.nn.Module())
                part = part._modules[step]
            if isinstance(value, torch.nn.Parameter):
                part.register_parameter(last, value)
            else:
                part.register_buffer(last, value)
        self.{own}forms, self.{own}floats = [LEAVES], _floats(self)

    def _apply(self, *args, **kwargs):
        """Once the module is converted, by .double() or .to(torch.bfloat16), it takes arguments of that dtype."""
        result, dtypes = super()._apply(*args, **kwargs), _floats(self)
        forms = [LEAVES]
        if len(dtypes) == 1:
            (dtype,) = dtypes
            converted = [
                (leaf[0], dtype) if isinstance(leaf, tuple) and leaf[1].is_floating_point else leaf for leaf in LEAVES
            ]
            # A conversion to the dtype that it has is none, and whoever asked for it converts the arguments all the same.
            forms = [converted] if dtypes != self.{own}floats else [LEAVES, converted]
        self.{own}forms = forms
        return result

    def forward(self, *args):
        leaves = [_form(value) for value in pytree.tree_leaves(args)]
        if leaves not in self.{own}forms:
            expected = self.{own}forms[0]
            raise ValueError(f"the program is for tensors of the sizes and dtypes {{expected}}, and got {{leaves}}")
        given = iter(args)
        inputs = []
        for kind, target in INPUTS:
            if kind == "user_input":
                inputs.append(next(given))
            else:
                value = self
                for step in target.split("."):
                    value = getattr(value, step)
                inputs.append(value)
        return _run(inputs, {{}})


def module_of(loaded):
    """The module of the archive as torch.jit.load gives it, for torch.compile; it shares its parameters."""
    # TorchScript gives parameters as tensors, which a move to another device would make results of.
    weights = {{name: torch.nn.Parameter(value, value.requires_grad) for name, value in loaded.named_parameters()}}
    weights.update(loaded.named_buffers())
    if CONSTANTS is not None:
        device = next((value.device for value in weights.values()), torch.device("cpu"))
        weights.update({{name: value.to(device) for name, value in _read_safetensors(_beside(CONSTANTS)).items()}})
    needed = [target for kind, target in INPUTS if kind != "user_input"]
    weights = _sharing(weights)
    return Model({{name: weights[name] for name in needed}}).eval()


def _held_by(loaded, target):
    """The tensor that the archive holds under a name of the program's; None where that is a number of its code."""
    value = loaded
    for step in target.split("."):
        if isinstance(value, (list, tuple)) and step.isdigit():
            value = value[int(step)]
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            value = getattr(value, step, None)
    return value if isinstance(value, torch.Tensor) else None


def archive_method(device):
    """What the module is made of, as TorchScript runs it on a device: it takes the module's arguments."""
    loaded = torch.jit.load(_beside(ARCHIVE), map_location=device)
    method = getattr(loaded, METHOD)
    tensors = [*loaded.parameters(), *loaded.buffers()]
    tensors += [_held_by(loaded, target) for kind, target in INPUTS if kind != "user_input"]
    # A traced method may write a tensor that its code holds.
    graph = method.inlined_graph
    held_by_code = [one.output().toIValue() for one in graph.findAllNodes("prim::Constant")]
    tensors += [value for value in held_by_code if isinstance(value, torch.Tensor)]
    memory = [value.untyped_storage() for value in tensors if value is not None and value.layout == torch.strided]
    # Each once, as bytes, whatever has a part of it.
    parts = {{one.data_ptr(): torch.empty(0, dtype=torch.uint8, device=one.device).set_(one) for one in memory}}
    held = [(part, part.clone()) for part in parts.values()]
    written = []
    # Those whose results are compared come among the first; what is timed after them does no more than the archive.
    looks = 16

    def run(*args):
        nonlocal looks
        # Whoever compares calls compares them from what the archive holds.
        for part, own in written:
            part.copy_(own)
        result = method(**dict(zip(NAMES, args)))
        if looks:
            looks -= 1
            changed = [not torch.equal(part, own) for part, own in held]
            written.extend(pair for pair, differs in zip(held, changed) if differs)
            held[:] = [pair for pair, differs in zip(held, changed) if not differs]
        return result

    return run


def get_model_and_input():
    """The archive's module, and the arguments that it was read with."""
    return module_of(torch.jit.load(_beside(ARCHIVE), map_location="cpu")), torch.load(_beside(ARGUMENTS))
'''


def write_archive_model(archive: Path, options: TorchScriptOptions, output: Path) -> Path:
    """Writes `<graph>_model.py` and what it reads to the folder `output`, and returns it. It needs PyTorch only.

    Throws OpprofError where the graph has control flow, or anything else that no module for torch.compile can have, or where the
    module's results are not the archive's.
    """
    with scratch_folder() as scratch:
        graph = scratch / f"graph{GRAPH_JSON}"
        script = load_archive(archive, options, graph)
        if script.graph["producer"].get("training"):
            raise OpprofError(
                f"{archive}: was saved in training mode, and what is optimized is inference",
                remedy="save it again after eval()",
            )
        _check_form(archive, script.graph)
        script.args = _with_whole_numbers(script)
        name = f"{script.name}_model"
        target, arguments = output / f"{name}.py", output / f"{name}_arguments.pt"
        own_constants = output / f"{name}_constants{SAFETENSORS}"
        check_mark(target, "a program that opprof wrote")
        # As PyTorch calls what it writes to an open file.
        check_mark(arguments, "archive/data.pkl")
        check_mark(own_constants, json.dumps(PRODUCER))
        bytecode, weights = scratch / f"graph{MLIR_BYTECODE}", scratch / f"weights{SAFETENSORS}"
        # The module may be moved before it is called.
        write_graph(archive, graph, replace(options, follow_devices=True), weights)
        programs = [_emit(graph, bytecode)]
        following = _following_precision(read_json(graph))
        if following is not None:
            graph.write_text(json.dumps(following), encoding="utf-8")
            programs.append(_emit(graph, bytecode))
        emitted = scratch / "program.py"
        emitted.write_text(programs[0], encoding="utf-8")
        held = runpy.run_path(str(emitted))["_read_safetensors"](str(weights))
    own = {key for key, _ in (*script.module.named_parameters(), *script.module.named_buffers())}
    constants = {key: value for key, value in held.items() if key not in own}
    if constants:
        save_weights(own_constants, constants)
    places, formals = _given(script), _formals(script)
    args = tuple(script.args[place] for place in places)
    with replacing(arguments, "wb") as stream:
        torch.save(args, stream)
    end = _MODULE.format(
        archive=os.path.relpath(archive.resolve(), output.resolve()),
        method=script.method,
        names=[formals[place].name for place in places],
        constants=own_constants.name if constants else None,
        arguments=arguments.name,
        leaves=list(map(_form, tree_leaves(args))),
        own=_own_prefix([*own, *constants]),
    )

    def write(program: str) -> ModelScript:
        with replacing(target) as file:
            file.write(program)
            file.write(end)
        return load_model_script(target)

    written = write(programs[0])
    if len(programs) > 1:
        precisions = _precisions(written)
        if len(precisions) < len(_OTHER_PRECISIONS):
            written = write(programs[1])
            if len(_precisions(written)) <= len(precisions):
                written = write(programs[0])
    _check_results(script, written, places)
    return target


def _emit(graph: Path, bytecode: Path) -> str:
    import_graph(graph, bytecode)
    return run_tool("opprof-translate", ["--emit-python", bytecode]).decode()


def _following_precision(document: dict[str, Any]) -> dict[str, Any] | None:
    """The graph with the dtype of a weight where it names the one that all of them have; None where it names none.

    A tracer writes the dtype that `x.to(weight.dtype)` found, and the lowest number of that, and a converted module computes in
    another one.
    """
    graph, types = document["graphs"][0], document["types"]
    weights = {
        entry["name"]: types[entry["type"]]["tensor"]["dtype"]
        for entry in graph["inputs"]
        if entry["kind"] == "parameter" and "tensor" in types[entry["type"]]
    }
    weights = {name: dtype for name, dtype in weights.items() if dtype in _FLOATS}
    if len(set(weights.values())) != 1:
        return None
    weight, own = next(iter(weights.items()))
    taken = {entry["name"] for entry in (*graph["inputs"], *graph["nodes"])}
    lowest = torch.finfo(getattr(torch, own)).min
    asked: dict[str, dict[str, Any]] = {}
    kinds = ("int", "float", {"object": "finfo"})

    def ask(name: str, target: str, args: list[Any], kind: Any) -> dict[str, str]:
        if name not in asked:
            own_name = name
            while own_name in taken:
                own_name += "_"
            asked[name] = {
                "name": own_name,
                "op": "call_function",
                "target": target,
                "args": args,
                "kwargs": {},
                "type": len(types) + kinds.index(kind),
            }
        return {"node": asked[name]["name"]}

    def ask_dtype() -> dict[str, str]:
        return ask("precision", "builtins.getattr", [{"node": weight}, "dtype"], "int")

    def follow(value: Any) -> Any:
        if value == {"dtype": own}:
            return ask_dtype()
        # What masks are filled with.
        if isinstance(value, float) and abs(value) == -lowest:
            limits = ask("limits", "torch.finfo", [ask_dtype()], {"object": "finfo"})
            name = "lowest" if value < 0 else "largest"
            return ask(name, "builtins.getattr", [limits, "min" if value < 0 else "max"], "float")
        if isinstance(value, dict):
            return {key: follow(entry) for key, entry in value.items()}
        return [follow(entry) for entry in value] if isinstance(value, list) else value

    nodes = [
        {**node, "args": follow(node["args"]), "kwargs": follow(node["kwargs"])}
        for node in graph["nodes"]
    ]
    if not asked:
        return None
    return {
        **document,
        "types": [*types, *kinds],
        "graphs": [{**graph, "nodes": [*asked.values(), *nodes]}],
    }


def _precisions(script: ModelScript) -> list[torch.dtype]:
    """Those in which the module gives numbers once it is converted."""
    return [dtype for dtype in _OTHER_PRECISIONS if _gives_numbers_in(script, dtype)]


def _gives_numbers_in(script: ModelScript, dtype: torch.dtype) -> bool:
    def cast(value: Any) -> Any:
        is_float = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(dtype) if is_float else copy.deepcopy(value)

    try:
        module = copy.deepcopy(script.module).to(dtype)
        with torch.no_grad(), torch.random.fork_rng():
            results = module(*tree_map(cast, script.args))
    except RuntimeError:
        return False
    return _are_finite(results)


def _own_prefix(names: Iterable[str]) -> str:
    """How names of the module's own begin, so that none is one of the archive's. They are identifiers, as Dynamo wants them."""
    firsts = [name.partition(".")[0] for name in names]
    prefix = "opprof_"
    while any(first.startswith(prefix) for first in firsts):
        prefix += "_"
    return prefix


def _with_whole_numbers(script: ArchiveScript) -> tuple[Any, ...]:
    """The arguments with other whole numbers than the zeros that they are read with, where the method takes them.

    Row 0 of an embedding is often that of padding, and holds zeros: what follows from it alone says nothing of what is computed.
    """
    args = list(script.args)
    generator = torch.Generator().manual_seed(0)
    for place, value in enumerate(args):
        is_drawn = isinstance(value, Tensor) and value.numel() > 1
        if not is_drawn or value.is_floating_point() or value.is_complex():
            continue
        # Places of a small table, or what a mask is made of.
        for end in (2,) if value.dtype is torch.bool else (16, 2):
            drawn = torch.randint(end, value.shape, generator=generator).to(value.dtype)
            if _gives_numbers(script, [*args[:place], drawn, *args[place + 1 :]]):
                args[place] = drawn
                break
    return tuple(args)


def _gives_numbers(script: ArchiveScript, args: list[Any]) -> bool:
    """True where the method takes the arguments, and no result is infinite or NaN."""
    method = getattr(_fresh(script), script.method)
    try:
        with torch.no_grad(), torch.random.fork_rng():
            results = method(*copy.deepcopy(args))
    except RuntimeError:
        return False
    return _are_finite(results)


def _are_finite(results: Any) -> bool:
    """Whether no tensor among them has anything infinite or NaN."""
    leaves = tree_leaves(results)
    floats = [value for value in leaves if isinstance(value, Tensor) and value.is_floating_point()]
    return all(bool(value.isfinite().all()) for value in floats)


def _form(value: Any) -> Any:
    """What the program asks of an argument: the sizes and dtype of a tensor, and whether another value is there."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype
    return None if value is None else "given"


def usage(script: Path, archive: Path, device: str | None = None) -> tuple[str, ...]:
    """How the module is made of a loaded archive and moved to the device, as lines of Python."""
    module = script.stem
    made = f"{module}.module_of(torch.jit.load({archive.name!r}))"
    moved = "" if device is None else f".to({device!r})"
    return (f"import {module}", f"model = {made}{moved}")


def own_usage(
    archive: Path, method: str | None = None, device: str | None = None
) -> tuple[str, ...]:
    """How the archive is run as it is."""
    called = "model" if method in (None, "forward") else f"model.{method}"
    mapped = "" if device is None else f", map_location={device!r}"
    return (
        f"model = torch.jit.load({archive.name!r}{mapped})",
        "with torch.no_grad():",
        f"    {called}(...)",
    )


def _formals(script: ArchiveScript) -> list[Any]:
    """The method's arguments as it declares them, without the module."""
    return list(getattr(script.module, script.method).schema.arguments[1:])


def _given(script: ArchiveScript) -> list[int]:
    """The places of the method's arguments that the graph takes: those left to their defaults are constants in it."""
    taken = {
        one["name"] for one in script.graph["graphs"][0]["inputs"] if one["kind"] == "user_input"
    }
    places = [place for place, formal in enumerate(_formals(script)) if formal.name in taken]
    if len(places) != len(taken):
        raise OpprofError(
            f"{script.path}: the graph's inputs are called otherwise than the method's"
        )
    return places


def _check_form(archive: Path, document: dict[str, Any]) -> None:
    """Refuses nodes that a module for torch.compile cannot have, and says where they stand."""
    graph = document["graphs"][0]
    # Objects by the names that nodes take them by.
    objects = {
        entry["name"]: str(entry["target"])
        for entry in graph["inputs"]
        if entry["kind"] == "constant_object"
    }
    for node in graph["nodes"]:
        found = _obstacle(node, objects)
        if found is not None:
            what, remedy = found
            place, code = place_of(node, document)
            said = f": {code}" if place else ""
            raise OpprofError(
                f"{place or archive}: {what}{said}\n  no program for torch.compile can be made of this",
                remedy=f"`opprof profile` shows where its time goes; {remedy}",
            )


_BY_SIZES = "what sizes decide is decided by --input"
_BEFORE_QUANTIZATION = "an archive of the model as it was before it was quantized can be optimized"


def _obstacle(node: dict[str, Any], objects: dict[str, str]) -> tuple[str, str] | None:
    """What a program for torch.compile cannot have, and what helps besides a profile."""
    target = node["target"]
    if target == "prim.If":
        return "the method branches on what it computes", _BY_SIZES
    if target == "prim.Loop":
        return "the method loops as long as what it computes says", _BY_SIZES
    if target == "prim.SetAttr" or node["op"] == "get_attr":
        return "the method reads or writes an attribute that it changes", _BY_SIZES
    if target.startswith("prim."):
        return f"the method runs {target}", _BY_SIZES
    for taken in _objects_in([*node["args"], *node["kwargs"].values()], objects):
        name = ".".join(target.split(".")[:2])
        if "quantized" in name:
            what = f"{name} takes weights that PyTorch packed when the model was quantized, {taken}"
            return f"{what}, and torch.compile compiles no operator that does", _BEFORE_QUANTIZATION
        return f"{name} takes an object, {taken}", "give the model tensors in its place"
    return None


def _objects_in(value: Any, objects: dict[str, str]) -> Iterator[str]:
    """The objects in a node's arguments, by the attributes that hold them, or by their classes where the code itself does."""
    if isinstance(value, list):
        for one in value:
            yield from _objects_in(one, objects)
    elif isinstance(value, dict):
        kind = value["object"]["type"] if set(value) == {"object"} else ""
        if kind.startswith("torch.classes."):
            yield f"a {kind.removeprefix('torch.classes.')} among the constants of the code"
        elif value.get("node") in objects:
            yield objects[value["node"]]
        else:
            yield from _objects_in(list(value.values()), objects)


def _check_results(archive: ArchiveScript, script: ModelScript, places: list[int]) -> None:
    """Refuses a module that does not give the bits that TorchScript gives, on the first inputs and others, of which it says where it does
    without some.
    """
    start = time.monotonic()
    for number, seed in enumerate((None, *_SEEDS)):
        if number >= _LEAST_CHECKED and time.monotonic() - start > _CHECK_SECONDS:
            of_all = f"{number} inputs, not on {1 + len(_SEEDS)}"
            progress(f"  held against TorchScript on {of_all}: a run takes long")
            break
        args = script.args if seed is None else script.inputs(seed)[0]
        whole = list(archive.args)
        for place, value in zip(places, args, strict=True):
            whole[place] = value
        # Either may write what it is given and what it holds, or draw random numbers.
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            own = tree_leaves(copy.deepcopy(script.module)(*copy.deepcopy(args)))
            torch.manual_seed(0)
            method = getattr(_fresh(archive), archive.method)
            expected = tree_leaves(method(*copy.deepcopy(whole)))
        if len(own) != len(expected) or not all(map(_is_same, own, expected)):
            raise OpprofError(
                f"{archive.path}: the program that was made of it gives other results than TorchScript",
                remedy="report this with the archive: it is a fault of opprof's",
            )


def _fresh(archive: ArchiveScript) -> Any:
    """The archive's module as it was loaded. A copy that LibTorch makes of one shares no memory where the module's tensors do, and a
    recurrent layer of it gives other bits."""
    return torch.jit.load(archive.path, map_location="cpu")


def _is_same(first: Any, second: Any) -> bool:
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        return bool(first == second)
    return (first.dtype, first.shape) == (second.dtype, second.shape) and torch.equal(
        _bits(first), _bits(second)
    )


def _bits(tensor: Tensor) -> Tensor:
    """What it holds as bytes, in which a NaN is itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)
